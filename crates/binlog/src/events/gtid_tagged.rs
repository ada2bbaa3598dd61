//! GTID event with a tag: MySQL 8.3 and later.

use crate::cursor::{Cursor, put_varlen, put_varlen_signed};
use crate::error::{DecodeError, DecodeReason, EncodeError, require_field};
use crate::event::{BodyContext, EventBody};
use crate::events::gtid::{CommitStamps, LogicalClock, settle_transaction_size};
use crate::gtid::{Gno, Gtid, GtidTag, Tsid, Uuid};
use crate::raw::EventChecksum;

/// Start of a transaction whose identifier has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidTagged<'a> {
    /// Bit 0: the transaction may have statements.
    pub flags: u64,
    /// UUID of the source.
    pub uuid: Uuid,
    /// Number of the transaction on its source, for this tag.
    pub gno: i64,
    /// Tag.
    pub tag: GtidTag,
    /// Logical clock.
    pub clock: LogicalClock,
    /// Commit times, size and server versions.
    pub stamps: CommitStamps,
    /// Number of the last field that readers must support, plus one; 0 for none.
    pub fields_needed: u64,
    /// Fields after the known ones, starting with the number of the first unknown field.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

impl GtidTagged<'_> {
    /// Sets the transaction's size to the size of this event plus `bytes_after`, the total size of all later events as
    /// logged.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be encoded.
    pub fn settle_transaction_size(
        &mut self,
        bytes_after: u64,
        checksum: EventChecksum,
    ) -> Result<(), EncodeError> {
        let mut event = *self;
        settle_transaction_size(bytes_after, checksum, |size, out| {
            event.stamps.transaction_size = Some(size);
            event.put(out)
        })?;
        *self = event;
        Ok(())
    }

    /// Returns the identifier; `None` if the number is out of range.
    pub fn gtid(&self) -> Option<Gtid> {
        let gno = Gno::new(u64::try_from(self.gno).ok()?)?;
        Some(Gtid { tsid: Tsid { uuid: self.uuid, tag: self.tag }, gno })
    }
}

/// Version of the encoding, and number of the version field.
const ENCODING_VERSION: u64 = 1;

/// Number of known fields.
const FIELD_COUNT: u64 = 12;

// All integers are variable-length.
//
// field
//        encoding version: 1
//        size of the body, version included
//        fields_needed
//     0  flags
//     1  uuid: each of its sixteen bytes as an integer
//     2  gno, signed
//     3  tag: its size, then its bytes
//     4  last_committed, signed
//     5  sequence_number, signed
//     6  immediate_commit_us
//     7  original_commit_us, if it differs
//     8  transaction_size
//     9  immediate_server_version
//    10  original_server_version, if it differs
//    11  commit_group_ticket, if there is one
//     *  rest: to the end of the body
//
// Each field is preceded by its number. The fields are in this order.
impl<'a> EventBody<'a> for GtidTagged<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let fields_needed = decode_head(cursor)?;
        let flags = required_field(cursor, 0, "0 (flags)", Cursor::varlen)?;
        let uuid = required_field(cursor, 1, "1 (the source's UUID)", uuid)?;
        let gno = required_field(cursor, 2, "2 (the transaction's number)", Cursor::varlen_signed)?;
        let tag = required_field(cursor, 3, "3 (the tag)", tag)?;
        let last_committed = required_field(cursor, 4, "4 (last_committed)", Cursor::varlen_signed)?;
        let sequence_number = required_field(cursor, 5, "5 (sequence_number)", Cursor::varlen_signed)?;
        let immediate_commit_us = required_field(cursor, 6, "6 (the commit time)", Cursor::varlen)?;
        let original_commit_us = optional_field(cursor, 7, Cursor::varlen)?.unwrap_or(immediate_commit_us);
        let transaction_size = Some(required_field(cursor, 8, "8 (the transaction's size)", Cursor::varlen)?);
        let immediate_server_version = Some(required_field(cursor, 9, "9 (the server's version)", version)?);
        let original_server_version = optional_field(cursor, 10, version)?.or(immediate_server_version);
        let commit_group_ticket = optional_field(cursor, 11, Cursor::varlen)?;
        let clock = LogicalClock { last_committed, sequence_number };
        let stamps = CommitStamps {
            immediate_commit_us,
            original_commit_us,
            transaction_size,
            immediate_server_version,
            original_server_version,
            commit_group_ticket,
        };
        Ok(Self { flags, uuid, gno, tag, clock, stamps, fields_needed, rest: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.put(out)
    }
}

