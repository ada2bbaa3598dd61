//! A server that clients log in to: the server's side of `wire` on blocking sockets, with TLS. It answers every query
//! with one row, and sends a log if it has one.

use std::collections::HashMap;
use std::io::{self, Cursor, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::{PackageHome, TestPackage};
use wire::{
    AckRequest, Capabilities, ClientCommand, ColumnDefinition, EofPacket, EventPacket, HandshakeOptions,
    OkPacket, PacketCodec, PasswordDigest, PasswordKey, PasswordPlugin, ResponseWriter, ResultValue,
    RowEncoding, SemiSync, SemiSyncAck, ServerError, ServerHandshake, ServerSession, ServerStatement,
    ServerStatus, ServerStep, StoredPassword, Transport,
};

use crate::conversation;
use crate::test_listener::TestListener;

/// Seed of all connections, fixed so that conversations with it can be recorded.
pub const SEED: [u8; 32] = [7; 32];

/// Interval at which a thread that sends events polls for the client's answer.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of the event type.
const FORMAT_DESCRIPTION: u8 = 15;
/// Maximum size of a packet from a client, in bytes.
const PACKET_SIZE_MAX: usize = 64 << 20;

/// Options of a login server.
#[derive(Clone, Debug)]
pub struct LoginServerOptions {
    /// Version in the greeting.
    pub version: String,
    /// Authentication plugin in the greeting.
    pub plugin: PasswordPlugin,
    /// Name and password of each account.
    pub accounts: HashMap<String, StoredPassword>,
    /// RSA key for clients without TLS.
    pub password_key: Option<Arc<PasswordKey>>,
    /// Events of the log; if there are none, the server refuses to send a log.
    pub log: Vec<Vec<u8>>,
}

/// Password of the accounts of [`LoginServerOptions::usual`].
pub const PASSWORD: &str = "secret";

impl LoginServerOptions {
    /// Returns options with three accounts, `caching`, `native` and `empty` (without a password), and a fixed key.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be created.
    pub fn usual(version: &str, plugin: PasswordPlugin) -> Result<Self> {
        let caching = StoredPassword::caching_sha2(PASSWORD.as_bytes(), [1; 32])?;
        let native = StoredPassword::native(PASSWORD.as_bytes());
        let empty = StoredPassword::empty(plugin);
        let accounts = [("caching", caching), ("native", native), ("empty", empty)];
        Ok(Self {
            version: version.to_owned(),
            plugin,
            accounts: accounts.map(|(name, password)| (name.to_owned(), password)).into(),
            password_key: Some(Arc::new(PasswordKey::generate([3; 32])?)),
            log: Vec::new(),
        })
    }
}

/// A client that has logged in, or whose login was refused.
#[derive(Clone, Debug)]
pub struct LoginRecord {
    /// Login session; the error number if the login was refused.
    pub outcome: Result<ServerSession, u16>,
    /// Commands of the client: SQL and requests for a log only.
    pub commands: Vec<String>,
    /// Bytes that both sides sent without TLS, in the lines of [`conversation::note`].
    pub transcript: String,
}

/// A server that accepts the logins of its accounts, until it is dropped.
#[derive(Debug)]
pub struct LoginServer {
    shared: Arc<LoginShared>,
    listener: TestListener,
}

#[derive(Debug)]
struct LoginShared {
    options: LoginServerOptions,
    tls: Arc<ServerConfig>,
    next_connection: AtomicU32,
    /// Password digest of each account that has sent its password itself.
    digests: Mutex<HashMap<Vec<u8>, PasswordDigest>>,
    records: Mutex<Vec<LoginRecord>>,
}

impl LoginServer {
    /// Starts the server on a free port of 127.0.0.1, with a new certificate.
    ///
    /// # Errors
    ///
    /// Fails if no port is free, or the certificate cannot be created.
    pub fn start(options: LoginServerOptions) -> Result<Self> {
        let shared = Arc::new(LoginShared {
            options,
            tls: Arc::new(tls_config()?),
            next_connection: AtomicU32::new(1),
            digests: Mutex::default(),
            records: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let listener = TestListener::start(move |stream| serve(stream, &serving))?;
        Ok(Self { shared, listener })
    }

    /// Returns the port that the server listens on.
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Returns the version in the greeting.
    pub fn version(&self) -> &str {
        &self.shared.options.version
    }

    /// Removes and returns the records of the clients that have disconnected.
    pub fn take_records(&self) -> Vec<LoginRecord> {
        std::mem::take(&mut lock(&self.shared.records))
    }

    /// Clears the digest cache: the next client has to send its password itself.
    pub fn forget(&self) {
        lock(&self.shared.digests).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tls_config() -> Result<ServerConfig> {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .context("could not create a certificate")
}

/// A connection; the login may switch it to TLS.
enum ClientStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, BufferedStream>>),
}

/// A socket with bytes that were already read from it.
struct BufferedStream {
    received: Cursor<Vec<u8>>,
    stream: TcpStream,
}

impl Read for BufferedStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.received.read(bytes)? {
            0 => self.stream.read(bytes),
            count => Ok(count),
        }
    }
}

impl Write for BufferedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// One client: its connection and its packets.
struct LoginClient {
    stream: ClientStream,
    packets: PacketCodec,
    transcript: String,
}

impl LoginClient {
    /// Sends the pending bytes.
    fn flush(&mut self) -> io::Result<()> {
        let output = self.packets.output();
        let size = output.len();
        match &mut self.stream {
            ClientStream::Plain(stream) => {
                conversation::note(&mut self.transcript, "server", output);
                stream.write_all(output)?;
            }
            ClientStream::Tls(stream) => {
                stream.write_all(output)?;
                stream.flush()?;
            }
        }
        self.packets.mark_sent(size);
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        self.flush()?;
        let room = self.packets.read_buffer();
        let count = match &mut self.stream {
            ClientStream::Plain(stream) => {
                let count = stream.read(room)?;
                conversation::note(&mut self.transcript, "client", &room[..count]);
                count
            }
            ClientStream::Tls(stream) => stream.read(room)?,
        };
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.packets.commit_read(count);
                Ok(())
            }
        }
    }

    fn start_tls(self, received: Vec<u8>, tls: &Arc<ServerConfig>) -> io::Result<Self> {
        let ClientStream::Plain(stream) = self.stream else { panic!("TLS starts once") };
        let connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
        let stream = BufferedStream { received: Cursor::new(received), stream };
        let stream = ClientStream::Tls(Box::new(StreamOwned::new(connection, stream)));
        Ok(Self { stream, packets: self.packets, transcript: self.transcript })
    }
}

