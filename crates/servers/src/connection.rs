//! One SQL connection.

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable as _;
use mysql::{Conn, LocalInfileHandler, OptsBuilder, SslOpts};

use crate::address::{Address, PublicKey};
use crate::error::Error;
use crate::reach;
use crate::silence::{Found, UnderWay, Watch};
use crate::tls_policy::{SslMode, TlsPolicy};

/// One SQL connection. Statements may hold several, with semicolons between: the first that fails ends the run.
///
/// Over TCP, a server that is silent for longer than its address allows, and not because it is still running what it
/// was asked for, is given up: that is [`Error::Lost`], after twice that time at the latest.
pub struct Connection {
    /// In front of the connection, which must outlive it.
    watch: Option<Watch>,
    /// Of the server, for errors.
    place: String,
    conn: Conn,
    /// What the next `LOAD DATA LOCAL` sends.
    file: Arc<Mutex<Vec<u8>>>,
}

/// A row of an answer: its values as text, `None` for NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// A row whose values have their columns' names in front.
pub type NamedRow = Vec<(String, Option<Vec<u8>>)>;

/// A value for a place that a prepared statement leaves open.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// Four bytes.
    Float(f32),
    /// Eight bytes.
    Double(f64),
    /// Bytes: text in the session's `character_set_client`.
    Bytes(Vec<u8>),
}

impl Parameter {
    /// The bytes that it takes in a packet, about: never fewer.
    pub const fn size(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Int(_) | Self::UInt(_) | Self::Float(_) | Self::Double(_) => 8,
            Self::Bytes(bytes) => bytes.len() + 9,
        }
    }
}

/// Would a server that takes packets of so many bytes take a statement with these parameters? Together they have to
/// fit; if they are of more than 16 MiB, they are sent ahead of it in pieces (`COM_STMT_SEND_LONG_DATA`), and each of
/// them has to fit by itself.
///
/// # Errors
///
/// With the bytes that do not fit.
pub fn fit(parameters: &[Parameter], packet_max: usize) -> Result<(), usize> {
    let whole: usize = parameters.iter().map(Parameter::size).sum();
    let largest = parameters.iter().map(Parameter::size).max().unwrap_or(0);
    match whole {
        _ if whole <= packet_max => Ok(()),
        IN_PIECES.. if largest <= packet_max => Ok(()),
        IN_PIECES.. => Err(largest),
        _ => Err(whole),
    }
}

/// Parameters of so many bytes go in pieces. A little more than the client's own measure, whose reckoning is finer.
const IN_PIECES: usize = (16 << 20) + (64 << 10);

/// Prepared statements that a connection keeps. Bounds what the server holds for it.
const PREPARED_MAX: usize = 256;

