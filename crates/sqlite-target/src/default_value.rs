//! Default values in definitions, as SQLite stores them.

use rusqlite::types::Value;
use serde::{Deserialize, Serialize};
use sql::ddl::DefaultClause;
use sql::quote::quote_plain_text;

use crate::mysql_type::{MysqlType, StrictType};

/// The default of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum DefaultValue {
    /// No DEFAULT clause: NULL, or the type's implicit default.
    #[default]
    None,
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// The timestamp of the statement.
    Now,
    /// An expression, or a value in an unsupported form.
    Unknown,
}

/// A literal in a definition.
#[derive(Clone, Debug, PartialEq)]
enum SqlLiteral {
    Text(String),
    Number(String),
    Bytes(Vec<u8>),
    Bits(u64),
}

impl DefaultValue {
    /// Returns the default in a definition, for a column of this type.
    pub(crate) fn of_clause(clause: &DefaultClause, kind: &MysqlType) -> Self {
        let literal = match clause {
            DefaultClause::Null => return Self::Null,
            DefaultClause::CurrentTimestamp => return Self::Now,
            DefaultClause::Expression => return Self::Unknown,
            DefaultClause::Text(text) => Some(SqlLiteral::Text(text.clone())),
            DefaultClause::Number(number) => Some(SqlLiteral::Number(number.clone())),
            DefaultClause::Boolean(value) => Some(SqlLiteral::Number(u8::from(*value).to_string())),
            DefaultClause::Bits(digits) => u64::from_str_radix(digits, 2).ok().map(SqlLiteral::Bits),
            DefaultClause::Hex(digits) => unhex(digits).map(SqlLiteral::Bytes),
        };
        literal.map_or(Self::Unknown, |literal| Self::of(literal, kind))
    }

    fn of(literal: SqlLiteral, kind: &MysqlType) -> Self {
        let text = match &literal {
            SqlLiteral::Text(text) | SqlLiteral::Number(text) => text.clone(),
            SqlLiteral::Bits(bits) => bits.to_string(),
            SqlLiteral::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap_or_default(),
        };
        let found = match (kind, literal) {
            (MysqlType::Bytes { size }, SqlLiteral::Bytes(bytes)) => {
                Some(Self::Bytes(zero_filled(bytes, *size)))
            }
            (MysqlType::Bytes { size }, _) => Some(Self::Bytes(zero_filled(text.into_bytes(), *size))),
            (MysqlType::Bit { .. } | MysqlType::Integer { .. }, SqlLiteral::Bytes(bytes))
                if bytes.len() <= 8 =>
            {
                let number = bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
                Some(Self::integer(number.into()))
            }
            (MysqlType::Enum { texts }, SqlLiteral::Number(number)) => number
                .parse::<usize>()
                .ok()
                .and_then(|number| texts.get(number.checked_sub(1)?).cloned())
                .map(Self::Text),
            (_, SqlLiteral::Bytes(_)) => None,
            _ => Self::of_text(text, kind),
        };
        found.unwrap_or(Self::Unknown)
    }

    fn of_text(text: String, kind: &MysqlType) -> Option<Self> {
        Some(match kind {
            MysqlType::Integer { .. } | MysqlType::Year | MysqlType::Bit { .. } => {
                Self::integer(text.trim().parse().ok()?)
            }
            MysqlType::Float => Self::Real(f64::from(text.trim().parse::<f32>().ok()?)),
            MysqlType::Double => Self::Real(text.trim().parse().ok()?),
            MysqlType::Decimal { scale } => Self::Text(rescale_decimal(text.trim(), *scale)?),
            MysqlType::Text { .. } => Self::Text(text),
            MysqlType::Enum { texts } | MysqlType::Set { texts } if texts.is_empty() => return None,
            MysqlType::Enum { texts } => {
                Self::Text(texts.iter().find(|member| member.eq_ignore_ascii_case(&text))?.clone())
            }
            MysqlType::Set { texts } => Self::Text(members(&text, texts)?),
            MysqlType::Date => Self::Text(match_shape(&text, "dddd-dd-dd")?),
            MysqlType::Time { fraction } => Self::Text(rescale_fraction(&text, "dd:dd:dd", *fraction)?),
            MysqlType::DateTime { fraction } | MysqlType::Timestamp { fraction } => {
                let text = if text.len() == 10 { text + " 00:00:00" } else { text };
                // The default of a TIMESTAMP is in the session's time zone. Only the zero value is equal in all time
                // zones.
                if matches!(kind, MysqlType::Timestamp { .. }) && !text.starts_with("0000-00-00") {
                    return None;
                }
                Self::Text(rescale_datetime(&text, *fraction)?)
            }
            MysqlType::Json | MysqlType::Geometry | MysqlType::Vector | MysqlType::Bytes { .. } => {
                return None;
            }
        })
    }

    /// Returns an integer; as text if it exceeds SQLite's range.
    fn integer(number: i128) -> Self {
        i64::try_from(number).map_or_else(|_| Self::Text(number.to_string()), Self::Integer)
    }

    /// Returns the value of a row that omits the column; `None` if it is unknown.
    pub(crate) fn value(&self, kind: &MysqlType, nullable: bool) -> Option<Value> {
        Some(match self {
            Self::None if nullable => Value::Null,
            Self::None => implicit_default(kind),
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Real(number) => Value::Real(*number),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Bytes(bytes) => Value::Blob(bytes.clone()),
            Self::Now | Self::Unknown => return None,
        })
    }
}

