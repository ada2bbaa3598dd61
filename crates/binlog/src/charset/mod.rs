//! Character sets: their names, and the conversion of their text to UTF-8.

mod multi;
mod single;

use std::borrow::Cow;

use crate::error::{DecodeError, DecodeReason};

/// A character set of MySQL. MariaDB has the same sets except `gb18030`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Charset {
    /// ARMSCII-8 Armenian.
    Armscii8,
    /// US ASCII.
    Ascii,
    /// Big5 Traditional Chinese.
    Big5,
    /// Bytes that are not text.
    Binary,
    /// Windows Central European.
    Cp1250,
    /// Windows Cyrillic.
    Cp1251,
    /// Windows Arabic.
    Cp1256,
    /// Windows Baltic.
    Cp1257,
    /// DOS West European.
    Cp850,
    /// DOS Central European.
    Cp852,
    /// DOS Russian.
    Cp866,
    /// SJIS for Windows Japanese.
    Cp932,
    /// DEC West European.
    Dec8,
    /// UJIS for Windows Japanese.
    Eucjpms,
    /// EUC-KR Korean.
    Euckr,
    /// China National Standard GB18030.
    Gb18030,
    /// GB2312 Simplified Chinese.
    Gb2312,
    /// GBK Simplified Chinese.
    Gbk,
    /// GEOSTD8 Georgian.
    Geostd8,
    /// ISO 8859-7 Greek.
    Greek,
    /// ISO 8859-8 Hebrew.
    Hebrew,
    /// HP West European.
    Hp8,
    /// DOS Kamenicky Czech-Slovak.
    Keybcs2,
    /// KOI8-R Relcom Russian.
    Koi8r,
    /// KOI8-U Ukrainian.
    Koi8u,
    /// Windows-1252, with its five unassigned bytes mapped to themselves.
    Latin1,
    /// ISO 8859-2 Central European.
    Latin2,
    /// ISO 8859-9 Turkish.
    Latin5,
    /// ISO 8859-13 Baltic.
    Latin7,
    /// Mac Central European.
    Macce,
    /// Mac West European.
    Macroman,
    /// Shift-JIS Japanese.
    Sjis,
    /// 7-bit Swedish.
    Swe7,
    /// TIS-620 Thai.
    Tis620,
    /// UCS-2 Unicode, big-endian.
    Ucs2,
    /// EUC-JP Japanese.
    Ujis,
    /// UTF-16 Unicode, big-endian.
    Utf16,
    /// UTF-16 Unicode, little-endian.
    Utf16le,
    /// UTF-32 Unicode, big-endian.
    Utf32,
    /// UTF-8 Unicode of up to three bytes.
    Utf8mb3,
    /// UTF-8 Unicode.
    Utf8mb4,
}

/// Properties of a character set.
struct CharsetEntry {
    charset: Charset,
    name: &'static str,
    character_size_max: u8,
    default_collation: u8,
    form: CharsetEncoding,
}

const fn entry(
    charset: Charset,
    name: &'static str,
    character_size_max: u8,
    default_collation: u8,
    form: CharsetEncoding,
) -> CharsetEntry {
    CharsetEntry { charset, name, character_size_max, default_collation, form }
}

