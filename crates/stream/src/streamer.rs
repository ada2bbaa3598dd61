//! Conversion of events to records.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{Query, Rows, RowsQuery, StatusVar, TableMap};
use binlog::{
    EVENT_SIZE_MAX, Event as Body, EventFormat, EventRole, EventType, RawEvent, Table, TableRegistry,
    TrackError, TransactionId, TransactionOutline, TransactionTracker,
};
use logs::{
    EventWalk, LogEvent, PayloadEndStep, PayloadFailure, RewritePositions, WalkEvent, WalkSource, WalkStep,
};
use sql::{UnmatchedRules, classify_statement};

use crate::broker_sink::TransactionSkip;
use crate::catalogue_names::CatalogueNames;
use crate::change::{
    ChangedRow, DdlRecord, DdlVerb, EventCoordinates, FollowedSchema, ResumePosition, TransactionMetadata,
};
use crate::column_catalogue::{ColumnCatalogue, SchemaMismatch, TableSchema};
use crate::ddl_schema::DdlSchema;
use crate::debezium_writer::{DebeziumWriter, EndRecord};
use crate::error::{EventError, StreamError};
use crate::key_watch::KeyWatch;
use crate::maxwell_writer::MaxwellWriter;
use crate::original_positions::OriginalPositions;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::settings::{Envelope, QueryText, SchemaPolicy, StatementPolicy, StreamSettings};
use crate::statement_effect::{StatementEffect, apply_ddl, statement_text};
use crate::table_plan::{PlanSettings, TablePlan, UnnamedColumnPolicy};
use crate::transaction_buffer::PreparedTable;

/// Converter of events to records.
///
/// It takes events in log order, writes whole records, and returns a resume position after each transaction.
#[derive(Debug)]
pub struct Streamer {
    settings: StreamSettings,
    /// Rules of the filter that have matched nothing so far.
    unmatched_rules: UnmatchedRules,
    tracker: TransactionTracker,
    tables: TableRegistry,
    catalogue: Option<ColumnCatalogue>,
    known_tables: HashMap<u64, StreamTable>,
    writer: EnvelopeWriter,
    open: CurrentTransaction,
    /// Walk into the payloads of single events.
    walk: EventWalk,
    payload: Option<CurrentPayload>,
    /// Part of the first transaction that another program has written.
    skip: Option<SkipProgress>,
    /// Positions in the source's log, if the current log was rewritten.
    original_positions: Option<OriginalPositions>,
    /// Watch on a table of which a snapshot reads a chunk.
    watch: Option<KeyWatch>,
}

/// Source of an event, and the time.
#[derive(Clone, Copy, Debug)]
pub struct StreamInput<'e> {
    /// Name of the log on its server.
    pub log: &'e str,
    /// Time at which the records are written, in nanoseconds since 1970.
    pub now_ns: u64,
}

/// The payload being read.
#[derive(Clone, Copy, Debug)]
struct CurrentPayload {
    /// Position of its events in the source's log, if the source had a payload, too.
    position: u64,
    timestamp: u32,
    server_id: u32,
}

/// Part of a transaction to leave out, and the number of its events so far.
#[derive(Clone, Copy, Debug)]
struct SkipProgress {
    skip: TransactionSkip,
    /// Events from the BEGIN on; `None` before it.
    events: Option<u64>,
}

/// The transaction being read.
#[derive(Debug, Default)]
struct CurrentTransaction {
    head: TransactionMetadata,
    /// Xid of its commit.
    xid: Option<u64>,
    /// True if it is a DDL statement without rows.
    is_definition: bool,
}

/// A table from the log, prepared for streaming.
#[derive(Debug)]
struct StreamTable {
    /// Table as in the log.
    table: Arc<Table>,
    named: Option<CatalogueNames>,
    selection: TableDecision,
}

/// Decision on streaming a table's rows.
#[derive(Clone, Debug)]
enum TableDecision {
    Selected(Arc<TablePlan>),
    /// Error: its columns have no names.
    UnnamedColumns,
    /// Error: neither the log nor the server has names for its columns.
    NotOnServer,
    /// Error: its columns have no names, and no DDL statement in the log defines it.
    Undefined,
    Excluded,
}

#[derive(Debug)]
enum EnvelopeWriter {
    Debezium(Box<DebeziumWriter>),
    Maxwell(Box<MaxwellWriter>),
}