fn serve(stream: TcpStream, shared: &LoginShared) -> io::Result<()> {
    let client = LoginClient {
        stream: ClientStream::Plain(stream),
        packets: PacketCodec::new(0),
        transcript: String::new(),
    };
    let Some((mut client, outcome)) = log_in(client, shared)? else { return Ok(()) };
    let mut served = ServedClient {
        version: &shared.options.version,
        log: &shared.options.log,
        semi_sync: SemiSync::Off,
        capabilities: outcome.as_ref().map_or(Capabilities::default(), |session| session.capabilities),
        statement: None,
        commands: Vec::new(),
    };
    let result = match &outcome {
        Ok(_) => answer(&mut client, &mut served),
        Err(_) => client.flush(),
    };
    lock(&shared.records).push(LoginRecord {
        outcome,
        commands: served.commands,
        transcript: client.transcript,
    });
    result
}

/// Result of a login: the session, or the number of the error.
type LoginOutcome = Result<ServerSession, u16>;

fn log_in(mut client: LoginClient, shared: &LoginShared) -> io::Result<Option<(LoginClient, LoginOutcome)>> {
    let options = HandshakeOptions {
        server_version: shared.options.version.clone(),
        connection_id: shared.next_connection.fetch_add(1, Ordering::Relaxed),
        capabilities: ServerHandshake::CAPABILITIES,
        plugin: shared.options.plugin,
        transport: Transport::Network,
        client_host: "localhost".to_owned(),
        password_key: shared.options.password_key.clone(),
        packet_limit: PACKET_SIZE_MAX,
        seed: SEED,
    };
    let mut handshake = ServerHandshake::begin(options, &mut client.packets);
    let mut user = Vec::new();
    let mut step = ServerStep::Receive;
    loop {
        step = match step {
            ServerStep::Receive => {
                client.receive()?;
                handshake.advance(&mut client.packets)
            }
            ServerStep::StartTls { received } => {
                client = client.start_tls(received, &shared.tls)?;
                handshake.continue_over_tls()
            }
            ServerStep::FindAccount(login) => {
                user = login.user;
                let known =
                    std::str::from_utf8(&user).ok().and_then(|name| shared.options.accounts.get(name));
                let unknown = StoredPassword::no_account(shared.options.plugin);
                let digest = lock(&shared.digests).get(&user).cloned();
                handshake.authenticate(known.unwrap_or(&unknown), digest.as_ref(), &mut client.packets)
            }
            ServerStep::Authenticated(login) => {
                if let Some(digest) = login.digest {
                    lock(&shared.digests).insert(user, digest);
                }
                let session = handshake.accept(&mut client.packets);
                return Ok(Some((client, Ok(session))));
            }
            ServerStep::Refused(refusal) => return Ok(Some((client, Err(refusal.error.code)))),
        }
    }
}