impl GtidTagged<'_> {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let fields = self.encode_fields()?;
        let mut head = Vec::with_capacity(4);
        put_varlen(&mut head, self.fields_needed);
        put_varlen(&mut head, fields.len() as u64);
        put_varlen(out, ENCODING_VERSION);
        // Like servers, assumes that the size field is as large as the encoded size of the fields alone. The result is
        // one too small if only the size of the whole body needs a second byte.
        put_varlen(out, (1 + head.len() + fields.len()) as u64);
        put_varlen(out, self.fields_needed);
        out.extend_from_slice(&fields);
        Ok(())
    }

    fn encode_fields(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::with_capacity(128);
        let stamps = &self.stamps;
        put_field(&mut out, 0, self.flags);
        put_varlen(&mut out, 1);
        self.uuid.as_bytes().iter().for_each(|byte| put_varlen(&mut out, u64::from(*byte)));
        put_field_signed(&mut out, 2, self.gno);
        put_field(&mut out, 3, self.tag.as_str().len() as u64);
        out.extend_from_slice(self.tag.as_str().as_bytes());
        put_field_signed(&mut out, 4, self.clock.last_committed);
        put_field_signed(&mut out, 5, self.clock.sequence_number);
        put_field(&mut out, 6, stamps.immediate_commit_us);
        if stamps.original_commit_us != stamps.immediate_commit_us {
            put_field(&mut out, 7, stamps.original_commit_us);
        }
        let transaction_size = stamps.transaction_size;
        put_field(
            &mut out,
            8,
            require_field("transaction_size", transaction_size, "immediate_server_version")?,
        );
        let version = stamps.immediate_server_version;
        let version = require_field("immediate_server_version", version, "the end of a tagged GTID")?;
        put_field(&mut out, 9, u64::from(version));
        if let Some(original) = stamps.original_server_version.filter(|original| *original != version) {
            put_field(&mut out, 10, u64::from(original));
        }
        if let Some(ticket) = stamps.commit_group_ticket {
            put_field(&mut out, 11, ticket);
        }
        out.extend_from_slice(self.rest);
        Ok(out)
    }
}

fn put_field(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varlen(out, field);
    put_varlen(out, value);
}

fn put_field_signed(out: &mut Vec<u8>, field: u64, value: i64) {
    put_varlen(out, field);
    put_varlen_signed(out, value);
}

/// Decodes the head of the body; returns `fields_needed`.
fn decode_head(cursor: &mut Cursor<'_>) -> Result<u64, DecodeError> {
    let start = cursor.clone();
    let found = cursor.varlen()?;
    if found != ENCODING_VERSION {
        let (field, expected) = ("version of a tagged GTID's encoding", "1");
        return Err(start.error(DecodeReason::Unexpected { field, found, expected }));
    }
    let here = cursor.clone();
    let (found, max) = (cursor.varlen()?, start.rest().len() as u64);
    if found > max {
        return Err(here.error(DecodeReason::OutOfRange { field: "size of a tagged GTID", found, max }));
    }
    let here = cursor.clone();
    let needed = cursor.varlen()?;
    if needed > FIELD_COUNT {
        return Err(
            here.error(DecodeReason::Unsupported { what: "a tagged GTID with an unknown mandatory field" })
        );
    }
    Ok(needed)
}

/// Reads a mandatory field; `expected` is its number and name.
fn required_field<'a, T>(
    cursor: &mut Cursor<'a>,
    number: u64,
    expected: &'static str,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let here = cursor.clone();
    let found = cursor.varlen()?;
    if found != number {
        let field = "field of a tagged GTID";
        return Err(here.error(DecodeReason::Unexpected { field, found, expected }));
    }
    read(cursor)
}

