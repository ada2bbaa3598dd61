//! Splits a log into events.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::event::EventType;
use crate::events::FormatDescription;
use crate::format::EventFormat;
use crate::header::{EventHeader, HEADER_SIZE};
use crate::raw::{EventChecksum, RawEvent};

/// The first four bytes of a log.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

/// The first four bytes of an encrypted log.
pub const MAGIC_ENCRYPTED: [u8; 4] = [0xfd, b'b', b'i', b'n'];

/// Maximum size of an event: `max_log_event_size`, 1 GiB. Servers neither write nor read larger events.
pub const EVENT_SIZE_MAX: u32 = 1 << 30;

/// Splits a log into events and keeps the format from the last format description.
///
/// The framer does not know whether more bytes will come. [`FramerOutput::NeedMore`] means *not yet* at the end of a
/// growing log and *torn* at the end of a closed one; the caller decides.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    format: Option<EventFormat>,
    following: FollowingBytes,
}

/// Kind of the bytes after the events read so far.
#[derive(Clone, Copy, Debug, Default)]
enum FollowingBytes {
    #[default]
    Events,
    /// Encrypted events of MariaDB. Each event is encrypted separately, except for its size.
    MariadbCiphertext,
}

/// Result of reading the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramerOutput<'a> {
    /// A whole event; the next event starts after its bytes.
    Event(RawEvent<'a>),
    /// Only a part of an event.
    NeedMore {
        /// Number of bytes needed in total, as far as known.
        needed: usize,
    },
}

impl Framer {
    /// Creates a framer for a log, from the first event after the magic number on. The format is not known yet.
    pub const fn new() -> Self {
        Self { format: None, following: FollowingBytes::Events }
    }

    /// Creates a framer for events of a known format, or for events of a payload ([`EventFormat::inside_payload`]).
    pub const fn with_format(format: EventFormat) -> Self {
        Self { format: Some(format), following: FollowingBytes::Events }
    }

    /// Returns the format from the last format description.
    pub const fn format(&self) -> Option<&EventFormat> {
        self.format.as_ref()
    }

