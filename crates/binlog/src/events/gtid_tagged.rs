//! The start of a transaction whose identifier has a tag: MySQL 8.3 and later.

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::event::{Body, Context};
use crate::events::gtid::{CommitStamps, LogicalClock};
use crate::gtid::{Tag, Uuid};

/// The start of a transaction whose identifier has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GtidTagged<'a> {
    /// Bit 0: the transaction may hold statements.
    pub flags: u8,
    /// The source's UUID.
    pub uuid: Uuid,
    /// The tag.
    pub tag: Tag,
    /// The transaction's number on its source, for this tag.
    pub gno: i64,
    /// What may run beside it.
    pub clock: LogicalClock,
    /// When, how large and by which server.
    pub stamps: CommitStamps,
    /// The body as written.
    pub bytes: &'a [u8],
}

impl<'a> Body<'a> for GtidTagged<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        let bytes = cursor.take_rest();
        Ok(Self {
            flags: 0,
            uuid: Uuid::nil(),
            tag: Tag::NONE,
            gno: 0,
            clock: LogicalClock { last_committed: 0, sequence_number: 0 },
            stamps: CommitStamps::default(),
            bytes,
        })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes);
    }
}
