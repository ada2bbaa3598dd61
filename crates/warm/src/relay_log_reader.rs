//! Reading of a channel's relay logs ahead of its applier, and queueing of searches for the pages that the applier will
//! need.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use binlog::events::{Query, Rows, RowsFlags, TableMap};
use binlog::gtid::Gtid;
use binlog::server_error::LOCK_WAIT_TIMEOUT;
use binlog::{
    DecodeError, EVENT_SIZE_MAX, Event, EventFormat, EventRole, EventType, PayloadOpener, RawEvent,
    RowDecoder, Table, TableRegistry,
};
use logs::{
    EndOfLog, EventWalk, LogEndAction, LogReader, PayloadEndStep, PayloadFailure, PieceReader, PieceSizes,
    ReadOutcome, Store, StoreCursor, WalkPiece, WalkSource, WalkStep, WalkSteps, read_keyring,
};
use servers::{ServerAddress, SqlConnection};
use sql::{ReplicationFilter, classify_statement, is_row_statement, query_text};

use crate::applier_lead::LeadMark;
use crate::error::WarmError;
use crate::external_applier::AppliedLogs;
use crate::information_schema;
use crate::relay_position::{LogNumber, RelayPosition};
use crate::replica_table::ReplicaTable;
use crate::search_plan::{ChangeBuffering, SearchPlan};
use crate::search_window::{SearchBatch, SearchBatcher, SearchWindow};
use crate::search_worker;
use crate::statement::{self, FunctionSet, SkipReason};
use crate::statement_session::StatementSession;
use crate::warm_shared::{PassStart, ReaderAction, SearchJob, SearchQuery, StatementSearch, WarmShared};

/// Bytes per read.
const CHUNK_SIZE: usize = 64 << 10;
/// Size in bytes above which a payload event is decompressed while it is read. Bounds memory.
const LARGE_PAYLOAD_SIZE: usize = 16 << 20;
/// Interval at which the end of the last log is polled.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before a retry when logs or the server are temporarily unavailable.
const RETRY_BACKOFF: Duration = Duration::from_millis(500);
/// Searches per statement. Few, so that statements are short and block no other session for long.
const BATCH_SIZE: usize = 16;

/// Reader of a channel's relay logs.
pub(crate) struct RelayLogReader<'s> {
    pub(crate) shared: &'s WarmShared,
    /// Index of the channel.
    pub(crate) channel: usize,
    /// Logs to read; for a replica, the index or the directory of its relay logs.
    pub(crate) logs: AppliedLogs,
    pub(crate) keyring: Option<PathBuf>,
    pub(crate) address: ServerAddress,
    pub(crate) buffering: ChangeBuffering,
    pub(crate) functions: FunctionSet,
    pub(crate) window: SearchWindow,
    pub(crate) connection: Option<SqlConnection>,
    /// Cached columns by database and table.
    pub(crate) columns: HashMap<(String, String), CachedColumns>,
}

/// Columns of a table that only its clustered index contains.
pub(crate) struct CachedColumns {
    definitions: u64,
    /// `None` if the table cannot be searched.
    columns: Option<Vec<String>>,
}

/// One pass over the logs from the applier's position on, and its state.
struct RelayLogPass<'r, 's> {
    reader: &'r mut RelayLogReader<'s>,
    start: PassStart,
    /// Replication filter and database rewrites of the applier.
    filter: ReplicationFilter,
    /// Table maps, with rewritten database names.
    tables: TableRegistry,
    /// IDs of the current statement's tables that the filter excludes.
    excluded_tables: HashSet<u64>,
    plans: HashMap<u64, CachedSearchPlan>,
    batcher: SearchBatcher,
    /// Current log.
    log: LogNumber,
}

/// A table and the searches for its rows.
struct CachedSearchPlan {
    table: Arc<Table>,
    definitions: u64,
    plan: Option<Arc<SearchPlan>>,
}

/// Position, timestamp and format of an event.
#[derive(Clone, Copy)]
struct EventScope<'a> {
    /// End of the event.
    position: RelayPosition,
    timestamp: u32,
    format: &'a EventFormat,
}

/// Error of a single event.
enum WarmEventError {
    /// The event is corrupt.
    Decode(String),
    Error(WarmError),
}

impl From<DecodeError> for WarmEventError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error.to_string())
    }
}

impl From<binlog::PayloadError> for WarmEventError {
    fn from(error: binlog::PayloadError) -> Self {
        Self::Decode(error.to_string())
    }
}

