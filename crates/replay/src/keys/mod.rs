//! Which keys a transaction changes, as hashes: of what its rows' unique keys hold, before and after.
//!
//! Two changes that may not change places have a hash in common. The other way around need not hold: where it
//! cannot be told exactly which values a key takes as equal, all of the table stands for the row.
//!
//! | column | taken as equal |
//! |---|---|
//! | whole numbers, times, ENUM, SET, BIT | the same bytes |
//! | DECIMAL, FLOAT, DOUBLE | the same bytes, and the two zeros |
//! | `binary` | the same bytes; BINARY without zero bytes at the end |
//! | collations `_bin` | the same bytes, without spaces at the end unless the collation counts them |
//! | utf8mb4_0900_ai_ci | the same primary weights; texts with characters not in the table here: any |
//! | anything else | any |
//!
//! A prefix of characters is taken as one of as many bytes, which is a part of it.
//!
//! Foreign keys: a table that others refer to is changed as a whole, and with it all tables that refer to it, at
//! any distance, since the engine may change their rows, too; a row that refers to another keeps the other table
//! from being changed that way, beside any number of such rows.

mod normal;
#[cfg(test)]
mod tests;
mod transaction;
mod weights;

use binlog::events::Rows;
use binlog::{DecodeError, Flavour, Image, KeyPart, Row, RowDecoder, Table};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

pub(crate) use self::normal::Normal;
pub use self::normal::weights;
pub use self::transaction::TransactionKeys;
use crate::definition::{Definition, TableName, UniqueKey};
use crate::schedule::KeySet;

/// Reads the keys of one table's rows: prepared once, then run for each rows event.
#[derive(Clone, Debug)]
pub struct KeyReader {
    /// Stands for the table as a whole.
    table: u64,
    /// Tables that a change of any row changes as a whole, this one perhaps among them.
    changed: Vec<u64>,
    /// Tables that must not be changed as a whole meanwhile; this one always is among them.
    kept: Vec<u64>,
    /// Its unique keys; none when it is always changed as a whole.
    keys: Vec<Key>,
    /// The columns in them, in ascending order.
    columns: Vec<usize>,
}

/// One unique key.
#[derive(Clone, Debug)]
struct Key {
    seed: u64,
    parts: Vec<Part>,
}

/// One column of one key.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Which of the reader's columns.
    slot: usize,
    normal: Normal,
}

/// What an image says of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot<'a> {
    /// Nothing.
    Absent,
    Null,
    Value(&'a [u8]),
}

impl KeyReader {
    /// For rows of this table. Without its definition, each change is one of all of the table.
    pub fn new(table: &Table, definition: Option<&Definition>, flavour: Flavour) -> Self {
        let own = || TableName { database: table.database.clone(), table: table.name.clone() };
        let name = definition.map_or_else(own, |definition| definition.name.clone());
        let hash = table_hash(&name);
        let mut reader = Self {
            table: hash,
            changed: Vec::new(),
            kept: vec![hash],
            keys: Vec::new(),
            columns: Vec::new(),
        };
        if let Some(definition) = definition {
            let relatives = &definition.relatives;
            reader.kept.extend(relatives.parents.iter().map(table_hash));
            reader.changed.extend(relatives.descendants.iter().map(table_hash));
        }
        match definition.and_then(|definition| keys(table, definition, flavour, hash)) {
            Some((keys, columns)) if reader.changed.is_empty() => {
                (reader.keys, reader.columns) = (keys, columns)
            }
            _ => reader.changed.push(hash),
        }
        reader
    }

