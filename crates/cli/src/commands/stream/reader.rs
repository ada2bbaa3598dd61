//! Whoever reads the records: a closed pipe is noticed while nothing is written, too.

use std::io;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use servers::Cancel;

use crate::interrupt;

/// How often it is looked whether the reader is still there.
const GLANCE: Duration = Duration::from_millis(100);

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
