//! Decoding of rows events: prepared once per table and column set, then row by row.

use std::borrow::Cow;
use std::sync::Arc;

use crate::column::Column;
use crate::column_type::{ColumnType, ValueSize};
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::events::{ColumnSet, Rows, RowsKind};
use crate::json::{JsonChanges, JsonDocument};
use crate::table::Table;
use crate::value::{Value, ValueDecoder};

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

/// Decoder for the images of one table with the same columns.
///
/// | size | field |
/// |---|---|
/// | lenenc | options, only in the after image of a partial update; bit 0: the next field is present |
/// | one bit per JSON column of the table | 1 for columns with changes instead of a document |
/// | one bit per column of the image | 1 for NULL |
/// | | values of the other columns, in order |
#[derive(Clone, Debug)]
pub struct ImageDecoder {
    table: Arc<Table>,
    /// Column set of the images.
    column_set: Box<[u8]>,
    columns: Box<[ImageColumn]>,
    /// Runs of an image without NULLs.
    runs: Box<[ColumnRun]>,
    /// Offsets of the first values, in bytes after the NULL bits, of an image without NULLs: up to the first value with
    /// a length prefix.
    fixed_offsets: Box<[u32]>,
    null_size: usize,
    /// Bits of the last NULL byte that belong to columns. Servers set the other bits arbitrarily.
    null_mask: u8,
    partial: PartialJson,
    /// Size in bytes of the field that marks JSON columns with changes.
    partial_size: usize,
}

/// Presence of JSON changes in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartialJson {
    Never,
    Allowed,
}

/// One column of an image.
#[derive(Clone, Copy, Debug)]
struct ImageColumn {
    value_decoder: ValueDecoder,
    /// Index in the table, which has at most 4096 columns.
    column: u16,
    /// Index among the table's JSON columns.
    json: Option<u16>,
    /// Size of a fixed-size value in bytes; 0 for values with a length prefix.
    fixed: u8,
    /// Size of the length prefix in bytes; 0 for fixed-size values.
    prefix: u8,
}

/// Consecutive fixed-size columns, and possibly one column with a length prefix after them.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnRun {
    fixed: u32,
    prefix: u8,
}

impl ImageDecoder {
    fn new(table: Arc<Table>, columns: &ColumnSet<'_>, partial: PartialJson) -> Result<Self, DecodeReason> {
        let mut image_columns = Vec::new();
        let mut json = 0;
        for (index, column) in table.columns.iter().enumerate() {
            let is_json = matches!(column.column_type, ColumnType::Json { .. });
            if columns.contains(index) {
                image_columns.push(ImageColumn::new(index, is_json.then_some(json), column)?);
            }
            json += u16::from(is_json);
        }
        let null_size = image_columns.len().div_ceil(8);
        let null_mask = match image_columns.len() % 8 {
            0 => 0xff,
            used => (1 << used) - 1,
        };
        Ok(Self {
            column_set: columns.bits.into(),
            runs: runs(&image_columns),
            fixed_offsets: fixed_offsets(&image_columns),
            columns: image_columns.into(),
            null_size,
            null_mask,
            partial,
            partial_size: usize::from(json).div_ceil(8),
            table,
        })
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the number of columns an image has.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the bytes after the image at the front of `bytes`; `None` if it is truncated.
    #[inline]
    fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match self.partial {
            PartialJson::Never => self.skip_plain(bytes),
            PartialJson::Allowed => self.skip_partial(bytes),
        }
    }