/// A statement that cannot be prepared.
const NOT_PREPARABLE: u16 = 1295;

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or refuses, or when it was called off.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let file = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&file);
        let handler = LocalInfileHandler::new(move |_, stream| match sent.lock() {
            Ok(file) => stream.write_all(&file),
            Err(_) => Err(std::io::Error::other("the file to send is lost")),
        });
        let options = options(address).local_infile_handler(Some(handler));
        address.tls.check()?;
        if let Some(authorities) = &address.tls.authorities {
            File::open(authorities)
                .map_err(|error| Error::Tls(format!("could not read {}: {error}", authorities.display())))?;
        }
        // The client panics where a key is of no use.
        address.server_key()?;
        let (place, silence_max) = (address.place(), address.silence_max());
        let connected = reach::within(silence_max, &address.cancel, move || Conn::new(options));
        let in_vain = || {
            let seconds = silence_max.unwrap_or_default().as_secs();
            Error::lost(format!("it has not let us in within {seconds} seconds")).at(&place)
        };
        let conn = connected
            .map_err(|error| error.at(&place))?
            .ok_or_else(in_vain)?
            .map_err(|error| Error::of_opening(error, address))?;
        let Some(silence_max) = silence_max else {
            return Ok(Self { watch: None, place, conn, file });
        };
        let (address, id) = (address.clone(), conn.connection_id());
        let watch = Watch::new(conn.as_raw_fd(), silence_max, move |patience| ask(&address, id, patience));
        Ok(Self { watch: Some(watch), place, conn, file })
    }

    /// The server's number for this connection.
    pub fn id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Runs statements, and passes over what they answer.
    ///
    /// # Errors
    ///
    /// When one of them is refused (those behind it are not run), or the connection is gone.
    pub fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.run_and(sql, || ())
    }

    /// As [`Connection::run`]; `first_done` is called once the first statement has been run, while the others are
    /// still under way.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn run_and(&mut self, sql: &str, first_done: impl FnOnce()) -> Result<(), Error> {
        self.request(sql.len(), |conn| {
            let mut answers = conn.query_iter(sql)?;
            first_done();
            // What a later statement says comes only when it is asked for.
            while let Some(answer) = answers.iter() {
                for row in answer {
                    row?;
                }
            }
            Ok(())
        })
    }

    /// Does what waits for the server.
    fn request<T>(
        &mut self,
        size: usize,
        request: impl FnOnce(&mut Conn) -> Result<T, mysql::Error>,
    ) -> Result<T, Error> {
        let under_way: Option<UnderWay> = self.watch.as_ref().map(|watch| watch.request(size));
        let result = request(&mut self.conn).map_err(Error::from);
        drop(under_way);
        let result = match (result, self.watch.as_ref().and_then(Watch::ended)) {
            (Err(Error::Lost { .. }), Some(why)) => Err(Error::lost(why)),
            (result, _) => result,
        };
        result.map_err(|error| error.at(&self.place))
    }

    /// Runs one statement whose text need not be UTF-8.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`]; also when such a text cannot be prepared, as those of triggers and routines.
    pub fn run_bytes(&mut self, sql: &[u8]) -> Result<(), Error> {
        if let Ok(text) = str::from_utf8(sql) {
            return self.run(text);
        }
        let mut text = String::from("SET @bintide_statement = X'");
        put_hex(&mut text, sql);
        text.push_str("'; PREPARE bintide_statement FROM @bintide_statement; SET @bintide_statement = NULL");
        match self.run(&text) {
            Err(Error::Refused { code: NOT_PREPARABLE, message }) => return Err(Error::NotText(message)),
            result => result?,
        }
        self.run("EXECUTE bintide_statement; DEALLOCATE PREPARE bintide_statement")
    }

    /// Runs `LOAD DATA LOCAL`, with this for the file.
    ///
    /// # Errors
    ///
    /// As [`Connection::run_bytes`].
    pub fn load(&mut self, sql: &[u8], file: Vec<u8>) -> Result<(), Error> {
        if let Ok(mut sent) = self.file.lock() {
            *sent = file;
        }
        let result = self.run_bytes(sql);
        if let Ok(mut sent) = self.file.lock() {
            *sent = Vec::new();
        }
        result
    }

    /// Runs one statement, prepared and kept for the next time, with these in the places of its `?`; gives how many
    /// rows it changed, or found, if it is an `UPDATE`.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn execute(&mut self, sql: &str, parameters: Vec<Parameter>) -> Result<u64, Error> {
        let parameters: Vec<mysql::Value> = parameters.into_iter().map(mysql::Value::from).collect();
        let size =
            parameters.iter().map(|value| usize::try_from(value.bin_len()).unwrap_or(usize::MAX)).sum();
        self.request(size, |conn| {
            conn.exec_drop(sql, mysql::Params::Positional(parameters))?;
            Ok(conn.affected_rows())
        })
    }

    /// The rows that a query answers with.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.request(sql.len(), |conn| {
            let answer = conn.query_iter(sql)?;
            answer.map(|row| Ok(row?.unwrap().into_iter().map(text).collect())).collect()
        })
    }

    /// The rows that a query answers with, each value with its column's name in front: for answers whose columns are
    /// not the same on all servers.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn named_rows(&mut self, sql: &str) -> Result<Vec<NamedRow>, Error> {
        self.request(sql.len(), |conn| {
            let answer = conn.query_iter(sql)?;
            let columns = answer.columns();
            let names: Vec<String> =
                columns.as_ref().iter().map(|column| column.name_str().into_owned()).collect();
            let named = |row: mysql::Row| {
                names.iter().cloned().zip(row.unwrap().into_iter().map(text)).collect::<NamedRow>()
            };
            answer.map(|row| Ok(named(row?))).collect()
        })
    }

    /// Hands on the rows that a query answers with, one by one: as many as `take` wants. They are all sent by the
    /// server in any case.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn each_row(&mut self, sql: &str, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Error> {
        self.request(sql.len(), |conn| {
            for row in conn.query_iter(sql)? {
                if take(row?.unwrap().into_iter().map(text).collect()).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The first value of the first row, if there is one and it is not NULL.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let first = self.rows(sql)?.into_iter().next();
        let value = first.and_then(|row| row.into_iter().next()).flatten();
        Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// How to connect, but for files that are sent.
fn options(address: &Address) -> OptsBuilder {
    let options = OptsBuilder::new()
        .user(Some(&address.user))
        .pass(address.password.as_ref())
        .prefer_socket(false)
        .stmt_cache_size(PREPARED_MAX)
        // An UPDATE counts the rows that it finds, those that it leaves as they are too.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
    match &address.socket {
        Some(socket) => options.socket(Some(socket.display().to_string())),
        None => options
            .ip_or_hostname(Some(&address.host))
            .tcp_port(address.port)
            .ssl_opts(tls(&address.tls))
            .server_key_path(key_path(&address.public_key)),
    }
}

/// Without a file this client would ask the server for the key. One that is not there keeps it from that.
fn key_path(key: &PublicKey) -> Option<PathBuf> {
    match key {
        PublicKey::Unknown => Some(PathBuf::new()),
        PublicKey::OfServer => None,
        PublicKey::File(path) => Some(path.clone()),
    }
}

/// Asks a server, over a new connection, what it does for one of ours.
fn ask(address: &Address, id: u32, patience: Duration) -> Found {
    let options = options(address)
        .tcp_connect_timeout(Some(patience))
        .read_timeout(Some(patience))
        .write_timeout(Some(patience));
    let asked = Conn::new(options).and_then(|mut conn| conn.query::<mysql::Row, _>("SHOW PROCESSLIST"));
    let rows = match asked {
        Ok(rows) => rows,
        Err(error) => return Found::Unheard(Error::from(error).to_string()),
    };
    let ours = rows.into_iter().find(|row| row.get::<u32, _>("Id") == Some(id));
    match ours.and_then(|row| row.get::<String, _>("Command")) {
        Some(command) if command != "Sleep" => Found::Busy,
        _ => Found::Idle,
    }
}

impl From<Parameter> for mysql::Value {
    fn from(parameter: Parameter) -> Self {
        match parameter {
            Parameter::Null => Self::NULL,
            Parameter::Int(number) => Self::Int(number),
            Parameter::UInt(number) => Self::UInt(number),
            Parameter::Float(number) => Self::Float(number),
            Parameter::Double(number) => Self::Double(number),
            Parameter::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "connection {}", self.id())
    }
}

fn tls(policy: &TlsPolicy) -> Option<SslOpts> {
    let options = SslOpts::default();
    match policy.mode {
        SslMode::Disabled | SslMode::Preferred => None,
        SslMode::Required => {
            Some(options.with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true))
        }
        SslMode::VerifyCa => Some(
            options.with_root_cert_path(policy.authorities.clone()).with_danger_skip_domain_validation(true),
        ),
        SslMode::VerifyIdentity => Some(options.with_root_cert_path(policy.authorities.clone())),
    }
}

/// Answers to plain statements come as text.
fn text(value: mysql::Value) -> Option<Vec<u8>> {
    match value {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(bytes),
        other => Some(other.as_sql(true).into_bytes()),
    }
}

fn put_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
}
