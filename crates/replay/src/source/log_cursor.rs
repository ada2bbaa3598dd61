//! The log that is read, and the transaction that is open in it.

use std::fmt::{self, Display};
use std::sync::Arc;

use binlog::events::TransactionPayload;
use binlog::gtid::GtidSet;
use binlog::{
    AssembleError, Event, EventChecksum, EventFormat, EventType, GrammarLoss, NextPosition, PayloadOpener,
    RawEvent, Transaction, TransactionAssembler, TransactionId, TransactionOutline,
};
use logs::{EndOfLog, EventChunk, LargePayload, LogKind, LogPiece, LogReader, ReadOutcome};

use super::{STDIN, decode_previous_gtids};
use crate::apply_plan::{ApplyPlan, ApplyPlanBuilder, ApplyPlanError};
use crate::error::ReplayError;
use crate::source_transaction::{TransactionOrigin, committed_us};

/// The current log.
#[derive(Debug)]
pub(super) struct LogCursor {
    pub(super) reader: LogReader,
    assembler: Option<TransactionAssembler>,
    chunk: Option<EventChunk>,
    index: usize,
    /// The open transaction, if it is too large for memory.
    large: Option<OversizedTransactionBuilder>,
    /// The open transaction, if it began in an earlier log.
    carried: Option<TransactionId>,
    /// The transaction that was cut off at the end of an earlier log and must now come again from its start, before any
    /// other.
    missed: Option<TransactionId>,
    /// `true` if the transaction read last began in an earlier log.
    began_before: bool,
    log: Arc<str>,
    is_stdin: bool,
    /// `None` until the first transaction has been read: standard input has no name, and gets one from that
    /// transaction.
    log_name: Option<Arc<str>>,
    /// Size to which the log was truncated: the start of the transaction that was open.
    cut: Option<u64>,
    /// Creation time of the log, in seconds since 1970.
    begun: u32,
    pub(super) previous: Option<GtidSet>,
    pub(super) writer: Option<u32>,
}

/// A transaction that a replica received in parts: it continues in the next relay log, or comes there again as a whole.
#[derive(Debug)]
pub(super) struct PartialTransaction {
    id: TransactionId,
    goes_on: bool,
    assembler: TransactionAssembler,
    large: Option<OversizedTransactionBuilder>,
}

/// Bytes per read.
const CHUNK_SIZE: usize = 1 << 20;

/// Result of reading on in a log.
pub(super) enum LogItem {
    Whole(Box<GatheredTransaction>),
    End(EndOfLog),
}

impl From<GatheredTransaction> for LogItem {
    fn from(whole: GatheredTransaction) -> Self {
        Self::Whole(Box::new(whole))
    }
}

/// A whole transaction.
pub(super) enum GatheredTransaction {
    Held(Transaction),
    Large(Box<TransactionOutline>, Result<ApplyPlan, ApplyPlanError>),
}

/// Apply plan of a transaction too large for memory, while it is read.
struct OversizedTransactionBuilder {
    /// The builder, or the reason why the transaction cannot be applied.
    builder: Result<ApplyPlanBuilder, ApplyPlanError>,
}

impl OversizedTransactionBuilder {
    fn new(format: &Arc<EventFormat>, held_max: usize) -> Self {
        Self { builder: Ok(ApplyPlanBuilder::new(format, held_max)) }
    }

    fn take(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        if let Ok(builder) = &mut self.builder
            && let Err(error) = builder.take(raw, format)
        {
            self.builder = Err(error);
        }
    }

    fn take_all(&mut self, bytes: &[u8], checksum: EventChecksum, format: &EventFormat) {
        let mut rest = bytes;
        while let Some((raw, behind)) = RawEvent::split_first(rest, checksum) {
            self.take(&raw, format);
            rest = behind;
        }
    }

    fn finish(self, outline: TransactionOutline) -> GatheredTransaction {
        let work = self.builder.and_then(|builder| builder.finish(outline.kind));
        GatheredTransaction::Large(Box::new(outline), work)
    }
}

impl fmt::Debug for OversizedTransactionBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OversizedTransactionBuilder").finish_non_exhaustive()
    }
}

