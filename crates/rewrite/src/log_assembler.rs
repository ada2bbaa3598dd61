//! Writes rewritten events, with their new positions and checksums.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use binlog::{CHECKSUM_SIZE, EventChecksum, MAGIC, NextPosition, move_event};

use crate::MoveObserver;
use crate::error::RewriteError;
use crate::rewrite_output::RewriteOutput;
use crate::rewrite_tally::{RewriteTally, TransactionMove};
use crate::rewrite_worker::OutputPart;
use crate::spare_buffers::SpareBuffers;

/// An event whose position is set when it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionFixup {
    /// Start of the event in the bytes of its part.
    pub(crate) start: u32,
    pub(crate) checksum: EventChecksum,
}

/// Writes rewritten events, with their new positions and checksums: whole events, or one event in pieces.
pub(crate) struct LogAssembler<'s, W: RewriteOutput> {
    spare: &'s SpareBuffers,
    out: BufWriter<W>,
    name: String,
    position: u64,
    tally: RewriteTally,
    /// Checksum so far of the event that is written in pieces.
    pieces: Option<crc32fast::Hasher>,
    /// Position of the placeholder for a GTID event.
    reserved: u64,
    /// End of the last whole segment.
    whole_end: u64,
}

impl<'s, W: RewriteOutput> LogAssembler<'s, W> {
    pub(crate) fn new(out: W, name: String, spare: &'s SpareBuffers) -> Result<Self, RewriteError> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        out.write_all(&MAGIC).map_err(|cause| write_error(&name, cause))?;
        Ok(Self {
            spare,
            out,
            name,
            position: MAGIC.len() as u64,
            tally: RewriteTally::default(),
            pieces: None,
            reserved: 0,
            whole_end: MAGIC.len() as u64,
        })
    }

    /// Continues a log at `position`. Parts are written without a buffer.
    pub(crate) fn resume(out: W, name: String, spare: &'s SpareBuffers, position: u64) -> Self {
        let out = BufWriter::with_capacity(0, out);
        let (tally, pieces, reserved) = (RewriteTally::default(), None, 0);
        Self { spare, out, name, position, tally, pieces, reserved, whole_end: position }
    }

    /// Returns the end of the last whole segment. A part of a failed segment may follow.
    pub(crate) const fn whole_end(&self) -> u64 {
        self.whole_end
    }

