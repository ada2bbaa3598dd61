//! Normalised bytes of column values: the same for values that a key treats as equal.

use binlog::{Charset, Collation, Column, ColumnType, Flavour};

use super::weights::{EXPANSION, EXPANSIONS, RANGES, UNKNOWN};

/// Conversion of a column's values to bytes that are the same if a key treats the values as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyNormalizer {
    form: NormalForm,
    /// Number of the value's characters, or bytes, in the key; 0 for all.
    prefix: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NormalForm {
    /// The bytes as stored.
    Raw,
    /// Positive and negative zero are the same.
    Decimal,
    /// Positive and negative zero are the same.
    Float,
    /// Positive and negative zero are the same.
    Double,
    /// Without trailing padding.
    Stripped { pad: &'static [u8] },
    /// Weights of utf8mb4_0900_ai_ci.
    Weights { strips: bool },
}

/// Collation number of utf8mb4_0900_ai_ci, which MariaDB does not have.
const UTF8MB4_0900_AI_CI: u16 = 255;

impl KeyNormalizer {
    /// Returns the conversion for a column with `prefix` characters in the key, or all if `prefix` is 0. `None` if
    /// bintide does not know which values are equal.
    pub(crate) fn of(column: &Column, prefix: u64, flavour: Flavour) -> Option<Self> {
        let prefix = usize::try_from(prefix).ok()?;
        let form = match column.column_type {
            ColumnType::Char { .. } => text_form(column, PadRule::Cut, flavour)?,
            ColumnType::Varchar { .. } | ColumnType::Blob { .. } => {
                text_form(column, PadRule::Kept, flavour)?
            }
            _ if prefix != 0 => return None,
            ColumnType::TinyInt
            | ColumnType::SmallInt
            | ColumnType::MediumInt
            | ColumnType::Int
            | ColumnType::BigInt
            | ColumnType::Timestamp { .. }
            | ColumnType::DateTime { .. }
            | ColumnType::Time { .. }
            | ColumnType::OldTimestamp
            | ColumnType::OldDateTime
            | ColumnType::OldTime
            | ColumnType::Date
            | ColumnType::Year
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. }
            | ColumnType::Bit { .. } => NormalForm::Raw,
            ColumnType::Decimal { .. } => NormalForm::Decimal,
            ColumnType::Float => NormalForm::Float,
            ColumnType::Double => NormalForm::Double,
            _ => return None,
        };
        // This prefix counts bytes, so it is at most as long as a prefix of as many characters. It could split a
        // multi-byte padding character.
        let cuts_pads = matches!(form, NormalForm::Stripped { pad } if pad.len() > 1);
        (prefix == 0 || !cuts_pads).then_some(Self { form, prefix })
    }

    /// Returns whether values that the key treats as different always give different bytes.
    pub(crate) fn is_exact(self) -> bool {
        self.prefix == 0 && !matches!(self.form, NormalForm::Weights { .. })
    }

    /// Returns whether the bytes are the unchanged bytes of the value.
    pub(crate) fn is_raw(self) -> bool {
        self.prefix == 0 && self.form == NormalForm::Raw
    }

    /// Appends the bytes for a value. `None` if bintide does not know which values equal this one; it may have appended
    /// some bytes then.
    #[inline]
    pub(crate) fn put(self, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self.form {
            NormalForm::Raw => out.extend_from_slice(self.cut(value)),
            NormalForm::Decimal => put_decimal(value, out),
            NormalForm::Float => put_without_sign_of_zero(value, 0x8000_0000, out),
            NormalForm::Double => put_without_sign_of_zero(value, 0x8000_0000_0000_0000, out),
            NormalForm::Stripped { pad } => out.extend_from_slice(strip(self.cut(value), pad)),
            NormalForm::Weights { strips } => {
                let value = if strips { strip(value, b" ") } else { value };
                return put_weights(std::str::from_utf8(value).ok()?, self.prefix, out);
            }
        }
        Some(())
    }

    fn cut(self, value: &[u8]) -> &[u8] {
        match self.prefix {
            0 => value,
            prefix => &value[..value.len().min(prefix)],
        }
    }
}

