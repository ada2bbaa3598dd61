//! Which databases and tables are meant, and what they are called on the target.

use clap::Args;
use filter::{Filter, Rule};

use crate::commands::tables::Tables;
use crate::exit::Failure;

/// Which databases and tables are meant, and what they are called on the target.
#[derive(Args, Debug)]
pub(super) struct Filters {
    #[command(flatten)]
    tables: Tables,
    /// Apply to another database: rows of its tables, and statements run with it as the default database. Names that
    /// a statement's own text says stay. The other options are on the new names.
    #[arg(long, value_name = "FROM->TO", value_parser = rewrite)]
    #[arg(help_heading = "Which databases and tables (rules as a replica's replicate-* options)")]
    rewrite_db: Vec<(String, String)>,
}

impl Filters {
    /// Is a database called otherwise on the target?
    pub(super) const fn renames(&self) -> bool {
        !self.rewrite_db.is_empty()
    }

    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        let rewrites = self.rewrite_db.iter().cloned();
        self.tables.filter_with(rewrites.map(|(from, to)| Rule::RewriteDatabase(from, to)).collect())
    }
}

fn rewrite(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once("->").map(|(from, to)| (from.trim(), to.trim()));
    let parts = parts.filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) = parts.ok_or_else(|| "a rewrite is FROM->TO".to_owned())?;
    Ok((from.to_owned(), to.to_owned()))
}
