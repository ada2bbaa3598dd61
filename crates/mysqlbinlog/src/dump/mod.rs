//! Reads the events of all logs in order, and decides what to print of each.
//!
//! Only this module knows what was printed before. It leaves the heavy work, base64 and rows, to the threads that write
//! the [`TextBatch`]es.
//!
//! | module | what it does |
//! |---|---|
//! | this one | reads, checks and filters events |
//! | [`print`](mod@print) | prints events |
//! | [`row_format_state`] | enforces `--require-row-format` |
//! | [`remote`] | reads the events that a server sends |
//! | [`payload`] | decompresses transactions |
//! | [`pending_statement`] | collects what is printed at a statement's end |
//! | [`transaction_word`] | recognizes statements that begin and end transactions |

mod payload;
mod pending_statement;
mod print;
mod remote;
mod row_format_state;
mod transaction_word;

use std::fs::File;
use std::io::Read;
use std::mem::{replace, take};
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binlog::events::TransactionPayload;
use binlog::{Cursor, Event, EventChecksum, EventFlags, EventHeader, EventType, HEADER_SIZE, PayloadOpener};
use logs::ordered::{PipelineLimits, PipelineShutdown, run_ordered};
use sql::numbers::put_u64;

use self::payload::{PayloadContents, PayloadEvents};
use self::pending_statement::{PendingStatement, TableTextCache};
use self::row_format_state::RowFormatState;
use self::transaction_word::TransactionWord;
use crate::block_reader::{BlockReader, EVENT_TYPE_OFFSET, EventBlock, LargePayloadEvent, LargePayloadMode};
use crate::decode::{
    LogFormat, VERSION_UNKNOWN, checksum_matches, decode, is_from_future, read_format, rows_v1_as_unknown,
    status_is_valid,
};
use crate::delimiter::end_statement;
use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_dialect::DumpDialect;
use crate::dump_inputs::DumpInputs;
use crate::dump_settings::DumpSettings;
use crate::errno::os_error;
use crate::event_buffer::{BufferReserve, EventBuffer};
use crate::event_ref::EventRef;
use crate::frame::{LogEndState, put_end, put_log_end, put_start, put_start_settings};
use crate::head_text::{EventHead, HeadText};
use crate::hexdump::HexdumpForm;
use crate::load_files::LoadFiles;
use crate::printed_session::PrintedSession;
use crate::read_error::ReadError;
use crate::rewrite::rewrite;
use crate::text_batch::{EncodedEvent, TextBatch};

/// Maximum size of blocks and payloads that are read ahead, in bytes.
const READ_AHEAD_MAX: usize = 8 << 20;

/// Size at which a batch is passed on, in bytes.
const BATCH_SIZE: usize = 512 << 10;

/// Decision after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventFlow {
    /// Read the next event.
    Continue,
    /// Stop: everything requested is printed.
    Stop,
}

/// Reason why no event follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltReason {
    /// Reading failed; the error has been printed.
    Failed,
    /// A temporary file could not be written, so a statement is incomplete. The error has been printed.
    TemporaryFile,
    /// The output was closed.
    OutputClosed,
}

type FlowResult = Result<EventFlow, HaltReason>;

/// Passes a batch on. Returns an error if the output was closed.
pub(crate) type BatchSender<'h> = &'h mut dyn FnMut(TextBatch) -> Result<(), HaltReason>;

/// One event with its position, buffer and format.
#[derive(Clone, Copy)]
struct BlockEvent<'b> {
    bytes: &'b [u8],
    checksum: EventChecksum,
    /// The event's header. Inside a payload, the next position is the payload's.
    header: EventHeader,
    buffer: &'b Arc<EventBuffer>,
    /// Start of the event in the buffer.
    start: usize,
    /// Format of the event.
    format: &'b Arc<LogFormat>,
    /// Start of the event in its log.
    at: u64,
    payload: PayloadContents<'b>,
}

/// An event that is kept longer than its block.
struct RetainedEvent {
    event: EventRef,
    format: Arc<LogFormat>,
    at: u64,
    next_position: u32,
}

