//! Row changes of one table.

use crate::cursor::{Cursor, lenenc_size, put_lenenc};
use crate::error::{DecodeError, DecodeReason, EncodeError, check_size, checked_number};
use crate::event::{BodyContext, Event, EventBody, EventType};
use crate::events::table_map::{put_table_id, table_id};
use crate::header::HEADER_SIZE;

/// Row changes of one table. The rows are not decoded here, because that needs the table map: see
/// [`RowDecoder`](crate::RowDecoder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rows<'a> {
    /// Kind of the changes. It follows from the event's type; the encoder uses only the type.
    pub kind: RowsKind,
    /// Number of the table in its table map.
    pub table_id: u64,
    /// See [`RowsFlags`].
    pub flags: RowsFlags,
    /// Extra fields of version 2 events (partitions, NDB), as written; `None` in version 1.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::optional_bytes"))]
    pub extra: Option<&'a [u8]>,
    /// Number of columns of the table.
    pub column_count: u64,
    /// Columns in the first image: the after image of an insert, the before image of an update or delete.
    pub columns: ColumnSet<'a>,
    /// Columns in the after image of an update.
    pub columns_after: Option<ColumnSet<'a>>,
    /// Rows, concatenated.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rows: &'a [u8],
}

impl Rows<'_> {
    /// Returns the offset of `column_count` from the start of the event, in the layout of servers since 5.1.4.
    pub fn columns_offset(&self) -> usize {
        HEADER_SIZE + 8 + self.extra.map_or(0, |extra| 2 + extra.len())
    }

    /// Returns the offset of `rows` from the start of the event, in the layout of servers since 5.1.4.
    pub fn rows_offset(&self) -> usize {
        let after = self.columns_after.map_or(0, |after| after.bits.len());
        self.columns_offset() + lenenc_size(self.column_count) + self.columns.bits.len() + after
    }
}

/// Kind of row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum RowsKind {
    /// Inserts: one image per row.
    Write,
    /// Updates: two images per row.
    Update,
    /// Deletes: one image per row.
    Delete,
    /// Updates with partial JSON values: two images per row.
    PartialUpdate,
}

impl RowsKind {
    /// Returns true if each row has an after image following its before image.
    pub const fn has_after(self) -> bool {
        matches!(self, Self::Update | Self::PartialUpdate)
    }
}

/// Flags of a rows event. Unknown flags are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RowsFlags(pub u16);

impl RowsFlags {
    /// Last rows event of its statement.
    pub const STATEMENT_END: Self = Self(0x1);
    /// `foreign_key_checks` was off.
    pub const NO_FOREIGN_KEY_CHECKS: Self = Self(0x2);
    /// `unique_checks` was off.
    pub const RELAXED_UNIQUE_CHECKS: Self = Self(0x4);
    /// Every row has every column.
    pub const COMPLETE_ROWS: Self = Self(0x8);
    /// SQL layer handles foreign keys instead of the engine, so that rows changed by cascades are logged. Since 9.6.
    pub const USE_SQL_FOREIGN_KEY: Self = Self(0x10);
    /// `check_constraint_checks` was off. Only in logs of MariaDB.
    pub const NO_CHECK_CONSTRAINT_CHECKS: Self = Self(0x80);

    /// Returns true if all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Columns in an image: one bit per column, low bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSet<'a> {
    /// Bits of the columns.
    pub bits: &'a [u8],
}

impl ColumnSet<'_> {
    /// Returns true if the image has this column.
    pub fn contains(&self, column: usize) -> bool {
        self.bits.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1)
    }
}

// size  field
//    6  table_id (4 if the format states a fixed part of 6 bytes)
//    2  flags
//    *  extra: size including these two bytes (2), then the fields; version 2 only
//    *  column_count: lenenc
//    *  columns
//    *  columns_after: updates only
//    *  rows: to the end of the body
impl<'a> EventBody<'a> for Rows<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: BodyContext<'_>) -> Result<Self, DecodeError> {
        let (kind, version) = shape(context);
        let table_id = table_id(cursor, context)?;
        let flags = RowsFlags(cursor.u16()?);
        let extra = match version {
            RowsVersion::One => None,
            RowsVersion::Two => Some(extra(cursor)?),
        };
        let column_count = cursor.lenenc()?;
        let set_size = set_size(column_count);
        let columns = ColumnSet { bits: cursor.bytes(set_size)? };
        let columns_after = match kind.has_after() {
            true => Some(ColumnSet { bits: cursor.bytes(set_size)? }),
            false => None,
        };
        let rows = cursor.take_rest();
        Ok(Self { kind, table_id, flags, extra, column_count, columns, columns_after, rows })
    }

    fn encode(&self, context: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let (kind, version) = shape(context);
        put_table_id(out, self.table_id, context)?;
        out.extend_from_slice(&self.flags.0.to_le_bytes());
        let extra = self.extra.unwrap_or_default();
        match version {
            RowsVersion::One => check_size("extra", extra.len(), 0)?,
            RowsVersion::Two => put_extra(out, extra)?,
        }
        put_lenenc(out, self.column_count);
        let set_size = set_size(self.column_count);
        let after = self.columns_after.map_or(&[][..], |columns| columns.bits);
        check_size("columns", self.columns.bits.len(), set_size)?;
        check_size("columns_after", after.len(), if kind.has_after() { set_size } else { 0 })?;
        out.extend_from_slice(self.columns.bits);
        out.extend_from_slice(after);
        out.extend_from_slice(self.rows);
        Ok(())
    }
}

