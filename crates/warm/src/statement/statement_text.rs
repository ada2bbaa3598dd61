//! Tokens of a statement whose character set does not hide where words and quotes end.

use binlog::Charset;
use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use sql::TokenCursor;
use sql::lexer::{SqlLexer, SqlToken, SqlTokenKind, name_of};

use crate::statement::{LoggedStatement, SkipReason};

/// Text of a statement in which each ASCII byte is that character.
#[derive(Debug)]
pub(super) struct StatementText<'s> {
    sql: &'s [u8],
    sql_mode: u64,
    units: CharUnits,
}

/// Meaning of the bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharUnits {
    /// UTF-8.
    Utf8,
    /// One or several bytes per character. Names that are not ASCII are unknown.
    Bytes,
}

/// Bytes that MySQL treats as blanks in some character set (tested on 8.0.33 in each character set, with `SELECT`, the
/// byte, and `1`).
const BLANKS: [u8; 2] = [0xa0, 0xff];

impl<'s> StatementText<'s> {
    /// Reads a statement's text.
    ///
    /// # Errors
    ///
    /// Fails if the ends of characters, quotes or words cannot be determined by the bytes.
    pub(super) fn from_statement(statement: &LoggedStatement<'s>) -> Result<Self, SkipReason> {
        let LoggedStatement { sql, sql_mode, charset, .. } = *statement;
        let units = match charset {
            Some(Charset::Utf8mb3 | Charset::Utf8mb4) => CharUnits::Utf8,
            Some(charset) if sql.is_ascii() && charset != Charset::Swe7 => CharUnits::Utf8,
            Some(charset) if is_ascii_compatible(charset) => CharUnits::Bytes,
            _ => return Err(SkipReason::Charset),
        };
        let has = |sign: u8| sql.contains(&sign);
        // The meaning of a backslash in quotes depends on the mode and on the kind of quotes.
        let is_doubtful = sql_mode & NO_BACKSLASH_ESCAPES != 0 || has(b'"') || sql_mode & ANSI_QUOTES != 0;
        if has(b'\\') && is_doubtful {
            return Err(SkipReason::Unknown);
        }
        // Servers differ in the characters that they treat as blanks.
        let is_odd =
            |one: char| one.is_control() && !"\t\n\r".contains(one) || one.is_whitespace() && !one.is_ascii();
        let has_odd = match units {
            CharUnits::Utf8 => str::from_utf8(sql).map_err(|_| SkipReason::Charset)?.contains(is_odd),
            CharUnits::Bytes => sql.iter().any(|byte| byte.is_ascii() && is_odd(char::from(*byte))),
        };
        if has_odd { Err(SkipReason::Charset) } else { Ok(Self { sql, sql_mode, units }) }
    }

    /// Returns all tokens in order.
    pub(super) fn tokens(&self) -> Result<Vec<SqlToken>, SkipReason> {
        let mut tokens = Vec::new();
        for token in SqlLexer::new(self.sql, self.sql_mode) {
            match token.kind {
                SqlTokenKind::CodeStart | SqlTokenKind::MariadbComment => return Err(SkipReason::Comment),
                SqlTokenKind::Malformed => return Err(SkipReason::Unknown),
                SqlTokenKind::Word
                    if self.units == CharUnits::Bytes
                        && self.bytes(&token).iter().any(|byte| BLANKS.contains(byte)) =>
                {
                    return Err(SkipReason::Charset);
                }
                _ => {}
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// Returns a cursor over the tokens without blanks and comments.
    pub(super) fn cursor(&self) -> TokenCursor<'s> {
        TokenCursor::new(self.sql, self.sql_mode)
    }

    /// Returns the bytes of a token.
    pub(super) fn bytes(&self, token: &SqlToken) -> &'s [u8] {
        &self.sql[token.at.clone()]
    }

    /// Returns true if the token is this sign.
    pub(super) fn is_sign(&self, token: &SqlToken, sign: u8) -> bool {
        token.kind == SqlTokenKind::Sign && self.sql[token.at.start] == sign
    }

    /// Returns a name without its quotes.
    ///
    /// # Errors
    ///
    /// Fails if the name's characters are unknown.
    pub(super) fn name(&self, token: &SqlToken) -> Result<String, SkipReason> {
        let name = name_of(self.bytes(token)).into_owned();
        match self.units == CharUnits::Utf8 || name.is_ascii() {
            true => String::from_utf8(name).map_err(|_| SkipReason::Charset),
            false => Err(SkipReason::Charset),
        }
    }
}

/// Returns whether each ASCII byte always is that ASCII character. In Big5, GBK and SJIS, an ASCII byte may be the
/// second byte of another character.
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
