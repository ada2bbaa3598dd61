//! Decompression of transaction payloads: one event at a time, or in chunks of whole events.
//!
//! The size of the largest event bounds memory, whatever the headers claim.

mod inner;
#[cfg(feature = "zstd")]
mod memory;
mod reader;
#[cfg(feature = "zstd")]
mod write;
#[cfg_attr(not(feature = "zstd"), path = "payload/no_zstd.rs")]
mod zstd;

use std::fmt;

pub use self::inner::{inner_size, put_inner};
use self::reader::{PayloadEnding, PayloadInput, PayloadReader};
#[cfg(feature = "zstd")]
pub use self::write::{CompressError, PayloadWriter, ZstdLevel};
use crate::error::{DecodeError, DecodeReason};
use crate::events::{PayloadCompression, TransactionPayload};
use crate::framer::EVENT_SIZE_MAX;
use crate::raw::RawEvent;

/// Limits on the contents of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadLimits {
    /// Maximum size of an inner event in bytes. Bounds memory.
    pub event_size_max: u32,
    /// Maximum size of all inner events in bytes.
    pub total_size_max: u64,
    /// Treatment of the size that the payload states.
    pub claim_policy: SizeClaimPolicy,
}

/// Treatment of [`TransactionPayload::uncompressed_size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeClaimPolicy {
    /// Payloads of another size are corrupt. A few kilobytes can decompress to any size; readers can rely on the stated
    /// size.
    #[default]
    Binding,
    /// Any size is accepted; [`PayloadSummary::is_claim_true`] compares.
    Ignored,
}

impl Default for PayloadLimits {
    /// Returns limits that allow all events that a server writes. The total is not limited: payloads are decompressed
    /// as a stream, so their total size needs no memory.
    fn default() -> Self {
        Self {
            event_size_max: EVENT_SIZE_MAX,
            total_size_max: u64::MAX,
            claim_policy: SizeClaimPolicy::Binding,
        }
    }
}

/// Decompresses payloads one after another, with one zstd context and one buffer. Each thread needs its own opener.
#[derive(Debug, Default)]
pub struct PayloadOpener {
    reader: PayloadReader,
}

impl PayloadOpener {
    /// Creates an opener with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an opener with these limits.
    pub fn with_limits(limits: PayloadLimits) -> Self {
        Self { reader: PayloadReader::with_limits(limits) }
    }

    /// Opens a payload. Its events have no checksums, whatever the format of the log: decode them with
    /// [`EventFormat::inside_payload`](crate::EventFormat::inside_payload).
    ///
    /// Bytes after the payload ([`TransactionPayload::rest`]) are ignored.
    ///
    /// # Errors
    ///
    /// Fails if the compression is unknown or not in this build.
    pub fn open<'o>(&'o mut self, payload: &TransactionPayload<'o>) -> Result<InnerEvents<'o>, PayloadError> {
        self.reader.begin(payload.compression, payload.uncompressed_size, PayloadDelivery::AtOnce)?;
        Ok(self.resume(payload.payload))
    }

    /// Continues the last opened payload. Use this if you keep the opener between two events. The caller must pass the
    /// bytes of the same payload ([`TransactionPayload::payload`]) again.
    pub fn resume<'o>(&'o mut self, payload: &'o [u8]) -> InnerEvents<'o> {
        InnerEvents { reader: &mut self.reader, payload }
    }

    /// Opens a payload that is too large for memory, and arrives in pieces.
    ///
    /// # Errors
    ///
    /// Fails as [`PayloadOpener::open`] does.
    pub fn open_stream(
        &mut self,
        compression: PayloadCompression,
        claimed_size: Option<u64>,
    ) -> Result<PayloadStream<'_>, PayloadError> {
        self.reader.begin(compression, claimed_size, PayloadDelivery::InPieces)?;
        Ok(self.resume_stream())
    }

    /// Continues the payload that was opened last with [`PayloadOpener::open_stream`].
    pub fn resume_stream(&mut self) -> PayloadStream<'_> {
        PayloadStream { reader: &mut self.reader }
    }
}

/// Delivery of a payload: as a whole, or in pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PayloadDelivery {
    AtOnce,
    InPieces,
}

fn unsupported(what: &'static str) -> PayloadError {
    let error = DecodeError::new(0, DecodeReason::Unsupported { what });
    PayloadError { inner_offset: 0, payload_offset: 0, error }
}

/// Events inside one payload.
#[derive(Debug)]
pub struct InnerEvents<'o> {
    reader: &'o mut PayloadReader,
    payload: &'o [u8],
}

