//! The text of one value, as `mysqlbinlog -v` writes it: a small shape a column, chosen once a table.

use binlog::{Column, ColumnType, Decimal};

use crate::json_text;
use crate::numbers::{
    put_exponential, put_four, put_general, put_i64, put_last, put_padded, put_two, put_u32, put_u64,
};
use crate::quote::put_quoted;

/// How a column's values are laid out and written: the few that most columns have, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Int8,
    Int16,
    Int24,
    Int32,
    Int64,
    /// CHAR, VARCHAR, BINARY, VARBINARY: one or two bytes of size in front.
    String1,
    String2,
    Date,
    Other(ColumnType),
}

/// A value could not be written. The text that says so has been; the rest of the event is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

impl Shape {
    /// Of a column's values.
    pub(crate) const fn of(column: &Column) -> Self {
        match column.column_type {
            ColumnType::TinyInt => Self::Int8,
            ColumnType::SmallInt => Self::Int16,
            ColumnType::MediumInt => Self::Int24,
            ColumnType::Int => Self::Int32,
            ColumnType::BigInt => Self::Int64,
            ColumnType::Char { size_max } | ColumnType::Varchar { size_max } if size_max < 256 => {
                Self::String1
            }
            ColumnType::Char { .. } | ColumnType::Varchar { .. } => Self::String2,
            ColumnType::Date => Self::Date,
            other => Self::Other(other),
        }
    }

    /// Appends the text of the value at the front of `bytes`, and returns the bytes behind it.
    #[inline]
    pub(crate) fn put<'a>(self, out: &mut Vec<u8>, bytes: &'a [u8]) -> Result<&'a [u8], Abandoned> {
        match self {
            Self::Int8 => {
                let ([value], rest) = take(out, bytes)?;
                put_signed(out, i64::from(value as i8), u64::from(value));
                Ok(rest)
            }
            Self::Int16 => {
                let (value, rest) = take(out, bytes)?;
                put_signed(out, i64::from(i16::from_le_bytes(value)), u64::from(u16::from_le_bytes(value)));
                Ok(rest)
            }
            Self::Int24 => {
                let ([a, b, c], rest) = take(out, bytes)?;
                let value = u32::from_le_bytes([a, b, c, 0]);
                put_signed(out, i64::from((value << 8) as i32 >> 8), u64::from(value));
                Ok(rest)
            }
            Self::Int32 => {
                let (value, rest) = take(out, bytes)?;
                put_signed(out, i64::from(i32::from_le_bytes(value)), u64::from(u32::from_le_bytes(value)));
                Ok(rest)
            }
            Self::Int64 => {
                let (value, rest) = take(out, bytes)?;
                put_signed(out, i64::from_le_bytes(value), u64::from_le_bytes(value));
                Ok(rest)
            }
            Self::Date => {
                let ([a, b, c], rest) = take(out, bytes)?;
                put_date(out, u32::from_le_bytes([a, b, c, 0]));
                Ok(rest)
            }
            Self::String1 => put_string::<1>(out, bytes),
            Self::String2 => put_string::<2>(out, bytes),
            Self::Other(column_type) => put_other(out, column_type, bytes),
        }
    }

    /// Does mysqlbinlog write values of this shape? Of other shapes it does not even write NULL.
    pub(crate) const fn is_known(self) -> bool {
        !matches!(
            self,
            Self::Other(
                ColumnType::Null
                    | ColumnType::Geometry { .. }
                    | ColumnType::TypedArray
                    | ColumnType::CompressedVarchar { .. }
                    | ColumnType::CompressedBlob { .. }
                    | ColumnType::Unknown
            )
        )
    }

    /// One of the columns that a partial update's bits count.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::Other(ColumnType::Json { .. }))
    }
}

