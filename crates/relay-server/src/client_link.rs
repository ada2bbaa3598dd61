//! Connection to a client: its socket, with or without TLS, and the packets on it.

use std::io::{self, Cursor, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::MSG_MORE;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{MsgFlags, sendmsg};
use relay::{EventBytes, StoredBytes};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};
use wire::PacketCodec;

use crate::store_growth::GrowthSignal;

/// Time after which a write fails if the client reads nothing: `net_write_timeout` of a server.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without data after which the system checks whether the client's machine still answers.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Interval of further checks.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of unanswered checks after which the system ends the connection.
const KEEPALIVE_COUNT: u32 = 6;

/// Connection to a client.
pub(crate) struct ClientLink {
    stream: AcceptedStream,
    pub(crate) packets: PacketCodec,
    /// Bytes to send without a copy, in order.
    bodies: Vec<QueuedBody>,
    /// Total size of `bodies`.
    queued_size: usize,
}

/// Bytes of an event, between two parts of the packet output.
struct QueuedBody {
    /// End of the output that precedes these bytes.
    after: usize,
    bytes: EventBytes,
}

/// Minimum number of bytes that the kernel sends from the log's file (`sendfile`). For fewer, the call costs more than a
/// copy.
const SENDFILE_SIZE_MIN: usize = 32 << 10;
/// Maximum number of memory areas in one call: `IOV_MAX`.
const SLICES_MAX: usize = 1024;

enum AcceptedStream {
    Plain(DeadlineSocket),
    Tls(Box<StreamOwned<ServerConnection, DeadlineSocket>>),
    /// TLS has failed to start.
    Closed,
}

/// Socket with a deadline for reads.
struct DeadlineSocket {
    /// Bytes that were read before TLS was started.
    received: Cursor<Vec<u8>>,
    socket: Arc<TcpStream>,
    deadline: Option<Instant>,
}

impl ClientLink {
    /// Creates the link of a socket. Neither reads nor sends yet.
    pub(crate) fn new(socket: Arc<TcpStream>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        // Otherwise the connection of a machine that has disappeared would never end.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&*socket).set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_COUNT))?;
        let stream = DeadlineSocket { received: Cursor::default(), socket, deadline: None };
        Ok(Self {
            stream: AcceptedStream::Plain(stream),
            packets: PacketCodec::new(0),
            bodies: Vec::new(),
            queued_size: 0,
        })
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

    /// Starts TLS as the server. `received` are the first bytes of the client.
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

    /// Returns the version of TLS, such as `TLSv1.3`; `None` without TLS.
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        let AcceptedStream::Tls(stream) = &self.stream else { return None };
        Some(match stream.conn.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "unknown",
        })
    }

    /// Returns true while a TLS handshake is not finished, also after it has failed.
    pub(crate) fn is_in_tls_handshake(&self) -> bool {
        matches!(&self.stream, AcceptedStream::Tls(stream) if stream.conn.is_handshaking())
    }

    /// Returns true if the client has sent a certificate, which TLS has verified.
    pub(crate) fn has_certificate(&self) -> bool {
        matches!(&self.stream, AcceptedStream::Tls(stream) if stream.conn.peer_certificates().is_some())
    }

    /// Queues bytes after the packet output, without a copy. Must be called only on a connection without TLS and
    /// compression.
    pub(crate) fn queue_body(&mut self, bytes: EventBytes) {
        let after = self.packets.output().len();
        self.queued_size += bytes.as_slice().len();
        self.bodies.push(QueuedBody { after, bytes });
    }

    /// Returns the number of bytes that are ready.
    pub(crate) fn ready_size(&self) -> usize {
        self.packets.output().len() + self.queued_size
    }

    /// Releases the memory of empty buffers.
    pub(crate) fn release_idle(&mut self) {
        self.packets.release_idle();
        if self.bodies.is_empty() {
            self.bodies = Vec::new();
        }
    }

    /// Sends all bytes that are ready.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = self.packets.output();
        let size = output.len();
        match &mut self.stream {
            AcceptedStream::Plain(stream) if self.bodies.is_empty() => stream.write_all(output)?,
            AcceptedStream::Plain(stream) => {
                send_queue(&stream.socket, output, &self.bodies, SENDFILE_SIZE_MIN)?
            }
            AcceptedStream::Tls(stream) => {
                stream.write_all(output)?;
                stream.flush()?;
            }
            AcceptedStream::Closed => return Err(closed()),
        }
        self.packets.mark_sent(size);
        self.bodies.clear();
        self.queued_size = 0;
        Ok(())
    }

    /// Sends all bytes that are ready, and receives once.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        self.flush()?;
        let room = self.packets.read_buffer();
        match self.stream.read(room) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.packets.commit_read(count);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for data of the client. Returns false if this time is reached first. Holds no buffers meanwhile, because
    /// there may be many idle clients.
    pub(crate) fn wait_for_data(&mut self, until: Instant) -> io::Result<bool> {
        self.flush()?;
        self.release_idle();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.poll_input(PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX), None)? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Waits until the client has sent data, the store has grown, or this time is reached.
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

    /// Returns true if the client has sent data or closed the connection.
    pub(crate) fn has_input(&mut self) -> io::Result<bool> {
        self.poll_input(PollTimeout::ZERO, None)
    }

    /// Reads and discards the client's data. Returns false if the client has closed the connection. Must be called only
    /// if there is input.
    pub(crate) fn discard_input(&mut self) -> bool {
        match self.stream.discard() {
            Ok(is_open) => is_open,
            Err(error) => matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
        }
    }

    /// Returns true if there is input or a signal of `growth` within `timeout`.
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

