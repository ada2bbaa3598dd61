//! Rows events row by row: prepared once for a table and its column sets, then a tight loop.

use std::borrow::Cow;
use std::sync::Arc;

use crate::column::{Column, ColumnType, Storage};
use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::events::{ColumnSet, Rows, RowsKind};
use crate::json::{Json, JsonChanges};
use crate::table::Table;
use crate::value::Value;

/// Reads the rows of events of one kind, with the same column sets, of one table.
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
}

impl RowDecoder {
    /// Prepares for the event's kind and column sets.
    ///
    /// # Errors
    ///
    /// When the event does not count as many columns as the table has, or a column is of a type whose values
    /// cannot be told apart.
    pub fn new(table: Arc<Table>, rows: &Rows<'_>) -> Result<Self, DecodeError> {
        let wanted = table.columns.len() as u64;
        if rows.column_count != wanted {
            let found = rows.column_count;
            let offset = rows.columns_offset();
            return Err(DecodeError::new(offset, Reason::Differs { field: "column count", found, wanted }));
        }
        let decoder = |columns: &ColumnSet<'_>, partial| {
            ImageDecoder::new(Arc::clone(&table), columns, partial)
                .map_err(|reason| DecodeError::new(rows.columns_offset(), reason))
        };
        let first = decoder(&rows.columns, Partial::Never)?;
        let second = |partial| rows.columns_after.map(|columns| decoder(&columns, partial)).transpose();
        let (before, after) = match rows.kind {
            RowsKind::Write => (None, Some(first)),
            RowsKind::Delete => (Some(first), None),
            RowsKind::Update => (Some(first), second(Partial::Never)?),
            RowsKind::PartialUpdate => (Some(first), second(Partial::Allowed)?),
        };
        Ok(Self { kind: rows.kind, before, after })
    }

    /// Is this decoder the right one for another event of the same table?
    pub fn fits(&self, rows: &Rows<'_>) -> bool {
        let (first, second) = match self.kind {
            RowsKind::Write => (&self.after, &None),
            RowsKind::Delete | RowsKind::Update | RowsKind::PartialUpdate => (&self.before, &self.after),
        };
        let same = |decoder: &Option<ImageDecoder>, columns: Option<ColumnSet<'_>>| {
            decoder.as_ref().map(|decoder| &*decoder.set) == columns.map(|columns| columns.bits)
        };
        self.kind == rows.kind && same(first, Some(rows.columns)) && same(second, rows.columns_after)
    }

    /// What was done to the rows.
    pub const fn kind(&self) -> RowsKind {
        self.kind
    }

    /// How images before the change are read: updates and deletes.
    pub const fn before(&self) -> Option<&ImageDecoder> {
        self.before.as_ref()
    }

    /// How images after the change are read: inserts and updates.
    pub const fn after(&self) -> Option<&ImageDecoder> {
        self.after.as_ref()
    }

    /// The event's rows. [`RowDecoder::fits`] must hold.
    pub fn rows<'d, 'a>(&'d self, rows: &Rows<'a>) -> RowIter<'d, 'a> {
        RowIter { decoder: self, rest: rows.rows, offset: rows.rows_offset(), next: self.next(rows) }
    }

    /// How many rows the event has, without looking at any value. [`RowDecoder::fits`] must hold.
    ///
    /// # Errors
    ///
    /// When the last row stops short.
    pub fn count(&self, rows: &Rows<'_>) -> Result<u64, DecodeError> {
        if rows.rows.is_empty() {
            return Ok(u64::from(self.next(rows) == Next::Row));
        }
        if self.is_sizeless() {
            return Err(self.sizeless(rows.rows, rows.rows_offset()));
        }
        let mut rest = rows.rows;
        let mut count = 0;
        while !rest.is_empty() {
            let mut after_row = Some(rest);
            for image in [&self.before, &self.after].into_iter().flatten() {
                after_row = after_row.and_then(|rest| image.skip(rest));
            }
            let Some(after_row) = after_row else {
                let offset = rows.rows_offset() + rows.rows.len() - rest.len();
                let row = RowIter { decoder: self, rest, offset, next: Next::Row }.next();
                return Err(match row {
                    Some(Err(error)) => error,
                    _ => unreachable!("the same row was found to stop short"),
                });
            };
            rest = after_row;
            count += 1;
        }
        Ok(count)
    }

    /// Does an empty event hold a row? An INSERT of nothing but defaults takes no bytes at all in a minimal image.
    fn next(&self, rows: &Rows<'_>) -> Next {
        let defaults = self.kind == RowsKind::Write && self.is_sizeless() && rows.column_count > 0;
        match !rows.rows.is_empty() || defaults {
            true => Next::Row,
            false => Next::End,
        }
    }

    fn is_sizeless(&self) -> bool {
        [&self.before, &self.after].into_iter().flatten().all(ImageDecoder::is_sizeless)
    }

    fn sizeless(&self, rest: &[u8], offset: usize) -> DecodeError {
        DecodeError::new(offset, Reason::Trailing { count: rest.len() })
    }
}

