//! Writing of JSON text into byte buffers.

use base64_simd::{Out, STANDARD};

use crate::resume_token::ResumeToken;

/// Appends the output of `put` in quotes.
pub(crate) fn put_quoted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    put(out);
    out.push(b'"');
}

/// Appends a string in quotes.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    put_escaped(out, text.as_bytes());
    out.push(b'"');
}

/// Appends a string without quotes, escaped; `text` is UTF-8.
pub(crate) fn put_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = first_escaped(rest) {
        out.extend_from_slice(&rest[..at]);
        put_escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Returns whether JSON requires escaping: quotes, backslashes and control characters.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn first_escaped(text: &[u8]) -> Option<usize> {
    /// Bytes checked together: without a branch per byte, the compiler uses vector instructions.
    const STEP: usize = 16;
    let (steps, _) = text.as_chunks::<STEP>();
    let clean = steps.iter().take_while(|step| !step.iter().fold(false, |any, byte| any | is_escaped(*byte)));
    let start = clean.count() * STEP;
    text[start..].iter().position(|byte| is_escaped(*byte)).map(|at| start + at)
}

fn put_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends a resume token in quotes.
pub(crate) fn put_token(out: &mut Vec<u8>, token: &ResumeToken) {
    out.push(b'"');
    put_escaped(out, token.place.log.as_bytes());
    out.push(b':');
    put_integer(out, token.place.position);
    if let Some(gtid) = &token.gtid {
        out.push(b',');
        put_escaped(out, gtid.as_bytes());
    }
    out.push(b'"');
}

/// Appends a number.
#[inline]
pub(crate) fn put_integer(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number in as few digits as identify it; `null` for NaN and infinity, which no server stores.
pub(crate) fn put_float(out: &mut Vec<u8>, number: impl zmij::Float) {
    match zmij::Buffer::new().format(number) {
        "NaN" | "inf" | "-inf" => out.extend_from_slice(b"null"),
        text => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends bytes as a base64 string.
pub(crate) fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    /// Bytes encoded at once: a multiple of three.
    const STEP: usize = 3 << 10;
    out.push(b'"');
    let mut text = [0; STEP / 3 * 4];
    for step in bytes.chunks(STEP) {
        out.extend_from_slice(STANDARD.encode(step, Out::from_slice(&mut text)));
    }
    out.push(b'"');
}

/// Appends a number with at least `width` digits.
pub(crate) fn put_digits(out: &mut Vec<u8>, number: u32, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(number).as_bytes();
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{put_base64, put_digits, put_float, put_string, put_token};

    fn check(put: impl Fn(&mut Vec<u8>), wanted: &str) {
        let mut out = Vec::new();
        put(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn strings() {
        check(|out| put_string(out, ""), "\"\"");
        check(|out| put_string(out, "a\"b\\c/\u{8}\t\n\u{c}\r"), r#""a\"b\\c/\b\t\n\f\r""#);
        check(|out| put_string(out, "\0\u{1f}\u{7f}é😀"), "\"\\u0000\\u001F\u{7f}é😀\"");
    }

    #[test]
    fn escapes_are_found_at_every_offset() {
        let text = "x".repeat(40);
        for at in 0..text.len() {
            let (front, behind) = text.split_at(at);
            check(|out| put_string(out, &format!("{front}\"{behind}")), &format!("\"{front}\\\"{behind}\""));
        }
    }

    #[test]
    fn tokens_are_written_as_their_text() {
        for text in ["binlog.000003:1234", "a\"b:4,3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:7"] {
            let mut wanted = Vec::new();
            put_string(&mut wanted, text);
            let wanted = String::from_utf8(wanted).unwrap();
            check(|out| put_token(out, &text.parse().unwrap()), &wanted);
        }
    }

    #[test]
    fn numbers() {
        check(|out| put_float(out, 0.1f32), "0.1");
        check(|out| put_float(out, -0.0f64), "-0.0");
        check(|out| put_float(out, f64::NAN), "null");
        check(|out| put_float(out, f32::NEG_INFINITY), "null");
        check(|out| put_digits(out, 7, 3), "007");
        check(|out| put_digits(out, 12345, 3), "12345");
    }

    #[test]
    fn long_bytes() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        check(
            |out| put_base64(out, &bytes),
            &format!("\"{}\"", base64_simd::STANDARD.encode_to_string(&bytes)),
        );
    }

    proptest! {
        #[test]
        fn values_round_trip(text: String, number: f64) {
            let mut out = Vec::new();
            put_string(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            out.clear();
            put_float(&mut out, number);
            if number.is_finite() {
                assert_eq!(String::from_utf8(out).unwrap().parse(), Ok(number));
            }
        }
    }
}
