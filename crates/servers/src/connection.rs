//! One SQL connection.

use std::fmt;
use std::mem;
use std::ops::ControlFlow;
use std::time::Duration;

use wire::{
    Answer, Capabilities, Command, Execution, ParameterValue, Part, PrepareReader, PreparedStatement,
    ResultReader, Status, TextRow,
};

use crate::address::Address;
use crate::error::Error;
use crate::link::{Link, LinkOptions};
use crate::silence::{Found, UnderWay, Watch};
use crate::statement_cache::StatementCache;

/// One SQL connection. Statements may hold several, with semicolons between: the first that fails ends the run.
///
/// Over TCP, a server that is silent for longer than its address allows, and not because it is still running what it
/// was asked for, is given up: that is [`Error::Lost`], after twice that time at the latest.
pub struct Connection {
    /// In front of the client, whose socket must outlive it.
    watch: Option<Watch>,
    /// Of the server, for errors.
    place: String,
    client: SqlClient,
}

/// What speaks with the server.
struct SqlClient {
    link: Link,
    statements: StatementCache,
    /// What the next request of the server for a file gets.
    file: Option<Vec<u8>>,
    health: Health,
}

/// Whether the next answer can be told from the rest of one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Sound,
    Broken,
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

    fn value(&self) -> ParameterValue<'_> {
        match self {
            Self::Null => ParameterValue::Null,
            Self::Int(number) => ParameterValue::Int(*number),
            Self::UInt(number) => ParameterValue::UInt(*number),
            Self::Float(number) => ParameterValue::Float(*number),
            Self::Double(number) => ParameterValue::Double(*number),
            Self::Bytes(bytes) => ParameterValue::Bytes(bytes),
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

/// Parameters of this many bytes go in pieces.
const IN_PIECES: usize = 16 << 20;
/// Bytes of such a piece, and of one of a file: below the least that servers are set to take by default, 1 MiB.
const PIECE_SIZE: usize = 512 << 10;
/// Bytes of rows that are held at once, at most: far more than any of our questions has for an answer.
const ROWS_SIZE_MAX: usize = 1 << 30;

/// What SQL needs of a server. An UPDATE counts the rows that it finds, those that it leaves as they are too.
const WANTED: Capabilities = Capabilities(
    Capabilities::FOUND_ROWS.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0,
);

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or refuses, or when it was called off.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let options = LinkOptions {
            connect_timeout: address.timeout,
            capabilities: WANTED,
            cancel: address.cancel.clone(),
            ..LinkOptions::default()
        };
        let mut link = Link::open(address, &options)?;
        // A statement may take hours: the watch ends the wait.
        link.wait_for_ever();
        let watch = address.silence_max().zip(link.descriptor()).map(|(silence_max, descriptor)| {
            let (address, id) = (address.clone(), link.session().connection_id);
            Watch::new(descriptor, silence_max, move |patience| ask(&address, id, patience))
        });
        let client =
            SqlClient { link, statements: StatementCache::default(), file: None, health: Health::Sound };
        Ok(Self { watch, place: address.place(), client })
    }

    /// The server's number for this connection.
    pub fn id(&self) -> u32 {
        self.client.link.session().connection_id
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
        let mut first_done = Some(first_done);
        self.query(sql.as_bytes(), &mut |_| {
            if let Some(first_done) = first_done.take() {
                first_done();
            }
            Ok(())
        })
    }

    /// Runs statements whose text need not be UTF-8: it is in the session's `character_set_client`.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn run_bytes(&mut self, sql: &[u8]) -> Result<(), Error> {
        self.query(sql, &mut |_| Ok(()))
    }

    /// Runs `LOAD DATA LOCAL`, with this for the file.
    ///
    /// # Errors
    ///
    /// As [`Connection::run_bytes`].
    pub fn load(&mut self, sql: &[u8], file: Vec<u8>) -> Result<(), Error> {
        let size = sql.len() + file.len();
        self.client.file = Some(file);
        let result = self.request(size, |client| client.query(sql, &mut |_| Ok(())));
        self.client.file = None;
        result
    }

    /// Runs one statement, prepared and kept for the next time, with these in the places of its `?`; gives how many
    /// rows it changed, or found, if it is an `UPDATE`. It must be one without rows for an answer.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn execute(&mut self, sql: &str, parameters: Vec<Parameter>) -> Result<u64, Error> {
        let size = parameters.iter().map(Parameter::size).sum();
        self.request(size, |client| client.execute(sql, &parameters, size))
    }

    /// The rows that a query answers with.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        let (mut rows, mut size) = (Vec::new(), 0);
        self.query(sql.as_bytes(), &mut |part| {
            if let Part::Row(row) = part {
                rows.push(held(row, &mut size)?);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// The rows that a query answers with, each value with its column's name in front: for answers whose columns are
    /// not the same on all servers.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn named_rows(&mut self, sql: &str) -> Result<Vec<NamedRow>, Error> {
        let (mut names, mut rows, mut size) = (Vec::new(), Vec::new(), 0);
        self.query(sql.as_bytes(), &mut |part| {
            match part {
                Part::Columns(_) => names.clear(),
                Part::Column(column) => names.push(String::from_utf8_lossy(column.name).into_owned()),
                Part::Row(row) => rows.push(names.iter().cloned().zip(held(row, &mut size)?).collect()),
                _ => {}
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Hands on the rows that a query answers with, one by one: as many as `take` wants. They are all sent by the
    /// server in any case.
    ///
    /// # Errors
    ///
    /// As [`Connection::run`].
    pub fn each_row(&mut self, sql: &str, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Error> {
        let mut flow = ControlFlow::Continue(());
        self.query(sql.as_bytes(), &mut |part| {
            if let Part::Row(row) = part
                && flow.is_continue()
            {
                flow = take(owned(row));
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

    fn query(&mut self, sql: &[u8], take: TakePart<'_>) -> Result<(), Error> {
        self.request(sql.len(), |client| client.query(sql, take))
    }

    /// Does what waits for the server.
    fn request<T>(
        &mut self,
        size: usize,
        request: impl FnOnce(&mut SqlClient) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let under_way: Option<UnderWay> = self.watch.as_ref().map(|watch| watch.request(size));
        let result = self.client.checked(request);
        drop(under_way);
        let result = match (result, self.watch.as_ref().and_then(Watch::ended)) {
            (Err(Error::Lost { .. }), Some(why)) => Err(Error::lost(why)),
            (result, _) => result,
        };
        result.map_err(|error| error.at(&self.place))
    }
}

/// Takes a part of an answer.
type TakePart<'t> = &'t mut dyn FnMut(Part<'_>) -> Result<(), Error>;

impl SqlClient {
    /// Runs a request. A connection whose answers cannot be understood is lost, and is used no more.
    fn checked<T>(&mut self, request: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.health == Health::Broken {
            return Err(Error::lost("an answer on it could not be understood before"));
        }
        let result = request(self);
        match result {
            Ok(_) | Err(Error::Refused { .. } | Error::FileRequest { .. } | Error::Answer { .. }) => result,
            Err(Error::Protocol(error)) => {
                self.health = Health::Broken;
                Err(Error::lost(error.to_string()))
            }
            Err(_) => {
                self.health = Health::Broken;
                result
            }
        }
    }

    /// Runs statements, and hands on what they answer.
    fn query(&mut self, sql: &[u8], take: TakePart<'_>) -> Result<(), Error> {
        self.link.send(&Command::Query { sql })?;
        let mut reader = ResultReader::new(self.link.session().capabilities);
        let mut result = Ok(());
        while !reader.is_done() {
            let requested = match reader.read(self.link.next()?)? {
                Part::FileRequest(name) => name.to_vec(),
                part => {
                    take(part)?;
                    continue;
                }
            };
            match self.send_file(&requested) {
                Err(error @ Error::FileRequest { .. }) => result = Err(error),
                sent => sent?,
            }
        }
        result
    }

    /// Sends the file that the next statement loads, and nothing where none was given.
    fn send_file(&mut self, requested: &[u8]) -> Result<(), Error> {
        let file = self.file.take();
        for piece in file.as_deref().unwrap_or_default().chunks(PIECE_SIZE) {
            self.link.send_more(piece)?;
        }
        self.link.send_more(&[])?;
        match file {
            Some(_) => Ok(()),
            None => Err(Error::FileRequest { name: String::from_utf8_lossy(requested).into_owned() }),
        }
    }

    fn execute(&mut self, sql: &str, parameters: &[Parameter], size: usize) -> Result<u64, Error> {
        let prepared = match self.statements.find(sql) {
            Some(prepared) => prepared,
            None => self.prepare(sql)?,
        };
        if prepared.columns > 0 || usize::from(prepared.parameters) != parameters.len() {
            let found = format!("of {} parameters and {} columns", prepared.parameters, prepared.columns);
            let wanted = "a statement without rows that has a parameter for each value";
            return Err(Error::Answer { question: "COM_STMT_PREPARE", found, wanted });
        }
        let mut values: Vec<ParameterValue<'_>> = parameters.iter().map(Parameter::value).collect();
        let is_in_pieces = size >= IN_PIECES;
        if is_in_pieces {
            self.send_ahead(prepared.statement, &mut values)?;
        }
        let execution = Execution { statement: prepared.statement, parameters: values };
        self.link.send_encoded(|out| execution.encode(out))?;
        let result = self.affected_rows();
        if is_in_pieces && result.is_err() {
            // The server may not have dropped what was sent ahead.
            self.forget(sql)?;
        }
        result
    }

    fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, Error> {
        self.link.send(&Command::Prepare { sql: sql.as_bytes() })?;
        let mut reader = PrepareReader::new(self.link.session().capabilities);
        let prepared = loop {
            if let Some(prepared) = reader.read(self.link.next()?)? {
                break prepared;
            }
        };
        if let Some(statement) = self.statements.insert(sql, prepared) {
            self.link.queue(&Command::CloseStatement { statement })?;
        }
        Ok(prepared)
    }

    fn forget(&mut self, sql: &str) -> Result<(), Error> {
        match self.statements.remove(sql) {
            Some(statement) => self.link.queue(&Command::CloseStatement { statement }),
            None => Ok(()),
        }
    }

    /// Sends bytes ahead of their statement, in pieces. Empty ones, of which there would be no piece, stay with it.
    fn send_ahead(&mut self, statement: u32, values: &mut [ParameterValue<'_>]) -> Result<(), Error> {
        for (parameter, value) in (0..=u16::MAX).zip(values) {
            let ParameterValue::Bytes(bytes @ [_, ..]) = *value else { continue };
            for data in bytes.chunks(PIECE_SIZE) {
                self.link.send(&Command::SendLongData { statement, parameter, data })?;
            }
            *value = ParameterValue::SentAhead;
        }
        Ok(())
    }

    /// Reads the answer to a statement that has no rows for one.
    fn affected_rows(&mut self) -> Result<u64, Error> {
        let capabilities = self.link.session().capabilities;
        loop {
            match Answer::decode(self.link.next()?, capabilities)? {
                Answer::Ok(ok) if ok.status.contains(Status::MORE_RESULTS) => {}
                Answer::Ok(ok) => return Ok(ok.affected_rows),
                Answer::Eof(_) => {
                    let error = wire::WireError::Unexpected { found: Some(0xfe), wanted: "an OK packet" };
                    return Err(Error::Protocol(error));
                }
            }
        }
    }
}

/// Returns the row's values, and counts them. What is held at once is bounded.
fn held(row: TextRow<'_>, size: &mut usize) -> Result<Row, Error> {
    let row = owned(row);
    *size += row.iter().flatten().map(|value| value.len() + mem::size_of::<Vec<u8>>()).sum::<usize>();
    match *size > ROWS_SIZE_MAX {
        true => Err(Error::lost(format!("an answer has more than {} MiB of rows", ROWS_SIZE_MAX >> 20))),
        false => Ok(row),
    }
}

fn owned(row: TextRow<'_>) -> Row {
    row.map(|value| value.map(<[u8]>::to_vec)).collect()
}

/// Asks a server, over a new connection, what it does for one of ours.
fn ask(address: &Address, id: u32, patience: Duration) -> Found {
    let address = Address { timeout: patience, ..address.clone() };
    let options = LinkOptions { connect_timeout: patience, ..LinkOptions::default() };
    let asked = Link::open(&address, &options).and_then(|mut link| link.query("SHOW PROCESSLIST"));
    let rows = match asked {
        Ok(rows) => rows,
        Err(error) => return Found::Unheard(error.to_string()),
    };
    let id = id.to_string();
    let text = |row: &Row, column: usize| row.get(column).cloned().flatten().unwrap_or_default();
    match rows.iter().find(|row| text(row, ID) == id.as_bytes()).map(|row| text(row, COMMAND)) {
        Some(command) if command != b"Sleep" => Found::Busy,
        _ => Found::Idle,
    }
}

/// Columns of `SHOW PROCESSLIST`, on all servers.
const ID: usize = 0;
const COMMAND: usize = 4;

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "connection {}", self.id())
    }
}
