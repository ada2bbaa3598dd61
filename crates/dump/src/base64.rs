//! `BINLOG` statements: the bytes of an event in lines of base64.

use base64_simd::{Out, STANDARD};

/// Characters per line, as in mysqlbinlog's output.
const LINE_SIZE: usize = 76;

/// Bytes that one full line encodes.
pub(crate) const LINE_BYTES: usize = LINE_SIZE / 4 * 3;

/// Lines encoded per call, before they are split.
const LINES_AT_ONCE: usize = 16;

/// Appends `bytes` in base64, in lines of 76 characters, each ended by a newline.
pub fn put_lines(out: &mut Vec<u8>, bytes: &[u8]) {
    let lines = bytes.len().div_ceil(LINE_BYTES);
    out.reserve(lines * (LINE_SIZE + 1));
    let mut text = [0; LINE_SIZE * LINES_AT_ONCE];
    for block in bytes.chunks(LINE_BYTES * LINES_AT_ONCE) {
        let encoded = STANDARD.encode(block, Out::from_slice(&mut text));
        for line in encoded.chunks(LINE_SIZE) {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
}

/// Appends `bytes` in base64 with a newline between lines of 76 characters, and none at the end.
pub fn put_broken(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lines(out, bytes);
    if !bytes.is_empty() {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::{put_broken, put_lines};

    #[test]
    fn broken_lines_end_without_a_break() {
        let mut out = b"front:".to_vec();
        put_broken(&mut out, b"");
        put_broken(&mut out, &[0; 57]);
        assert_eq!(String::from_utf8(out).unwrap(), format!("front:{}", "A".repeat(76)));
    }

    #[test]
    fn lines_have_seventy_six_characters() {
        check(b"", "");
        check(b"a", "YQ==\n");
        check(&[0; 57], &format!("{}\n", "A".repeat(76)));
        check(&[0; 58], &format!("{}\nAA==\n", "A".repeat(76)));
        check(&[0; 57 * 64 + 3], &format!("{}AAAA\n", format!("{}\n", "A".repeat(76)).repeat(64)));
    }

    #[track_caller]
    fn check(bytes: &[u8], wanted: &str) {
        let mut out = Vec::new();
        put_lines(&mut out, bytes);
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
