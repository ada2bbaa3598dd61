//! Output collected for the end of a statement: its BINLOG statement, and its rows as pseudo-SQL.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::take;
use std::sync::Arc;

use binlog::Table;
use binlog::events::TableMap;

use super::BATCH_SIZE;
use crate::dump_spool::DumpSpool;
use crate::rows_text::{TableText, TypeComments};
use crate::text_batch::{SpooledBuffers, TextBatch};

/// Output collected for the end of a statement.
#[derive(Default)]
pub(super) struct PendingStatement {
    /// Events for the BINLOG statement.
    pub(super) body: BatchQueue,
    /// Rows for the pseudo-SQL.
    pub(super) rows: BatchQueue,
    /// Some output would be lost if no event followed.
    pub(super) is_open: bool,
    spool: DumpSpool,
}

/// A queue of batches of the size at which batches are passed on. A statement may have any number of events.
#[derive(Default)]
pub(super) struct BatchQueue {
    full: Vec<TextBatch>,
    last: TextBatch,
    /// Number of full batches whose place, memory or file, is decided.
    moved_count: usize,
}

/// Maximum size of one statement's events in memory, in bytes. Only events that are in no log file stay in memory; more
/// of them go into a temporary file.
const IN_MEMORY_MAX: usize = 48 << 20;

/// Size of new batches at which their place is decided, in bytes. Less than the spare buffers hold, so that these
/// suffice.
const UNMOVED_MAX: usize = 4 << 20;

impl PendingStatement {
    /// Resets the state for the next statement.
    pub(super) fn reset(&mut self) {
        self.is_open = false;
        self.spool = DumpSpool::default();
    }

    /// Moves batches that exceed the limits into files.
    ///
    /// # Errors
    ///
    /// Fails if the temporary file cannot be written. Memory cannot replace it, because a statement's size has no
    /// limit.
    pub(super) fn bound(&mut self) -> io::Result<()> {
        if self.body.unmoved_count().max(self.rows.unmoved_count()) < UNMOVED_MAX / BATCH_SIZE {
            return Ok(());
        }
        let mut known = SpooledBuffers::new();
        for pile in [&mut self.body, &mut self.rows] {
            while let Some(batch) = pile.full.get_mut(pile.moved_count) {
                let is_kept = pile.moved_count < IN_MEMORY_MAX / BATCH_SIZE && !batch.is_in_file();
                if !is_kept {
                    batch.spool(&mut self.spool, &mut known)?;
                }
                pile.moved_count += 1;
            }
        }
        Ok(())
    }
}

impl BatchQueue {
    /// Returns the batch to append to.
    pub(super) fn batch_mut(&mut self) -> &mut TextBatch {
        if self.last.size() >= BATCH_SIZE {
            self.full.push(take(&mut self.last));
        }
        &mut self.last
    }

    fn unmoved_count(&self) -> usize {
        self.full.len() - self.moved_count
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.is_empty()
    }

    /// Removes and returns the full batches.
    pub(super) fn take_full(&mut self) -> Vec<TextBatch> {
        self.moved_count = 0;
        take(&mut self.full)
    }

    /// Returns the batch after the full ones.
    pub(super) fn last_mut(&mut self) -> &mut TextBatch {
        &mut self.last
    }
}

/// Tables by table id.
#[derive(Default)]
pub(super) struct TableTextCache {
    known: HashMap<u64, CachedTable>,
    /// The last table inserted or found, because most lookups ask for it again.
    latest: Option<(u64, CachedTable)>,
    /// Estimated size of all known tables, in bytes.
    size: usize,
    /// Tables whose rows are skipped until the statement ends.
    pub(super) skipped: HashSet<u64>,
}

#[derive(Clone)]
struct CachedTable {
    /// The table map's bytes, to tell a repeated map from a new table with the same id.
    map: Arc<[u8]>,
    text: Option<Arc<TableText>>,
}

/// Size at which known tables are dropped, in bytes. Every statement of a real server maps its tables again, so no
/// table is missed.
const TABLES_MAX: usize = 16 << 20;

/// Estimated size of a table per byte of its map; each column has a text.
const TEXT_SIZE_FACTOR: usize = 64;

impl TableTextCache {
    /// Adds a table. Most maps repeat the one before. `bytes` is the map's body.
    pub(super) fn insert(&mut self, map: &TableMap<'_>, bytes: &[u8], types: TypeComments) {
        if self.known(map.table_id).is_some_and(|known| *known.map == *bytes) {
            return;
        }
        let table = Table::new(map).or_else(|_| Table::without_optional(map));
        let text = table.ok().map(|table| Arc::new(TableText::new(&table, types)));
        let known = CachedTable { map: bytes.into(), text };
        self.latest = Some((map.table_id, known.clone()));
        self.known.insert(map.table_id, known);
        self.size += bytes.len() * TEXT_SIZE_FACTOR;
    }

    /// Returns the table of a table id, if known.
    pub(super) fn text_of(&mut self, table_id: u64) -> Option<&Arc<TableText>> {
        self.known(table_id)?.text.as_ref()
    }

    /// Drops all known tables if they are too large. Call it only between statements.
    pub(super) fn bound(&mut self) {
        if self.size > TABLES_MAX {
            self.known.clear();
            self.latest = None;
            self.size = 0;
        }
    }

    fn known(&mut self, table_id: u64) -> Option<&CachedTable> {
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest != table_id) {
            self.latest = self.known.get(&table_id).map(|known| (table_id, known.clone()));
        }
        self.latest.as_ref().map(|(_, known)| known)
    }
}
