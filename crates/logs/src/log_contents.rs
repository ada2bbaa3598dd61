//! Transactions of a log, and the end of its last whole transaction.

use std::path::Path;

use binlog::gtid::GtidSet;
use binlog::{
    DecodeError, Event, EventFormat, EventType, MAGIC, RawEvent, TrackError, TransactionId,
    TransactionTracker,
};

use crate::error::LogError;
use crate::event_chunk::LogEvent;
use crate::keyring::open_log;
use crate::log_reader::ReadOutcome;

/// Transactions of a log and of the logs before it, and the end of its last whole transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContents {
    /// MySQL GTIDs in the log's Previous_gtids event, and of the log's own whole transactions.
    pub gtids: GtidSet,
    /// End of the last whole transaction, and of the following events outside any transaction.
    pub whole_end: u64,
    /// `sequence_number` of the last whole transaction; 0 if the log has none.
    pub sequence_number: i64,
}

impl LogContents {
    /// Reads a log up to its end or its first incomplete event. An encrypted log needs a keyring file.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or an event cannot be decoded or violates the transaction grammar.
    pub fn read(log: &Path, keyring: Option<&Path>) -> Result<Self, LogError> {
        let mut contents = Self { gtids: GtidSet::new(), whole_end: MAGIC.len() as u64, sequence_number: 0 };
        let mut reader = open_log(log, keyring)?;
        let mut tracker = TransactionTracker::new();
        loop {
            let chunk = match reader.next_chunk(CHUNK_SIZE)? {
                ReadOutcome::Some(chunk) => chunk,
                ReadOutcome::End(_) => return Ok(contents),
            };
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                contents.take(&mut tracker, &event, chunk.format()).map_err(|error| {
                    let (name, reason) = (log.display().to_string(), error.to_string());
                    LogError::Grammar { name, offset: event.offset, reason }
                })?;
            }
        }
    }

    fn take(
        &mut self,
        tracker: &mut TransactionTracker,
        event: &LogEvent<'_>,
        format: &EventFormat,
    ) -> Result<(), TrackError> {
        if event.raw.event_type() == EventType::PreviousGtids {
            self.gtids = decode_previous_gtids(&event.raw, format).map_err(TrackError::Decode)?;
        }
        if let Some(ended) = tracker.track(event.offset, &event.raw, format)?.ended {
            if let TransactionId::Gtid(gtid) = ended.id {
                self.gtids.add(gtid);
            }
            self.sequence_number = ended.clock.map_or(0, |clock| clock.sequence_number);
        }
        if tracker.open().is_none() {
            self.whole_end = event.end();
        }
        Ok(())
    }
}

/// Number of bytes to read at once.
const CHUNK_SIZE: usize = 1 << 20;

/// Returns the set of a `Previous_gtids` event; an empty one for any other event.
///
/// # Errors
///
/// Fails if the event or its set cannot be decoded.
pub fn decode_previous_gtids(raw: &RawEvent<'_>, format: &EventFormat) -> Result<GtidSet, DecodeError> {
    match raw.decode(format)? {
        Event::PreviousGtids(previous) => GtidSet::decode(previous.set),
        _ => Ok(GtidSet::new()),
    }
}
