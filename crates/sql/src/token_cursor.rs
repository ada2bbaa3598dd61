//! Cursor over the tokens of a statement.

use crate::lexer::{SqlLexer, SqlToken, SqlTokenKind};

/// Cursor over the tokens of a statement, without blanks and comments. Comments that servers execute are part of the
/// statement.
///
/// Reads only the requested tokens, and one token more, so that the unread part of a large INSERT costs nothing. The
/// text may be in any character set that [`SqlLexer`] accepts, and may be malformed. In contrast,
/// [`SqlWords`](crate::SqlWords) checks a whole statement, and owns the values of its literals as UTF-8.
#[derive(Clone, Debug)]
pub struct TokenCursor<'s> {
    tokens: SqlLexer<'s>,
    next: Option<SqlToken>,
    /// End of the last taken token.
    offset: usize,
}

impl<'s> TokenCursor<'s> {
    /// Starts at the first token of a text. `sql_mode` has the bits of the session that runs the text.
    pub fn new(sql: &'s [u8], sql_mode: u64) -> Self {
        let mut cursor = Self { tokens: SqlLexer::new(sql, sql_mode), next: None, offset: 0 };
        cursor.scan_next();
        cursor
    }

    /// Returns the end of the last taken token, as an offset in the text. Returns 0 at the start.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the bytes of a token.
    pub fn bytes(&self, token: &SqlToken) -> &'s [u8] {
        self.tokens.bytes(token)
    }

    /// Returns the next token.
    pub const fn peek(&self) -> Option<&SqlToken> {
        self.next.as_ref()
    }

    /// Takes the next token.
    pub fn take_next(&mut self) -> Option<SqlToken> {
        let token = self.next.take()?;
        self.offset = token.at.end;
        self.scan_next();
        Some(token)
    }

    /// Returns true if the next token is this unquoted word, in upper or lower case.
    pub fn is_word(&self, word: &str) -> bool {
        self.next.as_ref().is_some_and(|token| {
            token.kind == SqlTokenKind::Word && self.bytes(token).eq_ignore_ascii_case(word.as_bytes())
        })
    }

    /// Returns true if the next token is one of these unquoted words.
    pub fn is_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    /// Returns true if the next token is this sign.
    pub fn is_sign(&self, sign: u8) -> bool {
        self.next
            .as_ref()
            .is_some_and(|token| token.kind == SqlTokenKind::Sign && self.bytes(token) == [sign])
    }

    /// Returns true if the next token may be a name: a word, or a quoted name.
    pub fn is_name(&self) -> bool {
        self.next
            .as_ref()
            .is_some_and(|token| matches!(token.kind, SqlTokenKind::Word | SqlTokenKind::QuotedName))
    }

    /// Takes this word, if it comes next.
    pub fn take_word(&mut self, word: &str) -> bool {
        self.is_word(word) && self.take_next().is_some()
    }

    /// Takes this sign, if it comes next.
    pub fn take_sign(&mut self, sign: u8) -> bool {
        self.is_sign(sign) && self.take_next().is_some()
    }

    /// Takes a name, if one comes next. [`name_of`](crate::lexer::name_of) removes the quotes.
    pub fn take_name(&mut self) -> Option<SqlToken> {
        if self.is_name() { self.take_next() } else { None }
    }

    /// Skips any of these words, repeatedly.
    pub fn skip_words(&mut self, words: &[&str]) {
        while self.is_any_word(words) {
            self.take_next();
        }
    }

    /// Skips all tokens up to and including this word. Returns false if the word does not occur.
    pub fn skip_past(&mut self, word: &str) -> bool {
        while self.next.is_some() {
            if self.take_word(word) {
                return true;
            }
            self.take_next();
        }
        false
    }

    /// Skips a group in parentheses, if one comes next. A group without its end ends with the statement.
    pub(crate) fn skip_group(&mut self) {
        if !self.take_sign(b'(') {
            return;
        }
        let mut depth = 1_u32;
        while depth > 0 && self.next.is_some() {
            match (self.is_sign(b'('), self.is_sign(b')')) {
                (true, _) => depth += 1,
                (_, true) => depth -= 1,
                _ => {}
            }
            self.take_next();
        }
    }

    /// Skips MariaDB's `SET STATEMENT variable = value, … FOR`, if it comes next. The executed statement follows it.
    pub(crate) fn skip_set_statement(&mut self) {
        let mut ahead = self.clone();
        if !ahead.take_word("SET") || !ahead.take_word("STATEMENT") {
            return;
        }
        let mut depth = 0_u32;
        while ahead.peek().is_some() {
            if depth == 0 && ahead.take_word("FOR") {
                *self = ahead;
                return;
            }
            if ahead.is_sign(b'(') {
                depth += 1;
            } else if ahead.is_sign(b')') {
                depth = depth.saturating_sub(1);
            }
            ahead.take_next();
        }
    }

    fn scan_next(&mut self) {
        self.next = self.tokens.find(|token| !token.is_blank());
    }
}

#[cfg(test)]
mod tests {
    use super::TokenCursor;

    #[test]
    fn words_signs_and_names_are_taken() {
        let mut cursor = TokenCursor::new(b"/* c */ Update /*!50000 low_priority */ `d`.t set", 0);
        assert_eq!(cursor.offset(), 0);
        assert!(!cursor.take_word("INSERT") && cursor.take_word("UPDATE"));
        assert_eq!(cursor.offset(), 14);
        cursor.skip_words(&["IGNORE", "LOW_PRIORITY"]);
        assert!(!cursor.is_word("D") && cursor.is_name() && !cursor.is_sign(b'`'));
        let name = cursor.take_name().unwrap();
        assert_eq!(cursor.bytes(&name), b"`d`");
        assert!(cursor.take_name().is_none() && cursor.take_sign(b'.') && !cursor.take_sign(b'.'));
        assert!(cursor.is_any_word(&["S", "T"]) && cursor.skip_past("SET"));
        assert!(cursor.peek().is_none() && cursor.take_next().is_none() && !cursor.skip_past("SET"));
        assert_eq!(cursor.offset(), 49);
    }

    #[test]
    fn quoted_names_are_no_words() {
        let cursor = TokenCursor::new(b"`set`", 0);
        assert!(!cursor.is_word("SET") && cursor.is_name());
    }
}
