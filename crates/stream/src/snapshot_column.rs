//! A column read by SQL for a snapshot: its SELECT expression, and its values as JSON, written as those of the log are.

use std::str::FromStr;

use binlog::{
    BitValue, BytesValue, Charset, Date, DateTime, GeometryValue, TextValue, Time, Timestamp, Value,
    VectorValue,
};
use sql::data_type::{BINARY_TYPES, GEOMETRY_TYPES, fixed_byte_size};
use sql::quote::quote_name;

use crate::column_catalogue::{ColumnSchema, parse_texts};
use crate::column_rules::ColumnRules;
use crate::json_writer::{put_escaped, put_string};
use crate::settings::Envelope;
use crate::table_plan::{ColumnPlan, UnnamedColumnPolicy};
use crate::value::{ValueBuffers, debezium, maxwell};
use crate::value_mask::{MaskedColumn, MaskedKind};
use crate::value_modes::{DecimalMode, TimeMode, ValueModes};

/// A column read by SQL.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotColumn {
    pub(crate) plan: ColumnPlan,
    sql_type: SqlType,
}

/// Type that the text of a value is parsed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlType {
    Int,
    UInt,
    Float,
    Double,
    Decimal,
    Bit(u8),
    Year,
    Date,
    Time,
    DateTime,
    Timestamp,
    Text,
    Bytes,
    Set,
    Json,
    Geometry,
    Vector,
}

impl ColumnSchema {
    /// Returns the SELECT expression for a snapshot. The session must use UTF-8 and the time zone UTC.
    pub fn select_expression(&self) -> String {
        let name = quote_name(&self.name);
        match SqlType::from_column(self) {
            // A FLOAT as text has six digits; a DOUBLE has as many as identify it.
            // CAST supports DOUBLE only since MySQL 8.0.17. A product keeps the sign of a zero.
            SqlType::Float | SqlType::Double => format!("{name} * 1e0"),
            // As text, a SET does not show an empty member.
            SqlType::Bit(_) | SqlType::Set => format!("CAST({name} AS UNSIGNED)"),
            SqlType::Bytes => match fixed_byte_size(&self.data_type) {
                Some(size) => format!("CAST({name} AS BINARY({size}))"),
                None => name,
            },
            _ => name,
        }
    }
}

impl SnapshotColumn {
    pub(crate) fn new(facts: &ColumnSchema, modes: ValueModes) -> Self {
        let sort = SqlType::from_column(facts);
        let mut label = Vec::new();
        put_string(&mut label, &facts.name);
        label.push(b':');
        let member = |text: String| {
            let mut quoted = Vec::new();
            put_string(&mut quoted, &text);
            quoted.into()
        };
        // The server sends an ENUM as text.
        let members = if sort == SqlType::Set { parse_texts(&facts.column_type) } else { Vec::new() };
        let plan = ColumnPlan {
            name: facts.name.as_str().into(),
            label: label.into(),
            charset: if sort == SqlType::Bytes { Charset::Binary } else { Charset::Utf8mb4 },
            texts: members.into_iter().map(member).collect(),
            unknown_members: UnnamedColumnPolicy::default(),
            nullable: facts.nullable,
            is_point: facts.data_type == "point",
            is_bigint: facts.data_type == "bigint",
            modes,
            is_excluded: false,
            mask: None,
        };
        Self { plan, sql_type: sort }
    }

    /// Applies the rules for the column, whose full name is `name`.
    pub(crate) fn apply_rules(&mut self, rules: &ColumnRules, name: &str, facts: &ColumnSchema) {
        let masked = self.sql_type.masked_column(facts, self.plan.modes);
        self.plan.apply_rules(rules, name, masked);
    }

    /// Appends a value without a mask; `None` if it is not a value of this column's type.
    pub(crate) fn put(
        &self,
        out: &mut Vec<u8>,
        text: &[u8],
        to: Envelope,
        buffers: &mut ValueBuffers,
    ) -> Option<()> {
        match (self.sql_type, to) {
            (SqlType::Decimal, Envelope::Debezium) => {
                buffers.text.clear();
                put_plain_decimal(&mut buffers.text, text);
                debezium::put_decimal(out, &self.plan, &buffers.text, &mut buffers.bytes);
            }
            (SqlType::Decimal, Envelope::Maxwell) => put_plain_decimal(out, text),
            (SqlType::Json, _) => put_json(out, text, to, buffers),
            (sort, _) => {
                let value = sort.parse_value(text)?;
                let put = match to {
                    Envelope::Debezium => debezium::put(out, &self.plan, &value, buffers),
                    Envelope::Maxwell => maxwell::put(out, &self.plan, &value, buffers),
                };
                put.ok()?;
            }
        }
        Some(())
    }
}

