//! One connection on which the protocol itself is spoken.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use wire::{
    Cleartext, ClientHandshake, ClientOptions, Command, Compression, Next, Packets, Part, ResultReader,
    Session, TlsWish, Transport,
};

use crate::address::Address;
use crate::connection::Row;
use crate::error::Error;
use crate::reach;
use crate::tls;
use crate::tls_policy::SslMode;

/// How often somebody who waits looks whether it was called off.
const PATIENCE: Duration = Duration::from_millis(100);

/// How a connection is made, beside what its address says.
#[derive(Clone)]
pub struct LinkOptions {
    /// How long the server may take to be reached, its name's look-up included.
    pub connect_timeout: Duration,
    /// Bytes of a packet at most. A source cuts nothing: it must be more than its largest event.
    pub packet_limit: usize,
    /// The address of this machine to connect from, if not any.
    pub bind: Option<String>,
    /// How packets are to be compressed (`None`: not at all), the best first.
    pub compressions: Vec<Option<Compression>>,
    /// Whether the server may ask for the password itself, over TLS.
    pub cleartext: Cleartext,
    /// Ends whatever waits.
    pub cancel: Cancel,
}

/// Calls off what waits on a connection, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// One connection on which the protocol itself is spoken. It blocks; a [`Cancel`] wakes it.
pub struct Link {
    pub(crate) pipe: Pipe,
    session: Session,
}

/// What carries packets, and for how long it waits.
pub(crate) struct Pipe {
    /// Of the server, for errors.
    place: String,
    stream: Stream,
    pub(crate) packets: Packets,
    /// Bytes that came, as they were sent: compressed, if that was agreed on, but without what TLS adds.
    received: u64,
    silence_max: Duration,
    /// When something came last, or began to be waited for.
    heard: Instant,
    cancel: Cancel,
}

enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
    /// TLS could not be begun.
    Closed,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            // Events of 1 GiB, and what stands in front of them.
            packet_limit: (1 << 30) + (64 << 10),
            bind: None,
            compressions: vec![None],
            cleartext: Cleartext::Refuse,
            cancel: Cancel::default(),
        }
    }
}

