use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int32Type, Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor as _, ArrayRef, RecordBatch, StringArray};
use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{Flavour, RowDecoder, Table};
use proptest::prelude::{any, proptest};
use stream::UnnamedColumnPolicy;

use super::{ChangeBatchBuilder, ChangeContext};
use crate::change_schema::ChangeSchema;
use crate::columns_error::ColumnsError;

/// Codes of types.
const TINY: u8 = 1;
const LONG: u8 = 3;
const LONGLONG: u8 = 8;
const DATE: u8 = 10;
const VARCHAR: u8 = 15;
const TIMESTAMP2: u8 = 17;
const DATETIME2: u8 = 18;
const TIME2: u8 = 19;
const STRING: u8 = 254;

/// Returns the batch of an event with these rows. Each row has a byte of NULL bits for each image.
fn batch_of(map: &TableMap<'_>, kind: RowsKind, rows: &[u8]) -> Result<RecordBatch, ColumnsError> {
    let table = Arc::new(Table::new(map).unwrap());
    let columns = ColumnSet { bits: &[0xff] };
    let event = Rows {
        kind,
        table_id: 1,
        flags: RowsFlags::STATEMENT_END,
        extra: Some(&[]),
        column_count: map.column_types.len() as u64,
        columns,
        columns_after: (kind == RowsKind::Update).then_some(columns),
        rows,
    };
    let decoder = RowDecoder::new(Arc::clone(&table), &event).unwrap();
    let schema = ChangeSchema::new(&table, Flavour::MySql, UnnamedColumnPolicy::Number).unwrap();
    let mut builder = ChangeBatchBuilder::new(Arc::new(schema));
    let context = ChangeContext {
        gtid: Some("a:1"),
        commit_us: 1_700_000_000_000_000,
        thread_id: Some(9),
        log_name: "binlog.000001",
        log_position: 4,
        first_number: 3,
    };
    builder.append(&decoder, &event, &context, &mut |_| panic!("a small batch"))?;
    builder.finish()
}

fn map<'m>(column_types: &'m [u8], metadata: &'m [u8], optional: &'m [u8]) -> TableMap<'m> {
    TableMap {
        table_id: 1,
        flags: 0,
        database: b"d",
        table: b"t",
        column_types,
        metadata,
        nullable: &[0xff],
        optional,
        flavour: Flavour::MySql,
    }
}

/// Returns the column of the only inserted row, and its exact text.
fn inserted(map: &TableMap<'_>, bytes: &[u8]) -> Option<(ArrayRef, Option<String>)> {
    let batch = batch_of(map, RowsKind::Write, &[&[0], bytes].concat()).ok()?;
    let column = Arc::clone(batch["after"].as_struct().column(0));
    let exact = batch["after_exact"].as_map();
    let text = exact.is_valid(0).then(|| exact.value(0).column(1).as_string::<i32>().value(0).to_owned());
    Some((column, text))
}

#[test]
fn changes_of_all_kinds() {
    let map = map(&[LONG, TINY], &[], &[]);
    let rows = [[0, 1, 0, 0, 0, 5], [2, 2, 0, 0, 0, 0]].concat();
    let batch = batch_of(&map, RowsKind::Update, &rows[..11]).unwrap();
    assert_eq!(batch.num_rows(), 1);
    let operations = batch["operation"].as_dictionary::<Int32Type>();
    assert_eq!(operations.downcast_dict::<StringArray>().unwrap().value(0), "update");
    let before = batch["before"].as_struct();
    assert_eq!(before.column_names(), ["@1", "@2"]);
    assert_eq!(before.column(0).as_primitive::<Int32Type>().value(0), 1);
    let after = batch["after"].as_struct();
    assert_eq!(after.column(0).as_primitive::<Int32Type>().value(0), 2);
    assert!(after.column(1).is_null(0));
    for (kind, missing) in [(RowsKind::Write, "before"), (RowsKind::Delete, "after")] {
        let batch = batch_of(&map, kind, &rows[..6]).unwrap();
        assert!(batch[missing].is_null(0) && batch[missing].as_struct().column(0).is_null(0), "{missing}");
        assert_eq!(batch[missing].as_struct().null_count(), 1);
    }
}

