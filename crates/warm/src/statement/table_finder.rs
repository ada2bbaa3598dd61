//! Names of the tables in the text after a SELECT's FROM, and in its subqueries.

use sql::ddl::NamedTable;
use sql::lexer::{SqlToken, SqlTokenKind};

use crate::statement::statement_text::StatementText;
use crate::statement::{FromTable, SkipReason};

/// Tables that are read, and all tables that occur.
#[derive(Debug, Default)]
pub(super) struct ReadTables {
    /// Tables of the outermost FROM, in order.
    pub(super) tables: Vec<FromTable>,
    pub(super) all: Vec<NamedTable>,
}

/// Returns the tables of a text whose tokens are these, without blanks.
///
/// # Errors
///
/// If the text has a form of which the tables are not known.
pub(super) fn find_tables(text: &StatementText<'_>, tokens: &[SqlToken]) -> Result<ReadTables, SkipReason> {
    let mut finder = TableFinder { text, tokens, at: 0, all: Vec::new() };
    let tables = finder.take_references()?;
    finder.skip_expressions()?;
    if finder.is_word("SELECT") {
        return Err(SkipReason::Clause);
    }
    match finder.tokens.get(finder.at) {
        Some(_) => Err(SkipReason::Unknown),
        None => Ok(ReadTables { tables, all: finder.all }),
    }
}

/// Cursor over the tokens.
struct TableFinder<'t> {
    text: &'t StatementText<'t>,
    tokens: &'t [SqlToken],
    at: usize,
    all: Vec<NamedTable>,
}

/// Words of joins.
const JOIN_WORDS: [&str; 8] =
    ["CROSS", "INNER", "JOIN", "LEFT", "NATURAL", "OUTER", "RIGHT", "STRAIGHT_JOIN"];

/// Words that begin the clauses after the tables, besides those of joins.
const CLAUSE_WORDS: [&str; 13] = [
    "EXCEPT",
    "GROUP",
    "HAVING",
    "INTERSECT",
    "LIMIT",
    "ON",
    "ORDER",
    "PARTITION",
    "UNION",
    "USING",
    "WHERE",
    "WINDOW",
    "SELECT",
];

/// Words that begin the hints after a table.
const HINT_WORDS: [&str; 3] = ["FORCE", "IGNORE", "USE"];

