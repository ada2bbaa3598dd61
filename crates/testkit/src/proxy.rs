//! A network between clients and a server. It can be cut, silenced, slowed and recorded, and can remove the server's
//! offer of TLS.
//!
//! ```text
//! client ──▶ Proxy ──▶ server        both on 127.0.0.1
//!        ◀──       ◀──
//! ```

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::socket::{setsockopt, sockopt};

/// The effect of a cut on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutMode {
    /// Connections are closed, as by a peer that ends.
    Close,
    /// Connections are reset, as by a firewall or a restarted machine.
    Reset,
    /// Connections stay open, but no data passes.
    Silence,
}

/// A proxy that listens on a port of its own and forwards all data to a server's port, until it is cut. Dropping it
/// closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    line: Arc<ProxyShared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ProxyShared {
    state: Mutex<ProxyState>,
    /// Callback with clients' data, before the data are sent to the server.
    client_tap: Mutex<Option<Box<ClientTap>>>,
    recording: Mutex<Option<TrafficRecording>>,
}

/// Bytes that have passed since the recording began, of all connections.
#[derive(Clone, Debug, Default)]
pub struct TrafficRecording {
    /// Bytes from clients.
    pub client: Vec<u8>,
    /// Bytes from the server.
    pub server: Vec<u8>,
}

impl TrafficRecording {
    /// Returns true if one of the two sides has sent this text unencrypted.
    pub fn contains(&self, text: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        has(&self.client) || has(&self.server)
    }
}

/// A callback with a client's data.
type ClientTap = dyn FnMut(&[u8]) + Send;

#[derive(Debug, Default)]
struct ProxyState {
    /// The planned cut: the remaining bytes until then, and its effect.
    planned_cut: Option<(u64, CutMode)>,
    /// Effect of each cut so far. A cut ends the connections made since the previous one.
    cuts: Vec<CutMode>,
    /// True while the network is cut.
    is_cut: bool,
    /// True if the server's offers of TLS are removed.
    removes_tls: bool,
    /// Delay of each chunk of data.
    delay: Duration,
    passed: u64,
    is_over: bool,
}

/// Interval at which blocking waits check the proxy's state.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of bytes forwarded at once.
const CHUNK_SIZE: usize = 16 << 10;

impl Proxy {
    /// Creates a proxy for this port of 127.0.0.1.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub fn to(server: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not find a free port")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let line = Arc::new(ProxyShared::default());
        let shared = Arc::clone(&line);
        let accepting =
            thread::spawn(move || thread::scope(|scope| accept(scope, &listener, server, &shared)));
        Ok(Self { port, line, accepting: Some(accepting) })
    }

    /// Returns the proxy's port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all present connections, and new ones until [`Proxy::mend`].
    pub fn cut(&self, mode: CutMode) {
        self.line.state().cut(mode);
    }

    /// Cuts the network after exactly this many more bytes, counted in both directions of all connections.
    pub fn cut_after(&self, bytes: u64, mode: CutMode) {
        self.line.state().planned_cut = Some((bytes, mode));
    }

    /// Returns true if the network is cut.
    pub fn is_cut(&self) -> bool {
        self.line.state().is_cut
    }

    /// Lets new connections pass again, and cancels a planned cut. Connections that were cut stay cut.
    pub fn mend(&self) {
        let mut state = self.line.state();
        (state.is_cut, state.planned_cut) = (false, None);
    }

    /// Delays each chunk of data.
    pub fn delay(&self, delay: Duration) {
        self.line.state().delay = delay;
    }

    /// Calls `callback` with each chunk of clients' data, before the chunk is sent to the server.
    pub fn tap_client(&self, callback: impl FnMut(&[u8]) + Send + 'static) {
        *self.line.client_tap.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(callback));
    }

    /// Starts a new recording.
    pub fn record(&self) {
        *self.line.recording() = Some(TrafficRecording::default());
    }

    /// Returns the recording since [`Proxy::record`].
    pub fn recorded(&self) -> TrafficRecording {
        self.line.recording().clone().unwrap_or_default()
    }

    /// Removes the offer of TLS from the server's greetings, as a man in the middle would.
    pub fn remove_tls(&self, removes_tls: bool) {
        self.line.state().removes_tls = removes_tls;
    }

    /// Returns the number of bytes that have passed, in both directions of all connections.
    pub fn passed(&self) -> u64 {
        self.line.state().passed
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.state().is_over = true;
        if let Some(accepting) = self.accepting.take() {
            // If the thread panicked, its message has been printed.
            let _ = accepting.join();
        }
    }
}

impl ProxyShared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recording(&self) -> MutexGuard<'_, Option<TrafficRecording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_bytes(&self, side: ProxySide, bytes: &[u8]) {
        if let Some(recording) = &mut *self.recording() {
            let noted = match side {
                ProxySide::Client => &mut recording.client,
                ProxySide::Server => &mut recording.server,
            };
            noted.extend_from_slice(bytes);
        }
    }
}

/// Clears the capability `CLIENT_SSL` in a server's greeting. Its layout: packet header, protocol version, server
/// version and NUL, connection id, part of the nonce, NUL, capabilities.
fn remove_tls(greeting: &mut [u8]) {
    const SSL: u8 = 0x08;
    let version = 5;
    let end = greeting.iter().skip(version).position(|byte| *byte == 0);
    if let Some(capabilities) = end.and_then(|end| greeting.get_mut(version + end + 1 + 4 + 8 + 1 + 1)) {
        *capabilities &= !SSL;
    }
}

