//! The text of JSON documents and of changes to them, as `mysqlbinlog -v` writes it.

use binlog::{Cursor, DecodeError};

use crate::base64::put_broken;
use crate::numbers::{put_i64, put_shortest, put_u64};
use crate::quote::{hex, put_quoted, quote_from};
use crate::value_text::{put_decimal, put_packed_date, put_packed_datetime, put_packed_time};

/// Appends a document in single quotes. Strings that are whole documents lose their double quotes.
pub(crate) fn put_document(out: &mut Vec<u8>, document: &[u8]) {
    let start = out.len();
    match Value::of_document(document).and_then(|value| value.put(out, Quotes::Absent, 0)) {
        Some(()) => quote_from(out, start),
        None => {
            out.truncate(start);
            out.extend_from_slice(b"Invalid JSON\n");
        }
    }
}

/// Appends changes to the document in column `number` as calls of functions, each around the one before it:
///
/// ```text
/// JSON_REMOVE(
/// ###      JSON_REPLACE(@2, '$.a', 1),
/// ###      '$.b')
/// ```
pub(crate) fn put_changes(out: &mut Vec<u8>, changes: &[u8], number: usize) {
    let result = Change::read_all(changes).and_then(|changes| {
        put_functions(out, &changes);
        out.push(b'@');
        put_u64(out, number as u64);
        put_arguments(out, &changes)
    });
    if let Err(what) = result {
        out.extend_from_slice(b"Error: ");
        out.extend_from_slice(what.as_bytes());
        out.extend_from_slice(b" while printing JSON diff\n");
    }
}

/// Where a call goes on in the next line.
const NEXT_LINE: &[u8] = b"\n###      ";

/// The names of the functions, the last one outermost. Neighbours of one name share a call.
fn put_functions(out: &mut Vec<u8>, changes: &[Change<'_>]) {
    for (index, change) in changes.iter().enumerate().rev() {
        if index > 0 && changes[index - 1].function() == change.function() {
            continue;
        }
        out.extend_from_slice(change.function());
        out.push(b'(');
        if index > 0 {
            out.extend_from_slice(NEXT_LINE);
        }
    }
}

fn put_arguments(out: &mut Vec<u8>, changes: &[Change<'_>]) -> Result<(), &'static str> {
    for (index, change) in changes.iter().enumerate() {
        out.push(b',');
        out.extend_from_slice(if index == 0 { b" " } else { NEXT_LINE });
        put_quoted(out, change.path);
        if let Some(value) = change.value {
            out.extend_from_slice(b", ");
            let value = Value::of_document(value).ok_or("parsing json value")?;
            value.put_argument(out).ok_or("parsing json value")?;
        }
        if changes.get(index + 1).is_none_or(|next| next.function() != change.function()) {
            out.push(b')');
        }
    }
    Ok(())
}

/// One change to a document.
// size  field
//    1  operation: 0 replace, 1 insert, 2 remove
//    *  size of path: lenenc, then path
//    *  size of value: lenenc, then value; not if removed
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    operation: u8,
    path: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> Change<'a> {
    const REPLACE: u8 = 0;
    const INSERT: u8 = 1;
    const REMOVE: u8 = 2;

    /// What cannot be read is told in mysqlbinlog's words.
    fn read_all(bytes: &'a [u8]) -> Result<Vec<Self>, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut changes = Vec::new();
        while let Ok(operation) = cursor.u8() {
            if operation > Self::REMOVE {
                return Err("reading operation type (invalid operation code)");
            }
            let size = cursor.lenenc().map_err(|_| "reading path length to skip")?;
            let path = take(&mut cursor, size).map_err(|_| "skipping path (path length too long)")?;
            let value = match operation {
                Self::REMOVE => None,
                _ => {
                    let size = cursor.lenenc().map_err(|_| "reading value length to skip")?;
                    Some(take(&mut cursor, size).map_err(|_| "skipping value (value length too long)")?)
                }
            };
            changes.push(Self { operation, path, value });
        }
        Ok(changes)
    }

    fn function(&self) -> &'static [u8] {
        match self.operation {
            Self::REPLACE => b"JSON_REPLACE",
            Self::INSERT if self.path.ends_with(b"]") => b"JSON_ARRAY_INSERT",
            Self::INSERT => b"JSON_INSERT",
            _ => b"JSON_REMOVE",
        }
    }
}

fn take<'a>(cursor: &mut Cursor<'a>, size: u64) -> Result<&'a [u8], DecodeError> {
    cursor.bytes(usize::try_from(size).unwrap_or(usize::MAX))
}

