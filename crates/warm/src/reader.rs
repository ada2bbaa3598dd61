//! Reading of a channel's relay logs ahead of its applier, and queueing of searches for the pages that it will need.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use binlog::events::{Query, Rows, RowsFlags, TableMap, TransactionPayload};
use binlog::gtid::Gtid;
use binlog::{
    Checksum, DecodeError, EVENT_SIZE_MAX, Event, EventType, Format, PayloadOpener, RawEvent, Role,
    RowDecoder, Table, Tables,
};
use filter::{Filter, kind};
use logs::{After, Chunk, End, LargePayload, LogReader, Next, Piece, Store, Trail, read_keyring};
use servers::{Address, Connection};

use crate::applier::AppliedLogs;
use crate::catalogue;
use crate::definition::Definition;
use crate::error::Error;
use crate::lead::Mark;
use crate::place::{LogNumber, Place};
use crate::session::Session;
use crate::shared::{Begin, Job, Search, Shared, TextSearch, Turn};
use crate::statement::{self, Functions, Left, without_comments};
use crate::touch::{Buffering, Plan};
use crate::window::{Batch, Batcher, Window};
use crate::worker;

/// Bytes per read.
const CHUNK_SIZE: usize = 64 << 10;
/// Size in bytes above which a payload event is decompressed while it is read. Bounds memory.
const LARGE_SIZE: usize = 16 << 20;
/// Interval at which the end of the last log is polled.
const GLANCE: Duration = Duration::from_millis(20);
/// Pause before a retry when logs or the server are temporarily unavailable.
const PAUSE: Duration = Duration::from_millis(500);
/// Error number of `ER_LOCK_WAIT_TIMEOUT`.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// Searches per statement. Few, so that statements are short and block no one for long.
const BATCH_SIZE: usize = 16;

/// Reader of a channel's relay logs.
pub(crate) struct Reader<'s> {
    pub(crate) shared: &'s Shared,
    /// Index of the channel.
    pub(crate) lane: usize,
    /// Logs to read; for a replica, the index or the directory of its relay logs.
    pub(crate) logs: AppliedLogs,
    pub(crate) keyring: Option<PathBuf>,
    pub(crate) address: Address,
    pub(crate) buffering: Buffering,
    pub(crate) functions: Functions,
    pub(crate) window: Window,
    pub(crate) connection: Option<Connection>,
    /// Cached columns by database and table.
    pub(crate) columns: HashMap<(String, String), KnownColumns>,
}

/// Columns of a table that only its clustered index contains.
pub(crate) struct KnownColumns {
    definitions: u64,
    /// `None` if the table cannot be searched.
    columns: Option<Vec<String>>,
}

/// One pass over the logs from the applier's position on, and its state.
struct Course<'r, 's> {
    reader: &'r mut Reader<'s>,
    begin: Begin,
    /// Replication filter and database rewrites of the applier.
    filter: Filter,
    /// Table maps, with rewritten database names.
    tables: Tables,
    /// IDs of the current statement's tables that the filter excludes.
    left_out: HashSet<u64>,
    plans: HashMap<u64, Planned>,
    batcher: Batcher,
    opener: Option<PayloadOpener>,
    /// Current log.
    log: LogNumber,
}

/// A table and the searches for its rows.
struct Planned {
    table: Arc<Table>,
    definitions: u64,
    plan: Option<Arc<Plan>>,
}

/// Position, timestamp and format of an event.
#[derive(Clone, Copy)]
struct At<'a> {
    /// End of the event.
    place: Place,
    timestamp: u32,
    format: &'a Format,
}

/// Error of a single event.
enum Fault {
    /// The event is corrupt.
    Decode(String),
    Error(Error),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error.to_string())
    }
}

impl From<binlog::PayloadError> for Fault {
    fn from(error: binlog::PayloadError) -> Self {
        Self::Decode(error.to_string())
    }
}

impl From<logs::Error> for Fault {
    fn from(error: logs::Error) -> Self {
        Self::Error(error.into())
    }
}

/// Sequence of logs.
enum Way {
    Trail(Trail),
    /// Files after the current one, and the number of the current one.
    Files(VecDeque<PathBuf>, LogNumber),
}

