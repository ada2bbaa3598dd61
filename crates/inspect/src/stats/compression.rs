//! Computes the contents of `performance_schema.binary_log_transaction_compression_stats` from logs.
//!
//! The server counts the events after the GTID event of each transaction. In a binary log, it counts a plain
//! transaction without checksums, as in the session's cache. In a relay log, it counts a plain transaction as received:
//! with checksums, including the GTID event's checksum. A compressed transaction counts the size of its payload, and
//! the uncompressed size that the payload states. Tests compare all this with a real server.
//!
//! The timestamps for relay logs differ: the server shows the times when the replica received the transactions, which
//! are in no log. This module shows the commit times on the source.

use binlog::{EventRole, RawEvent, TransactionId};
use serde::Serialize;

use super::log_time::LogTime;

/// Compression of a stored transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CompressionType {
    /// In a payload, compressed with zstd.
    Zstd,
    /// Plain.
    None,
}

/// Kind of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogType {
    /// A server's own binary log.
    Binary,
    /// A replica's relay log.
    Relay,
}

/// One row of the table, with the table's column names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompressionRow {
    /// Kind of the log.
    pub log_type: LogType,
    /// Compression of the transactions.
    pub compression_type: CompressionType,
    /// Number of transactions.
    pub transaction_counter: u64,
    /// Stored size of the transactions.
    pub compressed_bytes_counter: u64,
    /// Size of the transactions before compression.
    pub uncompressed_bytes_counter: u64,
    /// Size saved by compression, in percent of the size before; negative if it grew.
    pub compression_percentage: i16,
    /// GTID of the first transaction; `ANONYMOUS` without a GTID.
    pub first_transaction_id: String,
    /// Stored size of the transaction.
    pub first_transaction_compressed_bytes: u64,
    /// Size of the transaction before compression.
    pub first_transaction_uncompressed_bytes: u64,
    /// Commit time on the server that wrote the log, or on the source of a relay log; `None` before MySQL 8.0.1.
    pub first_transaction_timestamp: Option<LogTime>,
    /// GTID of the last transaction; `ANONYMOUS` without a GTID.
    pub last_transaction_id: String,
    /// Stored size of the transaction.
    pub last_transaction_compressed_bytes: u64,
    /// Size of the transaction before compression.
    pub last_transaction_uncompressed_bytes: u64,
    /// Commit time on the server that wrote the log, or on the source of a relay log; `None` before MySQL 8.0.1.
    pub last_transaction_timestamp: Option<LogTime>,
}

/// Sums for the rows of the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompressionTotals {
    /// In the order of the table.
    sums: [Option<CompressionSum>; 4],
}

/// Sizes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatedPayload {
    /// Size of the payload itself, in bytes.
    pub(crate) compressed: u64,
    /// Uncompressed size as the payload states it, in bytes; 0 if it does not.
    pub(crate) uncompressed: u64,
}

impl StatedPayload {
    /// Returns the sizes of a payload that states this uncompressed size.
    pub(crate) fn new(compressed: u64, uncompressed: Option<u64>) -> Self {
        Self { compressed, uncompressed: uncompressed.unwrap_or_default() }
    }
}

/// One transaction, with the row that counts it.
#[derive(Clone, Debug)]
pub(crate) struct StoredTransaction {
    pub(crate) log_type: LogType,
    pub(crate) compression_type: CompressionType,
    pub(crate) sizes: TransactionSizes,
}

/// Figures of a single transaction.
#[derive(Clone, Debug)]
pub(crate) struct TransactionSizes {
    pub(crate) id: TransactionId,
    pub(crate) compressed: u64,
    pub(crate) uncompressed: u64,
    pub(crate) commit_us: Option<u64>,
}

#[derive(Clone, Debug)]
struct CompressionSum {
    transactions: u64,
    compressed: u64,
    uncompressed: u64,
    first: TransactionSizes,
    last: TransactionSizes,
}

impl CompressionTotals {
    pub(crate) fn add(&mut self, stored: StoredTransaction) {
        let sample = stored.sizes;
        let slot = &mut self.sums[index(stored.log_type, stored.compression_type)];
        match slot {
            Some(sum) => {
                sum.transactions += 1;
                sum.compressed = sum.compressed.saturating_add(sample.compressed);
                sum.uncompressed = sum.uncompressed.saturating_add(sample.uncompressed);
                sum.last = sample;
            }
            None => {
                *slot = Some(CompressionSum {
                    transactions: 1,
                    compressed: sample.compressed,
                    uncompressed: sample.uncompressed,
                    first: sample.clone(),
                    last: sample,
                });
            }
        }
    }

