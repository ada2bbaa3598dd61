//! Check that the logs contain the positions and GTIDs of a selection. Without this check, a mistyped `--stop-gtid`
//! would apply all transactions.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::gtid::{Gtid, GtidSet};
use binlog::{Event, EventFormat, EventType, RawEvent};
use logs::{LogPiece, LogReader, ReadOutcome, RewritePositions};

use crate::replay_error::ReplayError;
use crate::replay_log::ReplayLog;
use crate::transaction_selection::{
    SelectionBound, SelectionStart, SelectionStop, TransactionSelection, missing_gtids, stop_before_start,
};

/// Bytes per read.
const CHUNK_SIZE: usize = 1 << 20;

impl TransactionSelection {
    /// Checks that the logs have the positions and GTIDs that the selection names. Decodes only GTID events. Standard
    /// input cannot be read twice: its replay reports at the end that the stop was not reached.
    ///
    /// A search for GTIDs can read all logs, and reads them twice for a start and a stop. Calls `on_progress` with the
    /// number of bytes read so far, and ends if `on_progress` breaks.
    ///
    /// # Errors
    ///
    /// Fails if the logs do not contain a position or GTID, or the stop is not after the start. An unreadable log is no
    /// error here: replay reports it. [`ReplayError::Interrupted`] if `on_progress` breaks.
    pub fn check_bounds(
        &self,
        logs: &[ReplayLog],
        keyring: Option<&Arc<Keyring>>,
        on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), ReplayError> {
        let (start, starts) = match &self.start {
            Some(SelectionStart::At(bound)) => (Some(bound), None),
            Some(SelectionStart::AtGtid(gtids) | SelectionStart::AfterGtid(gtids)) => (None, Some(gtids)),
            None => (None, None),
        };
        let (stop, stops) = match &self.stop {
            Some(SelectionStop::At(bound)) => (Some(bound), None),
            Some(SelectionStop::BeforeGtid(gtids) | SelectionStop::AfterGtid(gtids)) => (None, Some(gtids)),
            None => (None, None),
        };
        if let (Some(start), Some(stop)) = (start, stop)
            && !is_before(start, stop, logs)
        {
            return Err(stop_before_start());
        }
        let start_option = self.start.as_ref().map_or("", SelectionStart::option);
        let stop_option = self.stop.as_ref().map_or("", SelectionStop::option);
        for (option, bound) in [(start_option, start), (stop_option, stop)] {
            if let Some(SelectionBound::Position { log, position }) = bound
                && let Some(file) = logs.iter().find(|file| file.name() == *log)
            {
                check_position(option, file, *position, keyring)?;
            }
        }
        if logs.contains(&ReplayLog::Stdin) {
            return Ok(());
        }
        let mut search = GtidSearch { logs, keyring, on_progress, bytes_read: 0 };
        let mut find = |option, gtids: &GtidSet| match search.find_first(gtids)? {
            GtidPosition::Absent => Err(missing_gtids(option, gtids)),
            position => Ok(position),
        };
        let first = starts.map(|gtids| find(start_option, gtids)).transpose()?;
        let positions = (first, stops.map(|gtids| find(stop_option, gtids)).transpose()?);
        if let (Some(GtidPosition::At(start)), Some(GtidPosition::At(stop))) = positions {
            let takes_first = matches!(
                (&self.start, &self.stop),
                (Some(SelectionStart::AtGtid(_)), Some(SelectionStop::AfterGtid(_)))
            );
            if stop < start || stop == start && !takes_first {
                return Err(stop_before_start());
            }
        }
        Ok(())
    }
}

/// Returns whether a start may be before a stop. The order of a time and a position is unknown.
fn is_before(start: &SelectionBound, stop: &SelectionBound, logs: &[ReplayLog]) -> bool {
    let position = |bound: &SelectionBound| match bound {
        SelectionBound::Position { log, position } => {
            let number = logs.iter().position(|file| file.name() == *log);
            number.map(|number| (number, *position))
        }
        SelectionBound::Time(_) => None,
    };
    match (start, stop) {
        (SelectionBound::Time(start), SelectionBound::Time(stop)) => start < stop,
        _ => position(start).zip(position(stop)).is_none_or(|(start, stop)| start < stop),
    }
}