/// State of a client that has logged in.
struct ServedClient<'a> {
    version: &'a str,
    log: &'a [Vec<u8>],
    semi_sync: SemiSync,
    capabilities: Capabilities,
    statement: Option<ServerStatement>,
    commands: Vec<String>,
}

/// Answers commands until the client disconnects.
fn answer(client: &mut LoginClient, served: &mut ServedClient<'_>) -> io::Result<()> {
    let capabilities = served.capabilities;
    loop {
        client.flush()?;
        client.packets.begin_command();
        while !client.packets.is_ready().map_err(io::Error::other)? {
            match client.receive() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            }
        }
        let Some(payload) = client.packets.next().map_err(io::Error::other)?.map(<[u8]>::to_vec) else {
            continue;
        };
        let command = ClientCommand::decode_with(&payload, capabilities);
        let mut response = ResponseWriter::new(&mut client.packets, capabilities);
        match command {
            Ok(ClientCommand::Quit) => return Ok(()),
            Ok(ClientCommand::BinlogDump(dump)) if !served.log.is_empty() => {
                served.commands.push(format!("dump {}", String::from_utf8_lossy(dump.file)));
                return send_log(client, served);
            }
            Ok(command) => respond(&command, &mut response, served),
            Err(error) => response.error(&ServerError::from_wire(&error)),
        }
    }
}

fn respond(command: &ClientCommand<'_>, response: &mut ResponseWriter<'_>, served: &mut ServedClient<'_>) {
    let ok = OkPacket { status: ServerStatus::AUTOCOMMIT, ..OkPacket::default() };
    match command {
        ClientCommand::Query { sql } => {
            let sql = String::from_utf8_lossy(sql).into_owned();
            if sql.starts_with("SET @rpl_semi_sync") {
                served.semi_sync = SemiSync::On;
            }
            query(&sql, response, served.version);
            served.commands.push(sql);
        }
        ClientCommand::Prepare { sql } => {
            let parameters = sql.iter().filter(|byte| **byte == b'?').count() as u16;
            let prepared = response.prepared(1, parameters, &[ColumnDefinition::integer(b"1")]);
            served.statement = Some(ServerStatement::new(&prepared));
        }
        ClientCommand::ExecuteStatement { payload, .. } => {
            let statement = served.statement.as_mut();
            let execution =
                statement.map(|statement| statement.decode_execution(payload, served.capabilities));
            let Some(Ok(execution)) = execution else {
                return response.error(&ServerError::malformed_packet());
            };
            served.commands.push(format!("execute {:?}", execution.parameters));
            row(response, "1", ResultValue::Int(1), RowEncoding::Binary);
        }
        ClientCommand::CloseStatement { .. } | ClientCommand::SendLongData { .. } => {}
        ClientCommand::SetOption { .. } => response.eof(EofPacket::default()),
        ClientCommand::Statistics => response.statistics(b"Uptime: 1"),
        ClientCommand::Ping | ClientCommand::InitDatabase { .. } | ClientCommand::ResetConnection => {
            response.ok(&ok);
        }
        ClientCommand::RegisterReplica(register) => {
            served.commands.push(format!("register {}", register.server_id));
            response.ok(&ok);
        }
        ClientCommand::BinlogDump(dump) => {
            served.commands.push(format!("dump {}", String::from_utf8_lossy(dump.file)));
            no_log(response);
        }
        ClientCommand::BinlogDumpGtid(dump) => {
            served.commands.push(format!("dump after {:?}", dump.gtid_set().map(|set| set.to_string())));
            no_log(response);
        }
        _ => response.error(&ServerError::unknown_command()),
    }
}

/// Sends the log, and waits until the client disconnects. With semi-synchronous replication, it requests an
/// acknowledgement of each event.
fn send_log(client: &mut LoginClient, served: &mut ServedClient<'_>) -> io::Result<()> {
    let capabilities = served.capabilities;
    client.packets.ignore_sequence();
    for event in served.log {
        // Replicas do not acknowledge artificial events.
        let is_of_file = event[..4] != [0; 4] && event[4] != FORMAT_DESCRIPTION;
        let acknowledge = match served.semi_sync {
            SemiSync::On if is_of_file => AckRequest::Requested,
            SemiSync::On | SemiSync::Off => AckRequest::No,
        };
        let packet = EventPacket { acknowledge, event };
        ResponseWriter::new(&mut client.packets, capabilities).event(&packet, served.semi_sync);
        if acknowledge == AckRequest::Requested {
            while !client.packets.is_ready().map_err(io::Error::other)? {
                client.receive()?;
            }
            let payload = client.packets.next().map_err(io::Error::other)?.unwrap_or_default();
            let ack = SemiSyncAck::decode(payload).map_err(io::Error::other)?;
            served.commands.push(format!("ack {} {}", String::from_utf8_lossy(ack.file), ack.position));
        }
    }
    loop {
        match client.receive() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
    }
}

