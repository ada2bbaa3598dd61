//! Conversion of events to record batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use binlog::events::{Query, Rows, TableMap};
use binlog::{
    EVENT_SIZE_MAX, Event as Body, EventFormat, EventRole, EventType, RawEvent, Table, TransactionId,
};
use inspect::stats::StatsSelection;
use logs::{ChangeOrigin, ChangeWalk, PayloadEndStep, WalkEvent, WalkStep, WalkedTable};
use sql::ReplicationFilter;
use stream::{
    CatalogueNames, ColumnCatalogue, DefinedName, MissingNames, SchemaMismatch, StatementEffect,
    StatementPolicy, StreamError, UnnamedColumnPolicy, follow_log_names,
};

use crate::change_batch_builder::{ChangeBatchBuilder, ChangeContext};
use crate::change_schema::ChangeSchema;
use crate::columns_error::{ColumnsError, EventFailure};
use crate::table_choice::{SelectedTable, TableChoice};

/// Bytes in the builders of all tables. More bytes are delivered as smaller batches. Bounds memory.
const BUILDERS_BYTES_MAX: usize = 64 << 20;

/// Tables with a builder. Bounds memory.
const BUILDERS_MAX: usize = 4096;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Settings of a decoder.
#[derive(Clone, Debug, Default)]
pub struct DecodeSettings {
    /// Transactions and tables to decode.
    pub selection: StatsSelection,
    /// Treatment of columns whose names the log lacks.
    pub unnamed_columns: UnnamedColumnPolicy,
    /// Treatment of changes logged as statements.
    pub statements: StatementPolicy,
}

/// Batch of changes of one table, all committed on the same day.
#[derive(Clone, Debug)]
pub struct ChangeBatch {
    /// Schema of the batch.
    pub schema: Arc<ChangeSchema>,
    /// Day of the commits in UTC, in days since 1970.
    pub day: i64,
    /// Changes, in log order.
    pub batch: RecordBatch,
}

/// Receiver of batches.
pub type BatchSink<'s> = dyn FnMut(ChangeBatch) -> Result<(), ColumnsError> + 's;

/// Effect of a step on the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// Continue the walk.
    Continue,
    /// Skip the payload that begins: its transaction is not selected.
    SkipPayload,
}

/// Converter of events to record batches.
///
/// It takes the steps of walks over logs, in order. Batches of one table are in log order.
#[derive(Debug)]
pub struct ChangeDecoder {
    settings: DecodeSettings,
    catalogue: Option<ColumnCatalogue>,
    walk: ChangeWalk<TableChoice>,
    builders: TableBuilders,
    log: LogNames,
    transaction: DecodedTransaction,
    changes: u64,
}

/// Name of the current log, and of the log that a rotate event has announced.
#[derive(Debug, Default)]
struct LogNames {
    current: String,
    next: Option<String>,
}

/// The transaction being read.
#[derive(Debug, Default)]
struct DecodedTransaction {
    origin: ChangeOrigin,
    gtid: Option<String>,
    is_selected: bool,
    /// Number of row changes so far, also of tables that are not selected.
    changes: i64,
}

/// Builders of the tables, by database and name: batches come in the same order each time.
#[derive(Debug, Default)]
struct TableBuilders {
    by_name: BTreeMap<[String; 2], TableBuilder>,
    bytes: usize,
}

/// Builder of a table, and the day of the changes in it.
#[derive(Debug)]
struct TableBuilder {
    builder: ChangeBatchBuilder,
    day: i64,
}

/// Position of an event, and the format to decode it with.
#[derive(Clone, Copy)]
struct ChangeLocation<'w> {
    offset: u64,
    timestamp: u32,
    format: &'w EventFormat,
}

