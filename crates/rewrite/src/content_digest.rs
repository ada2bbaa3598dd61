//! Digest of a log's content, independent of positions and compression.

use std::fmt;

use binlog::{
    Event, EventFormat, EventType, NextPosition, RawEvent, TrackError, TransactionTracker, put_gtid_resized,
    put_inner,
};
use logs::{
    EndOfLog, EventWalk, LogKind, LogReader, PayloadEndStep, ReadOutcome, WalkEvent, WalkSource, WalkStep,
};
use sha2::{Digest, Sha256};

use crate::error::{ErrorContext, RewriteError};

/// Digest of a log's content, independent of positions and compression.
///
/// Logs with equal digests have the same events in the same order. Only these may differ: positions, checksums, the
/// sizes of transactions, and event types up to payloads in the format description.
#[derive(Clone, PartialEq, Eq)]
pub struct ContentDigest {
    /// Number of events. Events inside payloads count, payload events do not.
    pub events: u64,
    /// SHA-256 of the counted events.
    digest: [u8; 32],
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} events, ", self.events)?;
        self.digest.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Result of reading a log to its end.
#[derive(Debug)]
pub(crate) struct LogScan {
    pub(crate) content: ContentDigest,
    /// Number of events whose `end_log_pos` is wrong, and of transactions whose stated size is wrong. In relay logs,
    /// positions are the source's and are not checked.
    pub(crate) mismatches: u64,
}

/// Bytes per read.
const CHUNK_SIZE: usize = 1024 * 1024;

/// Reads a log to its end, verifies its checksums and returns the digest of its content.
///
/// # Errors
///
/// Fails if the log cannot be read, or is corrupt.
pub fn content_digest(reader: &mut LogReader) -> Result<ContentDigest, RewriteError> {
    scan_log(reader).map(|read| read.content)
}

/// Returns the digest as [`content_digest()`] does, and also counts wrong positions and sizes.
pub(crate) fn scan_log(reader: &mut LogReader) -> Result<LogScan, RewriteError> {
    let mut sum = ContentDigestBuilder { events: 0, hasher: Sha256::new(), scratch: Vec::new() };
    let (mut tracker, mut mismatches, mut walk) = (TransactionTracker::new(), 0, EventWalk::default());
    let name = reader.name().to_owned();
    loop {
        match reader.next_chunk(CHUNK_SIZE)? {
            ReadOutcome::Some(chunk) => {
                let kind = reader.kind();
                let mut steps = walk.start(WalkSource::Chunk(&chunk));
                while let Some(step) = steps.next() {
                    if let WalkStep::Event(event) = &step
                        && event.inner.is_none()
                    {
                        mismatches += count_mismatches(event, kind, &mut tracker);
                    }
                    sum.add_step(&step, &name)?;
                }
            }
            ReadOutcome::End(EndOfLog::Torn(torn)) => return Err(reader.torn_error(torn).into()),
            ReadOutcome::End(_) => {
                let content = ContentDigest { events: sum.events, digest: sum.hasher.finalize().into() };
                return Ok(LogScan { content, mismatches });
            }
        }
    }
}

fn count_mismatches(event: &WalkEvent<'_>, kind: LogKind, tracker: &mut TransactionTracker) -> u64 {
    let is_displaced = kind == LogKind::Binary && event.raw.header().next_position != event.end as u32;
    let tracked = match tracker.track(event.offset, &event.raw, event.format) {
        Ok(tracked) => Some(tracked),
        Err(TrackError::Fault(broken)) => Some(broken.tracked),
        // `ContentDigestBuilder::add_event` reports this error.
        Err(TrackError::Decode(_)) => None,
    };
    let ended = tracked.and_then(|tracked| tracked.ended);
    let stated = ended.as_ref().and_then(|ended| ended.stamps?.transaction_size);
    let is_missized = stated.is_some_and(|stated| ended.is_some_and(|ended| ended.size != stated));
    u64::from(is_displaced) + u64::from(is_missized)
}

