//! Conversion of events to records.

use std::cmp::Ordering;
use std::sync::Arc;

use binlog::events::{Query, Rows, RowsQuery, StatusVar, TableMap};
use binlog::{
    EVENT_SIZE_MAX, Event as Body, EventFormat, EventRole, EventType, RawEvent, Table, TransactionId,
    TransactionOutline,
};
use logs::{
    ChangeWalk, EventWalk, LogEvent, PayloadEndStep, PayloadFailure, RewritePositions, WalkEvent, WalkSource,
    WalkStep,
};
use sql::{UnmatchedRules, classify_statement, query_text};

use crate::broker_sink::TransactionSkip;
use crate::change::{
    ChangedRow, DdlRecord, DdlVerb, EventCoordinates, FollowedSchema, ResumePosition, TransactionMetadata,
};
use crate::column_catalogue::{ColumnCatalogue, SchemaMismatch};
use crate::ddl_schema::{DdlSchema, SchemaChanges};
use crate::debezium_writer::{DebeziumWriter, EndRecord};
use crate::error::{EventError, StreamError};
use crate::key_watch::KeyWatch;
use crate::maxwell_writer::MaxwellWriter;
use crate::original_positions::OriginalPositions;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::settings::{Envelope, QueryText, StatementPolicy, StreamSettings};
use crate::statement_effect::{DefinedName, StatementEffect, apply_ddl, executed_sql};
use crate::stream_table::{StreamTable, TablePreparer};
use crate::transaction_buffer::PreparedTable;

/// Converter of events to records.
///
/// It takes events in log order, writes whole records, and returns a resume position after each transaction.
#[derive(Debug)]
pub struct Streamer {
    settings: StreamSettings,
    /// Rules of the filter that have matched nothing so far.
    unmatched_rules: UnmatchedRules,
    changes: ChangeWalk<StreamTable>,
    catalogue: Option<ColumnCatalogue>,
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

/// Table definitions after a DDL statement.
struct KnownDefinition {
    changes: SchemaChanges,
    after: DdlSchema,
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
            changes: ChangeWalk::new(),
            catalogue: None,
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
        assert!(self.changes.open_transaction().is_none(), "ours: a watch starts between two transactions");
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

    /// Takes the list of tables with texts whose character set neither the log nor its DDL statements state. Each one is
    /// returned once.
    pub fn take_unknown_charsets(&mut self) -> Vec<String> {
        self.catalogue.as_mut().map(ColumnCatalogue::take_unknown_charsets).unwrap_or_default()
    }

    /// Returns the selecting rules of the filter that have matched nothing so far.
    pub const fn unmatched_rules(&self) -> &UnmatchedRules {
        &self.unmatched_rules
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open_transaction(&self) -> Option<&TransactionOutline> {
        self.changes.open_transaction()
    }

    /// Takes the next event, and the events in its payload. After the last event of a transaction, returns the position
    /// to resume at. The event's checksum must have been verified.
    ///
    /// # Errors
    ///
    /// Fails if the event is corrupt or not allowed at its position, its change cannot be streamed, or the output
    /// cannot be written.
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
    /// Fails as [`Streamer::take`].
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
                let event = head.walk_event(&stand_in);
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
        let Some(payload) = self.payload else { unreachable!("ours: the walk is inside a payload") };
        let at = EventCoordinates {
            position: position.unwrap_or(payload.position),
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
        let Some(payload) = self.payload.take() else { unreachable!("ours: the payload has begun") };
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
        let place = self.changes.track(event)?;
        if place.is_first {
            let outline = self.changes.open_transaction().or(place.ended.as_ref());
            self.open.head.clear();
            (self.open.xid, self.open.is_definition) = (None, false);
            if let Some(outline) = outline {
                begin_transaction(&mut self.open.head, outline);
            }
        }
        Ok(place.ended)
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
            EventRole::Statement if !query.is_unexecuted_alter() => {}
            _ => return Ok(()),
        }
        let executed = executed_sql(query, within.format.flavour);
        let executed = Query { sql: &executed, ..*query };
        if let Some(watch) = &mut self.watch {
            watch.add_statement(&executed, within.format.flavour);
        }
        let followed = self.follow_definitions(query, within.format, output);
        if !self.unmatched_rules.is_empty() {
            let kind = classify_statement(query_text(&executed, within.format.flavour).as_bytes());
            self.unmatched_rules.record_statement(&kind, query.database);
        }
        match StatementEffect::of(query, within.format.flavour, &self.settings.filter) {
            StatementEffect::Other => Ok(()),
            StatementEffect::Rows => self.take_statement_change(query.sql, &within),
            StatementEffect::Definition { verb, names, adds_rows } => {
                if adds_rows {
                    self.take_statement_change(query.sql, &within)?;
                }
                self.begin_definition(&names, query, &within);
                let followed = followed.as_ref().filter(|_| verb != DdlVerb::Truncate);
                let sql = query_text(query, within.format.flavour).into_owned();
                // Debezium has one record for a statement, Maxwell one for each table.
                let count = match self.writer {
                    EnvelopeWriter::Debezium(_) => 1,
                    EnvelopeWriter::Maxwell(_) => names.len(),
                };
                names.iter().take(count).try_for_each(|DefinedName { database, table }| {
                    let schema =
                        followed.map(|KnownDefinition { changes, after }| FollowedSchema { changes, after });
                    let table = table.as_deref();
                    let definition = DdlRecord { verb, database, table, sql: &sql, schema };
                    self.write_definition(&definition, &within, output)
                })
            }
        }
    }

