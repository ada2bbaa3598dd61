//! Text of JSON documents, as MySQL writes it.

use super::escape::{JsonHexDigits, put_json_string};
use super::number::put_double;
use super::{DEPTH_MAX, FieldWidth, JsonContainer, JsonDocument, JsonPart, JsonValue};
use crate::base64::put_base64_lines;
use crate::error::{DecodeError, DecodeReason};

/// Quoting of strings, and of other values that are written as strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonQuotes {
    /// Quotes everywhere: the text is JSON.
    Always,
    /// Quotes inside arrays and objects only: a document that is a single string is written without quotes.
    Inside,
}

impl JsonDocument<'_> {
    /// Appends the document's text, as `SELECT` shows it: `{"a": [1, 2.5, "b"]}`.
    ///
    /// Dates, times and values of other types (`base64:type15:…`) are written as strings.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid, overlaps another or reaches beyond its container, or if the document is nested
    /// deeper than servers allow. The text before the fault stays in `out`.
    pub fn write(&self, quotes: JsonQuotes, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let Some(part) = self.part()? else {
            out.extend_from_slice(b"null");
            return Ok(());
        };
        let mut writer = JsonTextWriter { out, open: Vec::new(), unused: part.size()? };
        writer.claim_bytes(part.own_size()?, part.offset)?;
        writer.put(&part, quotes)?;
        while writer.step()? {}
        Ok(())
    }
}

struct JsonTextWriter<'a, 'o> {
    out: &'o mut Vec<u8>,
    /// Open containers, outermost first, each with the index of its next value.
    open: Vec<(JsonContainer<'a>, usize)>,
    /// Bytes of the document that no value has used yet. Without this limit, overlapping values could make the text
    /// of a short document endless.
    unused: usize,
}

impl<'a> JsonTextWriter<'a, '_> {
    /// Appends the next value of the innermost container, or its end; returns false if no container is open.
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
            self.claim_bytes(name.len(), container.offset)?;
            put_json_string(self.out, name, JsonHexDigits::Lower);
            self.out.extend_from_slice(b": ");
        }
        let part = container.part(index)?;
        if !container.width.stores_inline(part.type_code) {
            self.claim_bytes(part.own_size()?, part.offset)?;
        }
        self.put(&part, JsonQuotes::Always)?;
        Ok(true)
    }

    fn claim_bytes(&mut self, size: usize, offset: usize) -> Result<(), DecodeError> {
        match self.unused.checked_sub(size) {
            Some(unused) => {
                self.unused = unused;
                Ok(())
            }
            None => {
                let (found, expected) = (offset as u64, "a value that overlaps no other");
                Err(DecodeError::new(
                    offset,
                    DecodeReason::Unexpected { field: "JSON offset", found, expected },
                ))
            }
        }
    }

    fn put(&mut self, part: &JsonPart<'a>, quotes: JsonQuotes) -> Result<(), DecodeError> {
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
                DecodeReason::OutOfRange { field: "depth of a JSON document", found, max },
            ));
        }
        self.out.push(bracket);
        self.open.push((container, 0));
        Ok(())
    }
}

impl JsonPart<'_> {
    /// Returns the number of bytes that belong to this value but not to a nested one.
    fn own_size(&self) -> Result<usize, DecodeError> {
        match self.type_code {
            0..=3 => {
                let container = JsonContainer::new(self)?;
                let width: FieldWidth = container.width;
                Ok(2 * width.size() + container.count * container.entry_size())
            }
            _ => self.size(),
        }
    }
}

/// Type of binary strings in documents of MySQL 5.7. MySQL 5.7 shows them in base64, later versions as text.
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
            JsonQuotes::Always => put_json_string(out, bytes, JsonHexDigits::Lower),
            JsonQuotes::Inside => out.extend_from_slice(bytes),
        },
        JsonValue::Date(date) => quoted(out, quotes, |out| date.write(out)),
        JsonValue::Time(time) => quoted(out, quotes, |out| time.write(out)),
        JsonValue::DateTime(date_time) => quoted(out, quotes, |out| date_time.write(out)),
        JsonValue::Opaque { type_code, bytes } => quoted(out, quotes, |out| {
            out.extend_from_slice(b"base64:type");
            put_display(out, type_code);
            out.push(b':');
            let line_break: &[u8] = match quotes {
                JsonQuotes::Always => b"\\n",
                JsonQuotes::Inside => b"\n",
            };
            put_base64_lines(out, bytes, line_break);
        }),
        // The caller opens containers.
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
    // Writing to a `Vec` does not fail.
    let _ = write!(out, "{number}");
}