/// Sequence of logs.
enum LogSequence {
    Trail(StoreCursor),
    /// Files after the current one, and the number of the current one.
    Files(VecDeque<PathBuf>, LogNumber),
}

impl LogSequence {
    /// Returns the sequence from this log on, and the log's path; `None` if the log does not exist.
    fn starting_at(logs: &AppliedLogs, log: LogNumber) -> Result<Option<(Self, PathBuf)>, WarmError> {
        match logs {
            AppliedLogs::Store(path) => {
                let store = Store::open(path)?;
                let log = store.logs().iter().find(|path| number_of(path) == Some(log)).cloned();
                Ok(log.map(|log| (Self::Trail(StoreCursor::new(store, log.clone())), log)))
            }
            AppliedLogs::Files(files) => {
                let passed = usize::try_from(log.number()).unwrap_or(usize::MAX);
                let mut rest: VecDeque<PathBuf> = files.iter().skip(passed).cloned().collect();
                Ok(rest.pop_front().map(|path| (Self::Files(rest, log), path)))
            }
        }
    }

    fn after(&mut self, end: EndOfLog, reader: &LogReader) -> Result<LogEndAction, WarmError> {
        match self {
            Self::Trail(trail) => Ok(trail.reach_end(end, reader)?),
            // The applier reports a torn log.
            Self::Files(rest, log) => Ok(match rest.pop_front() {
                Some(path) => {
                    *log = log.next();
                    LogEndAction::NextLog(path)
                }
                None => LogEndAction::Wait,
            }),
        }
    }

    /// Returns the number of the current log.
    fn number(&self, path: &Path) -> Option<LogNumber> {
        match self {
            Self::Trail(_) => number_of(path),
            Self::Files(_, log) => Some(*log),
        }
    }
}

fn number_of(log: &Path) -> Option<LogNumber> {
    log.file_name().and_then(|name| LogNumber::of(&name.to_string_lossy()))
}

