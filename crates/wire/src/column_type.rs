//! Type codes of columns and parameters in the protocol: `enum_field_types` of `include/field_types.h`.

/// Defines the constants.
macro_rules! column_types {
    ($($code:literal, $name:ident;)*) => {
        $(#[doc = concat!("`MYSQL_TYPE_", stringify!($name), "`.")] pub const $name: u8 = $code;)*
    };
}

column_types! {
    0, DECIMAL;
    1, TINY;
    2, SHORT;
    3, LONG;
    4, FLOAT;
    5, DOUBLE;
    6, NULL;
    7, TIMESTAMP;
    8, LONGLONG;
    9, INT24;
    10, DATE;
    11, TIME;
    12, DATETIME;
    13, YEAR;
    15, VARCHAR;
    16, BIT;
    242, VECTOR;
    244, BOOL;
    245, JSON;
    246, NEWDECIMAL;
    247, ENUM;
    248, SET;
    249, TINY_BLOB;
    250, MEDIUM_BLOB;
    251, LONG_BLOB;
    252, BLOB;
    253, VAR_STRING;
    254, STRING;
    255, GEOMETRY;
}
