//! Connection for protocol commands and packets.

use std::io::{ErrorKind, Write as _};
use std::mem;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use wire::{
    Capabilities, ClientHandshake, ClientOptions, Command, Compression, Next, Packets, Part, ResultReader,
    Session, TlsWish, Transport, WireError,
};

use crate::address::Address;
use crate::connection::{Row, memory_of};
use crate::error::Error;
use crate::socket::{Arrival, Socket, Stream, TlsStream, is_not_yet};
use crate::tls;
use crate::tls_error;
use crate::tls_policy::SslMode;

/// `ER_SECURE_TRANSPORT_REQUIRED`: the server accepts encrypted connections only.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// Largest size in bytes of the answer to a query, and of all answers to a replica's queries: they have few values.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;
/// Time after which a cancellation ends a request. A short request can still finish and report its result.
const CANCEL_DELAY: Duration = Duration::from_secs(1);

/// Options of a connection, besides those of its address.
#[derive(Clone)]
pub struct LinkOptions {
    /// Time limit of the connection attempt, including the name lookup.
    pub connect_timeout: Duration,
    /// Largest size of a packet. A source sends each event as one packet, so the limit must exceed the largest event.
    pub packet_limit: usize,
    /// Capabilities to request if the server has them, besides those that replication needs.
    pub capabilities: Capabilities,
    /// Local address to connect from; any if `None`.
    pub bind: Option<String>,
    /// Accepted compressions of packets (`None`: not compressed), the best first; empty for those of the address.
    pub compressions: Vec<Option<Compression>>,
    /// Cancels every wait.
    pub cancel: Cancel,
}

/// Cancellation token for the waits of a connection, usable from any thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// Connection for protocol commands and packets. Calls block; a [`Cancel`] ends them.
pub struct Link {
    pub(crate) pipe: Pipe,
    session: Session,
}

/// Stream of packets over a socket, with time limits of its waits.
pub(crate) struct Pipe {
    /// Host and port or socket of the server, for errors.
    place: String,
    stream: Stream,
    pub(crate) packets: Packets,
    /// Number of received bytes, after compression and without TLS overhead.
    received: u64,
    limit: WaitLimit,
    /// Time of the last received byte, or of the start of the wait.
    heard: Instant,
    cancel: Cancel,
}

/// Time limit of waits for the server.
#[derive(Clone, Copy, Debug)]
enum WaitLimit {
    /// Ends a wait once this time has passed since the login began.
    Login { since: Instant, timeout: Duration },
    /// Ends a wait after a silence of this length.
    Silence(Duration),
    /// Ends no wait, as a statement may take hours: the watch of a SQL connection does that by shutting down the
    /// socket. A cancellation takes effect once the request has taken [`CANCEL_DELAY`].
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
            cancel: Cancel::default(),
        }
    }
}

impl Cancel {
    /// Cancels every wait.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the waits have been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, refuses the login, or does not support a required option.
    pub fn open(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        Self::connect(address, options).map_err(|error| error.at(&address.place()))
    }

    fn connect(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        address.tls.check()?;
        // An unusable file is an error before anything is sent.
        let tls = match address.tls.mode {
            SslMode::Disabled => None,
            // As in MySQL's programs, a Unix socket is encrypted only if that is required.
            SslMode::Preferred if address.socket.is_some() => None,
            _ => Some(tls::connect(address)?),
        };
        let wish = match address.tls.mode {
            _ if tls.is_none() => TlsWish::Never,
            SslMode::Disabled | SslMode::Preferred => TlsWish::IfOffered,
            SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => TlsWish::Always,
        };
        let transport = if address.socket.is_some() { Transport::Local } else { Transport::Network };
        // The password command may take long, so it runs before the server waits for the login.
        let client = client_options(address, options, wish, transport)?;
        let since = Instant::now();
        let socket = Socket::connect(address, options)?;
        let mut pipe = Pipe {
            place: address.place(),
            stream: Stream::Plain(socket),
            packets: Packets::new(options.packet_limit),
            received: 0,
            limit: WaitLimit::Login { since, timeout: address.timeout },
            heard: since,
            cancel: options.cancel.clone(),
        };
        let session = pipe.log_in(ClientHandshake::new(client), address, tls)?;
        pipe.limit = WaitLimit::Silence(address.timeout);
        Ok(Self { pipe, session })
    }

