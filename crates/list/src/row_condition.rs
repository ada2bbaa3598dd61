//! Conditions on rows: a column has a value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use binlog::events::Rows;
use binlog::{
    BytesValue, Charset, Column, DecodeError, EventFormat, JsonQuotes, RowChange, RowField, RowImage, Table,
    Value,
};

use memchr::memmem::Finder;

use crate::column_charset::charset_of;
use crate::expected_value::{ExpectedValue, ImpossibleValue};
use crate::located_event::OutputRefusal;

/// A required value of a column: `id=5`, `@1=5`, `name=NULL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCondition {
    column: ColumnName,
    value: ConditionValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ColumnName {
    /// Column number, from 0.
    Number(usize),
    /// Column name; `pk` also stands for the primary key, if the key has one column.
    Name(String),
    /// Column of the primary key.
    KeyPart(KeyPartColumn),
}

/// Column of the primary key, in the table from which the condition was made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPartColumn {
    /// Index in the key.
    part: usize,
    /// Index in the table: for logs without column names.
    column: usize,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ConditionValue {
    Null,
    Text {
        text: String,
        /// The text as a number, if it is a whole number.
        number: Option<i128>,
    },
}

/// Error for a text that is not a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    text: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "invalid condition `{}`: expected COLUMN=VALUE, where COLUMN is a name, or @ and a number",
            self.text
        )
    }
}

impl std::error::Error for ConditionError {}

impl fmt::Display for RowCondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            ColumnName::Number(index) => write!(out, "@{}", index + 1)?,
            ColumnName::Name(name) | ColumnName::KeyPart(KeyPartColumn { name, .. }) => {
                out.write_str(name)?
            }
        }
        match &self.value {
            ConditionValue::Null => out.write_str("=NULL"),
            ConditionValue::Text { text, .. } => write!(out, "={text}"),
        }
    }
}

impl RowCondition {
    /// Parses `column=value`.
    ///
    /// # Errors
    ///
    /// Fails if there is no `=`, no column before it, or an invalid column number.
    pub fn new(text: &str) -> Result<Self, ConditionError> {
        let error = || ConditionError { text: text.to_owned() };
        let (column, value) = text.split_once('=').ok_or_else(error)?;
        let column = match column.trim() {
            "" => return Err(error()),
            name => match name.strip_prefix('@') {
                Some(digits) => {
                    let number: usize = digits.parse().map_err(|_| error())?;
                    ColumnName::Number(number.checked_sub(1).ok_or_else(error)?)
                }
                None => ColumnName::Name(name.trim_matches('`').to_owned()),
            },
        };
        let value = match value.trim() {
            "NULL" => ConditionValue::Null,
            text => {
                let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
                ConditionValue::Text { text: text.to_owned(), number: text.parse().ok() }
            }
        };
        Ok(Self { column, value })
    }
}

impl RowCondition {
    /// Creates the condition that the column has the value of this field; `None` for a value that cannot be compared,
    /// such as a JSON document.
    pub(crate) fn of_field(
        field: &RowField<'_, '_>,
        format: &EventFormat,
    ) -> Result<Option<Self>, DecodeError> {
        let column = match &field.column().name {
            Some(name) => ColumnName::Name(String::from_utf8_lossy(name).into_owned()),
            None => ColumnName::Number(field.index()),
        };
        let value = ConditionValue::of(field, format)?;
        Ok(value.map(|value| Self { column, value }))
    }

    /// Creates the condition that a column of the primary key has the value of this field. Also applies to the column
    /// under another name. `part` is the column's index in the key.
    pub(crate) fn of_key_part(
        part: usize,
        field: &RowField<'_, '_>,
        format: &EventFormat,
    ) -> Result<Option<Self>, DecodeError> {
        let condition = Self::of_field(field, format)?;
        Ok(condition.map(|condition| match condition.column {
            ColumnName::Name(name) => {
                let column = ColumnName::KeyPart(KeyPartColumn { part, column: field.index(), name });
                Self { column, ..condition }
            }
            _ => condition,
        }))
    }

