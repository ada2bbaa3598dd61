//! Words of a statement, and a cursor over them.

use std::ops::Range;

use crate::lexer::{SqlLexer, SqlTokenKind, digits_of, name_of, string_of};
use crate::statement::ROW_VERBS;

/// One word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlWord {
    /// A keyword or an unquoted name.
    Plain(String),
    /// A quoted name.
    Quoted(String),
    /// A string literal.
    Text(String),
    /// A string literal of a client without a character set: its meaning depends on the column that receives the value.
    Bytes,
    /// A number, as written.
    Number(String),
    /// The digits of `x'…'` or `0x…`.
    Hex(String),
    /// The digits of `b'…'`.
    Bits(String),
    /// An operator or punctuation.
    Sign(String),
}

/// Cursor over the words of a whole statement. Owns the words' values as UTF-8, so that a caller can split off and keep
/// groups of words. [`TokenCursor`](crate::TokenCursor) reads statements of any character set, in place and only as far
/// as needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlWords {
    words: Vec<SqlWord>,
    /// Byte range of each word in the text.
    ranges: Vec<Range<usize>>,
    at: usize,
    /// Bits of `sql_mode`.
    sql_mode: u64,
}

impl SqlWords {
    /// Splits a statement into words, without comments, according to the bits of `sql_mode`. Comments that servers
    /// execute are part of the statement. Adjacent strings become one. Returns `None` if quotes or a comment have no
    /// end, or a literal has wrong digits.
    pub fn parse(text: &str, sql_mode: u64) -> Option<Self> {
        let mut words: Vec<SqlWord> = Vec::new();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let lexer = SqlLexer::new(text.as_bytes(), sql_mode);
        for token in lexer.clone().filter(|token| !token.is_blank()) {
            let bytes = lexer.bytes(&token);
            let word = word(token.kind, bytes, sql_mode)?;
            match (words.last_mut(), word) {
                (Some(SqlWord::Text(before)), SqlWord::Text(text)) => before.push_str(&text),
                (Some(last), word) if is_introduced(last, &word) => *last = word,
                (_, word) => {
                    words.push(word);
                    ranges.push(token.at);
                    continue;
                }
            }
            if let Some(range) = ranges.last_mut() {
                range.end = token.at.end;
            }
        }
        Some(Self { words, ranges, at: 0, sql_mode })
    }

    /// Marks non-ASCII literals as [`SqlWord::Bytes`]: the client had no character set, so the literal has its
    /// destination's character set.
    pub fn with_unknown_charset(mut self) -> Self {
        let is_doubtful = |word: &&mut SqlWord| matches!(word, SqlWord::Text(text) if !text.is_ascii());
        self.words.iter_mut().filter(is_doubtful).for_each(|word| *word = SqlWord::Bytes);
        self
    }

    /// Returns the next word.
    pub fn peek(&self) -> Option<&SqlWord> {
        self.words.get(self.at)
    }