impl Way {
    /// Returns the sequence from this log on, and the log's path; `None` if the log does not exist.
    fn from(logs: &AppliedLogs, log: LogNumber) -> Result<Option<(Self, PathBuf)>, Error> {
        match logs {
            AppliedLogs::Store(path) => {
                let store = Store::open(path)?;
                let log = store.logs().iter().find(|path| number_of(path) == Some(log)).cloned();
                Ok(log.map(|log| (Self::Trail(Trail::new(store, log.clone())), log)))
            }
            AppliedLogs::Files(files) => {
                let passed = usize::try_from(log.number()).unwrap_or(usize::MAX);
                let mut rest: VecDeque<PathBuf> = files.iter().skip(passed).cloned().collect();
                Ok(rest.pop_front().map(|path| (Self::Files(rest, log), path)))
            }
        }
    }

    fn at_end(&mut self, end: End, reader: &LogReader) -> Result<After, Error> {
        match self {
            Self::Trail(trail) => Ok(trail.at_end(end, reader)?),
            // The applier reports a torn log.
            Self::Files(rest, log) => Ok(match rest.pop_front() {
                Some(path) => {
                    *log = log.next();
                    After::Next(path)
                }
                None => After::Wait,
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

impl Reader<'_> {
    /// Runs until the end of warming, or a permanent error.
    pub(crate) fn run(&mut self) {
        while let Some(begin) = self.shared.begin(self.lane) {
            match self.course(begin) {
                Ok(Turn::Over) => return,
                Ok(_) => self.shared.count(|counts| counts.jumps += 1),
                Err(error) if is_passing(&error) => {
                    self.connection = None;
                    self.shared.count(|counts| counts.jumps += 1);
                    self.shared.rest(PAUSE);
                }
                Err(error) => return self.shared.fail(error),
            }
        }
    }

    /// Makes one pass from the applier's position on.
    fn course(&mut self, begin: Begin) -> Result<Turn, Error> {
        let Some((mut way, log)) = Way::from(&self.logs, begin.place.log)? else {
            // The log was purged since the applier reported it, or is not in the index yet.
            self.shared.rest(PAUSE);
            return Ok(Turn::Jump);
        };
        let mut reader = self.open(&log)?;
        skip_to(&mut reader, begin.place.offset)?;
        // Some searches in the window may not have run.
        self.window.clear();
        let filter = self.shared.filter(self.lane);
        let mut course = Course {
            reader: self,
            begin,
            filter,
            tables: Tables::new(),
            left_out: HashSet::new(),
            plans: HashMap::new(),
            batcher: Batcher::new(BATCH_SIZE),
            opener: None,
            log: begin.place.log,
        };
        loop {
            let turn = match reader.next_piece(CHUNK_SIZE, LARGE_SIZE)? {
                Next::Some(Piece::Chunk(chunk)) => course.chunk(&chunk)?,
                Next::Some(Piece::LargePayload(payload)) => course.large(payload)?,
                Next::End(end) => course.end(end, &mut way, &mut reader)?,
            };
            if turn != Turn::Go {
                return Ok(turn);
            }
        }
    }

    fn open(&self, log: &Path) -> Result<LogReader, Error> {
        let reader = match &self.logs {
            AppliedLogs::Store(_) => LogReader::open_stored(log)?,
            AppliedLogs::Files(_) => LogReader::open(log)?,
        };
        Ok(match &self.keyring {
            Some(keyring) => reader.with_keyring(Arc::new(read_keyring(keyring)?)),
            None => reader,
        })
    }

    fn plan(&mut self, table: &Table, format: &Format) -> Result<Option<Plan>, Error> {
        let definition = self.definition(&table.database, &table.name)?;
        Ok(definition.and_then(|definition| Plan::new(table, format.flavour, &definition, self.buffering)))
    }

    /// Returns a search for the rows that a statement will read, or the reason why there is none.
    fn text_search(&mut self, query: &Query<'_>, at: At<'_>) -> Result<Result<TextSearch, Left>, Error> {
        let session = match Session::of(query, at.timestamp, at.format.flavour) {
            Ok(session) => session,
            Err(left) => return Ok(Err(left)),
        };
        let extent = match statement::extent(&session.statement(query.sql, self.functions)) {
            Ok(extent) => extent,
            Err(left) => return Ok(Err(left)),
        };
        let (mut known, mut tables) = (HashMap::new(), Vec::new());
        for name in &extent.all {
            let database = name.database.as_deref().unwrap_or(&session.database);
            match self.columns(database, &name.table)? {
                Some(columns) => known.insert(name, columns),
                None => return Ok(Err(Left::Table)),
            };
            tables.push(format!("{database}.{}", name.table));
        }
        if self.shared.is_slow(&tables) {
            return Ok(Err(Left::Slow));
        }
        let columns = extent.tables.iter().map(|table| known.get(&table.name).cloned());
        let sql =
            columns.collect::<Option<Vec<_>>>().ok_or(Left::Table).and_then(|columns| extent.sql(&columns));
        Ok(sql.map(|sql| TextSearch { session: session.sql().into(), sql, tables }))
    }

    /// Returns the columns that only the table's clustered index contains. Reloads them when definitions may have
    /// changed.
    fn columns(&mut self, database: &str, table: &str) -> Result<Option<Vec<String>>, Error> {
        let definitions = self.shared.definitions();
        let name = (database.to_owned(), table.to_owned());
        if let Some(known) = self.columns.get(&name)
            && known.definitions == definitions
        {
            return Ok(known.columns.clone());
        }
        let definition = self.definition(database.as_bytes(), table.as_bytes())?;
        let columns = definition.as_ref().and_then(statement::columns_of_rows);
        if self.columns.len() >= PLANS_MAX {
            self.columns.clear();
        }
        self.columns.insert(name, KnownColumns { definitions, columns: columns.clone() });
        Ok(columns)
    }

    fn definition(&mut self, database: &[u8], table: &[u8]) -> Result<Option<Definition>, Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let opened = worker::read_only(&self.address);
                self.connection.insert(opened.map_err(Error::server("connect to the replica"))?)
            }
        };
        let definition = catalogue::definition(connection, database, table);
        definition.map_err(Error::server("query a table's definition"))
    }
}

impl Course<'_, '_> {
    fn chunk(&mut self, chunk: &Chunk) -> Result<Turn, Error> {
        let (shared, lane) = (self.reader.shared, self.reader.lane);
        if shared.is_passed(lane, self.at(chunk.end())) {
            return Ok(Turn::Jump);
        }
        for event in chunk.iter() {
            let place = self.at(event.end());
            let at = At { place, timestamp: event.raw.header().timestamp, format: chunk.format() };
            let turn = self.event(&event.raw, at).map_err(|fault| self.fault(fault, event.offset))?;
            if turn != Turn::Go {
                return Ok(turn);
            }
        }
        self.flush(self.at(chunk.end()));
        Ok(Turn::Go)
    }

