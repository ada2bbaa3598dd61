//! Loading of table definitions from a replica, at the first change of their rows.

use std::collections::HashMap;

use servers::{ServerCatalogue, ServerColumn, ServerForeignKey, ServerIndexPart, SqlConnection};
use sql::quote::quote_table;

use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaForeignKey, ReplicaIndex, ReplicaTable};

/// Name of the primary key.
const PRIMARY: &str = "PRIMARY";

/// Loads a table's definition; `None` if the table does not exist, or is not an InnoDB table.
pub(crate) fn load_table(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<ReplicaTable>, servers::ConnectionError> {
    let mut catalogue = ServerCatalogue::new(connection);
    let engine = catalogue.table(database, table)?.and_then(|table| table.engine);
    if engine.is_none_or(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
        return Ok(None);
    }
    let columns: Vec<ReplicaColumn> =
        catalogue.columns(database, table)?.into_iter().map(ReplicaColumn::new).collect();
    let parts = catalogue.index_parts(database, table)?;
    let hidden = catalogue.invisible_indexes(database, table)?;
    let (Ok(database), Ok(table)) = (str::from_utf8(database), str::from_utf8(table)) else {
        return Ok(None);
    };
    let candidates = clustered_candidates(&parts);
    let clustered = clustered(&mut catalogue, database, table, candidates)?;
    let mut indexes = indexes(&parts, &columns, clustered.as_deref());
    indexes.retain(|index| !hidden.contains(&index.name));
    let keys = catalogue.foreign_keys(database.as_bytes(), table.as_bytes())?;
    let foreign_keys = keys.into_iter().filter_map(|key| foreign_key(key, &columns)).collect();
    Ok(Some(ReplicaTable { name: quote_table(database, table), columns, indexes, foreign_keys }))
}

impl ReplicaColumn {
    fn new(column: ServerColumn) -> Self {
        Self {
            is_unsigned: column.is_unsigned(),
            is_virtual: column.is_virtual(),
            octets: usize::try_from(column.octets).unwrap_or(usize::MAX),
            name: column.name,
            data_type: column.data_type,
            charset: column.charset,
        }
    }
}

/// Returns the candidates for the clustered index: the primary key, even if it cannot be searched; otherwise all unique
/// indexes of whole NOT NULL columns.
fn clustered_candidates(parts: &[ServerIndexPart]) -> Vec<String> {
    let name = |parts: &[ServerIndexPart]| parts[0].index.clone();
    let is_key = |part: &ServerIndexPart| {
        part.column.is_some() && part.prefix.is_none() && part.is_unique && !part.is_nullable
    };
    let groups = by_index(parts);
    match groups.iter().map(|parts| name(parts)).find(|name| name == PRIMARY) {
        Some(primary) => vec![primary],
        None => groups.iter().filter(|parts| parts.iter().all(is_key)).map(|parts| name(parts)).collect(),
    }
}

/// Returns the clustered index. InnoDB chooses the first candidate in the order of the table's definition.
fn clustered(
    catalogue: &mut ServerCatalogue<'_>,
    database: &str,
    table: &str,
    mut candidates: Vec<String>,
) -> Result<Option<String>, servers::ConnectionError> {
    if candidates.len() < 2 {
        return Ok(candidates.pop());
    }
    let ordered = catalogue.defined_indexes(database, table)?;
    Ok(ordered.into_iter().find(|name| candidates.contains(name)))
}

/// Returns the indexes that can be searched.
fn indexes(
    parts: &[ServerIndexPart],
    columns: &[ReplicaColumn],
    clustered: Option<&str>,
) -> Vec<ReplicaIndex> {
    let column_indexes: HashMap<&str, usize> =
        columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), at)).collect();
    by_index(parts).into_iter().filter_map(|parts| index(parts, &column_indexes, clustered)).collect()
}

/// Returns the parts of each index, none of them empty.
fn by_index(parts: &[ServerIndexPart]) -> Vec<&[ServerIndexPart]> {
    parts.chunk_by(|one, next| one.index == next.index).collect()
}

/// Returns an index. `None` if column values cannot search it: it is no B-tree, or has expressions or prefixes.
fn index(
    parts: &[ServerIndexPart],
    column_indexes: &HashMap<&str, usize>,
    clustered: Option<&str>,
) -> Option<ReplicaIndex> {
    let first = parts.first().filter(|part| part.index_type == "BTREE")?;
    let column = |part: &ServerIndexPart| {
        let name = part.column.as_deref().filter(|_| part.prefix.is_none())?;
        column_indexes.get(name).copied()
    };
    let columns = parts.iter().map(column).collect::<Option<Vec<_>>>()?;
    let is_nullable = parts.iter().any(|part| part.is_nullable);
    let kind = match (clustered == Some(first.index.as_str()), first.is_unique && !is_nullable) {
        (true, _) => IndexKind::Clustered,
        (_, true) => IndexKind::Unique,
        (_, false) => IndexKind::Plain,
    };
    let is_descending = parts.iter().any(|part| part.is_descending);
    Some(ReplicaIndex { name: first.index.clone(), kind, columns, is_unique: first.is_unique, is_descending })
}

/// Returns a foreign key; `None` if the index that it refers to has no name.
fn foreign_key(key: ServerForeignKey, columns: &[ReplicaColumn]) -> Option<ReplicaForeignKey> {
    let index_of = |name: &String| columns.iter().position(|column| column.name == *name);
    Some(ReplicaForeignKey {
        table: quote_table(&key.parent_database, &key.parent_table),
        index: key.parent_index?,
        columns: key.columns.iter().map(index_of).collect::<Option<Vec<_>>>()?,
        parent_columns: key.parent_columns,
    })
}

#[cfg(test)]
mod tests {
    use servers::ServerIndexPart;

    use super::{clustered_candidates, indexes};
    use crate::replica_table::{IndexKind, ReplicaColumn};

    /// Returns a part of a B-tree index.
    fn part(
        name: &str,
        column: &str,
        prefix: Option<u64>,
        is_unique: bool,
        is_nullable: bool,
    ) -> ServerIndexPart {
        ServerIndexPart {
            index: name.to_owned(),
            index_type: "BTREE".to_owned(),
            column: Some(column.to_owned()),
            prefix,
            is_unique,
            is_nullable,
            is_descending: false,
        }
    }

    #[test]
    fn clustered_index_is_primary_key_or_first_unique() {
        let unique = |name| part(name, "a", None, true, false);
        let plain = part("k", "a", None, false, false);
        let check =
            |parts: &[ServerIndexPart], expected: &[&str]| assert_eq!(clustered_candidates(parts), expected);
        check(&[unique("PRIMARY"), plain.clone(), unique("u")], &["PRIMARY"]);
        check(&[part("PRIMARY", "name", Some(20), true, false), unique("u")], &["PRIMARY"]);
        check(&[plain.clone(), unique("u"), unique("v")], &["u", "v"]);
        check(&[part("u", "a", None, true, true), part("v", "a", Some(3), true, false), plain], &[]);
    }

    #[test]
    fn only_the_clustered_index_is_marked_clustered() {
        let columns =
            ["name", "a"].map(|name| ReplicaColumn { name: name.into(), ..ReplicaColumn::default() });
        let parts = [part("PRIMARY", "name", Some(20), true, false), part("u", "a", None, true, false)];
        let kinds = |clustered| -> Vec<IndexKind> {
            indexes(&parts, &columns, clustered).iter().map(|index| index.kind).collect()
        };
        assert_eq!(kinds(Some("PRIMARY")), [IndexKind::Unique]);
        assert_eq!(kinds(Some("u")), [IndexKind::Clustered]);
    }
}
