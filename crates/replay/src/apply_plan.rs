//! Apply plan of a transaction: the steps that apply it to a target.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::{
    DuplicateHandling, ExecuteLoadQuery, Incident, Intvar, IntvarKind, MariadbGtidEvent, Query, Rand,
    StatusVar, UserVar,
};
use binlog::{
    DecodeError, EVENT_SIZE_MAX, EncodeError, Event, EventChecksum, EventFlags, EventFormat, EventHeader,
    EventType, Flavour, NextPosition, PayloadError, PayloadOpener, RawEvent, TransactionKind,
    TransactionVerb,
};
use sql::{StatementKind, classify_statement};

use crate::load_file_content::{LoadFileCollector, LoadFileContent};
use crate::row_events::RowEvents;
use crate::session_variables::SessionVariables;
use crate::source_outcome::SourceOutcome;
use crate::source_transaction::SourceTransaction;
use crate::spooled_rows::{RowSpooler, SpoolPushError, SpooledRows};
use crate::spooled_statements::{SpooledStatements, StatementSpooler, put_event};

/// The steps that apply one transaction to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPlan {
    /// Kind of transaction.
    pub shape: TransactionShape,
    /// Steps, in order.
    pub steps: Vec<ApplyStep>,
    /// Connection id on the source, if it is logged.
    pub session: Option<u32>,
}

/// Kinds of transactions, as an applier handles them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionShape {
    /// Row changes only, committed; may be empty.
    Rows,
    /// Statements, and maybe row changes, committed.
    Statements,
    /// As [`TransactionShape::Statements`], but rolled back at the end. Changes of nontransactional tables stay.
    RolledBack,
    /// Commits implicitly: a DDL statement, or `CREATE TABLE … SELECT`.
    ImplicitCommit {
        /// Databases whose definitions the statement may change; empty for all.
        databases: Vec<Vec<u8>>,
    },
    /// `XA PREPARE`: a later transaction commits it or rolls it back.
    XaPrepare(String),
    /// Commit of a prepared XA transaction.
    XaCommit(String),
    /// Rollback of a prepared XA transaction.
    XaRollback(String),
}

/// A step of applying a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyStep {
    /// Row changes of whole statements.
    Rows(Arc<SessionVariables>, RowEvents),
    /// Row changes in a temporary file, too many for memory.
    Spooled(Arc<SessionVariables>, SpooledRows),
    /// A statement.
    Statement(Box<SourceStatement>),
    /// Statements in a temporary file, too many for memory.
    SpooledStatements(SpooledStatements),
}

/// A statement, and the session state that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatement {
    /// Text, in the character set of its context. Not always UTF-8.
    pub sql: Vec<u8>,
    /// Default database to run the statement with; empty if it does not depend on one.
    pub database: Vec<u8>,
    /// Default database on the source; may be empty.
    pub default_database: Vec<u8>,
    /// Start time on the source.
    pub time: StatementTime,
    /// Connection id on the source, if the statement uses temporary tables.
    pub thread_id: Option<u32>,
    /// Session variables that the statement depends on.
    pub context: Arc<SessionVariables>,
    /// Version of the server that wrote the log, such as 8, 0, 43.
    pub server_version: (u32, u32, u32),
    /// Inputs that are not session variables.
    pub variables: Vec<StatementInput>,
    /// File that the statement loads.
    pub load: Option<LoadDataFile>,
    /// Error of the statement on the source; 0 for none.
    pub error_code: u16,
}

/// Start time of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementTime {
    /// Seconds since 1970.
    pub seconds: u32,
    /// Microseconds, if they were logged.
    pub micros: Option<u32>,
}

/// An input of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementInput {
    /// Result of `LAST_INSERT_ID()`.
    LastInsertId(u64),
    /// First value of an AUTO_INCREMENT column.
    InsertId(u64),
    /// Seeds of `RAND()`.
    RandomSeeds(u64, u64),
    /// A user variable.
    User {
        /// Name of the variable.
        name: Vec<u8>,
        /// Value; `None` for NULL.
        value: Option<UserVariableValue>,
    },
}

/// Value of a user variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserVariableValue {
    /// As [`binlog::events::UserVarValue::kind`].
    pub kind: u8,
    /// Collation number.
    pub collation: u32,
    /// Bytes as logged.
    pub bytes: Vec<u8>,
    /// `true` for an unsigned integer.
    pub is_unsigned: bool,
}

/// A file that `LOAD DATA` loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadDataFile {
    /// Range of the statement that replay replaces by its own file name: the file name and the text around it.
    pub file_name: Range<usize>,
    /// Handling of rows whose key already exists.
    pub duplicates: DuplicateHandling,
    /// Content of the file.
    pub file: LoadFileContent,
}