struct ContentDigestBuilder {
    events: u64,
    hasher: Sha256,
    scratch: Vec<u8>,
}

impl ContentDigestBuilder {
    fn add_step(&mut self, step: &WalkStep<'_>, name: &str) -> Result<(), RewriteError> {
        match step {
            WalkStep::Event(event) if event.inner.is_some() => {
                self.events += 1;
                self.hasher.update(event.raw.bytes());
                Ok(())
            }
            WalkStep::Event(event) => {
                self.add_event(&event.raw, event.format, ErrorContext { name, offset: event.offset })
            }
            WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => {
                let at = ErrorContext { name, offset: *offset };
                match result {
                    Ok(_) => Ok(()),
                    Err(failure) => Err(at.corrupt_error(failure)),
                }
            }
            WalkStep::LargePayload(_) => Ok(()),
        }
    }

    fn add_event(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        at: ErrorContext<'_>,
    ) -> Result<(), RewriteError> {
        raw.verify().map_err(|error| at.decode_error(error))?;
        if raw.event_type() == EventType::TransactionPayload {
            return Ok(());
        }
        self.scratch.clear();
        match raw.event_type() {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged => {
                let put = put_gtid_resized(raw, 0, NextPosition::Fixed(0), format, &mut self.scratch);
                put.map_err(|error| at.corrupt_error(&error))?;
                self.scratch.truncate(self.scratch.len() - raw.checksum().size());
            }
            EventType::FormatDescription => self.encode_format_description(raw, format, at)?,
            _ => put_inner(raw, &mut self.scratch),
        }
        self.events += 1;
        self.hasher.update(&self.scratch);
        Ok(())
    }

    /// Encodes the format description as if it had payload events, because rewriting may add them.
    fn encode_format_description(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        at: ErrorContext<'_>,
    ) -> Result<(), RewriteError> {
        let event = raw.decode(format).map_err(|error| at.decode_error(error))?;
        let Event::FormatDescription(description) = event else { return Ok(()) };
        let mut sizes = Vec::new();
        let extended = Event::FormatDescription(description.with_payloads(&mut sizes));
        let put = extended.write(raw.header().origin(), NextPosition::Fixed(0), format, &mut self.scratch);
        put.map_err(|error| at.corrupt_error(&error))?;
        self.scratch.truncate(self.scratch.len() - raw.checksum().size());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use binlog::{EventType, Framer, FramerOutput, MAGIC, NextPosition, put_gtid_resized};
    use logs::LogReader;

    use super::{LogScan, scan_log};

    /// Reads a sample with one event of this type changed.
    fn read(changed: EventType) -> LogScan {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types-compressed.binlog");
        let original = std::fs::read(path).unwrap();
        let (mut framer, mut rest, mut log) = (Framer::new(), &original[MAGIC.len()..], MAGIC.to_vec());
        let mut is_due = true;
        while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
            rest = &rest[raw.bytes().len()..];
            let format = framer.format().unwrap();
            let (next, origin) = (raw.header().next_position, raw.header().origin());
            match raw.event_type() == changed && std::mem::take(&mut is_due) {
                true if changed == EventType::Gtid => {
                    put_gtid_resized(&raw, 77, NextPosition::Fixed(next), format, &mut log).unwrap();
                }
                true => raw.rewrite(origin, NextPosition::Fixed(next + 1), raw.checksum(), &mut log).unwrap(),
                false => log.extend_from_slice(raw.bytes()),
            }
        }
        assert_eq!(log == original, is_due);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, log).unwrap();
        scan_log(&mut LogReader::open(&path).unwrap()).unwrap()
    }

    #[test]
    fn wrong_sizes_and_positions_are_counted() {
        let sound = read(EventType::Slave);
        assert_eq!(sound.mismatches, 0);
        for changed in [EventType::Gtid, EventType::TransactionPayload] {
            let wrong = read(changed);
            assert_eq!((wrong.mismatches, wrong.content == sound.content), (1, true), "{changed:?}");
        }
    }
}