/// The name that stands in the comment behind a value: `INT`, `VARSTRING(80)`; nothing for what mysqlbinlog does
/// not know.
pub(crate) fn put_type(out: &mut Vec<u8>, column: &Column) {
    let name: &[u8] = match column.column_type {
        ColumnType::TinyInt => b"TINYINT",
        ColumnType::SmallInt => b"SHORTINT",
        ColumnType::MediumInt => b"MEDIUMINT",
        ColumnType::Int => b"INT",
        ColumnType::BigInt => b"LONGINT",
        ColumnType::Float => b"FLOAT",
        ColumnType::Double => b"DOUBLE",
        ColumnType::OldTimestamp => b"TIMESTAMP",
        ColumnType::OldDateTime => b"DATETIME",
        ColumnType::OldTime => b"TIME",
        ColumnType::Date => b"DATE",
        ColumnType::Year => b"YEAR",
        ColumnType::Json { .. } => b"JSON",
        ColumnType::Enum { size: 1 } => b"ENUM(1 byte)",
        ColumnType::Enum { .. } => b"ENUM(2 bytes)",
        ColumnType::Blob { prefix: 1 } => b"TINYBLOB/TINYTEXT",
        ColumnType::Blob { prefix: 2 } => b"BLOB/TEXT",
        ColumnType::Blob { prefix: 3 } => b"MEDIUMBLOB/MEDIUMTEXT",
        ColumnType::Blob { .. } => b"LONGBLOB/LONGTEXT",
        ColumnType::Decimal { precision, scale } => {
            put_with_number(out, b"DECIMAL(", u32::from(precision), b",");
            return put_with_number(out, b"", u32::from(scale), b")");
        }
        ColumnType::Bit { bits } => return put_with_number(out, b"BIT(", u32::from(bits), b")"),
        ColumnType::Timestamp { fraction } => {
            return put_with_number(out, b"TIMESTAMP(", u32::from(fraction), b")");
        }
        ColumnType::DateTime { fraction } => {
            return put_with_number(out, b"DATETIME(", u32::from(fraction), b")");
        }
        ColumnType::Time { fraction } => return put_with_number(out, b"TIME(", u32::from(fraction), b")"),
        ColumnType::Set { size } => return put_with_number(out, b"SET(", u32::from(size), b" bytes)"),
        ColumnType::Varchar { size_max } => {
            return put_with_number(out, b"VARSTRING(", u32::from(size_max), b")");
        }
        ColumnType::Char { size_max } => return put_with_number(out, b"STRING(", u32::from(size_max), b")"),
        ColumnType::Vector { .. } => {
            return put_with_number(out, b"VECTOR(", column.dimension.unwrap_or_default(), b")");
        }
        _ => b"",
    };
    out.extend_from_slice(name);
}

fn put_with_number(out: &mut Vec<u8>, front: &[u8], number: u32, back: &[u8]) {
    out.extend_from_slice(front);
    put_u32(out, number);
    out.extend_from_slice(back);
}

/// The next `N` bytes, or the text that says that they are not there.
#[inline]
fn take<'a, const N: usize>(out: &mut Vec<u8>, bytes: &'a [u8]) -> Result<([u8; N], &'a [u8]), Abandoned> {
    match bytes.split_first_chunk() {
        Some((value, rest)) => Ok((*value, rest)),
        None => Err(put_truncated(out, bytes.len())),
    }
}

/// The next `size` bytes, or the text that says that they are not there.
#[inline]
fn take_slice<'a>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
    size: usize,
) -> Result<(&'a [u8], &'a [u8]), Abandoned> {
    bytes.split_at_checked(size).ok_or_else(|| put_truncated(out, bytes.len()))
}

/// Up to three bytes, big-endian, the highest bit being a sign.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().max(1) as u32;
    number_be(bytes) << unused >> unused
}

/// What a size of `prefix` bytes counts, or the text that says that it is not there.
#[inline]
pub(crate) fn take_sized<'a>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
    prefix: usize,
) -> Result<(&'a [u8], &'a [u8]), Abandoned> {
    let (size, rest) = take_slice(out, bytes, prefix)?;
    let size = number(size) as usize;
    rest.split_at_checked(size).ok_or_else(|| put_truncated(out, bytes.len()))
}