impl RelayLogReader<'_> {
    /// Runs until the end of warming, or a permanent error.
    pub(crate) fn run(&mut self) {
        while let Some(begin) = self.shared.wait_for_start(self.channel) {
            match self.run_pass(begin) {
                Ok(ReaderAction::Stop) => return,
                Ok(_) => self.shared.count(|counts| counts.jumps += 1),
                Err(error) if is_transient(&error) => {
                    self.connection = None;
                    self.shared.count(|counts| counts.jumps += 1);
                    self.shared.sleep(RETRY_BACKOFF);
                }
                Err(error) => return self.shared.fail(error),
            }
        }
    }

    /// Makes one pass, starting at the applier's position.
    fn run_pass(&mut self, begin: PassStart) -> Result<ReaderAction, WarmError> {
        let Some((mut way, log)) = LogSequence::starting_at(&self.logs, begin.position.log)? else {
            // The log was purged since the applier reported it, or is not in the index yet.
            self.shared.sleep(RETRY_BACKOFF);
            return Ok(ReaderAction::Restart);
        };
        let mut reader = self.open(&log)?;
        skip_to(&mut reader, begin.position.offset)?;
        let mut pieces = new_pieces(reader);
        // Some searches in the window may not have run.
        self.window.clear();
        let filter = self.shared.filter(self.channel);
        let mut course = RelayLogPass {
            reader: self,
            start: begin,
            filter,
            tables: TableRegistry::new(),
            excluded_tables: HashSet::new(),
            plans: HashMap::new(),
            batcher: SearchBatcher::new(BATCH_SIZE),
            log: begin.position.log,
        };
        let mut walk = EventWalk::default();
        loop {
            let turn = match pieces.next_piece()? {
                ReadOutcome::Some(piece) => course.read_piece(piece, &mut walk)?,
                ReadOutcome::End(end) => course.end_of_log(end, &mut way, &mut pieces)?,
            };
            if turn != ReaderAction::Continue {
                return Ok(turn);
            }
        }
    }

    fn open(&self, log: &Path) -> Result<LogReader, WarmError> {
        let reader = match &self.logs {
            AppliedLogs::Store(_) => LogReader::open_stored(log)?,
            AppliedLogs::Files(_) => LogReader::open(log)?,
        };
        Ok(match &self.keyring {
            Some(keyring) => reader.with_keyring(Arc::new(read_keyring(keyring)?)),
            None => reader,
        })
    }

    fn plan(&mut self, table: &Table, format: &EventFormat) -> Result<Option<SearchPlan>, WarmError> {
        let definition = self.load_table(&table.database, &table.name)?;
        Ok(definition
            .and_then(|definition| SearchPlan::new(table, format.flavour, &definition, self.buffering)))
    }

    /// Returns a search for the rows that a statement will read, or the reason why there is none.
    fn text_search(
        &mut self,
        query: &Query<'_>,
        at: EventScope<'_>,
    ) -> Result<Result<StatementSearch, SkipReason>, WarmError> {
        let session = match StatementSession::from_query(query, at.timestamp, at.format.flavour) {
            Ok(session) => session,
            Err(left) => return Ok(Err(left)),
        };
        let extent = match statement::read_extent(&session.statement(query.sql, self.functions)) {
            Ok(extent) => extent,
            Err(left) => return Ok(Err(left)),
        };
        let (mut known, mut tables) = (HashMap::new(), Vec::new());
        for name in &extent.all {
            let database = name.database.as_deref().unwrap_or(&session.database);
            match self.row_only_columns(database, &name.table)? {
                Some(columns) => known.insert(name, columns),
                None => return Ok(Err(SkipReason::Table)),
            };
            tables.push(format!("{database}.{}", name.table));
        }
        if self.shared.is_slow(&tables) {
            return Ok(Err(SkipReason::Slow));
        }
        let columns = extent.tables.iter().map(|table| known.get(&table.name).cloned());
        let sql = columns
            .collect::<Option<Vec<_>>>()
            .ok_or(SkipReason::Table)
            .and_then(|columns| extent.sql(&columns));
        Ok(sql.map(|sql| StatementSearch { session: session.sql().into(), sql, tables }))
    }

    /// Returns the columns that only the table's clustered index contains. Reloads them when definitions may have
    /// changed.
    fn row_only_columns(&mut self, database: &str, table: &str) -> Result<Option<Vec<String>>, WarmError> {
        let definitions = self.shared.definitions_version();
        let name = (database.to_owned(), table.to_owned());
        if let Some(known) = self.columns.get(&name)
            && known.definitions == definitions
        {
            return Ok(known.columns.clone());
        }
        let definition = self.load_table(database.as_bytes(), table.as_bytes())?;
        let columns = definition.as_ref().and_then(statement::row_only_columns);
        if self.columns.len() >= PLANS_MAX {
            self.columns.clear();
        }
        self.columns.insert(name, CachedColumns { definitions, columns: columns.clone() });
        Ok(columns)
    }

    fn load_table(&mut self, database: &[u8], table: &[u8]) -> Result<Option<ReplicaTable>, WarmError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let opened = search_worker::read_only(&self.address);
                self.connection.insert(opened.map_err(WarmError::server("log in to the replica"))?)
            }
        };
        let definition = information_schema::load_table(connection, database, table);
        definition.map_err(WarmError::server("query a table's definition"))
    }
}

impl RelayLogPass<'_, '_> {
    fn read_piece(&mut self, piece: WalkPiece, walk: &mut EventWalk) -> Result<ReaderAction, WarmError> {
        let (turn, end) = match piece {
            WalkPiece::Chunk(chunk) => {
                let end = self.position(chunk.end());
                if self.reader.shared.is_passed(self.reader.channel, end) {
                    return Ok(ReaderAction::Restart);
                }
                (self.read_steps(walk.start(WalkSource::Chunk(&chunk)), 0)?, end)
            }
            WalkPiece::PayloadPart(part) => {
                let timestamp = part.head.header.timestamp;
                return self.read_steps(walk.start(WalkSource::Part(&part)), timestamp);
            }
            WalkPiece::PayloadStart(_) => return Ok(ReaderAction::Continue),
            WalkPiece::PayloadEnd { head, end } => {
                end?;
                (ReaderAction::Continue, self.position(head.end()))
            }
        };
        if turn == ReaderAction::Continue {
            self.flush(end);
        }
        Ok(turn)
    }

    /// Reads events. `timestamp` is the timestamp of the payload's event, if the events start inside a payload.
    fn read_steps(
        &mut self,
        mut steps: WalkSteps<'_, '_>,
        mut timestamp: u32,
    ) -> Result<ReaderAction, WarmError> {
        while let Some(step) = steps.next() {
            let event = match step {
                WalkStep::Event(event) => event,
                WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => {
                    let failed = result.map_err(|failure| match failure {
                        PayloadFailure::Event(error) => WarmEventError::from(error),
                        PayloadFailure::Payload(error) => WarmEventError::from(error),
                    });
                    failed.map_err(|fault| self.to_error(fault, offset))?;
                    continue;
                }
                WalkStep::LargePayload(_) => continue,
            };
            if event.inner.is_none() {
                timestamp = event.raw.header().timestamp;
            }
            let at = EventScope { position: self.position(event.end), timestamp, format: event.format };
            let turn = self.read_event(&event.raw, at).map_err(|fault| self.to_error(fault, event.offset))?;
            if turn != ReaderAction::Continue {
                return Ok(turn);
            }
        }
        Ok(ReaderAction::Continue)
    }

