//! A body that is kept as it is.

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::event::{Body, Context};

/// A body that is kept as it is: of an unknown event, or of one whose text is all there is to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Opaque<'a> {
    /// What stands between header and checksum.
    pub body: &'a [u8],
}

impl<'a> Body<'a> for Opaque<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { body: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.body);
    }
}
