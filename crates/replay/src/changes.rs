//! Row changes as values: for targets that make changes of their own from them, statements say, and do not take the
//! events as they are.

use std::borrow::Cow;

use binlog::events::{Rows, RowsFlags, RowsKind};
use binlog::{
    Charset, Collation, Column, DecodeError, Event, Field, Flavour, Format, Row, RowDecoder, Table, Tables,
};

use crate::error::Failure;
use crate::work::RowEvents;

/// Goes over row events, event by event, and remembers their tables: a map that says the same as before costs a
/// comparison.
#[derive(Debug, Default)]
pub struct RowReader {
    tables: Tables,
}

/// The rows of one event.
#[derive(Clone, Copy, Debug)]
pub struct EventRows<'a> {
    /// The table, as the log describes it.
    pub table: &'a Table,
    /// What was done to the rows.
    pub kind: RowsKind,
    /// Under which checks it was done, and who carries out foreign keys.
    pub flags: RowsFlags,
    /// Hidden columns in the table map.
    hidden: HiddenColumns,
    event: &'a Rows<'a>,
    decoder: &'a RowDecoder,
}

/// Hidden columns of functional indexes in a log's table maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenColumns {
    /// There may be some behind the others: [`Format::shows_hidden_columns`].
    Shown,
    /// There are none.
    LeftOut,
}

impl HiddenColumns {
    /// Returns those of the table maps in this format.
    pub fn of(format: &Format) -> Self {
        if format.shows_hidden_columns() { Self::Shown } else { Self::LeftOut }
    }
}

impl RowReader {
    /// Without any table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands on each event that has rows, in order.
    ///
    /// # Errors
    ///
    /// When an event cannot be read, or is not taken.
    pub fn read(
        &mut self,
        events: &RowEvents,
        take: &mut dyn FnMut(&EventRows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let hidden = HiddenColumns::of(&events.format);
        for raw in events.events() {
            let event = raw.decode(&events.format)?;
            if let Event::TableMap(map) = &event {
                self.tables.map(map)?;
            }
            let Some(rows) = event.rows() else { continue };
            if rows.column_count == 0 {
                continue; // It does nothing but end a statement.
            }
            let decoder = self.tables.decoder(rows)?;
            let Some(image) = decoder.before().or(decoder.after()) else { continue };
            let table = image.table();
            let (kind, flags) = (rows.kind, rows.flags);
            take(&EventRows { table, kind, flags, hidden, event: rows, decoder: &decoder })?;
        }
        Ok(())
    }
}

impl<'a> EventRows<'a> {
    /// The rows, one by one. A column's value after a change is the one in the image after it, or, where that leaves
    /// the column out, what it was.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row<'a, 'a>, DecodeError>> + use<'a> {
        self.decoder.rows(self.event)
    }

    /// Appends what is the same for all events of this kind that have these columns of this table: a key to remember
    /// by how they are applied.
    pub fn put_shape(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.event.table_id.to_le_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(self.event.columns.bits);
        out.extend_from_slice(self.event.columns_after.map_or(&[], |columns| columns.bits));
        out.extend_from_slice(&self.table.database);
        out.push(0);
        out.extend_from_slice(&self.table.name);
    }

    /// Returns the columns that a table of `count` columns has of those that the log shows: all, but for the hidden ones of
    /// functional indexes. `None` if the table has another number of columns.
    pub fn columns_of(&self, count: usize) -> Option<&'a [Column]> {
        let columns = &self.table.columns;
        let is_hidden = |column| !self.has_before(column) && !self.has_after(column);
        let is_rest_hidden = || self.hidden == HiddenColumns::Shown && (count..columns.len()).all(is_hidden);
        (columns.len() == count || columns.len() > count && is_rest_hidden()).then(|| &columns[..count])
    }

    /// Do images from before the change have this column?
    pub fn has_before(&self, column: usize) -> bool {
        self.kind != RowsKind::Write && self.event.columns.contains(column)
    }

    /// Do images from after the change have this column?
    pub fn has_after(&self, column: usize) -> bool {
        match self.kind {
            RowsKind::Write => self.event.columns.contains(column),
            _ => self.event.columns_after.is_some_and(|columns| columns.contains(column)),
        }
    }

    /// The columns that images from before the change have, in order.
    pub fn columns_before(&self) -> impl Iterator<Item = usize> {
        (0..self.table.columns.len()).filter(|column| self.has_before(*column))
    }

    /// The columns that images from after the change have, in order.
    pub fn columns_after(&self) -> impl Iterator<Item = usize> {
        (0..self.table.columns.len()).filter(|column| self.has_after(*column))
    }

    /// The columns that find a row on a target: the first of these keys that images from before the change have all
    /// columns of, else every column that they have.
    pub fn columns_to_find<'k>(&self, keys: impl IntoIterator<Item = &'k [usize]>) -> Finder {
        let known = |key: &&[usize]| !key.is_empty() && key.iter().all(|column| self.has_before(*column));
        match keys.into_iter().find(known) {
            Some(key) => Finder::Key(key.to_vec()),
            None => Finder::All(self.columns_before().collect()),
        }
    }
}

