//! Compression of transactions into payloads: events in, one zstd frame out.

use std::fmt;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use crate::framer::EVENT_SIZE_MAX;
use crate::header::HEADER_SIZE;

/// zstd compression level, `binlog_transaction_compression_level_zstd`: 1 to 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ZstdLevel(u8);

impl ZstdLevel {
    /// Fastest level.
    pub const MIN: Self = Self(1);
    /// Default of servers.
    pub const DEFAULT: Self = Self(3);
    /// Level with the smallest output.
    pub const MAX: Self = Self(22);

    /// Returns `raw` as a level, or `None` if it is out of range.
    pub fn new(raw: u8) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&raw).then_some(Self(raw))
    }

    /// Returns the plain number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for ZstdLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for ZstdLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Error in the compression of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressError {
    /// The frame does not fit in an event of this size.
    TooLarge {
        /// Maximum size in bytes.
        max: u32,
    },
    /// zstd failed, usually for lack of memory at this level.
    Zstd {
        /// zstd's error message.
        message: &'static str,
    },
    /// The number of bytes differs from the announced one.
    Announced {
        /// Number of bytes announced.
        expected: u64,
        /// Number of bytes received.
        found: u64,
    },
}

impl fmt::Display for CompressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => write!(out, "the payload is larger than {max} bytes"),
            Self::Zstd { message } => write!(out, "zstd: {message}"),
            Self::Announced { expected, found } => {
                write!(out, "{expected} bytes of events were announced, {found} received")
            }
        }
    }
}

impl std::error::Error for CompressError {}

/// Compresses payloads one after another, with one zstd context and one buffer. Each thread needs its own writer.
///
/// The payloads are like those of servers since 8.3: one zstd frame, with its content size and without a checksum.
pub struct PayloadWriter {
    context: CCtx<'static>,
    frame: Vec<u8>,
    frame_size_max: u32,
    /// Number of bytes of the frame that were already drained.
    drained: usize,
    /// Content size stated by the frame; `None` if it states none.
    announced: Option<u64>,
    came: u64,
}

impl fmt::Debug for PayloadWriter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frame, frame_size_max, announced, came, .. } = self;
        let mut out = out.debug_struct("PayloadWriter");
        out.field("frame", &frame.len()).field("frame_size_max", frame_size_max);
        out.field("announced", announced).field("came", came).finish_non_exhaustive()
    }
}

/// Size by which the output grows at a time.
const FRAME_STEP: usize = 128 * 1024;

/// Maximum capacity of the buffer that is kept for the next payload. One huge transaction must not keep its memory
/// forever.
const FRAME_KEPT_MAX: usize = 16 * 1024 * 1024;

impl PayloadWriter {
    /// Creates a writer without a payload.
    ///
    /// # Errors
    ///
    /// Fails if zstd cannot allocate its context.
    pub fn new(level: ZstdLevel) -> Result<Self, CompressError> {
        let mut context = CCtx::try_create().ok_or(CompressError::Zstd { message: "no memory" })?;
        context.set_parameter(CParameter::CompressionLevel(i32::from(level.get()))).map_err(failed)?;
        let frame_size_max = EVENT_SIZE_MAX - HEAD_SIZE_MAX;
        Ok(Self { context, frame: Vec::new(), frame_size_max, drained: 0, announced: Some(0), came: 0 })
    }

    /// Limits the size of the event: `replica_max_allowed_packet`. Room for the event's header, fields and checksum
    /// is subtracted.
    #[must_use]
    pub fn with_event_size_max(mut self, event_size_max: u32) -> Self {
        self.frame_size_max = event_size_max.min(EVENT_SIZE_MAX).saturating_sub(HEAD_SIZE_MAX);
        self
    }

    /// Makes zstd compress one frame in this many threads; worthwhile for inputs of some megabytes.
    ///
    /// # Errors
    ///
    /// Fails if zstd was built without threads.
    pub fn set_threads(&mut self, threads: u32) -> Result<(), CompressError> {
        self.context.set_parameter(CParameter::NbWorkers(threads)).map_err(failed)?;
        Ok(())
    }

    /// Returns the current size of zstd's context in bytes.
    pub fn memory(&self) -> usize {
        self.context.sizeof()
    }

    /// Compresses a whole payload: inner events in the form of [`put_inner`](crate::put_inner).
    ///
    /// # Errors
    ///
    /// Fails if the frame becomes too large, or if zstd fails.
    pub fn frame(&mut self, inner: &[u8]) -> Result<&[u8], CompressError> {
        self.begin(inner.len() as u64)?;
        self.push(inner)?;
        self.finish()
    }

    /// Starts a payload whose inner events have `size` bytes in total.
    ///
    /// # Errors
    ///
    /// Fails if zstd fails.
    pub fn begin(&mut self, size: u64) -> Result<(), CompressError> {
        self.begin_with(Some(size))
    }

    /// Starts a payload of unknown size. Its frame states no size, like the frames written by mysqlbinlog.
    ///
    /// # Errors
    ///
    /// Fails if zstd fails.
    pub fn begin_unsized(&mut self) -> Result<(), CompressError> {
        self.begin_with(None)
    }

    fn begin_with(&mut self, size: Option<u64>) -> Result<(), CompressError> {
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        self.context.set_pledged_src_size(size).map_err(failed)?;
        self.frame.clear();
        self.frame.shrink_to(FRAME_KEPT_MAX);
        (self.announced, self.came, self.drained) = (size, 0, 0);
        Ok(())
    }

