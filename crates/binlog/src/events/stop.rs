//! Stop of the server.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Stop of the server. Has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stop;

impl<'a> EventBody<'a> for Stop {
    fn decode(_: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }

    fn encode(&self, _: BodyContext<'_>, _: &mut Vec<u8>) -> Result<(), EncodeError> {
        Ok(())
    }
}
