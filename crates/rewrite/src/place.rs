//! Writes rewritten events to their new places.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use binlog::{CHECKSUM_SIZE, Checksum, MAGIC, NextPosition, move_event};

use crate::error::Error;
use crate::tally::{Moved, Tally};
use crate::{Progress, work::Part};

/// An event that gets its place when it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Where it starts among the bytes handed on.
    pub(crate) start: u32,
    pub(crate) checksum: Checksum,
}

/// Writes rewritten events to their new places: whole ones, or one in pieces.
pub(crate) struct Placer<W: Write> {
    out: BufWriter<W>,
    name: String,
    position: u64,
    tally: Tally,
    /// The checksum so far of the event that comes in pieces.
    pieces: Option<crc32fast::Hasher>,
}

impl<W: Write> Placer<W> {
    pub(crate) fn new(out: W, name: String) -> Result<Self, Error> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        out.write_all(&MAGIC).map_err(|cause| write_error(&name, cause))?;
        Ok(Self { out, name, position: MAGIC.len() as u64, tally: Tally::default(), pieces: None })
    }

    pub(crate) fn take(&mut self, part: Part, progress: &mut dyn Progress) -> Result<ControlFlow<()>, Error> {
        match part {
            Part::Events { mut bytes, placed, moved, tally } => {
                for (before, start) in moved {
                    let after = self.position + u64::from(start);
                    if progress.moved(Moved { before, after }).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                self.place(&mut bytes, &placed);
                self.tally.add(&tally);
                self.write(&bytes)?;
            }
            Part::Head { mut bytes, size, next, checksum } => {
                let next = next.unwrap_or_else(|| (self.position as u32).wrapping_add(size));
                bytes[13..17].copy_from_slice(&next.to_le_bytes());
                self.pieces = (checksum == Checksum::Crc32).then(crc32fast::Hasher::new);
                self.write_piece(&bytes)?;
            }
            Part::Body(bytes) => self.write_piece(&bytes)?,
            Part::Tail => {
                if let Some(hasher) = self.pieces.take() {
                    self.write(&hasher.finalize().to_le_bytes())?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(crate) fn finish(mut self) -> Result<Tally, Error> {
        self.out.flush().map_err(|cause| write_error(&self.name, cause))?;
        self.tally.bytes_after = self.position;
        Ok(self.tally)
    }

    fn place(&self, bytes: &mut [u8], placed: &[Placed]) {
        for &Placed { start, checksum } in placed {
            let from = start as usize;
            let size = match bytes[from + 9..].first_chunk() {
                Some(size) => u32::from_le_bytes(*size) as usize,
                None => unreachable!("ours: an event is at least a header long"),
            };
            let next = NextPosition::Behind(self.position + u64::from(start));
            move_event(&mut bytes[from..from + size], checksum, next);
        }
    }

    fn write_piece(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some(hasher) = &mut self.pieces {
            hasher.update(bytes);
        }
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|cause| write_error(&self.name, cause))?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

const _: () = assert!(CHECKSUM_SIZE == 4);

fn write_error(name: &str, cause: io::Error) -> Error {
    Error::Write { what: format!("what {name} becomes"), cause }
}
