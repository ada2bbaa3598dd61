//! GTIDs of all earlier files.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// GTIDs of all earlier files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PreviousGtids<'a> {
    /// Encoded GTID set: see [`crate::gtid::GtidSet::decode`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::encoded_gtid_set"))]
    pub set: &'a [u8],
}

impl<'a> EventBody<'a> for PreviousGtids<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { set: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.set);
        Ok(())
    }
}