/// One row of an event.
#[derive(Clone, Copy, Debug)]
pub struct Row<'d, 'a> {
    /// What it was: updates and deletes.
    pub before: Option<Image<'d, 'a>>,
    /// What it became: inserts and updates.
    pub after: Option<Image<'d, 'a>>,
}

impl<'a> Row<'_, 'a> {
    /// The document that a JSON column holds afterwards, as stored: if the event has but the changes, they are
    /// applied to the document before. `None` when the event does not tell, or it is NULL.
    ///
    /// # Errors
    ///
    /// When the changes do not fit the document before, or either is corrupt.
    pub fn document_after(&self, column: usize) -> Result<Option<Cow<'a, [u8]>>, DecodeError> {
        let Some(after) = self.after.and_then(|image| image.field(column)) else { return Ok(None) };
        let Some(bytes) = after.bytes() else { return Ok(None) };
        if !after.is_partial() {
            return Ok(Some(Cow::Borrowed(bytes)));
        }
        let before = self.before.and_then(|image| image.field(column)).and_then(|before| before.bytes());
        let Some(before) = before else { return Ok(None) };
        let changes = JsonChanges::new(bytes).and_then(|changes| changes.apply(Json::new(before)));
        changes.map(|document| Some(Cow::Owned(document))).map_err(|error| error.within(after.offset()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Row,
    End,
}

/// The rows of one event; stops behind the first error.
#[derive(Clone, Debug)]
pub struct RowIter<'d, 'a> {
    decoder: &'d RowDecoder,
    rest: &'a [u8],
    offset: usize,
    next: Next,
}

impl<'a> RowIter<'_, 'a> {
    /// What has not been read yet: behind an error, the row that could not be read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Where the rest starts, in bytes from the event's first byte.
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<'d, 'a> Iterator for RowIter<'d, 'a> {
    type Item = Result<Row<'d, 'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == Next::End {
            return None;
        }
        let row = self.row();
        if row.is_err() || self.rest.is_empty() {
            self.next = Next::End;
        }
        Some(row)
    }
}

impl<'d, 'a> RowIter<'d, 'a> {
    #[inline]
    fn row(&mut self) -> Result<Row<'d, 'a>, DecodeError> {
        if !self.rest.is_empty() && self.decoder.is_sizeless() {
            return Err(self.decoder.sizeless(self.rest, self.offset));
        }
        let (mut rest, mut offset) = (self.rest, self.offset);
        let mut take = |decoder: &'d Option<ImageDecoder>| {
            let Some(decoder) = decoder else { return Ok(None) };
            let (image, behind) = decoder.split(rest, offset)?;
            offset += rest.len() - behind.len();
            rest = behind;
            Ok(Some(image))
        };
        let row = Row { before: take(&self.decoder.before)?, after: take(&self.decoder.after)? };
        (self.rest, self.offset) = (rest, offset);
        Ok(row)
    }
}

/// Reads images that have the same columns of one table.
///
/// | size | field |
/// |---|---|
/// | lenenc | options, in the image behind a partial update only; bit 0: the next field is there |
/// | a bit a JSON column of the table | which of them hold changes, not documents |
/// | a bit a column of the image | which of them are NULL |
/// | | the others' values, in order |
#[derive(Clone, Debug)]
pub struct ImageDecoder {
    table: Arc<Table>,
    /// The column set that this was made from.
    set: Box<[u8]>,
    steps: Box<[Step]>,
    /// The steps of an image without any NULL, joined.
    runs: Box<[Run]>,
    null_size: usize,
    /// Which bits of the last byte of NULL bits are columns. Servers set the others at will.
    null_mask: u8,
    partial: Partial,
    /// Bytes in the field that says which JSON columns hold changes.
    partial_size: usize,
}

/// May an image hold changes of JSON documents?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partial {
    Never,
    Allowed,
}

