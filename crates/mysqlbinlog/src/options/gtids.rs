//! GTID sets in options, and MySQL 9.7's error messages for invalid ones.

use std::fmt::Write as _;

use binlog::gtid::{Gno, GtidSet};

/// Number of characters shown before the error, if not all fit.
const CONTEXT_BEFORE_MAX: usize = 11;

/// Number of characters shown after the error, if not all fit.
const CONTEXT_AFTER_MAX: usize = 25;

/// Mark for omitted characters.
const ELLIPSIS: &str = "...";

/// Maximum length of a tag.
const TAG_SIZE_MAX: usize = 32;

/// Parses a set. The error is MySQL's message.
pub(crate) fn parse(text: &[u8]) -> Result<GtidSet, String> {
    let mut scanner = GtidSetScanner { text, at: 0 };
    match scanner.read_set() {
        // Tags with letters outside ASCII pass MySQL's check, but match no transaction.
        Ok(()) => Ok(GtidSet::parse(text).unwrap_or_default()),
        Err(fault) => Err(fault.message(text)),
    }
}

/// Offset of the error in the text, and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GtidSetFault {
    at: usize,
    what: &'static str,
}

impl GtidSetFault {
    fn message(self, text: &[u8]) -> String {
        let (before, after) = text.split_at(self.at);
        let mut out = match self.at {
            0 => format!("{} at the beginning of the string: \"", self.what),
            at => format!("{} after {at} characters, marked by [HERE] in: \"", self.what),
        };
        if before.len() > CONTEXT_BEFORE_MAX + ELLIPSIS.len() {
            out.push_str(ELLIPSIS);
            escape(&before[before.len() - CONTEXT_BEFORE_MAX..], &mut out);
        } else {
            escape(before, &mut out);
        }
        if self.at > 0 {
            out.push_str("[HERE]");
        }
        if after.len() > CONTEXT_AFTER_MAX + ELLIPSIS.len() {
            escape(&after[..CONTEXT_AFTER_MAX], &mut out);
            out.push_str(ELLIPSIS);
        } else {
            escape(after, &mut out);
        }
        out.push('"');
        out
    }
}

fn escape(text: &[u8], out: &mut String) {
    for byte in text {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            0..0x20 | 0x80.. => {
                // Writing to memory does not fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
            _ => out.push(char::from(*byte)),
        }
    }
}

struct GtidSetScanner<'t> {
    text: &'t [u8],
    at: usize,
}

