//! Reads the events of all logs in order, and decides what to print of each.
//!
//! Only this module knows what was printed before. It leaves the heavy work, base64 and rows, to the threads that write
//! the [`Batch`]es.
//!
//! | module | what it does |
//! |---|---|
//! | this one | reads, checks and filters events |
//! | [`print`](self::print) | prints events |
//! | [`row_format`] | enforces `--require-row-format` |
//! | [`remote`](self::remote) | reads the events that a server sends |
//! | [`payload`](self::payload) | decompresses transactions |
//! | [`statement`] | collects what is printed at a statement's end |
//! | [`words`] | recognizes statements that begin and end transactions |

mod payload;
mod print;
mod remote;
mod row_format;
mod statement;
mod words;

use std::fs::File;
use std::io::Read;
use std::mem::{replace, take};
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binlog::events::TransactionPayload;
use binlog::{Checksum, Cursor, Event, EventType, Flags, HEADER_SIZE, Header, PayloadOpener};
use logs::ordered::{Bounds, Stopped, ordered};

use self::payload::{Inside, Opened};
use self::row_format::RowFormat;
use self::statement::{Statement, Tables};
use self::words::TransactionWord;
use crate::batch::{Batch, Source};
use crate::bytes::{Bytes, Spare};
use crate::decode::{
    LogFormat, checksum_fits, decode, describe, is_from_future, rows_v1_unknown, status_is_valid,
};
use crate::delimiter::end_statement;
use crate::errno::os_error;
use crate::event_ref::EventRef;
use crate::event_text::VERSION_UNKNOWN;
use crate::frame::{OpenEnds, put_end, put_log_end, put_start, put_start_settings};
use crate::head_text::{Head, HeadText};
use crate::hexdump::Hexdump;
use crate::load_files::LoadFiles;
use crate::mysqlbinlog::Dialect;
use crate::numbers::put_u64;
use crate::pipeline::Inputs;
use crate::reader::{Block, EVENT_TYPE_AT, LargePayload, LargePayloads, ReadError, Reader};
use crate::rewrite::rewrite;
use crate::session::Session;
use crate::settings::Settings;
use crate::talk::Talk;

/// Maximum size of blocks and payloads that are read ahead, in bytes.
const AHEAD_MAX: usize = 8 << 20;

/// Size at which a batch is passed on, in bytes.
const BATCH_SIZE: usize = 512 << 10;

/// Decision after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Read the next event.
    Continue,
    /// Stop: everything requested is printed.
    Stop,
}

/// Reason why no event follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Reading failed; the error has been printed.
    Failed,
    /// A temporary file could not be written, so a statement is incomplete. The error has been printed.
    TemporaryFile,
    /// The output was closed.
    Unwanted,
}

type Outcome = Result<Flow, Halt>;

/// Passes a batch on. Returns an error if the output was closed.
pub(crate) type HandOn<'h> = &'h mut dyn FnMut(Batch) -> Result<(), Halt>;

/// One event with its position, buffer and format.
#[derive(Clone, Copy)]
struct Item<'b> {
    bytes: &'b [u8],
    checksum: Checksum,
    /// The event's header. Inside a payload, the next position is the payload's.
    header: Header,
    buffer: &'b Arc<Bytes>,
    /// Start of the event in the buffer.
    start: usize,
    /// Format of the event.
    format: &'b Arc<LogFormat>,
    /// Start of the event in its log.
    at: u64,
    inside: Inside<'b>,
}

/// An event that is kept longer than its block.
struct Kept {
    event: EventRef,
    format: Arc<LogFormat>,
    at: u64,
    next_position: u32,
}

/// Prints the events of all logs.
pub(crate) struct Dump<'s, 'e> {
    settings: &'s Settings,
    talk: &'s mut Talk<'e>,
    spare: &'s Spare,
    /// Spare buffers for events.
    spare_bytes: Arc<Spare>,
    hand_on: HandOn<'s>,
    /// The next batch. Its text becomes final as soon as an event is printed.
    batch: Batch,
    statement: Statement,
    heads: HeadText<'s>,
    session: Session,
    tables: Tables,
    load_files: LoadFiles,
    opener: PayloadOpener,
    /// The last raw file.
    raw_file: Option<File>,
    /// Format of the next events, from the last format description that was printed.
    format: Arc<LogFormat>,
    filter: Filter,
    /// Variables for the next statement.
    variables: Vec<Kept>,
    ends: OpenEnds,
    /// An event of the open transaction was skipped.
    skipped_in_transaction: bool,
    format_printed: bool,
    is_first_format: bool,
    /// A format description was read; a relay log's own counts.
    has_format: bool,
    /// Version of the server that wrote the current transaction.
    server_version: u32,
    /// The last status variables that were found valid.
    status_valid: Vec<u8>,
}