/// One column of an image.
#[derive(Clone, Copy, Debug)]
struct Step {
    column: u16,
    /// Its number among the table's JSON columns.
    json: u16,
    /// Bytes of a value, or 0 when it is sized.
    fixed: u8,
    /// Bytes of a value's size, or 0 when it is fixed.
    prefix: u8,
}

/// Several columns of fixed size, then perhaps one that is sized.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    fixed: u32,
    prefix: u8,
}

impl ImageDecoder {
    fn new(table: Arc<Table>, columns: &ColumnSet<'_>, partial: Partial) -> Result<Self, Reason> {
        let mut steps = Vec::new();
        let mut json = 0;
        for (index, column) in table.columns.iter().enumerate() {
            let is_json = matches!(column.column_type, ColumnType::Json { .. });
            if columns.contains(index) {
                steps.push(Step::new(index, json, column)?);
            }
            json += u16::from(is_json);
        }
        let null_size = steps.len().div_ceil(8);
        let null_mask = match steps.len() % 8 {
            0 => 0xff,
            used => (1 << used) - 1,
        };
        Ok(Self {
            set: columns.bits.into(),
            runs: runs(&steps),
            steps: steps.into(),
            null_size,
            null_mask,
            partial,
            partial_size: usize::from(json).div_ceil(8),
            table,
        })
    }

    /// The table whose rows these are.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many columns an image has.
    pub fn column_count(&self) -> usize {
        self.steps.len()
    }

    /// Takes one image off the front of `bytes`, which start at `offset` of the event; gives what is behind it.
    ///
    /// # Errors
    ///
    /// When the image stops short.
    #[inline]
    pub fn split<'d, 'a>(
        &'d self,
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<(Image<'d, 'a>, &'a [u8]), DecodeError> {
        if self.partial == Partial::Allowed {
            return self.split_partial(bytes, offset);
        }
        match self.skip_plain(bytes) {
            Some(rest) => {
                let bytes = &bytes[..bytes.len() - rest.len()];
                Ok((Image { decoder: self, partial: &[], bytes, offset }, rest))
            }
            None => Err(self.short(bytes, offset)),
        }
    }

    /// Walks an image that may stop short, field by field, until the first that does.
    pub fn fields_until_short<'d, 'a>(&'d self, bytes: &'a [u8], offset: usize) -> FieldIter<'d, 'a> {
        let (partial, bytes, offset) = match self.partial {
            Partial::Never => (&[][..], bytes, offset),
            Partial::Allowed => match self.split_options(bytes, offset) {
                Ok((partial, cursor)) => (partial, cursor.rest(), cursor.offset()),
                Err(_) => (&[][..], &[][..], offset),
            },
        };
        Image { decoder: self, partial, bytes, offset }.fields()
    }

    /// What is behind the image at the front of `bytes`; `None` if it stops short.
    #[inline]
    fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match self.partial {
            Partial::Never => self.skip_plain(bytes),
            Partial::Allowed => {
                self.split_options(bytes, 0).ok().and_then(|(_, rest)| self.skip_plain(rest.rest()))
            }
        }
    }