    fn large(&mut self, payload: LargePayload<'_>) -> Result<Turn, Error> {
        let (offset, place) = (payload.offset(), self.at(payload.end()));
        let timestamp = payload.header().timestamp;
        let format = payload.format().inside_payload();
        let at = At { place, timestamp, format: &format };
        let mut opener = self.opener.take().unwrap_or_default();
        let mut events = payload.open(&mut opener)?;
        let mut bytes = Vec::new();
        while events.next_chunk(CHUNK_SIZE, &mut bytes)? > 0 {
            let mut rest = bytes.as_slice();
            while let Some((raw, behind)) = RawEvent::split_first(rest, Checksum::Absent) {
                let turn = self.event(&raw, at).map_err(|fault| self.fault(fault, offset))?;
                if turn != Turn::Go {
                    return Ok(turn);
                }
                rest = behind;
            }
            bytes.clear();
        }
        events.finish()?;
        self.opener = Some(opener);
        self.flush(place);
        Ok(Turn::Go)
    }

    fn end(&mut self, end: End, way: &mut Way, reader: &mut LogReader) -> Result<Turn, Error> {
        self.flush(self.at(reader.position()));
        match way.at_end(end, reader)? {
            After::Wait => {
                self.reader.shared.rest(GLANCE);
                let is_overtaken = |place: Place| self.reader.shared.is_passed(self.reader.lane, place);
                let next = Place { log: self.log.next(), offset: 0 };
                if is_overtaken(next) {
                    return Ok(Turn::Jump);
                }
                Ok(self.reader.shared.turn(self.reader.lane, self.begin))
            }
            After::ReadOn => Ok(Turn::Go),
            After::Next(next) => {
                *reader = self.reader.open(&next)?;
                self.log = way.number(&next).unwrap_or(self.log.next());
                Ok(Turn::Go)
            }
        }
    }

