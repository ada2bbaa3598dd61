//! Session of a client after its login: commands and answers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay::{
    AccountRight, BinlogEvents, ClientAttributes, DumpRequest, FormChoice, LogForm, SqlAnswer, SqlColumn,
    SqlColumnKind, SqlResponder, SqlRows, SqlSession, SqlValue, StatementInterrupt, sql_mode,
};
use wire::{
    Capabilities, ClientCommand, ColumnDefinition, EofPacket, OkPacket, ParameterValue, ResponseWriter,
    ResultValue, ResultWriter, RowEncoding, ServerError, ServerStatement, ServerStatus, WireError,
    column_type,
};

use crate::client_dump::{ClientDump, DumpOutcome};
use crate::client_link::ClientLink;
use crate::client_login::{ClientLogin, log_in};
use crate::client_registry::{ClientActivity, ClientRegistration, EndReason};
use crate::prepared_text::PreparedText;
use crate::relay_server::RelayNotice;
use crate::relay_shared::{RelayShared, RelayWithSql};

/// Maximum number of prepared statements of a session.
const STATEMENTS_MAX: usize = 256;
/// Maximum size in memory of the prepared statements of a session with their values, in bytes.
const STATEMENTS_MEMORY_MAX: usize = 4 << 20;
/// Size in bytes at which buffered output is sent.
pub(crate) const OUTPUT_SIZE: usize = 128 << 10;
/// Maximum size in bytes of the values sent by `COM_STMT_SEND_LONG_DATA` for a prepared statement.
const SENT_AHEAD_MAX: usize = 1 << 20;

/// Maximum time to read the rest of a packet that is too large.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

/// Session of a client after its login.
pub(crate) struct ServedSession<'s> {
    pub(crate) link: ClientLink,
    pub(crate) shared: &'s RelayShared,
    pub(crate) registration: &'s ClientRegistration<'s>,
    pub(crate) client: ClientLogin,
    pub(crate) sql: SqlSession,
    responder: &'s SqlResponder,
    statements: BTreeMap<u32, PreparedQuery>,
    last_statement: u32,
}

/// Prepared statement of a client.
struct PreparedQuery {
    text: PreparedText,
    parameters: ServerStatement,
    /// Error of a value sent by `COM_STMT_SEND_LONG_DATA`.
    error: Option<ServerError>,
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandOutcome {
    /// The next command follows.
    Next,
    /// The connection ends.
    Close,
}

/// Serves a client until it disconnects.
pub(crate) fn serve_client(
    mut link: ClientLink,
    registration: &ClientRegistration<'_>,
    peer: SocketAddr,
    served: &RelayWithSql,
) -> io::Result<()> {
    let shared = &*served.shared;
    let Some(client) = log_in(&mut link, registration, peer, shared)? else { return Ok(()) };
    if !registration.finish_login() {
        return Ok(());
    }
    let attributes: Vec<(String, String)> = client
        .session
        .login
        .attributes
        .iter()
        .map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned())
        })
        .collect();
    let form = choose_form(&attributes, &client, shared);
    registration.client.change(|client| {
        client.attributes = attributes;
    });
    let sql = new_session(registration, &client, form);
    let statements = BTreeMap::new();
    let responder = &served.responder;
    let mut session =
        ServedSession { link, shared, registration, client, sql, responder, statements, last_statement: 0 };
    session.use_login_database();
    let outcome = session.serve();
    // After an error, a packet may be unfinished.
    if outcome.is_ok() && session.registration.client.end_reason() == Some(EndReason::Shutdown) {
        let error = ServerError::new(1053, "08S01", "Server shutdown in progress");
        session.respond(|response| response.error(&error));
        // Fails if the client has disconnected.
        let _ = session.flush();
    }
    outcome
}

