//! Which events stand in the source's files, and where; and which are made up for the wire.

use binlog::events::{Heartbeat, HeartbeatV2, Rotate};
use binlog::{
    Checksum, ChecksumAlgorithm, Cursor, DecodeError, Event, EventType, Flags, Flavour, Format, Framed,
    Framer, HEADER_SIZE, Header, RawEvent, Reason,
};

use crate::error::WireError;

/// No file is larger: `off_t`.
const POSITION_MAX: u64 = i64::MAX as u64;

/// Whether events may be left out between two that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// None: the log was asked for from a place in a file on.
    None,
    /// Transactions that the replica has, as it said in GTIDs.
    Skipped,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// Made up: what follows is of this file. Comes first, and behind each file's end.
    File {
        /// The file's name.
        file: &'a [u8],
        /// Where in it the next event starts.
        position: u64,
    },
    /// How the events of this file are written.
    Format {
        /// The event.
        event: RawEvent<'a>,
        /// Whether it was read from its place in the file.
        origin: Origin,
    },
    /// A sign of life: nothing is in the file up to here that has not been sent.
    Heartbeat {
        /// Where the source stands in its file.
        position: u64,
    },
    /// Made up, and in no file: MariaDB's list of GTIDs where a replica joins in the middle of a file.
    Artificial(RawEvent<'a>),
    /// An event of the file.
    Event {
        /// The event. Its checksum has been verified.
        event: RawEvent<'a>,
        /// Where it starts in the file.
        position: u64,
    },
}

/// Where a format description comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From its place in the file, where it stands with these bytes once the file is closed.
    File,
    /// It was changed, and sent in front of events from the middle of the file.
    Repeated,
}

/// Tells events of the source's files from those made up for the wire, verifies them, and counts where they stand.
#[derive(Clone, Debug)]
pub struct StreamReader {
    checksum: Checksum,
    format: Option<Format>,
    gaps: Gaps,
    file: Vec<u8>,
    position: u64,
}

impl StreamReader {
    /// At the start of a stream whose first event has a checksum of this kind.
    pub fn new(checksum: ChecksumAlgorithm, gaps: Gaps) -> Self {
        Self { checksum: checksum.for_events(), format: None, gaps, file: Vec::new(), position: 0 }
    }

