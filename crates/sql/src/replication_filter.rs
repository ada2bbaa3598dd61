//! Filter of databases and tables by the rules of a replica's `replicate-*` options.
//!
//! Databases are renamed before they are filtered. Database rules apply to the table's database for row changes, and to
//! the default database for statements. Table rules apply to both.

use std::collections::BTreeSet;
use std::fmt;

use crate::statement::StatementKind;
use crate::table_pattern::split_table_name;
use crate::unmatched_rules::UnmatchedRules;
use crate::wildcard_pattern::WildcardPattern;

/// Selection of databases and tables, and their names on the target. The default selects all, and keeps the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationFilter {
    do_databases: BTreeSet<Vec<u8>>,
    ignore_databases: BTreeSet<Vec<u8>>,
    do_tables: QualifiedNames,
    ignore_tables: QualifiedNames,
    wild_do_tables: Vec<WildcardPattern>,
    wild_ignore_tables: Vec<WildcardPattern>,
    rewrites: Vec<DatabaseRewrite>,
    /// The rules of `do_databases`, `do_tables` and `wild_do_tables`, in the given order.
    pub(crate) selecting_rules: Vec<FilterRule>,
}

/// New name of a database on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DatabaseRewrite {
    from: Vec<u8>,
    to: Vec<u8>,
}

/// Names `database.table`.
type QualifiedNames = BTreeSet<Vec<u8>>;

/// One filter rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterRule {
    /// `replicate-do-db`
    DoDatabase(String),
    /// `replicate-ignore-db`
    IgnoreDatabase(String),
    /// `replicate-do-table`: `database.table`.
    DoTable(String),
    /// `replicate-ignore-table`: `database.table`.
    IgnoreTable(String),
    /// `replicate-wild-do-table`: `%` for any text, `_` for any character, `\` to escape either.
    WildDoTable(String),
    /// `replicate-wild-ignore-table`
    WildIgnoreTable(String),
    /// `replicate-rewrite-db`: old name, new name.
    RewriteDatabase(String, String),
}

/// Format for messages: the rule as an option.
impl fmt::Display for FilterRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoDatabase(name) => write!(out, "--do-db {name}"),
            Self::IgnoreDatabase(name) => write!(out, "--ignore-db {name}"),
            Self::DoTable(name) => write!(out, "--do-table {name}"),
            Self::IgnoreTable(name) => write!(out, "--ignore-table {name}"),
            Self::WildDoTable(name) => write!(out, "--wild-do-table {name}"),
            Self::WildIgnoreTable(name) => write!(out, "--wild-ignore-table {name}"),
            Self::RewriteDatabase(from, to) => write!(out, "--rewrite-db {from}->{to}"),
        }
    }
}

/// Error of parsing a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not a table name: expected DATABASE.TABLE")]
pub struct FilterRuleError {
    text: String,
}

impl ReplicationFilter {
    /// Builds a filter from rules in any order. Of several rewrite rules for one database, the first applies.
    ///
    /// # Errors
    ///
    /// Fails if a table is not given as `database.table`.
    pub fn new(rules: impl IntoIterator<Item = FilterRule>) -> Result<Self, FilterRuleError> {
        let mut filter = Self::default();
        for rule in rules {
            filter.add(rule)?;
        }
        Ok(filter)
    }

    fn add(&mut self, rule: FilterRule) -> Result<(), FilterRuleError> {
        let is_selecting =
            matches!(rule, FilterRule::DoDatabase(_) | FilterRule::DoTable(_) | FilterRule::WildDoTable(_));
        if is_selecting && !self.selecting_rules.contains(&rule) {
            self.selecting_rules.push(rule.clone());
        }
        match rule {
            FilterRule::DoDatabase(name) => drop(self.do_databases.insert(name.into_bytes())),
            FilterRule::IgnoreDatabase(name) => drop(self.ignore_databases.insert(name.into_bytes())),
            FilterRule::DoTable(name) => drop(self.do_tables.insert(parse_table_name(&name)?)),
            FilterRule::IgnoreTable(name) => drop(self.ignore_tables.insert(parse_table_name(&name)?)),
            FilterRule::WildDoTable(name) => {
                self.wild_do_tables.push(WildcardPattern::new(parse_table_name(&name)?))
            }
            FilterRule::WildIgnoreTable(name) => {
                self.wild_ignore_tables.push(WildcardPattern::new(parse_table_name(&name)?))
            }
            FilterRule::RewriteDatabase(from, to) => {
                self.rewrites.push(DatabaseRewrite { from: from.into_bytes(), to: to.into_bytes() });
            }
        }
        Ok(())
    }

