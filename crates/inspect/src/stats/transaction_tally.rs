//! Counters of one transaction.

use std::collections::HashMap;

use binlog::{EventHeader, TransactionId};

use super::breakdown::WriterKey;
use super::commit_rate::BucketCounts;
use super::compression::{CompressionType, LogType, StatedPayload, StoredTransaction, TransactionSizes};
use super::event_address::EventAddress;
use super::tables::RowOperation;

/// Counters of one transaction, or of its part in one chunk.
#[derive(Clone, Debug)]
pub(crate) struct TransactionTally {
    pub(crate) log_type: LogType,
    pub(crate) start: Option<TransactionStamp>,
    /// Start of its first statement, in seconds since 1970.
    pub(crate) begun_s: Option<u32>,
    /// Timestamp of its last event, in seconds since 1970.
    pub(crate) last_s: u32,
    /// Bytes in the log.
    pub(crate) bytes_stored: u64,
    /// Bytes before compression.
    pub(crate) bytes_plain: u64,
    /// Bytes that the server's compression statistics count, if it is not compressed.
    pub(crate) bytes_cached: u64,
    /// Payload of the transaction, if compressed.
    pub(crate) payload: Option<StatedPayload>,
    /// Number of events, including those inside a payload.
    pub(crate) events: u64,
    /// Rows changed in each table.
    pub(crate) tables: RowsByTable,
    /// True if the transaction counts: it is selected and, if only some tables are selected, has changed one of these.
    pub(crate) is_counted: bool,
    /// Bytes before compression of the events that count, if only some tables are selected.
    pub(crate) bytes_of_tables: Option<u64>,
    /// Account or connection that wrote it, if that is counted.
    pub(crate) writer: WriterKey,
}

/// Rows changed in each table, by the table's index and by [`RowOperation`].
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsByTable {
    rows: Vec<(usize, [u64; 3])>,
    /// Index into `rows` by table, if there are too many tables for a linear search.
    index: HashMap<usize, usize>,
}

/// Maximum number of tables for a linear search.
const LINEAR_SEARCH_MAX: usize = 16;

/// Data from the first event of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionStamp {
    pub(crate) id: TransactionId,
    pub(crate) address: EventAddress,
    /// Timestamp of the event, in seconds since 1970.
    pub(crate) event_s: u32,
    /// Commit time on the server that wrote the log, in microseconds since 1970.
    pub(crate) commit_us: Option<u64>,
    /// Commit time on the server where it originated, in microseconds since 1970.
    pub(crate) original_commit_us: Option<u64>,
}

