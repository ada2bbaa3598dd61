//! Counts one piece of a log.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{CommitStamps, Rows, TableMap};
use binlog::{
    DecodeError, EVENT_SIZE_MAX, Event, EventFormat, EventRole, EventType, GrammarLoss, RawEvent, RowDecoder,
    Table, TransactionGrammar, TransactionId,
};
use logs::{
    ChangeOrigin, ChunkContext, EventWalk, LargePayloadHead, LogKind, PayloadEndStep, PayloadFailure,
    WalkEvent, WalkPiece, WalkSource, WalkStep, WalkSteps, ends_statement,
};
use sql::statement_digest;

use super::breakdown::{BreakdownKind, WriterKey};
use super::collect::{ChecksumVerification, StatsSettings};
use super::compression::{LogType, StatedPayload, cached_size};
use super::event_address::EventAddress;
use super::stats_tally::{ChunkTally, ContinuedTransaction};
use super::tables::{RowChangeCounts, RowOperation};
use super::transaction_tally::{TransactionStamp, TransactionTally};
use crate::log_pieces::PieceEvents;

/// Error that stopped a count, and its position.
#[derive(Debug)]
pub(crate) struct CountError {
    pub(crate) offset: u64,
    pub(crate) cause: PayloadFailure,
}

/// Counts the events of a piece.
pub(crate) fn count_events(
    events: &PieceEvents,
    settings: &StatsSettings,
    walk: &mut EventWalk,
) -> Result<ChunkTally, CountError> {
    match &events.piece {
        WalkPiece::Chunk(chunk) => {
            let mut counter = ChunkCounter::new(events, chunk.format(), settings);
            counter.learn_tables(&events.context).map_err(|error| CountError {
                offset: chunk.offset(),
                cause: PayloadFailure::Event(error),
            })?;
            counter.count(walk.start(WalkSource::Chunk(chunk)))?;
            let log = counter.part.tally.logs.entry(events.origin.log).or_default();
            log.events += chunk.len() as u64;
            Ok(counter.finish())
        }
        WalkPiece::PayloadPart(part) => {
            let mut counter = ChunkCounter::new(events, &part.format, settings);
            counter.learn_tables(&events.context).map_err(|error| CountError {
                offset: part.head.offset,
                cause: PayloadFailure::of_event(Some(part.first), error),
            })?;
            counter.count(walk.start(WalkSource::Part(part)))?;
            counter.is_head = true;
            Ok(counter.finish())
        }
        WalkPiece::PayloadStart(_) => Ok(ChunkTally::new(settings)),
        WalkPiece::PayloadEnd { head, end } => {
            if let (Ok(end), ChecksumVerification::Verify) = (end, settings.checksums) {
                let corrupt = |error| CountError { offset: head.offset, cause: PayloadFailure::Event(error) };
                end.checksum.map_err(corrupt)?;
            }
            Ok(count_payload_end(events, head, settings))
        }
    }
}

/// Counts the event of a large payload, which ends its transaction.
fn count_payload_end(events: &PieceEvents, head: &LargePayloadHead, settings: &StatsSettings) -> ChunkTally {
    let (origin, selection) = (events.origin, &settings.selection);
    let mut part = ChunkTally::new(settings);
    let size = u64::from(head.header.size);
    let is_selected = selection.selects(events.context.id, &events.context.origin);
    if is_selected && selection.tables.selects_all() {
        part.tally.add_event(head.header.event_type, size);
        part.tally.events_outer += 1;
    }
    part.tally.logs.entry(origin.log).or_default().events += 1;
    let mut open = TransactionTally::continued(log_type(origin.kind));
    open.is_counted = is_selected && selection.tables.selects_all();
    open.bytes_stored = size;
    open.payload = Some(StatedPayload::new(head.fields.payload_size, head.fields.uncompressed_size));
    part.head = Some(ContinuedTransaction::Ends(open));
    part
}