/// State of the event filters.
struct Filter {
    stop_position: u64,
    start_time: i64,
    offset: u64,
    seen: u64,
    /// The current transaction is skipped because of its GTID.
    by_gtid: bool,
}

/// State of reading one log.
struct Log<'n> {
    name: &'n [u8],
    /// Format from the last format description read.
    format: Arc<LogFormat>,
    in_use: bool,
    rows_only: RowFormat,
}

/// Check of an event against the stop position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionCheck {
    Needed,
    /// Not needed: the payload's event was checked before.
    Passed,
}

impl<'s, 'e> Dump<'s, 'e> {
    pub(crate) fn new(
        settings: &'s Settings,
        talk: &'s mut Talk<'e>,
        spare: &'s Spare,
        hand_on: HandOn<'s>,
    ) -> Self {
        Self {
            settings,
            talk,
            spare,
            spare_bytes: Arc::default(),
            hand_on,
            batch: Batch::new(spare),
            statement: Statement::default(),
            heads: HeadText::new(settings),
            session: Session::default(),
            tables: Tables::default(),
            load_files: LoadFiles::new(&settings.local_load),
            opener: PayloadOpener::new(),
            raw_file: None,
            format: Arc::new(LogFormat::at_first()),
            filter: Filter {
                stop_position: u64::MAX,
                start_time: settings.start_time,
                offset: settings.offset,
                seen: 0,
                by_gtid: false,
            },
            variables: Vec::new(),
            ends: OpenEnds::default(),
            skipped_in_transaction: false,
            format_printed: false,
            is_first_format: true,
            has_format: false,
            server_version: VERSION_UNKNOWN,
            status_valid: Vec::new(),
        }
    }

