//! Transaction payloads that are too large for memory: one compressed transaction can have a gibibyte.

use std::sync::Arc;

use binlog::events::PayloadFields;
use binlog::{
    Cursor, DecodeError, DecodeReason, EventFormat, EventHeader, HEADER_SIZE, PayloadError, PayloadOpener,
    PayloadStream, PayloadSummary,
};

use crate::error::LogError;
use crate::log_reader::{LogReader, TornEvent};

/// Transaction payload that is read in pieces. The part that is not read is skipped.
#[derive(Debug)]
pub struct LargePayload<'r> {
    pieces: EventPieceReader<'r>,
    fields: PayloadFields,
    format: Arc<EventFormat>,
}

impl<'r> LargePayload<'r> {
    pub(crate) fn new(
        reader: &'r mut LogReader,
        header: EventHeader,
        offset: u64,
        format: Arc<EventFormat>,
    ) -> Result<Self, LogError> {
        let checksum_size = format.checksum.for_events().size() as u64;
        let covered_size = u64::from(header.size).saturating_sub(checksum_size);
        let mut pieces = EventPieceReader::new(reader, header, offset, covered_size);
        pieces.read_more(HEAD_SIZE)?;
        let mut cursor = Cursor::at(pieces.bytes.get(HEADER_SIZE..).unwrap_or_default(), HEADER_SIZE);
        let decoded = PayloadFields::decode(&mut cursor);
        let start = cursor.offset();
        let room = covered_size.saturating_sub(start as u64);
        let fields = decoded.and_then(|fields| match fields.payload_size {
            size if size <= room => Ok(fields),
            wanted => {
                let found = usize::try_from(room).unwrap_or(usize::MAX);
                Err(DecodeError::new(start, DecodeReason::Short { wanted, found }))
            }
        });
        let fields = fields.map_err(|error| pieces.corrupt_error(error))?;
        pieces.used = start;
        Ok(Self { pieces, fields, format })
    }

    /// Returns the event's header.
    pub const fn header(&self) -> &EventHeader {
        &self.pieces.header
    }

    /// Returns the start of the event, in bytes from the start of its log.
    pub const fn offset(&self) -> u64 {
        self.pieces.offset
    }

    /// Returns the start of the next event.
    pub fn end(&self) -> u64 {
        self.pieces.offset + u64::from(self.pieces.header.size)
    }

    /// Returns the fields in front of the payload.
    pub const fn fields(&self) -> &PayloadFields {
        &self.fields
    }

    /// Returns the format of this event; for the events inside, see [`EventFormat::inside_payload`].
    pub const fn format(&self) -> &Arc<EventFormat> {
        &self.format
    }

    /// Returns a reader of the events inside.
    ///
    /// # Errors
    ///
    /// Those of [`PayloadOpener::open_stream`].
    pub fn open<'o>(self, opener: &'o mut PayloadOpener) -> Result<LargePayloadEvents<'r, 'o>, LogError> {
        let Self { pieces, fields, .. } = self;
        match opener.open_stream(fields.compression, fields.uncompressed_size) {
            Ok(stream) => Ok(LargePayloadEvents { pieces, stream, remaining: fields.payload_size }),
            Err(error) => Err(pieces.payload_error(error)),
        }
    }
}

/// Reader of the events inside a large payload.
#[derive(Debug)]
pub struct LargePayloadEvents<'r, 'o> {
    pieces: EventPieceReader<'r>,
    stream: PayloadStream<'o>,
    /// Number of payload bytes not yet passed to `stream`.
    remaining: u64,
}

/// Findings at the end of a large payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargePayloadEnd {
    /// Summary of the payload.
    pub summary: PayloadSummary,
    /// Number of bytes behind the payload; servers write none.
    pub trailing: u64,
    /// Result of the checksum verification; `Ok` for an event without a checksum.
    pub checksum: Result<(), DecodeError>,
}