impl ChangeDecoder {
    /// Creates a decoder for logs from their start on.
    pub fn new(settings: DecodeSettings) -> Self {
        Self {
            settings,
            catalogue: None,
            walk: ChangeWalk::new(),
            builders: TableBuilders::default(),
            log: LogNames::default(),
            transaction: DecodedTransaction::default(),
            changes: 0,
        }
    }

    /// Uses a catalogue for column names that the log lacks.
    #[must_use]
    pub fn with_column_catalogue(self, catalogue: ColumnCatalogue) -> Self {
        Self { catalogue: Some(catalogue), ..self }
    }

    /// Takes the list of tables that the log redefines after rows for which a newer definition was used.
    pub fn take_mismatches(&mut self) -> Vec<SchemaMismatch> {
        self.catalogue.as_mut().map(ColumnCatalogue::take_mismatches).unwrap_or_default()
    }

    /// Returns the number of changes that were decoded.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Starts a log of this name.
    pub fn begin_log(&mut self, name: &str) {
        self.log = LogNames { current: name.to_owned(), next: None };
    }

    /// Ends a log, and delivers the remaining batches.
    ///
    /// # Errors
    ///
    /// Fails if the log ends within a transaction, or if the receiver fails.
    pub fn end_log(&mut self, sink: &mut BatchSink<'_>) -> Result<(), ColumnsError> {
        if let Some(open) = self.walk.open_transaction() {
            let (log, start) = (self.log.current.clone(), open.position);
            return Err(ColumnsError::TornTransaction { log, start });
        }
        self.builders.finish_all(sink)
    }

    /// Takes the next step of a walk, and delivers the batches that are complete. The checksums of events outside of
    /// payloads must have been verified.
    ///
    /// # Errors
    ///
    /// Fails if the event is corrupt or not allowed at its position, if its changes cannot be decoded, or if the
    /// receiver fails.
    pub fn take_step(
        &mut self,
        step: &WalkStep<'_>,
        sink: &mut BatchSink<'_>,
    ) -> Result<DecodeStep, ColumnsError> {
        match step {
            WalkStep::Event(event) if event.inner.is_some() => self.process_content(event, sink),
            WalkStep::Event(event) => {
                follow_log_names(event, &mut self.log.current, &mut self.log.next);
                self.track(event)?;
                match event.raw.event_type() {
                    EventType::TransactionPayload => return Ok(self.payload_outcome()),
                    _ => self.process_content(event, sink),
                }
            }
            WalkStep::LargePayload(head) => {
                let stand_in =
                    head.stand_in().map_err(|error| self.corrupt(head.offset, error.to_string()))?;
                self.track(&head.walk_event(&stand_in))?;
                return Ok(self.payload_outcome());
            }
            WalkStep::PayloadEnd(ended) => self.end_payload(ended),
        }?;
        Ok(DecodeStep::Continue)
    }

    const fn payload_outcome(&self) -> DecodeStep {
        match self.transaction.is_selected {
            true => DecodeStep::Continue,
            false => DecodeStep::SkipPayload,
        }
    }

