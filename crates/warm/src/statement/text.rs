//! A statement's bytes as words, each with where its bytes are.

use std::ops::Range;

use binlog::Charset;
use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use sqlparser::dialect::MySqlDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::statement::{Left, Statement};

/// A statement's text, such that each of its characters is of known bytes.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) text: String,
    units: Units,
}

/// What a character of the text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Itself, in UTF-8.
    Utf8,
    /// One byte: those that are not ASCII stand for no character by themselves.
    Bytes,
}

/// A word, blank or sign.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) token: Token,
    /// Its bytes.
    pub(super) at: Range<usize>,
}

/// Where characters that stand for bytes are: a block for private use, whose characters may be in names, as those that
/// the bytes are part of may.
const BYTES: u32 = 0xe000;

impl Text {
    /// # Errors
    ///
    /// When it cannot be told by the bytes where characters, quotes or words end.
    pub(super) fn of(statement: &Statement<'_>) -> Result<Self, Left> {
        let Statement { sql, sql_mode, charset, .. } = *statement;
        let units = match charset {
            Some(Charset::Utf8mb3 | Charset::Utf8mb4) => Units::Utf8,
            Some(charset) if sql.is_ascii() && charset != Charset::Swe7 => Units::Utf8,
            Some(charset) if is_plain(charset) => Units::Bytes,
            _ => return Err(Left::Charset),
        };
        let text = match units {
            Units::Utf8 => str::from_utf8(sql).map_err(|_| Left::Charset)?.to_owned(),
            Units::Bytes => sql.iter().map(|byte| character(*byte)).collect(),
        };
        let has = |sign: char| text.contains(sign);
        // In quotes, a backslash means other things by other modes, and in quotes of the other kind to others.
        let is_doubtful = sql_mode & NO_BACKSLASH_ESCAPES != 0 || has('"') || sql_mode & ANSI_QUOTES != 0;
        if has('\\') && is_doubtful {
            return Err(Left::Unknown);
        }
        // A server knows fewer blanks.
        let is_odd =
            |one: char| one.is_control() && !"\t\n\r".contains(one) || one.is_whitespace() && !one.is_ascii();
        match text.contains(is_odd) {
            true => Err(Left::Charset),
            false => Ok(Self { text, units }),
        }
    }

    /// Can names in it be asked for?
    pub(super) fn has_names(&self) -> bool {
        self.units == Units::Utf8 || self.text.is_ascii()
    }

    /// All of it, one behind the other.
    pub(super) fn pieces(&self) -> Result<Vec<Piece>, Left> {
        if self.text.contains("/*!") || self.text.contains("/*M!") {
            return Err(Left::Comment); // A comment to others only.
        }
        let tokens = Tokenizer::new(&MySqlDialect {}, &self.text).tokenize_with_location();
        let tokens = tokens.map_err(|_| Left::Unknown)?;
        let mut walk = Walk { rest: self.text.chars(), units: self.units, line: 1, column: 1, offset: 0 };
        let mut pieces = Vec::with_capacity(tokens.len());
        for token in tokens {
            let start = walk.to(token.span.start)?;
            let end = walk.to(token.span.end)?;
            if start != pieces.last().map_or(0, |piece: &Piece| piece.at.end) {
                return Err(Left::Unknown);
            }
            pieces.push(Piece { token: token.token, at: start..end });
        }
        match walk.rest.next() {
            Some(_) => Err(Left::Unknown),
            None => Ok(pieces),
        }
    }
}

/// Goes over a text as the tokenizer counts.
struct Walk<'t> {
    rest: std::str::Chars<'t>,
    units: Units,
    line: u64,
    column: u64,
    /// In the statement's bytes.
    offset: usize,
}

impl Walk<'_> {
    /// The offset of this place, which is not in front of the last.
    fn to(&mut self, place: Location) -> Result<usize, Left> {
        while (self.line, self.column) != (place.line, place.column) {
            let character = self.rest.next().ok_or(Left::Unknown)?;
            self.offset += match self.units {
                Units::Utf8 => character.len_utf8(),
                Units::Bytes => 1,
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
    let code = if byte.is_ascii() { byte.into() } else { BYTES + u32::from(byte) };
    char::from_u32(code).expect("ours: characters of a block")
}

/// Is each ASCII byte a character by itself, and always that of ASCII? Of Big5, GBK, SJIS and their like, some are the
/// second halves of others.
const fn is_plain(charset: Charset) -> bool {
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
