//! The current log, and its open transaction.

use std::fmt::{self, Display};
use std::mem;
use std::sync::Arc;

use binlog::gtid::GtidSet;
use binlog::{
    AssembleError, EventFormat, EventType, GrammarLoss, PayloadOpener, RawEvent, Transaction,
    TransactionAssembler, TransactionId, TransactionOutline,
};
use logs::{
    EndOfLog, EventWalk, LargePayloadHead, LogKind, LogReader, LogWalk, PayloadEndStep, PieceReader,
    PieceSizes, ReadOutcome, RewritePositions, WalkEvent, WalkStep, decode_previous_gtids,
};

use crate::apply_plan::{ApplyPlan, ApplyPlanBuilder, ApplyPlanError};
use crate::replay_error::ReplayError;
use crate::replay_log::STDIN;
use crate::source_transaction::{TransactionOrigin, committed_us};

/// Bytes per read.
const CHUNK_SIZE: usize = 1 << 20;

/// Cursor over one log: reads its events, and gathers them into transactions.
#[derive(Debug)]
pub(super) struct LogCursor {
    walk: LogWalk,
    gatherer: TransactionGatherer,
    log_name: LogNameSource,
}

/// The source's log that a file contains.
#[derive(Debug)]
pub(super) struct SourceLog {
    /// Name of the log on the source's server.
    pub(super) name: Arc<str>,
    /// Old positions in the source's log, if the file was rewritten.
    pub(super) positions: Option<RewritePositions>,
}

/// Name of a log on the source's server.
#[derive(Debug)]
enum LogNameSource {
    Known(SourceLog),
    /// Standard input has no name. Each of its logs gets a name from its first transaction.
    FromTransaction(Option<Arc<str>>),
}

/// Result of reading on in a log.
pub(super) enum LogItem {
    Whole(Box<GatheredTransaction>),
    End(EndOfLog),
}

/// A whole transaction.
pub(super) struct GatheredTransaction {
    pub(super) events: GatheredEvents,
    /// `true` if the transaction began in an earlier log.
    began_before: bool,
}

/// The events of a whole transaction.
pub(super) enum GatheredEvents {
    Held(Transaction),
    Large(Box<TransactionOutline>, Result<ApplyPlan, ApplyPlanError>),
}

/// A transaction that a replica received in parts.
#[derive(Debug)]
pub(super) struct PartialTransaction {
    carried: CarriedTransaction,
    assembler: TransactionAssembler,
    state: GatherState,
}

/// Transaction that began in an earlier log.
#[derive(Clone, Copy, Debug, Default)]
enum CarriedTransaction {
    /// No transaction was carried over: the open transaction began in this log.
    #[default]
    None,
    /// The transaction continues in this log.
    Continues(TransactionId),
    /// The transaction was truncated. The log must repeat the transaction from its start, before any other transaction.
    Repeats(TransactionId),
}

impl LogCursor {
    /// Starts to read a log. Standard input has no `source_log`. `before` is the transaction that the previous log left
    /// unfinished. Transactions of more than `held_max` bytes are not held in memory.
    pub(super) fn new(
        reader: LogReader,
        opener: PayloadOpener,
        source_log: Option<SourceLog>,
        before: Option<PartialTransaction>,
        held_max: usize,
    ) -> Self {
        let gatherer = TransactionGatherer::new(reader.name().into(), before, held_max);
        let sizes = PieceSizes { chunk_size: CHUNK_SIZE, large_size: held_max };
        Self {
            walk: LogWalk::new(PieceReader::new(reader, sizes, opener), EventWalk::default()),
            gatherer,
            log_name: source_log.map_or(LogNameSource::FromTransaction(None), LogNameSource::Known),
        }
    }

    pub(super) const fn reader(&self) -> &LogReader {
        self.walk.reader()
    }

    /// Returns the `server_id` of the server that wrote the log, once its first event is read. `None` if the id is 0:
    /// no server wrote the log, for example a log of `bintide undo`.
    pub(super) fn writer(&self) -> Option<u32> {
        self.gatherer.writer.filter(|server_id| *server_id != 0)
    }

    /// Takes the GTIDs of the earlier logs. Returns them once, after the log's head is read.
    pub(super) const fn take_previous(&mut self) -> Option<GtidSet> {
        self.gatherer.previous.take()
    }

