//! The net change of rows over several transactions in a row.
//!
//! | first | then | together |
//! |---|---|---|
//! | insert | update | insert of what it became |
//! | insert | delete | nothing |
//! | delete | insert | update |
//! | update | update | update from the first image to the last |
//! | update | delete | delete of the first image |
//! | anything that ends as it began | | nothing |
//!
//! An update that changes the primary key is a delete and an insert. Where it is not provably the same as doing all
//! of it one by one, a [`Refusal`] says so: tables without a primary key, whose key does not compare byte by byte,
//! with another unique key, a foreign key or another engine; images without all columns; rows that are not as
//! earlier changes left them.
//!
//! The order of changes in different tables does not matter then: no foreign key leads from one to another, rows
//! applied from a log fire no triggers, and until the commit nobody else sees them.
//!
//! An insert leaves one trace whatever comes behind it: AUTO_INCREMENT counts on from it. So the row with the highest
//! number of all that were inserted is inserted in the end, too, and deleted again if it is gone.

mod changes;
#[cfg(test)]
mod changes_tests;
mod eligible;
#[cfg(test)]
mod tests;
mod write;

use binlog::events::{Rows, RowsFlags, RowsKind, TableMap};
use binlog::{DecodeError, Flavour, Row, RowDecoder, Tables};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::xxh3_64;

pub use self::changes::{Changes, ChangesError, ChangesReport};
pub use self::eligible::Refusal;
use self::eligible::{Key, PrimaryKey, check_event, manner};
pub use self::write::{NetForm, NetRows};
use crate::definition::{Definition, TableName};

/// Folds the row changes of transactions, and then writes what is left of them.
///
/// Transactions are taken one at a time: [`Net::map`] and [`Net::rows`] for each of its events, in order, then
/// [`Net::keep`]. When one of its events is refused, [`Net::undo`] takes back what was folded of it.
#[derive(Debug)]
pub struct Net {
    flavour: Flavour,
    /// What reads the rows.
    readers: Tables,
    /// Of the transaction under way: which table a number stands for, and whether it may be folded.
    numbers: HashMap<u64, Result<usize, Refusal>>,
    names: HashMap<TableName, usize>,
    /// The tables that numbers stood for last: mostly they do so again in the next transaction.
    known: HashMap<u64, usize>,
    tables: Vec<Folded>,
    /// Images and keys.
    arena: Vec<u8>,
    /// What the transaction under way changed.
    undo: Vec<Undo>,
    /// How much of `arena` was there before it.
    kept: usize,
    space: Vec<u8>,
    other_space: Vec<u8>,
}

/// Bytes held for each byte of an event, at most: images as they are, and keys whose parts' sizes stand beside them.
const HELD_MAX: usize = 6;

/// Why an event was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// It cannot be folded.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// A table and its rows.
#[derive(Debug)]
struct Folded {
    map: OwnedMap,
    flags: Option<RowsFlags>,
    primary_key: PrimaryKey,
    /// Numbers of entries, by their keys.
    index: HashTable<u32>,
    entries: Vec<Entry>,
    /// The highest number that was inserted into the AUTO_INCREMENT column.
    highest: Highest,
    /// The same at the end of the last transaction that was kept.
    kept_highest: Highest,
}

/// A row that changed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    key: Span,
    /// What it was before all; nothing if it was not there.
    before: Option<Span>,
    /// What it is now; nothing if it is not there.
    after: Option<Span>,
}

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    size: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    count: u64,
    /// The row that has it, and what was inserted.
    row: Option<(u32, Span)>,
}

/// How to take back one change.
#[derive(Clone, Copy, Debug)]
struct Undo {
    table: u32,
    /// What the entry was; `None` if it is new, and the last.
    was: Option<(u32, Option<Span>)>,
}

