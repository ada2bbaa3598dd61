//! Segments: one log each, as blocks after a head.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::thread;

use binlog::MAGIC_ENCRYPTED;
use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring, LogCipher};
use logs::ordered::{PipelineLimits, run_ordered};
use sha2::{Digest, Sha256};

use crate::archive_error::ArchiveError;
use crate::block_decoder::BlockDecoder;
use crate::block_encoder::BlockEncoder;
use crate::block_frame::{BLOCK_HEAD_SIZE, BlockKind, parse_body, parse_head, put_end};
use crate::block_reader::LogBlockReader;
use crate::block_summary::BlockSummary;
use crate::segment_error::SegmentError;

/// First bytes of a segment.
const SEGMENT_MAGIC: [u8; 8] = *b"\xffBTSEGM\n";

/// Format of the segments that this version writes.
pub const SEGMENT_FORMAT: u8 = 1;

/// Largest size of the blocks in memory that wait for a worker, or for being written.
const PIPELINE_SIZE: usize = 32 << 20;

/// Largest number of workers. Each needs 50 MB and more.
const WORKERS_MAX: usize = 4;

/// Contents of a segment that has been written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Contents of its blocks.
    pub content: BlockSummary,
    /// Number of bytes of the log's file, including the header of an encrypted log.
    pub file_size: u64,
    /// SHA-256 of the log's file.
    pub file_digest: String,
    /// SHA-256 of the log after the header of an encrypted log, decrypted; `None` for other logs.
    pub plain_digest: Option<String>,
}

/// Maximum size of the head of a segment in bytes.
#[cfg(feature = "storage")]
pub(crate) const SEGMENT_HEAD_SIZE_MAX: usize = SEGMENT_MAGIC.len() + 2 + ENCRYPTED_HEADER_SIZE;

/// Head of a segment: what is in front of its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHead {
    /// Header of an encrypted log, whose blocks are decrypted.
    pub encrypted_header: Option<Box<[u8; ENCRYPTED_HEADER_SIZE]>>,
}