    /// Returns the negotiated session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a statement, and returns its rows.
    ///
    /// # Errors
    ///
    /// If the server refuses the statement, or the connection is lost.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.send(&Command::Query { sql: sql.as_bytes() })?;
        let mut reader = ResultReader::new(self.session.capabilities);
        let (mut rows, mut size) = (Vec::new(), 0);
        while !reader.is_done() {
            let payload = self.pipe.next()?;
            size += payload.len();
            if let Part::Row(row) = reader.read(payload)? {
                let row: Row = row.map(|value| value.map(<[u8]>::to_vec)).collect();
                size += memory_of(&row);
                rows.push(row);
            }
            if size > ANSWER_SIZE_MAX {
                let why = format!("an answer has more than {} MiB", ANSWER_SIZE_MAX >> 20);
                return Err(Error::lost(why).at(&self.pipe.place));
            }
        }
        Ok(rows)
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// If the command cannot be written, or the connection is lost.
    pub fn send(&mut self, command: &Command<'_>) -> Result<(), Error> {
        self.queue(command)?;
        self.pipe.flush().map_err(|error| error.at(&self.pipe.place))
    }

    /// Returns the next packet.
    ///
    /// # Errors
    ///
    /// If the connection is lost, the server is silent for too long, the wait is cancelled, or the packet is invalid.
    #[allow(clippy::should_implement_trait, reason = "the packet borrows from the link")]
    pub fn next(&mut self) -> Result<&[u8], Error> {
        self.pipe.next()
    }
}

impl Link {
    /// Appends a command to the output; it is sent together with the next one.
    pub(crate) fn queue(&mut self, command: &Command<'_>) -> Result<(), Error> {
        self.pipe.packets.begin_command();
        Ok(self.pipe.packets.send_encoded(|out| command.encode(out))?)
    }

    /// Sends the command that `encode` writes.
    pub(crate) fn send_encoded(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.pipe.packets.begin_command();
        let written = |out: &mut Vec<u8>| {
            encode(out);
            Ok::<(), WireError>(())
        };
        self.pipe.packets.send_encoded(written)?;
        self.pipe.flush().map_err(|error| error.at(&self.pipe.place))
    }

    /// Sends a packet that continues a command.
    pub(crate) fn send_more(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.pipe.packets.send(payload);
        self.pipe.flush().map_err(|error| error.at(&self.pipe.place))
    }

    /// Begins a request whose answer may take any time.
    pub(crate) fn begin_request(&mut self) {
        self.pipe.limit = WaitLimit::Request { since: Instant::now() };
    }

    /// Returns whether its waits have been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.pipe.cancel.is_cancelled()
    }

    /// Makes waits ignore a cancellation.
    pub(crate) fn ignore_cancel(&mut self) {
        self.pipe.cancel = Cancel::default();
    }

    /// Returns the socket's descriptor, if it is open.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.pipe.stream.descriptor()
    }

    /// Returns whether the next packet has arrived.
    ///
    /// # Errors
    ///
    /// If the received bytes are invalid, or the connection is lost.
    pub fn has_more(&mut self) -> Result<bool, Error> {
        self.pipe.look()
    }
}