/// Position of an event, and the format to decode it with.
#[derive(Clone, Copy)]
struct ContentContext<'w> {
    at: EventCoordinates<'w>,
    format: &'w EventFormat,
}

impl Streamer {
    /// Creates a streamer for a log's start, or a position between two transactions.
    pub fn new(settings: StreamSettings) -> Self {
        let writer = match settings.envelope {
            Envelope::Debezium => {
                EnvelopeWriter::Debezium(Box::new(DebeziumWriter::new(&settings.name, &settings.version)))
            }
            Envelope::Maxwell => EnvelopeWriter::Maxwell(Box::default()),
        };
        let unmatched_rules = settings.filter.unmatched_rules();
        Self {
            settings,
            unmatched_rules,
            tracker: TransactionTracker::new(),
            tables: TableRegistry::new(),
            catalogue: None,
            known_tables: HashMap::new(),
            writer,
            open: CurrentTransaction::default(),
            walk: EventWalk::default(),
            payload: None,
            skip: None,
            original_positions: None,
            watch: None,
        }
    }

    /// Watches a table from now on, between two transactions. Replaces an earlier watch.
    pub fn set_watch(&mut self, watch: KeyWatch) {
        assert!(self.tracker.open().is_none(), "ours: a watch starts between two transactions");
        self.watch = Some(watch);
    }

    /// Returns the watch on a table, if there is one.
    pub const fn watch(&self) -> Option<&KeyWatch> {
        self.watch.as_ref()
    }

    /// Ends the watch on a table.
    pub const fn take_watch(&mut self) -> Option<KeyWatch> {
        self.watch.take()
    }

    /// Starts or resumes a log. `positions` lists the positions in the source's log, if the log was rewritten; records
    /// then state these.
    pub fn begin_log(&mut self, positions: Option<RewritePositions>) {
        self.original_positions = positions.map(OriginalPositions::new);
    }

    /// Uses a catalogue for column names that the log lacks.
    pub fn with_column_catalogue(self, catalogue: ColumnCatalogue) -> Self {
        Self { catalogue: Some(catalogue), ..self }
    }

    /// Leaves out a part of the first transaction, which another program has written.
    #[must_use]
    pub fn skipping(self, skip: Option<TransactionSkip>) -> Self {
        Self { skip: skip.map(|skip| SkipProgress { skip, events: None }), ..self }
    }

    /// Returns the current table definitions, if they come from the log's DDL statements.
    pub fn definitions(&self) -> Option<&DdlSchema> {
        self.catalogue.as_ref().and_then(ColumnCatalogue::definitions)
    }

    /// Takes the list of tables that the log redefines after rows for which a newer definition was used. Each
    /// redefinition is returned once.
    pub fn take_mismatches(&mut self) -> Vec<SchemaMismatch> {
        self.catalogue.as_mut().map(ColumnCatalogue::take_mismatches).unwrap_or_default()
    }

