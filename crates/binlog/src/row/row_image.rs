//! Image of a row, and its values.

use super::image_decoder::{ImageColumn, ImageDecoder, PartialJson, bit, split_sized};
use crate::column::Column;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::json::JsonChanges;
use crate::table::Table;
use crate::value::Value;

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
    pub(super) fn new(decoder: &'d ImageDecoder, bytes: &'a [u8], tail: &'a [u8], end: usize) -> Self {
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
