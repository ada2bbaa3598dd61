//! One session on a MySQL server.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use binlog::events::DuplicateHandling;
use binlog::gtid::Gtid;
use binlog::server_error::UNKNOWN_ERROR;
use binlog::{EventFormat, Flavour};
use replay::{
    CommitSignal, CommitSignalCause, LoadDataFile, ReplayProgress, RowEvents, SessionVariables,
    SourceOutcome, SourceStatement, StatementInput, StatementIntent, StatementTime, TargetFailure,
    TargetFailureKind, TargetSession,
};
use servers::{AnswerSignal, LoadDataCounts, SignalCause, SqlConnection, StatementParameter};
use sql::quote::put_name;

use crate::binlog_statement::{
    EventPart, PACKET_MARGIN, events_size_max, format_description, put_binlog, row_too_large_message, split,
};
use crate::context_adapter::ContextAdapter;
use crate::fingerprint::{self, BY_GTID};
use crate::progress_sql::{self, PROGRESS_OUT_OF_ORDER, SavedIntent, put_progress, put_variable};
use crate::row_sql::{RowSessionSettings, StatementWriter};
use crate::server_failure::{server_failure, statement_failure};
use crate::session_state::SessionState;
use crate::single_statement::{unite, unite_with_progress};
use crate::target_logging::TargetLogging;

/// Buffered bytes at which statements are sent.
const FLUSH_SIZE: usize = 1 << 20;
/// Statement that begins a transaction. Not `BEGIN`: with `sql_mode=ORACLE`, `BEGIN` starts a block on MariaDB, and the
/// session keeps the mode of the last statement.
const START_TRANSACTION: &str = "START TRANSACTION;";
/// Size of row events up to which they become one statement: a copy of them is made, and large ones gain little.
const UNITE_SIZE_MAX: usize = 64 << 10;

pub(crate) struct MysqlSession {
    pub(crate) connection: SqlConnection,
    pub(crate) packet_max: usize,
    /// True if statements that commit implicitly run under their own GTIDs.
    names_gtids: bool,
    /// True if all row changes are sent as statements.
    pub(crate) as_sql: bool,
    /// The server's support for `CREATE TABLE … SELECT`.
    pub(crate) table_creation: TableCreation,
    /// Converts row changes to statements; created on first use.
    pub(crate) writer: Option<StatementWriter>,
    pub(crate) adapter: ContextAdapter,
    /// Session settings after a row change sent as a statement; `None` after any other request.
    pub(crate) settings: Option<RowSessionSettings>,
    /// True if the announced statement creates a table, and its rows follow as statements.
    pub(crate) rows_follow: bool,
    /// Number of possible changes of definitions in all sessions, and its value at the writer's last check.
    definition_version: Arc<AtomicU64>,
    pub(crate) writer_definition_version: u64,
    /// The known values of session variables.
    pub(crate) variables: SessionState,
    format: Option<Arc<EventFormat>>,
    /// SQL that is not sent yet.
    pub(crate) sql: String,
    /// Row events that are not yet in `sql`.
    rows: Vec<u8>,
    pub(crate) state: TransactionState,
    row_transaction_start: RowTransactionStart,
    autocommit: Autocommit,
    /// This session's row of the progress table.
    progress_row: usize,
    saved_intent: SavedIntent,
    pub(crate) logging: TargetLogging,
    /// GTIDs of the transaction. The server logs it under the last one; empty if it is not logged.
    gtids: Vec<Gtid>,
    announcement: StatementAnnouncement,
}

/// The parts of a session.
pub(crate) struct SessionParts {
    pub(crate) connection: SqlConnection,
    pub(crate) packet_max: usize,
    pub(crate) names_gtids: bool,
    pub(crate) as_sql: bool,
    pub(crate) table_creation: TableCreation,
    pub(crate) adapter: ContextAdapter,
    pub(crate) logging: TargetLogging,
    pub(crate) row_transaction_start: RowTransactionStart,
    pub(crate) definition_version: Arc<AtomicU64>,
}

/// The way in which transactions of row events begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowTransactionStart {
    /// By `START TRANSACTION`.
    Begin,
    /// By their first change, with `autocommit` off: one statement less for each transaction.
    Implicit,
}

/// The session's `autocommit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autocommit {
    On,
    Off,
}

