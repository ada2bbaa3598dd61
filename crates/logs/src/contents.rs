//! Transactions of a log, and the end of its last whole transaction.

use std::path::Path;

use binlog::gtid::GtidSet;
use binlog::{DecodeError, Event, EventType, Format, MAGIC, RawEvent, TrackError, Tracker, TransactionId};

use crate::chunk::LogEvent;
use crate::error::Error;
use crate::keyring::open_log;
use crate::reader::Next;

/// Transactions of a log and of the logs before it, and the end of its last whole transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// MySQL GTIDs: those of the log's Previous_gtids event, and those of its own whole transactions.
    pub gtids: GtidSet,
    /// End of the last whole transaction, or of the events that follow it outside any transaction.
    pub whole: u64,
    /// `sequence_number` of the last whole transaction; 0 if the log has none.
    pub sequence_number: i64,
}

impl Contents {
    /// Reads a log up to its end or its first incomplete event. An encrypted log needs a keyring file.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or an event cannot be decoded or violates the transaction grammar.
    pub fn of(log: &Path, keyring: Option<&Path>) -> Result<Self, Error> {
        let mut contents = Self { gtids: GtidSet::new(), whole: MAGIC.len() as u64, sequence_number: 0 };
        let mut reader = open_log(log, keyring)?;
        let mut tracker = Tracker::new();
        loop {
            let chunk = match reader.next_chunk(CHUNK_SIZE)? {
                Next::Some(chunk) => chunk,
                Next::End(_) => return Ok(contents),
            };
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                contents.take(&mut tracker, &event, chunk.format()).map_err(|error| {
                    let (name, reason) = (log.display().to_string(), error.to_string());
                    Error::Grammar { name, offset: event.offset, reason }
                })?;
            }
        }
    }

    fn take(
        &mut self,
        tracker: &mut Tracker,
        event: &LogEvent<'_>,
        format: &Format,
    ) -> Result<(), TrackError> {
        if event.raw.event_type() == EventType::PreviousGtids {
            self.gtids = previous(&event.raw, format).map_err(TrackError::Decode)?;
        }
        if let Some(ended) = tracker.track(event.offset, &event.raw, format)?.ended {
            if let TransactionId::Gtid(gtid) = ended.id {
                self.gtids.add(gtid);
            }
            self.sequence_number = ended.clock.map_or(0, |clock| clock.sequence_number);
        }
        if tracker.open().is_none() {
            self.whole = event.end();
        }
        Ok(())
    }
}

/// Number of bytes to read at once.
const CHUNK_SIZE: usize = 1 << 20;

fn previous(raw: &RawEvent<'_>, format: &Format) -> Result<GtidSet, DecodeError> {
    match raw.decode(format)? {
        Event::PreviousGtids(previous) => GtidSet::decode(previous.set),
        _ => Ok(GtidSet::new()),
    }
}
