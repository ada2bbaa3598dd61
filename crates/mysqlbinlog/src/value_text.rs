//! The text of a value, as `mysqlbinlog -v` writes it.

use binlog::{Column, ColumnType, Decimal};
use sql::numbers::{
    put_exponential, put_four, put_general, put_i64, put_last, put_padded, put_two, put_u32, put_u64,
};

use crate::json_text;
use crate::quote::put_quoted;
use crate::unwritable_value::UnwritableValue;

/// Layout of a column's values, chosen once per table. The most frequent types have their own variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueShape {
    Int8,
    Int16,
    Int24,
    Int32,
    Int64,
    /// CHAR, VARCHAR, BINARY, VARBINARY, with a size of one or two bytes.
    String1,
    String2,
    Date,
    Other(ColumnType),
}

impl ValueShape {
    /// Returns the layout of a column's values.
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

    /// Appends the text of the value at the start of `bytes`, and returns the bytes after it.
    #[inline]
    pub(crate) fn put<'a>(self, out: &mut Vec<u8>, bytes: &'a [u8]) -> Result<&'a [u8], UnwritableValue> {
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

    /// Returns whether mysqlbinlog can write the type. Of other types, it does not even write NULL.
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

    /// Returns whether the bits of a partial update count this column.
    pub(crate) const fn is_json(self) -> bool {
        matches!(self, Self::Other(ColumnType::Json { .. }))
    }
}

/// Appends the type's name in mysqlbinlog's comments: `INT`, `VARSTRING(80)`. Appends nothing for a type that
/// mysqlbinlog does not know.
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

/// Returns the next `N` bytes, or appends the error that they are missing.
#[inline]
fn take<'a, const N: usize>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
) -> Result<([u8; N], &'a [u8]), UnwritableValue> {
    match bytes.split_first_chunk() {
        Some((value, rest)) => Ok((*value, rest)),
        None => Err(put_truncated(out, bytes.len())),
    }
}

/// Returns the next `size` bytes, or appends the error that they are missing.
#[inline]
fn take_slice<'a>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
    size: usize,
) -> Result<(&'a [u8], &'a [u8]), UnwritableValue> {
    bytes.split_at_checked(size).ok_or_else(|| put_truncated(out, bytes.len()))
}

/// Reads up to three bytes as a signed big-endian number.
fn signed_be(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().max(1) as u32;
    number_be(bytes) << unused >> unused
}

/// Reads a size of `prefix` bytes and the bytes that it counts, or appends the error that they are missing.
#[inline]
pub(crate) fn take_sized<'a>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
    prefix: usize,
) -> Result<(&'a [u8], &'a [u8]), UnwritableValue> {
    let (size, rest) = take_slice(out, bytes, prefix)?;
    let size = number_le(size) as usize;
    rest.split_at_checked(size).ok_or_else(|| put_truncated(out, bytes.len()))
}

#[inline]
fn put_string<'a, const PREFIX: usize>(
    out: &mut Vec<u8>,
    bytes: &'a [u8],
) -> Result<&'a [u8], UnwritableValue> {
    let (value, rest) = take_sized(out, bytes, PREFIX)?;
    put_quoted(out, value);
    Ok(rest)
}

/// Appends a value of a less frequent type. Not inlined, to keep the loop over a row small.
#[inline(never)]
fn put_other<'a>(
    out: &mut Vec<u8>,
    column_type: ColumnType,
    bytes: &'a [u8],
) -> Result<&'a [u8], UnwritableValue> {
    let (value, rest) = match column_type {
        ColumnType::Blob { prefix } | ColumnType::Json { prefix } | ColumnType::Vector { prefix } => {
            take_sized(out, bytes, usize::from(prefix))?
        }
        other => take_slice(out, bytes, fixed_size(other))?,
    };
    match column_type {
        ColumnType::Float => put_float(out, f32::from_bits(number_le(value) as u32)),
        ColumnType::Double => put_general(out, f64::from_bits(number_le(value)), 20),
        ColumnType::Decimal { precision, scale } => put_decimal(out, value, precision, scale),
        ColumnType::Bit { bits } => put_bits(out, value, usize::from(bits)),
        ColumnType::OldTimestamp => put_i64(out, i64::from(number_le(value) as i32)),
        ColumnType::Timestamp { fraction } => put_timestamp(out, value, fraction),
        ColumnType::OldDateTime => put_old_datetime(out, number_le(value)),
        ColumnType::DateTime { fraction } => put_datetime(out, value, fraction),
        ColumnType::OldTime => put_old_time(out, number_le(value) as u32),
        ColumnType::Time { fraction } => put_time(out, value, fraction),
        ColumnType::Year => put_u64(out, number_le(value) + 1900),
        ColumnType::Enum { .. } => put_u64(out, number_le(value)),
        ColumnType::Set { .. } => put_bits(out, value, value.len() * 8),
        ColumnType::Blob { .. } => put_quoted(out, value),
        ColumnType::Json { .. } => json_text::put_document(out, value)?,
        ColumnType::Vector { .. } => put_vector(out, value),
        _ => return Err(UnwritableValue),
    }
    Ok(rest)
}

