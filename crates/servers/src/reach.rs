//! Waits for what cannot be called off: the look-up of a name, and a host that answers nothing. It goes on in a thread
//! of its own, which is left alone once it is not waited for any more.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use socket2::{Domain, Socket, Type};

use crate::address::Address;
use crate::error::Error;
use crate::link::{Cancel, LinkOptions};

/// How often somebody who waits for a connection looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(100);

/// A TCP connection to the first of a host's addresses that answers, within one time for all of them.
///
/// # Errors
///
/// When there is none by then, or it was called off.
pub(crate) fn tcp(address: &Address, options: &LinkOptions) -> Result<TcpStream, Error> {
    let (host, port, bind) = (address.host.clone(), address.port, options.bind.clone());
    let patience = options.connect_timeout;
    let connect = move || connect(&host, port, bind.as_deref(), patience);
    let connected = within(Some(patience), &options.cancel, connect);
    let timed_out = || Error::lost(io::Error::from(Errno::ETIMEDOUT).to_string());
    match connected? {
        None => Err(timed_out()),
        Some(Err(error)) if error.kind() == ErrorKind::TimedOut => Err(timed_out()),
        Some(connected) => connected.map_err(|error| Error::lost(error.to_string())),
    }
}

fn connect(host: &str, port: u16, bind: Option<&str>, patience: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + patience;
    let places: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut last = io::Error::other(format!("{host} has no address"));
    for (number, place) in places.iter().enumerate() {
        // One that answers nothing leaves the others their time.
        let left = u32::try_from(places.len() - number).unwrap_or(u32::MAX);
        let share = end.saturating_duration_since(Instant::now()) / left;
        match connect_to(place, bind, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(place: &SocketAddr, bind: Option<&str>, patience: Duration) -> io::Result<TcpStream> {
    let Some(bind) = bind else { return TcpStream::connect_timeout(place, patience) };
    let is_same_kind = |from: &SocketAddr| from.is_ipv4() == place.is_ipv4();
    let from = (bind, 0).to_socket_addrs()?.find(is_same_kind);
    let from = from.ok_or_else(|| io::Error::from(Errno::EADDRNOTAVAIL))?;
    let socket = Socket::new(Domain::for_address(*place), Type::STREAM, None)?;
    socket.bind(&from.into())?;
    socket.connect_timeout(&(*place).into(), patience)?;
    Ok(socket.into())
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