    fn end_of_log(
        &mut self,
        end: EndOfLog,
        way: &mut LogSequence,
        pieces: &mut PieceReader,
    ) -> Result<ReaderAction, WarmError> {
        self.flush(self.position(pieces.reader().position()));
        match way.after(end, pieces.reader())? {
            LogEndAction::Wait => {
                self.reader.shared.sleep(LOG_POLL_INTERVAL);
                let is_overtaken =
                    |position: RelayPosition| self.reader.shared.is_passed(self.reader.channel, position);
                let next = RelayPosition { log: self.log.next(), offset: 0 };
                if is_overtaken(next) {
                    return Ok(ReaderAction::Restart);
                }
                Ok(self.reader.shared.reader_action(self.reader.channel, self.start))
            }
            LogEndAction::ReadAgain => Ok(ReaderAction::Continue),
            LogEndAction::NextLog(next) => {
                *pieces = new_pieces(self.reader.open(&next)?);
                self.log = way.number(&next).unwrap_or(self.log.next());
                Ok(ReaderAction::Continue)
            }
        }
    }

    fn read_event(&mut self, raw: &RawEvent<'_>, at: EventScope<'_>) -> Result<ReaderAction, WarmEventError> {
        let mut plain = Vec::new();
        let raw = raw.plain(at.format, EVENT_SIZE_MAX, &mut plain)?;
        if !is_of_interest(raw.event_type()) {
            return Ok(ReaderAction::Continue);
        }
        match raw.decode(at.format)? {
            Event::TableMap(map) => self.process_table_map(&map)?,
            Event::Query(query) => return self.process_statement(&raw, &query, at),
            Event::ExecuteLoadQuery(load) => return self.process_statement(&raw, &load.query, at),
            Event::Gtid(gtid) => return Ok(self.begin_transaction(gtid.gtid(), &raw, at)),
            Event::GtidTagged(gtid) => return Ok(self.begin_transaction(gtid.gtid(), &raw, at)),
            event => {
                if let Some(rows) = event.rows() {
                    return self.process_rows(rows, at);
                }
            }
        }
        Ok(ReaderAction::Continue)
    }

    fn process_table_map(&mut self, map: &TableMap<'_>) -> Result<(), WarmEventError> {
        let database = self.filter.target_database(map.database);
        let is_selected =
            self.filter.accepts_database(database) && self.filter.accepts_tables([(database, map.table)]);
        if is_selected {
            self.excluded_tables.remove(&map.table_id);
            self.tables.register(&TableMap { database, ..*map })?;
        } else {
            self.excluded_tables.insert(map.table_id);
        }
        Ok(())
    }

    /// Skips a change that the applier filters out.
    fn skip_filtered(&self, at: EventScope<'_>) -> ReaderAction {
        let mark =
            LeadMark { position: at.position, events: 1, timestamp: at.timestamp, ..LeadMark::default() };
        self.reader.shared.add_mark(self.reader.channel, mark, |counts| counts.filtered += 1);
        ReaderAction::Continue
    }

    /// Starts a transaction, which ends the previous one.
    fn begin_transaction(
        &mut self,
        gtid: Option<Gtid>,
        raw: &RawEvent<'_>,
        at: EventScope<'_>,
    ) -> ReaderAction {
        let size = raw.bytes().len() as u64;
        let position = RelayPosition { offset: at.position.offset.saturating_sub(size), ..at.position };
        self.reader.shared.begin_transaction(self.reader.channel, gtid, position);
        self.wait_for_room(at.position)
    }

