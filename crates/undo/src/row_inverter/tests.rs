use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{ChecksumAlgorithm, EventFormat, Flavour, RowDecoder, Table};
use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

use super::RowInverter;
use crate::inverted_rows::InvertedRows;

/// A table with the columns INT, VARCHAR(10) and JSON, each of which may be NULL.
fn map(optional: &[u8]) -> TableMap<'_> {
    TableMap {
        table_id: 7,
        flags: 1,
        database: b"d",
        table: b"t",
        column_types: &[3, 15, 245],
        metadata: &[10, 0, 4],
        nullable: &[7],
        optional,
        flavour: Flavour::MySql,
    }
}

/// Primary key: the first column.
const KEY_IS_FIRST: &[u8] = &[8, 1, 0];
const ALL: &[u8] = &[7];

fn rows<'a>(kind: RowsKind, sets: [&'a [u8]; 2], rows: &'a [u8]) -> Rows<'a> {
    let [columns, after] = sets.map(|bits| ColumnSet { bits });
    Rows {
        kind,
        table_id: 7,
        flags: RowsFlags(RowsFlags::STATEMENT_END.0 | RowsFlags::NO_FOREIGN_KEY_CHECKS.0),
        extra: Some(&[]),
        column_count: 3,
        columns,
        columns_after: kind.has_after().then_some(after),
        rows,
    }
}

fn inverse(optional: &[u8], event: &Rows<'_>) -> Result<InvertedRows, String> {
    let mut inverter = RowInverter::new();
    inverter.register(&map(optional)).unwrap();
    let inverted = inverter.invert(event, &mut |_| Ok(true)).map_err(|error| error.to_string())?;
    inverted.ok_or_else(|| "no rows".to_owned())
}

/// Returns the rows as text: values of an image separated by commas, rows by semicolons.
fn text(event: &Rows<'_>) -> String {
    let decoder = RowDecoder::new(Table::new(&map(&[])).unwrap().into(), event).unwrap();
    let image = |image: &binlog::RowImage<'_, '_>| {
        let values = image.fields().map(|field| match field.bytes() {
            None => "NULL".to_owned(),
            Some([number, 0, 0, 0]) => number.to_string(),
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        });
        values.collect::<Vec<_>>().join(",")
    };
    let rows = decoder.rows(event).map(|row| {
        let row = row.unwrap();
        row.images().map(image).collect::<Vec<_>>().join(">")
    });
    rows.collect::<Vec<_>>().join("; ")
}

/// Returns an image: `NULL`, an INT as digits, or text for a VARCHAR; `\x04\x00` for a JSON null.
fn image(values: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for (index, value) in values.split(',').enumerate() {
        match (value, value.parse::<u8>()) {
            ("NULL", _) => bytes[0] |= 1 << index,
            (_, Ok(number)) => bytes.extend([number, 0, 0, 0]),
            ("null", _) => bytes.extend([2, 0, 0, 0, 4, 0]),
            (text, _) => {
                bytes.push(text.len() as u8);
                bytes.extend(text.bytes());
            }
        }
    }
    bytes
}

fn images(values: &[&str]) -> Vec<u8> {
    values.iter().flat_map(|values| image(values)).collect()
}

fn format() -> EventFormat {
    let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
    EventFormat { server_version, post_header_sizes: vec![10; 42], checksum, flavour: Flavour::MySql }
}

/// `sets` are the column sets, `values` the images in order.
#[track_caller]
fn check(kind: RowsKind, sets: [u8; 2], values: &[&str], expected: Result<(RowsKind, &str), &str>) {
    let (first, second, bytes) = ([sets[0]], [sets[1]], images(values));
    let event = rows(kind, [&first, &second], &bytes);
    let inverted = inverse(&[], &event);
    let shown = inverted.as_ref().map(|inverted| {
        let event = inverted.event(&format());
        assert_eq!(inverted.flags, RowsFlags::NO_FOREIGN_KEY_CHECKS);
        (inverted.kind, text(event.rows().unwrap()))
    });
    let shown = shown.as_ref().map(|(kind, text)| (*kind, text.as_str()));
    assert_eq!(shown.map_err(|error| error.as_str()), expected);
}