/// Support for `CREATE TABLE … SELECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableCreation {
    /// As one transaction, by `START TRANSACTION` in the definition: MySQL since 8.0.21.
    Atomic,
    /// As two transactions: the table, then its rows.
    InParts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    /// No transaction is open.
    Idle,
    /// The next change begins a transaction.
    BeginPending,
    /// A transaction is open.
    Open,
    /// A statement that commits implicitly was announced. Contains the statement's GTID, if the statement runs under a
    /// GTID.
    ImplicitCommit(Option<String>),
}

/// State of the announcement of a statement that commits implicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementAnnouncement {
    /// No statement is announced, or the statement was run, or its outcome is unknown.
    Settled,
    /// The statement is announced and not yet run.
    Open,
    /// The statement was not run: the target refused the statement or an assignment before the statement.
    Refused,
}

impl MysqlSession {
    pub(crate) fn new(parts: SessionParts) -> Self {
        let SessionParts {
            connection,
            packet_max,
            names_gtids,
            as_sql,
            table_creation,
            adapter,
            logging,
            row_transaction_start,
            definition_version,
        } = parts;
        let (sql, rows) = (String::new(), Vec::new());
        Self {
            connection,
            packet_max,
            names_gtids,
            as_sql,
            table_creation,
            writer: None,
            adapter,
            settings: None,
            rows_follow: false,
            definition_version,
            writer_definition_version: 0,
            variables: SessionState::default(),
            format: None,
            sql,
            rows,
            state: TransactionState::Idle,
            row_transaction_start,
            autocommit: Autocommit::On,
            progress_row: 1,
            saved_intent: SavedIntent::Possible,
            logging,
            gtids: Vec::new(),
            announcement: StatementAnnouncement::Settled,
        }
    }

    /// Runs a statement with the variables of its session on the source.
    fn run_in_context(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        statement.outcome().check_complete()?;
        self.adapter.check_statement(statement)?;
        let creation = self.table_creation_sql(statement)?;
        self.settings = None;
        self.begin_if_due();
        self.send_rows()?;
        self.set_unverified_texts(statement)?;
        let mut set = Vec::new();
        put_database(&mut set, &statement.database, &mut self.variables);
        // Set user variables first: their values do not depend on the other variables.
        let mut variables = Vec::new();
        let source = statement.context.flavour();
        let collations = |id| self.adapter.target_collation(id, source);
        let is_plain =
            |variable: &&StatementInput| progress_sql::unverified_text(variable, &collations).is_none();
        for variable in statement.variables.iter().filter(is_plain) {
            put_variable(&mut variables, variable, &collations)?;
        }
        if variables.pop().is_some() {
            if !variables.is_ascii() {
                self.put_names_charset(&mut set);
            }
            set.extend_from_slice(b"SET ");
            set.append(&mut variables);
            set.push(b';');
        }
        match String::from_utf8(set) {
            Ok(set) => self.sql.push_str(&set),
            Err(set) => {
                self.send()?;
                self.connection.run_bytes(set.as_bytes()).map_err(server_failure)?;
            }
        }
        self.adopt(&statement.context)?;
        let StatementTime { seconds, micros } = statement.time;
        let _ = write!(self.sql, "SET @@session.timestamp={seconds}.{:06}", micros.unwrap_or(0));
        if let Some(thread_id) = statement.thread_id {
            let _ = write!(self.sql, ",@@session.pseudo_thread_id={thread_id}");
        }
        self.sql.push(';');
        if let TransactionState::ImplicitCommit(Some(gtid)) = &self.state {
            let _ = write!(self.sql, "SET @@SESSION.GTID_NEXT='{gtid}';");
        }
        let is_undone = matches!(statement.outcome(), SourceOutcome::RolledBack(_))
            && self.state == TransactionState::Open;
        if is_undone {
            self.sql.push_str("SAVEPOINT bintide_statement;");
        }
        self.send()?;
        let mut result = self.run(statement, creation.as_deref().unwrap_or(&statement.sql));
        if is_undone && result.is_ok() {
            // As a replica does: on the source, the statement had no effect on transactional tables.
            result = self.connection.run("ROLLBACK TO SAVEPOINT bintide_statement").map_err(server_failure);
        }
        if !self.takes_only_rows(statement, creation.as_deref()) {
            self.variables.forget();
        }
        result
    }