    fn event(&mut self, raw: &RawEvent<'_>, at: At<'_>) -> Result<Turn, Fault> {
        let mut plain = Vec::new();
        let is_compressed = raw.event_type().decompressed().is_some();
        let raw = match is_compressed {
            true => {
                raw.decompress_mariadb(at.format, EVENT_SIZE_MAX, &mut plain)?;
                RawEvent::new(&plain, Checksum::Absent)?
            }
            false => *raw,
        };
        if !is_of_interest(raw.event_type()) {
            return Ok(Turn::Go);
        }
        match raw.decode(at.format)? {
            Event::TableMap(map) => self.table(&map)?,
            Event::TransactionPayload(payload) => return self.payload(&payload, at),
            Event::Query(query) => return self.statement(&raw, &query, at),
            Event::ExecuteLoadQuery(load) => return self.statement(&raw, &load.query, at),
            Event::Gtid(gtid) => return Ok(self.transaction(gtid.gtid(), &raw, at)),
            Event::GtidTagged(gtid) => return Ok(self.transaction(gtid.gtid(), &raw, at)),
            event => {
                if let Some(rows) = event.rows() {
                    return self.rows(rows, at);
                }
            }
        }
        Ok(Turn::Go)
    }

    fn payload(&mut self, payload: &TransactionPayload<'_>, at: At<'_>) -> Result<Turn, Fault> {
        let mut opener = self.opener.take().unwrap_or_default();
        let turn = self.inside(payload, at, &mut opener);
        self.opener = Some(opener);
        turn
    }

    fn inside(
        &mut self,
        payload: &TransactionPayload<'_>,
        at: At<'_>,
        opener: &mut PayloadOpener,
    ) -> Result<Turn, Fault> {
        let format = at.format.inside_payload();
        let mut events = opener.open(payload)?;
        while let Some(raw) = events.next_event()? {
            let turn = self.event(&raw, At { format: &format, ..at })?;
            if turn != Turn::Go {
                return Ok(turn);
            }
        }
        Ok(Turn::Go)
    }

    fn table(&mut self, map: &TableMap<'_>) -> Result<(), Fault> {
        let database = self.filter.rewritten(map.database);
        let is_meant =
            self.filter.takes_database(database) && self.filter.takes_tables([(database, map.table)]);
        if is_meant {
            self.left_out.remove(&map.table_id);
            self.tables.map(&TableMap { database, ..*map })?;
        } else {
            self.left_out.insert(map.table_id);
        }
        Ok(())
    }

    /// Skips a change that the applier filters out.
    fn leave_out(&self, at: At<'_>) -> Turn {
        let mark = Mark { place: at.place, events: 1, timestamp: at.timestamp, ..Mark::default() };
        self.reader.shared.mark(self.reader.lane, mark, |counts| counts.filtered += 1);
        Turn::Go
    }

    /// Starts a transaction, which ends the previous one.
    fn transaction(&mut self, gtid: Option<Gtid>, raw: &RawEvent<'_>, at: At<'_>) -> Turn {
        let size = raw.bytes().len() as u64;
        let place = Place { offset: at.place.offset.saturating_sub(size), ..at.place };
        self.reader.shared.transaction(self.reader.lane, gtid, place);
        self.room(at.place)
    }

