//! Table definitions from table maps, decoded as mysqlbinlog decodes them: up to the first error.

use binlog::events::TableMap;
use binlog::{Column, ColumnType, Cursor, GeometryType, KeyPart, Table};

/// The optional fields, not assigned to columns yet.
#[derive(Default)]
struct OptionalFields {
    unsigned: Vec<bool>,
    text_default: Option<CollationDefaults>,
    text: Vec<u32>,
    names: Vec<Vec<u8>>,
    set_texts: Vec<Vec<Vec<u8>>>,
    enum_texts: Vec<Vec<Vec<u8>>>,
    geometries: Vec<u32>,
    key: Vec<KeyPart>,
    choice_default: Option<CollationDefaults>,
    choice: Vec<u32>,
    visible: Vec<bool>,
    dimensions: Vec<u32>,
}

/// A default collation, and the columns with other collations.
struct CollationDefaults {
    default: u32,
    /// The other columns: index among the columns of the same kind, and collation.
    others: Vec<(u32, u32)>,
}

/// Decodes a table as far as possible; `None` if its column types are invalid.
pub(crate) fn loose_table(map: &TableMap<'_>) -> Option<Table> {
    let mut table = Table::without_optional(map).ok()?;
    let mut fields = OptionalFields::default();
    let mut cursor = Cursor::new(map.optional);
    while fields.read_one(&mut cursor).is_some() {}
    fields.assign_to(&mut table);
    Some(table)
}

fn lenenc_u32(cursor: &mut Cursor<'_>) -> Option<u32> {
    match cursor.rest().first()? {
        251 => cursor.u8().ok().map(|_| u32::MAX),
        255 => {
            cursor.u8().ok()?;
            cursor.u64().ok().map(|number| number as u32)
        }
        _ => cursor.lenenc().ok().map(|number| number as u32),
    }
}

impl OptionalFields {
    /// Reads one field. Like mysqlbinlog, it lets the last value extend beyond the end of the field.
    fn read_one(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let kind = cursor.u8().ok()?;
        let size = lenenc_u32(cursor)? as usize;
        let end = cursor.offset().saturating_add(size);
        match kind {
            1 => read_bits(cursor, size, &mut self.unsigned)?,
            2 => read_default(cursor, end, &mut self.text_default)?,
            3 => read_numbers(cursor, end, &mut self.text)?,
            4 => {
                while cursor.offset() < end {
                    self.names.push(read_text(cursor)?);
                }
            }
            5 => read_texts(cursor, end, &mut self.set_texts)?,
            6 => read_texts(cursor, end, &mut self.enum_texts)?,
            7 => read_numbers(cursor, end, &mut self.geometries)?,
            8 => {
                while cursor.offset() < end {
                    let column = lenenc_u32(cursor);
                    self.key.push(KeyPart { column: column.unwrap_or(0) as usize, prefix: 0 });
                    column?;
                }
            }
            9 => {
                while cursor.offset() < end {
                    let (column, prefix) = (lenenc_u32(cursor)? as usize, lenenc_u32(cursor)?.into());
                    self.key.push(KeyPart { column, prefix });
                }
            }
            10 => read_default(cursor, end, &mut self.choice_default)?,
            11 => read_numbers(cursor, end, &mut self.choice)?,
            12 => read_bits(cursor, size, &mut self.visible)?,
            13 => read_numbers(cursor, end, &mut self.dimensions)?,
            // mysqlbinlog takes the value of an unknown field for the next field.
            _ => {}
        }
        Some(())
    }

