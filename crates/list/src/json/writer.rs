//! Writes JSON directly into bytes, without a tree or copies.

use binlog::{Charset, Date, JsonHexDigits, put_base64, put_json_string};
use sql::numbers::{put_i64, put_padded, put_u64};

/// An unfinished JSON object.
pub(crate) struct JsonObject<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> JsonObject<'o> {
    /// Begins an object; [`JsonObject::close`] ends it.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Ends the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }

    /// Writes a member's name, which must be ASCII without characters to escape.
    #[inline]
    fn plain_name(&mut self, name: &'static str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a member's name; the caller writes the value.
    pub(crate) fn value(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.plain_name(name)
    }

    /// Writes an unsigned number.
    pub(crate) fn uint(&mut self, name: &'static str, value: impl Into<u64>) {
        put_u64(self.plain_name(name), value.into());
    }

    /// Writes a signed number.
    pub(crate) fn int(&mut self, name: &'static str, value: impl Into<i64>) {
        put_i64(self.plain_name(name), value.into());
    }

    /// Writes `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &'static str, value: bool) {
        put_boolean(self.plain_name(name), value);
    }

    /// Writes text that needs no escapes.
    pub(crate) fn plain(&mut self, name: &'static str, value: &str) {
        put_plain(self.plain_name(name), value);
    }

    /// Writes text. Invalid UTF-8 becomes U+FFFD.
    pub(crate) fn text(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        put_string_lossy(self.plain_name(name), value.as_ref());
    }

    /// Writes text, or bytes if it is invalid UTF-8.
    pub(crate) fn text_or_bytes(&mut self, name: &'static str, value: &[u8]) {
        put_text_or_bytes(self.plain_name(name), value);
    }

    /// Writes bytes: `{"base64":"…"}`.
    pub(crate) fn bytes(&mut self, name: &'static str, value: &[u8]) {
        put_bytes(self.plain_name(name), value);
    }

    /// Writes a number as a string of eight hexadecimal digits: `"0x000000ab"`.
    pub(crate) fn hex(&mut self, name: &'static str, value: u32) {
        let out = self.plain_name(name);
        out.extend_from_slice(b"\"0x");
        out.extend((0..8).rev().map(|digit| HEX[(value >> (digit * 4) & 0xf) as usize]));
        out.push(b'"');
    }

    /// Writes a time: `2026-11-21T21:14:59Z`.
    pub(crate) fn time(&mut self, name: &'static str, seconds: u64) {
        let out = self.plain_name(name);
        out.push(b'"');
        put_moment(out, seconds);
        out.extend_from_slice(b"Z\"");
    }

    /// Writes a time with microseconds: `2026-11-21T21:14:59.182040Z`.
    pub(crate) fn time_us(&mut self, name: &'static str, micros: u64) {
        let out = self.plain_name(name);
        out.push(b'"');
        put_moment_us(out, micros);
        out.extend_from_slice(b"Z\"");
    }

    /// Begins an object as a member.
    pub(crate) fn object(&mut self, name: &'static str) -> JsonObject<'_> {
        JsonObject::open(self.plain_name(name))
    }

    /// Begins an array as a member.
    pub(crate) fn array(&mut self, name: &'static str) -> JsonArray<'_> {
        JsonArray::open(self.plain_name(name))
    }
}

/// An unfinished JSON array.
pub(crate) struct JsonArray<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> JsonArray<'o> {
    /// Begins an array; [`JsonArray::close`] ends it.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, is_empty: true }
    }

    /// Ends the array.
    pub(crate) fn close(self) {
        self.out.push(b']');
    }

    /// Writes text that needs no escapes.
    pub(crate) fn plain(&mut self, value: &str) {
        put_plain(self.element(), value);
    }

    /// Writes a number.
    pub(crate) fn uint(&mut self, value: impl Into<u64>) {
        put_u64(self.element(), value.into());
    }

    /// Writes text, or bytes if it is invalid UTF-8.
    pub(crate) fn text_or_bytes(&mut self, value: &[u8]) {
        put_text_or_bytes(self.element(), value);
    }

    /// Begins an object as an element.
    pub(crate) fn object(&mut self) -> JsonObject<'_> {
        JsonObject::open(self.element())
    }

    /// Begins an element, which the caller writes.
    pub(crate) fn element(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn put_boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn put_plain(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Writes text of a character set, or `{"base64":"…"}` if it is invalid. Without a character set, valid UTF-8 is text.
/// The character set `binary` always gives base64.
#[inline]
pub(crate) fn put_decoded(out: &mut Vec<u8>, charset: Option<Charset>, bytes: &[u8]) {
    match charset {
        None => put_text_or_bytes(out, bytes),
        Some(Charset::Binary) => put_bytes(out, bytes),
        Some(charset) => match charset.decode(bytes) {
            Ok(text) => put_string(out, &text),
            Err(_) => put_bytes(out, bytes),
        },
    }
}

/// Writes `{"base64":"…"}`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"{\"base64\":\"");
    put_base64(out, bytes);
    out.extend_from_slice(b"\"}");
}

/// Writes text, or `{"base64":"…"}` if it is invalid UTF-8.
#[inline]
pub(crate) fn put_text_or_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => put_string(out, text),
        Err(_) => put_bytes(out, bytes),
    }
}

