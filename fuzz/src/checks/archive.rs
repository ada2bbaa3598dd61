//! Archives: any log is restored byte for byte, and any block of a segment is decoded or refused.

use std::ops::ControlFlow;

use archive::{BlockDecoder, read_segment, write_segment};

use crate::seeds::Sample;

pub(super) fn check(bytes: &[u8]) {
    let mut segment = Vec::new();
    let written = write_segment(bytes, None, |block| {
        segment.extend_from_slice(block);
        Ok(())
    });
    written.expect("a log in memory can always be archived");
    let mut log = Vec::new();
    let read = read_segment(&segment[..], |block| {
        log.extend_from_slice(block);
        Ok(ControlFlow::Continue(()))
    });
    read.expect("a segment that was just written can be read");
    assert!(log == bytes, "the log has changed");
    // Decodes the same bytes as a block with a right checksum, and as a damaged block.
    let mut block = (bytes.len() as u32).to_le_bytes().to_vec();
    block.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    block.extend_from_slice(bytes);
    let _ = BlockDecoder::new().decode_one(&block);
    damage_block(&segment, bytes);
}

/// Changes one byte of the first block, corrects its checksum, and decodes it.
fn damage_block(segment: &[u8], bytes: &[u8]) {
    const HEAD: usize = 10;
    let Some(block) = segment.get(HEAD..) else { return };
    let Some(size) = block.first_chunk().map(|size| u32::from_le_bytes(*size) as usize) else { return };
    let Some(mut block) = block.get(..8 + size).map(<[u8]>::to_vec) else { return };
    let offset =
        bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    block[8 + offset % size] ^= 1 << (offset % 8);
    let checksum = crc32fast::hash(&block[8..]).to_le_bytes();
    block[4..8].copy_from_slice(&checksum);
    let _ = BlockDecoder::new().decode_one(&block);
}

/// Largest seed in bytes.
const SEED_SIZE_MAX: usize = 8192;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    vec![sample.bytes[..sample.bytes.len().min(SEED_SIZE_MAX)].to_vec()]
}
