//! Changed rows: values by column name, before and after the change.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{Rows, RowsFlags};
use binlog::{
    Charset, Column, DecodeError, DecodeReason, EventFormat, JsonChange, JsonChangeKind, JsonChanges,
    JsonDocument, JsonHexDigits, JsonQuotes, RowChange, RowField, RowImage, Table, Timestamp, Value,
    put_base64, put_json_escaped,
};
use sql::event_info::ROWS_FLAGS;
use sql::numbers::{put_i64, put_shortest, put_u64};

use super::writer::{JsonArray, JsonObject, put_bytes, put_decoded, put_flags, put_string};
use crate::column_charset::charset_of;
use crate::event_context::StatementTables;
use crate::event_selection::EventSelection;
use crate::located_event::OutputRefusal;

/// Result of writing an event: whether there is something to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineMatch {
    Nothing,
    Something,
}

/// Flags of row events and their names: those that MySQL shows, and MariaDB's own.
const FLAGS: [(RowsFlags, &str); 6] = {
    let [end, foreign_keys, unique, complete, cascades] = ROWS_FLAGS;
    let checks = (RowsFlags::NO_CHECK_CONSTRAINT_CHECKS, "NO_CHECK_CONSTRAINT_CHECKS_F");
    [end, foreign_keys, unique, complete, cascades, checks]
};

/// Row event and the format of its log.
#[derive(Clone, Copy)]
pub(super) struct LoggedRows<'e> {
    pub(super) rows: &'e Rows<'e>,
    pub(super) format: &'e EventFormat,
}

/// Writes the members of a row event.
pub(super) fn put(
    object: &mut JsonObject<'_>,
    names: &mut MemberNameCache,
    select: &EventSelection,
    tables: &mut StatementTables,
    LoggedRows { rows: event, format }: LoggedRows<'_>,
) -> Result<LineMatch, OutputRefusal> {
    object.uint("table_id", event.table_id);
    put_flags(object, "flags", &FLAGS.map(|(flag, name)| (flag.0, name)), event.flags.0);
    if let Some(extra) = event.extra.filter(|extra| !extra.is_empty()) {
        object.bytes("extra", extra);
    }
    let (table, decoder) = tables.decoder(event)?;
    let Some(table) = table else {
        object.array("rows").close();
        return Ok(LineMatch::Something);
    };
    object.text_or_bytes("database", &table.database);
    object.text_or_bytes("table", &table.name);
    let columns = names.names_of(&table, format);
    let mut rows = object.array("rows");
    let test = select.row_test(&table)?;
    let mut found = if test.is_none() { LineMatch::Something } else { LineMatch::Nothing };
    for row in decoder.rows(event) {
        let row = row?;
        if let Some(test) = &test {
            if !test.passes(&row, format)? {
                continue;
            }
            found = LineMatch::Something;
        }
        put_row(rows.object(), columns, &row)?;
    }
    rows.close();
    Ok(found)
}

/// Column names of each table as the start of JSON members.
#[derive(Default)]
pub(super) struct MemberNameCache {
    known: HashMap<u64, (Arc<Table>, Box<[MemberName]>)>,
}

/// Maximum number of tables kept. A long log maps any number of tables.
const TABLES_MAX: usize = 4096;

/// A column's name and character set.
struct MemberName {
    /// `"name":`.
    text: Box<[u8]>,
    charset: Option<Charset>,
}

impl MemberNameCache {
    fn names_of(&mut self, table: &Arc<Table>, format: &EventFormat) -> &[MemberName] {
        let is_known = self.known.get(&table.table_id).is_some_and(|(known, _)| Arc::ptr_eq(known, table));
        if !is_known {
            if self.known.len() >= TABLES_MAX {
                self.known.clear();
            }
            let names = table
                .columns
                .iter()
                .enumerate()
                .map(|(index, column)| MemberName::new(index, column, format));
            self.known.insert(table.table_id, (Arc::clone(table), names.collect()));
        }
        self.known.get(&table.table_id).map_or(&[], |(_, names)| names)
    }
}

impl MemberName {
    /// Returns the column's name, or `@N` if the log has no name.
    fn new(index: usize, column: &Column, format: &EventFormat) -> Self {
        let mut text = Vec::new();
        match &column.name {
            Some(name) => put_string(&mut text, &String::from_utf8_lossy(name)),
            None => put_string(&mut text, &format!("@{}", index + 1)),
        }
        text.push(b':');
        Self { text: text.into(), charset: charset_of(column, format) }
    }
}

fn put_row(
    mut object: JsonObject<'_>,
    names: &[MemberName],
    row: &RowChange<'_, '_>,
) -> Result<(), DecodeError> {
    if let Some(before) = &row.before {
        put_image(object.value("before"), names, before, None)?;
    }
    if let Some(after) = &row.after {
        put_image(object.value("after"), names, after, row.before.as_ref())?;
        if after.fields().any(|field| field.is_partial()) {
            put_all_changes(object.value("changes"), names, after)?;
        }
    }
    object.close();
    Ok(())
}