/// Reads the extra fields. Their size includes its own two bytes.
fn extra<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let here = cursor.clone();
    let size = cursor.u16()?;
    match size.checked_sub(2) {
        Some(size) => cursor.bytes(usize::from(size)),
        None => {
            let (field, found) = ("size of the extra fields", u64::from(size));
            Err(here.error(DecodeReason::Unexpected { field, found, expected: "2 or more" }))
        }
    }
}

fn put_extra(out: &mut Vec<u8>, extra: &[u8]) -> Result<(), EncodeError> {
    let size = checked_number("size of the extra fields", extra.len() as u64 + 2, u16::MAX)?;
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(extra);
    Ok(())
}

/// Returns the size in bytes of a [`ColumnSet`].
fn set_size(column_count: u64) -> usize {
    usize::try_from(column_count.div_ceil(8)).unwrap_or(usize::MAX)
}

impl EventType {
    /// Returns the kind of row changes in events of this type; `None` for other events.
    pub const fn rows_kind(self) -> Option<RowsKind> {
        match self.rows_shape() {
            Some((kind, _)) => Some(kind),
            None => None,
        }
    }

    const fn rows_shape(self) -> Option<(RowsKind, RowsVersion)> {
        Some(match self {
            Self::WriteRowsV1 | Self::MariadbWriteRowsCompressedV1 => (RowsKind::Write, RowsVersion::One),
            Self::UpdateRowsV1 | Self::MariadbUpdateRowsCompressedV1 => (RowsKind::Update, RowsVersion::One),
            Self::DeleteRowsV1 | Self::MariadbDeleteRowsCompressedV1 => (RowsKind::Delete, RowsVersion::One),
            Self::WriteRows | Self::MariadbWriteRowsCompressed => (RowsKind::Write, RowsVersion::Two),
            Self::UpdateRows | Self::MariadbUpdateRowsCompressed => (RowsKind::Update, RowsVersion::Two),
            Self::DeleteRows | Self::MariadbDeleteRowsCompressed => (RowsKind::Delete, RowsVersion::Two),
            Self::PartialUpdateRows => (RowsKind::PartialUpdate, RowsVersion::Two),
            _ => return None,
        })
    }
}

/// Version of a rows event. Version 2 has extra fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowsVersion {
    One,
    Two,
}

/// Returns kind and version of the current event, which is always a rows event.
fn shape(context: BodyContext<'_>) -> (RowsKind, RowsVersion) {
    context.event_type.rows_shape().unwrap_or((RowsKind::Write, RowsVersion::Two))
}
impl<'a> Event<'a> {
    /// Converts version 1 rows to version 2, without extra fields; returns other events unchanged. Servers since 8.4
    /// reject version 1. The converted events need the format [`EventFormat::with_rows_v2`].
    ///
    /// [`EventFormat::with_rows_v2`]: crate::EventFormat::with_rows_v2
    #[must_use]
    pub fn with_rows_v2(self) -> Self {
        let upgraded = |rows: Rows<'a>| Rows { extra: Some(&[]), ..rows };
        match self {
            Self::WriteRowsV1(rows) => Self::WriteRows(upgraded(rows)),
            Self::UpdateRowsV1(rows) => Self::UpdateRows(upgraded(rows)),
            Self::DeleteRowsV1(rows) => Self::DeleteRows(upgraded(rows)),
            other => other,
        }
    }

    /// Returns the row changes of a rows event; `None` for MariaDB's compressed rows and other events.
    pub const fn rows(&self) -> Option<&Rows<'a>> {
        match self {
            Self::WriteRows(rows)
            | Self::UpdateRows(rows)
            | Self::DeleteRows(rows)
            | Self::PartialUpdateRows(rows)
            | Self::WriteRowsV1(rows)
            | Self::UpdateRowsV1(rows)
            | Self::DeleteRowsV1(rows) => Some(rows),
            _ => None,
        }
    }
}
