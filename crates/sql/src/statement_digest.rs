//! Digests of statements: statements that differ only in their literals have the same digest.

use crate::lexer::{SqlLexer, SqlTokenKind};

/// Largest size of a digest in bytes, as with the server's default of `max_digest_length`.
const DIGEST_SIZE_MAX: usize = 1024;

/// Returns a statement with `?` instead of its literals, with single blanks, and without comments, similar to
/// `DIGEST_TEXT` of MySQL's performance schema. Lists of literals become `(...)`, and repeated rows of values become
/// one. Truncates the text to 1024 bytes. Replaces bytes that are not UTF-8. `sql_mode` has the bits of the session
/// that ran the statement.
///
/// ```
/// # use sql::statement_digest;
/// let digest = statement_digest(b"insert into t  values (1, 'a'),(2, NULL) -- two rows", 0);
/// assert_eq!(digest, "insert into t values (...)");
/// ```
pub fn statement_digest(sql: &[u8], sql_mode: u64) -> String {
    let mut digest = StatementDigestBuilder::default();
    let mut tokens = SqlLexer::new(sql, sql_mode);
    // The size counts a sign twice, because it may have a blank.
    while digest.size < 2 * DIGEST_SIZE_MAX
        && let Some(token) = tokens.next()
    {
        if !token.is_blank() {
            digest.push(token.kind, tokens.bytes(&token));
        }
    }
    digest.finish()
}

/// The digest so far, as words and signs.
#[derive(Default)]
struct StatementDigestBuilder<'s> {
    parts: Vec<DigestPart<'s>>,
    size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestPart<'s> {
    Text(&'s [u8]),
    Sign(u8),
    /// A literal.
    Value,
    /// Literals in parentheses.
    Values,
}

impl<'s> StatementDigestBuilder<'s> {
    fn push(&mut self, kind: SqlTokenKind, bytes: &'s [u8]) {
        use SqlTokenKind as K;
        let part = match kind {
            // A truncated string is a string without an end.
            K::String | K::Number | K::Hex | K::Bits | K::Malformed => DigestPart::Value,
            K::Word if self.is_null_value(bytes) => DigestPart::Value,
            K::Sign => DigestPart::Sign(bytes.first().copied().unwrap_or_default()),
            _ => DigestPart::Text(bytes),
        };
        if part == DigestPart::Value {
            self.remove_number_sign();
            // Adjacent strings are one literal, which includes an introducer.
            if matches!(self.parts.last(), Some(DigestPart::Value)) {
                return;
            }
        }
        self.size += if let DigestPart::Text(text) = part { text.len() + 1 } else { 2 };
        self.parts.push(part);
        if part == DigestPart::Sign(b')') {
            self.fold_list();
        }
    }

    /// Returns whether this word is a NULL in a list or an assignment, not in `IS NULL`.
    fn is_null_value(&self, word: &[u8]) -> bool {
        word.eq_ignore_ascii_case(b"NULL")
            && matches!(self.parts.last(), Some(DigestPart::Sign(b'(' | b',' | b'=')))
    }

    /// Removes a sign that belongs to a number, not to a subtraction or an addition.
    fn remove_number_sign(&mut self) {
        if let [.., DigestPart::Sign(before), DigestPart::Sign(b'-' | b'+')] = self.parts.as_slice()
            && *before != b')'
        {
            self.parts.pop();
        }
    }

    /// Folds the list that ends here, if it has only literals: `(?, ?)` to `(...)`, and `(...), (...)` to one.
    fn fold_list(&mut self) {
        let is_inner = |part: &DigestPart<'_>| matches!(part, DigestPart::Value | DigestPart::Sign(b','));
        let inner = self.parts.iter().rev().skip(1).take_while(|part| is_inner(part)).count();
        let Some(start) = self.parts.len().checked_sub(inner + 2) else { return };
        if inner == 0 || self.parts[start] != DigestPart::Sign(b'(') {
            return;
        }
        // Fold even a single literal: the list of a similar statement may have more.
        self.parts.truncate(start);
        self.size = self.size.saturating_sub(2 * (inner + 1));
        match self.parts.as_slice() {
            [.., DigestPart::Values, DigestPart::Sign(b',')] => drop(self.parts.pop()),
            _ => self.parts.push(DigestPart::Values),
        }
    }

