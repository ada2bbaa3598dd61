//! Rows of all sample logs: each value decodes, and cut rows are errors.

// Helper functions of tests also count as non-test code.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use bintide_binlog::events::Rows;
use bintide_binlog::{Event, JsonQuotes, TableRegistry, Value};

use common::{for_each_event_deep, samples};

/// Calls `see` with each rows event and the tables known at that point.
fn for_each_rows(mut see: impl FnMut(&str, &mut TableRegistry, &Rows<'_>)) {
    for sample in samples() {
        let mut tables = TableRegistry::new();
        for_each_event_deep(&sample.bytes, |_, raw, format| {
            let event = raw.decode(format).unwrap();
            if let Event::TableMap(map) = event {
                tables.register(&map).unwrap_or_else(|error| panic!("{} {map:?}: {error}", sample.name));
            } else if let Some(rows) = event.rows() {
                see(&sample.name, &mut tables, rows);
            }
        });
    }
}

#[test]
fn every_value_decodes() {
    let mut kinds = BTreeSet::new();
    let mut rebuilt = 0;
    for_each_rows(|name, tables, rows| {
        let decoder = tables.decoder(rows).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut count = 0;
        for row in decoder.rows(rows) {
            let row = row.unwrap_or_else(|error| panic!("{name}: {error}"));
            count += 1;
            for field in row.images().flat_map(|image| image.fields()) {
                let value = field.value().unwrap_or_else(|error| panic!("{name} {field:?}: {error}"));
                kinds.insert(kind(&value));
                if let Value::Json(document) = value {
                    document.write(JsonQuotes::Always, &mut Vec::new()).unwrap();
                } else if let Value::Compressed(value) = value {
                    value.decompress(1 << 20).unwrap();
                } else if let Value::JsonChanges(changes) = value {
                    assert!(changes.iter().all(|change| change.path.starts_with(b"$")));
                    let document = row.document_after(field.index());
                    // Minimal images lack the old document.
                    rebuilt += usize::from(document.unwrap().is_some());
                }
            }
        }
        assert_eq!(decoder.count(rows), Ok(count), "{name}");
    });
    let all = "Bit Bytes Compressed Date DateTime Decimal Double Enum Float Geometry Int Json JsonChanges Null Set Text Time \
               Timestamp UInt Vector Year";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), all);
    assert!(rebuilt > 0);
}

fn kind(value: &Value<'_>) -> String {
    let text = format!("{value:?}");
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// A truncated row is an error at its offset; the rows before it are still returned.
#[test]
fn every_cut_is_an_error_at_its_offset() {
    for_each_rows(|name, tables, rows| {
        let decoder = tables.decoder(rows).unwrap();
        // Cuts at the end of a row are no errors.
        let mut iter = decoder.rows(rows);
        let mut ends = BTreeSet::from([0]);
        while iter.next().is_some() {
            ends.insert(iter.offset() - rows.rows_offset());
        }
        for size in 0..rows.rows.len().min(600) {
            let truncated = Rows { rows: &rows.rows[..size], ..*rows };
            let whole = ends.range(..=size).count() as u64 - 1;
            match (decoder.count(&truncated), ends.contains(&size)) {
                (Ok(count), true) => assert_eq!(count, whole, "{name}"),
                (Err(error), false) => {
                    assert_eq!(decoder.rows(&truncated).last().map(|row| row.err()), Some(Some(error)));
                    let read = decoder.rows(&truncated).filter(Result::is_ok).count() as u64;
                    assert_eq!(read, whole, "{name}");
                    let reach = rows.rows_offset()..=rows.rows_offset() + size;
                    assert!(reach.contains(&error.offset), "{name} {size}: {error}");
                }
                (result, _) => panic!("{name}: cut at {size} of {}: {result:?}", rows.rows.len()),
            }
        }
    });
}

/// Offsets in errors refer to bytes of the event.
#[test]
fn offsets_refer_to_the_event() {
    for sample in samples() {
        for_each_event_deep(&sample.bytes, |_, raw, format| {
            let event = raw.decode(format).unwrap();
            let found =
                |offset: usize, part: &[u8]| assert!(raw.bytes()[offset..].starts_with(part), "{event:?}");
            if let Event::TableMap(map) = event {
                found(map.metadata_offset(), map.metadata);
                found(map.optional_offset(), map.optional);
            } else if let Some(rows) = event.rows() {
                found(rows.rows_offset(), rows.rows);
            }
        });
    }
}