    /// Applies a statement to the table definitions, if they come from the log's DDL statements.
    fn follow_definitions(
        &mut self,
        query: &Query<'_>,
        format: &EventFormat,
        output: &mut RecordSink,
    ) -> Option<KnownDefinition> {
        let definitions = self.catalogue.as_mut().and_then(ColumnCatalogue::definitions_mut)?;
        // Release the unsaved copy first. Otherwise the definitions would be copied before the change.
        let is_unsaved = output.take_schema().is_some();
        let changes = apply_ddl(definitions, query, format);
        if is_unsaved || !changes.is_empty() {
            output.set_schema(definitions.clone());
        }
        Some(KnownDefinition { changes, after: definitions.clone() })
    }

    /// Records a DDL statement in the transaction and the catalogue.
    fn begin_definition(&mut self, names: &[DefinedName], query: &Query<'_>, within: &ContentContext<'_>) {
        self.open.is_definition = self.open.head.rows == 0;
        for DefinedName { database, table } in names {
            if let (Some(catalogue), Some(table)) = (&mut self.catalogue, table) {
                let (table, log) = (format!("{database}.{table}"), within.at.log.to_owned());
                let changed = SchemaMismatch { table, log, offset: within.at.offset };
                catalogue.record_definition(changed, within.at.timestamp);
            }
        }
        if self.open.xid.is_none() {
            self.open.xid = query.status.iter().flatten().find_map(ddl_xid);
        }
    }

    fn write_definition(
        &mut self,
        definition: &DdlRecord<'_>,
        within: &ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        match &mut self.writer {
            EnvelopeWriter::Debezium(debezium) => {
                debezium.write_definition(output, definition, &self.open.head, &within.at);
                Ok(())
            }
            EnvelopeWriter::Maxwell(maxwell) => {
                let pushed = maxwell.push_definition(definition, &self.open.head, &within.at);
                pushed.map_err(EventError::Error)
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
        if let Some(table) = self.changes.register(map)? {
            self.prepare_table(map.table_id, table, within)?;
        }
        Ok(())
    }

    fn prepare_table(
        &mut self,
        table_id: u64,
        table: Arc<Table>,
        within: ContentContext<'_>,
    ) -> Result<(), EventError> {
        self.unmatched_rules.record_table(&table.database, &table.name);
        let (settings, catalogue) = (&self.settings, self.catalogue.as_mut());
        let prepared = TablePreparer { settings, catalogue, format: within.format }.prepare(&table)?;
        self.changes.prepare(table_id, table, prepared);
        Ok(())
    }

    fn take_rows(
        &mut self,
        rows: &Rows<'_>,
        within: ContentContext<'_>,
        output: &mut RecordSink,
    ) -> Result<(), EventError> {
        let mut decoder = self.changes.decoder(rows)?;
        if self.changes.known(rows.table_id).is_none() {
            // An event without columns only ends a statement.
            let table = self.changes.table(rows.table_id).filter(|_| rows.column_count > 0);
            let Some(table) = table else { return Ok(()) };
            self.prepare_table(rows.table_id, table, within)?;
        }
        let Some(known) = self.changes.known(rows.table_id) else {
            unreachable!("ours: the table was prepared just now");
        };
        let (settings, catalogue) = (&self.settings, self.catalogue.as_mut());
        TablePreparer { settings, catalogue, format: within.format }.name_by_rows(known, rows)?;
        let plan = known.prepared.decision.plan(&known.logged, &within.at).map_err(EventError::Error)?;
        let Some(plan) = plan.map(Arc::clone) else { return Ok(()) };
        if let Some(named) = &mut known.prepared.named {
            decoder = named.decoder(rows)?;
        }
        self.write_begin(&within, output);
        self.write_rows(rows, &PreparedTable { plan, decoder }, within, output)
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

fn ddl_xid(var: StatusVar<'_>) -> Option<u64> {
    match var {
        StatusVar::DdlXid(xid) => Some(xid),
        _ => None,
    }
}
