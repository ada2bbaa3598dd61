//! Prepared statements as texts: finds parameters, and replaces them by values.

use binlog::sql_mode::NO_BACKSLASH_ESCAPES;
use sql::lexer::{SqlLexer, SqlTokenKind};
use sql::quote::{quote_plain_text, quote_text};
use wire::{ParameterValue, TimeValue};

/// Prepared statement with the places of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedText {
    text: String,
    /// Offset of the `?` of each parameter.
    parameters: Vec<u32>,
}

impl PreparedText {
    /// Finds the parameters: each `?` outside of quotes and comments, according to the bits of `sql_mode`.
    pub(crate) fn parse(sql: &str, sql_mode: u64) -> Self {
        let tokens = SqlLexer::new(sql.as_bytes(), sql_mode);
        let parameters =
            tokens.filter(|token| token.kind == SqlTokenKind::Sign && &sql[token.at.clone()] == "?");
        let offset =
            |at: usize| u32::try_from(at).unwrap_or_else(|_| unreachable!("ours: texts are limited"));
        let parameters = parameters.map(|token| offset(token.at.start)).collect();
        Self { text: sql.to_owned(), parameters }
    }

    /// Returns the size in memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.text.len() + size_of_val(&self.parameters[..])
    }

    /// Returns the number of parameters.
    pub(crate) fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Returns the statement with these values, for a session with these bits of `sql_mode`.
    pub(crate) fn with_values(&self, values: &[ParameterValue<'_>], sql_mode: u64) -> String {
        let (mut text, mut start) = (String::new(), 0);
        for (index, at) in self.parameters.iter().enumerate() {
            text.push_str(&self.text[start..*at as usize]);
            put_literal(values.get(index).unwrap_or(&ParameterValue::Null), sql_mode, &mut text);
            start = *at as usize + "?".len();
        }
        text.push_str(&self.text[start..]);
        text
    }
}

fn put_literal(value: &ParameterValue<'_>, sql_mode: u64, out: &mut String) {
    let quote = if sql_mode & NO_BACKSLASH_ESCAPES == 0 { quote_text } else { quote_plain_text };
    match value {
        ParameterValue::Null | ParameterValue::SentAhead => out.push_str("NULL"),
        ParameterValue::Int(number) => out.push_str(&number.to_string()),
        ParameterValue::UInt(number) => out.push_str(&number.to_string()),
        ParameterValue::Float(number) => out.push_str(&number.to_string()),
        ParameterValue::Double(number) => out.push_str(&number.to_string()),
        ParameterValue::DateTime(value) => out.push_str(&quote(&value.to_string())),
        ParameterValue::Time(value) => out.push_str(&quote(&time_text(*value))),
        ParameterValue::Bytes(bytes) => out.push_str(&quote(&String::from_utf8_lossy(bytes))),
    }
}

fn time_text(value: TimeValue) -> String {
    let sign = if value.is_negative { "-" } else { "" };
    let hours = u64::from(value.days) * 24 + u64::from(value.hours);
    format!("{sign}{hours}:{:02}:{:02}.{:06}", value.minutes, value.seconds, value.microseconds)
}

#[cfg(test)]
mod tests {
    use binlog::sql_mode::NO_BACKSLASH_ESCAPES;
    use wire::ParameterValue;

    use super::PreparedText;

    #[test]
    fn parameters_are_replaced_by_values() {
        let check = |sql: &str, values: &[ParameterValue<'_>], expected: &str| {
            let text = PreparedText::parse(sql, 0);
            assert_eq!((text.parameters(), text.with_values(values, 0)), (values.len(), expected.to_owned()));
        };
        check("SELECT 1", &[], "SELECT 1");
        check("SELECT ?", &[ParameterValue::Int(-7)], "SELECT -7");
        check("SHOW VARIABLES LIKE ?", &[ParameterValue::Bytes(b"a'b\\")], r"SHOW VARIABLES LIKE 'a''b\\'");
        check("SELECT '?', `?`, \"?\" /* ? */, ? -- ?", &[ParameterValue::Null], {
            "SELECT '?', `?`, \"?\" /* ? */, NULL -- ?"
        });
        check(r"SELECT 'a\'?', 'b''?', ?", &[ParameterValue::UInt(3)], r"SELECT 'a\'?', 'b''?', 3");
        check("SELECT '?", &[], "SELECT '?");
    }
    #[test]
    fn a_backslash_may_have_no_meaning() {
        let text = PreparedText::parse(r"SELECT 'a\', ?, '?'", NO_BACKSLASH_ESCAPES);
        let value = [ParameterValue::Bytes(br"a'b\")];
        assert_eq!(text.parameters(), 1);
        assert_eq!(text.with_values(&value, NO_BACKSLASH_ESCAPES), r"SELECT 'a\', 'a''b\', '?'");
        assert_eq!(text.with_values(&value, 0), r"SELECT 'a\', 'a''b\\', '?'");
    }
}