#[inline]
fn put_string<'a, const PREFIX: usize>(out: &mut Vec<u8>, bytes: &'a [u8]) -> Result<&'a [u8], Abandoned> {
    let (value, rest) = take_sized(out, bytes, PREFIX)?;
    put_quoted(out, value);
    Ok(rest)
}

/// The types that are not in every other row. Not inlined, so that the loop over a row stays small.
#[inline(never)]
fn put_other<'a>(out: &mut Vec<u8>, column_type: ColumnType, bytes: &'a [u8]) -> Result<&'a [u8], Abandoned> {
    let (value, rest) = match column_type {
        ColumnType::Blob { prefix } | ColumnType::Json { prefix } | ColumnType::Vector { prefix } => {
            take_sized(out, bytes, usize::from(prefix))?
        }
        other => take_slice(out, bytes, fixed_size(other))?,
    };
    match column_type {
        ColumnType::Float => put_float(out, f32::from_bits(number(value) as u32)),
        ColumnType::Double => put_general(out, f64::from_bits(number(value)), 20),
        ColumnType::Decimal { precision, scale } => put_decimal(out, value, precision, scale),
        ColumnType::Bit { bits } => put_bits(out, value, usize::from(bits)),
        ColumnType::OldTimestamp => put_i64(out, i64::from(number(value) as i32)),
        ColumnType::Timestamp { fraction } => put_timestamp(out, value, fraction),
        ColumnType::OldDateTime => put_old_datetime(out, number(value)),
        ColumnType::DateTime { fraction } => put_datetime(out, value, fraction),
        ColumnType::OldTime => put_old_time(out, number(value) as u32),
        ColumnType::Time { fraction } => put_time(out, value, fraction),
        ColumnType::Year => put_u64(out, number(value) + 1900),
        ColumnType::Enum { .. } => put_u64(out, number(value)),
        ColumnType::Set { .. } => put_bits(out, value, value.len() * 8),
        ColumnType::Blob { .. } => put_quoted(out, value),
        ColumnType::Json { .. } => json_text::put_document(out, value)?,
        ColumnType::Vector { .. } => put_vector(out, value),
        _ => return Err(Abandoned),
    }
    Ok(rest)
}

/// Bytes of a value without a size in front.
fn fixed_size(column_type: ColumnType) -> usize {
    match column_type {
        ColumnType::Year => 1,
        ColumnType::OldTime => 3,
        ColumnType::Float | ColumnType::OldTimestamp => 4,
        ColumnType::Double | ColumnType::OldDateTime => 8,
        ColumnType::Enum { size } | ColumnType::Set { size } => usize::from(size),
        ColumnType::Bit { bits } => usize::from(bits).div_ceil(8),
        ColumnType::Timestamp { fraction } => 4 + fraction_size(fraction),
        ColumnType::DateTime { fraction } => 5 + fraction_size(fraction),
        ColumnType::Time { fraction } => 3 + fraction_size(fraction),
        ColumnType::Decimal { precision, scale } => decimal_size(precision, scale),
        _ => 0,
    }
}

/// Says that a column's values cannot be written, or that this one would reach over the end of its event.
#[cold]
pub(crate) fn put_unknown(out: &mut Vec<u8>, column: &Column, is_null: bool, bytes: &[u8]) -> Abandoned {
    let size = match column.column_type {
        _ if is_null => 0,
        ColumnType::Null => 0,
        ColumnType::Geometry { prefix } => {
            let prefix = usize::from(prefix);
            bytes.get(..prefix).map_or(prefix, |size| prefix + number(size) as usize)
        }
        // What mysqlbinlog takes for the size of a type it does not know.
        _ => u32::MAX as usize,
    };
    if size > bytes.len() {
        return put_truncated(out, bytes.len());
    }
    let (code, meta) = (column.type_code, column.metadata);
    let text = format!("!! Don't know how to handle column type={code} meta={meta} ({meta:04x})\n");
    out.extend_from_slice(text.as_bytes());
    Abandoned
}

