//! JSON documents and changes to them, as `mysqlbinlog -v` writes them.

use binlog::{Cursor, DecodeError, JsonDocument, JsonQuotes, JsonValue};
use sql::numbers::put_u64;

use crate::quote::{put_quoted, quote_from};
use crate::unwritable_value::UnwritableValue;

/// Appends a document in single quotes. A document that is one string loses its double quotes.
pub(crate) fn put_document(out: &mut Vec<u8>, document: &[u8]) -> Result<(), UnwritableValue> {
    let document = JsonDocument::new(document);
    if document.root().is_err() {
        out.extend_from_slice(b"Invalid JSON\n");
        return Err(UnwritableValue);
    }
    let start = out.len();
    match document.write(JsonQuotes::Inside, out) {
        Ok(()) => quote_from(out, start),
        Err(_) => {
            out.truncate(start);
            out.extend_from_slice(b"Failed to format JSON object as string.\n");
        }
    }
    Ok(())
}

/// Appends changes to the document in column `number` as nested function calls, the first change innermost:
///
/// ```text
/// JSON_REMOVE(
/// ###      JSON_REPLACE(@2, '$.a', 1),
/// ###      '$.b')
/// ```
pub(crate) fn put_changes(out: &mut Vec<u8>, changes: &[u8], number: usize) {
    let result = JsonDiff::read_all(changes).and_then(|changes| {
        put_functions(out, &changes);
        out.push(b'@');
        put_u64(out, number as u64);
        put_arguments(out, &changes)
    });
    if let Err(what) = result {
        out.extend_from_slice(what.as_bytes());
        out.push(b'\n');
    }
}

/// Line break between nested calls.
const NEXT_LINE: &[u8] = b"\n###      ";

