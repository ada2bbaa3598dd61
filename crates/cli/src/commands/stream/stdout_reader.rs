//! Reader of standard output. Detects a closed pipe even while nothing is written, and tracks which records were read
//! from the pipe.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use logs::FileLock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::ioctl_fionread;
use servers::CancelToken;
use stream::{PipeSink, RecordSink};

use crate::background_thread::start_thread;
use crate::exit::CommandFailure;
use crate::interrupt;

/// Interval at which waits check whether the reader still exists.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait at the end for the reader to take the remaining records. The next run repeats records that were not
/// taken.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which this wait checks whether the reader has taken the records.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// File that saves which records were taken.
pub(super) struct ProgressFile {
    pub(super) path: PathBuf,
    pub(super) lock: FileLock,
    /// Number of the definitions file that the progress file names.
    pub(super) definitions: Option<u64>,
}

/// Returns standard output as a pipe for records. `progress` saves which records were taken. Outputs other than pipes
/// take bytes immediately.
///
/// # Errors
///
/// Fails if there is no standard output.
pub(super) fn open_stdout(progress: Option<ProgressFile>) -> io::Result<PipeSink> {
    // Without the standard library's buffer: bytes in it are not written yet.
    let stdout = Arc::new(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let is_pipe = stdout.metadata()?.file_type().is_fifo();
    let pipe = PipeSink::new(Box::new(BlockingStdout(stdout.clone())));
    Ok(match progress {
        None => pipe,
        Some(ProgressFile { path, lock, definitions }) => {
            let waiting = move || if is_pipe { ioctl_fionread(&stdout).unwrap_or(u64::MAX) } else { 0 };
            pipe.with_progress(path, lock, definitions, waiting)
        }
    })
}

/// Standard output that waits if a write would block: the parent process may have set the pipe to non-blocking.
struct BlockingStdout(Arc<File>);

impl Write for BlockingStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
                    poll(&mut polled, PollTimeout::NONE)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits for the reader to take the remaining records, so that the next run does not repeat them.
///
/// # Errors
///
/// Fails if a write fails, or the progress cannot be saved.
pub(super) fn drain(output: &mut RecordSink) -> io::Result<()> {
    output.save()?;
    let begun = Instant::now();
    while output.has_unread_marks() && begun.elapsed() < DRAIN_TIMEOUT && !is_gone() {
        thread::sleep(DRAIN_POLL_INTERVAL);
        output.save()?;
    }
    Ok(())
}

/// Returns whether the reader of standard output has closed the pipe. Always false for files and terminals.
pub(super) fn is_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let found = poll(&mut polled, PollTimeout::ZERO);
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    found.is_ok() && polled[0].revents().is_some_and(|events| events.intersects(gone))
}

/// Returns a `CancelToken` that ends waits on connections after Ctrl-C, or when the reader has closed the pipe.
///
/// # Errors
///
/// Fails if the system starts no more threads.
pub(super) fn cancel_when_gone() -> Result<CancelToken, CommandFailure> {
    let cancel = interrupt::cancel_on_interrupt();
    let watched = cancel.clone();
    start_thread("stdout-reader", move || {
        while !is_gone() {
            thread::sleep(POLL_INTERVAL);
        }
        watched.cancel();
    })?;
    Ok(cancel)
}
