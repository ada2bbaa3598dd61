//! The net change of rows over several consecutive transactions.
//!
//! | first | then | together |
//! |---|---|---|
//! | insert | update | insert of the updated row |
//! | insert | delete | nothing |
//! | delete | insert | update |
//! | update | update | update from the first image to the last |
//! | update | delete | delete of the first image |
//! | any sequence that restores the row | | nothing |
//!
//! An update that changes the primary key is a delete and an insert. If the net change could have another result than
//! the single changes, a [`FoldRefusal`] gives the reason. Such tables have no primary key, a primary key that does not
//! compare byte by byte, another unique key, a foreign key, or an engine other than InnoDB. Such events have images
//! without all columns, or rows that differ from the result of earlier changes.
//!
//! The order of changes in different tables then does not matter: no foreign keys connect them, rows applied from a log
//! fire no triggers, and nothing is visible to others before the commit.
//!
//! Every insert leaves one trace: the AUTO_INCREMENT counter continues from it. Therefore the net change always inserts
//! the row with the highest number, and deletes it again if the row no longer exists.

mod fold_refusal;
mod group_changes;
#[cfg(test)]
mod group_changes_tests;
mod net_rows;
#[cfg(test)]
mod tests;

use binlog::events::{Rows, RowsFlags, RowsKind, TableMap};
use binlog::{DecodeError, Flavour, RowChange, RowDecoder, RowImage, TableRegistry};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::xxh3_64;

pub use self::fold_refusal::FoldRefusal;
use self::fold_refusal::{PrimaryKey, RowKey, apply_flags, check_event};
pub use self::group_changes::{ChangesReport, GroupChanges, GroupChangesError};
pub use self::net_rows::{NetRows, NetRowsForm};
use crate::row_reader::EventRows;
use crate::target_table_definition::{TargetTableDefinition, TargetTableName};

/// Folds the row changes of transactions, and then writes the net change.
///
/// Takes one transaction at a time. Call [`NetChanges::add_map`] and [`NetChanges::rows`] for its events, in order,
/// then [`NetChanges::commit_transaction`]. After a refusal, [`NetChanges::undo`] takes back the folded part of the
/// transaction.
#[derive(Debug)]
pub struct NetChanges {
    flavour: Flavour,
    /// Decoders for the rows.
    readers: TableRegistry,
    /// Table of each number in the open transaction, or the reason why it cannot be folded.
    numbers: HashMap<u64, Result<usize, FoldRefusal>>,
    names: HashMap<TargetTableName, usize>,
    /// Last table of each number. The next transaction mostly uses the same numbers.
    known: HashMap<u64, usize>,
    tables: Vec<FoldedTable>,
    /// Bytes of images and keys.
    arena: Vec<u8>,
    /// Changes of the open transaction.
    undo: Vec<UndoEntry>,
    /// Size of `arena` before the open transaction.
    arena_committed: usize,
    space: Vec<u8>,
    other_space: Vec<u8>,
}

/// Maximum bytes held for each byte of an event: unchanged images, and keys with the sizes of their parts.
const HELD_RATIO_MAX: usize = 6;

