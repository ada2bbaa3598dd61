//! A connection on which commands and packets of the protocol are sent and received.

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
/// Bytes of the answer to a question at most, and of the answers to all of a replica's: they ask for a few values.
pub(crate) const ANSWER_SIZE_MAX: usize = 16 << 20;
/// Time that a request has to end by itself before a cancellation ends it: short ones may still say how things ended.
const CANCEL_DELAY: Duration = Duration::from_secs(1);

/// Options of a connection, besides those of its address.
#[derive(Clone)]
pub struct LinkOptions {
    /// Time limit for reaching the server, including the look-up of its name.
    pub connect_timeout: Duration,
    /// Size of a packet, at most. A source sends each event whole: it must be more than the largest event.
    pub packet_limit: usize,
    /// Capabilities to ask for, besides those that replication needs, if the server has them.
    pub capabilities: Capabilities,
    /// Address of this machine to connect from; any if `None`.
    pub bind: Option<String>,
    /// Accepted compressions of packets (`None`: not compressed), the best first; empty for those of the address.
    pub compressions: Vec<Option<Compression>>,
    /// Cancels every wait.
    pub cancel: Cancel,
}

/// Cancels the waits of a connection, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// A connection on which commands and packets of the protocol are sent and received. Calls block; a [`Cancel`] ends them.
pub struct Link {
    pub(crate) pipe: Pipe,
    session: Session,
}

/// Stream of packets over a socket, with the time limits of its waits.
pub(crate) struct Pipe {
    /// The server's place, for errors.
    place: String,
    stream: Stream,
    pub(crate) packets: Packets,
    /// Bytes that came, as they were sent: compressed, if that was agreed on, but without what TLS adds.
    received: u64,
    limit: WaitLimit,
    /// When something came last, or began to be waited for.
    heard: Instant,
    cancel: Cancel,
}

/// Time limit of waits for the server.
#[derive(Clone, Copy, Debug)]
enum WaitLimit {
    /// Ends waits once this time has passed since the login began.
    Login { since: Instant, timeout: Duration },
    /// Ends waits in which nothing has come for this long.
    Silence(Duration),
    /// Ends no wait, as a statement may take hours: the watch of a SQL connection does, by shutting the socket down. A
    /// cancellation counts once the request has taken [`CANCEL_DELAY`].
    Request { since: Instant },
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            // Events of 1 GiB, and what stands in front of them.
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

    /// Tells whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, refuses, or cannot do what was asked for.
    pub fn open(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        Self::connect(address, options).map_err(|error| error.at(&address.place()))
    }

    fn connect(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        address.tls.check()?;
        // A file that cannot be used is an error before anything is sent.
        let tls = match address.tls.mode {
            SslMode::Disabled => None,
            // As in MySQL's own programs, a Unix socket is encrypted only if that is required.
            SslMode::Preferred if address.socket.is_some() => None,
            _ => Some(tls::connect(address)?),
        };
        let wish = match address.tls.mode {
            _ if tls.is_none() => TlsWish::Never,
            SslMode::Disabled | SslMode::Preferred => TlsWish::IfOffered,
            SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => TlsWish::Always,
        };
        let transport = if address.socket.is_some() { Transport::Local } else { Transport::Network };
        // The password may take its time: the server does not wait for it.
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

    /// What was agreed on.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a statement, and gives its rows.
    ///
    /// # Errors
    ///
    /// When it is refused, or the connection is gone.
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
    /// When it cannot be written, or the connection is gone.
    pub fn send(&mut self, command: &Command<'_>) -> Result<(), Error> {
        self.queue(command)?;
        self.pipe.flush().map_err(|error| error.at(&self.pipe.place))
    }

    /// The next packet.
    ///
    /// # Errors
    ///
    /// When the connection is gone, the server is silent for too long, it was called off, or the packet cannot be
    /// read.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<&[u8], Error> {
        self.pipe.next()
    }
}

impl Link {
    /// Appends a command to the output, to be sent together with the next one.
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

    /// Tells whether its waits have been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.pipe.cancel.is_cancelled()
    }

    /// Lets waits go on after a cancellation.
    pub(crate) fn ignore_cancel(&mut self) {
        self.pipe.cancel = Cancel::default();
    }

    /// Returns the socket's descriptor, if it is open.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.pipe.stream.descriptor()
    }

    /// Tells whether the next packet has come already.
    ///
    /// # Errors
    ///
    /// When what has come is damaged, or the server is gone.
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
                    let tls = tls.take().ok_or_else(|| Error::Tls("it has begun already".to_owned()))?;
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
            let reason = "the server sent bytes before TLS began: a man in the middle may have added them";
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
                // Also while something comes: a byte from time to time is no reason to go on.
                Ok(()) | Err(_) => self.wait(start)?,
            }
        }
        self.stream = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// Bytes that came: see the field.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Sends a packet that begins a command, or stands for itself.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.packets.begin_command();
        self.packets.send(payload);
        self.flush().map_err(|error| error.at(&self.place))
    }

    /// The next packet.
    pub(crate) fn next(&mut self) -> Result<&[u8], Error> {
        self.wait_for_packet()?;
        let payload = self.packets.next()?;
        Ok(payload.expect("ours: a packet was waited for"))
    }

    /// Reads until a whole packet has come.
    fn wait_for_packet(&mut self) -> Result<(), Error> {
        self.heard = Instant::now();
        while !self.wait_a_moment()? {}
        Ok(())
    }

    /// Reads what comes within a moment. Returns whether a whole packet has come.
    pub(crate) fn wait_a_moment(&mut self) -> Result<bool, Error> {
        if self.packets.is_ready()? {
            return Ok(true);
        }
        self.check_login()?;
        // Also while something comes: a byte from time to time is no reason to go on.
        self.check_cancel()?;
        match self.read().map_err(|error| error.at(&self.place))? {
            true => Ok(self.packets.is_ready()?),
            false => self.wait(self.heard).map(|()| false),
        }
    }

    /// Reads what has come already. Returns whether a whole packet has come.
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

    /// Reads once. Returns whether anything has come.
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
            // The same under TLS, without the alert that should come first.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(closed()),
            Err(error) => Err(Error::lost(error.to_string())),
        }
    }

    /// Checks that a wait in which nothing has come since `start` may go on.
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

    /// Checks that a login does not take too long, however often something comes.
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
        // TLS may still hold some of what it has taken.
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

/// Converts an error of the login; those about TLS depend on the policy.
fn of_login(error: WireError, address: &Address) -> Error {
    match error {
        WireError::NoTls => Error::TlsNotOffered { mode: address.tls.mode.name() },
        WireError::Refused(error) if error.code == SECURE_TRANSPORT_REQUIRED => Error::TlsNeeded,
        error => error.into(),
    }
}

/// Says good-bye, if it can be said at once.
impl Drop for Link {
    fn drop(&mut self) {
        if self.pipe.packets.output().is_empty() && self.queue(&Command::Quit).is_ok() {
            let _ = self.pipe.stream.write(self.pipe.packets.output());
            let _ = self.pipe.stream.flush();
        }
    }
}
