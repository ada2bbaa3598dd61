//! Turns units of a log into other bytes, which have no place yet.

use std::io::{Read, Seek, Write};
use std::time::Instant;

use binlog::{
    Checksum, CompressError, Event, EventType, Format, HEADER_SIZE, Header, NextPosition, PayloadOpener,
    PayloadWriter, RawEvent, RawEventBuf, events, put_gtid_resized, put_inner,
};
use logs::ordered::Outlet;
use logs::{LogEvent, LogKind, LogReader, Next};
use tempfile::SpooledTempFile;

use crate::error::{At, Error};
use crate::feed::{Fate, LargeTransaction, Passing, Segment, Unit, Work};
use crate::place::Placed;
use crate::tally::Tally;
use crate::{Action, Compression, Keep};

/// What workers hand on.
pub(crate) enum Part {
    /// Whole events.
    Events {
        bytes: Vec<u8>,
        /// Those whose headers say where they stand.
        placed: Vec<Placed>,
        /// Where transactions started, and where they start in `bytes`.
        moved: Vec<(u64, u32)>,
        tally: Box<Tally>,
    },
    /// The start of an event that comes in pieces: of `size` bytes with its checksum.
    Head { bytes: Vec<u8>, size: u32, next: Option<u32>, checksum: Checksum },
    /// More of it.
    Body(Vec<u8>),
    /// Its end: the checksum is due.
    Tail,
}

/// Opens the log again.
pub(crate) type Open<'o> = &'o (dyn Fn() -> Result<LogReader, logs::Error> + Sync);

/// What is handed on at once, of events that come out of a payload or pass.
const PART_SIZE: usize = 1024 * 1024;

/// A payload of more bytes is spooled to disk.
const SPOOL_SIZE: usize = 16 * 1024 * 1024;

/// One thread's tools.
pub(crate) struct Worker<'o> {
    action: Action,
    open: Open<'o>,
    name: &'o str,
    writer: Option<PayloadWriter>,
    opener: PayloadOpener,
    inner: Vec<u8>,
    batch: Batch,
}

/// What has been made and not handed on.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    placed: Vec<Placed>,
    moved: Vec<(u64, u32)>,
    tally: Tally,
}

impl<'o> Worker<'o> {
    pub(crate) fn new(action: Action, open: Open<'o>, name: &'o str) -> Self {
        Self {
            action,
            open,
            name,
            writer: None,
            opener: PayloadOpener::new(),
            inner: Vec::new(),
            batch: Batch::default(),
        }
    }

