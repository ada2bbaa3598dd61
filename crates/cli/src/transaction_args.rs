//! Selection of transactions by time and GTID, and of tables: for commands that report on logs.

#[cfg(feature = "columns")]
use std::collections::BTreeSet;

use binlog::gtid::GtidSet;
use clap::Args;
use inspect::stats::StatsSelection;
use logs::GtidSelection;
use sql::{TablePattern, TableSelection};

use crate::exit::CommandFailure;
use crate::value_parsers::{check_period, parse_any_gtids, parse_database, parse_gtids, parse_time};

/// Options that select transactions and tables.
#[derive(Args, Debug)]
#[command(next_help_heading = "Selection")]
pub(crate) struct TransactionArgs {
    /// Select only transactions that were committed at this local time or later, such as 2026-11-23 14:00:00.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_datetime: Option<u64>,
    /// Select only transactions that were committed before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_datetime: Option<u64>,
    /// Select only the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    gtid: Option<GtidSet>,
    /// Exclude the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_any_gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Select only row changes of this table: DB.TABLE, or TABLE in any database; * matches any text, ? one character.
    /// Repeatable.
    #[arg(long, value_name = "TABLE")]
    table: Vec<String>,
    /// Select only row changes of this database; stats also counts statements with it as the default database.
    #[arg(long, value_name = "DB", value_parser = parse_database)]
    database: Option<String>,
}

impl TransactionArgs {
    /// Returns the selection.
    pub(crate) fn selection(&self) -> Result<StatsSelection, CommandFailure> {
        check_period(self.start_datetime, self.stop_datetime)?;
        Ok(StatsSelection {
            start_us: self.start_datetime,
            stop_us: self.stop_datetime,
            gtids: GtidSelection { included: self.gtid.clone(), excluded: self.exclude_gtids.clone() },
            tables: TableSelection {
                database: self.database.clone().map(String::into_bytes),
                patterns: self.table.iter().map(|pattern| TablePattern::new(pattern.as_bytes())).collect(),
            },
        })
    }

    /// Returns the options that are set, in a fixed order and form; empty if everything is selected.
    #[cfg(feature = "columns")]
    pub(crate) fn description(&self) -> String {
        let mut options = Vec::new();
        options.extend(self.start_datetime.map(|time| format!("--start-datetime {time}")));
        options.extend(self.stop_datetime.map(|time| format!("--stop-datetime {time}")));
        options.extend(self.gtid.as_ref().map(|gtids| format!("--gtid {gtids}")));
        options.extend(self.exclude_gtids.as_ref().map(|gtids| format!("--exclude-gtids {gtids}")));
        let tables: BTreeSet<&String> = self.table.iter().collect();
        options.extend(tables.iter().map(|table| format!("--table {table}")));
        options.extend(self.database.as_ref().map(|database| format!("--database {database}")));
        options.join(" ")
    }
}
