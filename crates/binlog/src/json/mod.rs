//! JSON documents as MySQL stores them.
//!
//! | size | field |
//! |---|---|
//! | 1 | type |
//! | * | value |
//!
//! | type | value |
//! |---|---|
//! | 0, 1 | object, with fields of 2 or 4 bytes |
//! | 2, 3 | array, with fields of 2 or 4 bytes |
//! | 4 | literal (1): 0 null, 1 true, 2 false |
//! | 5, 6 | integer (2), signed or unsigned |
//! | 7, 8 | integer (4), signed or unsigned |
//! | 9, 10 | integer (8), signed or unsigned |
//! | 11 | double (8) |
//! | 12 | string: size, then UTF-8 |
//! | 15 | value of another column type: type code (1), size, then the value, mostly in the column's stored form |
//!
//! The size of a string has 7 bits per byte, low bits first; the high bit means that another byte follows.

mod changes;
mod chunked_list;
mod edit;
mod escape;
mod number;
mod path;
mod text;

use crate::cursor::Cursor;
use crate::decimal::Decimal;
use crate::error::{DecodeError, DecodeReason};
use crate::temporal::{Date, DateTime, Time};

pub use self::changes::{JsonChange, JsonChangeKind, JsonChanges};
pub use self::escape::{JsonHexDigits, put_json_escaped, put_json_string};
pub use self::path::JsonPathLeg;
pub use self::text::JsonQuotes;

/// Maximum depth of a document, as on servers.
const DEPTH_MAX: usize = 100;

/// A JSON document in stored form. An empty slice means `null`.
///
/// ```
/// use bintide_binlog::{JsonDocument, JsonQuotes};
///
/// let document = JsonDocument::new(b"\x02\x01\x00\x08\x00\x05\xff\xff\x00");
/// let mut text = Vec::new();
/// document.write(JsonQuotes::Always, &mut text)?;
/// assert_eq!(text, b"[-1]");
/// # Ok::<(), bintide_binlog::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonDocument<'a> {
    bytes: &'a [u8],
}

/// Any value in a JSON document.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum JsonValue<'a> {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Double(f64),
    /// A string: UTF-8, unless corrupt.
    String(&'a [u8]),
    /// Array.
    Array(JsonContainer<'a>),
    /// Object.
    Object(JsonContainer<'a>),
    /// A DECIMAL.
    Decimal(Decimal<'a>),
    /// A DATE.
    Date(Date),
    /// A TIME.
    Time(Time),
    /// A DATETIME or TIMESTAMP.
    DateTime(DateTime),
    /// A value of any other column type.
    Opaque {
        /// Type code of the column.
        type_code: u8,
        /// Bytes in the column's stored form.
        bytes: &'a [u8],
    },
}

impl<'a> JsonDocument<'a> {
    /// Wraps a document in stored form. Nothing is checked yet.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the stored bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the outermost value.
    ///
    /// # Errors
    ///
    /// Fails if the value is invalid. Nested values are checked when they are read.
    pub fn root(&self) -> Result<JsonValue<'a>, DecodeError> {
        match self.part()? {
            Some(part) => part.value(),
            None => Ok(JsonValue::Null),
        }
    }

    /// Checks all values of the document.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid, overlaps another or reaches beyond its container, or if the document is nested
    /// deeper than servers allow.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.write(JsonQuotes::Always, &mut Vec::new())
    }

    fn part(&self) -> Result<Option<JsonPart<'a>>, DecodeError> {
        match self.bytes {
            [] => Ok(None),
            [type_code, bytes @ ..] => Ok(Some(JsonPart { type_code: *type_code, bytes, offset: 1 })),
        }
    }
}

/// A value that is not decoded yet.
#[derive(Clone, Copy, Debug)]
struct JsonPart<'a> {
    type_code: u8,
    /// Bytes from the start of the value to the limit of its container.
    bytes: &'a [u8],
    /// Offset of the value in the document.
    offset: usize,
}

/// Width of a container's fields: 2 or 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldWidth {
    Small,
    Large,
}

