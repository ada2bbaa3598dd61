//! Compresses the transactions of closed logs while `receive` runs.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use binlog::Level;
use binlog::encryption::Keyring;
use inspect::stats::{CompressionCounter, LogType};
use logs::{LogReader, Store, open_regular, read_keyring};
use rewrite::{
    Action, Check, Compressed, Compression, Error, FileJob, FileOutcome, Keep, OldFormat, Plan, Sealing,
    Trial, positions_path, rewrite_file,
};

use crate::commands::receive::waiting::{Next, Waiting};
use crate::commands::receive::watch::Board;
use crate::interrupt;
use crate::units::duration;

/// Maximum memory in bytes; a level may need more.
const MEMORY: u64 = 100_000_000;
/// Interval at which it polls for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(250);
/// Bytes of a log that are read at once.
const CHUNK_SIZE: usize = 1 << 20;
/// Maximum event size of a replica, and so of a payload event.
const EVENT_SIZE_MAX: u32 = 1 << 30;

/// Compresses closed logs, one after the other, in its own thread.
pub(super) struct Compressor {
    folder: PathBuf,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// Handling of waiting logs at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// Compresses them, with one attempt each.
    Done,
    /// Leaves them uncompressed until the next run.
    Left,
}

/// State shared between the two threads.
#[derive(Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    /// Closed logs, as the index lists them. The number of waiting logs is never larger.
    closed: Vec<PathBuf>,
    end: Option<AtEnd>,
}

impl Desk {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Compressor {
    /// Starts the thread. Encrypted logs need the keyring file, and are encrypted again.
    pub(super) fn start(
        folder: &Path,
        keyring: Option<&Path>,
        level: Level,
        board: Board,
        say: fn(&str),
    ) -> Self {
        board.keep_later();
        let desk = Arc::new(Desk::default());
        let work = Work {
            folder: folder.to_owned(),
            keyring: keyring.map(Path::to_owned),
            level,
            board,
            say,
            desk: Arc::clone(&desk),
            began: Instant::now(),
        };
        let thread = thread::spawn(move || work.run());
        Self { folder: folder.to_owned(), desk, thread: Some(thread) }
    }

    /// Reads the closed logs from the index, after a new log has begun.
    pub(super) fn look(&mut self) {
        let Ok(store) = Store::open(&self.folder) else { return };
        let Some((_, closed)) = store.logs().split_last() else { return };
        // Without the `./` of the index.
        self.desk.orders().closed = closed.iter().map(|log| log.components().collect()).collect();
        self.desk.changed.notify_all();
    }

    /// Ends the thread.
    pub(super) fn finish(&mut self, end: AtEnd) {
        self.desk.orders().end = Some(end);
        self.desk.changed.notify_all();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish(AtEnd::Left);
        }
    }
}

struct Work {
    folder: PathBuf,
    keyring: Option<PathBuf>,
    level: Level,
    board: Board,
    say: fn(&str),
    desk: Arc<Desk>,
    began: Instant,
}

impl Work {
    fn run(&self) {
        let mut waiting = Waiting::default();
        // Each error is shown once, for whichever log, until a log has been compressed.
        let mut said = HashSet::new();
        while let Some(log) = self.next(&mut waiting) {
            let Some(why) = self.why_not(&log) else {
                waiting.done(&log);
                said.clear();
                continue;
            };
            if self.is_over() {
                continue;
            }
            let pause = duration(waiting.failed(&log, self.began.elapsed()));
            self.board.compression_failed();
            let name = log.display().to_string();
            if said.insert(why.replace(&name, "")) {
                (self.say)(&format!(
                    "{why}; {name} stays uncompressed; retrying in {pause}, then at growing intervals"
                ));
            }
        }
    }

    /// Compresses a log if it exists and is not compressed yet. Returns the error text on failure.
    fn why_not(&self, log: &Path) -> Option<String> {
        if is_done(log) {
            return None;
        }
        // A missing log was purged in the meantime.
        self.compress(log).err().filter(|_| log.exists()).map(|error| error.to_string())
    }

