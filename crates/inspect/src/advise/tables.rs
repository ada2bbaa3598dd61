//! Which tables a transaction's bytes are of.

use std::collections::HashMap;

use binlog::{Event, EventType, Format, RawEvent};

/// A table's name: its database, itself.
pub(crate) type Name = (Box<[u8]>, Box<[u8]>);

/// Tables by number, as long as one thread counts.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<Name, u32>,
    names: Vec<Name>,
    /// What numbers in events stand for in this transaction.
    mapped: HashMap<u64, u32>,
    /// Bytes by table, of this transaction.
    bytes: Vec<(u32, u64)>,
    /// Where each of these tables stands there.
    places: HashMap<u32, usize>,
}

impl Names {
    /// Another transaction starts.
    pub(crate) fn begin(&mut self) {
        self.mapped.clear();
        self.bytes.clear();
        self.places.clear();
    }

    /// Takes an event of the transaction. What cannot be decoded is of no table: others say so.
    pub(crate) fn take(&mut self, raw: &RawEvent<'_>, format: &Format) {
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
        let place = *self.places.entry(table).or_insert(self.bytes.len());
        match self.bytes.get_mut(place) {
            Some((_, bytes)) => *bytes += size,
            None => self.bytes.push((table, size)),
        }
    }

    /// The transaction's tables, and their bytes.
    pub(crate) fn bytes(&self) -> &[(u32, u64)] {
        &self.bytes
    }

    /// The names by number.
    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    /// The names by number, to be handed on; numbers start anew.
    pub(crate) fn hand_on(&mut self) -> Vec<Name> {
        self.known.clear();
        self.begin();
        std::mem::take(&mut self.names)
    }

    fn number(&mut self, name: Name) -> u32 {
        if let Some(number) = self.known.get(&name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.known.insert(name, number);
        number
    }
}

/// The first field of every rows event.
fn table_id(body: &[u8]) -> Option<u64> {
    let bytes = body.first_chunk::<6>()?;
    let mut id = [0; 8];
    id[..6].copy_from_slice(bytes);
    Some(u64::from_le_bytes(id))
}
