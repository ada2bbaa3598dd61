//! Scanner of a store's events that finds the contents of transactions.

use std::fmt;

use binlog::events::{ExecuteLoadQuery, LoadBlock, MariadbGtidList, Query};
use binlog::gtid::GtidSet;
use binlog::{
    DecodeError, EVENT_SIZE_MAX, Event, EventFormat, EventRole, GrammarFault, GrammarLoss, GrammarStep,
    RawEvent, TableRegistry, TransactionGrammar, TransactionId, TransactionVerb,
};
use xxhash_rust::xxh3::Xxh3;

use crate::content_hash::{ContentHash, HashedBytes};
use crate::content_part::{ContentPart, PartBody, PartTag, TransactionOutcome};
use crate::statement_rows::StatementRows;

/// Scanner of a store's events that finds the contents of transactions.
///
/// The events inside a payload replace the payload.
#[derive(Debug, Default)]
pub(crate) struct ContentScanner {
    grammar: TransactionGrammar,
    open: Option<ScannedStart>,
    /// Number of the open statement, from 1.
    statement: u64,
    tables: TableRegistry,
    rows: StatementRows,
    /// File of the open statement.
    file: Option<LoadedFile>,
    buffer: HashedBytes,
    /// Buffer for the decompressed form of a MariaDB event.
    plain: Vec<u8>,
}

/// Start of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScannedStart {
    pub(crate) id: TransactionId,
    pub(crate) location: EventLocation,
}

/// Location of an event in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventLocation {
    /// Index of the log.
    pub(crate) log: u32,
    /// Start of the event in its log; inside a payload, start of the payload's event.
    pub(crate) offset: u64,
}

/// Result of scanning an event.
#[derive(Debug)]
pub(crate) enum ScanNotice<'a> {
    /// Transactions in earlier logs.
    PreviousGtids(GtidSet),
    /// Transactions in earlier logs of MariaDB.
    MariadbGtidList(MariadbGtidList<'a>),
    /// The next part of the open transaction.
    Part(ContentPart<'a>),
    /// The open transaction has ended.
    End(ScannedStart),
    /// The open transaction has no end: ignore its parts.
    Discard,
}

/// Error of scanning an event.
#[derive(Debug)]
pub(crate) enum ScanError {
    Decode(DecodeError),
    /// The event is not allowed here.
    Grammar(GrammarFault),
}

impl From<DecodeError> for ScanError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// File of a `LOAD DATA` statement.
#[derive(Default)]
struct LoadedFile {
    hasher: Box<Xxh3>,
    size: u64,
}

impl fmt::Debug for LoadedFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LoadedFile({} bytes)", self.size)
    }
}

