//! Rendered bytes that are not in a chunk yet: in memory, or beyond a limit in an encrypted temporary file.

use std::io::{self, Write};
use std::path::PathBuf;

use logs::EncryptedSpool;
use rewrite::RewriteOutput;

/// Maximum number of bytes in memory. Only a single transaction can exceed it.
const MEMORY_MAX: usize = 4 << 20;

/// Rendered bytes that are not in a chunk yet. They are written and taken in order.
pub(crate) struct RenderBuffer {
    /// Position in the rendered log of the first byte in memory.
    start: u64,
    memory: Vec<u8>,
    /// Number of bytes of `memory` already taken.
    taken: usize,
    spool: Option<SpooledRest>,
    directory: PathBuf,
}

/// Bytes that follow the bytes in memory.
struct SpooledRest {
    bytes: EncryptedSpool,
    /// Number of bytes, after the end was dropped.
    size_max: u64,
    taken: u64,
    /// Overwritten bytes, with their offsets.
    patches: Vec<(u64, Vec<u8>)>,
}

impl RenderBuffer {
    /// Creates an empty buffer at a position of the rendered log. Creates its temporary file in `directory`.
    pub(crate) fn new(start: u64, directory: PathBuf) -> Self {
        Self { start, memory: Vec::new(), taken: 0, spool: None, directory }
    }

    /// Takes bytes from the front, until `out` has `size` bytes or the buffer is empty.
    pub(crate) fn take(&mut self, size: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let count = size.saturating_sub(out.len()).min(self.memory.len() - self.taken);
        out.extend_from_slice(&self.memory[self.taken..self.taken + count]);
        self.taken += count;
        if let Some(spool) = &mut self.spool
            && out.len() < size
        {
            spool.take(size, out)?;
        }
        if self.is_empty() {
            let spooled = self.spool.take().map_or(0, |spool| spool.size());
            self.start += self.memory.len() as u64 + spooled;
            self.memory.clear();
            self.memory.shrink_to(MEMORY_MAX);
            self.taken = 0;
        }
        Ok(())
    }

    /// Returns whether all bytes have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        let is_spool_empty = self.spool.as_ref().is_none_or(|spool| spool.taken == spool.size());
        self.taken == self.memory.len() && is_spool_empty
    }

    /// Drops the bytes after a position of the rendered log. These bytes must not be taken yet, and no more bytes may
    /// be written.
    pub(crate) fn drop_from(&mut self, end: u64) {
        let kept = end.saturating_sub(self.start);
        match kept.checked_sub(self.memory.len() as u64) {
            Some(spooled) => {
                if let Some(spool) = &mut self.spool {
                    spool.size_max = spooled;
                }
            }
            None => {
                self.memory.truncate(kept as usize);
                self.spool = None;
            }
        }
        assert!(self.taken <= self.memory.len(), "ours: taken bytes are not dropped");
    }
}

impl SpooledRest {
    fn size(&self) -> u64 {
        self.bytes.size().min(self.size_max)
    }

    fn take(&mut self, size: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let (at, from) = (out.len(), self.taken);
        let count = (size - at).min(usize::try_from(self.size() - from).unwrap_or(usize::MAX));
        out.resize(at + count, 0);
        self.bytes.read_exact_at(from, &mut out[at..])?;
        self.taken += count as u64;
        for (start, patch) in &self.patches {
            for (byte, offset) in patch.iter().zip(*start..) {
                if let Some(target) =
                    offset.checked_sub(from).and_then(|offset| out.get_mut(at + offset as usize))
                {
                    *target = *byte;
                }
            }
        }
        Ok(())
    }
}

impl Write for RenderBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.spool.is_none() && self.memory.len() + bytes.len() <= MEMORY_MAX {
            self.memory.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => {
                let bytes = EncryptedSpool::new_in(&self.directory, 0)?;
                none.insert(SpooledRest { bytes, size_max: u64::MAX, taken: 0, patches: Vec::new() })
            }
        };
        spool.bytes.push(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RewriteOutput for RenderBuffer {
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let offset = start.checked_sub(self.start).ok_or_else(invalid)?;
        match (offset.checked_sub(self.memory.len() as u64), &mut self.spool) {
            (Some(offset), Some(spool)) => spool.patches.push((offset, bytes.to_vec())),
            // The rewriter overwrites one event. It wrote this event in one call, so the event is not split.
            (None, _) => {
                let range =
                    self.memory.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
                range.ok_or_else(invalid)?.copy_from_slice(bytes);
            }
            (Some(_), None) => return Err(invalid()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rewrite::RewriteOutput as _;

    use super::{MEMORY_MAX, RenderBuffer};

    #[test]
    fn bytes_are_returned_in_order_with_overwritten_parts() {
        let mut buffer = RenderBuffer::new(1000, std::env::temp_dir());
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        for round in 0..3_u8 {
            let start = 1000 + written.len() as u64;
            for number in 0..(MEMORY_MAX / 1000 * 2) as u32 {
                let bytes = [round ^ number as u8; 777];
                buffer.write_all(&bytes).unwrap();
                written.extend_from_slice(&bytes);
            }
            for offset in [0, 777 * 3, 777 * 7000] {
                buffer.write_over(start + offset, &[0xee; 777]).unwrap();
                let at = (start - 1000 + offset) as usize;
                written[at..at + 777].fill(0xee);
            }
            while !buffer.is_empty() {
                let mut out = b"x".to_vec();
                buffer.take(100_001, &mut out).unwrap();
                taken.extend_from_slice(&out[1..]);
            }
        }
        assert!(buffer.write_over(4, b"x").is_err());
        assert!(taken == written);
    }

    #[test]
    fn dropped_bytes_are_not_returned() {
        for kept in [0, 1, MEMORY_MAX - 1, MEMORY_MAX, MEMORY_MAX + 1, 2 * MEMORY_MAX] {
            let mut buffer = RenderBuffer::new(1000, std::env::temp_dir());
            for number in 0..2_u8 {
                buffer.write_all(&vec![number; MEMORY_MAX]).unwrap();
            }
            buffer.drop_from(1000 + kept as u64);
            let mut out = Vec::new();
            buffer.take(usize::MAX, &mut out).unwrap();
            assert_eq!((out.len(), buffer.is_empty()), (kept, true));
        }
    }
}
