//! Column values as statement parameters.

use binlog::{Column, Value};
use replay::TargetFailure;
use servers::StatementParameter;
use sql::data_type::fixed_byte_size;

use crate::row_sql::target_table::TargetColumn;

/// Returns a value as a parameter for this column. JSON documents go as text.
pub(super) fn parameter(
    value: Value<'_>,
    log: &Column,
    target: &TargetColumn,
) -> Result<StatementParameter, TargetFailure> {
    Ok(match value {
        Value::Null => StatementParameter::Null,
        Value::Int(number) => integer(number, log, target)?,
        Value::UInt(number) | Value::Set(number) => StatementParameter::UInt(number),
        Value::Float(number) => StatementParameter::Float(number),
        Value::Double(number) => StatementParameter::Double(number),
        Value::Decimal(decimal) => text(|out| decimal.write(out)),
        Value::Date(date) => text(|out| date.write(out)),
        Value::Time(time) => text(|out| time.write(out)),
        Value::DateTime(time) => text(|out| time.write(out)),
        // The session's time zone is UTC.
        Value::Timestamp(time) => text(|out| time.to_utc().write(out)),
        Value::Year(year) => StatementParameter::UInt(year.into()),
        Value::Enum(number) => StatementParameter::UInt(number.into()),
        Value::Bit(bit) => StatementParameter::UInt(bit.value),
        Value::Text(text) => StatementParameter::Bytes(text.bytes.to_vec()),
        Value::Bytes(bytes) => padded(bytes.bytes, target),
        Value::Json(document) => {
            let mut out = Vec::new();
            document.write(binlog::JsonQuotes::Always, &mut out)?;
            StatementParameter::Bytes(out)
        }
        Value::Geometry(geometry) => StatementParameter::Bytes(geometry.bytes.to_vec()),
        Value::Vector(vector) => StatementParameter::Bytes(vector.bytes.to_vec()),
        Value::Compressed(compressed) => {
            StatementParameter::Bytes(compressed.decompress(COMPRESSED_MAX)?.into_owned())
        }
        _ => return Err(TargetFailure::refused(format!("{} has a value of an unknown type", target.name))),
    })
}

/// Maximum size of a compressed column's value in bytes, as of a LONGBLOB.
const COMPRESSED_MAX: usize = u32::MAX as usize;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> StatementParameter {
    let mut out = Vec::new();
    write(&mut out);
    StatementParameter::Bytes(out)
}

/// Returns an integer parameter. If the log does not state whether the column is unsigned, the target's column decides.
fn integer(number: i64, log: &Column, target: &TargetColumn) -> Result<StatementParameter, TargetFailure> {
    if number >= 0 || !target.is_unsigned {
        return Ok(StatementParameter::Int(number));
    }
    if log.unsigned.is_some() {
        let name = &target.name;
        return Err(TargetFailure::refused(format!(
            "{name} is {number} in the log, but UNSIGNED on the target"
        )));
    }
    Ok(StatementParameter::UInt(log.column_type.unsigned(number)))
}

/// Appends the zeros that pad a BINARY value, which the log omits. MariaDB logs its INET4, INET6 and UUID types in the
/// same way.
fn padded(bytes: &[u8], target: &TargetColumn) -> StatementParameter {
    let mut bytes = bytes.to_vec();
    let size = match target.data_type.as_str() {
        "binary" => target.octets,
        data_type => fixed_byte_size(data_type).unwrap_or(0),
    };
    if bytes.len() < size {
        bytes.resize(size, 0);
    }
    StatementParameter::Bytes(bytes)
}
