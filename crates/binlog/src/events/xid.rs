//! Commit of a transaction on transactional tables only.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Commit of a transaction on transactional tables only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Xid {
    /// Server's internal number of the transaction.
    pub xid: u64,
}

// size  field
//    8  xid
impl<'a> EventBody<'a> for Xid {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { xid: cursor.u64()? })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.xid.to_le_bytes());
        Ok(())
    }
}