/// Prints the events of all logs.
pub(crate) struct LogDumper<'s, 'e> {
    settings: &'s DumpSettings,
    diagnostics: &'s mut DumpDiagnostics<'e>,
    text_pool: &'s BufferReserve,
    /// Spare buffers for events.
    event_pool: Arc<BufferReserve>,
    sender: BatchSender<'s>,
    /// The next batch. Its text becomes final as soon as an event is printed.
    batch: TextBatch,
    statement: PendingStatement,
    heads: HeadText<'s>,
    session: PrintedSession,
    tables: TableTextCache,
    load_files: LoadFiles,
    opener: PayloadOpener,
    /// The last raw file.
    raw_file: Option<File>,
    /// Format of the next events, from the last format description that was printed.
    format: Arc<LogFormat>,
    filter: DumpFilter,
    /// Variables for the next statement.
    variables: Vec<RetainedEvent>,
    log_end: LogEndState,
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
struct DumpFilter {
    stop_position: u64,
    start_time: i64,
    offset: u64,
    seen: u64,
    /// The current transaction is skipped because of its GTID.
    skips_by_gtid: bool,
}

/// State of reading one log.
struct CurrentLog<'n> {
    name: &'n [u8],
    /// Format from the last format description read.
    format: Arc<LogFormat>,
    in_use: bool,
    rows_only: RowFormatState,
}

/// Check of an event against the stop position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionCheck {
    Needed,
    /// Not needed: the payload's event was checked before.
    Passed,
}

impl<'s, 'e> LogDumper<'s, 'e> {
    pub(crate) fn new(
        settings: &'s DumpSettings,
        diagnostics: &'s mut DumpDiagnostics<'e>,
        spare: &'s BufferReserve,
        hand_on: BatchSender<'s>,
    ) -> Self {
        Self {
            settings,
            diagnostics,
            text_pool: spare,
            event_pool: Arc::default(),
            sender: hand_on,
            batch: TextBatch::new(spare),
            statement: PendingStatement::default(),
            heads: HeadText::new(settings),
            session: PrintedSession::default(),
            tables: TableTextCache::default(),
            load_files: LoadFiles::new(&settings.local_load),
            opener: PayloadOpener::new(),
            raw_file: None,
            format: Arc::new(LogFormat::initial()),
            filter: DumpFilter {
                stop_position: u64::MAX,
                start_time: settings.common.start_time,
                offset: settings.common.offset,
                seen: 0,
                skips_by_gtid: false,
            },
            variables: Vec::new(),
            log_end: LogEndState::default(),
            skipped_in_transaction: false,
            format_printed: false,
            is_first_format: true,
            has_format: false,
            server_version: VERSION_UNKNOWN,
            status_valid: Vec::new(),
        }
    }

