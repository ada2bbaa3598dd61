//! Input for the certification of a transaction in a replication group.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};

/// Input for the certification of a transaction in a replication group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TransactionContext<'a> {
    /// UUID of the group member that ran the transaction, as text.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub server_uuid: &'a [u8],
    /// Connection that ran the transaction.
    pub thread_id: u32,
    /// Not 0 if the GTID was specified instead of generated.
    pub gtid_specified: u8,
    /// Encoded GTID set that the transaction saw.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::encoded_gtid_set"))]
    pub snapshot_version: &'a [u8],
    /// Number of items written.
    pub write_set_count: u32,
    /// Number of items read.
    pub read_set_count: u32,
    /// Written items, then read items, each preceded by its size (2 bytes).
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub items: &'a [u8],
}

// size  field
//    1  size of server_uuid
//    4  thread_id
//    1  gtid_specified
//    4  size of snapshot_version
//    4  write_set_count
//    4  read_set_count
//    *  server_uuid
//    *  snapshot_version
//    *  items: to the end of the body
impl<'a> EventBody<'a> for TransactionContext<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let uuid_size = usize::from(cursor.u8()?);
        let thread_id = cursor.u32()?;
        let gtid_specified = cursor.u8()?;
        let snapshot_size = cursor.u32()? as usize;
        let write_set_count = cursor.u32()?;
        let read_set_count = cursor.u32()?;
        Ok(Self {
            server_uuid: cursor.bytes(uuid_size)?,
            thread_id,
            gtid_specified,
            snapshot_version: cursor.bytes(snapshot_size)?,
            write_set_count,
            read_set_count,
            items: cursor.take_rest(),
        })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(checked_number("size of the server's UUID", self.server_uuid.len() as u64, u8::MAX)?);
        out.extend_from_slice(&self.thread_id.to_le_bytes());
        out.push(self.gtid_specified);
        let size =
            checked_number("size of the snapshot version", self.snapshot_version.len() as u64, u32::MAX)?;
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&self.write_set_count.to_le_bytes());
        out.extend_from_slice(&self.read_set_count.to_le_bytes());
        out.extend_from_slice(self.server_uuid);
        out.extend_from_slice(self.snapshot_version);
        out.extend_from_slice(self.items);
        Ok(())
    }
}