/// Reasons why a transaction cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyPlanError {
    /// An event cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An event cannot be written without its checksum.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A payload cannot be opened.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// An incident event: the source lost changes.
    #[error("incident: the source did not log some changes ({0})")]
    Incident(String),
    /// An event that must not be ignored, and cannot be applied.
    #[error("cannot apply its {0} event")]
    Unsupported(String),
    /// A temporary file cannot be written or read.
    #[error("could not use a temporary file for its changes: {0}")]
    Spool(String),
    /// An event sequence that no server writes.
    #[error("{0}")]
    Malformed(&'static str),
}

/// Returns the maximum decompressed size of an event in bytes. A few kilobytes can decompress to any size. The limit is
/// about a third of the memory of a replay: an event is in memory up to three times on its way to the target.
pub(crate) fn event_size_max(held_max: usize) -> u32 {
    /// Events up to this size are always accepted.
    const EVENT_SIZE_MIN: u32 = 16 << 20;
    let third = u32::try_from(held_max.saturating_mul(64) / 3).unwrap_or(u32::MAX);
    third.clamp(EVENT_SIZE_MIN, EVENT_SIZE_MAX)
}

impl ApplyPlan {
    /// Returns the apply plan of this transaction. `opener` opens its payload, if it has one.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded or applied.
    pub fn of(source: &SourceTransaction, opener: &mut PayloadOpener) -> Result<Self, ApplyPlanError> {
        Self::with_memory_limit(source, opener, usize::MAX)
    }

    /// Returns the apply plan of this transaction. Row events, statements and `LOAD DATA` files go to temporary files,
    /// each kind beyond `held_max` bytes.
    ///
    /// # Errors
    ///
    /// Fails if [`ApplyPlan::of`] fails, or if a temporary file cannot be written.
    pub fn with_memory_limit(
        source: &SourceTransaction,
        opener: &mut PayloadOpener,
        held_max: usize,
    ) -> Result<Self, ApplyPlanError> {
        let format = source.transaction.format();
        let mut builder = ApplyPlanBuilder::new(format, held_max);
        builder.rows_size = source.transaction.bytes().len().min(held_max);
        for raw in source.transaction.events() {
            match raw.event_type() {
                EventType::TransactionPayload => builder.open(&raw, format, opener)?,
                _ => builder.take(&raw, format)?,
            }
        }
        builder.finish(source.transaction.outline().kind)
    }

    /// Returns the size of the steps in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.steps.iter().map(ApplyStep::size).sum()
    }

    /// Returns whether all parts are in memory, not in a temporary file.
    pub fn is_in_memory(&self) -> bool {
        self.steps.iter().all(ApplyStep::is_in_memory)
    }
}

/// Builds an apply plan from events, one after the other.
pub(crate) struct ApplyPlanBuilder {
    format: Arc<EventFormat>,
    context: Arc<SessionVariables>,
    steps: Vec<ApplyStep>,
    phase: PlanPhase,
    inputs: PendingInputs,
    file: LoadFileCollector,
    session: Option<u32>,
    /// Approximate bytes to reserve for the first row events.
    rows_size: usize,
    /// Bytes of the row events in the steps.
    held: usize,
    held_max: usize,
    scratch: Vec<u8>,
    /// Bytes of the statements in the steps, and of the files that they load.
    statements_size: usize,
    /// Writes the last step to a temporary file, once its kind of events exceeds the limit.
    spool: Option<StepSpool>,
}

/// Progress through a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlanPhase {
    /// Nothing has begun a transaction: a statement commits implicitly.
    Unbegun,
    /// `BEGIN`, or `XA START` with this XID.
    Begun {
        /// XID, if the transaction is an XA transaction.
        xid: Option<String>,
    },
    /// A statement commits implicitly. Row changes may follow.
    ImplicitCommit {
        /// Databases whose definitions the statement may change; empty for all.
        databases: Vec<Vec<u8>>,
    },
    /// The transaction has ended. [`TransactionShape::Rows`] stands for any commit.
    Ended(TransactionShape),
}

/// Inputs of the next statement.
#[derive(Default)]
struct PendingInputs {
    values: Vec<StatementInput>,
    /// The events that contain the values.
    events: Vec<u8>,
}

/// The step that goes to a temporary file.
enum StepSpool {
    Rows(Arc<SessionVariables>, RowSpooler),
    Statements(StatementSpooler),
}

