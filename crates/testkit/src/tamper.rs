//! A proxy that changes a server's packets: single bytes or whole packets.
//!
//! ```text
//! client ──────────▶ server          as it is
//!        ◀─ tamper ─                 packet by packet, each with its header
//! ```

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// A packet from the server to the client.
#[derive(Debug)]
pub struct ServerPacket<'p> {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Number of the packet in the connection, from 0.
    pub number: usize,
    /// The header of four bytes and the payload. The client receives these bytes as the callback has changed them.
    pub bytes: &'p mut Vec<u8>,
}

/// Handling of a connection after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterPacket {
    /// The next packet follows.
    More,
    /// The connection is closed.
    Close,
    /// The connection stays open, but no packet follows.
    Silence,
}

type PacketTamper = dyn FnMut(ServerPacket<'_>) -> AfterPacket + Send;

/// A proxy on a port of its own that changes a server's packets. Connections must be plain: TLS would hide the packets.
/// Dropping the proxy closes its connections.
#[derive(Debug)]
pub struct TamperProxy {
    port: u16,
    shared: Arc<TamperShared>,
    accepting: Option<JoinHandle<()>>,
}

struct TamperShared {
    change: Mutex<Box<PacketTamper>>,
    is_over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl fmt::Debug for TamperShared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TamperShared").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// Interval at which a waiting thread checks whether the proxy was dropped.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of a packet's header.
const HEADER_SIZE: usize = 4;

impl TamperProxy {
    /// Creates a proxy for this port of 127.0.0.1. `change` is called with every packet of the server.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub fn to(
        server: u16,
        change: impl FnMut(ServerPacket<'_>) -> AfterPacket + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not find a free port")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (change, streams) = (Mutex::new(Box::new(change) as Box<PacketTamper>), Mutex::default());
        let shared = Arc::new(TamperShared { change, is_over: AtomicBool::new(false), streams });
        let line = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, server, &line));
        Ok(Self { port, shared, accepting: Some(accepting) })
    }

    /// Returns the proxy's port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Replaces the function that changes packets.
    pub fn change(&self, change: impl FnMut(ServerPacket<'_>) -> AfterPacket + Send + 'static) {
        *self.shared.change.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(change);
    }
}

impl Drop for TamperProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            // If the thread panicked, its message has been printed.
            let _ = accepting.join();
        }
        for stream in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, server: u16, shared: &Arc<TamperShared>) {
    let mut number = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((client, _)) => {
                // If the server is down, the client's connection is closed.
                let _ = connect(client, server, number, shared);
                number += 1;
            }
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

fn connect(client: TcpStream, server: u16, number: usize, shared: &Arc<TamperShared>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    client.set_nonblocking(false)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        shared.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream.try_clone()?);
    }
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        // A lost connection is no error here: the other side's connection is closed, too.
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        if tamper(&server, &client, number, &shared).is_ok_and(|after| after == AfterPacket::Silence) {
            return;
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn tamper(
    mut server: &TcpStream,
    mut client: &TcpStream,
    connection: usize,
    shared: &TamperShared,
) -> io::Result<AfterPacket> {
    for number in 0.. {
        let mut bytes = vec![0; HEADER_SIZE];
        server.read_exact(&mut bytes)?;
        let size = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize;
        bytes.resize(HEADER_SIZE + size, 0);
        server.read_exact(&mut bytes[HEADER_SIZE..])?;
        let packet = ServerPacket { connection, number, bytes: &mut bytes };
        let after = shared.change.lock().unwrap_or_else(PoisonError::into_inner)(packet);
        client.write_all(&bytes)?;
        if after != AfterPacket::More {
            return Ok(after);
        }
    }
    Ok(AfterPacket::Close)
}
