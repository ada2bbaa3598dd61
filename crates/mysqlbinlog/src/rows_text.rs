//! Rows as pseudo-SQL: the text of `mysqlbinlog -v` after each `BINLOG` statement.
//!
//! ```text
//! ### UPDATE `shop`.`orders`
//! ### WHERE
//! ###   @1=7 /* INT meta=0 nullable=0 is_null=0 */
//! ### SET
//! ###   @1=8 /* INT meta=0 nullable=0 is_null=0 */
//! ```

use binlog::events::{ColumnSet, Rows, RowsKind};
use binlog::{Column, Cursor, Table};
use sql::numbers::{put_u32, put_u64};
use sql::quote;

use crate::event_text::put;
use crate::json_text;
use crate::quote::put_hex;
use crate::unwritable_value::UnwritableValue;
use crate::value_text::{ValueShape, put_bits_truncated, put_type, put_unknown, take_sized};

/// Comments after values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeComments {
    /// None: `-v`.
    Hidden,
    /// The value's type: `-vv`.
    Shown,
}

/// The text that all rows of a table share, created once per table map.
#[derive(Clone, Debug)]
pub(crate) struct TableText {
    /// Database and table in backticks.
    name: Box<[u8]>,
    /// Database and table in backticks, without doubling backticks inside them.
    name_plain: Box<[u8]>,
    columns: Box<[ColumnText]>,
}

impl TableText {
    /// Prepares the text that all rows share.
    pub(crate) fn new(table: &Table, types: TypeComments) -> Self {
        let mut name = Vec::with_capacity(table.database.len() + table.name.len() + 5);
        let (database, table_name) = (until_nul(&table.database), until_nul(&table.name));
        quote::put_name(&mut name, database);
        name.push(b'.');
        quote::put_name(&mut name, table_name);
        let columns =
            table.columns.iter().zip(1..).map(|(column, number)| ColumnText::new(column, number, types));
        let name_plain = [b"`", database, b"`.`", table_name, b"`"].concat();
        Self { name: name.into(), name_plain: name_plain.into(), columns: columns.collect() }
    }
}

/// Returns the name before the first zero byte: mysqlbinlog reads names as C strings.
fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Appends all rows of an event. `table` is the table of its table id, if known.
///
/// Like mysqlbinlog, reports an error in the text, and then omits the rest of the event.
pub(crate) fn put_rows(out: &mut Vec<u8>, table: Option<&TableText>, rows: &Rows<'_>) {
    put_extra(out, rows);
    match table {
        Some(table) if rows.kind == RowsKind::Write && rows.rows.is_empty() => {
            out.extend_from_slice(b"### INSERT INTO ");
            out.extend_from_slice(&table.name_plain);
            out.extend_from_slice(b" VALUES ()\n");
        }
        // The error is in the text already.
        Some(table) => {
            let _: Result<(), UnwritableValue> = put_table_rows(out, table, rows);
        }
        None => {
            out.extend_from_slice(b"### Row event for unknown table #");
            put_u64(out, rows.table_id);
        }
    }
}

const SET: &[u8] = b"### SET\n";
const WHERE: &[u8] = b"### WHERE\n";

fn put_table_rows(out: &mut Vec<u8>, table: &TableText, rows: &Rows<'_>) -> Result<(), UnwritableValue> {
    let (command, clause): (&[u8], &[u8]) = match rows.kind {
        RowsKind::Write => (b"### INSERT INTO ", SET),
        RowsKind::Delete => (b"### DELETE FROM ", WHERE),
        RowsKind::Update | RowsKind::PartialUpdate => (b"### UPDATE ", WHERE),
    };
    let mut rest = rows.rows;
    while !rest.is_empty() {
        put(out, &[command, &table.name, b"\n"]);
        rest = put_image(out, table, clause, rows.columns, rest)?;
        if let Some(columns) = rows.columns_after {
            rest = match rows.kind {
                RowsKind::PartialUpdate => put_image_partial(out, table, columns, rest)?,
                _ => put_image(out, table, SET, columns, rest)?,
            };
        }
    }
    Ok(())
}