/// Writes the columns of an image. The document of a partially updated JSON column is computed from `before`; without a
/// document there, the column is omitted.
fn put_image(
    out: &mut Vec<u8>,
    names: &[MemberName],
    image: &RowImage<'_, '_>,
    before: Option<&RowImage<'_, '_>>,
) -> Result<(), DecodeError> {
    let mut separator = b'{';
    for field in image.fields() {
        let Some(name) = names.get(field.index()) else { continue };
        let start = out.len();
        out.push(separator);
        out.extend_from_slice(&name.text);
        match field.is_partial() {
            false => put_value(out, name, &field)?,
            true => match apply_changes(&field, before)? {
                Some(document) => put_document(out, JsonDocument::new(&document))?,
                None => {
                    out.truncate(start);
                    continue;
                }
            },
        }
        separator = b',';
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}

/// Returns the document that results from applying a column's changes to the document before.
fn apply_changes(
    field: &RowField<'_, '_>,
    before: Option<&RowImage<'_, '_>>,
) -> Result<Option<Vec<u8>>, DecodeError> {
    let old = before.and_then(|image| image.fields().find(|old| old.index() == field.index()));
    let Some(old) = old.and_then(|old| old.bytes()) else { return Ok(None) };
    match field.value()? {
        Value::JsonChanges(changes) => {
            changes.apply(JsonDocument::new(old)).map(Some).map_err(|error| error.within(field.offset()))
        }
        _ => Ok(None),
    }
}

fn put_all_changes(
    out: &mut Vec<u8>,
    names: &[MemberName],
    image: &RowImage<'_, '_>,
) -> Result<(), DecodeError> {
    let mut separator = b'{';
    for field in image.fields().filter(RowField::is_partial) {
        let (Some(name), Value::JsonChanges(changes)) = (names.get(field.index()), field.value()?) else {
            continue;
        };
        out.push(separator);
        out.extend_from_slice(&name.text);
        put_changes(out, &changes).map_err(|error| error.within(field.offset()))?;
        separator = b',';
    }
    out.push(b'}');
    Ok(())
}

fn put_changes(out: &mut Vec<u8>, changes: &JsonChanges<'_>) -> Result<(), DecodeError> {
    let mut steps = JsonArray::open(out);
    for JsonChange { kind, path, value } in changes.iter() {
        let mut step = steps.object();
        step.plain(
            "op",
            match kind {
                JsonChangeKind::Replace => "replace",
                JsonChangeKind::Insert => "insert",
                JsonChangeKind::Remove => "remove",
            },
        );
        step.text_or_bytes("path", path);
        if let Some(value) = value {
            put_document(step.value("value"), value)?;
        }
        step.close();
    }
    steps.close();
    Ok(())
}

#[inline]
fn put_value(out: &mut Vec<u8>, name: &MemberName, field: &RowField<'_, '_>) -> Result<(), DecodeError> {
    match field.value()? {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Int(value) => put_i64(out, value),
        Value::UInt(value) => put_u64(out, value),
        Value::Text(text) => put_decoded(out, name.charset, text.bytes),
        Value::Bytes(bytes) if name.charset.is_none() => put_decoded(out, None, bytes.bytes),
        Value::Bytes(bytes) if bytes.padding == 0 => put_bytes(out, bytes.bytes),
        Value::Bytes(bytes) => {
            let mut padded = bytes.bytes.to_vec();
            padded.resize(padded.len() + usize::from(bytes.padding), 0);
            put_bytes(out, &padded);
        }
        Value::DateTime(value) => put_quoted(out, |out| value.write(out)),
        Value::Timestamp(value) => put_timestamp(out, &value),
        Value::Decimal(value) => put_quoted(out, |out| value.write(out)),
        Value::Json(document) => put_document(out, document).map_err(|error| error.within(field.offset()))?,
        value => put_rare(out, name, field.column(), &value)?,
    }
    Ok(())
}

fn put_rare(
    out: &mut Vec<u8>,
    name: &MemberName,
    column: &Column,
    value: &Value<'_>,
) -> Result<(), DecodeError> {
    match *value {
        Value::Float(value) => put_float(out, value),
        Value::Double(value) => put_double(out, value),
        Value::Date(value) => put_quoted(out, |out| value.write(out)),
        Value::Time(value) => put_quoted(out, |out| value.write(out)),
        Value::Year(value) => put_u64(out, value.into()),
        Value::Bit(value) => put_u64(out, value.value),
        Value::Enum(number) => put_enum(out, name, column, number),
        Value::Set(bits) => put_set(out, name, column, bits),
        Value::Geometry(geometry) => match (geometry.srid(), geometry.wkb()) {
            (Some(srid), Some(wkb)) => {
                let mut object = JsonObject::open(out);
                object.uint("srid", srid);
                put_quoted(object.value("wkb"), |out| put_base64(out, wkb));
                object.close();
            }
            _ => put_bytes(out, geometry.bytes),
        },
        Value::Vector(vector) => {
            let mut numbers = JsonArray::open(out);
            vector.iter().for_each(|number| put_float(numbers.element(), number));
            numbers.close();
        }
        Value::Compressed(value) => {
            let mut object = JsonObject::open(out);
            put_quoted(object.value("mariadb_compressed"), |out| put_base64(out, value.bytes));
            object.close();
        }
        _ => return Err(DecodeError::new(0, DecodeReason::Unsupported { what: "a value of this type" })),
    }
    Ok(())
}

/// Returns the value of a column as JSON. The document of a partially updated JSON column is computed from `before`;
/// without a document there, it is `None`.
pub(crate) fn field_json(
    field: &RowField<'_, '_>,
    before: Option<&RowImage<'_, '_>>,
    format: &EventFormat,
) -> Result<Option<Vec<u8>>, DecodeError> {
    let name = MemberName { text: Box::default(), charset: charset_of(field.column(), format) };
    let mut out = Vec::new();
    match field.is_partial() {
        false => put_value(&mut out, &name, field)?,
        true => match apply_changes(field, before)? {
            Some(document) => put_document(&mut out, JsonDocument::new(&document))?,
            None => return Ok(None),
        },
    }
    Ok(Some(out))
}

/// Returns the changes of a partially updated JSON column as JSON; `None` for other values, and without a change.
pub(crate) fn field_changes_json(field: &RowField<'_, '_>) -> Result<Option<Vec<u8>>, DecodeError> {
    if !field.is_partial() {
        return Ok(None);
    }
    let Value::JsonChanges(changes) = field.value()? else { return Ok(None) };
    if changes.iter().next().is_none() {
        return Ok(None);
    }
    let mut out = Vec::new();
    put_changes(&mut out, &changes).map_err(|error| error.within(field.offset()))?;
    Ok(Some(out))
}

fn put_quoted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    put(out);
    out.push(b'"');
}

