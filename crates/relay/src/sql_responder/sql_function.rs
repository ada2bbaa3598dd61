//! Functions of MySQL that a relay evaluates.

use std::ops::RangeInclusive;

use binlog::Timestamp;
use binlog::gtid::GtidSet;
use wire::ServerError;

use super::refusals::{malformed_gtids, wrong_argument_count};
pub(crate) use super::text_function::is_match;
use super::{date_function, number_function, text_function};
use crate::sql_answer::SqlValue;
use crate::statement_interrupt::StatementInterrupt;

/// State on which functions depend.
#[derive(Clone, Debug)]
pub(crate) struct FunctionContext {
    /// `VERSION()`
    pub(crate) version: String,
    /// Account, as `user@host`.
    pub(crate) account: String,
    /// User and host of the connection.
    pub(crate) login: String,
    pub(crate) connection_id: u32,
    pub(crate) database: Option<String>,
    /// Present time in microseconds since 1970.
    pub(crate) now_us: u64,
    /// Request to end the statement.
    pub(crate) interrupt: StatementInterrupt,
}

/// A function.
pub(crate) struct SqlFunction {
    /// Name in lower case.
    pub(crate) name: &'static str,
    arguments: RangeInclusive<usize>,
    evaluate: FunctionBody,
}

/// Value of a function, or the error of a server.
pub(super) type FunctionResult = Result<SqlValue, ServerError>;

type FunctionBody = fn(&FunctionContext, &[SqlValue]) -> FunctionResult;

/// Maximum number of arguments of functions that take any number.
const ARGUMENTS_MAX: usize = 100;