    /// Returns the selecting rules of the filter that have matched nothing so far.
    pub const fn unmatched_rules(&self) -> &UnmatchedRules {
        &self.unmatched_rules
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open_transaction(&self) -> Option<&TransactionOutline> {
        self.tracker.open()
    }

    /// Takes the next event, and the events in its payload. After the last event of a transaction, returns the position
    /// to resume at. The event's checksum must have been verified.
    ///
    /// # Errors
    ///
    /// If the event is corrupt or not allowed at its position, its change cannot be streamed, or the output cannot be
    /// written.
    pub fn take(
        &mut self,
        event: LogEvent<'_>,
        format: &EventFormat,
        input: StreamInput<'_>,
        output: &mut RecordSink,
    ) -> Result<Option<ResumeToken>, StreamError> {
        let mut walk = std::mem::take(&mut self.walk);
        let mut steps = walk.start(WalkSource::Event(event, format));
        let mut token = None;
        let taken = loop {
            match steps.next().map(|step| self.take_step(&step, input, output)) {
                Some(Ok(taken)) => token = taken.or(token),
                Some(Err(error)) => break Err(error),
                None => break Ok(token),
            }
        };
        self.walk = walk;
        taken
    }

    /// Takes the next step of a walk over a log. After the last event of a transaction, returns the position to resume
    /// at. The checksums of events outside of payloads must have been verified.
    ///
    /// # Errors
    ///
    /// As [`Streamer::take`].
    pub fn take_step(
        &mut self,
        step: &WalkStep<'_>,
        input: StreamInput<'_>,
        output: &mut RecordSink,
    ) -> Result<Option<ResumeToken>, StreamError> {
        match step {
            WalkStep::Event(event) => match event.inner {
                Some(_) => self.take_inside(event, input, output).map(|()| None),
                None => self.take_event(event, input, output),
            },
            WalkStep::LargePayload(head) => {
                let stand_in = head.stand_in().map_err(|error| StreamError::Corrupt {
                    log: input.log.to_owned(),
                    offset: head.offset,
                    reason: error.to_string(),
                })?;
                let (offset, end, raw) = (head.offset, head.end(), stand_in.as_raw());
                let event = WalkEvent { offset, end, inner: None, raw, format: &head.format };
                let at = self.coordinates(&event, input)?;
                self.track(&event).map_err(|reason| corrupt(&at, reason))?;
                self.begin_payload(&event, head.fields.uncompressed_size, at.position);
                Ok(None)
            }
            WalkStep::PayloadEnd(ended) => self.end_payload(ended, input, output).map(Some),
        }
    }

    /// Takes an event that is not inside a payload.
    fn take_event(
        &mut self,
        event: &WalkEvent<'_>,
        input: StreamInput<'_>,
        output: &mut RecordSink,
    ) -> Result<Option<ResumeToken>, StreamError> {
        let at = self.coordinates(event, input)?;
        let ended = self.track(event).map_err(|reason| corrupt(&at, reason))?;
        if event.raw.event_type() == EventType::TransactionPayload {
            let decoded = event.raw.decode(event.format).map_err(|error| corrupt(&at, error.to_string()))?;
            if let Body::TransactionPayload(payload) = decoded {
                self.begin_payload(event, payload.uncompressed_size, at.position);
            }
            // The transaction ends at the payload's end.
            return Ok(None);
        }
        let within = ContentContext { at, format: event.format };
        self.take_content(&event.raw, within, output).map_err(|refusal| refusal.at(at.log, at.offset))?;
        let Some(outline) = ended else { return Ok(None) };
        let token = self.resume_token(&at, outline.end)?;
        self.end_transaction(&token, &at, output)?;
        Ok(Some(token))
    }

    /// Starts a payload, which claims to hold `uncompressed_size` bytes. Its event is at `position` in the source's log.
    fn begin_payload(&mut self, event: &WalkEvent<'_>, uncompressed_size: Option<u64>, position: u64) {
        let header = event.raw.header();
        let position = match &mut self.original_positions {
            Some(origin) => origin.begin_payload(event.offset..event.end, uncompressed_size, event.format),
            None => position,
        };
        let (timestamp, server_id) = (header.timestamp, header.server_id);
        self.payload = Some(CurrentPayload { position, timestamp, server_id });
    }

    /// Takes an event of the current payload.
    fn take_inside(
        &mut self,
        event: &WalkEvent<'_>,
        input: StreamInput<'_>,
        output: &mut RecordSink,
    ) -> Result<(), StreamError> {
        let origin = self.original_positions.as_mut();
        let position = origin.and_then(|origin| origin.next_in_payload(event.raw.bytes().len()));
        let position = position.or(self.payload.map(|payload| payload.position));
        let at = EventCoordinates {
            position: position.unwrap_or(event.offset),
            ..event_coordinates(event, input)
        };
        let within = ContentContext { at, format: event.format };
        self.take_content(&event.raw, within, output).map_err(|refusal| refusal.at(at.log, at.offset))
    }

    /// Ends the current payload, and its transaction. Returns the position to resume at.
    fn end_payload(
        &mut self,
        ended: &PayloadEndStep,
        StreamInput { log, now_ns }: StreamInput<'_>,
        output: &mut RecordSink,
    ) -> Result<ResumeToken, StreamError> {
        let PayloadEndStep { offset, end, result } = *ended;
        let refused = |refusal: EventError| refusal.at(log, offset);
        let found = result.map_err(|failure| match failure {
            PayloadFailure::Event(error) => refused(error.into()),
            PayloadFailure::Payload(error) => refused(error.into()),
        })?;
        found.checksum.map_err(|error| refused(error.into()))?;
        let payload =
            self.payload.take().unwrap_or(CurrentPayload { position: offset, timestamp: 0, server_id: 0 });
        let CurrentPayload { position, timestamp, server_id } = payload;
        let at = EventCoordinates { log, offset, position, timestamp, server_id, now_ns };
        let token = self.resume_token(&at, end)?;
        self.end_transaction(&token, &at, output)?;
        Ok(token)
    }

    fn coordinates<'e>(
        &mut self,
        event: &WalkEvent<'_>,
        input: StreamInput<'e>,
    ) -> Result<EventCoordinates<'e>, StreamError> {
        let at = event_coordinates(event, input);
        Ok(match &mut self.original_positions {
            Some(origin) => {
                EventCoordinates { position: origin.begin_event(event.offset, &event.raw)?, ..at }
            }
            None => at,
        })
    }

    /// Returns the position to resume at after the transaction, whose last event ends at `end`.
    fn resume_token(&mut self, at: &EventCoordinates<'_>, end: u64) -> Result<ResumeToken, StreamError> {
        let position = match &mut self.original_positions {
            Some(origin) => origin.end_transaction(end).map_err(|reason| corrupt(at, reason))?,
            None => end,
        };
        let at = ResumePosition { log: at.log.to_owned(), position };
        Ok(ResumeToken { at, gtid: self.open.head.gtid.clone() })
    }

    /// Tracks the log's grammar. Returns the transaction that ends with this event.
    fn track(&mut self, event: &WalkEvent<'_>) -> Result<Option<TransactionOutline>, String> {
        let tracked = match self.tracker.track(event.offset, &event.raw, event.format) {
            Ok(tracked) => tracked,
            Err(TrackError::Decode(error)) => return Err(error.to_string()),
            Err(TrackError::Fault(fault)) => return Err(fault.fault.to_string()),
        };
        if tracked.step.transaction.is_first() {
            let outline = self.tracker.open().or(tracked.ended.as_ref());
            self.open.head.clear();
            (self.open.xid, self.open.is_definition) = (None, false);
            if let Some(outline) = outline {
                begin_transaction(&mut self.open.head, outline);
            }
        }
        Ok(tracked.ended)
    }

    fn end_transaction(
        &mut self,
        token: &ResumeToken,
        at: &EventCoordinates<'_>,
        output: &mut RecordSink,
    ) -> Result<(), StreamError> {
        let CurrentTransaction { head, xid, is_definition } = &mut self.open;
        match &mut self.writer {
            EnvelopeWriter::Debezium(debezium) => {
                let ended = debezium.end(output, head, at, token);
                if ended == EndRecord::Omitted && *is_definition {
                    output.put_resume(token);
                }
                output.drain_if_full()?;
            }
            EnvelopeWriter::Maxwell(maxwell) => maxwell.end(output, *xid, at.log, token)?,
        }
        head.clear();
        (*xid, *is_definition) = (None, false);
        self.skip = None;
        Ok(())
    }

    fn take_content(
        &mut self,
        raw: &RawEvent<'_>,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        let mut plain = Vec::new();
        let raw = raw.plain(within.format, EVENT_SIZE_MAX, &mut plain)?;
        self.count_skipped_event(&raw, within.format)?;
        match raw.decode(within.format)? {
            Body::TableMap(map) => self.take_table_map(&map, within)?,
            Body::WriteRows(rows) | Body::UpdateRows(rows) | Body::DeleteRows(rows) => {
                self.take_rows(&rows, within, output)?;
            }
            Body::Query(query) => self.take_query(&query, &raw, within, output)?,
            Body::Xid(xid) => self.open.xid = Some(xid.xid),
            Body::RowsQuery(RowsQuery { sql, .. }) => self.take_rows_query(sql),
            Body::MariadbAnnotateRows(annotate) => self.take_rows_query(annotate.sql),
            Body::MariadbGtid(_) if EventRole::of(&raw, within.format)? == EventRole::GtidAndBegin => {
                self.write_begin(&within, output)
            }
            Body::ExecuteLoadQuery(load) => self.take_statement_change(load.query.sql, &within)?,
            Body::Incident(_) => {
                let (log, offset) = (within.at.log.to_owned(), within.at.offset);
                return Err(EventError::Error(StreamError::Incident { log, offset }));
            }
            event => {
                if let Some(rows) = event.rows() {
                    self.take_rows(rows, within, output)?;
                }
            }
        }
        Ok(())
    }

    /// Counts an event of the transaction of which a part is left out. Those in a payload count as one.
    fn count_skipped_event(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), EventError> {
        let Some(SkipProgress { events, .. }) = &mut self.skip else { return Ok(()) };
        let is_begin = matches!(EventRole::of(raw, format)?, EventRole::Begin | EventRole::GtidAndBegin);
        *events = match events {
            Some(count) if self.payload.is_none() => Some(*count + 1),
            Some(count) => Some(*count),
            None => is_begin.then_some(0),
        };
        Ok(())
    }

    /// Returns the number of rows to leave out of the present event.
    fn skipped_rows(&mut self) -> u64 {
        let Some(SkipProgress { skip, events: Some(events) }) = &mut self.skip else { return 0 };
        match (*events).cmp(&skip.events) {
            Ordering::Less => u64::MAX,
            Ordering::Equal => std::mem::take(&mut skip.rows),
            Ordering::Greater => 0,
        }
    }

    fn write_begin(&mut self, within: &ContentContext<'_>, output: &mut RecordSink) {
        if let EnvelopeWriter::Debezium(debezium) = &mut self.writer {
            match self.skip {
                Some(SkipProgress { skip: TransactionSkip { has_start: true, .. }, .. }) => {
                    debezium.resume(&self.open.head, &within.at);
                }
                _ => debezium.begin(output, &self.open.head, &within.at),
            }
        }
    }

    fn take_query(
        &mut self,
        query: &Query<'_>,
        raw: &RawEvent<'_>,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        match EventRole::of(raw, within.format)? {
            EventRole::Begin => {
                self.open.head.thread = Some(query.thread_id);
                self.write_begin(&within, output);
                return Ok(());
            }
            EventRole::Statement => {}
            _ => return Ok(()),
        }
        if let Some(watch) = &mut self.watch {
            watch.add_statement(query);
        }
        let mut known = None;
        if let Some(definitions) = self.catalogue.as_mut().and_then(ColumnCatalogue::definitions_mut) {
            // Release the unsaved copy first. Otherwise the definitions would be copied before the change.
            let is_unsaved = output.take_schema().is_some();
            let changes = apply_ddl(definitions, query, within.format);
            if is_unsaved || !changes.is_empty() {
                output.set_schema(definitions.clone());
            }
            known = Some((changes, definitions.clone()));
        }
        if !self.unmatched_rules.is_empty() {
            self.unmatched_rules.record_statement(&classify_statement(query.sql), query.database);
        }
        match StatementEffect::of(query, within.format.flavour, &self.settings.filter) {
            StatementEffect::Other => Ok(()),
            StatementEffect::Rows => self.take_statement_change(query.sql, &within),
            StatementEffect::Definition { verb, database, table } => {
                let sql = statement_text(query, within.format.flavour);
                let known = known.as_ref().filter(|_| verb != DdlVerb::Truncate);
                let known = known.map(|(changes, after)| FollowedSchema { changes, after });
                let definition = DdlRecord {
                    verb,
                    database: &database,
                    table: table.as_deref(),
                    sql: &sql,
                    schema: known,
                };
                self.open.is_definition = self.open.head.rows == 0;
                if let (Some(catalogue), Some(table)) = (&mut self.catalogue, &table) {
                    let (table, log) = (format!("{database}.{table}"), within.at.log.to_owned());
                    let changed = SchemaMismatch { table, log, offset: within.at.offset };
                    catalogue.record_definition(changed, within.at.timestamp);
                }
                if self.open.xid.is_none() {
                    self.open.xid = query.status.iter().flatten().find_map(ddl_xid);
                }
                match &mut self.writer {
                    EnvelopeWriter::Debezium(debezium) => {
                        debezium.write_definition(output, &definition, &self.open.head, &within.at);
                    }
                    EnvelopeWriter::Maxwell(maxwell) => {
                        let told = maxwell.push_definition(&definition, &self.open.head, &within.at);
                        told.map_err(EventError::Error)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn take_statement_change(&self, sql: &[u8], within: &ContentContext<'_>) -> Result<(), EventError> {
        if self.settings.statements == StatementPolicy::Skip {
            return Ok(());
        }
        let statement = String::from_utf8_lossy(sql).chars().take(40).collect::<String>().replace('\n', " ");
        let (log, offset) = (within.at.log.to_owned(), within.at.offset);
        Err(EventError::Error(StreamError::Statement { log, offset, statement }))
    }

    fn take_rows_query(&mut self, sql: &[u8]) {
        if self.settings.query_text == QueryText::Include {
            self.open.head.query = Some(String::from_utf8_lossy(sql).into_owned());
        }
    }

    fn take_table_map(&mut self, map: &TableMap<'_>, within: ContentContext<'_>) -> Result<(), EventError> {
        /// Prepared tables. Bounds memory: table IDs are never reused, so a long log has any number of them.
        const KNOWN_MAX: usize = 8192;
        let table = self.tables.register(map)?;
        if self.known_tables.get(&map.table_id).is_some_and(|known| Arc::ptr_eq(&known.table, &table)) {
            return Ok(());
        }
        if self.known_tables.len() >= KNOWN_MAX {
            self.known_tables.clear();
        }
        let known = self.prepare_table(table, within)?;
        self.known_tables.insert(map.table_id, known);
        Ok(())
    }

    fn prepare_table(
        &mut self,
        table: Arc<Table>,
        within: ContentContext<'_>,
    ) -> Result<StreamTable, EventError> {
        self.unmatched_rules.record_table(&table.database, &table.name);
        let (filter, flavour) = (&self.settings.filter, within.format.flavour);
        let known = |table, meant| Ok(StreamTable { table, named: None, selection: meant });
        if !filter.accepts_database(&table.database)
            || !filter.accepts_tables([(&*table.database, &*table.name)])
        {
            return known(table, TableDecision::Excluded);
        }
        let defined = defined_table(&self.settings, self.catalogue.as_mut(), &table)?;
        let plan_settings =
            |unnamed_columns| plan_settings(&self.settings, unnamed_columns, defined.as_ref());
        if let Some(plan) = TablePlan::new(&table, flavour, plan_settings(UnnamedColumnPolicy::Refuse)) {
            return known(table, TableDecision::Selected(Arc::new(plan)));
        }
        if let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.with_names(&table).map_err(EventError::Error)?
            && let Some(plan) = TablePlan::new(&named, flavour, plan_settings(UnnamedColumnPolicy::Refuse))
        {
            let named = Some(CatalogueNames::new(named));
            return Ok(StreamTable { table, named, selection: TableDecision::Selected(Arc::new(plan)) });
        }
        let plan = TablePlan::new(&table, flavour, plan_settings(self.settings.unnamed_columns));
        let meant = match (plan, &self.catalogue) {
            (Some(plan), _) => TableDecision::Selected(Arc::new(plan)),
            (None, None) => TableDecision::UnnamedColumns,
            (None, Some(catalogue)) if catalogue.definitions().is_some() => TableDecision::Undefined,
            (None, Some(_)) => TableDecision::NotOnServer,
        };
        known(table, meant)
    }

    fn take_rows(
        &mut self,
        rows: &Rows<'_>,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        let mut decoder = self.tables.decoder(rows)?;
        let Some(known) = self.known_tables.get_mut(&rows.table_id) else {
            // An event without columns only ends a statement.
            return if rows.column_count == 0 { Ok(()) } else { self.prepare_again(rows, within, output) };
        };
        if matches!(known.selection, TableDecision::NotOnServer | TableDecision::Undefined)
            && within.format.shows_hidden_columns()
            && let Some(catalogue) = &mut self.catalogue
            && let Some(named) =
                catalogue.with_names_by_rows(&known.table, rows).map_err(EventError::Error)?
            && let defined = defined_table(&self.settings, Some(catalogue), &known.table)?
            && let Some(plan) = TablePlan::new(
                &named,
                within.format.flavour,
                plan_settings(&self.settings, UnnamedColumnPolicy::Refuse, defined.as_ref()),
            )
        {
            known.named = Some(CatalogueNames::new(named));
            known.selection = TableDecision::Selected(Arc::new(plan));
        }
        let plan = match &known.selection {
            TableDecision::Selected(plan) => Arc::clone(plan),
            TableDecision::Excluded => return Ok(()),
            TableDecision::UnnamedColumns => {
                return Err(EventError::Error(unnamed_columns_error(&known.table, &within.at)));
            }
            TableDecision::NotOnServer => {
                return Err(EventError::Error(not_on_server_error(&known.table, &within.at)));
            }
            TableDecision::Undefined => {
                return Err(EventError::Error(undefined_table_error(&known.table, &within.at)));
            }
        };
        if let Some(named) = &mut known.named {
            decoder = named.decoder(rows)?;
        }
        self.write_begin(&within, output);
        self.write_rows(rows, &PreparedTable { plan, decoder }, within, output)
    }

    /// Takes rows of a table that was evicted from the prepared tables.
    fn prepare_again(
        &mut self,
        rows: &Rows<'_>,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        let Some(table) = self.tables.table(rows.table_id) else { return Ok(()) };
        let known = self.prepare_table(table, within)?;
        self.known_tables.insert(rows.table_id, known);
        self.take_rows(rows, within, output)
    }

    fn write_rows(
        &mut self,
        rows: &Rows<'_>,
        prepared: &PreparedTable,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        if let Some(watch) = self.watch.as_mut().filter(|watch| watch.watches(&prepared.plan)) {
            watch.add_rows(&prepared.plan, &prepared.decoder, rows)?;
        }
        let skipped_rows = self.skipped_rows();
        let (head, at) = (&mut self.open.head, &within.at);
        match &mut self.writer {
            EnvelopeWriter::Debezium(debezium) => {
                let PreparedTable { plan, decoder } = prepared;
                debezium.begin_rows(plan, head, at);
                for (row, index) in decoder.rows(rows).zip(0..) {
                    let change = ChangedRow { plan, kind: rows.kind, index, row: &row? };
                    if index < skipped_rows {
                        debezium.skip_row(head, &change);
                        continue;
                    }
                    debezium.write_row(output, head, &change)?;
                    output.drain_if_full().map_err(|error| EventError::Error(error.into()))?;
                }
            }
            EnvelopeWriter::Maxwell(maxwell) => maxwell.push_rows(rows, prepared, head, at)?,
        }
        Ok(())
    }
}

fn plan_settings<'s>(
    settings: &'s StreamSettings,
    unnamed_columns: UnnamedColumnPolicy,
    definition: Option<&'s TableSchema>,
) -> PlanSettings<'s> {
    PlanSettings { unnamed_columns, modes: settings.modes, rules: &settings.rules, definition }
}

/// Returns the catalogue's definition of a table, if schemas need its default values.
fn defined_table(
    settings: &StreamSettings,
    catalogue: Option<&mut ColumnCatalogue>,
    table: &Table,
) -> Result<Option<TableSchema>, EventError> {
    match catalogue.filter(|_| settings.schemas == SchemaPolicy::Describe) {
        Some(catalogue) => catalogue.table_schema(table).map_err(EventError::Error),
        None => Ok(None),
    }
}

fn event_coordinates<'e>(event: &WalkEvent<'_>, input: StreamInput<'e>) -> EventCoordinates<'e> {
    let header = event.raw.header();
    EventCoordinates {
        log: input.log,
        offset: event.offset,
        position: event.offset,
        timestamp: header.timestamp,
        server_id: header.server_id,
        now_ns: input.now_ns,
    }
}

fn begin_transaction(head: &mut TransactionMetadata, outline: &TransactionOutline) {
    head.gtid = match outline.id {
        TransactionId::Gtid(_) | TransactionId::Mariadb(_) => Some(outline.id.to_string()),
        _ => None,
    };
    head.committed_us = outline.stamps.map(|stamps| match stamps.original_commit_us {
        0 => stamps.immediate_commit_us,
        original => original,
    });
}

fn corrupt(at: &EventCoordinates<'_>, reason: String) -> StreamError {
    StreamError::Corrupt { log: at.log.to_owned(), offset: at.offset, reason }
}

fn unnamed_columns_error(table: &Table, at: &EventCoordinates<'_>) -> StreamError {
    StreamError::UnnamedColumns { log: at.log.to_owned(), offset: at.offset, table: qualified_name(table) }
}

fn not_on_server_error(table: &Table, at: &EventCoordinates<'_>) -> StreamError {
    StreamError::NotOnServer { log: at.log.to_owned(), offset: at.offset, table: qualified_name(table) }
}

fn undefined_table_error(table: &Table, at: &EventCoordinates<'_>) -> StreamError {
    StreamError::UndefinedTable { log: at.log.to_owned(), offset: at.offset, table: qualified_name(table) }
}

fn qualified_name(table: &Table) -> String {
    let name = [&*table.database, b".", &*table.name].concat();
    String::from_utf8_lossy(&name).into_owned()
}

fn ddl_xid(var: StatusVar<'_>) -> Option<u64> {
    match var {
        StatusVar::DdlXid(xid) => Some(xid),
        _ => None,
    }
}