impl<'o> InnerEvents<'o> {
    /// Returns the next event, or `None` after the last one. Not an `Iterator`: the event is borrowed until the next
    /// call.
    ///
    /// # Errors
    ///
    /// Fails if the payload is corrupt, is truncated within a frame or an event, or exceeds a limit. Also fails if the
    /// payload's size differs from the stated size, or if the payload contains a payload or a format description. Later
    /// calls return the same error.
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, PayloadError> {
        let size = self.buffer_event()?;
        Ok(size.map(|size| self.reader.take_event(size)))
    }

    /// Returns the size of the event that [`InnerEvents::next_event`] returns next; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Fails as [`InnerEvents::next_event`] does.
    #[inline]
    pub fn next_size(&mut self) -> Result<Option<usize>, PayloadError> {
        self.buffer_event()
    }

    /// Returns the next event, borrowed from the opener.
    ///
    /// # Panics
    ///
    /// Panics if [`InnerEvents::next_size`] has not returned this size.
    #[inline]
    pub fn into_event(self, size: usize) -> RawEvent<'o> {
        self.reader.take_event(size)
    }

    fn buffer_event(&mut self) -> Result<Option<usize>, PayloadError> {
        let mut input = input_at(self.payload, self.reader.position);
        let result = self.reader.buffer_event(&mut input);
        self.reader.position = input.position;
        result
    }

    /// Appends whole events to `out`: at least one, and as many as fit in `size` bytes. Returns their number, 0 after
    /// the last event.
    ///
    /// # Errors
    ///
    /// Fails as [`InnerEvents::next_event`] does. The events before an error are returned first.
    pub fn next_chunk(&mut self, size: usize, out: &mut Vec<u8>) -> Result<usize, PayloadError> {
        let mut input = input_at(self.payload, self.reader.position);
        let result = self.reader.next_chunk(&mut input, size, out);
        self.reader.position = input.position;
        result
    }

    /// Returns a summary of the events so far.
    pub const fn summary(&self) -> &PayloadSummary {
        self.reader.summary()
    }
}

/// Returns the remaining part of a payload that was passed as a whole.
const fn input_at(payload: &[u8], position: usize) -> PayloadInput<'_> {
    PayloadInput { bytes: payload, position, ending: PayloadEnding::Here }
}

/// Events inside one payload that arrives in pieces of any size.
#[derive(Debug)]
pub struct PayloadStream<'o> {
    reader: &'o mut PayloadReader,
}

impl PayloadStream<'_> {
    /// Returns the next event, or `None` if it needs more input. Consumes the used bytes of `input`.
    ///
    /// # Errors
    ///
    /// Fails as [`InnerEvents::next_event`] does.
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<RawEvent<'_>>, PayloadError> {
        let mut piece = PayloadInput { bytes: input, position: 0, ending: PayloadEnding::Later };
        let result = self.reader.buffer_event(&mut piece);
        self.take_piece(input, piece.position);
        Ok(result?.map(|size| self.reader.take_event(size)))
    }

    /// Appends whole events to `out`: at least one, and as many as fit in `size` bytes. Returns their number, 0 if
    /// more input is needed. Consumes the used bytes of `input`.
    ///
    /// # Errors
    ///
    /// Fails as [`InnerEvents::next_chunk`] does.
    pub fn next_chunk(
        &mut self,
        input: &mut &[u8],
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, PayloadError> {
        let mut piece = PayloadInput { bytes: input, position: 0, ending: PayloadEnding::Later };
        let result = self.reader.next_chunk(&mut piece, size, out);
        self.take_piece(input, piece.position);
        result
    }

    fn take_piece(&mut self, input: &mut &[u8], size: usize) {
        *input = &input[size..];
        self.reader.earlier += size;
    }

    /// Checks that the payload ends here. Call this after all input was consumed and all events were taken.
    ///
    /// # Errors
    ///
    /// Fails if the payload is truncated within a frame or an event, or has failed before.
    ///
    /// # Panics
    ///
    /// Panics if an event could still be taken.
    pub fn finish(&mut self) -> Result<&PayloadSummary, PayloadError> {
        let mut nothing = PayloadInput { bytes: &[], position: 0, ending: PayloadEnding::Here };
        match self.reader.buffer_event(&mut nothing)? {
            None => Ok(self.reader.summary()),
            Some(_) => panic!("ours: events are left"),
        }
    }

    /// Returns a summary of the events so far.
    pub const fn summary(&self) -> &PayloadSummary {
        self.reader.summary()
    }
}

