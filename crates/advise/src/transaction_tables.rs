//! Assigns the bytes of a transaction to its tables.

use std::collections::HashMap;

use binlog::{Event, EventFormat, EventType, RawEvent};

/// Database and table.
pub(crate) type QualifiedTable = (Box<[u8]>, Box<[u8]>);

/// Numbers for table names, and the tables of the current transaction. One per thread.
#[derive(Debug, Default)]
pub(crate) struct TransactionTables {
    known: HashMap<QualifiedTable, u32>,
    names: Vec<QualifiedTable>,
    /// Table numbers by the table ids of this transaction's events.
    mapped: HashMap<u64, u32>,
    /// Table numbers of this transaction, with their bytes.
    bytes: Vec<(u32, u64)>,
    /// Index in `bytes` by table number.
    indexes: HashMap<u32, usize>,
}

impl TransactionTables {
    /// Starts another transaction.
    pub(crate) fn begin(&mut self) {
        self.mapped.clear();
        self.bytes.clear();
        self.indexes.clear();
    }

    /// Adds an event of the transaction. An event that cannot be decoded belongs to no table; the error is reported
    /// elsewhere.
    pub(crate) fn take(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        let table = match raw.event_type() {
            EventType::TableMap => match raw.decode(format) {
                Ok(Event::TableMap(map)) => {
                    let number = self.number((map.database.into(), map.table.into()));
                    self.mapped.insert(map.table_id, number);
                    Some(number)
                }
                _ => None,
            },
            _ => match raw.event_type().rows_kind() {
                Some(_) => table_id(raw.body()).and_then(|id| self.mapped.get(&id).copied()),
                None => None,
            },
        };
        let Some(table) = table else { return };
        let size = raw.bytes().len() as u64;
        let index = *self.indexes.entry(table).or_insert(self.bytes.len());
        match self.bytes.get_mut(index) {
            Some((_, bytes)) => *bytes += size,
            None => self.bytes.push((table, size)),
        }
    }

    /// Returns the tables of the transaction, with their bytes.
    pub(crate) fn bytes(&self) -> &[(u32, u64)] {
        &self.bytes
    }

    /// Returns the names by number.
    pub(crate) fn names(&self) -> &[QualifiedTable] {
        &self.names
    }

    /// Takes the names by number. Numbers start again at 0.
    pub(crate) fn take_names(&mut self) -> Vec<QualifiedTable> {
        self.known.clear();
        self.begin();
        std::mem::take(&mut self.names)
    }

    fn number(&mut self, name: QualifiedTable) -> u32 {
        if let Some(number) = self.known.get(&name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.known.insert(name, number);
        number
    }
}

/// Returns the first field of a rows event.
fn table_id(body: &[u8]) -> Option<u64> {
    let bytes = body.first_chunk::<6>()?;
    let mut id = [0; 8];
    id[..6].copy_from_slice(bytes);
    Some(u64::from_le_bytes(id))
}
