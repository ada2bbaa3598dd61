//! Decodes the rows in a server's log with the library.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use binlog::events::{Rows, RowsKind};
use binlog::{
    Charset, Collation, Column, Event, Flavour, Framer, FramerOutput, JsonQuotes, MAGIC, RowChange, RowField,
    TableRegistry, Value,
};

/// A column's value in one row, in the form that [`select`] requests from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Name of the column.
    pub column: String,
    /// Text of the value; `None` for NULL.
    pub text: Option<String>,
    /// Set if the value is computed from the before image and a partial update.
    pub rebuilt: bool,
}

/// A change of one row.
#[derive(Clone, Debug)]
pub struct Change {
    /// `database.table`.
    pub table: String,
    /// Kind of change.
    pub kind: RowsKind,
    /// Before image.
    pub before: Option<Vec<Cell>>,
    /// After image.
    pub after: Option<Vec<Cell>>,
}

/// Returns every row change in a log.
///
/// # Errors
/// Fails if an event cannot be decoded.
pub fn read(log: &Path, flavour: Flavour) -> Result<Vec<Change>> {
    let bytes = fs::read(log).with_context(|| format!("could not read {}", log.display()))?;
    let mut rest = bytes.strip_prefix(&MAGIC).context("not a plain log")?;
    let mut framer = Framer::new();
    let mut tables = TableRegistry::new();
    let mut changes = Vec::new();
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        rest = &rest[raw.bytes().len()..];
        let format = framer.format().context("no format description")?;
        match raw.decode(format)? {
            Event::TableMap(map) => drop(tables.register(&map)?),
            Event::WriteRows(rows)
            | Event::UpdateRows(rows)
            | Event::DeleteRows(rows)
            | Event::WriteRowsV1(rows)
            | Event::UpdateRowsV1(rows)
            | Event::DeleteRowsV1(rows)
            | Event::PartialUpdateRows(rows) => take(&mut tables, &rows, flavour, &mut changes)?,
            _ => {}
        }
    }
    Ok(changes)
}

fn take(
    tables: &mut TableRegistry,
    rows: &Rows<'_>,
    flavour: Flavour,
    changes: &mut Vec<Change>,
) -> Result<()> {
    let decoder = tables.decoder(rows)?;
    let table = tables.table(rows.table_id).context("no table map for these rows")?;
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let table = format!("{}.{}", name(&table.database), name(&table.name));
    let mut count = 0;
    for row in decoder.rows(rows) {
        let row = row?;
        let cells = |image: Option<binlog::RowImage<'_, '_>>| -> Result<Option<Vec<Cell>>> {
            image.map(|image| image.fields().map(|field| cell(&row, &field, flavour)).collect()).transpose()
        };
        let (before, after) = (cells(row.before)?, cells(row.after)?);
        changes.push(Change { table: table.clone(), kind: rows.kind, before, after });
        count += 1;
    }
    anyhow::ensure!(decoder.count(rows)? == count, "count() and decode() find different numbers of rows");
    Ok(())
}

fn cell(row: &RowChange<'_, '_>, field: &RowField<'_, '_>, flavour: Flavour) -> Result<Cell> {
    let column = field.column();
    let name = match &column.name {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => format!("@{}", field.index() + 1),
    };
    let text = match field.value()? {
        Value::Null => None,
        Value::JsonChanges(_) => {
            let document = row.document_after(field.index())?.context("no before image of the document")?;
            Some(show(column, &column.value(&document)?, flavour)?)
        }
        value => Some(show(column, &value, flavour)?),
    };
    Ok(Cell { column: name, text, rebuilt: field.is_partial() })
}