    /// Returns the position of the transaction that was read last.
    ///
    /// # Errors
    ///
    /// Fails if the positions of a rewritten log cannot be read.
    pub(super) fn origin(
        &mut self,
        whole: &GatheredTransaction,
        log_number: usize,
    ) -> Result<TransactionOrigin, ReplayError> {
        let outline = match &whole.events {
            GatheredEvents::Held(transaction) => transaction.outline(),
            GatheredEvents::Large(outline, _) => outline,
        };
        // The part in this log starts at the log's start.
        let file_range = if whole.began_before { 0 } else { outline.position }..outline.end;
        let (mut start, mut end) = (file_range.start, file_range.end);
        let log_name = match &mut self.log_name {
            LogNameSource::Known(SourceLog { name, positions }) => {
                if let Some(positions) = positions {
                    start = positions.original_start(file_range.start)?;
                    end = positions.to_original(file_range.end);
                }
                name
            }
            LogNameSource::FromTransaction(name) => name.get_or_insert_with(|| {
                let (writer, committed) = (self.gatherer.writer.unwrap_or(0), committed_us(outline));
                let begun = self.gatherer.begun;
                format!("{STDIN} ({writer} {begun} {committed} {})", outline.end).into()
            }),
        };
        let (log, log_name) = (Arc::clone(&self.gatherer.log), Arc::clone(log_name));
        Ok(TransactionOrigin { log, log_name, log_number, start, end, file_range })
    }

    /// Returns whether a log that became shorter was truncated at the start of the open transaction. If so, drops that
    /// transaction.
    pub(super) fn forget_cut_transaction(&mut self, size: u64) -> bool {
        self.gatherer.forget_cut_transaction(size)
    }

    /// Returns the log's next transaction, or the end of its present content.
    pub(super) fn next_found(&mut self) -> Result<LogItem, ReplayError> {
        loop {
            let step = match self.walk.next()? {
                ReadOutcome::Some(step) => step,
                ReadOutcome::End(end) => return Ok(LogItem::End(end)),
            };
            let is_outer = matches!(&step, WalkStep::Event(event) if event.inner.is_none());
            if let WalkStep::Event(event) = &step
                && event.raw.event_type() == EventType::FormatDescription
                && let LogNameSource::FromTransaction(name) = &mut self.log_name
            {
                *name = None;
            }
            let whole = self.gatherer.take(step)?;
            if is_outer {
                // Do not open a payload in memory yet: its transaction may be skipped.
                self.walk.skip_payload();
            }
            if let Some(whole) = whole {
                return Ok(LogItem::Whole(Box::new(whole)));
            }
        }
    }

    /// Ends this log. An open transaction may continue in the next relay log: after a lost connection, the replica
    /// receives the rest later.
    pub(super) fn finish(self, next: FollowingLog) -> Result<Option<PartialTransaction>, ReplayError> {
        match self.reader().kind() {
            LogKind::Relay => self.gatherer.finish(next),
            _ => self.gatherer.finish(FollowingLog::None),
        }
    }
}

/// Existence of a log in which an open transaction may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowingLog {
    /// Another log follows, now or later.
    Follows,
    /// No log follows.
    None,
}

/// Gathers the events of a log into whole transactions.
#[derive(Debug)]
struct TransactionGatherer {
    log: Arc<str>,
    held_max: usize,
    /// Finds the ends of transactions, and holds the events of the open transaction; `None` before the first event.
    assembler: Option<TransactionAssembler>,
    state: GatherState,
    carried: CarriedTransaction,
    /// Size to which the log was truncated: the start of the transaction that was open at that time.
    cut: Option<u64>,
    /// Creation time of the log, in seconds since 1970.
    begun: u32,
    previous: Option<GtidSet>,
    writer: Option<u32>,
}

/// Location of the open transaction's events.
#[derive(Debug, Default)]
enum GatherState {
    /// In the assembler, or no transaction is open.
    #[default]
    Held,
    /// In an apply plan: too large for memory.
    Large(OversizedTransactionBuilder),
    /// In a payload that is too large for memory, and that ends the transaction.
    LargePayload(Box<TransactionOutline>, OversizedTransactionBuilder),
}

impl TransactionGatherer {
    fn new(log: Arc<str>, before: Option<PartialTransaction>, held_max: usize) -> Self {
        let (carried, assembler, state) = match before {
            Some(before) => (before.carried, Some(before.assembler), before.state),
            None => (CarriedTransaction::None, None, GatherState::Held),
        };
        Self { log, held_max, assembler, state, carried, cut: None, begun: 0, previous: None, writer: None }
    }