impl ApplyPlanBuilder {
    /// Creates a builder for a transaction of this format. Row events beyond `held_max` bytes go to a temporary file.
    pub(crate) fn new(format: &EventFormat, held_max: usize) -> Self {
        Self {
            rows_size: 0,
            held: 0,
            held_max,
            scratch: Vec::new(),
            spool: None,
            format: Arc::new(applied_format(format)),
            context: Arc::new(SessionVariables {
                is_mariadb: format.flavour == Flavour::MariaDb,
                ..SessionVariables::default()
            }),
            steps: Vec::new(),
            phase: PlanPhase::Unbegun,
            inputs: PendingInputs::default(),
            file: LoadFileCollector::default(),
            statements_size: 0,
            session: None,
        }
    }

    fn open(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        opener: &mut PayloadOpener,
    ) -> Result<(), ApplyPlanError> {
        let Event::TransactionPayload(payload) = raw.decode(format)? else { return Ok(()) };
        let inner_format = Arc::clone(&self.format);
        let mut events = opener.open(&payload)?;
        while let Some(raw) = events.next_event()? {
            self.take(&raw, &inner_format)?;
        }
        Ok(())
    }

    /// Adds the transaction's next event.
    pub(crate) fn take(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), ApplyPlanError> {
        let mut plain = Vec::new();
        let raw = &raw.plain(format, event_size_max(self.held_max), &mut plain)?;
        match raw.decode(format)? {
            // Without the flag `STANDALONE`, the event also begins a transaction: MariaDB logs no BEGIN.
            Event::MariadbGtid(gtid) if gtid.flags & MariadbGtidEvent::STANDALONE == 0 => self.begin(None),
            Event::Query(query) => {
                self.end_row_spool()?;
                self.query(raw, &query)?;
            }
            Event::TableMap(_) => self.rows(raw, None)?,
            event if event.rows().is_some() => self.rows(raw, self.upgraded(event))?,
            Event::Xid(_) => self.commit(),
            Event::XaPrepare(prepare) if prepare.one_phase == 0 => {
                self.end(TransactionShape::XaPrepare(prepare.xid.to_string()));
            }
            Event::XaPrepare(_) => self.commit(),
            Event::Intvar(intvar) => self.variable(raw, integer(&intvar))?,
            Event::Rand(Rand { seed1, seed2 }) => {
                self.variable(raw, Some(StatementInput::RandomSeeds(seed1, seed2)))?;
            }
            Event::UserVar(variable) => self.variable(raw, Some(user(&variable)))?,
            Event::BeginLoadQuery(block) => {
                self.file = LoadFileCollector::default();
                self.add_block(block.block)?;
            }
            Event::AppendBlock(block) => self.add_block(block.block)?,
            Event::DeleteFile(_) => self.file = LoadFileCollector::default(),
            Event::ExecuteLoadQuery(load) => {
                self.end_spool()?;
                self.load(raw.header(), &load)?;
            }
            Event::Incident(incident) => return Err(incident_error(&incident)),
            _ if is_passed_over(raw) => {}
            _ => return Err(ApplyPlanError::Unsupported(raw.event_type().name().to_owned())),
        }
        Ok(())
    }