    /// Adds the sums of the logs that follow.
    pub(crate) fn merge(&mut self, later: Self) {
        for (slot, later) in self.sums.iter_mut().zip(later.sums) {
            match (slot.as_mut(), later) {
                (_, None) => {}
                (None, later) => *slot = later,
                (Some(sum), Some(later)) => {
                    sum.transactions += later.transactions;
                    sum.compressed = sum.compressed.saturating_add(later.compressed);
                    sum.uncompressed = sum.uncompressed.saturating_add(later.uncompressed);
                    sum.last = later.last;
                }
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<CompressionRow> {
        let kinds = [
            (LogType::Binary, CompressionType::Zstd),
            (LogType::Binary, CompressionType::None),
            (LogType::Relay, CompressionType::Zstd),
            (LogType::Relay, CompressionType::None),
        ];
        let rows = kinds.into_iter().map(|(log, compression)| {
            self.sums[index(log, compression)].as_ref().map(|sum| row(log, compression, sum))
        });
        rows.flatten().collect()
    }
}

/// Returns the bytes that an event adds to the size of its transaction, if that is not compressed.
pub(crate) fn cached_size(log_type: LogType, role: EventRole, raw: &RawEvent<'_>) -> u64 {
    let (size, checksum) = (u64::from(raw.header().size), raw.checksum().size() as u64);
    match (log_type, matches!(role, EventRole::Gtid | EventRole::GtidAndBegin)) {
        (LogType::Binary, true) => 0,
        (LogType::Binary, false) => size - checksum,
        // A replica subtracts the GTID event from the transaction's length, but not its checksum.
        (LogType::Relay, true) => checksum,
        (LogType::Relay, false) => size,
    }
}

fn index(log: LogType, compression: CompressionType) -> usize {
    let log = match log {
        LogType::Binary => 0,
        LogType::Relay => 2,
    };
    let compression = match compression {
        CompressionType::Zstd => 0,
        CompressionType::None => 1,
    };
    log + compression
}

fn row(log_type: LogType, compression_type: CompressionType, sum: &CompressionSum) -> CompressionRow {
    CompressionRow {
        log_type,
        compression_type,
        transaction_counter: sum.transactions,
        compressed_bytes_counter: sum.compressed,
        uncompressed_bytes_counter: sum.uncompressed,
        compression_percentage: percentage(sum.compressed, sum.uncompressed),
        first_transaction_id: sum.first.id.to_string(),
        first_transaction_compressed_bytes: sum.first.compressed,
        first_transaction_uncompressed_bytes: sum.first.uncompressed,
        first_transaction_timestamp: sum.first.commit_us.map(LogTime),
        last_transaction_id: sum.last.id.to_string(),
        last_transaction_compressed_bytes: sum.last.compressed,
        last_transaction_uncompressed_bytes: sum.last.uncompressed,
        last_transaction_timestamp: sum.last.commit_us.map(LogTime),
    }
}

/// Returns the size saved in percent, rounded half away from zero as the server does.
fn percentage(compressed: u64, uncompressed: u64) -> i16 {
    match uncompressed {
        0 => 0,
        _ => ((1.0 - compressed as f64 / uncompressed as f64) * 100.0).round() as i16,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CompressionTotals, CompressionType, LogType, StoredTransaction, TransactionSizes, percentage,
    };
    use binlog::TransactionId;

    #[test]
    fn percentages_round_as_the_servers_do() {
        assert_eq!(percentage(13_186_769, 26_687_624), 51);
        assert_eq!(percentage(100, 100), 0);
        assert_eq!(percentage(0, 0), 0);
        assert_eq!(percentage(109, 100), -9);
        assert_eq!(percentage(1, 2), 50);
        assert_eq!(percentage(7, 8), 13);
        assert_eq!(percentage(9, 8), -13);
    }

    #[test]
    fn rows_have_the_tables_order_with_first_and_last() {
        let stored = |log_type, compression_type, compressed, commit_us| StoredTransaction {
            log_type,
            compression_type,
            sizes: TransactionSizes {
                id: TransactionId::Anonymous,
                compressed,
                uncompressed: 10,
                commit_us: Some(commit_us),
            },
        };
        let (mut first, mut second) = (CompressionTotals::default(), CompressionTotals::default());
        first.add(stored(LogType::Relay, CompressionType::Zstd, 1, 1));
        first.add(stored(LogType::Binary, CompressionType::None, 10, 2));
        second.add(stored(LogType::Binary, CompressionType::Zstd, 3, 3));
        second.add(stored(LogType::Relay, CompressionType::Zstd, 4, 4));
        first.merge(second);
        let rows = first.rows();
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                (row.log_type, row.compression_type, row.transaction_counter, row.compressed_bytes_counter)
            })
            .collect();
        let expected = [
            (LogType::Binary, CompressionType::Zstd, 1, 3),
            (LogType::Binary, CompressionType::None, 1, 10),
            (LogType::Relay, CompressionType::Zstd, 2, 5),
        ];
        assert_eq!(found, expected);
        let last = &rows[2];
        assert_eq!((last.first_transaction_compressed_bytes, last.last_transaction_compressed_bytes), (1, 4));
        assert_eq!(last.first_transaction_id, "ANONYMOUS");
    }
}
