//! Which databases and tables are meant: a replica's `replicate-*` options.

use clap::Args;
use replay::{Filter, Rule};

use crate::exit::Failure;

/// Which databases and tables are meant, and what they are called on the target.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which databases and tables (rules as a replica's replicate-* options)")]
pub(super) struct Filters {
    /// Apply changes to this database: of rows, those to its tables; of statements, those run with it as the default
    /// database. May be given more than once, as all of these.
    #[arg(long, value_name = "DB")]
    do_db: Vec<String>,
    /// Leave out changes to this database. Does not count where --do-db is given.
    #[arg(long, value_name = "DB")]
    ignore_db: Vec<String>,
    /// Apply changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    do_table: Vec<String>,
    /// Leave out changes to this table.
    #[arg(long, value_name = "DB.TABLE")]
    ignore_table: Vec<String>,
    /// Apply changes to the tables that this fits: % for anything, _ for one character.
    #[arg(long, value_name = "PATTERN")]
    wild_do_table: Vec<String>,
    /// Leave out changes to the tables that this fits.
    #[arg(long, value_name = "PATTERN")]
    wild_ignore_table: Vec<String>,
    /// Apply to another database: rows of its tables, and statements run with it as the default database. Names that
    /// a statement's own text says stay. The other options are on the new names.
    #[arg(long, value_name = "FROM->TO", value_parser = rewrite)]
    rewrite_db: Vec<(String, String)>,
}

impl Filters {
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        let rules = |names: &[String], rule: fn(String) -> Rule| -> Vec<Rule> {
            names.iter().cloned().map(rule).collect()
        };
        let mut all = rules(&self.do_db, Rule::DoDatabase);
        all.extend(rules(&self.ignore_db, Rule::IgnoreDatabase));
        all.extend(rules(&self.do_table, Rule::DoTable));
        all.extend(rules(&self.ignore_table, Rule::IgnoreTable));
        all.extend(rules(&self.wild_do_table, Rule::WildDoTable));
        all.extend(rules(&self.wild_ignore_table, Rule::WildIgnoreTable));
        all.extend(self.rewrite_db.iter().cloned().map(|(from, to)| Rule::RewriteDatabase(from, to)));
        Filter::new(all).map_err(|error| Failure::NotBegun(error.into()))
    }
}

fn rewrite(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once("->").map(|(from, to)| (from.trim(), to.trim()));
    let parts = parts.filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) = parts.ok_or_else(|| "a rewrite is FROM->TO".to_owned())?;
    Ok((from.to_owned(), to.to_owned()))
}
