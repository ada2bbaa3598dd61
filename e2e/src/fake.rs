//! A fake server: it implements the server's side of the handshake, answers statements by a script, and sends any
//! events. Tests use it as a source or as a target.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use wire::{
    Capabilities, ClientCommand, ColumnDefinition, EofPacket, ErrPacket, OkPacket, PacketCodec, ResultWriter,
    ServerGreeting, ServerStatus,
};

use crate::test_listener::TestListener;

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRequest<'a> {
    /// A statement.
    Query(&'a str),
    /// A request for the log, by position or by GTIDs.
    Dump,
    /// Another command, with its number.
    Other(u8),
}

/// Answer of a fake server to a command.
pub enum Reply {
    /// An OK packet.
    Ok,
    /// A text result set.
    Rows {
        /// Names of the columns.
        columns: Vec<String>,
        /// Values of the rows.
        rows: Vec<Vec<Option<String>>>,
    },
    /// An error packet: number and message.
    Refused(u16, Vec<u8>),
    /// Packets with these payloads.
    Packets(Vec<Vec<u8>>),
    /// Packets with these payloads, until the iterator ends or the client disconnects.
    Stream(Box<dyn FnMut() -> Option<Vec<u8>> + Send>),
    /// Raw bytes, without packet headers.
    Bytes(Vec<u8>),
    /// These bytes, one at a time with pauses.
    Trickle(Vec<u8>, Duration),
    /// No answer; the connection is kept open.
    Silence,
    /// No answer; the connection is closed.
    Close,
}

impl Reply {
    /// Returns a result set of one row with one value.
    pub fn value(value: &str) -> Self {
        Self::Rows { columns: vec!["value".to_owned()], rows: vec![vec![Some(value.to_owned())]] }
    }

    /// Returns events of a log, each in a packet.
    pub fn events(events: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::Packets(events.into_iter().map(event_payload).collect())
    }
}

/// Returns the payload of a packet with an event.
pub fn event_payload(event: Vec<u8>) -> Vec<u8> {
    [vec![0], event].concat()
}

/// Returns the payload of the packet that ends a log.
pub fn end_payload() -> Vec<u8> {
    let mut payload = Vec::new();
    EofPacket::default().encode(Capabilities(0), &mut payload);
    payload
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reply")
    }
}

