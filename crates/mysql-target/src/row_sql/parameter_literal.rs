//! Statement parameters as SQL literals.

use std::fmt::Write as _;

use servers::StatementParameter;
use sql::lexer::{SqlLexer, SqlTokenKind};
use sql::quote::{put_hex, quote_text};

/// Returns a statement with its parameters as literals, for a session with `character_set_client=binary` and without
/// `NO_BACKSLASH_ESCAPES`.
pub(crate) fn inline_parameters(sql: &str, parameters: &[StatementParameter]) -> String {
    let mut out = String::with_capacity(sql.len() + 16 * parameters.len());
    let mut values = parameters.iter();
    for token in SqlLexer::new(sql.as_bytes(), 0) {
        let text = &sql[token.at.clone()];
        match values.as_slice().first() {
            Some(parameter) if token.kind == SqlTokenKind::Sign && text == "?" => {
                out.push_str(&literal(parameter));
                values.next();
            }
            _ => out.push_str(text),
        }
    }
    assert!(values.as_slice().is_empty(), "ours: a statement has a placeholder for each parameter");
    out
}

/// Returns a parameter as a literal. Non-ASCII bytes become a binary string, as in a parameter.
pub(super) fn literal(parameter: &StatementParameter) -> String {
    match parameter {
        StatementParameter::Null => "NULL".to_owned(),
        StatementParameter::Int(number) => number.to_string(),
        StatementParameter::UInt(number) => number.to_string(),
        // A FLOAT column is compared as a DOUBLE: the literal has all digits of this value.
        StatementParameter::Float(number) => double(f64::from(*number)),
        StatementParameter::Double(number) => double(*number),
        StatementParameter::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) if text.chars().all(is_printable) => match text.is_ascii() {
                true => quote_text(text),
                false => format!("_binary{}", quote_text(text)),
            },
            _ => {
                let mut out = String::from("X'");
                put_hex(&mut out, bytes);
                out.push('\'');
                out
            }
        },
    }
}

/// Returns true for characters that any editor shows, and for the blanks of text.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\t') || !character.is_control()
}

/// Returns the shortest DOUBLE literal with this value. The literal has an exponent, because a literal without an
/// exponent is a DECIMAL.
fn double(number: f64) -> String {
    let mut out = String::new();
    let _ = write!(out, "{number:e}");
    out
}

#[cfg(test)]
mod tests {
    use servers::StatementParameter;

    use super::inline_parameters;

    fn check(sql: &str, parameters: &[StatementParameter], expected: &str) {
        assert_eq!(inline_parameters(sql, parameters), expected);
    }

    #[test]
    fn placeholders_become_literals() {
        let bytes = |bytes: &[u8]| StatementParameter::Bytes(bytes.to_vec());
        check("UPDATE t SET a=?", &[StatementParameter::Null], "UPDATE t SET a=NULL");
        check("`a?` = ? AND '?' = ?", &[StatementParameter::Int(-1), bytes(b"?")], "`a?` = -1 AND '?' = '?'");
        check("?", &[bytes(b"it's\\\n")], "'it''s\\\\\\n'");
        check("?", &[bytes("é".as_bytes())], "_binary'é'");
        check("?,?", &[bytes(b"\xe9"), bytes(b"\0")], "X'e9',X'00'");
        check("?", &[StatementParameter::Float(1.1)], "1.100000023841858e0");
        check("?", &[StatementParameter::Double(-1e300)], "-1e300");
        check("?", &[StatementParameter::UInt(u64::MAX)], "18446744073709551615");
    }
}
