//! GTID event: the start of a transaction, with its identifier, logical clock, times and size.

use crate::cursor::{Cursor, put_lenenc};
use crate::error::{DecodeError, EncodeError, checked_number, require_field};
use crate::event::{BodyContext, EventBody};
use crate::gtid::{Gno, Gtid, GtidTag, Tsid, Uuid};
use crate::header::HEADER_SIZE;
use crate::raw::EventChecksum;

/// Start of a transaction, with its identifier, or without one in Anonymous_Gtid events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidEvent<'a> {
    /// Bit 0: the transaction may have statements.
    pub flags: u8,
    /// UUID of the source; zeros if anonymous.
    pub uuid: Uuid,
    /// Number of the transaction on its source; 0 if anonymous.
    pub gno: i64,
    /// Logical clock; absent before MySQL 5.7.
    pub clock: Option<LogicalClock>,
    /// Commit times, size and server versions; absent before MySQL 8.0.1.
    pub stamps: Option<CommitStamps>,
    /// Presence of the optional fields.
    pub layout: GtidLayout,
    /// Bytes after the known fields. If the type of the clock is unknown, these are all bytes from the clock on.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

/// Dependencies of a transaction: it may run in parallel with transactions after `last_committed`. Numbers count
/// within one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LogicalClock {
    /// Last transaction that must have committed before this one starts; 0 for none.
    pub last_committed: i64,
    /// Number of this transaction in its file, from 1.
    pub sequence_number: i64,
}

/// Commit times, size and server versions of a transaction, logged since MySQL 8.0.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CommitStamps {
    /// Commit time on the server that wrote this log, in microseconds since 1970.
    pub immediate_commit_us: u64,
    /// Commit time on the originating server, in microseconds since 1970; 0 if unknown.
    pub original_commit_us: u64,
    /// Number of bytes from the start of this event to the end of the transaction; absent before 8.0.2.
    pub transaction_size: Option<u64>,
    /// Version of the server that wrote this log, such as 80043 for 8.0.43; absent before 8.0.14.
    pub immediate_server_version: Option<u32>,
    /// Version of the originating server; 999999 if unknown.
    pub original_server_version: Option<u32>,
    /// Ticket of group replication; absent if 0.
    pub commit_group_ticket: Option<u64>,
}

/// Presence of fields that may repeat another field. Needed to encode the same bytes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidLayout {
    /// True if the original commit time was written although it equals the immediate commit time.
    pub original_commit_written: bool,
    /// True if the original server version was written although it equals the immediate version.
    pub original_version_written: bool,
}

impl GtidEvent<'_> {
    /// Flag: the transaction may have statements, not only rows.
    pub const MAY_HAVE_STATEMENTS: u8 = 1;

    /// Sets the transaction's size to the size of this event plus `bytes_after`, the total size of all later events as
    /// logged. An event without this field, from before MySQL 8.0.2, stays unchanged.
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
        if event.stamps.is_none_or(|stamps| stamps.transaction_size.is_none()) {
            return Ok(());
        }
        settle_transaction_size(bytes_after, checksum, |size, out| {
            event.stamps = event.stamps.map(|stamps| CommitStamps { transaction_size: Some(size), ..stamps });
            event.put(out)
        })?;
        *self = event;
        Ok(())
    }

    /// Returns the identifier; `None` if anonymous or out of range.
    pub fn gtid(&self) -> Option<Gtid> {
        let gno = Gno::new(u64::try_from(self.gno).ok()?)?;
        Some(Gtid { tsid: Tsid { uuid: self.uuid, tag: GtidTag::NONE }, gno })
    }
}

