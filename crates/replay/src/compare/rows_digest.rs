//! Values in a form that servers and SQLite share, and a digest of rows that does not depend on their order.

use std::borrow::Cow;
use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedColumn {
    /// Name of the column.
    pub name: String,
    /// Type as in `data_type` of `information_schema`. `zerofill` for numbers with that attribute. [`NUMBER_ONLY`] for
    /// a number that the other side may store as text.
    pub data_type: String,
}

/// The type of an `ENUM` or `SET` whose texts are unknown.
pub const NUMBER_ONLY: &str = "number";
/// Type of a JSON column on a server that prints a DOUBLE without `.0`: MySQL before 8.0.
pub const SHORT_DOCUMENT: &str = "short-json";

/// A column and the form in which its values are read and compared.
#[derive(Clone, Copy, Debug)]
pub struct ColumnReading<'c> {
    /// The column.
    pub column: &'c ComparedColumn,
    /// Form of the column's values.
    pub form: ComparisonForm,
}

/// The form in which values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonForm {
    /// The bytes from the server.
    Plain,
    /// An integer. For `ENUM` and `SET`, the number instead of the text.
    Number,
    /// A double-precision number. Servers format it differently as text.
    Double,
    /// Text, in UTF-8.
    Text,
    /// A JSON document: servers format spaces and numbers and order keys differently.
    Document,
}

/// Pairs of columns of two tables with their forms, in the order of the first table.
#[derive(Debug)]
pub(super) struct ColumnPairs<'c>(Vec<(&'c ComparedColumn, &'c ComparedColumn, ComparisonForm)>);

impl<'c> ColumnPairs<'c> {
    /// Pairs columns by name, or by order if one table has no real names; `None` if the columns differ.
    pub(super) fn of(theirs: &'c [ComparedColumn], ours: &'c [ComparedColumn]) -> Option<Self> {
        if theirs.len() != ours.len() {
            return None;
        }
        let named =
            |one: &ComparedColumn| ours.iter().find(|other| other.name.eq_ignore_ascii_case(&one.name));
        let by_name: Option<Vec<_>> = theirs.iter().map(named).collect();
        let made_up = |column: (usize, &ComparedColumn)| column.1.name == format!("col{}", column.0 + 1);
        let ours = match by_name {
            Some(ours) => ours,
            None if ours.iter().enumerate().all(made_up) => ours.iter().collect(),
            None => return None,
        };
        assert_eq!(theirs.len(), ours.len(), "ours: each column has its counterpart");
        let pairs = theirs.iter().zip(ours);
        Some(Self(pairs.map(|(one, other)| (one, other, comparison_form(one, other))).collect()))
    }

    pub(super) fn of_server(&self) -> Vec<ColumnReading<'c>> {
        self.0.iter().map(|(column, _, form)| ColumnReading { column, form: *form }).collect()
    }

    pub(super) fn of_target(&self) -> Vec<ColumnReading<'c>> {
        self.0.iter().map(|(_, column, form)| ColumnReading { column, form: *form }).collect()
    }
}

fn comparison_form(theirs: &ComparedColumn, ours: &ComparedColumn) -> ComparisonForm {
    let types = [theirs.data_type.as_str(), ours.data_type.as_str()];
    let any = |names: &[&str]| types.iter().any(|name| names.contains(name));
    if any(&[NUMBER_ONLY]) {
        ComparisonForm::Number
    } else if any(&["float", "double"]) {
        ComparisonForm::Double
    } else if any(&["bit", "year", "zerofill", "tinyint", "smallint", "mediumint", "int", "bigint"]) {
        ComparisonForm::Number
    } else if any(&[SHORT_DOCUMENT]) || any(&["json"]) && any(&["longtext"]) {
        ComparisonForm::Document
    } else if any(&["char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"]) {
        ComparisonForm::Text
    } else {
        ComparisonForm::Plain
    }
}

/// The digest of a table's rows. The order of the rows does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsDigest {
    rows: u64,
    sum: u128,
}

impl RowsDigest {
    /// Adds a row.
    pub fn add(&mut self, row: &RowText) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(xxh3_128(&row.0));
    }
}

impl fmt::Display for RowsDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.rows == 1 { "row" } else { "rows" };
        write!(out, "{} {noun} with the digest {:032x}", self.rows, self.sum)
    }
}

/// The values of a row, one after another.
#[derive(Debug, Default)]
pub struct RowText(Vec<u8>);

impl RowText {
    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends a value; `None` for NULL.
    pub fn put(&mut self, form: ComparisonForm, value: Option<&[u8]>) {
        let Some(value) = value else { return self.0.push(0) };
        let value: Cow<'_, [u8]> = match form {
            ComparisonForm::Plain | ComparisonForm::Number => value.into(),
            ComparisonForm::Double => double(value),
            ComparisonForm::Text => text(value),
            ComparisonForm::Document => document(value),
        };
        self.0.push(1);
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(&value);
    }
}

/// Formats a double. Negative zero becomes zero, because SQLite does not have it.
fn double(value: &[u8]) -> Cow<'_, [u8]> {
    let number = str::from_utf8(value).ok().and_then(|text| text.parse::<f64>().ok());
    number.map_or(value.into(), |number| format!("{:?}", number + 0.0).into_bytes().into())
}