impl LogCursor {
    /// Starts to read a log. Standard input has no `log_name`. `before` is the transaction within which the log before it
    /// ends.
    pub(super) fn new(
        reader: LogReader,
        log_name: Option<Arc<str>>,
        before: Option<PartialTransaction>,
    ) -> Self {
        let (mut carried, mut missed, mut assembler, mut large) = (None, None, None, None);
        if let Some(before) = before {
            let id = Some(before.id);
            (carried, missed) = if before.goes_on { (id, None) } else { (None, id) };
            (assembler, large) = (Some(before.assembler), before.large);
        }
        Self {
            log: reader.name().into(),
            reader,
            assembler,
            chunk: None,
            index: 0,
            large,
            carried,
            missed,
            began_before: false,
            is_stdin: log_name.is_none(),
            log_name,
            cut: None,
            begun: 0,
            previous: None,
            writer: None,
        }
    }

    pub(super) fn origin(&mut self, whole: &GatheredTransaction, log_number: usize) -> TransactionOrigin {
        let outline = match whole {
            GatheredTransaction::Held(transaction) => transaction.outline(),
            GatheredTransaction::Large(outline, _) => outline,
        };
        let log_name = self.log_name.get_or_insert_with(|| {
            let (writer, committed) = (self.writer.unwrap_or(0), committed_us(outline));
            format!("{STDIN} ({writer} {} {committed} {})", self.begun, outline.end).into()
        });
        let (log, log_name) = (Arc::clone(&self.log), Arc::clone(log_name));
        // The part in this log starts at the log's start.
        let start = if self.began_before { 0 } else { outline.position };
        TransactionOrigin { log, log_name, log_number, start, end: outline.end }
    }

    /// Returns whether the log, which became shorter, was truncated at the start of the open transaction. Drops that
    /// transaction then.
    pub(super) fn forget_cut_transaction(&mut self, size: u64) -> bool {
        let open = self.assembler.as_ref().and_then(|assembler| assembler.open());
        if open.is_some_and(|open| open.position == size) {
            (self.assembler, self.large, self.cut) = (None, None, Some(size));
        }
        self.cut == Some(size)
    }

    /// Returns the log's next transaction, or the end of its present content.
    pub(super) fn next_found(
        &mut self,
        held_max: usize,
        opener: &mut PayloadOpener,
    ) -> Result<LogItem, ReplayError> {
        loop {
            let Some(chunk) = &self.chunk else {
                match self.reader.next_piece(CHUNK_SIZE, held_max)? {
                    ReadOutcome::Some(LogPiece::Chunk(chunk)) => (self.chunk, self.index) = (Some(chunk), 0),
                    ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                        let log = &self.log;
                        self.began_before = self.carried.take().is_some();
                        let whole = read_large_payload(payload, &mut self.assembler, log, held_max, opener);
                        return whole.map(LogItem::from);
                    }
                    ReadOutcome::End(end) => return Ok(LogItem::End(end)),
                }
                continue;
            };
            let Some(event) = chunk.get(self.index) else {
                self.chunk = None;
                continue;
            };
            self.index += 1;
            if event.raw.event_type() == EventType::FormatDescription {
                let header = event.raw.header();
                self.writer.get_or_insert(header.server_id);
                if self.is_stdin {
                    // A new log starts, if several are concatenated.
                    (self.log_name, self.begun) = (None, header.timestamp);
                }
            }
            let corrupt = |error: &dyn Display| corrupt(&self.log, event.offset, error);
            if event.raw.event_type() == EventType::PreviousGtids {
                let previous = decode_previous_gtids(&event.raw, chunk.format());
                self.previous = Some(previous.map_err(|error| corrupt(&error))?);
            }
            let format = chunk.format();
            event.raw.verify().map_err(|error| corrupt(&error))?;
            let assembler = self
                .assembler
                .get_or_insert_with(|| TransactionAssembler::new((**format).clone(), usize::MAX));
            begin_large_if_needed(&mut self.large, assembler, &event.raw, format, held_max);
            let open = if self.large.is_some() { assembler.open().cloned() } else { None };
            let whole = match assembler.push(event.offset, &event.raw, format) {
                // A source that is asked by GTIDs sends the whole transaction again.
                Err(AssembleError::Fault { fault, whole })
                    if fault.lost == GrammarLoss::Transaction && self.carried.is_some() =>
                {
                    (self.missed, self.large) = (self.carried.take(), None);
                    whole.map(|whole| *whole)
                }
                pushed => pushed.map_err(|error| corrupt(&error))?,
            };
            let now = whole.as_ref().map(Transaction::outline).or(assembler.open()).map(|outline| outline.id);
            if self.missed.is_some() && now.is_some() && self.missed.take() != now {
                return Err(ReplayError::TornTransaction { log: self.log.to_string(), start: event.offset });
            }
            if let Some(transaction) = whole {
                self.began_before = self.carried.take().is_some();
                return Ok(GatheredTransaction::Held(transaction).into());
            }
            let Some(large) = &mut self.large else { continue };
            large.take(&event.raw, format);
            if assembler.open().is_none()
                && let (Some(large), Some(mut outline)) = (self.large.take(), open)
            {
                outline.end = event.end();
                self.began_before = self.carried.take().is_some();
                return Ok(large.finish(outline).into());
            }
        }
    }

    /// Ends this log. A transaction that is still open may continue in the next relay log: a replica whose connection
    /// broke receives the rest later.
    pub(super) fn finish(self, goes_on: bool) -> Result<Option<PartialTransaction>, ReplayError> {
        let Some(assembler) = self.assembler else { return Ok(None) };
        let open = assembler.open().map(|open| (open.id, open.position));
        let Some((id, start)) = open.or(self.missed.map(|id| (id, 0))) else { return Ok(None) };
        match goes_on && self.reader.kind() == LogKind::Relay {
            true => Ok(Some(PartialTransaction {
                id,
                goes_on: self.missed.is_none(),
                assembler,
                large: self.large,
            })),
            false => Err(ReplayError::TornTransaction { log: self.log.to_string(), start }),
        }
    }
}