/// Functions, in the order of their names. Names with a space are conversions, which no statement can call by name.
pub(crate) const FUNCTIONS: &[SqlFunction] = &[
    function("cast char", 2..=2, text_function::cast_char),
    function("cast datetime", 1..=1, date_function::cast_datetime),
    function("cast decimal", 2..=2, number_function::cast_decimal),
    function("cast signed", 1..=1, number_function::cast_signed),
    function("cast unsigned", 1..=1, number_function::cast_unsigned),
    function("ceil", 1..=1, number_function::ceiling),
    function("ceiling", 1..=1, number_function::ceiling),
    function("char_length", 1..=1, |_, values| {
        Ok(values[0].to_text().map(|text| text.chars().count() as u64).into())
    }),
    function("character_length", 1..=1, |_, values| {
        Ok(values[0].to_text().map(|text| text.chars().count() as u64).into())
    }),
    function("concat", 1..=ARGUMENTS_MAX, |_, values| Ok(text_function::joined(values))),
    function("concat_ws", 2..=ARGUMENTS_MAX, text_function::concat_ws),
    function("connection_id", 0..=0, |context, _| Ok(context.connection_id.into())),
    function("curdate", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[..10].into())),
    function("current_date", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[..10].into())),
    function("current_time", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[11..].into())),
    function("current_timestamp", 0..=1, now),
    function("current_user", 0..=0, |context, _| Ok(context.account.as_str().into())),
    function("curtime", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[11..].into())),
    function("database", 0..=0, |context, _| Ok(context.database.clone().into())),
    function("date", 1..=1, date_function::date),
    function("date_add", 3..=3, date_function::date_add),
    function("date_format", 2..=2, date_function::date_format),
    function("date_sub", 3..=3, date_function::date_sub),
    function("datediff", 2..=2, date_function::date_diff),
    function("day", 1..=1, |_, values| date_function::part(values, |fields| fields.day)),
    function("dayofmonth", 1..=1, |_, values| date_function::part(values, |fields| fields.day)),
    function("dayofweek", 1..=1, date_function::day_of_week),
    function("field", 2..=ARGUMENTS_MAX, text_function::field),
    function("find_in_set", 2..=2, text_function::find_in_set),
    function("floor", 1..=1, number_function::floor),
    function("format", 2..=2, number_function::format),
    function("format_bytes", 1..=1, |_, values| Ok(values[0].to_number().map(format_bytes).into())),
    function("format_pico_time", 1..=1, |_, values| Ok(values[0].to_number().map(format_pico_time).into())),
    function("from_unixtime", 1..=2, date_function::from_unixtime),
    function("greatest", 2..=ARGUMENTS_MAX, number_function::greatest),
    function("gtid_subset", 2..=2, |_, values| {
        let sets = [gtids(&values[0])?, gtids(&values[1])?];
        Ok(match sets {
            [Some(subset), Some(set)] => SqlValue::Int(subset.is_subset(&set).into()),
            _ => SqlValue::Null,
        })
    }),
    function("gtid_subtract", 2..=2, |_, values| {
        let sets = [gtids(&values[0])?, gtids(&values[1])?];
        Ok(match sets {
            [Some(set), Some(subtracted)] => set.difference(&subtracted).to_server_text().to_string().into(),
            _ => SqlValue::Null,
        })
    }),
    function("hex", 1..=1, number_function::hex),
    function("hour", 1..=1, |_, values| date_function::part(values, |fields| fields.hour)),
    function("if", 3..=3, |_, values| {
        let is_true = values[0].to_number().is_some_and(|number| number != 0.0);
        Ok(values[if is_true { 1 } else { 2 }].clone())
    }),
    function("instr", 2..=2, text_function::instr),
    function("isnull", 1..=1, |_, values| Ok(SqlValue::Int((values[0] == SqlValue::Null).into()))),
    function("last_insert_id", 0..=0, |_, _| Ok(SqlValue::UInt(0))),
    function("lcase", 1..=1, |_, values| Ok(values[0].to_text().map(|text| text.to_lowercase()).into())),
    function("least", 2..=ARGUMENTS_MAX, number_function::least),
    function("left", 2..=2, |_, values| Ok(part(values, |text, count| text.chars().take(count).collect()))),
    function("length", 1..=1, |_, values| Ok(values[0].to_text().map(|text| text.len() as u64).into())),
    function("localtime", 0..=1, now),
    function("localtimestamp", 0..=1, now),
    function("locate", 2..=3, text_function::locate),
    function("lower", 1..=1, |_, values| Ok(values[0].to_text().map(|text| text.to_lowercase()).into())),
    function("ltrim", 1..=1, text_function::ltrim),
    function("microsecond", 1..=1, |_, values| date_function::part(values, |fields| fields.micros)),
    function("mid", 3..=3, text_function::substr),
    function("minute", 1..=1, |_, values| date_function::part(values, |fields| fields.minute)),
    function("mod", 2..=2, number_function::modulo),
    function("month", 1..=1, |_, values| date_function::part(values, |fields| fields.month)),
    function("now", 0..=1, now),
    function("octet_length", 1..=1, |_, values| Ok(values[0].to_text().map(|text| text.len() as u64).into())),
    function("pow", 2..=2, number_function::power),
    function("power", 2..=2, number_function::power),
    function("regexp_like", 2..=2, text_function::regexp_like),
    function("reverse", 1..=1, text_function::reverse),
    function("right", 2..=2, |_, values| {
        Ok(part(values, |text, count| {
            text.chars().skip(text.chars().count().saturating_sub(count)).collect()
        }))
    }),
    function("round", 1..=2, number_function::round),
    function("rtrim", 1..=1, text_function::rtrim),
    function("schema", 0..=0, |context, _| Ok(context.database.clone().into())),
    function("second", 1..=1, |_, values| date_function::part(values, |fields| fields.second)),
    function("session_user", 0..=0, |context, _| Ok(context.login.as_str().into())),
    function("sign", 1..=1, number_function::sign),
    function("strcmp", 2..=2, text_function::strcmp),
    function("substr", 2..=3, text_function::substr),
    function("substring", 2..=3, text_function::substr),
    function("substring_index", 3..=3, text_function::substring_index),
    function("sysdate", 0..=1, now),
    function("system_user", 0..=0, |context, _| Ok(context.login.as_str().into())),
    function("time", 1..=1, date_function::time),
    function("timediff", 2..=2, date_function::time_diff),
    function("timestampadd", 3..=3, date_function::timestamp_add),
    function("timestampdiff", 3..=3, date_function::timestamp_diff),
    function("trim", 1..=1, text_function::trim),
    function("truncate", 2..=2, number_function::truncate),
    function("ucase", 1..=1, |_, values| Ok(values[0].to_text().map(|text| upper(&text)).into())),
    function("unix_timestamp", 0..=1, date_function::unix_timestamp),
    function("upper", 1..=1, |_, values| Ok(values[0].to_text().map(|text| upper(&text)).into())),
    function("user", 0..=0, |context, _| Ok(context.login.as_str().into())),
    function("utc_date", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[..10].into())),
    function("utc_time", 0..=0, |context, _| Ok(date_time_text(context.now_us, 0)[11..].into())),
    function("utc_timestamp", 0..=1, now),
    function("version", 0..=0, |context, _| Ok(context.version.as_str().into())),
    function("year", 1..=1, |_, values| date_function::part(values, |fields| fields.year)),
];

