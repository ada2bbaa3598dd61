//! Source of transactions: logs, read one after the other.

mod first_needed;

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::TransactionPayload;
use binlog::gtid::GtidSet;
use binlog::{
    AssembleError, DecodeError, EVENT_SIZE_MAX, Event, EventChecksum, EventFormat, EventType, GrammarLoss,
    NextPosition, PayloadLimits, PayloadOpener, RawEvent, Transaction, TransactionAssembler, TransactionId,
    TransactionOutline,
};
use logs::{
    EndOfLog, EventChunk, LargePayload, LogEndAction, LogKind, LogPiece, LogReader, ReadOutcome,
    RewritePositions, Store, StoreCursor, read_keyring,
};

use crate::apply_plan::{ApplyPlan, ApplyPlanBuilder, ApplyPlanError};
use crate::error::ReplayError;
use crate::progress::AppliedState;
use crate::source::first_needed::{first_needed, read_beginning};
use crate::source_transaction::{SourceTransaction, TransactionHead, TransactionOrigin, committed_us};

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayLog {
    /// A log file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

/// Prefix of the names of logs from standard input.
pub(crate) const STDIN: &str = "standard input";

impl ReplayLog {
    /// Returns the log's name on its own server: the last part of its path.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            Self::Stdin => STDIN.to_owned(),
        }
    }
}

/// The transactions of a list of logs, in order.
#[derive(Debug)]
pub struct TransactionSource {
    logs: std::vec::IntoIter<ReplayLog>,
    names: Vec<String>,
    keys: KeyringSource,
    /// Finder of the next log, for logs that are still being written.
    cursor: Option<StoreCursor>,
    held_max: usize,
    current: Option<LogCursor>,
    /// The transaction within which the last relay log ends.
    carried: Option<PartialTransaction>,
    log_number: usize,
    number: u64,
    bytes_read: u64,
    /// `Previous_gtids` of the current log: the GTIDs in earlier logs.
    previous: GtidSet,
    writer: Option<u32>,
}

/// Keys for encrypted logs.
#[derive(Debug)]
enum KeyringSource {
    Held(Option<Arc<Keyring>>),
    /// Keyring file, read again for each log because keys are rotated.
    File(PathBuf),
}

/// A transaction of a source.
#[derive(Debug)]
pub enum SizedTransaction {
    /// A transaction in memory.
    Held(SourceTransaction),
    /// A transaction too large for memory.
    Large(OversizedTransaction),
}

/// A transaction too large for memory: its apply plan is built while it is read, and its rows are in a temporary file.
#[derive(Debug)]
pub struct OversizedTransaction {
    /// The transaction without its events.
    pub head: TransactionHead,
    /// Its apply plan, or the reason why it cannot be applied.
    pub work: Result<ApplyPlan, ApplyPlanError>,
}

/// The current log.
#[derive(Debug)]
struct LogCursor {
    reader: LogReader,
    /// Positions in the source's log, if this file was rewritten.
    positions: Option<RewritePositions>,
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
    previous: Option<GtidSet>,
    writer: Option<u32>,
}

/// A transaction that a replica received in parts: it continues in the next relay log, or comes there again as a whole.
#[derive(Debug)]
struct PartialTransaction {
    id: TransactionId,
    goes_on: bool,
    assembler: TransactionAssembler,
    large: Option<OversizedTransactionBuilder>,
}

/// Bytes per read.
const CHUNK_SIZE: usize = 1 << 20;

/// Returns the maximum size in bytes of an event that comes out of a compressed one. It is about a third of the memory
/// of a replay, since an event is in memory up to three times on its way to the target. The limit is needed because a
/// few kilobytes can decompress to any size.
pub(crate) fn event_size_max(held_max: usize) -> u32 {
    /// Lower bound: events up to this size are always accepted.
    const EVENT_SIZE_MIN: u32 = 16 << 20;
    let third = u32::try_from(held_max.saturating_mul(64) / 3).unwrap_or(u32::MAX);
    third.clamp(EVENT_SIZE_MIN, EVENT_SIZE_MAX)
}