    /// Are single rows told apart?
    pub fn is_by_row(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Adds the keys of an event's rows. `decoder` must be the event's own.
    ///
    /// # Errors
    ///
    /// When a row stops short.
    pub fn read(&self, rows: &Rows<'_>, decoder: &RowDecoder, out: &mut KeySet) -> Result<(), DecodeError> {
        for table in &self.kept {
            push_new(&mut out.shared, *table);
        }
        for table in &self.changed {
            push_new(&mut out.exclusive, *table);
        }
        if !self.is_by_row() {
            return Ok(());
        }
        let mut scratch = Scratch::default();
        for row in decoder.rows(rows) {
            if self.read_row(&row?, &mut scratch, out).is_none() {
                push_new(&mut out.exclusive, self.table);
            }
        }
        Ok(())
    }

    /// `None` when all of the table stands for the row.
    fn read_row<'a>(&self, row: &Row<'_, 'a>, scratch: &mut Scratch<'a>, out: &mut KeySet) -> Option<()> {
        scratch.slots.clear();
        scratch.slots.resize(self.columns.len(), Slot::Absent);
        scratch.before.clear();
        if let Some(before) = &row.before {
            self.fill(before, &mut scratch.slots);
            for key in &self.keys {
                scratch.before.push(key.hash(&scratch.slots, &mut scratch.bytes)?);
            }
            out.exclusive.extend(scratch.before.iter().flatten());
        }
        if let Some(after) = &row.after {
            // What the image leaves out is as it was.
            self.fill(after, &mut scratch.slots);
            for (index, key) in self.keys.iter().enumerate() {
                let hash = key.hash(&scratch.slots, &mut scratch.bytes)?;
                if scratch.before.get(index) != Some(&hash) {
                    out.exclusive.extend(hash);
                }
            }
        }
        Some(())
    }

    fn fill<'a>(&self, image: &Image<'_, 'a>, slots: &mut [Slot<'a>]) {
        let mut columns = self.columns.iter().zip(slots);
        let mut next = columns.next();
        for field in image.fields() {
            while let Some((column, _)) = &next
                && **column < field.index()
            {
                next = columns.next();
            }
            let Some((column, slot)) = &mut next else { break };
            if **column == field.index() {
                **slot = field.bytes().map_or(Slot::Null, Slot::Value);
            }
        }
    }
}

/// Space for one row.
#[derive(Debug, Default)]
struct Scratch<'a> {
    slots: Vec<Slot<'a>>,
    bytes: Vec<u8>,
    /// The hash of each key in the image before.
    before: Vec<Option<u64>>,
}

impl Key {
    /// `Some(None)` when no other row can have the same, a column being NULL; `None` when it cannot be told.
    fn hash(&self, slots: &[Slot<'_>], bytes: &mut Vec<u8>) -> Option<Option<u64>> {
        if let [Part { slot, normal }] = *self.parts.as_slice()
            && normal.is_raw()
            && let Slot::Value(value) = slots[slot]
        {
            return Some(Some(xxh3_64_with_seed(value, self.seed)));
        }
        bytes.clear();
        for Part { slot, normal } in &self.parts {
            let start = bytes.len();
            match slots[*slot] {
                Slot::Absent => return None,
                Slot::Null => return Some(None),
                Slot::Value(value) => normal.put(value, bytes)?,
            }
            if self.parts.len() > 1 {
                let size = (bytes.len() - start) as u32;
                bytes.extend_from_slice(&size.to_le_bytes());
            }
        }
        Some(Some(xxh3_64_with_seed(bytes, self.seed)))
    }
}

/// The table's unique keys and their columns; `None` when its rows cannot be told apart.
fn keys(
    table: &Table,
    definition: &Definition,
    flavour: Flavour,
    hash: u64,
) -> Option<(Vec<Key>, Vec<usize>)> {
    let mut all = vec![definition.primary_key.as_ref()?];
    for key in &definition.unique_keys {
        match key {
            UniqueKey::Columns(parts) => all.push(parts),
            UniqueKey::Other => return None,
        }
    }
    let mut columns: Vec<usize> = all.iter().flat_map(|parts| parts.iter()).map(|part| part.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut keys = Vec::new();
    for (parts, index) in all.into_iter().zip(1..) {
        let part = |part: &KeyPart| {
            let normal = Normal::of(table.columns.get(part.column)?, part.prefix, flavour)?;
            Some(Part { slot: columns.binary_search(&part.column).ok()?, normal })
        };
        let parts = parts.iter().map(part).collect::<Option<Vec<Part>>>()?;
        if parts.is_empty() {
            return None;
        }
        keys.push(Key { seed: xxh3_64_with_seed(&u64::to_le_bytes(index), hash), parts });
    }
    Some((keys, columns))
}

fn table_hash(name: &TableName) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&name.database);
    hasher.update(&[0]);
    hasher.update(&name.table);
    hasher.digest()
}

/// Adds a hash unless it is the last already: events of one table follow each other.
fn push_new(hashes: &mut Vec<u64>, hash: u64) {
    if hashes.last() != Some(&hash) {
        hashes.push(hash);
    }
}