    /// Returns true if the filter selects all tables and renames no database.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the selecting rules, none of which has matched yet.
    pub fn unmatched_rules(&self) -> UnmatchedRules {
        UnmatchedRules::of(self)
    }

    /// Returns the name of a database on the target.
    pub fn target_database<'n>(&'n self, database: &'n [u8]) -> &'n [u8] {
        let rewrite = self.rewrites.iter().find(|rewrite| rewrite.from == database);
        rewrite.map_or(database, |rewrite| &rewrite.to)
    }

    /// Returns true if the database rules select a statement with this default database. A statement without a default
    /// database is always selected.
    pub fn accepts_database(&self, database: &[u8]) -> bool {
        match (self.do_databases.is_empty(), self.ignore_databases.is_empty()) {
            _ if database.is_empty() => true,
            (false, _) => self.do_databases.contains(database),
            (true, false) => !self.ignore_databases.contains(database),
            (true, true) => true,
        }
    }

    /// Returns true if the definition of a database is selected. Without database rules, the rules on all tables of the
    /// database apply.
    pub fn accepts_database_definition(&self, database: &[u8]) -> bool {
        if !self.accepts_database(database) {
            return false;
        }
        if !self.do_databases.is_empty() || !self.ignore_databases.is_empty() {
            return true;
        }
        if self.wild_do_tables.is_empty() && self.wild_ignore_tables.is_empty() {
            return true;
        }
        // Only a pattern that ends in `.%` applies to the database itself.
        let name = [database, b"."].concat();
        let is_of = |pattern: &WildcardPattern| pattern.covers_database(&name);
        if self.wild_do_tables.iter().any(is_of) {
            return true;
        }
        if self.wild_ignore_tables.iter().any(is_of) {
            return false;
        }
        self.wild_do_tables.is_empty()
    }

    /// Returns true if a change of these tables is selected. Databases have their names on the target. The first table
    /// with a matching rule decides. A change of no table is selected.
    pub fn accepts_tables<'t>(&self, tables: impl IntoIterator<Item = (&'t [u8], &'t [u8])>) -> bool {
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
            if self.wild_do_tables.iter().any(|pattern| pattern.matches(&name)) {
                return true;
            }
            if self.wild_ignore_tables.iter().any(|pattern| pattern.matches(&name)) {
                return false;
            }
        }
        !has_any || self.do_tables.is_empty() && self.wild_do_tables.is_empty()
    }

    /// Returns true if this statement is selected. `default` is its default database on the target.
    pub fn accepts_statement(&self, kind: &StatementKind, default: &[u8]) -> bool {
        match kind {
            StatementKind::Database => self.accepts_database_definition(default),
            _ if !self.accepts_database(default) => false,
            StatementKind::DropTemporary | StatementKind::DropTrigger(_) => true,
            StatementKind::Tables(tables) => {
                self.accepts_tables(tables.iter().map(|named| named.resolve(default)))
            }
        }
    }

    /// Returns true if there are table rules.
    pub fn has_table_rules(&self) -> bool {
        !(self.do_tables.is_empty()
            && self.ignore_tables.is_empty()
            && self.wild_do_tables.is_empty()
            && self.wild_ignore_tables.is_empty())
    }
}

/// Returns a name `database.table` without the backticks of its parts.
pub(crate) fn parse_table_name(text: &str) -> Result<Vec<u8>, FilterRuleError> {
    match split_table_name(text.as_bytes()) {
        (Some(database), table) if !database.name.is_empty() && !table.name.is_empty() => {
            Ok([&database.name[..], b".", &table.name].concat())
        }
        _ => Err(FilterRuleError { text: text.to_owned() }),
    }
}