/// Reason why an event was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetChangeError {
    /// The event cannot be folded.
    #[error(transparent)]
    Refused(#[from] FoldRefusal),
    /// The event cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Returns the reason why rows cannot be folded, as far as their table and their columns show it: whether earlier rows
/// forbid it is not checked. `definition` is that of their table on the target.
pub fn find_refusal(
    rows: &EventRows<'_>,
    definition: Option<&TargetTableDefinition>,
    flavour: Flavour,
) -> Option<FoldRefusal> {
    let refusal = PrimaryKey::of(rows.table, definition, flavour).err();
    refusal.or_else(|| check_event(rows.event).err())
}

/// A table and its rows.
#[derive(Debug)]
struct FoldedTable {
    map: OwnedTableMap,
    flags: Option<RowsFlags>,
    primary_key: PrimaryKey,
    /// Indexes of entries, by key.
    index: HashTable<u32>,
    entries: Vec<RowEntry>,
    /// Highest value inserted into the AUTO_INCREMENT column.
    highest: HighestAutoIncrement,
    /// Highest value at the end of the last kept transaction.
    committed_highest: HighestAutoIncrement,
}

/// A row that changed.
#[derive(Clone, Copy, Debug)]
struct RowEntry {
    hash: u64,
    key: ArenaSpan,
    /// Image before all changes; `None` if the row did not exist.
    before: Option<ArenaSpan>,
    /// Present image; `None` if the row does not exist.
    after: Option<ArenaSpan>,
}

/// A range of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArenaSpan {
    start: u32,
    size: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct HighestAutoIncrement {
    count: u64,
    /// Index of the inserted row's entry, and the inserted image.
    row: Option<(u32, ArenaSpan)>,
}

/// Information to take back one change.
#[derive(Clone, Copy, Debug)]
struct UndoEntry {
    table: u32,
    /// Index of the entry, and its previous image. `None` if the change added the last entry.
    was: Option<(u32, Option<ArenaSpan>)>,
}

/// A table map that owns its bytes.
#[derive(Clone, Debug)]
struct OwnedTableMap {
    flags: u16,
    database: Box<[u8]>,
    table: Box<[u8]>,
    column_types: Box<[u8]>,
    metadata: Box<[u8]>,
    nullable: Box<[u8]>,
    optional: Box<[u8]>,
    flavour: Flavour,
}

impl NetChanges {
    /// Maximum bytes of images and keys. Bounds memory; the index takes about as much again.
    pub const BYTES_MAX: usize = 1 << 30;

    /// Creates an empty net change for logs of this flavour.
    pub fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            readers: TableRegistry::new(),
            numbers: HashMap::default(),
            names: HashMap::default(),
            known: HashMap::default(),
            tables: Vec::new(),
            arena: Vec::new(),
            undo: Vec::new(),
            arena_committed: 0,
            space: Vec::new(),
            other_space: Vec::new(),
        }
    }

    /// Returns the size of the rows in bytes.
    pub fn size(&self) -> usize {
        let entries: usize = self.tables.iter().map(|table| table.entries.len()).sum();
        self.arena.len() + entries * (size_of::<RowEntry>() + size_of::<u32>())
    }

    /// Takes a table map: rows with this table number belong to the table until the transaction ends.
    ///
    /// # Errors
    ///
    /// Fails if the map cannot be decoded, or the table's rows cannot be folded. Rows with this table number are then
    /// refused for the same reason.
    pub fn add_map(
        &mut self,
        map: &TableMap<'_>,
        definition: Option<&TargetTableDefinition>,
    ) -> Result<(), NetChangeError> {
        let table = self.readers.register(map)?;
        if let Some(&index) = self.known.get(&map.table_id)
            && self.tables[index].map.matches(map)
        {
            self.numbers.insert(map.table_id, Ok(index));
            return Ok(());
        }
        // Two tables of the log may be one on the target.
        let own = || TargetTableName { database: table.database.clone(), table: table.name.clone() };
        let name = definition.map_or_else(own, |definition| definition.name.clone());
        let found = self.names.get(&name).copied();
        let index = match found {
            Some(index) if self.tables[index].map.matches(map) => Ok(index),
            Some(_) => Err(FoldRefusal::Changed),
            None => PrimaryKey::of(&table, definition, self.flavour).map(|primary_key| {
                self.names.insert(name, self.tables.len());
                self.tables.push(FoldedTable::new(map, primary_key));
                self.tables.len() - 1
            }),
        };
        self.numbers.insert(map.table_id, index);
        if let Ok(index) = index {
            self.known.insert(map.table_id, index);
        }
        index.map(|_| ()).map_err(NetChangeError::Refused)
    }

    /// Folds the rows of an event.
    ///
    /// # Errors
    ///
    /// Fails if the rows cannot be folded or decoded. The caller must then call [`NetChanges::undo`], except after a
    /// refusal for the whole table: the event has changed nothing then.
    pub fn rows(&mut self, rows: &Rows<'_>) -> Result<(), NetChangeError> {
        if rows.column_count == 0 {
            return Ok(()); // Only ends the statement.
        }
        let index = self.numbers.get(&rows.table_id).copied().unwrap_or(Err(FoldRefusal::Unnamed))?;
        check_event(rows)?;
        let decoder = self.readers.decoder(rows)?;
        let table = &mut self.tables[index];
        let flags = apply_flags(rows.flags);
        if *table.flags.get_or_insert(flags) != flags {
            return Err(FoldRefusal::Changed.into());
        }
        if self.arena.len() + HELD_RATIO_MAX * rows.rows.len() > Self::BYTES_MAX {
            return Err(FoldRefusal::TooLarge.into());
        }
        let mut fold = TableFold {
            table,
            number: index as u32,
            arena: &mut self.arena,
            undo: &mut self.undo,
            space: &mut self.space,
            other_space: &mut self.other_space,
        };
        fold.rows(rows, &decoder)
    }

    /// Ends the transaction and keeps its changes.
    pub fn commit_transaction(&mut self) {
        for undo in self.undo.drain(..) {
            let table = &mut self.tables[undo.table as usize];
            table.committed_highest = table.highest;
        }
        self.numbers.clear();
        assert!(self.arena_committed <= self.arena.len(), "ours: a transaction adds to the arena");
        self.arena_committed = self.arena.len();
    }

    /// Takes back the changes of the open transaction.
    pub fn undo(&mut self) {
        for undo in self.undo.drain(..).rev() {
            let table = &mut self.tables[undo.table as usize];
            table.highest = table.committed_highest;
            match undo.was {
                Some((entry, after)) => table.entries[entry as usize].after = after,
                None => table.pop(),
            }
        }
        for table in self.tables.iter_mut().filter(|table| table.entries.is_empty()) {
            table.flags = None;
        }
        self.numbers.clear();
        assert!(self.arena_committed <= self.arena.len(), "ours: a transaction adds to the arena");
        self.arena.truncate(self.arena_committed);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.names.clear();
        self.known.clear();
        self.tables.clear();
        self.undo.clear();
        self.numbers.clear();
        self.arena.clear();
        self.arena_committed = 0;
    }
}

