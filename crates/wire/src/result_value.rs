//! Values of result sets, as text or in binary.

use crate::column_type;
use crate::date_time::DateTimeValue;
use crate::generic_packets::put_lenenc_bytes;
use crate::result_set::NULL;

/// Encoding of the rows of a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEncoding {
    /// Values as text: the response to a query.
    Text,
    /// Values in binary form: the response to running a prepared statement.
    Binary,
}

/// Value of a result set.
///
/// In binary rows, the column's type decides the encoding, and values must fit this type. Integers fit columns of
/// integers and of floating-point numbers. Dates and times fit columns of dates, and bytes fit columns of strings. All
/// values fit a column of type `VAR_STRING`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResultValue<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// DOUBLE. Shown as the shortest text with the same value.
    Double(f64),
    /// DATE, DATETIME or TIMESTAMP.
    DateTime(DateTimeValue),
    /// Text in the session's `character_set_results`, or bytes.
    Bytes(&'a [u8]),
}

/// First byte of a binary row.
const ROW: u8 = 0x00;
/// Number of unused bits at the start of the NULL bitmap.
const NULL_BITS_OFFSET: usize = 2;

impl ResultValue<'_> {
    /// Encodes the value in a text row.
    pub(crate) fn encode_text(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(NULL),
            Self::Bytes(bytes) => put_lenenc_bytes(out, bytes),
            Self::Int(number) => put_lenenc_bytes(out, number.to_string().as_bytes()),
            Self::UInt(number) => put_lenenc_bytes(out, number.to_string().as_bytes()),
            Self::Double(number) => put_lenenc_bytes(out, number.to_string().as_bytes()),
            Self::DateTime(value) => put_lenenc_bytes(out, value.to_string().as_bytes()),
        }
    }

    /// Encodes a binary row.
    // Source: "Binary Protocol Resultset Row" of the MySQL source documentation.
    // size  field
    //    1  0
    //    *  two unused bits, then one bit per column: 1 for NULL
    //    *  values that are not NULL
    pub(crate) fn encode_row(values: &[Self], column_types: &[u8], out: &mut Vec<u8>) {
        out.push(ROW);
        let nulls = out.len();
        out.resize(nulls + (values.len() + NULL_BITS_OFFSET).div_ceil(8), 0);
        for (number, (value, column_type)) in values.iter().zip(column_types).enumerate() {
            let bit = number + NULL_BITS_OFFSET;
            match value {
                Self::Null => out[nulls + bit / 8] |= 1 << (bit % 8),
                value => value.encode_binary(*column_type, out),
            }
        }
    }

    fn encode_binary(&self, column_type: u8, out: &mut Vec<u8>) {
        match column_type {
            column_type::TINY | column_type::BOOL => self.put_integer::<1>(out),
            column_type::SHORT | column_type::YEAR => self.put_integer::<2>(out),
            column_type::LONG | column_type::INT24 => self.put_integer::<4>(out),
            column_type::LONGLONG => self.put_integer::<8>(out),
            column_type::FLOAT => out.extend_from_slice(&(self.number() as f32).to_le_bytes()),
            column_type::DOUBLE => out.extend_from_slice(&self.number().to_le_bytes()),
            column_type::DATE | column_type::DATETIME | column_type::TIMESTAMP => match self {
                Self::DateTime(value) => value.encode(out),
                value => panic!("ours: {value:?} does not fit a column of dates"),
            },
            column_type::TIME => panic!("ours: no result has a column of TIME"),
            _ => self.encode_text(out),
        }
    }

    /// Appends the lowest `SIZE` bytes of an integer, which must fit in them.
    fn put_integer<const SIZE: usize>(&self, out: &mut Vec<u8>) {
        let wide = match self {
            Self::Int(number) => i128::from(*number),
            Self::UInt(number) => i128::from(*number),
            value => panic!("ours: {value:?} does not fit a column of integers"),
        };
        let range = -(1i128 << (8 * SIZE - 1))..1i128 << (8 * SIZE);
        assert!(range.contains(&wide), "ours: {wide} does not fit {SIZE} bytes");
        out.extend_from_slice(&wide.to_le_bytes()[..SIZE]);
    }

    fn number(&self) -> f64 {
        match self {
            Self::Int(number) => *number as f64,
            Self::UInt(number) => *number as f64,
            Self::Double(number) => *number,
            value => panic!("ours: {value:?} does not fit a column of numbers"),
        }
    }
}
