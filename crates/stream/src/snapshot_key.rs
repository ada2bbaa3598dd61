//! SQL that reads a table in the order of its primary key, a part at a time.

use sql::quote::{quote_name, quote_table};

use crate::column_catalogue::{ColumnSchema, TableSchema};
use crate::snapshot_column::SqlType;

/// Key of a row as SQL literals, in the order of the primary key.
pub type KeyLiterals = Vec<String>;

/// Part of a table to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkBounds {
    /// Last key that was read.
    pub after: Option<KeyLiterals>,
    /// Largest key to read.
    pub end: Option<KeyLiterals>,
    /// Maximum number of rows.
    pub rows_max: usize,
}

impl TableSchema {
    /// Returns the columns of the primary key; `None` if there is none.
    fn key_columns(&self) -> Option<Vec<&ColumnSchema>> {
        let column = |name: &String| self.columns.iter().find(|column| column.name == *name);
        let columns: Vec<&ColumnSchema> = self.primary_key.iter().map(column).collect::<Option<_>>()?;
        (!columns.is_empty()).then_some(columns)
    }

    /// Returns the query of a part of the table; `None` if it has no primary key. Each row has all columns of the table, and
    /// then those of its key. The session must use UTF-8 and the time zone UTC.
    pub fn chunk_sql(&self, [database, table]: [&str; 2], bounds: &ChunkBounds) -> Option<String> {
        let key = self.key_columns()?;
        let mut shown: Vec<String> = self.columns.iter().map(ColumnSchema::select_expression).collect();
        shown.extend(key.iter().map(|column| key_expression(column)));
        let mut conditions = Vec::new();
        conditions.extend(bounds.after.as_ref().map(|after| comparison(&key, after, [">", ">"])));
        conditions.extend(bounds.end.as_ref().map(|end| comparison(&key, end, ["<", "<="])));
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let order: Vec<String> = key.iter().map(|column| quote_name(&column.name)).collect();
        let (table, rows_max) = (quote_table(database, table), bounds.rows_max);
        let (shown, order) = (shown.join(", "), order.join(", "));
        Some(format!("SELECT {shown} FROM {table}{condition} ORDER BY {order} LIMIT {rows_max}"))
    }

    /// Returns the query of the largest key; `None` if the table has no primary key.
    pub fn last_key_sql(&self, [database, table]: [&str; 2]) -> Option<String> {
        let key = self.key_columns()?;
        let shown: Vec<String> = key.iter().map(|column| key_expression(column)).collect();
        let order: Vec<String> =
            key.iter().map(|column| format!("{} DESC", quote_name(&column.name))).collect();
        let (table, shown, order) = (quote_table(database, table), shown.join(", "), order.join(", "));
        Some(format!("SELECT {shown} FROM {table} ORDER BY {order} LIMIT 1"))
    }

    /// Returns the key at the end of a row as SQL literals; `None` if a value is not of its column's type.
    pub fn key_literals(&self, row: &[Option<Vec<u8>>]) -> Option<KeyLiterals> {
        let key = self.key_columns()?;
        let values = row.get(row.len().checked_sub(key.len())?..)?;
        key.iter().zip(values).map(|(column, value)| literal(column, value.as_deref()?)).collect()
    }
}

/// Returns the expression that a key is read by.
fn key_expression(column: &ColumnSchema) -> String {
    if is_compared_by_number(column) { operand(column) } else { column.select_expression() }
}

/// Returns the expression that a key is compared by. ENUM and SET are in the order of their numbers, not of their texts.
fn operand(column: &ColumnSchema) -> String {
    let name = quote_name(&column.name);
    if is_compared_by_number(column) { format!("({name} + 0)") } else { name }
}

fn is_compared_by_number(column: &ColumnSchema) -> bool {
    matches!(&*column.data_type, "enum" | "set" | "bit")
}

/// Returns a comparison of keys: `operators` compare the columns before the last one, and the last one.
fn comparison(key: &[&ColumnSchema], literals: &[String], [before, last]: [&str; 2]) -> String {
    let mut alternatives = Vec::new();
    for count in 0..key.len() {
        let equal = key.iter().zip(literals).take(count);
        let mut parts: Vec<String> =
            equal.map(|(column, literal)| format!("{} = {literal}", operand(column))).collect();
        let operator = if count + 1 == key.len() { last } else { before };
        let literal = literals.get(count).map_or("NULL", String::as_str);
        parts.push(format!("{} {operator} {literal}", operand(key[count])));
        alternatives.push(parts.join(" AND "));
    }
    format!("({})", alternatives.join(" OR "))
}

