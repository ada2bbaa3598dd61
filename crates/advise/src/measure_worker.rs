//! Measures transactions: the state of a worker, and the steps from a work item to its measurements.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use binlog::{
    CHECKSUM_SIZE, CompressError, CompressionRefusal, Event, EventFormat, HEADER_SIZE, NextPosition,
    PayloadError, PayloadLimits, PayloadOpener, PayloadWriter, RawEventBuf, ZstdLevel, events,
    put_gtid_resized, put_inner,
};
use logs::ordered::PartSender;
use logs::{
    EventChunk, LogEvent, LogSegment, SegmentContent, WholeTransaction, inner_events, lock,
    read_events_within,
};

use super::LogSource;
use super::cell_grid::{SampleCell, scramble};
use super::level_bench::{LevelBench, LevelCost, LevelResult};
use super::measured_transactions::{MeasuredTransaction, MeasuredTransactions};
use super::measurement_plan::MemoryLimits;
use super::network::{SentBytes, SimulatedConnection};
use super::pieces::{
    CompressedLargePayload, ReadItem, WeightedContent, WeightedPiece, commit_us, open_before, read_cell,
    reread_payload,
};
use super::record::{CellShare, MeasuredPart, NetworkTraffic, PayloadProbe, RecordKind, TransactionRecord};
use super::transaction_tables::TransactionTables;
use inspect::InspectError;

/// State that all workers share.
pub(crate) struct MeasureShared<'s> {
    pub(crate) sources: &'s [LogSource<'s>],
    pub(crate) levels: &'s [ZstdLevel],
    pub(crate) sizes: MemoryLimits,
    /// The level that represents compressed transactions in network traffic.
    pub(crate) base: ZstdLevel,
    /// Index of the base level in `levels`.
    pub(crate) base_index: usize,
    /// Part of a large transaction that is measured.
    pub(crate) coverage: LargeCoverage,
    /// One work item in this many supplies payloads for the dictionary.
    pub(crate) sample_stride: u64,
    /// Locked while a large payload is measured.
    pub(crate) one_large: Mutex<()>,
    /// Width of a cell. A wider transaction belongs to every cell that it overlaps.
    pub(crate) width: u64,
    /// Measured transactions that are wider than a cell.
    pub(crate) known: MeasuredTransactions,
}

/// Part of a large transaction that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargeCoverage {
    /// The whole transaction.
    Whole,
    /// The first bytes of the transaction's events. The report assumes that all other bytes compress similarly.
    Front(u64),
}

/// Work for one worker at a time.
pub(crate) struct MeasureItem {
    pub(crate) number: u64,
    pub(crate) source: usize,
    pub(crate) work: ItemContent,
}

pub(crate) enum ItemContent {
    /// Transactions already read.
    Pieces { pieces: Vec<WeightedPiece>, bytes: u64 },
    /// A cell to be read.
    Cell(SampleCell),
}

/// Maximum bytes of events that wait to be measured.
const BATCH_SIZE: usize = 1 << 20;

/// Maximum records per part.
const RECORDS_MAX: usize = 8192;

/// Bytes per read, for transactions that are not in memory.
const PIECE_SIZE: usize = 1 << 20;

/// If all logs are measured, network traffic is measured for one in this many batches.
const NETWORK_STRIDE: u64 = 4;

/// Bytes of a large transaction for which network traffic is simulated.
const NETWORK_FRONT: usize = 1 << 20;

/// Maximum size of a payload for the dictionary. Larger payloads gain nothing from a dictionary.
const SAMPLE_SIZE_MAX: usize = 64 << 10;

/// Sizes of payloads for the search of the level. Small payloads are equal at many levels; large ones take long.
const PROBE_SIZES: std::ops::RangeInclusive<usize> = 200..=128 << 10;

