//! Events of a replication stream: their positions in the source's files, and the artificial events between them.

use binlog::events::{Heartbeat, HeartbeatV2, Rotate};
use binlog::{
    ChecksumAlgorithm, Cursor, DecodeError, DecodeReason, Event, EventChecksum, EventFlags, EventFormat,
    EventHeader, EventType, Flavour, Framer, FramerOutput, HEADER_SIZE, RawEvent,
};

use crate::error::WireError;

/// Maximum position in a file: the limit of `off_t`.
const POSITION_MAX: u64 = i64::MAX as u64;

/// Gaps between consecutive events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionGaps {
    /// No gaps: the log was requested from a file and position.
    None,
    /// The source skips transactions in the replica's GTID set.
    Skipped,
}

/// Item of a replication stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent<'a> {
    /// Artificial rotation: the following events are from this file. Comes first, and after the end of each file.
    File {
        /// Name of the file.
        file: &'a [u8],
        /// Position of the next event in the file.
        position: u64,
    },
    /// Format description of the file.
    Format {
        /// Bytes of the event.
        event: RawEvent<'a>,
        /// Origin of the format description.
        origin: FormatOrigin,
    },
    /// Heartbeat: all events up to this position have been sent.
    Heartbeat {
        /// Current position of the source in its file.
        position: u64,
    },
    /// Other artificial event: MariaDB's GTID list, sent if a replica starts in the middle of a file.
    Artificial(RawEvent<'a>),
    /// Event of the file.
    Event {
        /// Event with a verified checksum.
        event: RawEvent<'a>,
        /// Position of the event in the file.
        position: u64,
    },
}

/// Origin of a format description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatOrigin {
    /// Read from its position in the file. The closed file has the same bytes there.
    File,
    /// Modified by the source, and sent before events from the middle of the file.
    Repeated,
}

/// Reader of a replication stream. Separates the events of the source's files from artificial events, verifies
/// checksums and tracks positions.
#[derive(Clone, Debug)]
pub struct StreamReader {
    checksum: EventChecksum,
    format: Option<EventFormat>,
    gaps: PositionGaps,
    file: Vec<u8>,
    position: u64,
}

impl StreamReader {
    /// Creates a reader for the start of a stream. `checksum` is the checksum algorithm of the first event.
    pub fn new(checksum: ChecksumAlgorithm, gaps: PositionGaps) -> Self {
        Self { checksum: checksum.for_events(), format: None, gaps, file: Vec::new(), position: 0 }
    }

    /// Returns the current file of the source.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Returns the position of the next event in the file. A replica acknowledges this position and file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the format from the last format description.
    pub fn format(&self) -> Option<&EventFormat> {
        self.format.as_ref()
    }

