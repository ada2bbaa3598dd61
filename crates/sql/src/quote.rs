//! Quotes names and text in SQL, and finds quoted names.
//!
//! | form | item |
//! |---|---|
//! | name in backquotes, for any `sql_mode` | [`put_name`], [`quote_name`] |
//! | name of a database and of its table | [`put_table`], [`quote_table`] |
//! | name in double quotes, for `ANSI_QUOTES` and SQLite | [`quote_ansi_name`] |
//! | string, with backslashes as escapes, the default of MySQL | [`quote_text`] |
//! | string without escapes, for `NO_BACKSLASH_ESCAPES` and SQLite | [`quote_plain_text`] |
//! | literal for any `sql_mode` and any character set of the session | [`hex_value`] |

use std::fmt::Write as _;

/// Appends a name in backquotes, which mean the same in any `sql_mode`.
///
/// In a character set where a backquote may be the last byte of another character (Big5, GBK, SJIS, GB18030), the
/// result is safe only if the name is ASCII.
pub fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'`');
    put_doubled(out, name, b'`');
    out.push(b'`');
}

/// Returns a name in backquotes.
pub fn quote_name(name: &str) -> String {
    enclosed(name, '`')
}

/// Appends the names of a database and its table, in backquotes.
pub fn put_table(out: &mut Vec<u8>, database: &[u8], table: &[u8]) {
    put_name(out, database);
    out.push(b'.');
    put_name(out, table);
}

/// Returns the names of a database and its table, in backquotes.
pub fn quote_table(database: &str, table: &str) -> String {
    format!("{}.{}", quote_name(database), quote_name(table))
}

/// Returns a name in double quotes, as SQLite and MySQL's `ANSI_QUOTES` expect it.
pub fn quote_ansi_name(name: &str) -> String {
    enclosed(name, '"')
}

/// Returns text as a string literal for a session without `NO_BACKSLASH_ESCAPES`, on one line.
pub fn quote_text(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\0', "\\0");
    quote_plain_text(&text)
}

/// Returns text as a string literal in which a backslash has no meaning: for SQLite, and for sessions with
/// `NO_BACKSLASH_ESCAPES`.
pub fn quote_plain_text(text: &str) -> String {
    enclosed(text, '\'')
}

/// Returns the name of a time zone as a string literal, such as `'+01:00'`, `'Europe/Berlin'` or `'SYSTEM'`; `None` for
/// a name with a character that no zone has.
pub fn quote_time_zone(name: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-:/_".contains(byte);
    let is_zone = name.iter().all(is_plain);
    is_zone.then(|| quote_plain_text(&String::from_utf8_lossy(name)))
}

fn enclosed(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for (index, part) in text.split(quote).enumerate() {
        if index > 0 {
            out.extend([quote, quote]);
        }
        out.push_str(part);
    }
    out.push(quote);
    out
}

/// Appends text with each of these quotes doubled, as required within quotes.
pub fn put_doubled(out: &mut Vec<u8>, text: &[u8], quote: u8) {
    for &byte in text {
        if byte == quote {
            out.push(quote);
        }
        out.push(byte);
    }
}

/// Splits off a quoted name at the start of a text. Returns the unquoted name and the remaining text. The quote is a
/// backquote or, as with the SQL mode ANSI_QUOTES, a double quote.
pub fn split_name(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (quote, mut rest) = text.split_first().filter(|(quote, _)| matches!(quote, b'`' | b'"'))?;
    let mut name = Vec::new();
    loop {
        let end = rest.iter().position(|byte| byte == quote)?;
        name.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(&[*quote]) {
            Some(after) => {
                name.push(*quote);
                rest = after;
            }
            None => return Some((name, rest)),
        }
    }
}

/// Appends bytes in hexadecimal.
pub fn put_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Parses hexadecimal digits.
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Returns a name as a literal to compare with columns of `information_schema`, independent of the session's character
/// set.
pub fn hex_value(name: &[u8]) -> String {
    let mut out = "_utf8mb3 X'".to_owned();
    put_hex(&mut out, name);
    out.push('\'');
    out
}

/// Returns the condition that selects the rows of `information_schema` for this table.
pub fn table_condition(database: &[u8], table: &[u8]) -> String {
    format!("table_schema = {} AND table_name = {}", hex_value(database), hex_value(table))
}

#[cfg(test)]
mod tests {
    use super::{
        put_table, quote_ansi_name, quote_plain_text, quote_table, quote_text, quote_time_zone, split_name,
        table_condition,
    };

    #[test]
    fn names_and_texts_are_quoted() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(quote_table("d", "a`b"), "`d`.`a``b`");
        check(quote_table("", "``"), "``.``````");
        check(quote_ansi_name("a\"`b"), "\"a\"\"`b\"");
        check(quote_text("it's\\\n\r\0"), r"'it''s\\\n\r\0'");
        check(quote_plain_text("it's\\"), r"'it''s\'");
    }

    #[test]
    fn time_zones_contain_no_quotes() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(quote_time_zone(name.as_bytes()).as_deref(), expected, "{name}");
        };
        check("+01:00", Some("'+01:00'"));
        check("America/Port-au-Prince", Some("'America/Port-au-Prince'"));
        check("x', @@session.sql_log_bin = 0, @a = '", None);
        check("x\\", None);
    }

    #[test]
    fn quoted_names_round_trip() {
        let mut out = Vec::new();
        put_table(&mut out, b"a`b", b"t");
        assert_eq!(out, b"`a``b`.`t`");
        assert_eq!(split_name(&out), Some((b"a`b".to_vec(), b".`t`".as_slice())));
        assert_eq!(split_name(b"\"a`\"\"b\" x"), Some((b"a`\"b".to_vec(), b" x".as_slice())));
        assert_eq!(split_name(b"`a``"), None);
        assert_eq!(split_name(b"a"), None);
    }

    #[test]
    fn table_conditions_use_hexadecimal_bytes() {
        assert_eq!(
            table_condition(b"d'", b"t"),
            "table_schema = _utf8mb3 X'6427' AND table_name = _utf8mb3 X'74'"
        );
    }
}