    /// Prints all logs.
    pub(crate) fn run(mut self, names: &[Vec<u8>], inputs: &mut Inputs<'_>) -> Result<(), Halt> {
        let settings = self.settings;
        let is_raw = settings.remote.as_ref().is_some_and(|remote| remote.raw.is_some());
        match is_raw {
            true => put_start_settings(self.batch.text(), settings),
            false => put_start(self.batch.text(), settings),
        }
        self.batch.settle();
        let mut outcome = Ok(Flow::Continue);
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            self.filter.stop_position = if is_last { self.settings.stop_position } else { u64::MAX };
            let start = if index == 0 { self.settings.start_position } else { 4 };
            outcome = match &settings.remote {
                Some(remote) => self.remote_log(name, start, remote, inputs.servers),
                None => self.log(name, start, inputs.stdin),
            };
            if outcome != Ok(Flow::Continue) {
                break;
            }
        }
        if outcome == Err(Halt::Unwanted) {
            return Err(Halt::Unwanted);
        }
        if is_raw {
            let ended = self.end_raw();
            (self.hand_on)(take(&mut self.batch))?;
            return outcome.map(drop).and(ended);
        }
        self.warn_of_open_ends();
        drop(self.batch.take_unsettled());
        if self.skipped_in_transaction {
            self.put_commit();
        }
        put_log_end(self.batch.text(), self.ends, self.settings.skip_gtids);
        put_end(self.batch.text(), self.settings);
        (self.hand_on)(take(&mut self.batch))?;
        outcome.map(drop)
    }

    fn warn_of_open_ends(&mut self) {
        const END: &[u8] = b"This might be because the last statement was not fully written to the log, or because \
            you are using a --stop-position or --stop-datetime that refers to an event in the middle of a statement. \
            The event(s) from the partial statement have not been written to output.";
        if !self.variables.is_empty() {
            let start =
                b"The range of printed events ends with an Intvar_event, Rand_event or User_var_event with \
                no matching Query_log_event. ";
            self.talk.warning(&[start, END, b" "]);
        } else if self.statement.is_open {
            let start =
                b"The range of printed events ends with a row event or a table map event that does not have \
                the STMT_END_F flag set. ";
            self.talk.warning(&[start, END]);
        }
    }

    fn log(&mut self, name: &[u8], start: u64, input: &mut (dyn Read + Send)) -> Outcome {
        // A hexdump needs all bytes of the event.
        let large = if self.settings.hexdump { LargePayloads::InMemory } else { LargePayloads::InPieces };
        let opened = match name {
            b"-" => Reader::stream(input, large, &self.spare_bytes),
            name => Reader::open(name, self.settings.keyring.as_ref(), large, &self.spare_bytes),
        };
        let mut reader = opened.map_err(|error| self.complain(name, &error))?;
        let mut log = Log {
            name,
            format: Arc::new(LogFormat::at_first()),
            in_use: false,
            rows_only: RowFormat::default(),
        };
        if let Some(first) = self.find_format(&mut log, start, &mut reader)?
            && let Ok(item) = first.item()
            && let Some(event) = self.decode(&item)
            && self.event(item, &event, name, PositionCheck::Needed)? == Flow::Stop
        {
            return Ok(Flow::Stop);
        }
        let first = reader.next_block();
        let is_all = first.end.is_some();
        match self.block(&first, &Opened::default(), &mut log)? {
            Flow::Continue if is_all => Ok(Flow::Continue),
            Flow::Continue if self.settings.jobs() == NonZeroUsize::MIN => self.blocks(&mut reader, &mut log),
            Flow::Continue => self.blocks_ahead(reader, &mut log),
            Flow::Stop => Ok(Flow::Stop),
        }
    }

    /// Prints the rest of a log.
    fn blocks(&mut self, reader: &mut Reader<'_>, log: &mut Log<'_>) -> Outcome {
        loop {
            let block = reader.next_block();
            let is_last = block.end.is_some();
            match self.block(&block, &Opened::default(), log)? {
                Flow::Continue if is_last => return Ok(Flow::Continue),
                Flow::Continue => {}
                Flow::Stop => return Ok(Flow::Stop),
            }
        }
    }

    /// Prints the rest of a log, while other threads read ahead and decompress payloads.
    fn blocks_ahead(&mut self, mut reader: Reader<'_>, log: &mut Log<'_>) -> Outcome {
        let settings = self.settings;
        let spare = Arc::clone(&self.spare_bytes);
        let mut outcome = Ok(Flow::Continue);
        let ended = ordered(
            Bounds { workers: settings.jobs(), bytes: AHEAD_MAX },
            |feed| {
                let mut is_last = false;
                while !is_last {
                    let block = reader.next_block();
                    is_last = block.end.is_some();
                    let size = block.buffer.len();
                    feed.push(block, size)?;
                }
                Ok(())
            },
            PayloadOpener::new,
            |opener, block, outlet| {
                let opened = Opened::new(&block, opener, &settings.rewrites, &spare);
                let size = block.buffer.len() + opened.size();
                outlet.push((block, opened), size)
            },
            |(block, opened)| {
                outcome = self.block(&block, &opened, log);
                Ok(match outcome {
                    Ok(Flow::Continue) => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                })
            },
        );
        // `Stopped` needs no handling: `outcome` caused it.
        let (Ok(()) | Err(Stopped)) = ended;
        outcome
    }

    /// Prints a block, and then the error at its end, if any.
    fn block(&mut self, block: &Block, opened: &Opened, log: &mut Log<'_>) -> Outcome {
        if let Some(large) = &block.large {
            return self.large(large, log);
        }
        if self.block_events(block, opened, log)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        match &block.end {
            Some(Err(ReadError::Truncated)) if log.in_use && self.settings.force_if_open => {
                self.talk.warning(&[b"File ends with a truncated event."]);
                Ok(Flow::Continue)
            }
            Some(Err(error)) => Err(self.complain_of_entry(log.name, block.start, error)),
            Some(Ok(())) | None => Ok(Flow::Continue),
        }
    }

    /// Prints a payload that is not in memory. The event without its payload stands for it.
    fn large(&mut self, large: &LargePayload, log: &mut Log<'_>) -> Outcome {
        let format = Arc::clone(&log.format);
        if self.settings.verify_checksum && format.checksum.for_events() == Checksum::Crc32 {
            large.verify().map_err(|error| self.complain_of_entry(log.name, large.at, &error))?;
        }
        let item = Item::new(&large.stub, 0..large.stub.len(), large.at, &format);
        let item = item.map_err(|error| self.complain_of_entry(log.name, large.at, &error))?;
        let (compression, uncompressed_size) = (large.fields.compression, large.fields.uncompressed_size);
        let nothing = &[][..];
        let event = Event::TransactionPayload(TransactionPayload {
            compression,
            uncompressed_size,
            fields: nothing,
            payload: nothing,
            rest: nothing,
        });
        let flow = self.allowed(Item { inside: Inside::Large(large), ..item }, &event, log)?;
        self.hand_on_if_full().map(|()| flow)
    }

    /// Prints an event, unless `--require-row-format` refuses it.
    fn allowed(&mut self, item: Item<'_>, event: &Event<'_>, log: &mut Log<'_>) -> Outcome {
        let is_allowed =
            !self.settings.require_row_format || log.rows_only.takes(item.header.event_type, event);
        match is_allowed {
            true => self.event(item, event, log.name, PositionCheck::Needed),
            false => Err(self.complain_of_statement()),
        }
    }

    fn block_events(&mut self, block: &Block, opened: &Opened, log: &mut Log<'_>) -> Outcome {
        let mut format = Arc::clone(&log.format);
        for (index, range) in block.events.iter().enumerate() {
            let at = block.position(range.start);
            let rewritten = match self.take(&block.buffer[range.clone()], log) {
                Ok(rewritten) => rewritten,
                Err(error) => return Err(self.complain_of_entry(log.name, at, &error)),
            };
            if !Arc::ptr_eq(&format, &log.format) {
                format = Arc::clone(&log.format);
            }
            let item = match &rewritten {
                Some(buffer) => Item::new(buffer, 0..buffer.len(), at, &format),
                None => Item::new(&block.buffer, range.clone(), at, &format),
            };
            let mut item = item.map_err(|error| self.complain_of_entry(log.name, at, &error))?;
            // An `Option`, because moving the event out of a nested `Result` costs as much as decoding it.
            let Some(event) = self.decode(&item) else {
                return Err(self.complain_of_entry(log.name, at, &item.why_invalid()));
            };
            if let Event::TransactionPayload(_) = event {
                item.inside = opened.inside(index);
            }
            if self.allowed(item, &event, log)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            self.hand_on_if_full()?;
        }
        Ok(Flow::Continue)
    }

    /// Decodes an event, and checks its status variables if it is a statement.
    fn decode<'b>(&mut self, item: &Item<'b>) -> Option<Event<'b>> {
        let event = decode(item.bytes, &item.header, item.checksum, item.format)?;
        let status = match &event {
            Event::Query(query) => query.status,
            Event::ExecuteLoadQuery(load) => load.query.status,
            Event::WriteRowsV1(_) | Event::UpdateRowsV1(_) | Event::DeleteRowsV1(_)
                if self.settings.dialect == Dialect::Mysqlbinlog =>
            {
                return rows_v1_unknown(&item.header);
            }
            _ => return Some(event),
        };
        // Most statements have the variables of the one before.
        if self.status_valid != status.bytes {
            if !status_is_valid(status) {
                return None;
            }
            self.status_valid.clear();
            self.status_valid.extend_from_slice(status.bytes);
        }
        Some(event)
    }

    fn complain_of_statement(&mut self) -> Halt {
        self.talk.error(&[b"Event being written violates the --require-row-format parameter constraints."]);
        Halt::Failed
    }

    /// Reads the events before the start position to find the format description.
    fn find_format(
        &mut self,
        log: &mut Log<'_>,
        start: u64,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Kept>, Halt> {
        let mut found: Option<Kept> = None;
        let mut last_at = reader.position();
        while reader.position() < start {
            last_at = reader.position();
            let read = self.read(reader, log).and_then(|kept| match kept {
                Some(kept) => {
                    let item = kept.item()?;
                    let kind = match self.decode(&item) {
                        Some(_) => item.header.event_type,
                        None => return Err(item.why_invalid()),
                    };
                    Ok(Some((kept, kind)))
                }
                None => Ok(None),
            });
            let Some((kept, kind)) = read.map_err(|error| self.complain(log.name, &error))? else { break };
            match kind {
                EventType::FormatDescription => found = Some(kept),
                EventType::PreviousGtids | EventType::Rotate => {}
                _ => break,
            }
        }
        if let Some(kept) = &mut found {
            kept.at = last_at;
            if reader.position() < start {
                reader.skip_to(start);
            }
        }
        Ok(found)
    }

    fn complain_of_entry(&mut self, name: &[u8], at: u64, error: &ReadError) -> Halt {
        // mysqlbinlog prints the position as signed.
        let at = at.cast_signed().to_string();
        let start = b"Could not read entry at offset ";
        self.talk.error(&[start, at.as_bytes(), b": Error in log format or read error 1."]);
        self.complain(name, error)
    }

    /// Prints the error of reading a log.
    fn complain(&mut self, name: &[u8], error: &ReadError) -> Halt {
        match error {
            ReadError::Open(cause) => {
                self.talk.file(&[b"File '", name, b"' not found (", &os_error(cause), b")"])
            }
            ReadError::Io(cause, _) => {
                self.talk.file(&[b"Error reading file '", name, b"' (", &os_error(cause), b")"]);
            }
            ReadError::Other(_) | ReadError::Truncated => {}
        }
        self.talk.error(&[error.text().as_bytes()]);
        Halt::Failed
    }

    /// Reads one event.
    fn read(&mut self, reader: &mut Reader<'_>, log: &mut Log<'_>) -> Result<Option<Kept>, ReadError> {
        let at = reader.position();
        let Some(mut event) = reader.next_event()? else { return Ok(None) };
        if let Some(rewritten) = self.take(&event, log)? {
            event = EventRef::whole(rewritten);
        }
        let header = Header::decode(&mut Cursor::new(&event)).map_err(|_| ReadError::Truncated)?;
        Ok(Some(Kept { event, format: Arc::clone(&log.format), at, next_position: header.next_position }))
    }

    /// Updates the log's format from an event, and verifies its checksum if requested. Returns the event with its
    /// database renamed, if a rule applies.
    fn take(&mut self, event: &[u8], log: &mut Log<'_>) -> Result<Option<Arc<Bytes>>, ReadError> {
        if self.settings.verify_checksum && !checksum_fits(event, &log.format) {
            return Err(ReadError::CHECKSUM);
        }
        let rewritten = match rewrite(event, &self.format, &self.settings.rewrites) {
            Ok(rewritten) => rewritten.map(Bytes::new).map(Arc::new),
            Err(_) => {
                self.talk.error(&[b"Error applying filter while reading event"]);
                return Err(ReadError::MEMORY);
            }
        };
        if event.get(EVENT_TYPE_AT) == Some(&EventType::FormatDescription.code()) {
            let header = Header::decode(&mut Cursor::new(event)).map_err(|_| ReadError::Truncated)?;
            let (_, format) = describe(event)?;
            if !log.format.lists(header.event_type) {
                return Err(ReadError::INVALID_EVENT);
            }
            log.format = Arc::new(format);
            log.in_use = header.flags.contains(Flags::IN_USE);
        }
        Ok(rewritten)
    }

    fn event(&mut self, item: Item<'_>, event: &Event<'_>, name: &[u8], check: PositionCheck) -> Outcome {
        let outcome = match self.passes(item, check) {
            Passes::Yes => {
                self.put_place(item);
                match self.skips_by_gtid(item, event) {
                    true => Ok(Flow::Continue),
                    false => self.print(item, event, name).map(|()| Flow::Continue),
                }
            }
            Passes::No => Ok(Flow::Continue),
            Passes::NorOthers => Ok(Flow::Stop),
        };
        self.filter.seen += 1;
        outcome
    }

    fn passes(&mut self, item: Item<'_>, check: PositionCheck) -> Passes {
        let (filter, settings) = (&mut self.filter, self.settings);
        let time = i64::from(item.header.timestamp);
        let event_type = item.header.event_type;
        if event_type != EventType::FormatDescription {
            if filter.seen < filter.offset || time < filter.start_time {
                return Passes::No;
            }
            // The first event in range ends the check: later events are printed whatever their time.
            (filter.start_time, filter.offset) = (0, 0);
            let server_id = u64::from(item.header.server_id & settings.server_id_mask);
            if event_type != EventType::Rotate && settings.server_id != 0 && settings.server_id != server_id {
                return Passes::No;
            }
        }
        let is_behind = check == PositionCheck::Needed && item.at >= filter.stop_position;
        if is_behind || time >= settings.stop_time { Passes::NorOthers } else { Passes::Yes }
    }

    /// Returns whether an event is skipped because of its transaction's GTID.
    fn skips_by_gtid(&mut self, item: Item<'_>, event: &Event<'_>) -> bool {
        match event {
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => {
                let gtid = match event {
                    Event::Gtid(event) => event.gtid(),
                    Event::GtidTagged(event) => event.gtid(),
                    _ => None,
                };
                self.filter.by_gtid = self.settings.skips_transaction(gtid);
                self.filter.by_gtid || self.settings.skip_gtids
            }
            Event::PreviousGtids(_) => self.settings.skip_gtids,
            Event::Xid(_) => take(&mut self.filter.by_gtid),
            Event::Query(query) if TransactionWord::of(query.sql) == TransactionWord::Ends => {
                take(&mut self.filter.by_gtid)
            }
            Event::Stop(_) | Event::FormatDescription(_) | Event::Rotate(_) | Event::Incident(_) => false,
            _ if item.header.event_type == EventType::Ignorable => false,
            _ => self.filter.by_gtid,
        }
    }

    fn put_place(&mut self, item: Item<'_>) {
        if !self.settings.short_form {
            let out = self.batch.text();
            out.extend_from_slice(b"# at ");
            put_u64(out, item.at);
            out.push(b'\n');
        }
    }

    fn put_commit(&mut self) {
        let mut text = b"COMMIT /* added by mysqlbinlog */".to_vec();
        end_statement(&mut text);
        self.batch.put_settled(&text);
    }

    fn hand_on_if_full(&mut self) -> Result<(), Halt> {
        match self.batch.size() >= BATCH_SIZE {
            true => self.hand_on(),
            false => Ok(()),
        }
    }

    fn hand_on(&mut self) -> Result<(), Halt> {
        let unsettled = self.batch.take_unsettled();
        let batch = replace(&mut self.batch, Batch::new(self.spare));
        self.batch.text().extend_from_slice(&unsettled);
        (self.hand_on)(batch)
    }
}

