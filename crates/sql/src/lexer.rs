//! Lexer that splits SQL into tokens, as MySQL's lexer does.
//!
//! The text is bytes in UTF-8, or in a character set in which each byte below 128 is an ASCII character. In Big5, GBK,
//! SJIS and GB18030, such a byte may be the second byte of another character: convert such text first.

use std::borrow::Cow;
use std::iter::FusedIterator;
use std::ops::Range;

use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlTokenKind {
    /// Blanks.
    Space,
    /// Comment that no server executes: `-- …`, `# …`, `/* … */`.
    Comment,
    /// Comment that only MariaDB executes: `/*M! … */`.
    MariadbComment,
    /// Start of a comment that servers execute: `/*!` or `/*!80011`. The tokens in the comment follow, and then a
    /// [`SqlTokenKind::CodeEnd`].
    CodeStart,
    /// End of a comment that servers execute: `*/`.
    CodeEnd,
    /// Keyword or unquoted name. Also the introducer of a string: `_utf8mb4`.
    Word,
    /// Name in backquotes, or in double quotes with `ANSI_QUOTES`.
    QuotedName,
    /// String in quotes, without its introducer. Also `N'…'`.
    String,
    /// Number without sign.
    Number,
    /// `0x…` or `X'…'`.
    Hex,
    /// `0b…` or `B'…'`.
    Bits,
    /// One byte of an operator or of punctuation.
    Sign,
    /// Quotes or a comment without end, or a literal with wrong digits. Unless the digits are wrong, the token extends
    /// to the end of the text.
    Malformed,
}

/// Returns the statements of a text, which semicolons separate. Quotes and comments may contain semicolons.
pub fn split_statements(text: &str, sql_mode: u64) -> impl Iterator<Item = &str> {
    let mut tokens = SqlLexer::new(text.as_bytes(), sql_mode);
    let lexer = tokens.clone();
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let semicolon = tokens.find(|token| token.kind == SqlTokenKind::Sign && lexer.bytes(token) == b";");
        let range = semicolon.map_or(text.len()..text.len(), |token| token.at);
        let statement = &text[start..range.start];
        start = range.end;
        Some(statement)
    })
}

/// A token and its range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlToken {
    /// Kind of the token.
    pub kind: SqlTokenKind,
    /// Byte range in the text. The ranges of all tokens cover the text without gaps.
    pub at: Range<usize>,
}

impl SqlToken {
    /// Returns true for blanks, comments, and the marks around executed comments.
    pub const fn is_blank(&self) -> bool {
        use SqlTokenKind as K;
        matches!(self.kind, K::Space | K::Comment | K::MariadbComment | K::CodeStart | K::CodeEnd)
    }
}

/// Iterator over the tokens of a text.
#[derive(Clone, Debug)]
pub struct SqlLexer<'s> {
    sql: &'s [u8],
    sql_mode: u64,
    at: usize,
    /// True within a comment that servers execute.
    is_in_code: bool,
    previous: PreviousToken,
}

/// The previous token, if the meaning of the next token depends on the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreviousToken {
    Other,
    Word,
    /// A period directly after a word: digits after this period are a name.
    WordPeriod,
    /// `@`: a user variable or a host follows, whose name may contain periods.
    At,
    /// `@@`
    AtAt,
}

impl<'s> SqlLexer<'s> {
    /// Starts at the beginning of a text. `sql_mode` has the bits of the session that runs the text.
    pub const fn new(sql: &'s [u8], sql_mode: u64) -> Self {
        Self { sql, sql_mode, at: 0, is_in_code: false, previous: PreviousToken::Other }
    }

    /// Returns the offset of the next token.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Returns the bytes of a token.
    pub fn bytes(&self, token: &SqlToken) -> &'s [u8] {
        &self.sql[token.at.clone()]
    }

    /// Returns kind and size of the token at the start of this text, which is not empty.
    fn scan_token(&self, text: &[u8]) -> (SqlTokenKind, usize) {
        use SqlTokenKind as K;
        if let Some(found) = scan_comment(text, self.is_in_code) {
            return found;
        }
        let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
        match (text[0], text.get(1)) {
            (blank, _) if is_blank(blank) => (K::Space, run(text, 0, is_blank)),
            (byte, _) if self.previous == PreviousToken::At && (is_of_a_name(byte) || byte == b'.') => {
                (K::Word, run(text, 0, |byte| is_of_a_name(byte) || byte == b'.'))
            }
            (byte, _) if self.previous == PreviousToken::WordPeriod && is_of_a_name(byte) => {
                (K::Word, run(text, 0, is_of_a_name))
            }
            (b'`', _) => quoted(text, 0, K::QuotedName, BackslashMeaning::Plain),
            (b'"', _) if self.sql_mode & ANSI_QUOTES != 0 => {
                quoted(text, 0, K::QuotedName, BackslashMeaning::Plain)
            }
            (b'"' | b'\'', _) => quoted(text, 0, K::String, backslash(self.sql_mode)),
            (b'n' | b'N', Some(b'\'')) => quoted(text, 1, K::String, backslash(self.sql_mode)),
            (b'x' | b'X', Some(b'\'')) => quoted_digits(text, K::Hex),
            (b'b' | b'B', Some(b'\'')) => quoted_digits(text, K::Bits),
            (b'0'..=b'9', _) => scan_number(text),
            (b'.', _) if is_digit(1) && self.previous != PreviousToken::Word => {
                (K::Number, fraction_end(text, 0))
            }
            (byte, _) if is_of_a_name(byte) => (K::Word, run(text, 0, is_of_a_name)),
            _ => (K::Sign, 1),
        }
    }
}

