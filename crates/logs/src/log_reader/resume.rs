//! Search for an event at which to resume: after a damaged part of a log, or near a given position.

use std::sync::Arc;

use binlog::{
    Cursor, EVENT_SIZE_MAX, EventChecksum, EventFormat, EventHeader, EventType, HEADER_SIZE, RawEvent,
};

use super::{LogKind, LogReader, ReadState};
use crate::chunk_context::starts_transaction;
use crate::error::LogError;
use crate::log_input::ReadMode;

/// Number of bytes to read at once, and number of searched bytes from which on the search drops them.
const PIECE_SIZE: usize = 256 << 10;

/// Distance before a position at which the search for a transaction starts: first distance, growth factor, and maximum
/// distance. Beyond the maximum, reading the log from its start is faster.
const SEEK_DISTANCE_MIN: u64 = 64 << 10;
const SEEK_DISTANCE_GROWTH: u64 = 8;
const SEEK_DISTANCE_MAX: u64 = 32 << 20;

/// Maximum size in bytes of an event at which to resume. Events that start a transaction or end a log are small. The
/// limit bounds the checks in a log with many large numbers.
const RESUME_EVENT_SIZE_MAX: u32 = 4 << 10;

impl LogReader {
    /// Searches for the next event of a type that `is_start` accepts and of at most 4 KiB, after the position where reading has
    /// stopped. The event's size, `end_log_pos` and checksum must agree with its position. Reading continues at this
    /// event. Returns its position; `None` if there is no such event up to the end of the log.
    ///
    /// Finds nothing in relay logs, because the `end_log_pos` of their events refers to another log.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub fn resume_at(&mut self, is_start: impl Fn(EventType) -> bool) -> Result<Option<u64>, LogError> {
        match self.kind {
            LogKind::Binary => self.find_event(u64::MAX, &is_start),
            LogKind::Relay => Ok(None),
        }
    }

    /// Continues at the first MySQL GTID event that starts at `offset` or later, and before `until`. The log's format
    /// must be known. Returns the event's position; `None` if there is no such event.
    ///
    /// An event is accepted if its size, its checksum and, in binary logs, its `end_log_pos` agree with its position.
    /// Relay logs without checksums have too few fields to check: see [`LogReader::can_seek`].
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    ///
    /// # Panics
    ///
    /// If `offset` is not greater than [`LogReader::position`].
    pub fn seek_transaction(&mut self, offset: u64, until: u64) -> Result<Option<u64>, LogError> {
        assert!(offset > self.position(), "ours: {offset} is not after {}", self.position());
        match self.skip_to(offset - 1) {
            Err(LogError::PastEnd { .. }) => return Ok(None),
            other => other?,
        }
        self.find_event(until, &|event_type| {
            event_type != EventType::MariadbGtid && starts_transaction(event_type)
        })
    }

    /// Continues at a GTID event at most 32 MiB before `position`, so that few bytes must be read to reach `position`.
    /// Returns the event's position. Returns `None` and stays at the present position if there is no such event, or the
    /// log is a stream or a relay log.
    ///
    /// The log's format must be known: read its first event before. An event is accepted as in
    /// [`LogReader::seek_transaction`].
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub fn seek_near(&mut self, position: u64) -> Result<Option<u64>, LogError> {
        let here = self.position();
        if self.kind == LogKind::Relay || self.state == ReadState::MariadbCiphertext || self.size()?.is_none()
        {
            return Ok(None);
        }
        let mut distance = SEEK_DISTANCE_MIN;
        while distance <= SEEK_DISTANCE_MAX && position.saturating_sub(distance) > here {
            match self.skip_to(position - distance) {
                Err(LogError::PastEnd { .. }) => {}
                skipped => {
                    skipped?;
                    if let Some(found) = self.find_event(position, &starts_transaction)? {
                        return Ok(Some(found));
                    }
                }
            }
            self.go_back_to(here)?;
            distance *= SEEK_DISTANCE_GROWTH;
        }
        Ok(None)
    }

    /// Goes back to `offset` of the same log, where an event must start. Streams cannot go back: see
    /// [`LogReader::size`].
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    ///
    /// # Panics
    ///
    /// If `offset` is greater than [`LogReader::position`].
    pub fn go_back_to(&mut self, offset: u64) -> Result<(), LogError> {
        assert!(offset <= self.position(), "ours: {offset} is after {}", self.position());
        self.current = None;
        self.expect_event();
        self.tail.clear();
        self.tail_start.offset = offset;
        self.input.seek_to(offset).map_err(|cause| LogError::io("seek in", &self.name, cause))
    }

    /// Returns whether the log's format, once it is known, allows [`LogReader::seek_transaction`].
    pub fn can_seek(&self) -> bool {
        let has_checksums = |format: &Arc<EventFormat>| format.checksum.for_events() != EventChecksum::Absent;
        self.kind == LogKind::Binary || self.format().is_some_and(has_checksums)
    }

    fn find_event(
        &mut self,
        until: u64,
        is_start: &dyn Fn(EventType) -> bool,
    ) -> Result<Option<u64>, LogError> {
        if !self.can_seek() {
            return Ok(None);
        }
        let Some(format) = self.format.clone() else { return Ok(None) };
        let checksum = format.checksum.for_events();
        self.current = None;
        self.expect_event();
        let mut at = 1;
        loop {
            // Remove rarely if the tail is large, because each removal moves the rest.
            if at > PIECE_SIZE.max(self.tail.len() / 2) {
                self.drop_front(at);
                at = 0;
            }
            if self.tail_start.offset + at as u64 >= until {
                return Ok(None);
            }
            if !self.read_at_least(at + HEADER_SIZE)? {
                let all = self.tail.len();
                self.drop_front(all);
                return Ok(None);
            }
            if let Some(size) = self.plausible_size(at, RESUME_EVENT_SIZE_MAX, is_start)
                && self.read_at_least(at + size)?
                && self.is_verified(at, size, checksum)?
            {
                self.drop_front(at);
                return Ok(Some(self.tail_start.offset));
            }
            at += 1;
        }
    }

    /// Returns the size of the event that may start here.
    fn plausible_size(
        &self,
        at: usize,
        size_max: u32,
        is_start: &dyn Fn(EventType) -> bool,
    ) -> Option<usize> {
        let header = EventHeader::decode(&mut Cursor::new(self.tail.get(at..)?)).ok()?;
        let end = (self.tail_start.offset + at as u64).wrapping_add(u64::from(header.size));
        let is_size = (HEADER_SIZE as u32..=size_max).contains(&header.size);
        // In a relay log, `end_log_pos` refers to another log: only the checksum can be checked.
        let is_here = self.kind == LogKind::Relay || header.next_position == end as u32;
        (is_size && is_here && is_start(header.event_type)).then_some(header.size as usize)
    }

    /// Returns whether the event's checksum is right. Without a checksum, returns whether the header of the following
    /// event is plausible.
    fn is_verified(&mut self, at: usize, size: usize, checksum: EventChecksum) -> Result<bool, LogError> {
        if checksum == EventChecksum::Absent {
            let next = at + size;
            return Ok(!self.read_at_least(next + HEADER_SIZE)?
                || self.plausible_size(next, EVENT_SIZE_MAX, &|_| true).is_some());
        }
        let event = RawEvent::new(&self.tail[at..at + size], checksum);
        Ok(event.is_ok_and(|event| event.verify().is_ok()))
    }

    /// Reads until the tail has `size` bytes. Returns whether it has them.
    fn read_at_least(&mut self, size: usize) -> Result<bool, LogError> {
        while self.tail.len() < size {
            let count = (size - self.tail.len()).clamp(PIECE_SIZE, self.tail.len().max(PIECE_SIZE));
            let read = self.input.read(count, ReadMode::Full, &mut self.tail);
            if read.map_err(|cause| LogError::io("read", &self.name, cause))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn drop_front(&mut self, count: usize) {
        debug_assert!(count <= self.tail.len(), "ours: only searched bytes are dropped");
        self.tail.drain(..count);
        self.tail_start.offset += count as u64;
    }
}
