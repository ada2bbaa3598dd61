//! Masks of single columns, applied to values that are written as JSON.

use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::column_rules::{ColumnMask, HashAlgorithm, MaskHash};
use crate::json_writer::put_quoted;
use crate::value_modes::{BinaryMode, ValueModes};

/// Mask of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueMask {
    /// Texts have at most this number of UTF-16 code units.
    TruncateText(usize),
    /// Bytes have at most this size.
    TruncateBytes(usize),
    /// This JSON text replaces each value, also NULL.
    Replace(Box<[u8]>),
    /// The hash of a text, of at most this number of digits.
    Hash { hash: MaskHash, length: Option<usize> },
}

/// Properties of a column that decide on its mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskedColumn {
    pub(crate) kind: MaskedKind,
    /// Length in the column's definition, as the connector understands it.
    pub(crate) length: Option<usize>,
}

/// Kind of a column's values in the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskedKind {
    /// CHAR, VARCHAR, TEXT, ENUM, SET.
    Text,
    /// Values of another type that are written as text.
    WrittenText,
    Bytes,
    Other,
}

impl MaskedKind {
    /// Returns the kind of BINARY, VARBINARY and BLOB.
    pub(crate) fn of_bytes(modes: ValueModes) -> Self {
        if modes.bytes == BinaryMode::Bytes { Self::Bytes } else { Self::WrittenText }
    }
}

impl ValueMask {
    /// Returns the mask of a column; `None` if the rule does not apply to its type.
    pub(crate) fn new(rule: &ColumnMask, column: MaskedColumn) -> Option<Self> {
        let MaskedColumn { kind, length } = column;
        match rule {
            ColumnMask::Truncate(max) if length.is_some_and(|length| length <= *max) => None,
            ColumnMask::Truncate(max) => match kind {
                MaskedKind::Text | MaskedKind::WrittenText => Some(Self::TruncateText(*max)),
                MaskedKind::Bytes => Some(Self::TruncateBytes(*max)),
                MaskedKind::Other => None,
            },
            _ if kind != MaskedKind::Text => None,
            ColumnMask::Replace(count) => {
                let mut json = Vec::new();
                put_quoted(&mut json, |out| out.resize(out.len() + count, b'*'));
                Some(Self::Replace(json.into()))
            }
            ColumnMask::Hash(hash) => {
                Some(Self::Hash { hash: hash.clone(), length: length.filter(|length| *length > 0) })
            }
        }
    }

    /// Masks the value that starts at `start`.
    pub(crate) fn apply(&self, out: &mut Vec<u8>, start: usize) {
        match self {
            Self::TruncateBytes(_) => {}
            Self::TruncateText(max) => truncate_text(out, start, *max),
            Self::Replace(json) => {
                out.truncate(start);
                out.extend_from_slice(json);
            }
            Self::Hash { hash, length } => {
                // NULL stays NULL.
                let Some(text) = unescaped(&out[start..]) else { return };
                let mut digits = hash.digits_of(&text);
                digits.truncate(length.unwrap_or(digits.len()));
                out.truncate(start);
                put_quoted(out, |out| out.extend_from_slice(digits.as_bytes()));
            }
        }
    }
}