impl Iterator for SqlLexer<'_> {
    type Item = SqlToken;

    fn next(&mut self) -> Option<SqlToken> {
        let text = &self.sql[self.at..];
        let first = *text.first()?;
        let (kind, size) = self.scan_token(text);
        self.previous = match (kind, first, self.previous) {
            (SqlTokenKind::Word, ..) => PreviousToken::Word,
            (SqlTokenKind::Sign, b'.', PreviousToken::Word) => PreviousToken::WordPeriod,
            (SqlTokenKind::Sign, b'@', PreviousToken::At) => PreviousToken::AtAt,
            (SqlTokenKind::Sign, b'@', _) => PreviousToken::At,
            _ => PreviousToken::Other,
        };
        match kind {
            SqlTokenKind::CodeStart => self.is_in_code = true,
            SqlTokenKind::CodeEnd => self.is_in_code = false,
            _ => {}
        }
        let start = self.at;
        self.at += size;
        Some(SqlToken { kind, at: start..self.at })
    }
}

impl FusedIterator for SqlLexer<'_> {}

/// Returns the name of a [`SqlTokenKind::Word`] or [`SqlTokenKind::QuotedName`], without its quotes.
pub fn name_of(token: &[u8]) -> Cow<'_, [u8]> {
    match token {
        [quote @ (b'`' | b'"'), inner @ .., _] => undoubled(inner, *quote),
        _ => token.into(),
    }
}

/// Returns the value of a [`SqlTokenKind::String`].
pub fn string_of(token: &[u8], sql_mode: u64) -> Cow<'_, [u8]> {
    let quoted = match token {
        [b'n' | b'N', quoted @ ..] => quoted,
        quoted => quoted,
    };
    let [quote, inner @ .., _] = quoted else { return quoted.into() };
    if backslash(sql_mode) == BackslashMeaning::Plain || !inner.contains(&b'\\') {
        return undoubled(inner, *quote);
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (*byte, after) {
            (b'\\', [escaped, after @ ..]) => {
                put_escaped(&mut out, *escaped);
                rest = after;
            }
            (byte, [_, after @ ..]) if byte == *quote => {
                out.push(byte);
                rest = after;
            }
            (byte, _) => out.push(byte),
        }
    }
    out.into()
}

/// Returns the digits of a [`SqlTokenKind::Hex`] or [`SqlTokenKind::Bits`].
pub fn digits_of(token: &[u8]) -> &[u8] {
    match token {
        [_, b'\'', digits @ .., _] | [_, _, digits @ ..] => digits,
        other => other,
    }
}

/// Appends the character of the escape sequence of a backslash and this byte.
fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'0' => out.push(0),
        b'b' => out.push(8),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'Z' => out.push(26),
        // LIKE interprets these escape sequences itself.
        b'%' | b'_' => out.extend([b'\\', byte]),
        other => out.push(other),
    }
}

fn undoubled(inner: &[u8], quote: u8) -> Cow<'_, [u8]> {
    if !inner.contains(&quote) {
        return inner.into();
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let [byte, after @ ..] = rest {
        out.push(*byte);
        rest = if *byte == quote { after.get(1..).unwrap_or_default() } else { after };
    }
    out.into()
}

/// Meaning of a backslash in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackslashMeaning {
    Plain,
    Escape,
}

const fn backslash(sql_mode: u64) -> BackslashMeaning {
    if sql_mode & NO_BACKSLASH_ESCAPES != 0 { BackslashMeaning::Plain } else { BackslashMeaning::Escape }
}

/// Returns a token in quotes. The opening quote is at `start`.
fn quoted(
    text: &[u8],
    start: usize,
    kind: SqlTokenKind,
    backslash: BackslashMeaning,
) -> (SqlTokenKind, usize) {
    let quote = text[start];
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'\\' if backslash == BackslashMeaning::Escape => at += 1,
            byte if *byte != quote => {}
            _ if text.get(at) == Some(&quote) => at += 1,
            _ => return (kind, at),
        }
    }
    (SqlTokenKind::Malformed, text.len())
}

