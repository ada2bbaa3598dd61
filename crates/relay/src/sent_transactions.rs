//! Sizes of sent transactions, counted as in `performance_schema.binary_log_transaction_compression_stats`.
//!
//! The server counts the events after the GTID event of each transaction, without checksums. A compressed transaction
//! counts the size of its payload, and the uncompressed size that the payload states.

use binlog::events::{PayloadCompression, PayloadFields};
use binlog::{Cursor, EventType, HEADER_SIZE, TransactionId};

use crate::form_chunk::FormChunk;
use crate::relay_facts::{CompressionCounters, CountedTransaction};

/// Measures the transactions of one log in a form, event by event: once for all clients.
#[derive(Debug, Default)]
pub(crate) struct TransactionMeter {
    open: Option<SentTransaction>,
}

/// Sent transaction, with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTransaction {
    /// Identifier.
    pub id: TransactionId,
    /// Time of the commit on the server that wrote the log, in microseconds since 1970.
    pub committed_us: u64,
    /// True if the transaction is compressed with zstd.
    pub is_compressed: bool,
    /// Size of the transaction as sent, in bytes.
    pub compressed_bytes: u64,
    /// Size without compression, in bytes.
    pub uncompressed_bytes: u64,
}

impl TransactionMeter {
    /// Adds an event, or a piece of an event. Returns the transaction that it ends, unless the start of that
    /// transaction was not added.
    pub(crate) fn add(&mut self, chunk: &FormChunk, index: usize) -> Option<SentTransaction> {
        let slice = &chunk.slices()[index];
        if slice.starts_transaction && slice.is_first() {
            self.open = chunk.mark_at(index).map(|mark| SentTransaction {
                id: mark.id,
                committed_us: mark.committed_us,
                is_compressed: false,
                compressed_bytes: 0,
                uncompressed_bytes: 0,
            });
        }
        let open = self.open.as_mut()?;
        if slice.is_first() {
            let checksum = chunk.format().checksum.for_events().size();
            let bytes = &chunk.bytes()[slice.range()];
            open.add_event(slice.event_type, slice.event_size as usize - checksum, bytes);
        }
        if slice.is_end_of_transaction() { self.open.take() } else { None }
    }
}

impl SentTransaction {
    /// Adds an event of this size. `bytes` are the first bytes of the event.
    fn add_event(&mut self, event_type: EventType, size: usize, bytes: &[u8]) {
        match event_type {
            EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid | EventType::MariadbGtid => {}
            EventType::TransactionPayload => {
                let body = bytes.get(HEADER_SIZE..).unwrap_or_default();
                let Ok(fields) = PayloadFields::decode(&mut Cursor::new(body)) else { return };
                self.is_compressed = fields.compression != PayloadCompression::None;
                self.compressed_bytes = fields.payload_size;
                self.uncompressed_bytes = fields.uncompressed_size.unwrap_or_default();
            }
            _ => {
                self.compressed_bytes += size as u64;
                self.uncompressed_bytes += size as u64;
            }
        }
    }

    fn counted(&self) -> CountedTransaction {
        CountedTransaction {
            id: self.id.to_string(),
            compressed_bytes: self.compressed_bytes,
            uncompressed_bytes: self.uncompressed_bytes,
            time_us: self.committed_us,
        }
    }
}

/// Sums over the transactions sent to all clients.
#[derive(Clone, Debug, Default)]
pub struct SentTransactions {
    /// Sums over compressed transactions, and over all other transactions.
    sums: [Option<SentSum>; 2],
}

#[derive(Clone, Copy, Debug)]
struct SentSum {
    transactions: u64,
    compressed_bytes: u64,
    uncompressed_bytes: u64,
    first: SentTransaction,
    last: SentTransaction,
}

impl SentTransactions {
    /// Adds a transaction.
    pub fn add(&mut self, sent: SentTransaction) {
        let slot = &mut self.sums[usize::from(!sent.is_compressed)];
        let sum = slot.get_or_insert(SentSum {
            transactions: 0,
            compressed_bytes: 0,
            uncompressed_bytes: 0,
            first: sent,
            last: sent,
        });
        sum.transactions += 1;
        sum.compressed_bytes = sum.compressed_bytes.saturating_add(sent.compressed_bytes);
        sum.uncompressed_bytes = sum.uncompressed_bytes.saturating_add(sent.uncompressed_bytes);
        sum.last = sent;
    }

    /// Returns the rows of the table, in its order.
    pub fn rows(&self) -> Vec<CompressionCounters> {
        let row = |(sum, compression_type): (&Option<SentSum>, &'static str)| {
            sum.as_ref().map(|sum| CompressionCounters {
                log_type: "BINARY",
                compression_type,
                transactions: sum.transactions,
                compressed_bytes: sum.compressed_bytes,
                uncompressed_bytes: sum.uncompressed_bytes,
                first: sum.first.counted(),
                last: sum.last.counted(),
            })
        };
        self.sums.iter().zip(["ZSTD", "NONE"]).filter_map(row).collect()
    }
}
