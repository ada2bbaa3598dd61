//! Decoder of row images: finds the ends of images and the places of their values.

use std::sync::Arc;

use crate::column::Column;
use crate::column_type::{ColumnType, ValueSize};
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::events::ColumnSet;
use crate::table::Table;
use crate::value::ValueDecoder;

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
    pub(super) table: Arc<Table>,
    /// Column set of the images.
    pub(super) column_set: Box<[u8]>,
    pub(super) columns: Box<[ImageColumn]>,
    /// Runs of an image without NULLs.
    runs: Box<[ColumnRun]>,
    /// Offsets of the first values, in bytes after the NULL bits, of an image without NULLs: up to the first value with
    /// a length prefix.
    pub(super) fixed_offsets: Box<[u32]>,
    pub(super) null_size: usize,
    /// Bits of the last NULL byte that belong to columns. Servers set the other bits arbitrarily.
    null_mask: u8,
    pub(super) partial: PartialJson,
    /// Size in bytes of the field that marks JSON columns with changes.
    partial_size: usize,
}

/// Presence of JSON changes in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialJson {
    Never,
    Allowed,
}

/// One column of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageColumn {
    pub(super) value_decoder: ValueDecoder,
    /// Index in the table, which has at most 4096 columns.
    pub(super) column: u16,
    /// Index among the table's JSON columns.
    pub(super) json: Option<u16>,
    /// Size of a fixed-size value in bytes; 0 for values with a length prefix.
    pub(super) fixed: u8,
    /// Size of the length prefix in bytes; 0 for fixed-size values.
    pub(super) prefix: u8,
}

/// Consecutive fixed-size columns, and possibly one column with a length prefix after them.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnRun {
    fixed: u32,
    prefix: u8,
}

impl ImageDecoder {
    pub(super) fn new(
        table: Arc<Table>,
        columns: &ColumnSet<'_>,
        partial: PartialJson,
    ) -> Result<Self, DecodeReason> {
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
    pub(super) fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
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
    pub(super) fn has_null(&self, nulls: &[u8]) -> bool {
        match nulls {
            [] => false,
            [only] => only & self.null_mask != 0,
            [all @ .., last] => last & self.null_mask != 0 || all.iter().any(|byte| *byte != 0),
        }
    }

    /// Reads the options, and returns the bits that mark JSON columns with changes.
    pub(super) fn take_options<'a>(&self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
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
    pub(super) fn walk(&self, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
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
    pub(super) fn is_sizeless(&self) -> bool {
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
pub(super) fn split_sized(bytes: &[u8], prefix: u8) -> Option<(&[u8], &[u8])> {
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
pub(super) fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}