impl TransactionSource {
    /// Creates a source that reads these logs one after the other. Rows of a transaction beyond `held_max` bytes go to
    /// a temporary file.
    pub fn new(logs: Vec<ReplayLog>, keyring: Option<Arc<Keyring>>, held_max: usize) -> Self {
        let names = logs.iter().map(ReplayLog::name).collect();
        Self::of(logs, names, KeyringSource::Held(keyring), held_max)
    }

    /// Creates a source that follows a store that is still being written, from its first log on. Encrypted logs need
    /// the server's keyring file.
    ///
    /// # Errors
    ///
    /// When the store has no logs.
    pub fn follow(store: Store, keyring: Option<PathBuf>, held_max: usize) -> Result<Self, ReplayError> {
        let logs = store.logs().iter().cloned().map(ReplayLog::File);
        let names = logs.clone().map(|log| log.name()).collect();
        let none = || ReplayError::Refused(format!("{} has no logs", store.path().display()));
        let first = store.logs().first().ok_or_else(none)?.clone();
        let logs = logs.take(1).collect();
        let mut source =
            Self::of(logs, names, keyring.map_or(KeyringSource::Held(None), KeyringSource::File), held_max);
        source.cursor = Some(StoreCursor::new(store, first));
        Ok(source)
    }

    fn of(logs: Vec<ReplayLog>, names: Vec<String>, keys: KeyringSource, held_max: usize) -> Self {
        Self {
            names,
            logs: logs.into_iter(),
            keys,
            cursor: None,
            held_max,
            current: None,
            carried: None,
            log_number: 0,
            number: 0,
            bytes_read: 0,
            previous: GtidSet::new(),
            writer: None,
        }
    }

    /// Returns the names of the logs on their own server, in order.
    pub fn log_names(&self) -> &[String] {
        &self.names
    }

    /// Returns the GTIDs before the log of the last transaction, as that log's `Previous_gtids` event states them.
    pub const fn previous(&self) -> &GtidSet {
        &self.previous
    }

    /// Returns the `server_id` of the server that wrote the first log, from its format description. Known once the
    /// first transaction has been read.
    pub const fn writer(&self) -> Option<u32> {
        self.writer
    }

    /// Returns the number of bytes of the logs read so far.
    pub const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Returns whether its logs are still being written. Then more may come after what looks like the last
    /// transaction.
    pub const fn is_followed(&self) -> bool {
        self.cursor.is_some()
    }

    /// Returns the maximum number of bytes of a transaction held in memory.
    pub const fn held_max(&self) -> usize {
        self.held_max
    }

    /// Returns an opener of payloads within the source's memory limit.
    pub fn opener(&self) -> PayloadOpener {
        let event_size_max = event_size_max(self.held_max);
        PayloadOpener::with_limits(PayloadLimits { event_size_max, ..PayloadLimits::default() })
    }

    /// Returns the next transaction; `None` after the last.
    ///
    /// # Errors
    ///
    /// When a log cannot be read, is corrupt, ends within a transaction, or has a transaction too large for memory.
    pub fn next_unit(&mut self) -> Result<Option<SourceTransaction>, ReplayError> {
        match self.next_found(&mut self.opener())? {
            None => Ok(None),
            Some(SizedTransaction::Held(unit)) => Ok(Some(unit)),
            Some(SizedTransaction::Large(large)) => Err(ReplayError::Refused(format!(
                "{} does not fit in memory: it has more than {} bytes",
                large.head, self.held_max
            ))),
        }
    }

