//! Row events in a temporary file: too many to hold in memory until they are applied.

use std::env;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::RowsFlags;
use binlog::{DecodeError, Event, EventFormat, RawEvent};
use logs::EncryptedSpool;

use crate::row_events::RowEvents;

/// Row events in a private temporary file, which is removed when the process ends. Readers get them in parts of whole
/// statements. A statement larger than a part is split into several, each with its own table maps.
#[derive(Clone, Debug)]
pub struct SpooledRows {
    format: Arc<EventFormat>,
    spool: Arc<EncryptedSpool>,
    parts: Vec<Range<u64>>,
}

/// Equal if file and parts are the same.
impl PartialEq for SpooledRows {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spool, &other.spool) && self.parts == other.parts
    }
}

impl Eq for SpooledRows {}

impl SpooledRows {
    /// Returns the format to decode the events with; it has no checksums.
    pub const fn format(&self) -> &Arc<EventFormat> {
        &self.format
    }

    /// Returns the parts, in order.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn parts(&self) -> impl Iterator<Item = io::Result<RowEvents>> {
        self.parts.iter().map(|part| {
            assert!(part.start < part.end, "ours: a part has events");
            let mut bytes = vec![0; (part.end - part.start) as usize];
            self.spool.read_exact_at(part.start, &mut bytes)?;
            Ok(RowEvents { format: Arc::clone(&self.format), bytes })
        })
    }
}

/// Approximate bytes of a part. A larger row makes a larger part.
const PART_SIZE: usize = 2 << 20;

/// Writes row events to a temporary file.
pub(crate) struct RowSpooler {
    rows: SpooledRows,
    part_size: usize,
    /// The current part.
    part: Vec<u8>,
    /// Table maps of the open statement.
    maps: Vec<u8>,
    /// Offset of the open statement in the part.
    start: usize,
    /// Offset of the open statement's last rows event in the part, if it has one.
    last: Option<usize>,
}

impl RowSpooler {
    /// Creates an empty spool for events of this format.
    pub(crate) fn new(format: &Arc<EventFormat>) -> io::Result<Self> {
        let spool = Arc::new(EncryptedSpool::new_in(&env::temp_dir(), 0)?);
        let rows = SpooledRows { format: Arc::clone(format), spool, parts: Vec::new() };
        let (part, maps) = (Vec::new(), Vec::new());
        Ok(Self { rows, part_size: PART_SIZE, part, maps, start: 0, last: None })
    }

    /// Adds the next event, which has no checksum.
    pub(crate) fn push(&mut self, raw: &RawEvent<'_>) -> Result<(), SpoolPushError> {
        let event = raw.decode(&self.rows.format)?;
        let Some(rows) = event.rows() else {
            if matches!(event, Event::TableMap(_)) {
                self.maps.extend_from_slice(raw.bytes());
            }
            self.part.extend_from_slice(raw.bytes());
            return Ok(());
        };
        if self.part.len() + raw.bytes().len() > self.part_size {
            self.cut()?;
        }
        debug_assert!(self.start <= self.part.len(), "ours: the open statement is in the part");
        self.last = Some(self.part.len());
        self.part.extend_from_slice(raw.bytes());
        if rows.flags.contains(RowsFlags::STATEMENT_END) {
            self.maps.clear();
            (self.start, self.last) = (self.part.len(), None);
        }
        Ok(())
    }

    /// Returns all events that were added.
    pub(crate) fn finish(mut self) -> io::Result<SpooledRows> {
        self.put(self.part.len())?;
        Ok(self.rows)
    }

    /// Ends the current part, before the open statement or within it.
    fn cut(&mut self) -> io::Result<()> {
        let is_open = self.last.is_none_or(|last| last >= self.start);
        assert!(is_open, "ours: the last rows event is in the open statement");
        if let Some(last) = self.last.take() {
            RowEvents::end_statement(&mut self.part[last..], &self.rows.format);
            self.put(self.part.len())?;
            self.part.extend_from_slice(&self.maps);
        } else {
            self.put(self.start)?;
        }
        self.start = 0;
        Ok(())
    }

    /// Writes the first bytes of the part to the file.
    fn put(&mut self, size: usize) -> io::Result<()> {
        assert!(size <= self.part.len(), "ours: only events of the part are written");
        if size > 0 {
            let start = self.rows.spool.push(&self.part[..size])?;
            let end = self.rows.parts.last().map_or(0, |part| part.end);
            assert_eq!(start, end, "ours: each part follows the one before it");
            self.rows.parts.push(start..start + size as u64);
            self.part.drain(..size);
        }
        Ok(())
    }
}

/// Reason why an event was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolPushError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use binlog::events::{RowsFlags, RowsKind};
    use binlog::{
        ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition, RawEvent,
    };

    use super::RowSpooler;
    use crate::sample_table::{SampleTable, image, int};

    fn format() -> EventFormat {
        let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
        EventFormat { server_version, post_header_sizes: Vec::new(), checksum, flavour: Flavour::MySql }
    }

    fn bytes(event: &Event<'_>) -> Vec<u8> {
        let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
        let mut out = Vec::new();
        event.write(origin, NextPosition::Fixed(0), &format(), &mut out).unwrap();
        out
    }

    /// `statements` are words with a digit for each rows event; a part holds up to `events` rows events. In the result,
    /// `m` is a table map and `.` marks the end of a statement.
    fn check(statements: &str, events: usize, expected: &str) {
        let table = SampleTable::new("int").named("t", 1);
        let format = Arc::new(format());
        let mut spooler = RowSpooler::new(&format).unwrap();
        let push = |spooler: &mut RowSpooler, bytes: &[u8]| {
            spooler.push(&RawEvent::new(bytes, binlog::EventChecksum::Absent).unwrap()).unwrap();
        };
        let map = bytes(&Event::TableMap(table.map()));
        for statement in statements.split(' ') {
            push(&mut spooler, &map);
            for (index, digit) in (1..).zip(statement.bytes()) {
                let after = image(&[int(i32::from(digit - b'0'))]);
                let mut rows = table.rows(RowsKind::Write, &after);
                rows.flags = RowsFlags(u16::from(index == statement.len()));
                let event = bytes(&Event::WriteRows(rows));
                spooler.part_size = map.len() + events * event.len();
                push(&mut spooler, &event);
            }
        }
        let mut parts = Vec::new();
        for part in spooler.finish().unwrap().parts() {
            let (part, mut text) = (part.unwrap(), String::new());
            for raw in part.events() {
                match raw.decode(&format).unwrap().rows() {
                    None => text.push('m'),
                    Some(rows) => {
                        let end = if rows.flags.contains(RowsFlags::STATEMENT_END) { "." } else { "" };
                        write!(text, "{}{end}", rows.rows[1]).unwrap();
                    }
                }
            }
            parts.push(text);
        }
        assert_eq!(parts.join(" "), expected);
    }

    #[test]
    fn parts_are_whole_statements() {
        check("1", 4, "m1.");
        check("1 2", 9, "m1.m2.");
        check("123", 4, "m123.");
        check("12345", 2, "m12. m34. m5.");
        check("1 2345 6", 3, "m1. m234. m5. m6.");
    }
}