    /// Returns whether both conditions require the same value of a column of the same name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let has_name = |condition: &Self, name: &str| match &condition.column {
            ColumnName::Name(found) | ColumnName::KeyPart(KeyPartColumn { name: found, .. }) => {
                found.eq_ignore_ascii_case(name)
            }
            ColumnName::Number(_) => false,
        };
        self.value == other.value
            && match &self.column {
                ColumnName::Name(name) | ColumnName::KeyPart(KeyPartColumn { name, .. }) => {
                    has_name(other, name)
                }
                ColumnName::Number(_) => self.column == other.column,
            }
    }

    /// Returns whether the condition refers to the column by this name, and not by number or by its index in the key.
    pub(crate) fn has_column_name(&self, name: &str) -> bool {
        matches!(&self.column, ColumnName::Name(found) if found.eq_ignore_ascii_case(name))
    }

    /// Returns whether the condition is on the column of a number.
    pub(crate) fn has_column_number(&self) -> bool {
        matches!(self.column, ColumnName::Number(_))
    }

    /// Returns the column's index in a table.
    pub(crate) fn column_index(&self, table: &Table) -> Result<Option<usize>, OutputRefusal> {
        self.column.index(table)
    }
}

/// Conditions whose columns some table of the logs had. All threads of a list share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConditionCoverage {
    has_tables: Arc<AtomicBool>,
    /// Number of columns of the table with the most columns.
    columns_max: Arc<AtomicUsize>,
    /// One bit for each condition.
    found: Arc<AtomicU64>,
    /// One bit for each condition that could not be tested, because a row image lacks its column.
    untested: Arc<AtomicU64>,
    /// One bit for each condition whose value the column of some table can have.
    possible: Arc<AtomicU64>,
    /// Expected values of columns that cannot have the value of a condition, by the number of the condition.
    impossible: Arc<Mutex<BTreeMap<usize, ImpossibleValue>>>,
}

impl ConditionCoverage {
    /// Returns whether the logs had any selected table.
    pub(crate) fn has_tables(&self) -> bool {
        self.has_tables.load(Ordering::Relaxed)
    }

    /// Returns the error for the first condition that no row can meet: whose column no table had, or whose value no
    /// table's column can have. `None` also if the logs had no table.
    pub(crate) fn unusable_condition_error(&self, conditions: &[RowCondition]) -> Option<String> {
        let Some(missing) = self.find_missing(conditions) else {
            return self.impossible_value_error(conditions);
        };
        let advice = match missing.column {
            ColumnName::Name(_) | ColumnName::KeyPart(..) => {
                "column names are spelt as in the table".to_owned()
            }
            ColumnName::Number(_) => match self.columns_max.load(Ordering::Relaxed) {
                1 => "the selected tables have 1 column; write @1=VALUE, or COLUMN=VALUE".to_owned(),
                columns => format!(
                    "the selected tables have at most {columns} columns; write @N=VALUE with N from 1 to {columns}, or \
                     COLUMN=VALUE"
                ),
            },
        };
        Some(format!("no selected table in these logs has the column of --where={missing}: {advice}"))
    }

    fn impossible_value_error(&self, conditions: &[RowCondition]) -> Option<String> {
        let possible = self.possible.load(Ordering::Relaxed);
        let impossible = self.impossible.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unusable = impossible.iter().filter(|(number, _)| possible & mask_of(**number) == 0);
        let (number, ImpossibleValue(expected)) = unusable.next()?;
        let condition = conditions.get(*number)?;
        Some(format!("the column of --where={condition} cannot have this value: expected {expected}"))
    }

    /// Records whether a table's column can have the value of a condition.
    fn note_value(&self, number: usize, impossible: Option<&ImpossibleValue>) {
        match impossible {
            None => _ = self.possible.fetch_or(mask_of(number), Ordering::Relaxed),
            Some(expected) => {
                let mut all = self.impossible.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(number).or_insert_with(|| expected.clone());
            }
        }
    }

    /// Returns the error for the first condition that could not be tested on some row.
    pub(crate) fn untested_rows_error(&self, conditions: &[RowCondition]) -> Option<String> {
        condition_of(conditions, self.untested.load(Ordering::Relaxed)).map(untested_rows_text)
    }

    fn find_missing<'c>(&self, conditions: &'c [RowCondition]) -> Option<&'c RowCondition> {
        let found = self.found.load(Ordering::Relaxed);
        let mut missing = conditions.iter().enumerate().filter(|(number, _)| found & mask_of(*number) == 0);
        missing.next().map(|(_, condition)| condition).filter(|_| self.has_tables())
    }
}