const fn function(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    evaluate: FunctionBody,
) -> SqlFunction {
    SqlFunction { name, arguments, evaluate }
}

impl SqlFunction {
    /// Returns the function with this name, ignoring case.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name.eq_ignore_ascii_case(name))
    }

    /// Evaluates the function.
    ///
    /// # Errors
    ///
    /// Fails for a wrong number of arguments, and for arguments that a server refuses.
    pub(crate) fn call(&self, context: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
        if !self.arguments.contains(&values.len()) {
            return Err(wrong_argument_count(self.name));
        }
        (self.evaluate)(context, values)
    }
}

/// Returns a time as `YYYY-MM-DD HH:MM:SS[.fraction]` in UTC. Times after 2106 become the last value of a TIMESTAMP.
pub(crate) fn date_time_text(time_us: u64, fraction: u8) -> String {
    let seconds = u32::try_from(time_us / 1_000_000).unwrap_or(u32::MAX);
    let micros = (time_us % 1_000_000) as u32;
    let mut text = Vec::new();
    Timestamp { seconds, micros, fraction }.to_utc().write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn now(context: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let fraction = values.first().and_then(SqlValue::to_number).unwrap_or(0.0);
    Ok(date_time_text(context.now_us, fraction.clamp(0.0, 6.0) as u8).into())
}

/// Returns a text in capitals. As in MySQL, keeps letters without a single capital, such as ß.
fn upper(text: &str) -> String {
    let capital = |letter: char| {
        let mut capitals = letter.to_uppercase();
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => capital,
            _ => letter,
        }
    };
    text.chars().map(capital).collect()
}

fn part(values: &[SqlValue], split: fn(&str, usize) -> String) -> SqlValue {
    match (values[0].to_text(), values[1].to_number()) {
        (Some(text), Some(count)) => split(&text, count.max(0.0) as usize).into(),
        _ => SqlValue::Null,
    }
}

fn gtids(value: &SqlValue) -> Result<Option<GtidSet>, ServerError> {
    let Some(text) = value.to_text() else { return Ok(None) };
    text.parse().map(Some).map_err(|_| malformed_gtids(&text))
}

/// A unit and its size.
struct QuantityUnit {
    name: &'static str,
    size: f64,
}

const fn unit(name: &'static str, size: f64) -> QuantityUnit {
    QuantityUnit { name, size }
}

/// Units of `FORMAT_BYTES`: `Item_func_pfs_format_bytes` of `sql/item_pfs_func.cc`.
const BYTE_UNITS: &[QuantityUnit] = &[
    unit("EiB", 1152921504606846976.0),
    unit("PiB", 1125899906842624.0),
    unit("TiB", 1099511627776.0),
    unit("GiB", 1073741824.0),
    unit("MiB", 1048576.0),
    unit("KiB", 1024.0),
    unit("bytes", 1.0),
];

/// Units of `FORMAT_PICO_TIME`: `Item_func_pfs_format_pico_time` of the same file.
const TIME_UNITS: &[QuantityUnit] = &[
    unit("d", 86_400e12),
    unit("h", 3_600e12),
    unit("min", 60e12),
    unit("s", 1e12),
    unit("ms", 1e9),
    unit("us", 1e6),
    unit("ns", 1e3),
    unit("ps", 1.0),
];

fn format_bytes(bytes: f64) -> String {
    // A server shows byte numbers with four digits, and picoseconds with three.
    format_quantity(bytes, BYTE_UNITS, 4)
}

fn format_pico_time(time_ps: f64) -> String {
    format_quantity(time_ps, TIME_UNITS, 3)
}

