//! Rewrites units of a log. The new events get their positions later.

use std::time::Instant;

use binlog::{
    Checksum, CompressError, Event, EventType, Format, HEADER_SIZE, NextPosition, PayloadOpener, RawEvent,
    events, put_gtid_resized, put_inner,
};
use logs::ordered::Outlet;
use logs::{LogEvent, LogKind, LogReader};

use crate::error::{At, Error};
use crate::feed::{Fate, LargeTransaction, Passing, Segment, Unit, Work};
use crate::large::{PayloadFile, Spooled, each_event, spool};
use crate::place::Placed;
use crate::spare::Spare;
use crate::tally::Tally;
use crate::writers::{Lent, Writers};
use crate::{Action, Compression, Keep, OldFormat, Sizes};

/// Output of the workers.
pub(crate) enum Part {
    /// Whole events.
    Events {
        bytes: Vec<u8>,
        /// Events whose headers state their position in this log.
        placed: Vec<Placed>,
        /// Old starts of transactions, and their new starts in `bytes`.
        moved: Vec<(u64, u32)>,
        tally: Box<Tally>,
    },
    /// Start of an event that comes in pieces: of `size` bytes including its checksum.
    Head { bytes: Vec<u8>, size: u32, next: Option<u32>, checksum: Checksum },
    /// Next bytes of this event.
    Body(Vec<u8>),
    /// End of this event: its checksum is written now.
    Tail,
    /// Placeholder for a GTID event whose size is known and whose content is not.
    Reserved(Vec<u8>),
    /// The final GTID event for the placeholder. `placed` if its header states its position in this log.
    Settled { bytes: Vec<u8>, placed: Option<Checksum> },
}

/// Opens the log again.
pub(crate) type Open<'o> = &'o (dyn Fn() -> Result<LogReader, logs::Error> + Sync);

/// Bytes per part, for events that are decompressed or copied.
pub(crate) const PART_SIZE: usize = 1024 * 1024;

/// State that all workers of one log share.
pub(crate) struct Shop<'o> {
    pub(crate) action: Action,
    pub(crate) open: Open<'o>,
    pub(crate) name: &'o str,
    pub(crate) sizes: &'o Sizes,
    pub(crate) writers: Writers,
    spare: &'o Spare,
}

impl<'o> Shop<'o> {
    pub(crate) fn new(
        action: Action,
        open: Open<'o>,
        name: &'o str,
        sizes: &'o Sizes,
        spare: &'o Spare,
    ) -> Self {
        Self { action, open, name, sizes, writers: Writers::new(action), spare }
    }
}

/// State of one worker thread.
pub(crate) struct Worker<'o> {
    pub(crate) shop: &'o Shop<'o>,
    /// Released before a part is pushed, because pushing may block.
    writer: Option<Lent<'o>>,
    pub(crate) opener: PayloadOpener,
    pub(crate) inner: Vec<u8>,
    pub(crate) batch: Batch<'o>,
}

/// Output that is not pushed yet.
pub(crate) struct Batch<'o> {
    spare: &'o Spare,
    bytes: Vec<u8>,
    placed: Vec<Placed>,
    moved: Vec<(u64, u32)>,
    pub(crate) tally: Tally,
}

impl<'o> Worker<'o> {
    pub(crate) fn new(shop: &'o Shop<'o>) -> Self {
        let (opener, batch) = (PayloadOpener::new(), Batch::new(shop.spare));
        Self { shop, writer: None, opener, inner: Vec::new(), batch }
    }

    pub(crate) fn work(&mut self, unit: Unit, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        match unit.work {
            Work::Small(segments) => {
                for segment in &segments {
                    self.segment(segment, unit.kind, outlet)?;
                }
            }
            Work::Large(large) => self.large(&large, unit.kind, outlet)?,
        }
        self.flush(outlet)
    }

    fn flush(&mut self, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        self.writer = None;
        self.batch.flush(outlet)
    }