/// Returns the size of a value without a size prefix, in bytes.
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

/// Appends the error that the column's type is unknown, or that the value extends beyond the end of the event.
#[cold]
pub(crate) fn put_unknown(
    out: &mut Vec<u8>,
    column: &Column,
    is_null: bool,
    bytes: &[u8],
) -> UnwritableValue {
    let size = match column.column_type {
        _ if is_null => 0,
        ColumnType::Null => 0,
        ColumnType::Geometry { prefix } => {
            let prefix = usize::from(prefix);
            bytes.get(..prefix).map_or(prefix, |size| prefix + number_le(size) as usize)
        }
        // Size that mysqlbinlog assumes for an unknown type.
        _ => u32::MAX as usize,
    };
    if size > bytes.len() {
        return put_truncated(out, bytes.len());
    }
    let (code, meta) = (column.type_code, column.metadata);
    let text = format!("!! Don't know how to handle column type={code} meta={meta} ({meta:04x})\n");
    out.extend_from_slice(text.as_bytes());
    UnwritableValue
}

/// Appends the error that a value extends beyond the end of the event.
#[cold]
fn put_truncated(out: &mut Vec<u8>, left: usize) -> UnwritableValue {
    out.extend_from_slice(CORRUPTED);
    out.extend_from_slice(b"field data is truncated; there are only ");
    put_u64(out, left as u64);
    out.extend_from_slice(NOT_PRINTED);
    UnwritableValue
}

/// Appends the error that the bits before an image extend beyond the end of the event.
#[cold]
pub(crate) fn put_bits_truncated(out: &mut Vec<u8>, what: &str, size: usize, left: usize) -> UnwritableValue {
    out.extend_from_slice(CORRUPTED);
    out.extend_from_slice(what.as_bytes());
    out.extend_from_slice(b" size is set to ");
    put_u64(out, size as u64);
    out.extend_from_slice(b", but there are only ");
    put_u64(out, left as u64);
    out.extend_from_slice(NOT_PRINTED);
    UnwritableValue
}

const CORRUPTED: &[u8] = b"***Corrupted replication event was detected: ";
const NOT_PRINTED: &[u8] = b" bytes left of the event. Not printing the value***\n";

/// Reads up to eight bytes as a little-endian number.
#[inline]
fn number_le(bytes: &[u8]) -> u64 {
    let mut value = 0;
    for byte in bytes.iter().rev() {
        value = value << 8 | u64::from(*byte);
    }
    value
}

/// Reads up to eight bytes as a big-endian number.
fn number_be(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |value, byte| value << 8 | i64::from(*byte))
}

/// Appends a number, as signed and unsigned if its highest bit is set: mysqlbinlog does not look at the sign in the
/// table map.
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

/// Appends a number as `%-20g`: six digits, padded with spaces to twenty characters.
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
        // Zero without a fraction has no sign.
        Ok(_) if scale == 0 && is_negative_zero(bytes) => out.push(b'0'),
        Ok(decimal) => decimal.write(out),
        Err(_) => {
            let start = out.len();
            if put_loose_decimal(out, bytes, precision, scale).is_none() {
                // mysqlbinlog's text for invalid digits.
                out.truncate(start);
                out.push(b'0');
            }
        }
    }
}

fn is_negative_zero(bytes: &[u8]) -> bool {
    bytes.split_first().is_some_and(|(first, rest)| *first == 0x7f && rest.iter().all(|byte| *byte == 0xff))
}

/// Digits per group, except the first group of the integer part and the last of the fraction.
const GROUP_DIGITS: u8 = 9;

/// Size of a group by its number of digits, in bytes.
const GROUP_SIZES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The first number with too many digits for a group.
const GROUP_VALUE_END: u32 = 1_000_000_000;

