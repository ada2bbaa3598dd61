//! Decoder of rows events: prepared once per table and column set, then row by row.

use std::borrow::Cow;
use std::sync::Arc;

use super::image_decoder::{ImageDecoder, PartialJson};
use super::row_image::RowImage;
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::events::{ColumnSet, Rows, RowsKind};
use crate::json::{JsonChanges, JsonDocument};
use crate::table::Table;

/// Decoder for rows events of one kind, one table and the same column sets.
///
/// ```
/// # use std::sync::Arc;
/// # use bintide_binlog::{RowDecoder, Table, events::Rows};
/// # fn show(table: Arc<Table>, event: &Rows<'_>) -> Result<(), bintide_binlog::DecodeError> {
/// let decoder = RowDecoder::new(table, event)?;
/// for row in decoder.rows(event) {
///     let row = row?;
///     for field in row.after.iter().flat_map(|image| image.fields()) {
///         println!("@{} = {:?}", field.index() + 1, field.value()?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RowDecoder {
    kind: RowsKind,
    before: Option<ImageDecoder>,
    after: Option<ImageDecoder>,
    /// True if rows take no bytes at all.
    is_sizeless: bool,
}

impl RowDecoder {
    /// Creates a decoder for the event's kind and column sets.
    ///
    /// # Errors
    ///
    /// Fails if the event and the table differ in their number of columns, or if the values of a column have no known
    /// size.
    pub fn new(table: Arc<Table>, rows: &Rows<'_>) -> Result<Self, DecodeError> {
        let expected = table.columns.len() as u64;
        if rows.column_count != expected {
            let found = rows.column_count;
            let offset = rows.columns_offset();
            return Err(DecodeError::new(
                offset,
                DecodeReason::Differs { field: "column count", found, expected },
            ));
        }
        let decoder = |columns: &ColumnSet<'_>, partial| {
            ImageDecoder::new(Arc::clone(&table), columns, partial)
                .map_err(|reason| DecodeError::new(rows.columns_offset(), reason))
        };
        let first = decoder(&rows.columns, PartialJson::Never)?;
        let second = |partial| rows.columns_after.map(|columns| decoder(&columns, partial)).transpose();
        let (before, after) = match rows.kind {
            RowsKind::Write => (None, Some(first)),
            RowsKind::Delete => (Some(first), None),
            RowsKind::Update => (Some(first), second(PartialJson::Never)?),
            RowsKind::PartialUpdate => (Some(first), second(PartialJson::Allowed)?),
        };
        let is_sizeless = [&before, &after].into_iter().flatten().all(ImageDecoder::is_sizeless);
        Ok(Self { kind: rows.kind, before, after, is_sizeless })
    }

    /// Returns true if this decoder can decode another event of the same table.
    pub fn fits(&self, rows: &Rows<'_>) -> bool {
        let (first, second) = match self.kind {
            RowsKind::Write => (&self.after, &None),
            RowsKind::Delete | RowsKind::Update | RowsKind::PartialUpdate => (&self.before, &self.after),
        };
        let same = |decoder: &Option<ImageDecoder>, columns: Option<ColumnSet<'_>>| {
            decoder.as_ref().map(|decoder| &*decoder.column_set) == columns.map(|columns| columns.bits)
        };
        self.kind == rows.kind && same(first, Some(rows.columns)) && same(second, rows.columns_after)
    }

    /// Returns the kind of the row changes.
    pub const fn kind(&self) -> RowsKind {
        self.kind
    }

    /// Returns the decoder of before images: updates and deletes.
    pub const fn before(&self) -> Option<&ImageDecoder> {
        self.before.as_ref()
    }

    /// Returns the decoder of after images: inserts and updates.
    pub const fn after(&self) -> Option<&ImageDecoder> {
        self.after.as_ref()
    }

    /// Returns the rows of an event, for which [`RowDecoder::fits`] must hold.
    pub fn rows<'d, 'a>(&'d self, rows: &Rows<'a>) -> RowIter<'d, 'a> {
        let end = rows.rows_offset() + rows.rows.len();
        RowIter { decoder: self, rest: rows.rows, end, next: self.next(rows) }
    }

    /// Returns the number of rows in the event without decoding values. [`RowDecoder::fits`] must hold.
    ///
    /// # Errors
    ///
    /// Fails if the last row is truncated.
    pub fn count(&self, rows: &Rows<'_>) -> Result<u64, DecodeError> {
        if rows.rows.is_empty() {
            return Ok(u64::from(self.next(rows) == NextRow::Row));
        }
        let mut rest = rows.rows;
        let mut count = 0;
        while !rest.is_empty() {
            let Some(tail) = self.skip(rest) else {
                return Err(self.fault(rest, rows.rows_offset() + rows.rows.len() - rest.len()));
            };
            rest = tail;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the first state of the iteration. An INSERT of only default values takes no bytes in a minimal image:
    /// an empty event then has one row.
    fn next(&self, rows: &Rows<'_>) -> NextRow {
        let defaults = self.kind == RowsKind::Write && self.is_sizeless && rows.column_count > 0;
        match !rows.rows.is_empty() || defaults {
            true => NextRow::Row,
            false => NextRow::End,
        }
    }

    /// Splits the first row from `bytes`, which end at offset `end` of the event.
    #[inline(always)]
    fn split<'d, 'a>(&'d self, bytes: &'a [u8], end: usize) -> Option<(RowChange<'d, 'a>, &'a [u8])> {
        if self.is_sizeless && !bytes.is_empty() {
            return None;
        }
        let mut rest = bytes;
        let mut row = RowChange { before: None, after: None };
        if let Some(decoder) = &self.before {
            let tail = decoder.skip(rest)?;
            row.before = Some(RowImage::new(decoder, rest, tail, end));
            rest = tail;
        }
        if let Some(decoder) = &self.after {
            let tail = decoder.skip(rest)?;
            row.after = Some(RowImage::new(decoder, rest, tail, end));
            rest = tail;
        }
        Some((row, rest))
    }

    #[inline]
    fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_sizeless {
            return None;
        }
        let mut rest = bytes;
        for decoder in [&self.before, &self.after].into_iter().flatten() {
            rest = decoder.skip(rest)?;
        }
        Some(rest)
    }

    /// Returns the error in the row at the front of `bytes`.
    #[cold]
    fn fault(&self, bytes: &[u8], offset: usize) -> DecodeError {
        let mut cursor = Cursor::at(bytes, offset);
        for decoder in [&self.before, &self.after].into_iter().flatten() {
            if let Err(error) = decoder.walk(&mut cursor) {
                return error;
            }
        }
        // The rows have no bytes, but bytes follow.
        cursor.error(DecodeReason::Trailing { count: bytes.len() })
    }
}