/// State of one worker thread.
pub(crate) struct MeasureWorker<'s> {
    shared: &'s MeasureShared<'s>,
    bench: LevelBench<'s>,
    base: PayloadWriter,
    wire: SimulatedConnection,
    opener: PayloadOpener,
    names: TransactionTables,
    scratch: Vec<u8>,
    /// Bytes of the payloads to measure, one after the other.
    arena: Vec<u8>,
    pending: Vec<PendingMeasurement>,
    part: MeasuredPart,
    /// Index of the current log.
    source: usize,
    batches: u64,
    keeps_samples: bool,
}

/// A transaction to be measured, with its payload in the arena.
struct PendingMeasurement {
    /// Index of its record.
    record: usize,
    /// Start of the transaction, if it overlaps other cells.
    start: Option<u64>,
    /// Bytes of the transaction in the log.
    now: u64,
    gtid: RawEventBuf,
    format: Arc<EventFormat>,
    /// Range of the transaction in the arena.
    inner: Range<usize>,
    /// Bytes of its whole payload, which may be more than in the arena.
    inner_size: u64,
    /// Position in the log, if the transaction is read again for each level.
    in_pieces: Option<RereadSource>,
}

/// Location of events that are read again for every level.
#[derive(Clone, Debug)]
enum RereadSource {
    /// The range of a transaction in the log.
    Events(Range<u64>),
    /// The start of a payload event.
    Payload(u64),
}

/// Treatment of a payload that is too large for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargePayloads {
    Accept,
    Refuse,
}

/// Sizes of a payload's content.
struct PayloadSizes {
    /// Start of the payload's events in the arena.
    start: usize,
    /// Bytes of the payload's events.
    size: u64,
    /// Bytes of these events in a log that is not compressed: each with its checksum.
    bytes_after: u64,
}

/// Payload of a transaction at the end of the arena.
struct QueuedPayload {
    /// True if the log has the transaction as a payload.
    was_compressed: bool,
    /// GTID event of the transaction, and its format.
    gtid: RawEventBuf,
    format: Arc<EventFormat>,
    /// Start of the payload in the arena.
    start: usize,
    /// Start of the transaction in its log.
    at: u64,
    /// Set if the payload is too large for the arena: it is read again in pieces.
    in_pieces: Option<RereadSource>,
}

impl<'s> MeasureWorker<'s> {
    pub(crate) fn new(shared: &'s MeasureShared<'s>) -> Result<Self, CompressError> {
        Ok(Self {
            shared,
            bench: LevelBench::new(shared.levels, shared.sizes.large)?,
            base: PayloadWriter::new(shared.base)?,
            wire: SimulatedConnection::new()?,
            opener: PayloadOpener::with_limits(PayloadLimits {
                event_size_max: shared.sizes.event_size_max,
                ..PayloadLimits::default()
            }),
            names: TransactionTables::default(),
            scratch: Vec::new(),
            arena: Vec::new(),
            pending: Vec::new(),
            part: MeasuredPart::default(),
            source: 0,
            batches: 0,
            keeps_samples: false,
        })
    }

    pub(crate) fn measure_item(
        &mut self,
        item: MeasureItem,
        sender: &PartSender<'_, MeasuredPart>,
    ) -> Result<(), InspectError> {
        self.keeps_samples = item.number.is_multiple_of(self.shared.sample_stride);
        self.batches = scramble(item.number);
        self.source = item.source;
        match item.work {
            ItemContent::Pieces { pieces, bytes } => {
                for piece in pieces {
                    self.process_piece(item.source, piece, sender)?;
                }
                self.part.bytes_done = bytes;
            }
            ItemContent::Cell(cell) => {
                let shared = self.shared;
                self.part.bytes_done = cell.end - cell.start;
                if let Some(known) = shared.known.covering(cell) {
                    self.record_known(known);
                    self.part.is_end = true;
                    return self.push_part(sender);
                }
                read_cell(&shared.sources[cell.source], cell, shared.width, &shared.sizes, &mut |given| {
                    match given {
                        ReadItem::Piece(piece) => self.process_piece(item.source, piece, sender),
                        ReadItem::Pause => self.pause(item.source, sender),
                    }
                })?;
            }
        }
        self.measure(item.source)?;
        self.part.is_end = true;
        self.push_part(sender)
    }

