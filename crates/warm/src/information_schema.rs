//! Loading of table definitions from a replica, when the first change of their rows comes.

use std::collections::HashMap;

use servers::{NamedRow, SqlConnection};
use sql::quote::{quote_table, table_condition};

use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaForeignKey, ReplicaIndex, ReplicaTable};

/// Name of the primary key.
const PRIMARY: &str = "PRIMARY";

/// Loads a table's definition; `None` if the table does not exist, or is not an InnoDB table.
pub(crate) fn load_table(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<ReplicaTable>, servers::ConnectionError> {
    let condition = table_condition(database, table);
    let question = format!("SELECT engine FROM information_schema.tables WHERE {condition}");
    if connection.value(&question)?.is_none_or(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
        return Ok(None);
    }
    let (Ok(database), Ok(table)) = (str::from_utf8(database), str::from_utf8(table)) else {
        return Ok(None);
    };
    let columns: Vec<ReplicaColumn> = connection
        .named_rows(&format!(
            "SELECT column_name, data_type, column_type, character_set_name, character_octet_length, extra
             FROM information_schema.columns WHERE {condition} ORDER BY ordinal_position"
        ))?
        .iter()
        .map(column)
        .collect();
    let hidden = visibility_columns(connection)?;
    // Not CARDINALITY: to read it, the server opens the table, and may store new statistics.
    let parts = connection.named_rows(&format!(
        "SELECT index_name, index_type, non_unique, column_name, sub_part, nullable, collation{hidden}
         FROM information_schema.statistics WHERE {condition}
         ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
    ))?;
    let name = quote_table(database, table);
    let clustered = clustered(connection, &name, clustered_candidates(&parts))?;
    let indexes = indexes(&parts, &columns, clustered.as_deref());
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
        .filter_map(|key| foreign_key(key, &columns))
        .collect();
    Ok(Some(ReplicaTable { name, columns, indexes, foreign_keys: parents }))
}

/// Returns the columns that mark an index as invisible to the optimizer, each after a comma. Servers have one of them,
/// or none.
fn visibility_columns(connection: &mut SqlConnection) -> Result<String, servers::ConnectionError> {
    let names = connection.rows(
        "SELECT column_name FROM information_schema.columns
         WHERE table_schema = 'information_schema' AND table_name = 'STATISTICS'
           AND column_name IN ('IS_VISIBLE', 'IGNORED')",
    )?;
    let names = names.into_iter().flatten().flatten();
    Ok(names.map(|name| format!(", {}", String::from_utf8_lossy(&name))).collect())
}

fn column(row: &NamedRow) -> ReplicaColumn {
    ReplicaColumn {
        name: text(row, "column_name"),
        data_type: text(row, "data_type").to_ascii_lowercase(),
        is_unsigned: text(row, "column_type").to_ascii_lowercase().contains("unsigned"),
        charset: value(row, "character_set_name"),
        octets: text(row, "character_octet_length").parse().unwrap_or(0),
        is_virtual: text(row, "extra").to_ascii_lowercase().contains("virtual generated"),
    }
}

/// Returns the candidates for the clustered index: the primary key, even if it cannot be searched; otherwise all unique
/// indexes of whole NOT NULL columns.
fn clustered_candidates(parts: &[NamedRow]) -> Vec<String> {
    let name = |parts: &[NamedRow]| parts.first().map(|part| text(part, "index_name")).unwrap_or_default();
    let is_key = |part: &NamedRow| {
        let is_whole = value(part, "column_name").is_some() && value(part, "sub_part").is_none();
        is_whole && text(part, "non_unique") == "0" && text(part, "nullable") != "YES"
    };
    let groups = by_index(parts);
    match groups.iter().map(|parts| name(parts)).find(|name| name == PRIMARY) {
        Some(primary) => vec![primary],
        None => groups.iter().filter(|parts| parts.iter().all(is_key)).map(|parts| name(parts)).collect(),
    }
}

/// Returns the clustered index. InnoDB chooses the first candidate in the order of the table's definition.
fn clustered(
    connection: &mut SqlConnection,
    table: &str,
    mut candidates: Vec<String>,
) -> Result<Option<String>, servers::ConnectionError> {
    if candidates.len() < 2 {
        return Ok(candidates.pop());
    }
    // Without further privileges, only SHOW INDEX returns that order. It reads statistics, too, but does not store
    // them, because the session is read only.
    let ordered = connection.named_rows(&format!("SHOW INDEX FROM {table}"))?;
    Ok(ordered.iter().map(|part| text(part, "key_name")).find(|name| candidates.contains(name)))
}

/// Returns the indexes that can be searched.
fn indexes(parts: &[NamedRow], columns: &[ReplicaColumn], clustered: Option<&str>) -> Vec<ReplicaIndex> {
    let places: HashMap<&str, usize> =
        columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), at)).collect();
    by_index(parts).into_iter().filter_map(|parts| index(parts, &places, clustered)).collect()
}