    fn end_payload(&self, ended: &PayloadEndStep) -> Result<(), ColumnsError> {
        let failed = |reason: String| self.corrupt(ended.offset, reason);
        let found = ended.result.map_err(|failure| failed(failure.to_string()))?;
        found.checksum.map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn corrupt(&self, offset: u64, reason: String) -> ColumnsError {
        ColumnsError::Corrupt { log: self.log.current.clone(), offset, reason }
    }

    /// Tracks the log's grammar, and notes where a transaction begins.
    fn track(&mut self, event: &WalkEvent<'_>) -> Result<(), ColumnsError> {
        let place = self.walk.track(event).map_err(|reason| self.corrupt(event.offset, reason))?;
        if place.is_first {
            let outline = self.walk.open_transaction().or(place.ended.as_ref());
            let id = outline.map(|outline| outline.id);
            self.begin_transaction(event, id);
        }
        Ok(())
    }

    fn begin_transaction(&mut self, event: &WalkEvent<'_>, id: Option<TransactionId>) {
        let mut origin = ChangeOrigin::begin(event.raw.header());
        origin.pass(&event.raw, event.format);
        let is_selected = self.settings.selection.selects(id, &origin);
        let gtid = id.filter(|id| matches!(id, TransactionId::Gtid(_) | TransactionId::Mariadb(_)));
        let gtid = gtid.map(|id| id.to_string());
        self.transaction = DecodedTransaction { origin, gtid, is_selected, changes: 0 };
    }

    fn process_content(
        &mut self,
        event: &WalkEvent<'_>,
        sink: &mut BatchSink<'_>,
    ) -> Result<(), ColumnsError> {
        let location = ChangeLocation {
            offset: event.offset,
            timestamp: event.raw.header().timestamp,
            format: event.format,
        };
        let taken = self.process_body(&event.raw, location, sink);
        taken.map_err(|failure| failure.at(&self.log.current, event.offset))
    }

    fn process_body(
        &mut self,
        raw: &RawEvent<'_>,
        location: ChangeLocation<'_>,
        sink: &mut BatchSink<'_>,
    ) -> Result<(), EventFailure> {
        let mut plain = Vec::new();
        let raw = raw.plain(location.format, EVENT_SIZE_MAX, &mut plain)?;
        match raw.decode(location.format)? {
            Body::TableMap(map) => self.process_table_map(&map, location)?,
            Body::WriteRows(rows) | Body::UpdateRows(rows) | Body::DeleteRows(rows) => {
                self.process_rows(&rows, location, sink)?;
            }
            Body::Query(query) => {
                self.transaction.origin.pass(&raw, location.format);
                if EventRole::of(&raw, location.format)? == EventRole::Statement {
                    self.process_statement(&query, location)?;
                }
            }
            Body::ExecuteLoadQuery(load) => {
                self.process_statement_change(load.query.sql, load.query.database, location)?;
            }
            Body::Incident(_) => {
                let (log, offset) = (self.log.current.clone(), location.offset);
                return Err(ColumnsError::Incident { log, offset }.into());
            }
            event => {
                if let Some(rows) = event.rows() {
                    self.process_rows(rows, location, sink)?;
                }
            }
        }
        Ok(())
    }

    fn process_statement(
        &mut self,
        query: &Query<'_>,
        location: ChangeLocation<'_>,
    ) -> Result<(), EventFailure> {
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.apply_statement(query, location.format);
        }
        match StatementEffect::of(query, location.format.flavour, &ReplicationFilter::default()) {
            StatementEffect::Rows => self.process_statement_change(query.sql, query.database, location),
            StatementEffect::Definition { names, adds_rows, .. } => {
                if adds_rows {
                    self.process_statement_change(query.sql, query.database, location)?;
                }
                for DefinedName { database, table } in names {
                    let (Some(catalogue), Some(table)) = (&mut self.catalogue, table) else { continue };
                    let (table, log) = (format!("{database}.{table}"), self.log.current.clone());
                    let changed = SchemaMismatch { table, log, offset: location.offset };
                    catalogue.record_definition(changed, location.timestamp);
                }
                Ok(())
            }
            StatementEffect::Other => Ok(()),
        }
    }

    /// Refuses a statement that changes rows, unless it is not selected or such statements are skipped.
    fn process_statement_change(
        &self,
        sql: &[u8],
        database: &[u8],
        location: ChangeLocation<'_>,
    ) -> Result<(), EventFailure> {
        let is_selected =
            self.transaction.is_selected && self.settings.selection.tables.selects_statement(database);
        if !is_selected || self.settings.statements == StatementPolicy::Skip {
            return Ok(());
        }
        let statement = String::from_utf8_lossy(sql).chars().take(40).collect::<String>().replace('\n', " ");
        let (log, offset) = (self.log.current.clone(), location.offset);
        Err(StreamError::Statement { log, offset, statement }.into())
    }

