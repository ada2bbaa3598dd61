//! Quoted strings, as `mysqlbinlog -v` writes them.

/// Appends `bytes` between single quotes.
///
/// Backslash, quote and five control characters are escaped by a letter, other bytes below 32 by `\xNN`. All other
/// bytes are unchanged, whatever the character set.
#[inline]
pub(crate) fn put_quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'\'');
    match is_plain(bytes) {
        true => out.extend_from_slice(bytes),
        false => put_escaped(out, bytes),
    }
    out.push(b'\'');
}

/// Quotes the bytes of `out` from `start` on, as [`put_quoted`] does.
pub(crate) fn quote_from(out: &mut Vec<u8>, start: usize) {
    match is_plain(&out[start..]) {
        true => {
            out.insert(start, b'\'');
            out.push(b'\'');
        }
        false => {
            let bytes = out.split_off(start);
            put_quoted(out, &bytes);
        }
    }
}

/// Appends bytes, escaped as in [`put_quoted`].
pub(crate) fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        // Growing by doubling would need twice the memory of a huge value.
        LARGE_SIZE.. => out.reserve_exact(bytes.iter().map(|byte| escaped_size(*byte)).sum()),
        size => out.reserve(size + size / 8),
    }
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            control if control < b' ' => {
                out.extend_from_slice(b"\\x");
                put_hex(out, &[control]);
            }
            plain => out.push(plain),
        }
    }
}

/// Size from which the length of the escaped text is computed first, in bytes.
const LARGE_SIZE: usize = 16 << 20;

/// Returns the size of an escaped byte.
const fn escaped_size(byte: u8) -> usize {
    match byte {
        b'\'' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        control if control < b' ' => 4,
        _ => 1,
    }
}

/// Appends two lower-case hexadecimal digits per byte.
pub(crate) fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
    }
}

/// Returns the lower-case hexadecimal digit of a number below 16.
pub(crate) const fn hex(digit: u8) -> u8 {
    match digit {
        0..=9 => b'0' + digit,
        _ => b'a' + digit - 10,
    }
}

/// Returns whether no byte must be escaped. Checks many bytes at once; the last group overlaps the one before.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<16>() {
        let all = bytes.as_chunks::<16>().0;
        return !all.iter().fold(must_escape_any(last), |any, chunk| any | must_escape_any(chunk));
    }
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            must_escape_in(u64::from_le_bytes(*first)) | must_escape_in(u64::from_le_bytes(*last)) == 0
        }
        _ => !bytes.iter().any(|byte| must_escape(*byte)),
    }
}

#[inline]
fn must_escape_any(bytes: &[u8; 16]) -> bool {
    bytes.iter().fold(false, |any, byte| any | must_escape(*byte))
}

#[inline]
const fn must_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'\'' || byte == b'\\'
}

/// Returns a value other than zero if one of the eight bytes must be escaped.
#[inline]
const fn must_escape_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let below_space = word.wrapping_sub(ONES * b' ' as u64) & !word;
    let quote = word ^ (ONES * b'\'' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    (below_space | quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::{put_quoted, quote_from};

    #[test]
    fn escapes_are_as_long_as_measured() {
        for byte in 0..=u8::MAX {
            let mut out = Vec::new();
            super::put_escaped(&mut out, &[byte]);
            assert_eq!(out.len(), super::escaped_size(byte), "{byte}");
        }
    }

    #[test]
    fn quotes_and_escapes() {
        check(b"", "''");
        check(b"abc", "'abc'");
        check(b"it's", "'it\\'s'");
        check(b"a\\b", "'a\\\\b'");
        check(
            b"\x00\x07\x08\t\n\x0b\x0c\r\x1a\x1b\x1f \x7f",
            "'\\x00\\x07\\b\\t\\n\\x0b\\f\\r\\x1a\\x1b\\x1f \x7f'",
        );
        check("ü€😀".as_bytes(), "'ü€😀'");
        check(b"%s \" `", "'%s \" `'");
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=127_u8 {
            for size in 1..40 {
                for offset in 0..size {
                    let mut bytes = vec![b'x'; size];
                    bytes[offset] = byte;
                    let mut expected = "x".repeat(size);
                    let escaped = match byte {
                        b'\'' => "\\'".to_owned(),
                        b'\\' => "\\\\".to_owned(),
                        8 => "\\b".to_owned(),
                        9 => "\\t".to_owned(),
                        10 => "\\n".to_owned(),
                        12 => "\\f".to_owned(),
                        13 => "\\r".to_owned(),
                        0..32 => format!("\\x{byte:02x}"),
                        _ => char::from(byte).to_string(),
                    };
                    expected.replace_range(offset..=offset, &escaped);
                    check(&bytes, &format!("'{expected}'"));
                }
            }
        }
    }

    #[test]
    fn quotes_what_is_written_already() {
        let mut out = b"before it's".to_vec();
        quote_from(&mut out, 7);
        assert_eq!(out, b"before 'it\\'s'");
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let mut out = Vec::new();
        put_quoted(&mut out, bytes);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
