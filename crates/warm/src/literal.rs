//! Column values as SQL literals that an index search can use.

use std::fmt::Write as _;

use binlog::{Collation, Column as LogColumn, ColumnType, Flavour, Value};
use sql::quote::put_hex;

use crate::replica_table::ReplicaColumn;

/// Appends a literal for a value that is not NULL; returns `false` if the type has no literal.
pub(crate) fn put_literal(
    out: &mut String,
    value: Value<'_>,
    log: &LogColumn,
    flavour: Flavour,
    column: &ReplicaColumn,
) -> bool {
    match value {
        Value::Int(number) => put_integer(out, number, log, column),
        Value::UInt(number) | Value::Set(number) => put_number(out, number),
        Value::Enum(number) => put_number(out, number.into()),
        Value::Year(year) => put_number(out, year.into()),
        Value::Bit(bit) => put_number(out, bit.value),
        // A FLOAT is compared as a DOUBLE.
        Value::Float(number) => put_double(out, number.into()),
        Value::Double(number) => put_double(out, number),
        Value::Decimal(decimal) => put_text(out, "", |out| decimal.write(out)),
        Value::Date(date) => put_text(out, "'", |out| date.write(out)),
        Value::Time(time) => put_text(out, "'", |out| time.write(out)),
        Value::DateTime(time) => put_text(out, "'", |out| time.write(out)),
        // The session's time zone is UTC.
        Value::Timestamp(time) => put_text(out, "'", |out| time.to_utc().write(out)),
        Value::Text(text) => {
            let charset = charset(text.collation, flavour).or(column.charset.as_deref());
            put_bytes(out, text.bytes, charset, 0);
        }
        Value::Bytes(bytes) => {
            // The log omits the trailing zeros of a BINARY.
            let size = if column.data_type == "binary" { column.octets } else { 0 };
            put_bytes(out, bytes.bytes, column.charset.as_deref(), size);
        }
        _ => return false,
    }
    true
}

/// Returns whether literals of the log's column can search the replica's column. Comparing a number with a text would
/// scan the whole index.
pub(crate) fn is_comparable(log: &LogColumn, column: &ReplicaColumn) -> bool {
    let types: &[&str] = match log.column_type {
        ColumnType::TinyInt
        | ColumnType::SmallInt
        | ColumnType::MediumInt
        | ColumnType::Int
        | ColumnType::BigInt => &["tinyint", "smallint", "mediumint", "int", "bigint", "decimal"],
        ColumnType::Float => &["float", "double"],
        ColumnType::Varchar { .. } | ColumnType::Char { .. } => &["char", "varchar", "binary", "varbinary"],
        // Indexes contain only prefixes of these types.
        ColumnType::Blob { .. } | ColumnType::Json { .. } | ColumnType::Vector { .. } => &[],
        same => same.data_types(),
    };
    types.contains(&column.data_type.as_str())
}

fn charset(collation: u16, flavour: Flavour) -> Option<&'static str> {
    Collation::new(collation, flavour).map(|collation| collation.charset().name())
}

/// Appends an integer. If the log does not state the signedness, uses the replica's column.
fn put_integer(out: &mut String, number: i64, log: &LogColumn, column: &ReplicaColumn) {
    match number < 0 && column.is_unsigned && log.unsigned.is_none() {
        true => put_number(out, log.column_type.unsigned(number)),
        false => {
            let _ = write!(out, "{number}");
        }
    }
}

fn put_number(out: &mut String, number: u64) {
    let _ = write!(out, "{number}");
}

fn put_double(out: &mut String, number: f64) {
    // A literal without an exponent would be a DECIMAL.
    let _ = write!(out, "{number:e}");
}

fn put_text(out: &mut String, quote: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut text = Vec::new();
    write(&mut text);
    let _ = write!(out, "{quote}{}{quote}", String::from_utf8_lossy(&text));
}

fn put_bytes(out: &mut String, bytes: &[u8], charset: Option<&str>, size: usize) {
    if let Some(charset) = charset.filter(|charset| *charset != "binary") {
        let _ = write!(out, "_{charset} ");
    }
    out.push_str("X'");
    put_hex(out, bytes);
    out.extend(std::iter::repeat_n("00", size.saturating_sub(bytes.len())));
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use binlog::{BytesValue, ColumnType, Flavour, TextValue, Value};

    use super::{is_comparable, put_literal};
    use crate::replica_table::ReplicaColumn;
    use crate::test_tables::log_column;

    fn column(data_type: &str) -> ReplicaColumn {
        ReplicaColumn { data_type: data_type.to_owned(), ..ReplicaColumn::default() }
    }

    fn check(value: Value<'_>, column_type: ColumnType, column: &ReplicaColumn, expected: Option<&str>) {
        let mut out = String::new();
        let is_put = put_literal(&mut out, value, &log_column(column_type), Flavour::MySql, column);
        assert_eq!(is_put.then_some(out.as_str()), expected, "{value:?}");
    }

    #[test]
    fn values_as_literals() {
        let text = |bytes, collation| Value::Text(TextValue { bytes, collation });
        let varchar = ColumnType::Varchar { size_max: 9 };
        check(Value::Int(-3), ColumnType::Int, &column("int"), Some("-3"));
        check(Value::UInt(u64::MAX), ColumnType::BigInt, &column("bigint"), Some("18446744073709551615"));
        check(Value::Double(0.1), ColumnType::Double, &column("double"), Some("1e-1"));
        check(text(b"it's", 255), varchar, &column("varchar"), Some("_utf8mb4 X'69742773'"));
        check(text(b"\xe9", 8), varchar, &column("varchar"), Some("_latin1 X'e9'"));
        check(Value::Enum(2), ColumnType::Enum { size: 1 }, &column("enum"), Some("2"));
        check(Value::Null, ColumnType::Int, &column("int"), None);
    }

    #[test]
    fn missing_log_metadata_comes_from_the_replica() {
        let unsigned = ReplicaColumn { is_unsigned: true, ..column("smallint") };
        check(Value::Int(-1), ColumnType::SmallInt, &unsigned, Some("65535"));
        let bytes = Value::Bytes(BytesValue { bytes: b"\x01", padding: 0 });
        let latin1 = ReplicaColumn { charset: Some("latin1".to_owned()), ..column("char") };
        check(bytes, ColumnType::Varchar { size_max: 9 }, &latin1, Some("_latin1 X'01'"));
        let binary = ReplicaColumn { octets: 3, ..column("binary") };
        check(bytes, ColumnType::Char { size_max: 3 }, &binary, Some("X'010000'"));
    }

    #[test]
    fn numbers_are_not_compared_with_texts() {
        assert!(is_comparable(&log_column(ColumnType::Int), &column("bigint")));
        assert!(!is_comparable(&log_column(ColumnType::Int), &column("varchar")));
        assert!(!is_comparable(&log_column(ColumnType::Varchar { size_max: 9 }), &column("int")));
        assert!(!is_comparable(&log_column(ColumnType::Varchar { size_max: 9 }), &column("text")));
    }
}
