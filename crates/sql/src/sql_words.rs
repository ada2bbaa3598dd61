//! Words of a statement, and a cursor over them.

use sqlparser::dialect::MySqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// Bit of `ANSI_QUOTES` in `sql_mode`.
const ANSI_QUOTES: u64 = 4;
/// Bit of `NO_BACKSLASH_ESCAPES` in `sql_mode`.
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// One word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlWord {
    /// A keyword or an unquoted name.
    Plain(String),
    /// A quoted name.
    Quoted(String),
    /// A string literal.
    Text(String),
    /// A string literal of a client without a character set: its meaning depends on the column it goes to.
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

/// Cursor over the words of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlWords {
    words: Vec<SqlWord>,
    at: usize,
}

impl SqlWords {
    /// Splits a statement into words, without comments, according to the bits of `sql_mode`. Returns `None` if the
    /// tokenizer fails.
    pub fn parse(text: &str, sql_mode: u64) -> Option<Self> {
        if sql_mode & NO_BACKSLASH_ESCAPES != 0 && text.contains('\\') {
            return None; // The tokenizer would treat backslashes as escapes.
        }
        let tokens = Tokenizer::new(&MySqlDialect {}, text).tokenize().ok()?;
        let words = tokens.into_iter().filter_map(|token| word(token, sql_mode & ANSI_QUOTES != 0));
        Some(Self { words: join_split_words(words.collect()), at: 0 })
    }

    /// Marks literals that are not ASCII as [`SqlWord::Bytes`]: the client had no character set, so the literal has that
    /// of its destination.
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

    /// Takes a name.
    pub fn take_name(&mut self) -> Option<String> {
        match self.take_next()? {
            SqlWord::Plain(name) | SqlWord::Quoted(name) => Some(name),
            _ => {
                self.at -= 1;
                None
            }
        }
    }

    /// Takes an optional name. Returns `None` if one of the keywords `but` comes next, or no name.
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
                return Some(Self { words: self.words[start..self.at - 1].to_vec(), at: 0 });
            }
        }
        None
    }

    /// Takes the rest and splits it at commas outside of parentheses.
    pub fn split_at_commas(&mut self) -> Vec<Self> {
        let mut parts = vec![Self { words: Vec::new(), at: 0 }];
        let mut depth = 0usize;
        while !self.is_at_end() {
            let Some(word) = self.take_next() else { break };
            match &word {
                SqlWord::Sign(sign) if sign == "(" => depth += 1,
                SqlWord::Sign(sign) if sign == ")" => depth = depth.saturating_sub(1),
                SqlWord::Sign(sign) if sign == "," && depth == 0 => {
                    parts.push(Self { words: Vec::new(), at: 0 });
                    continue;
                }
                _ => {}
            }
            if let Some(part) = parts.last_mut() {
                part.words.push(word);
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

    /// Returns the next keywords, at most `count`, in capitals. Messages name a statement by them.
    pub fn keywords_ahead(&self, count: usize) -> String {
        let words = self.words.iter().skip(self.at).map_while(|word| match word {
            SqlWord::Plain(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        });
        words.take(count).collect::<Vec<_>>().join(" ")
    }
}

fn word(token: Token, ansi_quotes: bool) -> Option<SqlWord> {
    Some(match token {
        Token::Whitespace(_) | Token::EOF => return None,
        Token::Word(word) if word.quote_style.is_some() => SqlWord::Quoted(word.value),
        Token::Word(word) => SqlWord::Plain(word.value),
        Token::Number(number, _) => SqlWord::Number(number),
        Token::DoubleQuotedString(name) if ansi_quotes => SqlWord::Quoted(name),
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::NationalStringLiteral(text) => SqlWord::Text(text),
        Token::HexStringLiteral(digits) => SqlWord::Hex(digits),
        Token::SingleQuotedByteStringLiteral(digits) => SqlWord::Bits(digits),
        sign => SqlWord::Sign(sign.to_string()),
    })
}

/// Joins words that the tokenizer splits: `b'…'`, and literals with a character set.
fn join_split_words(words: Vec<SqlWord>) -> Vec<SqlWord> {
    let mut out: Vec<SqlWord> = Vec::with_capacity(words.len());
    for word in words {
        match (out.last(), word) {
            (Some(SqlWord::Plain(b)), SqlWord::Text(digits)) if b.eq_ignore_ascii_case("b") => {
                out.pop();
                out.push(SqlWord::Bits(digits));
            }
            // Literal with a character set: `_utf8mb4'…'`.
            (Some(SqlWord::Plain(set)), SqlWord::Text(text)) if set.starts_with('_') => {
                out.pop();
                out.push(SqlWord::Text(text));
            }
            (_, word) => out.push(word),
        }
    }
    out
}
