//! Closes transactions into payloads: plain events in, one zstd frame out.

use std::fmt;

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use crate::framer::EVENT_SIZE_MAX;
use crate::header::HEADER_SIZE;

/// How hard zstd tries, `binlog_transaction_compression_level_zstd`: 1 to 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Level(u8);

impl Level {
    /// The fastest.
    pub const MIN: Self = Self(1);
    /// The server's default.
    pub const DEFAULT: Self = Self(3);
    /// The smallest output.
    pub const MAX: Self = Self(22);

    /// Checks the range.
    pub fn new(raw: u8) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&raw).then_some(Self(raw))
    }

    /// As a plain number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A transaction that did not become a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressError {
    /// The frame would not fit into an event of this many bytes.
    TooLarge {
        /// Bytes at most.
        max: u32,
    },
    /// zstd cannot go on: it has no memory for this level, as a rule.
    Zstd {
        /// What it says.
        message: &'static str,
    },
    /// More or fewer bytes came than were announced.
    Announced {
        /// Bytes announced.
        wanted: u64,
        /// Bytes that came.
        found: u64,
    },
}

impl fmt::Display for CompressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => write!(out, "the payload is larger than {max} bytes"),
            Self::Zstd { message } => write!(out, "zstd: {message}"),
            Self::Announced { wanted, found } => {
                write!(out, "{wanted} bytes of events were announced, {found} came")
            }
        }
    }
}

impl std::error::Error for CompressError {}

/// Makes one payload after the other, with one zstd context and one buffer. Each thread needs its own.
///
/// Payloads are what a server since 8.3 writes: one zstd frame with its content's size in it and no checksum.
pub struct PayloadWriter {
    context: CCtx<'static>,
    frame: Vec<u8>,
    frame_size_max: u32,
    /// Bytes of the frame that have been handed on.
    drained: usize,
    /// The size that the frame states; `None` for a frame that states none.
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

/// How much of its output zstd is given room for at a time.
const FRAME_STEP: usize = 128 * 1024;

/// What is kept of the buffer from one payload to the next: one huge transaction must not cost its size for good.
const FRAME_KEPT_MAX: usize = 16 * 1024 * 1024;

impl PayloadWriter {
    /// With nothing in it yet.
    ///
    /// # Errors
    ///
    /// When zstd has no memory.
    pub fn new(level: Level) -> Result<Self, CompressError> {
        let mut context = CCtx::try_create().ok_or(CompressError::Zstd { message: "no memory" })?;
        context.set_parameter(CParameter::CompressionLevel(i32::from(level.get()))).map_err(failed)?;
        let frame_size_max = EVENT_SIZE_MAX - HEAD_ROOM;
        Ok(Self { context, frame: Vec::new(), frame_size_max, drained: 0, announced: Some(0), came: 0 })
    }

    /// No frame may be larger: `replica_max_allowed_packet` less the room for the event's head.
    #[must_use]
    pub fn with_event_size_max(mut self, event_size_max: u32) -> Self {
        self.frame_size_max = event_size_max.min(EVENT_SIZE_MAX).saturating_sub(HEAD_ROOM);
        self
    }

    /// Lets zstd spread one frame over this many threads of its own; worth it from some megabytes on.
    ///
    /// # Errors
    ///
    /// When zstd was built without threads.
    pub fn set_threads(&mut self, threads: u32) -> Result<(), CompressError> {
        self.context.set_parameter(CParameter::NbWorkers(threads)).map_err(failed)?;
        Ok(())
    }

    /// The bytes that zstd has taken for its context by now: what a session keeps.
    pub fn memory(&self) -> usize {
        self.context.sizeof()
    }

    /// The whole of a payload at once: inner events as [`put_inner`](crate::put_inner) writes them.
    ///
    /// # Errors
    ///
    /// When the frame becomes too large, or zstd cannot.
    pub fn frame(&mut self, inner: &[u8]) -> Result<&[u8], CompressError> {
        self.begin(inner.len() as u64)?;
        self.push(inner)?;
        self.finish()
    }

    /// Begins a payload whose inner events have this many bytes together.
    ///
    /// # Errors
    ///
    /// When zstd cannot.
    pub fn begin(&mut self, size: u64) -> Result<(), CompressError> {
        self.begin_with(Some(size))
    }