/// Returns the message about a condition that could not be tested on some row.
pub(crate) fn untested_rows_text(condition: &RowCondition) -> String {
    format!(
        "--where={condition} cannot be tested on some rows: the log does not contain the column's value \
         (binlog_row_image=MINIMAL or NOBLOB); choose rows by their primary key"
    )
}

/// Returns the first of these conditions whose bit is in the mask.
pub(crate) fn condition_of(conditions: &[RowCondition], mask: u64) -> Option<&RowCondition> {
    conditions
        .iter()
        .enumerate()
        .find(|(number, _)| mask & mask_of(*number) != 0)
        .map(|(_, condition)| condition)
}

/// Returns the bit of a condition. Conditions beyond the last bit share it.
const fn mask_of(number: usize) -> u64 {
    1 << if number < 63 { number } else { 63 }
}

/// Conditions that rows must meet: all of them in the image before, or all of them in the image after.
#[derive(Clone, Debug, Default)]
pub struct RowConditions {
    conditions: Vec<RowCondition>,
    sightings: ConditionCoverage,
}

impl RowConditions {
    /// Creates the set of these conditions. Without conditions, all rows pass.
    pub fn new(conditions: Vec<RowCondition>) -> Self {
        Self { conditions, sightings: ConditionCoverage::default() }
    }

    /// Returns whether there are no conditions.
    pub const fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns the test for the rows of a table; `None` if a condition names a column, but the table has no column
    /// names. The table may have names that the table in the log lacks.
    pub fn test(&self, table: &Table) -> Option<RowTest<'_>> {
        RowTest::new(&self.conditions, table, &self.sightings).ok()
    }

    /// Returns the error for the first condition that no row can meet: whose column no tested table had, or whose value
    /// no tested table's column can have. `None` also if none was tested.
    pub fn unusable_condition_error(&self) -> Option<String> {
        self.sightings.unusable_condition_error(&self.conditions)
    }

    /// Returns the error for the first condition that could not be tested on a row: neither image that meets the other
    /// conditions contains the column.
    pub fn untested_rows_error(&self) -> Option<String> {
        self.sightings.untested_rows_error(&self.conditions)
    }
}

/// Conditions, prepared for the rows of one table.
#[derive(Debug)]
pub struct RowTest<'c> {
    sightings: ConditionCoverage,
    /// Columns by index, and their required values. `None` if the table lacks a column: no row passes then.
    columns: Option<Vec<RequiredColumn<'c>>>,
    /// One bit for each condition whose column the table lacks.
    missing: u64,
}

/// A column with its required value.
#[derive(Debug)]
struct RequiredColumn<'c> {
    index: usize,
    /// The column in the table of the test, which may have texts and a character set that the rows' table lacks.
    column: Column,
    value: &'c ConditionValue,
    /// The value by the column's type, if its texts are compared by value.
    expected: Option<ExpectedValue>,
    /// The value as images store it, if it is an integer.
    stored: Option<StoredInteger>,
    /// Search for the stored value in all rows of an event, if it has enough bytes to be rare.
    finder: Option<Finder<'static>>,
}

/// Size in bytes from which on a stored integer is searched in whole events.
const SEARCHED_SIZE_MIN: usize = 4;

/// Sizes of integers in bytes.
const INTEGER_SIZES: [usize; 5] = [1, 2, 3, 4, 8];

/// An integer as images store it.
#[derive(Clone, Copy, Debug)]
struct StoredInteger {
    bytes: [u8; 16],
    size: usize,
}

impl StoredInteger {
    /// Returns the stored bytes of this value; `None` if the column is not of integers, or cannot have the value.
    fn new(column: &Column, number: i128) -> Option<Self> {
        let bytes = number.to_le_bytes();
        let has_value = |size: &usize| match column.value(&bytes[..*size]) {
            Ok(Value::Int(value)) => i128::from(value) == number,
            Ok(Value::UInt(value)) => i128::from(value) == number,
            _ => false,
        };
        let size = INTEGER_SIZES.into_iter().find(has_value)?;
        Some(Self { bytes, size })
    }
}

