//! Rewriting of a log's units. The assembler sets the positions of new events.

use std::time::Instant;

use binlog::{
    CompressError, Event, EventChecksum, EventFormat, EventType, HEADER_SIZE, NextPosition, PayloadOpener,
    RawEvent, events, put_gtid_resized, put_inner,
};
use logs::ordered::PartSender;
use logs::{LogEvent, LogKind, LogReader};

use crate::error::{ErrorContext, RewriteError};
use crate::log_assembler::PositionFixup;
use crate::rewrite_tally::RewriteTally;
use crate::rewrite_unit::{
    LargeTransaction, PassReason, RewriteSegment, RewriteUnit, SegmentAction, UnitContent,
};
use crate::spare_buffers::SpareBuffers;
use crate::spooled_payload::{PayloadFile, SpooledPayload, for_each_event, spool_payload};
use crate::writer_pool::{PooledWriter, WriterPool};
use crate::{CompressSettings, MinimumGain, OldFormatPolicy, RewriteAction, RewriteLimits};

/// Output of the workers.
pub(crate) enum OutputPart {
    /// Whole events.
    Events {
        bytes: Vec<u8>,
        /// Events whose headers state their position in this log.
        fixups: Vec<PositionFixup>,
        /// Old starts of transactions, and their new starts in `bytes`.
        moved: Vec<(u64, u32)>,
        tally: Box<RewriteTally>,
        /// Bytes of whole segments at the start of `bytes`; `None` if `bytes` contains only the middle of one segment.
        whole: Option<usize>,
    },
    /// Start of an event that is written in pieces, of `size` bytes including its checksum.
    Head { bytes: Vec<u8>, size: u32, next: Option<u32>, checksum: EventChecksum },
    /// Next bytes of this event.
    Body(Vec<u8>),
    /// End of this event: the assembler writes the checksum now.
    Tail,
    /// Placeholder for a GTID event: only the size is known.
    GtidPlaceholder(Vec<u8>),
    /// The final GTID event for the placeholder. `fixup` has its checksum if its header states its
    /// position in this log.
    GtidFinal { bytes: Vec<u8>, fixup: Option<EventChecksum> },
}

/// Receives the output of a worker, in order.
pub(crate) trait PartSink {
    /// Receives one part of this size in bytes.
    fn push(&self, part: OutputPart, size: usize) -> Result<(), RewriteError>;
}

impl PartSink for PartSender<'_, OutputPart> {
    fn push(&self, part: OutputPart, size: usize) -> Result<(), RewriteError> {
        Ok(PartSender::push(self, part, size)?)
    }
}

/// Opens the log again.
pub(crate) type LogOpener<'o> = &'o (dyn Fn() -> Result<LogReader, logs::LogError> + Sync);

/// Bytes per part, for events that are decompressed or copied.
pub(crate) const PART_SIZE: usize = 1024 * 1024;

/// GTID event before a payload.
#[derive(Clone, Copy)]
struct PayloadGtid<'e> {
    event: &'e LogEvent<'e>,
    format: &'e EventFormat,
    /// Position of the next event for the headers; `None` if the headers state positions in the new log.
    next: Option<u32>,
}

/// State that all workers of one log share.
pub(crate) struct RewriteShared<'o> {
    pub(crate) action: RewriteAction,
    pub(crate) open: LogOpener<'o>,
    pub(crate) name: &'o str,
    pub(crate) sizes: &'o RewriteLimits,
    pub(crate) writers: &'o WriterPool,
    pub(crate) spare: &'o SpareBuffers,
}

/// State of one worker thread.
pub(crate) struct RewriteWorker<'o> {
    pub(crate) shared: &'o RewriteShared<'o>,
    /// Released before a part is pushed, because pushing may block.
    writer: Option<PooledWriter<'o>>,
    pub(crate) opener: PayloadOpener,
    pub(crate) inner: Vec<u8>,
    pub(crate) batch: EventBatch<'o>,
}

/// Contexts and buffers of a worker. The next worker can reuse them.
#[derive(Debug)]
pub(crate) struct WorkerBuffers {
    opener: PayloadOpener,
    inner: Vec<u8>,
}

impl WorkerBuffers {
    pub(crate) fn new() -> Self {
        Self { opener: PayloadOpener::new(), inner: Vec::new() }
    }
}

/// Output that is not pushed yet.
pub(crate) struct EventBatch<'o> {
    spare: &'o SpareBuffers,
    bytes: Vec<u8>,
    fixups: Vec<PositionFixup>,
    moved: Vec<(u64, u32)>,
    pub(crate) tally: RewriteTally,
    /// Bytes of whole segments at the start of `bytes`; `None` if a part of the present segment was pushed.
    whole: Option<usize>,
}

