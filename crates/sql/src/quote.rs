//! Quotes names and bytes in SQL.

use std::fmt::Write as _;

/// Appends a name in backquotes.
pub fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'`');
    for byte in name {
        if *byte == b'`' {
            out.push(b'`');
        }
        out.push(*byte);
    }
    out.push(b'`');
}

/// Appends the names of a database and its table, in backquotes.
pub fn put_table(out: &mut Vec<u8>, database: &[u8], table: &[u8]) {
    put_name(out, database);
    out.push(b'.');
    put_name(out, table);
}

/// Splits off a quoted name at the start of a text. Returns the unquoted name and the rest. The quote is a backquote
/// or, as with the SQL mode ANSI_QUOTES, a double quote.
pub fn split_name(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (quote, mut rest) = text.split_first().filter(|(quote, _)| matches!(quote, b'`' | b'"'))?;
    let mut name = Vec::new();
    loop {
        let end = rest.iter().position(|byte| byte == quote)?;
        name.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(&[*quote]) {
            Some(behind) => {
                name.push(*quote);
                rest = behind;
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
    use super::{put_table, split_name, table_condition};

    #[test]
    fn names_are_quoted_and_found_again() {
        let mut out = Vec::new();
        put_table(&mut out, b"a`b", b"t");
        assert_eq!(out, b"`a``b`.`t`");
        assert_eq!(split_name(&out), Some((b"a`b".to_vec(), b".`t`".as_slice())));
        assert_eq!(split_name(b"\"a`\"\"b\" x"), Some((b"a`\"b".to_vec(), b" x".as_slice())));
        assert_eq!(split_name(b"`a``"), None);
        assert_eq!(split_name(b"a"), None);
    }

    #[test]
    fn tables_are_found_by_their_bytes() {
        assert_eq!(
            table_condition(b"d'", b"t"),
            "table_schema = _utf8mb3 X'6427' AND table_name = _utf8mb3 X'74'"
        );
    }
}