    /// Records the outcome of an announced statement. After an error from the server, the statement was not run.
    /// Without an answer, the announcement stays, and the next replay determines the outcome.
    fn note_outcome(&mut self, result: &Result<(), TargetFailure>) {
        use TargetFailureKind::{Environment, Locked, Refused};
        if self.announcement == StatementAnnouncement::Open {
            self.announcement = match result.as_ref().map_err(|failure| failure.kind) {
                Err(Refused | Environment | Locked) => StatementAnnouncement::Refused,
                Err(_) | Ok(()) => StatementAnnouncement::Settled,
            };
        }
    }

    /// Sends all buffered statements and row events.
    pub(crate) fn send(&mut self) -> Result<(), TargetFailure> {
        let has_rows = !self.rows.is_empty();
        if has_rows {
            self.begin_rows_if_due();
            self.put_rows();
        }
        if self.sql.is_empty() {
            return Ok(());
        }
        let result = self.connection.run(&self.sql);
        self.sql.clear();
        result.map_err(|error| match error.code() {
            // Mostly the server's answer to row events that it cannot apply to its table.
            Some(UNKNOWN_ERROR) if has_rows => conversion_failure(&error),
            _ => server_failure(error),
        })
    }

    /// Appends the buffered row events to the SQL, as one statement if possible.
    fn put_rows(&mut self) {
        let bytes = std::mem::take(&mut self.rows);
        let is_inside = self.state == TransactionState::Open
            && self.row_transaction_start == RowTransactionStart::Implicit;
        let is_small = bytes.len() <= UNITE_SIZE_MAX;
        match self.format.clone().filter(|_| is_inside && is_small) {
            Some(format) => {
                let rows = RowEvents { format, bytes };
                put_binlog(&mut self.sql, &unite(&rows).unwrap_or(rows.bytes));
            }
            None => {
                put_binlog(&mut self.sql, &bytes);
                // Its space is used again.
                self.rows = bytes;
                self.rows.clear();
            }
        }
    }

    /// Sends the row events, at the end of a packet: after them, the server does not announce further results.
    fn send_rows(&mut self) -> Result<(), TargetFailure> {
        if self.rows.is_empty() { Ok(()) } else { self.send() }
    }

    pub(crate) fn begin_if_due(&mut self) {
        if self.state == TransactionState::BeginPending {
            self.restore_autocommit();
            self.put_gtid_next();
            self.sql.push_str(START_TRANSACTION);
            self.state = TransactionState::Open;
        }
    }

    /// Begins a transaction whose first changes are row events.
    fn begin_rows_if_due(&mut self) {
        if self.state != TransactionState::BeginPending
            || self.row_transaction_start == RowTransactionStart::Begin
        {
            return self.begin_if_due();
        }
        assert!(self.gtids.is_empty(), "ours: a logged transaction begins explicitly");
        if self.autocommit == Autocommit::On {
            self.sql.push_str("SET @@session.autocommit=0;");
            self.autocommit = Autocommit::Off;
        }
        self.state = TransactionState::Open;
    }

    /// Makes each statement outside of a transaction commit itself.
    fn restore_autocommit(&mut self) {
        if self.autocommit == Autocommit::Off {
            self.sql.push_str("SET @@session.autocommit=1;");
            self.autocommit = Autocommit::On;
        }
    }

    /// Begins a separate transaction for the rows of a new table, if the server cannot commit table and rows as one.
    pub(crate) fn begin_after_creation(&mut self) {
        if matches!(self.state, TransactionState::ImplicitCommit(_))
            && self.table_creation == TableCreation::InParts
        {
            self.state = TransactionState::BeginPending;
        }
    }

    /// Sets the GTID of the next logged transaction.
    fn put_gtid_next(&mut self) {
        if let Some(gtid) = self.gtids.last() {
            let _ = write!(self.sql, "SET @@SESSION.GTID_NEXT='{gtid}';");
        }
    }

    /// Returns the statements that commit a logged transaction. `gtid_executed` is its progress.
    fn logged_commit_sql(&self) -> String {
        assert!(!self.gtids.is_empty(), "ours: a logged transaction has a GTID");
        // Send one request: the server completes it even if this process ends.
        let mut sql = String::from("COMMIT;");
        // Earlier GTIDs are of `XA PREPARE` transactions. The transaction just committed contains all their changes.
        for gtid in self.gtids.iter().rev().skip(1) {
            let _ = write!(sql, "SET @@SESSION.GTID_NEXT='{gtid}';{START_TRANSACTION}COMMIT;");
        }
        sql.push_str("SET @@SESSION.GTID_NEXT='AUTOMATIC'");
        sql
    }