    /// Returns true at the end of the statement.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.words.len() || self.peek() == Some(&SqlWord::Sign(";".to_owned()))
    }

    /// Returns the byte range of the words that are left, without a semicolon at the end.
    pub fn rest_range(&self) -> Range<usize> {
        let is_semicolon = |word: &SqlWord| *word == SqlWord::Sign(";".to_owned());
        let count = self.words.len() - usize::from(self.words.last().is_some_and(is_semicolon));
        let end = self.ranges[..count].last().map_or(0, |range| range.end);
        let start = self.ranges.get(self.at).map_or(end, |range| range.start);
        start.min(end)..end
    }

    /// Returns the bits of `sql_mode` that the statement is run with.
    pub(crate) const fn sql_mode(&self) -> u64 {
        self.sql_mode
    }

    /// Takes the next word.
    pub fn take_next(&mut self) -> Option<SqlWord> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    /// Returns true if these keywords come next.
    pub fn is_next(&self, keywords: &str) -> bool {
        keywords.split(' ').enumerate().all(|(ahead, keyword)| self.is_at(ahead, keyword))
    }

    /// Returns true if any of these keywords come next.
    pub fn is_any_next(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keywords| self.is_next(keywords))
    }

    /// Returns true if a keyword and an equals sign come next.
    pub(crate) fn is_assignment(&self) -> bool {
        let next = self.words.get(self.at..self.at + 2);
        matches!(next, Some([SqlWord::Plain(_), SqlWord::Sign(sign)]) if sign == "=")
    }

    fn is_at(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.words.get(self.at + ahead), Some(SqlWord::Plain(word)) if word.eq_ignore_ascii_case(keyword))
    }

    /// Takes these keywords, if they come next.
    pub fn take(&mut self, keywords: &str) -> bool {
        let found = self.is_next(keywords);
        if found {
            self.at += keywords.split(' ').count();
        }
        found
    }

    /// Takes the first of these keywords that matches.
    pub fn take_any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.take(keyword))
    }

    /// Skips MariaDB's `SET STATEMENT variable = value, … FOR`, if it comes next. The executed statement follows it.
    pub fn skip_set_statement(&mut self) {
        let mut words = self.clone();
        if !words.take("SET STATEMENT") {
            return;
        }
        while !words.is_at_end() {
            if words.take("FOR") {
                self.at = words.at;
                return;
            }
            words.skip();
        }
    }

    /// Skips `ANALYZE` and its format before a statement that changes rows. MariaDB executes the statement.
    pub fn skip_analyze(&mut self) {
        let mut words = self.clone();
        if !words.take("ANALYZE") {
            return;
        }
        if words.take("FORMAT") {
            words.take_sign("=");
            words.skip();
        }
        if words.is_row_statement() {
            self.at = words.at;
        }
    }

    /// Returns whether the rest is a statement that changes rows and no definitions, if it is from a log.
    pub fn is_row_statement(&self) -> bool {
        self.is_any_next(&ROW_VERBS)
    }

    /// Returns true if the next word is this sign.
    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(SqlWord::Sign(found)) if found == sign)
    }

    /// Takes this sign, if it comes next.
    pub fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    /// Takes the next word, if it is a name.
    pub fn take_name(&mut self) -> Option<String> {
        match self.take_next()? {
            SqlWord::Plain(name) | SqlWord::Quoted(name) => Some(name),
            _ => {
                self.at -= 1;
                None
            }
        }
    }

    /// Takes an optional name. Returns `None` if no name comes next, or one of the keywords `but`.
    pub fn take_optional_name(&mut self, but: &[&str]) -> Option<String> {
        match but.iter().any(|keyword| self.is_next(keyword)) {
            true => None,
            false => self.take_name(),
        }
    }

    /// Takes a table's name, with its database if given.
    pub fn take_table(&mut self) -> Option<(Option<String>, String)> {
        let first = self.take_name()?;
        match self.take_sign(".") {
            true => Some((Some(first), self.take_name()?)),
            false => Some((None, first)),
        }
    }

    /// Takes a group in parentheses, if one comes next. Returns the words inside.
    pub fn take_group(&mut self) -> Option<Self> {
        if !self.is_sign("(") {
            return None;
        }
        let start = self.at + 1;
        let mut depth = 0usize;
        while let Some(word) = self.take_next() {
            match word {
                SqlWord::Sign(sign) if sign == "(" => depth += 1,
                SqlWord::Sign(sign) if sign == ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inside = start..self.at - 1;
                let ranges = self.ranges[inside.clone()].to_vec();
                return Some(Self {
                    words: self.words[inside].to_vec(),
                    ranges,
                    at: 0,
                    sql_mode: self.sql_mode,
                });
            }
        }
        None
    }

    /// Takes all remaining words, and splits them at commas outside of parentheses.
    pub fn split_at_commas(&mut self) -> Vec<Self> {
        let sql_mode = self.sql_mode;
        let empty = || Self { words: Vec::new(), ranges: Vec::new(), at: 0, sql_mode };
        let mut parts = vec![empty()];
        let mut depth = 0usize;
        while !self.is_at_end() {
            let Some(range) = self.ranges.get(self.at).cloned() else { break };
            let Some(word) = self.take_next() else { break };
            match &word {
                SqlWord::Sign(sign) if sign == "(" => depth += 1,
                SqlWord::Sign(sign) if sign == ")" => depth = depth.saturating_sub(1),
                SqlWord::Sign(sign) if sign == "," && depth == 0 => {
                    parts.push(empty());
                    continue;
                }
                _ => {}
            }
            if let Some(part) = parts.last_mut() {
                part.words.push(word);
                part.ranges.push(range);
            }
        }
        parts
    }

    /// Skips the next word, or a whole group in parentheses.
    pub fn skip(&mut self) {
        if self.take_group().is_none() {
            self.at += 1;
        }
    }

    /// Returns true if one of these keywords follows anywhere outside of parentheses.
    pub fn has_ahead(&self, keywords: &[&str]) -> bool {
        let mut rest = self.clone();
        while !rest.is_at_end() {
            if keywords.iter().any(|keyword| rest.is_next(keyword)) {
                return true;
            }
            rest.skip();
        }
        false
    }

    /// Returns the next keywords, at most `count`, in capitals. Messages name a statement by these keywords.
    pub fn keywords_ahead(&self, count: usize) -> String {
        let words = self.words.iter().skip(self.at).map_while(|word| match word {
            SqlWord::Plain(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        });
        words.take(count).collect::<Vec<_>>().join(" ")
    }
}

