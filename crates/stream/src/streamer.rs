//! Conversion of events to records.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{Query, Rows, RowsQuery, StatusVar, TableMap, TransactionPayload};
use binlog::{
    EVENT_SIZE_MAX, Event as Body, EventType, Format, Outline, PayloadOpener, RawEvent, Role, RowDecoder,
    Table, Tables, TrackError, Tracker, TransactionId,
};
use logs::Positions;

use crate::catalogue::{Catalogue, Changed};
use crate::change::{At, Change, Definition, Head, Place, Verb};
use crate::debezium::{Debezium, Ended};
use crate::defined::Definitions;
use crate::error::{Error, Refusal};
use crate::held::{Prepared, put_resume};
use crate::maxwell::Maxwell;
use crate::origin::Origin;
use crate::output::Output;
use crate::plan::{Nameless, Plan};
use crate::settings::{Envelope, Queries, Settings, Statements};
use crate::statement::{Statement, define, text};
use crate::token::Token;

/// Converter of events to records.
///
/// It takes events in log order, writes whole records, and returns a resume position after each transaction.
#[derive(Debug)]
pub struct Streamer {
    settings: Settings,
    tracker: Tracker,
    tables: Tables,
    catalogue: Option<Catalogue>,
    known: HashMap<u64, Known>,
    writer: Writer,
    open: Open,
    opener: Option<PayloadOpener>,
    /// Positions in the source's log, if the current log was rewritten.
    origin: Option<Origin>,
}

/// An event and its position.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Name of the log on its server.
    pub log: &'e str,
    /// Start of the event, in bytes from the log's start.
    pub offset: u64,
    /// The event. Its checksum has been verified.
    pub raw: RawEvent<'e>,
    /// Format of the log, which decoding needs.
    pub format: &'e Format,
    /// Time at which the records are written, in nanoseconds since 1970.
    pub now_ns: u64,
}

/// A payload that is streamed because it is too large for memory.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// Start of its event in the source's log.
    position: u64,
    /// End of its event in the log being read.
    end: u64,
}

/// The transaction being read.
#[derive(Debug, Default)]
struct Open {
    head: Head,
    /// Xid of its commit.
    xid: Option<u64>,
    /// True if it is a DDL statement without rows.
    is_definition: bool,
}

/// A table from the log, prepared for streaming.
#[derive(Debug)]
struct Known {
    /// Table as in the log.
    table: Arc<Table>,
    /// Table with column names from the catalogue, and decoders for it.
    named: Option<(Arc<Table>, Vec<Arc<RowDecoder>>)>,
    meant: Meant,
}

/// Decision on streaming a table's rows.
#[derive(Clone, Debug)]
enum Meant {
    Yes(Arc<Plan>),
    /// Error: its columns have no names.
    Nameless,
    /// Error: neither the log nor the server has names for its columns.
    Unfit,
    /// Error: its columns have no names, and no DDL statement in the log defines it.
    Undefined,
    No,
}

#[derive(Debug)]
enum Writer {
    Debezium(Box<Debezium>),
    Maxwell(Box<Maxwell>),
}

/// Position of an event, and the format to decode it with.
#[derive(Clone, Copy)]
struct Within<'w> {
    at: At<'w>,
    format: &'w Format,
}

impl Streamer {
    /// Creates a streamer for a log's start, or a position between two transactions.
    pub fn new(settings: Settings) -> Self {
        let writer = match settings.envelope {
            Envelope::Debezium => {
                Writer::Debezium(Box::new(Debezium::new(&settings.name, &settings.version)))
            }
            Envelope::Maxwell => Writer::Maxwell(Box::default()),
        };
        Self {
            settings,
            tracker: Tracker::new(),
            tables: Tables::new(),
            catalogue: None,
            known: HashMap::new(),
            writer,
            open: Open::default(),
            opener: Some(PayloadOpener::new()),
            origin: None,
        }
    }

    /// Starts or resumes a log. `positions` lists the positions in the source's log, if the log was rewritten; records
    /// then state these.
    pub fn begin_log(&mut self, positions: Option<Positions>) {
        self.origin = positions.map(Origin::new);
    }

    /// Uses a catalogue for column names that the log lacks.
    pub fn with_catalogue(self, catalogue: Catalogue) -> Self {
        Self { catalogue: Some(catalogue), ..self }
    }

    /// Returns the current table definitions, if they come from the log's DDL statements.
    pub fn definitions(&self) -> Option<&Definitions> {
        self.catalogue.as_ref().and_then(Catalogue::definitions)
    }