    /// Waits for the next log to compress; `None` at the end.
    fn next(&self, waiting: &mut Waiting) -> Option<PathBuf> {
        let mut orders = self.desk.orders();
        loop {
            waiting.forget(&orders.closed);
            self.board.to_compress(waiting.count(&orders.closed));
            match orders.end {
                _ if interrupt::requested() => return None,
                Some(AtEnd::Left) => return None,
                Some(AtEnd::Done) => return waiting.untried(&orders.closed).map(Path::to_owned),
                None => {}
            }
            let pause = match waiting.next(&orders.closed, self.began.elapsed()) {
                Next::Log(log) => return Some(log.to_owned()),
                Next::Rest(pause) => pause.min(GLANCE),
                Next::Wait => GLANCE,
            };
            let woken = self.desk.changed.wait_timeout(orders, pause);
            orders = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn is_over(&self) -> bool {
        self.desk.orders().end == Some(AtEnd::Left) || interrupt::requested()
    }

    fn compress(&self, log: &Path) -> Result<(), Error> {
        let action = Action::Compress(Compression {
            level: self.level,
            keep: Keep::GainBelow(0),
            compressed: Compressed::Pass,
            event_size_max: EVENT_SIZE_MAX,
            old_format: OldFormat::Refuse,
        });
        let size = fs::metadata(log).map_or(0, |found| found.len());
        let keyring = self.keyring.as_ref().map(read_keyring).transpose()?.map(Arc::new);
        let job = FileJob {
            source: log,
            target: log,
            action,
            plan: Plan::new(action, NonZeroUsize::MIN, MEMORY, size),
            keyring: keyring.clone(),
            sealing: Sealing::AsBefore,
            check: Check::Nothing,
            trial: Trial::No,
            may_replace: |_| true,
        };
        // A list of positions without its log is left from an interrupted run.
        let _ = fs::remove_file(positions_path(log));
        let done = rewrite_file(&job, &mut |_| match self.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        if done.outcome == FileOutcome::Written {
            self.board.compressed(&done.report.tally);
        }
        self.board.kept(count(log, keyring)?);
        if done.outcome == FileOutcome::Written {
            self.remove_purged(log);
        }
        Ok(())
    }

    /// Deletes a log that was purged while it was compressed: compression has created it again.
    fn remove_purged(&self, log: &Path) {
        // If the index cannot be read, the log stays.
        let Ok(store) = Store::open(&self.folder) else { return };
        if !store.logs().iter().any(|other| other == log) {
            let _ = fs::remove_file(log);
            let _ = fs::remove_file(positions_path(log));
        }
    }
}

/// Counts the compression of a log's transactions.
fn count(log: &Path, keyring: Option<Arc<Keyring>>) -> Result<CompressionCounter, logs::Error> {
    let mut counter = CompressionCounter::of(LogType::Binary);
    let mut reader = LogReader::open_stored(log)?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(keyring);
    }
    while let logs::Next::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        for event in chunk.iter() {
            // The log was just written: events that cannot be decoded came so from the source.
            let _ = counter.event(&event.raw, chunk.format());
        }
    }
    Ok(counter)
}

/// Tells whether the log was compressed: then the list of positions beside it ends with its size.
fn is_done(log: &Path) -> bool {
    let list = open_regular(&positions_path(log)).and_then(io::read_to_string);
    let Ok(list) = list else { return false };
    let size = list.lines().next_back().and_then(|last| last.rsplit(' ').next()?.parse().ok());
    size.is_some() && size == fs::metadata(log).ok().map(|found| found.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::is_done;

    #[test]
    fn a_list_that_is_not_of_this_log_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("b.000001");
        fs::write(&log, [0; 700]).unwrap();
        assert!(!is_done(&log));
        for (list, wanted) in [("4\t4\n# 1000 bytes became 700\n", true), ("4\t4\n", false), ("", false)] {
            fs::write(folder.path().join("positions.b.000001"), list).unwrap();
            assert_eq!(is_done(&log), wanted, "{list}");
        }
        fs::write(folder.path().join("positions.b.000001"), "# 1000 bytes became 600\n").unwrap();
        assert!(!is_done(&log));
    }
}