/// Says that a value reaches over the end of its event.
#[cold]
fn put_truncated(out: &mut Vec<u8>, left: usize) -> Abandoned {
    out.extend_from_slice(CORRUPTED);
    out.extend_from_slice(b"field data is truncated; there are only ");
    put_u64(out, left as u64);
    out.extend_from_slice(NOT_PRINTED);
    Abandoned
}

/// Says that bits in front of an image reach over the end of their event.
#[cold]
pub(crate) fn put_bits_truncated(out: &mut Vec<u8>, what: &str, size: usize, left: usize) -> Abandoned {
    out.extend_from_slice(CORRUPTED);
    out.extend_from_slice(what.as_bytes());
    out.extend_from_slice(b" size is set to ");
    put_u64(out, size as u64);
    out.extend_from_slice(b", but there are only ");
    put_u64(out, left as u64);
    out.extend_from_slice(NOT_PRINTED);
    Abandoned
}

const CORRUPTED: &[u8] = b"***Corrupted replication event was detected: ";
const NOT_PRINTED: &[u8] = b" bytes left of the event. Not printing the value***\n";

/// Up to eight bytes, little-endian.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let mut value = 0;
    for byte in bytes.iter().rev() {
        value = value << 8 | u64::from(*byte);
    }
    value
}

/// Up to eight bytes, big-endian.
fn number_be(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |value, byte| value << 8 | i64::from(*byte))
}

/// The logs do not say whether a column is unsigned (not where mysqlbinlog looks), so a number whose highest bit
/// is set is written both ways.
#[inline]
fn put_signed(out: &mut Vec<u8>, signed: i64, unsigned: u64) {
    if signed >= 0 {
        return put_u64(out, unsigned);
    }
    put_i64(out, signed);
    out.extend_from_slice(b" (");
    put_u64(out, unsigned);
    out.push(b')');
}

/// `%-20g`: six digits, filled up with spaces to twenty characters.
fn put_float(out: &mut Vec<u8>, value: f32) {
    let end = out.len() + 20;
    put_general(out, f64::from(value), 6);
    if out.len() < end {
        out.resize(end, b' ');
    }
}

fn put_bits(out: &mut Vec<u8>, bytes: &[u8], bits: usize) {
    out.extend_from_slice(b"b'");
    let mut skip = (8 - bits % 8) % 8;
    for byte in bytes {
        for bit in (0..8 - skip).rev() {
            out.push(b'0' + (byte >> bit & 1));
        }
        skip = 0;
    }
    out.push(b'\'');
}

fn put_vector(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'[');
    for (index, number) in bytes.as_chunks::<4>().0.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_exponential(out, f64::from(f32::from_le_bytes(*number)), 5);
    }
    out.push(b']');
}

fn decimal_size(precision: u8, scale: u8) -> usize {
    const LEFT_OVER: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let (whole, scale) = (usize::from(precision.saturating_sub(scale)), usize::from(scale));
    whole / 9 * 4 + LEFT_OVER[whole % 9] + scale / 9 * 4 + LEFT_OVER[scale % 9]
}

pub(crate) fn put_decimal(out: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) {
    match Decimal::new(bytes, precision, scale) {
        // Without a fraction, no zero is negative.
        Ok(_) if scale == 0 && is_negative_zero(bytes) => out.push(b'0'),
        Ok(decimal) => decimal.write(out),
        Err(_) => {
            let start = out.len();
            if put_loose_decimal(out, bytes, precision, scale).is_none() {
                // What mysqlbinlog makes of digits that are none.
                out.truncate(start);
                out.push(b'0');
            }
        }
    }
}

fn is_negative_zero(bytes: &[u8]) -> bool {
    bytes.split_first().is_some_and(|(first, rest)| *first == 0x7f && rest.iter().all(|byte| *byte == 0xff))
}

/// Digits in a group, but for the first whole and the last fractional one.
const GROUP: u8 = 9;

/// Bytes of a group, by its digits.
const GROUP_SIZES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The first number with one digit too many for a group.
const GROUP_END: u32 = 1_000_000_000;