fn format_quantity(quantity: f64, units: &[QuantityUnit], digits: usize) -> String {
    let smallest = &units[units.len() - 1];
    let unit = units.iter().find(|unit| quantity.abs() >= unit.size).unwrap_or(smallest);
    if unit.size == 1.0 {
        // The conversion truncates the fraction, as on a server.
        return format!("{:>digits$} {}", quantity as i64, unit.name);
    }
    let value = quantity / unit.size;
    match value.abs() >= 100_000.0 {
        true => {
            let text = format!("{value:.2e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{mantissa}e+{exponent:0>2} {}", unit.name)
        }
        false => format!("{value:.2} {}", unit.name),
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, FunctionContext, SqlFunction};
    use crate::sql_answer::SqlValue;
    use crate::statement_interrupt::StatementInterrupt;

    fn call(name: &str, values: &[SqlValue]) -> Result<SqlValue, String> {
        let context = FunctionContext {
            version: "9.7.4".to_owned(),
            account: "u@%".to_owned(),
            login: "u@h".to_owned(),
            connection_id: 7,
            database: None,
            now_us: 1_700_000_000_123_456,
            interrupt: StatementInterrupt::default(),
        };
        SqlFunction::find(name).unwrap().call(&context, values).map_err(|error| error.to_string())
    }

    /// The texts equal those of MySQL 9.7.4.
    #[test]
    fn quantities() {
        let bytes = |value: f64, expected: &str| {
            assert_eq!(call("FORMAT_BYTES", &[SqlValue::Double(value)]), Ok(expected.into()), "{value}");
        };
        bytes(0.0, "   0 bytes");
        bytes(1023.7, "1023 bytes");
        bytes(1024.0, "1.00 KiB");
        bytes(123_456_789.0, "117.74 MiB");
        bytes(-5.0, "  -5 bytes");
        bytes(1e20, "86.74 EiB");
        let time = |value: f64, expected: &str| {
            assert_eq!(call("FORMAT_PICO_TIME", &[SqlValue::Double(value)]), Ok(expected.into()), "{value}");
        };
        time(0.0, "  0 ps");
        time(999.0, "999 ps");
        time(1000.0, "1.00 ns");
        time(1_234_567_890.0, "1.23 ms");
        time(188_732_396_662_000.0, "3.15 min");
        time(1e18, "11.57 d");
        time(1e24, "1.16e+07 d");
        time(-1500.0, "-1.50 ns");
        assert_eq!(call("format_bytes", &[SqlValue::Null]), Ok(SqlValue::Null));
        assert_eq!(call("format_bytes", &["x".into()]), Ok("   0 bytes".into()));
    }

    #[test]
    fn sets_and_texts() {
        let uuid = "00000000-0000-0000-0000-000000000001";
        let set = |intervals: &str| SqlValue::from(format!("{uuid}:{intervals}"));
        assert_eq!(call("gtid_subset", &[set("2-3"), set("1-5")]), Ok(SqlValue::Int(1)));
        assert_eq!(call("gtid_subset", &[set("2-7"), set("1-5")]), Ok(SqlValue::Int(0)));
        assert_eq!(call("gtid_subtract", &[set("1-5"), set("2")]), Ok(set("1:3-5")));
        assert_eq!(call("gtid_subtract", &[set("1-5"), SqlValue::Null]), Ok(SqlValue::Null));
        let malformed = "Malformed GTID set specification 'x'. (error 1772, SQL state HY000)";
        assert_eq!(call("gtid_subset", &["x".into(), "".into()]), Err(malformed.to_owned()));
        assert_eq!(call("concat", &["a".into(), SqlValue::Int(1)]), Ok("a1".into()));
        assert_eq!(call("concat", &["a".into(), SqlValue::Null]), Ok(SqlValue::Null));
        assert_eq!(call("right", &["größe".into(), SqlValue::Int(3)]), Ok("öße".into()));
        assert!(call("upper", &[]).is_err());
    }

    #[test]
    fn times() {
        assert_eq!(call("unix_timestamp", &[]), Ok(SqlValue::UInt(1_700_000_000)));
        assert_eq!(call("now", &[]), Ok("2023-11-14 22:13:20".into()));
        assert_eq!(call("now", &[SqlValue::Int(6)]), Ok("2023-11-14 22:13:20.123456".into()));
        assert_eq!(call("curdate", &[]), Ok("2023-11-14".into()));
        assert_eq!(call("curtime", &[]), Ok("22:13:20".into()));
        assert_eq!(call("from_unixtime", &[SqlValue::Int(1_700_000_000)]), Ok("2023-11-14 22:13:20".into()));
        let moved = [SqlValue::from("2024-02-29"), SqlValue::Int(i64::MIN), "day".into()];
        assert_eq!(call("date_sub", &moved), Ok(SqlValue::Null));
    }

    #[test]
    fn functions_are_in_order() {
        assert!(FUNCTIONS.is_sorted_by_key(|function| function.name));
    }
}