/// Encoding of characters.
#[derive(Clone, Copy)]
enum CharsetEncoding {
    Ascii,
    Swe7,
    Single(&'static single::UpperHalf),
    Multi(MultiByteCharset),
    Wide(WideEncoding),
    Utf8,
}

/// Character sets with one to four bytes per character. Each equals an encoding of the WHATWG standard, except for a
/// few characters.
#[derive(Clone, Copy)]
enum MultiByteCharset {
    Big5,
    Cp932,
    Eucjpms,
    Euckr,
    Gb18030,
    Gb2312,
    Gbk,
    Sjis,
    Ujis,
}

/// Unicode in units of two or four bytes.
#[derive(Clone, Copy)]
enum WideEncoding {
    Ucs2,
    Utf16,
    Utf16le,
    Utf32,
}

/// Table of character sets, in the order of the enum: name, maximum size of a character in bytes, number of the
/// default collation.
#[rustfmt::skip]
static CHARSETS: [CharsetEntry; 41] = [
    entry(Charset::Armscii8, "armscii8", 1, 32, CharsetEncoding::Single(&single::ARMSCII8)),
    entry(Charset::Ascii, "ascii", 1, 11, CharsetEncoding::Ascii),
    entry(Charset::Big5, "big5", 2, 1, CharsetEncoding::Multi(MultiByteCharset::Big5)),
    entry(Charset::Binary, "binary", 1, 63, CharsetEncoding::Utf8),
    entry(Charset::Cp1250, "cp1250", 1, 26, CharsetEncoding::Single(&single::CP1250)),
    entry(Charset::Cp1251, "cp1251", 1, 51, CharsetEncoding::Single(&single::CP1251)),
    entry(Charset::Cp1256, "cp1256", 1, 57, CharsetEncoding::Single(&single::CP1256)),
    entry(Charset::Cp1257, "cp1257", 1, 59, CharsetEncoding::Single(&single::CP1257)),
    entry(Charset::Cp850, "cp850", 1, 4, CharsetEncoding::Single(&single::CP850)),
    entry(Charset::Cp852, "cp852", 1, 40, CharsetEncoding::Single(&single::CP852)),
    entry(Charset::Cp866, "cp866", 1, 36, CharsetEncoding::Single(&single::CP866)),
    entry(Charset::Cp932, "cp932", 2, 95, CharsetEncoding::Multi(MultiByteCharset::Cp932)),
    entry(Charset::Dec8, "dec8", 1, 3, CharsetEncoding::Single(&single::DEC8)),
    entry(Charset::Eucjpms, "eucjpms", 3, 97, CharsetEncoding::Multi(MultiByteCharset::Eucjpms)),
    entry(Charset::Euckr, "euckr", 2, 19, CharsetEncoding::Multi(MultiByteCharset::Euckr)),
    entry(Charset::Gb18030, "gb18030", 4, 248, CharsetEncoding::Multi(MultiByteCharset::Gb18030)),
    entry(Charset::Gb2312, "gb2312", 2, 24, CharsetEncoding::Multi(MultiByteCharset::Gb2312)),
    entry(Charset::Gbk, "gbk", 2, 28, CharsetEncoding::Multi(MultiByteCharset::Gbk)),
    entry(Charset::Geostd8, "geostd8", 1, 92, CharsetEncoding::Single(&single::GEOSTD8)),
    entry(Charset::Greek, "greek", 1, 25, CharsetEncoding::Single(&single::GREEK)),
    entry(Charset::Hebrew, "hebrew", 1, 16, CharsetEncoding::Single(&single::HEBREW)),
    entry(Charset::Hp8, "hp8", 1, 6, CharsetEncoding::Single(&single::HP8)),
    entry(Charset::Keybcs2, "keybcs2", 1, 37, CharsetEncoding::Single(&single::KEYBCS2)),
    entry(Charset::Koi8r, "koi8r", 1, 7, CharsetEncoding::Single(&single::KOI8R)),
    entry(Charset::Koi8u, "koi8u", 1, 22, CharsetEncoding::Single(&single::KOI8U)),
    entry(Charset::Latin1, "latin1", 1, 8, CharsetEncoding::Single(&single::LATIN1)),
    entry(Charset::Latin2, "latin2", 1, 9, CharsetEncoding::Single(&single::LATIN2)),
    entry(Charset::Latin5, "latin5", 1, 30, CharsetEncoding::Single(&single::LATIN5)),
    entry(Charset::Latin7, "latin7", 1, 41, CharsetEncoding::Single(&single::LATIN7)),
    entry(Charset::Macce, "macce", 1, 38, CharsetEncoding::Single(&single::MACCE)),
    entry(Charset::Macroman, "macroman", 1, 39, CharsetEncoding::Single(&single::MACROMAN)),
    entry(Charset::Sjis, "sjis", 2, 13, CharsetEncoding::Multi(MultiByteCharset::Sjis)),
    entry(Charset::Swe7, "swe7", 1, 10, CharsetEncoding::Swe7),
    entry(Charset::Tis620, "tis620", 1, 18, CharsetEncoding::Single(&single::TIS620)),
    entry(Charset::Ucs2, "ucs2", 2, 35, CharsetEncoding::Wide(WideEncoding::Ucs2)),
    entry(Charset::Ujis, "ujis", 3, 12, CharsetEncoding::Multi(MultiByteCharset::Ujis)),
    entry(Charset::Utf16, "utf16", 4, 54, CharsetEncoding::Wide(WideEncoding::Utf16)),
    entry(Charset::Utf16le, "utf16le", 4, 56, CharsetEncoding::Wide(WideEncoding::Utf16le)),
    entry(Charset::Utf32, "utf32", 4, 60, CharsetEncoding::Wide(WideEncoding::Utf32)),
    entry(Charset::Utf8mb3, "utf8mb3", 3, 33, CharsetEncoding::Utf8),
    entry(Charset::Utf8mb4, "utf8mb4", 4, 255, CharsetEncoding::Utf8),
];

impl Charset {
    /// Returns all character sets.
    pub fn all() -> impl Iterator<Item = Self> {
        CHARSETS.iter().map(|row| row.charset)
    }

