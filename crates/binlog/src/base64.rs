//! Base64, on one line and in lines of 76 characters.

use base64_simd::{Out, STANDARD};

/// Characters per line, as servers and mysqlbinlog write them.
const LINE_SIZE: usize = 76;

/// Number of bytes in one full line of [`put_base64_lines`].
pub const BASE64_LINE_BYTES: usize = LINE_SIZE / 4 * 3;

/// Lines encoded per call, before they are split.
const LINES_AT_ONCE: usize = 16;

/// Appends bytes in base64, on one line.
pub fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    // The library reserves no more than the text needs, which would be slow for many short values.
    out.reserve(STANDARD.encoded_length(bytes.len()));
    STANDARD.encode_append(bytes, out);
}

/// Appends bytes in base64, in lines of 76 characters with `line_break` between them.
#[inline]
pub fn put_base64_lines(out: &mut Vec<u8>, bytes: &[u8], line_break: &[u8]) {
    let lines = bytes.len().div_ceil(BASE64_LINE_BYTES);
    out.reserve(lines * (LINE_SIZE + line_break.len()));
    let mut text = [0; LINE_SIZE * LINES_AT_ONCE];
    let mut is_first = true;
    for block in bytes.chunks(BASE64_LINE_BYTES * LINES_AT_ONCE) {
        for line in STANDARD.encode(block, Out::from_slice(&mut text)).chunks(LINE_SIZE) {
            if !is_first {
                out.extend_from_slice(line_break);
            }
            is_first = false;
            out.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{put_base64, put_base64_lines};

    #[test]
    fn lines_have_seventy_six_characters() {
        let line = "A".repeat(76);
        check(b"", "");
        check(b"a", "YQ==");
        check(&[0; 57], &line);
        check(&[0; 58], &format!("{line}\\nAA=="));
        check(&[0; 57 * 64 + 3], &format!("{}AAAA", format!("{line}\\n").repeat(64)));
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let (mut lines, mut line) = (b"front:".to_vec(), b"front:".to_vec());
        put_base64_lines(&mut lines, bytes, b"\\n");
        put_base64(&mut line, bytes);
        assert_eq!(String::from_utf8(lines).unwrap(), format!("front:{expected}"));
        assert_eq!(String::from_utf8(line).unwrap(), format!("front:{}", expected.replace("\\n", "")));
    }
}