impl fmt::Debug for ProxyShared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProxyShared").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Effect of the cuts on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    Passes,
    Cut(CutMode),
    Over,
}

impl ProxyState {
    fn cut(&mut self, mode: CutMode) {
        self.cuts.push(mode);
        (self.is_cut, self.planned_cut) = (true, None);
    }

    /// Returns the index in `cuts` of the cut that ends a connection made now.
    fn cut_index(&self) -> usize {
        self.cuts.len() - usize::from(self.is_cut)
    }

    fn phase(&self, cut_index: usize) -> ConnectionPhase {
        match self.cuts.get(cut_index) {
            _ if self.is_over => ConnectionPhase::Over,
            Some(mode) => ConnectionPhase::Cut(*mode),
            None => ConnectionPhase::Passes,
        }
    }

    /// Returns the number of these bytes that pass. The planned cut may follow them.
    fn pass(&mut self, cut_index: usize, size: usize) -> usize {
        if self.phase(cut_index) != ConnectionPhase::Passes {
            return 0;
        }
        let mut passes = size as u64;
        match &mut self.planned_cut {
            Some((left, mode)) if *left <= passes => {
                passes = *left;
                let mode = *mode;
                self.cut(mode);
            }
            Some((left, _)) => *left -= passes,
            None => {}
        }
        self.passed += passes;
        passes as usize
    }
}

fn accept<'s>(scope: &'s Scope<'s, '_>, listener: &TcpListener, server: u16, line: &Arc<ProxyShared>) {
    while !line.state().is_over {
        match listener.accept() {
            Ok((client, _)) => {
                // If the server is down, the client's connection is closed.
                let _ = connect(scope, client, server, line);
            }
            // There is no new connection, or the client has closed it.
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

fn connect<'s>(
    scope: &'s Scope<'s, '_>,
    client: TcpStream,
    server: u16,
    line: &Arc<ProxyShared>,
) -> std::io::Result<()> {
    let cut_index = line.state().cut_index();
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    for stream in [&client, &server] {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
    }
    let (client, server) = (Arc::new(client), Arc::new(server));
    for (from, to, side) in [(&client, &server, ProxySide::Client), (&server, &client, ProxySide::Server)] {
        let (from, to, line) = (Arc::clone(from), Arc::clone(to), Arc::clone(line));
        scope.spawn(move || TrafficPump { from, to, line, cut_index, side }.run());
    }
    Ok(())
}

/// The sender of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxySide {
    Client,
    Server,
}

/// A thread that forwards one direction of a connection.
struct TrafficPump {
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    line: Arc<ProxyShared>,
    cut_index: usize,
    side: ProxySide,
}

impl TrafficPump {
    fn run(self) {
        // A lost connection is no error here: the other side's connection is closed, too.
        if self.pump().is_err() {
            let _ = self.from.shutdown(Shutdown::Both);
            let _ = self.to.shutdown(Shutdown::Both);
        }
    }

    fn pump(&self) -> std::io::Result<()> {
        let mut buffer = [0; CHUNK_SIZE];
        let mut is_greeting = self.side == ProxySide::Server;
        loop {
            let phase = self.line.state().phase(self.cut_index);
            match phase {
                ConnectionPhase::Passes => {}
                ConnectionPhase::Cut(CutMode::Silence) => {
                    thread::sleep(POLL_INTERVAL);
                    continue;
                }
                ConnectionPhase::Cut(CutMode::Reset) => return self.reset(),
                ConnectionPhase::Cut(CutMode::Close) | ConnectionPhase::Over => {
                    return Err(ErrorKind::ConnectionAborted.into());
                }
            }
            let size = match (&*self.from).read(&mut buffer) {
                Ok(0) => return self.to.shutdown(Shutdown::Write),
                Ok(size) => size,
                Err(error) if is_retryable(&error) => continue,
                Err(error) => return Err(error),
            };
            if self.side == ProxySide::Client
                && let Some(callback) =
                    &mut *self.line.client_tap.lock().unwrap_or_else(PoisonError::into_inner)
            {
                callback(&buffer[..size]);
            }
            if is_greeting && self.line.state().removes_tls {
                remove_tls(&mut buffer[..size]);
            }
            is_greeting = false;
            self.line.record_bytes(self.side, &buffer[..size]);
            let delay = self.line.state().delay;
            thread::sleep(delay);
            let passes = self.line.state().pass(self.cut_index, size);
            self.put(&buffer[..passes])?;
        }
    }

    fn put(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        // Bytes that have passed are delivered, even if a cut follows.
        while !bytes.is_empty() && self.line.state().phase(self.cut_index) != ConnectionPhase::Over {
            match (&*self.to).write(bytes) {
                Ok(size) => bytes = &bytes[size..],
                Err(error) if is_retryable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the system reset both connections when their last handle is dropped.
    fn reset(&self) -> std::io::Result<()> {
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        for stream in [&self.from, &self.to] {
            setsockopt(stream, sockopt::Linger, &linger)?;
        }
        Ok(())
    }
}

fn is_retryable(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
