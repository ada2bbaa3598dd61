//! Streams of a block: each holds one field of all events.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::segment_error::BlockDamage;
use crate::stream_codec::{StreamCompressor, StreamExpander, StreamForm, ZstdFailure};
use crate::varint::{StreamCursor, put_difference, put_sized, put_varint};

/// Number of a stream in its block.
pub(crate) type StreamId = usize;

/// Streams that every block has; those of the tables follow. Number and order are part of the format: another stream
/// needs another number of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FixedStream {
    Context,
    Form,
    FormText,
    Timestamp,
    NextPosition,
    Whole,
    TableMap,
    TableMapText,
    RowShape,
    RowShapeText,
    RowCount,
    GtidTemplate,
    GtidTemplateText,
    TransactionNumber,
    SequenceNumber,
    LastCommitted,
    ImmediateCommit,
    OriginalCommit,
    TransactionSize,
    ThreadId,
    ExecTime,
    QueryHead,
    QueryHeadText,
    Statement,
    StatementText,
    LongTextSize,
    LongText,
    Xid,
    BodySize,
    Body,
    Payload,
}

impl FixedStream {
    /// Number of these streams.
    pub(crate) const COUNT: usize = Self::Payload as usize + 1;
}

/// Largest number of streams in a block. Bounds memory.
pub(crate) const STREAMS_MAX: usize = 1 << 16;

/// Largest size of all streams of a block together. Bounds memory.
const STREAMS_SIZE_MAX: usize = 160 << 20;

/// One stream that is being filled.
#[derive(Debug, Default)]
pub(crate) struct StreamBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Size of its values in bytes; 0 if it varies.
    pub(crate) width: u8,
}

/// Streams that are being filled.
#[derive(Debug, Default)]
pub(crate) struct StreamSet {
    streams: Vec<StreamBuffer>,
    used: usize,
}

impl StreamSet {
    /// Empties all streams, and removes those of tables.
    pub(crate) fn clear(&mut self) {
        for stream in &mut self.streams[..self.used] {
            stream.bytes.clear();
            stream.width = 0;
        }
        self.used = 0;
        self.add(FixedStream::COUNT);
    }

    /// Adds streams, and returns the first one's number.
    pub(crate) fn add(&mut self, count: usize) -> StreamId {
        let first = self.used;
        self.used += count;
        if self.streams.len() < self.used {
            self.streams.resize_with(self.used, StreamBuffer::default);
        }
        first
    }