fn by_index(parts: &[NamedRow]) -> Vec<&[NamedRow]> {
    parts.chunk_by(|one, next| text(one, "index_name") == text(next, "index_name")).collect()
}

/// Returns an index. `None` if column values cannot search it: it is no B-tree, has expressions or prefixes, or is
/// invisible to the optimizer.
fn index(parts: &[NamedRow], places: &HashMap<&str, usize>, clustered: Option<&str>) -> Option<ReplicaIndex> {
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
    let kind = match (clustered == Some(name.as_str()), is_unique && !is_nullable) {
        (true, _) => IndexKind::Clustered,
        (_, true) => IndexKind::Unique,
        (_, false) => IndexKind::Plain,
    };
    let is_descending = parts.iter().any(|part| text(part, "collation") == "D");
    Some(ReplicaIndex { name, kind, columns, is_unique, is_descending })
}

/// Returns a foreign key; `None` if the index that it refers to has no name.
fn foreign_key(key: &[NamedRow], columns: &[ReplicaColumn]) -> Option<ReplicaForeignKey> {
    let first = key.first()?;
    let at = |row: &NamedRow| columns.iter().position(|column| column.name == text(row, "column_name"));
    Some(ReplicaForeignKey {
        table: quote_table(&text(first, "referenced_table_schema"), &text(first, "referenced_table_name")),
        index: value(first, "unique_constraint_name")?,
        parent_columns: key.iter().map(|row| text(row, "referenced_column_name")).collect(),
        columns: key.iter().map(at).collect::<Option<Vec<_>>>()?,
    })
}

/// Returns a value by column name. Servers differ in the case of names.
fn value(row: &NamedRow, name: &str) -> Option<String> {
    let (_, value) = row.iter().find(|(column, _)| column.eq_ignore_ascii_case(name))?;
    value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Returns a value as text; empty for NULL.
fn text(row: &NamedRow, name: &str) -> String {
    value(row, name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use servers::NamedRow;

    use super::{clustered_candidates, indexes};
    use crate::replica_table::{IndexKind, ReplicaColumn};

    /// A part of an index; `front` is its prefix length.
    fn part(name: &str, column: &str, front: Option<&str>, is_unique: bool, is_nullable: bool) -> NamedRow {
        let values = [
            ("INDEX_NAME", Some(name)),
            ("INDEX_TYPE", Some("BTREE")),
            ("COLUMN_NAME", Some(column)),
            ("SUB_PART", front),
            ("NON_UNIQUE", Some(if is_unique { "0" } else { "1" })),
            ("NULLABLE", Some(if is_nullable { "YES" } else { "" })),
        ];
        let owned = |value: &str| value.as_bytes().to_vec();
        values.into_iter().map(|(name, value)| (name.to_owned(), value.map(owned))).collect()
    }

    #[test]
    fn clustered_index_is_primary_key_or_first_unique() {
        let unique = |name| part(name, "a", None, true, false);
        let plain = part("k", "a", None, false, false);
        let check = |parts: &[NamedRow], wanted: &[&str]| assert_eq!(clustered_candidates(parts), wanted);
        check(&[unique("PRIMARY"), plain.clone(), unique("u")], &["PRIMARY"]);
        check(&[part("PRIMARY", "name", Some("20"), true, false), unique("u")], &["PRIMARY"]);
        check(&[plain.clone(), unique("u"), unique("v")], &["u", "v"]);
        check(&[part("u", "a", None, true, true), part("v", "a", Some("3"), true, false), plain], &[]);
    }

    #[test]
    fn only_the_clustered_index_is_marked_clustered() {
        let columns =
            ["name", "a"].map(|name| ReplicaColumn { name: name.into(), ..ReplicaColumn::default() });
        let parts = [part("PRIMARY", "name", Some("20"), true, false), part("u", "a", None, true, false)];
        let kinds = |clustered| -> Vec<IndexKind> {
            indexes(&parts, &columns, clustered).iter().map(|index| index.kind).collect()
        };
        assert_eq!(kinds(Some("PRIMARY")), [IndexKind::Unique]);
        assert_eq!(kinds(Some("u")), [IndexKind::Clustered]);
    }
}
