//! What of the logs is meant, by database and table: a replica's `replicate-*` options, with its own rules.
//!
//! Rewriting comes before filtering. For row changes the table's database counts, for statements the default
//! database; rules on tables hold for both.
//!
//! What this crate never does: read an event, or understand more of SQL than its words and which tables a
//! statement names.
#![forbid(unsafe_code)]

mod pattern;
mod statement;
mod words;

use std::collections::BTreeSet;

pub use crate::pattern::Pattern;
pub use crate::statement::{Kind, Named, kind, start_transaction};
pub use crate::words::{Word, Words};

/// Which databases and tables are meant, and what they are called on the target; by default all, as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    do_databases: BTreeSet<Vec<u8>>,
    ignore_databases: BTreeSet<Vec<u8>>,
    do_tables: Tables,
    ignore_tables: Tables,
    wild_do_tables: Vec<Pattern>,
    wild_ignore_tables: Vec<Pattern>,
    /// From, to.
    rewrites: Vec<(Vec<u8>, Vec<u8>)>,
}

/// `database.table`.
type Tables = BTreeSet<Vec<u8>>;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `replicate-do-db`
    DoDatabase(String),
    /// `replicate-ignore-db`
    IgnoreDatabase(String),
    /// `replicate-do-table`: `database.table`.
    DoTable(String),
    /// `replicate-ignore-table`: `database.table`.
    IgnoreTable(String),
    /// `replicate-wild-do-table`: `%` for anything, `_` for any character, `\` in front of one that means itself.
    WildDoTable(String),
    /// `replicate-wild-ignore-table`
    WildIgnoreTable(String),
    /// `replicate-rewrite-db`: from, to.
    RewriteDatabase(String, String),
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is no table: a table is DATABASE.TABLE")]
pub struct RuleError {
    text: String,
}

impl Filter {
    /// Rules in any order; of rewrites, the first that fits counts.
    ///
    /// # Errors
    ///
    /// When a table is not given as `database.table`.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let mut filter = Self::default();
        for rule in rules {
            filter.add(rule)?;
        }
        Ok(filter)
    }

    fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        match rule {
            Rule::DoDatabase(name) => drop(self.do_databases.insert(name.into_bytes())),
            Rule::IgnoreDatabase(name) => drop(self.ignore_databases.insert(name.into_bytes())),
            Rule::DoTable(name) => drop(self.do_tables.insert(table(&name)?)),
            Rule::IgnoreTable(name) => drop(self.ignore_tables.insert(table(&name)?)),
            Rule::WildDoTable(name) => self.wild_do_tables.push(Pattern::new(table(&name)?)),
            Rule::WildIgnoreTable(name) => self.wild_ignore_tables.push(Pattern::new(table(&name)?)),
            Rule::RewriteDatabase(from, to) => self.rewrites.push((from.into_bytes(), to.into_bytes())),
        }
        Ok(())
    }

    /// Does it let everything through, as it is?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a database is called on the target.
    pub fn rewritten<'n>(&'n self, database: &'n [u8]) -> &'n [u8] {
        let rewrite = self.rewrites.iter().find(|(from, _)| from == database);
        rewrite.map_or(database, |(_, to)| to)
    }

    /// Is a statement meant that has this default database? One that has none always is.
    pub fn takes_database(&self, database: &[u8]) -> bool {
        match (self.do_databases.is_empty(), self.ignore_databases.is_empty()) {
            _ if database.is_empty() => true,
            (false, _) => self.do_databases.contains(database),
            (true, false) => !self.ignore_databases.contains(database),
            (true, true) => true,
        }
    }

    /// Is the definition of a database meant? Where no rule is on databases, those on all of a database's tables count.
    pub fn takes_definition_of(&self, database: &[u8]) -> bool {
        if !self.takes_database(database) {
            return false;
        }
        if !self.do_databases.is_empty() || !self.ignore_databases.is_empty() {
            return true;
        }
        if self.wild_do_tables.is_empty() && self.wild_ignore_tables.is_empty() {
            return true;
        }
        // Only a rule that ends in `.%` is on the database itself.
        let name = [database, b"."].concat();
        let is_of = |pattern: &Pattern| pattern.is_of_all_tables_of(&name);
        if self.wild_do_tables.iter().any(is_of) {
            return true;
        }
        if self.wild_ignore_tables.iter().any(is_of) {
            return false;
        }
        self.wild_do_tables.is_empty()
    }

    /// Is a change meant that is to these tables, all of them on the target's names? The first table that a rule is on
    /// decides. What changes no table at all is.
    pub fn takes_tables<'t>(&self, tables: impl IntoIterator<Item = (&'t [u8], &'t [u8])>) -> bool {
        let mut has_any = false;
        for (database, table) in tables {
            has_any = true;
            let name = [database, b".", table].concat();
            if self.do_tables.contains(&name) {
                return true;
            }
            if self.ignore_tables.contains(&name) {
                return false;
            }
            if self.wild_do_tables.iter().any(|pattern| pattern.fits(&name)) {
                return true;
            }
            if self.wild_ignore_tables.iter().any(|pattern| pattern.fits(&name)) {
                return false;
            }
        }
        !has_any || self.do_tables.is_empty() && self.wild_do_tables.is_empty()
    }

    /// Is this statement meant, which has this default database on the target?
    pub fn takes_statement(&self, kind: &Kind, default: &[u8]) -> bool {
        match kind {
            Kind::Database => self.takes_definition_of(default),
            _ if !self.takes_database(default) => false,
            Kind::DropsTemporary | Kind::DropsTrigger(_) => true,
            Kind::Tables(tables) => self.takes_tables(tables.iter().map(|named| named.on(default))),
        }
    }

    /// Are there rules on tables?
    pub fn has_table_rules(&self) -> bool {
        !(self.do_tables.is_empty()
            && self.ignore_tables.is_empty()
            && self.wild_do_tables.is_empty()
            && self.wild_ignore_tables.is_empty())
    }
}

fn table(text: &str) -> Result<Vec<u8>, RuleError> {
    let is_one =
        text.split_once('.').is_some_and(|(database, table)| !database.is_empty() && !table.is_empty());
    match is_one {
        true => Ok(text.as_bytes().to_vec()),
        false => Err(RuleError { text: text.to_owned() }),
    }
}