    /// Returns the character set with this name; `utf8` is `utf8mb3`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { name };
        CHARSETS.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.charset)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the maximum size of a character in bytes: 1 to 4.
    pub fn character_size_max(self) -> u8 {
        self.entry().character_size_max
    }

    /// Returns the default collation of this character set, in MySQL 8.0 and later.
    pub fn default_collation(self) -> u16 {
        u16::from(self.entry().default_collation)
    }

    /// Returns the padding byte of CHAR or BINARY: 0 for `binary`, otherwise a space.
    pub fn padding(self) -> u8 {
        match self {
            Self::Binary => 0,
            _ => b' ',
        }
    }

    /// Converts text to UTF-8; borrows text that already is UTF-8. Accepts `binary` if the bytes are UTF-8.
    ///
    /// # Errors
    ///
    /// Fails if bytes are no character of the set, with the offset of the first invalid byte.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
        match borrowed(self.entry().form, bytes) {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => {
                let mut text = String::with_capacity(bytes.len());
                self.append(bytes, &mut text).map_err(|offset| self.no_character(bytes, offset))?;
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Converts text like [`Charset::decode`], with U+FFFD instead of invalid bytes.
    pub fn decode_lossy(self, bytes: &[u8]) -> Cow<'_, str> {
        if let Some(text) = borrowed(self.entry().form, bytes) {
            return Cow::Borrowed(text);
        }
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Err(good) = self.append(rest, &mut text) {
            text.push(char::REPLACEMENT_CHARACTER);
            let bad = self.unit_size().min(rest.len() - good);
            rest = &rest[good + bad..];
        }
        Cow::Owned(text)
    }

    fn entry(self) -> &'static CharsetEntry {
        &CHARSETS[self as usize]
    }

    /// Returns the number of bytes to skip if they start no character.
    fn unit_size(self) -> usize {
        match self.entry().form {
            CharsetEncoding::Wide(WideEncoding::Utf32) => 4,
            CharsetEncoding::Wide(_) => 2,
            _ => 1,
        }
    }

    fn no_character(self, bytes: &[u8], offset: usize) -> DecodeError {
        let byte = bytes.get(offset).copied().unwrap_or_default();
        DecodeError::new(offset, DecodeReason::Character { charset: self.name(), byte })
    }