    fn process_table_map(
        &mut self,
        map: &TableMap<'_>,
        location: ChangeLocation<'_>,
    ) -> Result<(), EventFailure> {
        if let Some(table) = self.walk.register(map)? {
            let choice = self.choose(&table, location)?;
            self.walk.prepare(map.table_id, table, choice);
        }
        Ok(())
    }

    /// Decides on the changes of a table.
    fn choose(
        &mut self,
        table: &Arc<Table>,
        location: ChangeLocation<'_>,
    ) -> Result<TableChoice, EventFailure> {
        if !self.settings.selection.tables.selects(&table.database, &table.name) {
            return Ok(TableChoice::Excluded);
        }
        let flavour = location.format.flavour;
        if let Some(schema) = ChangeSchema::new(table, flavour, UnnamedColumnPolicy::Refuse) {
            return Ok(TableChoice::Selected(SelectedTable {
                schema: self.builders.share(schema),
                named: None,
            }));
        }
        if let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.with_names(table)?
            && let Some(schema) = ChangeSchema::new(&named, flavour, UnnamedColumnPolicy::Refuse)
        {
            let (schema, named) = (self.builders.share(schema), Some(CatalogueNames::new(named)));
            return Ok(TableChoice::Selected(SelectedTable { schema, named }));
        }
        let numbered = ChangeSchema::new(table, flavour, self.settings.unnamed_columns);
        Ok(match numbered {
            Some(schema) => {
                TableChoice::Selected(SelectedTable { schema: self.builders.share(schema), named: None })
            }
            None => TableChoice::Unnamed(MissingNames::after(self.catalogue.as_ref())),
        })
    }

    fn process_rows(
        &mut self,
        rows: &Rows<'_>,
        location: ChangeLocation<'_>,
        sink: &mut BatchSink<'_>,
    ) -> Result<(), EventFailure> {
        let mut decoder = self.walk.decoder(rows)?;
        if self.walk.known(rows.table_id).is_none() {
            // An event without columns only ends a statement.
            let Some(table) = self.walk.table(rows.table_id) else { return Ok(()) };
            let choice = self.choose(&table, location)?;
            self.walk.prepare(rows.table_id, table, choice);
        }
        self.name_by_rows(rows, location)?;
        let Some(WalkedTable { logged, prepared }) = self.walk.known(rows.table_id) else {
            unreachable!("ours: the table was prepared just now");
        };
        let selected = match prepared {
            TableChoice::Selected(selected) if self.transaction.is_selected => selected,
            TableChoice::Unnamed(missing) if self.transaction.is_selected => {
                return Err(missing.error(logged, &self.log.current, location.offset).into());
            }
            _ => {
                let count = decoder.count(rows)?;
                self.transaction.changes = self.transaction.changes.saturating_add_unsigned(count);
                return Ok(());
            }
        };
        if let Some(named) = &mut selected.named {
            decoder = named.decoder(rows)?;
        }
        let commit_us = i64::try_from(self.transaction.origin.time_us()).unwrap_or(i64::MAX);
        let context = ChangeContext {
            gtid: self.transaction.gtid.as_deref(),
            commit_us,
            thread_id: self.transaction.origin.connection,
            log_name: &self.log.current,
            log_position: i64::try_from(location.offset).unwrap_or(i64::MAX),
            first_number: self.transaction.changes.saturating_add(1),
        };
        let day = commit_us.div_euclid(DAY_US);
        let TableBuilder { builder, .. } = self.builders.at(&selected.schema, day, sink)?;
        let bytes_before = builder.bytes();
        let schema = Arc::clone(&selected.schema);
        let mut full = |batch| sink(ChangeBatch { schema: Arc::clone(&schema), day, batch });
        let appended = builder.append(&decoder, rows, &context, &mut full);
        let bytes_after = builder.bytes();
        let count = appended?;
        self.transaction.changes = self.transaction.changes.saturating_add(count);
        self.changes = self.changes.saturating_add(count.unsigned_abs());
        self.builders.bytes = (self.builders.bytes + bytes_after).saturating_sub(bytes_before);
        if self.builders.bytes >= BUILDERS_BYTES_MAX {
            self.builders.finish_all(sink)?;
        }
        Ok(())
    }

