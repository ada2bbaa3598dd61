//! Splits a sample into events, changes it, and assembles it again so that only the change is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use binlog::events::GtidEvent;
use binlog::{Event, EventChecksum, EventFormat, EventType, MAGIC, NextPosition, RawEvent, move_event};
use logs::{LogReader, ReadOutcome};

/// Events of a log.
pub(crate) struct Log {
    pub(crate) events: Vec<Vec<u8>>,
    format: EventFormat,
}

/// Returns the path of a sample log.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

impl Log {
    pub(crate) fn of_sample(name: &str) -> Self {
        let mut reader = LogReader::open(sample(name)).expect("could not read the sample");
        let mut events = Vec::new();
        while let ReadOutcome::Some(event) = reader.next_event().expect("could not read the event") {
            events.push(event.raw.bytes().to_vec());
        }
        let format = reader.format().expect("no format description").as_ref().clone();
        Self { events, format }
    }

    /// Returns the start of event number `index`.
    pub(crate) fn offset(&self, index: usize) -> u64 {
        let before: usize = self.events[..index].iter().map(Vec::len).sum();
        (MAGIC.len() + before) as u64
    }

    /// Returns the index of the `nth` event of a type, from 0.
    pub(crate) fn find(&self, event_type: EventType, nth: usize) -> usize {
        let code = event_type.code();
        let found = (0..self.events.len()).filter(|index| self.events[*index][4] == code).nth(nth);
        found.unwrap_or_else(|| panic!("no {event_type:?} number {nth}"))
    }

    fn checksum(&self, index: usize) -> EventChecksum {
        match self.events[index][4] == EventType::FormatDescription.code() {
            true => EventChecksum::Crc32,
            false => self.format.checksum.for_events(),
        }
    }

    pub(crate) const fn format(&self) -> &EventFormat {
        &self.format
    }

    pub(crate) fn raw(&self, index: usize) -> RawEvent<'_> {
        RawEvent::new(&self.events[index], self.checksum(index)).expect("no event")
    }

    /// Changes an event's body and size. `settle` updates its checksum and position.
    pub(crate) fn body(&mut self, index: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let raw = self.raw(index);
        let checksum = raw.checksum().size();
        let mut body = raw.body().to_vec();
        change(&mut body);
        let event = &mut self.events[index];
        event.truncate(19);
        event.extend(body);
        event.extend(vec![0; checksum]);
        let size = event.len() as u32;
        event[9..13].copy_from_slice(&size.to_le_bytes());
    }

    /// Changes the fields of a GTID event.
    pub(crate) fn gtid(&mut self, index: usize, change: impl FnOnce(&mut GtidEvent<'_>)) {
        let raw = self.raw(index);
        let Ok(Event::Gtid(mut event)) = raw.decode(&self.format) else { panic!("no GTID event") };
        change(&mut event);
        let mut bytes = Vec::new();
        let written =
            Event::Gtid(event).write(raw.header().origin(), NextPosition::Fixed(0), &self.format, &mut bytes);
        written.expect("could not write the event");
        self.events[index] = bytes;
    }

    /// Sets the position and checksum of every event.
    pub(crate) fn settle(&mut self) {
        for index in 0..self.events.len() {
            let next = NextPosition::FromStart(self.offset(index));
            let checksum = self.checksum(index);
            move_event(&mut self.events[index], checksum, next);
        }
    }

    /// Sets the checksum of every event, and keeps the positions.
    pub(crate) fn settle_checksums(&mut self) {
        for index in 0..self.events.len() {
            let next =
                self.events[index][13..17].try_into().map(u32::from_le_bytes).expect("fewer than four bytes");
            let checksum = self.checksum(index);
            move_event(&mut self.events[index], checksum, NextPosition::Fixed(next));
        }
    }

    /// Sets the transaction size in the GTID event at `index`, for a transaction that ends with event `last`.
    pub(crate) fn settle_size(&mut self, index: usize, last: usize) {
        let bytes_after = self.events[index + 1..=last].iter().map(|event| event.len() as u64).sum();
        let checksum = self.checksum(index);
        self.gtid(index, |event| event.settle_transaction_size(bytes_after, checksum).expect("no size"));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [MAGIC.to_vec(), self.events.concat()].concat()
    }

    pub(crate) fn write(&self, path: &Path) {
        fs::write(path, self.bytes()).expect("could not write or copy the file");
    }
}
