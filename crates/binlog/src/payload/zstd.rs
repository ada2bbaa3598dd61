//! Stream of consecutive zstd frames.

use std::fmt;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::reader::{PayloadEnding, PayloadInput};
use super::{PayloadDelivery, PayloadError, PayloadSummary, unsupported};
use crate::error::DecodeReason;

/// Base-2 logarithm of the largest window: 128 MiB, which level 22 (`--ultra`) needs and other readers also allow.
const WINDOW_LOG_MAX: u32 = 27;

/// Message for a decoder without a payload.
const NOT_STARTED: &str = "no payload was begun";

/// Number of bytes at the start of a frame that zstd reads first.
const FRAME_START_SIZE: usize = 5;

/// Size of the header of each block.
const BLOCK_HEADER_SIZE: usize = 3;

/// Bytes of a skippable frame's magic number after the first byte. The lower four bits of the first byte are free.
const MAGIC_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Decoder of consecutive frames.
#[derive(Default)]
pub(super) struct ZstdFrames {
    /// Context, created on first use.
    context: Option<DCtx<'static>>,
    /// Number of bytes that zstd expects next; 0 between frames, after all output was returned.
    next_size: usize,
    frame: FrameState,
    mode: DecompressMode,
    /// Error to report after the remaining output.
    fault: Option<DecodeReason>,
}

/// State of the current frame.
#[derive(Clone, Copy, Default)]
struct FrameState {
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

/// Maximum size of a frame header, magic number included.
const FRAME_HEAD_SIZE: usize = 18;

enum StepProgress {
    Some,
    /// zstd has read no input and written no output, and the frame is not finished.
    None,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum DecompressMode {
    /// Decodes as much as possible at once. After an error, reads the frame again block by block, to recover the output
    /// before the error.
    #[default]
    Fast,
    /// Decodes one block at a time, so that all output before an error is returned.
    BlockByBlock,
}

impl fmt::Debug for ZstdFrames {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Frames")
    }
}

impl ZstdFrames {
    /// Starts a payload.
    pub(super) fn begin(&mut self, delivery: PayloadDelivery) -> Result<(), PayloadError> {
        if self.context.is_none() {
            let mut context =
                DCtx::try_create().ok_or_else(|| unsupported("a zstd payload (out of memory)"))?;
            context
                .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                .map_err(|_| unsupported("a zstd payload (window of 128 MiB rejected)"))?;
            self.context = Some(context);
        }
        // The previous payload may have been left unfinished.
        self.reset().map_err(|_| unsupported("a zstd payload (context not usable)"))?;
        self.mode = match delivery {
            PayloadDelivery::AtOnce => DecompressMode::Fast,
            // Earlier pieces cannot be read again.
            PayloadDelivery::InPieces => DecompressMode::BlockByBlock,
        };
        (self.next_size, self.frame, self.fault) = (0, FrameState::default(), None);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), &'static str> {
        let context = self.context.as_mut().ok_or(NOT_STARTED)?;
        context.reset(ResetDirective::SessionOnly).map(|_| ()).map_err(get_error_name)
    }

    pub(super) fn is_between(&self) -> bool {
        self.next_size == 0
    }

    pub(super) fn fill(
        &mut self,
        input: &mut PayloadInput<'_>,
        out: &mut Vec<u8>,
        room: usize,
        summary: &mut PayloadSummary,
    ) -> Result<(), DecodeReason> {
        let old = out.len();
        while out.len() < room {
            if let Some(fault) = self.fault {
                // Return the output before the error first.
                return if out.len() == old { Err(fault) } else { Ok(()) };
            }
            if self.next_size == 0 {
                if input.rest().is_empty() {
                    return Ok(());
                }
                self.frame = FrameState { start: input.position, ..FrameState::default() };
                self.next_size = FRAME_START_SIZE;
            }
            match self.step(input, out) {
                Ok(StepProgress::Some) if self.next_size == 0 => self.frame.count_into(summary),
                Ok(StepProgress::Some) => {}
                Ok(StepProgress::None) if input.ending == PayloadEnding::Later => return Ok(()),
                Ok(StepProgress::None) => self.fault = Some(DecodeReason::TORN_FRAME),
                Err(_) if self.mode == DecompressMode::Fast && !self.frame.is_second => {
                    self.restart_frame(input)?
                }
                Err(message) => self.fault = Some(DecodeReason::Zstd { message }),
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        input: &mut PayloadInput<'_>,
        out: &mut Vec<u8>,
    ) -> Result<StepProgress, &'static str> {
        let is_careful = self.mode == DecompressMode::BlockByBlock || self.frame.is_second;
        let size = match self.next_size {
            _ if !is_careful => usize::MAX,
            // zstd requests a block together with the next block's header. An error in that header would hide this
            // block.
            size_hint if size_hint > BLOCK_HEADER_SIZE => size_hint - BLOCK_HEADER_SIZE,
            size_hint => size_hint,
        };
        let rest = input.rest();
        let mut piece = InBuffer::around(&rest[..rest.len().min(size)]);
        let old = out.len();
        let mut output = OutBuffer::around_pos(out, old);
        let context = self.context.as_mut().ok_or(NOT_STARTED)?;
        self.next_size = context.decompress_stream(&mut output, &mut piece).map_err(get_error_name)?;
        let is_stuck = self.next_size != 0 && piece.pos == 0 && out.len() == old;
        self.frame.record_head(&rest[..piece.pos]);
        input.position += piece.pos;
        let repeated = self.frame.repeated.min(out.len() - old);
        out.drain(old..old + repeated);
        self.frame.repeated -= repeated;
        self.frame.given += out.len() - old;
        Ok(if is_stuck { StepProgress::None } else { StepProgress::Some })
    }

    /// Restarts a frame that has an error.
    fn restart_frame(&mut self, input: &mut PayloadInput<'_>) -> Result<(), DecodeReason> {
        self.reset().map_err(|message| DecodeReason::Zstd { message })?;
        let FrameState { start, given, .. } = self.frame;
        self.frame = FrameState { start, is_second: true, repeated: given, ..FrameState::default() };
        self.next_size = FRAME_START_SIZE;
        input.position = start;
        Ok(())
    }
}

impl FrameState {
    fn record_head(&mut self, bytes: &[u8]) {
        let slot = &mut self.head[self.head_size..];
        let size = slot.len().min(bytes.len());
        slot[..size].copy_from_slice(&bytes[..size]);
        self.head_size += size;
    }

    fn count_into(&self, summary: &mut PayloadSummary) {
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
