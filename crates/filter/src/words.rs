//! Words of a statement, and a cursor over them.

use sqlparser::dialect::MySqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// Bit of `ANSI_QUOTES` in `sql_mode`.
const ANSI_QUOTES: u64 = 4;
/// Bit of `NO_BACKSLASH_ESCAPES` in `sql_mode`.
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// One word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
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
pub struct Words {
    words: Vec<Word>,
    at: usize,
}

impl Words {
    /// Splits a statement into words, without comments, according to the bits of `sql_mode`. Returns `None` if the
    /// tokenizer fails.
    pub fn of(text: &str, sql_mode: u64) -> Option<Self> {
        if sql_mode & NO_BACKSLASH_ESCAPES != 0 && text.contains('\\') {
            return None; // The tokenizer would treat backslashes as escapes.
        }
        let tokens = Tokenizer::new(&MySqlDialect {}, text).tokenize().ok()?;
        let words = tokens.into_iter().filter_map(|token| word(token, sql_mode & ANSI_QUOTES != 0));
        Some(Self { words: joined(words.collect()), at: 0 })
    }

    /// Marks literals that are not ASCII as [`Word::Bytes`]: the client had no character set, so the literal has that
    /// of its destination.
    pub fn of_bytes(mut self) -> Self {
        let is_doubtful = |word: &&mut Word| matches!(word, Word::Text(text) if !text.is_ascii());
        self.words.iter_mut().filter(is_doubtful).for_each(|word| *word = Word::Bytes);
        self
    }

    /// Returns the next word.
    pub fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    /// Returns true at the end of the statement.
    pub fn is_over(&self) -> bool {
        self.at >= self.words.len() || self.peek() == Some(&Word::Sign(";".to_owned()))
    }

    /// Takes the next word.
    pub fn take_next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    /// Returns true if these keywords come next.
    pub fn is(&self, keywords: &str) -> bool {
        keywords.split(' ').enumerate().all(|(ahead, keyword)| self.is_at(ahead, keyword))
    }

    fn is_at(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.words.get(self.at + ahead), Some(Word::Plain(word)) if word.eq_ignore_ascii_case(keyword))
    }

    /// Takes these keywords, if they come next.
    pub fn take(&mut self, keywords: &str) -> bool {
        let found = self.is(keywords);
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
        matches!(self.peek(), Some(Word::Sign(found)) if found == sign)
    }

    /// Takes this sign, if it comes next.
    pub fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    /// Takes a name.
    pub fn name(&mut self) -> Option<String> {
        match self.take_next()? {
            Word::Plain(name) | Word::Quoted(name) => Some(name),
            _ => {
                self.at -= 1;
                None
            }
        }
    }

    /// Takes an optional name. Returns `None` if one of the keywords `but` comes next, or no name.
    pub fn optional_name(&mut self, but: &[&str]) -> Option<String> {
        match but.iter().any(|keyword| self.is(keyword)) {
            true => None,
            false => self.name(),
        }
    }

    /// Takes a table's name, with its database if given.
    pub fn table(&mut self) -> Option<(Option<String>, String)> {
        let first = self.name()?;
        match self.take_sign(".") {
            true => Some((Some(first), self.name()?)),
            false => Some((None, first)),
        }
    }

    /// Takes a group in parentheses, if one comes next. Returns the words inside.
    pub fn group(&mut self) -> Option<Self> {
        if !self.is_sign("(") {
            return None;
        }
        let start = self.at + 1;
        let mut depth = 0usize;
        while let Some(word) = self.take_next() {
            match word {
                Word::Sign(sign) if sign == "(" => depth += 1,
                Word::Sign(sign) if sign == ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(Self { words: self.words[start..self.at - 1].to_vec(), at: 0 });
            }
        }
        None
    }

    /// Takes the rest and splits it at commas outside of parentheses.
    pub fn parts(&mut self) -> Vec<Self> {
        let mut parts = vec![Self { words: Vec::new(), at: 0 }];
        let mut depth = 0usize;
        while !self.is_over() {
            let Some(word) = self.take_next() else { break };
            match &word {
                Word::Sign(sign) if sign == "(" => depth += 1,
                Word::Sign(sign) if sign == ")" => depth = depth.saturating_sub(1),
                Word::Sign(sign) if sign == "," && depth == 0 => {
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
        if self.group().is_none() {
            self.at += 1;
        }
    }

    /// Returns true if one of these keywords follows anywhere outside of parentheses.
    pub fn holds(&self, keywords: &[&str]) -> bool {
        let mut rest = self.clone();
        while !rest.is_over() {
            if keywords.iter().any(|keyword| rest.is(keyword)) {
                return true;
            }
            rest.skip();
        }
        false
    }

    /// Returns the next keywords, at most `count`, in capitals. Messages name a statement by them.
    pub fn head(&self, count: usize) -> String {
        let words = self.words.iter().skip(self.at).map_while(|word| match word {
            Word::Plain(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        });
        words.take(count).collect::<Vec<_>>().join(" ")
    }
}

fn word(token: Token, ansi_quotes: bool) -> Option<Word> {
    Some(match token {
        Token::Whitespace(_) | Token::EOF => return None,
        Token::Word(word) if word.quote_style.is_some() => Word::Quoted(word.value),
        Token::Word(word) => Word::Plain(word.value),
        Token::Number(number, _) => Word::Number(number),
        Token::DoubleQuotedString(name) if ansi_quotes => Word::Quoted(name),
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::NationalStringLiteral(text) => Word::Text(text),
        Token::HexStringLiteral(digits) => Word::Hex(digits),
        Token::SingleQuotedByteStringLiteral(digits) => Word::Bits(digits),
        sign => Word::Sign(sign.to_string()),
    })
}

/// Joins words that the tokenizer splits: `b'…'`, and literals with a character set.
fn joined(words: Vec<Word>) -> Vec<Word> {
    let mut out: Vec<Word> = Vec::with_capacity(words.len());
    for word in words {
        match (out.last(), word) {
            (Some(Word::Plain(b)), Word::Text(digits)) if b.eq_ignore_ascii_case("b") => {
                out.pop();
                out.push(Word::Bits(digits));
            }
            // Literal with a character set: `_utf8mb4'…'`.
            (Some(Word::Plain(set)), Word::Text(text)) if set.starts_with('_') => {
                out.pop();
                out.push(Word::Text(text));
            }
            (_, word) => out.push(word),
        }
    }
    out
}
