//! What carries a connection's bytes: TCP or a Unix socket, with TLS or without.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use crate::address::Address;
use crate::error::Error;
use crate::link::LinkOptions;
use crate::reach;

/// Interval at which blocking reads and writes return, to poll for limits and cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A socket to a server.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket, with TLS or without.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
    /// TLS could not be begun.
    Closed,
}

/// Would the same call succeed later?
pub(crate) fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Socket {
    /// Connects. Reads and writes return after [`POLL_INTERVAL`] at the latest.
    pub(crate) fn connect(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::lost(error.to_string());
        let Some(path) = &address.socket else {
            let stream = reach::tcp(address, options)?;
            stream.set_nodelay(true).map_err(failed)?;
            stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
            stream.set_write_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
            return Ok(Self::Tcp(stream));
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
        stream.set_write_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
        Ok(Self::Unix(stream))
    }

    fn set_nonblocking(&self, is_so: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(is_so),
            Self::Unix(stream) => stream.set_nonblocking(is_so),
        }
    }
}

impl Stream {
    /// Lets reads return at once, with nothing if nothing has come.
    pub(crate) fn wait_for_nothing(&self) -> Result<(), Error> {
        self.set_nonblocking(true)
    }

    /// Lets reads wait again.
    pub(crate) fn wait_again(&self) -> Result<(), Error> {
        self.set_nonblocking(false)
    }

    /// Returns the socket's descriptor, if it is open.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Plain(Socket::Tcp(stream)) => Some(stream.as_raw_fd()),
            Self::Plain(Socket::Unix(stream)) => Some(stream.as_raw_fd()),
            Self::Tls(stream) => match &stream.sock {
                Socket::Tcp(stream) => Some(stream.as_raw_fd()),
                Socket::Unix(stream) => Some(stream.as_raw_fd()),
            },
            Self::Closed => None,
        }
    }

    fn set_nonblocking(&self, is_so: bool) -> Result<(), Error> {
        let set = match self {
            Self::Plain(socket) => socket.set_nonblocking(is_so),
            Self::Tls(stream) => stream.sock.set_nonblocking(is_so),
            Self::Closed => Ok(()),
        };
        set.map_err(|error| Error::lost(error.to_string()))
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
            Self::Closed => Ok(0),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Closed => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Closed => Ok(()),
        }
    }
}