/// A decimal with more digits in some group than there is place for: mysqlbinlog lets one too many pass in the first
/// group, and takes the last one's overflow for digits.
fn put_loose_decimal(out: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) -> Option<()> {
    let whole = precision.checked_sub(scale)?;
    let is_negative = bytes.first()? & 0x80 == 0;
    let mut bytes = bytes.to_vec();
    bytes[0] ^= 0x80;
    let mut rest = bytes.as_slice();
    let mut group = |digits: u8| {
        let (group, behind) = rest.split_at_checked(GROUP_SIZES[usize::from(digits)])?;
        rest = behind;
        let number = signed(group) as i32;
        Some(if is_negative { !number } else { number }.cast_unsigned())
    };
    if is_negative {
        out.push(b'-');
    }
    let start = out.len();
    let put_group = |out: &mut Vec<u8>, number: u32| match out.len() == start {
        true if number == 0 => {}
        true => put_u64(out, number.into()),
        false => put_padded(out, number.into(), usize::from(GROUP)),
    };
    let first = whole % GROUP;
    if first > 0 {
        let number = group(first)?;
        put_group(out, Some(number).filter(|number| *number < 10_u32.pow(u32::from(first) + 1))?);
    }
    for _ in 0..whole / GROUP {
        put_group(out, group(GROUP).filter(|number| *number < GROUP_END)?);
    }
    if out.len() == start {
        out.push(b'0');
    }
    if scale > 0 {
        out.push(b'.');
    }
    for _ in 0..scale / GROUP {
        put_padded(out, group(GROUP).filter(|number| *number < GROUP_END)?.into(), usize::from(GROUP));
    }
    let last = scale % GROUP;
    if last > 0 {
        let number = group(last)?.wrapping_mul(10_u32.pow(u32::from(GROUP - last)));
        let shown = out.len() + usize::from(last);
        put_padded(out, Some(number).filter(|number| *number < GROUP_END)?.into(), usize::from(GROUP));
        out.truncate(shown);
    }
    Some(())
}

fn fraction_size(decimals: u8) -> usize {
    usize::from(decimals).div_ceil(2)
}

/// Microseconds in one unit of a stored fraction.
const fn fraction_unit(decimals: u8) -> i64 {
    match decimals {
        1 | 2 => 10_000,
        3 | 4 => 100,
        _ => 1,
    }
}

/// `.123`: the first `decimals` digits of so many microseconds. Corrupt ones have more than six; the last are shown.
pub(crate) fn put_fraction(out: &mut Vec<u8>, microseconds: u64, decimals: u8) {
    if decimals == 0 {
        return;
    }
    out.push(b'.');
    let dropped = 6_u32.saturating_sub(u32::from(decimals));
    put_last(out, microseconds / 10_u64.pow(dropped), usize::from(decimals));
}

fn put_timestamp(out: &mut Vec<u8>, bytes: &[u8], decimals: u8) {
    let (seconds, fraction) = bytes.split_at(4);
    put_u64(out, number_be(seconds) as u64);
    // Corrupt fractions show how mysqlbinlog reads them: one byte without a sign, more with one.
    let fraction = if fraction.len() == 1 { number_be(fraction) } else { signed(fraction) };
    let microseconds = (fraction * fraction_unit(decimals)) as u32;
    put_fraction(out, u64::from(microseconds), decimals);
}

/// `YYYYMMDDhhmmss` as a number.
fn put_old_datetime(out: &mut Vec<u8>, value: u64) {
    let (date, time) = (value / 1_000_000, (value % 1_000_000) as u32);
    put_padded(out, date / 10_000, 4);
    for (mark, part) in [
        (b'-', (date / 100 % 100) as u32),
        (b'-', (date % 100) as u32),
        (b' ', time / 10_000),
        (b':', time / 100),
        (b':', time),
    ] {
        out.push(mark);
        put_two(out, part);
    }
}