/// Do strings, dates and the like stand in double quotes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    /// No: they are all of the document.
    Absent,
    Present,
}

/// A value inside a document: its type, and the bytes from its first one on.
#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    type_code: u8,
    bytes: &'a [u8],
}

/// No server stores a deeper document.
const DEPTH_MAX: usize = 100;

mod code {
    pub(super) const SMALL_OBJECT: u8 = 0;
    pub(super) const LARGE_OBJECT: u8 = 1;
    pub(super) const SMALL_ARRAY: u8 = 2;
    pub(super) const LARGE_ARRAY: u8 = 3;
    pub(super) const LITERAL: u8 = 4;
    pub(super) const INT16: u8 = 5;
    pub(super) const UINT16: u8 = 6;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 8;
    pub(super) const INT64: u8 = 9;
    pub(super) const UINT64: u8 = 10;
    pub(super) const DOUBLE: u8 = 11;
    pub(super) const STRING: u8 = 12;
    pub(super) const OPAQUE: u8 = 15;
}

impl<'a> Value<'a> {
    /// A document is one byte of type, then a value. No bytes at all stand for `null`.
    fn of_document(document: &'a [u8]) -> Option<Self> {
        match document {
            [] => Some(Self { type_code: code::LITERAL, bytes: &[0] }),
            [type_code, bytes @ ..] => Some(Self { type_code: *type_code, bytes }),
        }
    }

    /// Appends it as JSON. `None` if it is none.
    fn put(self, out: &mut Vec<u8>, quotes: Quotes, depth: usize) -> Option<()> {
        let mut cursor = Cursor::new(self.bytes);
        match self.type_code {
            code::SMALL_OBJECT | code::LARGE_OBJECT | code::SMALL_ARRAY | code::LARGE_ARRAY => {
                return Container::new(self)?.put(out, depth);
            }
            code::LITERAL => out.extend_from_slice(literal(cursor.u8().ok()?)?),
            code::INT16 => put_i64(out, i64::from(cursor.u16().ok()? as i16)),
            code::UINT16 => put_u64(out, u64::from(cursor.u16().ok()?)),
            code::INT32 => put_i64(out, i64::from(cursor.u32().ok()? as i32)),
            code::UINT32 => put_u64(out, u64::from(cursor.u32().ok()?)),
            code::INT64 => put_i64(out, cursor.i64().ok()?),
            code::UINT64 => put_u64(out, cursor.u64().ok()?),
            code::DOUBLE => put_double(out, f64::from_bits(cursor.u64().ok()?)),
            code::STRING => put_text(out, sized(&mut cursor)?, quotes),
            code::OPAQUE => {
                let field_type = cursor.u8().ok()?;
                return Opaque { field_type, bytes: sized(&mut cursor)? }.put(out, quotes);
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends it as an argument of an SQL function.
    fn put_argument(self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        match self.type_code {
            code::SMALL_OBJECT | code::LARGE_OBJECT | code::SMALL_ARRAY | code::LARGE_ARRAY => {
                out.extend_from_slice(b"CAST(");
                let start = out.len();
                self.put(out, Quotes::Absent, 0)?;
                quote_from(out, start);
                out.extend_from_slice(b" AS JSON)");
            }
            code::STRING => {
                self.put(out, Quotes::Absent, 0)?;
                quote_from(out, start);
            }
            code::OPAQUE if self.bytes.first() != Some(&Opaque::DECIMAL) => {
                self.put(out, Quotes::Absent, 0)?;
                quote_from(out, start);
            }
            _ => self.put(out, Quotes::Absent, 0)?,
        }
        Some(())
    }
}

fn literal(byte: u8) -> Option<&'static [u8]> {
    match byte {
        0 => Some(b"null"),
        1 => Some(b"true"),
        2 => Some(b"false"),
        _ => None,
    }
}

/// Shows that it is no whole number.
fn put_double(out: &mut Vec<u8>, value: f64) {
    let start = out.len();
    put_shortest(out, value);
    if !out[start..].iter().any(|byte| matches!(byte, b'.' | b'e')) {
        out.extend_from_slice(b".0");
    }
}

/// A size in groups of seven bits, low ones first, the high bit saying that more follow; then so many bytes.
fn sized<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    const SIZE_BYTES_MAX: u32 = 5;
    let mut size = 0;
    for index in 0..SIZE_BYTES_MAX {
        let byte = cursor.u8().ok()?;
        size |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return u32::try_from(size).ok().and_then(|size| cursor.bytes(size as usize).ok());
        }
    }
    None
}