/// Encodes an event's body with the size of the whole transaction. Calls `put` with growing sizes until the size is
/// right.
///
/// The size is a variable-length number in the event that it counts: a larger number can make the event larger.
/// Starting from 0 finds the smallest correct size.
pub(crate) fn settle_transaction_size(
    bytes_after: u64,
    checksum: EventChecksum,
    mut put: impl FnMut(u64, &mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let (mut said, mut body) = (0, Vec::new());
    loop {
        body.clear();
        put(said, &mut body)?;
        let found = bytes_after.saturating_add((HEADER_SIZE + body.len() + checksum.size()) as u64);
        if found == said {
            return Ok(());
        }
        said = found;
    }
}

/// Type code before a logical clock.
const CLOCK_TYPECODE: u8 = 2;

/// Bit 55 of the first commit time: a second commit time follows.
const COMMIT_TIME_FOLLOWS: u64 = 1 << 55;

/// Bit 31 of the first version: a second version follows.
const VERSION_FOLLOWS: u32 = 1 << 31;

// size  field
//    1  flags
//   16  uuid
//    8  gno
//    1  2: a clock follows (from here on since 5.7)
//    8  last_committed
//    8  sequence_number
//    7  immediate_commit_us; bit 55: another follows (from here on since 8.0.1)
//  0,7  original_commit_us
//    *  transaction_size: lenenc
//    4  immediate_server_version; bit 31: another follows
//  0,4  original_server_version
//  0,8  commit_group_ticket
impl<'a> EventBody<'a> for GtidEvent<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let flags = cursor.u8()?;
        let uuid = Uuid::from_bytes(cursor.array()?);
        let gno = cursor.i64()?;
        let mut event =
            Self { flags, uuid, gno, clock: None, stamps: None, layout: GtidLayout::default(), rest: &[] };
        if cursor.rest().first() == Some(&CLOCK_TYPECODE) {
            cursor.u8()?;
            let (last_committed, sequence_number) = (cursor.i64()?, cursor.i64()?);
            event.clock = Some(LogicalClock { last_committed, sequence_number });
            if !cursor.is_empty() {
                event.stamps = Some(decode_stamps(cursor, &mut event.layout)?);
            }
        }
        event.rest = cursor.take_rest();
        Ok(event)
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.put(out)
    }
}

impl GtidEvent<'_> {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(self.flags);
        out.extend_from_slice(self.uuid.as_bytes());
        out.extend_from_slice(&self.gno.to_le_bytes());
        if let Some(clock) = self.clock {
            out.push(CLOCK_TYPECODE);
            out.extend_from_slice(&clock.last_committed.to_le_bytes());
            out.extend_from_slice(&clock.sequence_number.to_le_bytes());
        }
        if let Some(stamps) = self.stamps {
            require_field("clock", self.clock, "stamps")?;
            encode_stamps(&stamps, self.layout, out)?;
        }
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

fn decode_stamps(cursor: &mut Cursor<'_>, layout: &mut GtidLayout) -> Result<CommitStamps, DecodeError> {
    let first = cursor.u56()?;
    let immediate_commit_us = first & !COMMIT_TIME_FOLLOWS;
    layout.original_commit_written = first & COMMIT_TIME_FOLLOWS != 0;
    let original_commit_us = match layout.original_commit_written {
        true => cursor.u56()?,
        false => immediate_commit_us,
    };
    let mut stamps = CommitStamps { immediate_commit_us, original_commit_us, ..CommitStamps::default() };
    if cursor.is_empty() {
        return Ok(stamps);
    }
    stamps.transaction_size = Some(cursor.lenenc()?);
    if cursor.rest().len() < 4 {
        return Ok(stamps);
    }
    let first = cursor.u32()?;
    stamps.immediate_server_version = Some(first & !VERSION_FOLLOWS);
    layout.original_version_written = first & VERSION_FOLLOWS != 0;
    stamps.original_server_version = match layout.original_version_written {
        true => Some(cursor.u32()?),
        false => stamps.immediate_server_version,
    };
    if cursor.rest().len() >= 8 {
        stamps.commit_group_ticket = Some(cursor.u64()?);
    }
    Ok(stamps)
}

