//! Stream of consecutive zstd frames.

use std::fmt;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::flow::{Ending, Input};
use super::{Pace, PayloadError, PayloadSummary, unsupported};
use crate::error::Reason;

/// Base-2 logarithm of the largest window: 128 MiB, which level 22 (`--ultra`) needs and other readers also allow.
const WINDOW_LOG_MAX: u32 = 27;

/// Number of bytes that zstd reads first of a frame.
const START_WISH: usize = 5;

/// Size of the header of each block.
const BLOCK_HEADER_SIZE: usize = 3;

/// Bytes of a skippable frame's magic after the first. The lower four bits of the first byte are free.
const MAGIC_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// zstd context, created on first use.
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
            let mut context =
                DCtx::try_create().ok_or_else(|| unsupported("a zstd payload (out of memory)"))?;
            context
                .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                .map_err(|_| unsupported("a zstd payload (window of 128 MiB rejected)"))?;
            self.0 = Some(context);
        }
        let context = self.0.as_mut().ok_or_else(|| unsupported("a zstd payload (context not usable)"))?;
        // The previous payload may have been left unfinished.
        context
            .reset(ResetDirective::SessionOnly)
            .map_err(|_| unsupported("a zstd payload (context not usable)"))?;
        Ok(context)
    }
}

/// Decoder of consecutive frames.
pub(super) struct Frames<'o> {
    context: &'o mut DCtx<'static>,
    /// Number of bytes that zstd expects next; 0 between frames, after all output was returned.
    wish: usize,
    frame: Frame,
    care: Care,
    /// Error to report after the remaining output.
    fault: Option<Reason>,
}

/// State of the current frame.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// Offset of the frame in the input.
    start: usize,
    /// First bytes of the frame.
    head: [u8; FRAME_HEAD_SIZE],
    head_size: usize,
    /// Number of output bytes of the frame.
    given: usize,
    /// True if the frame is read a second time.
    is_second: bool,
    /// Number of output bytes to drop in the second reading.
    repeated: usize,
}

/// Maximum size of a frame header, magic included.
const FRAME_HEAD_SIZE: usize = 18;

enum Progress {
    Some,
    /// Neither input nor output moved, and the frame is not finished.
    None,
}

#[derive(Clone, Copy, PartialEq)]
enum Care {
    /// Decodes as much as possible at once. On an error, reads the frame again block by block to recover the output
    /// before it.
    Fast,
    /// Decodes one block at a time, so that all output before an error is returned.
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
            // Earlier pieces are gone and cannot be read again.
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
                // Return the output before the error first.
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
            // zstd asks for a block together with the next block's header. An error in that header would hide this
            // block.
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

    /// Restarts a frame that has an error.
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