// set       = [uuid *( ":" ( tag / interval ) )] *( "," set ), spaces anywhere between them
// uuid      = 32 hexadecimal digits, with dashes after the 8th, 12th, 16th and 20th or without any; those with
//             dashes may stand in braces
// interval  = number ["-" number]
impl GtidSetScanner<'_> {
    fn read_set(&mut self) -> Result<(), GtidSetFault> {
        loop {
            while self.take_spaced(b',') {}
            if self.rest().is_empty() {
                return Ok(());
            }
            self.read_uuid()?;
            while self.take_spaced(b':') {
                if !self.read_tag() {
                    self.read_interval()?;
                }
            }
            if !self.rest().is_empty() && self.peek() != Some(b',') {
                return Err(self.fault("Expected \",\""));
            }
        }
    }

    fn read_uuid(&mut self) -> Result<(), GtidSetFault> {
        let braced = self.take_exact(b'{');
        self.read_hex(4)?;
        if !braced && self.peek() != Some(b'-') {
            return self.read_hex(12);
        }
        for count in [2, 2, 2, 6] {
            if !self.take_exact(b'-') {
                return Err(self.fault("Expected \"-\""));
            }
            self.read_hex(count)?;
        }
        if braced && !self.take_exact(b'}') {
            return Err(self.fault("Expected \"}\""));
        }
        Ok(())
    }

    /// Reads `count` pairs of hexadecimal digits.
    fn read_hex(&mut self, count: usize) -> Result<(), GtidSetFault> {
        for _ in 0..count {
            let Some([high, low]) = self.rest().first_chunk() else {
                return Err(self.fault("Expected at least two hex digits"));
            };
            match (high.is_ascii_hexdigit(), low.is_ascii_hexdigit()) {
                (true, true) => self.at += 2,
                (high, _) => {
                    self.at += usize::from(high);
                    return Err(self.fault("Expected hex digit"));
                }
            }
        }
        Ok(())
    }

    fn read_tag(&mut self) -> bool {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
        let is_part = |byte: u8| is_letter(byte) || byte.is_ascii_digit();
        let size = self.rest().iter().take_while(|byte| is_part(**byte)).count();
        if !self.peek().is_some_and(is_letter) || size > TAG_SIZE_MAX {
            return false;
        }
        self.at += size;
        true
    }

    fn read_interval(&mut self) -> Result<(), GtidSetFault> {
        let start_at = self.at;
        if Gno::new(self.read_number()?).is_none() {
            return Err(GtidSetFault { at: start_at, what: "Interval start out of range" });
        }
        if self.take_spaced(b'-') && self.read_number()? > Gno::MAX {
            return Err(self.fault("Interval end out of range"));
        }
        Ok(())
    }

    fn read_number(&mut self) -> Result<u64, GtidSetFault> {
        let size = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if size == 0 {
            return Err(self.fault("Expected number"));
        }
        let digits = std::str::from_utf8(&self.rest()[..size]).unwrap_or_default();
        let number = digits.parse().map_err(|_| self.fault("Number out of range"))?;
        self.at += size;
        Ok(number)
    }

    /// Reads a byte with optional spaces around it. Spaces before it are skipped even if it is missing.
    fn take_spaced(&mut self, expected: u8) -> bool {
        self.skip_space();
        let found = self.take_exact(expected);
        if found {
            self.skip_space();
        }
        found
    }

    fn take_exact(&mut self, expected: u8) -> bool {
        let found = self.peek() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn fault(&self, what: &'static str) -> GtidSetFault {
        GtidSetFault { at: self.at, what }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = parse(text.as_bytes()).map(|set| set.to_string());
        assert_eq!(found, Ok(expected.to_owned()), "{text}");
    }

    #[track_caller]
    fn refuse(text: &str, expected: &str) {
        let found = parse(text.as_bytes()).map(|set| set.to_string());
        assert_eq!(found, Err(expected.to_owned()), "{text}");
    }

    #[test]
    fn sets() {
        check("", "");
        check(" , ,", "");
        check(UUID, "");
        check(&format!("{{{UUID}}} : 1 - 3 ,"), &format!("{UUID}:1-3"));
        check(&format!("{UUID}:5-2:7:tag:1"), &format!("{UUID}:7:tag:1"));
        check(&UUID.replace('-', ""), "");
    }

    #[test]
    fn faults() {
        let start = "marked by [HERE] in:";
        refuse("a", "Expected at least two hex digits at the beginning of the string: \"a\"");
        refuse("foo", &format!("Expected hex digit after 1 characters, {start} \"f[HERE]oo\""));
        refuse(
            &format!("{UUID}:"),
            &format!("Expected number after 37 characters, {start} \"...6789abcdef:[HERE]\""),
        );
        refuse(
            &format!("{UUID}:1 x\n"),
            &format!("Expected \",\" after 39 characters, {start} \"...89abcdef:1 [HERE]x\\n\""),
        );
        refuse(
            &format!("{UUID}:0-1"),
            &format!("Interval start out of range after 37 characters, {start} \"...6789abcdef:[HERE]0-1\""),
        );
        refuse(
            &format!("{UUID}:1-9223372036854775807"),
            "Interval end out of range after 58 characters, marked by [HERE] in: \"...36854775807[HERE]\"",
        );
        let long = "x".repeat(29);
        let shown = "x".repeat(25);
        refuse(&long, &format!("Expected hex digit at the beginning of the string: \"{shown}...\""));
        refuse(
            "01234567-89abx",
            &format!("Expected \"-\" after 13 characters, {start} \"01234567-89ab[HERE]x\""),
        );
    }
}