impl<'c> RequiredColumn<'c> {
    /// Also returns the error if the column cannot have the value.
    fn new(index: usize, value: &'c ConditionValue, column: &Column) -> (Self, Option<ImpossibleValue>) {
        let (number, parsed) = match value {
            ConditionValue::Text { number, text } => (*number, ExpectedValue::parse(text, column)),
            ConditionValue::Null => (None, Ok(None)),
        };
        let (expected, impossible) = match parsed {
            Ok(expected) => (expected, None),
            Err(impossible) => (None, Some(impossible)),
        };
        let stored = number.and_then(|number| StoredInteger::new(column, number));
        let searched = stored.filter(|stored| stored.size >= SEARCHED_SIZE_MIN);
        let finder = searched.map(|stored| Finder::new(&stored.bytes[..stored.size]).into_owned());
        (Self { index, column: column.clone(), value, expected, stored, finder }, impossible)
    }

    #[inline]
    fn matches(&self, field: &RowField<'_, '_>, format: &EventFormat) -> Result<bool, DecodeError> {
        match &self.stored {
            Some(StoredInteger { bytes, size }) => Ok(field.bytes() == Some(&bytes[..*size])),
            None => match &self.expected {
                Some(expected) => Ok(expected.is(&field.value()?)),
                None => self.value.matches(field, &self.column, format),
            },
        }
    }
}

impl<'c> RowTest<'c> {
    pub(crate) fn new(
        conditions: &'c [RowCondition],
        table: &Table,
        sightings: &ConditionCoverage,
    ) -> Result<Self, OutputRefusal> {
        let mut columns = Some(Vec::new());
        let mut missing = 0;
        sightings.has_tables.store(true, Ordering::Relaxed);
        sightings.columns_max.fetch_max(table.columns.len(), Ordering::Relaxed);
        for (number, condition) in conditions.iter().enumerate() {
            match condition.column.index(table)? {
                Some(index) => {
                    sightings.found.fetch_or(mask_of(number), Ordering::Relaxed);
                    if let Some(columns) = &mut columns {
                        let column = &table.columns[index];
                        let (column, impossible) = RequiredColumn::new(index, &condition.value, column);
                        sightings.note_value(number, impossible.as_ref());
                        columns.push(column);
                    }
                }
                None => {
                    columns = None;
                    missing |= mask_of(number);
                }
            }
        }
        Ok(Self { columns, missing, sightings: sightings.clone() })
    }

    /// Returns the bits of the conditions whose column the table lacks.
    pub(crate) const fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns whether a row of the event may meet the conditions, without splitting its rows into fields. False if the
    /// images have all required columns, and the stored bytes of a required value are nowhere in the rows.
    pub(crate) fn may_pass(&self, rows: &Rows<'_>) -> bool {
        let Some(columns) = &self.columns else { return true };
        let is_in_images = |column: &RequiredColumn<'_>| {
            rows.columns.contains(column.index)
                && rows.columns_after.is_none_or(|after| after.contains(column.index))
        };
        let may_have_value = |column: &RequiredColumn<'_>| {
            column.finder.as_ref().is_none_or(|finder| finder.find(rows.rows).is_some())
        };
        !columns.iter().all(is_in_images) || columns.iter().all(may_have_value)
    }

    /// Returns whether all conditions hold before the change or after it. If the row's images do not contain a column
    /// that decides this, the result is false, and [`RowConditions::untested_rows_error`] reports the condition.
    ///
    /// # Errors
    ///
    /// Fails if a compared value cannot be decoded.
    pub fn passes(&self, row: &RowChange<'_, '_>, format: &EventFormat) -> Result<bool, DecodeError> {
        let mut untested = 0;
        for image in [&row.before, &row.after].into_iter().flatten() {
            // After an update, a column that the image lacks has its value from before.
            let earlier =
                row.before.as_ref().filter(|_| row.after.as_ref().is_some_and(|after| ptr::eq(image, after)));
            match self.test_image(image, earlier, format)? {
                ConditionResult::Met => return Ok(true),
                ConditionResult::NotMet => {}
                ConditionResult::Untested(mask) => untested |= mask,
            }
        }
        self.sightings.untested.fetch_or(untested, Ordering::Relaxed);
        Ok(false)
    }

    /// Returns the results of all conditions before and after the change. A column missing in an update's after image
    /// has its value from before.
    pub(crate) fn states(
        &self,
        row: &RowChange<'_, '_>,
        format: &EventFormat,
    ) -> Result<RowStates, DecodeError> {
        let result = |image: Option<_>, earlier| match image {
            Some(image) => self.test_image(image, earlier, format),
            None => Ok(ConditionResult::NotMet),
        };
        let before = result(row.before.as_ref(), None)?;
        let after = result(row.after.as_ref(), row.before.as_ref())?;
        Ok(RowStates {
            before: before == ConditionResult::Met,
            after: after == ConditionResult::Met,
            untested: before.untested() | after.untested(),
        })
    }

    /// Tests all conditions on an image. A column that it lacks has its value from the `earlier` image.
    fn test_image(
        &self,
        image: &RowImage<'_, '_>,
        earlier: Option<&RowImage<'_, '_>>,
        format: &EventFormat,
    ) -> Result<ConditionResult, DecodeError> {
        let Some(columns) = &self.columns else { return Ok(ConditionResult::NotMet) };
        let mut untested = 0;
        for (number, column) in columns.iter().enumerate() {
            let index = column.index;
            let Some(field) = image.field(index).or_else(|| earlier?.field(index)) else {
                untested |= mask_of(number);
                continue;
            };
            if !column.matches(&field, format)? {
                return Ok(ConditionResult::NotMet);
            }
        }
        Ok(match untested {
            0 => ConditionResult::Met,
            untested => ConditionResult::Untested(untested),
        })
    }
}

