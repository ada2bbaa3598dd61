//! Decoding of payloads, in memory or in pieces: bytes in, whole events out.

use super::zstd::ZstdFrames;
use super::{PayloadDelivery, PayloadError, PayloadLimits, PayloadSummary, SizeClaimPolicy, unsupported};
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::event::EventType;
use crate::events::PayloadCompression;
use crate::header::{EventHeader, HEADER_SIZE};
use crate::raw::{EventChecksum, RawEvent};

/// All or a piece of a payload.
#[derive(Debug)]
pub(super) struct PayloadInput<'i> {
    pub(super) bytes: &'i [u8],
    /// Number of consumed bytes.
    pub(super) position: usize,
    pub(super) ending: PayloadEnding,
}

/// End of a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PayloadEnding {
    /// The payload ends with this piece.
    Here,
    /// Another piece may follow.
    Later,
}

impl<'i> PayloadInput<'i> {
    pub(super) fn rest(&self) -> &'i [u8] {
        &self.bytes[self.position..]
    }
}

/// Reads payloads, one after the other, and returns whole events.
#[derive(Debug, Default)]
pub(super) struct PayloadReader {
    decompressor: PayloadDecompressor,
    pub(super) buffer: Vec<u8>,
    /// Number of bytes of the buffer that have been returned.
    taken: usize,
    limits: PayloadLimits,
    summary: PayloadSummary,
    failure: Option<PayloadError>,
    /// Number of bytes of earlier pieces.
    pub(super) earlier: usize,
    /// Number of consumed bytes of a payload that was passed as a whole.
    pub(super) position: usize,
}

/// Maximum capacity of the buffer that is kept for the next payload.
const BUFFER_KEPT_MAX: usize = 8 << 20;

impl PayloadReader {
    pub(super) fn with_limits(limits: PayloadLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Starts a payload.
    pub(super) fn begin(
        &mut self,
        compression: PayloadCompression,
        claimed_size: Option<u64>,
        delivery: PayloadDelivery,
    ) -> Result<(), PayloadError> {
        self.buffer.clear();
        if self.buffer.capacity() > BUFFER_KEPT_MAX {
            // One huge event must not keep its memory forever.
            self.buffer = Vec::new();
        }
        (self.taken, self.failure, self.earlier, self.position) = (0, None, 0, 0);
        self.summary = PayloadSummary { claimed_size, ..PayloadSummary::default() };
        let begun = self.decompressor.begin(compression, delivery);
        begun.inspect_err(|error| self.failure = Some(*error))
    }

    /// Returns the event of `size` bytes that `buffer_event` has found.
    pub(super) fn take_event(&mut self, size: usize) -> RawEvent<'_> {
        let start = self.taken;
        self.take(size, 1);
        match RawEvent::new(&self.buffer[start..start + size], EventChecksum::Absent) {
            Ok(raw) => raw,
            Err(error) => unreachable!("ours: `buffer_event` has framed the event: {error}"),
        }
    }

    pub(super) fn next_chunk(
        &mut self,
        input: &mut PayloadInput<'_>,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, PayloadError> {
        let (mut count, mut room) = (0, size);
        while let Some(first) = self.next_fitting(input, count, room)? {
            let (run, run_count) = self.run_of_events(first, room);
            out.extend_from_slice(&self.buffer[self.taken..self.taken + run]);
            self.take(run, run_count);
            count += run_count;
            room = room.saturating_sub(run);
        }
        Ok(count)
    }

    pub(super) const fn summary(&self) -> &PayloadSummary {
        &self.summary
    }

