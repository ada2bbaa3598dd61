//! Statement of the rows that follow.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Statement of the rows that follow, for information only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RowsQuery<'a> {
    /// Low byte of the text's size, which readers ignore.
    pub size_low: u8,
    /// Text of the statement.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub sql: &'a [u8],
}

// size  field
//    1  size_low
//    *  sql: to the end of the body
impl<'a> EventBody<'a> for RowsQuery<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { size_low: cursor.u8()?, sql: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(self.size_low);
        out.extend_from_slice(self.sql);
        Ok(())
    }
}
