//! Tables as a replica has them, asked for when the first change of their rows comes.

use std::collections::HashMap;

use servers::quote::is_of;
use servers::{Connection, NamedRow};

use crate::definition::{Column, Definition, Index, IndexKind, Parent, quoted};

/// Asks for a table; `None` if there is none whose pages could be touched: it is not there, or InnoDB does not hold it.
pub(crate) fn definition(
    connection: &mut Connection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<Definition>, servers::Error> {
    let condition = is_of(database, table);
    let question = format!("SELECT engine FROM information_schema.tables WHERE {condition}");
    if connection.value(&question)?.is_none_or(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
        return Ok(None);
    }
    let (Ok(database), Ok(table)) = (str::from_utf8(database), str::from_utf8(table)) else {
        return Ok(None);
    };
    let columns: Vec<Column> = connection
        .named_rows(&format!(
            "SELECT column_name, data_type, column_type, character_set_name, character_octet_length, extra
             FROM information_schema.columns WHERE {condition} ORDER BY ordinal_position"
        ))?
        .iter()
        .map(column)
        .collect();
    let hidden = hidden(connection)?;
    // Not all of its columns: to tell CARDINALITY, a server opens the table, and may store what it finds.
    let parts = connection.named_rows(&format!(
        "SELECT index_name, index_type, non_unique, column_name, sub_part, nullable, collation{hidden}
         FROM information_schema.statistics WHERE {condition}
         ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
    ))?;
    let indexes = indexes(&parts, &columns);
    let foreign = connection.named_rows(&format!(
        "SELECT k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name,
           k.referenced_column_name, r.unique_constraint_name
         FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
           ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
           AND r.table_name = k.table_name
         WHERE k.referenced_table_name IS NOT NULL AND {}
         ORDER BY k.constraint_name, k.ordinal_position",
        condition.replace("table_schema", "k.table_schema").replace("table_name", "k.table_name")
    ))?;
    let parents = foreign
        .chunk_by(|one, next| text(one, "constraint_name") == text(next, "constraint_name"))
        .filter_map(|key| parent(key, &columns))
        .collect();
    let name = format!("{}.{}", quoted(database), quoted(table));
    Ok(Some(Definition { name, columns, indexes, parents }))
}

/// The columns that say of an index that the optimizer may not use it, with commas in front: servers have one, the other
/// or none.
fn hidden(connection: &mut Connection) -> Result<String, servers::Error> {
    let names = connection.rows(
        "SELECT column_name FROM information_schema.columns
         WHERE table_schema = 'information_schema' AND table_name = 'STATISTICS'
           AND column_name IN ('IS_VISIBLE', 'IGNORED')",
    )?;
    let names = names.into_iter().flatten().flatten();
    Ok(names.map(|name| format!(", {}", String::from_utf8_lossy(&name))).collect())
}

fn column(row: &NamedRow) -> Column {
    Column {
        name: text(row, "column_name"),
        data_type: text(row, "data_type").to_ascii_lowercase(),
        is_unsigned: text(row, "column_type").to_ascii_lowercase().contains("unsigned"),
        charset: value(row, "character_set_name"),
        octets: text(row, "character_octet_length").parse().unwrap_or(0),
        is_virtual: text(row, "extra").to_ascii_lowercase().contains("virtual generated"),
    }
}

/// The clustered index first. InnoDB takes the first unique one whose columns are never NULL where there is no primary
/// key.
fn indexes(parts: &[NamedRow], columns: &[Column]) -> Vec<Index> {
    let places: HashMap<&str, usize> =
        columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), at)).collect();
    let groups = parts.chunk_by(|one, next| text(one, "index_name") == text(next, "index_name"));
    let mut indexes: Vec<Index> = groups.filter_map(|parts| index(parts, &places)).collect();
    let has_primary = indexes.iter().any(|index| index.kind == IndexKind::Clustered);
    if !has_primary && let Some(first) = indexes.iter_mut().find(|index| index.kind == IndexKind::Unique) {
        first.kind = IndexKind::Clustered;
    }
    indexes
}

/// `None` for one that a search by values of columns does not reach: it is of another kind, of expressions, of the
/// fronts of values, or the optimizer may not use it.
fn index(parts: &[NamedRow], places: &HashMap<&str, usize>) -> Option<Index> {
    let first = parts.first()?;
    let name = text(first, "index_name");
    let is_hidden = text(first, "is_visible") == "NO" || text(first, "ignored") == "YES";
    if text(first, "index_type") != "BTREE" || is_hidden {
        return None;
    }
    let column = |part: &NamedRow| {
        let is_whole = value(part, "sub_part").is_none();
        places.get(text(part, "column_name").as_str()).copied().filter(|_| is_whole)
    };
    let columns = parts.iter().map(column).collect::<Option<Vec<_>>>()?;
    let is_unique = text(first, "non_unique") == "0";
    let is_nullable = parts.iter().any(|part| text(part, "nullable") == "YES");
    let kind = match (name == "PRIMARY", is_unique && !is_nullable) {
        (true, _) => IndexKind::Clustered,
        (_, true) => IndexKind::Unique,
        (_, false) => IndexKind::Plain,
    };
    let is_descending = parts.iter().any(|part| text(part, "collation") == "D");
    Some(Index { name, kind, columns, is_unique, is_descending })
}

/// `None` if what it refers to has no name.
fn parent(key: &[NamedRow], columns: &[Column]) -> Option<Parent> {
    let first = key.first()?;
    let at = |row: &NamedRow| columns.iter().position(|column| column.name == text(row, "column_name"));
    Some(Parent {
        table: format!(
            "{}.{}",
            quoted(&text(first, "referenced_table_schema")),
            quoted(&text(first, "referenced_table_name"))
        ),
        index: value(first, "unique_constraint_name")?,
        names: key.iter().map(|row| text(row, "referenced_column_name")).collect(),
        columns: key.iter().map(at).collect::<Option<Vec<_>>>()?,
    })
}

/// Servers differ in how they write the names.
fn value(row: &NamedRow, name: &str) -> Option<String> {
    let (_, value) = row.iter().find(|(column, _)| column.eq_ignore_ascii_case(name))?;
    value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Empty for NULL.
fn text(row: &NamedRow, name: &str) -> String {
    value(row, name).unwrap_or_default()
}