/// Result of testing all conditions on one row image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionResult {
    Met,
    NotMet,
    /// The image lacks columns of some conditions (one bit each), and meets all other conditions.
    Untested(u64),
}

impl ConditionResult {
    const fn untested(self) -> u64 {
        match self {
            Self::Untested(mask) => mask,
            Self::Met | Self::NotMet => 0,
        }
    }
}

/// States of a row for which the conditions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowStates {
    pub(crate) before: bool,
    pub(crate) after: bool,
    /// One bit for each condition that could not be tested, because a row image lacks its column.
    pub(crate) untested: u64,
}

impl ColumnName {
    fn index(&self, table: &Table) -> Result<Option<usize>, OutputRefusal> {
        let name = match self {
            Self::Number(index) => return Ok((*index < table.columns.len()).then_some(*index)),
            Self::KeyPart(KeyPartColumn { part, column, name }) => match table.primary_key.as_deref() {
                Some(key) if !key.is_empty() => return Ok(key.get(*part).map(|part| part.column)),
                _ if !has_column_names(table) => {
                    return Ok((*column < table.columns.len()).then_some(*column));
                }
                _ => name,
            },
            Self::Name(name) => name,
        };
        if !has_column_names(table) {
            return Err(OutputRefusal::NoColumnNames);
        }
        let has_name = |column: &Column| {
            column.name.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        };
        let named = table.columns.iter().position(has_name);
        Ok(named.or_else(|| match table.primary_key.as_deref() {
            Some([part]) if name.eq_ignore_ascii_case("pk") => Some(part.column),
            _ => None,
        }))
    }
}

impl ConditionValue {
    /// Returns the value of a field, if [`ConditionValue::matches`] can compare it.
    fn of(field: &RowField<'_, '_>, format: &EventFormat) -> Result<Option<Self>, DecodeError> {
        let text = match field.value()? {
            Value::Null => return Ok(Some(Self::Null)),
            Value::Int(value) => value.to_string(),
            Value::UInt(value) => value.to_string(),
            Value::Year(value) => value.to_string(),
            Value::Bit(value) => value.value.to_string(),
            Value::Enum(value) => value.to_string(),
            Value::Set(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Double(value) => value.to_string(),
            Value::Decimal(value) => value.to_string(),
            Value::Date(value) => value.to_string(),
            Value::Time(value) => value.to_string(),
            Value::DateTime(value) => value.to_string(),
            Value::Timestamp(value) => value.to_string(),
            Value::Text(value) => match decoded(field.column(), format, value.bytes) {
                Some(text) => text.into_owned(),
                None => return Ok(None),
            },
            Value::Bytes(value) => {
                let digits: String = value.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits}{}", "00".repeat(value.padding.into()))
            }
            _ => return Ok(None),
        };
        let number = text.parse().ok();
        Ok(Some(Self::Text { text, number }))
    }

