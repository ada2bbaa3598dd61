//! Incident on the source that makes its log incomplete.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};

/// Incident on the source that makes its log incomplete; replicas must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Incident<'a> {
    /// 1: events were lost.
    pub incident: u16,
    /// Message of the source.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub message: &'a [u8],
    /// Bytes after the message. In logs with checksums, MySQL writes the checksum of this event twice.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

impl Incident<'_> {
    /// Returns the name of the incident.
    pub const fn name(&self) -> &'static str {
        match self.incident {
            0 => "NOTHING",
            1 => "LOST_EVENTS",
            _ => "UNKNOWN",
        }
    }
}

// size  field
//    2  incident
//    1  size of message
//    *  message
//    *  rest: to the end of the body
impl<'a> EventBody<'a> for Incident<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let incident = cursor.u16()?;
        let size = usize::from(cursor.u8()?);
        Ok(Self { incident, message: cursor.bytes(size)?, rest: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.incident.to_le_bytes());
        out.push(checked_number("size of the message", self.message.len() as u64, u8::MAX)?);
        out.extend_from_slice(self.message);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}