    /// Takes a statement, which may change table definitions or rows.
    fn statement(&mut self, raw: &RawEvent<'_>, query: &Query<'_>, at: At<'_>) -> Result<Turn, Fault> {
        let (shared, lane) = (self.reader.shared, self.reader.lane);
        if Role::of(raw, at.format)? != Role::Statement || shared.is_passed(lane, at.place) {
            return Ok(Turn::Go);
        }
        let turn = self.room(at.place);
        if turn != Turn::Go {
            return Ok(turn);
        }
        let query = &Query { database: self.filter.rewritten(query.database), ..*query };
        if !self.filter.is_empty() && !self.filter.takes_statement(&kind(query.sql), query.database) {
            return Ok(self.leave_out(at));
        }
        if !changes_rows_alone(query.sql) {
            shared.definition_changes(lane, at.place);
        }
        let mut mark = Mark { place: at.place, events: 1, timestamp: at.timestamp, ..Mark::default() };
        if shared.is_too_close(lane) {
            shared.mark(lane, mark, |_| ());
            return Ok(Turn::Go);
        }
        let found = self.reader.text_search(query, at).map_err(Fault::Error)?;
        let is_new = found.as_ref().is_ok_and(|search| self.reader.window.is_new_text(search));
        mark.touches = is_new.into();
        shared.mark(lane, mark, |counts| {
            counts.touches += mark.touches;
            match &found {
                Ok(_) => {
                    counts.statements += 1;
                    counts.repeated += u64::from(!is_new);
                }
                Err(left) => {
                    counts.discarded += 1;
                    *counts.left.entry(*left).or_default() += 1;
                }
            }
        });
        if let (Ok(search), true) = (found, is_new) {
            self.push(Search::Text(search), at.place);
        }
        Ok(Turn::Go)
    }

    /// Waits until there is room for more searches.
    fn room(&mut self, place: Place) -> Turn {
        let (shared, lane) = (self.reader.shared, self.reader.lane);
        if !shared.has_room(lane) {
            // Do not hold back gathered searches while waiting.
            self.flush(place);
        }
        shared.wait_for_room(lane, self.begin)
    }

    fn rows(&mut self, rows: &Rows<'_>, at: At<'_>) -> Result<Turn, Fault> {
        let (shared, lane) = (self.reader.shared, self.reader.lane);
        let is_left_out = self.left_out.contains(&rows.table_id);
        if rows.flags.contains(RowsFlags::STATEMENT_END) {
            self.left_out.clear();
        }
        if rows.column_count == 0 || shared.is_passed(lane, at.place) {
            return Ok(Turn::Go);
        }
        let turn = self.room(at.place);
        if turn != Turn::Go {
            return Ok(turn);
        }
        if is_left_out {
            return Ok(self.leave_out(at));
        }
        let decoder = self.tables.decoder(rows)?;
        let count = decoder.count(rows)?;
        let mut mark = Mark { place: at.place, events: 1, touches: 0, rows: count, timestamp: at.timestamp };
        if shared.is_too_close(lane) || shared.is_begun(lane, count) {
            shared.mark(lane, mark, |_| ());
            return Ok(Turn::Go);
        }
        let plan = self.plan(&decoder, rows.table_id, at.format).map_err(Fault::Error)?;
        let mut found = Found::default();
        let mut full = Vec::new();
        match &plan {
            Some(plan) => self.touch(plan, &decoder, rows, &mut found, &mut full)?,
            None => (found.rows, found.left) = (count, count),
        }
        mark.touches = found.touches;
        shared.mark(lane, mark, |counts| {
            counts.events += 1;
            counts.rows += found.rows;
            counts.rows_left += found.left;
            counts.touches += found.touches;
            counts.repeated += found.repeated;
        });
        self.push_all(full, at.place);
        Ok(Turn::Go)
    }

    fn touch(
        &mut self,
        plan: &Plan,
        decoder: &RowDecoder,
        rows: &Rows<'_>,
        found: &mut Found,
        full: &mut Vec<Batch>,
    ) -> Result<(), Fault> {
        for row in decoder.rows(rows) {
            found.rows += 1;
            plan.touches(rows.kind, &row?, &mut |touch| {
                if !self.reader.window.is_new(&touch) {
                    found.repeated += 1;
                    return;
                }
                found.touches += 1;
                full.extend(self.batcher.add(touch));
            })?;
        }
        Ok(())
    }