/// Returns the SQL literal of a value that was read; `None` if it is not of its column's type.
fn literal(column: &ColumnSchema, value: &[u8]) -> Option<String> {
    let text = || std::str::from_utf8(value).ok();
    let checked = |allowed: &str| {
        let is_allowed = |c: char| c.is_ascii_digit() || allowed.contains(c);
        text().filter(|text| !text.is_empty() && text.chars().all(is_allowed)).map(str::to_owned)
    };
    let hex = || value.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    if matches!(&*column.data_type, "enum" | "set") {
        return checked("");
    }
    match SqlType::from_column(column) {
        SqlType::Int | SqlType::UInt | SqlType::Decimal | SqlType::Year | SqlType::Bit(_) => checked("+-."),
        SqlType::Float | SqlType::Double => {
            checked("+-.eE").map(|number| match number.contains(['e', 'E']) {
                true => number,
                // Otherwise it would be a DECIMAL, which has another range.
                false => format!("{number}e0"),
            })
        }
        SqlType::Date | SqlType::Time | SqlType::DateTime | SqlType::Timestamp => {
            checked("-:. ").map(|time| format!("'{time}'"))
        }
        SqlType::Text => text().map(|_| format!("_utf8mb4 X'{}'", hex())),
        SqlType::Bytes => Some(format!("X'{}'", hex())),
        SqlType::Set | SqlType::Json | SqlType::Geometry | SqlType::Vector => None,
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkBounds;
    use crate::column_catalogue::{ColumnSchema, TableSchema};

    fn table(columns: &[&str], key: &[&str]) -> TableSchema {
        let column = |definition: &&str| {
            let (name, data_type) = definition.split_once(' ').unwrap();
            let [name, column_type] = [name, data_type].map(str::to_owned);
            let data_type = data_type.split(['(', ' ']).next().unwrap().to_owned();
            ColumnSchema { name, column_type, data_type, ..ColumnSchema::default() }
        };
        TableSchema {
            columns: columns.iter().map(column).collect(),
            primary_key: key.iter().map(|name| (*name).to_owned()).collect(),
            ..TableSchema::default()
        }
    }

    #[test]
    fn chunks_follow_the_primary_key() {
        let check = |columns: &[&str], key: &[&str], after: Option<&[&str]>, end: &[&str], expected: &str| {
            let owned = |literals: &[&str]| literals.iter().map(|text| (*text).to_owned()).collect();
            let bounds = ChunkBounds { after: after.map(owned), end: Some(owned(end)), rows_max: 5 };
            let sql = table(columns, key).chunk_sql(["d", "t"], &bounds);
            assert_eq!(sql.as_deref(), Some(expected));
        };
        let columns = ["a int", "b enum('x')", "c text"];
        check(
            &columns,
            &["a"],
            None,
            &["9"],
            "SELECT `a`, `b`, `c`, `a` FROM `d`.`t` WHERE (`a` <= 9) ORDER BY `a` LIMIT 5",
        );
        check(
            &columns,
            &["b", "a"],
            Some(&["1", "7"]),
            &["2", "9"],
            "SELECT `a`, `b`, `c`, (`b` + 0), `a` FROM `d`.`t` WHERE ((`b` + 0) > 1 OR (`b` + 0) = 1 AND `a` > 7) \
             AND ((`b` + 0) < 2 OR (`b` + 0) = 2 AND `a` <= 9) ORDER BY `b`, `a` LIMIT 5",
        );
        check(
            &["u uuid"],
            &["u"],
            None,
            &["X'00FF'"],
            "SELECT CAST(`u` AS BINARY(16)), CAST(`u` AS BINARY(16)) FROM `d`.`t` WHERE (`u` <= X'00FF') \
             ORDER BY `u` LIMIT 5",
        );
        let bounds = ChunkBounds { after: None, end: None, rows_max: 5 };
        assert_eq!(table(&columns, &[]).chunk_sql(["d", "t"], &bounds), None);
        assert_eq!(
            table(&columns, &["b", "a"]).last_key_sql(["d", "t"]).as_deref(),
            Some("SELECT (`b` + 0), `a` FROM `d`.`t` ORDER BY `b` DESC, `a` DESC LIMIT 1")
        );
    }

    #[test]
    fn keys_are_literals_that_select_the_same_row() {
        let check = |column: &str, value: &[u8], expected: Option<&str>| {
            let table = table(&[column], &["a"]);
            let row = [None, Some(value.to_vec())];
            let found = table.key_literals(&row).map(|literals| literals.concat());
            assert_eq!(found.as_deref(), expected, "{column}");
        };
        check("a int", b"-7", Some("-7"));
        check("a int", b"7; DROP", None);
        check("a bigint unsigned", b"18446744073709551615", Some("18446744073709551615"));
        check("a decimal(5,2)", b"-1.50", Some("-1.50"));
        check("a double", b"1e300", Some("1e300"));
        check("a float", b"1.5", Some("1.5e0"));
        check("a datetime(3)", b"2026-11-21 10:00:00.123", Some("'2026-11-21 10:00:00.123'"));
        check("a varchar(9)", "ü'".as_bytes(), Some("_utf8mb4 X'C3BC27'"));
        check("a varchar(9)", b"", Some("_utf8mb4 X''"));
        check("a varbinary(9)", b"\xff\x00", Some("X'FF00'"));
        check("a inet4", b"\x01\x02\x03\x00", Some("X'01020300'"));
        check("a enum('x','y')", b"2", Some("2"));
        check("a bit(7)", b"5", Some("5"));
    }
}
