//! Waits for what cannot be called off: the look-up of a name, and a host that answers nothing. It goes on in a thread
//! of its own, which is left alone once it is not waited for any more.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::error::Error;
use crate::link::Cancel;

/// How often somebody who waits for a connection looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(100);

/// A TCP connection to the first of a host's addresses that answers, within this time for all of them.
///
/// # Errors
///
/// When there is none by then, or it was called off.
pub(crate) fn tcp(host: &str, port: u16, patience: Duration, cancel: &Cancel) -> Result<TcpStream, Error> {
    let host = host.to_owned();
    let connected = within(Some(patience), cancel, move || connect(&host, port, patience));
    let timed_out = || Error::lost(io::Error::from(Errno::ETIMEDOUT).to_string());
    match connected? {
        None => Err(timed_out()),
        Some(Err(error)) if error.kind() == ErrorKind::TimedOut => Err(timed_out()),
        Some(connected) => connected.map_err(|error| Error::lost(error.to_string())),
    }
}

fn connect(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + patience;
    let places: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut last = io::Error::other(format!("{host} has no address"));
    for (number, place) in places.iter().enumerate() {
        // One that answers nothing leaves the others their time.
        let left = u32::try_from(places.len() - number).unwrap_or(u32::MAX);
        let share = end.saturating_duration_since(Instant::now()) / left;
        match TcpStream::connect_timeout(place, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What `connect` gives; none if that takes longer than this.
///
/// # Errors
///
/// When it was called off.
pub(crate) fn within<T: Send + 'static>(
    patience: Option<Duration>,
    cancel: &Cancel,
    connect: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(connect()));
    let began = Instant::now();
    loop {
        match receiver.recv_timeout(GLANCE) {
            Ok(connected) => return Ok(Some(connected)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::lost("the attempt to connect has failed"));
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(Error::Cancelled),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if patience.is_some_and(|patience| began.elapsed() >= patience) {
            return Ok(None);
        }
    }
}