#[test]
fn complete_images_are_inverted_in_reverse_order() {
    use RowsKind::{Delete, Update, Write};
    check(Write, [7, 0], &["1,a,NULL", "2,b,NULL"], Ok((Delete, "2,b,NULL; 1,a,NULL")));
    check(Delete, [7, 0], &["1,a,NULL", "2,b,NULL"], Ok((Write, "2,b,NULL; 1,a,NULL")));
    check(
        Update,
        [7, 7],
        &["1,a,NULL", "1,b,NULL", "2,NULL,NULL", "3,c,NULL"],
        Ok((Update, "3,c,NULL>2,NULL,NULL; 1,b,NULL>1,a,NULL")),
    );
    check(Write, [7, 0], &[], Err("no rows"));
}

/// A partial update has a byte before its images, which its inverse does not have.
#[test]
fn rows_without_columns_have_no_inverse() {
    let event = Rows { column_count: 0, ..rows(RowsKind::PartialUpdate, [&[], &[]], &[0]) };
    let mut inverter = RowInverter::new();
    let no_columns = TableMap { column_types: &[], metadata: &[], nullable: &[], ..map(&[]) };
    inverter.register(&no_columns).unwrap();
    assert_eq!(inverter.invert(&event, &mut |_| Ok(true)).unwrap(), None);
}

#[test]
fn incomplete_images_are_used_if_they_suffice() {
    use RowsKind::{Delete, Update, Write};
    // NOBLOB: neither image has the column that did not change.
    check(Update, [3, 3], &["1,a", "1,b"], Ok((Update, "1,b>1,a")));
    // MINIMAL, in a table without a primary key: only the image after lacks columns.
    check(Update, [7, 2], &["1,a,null", "b"], Ok((Update, "1,b,\u{4}\0>1,a,\u{4}\0")));
    check(Update, [7, 2], &["1,a,NULL", "NULL"], Ok((Update, "1,NULL,NULL>1,a,NULL")));
    check(
        Delete,
        [1, 0],
        &["1"],
        Err(
            "d.t: the log lacks values of the deleted rows (@2, @3): the server had binlog_row_image=MINIMAL or NOBLOB",
        ),
    );
    check(
        Update,
        [1, 2],
        &["1", "a"],
        Err(
            "d.t: the log lacks the values before the update (@2): the server had binlog_row_image=MINIMAL or NOBLOB",
        ),
    );
    check(
        Write,
        [3, 0],
        &["1,a"],
        Err(
            "d.t: the inserted rows cannot be identified: the log lacks columns (@3), and without binlog_row_metadata=FULL \
             it does not show which columns are the primary key",
        ),
    );
}

#[test]
fn inserts_are_found_by_a_logged_primary_key() {
    let bytes = image("1,a");
    let event = rows(RowsKind::Write, [&[3], &[]], &bytes);
    assert_eq!(inverse(KEY_IS_FIRST, &event).unwrap().rows, bytes);
    let bytes = image("a");
    let event = rows(RowsKind::Write, [&[2], &[]], &bytes);
    assert!(inverse(KEY_IS_FIRST, &event).is_err());
}