    fn query(&mut self, raw: &RawEvent<'_>, query: &Query<'_>) -> Result<(), ApplyPlanError> {
        let header = raw.header();
        self.context = Arc::new(self.context_of(query));
        self.session = Some(query.thread_id);
        match TransactionVerb::of(query.sql) {
            TransactionVerb::Begin => self.begin(None),
            TransactionVerb::XaStart => self.begin(xid_of(query.sql)),
            TransactionVerb::XaEnd => {}
            TransactionVerb::Commit => self.commit(),
            TransactionVerb::Rollback => self.end(TransactionShape::RolledBack),
            TransactionVerb::XaCommit => match xid_of(query.sql) {
                Some(xid) if !self.is_xa() => self.end(TransactionShape::XaCommit(xid)),
                _ => self.commit(),
            },
            TransactionVerb::XaRollback => match xid_of(query.sql) {
                Some(xid) if !self.is_xa() => self.end(TransactionShape::XaRollback(xid)),
                _ => self.end(TransactionShape::RolledBack),
            },
            // Only the progress is saved.
            _ if query.is_unexecuted_alter() => self.commit(),
            // Includes savepoints.
            _ => {
                let is_definition = !self.is_in_transaction() || self.is_created_from_query(query.sql);
                if is_definition {
                    self.phase = PlanPhase::ImplicitCommit { databases: databases(header, query) };
                }
                if creation(query.sql).is_some() {
                    // The server wrote this text in UTF-8, whatever the client's character set.
                    self.context = Arc::new(self.context.with_utf8_text());
                }
                let goes_to_file = self.statements_size >= self.held_max && !is_definition;
                match goes_to_file {
                    true => self.spool_statement(raw)?,
                    false => {
                        let statement = self.statement(header, query, None);
                        self.push_statement(statement)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a variable of the next statement, and its event.
    fn variable(&mut self, raw: &RawEvent<'_>, input: Option<StatementInput>) -> Result<(), ApplyPlanError> {
        self.inputs.values.extend(input);
        Ok(put_event(raw, &mut self.inputs.events)?)
    }

    /// Adds a block of the file that the next statement loads.
    fn add_block(&mut self, block: &[u8]) -> Result<(), ApplyPlanError> {
        let held_max = self.held_max.saturating_sub(self.statements_size);
        Ok(self.file.push(block, held_max)?)
    }

    fn push_statement(&mut self, statement: ApplyStep) -> Result<(), ApplyPlanError> {
        self.end_spool()?;
        self.inputs.events.clear();
        self.statements_size += statement.size() + size_of::<SourceStatement>();
        self.steps.push(statement);
        Ok(())
    }

    /// Writes a statement and its variables to a temporary file.
    fn spool_statement(&mut self, raw: &RawEvent<'_>) -> Result<(), ApplyPlanError> {
        if self.spool.is_none() {
            self.spool = Some(StepSpool::Statements(StatementSpooler::new(&self.format)?));
        }
        let Some(StepSpool::Statements(spooler)) = &mut self.spool else {
            unreachable!("ours: the spool of row events ends before a statement");
        };
        spooler.push(&self.inputs.events, raw)?;
        self.inputs = PendingInputs::default();
        Ok(())
    }

    /// Returns the statements of these events, which have no checksums.
    pub(crate) fn read_statements(
        format: &Arc<EventFormat>,
        mut events: &[u8],
    ) -> Result<Vec<SourceStatement>, ApplyPlanError> {
        let mut builder = Self::new(format, usize::MAX);
        builder.begin(None);
        while let Some((raw, rest)) = RawEvent::split_first(events, EventChecksum::Absent) {
            builder.take(&raw, format)?;
            events = rest;
        }
        let damaged = ApplyPlanError::Malformed("the temporary file with its statements is damaged");
        if !events.is_empty() {
            return Err(damaged);
        }
        let statement = |step| match step {
            ApplyStep::Statement(statement) => Ok(*statement),
            _ => Err(damaged.clone()),
        };
        builder.steps.into_iter().map(statement).collect()
    }

    /// Ends the step that goes to a temporary file.
    fn end_spool(&mut self) -> Result<(), ApplyPlanError> {
        let Some(spool) = self.spool.take() else { return Ok(()) };
        self.steps.push(match spool {
            StepSpool::Rows(context, spooler) => ApplyStep::Spooled(context, spooler.finish()?),
            StepSpool::Statements(spooler) => ApplyStep::SpooledStatements(spooler.finish()?),
        });
        Ok(())
    }

    /// Ends the step whose rows go to a temporary file.
    fn end_row_spool(&mut self) -> Result<(), ApplyPlanError> {
        match self.spool {
            Some(StepSpool::Rows(..)) => self.end_spool(),
            Some(StepSpool::Statements(_)) | None => Ok(()),
        }
    }

    /// Ends the step whose statements go to a temporary file.
    fn end_statement_spool(&mut self) -> Result<(), ApplyPlanError> {
        match self.spool {
            Some(StepSpool::Statements(_)) => self.end_spool(),
            Some(StepSpool::Rows(..)) | None => Ok(()),
        }
    }

    fn context_of(&self, query: &Query<'_>) -> SessionVariables {
        SessionVariables::of_query(query, self.format.flavour)
    }

    /// Returns whether the statement is the first part of `CREATE TABLE … SELECT`. The rows follow and commit with it.
    /// MySQL adds `START TRANSACTION` to the statement; MariaDB writes one transaction around statement and rows.
    fn is_created_from_query(&self, sql: &[u8]) -> bool {
        const VERBS: [&[u8]; 2] = [b"CREATE TABLE ", b"CREATE OR REPLACE TABLE "];
        let is_made = || VERBS.iter().any(|verb| sql.starts_with(verb));
        creation(sql).is_some() || self.format.flavour == Flavour::MariaDb && is_made()
    }

    fn statement(
        &mut self,
        header: &EventHeader,
        query: &Query<'_>,
        load: Option<LoadDataFile>,
    ) -> ApplyStep {
        let micros = query.status.iter().map_while(Result::ok).find_map(|variable| match variable {
            StatusVar::Microseconds(micros) | StatusVar::MariadbMicroseconds(micros) => Some(micros),
            _ => None,
        });
        let is_of_thread = header.flags.contains(EventFlags::THREAD_SPECIFIC);
        let database = match header.flags.contains(EventFlags::SUPPRESS_USE) {
            true => Vec::new(),
            false => query.database.to_vec(),
        };
        ApplyStep::Statement(Box::new(SourceStatement {
            sql: query.sql.to_vec(),
            database,
            default_database: query.database.to_vec(),
            time: StatementTime { seconds: header.timestamp, micros },
            thread_id: is_of_thread.then_some(query.thread_id),
            context: Arc::clone(&self.context),
            server_version: self.format.version_numbers(),
            variables: std::mem::take(&mut self.inputs.values),
            load,
            error_code: query.error_code,
        }))
    }

    fn load(&mut self, header: &EventHeader, load: &ExecuteLoadQuery<'_>) -> Result<(), ApplyPlanError> {
        self.context = Arc::new(self.context_of(&load.query));
        let file = std::mem::take(&mut self.file).finish();
        let file_name = load.name_start as usize..load.name_end as usize;
        let statement = self.statement(
            header,
            &load.query,
            Some(LoadDataFile { file_name, duplicates: load.duplicates, file }),
        );
        self.push_statement(statement)
    }

    /// Returns row events of version 1 as version 2, which every MySQL since 5.6 accepts. `None` for other events, and
    /// for MariaDB's: replay applies those as statements.
    fn upgraded<'e>(&self, event: Event<'e>) -> Option<Event<'e>> {
        use Event::{DeleteRowsV1, UpdateRowsV1, WriteRowsV1};
        let is_old = matches!(event, WriteRowsV1(_) | UpdateRowsV1(_) | DeleteRowsV1(_));
        (is_old && self.format.flavour == Flavour::MySql).then(|| event.with_rows_v2())
    }

    /// Adds a table map or row changes; writes `instead` in place of `raw`, if given.
    fn rows(&mut self, raw: &RawEvent<'_>, instead: Option<Event<'_>>) -> Result<(), ApplyPlanError> {
        self.end_statement_spool()?;
        let format = Arc::clone(&self.format);
        let put = |out: &mut Vec<u8>| match &instead {
            Some(event) => event.write(raw.header().origin(), NextPosition::Fixed(0), &format, out),
            None => raw.rewrite(raw.header().origin(), NextPosition::Fixed(0), EventChecksum::Absent, out),
        };
        if let Some(StepSpool::Rows(_, spooler)) = &mut self.spool {
            self.scratch.clear();
            put(&mut self.scratch)?;
            return Ok(spooler.push(&RawEvent::new(&self.scratch, EventChecksum::Absent)?)?);
        }
        let context = &self.context;
        let is_going_on =
            matches!(self.steps.last(), Some(ApplyStep::Rows(last, _)) if Arc::ptr_eq(last, context));
        if !is_going_on {
            let bytes = Vec::with_capacity(std::mem::take(&mut self.rows_size));
            let rows = RowEvents { format: Arc::clone(&self.format), bytes };
            self.steps.push(ApplyStep::Rows(Arc::clone(context), rows));
        }
        if let Some(ApplyStep::Rows(_, rows)) = self.steps.last_mut() {
            let before = rows.bytes.len();
            put(&mut rows.bytes)?;
            self.held += rows.bytes.len() - before;
        }
        if self.held > self.held_max {
            self.spool_last()?;
        }
        Ok(())
    }

    /// Moves the last step's row events to a temporary file. Later row events of the step go there, too.
    fn spool_last(&mut self) -> Result<(), ApplyPlanError> {
        let Some(ApplyStep::Rows(context, rows)) = self.steps.pop() else { return Ok(()) };
        let mut spooler = RowSpooler::new(&self.format)?;
        for raw in rows.events() {
            spooler.push(&raw)?;
        }
        assert!(self.held >= rows.bytes.len(), "ours: the bytes of each step are counted");
        assert!(self.spool.is_none(), "ours: rows after a spooled step go to its file");
        self.held -= rows.bytes.len();
        self.spool = Some(StepSpool::Rows(context, spooler));
        Ok(())
    }

    fn begin(&mut self, xid: Option<String>) {
        if let PlanPhase::Unbegun | PlanPhase::Begun { .. } = self.phase {
            self.phase = PlanPhase::Begun { xid };
        }
    }

    fn commit(&mut self) {
        if !matches!(self.phase, PlanPhase::Ended(_)) {
            self.end(TransactionShape::Rows);
        }
    }

    /// Ends the transaction, unless a statement commits it implicitly.
    fn end(&mut self, shape: TransactionShape) {
        if !matches!(self.phase, PlanPhase::ImplicitCommit { .. }) {
            self.phase = PlanPhase::Ended(shape);
        }
    }

    fn is_in_transaction(&self) -> bool {
        matches!(self.phase, PlanPhase::Begun { .. } | PlanPhase::Ended(_))
    }

    fn is_xa(&self) -> bool {
        matches!(self.phase, PlanPhase::Begun { xid: Some(_) })
    }

    /// Returns the complete apply plan.
    pub(crate) fn finish(mut self, kind: TransactionKind) -> Result<ApplyPlan, ApplyPlanError> {
        self.end_spool()?;
        assert!(self.held <= self.held_max, "ours: rows beyond the limit are in a file");
        let only_rows = self.steps.iter().all(|step| !step.is_statement());
        let is_empty = self.steps.is_empty() && kind == TransactionKind::Statement;
        let shape = match self.phase {
            PlanPhase::ImplicitCommit { databases } => TransactionShape::ImplicitCommit { databases },
            PlanPhase::Ended(TransactionShape::Rows) if only_rows => TransactionShape::Rows,
            PlanPhase::Ended(TransactionShape::Rows) => TransactionShape::Statements,
            PlanPhase::Ended(shape) => shape,
            PlanPhase::Unbegun | PlanPhase::Begun { .. } if is_empty => TransactionShape::Rows,
            PlanPhase::Unbegun | PlanPhase::Begun { .. } => {
                return Err(ApplyPlanError::Malformed("its payload does not end with a commit or rollback"));
            }
        };
        Ok(ApplyPlan { shape, steps: self.steps, session: self.session })
    }
}

impl From<std::io::Error> for ApplyPlanError {
    fn from(error: std::io::Error) -> Self {
        Self::Spool(error.to_string())
    }
}

impl From<SpoolPushError> for ApplyPlanError {
    fn from(error: SpoolPushError) -> Self {
        match error {
            SpoolPushError::Decode(error) => Self::Decode(error),
            SpoolPushError::Io(error) => error.into(),
        }
    }
}

impl SourceStatement {
    /// Returns the outcome of the statement on the source.
    pub fn outcome(&self) -> SourceOutcome {
        SourceOutcome::of(self.error_code)
    }

    /// Returns the text in UTF-8, from the client's character set.
    pub fn text(&self) -> Cow<'_, str> {
        let client = self.context.charset.map(|[client, ..]| client);
        sql::decode_statement(&self.sql, client, self.context.flavour())
    }

    /// Returns the kind of the statement, with the tables that it names.
    pub(crate) fn kind(&self) -> StatementKind {
        classify_statement(self.text().as_bytes())
    }

    /// Returns a `CREATE TABLE … SELECT` without its query; `None` for any other statement.
    pub fn table_creation(&self) -> Option<Vec<u8>> {
        creation(&self.sql)
    }
}

impl ApplyStep {
    /// Returns the size of the events, texts and files in memory, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Rows(_, rows) => rows.bytes.len(),
            Self::Spooled(..) | Self::SpooledStatements(_) => 0,
            Self::Statement(statement) => {
                statement.sql.len() + statement.load.as_ref().map_or(0, |load| load.file.size_in_memory())
            }
        }
    }