    /// Takes the list of tables that the log redefines after rows for which a newer definition was used. Each
    /// redefinition is returned once.
    pub fn take_changed(&mut self) -> Vec<Changed> {
        self.catalogue.as_mut().map(Catalogue::take_changed).unwrap_or_default()
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open(&self) -> Option<&Outline> {
        self.tracker.open()
    }

    /// Takes the next event. After the last event of a transaction, returns the position to resume at.
    ///
    /// # Errors
    ///
    /// If the event is corrupt or not allowed at its position, its change cannot be streamed, or the output cannot be
    /// written.
    pub fn take(&mut self, event: &Event<'_>, output: &mut Output) -> Result<Option<Token>, Error> {
        let at = self.at(event)?;
        let within = Within { at, format: event.format };
        let ended = self.follow(event).map_err(|reason| corrupt(&at, reason))?;
        self.content(&event.raw, within, output).map_err(|refusal| refusal.at(at.log, at.offset))?;
        let Some(outline) = ended else { return Ok(None) };
        let token = self.token(&at, outline.end)?;
        self.end(&token, &at, output)?;
        Ok(Some(token))
    }

    /// Starts a payload too large for memory, which claims to hold `uncompressed_size` bytes. Its events follow one by
    /// one with [`Streamer::take_inside`]. `event` is a payload event whose payload may be empty.
    ///
    /// # Errors
    ///
    /// As [`Streamer::take`].
    pub fn begin_payload(
        &mut self,
        event: &Event<'_>,
        end: u64,
        uncompressed_size: Option<u64>,
    ) -> Result<Large, Error> {
        let at = self.at(event)?;
        self.follow(event).map_err(|reason| corrupt(&at, reason))?;
        let position = match &mut self.origin {
            Some(origin) => origin.open((event.offset, end), uncompressed_size, event.format),
            None => at.position,
        };
        Ok(Large { position, end })
    }

    /// Takes an event of the current payload.
    ///
    /// # Errors
    ///
    /// As [`Streamer::take`].
    pub fn take_inside(
        &mut self,
        event: &Event<'_>,
        large: &Large,
        output: &mut Output,
    ) -> Result<(), Error> {
        let at = self.inside(&event.raw, At { position: large.position, ..at(event) });
        self.content(&event.raw, Within { at, format: event.format }, output)
            .map_err(|refusal| refusal.at(at.log, at.offset))
    }

    /// Ends the payload. Returns the position to resume at.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn end_payload(
        &mut self,
        event: &Event<'_>,
        large: &Large,
        output: &mut Output,
    ) -> Result<Token, Error> {
        let at = At { position: large.position, ..at(event) };
        let token = self.token(&at, large.end)?;
        self.end(&token, &at, output)?;
        Ok(token)
    }

