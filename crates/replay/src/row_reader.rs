//! Row changes as decoded values, for targets that turn them into their own operations, for example SQL statements.

use std::borrow::Cow;

use binlog::events::{Rows, RowsFlags, RowsKind};
use binlog::{
    Charset, Collation, Column, DecodeError, Event, EventFormat, Flavour, RowChange, RowDecoder, RowField,
    Table, TableRegistry,
};

use crate::replay_error::TargetFailure;
use crate::row_events::RowEvents;

/// Reader of row events that remembers their tables. A table map that equals the previous one costs only a comparison.
#[derive(Debug, Default)]
pub struct RowReader {
    tables: TableRegistry,
}

/// Rows of one event.
#[derive(Clone, Copy, Debug)]
pub struct EventRows<'a> {
    /// Table, as the log describes it.
    pub table: &'a Table,
    /// Kind of change.
    pub kind: RowsKind,
    /// Event flags: foreign key checks, unique checks, and cascades of foreign keys.
    pub flags: RowsFlags,
    /// Hidden columns in the table map.
    hidden: HiddenColumns,
    pub(crate) event: &'a Rows<'a>,
    decoder: &'a RowDecoder,
}

/// Hidden columns of functional indexes in a log's table maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenColumns {
    /// May follow the other columns: [`EventFormat::shows_hidden_columns`].
    Shown,
    /// Never present.
    LeftOut,
}

impl HiddenColumns {
    /// Returns the setting for table maps in this format.
    pub fn of(format: &EventFormat) -> Self {
        if format.shows_hidden_columns() { Self::Shown } else { Self::LeftOut }
    }
}

impl RowReader {
    /// Creates a reader that knows no table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `take` with each event that has rows, in order.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded, or `take` fails.
    pub fn read(
        &mut self,
        events: &RowEvents,
        take: &mut dyn FnMut(&EventRows<'_>) -> Result<(), TargetFailure>,
    ) -> Result<(), TargetFailure> {
        let hidden = HiddenColumns::of(&events.format);
        for raw in events.events() {
            let event = raw.decode(&events.format)?;
            if let Event::TableMap(map) = &event {
                self.tables.register(map)?;
            }
            let Some(rows) = event.rows() else { continue };
            if rows.column_count == 0 {
                continue; // Only ends the statement.
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
    /// Returns the rows one by one. A column's value after a change comes from the after image, or from the before
    /// image if the after image omits the column.
    pub fn rows(&self) -> impl Iterator<Item = Result<RowChange<'a, 'a>, DecodeError>> + use<'a> {
        self.decoder.rows(self.event)
    }

    /// Appends a cache key: equal for events with the same kind, table and column sets.
    pub fn append_shape(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.event.table_id.to_le_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(self.event.columns.bits);
        out.extend_from_slice(self.event.columns_after.map_or(&[], |columns| columns.bits));
        out.extend_from_slice(&self.table.database);
        out.push(0);
        out.extend_from_slice(&self.table.name);
    }

    /// Returns the log's columns without hidden columns of functional indexes, for a target table of `count` columns.
    /// `None` if the number of columns differs.
    pub fn columns_of(&self, count: usize) -> Option<&'a [Column]> {
        let columns = &self.table.columns;
        let is_hidden = |column| !self.has_before(column) && !self.has_after(column);
        let is_rest_hidden = || self.hidden == HiddenColumns::Shown && (count..columns.len()).all(is_hidden);
        (columns.len() == count || columns.len() > count && is_rest_hidden()).then(|| &columns[..count])
    }

    /// Returns whether before images have this column.
    pub fn has_before(&self, column: usize) -> bool {
        self.kind != RowsKind::Write && self.event.columns.contains(column)
    }

    /// Returns whether after images have this column.
    pub fn has_after(&self, column: usize) -> bool {
        match self.kind {
            RowsKind::Write => self.event.columns.contains(column),
            _ => self.event.columns_after.is_some_and(|columns| columns.contains(column)),
        }
    }

    /// Returns the columns of before images, in order.
    pub fn columns_before(&self) -> impl Iterator<Item = usize> {
        (0..self.table.columns.len()).filter(|column| self.has_before(*column))
    }

    /// Returns the columns of after images, in order.
    pub fn columns_after(&self) -> impl Iterator<Item = usize> {
        (0..self.table.columns.len()).filter(|column| self.has_after(*column))
    }

    /// Returns the columns that identify a row on a target: the first of `keys` whose columns are all in the before
    /// image, otherwise all columns of the before image.
    pub fn lookup_columns<'k>(&self, keys: impl IntoIterator<Item = &'k [usize]>) -> RowLookup {
        let known = |key: &&[usize]| !key.is_empty() && key.iter().all(|column| self.has_before(*column));
        match keys.into_iter().find(known) {
            Some(key) => RowLookup::Key(key.to_vec()),
            None => RowLookup::All(self.columns_before().collect()),
        }
    }
}

/// Columns that identify a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RowLookup {
    /// Columns of a unique key that is never NULL: exactly one row matches.
    Key(Vec<usize>),
    /// All columns that the log has. Several identical rows may match; one of them is changed.
    All(Vec<usize>),
}

