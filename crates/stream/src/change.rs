//! What an envelope is told: a transaction, a row, a definition.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::Row;
use binlog::events::RowsKind;

use crate::defined::{Changes, Definitions};
use crate::plan::Plan;

/// A transaction under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// Its GTID, if it has one.
    pub(crate) gtid: Option<String>,
    /// When it was committed where it began, in microseconds since 1970; absent where its server does not say.
    pub(crate) committed_us: Option<u64>,
    /// The connection that ran it.
    pub(crate) thread: Option<u32>,
    /// The statement whose rows follow, if the source writes it down.
    pub(crate) query: Option<String>,
    /// Rows told by now, in all and of each table.
    pub(crate) rows: u64,
    pub(crate) rows_by_table: Vec<(Arc<str>, u64)>,
    numbers: HashMap<Arc<str>, usize>,
}

/// A place between two transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The log, as its server calls it.
    pub log: String,
    /// Where the next transaction starts, in bytes from the log's start.
    pub position: u64,
}

/// Where an event stands, and when it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'l> {
    /// The log, as its server calls it.
    pub(crate) log: &'l str,
    /// Where the event starts; of events in a payload, where that does.
    pub(crate) offset: u64,
    /// The same in the source's log: another place where the log that is read was compressed since.
    pub(crate) position: u64,
    /// In seconds since 1970.
    pub(crate) timestamp: u32,
    pub(crate) server_id: u32,
    /// When records are written, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
}

/// A changed row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'c, 'a> {
    pub(crate) plan: &'c Plan,
    pub(crate) kind: RowsKind,
    /// Its number in its event, from 0.
    pub(crate) index: u64,
    pub(crate) row: &'c Row<'c, 'a>,
}

/// A statement that defines something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition<'d> {
    pub(crate) verb: Verb,
    pub(crate) database: &'d str,
    /// The first table that it names; `None` if it is on a database.
    pub(crate) table: Option<&'d str>,
    pub(crate) sql: &'d str,
    /// What it has made of tables, and all of them behind it, where definitions are followed.
    pub(crate) known: Option<(&'d Changes, &'d Definitions)>,
}

/// What a definition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Alter,
    Drop,
    Truncate,
}

impl At<'_> {
    /// When the transaction was committed, or else when the event was written: microseconds since 1970.
    pub(crate) fn when_us(&self, head: &Head) -> u64 {
        head.committed_us.unwrap_or(u64::from(self.timestamp) * 1_000_000)
    }
}

impl Head {
    /// No transaction is under way. Its memory is kept for the next.
    pub(crate) fn clear(&mut self) {
        let Self { gtid, committed_us, thread, query, rows, rows_by_table, numbers } = self;
        (*gtid, *committed_us, *thread, *query, *rows) = (None, None, None, None, 0);
        rows_by_table.clear();
        numbers.clear();
    }

    /// The table's number among those that the transaction changes.
    pub(crate) fn number(&mut self, table: &Arc<str>) -> usize {
        if let Some(number) = self.numbers.get(table) {
            return *number;
        }
        let number = self.rows_by_table.len();
        self.numbers.insert(Arc::clone(table), number);
        self.rows_by_table.push((Arc::clone(table), 0));
        number
    }

    /// Counts a row of the table with this number; gives its own in the transaction, and among those of its table,
    /// from 1.
    pub(crate) fn count(&mut self, table: usize) -> (u64, u64) {
        self.rows += 1;
        let (_, rows) = &mut self.rows_by_table[table];
        *rows += 1;
        (self.rows, *rows)
    }
}
