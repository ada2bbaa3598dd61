//! Rows: with any table map, rows decode or give an error within the event, and the count equals the decoded rows.

use std::collections::HashMap;

use binlog::events::Rows;
use binlog::{
    Charset, DecodeError, Event, EventChecksum, EventType, HEADER_SIZE, JsonQuotes, RawEvent, RowChange,
    RowField, RowImage, TableRegistry, Value,
};

use crate::seeds::{Sample, format_of, raw_events};

/// Maximum size of a rows event's body in a seed, in bytes.
const ROWS_SIZE_MAX: usize = 512;

/// Maximum memory for a compressed value, in bytes.
const VALUE_SIZE_MAX: usize = 1 << 16;

/// Returns table maps and rows of every kind, in the form of [`split`].
pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let mut maps = HashMap::new();
    let mut seeds = Vec::new();
    for raw in raw_events(sample) {
        let body = raw.body();
        let Some(table_id) = body.first_chunk::<6>() else { continue };
        match raw.event_type() {
            EventType::TableMap => {
                maps.insert(*table_id, body);
            }
            EventType::WriteRowsV1
            | EventType::UpdateRowsV1
            | EventType::DeleteRowsV1
            | EventType::WriteRows
            | EventType::UpdateRows
            | EventType::DeleteRows
            | EventType::PartialUpdateRows => {
                let Some(map) = maps.get(table_id) else { continue };
                let Ok(size) = u16::try_from(map.len()) else { continue };
                if body.len() <= ROWS_SIZE_MAX {
                    let code = [raw.event_type().code()];
                    seeds.push([&size.to_le_bytes()[..], map, &code, body].concat());
                }
            }
            _ => {}
        }
    }
    seeds
}

/// Returns the table map and the rows event in `bytes`: the size of a table map's body (2), the body, the type of a
/// rows event (1), its body.
pub(super) fn split(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (size, rest) = bytes.split_first_chunk()?;
    let (map, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*size)))?;
    let (code, rows) = rest.split_first()?;
    Some((event(EventType::TableMap.code(), map), event(*code, rows)))
}

/// Checks the table map and the rows event of [`split`].
pub(super) fn check(bytes: &[u8]) {
    let Some((map, rows)) = split(bytes) else { return };
    let format = format_of("9.7.4", 8);
    let decode = |bytes| RawEvent::new(bytes, EventChecksum::Absent).and_then(|raw| raw.decode(&format));
    let mut tables = TableRegistry::new();
    if let Ok(Event::TableMap(map)) = decode(&map) {
        // A refused map leaves its number unknown.
        assert_eq!(tables.register(&map).is_ok(), tables.table(map.table_id).is_some());
    }
    if let Ok(
        Event::WriteRowsV1(event)
        | Event::UpdateRowsV1(event)
        | Event::DeleteRowsV1(event)
        | Event::WriteRows(event)
        | Event::UpdateRows(event)
        | Event::DeleteRows(event)
        | Event::PartialUpdateRows(event),
    ) = decode(&rows)
    {
        // `check_rows` checks the error of refused rows.
        let _ = check_rows(&mut tables, &event);
    }
}

fn check_rows(tables: &mut TableRegistry, rows: &Rows<'_>) -> Result<(), DecodeError> {
    let size = rows.rows_offset() + rows.rows.len();
    let decoder = tables.decoder(rows)?;
    assert!(decoder.fits(rows));
    let mut read = 0;
    let mut end = rows.rows_offset();
    for row in decoder.rows(rows) {
        match row {
            Ok(row) => {
                for image in row.images() {
                    assert!(image.offset() + image.bytes().len() <= size, "{image:?}");
                    assert!(image.offset() >= end);
                    end = image.offset() + image.bytes().len();
                    check_image(&row, image);
                }
                read += 1;
            }
            Err(error) => {
                assert!(error.offset <= size);
                assert_eq!(decoder.count(rows), Err(error));
                return Err(error);
            }
        }
    }
    assert_eq!(decoder.count(rows), Ok(read));
    assert_eq!(end, size, "not all rows were read");
    Ok(())
}

fn check_image(row: &RowChange<'_, '_>, image: &RowImage<'_, '_>) {
    let mut last = None;
    for field in image.fields() {
        assert!(last < Some(field.index()));
        last = Some(field.index());
        match field.value() {
            Ok(value) => decode_on_demand(row, &field, &value),
            Err(error) => assert!(error.offset <= image.offset() + image.bytes().len()),
        }
    }
}

/// Decodes the parts of a value that are decoded on demand.
fn decode_on_demand(row: &RowChange<'_, '_>, field: &RowField<'_, '_>, value: &Value<'_>) {
    // A column of type NULL has values without bytes.
    assert!(field.bytes().is_some() || *value == Value::Null);
    let mut out = Vec::new();
    match value {
        Value::Decimal(decimal) => decimal.write(&mut out),
        Value::Date(date) => date.write(&mut out),
        Value::Time(time) => time.write(&mut out),
        Value::DateTime(date_time) => date_time.write(&mut out),
        Value::Timestamp(timestamp) => timestamp.to_utc().write(&mut out),
        Value::Text(text) => drop(Charset::Utf8mb4.decode_lossy(text.bytes)),
        Value::Json(document) => drop(document.write(JsonQuotes::Always, &mut out)),
        Value::JsonChanges(changes) => {
            assert!(changes.iter().count() <= changes.bytes().len());
            drop(row.document_after(field.index()));
        }
        Value::Vector(vector) => assert_eq!(vector.iter().len() * 4, vector.bytes.len()),
        Value::Compressed(value) => {
            if let Ok(plain) = value.decompress(VALUE_SIZE_MAX) {
                assert!(plain.len() <= VALUE_SIZE_MAX.max(value.bytes.len()));
            }
        }
        _ => {}
    }
}

/// Returns an event with this body.
fn event(code: u8, body: &[u8]) -> Vec<u8> {
    let mut event = vec![0; HEADER_SIZE];
    event[4] = code;
    event[9..13].copy_from_slice(&((HEADER_SIZE + body.len()) as u32).to_le_bytes());
    event.extend_from_slice(body);
    event
}