    #[inline]
    fn skip_plain<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (nulls, mut rest) = bytes.split_at_checked(self.null_size)?;
        if self.has_null(nulls) {
            return self.skip_sparse(nulls, rest);
        }
        for run in &self.runs {
            rest = skip_value(rest.get(run.fixed as usize..)?, run.prefix)?;
        }
        Some(rest)
    }

    fn skip_sparse<'a>(&self, nulls: &[u8], mut rest: &'a [u8]) -> Option<&'a [u8]> {
        for (index, step) in self.steps.iter().enumerate() {
            if !bit(nulls, index) {
                rest = skip_value(rest.get(usize::from(step.fixed)..)?, step.prefix)?;
            }
        }
        Some(rest)
    }

    #[inline]
    fn has_null(&self, nulls: &[u8]) -> bool {
        match nulls {
            [] => false,
            [only] => only & self.null_mask != 0,
            [all @ .., last] => last & self.null_mask != 0 || all.iter().any(|byte| *byte != 0),
        }
    }

    fn split_partial<'d, 'a>(
        &'d self,
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<(Image<'d, 'a>, &'a [u8]), DecodeError> {
        let (partial, cursor) = self.split_options(bytes, offset)?;
        let (bytes, offset) = (cursor.rest(), cursor.offset());
        let Some(rest) = self.skip_plain(bytes) else { return Err(self.short(bytes, offset)) };
        let bytes = &bytes[..bytes.len() - rest.len()];
        Ok((Image { decoder: self, partial, bytes, offset }, rest))
    }

    /// The bits that say which JSON columns hold changes.
    fn split_options<'a>(
        &self,
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<(&'a [u8], Cursor<'a>), DecodeError> {
        const PARTIAL_JSON: u64 = 1;
        let mut cursor = Cursor::at(bytes, offset);
        let options = cursor.lenenc()?;
        if options & !PARTIAL_JSON != 0 {
            let reason = Reason::OutOfRange { field: "options of a row", found: options, max: PARTIAL_JSON };
            return Err(DecodeError::new(offset, reason));
        }
        let partial = match options & PARTIAL_JSON {
            0 => &[],
            _ => cursor.bytes(self.partial_size)?,
        };
        Ok((partial, cursor))
    }

    /// Where and why an image stops short.
    #[cold]
    fn short(&self, bytes: &[u8], offset: usize) -> DecodeError {
        let mut cursor = Cursor::at(bytes, offset);
        match self.walk(&mut cursor) {
            Err(error) => error,
            // The image is whole after all, which only a fault of ours could bring about.
            Ok(()) => cursor.error(Reason::Short { wanted: 1, found: 0 }),
        }
    }

    fn walk(&self, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let nulls = cursor.bytes(self.null_size)?;
        for (index, step) in self.steps.iter().enumerate() {
            if bit(nulls, index) {
                continue;
            }
            let size = match step.prefix {
                0 => u64::from(step.fixed),
                1 => u64::from(cursor.u8()?),
                2 => u64::from(cursor.u16()?),
                3 => u64::from(cursor.u24()?),
                _ => u64::from(cursor.u32()?),
            };
            match usize::try_from(size) {
                Ok(size) => drop(cursor.bytes(size)?),
                Err(_) => {
                    return Err(cursor.error(Reason::Short { wanted: size, found: cursor.rest().len() }));
                }
            }
        }
        Ok(())
    }

    /// Takes an image no bytes at all?
    fn is_sizeless(&self) -> bool {
        self.steps.is_empty() && self.partial == Partial::Never
    }
}

impl Step {
    fn new(index: usize, json: u16, column: &Column) -> Result<Self, Reason> {
        let (fixed, prefix) = match column.column_type.storage() {
            Storage::Fixed(size) => (size, 0),
            Storage::Sized(prefix) => (0, prefix),
            Storage::Unknown => {
                let found = u64::from(column.type_code);
                return Err(Reason::Unexpected {
                    field: "column type",
                    found,
                    wanted: "one whose values have a known size",
                });
            }
        };
        Ok(Self { column: index as u16, json, fixed, prefix })
    }
}

fn runs(steps: &[Step]) -> Box<[Run]> {
    let mut runs = Vec::new();
    let mut run = Run::default();
    for step in steps {
        run.fixed += u32::from(step.fixed);
        if step.prefix > 0 {
            runs.push(Run { prefix: step.prefix, ..run });
            run = Run::default();
        }
    }
    if run.fixed > 0 {
        runs.push(run);
    }
    runs.into()
}

/// What is behind a value with `prefix` bytes of size; all of `bytes` if there are none.
#[inline]
fn skip_value(bytes: &[u8], prefix: u8) -> Option<&[u8]> {
    if prefix == 0 {
        return Some(bytes);
    }
    split_sized(bytes, prefix).map(|(_, rest)| rest)
}

/// A value with `prefix` (1 to 4) bytes of size, and what is behind it.
#[inline]
fn split_sized(bytes: &[u8], prefix: u8) -> Option<(&[u8], &[u8])> {
    let (size, rest) = match prefix {
        1 => {
            let (size, rest) = bytes.split_first()?;
            (u32::from(*size), rest)
        }
        2 => {
            let (size, rest) = bytes.split_first_chunk()?;
            (u32::from(u16::from_le_bytes(*size)), rest)
        }
        3 => {
            let ([a, b, c], rest) = bytes.split_first_chunk()?;
            (u32::from_le_bytes([*a, *b, *c, 0]), rest)
        }
        _ => {
            let (size, rest) = bytes.split_first_chunk()?;
            (u32::from_le_bytes(*size), rest)
        }
    };
    rest.split_at_checked(size as usize)
}

