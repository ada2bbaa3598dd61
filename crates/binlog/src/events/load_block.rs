//! Block of a file for `LOAD DATA`.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Block of a file for `LOAD DATA`: the first one (Begin_load_query) or a later one (Append_block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LoadBlock<'a> {
    /// Number of the file, the same in all its events.
    pub file_id: u32,
    /// Bytes of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub block: &'a [u8],
}

// size  field
//    4  file_id
//    *  block: to the end of the body
impl<'a> EventBody<'a> for LoadBlock<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { file_id: cursor.u32()?, block: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.file_id.to_le_bytes());
        out.extend_from_slice(self.block);
        Ok(())
    }
}