fn open_log(log: &ReplayLog, keyring: Option<&Arc<Keyring>>) -> Result<Option<LogReader>, logs::LogError> {
    let ReplayLog::File(path) = log else { return Ok(None) };
    let reader = LogReader::open(path)?;
    Ok(Some(match keyring {
        Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
        None => reader,
    }))
}

fn check_position(
    option: &str,
    log: &ReplayLog,
    position: u64,
    keyring: Option<&Arc<Keyring>>,
) -> Result<(), ReplayError> {
    let Ok(Some(mut reader)) = open_log(log, keyring) else { return Ok(()) };
    if let (ReplayLog::File(path), Ok(Some(size))) = (log, reader.size())
        && let Some(positions) = RewritePositions::open(path, size)?
    {
        return check_original_position(option, reader, positions, position);
    }
    if !matches!(reader.next_event(), Ok(ReadOutcome::Some(_))) || position < reader.position() {
        return Ok(());
    }
    match reader.skip_to(position) {
        Err(error @ logs::LogError::PastEnd { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Checks a position in the source's log, for a log that was rewritten since: an event must start or end there. A
/// position in the rewritten file would select other transactions.
fn check_original_position(
    option: &str,
    mut reader: LogReader,
    mut positions: RewritePositions,
    position: u64,
) -> Result<(), ReplayError> {
    if !matches!(reader.next_event(), Ok(ReadOutcome::Some(_))) || position < reader.position() {
        return Ok(());
    }
    let start = positions.seek_original(position)?.map_or(0, |before| before.rewritten);
    let rewritten = positions.to_rewritten(position);
    if rewritten > start && (start == 0 || reader.skip_to(start).is_ok()) {
        match ends_at(&mut reader, rewritten) {
            Ok(Some(false)) => {}
            Ok(Some(true)) => return Ok(()),
            Ok(None) => {
                let (name, size) = (reader.name().to_owned(), positions.to_original(reader.position()));
                return Err(logs::LogError::PastEnd { name, offset: position, size }.into());
            }
            Err(_) => return Ok(()), // Replay reports it.
        }
    }
    let log = reader.name();
    Err(ReplayError::Refused(format!(
        "{option}: bintide compress or decompress has rewritten {log}, and no event of the source's log \
         is known to start at {position}. Give a position of the source's log: the file positions.LOG in the directory of \
         the log lists where its transactions start"
    )))
}

/// Returns whether an event ends at a position; `None` if the log ends before it.
fn ends_at(reader: &mut LogReader, position: u64) -> Result<Option<bool>, logs::LogError> {
    while reader.position() < position {
        match reader.next_piece(CHUNK_SIZE, CHUNK_SIZE)? {
            ReadOutcome::Some(LogPiece::Chunk(chunk)) => {
                if let Some(event) = chunk.iter().find(|event| event.end() >= position) {
                    return Ok(Some(event.end() == position));
                }
            }
            ReadOutcome::Some(LogPiece::LargePayload(payload)) if payload.head().end() >= position => {
                return Ok(Some(payload.head().end() == position));
            }
            ReadOutcome::Some(LogPiece::LargePayload(_)) => {}
            ReadOutcome::End(_) => return Ok(None),
        }
    }
    Ok(Some(reader.position() == position))
}

/// Position of the first transaction of a GTID set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GtidPosition {
    /// Number of the log, and position of the event in the log.
    At(GtidEventPosition),
    /// Unknown, because a log cannot be read. Replay reports it.
    Unknown,
    /// No log has one of the GTIDs.
    Absent,
}

/// Position in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GtidEventPosition {
    log_number: usize,
    position: u64,
}

/// Returns whether the manifest of an archived log shows that the log has none of these GTIDs.
fn is_known_without(log: &ReplayLog, gtids: &GtidSet) -> bool {
    let ReplayLog::File(path) = log else { return false };
    let found = logs::archived_contents(path).and_then(|contents| contents.gtids);
    found.is_some_and(|found| !found.intersects(gtids))
}

/// Search for GTIDs in logs.
struct GtidSearch<'s> {
    logs: &'s [ReplayLog],
    keyring: Option<&'s Arc<Keyring>>,
    on_progress: &'s mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Bytes of earlier logs.
    bytes_read: u64,
}

impl GtidSearch<'_> {
    /// Finds the first transaction of these GTIDs.
    fn find_first(&mut self, gtids: &GtidSet) -> Result<GtidPosition, ReplayError> {
        for (log_number, log) in self.logs.iter().enumerate() {
            if is_known_without(log, gtids) {
                continue;
            }
            match self.find_in_log(log, gtids) {
                Ok(Some(position)) => {
                    return Ok(GtidPosition::At(GtidEventPosition { log_number, position }));
                }
                Ok(None) => {}
                Err(ReplayError::Interrupted) => return Err(ReplayError::Interrupted),
                Err(_) => return Ok(GtidPosition::Unknown),
            }
        }
        Ok(GtidPosition::Absent)
    }

    fn find_in_log(&mut self, log: &ReplayLog, gtids: &GtidSet) -> Result<Option<u64>, ReplayError> {
        let Some(mut reader) = open_log(log, self.keyring)? else { return Ok(None) };
        let first = loop {
            if (self.on_progress)(self.bytes_read + reader.position()).is_break() {
                return Err(ReplayError::Interrupted);
            }
            match reader.next_piece(CHUNK_SIZE, CHUNK_SIZE)? {
                ReadOutcome::Some(LogPiece::Chunk(chunk)) => {
                    let is_named = |raw: &RawEvent<'_>| {
                        gtid_of(raw, chunk.format()).is_some_and(|gtid| gtids.contains(gtid))
                    };
                    let first = chunk.iter().find(|event| is_named(&event.raw)).map(|event| event.offset);
                    if first.is_some() {
                        break first;
                    }
                }
                // The GTID event precedes the payload.
                ReadOutcome::Some(LogPiece::LargePayload(_)) => {}
                ReadOutcome::End(_) => break None,
            }
        };
        self.bytes_read += reader.position();
        Ok(first)
    }
}

