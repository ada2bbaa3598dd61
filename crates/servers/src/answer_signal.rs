//! Wait for an answer to a request that another thread sends.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::ConnectionError;

/// Waits for data from a server while another thread may use the connection. Other threads can end a wait.
#[derive(Debug)]
pub struct AnswerSignal {
    socket: OwnedFd,
    woken: EventFd,
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalCause {
    /// The socket has data, or was closed.
    Data,
    /// Another thread called [`AnswerSignal::wake`].
    Woken,
}

impl AnswerSignal {
    pub(crate) fn new(socket: BorrowedFd<'_>) -> Result<Self, ConnectionError> {
        let failed = |error: io::Error| ConnectionError::lost(error.to_string());
        let socket = socket.try_clone_to_owned().map_err(failed)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let woken = EventFd::from_flags(flags).map_err(|error| failed(error.into()))?;
        Ok(Self { socket, woken })
    }

    /// Waits until the socket has data, or [`AnswerSignal::wake`] has been called since the last wait.
    pub fn wait(&self) -> SignalCause {
        loop {
            let mut descriptors = [self.woken.as_fd(), self.socket.as_fd()]
                .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
            // After an interruption by a signal, no descriptor is ready.
            let _ = poll(&mut descriptors, PollTimeout::NONE);
            let [woken, socket] = descriptors.map(|descriptor| descriptor.any().unwrap_or(true));
            if woken {
                // The counter may have been read as zero before.
                let _ = self.woken.read();
                return SignalCause::Woken;
            }
            if socket {
                return SignalCause::Data;
            }
        }
    }

    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        // Fails only if the counter is full: the wait then ends anyway.
        let _ = self.woken.write(1);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::{AnswerSignal, SignalCause};

    #[test]
    fn a_wait_ends_by_data_or_by_another_thread() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let signal = AnswerSignal::new(here.as_fd()).unwrap();
        signal.wake();
        signal.wake();
        assert_eq!(signal.wait(), SignalCause::Woken);
        thread::scope(|scope| {
            scope.spawn(|| signal.wake());
            assert_eq!(signal.wait(), SignalCause::Woken);
        });
        there.write_all(b"x").unwrap();
        assert_eq!(signal.wait(), SignalCause::Data);
        signal.wake();
        assert_eq!(signal.wait(), SignalCause::Woken);
        drop(there);
        assert_eq!(signal.wait(), SignalCause::Data);
    }
}