/// Returns the form of a client's logs. An account that may not read logs only lists them: as-is needs no rendering.
fn choose_form(attributes: &[(String, String)], client: &ClientLogin, shared: &RelayShared) -> LogForm {
    let account = &client.account;
    if account.form == FormChoice::Auto && !account.role.may(AccountRight::ReadLogs) {
        return LogForm::AsIs;
    }
    let value =
        |name: &str| attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let attributes = ClientAttributes {
        client_version: value("_client_version"),
        program_name: value("program_name"),
        client_role: value("_client_role"),
    };
    shared.form_for(account.form, &attributes)
}

fn new_session(registration: &ClientRegistration<'_>, client: &ClientLogin, form: LogForm) -> SqlSession {
    let (user, host) = (&client.account.user, &client.account.host);
    let (id, connected) = (registration.connection_id, Arc::clone(&registration.client));
    let mut session = SqlSession::new(id, format!("{user}@{host}"), client.account.role, form);
    session.login = format!("{user}@{}", client.host);
    session.interrupt = StatementInterrupt::new(move || connected.interrupts_statement());
    session
}

impl ServedSession<'_> {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.registration.client.set_activity(ClientActivity::SLEEP);
            self.flush()?;
            self.link.packets.begin_command();
            let deadline = Instant::now() + self.sql.wait_timeout();
            loop {
                match self.link.packets.is_ready() {
                    Ok(true) => break,
                    // As a server, close an idle connection without an error.
                    Ok(false) if !self.link.wait_for_data(deadline)? => return Ok(()),
                    Ok(false) => {}
                    Err(error @ WireError::TooLarge { .. }) => return self.refuse_packet(&error),
                    Err(error) => return Err(io::Error::other(error)),
                }
                match self.link.receive() {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    other => other?,
                }
            }
            let Some(payload) = self.link.packets.next().map_err(io::Error::other)?.map(<[u8]>::to_vec)
            else {
                continue;
            };
            self.registration.client.begin_command();
            self.registration.client.set_activity(ClientActivity::QUERY);
            if self.answer(&payload)? == CommandOutcome::Close {
                return self.flush();
            }
        }
    }

    /// Returns the capabilities that both sides have.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.client.session.capabilities
    }

    /// Writes a response.
    pub(crate) fn respond(&mut self, write: impl FnOnce(&mut ResponseWriter<'_>)) {
        let capabilities = self.capabilities();
        write(&mut ResponseWriter::new(&mut self.link.packets, capabilities));
    }

    /// Returns the state of the session for a response.
    fn status(&self) -> ServerStatus {
        let mut status = ServerStatus::default();
        if self.sql.is_autocommit() {
            status |= ServerStatus::AUTOCOMMIT;
        }
        if self.sql.is_in_transaction {
            status |= ServerStatus::IN_TRANSACTION;
        }
        status
    }

    fn ok(&mut self) {
        let status = self.status();
        self.respond(|response| response.ok(&OkPacket { status, ..OkPacket::default() }));
    }

    fn refuse(&mut self, error: &ServerError) {
        self.respond(|response| response.error(error));
    }

    /// Sends all bytes that are ready. If the client reads nothing, another thread can end the connection meanwhile.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.registration.client.begin_write();
        let sent = self.link.flush();
        self.registration.client.end_write();
        sent
    }

    /// Refuses a packet that is too large. A client reads the error after it has written the whole packet. The client
    /// expects the sequence number after the packet's last piece.
    fn refuse_packet(&mut self, error: &WireError) -> io::Result<()> {
        self.link.set_deadline(Some(Instant::now() + REST_TIMEOUT))?;
        while !self.link.packets.discard_packet().map_err(io::Error::other)? {
            self.link.receive()?;
        }
        self.refuse(&ServerError::from_wire(error));
        self.flush()
    }

    fn answer(&mut self, payload: &[u8]) -> io::Result<CommandOutcome> {
        let command = match ClientCommand::decode_with(payload, self.capabilities()) {
            Ok(command) => command,
            Err(error) => {
                self.refuse(&ServerError::from_wire(&error));
                return Ok(CommandOutcome::Next);
            }
        };
        match command {
            ClientCommand::Quit => return Ok(CommandOutcome::Close),
            ClientCommand::Query { sql } => {
                let sql = String::from_utf8_lossy(sql).into_owned();
                self.run_sql(&sql, RowEncoding::Text)?;
            }
            ClientCommand::Ping => self.ok(),
            ClientCommand::InitDatabase { database } => {
                let database = String::from_utf8_lossy(database).into_owned();
                match self.responder.use_database(&database, &mut self.sql) {
                    Ok(()) => self.ok(),
                    Err(error) => self.refuse(&error),
                }
            }
            ClientCommand::ResetConnection => self.reset(),
            ClientCommand::SetOption { .. } => {
                let status = self.status();
                self.respond(|response| response.eof(EofPacket { status, ..EofPacket::default() }));
            }
            ClientCommand::Statistics => {
                let line = format!(
                    "Uptime: {}  Threads: {}",
                    relay::RelayFacts::uptime_s(self.shared),
                    self.shared.clients.len()
                );
                self.respond(|response| response.statistics(line.as_bytes()));
            }
            ClientCommand::KillConnection { connection_id } => {
                self.run_sql(&format!("KILL {connection_id}"), RowEncoding::Text)?;
            }
            ClientCommand::RegisterReplica(register) => {
                let host = String::from_utf8_lossy(register.host).into_owned();
                self.registration.client.change(|client| {
                    client.server_id = Some(register.server_id);
                    client.report_host = (!host.is_empty()).then_some(host);
                    client.report_port = Some(register.port);
                });
                self.ok();
            }
            ClientCommand::BinlogDump(dump) => return self.dump(DumpRequest::from_position(&dump)),
            ClientCommand::BinlogDumpGtid(dump) => match DumpRequest::from_gtids(&dump) {
                Ok(request) => return self.dump(request),
                Err(_) => self.refuse(&ServerError::malformed_packet()),
            },
            statement => self.answer_statement(&statement)?,
        }
        Ok(CommandOutcome::Next)
    }

    fn dump(&mut self, request: DumpRequest) -> io::Result<CommandOutcome> {
        if !self.client.account.role.may(AccountRight::ReadLogs) {
            let message = "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this \
                           operation";
            self.refuse(&ServerError::new(1227, "42000", message));
            return Ok(CommandOutcome::Next);
        }
        match ClientDump::new(self, request).run()? {
            DumpOutcome::LastEvent => Ok(CommandOutcome::Next),
            DumpOutcome::Closed => Ok(CommandOutcome::Close),
        }
    }

    /// Selects the database of the login, if there is one of this name.
    fn use_login_database(&mut self) {
        let database = String::from_utf8_lossy(&self.client.session.login.database).into_owned();
        if !database.is_empty() {
            // Ignore an unknown database: replicas name none, and programs qualify their tables.
            let _ = self.responder.use_database(&database, &mut self.sql);
        }
    }

    fn reset(&mut self) {
        self.statements.clear();
        self.sql.reset();
        self.ok();
    }

    fn run_sql(&mut self, sql: &str, encoding: RowEncoding) -> io::Result<()> {
        let answer = self.responder.execute(sql, &mut self.sql);
        for statement in self.sql.changes.drain(..) {
            let account = self.sql.login.clone();
            self.shared.notify(RelayNotice::RelayChanged { account, statement });
        }
        let warnings = u16::try_from(self.sql.warnings.len()).unwrap_or(u16::MAX);
        let status = self.status();
        match answer {
            SqlAnswer::Done(affected_rows) => {
                let packet = OkPacket { affected_rows, status, warnings, ..OkPacket::default() };
                self.respond(|response| response.ok(&packet));
            }
            SqlAnswer::Refused(error) => self.refuse(&error),
            SqlAnswer::Rows(rows) if rows.columns.is_empty() => self.ok(),
            SqlAnswer::Rows(rows) => self.respond(|response| put_rows(&rows, encoding, status, response)),
            SqlAnswer::Events(events) => return self.put_events(&events, encoding),
        }
        Ok(())
    }

    /// Sends the rows while they are read. `KILL` and `KILL QUERY` end the statement.
    fn put_events(&mut self, events: &BinlogEvents, encoding: RowEncoding) -> io::Result<()> {
        let columns = BinlogEvents::columns();
        let definitions: Vec<ColumnDefinition<'_>> = columns.iter().map(column_definition).collect();
        let (capabilities, interrupt) = (self.capabilities(), self.sql.interrupt.clone());
        let mut response = ResponseWriter::new(&mut self.link.packets, capabilities);
        let result = response.rows(&definitions, encoding).pause();
        let (mut sent, mut is_interrupted) = (Ok(()), false);
        let read = events.read(&mut |row| {
            let mut writer = result.clone().resume(&mut self.link.packets);
            put_row(&row, &columns, &mut writer);
            if self.link.packets.output().len() < OUTPUT_SIZE {
                return ControlFlow::Continue(());
            }
            sent = self.flush();
            is_interrupted = interrupt.is_requested();
            match sent.is_err() || is_interrupted {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        sent?;
        let status = self.status();
        let writer = result.resume(&mut self.link.packets);
        match read {
            Ok(()) if is_interrupted => writer.fail(&ServerError::query_interrupted()),
            Ok(()) => writer.end(status),
            Err(error) => writer.fail(&error),
        }
        Ok(())
    }

    fn answer_statement(&mut self, command: &ClientCommand<'_>) -> io::Result<()> {
        match command {
            ClientCommand::Prepare { sql } => self.prepare(&String::from_utf8_lossy(sql)),
            ClientCommand::ExecuteStatement { statement, payload } => {
                return self.run_statement(*statement, payload);
            }
            // These two commands have no response.
            ClientCommand::SendLongData { statement, parameter, data } => {
                let has_room = self.statements_memory() + data.len() <= STATEMENTS_MEMORY_MAX;
                if let Some(query) = self.statements.get_mut(statement) {
                    query.error = query
                        .parameters
                        .append(*parameter, data, if has_room { SENT_AHEAD_MAX } else { 0 })
                        .err()
                        .or(query.error.take());
                }
            }
            ClientCommand::CloseStatement { statement } => {
                self.statements.remove(statement);
            }
            ClientCommand::ResetStatement { statement } => match self.statements.get_mut(statement) {
                Some(query) => {
                    query.parameters.reset();
                    query.error = None;
                    self.ok();
                }
                None => self.refuse(&ServerError::unknown_statement(*statement, "mysqld_stmt_reset")),
            },
            _ => self.refuse(&ServerError::unknown_command()),
        }
        Ok(())
    }

    /// Returns the size in memory of the prepared statements, in bytes.
    fn statements_memory(&self) -> usize {
        self.statements.values().map(|query| query.text.memory() + query.parameters.memory()).sum()
    }

    fn prepare(&mut self, sql: &str) {
        if let Err(error) = SqlResponder::check_size(sql) {
            return self.refuse(&error);
        }
        let text = PreparedText::parse(sql, sql_mode(&self.sql));
        let Ok(parameters) = u16::try_from(text.parameters()) else {
            let message = "Prepared statement contains too many placeholders";
            return self.refuse(&ServerError::new(1390, "HY000", message));
        };
        if self.statements.len() >= STATEMENTS_MAX {
            let message = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {STATEMENTS_MAX})"
            );
            return self.refuse(&ServerError::new(1461, "42000", message));
        }
        if self.statements_memory() + text.memory() > STATEMENTS_MEMORY_MAX {
            let message = "The prepared statements of this session would exceed 4 MiB: close some of them";
            return self.refuse(&ServerError::new(1461, "42000", message));
        }
        self.last_statement = self.last_statement.wrapping_add(1);
        let (number, capabilities) = (self.last_statement, self.capabilities());
        let mut response = ResponseWriter::new(&mut self.link.packets, capabilities);
        let prepared = response.prepared(number, parameters, &[]);
        let query = PreparedQuery { text, parameters: ServerStatement::new(&prepared), error: None };
        self.statements.insert(number, query);
    }

    fn run_statement(&mut self, number: u32, payload: &[u8]) -> io::Result<()> {
        let capabilities = self.capabilities();
        let Some(query) = self.statements.get_mut(&number) else {
            self.refuse(&ServerError::unknown_statement(number, "mysqld_stmt_execute"));
            return Ok(());
        };
        let sql = match (query.error.take(), query.parameters.decode_execution(payload, capabilities)) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(ServerError::from_wire(&error)),
            (None, Ok(execution)) => {
                let values: Vec<ParameterValue<'_>> = execution.parameters;
                Ok(query.text.with_values(&values, sql_mode(&self.sql)))
            }
        };
        query.parameters.reset();
        match sql {
            Ok(sql) => self.run_sql(&sql, RowEncoding::Binary),
            Err(error) => {
                self.refuse(&error);
                Ok(())
            }
        }
    }
}