struct ChunkCounter<'s> {
    settings: &'s StatsSettings,
    /// True if events outside of selected transactions do not count.
    is_selection: bool,
    /// Selection of the open transaction.
    is_selected: bool,
    /// True if the event is inside a payload.
    is_inner: bool,
    /// Origin of the changes, if the selection or a breakdown needs it.
    origin: Option<ChangeOrigin>,
    /// Digest of the statement of the row changes, if statements are counted and the log has the text.
    digest: Option<Arc<str>>,
    /// True if that statement has changed a selected table.
    is_statement_counted: bool,
    /// True if the previous event ended its statement.
    is_statement_over: bool,
    /// Number of the log.
    log: u32,
    format_inside: EventFormat,
    log_type: LogType,
    part: ChunkTally,
    grammar: TransactionGrammar,
    open: Option<TransactionTally>,
    /// True if the open transaction started before this chunk.
    is_head: bool,
    maps: HashMap<u64, MappedTable>,
    /// Buffer for the uncompressed form of an event that MariaDB compressed individually.
    plain: Vec<u8>,
}

/// A table known from its table map.
struct MappedTable {
    /// Body of the table map: equal bytes mean the same table.
    body: Box<[u8]>,
    /// The table's index, if the table is selected.
    index: Option<usize>,
    table: Arc<Table>,
    decoders: Vec<RowDecoder>,
}

impl<'s> ChunkCounter<'s> {
    fn new(events: &PieceEvents, format: &EventFormat, settings: &'s StatsSettings) -> Self {
        let PieceEvents { origin, context, .. } = events;
        let log_type = log_type(origin.kind);
        let is_open = context.grammar.is_open();
        let is_selection = !settings.selection.selects_all();
        let needs_origin = is_selection || settings.breakdowns.iter().any(|kind| kind.needs_origin());
        let mut counter = Self {
            settings,
            is_selection,
            is_inner: false,
            is_selected: settings.selection.selects(context.id, &context.origin),
            origin: needs_origin.then(|| context.origin.clone()),
            digest: None,
            is_statement_counted: false,
            is_statement_over: false,
            log: origin.log,
            format_inside: format.inside_payload(),
            log_type,
            part: ChunkTally::new(settings),
            grammar: context.grammar,
            open: None,
            is_head: is_open,
            maps: HashMap::new(),
            plain: Vec::new(),
        };
        counter.open = is_open.then(|| counter.prepared(TransactionTally::continued(log_type)));
        counter.find_digest();
        counter
    }

    /// Returns the counters of a transaction as the selection requires.
    fn prepared(&self, mut open: TransactionTally) -> TransactionTally {
        let selects_all_tables = self.settings.selection.tables.selects_all();
        open.is_counted = self.is_selected && selects_all_tables;
        open.bytes_of_tables = (!selects_all_tables).then_some(0);
        open
    }

    fn counts(&self, kind: BreakdownKind) -> bool {
        self.settings.breakdowns.contains(&kind)
    }

    /// Finds the digest of the statement of the row changes.
    fn find_digest(&mut self) {
        if !self.counts(BreakdownKind::Statement) {
            return;
        }
        self.digest = self.origin.as_ref().and_then(|origin| {
            let text = origin.statement.as_ref()?;
            Some(statement_digest(text, origin.sql_mode).into())
        });
    }

    /// Adds the tables of a statement that started in the chunk before.
    fn learn_tables(&mut self, context: &ChunkContext) -> Result<(), DecodeError> {
        for map in context.maps.iter() {
            self.is_statement_counted |= self.learn_table(&map)?.is_some();
        }
        Ok(())
    }

    fn finish(mut self) -> ChunkTally {
        self.record_writer();
        match (self.open, self.is_head) {
            (Some(open), true) => self.part.head = Some(ContinuedTransaction::Continues(open)),
            (open, _) => self.part.tail = open,
        }
        self.part
    }

    fn count(&mut self, mut steps: WalkSteps<'_, '_>) -> Result<(), CountError> {
        while let Some(step) = steps.next() {
            match step {
                WalkStep::Event(event) => {
                    self.count_event(&event).map_err(|error| count_error(&event, error))?;
                    let skips_payload = event.inner.is_none()
                        && event.raw.event_type() == EventType::TransactionPayload
                        && !self.is_selected;
                    if skips_payload {
                        // A skipped payload has no end in the walk.
                        steps.skip_payload();
                        self.end_transaction();
                    }
                }
                WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => match result {
                    Ok(_) => self.end_transaction(),
                    Err(cause) => return Err(CountError { offset, cause }),
                },
                WalkStep::LargePayload(_) => {}
            }
        }
        Ok(())
    }