#[test]
fn unsigned_numbers_and_members() {
    // Optional field 1: signedness, one bit for each numeric column.
    let optional = [1, 1, 0x80];
    let (column, _) = inserted(&map(&[LONGLONG], &[], &optional), &[0xff; 8]).unwrap();
    assert_eq!(column.as_primitive::<UInt64Type>().value(0), u64::MAX);
    // Optional field 6: members of an ENUM: their number, then each with its length.
    let optional = [6, 4, 2, 1, b'a', 0];
    let check = |number: u8, expected: &str, exact: Option<&str>| {
        let (column, text) = inserted(&map(&[STRING], &[247, 1], &optional), &[number]).unwrap();
        let texts = column.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
        assert_eq!((texts.value(0), text.as_deref()), (expected, exact));
    };
    check(1, "a", None);
    check(2, "", None);
    // The error value has the same text as a member.
    check(0, "", Some("0"));
    assert!(inserted(&map(&[STRING], &[247, 1], &optional), &[3]).is_none());
}

#[test]
fn texts_with_bytes_that_are_no_characters() {
    // Optional field 2: the default collation, here utf8mb4_0900_ai_ci.
    let map = map(&[VARCHAR], &[9, 0], &[2, 3, 252, 255, 0]);
    let (column, text) = inserted(&map, b"\x03a\xc3\xa9").unwrap();
    assert_eq!((column.as_string::<i32>().value(0), text), ("aé", None));
    let (column, text) = inserted(&map, b"\x02a\xff").unwrap();
    assert_eq!((column.as_string::<i32>().value(0), text.as_deref()), ("a\u{fffd}", Some("0x61FF")));
}

proptest! {
    #[test]
    fn any_date_is_kept(bytes in any::<[u8; 3]>()) {
        let map = map(&[DATE], &[], &[]);
        let table = Table::new(&map).unwrap();
        let expected = text_of(&table, &bytes);
        let (column, exact) = inserted(&map, &bytes).unwrap();
        let days = column.as_primitive::<Date32Type>();
        let found = exact.or_else(|| days.value_as_date(0).map(|date| date.to_string()));
        assert_eq!(found, expected);
    }

    #[test]
    fn any_moment_is_kept(bytes in any::<[u8; 8]>(), is_valid: bool) {
        let mut bytes = bytes;
        // Most random numbers are not microseconds.
        if is_valid {
            bytes[5] = 1;
            bytes[0] |= 0x80;
        }
        let map = map(&[DATETIME2], &[6], &[]);
        let expected = text_of(&Table::new(&map).unwrap(), &bytes);
        let found = inserted(&map, &bytes).map(|(column, exact)| {
            let moments = column.as_primitive::<TimestampMicrosecondType>();
            exact.or_else(|| Some(moments.value_as_datetime(0)?.format("%Y-%m-%d %H:%M:%S%.6f").to_string()))
        });
        assert_eq!(found.flatten(), expected);
    }

    #[test]
    fn any_point_in_time_is_kept(bytes in any::<[u8; 4]>()) {
        let map = map(&[TIMESTAMP2], &[0], &[]);
        let (column, exact) = inserted(&map, &bytes).unwrap();
        let moments = column.as_primitive::<TimestampMicrosecondType>();
        match u32::from_be_bytes(bytes) {
            0 => assert_eq!(exact.as_deref(), Some("0000-00-00 00:00:00")),
            seconds => assert_eq!((exact, moments.value(0)), (None, i64::from(seconds) * 1_000_000)),
        }
    }

    #[test]
    fn any_time_is_kept(bytes in any::<[u8; 3]>()) {
        let map = map(&[TIME2], &[0], &[]);
        let expected = text_of(&Table::new(&map).unwrap(), &bytes);
        let (column, exact) = inserted(&map, &bytes).unwrap();
        let times = column.as_primitive::<Time64MicrosecondType>();
        let found = exact.or_else(|| times.value_as_time(0).map(|time| time.format("%H:%M:%S").to_string()));
        assert_eq!(found, expected);
    }
}

/// Returns the text of a stored value of the table's only column, as the format crate shows it.
fn text_of(table: &Table, bytes: &[u8]) -> Option<String> {
    match table.columns[0].value(bytes).ok()? {
        binlog::Value::Date(date) => Some(date.to_string()),
        binlog::Value::DateTime(moment) => Some(moment.to_string()),
        binlog::Value::Time(time) => Some(time.to_string()),
        _ => None,
    }
}