impl FieldWidth {
    const fn size(self) -> usize {
        match self {
            Self::Small => 2,
            Self::Large => 4,
        }
    }

    const fn max(self) -> usize {
        match self {
            Self::Small => u16::MAX as usize,
            Self::Large => u32::MAX as usize,
        }
    }

    fn read(self, cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
        match self {
            Self::Small => cursor.u16().map(usize::from),
            Self::Large => cursor.u32().map(|field| field as usize),
        }
    }

    fn put(self, out: &mut Vec<u8>, field: usize) {
        out.extend_from_slice(&field.to_le_bytes()[..self.size()]);
    }

    /// Returns true if values of this type are stored inline, in place of their offset.
    const fn stores_inline(self, type_code: u8) -> bool {
        match self {
            Self::Small => matches!(type_code, 4..=6),
            Self::Large => matches!(type_code, 4..=8),
        }
    }
}

impl<'a> JsonPart<'a> {
    fn cursor(&self) -> Cursor<'a> {
        Cursor::at(self.bytes, self.offset)
    }

    fn value(&self) -> Result<JsonValue<'a>, DecodeError> {
        let mut cursor = self.cursor();
        Ok(match self.type_code {
            0..=3 => {
                let container = JsonContainer::new(self)?;
                match container.is_object {
                    true => JsonValue::Object(container),
                    false => JsonValue::Array(container),
                }
            }
            4 => match cursor.u8()? {
                0 => JsonValue::Null,
                1 => JsonValue::Bool(true),
                2 => JsonValue::Bool(false),
                literal => {
                    let (found, max) = (u64::from(literal), 2);
                    let reason = DecodeReason::OutOfRange { field: "JSON literal", found, max };
                    return Err(DecodeError::new(self.offset, reason));
                }
            },
            5 => JsonValue::Int(i64::from(cursor.u16()? as i16)),
            6 => JsonValue::UInt(u64::from(cursor.u16()?)),
            7 => JsonValue::Int(i64::from(cursor.u32()? as i32)),
            8 => JsonValue::UInt(u64::from(cursor.u32()?)),
            9 => JsonValue::Int(cursor.i64()?),
            10 => JsonValue::UInt(cursor.u64()?),
            11 => JsonValue::Double(f64::from_le_bytes(cursor.array()?)),
            12 => {
                let size = string_size(&mut cursor)?;
                JsonValue::String(cursor.bytes(size)?)
            }
            15 => {
                let type_code = cursor.u8()?;
                let size = string_size(&mut cursor)?;
                let offset = cursor.offset();
                opaque(type_code, Cursor::at(cursor.bytes(size)?, offset))?
            }
            type_code => {
                let expected = "0 to 12, or 15";
                let found = u64::from(type_code);
                let reason = DecodeReason::Unexpected { field: "JSON type", found, expected };
                return Err(DecodeError::new(self.offset.saturating_sub(1), reason));
            }
        })
    }

    /// Returns the size of the value in bytes.
    fn size(&self) -> Result<usize, DecodeError> {
        let mut cursor = self.cursor();
        Ok(match self.type_code {
            0..=3 => JsonContainer::new(self)?.bytes.len(),
            4 => 1,
            5 | 6 => 2,
            7 | 8 => 4,
            9..=11 => 8,
            12 | 15 => {
                if self.type_code == 15 {
                    cursor.u8()?;
                }
                let size = string_size(&mut cursor)?;
                cursor.bytes(size)?;
                cursor.offset() - self.offset
            }
            _ => 0,
        })
    }
}

/// Reads the size at the start of a string.
fn string_size(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    let offset = cursor.offset();
    let mut size = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = cursor.u8()?;
        size |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let max = u64::from(u32::MAX);
            return match u32::try_from(size) {
                Ok(size) => Ok(size as usize),
                Err(_) => {
                    let reason =
                        DecodeReason::OutOfRange { field: "size of a JSON string", found: size, max };
                    Err(DecodeError::new(offset, reason))
                }
            };
        }
    }
    let expected = "an encoding of at most five bytes";
    Err(DecodeError::new(
        offset,
        DecodeReason::Unexpected { field: "size of a JSON string", found: size, expected },
    ))
}