/// Writes a time in UTC, `2020-01-01T00:00:00.123Z`, or the zero date as MySQL shows it.
fn put_timestamp(out: &mut Vec<u8>, value: &Timestamp) {
    put_quoted(out, |out| {
        let start = out.len();
        value.to_utc().write(out);
        if value.seconds != 0 || value.micros != 0 {
            if let Some(space) = out[start..].iter_mut().find(|byte| **byte == b' ') {
                *space = b'T';
            }
            out.push(b'Z');
        }
    });
}

/// Writes the fewest digits that identify the number.
fn put_double(out: &mut Vec<u8>, value: f64) {
    match value.is_finite() {
        true => put_shortest(out, value),
        false => put_quoted(out, |out| out.extend_from_slice(infinite_name(value).as_bytes())),
    }
}

fn put_float(out: &mut Vec<u8>, value: f32) {
    use std::io::Write as _;
    /// Numbers outside this range have an exponent, because most digits would be zeros.
    const PLAIN: std::ops::Range<f32> = 1e-5..1e16;
    if !value.is_finite() {
        return put_quoted(out, |out| out.extend_from_slice(infinite_name(f64::from(value)).as_bytes()));
    }
    // Writing to a vector does not fail.
    let _ = match value == 0.0 || PLAIN.contains(&value.abs()) {
        true => write!(out, "{value}"),
        false => write!(out, "{value:e}"),
    };
}

/// Returns the name of a number that no column holds, but corrupt bytes may.
fn infinite_name(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, _) => "NaN",
        (false, false) => "Infinity",
        (false, true) => "-Infinity",
    }
}

/// Writes the value's text if the log has it, else its number. Number 0 is MySQL's error value.
fn put_enum(out: &mut Vec<u8>, name: &MemberName, column: &Column, number: u16) {
    match usize::from(number).checked_sub(1).and_then(|index| column.texts.get(index)) {
        Some(text) => put_decoded(out, name.charset, text),
        None => put_u64(out, number.into()),
    }
}

/// Writes the texts of the members if the log has them, else the bits as a number.
fn put_set(out: &mut Vec<u8>, name: &MemberName, column: &Column, bits: u64) {
    let known = match column.texts.len() {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    };
    if column.texts.is_empty() || bits & !known != 0 {
        return put_u64(out, bits);
    }
    let mut members = JsonArray::open(out);
    for (index, text) in column.texts.iter().enumerate() {
        if bits >> index & 1 == 1 {
            put_decoded(members.element(), name.charset, text);
        }
    }
    members.close();
}

/// Writes a document as JSON inside JSON.
fn put_document(out: &mut Vec<u8>, document: JsonDocument<'_>) -> Result<(), DecodeError> {
    let start = out.len();
    document.write(JsonQuotes::Always, out)?;
    if let Err(error) = std::str::from_utf8(&out[start..]) {
        let found = out.get(start + error.valid_up_to()).copied().map_or(0, u64::from);
        let reason = DecodeReason::Unexpected { field: "byte of a JSON string", found, expected: "UTF-8" };
        return Err(DecodeError::new(0, reason));
    }
    // MySQL breaks long base64 strings into lines, but a JSON string must not contain newlines.
    if out[start..].iter().any(|byte| *byte < 0x20) {
        let text = out.split_off(start);
        for byte in text {
            match byte < 0x20 {
                true => put_json_escaped(out, &[byte], JsonHexDigits::Lower),
                false => out.push(byte),
            }
        }
    }
    Ok(())
}
