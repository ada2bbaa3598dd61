//! Connection for protocol commands and packets.

use std::io::{ErrorKind, Write as _};
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::ClientConnection;
use wire::{
    Capabilities, ClientCommand, ClientHandshake, ClientOptions, ClientSession, HandshakeStep, PacketCodec,
    PacketCompression, ResultPart, ResultReader, TlsMode, Transport, WireError,
};

use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::server_stream::{POLL_INTERVAL, ServerSocket, ServerStream, SocketRead, TlsStream, is_retryable};
use crate::sql_connection::{ResultRow, row_memory};
use crate::tls;
use crate::tls_error;
use crate::tls_policy::SslMode;

/// `ER_SECURE_TRANSPORT_REQUIRED`: the server accepts encrypted connections only.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// Maximum size in bytes of the answer to a query, and of all answers to a replica's queries. These answers have few
/// values.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;
/// Time after which a cancellation ends a request. A short request can still finish and report its result.
const CANCEL_DELAY: Duration = Duration::from_secs(1);

/// Options of a connection that are not part of its address.
#[derive(Clone)]
pub struct LinkOptions {
    /// Time limit of the connection attempt, including the name lookup.
    pub connect_timeout: Duration,
    /// Maximum size of a packet. A source sends each event as one packet, so the limit must exceed the largest event.
    pub packet_limit: usize,
    /// Capabilities to request if the server has them, besides those that replication needs.
    pub capabilities: Capabilities,
    /// Local address to connect from; any if `None`.
    pub bind: Option<String>,
    /// Accepted compressions of packets (`None`: not compressed), the best first; empty to use the address's
    /// compressions.
    pub compressions: Vec<Option<PacketCompression>>,
    /// Cancels every wait.
    pub cancel: CancelToken,
}

/// Cancellation token for the waits of a connection, usable from any thread.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    is_cancelled: Arc<AtomicBool>,
    /// Flag that also cancels.
    stop_flag: Option<Arc<AtomicBool>>,
}

/// Connection for protocol commands and packets. Calls block; a [`CancelToken`] ends them.
pub struct ServerLink {
    pub(crate) packet_stream: PacketStream,
    session: ClientSession,
}

/// Stream of packets over a socket, with time limits for waits.
pub(crate) struct PacketStream {
    /// Host and port or socket of the server, for errors.
    endpoint: String,
    stream: ServerStream,
    pub(crate) packets: PacketCodec,
    /// Number of received bytes, after compression and without TLS overhead.
    received: u64,
    limit: WaitLimit,
    /// Time of the last received byte, or of the start of the wait.
    heard: Instant,
    cancel: CancelToken,
}

/// Time limit of waits for the server.
#[derive(Clone, Copy, Debug)]
enum WaitLimit {
    /// Ends a wait when `timeout` has passed since the login began.
    Login { since: Instant, timeout: Duration },
    /// Ends a wait after a silence of this length.
    Silence(Duration),
    /// Ends no wait, because a statement may take hours. The monitor of a SQL connection ends it by shutting down the
    /// socket. A cancellation takes effect [`CANCEL_DELAY`] after the start of the request.
    Request { since: Instant },
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            // Events of 1 GiB, and their packet's prefix.
            packet_limit: (1 << 30) + (64 << 10),
            capabilities: Capabilities::default(),
            bind: None,
            compressions: Vec::new(),
            cancel: CancelToken::default(),
        }
    }
}

impl CancelToken {
    /// Creates a token that is also cancelled while this flag is true, such as the flag of a signal handler.
    pub fn with_flag(flag: Arc<AtomicBool>) -> Self {
        Self { stop_flag: Some(flag), ..Self::default() }
    }

    /// Cancels every wait.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the waits have been cancelled.
    pub fn is_cancelled(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        is_set(&self.is_cancelled) || self.stop_flag.as_ref().is_some_and(is_set)
    }
}

impl ServerLink {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, refuses the login, or does not support a required option.
    pub fn open(address: &ServerAddress, options: &LinkOptions) -> Result<Self, ConnectionError> {
        Self::connect(address, options).map_err(|error| error.with_endpoint(&address.endpoint()))
    }

