//! Records conversations of a replica with real servers, byte by byte: `crates/wire/tests/conversations`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::{Launch, TestServer};
use wire::{
    ClientHandshake, ClientOptions, HandshakeStep, PacketCodec, ReplicaConversation, ReplicaEnd,
    ReplicaOptions, ReplicaStart, ReplicaStep, SemiSync, ServerKeySource,
};

/// Number of bytes per line.
const LINE_SIZE: usize = 48;

/// Function that returns the launch of a server.
type LaunchFunction = fn() -> Launch;

/// Servers with a recorded conversation, and the file of each.
pub const CONVERSATIONS: [(&str, LaunchFunction); 2] =
    [("mysql-9.7.txt", Launch::mysql), ("mariadb-10.11.txt", Launch::mariadb)];

/// Returns the client options of all recordings; fixed values replace the random ones.
pub fn client() -> ClientOptions {
    ClientOptions {
        server_key: ServerKeySource::Ask,
        attributes: vec![("program_name".to_owned(), "bintide".to_owned())],
        ..ClientOptions::new("repl", "secret", [7; 20])
    }
}

/// Returns the replica options: the first log, up to its end.
pub fn replica() -> ReplicaOptions {
    ReplicaOptions {
        server_id: 77,
        uuid: "0afe4a3e-5a5b-11ef-9f3a-000000000077".to_owned(),
        report_host: "replica".to_owned(),
        report_port: 3307,
        heartbeat: Duration::from_secs(30),
        semi_sync: SemiSync::Off,
        start: ReplicaStart::Position { file: b"binlog.000001".to_vec(), position: 4 },
        end: ReplicaEnd::LastEvent,
    }
}

/// Records a conversation with a new server: lines of `client` or `server`, and hexadecimal digits.
///
/// # Errors
///
/// Fails if the server does not start, or the handshake or the dump fails.
pub fn record(launch: &Launch) -> Result<String> {
    let server = launch.clone().option("--server-id=1").start()?;
    server.sql(
        "create user repl@'%' identified by 'secret'; grant replication slave on *.* to repl@'%';
         create database d; create table d.t (a int primary key); insert into d.t values (1), (2);
         flush binary logs; delete from d.t",
    )?;
    let mut wire = ConversationRecorder::connect(&server)?;
    let mut handshake = ClientHandshake::new(client());
    let mut next = HandshakeStep::Wait;
    let session = loop {
        next = match next {
            HandshakeStep::Wait => handshake.read(&wire.next()?)?,
            HandshakeStep::Send(payload) => {
                wire.send(&payload)?;
                HandshakeStep::Wait
            }
            HandshakeStep::StartTls(_) => bail!("a recorded conversation must not use TLS"),
            HandshakeStep::Done(session) => break session,
        };
    };
    let (mut conversation, mut command) = ReplicaConversation::begin(replica(), session)?;
    loop {
        wire.packets.begin_command();
        wire.send(&command)?;
        command = loop {
            match conversation.read(&wire.next()?)? {
                ReplicaStep::Send(command) => break command,
                ReplicaStep::Wait | ReplicaStep::Event(_) => {}
                ReplicaStep::End => return Ok(wire.text),
            }
        };
    }
}

struct ConversationRecorder {
    stream: TcpStream,
    packets: PacketCodec,
    text: String,
}

impl ConversationRecorder {
    fn connect(server: &TestServer) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", server.port()))?;
        Ok(Self { stream, packets: PacketCodec::new(1 << 24), text: String::new() })
    }

    fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.packets.send(payload);
        let bytes = self.packets.output().to_vec();
        self.packets.mark_sent(bytes.len());
        self.stream.write_all(&bytes)?;
        note(&mut self.text, "client", &bytes);
        Ok(())
    }

    fn next(&mut self) -> Result<Vec<u8>> {
        while !self.packets.is_ready()? {
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            ensure!(count > 0, "the server closed the connection");
            self.packets.receive(&bytes[..count]);
            note(&mut self.text, "server", &bytes[..count]);
        }
        Ok(self.packets.next()?.context("no complete packet")?.to_vec())
    }
}

/// Appends the bytes that `side` has sent, in lines.
pub fn note(text: &mut String, side: &str, bytes: &[u8]) {
    for line in bytes.chunks(LINE_SIZE) {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{side} {digits}\n"));
    }
}
