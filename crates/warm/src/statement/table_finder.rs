//! Names of the tables in the text after a SELECT's FROM, and in its subqueries.

use sql::TokenCursor;
use sql::ddl::NamedTable;

use crate::statement::statement_text::StatementText;
use crate::statement::{FromTable, SkipReason};

/// Tables that are read, and all tables that occur.
#[derive(Debug, Default)]
pub(super) struct ReadTables {
    /// Tables of the outermost FROM, in order.
    pub(super) tables: Vec<FromTable>,
    pub(super) all: Vec<NamedTable>,
}

/// Returns the tables of a text.
///
/// # Errors
///
/// Fails if the text has an unknown form.
pub(super) fn find_tables(text: &StatementText<'_>) -> Result<ReadTables, SkipReason> {
    let mut finder = TableFinder { text, tokens: text.cursor(), all: Vec::new() };
    let tables = finder.take_references()?;
    finder.skip_expressions()?;
    if finder.tokens.is_word("SELECT") {
        return Err(SkipReason::Clause);
    }
    match finder.tokens.peek() {
        Some(_) => Err(SkipReason::Unknown),
        None => Ok(ReadTables { tables, all: finder.all }),
    }
}

/// Finder of the tables in a text, from its cursor on.
struct TableFinder<'t> {
    text: &'t StatementText<'t>,
    tokens: TokenCursor<'t>,
    all: Vec<NamedTable>,
}

/// Words of joins.
const JOIN_WORDS: [&str; 8] =
    ["CROSS", "INNER", "JOIN", "LEFT", "NATURAL", "OUTER", "RIGHT", "STRAIGHT_JOIN"];

/// Words that begin the clauses after the tables, except words of joins.
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
            if self.tokens.take_sign(b',') {
                self.take_factor(&mut tables)?;
            } else if self.tokens.is_any_word(&JOIN_WORDS) {
                self.tokens.skip_words(&JOIN_WORDS);
                self.take_factor(&mut tables)?;
            } else if self.tokens.take_word("USING") {
                self.take_group()?;
            } else if self.tokens.take_word("ON") {
                self.skip_condition()?;
            } else if self.is_end() || self.tokens.is_any_word(&CLAUSE_WORDS) {
                return Ok(tables);
            } else {
                return Err(SkipReason::Unknown);
            }
        }
    }

    /// Takes a table, a derived table, or joined tables in parentheses.
    fn take_factor(&mut self, tables: &mut Vec<FromTable>) -> Result<(), SkipReason> {
        if self.tokens.is_sign(b'(') && !self.tokens_ahead().is_word("SELECT") {
            self.tokens.take_next();
            tables.extend(self.take_references()?);
            return if self.tokens.take_sign(b')') { Ok(()) } else { Err(SkipReason::Unknown) };
        }
        if self.tokens.is_sign(b'(') {
            self.take_group()?;
            // The server has a separate plan for the tables of a derived table.
            self.take_alias()?.ok_or(SkipReason::Unknown)?;
            return Ok(());
        }
        let first = self.take_name()?;
        let name = match self.tokens.take_sign(b'.') {
            true => NamedTable { database: Some(first), table: self.take_name()? },
            false => NamedTable { database: None, table: first },
        };
        self.all.push(name.clone());
        if self.tokens.take_word("PARTITION") {
            self.take_group()?;
        }
        let alias = self.take_alias()?;
        tables.push(FromTable { name, alias });
        while self.tokens.is_any_word(&HINT_WORDS) {
            while !self.tokens.is_sign(b'(') && !self.is_end() {
                self.tokens.take_next();
            }
            self.take_group()?;
        }
        Ok(())
    }

    fn take_alias(&mut self) -> Result<Option<String>, SkipReason> {
        if self.tokens.take_word("AS") {
            return self.take_name().map(Some);
        }
        let words = [&JOIN_WORDS[..], &CLAUSE_WORDS, &HINT_WORDS];
        let is_alias = self.tokens.is_name() && !words.iter().any(|words| self.tokens.is_any_word(words));
        if is_alias { self.take_name().map(Some) } else { Ok(None) }
    }

    /// Skips the condition of a join.
    fn skip_condition(&mut self) -> Result<(), SkipReason> {
        loop {
            let is_join = self.tokens.is_any_word(&JOIN_WORDS) && !self.tokens_ahead().is_sign(b'(');
            if self.is_end() || self.tokens.is_sign(b',') || is_join || self.tokens.is_any_word(&CLAUSE_WORDS)
            {
                return Ok(());
            }
            self.skip()?;
        }
    }

    /// Skips expressions and clauses up to a SELECT, a closing parenthesis, or the end.
    fn skip_expressions(&mut self) -> Result<(), SkipReason> {
        while !self.is_end() && !self.tokens.is_word("SELECT") {
            self.skip()?;
        }
        Ok(())
    }

    /// Takes parentheses, and the tables of a query in them.
    fn take_group(&mut self) -> Result<(), SkipReason> {
        if !self.tokens.take_sign(b'(') {
            return Err(SkipReason::Unknown);
        }
        self.skip_expressions()?;
        while self.tokens.take_word("SELECT") {
            while !self.is_end() && !self.tokens.is_any_word(&["FROM", "SELECT"]) {
                self.skip()?;
            }
            if self.tokens.take_word("FROM") {
                self.take_references()?;
                self.skip_expressions()?;
            }
        }
        if self.tokens.take_sign(b')') { Ok(()) } else { Err(SkipReason::Unknown) }
    }

    /// Skips a token, a whole name, or parentheses.
    fn skip(&mut self) -> Result<(), SkipReason> {
        if self.tokens.is_sign(b'(') {
            return self.take_group();
        }
        // The separate statement `TABLE t`.
        if self.tokens.is_word("TABLE") {
            return Err(SkipReason::Clause);
        }
        self.tokens.take_next();
        while self.tokens.take_sign(b'.') {
            self.tokens.take_next();
        }
        Ok(())
    }

    fn take_name(&mut self) -> Result<String, SkipReason> {
        let token = self.tokens.take_name().ok_or(SkipReason::Unknown)?;
        self.text.name(&token)
    }

    /// Returns true at the end of the text, or before a closing parenthesis.
    fn is_end(&self) -> bool {
        self.tokens.peek().is_none() || self.tokens.is_sign(b')')
    }

    /// Returns a cursor after the next token.
    fn tokens_ahead(&self) -> TokenCursor<'_> {
        let mut ahead = self.tokens.clone();
        ahead.take_next();
        ahead
    }
}
