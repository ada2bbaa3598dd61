//! Compresses the transactions of logs that are closed, beside what is received.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use binlog::Level;
use binlog::encryption::Keyring;
use inspect::stats::{CompressionCounter, LogType};
use logs::{LogReader, Next, Store, read_keyring};
use rewrite::{
    Action, Check, Compressed, Compression, Error, FileJob, FileOutcome, Keep, OldFormat, Plan, Sealing,
    Trial, positions_path, rewrite_file,
};

use crate::commands::receive::watch::Board;
use crate::interrupt;

/// Memory that it may take, in bytes; a level may need more.
const MEMORY: u64 = 100_000_000;
/// Bytes of a log that are read at once.
const CHUNK_SIZE: usize = 1 << 20;
/// The largest event that a replica takes, and so the largest payload.
const EVENT_SIZE_MAX: u32 = 1 << 30;

/// Compresses the transactions of logs that are closed, one log after the other, in a thread of its own.
pub(super) struct Compressor {
    folder: PathBuf,
    given: HashSet<PathBuf>,
    logs: Option<Sender<PathBuf>>,
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

/// What is to become of logs that still wait when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// They are compressed.
    Done,
    /// They stay as they are, until the next time.
    Left,
}

impl Compressor {
    /// Encrypted logs need the keyring file, and are encrypted again.
    pub(super) fn start(
        folder: &Path,
        keyring: Option<&Path>,
        level: Level,
        board: Board,
        say: fn(&str),
    ) -> Self {
        let (sender, receiver) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        board.keep_later();
        let work = Work {
            folder: folder.to_owned(),
            keyring: keyring.map(Path::to_owned),
            level,
            board,
            say,
            is_over: Arc::clone(&is_over),
        };
        let thread = thread::spawn(move || work.run(&receiver));
        let (folder, given) = (folder.to_owned(), HashSet::new());
        Self { folder, given, logs: Some(sender), thread: Some(thread), is_over }
    }

    /// A log has begun: those in front of it are closed.
    pub(super) fn look(&mut self) {
        let Ok(store) = Store::open(&self.folder) else { return };
        let (Some(logs), Some((_, closed))) = (&self.logs, store.logs().split_last()) else { return };
        for log in closed.iter().filter(|log| self.given.insert(log.to_path_buf())) {
            // Its thread ends when this is dropped, and not before.
            let _ = logs.send(log.clone());
        }
    }

    /// Ends it.
    pub(super) fn finish(&mut self, waiting: Waiting) {
        if waiting == Waiting::Left {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.logs = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish(Waiting::Left);
        }
    }
}

struct Work {
    folder: PathBuf,
    keyring: Option<PathBuf>,
    level: Level,
    board: Board,
    say: fn(&str),
    is_over: Arc<AtomicBool>,
}

impl Work {
    fn run(&self, logs: &Receiver<PathBuf>) {
        for log in logs {
            if self.is_over() {
                return;
            }
            if is_done(&log) {
                continue;
            }
            match self.compress(&log) {
                Ok(()) | Err(Error::Interrupted { .. }) => {}
                // It was purged meanwhile.
                Err(_) if !log.exists() => {}
                Err(error) => (self.say)(&format!("{error}; {} stays as it is for now", log.display())),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || interrupt::requested()
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
        // A list without its log: it was stopped between the two.
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

    /// A log that was purged while it was compressed is there again.
    fn remove_purged(&self, log: &Path) {
        // Where that cannot be told, it stays: an index that could not be read says nothing.
        let Ok(store) = Store::open(&self.folder) else { return };
        if !store.logs().iter().any(|other| other == log) {
            let _ = fs::remove_file(log);
            let _ = fs::remove_file(positions_path(log));
        }
    }
}

/// What a log has now.
fn count(log: &Path, keyring: Option<Arc<Keyring>>) -> Result<CompressionCounter, logs::Error> {
    let mut counter = CompressionCounter::of(LogType::Binary);
    let mut reader = LogReader::open(log)?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(keyring);
    }
    while let Next::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        for event in chunk.iter() {
            // It was just written: what cannot be decoded in it came so from the source.
            let _ = counter.event(&event.raw, chunk.format());
        }
    }
    Ok(counter)
}

/// Was it compressed? Then the list beside it ends with its size.
fn is_done(log: &Path) -> bool {
    let Ok(list) = fs::read_to_string(positions_path(log)) else { return false };
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
