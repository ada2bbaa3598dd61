//! zstd frames, one behind the other, as a stream.

use std::fmt;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::flow::{Ending, Input};
use super::{Pace, PayloadError, PayloadSummary, unsupported};
use crate::error::Reason;

/// The largest window, as a power of two: 128 MiB, what level 22 (`--ultra`) needs, and what every other
/// reader allows too.
const WINDOW_LOG_MAX: u32 = 27;

/// What zstd wants to see of a frame first.
const START_WISH: usize = 5;

/// Bytes in front of each block of a frame.
const BLOCK_HEADER_SIZE: usize = 3;

/// The lowest four bits of a skippable frame's magic are free.
const MAGIC_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A zstd context that remembers its settings.
#[derive(Default)]
pub(super) struct Context(Option<DCtx<'static>>);

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Context")
    }
}

impl Context {
    fn ready(&mut self) -> Result<&mut DCtx<'static>, PayloadError> {
        if self.0.is_none() {
            let mut context = DCtx::try_create().ok_or_else(|| unsupported("zstd without memory"))?;
            context
                .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                .map_err(|_| unsupported("zstd with a window of 128 MiB"))?;
            self.0 = Some(context);
        }
        let context = self.0.as_mut().ok_or_else(|| unsupported("zstd"))?;
        // The payload before may have been left in its middle.
        context.reset(ResetDirective::SessionOnly).map_err(|_| unsupported("zstd"))?;
        Ok(context)
    }
}

/// Turns frames into what they hold.
pub(super) struct Frames<'o> {
    context: &'o mut DCtx<'static>,
    /// How many bytes zstd would like to see next; 0 between two frames, when all that went in has come out.
    wish: usize,
    frame: Frame,
    care: Care,
    /// What ends the stream before its end.
    fault: Option<Reason>,
}

/// The frame at hand.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// Where it starts in the input.
    start: usize,
    /// Its first bytes.
    head: [u8; FRAME_HEAD_SIZE],
    head_size: usize,
    /// Bytes that came out of it.
    given: usize,
    /// Is it read a second time?
    is_second: bool,
    /// Bytes that still come out of it a second time.
    repeated: usize,
}

/// The longest header of a frame, magic included.
const FRAME_HEAD_SIZE: usize = 18;

enum Progress {
    Some,
    /// Nothing in, nothing out, and the frame is not over.
    None,
}

#[derive(Clone, Copy, PartialEq)]
enum Care {
    /// As much as there is at once; what would be lost in front of a fault is read again block by block.
    Fast,
    /// One block at a time: everything in front of a fault comes out.
    BlockByBlock,
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Frames")
    }
}

impl<'o> Frames<'o> {
    pub(super) fn new(context: &'o mut Context, pace: Pace) -> Result<Self, PayloadError> {
        let care = match pace {
            Pace::AtOnce => Care::Fast,
            // What went in before is gone, and cannot be read again.
            Pace::InPieces => Care::BlockByBlock,
        };
        Ok(Self { context: context.ready()?, wish: 0, frame: Frame::default(), care, fault: None })
    }

    pub(super) fn is_between(&self) -> bool {
        self.wish == 0
    }

    pub(super) fn fill(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Vec<u8>,
        room: usize,
        summary: &mut PayloadSummary,
    ) -> Result<(), Reason> {
        let old = out.len();
        while out.len() < room {
            if let Some(fault) = self.fault {
                // All in front of it is handed out first.
                return if out.len() == old { Err(fault) } else { Ok(()) };
            }
            if self.wish == 0 {
                if input.rest().is_empty() {
                    return Ok(());
                }
                self.frame = Frame { start: input.position, ..Frame::default() };
                self.wish = START_WISH;
            }
            match self.step(input, out) {
                Ok(Progress::Some) if self.wish == 0 => self.frame.note(summary),
                Ok(Progress::Some) => {}
                Ok(Progress::None) if input.ending == Ending::Later => return Ok(()),
                Ok(Progress::None) => self.fault = Some(Reason::TORN_FRAME),
                Err(_) if self.care == Care::Fast && !self.frame.is_second => self.begin_again(input)?,
                Err(message) => self.fault = Some(Reason::Zstd { message }),
            }
        }
        Ok(())
    }

    fn step(&mut self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Progress, &'static str> {
        let is_careful = self.care == Care::BlockByBlock || self.frame.is_second;
        let size = match self.wish {
            _ if !is_careful => usize::MAX,
            // With a block, zstd likes to see the next one's header, and a fault there would hide this block.
            wish if wish > BLOCK_HEADER_SIZE => wish - BLOCK_HEADER_SIZE,
            wish => wish,
        };
        let rest = input.rest();
        let mut piece = InBuffer::around(&rest[..rest.len().min(size)]);
        let old = out.len();
        let mut output = OutBuffer::around_pos(out, old);
        self.wish = self.context.decompress_stream(&mut output, &mut piece).map_err(get_error_name)?;
        let is_stuck = self.wish != 0 && piece.pos == 0 && out.len() == old;
        self.frame.see(&rest[..piece.pos]);
        input.position += piece.pos;
        let repeated = self.frame.repeated.min(out.len() - old);
        out.drain(old..old + repeated);
        self.frame.repeated -= repeated;
        self.frame.given += out.len() - old;
        Ok(if is_stuck { Progress::None } else { Progress::Some })
    }

    /// Goes back to the start of a frame that has a fault somewhere.
    fn begin_again(&mut self, input: &mut Input<'_>) -> Result<(), Reason> {
        let reset = self.context.reset(ResetDirective::SessionOnly);
        reset.map_err(|code| Reason::Zstd { message: get_error_name(code) })?;
        let Frame { start, given, .. } = self.frame;
        self.frame = Frame { start, is_second: true, repeated: given, ..Frame::default() };
        self.wish = START_WISH;
        input.position = start;
        Ok(())
    }
}

impl Frame {
    fn see(&mut self, bytes: &[u8]) {
        let place = &mut self.head[self.head_size..];
        let size = place.len().min(bytes.len());
        place[..size].copy_from_slice(&bytes[..size]);
        self.head_size += size;
    }

    fn note(&self, summary: &mut PayloadSummary) {
        match &self.head[..self.head_size] {
            [low, high @ ..] if low >> 4 == 5 && high.starts_with(&MAGIC_SKIPPABLE) => {
                summary.frames_skippable += 1;
            }
            head => {
                summary.frames += 1;
                let size = zstd_safe::get_frame_content_size(head);
                summary.frames_with_size += u64::from(matches!(size, Ok(Some(_))));
            }
        }
    }
}
