//! One transaction while its events come.

use std::collections::HashMap;

use binlog::{Header, TransactionId};

use super::compression::{CompressionType, LogType, Sample, Stored};
use super::place::Place;
use super::rate::Counts;
use super::tables::Change;

/// One transaction while its events come, or the part of it that one chunk holds.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) log_type: LogType,
    pub(crate) start: Option<Start>,
    /// When its first statement started, in seconds since 1970.
    pub(crate) begun_s: Option<u32>,
    /// When its last event was made, in seconds since 1970.
    pub(crate) last_s: u32,
    /// As they stand in the log.
    pub(crate) bytes_stored: u64,
    /// Before compression.
    pub(crate) bytes_plain: u64,
    /// What the server's compression statistics count of it, if it is not compressed.
    pub(crate) bytes_cached: u64,
    /// A payload's size, and the size that it says its events have.
    pub(crate) payload: Option<(u64, u64)>,
    /// Its events, those inside a payload included.
    pub(crate) events: u64,
    /// What it did to each table.
    pub(crate) tables: RowsByTable,
}

/// Rows changed in each table, by the table's place and by [`Change`].
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsByTable {
    rows: Vec<(usize, [u64; 3])>,
    /// Where each table stands in `rows`, once there are too many to look through.
    index: HashMap<usize, usize>,
}

/// How many tables are looked through faster than hashed.
const FEW: usize = 16;

/// What only the first part of a transaction knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) id: TransactionId,
    pub(crate) place: Place,
    /// When it committed on the server that wrote the log, in microseconds since 1970.
    pub(crate) commit_us: Option<u64>,
    /// When it committed on the server where it began, in microseconds since 1970.
    pub(crate) original_commit_us: Option<u64>,
}

impl Open {
    /// The part of a transaction that started in an earlier chunk.
    pub(crate) fn continued(log_type: LogType) -> Self {
        Self {
            log_type,
            start: None,
            begun_s: None,
            last_s: 0,
            bytes_stored: 0,
            bytes_plain: 0,
            bytes_cached: 0,
            payload: None,
            events: 0,
            tables: RowsByTable::default(),
        }
    }

    pub(crate) fn started(log_type: LogType, start: Start) -> Self {
        let mut open = Self::continued(log_type);
        open.start = Some(start);
        open
    }

    /// Counts an event, in the log itself or inside a payload.
    pub(crate) fn add(&mut self, header: &Header) {
        self.events += 1;
        self.bytes_plain += u64::from(header.size);
        self.last_s = header.timestamp;
        self.begun_s = self.begun_s.or(Some(header.timestamp));
    }

    /// Takes in the part that follows.
    pub(crate) fn join(&mut self, later: Self) {
        self.begun_s = self.begun_s.or(later.begun_s);
        if later.events > 0 {
            self.last_s = later.last_s;
        }
        self.bytes_stored += later.bytes_stored;
        self.bytes_plain += later.bytes_plain;
        self.bytes_cached += later.bytes_cached;
        self.payload = self.payload.or(later.payload);
        self.events += later.events;
        for (table, rows) in later.tables.rows {
            let mine = self.tables.of(table);
            mine.iter_mut().zip(rows).for_each(|(mine, later)| *mine += later);
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.tables.rows.iter().flat_map(|(_, rows)| rows).sum()
    }

    pub(crate) fn id(&self) -> TransactionId {
        self.start.map_or(TransactionId::Unsaid, |start| start.id)
    }

    /// When it was written to this log, as well as that is known.
    pub(crate) fn commit_us(&self) -> u64 {
        let stamped = self.start.and_then(|start| start.commit_us).filter(|us| *us > 0);
        stamped.unwrap_or_else(|| u64::from(self.last_s) * 1_000_000)
    }

    /// From the start of its first statement to its commit, both on the server where it began. Statements start
    /// at whole seconds, so it may be up to a second too long.
    pub(crate) fn duration_us(&self) -> u64 {
        let commit_us = match self.start.and_then(|start| start.original_commit_us).filter(|us| *us > 0) {
            Some(commit_us) => commit_us,
            None => u64::from(self.last_s) * 1_000_000,
        };
        let begun_us = self.begun_s.map_or(commit_us, |begun_s| u64::from(begun_s) * 1_000_000);
        commit_us.saturating_sub(begun_us)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { transactions: 1, rows: self.rows(), bytes: self.bytes_plain }
    }

    pub(crate) fn stored(&self) -> Stored {
        let (compression_type, compressed, uncompressed) = match self.payload {
            Some((compressed, uncompressed)) => (CompressionType::Zstd, compressed, uncompressed),
            None => (CompressionType::None, self.bytes_cached, self.bytes_cached),
        };
        let commit_us = self.start.and_then(|start| start.commit_us);
        let sample = Sample { id: self.id(), compressed, uncompressed, commit_us };
        Stored { log_type: self.log_type, compression_type, sample }
    }
}

impl RowsByTable {
    pub(crate) fn add(&mut self, table: usize, change: Change, rows: u64) {
        self.of(table)[change as usize] += rows;
    }

    /// By the tables' places, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(usize, [u64; 3])> {
        self.rows.iter()
    }

    /// The same, after the tables have moved to other places.
    pub(crate) fn moved(&self, places: &[usize]) -> Self {
        let mut moved = Self::default();
        for (table, rows) in &self.rows {
            *moved.of(places[*table]) = *rows;
        }
        moved
    }

    fn of(&mut self, table: usize) -> &mut [u64; 3] {
        let found = match self.rows.len() {
            // Events mostly concern the table of the event before.
            0..=FEW => self.rows.iter().rposition(|(known, _)| *known == table),
            _ => self.index.get(&table).copied(),
        };
        let index = found.unwrap_or_else(|| self.push(table));
        &mut self.rows[index].1
    }

    fn push(&mut self, table: usize) -> usize {
        let index = self.rows.len();
        self.rows.push((table, [0; 3]));
        match self.rows.len() {
            0..=FEW => {}
            _ if self.index.is_empty() => {
                self.index =
                    self.rows.iter().enumerate().map(|(index, (table, _))| (*table, index)).collect();
            }
            _ => {
                self.index.insert(table, index);
            }
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, FEW, RowsByTable};

    #[test]
    fn rows_are_found_again_among_few_tables_and_many() {
        let mut tables = RowsByTable::default();
        for round in 0..3 {
            for table in 0..4 * FEW {
                tables.add(table * 10, Change::ALL[round], 1 + table as u64);
            }
        }
        assert!(
            tables
                .iter()
                .enumerate()
                .all(|(index, (table, rows))| { *table == index * 10 && *rows == [1 + index as u64; 3] })
        );
        assert_eq!(tables.iter().count(), 4 * FEW);
    }
}