    fn skip_partial<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut cursor = Cursor::new(bytes);
        self.take_options(&mut cursor).ok()?;
        self.skip_plain(cursor.rest())
    }

    #[inline(always)]
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
        for (index, column) in self.columns.iter().enumerate() {
            if !bit(nulls, index) {
                rest = skip_value(rest.get(usize::from(column.fixed)..)?, column.prefix)?;
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

    /// Reads the options, and returns the bits that mark JSON columns with changes.
    fn take_options<'a>(&self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
        const PARTIAL_JSON: u64 = 1;
        let offset = cursor.offset();
        match cursor.lenenc()? {
            0 => Ok(&[]),
            PARTIAL_JSON => cursor.bytes(self.partial_size),
            options => {
                let (field, found) = ("options of a row", options);
                Err(DecodeError::new(offset, DecodeReason::OutOfRange { field, found, max: PARTIAL_JSON }))
            }
        }
    }

    /// Skips an image field by field.
    fn walk(&self, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
        if self.partial == PartialJson::Allowed {
            self.take_options(cursor)?;
        }
        let nulls = cursor.bytes(self.null_size)?;
        for (index, column) in self.columns.iter().enumerate() {
            if bit(nulls, index) {
                continue;
            }
            let size = match column.prefix {
                0 => u64::from(column.fixed),
                1 => u64::from(cursor.u8()?),
                2 => u64::from(cursor.u16()?),
                3 => u64::from(cursor.u24()?),
                _ => u64::from(cursor.u32()?),
            };
            match usize::try_from(size) {
                Ok(size) => drop(cursor.bytes(size)?),
                Err(_) => {
                    return Err(
                        cursor.error(DecodeReason::Short { expected: size, found: cursor.rest().len() })
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns true if images take no bytes at all.
    fn is_sizeless(&self) -> bool {
        self.columns.is_empty() && self.partial == PartialJson::Never
    }
}

impl ImageColumn {
    fn new(index: usize, json: Option<u16>, column: &Column) -> Result<Self, DecodeReason> {
        let (fixed, prefix) = match column.column_type.value_size() {
            ValueSize::Fixed(size) => (size, 0),
            ValueSize::Prefixed(prefix) => (0, prefix),
            ValueSize::Unknown => {
                let found = u64::from(column.type_code);
                return Err(DecodeReason::Unexpected {
                    field: "column type",
                    found,
                    expected: "a type of known size",
                });
            }
        };
        Ok(Self { value_decoder: column.value_decoder(), column: index as u16, json, fixed, prefix })
    }
}

fn runs(columns: &[ImageColumn]) -> Box<[ColumnRun]> {
    let mut runs = Vec::new();
    let mut run = ColumnRun::default();
    for column in columns {
        run.fixed += u32::from(column.fixed);
        if column.prefix > 0 {
            runs.push(ColumnRun { prefix: column.prefix, ..run });
            run = ColumnRun::default();
        }
    }
    if run.fixed > 0 {
        runs.push(run);
    }
    runs.into()
}

fn fixed_offsets(columns: &[ImageColumn]) -> Box<[u32]> {
    let mut next = 0;
    let offsets = columns.iter().take_while(|column| column.prefix == 0).map(|column| {
        let offset = next;
        next += u32::from(column.fixed);
        offset
    });
    offsets.collect()
}

/// Returns the bytes after a value with a length prefix of `prefix` bytes; all of `bytes` if `prefix` is 0.
#[inline]
fn skip_value(bytes: &[u8], prefix: u8) -> Option<&[u8]> {
    if prefix == 0 {
        return Some(bytes);
    }
    split_sized(bytes, prefix).map(|(_, rest)| rest)
}

/// Splits a value with a length prefix of `prefix` (1 to 4) bytes from the rest.
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

/// Before or after image of a row: the values of the columns in the event.
#[derive(Clone, Copy, Debug)]
pub struct RowImage<'d, 'a> {
    decoder: &'d ImageDecoder,
    /// Whole image: see [`ImageDecoder`].
    bytes: &'a [u8],
    /// Offset of the end of the image in the event.
    end: usize,
}

impl<'d, 'a> RowImage<'d, 'a> {
    /// Creates an image from the bytes before `tail`. `bytes` end at offset `end` of the event.
    #[inline(always)]
    fn new(decoder: &'d ImageDecoder, bytes: &'a [u8], tail: &'a [u8], end: usize) -> Self {
        Self { decoder, bytes: &bytes[..bytes.len() - tail.len()], end: end - tail.len() }
    }

    /// Returns the bytes of the image.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset of the image in the event.
    pub const fn offset(&self) -> usize {
        self.end - self.bytes.len()
    }

    /// Returns the table of the row.
    pub fn table(&self) -> &'d Table {
        &self.decoder.table
    }

    /// Returns the column with this index in the table; `None` if the event omits it.
    #[inline]
    pub fn field(&self, column: usize) -> Option<RowField<'d, 'a>> {
        self.fixed_field(column).or_else(|| self.fields().find(|field| field.index() == column))
    }

    /// Returns a column whose offset is the same in all images without NULLs and with all columns before it; `None` for
    /// other columns and images.
    #[inline]
    fn fixed_field(&self, column: usize) -> Option<RowField<'d, 'a>> {
        let decoder = self.decoder;
        let (offset, image_column) = (*decoder.fixed_offsets.get(column)?, decoder.columns.get(column)?);
        let (nulls, values) = self.bytes.split_at_checked(decoder.null_size)?;
        let is_fixed = usize::from(image_column.column) == column
            && decoder.partial == PartialJson::Never
            && !decoder.has_null(nulls);
        let bytes =
            values.get(offset as usize..)?.get(..usize::from(image_column.fixed)).filter(|_| is_fixed)?;
        let offset = self.end - values.len() + offset as usize;
        Some(RowField { decoder, image_column, is_partial: false, bytes: Some(bytes), offset })
    }

    /// Returns the columns in order, without omitted ones.
    #[inline]
    pub fn fields(&self) -> FieldIter<'d, 'a> {
        let (partial, bytes) = match self.decoder.partial {
            PartialJson::Never => (&[][..], self.bytes),
            PartialJson::Allowed => self.options(),
        };
        // Images are complete by construction.
        let (nulls, rest) = bytes.split_at_checked(self.decoder.null_size).unwrap_or_default();
        let columns = self.decoder.columns.iter();
        FieldIter {
            decoder: self.decoder,
            columns,
            partial,
            nulls: NullBits::new(nulls),
            rest,
            end: self.end,
        }
    }

    /// Returns the bits that mark JSON columns with changes, and the bytes after them.
    fn options(&self) -> (&'a [u8], &'a [u8]) {
        let mut cursor = Cursor::new(self.bytes);
        let partial = self.decoder.take_options(&mut cursor).unwrap_or_default();
        (partial, cursor.rest())
    }
}

/// Iterator over NULL bits.
#[derive(Clone, Debug)]
struct NullBits<'a> {
    /// Next bits, the lowest first.
    word: u64,
    /// Number of bits left in the word.
    left: u8,
    rest: &'a [u8],
}

impl<'a> NullBits<'a> {
    #[inline]
    fn new(bits: &'a [u8]) -> Self {
        match bits {
            [only] => Self { word: u64::from(*only), left: 8, rest: &[] },
            rest => Self { word: 0, left: 0, rest },
        }
    }

    #[inline]
    fn next(&mut self) -> bool {
        if self.left == 0 {
            self.refill();
        }
        let is_null = self.word & 1 == 1;
        self.word >>= 1;
        self.left = self.left.wrapping_sub(1);
        is_null
    }

    fn refill(&mut self) {
        let (bytes, rest) = self.rest.split_at(self.rest.len().min(8));
        self.word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.left = 64;
        self.rest = rest;
    }
}

/// Iterator over the columns of an image.
#[derive(Clone, Debug)]
pub struct FieldIter<'d, 'a> {
    decoder: &'d ImageDecoder,
    columns: std::slice::Iter<'d, ImageColumn>,
    partial: &'a [u8],
    nulls: NullBits<'a>,
    rest: &'a [u8],
    end: usize,
}

impl<'d, 'a> Iterator for FieldIter<'d, 'a> {
    type Item = RowField<'d, 'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let column = self.columns.next()?;
        let bytes = match (self.nulls.next(), column.prefix) {
            (true, _) => None,
            (false, 0) => {
                let (bytes, rest) = self.rest.split_at_checked(usize::from(column.fixed))?;
                self.rest = rest;
                Some(bytes)
            }
            (false, prefix) => {
                let (bytes, rest) = split_sized(self.rest, prefix)?;
                self.rest = rest;
                Some(bytes)
            }
        };
        let offset = self.end - self.rest.len() - bytes.map_or(0, <[u8]>::len);
        let is_partial = match self.partial {
            [] => false,
            partial => column.json.is_some_and(|json| bit(partial, usize::from(json))),
        };
        Some(RowField { decoder: self.decoder, image_column: column, is_partial, bytes, offset })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.columns.size_hint()
    }
}

/// Images are complete by construction: there is a field for each column.
impl ExactSizeIterator for FieldIter<'_, '_> {}

/// Value of one column in one image, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct RowField<'d, 'a> {
    decoder: &'d ImageDecoder,
    image_column: &'d ImageColumn,
    is_partial: bool,
    bytes: Option<&'a [u8]>,
    offset: usize,
}

impl<'d, 'a> RowField<'d, 'a> {
    /// Returns the index of the column in the table.
    #[inline]
    pub const fn index(&self) -> usize {
        self.image_column.column as usize
    }

    /// Returns the column.
    #[inline]
    pub fn column(&self) -> &'d Column {
        &self.decoder.table.columns[self.index()]
    }

    /// Returns the stored value without the length prefix; `None` for NULL.
    #[inline]
    pub const fn bytes(&self) -> Option<&'a [u8]> {
        self.bytes
    }

    /// Appends a value of this column as images store it: the length prefix, if the type has one, then `bytes`. Returns
    /// false and appends nothing if the bytes do not fit the type's size.
    #[must_use]
    pub fn put_value(&self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let ImageColumn { fixed, prefix, .. } = *self.image_column;
        if prefix == 0 {
            if bytes.len() != usize::from(fixed) {
                return false;
            }
        } else {
            let size = (bytes.len() as u64).to_le_bytes();
            let (written, rest) = size.split_at(usize::from(prefix).min(size.len()));
            if rest.iter().any(|byte| *byte != 0) {
                return false;
            }
            out.extend_from_slice(written);
        }
        out.extend_from_slice(bytes);
        true
    }

    /// Returns true if the value holds changes to a JSON document, not a document.
    #[inline]
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Returns the offset of [`RowField::bytes`] in the event.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Decodes the value.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no value of the column's type.
    #[inline]
    pub fn value(&self) -> Result<Value<'a>, DecodeError> {
        let Some(bytes) = self.bytes else { return Ok(Value::Null) };
        let value = match self.is_partial {
            true => JsonChanges::new(bytes).map(Value::JsonChanges),
            false => self.image_column.value_decoder.value(bytes),
        };
        value.map_err(|error| error.within(self.offset))
    }
}

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
        partial(&with(&[2]), "byte 33: options of a row is 2, must be at most 1");
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