/// The columns by whose values a row is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finder {
    /// Those of a unique key that is never NULL: there is one such row.
    Key(Vec<usize>),
    /// All that the log has. There may be several such rows, all the same; one of them is meant.
    All(Vec<usize>),
}

/// The document in a JSON field of a row's image after a change, as stored: where the log has what changed, put
/// together from what was before. `None` for NULL.
///
/// # Errors
///
/// When the changes do not fit the document before, the log does not have that, or either is corrupt.
pub fn document<'a>(row: &Row<'_, 'a>, field: &Field<'_, 'a>) -> Result<Option<Cow<'a, [u8]>>, Failure> {
    if !field.is_partial() {
        return Ok(field.bytes().map(Cow::Borrowed));
    }
    let document = row.document_after(field.index())?;
    let lacking =
        || Failure::refused("a JSON document is given as changes of one that the log does not have");
    document.map(Some).ok_or_else(lacking)
}

/// The text of an ENUM's value, in UTF-8: nothing for the error value 0. `None` if the texts are not known.
pub fn enum_text<'t>(column: &'t Column, value: u16, flavour: Flavour) -> Option<Cow<'t, str>> {
    let Some(index) = usize::from(value).checked_sub(1) else { return Some(Cow::Borrowed("")) };
    column.texts.get(index).map(|text| charset(column, flavour).decode_lossy(text))
}

/// The text of a SET's value, in UTF-8: its members with commas between them. `None` if the texts are not known.
pub fn set_text(column: &Column, value: u64, flavour: Flavour) -> Option<String> {
    let charset = charset(column, flavour);
    let members = (0..u64::BITS as usize).filter(|bit| value >> bit & 1 == 1);
    let texts: Option<Vec<_>> =
        members.map(|bit| Some(charset.decode_lossy(column.texts.get(bit)?))).collect();
    texts.map(|texts| texts.join(","))
}

