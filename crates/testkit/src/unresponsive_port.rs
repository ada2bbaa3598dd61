//! A host that drops packets: connection attempts get no answer at all.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::socket::{Backlog, listen};

/// A port of 127.0.0.1 whose queue of connections is full and never emptied, so that the kernel drops new ones.
#[derive(Debug)]
pub struct UnresponsivePort {
    port: u16,
    _listener: TcpListener,
    /// The connections that fill the queue.
    _queue: Vec<TcpStream>,
}

/// Timeout after which a connection counts as unanswered. On one machine, connecting takes no time.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of connections to fill the queue: more than the shortest queue can hold.
const QUEUE_MAX: usize = 16;

impl UnresponsivePort {
    /// Opens a free port and fills its queue.
    ///
    /// # Errors
    ///
    /// Fails if no port can be opened, or the port still answers.
    pub fn open() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // Listen again, with a shorter queue.
        listen(&listener, Backlog::new(0)?)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            queue.push(stream);
            ensure!(
                queue.len() < QUEUE_MAX,
                "port {port} still answers with {QUEUE_MAX} connections waiting"
            );
        }
        ensure!(!queue.is_empty(), "port {port} refuses connections");
        Ok(Self { port, _listener: listener, _queue: queue })
    }

    /// Returns the port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}
