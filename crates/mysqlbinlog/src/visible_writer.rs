//! Escapes control characters in lists on a terminal, so that no name or value can move the cursor or reverse the text.
//!
//! mysqlbinlog's text is not changed.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::list_provider::{ListLayout, ListLines};

/// Notation of escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeStyle {
    /// `\u{1b}`
    Text,
    /// `\u001b`, which JSON parsers decode.
    Json,
}

impl EscapeStyle {
    /// Returns the notation for a list.
    pub(crate) fn of(list: ListLayout) -> Self {
        match list.lines {
            ListLines::Table { .. } => Self::Text,
            ListLines::Json => Self::Json,
        }
    }
}

/// Writes UTF-8 text, with control characters other than tab and newline as escapes. Text may arrive in pieces of any
/// size.
pub(crate) struct VisibleWriter<'o> {
    output: &'o mut (dyn Write + Send),
    escapes: EscapeStyle,
    /// First bytes of a multi-byte character that may need an escape.
    begun: Vec<u8>,
    written: Vec<u8>,
}

/// First bytes of the escaped multi-byte characters: C1 controls and bidirectional controls.
const ESCAPED_LEAD_BYTES: [&[u8]; 5] = [b"\xc2", b"\xd8", b"\xe2", b"\xe2\x80", b"\xe2\x81"];

impl<'o> VisibleWriter<'o> {
    pub(crate) fn new(escapes: EscapeStyle, output: &'o mut (dyn Write + Send)) -> Self {
        Self { output, escapes, begun: Vec::new(), written: Vec::new() }
    }

    fn put(&mut self, byte: u8) {
        self.begun.push(byte);
        if ESCAPED_LEAD_BYTES.contains(&self.begun.as_slice()) {
            return;
        }
        let character = str::from_utf8(&self.begun).ok().and_then(|text| text.chars().next());
        match character
            .filter(|character| !matches!(character, '\t' | '\n') && is_control_or_bidi(*character))
        {
            Some(character) => self.escape(character),
            None => self.written.extend_from_slice(&self.begun),
        }
        self.begun.clear();
    }

    fn escape(&mut self, character: char) {
        let (mut escaped, code) = (String::new(), u32::from(character));
        // Writing to a string does not fail.
        let _ = match self.escapes {
            EscapeStyle::Text => write!(escaped, "\\u{{{code:x}}}"),
            EscapeStyle::Json => write!(escaped, "\\u{code:04x}"),
        };
        self.written.extend_from_slice(escaped.as_bytes());
    }
}

impl Write for VisibleWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.clear();
        bytes.iter().for_each(|byte| self.put(*byte));
        self.output.write_all(&self.written)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Returns a message with control characters escaped, except newlines at its end.
pub(crate) fn visible_line(line: &[u8]) -> Vec<u8> {
    let size = line.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let (line, ends) = line.split_at(size);
    let mut visible = Vec::with_capacity(line.len() + ends.len());
    for (number, part) in line.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            visible.extend_from_slice(br"\u{a}");
        }
        let mut written = Vec::new();
        let mut writer = VisibleWriter::new(EscapeStyle::Text, &mut written);
        // Writing to memory does not fail.
        let _ = writer.write_all(part);
        let begun = std::mem::take(&mut writer.begun);
        visible.extend_from_slice(&written);
        visible.extend_from_slice(&begun);
    }
    visible.extend_from_slice(ends);
    visible
}

/// Returns whether a character moves the cursor or changes the direction of text, and so could hide text.
pub fn is_control_or_bidi(character: char) -> bool {
    match character {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{EscapeStyle, VisibleWriter};

    #[test]
    fn messages_stay_on_one_line() {
        let check = |line: &[u8], expected: &[u8]| assert_eq!(super::visible_line(line), expected);
        check(b"ERROR: no\r\n\x1bc words!\n", b"ERROR: no\\u{d}\\u{a}\\u{1b}c words!\n");
        check(b"\n", b"\n");
        check(b"\xc2", b"\xc2");
    }

    #[test]
    fn control_characters_are_escaped_across_writes() {
        let check = |escapes, text: &[u8], expected: &[u8]| {
            for size in 1..=text.len() {
                let mut out = Vec::new();
                let mut writer = VisibleWriter::new(escapes, &mut out);
                text.chunks(size).for_each(|piece| writer.write_all(piece).unwrap());
                assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{size}");
            }
        };
        check(EscapeStyle::Text, "größe\ta – €\n".as_bytes(), "größe\ta – €\n".as_bytes());
        check(
            EscapeStyle::Text,
            b"a\x1b[2J\r\x7f\n",
            br"a\u{1b}[2J\u{d}\u{7f}
",
        );
        check(EscapeStyle::Text, "\u{9b}31m\u{202e}x\u{61c}".as_bytes(), br"\u{9b}31m\u{202e}x\u{61c}");
        check(EscapeStyle::Json, "\u{7f}\u{9b}\u{202e}".as_bytes(), br"\u007f\u009b\u202e");
        // Invalid UTF-8 is left as it is.
        check(EscapeStyle::Text, b"\xff\xc2x\xe2\x80x", b"\xff\xc2x\xe2\x80x");
    }
}
