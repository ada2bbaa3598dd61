//! What a table map says of its table, resolved once so that rows can be read without it.

use crate::column::{Column, ColumnType, GeometryType, resolve};
use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::events::TableMap;

/// No server's tables have more columns. Bounds what a map can make us allocate.
const COLUMNS_MAX: usize = 4096;

/// An ENUM has no more texts. Bounds what a map can make us allocate.
const TEXTS_MAX: u64 = 65_535;

/// What a table map says of its table.
///
/// ```
/// # use bintide_binlog::{Table, events::TableMap};
/// # fn show(map: &TableMap<'_>) -> Result<(), bintide_binlog::DecodeError> {
/// let table = Table::new(map)?;
/// for column in &table.columns {
///     println!("{:?} {:?}", column.name, column.column_type);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// The number that rows events name the table by.
    pub table_id: u64,
    /// See the constants of [`TableMap`].
    pub flags: u16,
    /// The database.
    pub database: Box<[u8]>,
    /// The table's name.
    pub name: Box<[u8]>,
    /// Its columns, in order.
    pub columns: Box<[Column]>,
    /// Its primary key, in key order; `None` when it has none or the server did not log it (it does at
    /// `binlog_row_metadata=FULL`).
    pub primary_key: Option<Box<[KeyPart]>>,
    /// Optional fields of types that this crate does not know, as written.
    pub unknown: Box<[UnknownField]>,
}

/// One column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyPart {
    /// Which column of the table, from 0.
    pub column: usize,
    /// How many characters of it are in the key; 0 for all.
    pub prefix: u64,
}

/// An optional field of a type that this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnknownField {
    /// Its type.
    pub field_type: u8,
    /// Its value.
    pub value: Box<[u8]>,
}

impl Table {
    /// Everything that the map says.
    ///
    /// # Errors
    ///
    /// When a column's metadata or an optional field cannot be what it says. Offsets count from the event's first
    /// byte, as for a map that [`TableMap::optional_offset`] describes.
    pub fn new(map: &TableMap<'_>) -> Result<Self, DecodeError> {
        let mut table = Self::without_optional(map)?;
        table.take_optional(map)?;
        Ok(table)
    }

    /// What the map says without its optional fields: enough to walk rows. For maps whose optional fields are
    /// corrupt.
    ///
    /// # Errors
    ///
    /// When a column's metadata cannot be what it says.
    pub fn without_optional(map: &TableMap<'_>) -> Result<Self, DecodeError> {
        let count = map.column_types.len();
        if count > COLUMNS_MAX {
            let (found, max) = (count as u64, COLUMNS_MAX as u64);
            let offset = map.metadata_offset();
            return Err(DecodeError::new(offset, Reason::OutOfRange { field: "column count", found, max }));
        }
        let mut metadata = Cursor::at(map.metadata, map.metadata_offset());
        let mut columns = Vec::with_capacity(count);
        for (index, &type_code) in map.column_types.iter().enumerate() {
            let resolved = resolve(type_code, &mut metadata)?;
            let nullable = map.nullable.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            columns.push(Column {
                column_type: resolved.column_type,
                type_code,
                metadata: resolved.metadata,
                nullable,
                unsigned: None,
                collation: None,
                name: None,
                texts: Box::default(),
                visible: None,
                geometry_type: None,
                dimension: None,
            });
        }
        Ok(Self {
            table_id: map.table_id,
            flags: map.flags,
            database: map.database.into(),
            name: map.table.into(),
            columns: columns.into(),
            primary_key: None,
            unknown: Box::default(),
        })
    }

    /// A table without columns, for events that do nothing but end a statement.
    pub(crate) fn nameless(table_id: u64) -> Self {
        Self {
            table_id,
            flags: 0,
            database: Box::default(),
            name: Box::default(),
            columns: Box::default(),
            primary_key: None,
            unknown: Box::default(),
        }
    }

    /// Does the first column hold a primary key that the server made up (`my_row_id`)?
    pub const fn has_generated_key(&self) -> bool {
        self.flags & TableMap::GENERATED_INVISIBLE_PRIMARY_KEY != 0
    }

    // size  field
    //    1  type
    //    *  size: lenenc
    //    *  value
    fn take_optional(&mut self, map: &TableMap<'_>) -> Result<(), DecodeError> {
        let mut fields = Cursor::at(map.optional, map.optional_offset());
        let mut unknown = Vec::new();
        while !fields.is_empty() {
            let field_type = fields.u8()?;
            let value = fields.lenenc_bytes()?;
            let mut value = Cursor::at(value, fields.offset() - value.len());
            if !self.take_field(field_type, &mut value)? {
                unknown.push(UnknownField { field_type, value: value.take_rest().into() });
            }
        }
        self.unknown = unknown.into();
        Ok(())
    }

