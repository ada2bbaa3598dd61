//! Opens transaction payloads: one inner event at a time, or a chunk of whole events.
//!
//! Memory is bounded by the largest inner event, whatever the payload holds and whatever its headers claim.

#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::event::EventType;
use crate::events::{PayloadCompression, TransactionPayload};
use crate::framer::EVENT_SIZE_MAX;
use crate::header::{HEADER_SIZE, Header};
use crate::raw::{Checksum, RawEvent};

/// How far a payload may go before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadLimits {
    /// The largest inner event, in bytes: what bounds memory.
    pub event_size_max: u32,
    /// All inner events together, in bytes.
    pub total_size_max: u64,
}

impl Default for PayloadLimits {
    /// Events as large as a server writes, and as many of them as there are: a payload is opened as a stream,
    /// so its total costs time and no memory.
    fn default() -> Self {
        Self { event_size_max: EVENT_SIZE_MAX, total_size_max: u64::MAX }
    }
}

/// Opens one payload after the other, with one zstd context and one buffer. Each thread needs its own.
#[derive(Debug, Default)]
pub struct PayloadOpener {
    limits: PayloadLimits,
    buffer: Vec<u8>,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::Context>,
}

impl PayloadOpener {
    /// With the usual limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other limits.
    pub fn with_limits(limits: PayloadLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The events inside `payload`. They have no checksums whatever the log's format says: decode them with
    /// [`Format::inside_payload`](crate::Format::inside_payload).
    ///
    /// Bytes behind the payload ([`TransactionPayload::rest`]) are the caller's to judge.
    ///
    /// # Errors
    ///
    /// When the payload is compressed in a way that is unknown or that this build leaves out.
    pub fn open<'o>(&'o mut self, payload: &TransactionPayload<'o>) -> Result<InnerEvents<'o>, PayloadError> {
        self.buffer.clear();
        if self.buffer.capacity() > BUFFER_KEPT_MAX {
            // One huge event must not cost its size for good.
            self.buffer = Vec::new();
        }
        let input = payload.payload;
        let source = match payload.compression {
            #[cfg(feature = "zstd")]
            PayloadCompression::Zstd => {
                Source::Zstd(zstd::Frames::new(self.zstd.get_or_insert_default(), input)?)
            }
            #[cfg(not(feature = "zstd"))]
            PayloadCompression::Zstd => return Err(unsupported("zstd, which this build leaves out,")),
            PayloadCompression::None => Source::Plain { input, position: 0 },
            PayloadCompression::Unknown(_) => {
                return Err(unsupported("a payload of unknown compression"));
            }
        };
        let summary = PayloadSummary { claimed_size: payload.uncompressed_size, ..PayloadSummary::default() };
        let limits = self.limits;
        Ok(InnerEvents { source, buffer: &mut self.buffer, taken: 0, limits, summary, failure: None })
    }
}

/// The events inside one payload.
#[derive(Debug)]
pub struct InnerEvents<'o> {
    source: Source<'o>,
    buffer: &'o mut Vec<u8>,
    /// How much of the buffer has been given out.
    taken: usize,
    limits: PayloadLimits,
    summary: PayloadSummary,
    failure: Option<PayloadError>,
}

/// What was found in a payload so far; all of it once [`InnerEvents::next_event`] gave `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadSummary {
    /// Whole inner events.
    pub events: u64,
    /// Their bytes.
    pub uncompressed_size: u64,
    /// [`TransactionPayload::uncompressed_size`]: what the writer says that their bytes are.
    pub claimed_size: Option<u64>,
    /// zstd frames with data in them. Servers write one.
    pub frames: u64,
    /// Those of them whose header says how much data is in them.
    pub frames_with_size: u64,
    /// zstd frames that decompress to nothing by definition. Servers write none, and some cannot read them.
    pub frames_skippable: u64,
}

impl PayloadSummary {
    /// Is the claimed size the true one? No claim is not false.
    pub fn is_claim_true(&self) -> bool {
        self.claimed_size.is_none_or(|claimed| claimed == self.uncompressed_size)
    }
}

