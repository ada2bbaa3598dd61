//! JSON documents as MySQL stores them.
//!
//! | size | field |
//! |---|---|
//! | 1 | type |
//! | * | value |
//!
//! | type | value |
//! |---|---|
//! | 0, 1 | object, with fields of 2 or of 4 bytes |
//! | 2, 3 | array, with fields of 2 or of 4 bytes |
//! | 4 | literal (1): 0 null, 1 true, 2 false |
//! | 5, 6 | integer (2), signed or not |
//! | 7, 8 | integer (4), signed or not |
//! | 9, 10 | integer (8), signed or not |
//! | 11 | double (8) |
//! | 12 | string: size, then UTF-8 |
//! | 15 | of another type of column: its type code (1), size, then what the column would store, or nearly so |
//!
//! The size of a string is 7 bits a byte, low bits first; the high bit says that another byte follows.

mod changes;
mod edit;
mod number;
mod path;
mod text;

use crate::cursor::Cursor;
use crate::decimal::Decimal;
use crate::error::{DecodeError, Reason};
use crate::temporal::{Date, DateTime, Time};

pub use self::changes::{JsonChange, JsonChangeKind, JsonChanges};
pub use self::text::JsonQuotes;

/// A server takes no deeper documents, and neither do we.
const DEPTH_MAX: usize = 100;

/// A JSON document as stored. No bytes at all stand for `null`.
///
/// ```
/// use bintide_binlog::{Json, JsonQuotes};
///
/// let document = Json::new(b"\x02\x01\x00\x08\x00\x05\xff\xff\x00");
/// let mut text = Vec::new();
/// document.write(JsonQuotes::Always, &mut text)?;
/// assert_eq!(text, b"[-1]");
/// # Ok::<(), bintide_binlog::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Json<'a> {
    bytes: &'a [u8],
}

/// A part of a JSON document.
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
    /// Values in order.
    Array(JsonContainer<'a>),
    /// Values by name.
    Object(JsonContainer<'a>),
    /// An exact number.
    Decimal(Decimal<'a>),
    /// A day.
    Date(Date),
    /// A length of time.
    Time(Time),
    /// A day and time of day, of a DATETIME or a TIMESTAMP.
    DateTime(DateTime),
    /// A value of another type of column.
    Opaque {
        /// The column's type code.
        type_code: u8,
        /// What the column would store.
        bytes: &'a [u8],
    },
}

impl<'a> Json<'a> {
    /// Takes a document as stored. Nothing is checked yet.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// As stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The outermost value.
    ///
    /// # Errors
    ///
    /// When its bytes are no value. Parts of it are checked when they are asked for.
    pub fn root(&self) -> Result<JsonValue<'a>, DecodeError> {
        match self.part()? {
            Some(part) => part.value(),
            None => Ok(JsonValue::Null),
        }
    }

    /// Looks at every part.
    ///
    /// # Errors
    ///
    /// When a part is no value, lies outside of the one around it, or overlaps another; or when they are nested
    /// deeper than a server allows.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.write(JsonQuotes::Always, &mut Vec::new())
    }

    fn part(&self) -> Result<Option<Part<'a>>, DecodeError> {
        match self.bytes {
            [] => Ok(None),
            [type_code, bytes @ ..] => Ok(Some(Part { type_code: *type_code, bytes, offset: 1 })),
        }
    }
}

/// A value not yet looked at.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    type_code: u8,
    /// From where it starts, as far as it may reach.
    bytes: &'a [u8],
    /// Where it starts in the document.
    offset: usize,
}

/// Fields of 2 or of 4 bytes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Small,
    Large,
}

impl Width {
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

    /// Does a value of this type stand in place of its offset?
    const fn holds(self, type_code: u8) -> bool {
        match self {
            Self::Small => matches!(type_code, 4..=6),
            Self::Large => matches!(type_code, 4..=8),
        }
    }
}

impl<'a> Part<'a> {
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
                    let reason = Reason::OutOfRange { field: "JSON literal", found, max };
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
                let wanted = "0 to 12, or 15";
                let found = u64::from(type_code);
                let reason = Reason::Unexpected { field: "JSON type", found, wanted };
                return Err(DecodeError::new(self.offset.saturating_sub(1), reason));
            }
        })
    }

    /// How many bytes the value takes from where it starts.
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

/// The size in front of a string.
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
                    let reason = Reason::OutOfRange { field: "size of a JSON string", found: size, max };
                    Err(DecodeError::new(offset, reason))
                }
            };
        }
    }
    let wanted = "at most five bytes";
    Err(DecodeError::new(offset, Reason::Unexpected { field: "size of a JSON string", found: size, wanted }))
}

