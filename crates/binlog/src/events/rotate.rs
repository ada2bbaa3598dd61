//! Rotation to the next file of the log.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Rotation to the next file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rotate<'a> {
    /// Start position in the next file: 4, except in artificial rotations.
    pub position: u64,
    /// Name of the next file, without a directory.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub file: &'a [u8],
}

// size  field
//    8  position
//    *  file: to the end of the body
impl<'a> EventBody<'a> for Rotate<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { position: cursor.u64()?, file: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(self.file);
        Ok(())
    }
}