#[inline]
fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// A row as it was, or as it became: those of its columns that the event has.
#[derive(Clone, Copy, Debug)]
pub struct Image<'d, 'a> {
    decoder: &'d ImageDecoder,
    /// Which JSON columns hold changes.
    partial: &'a [u8],
    /// From the NULL bits on.
    bytes: &'a [u8],
    offset: usize,
}

impl<'d, 'a> Image<'d, 'a> {
    /// NULL bits and values, as they stand in the event.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where they start, in bytes from the event's first byte.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The table whose row this is.
    pub fn table(&self) -> &'d Table {
        &self.decoder.table
    }

    /// This column, counted from 0 in the table; `None` if the event leaves it out.
    pub fn field(&self, column: usize) -> Option<Field<'d, 'a>> {
        self.fields().find(|field| field.index() == column)
    }

    /// Its columns, in order; those that the event leaves out are passed over.
    #[inline]
    pub fn fields(&self) -> FieldIter<'d, 'a> {
        let (nulls, rest) = self.bytes.split_at_checked(self.decoder.null_size).unwrap_or_default();
        // An image cut within its NULL bits has no fields.
        let steps = match nulls.len() == self.decoder.null_size {
            true => &*self.decoder.steps,
            false => &[],
        };
        FieldIter {
            columns: &self.decoder.table.columns,
            steps: steps.iter(),
            partial: self.partial,
            nulls,
            null_index: 0,
            rest,
            end: self.offset + self.bytes.len(),
        }
    }
}

/// The fields of an image.
#[derive(Clone, Debug)]
pub struct FieldIter<'d, 'a> {
    columns: &'d [Column],
    steps: std::slice::Iter<'d, Step>,
    partial: &'a [u8],
    nulls: &'a [u8],
    null_index: usize,
    rest: &'a [u8],
    end: usize,
}

impl FieldIter<'_, '_> {
    /// Where the next field starts, in bytes from the event's first byte.
    pub const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }
}

impl<'d, 'a> Iterator for FieldIter<'d, 'a> {
    type Item = Field<'d, 'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.steps.next()?;
        let is_null = bit(self.nulls, self.null_index);
        self.null_index += 1;
        let bytes = match (is_null, step.prefix) {
            (true, _) => None,
            (false, 0) => {
                let (bytes, rest) = self.rest.split_at_checked(usize::from(step.fixed))?;
                self.rest = rest;
                Some(bytes)
            }
            (false, prefix) => {
                let (bytes, rest) = split_sized(self.rest, prefix)?;
                self.rest = rest;
                Some(bytes)
            }
        };
        let offset = self.offset() - bytes.map_or(0, <[u8]>::len);
        let is_partial = !self.partial.is_empty() && self.is_partial(step);
        Some(Field { columns: self.columns, index: step.column, is_partial, bytes, offset })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.steps.len()))
    }
}

impl FieldIter<'_, '_> {
    fn is_partial(&self, step: &Step) -> bool {
        let column = self.columns.get(usize::from(step.column));
        let is_json = column.is_some_and(|column| matches!(column.column_type, ColumnType::Json { .. }));
        is_json && bit(self.partial, usize::from(step.json))
    }
}

/// One column's value in one image, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct Field<'d, 'a> {
    columns: &'d [Column],
    index: u16,
    is_partial: bool,
    bytes: Option<&'a [u8]>,
    offset: usize,
}

impl<'d, 'a> Field<'d, 'a> {
    /// Which column of the table, from 0.
    #[inline]
    pub const fn index(&self) -> usize {
        self.index as usize
    }

    /// The column.
    #[inline]
    pub const fn column(&self) -> &'d Column {
        &self.columns[self.index as usize]
    }

    /// The value as stored, without the size in front of it; `None` for NULL.
    #[inline]
    pub const fn bytes(&self) -> Option<&'a [u8]> {
        self.bytes
    }

    /// Does it hold changes of a JSON document, not a document?
    #[inline]
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Where [`Field::bytes`] start, in bytes from the event's first byte.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The value decoded.
    ///
    /// # Errors
    ///
    /// When the stored bytes are no value of the column's type.
    #[inline]
    pub fn value(&self) -> Result<Value<'a>, DecodeError> {
        let Some(bytes) = self.bytes else { return Ok(Value::Null) };
        let value = match self.is_partial {
            true => self.column().changes(bytes),
            false => self.column().value(bytes),
        };
        value.map_err(|error| error.within(self.offset))
    }
}
