//! Default values of columns, as JSON in the form of the column's values.

use std::net::{Ipv4Addr, Ipv6Addr};

use sql::quote::parse_hex;

use crate::column_catalogue::{ColumnSchema, parse_texts};
use crate::column_domain::ColumnDomain;
use crate::settings::Envelope;
use crate::snapshot_column::{SnapshotColumn, parse_length};
use crate::value::ValueBuffers;
use crate::value_modes::ValueModes;

/// Time that stands for the present one in definitions.
const EPOCH: &str = "1970-01-01 00:00:00";

/// Returns the default value of a column, as JSON; `None` without one, or if it is not a constant.
pub(crate) fn default_json(column: &ColumnSchema, modes: ValueModes) -> Option<String> {
    let text = column.ddl.default.as_deref()?;
    let domain = ColumnDomain::from_catalogue(column);
    let text = match &domain {
        // Like the connector, which takes the zero time for none.
        ColumnDomain::Timestamp if column.nullable && text == EPOCH => return None,
        ColumnDomain::Text | ColumnDomain::Bytes | ColumnDomain::Enum(_) | ColumnDomain::Set(_) => {
            text.to_owned()
        }
        ColumnDomain::Decimal { scale, .. } => scaled_decimal(truth_number(text.trim()), (*scale).into())?,
        ColumnDomain::DateTime { .. } | ColumnDomain::Timestamp if !text.trim().contains(' ') => {
            format!("{} 00:00:00", text.trim())
        }
        _ => truth_number(text.trim()).to_owned(),
    };
    let bytes = value_bytes(column, text)?;
    let (mut json, mut buffers) = (Vec::new(), ValueBuffers::default());
    SnapshotColumn::new(column, modes).put(&mut json, &bytes, Envelope::Debezium, &mut buffers)?;
    String::from_utf8(json).ok().filter(|json| json != "null")
}

/// Returns the value of this text as a snapshot reads it; `None` if it is not a value of the column's type.
fn value_bytes(column: &ColumnSchema, text: String) -> Option<Vec<u8>> {
    match &*column.data_type {
        "uuid" => parse_hex(&text.replace('-', "")).filter(|bytes| bytes.len() == 16),
        "inet6" => text.parse::<Ipv6Addr>().ok().map(|address| address.octets().to_vec()),
        "inet4" => text.parse::<Ipv4Addr>().ok().map(|address| address.octets().to_vec()),
        "set" => {
            set_number(&parse_texts(&column.column_type), &text).map(|number| number.to_string().into_bytes())
        }
        // Its default value is an expression, or bytes that are not text.
        "vector" => None,
        "binary" => {
            let mut bytes = text.into_bytes();
            let size = parse_length(&column.column_type).unwrap_or(1).max(bytes.len());
            bytes.resize(size, 0);
            Some(bytes)
        }
        _ => Some(text.into_bytes()),
    }
}

/// Returns a SET as a number: one bit for each member; `None` if one is not among `members`.
fn set_number(members: &[String], text: &str) -> Option<u64> {
    let mut chosen = text.split(',').filter(|_| !text.is_empty());
    chosen.try_fold(0, |bits, name| {
        let at = members.iter().position(|member| member == name)?;
        Some(bits | 1_u64.checked_shl(u32::try_from(at).ok()?)?)
    })
}

fn truth_number(text: &str) -> &str {
    match text {
        "TRUE" => "1",
        "FALSE" => "0",
        number => number,
    }
}

/// Returns a decimal with this number of digits after the point; `None` if it has more of them, or an exponent.
fn scaled_decimal(text: &str, scale: usize) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let is_number = digits.chars().chain(fraction.chars()).all(|digit| digit.is_ascii_digit());
    if !is_number || fraction.len() > scale || digits.len() + fraction.len() == 0 {
        return None;
    }
    let whole = whole.strip_prefix('+').unwrap_or(whole);
    Some(if scale == 0 { whole.to_owned() } else { format!("{whole}.{fraction:0<scale$}") })
}

#[cfg(test)]
mod tests {
    use super::default_json;
    use crate::column_catalogue::{ColumnDdl, ColumnSchema};
    use crate::value_modes::ValueModes;

    #[test]
    fn defaults_have_the_form_of_values() {
        let check = |column_type: &str, default: &str, expected: Option<&str>| {
            let data_type = column_type.split(['(', ' ']).next().unwrap_or_default().to_owned();
            let ddl = ColumnDdl { default: Some(default.to_owned()), ..ColumnDdl::default() };
            let column_type = column_type.to_owned();
            let column = ColumnSchema { data_type, column_type, ddl, ..ColumnSchema::default() };
            assert_eq!(default_json(&column, ValueModes::default()).as_deref(), expected, "{default}");
        };
        check("int", "-1", Some("-1"));
        check("int", "x", None);
        check("tinyint(1)", "TRUE", Some("1"));
        check("decimal(5,2)", "7.5", Some("\"Au4=\""));
        check("decimal(5,2)", "-1", Some("\"nA==\""));
        check("decimal(5,2)", "1.005", None);
        check("decimal(5,0)", "1.0", Some("\"AQ==\""));
        check("varchar(9)", "it's", Some("\"it's\""));
        check("enum('a','b')", "b", Some("\"b\""));
        check("set('a','b')", "a,b", Some("\"a,b\""));
        check("set('a','b')", "a,a", Some("\"a\""));
        check("set('a','b')", "", Some("\"\""));
        check("set('a','b')", "c", None);
        check("date", "1970-01-02", Some("1"));
        check("datetime(3)", "1970-01-01 00:00:01.5", Some("1500"));
        check("datetime", "1970-01-02", Some("86400000"));
        check("timestamp", super::EPOCH, Some("\"1970-01-01T00:00:00Z\""));
        check("time", "00:00:01", Some("1000000"));
        check("varbinary(9)", "ab", Some("\"YWI=\""));
        check("binary(4)", "ab", Some("\"YWIAAA==\""));
        check("binary", "", Some("\"AA==\""));
        check("uuid", "5a3812c4-ece0-11f1-8736-02fc00000001", Some("\"WjgSxOzgEfGHNgL8AAAAAQ==\""));
        check("uuid", "5a3812c4", None);
        check("inet4", "1.2.3.4", Some("\"AQIDBA==\""));
        check("inet6", "::1", Some("\"AAAAAAAAAAAAAAAAAAAAAQ==\""));
        check("inet6", "x", None);
        check("vector(1)", "abcd", None);
    }
}
