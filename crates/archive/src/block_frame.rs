//! Frame of a block in a segment.

use crate::log_block::LogBlock;
use crate::segment_error::{BlockDamage, SegmentError};
use crate::stream_codec::ZstdFailure;
use crate::varint::{StreamCursor, put_varint};

/// Kind of a block in a segment, with its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Bytes of a log, compressed.
    Opaque = 0,
    /// Streams of events.
    Events = 1,
    /// End of the segment.
    End = 2,
}

impl BlockKind {
    const ALL: [Self; 3] = [Self::Opaque, Self::Events, Self::End];
}

/// Size of the fields in front of a block: size, checksum.
pub(crate) const BLOCK_HEAD_SIZE: usize = 8;

/// Largest size of a block in a segment. Bounds memory: events of 24 MiB that zstd cannot compress.
pub(crate) const FRAME_SIZE_MAX: usize = 64 << 20;

/// Largest size of a block's bytes of the log.
pub(crate) const LOG_SIZE_MAX: usize = 32 << 20;

/// Bytes of a block, without its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFrame<'a> {
    pub(crate) kind: BlockKind,
    /// Position of its first byte in the log.
    pub(crate) offset: u64,
    /// Number of bytes of the log.
    pub(crate) log_size: usize,
    pub(crate) content: &'a [u8],
}

// size  field
//    4  size of everything after the checksum
//    4  checksum: CRC32 of everything after it
//    1  kind
//    *  position in the log: varint
//    *  number of bytes of the log: varint
//    *  content
pub(crate) fn put_block(
    kind: BlockKind,
    block: &LogBlock,
    out: &mut Vec<u8>,
    put_content: impl FnOnce(&mut Vec<u8>) -> Result<(), ZstdFailure>,
) -> Result<(), ZstdFailure> {
    let start = out.len();
    out.extend_from_slice(&[0; BLOCK_HEAD_SIZE]);
    out.push(kind as u8);
    put_varint(out, block.offset);
    put_varint(out, block.bytes.len() as u64);
    put_content(out)?;
    seal(&mut out[start..]);
    Ok(())
}

/// Appends the end of a segment, which states the size of the log.
pub(crate) fn put_end(log_size: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; BLOCK_HEAD_SIZE]);
    out.push(BlockKind::End as u8);
    put_varint(out, log_size);
    put_varint(out, 0);
    seal(&mut out[start..]);
}

fn seal(block: &mut [u8]) {
    let (head, body) = block.split_at_mut(BLOCK_HEAD_SIZE);
    let (size, checksum) = head.split_at_mut(4);
    size.copy_from_slice(&(body.len() as u32).to_le_bytes());
    checksum.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

/// Returns the size of the block after this head, and its checksum.
pub(crate) fn parse_head(head: [u8; BLOCK_HEAD_SIZE], offset: u64) -> Result<(usize, u32), SegmentError> {
    let [a, b, c, d, e, f, g, h] = head;
    let size = u32::from_le_bytes([a, b, c, d]) as usize;
    if size > FRAME_SIZE_MAX {
        return Err(BlockDamage("a block is too large").at(offset));
    }
    Ok((size, u32::from_le_bytes([e, f, g, h])))
}

/// Checks and parses the bytes after the head of a block.
pub(crate) fn parse_body(body: &[u8], checksum: u32) -> Result<BlockFrame<'_>, BlockDamage> {
    if crc32fast::hash(body) != checksum {
        return Err(BlockDamage("its checksum is wrong"));
    }
    let mut cursor = StreamCursor::new(body);
    let number = cursor.u8()?;
    let kind = BlockKind::ALL.into_iter().find(|kind| *kind as u8 == number);
    let kind = kind.ok_or(BlockDamage("its kind is unknown"))?;
    let (offset, log_size) = (cursor.varint()?, cursor.size()?);
    if log_size > LOG_SIZE_MAX {
        return Err(BlockDamage("its part of the log is too large"));
    }
    Ok(BlockFrame { kind, offset, log_size, content: cursor.take_rest() })
}