/// Receiver of scan results.
pub(crate) type NoticeSink<'s> = &'s mut dyn FnMut(ScanNotice<'_>);

impl ContentScanner {
    /// Returns the transaction that has started but not ended.
    pub(crate) const fn open(&self) -> Option<ScannedStart> {
        self.open
    }

    /// Scans the next event.
    pub(crate) fn scan(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        location: EventLocation,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        let mut plain = std::mem::take(&mut self.plain);
        let scanned = match raw.plain(format, EVENT_SIZE_MAX, &mut plain) {
            Ok(raw) => self.scan_plain(&raw, format, location, sink),
            Err(error) => Err(error.into()),
        };
        self.plain = plain;
        scanned
    }

    fn scan_plain(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        location: EventLocation,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        let role = EventRole::of(raw, format)?;
        match role {
            EventRole::Payload => {
                // The events inside follow. Without a GTID event, the transaction starts with the first event inside.
                return Ok(());
            }
            EventRole::Aside => return self.scan_aside(raw, format, sink),
            _ => {}
        }
        let step = match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) if fault.lost == GrammarLoss::Transaction => {
                self.discard(sink);
                fault.step
            }
            Err(fault) => return Err(ScanError::Grammar(fault)),
        };
        if step.transaction.is_first() {
            self.open = Some(ScannedStart { id: transaction_id(raw, format, role)?, location });
            self.statement = 1;
        }
        self.scan_content(raw, format, role, sink)?;
        self.end_by(step, sink);
        Ok(())
    }

    fn scan_aside(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        match raw.decode(format)? {
            Event::PreviousGtids(previous) => sink(ScanNotice::PreviousGtids(GtidSet::decode(previous.set)?)),
            Event::MariadbGtidList(list) => sink(ScanNotice::MariadbGtidList(list)),
            _ => {}
        }
        Ok(())
    }

    /// Ends the open statement and the open transaction, if the event is their last event.
    fn end_by(&mut self, step: GrammarStep, sink: NoticeSink<'_>) {
        if step.statement.is_last() || step.transaction.is_last() {
            let statement = self.statement;
            self.rows.end(&mut |body, hash| sink(ScanNotice::Part(ContentPart { statement, body, hash })));
            self.file = None;
            self.statement += 1;
        }
        if step.transaction.is_last()
            && let Some(start) = self.open.take()
        {
            sink(ScanNotice::End(start));
        }
    }

    fn discard(&mut self, sink: NoticeSink<'_>) {
        self.rows.discard();
        self.file = None;
        if self.open.take().is_some() {
            sink(ScanNotice::Discard);
        }
    }

    fn scan_content(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        role: EventRole,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        match role {
            EventRole::RowsBegin => {
                if let Event::TableMap(map) = raw.decode(format)? {
                    self.tables.register(&map)?;
                }
            }
            EventRole::Rows | EventRole::RowsEnd => self.scan_rows(raw, format, sink)?,
            EventRole::Begin | EventRole::Statement | EventRole::XaFinish => {
                self.scan_statement(raw, format, sink)?;
            }
            EventRole::Variable => {
                self.buffer.start(PartTag::Variable);
                self.put_event(raw);
                self.give(PartBody::Variable(raw.event_type()), sink);
            }
            EventRole::LoadBegin | EventRole::LoadBlock => {
                let file = self.file.get_or_insert_default();
                match raw.decode(format)? {
                    Event::BeginLoadQuery(LoadBlock { block, .. })
                    | Event::AppendBlock(LoadBlock { block, .. }) => file.add(block),
                    _ => file.add(raw.body()),
                }
            }
            EventRole::LoadEnd => self.scan_load(raw, format, sink)?,
            EventRole::Incident => {
                self.buffer.start(PartTag::Other);
                self.buffer.put(&[raw.event_type().code()]);
                if let Event::Incident(incident) = raw.decode(format)? {
                    self.buffer.put(&incident.incident.to_le_bytes());
                    self.buffer.put(incident.message);
                }
                self.give(PartBody::Other(raw.event_type()), sink);
            }
            EventRole::Commit => self.give_outcome(TransactionOutcome::Committed, sink),
            EventRole::Rollback => self.give_outcome(TransactionOutcome::RolledBack, sink),
            EventRole::XaPrepare => self.give_outcome(TransactionOutcome::Prepared, sink),
            _ => {}
        }
        Ok(())
    }

    fn scan_rows(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        let event = raw.decode(format)?;
        let Some(rows) = event.rows() else {
            // This crate does not decode rows events of servers before 5.1.22.
            self.buffer.start(PartTag::Other);
            self.put_event(raw);
            self.give(PartBody::Other(raw.event_type()), sink);
            return Ok(());
        };
        let statement = self.statement;
        self.rows.add(rows, &mut self.tables, &mut |body, hash| {
            sink(ScanNotice::Part(ContentPart { statement, body, hash }));
        })?;
        Ok(())
    }

    fn scan_statement(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        match raw.decode(format)? {
            Event::Query(Query { database, sql, .. }) => {
                // The default database does not matter to transaction control, and servers set it arbitrarily.
                let database = match TransactionVerb::of(sql) {
                    TransactionVerb::Begin => return Ok(()),
                    TransactionVerb::Other => database,
                    _ => b"",
                };
                self.buffer.start(PartTag::Statement);
                self.buffer.put_sized(database);
                self.buffer.put_sized(sql);
                self.give(PartBody::Statement { database, sql }, sink);
            }
            Event::ViewChange(change) => {
                self.buffer.start(PartTag::Other);
                self.buffer.put(&[raw.event_type().code()]);
                self.buffer.put(change.view_id);
                self.give(PartBody::Other(raw.event_type()), sink);
            }
            _ => {
                self.buffer.start(PartTag::Other);
                self.put_event(raw);
                self.give(PartBody::Other(raw.event_type()), sink);
            }
        }
        Ok(())
    }

    /// Scans the end of `LOAD DATA`. Ignores the file's number and name, which differ between servers.
    fn scan_load(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        sink: NoticeSink<'_>,
    ) -> Result<(), ScanError> {
        let file = self.file.take().unwrap_or_default();
        let Event::ExecuteLoadQuery(ExecuteLoadQuery { query, name_start, name_end, .. }) =
            raw.decode(format)?
        else {
            self.buffer.start(PartTag::Other);
            self.buffer.put(&[raw.event_type().code()]);
            self.give(PartBody::Other(raw.event_type()), sink);
            return Ok(());
        };
        let (before, after) = around_name(query.sql, name_start, name_end);
        self.buffer.start(PartTag::LoadData);
        self.buffer.put_sized(query.database);
        self.buffer.put_sized(before);
        self.buffer.put_sized(after);
        let file = file.hash();
        self.buffer.put_hash(file);
        self.give(PartBody::LoadData { database: query.database, sql: query.sql, file }, sink);
        Ok(())
    }

    fn give_outcome(&mut self, outcome: TransactionOutcome, sink: NoticeSink<'_>) {
        self.buffer.start(PartTag::Outcome);
        self.buffer.put(&[outcome as u8]);
        self.give(PartBody::Outcome(outcome), sink);
    }

    /// Appends the type and the body of an event. The body must be the same on all servers.
    fn put_event(&mut self, raw: &RawEvent<'_>) {
        self.buffer.put(&[raw.event_type().code()]);
        self.buffer.put(raw.body());
    }

    /// Passes a part to the sink. Its hashed form is in the buffer.
    fn give(&self, body: PartBody<'_>, sink: NoticeSink<'_>) {
        let hash: ContentHash = self.buffer.hash();
        sink(ScanNotice::Part(ContentPart { statement: self.statement, body, hash }));
    }
}

impl LoadedFile {
    fn add(&mut self, block: &[u8]) {
        self.hasher.update(block);
        self.size += block.len() as u64;
    }

    fn hash(&self) -> ContentHash {
        ContentHash::of_digest(self.hasher.digest128())
    }
}

/// Returns the parts of a `LOAD DATA` statement around the name of its file.
fn around_name(sql: &[u8], start: u32, end: u32) -> (&[u8], &[u8]) {
    let (before, rest) = sql.split_at(sql.len().min(start as usize));
    let after = (end as usize).saturating_sub(before.len());
    (before, rest.get(after..).unwrap_or_default())
}

/// Returns the identifier of a transaction from its first event.
fn transaction_id(
    raw: &RawEvent<'_>,
    format: &EventFormat,
    role: EventRole,
) -> Result<TransactionId, DecodeError> {
    if !matches!(role, EventRole::Gtid | EventRole::GtidAndBegin) {
        return Ok(TransactionId::Unsaid);
    }
    let event = raw.decode(format)?;
    Ok(match &event {
        Event::MariadbGtid(gtid) => TransactionId::Mariadb(gtid.gtid(raw.header().server_id)),
        event => event.gtid().map_or(TransactionId::Anonymous, TransactionId::Gtid),
    })
}