    fn pause(&mut self, source: usize, sender: &PartSender<'_, MeasuredPart>) -> Result<(), InspectError> {
        self.measure(source)?;
        self.push_part(sender)
    }

    fn push_part(&mut self, sender: &PartSender<'_, MeasuredPart>) -> Result<(), InspectError> {
        let mut part = std::mem::take(&mut self.part);
        part.source = self.source;
        let names = self.names.take_names();
        if part.names.is_empty() {
            part.names = names;
        }
        let cost = part.records.len() * size_of::<TransactionRecord>()
            + part.made.len() * (size_of::<LevelResult>() + size_of::<u64>())
            + part.samples.iter().map(Vec::len).sum::<usize>();
        Ok(sender.push(part, cost)?)
    }
}

/// Collects pieces.
impl<'s> MeasureWorker<'s> {
    fn process_piece(
        &mut self,
        source: usize,
        piece: WeightedPiece,
        sender: &PartSender<'_, MeasuredPart>,
    ) -> Result<(), InspectError> {
        let share = piece.share;
        match piece.content {
            WeightedContent::CompressedLargePayload(opened) => {
                self.measure_large_compressed(source, *opened, share)?
            }
            WeightedContent::Segment(segment) => match &segment.content {
                SegmentContent::Between | SegmentContent::LargeBetween(_) => {
                    self.record_unmeasured(&segment, RecordKind::Between, 0, share)
                }
                SegmentContent::Transaction(whole) => match whole.refusal {
                    None => self.measure_plain(source, &segment, whole, share)?,
                    Some(CompressionRefusal::Compressed) => {
                        self.measure_compressed(source, &segment, whole, share)?
                    }
                    Some(refusal) => self.record_refused(&segment, whole, refusal, share),
                },
            },
        }
        let is_full = self.part.records.len() >= RECORDS_MAX;
        if is_full || self.arena.len() >= BATCH_SIZE {
            self.measure(source)?;
        }
        if is_full {
            self.push_part(sender)?;
        }
        Ok(())
    }

    /// Adds a transaction that cannot be compressed.
    fn record_refused(
        &mut self,
        segment: &LogSegment,
        whole: &WholeTransaction,
        refusal: CompressionRefusal,
        share: CellShare,
    ) {
        self.record_unmeasured(segment, RecordKind::Refused(refusal), commit_us(&whole.outline), share);
    }

    /// Adds events that stay unchanged.
    fn record_unmeasured(
        &mut self,
        segment: &LogSegment,
        kind: RecordKind,
        commit_us: u64,
        share: CellShare,
    ) {
        let now = share.of;
        self.names.begin();
        let start = segment.parts.first().map_or(0, EventChunk::offset);
        let record = TransactionRecord { kind, start, commit_us, ..TransactionRecord::plain(now, share) };
        if kind != RecordKind::Between
            && now > self.shared.width
            && !self.shared.known.has(self.source, start)
        {
            let one = MeasuredTransaction {
                end: start + now,
                record: record.clone(),
                made: Vec::new(),
                after: Vec::new(),
                network: NetworkTraffic::default(),
                tables: Vec::new(),
            };
            self.shared.known.insert(self.source, start, one);
        }
        self.record(record);
        if self.measures_network() && share.part(now) == now && segment.size() as u64 == now {
            segment.events().for_each(|event| self.wire.put(&[event.raw.bytes()]));
            self.wire.flush();
            let sent = self.wire.take();
            self.part.network.add(&NetworkTraffic { now, plain: sent, compressed: sent });
        }
    }

