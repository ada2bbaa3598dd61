//! Counts the rows of the compression table event by event, for callers that read the events anyway.

use binlog::{
    DecodeError, Event, EventFormat, EventPlace, EventRole, RawEvent, TrackError, TrackedEvent,
    TransactionOutline, TransactionTracker,
};

use super::compression::{
    CompressionRow, CompressionTotals, CompressionType, LogType, StatedPayload, StoredTransaction,
    TransactionSizes, cached_size,
};

/// Counter for the rows of one kind of log, event by event.
#[derive(Clone, Debug)]
pub struct CompressionCounter {
    log_type: LogType,
    tracker: TransactionTracker,
    /// Size of the open transaction, if it is not compressed.
    cached: u64,
    /// Payload of the transaction, if compressed.
    payload: Option<StatedPayload>,
    sums: CompressionTotals,
}

impl CompressionCounter {
    /// Creates a counter for events of this kind of log.
    pub fn of(log_type: LogType) -> Self {
        Self {
            log_type,
            tracker: TransactionTracker::new(),
            cached: 0,
            payload: None,
            sums: CompressionTotals::default(),
        }
    }

    /// Counts the next event. Skips events that violate the grammar, transactions without a start, and incomplete
    /// transactions.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be decoded. It is then not counted.
    pub fn add_event(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        // Positions do not matter here.
        let TrackedEvent { role, step, ended } = match self.tracker.track(0, raw, format) {
            Ok(tracked) => tracked,
            Err(TrackError::Fault(fault)) => fault.tracked,
            Err(TrackError::Decode(error)) => return Err(error),
        };
        if step.transaction == EventPlace::Outside {
            return Ok(());
        }
        if step.transaction.is_first() {
            (self.cached, self.payload) = (0, None);
        }
        self.cached += cached_size(self.log_type, role, raw);
        if role == EventRole::Payload
            && let Event::TransactionPayload(payload) = raw.decode(format)?
        {
            self.payload = Some(StatedPayload::new(payload.payload.len() as u64, payload.uncompressed_size));
        }
        if let Some(ended) = ended {
            self.add(&ended);
        }
        Ok(())
    }

    /// Resets the counts. A transaction that has begun is counted when it ends.
    pub fn reset(&mut self) {
        self.sums = CompressionTotals::default();
    }

    /// Takes the counts so far. A transaction that has begun is counted when it ends.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self { sums: std::mem::take(&mut self.sums), ..Self::of(self.log_type) }
    }

    /// Returns the number of counted transactions.
    pub fn transactions(&self) -> u64 {
        self.rows().iter().map(|row| row.transaction_counter).sum()
    }

    /// Adds the counts of the events that follow.
    pub fn merge(&mut self, later: Self) {
        self.sums.merge(later.sums);
    }

    /// Returns the rows so far: at most two.
    pub fn rows(&self) -> Vec<CompressionRow> {
        self.sums.rows()
    }

    fn add(&mut self, ended: &TransactionOutline) {
        let (compression_type, compressed, uncompressed) = match self.payload {
            Some(payload) => (CompressionType::Zstd, payload.compressed, payload.uncompressed),
            None => (CompressionType::None, self.cached, self.cached),
        };
        let commit_us = ended.stamps.map(|stamps| stamps.immediate_commit_us);
        let sample = TransactionSizes { id: ended.id, compressed, uncompressed, commit_us };
        self.sums.add(StoredTransaction { log_type: self.log_type, compression_type, sizes: sample });
    }
}