/// A table map that stays.
#[derive(Clone, Debug)]
struct OwnedMap {
    flags: u16,
    database: Box<[u8]>,
    table: Box<[u8]>,
    column_types: Box<[u8]>,
    metadata: Box<[u8]>,
    nullable: Box<[u8]>,
    optional: Box<[u8]>,
    flavour: Flavour,
}

impl Net {
    /// Images and keys that are held, in bytes, at most. Bounds memory, together with as much for finding them.
    pub const BYTES_MAX: usize = 1 << 30;

    /// Without any rows, for logs of this flavour.
    pub fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            readers: Tables::new(),
            numbers: HashMap::default(),
            names: HashMap::default(),
            known: HashMap::default(),
            tables: Vec::new(),
            arena: Vec::new(),
            undo: Vec::new(),
            kept: 0,
            space: Vec::new(),
            other_space: Vec::new(),
        }
    }

    /// How many bytes the rows take.
    pub fn size(&self) -> usize {
        let entries: usize = self.tables.iter().map(|table| table.entries.len()).sum();
        self.arena.len() + entries * (size_of::<Entry>() + size_of::<u32>())
    }

    /// Takes a table map: rows with its number belong to its table until the transaction's end.
    ///
    /// # Errors
    ///
    /// When the map cannot be read, or the table's rows cannot be folded; rows with its number are then refused for
    /// the same reason.
    pub fn map(&mut self, map: &TableMap<'_>, definition: Option<&Definition>) -> Result<(), NetError> {
        let table = self.readers.map(map)?;
        if let Some(&index) = self.known.get(&map.table_id)
            && self.tables[index].map.says(map)
        {
            self.numbers.insert(map.table_id, Ok(index));
            return Ok(());
        }
        // Two tables of the log may be one on the target.
        let own = || TableName { database: table.database.clone(), table: table.name.clone() };
        let name = definition.map_or_else(own, |definition| definition.name.clone());
        let found = self.names.get(&name).copied();
        let index = match found {
            Some(index) if self.tables[index].map.says(map) => Ok(index),
            Some(_) => Err(Refusal::Changed),
            None => PrimaryKey::of(&table, definition, self.flavour).map(|primary_key| {
                self.names.insert(name, self.tables.len());
                self.tables.push(Folded::new(map, primary_key));
                self.tables.len() - 1
            }),
        };
        self.numbers.insert(map.table_id, index);
        if let Ok(index) = index {
            self.known.insert(map.table_id, index);
        }
        index.map(|_| ()).map_err(NetError::Refused)
    }

    /// Folds the rows of an event.
    ///
    /// # Errors
    ///
    /// When they cannot be folded or read; [`Net::undo`] must follow, unless the refusal is of the table: then the
    /// event is as if it had never come.
    pub fn rows(&mut self, rows: &Rows<'_>) -> Result<(), NetError> {
        if rows.column_count == 0 {
            return Ok(()); // It does nothing but end a statement.
        }
        let index = self.numbers.get(&rows.table_id).copied().unwrap_or(Err(Refusal::Unnamed))?;
        check_event(rows)?;
        let decoder = self.readers.decoder(rows)?;
        let table = &mut self.tables[index];
        let flags = manner(rows.flags);
        if *table.flags.get_or_insert(flags) != flags {
            return Err(Refusal::Changed.into());
        }
        if self.arena.len() + HELD_MAX * rows.rows.len() > Self::BYTES_MAX {
            return Err(Refusal::TooLarge.into());
        }
        let mut fold = Fold {
            table,
            number: index as u32,
            arena: &mut self.arena,
            undo: &mut self.undo,
            space: &mut self.space,
            other_space: &mut self.other_space,
        };
        fold.rows(rows, &decoder)
    }

    /// Ends a transaction: what it changed stays.
    pub fn keep(&mut self) {
        for undo in self.undo.drain(..) {
            let table = &mut self.tables[undo.table as usize];
            table.kept_highest = table.highest;
        }
        self.numbers.clear();
        self.kept = self.arena.len();
    }

    /// Takes back what the transaction under way changed.
    pub fn undo(&mut self) {
        for undo in self.undo.drain(..).rev() {
            let table = &mut self.tables[undo.table as usize];
            table.highest = table.kept_highest;
            match undo.was {
                Some((entry, after)) => table.entries[entry as usize].after = after,
                None => table.pop(),
            }
        }
        for table in self.tables.iter_mut().filter(|table| table.entries.is_empty()) {
            table.flags = None;
        }
        self.numbers.clear();
        self.arena.truncate(self.kept);
    }

    /// Drops all rows, to start anew.
    pub fn clear(&mut self) {
        self.names.clear();
        self.known.clear();
        self.tables.clear();
        self.undo.clear();
        self.numbers.clear();
        self.arena.clear();
        self.kept = 0;
    }
}