/// Appends one image, a line per column. Returns the bytes after it.
fn put_image<'a>(
    out: &mut Vec<u8>,
    table: &TableText,
    clause: &[u8],
    columns: ColumnSet<'_>,
    bytes: &'a [u8],
) -> Result<&'a [u8], UnwritableValue> {
    let (mut nulls, mut rest) = BitReader::of_columns(out, columns, table, bytes)?;
    out.extend_from_slice(clause);
    for (index, column) in table.columns.iter().enumerate() {
        if columns.contains(index) {
            rest = column.put(out, nulls.next(), rest)?;
        }
    }
    require_progress(bytes, rest)
}

/// Appends the image after a partial update, where JSON columns may have changes instead of a document.
// size  field
//    *  options: lenenc; bit 0: the next field is there
//    *  partial: a bit for every JSON column of the table, low bit first
//    *  the image
fn put_image_partial<'a>(
    out: &mut Vec<u8>,
    table: &TableText,
    columns: ColumnSet<'_>,
    bytes: &'a [u8],
) -> Result<&'a [u8], UnwritableValue> {
    let mut cursor = Cursor::new(bytes);
    let json_count = table.columns.iter().filter(|column| column.shape.is_json()).count();
    let Ok(options) = cursor.lenenc() else {
        const UNREADABLE: &[u8] =
            b"*** Error reading binlog_row_value_options from Partial_update_rows_log_event\n";
        out.extend_from_slice(UNREADABLE);
        return Err(UnwritableValue);
    };
    let size = if options & 1 == 1 { json_count.div_ceil(8) } else { 0 };
    let left = cursor.rest().len();
    let partial =
        cursor.bytes(size).map_err(|_| put_bits_truncated(out, "partial update bitmap", size, left))?;
    let mut partial = BitReader { bytes: partial, next: 0 };
    let (mut nulls, mut rest) = BitReader::of_columns(out, columns, table, cursor.rest())?;
    out.extend_from_slice(SET);
    for (index, column) in table.columns.iter().enumerate() {
        // The bits also count JSON columns that are not in the image.
        let is_partial = column.shape.is_json() && partial.next();
        if !columns.contains(index) {
            continue;
        }
        let is_null = nulls.next();
        rest = match is_partial && !is_null {
            true => column.put_changes(out, index + 1, rest)?,
            false => column.put(out, is_null, rest)?,
        };
    }
    require_progress(bytes, rest)
}

/// Ends the event at an image without any bytes, which would repeat without end.
fn require_progress<'a>(bytes: &[u8], rest: &'a [u8]) -> Result<&'a [u8], UnwritableValue> {
    if rest.len() == bytes.len() { Err(UnwritableValue) } else { Ok(rest) }
}

/// Bits in order, lowest bit first. After the last one, zeros follow.
struct BitReader<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl<'a> BitReader<'a> {
    /// Reads an image's NULL bits. Returns the bytes after them.
    fn of_columns(
        out: &mut Vec<u8>,
        columns: ColumnSet<'_>,
        table: &TableText,
        bytes: &'a [u8],
    ) -> Result<(Self, &'a [u8]), UnwritableValue> {
        let count = (0..table.columns.len()).filter(|index| columns.contains(*index)).count();
        let size = count.div_ceil(8);
        match bytes.split_at_checked(size) {
            Some((bytes, rest)) => Ok((Self { bytes, next: 0 }, rest)),
            None => Err(put_bits_truncated(out, "NULL bitmap", size, bytes.len())),
        }
    }

    #[inline]
    fn next(&mut self) -> bool {
        let bit = self.bytes.get(self.next / 8).is_some_and(|byte| byte >> (self.next % 8) & 1 == 1);
        self.next += 1;
        bit
    }
}

/// The text of a column that is the same in all rows.
#[derive(Clone, Debug)]
struct ColumnText {
    /// `###   @1=`
    front: InlineText<24>,
    /// ` /* INT meta=0 nullable=1 is_null=0 */` and a newline.
    back: InlineText<64>,
    /// The same after `NULL`.
    null: InlineText<64>,
    shape: ValueShape,
    /// The column, if mysqlbinlog cannot write its type.
    unknown: Option<Box<Column>>,
}