    /// Returns whether a field of this column has the value.
    fn matches(
        &self,
        field: &RowField<'_, '_>,
        column: &Column,
        format: &EventFormat,
    ) -> Result<bool, DecodeError> {
        let (text, number) = match self {
            Self::Null => return Ok(field.bytes().is_none()),
            Self::Text { text, number } => (text, *number),
        };
        Ok(match field.value()? {
            Value::Null => false,
            Value::Int(value) => number == Some(value.into()),
            Value::UInt(value) => number == Some(value.into()),
            Value::Year(value) => number == Some(value.into()),
            Value::Bit(bit) => number == Some(bit.value.into()),
            Value::Float(value) => text.parse() == Ok(value),
            Value::Double(value) => text.parse() == Ok(value),
            Value::Text(value) => decoded(column, format, value.bytes).is_some_and(|value| value == *text),
            Value::Bytes(value) => is_padded(text.as_bytes(), value) || is_hex_of(text, value),
            Value::Enum(value) => {
                let label = usize::from(value).checked_sub(1).and_then(|index| column.texts.get(index));
                let label = label.and_then(|label| decoded(column, format, label));
                number == Some(value.into()) || label.is_some_and(|label| label == *text)
            }
            Value::Set(value) => {
                let members = decoded_set(column, format, value);
                number == Some(value.into()) || members.is_some_and(|members| members == *text)
            }
            // Only corrupt values: all others are compared as `ExpectedValue`.
            Value::Decimal(value) => value.to_string() == *text,
            Value::Date(value) => value.to_string() == *text,
            Value::Time(value) => value.to_string() == *text,
            Value::DateTime(value) => value.to_string() == *text,
            Value::Timestamp(value) => value.to_string() == *text,
            Value::Json(document) => {
                let mut written = Vec::new();
                document.write(JsonQuotes::Inside, &mut written)?;
                written == text.as_bytes()
            }
            _ => false,
        })
    }
}

/// Returns whether the log has the names of the table's columns.
pub(crate) fn has_column_names(table: &Table) -> bool {
    table.columns.iter().any(|column| column.name.is_some())
}

/// Returns whether these are the bytes of a value, with any number of the zeros that follow them in a BINARY.
fn is_padded(bytes: &[u8], value: BytesValue<'_>) -> bool {
    bytes
        .strip_prefix(value.bytes)
        .is_some_and(|zeros| zeros.len() <= usize::from(value.padding) && zeros.iter().all(|byte| *byte == 0))
}

/// Returns whether `text` is `0x` and the bytes of a value in hexadecimal.
fn is_hex_of(text: &str, value: BytesValue<'_>) -> bool {
    let Some(digits) = text.strip_prefix("0x") else { return false };
    let digits: Option<Vec<u8>> = digits.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let Some(digits) = digits.filter(|digits| digits.len().is_multiple_of(2)) else { return false };
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    is_padded(&bytes, value)
}

/// Decodes text from the column's character set; `None` if it is invalid.
fn decoded<'a>(column: &Column, format: &EventFormat, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    charset_of(column, format).unwrap_or(Charset::Utf8mb4).decode(bytes).ok()
}

/// Returns a SET value as MySQL shows it: members separated by commas.
fn decoded_set(column: &Column, format: &EventFormat, bits: u64) -> Option<String> {
    let members = column.texts.iter().enumerate().filter(|(index, _)| *index < 64 && bits >> index & 1 == 1);
    let members: Option<Vec<Cow<'_, str>>> = members.map(|(_, text)| decoded(column, format, text)).collect();
    members.map(|members| members.join(","))
}

#[cfg(test)]
mod tests {
    use binlog::BytesValue;

    use super::{RowCondition, is_hex_of};

    #[test]
    fn conditions_are_read() {
        check("id=5", true);
        check("`id` = 'a=b'", true);
        check("@1=", true);
        check("@0=1", false);
        check("@x=1", false);
        check("id", false);
        check("=5", false);
    }

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(RowCondition::new(text).is_ok(), expected, "{text}");
    }

    #[test]
    fn bytes_are_compared_in_hexadecimal() {
        let check = |text: &str, padding: u16, expected: bool| {
            assert_eq!(
                is_hex_of(text, BytesValue { bytes: &[0, 255], padding }),
                expected,
                "{text} {padding}"
            );
        };
        check("0x00fF", 0, true);
        check("0x00f", 0, false);
        check("00ff", 0, false);
        check("0x00fg", 0, false);
        // BINARY(4) is stored without the zeros at its end.
        check("0x00ff", 2, true);
        check("0x00ff0000", 2, true);
        check("0x00ff0000", 0, false);
        check("0x00ff000000", 2, false);
        check("0x00ff0001", 2, false);
    }
}