/// Writes a string. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn put_string_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    put_string(out, &String::from_utf8_lossy(bytes));
}

/// Writes a string in quotes.
#[inline]
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_json_string(out, text.as_bytes(), JsonHexDigits::Lower);
}

/// Writes a time in UTC without zone, given in seconds since 1970: `2026-11-21T21:14:59`.
pub(crate) fn put_moment(out: &mut Vec<u8>, seconds: u64) {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    Date::from_epoch_day(i64::try_from(day).unwrap_or(i64::MAX)).write(out);
    for (separator, number) in [(b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)] {
        out.push(separator);
        put_padded(out, number, 2);
    }
}

/// Writes a time with microseconds: `2026-11-21T21:14:59.182040`.
pub(crate) fn put_moment_us(out: &mut Vec<u8>, micros: u64) {
    put_moment(out, micros / 1_000_000);
    out.push(b'.');
    put_padded(out, micros % 1_000_000, 6);
}

/// Writes the names of set flags as an array, and unknown flags as one number.
pub(super) fn put_flags(
    object: &mut JsonObject<'_>,
    name: &'static str,
    names: &[(u16, &'static str)],
    flags: u16,
) {
    let mut unknown = flags;
    let mut set = object.array(name);
    for (flag, name) in names {
        if flags & flag != 0 {
            unknown &= !flag;
            set.plain(name);
        }
    }
    if unknown != 0 {
        set.uint(unknown);
    }
    set.close();
}

#[cfg(test)]
mod tests {
    use super::{JsonObject, put_moment_us, put_string_lossy};

    #[test]
    fn strings_are_escaped() {
        check_string(b"plain", r#""plain""#);
        check_string(b"", r#""""#);
        check_string(b"a\"b\\c\n\t\r\x08\x0c\x00\x1f\x7f", r#""a\"b\\c\n\t\r\b\f\u0000\u001f"#);
        check_string("héllo \u{2028}".as_bytes(), "\"héllo \u{2028}\"");
        check_string(b"\xff", "\"\u{fffd}\"");
    }

    #[track_caller]
    fn check_string(bytes: &[u8], expected: &str) {
        let mut out = Vec::new();
        put_string_lossy(&mut out, bytes);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(expected.trim_end_matches('"')), "{text}");
        let parsed: String = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed, String::from_utf8_lossy(bytes));
    }

    #[test]
    fn moments() {
        check_moment(0, "1970-01-01T00:00:00.000000");
        check_moment(951_782_399_999_999, "2000-02-28T23:59:59.999999");
        check_moment(951_782_400_000_000, "2000-02-29T00:00:00.000000");
        check_moment(1_795_295_699_182_040, "2026-11-21T21:14:59.182040");
        check_moment(4_294_967_295_000_000, "2106-02-07T06:28:15.000000");
        check_moment((1 << 55) - 1, "3111-09-16T23:10:18.963967");
    }

    #[track_caller]
    fn check_moment(micros: u64, expected: &str) {
        let mut out = Vec::new();
        put_moment_us(&mut out, micros);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn members_are_separated() {
        let mut out = Vec::new();
        let mut object = JsonObject::open(&mut out);
        object.uint("a", 1_u32);
        object.int("b", -1);
        object.boolean("c", true);
        object.text("d", "x");
        object.text_or_bytes("e", b"\xff");
        object.hex("f", 0xab);
        object.time("g", 0);
        let mut array = object.array("h");
        array.element().push(b'1');
        array.element().push(b'2');
        array.close();
        object.array("i").close();
        object.object("j").close();
        object.close();
        let expected = r#"{"a":1,"b":-1,"c":true,"d":"x","e":{"base64":"/w=="},"f":"0x000000ab","g":"1970-01-01T00:00:00Z","h":[1,2],"i":[],"j":{}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
