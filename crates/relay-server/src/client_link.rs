//! Connection to a client: its socket, with or without TLS, and the packets on it.

use std::io::{self, Cursor, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use wire::PacketCodec;

use crate::store_growth::GrowthSignal;

/// Time after which a write fails if the client takes nothing: `net_write_timeout` of a server.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Connection to a client.
pub(crate) struct ClientLink {
    stream: AcceptedStream,
    pub(crate) packets: PacketCodec,
}

enum AcceptedStream {
    Plain(DeadlineSocket),
    Tls(Box<StreamOwned<ServerConnection, DeadlineSocket>>),
    /// TLS has failed to start.
    Closed,
}

/// Socket whose reads end at a time.
struct DeadlineSocket {
    /// Bytes that were read before TLS was started.
    received: Cursor<Vec<u8>>,
    socket: Arc<TcpStream>,
    deadline: Option<Instant>,
}

impl ClientLink {
    /// Takes a socket. Nothing is read or sent yet.
    pub(crate) fn new(socket: Arc<TcpStream>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let stream = DeadlineSocket { received: Cursor::default(), socket, deadline: None };
        Ok(Self { stream: AcceptedStream::Plain(stream), packets: PacketCodec::new(0) })
    }

    /// Sets the time at which reads fail; `None` to wait without end.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let Some(socket) = self.socket_mut() else { return Err(closed()) };
        socket.deadline = deadline;
        if deadline.is_none() {
            socket.socket.set_read_timeout(None)?;
        }
        Ok(())
    }

    /// Starts TLS as its server. `received` are the first bytes of the client.
    pub(crate) fn start_tls(&mut self, received: Vec<u8>, tls: &Arc<ServerConfig>) -> io::Result<()> {
        let AcceptedStream::Plain(mut socket) = std::mem::replace(&mut self.stream, AcceptedStream::Closed)
        else {
            return Err(closed());
        };
        let connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
        socket.received = Cursor::new(received);
        self.stream = AcceptedStream::Tls(Box::new(StreamOwned::new(connection, socket)));
        Ok(())
    }

    /// Returns true if the connection uses TLS.
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self.stream, AcceptedStream::Tls(_))
    }

    /// Returns true if the client has sent a certificate, which TLS has verified.
    pub(crate) fn has_certificate(&self) -> bool {
        matches!(&self.stream, AcceptedStream::Tls(stream) if stream.conn.peer_certificates().is_some())
    }

    /// Sends what is ready.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = self.packets.output();
        let size = output.len();
        match &mut self.stream {
            AcceptedStream::Plain(stream) => stream.write_all(output)?,
            AcceptedStream::Tls(stream) => {
                stream.write_all(output)?;
                stream.flush()?;
            }
            AcceptedStream::Closed => return Err(closed()),
        }
        self.packets.mark_sent(size);
        Ok(())
    }

    /// Sends what is ready, and these bytes behind it, without copying them. They are not encrypted or compressed: call
    /// this only for a connection without either.
    pub(crate) fn flush_with(&mut self, bytes: &[u8]) -> io::Result<()> {
        let AcceptedStream::Plain(stream) = &mut self.stream else { return Err(closed()) };
        let output = self.packets.output();
        let size = output.len();
        let mut slices = [IoSlice::new(output), IoSlice::new(bytes)];
        let mut rest = &mut slices[..];
        while rest.iter().any(|slice| !slice.is_empty()) {
            match (&*stream.socket).write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.packets.mark_sent(size);
        Ok(())
    }

    /// Sends what is ready, and receives once.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        self.flush()?;
        let room = self.packets.read_buffer();
        let read = match &mut self.stream {
            AcceptedStream::Plain(stream) => stream.read(room),
            AcceptedStream::Tls(stream) => stream.read(room),
            AcceptedStream::Closed => Err(closed()),
        };
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.packets.commit_read(count);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for data of the client without buffers of its own: there may be many idle clients.
    pub(crate) fn wait_for_data(&mut self) -> io::Result<()> {
        self.flush()?;
        self.packets.release_idle();
        self.poll_input(PollTimeout::NONE, None).map(drop)
    }

    /// Waits until the client has sent something, until the store has grown, or until this time.
    pub(crate) fn wait_for_data_or_growth(
        &mut self,
        growth: &GrowthSignal,
        until: Instant,
    ) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        self.poll_input(timeout, Some(growth))?;
        growth.clear();
        Ok(())
    }

    /// Returns true if the client has sent something, or has closed the connection.
    pub(crate) fn has_input(&mut self) -> io::Result<bool> {
        self.poll_input(PollTimeout::ZERO, None)
    }

    /// Returns true if the client has closed the connection. Call this only when there is input.
    pub(crate) fn is_closed(&mut self) -> bool {
        let Some(socket) = self.socket_mut() else { return true };
        matches!(socket.socket.peek(&mut [0]), Ok(0) | Err(_))
    }

    /// Returns true if there is input, or `growth` is signalled, within `timeout`.
    fn poll_input(&mut self, timeout: PollTimeout, growth: Option<&GrowthSignal>) -> io::Result<bool> {
        if let AcceptedStream::Tls(stream) = &mut self.stream {
            let state = stream.conn.process_new_packets().map_err(io::Error::other)?;
            if state.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
        }
        let Some(socket) = self.socket_mut() else { return Err(closed()) };
        let mut descriptors = vec![PollFd::new(socket.socket.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(growth.map(|growth| PollFd::new(growth.descriptor(), PollFlags::POLLIN)));
        match poll(&mut descriptors, timeout) {
            Ok(count) => Ok(count > 0),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn socket_mut(&mut self) -> Option<&mut DeadlineSocket> {
        match &mut self.stream {
            AcceptedStream::Plain(socket) => Some(socket),
            AcceptedStream::Tls(stream) => Some(&mut stream.sock),
            AcceptedStream::Closed => None,
        }
    }
}

impl Read for DeadlineSocket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.received.read(room)?;
        if count > 0 {
            return Ok(count);
        }
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
        }
        (&*self.socket).read(room)
    }
}

impl Write for DeadlineSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn closed() -> io::Error {
    ErrorKind::NotConnected.into()
}