    /// Adds a plain transaction that can be compressed.
    fn measure_plain(
        &mut self,
        source: usize,
        segment: &LogSegment,
        whole: &WholeTransaction,
        share: CellShare,
    ) -> Result<(), InspectError> {
        let Some((gtid, format)) = first(segment) else {
            self.record_refused(segment, whole, CompressionRefusal::NoGtid, share);
            return Ok(());
        };
        let _one_large = self.lock_if_large(source, whole.inner_size)?;
        let start = self.arena.len();
        self.names.begin();
        let limit = match whole.is_large {
            true => self.large_arena_limit(),
            false => self.arena_limit(),
        };
        let (names, arena) = (&mut self.names, &mut self.arena);
        let mut take = |event: LogEvent<'_>, format: &EventFormat| {
            names.take(&event.raw, format);
            if arena.len() - start < limit {
                put_inner(&event.raw, arena);
            }
        };
        let extent = whole.outline.position..whole.outline.end;
        match whole.is_large {
            false => segment.events().skip(1).for_each(|event| take(event, &format)),
            true => {
                // The tables need all events of a transaction that is measured in pieces.
                let measured_range = match self.shared.coverage {
                    LargeCoverage::Whole => extent.clone(),
                    LargeCoverage::Front(size) => extent.start..extent.end.min(extent.start + size),
                };
                reread(&self.shared.sources[source], measured_range, |event, format| {
                    if event.offset > extent.start {
                        take(event, format);
                    }
                    Ok(())
                })?;
            }
        }
        let in_pieces = (whole.is_large && self.shared.coverage == LargeCoverage::Whole)
            .then_some(RereadSource::Events(extent));
        let record = TransactionRecord {
            inner: whole.inner_size,
            commit_us: commit_us(&whole.outline),
            ..TransactionRecord::plain(share.of, share)
        };
        let at = whole.outline.position;
        let queued = QueuedPayload { was_compressed: false, gtid, format, start, at, in_pieces };
        self.queue_and_measure(source, record, queued)
    }

    /// Adds a compressed transaction.
    fn measure_compressed(
        &mut self,
        source: usize,
        segment: &LogSegment,
        whole: &WholeTransaction,
        share: CellShare,
    ) -> Result<(), InspectError> {
        let (Some((gtid, format)), Some(payload)) = (first(segment), segment.events().nth(1)) else {
            // A payload without a GTID event.
            self.record_refused(segment, whole, CompressionRefusal::NoGtid, share);
            return Ok(());
        };
        let (name, offset) = (&self.shared.sources[source].name, payload.offset);
        let body = match payload.raw.decode(&format) {
            Ok(Event::TransactionPayload(body)) => body,
            Ok(_) => {
                self.record_refused(segment, whole, CompressionRefusal::Interrupted, share);
                return Ok(());
            }
            Err(error) => return Err(InspectError::Event { name: name.clone(), offset, error }),
        };
        let wrong = |error: PayloadError| InspectError::Payload { name: name.clone(), offset, error };
        let checksum_size = payload.raw.checksum().size();
        // The stated size is not trusted.
        let mut one_large = self.lock_if_large(source, body.payload.len() as u64)?;
        let large = match one_large {
            Some(_) => LargePayloads::Accept,
            None => LargePayloads::Refuse,
        };
        let mut inside = self.open_payload(&body, &format, checksum_size, large).map_err(wrong)?;
        if inside.is_none() {
            one_large = self.lock_if_large(source, u64::MAX)?;
            inside =
                self.open_payload(&body, &format, checksum_size, LargePayloads::Accept).map_err(wrong)?;
        }
        let Some(inside) = inside else { unreachable!("ours: large transactions are now allowed") };
        let start = inside.start;
        self.keep_probe(start, body.payload);
        let is_truncated = inside.size > (self.arena.len() - start) as u64;
        let in_pieces = (is_truncated && self.shared.coverage == LargeCoverage::Whole)
            .then_some(RereadSource::Payload(offset));
        let record = TransactionRecord {
            plain: inside.bytes_after + self.gtid_size(source, &gtid, inside.bytes_after, &format)?,
            inner: inside.size,
            commit_us: commit_us(&whole.outline),
            ..TransactionRecord::plain(share.of, share)
        };
        let at = whole.outline.position;
        let queued = QueuedPayload { was_compressed: true, gtid, format, start, at, in_pieces };
        let measured = self.queue_and_measure(source, record, queued);
        drop(one_large);
        measured
    }

    /// Adds a transaction whose payload is at the end of the arena. Immediately measures a large one.
    fn queue_and_measure(
        &mut self,
        source: usize,
        record: TransactionRecord,
        queued: QueuedPayload,
    ) -> Result<(), InspectError> {
        let inner_size = record.inner;
        self.queue(record, queued);
        self.measure_if_large(source, inner_size)
    }

    /// Decompresses a payload in memory. Returns `None` if it is large and large payloads are refused.
    fn open_payload(
        &mut self,
        body: &events::TransactionPayload<'_>,
        format: &EventFormat,
        checksum_size: usize,
        large: LargePayloads,
    ) -> Result<Option<PayloadSizes>, PayloadError> {
        let (start, limit, within) = (self.arena.len(), self.arena_limit(), format.inside_payload());
        self.names.begin();
        let (mut size, mut bytes_after) = (0, 0);
        let mut inner = self.opener.open(body)?;
        while let Some(event) = inner.next_event()? {
            self.names.take(&event, &within);
            size += event.bytes().len() as u64;
            bytes_after += (event.bytes().len() + checksum_size) as u64;
            if large == LargePayloads::Refuse && size > self.shared.sizes.large as u64 {
                return Ok(None);
            }
            if self.arena.len() - start < limit {
                self.arena.extend_from_slice(event.bytes());
            }
        }
        Ok(Some(PayloadSizes { start, size, bytes_after }))
    }

    /// Adds a compressed transaction that is too large for memory.
    fn measure_large_compressed(
        &mut self,
        source: usize,
        opened: CompressedLargePayload,
        share: CellShare,
    ) -> Result<(), InspectError> {
        let CompressedLargePayload { start: at, gtid, commit_us, format, now, offset } = opened;
        self.names.begin();
        let Some(gtid) = gtid else {
            self.record(TransactionRecord {
                kind: RecordKind::Refused(CompressionRefusal::NoGtid),
                start: at,
                commit_us,
                ..TransactionRecord::plain(now, share)
            });
            return Ok(());
        };
        let _one_large = self.lock_if_large(source, u64::MAX)?;
        let start = self.arena.len();
        let checksum_size = gtid.as_raw().checksum().size() as u64;
        let (limit, within) = (self.large_arena_limit(), format.inside_payload());
        let (names, arena, reach) = (&mut self.names, &mut self.arena, self.shared.coverage);
        let (mut seen, mut events) = (0, 0);
        let mut take = |chunk: &[u8]| {
            for event in inner_events(chunk) {
                names.take(&event, &within);
                events += 1;
            }
            seen += chunk.len() as u64;
            if arena.len() - start < limit {
                arena.extend_from_slice(chunk);
            }
            Ok(match reach {
                LargeCoverage::Front(size) if seen >= size => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let (opener, scratch) = (&mut self.opener, &mut self.scratch);
        let head = reread_payload(&self.shared.sources[source], offset, opener, scratch, &mut take)?;
        let (size, in_pieces) = match reach {
            LargeCoverage::Whole => (seen, Some(RereadSource::Payload(offset))),
            LargeCoverage::Front(_) => (head.size(seen), None),
        };
        let bytes_after = size.saturating_add(scaled(events * checksum_size, size, seen));
        let record = TransactionRecord {
            plain: bytes_after.saturating_add(self.gtid_size(source, &gtid, bytes_after, &format)?),
            inner: size,
            commit_us,
            ..TransactionRecord::plain(now, share)
        };
        self.queue(record, QueuedPayload { was_compressed: true, gtid, format, start, at, in_pieces });
        self.measure_if_large(source, u64::MAX)
    }

    /// Makes room for a large transaction: measures the waiting transactions, and blocks the other workers.
    fn lock_if_large(
        &mut self,
        source: usize,
        size: u64,
    ) -> Result<Option<MutexGuard<'s, ()>>, InspectError> {
        if size <= self.shared.sizes.large as u64 {
            return Ok(None);
        }
        self.measure(source)?;
        let shared = self.shared;
        Ok(Some(lock(&shared.one_large)))
    }

    /// Returns the maximum bytes of a transaction in the arena.
    fn arena_limit(&self) -> usize {
        let limit = match self.shared.coverage {
            LargeCoverage::Whole => self.shared.sizes.kept,
            LargeCoverage::Front(size) => size,
        };
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Returns the maximum bytes in the arena of a transaction that is too large for memory.
    fn large_arena_limit(&self) -> usize {
        match self.shared.coverage {
            LargeCoverage::Whole => NETWORK_FRONT,
            LargeCoverage::Front(size) => usize::try_from(size).unwrap_or(usize::MAX),
        }
    }

    /// Queues the transaction whose payload is at the end of the arena.
    fn queue(&mut self, record: TransactionRecord, payload: QueuedPayload) {
        let QueuedPayload { was_compressed, gtid, format, start, at, in_pieces } = payload;
        let number = self.part.measured + self.pending.len();
        let inner = start..self.arena.len();
        let record = TransactionRecord {
            kind: RecordKind::Measured { number, was_compressed },
            start: at,
            is_truncated: in_pieces.is_none() && record.inner > inner.len() as u64,
            ..record
        };
        if self.keeps_samples && !record.is_truncated && inner.len() <= SAMPLE_SIZE_MAX {
            self.part.samples.push(self.arena[inner.clone()].to_vec());
        }
        let (now, inner_size) = (record.now, record.inner);
        let start = (record.share.of > self.shared.width).then_some(at);
        self.pending.push(PendingMeasurement {
            record: self.part.records.len(),
            start,
            now,
            gtid,
            format,
            inner,
            inner_size,
            in_pieces,
        });
        self.record(record);
    }

    /// Adds a transaction that another cell has measured.
    fn record_known(&mut self, known: MeasuredTransaction) {
        let MeasuredTransaction { record, made, after, network, tables, .. } = known;
        let RecordKind::Measured { was_compressed, .. } = record.kind else {
            self.part.records = vec![TransactionRecord { tables: 0..0, ..record }];
            return;
        };
        self.part.network = network.part(record.share);
        self.part.names = tables.iter().map(|(name, _)| name.clone()).collect();
        self.part.tables = (0..).zip(tables).map(|(number, (_, bytes))| (number, bytes)).collect();
        let kind = RecordKind::Measured { number: 0, was_compressed };
        self.part.records = vec![TransactionRecord { kind, tables: 0..self.part.tables.len(), ..record }];
        (self.part.made, self.part.after, self.part.measured) = (made, after, 1);
    }

    /// Stores the measurements of a transaction that overlaps other cells.
    fn remember_wide(
        &self,
        source: usize,
        ready: &PendingMeasurement,
        made: &[LevelResult],
        network: NetworkTraffic,
    ) {
        let (Some(start), Some(record)) = (ready.start, self.part.records.get(ready.record)) else { return };
        let names = self.names.names();
        let tables = self.part.tables.get(record.tables.clone()).unwrap_or_default().iter();
        let named = |(number, bytes): &(u32, u64)| Some((names.get(*number as usize)?.clone(), *bytes));
        let after = self.part.after[self.part.after.len() - made.len()..].to_vec();
        let one = MeasuredTransaction {
            end: start + ready.now,
            record: record.clone(),
            made: made.to_vec(),
            after,
            network,
            tables: tables.filter_map(named).collect(),
        };
        self.shared.known.insert(source, start, one);
    }

    fn record(&mut self, record: TransactionRecord) {
        let start = self.part.tables.len();
        self.part.tables.extend_from_slice(self.names.bytes());
        self.part.records.push(TransactionRecord { tables: start..self.part.tables.len(), ..record });
    }

    /// Keeps a payload of the log, if it is a better probe than the present one.
    fn keep_probe(&mut self, start: usize, frame: &[u8]) {
        let inner = &self.arena[start..];
        let is_larger = self.part.probe.as_ref().is_none_or(|probe| probe.inner.len() < inner.len());
        if is_larger && PROBE_SIZES.contains(&inner.len()) {
            self.part.probe = Some(PayloadProbe { inner: inner.to_vec(), frame: frame.to_vec() });
        }
    }
}

/// Measures the collected pieces.
impl MeasureWorker<'_> {
    fn measure_if_large(&mut self, source: usize, size: u64) -> Result<(), InspectError> {
        match size > self.shared.sizes.large as u64 {
            true => self.measure(source),
            false => Ok(()),
        }
    }

    fn measure(&mut self, source: usize) -> Result<(), InspectError> {
        if self.part.taken.is_empty() {
            self.part.taken = vec![LevelCost::default(); self.shared.levels.len()];
        }
        let all = std::mem::take(&mut self.pending);
        let in_memory: Vec<&[u8]> = all
            .iter()
            .filter(|ready| ready.in_pieces.is_none())
            .map(|ready| &self.arena[ready.inner.clone()])
            .collect();
        let results = self.bench.measure(&in_memory, &mut self.part.taken)?;
        let mut results = results.chunks(self.shared.levels.len());
        for ready in all {
            let results_by_level = match &ready.in_pieces {
                Some(what) => self.measure_in_pieces(source, what, ready.inner_size)?,
                None => results.next().unwrap_or_default().iter().map(|one| ready.scaled(*one)).collect(),
            };
            self.store_sizes(source, &ready, &results_by_level)?;
            let network = self.simulate_network(&ready, &results_by_level)?;
            self.remember_wide(source, &ready, &results_by_level, network);
            if let Some(record) = self.part.records.get(ready.record) {
                self.part.network.add(&network.part(record.share));
            }
        }
        self.arena.clear();
        self.arena.shrink_to(2 * BATCH_SIZE);
        self.batches += 1;
        Ok(())
    }

    /// Measures a transaction that is read again for every level.
    fn measure_in_pieces(
        &mut self,
        source: usize,
        what: &RereadSource,
        inner_size: u64,
    ) -> Result<Vec<LevelResult>, InspectError> {
        let source = &self.shared.sources[source];
        let (scratch, opener) = (&mut self.scratch, &mut self.opener);
        let mut pieces = |push: &mut dyn FnMut(&[u8]) -> Result<(), CompressError>| {
            scratch.clear();
            match what {
                RereadSource::Events(extent) => reread(source, extent.clone(), |event, _| {
                    if event.offset > extent.start {
                        put_inner(&event.raw, scratch);
                    }
                    if scratch.len() >= PIECE_SIZE || event.end() >= extent.end {
                        push(scratch)?;
                        scratch.clear();
                    }
                    Ok(())
                }),
                RereadSource::Payload(offset) => {
                    let mut take = |chunk: &[u8]| {
                        push(chunk)?;
                        Ok(ControlFlow::Continue(()))
                    };
                    reread_payload(source, *offset, opener, scratch, &mut take).map(|_| ())
                }
            }
        };
        self.bench.measure_pieces(inner_size, &mut pieces, &mut self.part.taken)
    }

    /// Records the transaction's bytes in the log at every level.
    fn store_sizes(
        &mut self,
        source: usize,
        ready: &PendingMeasurement,
        made: &[LevelResult],
    ) -> Result<(), InspectError> {
        for made in made {
            let after = match made.frame {
                Some(frame) => {
                    let payload = self.payload_event_size(ready, frame);
                    payload + self.gtid_size(source, &ready.gtid, payload, &ready.format)?
                }
                // The transaction stays plain.
                None => ready.now,
            };
            self.part.made.push(*made);
            self.part.after.push(after);
        }
        self.part.measured += 1;
        Ok(())
    }

    /// Returns the size of a payload event with a frame of this size.
    fn payload_event_size(&mut self, ready: &PendingMeasurement, frame: u64) -> u64 {
        self.scratch.clear();
        events::TransactionPayload::put_zstd_fields(ready.inner_size, frame, &mut self.scratch);
        (HEADER_SIZE + self.scratch.len() + ready.gtid.as_raw().checksum().size()) as u64 + frame
    }

    /// Returns the size of a GTID event that `bytes_after` bytes follow.
    fn gtid_size(
        &mut self,
        source: usize,
        gtid: &RawEventBuf,
        bytes_after: u64,
        format: &EventFormat,
    ) -> Result<u64, InspectError> {
        self.scratch.clear();
        let raw = gtid.as_raw();
        let resized = put_gtid_resized(&raw, bytes_after, NextPosition::Fixed(0), format, &mut self.scratch);
        match resized {
            Ok(()) => Ok(self.scratch.len() as u64),
            Err(error) => {
                let name = self.shared.sources[source].name.clone();
                Err(InspectError::Resize { name, error })
            }
        }
    }

    /// Returns true if network traffic is measured now. A sample measures network traffic for all transactions, so that
    /// both figures are for the same transactions.
    fn measures_network(&self) -> bool {
        matches!(self.shared.coverage, LargeCoverage::Front(_)) || self.batches.is_multiple_of(NETWORK_STRIDE)
    }

    /// Simulates sending a transaction to a replica, plain and compressed.
    fn simulate_network(
        &mut self,
        ready: &PendingMeasurement,
        made: &[LevelResult],
    ) -> Result<NetworkTraffic, InspectError> {
        if !self.measures_network() {
            return Ok(NetworkTraffic::default());
        }
        let inner = &self.arena[ready.inner.clone()];
        let is_small = inner.len() <= NETWORK_FRONT && ready.inner_size == inner.len() as u64;
        let front = &inner[..inner.len().min(NETWORK_FRONT)];
        let gtid = ready.gtid.as_raw();
        let checksum = &[0; CHECKSUM_SIZE][..gtid.checksum().size()];
        self.wire.put(&[gtid.bytes()]);
        let mut sent_inner = 0;
        for event in inner_events(front) {
            sent_inner += event.bytes().len() as u64;
            self.wire.put(&[event.bytes(), checksum]);
        }
        self.wire.flush();
        let plain = self.wire.take();
        let compressed = match is_small {
            true => {
                let frame = self.base.frame(front)?;
                let mut fields = Vec::new();
                events::TransactionPayload::put_zstd_fields(
                    ready.inner_size,
                    frame.len() as u64,
                    &mut fields,
                );
                self.wire.put(&[gtid.bytes()]);
                self.wire.put(&[&[0; HEADER_SIZE], &fields, frame, checksum]);
                self.wire.flush();
                self.wire.take()
            }
            // Compressing a large frame again on the connection saves nothing.
            false => {
                let size =
                    made.get(self.shared.base_index).and_then(|made| made.frame).unwrap_or(ready.inner_size);
                let size = self.payload_event_size(ready, size) + gtid.bytes().len() as u64;
                SentBytes { uncompressed: size, zlib: size, zstd: size, ..SentBytes::default() }
            }
        };
        let plain = plain.scaled(ready.inner_size, sent_inner);
        Ok(NetworkTraffic { now: ready.now, plain, compressed })
    }
}

impl PendingMeasurement {
    /// Extrapolates the measurements of the front to the whole transaction.
    fn scaled(&self, made: LevelResult) -> LevelResult {
        let measured = self.inner.len() as u64;
        match measured {
            0 => made,
            _ if measured == self.inner_size => made,
            _ => {
                let scale = |value: u64| scaled(value, self.inner_size, measured);
                LevelResult { frame: made.frame.map(scale), ns: scale(made.ns) }
            }
        }
    }
}

/// Returns `value`, scaled from `measured` to `whole`.
fn scaled(value: u64, whole: u64, measured: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(whole) / u128::from(measured.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn first(segment: &LogSegment) -> Option<(RawEventBuf, Arc<EventFormat>)> {
    let format = Arc::clone(segment.parts.first()?.format());
    Some((segment.events().next()?.raw.to_buf(), format))
}

/// Reads a part of a log again.
fn reread(
    source: &LogSource<'_>,
    range: Range<u64>,
    mut take: impl FnMut(LogEvent<'_>, &EventFormat) -> Result<(), InspectError>,
) -> Result<(), InspectError> {
    let mut reader = open_before(source, range.start)?;
    match read_events_within(&mut reader, range, PIECE_SIZE, &mut take)? {
        true => Ok(()),
        false => Err(InspectError::Changed { name: source.name.clone() }),
    }
}
