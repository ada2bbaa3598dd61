//! zstd frames, one behind the other, as a stream.

use std::fmt;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::{PayloadError, PayloadSummary, unsupported};
use crate::error::Reason;

/// The largest window, as a power of two: 128 MiB, what level 22 (`--ultra`) needs, and what every other
/// reader allows too.
const WINDOW_LOG_MAX: u32 = 27;

/// What zstd wants to see of a frame first.
const START_WISH: usize = 5;

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

pub(super) struct Frames<'o> {
    context: &'o mut DCtx<'static>,
    input: &'o [u8],
    position: usize,
    /// How many bytes zstd would like to see next; 0 between two frames, when all that went in has come out.
    wish: usize,
    frame: Frame,
    /// What ends the stream before its end.
    fault: Option<Reason>,
}

/// The frame at hand.
#[derive(Clone, Copy, Default)]
struct Frame {
    start: usize,
    /// Bytes that came out of it.
    given: usize,
    care: Care,
    /// Bytes that come out of it a second time.
    repeated: usize,
}

enum Progress {
    Some,
    /// Nothing in, nothing out, and the frame is not over.
    None,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Care {
    /// As much as there is at once. What comes out together with a fault is lost.
    #[default]
    Fast,
    /// One block at a time: everything in front of the fault comes out.
    BlockByBlock,
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Frames at {} of {}", self.position, self.input.len())
    }
}

impl<'o> Frames<'o> {
    pub(super) fn new(context: &'o mut Context, input: &'o [u8]) -> Result<Self, PayloadError> {
        let context = context.ready()?;
        Ok(Self { context, input, position: 0, wish: 0, frame: Frame::default(), fault: None })
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn is_finished(&self) -> bool {
        self.wish == 0 && self.position == self.input.len()
    }

    pub(super) fn fill(
        &mut self,
        out: &mut Vec<u8>,
        room: usize,
        summary: &mut PayloadSummary,
    ) -> Result<(), Reason> {
        let old = out.len();
        while out.len() < room && !self.is_finished() {
            if let Some(fault) = self.fault {
                // All in front of it is handed out first.
                return if out.len() == old { Err(fault) } else { Ok(()) };
            }
            if self.wish == 0 {
                self.frame = Frame { start: self.position, ..Frame::default() };
                note_frame(&self.input[self.position..], summary);
            }
            match self.step(out) {
                Ok(Progress::Some) => {}
                Ok(Progress::None) => {
                    self.fault = Some(Reason::Zstd { message: "the frame is torn" });
                }
                Err(_) if self.frame.care == Care::Fast => self.begin_again()?,
                Err(message) => self.fault = Some(Reason::Zstd { message }),
            }
        }
        Ok(())
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, &'static str> {
        let end = match self.frame.care {
            Care::Fast => self.input.len(),
            Care::BlockByBlock => self.input.len().min(self.position + self.wish),
        };
        let old = out.len();
        let mut input = InBuffer { src: &self.input[..end], pos: self.position };
        let mut output = OutBuffer::around_pos(out, old);
        self.wish = self.context.decompress_stream(&mut output, &mut input).map_err(get_error_name)?;
        let is_stuck = self.wish != 0 && (self.position, old) == (input.pos, out.len());
        self.position = input.pos;
        let repeated = self.frame.repeated.min(out.len() - old);
        out.drain(old..old + repeated);
        self.frame.repeated -= repeated;
        self.frame.given += out.len() - old;
        Ok(if is_stuck { Progress::None } else { Progress::Some })
    }

    /// Goes back to the start of a frame that has a fault somewhere.
    fn begin_again(&mut self) -> Result<(), Reason> {
        let reset = self.context.reset(ResetDirective::SessionOnly);
        reset.map_err(|code| Reason::Zstd { message: get_error_name(code) })?;
        self.position = self.frame.start;
        self.wish = START_WISH;
        self.frame.care = Care::BlockByBlock;
        self.frame.repeated = std::mem::take(&mut self.frame.given);
        Ok(())
    }
}

fn note_frame(rest: &[u8], summary: &mut PayloadSummary) {
    match rest {
        [low, high @ ..] if low >> 4 == 5 && high.starts_with(&MAGIC_SKIPPABLE) => {
            summary.frames_skippable += 1;
        }
        _ => {
            summary.frames += 1;
            let size = zstd_safe::get_frame_content_size(rest);
            summary.frames_with_size += u64::from(matches!(size, Ok(Some(_))));
        }
    }
}
