//! Seeds of `RAND()` in the next statement.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Seeds of `RAND()` in the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rand {
    /// `@@rand_seed1`.
    pub seed1: u64,
    /// `@@rand_seed2`.
    pub seed2: u64,
}

// size  field
//    8  seed1
//    8  seed2
impl<'a> EventBody<'a> for Rand {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seed1: cursor.u64()?, seed2: cursor.u64()? })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.seed1.to_le_bytes());
        out.extend_from_slice(&self.seed2.to_le_bytes());
        Ok(())
    }
}