    /// Returns whether the step is one or more statements.
    pub(crate) const fn is_statement(&self) -> bool {
        matches!(self, Self::Statement(_) | Self::SpooledStatements(_))
    }

    /// Returns whether all parts are in memory, not in a temporary file.
    fn is_in_memory(&self) -> bool {
        match self {
            Self::Rows(..) => true,
            Self::Spooled(..) | Self::SpooledStatements(_) => false,
            Self::Statement(statement) => {
                !statement.load.as_ref().is_some_and(|load| matches!(load.file, LoadFileContent::Spooled(_)))
            }
        }
    }
}

/// Returns the format of applied events: without checksums, and with version 2 of MySQL's row events.
fn applied_format(format: &EventFormat) -> EventFormat {
    match format.flavour {
        Flavour::MySql => format.inside_payload().with_rows_v2(),
        Flavour::MariaDb => format.inside_payload(),
    }
}

/// Returns whether the event needs no action.
fn is_passed_over(raw: &RawEvent<'_>) -> bool {
    matches!(
        raw.event_type(),
        EventType::Gtid
            | EventType::AnonymousGtid
            | EventType::GtidTagged
            | EventType::MariadbGtid
            | EventType::MariadbAnnotateRows
            | EventType::RowsQuery
            | EventType::TransactionContext
            | EventType::ViewChange
            | EventType::Heartbeat
            | EventType::HeartbeatV2
            | EventType::Rotate
            | EventType::FormatDescription
            | EventType::PreviousGtids
            | EventType::Stop
            | EventType::Ignorable
            | EventType::MariadbGtidList
            | EventType::MariadbBinlogCheckpoint
    ) || raw.header().flags.contains(EventFlags::IGNORABLE)
}