/// Result of the event filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Yes,
    No,
    /// Skip this event and all that follow.
    NorOthers,
}

impl<'b> Item<'b> {
    /// Decodes the header of an event, and finds its checksum under `format`.
    fn new(
        buffer: &'b Arc<Bytes>,
        range: Range<usize>,
        at: u64,
        format: &'b Arc<LogFormat>,
    ) -> Result<Self, ReadError> {
        let start = range.start;
        let bytes = &buffer[range];
        let header = Header::decode(&mut Cursor::new(bytes)).map_err(|_| ReadError::Truncated)?;
        let checksum = match header.event_type {
            EventType::FormatDescription => format.checksum.for_format(),
            event_type if !format.lists(event_type) => return Err(ReadError::INVALID_EVENT),
            _ => format.checksum.for_events(),
        };
        Ok(Self { bytes, checksum, header, buffer, start, format, at, inside: Inside::Unopened })
    }

    fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    fn body(&self) -> &'b [u8] {
        let end = self.bytes.len().saturating_sub(self.checksum.size());
        self.bytes.get(HEADER_SIZE..end).unwrap_or_default()
    }

    fn as_head(&self) -> Head<'b> {
        let (bytes, header, format, at) = (self.bytes(), self.header, self.format, self.at);
        Head { bytes, header, format, at, hexdump: Hexdump::Columns }
    }

    fn as_source(&self) -> Source<'b> {
        let range = self.start..self.start + self.bytes().len();
        Source { buffer: self.buffer, range, checksum: self.checksum, format: self.format }
    }

    fn why_invalid(&self) -> ReadError {
        match is_from_future(self.bytes, self.format) {
            true => ReadError::FROM_FUTURE,
            false => ReadError::INVALID_EVENT,
        }
    }

    fn keep(&self) -> Kept {
        Kept {
            event: EventRef::new(Arc::clone(self.buffer), self.as_source().range),
            format: Arc::clone(self.format),
            at: self.at,
            next_position: self.header.next_position,
        }
    }
}

impl Kept {
    fn item(&self) -> Result<Item<'_>, ReadError> {
        let (buffer, range) = self.event.parts();
        let mut item = Item::new(buffer, range.clone(), self.at, &self.format)?;
        item.header.next_position = self.next_position;
        Ok(item)
    }
}