// type  value
//    7  TIMESTAMP: as DATETIME
//   10  DATE: as DATETIME
//   11  TIME: a packed number (8)
//   12  DATETIME: a packed number (8)
//  246  DECIMAL: precision (1), scale (1), then the column's stored form
fn opaque<'a>(type_code: u8, mut cursor: Cursor<'a>) -> Result<JsonValue<'a>, DecodeError> {
    let value = match type_code {
        7 | 12 => JsonValue::DateTime(DateTime::from_packed(cursor.i64()?)),
        10 => JsonValue::Date(DateTime::from_packed(cursor.i64()?).date),
        11 => JsonValue::Time(Time::from_packed(cursor.i64()?)),
        246 => {
            let offset = cursor.offset();
            let [precision, scale] = cursor.array()?;
            let bytes = cursor.take_rest();
            let decimal = Decimal::new(bytes, precision, scale);
            JsonValue::Decimal(decimal.map_err(|error| error.within(offset + 2))?)
        }
        _ => JsonValue::Opaque { type_code, bytes: cursor.take_rest() },
    };
    cursor.finish()?;
    Ok(value)
}

/// An array or an object.
///
/// | size | field |
/// |---|---|
/// | 2 or 4 | count |
/// | 2 or 4 | size of the whole container in bytes |
/// | (4 or 6) * count | objects only: offset of each name (2 or 4), its size (2) |
/// | (3 or 5) * count | type of each value (1), its offset or the inline value (2 or 4) |
/// | * | names, then values |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonContainer<'a> {
    /// The whole container.
    bytes: &'a [u8],
    /// Offset of the container in the document.
    offset: usize,
    count: usize,
    width: FieldWidth,
    is_object: bool,
}

impl<'a> JsonContainer<'a> {
    fn new(part: &JsonPart<'a>) -> Result<Self, DecodeError> {
        let width = if part.type_code & 1 == 0 { FieldWidth::Small } else { FieldWidth::Large };
        let mut cursor = part.cursor();
        let count = width.read(&mut cursor)?;
        let size = width.read(&mut cursor)?;
        let Some(bytes) = part.bytes.get(..size) else {
            let found = part.bytes.len();
            return Err(part.cursor().error(DecodeReason::Short { expected: size as u64, found }));
        };
        let is_object = part.type_code < 2;
        let container = Self { bytes, offset: part.offset, count, width, is_object };
        // Computed in 64 bits: a count of 2^32 - 1 must not wrap.
        let entries = count as u64 * container.entry_size() as u64;
        let expected = 2 * width.size() as u64 + entries;
        if expected > size as u64 {
            return Err(DecodeError::new(part.offset, DecodeReason::Short { expected, found: size }));
        }
        Ok(container)
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no values.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value at `index`.
    ///
    /// # Errors
    ///
    /// Fails if there is no value at `index`, or if it is invalid.
    pub fn value(&self, index: usize) -> Result<JsonValue<'a>, DecodeError> {
        self.part(index)?.value()
    }