    fn connect(address: &ServerAddress, options: &LinkOptions) -> Result<Self, ConnectionError> {
        address.tls.check()?;
        // Report an unusable file before anything is sent.
        let tls = match address.tls.mode {
            SslMode::Disabled => None,
            // As in MySQL's programs, encrypt a Unix socket only if required.
            SslMode::Preferred if address.socket.is_some() => None,
            _ => Some(tls::connect(address)?),
        };
        let tls_mode = match address.tls.mode {
            _ if tls.is_none() => TlsMode::Never,
            SslMode::Disabled | SslMode::Preferred => TlsMode::IfOffered,
            SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => TlsMode::Always,
        };
        let transport = if address.socket.is_some() { Transport::Local } else { Transport::Network };
        // The password command may take long, so it runs before the server waits for the login.
        let client = client_options(address, options, tls_mode, transport)?;
        let since = Instant::now();
        let socket = ServerSocket::connect(address, options)?;
        let mut pipe = PacketStream {
            endpoint: address.endpoint(),
            stream: ServerStream::Plain(socket),
            packets: PacketCodec::new(options.packet_limit),
            received: 0,
            limit: WaitLimit::Login { since, timeout: address.timeout },
            heard: since,
            cancel: options.cancel.clone(),
        };
        let session = pipe.log_in(ClientHandshake::new(client), address, tls)?;
        pipe.limit = WaitLimit::Silence(address.timeout);
        Ok(Self { packet_stream: pipe, session })
    }

    /// Returns the negotiated session.
    pub fn session(&self) -> &ClientSession {
        &self.session
    }

    /// Runs a statement, and returns its rows.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses the statement, or the connection is lost.
    pub fn query(&mut self, sql: &str) -> Result<Vec<ResultRow>, ConnectionError> {
        self.send(&ClientCommand::Query { sql: sql.as_bytes() })?;
        let mut reader = ResultReader::new(self.session.capabilities);
        let (mut rows, mut size) = (Vec::new(), 0);
        while !reader.is_done() {
            let payload = self.packet_stream.next()?;
            size += payload.len();
            if let ResultPart::Row(row) = reader.read(payload)? {
                let row: ResultRow = row.map(|value| value.map(<[u8]>::to_vec)).collect();
                size += row_memory(&row);
                rows.push(row);
            }
            if size > ANSWER_SIZE_MAX {
                let why = format!("an answer has more than {} MiB", ANSWER_SIZE_MAX >> 20);
                return Err(ConnectionError::lost(why).with_endpoint(&self.packet_stream.endpoint));
            }
        }
        Ok(rows)
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be written, or the connection is lost.
    pub fn send(&mut self, command: &ClientCommand<'_>) -> Result<(), ConnectionError> {
        self.queue(command)?;
        self.packet_stream.flush().map_err(|error| error.with_endpoint(&self.packet_stream.endpoint))
    }

    /// Returns the next packet.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost, the server is silent for too long, the wait is cancelled, or the packet is
    /// invalid.
    #[allow(clippy::should_implement_trait, reason = "the packet borrows from the link")]
    pub fn next(&mut self) -> Result<&[u8], ConnectionError> {
        self.packet_stream.next()
    }
}

impl ServerLink {
    /// Appends a command to the output; it is sent together with the next command.
    pub(crate) fn queue(&mut self, command: &ClientCommand<'_>) -> Result<(), ConnectionError> {
        self.packet_stream.packets.begin_command();
        Ok(self.packet_stream.packets.send_encoded(|out| command.encode(out))?)
    }

    /// Sends the command that `encode` writes.
    pub(crate) fn send_encoded(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConnectionError> {
        self.packet_stream.packets.begin_command();
        let written = |out: &mut Vec<u8>| {
            encode(out);
            Ok::<(), WireError>(())
        };
        self.packet_stream.packets.send_encoded(written)?;
        self.packet_stream.flush().map_err(|error| error.with_endpoint(&self.packet_stream.endpoint))
    }

    /// Sends a packet that continues a command.
    pub(crate) fn send_more(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.packet_stream.packets.send(payload);
        self.packet_stream.flush().map_err(|error| error.with_endpoint(&self.packet_stream.endpoint))
    }

    /// Begins a request whose answer may take any time.
    pub(crate) fn begin_request(&mut self) {
        self.packet_stream.limit = WaitLimit::Request { since: Instant::now() };
    }

    /// Returns whether the waits of this connection have been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.packet_stream.cancel.is_cancelled()
    }

    /// Makes waits ignore a cancellation.
    pub(crate) fn ignore_cancel(&mut self) {
        self.packet_stream.cancel = CancelToken::default();
    }

    /// Returns the socket's descriptor, if it is open.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.packet_stream.stream.descriptor().map(|descriptor| descriptor.as_raw_fd())
    }

    /// Returns the socket, if it is open.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.packet_stream.stream.descriptor()
    }

    /// Returns whether the next packet has arrived.
    ///
    /// # Errors
    ///
    /// Fails if the received bytes are invalid, or the connection is lost.
    pub fn has_more(&mut self) -> Result<bool, ConnectionError> {
        self.packet_stream.read_ready_packet()
    }
}