    pub(crate) fn work(&mut self, unit: Unit, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        self.batch = Batch::default();
        match unit.work {
            Work::Small(segments) => {
                for segment in &segments {
                    self.segment(segment, unit.kind, outlet)?;
                }
            }
            Work::Large(large) => self.large(&large, unit.kind, outlet)?,
        }
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
            let at = At { name: self.name, offset: event.offset };
            event.raw.verify().map_err(|error| at.decode(error))?;
        }
        let done = match (segment.fate, self.action) {
            (Fate::Compress, Action::Compress(how)) => self.compress(segment, how, kind, size)?,
            (Fate::Open, _) => self.open_payloads(segment, kind, outlet)?,
            (Fate::Recompress, Action::Compress(how)) => self.recompress(segment, how, kind, size)?,
            _ => false,
        };
        if !done {
            self.pass(segment, kind);
        }
        match self.batch.bytes.len() < PART_SIZE {
            true => Ok(()),
            false => self.batch.flush(outlet),
        }
    }

    fn pass(&mut self, segment: &Segment, kind: LogKind) {
        for event in segment.parts.iter().flat_map(logs::Chunk::iter) {
            self.batch.pass(&event, kind);
        }
    }

    /// Compresses a plain transaction; false when it has to stay plain.
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
        size: u64,
    ) -> Result<bool, Error> {
        let Some(Closed { gtid, payload, body, format }) = closed(self.name, segment)? else {
            return Ok(false);
        };
        let at = At { name: self.name, offset: payload.offset };
        let started = Instant::now();
        self.inner.clear();
        let mut inner = self.opener.open(&body).map_err(|error| at.payload(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
            self.inner.extend_from_slice(event.bytes());
        }
        self.batch.tally.opening.note(started.elapsed());
        self.close(&gtid, format, how, relay_position(kind, &payload.raw), size)
    }

    /// Puts what is in `self.inner` into a payload, with its GTID event in front.
    fn close(
        &mut self,
        gtid: &LogEvent<'_>,
        format: &Format,
        how: Compression,
        next: Option<u32>,
        size: u64,
    ) -> Result<bool, Error> {
        let started = Instant::now();
        let writer = writer(&mut self.writer, how)?;
        let frame = match writer.frame(&self.inner) {
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
        let at = At { name: self.name, offset: gtid.offset };
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

    /// Puts the events of a compressed transaction back behind its GTID event.
    fn open_payloads(
        &mut self,
        segment: &Segment,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let Some(Closed { gtid, payload, body, format }) = closed(self.name, segment)? else {
            return Ok(false);
        };
        let at = At { name: self.name, offset: payload.offset };
        let checksum = payload.raw.checksum();
        let started = Instant::now();
        let mut inner = self.opener.open(&body).map_err(|error| at.payload(error))?;
        let mut count = 0;
        while inner.next_event().map_err(|error| at.payload(error))?.is_some() {
            count += 1;
        }
        let inner_size = inner.summary().uncompressed_size;
        self.batch.tally.opening.note(started.elapsed());
        let behind = inner_size + count * checksum.size() as u64;
        let next = relay_position(kind, &payload.raw);
        let resized = self.batch.gtid(&gtid.raw, behind, format, next);
        resized.map_err(|error| at.corrupt(&error))?;
        let mut inner = self.opener.open(&body).map_err(|error| at.payload(error))?;
        while let Some(event) = inner.next_event().map_err(|error| at.payload(error))? {
            let origin = event.header().origin();
            let put = self
                .batch
                .event(checksum, next, |position, out| event.rewrite(origin, position, checksum, out));
            put.map_err(|error| at.corrupt(&error))?;
            if self.batch.bytes.len() >= PART_SIZE {
                self.batch.flush(outlet)?;
            }
        }
        self.batch.tally.opened += 1;
        self.batch.tally.inner_bytes += inner_size;
        self.batch.tally.payload_bytes += body.payload.len() as u64;
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
        if let (Fate::Compress, Action::Compress(how)) = (large.fate, self.action)
            && self.compress_large(large, how, kind, outlet)?
        {
            return Ok(());
        }
        let is_transaction = large.fate != Fate::Between;
        let mut first = true;
        each_event(self.open, self.name, large, |event, _| {
            if std::mem::take(&mut first) && is_transaction {
                self.batch.start(event.offset);
            }
            self.batch.pass(&event, kind);
            match self.batch.bytes.len() < PART_SIZE {
                true => Ok(()),
                false => self.batch.flush(outlet),
            }
        })
    }

    /// Compresses a transaction that is read as it goes; false when it has to stay plain.
    fn compress_large(
        &mut self,
        large: &LargeTransaction,
        how: Compression,
        kind: LogKind,
        outlet: &Outlet<'_, Part>,
    ) -> Result<bool, Error> {
        let mut writer = new_writer(how)?;
        writer.set_threads(threads())?;
        let started = Instant::now();
        let spooled = spool(self.open, self.name, large, &mut writer, &mut self.inner)?;
        let Some(mut spooled) = spooled else {
            self.batch.tally.too_large += 1;
            return Ok(false);
        };
        self.batch.tally.compressing.note(started.elapsed());
        let mut fields = Vec::new();
        events::TransactionPayload::put_zstd_fields(large.inner_size, spooled.size, &mut fields);
        let gtid = spooled.gtid.as_raw();
        let checksum = gtid.checksum();
        let behind = (HEADER_SIZE + fields.len() + checksum.size()) as u64 + spooled.size;
        if !pays(how.keep, large.end - large.start, behind + gtid.bytes().len() as u64) {
            self.batch.tally.not_worth_it += 1;
            return Ok(false);
        }
        self.batch.tally.compressed += 1;
        self.batch.tally.inner_bytes += large.inner_size;
        self.batch.tally.payload_bytes += spooled.size;
        self.batch.start(large.start);
        let next = match kind {
            LogKind::Binary => None,
            LogKind::Relay => Some(spooled.last.next_position),
        };
        let at = At { name: self.name, offset: large.start };
        self.batch.gtid(&gtid, behind, &spooled.format, next).map_err(|error| at.corrupt(&error))?;
        self.batch.flush(outlet)?;
        spooled.hand_on(&fields, behind as u32, next, outlet)?;
        Ok(true)
    }
}

/// A payload on disk, or in memory while it is small.
struct Spooled {
    gtid: RawEventBuf,
    last: Header,
    format: Format,
    file: SpooledTempFile,
    size: u64,
}

impl Spooled {
    fn hand_on(
        &mut self,
        fields: &[u8],
        size: u32,
        next: Option<u32>,
        outlet: &Outlet<'_, Part>,
    ) -> Result<(), Error> {
        let gtid = self.gtid.as_raw();
        let origin = events::TransactionPayload::origin(&gtid);
        let header = Header {
            timestamp: origin.timestamp,
            event_type: EventType::TransactionPayload,
            server_id: origin.server_id,
            size,
            next_position: 0,
            flags: origin.flags,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(fields);
        let cost = bytes.len();
        outlet.push(Part::Head { bytes, size, next, checksum: gtid.checksum() }, cost)?;
        self.file.rewind().map_err(spool_error)?;
        loop {
            let mut piece = Vec::with_capacity(PART_SIZE);
            let read = (&mut self.file).take(PART_SIZE as u64).read_to_end(&mut piece);
            if read.map_err(spool_error)? == 0 {
                return Ok(outlet.push(Part::Tail, 0)?);
            }
            let cost = piece.len();
            outlet.push(Part::Body(piece), cost)?;
        }
    }
}

/// Compresses a large transaction into a file; `None` when its payload becomes too large.
fn spool(
    open: Open<'_>,
    name: &str,
    large: &LargeTransaction,
    writer: &mut PayloadWriter,
    inner: &mut Vec<u8>,
) -> Result<Option<Spooled>, Error> {
    let mut file = SpooledTempFile::new(SPOOL_SIZE);
    let (mut gtid, mut last, mut size) = (None, None, 0);
    inner.clear();
    writer.begin(large.inner_size)?;
    let spooled = each_event(open, name, large, |event, format| {
        if gtid.is_none() {
            gtid = Some((event.raw.to_buf(), format.clone()));
            return Ok(());
        }
        last = Some(*event.raw.header());
        put_inner(&event.raw, inner);
        if inner.len() >= PART_SIZE || event.end() == large.end {
            writer.push(inner)?;
            inner.clear();
            size += writer.drain(|bytes| file.write_all(bytes)).map_err(spool_error)?;
        }
        Ok(())
    });
    match spooled {
        Ok(()) => {}
        Err(Error::Compress(CompressError::TooLarge { .. })) => return Ok(None),
        Err(error) => return Err(error),
    }
    let (Some((gtid, format)), Some(last)) = (gtid, last) else { return Ok(None) };
    Ok(Some(Spooled { gtid, last, format, file, size }))
}

fn spool_error(cause: std::io::Error) -> Error {
    Error::Write { what: "a payload to a temporary file".to_owned(), cause }
}

/// Reads the transaction again, and verifies its events.
fn each_event(
    open: Open<'_>,
    name: &str,
    large: &LargeTransaction,
    mut take: impl FnMut(LogEvent<'_>, &Format) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = open()?;
    reader.next_event()?;
    if reader.kind() == LogKind::Binary && reader.position() <= large.start {
        reader.skip_to(large.start)?;
    }
    loop {
        match reader.next_chunk(PART_SIZE)? {
            Next::End(_) => return Ok(()),
            Next::Some(chunk) if chunk.end() <= large.start => {}
            Next::Some(chunk) => {
                for event in chunk.iter().filter(|event| event.offset >= large.start) {
                    if event.offset >= large.end {
                        return Ok(());
                    }
                    let at = At { name, offset: event.offset };
                    event.raw.verify().map_err(|error| at.decode(error))?;
                    take(event, chunk.format())?;
                }
            }
        }
    }
}

impl Batch {
    /// A transaction that started at `before` starts here.
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

    fn gtid(
        &mut self,
        raw: &RawEvent<'_>,
        behind: u64,
        format: &Format,
        next: Option<u32>,
    ) -> Result<(), binlog::ResizeError> {
        let next = next.map(|_| raw.header().next_position);
        self.event(raw.checksum(), next, |position, out| put_gtid_resized(raw, behind, position, format, out))
    }

    /// Adds an event. In a binary log it says where it stands, in a relay log where it stood at the source.
    fn event<E>(
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

    fn flush(&mut self, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        let Self { bytes, placed, moved, tally } = std::mem::take(self);
        let cost = bytes.len() + placed.len() * size_of::<Placed>();
        Ok(outlet.push(Part::Events { bytes, placed, moved, tally: Box::new(tally) }, cost)?)
    }
}

/// Does the event's header say where it ends in this file? In relay logs that is so of the replica's own events only.
fn says_its_place(event: &LogEvent<'_>, kind: LogKind) -> bool {
    let header = event.raw.header();
    let is_own = match kind {
        LogKind::Binary => true,
        LogKind::Relay => header.flags.contains(binlog::Flags::RELAY_LOG),
    };
    is_own && header.next_position == event.end() as u32
}

/// In relay logs a payload's position is that of its last event, in the source's coordinates.
fn relay_position(kind: LogKind, last: &RawEvent<'_>) -> Option<u32> {
    match kind {
        LogKind::Binary => None,
        LogKind::Relay => Some(last.header().next_position),
    }
}

/// A compressed transaction.
struct Closed<'s> {
    gtid: LogEvent<'s>,
    payload: LogEvent<'s>,
    body: events::TransactionPayload<'s>,
    format: &'s Format,
}

fn closed<'s>(name: &str, segment: &'s Segment) -> Result<Option<Closed<'s>>, Error> {
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

fn writer(place: &mut Option<PayloadWriter>, how: Compression) -> Result<&mut PayloadWriter, Error> {
    if place.is_none() {
        *place = Some(new_writer(how)?);
    }
    match place {
        Some(writer) => Ok(writer),
        None => unreachable!("just made"),
    }
}

fn new_writer(how: Compression) -> Result<PayloadWriter, Error> {
    Ok(PayloadWriter::new(how.level)?.with_event_size_max(how.event_size_max))
}

fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