fn put_datetime(out: &mut Vec<u8>, bytes: &[u8], decimals: u8) {
    let (seconds, fraction) = bytes.split_at(5);
    let seconds = number_be(seconds) - 0x80_0000_0000;
    let packed = (seconds << 24) + signed(fraction) * fraction_unit(decimals);
    out.push(b'\'');
    match packed {
        // It is its own opposite, and so has no size.
        i64::MIN => {
            out.extend_from_slice(b"0014-10-00 00:00:00");
            put_fraction(out, 0, decimals);
        }
        packed => put_packed_datetime(out, packed, decimals),
    }
    out.push(b'\'');
}

/// A date and time from the number that the server computes with.
///
/// | bits, from the lowest | field |
/// |---|---|
/// | 24 | microseconds |
/// | 6, 6, 5 | second, minute, hour |
/// | 5 | day |
/// | the rest | year times 13, plus month |
pub(crate) fn put_packed_datetime(out: &mut Vec<u8>, packed: i64, decimals: u8) {
    put_packed_date(out, packed);
    let packed = packed.unsigned_abs();
    for (mark, part) in [(b' ', packed >> 36 & 31), (b':', packed >> 30 & 63), (b':', packed >> 24 & 63)] {
        out.push(mark);
        put_two(out, part as u32);
    }
    put_fraction(out, packed & 0xff_ffff, decimals);
}

/// The date alone of what [`put_packed_datetime`] writes.
pub(crate) fn put_packed_date(out: &mut Vec<u8>, packed: i64) {
    let packed = packed.unsigned_abs();
    let (month, day) = (packed >> 46, packed >> 41 & 31);
    put_last(out, month / 13, 4);
    for part in [month % 13, day] {
        out.push(b'-');
        put_two(out, part as u32);
    }
}

/// `hhmmss` as a number.
fn put_old_time(out: &mut Vec<u8>, value: u32) {
    out.push(b'\'');
    put_padded(out, u64::from(value / 10_000), 2);
    for part in [value / 100, value] {
        out.push(b':');
        put_two(out, part);
    }
    out.push(b'\'');
}

/// The smallest number that a TIME's bytes can be.
const TIME_MIN: i64 = -(1 << 47);

fn put_time(out: &mut Vec<u8>, bytes: &[u8], decimals: u8) {
    let packed = match bytes.len() {
        // Seconds and fraction are one number.
        6 => number_be(bytes) - 0x8000_0000_0000,
        size => {
            let (seconds, fraction) = bytes.split_at(3);
            let mut seconds = number_be(seconds) - 0x80_0000;
            let mut fraction = number_be(fraction);
            if seconds < 0 && fraction != 0 {
                // A negative time's fraction counts up towards it.
                seconds += 1;
                fraction -= 1 << (8 * (size - 3));
            }
            (seconds << 24) + fraction * fraction_unit(decimals)
        }
    };
    // The smallest has no opposite.
    let packed = if packed == TIME_MIN { !TIME_MIN } else { packed };
    out.push(b'\'');
    put_packed_time(out, packed, decimals);
    out.push(b'\'');
}

/// A time from the number that the server computes with.
///
/// | bits, from the lowest | field |
/// |---|---|
/// | 24 | microseconds |
/// | 6, 6, the rest | second, minute, hour |
pub(crate) fn put_packed_time(out: &mut Vec<u8>, packed: i64, decimals: u8) {
    if packed < 0 {
        out.push(b'-');
    }
    let packed = packed.unsigned_abs();
    put_padded(out, packed >> 36, 2);
    for part in [packed >> 30 & 63, packed >> 24 & 63] {
        out.push(b':');
        put_two(out, part as u32);
    }
    put_fraction(out, packed & 0xff_ffff, decimals);
}

/// A DATE: five bits of day, four of month, the year above; written with colons.
#[inline]
fn put_date(out: &mut Vec<u8>, value: u32) {
    let year = value >> 9;
    out.push(b'\'');
    put_four(out, year);
    if year > 9999 {
        // What mysqlbinlog makes of a year of five digits.
        let first = out.len() - 4;
        out[first] = b'0' + (year / 1000) as u8;
    }
    out.push(b':');
    put_two(out, value >> 5 & 15);
    out.push(b':');
    put_two(out, value & 31);
    out.push(b'\'');
}