    fn count_event(&mut self, event: &WalkEvent<'_>) -> Result<(), DecodeError> {
        let WalkEvent { raw, format, .. } = event;
        self.is_inner = event.inner.is_some();
        // Events of a payload have no checksums: the checksum of the payload's event covers them.
        if !self.is_inner && self.settings.checksums == ChecksumVerification::Verify {
            raw.verify()?;
        }
        let role = EventRole::of(raw, format)?;
        if event.inner.is_some() {
            self.pass_origin(raw, format);
            self.add_event(raw);
            return match self.is_selected {
                true => self.count_content(raw, role, format),
                false => Ok(()),
            };
        }
        let step = match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) => {
                // Interrupted by a crash, or in a relay log by a lost connection.
                if fault.lost == GrammarLoss::Transaction {
                    self.abandon_transaction();
                }
                fault.step
            }
        };
        if step.transaction == binlog::EventPlace::Outside {
            if !self.is_selection {
                self.add_event(raw);
            }
            return Ok(());
        }
        if step.transaction.is_first() {
            let start = self.start(event, role)?;
            self.begin_selection(raw, format, start.id);
            self.open = Some(self.prepared(TransactionTally::started(self.log_type, start)));
        } else {
            self.pass_origin(raw, format);
        }
        self.add_event(raw);
        if !self.is_selected {
            if step.transaction.is_last() && role != EventRole::Payload {
                self.end_transaction();
            }
            return Ok(());
        }
        self.add_stored_size(raw, role);
        match role {
            // The transaction ends at the payload's end.
            EventRole::Payload => return self.record_payload(raw, format),
            EventRole::Gtid => {}
            _ => self.count_content(raw, role, format)?,
        }
        if step.transaction.is_last() {
            self.end_transaction();
        }
        Ok(())
    }

    /// Decides whether the transaction that begins with this event is selected.
    fn begin_selection(&mut self, raw: &RawEvent<'_>, format: &EventFormat, id: TransactionId) {
        if let Some(origin) = &mut self.origin {
            *origin = ChangeOrigin::begin(raw.header());
        }
        self.pass_origin(raw, format);
        if let Some(origin) = &self.origin {
            self.is_selected = self.settings.selection.selects(Some(id), origin);
        }
    }

    /// Advances the origin of changes over an event.
    fn pass_origin(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        let Some(origin) = &mut self.origin else { return };
        if std::mem::replace(&mut self.is_statement_over, ends_statement(raw, format)) {
            origin.end_statement();
            self.digest = None;
        }
        origin.pass(raw, format);
        if matches!(raw.event_type(), EventType::RowsQuery | EventType::MariadbAnnotateRows) {
            self.is_statement_counted = false;
            self.find_digest();
        }
    }

    /// Counts an event by its type. If only some tables are selected, only their events count.
    fn add_event(&mut self, raw: &RawEvent<'_>) {
        if !self.is_selection || (self.is_selected && self.settings.selection.tables.selects_all()) {
            self.part.tally.add_event(raw.event_type(), u64::from(raw.header().size));
            self.part.tally.events_outer += u64::from(!self.is_inner);
        }
    }

    /// Counts an event of a selected table, if only some tables are selected.
    fn add_selected_event(&mut self, raw: &RawEvent<'_>) {
        if self.settings.selection.tables.selects_all() {
            return;
        }
        let bytes = u64::from(raw.header().size);
        self.part.tally.add_event(raw.event_type(), bytes);
        self.part.tally.events_outer += u64::from(!self.is_inner);
        if let Some(open) = &mut self.open {
            open.is_counted = true;
            *open.bytes_of_tables.get_or_insert(0) += bytes;
        }
    }

    /// Records the server and the connection that wrote the open transaction, if known.
    fn record_writer(&mut self) {
        if let (Some(open), Some(origin)) = (&mut self.open, &self.origin)
            && origin.connection.is_some()
        {
            open.writer = WriterKey::of(origin);
        }
    }

    /// Returns the data in a transaction's first event.
    fn start(&self, event: &WalkEvent<'_>, role: EventRole) -> Result<TransactionStamp, DecodeError> {
        let address = EventAddress { log: self.log, offset: event.offset };
        let mut start = TransactionStamp {
            id: TransactionId::Unsaid,
            address,
            event_s: event.raw.header().timestamp,
            commit_us: None,
            original_commit_us: None,
        };
        if !matches!(role, EventRole::Gtid | EventRole::GtidAndBegin) {
            return Ok(start);
        }
        let (id, stamps) = match event.raw.decode(event.format)? {
            Event::Gtid(event) => (event.gtid().map(TransactionId::Gtid), event.stamps),
            Event::GtidTagged(event) => (event.gtid().map(TransactionId::Gtid), Some(event.stamps)),
            Event::AnonymousGtid(event) => (None, event.stamps),
            Event::MariadbGtid(gtid) => {
                (Some(TransactionId::Mariadb(gtid.gtid(event.raw.header().server_id))), None)
            }
            _ => (None, None),
        };
        start.id = id.unwrap_or(TransactionId::Anonymous);
        start.commit_us = stamps.as_ref().map(|stamps: &CommitStamps| stamps.immediate_commit_us);
        start.original_commit_us = stamps.as_ref().map(|stamps| stamps.original_commit_us);
        Ok(start)
    }

    /// Adds an event's size in the log to its transaction.
    fn add_stored_size(&mut self, raw: &RawEvent<'_>, role: EventRole) {
        let Some(open) = &mut self.open else { return };
        let size = u64::from(raw.header().size);
        let is_gtid = matches!(role, EventRole::Gtid | EventRole::GtidAndBegin);
        open.bytes_stored += size;
        if is_gtid {
            open.bytes_plain += size;
            open.events += 1;
            open.last_s = raw.header().timestamp;
        }
        open.bytes_cached += cached_size(self.log_type, role, raw);
    }

    /// Counts an event of a transaction, from the log or from a payload.
    fn count_content(
        &mut self,
        raw: &RawEvent<'_>,
        role: EventRole,
        format: &EventFormat,
    ) -> Result<(), DecodeError> {
        if let Some(open) = &mut self.open
            && role != EventRole::GtidAndBegin
        {
            open.add(raw.header());
        }
        match role {
            EventRole::Statement | EventRole::XaFinish => self.count_statement(raw, format)?,
            EventRole::RowsBegin if raw.event_type() == EventType::TableMap => self.count_map(raw)?,
            EventRole::Rows | EventRole::RowsEnd => self.count_rows(raw, format)?,
            _ => {}
        }
        Ok(())
    }

    /// Counts a statement that is logged as SQL.
    fn count_statement(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        if !self.is_selection && !self.counts(BreakdownKind::Statement) {
            self.part.tally.statements += 1;
            return Ok(());
        }
        let event = raw.decode(format)?;
        let Event::Query(query) = &event else {
            self.part.tally.statements += u64::from(self.settings.selection.tables.selects_all());
            return Ok(());
        };
        if !self.settings.selection.tables.selects_statement(query.database) {
            return Ok(());
        }
        self.part.tally.statements += 1;
        self.add_selected_event(raw);
        if self.counts(BreakdownKind::Statement) {
            let sql_mode = self.origin.as_ref().map_or(0, |origin| origin.sql_mode);
            let digest = statement_digest(query.sql, sql_mode).into();
            self.part.tally.breakdown.add_statement(&digest, query.sql.len() as u64);
        }
        Ok(())
    }

    fn count_map(&mut self, raw: &RawEvent<'_>) -> Result<(), DecodeError> {
        let index = self.learn_table(raw)?;
        if let Some(index) = index {
            self.count_row_statement();
            self.part.tally.tables.add_map(index, u64::from(raw.header().size));
            self.add_selected_event(raw);
        }
        Ok(())
    }

    /// Counts the statement of a selected table's map, once.
    fn count_row_statement(&mut self) {
        let text = self.origin.as_ref().and_then(|origin| origin.statement.as_ref());
        if let (Some(digest), Some(text), false) = (&self.digest, text, self.is_statement_counted) {
            self.part.tally.breakdown.add_statement(digest, text.len() as u64);
        }
        self.is_statement_counted = true;
    }

    /// Adds the table for a table id. Returns the table's index, if the table is selected.
    fn learn_table(&mut self, raw: &RawEvent<'_>) -> Result<Option<usize>, DecodeError> {
        let Event::TableMap(map) = raw.decode(&self.format_inside)? else { return Ok(None) };
        if let Some(known) = self.maps.get(&map.table_id).filter(|known| *known.body == *raw.body()) {
            return Ok(known.index);
        }
        let is_selected = self.settings.selection.tables.selects(map.database, map.table);
        let index = is_selected.then(|| self.part.tally.tables.table_index(map.database, map.table));
        self.maps.insert(map.table_id, MappedTable::new(&map, raw, index)?);
        Ok(index)
    }

    fn count_rows(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let mut plain = std::mem::take(&mut self.plain);
        let result =
            raw.plain(format, EVENT_SIZE_MAX, &mut plain).and_then(|raw| self.count_plain_rows(&raw, format));
        self.plain = plain;
        result
    }

    fn count_plain_rows(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let event = raw.decode(format)?;
        let Some(rows) = event.rows() else { return Ok(()) };
        let Some(mapped) = self.maps.get_mut(&rows.table_id) else {
            return match rows.column_count {
                // Servers write rows events without columns only to end a statement.
                0 => Ok(()),
                _ => Err(DecodeError::unmapped_table(rows.table_id)),
            };
        };
        let (Some(open), Some(index)) = (&mut self.open, mapped.index) else { return Ok(()) };
        let amount =
            RowChangeCounts { rows: mapped.count(rows)?, events: 1, bytes: u64::from(raw.header().size) };
        let change = RowOperation::from(rows.kind);
        self.part.tally.add_rows(open, index, change, amount);
        if self.settings.breakdowns.contains(&BreakdownKind::Statement) {
            self.part.tally.breakdown.add_rows(self.digest.as_ref(), change, amount);
        }
        self.add_selected_event(raw);
        Ok(())
    }

    /// Records the sizes of the transaction's payload.
    fn record_payload(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let (Event::TransactionPayload(payload), Some(open)) = (raw.decode(format)?, &mut self.open) else {
            return Ok(());
        };
        open.payload = Some(StatedPayload::new(payload.payload.len() as u64, payload.uncompressed_size));
        Ok(())
    }

    fn end_transaction(&mut self) {
        self.record_writer();
        match self.open.take() {
            Some(open) if self.is_head => self.part.head = Some(ContinuedTransaction::Ends(open)),
            Some(open) => self.part.tally.add_transaction(&open),
            None => {}
        }
        self.is_head = false;
    }

    /// Closes the open transaction as incomplete.
    fn abandon_transaction(&mut self) {
        match self.open.take() {
            Some(_) if self.is_head => self.part.head = Some(ContinuedTransaction::Lost),
            Some(open) => self.part.tally.incomplete += u64::from(open.is_counted),
            None => {}
        }
        self.is_head = false;
    }
}