impl PacketStream {
    fn log_in(
        &mut self,
        mut handshake: ClientHandshake,
        address: &ServerAddress,
        mut tls: Option<ClientConnection>,
    ) -> Result<ClientSession, ConnectionError> {
        let mut next = HandshakeStep::Wait;
        loop {
            next = match next {
                HandshakeStep::Wait => {
                    handshake.read(self.next()?).map_err(|error| login_error(error, address))?
                }
                HandshakeStep::Send(payload) => {
                    self.packets.send(&payload);
                    self.flush()?;
                    HandshakeStep::Wait
                }
                HandshakeStep::StartTls(request) => {
                    self.packets.send(&request);
                    self.flush()?;
                    let version = handshake.server_version().unwrap_or_default().to_owned();
                    let tls = tls.take().ok_or_else(|| {
                        ConnectionError::Tls("the handshake has already taken place".to_owned())
                    })?;
                    self.start_tls(tls, address, &version)?;
                    handshake.continue_over_tls().map_err(|error| login_error(error, address))?
                }
                HandshakeStep::Done(session) => {
                    if let Some(compression) = session.compression {
                        self.packets.start_compression(compression);
                    }
                    return Ok(session);
                }
            };
        }
    }

    fn start_tls(
        &mut self,
        tls: ClientConnection,
        address: &ServerAddress,
        server_version: &str,
    ) -> Result<(), ConnectionError> {
        if self.packets.has_unread() {
            let reason =
                "the server sent data before the TLS handshake: a man in the middle may have inserted it";
            return Err(ConnectionError::Tls(reason.to_owned()));
        }
        let ServerStream::Plain(socket) = mem::replace(&mut self.stream, ServerStream::Closed) else {
            return Err(ConnectionError::Tls("the connection is encrypted already".to_owned()));
        };
        let mut stream = TlsStream::new(tls, socket);
        let start = Instant::now();
        while !stream.is_ready() {
            match stream.shake_hands() {
                Err(error) if !is_retryable(&error) => {
                    return Err(tls_error::explain_handshake_error(&error, address, server_version));
                }
                // Check even while data arrives: otherwise an occasional byte would keep the wait alive.
                Ok(()) | Err(_) => self.check_wait(start)?,
            }
        }
        self.stream = ServerStream::Tls(Box::new(stream));
        Ok(())
    }