impl TableFinder<'_> {
    /// Takes the tables of one FROM, with their joins.
    fn take_references(&mut self) -> Result<Vec<FromTable>, SkipReason> {
        let mut tables = Vec::new();
        self.take_factor(&mut tables)?;
        loop {
            if self.take_sign(b',') {
                self.take_factor(&mut tables)?;
            } else if self.is_any(&JOIN_WORDS) {
                while self.is_any(&JOIN_WORDS) {
                    self.at += 1;
                }
                self.take_factor(&mut tables)?;
            } else if self.take_word("USING") {
                self.take_group()?;
            } else if self.take_word("ON") {
                self.skip_condition()?;
            } else if self.is_end() || self.is_any(&CLAUSE_WORDS) {
                return Ok(tables);
            } else {
                return Err(SkipReason::Unknown);
            }
        }
    }

    /// Takes a table, a derived table, or joined tables in parentheses.
    fn take_factor(&mut self, tables: &mut Vec<FromTable>) -> Result<(), SkipReason> {
        if self.is_sign(b'(') {
            self.at += 1;
            if !self.is_word("SELECT") {
                tables.extend(self.take_references()?);
                return if self.take_sign(b')') { Ok(()) } else { Err(SkipReason::Unknown) };
            }
            self.at -= 1;
            self.take_group()?;
            // The server reads the tables of a derived table by its own plan.
            self.take_alias()?.ok_or(SkipReason::Unknown)?;
            return Ok(());
        }
        let first = self.take_name()?;
        let name = match self.take_sign(b'.') {
            true => NamedTable { database: Some(first), table: self.take_name()? },
            false => NamedTable { database: None, table: first },
        };
        self.all.push(name.clone());
        if self.take_word("PARTITION") {
            self.take_group()?;
        }
        let alias = self.take_alias()?;
        tables.push(FromTable { name, alias });
        while self.is_any(&HINT_WORDS) {
            while !self.is_sign(b'(') && !self.is_end() {
                self.at += 1;
            }
            self.take_group()?;
        }
        Ok(())
    }

    fn take_alias(&mut self) -> Result<Option<String>, SkipReason> {
        if self.take_word("AS") {
            return self.take_name().map(Some);
        }
        let words = [&JOIN_WORDS[..], &CLAUSE_WORDS, &HINT_WORDS];
        let is_alias = self.is_name() && !words.iter().any(|words| self.is_any(words));
        if is_alias { self.take_name().map(Some) } else { Ok(None) }
    }

    /// Skips the condition of a join.
    fn skip_condition(&mut self) -> Result<(), SkipReason> {
        loop {
            let is_function = self.tokens.get(self.at + 1).is_some_and(|next| self.text.is_sign(next, b'('));
            let is_join = self.is_any(&JOIN_WORDS) && !is_function;
            if self.is_end() || self.is_sign(b',') || is_join || self.is_any(&CLAUSE_WORDS) {
                return Ok(());
            }
            self.skip()?;
        }
    }

    /// Skips expressions and clauses up to a SELECT, a closing parenthesis, or the end.
    fn skip_expressions(&mut self) -> Result<(), SkipReason> {
        while !self.is_end() && !self.is_word("SELECT") {
            self.skip()?;
        }
        Ok(())
    }

    /// Takes parentheses, and the tables of a query in them.
    fn take_group(&mut self) -> Result<(), SkipReason> {
        if !self.take_sign(b'(') {
            return Err(SkipReason::Unknown);
        }
        self.skip_expressions()?;
        while self.take_word("SELECT") {
            while !self.is_end() && !self.is_any(&["FROM", "SELECT"]) {
                self.skip()?;
            }
            if self.take_word("FROM") {
                self.take_references()?;
                self.skip_expressions()?;
            }
        }
        if self.take_sign(b')') { Ok(()) } else { Err(SkipReason::Unknown) }
    }

    /// Skips a token, a whole name, or parentheses.
    fn skip(&mut self) -> Result<(), SkipReason> {
        if self.is_sign(b'(') {
            return self.take_group();
        }
        // A statement of its own: `TABLE t`.
        if self.is_word("TABLE") {
            return Err(SkipReason::Clause);
        }
        self.at += 1;
        while self.is_sign(b'.') {
            self.at += 2;
        }
        Ok(())
    }

    fn take_name(&mut self) -> Result<String, SkipReason> {
        let token = self.tokens.get(self.at).filter(|_| self.is_name()).ok_or(SkipReason::Unknown)?;
        self.at += 1;
        self.text.name(token)
    }

    fn is_name(&self) -> bool {
        let token = self.tokens.get(self.at);
        token.is_some_and(|token| matches!(token.kind, SqlTokenKind::Word | SqlTokenKind::QuotedName))
    }

    fn is_word(&self, word: &str) -> bool {
        self.tokens.get(self.at).is_some_and(|token| {
            token.kind == SqlTokenKind::Word && self.text.bytes(token).eq_ignore_ascii_case(word.as_bytes())
        })
    }

    fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    fn is_sign(&self, sign: u8) -> bool {
        self.tokens.get(self.at).is_some_and(|token| self.text.is_sign(token, sign))
    }

    /// Returns true at the end of the text, or before a closing parenthesis.
    fn is_end(&self) -> bool {
        self.at >= self.tokens.len() || self.is_sign(b')')
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        self.at += usize::from(is_next);
        is_next
    }

    fn take_sign(&mut self, sign: u8) -> bool {
        let is_next = self.is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }
}
