//! Columns of rows: with any table map, rows become a record batch with as many rows, or an error.

use std::sync::Arc;

use arrow_array::Array as _;
use binlog::{Event, EventChecksum, Flavour, RawEvent, TableRegistry};
use columns::{ChangeBatchBuilder, ChangeContext, ChangeSchema};
use stream::UnnamedColumnPolicy;

use crate::checks::rows::split;
use crate::seeds::format_of;

/// Checks the table map and the rows event of [`split`].
pub(super) fn check(bytes: &[u8]) {
    let Some((map, rows)) = split(bytes) else { return };
    let format = format_of("9.7.4", 8);
    let decode = |bytes| RawEvent::new(bytes, EventChecksum::Absent).and_then(|raw| raw.decode(&format));
    let mut tables = TableRegistry::new();
    let Ok(Event::TableMap(map)) = decode(&map) else { return };
    let Ok(table) = tables.register(&map) else { return };
    let Ok(event) = decode(&rows) else { return };
    let Some(rows) = event.rows() else { return };
    let Ok(decoder) = tables.decoder(rows) else { return };
    let schema = ChangeSchema::new(&table, Flavour::MySql, UnnamedColumnPolicy::Number);
    let Some(schema) = schema else { panic!("columns without names have numbers") };
    let mut builder = ChangeBatchBuilder::new(Arc::new(schema));
    let context = ChangeContext {
        gtid: None,
        commit_us: 0,
        thread_id: None,
        log_name: "binlog.000001",
        log_position: 4,
        first_number: 1,
    };
    let mut full_rows = 0;
    let appended = builder.append(&decoder, rows, &context, &mut |batch| {
        full_rows += batch.num_rows() as u64;
        Ok(())
    });
    let count = decoder.count(rows);
    match appended {
        Ok(appended) => {
            let rest = builder.finish().expect("complete rows are a batch");
            full_rows += rest.num_rows() as u64;
            assert_eq!(count, Ok(full_rows), "{rows:?}");
            assert_eq!(appended.unsigned_abs(), full_rows);
            for image in [rest.column_by_name("before"), rest.column_by_name("after")] {
                assert_eq!(image.map(|image| image.len()), Some(rest.num_rows()));
            }
        }
        // A value can be corrupt although its size is right.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