impl LargePayloadEvents<'_, '_> {
    /// Appends the available whole events to `out`: at least one, and otherwise only as many as fit in `size` bytes.
    /// Returns their number; 0 after the last event.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or ends within the event, and those of [`PayloadStream::next_chunk`].
    pub fn next_chunk(&mut self, size: usize, out: &mut Vec<u8>) -> Result<usize, LogError> {
        loop {
            let ready = &self.pieces.bytes[self.pieces.used..];
            let ready = &ready[..ready.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX))];
            let mut input = ready;
            let result = self.stream.next_chunk(&mut input, size, out);
            let used = ready.len() - input.len();
            self.pieces.used += used;
            self.remaining -= used as u64;
            match result {
                Ok(0) if self.remaining == 0 => {
                    return match self.stream.finish() {
                        Ok(_) => Ok(0),
                        Err(error) => Err(self.pieces.payload_error(error)),
                    };
                }
                Ok(0) => self.pieces.read_more(PIECE_SIZE)?,
                Ok(count) => return Ok(count),
                Err(error) => return Err(self.pieces.payload_error(error)),
            }
        }
    }

    /// Reads the rest of the event, after the last of the events inside.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or ends within the event.
    pub fn finish(mut self) -> Result<LargePayloadEnd, LogError> {
        let trailing = self.pieces.unused_covered_size();
        while !self.pieces.is_at_end() {
            self.pieces.read_more(PIECE_SIZE)?;
        }
        let trailing = trailing.saturating_sub(self.remaining);
        Ok(LargePayloadEnd { summary: *self.stream.summary(), trailing, checksum: self.pieces.verify() })
    }
}

/// Reader of one event, piece by piece.
#[derive(Debug)]
struct EventPieceReader<'r> {
    reader: &'r mut LogReader,
    header: EventHeader,
    /// Start of the event in its log.
    offset: u64,
    /// Size of the part that the checksum covers.
    covered_size: u64,
    /// Number of bytes read, up to the end of `bytes`.
    read: u64,
    bytes: Vec<u8>,
    /// Number of bytes used of `bytes`.
    used: usize,
    hasher: crc32fast::Hasher,
    /// Bytes behind the covered part: the stored checksum.
    stored: Vec<u8>,
}

/// Number of bytes to read at once.
const PIECE_SIZE: usize = 256 << 10;

/// Size of the first read: it holds header and fields, unless a field of an unknown type is huge.
const HEAD_SIZE: usize = 64 << 10;

impl<'r> EventPieceReader<'r> {
    fn new(reader: &'r mut LogReader, header: EventHeader, offset: u64, covered_size: u64) -> Self {
        let (hasher, bytes, stored) = (crc32fast::Hasher::new(), Vec::new(), Vec::new());
        Self { reader, header, offset, covered_size, read: 0, bytes, used: 0, hasher, stored }
    }

    /// Replaces `bytes`, which are all used, by the next ones.
    fn read_more(&mut self, count: usize) -> Result<(), LogError> {
        self.reader.read_large(count, &mut self.bytes)?;
        self.used = 0;
        if self.bytes.is_empty() {
            let (found, wanted, in_use) =
                (self.read as usize, self.header.size as usize, self.reader.in_use());
            return Err(self.reader.torn_error(TornEvent { offset: self.offset, found, wanted, in_use }));
        }
        let left = usize::try_from(self.covered_size.saturating_sub(self.read)).unwrap_or(usize::MAX);
        let (covered, behind) = self.bytes.split_at(left.min(self.bytes.len()));
        self.hasher.update(covered);
        self.stored.extend_from_slice(behind);
        self.read += self.bytes.len() as u64;
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.read == u64::from(self.header.size)
    }

    /// Returns the number of unused bytes in front of the checksum.
    fn unused_covered_size(&self) -> u64 {
        let used = self.read - (self.bytes.len() - self.used) as u64;
        self.covered_size.saturating_sub(used)
    }

    fn verify(&self) -> Result<(), DecodeError> {
        let Some(stored) = self.stored.first_chunk() else { return Ok(()) };
        let (stored, computed) = (u32::from_le_bytes(*stored), self.hasher.clone().finalize());
        if stored == computed {
            return Ok(());
        }
        Err(DecodeError::new(self.covered_size as usize, DecodeReason::Checksum { stored, computed }))
    }

    fn corrupt_error(&self, error: DecodeError) -> LogError {
        LogError::Corrupt { name: self.reader.name().to_owned(), offset: self.offset, error }
    }

    fn payload_error(&self, error: PayloadError) -> LogError {
        LogError::Payload { name: self.reader.name().to_owned(), offset: self.offset, error }
    }
}