fn gtid_of(raw: &RawEvent<'_>, format: &EventFormat) -> Option<Gtid> {
    if !matches!(raw.event_type(), EventType::Gtid | EventType::GtidTagged) {
        return None;
    }
    raw.decode(format).ok().as_ref().and_then(Event::gtid)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;

    use crate::replay_error::ReplayError;
    use crate::replay_log::ReplayLog;
    use crate::transaction_selection::{SelectionStop, TransactionSelection};

    /// Without these calls, Ctrl-C would wait until all logs are read.
    #[test]
    fn searches_for_gtids_can_be_stopped() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/rotation");
        let logs = [1, 2].map(|number| ReplayLog::File(directory.join(format!("binlog.{number:06}"))));
        let stop = "00000000-0000-0000-0000-00000000000a:1".parse().unwrap();
        let selection = TransactionSelection {
            stop: Some(SelectionStop::AfterGtid(stop)),
            ..TransactionSelection::default()
        };
        let mut seen = Vec::new();
        let result = selection.check_bounds(&logs, None, &mut |bytes| {
            seen.push(bytes);
            ControlFlow::Continue(())
        });
        assert!(matches!(result, Err(ReplayError::Refused(_))), "{result:?}");
        let stopped = selection.check_bounds(&logs, None, &mut |_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(ReplayError::Interrupted)), "{stopped:?}");
        let sizes = logs.map(|log| match log {
            ReplayLog::File(path) => std::fs::metadata(path).unwrap().len(),
            ReplayLog::Stdin => 0,
        });
        assert!(seen.is_sorted() && seen.last() == Some(&sizes.iter().sum()), "{seen:?} {sizes:?}");
    }
}