    /// Takes the next step of the walk. Returns the transaction that it ends.
    fn take(&mut self, step: WalkStep<'_>) -> Result<Option<GatheredTransaction>, ReplayError> {
        let events = match (mem::take(&mut self.state), step) {
            (GatherState::Held, WalkStep::Event(event)) => self.hold(&event)?,
            (GatherState::Large(large), WalkStep::Event(event)) => self.take_large(large, &event)?,
            (GatherState::LargePayload(outline, mut large), WalkStep::Event(event)) => {
                large.take(&event.raw, event.format);
                self.state = GatherState::LargePayload(outline, large);
                None
            }
            (GatherState::LargePayload(outline, large), WalkStep::PayloadEnd(ended)) => {
                self.check_payload_end(&ended)?;
                Some(large.finish(*outline))
            }
            (_, WalkStep::LargePayload(head)) => {
                self.begin_large_payload(head)?;
                None
            }
            // Payloads in memory are not opened here.
            (state, WalkStep::PayloadEnd(_)) => {
                self.state = state;
                None
            }
        };
        Ok(events.map(|events| {
            let began_before = self.end_carried();
            GatheredTransaction { events, began_before }
        }))
    }

    /// Takes an event of a transaction that fits in memory, so far.
    fn hold(&mut self, event: &WalkEvent<'_>) -> Result<Option<GatheredEvents>, ReplayError> {
        self.check_event(event)?;
        let assembler = assembler(&mut self.assembler, event.format);
        let size = assembler.collected_size() + event.raw.bytes().len();
        if size > self.held_max && assembler.open().is_some() {
            let mut large = OversizedTransactionBuilder::new(event.format, self.held_max);
            let (held, checksum) = (assembler.take_collected(), event.raw.checksum());
            let mut rest = held.as_slice();
            while let Some((raw, after)) = RawEvent::split_first(rest, checksum) {
                large.take(&raw, event.format);
                rest = after;
            }
            return self.push_large(large, event);
        }
        Ok(self.push(event)?.whole.map(GatheredEvents::Held))
    }

    /// Takes an event of a transaction that is too large for memory.
    fn take_large(
        &mut self,
        large: OversizedTransactionBuilder,
        event: &WalkEvent<'_>,
    ) -> Result<Option<GatheredEvents>, ReplayError> {
        self.check_event(event)?;
        self.push_large(large, event)
    }

    fn push_large(
        &mut self,
        mut large: OversizedTransactionBuilder,
        event: &WalkEvent<'_>,
    ) -> Result<Option<GatheredEvents>, ReplayError> {
        let open = assembler(&mut self.assembler, event.format).open().cloned();
        let pushed = self.push(event)?;
        if pushed.is_interrupted || pushed.whole.is_some() {
            return Ok(pushed.whole.map(GatheredEvents::Held));
        }
        large.take(&event.raw, event.format);
        match open {
            Some(mut outline) if assembler(&mut self.assembler, event.format).open().is_none() => {
                outline.end = event.end;
                Ok(Some(large.finish(outline)))
            }
            _ => {
                self.state = GatherState::Large(large);
                Ok(None)
            }
        }
    }

    fn push(&mut self, event: &WalkEvent<'_>) -> Result<PushedEvent, ReplayError> {
        let assembler = assembler(&mut self.assembler, event.format);
        let mut pushed = PushedEvent { whole: None, is_interrupted: false };
        match (assembler.push(event.offset, &event.raw, event.format), self.carried) {
            (Ok(whole), _) => pushed.whole = whole,
            // With GTID auto-positioning, the source sends the whole transaction again.
            (Err(AssembleError::Fault { fault, whole }), CarriedTransaction::Continues(id))
                if fault.lost == GrammarLoss::Transaction =>
            {
                self.carried = CarriedTransaction::Repeats(id);
                pushed = PushedEvent { whole: whole.map(|whole| *whole), is_interrupted: true };
            }
            (Err(error), _) => return Err(corrupt(&self.log, event.offset, &error)),
        }
        let now = pushed.whole.as_ref().map(Transaction::outline).or(assembler.open());
        if let (CarriedTransaction::Repeats(id), Some(now)) = (self.carried, now) {
            self.carried = CarriedTransaction::None;
            if now.id != id {
                let log = self.log.to_string();
                return Err(ReplayError::TornTransaction { log, start: event.offset });
            }
        }
        Ok(pushed)
    }

    /// Records the facts in the log's head, and verifies the event.
    fn check_event(&mut self, event: &WalkEvent<'_>) -> Result<(), ReplayError> {
        let header = event.raw.header();
        let corrupt = |error: &dyn Display| corrupt(&self.log, event.offset, error);
        if header.event_type == EventType::FormatDescription {
            self.writer.get_or_insert(header.server_id);
            self.begun = header.timestamp;
        }
        if header.event_type == EventType::PreviousGtids {
            let previous = decode_previous_gtids(&event.raw, event.format);
            self.previous = Some(previous.map_err(|error| corrupt(&error))?);
        }
        event.raw.verify().map_err(|error| corrupt(&error))
    }