/// Returns `X'…'` or `B'…'`.
fn quoted_digits(text: &[u8], kind: SqlTokenKind) -> (SqlTokenKind, usize) {
    let Some(size) = text[2..].iter().position(|byte| *byte == b'\'') else {
        return (SqlTokenKind::Malformed, text.len());
    };
    let digits = &text[2..2 + size];
    let is_right = match kind {
        SqlTokenKind::Hex => size % 2 == 0 && digits.iter().all(u8::is_ascii_hexdigit),
        _ => digits.iter().all(|digit| is_bit(*digit)),
    };
    (if is_right { kind } else { SqlTokenKind::Malformed }, size + 3)
}

/// Returns a number, or a name that starts with digits.
fn scan_number(text: &[u8]) -> (SqlTokenKind, usize) {
    // Only a lower-case letter marks such a number.
    let prefixed = match text {
        [b'0', b'x', ..] => Some((SqlTokenKind::Hex, run(text, 2, |byte| byte.is_ascii_hexdigit()))),
        [b'0', b'b', ..] => Some((SqlTokenKind::Bits, run(text, 2, is_bit))),
        _ => None,
    };
    if let Some((kind, end)) = prefixed
        && end > 2
        && !text.get(end).is_some_and(|byte| is_of_a_name(*byte))
    {
        return (kind, end);
    }
    let end = run(text, 0, |byte| byte.is_ascii_digit());
    match text.get(end) {
        Some(b'.') => (SqlTokenKind::Number, fraction_end(text, end)),
        Some(byte) if is_of_a_name(*byte) => match exponent_end(text, end) {
            Some(end) => (SqlTokenKind::Number, end),
            None => (SqlTokenKind::Word, run(text, end, is_of_a_name)),
        },
        _ => (SqlTokenKind::Number, end),
    }
}

/// Returns the end of a number whose decimal point is at `point`.
fn fraction_end(text: &[u8], point: usize) -> usize {
    let end = run(text, point + 1, |byte| byte.is_ascii_digit());
    exponent_end(text, end).unwrap_or(end)
}

/// Returns the end of the exponent at `start`, if there is one.
fn exponent_end(text: &[u8], start: usize) -> Option<usize> {
    let after = text.get(start..)?.strip_prefix(b"e").or_else(|| text[start..].strip_prefix(b"E"))?;
    let digits = after.strip_prefix(b"+").or_else(|| after.strip_prefix(b"-")).unwrap_or(after);
    let start = text.len() - digits.len();
    let end = run(text, start, |byte| byte.is_ascii_digit());
    (end > start).then_some(end)
}

/// Returns the comment, or the mark of an executed comment, at the start of the text.
fn scan_comment(text: &[u8], is_in_code: bool) -> Option<(SqlTokenKind, usize)> {
    use SqlTokenKind as K;
    match text {
        [b'#', ..] => Some((K::Comment, line_end(text))),
        [b'-', b'-'] => Some((K::Comment, 2)),
        [b'-', b'-', next, ..] if is_blank(*next) || next.is_ascii_control() => {
            Some((K::Comment, line_end(text)))
        }
        [b'*', b'/', ..] if is_in_code => Some((K::CodeEnd, 2)),
        [b'/', b'*', b'!', version @ ..] => Some((K::CodeStart, 3 + version_size(version))),
        [b'/', b'*', b'M', b'!', ..] => Some(block(text, K::MariadbComment)),
        [b'/', b'*', ..] => Some(block(text, K::Comment)),
        _ => None,
    }
}

/// Returns the number of digits of a version: five or six, or none.
fn version_size(text: &[u8]) -> usize {
    match run(text, 0, |byte| byte.is_ascii_digit()) {
        0..5 => 0,
        size => size.min(6),
    }
}

fn line_end(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1)
}

fn block(text: &[u8], kind: SqlTokenKind) -> (SqlTokenKind, usize) {
    match text[2..].windows(2).position(|pair| pair == b"*/") {
        Some(at) => (kind, at + 4),
        None => (SqlTokenKind::Malformed, text.len()),
    }
}

/// Returns the end of the bytes from `start` on that satisfy the condition.
fn run(text: &[u8], start: usize, is_one: impl Fn(u8) -> bool) -> usize {
    let size = text.get(start..).unwrap_or_default().iter().take_while(|byte| is_one(**byte)).count();
    start + size
}

