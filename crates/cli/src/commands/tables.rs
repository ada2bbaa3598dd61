//! Selection of databases and tables: a replica's `replicate-*` options.

use clap::Args;
use filter::{Filter, Rule};

use crate::exit::Failure;

/// Options that select databases and tables.
#[derive(Args, Debug)]
#[command(next_help_heading = "Databases and tables (rules as of a replica's replicate-* options)")]
pub(crate) struct Tables {
    /// Select changes to this database: row changes to its tables, and statements that ran with it as the default
    /// database. Repeatable, as are all options of this group.
    #[arg(long, value_name = "DB")]
    do_db: Vec<String>,
    /// Exclude changes to this database. Ignored if --do-db is given.
    #[arg(long, value_name = "DB")]
    ignore_db: Vec<String>,
    /// Select changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    do_table: Vec<String>,
    /// Exclude changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    ignore_table: Vec<String>,
    /// Select changes to tables that match this pattern: % matches any characters, _ matches one.
    #[arg(long, value_name = "PATTERN")]
    wild_do_table: Vec<String>,
    /// Exclude changes to tables that match this pattern.
    #[arg(long, value_name = "PATTERN")]
    wild_ignore_table: Vec<String>,
}

impl Tables {
    /// Returns the filter of these rules.
    pub(crate) fn filter(&self) -> Result<Filter, Failure> {
        self.filter_with(Vec::new())
    }

    /// Returns the filter of these and `more` rules.
    pub(crate) fn filter_with(&self, more: Vec<Rule>) -> Result<Filter, Failure> {
        let rules = |names: &[String], rule: fn(String) -> Rule| -> Vec<Rule> {
            names.iter().cloned().map(rule).collect()
        };
        let mut all = rules(&self.do_db, Rule::DoDatabase);
        all.extend(rules(&self.ignore_db, Rule::IgnoreDatabase));
        all.extend(rules(&self.do_table, Rule::DoTable));
        all.extend(rules(&self.ignore_table, Rule::IgnoreTable));
        all.extend(rules(&self.wild_do_table, Rule::WildDoTable));
        all.extend(rules(&self.wild_ignore_table, Rule::WildIgnoreTable));
        all.extend(more);
        Filter::new(all).map_err(|error| Failure::NotBegun(error.into()))
    }
}