/// Returns the JSON document of a field in an after image, as stored. Applies a partial update to the document of the
/// before image. `None` for NULL.
///
/// # Errors
///
/// Fails if the partial update does not fit the earlier document, the log lacks that document, or one of them is
/// corrupt.
pub fn json_document<'a>(
    row: &RowChange<'_, 'a>,
    field: &RowField<'_, 'a>,
) -> Result<Option<Cow<'a, [u8]>>, TargetFailure> {
    if !field.is_partial() {
        return Ok(field.bytes().map(Cow::Borrowed));
    }
    let document = row.document_after(field.index())?;
    let lacking = || {
        TargetFailure::refused(
            "cannot rebuild a JSON document: the log has a partial update, but not the document before",
        )
    };
    document.map(Some).ok_or_else(lacking)
}

/// Returns the text of an ENUM value in UTF-8; empty for the error value 0. `None` if the texts are unknown.
pub fn enum_text<'t>(column: &'t Column, value: u16, flavour: Flavour) -> Option<Cow<'t, str>> {
    let Some(index) = usize::from(value).checked_sub(1) else { return Some(Cow::Borrowed("")) };
    column.texts.get(index).map(|text| column_charset(column, flavour).decode_lossy(text))
}

/// Returns the text of a SET value in UTF-8: its members, separated by commas. `None` if the texts are unknown.
pub fn set_text(column: &Column, value: u64, flavour: Flavour) -> Option<String> {
    let charset = column_charset(column, flavour);
    let members = (0..u64::BITS as usize).filter(|bit| value >> bit & 1 == 1);
    let texts: Option<Vec<_>> =
        members.map(|bit| Some(charset.decode_lossy(column.texts.get(bit)?))).collect();
    texts.map(|texts| texts.join(","))
}

/// Returns the character set of a column's values and texts; UTF-8 if the log does not give it.
pub fn column_charset(column: &Column, flavour: Flavour) -> Charset {
    let collation = column.collation.and_then(|id| Collation::new(id, flavour));
    collation.map_or(Charset::Utf8mb4, |collation| collation.charset())
}

impl From<DecodeError> for TargetFailure {
    fn from(error: DecodeError) -> Self {
        Self::refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::{ColumnSet, RowsFlags, RowsKind};
    use binlog::{
        ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition, RowDecoder,
        Value,
    };

    use super::{EventRows, HiddenColumns, RowLookup, RowReader, enum_text, set_text};
    use crate::replay_error::TargetFailure;
    use crate::row_events::RowEvents;
    use crate::sample_table::{SampleTable, image, int, text};

    fn format() -> EventFormat {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
        EventFormat {
            server_version,
            post_header_sizes,
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        }
    }

    #[test]
    fn events_become_rows() {
        let sample = SampleTable::new("int varchar:255");
        let (before, after) =
            (image(&[int(1), text("a")]), [image(&[int(1), None]), image(&[int(2), text("b")])]);
        let update = [before.as_slice(), &after[0]].concat();
        let origin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags(0) };
        let mut bytes = Vec::new();
        for event in [
            Event::TableMap(sample.map()),
            Event::WriteRows(sample.rows(RowsKind::Write, &after[1])),
            Event::UpdateRows(sample.rows(RowsKind::Update, &update)),
        ] {
            event.write(origin, NextPosition::Fixed(0), &format(), &mut bytes).unwrap();
        }
        let events = RowEvents { format: Arc::new(format()), bytes };
        let mut seen = Vec::new();
        let mut take = |rows: &EventRows<'_>| -> Result<(), TargetFailure> {
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

    /// `bits` are the columns of the before image, of five; `keys` are lists of columns, separated by `;`.
    fn check_finder(bits: u8, keys: &str, expected: RowLookup) {
        let sample = SampleTable::new("int int int int int");
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
        assert_eq!(rows.lookup_columns(keys.iter().map(Vec::as_slice)), expected);
    }

    #[test]
    fn a_row_is_found_by_the_first_key_that_the_log_has() {
        check_finder(0b11111, "3 1;2", RowLookup::Key(vec![3, 1]));
        check_finder(0b10111, "3 1;2", RowLookup::Key(vec![2]));
        check_finder(0b00011, "3 1;2", RowLookup::All(vec![0, 1]));
        check_finder(0b00101, "", RowLookup::All(vec![0, 2]));
    }

    #[test]
    fn hidden_columns_are_behind_the_others_and_have_no_values() {
        let sample = SampleTable::new("int int int");
        let check = |bits: u8, hidden, count, expected: Option<usize>| {
            let set = [bits];
            let mut event = sample.rows(RowsKind::Delete, &[]);
            event.columns = ColumnSet { bits: &set };
            let decoder = RowDecoder::new(sample.table(), &event).unwrap();
            let table = sample.table();
            let (kind, flags) = (RowsKind::Delete, RowsFlags(0));
            let rows = EventRows { table: &table, kind, flags, hidden, event: &event, decoder: &decoder };
            assert_eq!(rows.columns_of(count).map(<[_]>::len), expected, "{bits:b} {hidden:?} {count}");
        };
        check(0b111, HiddenColumns::LeftOut, 3, Some(3));
        check(0b011, HiddenColumns::LeftOut, 2, None);
        check(0b011, HiddenColumns::Shown, 2, Some(2));
        check(0b001, HiddenColumns::Shown, 1, Some(1));
        check(0b101, HiddenColumns::Shown, 2, None);
        check(0b111, HiddenColumns::Shown, 4, None);
    }

    #[test]
    fn enum_and_set_values_are_texts() {
        let mut column = SampleTable::new("int").table().columns[0].clone();
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