/// Normalises text: servers replace invalid characters by `?`, the decoder of bintide by U+FFFD.
fn text(value: &[u8]) -> Cow<'_, [u8]> {
    if value.is_ascii() {
        return value.into();
    }
    String::from_utf8_lossy(value).replace(char::REPLACEMENT_CHARACTER, "?").into_bytes().into()
}

fn document(value: &[u8]) -> Cow<'_, [u8]> {
    let parsed = serde_json::from_slice::<serde_json::Value>(value).ok();
    parsed.map_or_else(
        || text(value),
        |mut parsed| {
            shorten_numbers(&mut parsed);
            parsed.to_string().into_bytes().into()
        },
    )
}

/// Replaces each floating-point number with an integer value by this integer. serde_json limits the depth.
fn shorten_numbers(value: &mut serde_json::Value) {
    /// A double represents all integers up to this one exactly.
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    match value {
        serde_json::Value::Array(values) => values.iter_mut().for_each(shorten_numbers),
        serde_json::Value::Object(values) => values.values_mut().for_each(shorten_numbers),
        serde_json::Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX);
            if let Some(float) = float {
                *value = serde_json::Value::from(float as i64);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ColumnPairs, ComparedColumn, ComparisonForm, NUMBER_ONLY, RowText, RowsDigest, SHORT_DOCUMENT,
    };

    fn columns(text: &str) -> Vec<ComparedColumn> {
        let column = |word: &str| {
            let (name, data_type) = word.split_once(':').unwrap();
            ComparedColumn { name: name.into(), data_type: data_type.into() }
        };
        text.split_whitespace().map(column).collect()
    }

    #[test]
    fn columns_are_paired_by_name_or_else_by_order() {
        let check = |theirs: &str, ours: &str, expected: Option<&str>| {
            let (theirs, ours) = (columns(theirs), columns(ours));
            let found = ColumnPairs::of(&theirs, &ours);
            let names = found.map(|readings| {
                readings.of_target().iter().map(|reading| reading.column.name.clone()).collect::<Vec<_>>()
            });
            assert_eq!(names.map(|names| names.join(" ")).as_deref(), expected);
        };
        check("a:int b:int", "B:int a:int", Some("a B"));
        check("a:int b:int", "col1:int col2:int", Some("col1 col2"));
        check("a:int b:int", "a:int", None);
        check("a:int b:int", "a:int c:int", None);
    }

    #[test]
    fn values_are_equal_in_any_notation() {
        let check = |types: [&str; 2], theirs: &str, ours: &str, is_equal: bool| {
            let (one, other) = (columns(&format!("a:{}", types[0])), columns(&format!("a:{}", types[1])));
            let form = ColumnPairs::of(&one, &other).unwrap().of_server()[0].form;
            let sum = |value: &str| {
                let (mut sum, mut row) = (RowsDigest::default(), RowText::default());
                row.put(form, (value != "NULL").then_some(value.as_bytes()));
                sum.add(&row);
                sum
            };
            assert_eq!(sum(theirs) == sum(ours), is_equal, "{types:?} {theirs} {ours} {form:?}");
        };
        check(["double", "double"], "1e2", "100", true);
        check(["float", "double"], "-0", "0", true);
        check(["int", "int"], "-0", "0", false);
        check(["varchar", "varchar"], "a?", "a\u{fffd}", true);
        check(["varchar", "varchar"], "NULL", "", false);
        check(["json", "longtext"], "{\"a\": 1, \"b\": [2]}", "{\"b\":[2],\"a\":1}", true);
        check(["json", "json"], "{\"a\": 1}", "{\"a\":1}", false);
        check(["json", "json"], "{\"a\": 1.0}", "{\"a\": 1}", false);
        check(["json", SHORT_DOCUMENT], "{\"a\": [30.0, -0.5]}", "{\"a\": [30, -0.5]}", true);
        check(["json", SHORT_DOCUMENT], "{\"a\": 30.5}", "{\"a\": 30}", false);
        check(["enum", NUMBER_ONLY], "2", "2", true);
        check(["point", "point"], "1", "2", false);
    }

    #[test]
    fn digest_ignores_row_order_and_keeps_value_boundaries() {
        let sum = |rows: &[&[&str]]| {
            let (mut sum, mut text) = (RowsDigest::default(), RowText::default());
            for row in rows {
                text.clear();
                row.iter().for_each(|value| text.put(ComparisonForm::Plain, Some(value.as_bytes())));
                sum.add(&text);
            }
            sum
        };
        assert_eq!(sum(&[&["1", "a"], &["2", "b"]]), sum(&[&["2", "b"], &["1", "a"]]));
        assert_ne!(sum(&[&["1", "a"], &["1", "a"]]), sum(&[]));
        assert_ne!(sum(&[&["1", "1"]]), sum(&[&["11", ""]]));
        assert_eq!(sum(&[&["x"]]).to_string().split_once(" with").unwrap().0, "1 row");
    }
}
