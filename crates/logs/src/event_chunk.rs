//! Chunks: whole events in one shared buffer, which can be passed to other threads.

use std::ops::Range;
use std::sync::Arc;

use binlog::{EventChecksum, EventFormat, RawEvent};

/// Consecutive whole events of one log. Clones share the bytes.
///
/// All events of a chunk have the same format: a format description is always the first event of its chunk.
#[derive(Clone, Debug)]
pub struct EventChunk {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Offsets in `bytes`: the start of each event, and the end of the last event.
    pub(crate) bounds: Arc<Vec<u32>>,
    /// Indexes of the chunk's events in `bounds`.
    pub(crate) range: Range<usize>,
    pub(crate) log: InputPosition,
    pub(crate) format: Arc<EventFormat>,
    /// Checksum algorithm of the first event in `bytes`; the format decides for all other events.
    pub(crate) first_checksum: EventChecksum,
}

/// Log of an input, and an offset in that log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputPosition {
    /// Number of logs before this log in the same input.
    pub(crate) number: u64,
    /// Offset in bytes from the start of the log.
    pub(crate) offset: u64,
}

/// Event and its position in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// Start of the event, in bytes from the start of its log.
    pub offset: u64,
    /// Bytes of the event.
    pub raw: RawEvent<'a>,
}

impl LogEvent<'_> {
    /// Returns the start of the next event.
    pub fn end(&self) -> u64 {
        self.offset + self.raw.bytes().len() as u64
    }
}

impl EventChunk {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether the chunk has no events.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the event with this index, counted from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<LogEvent<'_>> {
        let index = self.range.start.checked_add(index).filter(|index| *index < self.range.end)?;
        let (start, end) = (self.bounds[index] as usize, self.bounds[index + 1] as usize);
        debug_assert!(start < end, "ours: the bounds of a chunk are in order");
        let checksum = match index {
            0 => self.first_checksum,
            _ => self.format.checksum.for_events(),
        };
        let offset = self.log.offset + start as u64;
        match RawEvent::new(&self.bytes[start..end], checksum) {
            Ok(raw) => Some(LogEvent { offset, raw }),
            Err(error) => unreachable!("ours: the event was checked when it was read: {error}"),
        }
    }

    /// Returns the bytes of the event with this index.
    #[inline]
    pub(crate) fn event_bytes(&self, index: usize) -> Option<&[u8]> {
        let index = self.range.start.checked_add(index).filter(|index| *index < self.range.end)?;
        let (start, end) = (self.bounds[index] as usize, self.bounds[index + 1] as usize);
        Some(&self.bytes[start..end])
    }

    /// Returns the events, in order.
    pub fn iter(&self) -> impl Iterator<Item = LogEvent<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns a range of the events. Shares the bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the chunk.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "ours: a part is within its chunk");
        let first = self.range.start;
        Self { range: first + range.start..first + range.end, ..self.clone() }
    }

    /// Returns the bytes of all events of the chunk.
    pub fn bytes(&self) -> &[u8] {
        let (start, end) = (self.bounds[self.range.start], self.bounds[self.range.end]);
        &self.bytes[start as usize..end as usize]
    }

    /// Returns the start of the first event, in bytes from the start of its log.
    pub fn offset(&self) -> u64 {
        self.log.offset + u64::from(self.bounds[self.range.start])
    }

    /// Returns the end of the last event, in bytes from the start of its log.
    pub fn end(&self) -> u64 {
        self.log.offset + u64::from(self.bounds[self.range.end])
    }

    /// Returns the format of the events.
    pub fn format(&self) -> &Arc<EventFormat> {
        &self.format
    }

    /// Returns the number of logs before this log in the same input: 0 unless a stream has several concatenated logs.
    pub fn log_number(&self) -> u64 {
        self.log.number
    }
}
