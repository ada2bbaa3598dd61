//! JSON documents as text, the way MySQL writes them.

use super::number::put_double;
use super::{DEPTH_MAX, Json, JsonContainer, JsonValue, Part, Width};
use crate::error::{DecodeError, Reason};

/// Where strings, and what is written as one, have quotes around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonQuotes {
    /// Everywhere: the text is JSON.
    Always,
    /// Inside arrays and objects only: a document that is just a string is written as that string.
    Inside,
}

impl Json<'_> {
    /// Appends the document's text, as `SELECT` shows it: `{"a": [1, 2.5, "b"]}`.
    ///
    /// A date, a time and bytes of another type (`base64:type15:…`) are written as strings.
    ///
    /// # Errors
    ///
    /// When a part is no value, lies outside of the one around it, or overlaps another; or when they are nested
    /// deeper than a server allows. What has been appended until then stays.
    pub fn write(&self, quotes: JsonQuotes, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let Some(part) = self.part()? else {
            out.extend_from_slice(b"null");
            return Ok(());
        };
        let mut writer = Writer { out, open: Vec::new(), unused: part.size()? };
        writer.take(part.own_size()?, part.offset)?;
        writer.put(&part, quotes)?;
        while writer.step()? {}
        Ok(())
    }
}

struct Writer<'a, 'o> {
    out: &'o mut Vec<u8>,
    /// The containers around the place where we are, and which value of each comes next.
    open: Vec<(JsonContainer<'a>, usize)>,
    /// Bytes of the document that no part has taken yet. Parts that overlap could make a short document's text
    /// grow without end.
    unused: usize,
}

impl<'a> Writer<'a, '_> {
    /// Appends one value of the innermost container, or its end; false when nothing is open.
    fn step(&mut self) -> Result<bool, DecodeError> {
        let Some((container, next)) = self.open.last_mut() else { return Ok(false) };
        let (container, index) = (*container, *next);
        *next += 1;
        if index == container.len() {
            self.open.pop();
            self.out.push(if container.is_object { b'}' } else { b']' });
            return Ok(true);
        }
        if index > 0 {
            self.out.extend_from_slice(b", ");
        }
        if container.is_object {
            let name = container.name(index)?;
            self.take(name.len(), container.offset)?;
            put_string(self.out, name);
            self.out.extend_from_slice(b": ");
        }
        let part = container.part(index)?;
        if !container.width.holds(part.type_code) {
            self.take(part.own_size()?, part.offset)?;
        }
        self.put(&part, JsonQuotes::Always)?;
        Ok(true)
    }

    fn take(&mut self, size: usize, offset: usize) -> Result<(), DecodeError> {
        match self.unused.checked_sub(size) {
            Some(unused) => {
                self.unused = unused;
                Ok(())
            }
            None => {
                let (found, wanted) = (offset as u64, "parts that do not overlap");
                Err(DecodeError::new(offset, Reason::Unexpected { field: "JSON offset", found, wanted }))
            }
        }
    }

    fn put(&mut self, part: &Part<'a>, quotes: JsonQuotes) -> Result<(), DecodeError> {
        match part.value()? {
            JsonValue::Array(container) => self.open(container, b'['),
            JsonValue::Object(container) => self.open(container, b'{'),
            scalar => {
                put_scalar(self.out, &scalar, quotes);
                Ok(())
            }
        }
    }

    fn open(&mut self, container: JsonContainer<'a>, bracket: u8) -> Result<(), DecodeError> {
        if self.open.len() == DEPTH_MAX {
            let (found, max) = (DEPTH_MAX as u64 + 1, DEPTH_MAX as u64);
            return Err(DecodeError::new(
                container.offset,
                Reason::OutOfRange { field: "depth of a JSON document", found, max },
            ));
        }
        self.out.push(bracket);
        self.open.push((container, 0));
        Ok(())
    }
}

impl Part<'_> {
    /// Bytes that belong to this value and to none inside it.
    fn own_size(&self) -> Result<usize, DecodeError> {
        match self.type_code {
            0..=3 => {
                let container = JsonContainer::new(self)?;
                let width: Width = container.width;
                Ok(2 * width.size() + container.count * container.entry_size())
            }
            _ => self.size(),
        }
    }
}

/// The type of binary strings in documents of MySQL 5.7, which shows them in base64; from 8.0 on they are text.
const VAR_STRING: u8 = 253;

fn put_scalar(out: &mut Vec<u8>, value: &JsonValue<'_>, quotes: JsonQuotes) {
    match value {
        JsonValue::Null => out.extend_from_slice(b"null"),
        JsonValue::Bool(true) => out.extend_from_slice(b"true"),
        JsonValue::Bool(false) => out.extend_from_slice(b"false"),
        JsonValue::Int(number) => put_display(out, number),
        JsonValue::UInt(number) => put_display(out, number),
        JsonValue::Double(number) => put_double(out, *number),
        JsonValue::Decimal(decimal) => decimal.write(out),
        JsonValue::String(bytes) | JsonValue::Opaque { type_code: VAR_STRING, bytes } => match quotes {
            JsonQuotes::Always => put_string(out, bytes),
            JsonQuotes::Inside => out.extend_from_slice(bytes),
        },
        JsonValue::Date(date) => quoted(out, quotes, |out| date.write(out)),
        JsonValue::Time(time) => quoted(out, quotes, |out| time.write(out)),
        JsonValue::DateTime(date_time) => quoted(out, quotes, |out| date_time.write(out)),
        JsonValue::Opaque { type_code, bytes } => quoted(out, quotes, |out| {
            out.extend_from_slice(b"base64:type");
            put_display(out, type_code);
            out.push(b':');
            put_base64(out, bytes, quotes);
        }),
        // Whoever has a container opens it.
        JsonValue::Array(_) | JsonValue::Object(_) => {}
    }
}

fn quoted(out: &mut Vec<u8>, quotes: JsonQuotes, put: impl FnOnce(&mut Vec<u8>)) {
    let quote: &[u8] = match quotes {
        JsonQuotes::Always => b"\"",
        JsonQuotes::Inside => b"",
    };
    out.extend_from_slice(quote);
    put(out);
    out.extend_from_slice(quote);
}

fn put_display(out: &mut Vec<u8>, number: &impl std::fmt::Display) {
    use std::io::Write as _;
    // A `Vec` takes whatever is written to it.
    let _ = write!(out, "{number}");
}

/// Appends a string in quotes; bytes beyond ASCII stay as they are.
pub(super) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let mut rest = bytes;
    while let Some(index) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..index]);
        put_escaped(out, rest[index]);
        rest = &rest[index + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends base64 with a line break behind every 76 characters that others follow.
fn put_base64(out: &mut Vec<u8>, bytes: &[u8], quotes: JsonQuotes) {
    const LINE: usize = 76 / 4 * 3;
    let line_break: &[u8] = match quotes {
        JsonQuotes::Always => b"\\n",
        JsonQuotes::Inside => b"\n",
    };
    for (index, line) in bytes.chunks(LINE).enumerate() {
        if index > 0 {
            out.extend_from_slice(line_break);
        }
        for group in line.chunks(3) {
            put_base64_group(out, group);
        }
    }
}

/// One to three bytes as four characters.
fn put_base64_group(out: &mut Vec<u8>, group: &[u8]) {
    const DIGITS: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let byte = |index: usize| group.get(index).copied().map_or(0, u32::from);
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for index in 0..4 {
        out.push(match index > group.len() {
            true => b'=',
            false => DIGITS[(bits >> (18 - 6 * index) & 0x3f) as usize],
        });
    }
}
