//! Heartbeats, sent while a source has no events. Never in a file.

use crate::cursor::{Cursor, lenenc_size, put_lenenc};
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Heartbeat, sent while a source has no events. Its position is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Heartbeat<'a> {
    /// Current file of the source.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub file: &'a [u8],
}

// size  field
//    *  file: to the end of the body
impl<'a> EventBody<'a> for Heartbeat<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { file: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.file);
        Ok(())
    }
}

/// Heartbeat with a 64-bit position, since 8.0.26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HeartbeatV2<'a> {
    /// Type, size and value of each field, as written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub fields: &'a [u8],
    /// Current file of the source.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub file: &'a [u8],
    /// Position of the next event in the file.
    pub position: u64,
}

impl HeartbeatV2<'_> {
    /// Encodes the fields as a server does.
    pub fn encode_fields(file: &[u8], position: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(file.len() + 16);
        put_lenenc(&mut out, 1);
        put_lenenc(&mut out, file.len() as u64);
        out.extend_from_slice(file);
        put_lenenc(&mut out, 2);
        put_lenenc(&mut out, lenenc_size(position) as u64);
        put_lenenc(&mut out, position);
        out.push(0);
        out
    }
}

// size  field
//    *  any number of: type, size, value (lenenc, lenenc, size); 1 the file, 2 the position (lenenc)
//    1  0: the end
impl<'a> EventBody<'a> for HeartbeatV2<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let mut heartbeat = Self { fields: cursor.rest(), file: &[], position: 0 };
        loop {
            let field = cursor.lenenc()?;
            if field == 0 {
                cursor.take_rest();
                return Ok(heartbeat);
            }
            let start = cursor.offset();
            let value = cursor.lenenc_bytes()?;
            match field {
                1 => heartbeat.file = value,
                2 => heartbeat.position = Cursor::at(value, start).lenenc()?,
                _ => {}
            }
        }
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.fields);
        Ok(())
    }
}
