//! Byte stream of a connection: TCP or a Unix socket, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::ClientConnection;

use crate::connect;
use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::server_link::LinkOptions;

/// Interval at which blocking reads and writes return, so that the caller can check time limits and cancellation.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Socket to a server.
pub(crate) enum ServerSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Socket, with or without TLS.
pub(crate) enum ServerStream {
    Plain(ServerSocket),
    Tls(Box<TlsStream>),
    /// The TLS handshake has failed.
    Closed,
}

/// TLS over a socket. Each call reads at most once, so that the caller can check its limits between calls, even while
/// data arrives.
pub(crate) struct TlsStream {
    tls: ClientConnection,
    socket: ServerSocket,
}

/// Result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketRead {
    /// This number of bytes was read.
    Bytes(usize),
    /// Bytes of an incomplete TLS record, or of a record without data.
    PartOfRecord,
    /// The peer has closed the connection.
    End,
}

/// Returns whether the same call may succeed later.
pub(crate) fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl ServerSocket {
    /// Connects. Reads and writes return after [`POLL_INTERVAL`] at the latest.
    pub(crate) fn connect(address: &ServerAddress, options: &LinkOptions) -> Result<Self, ConnectionError> {
        let failed = |error: io::Error| ConnectionError::lost(error.to_string());
        let Some(path) = &address.socket else {
            let stream = connect::connect_tcp(address, options)?;
            stream.set_nodelay(true).map_err(failed)?;
            stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
            stream.set_write_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
            return Ok(Self::Tcp(stream));
        };
        let stream = connect::connect_unix(path, options)?;
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

impl ServerStream {
    /// Makes reads return immediately, even if no data has arrived.
    pub(crate) fn disable_waits(&self) -> Result<(), ConnectionError> {
        self.set_nonblocking(true)
    }

    /// Makes reads wait again.
    pub(crate) fn enable_waits(&self) -> Result<(), ConnectionError> {
        self.set_nonblocking(false)
    }

    /// Returns the socket's descriptor, if it is open.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Plain(ServerSocket::Tcp(stream)) => Some(stream.as_fd()),
            Self::Plain(ServerSocket::Unix(stream)) => Some(stream.as_fd()),
            Self::Tls(stream) => match &stream.socket {
                ServerSocket::Tcp(stream) => Some(stream.as_fd()),
                ServerSocket::Unix(stream) => Some(stream.as_fd()),
            },
            Self::Closed => None,
        }
    }

    fn set_nonblocking(&self, is_so: bool) -> Result<(), ConnectionError> {
        let set = match self {
            Self::Plain(socket) => socket.set_nonblocking(is_so),
            Self::Tls(stream) => stream.socket.set_nonblocking(is_so),
            Self::Closed => Ok(()),
        };
        set.map_err(|error| ConnectionError::lost(error.to_string()))
    }

    /// Reads once.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> io::Result<SocketRead> {
        match self {
            Self::Plain(socket) => socket.read(bytes).map(read_result),
            Self::Tls(stream) => stream.receive(bytes),
            Self::Closed => Ok(SocketRead::End),
        }
    }
}

const fn read_result(count: usize) -> SocketRead {
    match count {
        0 => SocketRead::End,
        count => SocketRead::Bytes(count),
    }
}

impl TlsStream {
    pub(crate) const fn new(tls: ClientConnection, socket: ServerSocket) -> Self {
        Self { tls, socket }
    }

    /// Returns whether the handshake is complete, and its last message sent.
    pub(crate) fn is_ready(&self) -> bool {
        !self.tls.is_handshaking() && !self.tls.wants_write()
    }

    /// Does one step of the handshake.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        match self.tls.wants_write() {
            true => self.write_records(),
            false => self.read_records(),
        }
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<SocketRead> {
        if let Some(arrival) = self.take_plaintext(bytes)? {
            return Ok(arrival);
        }
        // TLS itself may have to answer, for example to a key update.
        match self.write_all_records() {
            Err(error) if !is_retryable(&error) => return Err(error),
            _ => {}
        }
        self.read_records()?;
        Ok(self.take_plaintext(bytes)?.unwrap_or(SocketRead::PartOfRecord))
    }

    /// Reads decrypted data; returns `None` if there is none.
    fn take_plaintext(&mut self, bytes: &mut [u8]) -> io::Result<Option<SocketRead>> {
        match self.tls.reader().read(bytes) {
            Ok(count) => Ok(Some(read_result(count))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_records(&mut self) -> io::Result<()> {
        let has_ended = self.tls.read_tls(&mut self.socket)? == 0;
        if let Err(error) = self.tls.process_new_packets() {
            // Send the alert, which tells the server the reason. The server may have already closed the connection.
            let _ = self.tls.write_tls(&mut self.socket);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        match has_ended && self.tls.is_handshaking() {
            true => Err(ErrorKind::UnexpectedEof.into()),
            false => Ok(()),
        }
    }

    fn write_records(&mut self) -> io::Result<()> {
        match self.tls.write_tls(&mut self.socket)? {
            0 => Err(ErrorKind::WriteZero.into()),
            _ => Ok(()),
        }
    }

    /// Sends records until none is left, or the socket accepts no more.
    fn write_all_records(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.write_records()?;
        }
        Ok(())
    }
}

impl Write for TlsStream {
    /// Accepts bytes once all earlier ones are sent.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all_records()?;
        let count = self.tls.writer().write(bytes)?;
        match self.write_all_records() {
            // The bytes are accepted: the next call sends the rest.
            Err(error) if !is_retryable(&error) => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_all_records()
    }
}

impl Read for ServerSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for ServerSocket {
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

impl Write for ServerStream {
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
