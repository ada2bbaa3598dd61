//! Whole events in one shared buffer, to be handed to another thread.

use std::ops::Range;
use std::sync::Arc;

use binlog::{Checksum, Format, RawEvent};

/// Some whole events of one log, one behind the other. Cloning it shares the bytes.
///
/// One format holds for all of them: a format description is always the first event of its chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Where events start in `bytes`, and where the last one ends.
    pub(crate) bounds: Arc<Vec<u32>>,
    /// Which of the events are meant.
    pub(crate) range: Range<usize>,
    pub(crate) log: LogPlace,
    pub(crate) format: Arc<Format>,
    /// Of the first event in `bytes`; all others follow the format.
    pub(crate) first_checksum: Checksum,
}

/// Which log, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    /// Logs in front of it in the same input.
    pub(crate) number: u64,
    /// In bytes from the log's start.
    pub(crate) offset: u64,
}

/// One event, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// Where it starts, in bytes from the start of its log.
    pub offset: u64,
    /// The event.
    pub raw: RawEvent<'a>,
}

impl LogEvent<'_> {
    /// Where the next event starts.
    pub fn end(&self) -> u64 {
        self.offset + self.raw.bytes().len() as u64
    }
}

impl Chunk {
    /// How many events.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Event number `index`, from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<LogEvent<'_>> {
        let index = self.range.start.checked_add(index).filter(|index| *index < self.range.end)?;
        let (start, end) = (self.bounds[index] as usize, self.bounds[index + 1] as usize);
        let checksum = match index {
            0 => self.first_checksum,
            _ => self.format.checksum.for_events(),
        };
        let offset = self.log.offset + start as u64;
        match RawEvent::new(&self.bytes[start..end], checksum) {
            Ok(raw) => Some(LogEvent { offset, raw }),
            Err(error) => unreachable!("framed when it was read: {error}"),
        }
    }

    /// The events, in order.
    pub fn iter(&self) -> impl Iterator<Item = LogEvent<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Some of the events, sharing the bytes.
    ///
    /// # Panics
    ///
    /// When the range does not lie within the chunk.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        let first = self.range.start;
        Self { range: first + range.start..first + range.end, ..self.clone() }
    }

    /// All bytes of its events.
    pub fn bytes(&self) -> &[u8] {
        let (start, end) = (self.bounds[self.range.start], self.bounds[self.range.end]);
        &self.bytes[start as usize..end as usize]
    }

    /// Where its first event starts, in bytes from the start of its log.
    pub fn offset(&self) -> u64 {
        self.log.offset + u64::from(self.bounds[self.range.start])
    }

    /// Where its last event ends, in bytes from the start of its log.
    pub fn end(&self) -> u64 {
        self.log.offset + u64::from(self.bounds[self.range.end])
    }

    /// What holds for its events.
    pub fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// How many logs stood in front of this one in the same input: 0 but for logs copied one behind the other.
    pub fn log_number(&self) -> u64 {
        self.log.number
    }
}