    /// Takes a statement, which may change table definitions or rows.
    fn process_statement(
        &mut self,
        raw: &RawEvent<'_>,
        query: &Query<'_>,
        at: EventScope<'_>,
    ) -> Result<ReaderAction, WarmEventError> {
        let (shared, channel) = (self.reader.shared, self.reader.channel);
        if EventRole::of(raw, at.format)? != EventRole::Statement || shared.is_passed(channel, at.position) {
            return Ok(ReaderAction::Continue);
        }
        let turn = self.wait_for_room(at.position);
        if turn != ReaderAction::Continue {
            return Ok(turn);
        }
        let query = &Query { database: self.filter.target_database(query.database), ..*query };
        let kind = || classify_statement(query_text(query, at.format.flavour).as_bytes());
        if !self.filter.is_empty() && !self.filter.accepts_statement(&kind(), query.database) {
            return Ok(self.skip_filtered(at));
        }
        if !is_row_statement(query.sql) {
            shared.add_definition_change(channel, at.position);
        }
        let mut mark =
            LeadMark { position: at.position, events: 1, timestamp: at.timestamp, ..LeadMark::default() };
        if shared.is_too_close(channel) {
            shared.add_mark(channel, mark, |_| ());
            return Ok(ReaderAction::Continue);
        }
        let found = self.reader.text_search(query, at).map_err(WarmEventError::Error)?;
        let is_new = found.as_ref().is_ok_and(|search| self.reader.window.is_new_text(search));
        mark.searches = is_new.into();
        shared.add_mark(channel, mark, |counts| {
            counts.searches += mark.searches;
            match &found {
                Ok(_) => {
                    counts.statements += 1;
                    counts.repeated += u64::from(!is_new);
                }
                Err(left) => {
                    counts.discarded += 1;
                    *counts.skip_reasons.entry(*left).or_default() += 1;
                }
            }
        });
        if let (Ok(search), true) = (found, is_new) {
            self.push(SearchQuery::Statement(search), at.position);
        }
        Ok(ReaderAction::Continue)
    }

    /// Waits until there is room for more searches.
    fn wait_for_room(&mut self, position: RelayPosition) -> ReaderAction {
        let (shared, channel) = (self.reader.shared, self.reader.channel);
        if !shared.has_room(channel) {
            // Do not hold back gathered searches while waiting.
            self.flush(position);
        }
        shared.wait_for_room(channel, self.start)
    }

    fn process_rows(&mut self, rows: &Rows<'_>, at: EventScope<'_>) -> Result<ReaderAction, WarmEventError> {
        let (shared, channel) = (self.reader.shared, self.reader.channel);
        let is_excluded = self.excluded_tables.contains(&rows.table_id);
        if rows.flags.contains(RowsFlags::STATEMENT_END) {
            self.excluded_tables.clear();
        }
        if rows.column_count == 0 || shared.is_passed(channel, at.position) {
            return Ok(ReaderAction::Continue);
        }
        let turn = self.wait_for_room(at.position);
        if turn != ReaderAction::Continue {
            return Ok(turn);
        }
        if is_excluded {
            return Ok(self.skip_filtered(at));
        }
        let decoder = self.tables.decoder(rows)?;
        let count = decoder.count(rows)?;
        let mut mark =
            LeadMark { position: at.position, events: 1, searches: 0, rows: count, timestamp: at.timestamp };
        if shared.is_too_close(channel) || shared.are_rows_changed(channel, count) {
            shared.add_mark(channel, mark, |_| ());
            return Ok(ReaderAction::Continue);
        }
        let plan = self.plan(&decoder, rows.table_id, at.format).map_err(WarmEventError::Error)?;
        let mut found = EventCounts::default();
        let mut full = Vec::new();
        match &plan {
            Some(plan) => full = self.batch_searches(plan, &decoder, rows, &mut found)?,
            None => (found.rows, found.rows_unsearchable) = (count, count),
        }
        mark.searches = found.searches;
        shared.add_mark(channel, mark, |counts| {
            counts.events += 1;
            counts.rows += found.rows;
            counts.rows_unsearchable += found.rows_unsearchable;
            counts.searches += found.searches;
            counts.repeated += found.repeated;
        });
        self.push_all(full, at.position);
        Ok(ReaderAction::Continue)
    }

    /// Counts the rows in `found`. Returns the batches that are complete with them.
    fn batch_searches(
        &mut self,
        plan: &SearchPlan,
        decoder: &RowDecoder,
        rows: &Rows<'_>,
        found: &mut EventCounts,
    ) -> Result<Vec<SearchBatch>, WarmEventError> {
        let mut full = Vec::new();
        for row in decoder.rows(rows) {
            found.rows += 1;
            plan.for_each_search(rows.kind, &row?, &mut |search| {
                if !self.reader.window.is_new(&search) {
                    found.repeated += 1;
                    return;
                }
                found.searches += 1;
                full.extend(self.batcher.add(search));
            })?;
        }
        Ok(full)
    }

