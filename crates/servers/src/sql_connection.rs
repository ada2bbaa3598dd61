//! SQL connection to a server.

use std::fmt;
use std::io::{self, Read};
use std::mem::size_of;
use std::ops::ControlFlow;
use std::time::Duration;

use wire::{
    Capabilities, ClientCommand, CommandResponse, ParameterValue, PrepareReader, PreparedStatement,
    ResultPart, ResultReader, ServerStatus, StatementExecution, TextRow, WireError,
};

use crate::answer_signal::AnswerSignal;
use crate::error::ConnectionError;
use crate::load_data_counts::LoadDataCounts;
use crate::server_address::ServerAddress;
use crate::server_link::{ANSWER_SIZE_MAX, CancelToken, LinkOptions, ServerLink};
use crate::silence_monitor::{RequestGuard, ServerActivity, SilenceMonitor};
use crate::statement_cache::StatementCache;

/// SQL connection to a server. A text may have several statements, separated by semicolons. The first failed statement
/// ends the run.
///
/// Over TCP, a server may be silent only while it runs a statement. If the server is silent for longer than the address
/// allows and runs no statement, the connection is closed with [`ConnectionError::Lost`], at the latest after twice
/// that time.
pub struct SqlConnection {
    /// Declared before the client, because the client's socket must outlive the monitor.
    monitor: Option<SilenceMonitor>,
    /// Host and port or socket of the server, for errors.
    endpoint: String,
    client: SqlClient,
    /// The request of [`SqlConnection::send`], until its answer is read.
    sent: Option<RequestGuard>,
}

/// Client side of the protocol.
struct SqlClient {
    link: ServerLink,
    statements: StatementCache,
    /// File to send if the server requests one.
    file: Option<Box<dyn Read + Send>>,
    sync: AnswerSync,
    /// `max_allowed_packet` of the server, if known.
    packet_max: Option<usize>,
}

/// Correspondence of requests and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AnswerSync {
    /// The next answer belongs to the next request.
    InStep,
    /// A request has been sent, and its answer not yet read.
    Owed,
    /// The next answer could be the rest of an earlier answer, which failed for this reason.
    Lost { reason: String },
}

/// Row of a result: its values as text, `None` for NULL.
pub type ResultRow = Vec<Option<Vec<u8>>>;

/// Returns a value of a row as text, from column 0 on; empty for NULL and beyond the last column.
pub fn row_text(row: &ResultRow, column: usize) -> String {
    let value = row.get(column).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Row with the names of its columns.
pub type NamedRow = Vec<(String, Option<Vec<u8>>)>;

/// Result of a query: rows, and the names of their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultTable {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Rows; each has a value for every column.
    pub rows: Vec<ResultRow>,
}

/// Value of a prepared statement's parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementParameter {
    /// NULL.
    Null,
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    UInt(u64),
    /// Floating-point number of four bytes.
    Float(f32),
    /// Floating-point number of eight bytes.
    Double(f64),
    /// Bytes: text in the session's `character_set_client`.
    Bytes(Vec<u8>),
}