fn integer(intvar: &Intvar) -> Option<StatementInput> {
    match intvar.kind {
        IntvarKind::LastInsertId => Some(StatementInput::LastInsertId(intvar.value)),
        IntvarKind::InsertId => Some(StatementInput::InsertId(intvar.value)),
        _ => None,
    }
}

fn user(variable: &UserVar<'_>) -> StatementInput {
    let value = variable.value.map(|value| UserVariableValue {
        kind: value.kind,
        collation: value.collation,
        bytes: value.bytes.to_vec(),
        is_unsigned: value.is_unsigned(),
    });
    StatementInput::User { name: variable.name.to_vec(), value }
}

fn incident_error(incident: &Incident<'_>) -> ApplyPlanError {
    ApplyPlanError::Incident(String::from_utf8_lossy(incident.message).into_owned())
}

fn xid_of(sql: &[u8]) -> Option<String> {
    TransactionVerb::xid(sql).map(str::to_owned)
}

/// Returns a `CREATE TABLE … START TRANSACTION …` without its query; `None` for any other statement.
fn creation(sql: &[u8]) -> Option<Vec<u8>> {
    let clause = sql::find_start_transaction(sql)?;
    let mut creation = sql[..clause.start].to_vec();
    creation.extend_from_slice(&sql[clause.end..]);
    Some(creation)
}

