//! Paths into JSON documents, as in partial updates: `$.name."another name"[3]`.

use super::changes::PATH_LEGS_MAX;
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};

/// One step of a path into a JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonPathLeg {
    /// Member of an object, by name.
    Name(Vec<u8>),
    /// Element of an array, counted from the start.
    Index(usize),
    /// Element of an array, counted from the end: 0 is the last one.
    FromLast(usize),
}

/// Parses a path.
///
/// # Errors
///
/// Fails if the path is invalid or can match several places.
pub(super) fn parse(path: &[u8], offset: usize) -> Result<Vec<JsonPathLeg>, DecodeError> {
    let mut cursor = Cursor::at(path, offset);
    expect(&mut cursor, b'$')?;
    let mut legs = Vec::new();
    while !cursor.is_empty() {
        if legs.len() == PATH_LEGS_MAX {
            let (found, max) = (PATH_LEGS_MAX as u64 + 1, PATH_LEGS_MAX as u64);
            return Err(cursor.error(DecodeReason::OutOfRange {
                field: "number of steps of a JSON path",
                found,
                max,
            }));
        }
        legs.push(match peek(&cursor) {
            Some(b'.') => name(&mut cursor)?,
            _ => index(&mut cursor)?,
        });
    }
    Ok(legs)
}

fn peek(cursor: &Cursor<'_>) -> Option<u8> {
    cursor.rest().first().copied()
}

fn expect(cursor: &mut Cursor<'_>, expected: u8) -> Result<(), DecodeError> {
    let offset = cursor.offset();
    match cursor.u8()? {
        byte if byte == expected => Ok(()),
        byte => Err(unexpected(offset, byte)),
    }
}

fn unexpected(offset: usize, byte: u8) -> DecodeError {
    let expected = "a path to a single place";
    let found = u64::from(byte);
    DecodeError::new(offset, DecodeReason::Unexpected { field: "byte of a JSON path", found, expected })
}

/// Parses `.name` or `."name"`.
fn name(cursor: &mut Cursor<'_>) -> Result<JsonPathLeg, DecodeError> {
    expect(cursor, b'.')?;
    if peek(cursor) == Some(b'"') {
        return quoted_name(cursor).map(JsonPathLeg::Name);
    }
    let size = cursor.rest().iter().take_while(|byte| !matches!(byte, b'.' | b'[' | b'*' | b'"')).count();
    match size {
        0 => Err(unexpected(cursor.offset(), peek(cursor).unwrap_or_default())),
        _ => Ok(JsonPathLeg::Name(cursor.bytes(size)?.to_vec())),
    }
}

/// Parses a quoted name, which is a JSON string.
fn quoted_name(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, DecodeError> {
    expect(cursor, b'"')?;
    let mut name = Vec::new();
    loop {
        match cursor.u8()? {
            b'"' => return Ok(name),
            b'\\' => {
                let character = escape(cursor)?;
                name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            byte => name.push(byte),
        }
    }
}

fn escape(cursor: &mut Cursor<'_>) -> Result<char, DecodeError> {
    let offset = cursor.offset();
    Ok(match cursor.u8()? {
        byte @ (b'"' | b'\\' | b'/') => char::from(byte),
        b'b' => '\x08',
        b't' => '\t',
        b'n' => '\n',
        b'f' => '\x0c',
        b'r' => '\r',
        b'u' => {
            let high = hex(cursor)?;
            match char::from_u32(high) {
                Some(character) => character,
                // The first half of a surrogate pair: the second half follows.
                None => {
                    expect(cursor, b'\\')?;
                    expect(cursor, b'u')?;
                    let units = [high as u16, hex(cursor)? as u16];
                    let character = char::decode_utf16(units).next().and_then(Result::ok);
                    character.ok_or_else(|| unexpected(offset, b'u'))?
                }
            }
        }
        byte => return Err(unexpected(offset, byte)),
    })
}

fn hex(cursor: &mut Cursor<'_>) -> Result<u32, DecodeError> {
    let mut number = 0;
    for _ in 0..4 {
        let offset = cursor.offset();
        let byte = cursor.u8()?;
        let digit = char::from(byte).to_digit(16).ok_or_else(|| unexpected(offset, byte))?;
        number = number << 4 | digit;
    }
    Ok(number)
}

/// Parses `[3]`, `[last]` or `[last-3]`.
fn index(cursor: &mut Cursor<'_>) -> Result<JsonPathLeg, DecodeError> {
    expect(cursor, b'[')?;
    let leg = match cursor.rest().strip_prefix(b"last") {
        Some(_) => {
            cursor.bytes(4)?;
            match peek(cursor) {
                Some(b'-') => {
                    cursor.u8()?;
                    JsonPathLeg::FromLast(number(cursor)?)
                }
                _ => JsonPathLeg::FromLast(0),
            }
        }
        None => JsonPathLeg::Index(number(cursor)?),
    };
    expect(cursor, b']')?;
    Ok(leg)
}

fn number(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    let offset = cursor.offset();
    let mut number: Option<u32> = None;
    while let Some(byte @ b'0'..=b'9') = peek(cursor) {
        cursor.u8()?;
        let digit = u32::from(byte - b'0');
        let longer = number.unwrap_or(0).checked_mul(10).and_then(|number| number.checked_add(digit));
        number = Some(longer.ok_or_else(|| unexpected(offset, byte))?);
    }
    match number {
        Some(number) => Ok(number as usize),
        None => Err(unexpected(offset, peek(cursor).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::{JsonPathLeg, parse};

    fn check(path: &str, expected: Option<&[JsonPathLeg]>) {
        assert_eq!(parse(path.as_bytes(), 0).ok().as_deref(), expected, "{path}");
    }

    fn name(name: &str) -> JsonPathLeg {
        JsonPathLeg::Name(name.as_bytes().to_vec())
    }

    #[test]
    fn paths_as_servers_write_them() {
        check("$", Some(&[]));
        check("$.a", Some(&[name("a")]));
        check(
            "$.a.b[3][0].c",
            Some(&[name("a"), name("b"), JsonPathLeg::Index(3), JsonPathLeg::Index(0), name("c")]),
        );
        check("$[last]", Some(&[JsonPathLeg::FromLast(0)]));
        check("$[last-2]", Some(&[JsonPathLeg::FromLast(2)]));
        check("$.last", Some(&[name("last")]));
        check(r#"$."a b""#, Some(&[name("a b")]));
        check(r#"$."".x"#, Some(&[name(""), name("x")]));
        check(r#"$."a\"\\\u00e9\n""#, Some(&[name("a\"\\é\n")]));
        check(r#"$."\ud83d\ude00""#, Some(&[name("😀")]));
        check("$.ключ", Some(&[name("ключ")]));
    }

    #[test]
    fn wildcard_and_invalid_paths() {
        for path in ["", "a", "$a", "$.", "$.*", "$**.a", "$[*]", "$[1 to 2]", "$[", "$[]", "$[1", "$[last-]"]
        {
            check(path, None);
        }
        for path in [r#"$.""#, r#"$."a"#, r#"$."\q""#, r#"$."\ud83d""#, "$[99999999999]"] {
            check(path, None);
        }
    }

    #[test]
    fn depth_is_limited() {
        let path = |steps: usize| format!("${}", "[0]".repeat(steps));
        assert_eq!(parse(path(100).as_bytes(), 0).unwrap().len(), 100);
        let error = parse(path(101).as_bytes(), 7).unwrap_err().to_string();
        assert_eq!(error, "byte 308: number of steps of a JSON path is 101, expected at most 100");
    }
}