impl StatementParameter {
    /// Returns an upper bound of the parameter's size in a packet.
    pub const fn size(&self) -> usize {
        match self {
            Self::Null => HEAD_SIZE_MAX,
            Self::Int(_) | Self::UInt(_) | Self::Float(_) | Self::Double(_) => HEAD_SIZE_MAX + 8,
            Self::Bytes(bytes) => HEAD_SIZE_MAX + LENGTH_SIZE_MAX + bytes.len(),
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

/// Checks that a server with this `max_allowed_packet` accepts a statement with these parameters. They must fit into a
/// packet, either together or each separately: see [`SqlConnection::set_packet_max`].
///
/// # Errors
///
/// Fails if the server would refuse the statement, with the excessive size.
pub fn check_fit(parameters: &[StatementParameter], packet_max: usize) -> Result<(), usize> {
    let largest = parameters.iter().map(StatementParameter::size).max().unwrap_or(0);
    // Only bytes are sent before the statement; other values stay in the statement.
    let left = |parameter: &StatementParameter| match parameter {
        StatementParameter::Bytes(_) => HEAD_SIZE_MAX,
        other => other.size(),
    };
    let left = parameters.iter().map(left).sum();
    match largest.max(left) {
        size if size <= packet_max => Ok(()),
        size => Err(size),
    }
}

/// Maximum size of a parameter's type and its NULL bit.
const HEAD_SIZE_MAX: usize = 3;
/// Maximum size of the length that precedes bytes.
const LENGTH_SIZE_MAX: usize = 9;
/// Minimum total size of parameters that are sent in pieces.
const PARAMETERS_IN_PIECES_MIN: usize = 16 << 20;
/// Size of a piece of a parameter or file: less than the lowest default of `max_allowed_packet`, 1 MiB.
const PIECE_SIZE: usize = 512 << 10;
/// Maximum size of the rows held at once. Bounds the memory that a hostile server can use.
const ROWS_SIZE_MAX: usize = 1 << 30;
/// Maximum size of a [`ResultTable`] in memory, in bytes.
const TABLE_SIZE_MAX: usize = 8 << 20;
/// ER_NET_PACKET_TOO_LARGE
const PACKET_TOO_LARGE: u16 = 1153;

/// Capabilities that SQL needs. With `FOUND_ROWS`, an UPDATE counts the rows that it matches, changed or not.
const SQL_CAPABILITIES: Capabilities =
    Capabilities(Capabilities::FOUND_ROWS.0 | OWN_CAPABILITIES.0 | Capabilities::MULTI_RESULTS.0);
/// The SQL capabilities that only statements of bintide may use.
const OWN_CAPABILITIES: Capabilities =
    Capabilities(Capabilities::LOCAL_FILES.0 | Capabilities::MULTI_STATEMENTS.0);

/// Makes a session independent of global variables that would change the effect of statements: that leave out rows, refuse
/// large results, begin another transaction or end the session after a COMMIT, or hide generated primary keys.
const SESSION_SQL: &str = "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1, completion_type = 0 \
    /*!80030 , show_gipk_in_create_table_and_information_schema = 1 */";

impl SqlConnection {
    /// Connects and logs in. Results have all rows, and a transaction ends at its COMMIT, whatever the server's global
    /// variables are.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, refuses the login, or the wait is cancelled.
    pub fn open(address: &ServerAddress) -> Result<Self, ConnectionError> {
        let mut connection = Self::open_with(address, SQL_CAPABILITIES)?;
        // A hostile server may answer with endless rows, which this refuses.
        connection.rows(SESSION_SQL)?;
        Ok(connection)
    }

    /// Connects and logs in, for statements that bintide has not written: the server refuses several statements in one
    /// text, and cannot request files of this machine.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::open`] fails.
    pub fn open_for_single_statements(address: &ServerAddress) -> Result<Self, ConnectionError> {
        Self::open_with(address, Capabilities(SQL_CAPABILITIES.0 & !OWN_CAPABILITIES.0))
    }

    fn open_with(address: &ServerAddress, capabilities: Capabilities) -> Result<Self, ConnectionError> {
        let options = LinkOptions {
            connect_timeout: address.timeout,
            capabilities,
            cancel: address.cancel.clone(),
            ..LinkOptions::default()
        };
        let mut link = ServerLink::open(address, &options)?;
        // A statement may take hours: the monitor decides when to end the wait.
        link.begin_request();
        let watch = address.silence_max().zip(link.descriptor()).map(|(silence_max, descriptor)| {
            let (address, id) = (address.clone(), link.session().connection_id);
            SilenceMonitor::new(descriptor, silence_max, move |timeout| ask_activity(&address, id, timeout))
        });
        let client = SqlClient {
            link,
            statements: StatementCache::default(),
            file: None,
            sync: AnswerSync::InStep,
            packet_max: None,
        };
        Ok(Self { monitor: watch.transpose()?, endpoint: address.endpoint(), client, sent: None })
    }

    /// Makes waits ignore a cancellation, for connections that must learn the outcome of each commit.
    pub fn ignore_cancel(&mut self) {
        self.client.link.ignore_cancel();
    }

    /// Sets the server's `max_allowed_packet`. Parameters that together exceed half of this size, or 16 MiB, are sent
    /// before their statement, in pieces (`COM_STMT_SEND_LONG_DATA`). A file is then sent in smaller pieces, too.
    pub fn set_packet_max(&mut self, packet_max: usize) {
        self.client.packet_max = Some(packet_max);
    }

    /// Returns the server's connection ID of this connection.
    pub fn id(&self) -> u32 {
        self.client.link.session().connection_id
    }

    /// Runs statements, and discards their results.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses a statement, or the connection is lost. After a refused statement, the server does
    /// not run the following statements.
    pub fn run(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.run_then(sql, || ())
    }

    /// Runs statements as [`SqlConnection::run`] does. Calls `first_done` after the first statement, while the other
    /// statements still run.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn run_then(&mut self, sql: &str, first_done: impl FnOnce()) -> Result<(), ConnectionError> {
        let mut first_done = Some(first_done);
        self.query(sql.as_bytes(), &mut |_| {
            if let Some(first_done) = first_done.take() {
                first_done();
            }
            Ok(())
        })
    }

    /// Sends statements, and does not wait for the answer: see [`SqlConnection::receive`].
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost. There is no answer then.
    ///
    /// # Panics
    ///
    /// If the answer to earlier statements was not received. All methods that run statements panic likewise.
    pub fn send(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.client.link.begin_request();
        self.sent = self.monitor.as_ref().map(|watch| watch.request(sql.len()));
        let result = self.client.run_checked(|client| client.send(sql.as_bytes()));
        if result.is_err() {
            self.sent = None;
        }
        self.explain(result)
    }

    /// Waits for the answer to [`SqlConnection::send`]. Calls `first_done` after the first statement, while the other
    /// statements still run.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    ///
    /// # Panics
    ///
    /// If no statements were sent.
    pub fn receive(&mut self, first_done: impl FnOnce()) -> Result<(), ConnectionError> {
        assert_eq!(self.client.sync, AnswerSync::Owed, "ours: an answer follows a request");
        self.client.sync = AnswerSync::InStep;
        let mut first_done = Some(first_done);
        let result = self.client.run_checked(|client| {
            client.read_results(&mut |_| {
                if let Some(first_done) = first_done.take() {
                    first_done();
                }
                Ok(())
            })
        });
        self.sent = None;
        self.explain(result)
    }

    /// Returns a signal that shows whether an answer has begun to arrive.
    ///
    /// # Errors
    ///
    /// Fails if the process has too many open files, or the connection is closed.
    pub fn answer_signal(&self) -> Result<AnswerSignal, ConnectionError> {
        match self.client.link.socket() {
            Some(socket) => AnswerSignal::new(socket),
            None => Err(ConnectionError::lost("the connection is closed".to_owned())),
        }
    }

    /// Runs statements whose text is in the session's `character_set_client`, which need not be UTF-8.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn run_bytes(&mut self, sql: &[u8]) -> Result<(), ConnectionError> {
        self.query(sql, &mut |_| Ok(()))
    }

    /// Runs `LOAD DATA LOCAL` with this file, of about `file_size` bytes. Returns the server's row counts; `None` if its
    /// answer has none.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run_bytes`] fails, or if the file cannot be read. The connection is then lost.
    pub fn load(
        &mut self,
        sql: &[u8],
        file_size: u64,
        file: Box<dyn Read + Send>,
    ) -> Result<Option<LoadDataCounts>, ConnectionError> {
        let size = sql.len().saturating_add(usize::try_from(file_size).unwrap_or(usize::MAX));
        self.client.file = Some(file);
        let mut counts = None;
        let result = self.request(size, |client| {
            client.query(sql, &mut |part| {
                if let ResultPart::Ok(ok) = part {
                    counts = LoadDataCounts::parse(ok.info);
                }
                Ok(())
            })
        });
        self.client.file = None;
        result.map(|()| counts)
    }

    /// Runs one prepared statement with a value for each `?`, and keeps it prepared. Returns the number of changed
    /// rows; for an `UPDATE`, of matched rows. A statement with a result set is an error.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn execute(
        &mut self,
        sql: &str,
        parameters: Vec<StatementParameter>,
    ) -> Result<u64, ConnectionError> {
        let size = parameters.iter().map(StatementParameter::size).sum();
        self.request(size, |client| client.execute(sql, &parameters, size))
    }

