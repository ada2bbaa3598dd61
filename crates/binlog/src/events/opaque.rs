//! Bodies that are not decoded.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Body that is not decoded: of an obsolete event, or of an event without fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Opaque<'a> {
    /// Bytes between header and checksum.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub body: &'a [u8],
}

impl<'a> EventBody<'a> for Opaque<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { body: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.body);
        Ok(())
    }
}

/// Event of a type unknown to this crate, not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unknown<'a> {
    /// Code of the type.
    pub code: u8,
    /// Bytes between header and checksum.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub body: &'a [u8],
}

impl<'a> EventBody<'a> for Unknown<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { code: context.event_type.code(), body: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.body);
        Ok(())
    }
}