    fn segment(&mut self, segment: &Segment, kind: LogKind, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        let size = segment.parts.iter().map(|part| part.bytes().len() as u64).sum::<u64>();
        self.batch.tally.bytes_before += size;
        if segment.fate != Fate::Between {
            self.batch.tally.transactions += 1;
            if let Some(first) = segment.parts.first() {
                self.batch.start(first.offset());
            }
        }
        if let Fate::Pass(Passing::Refused(reason)) = segment.fate {
            let refused = self.batch.tally.refused.entry(reason).or_default();
            *refused = (refused.0 + 1, refused.1 + size);
        }
        for event in segment.parts.iter().flat_map(logs::Chunk::iter) {
            let at = At { name: self.shop.name, offset: event.offset };
            event.raw.verify().map_err(|error| at.decode(error))?;
        }
        let done = match (segment.fate, self.shop.action) {
            (Fate::Compress, Action::Compress(how)) => self.compress(segment, how, kind, size)?,
            (Fate::Open, _) => self.open_payloads(segment, kind, outlet)?,
            (Fate::Recompress, Action::Compress(how)) => self.recompress(segment, how, kind, outlet)?,
            _ => false,
        };
        if !done {
            self.pass(segment, kind)?;
        }
        match self.batch.is_full() {
            true => self.flush(outlet),
            false => Ok(()),
        }
    }