/// Shows the value in the form that [`select`] requests.
fn show(column: &Column, value: &Value<'_>, flavour: Flavour) -> Result<String> {
    Ok(match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => format!("{:e}", f64::from(*number)),
        Value::Double(number) => format!("{number:e}"),
        Value::Decimal(decimal) => decimal.to_string(),
        Value::Date(date) => date.to_string(),
        Value::Time(time) => time.to_string(),
        Value::DateTime(date_time) => date_time.to_string(),
        Value::Timestamp(timestamp) => timestamp.to_utc().to_string(),
        Value::Year(year) => year.to_string(),
        Value::Enum(index) if column.texts.is_empty() => format!("{index} ?"),
        Value::Set(bits) if column.texts.is_empty() => format!("{bits} ?"),
        Value::Enum(index) => {
            format!("{index} {}", text_of(column, usize::from(*index).checked_sub(1), flavour)?)
        }
        Value::Set(bits) => {
            let members = (0..64).filter(|index| bits >> index & 1 == 1);
            let texts = members.map(|index| text_of(column, Some(index), flavour));
            format!("{bits} {}", texts.collect::<Result<Vec<_>>>()?.join(","))
        }
        Value::Bit(bit) => bit.value.to_string(),
        Value::Text(text) => {
            let collation = Collation::new(text.collation, flavour).context("an unknown collation")?;
            format!("{} {}", hex(text.bytes), collation.charset().decode(text.bytes)?)
        }
        Value::Bytes(bytes) => format!("{}{}", hex(bytes.bytes), "00".repeat(bytes.padding.into())),
        Value::Json(document) => {
            let mut text = Vec::new();
            document.write(JsonQuotes::Always, &mut text)?;
            String::from_utf8(text)?
        }
        Value::Compressed(value) => {
            let bytes = value.decompress(1 << 24)?;
            match value
                .collation
                .and_then(|id| Collation::new(id, flavour))
                .map(|collation| collation.charset())
            {
                None | Some(Charset::Binary) => hex(&bytes),
                Some(charset) => format!("{} {}", hex(&bytes), charset.decode(&bytes)?),
            }
        }
        Value::Geometry(geometry) => hex(geometry.bytes),
        Value::Vector(vector) => hex(vector.bytes),
        other => anyhow::bail!("no form for {other:?}"),
    })
}

fn text_of(column: &Column, index: Option<usize>, flavour: Flavour) -> Result<String> {
    let Some(index) = index else { return Ok(String::new()) };
    let text = column.texts.get(index).context("a value without a text")?;
    let collation =
        column.collation.and_then(|id| Collation::new(id, flavour)).context("an unknown collation")?;
    Ok(collation.charset().decode(text)?.into_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns the expression that makes a server show the column `name`, of an SQL type, in the form of
/// [`Cell::text`].
pub fn select(name: &str, sql_type: &str) -> String {
    let word = sql_type.split(|byte: char| !byte.is_ascii_alphabetic()).next().unwrap_or_default();
    match word {
        // A DOUBLE keeps all digits of a FLOAT; the values are compared as numbers.
        "FLOAT" | "DOUBLE" => format!("{name} + 0e0"),
        "ENUM" | "SET" => format!("CONCAT({name} + 0, ' ', CONVERT({name} USING utf8mb4))"),
        "BIT" | "YEAR" => format!("{name} + 0"),
        "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" => {
            format!("CONCAT(HEX({name}), ' ', CONVERT({name} USING utf8mb4))")
        }
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "VECTOR" | "GEOMETRY"
        | "POINT" | "MULTIPOLYGON" => format!("HEX({name})"),
        _ => format!("CAST({name} AS CHAR CHARACTER SET utf8mb4)"),
    }
}

/// Compares the server's text with the library's; floating-point values are compared as numbers.
pub fn same(server: Option<&str>, library: Option<&str>, sql_type: &str) -> bool {
    match (server, library) {
        (Some(server), Some(library)) if sql_type.starts_with("FLOAT") || sql_type.starts_with("DOUBLE") => {
            matches!((server.parse::<f64>(), library.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
        }
        (server, library) => server == library,
    }
}