    fn finish(self) -> String {
        let mut out = Vec::with_capacity(self.size.min(2 * DIGEST_SIZE_MAX));
        let mut previous = None;
        // A semicolon at the end is not a part of the statement.
        let end =
            self.parts.iter().rposition(|part| *part != DigestPart::Sign(b';')).map_or(0, |last| last + 1);
        for part in &self.parts[..end] {
            if needs_blank(previous, *part) {
                out.push(b' ');
            }
            match part {
                DigestPart::Text(text) => out.extend_from_slice(text),
                DigestPart::Sign(sign) => out.push(*sign),
                DigestPart::Value => out.push(b'?'),
                DigestPart::Values => out.extend_from_slice(b"(...)"),
            }
            previous = Some(*part);
        }
        truncate_text(&String::from_utf8_lossy(&out)).to_owned()
    }
}

/// Returns whether a blank separates two parts.
fn needs_blank(previous: Option<DigestPart<'_>>, part: DigestPart<'_>) -> bool {
    let Some(previous) = previous else { return false };
    match (previous, part) {
        (_, DigestPart::Sign(b',' | b')' | b';' | b'.')) => false,
        (DigestPart::Sign(b'(' | b'.' | b'@'), _) => false,
        (DigestPart::Text(_), DigestPart::Sign(b'@')) => true,
        // Operators of two signs, such as `>=` and `:=`.
        (DigestPart::Sign(_), DigestPart::Sign(sign)) => matches!(sign, b'(' | b'@'),
        _ => true,
    }
}

/// Returns the start of the text, truncated at a character boundary.
fn truncate_text(text: &str) -> &str {
    let end = (0..=DIGEST_SIZE_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use binlog::sql_mode::ANSI_QUOTES;

    use super::{DIGEST_SIZE_MAX, statement_digest};

    #[test]
    fn literals_and_blanks_do_not_count() {
        check("update t set a = 5 where id=4711", "update t set a = ? where id = ?");
        check("UPDATE `t` SET a='x''y',b = -1.5e3", "UPDATE `t` SET a = ?, b = ?");
        check(
            "delete from shop.orders /* nightly */ where id in (1, 2,3);",
            "delete from shop.orders where id in (...)",
        );
        check("delete from t where id in (1)", "delete from t where id in (...)");
        check("insert into t values (1,'a'),(2,NULL),\n(0x33, b'1')", "insert into t values (...)");
        check("insert into t (a, b) values (1, now())", "insert into t (a, b) values (?, now ())");
        check("update t set a = a - 1 where b is null", "update t set a = a - ? where b is null");
        check("update t set a = @x where b >= 3", "update t set a = @x where b >= ?");
        check("set @a := 'x' 'y'", "set @a := ?");
        check("", "");
        check(";", "");
    }

    #[test]
    fn quotes_depend_on_the_sql_mode() {
        assert_eq!(statement_digest(b"select \"a\"", 0), "select ?");
        assert_eq!(statement_digest(b"select \"a\"", ANSI_QUOTES), "select \"a\"");
    }

    #[test]
    fn long_statements_are_cut() {
        let sql = format!("select {}", "ä, ".repeat(DIGEST_SIZE_MAX));
        let digest = statement_digest(sql.as_bytes(), 0);
        assert!(digest.len() <= DIGEST_SIZE_MAX && digest.len() > DIGEST_SIZE_MAX - 8);
        check("select 'abc", "select ?");
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        assert_eq!(statement_digest(sql.as_bytes(), 0), expected, "{sql}");
    }
}