#[test]
fn changes_of_documents_become_documents() {
    // The document `{}`, then the change: `$.a` is inserted with null.
    let before = [&[0b010, 1, 0, 0, 0, 5, 0, 0, 0][..], &[0, 0, 0, 4, 0]].concat();
    let change = [&[1, 3][..], b"$.a", &[2, 4, 0]].concat();
    let size = (change.len() as u32).to_le_bytes();
    let after = [&[1, 1, 0b010, 1, 0, 0, 0][..], &size, &change].concat();
    let bytes = [before.as_slice(), &after].concat();
    let event = rows(RowsKind::PartialUpdate, [ALL, ALL], &bytes);
    let inverted = inverse(&[], &event).unwrap();
    assert_eq!(inverted.kind, RowsKind::Update);
    assert!(inverted.rows.ends_with(&before));
    let decoder =
        RowDecoder::new(Table::new(&map(&[])).unwrap().into(), inverted.event(&format()).rows().unwrap());
    let decoder = decoder.unwrap();
    let event = inverted.event(&format());
    let row = decoder.rows(event.rows().unwrap()).next().unwrap().unwrap();
    let document = row.before.unwrap().field(2).unwrap().bytes().unwrap();
    let mut shown = Vec::new();
    binlog::JsonDocument::new(document).write(binlog::JsonQuotes::Always, &mut shown).unwrap();
    assert_eq!(String::from_utf8(shown).unwrap(), "{\"a\": null}");
}

#[test]
fn rows_are_chosen_one_by_one() {
    let bytes = images(&["1,a,NULL", "2,b,NULL", "3,c,NULL"]);
    let event = rows(RowsKind::Write, [ALL, &[]], &bytes);
    let mut inverter = RowInverter::new();
    inverter.register(&map(&[])).unwrap();
    let mut number = 0;
    let inverted = inverter.invert(&event, &mut |_| {
        number += 1;
        Ok(number != 2)
    });
    let inverted = inverted.unwrap().unwrap();
    assert_eq!(
        (inverted.row_count, text(inverted.event(&format()).rows().unwrap())),
        (2, "3,c,NULL; 1,a,NULL".into())
    );
}

#[test]
fn partitions_are_swapped() {
    let bytes = images(&["1,a,NULL", "2,b,NULL"]);
    let mut event = rows(RowsKind::Update, [ALL, ALL], &bytes);
    event.extra = Some(&[1, 5, 0, 6, 0]);
    assert_eq!(inverse(&[], &event).unwrap().extra, [1, 6, 0, 5, 0]);
    event.extra = Some(&[9]);
    assert_eq!(inverse(&[], &event).unwrap_err(), "d.t: its row events have extra fields of an unknown type");
}

/// Any row: INT, VARCHAR and JSON, which may be NULL.
fn any_image() -> impl Strategy<Value = Vec<u8>> {
    let number = prop::option::of(any::<[u8; 4]>());
    let name = prop::option::of(prop::collection::vec(any::<u8>(), 0..10));
    (number, name, any::<bool>()).prop_map(|(number, name, is_null)| {
        let mut bytes =
            vec![u8::from(number.is_none()) | u8::from(name.is_none()) << 1 | u8::from(is_null) << 2];
        bytes.extend(number.into_iter().flatten());
        if let Some(name) = name {
            bytes.push(name.len() as u8);
            bytes.extend(name);
        }
        if !is_null {
            bytes.extend([2, 0, 0, 0, 4, 0]);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn inverse_of_the_inverse_is_the_change(
        kind in prop_oneof![
            proptest::strategy::Just(RowsKind::Write),
            proptest::strategy::Just(RowsKind::Update),
            proptest::strategy::Just(RowsKind::Delete),
        ],
        pairs in prop::collection::vec((any_image(), any_image()), 1..8),
    ) {
        let bytes: Vec<u8> = pairs.iter().flat_map(|(first, second)| match kind.has_after() {
            true => [first.as_slice(), second].concat(),
            false => first.clone(),
        }).collect();
        let event = rows(kind, [ALL, ALL], &bytes);
        let once = inverse(&[], &event).unwrap();
        let twice = inverse(&[], once.event(&format()).rows().unwrap()).unwrap();
        assert_eq!(twice.kind, kind);
        assert_eq!(twice.rows, bytes);
        assert_eq!(once.row_count, pairs.len() as u64);
    }
}