    /// Returns the rows of a query.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<ResultRow>, ConnectionError> {
        let (mut rows, mut size) = (Vec::new(), 0);
        self.query(sql.as_bytes(), &mut |part| {
            if let ResultPart::Row(row) = part {
                rows.push(bounded_row(row, &mut size, ROWS_SIZE_MAX)?);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Returns the rows of a query with the names of their columns, for results whose columns differ between servers.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn named_rows(&mut self, sql: &str) -> Result<Vec<NamedRow>, ConnectionError> {
        let (mut names, mut rows, mut size) = (Vec::<String>::new(), Vec::new(), 0);
        self.query(sql.as_bytes(), &mut |part| {
            match part {
                ResultPart::Columns(_) => names.clear(),
                ResultPart::Column(column) => names.push(String::from_utf8_lossy(column.name).into_owned()),
                ResultPart::Row(row) => {
                    // Each row has its own copy of the names.
                    size += names.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
                    rows.push(
                        names.iter().cloned().zip(bounded_row(row, &mut size, ROWS_SIZE_MAX)?).collect(),
                    );
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Returns the rows of a query, at most 8 MiB, and the names of their columns, also if there are no rows.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails, or with [`ConnectionError::Refused`] if there are more rows.
    pub fn result_table(&mut self, sql: &str) -> Result<ResultTable, ConnectionError> {
        let (mut table, mut size) = (ResultTable::default(), 0);
        self.query(sql.as_bytes(), &mut |part| {
            match part {
                ResultPart::Column(column) => {
                    table.names.push(String::from_utf8_lossy(column.name).into_owned());
                }
                // Read the rest, so that the connection can be used again.
                ResultPart::Row(row) if size <= TABLE_SIZE_MAX => {
                    let row = owned_row(row);
                    size += row_memory(&row);
                    table.rows.push(row);
                }
                _ => {}
            }
            Ok(())
        })?;
        match size > TABLE_SIZE_MAX {
            true => Err(ConnectionError::Refused {
                code: PACKET_TOO_LARGE,
                message: format!("The answer has more than {} MiB", TABLE_SIZE_MAX >> 20),
            }),
            false => Ok(table),
        }
    }

    /// Calls `take` with each row of a query until it returns `Break`. The server sends all rows in any case.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn each_row(
        &mut self,
        sql: &str,
        take: &mut dyn FnMut(ResultRow) -> ControlFlow<()>,
    ) -> Result<(), ConnectionError> {
        let mut flow = ControlFlow::Continue(());
        self.query(sql.as_bytes(), &mut |part| {
            if let ResultPart::Row(row) = part
                && flow.is_continue()
            {
                flow = take(owned_row(row));
            }
            Ok(())
        })
    }

    /// Returns the first value of the first row; `None` if there is no row, or the value is NULL.
    ///
    /// # Errors
    ///
    /// Fails if [`SqlConnection::run`] fails.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, ConnectionError> {
        let (mut first, mut size) = (None, 0);
        self.query(sql.as_bytes(), &mut |part| {
            match (part, &first) {
                (ResultPart::Row(row), None) => first = Some(bounded_row(row, &mut 0, ROWS_SIZE_MAX)?),
                // Further rows are not used, so they have a lower limit.
                (ResultPart::Row(row), Some(_)) => drop(bounded_row(row, &mut size, ANSWER_SIZE_MAX)?),
                _ => {}
            }
            Ok(())
        })?;
        let value = first.and_then(|row| row.into_iter().next()).flatten();
        Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn query(&mut self, sql: &[u8], take: PartCallback<'_>) -> Result<(), ConnectionError> {
        self.request(sql.len(), |client| client.query(sql, take))
    }

    /// Runs a request while the monitor observes the connection.
    fn request<T>(
        &mut self,
        size: usize,
        request: impl FnOnce(&mut SqlClient) -> Result<T, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        self.client.link.begin_request();
        let under_way: Option<RequestGuard> = self.monitor.as_ref().map(|watch| watch.request(size));
        let result = self.client.run_checked(request);
        drop(under_way);
        self.explain(result)
    }

    /// Adds the server's name and the monitor's reason to an error.
    fn explain<T>(&self, result: Result<T, ConnectionError>) -> Result<T, ConnectionError> {
        let result = match (result, self.monitor.as_ref().and_then(SilenceMonitor::end_reason)) {
            (Err(ConnectionError::Lost { .. }), Some(why)) => Err(ConnectionError::lost(why)),
            (result, _) => result,
        };
        result.map_err(|error| error.with_endpoint(&self.endpoint))
    }
}

/// Callback that takes a part of an answer.
type PartCallback<'t> = &'t mut dyn FnMut(ResultPart<'_>) -> Result<(), ConnectionError>;

impl SqlClient {
    /// Runs a request. If the answer is not read completely, the connection counts as lost and is no longer used.
    fn run_checked<T>(
        &mut self,
        request: impl FnOnce(&mut Self) -> Result<T, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        if let AnswerSync::Lost { reason } = &self.sync {
            return Err(match self.link.is_cancelled() {
                true => ConnectionError::Cancelled,
                false => {
                    ConnectionError::lost(format!("an earlier request on this connection failed: {reason}"))
                }
            });
        }
        assert_ne!(self.sync, AnswerSync::Owed, "ours: an answer is read before the next request");
        let result = request(self);
        match result {
            Ok(_)
            | Err(
                ConnectionError::Refused { .. }
                | ConnectionError::FileRequest { .. }
                | ConnectionError::StatementShape { .. },
            ) => result,
            Err(error) => {
                let error = match error {
                    ConnectionError::Protocol(error) => ConnectionError::lost(error.to_string()),
                    error => error,
                };
                let reason = match &error {
                    ConnectionError::Lost { reason, .. } => reason.clone(),
                    error => error.to_string(),
                };
                self.sync = AnswerSync::Lost { reason };
                Err(error)
            }
        }
    }

    /// Runs statements, and calls `take` with each part of their results.
    fn query(&mut self, sql: &[u8], take: PartCallback<'_>) -> Result<(), ConnectionError> {
        self.link.send(&ClientCommand::Query { sql })?;
        self.read_results(take)
    }

    /// Sends statements, whose results are read later.
    fn send(&mut self, sql: &[u8]) -> Result<(), ConnectionError> {
        self.link.send(&ClientCommand::Query { sql })?;
        self.sync = AnswerSync::Owed;
        Ok(())
    }

    fn read_results(&mut self, take: PartCallback<'_>) -> Result<(), ConnectionError> {
        let mut reader = ResultReader::new(self.link.session().capabilities);
        let mut result = Ok(());
        while !reader.is_done() {
            let requested = match reader.read(self.link.next()?) {
                Ok(ResultPart::FileRequest(name)) => name.to_vec(),
                Ok(part) => {
                    take(part)?;
                    continue;
                }
                // The server refuses the empty file.
                Err(WireError::Refused(_)) if result.is_err() => return result,
                Err(error) => return Err(error.into()),
            };
            match self.send_file(&requested) {
                Err(error @ ConnectionError::FileRequest { .. }) => result = Err(error),
                sent => sent?,
            }
        }
        result
    }

    /// Sends the file that the statement loads. Without a file, sends an empty file to the server, and returns an
    /// error.
    fn send_file(&mut self, requested: &[u8]) -> Result<(), ConnectionError> {
        let Some(mut file) = self.file.take() else {
            self.link.send_more(&[])?;
            return Err(ConnectionError::FileRequest {
                name: String::from_utf8_lossy(requested).into_owned(),
            });
        };
        let mut piece = vec![0; self.piece_size()];
        loop {
            // An empty packet would end the file, as if it were complete.
            let count = read_piece(&mut file, &mut piece).map_err(|error| {
                ConnectionError::lost(format!("could not read the file to load: {error}"))
            })?;
            self.link.send_more(&piece[..count])?;
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn execute(
        &mut self,
        sql: &str,
        parameters: &[StatementParameter],
        size: usize,
    ) -> Result<u64, ConnectionError> {
        let prepared = match self.statements.find(sql) {
            Some(prepared) => prepared,
            None => self.prepare(sql)?,
        };
        if prepared.columns > 0 || usize::from(prepared.parameters) != parameters.len() {
            let PreparedStatement { parameters: found, columns, .. } = prepared;
            return Err(ConnectionError::StatementShape {
                parameters: found,
                columns,
                values: parameters.len(),
            });
        }
        let mut values: Vec<ParameterValue<'_>> = parameters.iter().map(StatementParameter::value).collect();
        let is_in_pieces = size
            >= self.packet_max.map_or(PARAMETERS_IN_PIECES_MIN, |max| PARAMETERS_IN_PIECES_MIN.min(max / 2));
        if is_in_pieces {
            self.send_ahead(prepared.statement, &mut values)?;
        }
        let execution = StatementExecution { statement: prepared.statement, parameters: values };
        self.link.send_encoded(|out| execution.encode(out))?;
        let result = self.affected_rows();
        if is_in_pieces && result.is_err() {
            // The server may still have the values sent before the statement.
            self.forget_statement(sql)?;
        }
        result
    }

    fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, ConnectionError> {
        self.link.send(&ClientCommand::Prepare { sql: sql.as_bytes() })?;
        let mut reader = PrepareReader::new(self.link.session().capabilities);
        let prepared = loop {
            if let Some(prepared) = reader.read(self.link.next()?)? {
                break prepared;
            }
        };
        if let Some(statement) = self.statements.insert(sql, prepared) {
            self.link.queue(&ClientCommand::CloseStatement { statement })?;
        }
        Ok(prepared)
    }

    fn forget_statement(&mut self, sql: &str) -> Result<(), ConnectionError> {
        match self.statements.remove(sql) {
            Some(statement) => self.link.queue(&ClientCommand::CloseStatement { statement }),
            None => Ok(()),
        }
    }

    /// Sends bytes before their statement, in pieces. Empty values have no piece, and stay in the statement.
    fn send_ahead(
        &mut self,
        statement: u32,
        values: &mut [ParameterValue<'_>],
    ) -> Result<(), ConnectionError> {
        for (parameter, value) in (0..=u16::MAX).zip(values) {
            let ParameterValue::Bytes(bytes @ [_, ..]) = *value else { continue };
            for data in bytes.chunks(self.piece_size()) {
                self.link.send(&ClientCommand::SendLongData { statement, parameter, data })?;
            }
            *value = ParameterValue::SentAhead;
        }
        Ok(())
    }

    fn piece_size(&self) -> usize {
        self.packet_max.map_or(PIECE_SIZE, |max| PIECE_SIZE.min(max / 2)).max(1)
    }

    /// Reads the answer to a statement without a result set.
    fn affected_rows(&mut self) -> Result<u64, ConnectionError> {
        let capabilities = self.link.session().capabilities;
        loop {
            match CommandResponse::decode(self.link.next()?, capabilities)? {
                CommandResponse::Ok(ok) if ok.status.contains(ServerStatus::MORE_RESULTS) => {}
                CommandResponse::Ok(ok) => return Ok(ok.affected_rows),
                CommandResponse::Eof(_) => {
                    let error = WireError::Unexpected { found: Some(0xfe), expected: "an OK packet" };
                    return Err(ConnectionError::Protocol(error));
                }
            }
        }
    }
}

/// Fills a piece, except at the end of the file, and returns its size.
fn read_piece(file: &mut dyn Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = piece.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Returns the row's values, and adds their size to `size`. Fails if `size` would exceed `size_max`.
fn bounded_row(row: TextRow<'_>, size: &mut usize, size_max: usize) -> Result<ResultRow, ConnectionError> {
    let row = owned_row(row);
    *size += row_memory(&row);
    match *size > size_max {
        true => Err(ConnectionError::lost(format!("an answer has more than {} MiB of rows", size_max >> 20))),
        false => Ok(row),
    }
}

/// Returns the size of a row in memory.
pub(crate) fn row_memory(row: &ResultRow) -> usize {
    let values: usize = row.iter().flatten().map(Vec::len).sum();
    size_of::<ResultRow>() + row.len() * size_of::<Option<Vec<u8>>>() + values
}

fn owned_row(row: TextRow<'_>) -> ResultRow {
    row.map(|value| value.map(<[u8]>::to_vec)).collect()
}

/// Queries a server over a new connection: whether it runs a statement of the connection `id`.
fn ask_activity(address: &ServerAddress, id: u32, timeout: Duration) -> ServerActivity {
    // Ignore a cancellation: otherwise, a session that ignores cancellations would count as lost.
    let address = ServerAddress { timeout, cancel: CancelToken::default(), ..address.clone() };
    let options = LinkOptions { connect_timeout: timeout, ..LinkOptions::default() };
    let answer = ServerLink::open(&address, &options).and_then(|mut link| link.query("SHOW PROCESSLIST"));
    let rows = match answer {
        Ok(rows) => rows,
        Err(error) => return ServerActivity::Unreachable(error.to_string()),
    };
    let id = id.to_string();
    let text = |row: &ResultRow, column: usize| row.get(column).cloned().flatten().unwrap_or_default();
    match rows.iter().find(|row| text(row, ID_COLUMN) == id.as_bytes()).map(|row| text(row, COMMAND_COLUMN)) {
        Some(command) if command != b"Sleep" => ServerActivity::Busy,
        _ => ServerActivity::Idle,
    }
}

/// Column indexes in `SHOW PROCESSLIST`, the same on all servers.
const ID_COLUMN: usize = 0;
const COMMAND_COLUMN: usize = 4;

impl fmt::Debug for SqlConnection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "connection {}", self.id())
    }
}