/// Writes the segment of a log. With a keyring, an encrypted log is stored decrypted.
///
/// # Errors
///
/// Fails if the log cannot be read, if the keyring lacks its key, or if `put` fails.
pub fn write_segment(
    mut input: impl Read + Send,
    keyring: Option<&Keyring>,
    mut put: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<SegmentSummary, ArchiveError> {
    let mut front = Vec::new();
    input.by_ref().take(MAGIC_ENCRYPTED.len() as u64).read_to_end(&mut front).map_err(read_failed)?;
    let mut head = SegmentHead::default();
    let mut cipher = None;
    if let Some(keyring) = keyring
        && front == MAGIC_ENCRYPTED
    {
        let rest = (ENCRYPTED_HEADER_SIZE - front.len()) as u64;
        input.by_ref().take(rest).read_to_end(&mut front).map_err(read_failed)?;
        if let Ok(header) = <[u8; ENCRYPTED_HEADER_SIZE]>::try_from(&front[..]) {
            cipher = Some(open_cipher(&header, keyring)?);
            head.encrypted_header = Some(Box::new(header));
        }
    }
    let mut content = BlockSummary::default();
    put(&head.encode())?;
    let mut source = DigestReader::new(front, input, cipher);
    write_blocks(&mut source, &mut put, &mut content)?;
    let mut end = Vec::new();
    put_end(content.log_size, &mut end);
    put(&end)?;
    let (file_digest, plain_digest, file_size) = source.finish();
    Ok(SegmentSummary { content, file_size, file_digest, plain_digest })
}

fn write_blocks(
    source: &mut (impl Read + Send),
    put: &mut impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    summary: &mut BlockSummary,
) -> Result<(), ArchiveError> {
    run_ordered(
        limits(),
        |items| {
            let mut reader = LogBlockReader::new(source);
            while let Some(block) = reader.next_block().map_err(read_failed)? {
                let size = block.bytes.len();
                items.push(block, size)?;
            }
            Ok(())
        },
        BlockEncoder::new,
        |encoder, block, parts| {
            let encoded = encoder.encode(&block)?;
            let size = encoded.bytes.len();
            Ok(parts.push(encoded, size)?)
        },
        |encoded| {
            summary.add(&encoded.summary);
            put(&encoded.bytes)?;
            Ok(ControlFlow::Continue(()))
        },
    )
}

/// Reads a segment, and passes the log's bytes to `take`, in order. The bytes of an encrypted log are decrypted, and
/// lack its header, which is returned.
///
/// # Errors
///
/// Fails if the segment cannot be read, is damaged, or is truncated, or if `take` fails.
pub fn read_segment(
    mut input: impl Read + Send,
    mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, ArchiveError>,
) -> Result<SegmentHead, ArchiveError> {
    let (head, head_size) = SegmentHead::read(&mut input)?;
    let mut next = 0;
    run_ordered(
        limits(),
        |items| {
            let mut offset = head_size;
            loop {
                let (body, checksum) = read_block(&mut input, offset)?;
                let size = body.len();
                let is_end = body.first() == Some(&(BlockKind::End as u8));
                items.push((offset, body, checksum), size)?;
                offset += (BLOCK_HEAD_SIZE + size) as u64;
                if is_end {
                    break;
                }
            }
            match input.read(&mut [0; 1]).map_err(read_failed)? {
                0 => Ok(()),
                _ => Err(SegmentError::Damaged { offset, what: "bytes follow its end" }.into()),
            }
        },
        BlockDecoder::new,
        |decoder, (offset, body, checksum), parts| {
            let frame = parse_body(&body, checksum).map_err(|damage| damage.at(offset))?;
            let mut bytes = Vec::new();
            decoder.decode(&frame, &mut bytes).map_err(|damage| damage.at(offset))?;
            let size = bytes.len();
            Ok(parts.push((offset, frame.offset, bytes), size)?)
        },
        |(offset, position, bytes)| {
            if position != next {
                let what = "it does not follow the block before";
                return Err(SegmentError::Damaged { offset, what }.into());
            }
            next += bytes.len() as u64;
            take(&bytes)
        },
    )?;
    Ok(head)
}

fn read_block(input: &mut impl Read, offset: u64) -> Result<(Vec<u8>, u32), ArchiveError> {
    let mut head = Vec::new();
    input.by_ref().take(BLOCK_HEAD_SIZE as u64).read_to_end(&mut head).map_err(read_failed)?;
    let truncated = |found: usize| SegmentError::Truncated { offset: offset + found as u64 };
    let head: [u8; BLOCK_HEAD_SIZE] = head.try_into().map_err(|head: Vec<u8>| truncated(head.len()))?;
    let (size, checksum) = parse_head(head, offset)?;
    let mut body = Vec::new();
    input.by_ref().take(size as u64).read_to_end(&mut body).map_err(read_failed)?;
    match body.len() == size {
        true => Ok((body, checksum)),
        false => Err(truncated(BLOCK_HEAD_SIZE + body.len()).into()),
    }
}

fn limits() -> PipelineLimits {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = NonZeroUsize::new(cores.min(WORKERS_MAX)).unwrap_or(NonZeroUsize::MIN);
    PipelineLimits { workers, bytes: PIPELINE_SIZE }
}

/// Returns the error of a failed read: that of the archive if it comes from there.
pub(crate) fn read_failed(cause: io::Error) -> ArchiveError {
    cause.downcast().unwrap_or_else(|cause| ArchiveError::Read { cause })
}

/// Returns the cipher of an encrypted log.
///
/// # Errors
///
/// Fails if the header is invalid, or the keyring lacks the key.
pub fn open_cipher(
    header: &[u8; ENCRYPTED_HEADER_SIZE],
    keyring: &Keyring,
) -> Result<LogCipher, ArchiveError> {
    let header = EncryptedHeader::decode(header).map_err(|error| ArchiveError::Header { error })?;
    let password = header.open(keyring).map_err(|error| ArchiveError::Key { error })?;
    Ok(password.cipher())
}

// size  field
//    8  magic number
//    1  format
//    1  1 if the header of an encrypted log follows
//    *  header: 512 bytes
impl SegmentHead {
    fn encode(&self) -> Vec<u8> {
        let mut out = SEGMENT_MAGIC.to_vec();
        out.push(SEGMENT_FORMAT);
        out.push(u8::from(self.encrypted_header.is_some()));
        out.extend(self.encrypted_header.iter().flat_map(|header| header.iter()));
        out
    }

    /// Reads the head of a segment.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or is not the head of a segment.
    pub fn read_from(input: &mut impl Read) -> Result<Self, ArchiveError> {
        Self::read(input).map(|(head, _)| head)
    }

    fn read(input: &mut impl Read) -> Result<(Self, u64), ArchiveError> {
        let mut fixed = Vec::new();
        let size = SEGMENT_MAGIC.len() + 2;
        input.by_ref().take(size as u64).read_to_end(&mut fixed).map_err(read_failed)?;
        let (magic, rest) = fixed.split_at(SEGMENT_MAGIC.len().min(fixed.len()));
        if magic != &SEGMENT_MAGIC[..magic.len()] || magic.is_empty() {
            return Err(SegmentError::NotASegment.into());
        }
        let &[format, flag] = rest else {
            return Err(SegmentError::Truncated { offset: fixed.len() as u64 }.into());
        };
        if format != SEGMENT_FORMAT {
            return Err(SegmentError::Version { found: format, expected: SEGMENT_FORMAT }.into());
        }
        match flag {
            0 => return Ok((Self::default(), size as u64)),
            1 => {}
            _ => {
                let what = "its head has an unknown flag";
                return Err(SegmentError::Damaged { offset: size as u64 - 1, what }.into());
            }
        }
        let mut header = Vec::new();
        input.by_ref().take(ENCRYPTED_HEADER_SIZE as u64).read_to_end(&mut header).map_err(read_failed)?;
        let offset = (size + header.len()) as u64;
        match header.try_into() {
            Ok(header) => Ok((Self { encrypted_header: Some(Box::new(header)) }, offset)),
            Err(_) => Err(SegmentError::Truncated { offset }.into()),
        }
    }
}

/// Log whose bytes are hashed and decrypted while they are read.
struct DigestReader<R> {
    /// Bytes that were read in front of the others.
    front: io::Cursor<Vec<u8>>,
    input: R,
    cipher: Option<LogCipher>,
    /// Number of decrypted bytes.
    decrypted: u64,
    file_size: u64,
    file: Sha256,
    plain: Sha256,
}

impl<R: Read> DigestReader<R> {
    fn new(front: Vec<u8>, input: R, cipher: Option<LogCipher>) -> Self {
        let (mut file, mut file_size) = (Sha256::new(), 0);
        // The header of a log that is decrypted is not part of its blocks.
        let front = match cipher {
            Some(_) => {
                file.update(&front);
                file_size = front.len() as u64;
                Vec::new()
            }
            None => front,
        };
        let front = io::Cursor::new(front);
        Self { front, input, cipher, decrypted: 0, file_size, file, plain: Sha256::new() }
    }

    fn finish(self) -> (String, Option<String>, u64) {
        let plain = self.cipher.is_some().then(|| hex(self.plain));
        (hex(self.file), plain, self.file_size)
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = match self.front.read(out)? {
            0 => self.input.read(out)?,
            size => size,
        };
        let bytes = &mut out[..size];
        self.file.update(&bytes[..]);
        self.file_size += size as u64;
        if let Some(cipher) = &mut self.cipher {
            cipher.apply(self.decrypted, bytes);
            self.decrypted += size as u64;
            self.plain.update(&bytes[..]);
        }
        Ok(size)
    }
}

/// Returns a digest as text.
pub(crate) fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of bytes that come in pieces.
#[derive(Clone, Debug, Default)]
pub struct LogDigest(Sha256);

impl LogDigest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest as text.
    pub fn finish(self) -> String {
        hex(self.0)
    }
}
