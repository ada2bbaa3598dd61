//! Patterns for tables, in the notation of bintide's `--table`.

use std::fmt;

use crate::quote::quote_name;

/// A pattern for tables: `database.table`, or `table` in any database. `*` matches any text, `?` any single character.
/// In a name in backticks, both match only themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    database: Option<TableNamePart>,
    table: TableNamePart,
}

/// Name of a database, or name of a table in it, as a user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNamePart {
    /// The name without backticks.
    pub name: Vec<u8>,
    /// True if the name was in backticks.
    pub is_quoted: bool,
}

impl TablePattern {
    /// Parses a pattern, with names as in [`split_table_name`].
    pub fn new(text: &[u8]) -> Self {
        let (database, table) = split_table_name(text);
        Self { database, table }
    }

    /// Returns whether the table matches.
    pub fn fits(&self, database: &[u8], table: &[u8]) -> bool {
        self.database.as_ref().is_none_or(|pattern| pattern.fits(database)) && self.table.fits(table)
    }
}

impl TablePattern {
    /// Returns the pattern in lower case.
    pub(crate) fn to_lowercase(&self) -> Self {
        Self {
            database: self.database.as_ref().map(TableNamePart::to_lowercase),
            table: self.table.to_lowercase(),
        }
    }
}

impl TableNamePart {
    fn to_lowercase(&self) -> Self {
        Self { name: lowercase(&self.name), is_quoted: self.is_quoted }
    }
}

/// Returns a name in lower case. A name that is not UTF-8 changes in its ASCII letters only.
pub(crate) fn lowercase(name: &[u8]) -> Vec<u8> {
    match str::from_utf8(name) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// Splits `database.table` at the first dot. Names may be in backticks, as in SQL: dots in backticks are part of the
/// name. The database is `None` if there is only one name.
pub fn split_table_name(text: &[u8]) -> (Option<TableNamePart>, TableNamePart) {
    let end = match text.first() {
        Some(b'`') => quoted_size(text),
        _ => text.iter().position(|byte| *byte == b'.').unwrap_or(text.len()),
    };
    let (first, rest) = text.split_at(end);
    match rest.split_first() {
        Some((b'.', table)) => (Some(TableNamePart::new(first)), TableNamePart::new(table)),
        _ => (None, TableNamePart::new(text)),
    }
}

/// Returns the size of the quoted name at the start of a text: a doubled backtick does not end it.
fn quoted_size(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(length) = text[at..].iter().position(|byte| *byte == b'`') {
        at += length + 1;
        if text.get(at) != Some(&b'`') {
            return at;
        }
        at += 1;
    }
    text.len()
}

impl TableNamePart {
    /// Reads a name, which may be in backticks.
    fn new(text: &[u8]) -> Self {
        let inner = text.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`"));
        let Some(inner) = inner else { return Self { name: text.to_vec(), is_quoted: false } };
        let mut name = Vec::with_capacity(inner.len());
        let mut bytes = inner.iter().copied();
        while let Some(byte) = bytes.next() {
            name.push(byte);
            if byte == b'`' {
                bytes.next();
            }
        }
        Self { name, is_quoted: true }
    }

    fn fits(&self, name: &[u8]) -> bool {
        if self.is_quoted { self.name == name } else { fits(&self.name, name) }
    }
}

impl fmt::Display for TableNamePart {
    /// Prints backticks only if they make a `*` or `?` literal.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name);
        match self.is_quoted && name.contains(['*', '?']) {
            true => out.write_str(&quote_name(&name)),
            false => out.write_str(&name),
        }
    }
}

impl fmt::Display for TablePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write!(out, "{database}.")?;
        }
        write!(out, "{}", self.table)
    }
}

/// Returns whether all of the text matches the pattern.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Backtracking point: the pattern after the last star, and the text after the star's match.
    let mut retry: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                from += character_size(&text[from..]);
            }
            Some(byte) if *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut retry {
                Some((resume, start)) => {
                    *start += 1;
                    (at, from) = (*resume, *start);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the size of the first character of UTF-8 text, in bytes.
fn character_size(text: &[u8]) -> usize {
    1 + text.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::TablePattern;

    #[test]
    fn patterns() {
        check("shop.orders", "shop", "orders", true);
        check("shop.orders", "shop", "order", false);
        check("shop.orders", "shops", "orders", false);
        check("orders", "any", "orders", true);
        check("*.orders", "any", "orders", true);
        check("shop.*", "shop", "", true);
        check("sh*p.o*r*s", "shop", "orders", true);
        check("sh*p.o*r*x", "shop", "orders", false);
        check("*.*a*a*a*a*b", "d", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
        check("?.?", "ä", "x", true);
        check("?.?", "ä", "xy", false);
        check("a.b.c", "a", "b.c", true);
        check("`shop`.`orders`", "shop", "orders", true);
        check("`shop`.orders", "shop", "orders", true);
        check("shop.`orders`", "shop", "orders", true);
        check("`A-b.c`.`D.e`", "A-b.c", "D.e", true);
        check("`D.e`", "any", "D.e", true);
        check("`a``b`.`c`", "a`b", "c", true);
        check("`shop`.*", "shop", "orders", true);
        check("`", "any", "`", true);
        check("`a", "any", "`a", true);
        check("``", "any", "", true);
        check("", "a", "", true);
        check("", "a", "b", false);
    }

    #[test]
    fn wildcards_in_backticks_are_literal() {
        check("wc.`a?c`", "wc", "a?c", true);
        check("wc.`a?c`", "wc", "abc", false);
        check("wc.`50%*`", "wc", "50%*", true);
        check("wc.`50%*`", "wc", "50%x", false);
        check("`w?`.a?c", "w?", "abc", true);
        check("`w?`.a?c", "wc", "abc", false);
        check("w?.`a?c`", "wc", "a?c", true);
        check("`*`", "any", "*", true);
        check("`*`", "any", "t", false);
    }

    #[test]
    fn patterns_are_printed_with_the_backticks_that_matter() {
        let check = |pattern: &str, expected: &str| {
            assert_eq!(TablePattern::new(pattern.as_bytes()).to_string(), expected);
        };
        check("`shop`.`orders`", "shop.orders");
        check("shop.`a?c`", "shop.`a?c`");
        check("`a``*`.t*", "`a``*`.t*");
    }

    #[track_caller]
    fn check(pattern: &str, database: &str, table: &str, expected: bool) {
        let fits = TablePattern::new(pattern.as_bytes()).fits(database.as_bytes(), table.as_bytes());
        assert_eq!(fits, expected, "{pattern} {database}.{table}");
    }
}
