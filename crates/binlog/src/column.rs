//! One column of a table map.

use crate::column_type::{ColumnType, ResolvedType};

/// One column of a table, as described by its table map.
///
/// Fields that a server omits at `binlog_row_metadata=MINIMAL` (names, keys, texts) are `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Type of the values, sizes included.
    pub column_type: ColumnType,
    /// The type code as written: 254 for CHAR, ENUM and SET alike.
    pub type_code: u8,
    /// The type's metadata as one number, as `mysqlbinlog -vv` shows it (`meta=`).
    pub metadata: u32,
    /// True if the column may be NULL.
    pub nullable: bool,
    /// True if unsigned. Numeric columns only, and not in logs older than 8.0.1.
    pub unsigned: Option<bool>,
    /// Number of the collation. Character columns, ENUM and SET only.
    pub collation: Option<u16>,
    /// Name of the column.
    pub name: Option<Box<[u8]>>,
    /// The texts of an ENUM or SET, in the column's character set; index 0 is value 1 (ENUM), bit 0 (SET).
    pub texts: Box<[Box<[u8]>]>,
    /// True if `SELECT *` shows the column.
    pub visible: Option<bool>,
    /// Subtype of a geometry column.
    pub geometry_type: Option<GeometryType>,
    /// Largest number of entries in a value. Vector columns only.
    pub dimension: Option<u32>,
}

impl Column {
    /// Creates a NOT NULL column without the facts of optional metadata.
    pub(crate) fn new(type_code: u8, resolved: ResolvedType) -> Self {
        Self {
            column_type: resolved.column_type,
            type_code,
            metadata: resolved.metadata,
            nullable: false,
            unsigned: None,
            collation: None,
            name: None,
            texts: Box::default(),
            visible: None,
            geometry_type: None,
            dimension: None,
        }
    }
}

/// Subtype of a geometry column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum GeometryType {
    /// GEOMETRY: any shape.
    Geometry,
    /// POINT.
    Point,
    /// LINESTRING.
    LineString,
    /// POLYGON.
    Polygon,
    /// MULTIPOINT.
    MultiPoint,
    /// MULTILINESTRING.
    MultiLineString,
    /// MULTIPOLYGON.
    MultiPolygon,
    /// GEOMETRYCOLLECTION.
    GeometryCollection,
    /// Any other code.
    Unknown(u64),
}

impl GeometryType {
    pub(crate) const fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Geometry,
            1 => Self::Point,
            2 => Self::LineString,
            3 => Self::Polygon,
            4 => Self::MultiPoint,
            5 => Self::MultiLineString,
            6 => Self::MultiPolygon,
            7 => Self::GeometryCollection,
            unknown => Self::Unknown(unknown),
        }
    }
}