impl Cancel {
    /// Calls it off.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Was it called off?
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
        let stream = Stream::connect(address, options)?;
        let mut padding = [0; 20];
        getrandom::fill(&mut padding).map_err(|error| Error::lost(error.to_string()))?;
        let transport = match stream {
            Stream::Unix(_) => Transport::Local,
            _ => Transport::Network,
        };
        let wishes = ClientOptions {
            user: address.user.clone().into_bytes(),
            password: address.password.clone().unwrap_or_default().into_bytes(),
            tls: match (address.tls.mode, transport) {
                (_, Transport::Local) | (SslMode::Disabled, _) => TlsWish::Never,
                (SslMode::Preferred, _) => TlsWish::IfOffered,
                (SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity, _) => TlsWish::Always,
            },
            transport,
            server_key: address.server_key()?,
            cleartext: options.cleartext,
            compressions: options.compressions.clone(),
            attributes: vec![
                ("program_name".into(), "bintide".into()),
                ("_client_version".into(), env!("CARGO_PKG_VERSION").into()),
            ],
            padding,
        };
        let mut pipe = Pipe {
            place: address.place(),
            stream,
            packets: Packets::new(options.packet_limit),
            received: 0,
            silence_max: address.timeout,
            heard: Instant::now(),
            cancel: options.cancel.clone(),
        };
        let session = pipe.log_in(ClientHandshake::new(wishes), address)?;
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
        let mut rows = Vec::new();
        while !reader.is_done() {
            if let Part::Row(row) = reader.read(self.pipe.next()?)? {
                rows.push(row.map(|value| value.map(<[u8]>::to_vec)).collect());
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
        let mut payload = Vec::new();
        command.encode(&mut payload)?;
        self.pipe.send(&payload)
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
    /// Has the next packet come already?
    ///
    /// # Errors
    ///
    /// When what has come is damaged, or the server is gone.
    pub fn has_more(&mut self) -> Result<bool, Error> {
        self.pipe.look()
    }
}

impl Pipe {
    fn log_in(&mut self, mut handshake: ClientHandshake, address: &Address) -> Result<Session, Error> {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::Wait => handshake.read(self.next()?)?,
                Next::Send(payload) => {
                    self.packets.send(&payload);
                    self.flush()?;
                    Next::Wait
                }
                Next::StartTls(request) => {
                    self.packets.send(&request);
                    self.flush()?;
                    self.start_tls(address)?;
                    handshake.encrypted()?
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

    fn start_tls(&mut self, address: &Address) -> Result<(), Error> {
        if self.packets.has_unread() {
            let reason = "the server spoke where TLS was to begin: somebody sits in between";
            return Err(Error::Tls(reason.to_owned()));
        }
        let mut tls = tls::connect(address)?;
        let Stream::Tcp(mut tcp) = mem::replace(&mut self.stream, Stream::Closed) else {
            return Err(Error::Tls("only connections over TCP can be encrypted".to_owned()));
        };
        let start = Instant::now();
        while tls.is_handshaking() {
            match tls.complete_io(&mut tcp) {
                Ok(_) => {}
                Err(error) if is_not_yet(&error) => self.wait(start)?,
                Err(error) => return Err(Error::of_tls(error.to_string(), address)),
            }
        }
        self.stream = Stream::Tls(Box::new(StreamOwned::new(tls, tcp)));
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

    /// Reads what comes within a moment. Has a whole packet come?
    pub(crate) fn wait_a_moment(&mut self) -> Result<bool, Error> {
        if self.packets.is_ready()? {
            return Ok(true);
        }
        match self.read().map_err(|error| error.at(&self.place))? {
            true => Ok(self.packets.is_ready()?),
            false => self.wait(self.heard).map(|()| false),
        }
    }

    /// Reads what has come already. Has a whole packet come?
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

    /// Reads once. Has anything come?
    fn read(&mut self) -> Result<bool, Error> {
        match self.stream.read(self.packets.room()) {
            Ok(0) => Err(Error::lost("the server closed it")),
            Ok(count) => {
                self.packets.filled(count);
                self.received += count as u64;
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_not_yet(&error) => Ok(false),
            Err(error) => Err(Error::lost(error.to_string())),
        }
    }

    /// Nothing has come since `start`.
    fn wait(&self, start: Instant) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        match start.elapsed() < self.silence_max {
            true => Ok(()),
            false => Err(Error::Silent { seconds: self.silence_max.as_secs() }),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let mut start = Instant::now();
        while !self.packets.output().is_empty() {
            match self.stream.write(self.packets.output()) {
                Ok(0) => return Err(Error::lost("the server takes no more")),
                Ok(count) => {
                    self.packets.sent(count);
                    start = Instant::now();
                }
                Err(error) if is_not_yet(&error) => self.wait(start)?,
                Err(error) => return Err(Error::lost(error.to_string())),
            }
        }
        self.stream.flush().map_err(|error| Error::lost(error.to_string()))
    }
}

/// Says good-bye, if it can be said at once.
impl Drop for Link {
    fn drop(&mut self) {
        let mut payload = Vec::new();
        if Command::Quit.encode(&mut payload).is_ok() && self.pipe.packets.output().is_empty() {
            self.pipe.packets.begin_command();
            self.pipe.packets.send(&payload);
            let _ = self.pipe.stream.write(self.pipe.packets.output());
            let _ = self.pipe.stream.flush();
        }
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Stream {
    fn connect(address: &Address, options: &LinkOptions) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::lost(error.to_string());
        if let Some(socket) = &address.socket {
            let stream = UnixStream::connect(socket).map_err(failed)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
            return Ok(Self::Unix(stream));
        }
        let stream = reach::tcp(address, options)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Self::Tcp(stream))
    }
}

impl Stream {
    /// Reading gives what is there, and nothing if there is nothing.
    fn wait_for_nothing(&self) -> Result<(), Error> {
        self.set_nonblocking(true)
    }

    /// Reading waits for a moment.
    fn wait_again(&self) -> Result<(), Error> {
        self.set_nonblocking(false)
    }

    fn set_nonblocking(&self, is_so: bool) -> Result<(), Error> {
        let set = match self {
            Self::Tcp(stream) => stream.set_nonblocking(is_so),
            Self::Tls(stream) => stream.sock.set_nonblocking(is_so),
            Self::Unix(stream) => stream.set_nonblocking(is_so),
            Self::Closed => Ok(()),
        };
        set.map_err(|error| Error::lost(error.to_string()))
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
            Self::Closed => Ok(0),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Closed => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Closed => Ok(()),
        }
    }
}