impl ColumnText {
    fn new(column: &Column, number: u32, types: TypeComments) -> Self {
        let mut front = b"###   @".to_vec();
        put_u32(&mut front, number);
        front.push(b'=');
        let back = |is_null| {
            let mut back = if is_null { b"NULL".to_vec() } else { Vec::new() };
            if types == TypeComments::Shown {
                put_comment(&mut back, column, is_null);
            }
            back.push(b'\n');
            back
        };
        let shape = ValueShape::of(column);
        Self {
            front: InlineText::new(&front),
            back: InlineText::new(&back(false)),
            null: InlineText::new(&back(true)),
            shape,
            unknown: if shape.is_known() { None } else { Some(Box::new(column.clone())) },
        }
    }

    #[inline]
    fn put<'a>(
        &self,
        out: &mut Vec<u8>,
        is_null: bool,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], UnwritableValue> {
        self.front.put(out);
        if let Some(unknown) = &self.unknown {
            return Err(put_unknown(out, unknown, is_null, bytes));
        }
        if is_null {
            self.null.put(out);
            return Ok(bytes);
        }
        let rest = self.shape.put(out, bytes)?;
        self.back.put(out);
        Ok(rest)
    }

    fn put_changes<'a>(
        &self,
        out: &mut Vec<u8>,
        number: usize,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], UnwritableValue> {
        self.front.put(out);
        let (changes, rest) = take_sized(out, bytes, 4)?;
        json_text::put_changes(out, changes, number);
        self.back.put(out);
        Ok(rest)
    }
}

/// Appends ` /* INT meta=0 nullable=1 is_null=0 */`.
fn put_comment(out: &mut Vec<u8>, column: &Column, is_null: bool) {
    out.extend_from_slice(b" /* ");
    put_type(out, column);
    out.extend_from_slice(b" meta=");
    put_u32(out, column.metadata);
    out.extend_from_slice(if column.nullable { b" nullable=1" } else { b" nullable=0" });
    out.extend_from_slice(if is_null { b" is_null=1 */" } else { b" is_null=0 */" });
}

/// A short text of up to `N` bytes. It is appended without a loop: all `N` bytes are copied, then the unused ones cut
/// off.
#[derive(Clone, Debug)]
struct InlineText<const N: usize> {
    bytes: [u8; N],
    size: usize,
}

impl<const N: usize> InlineText<N> {
    fn new(text: &[u8]) -> Self {
        assert!(text.len() <= N, "longer than any type's comment: {text:?}");
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text);
        Self { bytes, size: text.len() }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.size;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// Appends the extra fields of a version 2 event, one line each. Stops at an unknown field.
// size  field
//    1  type: 0 NDB, 1 partitions
//    1  NDB: size of data with these two bytes, format, data
//    2  partitions: partition; updates: then the partition that the row came from
fn put_extra(out: &mut Vec<u8>, rows: &Rows<'_>) {
    let mut cursor = Cursor::new(rows.extra.unwrap_or_default());
    let is_update = rows.columns_after.is_some();
    let mut ndb = None;
    let mut partition = None;
    while let Ok(field) = cursor.u8() {
        match field {
            0 => ndb = take_ndb(&mut cursor),
            1 if is_update => {
                partition = cursor.u16().and_then(|target| Ok((target, Some(cursor.u16()?)))).ok()
            }
            1 => partition = cursor.u16().map(|partition| (partition, None)).ok(),
            _ => break,
        }
    }
    if let Some((format, data)) = ndb {
        out.extend_from_slice(b"### Extra row ndb info: data_format: ");
        put_u32(out, u32::from(format));
        out.extend_from_slice(b", len: ");
        put_u64(out, data.len() as u64);
        if !data.is_empty() {
            out.extend_from_slice(b", data: 0x");
            let start = out.len();
            put_hex(out, data);
            out[start..].make_ascii_uppercase();
        }
        out.push(b'\n');
    }
    if let Some((target, source)) = partition {
        out.extend_from_slice(b"### Extra row info for partitioning: ");
        if let Some(source) = source {
            out.extend_from_slice(b"source_partition: ");
            put_u32(out, u32::from(source));
            out.extend_from_slice(b" target_");
        }
        out.extend_from_slice(b"partition: ");
        put_u32(out, u32::from(target));
        out.push(b'\n');
    }
}

/// Returns format and data of an NDB field.
fn take_ndb<'a>(cursor: &mut Cursor<'a>) -> Option<(u8, &'a [u8])> {
    let size = cursor.u8().ok()?;
    let format = cursor.u8().ok()?;
    let data = cursor.bytes(usize::from(size.checked_sub(2)?)).ok()?;
    Some((format, data))
}

