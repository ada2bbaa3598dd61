//! Tokens of a statement, with their byte ranges.

use std::ops::Range;

use binlog::Charset;
use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use sqlparser::dialect::MySqlDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::statement::{LoggedStatement, SkipReason};

/// Text of a statement in which each character has a known number of bytes.
#[derive(Debug)]
pub(super) struct StatementText {
    pub(super) text: String,
    units: CharUnits,
}

/// Meaning of a character of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharUnits {
    /// The character itself, in UTF-8.
    Utf8,
    /// One byte of the statement. Bytes other than ASCII map to placeholder characters.
    Bytes,
}

/// A token and its byte range.
#[derive(Clone, Debug)]
pub(super) struct LocatedToken {
    pub(super) token: Token,
    /// Byte range in the statement.
    pub(super) at: Range<usize>,
}

/// Start of the placeholder characters: a private use area, whose characters may occur in names, like the bytes that
/// they stand for.
const BYTES_BLOCK: u32 = 0xe000;

impl StatementText {
    /// Reads a statement's text.
    ///
    /// # Errors
    ///
    /// If the ends of characters, quotes or words cannot be determined by the bytes.
    pub(super) fn from_statement(statement: &LoggedStatement<'_>) -> Result<Self, SkipReason> {
        let LoggedStatement { sql, sql_mode, charset, .. } = *statement;
        let units = match charset {
            Some(Charset::Utf8mb3 | Charset::Utf8mb4) => CharUnits::Utf8,
            Some(charset) if sql.is_ascii() && charset != Charset::Swe7 => CharUnits::Utf8,
            Some(charset) if is_ascii_compatible(charset) => CharUnits::Bytes,
            _ => return Err(SkipReason::Charset),
        };
        let text = match units {
            CharUnits::Utf8 => str::from_utf8(sql).map_err(|_| SkipReason::Charset)?.to_owned(),
            CharUnits::Bytes => sql.iter().map(|byte| character(*byte)).collect(),
        };
        let has = |sign: char| text.contains(sign);
        // The meaning of a backslash in quotes depends on the mode and on the kind of quotes.
        let is_doubtful = sql_mode & NO_BACKSLASH_ESCAPES != 0 || has('"') || sql_mode & ANSI_QUOTES != 0;
        if has('\\') && is_doubtful {
            return Err(SkipReason::Unknown);
        }
        // A server treats fewer characters as whitespace than the tokenizer.
        let is_odd =
            |one: char| one.is_control() && !"\t\n\r".contains(one) || one.is_whitespace() && !one.is_ascii();
        match text.contains(is_odd) {
            true => Err(SkipReason::Charset),
            false => Ok(Self { text, units }),
        }
    }

    /// Returns whether names in the text are exact. They are not if they contain placeholder characters.
    pub(super) fn has_exact_names(&self) -> bool {
        self.units == CharUnits::Utf8 || self.text.is_ascii()
    }

    /// Returns all tokens in order.
    pub(super) fn tokens(&self) -> Result<Vec<LocatedToken>, SkipReason> {
        if self.text.contains("/*!") || self.text.contains("/*M!") {
            return Err(SkipReason::Comment); // An executable comment.
        }
        let tokens = Tokenizer::new(&MySqlDialect {}, &self.text).tokenize_with_location();
        let tokens = tokens.map_err(|_| SkipReason::Unknown)?;
        let mut walk =
            OffsetWalk { rest: self.text.chars(), units: self.units, line: 1, column: 1, offset: 0 };
        let mut pieces = Vec::with_capacity(tokens.len());
        for token in tokens {
            let start = walk.advance_to(token.span.start)?;
            let end = walk.advance_to(token.span.end)?;
            if start != pieces.last().map_or(0, |piece: &LocatedToken| piece.at.end) {
                return Err(SkipReason::Unknown);
            }
            pieces.push(LocatedToken { token: token.token, at: start..end });
        }
        match walk.rest.next() {
            Some(_) => Err(SkipReason::Unknown),
            None => Ok(pieces),
        }
    }
}

/// Walk over a text that converts the tokenizer's line and column to byte offsets.
struct OffsetWalk<'t> {
    rest: std::str::Chars<'t>,
    units: CharUnits,
    line: u64,
    column: u64,
    /// Byte offset in the statement.
    offset: usize,
}

impl OffsetWalk<'_> {
    /// Advances to this location, which must not precede the last; returns its offset.
    fn advance_to(&mut self, place: Location) -> Result<usize, SkipReason> {
        while (self.line, self.column) != (place.line, place.column) {
            let character = self.rest.next().ok_or(SkipReason::Unknown)?;
            self.offset += match self.units {
                CharUnits::Utf8 => character.len_utf8(),
                CharUnits::Bytes => 1,
            };
            match character {
                '\n' => (self.line, self.column) = (self.line + 1, 1),
                _ => self.column += 1,
            }
        }
        Ok(self.offset)
    }
}

fn character(byte: u8) -> char {
    let code = if byte.is_ascii() { byte.into() } else { BYTES_BLOCK + u32::from(byte) };
    char::from_u32(code).expect("ours: characters of a block")
}

/// Returns whether each ASCII byte always is that ASCII character. In Big5, GBK and SJIS, it may be the second byte of
/// another character.
const fn is_ascii_compatible(charset: Charset) -> bool {
    use Charset as C;
    matches!(
        charset,
        C::Armscii8
            | C::Ascii
            | C::Binary
            | C::Cp1250
            | C::Cp1251
            | C::Cp1256
            | C::Cp1257
            | C::Cp850
            | C::Cp852
            | C::Cp866
            | C::Dec8
            | C::Eucjpms
            | C::Euckr
            | C::Gb2312
            | C::Geostd8
            | C::Greek
            | C::Hebrew
            | C::Hp8
            | C::Keybcs2
            | C::Koi8r
            | C::Koi8u
            | C::Latin1
            | C::Latin2
            | C::Latin5
            | C::Latin7
            | C::Macce
            | C::Macroman
            | C::Tis620
            | C::Ujis
    )
}