const fn is_bit(byte: u8) -> bool {
    matches!(byte, b'0' | b'1')
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

const fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
    use proptest::prelude::*;

    use super::{SqlLexer, SqlTokenKind, digits_of, name_of, string_of};

    /// Shows each token except spaces with the first letter of its kind, or its value.
    fn shown(sql: &str, sql_mode: u64) -> String {
        use SqlTokenKind as K;
        let lexer = SqlLexer::new(sql.as_bytes(), sql_mode);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let one = |token| {
            let bytes = lexer.bytes(&token);
            match token.kind {
                K::Space => String::new(),
                K::Comment => " C".to_owned(),
                K::MariadbComment => " MC".to_owned(),
                K::CodeStart => " {".to_owned(),
                K::CodeEnd => " }".to_owned(),
                K::Word => format!(" w:{}", text(bytes)),
                K::QuotedName => format!(" q:{}", text(&name_of(bytes))),
                K::String => format!(" s:{}", text(&string_of(bytes, sql_mode))),
                K::Number => format!(" n:{}", text(bytes)),
                K::Hex => format!(" x:{}", text(digits_of(bytes))),
                K::Bits => format!(" b:{}", text(digits_of(bytes))),
                K::Sign => format!(" {}", text(bytes)),
                K::Malformed => " !".to_owned(),
            }
        };
        lexer.clone().map(one).collect::<String>().trim_start().to_owned()
    }

    fn check(sql: &str, expected: &str) {
        assert_eq!(shown(sql, 0), expected, "{sql}");
    }

    #[test]
    fn names_and_words() {
        check("select größe$1 from`a``b`", "w:select w:größe$1 w:from q:a`b");
        check("1a 1e5 1e5x 1ex d.1t t.5 `t`.5", "w:1a n:1e5 n:1e5 w:x w:1ex w:d . w:1t w:t . w:5 q:t n:.5");
        check(
            "@a.b @@global.x u@10.0.0.1 @'x' @`y`",
            "@ w:a.b @ @ w:global . w:x w:u @ w:10.0.0.1 @ s:x @ q:y",
        );
        check("a\"b\"", "w:a s:b");
        assert_eq!(shown(r#"a"b\""c""d""#, ANSI_QUOTES), r#"w:a q:b\"c"d"#);
    }

    #[test]
    fn numbers() {
        check("1 1.5 .5 1. 1.e5 1e-5 1E+5 1.5e3", "n:1 n:1.5 n:.5 n:1. n:1.e5 n:1e-5 n:1E+5 n:1.5e3");
        check("0x1F X'1f' x'' x'1' x'g0'", "x:1F x:1f x: ! !");
        check("0b01 B'01' b'2' 0x 0xg 0X1 0b2", "b:01 b:01 ! w:0x w:0xg w:0X1 w:0b2");
        check("1-1", "n:1 - n:1");
    }

    #[test]
    fn strings() {
        check(
            r"'it''s' 'it\'s' 'a\n\0\Z\%\_\x\\' N'x' n'y' _utf8mb4'z'",
            "s:it's s:it's s:a\n\0\u{1a}\\%\\_x\\ s:x s:y w:_utf8mb4 s:z",
        );
        check(r#""a""b" "a\"b" '"'"#, "s:a\"b s:a\"b s:\"");
        assert_eq!(shown(r"'a\' 'b\n'", NO_BACKSLASH_ESCAPES), r"s:a\ s:b\n");
        check("'a", "!");
        check(r"'a\'", "!");
        check("`a", "!");
    }

    #[test]
    fn comments() {
        check("a--b", "w:a - - w:b");
        check("a -- b\nc # d\ne --", "w:a C w:c C w:e C");
        check("a/* b */c /*+ d */", "w:a C w:c C");
        check(
            "/*!a*/ /*!50100 b */ /*!080011c*/ /*!1 d*/ e*/",
            "{ w:a } { w:b } { w:c } { n:1 w:d } w:e * /",
        );
        check("/*! a /* b */ c */ d */", "{ w:a C w:c } w:d * /");
        check("/*M!100100 a */ b", "MC w:b");
        check("/* a", "!");
        check("/*/ */", "C");
    }

    proptest! {
        #[test]
        fn tokens_cover_any_text(text in prop::collection::vec(prop::sample::select(&b"'\"`\\/*!M#-- \n\r0x1be.E+@_aN\x80\xff()"[..]), 0..60), mode in 0..4_u64) {
            let sql_mode = (mode & 1) * ANSI_QUOTES + (mode >> 1) * NO_BACKSLASH_ESCAPES;
            let lexer = SqlLexer::new(&text, sql_mode);
            let mut end = 0;
            for token in lexer.clone() {
                prop_assert!(token.at.start == end && token.at.end > end);
                end = token.at.end;
                let bytes = lexer.bytes(&token);
                let _ = (name_of(bytes), string_of(bytes, sql_mode), digits_of(bytes));
            }
            prop_assert_eq!(end, text.len());
        }
    }
}