#[cfg(test)]
mod tests {
    use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use binlog::{Flavour, Table};

    use super::{TableText, TypeComments, put_rows};

    #[test]
    fn numbers() {
        check(1, "", "7f", "127 /* TINYINT meta=0");
        check(1, "", "ff", "-1 (255) /* TINYINT meta=0");
        check(2, "", "0080", "-32768 (32768) /* SHORTINT meta=0");
        check(9, "", "ffffff", "-1 (16777215) /* MEDIUMINT meta=0");
        check(9, "", "ffff7f", "8388607 /* MEDIUMINT meta=0");
        check(3, "", "00000080", "-2147483648 (2147483648) /* INT meta=0");
        check(8, "", "ffffffffffffffff", "-1 (18446744073709551615) /* LONGINT meta=0");
        check(4, "04", "0000c03f", "1.5                  /* FLOAT meta=4");
        check(4, "04", "eee36c00", "1e-38                /* FLOAT meta=4");
        check(5, "08", "9a9999999999b93f", "0.10000000000000000555 /* DOUBLE meta=8");
        check(246, "0503", "80000a", "0.010 /* DECIMAL(5,3) meta=1283");
        check(246, "0503", "75fe0b", "-10.500 /* DECIMAL(5,3) meta=1283");
        check(246, "0101", "8b", "0 /* DECIMAL(1,1) meta=257");
        check(13, "", "00", "1900 /* YEAR meta=0");
        check(13, "", "7e", "2026 /* YEAR meta=0");
    }

    #[test]
    fn dates_and_times() {
        check(10, "", "22d40f", "'2026:01:02' /* DATE meta=0");
        check(14, "", "000000", "'0000:00:00' /* DATE meta=0");
        check(7, "", "01000000", "1 /* TIMESTAMP meta=0");
        check(12, "", "45442f2c6d120000", "2026-01-02 03:04:05 /* DATETIME meta=0");
        check(11, "", "e1ff0c", "'85:19:37' /* TIME meta=0");
        check(17, "00", "695735a5", "1767323045 /* TIMESTAMP(0) meta=0");
        check(17, "03", "695735a51a7c", "1767323045.678 /* TIMESTAMP(3) meta=3");
        check(17, "06", "695735a50a5c00", "1767323045.678912 /* TIMESTAMP(6) meta=6");
        check(18, "00", "8000000000", "'0000-00-00 00:00:00' /* DATETIME(0) meta=0");
        check(18, "02", "99b8c4310543", "'2026-01-02 03:04:05.67' /* DATETIME(2) meta=2");
        check(19, "00", "7fffff", "'-00:00:01' /* TIME(0) meta=0");
        check(19, "01", "7ffffff6", "'-00:00:00.1' /* TIME(1) meta=1");
        check(19, "06", "80108300fa3f", "'01:02:03.064063' /* TIME(6) meta=6");
    }

