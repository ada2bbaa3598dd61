//! Measures transactions: the state of a worker, and the steps from a work item to its measurements.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use binlog::{
    CHECKSUM_SIZE, CompressError, Event, Format, HEADER_SIZE, Level, NextPosition, PayloadError,
    PayloadLimits, PayloadOpener, PayloadWriter, RawEventBuf, Refusal, events, put_gtid_resized, put_inner,
};
use logs::ordered::Outlet;
use logs::{Chunk, Content, LogEvent, Segment, Whole, each_event_within};

use super::Source;
use super::cells::{Cell, scramble};
use super::cut::{Given, Opened, Piece, PieceContent, commit_us, open_before, read_cell, reread_payload};
use super::known::{Known, KnownOne};
use super::measure::{Bench, Made, Taken};
use super::network::{Sent, Wire};
use super::plan::Sizes;
use super::record::{Kind, Network, Part, Probe, Record, Share};
use super::tables::Names;
use crate::error::Error;
use crate::walk::each_event;

/// State that all workers share.
pub(crate) struct Shop<'s> {
    pub(crate) sources: &'s [Source<'s>],
    pub(crate) levels: &'s [Level],
    pub(crate) sizes: Sizes,
    /// The level that represents compressed transactions in network traffic.
    pub(crate) base: Level,
    /// Its index in `levels`.
    pub(crate) base_place: usize,
    /// Part of a large transaction that is measured.
    pub(crate) reach: Reach,
    /// One work item in this many supplies payloads for the dictionary.
    pub(crate) sample_stride: u64,
    /// Locked while a large payload is measured.
    pub(crate) one_large: Mutex<()>,
    /// Width of a cell. A wider transaction belongs to every cell that it overlaps.
    pub(crate) width: u64,
    /// Measured transactions that are wider than a cell.
    pub(crate) known: Known,
}

/// Part of a large transaction that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of it.
    Whole,
    /// The first bytes of its events. The rest is assumed to be like them.
    Front(u64),
}

/// Work for one worker at a time.
pub(crate) struct Item {
    pub(crate) number: u64,
    pub(crate) source: usize,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    /// Transactions already read.
    Pieces { pieces: Vec<Piece>, bytes: u64 },
    /// A cell to be read.
    Cell(Cell),
}

/// Maximum bytes of events that wait to be measured.
const BATCH_SIZE: usize = 1 << 20;

/// Maximum records per part.
const RECORDS_MAX: usize = 8192;

/// Bytes per read, for transactions that are not in memory.
const PIECE_SIZE: usize = 1 << 20;

/// If everything is measured, network traffic is measured for one batch in this many.
const NETWORK_STRIDE: u64 = 4;

/// Bytes of a large transaction for which network traffic is simulated.
const NETWORK_FRONT: usize = 1 << 20;

/// Maximum size of a payload for the dictionary. Larger ones gain nothing from it.
const SAMPLE_SIZE_MAX: usize = 64 << 10;

/// Sizes of payloads whose level is looked for. Small payloads are equal at many levels, large ones take long.
const PROBE_SIZES: std::ops::RangeInclusive<usize> = 200..=128 << 10;

/// State of one worker thread.
pub(crate) struct Worker<'s> {
    shop: &'s Shop<'s>,
    bench: Bench<'s>,
    base: PayloadWriter,
    wire: Wire,
    opener: PayloadOpener,
    names: Names,
    scratch: Vec<u8>,
    /// Bytes of the payloads to be measured, one after the other.
    arena: Vec<u8>,
    ready: Vec<Ready>,
    part: Part,
    /// Index of the current log.
    source: usize,
    batches: u64,
    keeps_samples: bool,
}

/// A transaction to be measured, with its payload in the arena.
struct Ready {
    /// Index of its record.
    record: usize,
    /// Its start, if it overlaps other cells.
    start: Option<u64>,
    /// Its bytes in the log.
    now: u64,
    gtid: RawEventBuf,
    format: Arc<Format>,
    /// Its range in the arena.
    inner: Range<usize>,
    /// Bytes of its whole payload, which may be more than in the arena.
    inner_size: u64,
    /// Its place in the log, if it is read again for every level.
    in_pieces: Option<InPieces>,
}