impl<'o> RewriteWorker<'o> {
    pub(crate) fn new(shared: &'o RewriteShared<'o>) -> Self {
        Self::with_buffers(shared, WorkerBuffers::new())
    }

    pub(crate) fn with_buffers(shared: &'o RewriteShared<'o>, buffers: WorkerBuffers) -> Self {
        let WorkerBuffers { opener, inner } = buffers;
        Self { shared, writer: None, opener, inner, batch: EventBatch::new(shared.spare) }
    }

    pub(crate) fn into_buffers(self) -> WorkerBuffers {
        self.shared.spare.put_back(self.batch.bytes);
        WorkerBuffers { opener: self.opener, inner: self.inner }
    }

    pub(crate) fn rewrite_unit(
        &mut self,
        unit: RewriteUnit,
        sender: &dyn PartSink,
    ) -> Result<(), RewriteError> {
        match unit.content {
            UnitContent::Small(segments) => {
                for segment in &segments {
                    self.rewrite_segment(segment, unit.kind, sender)?;
                }
            }
            UnitContent::Large(large) => {
                self.rewrite_large(&large, unit.kind, sender)?;
                self.batch.end_segment();
            }
        }
        self.flush(sender)
    }

    /// Pushes the segments before the failed one. Parts of the failed segment may already be pushed.
    pub(crate) fn drop_failed_segment(&mut self, sender: &dyn PartSink) -> Result<(), RewriteError> {
        self.batch.drop_open_segment();
        self.flush(sender)
    }

    fn flush(&mut self, sender: &dyn PartSink) -> Result<(), RewriteError> {
        self.writer = None;
        self.batch.flush(sender)
    }