impl SqlType {
    pub(crate) fn from_column(facts: &ColumnSchema) -> Self {
        match &*facts.data_type {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
                if facts.column_type.contains("unsigned") { Self::UInt } else { Self::Int }
            }
            "float" => Self::Float,
            "double" => Self::Double,
            "decimal" => Self::Decimal,
            "bit" => Self::Bit(parse_length(&facts.column_type).unwrap_or(1)),
            "year" => Self::Year,
            "date" => Self::Date,
            "time" => Self::Time,
            "datetime" => Self::DateTime,
            "timestamp" => Self::Timestamp,
            bytes if BINARY_TYPES.contains(&bytes) || fixed_byte_size(bytes).is_some() => Self::Bytes,
            "set" => Self::Set,
            "json" => Self::Json,
            "vector" => Self::Vector,
            geometry if GEOMETRY_TYPES.contains(&geometry) => Self::Geometry,
            _ => Self::Text,
        }
    }

    /// Returns the properties that decide on the mask of a column.
    fn masked_column(self, facts: &ColumnSchema, modes: ValueModes) -> MaskedColumn {
        let length = fixed_byte_size(&facts.data_type).or_else(|| parse_length(&facts.column_type));
        let (kind, length) = match self {
            Self::Text if facts.data_type == "enum" => (MaskedKind::Text, Some(1)),
            Self::Text => (MaskedKind::Text, length),
            Self::Set => {
                (MaskedKind::Text, Some((parse_texts(&facts.column_type).len() * 2).saturating_sub(1)))
            }
            Self::Bytes => (MaskedKind::of_bytes(modes), length),
            Self::Json => (MaskedKind::WrittenText, None),
            Self::Timestamp => (MaskedKind::WrittenText, length),
            Self::Date | Self::Time | Self::DateTime if modes.times == TimeMode::IsoString => {
                (MaskedKind::WrittenText, length)
            }
            Self::Decimal if modes.decimals == DecimalMode::Text => (MaskedKind::WrittenText, length),
            _ => (MaskedKind::Other, None),
        };
        MaskedColumn { kind, length }
    }

    fn parse_value<'t>(self, bytes: &'t [u8]) -> Option<Value<'t>> {
        Some(match self {
            Self::Int => Value::Int(parse_number(bytes)?),
            Self::UInt => Value::UInt(parse_number(bytes)?),
            Self::Float => Value::Float(parse_number::<f64>(bytes)? as f32),
            Self::Double => Value::Double(parse_number(bytes)?),
            Self::Bit(bits) => Value::Bit(BitValue { value: parse_number(bytes)?, bits }),
            Self::Year => Value::Year(parse_number(bytes)?),
            Self::Date => Value::Date(parse_date(std::str::from_utf8(bytes).ok()?)?),
            Self::Time => Value::Time(parse_time(std::str::from_utf8(bytes).ok()?)?),
            Self::DateTime => Value::DateTime(parse_datetime(bytes)?),
            Self::Timestamp => Value::Timestamp(parse_timestamp(bytes)?),
            Self::Bytes => Value::Bytes(BytesValue { bytes, padding: 0 }),
            Self::Geometry => Value::Geometry(GeometryValue { bytes }),
            Self::Vector => Value::Vector(VectorValue { bytes }),
            Self::Set => Value::Set(parse_number(bytes)?),
            Self::Text | Self::Decimal | Self::Json => Value::Text(TextValue { bytes, collation: 0 }),
        })
    }
}

/// Returns the first number in `bit(7)` or `decimal(5,2)`.
pub(crate) fn parse_length<N: FromStr>(column_type: &str) -> Option<N> {
    column_type.split_once('(')?.1.split([',', ')']).next()?.parse().ok()
}

fn parse_number<N: FromStr>(bytes: &[u8]) -> Option<N> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Parses `2026-11-21`.
fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Date { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? })
}

/// Parses `-838:59:59.000000`.
fn parse_time(text: &str) -> Option<Time> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (text, decimals) = text.split_once('.').unwrap_or((text, ""));
    let fraction = u8::try_from(decimals.len()).ok().filter(|digits| *digits <= 6)?;
    let micros = format!("{decimals:0<6}").parse().ok()?;
    let mut parts = text.splitn(3, ':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let [minutes, seconds] = [minutes.parse().ok()?, seconds.parse().ok()?];
    Some(Time { negative, hours: hours.parse().ok()?, minutes, seconds, micros, fraction })
}