/// Place of events that are read again for every level.
#[derive(Clone, Debug)]
enum InPieces {
    /// The range of a transaction in the log.
    Events(Range<u64>),
    /// The start of a payload event.
    Payload(u64),
}

/// Sizes of a payload's content.
struct Inside {
    /// Start of its events in the arena.
    start: usize,
    /// Bytes of its events.
    size: u64,
    /// Bytes of its events in the log: each with its checksum.
    behind: u64,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(shop: &'s Shop<'s>) -> Result<Self, CompressError> {
        Ok(Self {
            shop,
            bench: Bench::new(shop.levels, shop.sizes.large)?,
            base: PayloadWriter::new(shop.base)?,
            wire: Wire::new()?,
            opener: PayloadOpener::with_limits(PayloadLimits {
                event_size_max: shop.sizes.event_size_max,
                ..PayloadLimits::default()
            }),
            names: Names::default(),
            scratch: Vec::new(),
            arena: Vec::new(),
            ready: Vec::new(),
            part: Part::default(),
            source: 0,
            batches: 0,
            keeps_samples: false,
        })
    }

    pub(crate) fn work(&mut self, item: Item, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        self.keeps_samples = item.number.is_multiple_of(self.shop.sample_stride);
        self.batches = scramble(item.number);
        self.source = item.source;
        match item.work {
            Work::Pieces { pieces, bytes } => {
                for piece in pieces {
                    self.piece(item.source, piece, outlet)?;
                }
                self.part.bytes_done = bytes;
            }
            Work::Cell(cell) => {
                let shop = self.shop;
                self.part.bytes_done = cell.end - cell.start;
                if let Some(known) = shop.known.covering(cell) {
                    self.known(known);
                    self.part.is_end = true;
                    return self.hand_on(outlet);
                }
                read_cell(
                    &shop.sources[cell.source],
                    cell,
                    shop.width,
                    &shop.sizes,
                    &mut |given| match given {
                        Given::Piece(piece) => self.piece(item.source, piece, outlet),
                        Given::Pause => self.pause(item.source, outlet),
                    },
                )?;
            }
        }
        self.measure(item.source)?;
        self.part.is_end = true;
        self.hand_on(outlet)
    }

    fn pause(&mut self, source: usize, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        self.measure(source)?;
        self.hand_on(outlet)
    }

    fn hand_on(&mut self, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        let mut part = std::mem::take(&mut self.part);
        part.source = self.source;
        let names = self.names.hand_on();
        if part.names.is_empty() {
            part.names = names;
        }
        let cost = part.records.len() * size_of::<Record>()
            + part.made.len() * (size_of::<Made>() + size_of::<u64>())
            + part.samples.iter().map(Vec::len).sum::<usize>();
        Ok(outlet.push(part, cost)?)
    }
}

/// Collects pieces.
impl<'s> Worker<'s> {
    fn piece(&mut self, source: usize, piece: Piece, outlet: &Outlet<'_, Part>) -> Result<(), Error> {
        let share = piece.share;
        match piece.content {
            PieceContent::Opened(opened) => self.opened(source, *opened, share)?,
            PieceContent::Segment(segment) => match &segment.content {
                Content::Between | Content::LargeBetween(_) => self.pass(&segment, Kind::Between, 0, share),
                Content::Transaction(whole) => match whole.refusal {
                    None => self.plain(source, &segment, whole, share)?,
                    Some(Refusal::Compressed) => self.compressed(source, &segment, whole, share)?,
                    Some(refusal) => {
                        self.pass(&segment, Kind::Refused(refusal), commit_us(&whole.outline), share)
                    }
                },
            },
        }
        let is_full = self.part.records.len() >= RECORDS_MAX;
        if is_full || self.arena.len() >= BATCH_SIZE {
            self.measure(source)?;
        }
        if is_full {
            self.hand_on(outlet)?;
        }
        Ok(())
    }

