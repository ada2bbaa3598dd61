//! Notice that a file of a failed `LOAD DATA` is no longer needed.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Notice that a file of `LOAD DATA` is no longer needed, because the statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeleteFile {
    /// Number of the file.
    pub file_id: u32,
}

// size  field
//    4  file_id
impl<'a> EventBody<'a> for DeleteFile {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { file_id: cursor.u32()? })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.file_id.to_le_bytes());
        Ok(())
    }
}
