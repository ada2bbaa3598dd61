//! Change of the members of a replication group.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Change of the members of a replication group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ViewChange<'a> {
    /// Name of the view: forty bytes, zero-padded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::padded_text"))]
    pub view_id: &'a [u8; 40],
    /// Number of the view.
    pub sequence_number: u64,
    /// Number of certification entries.
    pub certification_count: u32,
    /// Key and value of each entry, each preceded by its size (2 and 4 bytes).
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub certification: &'a [u8],
}

impl<'a> ViewChange<'a> {
    /// Returns the name of the view without the padding.
    pub fn view_name(&self) -> &'a [u8] {
        let end = self.view_id.iter().position(|byte| *byte == 0).unwrap_or(self.view_id.len());
        &self.view_id[..end]
    }
}

// size  field
//   40  view_id
//    8  sequence_number
//    4  certification_count
//    *  certification: to the end of the body
impl<'a> EventBody<'a> for ViewChange<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            view_id: cursor.array_ref()?,
            sequence_number: cursor.u64()?,
            certification_count: cursor.u32()?,
            certification: cursor.take_rest(),
        })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.view_id);
        out.extend_from_slice(&self.sequence_number.to_le_bytes());
        out.extend_from_slice(&self.certification_count.to_le_bytes());
        out.extend_from_slice(self.certification);
        Ok(())
    }
}