    fn at<'e>(&mut self, event: &Event<'e>) -> Result<At<'e>, Error> {
        let at = at(event);
        Ok(match &mut self.origin {
            Some(origin) => At { position: origin.event(event.offset, &event.raw)?, ..at },
            None => at,
        })
    }

    /// Returns the coordinates of an event in a payload, whose own coordinates are `payload`.
    fn inside<'e>(&mut self, raw: &RawEvent<'_>, payload: At<'e>) -> At<'e> {
        let header = raw.header();
        let position = self.origin.as_mut().and_then(|origin| origin.inside(raw.bytes().len()));
        let position = position.unwrap_or(payload.position);
        At { timestamp: header.timestamp, server_id: header.server_id, position, ..payload }
    }

    /// Returns the position to resume at after the transaction, whose last event ends at `end`.
    fn token(&mut self, at: &At<'_>, end: u64) -> Result<Token, Error> {
        let position = match &mut self.origin {
            Some(origin) => origin.end(end).map_err(|reason| corrupt(at, reason))?,
            None => end,
        };
        let place = Place { log: at.log.to_owned(), position };
        Ok(Token { place, gtid: self.open.head.gtid.clone() })
    }

    /// Tracks the log's grammar. Returns the transaction that ends with this event.
    fn follow(&mut self, event: &Event<'_>) -> Result<Option<Outline>, String> {
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
                begin(&mut self.open.head, outline);
            }
        }
        Ok(tracked.ended)
    }

    fn end(&mut self, token: &Token, at: &At<'_>, output: &mut Output) -> Result<(), Error> {
        let Open { head, xid, is_definition } = &mut self.open;
        match &mut self.writer {
            Writer::Debezium(debezium) => {
                let ended = debezium.end(&mut output.bytes, head, at, token);
                if ended == Ended::Untold && *is_definition {
                    put_resume(&mut output.bytes, token);
                }
                output.drain_if_full()?;
            }
            Writer::Maxwell(maxwell) => maxwell.end(output, *xid, (at.log, token))?,
        }
        head.clear();
        (*xid, *is_definition) = (None, false);
        Ok(())
    }

    fn content(
        &mut self,
        raw: &RawEvent<'_>,
        within: Within<'_>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let mut plain = Vec::new();
        let raw = match is_compressed(raw.event_type()) {
            true => {
                raw.decompress_mariadb(within.format, EVENT_SIZE_MAX, &mut plain)?;
                RawEvent::new(&plain, raw.checksum())?
            }
            false => *raw,
        };
        match raw.decode(within.format)? {
            Body::TableMap(map) => self.map(&map, within)?,
            Body::WriteRows(rows) | Body::UpdateRows(rows) | Body::DeleteRows(rows) => {
                self.rows(&rows, within, output)?;
            }
            Body::Query(query) => self.query(&query, &raw, within, output)?,
            Body::TransactionPayload(payload) => {
                let end = within.at.offset + raw.bytes().len() as u64;
                self.payload(&payload, end, within, output)?
            }
            Body::Xid(xid) => self.open.xid = Some(xid.xid),
            Body::RowsQuery(RowsQuery { sql, .. }) => self.rows_query(sql),
            Body::MariadbAnnotateRows(annotate) => self.rows_query(annotate.sql),
            Body::MariadbGtid(_) if Role::of(&raw, within.format)? == Role::GtidAndBegin => {
                self.begin(&within, output)
            }
            Body::ExecuteLoadQuery(load) => self.statement_rows(load.query.sql, &within)?,
            Body::Incident(_) => {
                let (log, offset) = (within.at.log.to_owned(), within.at.offset);
                return Err(Refusal::Error(Error::Incident { log, offset }));
            }
            event => {
                if let Some(rows) = event.rows() {
                    self.rows(rows, within, output)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, within: &Within<'_>, output: &mut Output) {
        if let Writer::Debezium(debezium) = &mut self.writer {
            debezium.begin(&mut output.bytes, &self.open.head, &within.at);
        }
    }

    fn payload(
        &mut self,
        payload: &TransactionPayload<'_>,
        end: u64,
        mut within: Within<'_>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        if let Some(origin) = &mut self.origin {
            let at = (within.at.offset, end);
            within.at.position = origin.open(at, payload.uncompressed_size, within.format);
        }
        let format = within.format.inside_payload();
        let mut opener = self.opener.take().unwrap_or_default();
        let told = self.payload_events(payload, (within, &format), &mut opener, output);
        self.opener = Some(opener);
        told
    }

    fn payload_events(
        &mut self,
        payload: &TransactionPayload<'_>,
        (within, format): (Within<'_>, &Format),
        opener: &mut PayloadOpener,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let mut events = opener.open(payload)?;
        while let Some(raw) = events.next_event()? {
            let at = self.inside(&raw, within.at);
            self.content(&raw, Within { at, format }, output)?;
        }
        Ok(())
    }

    fn query(
        &mut self,
        query: &Query<'_>,
        raw: &RawEvent<'_>,
        within: Within<'_>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        match Role::of(raw, within.format)? {
            Role::Begin => {
                self.open.head.thread = Some(query.thread_id);
                self.begin(&within, output);
                return Ok(());
            }
            Role::Statement => {}
            _ => return Ok(()),
        }
        let mut known = None;
        if let Some(definitions) = self.catalogue.as_mut().and_then(Catalogue::definitions_mut) {
            // Release the unsaved copy first. Otherwise the definitions would be copied before the change.
            let is_unsaved = output.take_defined().is_some();
            let changes = define(definitions, query, within.format);
            if is_unsaved || !changes.is_empty() {
                output.define(definitions.clone());
            }
            known = Some((changes, definitions.clone()));
        }
        match Statement::of(query, &self.settings.filter) {
            Statement::Other => Ok(()),
            Statement::Rows => self.statement_rows(query.sql, &within),
            Statement::Definition { verb, database, table } => {
                let sql = text(query, within.format.flavour);
                let known = known.as_ref().filter(|_| verb != Verb::Truncate);
                let known = known.map(|(changes, after)| (changes, after));
                let definition =
                    Definition { verb, database: &database, table: table.as_deref(), sql: &sql, known };
                self.open.is_definition = self.open.head.rows == 0;
                if let (Some(catalogue), Some(table)) = (&mut self.catalogue, &table) {
                    let (table, log) = (format!("{database}.{table}"), within.at.log.to_owned());
                    let changed = Changed { table, log, offset: within.at.offset };
                    catalogue.defined(changed, within.at.timestamp);
                }
                if self.open.xid.is_none() {
                    self.open.xid = query.status.iter().flatten().find_map(ddl_xid);
                }
                match &mut self.writer {
                    Writer::Debezium(debezium) => {
                        debezium.definition(&mut output.bytes, &definition, &self.open.head, &within.at);
                    }
                    Writer::Maxwell(maxwell) => {
                        let told = maxwell.definition(&definition, (&self.open.head, &within.at));
                        told.map_err(Refusal::Error)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn statement_rows(&self, sql: &[u8], within: &Within<'_>) -> Result<(), Refusal> {
        if self.settings.statements == Statements::Skipped {
            return Ok(());
        }
        let statement = String::from_utf8_lossy(sql).chars().take(40).collect::<String>().replace('\n', " ");
        let (log, offset) = (within.at.log.to_owned(), within.at.offset);
        Err(Refusal::Error(Error::Statement { log, offset, statement }))
    }

    fn rows_query(&mut self, sql: &[u8]) {
        if self.settings.queries == Queries::Told {
            self.open.head.query = Some(String::from_utf8_lossy(sql).into_owned());
        }
    }

    fn map(&mut self, map: &TableMap<'_>, within: Within<'_>) -> Result<(), Refusal> {
        /// Prepared tables. Bounds memory: table IDs are never reused, so a long log has any number of them.
        const KNOWN_MAX: usize = 8192;
        let table = self.tables.map(map)?;
        if self.known.get(&map.table_id).is_some_and(|known| Arc::ptr_eq(&known.table, &table)) {
            return Ok(());
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.prepare(table, within)?;
        self.known.insert(map.table_id, known);
        Ok(())
    }

    fn prepare(&mut self, table: Arc<Table>, within: Within<'_>) -> Result<Known, Refusal> {
        let (filter, flavour) = (&self.settings.filter, within.format.flavour);
        let known = |table, meant| Ok(Known { table, named: None, meant });
        if !filter.takes_database(&table.database) || !filter.takes_tables([(&*table.database, &*table.name)])
        {
            return known(table, Meant::No);
        }
        if let Some(plan) = Plan::new(&table, flavour, Nameless::Refused) {
            return known(table, Meant::Yes(Arc::new(plan)));
        }
        if let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.named(&table).map_err(Refusal::Error)?
            && let Some(plan) = Plan::new(&named, flavour, Nameless::Refused)
        {
            let named = Some((Arc::new(named), Vec::new()));
            return Ok(Known { table, named, meant: Meant::Yes(Arc::new(plan)) });
        }
        let meant = match (Plan::new(&table, flavour, self.settings.nameless), &self.catalogue) {
            (Some(plan), _) => Meant::Yes(Arc::new(plan)),
            (None, None) => Meant::Nameless,
            (None, Some(catalogue)) if catalogue.definitions().is_some() => Meant::Undefined,
            (None, Some(_)) => Meant::Unfit,
        };
        known(table, meant)
    }

    fn rows(&mut self, rows: &Rows<'_>, within: Within<'_>, output: &mut Output) -> Result<(), Refusal> {
        let mut decoder = self.tables.decoder(rows)?;
        let Some(known) = self.known.get_mut(&rows.table_id) else {
            // An event without columns only ends a statement.
            return if rows.column_count == 0 { Ok(()) } else { self.prepare_again(rows, within, output) };
        };
        if matches!(known.meant, Meant::Unfit | Meant::Undefined)
            && within.format.shows_hidden_columns()
            && let Some(catalogue) = &mut self.catalogue
            && let Some(named) = catalogue.named_by_rows(&known.table, rows).map_err(Refusal::Error)?
            && let Some(plan) = Plan::new(&named, within.format.flavour, Nameless::Refused)
        {
            (known.named, known.meant) = (Some((Arc::new(named), Vec::new())), Meant::Yes(Arc::new(plan)));
        }
        let plan = match &known.meant {
            Meant::Yes(plan) => Arc::clone(plan),
            Meant::No => return Ok(()),
            Meant::Nameless => return Err(Refusal::Error(nameless(&known.table, &within.at))),
            Meant::Unfit => return Err(Refusal::Error(unfit(&known.table, &within.at))),
            Meant::Undefined => return Err(Refusal::Error(undefined(&known.table, &within.at))),
        };
        if let Some((table, decoders)) = &mut known.named {
            decoder = own_decoder(table, decoders, rows)?;
        }
        self.begin(&within, output);
        self.tell(rows, &Prepared { plan, decoder }, within, output)
    }

    /// Takes rows of a table that was evicted from the prepared tables.
    fn prepare_again(
        &mut self,
        rows: &Rows<'_>,
        within: Within<'_>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let Some(table) = self.tables.table(rows.table_id) else { return Ok(()) };
        let known = self.prepare(table, within)?;
        self.known.insert(rows.table_id, known);
        self.rows(rows, within, output)
    }

    fn tell(
        &mut self,
        rows: &Rows<'_>,
        prepared: &Prepared,
        within: Within<'_>,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let (head, at) = (&mut self.open.head, &within.at);
        match &mut self.writer {
            Writer::Debezium(debezium) => {
                let Prepared { plan, decoder } = prepared;
                debezium.rows(plan, head, at);
                for (row, index) in decoder.rows(rows).zip(0..) {
                    let change = Change { plan, kind: rows.kind, index, row: &row? };
                    debezium.row(&mut output.bytes, head, &change)?;
                    output.drain_if_full().map_err(|error| Refusal::Error(error.into()))?;
                }
            }
            Writer::Maxwell(maxwell) => maxwell.rows(rows, prepared, (head, at))?,
        }
        Ok(())
    }
}

fn at<'e>(event: &Event<'e>) -> At<'e> {
    let header = event.raw.header();
    At {
        log: event.log,
        offset: event.offset,
        position: event.offset,
        timestamp: header.timestamp,
        server_id: header.server_id,
        now_ns: event.now_ns,
    }
}

fn begin(head: &mut Head, outline: &Outline) {
    head.gtid = match outline.id {
        TransactionId::Gtid(_) | TransactionId::Mariadb(_) => Some(outline.id.to_string()),
        _ => None,
    };
    head.committed_us = outline.stamps.map(|stamps| match stamps.original_commit_us {
        0 => stamps.immediate_commit_us,
        original => original,
    });
}

fn corrupt(at: &At<'_>, reason: String) -> Error {
    Error::Corrupt { log: at.log.to_owned(), offset: at.offset, reason }
}

/// Returns a decoder for rows of a table with column names from the catalogue.
fn own_decoder(
    table: &Arc<Table>,
    decoders: &mut Vec<Arc<RowDecoder>>,
    rows: &Rows<'_>,
) -> Result<Arc<RowDecoder>, Refusal> {
    /// Decoders per table: one for each set of columns in its rows events.
    const DECODERS_MAX: usize = 32;
    if let Some(decoder) = decoders.iter().find(|decoder| decoder.fits(rows)) {
        return Ok(Arc::clone(decoder));
    }
    if decoders.len() >= DECODERS_MAX {
        decoders.clear();
    }
    let decoder = Arc::new(RowDecoder::new(Arc::clone(table), rows)?);
    decoders.push(Arc::clone(&decoder));
    Ok(decoder)
}

fn nameless(table: &Table, at: &At<'_>) -> Error {
    Error::Nameless { log: at.log.to_owned(), offset: at.offset, table: name(table) }
}

fn unfit(table: &Table, at: &At<'_>) -> Error {
    Error::Unfit { log: at.log.to_owned(), offset: at.offset, table: name(table) }
}

fn undefined(table: &Table, at: &At<'_>) -> Error {
    Error::Undefined { log: at.log.to_owned(), offset: at.offset, table: name(table) }
}

fn name(table: &Table) -> String {
    let name = [&*table.database, b".", &*table.name].concat();
    String::from_utf8_lossy(&name).into_owned()
}

fn ddl_xid(var: StatusVar<'_>) -> Option<u64> {
    match var {
        StatusVar::DdlXid(xid) => Some(xid),
        _ => None,
    }
}

/// Returns whether this is one of MariaDB's compressed events.
const fn is_compressed(event_type: EventType) -> bool {
    event_type.decompressed().is_some()
}