    fn assign_to(self, table: &mut Table) {
        let is_enum = |kind: ColumnType| matches!(kind, ColumnType::Enum { .. });
        let is_set = |kind: ColumnType| matches!(kind, ColumnType::Set { .. });
        let columns = &mut *table.columns;
        assign(columns, ColumnType::is_numeric, self.unsigned, |column, bit| column.unsigned = Some(bit));
        assign(columns, |_| true, self.names, |column, name| column.name = Some(name.into()));
        assign(columns, |_| true, self.visible, |column, bit| column.visible = Some(bit));
        for (kind, texts) in
            [(&is_enum as ColumnTypePredicate<'_>, self.enum_texts), (&is_set, self.set_texts)]
        {
            assign(columns, kind, texts, |column, texts| {
                column.texts = texts.into_iter().map(Into::into).collect();
            });
        }
        assign_collations(columns, &ColumnType::is_character, self.text_default, self.text);
        assign_collations(columns, &|kind| is_enum(kind) || is_set(kind), self.choice_default, self.choice);
        assign(
            columns,
            |kind| matches!(kind, ColumnType::Geometry { .. }),
            self.geometries,
            |column, code| column.geometry_type = Some(geometry(code)),
        );
        assign(
            columns,
            |kind| matches!(kind, ColumnType::Vector { .. }),
            self.dimensions,
            |column, size| column.dimension = Some(size),
        );
        table.primary_key = (!self.key.is_empty()).then(|| self.key.into());
    }
}

type ColumnTypePredicate<'k> = &'k dyn Fn(ColumnType) -> bool;

/// Assigns one value to each column of a kind, as long as there are values.
fn assign<T>(
    columns: &mut [Column],
    kind: impl Fn(ColumnType) -> bool,
    values: Vec<T>,
    mut give: impl FnMut(&mut Column, T),
) {
    let of_kind = columns.iter_mut().filter(|column| kind(column.column_type));
    of_kind.zip(values).for_each(|(column, value)| give(column, value));
}

fn assign_collations(
    columns: &mut [Column],
    kind: ColumnTypePredicate<'_>,
    default: Option<CollationDefaults>,
    all: Vec<u32>,
) {
    let Some(collations) = default.filter(|collations| collations.default != 0) else {
        return assign(columns, kind, all, |column, number| column.collation = number.try_into().ok());
    };
    let mut others = collations.others.into_iter().peekable();
    let of_kind = columns.iter_mut().filter(|column| kind(column.column_type));
    for (index, column) in of_kind.enumerate() {
        let other = others.next_if(|(other, _)| *other as usize == index);
        column.collation = other.map_or(collations.default, |(_, number)| number).try_into().ok();
    }
}

fn read_bits(cursor: &mut Cursor<'_>, size: usize, bits: &mut Vec<bool>) -> Option<()> {
    for _ in 0..size {
        let byte = cursor.u8().ok()?;
        bits.extend((0..8).rev().map(|bit| byte >> bit & 1 == 1));
    }
    Some(())
}

fn read_default(cursor: &mut Cursor<'_>, end: usize, into: &mut Option<CollationDefaults>) -> Option<()> {
    let others = into.take().map_or_else(Vec::new, |before| before.others);
    let collations = into.insert(CollationDefaults { default: 0, others });
    collations.default = lenenc_u32(cursor)?;
    while cursor.offset() < end {
        collations.others.push((lenenc_u32(cursor)?, lenenc_u32(cursor)?));
    }
    Some(())
}

/// Reads numbers up to `end`. Like mysqlbinlog, appends 0 for a number that cannot be read, and then stops.
fn read_numbers(cursor: &mut Cursor<'_>, end: usize, numbers: &mut Vec<u32>) -> Option<()> {
    while cursor.offset() < end {
        let number = lenenc_u32(cursor);
        numbers.push(number.unwrap_or(0));
        number?;
    }
    Some(())
}

fn read_texts(cursor: &mut Cursor<'_>, end: usize, all: &mut Vec<Vec<Vec<u8>>>) -> Option<()> {
    while cursor.offset() < end {
        let count = lenenc_u32(cursor)?;
        all.push(Vec::new());
        for _ in 0..count {
            let text = read_text(cursor)?;
            all.last_mut()?.push(text);
        }
    }
    Some(())
}

fn read_text(cursor: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let size = lenenc_u32(cursor)? as usize;
    cursor.bytes(size).ok().map(<[u8]>::to_vec)
}

fn geometry(code: u32) -> GeometryType {
    match code {
        0 => GeometryType::Geometry,
        1 => GeometryType::Point,
        2 => GeometryType::LineString,
        3 => GeometryType::Polygon,
        4 => GeometryType::MultiPoint,
        5 => GeometryType::MultiLineString,
        6 => GeometryType::MultiPolygon,
        7 => GeometryType::GeometryCollection,
        other => GeometryType::Unknown(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::TableMap;

    use super::loose_table;
    use crate::table_metadata::put_table_metadata;

    /// Checks a table of four columns: INT, VARCHAR(20), ENUM, GEOMETRY.
    fn check(optional: &[u8], expected: &str) {
        let map = TableMap {
            table_id: 71,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types: &[3, 15, 254, 255],
            metadata: &[20, 0, 247, 1, 4],
            nullable: &[0xff],
            optional,
            flavour: Flavour::MySql,
        };
        let mut out = Vec::new();
        put_table_metadata(&mut out, &loose_table(&map).unwrap());
        assert_eq!(String::from_utf8_lossy(&out), expected, "{optional:02x?}");
    }

    #[test]
    fn damaged_metadata_is_shown_as_far_as_it_decodes() {
        check(&[], "# Columns(INT,\n#         VARBINARY(20),\n#         ENUM,\n#         GEOMETRY)\n");
        // One name of four columns, and a truncated second one.
        check(
            &[4, 9, 1, b'a', 7, b'b'],
            "# Columns(`a` INT,\n#         VARBINARY(20),\n#         ENUM,\n#         GEOMETRY)\n",
        );
        // Two bytes of bits although one is enough; then a field of an unknown type, whose value is taken for a field.
        check(
            &[1, 2, 0x80, 0, 99, 3, 7, 1, 1],
            "# Columns(INT UNSIGNED,\n#         VARBINARY(20),\n#         ENUM,\n#         POINT)\n",
        );
        // The default, then exceptions by index; an exception out of order is ignored.
        check(
            &[2, 5, 8, 1, 45, 0, 45],
            "# Columns(INT,\n#         VARCHAR(20) CHARSET latin1 COLLATE latin1_swedish_ci,\n\
             #         ENUM,\n#         GEOMETRY)\n",
        );
    }
}
