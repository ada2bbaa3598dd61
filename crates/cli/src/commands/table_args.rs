//! Selection of databases and tables: a replica's `replicate-*` options.

use clap::Args;
use sql::{FilterRule, ReplicationFilter};
use tracing::warn;

use crate::exit::CommandFailure;

/// Database of the table `progress`, in which replay saves its progress.
const PROGRESS_DATABASE: &str = "bintide";

/// Options that select databases and tables.
#[derive(Args, Debug)]
#[command(next_help_heading = "Databases and tables (same rules as a replica's replicate-* options)")]
pub(crate) struct TableArgs {
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
    /// Select changes to tables that match this pattern: % matches any characters, _ matches one, \_ matches an
    /// underscore.
    #[arg(long, value_name = "PATTERN")]
    wild_do_table: Vec<String>,
    /// Exclude changes to tables that match this pattern.
    #[arg(long, value_name = "PATTERN")]
    wild_ignore_table: Vec<String>,
}

/// Warns in one line about rules that matched nothing. `logs` describes the searched logs.
pub(crate) fn warn_unmatched(rules: &[FilterRule], logs: &str) {
    if !rules.is_empty() {
        let options: Vec<String> = rules.iter().map(ToString::to_string).collect();
        warn!("nothing in {logs} matches {}", options.join(", "));
    }
}

impl TableArgs {
    /// Returns the filter of these rules. The filter excludes the table in which replay saves its progress, unless the
    /// options name this table or its database.
    pub(crate) fn filter_without_progress(&self) -> Result<ReplicationFilter, CommandFailure> {
        let (database, table) = (PROGRESS_DATABASE, format!("{PROGRESS_DATABASE}.progress"));
        let is_selected =
            self.do_table.contains(&table) || self.do_db.iter().any(|selected| selected == database);
        self.filter_with(if is_selected { Vec::new() } else { vec![FilterRule::IgnoreTable(table)] })
    }

    /// Returns the filter of these and `more` rules.
    pub(crate) fn filter_with(&self, more: Vec<FilterRule>) -> Result<ReplicationFilter, CommandFailure> {
        let rules = |names: &[String], rule: fn(String) -> FilterRule| -> Vec<FilterRule> {
            names.iter().cloned().map(rule).collect()
        };
        let mut all = rules(&self.do_db, FilterRule::DoDatabase);
        all.extend(rules(&self.ignore_db, FilterRule::IgnoreDatabase));
        all.extend(rules(&self.do_table, FilterRule::DoTable));
        all.extend(rules(&self.ignore_table, FilterRule::IgnoreTable));
        all.extend(rules(&self.wild_do_table, FilterRule::WildDoTable));
        all.extend(rules(&self.wild_ignore_table, FilterRule::WildIgnoreTable));
        all.extend(more);
        ReplicationFilter::new(all).map_err(|error| CommandFailure::NotStarted(error.into()))
    }
}