    fn rewrite_segment(
        &mut self,
        segment: &RewriteSegment,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<(), RewriteError> {
        let size = segment.parts.iter().map(|part| part.bytes().len() as u64).sum::<u64>();
        self.batch.tally.bytes_before += size;
        if segment.action != SegmentAction::NoTransaction {
            self.batch.tally.transactions += 1;
            if let Some(first) = segment.parts.first() {
                self.batch.start_transaction(first.offset());
            }
        }
        if let SegmentAction::Pass(PassReason::Refused(reason)) = segment.action {
            let refused = self.batch.tally.refused.entry(reason).or_default();
            *refused = (refused.0 + 1, refused.1 + size);
        }
        for event in segment.parts.iter().flat_map(logs::EventChunk::iter) {
            let at = ErrorContext { name: self.shared.name, offset: event.offset };
            event.raw.verify().map_err(|error| at.decode_error(error))?;
        }
        let done = match (segment.action, self.shared.action) {
            (SegmentAction::Compress, RewriteAction::Compress(settings)) => {
                self.compress(segment, settings, kind, size)?
            }
            (SegmentAction::Decompress, _) => self.decompress_transaction(segment, kind, sender)?,
            (SegmentAction::Recompress, RewriteAction::Compress(settings)) => {
                self.recompress(segment, settings, kind, sender)?
            }
            _ => false,
        };
        if !done {
            self.pass(segment, kind)?;
        }
        self.batch.end_segment();
        match self.batch.is_full() {
            true => self.flush(sender),
            false => Ok(()),
        }
    }

    fn pass(&mut self, segment: &RewriteSegment, kind: LogKind) -> Result<(), RewriteError> {
        for part in &segment.parts {
            for event in part.iter() {
                match self.is_to_be_extended(&event, part.format()) {
                    true => self.extend_format(&event, part.format(), kind)?,
                    false => self.batch.pass(&event, kind),
                }
            }
        }
        Ok(())
    }

    fn is_to_be_extended(&self, event: &LogEvent<'_>, format: &EventFormat) -> bool {
        event.raw.event_type() == EventType::FormatDescription
            && matches!(self.shared.action, RewriteAction::Compress(settings) if settings.old_format == OldFormatPolicy::Extend)
            && !format.knows_payloads()
    }

    /// Adds the format description, extended by payload events.
    fn extend_format(
        &mut self,
        event: &LogEvent<'_>,
        format: &EventFormat,
        kind: LogKind,
    ) -> Result<(), RewriteError> {
        let at = ErrorContext { name: self.shared.name, offset: event.offset };
        let Event::FormatDescription(old) =
            event.raw.decode(format).map_err(|error| at.decode_error(error))?
        else {
            return Ok(());
        };
        let mut sizes = Vec::new();
        let extended = Event::FormatDescription(old.with_payloads(&mut sizes));
        let header = event.raw.header();
        let next = (!has_own_position(event, kind)).then_some(header.next_position);
        let put = self.batch.push_event(event.raw.checksum(), next, |position, out| {
            extended.write(header.origin(), position, format, out)
        });
        put.map_err(|error| at.corrupt_error(&error))
    }

    /// Compresses a plain transaction. Returns false if it has to stay plain.
    fn compress(
        &mut self,
        segment: &RewriteSegment,
        settings: CompressSettings,
        kind: LogKind,
        size: u64,
    ) -> Result<bool, RewriteError> {
        let Some(first) = segment.parts.first() else { return Ok(false) };
        let mut events = segment.parts.iter().flat_map(logs::EventChunk::iter);
        let Some(gtid) = events.next() else { return Ok(false) };
        self.inner.clear();
        let mut last = gtid;
        for event in events {
            put_inner(&event.raw, &mut self.inner);
            last = event;
        }
        let next = relay_position(kind, &last.raw);
        let gtid = PayloadGtid { event: &gtid, format: first.format(), next };
        self.write_payload(&gtid, settings, size)
    }

    /// Compresses a compressed transaction again.
    fn recompress(
        &mut self,
        segment: &RewriteSegment,
        settings: CompressSettings,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<bool, RewriteError> {
        let Some(CompressedTransaction { gtid, payload, body, format }) =
            compressed_transaction(self.shared.name, segment)?
        else {
            return Ok(false);
        };
        let at = ErrorContext { name: self.shared.name, offset: payload.offset };
        let before = (gtid.raw.bytes().len() + payload.raw.bytes().len()) as u64;
        let next = relay_position(kind, &payload.raw);
        let started = Instant::now();
        self.inner.clear();
        let mut inner = self.opener.open(&body).map_err(|error| at.payload_error(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload_error(error))? {
            if inner_fits(self.inner.len(), event, self.shared.sizes.large) {
                self.inner.extend_from_slice(event.bytes());
            }
        }
        let inner_size = inner.summary().uncompressed_size;
        self.batch.tally.opening.record(started.elapsed());
        if inner_size == self.inner.len() as u64 {
            let gtid = PayloadGtid { event: &gtid, format, next };
            return self.write_payload(&gtid, settings, before);
        }
        let started = Instant::now();
        self.writer = None;
        let alone = self.shared.writers.acquire_exclusive();
        let mut file = PayloadFile::begin(self.shared, inner_size)?;
        let mut inner = self.opener.open(&body).map_err(|error| at.payload_error(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload_error(error))? {
            if !file.push(event.bytes())? {
                self.batch.tally.too_large += 1;
                return Ok(false);
            }
        }
        let spooled = SpooledPayload {
            start: gtid.offset,
            gtid: gtid.raw.to_buf(),
            next,
            format: format.clone(),
            payload: file.end()?,
            inner_size,
        };
        drop(alone);
        self.batch.tally.compressing.record(started.elapsed());
        self.write_spooled_payload(spooled, settings, before, sender)
    }

    /// Compresses `self.inner` into a payload event, and adds it after the GTID event. `size` is the size of the old
    /// transaction.
    fn write_payload(
        &mut self,
        gtid: &PayloadGtid<'_>,
        settings: CompressSettings,
        size: u64,
    ) -> Result<bool, RewriteError> {
        let PayloadGtid { event: gtid, format, next } = *gtid;
        let started = Instant::now();
        if self.writer.is_none() {
            self.writer = Some(self.shared.writers.acquire()?);
        }
        let Some(lent) = &mut self.writer else { return Ok(false) };
        let frame = match lent.writer().frame(&self.inner) {
            Ok(frame) => frame,
            Err(CompressError::TooLarge { .. }) => {
                self.batch.tally.too_large += 1;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.batch.tally.compressing.record(started.elapsed());
        let checksum = gtid.raw.checksum();
        let mut fields = Vec::new();
        let payload = events::TransactionPayload::zstd(self.inner.len() as u64, frame, &mut fields);
        let body_size = payload.fields.len() + payload.payload.len();
        let after = (HEADER_SIZE + body_size + checksum.size()) as u64;
        if !is_worth_it(settings.minimum_gain, size, after + gtid.raw.bytes().len() as u64) {
            self.batch.tally.not_worth_it += 1;
            return Ok(false);
        }
        let at = ErrorContext { name: self.shared.name, offset: gtid.offset };
        self.batch.tally.compressed += 1;
        self.batch.tally.inner_bytes += self.inner.len() as u64;
        self.batch.tally.payload_bytes += frame.len() as u64;
        self.batch.push_gtid(&gtid.raw, after, format, next).map_err(|error| at.corrupt_error(&error))?;
        let origin = events::TransactionPayload::origin(&gtid.raw);
        self.batch
            .push_event(checksum, next, |position, out| {
                Event::TransactionPayload(payload).write(origin, position, format, out)
            })
            .map_err(|error| at.corrupt_error(&error))?;
        Ok(true)
    }

    fn rewrite_large(
        &mut self,
        large: &LargeTransaction,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<(), RewriteError> {
        let size = large.end - large.start;
        self.batch.tally.bytes_before += size;
        self.batch.tally.transactions += u64::from(large.action != SegmentAction::NoTransaction);
        if let SegmentAction::Pass(PassReason::Refused(reason)) = large.action {
            self.batch.tally.refused.insert(reason, (1, size));
        }
        if let (SegmentAction::Compress, RewriteAction::Compress(settings)) =
            (large.action, self.shared.action)
            && self.compress_large(large, settings, kind, sender)?
        {
            return Ok(());
        }
        let is_transaction = large.action != SegmentAction::NoTransaction;
        let mut first = true;
        for_each_event(self.shared, large, |event, _| {
            if std::mem::take(&mut first) && is_transaction {
                self.batch.start_transaction(event.offset);
            }
            self.batch.pass(&event, kind);
            match self.batch.is_full() {
                true => self.batch.flush(sender),
                false => Ok(()),
            }
        })
    }

    /// Compresses a transaction while it is read. Returns false if it has to stay plain.
    fn compress_large(
        &mut self,
        large: &LargeTransaction,
        settings: CompressSettings,
        kind: LogKind,
        sender: &dyn PartSink,
    ) -> Result<bool, RewriteError> {
        let alone = self.shared.writers.acquire_exclusive();
        let started = Instant::now();
        let spooled = spool_payload(self.shared, large, kind, &mut self.inner)?;
        drop(alone);
        let Some(spooled) = spooled else {
            self.batch.tally.too_large += 1;
            return Ok(false);
        };
        self.batch.tally.compressing.record(started.elapsed());
        self.batch.start_transaction(large.start);
        let done = self.write_spooled_payload(spooled, settings, large.end - large.start, sender)?;
        if !done {
            self.batch.moved.clear();
        }
        Ok(done)
    }

    /// Pushes the GTID event and the spooled payload. Returns false if the gain is too small.
    fn write_spooled_payload(
        &mut self,
        mut spooled: SpooledPayload,
        settings: CompressSettings,
        before: u64,
        sender: &dyn PartSink,
    ) -> Result<bool, RewriteError> {
        let mut fields = Vec::new();
        let payload_size = spooled.payload.size();
        events::TransactionPayload::put_zstd_fields(spooled.inner_size, payload_size, &mut fields);
        let gtid = spooled.gtid.as_raw();
        let after = (HEADER_SIZE + fields.len() + gtid.checksum().size()) as u64 + payload_size;
        if !is_worth_it(settings.minimum_gain, before, after + gtid.bytes().len() as u64) {
            self.batch.tally.not_worth_it += 1;
            return Ok(false);
        }
        self.batch.tally.compressed += 1;
        self.batch.tally.inner_bytes += spooled.inner_size;
        self.batch.tally.payload_bytes += payload_size;
        let at = ErrorContext { name: self.shared.name, offset: spooled.start };
        let put = self.batch.push_gtid(&gtid, after, &spooled.format, spooled.next);
        put.map_err(|error| at.corrupt_error(&error))?;
        self.batch.flush(sender)?;
        spooled.push_event(&fields, after as u32, sender)?;
        Ok(true)
    }
}

/// Returns true if the events so far plus this one still count as small.
fn inner_fits(size: usize, event: RawEvent<'_>, large: u64) -> bool {
    (size + event.bytes().len()) as u64 <= large
}

impl<'o> EventBatch<'o> {
    fn new(spare: &'o SpareBuffers) -> Self {
        let (fixups, moved) = (Vec::new(), Vec::new());
        Self { spare, bytes: spare.take(), fixups, moved, tally: RewriteTally::default(), whole: Some(0) }
    }

    fn end_segment(&mut self) {
        self.whole = Some(self.bytes.len());
    }

    /// Removes the incomplete present segment.
    fn drop_open_segment(&mut self) {
        let end = self.whole.unwrap_or_default();
        self.bytes.truncate(end);
        self.fixups.retain(|fixup| (fixup.start as usize) < end);
        self.moved.retain(|(_, start)| (*start as usize) < end);
    }

    /// Pushes the segments so far. Parts of the present segment follow, and other functions push some of them.
    pub(crate) fn flush_before_parts(&mut self, sender: &dyn PartSink) -> Result<(), RewriteError> {
        self.flush(sender)?;
        self.whole = None;
        Ok(())
    }

    /// Records the new start of the transaction that started at `before`.
    fn start_transaction(&mut self, before: u64) {
        self.moved.push((before, self.bytes.len() as u32));
    }

    fn pass(&mut self, event: &LogEvent<'_>, kind: LogKind) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(event.raw.bytes());
        if has_own_position(event, kind) {
            self.fixups.push(PositionFixup { start, checksum: event.raw.checksum() });
        }
    }

    /// Returns true if the batch is large enough to be pushed.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes.len() >= PART_SIZE
    }

    pub(crate) fn push_gtid(
        &mut self,
        raw: &RawEvent<'_>,
        after: u64,
        format: &EventFormat,
        next: Option<u32>,
    ) -> Result<(), binlog::GtidRewriteError> {
        let next = next.map(|_| raw.header().next_position);
        self.push_event(raw.checksum(), next, |position, out| {
            put_gtid_resized(raw, after, position, format, out)
        })
    }

    /// Adds a decompressed event.
    pub(crate) fn push_inner(
        &mut self,
        event: RawEvent<'_>,
        checksum: EventChecksum,
        next: Option<u32>,
    ) -> Result<(), binlog::EncodeError> {
        let origin = event.header().origin();
        self.push_event(checksum, next, |position, out| event.rewrite(origin, position, checksum, out))
    }

    /// Adds an event. In a binary log, the header states the position in this log; in a relay log, the position at the
    /// source.
    pub(crate) fn push_event<E>(
        &mut self,
        checksum: EventChecksum,
        next: Option<u32>,
        put: impl FnOnce(NextPosition, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len() as u32;
        put(NextPosition::Fixed(next.unwrap_or_default()), &mut self.bytes)?;
        if next.is_none() {
            self.fixups.push(PositionFixup { start, checksum });
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self, sender: &dyn PartSink) -> Result<(), RewriteError> {
        let Self { bytes, fixups, moved, tally, whole, .. } = std::mem::replace(self, Self::new(self.spare));
        self.whole = (whole == Some(bytes.len())).then_some(0);
        let cost = bytes.len() + fixups.len() * size_of::<PositionFixup>();
        sender.push(OutputPart::Events { bytes, fixups, moved, tally: Box::new(tally), whole }, cost)
    }
}

/// Returns true if the event's header states its end in this log. In relay logs, only headers of the replica's own
/// events do so.
fn has_own_position(event: &LogEvent<'_>, kind: LogKind) -> bool {
    let header = event.raw.header();
    let is_own = match kind {
        LogKind::Binary => true,
        LogKind::Relay => header.flags.contains(binlog::EventFlags::RELAY_LOG),
    };
    is_own && header.next_position == event.end() as u32
}

/// Returns the position of a payload event in a relay log: the source's position of the last event inside.
pub(crate) fn relay_position(kind: LogKind, last: &RawEvent<'_>) -> Option<u32> {
    match kind {
        LogKind::Binary => None,
        LogKind::Relay => Some(last.header().next_position),
    }
}

/// A compressed transaction.
pub(crate) struct CompressedTransaction<'s> {
    pub(crate) gtid: LogEvent<'s>,
    pub(crate) payload: LogEvent<'s>,
    pub(crate) body: events::TransactionPayload<'s>,
    pub(crate) format: &'s EventFormat,
}

pub(crate) fn compressed_transaction<'s>(
    name: &str,
    segment: &'s RewriteSegment,
) -> Result<Option<CompressedTransaction<'s>>, RewriteError> {
    let mut events = segment.parts.iter().flat_map(logs::EventChunk::iter);
    let (Some(first), Some(gtid), Some(payload)) = (segment.parts.first(), events.next(), events.next())
    else {
        return Ok(None);
    };
    let (format, at) = (first.format(), ErrorContext { name, offset: payload.offset });
    match payload.raw.decode(format).map_err(|error| at.decode_error(error))? {
        Event::TransactionPayload(body) => Ok(Some(CompressedTransaction { gtid, payload, body, format })),
        _ => Ok(None),
    }
}

fn is_worth_it(keep: MinimumGain, before: u64, after: u64) -> bool {
    match keep {
        MinimumGain::None => true,
        MinimumGain::Percent(percent) => {
            let most = u128::from(before) * u128::from(100 - percent.min(100));
            after < before && u128::from(after) * 100 <= most
        }
    }
}