    /// Sends the end of a transaction: saves progress and commits.
    fn send_end(&mut self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        assert!(self.sql.is_empty() && self.rows.is_empty(), "ours: all changes are sent before the commit");
        let mut sql = String::new();
        match std::mem::replace(&mut self.state, TransactionState::Idle) {
            state if self.logging == TargetLogging::BySourceGtids => {
                if !matches!(state, TransactionState::Open | TransactionState::ImplicitCommit(_)) {
                    self.put_gtid_next();
                    self.sql.push_str(START_TRANSACTION);
                    self.send()?;
                }
                sql = self.logged_commit_sql();
            }
            TransactionState::ImplicitCommit(gtid) => {
                self.definition_version.fetch_add(1, Ordering::SeqCst);
                sql.push_str("COMMIT;");
                if gtid.is_some() {
                    sql.push_str("SET @@SESSION.GTID_NEXT='AUTOMATIC';");
                }
                put_progress(&mut sql, progress, self.progress_row, self.saved_intent);
            }
            TransactionState::Open => {
                put_progress(&mut sql, progress, self.progress_row, self.saved_intent);
                sql.push_str("COMMIT");
            }
            TransactionState::Idle | TransactionState::BeginPending => {
                put_progress(&mut sql, progress, self.progress_row, self.saved_intent);
                if self.autocommit == Autocommit::Off {
                    sql.push_str("COMMIT");
                }
            }
        }
        self.connection.send(&sql).map_err(server_failure)
    }

    /// Waits for the answer to [`MysqlSession::send_end`]. Calls `on_ordered` after the first statement.
    fn receive_end(&mut self, on_ordered: &mut dyn FnMut()) -> Result<(), TargetFailure> {
        let received = self.connection.receive(on_ordered);
        if received.is_ok() {
            self.saved_intent = SavedIntent::None;
        }
        received.map_err(|error| match error.code() {
            Some(PROGRESS_OUT_OF_ORDER) => TargetFailure {
                code: Some(PROGRESS_OUT_OF_ORDER),
                ..TargetFailure::refused(
                    "the previous transaction was not committed, or bintide.progress was changed",
                )
            },
            _ => server_failure(error),
        })
    }

    /// Changes the session's variables to this context.
    pub(crate) fn adopt(&mut self, context: &SessionVariables) -> Result<(), TargetFailure> {
        let context = self.adapter.fit(context);
        let changes = self.variables.adopt(&context);
        if !changes.is_empty() {
            self.send_rows()?;
            let _ = write!(self.sql, "SET {changes};");
        }
        Ok(())
    }

    /// Sends the format of the following events.
    fn adopt_format(&mut self, format: &Arc<EventFormat>) -> Result<(), TargetFailure> {
        if self.format.as_ref().is_some_and(|known| Arc::ptr_eq(known, format) || known == format) {
            self.format = Some(Arc::clone(format));
            return Ok(());
        }
        if self.state == TransactionState::Open || !self.rows.is_empty() {
            return Err(TargetFailure::refused("one transaction has row events of two formats"));
        }
        let description =
            format_description(format).map_err(|error| TargetFailure::refused(error.to_string()))?;
        put_binlog(&mut self.sql, &description);
        // A format description makes the server expect anonymous transactions.
        self.sql.push_str("SET @@SESSION.GTID_NEXT='AUTOMATIC';");
        self.format = Some(Arc::clone(format));
        Ok(())
    }

    /// Sends row events that are together too large for one statement. Sends a row that is too large by itself as a
    /// statement with parameters, which can be sent in pieces.
    fn apply_in_parts(
        &mut self,
        context: &SessionVariables,
        rows: &RowEvents,
        size_max: usize,
    ) -> Result<(), TargetFailure> {
        let mut result = Ok(());
        let whole = split(rows, size_max, &mut |part| {
            if result.is_ok() {
                result = self.apply_part(context, &rows.format, part, size_max);
            }
        });
        result?;
        whole.map_err(|error| TargetFailure::refused(error.to_string()))
    }