    /// Returns the plan for a table's rows. Recreates it when definitions may have changed.
    fn plan(
        &mut self,
        decoder: &RowDecoder,
        table_id: u64,
        format: &Format,
    ) -> Result<Option<Arc<Plan>>, Error> {
        let definitions = self.reader.shared.definitions();
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
        let planned = Planned { table: Arc::new(table.clone()), definitions, plan: plan.clone() };
        self.plans.insert(table_id, planned);
        Ok(plan)
    }

    fn flush(&mut self, place: Place) {
        let batches = self.batcher.flush();
        self.push_all(batches, place);
    }

    fn push_all(&self, batches: Vec<Batch>, place: Place) {
        for batch in batches {
            self.push(Search::Batch(batch), place);
        }
    }

    fn push(&self, search: Search, place: Place) {
        let (lane, epoch) = (self.reader.lane, self.begin.epoch);
        self.reader.shared.push(Job { lane, epoch, place, search });
    }

    const fn at(&self, offset: u64) -> Place {
        Place { log: self.log, offset }
    }

    fn fault(&self, fault: Fault, offset: u64) -> Error {
        match fault {
            Fault::Error(error) => error,
            Fault::Decode(reason) => {
                Error::Corrupt { log: self.reader.logs.to_string(), place: self.at(offset), reason }
            }
        }
    }
}

/// Counters of one event.
#[derive(Default)]
struct Found {
    rows: u64,
    left: u64,
    touches: u64,
    repeated: u64,
}

/// Cached plans; all are dropped when there are more. Bounds memory.
const PLANS_MAX: usize = 4096;

/// Returns whether an event matters here. Most others need no decoding, and some are large.
fn is_of_interest(event_type: EventType) -> bool {
    event_type.rows_kind().is_some()
        || matches!(
            event_type,
            EventType::TableMap
                | EventType::TransactionPayload
                | EventType::Query
                | EventType::ExecuteLoadQuery
                | EventType::Gtid
                | EventType::GtidTagged
                | EventType::PreGaWriteRows
                | EventType::PreGaUpdateRows
                | EventType::PreGaDeleteRows
        )
}

/// Returns whether the statement, by its first word, changes only rows and no table definitions.
fn changes_rows_alone(sql: &[u8]) -> bool {
    let sql = without_comments(sql);
    let word = sql.split(|byte| !byte.is_ascii_alphabetic()).next().unwrap_or_default();
    ROW_STATEMENTS.iter().any(|statement| word.eq_ignore_ascii_case(statement.as_bytes()))
}

const ROW_STATEMENTS: [&str; 5] = ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"];

/// Skips to the applier's position, after reading the log's head, which contains its format and encryption.
fn skip_to(reader: &mut LogReader, offset: u64) -> Result<(), Error> {
    while reader.position() < offset {
        let is_head = match reader.next_event()? {
            Next::End(_) => return Ok(()),
            Next::Some(event) => matches!(
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

/// Returns whether the error is temporary: logs come and go while a replica runs, and servers restart.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Log(logs::Error::Io { cause, .. }) => cause.kind() == ErrorKind::NotFound,
        Error::Log(
            logs::Error::Purged { .. }
            | logs::Error::Removed { .. }
            | logs::Error::NoLogs { .. }
            | logs::Error::Beyond { .. },
        ) => true,
        // Another session holds a metadata lock for longer than we wait.
        Error::Server { cause, .. } if cause.code() == Some(LOCK_WAIT_TIMEOUT) => true,
        error => error.is_passing(),
    }
}

#[cfg(test)]
mod tests {
    use super::changes_rows_alone;

    #[test]
    fn only_what_may_change_definitions_makes_them_asked_for_anew() {
        for sql in [
            "insert into t values (1)",
            " \n UPDATE t SET a = 1",
            "/* x */ DELETE\tFROM t",
            "replace t values (1)",
        ] {
            assert!(changes_rows_alone(sql.as_bytes()), "{sql}");
        }
        for sql in ["ALTER TABLE t ADD b INT", "/*! insert into t values (1) */", "updates", "", "(select 1)"]
        {
            assert!(!changes_rows_alone(sql.as_bytes()), "{sql}");
        }
    }
}
