//! What a table map says of its table, resolved once so that rows can be read without it.

use crate::column::{Column, ColumnType, GeometryType, resolve};
use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::events::TableMap;
use crate::format::Flavour;

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
            if !self.take_field(field_type, &mut value, map.flavour)? {
                unknown.push(UnknownField { field_type, value: value.take_rest().into() });
            }
        }
        self.unknown = unknown.into();
        Ok(())
    }

    /// Is it a type that we know?
    fn take_field(
        &mut self,
        field_type: u8,
        value: &mut Cursor<'_>,
        flavour: Flavour,
    ) -> Result<bool, DecodeError> {
        let columns = &mut self.columns;
        match field_type {
            1 => {
                take_bits(columns, ColumnType::is_numeric, value, |column, bit| column.unsigned = Some(bit))?
            }
            2 => take_default_collation(columns, collated(flavour), value)?,
            3 => take_collations(columns, collated(flavour), value)?,
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

const fn is_geometry(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Geometry { .. })
}

const fn is_enum_or_set(column_type: ColumnType) -> bool {
    is_enum(column_type) || is_set(column_type)
}

type Kind = fn(ColumnType) -> bool;

/// The columns that collations count: MariaDB counts geometries, too (seen with 10.11).
fn collated(flavour: Flavour) -> Kind {
    match flavour {
        Flavour::MySql => ColumnType::is_character,
        Flavour::MariaDb => |kind| kind.is_character() || is_geometry(kind),
    }
}

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
    for column in of_kind(columns, is_geometry) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::Table;
    use crate::column::ColumnType;
    use crate::error::DecodeError;
    use crate::events::TableMap;
    use crate::format::Flavour;

    fn map<'a>(column_types: &'a [u8], metadata: &'a [u8], optional: &'a [u8]) -> TableMap<'a> {
        TableMap {
            table_id: 7,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types,
            metadata,
            nullable: &[],
            optional,
            flavour: Flavour::MySql,
        }
    }

    fn check_type(type_code: u8, metadata: &[u8], wanted: Result<(ColumnType, u32), &str>) {
        let table = Table::new(&map(&[type_code], metadata, &[])).map_err(|error| error.to_string());
        let found = table.map(|table| (table.columns[0].column_type, table.columns[0].metadata));
        assert_eq!(found, wanted.map_err(str::to_owned), "{type_code} {metadata:02x?}");
    }

    #[test]
    fn types_and_their_metadata() {
        check_type(3, &[], Ok((ColumnType::Int, 0)));
        check_type(4, &[4], Ok((ColumnType::Float, 4)));
        check_type(10, &[], Ok((ColumnType::Date, 0)));
        check_type(14, &[], Ok((ColumnType::Date, 0)));
        check_type(15, &[0x2c, 0x01], Ok((ColumnType::Varchar { size_max: 300 }, 300)));
        check_type(16, &[1, 2], Ok((ColumnType::Bit { bits: 17 }, 0x201)));
        check_type(16, &[0, 8], Ok((ColumnType::Bit { bits: 64 }, 0x800)));
        check_type(18, &[6], Ok((ColumnType::DateTime { fraction: 6 }, 6)));
        check_type(242, &[4], Ok((ColumnType::Vector { prefix: 4 }, 4)));
        check_type(246, &[65, 30], Ok((ColumnType::Decimal { precision: 65, scale: 30 }, 0x411e)));
        check_type(252, &[3], Ok((ColumnType::Blob { prefix: 3 }, 3)));
        check_type(140, &[2], Ok((ColumnType::CompressedBlob { prefix: 2 }, 2)));
        check_type(0, &[], Ok((ColumnType::Unknown, 0)));
        check_type(200, &[], Ok((ColumnType::Unknown, 0)));
    }

    /// One code for four types, and two bits of the size where the type has two ones.
    #[test]
    fn strings_hide_their_type_and_size() {
        check_type(254, &[254, 40], Ok((ColumnType::Char { size_max: 40 }, 0xfe28)));
        check_type(254, &[0xee, 0x2c], Ok((ColumnType::Char { size_max: 300 }, 0xee2c)));
        check_type(254, &[0xce, 0xfc], Ok((ColumnType::Char { size_max: 1020 }, 0xcefc)));
        check_type(254, &[247, 1], Ok((ColumnType::Enum { size: 1 }, 0xf701)));
        check_type(254, &[247, 2], Ok((ColumnType::Enum { size: 2 }, 0xf702)));
        check_type(254, &[248, 8], Ok((ColumnType::Set { size: 8 }, 0xf808)));
    }

    #[test]
    fn corrupt_metadata() {
        check_type(15, &[1], Err("byte 36: wanted 2 more bytes, found 1"));
        check_type(16, &[1, 8], Err("byte 36: bits of BIT is 65, must be at most 64"));
        check_type(17, &[7], Err("byte 36: digits of TIMESTAMP is 7, must be at most 6"));
        check_type(246, &[66, 0], Err("byte 36: precision of DECIMAL is 66, must be at most 65"));
        check_type(246, &[5, 6], Err("byte 37: scale of DECIMAL is 6, must be at most 5"));
        check_type(252, &[5], Err("byte 36: prefix of BLOB is 5, must be at most 4"));
        check_type(252, &[0], Err("byte 36: prefix of BLOB is 0, wanted 1"));
        check_type(254, &[247, 3], Err("byte 37: size of ENUM or SET is 3, must be at most 2"));
        check_type(254, &[250, 3], Err("byte 36: real type of a column is 250, wanted 247, 248, 253 or 254"));
    }

    /// INT, VARCHAR, DECIMAL, ENUM, TEXT, SET, YEAR, GEOMETRY, VECTOR.
    const TYPES: &[u8] = &[3, 15, 246, 254, 252, 254, 13, 255, 242];
    const METADATA: &[u8] = &[20, 0, 5, 2, 247, 1, 2, 248, 1, 4, 4];

    fn with(optional: &[u8]) -> Result<Table, DecodeError> {
        Table::new(&map(TYPES, METADATA, optional))
    }

    /// What one optional field says of each column.
    fn check(optional: &[u8], show: impl Fn(&Table) -> String, wanted: &str) {
        let shown = with(optional).map_or_else(|error| error.to_string(), |table| show(&table));
        assert_eq!(shown, wanted, "{optional:02x?}");
    }

    fn each<T: ToString>(table: &Table, get: impl Fn(&super::Column) -> Option<T>) -> String {
        let shown =
            table.columns.iter().map(|column| get(column).map_or("-".to_owned(), |of| of.to_string()));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bits_count_only_the_columns_that_have_one() {
        let unsigned = |table: &Table| each(table, |column| column.unsigned.map(u8::from));
        check(&[1, 1, 0b0110_0000], unsigned, "0 - 1 - - - 1 - -");
        check(&[1, 1, 0b1000_0000], unsigned, "1 - 0 - - - 0 - -");
        check(&[], unsigned, "- - - - - - - - -");
        let visible = |table: &Table| each(table, |column| column.visible.map(u8::from));
        check(&[12, 2, 0b1111_0111, 0b1000_0000], visible, "1 1 1 1 0 1 1 1 1");
        check(&[1, 0], unsigned, "byte 57: wanted 1 more bytes, found 0");
        check(&[1, 2, 0, 0], unsigned, "byte 58: wanted the end, found 1 more bytes");
    }

    #[test]
    fn collations_come_one_by_one_or_with_a_default() {
        let collation = |table: &Table| each(table, |column| column.collation);
        check(&[2, 3, 0xfc, 0xff, 0], collation, "- 255 - - 255 - - - 255");
        check(&[2, 5, 0xfc, 0xff, 0, 1, 63], collation, "- 255 - - 63 - - - 255");
        check(&[3, 3, 8, 45, 63], collation, "- 8 - - 45 - - - 63");
        check(&[10, 1, 45], collation, "- - - 45 - 45 - - -");
        check(&[10, 3, 45, 0, 8], collation, "- - - 8 - 45 - - -");
        check(&[11, 2, 8, 63], collation, "- - - 8 - 63 - - -");
        check(&[2, 3, 8, 3, 63], collation, "byte 58: index of a column is 3, must be at most 2");
        check(&[3, 1, 8], collation, "byte 58: wanted 1 more bytes, found 0");
        check(&[3, 5, 0xfd, 0, 0, 1, 8], collation, "byte 57: collation is 65536, must be at most 65535");
    }

    #[test]
    fn collations_of_mariadb_count_geometries() {
        let check = |optional: &[u8], wanted: &str| {
            let map = TableMap { flavour: Flavour::MariaDb, ..map(TYPES, METADATA, optional) };
            assert_eq!(
                each(&Table::new(&map).unwrap(), |column| column.collation),
                wanted,
                "{optional:02x?}"
            );
        };
        check(&[3, 4, 8, 45, 63, 64], "- 8 - - 45 - - 63 64");
        check(&[2, 5, 8, 2, 63, 3, 64], "- 8 - - 8 - - 63 64");
    }

    #[test]
    fn names_and_texts() {
        let name = |table: &Table| {
            each(table, |column| Some(String::from_utf8_lossy(column.name.as_ref()?).into_owned()))
        };
        check(b"\x04\x12\x01a\x01b\x01c\x01d\x01e\x01f\x01g\x01h\x01i", name, "a b c d e f g h i");
        check(b"\x04\x02\x01a", name, "byte 59: wanted 1 more bytes, found 0");
        let texts = |table: &Table| {
            each(table, |column| {
                let texts = column.texts.iter().map(|text| String::from_utf8_lossy(text));
                Some(texts.collect::<Vec<_>>().join(","))
            })
        };
        check(b"\x06\x05\x02\x01x\x01y", texts, "   x,y     ");
        check(b"\x05\x04\x02\x00\x01z", texts, "     ,z   ");
        check(b"\x05\x01\x00", texts, "        ");
        check(
            b"\x06\x04\xfd\x00\x00\x01",
            texts,
            "byte 57: texts of ENUM or SET is 65536, must be at most 65535",
        );
    }

    #[test]
    fn keys_and_shapes() {
        let key = |table: &Table| {
            let parts = table.primary_key.iter().flatten();
            parts.map(|part| format!("{}({})", part.column, part.prefix)).collect::<Vec<_>>().join(" ")
        };
        check(&[8, 2, 4, 0], key, "4(0) 0(0)");
        check(&[9, 4, 1, 10, 0, 0], key, "1(10) 0(0)");
        check(&[8, 1, 9], key, "byte 57: index of a column is 9, must be at most 8");
        check(&[9, 1, 1], key, "byte 58: wanted 1 more bytes, found 0");
        let shape =
            |table: &Table| each(table, |column| column.geometry_type.map(|shape| format!("{shape:?}")));
        check(&[7, 1, 1], shape, "- - - - - - - Point -");
        check(&[7, 1, 9], shape, "- - - - - - - Unknown(9) -");
        check(&[13, 3, 0xfc, 0, 1], |table| each(table, |column| column.dimension), "- - - - - - - - 256");
    }

    #[test]
    fn unknown_fields_are_kept() {
        let unknown = |table: &Table| format!("{:?}", table.unknown);
        check(
            &[99, 2, 1, 2, 1, 1, 0, 100, 0],
            unknown,
            "[UnknownField { field_type: 99, value: [1, 2] }, UnknownField { field_type: 100, value: [] }]",
        );
        check(&[99, 3, 1, 2], unknown, "byte 57: wanted 3 more bytes, found 2");
        let corrupt = map(TYPES, METADATA, &[99, 3, 1, 2]);
        assert_eq!(Table::without_optional(&corrupt).unwrap().columns.len(), 9);
    }

    #[test]
    fn no_columns_and_too_many() {
        assert_eq!(Table::new(&map(&[], &[], &[])).unwrap().columns.len(), 0);
        let types = [3; 4097];
        let error = Table::new(&map(&types, &[], &[])).unwrap_err();
        assert_eq!(error.to_string(), "byte 4134: column count is 4097, must be at most 4096");
    }

    proptest! {
        #[test]
        fn any_map_is_a_table_or_an_error(types: Vec<u8>, metadata: Vec<u8>, optional: Vec<u8>) {
            let map = map(&types, &metadata, &optional);
            if let Ok(table) = Table::new(&map) {
                assert_eq!(table.columns.len(), types.len());
                assert!(Table::without_optional(&map).is_ok());
            }
        }
    }
}