impl AcceptedStream {
    /// Reads from the socket once. Returns `WouldBlock` if the bytes that have arrived contain no data yet.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let stream = match self {
            Self::Plain(stream) => return stream.read(room),
            Self::Tls(stream) if stream.conn.is_handshaking() => return stream.read(room),
            Self::Tls(stream) => stream,
            Self::Closed => return Err(closed()),
        };
        let (connection, socket) = (&mut stream.conn, &mut stream.sock);
        // A TLS message may contain no data, or arrive in parts: waiting for data would then block.
        if connection.wants_read() && connection.read_tls(socket)? == 0 {
            return Ok(0);
        }
        connection.process_new_packets().map_err(io::Error::other)?;
        connection.reader().read(room)
    }

    /// Reads once, and discards the data. Returns false at the end of the stream.
    fn discard(&mut self) -> io::Result<bool> {
        self.read(&mut [0; 256]).map(|count| count > 0)
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

/// Sends the packet output and the queued bytes, in order. Sends queued bytes of at least `file_size_min` from the
/// log's file.
fn send_queue(
    socket: &TcpStream,
    output: &[u8],
    bodies: &[QueuedBody],
    file_size_min: usize,
) -> io::Result<()> {
    let (mut slices, mut sent) = (Vec::with_capacity(SLICES_MAX.min(2 * bodies.len() + 1)), 0);
    for body in bodies {
        assert!(body.after >= sent, "ours: bytes are queued in order");
        // More bytes follow, so these bytes need no separate network packet.
        if slices.len() + 3 > SLICES_MAX {
            send_slices(socket, &mut slices, more())?;
        }
        slices.push(IoSlice::new(&output[sent..body.after]));
        sent = body.after;
        let bytes = body.bytes.as_slice();
        match body.bytes.stored().filter(|_| bytes.len() >= file_size_min) {
            Some(stored) => {
                send_slices(socket, &mut slices, more())?;
                send_stored(socket, stored, bytes.len())?;
            }
            None => slices.push(IoSlice::new(bytes)),
        }
    }
    slices.push(IoSlice::new(&output[sent..]));
    send_slices(socket, &mut slices, MsgFlags::empty())
}

/// Returns the flag for bytes that other bytes directly follow.
const fn more() -> MsgFlags {
    MsgFlags::from_bits_retain(MSG_MORE)
}

/// Sends areas of memory, and removes them.
fn send_slices(socket: &TcpStream, slices: &mut Vec<IoSlice<'_>>, flags: MsgFlags) -> io::Result<()> {
    let mut rest = &mut slices[..];
    while rest.iter().any(|slice| !slice.is_empty()) {
        match sendmsg::<()>(socket.as_raw_fd(), rest, &[], flags | MsgFlags::MSG_NOSIGNAL, None) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    slices.clear();
    Ok(())
}

/// Sends bytes from the file of a log, without copying them.
fn send_stored(socket: &TcpStream, stored: StoredBytes<'_>, size: usize) -> io::Result<()> {
    let mut offset = i64::try_from(stored.offset).map_err(io::Error::other)?;
    let end = offset + size as i64;
    while offset < end {
        let left = (end - offset) as usize;
        match sendfile64(socket, stored.file, Some(&mut offset), left) {
            // The file was truncated.
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn closed() -> io::Error {
    ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use relay::{
        AheadPolicy, AnnotationPolicy, DumpEndPolicy, DumpMode, DumpOptions, DumpRequest, DumpStep,
        DumpStream, FormSource, FormSourceOptions, HeartbeatVersion, LogForm, RelayStore, RunPolicy,
        ServedChecksum, SourceGtids, find_start,
    };
    use socket2::SockRef;
    use wire::DumpFlags;

    use super::{ClientLink, QueuedBody, SLICES_MAX, send_queue};

    /// Returns the queued dump of a closed log: each event follows a header of five bytes.
    fn queue(directory: &Path) -> (Vec<u8>, Vec<QueuedBody>) {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        for (sample, log) in [("types.binlog", "binlog.000001"), ("rotation/binlog.000005", "binlog.000002")]
        {
            std::fs::copy(samples.join(sample), directory.join(log)).unwrap();
        }
        let store = Arc::new(RelayStore::open(directory, None).unwrap());
        let limits = FormSourceOptions {
            directory: directory.to_owned(),
            cache_bytes: 1 << 20,
            thread_cpu_time: || Duration::ZERO,
        };
        let source = Arc::new(FormSource::new(store, LogForm::AsIs, limits));
        let (checksum, mode) = (ServedChecksum::Stored, DumpMode::Position);
        let request = DumpRequest {
            file: b"binlog.000001".to_vec(),
            position: 4,
            mode: mode.clone(),
            flags: DumpFlags::default(),
            server_id: 1,
        };
        let start =
            find_start(&source, &request, checksum, SourceGtids::default(), AheadPolicy::Refuse).unwrap();
        let options = DumpOptions {
            server_id: 1,
            checksum,
            heartbeat_period: None,
            heartbeat_version: HeartbeatVersion::V1,
            end: DumpEndPolicy::Eof,
            annotations: AnnotationPolicy::Send,
            statement_end_for: None,
            event_size_max: 1 << 30,
            runs: RunPolicy::Single,
        };
        let mut stream = DumpStream::new(source, &start, mode, options, Instant::now());
        let mut pieces = Vec::new();
        while stream.next(Instant::now(), &mut pieces).unwrap() == DumpStep::More {}
        let (mut output, mut bodies) = (Vec::new(), Vec::new());
        for (piece, number) in pieces.into_iter().zip((0..=u8::MAX).cycle()) {
            output.extend_from_slice(&[number; 5]);
            bodies.push(QueuedBody { after: output.len(), bytes: piece.bytes });
        }
        (output, bodies)
    }

    #[test]
    fn queued_bytes_come_in_order_from_memory_and_from_files() {
        let directory = tempfile::tempdir().unwrap();
        let (output, events) = queue(directory.path());
        assert!(events.iter().filter(|event| event.bytes.stored().is_some()).count() > 10);
        for (file_size_min, rounds) in [(0, 1), (usize::MAX, 1), (100, 1), (usize::MAX, SLICES_MAX)] {
            let (mut bodies, mut expected, mut sent) = (Vec::new(), Vec::new(), 0);
            for event in events.iter().cycle().take(events.len() * rounds) {
                let after = event.after.max(sent);
                expected.extend_from_slice(&output[sent..after]);
                expected.extend_from_slice(event.bytes.as_slice());
                sent = after;
                bodies.push(QueuedBody { after, bytes: event.bytes.clone() });
            }
            expected.extend_from_slice(&output[sent..]);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = listener.accept().unwrap();
            let received = std::thread::spawn(move || {
                let mut received = Vec::new();
                client.read_to_end(&mut received).unwrap();
                received
            });
            send_queue(&socket, &output, &bodies, file_size_min).unwrap();
            drop(socket);
            assert!(received.join().unwrap() == expected, "{file_size_min} {rounds}");
        }
    }

    #[test]
    fn a_wait_for_data_has_a_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Arc::new(listener.accept().unwrap().0);
        let mut link = ClientLink::new(Arc::clone(&socket)).unwrap();
        let after = |millis| Instant::now() + Duration::from_millis(millis);
        assert!(!link.wait_for_data(after(20)).unwrap());
        client.write_all(b"\x01\0\0\0\x01").unwrap();
        assert!(link.wait_for_data(after(60_000)).unwrap());
        assert!(SockRef::from(&*socket).keepalive().unwrap());
    }

    /// A client that quits sends a packet, and then closes the connection.
    #[test]
    fn unread_packets_do_not_hide_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut link = ClientLink::new(Arc::new(listener.accept().unwrap().0)).unwrap();
        client.write_all(b"\x01\0\0\0\x01").unwrap();
        drop(client);
        let mut rounds = 0;
        while !link.has_input().unwrap() || link.discard_input() {
            rounds += 1;
            assert!(rounds < 1000, "the end was not noticed");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(rounds > 0);
    }
}