// type  value
//    7  TIMESTAMP: as DATETIME
//   10  DATE: as DATETIME
//   11  TIME: a packed number (8)
//   12  DATETIME: a packed number (8)
//  246  DECIMAL: precision (1), scale (1), then as a column stores it
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
/// | 2 or 4 | size in bytes of all of it |
/// | (4 or 6) * count | objects only: where each name starts (2 or 4), its size (2) |
/// | (3 or 5) * count | type of each value (1), where it starts or itself (2 or 4) |
/// | * | names, then values |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonContainer<'a> {
    /// All of it.
    bytes: &'a [u8],
    /// Where it starts in the document.
    offset: usize,
    count: usize,
    width: Width,
    is_object: bool,
}

impl<'a> JsonContainer<'a> {
    fn new(part: &Part<'a>) -> Result<Self, DecodeError> {
        let width = if part.type_code & 1 == 0 { Width::Small } else { Width::Large };
        let mut cursor = part.cursor();
        let count = width.read(&mut cursor)?;
        let size = width.read(&mut cursor)?;
        let Some(bytes) = part.bytes.get(..size) else {
            let found = part.bytes.len();
            return Err(part.cursor().error(Reason::Short { wanted: size as u64, found }));
        };
        let is_object = part.type_code < 2;
        let container = Self { bytes, offset: part.offset, count, width, is_object };
        // Checked in 64 bits: a count of 2^32 - 1 must not wrap.
        let entries = count as u64 * container.entry_size() as u64;
        let wanted = 2 * width.size() as u64 + entries;
        if wanted > size as u64 {
            return Err(DecodeError::new(part.offset, Reason::Short { wanted, found: size }));
        }
        Ok(container)
    }

    /// How many values it has.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Has it none?
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value with this index.
    ///
    /// # Errors
    ///
    /// When there is none, or it is no value.
    pub fn value(&self, index: usize) -> Result<JsonValue<'a>, DecodeError> {
        self.part(index)?.value()
    }

    /// The name of an object's value with this index. They are sorted by size, then byte by byte.
    ///
    /// # Errors
    ///
    /// When there is none, or it lies outside of the object.
    pub fn name(&self, index: usize) -> Result<&'a [u8], DecodeError> {
        self.exists(index)?;
        let mut entry = self.entry(2 * self.width.size() + index * self.name_entry_size())?;
        let start = self.width.read(&mut entry)?;
        let size = usize::from(entry.u16()?);
        self.inside(start)?.bytes(size)
    }

    /// The values in order; the names of an object's, too.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = Result<(Option<&'a [u8]>, JsonValue<'a>), DecodeError>> + use<'a> {
        let container = *self;
        (0..self.count).map(move |index| {
            let name = container.is_object.then(|| container.name(index)).transpose()?;
            Ok((name, container.value(index)?))
        })
    }

    fn part(&self, index: usize) -> Result<Part<'a>, DecodeError> {
        self.exists(index)?;
        let names = self.count * self.name_entry_size();
        let start = 2 * self.width.size() + names + index * (1 + self.width.size());
        let mut entry = self.entry(start)?;
        let type_code = entry.u8()?;
        if self.width.holds(type_code) {
            let offset = entry.offset();
            return Ok(Part { type_code, bytes: entry.bytes(self.width.size())?, offset });
        }
        let cursor = self.inside(self.width.read(&mut entry)?)?;
        Ok(Part { type_code, bytes: cursor.rest(), offset: cursor.offset() })
    }

    fn exists(&self, index: usize) -> Result<(), DecodeError> {
        if index < self.count {
            return Ok(());
        }
        let (found, max) = (index as u64, (self.count as u64).saturating_sub(1));
        Err(DecodeError::new(self.offset, Reason::OutOfRange { field: "JSON index", found, max }))
    }

    const fn name_entry_size(&self) -> usize {
        match self.is_object {
            true => self.width.size() + 2,
            false => 0,
        }
    }

    /// Bytes that one value takes in front of the names and values.
    const fn entry_size(&self) -> usize {
        self.name_entry_size() + 1 + self.width.size()
    }

    /// From `start` of the container on.
    fn entry(&self, start: usize) -> Result<Cursor<'a>, DecodeError> {
        match self.bytes.get(start..) {
            Some(bytes) => Ok(Cursor::at(bytes, self.offset + start)),
            None => {
                let (found, max) = (start as u64, self.bytes.len() as u64);
                Err(DecodeError::new(self.offset, Reason::OutOfRange { field: "JSON offset", found, max }))
            }
        }
    }

    /// From `start` of the container on, where names and values may be: behind all entries. Parts thus get
    /// smaller the deeper they are, and a loop cannot be.
    fn inside(&self, start: usize) -> Result<Cursor<'a>, DecodeError> {
        let entries_end = 2 * self.width.size() + self.count * self.entry_size();
        if start < entries_end {
            let wanted = "an offset behind the entries";
            let reason = Reason::Unexpected { field: "JSON offset", found: start as u64, wanted };
            return Err(DecodeError::new(self.offset, reason));
        }
        self.entry(start)
    }
}