impl MaskHash {
    /// Returns the hash of salt and text, as hexadecimal digits.
    fn digits_of(&self, text: &[u8]) -> String {
        use sha1::Digest as _;
        use sha2::Digest as _;
        let parts = [self.salt.as_bytes(), text].concat();
        match self.algorithm {
            HashAlgorithm::Md5 => hex(&Md5::digest(parts)),
            HashAlgorithm::Sha1 => hex(&Sha1::digest(parts)),
            HashAlgorithm::Sha224 => hex(&Sha224::digest(parts)),
            HashAlgorithm::Sha256 => hex(&Sha256::digest(parts)),
            HashAlgorithm::Sha384 => hex(&Sha384::digest(parts)),
            HashAlgorithm::Sha512 => hex(&Sha512::digest(parts)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Cuts the JSON string that starts at `start` to a number of UTF-16 code units. Half a character is left out.
fn truncate_text(out: &mut Vec<u8>, start: usize, max: usize) {
    let Some((b'"', text)) = out[start..].split_first() else { return };
    let (mut size, mut units) = (0, 0);
    while let Some(first) = text.get(size) {
        let (character_size, character_units) = match first {
            b'"' => return,
            b'\\' if text.get(size + 1) == Some(&b'u') => (6, 1),
            b'\\' => (2, 1),
            0..=0x7f => (1, 1),
            0x80..=0xdf => (2, 1),
            0xe0..=0xef => (3, 1),
            _ => (4, 2),
        };
        if units + character_units > max {
            break;
        }
        size += character_size;
        units += character_units;
    }
    out.truncate(start + 1 + size);
    out.push(b'"');
}

/// Returns the text of a JSON string that this crate has written; `None` for another value.
pub(crate) fn unescaped(json: &[u8]) -> Option<Vec<u8>> {
    let text = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let (mut plain, mut bytes) = (Vec::with_capacity(text.len()), text.iter().copied());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                // Only control characters are written by their number.
                b'u' => {
                    let digits = [bytes.next()?, bytes.next()?, bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                same => same,
            },
            byte => byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::{MaskedColumn, MaskedKind, ValueMask};
    use crate::column_rules::MaskRule;
    use crate::json_writer::put_string;

    /// Masks a text, or NULL.
    fn masked(rule: &MaskRule, column: MaskedColumn, text: Option<&str>) -> String {
        let mut out = b"x".to_vec();
        match text {
            Some(text) => put_string(&mut out, text),
            None => out.extend_from_slice(b"null"),
        }
        if let Some(mask) = ValueMask::new(&rule.mask, column) {
            mask.apply(&mut out, 1);
        }
        String::from_utf8(out[1..].to_vec()).unwrap()
    }

    const TEXT: MaskedColumn = MaskedColumn { kind: MaskedKind::Text, length: None };

    #[test]
    fn texts_are_cut() {
        let check = |max: usize, text, expected| {
            let rule = MaskRule::parse_truncation(&format!("{max}:a.b.c")).unwrap();
            assert_eq!(masked(&rule, TEXT, text), expected);
        };
        check(3, Some("abcdef"), "\"abc\"");
        check(3, Some("abc"), "\"abc\"");
        check(0, Some("abc"), "\"\"");
        check(3, Some("\"\n\u{1}\\"), "\"\\\"\\n\\u0001\"");
        check(3, Some("é漢字x"), "\"é漢字\"");
        // A character outside of the basic plane counts as two.
        check(3, Some("a😀b"), "\"a😀\"");
        check(2, Some("a😀b"), "\"a\"");
        check(3, None, "null");
    }

    #[test]
    fn hashes_are_as_long_as_the_column() {
        let rule = MaskRule::parse_hash("SHA-256:salty:a.b.c").unwrap();
        let of = |length| MaskedColumn { length, ..TEXT };
        let whole = "\"24489c6106c8c61dc0a834633cfa8db9160b6a59a460a4c9a0db161c06488b43\"";
        assert_eq!(masked(&rule, of(None), Some("two")), whole);
        assert_eq!(masked(&rule, of(Some(3)), Some("two")), "\"244\"");
        assert_eq!(masked(&rule, of(None), None), "null");
        let escaped = MaskRule::parse_hash("MD5::a.b.c").unwrap();
        assert_eq!(masked(&escaped, of(None), Some("a\"\u{1}\n/")), "\"535b98a17cf4b1b5577f12fc3647c69b\"");
    }

    #[test]
    fn other_types_keep_their_values() {
        let check = |rule: &MaskRule, kind, expected: &str| {
            assert_eq!(masked(rule, MaskedColumn { kind, length: None }, Some("abc")), expected);
        };
        let replacement = MaskRule::parse_replacement("2:a.b.c").unwrap();
        check(&replacement, MaskedKind::Text, "\"**\"");
        check(&replacement, MaskedKind::WrittenText, "\"abc\"");
        check(&replacement, MaskedKind::Bytes, "\"abc\"");
        assert_eq!(masked(&replacement, TEXT, None), "\"**\"");
        let truncation = MaskRule::parse_truncation("2:a.b.c").unwrap();
        check(&truncation, MaskedKind::WrittenText, "\"ab\"");
        check(&truncation, MaskedKind::Other, "\"abc\"");
    }
}