    /// Returns the next transaction, of any size; `None` after the last. For logs that are still being written, `None`
    /// means that there is no further one yet.
    ///
    /// # Errors
    ///
    /// When a log cannot be read, is corrupt, or ends within a transaction. For logs that are still being written, also
    /// when one was purged before it was read.
    pub fn next_found(
        &mut self,
        opener: &mut PayloadOpener,
    ) -> Result<Option<SizedTransaction>, ReplayError> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(current) = &mut self.current else { continue };
            let before = current.reader.position();
            let reached = match current.next_found(self.held_max, opener) {
                // The part received so far comes again, from the server that replaced the source.
                Err(ReplayError::Read(logs::LogError::Truncated { size, .. }))
                    if self.cursor.is_some() && current.forget_cut_transaction(size) =>
                {
                    LogItem::End(EndOfLog::Open { in_use: false })
                }
                reached => reached?,
            };
            self.writer = self.writer.or(current.writer);
            if let Some(previous) = current.previous.take() {
                self.previous = previous;
            }
            self.bytes_read += current.reader.position().saturating_sub(before);
            let whole = match reached {
                LogItem::Whole(whole) => *whole,
                LogItem::End(end) => match self.advance_log(end)? {
                    ReadNext::Now => continue,
                    ReadNext::Later => return Ok(None),
                },
            };
            let Some(current) = &mut self.current else { continue };
            let (number, log_number) = (self.number, self.log_number - 1);
            self.number += 1;
            let origin = current.origin(&whole, log_number)?;
            return Ok(Some(match whole {
                GatheredTransaction::Held(transaction) => {
                    SizedTransaction::Held(SourceTransaction { number, origin, transaction })
                }
                GatheredTransaction::Large(outline, work) => SizedTransaction::Large(OversizedTransaction {
                    head: TransactionHead::of(number, origin, &outline),
                    work,
                }),
            }));
        }
    }

    /// Moves on at the end of a log, or of its present content.
    fn advance_log(&mut self, end: EndOfLog) -> Result<ReadNext, ReplayError> {
        let Some(current) = &self.current else { return Ok(ReadNext::Now) };
        match (&mut self.cursor, end) {
            (None, EndOfLog::Torn(torn)) => return Err(current.reader.torn_error(torn).into()),
            (None, _) => {}
            (Some(cursor), end) => match cursor.reach_end(end, &current.reader)? {
                LogEndAction::Wait => return Ok(ReadNext::Later),
                LogEndAction::ReadAgain => return Ok(ReadNext::Now),
                LogEndAction::NextLog(next) => {
                    let next = ReplayLog::File(next);
                    if !self.names.contains(&next.name()) {
                        self.names.push(next.name());
                    }
                    self.logs = vec![next].into_iter();
                }
            },
        }
        let goes_on = self.cursor.is_some() || !self.logs.as_slice().is_empty();
        if let Some(current) = self.current.take() {
            self.carried = current.finish(goes_on)?;
        }
        Ok(ReadNext::Now)
    }

    /// Skips the logs that the target has applied completely, according to the `Previous_gtids` events of later logs.
    /// Only for a followed store, before anything is read.
    ///
    /// # Errors
    ///
    /// When the keyring cannot be read.
    pub(crate) fn skip_applied_logs(&mut self, applied: &AppliedState) -> Result<(), ReplayError> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let logs = cursor.logs().to_vec();
        let place = applied.progress.place.as_ref();
        let place = place.and_then(|place| self.names.iter().position(|name| *name == place.log));
        let is_applied = |gtids: &GtidSet| {
            gtids.difference(&applied.executed).difference(&applied.progress.gtids).is_empty()
        };
        let keyring = self.keys.keyring()?;
        let look = |number: usize| read_beginning(logs.get(number)?, keyring.clone());
        let number = first_needed(logs.len(), place, is_applied, look);
        if let Some(log) = logs.get(number) {
            cursor.start_at(log.clone());
            self.logs = vec![ReplayLog::File(log.clone())].into_iter();
            self.log_number = number;
        }
        Ok(())
    }

    fn open_next(&mut self) -> Result<bool, ReplayError> {
        let Some(log) = self.logs.next() else { return Ok(false) };
        let mut reader = match &log {
            ReplayLog::File(path) if self.cursor.is_some() => LogReader::open_stored(path)?,
            ReplayLog::File(path) => LogReader::open(path)?,
            ReplayLog::Stdin => LogReader::from_stdin(),
        };
        // A list of positions is written before its log, and states the size of the log's file.
        let positions = match (&log, reader.size()?) {
            (ReplayLog::File(path), Some(size)) => RewritePositions::open(path, size)?,
            _ => None,
        };
        if let Some(keyring) = self.keys.keyring()? {
            reader = reader.with_keyring(keyring);
        }
        let (mut carried, mut missed, mut assembler, mut large) = (None, None, None, None);
        if let Some(before) = self.carried.take() {
            let id = Some(before.id);
            (carried, missed) = if before.goes_on { (id, None) } else { (None, id) };
            (assembler, large) = (Some(before.assembler), before.large);
        }
        let name: Arc<str> = reader.name().into();
        let log_name = (log != ReplayLog::Stdin).then(|| log.name().into());
        self.log_number += 1;
        self.current = Some(LogCursor {
            reader,
            positions,
            assembler,
            chunk: None,
            index: 0,
            large,
            carried,
            missed,
            began_before: false,
            log: name,
            is_stdin: log_name.is_none(),
            log_name,
            cut: None,
            begun: 0,
            previous: None,
            writer: None,
        });
        Ok(true)
    }
}