/// Treatment of trailing padding where the collation does not remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PadRule {
    Cut,
    Kept,
}

fn text_form(column: &Column, ends: PadRule, flavour: Flavour) -> Option<NormalForm> {
    let collation = Collation::new(column.collation?, flavour)?;
    let name = collation.name();
    if name == "binary" {
        return Some(match ends {
            PadRule::Cut => NormalForm::Stripped { pad: &[0] },
            PadRule::Kept => NormalForm::Raw,
        });
    }
    let strips = ends == PadRule::Cut || collation.pads();
    if flavour == Flavour::MySql && collation.id() == UTF8MB4_0900_AI_CI {
        return Some(NormalForm::Weights { strips });
    }
    if !name.ends_with("_bin") {
        return None;
    }
    Some(match strips {
        true => NormalForm::Stripped { pad: space(collation.charset()) },
        false => NormalForm::Raw,
    })
}

/// Returns the bytes of a space.
fn space(charset: Charset) -> &'static [u8] {
    match charset {
        Charset::Ucs2 | Charset::Utf16 => &[0, 0x20],
        Charset::Utf16le => &[0x20, 0],
        Charset::Utf32 => &[0, 0, 0, 0x20],
        _ => b" ",
    }
}

fn strip<'a>(mut value: &'a [u8], pad: &[u8]) -> &'a [u8] {
    while let Some(rest) = value.strip_suffix(pad) {
        value = rest;
    }
    value
}

/// Appends a DECIMAL. Negative numbers are stored inverted, positive numbers with the highest bit flipped. Inverting
/// all bits therefore turns a negative zero into a positive zero.
fn put_decimal(value: &[u8], out: &mut Vec<u8>) {
    match value {
        [0x7f, rest @ ..] if rest.iter().all(|byte| *byte == 0xff) => {
            out.push(0x80);
            out.resize(out.len() + rest.len(), 0);
        }
        _ => out.extend_from_slice(value),
    }
}

fn put_without_sign_of_zero(value: &[u8], sign: u64, out: &mut Vec<u8>) {
    let number = value.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match number == sign {
        true => out.resize(out.len() + value.len(), 0),
        false => out.extend_from_slice(value),
    }
}

/// Returns the primary weights of a text by utf8mb4_0900_ai_ci, as `WEIGHT_STRING` does; `None` if it has a character
/// with unknown weights.
pub fn weights(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_weights(text, 0, &mut out)?;
    Some(out)
}

/// Appends the weights of the first `prefix` characters, or of all characters if `prefix` is 0. `None` if a weight is
/// unknown.
fn put_weights(text: &str, prefix: usize, out: &mut Vec<u8>) -> Option<()> {
    let count = if prefix == 0 { usize::MAX } else { prefix };
    for character in text.chars().take(count) {
        let code = u32::from(character);
        match code {
            0x4e00..=0x9fd5 => put_han(code, out),
            0xac00..=0xd7a3 => put_hangul(code, out),
            _ => match entry(code)? {
                0 => {}
                UNKNOWN => return None,
                several @ EXPANSION.. => {
                    for weight in *EXPANSIONS.get(usize::from(several - EXPANSION))? {
                        put_weight(*weight, out);
                    }
                }
                weight => put_weight(weight, out),
            },
        }
    }
    Some(())
}

fn entry(code: u32) -> Option<u16> {
    let after = RANGES.partition_point(|(first, _)| *first <= code);
    let (first, entries) = RANGES.get(after.checked_sub(1)?)?;
    entries.get((code - first) as usize).copied()
}

