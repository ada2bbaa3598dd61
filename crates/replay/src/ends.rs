//! Check that the logs have what a selection names. A mistyped number in `--stop-gtid` would otherwise apply
//! everything.

use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::gtid::{Gtid, GtidSet};
use binlog::{Event, EventType, Format, RawEvent};
use logs::{LogReader, Next, Piece};

use crate::error::Error;
use crate::select::{Bound, Selection, Start, Stop};
use crate::source::Log;

/// Bytes per read.
const CHUNK_SIZE: usize = 1 << 20;

impl Selection {
    /// Checks that the logs have the positions and GTIDs that the selection names. Decodes only GTID events. Standard
    /// input cannot be read twice: there, replay reports at its end that the stop was not reached.
    ///
    /// # Errors
    ///
    /// When the logs do not have them. A log that cannot be read is no error here: replay reports it.
    pub fn find_in(&self, logs: &[Log], keyring: Option<&Arc<Keyring>>) -> Result<(), Error> {
        let (start, starts) = match &self.start {
            Some(Start::At(bound)) => (Some(bound), None),
            Some(Start::AtGtid(gtids) | Start::AfterGtid(gtids)) => (None, Some(gtids)),
            None => (None, None),
        };
        let (stop, stops) = match &self.stop {
            Some(Stop::At(bound)) => (Some(bound), None),
            Some(Stop::BeforeGtid(gtids) | Stop::AfterGtid(gtids)) => (None, Some(gtids)),
            None => (None, None),
        };
        for bound in start.into_iter().chain(stop) {
            if let Bound::Position { log, position } = bound
                && let Some(file) = logs.iter().find(|file| file.name() == *log)
            {
                find_place(file, *position, keyring)?;
            }
        }
        if logs.contains(&Log::Stdin) {
            return Ok(());
        }
        let mut named = starts.into_iter().chain(stops);
        match named.find(|gtids| !has_any(logs, gtids, keyring)) {
            Some(gtids) => Err(missing(gtids)),
            None => Ok(()),
        }
    }
}

/// Returns the error for GTIDs that none of the logs has.
pub(crate) fn missing(gtids: &GtidSet) -> Error {
    Error::Refused(format!("start or stop not found: none of these logs has a transaction of {gtids}"))
}

fn open(log: &Log, keyring: Option<&Arc<Keyring>>) -> Result<Option<LogReader>, logs::Error> {
    let Log::File(path) = log else { return Ok(None) };
    let reader = LogReader::open(path)?;
    Ok(Some(match keyring {
        Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
        None => reader,
    }))
}

fn find_place(log: &Log, position: u64, keyring: Option<&Arc<Keyring>>) -> Result<(), Error> {
    let Ok(Some(mut reader)) = open(log, keyring) else { return Ok(()) };
    if !matches!(reader.next_event(), Ok(Next::Some(_))) || position < reader.position() {
        return Ok(());
    }
    match reader.skip_to(position) {
        Err(error @ logs::Error::Beyond { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns whether one of the logs has one of these GTIDs; `true` if a log cannot be read.
fn has_any(logs: &[Log], gtids: &GtidSet, keyring: Option<&Arc<Keyring>>) -> bool {
    logs.iter().any(|log| has_one(log, gtids, keyring).unwrap_or(true))
}

fn has_one(log: &Log, gtids: &GtidSet, keyring: Option<&Arc<Keyring>>) -> Result<bool, Error> {
    let Some(mut reader) = open(log, keyring)? else { return Ok(true) };
    loop {
        match reader.next_piece(CHUNK_SIZE, CHUNK_SIZE)? {
            Next::Some(Piece::Chunk(chunk)) => {
                let mut named = chunk.iter().filter_map(|event| gtid(&event.raw, chunk.format()));
                if named.any(|gtid| gtids.contains(gtid)) {
                    return Ok(true);
                }
            }
            // Its GTID event came before it.
            Next::Some(Piece::LargePayload(_)) => {}
            Next::End(_) => return Ok(false),
        }
    }
}

fn gtid(raw: &RawEvent<'_>, format: &Format) -> Option<Gtid> {
    if !matches!(raw.event_type(), EventType::Gtid | EventType::GtidTagged) {
        return None;
    }
    raw.decode(format).ok().as_ref().and_then(Event::gtid)
}