    pub(crate) fn take(
        &mut self,
        part: OutputPart,
        progress: &mut dyn MoveObserver,
    ) -> Result<ControlFlow<()>, RewriteError> {
        match part {
            OutputPart::Events { mut bytes, fixups, moved, tally, whole } => {
                let start = self.position;
                for (before, start) in moved {
                    let after = self.position + u64::from(start);
                    if progress.on_move(TransactionMove { before, after }).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                self.fix_positions(&mut bytes, &fixups);
                self.tally.add(&tally);
                self.write(&bytes)?;
                if let Some(whole) = whole {
                    self.whole_end = start + whole as u64;
                }
                self.spare.put_back(bytes);
            }
            OutputPart::Head { mut bytes, size, next, checksum } => {
                let next = next.unwrap_or_else(|| (self.position as u32).wrapping_add(size));
                bytes[13..17].copy_from_slice(&next.to_le_bytes());
                self.pieces = (checksum == EventChecksum::Crc32).then(crc32fast::Hasher::new);
                self.write_piece(&bytes)?;
            }
            OutputPart::Body(bytes) => self.write_piece(&bytes)?,
            OutputPart::Tail => {
                if let Some(hasher) = self.pieces.take() {
                    self.write(&hasher.finalize().to_le_bytes())?;
                }
            }
            OutputPart::GtidPlaceholder(bytes) => {
                self.reserved = self.position;
                self.write(&bytes)?;
            }
            OutputPart::GtidFinal { mut bytes, fixup } => {
                if let Some(checksum) = fixup {
                    move_event(&mut bytes, checksum, NextPosition::FromStart(self.reserved));
                }
                self.write_over(self.reserved, &bytes)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(crate) fn finish(mut self) -> Result<RewriteTally, RewriteError> {
        self.out.flush().map_err(|cause| write_error(&self.name, cause))?;
        self.tally.bytes_after = self.position;
        Ok(self.tally)
    }

    fn fix_positions(&self, bytes: &mut [u8], fixups: &[PositionFixup]) {
        for &PositionFixup { start, checksum } in fixups {
            let from = start as usize;
            let size = match bytes[from + 9..].first_chunk() {
                Some(size) => u32::from_le_bytes(*size) as usize,
                None => unreachable!("ours: an event has at least a header"),
            };
            let next = NextPosition::FromStart(self.position + u64::from(start));
            move_event(&mut bytes[from..from + size], checksum, next);
        }
    }

    fn write_piece(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        if let Some(hasher) = &mut self.pieces {
            hasher.update(bytes);
        }
        self.write(bytes)
    }

    fn write_over(&mut self, start: u64, bytes: &[u8]) -> Result<(), RewriteError> {
        let written = self.out.flush().and_then(|()| self.out.get_mut().write_over(start, bytes));
        written.map_err(|cause| write_error(&self.name, cause))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RewriteError> {
        self.out.write_all(bytes).map_err(|cause| write_error(&self.name, cause))?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

const _: () = assert!(CHECKSUM_SIZE == 4);

fn write_error(name: &str, cause: io::Error) -> RewriteError {
    RewriteError::Write { what: format!("the rewritten {name}"), cause }
}

#[cfg(test)]
mod tests {
    use binlog::{
        ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition, RawEvent,
        events::Xid,
    };
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{LogAssembler, PositionFixup};
    use crate::rewrite_tally::{RewriteTally, TransactionMove};
    use crate::rewrite_worker::OutputPart;
    use crate::spare_buffers::SpareBuffers;
    use std::ops::ControlFlow;

    proptest! {
        #[test]
        fn positions_continue_beyond_4_gib(
            start in 4..1_u64 << 40, near in any::<bool>(), count in 1..20_usize, is_summed in any::<bool>(),
        ) {
            let start = if near { (1 << 32) - start % 300 } else { start };
            let algorithm = if is_summed { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::Off };
            let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
            let format =
                EventFormat { server_version, post_header_sizes, checksum: algorithm, flavour: Flavour::MySql };
            let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
            let (mut bytes, mut fixups, mut moved) = (Vec::new(), Vec::new(), Vec::new());
            let checksum = algorithm.for_events();
            for number in 0..count {
                let start = bytes.len() as u32;
                fixups.push(PositionFixup { start, checksum });
                moved.push((number as u64, start));
                let xid = Event::Xid(Xid { xid: number as u64 });
                xid.write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
            }
            let (mut out, mut told, spare) = (Vec::new(), Vec::new(), SpareBuffers::default());
            let mut assembler = LogAssembler::new(&mut out, String::new(), &spare).unwrap();
            assembler.position = start;
            let mut progress = |moved: TransactionMove| {
                told.push(moved.after);
                ControlFlow::Continue(())
            };
            let (tally, whole) = (Box::new(RewriteTally::default()), None);
            let part = OutputPart::Events { bytes, fixups, moved, tally, whole };
            prop_assert!(assembler.take(part, &mut progress).unwrap().is_continue());
            let end = assembler.finish().unwrap().bytes_after;
            let (mut rest, mut at) = (&out[4..], start);
            for told in told {
                let (raw, after) = RawEvent::split_first(rest, checksum).unwrap();
                prop_assert_eq!(told, at);
                at += raw.bytes().len() as u64;
                prop_assert_eq!(raw.header().next_position, at as u32);
                prop_assert_eq!(raw.verify(), Ok(()));
                rest = after;
            }
            prop_assert_eq!((rest.len(), at), (0, end));
        }
    }
}
