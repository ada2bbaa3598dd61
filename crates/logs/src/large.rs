//! Transaction payloads that are too large for memory: one compressed transaction can have a gibibyte.

use std::sync::Arc;

use binlog::events::PayloadFields;
use binlog::{
    Cursor, DecodeError, Format, HEADER_SIZE, Header, PayloadError, PayloadOpener, PayloadStream,
    PayloadSummary, Reason,
};

use crate::error::Error;
use crate::reader::{LogReader, Torn};

/// Transaction payload that is read in pieces. The part that is not read is skipped.
#[derive(Debug)]
pub struct LargePayload<'r> {
    pieces: Pieces<'r>,
    fields: PayloadFields,
    format: Arc<Format>,
}

impl<'r> LargePayload<'r> {
    pub(crate) fn new(
        reader: &'r mut LogReader,
        header: Header,
        offset: u64,
        format: Arc<Format>,
    ) -> Result<Self, Error> {
        let checksum_size = format.checksum.for_events().size() as u64;
        let covered_size = u64::from(header.size).saturating_sub(checksum_size);
        let mut pieces = Pieces::new(reader, header, offset, covered_size);
        pieces.read_more(HEAD_SIZE)?;
        let mut cursor = Cursor::at(pieces.bytes.get(HEADER_SIZE..).unwrap_or_default(), HEADER_SIZE);
        let decoded = PayloadFields::decode(&mut cursor);
        let start = cursor.offset();
        let room = covered_size.saturating_sub(start as u64);
        let fields = decoded.and_then(|fields| match fields.payload_size {
            size if size <= room => Ok(fields),
            wanted => {
                let found = usize::try_from(room).unwrap_or(usize::MAX);
                Err(DecodeError::new(start, Reason::Short { wanted, found }))
            }
        });
        let fields = fields.map_err(|error| pieces.corrupt(error))?;
        pieces.taken = start;
        Ok(Self { pieces, fields, format })
    }

    /// Returns the event's header.
    pub const fn header(&self) -> &Header {
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

    /// Returns the format of this event; for the events inside, see [`Format::inside_payload`].
    pub const fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// Returns a reader of the events inside.
    ///
    /// # Errors
    ///
    /// Those of [`PayloadOpener::open_stream`].
    pub fn open<'o>(self, opener: &'o mut PayloadOpener) -> Result<LargeEvents<'r, 'o>, Error> {
        let Self { pieces, fields, .. } = self;
        match opener.open_stream(fields.compression, fields.uncompressed_size) {
            Ok(stream) => Ok(LargeEvents { pieces, stream, left: fields.payload_size }),
            Err(error) => Err(pieces.payload(error)),
        }
    }
}

/// Reader of the events inside a large payload.
#[derive(Debug)]
pub struct LargeEvents<'r, 'o> {
    pieces: Pieces<'r>,
    stream: PayloadStream<'o>,
    /// Number of payload bytes not yet passed to `stream`.
    left: u64,
}

/// Findings at the end of a large payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeEnd {
    /// Summary of the payload.
    pub summary: PayloadSummary,
    /// Number of bytes behind the payload; servers write none.
    pub trailing: u64,
    /// Result of the checksum verification; `Ok` for an event without a checksum.
    pub checksum: Result<(), DecodeError>,
}

impl LargeEvents<'_, '_> {
    /// Appends the available whole events to `out`: at least one, and otherwise only as many as fit in `size` bytes.
    /// Returns their number; 0 after the last event.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or ends within the event, and those of [`PayloadStream::next_chunk`].
    pub fn next_chunk(&mut self, size: usize, out: &mut Vec<u8>) -> Result<usize, Error> {
        loop {
            let ready = &self.pieces.bytes[self.pieces.taken..];
            let ready = &ready[..ready.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))];
            let mut input = ready;
            let result = self.stream.next_chunk(&mut input, size, out);
            let used = ready.len() - input.len();
            self.pieces.taken += used;
            self.left -= used as u64;
            match result {
                Ok(0) if self.left == 0 => {
                    return match self.stream.finish() {
                        Ok(_) => Ok(0),
                        Err(error) => Err(self.pieces.payload(error)),
                    };
                }
                Ok(0) => self.pieces.read_more(PIECE_SIZE)?,
                Ok(count) => return Ok(count),
                Err(error) => return Err(self.pieces.payload(error)),
            }
        }
    }

    /// Reads the rest of the event, after the last of the events inside.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or ends within the event.
    pub fn finish(mut self) -> Result<LargeEnd, Error> {
        let trailing = self.pieces.left_to_cover();
        while !self.pieces.is_at_end() {
            self.pieces.read_more(PIECE_SIZE)?;
        }
        let trailing = trailing.saturating_sub(self.left);
        Ok(LargeEnd { summary: *self.stream.summary(), trailing, checksum: self.pieces.verify() })
    }
}

/// Reader of one event, piece by piece.
#[derive(Debug)]
struct Pieces<'r> {
    reader: &'r mut LogReader,
    header: Header,
    /// Start of the event in its log.
    offset: u64,
    /// Size of the part that the checksum covers.
    covered_size: u64,
    /// Number of bytes read, up to the end of `bytes`.
    read: u64,
    bytes: Vec<u8>,
    /// Number of bytes used of `bytes`.
    taken: usize,
    hasher: crc32fast::Hasher,
    /// Bytes behind the covered part: the stored checksum.
    stored: Vec<u8>,
}

/// Number of bytes to read at once.
const PIECE_SIZE: usize = 256 << 10;

/// Size of the first read: it holds header and fields, unless a field of an unknown type is huge.
const HEAD_SIZE: usize = 64 << 10;

impl<'r> Pieces<'r> {
    fn new(reader: &'r mut LogReader, header: Header, offset: u64, covered_size: u64) -> Self {
        let (hasher, bytes, stored) = (crc32fast::Hasher::new(), Vec::new(), Vec::new());
        Self { reader, header, offset, covered_size, read: 0, bytes, taken: 0, hasher, stored }
    }

    /// Replaces `bytes`, which are all used, by the next ones.
    fn read_more(&mut self, count: usize) -> Result<(), Error> {
        self.reader.read_large(count, &mut self.bytes)?;
        self.taken = 0;
        if self.bytes.is_empty() {
            let (found, wanted, in_use) =
                (self.read as usize, self.header.size as usize, self.reader.in_use());
            return Err(self.reader.torn(Torn { offset: self.offset, found, wanted, in_use }));
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
    fn left_to_cover(&self) -> u64 {
        let used = self.read - (self.bytes.len() - self.taken) as u64;
        self.covered_size.saturating_sub(used)
    }

    fn verify(&self) -> Result<(), DecodeError> {
        let Some(stored) = self.stored.first_chunk() else { return Ok(()) };
        let (stored, computed) = (u32::from_le_bytes(*stored), self.hasher.clone().finalize());
        if stored == computed {
            return Ok(());
        }
        Err(DecodeError::new(self.covered_size as usize, Reason::Checksum { stored, computed }))
    }

    fn corrupt(&self, error: DecodeError) -> Error {
        Error::Corrupt { name: self.reader.name().to_owned(), offset: self.offset, error }
    }

    fn payload(&self, error: PayloadError) -> Error {
        Error::Payload { name: self.reader.name().to_owned(), offset: self.offset, error }
    }
}
