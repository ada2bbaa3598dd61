//! Families of data types, by the names in `information_schema.columns.data_type`.

/// Integer types.
pub const INTEGER_TYPES: [&str; 5] = ["tinyint", "smallint", "mediumint", "int", "bigint"];

/// Types whose values are bytes without a character set.
pub const BINARY_TYPES: [&str; 6] = ["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"];

/// Types of MariaDB that SQL shows as text and logs contain as bytes, and the number of these bytes.
const FIXED_BYTE_TYPES: [(&str, usize); 3] = [("uuid", 16), ("inet6", 16), ("inet4", 4)];

/// Returns the number of bytes that a log contains for a value of UUID, INET6 or INET4; `None` for other types.
pub fn fixed_byte_size(data_type: &str) -> Option<usize> {
    FIXED_BYTE_TYPES.iter().find(|(name, _)| *name == data_type).map(|(_, size)| *size)
}

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