    /// Prints all logs.
    pub(crate) fn run(mut self, names: &[Vec<u8>], inputs: &mut DumpInputs<'_>) -> Result<(), HaltReason> {
        let settings = self.settings;
        let is_raw = settings.remote.as_ref().is_some_and(|remote| remote.raw.is_some());
        match is_raw {
            true => put_start_settings(self.batch.text_mut(), settings),
            false => put_start(self.batch.text_mut(), settings),
        }
        self.batch.mark_final();
        let mut outcome = Ok(EventFlow::Continue);
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            self.filter.stop_position = if is_last { self.settings.common.stop_position } else { u64::MAX };
            let start = if index == 0 { self.settings.common.start_position } else { 4 };
            outcome = match &settings.remote {
                Some(remote) => self.dump_remote_log(name, start, remote, inputs.servers),
                None => self.dump_log(name, start, inputs.stdin),
            };
            if outcome != Ok(EventFlow::Continue) {
                break;
            }
        }
        if outcome == Err(HaltReason::OutputClosed) {
            return Err(HaltReason::OutputClosed);
        }
        if is_raw {
            let ended = self.end_raw();
            (self.sender)(take(&mut self.batch))?;
            return outcome.map(drop).and(ended);
        }
        self.warn_of_open_ends();
        drop(self.batch.take_tentative());
        if self.skipped_in_transaction {
            self.put_commit();
        }
        put_log_end(self.batch.text_mut(), self.log_end, self.settings.skip_gtids);
        put_end(self.batch.text_mut(), self.settings);
        (self.sender)(take(&mut self.batch))?;
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
            self.diagnostics.warning(&[start, END, b" "]);
        } else if self.statement.is_open {
            let start =
                b"The range of printed events ends with a row event or a table map event that does not have \
                the STMT_END_F flag set. ";
            self.diagnostics.warning(&[start, END]);
        }
    }

    fn dump_log(&mut self, name: &[u8], start: u64, input: &mut (dyn Read + Send)) -> FlowResult {
        // A hexdump needs all bytes of the event.
        let large =
            if self.settings.hexdump { LargePayloadMode::InMemory } else { LargePayloadMode::InPieces };
        let opened = match name {
            b"-" => BlockReader::stream(input, large, &self.event_pool),
            name => BlockReader::open(name, self.settings.common.keyring.as_ref(), large, &self.event_pool),
        };
        let mut reader = opened.map_err(|error| self.report_read_error(name, &error))?;
        let mut log = CurrentLog {
            name,
            format: Arc::new(LogFormat::initial()),
            in_use: false,
            rows_only: RowFormatState::default(),
        };
        if let Some(first) = self.find_format(&mut log, start, &mut reader)?
            && let Ok(item) = first.item()
            && let Some(event) = self.decode(&item)
            && self.dump_event(item, &event, name, PositionCheck::Needed)? == EventFlow::Stop
        {
            return Ok(EventFlow::Stop);
        }
        let first = reader.next_block();
        let is_all = first.end.is_some();
        match self.dump_block(&first, &PayloadEvents::default(), &mut log)? {
            EventFlow::Continue if is_all => Ok(EventFlow::Continue),
            EventFlow::Continue if self.settings.jobs() == NonZeroUsize::MIN => {
                self.dump_blocks(&mut reader, &mut log)
            }
            EventFlow::Continue => self.dump_blocks_ahead(reader, &mut log),
            EventFlow::Stop => Ok(EventFlow::Stop),
        }
    }

    /// Prints the rest of a log.
    fn dump_blocks(&mut self, reader: &mut BlockReader<'_>, log: &mut CurrentLog<'_>) -> FlowResult {
        loop {
            let block = reader.next_block();
            let is_last = block.end.is_some();
            match self.dump_block(&block, &PayloadEvents::default(), log)? {
                EventFlow::Continue if is_last => return Ok(EventFlow::Continue),
                EventFlow::Continue => {}
                EventFlow::Stop => return Ok(EventFlow::Stop),
            }
        }
    }

    /// Prints the rest of a log, while other threads read ahead and decompress payloads.
    fn dump_blocks_ahead(&mut self, mut reader: BlockReader<'_>, log: &mut CurrentLog<'_>) -> FlowResult {
        let settings = self.settings;
        let spare = Arc::clone(&self.event_pool);
        let mut outcome = Ok(EventFlow::Continue);
        let ended = run_ordered(
            PipelineLimits { workers: settings.jobs(), bytes: READ_AHEAD_MAX },
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
            |opener, block, sender| {
                let opened = PayloadEvents::new(&block, opener, &settings.rewrites, &spare);
                let size = block.buffer.len() + opened.size();
                sender.push((block, opened), size)
            },
            |(block, opened)| {
                outcome = self.dump_block(&block, &opened, log);
                Ok(match outcome {
                    Ok(EventFlow::Continue) => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                })
            },
        );
        // `PipelineShutdown` needs no handling: `outcome` caused it.
        let (Ok(()) | Err(PipelineShutdown)) = ended;
        outcome
    }

    /// Prints a block, and then the error at its end, if any.
    fn dump_block(
        &mut self,
        block: &EventBlock,
        opened: &PayloadEvents,
        log: &mut CurrentLog<'_>,
    ) -> FlowResult {
        if let Some(large) = &block.large {
            return self.dump_large_block(large, log);
        }
        if self.dump_block_events(block, opened, log)? == EventFlow::Stop {
            return Ok(EventFlow::Stop);
        }
        match &block.end {
            Some(Err(ReadError::Truncated)) if log.in_use && self.settings.force_if_open => {
                self.diagnostics.warning(&[b"File ends with a truncated event."]);
                Ok(EventFlow::Continue)
            }
            Some(Err(error)) => Err(self.report_entry_error(log.name, block.start, error)),
            Some(Ok(())) | None => Ok(EventFlow::Continue),
        }
    }

    /// Prints a payload that is not in memory. The event without its payload stands for it.
    fn dump_large_block(&mut self, large: &LargePayloadEvent, log: &mut CurrentLog<'_>) -> FlowResult {
        let format = Arc::clone(&log.format);
        if self.settings.verify_checksum && format.checksum.for_events() == EventChecksum::Crc32 {
            large.verify().map_err(|error| self.report_entry_error(log.name, large.at, &error))?;
        }
        let item = BlockEvent::new(&large.stub, 0..large.stub.len(), large.at, &format);
        let item = item.map_err(|error| self.report_entry_error(log.name, large.at, &error))?;
        let (compression, uncompressed_size) = (large.fields.compression, large.fields.uncompressed_size);
        let nothing = &[][..];
        let event = Event::TransactionPayload(TransactionPayload {
            compression,
            uncompressed_size,
            fields: nothing,
            payload: nothing,
            rest: nothing,
        });
        let flow =
            self.dump_if_allowed(BlockEvent { payload: PayloadContents::Large(large), ..item }, &event, log)?;
        self.send_if_full().map(|()| flow)
    }

    /// Prints an event, unless `--require-row-format` refuses it.
    fn dump_if_allowed(
        &mut self,
        item: BlockEvent<'_>,
        event: &Event<'_>,
        log: &mut CurrentLog<'_>,
    ) -> FlowResult {
        let is_allowed =
            !self.settings.require_row_format || log.rows_only.admit(item.header.event_type, event);
        match is_allowed {
            true => self.dump_event(item, event, log.name, PositionCheck::Needed),
            false => Err(self.report_row_format_violation()),
        }
    }

    fn dump_block_events(
        &mut self,
        block: &EventBlock,
        opened: &PayloadEvents,
        log: &mut CurrentLog<'_>,
    ) -> FlowResult {
        let mut format = Arc::clone(&log.format);
        for (index, range) in block.events.iter().enumerate() {
            let at = block.position(range.start);
            let rewritten = match self.learn_and_rewrite(&block.buffer[range.clone()], log) {
                Ok(rewritten) => rewritten,
                Err(error) => return Err(self.report_entry_error(log.name, at, &error)),
            };
            if !Arc::ptr_eq(&format, &log.format) {
                format = Arc::clone(&log.format);
            }
            let item = match &rewritten {
                Some(buffer) => BlockEvent::new(buffer, 0..buffer.len(), at, &format),
                None => BlockEvent::new(&block.buffer, range.clone(), at, &format),
            };
            let mut item = item.map_err(|error| self.report_entry_error(log.name, at, &error))?;
            // An `Option`, because moving the event out of a nested `Result` costs as much as decoding it.
            let Some(event) = self.decode(&item) else {
                return Err(self.report_entry_error(log.name, at, &item.invalid_reason()));
            };
            if let Event::TransactionPayload(_) = event {
                item.payload = opened.contents_of(index);
            }
            if self.dump_if_allowed(item, &event, log)? == EventFlow::Stop {
                return Ok(EventFlow::Stop);
            }
            self.send_if_full()?;
        }
        Ok(EventFlow::Continue)
    }

    /// Decodes an event, and checks its status variables if it is a statement.
    fn decode<'b>(&mut self, item: &BlockEvent<'b>) -> Option<Event<'b>> {
        let event = decode(item.bytes, &item.header, item.checksum, item.format)?;
        let status = match &event {
            Event::Query(query) => query.status,
            Event::ExecuteLoadQuery(load) => load.query.status,
            Event::WriteRowsV1(_) | Event::UpdateRowsV1(_) | Event::DeleteRowsV1(_)
                if self.settings.dialect == DumpDialect::Mysqlbinlog =>
            {
                return rows_v1_as_unknown(&item.header);
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

    fn report_row_format_violation(&mut self) -> HaltReason {
        self.diagnostics
            .error(&[b"Event being written violates the --require-row-format parameter constraints."]);
        HaltReason::Failed
    }

    /// Reads the events before the start position to find the format description.
    fn find_format(
        &mut self,
        log: &mut CurrentLog<'_>,
        start: u64,
        reader: &mut BlockReader<'_>,
    ) -> Result<Option<RetainedEvent>, HaltReason> {
        let mut found: Option<RetainedEvent> = None;
        let mut last_at = reader.position();
        while reader.position() < start {
            last_at = reader.position();
            let read = self.read(reader, log).and_then(|kept| match kept {
                Some(kept) => {
                    let item = kept.item()?;
                    let kind = match self.decode(&item) {
                        Some(_) => item.header.event_type,
                        None => return Err(item.invalid_reason()),
                    };
                    Ok(Some((kept, kind)))
                }
                None => Ok(None),
            });
            let Some((kept, kind)) = read.map_err(|error| self.report_read_error(log.name, &error))? else {
                break;
            };
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

    fn report_entry_error(&mut self, name: &[u8], at: u64, error: &ReadError) -> HaltReason {
        // mysqlbinlog prints the position as signed.
        let at = at.cast_signed().to_string();
        let start = b"Could not read entry at offset ";
        self.diagnostics.error(&[start, at.as_bytes(), b": Error in log format or read error 1."]);
        self.report_read_error(name, error)
    }

    /// Prints the error of reading a log.
    fn report_read_error(&mut self, name: &[u8], error: &ReadError) -> HaltReason {
        match error {
            ReadError::Open(cause) => {
                self.diagnostics.file_message(&[b"File '", name, b"' not found (", &os_error(cause), b")"])
            }
            ReadError::Io(cause, _) => {
                self.diagnostics.file_message(&[
                    b"Error reading file '",
                    name,
                    b"' (",
                    &os_error(cause),
                    b")",
                ]);
            }
            ReadError::Other(_) | ReadError::Truncated => {}
        }
        self.diagnostics.error(&[error.text().as_bytes()]);
        HaltReason::Failed
    }

    /// Reads one event.
    fn read(
        &mut self,
        reader: &mut BlockReader<'_>,
        log: &mut CurrentLog<'_>,
    ) -> Result<Option<RetainedEvent>, ReadError> {
        let at = reader.position();
        let Some(mut event) = reader.next_event()? else { return Ok(None) };
        if let Some(rewritten) = self.learn_and_rewrite(&event, log)? {
            event = EventRef::whole(rewritten);
        }
        let header = EventHeader::decode(&mut Cursor::new(&event)).map_err(|_| ReadError::Truncated)?;
        Ok(Some(RetainedEvent {
            event,
            format: Arc::clone(&log.format),
            at,
            next_position: header.next_position,
        }))
    }

    /// Updates the log's format from an event, and verifies its checksum if requested. Returns the event with its
    /// database renamed, if a rule applies.
    fn learn_and_rewrite(
        &mut self,
        event: &[u8],
        log: &mut CurrentLog<'_>,
    ) -> Result<Option<Arc<EventBuffer>>, ReadError> {
        if self.settings.verify_checksum && !checksum_matches(event, &log.format) {
            return Err(ReadError::CHECKSUM);
        }
        let rewritten = match rewrite(event, &self.format, &self.settings.rewrites) {
            Ok(rewritten) => rewritten.map(EventBuffer::new).map(Arc::new),
            Err(_) => {
                self.diagnostics.error(&[b"Error applying filter while reading event"]);
                return Err(ReadError::MEMORY);
            }
        };
        if event.get(EVENT_TYPE_OFFSET) == Some(&EventType::FormatDescription.code()) {
            let header = EventHeader::decode(&mut Cursor::new(event)).map_err(|_| ReadError::Truncated)?;
            let (_, format) = read_format(event)?;
            if !log.format.has_type(header.event_type) {
                return Err(ReadError::INVALID_EVENT);
            }
            log.format = Arc::new(format);
            log.in_use = header.flags.contains(EventFlags::IN_USE);
        }
        Ok(rewritten)
    }

    fn dump_event(
        &mut self,
        item: BlockEvent<'_>,
        event: &Event<'_>,
        name: &[u8],
        check: PositionCheck,
    ) -> FlowResult {
        let outcome = match self.apply_filter(item, check) {
            FilterVerdict::Print => {
                self.put_position(item);
                match self.skips_by_gtid(item, event) {
                    true => Ok(EventFlow::Continue),
                    false => self.print(item, event, name).map(|()| EventFlow::Continue),
                }
            }
            FilterVerdict::Skip => Ok(EventFlow::Continue),
            FilterVerdict::Stop => Ok(EventFlow::Stop),
        };
        self.filter.seen += 1;
        outcome
    }

    fn apply_filter(&mut self, item: BlockEvent<'_>, check: PositionCheck) -> FilterVerdict {
        let (filter, settings) = (&mut self.filter, self.settings);
        let time = i64::from(item.header.timestamp);
        let event_type = item.header.event_type;
        if event_type != EventType::FormatDescription {
            if filter.seen < filter.offset || time < filter.start_time {
                return FilterVerdict::Skip;
            }
            // The first event in range ends the check: later events are printed whatever their time.
            (filter.start_time, filter.offset) = (0, 0);
            let server_id = u64::from(item.header.server_id & settings.common.server_id_mask);
            if event_type != EventType::Rotate
                && settings.common.server_id != 0
                && settings.common.server_id != server_id
            {
                return FilterVerdict::Skip;
            }
        }
        let is_past_stop = check == PositionCheck::Needed && item.at >= filter.stop_position;
        if is_past_stop || time >= settings.common.stop_time {
            FilterVerdict::Stop
        } else {
            FilterVerdict::Print
        }
    }

    /// Returns whether an event is skipped because of its transaction's GTID.
    fn skips_by_gtid(&mut self, item: BlockEvent<'_>, event: &Event<'_>) -> bool {
        match event {
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => {
                let gtid = match event {
                    Event::Gtid(event) => event.gtid(),
                    Event::GtidTagged(event) => event.gtid(),
                    _ => None,
                };
                self.filter.skips_by_gtid = self.settings.skips_transaction(gtid);
                self.filter.skips_by_gtid || self.settings.skip_gtids
            }
            Event::PreviousGtids(_) => self.settings.skip_gtids,
            Event::Xid(_) => take(&mut self.filter.skips_by_gtid),
            Event::Query(query) if TransactionWord::of(query.sql) == TransactionWord::Ends => {
                take(&mut self.filter.skips_by_gtid)
            }
            Event::Stop(_) | Event::FormatDescription(_) | Event::Rotate(_) | Event::Incident(_) => false,
            _ if item.header.event_type == EventType::Ignorable => false,
            _ => self.filter.skips_by_gtid,
        }
    }

    fn put_position(&mut self, item: BlockEvent<'_>) {
        if !self.settings.short_form {
            let out = self.batch.text_mut();
            out.extend_from_slice(b"# at ");
            put_u64(out, item.at);
            out.push(b'\n');
        }
    }

    fn put_commit(&mut self) {
        let mut text = b"COMMIT /* added by mysqlbinlog */".to_vec();
        end_statement(&mut text);
        self.batch.insert_final(&text);
    }

    fn send_if_full(&mut self) -> Result<(), HaltReason> {
        match self.batch.size() >= BATCH_SIZE {
            true => self.send_batch(),
            false => Ok(()),
        }
    }

    fn send_batch(&mut self) -> Result<(), HaltReason> {
        let unsettled = self.batch.take_tentative();
        let batch = replace(&mut self.batch, TextBatch::new(self.text_pool));
        self.batch.text_mut().extend_from_slice(&unsettled);
        (self.sender)(batch)
    }
}

/// Result of the event filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterVerdict {
    Print,
    Skip,
    /// Skip this event and all that follow.
    Stop,
}

impl<'b> BlockEvent<'b> {
    /// Decodes the header of an event, and finds its checksum under `format`.
    fn new(
        buffer: &'b Arc<EventBuffer>,
        range: Range<usize>,
        at: u64,
        format: &'b Arc<LogFormat>,
    ) -> Result<Self, ReadError> {
        let start = range.start;
        let bytes = &buffer[range];
        let header = EventHeader::decode(&mut Cursor::new(bytes)).map_err(|_| ReadError::Truncated)?;
        let checksum = match header.event_type {
            EventType::FormatDescription => format.checksum.for_format(),
            event_type if !format.has_type(event_type) => return Err(ReadError::INVALID_EVENT),
            _ => format.checksum.for_events(),
        };
        Ok(Self { bytes, checksum, header, buffer, start, format, at, payload: PayloadContents::Unopened })
    }

    fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    fn body(&self) -> &'b [u8] {
        let end = self.bytes.len().saturating_sub(self.checksum.size());
        self.bytes.get(HEADER_SIZE..end).unwrap_or_default()
    }

    fn head(&self) -> EventHead<'b> {
        let (bytes, header, format, at) = (self.bytes(), self.header, self.format, self.at);
        EventHead { bytes, header, format, at, hexdump: HexdumpForm::Columns }
    }

    fn encoded(&self) -> EncodedEvent<'b> {
        let range = self.start..self.start + self.bytes().len();
        EncodedEvent { buffer: self.buffer, range, checksum: self.checksum, format: self.format }
    }

    fn invalid_reason(&self) -> ReadError {
        match is_from_future(self.bytes, self.format) {
            true => ReadError::FROM_NEWER_SERVER,
            false => ReadError::INVALID_EVENT,
        }
    }

    fn retain(&self) -> RetainedEvent {
        RetainedEvent {
            event: EventRef::new(Arc::clone(self.buffer), self.encoded().range),
            format: Arc::clone(self.format),
            at: self.at,
            next_position: self.header.next_position,
        }
    }
}

impl RetainedEvent {
    fn item(&self) -> Result<BlockEvent<'_>, ReadError> {
        let (buffer, range) = self.event.parts();
        let mut item = BlockEvent::new(buffer, range.clone(), self.at, &self.format)?;
        item.header.next_position = self.next_position;
        Ok(item)
    }
}
