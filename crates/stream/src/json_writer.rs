//! Writing of JSON text into byte buffers.

use binlog::{JsonHexDigits, put_json_escaped, put_json_string};
use sql::numbers::put_u64;

use crate::resume_token::ResumeToken;

/// Appends the output of `put` in quotes.
pub(crate) fn put_quoted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    put(out);
    out.push(b'"');
}

/// Appends a string in quotes.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_json_string(out, text.as_bytes(), JsonHexDigits::Upper);
}

/// Appends a string without quotes, escaped; `text` is UTF-8.
pub(crate) fn put_escaped(out: &mut Vec<u8>, text: &[u8]) {
    put_json_escaped(out, text, JsonHexDigits::Upper);
}

/// Appends a resume token in quotes.
pub(crate) fn put_token(out: &mut Vec<u8>, token: &ResumeToken) {
    out.push(b'"');
    put_escaped(out, token.at.log.as_bytes());
    out.push(b':');
    put_u64(out, token.at.position);
    if let Some(gtid) = &token.gtid {
        out.push(b',');
        put_escaped(out, gtid.as_bytes());
    }
    out.push(b'"');
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
    put_quoted(out, |out| binlog::put_base64(out, bytes));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{put_base64, put_float, put_string, put_token};

    fn check(put: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        put(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
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
            let mut expected = Vec::new();
            put_string(&mut expected, text);
            let expected = String::from_utf8(expected).unwrap();
            check(|out| put_token(out, &text.parse().unwrap()), &expected);
        }
    }

    #[test]
    fn numbers() {
        check(|out| put_float(out, 0.1f32), "0.1");
        check(|out| put_float(out, -0.0f64), "-0.0");
        check(|out| put_float(out, f64::NAN), "null");
        check(|out| put_float(out, f32::NEG_INFINITY), "null");
    }

    #[test]
    fn long_bytes() {
        check(|out| put_base64(out, &[0; 9_999]), &format!("\"{}\"", "A".repeat(13_332)));
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