/// Summary of the events taken from a payload so far; complete once [`InnerEvents::next_event`] returned `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadSummary {
    /// Number of whole inner events.
    pub events: u64,
    /// Size of the inner events in bytes.
    pub uncompressed_size: u64,
    /// [`TransactionPayload::uncompressed_size`]: size stated by the writer.
    pub claimed_size: Option<u64>,
    /// Number of zstd frames with data. Servers write one.
    pub frames: u64,
    /// Number of these frames that state their content size.
    pub frames_with_size: u64,
    /// Number of zstd's skippable frames, which hold no data. Servers write none, and some cannot read them.
    pub frames_skippable: u64,
}

impl PayloadSummary {
    /// Returns true unless the stated size is wrong.
    pub fn is_claim_true(&self) -> bool {
        self.claimed_size.is_none_or(|claimed| claimed == self.uncompressed_size)
    }
}

/// Error in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadError {
    /// Total size of the whole events before the error.
    pub inner_offset: u64,
    /// Number of consumed bytes of the payload.
    pub payload_offset: usize,
    /// Error at this position. For an error in an inner event, the offset is from the start of that event.
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

#[cfg(feature = "zstd")]
#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

    use super::reader::READ_SIZE;
    use super::{
        InnerEvents, PayloadError, PayloadLimits, PayloadOpener, PayloadStream, PayloadSummary,
        SizeClaimPolicy,
    };
    use crate::error::{DecodeError, DecodeReason};
    use crate::events::{PayloadCompression, TransactionPayload};
    use crate::header::HEADER_SIZE;

    /// Returns an event of `size` bytes.
    fn event(code: u8, size: u32, seed: u8) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.push(code);
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.extend([0; 6]);
        // Neither constant nor random: zstd compresses this in part.
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

    /// Compresses one frame as a stream, so that it states no content size.
    fn frame(plain: &[u8], parameter: CParameter) -> Vec<u8> {
        let mut context = CCtx::create();
        context.set_parameter(parameter).unwrap();
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()) + 64);
        let mut output = OutBuffer::around(&mut out);
        context.compress_stream(&mut output, &mut InBuffer::around(plain)).unwrap();
        assert_eq!(context.end_stream(&mut output), Ok(0));
        out
    }

    /// Compresses one frame that states its content size.
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

    /// Decompresses `input` by event and by chunk. Both must return `plain` and then end, or fail with `expected`.
    fn check(
        input: &TransactionPayload<'_>,
        plain: &[u8],
        expected: Option<(usize, DecodeReason)>,
    ) -> PayloadSummary {
        check_within(PayloadLimits::default(), input, plain, expected)
    }

    fn check_within(
        limits: PayloadLimits,
        input: &TransactionPayload<'_>,
        plain: &[u8],
        expected: Option<(usize, DecodeReason)>,
    ) -> PayloadSummary {
        let mut opener = PayloadOpener::with_limits(limits);
        let mut summary = None;
        // Twice, because an earlier payload, valid or not, must have no effect.
        for how in
            [OpenMode::Events, OpenMode::Events, OpenMode::Chunks(100), OpenMode::Chunks(READ_SIZE * 2)]
                .into_iter()
                .chain([
                    OpenMode::Pieces(7, 0),
                    OpenMode::Pieces(1000, 0),
                    OpenMode::Pieces(1000, 300),
                    OpenMode::Pieces(1 << 20, 1 << 20),
                ])
        {
            let (bytes, error, found) = drain_so(&mut opener, input, how);
            assert!(bytes == plain, "{} bytes, {} expected, {error:?}", bytes.len(), plain.len());
            let error = error.map(|error| {
                assert_eq!(error.inner_offset, plain.len() as u64);
                (error.error.offset, error.error.reason)
            });
            assert_eq!(error, expected);
            assert_eq!(found.uncompressed_size, plain.len() as u64);
            assert_eq!(*summary.get_or_insert(found), found, "{how:?}");
        }
        summary.unwrap()
    }

    #[derive(Clone, Copy, Debug)]
    enum OpenMode {
        Events,
        Chunks(usize),
        /// Pieces of this size in bytes; then the size of a chunk in bytes, or 0 for one event at a time.
        Pieces(usize, usize),
    }

    fn drain_so(
        opener: &mut PayloadOpener,
        input: &TransactionPayload<'_>,
        how: OpenMode,
    ) -> (Vec<u8>, Option<PayloadError>, PayloadSummary) {
        match how {
            OpenMode::Events | OpenMode::Chunks(_) => {
                let mut events = opener.open(input).unwrap();
                let (bytes, error) = match how {
                    OpenMode::Chunks(size) => drain_chunks(&mut events, size),
                    _ => drain(&mut events),
                };
                (bytes, error, *events.summary())
            }
            OpenMode::Pieces(size, chunk) => {
                let mut stream = opener.open_stream(input.compression, input.uncompressed_size).unwrap();
                let (mut bytes, mut error) = (Vec::new(), None);
                for mut piece in input.payload.chunks(size) {
                    if error.is_none() {
                        error = drain_piece(&mut stream, &mut piece, chunk, &mut bytes).err();
                        assert!(piece.is_empty() || error.is_some());
                    }
                }
                error = error.or_else(|| stream.finish().err());
                (bytes, error, *stream.summary())
            }
        }
    }

    fn drain_piece(
        stream: &mut PayloadStream<'_>,
        piece: &mut &[u8],
        chunk: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), PayloadError> {
        match chunk {
            0 => {
                while let Some(raw) = stream.next_event(piece)? {
                    bytes.extend_from_slice(raw.bytes());
                }
            }
            size => while stream.next_chunk(piece, size, bytes)? > 0 {},
        }
        Ok(())
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
        for boundary in [0, 1, 18, 19, 100, 110, 5000, plain.len() - 1] {
            let (front, back) = plain.split_at(boundary);
            let input = [&skippable[..], &zstd(front), &skippable, &frame_sized(back), &skippable].concat();
            let summary = check(&payload(&input), &plain, None);
            assert_eq!((summary.frames, summary.frames_with_size, summary.frames_skippable), (2, 1, 3));
        }
    }

    #[test]
    fn stated_sizes_are_compared_and_not_trusted() {
        let plain = events(&[100, 200]);
        let input = zstd(&plain);
        for (claimed_size, is_true) in
            [(None, true), (Some(300), true), (Some(299), false), (Some(u64::MAX), false)]
        {
            let claim = TransactionPayload { uncompressed_size: claimed_size, ..payload(&input) };
            let limits = PayloadLimits { claim_policy: SizeClaimPolicy::Ignored, ..PayloadLimits::default() };
            let summary = check_within(limits, &claim, &plain, None);
            assert_eq!((summary.claimed_size, summary.is_claim_true()), (claimed_size, is_true));
        }
        // An event of 1 GiB, of which only twenty bytes follow.
        let liar = zstd(&event(30, 1 << 30, 0)[..20]);
        let mut opener = PayloadOpener::new();
        assert!(opener.open(&payload(&liar)).unwrap().next_event().is_err());
        let kept = opener.reader.buffer.capacity();
        assert!(kept <= 2 * READ_SIZE, "{kept}");
    }

    #[test]
    fn invalid_inner_events_are_refused() {
        let good = events(&[100, 70]);
        let short = |expected, found| Some((found, DecodeReason::Short { expected, found: 0 }));
        let with = |bad: &[u8]| [&good, bad].concat();
        check(&payload(&zstd(&with(&[7]))), &good, short(18, 1));
        check(&payload(&zstd(&with(&event(30, 50, 0)[..49]))), &good, short(1, 49));
        let expected = "19 bytes or more";
        let small = DecodeReason::Unexpected { field: "event size", found: 18, expected };
        check(&payload(&zstd(&with(&event(30, 18, 0)))), &good, Some((9, small)));
        let mut large = event(30, 19, 0);
        large[9..13].copy_from_slice(&((1_u32 << 30) + 1).to_le_bytes());
        let (field, found, max) = ("event size", (1 << 30) + 1, 1 << 30);
        check(
            &payload(&zstd(&with(&large))),
            &good,
            Some((9, DecodeReason::OutOfRange { field, found, max })),
        );
        let expected = "any but 15 and 40, which cannot be inside a payload";
        for found in [15, 40] {
            let nested = DecodeReason::Unexpected { field: "event type", found, expected };
            check(&payload(&zstd(&with(&event(found as u8, 30, 0)))), &good, Some((4, nested)));
        }
    }

    /// Payloads larger than stated fail before the first event that exceeds the size, even if that event is
    /// incomplete. Smaller payloads fail at their end.
    #[test]
    fn the_stated_size_is_binding() {
        let plain = events(&[100, 200, 300]);
        let input = zstd(&plain);
        let claiming = |claimed| TransactionPayload { uncompressed_size: Some(claimed), ..payload(&input) };
        let wrong =
            |found, expected| DecodeReason::Differs { field: "uncompressed payload size", found, expected };
        check(&claiming(600), &plain, None);
        check(&claiming(601), &plain, Some((0, wrong(600, 601))));
        check(&claiming(599), &plain[..300], Some((0, wrong(600, 599))));
        check(&claiming(299), &plain[..100], Some((0, wrong(300, 299))));
        check(&claiming(0), &[], Some((0, wrong(100, 0))));
        let limits = PayloadLimits { claim_policy: SizeClaimPolicy::Ignored, ..PayloadLimits::default() };
        assert!(!check_within(limits, &claiming(601), &plain, None).is_claim_true());
        assert!(!check_within(limits, &claiming(0), &plain, None).is_claim_true());
        let mut huge = events(&[100, 1000]);
        huge[100 + 9..][..4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        let input = zstd(&huge);
        let claiming = TransactionPayload { uncompressed_size: Some(150), ..payload(&input) };
        check(&claiming, &huge[..100], Some((0, wrong(100 + (1 << 30), 150))));
    }

    #[test]
    fn limits() {
        let plain = events(&[100, 200, 300]);
        let input = zstd(&plain);
        let limits = |event_size_max, total_size_max| PayloadLimits {
            event_size_max,
            total_size_max,
            ..PayloadLimits::default()
        };
        check_within(limits(300, 600), &payload(&input), &plain, None);
        let reason = DecodeReason::OutOfRange { field: "event size", found: 200, max: 199 };
        check_within(limits(199, 600), &payload(&input), &plain[..100], Some((9, reason)));
        let reason = DecodeReason::OutOfRange { field: "uncompressed payload size", found: 600, max: 599 };
        check_within(limits(300, 599), &payload(&input), &plain[..300], Some((0, reason)));
    }

    #[test]
    fn unknown_compression() {
        let unknown = TransactionPayload { compression: PayloadCompression::Unknown(7), ..payload(&[]) };
        let what = "a payload of unknown compression";
        let error = PayloadOpener::new().open(&unknown).unwrap_err().error;
        assert_eq!(error, DecodeError::new(0, DecodeReason::Unsupported { what }));
    }

    #[test]
    fn bytes_after_the_last_frame() {
        let plain = events(&[100, 70]);
        let message = "Unknown frame descriptor";
        check(
            &payload(&[&zstd(&plain), &b"garbage"[..]].concat()),
            &plain,
            Some((0, DecodeReason::Zstd { message })),
        );
        let torn = DecodeReason::Zstd { message: "the frame is cut off" };
        check(&payload(&[&zstd(&plain), &[0x28, 0xb5][..]].concat()), &plain, Some((0, torn)));
    }

    #[test]
    fn window_above_the_limit_is_refused() {
        // A frame without content size, with a window of 256 MiB and one block of one byte.
        let input = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3, 0x09, 0x00, 0x00, 0x00];
        let message = "Frame requires too much memory for decoding";
        check(&payload(&input), &[], Some((0, DecodeReason::Zstd { message })));
    }

    #[test]
    fn all_events_before_a_fault_are_returned() {
        let plain = events(&[1000; 2000]);
        for mut input in [zstd(&plain), frame_sized(&plain), frame(&plain, CParameter::ChecksumFlag(true))] {
            let at = input.len() - 10;
            input[at] ^= 0x55;
            let mut opener = PayloadOpener::new();
            let (bytes, error) = drain(&mut opener.open(&payload(&input)).unwrap());
            // The last block is lost; the changed byte may have damaged others.
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
        for size in 0..input.len() {
            let mut opener = PayloadOpener::new();
            let (bytes, error) = drain(&mut opener.open(&payload(&input[..size])).unwrap());
            assert!(plain.starts_with(&bytes));
            assert_eq!(error.is_none(), size == ends[0], "{size}");
        }
    }

    proptest! {
        #[test]
        fn any_frames(
            sizes in vec(19_u32..3000, 0..40),
            boundaries in vec(any::<proptest::sample::Index>(), 0..4),
            chunk in 1_usize..20_000,
        ) {
            let plain = events(&sizes);
            let mut boundaries: Vec<usize> = boundaries.iter().map(|boundary| boundary.index(plain.len() + 1)).collect();
            boundaries.extend([0, plain.len()]);
            boundaries.sort_unstable();
            let input: Vec<u8> = boundaries.windows(2).flat_map(|range| zstd(&plain[range[0]..range[1]])).collect();
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
        fn any_changed_bytes(flips in vec((any::<proptest::sample::Index>(), 1_u8..), 1..4), sizes in vec(19_u32..900, 1..20)) {
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