impl FoldedTable {
    fn new(map: &TableMap<'_>, primary_key: PrimaryKey) -> Self {
        Self {
            map: OwnedTableMap::new(map),
            flags: None,
            primary_key,
            index: HashTable::new(),
            entries: Vec::new(),
            highest: HighestAutoIncrement::default(),
            committed_highest: HighestAutoIncrement::default(),
        }
    }

    /// Removes the last entry.
    fn pop(&mut self) {
        let Some(entry) = self.entries.pop() else { return };
        let number = self.entries.len() as u32;
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == number) {
            found.remove();
        }
        assert!(self.index.len() <= self.entries.len(), "ours: the index has no removed entry");
    }
}

/// Result of a lookup by key.
#[derive(Clone, Copy)]
enum EntryLookup {
    /// An earlier change of the row was folded.
    Known {
        /// Number of the row's entry.
        entry: u32,
        /// Whether the row exists after the earlier changes.
        exists: bool,
    },
    /// No earlier change of the row was folded: whether the row exists is not known.
    Unknown {
        /// Hash of the key.
        hash: u64,
    },
}

/// Folds rows of one table.
struct TableFold<'n> {
    table: &'n mut FoldedTable,
    number: u32,
    arena: &'n mut Vec<u8>,
    undo: &'n mut Vec<UndoEntry>,
    space: &'n mut Vec<u8>,
    other_space: &'n mut Vec<u8>,
}