    /// Returns the plan for a table's rows. Recreates it when definitions may have changed.
    fn plan(
        &mut self,
        decoder: &RowDecoder,
        table_id: u64,
        format: &EventFormat,
    ) -> Result<Option<Arc<SearchPlan>>, WarmError> {
        let definitions = self.reader.shared.definitions_version();
        let Some(image) = decoder.before().or(decoder.after()) else { return Ok(None) };
        let table = image.table();
        if let Some(planned) = self.plans.get(&table_id)
            && planned.definitions == definitions
            && *planned.table == *table
        {
            return Ok(planned.plan.clone());
        }
        let plan = self.reader.plan(table, format)?.map(Arc::new);
        if self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        let planned = CachedSearchPlan { table: Arc::new(table.clone()), definitions, plan: plan.clone() };
        self.plans.insert(table_id, planned);
        Ok(plan)
    }

    fn flush(&mut self, position: RelayPosition) {
        let batches = self.batcher.flush();
        self.push_all(batches, position);
    }

    fn push_all(&self, batches: Vec<SearchBatch>, position: RelayPosition) {
        for batch in batches {
            self.push(SearchQuery::Batch(batch), position);
        }
    }

    fn push(&self, search: SearchQuery, position: RelayPosition) {
        let (channel, epoch) = (self.reader.channel, self.start.epoch);
        self.reader.shared.push(SearchJob { channel, epoch, position, search });
    }

    const fn position(&self, offset: u64) -> RelayPosition {
        RelayPosition { log: self.log, offset }
    }

    fn to_error(&self, fault: WarmEventError, offset: u64) -> WarmError {
        match fault {
            WarmEventError::Error(error) => error,
            WarmEventError::Decode(reason) => WarmError::Corrupt {
                log: self.reader.logs.to_string(),
                position: self.position(offset),
                reason,
            },
        }
    }
}

/// Counters of one event.
#[derive(Default)]
struct EventCounts {
    rows: u64,
    rows_unsearchable: u64,
    searches: u64,
    repeated: u64,
}

/// Cached plans; all are dropped when there are more. Bounds memory.
const PLANS_MAX: usize = 4096;

/// Returns whether an event matters here. Other events need no decoding, and some are large.
fn is_of_interest(event_type: EventType) -> bool {
    event_type.rows_kind().is_some()
        || matches!(
            event_type,
            EventType::TableMap
                | EventType::Query
                | EventType::ExecuteLoadQuery
                | EventType::Gtid
                | EventType::GtidTagged
                | EventType::PreGaWriteRows
                | EventType::PreGaUpdateRows
                | EventType::PreGaDeleteRows
        )
}

fn new_pieces(reader: LogReader) -> PieceReader {
    let sizes = PieceSizes { chunk_size: CHUNK_SIZE, large_size: LARGE_PAYLOAD_SIZE };
    PieceReader::new(reader, sizes, PayloadOpener::new())
}

/// Skips to the applier's position, after reading the log's head, which contains its format and encryption.
fn skip_to(reader: &mut LogReader, offset: u64) -> Result<(), WarmError> {
    while reader.position() < offset {
        let is_head = match reader.next_event()? {
            ReadOutcome::End(_) => return Ok(()),
            ReadOutcome::Some(event) => matches!(
                event.raw.event_type(),
                EventType::FormatDescription
                    | EventType::PreviousGtids
                    | EventType::Rotate
                    | EventType::MariadbGtidList
                    | EventType::MariadbStartEncryption
                    | EventType::MariadbBinlogCheckpoint
            ),
        };
        if !is_head {
            reader.skip_to(offset.max(reader.position()))?;
        }
    }
    Ok(())
}

/// Returns whether the error is temporary: while a replica runs, logs appear and disappear, and servers restart.
fn is_transient(error: &WarmError) -> bool {
    match error {
        WarmError::Log(logs::LogError::Io { cause, .. }) => cause.kind() == ErrorKind::NotFound,
        WarmError::Log(
            logs::LogError::Purged { .. }
            | logs::LogError::Removed { .. }
            | logs::LogError::NoLogs { .. }
            | logs::LogError::PastEnd { .. },
        ) => true,
        // Another session holds a metadata lock for longer than the search waits.
        WarmError::Server { cause, .. } if cause.code() == Some(LOCK_WAIT_TIMEOUT) => true,
        error => error.is_transient(),
    }
}
