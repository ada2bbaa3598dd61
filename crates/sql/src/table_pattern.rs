//! Patterns for tables, in the notation of bintide's `--table`.

use std::fmt;

/// A pattern for tables: `database.table`, or `table` in any database. `*` matches any text, `?` any one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    database: Option<Vec<u8>>,
    table: Vec<u8>,
}

impl TablePattern {
    /// Parses a pattern. The first dot ends the database's name.
    pub fn new(text: &[u8]) -> Self {
        match text.iter().position(|byte| *byte == b'.') {
            Some(point) => Self { database: Some(text[..point].to_vec()), table: text[point + 1..].to_vec() },
            None => Self { database: None, table: text.to_vec() },
        }
    }

    /// Returns whether the table matches.
    pub fn fits(&self, database: &[u8], table: &[u8]) -> bool {
        self.database.as_ref().is_none_or(|pattern| fits(pattern, database)) && fits(&self.table, table)
    }
}

impl fmt::Display for TablePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write!(out, "{}.", String::from_utf8_lossy(database))?;
        }
        out.write_str(&String::from_utf8_lossy(&self.table))
    }
}

/// Returns whether all of the text matches the pattern.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Backtracking point: the pattern after the last star, and the text after what the star has matched.
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
                Some((behind, start)) => {
                    *start += 1;
                    (at, from) = (*behind, *start);
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
        check("", "a", "", true);
        check("", "a", "b", false);
    }

    #[track_caller]
    fn check(pattern: &str, database: &str, table: &str, wanted: bool) {
        let fits = TablePattern::new(pattern.as_bytes()).fits(database.as_bytes(), table.as_bytes());
        assert_eq!(fits, wanted, "{pattern} {database}.{table}");
    }
}