    /// Starts a transaction whose payload is too large for memory.
    fn begin_large_payload(&mut self, head: &LargePayloadHead) -> Result<(), ReplayError> {
        let corrupt = |error: &dyn Display| corrupt(&self.log, head.offset, error);
        let stand_in = head.stand_in().map_err(|error| corrupt(&error))?;
        let assembler = assembler(&mut self.assembler, &head.format);
        let pushed = assembler.push(head.offset, &stand_in.as_raw(), &head.format);
        let transaction = pushed.map_err(|error| corrupt(&error))?;
        let transaction = transaction.ok_or_else(|| corrupt(&"the payload does not end a transaction"))?;
        let mut outline = transaction.outline().clone();
        outline.end = head.end();
        let mut large = OversizedTransactionBuilder::new(&head.format, self.held_max);
        for raw in transaction.events().filter(|raw| raw.event_type() != EventType::TransactionPayload) {
            large.take(&raw, &head.format);
        }
        self.state = GatherState::LargePayload(Box::new(outline), large);
        Ok(())
    }

    fn check_payload_end(&self, ended: &PayloadEndStep) -> Result<(), ReplayError> {
        let checksum = ended.result.map_or(Ok(()), |end| end.checksum);
        checksum.map_err(|error| corrupt(&self.log, ended.offset, &error))
    }

    /// Returns whether the transaction that ends began in an earlier log.
    fn end_carried(&mut self) -> bool {
        match self.carried {
            CarriedTransaction::Continues(_) => {
                self.carried = CarriedTransaction::None;
                true
            }
            CarriedTransaction::None | CarriedTransaction::Repeats(_) => false,
        }
    }

    fn forget_cut_transaction(&mut self, size: u64) -> bool {
        let open = self.assembler.as_ref().and_then(|assembler| assembler.open());
        if open.is_some_and(|open| open.position == size) {
            (self.assembler, self.state, self.cut) = (None, GatherState::Held, Some(size));
        }
        self.cut == Some(size)
    }

    fn finish(self, next: FollowingLog) -> Result<Option<PartialTransaction>, ReplayError> {
        let is_in_payload = matches!(self.state, GatherState::LargePayload(..));
        assert!(!is_in_payload, "ours: the walk reports a log that ends inside a payload as torn");
        let Some(assembler) = self.assembler else { return Ok(None) };
        let (carried, start) = match (assembler.open(), self.carried) {
            (Some(open), CarriedTransaction::Repeats(_)) => (self.carried, open.position),
            (Some(open), _) => (CarriedTransaction::Continues(open.id), open.position),
            (None, CarriedTransaction::Repeats(_)) => (self.carried, 0),
            (None, _) => return Ok(None),
        };
        match next {
            FollowingLog::Follows => Ok(Some(PartialTransaction { carried, assembler, state: self.state })),
            FollowingLog::None => Err(ReplayError::TornTransaction { log: self.log.to_string(), start }),
        }
    }
}

/// Result of pushing an event to the assembler.
struct PushedEvent {
    /// Transaction that the event ends.
    whole: Option<Transaction>,
    /// `true` if the event interrupted the open transaction.
    is_interrupted: bool,
}

/// Returns the assembler, which needs the format of the log's first event.
fn assembler<'a>(
    assembler: &'a mut Option<TransactionAssembler>,
    format: &EventFormat,
) -> &'a mut TransactionAssembler {
    assembler.get_or_insert_with(|| TransactionAssembler::new(format.clone(), usize::MAX))
}

/// Apply plan of a transaction too large for memory, while it is read.
struct OversizedTransactionBuilder {
    /// The builder, or the reason why the transaction cannot be applied.
    builder: Result<ApplyPlanBuilder, ApplyPlanError>,
}

impl OversizedTransactionBuilder {
    fn new(format: &EventFormat, held_max: usize) -> Self {
        Self { builder: Ok(ApplyPlanBuilder::new(format, held_max)) }
    }

    fn take(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        if let Ok(builder) = &mut self.builder
            && let Err(error) = builder.take(raw, format)
        {
            self.builder = Err(error);
        }
    }

    fn finish(self, outline: TransactionOutline) -> GatheredEvents {
        let plan = self.builder.and_then(|builder| builder.finish(outline.kind));
        GatheredEvents::Large(Box::new(outline), plan)
    }
}

impl fmt::Debug for OversizedTransactionBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OversizedTransactionBuilder").finish_non_exhaustive()
    }
}

fn corrupt(log: &str, position: u64, reason: &dyn Display) -> ReplayError {
    ReplayError::Corrupt { log: log.to_owned(), position, reason: reason.to_string() }
}
