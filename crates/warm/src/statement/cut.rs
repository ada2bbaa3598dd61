//! Which part of a statement says what rows it reads.

use std::ops::Range;

use sqlparser::tokenizer::Token;

use crate::statement::Left;
use crate::statement::text::{Piece, Text};

/// Parts of a statement, as bytes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    tables: Range<usize>,
    condition: Option<Range<usize>>,
    /// Which of the rows are meant, if not all are.
    order: Option<Range<usize>>,
    limit: Option<Range<usize>>,
}

impl Cut {
    /// What is behind `SELECT … FROM`.
    pub(super) fn rows(&self, sql: &[u8]) -> Vec<u8> {
        // An order without a limit is one of changes.
        let order = self.order.as_ref().filter(|_| self.limit.is_some());
        let parts = [Some(&self.tables), self.condition.as_ref(), order, self.limit.as_ref()];
        let parts: Vec<&[u8]> = parts.into_iter().flatten().map(|at| &sql[at.clone()]).collect();
        parts.join(&b' ')
    }

    pub(super) const fn has_limit(&self) -> bool {
        self.limit.is_some()
    }
}

/// A word outside of all parentheses, or what is between parentheses, or a sign.
#[derive(Debug)]
struct Word<'t> {
    /// In upper case; empty if it is none that could be a keyword.
    keyword: String,
    at: Range<usize>,
    token: &'t Token,
}

/// Cuts it out.
///
/// # Errors
///
/// When the statement reads no rows by itself, or is not understood.
pub(super) fn cut(text: &Text) -> Result<Cut, Left> {
    let pieces = text.pieces()?;
    let words = words(&pieces)?;
    let keyword = |at: usize| words.get(at).map_or("", |word| word.keyword.as_str());
    let find =
        |wanted: &str, from: usize| (from..words.len()).find(|at| keyword(*at) == wanted).ok_or(Left::Kind);
    // How the statement is to be run does not matter.
    let first =
        |from: usize| (from..words.len()).find(|at| !MODIFIERS.contains(&keyword(*at))).ok_or(Left::Kind);
    let is_select = |from: usize| (from..words.len()).any(|at| keyword(at) == "SELECT");
    match keyword(0) {
        "UPDATE" => clauses(&words[first(1)?..], Kind::Change),
        "DELETE" => {
            let tables = match keyword(first(1)?) {
                // Of several tables, those that are read come behind another word.
                "FROM" => find("USING", 1).unwrap_or(first(1)?),
                _ => find("FROM", 1)?,
            };
            clauses(&words[tables + 1..], Kind::Change)
        }
        "INSERT" | "REPLACE" if is_select(1) => {
            let select = find("SELECT", 1)?;
            clauses(&words[find("FROM", select)? + 1..], Kind::Select)
        }
        _ => Err(Left::Kind),
    }
}

const MODIFIERS: [&str; 3] = ["LOW_PRIORITY", "QUICK", "IGNORE"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// UPDATE, DELETE.
    Change,
    /// A SELECT, whose columns have names of their own.
    Select,
}

/// Tables, and the clauses behind them.
fn clauses(words: &[Word<'_>], kind: Kind) -> Result<Cut, Left> {
    let starts: Vec<usize> = (0..words.len()).filter(|at| begins_clause(&words[*at..])).collect();
    let end = *starts.first().unwrap_or(&words.len());
    let mut cut = Cut { tables: span(&words[..end])?, condition: None, order: None, limit: None };
    let mut is_grouped = false;
    for (number, start) in starts.iter().enumerate() {
        let end = *starts.get(number + 1).unwrap_or(&words.len());
        let at = span(&words[*start..end])?;
        match words[*start].keyword.as_str() {
            "WHERE" => cut.condition = Some(at),
            "ORDER" => cut.order = Some(at),
            "LIMIT" => cut.limit = Some(at),
            "GROUP" | "HAVING" | "WINDOW" => is_grouped = true,
            // What is set, and what is told or done besides.
            "SET" | "RETURNING" | "ON" => {}
            _ => return Err(Left::Clause),
        }
    }
    if is_grouped {
        // It limits groups, and reads all rows for them.
        (cut.order, cut.limit) = (None, None);
    }
    match cut.limit.is_some() && cut.order.is_some() && kind == Kind::Select {
        true => Err(Left::Clause), // The order may be by names that are not there any more.
        false => Ok(cut),
    }
}

/// Do these words begin a clause?
fn begins_clause(words: &[Word<'_>]) -> bool {
    let next = |at: usize| words.get(at).map_or("", |word| word.keyword.as_str());
    match next(0) {
        "ON" => next(1) == "DUPLICATE",
        "FOR" => matches!(next(1), "UPDATE" | "SHARE"),
        "LOCK" => next(1) == "IN",
        keyword => CLAUSES.contains(&keyword),
    }
}

const CLAUSES: [&str; 13] = [
    "SET",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "RETURNING",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "INTO",
    "PROCEDURE",
];

/// The bytes from the first to the last of some words.
fn span(words: &[Word<'_>]) -> Result<Range<usize>, Left> {
    match words {
        [] => Err(Left::Unknown),
        [first, .., last] => Ok(first.at.start..last.at.end),
        [only] => Ok(only.at.clone()),
    }
}

/// What is outside of all parentheses, blanks and comments left out; what is within them goes with the one that closes
/// them.
fn words(pieces: &[Piece]) -> Result<Vec<Word<'_>>, Left> {
    let (mut words, mut depth): (Vec<Word<'_>>, usize) = (Vec::new(), 0);
    for piece in pieces {
        match &piece.token {
            Token::Whitespace(_) => continue,
            Token::SemiColon if depth == 0 => break,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1).ok_or(Left::Unknown)?,
            _ => {}
        }
        let is_column = words.last().is_some_and(|last| *last.token == Token::Period);
        let keyword = match &piece.token {
            Token::Word(word) if depth == 0 && word.quote_style.is_none() && !is_column => {
                word.value.to_ascii_uppercase()
            }
            _ => String::new(),
        };
        words.push(Word { keyword, at: piece.at.clone(), token: &piece.token });
    }
    Ok(words)
}