    pub(crate) const fn count(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn at(&mut self, stream: StreamId) -> &mut StreamBuffer {
        &mut self.streams[stream]
    }

    #[inline]
    pub(crate) fn of(&mut self, stream: FixedStream) -> &mut Vec<u8> {
        &mut self.streams[stream as usize].bytes
    }

    #[inline]
    pub(crate) fn put(&mut self, stream: FixedStream, value: u64) {
        put_varint(self.of(stream), value);
    }

    #[inline]
    pub(crate) fn put_difference(&mut self, stream: FixedStream, value: u64, base: u64) {
        put_difference(self.of(stream), value, base);
    }

    /// Returns the size of all streams together.
    pub(crate) fn size(&self) -> usize {
        self.streams[..self.used].iter().map(|stream| stream.bytes.len()).sum()
    }

    /// Appends the compressed streams.
    ///
    /// | size | field |
    /// |---|---|
    /// | varint | size of the directory |
    /// | varint | size of the compressed directory, then the directory |
    /// | | the frames of the streams, in order |
    ///
    /// The directory has an entry for each stream that is not empty: difference of its number to the number before,
    /// size, size of its frame or 0, then two bytes of its form, or the stream itself.
    pub(crate) fn write(
        &mut self,
        compressor: &mut StreamCompressor,
        out: &mut Vec<u8>,
    ) -> Result<(), ZstdFailure> {
        let (mut directory, mut frames, mut before) = (Vec::new(), Vec::new(), 0);
        for (number, stream) in self.streams[..self.used].iter().enumerate() {
            if stream.bytes.is_empty() {
                continue;
            }
            put_varint(&mut directory, (number - before) as u64);
            put_varint(&mut directory, stream.bytes.len() as u64);
            before = number;
            if stream.bytes.len() <= INLINE_MAX {
                directory.push(0);
                directory.extend_from_slice(&stream.bytes);
                continue;
            }
            let start = frames.len();
            let form = compressor.compress(&stream.bytes, usize::from(stream.width), &mut frames)?;
            put_varint(&mut directory, (frames.len() - start) as u64);
            directory.extend_from_slice(&form.code());
        }
        let mut frame = Vec::new();
        compressor.compress(&directory, 0, &mut frame)?;
        put_varint(out, directory.len() as u64);
        put_sized(out, &frame);
        out.extend_from_slice(&frames);
        Ok(())
    }
}

/// Largest stream that is kept in the directory: a frame of its own costs 10 bytes and more.
const INLINE_MAX: usize = 64;

/// Buffers of decompressed streams, reused from block to block.
#[derive(Default)]
pub(crate) struct StreamBuffers {
    directory: Vec<u8>,
    /// Number and bytes of each stream.
    streams: Vec<(StreamId, Vec<u8>)>,
    used: usize,
}

impl StreamBuffers {
    /// Decompresses what [`StreamSet::write`] has written.
    pub(crate) fn read(&mut self, bytes: &[u8], expander: &mut StreamExpander) -> Result<(), BlockDamage> {
        let mut cursor = StreamCursor::new(bytes);
        let mut total = checked_total(0, cursor.size()?)?;
        expander.expand(cursor.sized()?, StreamForm::Plain, total, &mut self.directory)?;
        let mut directory = StreamCursor::new(&self.directory);
        let mut number = 0;
        self.used = 0;
        while !directory.is_empty() {
            let step = directory.size()?;
            number = match step.checked_add(number) {
                _ if step == 0 && self.used > 0 => return Err(BlockDamage("a block has a stream twice")),
                Some(number) if number < STREAMS_MAX => number,
                _ => return Err(BlockDamage("a block has too many streams")),
            };
            let size = directory.size()?;
            total = checked_total(total, size)?;
            if self.streams.len() == self.used {
                self.streams.push((0, Vec::new()));
            }
            let (id, out) = &mut self.streams[self.used];
            *id = number;
            match directory.size()? {
                0 => {
                    out.clear();
                    out.extend_from_slice(directory.bytes(size)?);
                }
                frame => {
                    let form = StreamForm::from_code(directory.array()?)?;
                    expander.expand(cursor.bytes(frame)?, form, size, out)?;
                }
            }
            self.used += 1;
        }
        if !cursor.is_empty() {
            return Err(BlockDamage("bytes follow the streams"));
        }
        Ok(())
    }

    /// Returns cursors at the start of all streams.
    pub(crate) fn cursors(&self) -> StreamCursors<'_> {
        let mut cursors = Vec::new();
        for (number, bytes) in &self.streams[..self.used] {
            if cursors.len() <= *number {
                cursors.resize(*number + 1, StreamCursor::default());
            }
            cursors[*number] = StreamCursor::new(bytes);
        }
        let mut cursors = StreamCursors { cursors, used: 0 };
        cursors.used = FixedStream::COUNT;
        cursors.cursors.resize(cursors.cursors.len().max(FixedStream::COUNT), StreamCursor::default());
        cursors
    }
}

fn checked_total(total: usize, size: usize) -> Result<usize, BlockDamage> {
    match total.checked_add(size) {
        Some(total) if total <= STREAMS_SIZE_MAX => Ok(total),
        _ => Err(BlockDamage("the streams of a block are too large")),
    }
}

