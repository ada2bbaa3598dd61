//! Input of the envelope writers: transactions, rows and DDL statements.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::RowChange;
use binlog::events::RowsKind;
use logs::split_log_number;

use crate::ddl_schema::{DdlSchema, SchemaChanges};
use crate::table_plan::TablePlan;

/// Metadata of the transaction being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransactionMetadata {
    /// GTID, if it has one.
    pub(crate) gtid: Option<String>,
    /// Commit time on the originating server, in microseconds since 1970; absent if that server does not log it.
    pub(crate) committed_us: Option<u64>,
    /// ID of the connection that ran it.
    pub(crate) thread: Option<u32>,
    /// Statement whose rows follow, if the source logs it.
    pub(crate) query: Option<String>,
    /// Number of rows so far: in total, and per table.
    pub(crate) rows: u64,
    pub(crate) rows_by_table: Vec<(Arc<str>, u64)>,
    numbers: HashMap<Arc<str>, usize>,
}

/// A position between two transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumePosition {
    /// Name of the log on its server.
    pub log: String,
    /// Offset at which the next transaction starts, in bytes from the log's start.
    pub position: u64,
}

impl ResumePosition {
    /// Returns whether this position is before another one of the same server. Logs with different base names have no order:
    /// then it is not.
    pub fn is_before(&self, other: &Self) -> bool {
        match [self, other].map(|position| split_log_number(&position.log)) {
            [Some((base, number)), Some((other_base, other_number))] => {
                base == other_base && (number, self.position) < (other_number, other.position)
            }
            _ => self.log == other.log && self.position < other.position,
        }
    }
}

/// Position of an event, and when and by which server it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventCoordinates<'l> {
    /// Name of the log on its server.
    pub(crate) log: &'l str,
    /// Start of the event; for events in a payload, start of the payload event.
    pub(crate) offset: u64,
    /// Start of the event in the source's log. Differs from `offset` if the log was compressed since.
    pub(crate) position: u64,
    /// Event timestamp, in seconds since 1970.
    pub(crate) timestamp: u32,
    pub(crate) server_id: u32,
    /// Time at which the records are written, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
}

/// A changed row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedRow<'c, 'a> {
    pub(crate) plan: &'c TablePlan,
    pub(crate) kind: RowsKind,
    /// Its index in its event, from 0.
    pub(crate) index: u64,
    pub(crate) row: &'c RowChange<'c, 'a>,
}

/// A DDL statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DdlRecord<'d> {
    pub(crate) verb: DdlVerb,
    pub(crate) database: &'d str,
    /// Table of the record; `None` for a statement on a database.
    pub(crate) table: Option<&'d str>,
    pub(crate) sql: &'d str,
    /// Table definitions, if they are followed.
    pub(crate) schema: Option<FollowedSchema<'d>>,
}

/// Table definitions around a DDL statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowedSchema<'d> {
    /// Definitions that the statement changed.
    pub(crate) changes: &'d SchemaChanges,
    /// All definitions after it.
    pub(crate) after: &'d DdlSchema,
}

/// Number of a row, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowNumber {
    pub(crate) in_transaction: u64,
    /// Number among the rows of its table in the transaction.
    pub(crate) in_table: u64,
}

/// Action of a DDL statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdlVerb {
    /// CREATE.
    Create,
    /// ALTER, RENAME, and changes of indexes.
    Alter,
    /// DROP.
    Drop,
    /// TRUNCATE.
    Truncate,
}

impl EventCoordinates<'_> {
    /// Returns the commit time of the transaction, or else the event's timestamp, in microseconds since 1970.
    pub(crate) fn commit_time_us(&self, head: &TransactionMetadata) -> u64 {
        head.committed_us.unwrap_or(u64::from(self.timestamp) * 1_000_000)
    }
}

impl TransactionMetadata {
    /// Resets the metadata after a transaction, but keeps the allocations.
    pub(crate) fn clear(&mut self) {
        let Self { gtid, committed_us, thread, query, rows, rows_by_table, numbers } = self;
        (*gtid, *committed_us, *thread, *query, *rows) = (None, None, None, None, 0);
        rows_by_table.clear();
        numbers.clear();
    }

    /// Returns the index of the table among those that the transaction changes, adding it if it is new.
    pub(crate) fn table_number(&mut self, table: &Arc<str>) -> usize {
        if let Some(number) = self.numbers.get(table) {
            return *number;
        }
        let number = self.rows_by_table.len();
        self.numbers.insert(Arc::clone(table), number);
        self.rows_by_table.push((Arc::clone(table), 0));
        number
    }

    /// Counts a row of the table with this index, and returns its number.
    pub(crate) fn count_row(&mut self, table: usize) -> RowNumber {
        self.rows += 1;
        let (_, rows) = &mut self.rows_by_table[table];
        *rows += 1;
        RowNumber { in_transaction: self.rows, in_table: *rows }
    }
}
