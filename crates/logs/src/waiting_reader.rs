//! Reads from pipes and other streams. A wait for bytes, or for a pipe's writer, ends when the program is to stop.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns true once the program is to stop.
static STOP_CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// Set once a wait has ended because the program is to stop.
static WAIT_STOPPED: AtomicBool = AtomicBool::new(false);

/// Makes waits for pipes and standard input end with an error as soon as `is_stopping` returns true. Only the first call
/// has an effect. Without one, such waits have no limit.
pub fn set_stop_check(is_stopping: fn() -> bool) {
    // A second check would belong to another program.
    let _ = STOP_CHECK.set(is_stopping);
}

/// Returns whether a wait for a pipe or standard input ended because the program is to stop.
pub fn is_wait_stopped() -> bool {
    WAIT_STOPPED.load(Ordering::Relaxed)
}

/// Opens a file for reading. The open of a pipe does not wait for a writer: the first read does.
#[cfg(target_os = "linux")]
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    crate::regular_file::without_waiting().open(path)
}

/// Opens a file for reading. Elsewhere, a read of a pipe that has no writer yet would return its end.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reader of a pipe, a device or standard input, without a buffer.
pub(crate) struct WaitingReader<'s, S>(pub(crate) &'s S);

#[cfg(unix)]
impl<S: std::os::fd::AsFd> Read for WaitingReader<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use nix::errno::Errno;
        loop {
            wait_for_bytes(self.0, STOP_CHECK.get().copied())?;
            match nix::unistd::read(self.0, out) {
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                result => return result.map_err(io::Error::from),
            }
        }
    }
}

#[cfg(not(unix))]
impl<S> Read for WaitingReader<'_, S>
where
    for<'r> &'r S: Read,
{
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

/// Waits until a read returns at once: with bytes, with the end, or with an error.
#[cfg(unix)]
fn wait_for_bytes(source: &impl std::os::fd::AsFd, is_stopping: Option<fn() -> bool>) -> io::Result<()> {
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// Interval of the checks, because a signal may interrupt another thread.
    const CHECK_INTERVAL_MS: u16 = 100;
    loop {
        let mut waits = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waits, PollTimeout::from(CHECK_INTERVAL_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if is_stopping.is_some_and(|is_stopping| is_stopping()) {
            WAIT_STOPPED.store(true, Ordering::Relaxed);
            // The kind `Interrupted` would make callers read again.
            return Err(io::Error::other("interrupted"));
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::thread;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::{WaitingReader, open_file, wait_for_bytes};

    #[test]
    fn waits_for_a_writer_end_when_the_program_stops() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let file = open_file(&pipe).unwrap();
        let error = wait_for_bytes(&file, Some(|| true)).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
    }

    #[test]
    fn pipes_are_read_up_to_their_end() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let file = open_file(&pipe).unwrap();
        let writer = thread::spawn(move || {
            let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
            for _ in 0..3 {
                pipe.write_all(&[7; 100_000]).unwrap();
            }
        });
        let mut bytes = Vec::new();
        WaitingReader(&file).read_to_end(&mut bytes).unwrap();
        writer.join().unwrap();
        assert_eq!(bytes, vec![7; 300_000]);
    }
}
