//! Whoever reads the records: a closed pipe is noticed while nothing is written, too, and so is what was taken from it.

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
use servers::Cancel;
use stream::{Output, Pipe};

use crate::interrupt;

/// How often it is looked whether the reader is still there.
const GLANCE: Duration = Duration::from_millis(100);
/// How long the end waits for the reader to take what is left. What it has not taken by then comes again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const PAUSE: Duration = Duration::from_millis(5);

/// The file that says how far records were taken.
pub(super) struct ProgressFile {
    pub(super) path: PathBuf,
    pub(super) lock: FileLock,
    /// The number of the file of definitions that it names.
    pub(super) definitions: Option<u64>,
}

/// Writes records to whoever reads standard output; how far they were taken is kept in this file, which may name a file of
/// definitions. What else than a pipe takes bytes has them at once.
///
/// # Errors
///
/// When there is no standard output.
pub(super) fn stdout(progress: Option<ProgressFile>) -> io::Result<Pipe> {
    // Not by the standard library's own buffer: what is in there was not written.
    let stdout = Arc::new(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let is_pipe = stdout.metadata()?.file_type().is_fifo();
    let pipe = Pipe::new(Box::new(Patient(stdout.clone())));
    Ok(match progress {
        None => pipe,
        Some(ProgressFile { path, lock, definitions }) => {
            let waiting = move || if is_pipe { ioctl_fionread(&stdout).unwrap_or(u64::MAX) } else { 0 };
            pipe.with_progress(path, lock, definitions, waiting)
        }
    })
}

/// Waits where others would be told to come again: whoever has started this may have made its pipe so.
struct Patient(Arc<File>);

impl Write for Patient {
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

/// Nothing more is written: gives the reader a while to take what is left, so that it need not come again.
///
/// # Errors
///
/// When it cannot be written, or the progress cannot be saved.
pub(super) fn settle(output: &mut Output) -> io::Result<()> {
    output.save()?;
    let begun = Instant::now();
    while output.is_behind() && begun.elapsed() < PATIENCE && !is_gone() {
        thread::sleep(PAUSE);
        output.save()?;
    }
    Ok(())
}

/// Has the reader of standard output closed its end? Of files and terminals nobody can.
pub(super) fn is_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let found = poll(&mut polled, PollTimeout::ZERO);
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    found.is_ok() && polled[0].revents().is_some_and(|events| events.intersects(gone))
}

/// Calls off what waits on a connection, after Ctrl-C or when nobody reads any more.
pub(super) fn cancel() -> Cancel {
    let cancel = interrupt::cancel();
    let watched = cancel.clone();
    thread::spawn(move || {
        while !is_gone() {
            thread::sleep(GLANCE);
        }
        watched.cancel();
    });
    cancel
}
