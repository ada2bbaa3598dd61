//! Conversions of values when a column's type changes. Only conversions with exactly one possible result are supported.

use rusqlite::types::Value;

use crate::default_value::{rescale_datetime, rescale_decimal, zero_filled};
use crate::mysql_type::MysqlType;

/// Returns the converted value, as on the server; `None` if the result depends on more than the value.
pub(crate) fn convert(value: Value, from: &MysqlType, to: &MysqlType) -> Option<Value> {
    if value == Value::Null {
        return Some(value);
    }
    match (from, to) {
        (MysqlType::Integer { .. } | MysqlType::Year | MysqlType::Bit { .. }, _) => {
            convert_integer(value, from, to)
        }
        (MysqlType::Float, MysqlType::Double) => Some(value),
        (MysqlType::Double, MysqlType::Float) => match value {
            Value::Real(number) => Some(Value::Real(f64::from(number as f32))),
            _ => None,
        },
        (MysqlType::Bytes { .. }, MysqlType::Bytes { size }) => match value {
            Value::Blob(bytes) => Some(Value::Blob(zero_filled(bytes, *size))),
            _ => None,
        },
        (MysqlType::Bytes { .. }, _) => None,
        (_, _) => match value {
            Value::Text(text) => convert_text(text, from, to).map(Value::Text),
            _ => None,
        },
    }
}

fn convert_integer(value: Value, from: &MysqlType, to: &MysqlType) -> Option<Value> {
    let number: i128 = match &value {
        Value::Integer(number) => (*number).into(),
        Value::Text(text) => text.parse().ok()?,
        _ => return None,
    };
    match to {
        MysqlType::Integer { bits, unsigned } => {
            let bits = u32::from(*bits);
            let range = match unsigned {
                true => 0..1i128 << bits,
                false => -(1i128 << (bits - 1))..1i128 << (bits - 1),
            };
            range.contains(&number).then(|| integer(number))
        }
        MysqlType::Bit { bits } => (0..1i128 << bits).contains(&number).then(|| integer(number)),
        MysqlType::Decimal { scale } => rescale_decimal(&number.to_string(), *scale).map(Value::Text),
        MysqlType::Double => Some(Value::Real(number as f64)),
        // The server would convert a BIT value to bytes.
        MysqlType::Text { .. } if !matches!(from, MysqlType::Bit { .. }) => {
            Some(Value::Text(number.to_string()))
        }
        _ => None,
    }
}

fn integer(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::Text(number.to_string()), Value::Integer)
}

fn convert_text(text: String, from: &MysqlType, to: &MysqlType) -> Option<String> {
    match (from, to) {
        (MysqlType::Decimal { .. }, MysqlType::Decimal { scale }) => rescale_decimal(&text, *scale),
        (MysqlType::Date, MysqlType::DateTime { fraction }) => {
            rescale_datetime(&format!("{text} 00:00:00"), *fraction)
        }
        (MysqlType::DateTime { .. }, MysqlType::DateTime { fraction })
        | (MysqlType::Timestamp { .. }, MysqlType::Timestamp { fraction }) => {
            rescale_datetime(&text, *fraction)
        }
        (MysqlType::Time { .. }, MysqlType::Time { fraction }) => {
            let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
            let fraction = usize::from(*fraction);
            let (kept, dropped) = digits.split_at_checked(digits.len().min(fraction))?;
            let is_whole = dropped.bytes().all(|digit| digit == b'0');
            is_whole
                .then(|| if fraction > 0 { format!("{whole}.{kept:0<fraction$}") } else { whole.to_owned() })
        }
        (MysqlType::Text { .. } | MysqlType::Enum { .. }, MysqlType::Enum { texts }) => {
            texts.contains(&text).then_some(text)
        }
        (MysqlType::Set { .. }, MysqlType::Set { texts }) => {
            let mut members = text.split(',').filter(|member| !member.is_empty());
            let indexes: Option<Vec<usize>> =
                members.by_ref().map(|member| texts.iter().position(|text| text == member)).collect();
            let mut indexes = indexes?;
            indexes.sort_unstable();
            Some(indexes.iter().map(|index| texts[*index].clone()).collect::<Vec<_>>().join(","))
        }
        (
            MysqlType::Text { .. }
            | MysqlType::Enum { .. }
            | MysqlType::Set { .. }
            | MysqlType::Decimal { .. }
            | MysqlType::Date
            | MysqlType::Time { .. }
            | MysqlType::DateTime { .. }
            | MysqlType::Json,
            MysqlType::Text { .. },
        ) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::convert;
    use crate::mysql_type::MysqlType;

    const INT: MysqlType = MysqlType::Integer { bits: 32, unsigned: false };
    const BIGINT_UNSIGNED: MysqlType = MysqlType::Integer { bits: 64, unsigned: true };

    #[test]
    fn conversions_have_one_outcome_or_none() {
        let text = |text: &str| Value::Text(text.to_owned());
        let check = |value: Value, from: MysqlType, to: MysqlType, expected: Option<Value>| {
            assert_eq!(convert(value.clone(), &from, &to), expected, "{value:?} {from:?} {to:?}");
        };
        check(Value::Integer(-1), INT, BIGINT_UNSIGNED, None);
        check(text("18446744073709551615"), BIGINT_UNSIGNED, INT, None);
        check(Value::Integer(7), INT, MysqlType::Decimal { scale: 2 }, Some(text("7.00")));
        check(Value::Integer(7), INT, MysqlType::Text { charset: None }, Some(text("7")));
        check(Value::Integer(7), MysqlType::Bit { bits: 3 }, MysqlType::Text { charset: None }, None);
        check(text("1.5"), MysqlType::Decimal { scale: 1 }, MysqlType::Decimal { scale: 0 }, None);
        check(
            text("2026-01-02"),
            MysqlType::Date,
            MysqlType::DateTime { fraction: 1 },
            Some(text("2026-01-02 00:00:00.0")),
        );
        check(
            text("-01:02:03.50"),
            MysqlType::Time { fraction: 2 },
            MysqlType::Time { fraction: 1 },
            Some(text("-01:02:03.5")),
        );
        check(
            text("a"),
            MysqlType::Text { charset: None },
            MysqlType::Enum { texts: vec!["b".to_owned()] },
            None,
        );
        check(
            Value::Blob(vec![1]),
            MysqlType::Bytes { size: None },
            MysqlType::Bytes { size: Some(2) },
            Some(Value::Blob(vec![1, 0])),
        );
        check(Value::Null, INT, MysqlType::Json, Some(Value::Null));
    }
}