/// A payload that cannot be opened, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadError {
    /// How many bytes of whole inner events came out before.
    pub inner_offset: u64,
    /// How many bytes of the payload itself went in before.
    pub payload_offset: usize,
    /// What is wrong there. When it is with an inner event, the offset counts from that event's first byte.
    pub error: DecodeError,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner_offset, payload_offset, error } = self;
        write!(
            out,
            "in the event at uncompressed byte {inner_offset} of the payload \
             (compressed byte {payload_offset}): {error}"
        )
    }
}

impl std::error::Error for PayloadError {}

impl InnerEvents<'_> {
    /// The next event, or `None` behind the last. Not an `Iterator`: the event is lent, until the next call.
    ///
    /// # Errors
    ///
    /// When the payload is corrupt, stops within a frame or an event, goes beyond the limits, or holds what no
    /// payload may: another payload, or a format description. The same error comes again from then on.
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, PayloadError> {
        let Some(size) = self.whole_event()? else { return Ok(None) };
        let start = self.taken;
        self.take(size, 1);
        let bytes = &self.buffer[start..start + size];
        match RawEvent::new(bytes, Checksum::Absent) {
            Ok(raw) => Ok(Some(raw)),
            Err(error) => unreachable!("whole_event has framed it: {error}"),
        }
    }

    /// Appends whole events to `out`: as many as fit in `size` bytes, at least one. Gives their number, 0 behind
    /// the last event.
    ///
    /// # Errors
    ///
    /// As [`InnerEvents::next_event`]; events before the fault have been handed out by then.
    pub fn next_chunk(&mut self, size: usize, out: &mut Vec<u8>) -> Result<usize, PayloadError> {
        let (mut count, mut room) = (0, size);
        while let Some(first) = self.next_fitting(count, room)? {
            let (run, run_count) = self.run_of_events(first, room);
            out.extend_from_slice(&self.buffer[self.taken..self.taken + run]);
            self.take(run, run_count);
            count += run_count;
            room = room.saturating_sub(run);
        }
        Ok(count)
    }

    /// What was found so far.
    pub const fn summary(&self) -> &PayloadSummary {
        &self.summary
    }

    /// The size of the next event if the chunk may have it. A fault waits if events can be handed out before it.
    fn next_fitting(&mut self, count: usize, room: usize) -> Result<Option<usize>, PayloadError> {
        match self.whole_event() {
            Ok(Some(size)) if count == 0 || size <= room => Ok(Some(size)),
            Ok(_) => Ok(None),
            Err(_) if count > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes and number of whole sane events in the buffer, up to `room`; the `first` bytes are known to be one.
    fn run_of_events(&self, first: usize, room: usize) -> (usize, usize) {
        let (mut run, mut count) = (first, 1);
        let ready = &self.buffer[self.taken..];
        // Events come out one at a time only where the limits are near.
        let near =
            self.summary.uncompressed_size.saturating_add(ready.len() as u64) > self.limits.total_size_max;
        while !near && let Ok(Some(size)) = frame(&ready[run..], self.limits.event_size_max) {
            let end = run + size;
            if end > ready.len() || end > room {
                break;
            }
            (run, count) = (end, count + 1);
        }
        (run, count)
    }

    fn take(&mut self, size: usize, count: usize) {
        self.taken += size;
        self.summary.events += count as u64;
        self.summary.uncompressed_size += size as u64;
    }

    /// Sees to it that the buffer holds one whole event more, and gives its size; `None` at the end.
    fn whole_event(&mut self) -> Result<Option<usize>, PayloadError> {
        loop {
            if let Some(failure) = self.failure {
                return Err(failure);
            }
            let ready = &self.buffer[self.taken..];
            let wanted = match frame(ready, self.limits.event_size_max) {
                Ok(Some(size)) if size <= ready.len() => return self.within_total(size).map(Some),
                Ok(Some(size)) => size,
                Ok(None) => HEADER_SIZE,
                Err(error) => return Err(self.fail(error)),
            };
            let found = ready.len();
            if self.source.is_finished() {
                if found == 0 {
                    return Ok(None);
                }
                let wanted = (wanted - found) as u64;
                return Err(self.fail(DecodeError::new(found, Reason::Short { wanted, found: 0 })));
            }
            self.refill(wanted)?;
        }
    }

    fn within_total(&mut self, size: usize) -> Result<usize, PayloadError> {
        let (found, max) = (self.summary.uncompressed_size + size as u64, self.limits.total_size_max);
        if found <= max {
            return Ok(size);
        }
        let reason = Reason::OutOfRange { field: "uncompressed payload size", found, max };
        Err(self.fail(DecodeError::new(0, reason)))
    }

    /// Makes room for `wanted` bytes of the event at hand, or less if it has only begun to come, and fills it.
    fn refill(&mut self, wanted: usize) -> Result<(), PayloadError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // The size is a claim: room grows only as fast as the bytes come.
        let room = wanted.min(self.buffer.len() * 2).max(READ_SIZE);
        self.buffer.reserve_exact(room - self.buffer.len());
        let filled = self.source.fill(self.buffer, room, &mut self.summary);
        filled.map_err(|reason| self.fail(DecodeError::new(self.buffer.len(), reason)))
    }

    fn fail(&mut self, error: DecodeError) -> PayloadError {
        let (inner_offset, payload_offset) = (self.summary.uncompressed_size, self.source.position());
        *self.failure.insert(PayloadError { inner_offset, payload_offset, error })
    }
}