impl MappedTable {
    fn new(map: &TableMap<'_>, raw: &RawEvent<'_>, index: Option<usize>) -> Result<Self, DecodeError> {
        // Only sizes are needed, which do not depend on the optional metadata.
        let table = Arc::new(Table::without_optional(map)?);
        Ok(Self { body: raw.body().into(), index, table, decoders: Vec::new() })
    }

    fn count(&mut self, rows: &Rows<'_>) -> Result<u64, DecodeError> {
        let known = self.decoders.iter().position(|decoder| decoder.fits(rows));
        let index = match known {
            Some(index) => index,
            None => {
                // Minimal row images differ between statements: keep the latest decoders.
                if self.decoders.len() == DECODERS_MAX {
                    self.decoders.remove(0);
                }
                self.decoders.push(RowDecoder::new(Arc::clone(&self.table), rows)?);
                self.decoders.len() - 1
            }
        };
        self.decoders[index].count(rows)
    }
}

fn count_error(event: &WalkEvent<'_>, error: DecodeError) -> CountError {
    CountError { offset: event.offset, cause: PayloadFailure::of_event(event.inner, error) }
}

const fn log_type(kind: LogKind) -> LogType {
    match kind {
        LogKind::Binary => LogType::Binary,
        LogKind::Relay => LogType::Relay,
    }
}

/// Maximum number of decoders for one table: one for each kind of change and set of columns.
const DECODERS_MAX: usize = 16;
