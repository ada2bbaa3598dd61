//! End of the first phase of an XA transaction.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};

/// End of the first phase of an XA transaction, or of a transaction committed in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct XaPrepare<'a> {
    /// Not 0 for `XA COMMIT … ONE PHASE`.
    pub one_phase: u8,
    /// Identifier of the XA transaction.
    pub xid: XaXid<'a>,
    /// Bytes after the identifier; no server writes any.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

/// Identifier of an XA transaction, displayed as in MySQL: `X'67',X'62',1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaXid<'a> {
    /// Number of the format.
    pub format_id: i32,
    /// Global transaction identifier, at most 64 bytes.
    pub gtrid: &'a [u8],
    /// Branch qualifier, at most 64 bytes.
    pub bqual: &'a [u8],
}

impl fmt::Display for XaXid<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [self.gtrid, self.bqual] {
            out.write_str("X'")?;
            part.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            out.write_str("',")?;
        }
        // MySQL shows the number as unsigned.
        write!(out, "{}", self.format_id.cast_unsigned())
    }
}

// size  field
//    1  one_phase
//    4  format_id
//    4  size of gtrid
//    4  size of bqual
//    *  gtrid
//    *  bqual
impl<'a> EventBody<'a> for XaPrepare<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let one_phase = cursor.u8()?;
        let format_id = cursor.u32()?.cast_signed();
        let gtrid_size = part_size(cursor)?;
        let bqual_size = part_size(cursor)?;
        let gtrid = cursor.bytes(gtrid_size)?;
        let bqual = cursor.bytes(bqual_size)?;
        Ok(Self { one_phase, xid: XaXid { format_id, gtrid, bqual }, rest: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(self.one_phase);
        out.extend_from_slice(&self.xid.format_id.to_le_bytes());
        for part in [self.xid.gtrid, self.xid.bqual] {
            let size = checked_number(PART_SIZE, part.len() as u64, PART_SIZE_MAX)?;
            out.extend_from_slice(&size.to_le_bytes());
        }
        out.extend_from_slice(self.xid.gtrid);
        out.extend_from_slice(self.xid.bqual);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

const PART_SIZE: &str = "size of an XID's part";

/// Maximum size of each part of an identifier: the limit of the XA standard.
const PART_SIZE_MAX: u32 = 64;

fn part_size(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    let here = cursor.clone();
    let size = cursor.u32()?;
    if size > PART_SIZE_MAX {
        let (found, max) = (u64::from(size), u64::from(PART_SIZE_MAX));
        return Err(here.error(DecodeReason::OutOfRange { field: PART_SIZE, found, max }));
    }
    Ok(size as usize)
}