    /// Appends the converted characters. `Err` is the offset of the first invalid byte.
    fn append(self, bytes: &[u8], text: &mut String) -> Result<(), usize> {
        match self.entry().form {
            CharsetEncoding::Ascii => append_each(bytes, text, |_| None),
            CharsetEncoding::Swe7 => append_swe7(bytes, text),
            CharsetEncoding::Single(upper) => {
                append_each(bytes, text, |byte| char::from_u32(u32::from(upper[usize::from(byte & 0x7f)])))
            }
            CharsetEncoding::Multi(multi) => append_multi(multi, bytes, text),
            CharsetEncoding::Wide(wide) => append_wide(wide, bytes, text),
            CharsetEncoding::Utf8 => append_utf8(bytes, text),
        }
    }
}

/// Returns the text if it is valid UTF-8 without conversion.
fn borrowed(form: CharsetEncoding, bytes: &[u8]) -> Option<&str> {
    match form {
        CharsetEncoding::Wide(_) | CharsetEncoding::Swe7 => None,
        CharsetEncoding::Utf8 => std::str::from_utf8(bytes).ok(),
        CharsetEncoding::Ascii | CharsetEncoding::Single(_) | CharsetEncoding::Multi(_)
            if bytes.is_ascii() =>
        {
            std::str::from_utf8(bytes).ok()
        }
        CharsetEncoding::Ascii | CharsetEncoding::Single(_) | CharsetEncoding::Multi(_) => None,
    }
}

fn append_each(bytes: &[u8], text: &mut String, upper: impl Fn(u8) -> Option<char>) -> Result<(), usize> {
    for (offset, &byte) in bytes.iter().enumerate() {
        let character = if byte.is_ascii() { Some(char::from(byte)) } else { upper(byte) };
        match character {
            None | Some(char::REPLACEMENT_CHARACTER) => return Err(offset),
            Some(character) => text.push(character),
        }
    }
    Ok(())
}

/// Appends text of swe7: ASCII with letters in place of some symbols.
fn append_swe7(bytes: &[u8], text: &mut String) -> Result<(), usize> {
    for (offset, &byte) in bytes.iter().enumerate() {
        text.push(match byte {
            b'@' => 'É',
            b'[' => 'Ä',
            b'\\' => 'Ö',
            b']' => 'Å',
            b'^' => 'Ü',
            b'`' => 'é',
            b'{' => 'ä',
            b'|' => 'ö',
            b'}' => 'å',
            b'~' => 'ü',
            0..0x7f => char::from(byte),
            0x7f.. => return Err(offset),
        });
    }
    Ok(())
}

fn append_utf8(bytes: &[u8], text: &mut String) -> Result<(), usize> {
    match std::str::from_utf8(bytes) {
        Ok(all) => {
            text.push_str(all);
            Ok(())
        }
        Err(error) => {
            let good = error.valid_up_to();
            text.push_str(std::str::from_utf8(&bytes[..good]).unwrap_or_default());
            Err(good)
        }
    }
}

fn append_wide(wide: WideEncoding, bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let mut offset = 0;
    while offset < bytes.len() {
        let (character, size) = wide_character(wide, &bytes[offset..]).ok_or(offset)?;
        text.push(character);
        offset += size;
    }
    Ok(())
}

/// Decodes the first character, and returns it with its size in bytes.
fn wide_character(wide: WideEncoding, bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |index: usize| {
        let pair = [*bytes.get(2 * index)?, *bytes.get(2 * index + 1)?];
        Some(match wide {
            WideEncoding::Utf16le => u16::from_le_bytes(pair),
            _ => u16::from_be_bytes(pair),
        })
    };
    match wide {
        WideEncoding::Utf32 => {
            let character = char::from_u32(u32::from_be_bytes(*bytes.first_chunk()?))?;
            Some((character, 4))
        }
        WideEncoding::Ucs2 => Some((char::from_u32(u32::from(unit(0)?))?, 2)),
        WideEncoding::Utf16 | WideEncoding::Utf16le => {
            let units = [unit(0)].into_iter().chain([unit(1)]).map_while(|unit| unit);
            let character = char::decode_utf16(units).next()?.ok()?;
            Some((character, character.len_utf16() * 2))
        }
    }
}