/// Parses `2026-11-21 10:20:30.5`.
fn parse_datetime(bytes: &[u8]) -> Option<DateTime> {
    let (day, clock) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    let Time { hours, minutes, seconds, micros, fraction, .. } = parse_time(clock)?;
    let hour = u8::try_from(hours).ok()?;
    Some(DateTime { date: parse_date(day)?, hour, minute: minutes, second: seconds, micros, fraction })
}

/// Parses a date and time in UTC; 0 for the zero date.
fn parse_timestamp(bytes: &[u8]) -> Option<Timestamp> {
    let moment = parse_datetime(bytes)?;
    let micros = moment.epoch_micros().unwrap_or(0);
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).ok()?;
    Some(Timestamp { seconds, micros: moment.micros, fraction: moment.fraction })
}

/// Appends a decimal without the leading zeros of ZEROFILL.
fn put_plain_decimal(out: &mut Vec<u8>, text: &[u8]) {
    let digits = match text.strip_prefix(b"-") {
        Some(digits) => {
            out.push(b'-');
            digits
        }
        None => text,
    };
    let whole = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let zeros = digits[..whole.saturating_sub(1)].iter().take_while(|byte| **byte == b'0').count();
    out.extend_from_slice(&digits[zeros..]);
}

fn put_json(out: &mut Vec<u8>, text: &[u8], to: Envelope, buffers: &mut ValueBuffers) {
    let text = String::from_utf8_lossy(text);
    match to {
        Envelope::Maxwell => put_without_blanks(out, &text),
        Envelope::Debezium => {
            buffers.text.clear();
            put_without_blanks(&mut buffers.text, &text);
            out.push(b'"');
            put_escaped(out, &buffers.text);
            out.push(b'"');
        }
    }
}

