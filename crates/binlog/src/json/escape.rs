//! Strings of JSON text.

/// Letters of the hexadecimal digits in `\u001f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonHexDigits {
    /// `\u001f`, as MySQL and bintide's lists write it.
    Lower,
    /// `\u001F`, as Debezium and Maxwell write it.
    Upper,
}

/// Appends a string in quotes; bytes beyond ASCII are not changed.
#[inline]
pub fn put_json_string(out: &mut Vec<u8>, text: &[u8], digits: JsonHexDigits) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    put_json_escaped(out, text, digits);
    out.push(b'"');
}

/// Appends a string without quotes; bytes beyond ASCII are not changed.
#[inline]
pub fn put_json_escaped(out: &mut Vec<u8>, text: &[u8], digits: JsonHexDigits) {
    let mut rest = text;
    while let Some(at) = first_escaped(rest) {
        out.extend_from_slice(&rest[..at]);
        put_escape(out, rest[at], digits);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Returns whether JSON requires escaping: quotes, backslashes and control characters.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[inline]
fn first_escaped(text: &[u8]) -> Option<usize> {
    /// Bytes checked together: without a branch per byte, the compiler uses vector instructions.
    const STEP: usize = 16;
    let (steps, _) = text.as_chunks::<STEP>();
    let clean = steps.iter().take_while(|step| !step.iter().fold(false, |any, byte| any | is_escaped(*byte)));
    let start = clean.count() * STEP;
    text[start..].iter().position(|byte| is_escaped(*byte)).map(|at| start + at)
}

fn put_escape(out: &mut Vec<u8>, byte: u8, digits: JsonHexDigits) {
    let digits: &[u8; 16] = match digits {
        JsonHexDigits::Lower => b"0123456789abcdef",
        JsonHexDigits::Upper => b"0123456789ABCDEF",
    };
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            let [high, low] = [byte >> 4, byte & 0xf].map(|digit| digits[usize::from(digit)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::{JsonHexDigits, put_json_string};

    #[test]
    fn hexadecimal_digits_have_the_chosen_case() {
        check(JsonHexDigits::Lower, "\0\u{1f}\u{7f}\u{e9}", "\"\\u0000\\u001f\u{7f}\u{e9}\"");
        check(JsonHexDigits::Upper, "\0\u{1f}\u{7f}\u{e9}", "\"\\u0000\\u001F\u{7f}\u{e9}\"");
    }

    #[track_caller]
    fn check(digits: JsonHexDigits, text: &str, expected: &str) {
        let mut out = Vec::new();
        put_json_string(&mut out, text.as_bytes(), digits);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