/// Read positions in all streams of a block.
pub(crate) struct StreamCursors<'a> {
    cursors: Vec<StreamCursor<'a>>,
    used: usize,
}

impl<'a> StreamCursors<'a> {
    /// Counts further streams of a table, and returns the first one's number.
    pub(crate) fn add(&mut self, count: usize) -> Result<StreamId, BlockDamage> {
        let first = self.used;
        self.used += count;
        if self.used > STREAMS_MAX {
            return Err(BlockDamage("a block has too many streams"));
        }
        if self.cursors.len() < self.used {
            self.cursors.resize(self.used, StreamCursor::default());
        }
        Ok(first)
    }

    #[inline]
    pub(crate) fn at(&mut self, stream: StreamId) -> &mut StreamCursor<'a> {
        &mut self.cursors[stream]
    }

    #[inline]
    pub(crate) fn of(&mut self, stream: FixedStream) -> &mut StreamCursor<'a> {
        &mut self.cursors[stream as usize]
    }

    /// Returns whether all streams have been read to their ends.
    pub(crate) fn are_empty(&self) -> bool {
        self.cursors.iter().all(StreamCursor::is_empty)
    }
}

/// Streams of one kind of texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStreams {
    /// Stream with the number of each text plus one, or 0 for a new text.
    pub(crate) numbers: FixedStream,
    /// Stream with the new texts.
    pub(crate) texts: FixedStream,
}

/// Finds repeated texts: the first time, a text is stored; later, only its number.
#[derive(Debug, Default)]
pub(crate) struct TextWriter {
    numbers: HashMap<Arc<[u8]>, usize>,
    texts: Vec<Arc<[u8]>>,
    /// Number of the text that came last.
    last: usize,
}

impl TextWriter {
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.texts.clear();
        self.last = 0;
    }

    /// Appends a text to the streams of numbers and texts, and returns its number, and whether it is new.
    pub(crate) fn put(
        &mut self,
        text: &[u8],
        streams: &mut StreamSet,
        text_streams: TextStreams,
    ) -> (usize, bool) {
        // Events of a kind often follow in the same order: the text after the last one comes next.
        for number in [self.last, self.last + 1] {
            if self.texts.get(number).is_some_and(|known| **known == *text) {
                return self.repeat(number, streams, text_streams);
            }
        }
        if let Some(number) = self.numbers.get(text) {
            return self.repeat(*number, streams, text_streams);
        }
        let text: Arc<[u8]> = text.into();
        self.last = self.texts.len();
        streams.put(text_streams.numbers, 0);
        put_sized(streams.of(text_streams.texts), &text);
        self.numbers.insert(Arc::clone(&text), self.last);
        self.texts.push(text);
        (self.last, true)
    }

    fn repeat(&mut self, number: usize, streams: &mut StreamSet, text_streams: TextStreams) -> (usize, bool) {
        streams.put(text_streams.numbers, number as u64 + 1);
        self.last = number;
        (number, false)
    }
}

/// Texts that [`TextWriter`] has stored.
#[derive(Debug, Default)]
pub(crate) struct TextReader<'a> {
    texts: Vec<&'a [u8]>,
}

impl<'a> TextReader<'a> {
    /// Reads the next text: its number, and its bytes.
    pub(crate) fn take(
        &mut self,
        streams: &mut StreamCursors<'a>,
        text_streams: TextStreams,
    ) -> Result<(usize, &'a [u8]), BlockDamage> {
        match streams.of(text_streams.numbers).size()? {
            0 => {
                let text = streams.of(text_streams.texts).sized()?;
                self.texts.push(text);
                Ok((self.texts.len() - 1, text))
            }
            number => match self.texts.get(number - 1) {
                Some(text) => Ok((number - 1, text)),
                None => Err(BlockDamage("a text has an unknown number")),
            },
        }
    }

    pub(crate) fn get(&self, number: usize) -> Option<&'a [u8]> {
        self.texts.get(number).copied()
    }
}
