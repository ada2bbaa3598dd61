//! Finds a way into a log: behind a place that cannot be read, or near one that is looked for.

use std::sync::Arc;

use binlog::{Checksum, Cursor, EVENT_SIZE_MAX, EventType, Format, HEADER_SIZE, Header, RawEvent};

use super::{LogKind, LogReader};
use crate::error::Error;
use crate::input::Patience;

/// What is read at once, and what of it is kept behind the place looked at.
const PIECE_SIZE: usize = 256 << 10;

/// How far in front of a place a transaction is looked for, at first, by how much further each time, and at most. To
/// read a log from its start is faster than to search more.
const NEAR_MIN: u64 = 64 << 10;
const NEAR_GROWTH: u64 = 8;
const NEAR_MAX: u64 = 32 << 20;

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
        match self.kind {
            LogKind::Binary => self.find(u64::MAX, &wanted),
            LogKind::Relay => Ok(None),
        }
    }

    /// Goes on at the first GTID event, of MySQL's kinds, that starts at `offset` or behind, and before `until`; nothing
    /// before needs to be known but the log's format. Gives its place; `None` when there is none.
    ///
    /// An event counts as found when its size, checksum and, in binary logs, `end_log_pos` agree with where it stands.
    /// Relay logs without checksums tell too little: see [`LogReader::can_seek`].
    ///
    /// # Errors
    ///
    /// When the system refuses.
    ///
    /// # Panics
    ///
    /// When `offset` is not behind [`LogReader::position`].
    pub fn seek_transaction(&mut self, offset: u64, until: u64) -> Result<Option<u64>, Error> {
        assert!(offset > self.position(), "ours: {offset} is not behind {}", self.position());
        match self.skip_to(offset - 1) {
            Err(Error::Beyond { .. }) => return Ok(None),
            other => other?,
        }
        self.find(until, &|event_type| event_type != EventType::MariadbGtid && starts_transaction(event_type))
    }

    /// Goes on at a GTID event that is not far in front of `position`, so that little has to be read to come there.
    /// Gives its place; `None`, and goes on where it was, when none was found within 32 MiB, or the log is one that
    /// cannot be searched: a stream, a relay log.
    ///
    /// The log's format must be known: read its first event before. An event counts as found as with
    /// [`LogReader::seek_transaction`].
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn seek_near(&mut self, position: u64) -> Result<Option<u64>, Error> {
        let here = self.position();
        if self.kind == LogKind::Relay || self.sealed || self.size()?.is_none() {
            return Ok(None);
        }
        let mut distance = NEAR_MIN;
        while distance <= NEAR_MAX && position.saturating_sub(distance) > here {
            match self.skip_to(position - distance) {
                Err(Error::Beyond { .. }) => {}
                skipped => {
                    skipped?;
                    if let Some(found) = self.find(position, &starts_transaction)? {
                        return Ok(Some(found));
                    }
                }
            }
            self.go_back_to(here)?;
            distance *= NEAR_GROWTH;
        }
        Ok(None)
    }

    /// Goes back to `offset` of the same log, where an event must start. Of a stream nobody can: see
    /// [`LogReader::size`].
    ///
    /// # Errors
    ///
    /// When the system refuses.
    ///
    /// # Panics
    ///
    /// When `offset` lies ahead of [`LogReader::position`].
    pub fn go_back_to(&mut self, offset: u64) -> Result<(), Error> {
        assert!(offset <= self.position(), "ours: {offset} lies ahead of {}", self.position());
        self.current = None;
        self.large_end = None;
        self.closed = false;
        self.tail.clear();
        self.place.offset = offset;
        self.input.go_to(offset).map_err(|cause| Error::io("go back in", &self.name, cause))
    }

    /// Does the log's format, once it is known, allow [`LogReader::seek_transaction`]?
    pub fn can_seek(&self) -> bool {
        let has_checksums = |format: &Arc<Format>| format.checksum.for_events() != Checksum::Absent;
        self.kind == LogKind::Binary || self.format().is_some_and(has_checksums)
    }

    fn find(&mut self, until: u64, wanted: &dyn Fn(EventType) -> bool) -> Result<Option<u64>, Error> {
        if !self.can_seek() {
            return Ok(None);
        }
        let Some(format) = self.format.clone() else { return Ok(None) };
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
            if self.place.offset + at as u64 >= until {
                return Ok(None);
            }
            if !self.has(at + HEADER_SIZE)? {
                let all = self.tail.len();
                self.drop_front(all);
                return Ok(None);
            }
            if let Some(size) = self.plausible(at, RESUMED_SIZE_MAX, wanted)
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
    fn plausible(&self, at: usize, size_max: u32, wanted: &dyn Fn(EventType) -> bool) -> Option<usize> {
        let header = Header::decode(&mut Cursor::new(self.tail.get(at..)?)).ok()?;
        let end = (self.place.offset + at as u64).wrapping_add(u64::from(header.size));
        let is_size = (HEADER_SIZE as u32..=size_max).contains(&header.size);
        // Events of a relay log say where they stood in another log: there, only the checksum tells.
        let is_here = self.kind == LogKind::Relay || header.next_position == end as u32;
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

const fn starts_transaction(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged | EventType::MariadbGtid
    )
}