    /// Is it a type that we know?
    fn take_field(&mut self, field_type: u8, value: &mut Cursor<'_>) -> Result<bool, DecodeError> {
        let columns = &mut self.columns;
        match field_type {
            1 => {
                take_bits(columns, ColumnType::is_numeric, value, |column, bit| column.unsigned = Some(bit))?
            }
            2 => take_default_collation(columns, ColumnType::is_character, value)?,
            3 => take_collations(columns, ColumnType::is_character, value)?,
            4 => take_names(columns, value)?,
            5 => take_texts(columns, is_set, value)?,
            6 => take_texts(columns, is_enum, value)?,
            7 => take_geometry_types(columns, value)?,
            8 => self.primary_key = Some(take_key(columns, value, Prefixes::Absent)?),
            9 => self.primary_key = Some(take_key(columns, value, Prefixes::Present)?),
            10 => take_default_collation(columns, is_enum_or_set, value)?,
            11 => take_collations(columns, is_enum_or_set, value)?,
            12 => take_bits(columns, |_| true, value, |column, bit| column.visible = Some(bit))?,
            13 => take_dimensions(columns, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

const fn is_enum(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Enum { .. })
}

const fn is_set(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Set { .. })
}

const fn is_enum_or_set(column_type: ColumnType) -> bool {
    is_enum(column_type) || is_set(column_type)
}

type Kind = fn(ColumnType) -> bool;

fn of_kind(columns: &mut [Column], kind: Kind) -> impl Iterator<Item = &mut Column> {
    columns.iter_mut().filter(move |column| kind(column.column_type))
}

/// A bit for each column of the kind, high bit first.
fn take_bits(
    columns: &mut [Column],
    kind: Kind,
    value: &mut Cursor<'_>,
    set: impl Fn(&mut Column, bool),
) -> Result<(), DecodeError> {
    let count = columns.iter().filter(|column| kind(column.column_type)).count();
    let bits = value.bytes(count.div_ceil(8))?;
    for (index, column) in of_kind(columns, kind).enumerate() {
        set(column, bits[index / 8] >> (7 - index % 8) & 1 == 1);
    }
    value.finish()
}

/// The collation of most columns of the kind, then which of them have another one.
fn take_default_collation(
    columns: &mut [Column],
    kind: Kind,
    value: &mut Cursor<'_>,
) -> Result<(), DecodeError> {
    let default = collation(value)?;
    for column in of_kind(columns, kind) {
        column.collation = Some(default);
    }
    let mut of_kind: Vec<&mut Column> = of_kind(columns, kind).collect();
    while !value.is_empty() {
        let index = index(value, of_kind.len())?;
        of_kind[index].collation = Some(collation(value)?);
    }
    Ok(())
}

/// A collation for each column of the kind.
fn take_collations(columns: &mut [Column], kind: Kind, value: &mut Cursor<'_>) -> Result<(), DecodeError> {
    for column in of_kind(columns, kind) {
        column.collation = Some(collation(value)?);
    }
    value.finish()
}

fn take_names(columns: &mut [Column], value: &mut Cursor<'_>) -> Result<(), DecodeError> {
    for column in columns {
        column.name = Some(value.lenenc_bytes()?.into());
    }
    value.finish()
}

/// For each column of the kind: how many texts, then the texts.
fn take_texts(columns: &mut [Column], kind: Kind, value: &mut Cursor<'_>) -> Result<(), DecodeError> {
    for column in of_kind(columns, kind) {
        let offset = value.offset();
        let count = value.lenenc()?;
        if count > TEXTS_MAX {
            let reason = Reason::OutOfRange { field: "texts of ENUM or SET", found: count, max: TEXTS_MAX };
            return Err(DecodeError::new(offset, reason));
        }
        // Grown by what is there, not by what the count claims.
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(value.lenenc_bytes()?.into());
        }
        column.texts = texts.into();
    }
    value.finish()
}

fn take_geometry_types(columns: &mut [Column], value: &mut Cursor<'_>) -> Result<(), DecodeError> {
    for column in of_kind(columns, |kind| matches!(kind, ColumnType::Geometry { .. })) {
        column.geometry_type = Some(GeometryType::from_code(value.lenenc()?));
    }
    value.finish()
}

fn take_dimensions(columns: &mut [Column], value: &mut Cursor<'_>) -> Result<(), DecodeError> {
    for column in of_kind(columns, |kind| matches!(kind, ColumnType::Vector { .. })) {
        let offset = value.offset();
        let found = value.lenenc()?;
        let max = u64::from(u32::MAX);
        let dimension = u32::try_from(found).map_err(|_| {
            DecodeError::new(offset, Reason::OutOfRange { field: "dimension of VECTOR", found, max })
        })?;
        column.dimension = Some(dimension);
    }
    value.finish()
}

enum Prefixes {
    Absent,
    Present,
}

fn take_key(
    columns: &[Column],
    value: &mut Cursor<'_>,
    prefixes: Prefixes,
) -> Result<Box<[KeyPart]>, DecodeError> {
    let mut parts = Vec::new();
    while !value.is_empty() {
        let column = index(value, columns.len())?;
        let prefix = match prefixes {
            Prefixes::Absent => 0,
            Prefixes::Present => value.lenenc()?,
        };
        parts.push(KeyPart { column, prefix });
    }
    Ok(parts.into())
}

fn index(value: &mut Cursor<'_>, count: usize) -> Result<usize, DecodeError> {
    let offset = value.offset();
    let found = value.lenenc()?;
    usize::try_from(found).ok().filter(|index| *index < count).ok_or_else(|| {
        let max = (count as u64).saturating_sub(1);
        DecodeError::new(offset, Reason::OutOfRange { field: "index of a column", found, max })
    })
}

fn collation(value: &mut Cursor<'_>) -> Result<u16, DecodeError> {
    let offset = value.offset();
    let found = value.lenenc()?;
    let max = u64::from(u16::MAX);
    u16::try_from(found)
        .map_err(|_| DecodeError::new(offset, Reason::OutOfRange { field: "collation", found, max }))
}
