//! Keys that a transaction changes, as hashes of its rows' unique keys before and after.
//!
//! Two changes whose order matters share a hash. Changes that share a hash may still be independent: if bintide does
//! not know which values a key treats as equal, the row counts as the whole table.
//!
//! | column | values treated as equal |
//! |---|---|
//! | integers, times, ENUM, SET, BIT | same bytes |
//! | DECIMAL, FLOAT, DOUBLE | same bytes; positive and negative zero |
//! | `binary` | same bytes; for BINARY without trailing zero bytes |
//! | collations `_bin` | same bytes, without trailing spaces unless the collation counts them |
//! | utf8mb4_0900_ai_ci | same primary weights; any text, if one has a character that is not in the table here |
//! | other | any values |
//!
//! A prefix of characters counts as a prefix of the same number of bytes, which is never longer.
//!
//! Foreign keys: a change of a referenced table counts as a change of the whole table, and of all tables that reference
//! it, directly or not: the engine may change their rows, too. A changed row that references another table conflicts
//! with changes of that whole table, not with other rows.

mod key_normalizer;
#[cfg(test)]
mod tests;
mod transaction_keys;
mod weights;

use binlog::events::Rows;
use binlog::{DecodeError, Flavour, KeyPart, RowChange, RowDecoder, RowImage, Table};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

pub(crate) use self::key_normalizer::KeyNormalizer;
pub use self::key_normalizer::weights;
pub use self::transaction_keys::TransactionKeys;
use crate::schedule::KeySet;
use crate::target_table_definition::{TargetTableDefinition, TargetTableName, UniqueKey};

/// Reader of the keys of one table's rows: prepared once, then used for each rows event.
#[derive(Clone, Debug)]
pub struct KeyReader {
    /// Hash for the whole table.
    table: u64,
    /// Hashes of the tables that count as changed as a whole if any row of this table changes. May include this table.
    changed: Vec<u64>,
    /// Hashes of the tables that no other transaction may change as a whole meanwhile. Always includes this table.
    kept: Vec<u64>,
    /// Unique keys; empty if each change counts as a change of the whole table.
    keys: Vec<KeyHasher>,
    /// Columns of the keys, in ascending order.
    columns: Vec<usize>,
}

/// A unique key.
#[derive(Clone, Debug)]
struct KeyHasher {
    seed: u64,
    parts: Vec<KeyHashColumn>,
}

/// A column of a key.
#[derive(Clone, Copy, Debug)]
struct KeyHashColumn {
    /// Index into the reader's columns.
    slot: usize,
    normal: KeyNormalizer,
}

/// A column's value in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnSlot<'a> {
    /// Not in the image.
    Absent,
    Null,
    Value(&'a [u8]),
}

impl KeyReader {
    /// Creates a reader for rows of this table. Without a definition, each change counts as a change of the whole
    /// table.
    pub fn new(table: &Table, definition: Option<&TargetTableDefinition>, flavour: Flavour) -> Self {
        let own = || TargetTableName { database: table.database.clone(), table: table.name.clone() };
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
            let relatives = &definition.foreign_keys;
            reader.kept.extend(relatives.parents.iter().map(table_hash));
            reader.changed.extend(relatives.descendants.iter().map(table_hash));
        }
        match definition.and_then(|definition| unique_keys(table, definition, flavour, hash)) {
            Some((keys, columns)) if reader.changed.is_empty() => {
                (reader.keys, reader.columns) = (keys, columns)
            }
            _ => reader.changed.push(hash),
        }
        reader
    }

    /// Returns whether the keys distinguish single rows.
    pub fn is_by_row(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Adds the keys of an event's rows. `decoder` must belong to this event.
    ///
    /// # Errors
    ///
    /// Fails if a row is truncated.
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
        let mut scratch = RowScratch::default();
        for row in decoder.rows(rows) {
            if self.read_row(&row?, &mut scratch, out).is_none() {
                push_new(&mut out.exclusive, self.table);
            }
        }
        Ok(())
    }

    /// Adds the keys of a row. `None` if the row counts as the whole table.
    fn read_row<'a>(
        &self,
        row: &RowChange<'_, 'a>,
        scratch: &mut RowScratch<'a>,
        out: &mut KeySet,
    ) -> Option<()> {
        scratch.slots.clear();
        scratch.slots.resize(self.columns.len(), ColumnSlot::Absent);
        scratch.before.clear();
        if let Some(before) = &row.before {
            self.fill(before, &mut scratch.slots);
            for key in &self.keys {
                scratch.before.push(key.hash(&scratch.slots, &mut scratch.bytes)?);
            }
            out.exclusive.extend(scratch.before.iter().flatten());
        }
        if let Some(after) = &row.after {
            // Columns left out of the after image keep their values.
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

    fn fill<'a>(&self, image: &RowImage<'_, 'a>, slots: &mut [ColumnSlot<'a>]) {
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
                **slot = field.bytes().map_or(ColumnSlot::Null, ColumnSlot::Value);
            }
        }
    }
}

/// Buffers for one row.
#[derive(Debug, Default)]
struct RowScratch<'a> {
    slots: Vec<ColumnSlot<'a>>,
    bytes: Vec<u8>,
    /// Hash of each key in the before image.
    before: Vec<Option<u64>>,
}

impl KeyHasher {
    /// Returns the key's hash. `Some(None)` if a column is NULL: no other row has an equal key then. `None` if a value
    /// is missing or cannot be normalised.
    fn hash(&self, slots: &[ColumnSlot<'_>], bytes: &mut Vec<u8>) -> Option<Option<u64>> {
        if let [KeyHashColumn { slot, normal }] = *self.parts.as_slice()
            && normal.is_raw()
            && let ColumnSlot::Value(value) = slots[slot]
        {
            return Some(Some(xxh3_64_with_seed(value, self.seed)));
        }
        bytes.clear();
        for KeyHashColumn { slot, normal } in &self.parts {
            let start = bytes.len();
            match slots[*slot] {
                ColumnSlot::Absent => return None,
                ColumnSlot::Null => return Some(None),
                ColumnSlot::Value(value) => normal.put(value, bytes)?,
            }
            if self.parts.len() > 1 {
                let size = (bytes.len() - start) as u32;
                bytes.extend_from_slice(&size.to_le_bytes());
            }
        }
        Some(Some(xxh3_64_with_seed(bytes, self.seed)))
    }
}

/// Returns the table's unique keys and their columns; `None` if its rows cannot be distinguished.
fn unique_keys(
    table: &Table,
    definition: &TargetTableDefinition,
    flavour: Flavour,
    hash: u64,
) -> Option<(Vec<KeyHasher>, Vec<usize>)> {
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
            let normal = KeyNormalizer::of(table.columns.get(part.column)?, part.prefix, flavour)?;
            Some(KeyHashColumn { slot: columns.binary_search(&part.column).ok()?, normal })
        };
        let parts = parts.iter().map(part).collect::<Option<Vec<KeyHashColumn>>>()?;
        if parts.is_empty() {
            return None;
        }
        keys.push(KeyHasher { seed: xxh3_64_with_seed(&u64::to_le_bytes(index), hash), parts });
    }
    Some((keys, columns))
}

fn table_hash(name: &TargetTableName) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&name.database);
    hasher.update(&[0]);
    hasher.update(&name.table);
    hasher.digest()
}

/// Adds a hash unless it equals the last one: consecutive events are mostly of one table.
fn push_new(hashes: &mut Vec<u64>, hash: u64) {
    if hashes.last() != Some(&hash) {
        hashes.push(hash);
    }
}
