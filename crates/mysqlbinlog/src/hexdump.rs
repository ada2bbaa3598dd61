//! `--hexdump`: an event's bytes in comments after its header line.

use std::io::Write;

use binlog::HEADER_SIZE;

use crate::quote::put_hex;

/// Bytes per line.
const LINE_BYTES: usize = 16;

/// Layout of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HexdumpForm {
    /// The header's fields in titled columns, then the body.
    Columns,
    /// The first bytes of the event, as many as its body has. This is what mysqlbinlog prints before a format
    /// description gives the header's size.
    Plain,
}

/// Appends the bytes of an event at `position` in its file. The text continues the header line and ends with the `# `
/// before the event's own text.
pub(crate) fn put_hexdump(out: &mut Vec<u8>, position: u64, event: &[u8], form: HexdumpForm) {
    out.push(b'\n');
    let (header, body) = event.split_at(event.len().min(HEADER_SIZE));
    let (start, rest) = match form {
        HexdumpForm::Columns => {
            const TITLES: &[u8] =
                b"# Position  Timestamp   Type   Source ID        Size      Source Pos    Flags \n";
            out.extend_from_slice(TITLES);
            put_position(out, position);
            put_header(out, header);
            (position + HEADER_SIZE as u64, body)
        }
        HexdumpForm::Plain => (position, &event[..body.len()]),
    };
    for (line, at) in rest.chunks(LINE_BYTES).zip((start..).step_by(LINE_BYTES)) {
        put_position(out, at);
        put_line(out, line);
    }
    out.extend_from_slice(b"# ");
}

/// Appends `# 00000017 `.
fn put_position(out: &mut Vec<u8>, position: u64) {
    // Writing to memory does not fail.
    let _ = write!(out, "# {position:08x} ");
}

/// Appends the header's fields: timestamp, type, server, size, next position, flags.
fn put_header(out: &mut Vec<u8>, header: &[u8]) {
    for (index, byte) in header.iter().enumerate() {
        match index {
            0 => {}
            4 | 5 | 9 | 13 | 17 => out.extend_from_slice(b"   "),
            _ => out.push(b' '),
        }
        put_hex(out, &[*byte]);
    }
    out.push(b'\n');
}

/// Appends two groups of eight bytes, then the characters: letters and digits as they are, dots for all others.
fn put_line(out: &mut Vec<u8>, bytes: &[u8]) {
    const WIDTH: usize = 3 * LINE_BYTES;
    let start = out.len();
    for (index, byte) in bytes.iter().enumerate() {
        if index >= LINE_BYTES / 2 {
            out.push(b' ');
        }
        put_hex(out, &[*byte]);
        if index < LINE_BYTES / 2 {
            out.push(b' ');
        }
    }
    out.resize(start + WIDTH, b' ');
    out.extend_from_slice(b" |");
    out.extend(bytes.iter().map(|byte| if byte.is_ascii_alphanumeric() { *byte } else { b'.' }));
    out.extend_from_slice(b"|\n");
}

#[cfg(test)]
mod tests {
    use binlog::HEADER_SIZE;

    use super::{HexdumpForm, put_hexdump};

    #[test]
    fn an_event_in_hexadecimal() {
        let header = [0x80, 0x0a, 2, 0x6b, 0x23, 1, 0, 0, 0, 0x47, 0, 0, 0, 0xc6, 0, 0, 0, 0x80, 0];
        let front = "\n# Position  Timestamp   Type   Source ID        Size      Source Pos    Flags \n\
                     # 0000007f 80 0a 02 6b   23   01 00 00 00   47 00 00 00   c6 00 00 00   80 00\n";
        let full = "# 00000092 00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00 |................|\n";
        let some = "# 000000a2 41 7a 39 ff                                      |Az9.|\n";
        let nine = "# 000000a2 30 30 30 30 30 30 30 30  30                      |000000000|\n";
        check(0x7f, &header, &[], &format!("{front}# "));
        check(0x7f, &header, &[0; 16], &format!("{front}{full}# "));
        check(0x7f, &header, &[&[0; 16][..], b"Az9\xff"].concat(), &format!("{front}{full}{some}# "));
        check(0x7f, &header, &[&[0; 16][..], b"000000000"].concat(), &format!("{front}{full}{nine}# "));
        let far = front.replace("0000007f", "10000007f");
        check(0x1_0000_007f, &header, &[], &format!("{far}# "));
    }

    #[test]
    fn an_event_in_front_of_any_format_description() {
        let mut out = Vec::new();
        put_hexdump(&mut out, 4, &[1; HEADER_SIZE + 3], HexdumpForm::Plain);
        let expected = "\n# 00000004 01 01 01                                         |...|\n# ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[track_caller]
    fn check(position: u64, header: &[u8], body: &[u8], expected: &str) {
        let mut out = Vec::new();
        put_hexdump(&mut out, position, &[header, body].concat(), HexdumpForm::Columns);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