/// Starts to handle the open transaction as too large for memory, if this event makes it so.
fn begin_large_if_needed(
    large: &mut Option<OversizedTransactionBuilder>,
    assembler: &mut TransactionAssembler,
    raw: &RawEvent<'_>,
    format: &Arc<EventFormat>,
    held_max: usize,
) {
    let is_larger = assembler.collected_size() + raw.bytes().len() > held_max;
    if is_larger && large.is_none() && assembler.open().is_some() {
        let large = large.insert(OversizedTransactionBuilder::new(format, held_max));
        large.take_all(&assembler.take_collected(), raw.checksum(), format);
    }
}

/// Reads a transaction whose payload is too large for memory.
fn read_large_payload(
    payload: LargePayload<'_>,
    assembler: &mut Option<TransactionAssembler>,
    log: &str,
    held_max: usize,
    opener: &mut PayloadOpener,
) -> Result<GatheredTransaction, ReplayError> {
    let (offset, end, format) = (payload.offset(), payload.end(), Arc::clone(payload.format()));
    let corrupt = |error: &dyn Display| corrupt(log, offset, error);
    let assembler = assembler.get_or_insert_with(|| TransactionAssembler::new((*format).clone(), usize::MAX));
    // An empty payload in its place keeps the grammar in step.
    let (mut fields, mut bytes) = (Vec::new(), Vec::new());
    let nothing = Event::TransactionPayload(TransactionPayload::zstd(0, &[], &mut fields));
    let written = nothing.write(payload.header().origin(), NextPosition::Fixed(0), &format, &mut bytes);
    written.map_err(|error| corrupt(&error))?;
    let raw = RawEvent::new(&bytes, format.checksum.for_events()).map_err(|error| corrupt(&error))?;
    let pushed = assembler.push(offset, &raw, &format).map_err(|error| corrupt(&error))?;
    let transaction = pushed.ok_or_else(|| corrupt(&"the payload does not end a transaction"))?;
    let mut outline = transaction.outline().clone();
    outline.end = end;
    let mut large = OversizedTransactionBuilder::new(&format, held_max);
    for raw in transaction.events().filter(|raw| raw.event_type() != EventType::TransactionPayload) {
        large.take(&raw, &format);
    }
    let inner_format = format.inside_payload();
    let (mut events, mut chunk) = (payload.open(opener)?, Vec::new());
    while events.next_chunk(CHUNK_SIZE, &mut chunk)? > 0 {
        large.take_all(&chunk, EventChecksum::Absent, &inner_format);
        chunk.clear();
    }
    events.finish()?.checksum.map_err(|error| corrupt(&error))?;
    Ok(large.finish(outline))
}

fn corrupt(log: &str, position: u64, reason: &dyn Display) -> ReplayError {
    ReplayError::Corrupt { log: log.to_owned(), position, reason: reason.to_string() }
}