    /// Adds events that stay as they are.
    fn pass(&mut self, segment: &Segment, kind: Kind, commit_us: u64, share: Share) {
        let now = share.of;
        self.names.begin();
        let start = segment.parts.first().map_or(0, Chunk::offset);
        let record = Record { kind, start, commit_us, ..Record::plain(now, share) };
        if kind != Kind::Between && now > self.shop.width && !self.shop.known.has(self.source, start) {
            let one = KnownOne {
                end: start + now,
                record: record.clone(),
                made: Vec::new(),
                after: Vec::new(),
                network: Network::default(),
                tables: Vec::new(),
            };
            self.shop.known.insert(self.source, start, one);
        }
        self.record(record);
        if self.measures_network() && share.part(now) == now && segment.size() as u64 == now {
            segment.events().for_each(|event| self.wire.put(&[event.raw.bytes()]));
            self.wire.flush();
            let sent = self.wire.take();
            self.part.network.add(&Network { now, plain: sent, compressed: sent });
        }
    }

    /// Adds a plain transaction that can be compressed.
    fn plain(&mut self, source: usize, segment: &Segment, whole: &Whole, share: Share) -> Result<(), Error> {
        let Some((gtid, format)) = first(segment) else {
            self.pass(segment, Kind::Refused(Refusal::NoGtid), commit_us(&whole.outline), share);
            return Ok(());
        };
        let _one_large = self.room_for(source, whole.inner_size)?;
        let start = self.arena.len();
        self.names.begin();
        let limit = self.limit(whole.is_large);
        let (names, arena) = (&mut self.names, &mut self.arena);
        let mut take = |event: LogEvent<'_>, format: &Format| {
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
                let wanted = match self.shop.reach {
                    Reach::Whole => extent.clone(),
                    Reach::Front(size) => extent.start..extent.end.min(extent.start + size),
                };
                reread(&self.shop.sources[source], wanted, |event, format| {
                    if event.offset > extent.start {
                        take(event, format);
                    }
                    Ok(())
                })?;
            }
        }
        let inner_size = whole.inner_size;
        let is_cut = inner_size > (self.arena.len() - start) as u64;
        let in_pieces =
            (whole.is_large && self.shop.reach == Reach::Whole).then_some(InPieces::Events(extent));
        let record = Record {
            inner: inner_size,
            commit_us: commit_us(&whole.outline),
            is_cut: is_cut && in_pieces.is_none(),
            ..Record::plain(share.of, share)
        };
        self.ready(record, false, (gtid, format, start, whole.outline.position), in_pieces);
        self.measure_if_large(source, inner_size)
    }

    /// Adds a compressed transaction.
    fn compressed(
        &mut self,
        source: usize,
        segment: &Segment,
        whole: &Whole,
        share: Share,
    ) -> Result<(), Error> {
        let (Some((gtid, format)), Some(payload)) = (first(segment), segment.events().nth(1)) else {
            // A payload without a GTID event.
            self.pass(segment, Kind::Refused(Refusal::NoGtid), commit_us(&whole.outline), share);
            return Ok(());
        };
        let (name, offset) = (&self.shop.sources[source].name, payload.offset);
        let body = match payload.raw.decode(&format) {
            Ok(Event::TransactionPayload(body)) => body,
            Ok(_) => {
                self.pass(segment, Kind::Refused(Refusal::Interrupted), commit_us(&whole.outline), share);
                return Ok(());
            }
            Err(error) => return Err(Error::Event { name: name.clone(), offset, error }),
        };
        let wrong = |error: PayloadError| Error::Payload { name: name.clone(), offset, error };
        let checksum_size = payload.raw.checksum().size();
        // The stated size is not trusted.
        let mut one_large = self.room_for(source, body.payload.len() as u64)?;
        let mut inside = self.inside(&body, &format, checksum_size, one_large.is_some()).map_err(wrong)?;
        if inside.is_none() {
            one_large = self.room_for(source, u64::MAX)?;
            inside = self.inside(&body, &format, checksum_size, true).map_err(wrong)?;
        }
        let Some(inside) = inside else { unreachable!("ours: what is large is allowed now") };
        let start = inside.start;
        self.probe(start, body.payload);
        let is_cut = inside.size > (self.arena.len() - start) as u64;
        let in_pieces = (is_cut && self.shop.reach == Reach::Whole).then_some(InPieces::Payload(offset));
        let record = Record {
            plain: inside.behind + self.gtid_size(source, &gtid, inside.behind, &format)?,
            inner: inside.size,
            commit_us: commit_us(&whole.outline),
            is_cut: is_cut && in_pieces.is_none(),
            ..Record::plain(share.of, share)
        };
        self.ready(record, true, (gtid, format, start, whole.outline.position), in_pieces);
        let measured = self.measure_if_large(source, inside.size);
        drop(one_large);
        measured
    }

    /// Decompresses a payload in memory. Returns `None` if it is large and `may_be_large` is false.
    fn inside(
        &mut self,
        body: &events::TransactionPayload<'_>,
        format: &Format,
        checksum_size: usize,
        may_be_large: bool,
    ) -> Result<Option<Inside>, PayloadError> {
        let (start, limit, within) = (self.arena.len(), self.limit(false), format.inside_payload());
        self.names.begin();
        let (mut size, mut behind) = (0, 0);
        let mut inner = self.opener.open(body)?;
        while let Some(event) = inner.next_event()? {
            self.names.take(&event, &within);
            size += event.bytes().len() as u64;
            behind += (event.bytes().len() + checksum_size) as u64;
            if !may_be_large && size > self.shop.sizes.large as u64 {
                return Ok(None);
            }
            if self.arena.len() - start < limit {
                self.arena.extend_from_slice(event.bytes());
            }
        }
        Ok(Some(Inside { start, size, behind }))
    }

    /// Adds a compressed transaction that is too large for memory.
    fn opened(&mut self, source: usize, opened: Opened, share: Share) -> Result<(), Error> {
        let Opened { start: at, gtid, commit_us, format, now, offset } = opened;
        self.names.begin();
        let Some(gtid) = gtid else {
            self.record(Record {
                kind: Kind::Refused(Refusal::NoGtid),
                start: at,
                commit_us,
                ..Record::plain(now, share)
            });
            return Ok(());
        };
        let _one_large = self.room_for(source, u64::MAX)?;
        let start = self.arena.len();
        let checksum_size = gtid.as_raw().checksum().size() as u64;
        let (limit, within) = (self.limit(true), format.inside_payload());
        let (names, arena, reach) = (&mut self.names, &mut self.arena, self.shop.reach);
        let (mut seen, mut events) = (0, 0);
        let mut take = |chunk: &[u8]| {
            each_event(chunk, &within, |_, event| {
                names.take(event, &within);
                events += 1;
            });
            seen += chunk.len() as u64;
            if arena.len() - start < limit {
                arena.extend_from_slice(chunk);
            }
            Ok(match reach {
                Reach::Front(size) if seen >= size => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let (opener, scratch) = (&mut self.opener, &mut self.scratch);
        let head = reread_payload(&self.shop.sources[source], offset, opener, scratch, &mut take)?;
        let (size, in_pieces) = match reach {
            Reach::Whole => (seen, Some(InPieces::Payload(offset))),
            Reach::Front(_) => (head.size(seen), None),
        };
        let behind = size.saturating_add(scaled(events * checksum_size, size, seen));
        let record = Record {
            plain: behind.saturating_add(self.gtid_size(source, &gtid, behind, &format)?),
            inner: size,
            commit_us,
            is_cut: in_pieces.is_none() && size > (self.arena.len() - start) as u64,
            ..Record::plain(now, share)
        };
        self.ready(record, true, (gtid, format, start, at), in_pieces);
        self.measure_if_large(source, u64::MAX)
    }

    /// Makes room for a large transaction: measures the waiting ones, and locks out the other workers.
    fn room_for(&mut self, source: usize, size: u64) -> Result<Option<MutexGuard<'s, ()>>, Error> {
        if size <= self.shop.sizes.large as u64 {
            return Ok(None);
        }
        self.measure(source)?;
        let shop = self.shop;
        Ok(Some(shop.one_large.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the maximum bytes of a transaction in the arena.
    fn limit(&self, is_large: bool) -> usize {
        match (self.shop.reach, is_large) {
            (Reach::Whole, false) => usize::try_from(self.shop.sizes.kept).unwrap_or(usize::MAX),
            (Reach::Whole, true) => NETWORK_FRONT,
            (Reach::Front(size), _) => usize::try_from(size).unwrap_or(usize::MAX),
        }
    }

    /// Queues the transaction whose payload is in the arena, from `start` on.
    fn ready(
        &mut self,
        record: Record,
        was_compressed: bool,
        (gtid, format, start, at): (RawEventBuf, Arc<Format>, usize, u64),
        in_pieces: Option<InPieces>,
    ) {
        let number = self.part.measured + self.ready.len();
        let record = Record { kind: Kind::Measured { number, was_compressed }, start: at, ..record };
        let inner = start..self.arena.len();
        if self.keeps_samples && !record.is_cut && inner.len() <= SAMPLE_SIZE_MAX {
            self.part.samples.push(self.arena[inner.clone()].to_vec());
        }
        let (now, inner_size) = (record.now, record.inner);
        let start = (record.share.of > self.shop.width).then_some(at);
        self.ready.push(Ready {
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
    fn known(&mut self, known: KnownOne) {
        let KnownOne { record, made, after, network, tables, .. } = known;
        let Kind::Measured { was_compressed, .. } = record.kind else {
            self.part.records = vec![Record { tables: 0..0, ..record }];
            return;
        };
        self.part.network = network.part(record.share);
        self.part.names = tables.iter().map(|(name, _)| name.clone()).collect();
        self.part.tables = (0..).zip(tables).map(|(number, (_, bytes))| (number, bytes)).collect();
        let kind = Kind::Measured { number: 0, was_compressed };
        self.part.records = vec![Record { kind, tables: 0..self.part.tables.len(), ..record }];
        (self.part.made, self.part.after, self.part.measured) = (made, after, 1);
    }

    /// Stores the measurements of a transaction that overlaps other cells.
    fn remember(&self, source: usize, ready: &Ready, made: &[Made], network: Network) {
        let (Some(start), Some(record)) = (ready.start, self.part.records.get(ready.record)) else { return };
        let names = self.names.names();
        let tables = self.part.tables.get(record.tables.clone()).unwrap_or_default().iter();
        let named = |(number, bytes): &(u32, u64)| Some((names.get(*number as usize)?.clone(), *bytes));
        let after = self.part.after[self.part.after.len() - made.len()..].to_vec();
        let one = KnownOne {
            end: start + ready.now,
            record: record.clone(),
            made: made.to_vec(),
            after,
            network,
            tables: tables.filter_map(named).collect(),
        };
        self.shop.known.insert(source, start, one);
    }

    fn record(&mut self, record: Record) {
        let start = self.part.tables.len();
        self.part.tables.extend_from_slice(self.names.bytes());
        self.part.records.push(Record { tables: start..self.part.tables.len(), ..record });
    }

    /// Keeps a payload of the log, if it is a better probe than the one kept so far.
    fn probe(&mut self, start: usize, frame: &[u8]) {
        let inner = &self.arena[start..];
        let is_larger = self.part.probe.as_ref().is_none_or(|probe| probe.inner.len() < inner.len());
        if is_larger && PROBE_SIZES.contains(&inner.len()) {
            self.part.probe = Some(Probe { inner: inner.to_vec(), frame: frame.to_vec() });
        }
    }
}

/// Measures the collected pieces.
impl Worker<'_> {
    fn measure_if_large(&mut self, source: usize, size: u64) -> Result<(), Error> {
        match size > self.shop.sizes.large as u64 {
            true => self.measure(source),
            false => Ok(()),
        }
    }

    fn measure(&mut self, source: usize) -> Result<(), Error> {
        if self.part.taken.is_empty() {
            self.part.taken = vec![Taken::default(); self.shop.levels.len()];
        }
        let all = std::mem::take(&mut self.ready);
        let in_memory: Vec<&[u8]> = all
            .iter()
            .filter(|ready| ready.in_pieces.is_none())
            .map(|ready| &self.arena[ready.inner.clone()])
            .collect();
        let made = self.bench.measure(&in_memory, &mut self.part.taken)?;
        let mut made = made.chunks(self.shop.levels.len());
        for ready in all {
            let made = match &ready.in_pieces {
                Some(what) => self.measure_in_pieces(source, what, ready.inner_size)?,
                None => made.next().unwrap_or_default().iter().map(|one| ready.scaled(*one)).collect(),
            };
            self.settle(source, &ready, &made)?;
            let network = self.send(&ready, &made)?;
            self.remember(source, &ready, &made, network);
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
        what: &InPieces,
        inner_size: u64,
    ) -> Result<Vec<Made>, Error> {
        let source = &self.shop.sources[source];
        let (scratch, opener) = (&mut self.scratch, &mut self.opener);
        let mut pieces = |push: &mut dyn FnMut(&[u8]) -> Result<(), CompressError>| {
            scratch.clear();
            match what {
                InPieces::Events(extent) => reread(source, extent.clone(), |event, _| {
                    if event.offset > extent.start {
                        put_inner(&event.raw, scratch);
                    }
                    if scratch.len() >= PIECE_SIZE || event.end() >= extent.end {
                        push(scratch)?;
                        scratch.clear();
                    }
                    Ok(())
                }),
                InPieces::Payload(offset) => {
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
    fn settle(&mut self, source: usize, ready: &Ready, made: &[Made]) -> Result<(), Error> {
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
    fn payload_event_size(&mut self, ready: &Ready, frame: u64) -> u64 {
        self.scratch.clear();
        events::TransactionPayload::put_zstd_fields(ready.inner_size, frame, &mut self.scratch);
        (HEADER_SIZE + self.scratch.len() + ready.gtid.as_raw().checksum().size()) as u64 + frame
    }

    /// Returns the size of a GTID event that `behind` bytes follow.
    fn gtid_size(
        &mut self,
        source: usize,
        gtid: &RawEventBuf,
        behind: u64,
        format: &Format,
    ) -> Result<u64, Error> {
        self.scratch.clear();
        let raw = gtid.as_raw();
        let resized = put_gtid_resized(&raw, behind, NextPosition::Is(0), format, &mut self.scratch);
        match resized {
            Ok(()) => Ok(self.scratch.len() as u64),
            Err(error) => {
                let name = self.shop.sources[source].name.clone();
                Err(Error::Resize { name, error })
            }
        }
    }

    /// Returns true if network traffic is measured now. A sample measures it for all transactions, so that both figures
    /// are for the same ones.
    fn measures_network(&self) -> bool {
        matches!(self.shop.reach, Reach::Front(_)) || self.batches.is_multiple_of(NETWORK_STRIDE)
    }

    /// Simulates sending a transaction to a replica, plain and compressed.
    fn send(&mut self, ready: &Ready, made: &[Made]) -> Result<Network, Error> {
        if !self.measures_network() {
            return Ok(Network::default());
        }
        let inner = &self.arena[ready.inner.clone()];
        let is_small = inner.len() <= NETWORK_FRONT && ready.inner_size == inner.len() as u64;
        let front = &inner[..inner.len().min(NETWORK_FRONT)];
        let gtid = ready.gtid.as_raw();
        let checksum = &[0; CHECKSUM_SIZE][..gtid.checksum().size()];
        self.wire.put(&[gtid.bytes()]);
        let mut sent_inner = 0;
        each_event(front, &ready.format.inside_payload(), |_, event| {
            sent_inner += event.bytes().len() as u64;
            self.wire.put(&[event.bytes(), checksum]);
        });
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
                    made.get(self.shop.base_place).and_then(|made| made.frame).unwrap_or(ready.inner_size);
                let size = self.payload_event_size(ready, size) + gtid.bytes().len() as u64;
                Sent { uncompressed: size, zlib: size, zstd: size, ..Sent::default() }
            }
        };
        let plain = plain.scaled(ready.inner_size, sent_inner);
        Ok(Network { now: ready.now, plain, compressed })
    }
}

impl Ready {
    /// Extrapolates the measurements of the front to the whole transaction.
    fn scaled(&self, made: Made) -> Made {
        let measured = self.inner.len() as u64;
        match measured {
            0 => made,
            _ if measured == self.inner_size => made,
            _ => {
                let scale = |value: u64| scaled(value, self.inner_size, measured);
                Made { frame: made.frame.map(scale), ns: scale(made.ns) }
            }
        }
    }
}

/// Returns `value`, scaled from `measured` to `whole`.
fn scaled(value: u64, whole: u64, measured: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(whole) / u128::from(measured.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn first(segment: &Segment) -> Option<(RawEventBuf, Arc<Format>)> {
    let format = Arc::clone(segment.parts.first()?.format());
    Some((segment.events().next()?.raw.to_buf(), format))
}

/// Reads a part of a log again.
fn reread(
    source: &Source<'_>,
    range: Range<u64>,
    mut take: impl FnMut(LogEvent<'_>, &Format) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = open_before(source, range.start)?;
    match each_event_within(&mut reader, range, PIECE_SIZE, &mut take)? {
        true => Ok(()),
        false => Err(Error::Changed { name: source.name.clone() }),
    }
}