/// Appends a document's text without the whitespace between tokens.
fn put_without_blanks(out: &mut Vec<u8>, text: &str) {
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        if is_string || !byte.is_ascii_whitespace() {
            out.push(byte);
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_string = !is_string,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SnapshotColumn;
    use crate::column_catalogue::ColumnSchema;
    use crate::settings::Envelope;
    use crate::value::ValueBuffers;
    use crate::value_modes::{BinaryMode, DecimalMode, TimeMode, UnsignedBigintMode, ValueModes};

    /// Returns a value as JSON.
    fn json(column_type: &str, text: &str, to: Envelope, modes: ValueModes) -> String {
        let data_type = column_type.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let column_type = column_type.to_owned();
        let facts = ColumnSchema { data_type, column_type, ..ColumnSchema::default() };
        let (mut out, mut buffers) = (Vec::new(), ValueBuffers::default());
        let put = SnapshotColumn::new(&facts, modes).put(&mut out, text.as_bytes(), to, &mut buffers);
        put.map_or_else(|| "(none)".to_owned(), |()| String::from_utf8(out).unwrap())
    }

    /// Compares a value in both envelopes.
    fn check(column_type: &str, text: &str, debezium: &str, maxwell: &str) {
        for (to, expected) in [(Envelope::Debezium, debezium), (Envelope::Maxwell, maxwell)] {
            let found = json(column_type, text, to, ValueModes::default());
            assert_eq!(found, expected, "{column_type} {text}");
        }
    }

    #[test]
    fn values() {
        check("int", "-7", "-7", "-7");
        check("int(8) unsigned zerofill", "00000042", "42", "42");
        check("bigint unsigned", "18446744073709551615", "-1", "18446744073709551615");
        check("float", "0.10000000149011612", "0.1", "0.1");
        check("double", "1.5", "1.5", "1.5");
        check("bit(1)", "1", "true", "1");
        check("bit(9)", "257", "\"AQE=\"", "257");
        check("year", "0000", "0", "0");
        check("date", "1970-01-02", "1", "\"1970-01-02\"");
        check("date", "0000-00-00", "0", "\"0000-00-00\"");
        check("time(1)", "-838:59:59.5", "-3020399500000", "\"-838:59:59.5\"");
        check("datetime(3)", "1970-01-01 00:00:01.500", "1500", "\"1970-01-01 00:00:01.500\"");
        check("timestamp", "1970-01-01 00:00:01", "\"1970-01-01T00:00:01Z\"", "\"1970-01-01 00:00:01\"");
        check("varchar(9)", "a\"b", r#""a\"b""#, r#""a\"b""#);
        check("varbinary(9)", "ab", "\"YWI=\"", "\"YWI=\"");
        check("inet4", "\x01\x02\x03\x04", "\"AQIDBA==\"", "\"AQIDBA==\"");
        check("uuid", "0123456789abcdef", "\"MDEyMzQ1Njc4OWFiY2RlZg==\"", "\"MDEyMzQ1Njc4OWFiY2RlZg==\"");
        check("enum('a','b')", "b", "\"b\"", "\"b\"");
        check("json", r#"{"a": [1, "x: \" y"]}"#, r#""{\"a\":[1,\"x: \\\" y\"]}""#, r#"{"a":[1,"x: \" y"]}"#);
        check("int", "x", "(none)", "(none)");
        check("date", "2026-11", "(none)", "(none)");
    }

    #[test]
    fn decimals_and_sets() {
        check("decimal(5,2)", "-1.25", "\"gw==\"", "-1.25");
        check("decimal(8,2) unsigned zerofill", "000001.25", "\"fQ==\"", "1.25");
        check("decimal(5,2) unsigned zerofill", "000.00", "\"AA==\"", "0.00");
        check(
            "decimal(65,0)",
            "-99999999999999999999999999999999999999999",
            "\"/togXI5eYZCDSrxqNgAAAAAB\"",
            "-99999999999999999999999999999999999999999",
        );
        check("set('a','b')", "3", "\"a,b\"", r#"["a","b"]"#);
        check("set('a','b')", "0", "\"\"", "[]");
        check("set('','a')", "3", "\",a\"", r#"["","a"]"#);
        check("set('','a')", "1", "\"\"", r#"[""]"#);
        check("set('a','b')", "4", "(none)", "(none)");
    }

    #[test]
    fn values_in_other_modes() {
        let check = |modes, column_type, text, expected| {
            assert_eq!(json(column_type, text, Envelope::Debezium, modes), expected, "{modes:?} {text}");
        };
        let decimals = |decimals| ValueModes { decimals, ..ValueModes::default() };
        check(decimals(DecimalMode::Text), "decimal(8,2) zerofill", "000001.20", "\"1.20\"");
        check(decimals(DecimalMode::Double), "decimal(8,2)", "-1.20", "-1.2");
        let precise = ValueModes { unsigned_bigints: UnsignedBigintMode::Precise, ..ValueModes::default() };
        check(precise, "bigint unsigned", "18446744073709551615", "\"AP//////////\"");
        check(precise, "int unsigned", "4294967295", "4294967295");
        let bytes = |bytes| ValueModes { bytes, ..ValueModes::default() };
        check(bytes(BinaryMode::Hex), "varbinary(9)", "~\x7f", "\"7e7f\"");
        check(bytes(BinaryMode::Base64), "varbinary(9)", "~?~", "\"fj9+\"");
        check(bytes(BinaryMode::Base64UrlSafe), "blob", "~?~?", "\"fj9-Pw==\"");
        let times = |times| ValueModes { times, ..ValueModes::default() };
        check(times(TimeMode::Connect), "time(6)", "24:00:00.000000", "86400000");
        check(times(TimeMode::Connect), "time(6)", "-00:00:00.000001", "0");
        check(times(TimeMode::Connect), "datetime(6)", "1969-12-31 23:59:59.999999", "-1");
        check(times(TimeMode::Microseconds), "datetime", "1970-01-01 00:00:01", "1000000");
        check(times(TimeMode::Nanoseconds), "time", "-00:00:01", "-1000000000");
        let iso = times(TimeMode::IsoString);
        check(iso, "date", "2026-11-21", "\"2026-11-21Z\"");
        check(iso, "date", "2026-00-00", "\"1970-01-01Z\"");
        check(iso, "time(6)", "10:20:30.500000", "\"10:20:30.5Z\"");
        check(iso, "time", "24:00:00", "\"00:00:00Z\"");
        check(iso, "datetime(3)", "1000-01-01 00:00:00.010", "\"1000-01-01T00:00:00.01Z\"");
        check(iso, "datetime", "0000-00-00 00:00:00", "\"1970-01-01T00:00:00Z\"");
        check(iso, "timestamp(1)", "1970-01-01 00:00:01.0", "\"1970-01-01T00:00:01.0Z\"");
    }
}