/// Appends the weights of an unlisted ideograph, by Unicode's collation algorithm.
fn put_han(code: u32, out: &mut Vec<u8>) {
    put_weight(0xfb40 + (code >> 15) as u16, out);
    put_weight(0x8000 | (code & 0x7fff) as u16, out);
}

/// Appends the weights of the two or three letters of a Hangul syllable.
fn put_hangul(code: u32, out: &mut Vec<u8>) {
    const LEADING: u16 = 0x3bf5;
    const VOWEL: u16 = 0x3c73;
    /// One less than the first trailing letter: index 0 means none.
    const TRAILING: u16 = 0x3cd0;
    let index = (code - 0xac00) as u16;
    put_weight(LEADING + index / 588, out);
    put_weight(VOWEL + index % 588 / 28, out);
    match index % 28 {
        0 => {}
        trailing => put_weight(TRAILING + trailing, out),
    }
}

fn put_weight(weight: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&weight.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{put_decimal, put_weights, put_without_sign_of_zero, strip};

    fn hex(text: &str, prefix: usize) -> Option<String> {
        let mut out = Vec::new();
        put_weights(text, prefix, &mut out)?;
        Some(out.iter().map(|byte| format!("{byte:02X}")).collect())
    }

    #[test]
    fn texts_that_are_equal_have_the_same_weights() {
        let equal = |a: &str, b: &str| assert_eq!(hex(a, 0).unwrap(), hex(b, 0).unwrap(), "{a} {b}");
        equal("Straße", "STRASSE");
        equal("Ångström", "angstrom");
        equal("ế", "e");
        equal("か", "ガ");
        equal("Ａ", "a");
        equal("a\0\u{1}b", "ab");
        equal("…", "...");
        let differ = |a: &str, b: &str| assert_ne!(hex(a, 0).unwrap(), hex(b, 0).unwrap(), "{a} {b}");
        differ("a", "a ");
        differ("a-b", "ab");
        differ("þ", "p");
        differ("и", "й");
        differ("中", "国");
        differ("한", "하");
    }

    #[test]
    fn weights_are_those_of_a_server() {
        let check = |text: &str, prefix, expected: Option<&str>| {
            assert_eq!(hex(text, prefix).as_deref(), expected, "{text} {prefix}");
        };
        check("aß", 0, Some("1C471E711E71"));
        check("aß", 1, Some("1C47"));
        check("中", 0, Some("FB40CE2D"));
        check("힣", 0, Some("3C073C873CEB"));
        check("", 0, Some(""));
        // Combining marks, other scripts, unassigned characters.
        for unknown in ["e\u{301}", "ก", "😀", "\u{30000}", "\u{378}"] {
            check(unknown, 0, None);
        }
        check("a😀", 1, Some("1C47"));
    }

    #[test]
    fn positive_and_negative_zero_are_equal() {
        let check = |put: &dyn Fn(&mut Vec<u8>), expected: &[u8]| {
            let mut out = b"x".to_vec();
            put(&mut out);
            assert_eq!(out.strip_prefix(b"x").unwrap(), expected);
        };
        check(&|out| put_decimal(&[0x7f, 0xff, 0xff], out), &[0x80, 0, 0]);
        check(&|out| put_decimal(&[0x7f, 0xff, 0xfe], out), &[0x7f, 0xff, 0xfe]);
        check(&|out| put_decimal(&[0x80, 0, 0], out), &[0x80, 0, 0]);
        let float = |value: f32| {
            move |out: &mut Vec<u8>| {
                put_without_sign_of_zero(&value.to_le_bytes(), 0x8000_0000, out);
            }
        };
        check(&float(-0.0), &[0; 4]);
        check(&float(-1.0), &(-1_f32).to_le_bytes());
    }

    #[test]
    fn padding_is_removed() {
        assert_eq!(strip(b"a  ", b" "), b"a");
        assert_eq!(strip(b"  ", b" "), b"");
        assert_eq!(strip(&[0, 0x61, 0, 0x20], &[0, 0x20]), &[0, 0x61]);
    }
}