    /// Reads an event.
    ///
    /// # Errors
    ///
    /// Fails if the event is invalid, if its checksum is wrong, or if it does not start at the end of the previous
    /// event.
    pub fn read<'a>(&mut self, event: &'a [u8]) -> Result<SourceEvent<'a>, WireError> {
        let header = EventHeader::decode(&mut Cursor::new(event)).map_err(|error| self.error(error))?;
        let is_artificial = header.flags.contains(EventFlags::ARTIFICIAL);
        if header.event_type == EventType::FormatDescription {
            return self.format_description(event, &header);
        }
        let raw = RawEvent::new(event, self.checksum).and_then(|raw| raw.verify().map(|()| raw));
        let raw = raw.map_err(|error| self.error(error))?;
        match header.event_type {
            EventType::Heartbeat | EventType::HeartbeatV2 => self.heartbeat(&raw),
            EventType::Rotate if is_artificial => self.rotate(&raw),
            _ if is_artificial || is_repeated_encryption_start(&header) => Ok(SourceEvent::Artificial(raw)),
            _ => Ok(SourceEvent::Event { event: raw, position: self.advance(&header)? }),
        }
    }

    fn format_description<'a>(
        &mut self,
        event: &'a [u8],
        header: &EventHeader,
    ) -> Result<SourceEvent<'a>, WireError> {
        let mut framer = Framer::new();
        let raw = match framer.next(event).map_err(|error| self.error(error))? {
            FramerOutput::Event(raw) if raw.bytes().len() == event.len() => raw,
            _ => return Err(self.error(size_error(event, header))),
        };
        self.format = framer.format().cloned();
        self.checksum =
            self.format.as_ref().map_or(EventChecksum::Absent, |format| format.checksum.for_events());
        // If events have no checksums, nothing verifies the last four bytes of a format description.
        if self.checksum == EventChecksum::Crc32 {
            raw.verify().map_err(|error| self.error(error))?;
        }
        // A format description without a position comes before events from the middle of the file.
        if header.next_position == 0 {
            return Ok(SourceEvent::Format { event: raw, origin: FormatOrigin::Repeated });
        }
        self.advance(header)?;
        Ok(SourceEvent::Format { event: raw, origin: FormatOrigin::File })
    }

    fn rotate<'a>(&mut self, raw: &RawEvent<'a>) -> Result<SourceEvent<'a>, WireError> {
        let Event::Rotate(Rotate { position, file }) = self.decode(raw)? else {
            return Err(self.error(not_decoded(raw)));
        };
        self.check_position(position)?;
        self.file = file.to_vec();
        self.position = position;
        Ok(SourceEvent::File { file, position })
    }

    fn heartbeat<'a>(&mut self, raw: &RawEvent<'a>) -> Result<SourceEvent<'a>, WireError> {
        let (file, position) = match self.decode(raw)? {
            Event::Heartbeat(Heartbeat { file }) => (file, self.widened(raw.header().next_position)),
            Event::HeartbeatV2(HeartbeatV2 { file, position, .. }) => (file, position),
            _ => return Err(self.error(not_decoded(raw))),
        };
        if file != self.file || position < self.position {
            return Err(WireError::Heartbeat {
                file: String::from_utf8_lossy(file).into_owned(),
                position,
                expected_file: String::from_utf8_lossy(&self.file).into_owned(),
                expected_position: self.position,
            });
        }
        self.check_position(position)?;
        if self.gaps == PositionGaps::Skipped {
            self.position = position;
        }
        Ok(SourceEvent::Heartbeat { position })
    }

    fn check_position(&self, found: u64) -> Result<(), WireError> {
        match found <= POSITION_MAX {
            true => Ok(()),
            false => {
                let reason = DecodeReason::OutOfRange { field: "position", found, max: POSITION_MAX };
                Err(self.error(DecodeError::new(HEADER_SIZE, reason)))
            }
        }
    }

    /// Extends the lower 32 bits of a position to the full position nearest to the current one, within 2 GiB.
    fn widened(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.position as u32).cast_signed();
        self.position.saturating_add_signed(ahead.into())
    }

    /// Moves to the end of an event of the file; returns its start position.
    fn advance(&mut self, header: &EventHeader) -> Result<u64, WireError> {
        let mut start = self.position;
        let end = start + u64::from(header.size);
        if header.next_position != 0 && header.next_position != end as u32 {
            match (self.gaps, self.widened(header.next_position)) {
                (PositionGaps::Skipped, found) if found > end => start = found - u64::from(header.size),
                (_, found) => {
                    let file = String::from_utf8_lossy(&self.file).into_owned();
                    return Err(WireError::Gap { file, position: start, expected: end, found });
                }
            }
        }
        self.position = start + u64::from(header.size);
        Ok(start)
    }

    /// Decodes an event. Artificial events can come before the first format description.
    fn decode<'a>(&self, raw: &RawEvent<'a>) -> Result<Event<'a>, WireError> {
        let none = EventFormat {
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

/// Returns whether MariaDB has sent the start of encryption again, before events from the middle of the file. The event
/// then has no position, and no flag (seen with MariaDB 11.8.9).
fn is_repeated_encryption_start(header: &EventHeader) -> bool {
    header.event_type == EventType::MariadbStartEncryption && header.next_position == 0
}

fn size_error(event: &[u8], header: &EventHeader) -> DecodeError {
    let (found, expected) = (u64::from(header.size), event.len() as u64);
    DecodeError::new(9, DecodeReason::Differs { field: "event size", found, expected })
}

fn not_decoded(raw: &RawEvent<'_>) -> DecodeError {
    let found = u64::from(raw.event_type().code());
    DecodeError::new(
        4,
        DecodeReason::Unexpected { field: "event type", found, expected: "the one in the header" },
    )
}
