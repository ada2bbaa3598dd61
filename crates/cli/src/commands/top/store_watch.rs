//! Follows a store, and counts its transactions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use binlog::PayloadOpener;
use logs::{
    EventWalk, LogEndAction, LogError, LogReader, LogWalk, PieceReader, PieceSizes, ReadOutcome, Store,
    StoreCursor, WalkStep, base_name, read_keyring,
};
use serde::Serialize;

use super::store_activity::{ActivitySummary, StoreActivity};
use super::transaction_counter::TransactionCounter;
use crate::exit::{CommandFailure, ErrorAdvice};
use crate::log_args::add_advice;

/// Bytes per read, and size above which a payload is decompressed while it is read.
const SIZES: PieceSizes = PieceSizes { chunk_size: 256 << 10, large_size: 16 << 20 };

/// Number of steps after which the time is compared with the limit.
const STEPS_PER_CHECK: u32 = 1000;

/// A store that is followed from the start of a log.
pub(super) struct StoreObserver {
    path: PathBuf,
    log: PathBuf,
    keyring: Option<PathBuf>,
    cursor: StoreCursor,
    walk: LogWalk,
    counter: TransactionCounter,
    activity: StoreActivity,
    is_reading: bool,
}

/// View of a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StoreView {
    pub(super) path: String,
    /// The log that is written.
    pub(super) log_name: String,
    /// End of the events that are counted.
    pub(super) position: u64,
    /// True until all events of the log are counted.
    pub(super) is_behind: bool,
    #[serde(flatten)]
    pub(super) activity: ActivitySummary,
}

impl StoreObserver {
    pub(super) fn new(store: Store, keyring: Option<PathBuf>, window_s: u64) -> Result<Self, CommandFailure> {
        let path = store.path().to_owned();
        let log = first_log(&store, keyring.as_deref(), window_s).ok_or_else(|| {
            CommandFailure::NotStarted(anyhow!("{} lists no logs yet: start again later", path.display()))
        })?;
        let walk = open(&log, keyring.as_deref());
        let walk = walk.map_err(|error| CommandFailure::NotStarted(add_advice(error)))?;
        Ok(Self {
            path,
            cursor: StoreCursor::new(store, log.clone()),
            log,
            keyring,
            walk,
            counter: TransactionCounter::default(),
            activity: StoreActivity::new(window_s),
            is_reading: true,
        })
    }

    /// Counts the events that the store has, until `until` at the latest.
    pub(super) fn advance(&mut self, until: Instant) -> Result<(), CommandFailure> {
        let failed = |error: LogError| CommandFailure::Failed(add_advice(error));
        self.is_reading = true;
        while Instant::now() < until {
            let Some(end) = self.count_steps()? else { continue };
            match self.cursor.reach_end(end, self.walk.reader()).map_err(failed)? {
                LogEndAction::Wait => {
                    self.is_reading = false;
                    return Ok(());
                }
                LogEndAction::ReadAgain => {}
                LogEndAction::NextLog(next) => {
                    self.walk = open(&next, self.keyring.as_deref()).map_err(failed)?;
                    self.counter = TransactionCounter::default();
                    self.log = next;
                }
            }
        }
        Ok(())
    }

    /// Counts some events. Returns how the log ends, if its end is reached.
    fn count_steps(&mut self) -> Result<Option<logs::EndOfLog>, CommandFailure> {
        let now_us = logs::now_us();
        for _ in 0..STEPS_PER_CHECK {
            let next = self.walk.next().map_err(|error| CommandFailure::Failed(add_advice(error)))?;
            let step = match next {
                ReadOutcome::Some(step) => step,
                ReadOutcome::End(end) => return Ok(Some(end)),
            };
            let (ended, is_payload) = match step {
                WalkStep::Event(event) => {
                    let is_payload = event.inner.is_none()
                        && event.raw.event_type() == binlog::EventType::TransactionPayload;
                    let offset = event.offset;
                    let ended = self.counter.add(&event).map_err(|error| {
                        let name = self.log.display();
                        let error = anyhow!("{name} at {offset}: {error}");
                        CommandFailure::Failed(error.context(ErrorAdvice("run bintide verify for details")))
                    })?;
                    (ended, is_payload)
                }
                WalkStep::LargePayload(head) => {
                    self.counter.add_large_payload(u64::from(head.header.size));
                    (None, true)
                }
                WalkStep::PayloadEnd(_) => (self.counter.end_payload(), false),
            };
            let is_old = self.counter.commit_us().is_some_and(|time| self.activity.is_too_old(time, now_us));
            let ended = match is_payload && is_old {
                true => {
                    // A skipped payload has no end in the walk.
                    self.walk.skip_payload();
                    self.counter.end_payload()
                }
                false => ended,
            };
            if let Some(transaction) = ended {
                self.activity.add(transaction, now_us);
            }
        }
        Ok(None)
    }

    pub(super) const fn is_reading(&self) -> bool {
        self.is_reading
    }

    pub(super) fn view(&self, now_us: u64) -> StoreView {
        StoreView {
            path: self.path.display().to_string(),
            log_name: base_name(&self.log),
            position: self.walk.reader().position(),
            is_behind: self.is_reading,
            activity: self.activity.summary(now_us),
        }
    }
}

/// Returns the newest log that was begun before the window. Without such a log, returns the oldest one that can be read;
/// `None` if there are no logs.
fn first_log(store: &Store, keyring: Option<&Path>, window_s: u64) -> Option<PathBuf> {
    let window_start_s = (logs::now_us() / 1_000_000).saturating_sub(window_s);
    let mut first = store.logs().last()?;
    for log in store.logs().iter().rev() {
        let Some(start_s) = start_time_s(log, keyring) else { break };
        first = log;
        if u64::from(start_s) < window_start_s {
            break;
        }
    }
    Some(first.clone())
}

/// Returns the time of a log's first event, in seconds since 1970; `None` if it cannot be read.
fn start_time_s(log: &Path, keyring: Option<&Path>) -> Option<u32> {
    let mut reader = open_reader(log, keyring).ok()?;
    match reader.next_event() {
        Ok(ReadOutcome::Some(event)) => Some(event.raw.header().timestamp),
        _ => None,
    }
}

fn open(log: &Path, keyring: Option<&Path>) -> Result<LogWalk, LogError> {
    let reader = open_reader(log, keyring)?;
    Ok(LogWalk::new(PieceReader::new(reader, SIZES, PayloadOpener::new()), EventWalk::default()))
}

fn open_reader(log: &Path, keyring: Option<&Path>) -> Result<LogReader, LogError> {
    let reader = LogReader::open_stored(log)?;
    Ok(match keyring {
        // Read the keyring again for each log, because keys are rotated.
        Some(path) => reader.with_keyring(Arc::new(read_keyring(path)?)),
        None => reader,
    })
}