/// Appends the function names, the last one outermost. Adjacent changes by the same function share a call.
fn put_functions(out: &mut Vec<u8>, changes: &[JsonDiff<'_>]) {
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

fn put_arguments(out: &mut Vec<u8>, changes: &[JsonDiff<'_>]) -> Result<(), &'static str> {
    for (index, change) in changes.iter().enumerate() {
        out.push(b',');
        out.extend_from_slice(if index == 0 { b" " } else { NEXT_LINE });
        put_quoted(out, change.path);
        if let Some(value) = change.value {
            out.extend_from_slice(b", ");
            put_argument(out, JsonDocument::new(value))?;
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
struct JsonDiff<'a> {
    operation: u8,
    path: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> JsonDiff<'a> {
    const REPLACE: u8 = 0;
    const INSERT: u8 = 1;
    const REMOVE: u8 = 2;

    /// Decodes all changes. An error is mysqlbinlog's text for it.
    fn read_all(bytes: &'a [u8]) -> Result<Vec<Self>, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut changes = Vec::new();
        while let Ok(operation) = cursor.u8() {
            if operation > Self::REMOVE {
                return Err("Error reading operation type (invalid operation code) while printing JSON diff");
            }
            let size =
                cursor.lenenc().map_err(|_| "Error reading path length to skip while printing JSON diff")?;
            let path = take(&mut cursor, size).map_err(|_| "Error skipping path while printing JSON diff")?;
            let value = match operation {
                Self::REMOVE => None,
                _ => {
                    let size = cursor
                        .lenenc()
                        .map_err(|_| "Error reading value length to skip while printing JSON diff")?;
                    Some(
                        take(&mut cursor, size)
                            .map_err(|_| "Error skipping value while printing JSON diff")?,
                    )
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

/// Appends a value as an argument of an SQL function.
fn put_argument(out: &mut Vec<u8>, value: JsonDocument<'_>) -> Result<(), &'static str> {
    let (front, is_quoted, back): (&[u8], _, &[u8]) =
        match value.root().map_err(|_| "Error parsing json value while printing JSON diff")? {
            JsonValue::Array(_) | JsonValue::Object(_) => (b"CAST(", true, b" AS JSON)"),
            JsonValue::Null
            | JsonValue::Bool(_)
            | JsonValue::Int(_)
            | JsonValue::UInt(_)
            | JsonValue::Double(_)
            | JsonValue::Decimal(_) => (b"", false, b""),
            _ => (b"", true, b""),
        };
    out.extend_from_slice(front);
    let start = out.len();
    if value.write(JsonQuotes::Inside, out).is_err() {
        out.truncate(start);
        return Err("Error converting json to string while printing JSON diff");
    }
    if is_quoted {
        quote_from(out, start);
    }
    out.extend_from_slice(back);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{UnwritableValue, put_changes, put_document};

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
        check(&[15, 253, 3, b'a', b'b', b'"'], "'ab\"'");
        check(&[2, 1, 0, 11, 0, 15, 7, 0, 253, 2, b'"', 9], "'[\"\\\\\"\\\\t\"]'");
        let long = [&[2, 1, 0, 69, 0, 15, 7, 0, 252, 60][..], &[0; 60]].concat();
        let expected = format!("'[\"base64:type252:{}\\\\nAAAA\"]'", "A".repeat(76));
        check(&long, &expected);
        check(&[15, 246, 5, 5, 2, 0x80, 1, 25], "'1.25'");
        // 65 digits. The stored precision counts 36 in the integer part, which has 35.
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
        for document in [&[3][..], &[4, 3], &[5, 0], &[12, 9, b'a'], &[99, 0], &[2, 9, 0, 4, 0]] {
            let mut out = Vec::new();
            assert_eq!(put_document(&mut out, document), Err(UnwritableValue), "{document:?}");
            assert_eq!(out, b"Invalid JSON\n");
        }
        check(&[2, 1, 0, 7, 0, 4, 3, 0], "Failed to format JSON object as string.\n");
        // An array that contains itself.
        check(&[2, 1, 0, 7, 0, 2, 0, 0], "Failed to format JSON object as string.\n");
    }

    #[test]
    fn changes() {
        check_changes(b"", "@2");
        check_changes(b"\x02\x03$.a", "JSON_REMOVE(@2, '$.a')");
        check_changes(b"\x02\x09$.a", "Error skipping path while printing JSON diff\n");
        check_changes(
            b"\x03",
            "Error reading operation type (invalid operation code) while printing JSON diff\n",
        );
        check_changes(b"\x02", "Error reading path length to skip while printing JSON diff\n");
        check_changes(b"\x00\x01$", "Error reading value length to skip while printing JSON diff\n");
        check_changes(b"\x00\x01$\x09x", "Error skipping value while printing JSON diff\n");
        check_changes(
            b"\x00\x01$\x01\x63",
            "JSON_REPLACE(@2, '$', Error parsing json value while printing JSON diff\n",
        );
        check_changes(
            b"\x00\x01$\x08\x02\x01\0\x07\0\x04\x03\0",
            "JSON_REPLACE(@2, '$', CAST(Error converting json to string while printing JSON diff\n",
        );
        check_changes(b"\x00\x03$.a\x03\x05\x07\x00", "JSON_REPLACE(@2, '$.a', 7)");
        check_changes(b"\x01\x03$.a\x05\x02\x00\x00\x04\x00", "JSON_INSERT(@2, '$.a', CAST('[]' AS JSON))");
        check_changes(b"\x01\x04$[1]\x03\x0c\x01'", "JSON_ARRAY_INSERT(@2, '$[1]', '\\'')");
        check_changes(
            b"\x02\x03$.a\x02\x03$.b\x00\x03$.c\x02\x04\x00",
            "JSON_REPLACE(\n###      JSON_REMOVE(@2, '$.a',\n###      '$.b'),\n###      '$.c', null)",
        );
    }

    #[track_caller]
    fn check(document: &[u8], expected: &str) {
        let mut out = Vec::new();
        put_document(&mut out, document).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[track_caller]
    fn check_changes(changes: &[u8], expected: &str) {
        let mut out = Vec::new();
        put_changes(&mut out, changes, 2);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
