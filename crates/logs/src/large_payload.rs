//! Transaction payloads that are too large for memory: a single compressed transaction can have a gibibyte.

use std::sync::Arc;

use binlog::events::{PayloadCompression, PayloadFields, TransactionPayload};
use binlog::{
    Cursor, DecodeError, DecodeReason, EncodeError, Event, EventFormat, EventHeader, HEADER_SIZE,
    NextPosition, PayloadError, PayloadOpener, PayloadSummary, RawEvent, RawEventBuf,
};

use crate::error::LogError;
use crate::event_walk::WalkEvent;
use crate::log_reader::{LogReader, TornEvent};

/// Transaction payload that is read in pieces. The reader skips an unread part.
#[derive(Debug)]
pub struct LargePayload<'r> {
    reader: &'r mut LogReader,
    progress: PayloadProgress,
}

/// Event of a transaction payload that is too large for memory, without the payload.
#[derive(Clone, Debug)]
pub struct LargePayloadHead {
    /// Start of the event, in bytes from the start of its log.
    pub offset: u64,
    /// Header of the event.
    pub header: EventHeader,
    /// Fields before the payload.
    pub fields: PayloadFields,
    /// Format of this event; for the events inside, see [`EventFormat::inside_payload`].
    pub format: Arc<EventFormat>,
}

impl LargePayloadHead {
    /// Returns the start of the next event.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.header.size)
    }

    /// Returns an event with the same header and an empty payload, for a [`binlog::TransactionTracker`]. The event has
    /// the same role in its transaction, but its size and the transaction's end are wrong.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be encoded.
    pub fn stand_in(&self) -> Result<RawEventBuf, EncodeError> {
        let (mut fields, mut bytes) = (Vec::new(), Vec::new());
        let empty = Event::TransactionPayload(TransactionPayload::zstd(0, &[], &mut fields));
        empty.write(self.header.origin(), NextPosition::Fixed(0), &self.format, &mut bytes)?;
        match RawEvent::new(&bytes, self.format.checksum.for_events()) {
            Ok(raw) => Ok(raw.to_buf()),
            Err(error) => unreachable!("ours: the event was encoded just now: {error}"),
        }
    }

    /// Returns the event of a walk for which [`LargePayloadHead::stand_in`] stands.
    pub fn walk_event<'a>(&'a self, stand_in: &'a RawEventBuf) -> WalkEvent<'a> {
        let (offset, end, raw) = (self.offset, self.end(), stand_in.as_raw());
        WalkEvent { offset, end, inner: None, raw, format: &self.format }
    }
}

impl<'r> LargePayload<'r> {
    pub(crate) fn new(
        reader: &'r mut LogReader,
        header: EventHeader,
        offset: u64,
        format: Arc<EventFormat>,
    ) -> Result<Self, LogError> {
        let progress = PayloadProgress::new(reader, header, offset, format)?;
        Ok(Self { reader, progress })
    }

    /// Returns the event without its payload.
    pub fn head(&self) -> &Arc<LargePayloadHead> {
        &self.progress.head
    }

    /// Returns a reader of the events inside.
    ///
    /// # Errors
    ///
    /// Fails as [`PayloadOpener::open_stream`] does.
    pub fn open<'o>(self, opener: &'o mut PayloadOpener) -> Result<LargePayloadEvents<'r, 'o>, LogError> {
        let Self { reader, progress } = self;
        progress.open(reader, opener)?;
        Ok(LargePayloadEvents { reader, progress, opener })
    }

    pub(crate) fn into_progress(self) -> PayloadProgress {
        self.progress
    }
}

/// Reader of the events inside a large payload.
#[derive(Debug)]
pub struct LargePayloadEvents<'r, 'o> {
    reader: &'r mut LogReader,
    progress: PayloadProgress,
    opener: &'o mut PayloadOpener,
}

/// Findings at the end of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadEnd {
    /// Summary of the payload.
    pub summary: PayloadSummary,
    /// Number of bytes after the payload; servers write none.
    pub trailing: u64,
    /// Result of the checksum verification of a large payload; `Ok` for an event without a checksum. Also `Ok` for an
    /// event in memory, because the code that uses the event verifies its checksum.
    pub checksum: Result<(), DecodeError>,
}

impl LargePayloadEvents<'_, '_> {
    /// Appends whole events to `out`: at least one, and at most as many as fit in `size` bytes. Returns their number; 0
    /// after the last event.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read or ends within the event, and the errors of
    /// [`binlog::PayloadStream::next_chunk`].
    pub fn next_chunk(&mut self, size: usize, out: &mut Vec<u8>) -> Result<usize, LogError> {
        self.progress.next_chunk(self.reader, self.opener, size, out)
    }

    /// Reads the rest of the event, after the last of the events inside.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read or ends within the event.
    pub fn finish(self) -> Result<PayloadEnd, LogError> {
        self.progress.finish(self.reader, self.opener)
    }
}

/// Progress in reading a large payload, piece by piece. Each call gets the reader and the opener.
#[derive(Debug)]
pub(crate) struct PayloadProgress {
    pub(crate) head: Arc<LargePayloadHead>,
    /// Size of the part of the event that the checksum covers.
    covered_size: u64,
    /// Number of payload bytes not yet passed to the opener.
    remaining: u64,
    /// Number of bytes of the event that were read, up to the end of `bytes`.
    read: u64,
    bytes: Vec<u8>,
    /// Number of used bytes in `bytes`.
    used: usize,
    hasher: crc32fast::Hasher,
    /// Bytes after the covered part: the stored checksum.
    stored: Vec<u8>,
}