/// In double quotes, what JSON must escape is.
fn put_text(out: &mut Vec<u8>, text: &[u8], quotes: Quotes) {
    if quotes == Quotes::Absent {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    let mut rest = text;
    while let Some(place) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..place]);
        put_escaped(out, rest[place]);
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' | b'\\' => byte,
        control => {
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(control >> 4), hex(control & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// An object or array.
// size  field
//    o  count of members
//    o  size of all of it
//    *  objects: count times the place of a key (o) and its size (2)
//    *  count times type (1) and value or its place (o)
//    *  keys and values
// Places count from the first byte; o is 2, or 4 where the type says large.
#[derive(Clone, Copy, Debug)]
struct Container<'a> {
    bytes: &'a [u8],
    count: usize,
    place_size: usize,
    is_object: bool,
    is_large: bool,
}

impl<'a> Container<'a> {
    fn new(value: Value<'a>) -> Option<Self> {
        let is_large = matches!(value.type_code, code::LARGE_OBJECT | code::LARGE_ARRAY);
        let is_object = matches!(value.type_code, code::SMALL_OBJECT | code::LARGE_OBJECT);
        let place_size = if is_large { 4 } else { 2 };
        let mut container = Self { bytes: value.bytes, count: 0, place_size, is_object, is_large };
        container.count = container.place(0)?;
        let size = container.place(place_size)?;
        container.bytes = value.bytes.get(..size)?;
        let head = 2 * place_size + container.count * container.member_size();
        (head <= size).then_some(container)
    }

    fn put(self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        out.push(if self.is_object { b'{' } else { b'[' });
        for index in 0..self.count {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            if self.is_object {
                put_text(out, self.key(index)?, Quotes::Present);
                out.extend_from_slice(b": ");
            }
            self.value(index)?.put(out, Quotes::Present, depth + 1)?;
        }
        out.push(if self.is_object { b'}' } else { b']' });
        Some(())
    }

    fn key(&self, index: usize) -> Option<&'a [u8]> {
        let entry = 2 * self.place_size + index * (self.place_size + 2);
        let start = self.place(entry)?;
        let [low, high] = *self.bytes.get(entry + self.place_size..)?.first_chunk()?;
        self.bytes.get(start..start + usize::from(u16::from_le_bytes([low, high])))
    }

    fn value(&self, index: usize) -> Option<Value<'a>> {
        let keys = if self.is_object { self.count * (self.place_size + 2) } else { 0 };
        let entry = 2 * self.place_size + keys + index * (self.place_size + 1);
        let type_code = *self.bytes.get(entry)?;
        let is_inline = match type_code {
            code::LITERAL | code::INT16 | code::UINT16 => true,
            code::INT32 | code::UINT32 => self.is_large,
            _ => false,
        };
        let start = if is_inline { entry + 1 } else { self.place(entry + 1)? };
        Some(Value { type_code, bytes: self.bytes.get(start..)? })
    }

    fn member_size(&self) -> usize {
        self.place_size + 1 + if self.is_object { self.place_size + 2 } else { 0 }
    }

    /// A place, size or count stored at `at`.
    fn place(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at + self.place_size)?;
        Some(bytes.iter().rev().fold(0, |place, byte| place << 8 | usize::from(*byte)))
    }
}

/// A value that JSON has no type for.
#[derive(Clone, Copy, Debug)]
struct Opaque<'a> {
    field_type: u8,
    bytes: &'a [u8],
}