    /// Returns the event at the front of `bytes`. The size is checked and format descriptions are decoded; the
    /// checksum is not verified.
    ///
    /// # Errors
    ///
    /// Fails if the header states an impossible size, if the first event is no format description, or if a format
    /// description cannot be decoded. Also fails after an event that starts MariaDB's encryption.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<FramerOutput<'a>, DecodeError> {
        let Some(head) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Ok(FramerOutput::NeedMore { needed: HEADER_SIZE });
        };
        if let FollowingBytes::MariadbCiphertext = self.following {
            return Err(DecodeError::new(
                0,
                DecodeReason::Unsupported { what: "an event encrypted by MariaDB" },
            ));
        }
        let header = EventHeader::decode(&mut Cursor::new(head))?;
        let size = header.checked_size(EVENT_SIZE_MAX)?;
        let is_format = header.event_type == EventType::FormatDescription;
        // An event that is not allowed here is an error before all of its bytes are read.
        let checksum = if is_format { EventChecksum::Absent } else { self.checksum(&header)? };
        let Some(bytes) = bytes.get(..size) else {
            return Ok(FramerOutput::NeedMore { needed: size });
        };
        let raw = if is_format { self.accept_format(bytes)? } else { RawEvent::new(bytes, checksum)? };
        if header.starts_encryption() {
            self.following = FollowingBytes::MariadbCiphertext;
        }
        Ok(FramerOutput::Event(raw))
    }

    fn accept_format<'a>(&mut self, bytes: &'a [u8]) -> Result<RawEvent<'a>, DecodeError> {
        let raw = RawEvent::new(bytes, FormatDescription::checksum_in(bytes))?;
        let description = FormatDescription::decode_body(raw.body())?;
        self.format = Some(description.format()?);
        Ok(raw)
    }

    fn checksum(&self, header: &EventHeader) -> Result<EventChecksum, DecodeError> {
        match &self.format {
            Some(format) => Ok(format.checksum.for_events()),
            None => Err(DecodeError::new(
                4,
                DecodeReason::Unexpected {
                    field: "event type",
                    found: u64::from(header.event_type.code()),
                    expected: "15 (a format description) as the first event",
                },
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_SIZE_MAX, Framer, FramerOutput};
    use crate::error::{DecodeError, DecodeReason};
    use crate::event::{Event, EventType};
    use crate::events::{FormatDescription, MariadbStartEncryption, Rotate, Xid};
    use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
    use crate::header::{EventFlags, EventOrigin};
    use crate::write::NextPosition;

    const ORIGIN: EventOrigin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags(0) };

    fn format(checksum: ChecksumAlgorithm) -> EventFormat {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), vec![0; 42]);
        EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
    }

    fn whole(event: &Event<'_>, checksum: ChecksumAlgorithm) -> Vec<u8> {
        let mut out = Vec::new();
        event.write(ORIGIN, NextPosition::Fixed(0), &format(checksum), &mut out).unwrap();
        out
    }

    fn description(version: &[u8], checksum_algorithm: Option<u8>) -> Vec<u8> {
        let mut server_version = [0; 50];
        server_version[..version.len()].copy_from_slice(version);
        let description = FormatDescription {
            binlog_version: 4,
            server_version: &server_version,
            created: 0,
            header_size: 19,
            post_header_sizes: if checksum_algorithm.is_some() { &[0; 42] } else { &[0; 27] },
            checksum_algorithm,
        };
        whole(&Event::FormatDescription(description), ChecksumAlgorithm::Off)
    }

    /// Returns the types and body sizes of a log's events, or the position of an error and the error.
    fn events(mut framer: Framer, log: &[u8]) -> Result<Vec<(EventType, usize)>, (usize, DecodeError)> {
        let (mut events, mut position) = (Vec::new(), 0);
        loop {
            match framer.next(&log[position..]).map_err(|error| (position, error))? {
                FramerOutput::Event(raw) => {
                    raw.verify().map_err(|error| (position, error))?;
                    events.push((raw.event_type(), raw.body().len()));
                    position += raw.bytes().len();
                }
                FramerOutput::NeedMore { needed } if position == log.len() && needed == 19 => {
                    return Ok(events);
                }
                FramerOutput::NeedMore { needed } => panic!("needed {needed} at {position} of {}", log.len()),
            }
        }
    }

    #[test]
    fn the_last_format_description_sets_the_checksum_algorithm() {
        let xid = Event::Xid(Xid { xid: 1 });
        let log = [
            description(b"9.7.4", Some(1)),
            whole(&xid, ChecksumAlgorithm::Crc32),
            description(b"9.7.4", Some(0)),
            whole(&xid, ChecksumAlgorithm::Off),
            description(b"5.5.62", None),
            whole(&xid, ChecksumAlgorithm::Off),
        ];
        let (xid, old) = ((EventType::Xid, 8), (EventType::FormatDescription, 84));
        let new = (EventType::FormatDescription, 100);
        assert_eq!(events(Framer::new(), &log.concat()), Ok(vec![new, xid, new, xid, old, xid]));
    }

    #[test]
    fn other_first_events_are_refused_before_they_are_complete() {
        let mut xid = whole(&Event::Xid(Xid { xid: 1 }), ChecksumAlgorithm::Off);
        xid[9..13].copy_from_slice(&EVENT_SIZE_MAX.to_le_bytes());
        let (field, expected) = ("event type", "15 (a format description) as the first event");
        let error = DecodeError::new(4, DecodeReason::Unexpected { field, found: 16, expected });
        assert_eq!(Framer::new().next(&xid[..19]), Err(error));
    }

    #[test]
    fn too_many_event_types_for_a_version_without_checksums_are_refused() {
        let mut description = description(b"9.7.4", Some(1));
        description[19 + 2] = b'\xb9';
        let (field, found) = ("number of event types", 42 + 1 + 4);
        let expected = "at most 40, because servers of this version write no checksums";
        let error = DecodeError::new(76, DecodeReason::Unexpected { field, found, expected });
        assert_eq!(events(Framer::new(), &description), Err((0, error)));
    }

    #[test]
    fn incomplete_event_needs_more_bytes() {
        let event = description(b"9.7.4", Some(1));
        for size in 0..event.len() {
            let needed = if size < 19 { 19 } else { event.len() };
            assert_eq!(Framer::new().next(&event[..size]), Ok(FramerOutput::NeedMore { needed }));
        }
        assert!(matches!(Framer::new().next(&event), Ok(FramerOutput::Event(_))));
    }

    #[test]
    fn impossible_event_sizes_are_refused() {
        let check = |size: u32, expected: Result<FramerOutput<'_>, DecodeError>| {
            let mut event = whole(&Event::Xid(Xid { xid: 1 }), ChecksumAlgorithm::Crc32);
            event[9..13].copy_from_slice(&size.to_le_bytes());
            assert_eq!(
                Framer::with_format(format(ChecksumAlgorithm::Crc32)).next(&event),
                expected,
                "{size}"
            );
        };
        let small =
            |found| DecodeReason::Unexpected { field: "event size", found, expected: "19 bytes or more" };
        check(0, Err(DecodeError::new(9, small(0))));
        check(18, Err(DecodeError::new(9, small(18))));
        check(20, Err(DecodeError::new(20, DecodeReason::Short { expected: 3, found: 0 })));
        check(32, Ok(FramerOutput::NeedMore { needed: 32 }));
        check(EVENT_SIZE_MAX, Ok(FramerOutput::NeedMore { needed: EVENT_SIZE_MAX as usize }));
        let (found, max) = (u64::from(EVENT_SIZE_MAX) + 1, u64::from(EVENT_SIZE_MAX));
        let large = DecodeReason::OutOfRange { field: "event size", found, max };
        check(EVENT_SIZE_MAX + 1, Err(DecodeError::new(9, large)));
    }

    #[test]
    fn a_log_starts_with_a_format_description() {
        let (field, expected) = ("event type", "15 (a format description) as the first event");
        let error = DecodeError::new(4, DecodeReason::Unexpected { field, found: 16, expected });
        let xid = whole(&Event::Xid(Xid { xid: 1 }), ChecksumAlgorithm::Crc32);
        assert_eq!(events(Framer::new(), &xid), Err((0, error)));
    }

    #[test]
    fn sources_send_an_artificial_rotate_event_first() {
        let rotate = Event::Rotate(Rotate { position: 4, file: b"binlog.000007" });
        let log = [whole(&rotate, ChecksumAlgorithm::Crc32), description(b"9.7.4", Some(1))].concat();
        // Source and replica agreed on checksums beforehand.
        let framer = Framer::with_format(format(ChecksumAlgorithm::Crc32));
        assert_eq!(
            events(framer, &log),
            Ok(vec![(EventType::Rotate, 21), (EventType::FormatDescription, 100)])
        );
    }

    #[test]
    fn events_encrypted_by_mariadb_are_refused() {
        let start = MariadbStartEncryption { scheme: 1, key_version: 1, nonce: &[7; 12] };
        let start = whole(&Event::MariadbStartEncryption(start), ChecksumAlgorithm::Off);
        let first = description(b"10.11.18-MariaDB", Some(0));
        let log = [first.as_slice(), &start, &[0x55; 29]].concat();
        let what = "an event encrypted by MariaDB";
        let error = DecodeError::new(0, DecodeReason::Unsupported { what });
        assert_eq!(events(Framer::new(), &log), Err((first.len() + start.len(), error)));
    }

    /// A copy that a server has sent is not encrypted: the server flags the event as ignorable.
    #[test]
    fn copies_of_logs_encrypted_by_mariadb_are_plain() {
        let start = MariadbStartEncryption { scheme: 1, key_version: 1, nonce: &[7; 12] };
        let mut start = whole(&Event::MariadbStartEncryption(start), ChecksumAlgorithm::Off);
        start[17] = 0x80;
        let xid = whole(&Event::Xid(Xid { xid: 1 }), ChecksumAlgorithm::Off);
        let log = [description(b"11.8.9-MariaDB", Some(0)), start, xid].concat();
        assert_eq!(events(Framer::new(), &log).map(|events| events.len()), Ok(3));
    }

    #[test]
    fn invalid_format_descriptions() {
        let check = |offset: usize, byte: u8, at: usize, field, expected| {
            let mut event = description(b"9.7.4", Some(1));
            event[offset] = byte;
            let reason = DecodeReason::Unexpected { field, found: u64::from(byte), expected };
            assert_eq!(Framer::new().next(&event), Err(DecodeError::new(at, reason)));
        };
        check(19, 3, 19, "binary log version", "4");
        check(75, 20, 75, "header size", "19");
        check(118, 2, 118, "checksum algorithm", "0, 1 or 255");
    }
}
