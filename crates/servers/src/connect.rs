//! Connects in a separate thread, because a name lookup and a connection attempt cannot be cancelled. After a timeout
//! or a cancellation, the thread finishes by itself.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use socket2::{Domain, Socket, Type};

use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::server_link::{CancelToken, LinkOptions};

/// Interval at which the wait for a connection checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Connects by TCP to the first of a host's addresses that answers. The time limit covers all addresses.
///
/// # Errors
///
/// Fails if no connection is made in time, or the wait is cancelled.
pub(crate) fn connect_tcp(
    address: &ServerAddress,
    options: &LinkOptions,
) -> Result<TcpStream, ConnectionError> {
    let (host, port, bind) = (address.host.clone(), address.port, options.bind.clone());
    let timeout = options.connect_timeout;
    let connect = move || connect_first(&host, port, bind.as_deref(), timeout);
    connect_result(run_within(timeout, &options.cancel, connect)?)
}

/// Connects to a Unix socket. If the server hangs, the system call alone would wait forever.
///
/// # Errors
///
/// Fails if no connection is made in time, or the wait is cancelled.
pub(crate) fn connect_unix(path: &Path, options: &LinkOptions) -> Result<UnixStream, ConnectionError> {
    let path = path.to_owned();
    connect_result(run_within(options.connect_timeout, &options.cancel, move || UnixStream::connect(path))?)
}

/// Returns the connection or the error of an attempt. `None` means that the attempt timed out.
fn connect_result<T>(attempt: Option<io::Result<T>>) -> Result<T, ConnectionError> {
    let timed_out = || ConnectionError::lost(io::Error::from(Errno::ETIMEDOUT).to_string());
    match attempt {
        None => Err(timed_out()),
        Some(Err(error)) if error.kind() == ErrorKind::TimedOut => Err(timed_out()),
        Some(connected) => connected.map_err(|error| ConnectionError::lost(error.to_string())),
    }
}

fn connect_first(host: &str, port: u16, bind: Option<&str>, timeout: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + timeout;
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut last = io::Error::other(format!("{host} has no address"));
    for (number, address) in addresses.iter().enumerate() {
        // Divide the remaining time, so that an unreachable address leaves time for the others.
        let left = u32::try_from(addresses.len() - number).unwrap_or(u32::MAX);
        let share = end.saturating_duration_since(Instant::now()) / left;
        match connect_to(address, bind, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: &SocketAddr, bind: Option<&str>, timeout: Duration) -> io::Result<TcpStream> {
    let Some(bind) = bind else { return TcpStream::connect_timeout(address, timeout) };
    let is_same_kind = |from: &SocketAddr| from.is_ipv4() == address.is_ipv4();
    let from = (bind, 0).to_socket_addrs()?.find(is_same_kind);
    let from = from.ok_or_else(|| io::Error::from(Errno::EADDRNOTAVAIL))?;
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    socket.bind(&from.into())?;
    socket.connect_timeout(&(*address).into(), timeout)?;
    Ok(socket.into())
}

/// Returns the result of `connect`; `None` if it takes longer than `timeout`.
///
/// # Errors
///
/// Fails if the wait is cancelled, or no thread can be started.
fn run_within<T: Send + 'static>(
    timeout: Duration,
    cancel: &CancelToken,
    connect: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, ConnectionError> {
    let (sender, receiver) = channel();
    let connecting = thread::Builder::new().spawn(move || sender.send(connect()));
    connecting.map_err(|error| ConnectionError::lost(error.to_string()))?;
    let began = Instant::now();
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(connected) => return Ok(Some(connected)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ConnectionError::lost("the attempt to connect failed"));
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                return Err(ConnectionError::Cancelled);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if began.elapsed() >= timeout {
            return Ok(None);
        }
    }
}
