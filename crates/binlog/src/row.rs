//! Decoding of rows events.

mod image_decoder;
mod row_decoder;
mod row_image;

pub use self::image_decoder::ImageDecoder;
pub use self::row_decoder::{RowChange, RowDecoder, RowIter};
pub use self::row_image::{FieldIter, RowField, RowImage};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::{any, proptest};

    use super::{RowDecoder, RowField, RowImage};
    use crate::error::DecodeError;
    use crate::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use crate::format::Flavour;
    use crate::table::Table;

    fn table(column_types: &[u8], metadata: &[u8]) -> Arc<Table> {
        let map = TableMap {
            table_id: 7,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types,
            metadata,
            nullable: &[],
            optional: &[],
            flavour: Flavour::MySql,
        };
        Arc::new(Table::new(&map).unwrap())
    }

    /// Returns a table with the columns SMALLINT, VARCHAR(10), JSON, VARCHAR(300) and JSON.
    fn five() -> Arc<Table> {
        table(&[2, 15, 245, 15, 245], &[10, 0, 4, 44, 1, 4])
    }

    fn event<'a>(kind: RowsKind, table: &Table, sets: [&'a [u8]; 2], rows: &'a [u8]) -> Rows<'a> {
        let [columns, after] = sets.map(|bits| ColumnSet { bits });
        let has_after = matches!(kind, RowsKind::Update | RowsKind::PartialUpdate);
        Rows {
            kind,
            table_id: 7,
            flags: RowsFlags::default(),
            extra: None,
            column_count: table.columns.len() as u64,
            columns,
            columns_after: has_after.then_some(after),
            rows,
        }
    }

    fn show_image(image: &RowImage<'_, '_>) -> String {
        let fields = image.fields().map(|field| {
            let content = |field: RowField<'_, '_>| {
                (field.index(), field.bytes().map(<[u8]>::to_vec), field.offset(), field.is_partial())
            };
            assert_eq!(image.field(field.index()).map(content), Some(content(field)));
            let bytes = field.bytes().map_or("NULL".to_owned(), |bytes| format!("{bytes:?}"));
            format!(" {}{}={bytes}", if field.is_partial() { "~" } else { "" }, field.index())
        });
        fields.collect()
    }

    fn show(decoder: &RowDecoder, rows: &Rows<'_>) -> Result<String, DecodeError> {
        let mut shown = Vec::new();
        for row in decoder.rows(rows) {
            let row = row?;
            let images = [("-", row.before), ("+", row.after)];
            let images = images.iter().filter_map(|(sign, image)| Some((sign, image.as_ref()?)));
            let images: Vec<_> = images.map(|(sign, image)| format!("{sign}{}", show_image(image))).collect();
            shown.push(images.join(" "));
        }
        assert_eq!(decoder.count(rows), Ok(shown.len() as u64));
        Ok(shown.join("; "))
    }

    fn check(kind: RowsKind, table: Arc<Table>, sets: [&[u8]; 2], rows: &[u8], expected: &str) {
        let rows = event(kind, &table, sets, rows);
        let shown = RowDecoder::new(table, &rows).and_then(|decoder| {
            assert!(decoder.fits(&rows));
            show(&decoder, &rows)
        });
        assert_eq!(shown.unwrap_or_else(|error| error.to_string()), expected, "{rows:?}");
    }

    fn write(set: u8, rows: &[u8], expected: &str) {
        check(RowsKind::Write, five(), [&[set], &[]], rows, expected);
    }

    #[test]
    fn present_columns() {
        write(0b00001, &[0, 1, 2, 0, 3, 4], "+ 0=[1, 2]; + 0=[3, 4]");
        write(0b00011, &[0, 1, 2, 1, 9], "+ 0=[1, 2] 1=[9]");
        write(0b01010, &[0, 0, 3, 0, 7, 8, 9], "+ 1=[] 3=[7, 8, 9]");
        write(0b00100, &[0, 1, 0, 0, 0, 5], "+ 2=[5]");
        // Bits after the table's columns are ignored.
        write(0b1110_0001, &[0, 1, 2], "+ 0=[1, 2]");
    }

    #[test]
    fn nulls() {
        write(0b00011, &[0b01, 1, 9, 0b10, 1, 2, 0b11], "+ 0=NULL 1=[9]; + 0=[1, 2] 1=NULL; + 0=NULL 1=NULL");
        // Servers may set the bits after the last column.
        write(0b00011, &[0b1111_1100, 1, 2, 0], "+ 0=[1, 2] 1=[]");
        write(0b00011, &[0b1111_1111], "+ 0=NULL 1=NULL");
        let many = table(&[1; 70], &[]);
        let mut row = vec![0; 9];
        row[8] = 0b1110_0000;
        row[0] = 1;
        row.extend(1..69);
        let set = [0xff; 9];
        let rows = event(RowsKind::Delete, &many, [&set, &[]], &row);
        let decoder = RowDecoder::new(many.clone(), &rows).unwrap();
        let row = decoder.rows(&rows).next().unwrap().unwrap();
        let nulls: Vec<_> =
            row.before.unwrap().fields().map(|field| field.bytes().map(|bytes| bytes[0])).collect();
        assert_eq!(nulls.len(), 70);
        assert_eq!((nulls[0], nulls[1], nulls[68], nulls[69]), (None, Some(1), Some(68), None));
    }

    #[test]
    fn both_images() {
        let update = |sets, rows: &[u8], expected| check(RowsKind::Update, five(), sets, rows, expected);
        update([&[1], &[2]], &[0, 1, 2, 0, 1, 9], "- 0=[1, 2] + 1=[9]");
        update([&[1], &[0]], &[0, 1, 2, 0, 3, 4], "- 0=[1, 2] +; - 0=[3, 4] +");
        update([&[0], &[1]], &[0, 1, 2], "- + 0=[1, 2]");
        update([&[1], &[2]], &[0, 1, 2], "byte 33: expected 1 more bytes, found 0");
    }

    #[test]
    fn changes_of_documents() {
        let partial = |rows: &[u8], expected| {
            check(RowsKind::PartialUpdate, five(), [&[1], &[0b10101]], rows, expected)
        };
        let before = [0, 1, 2];
        let with = |after: &[u8]| [&before[..], after].concat();
        partial(&with(&[0, 0, 3, 4, 0, 0, 0, 0, 1, 0, 0, 0, 6]), "- 0=[1, 2] + 0=[3, 4] 2=[] 4=[6]");
        partial(&with(&[1, 0b10, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]), "- 0=[1, 2] + 0=[3, 4] 2=[] ~4=[]");
        partial(&with(&[1, 0b11, 0b100, 3, 4, 0, 0, 0, 0]), "- 0=[1, 2] + 0=[3, 4] ~2=[] ~4=NULL");
        partial(&with(&[2]), "byte 33: options of a row is 2, expected at most 1");
        partial(&with(&[1]), "byte 34: expected 1 more bytes, found 0");
        // The first JSON column is not in the image, but has a bit.
        check(
            RowsKind::PartialUpdate,
            five(),
            [&[1], &[0b10000]],
            &with(&[1, 0b10, 0, 0, 0, 0, 0]),
            "- 0=[1, 2] + ~4=[]",
        );
    }

    #[test]
    fn rows_without_bytes() {
        let none = || table(&[], &[]);
        check(RowsKind::Write, none(), [&[], &[]], &[], "");
        check(
            RowsKind::Delete,
            none(),
            [&[], &[]],
            &[1, 2],
            "byte 28: expected the end, found 2 extra bytes",
        );
        // An INSERT with only default values.
        write(0, &[], "+");
        write(0, &[7], "byte 29: expected the end, found 1 extra bytes");
        check(RowsKind::Delete, five(), [&[0], &[]], &[], "");
        check(RowsKind::Update, five(), [&[0], &[0]], &[], "");
        write(1, &[], "");
    }

    #[test]
    fn incomplete_rows() {
        write(0b00001, &[0, 1, 2, 0, 3], "byte 33: expected 2 more bytes, found 1");
        write(0b00011, &[0, 1, 2, 5, 6], "byte 33: expected 5 more bytes, found 1");
        write(0b00010, &[0], "byte 30: expected 1 more bytes, found 0");
        write(0b01000, &[0, 1], "byte 30: expected 2 more bytes, found 1");
        write(0b00100, &[0, 255, 255, 255, 255, 1], "byte 34: expected 4294967295 more bytes, found 1");
    }

    #[test]
    fn events_that_do_not_match_the_table() {
        let table = five();
        let rows = event(RowsKind::Write, &table, [&[1], &[]], &[]);
        let wrong = Rows { column_count: 6, ..rows };
        let error = RowDecoder::new(table.clone(), &wrong).unwrap_err().to_string();
        assert_eq!(error, "byte 27: column count is 6, expected 5");
        let decoder = RowDecoder::new(table.clone(), &rows).unwrap();
        assert!(!decoder.fits(&event(RowsKind::Write, &table, [&[3], &[]], &[])));
        assert!(!decoder.fits(&event(RowsKind::Delete, &table, [&[1], &[]], &[])));
        assert!(!decoder.fits(&event(RowsKind::Update, &table, [&[1], &[1]], &[])));
        // A column of unknown size may be in the table, but not in the image.
        let unknown = self::table(&[2, 200], &[]);
        check(RowsKind::Write, unknown.clone(), [&[1], &[]], &[0, 1, 2], "+ 0=[1, 2]");
        let expected = "byte 27: column type is 200, expected a type of known size";
        check(RowsKind::Write, unknown, [&[3], &[]], &[0, 1, 2], expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_rows_or_an_error(
            types: Vec<u8>, metadata: Vec<u8>, bytes: Vec<u8>, set: [u8; 16], after: [u8; 16], kind in 0_usize..4,
            nulls in any::<bool>(),
        ) {
            let kind = [RowsKind::Write, RowsKind::Update, RowsKind::Delete, RowsKind::PartialUpdate][kind];
            // Mostly codes without metadata.
            let types: Vec<u8> = types.iter().map(|code| if code % 8 == 0 { *code } else { code % 4 }).collect();
            let map = TableMap {
                table_id: 7, flags: 1, database: b"d", table: b"t", column_types: &types, metadata: &metadata,
                nullable: if nulls { &[0xff] } else { &[] }, optional: &[], flavour: Flavour::MySql,
            };
            if let Ok(table) = Table::new(&map) {
                let table = Arc::new(table);
                let rows = event(kind, &table, [&set, &after], &bytes);
                if let Ok(decoder) = RowDecoder::new(table, &rows) {
                    for row in decoder.rows(&rows).flatten() {
                        for field in row.images().flat_map(RowImage::fields) {
                            let _ = field.value();
                            let _ = row.document_after(field.index());
                        }
                    }
                    let read = decoder.rows(&rows).filter(Result::is_ok).count() as u64;
                    match decoder.count(&rows) {
                        Ok(count) => assert_eq!(count, read),
                        Err(error) => assert_eq!(decoder.rows(&rows).last().unwrap().unwrap_err(), error),
                    }
                }
            }
        }
    }
}
