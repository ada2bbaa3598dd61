//! Integer variable of the next statement.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Integer variable of the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Intvar {
    /// Kind of the variable.
    pub kind: IntvarKind,
    /// Value of the variable.
    pub value: u64,
}

/// Kind of an integer variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum IntvarKind {
    /// 1: the result of `LAST_INSERT_ID()`.
    LastInsertId,
    /// 2: the first value of an `AUTO_INCREMENT` column.
    InsertId,
    /// Any other code.
    Unknown(u8),
}

// size  field
//    1  kind
//    8  value
impl<'a> EventBody<'a> for Intvar {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let kind = match cursor.u8()? {
            1 => IntvarKind::LastInsertId,
            2 => IntvarKind::InsertId,
            code => IntvarKind::Unknown(code),
        };
        Ok(Self { kind, value: cursor.u64()? })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(match self.kind {
            IntvarKind::LastInsertId => 1,
            IntvarKind::InsertId => 2,
            IntvarKind::Unknown(code) => code,
        });
        out.extend_from_slice(&self.value.to_le_bytes());
        Ok(())
    }
}
