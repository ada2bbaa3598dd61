//! Compressed packets: frames around the bytes of plain packets, independent of packet boundaries.

use binlog::Cursor;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use zstd_safe::{CCtx, CParameter, DCtx};

use crate::error::WireError;
use crate::packet_codec::SequenceCheck;
use crate::receive_buffer::ReceiveBuffer;

/// Compression of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketCompression {
    /// `zlib`, with this side's level, 1 to 9. Servers use 6.
    Zlib {
        /// Compression level.
        level: u8,
    },
    /// `zstd`, with the level of both sides, 1 to 22 (default 3).
    Zstd {
        /// Compression level.
        level: u8,
    },
}

/// Size of a frame's header.
pub(crate) const FRAME_HEADER_SIZE: usize = 7;
/// Maximum size of a frame's uncompressed content, the same as in servers.
const FRAME_CONTENT_MAX: usize = 0xff_ffff - FRAME_HEADER_SIZE;
/// Smaller content is not compressed: `MIN_COMPRESS_LENGTH` of servers.
const COMPRESS_SIZE_MIN: usize = 50;
/// Maximum uncompressed size of a zstd block.
const ZSTD_BLOCK_MAX: usize = 128 << 10;
/// Minimum compressed size of a zstd block.
const ZSTD_BLOCK_SIZE_MIN: usize = 3;

/// State of a compressed connection, for both directions.
pub(crate) struct CompressedFrames {
    compression: PacketCompression,
    zstd: Option<ZstdContexts>,
    /// Number of the next frame, in either direction.
    pub(crate) sequence: u8,
    /// Received bytes, still compressed.
    pub(crate) raw: ReceiveBuffer,
    /// Offset of the next frame in the received bytes.
    start: usize,
    /// Output of the last compression or decompression.
    scratch: Vec<u8>,
}

struct ZstdContexts {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
}

impl CompressedFrames {
    /// Creates the state for a connection that starts compression.
    pub(crate) fn new(compression: PacketCompression) -> Self {
        let zstd = match compression {
            PacketCompression::Zlib { .. } => None,
            PacketCompression::Zstd { level } => {
                let mut zstd = ZstdContexts { compress: CCtx::create(), decompress: DCtx::create() };
                // Invalid levels become the nearest valid one, as on servers.
                let _ = zstd.compress.set_parameter(CParameter::CompressionLevel(level.into()));
                Some(zstd)
            }
        };
        Self { compression, zstd, sequence: 0, raw: ReceiveBuffer::default(), start: 0, scratch: Vec::new() }
    }

    /// Releases the buffers, which must have no unread bytes.
    pub(crate) fn release(&mut self) {
        self.raw = ReceiveBuffer::default();
        self.start = 0;
        self.scratch = Vec::new();
    }

    /// Returns true if received bytes have not been decompressed yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.start < self.raw.len()
    }

    /// Decompresses the next frame and returns its content; `None` until the whole frame has arrived.
    // size  field
    //    3  size of the body
    //    1  sequence
    //    3  size of the body, opened; 0 when it is not compressed
    //    *  body
    pub(crate) fn open(&mut self, numbers: SequenceCheck) -> Result<Option<&[u8]>, WireError> {
        let mut cursor = Cursor::new(&self.raw.as_slice()[self.start..]);
        let (Ok(size), Ok(sequence), Ok(opened_size)) = (cursor.u24(), cursor.u8(), cursor.u24()) else {
            self.compact();
            return Ok(None);
        };
        let Ok(body) = cursor.bytes(size as usize) else {
            self.compact();
            return Ok(None);
        };
        if numbers == SequenceCheck::Checked && sequence != self.sequence {
            return Err(WireError::Sequence { found: sequence, expected: self.sequence });
        }
        let opened_size = opened_size as usize;
        self.scratch.clear();
        let opened = match (opened_size, &mut self.zstd) {
            (0, _) => {
                self.scratch.extend_from_slice(body);
                Ok(())
            }
            (_, Some(zstd)) => zstd.open(body, opened_size, &mut self.scratch),
            (_, None) => inflate(body, opened_size, &mut self.scratch),
        };
        opened.map_err(|reason| WireError::Compressed { size: body.len(), reason })?;
        self.start += FRAME_HEADER_SIZE + body.len();
        if numbers == SequenceCheck::Checked {
            self.sequence = sequence.wrapping_add(1);
        }
        Ok(Some(&self.scratch))
    }

    /// Appends `plain` to `out` in frames.
    pub(crate) fn put(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        for content in plain.chunks(FRAME_CONTENT_MAX) {
            let compressed = self.compress(content);
            let (body, opened_size) = match compressed {
                true => (self.scratch.as_slice(), content.len()),
                false => (content, 0),
            };
            put_u24(out, body.len());
            out.push(self.sequence);
            put_u24(out, opened_size);
            out.extend_from_slice(body);
            self.sequence = self.sequence.wrapping_add(1);
        }
    }

    /// Compresses into the scratch buffer; returns true if this makes the content smaller.
    fn compress(&mut self, content: &[u8]) -> bool {
        if content.len() < COMPRESS_SIZE_MIN {
            return false;
        }
        match (self.compression, &mut self.zstd) {
            (PacketCompression::Zlib { level }, _) => {
                self.scratch = compress_to_vec_zlib(content, level.min(9))
            }
            (_, Some(zstd)) => {
                self.scratch.clear();
                self.scratch.reserve(zstd_safe::compress_bound(content.len()));
                if zstd.compress.compress2(&mut self.scratch, content).is_err() {
                    return false; // Sent uncompressed.
                }
            }
            (PacketCompression::Zstd { .. }, None) => return false,
        }
        self.scratch.len() < content.len()
    }

    /// Removes the frames already decompressed.
    fn compact(&mut self) {
        self.raw.drop_front(self.start);
        self.start = 0;
    }
}

impl ZstdContexts {
    fn open(&mut self, body: &[u8], opened_size: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
        // Limit the allocation to the maximum content of a body of this size: the frame may claim any size.
        let blocks = body.len() / ZSTD_BLOCK_SIZE_MIN + 1;
        out.reserve(opened_size.min(blocks.saturating_mul(ZSTD_BLOCK_MAX)));
        self.decompress.decompress(out, body).map_err(zstd_safe::get_error_name)?;
        check_size(out, opened_size)
    }
}

fn inflate(body: &[u8], opened_size: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    match decompress_to_vec_zlib_with_limit(body, opened_size) {
        Ok(opened) => *out = opened,
        Err(_) => return Err("the zlib data is invalid, cut off, or larger than its header states"),
    }
    check_size(out, opened_size)
}

fn check_size(opened: &[u8], expected: usize) -> Result<(), &'static str> {
    match opened.len() == expected {
        true => Ok(()),
        false => Err("the size differs from its header"),
    }
}

/// Appends three bytes.
pub(crate) fn put_u24(out: &mut Vec<u8>, size: usize) {
    assert!(size <= 0xff_ffff, "ours: sizes are cut before they are written");
    out.extend_from_slice(&size.to_le_bytes()[..3]);
}