    /// Returns the name of the object member at `index`. Members are sorted by the size of the name, then by its
    /// bytes.
    ///
    /// # Errors
    ///
    /// Fails if there is no member at `index`, or if its name lies outside of the object.
    pub fn name(&self, index: usize) -> Result<&'a [u8], DecodeError> {
        self.check_index(index)?;
        let mut entry = self.entry(2 * self.width.size() + index * self.name_entry_size())?;
        let start = self.width.read(&mut entry)?;
        let size = usize::from(entry.u16()?);
        self.inside(start)?.bytes(size)
    }

    /// Returns the values in order; for objects, with their names.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = Result<(Option<&'a [u8]>, JsonValue<'a>), DecodeError>> + use<'a> {
        let container = *self;
        (0..self.count).map(move |index| {
            let name = container.is_object.then(|| container.name(index)).transpose()?;
            Ok((name, container.value(index)?))
        })
    }

    fn part(&self, index: usize) -> Result<JsonPart<'a>, DecodeError> {
        self.check_index(index)?;
        let names = self.count * self.name_entry_size();
        let start = 2 * self.width.size() + names + index * (1 + self.width.size());
        let mut entry = self.entry(start)?;
        let type_code = entry.u8()?;
        if self.width.stores_inline(type_code) {
            let offset = entry.offset();
            return Ok(JsonPart { type_code, bytes: entry.bytes(self.width.size())?, offset });
        }
        let cursor = self.inside(self.width.read(&mut entry)?)?;
        Ok(JsonPart { type_code, bytes: cursor.rest(), offset: cursor.offset() })
    }

    fn check_index(&self, index: usize) -> Result<(), DecodeError> {
        if index < self.count {
            return Ok(());
        }
        let (found, max) = (index as u64, (self.count as u64).saturating_sub(1));
        Err(DecodeError::new(self.offset, DecodeReason::OutOfRange { field: "JSON index", found, max }))
    }

    const fn name_entry_size(&self) -> usize {
        match self.is_object {
            true => self.width.size() + 2,
            false => 0,
        }
    }

    /// Returns the size of one value's entry in the table before the names and values.
    const fn entry_size(&self) -> usize {
        self.name_entry_size() + 1 + self.width.size()
    }

    /// Creates a cursor at `start` of the container.
    fn entry(&self, start: usize) -> Result<Cursor<'a>, DecodeError> {
        match self.bytes.get(start..) {
            Some(bytes) => Ok(Cursor::at(bytes, self.offset + start)),
            None => {
                let (found, max) = (start as u64, self.bytes.len() as u64);
                Err(DecodeError::new(
                    self.offset,
                    DecodeReason::OutOfRange { field: "JSON offset", found, max },
                ))
            }
        }
    }

    /// Creates a cursor at `start` of the container, which must be after the table of entries. Nested values are thus
    /// always smaller than their container, which rules out loops.
    fn inside(&self, start: usize) -> Result<Cursor<'a>, DecodeError> {
        let entries_end = 2 * self.width.size() + self.count * self.entry_size();
        if start < entries_end {
            let expected = "an offset after the entries";
            let reason = DecodeReason::Unexpected { field: "JSON offset", found: start as u64, expected };
            return Err(DecodeError::new(self.offset, reason));
        }
        self.entry(start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{JsonDocument, JsonQuotes, JsonValue};

    /// Returns the text of a document, or the error.
    fn text(bytes: &[u8], quotes: JsonQuotes) -> String {
        let mut text = Vec::new();
        match JsonDocument::new(bytes).write(quotes, &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(text(bytes, JsonQuotes::Always), expected, "{bytes:02x?}");
    }

    /// Checks a document that is a single string, or is shown as one.
    fn check_bare(bytes: &[u8], expected: &str) {
        check(bytes, &format!("\"{expected}\""));
        assert_eq!(text(bytes, JsonQuotes::Inside), expected, "{bytes:02x?}");
    }

    #[test]
    fn scalars() {
        check(&[], "null");
        check(&[4, 0], "null");
        check(&[4, 1], "true");
        check(&[4, 2], "false");
        check(&[5, 0, 0x80], "-32768");
        check(&[6, 0xff, 0xff], "65535");
        check(&[7, 0, 0, 0, 0x80], "-2147483648");
        check(&[8, 0xff, 0xff, 0xff, 0xff], "4294967295");
        check(&[9, 0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808");
        check(&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "18446744073709551615");
        check_bare(&[12, 0], "");
        check_bare(&[12, 3, b'a', b'b', b'c'], "abc");
        check(b"\x0c\x09\"\\/\x08\x0c\n\r\t\x01", r#""\"\\/\b\f\n\r\t\u0001""#);
        check(&[&[12, 0x81, 0x01], &[b'x'; 129][..]].concat(), &format!("\"{}\"", "x".repeat(129)));
    }

    #[test]
    fn doubles() {
        let check = |number: f64, expected| check(&[&[11][..], &number.to_le_bytes()].concat(), expected);
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(1.5, "1.5");
        check(100.0, "100.0");
        check(1e14, "100000000000000.0");
        check(1e15, "1e15");
        check(123_456_789_012_345_680.0, "1.2345678901234568e17");
        check(1_234_567_890_123_456.7, "1234567890123456.8");
        check(1e-14, "0.00000000000001");
        check(1e-15, "0.000000000000001");
        check(1e-16, "1e-16");
        check(-1.5e-300, "-1.5e-300");
        check(f64::MAX, "1.7976931348623157e308");
        check(5e-324, "5e-324");
        check(f64::NAN, "0.0");
    }

    #[test]
    fn values_of_other_columns() {
        let packed = |type_code: u8, packed: i64| [&[15, type_code, 8][..], &packed.to_le_bytes()].concat();
        let day = ((2024 * 13 + 2) << 5 | 29) << 17;
        check_bare(&packed(10, day << 24), "2024-02-29");
        check_bare(&packed(12, (day | 12 << 12 | 34 << 6 | 56) << 24 | 789), "2024-02-29 12:34:56.000789");
        check_bare(&packed(7, (day | 12 << 12) << 24), "2024-02-29 12:00:00.000000");
        check_bare(&packed(11, (838 << 12 | 59 << 6 | 59) << 24), "838:59:59.000000");
        check_bare(&packed(11, -((1 << 24) | 500_000)), "-00:00:01.500000");
        check(&[15, 246, 4, 4, 2, 0x81, 5], "1.05");
        check_bare(&[15, 252, 2, 0, 0xff], "base64:type252:AP8=");
        check_bare(&[15, 255, 3, 1, 2, 3], "base64:type255:AQID");
        // Lines of 76 characters; inside quotes the line break is escaped.
        let long = [&[15, 15, 60][..], &[0; 60]].concat();
        check(&long, &format!("\"base64:type15:{}\\nAAAA\"", "A".repeat(76)));
        assert_eq!(text(&long, JsonQuotes::Inside), format!("base64:type15:{}\nAAAA", "A".repeat(76)));
    }

    #[test]
    fn arrays_and_objects() {
        check(&[2, 0, 0, 4, 0], "[]");
        check(&[0, 0, 0, 4, 0], "{}");
        check(&[3, 0, 0, 0, 0, 8, 0, 0, 0], "[]");
        check(&[2, 2, 0, 10, 0, 4, 1, 0, 6, 7, 0], "[true, 7]");
        check(&[3, 1, 0, 0, 0, 13, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff], "[-1]");
        check(&[2, 1, 0, 11, 0, 7, 7, 0, 0xff, 0xff, 0xff, 0xff], "[-1]");
        check(&[0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 2, 0, b'a'], "{\"a\": 2}");
        check(&[0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 2, 0, b'"'], "{\"\\\"\": 2}");
        check(&[1, 1, 0, 0, 0, 20, 0, 0, 0, 19, 0, 0, 0, 1, 0, 5, 2, 0, 0, 0, b'a'], "{\"a\": 2}");
        check(&[2, 1, 0, 11, 0, 2, 7, 0, 0, 0, 4, 0], "[[]]");
    }

    #[test]
    fn corrupt_documents() {
        check(&[13], "byte 0: JSON type is 13, expected 0 to 12, or 15");
        check(&[4, 3], "byte 1: JSON literal is 3, expected at most 2");
        check(&[4], "byte 1: expected 1 more bytes, found 0");
        check(&[12, 5, b'a'], "byte 2: expected 5 more bytes, found 1");
        check(
            &[12, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            "byte 1: size of a JSON string is 34359738367, expected an encoding of at most five bytes",
        );
        check(
            &[12, 0xff, 0xff, 0xff, 0xff, 0x7f],
            "byte 1: size of a JSON string is 34359738367, expected at most 4294967295",
        );
        check(&[2, 1, 0, 99, 0, 4, 1, 0], "byte 1: expected 99 more bytes, found 7");
        check(&[2, 9, 0, 7, 0, 4, 1, 0], "byte 1: expected 31 more bytes, found 7");
        check(&[3, 255, 255, 255, 255, 9, 0, 0, 0, 0], "byte 1: expected 21474836483 more bytes, found 9");
        check(&[15, 11, 3, 1, 2, 3], "byte 3: expected 8 more bytes, found 3");
        check(&[15, 11, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0], "byte 11: expected the end, found 1 extra bytes");
    }

    /// Returns a document of `depth` nested arrays.
    fn nested(depth: usize) -> Vec<u8> {
        let mut value = vec![0, 0, 4, 0];
        for _ in 1..depth {
            let size = (value.len() + 7) as u16;
            let head = [1, 0, size.to_le_bytes()[0], size.to_le_bytes()[1], 2, 7, 0];
            value = [&head[..], &value].concat();
        }
        [&[2][..], &value].concat()
    }

    #[test]
    fn depth_is_limited() {
        check(&nested(100), &format!("{}{}", "[".repeat(100), "]".repeat(100)));
        check(&nested(101), "byte 701: depth of a JSON document is 101, expected at most 100");
    }

    /// Offsets that point back, or twice to the same position, could make the text of a short document endless.
    #[test]
    fn parts_must_not_overlap() {
        check(&[2, 1, 0, 7, 0, 2, 0, 0], "byte 1: JSON offset is 0, expected an offset after the entries");
        // Both values of each array are the next array.
        let mut bomb = vec![2];
        for _ in 0..40 {
            bomb.extend([2, 0, 0xff, 0x00, 2, 10, 0, 2, 10, 0]);
        }
        let size = bomb.len() as u16;
        for level in 0..40 {
            let left = size - 1 - 10 * level;
            let start = 1 + 10 * level as usize;
            bomb[start + 2..start + 4].copy_from_slice(&left.to_le_bytes());
        }
        let mut last = vec![2, 0, 10, 0, 5, 1, 0, 5, 1, 0];
        let end = bomb.len() - 10;
        last[2..4].copy_from_slice(&10_u16.to_le_bytes());
        bomb[end..].copy_from_slice(&last);
        let mut text = Vec::new();
        let error = JsonDocument::new(&bomb).write(JsonQuotes::Always, &mut text).unwrap_err();
        assert!(error.to_string().contains("a value that overlaps no other"), "{error}");
        assert!(text.len() < 1000);
    }

    #[test]
    fn values_by_index_and_name() {
        let bytes = [0, 2, 0, 21, 0, 18, 0, 1, 0, 19, 0, 2, 0, 5, 2, 0, 4, 0, 0, b'a', b'b', b'c'];
        let JsonValue::Object(object) = JsonDocument::new(&bytes).root().unwrap() else {
            panic!("not an object")
        };
        assert_eq!((object.len(), object.is_empty()), (2, false));
        assert_eq!((object.name(0).unwrap(), object.value(0).unwrap()), (&b"a"[..], JsonValue::Int(2)));
        assert_eq!((object.name(1).unwrap(), object.value(1).unwrap()), (&b"bc"[..], JsonValue::Null));
        assert!(object.name(2).is_err() && object.value(2).is_err());
        let names: Vec<_> = object.iter().map(|entry| entry.unwrap().0).collect();
        assert_eq!(names, [Some(&b"a"[..]), Some(b"bc")]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_document_or_an_error(type_code in 0_u8..16, bytes: Vec<u8>) {
            let bytes = [&[type_code][..], &bytes].concat();
            let mut text = Vec::new();
            let written = JsonDocument::new(&bytes).write(JsonQuotes::Always, &mut text);
            assert_eq!(JsonDocument::new(&bytes).check(), written);
            assert!(text.len() <= 16 * (bytes.len() + 4));
        }

        /// The text of a double parses to the same double.
        #[test]
        fn doubles_round_trip(number in any::<f64>()) {
            let text = text(&[&[11][..], &number.to_le_bytes()].concat(), JsonQuotes::Always);
            if number.is_finite() {
                assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits(), "{text}");
            }
        }
    }
}