/// Number of bytes to read at once.
const PIECE_SIZE: usize = 256 << 10;

/// Size of the first read: enough for header and fields, unless a field of an unknown type is huge.
const HEAD_SIZE: usize = 64 << 10;

impl PayloadProgress {
    fn new(
        reader: &mut LogReader,
        header: EventHeader,
        offset: u64,
        format: Arc<EventFormat>,
    ) -> Result<Self, LogError> {
        let checksum_size = format.checksum.for_events().size() as u64;
        let covered_size = u64::from(header.size).saturating_sub(checksum_size);
        // The fields are not known yet.
        let fields =
            PayloadFields { compression: PayloadCompression::None, payload_size: 0, uncompressed_size: None };
        let mut progress = Self {
            head: Arc::new(LargePayloadHead { offset, header, fields, format }),
            covered_size,
            remaining: 0,
            read: 0,
            bytes: Vec::new(),
            used: 0,
            hasher: crc32fast::Hasher::new(),
            stored: Vec::new(),
        };
        progress.read_more(reader, HEAD_SIZE)?;
        let mut cursor = Cursor::at(progress.bytes.get(HEADER_SIZE..).unwrap_or_default(), HEADER_SIZE);
        let decoded = PayloadFields::decode(&mut cursor);
        let start = cursor.offset();
        let room = covered_size.saturating_sub(start as u64);
        let fields = decoded.and_then(|fields| match fields.payload_size {
            size if size <= room => Ok(fields),
            expected => {
                let found = usize::try_from(room).unwrap_or(usize::MAX);
                Err(DecodeError::new(start, DecodeReason::Short { expected, found }))
            }
        });
        let fields = fields.map_err(|error| {
            let name = reader.name().to_owned();
            LogError::Corrupt { name, offset, error }
        })?;
        (progress.used, progress.remaining) = (start, fields.payload_size);
        Arc::make_mut(&mut progress.head).fields = fields;
        Ok(progress)
    }

    pub(crate) fn open(&self, reader: &LogReader, opener: &mut PayloadOpener) -> Result<(), LogError> {
        let PayloadFields { compression, uncompressed_size, .. } = self.head.fields;
        match opener.open_stream(compression, uncompressed_size) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.payload_error(reader, error)),
        }
    }

    pub(crate) fn next_chunk(
        &mut self,
        reader: &mut LogReader,
        opener: &mut PayloadOpener,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, LogError> {
        assert!(self.used <= self.bytes.len(), "ours: only read bytes are used");
        let mut stream = opener.resume_stream();
        loop {
            let ready = &self.bytes[self.used..];
            let ready = &ready[..ready.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX))];
            let mut input = ready;
            let result = stream.next_chunk(&mut input, size, out);
            let used = ready.len() - input.len();
            self.used += used;
            self.remaining -= used as u64;
            match result {
                Ok(0) if self.remaining == 0 => {
                    return match stream.finish() {
                        Ok(_) => Ok(0),
                        Err(error) => Err(self.payload_error(reader, error)),
                    };
                }
                Ok(0) => self.read_more(reader, PIECE_SIZE)?,
                Ok(count) => return Ok(count),
                Err(error) => return Err(self.payload_error(reader, error)),
            }
        }
    }

    pub(crate) fn finish(
        mut self,
        reader: &mut LogReader,
        opener: &mut PayloadOpener,
    ) -> Result<PayloadEnd, LogError> {
        let trailing = self.unused_covered_size();
        while self.read < u64::from(self.head.header.size) {
            self.read_more(reader, PIECE_SIZE)?;
        }
        let trailing = trailing.saturating_sub(self.remaining);
        let summary = *opener.resume_stream().summary();
        Ok(PayloadEnd { summary, trailing, checksum: self.verify() })
    }

    /// Replaces `bytes`, which must all be used, by the next bytes.
    fn read_more(&mut self, reader: &mut LogReader, count: usize) -> Result<(), LogError> {
        reader.read_large(count, &mut self.bytes)?;
        self.used = 0;
        if self.bytes.is_empty() {
            let (offset, in_use) = (self.head.offset, reader.in_use());
            let (found, expected) = (self.read as usize, self.head.header.size as usize);
            return Err(reader.torn_error(TornEvent { offset, found, expected, in_use }));
        }
        let left = usize::try_from(self.covered_size.saturating_sub(self.read)).unwrap_or(usize::MAX);
        let (covered, after) = self.bytes.split_at(left.min(self.bytes.len()));
        self.hasher.update(covered);
        self.stored.extend_from_slice(after);
        self.read += self.bytes.len() as u64;
        assert!(self.read <= u64::from(self.head.header.size), "ours: only bytes of the event are read");
        Ok(())
    }

    /// Returns the number of unused bytes before the checksum.
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

    fn payload_error(&self, reader: &LogReader, error: PayloadError) -> LogError {
        LogError::Payload { name: reader.name().to_owned(), offset: self.head.offset, error }
    }
}
