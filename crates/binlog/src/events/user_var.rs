//! User variable of the next statement.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};

/// User variable of the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UserVar<'a> {
    /// Name without the `@`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub name: &'a [u8],
    /// Value; `None` for NULL.
    pub value: Option<UserVarValue<'a>>,
}

/// Value of a user variable, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UserVarValue<'a> {
    /// Type: 0 string, 1 real (8 bytes), 2 integer (8 bytes), 3 row, 4 decimal (precision, scale, then the binary
    /// form of a column).
    pub kind: u8,
    /// Number of the collation.
    pub collation: u32,
    /// Bytes of the value.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub bytes: &'a [u8],
    /// Bit 0: unsigned. Servers write it after integers only; further bytes are kept.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub flags: &'a [u8],
}

impl UserVarValue<'_> {
    /// Kind: text, in the collation's character set.
    pub const STRING: u8 = 0;
    /// Kind: a DOUBLE of eight bytes.
    pub const REAL: u8 = 1;
    /// Kind: an integer of eight bytes.
    pub const INT: u8 = 2;
    /// Kind: never written.
    pub const ROW: u8 = 3;
    /// Kind: a DECIMAL's precision, scale and binary form.
    pub const DECIMAL: u8 = 4;

    /// Returns true if an integer is unsigned.
    pub fn is_unsigned(&self) -> bool {
        self.flags.first().is_some_and(|flags| flags & 1 != 0)
    }
}

// size  field
//    4  size of name
//    *  name
//    1  not 0 for NULL, which ends the body
//    1  kind
//    4  collation
//    4  size of value
//    *  value
//  0-1  flags
impl<'a> EventBody<'a> for UserVar<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let name_size = cursor.u32()? as usize;
        let name = cursor.bytes(name_size)?;
        if cursor.u8()? != 0 {
            return Ok(Self { name, value: None });
        }
        let kind = cursor.u8()?;
        let collation = cursor.u32()?;
        let value_size = cursor.u32()? as usize;
        let bytes = cursor.bytes(value_size)?;
        let flags = cursor.take_rest();
        Ok(Self { name, value: Some(UserVarValue { kind, collation, bytes, flags }) })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let name_size = checked_number("size of a variable's name", self.name.len() as u64, u32::MAX)?;
        out.extend_from_slice(&name_size.to_le_bytes());
        out.extend_from_slice(self.name);
        let Some(value) = self.value else {
            out.push(1);
            return Ok(());
        };
        out.extend_from_slice(&[0, value.kind]);
        out.extend_from_slice(&value.collation.to_le_bytes());
        let value_size = checked_number("size of a variable's value", value.bytes.len() as u64, u32::MAX)?;
        out.extend_from_slice(&value_size.to_le_bytes());
        out.extend_from_slice(value.bytes);
        out.extend_from_slice(value.flags);
        Ok(())
    }
}