fn word(kind: SqlTokenKind, bytes: &[u8], sql_mode: u64) -> Option<SqlWord> {
    // Tokens of UTF-8 text are UTF-8.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(match kind {
        SqlTokenKind::Word => SqlWord::Plain(text(bytes)),
        SqlTokenKind::QuotedName => SqlWord::Quoted(text(&name_of(bytes))),
        SqlTokenKind::String => SqlWord::Text(text(&string_of(bytes, sql_mode))),
        SqlTokenKind::Number => SqlWord::Number(text(bytes)),
        SqlTokenKind::Hex => SqlWord::Hex(text(digits_of(bytes))),
        SqlTokenKind::Bits => SqlWord::Bits(text(digits_of(bytes))),
        SqlTokenKind::Malformed => return None,
        _ => SqlWord::Sign(text(bytes)),
    })
}

/// Returns true for a string with an introducer: `_utf8mb4'…'`.
fn is_introduced(before: &SqlWord, word: &SqlWord) -> bool {
    matches!((before, word), (SqlWord::Plain(set), SqlWord::Text(_)) if set.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};

    use super::{SqlWord, SqlWords};

    fn check(sql: &str, sql_mode: u64, expected: &[SqlWord]) {
        let words = SqlWords::parse(sql, sql_mode).map(|words| words.words);
        assert_eq!(words.as_deref(), Some(expected), "{sql}");
    }

    fn text(text: &str) -> SqlWord {
        SqlWord::Text(text.to_owned())
    }

    #[test]
    fn strings() {
        check("_utf8mb4'a' 'b' /* c */ \"d\"", 0, &[text("abd")]);
        check("n'a' _latin1 'b'", 0, &[text("a"), text("b")]);
        check(r"'a\' 'b\n'", NO_BACKSLASH_ESCAPES, &[text(r"a\b\n")]);
        check("'a'\"b\"", ANSI_QUOTES, &[text("a"), SqlWord::Quoted("b".to_owned())]);
    }

    #[test]
    fn ranges() {
        let check = |sql: &str, skipped: usize, expected: &str| {
            let mut words = SqlWords::parse(sql, 0).unwrap();
            (0..skipped).for_each(|_| words.skip());
            assert_eq!(&sql[words.rest_range()], expected, "{sql}");
        };
        check(" select 1 ; ", 0, "select 1");
        check("select f(1, 2), 'a' 'b'", 1, "f(1, 2), 'a' 'b'");
        check("select", 1, "");
        check(";", 0, "");
        let sql = "select f(1, 2), 'a' 'b' ;";
        let mut words = SqlWords::parse(sql, 0).unwrap();
        words.skip();
        let parts = words.split_at_commas();
        let texts: Vec<&str> = parts.iter().map(|part| &sql[part.rest_range()]).collect();
        assert_eq!(texts, ["f(1, 2)", "'a' 'b'"]);
    }

    #[test]
    fn set_statement_is_skipped() {
        let check = |sql: &str, expected: &str| {
            let mut words = SqlWords::parse(sql, 0).unwrap();
            words.skip_set_statement();
            assert_eq!(&sql[words.rest_range()], expected, "{sql}");
        };
        check("set statement a=1, b=substring('x' from 1 for 1) for drop table t", "drop table t");
        check("SET STATEMENT a = 1", "SET STATEMENT a = 1");
        check("SET a = 1", "SET a = 1");
    }

    #[test]
    fn digits() {
        let [hex, bits] = [SqlWord::Hex("1F".to_owned()), SqlWord::Bits("01".to_owned())];
        check("x'1F' 0x1F b'01' 0b01", 0, &[hex.clone(), hex, bits.clone(), bits]);
        assert_eq!(SqlWords::parse("x'1'", 0), None);
        assert_eq!(SqlWords::parse("'a", 0), None);
    }
}