impl TableFold<'_> {
    fn rows(&mut self, rows: &Rows<'_>, decoder: &RowDecoder) -> Result<(), NetChangeError> {
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
        rows: impl Iterator<Item = Result<RowChange<'d, 'a>, DecodeError>>,
        fold: impl Fn(&mut Self, &RowChange<'d, 'a>) -> Option<()>,
    ) -> Result<(), NetChangeError> {
        for row in rows {
            fold(self, &row?).ok_or(FoldRefusal::Unexplained)?;
        }
        Ok(())
    }

    fn write(&mut self, row: &RowChange<'_, '_>) -> Option<()> {
        self.fold_image(row.after.as_ref()?, Self::insert)
    }

    fn delete(&mut self, row: &RowChange<'_, '_>) -> Option<()> {
        self.fold_image(row.before.as_ref()?, Self::remove)
    }

    /// Folds an image with its key.
    fn fold_image(
        &mut self,
        image: &RowImage<'_, '_>,
        fold: impl FnOnce(&mut Self, RowKey<'_>, &[u8]) -> Option<()>,
    ) -> Option<()> {
        let mut space = std::mem::take(self.space);
        let key = self.table.primary_key.find(image, &mut space);
        let folded = key.and_then(|key| fold(self, key, image.bytes()));
        *self.space = space;
        folded
    }

    fn update(&mut self, row: &RowChange<'_, '_>) -> Option<()> {
        let (before, after) = (row.before.as_ref()?, row.after.as_ref()?);
        let (mut space, mut other) = (std::mem::take(self.space), std::mem::take(self.other_space));
        let old = self.table.primary_key.find(before, &mut space);
        let new = self.table.primary_key.find(after, &mut other);
        let folded = old.zip(new).and_then(|(old, new)| match old.bytes == new.bytes {
            true => self.replace(old, before.bytes(), after.bytes()),
            false => self.remove(old, before.bytes()).and_then(|()| self.insert(new, after.bytes())),
        });
        (*self.space, *self.other_space) = (space, other);
        folded
    }

    fn insert(&mut self, key: RowKey<'_>, image: &[u8]) -> Option<()> {
        let lookup = self.find(key);
        if let EntryLookup::Known { exists: true, .. } = lookup {
            return None;
        }
        let after = self.store(image);
        let entry = self.set(lookup, key, None, Some(after));
        if key.count > self.table.highest.count {
            self.table.highest = HighestAutoIncrement { count: key.count, row: Some((entry, after)) };
        }
        Some(())
    }

    fn remove(&mut self, key: RowKey<'_>, image: &[u8]) -> Option<()> {
        let lookup = self.find(key);
        match lookup {
            EntryLookup::Known { exists: false, .. } => return None,
            EntryLookup::Known { exists: true, .. } => self.set(lookup, key, None, None),
            EntryLookup::Unknown { .. } => {
                let before = self.store(image);
                self.set(lookup, key, Some(before), None)
            }
        };
        Some(())
    }

    fn replace(&mut self, key: RowKey<'_>, before: &[u8], after: &[u8]) -> Option<()> {
        let lookup = self.find(key);
        match lookup {
            EntryLookup::Known { exists: false, .. } => return None,
            EntryLookup::Known { exists: true, .. } => {
                let after = self.store(after);
                self.set(lookup, key, None, Some(after))
            }
            EntryLookup::Unknown { .. } => {
                let (before, after) = (self.store(before), self.store(after));
                self.set(lookup, key, Some(before), Some(after))
            }
        };
        Some(())
    }

    /// Looks up the row with this key.
    #[inline]
    fn find(&self, key: RowKey<'_>) -> EntryLookup {
        let hash = xxh3_64(key.bytes);
        let FoldedTable { index, entries, .. } = &*self.table;
        let is_it = |number: &u32| {
            let entry = &entries[*number as usize];
            entry.hash == hash && entry.key.of(self.arena) == key.bytes
        };
        match index.find(hash, is_it) {
            Some(entry) => {
                EntryLookup::Known { entry: *entry, exists: entries[*entry as usize].after.is_some() }
            }
            None => EntryLookup::Unknown { hash },
        }
    }

    /// Sets the present image of a row, and returns its entry. `before` is used only if the row has no entry yet.
    #[inline]
    fn set(
        &mut self,
        lookup: EntryLookup,
        key: RowKey<'_>,
        before: Option<ArenaSpan>,
        after: Option<ArenaSpan>,
    ) -> u32 {
        let table = self.number;
        match lookup {
            EntryLookup::Known { entry: number, .. } => {
                let entry = &mut self.table.entries[number as usize];
                self.undo.push(UndoEntry { table, was: Some((number, entry.after)) });
                entry.after = after;
                number
            }
            EntryLookup::Unknown { hash } => {
                let key = self.store(key.bytes);
                self.undo.push(UndoEntry { table, was: None });
                let FoldedTable { index, entries, .. } = &mut *self.table;
                let number = entries.len() as u32;
                entries.push(RowEntry { hash, key, before, after });
                index.insert_unique(hash, number, |number| entries[*number as usize].hash);
                debug_assert_eq!(index.len(), entries.len(), "ours: each entry is in the index once");
                number
            }
        }
    }

    fn store(&mut self, bytes: &[u8]) -> ArenaSpan {
        let span = ArenaSpan { start: self.arena.len() as u32, size: bytes.len() as u32 };
        self.arena.extend_from_slice(bytes);
        debug_assert!(
            self.arena.len() <= NetChanges::BYTES_MAX,
            "ours: an event is taken only if there is room"
        );
        span
    }
}

impl ArenaSpan {
    fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..][..self.size as usize]
    }
}

impl OwnedTableMap {
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

    /// Returns whether both maps are equal, apart from the table number.
    fn matches(&self, map: &TableMap<'_>) -> bool {
        self.with_id(map.table_id) == *map
    }
}
