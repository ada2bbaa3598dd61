//! Splits Rust source into words, signs and string literals, in enough detail for a search for messages.

use std::iter::Peekable;
use std::str::Chars;

/// A token of Rust source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// Any other sign.
    Sign(char),
    /// Text between the quotes of a string literal; continued lines are joined.
    Text(String),
}

impl Token {
    /// Returns the identifier of a word token.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Sign(_) | Self::Text(_) => None,
        }
    }
}

/// Splits source; skips spaces, comments, character literals, lifetimes and byte strings.
pub(super) fn split(source: &str) -> Vec<Token> {
    let mut letters = source.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '/' if letters.peek() == Some(&'/') => _ = letters.find(|letter| *letter == '\n'),
            '/' if letters.peek() == Some(&'*') => skip_comment(&mut letters),
            '"' => tokens.push(Token::Text(quoted(&mut letters))),
            '\'' => skip_character(&mut letters),
            letter if is_part_of_word(letter) => {
                let mut word = letter.to_string();
                while let Some(letter) = letters.next_if(|letter| is_part_of_word(*letter)) {
                    word.push(letter);
                }
                add_word(word, &mut letters, &mut tokens);
            }
            letter if letter.is_whitespace() => {}
            letter => tokens.push(Token::Sign(letter)),
        }
    }
    tokens
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Adds a word, unless it is the prefix of a literal.
fn add_word(word: String, letters: &mut Peekable<Chars<'_>>, tokens: &mut Vec<Token>) {
    match (word.as_str(), letters.peek()) {
        ("b" | "c", Some('"')) => {
            letters.next();
            quoted(letters);
        }
        ("b", Some('\'')) => {
            letters.next();
            skip_character(letters);
        }
        ("r" | "br" | "cr", Some('"' | '#')) => {
            if let Some(text) = raw(letters).filter(|_| word == "r") {
                tokens.push(Token::Text(text));
            }
        }
        _ => tokens.push(Token::Word(word)),
    }
}

/// Reads the rest of a string literal.
fn quoted(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' if letters.peek() == Some(&'\n') => {
                while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
            }
            '\\' => {
                text.push(letter);
                text.extend(letters.next());
            }
            // A literal of several lines is one message.
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
    text
}

/// Reads the rest of a raw string literal after its `r`; returns `None` for a raw identifier.
fn raw(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut hashes = 0;
    while letters.next_if_eq(&'#').is_some() {
        hashes += 1;
    }
    letters.next_if_eq(&'"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let mut text = String::new();
    while !text.ends_with(&end) {
        text.push(letters.next()?);
    }
    text.truncate(text.len() - end.len());
    Some(text.replace('\n', "\\n"))
}

/// Skips the rest of a character literal or a lifetime.
fn skip_character(letters: &mut Peekable<Chars<'_>>) {
    if letters.next_if_eq(&'\\').is_some() {
        letters.next();
        letters.find(|letter| *letter == '\'');
        return;
    }
    let first = letters.next();
    if letters.next_if_eq(&'\'').is_none() && first.is_some_and(is_part_of_word) {
        while letters.next_if(|letter| is_part_of_word(*letter)).is_some() {}
    }
}

/// Skips the rest of a block comment, which may be nested.
fn skip_comment(letters: &mut Peekable<Chars<'_>>) {
    let mut depth = 0_usize;
    let mut before = '/';
    for letter in letters.by_ref() {
        match (before, letter) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                before = letter;
                continue;
            }
        }
        if depth == 0 {
            return;
        }
        before = ' ';
    }
}