    /// Returns the size of the next event if it fits in the chunk. An error is deferred if the chunk already has
    /// events.
    fn next_fitting(
        &mut self,
        input: &mut PayloadInput<'_>,
        count: usize,
        room: usize,
    ) -> Result<Option<usize>, PayloadError> {
        match self.buffer_event(input) {
            Ok(Some(size)) if count == 0 || size <= room => Ok(Some(size)),
            Ok(_) => Ok(None),
            Err(_) if count > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the size and number of the whole valid events in the buffer, up to `room` bytes. The first `first` bytes
    /// are known to be one event.
    fn run_of_events(&self, first: usize, room: usize) -> (usize, usize) {
        let (mut run, mut count) = (first, 1);
        let ready = &self.buffer[self.taken..];
        // Near a limit, events are returned one at a time.
        let size_max = self.limits.total_size_max.min(self.claimed_size().unwrap_or(u64::MAX));
        let near = self.summary.uncompressed_size.saturating_add(ready.len() as u64) > size_max;
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

    /// Fills the buffer with one whole event and returns its size; `None` if the input is used up.
    pub(super) fn buffer_event(
        &mut self,
        input: &mut PayloadInput<'_>,
    ) -> Result<Option<usize>, PayloadError> {
        loop {
            if let Some(failure) = self.failure {
                return Err(failure);
            }
            let ready = &self.buffer[self.taken..];
            let found = ready.len();
            let needed = match frame(ready, self.limits.event_size_max) {
                Ok(Some(size)) if size <= found => return self.check_total(size).map(Some),
                // The stated size is too large; no need to read the event.
                Ok(Some(size)) => self.check_total(size)?,
                Ok(None) => HEADER_SIZE,
                Err(error) => return Err(self.fail(input, error)),
            };
            let is_used_up = self.decompressor.is_between_frames() && input.rest().is_empty();
            if is_used_up && input.ending == PayloadEnding::Here && found > 0 {
                let expected = (needed - found) as u64;
                return Err(
                    self.fail(input, DecodeError::new(found, DecodeReason::Short { expected, found: 0 }))
                );
            }
            if is_used_up && input.ending == PayloadEnding::Here {
                self.check_claimed_size(input)?;
            }
            if is_used_up || self.refill(input, needed)? == 0 && input.rest().is_empty() {
                return Ok(None);
            }
        }
    }

    /// Returns the total size that the inner events must have, if it is enforced.
    fn claimed_size(&self) -> Option<u64> {
        self.summary.claimed_size.filter(|_| self.limits.claim_policy == SizeClaimPolicy::Binding)
    }

    /// Checks that the payload has at least the stated size. A larger payload has already failed.
    fn check_claimed_size(&mut self, input: &PayloadInput<'_>) -> Result<(), PayloadError> {
        let found = self.summary.uncompressed_size;
        match self.claimed_size() {
            Some(expected) if expected != found => {
                let reason = DecodeReason::Differs { field: "uncompressed payload size", found, expected };
                Err(self.fail(input, DecodeError::new(0, reason)))
            }
            _ => Ok(()),
        }
    }

    fn check_total(&mut self, size: usize) -> Result<usize, PayloadError> {
        let (found, max) = (self.summary.uncompressed_size + size as u64, self.limits.total_size_max);
        let reason = match self.claimed_size() {
            Some(expected) if found > expected => {
                DecodeReason::Differs { field: "uncompressed payload size", found, expected }
            }
            _ if found > max => DecodeReason::OutOfRange { field: "uncompressed payload size", found, max },
            _ => return Ok(size),
        };
        let nothing = PayloadInput { bytes: &[], position: 0, ending: PayloadEnding::Here };
        Err(self.fail(&nothing, DecodeError::new(0, reason)))
    }

    /// Makes room for `needed` bytes of the current event, but at most twice the bytes received, and fills it.
    /// Returns the number of bytes added.
    fn refill(&mut self, input: &mut PayloadInput<'_>, needed: usize) -> Result<usize, PayloadError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // The size may be false: allocate in proportion to the received bytes.
        let old = self.buffer.len();
        let room = needed.min(old * 2).max(READ_SIZE);
        self.buffer.reserve_exact(room - old);
        let filled = self.decompressor.fill(input, &mut self.buffer, room, &mut self.summary);
        filled.map_err(|reason| self.fail(input, DecodeError::new(self.buffer.len(), reason)))?;
        Ok(self.buffer.len() - old)
    }

    fn fail(&mut self, input: &PayloadInput<'_>, error: DecodeError) -> PayloadError {
        let (inner_offset, payload_offset) = (self.summary.uncompressed_size, self.earlier + input.position);
        *self.failure.insert(PayloadError { inner_offset, payload_offset, error })
    }
}

/// Number of bytes to decompress at a time; fits the private cache of a core.
pub(super) const READ_SIZE: usize = 128 << 10;

/// Returns the size of the event at the front of `bytes`, as stated in its header; `None` if the header is
/// incomplete.
fn frame(bytes: &[u8], size_max: u32) -> Result<Option<usize>, DecodeError> {
    let Some(head) = bytes.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
    let header = EventHeader::decode(&mut Cursor::new(head))?;
    match header.event_type {
        EventType::TransactionPayload | EventType::FormatDescription => {
            let (field, found) = ("event type", u64::from(header.event_type.code()));
            let expected = "any but 15 and 40, which cannot be inside a payload";
            return Err(DecodeError::new(TYPE_OFFSET, DecodeReason::Unexpected { field, found, expected }));
        }
        _ => {}
    }
    header.checked_size(size_max).map(Some)
}

/// Offset of the event type in a header.
const TYPE_OFFSET: usize = 4;

/// Decoder from a payload to the bytes of its events.
#[derive(Debug, Default)]
pub(super) struct PayloadDecompressor {
    zstd: ZstdFrames,
    /// True if the current payload is not compressed.
    is_plain: bool,
}

impl PayloadDecompressor {
    fn begin(
        &mut self,
        compression: PayloadCompression,
        delivery: PayloadDelivery,
    ) -> Result<(), PayloadError> {
        self.is_plain = compression == PayloadCompression::None;
        match compression {
            PayloadCompression::Zstd => self.zstd.begin(delivery),
            PayloadCompression::None => Ok(()),
            PayloadCompression::Unknown(_) => Err(unsupported("a payload of unknown compression")),
        }
    }

    /// Returns true if all consumed input has been returned: the payload may end here.
    fn is_between_frames(&self) -> bool {
        self.is_plain || self.zstd.is_between()
    }

    /// Appends to `out` until it has at least `room` bytes, or the input is used up.
    fn fill(
        &mut self,
        input: &mut PayloadInput<'_>,
        out: &mut Vec<u8>,
        room: usize,
        summary: &mut PayloadSummary,
    ) -> Result<(), DecodeReason> {
        if !self.is_plain {
            return self.zstd.fill(input, out, room, summary);
        }
        let rest = input.rest();
        let part = &rest[..rest.len().min(room.saturating_sub(out.len()))];
        out.extend_from_slice(part);
        input.position += part.len();
        Ok(())
    }
}
