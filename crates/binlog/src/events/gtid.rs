//! The start of a transaction: its identifier, its place in the logical clock, its times and its size.

use crate::cursor::{Cursor, put_lenenc};
use crate::error::DecodeError;
use crate::event::{Body, Context};
use crate::gtid::{Gno, Gtid, Tag, Tsid, Uuid};

/// The start of a transaction, with its identifier or (type Anonymous_Gtid) without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidEvent<'a> {
    /// Bit 0: the transaction may hold statements.
    pub flags: u8,
    /// The source's UUID; zeros when anonymous.
    pub uuid: Uuid,
    /// The transaction's number on its source; 0 when anonymous.
    pub gno: i64,
    /// What may run beside it; absent before MySQL 5.7.
    pub clock: Option<LogicalClock>,
    /// Absent before MySQL 8.0.1.
    pub stamps: Option<CommitStamps>,
    /// Which fields were written.
    pub layout: GtidLayout,
    /// Bytes behind the known fields.
    pub rest: &'a [u8],
}

/// What may run beside a transaction: it depends on none behind `last_committed`, counted within its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LogicalClock {
    /// The last transaction that must have committed before this one starts; 0 for none.
    pub last_committed: i64,
    /// This transaction's own number in its file, from 1.
    pub sequence_number: i64,
}

/// When, how large and by which server: what a transaction's first event says since MySQL 8.0.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CommitStamps {
    /// When it committed on the server that wrote this log, in microseconds since 1970.
    pub immediate_commit_us: u64,
    /// When it committed on the server where it began, in microseconds since 1970; 0 if unknown.
    pub original_commit_us: u64,
    /// Bytes from this event's start to the transaction's end; absent before 8.0.2.
    pub transaction_size: Option<u64>,
    /// The version of the server that wrote this log, as 80043 for 8.0.43; absent before 8.0.14.
    pub immediate_server_version: Option<u32>,
    /// The version of the server where it began; 999999 if unknown.
    pub original_server_version: Option<u32>,
    /// Group replication's ticket; absent if 0.
    pub commit_group_ticket: Option<u64>,
}

/// Which of the fields that repeat another were written: needed to write the same bytes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidLayout {
    /// The byte in front of the clock; 2 when there is one.
    pub clock_typecode: Option<u8>,
    /// Was the original commit time written though equal?
    pub original_commit_written: bool,
    /// Was the original server version written though equal?
    pub original_version_written: bool,
}

impl GtidEvent<'_> {
    /// Flag: the transaction may hold statements, not only rows.
    pub const MAY_HAVE_STATEMENTS: u8 = 1;

    /// The identifier; `None` when anonymous or out of range.
    pub fn gtid(&self) -> Option<Gtid> {
        let gno = Gno::new(u64::try_from(self.gno).ok()?)?;
        Some(Gtid { tsid: Tsid { uuid: self.uuid, tag: Tag::NONE }, gno })
    }
}

/// The typecode in front of a logical clock.
const CLOCK_TYPECODE: u8 = 2;

/// Bit 55 of the first commit time: a second one follows.
const COMMIT_TIME_FOLLOWS: u64 = 1 << 55;

/// Bit 31 of the first version: a second one follows.
const VERSION_FOLLOWS: u32 = 1 << 31;

// size  field
//    1  flags
//   16  uuid
//    8  gno
//    1  clock_typecode: 2 (from here on since 5.7)
//    8  last_committed
//    8  sequence_number
//    7  immediate_commit_us; bit 55: another follows (from here on since 8.0.1)
//  0,7  original_commit_us
//    *  transaction_size: lenenc
//    4  immediate_server_version; bit 31: another follows
//  0,4  original_server_version
//  0,8  commit_group_ticket
impl<'a> Body<'a> for GtidEvent<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        let flags = cursor.u8()?;
        let uuid = Uuid::from_bytes(cursor.array()?);
        let gno = cursor.i64()?;
        let mut event =
            Self { flags, uuid, gno, clock: None, stamps: None, layout: GtidLayout::default(), rest: &[] };
        if cursor.is_empty() {
            return Ok(event);
        }
        let typecode = cursor.u8()?;
        event.layout.clock_typecode = Some(typecode);
        if typecode == CLOCK_TYPECODE {
            let (last_committed, sequence_number) = (cursor.i64()?, cursor.i64()?);
            event.clock = Some(LogicalClock { last_committed, sequence_number });
            if !cursor.is_empty() {
                event.stamps = Some(decode_stamps(cursor, &mut event.layout)?);
            }
        }
        event.rest = cursor.take_rest();
        Ok(event)
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) {
        out.push(self.flags);
        out.extend_from_slice(self.uuid.as_bytes());
        out.extend_from_slice(&self.gno.to_le_bytes());
        out.extend(self.layout.clock_typecode);
        if let Some(clock) = self.clock {
            out.extend_from_slice(&clock.last_committed.to_le_bytes());
            out.extend_from_slice(&clock.sequence_number.to_le_bytes());
        }
        if let Some(stamps) = self.stamps {
            encode_stamps(&stamps, self.layout, out);
        }
        out.extend_from_slice(self.rest);
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

fn encode_stamps(stamps: &CommitStamps, layout: GtidLayout, out: &mut Vec<u8>) {
    let twice = layout.original_commit_written || stamps.original_commit_us != stamps.immediate_commit_us;
    let first = stamps.immediate_commit_us | if twice { COMMIT_TIME_FOLLOWS } else { 0 };
    out.extend_from_slice(&first.to_le_bytes()[..7]);
    if twice {
        out.extend_from_slice(&stamps.original_commit_us.to_le_bytes()[..7]);
    }
    let Some(size) = stamps.transaction_size else { return };
    put_lenenc(out, size);
    let Some(immediate) = stamps.immediate_server_version else { return };
    let original = stamps.original_server_version.unwrap_or(immediate);
    let twice = layout.original_version_written || original != immediate;
    let first = immediate | if twice { VERSION_FOLLOWS } else { 0 };
    out.extend_from_slice(&first.to_le_bytes());
    if twice {
        out.extend_from_slice(&original.to_le_bytes());
    }
    if let Some(ticket) = stamps.commit_group_ticket {
        out.extend_from_slice(&ticket.to_le_bytes());
    }
}