    fn apply_part(
        &mut self,
        context: &SessionVariables,
        format: &Arc<EventFormat>,
        part: EventPart<'_>,
        size_max: usize,
    ) -> Result<(), TargetFailure> {
        match part {
            EventPart::Run(run) => {
                assert!(self.rows.is_empty(), "ours: each part is sent before the next");
                self.adopt(context)?;
                self.settings = None;
                self.rows.extend_from_slice(run);
                self.send()
            }
            // After the statement that created their table, the server accepts only row events.
            EventPart::Row(row) if matches!(self.state, TransactionState::ImplicitCommit(_)) => {
                Err(TargetFailure::refused(row_too_large_message(row.len(), size_max)))
            }
            EventPart::Row(row) => {
                let row = RowEvents { format: Arc::clone(format), bytes: row.to_vec() };
                self.write_rows_as_sql(&row)
            }
        }
    }

    /// Returns true if row changes of this format are sent as statements. These formats include all formats of MariaDB:
    /// no MySQL since 8.4 accepts MariaDB's events, and MariaDB's JSON columns are text. They also include formats with
    /// temporal types from before MySQL 5.6.4.
    fn makes_statements(&self, format: &EventFormat) -> bool {
        self.as_sql || format.flavour == Flavour::MariaDb || format.has_old_temporals()
    }

    /// Returns the number of possible changes of definitions.
    pub(crate) fn definition_version(&self) -> u64 {
        self.definition_version.load(Ordering::SeqCst)
    }

    /// Sets user variables whose text may be invalid in its character set. Sends them as parameters, as the source's
    /// client did.
    fn set_unverified_texts(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let source = statement.context.flavour();
        let adapter = self.adapter.clone();
        let collations = |id| adapter.target_collation(id, source);
        let unverified = |variable| progress_sql::unverified_text(variable, &collations);
        for (name, collation, text) in statement.variables.iter().filter_map(unverified) {
            self.send()?;
            let (charset, collation) = (collation.charset().name(), collation.name());
            self.connection
                .run(&format!("SET NAMES {charset} COLLATE {collation}"))
                .map_err(server_failure)?;
            // A prepared statement keeps the collation of its preparation. The comment makes the text unique for each
            // collation.
            let assignment = format!("SET @bintide_value := ? /* {collation} */");
            self.connection
                .execute(&assignment, vec![StatementParameter::Bytes(text.to_vec())])
                .map_err(server_failure)?;
            let mut set = Vec::new();
            self.put_names_charset(&mut set);
            set.extend_from_slice(b"SET @");
            put_name(&mut set, name);
            set.extend_from_slice(b":=@bintide_value;SET @bintide_value:=NULL");
            self.connection.run_bytes(&set).map_err(server_failure)?;
        }
        Ok(())
    }

    /// Makes the server read non-ASCII names as utf8mb4.
    fn put_names_charset(&mut self, set: &mut Vec<u8>) {
        set.extend_from_slice(b"SET NAMES utf8mb4;");
        self.variables.set_names();
    }

    /// Returns true if the server accepts only row events after this statement, not even a SET. The statement itself
    /// cannot change a variable.
    fn takes_only_rows(&self, statement: &SourceStatement, creation: Option<&[u8]>) -> bool {
        creation.is_none() && statement.table_creation().is_some()
    }

    fn run(&mut self, statement: &SourceStatement, sql: &[u8]) -> Result<(), TargetFailure> {
        let mut skip_check = Ok(());
        let result = match &statement.load {
            None => self.connection.run_bytes(sql),
            Some(load) => {
                let sql = load_sql(&statement.sql, load)?;
                let loaded = self.connection.load(&sql, load.file.size(), Box::new(load.file.reader()));
                loaded.map(|counts| skip_check = check_skipped_rows(load.duplicates, counts))
            }
        };
        if result.is_ok() {
            self.announcement = StatementAnnouncement::Settled;
        }
        match (result, statement.outcome()) {
            (Ok(()), SourceOutcome::Success | SourceOutcome::RolledBack(_)) => skip_check,
            (Err(error), SourceOutcome::Failure(code)) if error.code() == Some(code) => Ok(()),
            // Includes a lock wait or deadlock here, after one on the source: the transaction is retried.
            (Err(error), _) => Err(statement_failure(error, &statement.context, self.adapter.target())),
            (Ok(()), SourceOutcome::Failure(code) | SourceOutcome::Interruption(code)) => {
                Err(TargetFailure::refused(format!(
                    "the statement failed with error {code} on the source, but succeeded on the target"
                )))
            }
        }
    }
}

