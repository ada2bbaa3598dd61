//! Table map: name and columns of the table in the rows events that follow.

use crate::cursor::{Cursor, lenenc_size, put_lenenc};
use crate::error::{DecodeError, EncodeError, check_size, checked_number};
use crate::event::{BodyContext, EventBody};
use crate::format::Flavour;
use crate::header::HEADER_SIZE;

/// Table map: name and columns of the table in the rows events that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableMap<'a> {
    /// Number of the table in rows events, until the end of the statement.
    pub table_id: u64,
    /// Flags; see the constants of this type.
    pub flags: u16,
    /// Name of the database.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub database: &'a [u8],
    /// Name of the table.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub table: &'a [u8],
    /// Type code of each column.
    pub column_types: &'a [u8],
    /// Type-dependent metadata of each column, concatenated.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub metadata: &'a [u8],
    /// One bit per column, low bit first: 1 if the column may be NULL.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub nullable: &'a [u8],
    /// Optional fields of type, size and value (1, lenenc, size): signedness, collations, names, keys.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub optional: &'a [u8],
    /// Server family, because MySQL and MariaDB count different columns in `optional`.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub flavour: Flavour,
}

impl TableMap<'_> {
    /// Returns the offset of `metadata` from the start of the event, in the layout of servers since 5.1.4.
    pub const fn metadata_offset(&self) -> usize {
        let names = 4 + self.database.len() + self.table.len();
        let types = lenenc_size(self.column_types.len() as u64) + self.column_types.len();
        HEADER_SIZE + 8 + names + types + lenenc_size(self.metadata.len() as u64)
    }

    /// Returns the offset of `optional` from the start of the event, in the layout of servers since 5.1.4.
    pub const fn optional_offset(&self) -> usize {
        self.metadata_offset() + self.metadata.len() + self.nullable.len()
    }

    /// Flag: the sizes of BIT columns are exact. Always set.
    pub const BIT_SIZE_EXACT: u16 = 1;
    /// Flag: a foreign key refers to a table in another database.
    pub const REFERRED_FOREIGN_KEY_DATABASE: u16 = 2;
    /// Flag: the first column is a generated invisible primary key.
    pub const GENERATED_INVISIBLE_PRIMARY_KEY: u16 = 4;
}

// size  field
//    6  table_id (4 if the format states a fixed part of 6 bytes)
//    2  flags
//    1  size of database, then database, then 0
//    1  size of table, then table, then 0
//    *  number of columns: lenenc
//    *  column_types
//    *  size of metadata: lenenc, then metadata
//    *  nullable
//    *  optional: to the end of the body
impl<'a> EventBody<'a> for TableMap<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: BodyContext<'_>) -> Result<Self, DecodeError> {
        let table_id = table_id(cursor, context)?;
        let flags = cursor.u16()?;
        let database = name(cursor)?;
        let table = name(cursor)?;
        let column_types = cursor.lenenc_bytes()?;
        let metadata = cursor.lenenc_bytes()?;
        let nullable = cursor.bytes(column_types.len().div_ceil(8))?;
        let optional = cursor.take_rest();
        let flavour = context.format.flavour;
        Ok(Self { table_id, flags, database, table, column_types, metadata, nullable, optional, flavour })
    }

    fn encode(&self, context: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        check_size("nullable", self.nullable.len(), self.column_types.len().div_ceil(8))?;
        put_table_id(out, self.table_id, context)?;
        out.extend_from_slice(&self.flags.to_le_bytes());
        for name in [self.database, self.table] {
            put_lenenc(out, name.len() as u64);
            out.extend_from_slice(name);
            out.push(0);
        }
        put_lenenc(out, self.column_types.len() as u64);
        out.extend_from_slice(self.column_types);
        put_lenenc(out, self.metadata.len() as u64);
        out.extend_from_slice(self.metadata);
        out.extend_from_slice(self.nullable);
        out.extend_from_slice(self.optional);
        Ok(())
    }
}

/// Reads the number of a table: 6 bytes, or 4 if the format states a fixed part of 6 bytes.
pub(crate) fn table_id(cursor: &mut Cursor<'_>, context: BodyContext<'_>) -> Result<u64, DecodeError> {
    match table_id_size(context) {
        4 => cursor.u32().map(u64::from),
        _ => cursor.u48(),
    }
}

/// Appends the number of a table as [`table_id`] reads it.
pub(crate) fn put_table_id(out: &mut Vec<u8>, id: u64, context: BodyContext<'_>) -> Result<(), EncodeError> {
    let size = table_id_size(context);
    checked_number("table_id", id, (1_u64 << (8 * size)) - 1)?;
    out.extend_from_slice(&id.to_le_bytes()[..size]);
    Ok(())
}

fn table_id_size(context: BodyContext<'_>) -> usize {
    match context.format.post_header_size(context.event_type) {
        Some(6) => 4,
        _ => 6,
    }
}

fn name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let name = cursor.lenenc_bytes()?;
    cursor.u8()?;
    Ok(name)
}