fn no_log(response: &mut ResponseWriter<'_>) {
    let message = "Could not find first log file name in binary log index file";
    response.error(&ServerError::new(1236, "HY000", message));
}

fn query(sql: &str, response: &mut ResponseWriter<'_>, version: &str) {
    let lower = sql.to_ascii_lowercase();
    if !lower.starts_with("select") && !lower.starts_with("show") {
        let ok = OkPacket { status: ServerStatus::AUTOCOMMIT, ..OkPacket::default() };
        return response.ok(&ok);
    }
    // The client of MySQL 9 sends this query to find out whether the server supports dollar quotes. This server does
    // not.
    if lower == "select $$" {
        return response.error(&ServerError::new(1054, "42S22", "Unknown column '$$' in 'field list'"));
    }
    let name = sql.split_once(' ').map_or(sql, |(_, name)| name);
    let value = match lower.as_str() {
        _ if lower.contains("checksum") => ResultValue::Bytes(b"CRC32"),
        _ if lower.contains("gtid_mode") => ResultValue::Bytes(b"ON"),
        _ if lower.contains("server_uuid") => ResultValue::Bytes(b"0afe4a3e-5a5b-11ef-9f3a-000000000001"),
        _ if lower.contains("version") => ResultValue::Bytes(version.as_bytes()),
        _ => ResultValue::Int(1),
    };
    row(response, name, value, RowEncoding::Text);
}

/// Writes a result set of one row with one value.
fn row(response: &mut ResponseWriter<'_>, name: &str, value: ResultValue<'_>, encoding: RowEncoding) {
    let column = match value {
        ResultValue::Int(_) => ColumnDefinition::integer(name.as_bytes()),
        _ => ColumnDefinition::text(name.as_bytes()),
    };
    let mut rows = response.rows(&[column], encoding);
    rows.values(&[value]);
    rows.end(ServerStatus::AUTOCOMMIT);
}

/// A client with a recorded conversation with a login server.
#[derive(Clone, Copy, Debug)]
pub struct RecordedClient {
    /// File of the conversation.
    pub file: &'static str,
    /// Package of the program.
    pub package: TestPackage,
    /// Name of the program.
    pub program: &'static str,
    /// Account of the login.
    pub user: &'static str,
    /// Arguments, besides address and account.
    pub arguments: &'static [&'static str],
}

/// Clients with recorded conversations: `crates/wire/tests/conversations/clients`.
pub const RECORDED_CLIENTS: [RecordedClient; 5] = [
    RecordedClient {
        file: "mysql-9.7.txt",
        package: TestPackage::Mysql,
        program: "mysql",
        user: "caching",
        arguments: &["--ssl-mode=DISABLED", "--get-server-public-key", "-e", "SELECT 1"],
    },
    RecordedClient {
        file: "mysqlbinlog-9.7.txt",
        package: TestPackage::Mysql,
        program: "mysqlbinlog",
        user: "caching",
        arguments: &["--ssl-mode=DISABLED", "--get-server-public-key", "-R", "binlog.000001"],
    },
    RecordedClient {
        file: "mysql-8.0.33.txt",
        package: TestPackage::Mysql8_0,
        program: "mysql",
        user: "native",
        arguments: &["--ssl-mode=DISABLED", "-e", "SELECT 1"],
    },
    RecordedClient {
        file: "mysql-5.5.34.txt",
        package: TestPackage::Mysql5_5,
        program: "mysql",
        user: "native",
        arguments: &["-e", "SELECT 1"],
    },
    RecordedClient {
        file: "mariadb-10.11.txt",
        package: TestPackage::MariaDb,
        program: "mariadb",
        user: "native",
        arguments: &["--skip-ssl", "-e", "SELECT 1"],
    },
];

impl RecordedClient {
    /// Records the conversation with a new server.
    ///
    /// # Errors
    ///
    /// Fails if the client or the server does not start, or the login is refused.
    pub fn record(&self) -> Result<LoginRecord> {
        let server = LoginServer::start(LoginServerOptions::usual("9.7.4", PasswordPlugin::CachingSha2)?)?;
        let mut command = PackageHome::find(self.package)?.command(self.program)?;
        command.args(["--no-defaults", "--host=127.0.0.1"]).arg(format!("--port={}", server.port()));
        command.arg(format!("--user={}", self.user)).args(self.arguments).env("MYSQL_PWD", PASSWORD);
        let output = command.output()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match server.take_records().pop() {
                Some(record) if record.outcome.is_ok() => return Ok(record),
                Some(_) => bail!("{}", String::from_utf8_lossy(&output.stderr)),
                None if Instant::now() > deadline => bail!("{} has not logged in", self.program),
                None => thread::sleep(POLL_INTERVAL),
            }
        }
    }
}
