//! A host that drops packets: whoever connects hears nothing, neither yes nor no.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::socket::{Backlog, listen};

/// A port of 127.0.0.1 whose queue of connections is full and never emptied: the kernel drops what comes then.
#[derive(Debug)]
pub struct Deaf {
    port: u16,
    _listener: TcpListener,
    /// What fills the queue.
    _queue: Vec<TcpStream>,
}

/// Who is not in by then hears nothing: on one machine a connection takes no time.
const PATIENCE: Duration = Duration::from_millis(300);
/// Connections that fill the queue: more than a queue without room can have.
const QUEUE_MAX: usize = 16;

impl Deaf {
    /// On a port that is free.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the port answers all the same.
    pub fn open() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // Once more, with a shorter queue.
        listen(&listener, Backlog::new(0)?)?;
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&place, PATIENCE) {
            queue.push(stream);
            ensure!(queue.len() < QUEUE_MAX, "port {port} answers, however many wait");
        }
        ensure!(!queue.is_empty(), "port {port} refuses");
        Ok(Self { port, _listener: listener, _queue: queue })
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.port
    }
}