fn append_multi(multi: MultiByteCharset, bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let mut offset = 0;
    let mut run_start = 0;
    while offset < bytes.len() {
        let size = multi.size(&bytes[offset..]);
        let character = match bytes.get(offset..offset + size) {
            Some(code) => multi.exception(code),
            // `append_run` reports the incomplete character.
            None => break,
        };
        if let Some(character) = character {
            append_run(multi, bytes, run_start..offset, text)?;
            text.push(character);
            run_start = offset + size;
        }
        offset += size;
    }
    append_run(multi, bytes, run_start..bytes.len(), text)
}

/// Appends characters that MySQL and WHATWG encode alike.
#[cfg(feature = "charsets")]
fn append_run(
    multi: MultiByteCharset,
    bytes: &[u8],
    run: std::ops::Range<usize>,
    text: &mut String,
) -> Result<(), usize> {
    let encoding = multi.encoding();
    let decode = |code| encoding.decode_without_bom_handling_and_without_replacement(code);
    if let Some(decoded) = decode(&bytes[run.clone()]) {
        text.push_str(&decoded);
        return Ok(());
    }
    let mut offset = run.start;
    while offset < run.end {
        let size = multi.size(&bytes[offset..run.end]);
        let code = bytes[..run.end].get(offset..offset + size).ok_or(offset)?;
        text.push_str(&decode(code).ok_or(offset)?);
        offset += size;
    }
    Ok(())
}

/// Appends ASCII; other characters need the feature `charsets`.
#[cfg(not(feature = "charsets"))]
fn append_run(
    _: MultiByteCharset,
    bytes: &[u8],
    run: std::ops::Range<usize>,
    text: &mut String,
) -> Result<(), usize> {
    append_each(&bytes[run.clone()], text, |_| None).map_err(|offset| run.start + offset)
}

impl MultiByteCharset {
    /// Returns the size of the first character in bytes.
    fn size(self, bytes: &[u8]) -> usize {
        match (self, bytes) {
            (_, [] | [0..0x80, ..]) => 1,
            (Self::Sjis | Self::Cp932, [0xa1..=0xdf, ..]) => 1,
            (Self::Ujis | Self::Eucjpms, [0x8f, ..]) => 3,
            (Self::Gb18030, [_, b'0'..=b'9', ..]) => 4,
            _ => 2,
        }
    }

    /// Returns MySQL's character for this code, if WHATWG has another character or none.
    fn exception(self, code: &[u8]) -> Option<char> {
        if !(2..=3).contains(&code.len()) {
            return None;
        }
        let code = code.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
        let runs = match self {
            Self::Cp932 | Self::Euckr | Self::Gbk => return None,
            Self::Big5 => multi::BIG5,
            Self::Eucjpms => multi::EUCJPMS,
            Self::Gb18030 => multi::GB18030,
            Self::Gb2312 => multi::GB2312,
            Self::Sjis => multi::SJIS,
            Self::Ujis => multi::UJIS,
        };
        let run = runs[..runs.partition_point(|run| run.code <= code)].last()?;
        let index = code - run.code;
        let character = (index < u32::from(run.count)).then_some(u32::from(run.character) + index)?;
        char::from_u32(character)
    }