/// How much is decompressed at a time: fits a core's own cache.
const READ_SIZE: usize = 128 << 10;

/// The largest buffer that is kept from one payload to the next.
const BUFFER_KEPT_MAX: usize = 8 << 20;

/// The size of the event at the front of `bytes`, as its header says; `None` without a whole header.
fn frame(bytes: &[u8], size_max: u32) -> Result<Option<usize>, DecodeError> {
    let Some(head) = bytes.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
    let header = Header::decode(&mut Cursor::new(head))?;
    match header.event_type {
        EventType::TransactionPayload | EventType::FormatDescription => {
            let (field, found) = ("event type", u64::from(header.event_type.code()));
            let wanted = "any but 15 and 40, which cannot be inside a payload";
            return Err(DecodeError::new(TYPE_OFFSET, Reason::Unexpected { field, found, wanted }));
        }
        _ => {}
    }
    let (field, found) = ("event size", u64::from(header.size));
    if header.size < HEADER_SIZE as u32 {
        let wanted = "19 bytes or more";
        return Err(DecodeError::new(SIZE_OFFSET, Reason::Unexpected { field, found, wanted }));
    }
    if header.size > size_max {
        let max = u64::from(size_max);
        return Err(DecodeError::new(SIZE_OFFSET, Reason::OutOfRange { field, found, max }));
    }
    Ok(Some(header.size as usize))
}

/// Where a header has its event type.
const TYPE_OFFSET: usize = 4;
/// Where a header has its event's size.
const SIZE_OFFSET: usize = 9;

fn unsupported(what: &'static str) -> PayloadError {
    let error = DecodeError::new(0, Reason::Unsupported { what });
    PayloadError { inner_offset: 0, payload_offset: 0, error }
}

#[derive(Debug)]
enum Source<'o> {
    #[cfg(feature = "zstd")]
    Zstd(zstd::Frames<'o>),
    Plain {
        input: &'o [u8],
        position: usize,
    },
}

impl Source<'_> {
    /// Has all input gone in and come out?
    fn is_finished(&self) -> bool {
        match self {
            #[cfg(feature = "zstd")]
            Self::Zstd(frames) => frames.is_finished(),
            Self::Plain { input, position } => *position == input.len(),
        }
    }

    /// How much of the input has gone in.
    fn position(&self) -> usize {
        match self {
            #[cfg(feature = "zstd")]
            Self::Zstd(frames) => frames.position(),
            Self::Plain { position, .. } => *position,
        }
    }

    /// Appends to `out` until it has `room` bytes or more, or the input ends.
    fn fill(&mut self, out: &mut Vec<u8>, room: usize, summary: &mut PayloadSummary) -> Result<(), Reason> {
        match self {
            #[cfg(feature = "zstd")]
            Self::Zstd(frames) => frames.fill(out, room, summary),
            Self::Plain { input, position } => {
                let _ = summary;
                let rest = &input[*position..];
                let part = &rest[..rest.len().min(room.saturating_sub(out.len()))];
                out.extend_from_slice(part);
                *position += part.len();
                Ok(())
            }
        }
    }
}

