//! Reader of the logs of a store, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use binlog::PayloadOpener;
use binlog::encryption::Keyring;
use logs::{
    EndOfLog, EventWalk, LogError, LogReader, LogWalk, PayloadEndStep, PayloadFailure, PieceReader,
    PieceSizes, ReadOutcome, WalkEvent, WalkStep,
};

use crate::content_scanner::{ContentScanner, EventLocation, NoticeSink, ScanError};
use crate::error::DiffError;

/// Store to compare: logs of one server, in their order.
#[derive(Clone, Debug)]
pub struct DiffStore {
    /// Name of the store, as given by the user.
    pub name: String,
    /// Logs, in their order.
    pub logs: Vec<PathBuf>,
    /// Keys of encrypted logs.
    pub keyring: Option<Arc<Keyring>>,
}

/// Progress of a comparison, and the request to stop it.
#[derive(Debug, Default)]
pub(crate) struct ScanMonitor {
    bytes: AtomicU64,
    is_stopped: AtomicBool,
}

impl ScanMonitor {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) -> Result<(), DiffError> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(DiffError::Stopped),
            false => Ok(()),
        }
    }
}

/// Decision to continue reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadDemand {
    /// Continue.
    More,
    /// Stop.
    Enough,
}

/// Reader of the logs of a store, one after the other.
#[derive(Debug)]
pub(crate) struct StoreReader<'s> {
    store: &'s DiffStore,
    monitor: &'s ScanMonitor,
    pub(crate) scanner: ContentScanner,
}

/// Sizes of the pieces to read.
const PIECE_SIZES: PieceSizes = PieceSizes { chunk_size: 1 << 20, large_size: 16 << 20 };

impl<'s> StoreReader<'s> {
    pub(crate) fn new(store: &'s DiffStore, monitor: &'s ScanMonitor) -> Self {
        Self { store, monitor, scanner: ContentScanner::default() }
    }

    /// Reads one log from its start, or from another event on. After each event, `demand` decides whether to continue.
    /// For the last log, which may still be written, returns a message if its end is torn. A log without events is an
    /// error.
    pub(crate) fn read_log(
        &mut self,
        number: u32,
        from: Option<u64>,
        sink: NoticeSink<'_>,
        demand: &mut dyn FnMut() -> ReadDemand,
    ) -> Result<Option<String>, DiffError> {
        let Some(path) = self.store.logs.get(number as usize) else { return Ok(None) };
        let mut reader = LogReader::open_stored(path)?;
        if let Some(keyring) = &self.store.keyring {
            reader = reader.with_keyring(Arc::clone(keyring));
        }
        if let Some(from) = from {
            // The first event tells the log's format.
            reader.next_event()?;
            if from > reader.position() {
                reader.skip_to(from)?;
            }
        }
        let mut position = reader.position();
        let pieces = PieceReader::new(reader, PIECE_SIZES, PayloadOpener::new());
        let mut walk = LogWalk::new(pieces, EventWalk::default());
        let name = path.display().to_string();
        loop {
            let reached = walk.reader().position();
            if reached != position {
                self.monitor.advance(reached.saturating_sub(position))?;
                position = reached;
            }
            let step = match walk.next()? {
                ReadOutcome::Some(step) => step,
                ReadOutcome::End(EndOfLog::Torn(torn)) => {
                    let error = walk.reader().torn_error(torn);
                    let is_last = number as usize + 1 == self.store.logs.len();
                    return if is_last && torn.follows_events() {
                        Ok(Some(error.to_string()))
                    } else {
                        Err(error.into())
                    };
                }
                ReadOutcome::End(_) => {
                    self.monitor.advance(walk.reader().position().saturating_sub(position))?;
                    return Ok(None);
                }
            };
            process_step(&mut self.scanner, &step, number, &name, sink)?;
            if demand() == ReadDemand::Enough {
                return Ok(None);
            }
        }
    }
}

fn process_step(
    scanner: &mut ContentScanner,
    step: &WalkStep<'_>,
    log: u32,
    name: &str,
    sink: NoticeSink<'_>,
) -> Result<(), LogError> {
    let name = || name.to_owned();
    match step {
        WalkStep::Event(event) => {
            if event.inner.is_none() {
                let corrupt = |error| LogError::Corrupt { name: name(), offset: event.offset, error };
                event.raw.verify().map_err(corrupt)?;
            }
            let location = EventLocation { log, offset: event.offset };
            let scanned = scanner.scan(&event.raw, event.format, location, sink);
            scanned.map_err(|error| scan_error(error, event, name()))
        }
        WalkStep::LargePayload(_) => Ok(()),
        WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => match result {
            Ok(end) => {
                end.checksum.map_err(|error| LogError::Corrupt { name: name(), offset: *offset, error })
            }
            Err(failure) => Err(failure.at(name(), *offset)),
        },
    }
}

fn scan_error(error: ScanError, event: &WalkEvent<'_>, name: String) -> LogError {
    let offset = event.offset;
    match error {
        ScanError::Decode(error) => PayloadFailure::of_event(event.inner, error).at(name, offset),
        ScanError::Grammar(fault) => LogError::Grammar { name, offset, reason: fault.to_string() },
    }
}
