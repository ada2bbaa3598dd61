//! Grammar and tables of the events in a walk, for readers of row changes.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{Rows, TableMap};
use binlog::{
    DecodeError, RowDecoder, Table, TableRegistry, TrackError, TransactionOutline, TransactionTracker,
};

use crate::event_walk::WalkEvent;

/// Tables for which a caller has prepared something. Bounds memory: table IDs are never reused, so a long log has any
/// number of them.
const KNOWN_MAX: usize = 8192;

/// Follows the transactions and tables of the events in a walk. Callers prepare a `T` for each table.
#[derive(Debug)]
pub struct ChangeWalk<T> {
    tracker: TransactionTracker,
    tables: TableRegistry,
    known: HashMap<u64, WalkedTable<T>>,
}

/// Table of a log, and the data that a caller has prepared for it.
#[derive(Debug)]
pub struct WalkedTable<T> {
    /// Table as in the log.
    pub logged: Arc<Table>,
    /// Data that the caller has prepared.
    pub prepared: T,
}

/// Place of an event in its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlace {
    /// True for the first event of a transaction.
    pub is_first: bool,
    /// Transaction that ends with this event.
    pub ended: Option<TransactionOutline>,
}

impl<T> ChangeWalk<T> {
    /// Creates a walk that starts between two transactions.
    pub fn new() -> Self {
        Self { tracker: TransactionTracker::new(), tables: TableRegistry::new(), known: HashMap::new() }
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open_transaction(&self) -> Option<&TransactionOutline> {
        self.tracker.open()
    }

    /// Follows the transactions with the next event outside of payloads.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be decoded, or is not allowed at its position. The error is the reason.
    pub fn track(&mut self, event: &WalkEvent<'_>) -> Result<ChangePlace, String> {
        match self.tracker.track(event.offset, &event.raw, event.format) {
            Ok(tracked) => {
                Ok(ChangePlace { is_first: tracked.step.transaction.is_first(), ended: tracked.ended })
            }
            Err(TrackError::Decode(error)) => Err(error.to_string()),
            Err(TrackError::Fault(fault)) => Err(fault.fault.to_string()),
        }
    }

    /// Registers a table map. Returns the table if nothing is prepared for it.
    ///
    /// # Errors
    ///
    /// Fails if the map is invalid.
    pub fn register(&mut self, map: &TableMap<'_>) -> Result<Option<Arc<Table>>, DecodeError> {
        let table = self.tables.register(map)?;
        let is_known = self.known.get(&map.table_id).is_some_and(|known| Arc::ptr_eq(&known.logged, &table));
        Ok((!is_known).then_some(table))
    }

    /// Sets what the caller has prepared for a table. When too many tables are known, the others are forgotten.
    pub fn prepare(&mut self, table_id: u64, table: Arc<Table>, prepared: T) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(table_id, WalkedTable { logged: table, prepared });
    }

    /// Returns the table with this ID, if something is prepared for it.
    pub fn known(&mut self, table_id: u64) -> Option<&mut WalkedTable<T>> {
        self.known.get_mut(&table_id)
    }

    /// Returns the table with this ID, as in the log.
    pub fn table(&mut self, table_id: u64) -> Option<Arc<Table>> {
        self.tables.table(table_id)
    }

    /// Returns the decoder for the rows of an event.
    ///
    /// # Errors
    ///
    /// Fails as [`TableRegistry::decoder`].
    pub fn decoder(&mut self, rows: &Rows<'_>) -> Result<Arc<RowDecoder>, DecodeError> {
        self.tables.decoder(rows)
    }
}

impl<T> Default for ChangeWalk<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::TableMap;

    use super::{ChangeWalk, KNOWN_MAX};

    fn map(table_id: u64, table: &[u8]) -> TableMap<'_> {
        TableMap {
            table_id,
            flags: 0,
            database: b"d",
            table,
            column_types: &[3],
            metadata: &[],
            nullable: &[1],
            optional: &[],
            flavour: Flavour::MySql,
        }
    }

    #[test]
    fn tables_are_prepared_when_they_are_new() {
        let mut walk = ChangeWalk::new();
        let mut check = |table_id: u64, name: &'static str, is_new: bool| {
            let table = walk.register(&map(table_id, name.as_bytes())).unwrap();
            assert_eq!(table.is_some(), is_new, "{table_id} {name}");
            if let Some(table) = table {
                walk.prepare(table_id, table, name);
            }
            assert_eq!(walk.known(table_id).map(|known| known.prepared), Some(name));
        };
        check(1, "a", true);
        check(1, "a", false);
        check(2, "b", true);
        check(1, "a", false);
        // Another server may use the same ID.
        check(1, "b", true);
    }

    #[test]
    fn prepared_tables_are_bounded() {
        let mut walk = ChangeWalk::new();
        for table_id in 0..3 * KNOWN_MAX as u64 {
            let table = walk.register(&map(table_id, b"t")).unwrap().unwrap();
            walk.prepare(table_id, table, ());
            assert!(walk.known.len() <= KNOWN_MAX);
            assert!(walk.known(table_id).is_some());
        }
    }
}
