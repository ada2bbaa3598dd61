//! Finds a way back into a log behind a place that cannot be read.

use binlog::{Checksum, Cursor, EVENT_SIZE_MAX, EventType, HEADER_SIZE, Header, RawEvent};

use super::{LogKind, LogReader};
use crate::error::Error;
use crate::input::Patience;

/// What is read at once, and what of it is kept behind the place looked at.
const PIECE_SIZE: usize = 256 << 10;

/// Bytes of the largest event to go on at: what starts a transaction or ends a log is small, and whoever writes down
/// large sizes everywhere must not have each of them read and checked.
const RESUMED_SIZE_MAX: u32 = 4 << 10;

impl LogReader {
    /// Looks for the next event of a type that is `wanted` and of at most 4 KiB, behind the place where reading has
    /// stopped: one whose size, `end_log_pos` and checksum agree with where it stands. Reading goes on there. Gives its place; `None`
    /// when there is none up to the log's end.
    ///
    /// In relay logs it finds nothing: their events say where they stood in another log.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn resume_at(&mut self, wanted: impl Fn(EventType) -> bool) -> Result<Option<u64>, Error> {
        let Some(format) = self.format.clone().filter(|_| self.kind == LogKind::Binary) else {
            return Ok(None);
        };
        let checksum = format.checksum.for_events();
        self.current = None;
        self.closed = false;
        let mut at = 1;
        loop {
            // Seldom when much is held: what stays moves each time.
            if at > PIECE_SIZE.max(self.tail.len() / 2) {
                self.drop_front(at);
                at = 0;
            }
            if !self.has(at + HEADER_SIZE)? {
                let all = self.tail.len();
                self.drop_front(all);
                return Ok(None);
            }
            if let Some(size) = self.plausible(at, RESUMED_SIZE_MAX, &wanted)
                && self.has(at + size)?
                && self.is_sane(at, size, checksum)?
            {
                self.drop_front(at);
                return Ok(Some(self.place.offset));
            }
            at += 1;
        }
    }

    /// The size of an event that may start here.
    fn plausible(&self, at: usize, size_max: u32, wanted: &impl Fn(EventType) -> bool) -> Option<usize> {
        let header = Header::decode(&mut Cursor::new(self.tail.get(at..)?)).ok()?;
        let end = (self.place.offset + at as u64).wrapping_add(u64::from(header.size));
        let is_size = (HEADER_SIZE as u32..=size_max).contains(&header.size);
        let is_here = header.next_position == end as u32;
        (is_size && is_here && wanted(header.event_type)).then_some(header.size as usize)
    }

    /// Is the checksum right? Without one, the event behind it must stand where it says, too.
    fn is_sane(&mut self, at: usize, size: usize, checksum: Checksum) -> Result<bool, Error> {
        if checksum == Checksum::Absent {
            let next = at + size;
            return Ok(
                !self.has(next + HEADER_SIZE)? || self.plausible(next, EVENT_SIZE_MAX, &|_| true).is_some()
            );
        }
        let event = RawEvent::new(&self.tail[at..at + size], checksum);
        Ok(event.is_ok_and(|event| event.verify().is_ok()))
    }

    /// Are so many bytes there? Reads more if need be.
    fn has(&mut self, size: usize) -> Result<bool, Error> {
        while self.tail.len() < size {
            let count = (size - self.tail.len()).clamp(PIECE_SIZE, self.tail.len().max(PIECE_SIZE));
            let read = self.input.read(count, Patience::Full, &mut self.tail);
            if read.map_err(|cause| Error::io("read", &self.name, cause))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn drop_front(&mut self, count: usize) {
        self.tail.drain(..count);
        self.place.offset += count as u64;
    }
}
