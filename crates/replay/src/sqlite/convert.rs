//! Conversions of values when a column's type changes. Only conversions with exactly one possible result are supported.

use rusqlite::types::Value;

use crate::sqlite::alter::moment;
use crate::sqlite::literal::{filled, scaled};
use crate::sqlite::types::Type;

/// Returns the value as the server converts it; `None` if the result depends on more than the value.
pub(super) fn convert(value: Value, from: &Type, to: &Type) -> Option<Value> {
    if value == Value::Null {
        return Some(value);
    }
    match (from, to) {
        (Type::Integer { .. } | Type::Year | Type::Bit { .. }, _) => of_integer(value, from, to),
        (Type::Float, Type::Double) => Some(value),
        (Type::Double, Type::Float) => match value {
            Value::Real(number) => Some(Value::Real(f64::from(number as f32))),
            _ => None,
        },
        (Type::Bytes { .. }, Type::Bytes { size }) => match value {
            Value::Blob(bytes) => Some(Value::Blob(filled(bytes, *size))),
            _ => None,
        },
        (Type::Bytes { .. }, _) => None,
        (_, _) => match value {
            Value::Text(text) => of_text(text, from, to).map(Value::Text),
            _ => None,
        },
    }
}

fn of_integer(value: Value, from: &Type, to: &Type) -> Option<Value> {
    let number: i128 = match &value {
        Value::Integer(number) => (*number).into(),
        Value::Text(text) => text.parse().ok()?,
        _ => return None,
    };
    match to {
        Type::Integer { bits, unsigned } => {
            let bits = u32::from(*bits);
            let range = match unsigned {
                true => 0..1i128 << bits,
                false => -(1i128 << (bits - 1))..1i128 << (bits - 1),
            };
            range.contains(&number).then(|| integer(number))
        }
        Type::Bit { bits } => (0..1i128 << bits).contains(&number).then(|| integer(number)),
        Type::Decimal { scale } => scaled(&number.to_string(), *scale).map(Value::Text),
        Type::Double => Some(Value::Real(number as f64)),
        // The server would convert a BIT value to bytes.
        Type::Text { .. } if !matches!(from, Type::Bit { .. }) => Some(Value::Text(number.to_string())),
        _ => None,
    }
}

fn integer(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::Text(number.to_string()), Value::Integer)
}

fn of_text(text: String, from: &Type, to: &Type) -> Option<String> {
    match (from, to) {
        (Type::Decimal { .. }, Type::Decimal { scale }) => scaled(&text, *scale),
        (Type::Date, Type::DateTime { fraction }) => moment(&format!("{text} 00:00:00"), *fraction),
        (Type::DateTime { .. }, Type::DateTime { fraction })
        | (Type::Timestamp { .. }, Type::Timestamp { fraction }) => moment(&text, *fraction),
        (Type::Time { .. }, Type::Time { fraction }) => {
            let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
            let fraction = usize::from(*fraction);
            let (kept, cut) = digits.split_at_checked(digits.len().min(fraction))?;
            let is_whole = cut.bytes().all(|digit| digit == b'0');
            is_whole
                .then(|| if fraction > 0 { format!("{whole}.{kept:0<fraction$}") } else { whole.to_owned() })
        }
        (Type::Text { .. } | Type::Enum { .. }, Type::Enum { texts }) => {
            texts.contains(&text).then_some(text)
        }
        (Type::Set { .. }, Type::Set { texts }) => {
            let mut members = text.split(',').filter(|member| !member.is_empty());
            let places: Option<Vec<usize>> =
                members.by_ref().map(|member| texts.iter().position(|text| text == member)).collect();
            let mut places = places?;
            places.sort_unstable();
            Some(places.iter().map(|place| texts[*place].clone()).collect::<Vec<_>>().join(","))
        }
        (
            Type::Text { .. }
            | Type::Enum { .. }
            | Type::Set { .. }
            | Type::Decimal { .. }
            | Type::Date
            | Type::Time { .. }
            | Type::DateTime { .. }
            | Type::Json,
            Type::Text { .. },
        ) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::convert;
    use crate::sqlite::types::Type;

    const INT: Type = Type::Integer { bits: 32, unsigned: false };
    const BIGINT_UNSIGNED: Type = Type::Integer { bits: 64, unsigned: true };

    #[test]
    fn conversions_have_one_outcome_or_none() {
        let text = |text: &str| Value::Text(text.to_owned());
        let check = |value: Value, from: Type, to: Type, wanted: Option<Value>| {
            assert_eq!(convert(value.clone(), &from, &to), wanted, "{value:?} {from:?} {to:?}");
        };
        check(Value::Integer(-1), INT, BIGINT_UNSIGNED, None);
        check(text("18446744073709551615"), BIGINT_UNSIGNED, INT, None);
        check(Value::Integer(7), INT, Type::Decimal { scale: 2 }, Some(text("7.00")));
        check(Value::Integer(7), INT, Type::Text { charset: None }, Some(text("7")));
        check(Value::Integer(7), Type::Bit { bits: 3 }, Type::Text { charset: None }, None);
        check(text("1.5"), Type::Decimal { scale: 1 }, Type::Decimal { scale: 0 }, None);
        check(
            text("2026-01-02"),
            Type::Date,
            Type::DateTime { fraction: 1 },
            Some(text("2026-01-02 00:00:00.0")),
        );
        check(
            text("-01:02:03.50"),
            Type::Time { fraction: 2 },
            Type::Time { fraction: 1 },
            Some(text("-01:02:03.5")),
        );
        check(text("a"), Type::Text { charset: None }, Type::Enum { texts: vec!["b".to_owned()] }, None);
        check(
            Value::Blob(vec![1]),
            Type::Bytes { size: None },
            Type::Bytes { size: Some(2) },
            Some(Value::Blob(vec![1, 0])),
        );
        check(Value::Null, INT, Type::Json, Some(Value::Null));
    }
}
