//! Which databases and tables are meant: a replica's `replicate-*` options.

use clap::Args;
use filter::{Filter, Rule};

use crate::exit::Failure;

/// Which databases and tables are meant.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which databases and tables (rules as a replica's replicate-* options)")]
pub(crate) struct Tables {
    /// Take changes to this database: of rows, those to its tables; of statements, those run with it as the default
    /// database. May be given more than once, as all of these.
    #[arg(long, value_name = "DB")]
    do_db: Vec<String>,
    /// Leave out changes to this database. Does not count where --do-db is given.
    #[arg(long, value_name = "DB")]
    ignore_db: Vec<String>,
    /// Take changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    do_table: Vec<String>,
    /// Leave out changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    ignore_table: Vec<String>,
    /// Take changes to the tables that this fits: % for anything, _ for one character.
    #[arg(long, value_name = "PATTERN")]
    wild_do_table: Vec<String>,
    /// Leave out changes to the tables that this fits.
    #[arg(long, value_name = "PATTERN")]
    wild_ignore_table: Vec<String>,
}

impl Tables {
    /// The filter that these rules are.
    pub(crate) fn filter(&self) -> Result<Filter, Failure> {
        self.filter_with(Vec::new())
    }

    /// With more rules.
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