/// Returns the databases that a definition may change; empty for all.
fn databases(header: &EventHeader, query: &Query<'_>) -> Vec<Vec<u8>> {
    let updated = query.status.iter().map_while(Result::ok).find_map(|variable| match variable {
        StatusVar::UpdatedDatabases(names) => Some(names),
        _ => None,
    });
    let mut found: Vec<Vec<u8>> = match updated {
        Some(Some(names)) => names.iter().map(<[u8]>::to_vec).collect(),
        Some(None) | None => return Vec::new(),
    };
    if !query.database.is_empty() && !header.flags.contains(EventFlags::SUPPRESS_USE) {
        found.push(query.database.to_vec());
    }
    found.retain(|name| !name.is_empty());
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::{Query, RowsKind, StatusVars, Xid};
    use binlog::{
        ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, EventType, Flavour,
        NextPosition, RawEvent, TransactionKind,
    };

    use super::{ApplyPlanBuilder, ApplyPlanError, ApplyStep, TransactionShape, creation};
    use crate::row_events::RowEvents;
    use crate::sample_table::{SampleTable, image, int};

    /// Post-header sizes that MySQL 5.5 writes.
    const SIZES_OF_5_5: [u8; 27] =
        [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0];

    #[test]
    fn row_events_of_version_1_become_version_2() {
        let (server_version, checksum) = (b"5.5.34-log".to_vec(), ChecksumAlgorithm::Undefined);
        let post_header_sizes = SIZES_OF_5_5.to_vec();
        let format =
            Arc::new(EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql });
        let (sample, row) = (SampleTable::new("int"), image(&[int(7)]));
        let update = [row.as_slice(), &row].concat();
        let old = |kind, rows| {
            let mut event = sample.rows(kind, rows);
            event.extra = None;
            event
        };
        for held_max in [usize::MAX, 1] {
            let mut builder = ApplyPlanBuilder::new(&format, held_max);
            for event in [
                Event::TableMap(sample.map()),
                Event::WriteRowsV1(old(RowsKind::Write, &row)),
                Event::UpdateRowsV1(old(RowsKind::Update, &update)),
                Event::DeleteRowsV1(old(RowsKind::Delete, &row)),
            ] {
                let mut bytes = Vec::new();
                let origin = EventOrigin { timestamp: 9, server_id: 3, flags: EventFlags(0) };
                event.write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
                builder.take(&RawEvent::new(&bytes, EventChecksum::Absent).unwrap(), &format).unwrap();
            }
            builder.commit();
            let plan = builder.finish(TransactionKind::Statement).unwrap();
            let mut seen = Vec::new();
            let mut see = |rows: &RowEvents| {
                for raw in rows.events() {
                    let event = raw.decode(&rows.format).unwrap();
                    let rows = event.rows().map(|rows| (rows.extra == Some(&[]), rows.rows.to_vec()));
                    seen.push((raw.event_type(), raw.header().timestamp, rows));
                }
            };
            for step in &plan.steps {
                match step {
                    ApplyStep::Rows(_, rows) => see(rows),
                    ApplyStep::Spooled(_, rows) => rows.parts().for_each(|part| see(&part.unwrap())),
                    other => panic!("{other:?}"),
                }
            }
            let rows = |event_type, rows: &[u8]| (event_type, 9, Some((true, rows.to_vec())));
            seen.retain(|(event_type, ..)| *event_type != EventType::TableMap);
            let expected = [
                rows(EventType::WriteRows, &row),
                rows(EventType::UpdateRows, &update),
                rows(EventType::DeleteRows, &row),
            ];
            assert_eq!(seen, expected, "{held_max}");
        }
    }

    #[test]
    fn the_shape_follows_from_the_events() {
        const XA: &str = "XA START X'61',X'',1";
        let xid = || "X'61',X'',1".to_owned();
        let implicit = || Ok(TransactionShape::ImplicitCommit { databases: Vec::new() });
        check_shape("BEGIN | rows | xid", Ok(TransactionShape::Rows));
        check_shape("BEGIN | COMMIT", Ok(TransactionShape::Rows));
        check_shape("BEGIN | rows | INSERT INTO t VALUES (1) | xid", Ok(TransactionShape::Statements));
        check_shape("BEGIN | SAVEPOINT s | rows | COMMIT", Ok(TransactionShape::Statements));
        check_shape("BEGIN | INSERT INTO t VALUES (1) | ROLLBACK", Ok(TransactionShape::RolledBack));
        check_shape("CREATE TABLE t (a INT)", implicit());
        check_shape("BEGIN | CREATE TABLE `t` (`a` int) START TRANSACTION | rows | xid", implicit());
        check_shape("CREATE TABLE `t` (`a` int) START TRANSACTION | rows | ROLLBACK", implicit());
        check_shape("XA COMMIT X'61',X'',1", Ok(TransactionShape::XaCommit(xid())));
        check_shape("XA ROLLBACK X'61',X'',1", Ok(TransactionShape::XaRollback(xid())));
        let one_phase = format!("{XA} | rows | XA END X'61',X'',1 | XA COMMIT X'61',X'',1 ONE PHASE");
        check_shape(&one_phase, Ok(TransactionShape::Rows));
        let rolled_back = format!("{XA} | rows | XA END X'61',X'',1 | XA ROLLBACK X'61',X'',1");
        check_shape(&rolled_back, Ok(TransactionShape::RolledBack));
        let torn = "its payload does not end with a commit or rollback";
        check_shape("BEGIN | rows", Err(ApplyPlanError::Malformed(torn)));
        check_shape("", Ok(TransactionShape::Rows));
    }

    /// `events` are texts of queries, `rows` or `xid`, separated by `|`.
    fn check_shape(events: &str, expected: Result<TransactionShape, ApplyPlanError>) {
        let format = EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        let (sample, row) = (SampleTable::new("int"), image(&[int(7)]));
        let mut builder = ApplyPlanBuilder::new(&format, usize::MAX);
        let mut take = |event: Event<'_>| {
            let (mut bytes, origin) =
                (Vec::new(), EventOrigin { timestamp: 9, server_id: 3, flags: EventFlags(0) });
            event.write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
            builder.take(&RawEvent::new(&bytes, EventChecksum::Absent).unwrap(), &format).unwrap();
        };
        for text in events.split(" | ").filter(|text| !text.is_empty()) {
            match text {
                "rows" => {
                    take(Event::TableMap(sample.map()));
                    take(Event::WriteRows(sample.rows(RowsKind::Write, &row)));
                }
                "xid" => take(Event::Xid(Xid { xid: 1 })),
                sql => take(Event::Query(Query {
                    thread_id: 1,
                    exec_time: 0,
                    error_code: 0,
                    status: StatusVars { bytes: &[] },
                    database: b"d",
                    sql: sql.as_bytes(),
                })),
            }
        }
        let shape = builder.finish(TransactionKind::Statement).map(|plan| plan.shape);
        assert_eq!(shape, expected, "{events}");
    }

    #[test]
    fn a_table_is_made_without_its_query() {
        let found = creation(b"CREATE TABLE `t` (\n  `a` int\n) START TRANSACTION ENGINE=InnoDB");
        assert_eq!(found.as_deref(), Some(b"CREATE TABLE `t` (\n  `a` int\n)  ENGINE=InnoDB".as_slice()));
        assert_eq!(creation(b"CREATE TABLE `t` (`a` int)"), None);
    }
}
