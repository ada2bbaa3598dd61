//! Comparison of two stores.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use binlog::gtid::GtidSet;
use logs::GtidSelection;

use crate::difference_finder::find_difference;
use crate::error::DiffError;
use crate::store_comparison::StoreComparison;
use crate::store_diff::{ContentDifferences, DifferentTransaction, StoreDiff};
use crate::store_reader::{DiffStore, ScanMonitor};
use crate::transaction_index::TransactionIndex;

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct DiffSettings {
    /// The stores A and B.
    pub stores: [DiffStore; 2],
    /// Transactions to compare; all others are ignored.
    pub gtids: GtidSelection,
    /// Maximum number of listed transactions with different content.
    pub listed_max: usize,
}

/// Interval at which `on_progress` is called.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Compares two stores. Reads both at the same time. Calls `on_progress` in the caller's thread, with the number of
/// bytes read so far. If `on_progress` breaks, returns [`DiffError::Stopped`].
///
/// # Errors
///
/// Fails if a log cannot be read or is corrupt, or if `on_progress` breaks.
pub fn compare_stores(
    settings: &DiffSettings,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<StoreDiff, DiffError> {
    let monitor = ScanMonitor::default();
    let compared = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        let monitor = &monitor;
        // Sending fails only if `on_progress` panics.
        scope.spawn(move || drop(sender.send(compare(settings, monitor))));
        loop {
            match receiver.recv_timeout(WATCH_INTERVAL) {
                Ok(compared) => return Some(compared),
                Err(RecvTimeoutError::Timeout) => {
                    if on_progress(monitor.bytes()).is_break() {
                        monitor.stop();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    });
    match compared {
        Some(compared) => compared,
        None => unreachable!("ours: the scope panics if its thread panicked"),
    }
}

fn compare(settings: &DiffSettings, monitor: &ScanMonitor) -> Result<StoreDiff, DiffError> {
    let [a, b] = &settings.stores;
    let (index_a, index_b) = thread::scope(|scope| {
        let index_b =
            scope.spawn(|| stop_on_error(TransactionIndex::read(b, &settings.gtids, monitor), monitor));
        let index_a = stop_on_error(TransactionIndex::read(a, &settings.gtids, monitor), monitor);
        match index_b.join() {
            Ok(index_b) => (index_a, index_b),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let indexes = match (index_a, index_b) {
        (Ok(index_a), Ok(index_b)) => [index_a, index_b],
        // The failed thread has stopped the other thread.
        (Err(DiffError::Stopped), Err(error)) | (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let absent = absent_gtids(&settings.gtids, &indexes);
    let comparison = StoreComparison::new([a, b], indexes);
    let mut diff = comparison.diff();
    diff.absent = absent;
    diff.content = ContentDifferences { count: comparison.different().len() as u64, listed: Vec::new() };
    for pair in comparison.different().take(settings.listed_max) {
        let difference = find_difference([a, b], &pair, monitor)?;
        diff.content.listed.push(DifferentTransaction {
            id: pair.id,
            positions: [0, 1].map(|side| comparison.position(side, pair.locations[side])),
            tables: difference.tables,
            first: difference.first,
        });
    }
    Ok(diff)
}

/// Returns the selected GTIDs that neither store contains.
fn absent_gtids(gtids: &GtidSelection, indexes: &[TransactionIndex; 2]) -> GtidSet {
    let mut absent = gtids.included.clone().unwrap_or_default();
    for known in gtids.excluded.iter().chain(indexes.iter().map(|index| &index.selected)) {
        absent = absent.difference(known);
    }
    absent
}

fn stop_on_error<T>(result: Result<T, DiffError>, monitor: &ScanMonitor) -> Result<T, DiffError> {
    if result.is_err() {
        monitor.stop();
    }
    result
}