/// Change of one row.
#[derive(Clone, Copy, Debug)]
pub struct RowChange<'d, 'a> {
    /// Before image: updates and deletes.
    pub before: Option<RowImage<'d, 'a>>,
    /// After image: inserts and updates.
    pub after: Option<RowImage<'d, 'a>>,
}

impl<'d, 'a> RowChange<'d, 'a> {
    /// Returns the images: before, then after.
    #[inline]
    pub fn images(&self) -> impl Iterator<Item = &RowImage<'d, 'a>> {
        self.before.iter().chain(&self.after)
    }

    /// Returns the new document of a JSON column in stored form. If the event has only the changes, applies them to the
    /// old document. `None` if the event lacks the column or the old document, or if it is NULL.
    ///
    /// # Errors
    ///
    /// Fails if the changes do not match the old document, or if either is corrupt.
    pub fn document_after(&self, column: usize) -> Result<Option<Cow<'a, [u8]>>, DecodeError> {
        let Some(after) = self.after.and_then(|image| image.field(column)) else { return Ok(None) };
        let Some(bytes) = after.bytes() else { return Ok(None) };
        if !after.is_partial() {
            return Ok(Some(Cow::Borrowed(bytes)));
        }
        let before = self.before.and_then(|image| image.field(column)).and_then(|before| before.bytes());
        let Some(before) = before else { return Ok(None) };
        let changes = JsonChanges::new(bytes).and_then(|changes| changes.apply(JsonDocument::new(before)));
        changes.map(|document| Some(Cow::Owned(document))).map_err(|error| error.within(after.offset()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextRow {
    Row,
    End,
}

/// Iterator over the rows of one event; ends after the first error.
#[derive(Clone, Debug)]
pub struct RowIter<'d, 'a> {
    decoder: &'d RowDecoder,
    rest: &'a [u8],
    /// Offset of the end of `rest` in the event.
    end: usize,
    next: NextRow,
}

impl<'a> RowIter<'_, 'a> {
    /// Returns the bytes not read yet; after an error, from the start of the bad row.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the offset of the unread bytes in the event.
    pub const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }
}

impl<'d, 'a> Iterator for RowIter<'d, 'a> {
    type Item = Result<RowChange<'d, 'a>, DecodeError>;

    // If this is not inlined, each row is copied twice, and each copy waits for the preceding stores.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == NextRow::End {
            return None;
        }
        let Some((row, rest)) = self.decoder.split(self.rest, self.end) else {
            self.next = NextRow::End;
            return Some(Err(self.decoder.fault(self.rest, self.offset())));
        };
        self.rest = rest;
        if rest.is_empty() {
            self.next = NextRow::End;
        }
        Some(Ok(row))
    }
}