    /// Names the columns of a table whose map lists columns that no row has.
    fn name_by_rows(&mut self, rows: &Rows<'_>, location: ChangeLocation<'_>) -> Result<(), EventFailure> {
        if let Some(known) = self.walk.known(rows.table_id)
            && let TableChoice::Unnamed(_) = known.prepared
            && location.format.shows_hidden_columns()
            && let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.with_names_by_rows(&known.logged, rows)?
            && let Some(schema) =
                ChangeSchema::new(&named, location.format.flavour, UnnamedColumnPolicy::Refuse)
        {
            let (schema, named) = (self.builders.share(schema), Some(CatalogueNames::new(named)));
            known.prepared = TableChoice::Selected(SelectedTable { schema, named });
        }
        Ok(())
    }
}

impl TableBuilders {
    /// Returns the schema of the table's builder, if it has the same columns; otherwise the given one.
    fn share(&self, schema: ChangeSchema) -> Arc<ChangeSchema> {
        let name = [schema.database.clone(), schema.table.clone()];
        let open = self.by_name.get(&name).map(|table| table.builder.schema());
        match open.filter(|open| open.has_same_columns(&schema)) {
            Some(open) => Arc::clone(open),
            None => Arc::new(schema),
        }
    }

    /// Returns the builder for changes of this schema and day. Delivers the changes of another schema or day.
    fn at(
        &mut self,
        schema: &Arc<ChangeSchema>,
        day: i64,
        sink: &mut BatchSink<'_>,
    ) -> Result<&mut TableBuilder, ColumnsError> {
        let name = [schema.database.clone(), schema.table.clone()];
        if self.by_name.len() >= BUILDERS_MAX && !self.by_name.contains_key(&name) {
            self.finish_largest(sink)?;
        }
        let new = || TableBuilder { builder: ChangeBatchBuilder::new(Arc::clone(schema)), day };
        let table = self.by_name.entry(name).or_insert_with(new);
        let has_schema = Arc::ptr_eq(table.builder.schema(), schema);
        if table.day != day || !has_schema {
            self.bytes = self.bytes.saturating_sub(table.builder.bytes());
            table.finish(sink)?;
            table.day = day;
        }
        if !has_schema {
            *table = new();
        }
        Ok(table)
    }

    /// Delivers the changes of the table with the most rows, and drops its builder: of many tables that change by turns,
    /// each then still collects rows.
    fn finish_largest(&mut self, sink: &mut BatchSink<'_>) -> Result<(), ColumnsError> {
        let largest = self.by_name.iter().max_by_key(|(_, table)| table.builder.rows());
        let name = largest.map(|(name, _)| name.clone());
        let Some(mut table) = name.and_then(|name| self.by_name.remove(&name)) else { return Ok(()) };
        self.bytes = self.bytes.saturating_sub(table.builder.bytes());
        table.finish(sink)
    }

    /// Delivers the changes of all tables.
    fn finish_all(&mut self, sink: &mut BatchSink<'_>) -> Result<(), ColumnsError> {
        self.bytes = 0;
        self.by_name.values_mut().try_for_each(|table| table.finish(sink))
    }
}

impl TableBuilder {
    fn finish(&mut self, sink: &mut BatchSink<'_>) -> Result<(), ColumnsError> {
        if self.builder.rows() == 0 {
            return Ok(());
        }
        let (schema, day) = (Arc::clone(self.builder.schema()), self.day);
        sink(ChangeBatch { schema, day, batch: self.builder.finish()? })
    }
}