impl Folded {
    fn new(map: &TableMap<'_>, primary_key: PrimaryKey) -> Self {
        Self {
            map: OwnedMap::new(map),
            flags: None,
            primary_key,
            index: HashTable::new(),
            entries: Vec::new(),
            highest: Highest::default(),
            kept_highest: Highest::default(),
        }
    }

    /// Drops the last entry.
    fn pop(&mut self) {
        let Some(entry) = self.entries.pop() else { return };
        let number = self.entries.len() as u32;
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == number) {
            found.remove();
        }
    }
}

/// Folding rows of one table.
struct Fold<'n> {
    table: &'n mut Folded,
    number: u32,
    arena: &'n mut Vec<u8>,
    undo: &'n mut Vec<Undo>,
    space: &'n mut Vec<u8>,
    other_space: &'n mut Vec<u8>,
}

impl Fold<'_> {
    fn rows(&mut self, rows: &Rows<'_>, decoder: &RowDecoder) -> Result<(), NetError> {
        let rows_of = decoder.rows(rows);
        match rows.kind {
            RowsKind::Write => self.each(rows_of, Self::write),
            RowsKind::Delete => self.each(rows_of, Self::delete),
            RowsKind::Update | RowsKind::PartialUpdate => self.each(rows_of, Self::update),
        }
    }

    #[inline]
    fn each<'d, 'a>(
        &mut self,
        rows: impl Iterator<Item = Result<Row<'d, 'a>, DecodeError>>,
        fold: impl Fn(&mut Self, &Row<'d, 'a>) -> Option<()>,
    ) -> Result<(), NetError> {
        for row in rows {
            fold(self, &row?).ok_or(Refusal::Unexplained)?;
        }
        Ok(())
    }

    fn write(&mut self, row: &Row<'_, '_>) -> Option<()> {
        let after = row.after.as_ref()?;
        let mut space = std::mem::take(self.space);
        let key = self.table.primary_key.find(after, &mut space);
        let done = key.and_then(|key| self.insert(key, after.bytes()));
        *self.space = space;
        done
    }

    fn delete(&mut self, row: &Row<'_, '_>) -> Option<()> {
        let before = row.before.as_ref()?;
        let mut space = std::mem::take(self.space);
        let key = self.table.primary_key.find(before, &mut space);
        let done = key.and_then(|key| self.remove(key, before.bytes()));
        *self.space = space;
        done
    }

    fn update(&mut self, row: &Row<'_, '_>) -> Option<()> {
        let (before, after) = (row.before.as_ref()?, row.after.as_ref()?);
        let (mut space, mut other) = (std::mem::take(self.space), std::mem::take(self.other_space));
        let old = self.table.primary_key.find(before, &mut space);
        let new = self.table.primary_key.find(after, &mut other);
        let done = old.zip(new).and_then(|(old, new)| match old.bytes == new.bytes {
            true => self.replace(old, before.bytes(), after.bytes()),
            false => self.remove(old, before.bytes()).and_then(|()| self.insert(new, after.bytes())),
        });
        (*self.space, *self.other_space) = (space, other);
        done
    }

    fn insert(&mut self, key: Key<'_>, image: &[u8]) -> Option<()> {
        let (entry, is_there) = self.find(key);
        if is_there == Some(true) {
            return None;
        }
        let after = self.hold(image);
        let entry = self.set(entry, key, None, Some(after));
        if key.count > self.table.highest.count {
            self.table.highest = Highest { count: key.count, row: Some((entry, after)) };
        }
        Some(())
    }

    fn remove(&mut self, key: Key<'_>, image: &[u8]) -> Option<()> {
        let (entry, is_there) = self.find(key);
        match is_there {
            Some(false) => return None,
            Some(true) => self.set(entry, key, None, None),
            None => {
                let before = self.hold(image);
                self.set(entry, key, Some(before), None)
            }
        };
        Some(())
    }

    fn replace(&mut self, key: Key<'_>, before: &[u8], after: &[u8]) -> Option<()> {
        let (entry, is_there) = self.find(key);
        match is_there {
            Some(false) => return None,
            Some(true) => {
                let after = self.hold(after);
                self.set(entry, key, None, Some(after))
            }
            None => {
                let (before, after) = (self.hold(before), self.hold(after));
                self.set(entry, key, Some(before), Some(after))
            }
        };
        Some(())
    }

    /// The row's entry or its key's hash, and whether the row is there now, if that is known.
    #[inline]
    fn find(&self, key: Key<'_>) -> (Result<u32, u64>, Option<bool>) {
        let hash = xxh3_64(key.bytes);
        let Folded { index, entries, .. } = &*self.table;
        let is_it = |number: &u32| {
            let entry = &entries[*number as usize];
            entry.hash == hash && entry.key.of(self.arena) == key.bytes
        };
        match index.find(hash, is_it) {
            Some(number) => (Ok(*number), Some(entries[*number as usize].after.is_some())),
            None => (Err(hash), None),
        }
    }

    /// Sets what a row is now; `before` only counts for one without an entry.
    #[inline]
    fn set(
        &mut self,
        entry: Result<u32, u64>,
        key: Key<'_>,
        before: Option<Span>,
        after: Option<Span>,
    ) -> u32 {
        let table = self.number;
        match entry {
            Ok(number) => {
                let entry = &mut self.table.entries[number as usize];
                self.undo.push(Undo { table, was: Some((number, entry.after)) });
                entry.after = after;
                number
            }
            Err(hash) => {
                let key = self.hold(key.bytes);
                self.undo.push(Undo { table, was: None });
                let Folded { index, entries, .. } = &mut *self.table;
                let number = entries.len() as u32;
                entries.push(Entry { hash, key, before, after });
                index.insert_unique(hash, number, |number| entries[*number as usize].hash);
                number
            }
        }
    }

    fn hold(&mut self, bytes: &[u8]) -> Span {
        let span = Span { start: self.arena.len() as u32, size: bytes.len() as u32 };
        self.arena.extend_from_slice(bytes);
        span
    }
}

impl Span {
    fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..][..self.size as usize]
    }
}

impl OwnedMap {
    fn new(map: &TableMap<'_>) -> Self {
        Self {
            flags: map.flags,
            database: map.database.into(),
            table: map.table.into(),
            column_types: map.column_types.into(),
            metadata: map.metadata.into(),
            nullable: map.nullable.into(),
            optional: map.optional.into(),
            flavour: map.flavour,
        }
    }

    fn with_id(&self, table_id: u64) -> TableMap<'_> {
        TableMap {
            table_id,
            flags: self.flags,
            database: &self.database,
            table: &self.table,
            column_types: &self.column_types,
            metadata: &self.metadata,
            nullable: &self.nullable,
            optional: &self.optional,
            flavour: self.flavour,
        }
    }

    /// Does it say the same, but for the number?
    fn says(&self, map: &TableMap<'_>) -> bool {
        self.with_id(map.table_id) == *map
    }
}
