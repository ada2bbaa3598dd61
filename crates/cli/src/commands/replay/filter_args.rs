//! Options that select databases and tables, and rename databases on the target.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::Args;
use sql::{FilterRule, ReplicationFilter};

use crate::commands::table_args::TableArgs;
use crate::exit::CommandFailure;

/// Options that select databases and tables, and rename databases on the target.
#[derive(Args, Debug)]
pub(super) struct FilterArgs {
    #[command(flatten)]
    tables: TableArgs,
    /// Apply changes of database FROM to database TO: row changes to its tables, and statements that ran with it as the
    /// default database. Database names in the text of statements are not changed. The other options of this group
    /// match the new names.
    #[arg(long, value_name = "FROM->TO", value_parser = parse_rewrite)]
    #[arg(help_heading = "Databases and tables (same rules as a replica's replicate-* options)")]
    rewrite_db: Vec<(String, String)>,
}

impl FilterArgs {
    /// Returns whether any database is renamed on the target.
    pub(super) const fn renames(&self) -> bool {
        !self.rewrite_db.is_empty()
    }

    pub(super) fn filter(&self) -> Result<ReplicationFilter, CommandFailure> {
        let mut targets = BTreeMap::new();
        for (from, to) in &self.rewrite_db {
            if let Some(other) = targets.insert(from, to).filter(|other| *other != to) {
                return Err(CommandFailure::NotStarted(anyhow!(
                    "--rewrite-db renames {from} to {other} and to {to}: give one new name for each database"
                )));
            }
        }
        let rewrites = self.rewrite_db.iter().cloned();
        self.tables.filter_with(rewrites.map(|(from, to)| FilterRule::RewriteDatabase(from, to)).collect())
    }
}

fn parse_rewrite(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once("->").map(|(from, to)| (from.trim(), to.trim()));
    let parts = parts.filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) = parts.ok_or_else(|| "expected FROM->TO".to_owned())?;
    Ok((from.to_owned(), to.to_owned()))
}