    /// Begins a payload of unknown size: its frame does not state one, as those that mysqlbinlog writes.
    ///
    /// # Errors
    ///
    /// When zstd cannot.
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

    /// Takes more of the inner events' bytes.
    ///
    /// # Errors
    ///
    /// When more came than was announced, the frame becomes too large, or zstd cannot.
    pub fn push(&mut self, inner: &[u8]) -> Result<(), CompressError> {
        self.came += inner.len() as u64;
        match self.announced {
            Some(wanted) if self.came > wanted => Err(self.size_error(wanted)),
            // With all of the input at hand zstd needs no copy of it.
            Some(wanted) if self.came == wanted => self.run(inner, ZSTD_EndDirective::ZSTD_e_end),
            _ => self.run(inner, ZSTD_EndDirective::ZSTD_e_continue),
        }
    }

    /// The payload: all that was announced has come.
    ///
    /// # Errors
    ///
    /// When less came than was announced, the frame becomes too large, or zstd cannot.
    pub fn finish(&mut self) -> Result<&[u8], CompressError> {
        match self.announced {
            Some(wanted) if self.came != wanted => return Err(self.size_error(wanted)),
            Some(_) => {}
            None => {
                self.run(&[], ZSTD_EndDirective::ZSTD_e_end)?;
                self.announced = Some(self.came);
            }
        }
        Ok(&self.frame)
    }

    /// Hands on what the frame has so far, and forgets it; gives its size in bytes. For frames too large for memory:
    /// [`PayloadWriter::finish`] then gives what is left.
    ///
    /// # Errors
    ///
    /// Those of `take`.
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
            let wanted = zstd_safe::compress_bound(inner.len() - input.pos()).clamp(64, FRAME_STEP);
            self.frame.reserve(wanted);
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

    const fn size_error(&self, wanted: u64) -> CompressError {
        CompressError::Announced { wanted, found: self.came }
    }
}

/// An event's header, the fields in front of the payload and a checksum, each as large as it can get.
const HEAD_ROOM: u32 = HEADER_SIZE as u32 + 3 + 11 + 11 + 1 + 4;

fn failed(code: zstd_safe::ErrorCode) -> CompressError {
    CompressError::Zstd { message: get_error_name(code) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CompressError, Level, PayloadWriter};

    #[test]
    fn levels_have_a_range() {
        assert_eq!((Level::new(0), Level::new(23)), (None, None));
        assert_eq!((Level::new(1), Level::new(22)), (Some(Level::MIN), Some(Level::MAX)));
    }

    #[test]
    fn what_was_announced_must_come() {
        let mut writer = PayloadWriter::new(Level::DEFAULT).unwrap();
        writer.begin(3).unwrap();
        writer.push(b"ab").unwrap();
        let wanted = 3;
        assert_eq!(writer.finish(), Err(CompressError::Announced { wanted, found: 2 }));
        assert_eq!(writer.push(b"cd"), Err(CompressError::Announced { wanted, found: 4 }));
    }

    #[test]
    fn a_frame_too_large_is_refused_and_the_next_is_not() {
        let mut writer = PayloadWriter::new(Level::DEFAULT).unwrap().with_event_size_max(300);
        let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert!(matches!(writer.frame(&noise), Err(CompressError::TooLarge { .. })));
        assert!(writer.frame(&[7; 4096]).is_ok());
    }

    proptest! {
        #[test]
        fn frames_open_again_whole_or_in_pieces(
            bytes in proptest::collection::vec(0..4_u8, 0..5000), cut in 0..5000_usize, level in 1..=22_u8,
        ) {
            let mut writer = PayloadWriter::new(Level::new(level).unwrap()).unwrap();
            let whole = writer.frame(&bytes).unwrap().to_vec();
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
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
            for (frame, wanted) in [(&whole, sized), (&pieces, sized), (&open_ended, None)] {
                let mut opened = vec![0; bytes.len()];
                let size = zstd_safe::decompress(&mut opened[..], frame).unwrap();
                prop_assert_eq!(&opened[..size], &bytes[..]);
                let stated = zstd_safe::get_frame_content_size(frame).unwrap();
                prop_assert_eq!(stated, wanted);
            }
        }
    }
}