    #[test]
    fn strings() {
        check(15, "5000", "03616263", "'abc' /* VARSTRING(80) meta=80");
        check(15, "2c01", "0300616263", "'abc' /* VARSTRING(300) meta=300");
        check(254, "fe28", "0469742773", "'it\\'s' /* STRING(40) meta=65064");
        check(254, "eefc", "010061", "'a' /* STRING(508) meta=61180");
        check(252, "01", "020a5c", "'\\n\\\\' /* TINYBLOB/TINYTEXT meta=1");
        check(252, "02", "010061", "'a' /* BLOB/TEXT meta=2");
        check(252, "03", "01000061", "'a' /* MEDIUMBLOB/MEDIUMTEXT meta=3");
        check(252, "04", "0100000061", "'a' /* LONGBLOB/LONGTEXT meta=4");
    }

    #[test]
    fn other_types() {
        check(16, "0101", "01ff", "b'111111111' /* BIT(9) meta=257");
        check(16, "0100", "01", "b'1' /* BIT(1) meta=1");
        check(254, "f701", "03", "3 /* ENUM(1 byte) meta=63233");
        check(254, "f702", "2c01", "300 /* ENUM(2 bytes) meta=63234");
        check(254, "f802", "0101", "b'0000000100000001' /* SET(2 bytes) meta=63490");
        check(242, "04", "080000000000c0bf00000000", "[-1.50000e+00,0.00000e+00] /* VECTOR(0) meta=4");
        check(245, "04", "0200000004 01", "'true' /* JSON meta=4");
    }

    #[test]
    fn what_cannot_be_written_ends_the_event() {
        let geometry = "!! Don't know how to handle column type=255 meta=4 (0004)\n";
        check_whole(255, "04", "0000000000", &format!("###   @1={geometry}"));
        check_whole(255, "04", "01", &format!("###   @1={geometry}"));
        let truncated =
            "***Corrupted replication event was detected: field data is truncated; there are only";
        let left = "bytes left of the event. Not printing the value***\n";
        check_whole(3, "", "000102", &format!("###   @1={truncated} 2 {left}"));
        check_whole(15, "5000", "000561", &format!("###   @1={truncated} 2 {left}"));
        check_whole(255, "04", "0009000000", &format!("###   @1={truncated} 4 {left}"));
    }

    #[test]
    fn truncated_rows() {
        let rows = rows(RowsKind::Delete, &[0, 1, 2]);
        let short = Rows { rows: &[], columns_after: Some(BOTH), ..rows };
        check_rows(&Rows { kind: RowsKind::Update, ..short }, TypeComments::Hidden, "");
        let expected = "### UPDATE `d``b`.`t`\n### WHERE\n###   @1=1\n###   @2=2\n\
                      ***Corrupted replication event was detected: NULL bitmap size is set to 1, but there are \
                      only 0 bytes left of the event. Not printing the value***\n";
        let update = Rows { kind: RowsKind::Update, columns_after: Some(BOTH), ..rows };
        check_rows(&update, TypeComments::Hidden, expected);
        let expected = "### UPDATE `d``b`.`t`\n### WHERE\n###   @1=1\n###   @2=2\n\
                      *** Error reading binlog_row_value_options from Partial_update_rows_log_event\n";
        check_rows(&Rows { kind: RowsKind::PartialUpdate, ..update }, TypeComments::Hidden, expected);
    }

    #[test]
    fn null_has_a_type() {
        check_whole(3, "", "01", "###   @1=NULL /* INT meta=0 nullable=1 is_null=1 */\n");
    }

    #[test]
    fn kinds_of_change() {
        let rows = Rows { columns_after: Some(BOTH), ..rows(RowsKind::Update, &[0, 1, 2, 0, 3, 4]) };
        let expected =
            "### UPDATE `d``b`.`t`\n### WHERE\n###   @1=1\n###   @2=2\n### SET\n###   @1=3\n###   @2=4\n";
        check_rows(&rows, TypeComments::Hidden, expected);
        let rows = self::rows(RowsKind::Delete, &[2, 1, 0, 3, 4]);
        let expected = "### DELETE FROM `d``b`.`t`\n### WHERE\n###   @1=1\n###   @2=NULL\n\
                      ### DELETE FROM `d``b`.`t`\n### WHERE\n###   @1=3\n###   @2=4\n";
        check_rows(&rows, TypeComments::Hidden, expected);
        let rows = self::rows(RowsKind::Write, &[]);
        check_rows(&rows, TypeComments::Hidden, "### INSERT INTO `d`b`.`t` VALUES ()\n");
        let second = ColumnSet { bits: &[2] };
        let rows = Rows { columns: second, ..self::rows(RowsKind::Write, &[0, 4]) };
        check_rows(&rows, TypeComments::Hidden, "### INSERT INTO `d``b`.`t`\n### SET\n###   @2=4\n");
    }