    /// Adds bytes of the inner events.
    ///
    /// # Errors
    ///
    /// Fails if there are more bytes than announced, if the frame becomes too large, or if zstd fails.
    pub fn push(&mut self, inner: &[u8]) -> Result<(), CompressError> {
        self.came += inner.len() as u64;
        match self.announced {
            Some(expected) if self.came > expected => Err(self.size_error(expected)),
            // If zstd receives the whole input at once, zstd does not copy the input.
            Some(expected) if self.came == expected => self.run(inner, ZSTD_EndDirective::ZSTD_e_end),
            _ => self.run(inner, ZSTD_EndDirective::ZSTD_e_continue),
        }
    }

    /// Ends the payload and returns it.
    ///
    /// # Errors
    ///
    /// Fails if there are fewer bytes than announced, if the frame becomes too large, or if zstd fails.
    pub fn finish(&mut self) -> Result<&[u8], CompressError> {
        match self.announced {
            Some(expected) if self.came != expected => return Err(self.size_error(expected)),
            Some(_) => {}
            None => {
                self.run(&[], ZSTD_EndDirective::ZSTD_e_end)?;
                self.announced = Some(self.came);
            }
        }
        Ok(&self.frame)
    }

    /// Passes the frame's bytes so far to `take`, removes them, and returns their number. For frames too large for
    /// memory: [`PayloadWriter::finish`] then returns the remaining bytes.
    ///
    /// # Errors
    ///
    /// Fails as `take` does.
    pub fn drain<E>(&mut self, take: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<u64, E> {
        let size = self.frame.len();
        take(&self.frame)?;
        self.frame.clear();
        self.drained += size;
        Ok(size as u64)
    }

    fn run(&mut self, inner: &[u8], directive: ZSTD_EndDirective) -> Result<(), CompressError> {
        let mut input = InBuffer::around(inner);
        loop {
            let start = self.frame.len();
            let room = zstd_safe::compress_bound(inner.len() - input.pos()).clamp(64, FRAME_STEP);
            self.frame.reserve(room);
            let mut output = OutBuffer::around_pos(&mut self.frame, start);
            let left = self.context.compress_stream2(&mut output, &mut input, directive).map_err(failed)?;
            if self.drained + self.frame.len() > self.frame_size_max as usize {
                return Err(CompressError::TooLarge { max: self.frame_size_max });
            }
            let done = match directive {
                ZSTD_EndDirective::ZSTD_e_end => left == 0,
                _ => input.pos() == inner.len(),
            };
            if done {
                return Ok(());
            }
        }
    }

    const fn size_error(&self, expected: u64) -> CompressError {
        CompressError::Announced { expected, found: self.came }
    }
}

/// Maximum size of an event's header, the fields before the payload and a checksum.
const HEAD_SIZE_MAX: u32 = HEADER_SIZE as u32 + 3 + 11 + 11 + 1 + 4;

fn failed(code: zstd_safe::ErrorCode) -> CompressError {
    CompressError::Zstd { message: get_error_name(code) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CompressError, PayloadWriter, ZstdLevel};

    #[test]
    fn levels_have_a_range() {
        assert_eq!((ZstdLevel::new(0), ZstdLevel::new(23)), (None, None));
        assert_eq!((ZstdLevel::new(1), ZstdLevel::new(22)), (Some(ZstdLevel::MIN), Some(ZstdLevel::MAX)));
    }

    #[test]
    fn announced_size_is_binding() {
        let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT).unwrap();
        writer.begin(3).unwrap();
        writer.push(b"ab").unwrap();
        let expected = 3;
        assert_eq!(writer.finish(), Err(CompressError::Announced { expected, found: 2 }));
        assert_eq!(writer.push(b"cd"), Err(CompressError::Announced { expected, found: 4 }));
        let error = writer.finish().unwrap_err().to_string();
        assert_eq!(error, "3 bytes of events were announced, 4 received");
    }

    #[test]
    fn frames_too_large_are_refused_and_the_next_is_written() {
        let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT).unwrap().with_event_size_max(300);
        let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(writer.frame(&noise).unwrap_err().to_string(), "the payload is larger than 251 bytes");
        assert!(writer.frame(&[7; 4096]).is_ok());
    }

    proptest! {
        #[test]
        fn frames_round_trip_whole_and_in_pieces(
            bytes in proptest::collection::vec(0..4_u8, 0..5000), boundary in 0..5000_usize, level in 1..=22_u8,
        ) {
            let mut writer = PayloadWriter::new(ZstdLevel::new(level).unwrap()).unwrap();
            let whole = writer.frame(&bytes).unwrap().to_vec();
            let (front, back) = bytes.split_at(boundary.min(bytes.len()));
            writer.begin(bytes.len() as u64).unwrap();
            writer.push(front).unwrap();
            writer.push(back).unwrap();
            let pieces = writer.finish().unwrap().to_vec();
            writer.begin_unsized().unwrap();
            writer.push(front).unwrap();
            writer.push(back).unwrap();
            let open_ended = writer.finish().unwrap().to_vec();
            prop_assert_eq!(writer.finish().unwrap(), &open_ended);
            let sized = Some(bytes.len() as u64);
            for (frame, expected) in [(&whole, sized), (&pieces, sized), (&open_ended, None)] {
                let mut opened = vec![0; bytes.len()];
                let size = zstd_safe::decompress(&mut opened[..], frame).unwrap();
                prop_assert_eq!(&opened[..size], &bytes[..]);
                let stated = zstd_safe::get_frame_content_size(frame).unwrap();
                prop_assert_eq!(stated, expected);
            }
        }
    }
}