/// Wait for the server's answer to a commit.
struct AnswerWait(AnswerSignal);

impl CommitSignal for AnswerWait {
    fn wait(&self) -> CommitSignalCause {
        match self.0.wait() {
            SignalCause::Data => CommitSignalCause::Answer,
            SignalCause::Woken => CommitSignalCause::Woken,
        }
    }

    fn wake(&self) {
        self.0.wake();
    }
}

impl TargetSession for MysqlSession {
    fn save_apart(&mut self, part: usize) -> Result<(), TargetFailure> {
        assert!(part > 0, "ours: the first session saves the progress that all share");
        self.progress_row = 1 + part;
        self.connection.run(&progress_sql::insert_stream_sql(self.progress_row)).map_err(server_failure)
    }

    fn set_gtids(&mut self, gtids: &[Gtid]) -> Result<(), TargetFailure> {
        self.gtids.clear();
        match self.logging {
            TargetLogging::Off => {}
            TargetLogging::BySourceGtids if gtids.is_empty() => {
                return Err(TargetFailure::refused(
                    "the transaction has no GTID to be logged under: omit --log",
                ));
            }
            TargetLogging::BySourceGtids => self.gtids.extend_from_slice(gtids),
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), TargetFailure> {
        assert_eq!(
            self.state,
            TransactionState::Idle,
            "ours: a transaction begins after the previous one has ended"
        );
        self.state = TransactionState::BeginPending;
        Ok(())
    }

    fn expect_rows(&mut self, format: &Arc<EventFormat>) -> Result<(), TargetFailure> {
        match self.makes_statements(format) {
            true => Ok(()),
            false => self.adopt_format(format),
        }
    }

    fn announce(
        &mut self,
        intent: StatementIntent,
        format: Option<&Arc<EventFormat>>,
    ) -> Result<(), TargetFailure> {
        assert_eq!(
            self.state,
            TransactionState::Idle,
            "ours: a statement that commits implicitly is announced first"
        );
        self.definition_version.fetch_add(1, Ordering::SeqCst);
        self.saved_intent = SavedIntent::Possible;
        self.restore_autocommit();
        if let Some(format) = format
            && !self.makes_statements(format)
        {
            // Only row events may follow the statement.
            self.adopt_format(format)?;
        }
        self.send()?;
        // Rows sent as statements commit after their table. The table alone is not the whole transaction.
        let is_in_parts = format.is_some_and(|format| {
            self.makes_statements(format) || self.table_creation == TableCreation::InParts
        });
        if let Some(gtid) = self.gtids.last() {
            if is_in_parts {
                return Err(TargetFailure::refused(
                    "CREATE TABLE … SELECT takes two transactions before MySQL 8.0.21, and wherever rows are applied as SQL; \
                     one GTID cannot log both. Use --apply-as binlog, or a newer target",
                ));
            }
            // The server's `gtid_executed` shows whether the statement ran.
            self.state = TransactionState::ImplicitCommit(Some(gtid.to_string()));
            return Ok(());
        }
        // A name that parses as a GTID is a GTID: log names have a dot before the number, not a colon.
        let gtid = intent.transaction.parse::<Gtid>().is_ok().then(|| intent.transaction.clone());
        let gtid = gtid.filter(|_| self.names_gtids && !is_in_parts);
        self.rows_follow = is_in_parts;
        let before = match &gtid {
            Some(_) => BY_GTID.to_owned(),
            None => fingerprint::compute(&mut self.connection, &intent.databases)?,
        };
        self.connection
            .run(&progress_sql::save_intent_sql(&StatementIntent { before, ..intent }))
            .map_err(server_failure)?;
        // With a GTID, the server's `gtid_executed` shows whether the statement was run.
        if gtid.is_none() {
            self.announcement = StatementAnnouncement::Open;
        }
        self.state = TransactionState::ImplicitCommit(gtid);
        Ok(())
    }

    fn apply_rows(&mut self, context: &SessionVariables, rows: &RowEvents) -> Result<(), TargetFailure> {
        if self.makes_statements(&rows.format) {
            return self.write_rows_as_sql(rows);
        }
        self.adopt_format(&rows.format)?;
        self.begin_after_creation();
        self.adopt(context)?;
        self.settings = None;
        let size_max = events_size_max(self.packet_max.saturating_sub(PACKET_MARGIN)).min(FLUSH_SIZE * 16);
        if self.rows.len() + rows.bytes.len() <= size_max {
            self.rows.extend_from_slice(&rows.bytes);
        } else {
            self.send_rows()?;
            self.apply_in_parts(context, rows, size_max)?;
        }
        match self.sql.len() + self.rows.len() {
            size if size > FLUSH_SIZE => self.send(),
            _ => Ok(()),
        }
    }

    fn run_statement(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let result = self.run_in_context(statement);
        self.note_outcome(&result);
        result
    }

    fn flush(&mut self) -> Result<(), TargetFailure> {
        self.send()
    }

    fn commit_at_once(&mut self, progress: &ReplayProgress) -> Option<Result<(), TargetFailure>> {
        // Only the other statement for progress clears an announced statement.
        let is_possible = self.state == TransactionState::BeginPending
            && self.row_transaction_start == RowTransactionStart::Implicit
            && self.saved_intent == SavedIntent::None
            && (1..=UNITE_SIZE_MAX).contains(&self.rows.len());
        let format = self.format.clone().filter(|_| is_possible)?;
        let rows = RowEvents { format, bytes: std::mem::take(&mut self.rows) };
        let size_max = events_size_max(self.packet_max.saturating_sub(PACKET_MARGIN));
        let united =
            unite_with_progress(&rows, progress, self.progress_row).filter(|events| events.len() <= size_max);
        let Some(united) = united else {
            self.rows = rows.bytes;
            return None;
        };
        self.restore_autocommit();
        self.state = TransactionState::Idle;
        self.rows = united;
        Some(self.send())
    }

    fn commit(
        &mut self,
        progress: &ReplayProgress,
        on_ordered: &mut dyn FnMut(),
    ) -> Result<(), TargetFailure> {
        self.send()?;
        // The first statement fixes the place of a transaction only if nothing was committed before it.
        let is_ordered_early =
            self.state == TransactionState::Open || self.logging == TargetLogging::BySourceGtids;
        self.send_end(progress)?;
        if is_ordered_early {
            return self.receive_end(on_ordered);
        }
        self.receive_end(&mut || ())?;
        on_ordered();
        Ok(())
    }

    fn commit_signal(&self) -> Option<Arc<dyn CommitSignal>> {
        // Without a signal, each session's own thread commits.
        let signal = self.connection.answer_signal().ok()?;
        Some(Arc::new(AnswerWait(signal)))
    }

    fn can_send_commit(&self) -> bool {
        self.state == TransactionState::Open
    }

    fn send_commit(&mut self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        assert!(self.can_send_commit(), "ours: only an open transaction is committed in two steps");
        self.send_end(progress)
    }

    fn finish_commit(&mut self, on_ordered: &mut dyn FnMut()) -> Result<(), TargetFailure> {
        self.receive_end(on_ordered)
    }

    fn rollback(&mut self) -> Result<(), TargetFailure> {
        self.rows.clear();
        self.sql.clear();
        // Pending assignments may not have run.
        self.variables.forget();
        (self.format, self.state) = (None, TransactionState::Idle);
        self.settings = None;
        self.connection.run("ROLLBACK").map_err(server_failure)?;
        // A pending assignment may not have run.
        if self.row_transaction_start == RowTransactionStart::Implicit {
            self.connection.run("SET @@session.autocommit=1").map_err(server_failure)?;
            self.autocommit = Autocommit::On;
        }
        // Otherwise the next replay would attribute any change of the definitions to the statement.
        if self.announcement == StatementAnnouncement::Refused {
            self.connection.run(&progress_sql::withdraw_intent_sql()).map_err(server_failure)?;
        }
        self.announcement = StatementAnnouncement::Settled;
        if self.logging == TargetLogging::BySourceGtids {
            self.connection.run("SET @@SESSION.GTID_NEXT='AUTOMATIC'").map_err(server_failure)?;
        }
        Ok(())
    }
}

/// Explains the error: the server itself writes an explanation, if any, only to its error log.
fn conversion_failure(error: &servers::ConnectionError) -> TargetFailure {
    let message = format!(
        "{error}: probably a column in the log differs from the target's in type, length or character set. Make the \
         table as it was on the source, let the server convert with SET GLOBAL replica_type_conversions = \
         'ALL_NON_LOSSY', or use --apply-as sql"
    );
    TargetFailure { code: Some(UNKNOWN_ERROR), ..TargetFailure::refused(message) }
}

/// Appends the statement that makes this the default database. Non-ASCII names are sent as utf8mb4.
fn put_database(out: &mut Vec<u8>, database: &[u8], variables: &mut SessionState) {
    if database.is_empty() {
        return;
    }
    if !database.is_ascii() {
        out.extend_from_slice(b"SET NAMES utf8mb4;");
        variables.set_names();
    }
    variables.use_database();
    out.extend_from_slice(b"USE ");
    put_name(out, database);
    out.push(b';');
}

/// Returns the `LOAD DATA` statement with a local file instead of the source's file.
fn load_sql(sql: &[u8], load: &LoadDataFile) -> Result<Vec<u8>, TargetFailure> {
    let malformed =
        || TargetFailure::refused("LOAD DATA: the event states a wrong position of the file name");
    let Range { start, end } = load.file_name;
    let (before, after) = (sql.get(..start).ok_or_else(malformed)?, sql.get(end..).ok_or_else(malformed)?);
    let mut out = before.to_vec();
    out.extend_from_slice(b" LOCAL INFILE 'bintide'");
    if load.duplicates == DuplicateHandling::Replace {
        out.extend_from_slice(b" REPLACE");
    }
    out.extend_from_slice(b" INTO");
    out.extend_from_slice(after);
    Ok(out)
}

/// Refuses skipped rows if the source would have failed at them: `LOCAL` implies IGNORE.
fn check_skipped_rows(
    duplicates: DuplicateHandling,
    counts: Option<LoadDataCounts>,
) -> Result<(), TargetFailure> {
    match (duplicates, counts) {
        (DuplicateHandling::Ignore | DuplicateHandling::Replace, _) => Ok(()),
        (_, Some(LoadDataCounts { skipped: 0, .. })) => Ok(()),
        (_, Some(LoadDataCounts { skipped, records, .. })) => Err(TargetFailure::refused(format!(
            "LOAD DATA stored all {records} rows on the source, but the target cannot store {skipped} of them: it has \
             other rows with the same keys, or a constraint forbids the rows. Compare the table with the source"
        ))),
        (_, None) => Err(TargetFailure::refused(
            "the target's answer to LOAD DATA does not state how many rows were skipped",
        )),
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::DuplicateHandling::{self, Error, Ignore, Replace, Unknown};
    use replay::{LoadDataFile, LoadFileContent};
    use servers::LoadDataCounts;

    use super::{check_skipped_rows, load_sql};

    #[test]
    fn only_ignore_and_replace_may_skip_rows() {
        check(Error, Some(0), Ok(()));
        check(Error, Some(1), Err("cannot store 1 of them"));
        check(Unknown(7), Some(1), Err("cannot store 1 of them"));
        check(Error, None, Err("the target's answer to LOAD DATA does not state how many rows were skipped"));
        for duplicates in [Ignore, Replace] {
            check(duplicates, Some(1), Ok(()));
            check(duplicates, None, Ok(()));
        }
    }

    #[test]
    fn file_names_are_within_the_statement() {
        let sql = b"LOAD DATA INFILE 'a' INTO TABLE t";
        let load = |file_name| {
            let file = LoadFileContent::Held(b"1".as_slice().into());
            load_sql(sql, &LoadDataFile { file_name, duplicates: Error, file })
        };
        assert_eq!(load(9..25).unwrap(), b"LOAD DATA LOCAL INFILE 'bintide' INTO TABLE t");
        for outside in [9..40, 40..50] {
            assert_eq!(
                load(outside).unwrap_err().message,
                "LOAD DATA: the event states a wrong position of the file name"
            );
        }
    }

    fn check(duplicates: DuplicateHandling, skipped: Option<u64>, expected: Result<(), &str>) {
        let counts = skipped.map(|skipped| LoadDataCounts { records: 3, deleted: 0, skipped, warnings: 0 });
        let found = check_skipped_rows(duplicates, counts).map_err(|failure| failure.message);
        match expected {
            Ok(()) => assert_eq!(found, Ok(()), "{duplicates:?} {skipped:?}"),
            Err(part) => {
                assert!(found.is_err_and(|message| message.contains(part)), "{duplicates:?} {skipped:?}")
            }
        }
    }
}