#[cfg(feature = "zstd")]
#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

    use super::{InnerEvents, PayloadError, PayloadLimits, PayloadOpener, PayloadSummary, READ_SIZE};
    use crate::error::{DecodeError, Reason};
    use crate::events::{PayloadCompression, TransactionPayload};
    use crate::header::HEADER_SIZE;

    /// An event of `size` bytes.
    fn event(code: u8, size: u32, seed: u8) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.push(code);
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.extend([0; 6]);
        // Neither constant nor noise: zstd finds some of it again.
        let body = (HEADER_SIZE as u32..size).map(|at| (at.wrapping_mul(at / 97) as u8) ^ seed);
        bytes.extend(body);
        bytes
    }

    fn events(sizes: &[u32]) -> Vec<u8> {
        sizes.iter().enumerate().flat_map(|(at, size)| event(30, *size, at as u8)).collect()
    }

    fn zstd(plain: &[u8]) -> Vec<u8> {
        frame(plain, CParameter::CompressionLevel(3))
    }

    /// One frame, written as a stream, so without content size.
    fn frame(plain: &[u8], parameter: CParameter) -> Vec<u8> {
        let mut context = CCtx::create();
        context.set_parameter(parameter).unwrap();
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()) + 64);
        let mut output = OutBuffer::around(&mut out);
        context.compress_stream(&mut output, &mut InBuffer::around(plain)).unwrap();
        assert_eq!(context.end_stream(&mut output), Ok(0));
        out
    }

    /// One frame, with content size.
    fn frame_sized(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
        CCtx::create().compress(&mut out, plain, 3).unwrap();
        out
    }

    fn payload(payload: &[u8]) -> TransactionPayload<'_> {
        let (compression, fields, rest) = (PayloadCompression::Zstd, &[][..], &[][..]);
        TransactionPayload { compression, uncompressed_size: None, fields, payload, rest }
    }

    fn drain(events: &mut InnerEvents<'_>) -> (Vec<u8>, Option<PayloadError>) {
        let mut bytes = Vec::new();
        loop {
            match events.next_event() {
                Ok(Some(raw)) => bytes.extend_from_slice(raw.bytes()),
                Ok(None) => return (bytes, None),
                Err(error) => return (bytes, Some(error)),
            }
        }
    }

    /// Opens `input` one event at a time and in chunks; both must give `plain` and then end or fail so.
    fn check(
        input: &TransactionPayload<'_>,
        plain: &[u8],
        wanted: Option<(usize, Reason)>,
    ) -> PayloadSummary {
        check_within(PayloadLimits::default(), input, plain, wanted)
    }

    fn check_within(
        limits: PayloadLimits,
        input: &TransactionPayload<'_>,
        plain: &[u8],
        wanted: Option<(usize, Reason)>,
    ) -> PayloadSummary {
        let mut opener = PayloadOpener::with_limits(limits);
        let mut summary = None;
        // Twice: a payload before, good or not, must leave no traces.
        for chunk in [0, 0, 100, READ_SIZE * 2] {
            let mut events = opener.open(input).unwrap();
            let (bytes, error) = match chunk {
                0 => drain(&mut events),
                size => drain_chunks(&mut events, size),
            };
            assert!(bytes == plain, "{} bytes, {} wanted, {error:?}", bytes.len(), plain.len());
            let error = error.map(|error| {
                assert_eq!(error.inner_offset, plain.len() as u64);
                (error.error.offset, error.error.reason)
            });
            assert_eq!(error, wanted);
            assert_eq!(events.summary().uncompressed_size, plain.len() as u64);
            assert_eq!(*summary.get_or_insert(*events.summary()), *events.summary());
        }
        summary.unwrap()
    }

    fn drain_chunks(events: &mut InnerEvents<'_>, size: usize) -> (Vec<u8>, Option<PayloadError>) {
        let (mut bytes, mut chunk) = (Vec::new(), Vec::new());
        loop {
            chunk.clear();
            match events.next_chunk(size, &mut chunk) {
                Ok(0) => return (bytes, None),
                Ok(count) => assert!(chunk.len() <= size || count == 1, "{} bytes in {count}", chunk.len()),
                Err(error) => return (bytes, Some(error)),
            }
            bytes.extend_from_slice(&chunk);
        }
    }

    #[test]
    fn whole_payloads() {
        let some = [19, 20, 5000, 19];
        let large = [300_000, 19, READ_SIZE as u32, READ_SIZE as u32 * 3, 40];
        for sizes in [&[][..], &[19], &some, &large, &[100; 5000]] {
            let plain = events(sizes);
            let summary = check(&payload(&zstd(&plain)), &plain, None);
            assert_eq!((summary.frames, summary.frames_with_size), (1, 0));
            assert_eq!(summary.events, sizes.len() as u64);
            let summary = check(&payload(&frame_sized(&plain)), &plain, None);
            assert_eq!((summary.frames, summary.frames_with_size), (1, 1));
            let none = TransactionPayload { compression: PayloadCompression::None, ..payload(&plain) };
            assert_eq!(check(&none, &plain, None).frames, 0);
        }
        check(&payload(&[]), &[], None);
    }

    #[test]
    fn several_frames_cut_anywhere() {
        let plain = events(&[100, 5000, 19, 70_000]);
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        for cut in [0, 1, 18, 19, 100, 110, 5000, plain.len() - 1] {
            let (front, back) = plain.split_at(cut);
            let input = [&skippable[..], &zstd(front), &skippable, &frame_sized(back), &skippable].concat();
            let summary = check(&payload(&input), &plain, None);
            assert_eq!((summary.frames, summary.frames_with_size, summary.frames_skippable), (2, 1, 3));
        }
    }

    #[test]
    fn size_claims_are_compared_and_not_believed() {
        let plain = events(&[100, 200]);
        let input = zstd(&plain);
        for (claimed_size, is_true) in
            [(None, true), (Some(300), true), (Some(299), false), (Some(u64::MAX), false)]
        {
            let claim = TransactionPayload { uncompressed_size: claimed_size, ..payload(&input) };
            let summary = check(&claim, &plain, None);
            assert_eq!((summary.claimed_size, summary.is_claim_true()), (claimed_size, is_true));
        }
        // An event of 1 GiB, of which twenty bytes come.
        let liar = zstd(&event(30, 1 << 30, 0)[..20]);
        let mut opener = PayloadOpener::new();
        assert!(opener.open(&payload(&liar)).unwrap().next_event().is_err());
        assert!(opener.buffer.capacity() <= 2 * READ_SIZE, "{}", opener.buffer.capacity());
    }

    #[test]
    fn what_is_no_event() {
        let good = events(&[100, 70]);
        let short = |wanted, found| Some((found, Reason::Short { wanted, found: 0 }));
        let with = |bad: &[u8]| [&good, bad].concat();
        check(&payload(&zstd(&with(&[7]))), &good, short(18, 1));
        check(&payload(&zstd(&with(&event(30, 50, 0)[..49]))), &good, short(1, 49));
        let wanted = "19 bytes or more";
        let small = Reason::Unexpected { field: "event size", found: 18, wanted };
        check(&payload(&zstd(&with(&event(30, 18, 0)))), &good, Some((9, small)));
        let mut large = event(30, 19, 0);
        large[9..13].copy_from_slice(&((1_u32 << 30) + 1).to_le_bytes());
        let (field, found, max) = ("event size", (1 << 30) + 1, 1 << 30);
        check(&payload(&zstd(&with(&large))), &good, Some((9, Reason::OutOfRange { field, found, max })));
        let wanted = "any but 15 and 40, which cannot be inside a payload";
        for found in [15, 40] {
            let nested = Reason::Unexpected { field: "event type", found, wanted };
            check(&payload(&zstd(&with(&event(found as u8, 30, 0)))), &good, Some((4, nested)));
        }
    }

    #[test]
    fn limits() {
        let plain = events(&[100, 200, 300]);
        let input = zstd(&plain);
        let limits = |event_size_max, total_size_max| PayloadLimits { event_size_max, total_size_max };
        check_within(limits(300, 600), &payload(&input), &plain, None);
        let reason = Reason::OutOfRange { field: "event size", found: 200, max: 199 };
        check_within(limits(199, 600), &payload(&input), &plain[..100], Some((9, reason)));
        let reason = Reason::OutOfRange { field: "uncompressed payload size", found: 600, max: 599 };
        check_within(limits(300, 599), &payload(&input), &plain[..300], Some((0, reason)));
    }

    #[test]
    fn unknown_compression() {
        let unknown = TransactionPayload { compression: PayloadCompression::Unknown(7), ..payload(&[]) };
        let what = "a payload of unknown compression";
        let error = PayloadOpener::new().open(&unknown).unwrap_err().error;
        assert_eq!(error, DecodeError::new(0, Reason::Unsupported { what }));
    }

    #[test]
    fn garbage_behind_the_last_frame() {
        let plain = events(&[100, 70]);
        let message = "Unknown frame descriptor";
        check(
            &payload(&[&zstd(&plain), &b"garbage"[..]].concat()),
            &plain,
            Some((0, Reason::Zstd { message })),
        );
        let torn = Reason::Zstd { message: "the frame is torn" };
        check(&payload(&[&zstd(&plain), &[0x28, 0xb5][..]].concat()), &plain, Some((0, torn)));
    }

    #[test]
    fn window_that_no_server_writes() {
        // A frame without content size whose window is 256 MiB, and one block of one byte.
        let input = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3, 0x09, 0x00, 0x00, 0x00];
        let message = "Frame requires too much memory for decoding";
        check(&payload(&input), &[], Some((0, Reason::Zstd { message })));
    }

    #[test]
    fn everything_in_front_of_a_fault_comes_out() {
        let plain = events(&[1000; 2000]);
        for mut input in [zstd(&plain), frame_sized(&plain), frame(&plain, CParameter::ChecksumFlag(true))] {
            let at = input.len() - 10;
            input[at] ^= 0x55;
            let mut opener = PayloadOpener::new();
            let (bytes, error) = drain(&mut opener.open(&payload(&input)).unwrap());
            // The last block is lost, and what the fault turned into other bytes.
            assert!(
                bytes.len() >= plain.len() - 2 * (128 << 10),
                "{} of {}, {error:?}",
                bytes.len(),
                plain.len()
            );
            assert!(plain[..bytes.len() - 1000] == bytes[..bytes.len() - 1000] || error.is_none());
        }
    }

    #[test]
    fn cut_at_every_byte() {
        let plain = events(&[100, 5000, 19, 70, 200]);
        let input = [frame_sized(&plain[..3000]), zstd(&plain[3000..])].concat();
        let ends = [0, frame_sized(&plain[..3000]).len(), input.len()];
        for cut in 0..input.len() {
            let mut opener = PayloadOpener::new();
            let (bytes, error) = drain(&mut opener.open(&payload(&input[..cut])).unwrap());
            assert!(plain.starts_with(&bytes));
            assert_eq!(error.is_none(), cut == ends[0], "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_frames(
            sizes in vec(19_u32..3000, 0..40),
            cuts in vec(any::<proptest::sample::Index>(), 0..4),
            chunk in 1_usize..20_000,
        ) {
            let plain = events(&sizes);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(plain.len() + 1)).collect();
            cuts.extend([0, plain.len()]);
            cuts.sort_unstable();
            let input: Vec<u8> = cuts.windows(2).flat_map(|cut| zstd(&plain[cut[0]..cut[1]])).collect();
            let mut opener = PayloadOpener::new();
            prop_assert_eq!(drain(&mut opener.open(&payload(&input)).unwrap()), (plain.clone(), None));
            prop_assert_eq!(drain_chunks(&mut opener.open(&payload(&input)).unwrap(), chunk), (plain, None));
        }

        #[test]
        fn any_bytes(input in vec(any::<u8>(), 0..300), plain in any::<bool>()) {
            let compression = if plain { PayloadCompression::None } else { PayloadCompression::Zstd };
            let input = TransactionPayload { compression, ..payload(&input) };
            let mut opener = PayloadOpener::new();
            let (bytes, _) = drain(&mut opener.open(&input).unwrap());
            prop_assert!(bytes.len() <= 300 || !plain);
        }

        #[test]
        fn any_flip(flips in vec((any::<proptest::sample::Index>(), 1_u8..), 1..4), sizes in vec(19_u32..900, 1..20)) {
            let mut input = zstd(&events(&sizes));
            for (at, flip) in flips {
                let at = at.index(input.len());
                input[at] ^= flip;
            }
            let mut opener = PayloadOpener::new();
            let one = drain(&mut opener.open(&payload(&input)).unwrap());
            let chunks = drain_chunks(&mut opener.open(&payload(&input)).unwrap(), 1000);
            prop_assert_eq!(one, chunks);
        }
    }
}