    /// The source's file.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Where the next event starts in it; this and the file are what is acknowledged.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What the last format description promised.
    pub fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// An event came.
    ///
    /// # Errors
    ///
    /// When its checksum is wrong, it is none, or it does not stand where the one before it ended.
    pub fn read<'a>(&mut self, event: &'a [u8]) -> Result<Arrival<'a>, WireError> {
        let header = Header::decode(&mut Cursor::new(event)).map_err(|error| self.error(error))?;
        let is_artificial = header.flags.contains(Flags::ARTIFICIAL);
        if header.event_type == EventType::FormatDescription {
            return self.format_description(event, &header);
        }
        let raw = RawEvent::new(event, self.checksum).and_then(|raw| raw.verify().map(|()| raw));
        let raw = raw.map_err(|error| self.error(error))?;
        match header.event_type {
            EventType::Heartbeat | EventType::HeartbeatV2 => self.heartbeat(&raw),
            EventType::Rotate if is_artificial => self.rotate(&raw),
            _ if is_artificial => Ok(Arrival::Artificial(raw)),
            _ => Ok(Arrival::Event { event: raw, position: self.advance(&header)? }),
        }
    }

    fn format_description<'a>(&mut self, event: &'a [u8], header: &Header) -> Result<Arrival<'a>, WireError> {
        let mut framer = Framer::new();
        let raw = match framer.next(event).map_err(|error| self.error(error))? {
            Framed::Event(raw) if raw.bytes().len() == event.len() => raw,
            _ => return Err(self.error(size_error(event, header))),
        };
        self.format = framer.format().cloned();
        self.checksum = self.format.as_ref().map_or(Checksum::Absent, |format| format.checksum.for_events());
        // Where events have no checksums, nobody verifies the four bytes behind this one.
        if self.checksum == Checksum::Crc32 {
            raw.verify().map_err(|error| self.error(error))?;
        }
        // Without a place of its own it stands in front of events from the middle of the file.
        if header.next_position == 0 {
            return Ok(Arrival::Format { event: raw, origin: Origin::Repeated });
        }
        self.advance(header)?;
        Ok(Arrival::Format { event: raw, origin: Origin::File })
    }

    fn rotate<'a>(&mut self, raw: &RawEvent<'a>) -> Result<Arrival<'a>, WireError> {
        let Event::Rotate(Rotate { position, file }) = self.decode(raw)? else {
            return Err(self.error(not_decoded(raw)));
        };
        self.check_position(position)?;
        self.file = file.to_vec();
        self.position = position;
        Ok(Arrival::File { file, position })
    }

    fn heartbeat<'a>(&mut self, raw: &RawEvent<'a>) -> Result<Arrival<'a>, WireError> {
        let (file, position) = match self.decode(raw)? {
            Event::Heartbeat(Heartbeat { file }) => (file, self.widened(raw.header().next_position)),
            Event::HeartbeatV2(HeartbeatV2 { file, position, .. }) => (file, position),
            _ => return Err(self.error(not_decoded(raw))),
        };
        if file != self.file || position < self.position {
            return Err(WireError::Heartbeat {
                file: String::from_utf8_lossy(file).into_owned(),
                position,
                wanted_file: String::from_utf8_lossy(&self.file).into_owned(),
                wanted_position: self.position,
            });
        }
        self.check_position(position)?;
        if self.gaps == Gaps::Skipped {
            self.position = position;
        }
        Ok(Arrival::Heartbeat { position })
    }

    fn check_position(&self, found: u64) -> Result<(), WireError> {
        match found <= POSITION_MAX {
            true => Ok(()),
            false => {
                let reason = Reason::OutOfRange { field: "position", found, max: POSITION_MAX };
                Err(self.error(DecodeError::new(HEADER_SIZE, reason)))
            }
        }
    }

    /// A position of which only the lowest 32 bits are known: at or behind where we stand, if within 2 GiB.
    fn widened(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.position as u32).cast_signed();
        self.position.saturating_add_signed(ahead.into())
    }

    /// Moves behind an event of the file, and says where it starts.
    fn advance(&mut self, header: &Header) -> Result<u64, WireError> {
        let mut start = self.position;
        let end = start + u64::from(header.size);
        if header.next_position != 0 && header.next_position != end as u32 {
            match (self.gaps, self.widened(header.next_position)) {
                (Gaps::Skipped, found) if found > end => start = found - u64::from(header.size),
                (_, found) => {
                    let file = String::from_utf8_lossy(&self.file).into_owned();
                    return Err(WireError::Gap { file, position: start, wanted: end, found });
                }
            }
        }
        self.position = start + u64::from(header.size);
        Ok(start)
    }

    /// Made-up events come before the first format description, too.
    fn decode<'a>(&self, raw: &RawEvent<'a>) -> Result<Event<'a>, WireError> {
        let none = Format {
            server_version: Vec::new(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        raw.decode(self.format.as_ref().unwrap_or(&none)).map_err(|error| self.error(error))
    }

    fn error(&self, error: DecodeError) -> WireError {
        let file = String::from_utf8_lossy(&self.file).into_owned();
        WireError::Event { file, position: self.position, error }
    }
}

fn size_error(event: &[u8], header: &Header) -> DecodeError {
    let (found, wanted) = (u64::from(header.size), event.len() as u64);
    DecodeError::new(9, Reason::Differs { field: "event size", found, wanted })
}

fn not_decoded(raw: &RawEvent<'_>) -> DecodeError {
    let found = u64::from(raw.event_type().code());
    DecodeError::new(4, Reason::Unexpected { field: "event type", found, wanted: "the one in the header" })
}