type ReplyScript = dyn FnMut(ClientRequest<'_>) -> Reply + Send;

/// A server that answers from a script, until it is dropped.
#[derive(Debug)]
pub struct FakeServer {
    shared: Arc<FakeServerShared>,
    listener: TestListener,
}

struct FakeServerShared {
    version: String,
    script: Mutex<Box<ReplyScript>>,
    is_over: AtomicBool,
}

impl fmt::Debug for FakeServerShared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FakeServerShared").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Capabilities of a fake server: plain packets of MySQL 5.7 and later, no TLS.
const CAPABILITIES: [Capabilities; 8] = [
    Capabilities::LONG_PASSWORD,
    Capabilities::LONG_FLAG,
    Capabilities::PROTOCOL_41,
    Capabilities::TRANSACTIONS,
    Capabilities::SECURE_CONNECTION,
    Capabilities::MULTI_STATEMENTS,
    Capabilities::MULTI_RESULTS,
    Capabilities::PLUGIN_AUTH,
];

/// Maximum size of a packet from a client, in bytes.
const PACKET_SIZE_MAX: usize = 64 << 20;

impl FakeServer {
    /// Starts the server on a free port of 127.0.0.1, with `version` in its greeting.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub fn start(
        version: &str,
        script: impl FnMut(ClientRequest<'_>) -> Reply + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(FakeServerShared {
            version: version.to_owned(),
            script: Mutex::new(Box::new(script)),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let listener = TestListener::start(move |stream| serve(stream, &serving))?;
        Ok(Self { shared, listener })
    }

    /// Returns the server's address with a valid account, without TLS.
    pub fn address(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/?tls=off", self.port())
    }

    /// Returns the port that the server listens on.
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        // Payload iterators may be endless: this flag stops them, so that the listener can be dropped.
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

/// Accepts the login of a client, and answers its commands until it disconnects.
fn serve(stream: TcpStream, shared: &FakeServerShared) -> io::Result<()> {
    let mut client = Client { stream, packets: PacketCodec::new(PACKET_SIZE_MAX) };
    let capabilities = CAPABILITIES.iter().fold(Capabilities(0), |all, one| Capabilities(all.0 | one.0));
    let greeting = ServerGreeting {
        server_version: shared.version.as_bytes(),
        connection_id: 7,
        nonce: (b"12345678", b"123456789012"),
        capabilities,
        collation: 255,
        status: 2,
        plugin: b"mysql_native_password",
    };
    client.send(|out| greeting.encode(out))?;
    client.next()?;
    // Any password is accepted.
    client.send(|out| OkPacket::default().encode(capabilities, out))?;
    loop {
        client.packets.begin_command();
        let payload = client.next()?;
        let text;
        let asked = match ClientCommand::decode(&payload) {
            Ok(ClientCommand::Quit) => return Ok(()),
            Ok(ClientCommand::Query { sql }) => {
                text = String::from_utf8_lossy(sql);
                ClientRequest::Query(&text)
            }
            Ok(ClientCommand::BinlogDump(_) | ClientCommand::BinlogDumpGtid(_)) => ClientRequest::Dump,
            _ => ClientRequest::Other(payload.first().copied().unwrap_or_default()),
        };
        let reply = shared.script.lock().unwrap_or_else(PoisonError::into_inner)(asked);
        client.answer(reply, capabilities, shared)?;
    }
}

struct Client {
    stream: TcpStream,
    packets: PacketCodec,
}

impl Client {
    fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(payload) = self.packets.next().map_err(io::Error::other)? {
                return Ok(payload.to_vec());
            }
            let mut bytes = [0; 16 << 10];
            let size = self.stream.read(&mut bytes)?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.packets.receive(&bytes[..size]);
        }
    }

    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut payload = Vec::new();
        encode(&mut payload);
        self.packets.send(&payload);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let size = self.packets.output().len();
        self.stream.write_all(self.packets.output())?;
        self.packets.mark_sent(size);
        Ok(())
    }

    fn answer(
        &mut self,
        reply: Reply,
        capabilities: Capabilities,
        shared: &FakeServerShared,
    ) -> io::Result<()> {
        match reply {
            Reply::Ok => self.send(|out| OkPacket::default().encode(capabilities, out)),
            Reply::Refused(code, message) => {
                let refusal = ErrPacket { code, state: Some(b"HY000"), message: &message };
                self.send(|out| refusal.encode(out))
            }
            Reply::Rows { columns, rows } => {
                put_rows(&mut self.packets, capabilities, &columns, &rows);
                self.flush()
            }
            Reply::Packets(payloads) => {
                payloads.into_iter().try_for_each(|payload| self.send(|out| *out = payload))
            }
            Reply::Stream(mut next) => {
                while let Some(payload) = next().filter(|_| !shared.is_over.load(Ordering::Relaxed)) {
                    self.send(|out| *out = payload)?;
                }
                Ok(())
            }
            Reply::Bytes(bytes) => self.stream.write_all(&bytes),
            Reply::Trickle(bytes, pause) => bytes.into_iter().try_for_each(|byte| {
                thread::sleep(pause);
                self.stream.write_all(&[byte])
            }),
            Reply::Silence => self.stream.read_to_end(&mut Vec::new()).map(drop),
            Reply::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

fn put_rows(
    packets: &mut PacketCodec,
    capabilities: Capabilities,
    columns: &[String],
    rows: &[Vec<Option<String>>],
) {
    let columns: Vec<ColumnDefinition<'_>> = columns
        .iter()
        .map(|name| ColumnDefinition {
            schema: b"",
            table: b"",
            org_table: b"",
            name: name.as_bytes(),
            org_name: name.as_bytes(),
            collation: 255,
            size: 1024,
            column_type: 253,
            flags: 0,
            decimals: 0,
        })
        .collect();
    let mut writer = ResultWriter::begin(packets, capabilities, &columns);
    for row in rows {
        let values: Vec<Option<&[u8]>> =
            row.iter().map(|value| value.as_ref().map(String::as_bytes)).collect();
        writer.row(&values);
    }
    writer.end(ServerStatus::default());
}