/// Returns a value as an SQL literal of SQLite.
pub(crate) fn sql_literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:e}"),
        Value::Text(text) => quote_plain_text(text),
        Value::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        }
    }
}

/// Returns the implicit default of a NOT NULL column.
pub(crate) fn implicit_default(kind: &MysqlType) -> Value {
    let with = |text: &str, fraction: u8| {
        let zeros = "0".repeat(fraction.into());
        Value::Text(if fraction > 0 { format!("{text}.{zeros}") } else { text.to_owned() })
    };
    match kind {
        MysqlType::Decimal { scale } => with("0", *scale),
        MysqlType::Date => Value::Text("0000-00-00".to_owned()),
        MysqlType::Time { fraction } => with("00:00:00", *fraction),
        MysqlType::DateTime { fraction } | MysqlType::Timestamp { fraction } => {
            with("0000-00-00 00:00:00", *fraction)
        }
        MysqlType::Enum { texts } if !texts.is_empty() => Value::Text(texts[0].clone()),
        MysqlType::Enum { .. } => Value::Integer(1),
        MysqlType::Json => Value::Text("null".to_owned()),
        MysqlType::Bytes { size: Some(size) } => Value::Blob(vec![0; usize::from(*size)]),
        kind => match kind.strict_type() {
            StrictType::Integer | StrictType::Any => Value::Integer(0),
            StrictType::Real => Value::Real(0.0),
            StrictType::Text => Value::Text(String::new()),
            StrictType::Blob => Value::Blob(Vec::new()),
        },
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    (0..even.len()).step_by(2).map(|at| u8::from_str_radix(even.get(at..at + 2)?, 16).ok()).collect()
}

/// Pads a BINARY value with zeros.
pub(crate) fn zero_filled(mut bytes: Vec<u8>, size: Option<u16>) -> Vec<u8> {
    if let Some(size) = size {
        bytes.resize(bytes.len().max(size.into()), 0);
    }
    bytes
}

/// Returns a decimal with `scale` fractional digits; `None` if that would drop digits other than zeros.
pub(crate) fn rescale_decimal(text: &str, scale: u8) -> Option<String> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = usize::from(scale);
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (kept, dropped) = fraction.split_at(fraction.len().min(scale));
    if dropped.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if scale > 0 { "." } else { "" };
    let number = format!("{whole}{point}{kept:0<scale$}");
    let is_zero = number.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    Some(if is_zero { number } else { format!("{sign}{number}") })
}

/// Returns the members of a SET that a text names, in the order of the definition.
fn members(text: &str, texts: &[String]) -> Option<String> {
    let named: Vec<&str> = text.split(',').filter(|member| !member.is_empty()).collect();
    let is_known = |member: &&str| texts.iter().any(|text| text.eq_ignore_ascii_case(member));
    if !named.iter().all(is_known) {
        return None;
    }
    let is_named = |text: &&String| named.iter().any(|member| text.eq_ignore_ascii_case(member));
    Some(texts.iter().filter(is_named).cloned().collect::<Vec<_>>().join(","))
}

/// Returns the text if it matches this pattern, where `d` is a digit.
fn match_shape(text: &str, shape: &str) -> Option<String> {
    let fits = text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            shape => byte == shape,
        });
    fits.then(|| text.to_owned())
}

/// Returns the text with `fraction` fractional digits, if its first part matches this pattern.
fn rescale_fraction(text: &str, shape: &str, fraction: u8) -> Option<String> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let whole = match_shape(whole, shape)?;
    let fraction = usize::from(fraction);
    let (kept, dropped) = digits.split_at_checked(digits.len().min(fraction))?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || dropped.bytes().any(|digit| digit != b'0') {
        return None;
    }
    Some(if fraction > 0 { format!("{whole}.{kept:0<fraction$}") } else { whole })
}

/// Returns a date and time with this number of fractional digits.
pub(crate) fn rescale_datetime(text: &str, fraction: u8) -> Option<String> {
    rescale_fraction(text, "dddd-dd-dd dd:dd:dd", fraction)
}

#[cfg(test)]
mod tests {
    use super::{rescale_decimal, rescale_fraction};

    #[test]
    fn decimals_are_scaled() {
        let check = |text, scale, expected: Option<&str>| {
            assert_eq!(rescale_decimal(text, scale).as_deref(), expected)
        };
        check("1.5", 2, Some("1.50"));
        check("-01.500", 1, Some("-1.5"));
        check("1.51", 1, None);
        check("-0.00", 1, Some("0.0"));
        check(".5", 0, None);
        check("+7", 0, Some("7"));
        check("", 0, None);
        check("1e3", 0, None);
    }

    #[test]
    fn fractions_are_filled_up() {
        let check = |text, fraction, expected: Option<&str>| {
            assert_eq!(rescale_fraction(text, "dd:dd", fraction).as_deref(), expected)
        };
        check("10:20", 0, Some("10:20"));
        check("10:20", 3, Some("10:20.000"));
        check("10:20.5", 3, Some("10:20.500"));
        check("10:20.5", 0, None);
        check("1:20", 0, None);
    }
}