/// Reads an optional field.
fn optional_field<'a, T>(
    cursor: &mut Cursor<'a>,
    number: u64,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    let here = cursor.clone();
    match cursor.varlen() {
        Ok(found) if found == number => read(cursor).map(Some),
        _ => {
            *cursor = here;
            Ok(None)
        }
    }
}

fn uuid(cursor: &mut Cursor<'_>) -> Result<Uuid, DecodeError> {
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = ranged(cursor, "byte of a UUID", u64::from(u8::MAX))? as u8;
    }
    Ok(Uuid::from_bytes(bytes))
}

fn tag(cursor: &mut Cursor<'_>) -> Result<GtidTag, DecodeError> {
    let here = cursor.clone();
    let size = usize::try_from(cursor.varlen()?).unwrap_or(usize::MAX);
    let text = cursor.bytes(size)?;
    GtidTag::new(text).ok_or_else(|| here.error(DecodeReason::Unsupported { what: "an invalid tag" }))
}

fn version(cursor: &mut Cursor<'_>) -> Result<u32, DecodeError> {
    Ok(ranged(cursor, "server version", u64::from(u32::MAX))? as u32)
}

/// Reads an integer of at most `max`.
fn ranged(cursor: &mut Cursor<'_>, field: &'static str, max: u64) -> Result<u64, DecodeError> {
    let here = cursor.clone();
    match cursor.varlen()? {
        found if found > max => Err(here.error(DecodeReason::OutOfRange { field, found, max })),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::GtidTagged;
    use crate::cursor::Cursor;
    use crate::error::DecodeError;
    use crate::event::{BodyContext, EventBody, EventType};
    use crate::events::{CommitStamps, LogicalClock};
    use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
    use crate::gtid::{GtidTag, Uuid};
    use crate::header::HEADER_SIZE;
    use crate::raw::EventChecksum;

    /// Body written by MySQL 9.2.
    const BODY: [u8; 59] = [
        0x02, 0x76, 0x00, 0x00, 0x02, 0x02, 0x25, 0x02, 0xdc, 0xf0, 0x09, 0x02, 0x30, 0xf9, 0x03, 0x22, 0xbd,
        0x03, 0xad, 0x02, 0x21, 0x02, 0x44, 0x44, 0x5a, 0x68, 0x51, 0x03, 0x22, 0x04, 0x04, 0x06, 0x0c, 0x66,
        0x6f, 0x6f, 0x62, 0x61, 0x7a, 0x08, 0x00, 0x0a, 0x04, 0x0c, 0x7f, 0x15, 0x83, 0x22, 0x2d, 0x5c, 0x2e,
        0x06, 0x10, 0x49, 0x03, 0x12, 0xc3, 0x02, 0x0b,
    ];

    fn event() -> GtidTagged<'static> {
        GtidTagged {
            flags: 1,
            uuid: Uuid::from_u128(0x896e7882_18fe_11ef_ab88_22222d34d411),
            gno: 1,
            tag: GtidTag::new(b"foobaz").unwrap(),
            clock: LogicalClock { last_committed: 0, sequence_number: 1 },
            stamps: CommitStamps {
                immediate_commit_us: 1_739_823_289_369_365,
                original_commit_us: 1_739_823_289_369_365,
                transaction_size: Some(210),
                immediate_server_version: Some(90_200),
                original_server_version: Some(90_200),
                commit_group_ticket: None,
            },
            fields_needed: 0,
            rest: &[],
        }
    }

    fn format() -> EventFormat {
        EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Crc32,
            flavour: Flavour::MySql,
        }
    }

    fn decode(body: &[u8]) -> Result<GtidTagged<'_>, DecodeError> {
        let format = format();
        let context = BodyContext { event_type: EventType::GtidTagged, format: &format };
        GtidTagged::decode(&mut Cursor::new(body), context)
    }

    fn encode(event: &GtidTagged<'_>) -> Vec<u8> {
        let (mut out, format) = (Vec::new(), format());
        event.encode(BodyContext { event_type: EventType::GtidTagged, format: &format }, &mut out).unwrap();
        out
    }

    #[test]
    fn real_body() {
        assert_eq!(decode(&BODY), Ok(event()));
        assert_eq!(encode(&event()), BODY);
        let text = event().gtid().unwrap().to_string();
        assert_eq!(text, "896e7882-18fe-11ef-ab88-22222d34d411:foobaz:1");
    }

    #[test]
    fn sizes_equal_the_servers() {
        for rest in 0..200 {
            let rest = vec![0xfc; rest];
            let event = GtidTagged { rest: &rest, ..event() };
            let body = encode(&event);
            let declared = Cursor::new(&body[1..]).varlen().unwrap();
            let fields = body.len() - if declared < 128 { 3 } else { 4 };
            let short = u64::from((125..=127).contains(&fields));
            assert_eq!(declared + short, body.len() as u64);
            assert_eq!(decode(&body), Ok(event));
        }
    }

    #[test]
    fn transaction_sizes_include_their_own_encoding() {
        for checksum in [EventChecksum::Absent, EventChecksum::Crc32] {
            for bytes_after in (0..700).chain(16_000..17_000).chain(2_097_000..2_097_200).chain([1 << 50]) {
                let mut event = event();
                event.settle_transaction_size(bytes_after, checksum).unwrap();
                let size = (HEADER_SIZE + encode(&event).len() + checksum.size()) as u64 + bytes_after;
                assert_eq!(event.stamps.transaction_size, Some(size));
            }
        }
    }

    #[test]
    fn wrong_bodies() {
        let check = |at: usize, byte: u8, expected: &str| {
            let mut body = BODY;
            body[at] = byte;
            assert_eq!(decode(&body).unwrap_err().to_string(), expected);
        };
        check(0, 0x04, "byte 0: version of a tagged GTID's encoding is 2, expected 1");
        check(1, 0x78, "byte 1: size of a tagged GTID is 60, expected at most 59");
        check(2, 26, "byte 2: a tagged GTID with an unknown mandatory field cannot be read");
        check(3, 2, "byte 3: field of a tagged GTID is 1, expected 0 (flags)");
        check(5, 4, "byte 5: field of a tagged GTID is 2, expected 1 (the source's UUID)");
        check(7, 4, "byte 6: byte of a UUID is 265, expected at most 255");
        check(29, 6, "byte 29: field of a tagged GTID is 3, expected 2 (the transaction's number)");
        check(31, 8, "byte 31: field of a tagged GTID is 4, expected 3 (the tag)");
        check(33, b'-', "byte 32: an invalid tag cannot be read");
        check(39, 10, "byte 39: field of a tagged GTID is 5, expected 4 (last_committed)");
        check(41, 12, "byte 41: field of a tagged GTID is 6, expected 5 (sequence_number)");
        check(43, 16, "byte 43: field of a tagged GTID is 8, expected 6 (the commit time)");
        check(52, 18, "byte 52: field of a tagged GTID is 9, expected 8 (the transaction's size)");
        check(55, 20, "byte 55: field of a tagged GTID is 10, expected 9 (the server's version)");
        assert_eq!(
            decode(&BODY[..58]).unwrap_err().to_string(),
            "byte 1: size of a tagged GTID is 59, expected at most 58"
        );
    }

    #[test]
    fn fields_without_an_earlier_one() {
        let check = |remove: fn(&mut CommitStamps), expected: &str| {
            let mut event = event();
            remove(&mut event.stamps);
            assert_eq!(event.encode_fields().unwrap_err().to_string(), expected);
        };
        check(
            |stamps| stamps.transaction_size = None,
            "transaction_size is missing, but required before immediate_server_version",
        );
        check(
            |stamps| stamps.immediate_server_version = None,
            "immediate_server_version is missing, but required before the end of a tagged GTID",
        );
    }
}