/// The character set of a column's values and texts; UTF-8 where the log does not tell.
pub fn charset(column: &Column, flavour: Flavour) -> Charset {
    let collation = column.collation.and_then(|id| Collation::new(id, flavour));
    collation.map_or(Charset::Utf8mb4, |collation| collation.charset())
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::{ColumnSet, RowsFlags, RowsKind};
    use binlog::{ChecksumAlgorithm, Event, Flags, Flavour, Format, NextPosition, Origin, RowDecoder, Value};

    use super::{EventRows, Finder, HiddenColumns, RowReader, enum_text, set_text};
    use crate::error::Failure;
    use crate::sample::{Sample, image, int, text};
    use crate::work::RowEvents;

    fn format() -> Format {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
        Format {
            server_version,
            post_header_sizes,
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        }
    }

    #[test]
    fn events_become_rows() {
        let sample = Sample::new("int varchar:255");
        let (before, after) =
            (image(&[int(1), text("a")]), [image(&[int(1), None]), image(&[int(2), text("b")])]);
        let update = [before.as_slice(), &after[0]].concat();
        let origin = Origin { timestamp: 0, server_id: 1, flags: Flags(0) };
        let mut bytes = Vec::new();
        for event in [
            Event::TableMap(sample.map()),
            Event::WriteRows(sample.rows(RowsKind::Write, &after[1])),
            Event::UpdateRows(sample.rows(RowsKind::Update, &update)),
        ] {
            event.write(origin, NextPosition::Is(0), &format(), &mut bytes).unwrap();
        }
        let events = RowEvents { format: Arc::new(format()), bytes };
        let mut seen = Vec::new();
        let mut take = |rows: &EventRows<'_>| -> Result<(), Failure> {
            for row in rows.rows() {
                let row = row?;
                let images = row.images().map(|image| image.fields().map(|field| field.value().unwrap()));
                let first = images.map(|mut values| values.next().unwrap() == Value::Int(1));
                seen.push((rows.kind, rows.table.columns.len(), first.collect::<Vec<_>>()));
            }
            Ok(())
        };
        RowReader::new().read(&events, &mut take).unwrap();
        assert_eq!(seen, [(RowsKind::Write, 2, vec![false]), (RowsKind::Update, 2, vec![true, true])]);
    }

    /// Of five columns, those of the images before the change as bits; keys as columns, divided by `;`.
    fn check_finder(bits: u8, keys: &str, wanted: Finder) {
        let sample = Sample::new("int int int int int");
        let set = [bits];
        let mut event = sample.rows(RowsKind::Delete, &[]);
        event.columns = ColumnSet { bits: &set };
        let decoder = RowDecoder::new(sample.table(), &event).unwrap();
        let table = sample.table();
        let rows = EventRows {
            table: &table,
            kind: RowsKind::Delete,
            flags: RowsFlags(0),
            hidden: HiddenColumns::LeftOut,
            event: &event,
            decoder: &decoder,
        };
        let keys: Vec<Vec<usize>> = keys
            .split(';')
            .map(|key| key.split_whitespace().map(|column| column.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.columns_to_find(keys.iter().map(Vec::as_slice)), wanted);
    }

    #[test]
    fn a_row_is_found_by_the_first_key_that_the_log_has() {
        check_finder(0b11111, "3 1;2", Finder::Key(vec![3, 1]));
        check_finder(0b10111, "3 1;2", Finder::Key(vec![2]));
        check_finder(0b00011, "3 1;2", Finder::All(vec![0, 1]));
        check_finder(0b00101, "", Finder::All(vec![0, 2]));
    }

    #[test]
    fn hidden_columns_are_behind_the_others_and_have_no_values() {
        let sample = Sample::new("int int int");
        let check = |bits: u8, hidden, count, wanted: Option<usize>| {
            let set = [bits];
            let mut event = sample.rows(RowsKind::Delete, &[]);
            event.columns = ColumnSet { bits: &set };
            let decoder = RowDecoder::new(sample.table(), &event).unwrap();
            let table = sample.table();
            let (kind, flags) = (RowsKind::Delete, RowsFlags(0));
            let rows = EventRows { table: &table, kind, flags, hidden, event: &event, decoder: &decoder };
            assert_eq!(rows.columns_of(count).map(<[_]>::len), wanted, "{bits:b} {hidden:?} {count}");
        };
        check(0b111, HiddenColumns::LeftOut, 3, Some(3));
        check(0b011, HiddenColumns::LeftOut, 2, None);
        check(0b011, HiddenColumns::Shown, 2, Some(2));
        check(0b001, HiddenColumns::Shown, 1, Some(1));
        check(0b101, HiddenColumns::Shown, 2, None);
        check(0b111, HiddenColumns::Shown, 4, None);
    }

    #[test]
    fn choices_are_texts() {
        let mut column = Sample::new("int").table().columns[0].clone();
        assert_eq!(enum_text(&column, 1, Flavour::MySql), None);
        assert_eq!(set_text(&column, 1, Flavour::MySql), None);
        column.texts = [b"a".as_slice(), b"\xe9"].map(Into::into).into();
        column.collation = Some(8);
        assert_eq!(enum_text(&column, 0, Flavour::MySql).as_deref(), Some(""));
        assert_eq!(enum_text(&column, 2, Flavour::MySql).as_deref(), Some("é"));
        assert_eq!(enum_text(&column, 3, Flavour::MySql), None);
        assert_eq!(set_text(&column, 3, Flavour::MySql).as_deref(), Some("a,é"));
        assert_eq!(set_text(&column, 0, Flavour::MySql).as_deref(), Some(""));
        assert_eq!(set_text(&column, 4, Flavour::MySql), None);
    }
}