    fn pass(&mut self, segment: &Segment, kind: LogKind) -> Result<(), Error> {
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

    fn is_to_be_extended(&self, event: &LogEvent<'_>, format: &Format) -> bool {
        event.raw.event_type() == EventType::FormatDescription
            && matches!(self.shop.action, Action::Compress(how) if how.old_format == OldFormat::Extend)
            && !format.knows_payloads()
    }

    /// Adds the format description, extended by payload events.
    fn extend_format(&mut self, event: &LogEvent<'_>, format: &Format, kind: LogKind) -> Result<(), Error> {
        let at = At { name: self.shop.name, offset: event.offset };
        let Event::FormatDescription(old) = event.raw.decode(format).map_err(|error| at.decode(error))?
        else {
            return Ok(());
        };
        let mut sizes = Vec::new();
        let extended = Event::FormatDescription(old.with_payloads(&mut sizes));
        let header = event.raw.header();
        let next = (!says_its_place(event, kind)).then_some(header.next_position);
        let put = self.batch.event(event.raw.checksum(), next, |position, out| {
            extended.write(header.origin(), position, format, out)
        });
        put.map_err(|error| at.corrupt(&error))
    }

    /// Compresses a plain transaction. Returns false if it has to stay plain.
    fn compress(
        &mut self,
        segment: &Segment,
        how: Compression,
        kind: LogKind,
        size: u64,
    ) -> Result<bool, Error> {
        let Some(first) = segment.parts.first() else { return Ok(false) };
        let mut events = segment.parts.iter().flat_map(logs::Chunk::iter);
        let Some(gtid) = events.next() else { return Ok(false) };
        self.inner.clear();
        let mut last = gtid;
        for event in events {
            put_inner(&event.raw, &mut self.inner);
            last = event;
        }
        let next = relay_position(kind, &last.raw);
        self.close(&gtid, first.format(), how, next, size)
    }

    /// Compresses a compressed transaction again.
    fn recompress(
        &mut self,
        segment: &Segment,
        how: Compression,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let Some(Closed { gtid, payload, body, format }) = closed(self.shop.name, segment)? else {
            return Ok(false);
        };
        let at = At { name: self.shop.name, offset: payload.offset };
        let before = (gtid.raw.bytes().len() + payload.raw.bytes().len()) as u64;
        let next = relay_position(kind, &payload.raw);
        let started = Instant::now();
        self.inner.clear();
        let mut inner = self.opener.open(&body).map_err(|error| at.payload(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
            if inner_fits(self.inner.len(), event, self.shop.sizes.large) {
                self.inner.extend_from_slice(event.bytes());
            }
        }
        let inner_size = inner.summary().uncompressed_size;
        self.batch.tally.opening.note(started.elapsed());
        if inner_size == self.inner.len() as u64 {
            return self.close(&gtid, format, how, next, before);
        }
        let started = Instant::now();
        self.writer = None;
        let alone = self.shop.writers.alone();
        let mut file = PayloadFile::begin(self.shop, inner_size)?;
        let mut inner = self.opener.open(&body).map_err(|error| at.payload(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
            if !file.push(event.bytes())? {
                self.batch.tally.too_large += 1;
                return Ok(false);
            }
        }
        let spooled = Spooled {
            gtid: gtid.raw.to_buf(),
            next,
            format: format.clone(),
            payload: file.end()?,
            inner_size,
        };
        drop(alone);
        self.batch.tally.compressing.note(started.elapsed());
        self.close_spooled(spooled, how, before, outlet)
    }

    /// Compresses `self.inner` into a payload event and adds it behind its GTID event.
    fn close(
        &mut self,
        gtid: &LogEvent<'_>,
        format: &Format,
        how: Compression,
        next: Option<u32>,
        size: u64,
    ) -> Result<bool, Error> {
        let started = Instant::now();
        if self.writer.is_none() {
            self.writer = Some(self.shop.writers.lend()?);
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
        self.batch.tally.compressing.note(started.elapsed());
        let checksum = gtid.raw.checksum();
        let mut fields = Vec::new();
        let payload = events::TransactionPayload::zstd(self.inner.len() as u64, frame, &mut fields);
        let body_size = payload.fields.len() + payload.payload.len();
        let behind = (HEADER_SIZE + body_size + checksum.size()) as u64;
        if !pays(how.keep, size, behind + gtid.raw.bytes().len() as u64) {
            self.batch.tally.not_worth_it += 1;
            return Ok(false);
        }
        let at = At { name: self.shop.name, offset: gtid.offset };
        self.batch.tally.compressed += 1;
        self.batch.tally.inner_bytes += self.inner.len() as u64;
        self.batch.tally.payload_bytes += frame.len() as u64;
        self.batch.gtid(&gtid.raw, behind, format, next).map_err(|error| at.corrupt(&error))?;
        let origin = events::TransactionPayload::origin(&gtid.raw);
        self.batch
            .event(checksum, next, |position, out| {
                Event::TransactionPayload(payload).write(origin, position, format, out)
            })
            .map_err(|error| at.corrupt(&error))?;
        Ok(true)
    }

    fn large(
        &mut self,
        large: &LargeTransaction,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<(), Error> {
        let size = large.end - large.start;
        self.batch.tally.bytes_before += size;
        self.batch.tally.transactions += u64::from(large.fate != Fate::Between);
        if let Fate::Pass(Passing::Refused(reason)) = large.fate {
            self.batch.tally.refused.insert(reason, (1, size));
        }
        if let (Fate::Compress, Action::Compress(how)) = (large.fate, self.shop.action)
            && self.compress_large(large, how, kind, outlet)?
        {
            return Ok(());
        }
        let is_transaction = large.fate != Fate::Between;
        let mut first = true;
        each_event(self.shop, large, |event, _| {
            if std::mem::take(&mut first) && is_transaction {
                self.batch.start(event.offset);
            }
            self.batch.pass(&event, kind);
            match self.batch.is_full() {
                true => self.batch.flush(outlet),
                false => Ok(()),
            }
        })
    }

    /// Compresses a transaction while it is read. Returns false if it has to stay plain.
    fn compress_large(
        &mut self,
        large: &LargeTransaction,
        how: Compression,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let alone = self.shop.writers.alone();
        let started = Instant::now();
        let spooled = spool(self.shop, large, kind, &mut self.inner)?;
        drop(alone);
        let Some(spooled) = spooled else {
            self.batch.tally.too_large += 1;
            return Ok(false);
        };
        self.batch.tally.compressing.note(started.elapsed());
        self.batch.start(large.start);
        let done = self.close_spooled(spooled, how, large.end - large.start, outlet)?;
        if !done {
            self.batch.moved.clear();
        }
        Ok(done)
    }

    /// Pushes the GTID event and the spooled payload. Returns false if the gain is too small.
    fn close_spooled(
        &mut self,
        mut spooled: Spooled,
        how: Compression,
        before: u64,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let mut fields = Vec::new();
        let payload_size = spooled.payload.size();
        events::TransactionPayload::put_zstd_fields(spooled.inner_size, payload_size, &mut fields);
        let gtid = spooled.gtid.as_raw();
        let behind = (HEADER_SIZE + fields.len() + gtid.checksum().size()) as u64 + payload_size;
        if !pays(how.keep, before, behind + gtid.bytes().len() as u64) {
            self.batch.tally.not_worth_it += 1;
            return Ok(false);
        }
        self.batch.tally.compressed += 1;
        self.batch.tally.inner_bytes += spooled.inner_size;
        self.batch.tally.payload_bytes += payload_size;
        let at = At { name: self.shop.name, offset: 0 };
        let put = self.batch.gtid(&gtid, behind, &spooled.format, spooled.next);
        put.map_err(|error| at.corrupt(&error))?;
        self.batch.flush(outlet)?;
        spooled.hand_on(&fields, behind as u32, outlet)?;
        Ok(true)
    }
}

/// Returns true if the events so far plus this one still count as small.
fn inner_fits(size: usize, event: RawEvent<'_>, large: u64) -> bool {
    (size + event.bytes().len()) as u64 <= large
}

impl<'o> Batch<'o> {
    fn new(spare: &'o Spare) -> Self {
        let (placed, moved) = (Vec::new(), Vec::new());
        Self { spare, bytes: spare.take(), placed, moved, tally: Tally::default() }
    }

    /// Records that the transaction that started at `before` now starts here.
    fn start(&mut self, before: u64) {
        self.moved.push((before, self.bytes.len() as u32));
    }

    fn pass(&mut self, event: &LogEvent<'_>, kind: LogKind) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(event.raw.bytes());
        if says_its_place(event, kind) {
            self.placed.push(Placed { start, checksum: event.raw.checksum() });
        }
    }

    /// Returns true if the batch is large enough to be pushed.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes.len() >= PART_SIZE
    }

    pub(crate) fn gtid(
        &mut self,
        raw: &RawEvent<'_>,
        behind: u64,
        format: &Format,
        next: Option<u32>,
    ) -> Result<(), binlog::ResizeError> {
        let next = next.map(|_| raw.header().next_position);
        self.event(raw.checksum(), next, |position, out| put_gtid_resized(raw, behind, position, format, out))
    }

    /// Adds a decompressed event.
    pub(crate) fn inner(
        &mut self,
        event: RawEvent<'_>,
        checksum: Checksum,
        next: Option<u32>,
    ) -> Result<(), binlog::EncodeError> {
        let origin = event.header().origin();
        self.event(checksum, next, |position, out| event.rewrite(origin, position, checksum, out))
    }

    /// Adds an event. In a binary log it states its position in this log, in a relay log its position at the source.
    pub(crate) fn event<E>(
        &mut self,
        checksum: Checksum,
        next: Option<u32>,
        put: impl FnOnce(NextPosition, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len() as u32;
        put(NextPosition::Is(next.unwrap_or_default()), &mut self.bytes)?;
        if next.is_none() {
            self.placed.push(Placed { start, checksum });
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        let Self { bytes, placed, moved, tally, .. } = std::mem::replace(self, Self::new(self.spare));
        let cost = bytes.len() + placed.len() * size_of::<Placed>();
        Ok(outlet.push(Part::Events { bytes, placed, moved, tally: Box::new(tally) }, cost)?)
    }
}

/// Returns true if the event's header states its end in this log. In relay logs only the replica's own events do.
fn says_its_place(event: &LogEvent<'_>, kind: LogKind) -> bool {
    let header = event.raw.header();
    let is_own = match kind {
        LogKind::Binary => true,
        LogKind::Relay => header.flags.contains(binlog::Flags::RELAY_LOG),
    };
    is_own && header.next_position == event.end() as u32
}

/// Returns the position of a payload event in a relay log: that of its last event, at the source.
pub(crate) fn relay_position(kind: LogKind, last: &RawEvent<'_>) -> Option<u32> {
    match kind {
        LogKind::Binary => None,
        LogKind::Relay => Some(last.header().next_position),
    }
}

/// A compressed transaction.
pub(crate) struct Closed<'s> {
    pub(crate) gtid: LogEvent<'s>,
    pub(crate) payload: LogEvent<'s>,
    pub(crate) body: events::TransactionPayload<'s>,
    pub(crate) format: &'s Format,
}

pub(crate) fn closed<'s>(name: &str, segment: &'s Segment) -> Result<Option<Closed<'s>>, Error> {
    let mut events = segment.parts.iter().flat_map(logs::Chunk::iter);
    let (Some(first), Some(gtid), Some(payload)) = (segment.parts.first(), events.next(), events.next())
    else {
        return Ok(None);
    };
    let (format, at) = (first.format(), At { name, offset: payload.offset });
    match payload.raw.decode(format).map_err(|error| at.decode(error))? {
        Event::TransactionPayload(body) => Ok(Some(Closed { gtid, payload, body, format })),
        _ => Ok(None),
    }
}

fn pays(keep: Keep, before: u64, after: u64) -> bool {
    match keep {
        Keep::None => true,
        Keep::GainBelow(percent) => {
            let most = u128::from(before) * u128::from(100 - percent.min(100));
            after < before && u128::from(after) * 100 <= most
        }
    }
}