impl Pipe {
    fn log_in(
        &mut self,
        mut handshake: ClientHandshake,
        address: &Address,
        mut tls: Option<ClientConnection>,
    ) -> Result<Session, Error> {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::Wait => handshake.read(self.next()?).map_err(|error| of_login(error, address))?,
                Next::Send(payload) => {
                    self.packets.send(&payload);
                    self.flush()?;
                    Next::Wait
                }
                Next::StartTls(request) => {
                    self.packets.send(&request);
                    self.flush()?;
                    let version = handshake.server_version().unwrap_or_default().to_owned();
                    let tls = tls
                        .take()
                        .ok_or_else(|| Error::Tls("the handshake has already taken place".to_owned()))?;
                    self.start_tls(tls, address, &version)?;
                    handshake.encrypted().map_err(|error| of_login(error, address))?
                }
                Next::Done(session) => {
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
        address: &Address,
        server_version: &str,
    ) -> Result<(), Error> {
        if self.packets.has_unread() {
            let reason =
                "the server sent data before the TLS handshake: a man in the middle may have inserted it";
            return Err(Error::Tls(reason.to_owned()));
        }
        let Stream::Plain(socket) = mem::replace(&mut self.stream, Stream::Closed) else {
            return Err(Error::Tls("the connection is encrypted already".to_owned()));
        };
        let mut stream = TlsStream::new(tls, socket);
        let start = Instant::now();
        while !stream.is_ready() {
            match stream.shake_hands() {
                Err(error) if !is_not_yet(&error) => {
                    return Err(tls_error::explain(&error, address, server_version));
                }
                // Also while data arrives: otherwise a byte now and then would keep the wait alive.
                Ok(()) | Err(_) => self.wait(start)?,
            }
        }
        self.stream = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// Returns the number of received bytes: see the field.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Sends a packet that begins a command, or is complete by itself.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.packets.begin_command();
        self.packets.send(payload);
        self.flush().map_err(|error| error.at(&self.place))
    }

    /// Returns the next packet.
    pub(crate) fn next(&mut self) -> Result<&[u8], Error> {
        self.wait_for_packet()?;
        let payload = self.packets.next()?;
        Ok(payload.expect("ours: a packet was waited for"))
    }

    /// Reads until a whole packet has arrived.
    fn wait_for_packet(&mut self) -> Result<(), Error> {
        self.heard = Instant::now();
        while !self.wait_a_moment()? {}
        Ok(())
    }

    /// Reads once, within the poll interval. Returns whether a whole packet has arrived.
    pub(crate) fn wait_a_moment(&mut self) -> Result<bool, Error> {
        if self.packets.is_ready()? {
            return Ok(true);
        }
        self.check_login()?;
        // Also while data arrives: otherwise a byte now and then would keep the wait alive.
        self.check_cancel()?;
        match self.read().map_err(|error| error.at(&self.place))? {
            true => Ok(self.packets.is_ready()?),
            false => self.wait(self.heard).map(|()| false),
        }
    }

    /// Reads the data that has arrived, without waiting. Returns whether a whole packet has arrived.
    pub(crate) fn look(&mut self) -> Result<bool, Error> {
        self.read_ready().map_err(|error| error.at(&self.place))
    }

    fn read_ready(&mut self) -> Result<bool, Error> {
        let mut has_come = true;
        while !self.packets.is_ready()? {
            if !has_come {
                return Ok(false);
            }
            self.stream.wait_for_nothing()?;
            let read = self.read();
            self.stream.wait_again()?;
            has_come = read?;
        }
        Ok(true)
    }

    /// Reads once. Returns whether any data has arrived.
    fn read(&mut self) -> Result<bool, Error> {
        match self.stream.receive(self.packets.room()) {
            Ok(Arrival::End) => Err(closed()),
            Ok(Arrival::Bytes(count)) => {
                self.packets.filled(count);
                self.received += count as u64;
                self.heard = Instant::now();
                Ok(true)
            }
            Ok(Arrival::PartOfRecord) => {
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_not_yet(&error) => Ok(false),
            // Under TLS, the connection was closed without the required alert.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(closed()),
            Err(error) => Err(Error::lost(error.to_string())),
        }
    }

    /// Checks that a wait without data since `start` may continue.
    fn wait(&self, start: Instant) -> Result<(), Error> {
        self.check_cancel()?;
        self.check_login()?;
        match self.limit {
            WaitLimit::Silence(timeout) if start.elapsed() >= timeout => {
                Err(Error::Silent { seconds: timeout.as_secs() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the wait has not been cancelled.
    fn check_cancel(&self) -> Result<(), Error> {
        let has_time = matches!(self.limit, WaitLimit::Request { since } if since.elapsed() < CANCEL_DELAY);
        match self.cancel.is_cancelled() && !has_time {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Checks that the login does not take too long, even if data arrives.
    fn check_login(&self) -> Result<(), Error> {
        match self.limit {
            WaitLimit::Login { since, timeout } if since.elapsed() >= timeout => {
                Err(Error::lost(format!("the login has taken longer than {} seconds", timeout.as_secs())))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let mut start = Instant::now();
        while !self.packets.output().is_empty() {
            match self.stream.write(self.packets.output()) {
                Ok(0) => return Err(Error::lost("the server accepts no more data")),
                Ok(count) => {
                    self.packets.sent(count);
                    start = Instant::now();
                }
                Err(error) if is_not_yet(&error) => self.wait(start)?,
                Err(error) => return Err(Error::lost(error.to_string())),
            }
        }
        // TLS may still buffer bytes that it has accepted.
        loop {
            match self.stream.flush() {
                Ok(()) => return Ok(()),
                Err(error) if is_not_yet(&error) => self.wait(start)?,
                Err(error) => return Err(Error::lost(error.to_string())),
            }
        }
    }
}

fn client_options(
    address: &Address,
    options: &LinkOptions,
    tls: TlsWish,
    transport: Transport,
) -> Result<ClientOptions, Error> {
    let mut padding = [0; 20];
    getrandom::fill(&mut padding).map_err(|error| Error::lost(error.to_string()))?;
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

fn closed() -> Error {
    Error::lost("the server closed it")
}

/// Converts an error of the login; errors about TLS depend on the policy.
fn of_login(error: WireError, address: &Address) -> Error {
    match error {
        WireError::NoTls => Error::TlsNotOffered { mode: address.tls.mode.name() },
        WireError::Refused(error) if error.code == SECURE_TRANSPORT_REQUIRED => Error::TlsNeeded,
        error => error.into(),
    }
}

/// Sends `COM_QUIT`, if it can be sent immediately.
impl Drop for Link {
    fn drop(&mut self) {
        if self.pipe.packets.output().is_empty() && self.queue(&Command::Quit).is_ok() {
            let _ = self.pipe.stream.write(self.pipe.packets.output());
            let _ = self.pipe.stream.flush();
        }
    }
}