impl KeyringSource {
    fn keyring(&self) -> Result<Option<Arc<Keyring>>, ReplayError> {
        Ok(match self {
            Self::Held(keyring) => keyring.clone(),
            Self::File(path) => Some(Arc::new(read_keyring(path)?)),
        })
    }
}

impl SizedTransaction {
    /// Returns the transaction without its events.
    pub fn head(&self) -> TransactionHead {
        match self {
            Self::Held(unit) => unit.head(),
            Self::Large(large) => large.head.clone(),
        }
    }

    /// Returns the apply plan of the transaction. Row events beyond `held_max` bytes go to a temporary file.
    ///
    /// # Errors
    ///
    /// As [`ApplyPlan::with_memory_limit`].
    pub fn work(self, opener: &mut PayloadOpener, held_max: usize) -> Result<ApplyPlan, ApplyPlanError> {
        match self {
            Self::Held(unit) => ApplyPlan::with_memory_limit(&unit, opener, held_max),
            Self::Large(large) => large.work,
        }
    }
}

/// Result of reading on in a log.
enum LogItem {
    Whole(Box<GatheredTransaction>),
    End(EndOfLog),
}

/// Availability of further transactions.
enum ReadNext {
    Now,
    Later,
}

impl From<GatheredTransaction> for LogItem {
    fn from(whole: GatheredTransaction) -> Self {
        Self::Whole(Box::new(whole))
    }
}

/// A whole transaction.
enum GatheredTransaction {
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
    fn origin(
        &mut self,
        whole: &GatheredTransaction,
        log_number: usize,
    ) -> Result<TransactionOrigin, ReplayError> {
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
        let file_range = if self.began_before { 0 } else { outline.position }..outline.end;
        let (start, end) = match &mut self.positions {
            Some(positions) => {
                (positions.original_start(file_range.start)?, positions.to_original(file_range.end))
            }
            None => (file_range.start, file_range.end),
        };
        Ok(TransactionOrigin { log, log_name, log_number, start, end, file_range })
    }

    /// Returns whether the log, which became shorter, was truncated at the start of the open transaction. Drops that
    /// transaction then.
    fn forget_cut_transaction(&mut self, size: u64) -> bool {
        let open = self.assembler.as_ref().and_then(|assembler| assembler.open());
        if open.is_some_and(|open| open.position == size) {
            (self.assembler, self.large, self.cut) = (None, None, Some(size));
        }
        self.cut == Some(size)
    }

    /// Returns the log's next transaction, or the end of its present content.
    fn next_found(&mut self, held_max: usize, opener: &mut PayloadOpener) -> Result<LogItem, ReplayError> {
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
    fn finish(self, goes_on: bool) -> Result<Option<PartialTransaction>, ReplayError> {
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

fn decode_previous_gtids(raw: &RawEvent<'_>, format: &EventFormat) -> Result<GtidSet, DecodeError> {
    match raw.decode(format)? {
        Event::PreviousGtids(previous) => GtidSet::decode(previous.set),
        _ => Ok(GtidSet::new()),
    }
}