/// Appends a decimal with too many digits in some group. mysqlbinlog allows one digit too many in the first group, and
/// prints the overflow of the last one.
fn put_loose_decimal(out: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) -> Option<()> {
    let whole = precision.checked_sub(scale)?;
    let is_negative = bytes.first()? & 0x80 == 0;
    let mut bytes = bytes.to_vec();
    bytes[0] ^= 0x80;
    let mut rest = bytes.as_slice();
    let mut group = |digits: u8| {
        let (group, after) = rest.split_at_checked(GROUP_SIZES[usize::from(digits)])?;
        rest = after;
        let number = signed_be(group) as i32;
        Some(if is_negative { !number } else { number }.cast_unsigned())
    };
    if is_negative {
        out.push(b'-');
    }
    let start = out.len();
    let put_group = |out: &mut Vec<u8>, number: u32| match out.len() == start {
        true if number == 0 => {}
        true => put_u64(out, number.into()),
        false => put_padded(out, number.into(), usize::from(GROUP_DIGITS)),
    };
    let first = whole % GROUP_DIGITS;
    if first > 0 {
        let number = group(first)?;
        put_group(out, Some(number).filter(|number| *number < 10_u32.pow(u32::from(first) + 1))?);
    }
    for _ in 0..whole / GROUP_DIGITS {
        put_group(out, group(GROUP_DIGITS).filter(|number| *number < GROUP_VALUE_END)?);
    }
    if out.len() == start {
        out.push(b'0');
    }
    if scale > 0 {
        out.push(b'.');
    }
    for _ in 0..scale / GROUP_DIGITS {
        put_padded(
            out,
            group(GROUP_DIGITS).filter(|number| *number < GROUP_VALUE_END)?.into(),
            usize::from(GROUP_DIGITS),
        );
    }
    let last = scale % GROUP_DIGITS;
    if last > 0 {
        let number = group(last)?.wrapping_mul(10_u32.pow(u32::from(GROUP_DIGITS - last)));
        let shown = out.len() + usize::from(last);
        put_padded(
            out,
            Some(number).filter(|number| *number < GROUP_VALUE_END)?.into(),
            usize::from(GROUP_DIGITS),
        );
        out.truncate(shown);
    }
    Some(())
}

fn fraction_size(decimals: u8) -> usize {
    usize::from(decimals).div_ceil(2)
}

/// Returns the number of microseconds in one unit of a stored fraction.
const fn fraction_unit(decimals: u8) -> i64 {
    match decimals {
        1 | 2 => 10_000,
        3 | 4 => 100,
        _ => 1,
    }
}

/// Appends `.123`: the first `decimals` digits of the microseconds. Corrupt values have more than six digits; then the
/// last ones.
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
    // mysqlbinlog reads corrupt fractions of one byte as unsigned, longer ones as signed.
    let fraction = if fraction.len() == 1 { number_be(fraction) } else { signed_be(fraction) };
    let microseconds = (fraction * fraction_unit(decimals)) as u32;
    put_fraction(out, u64::from(microseconds), decimals);
}

/// Appends a date and time stored as the number `YYYYMMDDhhmmss`.
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
    let packed = (seconds << 24) + signed_be(fraction) * fraction_unit(decimals);
    out.push(b'\'');
    match packed {
        // This number has no absolute value.
        i64::MIN => {
            out.extend_from_slice(b"0014-10-00 00:00:00");
            put_fraction(out, 0, decimals);
        }
        packed => put_packed_datetime(out, packed, decimals),
    }
    out.push(b'\'');
}

/// Appends a date and time in the server's packed format.
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

/// Appends the date of a packed date and time.
pub(crate) fn put_packed_date(out: &mut Vec<u8>, packed: i64) {
    let packed = packed.unsigned_abs();
    let (month, day) = (packed >> 46, packed >> 41 & 31);
    put_last(out, month / 13, 4);
    for part in [month % 13, day] {
        out.push(b'-');
        put_two(out, part as u32);
    }
}

/// Appends a time stored as the number `hhmmss`.
fn put_old_time(out: &mut Vec<u8>, value: u32) {
    out.push(b'\'');
    put_padded(out, u64::from(value / 10_000), 2);
    for part in [value / 100, value] {
        out.push(b':');
        put_two(out, part);
    }
    out.push(b'\'');
}

/// The smallest number that a TIME's bytes can represent.
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
                // The fraction of a negative time counts up towards zero.
                seconds += 1;
                fraction -= 1 << (8 * (size - 3));
            }
            (seconds << 24) + fraction * fraction_unit(decimals)
        }
    };
    // The smallest number has no opposite.
    let packed = if packed == TIME_MIN { !TIME_MIN } else { packed };
    out.push(b'\'');
    put_packed_time(out, packed, decimals);
    out.push(b'\'');
}

/// Appends a time in the server's packed format.
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

/// Appends a DATE, with colons. Five bits are the day, four the month, the rest the year.
#[inline]
fn put_date(out: &mut Vec<u8>, value: u32) {
    let year = value >> 9;
    out.push(b'\'');
    put_four(out, year);
    if year > 9999 {
        // mysqlbinlog's text for a year of five digits.
        let first = out.len() - 4;
        out[first] = b'0' + (year / 1000) as u8;
    }
    out.push(b':');
    put_two(out, value >> 5 & 15);
    out.push(b':');
    put_two(out, value & 31);
    out.push(b'\'');
}