    #[cfg(feature = "charsets")]
    fn encoding(self) -> &'static encoding_rs::Encoding {
        match self {
            Self::Big5 => encoding_rs::BIG5,
            Self::Cp932 | Self::Sjis => encoding_rs::SHIFT_JIS,
            Self::Eucjpms | Self::Ujis => encoding_rs::EUC_JP,
            Self::Euckr => encoding_rs::EUC_KR,
            Self::Gb18030 => encoding_rs::GB18030,
            Self::Gb2312 | Self::Gbk => encoding_rs::GBK,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::Charset;

    fn check(charset: Charset, bytes: &[u8], expected: Result<&str, usize>) {
        let text = charset.decode(bytes);
        assert_eq!(text.as_deref().map_err(|error| error.offset), expected, "{charset:?} {bytes:02x?}");
    }

    #[test]
    fn texts_become_utf8() {
        check(Charset::Utf8mb4, "añ€😀".as_bytes(), Ok("añ€😀"));
        check(Charset::Utf8mb4, b"a\xff", Err(1));
        check(Charset::Binary, b"a\xff", Err(1));
        check(Charset::Ascii, b"ab\x80", Err(2));
        check(Charset::Latin1, b"\x80\x81\xe9", Ok("€\u{81}é"));
        check(Charset::Swe7, b"@a}", Ok("Éaå"));
        check(Charset::Swe7, b"a\x80", Err(1));
        check(Charset::Cp850, b"\x9b\xd5", Ok("øı"));
        check(Charset::Geostd8, b"\x81", Err(0));
        check(Charset::Koi8u, b"\xa4", Ok("є"));
    }

    #[test]
    fn errors_name_the_byte_and_the_character_set() {
        let text = Charset::Utf8mb4.decode(b"a\xff").unwrap_err().to_string();
        assert_eq!(text, "byte 1: expected a character of utf8mb4, found byte 0xff");
    }

    #[test]
    fn wide_texts_become_utf8() {
        check(Charset::Ucs2, b"\x00a\x20\xac", Ok("a€"));
        check(Charset::Ucs2, b"\x00a\x20", Err(2));
        check(Charset::Ucs2, b"\x00a\xd8\x3d", Err(2));
        check(Charset::Utf16, b"\xd8\x3d\xde\x00", Ok("😀"));
        check(Charset::Utf16, b"\x00a\xd8\x3d", Err(2));
        check(Charset::Utf16le, b"\x3d\xd8\x00\xde", Ok("😀"));
        check(Charset::Utf32, b"\x00\x01\xf6\x00", Ok("😀"));
        check(Charset::Utf32, b"\x00\x11\x00\x00", Err(0));
    }

    #[cfg(feature = "charsets")]
    #[test]
    fn east_asian_texts_become_utf8() {
        check(Charset::Gbk, b"a\xd6\xd0\xce\xc4", Ok("a中文"));
        check(Charset::Gb18030, b"\x94\x39\xfc\x36", Ok("😀"));
        check(Charset::Gb18030, b"\xa6\xd9z", Ok("\u{e78d}z"));
        check(Charset::Gb2312, b"\xa1\xa4\xd6\xd0", Ok("・中"));
        check(Charset::Big5, b"\xa4\xa4\xa1\x45", Ok("中•"));
        check(Charset::Sjis, b"\x81\x5f\xb1\x93\xfa", Ok("\\ｱ日"));
        check(Charset::Cp932, b"\x81\x5f\xb1\x93\xfa", Ok("＼ｱ日"));
        check(Charset::Ujis, b"\x8e\xb1\x8f\xa2\xb7\xfe\xfe", Ok("ｱ~\u{e3ab}"));
        check(Charset::Eucjpms, b"\x8f\xfe\xfe\xc6\xfc", Ok("\u{e757}日"));
        check(Charset::Euckr, b"\xc7\xd1", Ok("한"));
        check(Charset::Gbk, b"a\xd6", Err(1));
        check(Charset::Gbk, b"\xd6\xd0\xd6\x20", Err(2));
    }

    #[test]
    fn tables_are_sorted() {
        for (index, charset) in Charset::all().enumerate() {
            assert_eq!(charset as usize, index);
            assert_eq!(Charset::from_name(charset.name()), Some(charset));
        }
        assert_eq!(Charset::from_name("UTF8"), Some(Charset::Utf8mb3));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_lossy_text(bytes: Vec<u8>, index in any::<proptest::sample::Index>()) {
            let charsets: Vec<Charset> = Charset::all().collect();
            let charset = *index.get(&charsets);
            let lossy = charset.decode_lossy(&bytes);
            match charset.decode(&bytes) {
                Ok(text) => assert_eq!(text, lossy),
                Err(error) => assert!(error.offset < bytes.len() && lossy.contains('\u{fffd}')),
            }
        }
    }
}
