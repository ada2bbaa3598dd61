//! The clauses of a statement that determine which rows it reads.

use std::ops::Range;

use sql::lexer::{SqlToken, SqlTokenKind};

use crate::statement::SkipReason;
use crate::statement::statement_text::StatementText;

/// Clauses that determine the rows, as byte ranges of the statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadClauses {
    tables: Range<usize>,
    condition: Option<Range<usize>>,
    /// Order in which the limit applies.
    order: Option<Range<usize>>,
    limit: Option<Range<usize>>,
}

impl ReadClauses {
    /// Returns the text to put after `SELECT … FROM`.
    pub(super) fn to_sql(&self, sql: &[u8]) -> Vec<u8> {
        // Without a limit, the order does not affect which rows are read.
        let order = self.order.as_ref().filter(|_| self.limit.is_some());
        let parts = [Some(&self.tables), self.condition.as_ref(), order, self.limit.as_ref()];
        let parts: Vec<&[u8]> = parts.into_iter().flatten().map(|at| &sql[at.clone()]).collect();
        parts.join(&b' ')
    }

    pub(super) const fn has_limit(&self) -> bool {
        self.limit.is_some()
    }
}

/// A token of the statement, at any depth of parentheses.
#[derive(Debug)]
struct TopLevelWord {
    /// Upper-case word outside of parentheses that may be a keyword; empty for all other tokens.
    keyword: String,
    at: Range<usize>,
}

/// Finds the clauses that determine which rows the statement reads.
///
/// # Errors
///
/// Fails if the statement reads no rows by itself, or cannot be parsed.
pub(super) fn split_clauses(text: &StatementText<'_>) -> Result<ReadClauses, SkipReason> {
    let words = words(text, &text.tokens()?)?;
    let keyword = |at: usize| words.get(at).map_or("", |word| word.keyword.as_str());
    let find =
        |word: &str, from: usize| (from..words.len()).find(|at| keyword(*at) == word).ok_or(SkipReason::Kind);
    // Skip modifiers, which do not affect the rows.
    let first = |from: usize| {
        (from..words.len()).find(|at| !MODIFIERS.contains(&keyword(*at))).ok_or(SkipReason::Kind)
    };
    let is_select = |from: usize| (from..words.len()).any(|at| keyword(at) == "SELECT");
    match keyword(0) {
        "UPDATE" => parse_clauses(&words[first(1)?..], ClauseContext::Change),
        "DELETE" => {
            let tables = match keyword(first(1)?) {
                // In a multi-table DELETE, the tables that are read follow USING.
                "FROM" => find("USING", 1).unwrap_or(first(1)?),
                _ => find("FROM", 1)?,
            };
            parse_clauses(&words[tables + 1..], ClauseContext::Change)
        }
        "INSERT" | "REPLACE" if is_select(1) => {
            let select = find("SELECT", 1)?;
            parse_clauses(&words[find("FROM", select)? + 1..], ClauseContext::Select)
        }
        _ => Err(SkipReason::Kind),
    }
}

const MODIFIERS: [&str; 3] = ["LOW_PRIORITY", "QUICK", "IGNORE"];

/// Kind of statement of the clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClauseContext {
    /// UPDATE or DELETE.
    Change,
    /// A SELECT, whose ORDER BY may refer to column aliases.
    Select,
}

/// Parses the tables and the clauses after them.
fn parse_clauses(words: &[TopLevelWord], kind: ClauseContext) -> Result<ReadClauses, SkipReason> {
    let starts: Vec<usize> = (0..words.len()).filter(|at| begins_clause(&words[*at..])).collect();
    let end = *starts.first().unwrap_or(&words.len());
    let mut clauses = ReadClauses { tables: span(&words[..end])?, condition: None, order: None, limit: None };
    let mut is_grouped = false;
    for (number, start) in starts.iter().enumerate() {
        let end = *starts.get(number + 1).unwrap_or(&words.len());
        let at = span(&words[*start..end])?;
        match words[*start].keyword.as_str() {
            "WHERE" => clauses.condition = Some(at),
            "ORDER" => clauses.order = Some(at),
            "LIMIT" => clauses.limit = Some(at),
            "GROUP" | "HAVING" | "WINDOW" => is_grouped = true,
            // These clauses do not affect which rows are read.
            "SET" | "RETURNING" | "ON" => {}
            _ => return Err(SkipReason::Clause),
        }
    }
    if is_grouped {
        // The limit applies to groups, and the server reads all rows to form groups.
        (clauses.order, clauses.limit) = (None, None);
    }
    match clauses.limit.is_some() && clauses.order.is_some() && kind == ClauseContext::Select {
        true => Err(SkipReason::Clause), // The order may refer to column aliases, which are cut off.
        false => Ok(clauses),
    }
}

/// Returns whether a clause starts with these words.
fn begins_clause(words: &[TopLevelWord]) -> bool {
    let next = |at: usize| words.get(at).map_or("", |word| word.keyword.as_str());
    match next(0) {
        "ON" => next(1) == "DUPLICATE",
        "FOR" => matches!(next(1), "UPDATE" | "SHARE"),
        "LOCK" => next(1) == "IN",
        keyword => CLAUSE_KEYWORDS.contains(&keyword),
    }
}

const CLAUSE_KEYWORDS: [&str; 13] = [
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

/// Returns the byte range from the first to the last word.
fn span(words: &[TopLevelWord]) -> Result<Range<usize>, SkipReason> {
    match words {
        [] => Err(SkipReason::Unknown),
        [first, .., last] => Ok(first.at.start..last.at.end),
        [only] => Ok(only.at.clone()),
    }
}

/// Returns the statement's tokens without blanks and comments. Only words outside of parentheses count as keywords.
fn words(text: &StatementText<'_>, tokens: &[SqlToken]) -> Result<Vec<TopLevelWord>, SkipReason> {
    let (mut words, mut depth, mut is_column) = (Vec::new(), 0_usize, false);
    for token in tokens.iter().filter(|token| !token.is_blank()) {
        let bytes = text.bytes(token);
        match (token.kind, bytes) {
            (SqlTokenKind::Sign, b";") if depth == 0 => break,
            (SqlTokenKind::Sign, b"(") => depth += 1,
            (SqlTokenKind::Sign, b")") => depth = depth.checked_sub(1).ok_or(SkipReason::Unknown)?,
            _ => {}
        }
        let keyword = match token.kind {
            SqlTokenKind::Word if depth == 0 && !is_column => {
                String::from_utf8_lossy(bytes).to_ascii_uppercase()
            }
            _ => String::new(),
        };
        is_column = text.is_sign(token, b'.');
        words.push(TopLevelWord { keyword, at: token.at.clone() });
    }
    Ok(words)
}
