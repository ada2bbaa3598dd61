//! What waits for the end of a statement: its BINLOG block, and its rows as pseudo-SQL.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::take;
use std::sync::Arc;

use binlog::Table;
use binlog::events::TableMap;

use super::BATCH_SIZE;
use crate::batch::{Batch, PutAway};
use crate::rows_text::{TableText, Types};
use crate::spool::Spool;

/// What is printed at the end of a statement.
#[derive(Default)]
pub(super) struct Statement {
    /// For the BINLOG block.
    pub(super) body: Pile,
    /// For the pseudo-SQL.
    pub(super) rows: Pile,
    /// A part of it would be lost if nothing followed.
    pub(super) is_open: bool,
    spool: Spool,
}

/// Work that waits, in batches of a size that is right for handing on: a statement may hold any number of events.
#[derive(Default)]
pub(super) struct Pile {
    full: Vec<Batch>,
    last: Batch,
    /// Of how many of the full ones it has been settled where they wait.
    settled: usize,
}

/// Bytes of one statement's events that stay in memory, though no file has them; more go into a temporary file.
const KEPT_MAX: usize = 48 << 20;

/// What has come is settled when it has so many bytes. Less than what spare buffers hold, so that these are enough.
const UNSETTLED_MAX: usize = 4 << 20;

impl Statement {
    /// Makes it ready for the next one.
    pub(super) fn end(&mut self) {
        self.is_open = false;
        self.spool = Spool::default();
    }

    /// Keeps what is held in memory within bounds.
    ///
    /// # Errors
    ///
    /// When the temporary file cannot be written: a statement has any size, so memory cannot take its place.
    pub(super) fn bound(&mut self) -> io::Result<()> {
        if self.body.unsettled().max(self.rows.unsettled()) < UNSETTLED_MAX / BATCH_SIZE {
            return Ok(());
        }
        let mut known = PutAway::new();
        for pile in [&mut self.body, &mut self.rows] {
            while let Some(batch) = pile.full.get_mut(pile.settled) {
                let is_kept = pile.settled < KEPT_MAX / BATCH_SIZE && !batch.is_in_file();
                if !is_kept {
                    batch.put_away(&mut self.spool, &mut known)?;
                }
                pile.settled += 1;
            }
        }
        Ok(())
    }
}

impl Pile {
    /// The batch that takes more.
    pub(super) fn batch(&mut self) -> &mut Batch {
        if self.last.size() >= BATCH_SIZE {
            self.full.push(take(&mut self.last));
        }
        &mut self.last
    }

    fn unsettled(&self) -> usize {
        self.full.len() - self.settled
    }

    /// Is nothing in it?
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.is_empty()
    }

    /// Takes out the full batches.
    pub(super) fn take_full(&mut self) -> Vec<Batch> {
        self.settled = 0;
        take(&mut self.full)
    }

    /// What comes behind the full batches.
    pub(super) fn last(&mut self) -> &mut Batch {
        &mut self.last
    }
}

/// What table ids stand for.
#[derive(Default)]
pub(super) struct Tables {
    known: HashMap<u64, Known>,
    /// The one that was learnt or found last: most often it is asked for next.
    latest: Option<(u64, Known)>,
    /// What all that is known takes, in bytes.
    size: usize,
    /// Tables whose rows are left out, until the statement ends.
    pub(super) ignored: HashSet<u64>,
}

#[derive(Clone)]
struct Known {
    /// The map, to tell a table that comes again from one that takes its number.
    map: Arc<[u8]>,
    text: Option<Arc<TableText>>,
}

/// Bytes of tables that are remembered. Every statement names its tables anew, so only what no server writes is lost
/// with those from before.
const TABLES_MAX: usize = 16 << 20;

/// What a table takes for each byte of its map, about: a text for each column.
const TEXT_FACTOR: usize = 64;

impl Tables {
    /// Remembers a table; most maps say what the one before said. `bytes` are the map's.
    pub(super) fn learn(&mut self, map: &TableMap<'_>, bytes: &[u8], types: Types) {
        if self.known(map.table_id).is_some_and(|known| *known.map == *bytes) {
            return;
        }
        let table = Table::new(map).or_else(|_| Table::without_optional(map));
        let text = table.ok().map(|table| Arc::new(TableText::new(&table, types)));
        let known = Known { map: bytes.into(), text };
        self.latest = Some((map.table_id, known.clone()));
        self.known.insert(map.table_id, known);
        self.size += bytes.len() * TEXT_FACTOR;
    }

    /// What this table id stands for, if anything.
    pub(super) fn find(&mut self, table_id: u64) -> Option<&Arc<TableText>> {
        self.known(table_id)?.text.as_ref()
    }

    /// Keeps what is remembered within bounds, where nothing of it is needed any more.
    pub(super) fn bound(&mut self) {
        if self.size > TABLES_MAX {
            self.known.clear();
            self.latest = None;
            self.size = 0;
        }
    }

    fn known(&mut self, table_id: u64) -> Option<&Known> {
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest != table_id) {
            self.latest = self.known.get(&table_id).map(|known| (table_id, known.clone()));
        }
        self.latest.as_ref().map(|(_, known)| known)
    }
}