    /// Returns the number of received bytes: see the field.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Sends a packet that begins a command, or is complete by itself.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.packets.begin_command();
        self.packets.send(payload);
        self.flush().map_err(|error| error.with_endpoint(&self.endpoint))
    }

    /// Returns the next packet.
    pub(crate) fn next(&mut self) -> Result<&[u8], ConnectionError> {
        self.wait_for_packet()?;
        let payload = self.packets.next()?;
        Ok(payload.expect("ours: a packet was waited for"))
    }

    /// Reads until a whole packet has arrived.
    fn wait_for_packet(&mut self) -> Result<(), ConnectionError> {
        self.heard = Instant::now();
        while !self.wait_briefly()? {}
        Ok(())
    }

    /// Reads once, within the poll interval. Returns whether a whole packet has arrived.
    pub(crate) fn wait_briefly(&mut self) -> Result<bool, ConnectionError> {
        if self.packets.is_ready()? {
            return Ok(true);
        }
        self.check_login()?;
        // Check even while data arrives: otherwise an occasional byte would keep the wait alive.
        self.check_cancel()?;
        match self.read().map_err(|error| error.with_endpoint(&self.endpoint))? {
            true => Ok(self.packets.is_ready()?),
            false => self.check_wait(self.heard).map(|()| false),
        }
    }

    /// Waits as [`PacketStream::wait_briefly`], but also ends when this descriptor is readable.
    pub(crate) fn wait_briefly_or(&mut self, other: BorrowedFd<'_>) -> Result<bool, ConnectionError> {
        // TLS may have data that the socket no longer has.
        if self.read_ready_packet()? {
            return Ok(true);
        }
        self.check_wait(self.heard)?;
        if let Some(socket) = self.stream.descriptor() {
            let mut descriptors =
                [PollFd::new(socket, PollFlags::POLLIN), PollFd::new(other, PollFlags::POLLIN)];
            // A signal may interrupt the call: the check below runs anyway.
            let _ = poll(&mut descriptors, PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO));
        }
        self.read_ready_packet()
    }

    /// Reads the data that has arrived, without waiting. Returns whether a whole packet has arrived.
    pub(crate) fn read_ready_packet(&mut self) -> Result<bool, ConnectionError> {
        self.read_ready().map_err(|error| error.with_endpoint(&self.endpoint))
    }

    fn read_ready(&mut self) -> Result<bool, ConnectionError> {
        let mut has_come = true;
        while !self.packets.is_ready()? {
            if !has_come {
                return Ok(false);
            }
            self.stream.disable_waits()?;
            let read = self.read();
            self.stream.enable_waits()?;
            has_come = read?;
        }
        Ok(true)
    }

    /// Reads once. Returns whether any data has arrived.
    fn read(&mut self) -> Result<bool, ConnectionError> {
        match self.stream.receive(self.packets.read_buffer()) {
            Ok(SocketRead::End) => Err(closed_error()),
            Ok(SocketRead::Bytes(count)) => {
                self.packets.commit_read(count);
                self.received += count as u64;
                self.heard = Instant::now();
                Ok(true)
            }
            Ok(SocketRead::PartOfRecord) => {
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_retryable(&error) => Ok(false),
            // Under TLS, the connection was closed without the required alert.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(closed_error()),
            Err(error) => Err(ConnectionError::lost(error.to_string())),
        }
    }

    /// Checks that a wait without data since `start` may continue.
    fn check_wait(&self, start: Instant) -> Result<(), ConnectionError> {
        self.check_cancel()?;
        self.check_login()?;
        match self.limit {
            WaitLimit::Silence(timeout) if start.elapsed() >= timeout => {
                Err(ConnectionError::Silent { seconds: timeout.as_secs() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the wait has not been cancelled.
    fn check_cancel(&self) -> Result<(), ConnectionError> {
        let has_time = matches!(self.limit, WaitLimit::Request { since } if since.elapsed() < CANCEL_DELAY);
        match self.cancel.is_cancelled() && !has_time {
            true => Err(ConnectionError::Cancelled),
            false => Ok(()),
        }
    }

    /// Checks that the login does not take too long, even if data arrives.
    fn check_login(&self) -> Result<(), ConnectionError> {
        match self.limit {
            WaitLimit::Login { since, timeout } if since.elapsed() >= timeout => Err(ConnectionError::lost(
                format!("the login took longer than {} seconds", timeout.as_secs()),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), ConnectionError> {
        let mut start = Instant::now();
        while !self.packets.output().is_empty() {
            match self.stream.write(self.packets.output()) {
                Ok(0) => return Err(ConnectionError::lost("the server accepts no more data")),
                Ok(count) => {
                    self.packets.mark_sent(count);
                    start = Instant::now();
                }
                Err(error) if is_retryable(&error) => self.check_wait(start)?,
                Err(error) => return Err(ConnectionError::lost(error.to_string())),
            }
        }
        // TLS may still buffer bytes that it has accepted.
        loop {
            match self.stream.flush() {
                Ok(()) => return Ok(()),
                Err(error) if is_retryable(&error) => self.check_wait(start)?,
                Err(error) => return Err(ConnectionError::lost(error.to_string())),
            }
        }
    }
}

fn client_options(
    address: &ServerAddress,
    options: &LinkOptions,
    tls: TlsMode,
    transport: Transport,
) -> Result<ClientOptions, ConnectionError> {
    let mut padding = [0; 20];
    getrandom::fill(&mut padding).map_err(|error| ConnectionError::lost(error.to_string()))?;
    let password = address.password.read(&options.cancel)?;
    let server_key = address.server_key(&password)?;
    Ok(ClientOptions {
        user: address.user.clone().into_bytes(),
        password: password.into_bytes(),
        capabilities: options.capabilities,
        tls,
        transport,
        server_key,
        cleartext: address.cleartext,
        compressions: match options.compressions.as_slice() {
            [] => address.compressions.clone(),
            compressions => compressions.to_vec(),
        },
        attributes: vec![
            ("program_name".into(), "bintide".into()),
            ("_client_version".into(), env!("CARGO_PKG_VERSION").into()),
        ],
        padding,
    })
}

fn closed_error() -> ConnectionError {
    ConnectionError::lost("the server closed the connection")
}

/// Converts an error of the login; errors about TLS depend on the policy.
fn login_error(error: WireError, address: &ServerAddress) -> ConnectionError {
    match error {
        WireError::NoTls => ConnectionError::TlsNotOffered { mode: address.tls.mode.name() },
        WireError::Refused(error) if error.code == SECURE_TRANSPORT_REQUIRED => {
            ConnectionError::TlsRequiredByServer
        }
        error => error.into(),
    }
}

/// Sends `COM_QUIT`, if it can be sent immediately.
impl Drop for ServerLink {
    fn drop(&mut self) {
        if self.packet_stream.packets.output().is_empty() && self.queue(&ClientCommand::Quit).is_ok() {
            let _ = self.packet_stream.stream.write(self.packet_stream.packets.output());
            let _ = self.packet_stream.stream.flush();
        }
    }
}