impl TransactionTally {
    /// Creates counters for a transaction that started in an earlier chunk.
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
            is_counted: true,
            bytes_of_tables: None,
            writer: WriterKey::default(),
        }
    }

    pub(crate) fn started(log_type: LogType, start: TransactionStamp) -> Self {
        let mut open = Self::continued(log_type);
        open.start = Some(start);
        open
    }

    /// Counts an event, from the log or from a payload.
    pub(crate) fn add(&mut self, header: &EventHeader) {
        self.events += 1;
        self.bytes_plain += u64::from(header.size);
        self.last_s = header.timestamp;
        self.begun_s = self.begun_s.or(Some(header.timestamp));
    }

    /// Adds the next part of the transaction.
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
        self.is_counted |= later.is_counted;
        self.bytes_of_tables = match (self.bytes_of_tables, later.bytes_of_tables) {
            (Some(mine), Some(later)) => Some(mine + later),
            (mine, later) => mine.or(later),
        };
        if later.writer != WriterKey::default() {
            self.writer = later.writer;
        }
        for (table, rows) in later.tables.rows {
            let mine = self.tables.rows_of_mut(table);
            mine.iter_mut().zip(rows).for_each(|(mine, later)| *mine += later);
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.tables.rows.iter().flat_map(|(_, rows)| rows).sum()
    }

    /// Returns the bytes before compression of the events that count.
    pub(crate) fn bytes_selected(&self) -> u64 {
        self.bytes_of_tables.unwrap_or(self.bytes_plain)
    }

    pub(crate) fn id(&self) -> TransactionId {
        self.start.map_or(TransactionId::Unsaid, |start| start.id)
    }

    /// Returns the time of its commit to this log or, if that is unknown, of its first event, as
    /// [`logs::ChangeOrigin::time_us`] does for a selection by time.
    pub(crate) fn commit_us(&self) -> u64 {
        let stamped = self.start.and_then(|start| start.commit_us).filter(|us| *us > 0);
        let event_s = self.start.map_or(self.last_s, |start| start.event_s);
        stamped.unwrap_or_else(|| u64::from(event_s) * 1_000_000)
    }

    /// Returns the time from the start of the first statement to the commit, on the server where the transaction
    /// originated. Statements have timestamps in whole seconds, so the result may be up to one second too long.
    pub(crate) fn duration_us(&self) -> u64 {
        let commit_us = match self.start.and_then(|start| start.original_commit_us).filter(|us| *us > 0) {
            Some(commit_us) => commit_us,
            None => u64::from(self.last_s) * 1_000_000,
        };
        let begun_us = self.begun_s.map_or(commit_us, |begun_s| u64::from(begun_s) * 1_000_000);
        commit_us.saturating_sub(begun_us)
    }

    pub(crate) fn counts(&self) -> BucketCounts {
        BucketCounts { transactions: 1, rows: self.rows(), bytes: self.bytes_plain }
    }

    pub(crate) fn stored(&self) -> StoredTransaction {
        let (compression_type, compressed, uncompressed) = match self.payload {
            Some(payload) => (CompressionType::Zstd, payload.compressed, payload.uncompressed),
            None => (CompressionType::None, self.bytes_cached, self.bytes_cached),
        };
        let commit_us = self.start.and_then(|start| start.commit_us);
        let sample = TransactionSizes { id: self.id(), compressed, uncompressed, commit_us };
        StoredTransaction { log_type: self.log_type, compression_type, sizes: sample }
    }
}

impl RowsByTable {
    pub(crate) fn add(&mut self, table: usize, change: RowOperation, rows: u64) {
        self.rows_of_mut(table)[change as usize] += rows;
    }

    /// Returns the tables' indexes and rows, in the order of their first change.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(usize, [u64; 3])> {
        self.rows.iter()
    }

    /// Returns the same for new indexes of the tables.
    pub(crate) fn moved(&self, table_indexes: &[usize]) -> Self {
        let mut moved = Self::default();
        for (table, rows) in &self.rows {
            *moved.rows_of_mut(table_indexes[*table]) = *rows;
        }
        moved
    }

    fn rows_of_mut(&mut self, table: usize) -> &mut [u64; 3] {
        let found = match self.rows.len() {
            // An event usually has the same table as the event before.
            0..=LINEAR_SEARCH_MAX => self.rows.iter().rposition(|(known, _)| *known == table),
            _ => self.index.get(&table).copied(),
        };
        let index = found.unwrap_or_else(|| self.push(table));
        &mut self.rows[index].1
    }

    fn push(&mut self, table: usize) -> usize {
        let index = self.rows.len();
        self.rows.push((table, [0; 3]));
        match self.rows.len() {
            0..=LINEAR_SEARCH_MAX => {}
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
    use super::{LINEAR_SEARCH_MAX, RowOperation, RowsByTable};

    #[test]
    fn rows_are_found_among_few_and_many_tables() {
        let mut tables = RowsByTable::default();
        for round in 0..3 {
            for table in 0..4 * LINEAR_SEARCH_MAX {
                tables.add(table * 10, RowOperation::ALL[round], 1 + table as u64);
            }
        }
        assert!(
            tables
                .iter()
                .enumerate()
                .all(|(index, (table, rows))| { *table == index * 10 && *rows == [1 + index as u64; 3] })
        );
        assert_eq!(tables.iter().count(), 4 * LINEAR_SEARCH_MAX);
    }
}