impl Opaque<'_> {
    const DECIMAL: u8 = 246;

    fn put(self, out: &mut Vec<u8>, quotes: Quotes) -> Option<()> {
        const TIMESTAMP: u8 = 7;
        const DATE: u8 = 10;
        const TIME: u8 = 11;
        const DATETIME: u8 = 12;
        if self.field_type == Self::DECIMAL {
            let [precision, scale, bytes @ ..] = self.bytes else { return None };
            put_decimal(out, bytes, *precision, *scale);
            return Some(());
        }
        let mut text = Vec::new();
        match self.field_type {
            DATE => put_packed_date(&mut text, self.packed()?),
            TIME => put_packed_time(&mut text, self.packed()?, 6),
            DATETIME | TIMESTAMP => put_packed_datetime(&mut text, self.packed()?, 6),
            other => {
                text.extend_from_slice(b"base64:type");
                put_u64(&mut text, u64::from(other));
                text.push(b':');
                put_broken(&mut text, self.bytes);
            }
        }
        put_text(out, &text, quotes);
        Some(())
    }

    fn packed(self) -> Option<i64> {
        self.bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{put_changes, put_document};

    #[test]
    fn documents() {
        check(b"", "'null'");
        check(&[4, 1], "'true'");
        check(&[5, 0xff, 0xff], "'-1'");
        check(&[6, 0xff, 0xff], "'65535'");
        check(&[7, 0, 0, 0, 0x80], "'-2147483648'");
        check(&[10, 255, 255, 255, 255, 255, 255, 255, 255], "'18446744073709551615'");
        check(&[11, 0, 0, 0, 0, 0, 0, 0x59, 0x40], "'100.0'");
        check(&[12, 4, b'i', b't', b'\'', b's'], "'it\\'s'");
        check(&[15, 15, 1, 5], "'base64:type15:BQ=='");
        check(&[15, 246, 5, 5, 2, 0x80, 1, 25], "'1.25'");
        // 65 digits, 35 of them whole, which are rounded up to 36.
        let digits = [
            &[15, 246, 32, 66, 30, 0x7a, 0x0a, 0x1f, 0][..],
            &[0xc4, 0x65, 0x36, 0].repeat(6),
            &[0xfc, 0x18],
        ];
        check(&digits.concat(), &format!("'-{}.{}'", "9".repeat(35), "9".repeat(30)));
        check(&[2, 0, 0, 4, 0], "'[]'");
        check(&[2, 2, 0, 14, 0, 5, 1, 0, 12, 10, 0, 3, b'"', 1, b'\\'], "'[1, \"\\\\\"\\\\u0001\\\\\\\\\"]'");
        check(&[0, 1, 0, 12, 0, 11, 0, 1, 0, 4, 0, 0, b'a'], "'{\"a\": null}'");
    }

    #[test]
    fn what_is_no_document() {
        for document in [
            &[3][..],
            &[4, 3],
            &[5, 0],
            &[12, 9, b'a'],
            &[12, 255, 255, 255, 255, 255],
            &[99, 0],
            &[2, 9, 0, 4, 0],
        ] {
            check(document, "Invalid JSON\n");
        }
        // An array that holds itself.
        check(&[2, 1, 0, 7, 0, 2, 0, 0], "Invalid JSON\n");
    }

    #[test]
    fn changes() {
        check_changes(b"", "@2");
        check_changes(b"\x02\x03$.a", "JSON_REMOVE(@2, '$.a')");
        check_changes(b"\x00\x03$.a\x03\x05\x07\x00", "JSON_REPLACE(@2, '$.a', 7)");
        check_changes(b"\x01\x03$.a\x05\x02\x00\x00\x04\x00", "JSON_INSERT(@2, '$.a', CAST('[]' AS JSON))");
        check_changes(b"\x01\x04$[1]\x03\x0c\x01'", "JSON_ARRAY_INSERT(@2, '$[1]', '\\'')");
        check_changes(
            b"\x02\x03$.a\x02\x03$.b\x00\x03$.c\x02\x04\x00",
            "JSON_REPLACE(\n###      JSON_REMOVE(@2, '$.a',\n###      '$.b'),\n###      '$.c', null)",
        );
    }

    #[track_caller]
    fn check(document: &[u8], wanted: &str) {
        let mut out = Vec::new();
        put_document(&mut out, document);
        assert_eq!(String::from_utf8_lossy(&out), wanted);
    }

    #[track_caller]
    fn check_changes(changes: &[u8], wanted: &str) {
        let mut out = Vec::new();
        put_changes(&mut out, changes, 2);
        assert_eq!(String::from_utf8_lossy(&out), wanted);
    }
}