fn encode_stamps(stamps: &CommitStamps, layout: GtidLayout, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put_commit_times(stamps, layout, out)?;
    if let Some(size) = stamps.transaction_size {
        put_lenenc(out, size);
    }
    if let Some(immediate) = stamps.immediate_server_version {
        require_field("transaction_size", stamps.transaction_size, "immediate_server_version")?;
        put_versions(immediate, stamps.original_server_version.unwrap_or(immediate), layout, out)?;
    }
    if let Some(ticket) = stamps.commit_group_ticket {
        require_field("immediate_server_version", stamps.immediate_server_version, "commit_group_ticket")?;
        out.extend_from_slice(&ticket.to_le_bytes());
    }
    Ok(())
}

fn put_commit_times(stamps: &CommitStamps, layout: GtidLayout, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let immediate =
        checked_number("immediate_commit_us", stamps.immediate_commit_us, COMMIT_TIME_FOLLOWS - 1)?;
    let original = checked_number("original_commit_us", stamps.original_commit_us, (1_u64 << 56) - 1)?;
    if original == immediate && !layout.original_commit_written {
        out.extend_from_slice(&immediate.to_le_bytes()[..7]);
    } else {
        out.extend_from_slice(&(immediate | COMMIT_TIME_FOLLOWS).to_le_bytes()[..7]);
        out.extend_from_slice(&original.to_le_bytes()[..7]);
    }
    Ok(())
}

fn put_versions(
    immediate: u32,
    original: u32,
    layout: GtidLayout,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    checked_number("immediate_server_version", u64::from(immediate), VERSION_FOLLOWS - 1)?;
    if original == immediate && !layout.original_version_written {
        out.extend_from_slice(&immediate.to_le_bytes());
    } else {
        out.extend_from_slice(&(immediate | VERSION_FOLLOWS).to_le_bytes());
        out.extend_from_slice(&original.to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CommitStamps, GtidEvent, GtidLayout, LogicalClock};
    use crate::gtid::Uuid;
    use crate::header::HEADER_SIZE;
    use crate::raw::EventChecksum;

    /// Returns the first transaction of a log of MySQL 8.0.29, with all fields.
    fn event() -> GtidEvent<'static> {
        GtidEvent {
            flags: 0,
            uuid: Uuid::from_u128(0x2d6e_8214_9918_11ec_ac13_0010_e0dc_39c0),
            gno: 1,
            clock: Some(LogicalClock { last_committed: 0, sequence_number: 1 }),
            stamps: Some(CommitStamps {
                immediate_commit_us: 0x05_d920_9c91_262a,
                original_commit_us: 0x05_d920_9c91_262a,
                transaction_size: Some(407),
                immediate_server_version: Some(80_029),
                original_server_version: Some(80_029),
                commit_group_ticket: None,
            }),
            layout: GtidLayout::default(),
            rest: &[],
        }
    }

    fn size_said(event: &GtidEvent<'_>) -> Option<u64> {
        event.stamps.and_then(|stamps| stamps.transaction_size)
    }

    #[test]
    fn transaction_size_matches_the_server() {
        let mut again = event();
        again.settle_transaction_size(407 - 79, EventChecksum::Crc32).unwrap();
        assert_eq!(again, event());
    }

    #[test]
    fn transaction_sizes_include_their_own_encoding() {
        for checksum in [EventChecksum::Absent, EventChecksum::Crc32] {
            for bytes_after in (0..700).chain(65_000..66_000).chain(16_776_900..16_777_300).chain([1 << 50]) {
                let (mut event, mut body) = (event(), Vec::new());
                event.settle_transaction_size(bytes_after, checksum).unwrap();
                event.put(&mut body).unwrap();
                let size = (HEADER_SIZE + body.len() + checksum.size()) as u64 + bytes_after;
                assert_eq!(size_said(&event), Some(size));
            }
        }
    }

    #[test]
    fn events_without_a_transaction_size_get_none() {
        let old = GtidEvent { stamps: None, ..event() };
        let mut again = old;
        again.settle_transaction_size(1000, EventChecksum::Crc32).unwrap();
        assert_eq!(again, old);
    }
}