    #[test]
    fn an_image_of_nothing_ends_the_event() {
        let none = ColumnSet { bits: &[0] };
        let rows = Rows { columns_after: Some(none), ..rows(RowsKind::Update, &[0, 1, 2, 0, 3, 4]) };
        let expected = "### UPDATE `d``b`.`t`\n### WHERE\n###   @1=1\n###   @2=2\n### SET\n";
        check_rows(&rows, TypeComments::Hidden, expected);
    }

    #[test]
    fn extra_fields() {
        let row = "### INSERT INTO `d``b`.`t`\n### SET\n###   @1=1\n###   @2=2\n";
        let rows = Rows { extra: Some(&[1, 3, 0]), ..rows(RowsKind::Write, &[0, 1, 2]) };
        let partition = "### Extra row info for partitioning: partition: 3\n";
        check_rows(&rows, TypeComments::Hidden, &format!("{partition}{row}"));
        let rows = Rows { extra: Some(&[0, 4, 1, 0xab, 0x01]), ..rows };
        let ndb = "### Extra row ndb info: data_format: 1, len: 2, data: 0xAB01\n";
        check_rows(&rows, TypeComments::Hidden, &format!("{ndb}{row}"));
    }

    #[test]
    fn an_unknown_table() {
        let mut out = Vec::new();
        put_rows(&mut out, None, &rows(RowsKind::Write, &[0, 1, 2]));
        assert_eq!(out, b"### Row event for unknown table #71");
    }

    const BOTH: ColumnSet<'_> = ColumnSet { bits: &[3] };

    /// Returns rows of a table with two columns.
    fn rows(kind: RowsKind, rows: &[u8]) -> Rows<'_> {
        Rows {
            kind,
            table_id: 71,
            flags: RowsFlags::STATEMENT_END,
            extra: None,
            column_count: 2,
            columns: BOTH,
            columns_after: None,
            rows,
        }
    }

    #[track_caller]
    fn check_rows(rows: &Rows<'_>, types: TypeComments, expected: &str) {
        assert_text(&[1, 1], &[], rows, types, expected);
    }

    /// Checks one value that is not NULL.
    #[track_caller]
    fn check(type_code: u8, metadata: &str, value: &str, expected: &str) {
        let expected = format!("###   @1={expected} nullable=1 is_null=0 */\n");
        check_whole(type_code, metadata, &format!("00{value}"), &expected);
    }

    /// Checks one row with one column.
    #[track_caller]
    fn check_whole(type_code: u8, metadata: &str, row: &str, expected: &str) {
        let row = bytes(row);
        let rows = Rows { columns: ColumnSet { bits: &[1] }, column_count: 1, ..rows(RowsKind::Write, &row) };
        let expected = format!("### INSERT INTO `d``b`.`t`\n### SET\n{expected}");
        assert_text(&[type_code], &bytes(metadata), &rows, TypeComments::Shown, &expected);
    }

    #[track_caller]
    fn assert_text(types: &[u8], metadata: &[u8], rows: &Rows<'_>, shown: TypeComments, expected: &str) {
        let map = TableMap {
            table_id: 71,
            flags: 1,
            database: b"d`b",
            table: b"t",
            column_types: types,
            metadata,
            nullable: &[3],
            optional: &[],
            flavour: Flavour::MySql,
        };
        let table = TableText::new(&Table::new(&map).unwrap(), shown);
        let mut out = Vec::new();
        put_rows(&mut out, Some(&table), rows);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len())
            .step_by(2)
            .map(|offset| u8::from_str_radix(&digits[offset..offset + 2], 16).unwrap())
            .collect()
    }
}