fn put_rows(rows: &SqlRows, encoding: RowEncoding, status: ServerStatus, response: &mut ResponseWriter<'_>) {
    let columns: Vec<ColumnDefinition<'_>> = rows.columns.iter().map(column_definition).collect();
    let mut writer = response.rows(&columns, encoding);
    rows.rows.iter().for_each(|row| put_row(row, &rows.columns, &mut writer));
    writer.end(status);
}

fn put_row(row: &[SqlValue], columns: &[SqlColumn], writer: &mut ResultWriter<'_>) {
    let texts: Vec<String> = row.iter().map(value_text).collect();
    let values: Vec<ResultValue<'_>> = row
        .iter()
        .zip(columns)
        .zip(&texts)
        .map(|((value, column), text)| result_value(value, column, text))
        .collect();
    writer.values(&values);
}

fn column_definition(column: &SqlColumn) -> ColumnDefinition<'_> {
    let name = column.name.as_bytes();
    match column.kind {
        SqlColumnKind::Integer => ColumnDefinition::integer(name),
        SqlColumnKind::Double => {
            ColumnDefinition { column_type: column_type::DOUBLE, ..ColumnDefinition::integer(name) }
        }
        SqlColumnKind::Text => ColumnDefinition::text(name),
    }
}

fn value_text(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Int(number) => number.to_string(),
        SqlValue::UInt(number) => number.to_string(),
        SqlValue::Double(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
    }
}

/// Returns the value, converted to the type of its column.
fn result_value<'v>(value: &'v SqlValue, column: &SqlColumn, text: &'v str) -> ResultValue<'v> {
    match (value, column.kind) {
        (SqlValue::Null, _) => ResultValue::Null,
        (SqlValue::Int(number), SqlColumnKind::Integer | SqlColumnKind::Double) => ResultValue::Int(*number),
        (SqlValue::UInt(number), SqlColumnKind::Integer | SqlColumnKind::Double) => {
            ResultValue::UInt(*number)
        }
        (SqlValue::Double(number), SqlColumnKind::Double) => ResultValue::Double(*number),
        (_, SqlColumnKind::Text) => ResultValue::Bytes(text.as_bytes()),
        // SQLite has its own types: convert a value of another type to a number, if possible.
        (_, SqlColumnKind::Integer) => ResultValue::Int(text.parse().unwrap_or_default()),
        (_, SqlColumnKind::Double) => ResultValue::Double(text.parse().unwrap_or_default()),
    }
}
