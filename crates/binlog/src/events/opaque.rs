//! A body that is kept as it is.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{Body, Context};

/// A body that is kept as it is: of an event that no server has written for long, or whose text is all there is
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Opaque<'a> {
    /// What stands between header and checksum.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub body: &'a [u8],
}

impl<'a> Body<'a> for Opaque<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { body: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.body);
        Ok(())
    }
}

/// An event of a type that this crate does not know, kept as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unknown<'a> {
    /// The type's code.
    pub code: u8,
    /// What stands between header and checksum.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub body: &'a [u8],
}

impl<'a> Body<'a> for Unknown<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { code: context.event_type.code(), body: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.body);
        Ok(())
    }
}
