//! Families of data types, by the names in `information_schema.columns.data_type`.

/// Integer types.
pub const INTEGER_TYPES: [&str; 5] = ["tinyint", "smallint", "mediumint", "int", "bigint"];

/// Types whose values are bytes without a character set.
pub const BINARY_TYPES: [&str; 6] = ["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"];

/// TEXT and BLOB types. Servers may store their values outside of the row.
pub const BLOB_TYPES: [&str; 8] =
    ["tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext"];

/// Types of geometries. MySQL 8.0 reports `geomcollection`, other servers `geometrycollection`.
pub const GEOMETRY_TYPES: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
];
