//! Foreign key actions, for logs of servers that execute them in the engine, without logging the changed rows.

use std::sync::Arc;

use replay::TargetFailure;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use sql::quote::quote_ansi_name;

use crate::catalogue_table::{CatalogueTable, ForeignKey, QualifiedName, ReferentialAction, SourceEngine};
use crate::sqlite_failure::sqlite_failure;
use crate::table_catalogue::TableCatalogue;

/// Table whose foreign key refers to a changed row.
#[derive(Clone, Copy)]
struct ReferringTable<'c> {
    name: &'c QualifiedName,
    table: &'c Arc<CatalogueTable>,
    key: &'c ForeignKey,
}

/// Executes the foreign key actions for a changed row.
pub(crate) struct ForeignKeyCascade<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) catalogue: &'c TableCatalogue,
    /// Number of earlier actions in this chain.
    pub(crate) depth: u32,
}

/// Maximum length of a chain of actions. InnoDB allows at most 255. Bounds the stack.
const DEPTH_MAX: u32 = 255;

impl ForeignKeyCascade<'_> {
    /// Recursively executes the actions for a row that changed from `old` to `new`, or was deleted.
    pub(crate) fn follow(
        &self,
        name: &QualifiedName,
        table: &CatalogueTable,
        old: &[Value],
        new: Option<&[Value]>,
    ) -> Result<(), TargetFailure> {
        for (child_name, child, key) in self.catalogue.children(name) {
            if child.engine != SourceEngine::Transactional {
                continue; // Only InnoDB has foreign keys.
            }
            let Some(indexes) = referenced_columns(table, key) else { continue };
            let values = |row: &[Value]| indexes.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
            let (was, is) = (values(old), new.map(values));
            if was.contains(&Value::Null) || is.as_ref() == Some(&was) {
                continue;
            }
            let action = if is.is_some() { key.on_update } else { key.on_delete };
            let becomes = match action {
                ReferentialAction::Restrict => continue,
                ReferentialAction::Cascade => is,
                ReferentialAction::SetNull => Some(vec![Value::Null; was.len()]),
            };
            let referring = ReferringTable { name: child_name, table: child, key };
            self.change(&referring, &was, becomes.as_deref())?;
        }
        Ok(())
    }

    /// Makes the rows that refer to `was` refer to `becomes`, or deletes these rows.
    fn change(
        &self,
        referring: &ReferringTable<'_>,
        was: &[Value],
        becomes: Option<&[Value]>,
    ) -> Result<(), TargetFailure> {
        let ReferringTable { name, table, key } = *referring;
        let own = quote_ansi_name(&table.name);
        let condition = numbered(&key.columns, 0, " AND ");
        let indexes: Option<Vec<usize>> = key.columns.iter().map(|column| table.column(column)).collect();
        let Some(indexes) = indexes else { return Ok(()) };
        let rows = self.referring_rows(referring, was)?;
        self.check_collation(name, table, key, was)?;
        match becomes {
            None => {
                let sql = format!("DELETE FROM {own} WHERE {condition}");
                self.connection
                    .prepare_cached(&sql)
                    .map_err(sqlite_failure)?
                    .execute(params_from_iter(was))
                    .map_err(sqlite_failure)?;
            }
            Some(becomes) => {
                let sets = numbered(&key.columns, was.len(), ", ");
                let sql = format!("UPDATE {own} SET {sets} WHERE {condition}");
                let values = was.iter().chain(becomes);
                let changed = self
                    .connection
                    .prepare_cached(&sql)
                    .map_err(sqlite_failure)?
                    .execute(params_from_iter(values))
                    .map_err(sqlite_failure)?;
                if changed > 0 {
                    check_generated(name, table, key)?;
                }
            }
        }
        if !rows.is_empty() && self.depth >= DEPTH_MAX {
            return Err(TargetFailure::refused(format!(
                "more than {DEPTH_MAX} foreign key actions follow from each other; the last one changes {}.{}",
                name.0, name.1
            )));
        }
        let next = Self { depth: self.depth + 1, ..*self };
        for old in rows {
            let new = becomes.map(|becomes| {
                let mut new = old.clone();
                for (at, value) in indexes.iter().zip(becomes) {
                    new[*at] = value.clone();
                }
                new
            });
            next.follow(name, table, &old, new.as_deref())?;
        }
        Ok(())
    }

    /// Reads the rows that refer to `was`, without the columns that no other table refers to. Returns none if no table
    /// refers to the rows.
    fn referring_rows(
        &self,
        referring: &ReferringTable<'_>,
        was: &[Value],
    ) -> Result<Vec<Vec<Value>>, TargetFailure> {
        let ReferringTable { name, table, key } = *referring;
        let mut referenced: Vec<usize> = Vec::new();
        for (_, _, child_key) in self.catalogue.children(name) {
            referenced.extend(referenced_columns(table, child_key).unwrap_or_default());
        }
        if referenced.is_empty() {
            return Ok(Vec::new());
        }
        referenced.sort_unstable();
        referenced.dedup();
        let names: Vec<String> =
            referenced.iter().map(|at| quote_ansi_name(&table.columns[*at].name)).collect();
        let (own, condition) = (quote_ansi_name(&table.name), numbered(&key.columns, 0, " AND "));
        let mut find = self
            .connection
            .prepare_cached(&format!("SELECT {} FROM {own} WHERE {condition}", names.join(", ")))
            .map_err(sqlite_failure)?;
        let mut found = find.query(params_from_iter(was)).map_err(sqlite_failure)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(sqlite_failure)? {
            let mut values = vec![Value::Null; table.columns.len()];
            for (index, at) in referenced.iter().enumerate() {
                values[*at] = row.get(index).map_err(sqlite_failure)?;
            }
            rows.push(values);
        }
        Ok(rows)
    }

    /// Refuses rows that only the source's collation would find: the queries here compare texts byte by byte.
    fn check_collation(
        &self,
        name: &QualifiedName,
        table: &CatalogueTable,
        key: &ForeignKey,
        was: &[Value],
    ) -> Result<(), TargetFailure> {
        if !was.iter().any(|value| matches!(value, Value::Text(_))) {
            return Ok(());
        }
        let alike = key.columns.iter().zip(1..).map(|(column, number)| {
            format!("rtrim({}) = rtrim(?{number}) COLLATE NOCASE", quote_ansi_name(column))
        });
        let (own, alike) = (quote_ansi_name(&table.name), alike.collect::<Vec<_>>().join(" AND "));
        let same = numbered(&key.columns, 0, " AND ");
        let sql = format!("SELECT 1 FROM {own} WHERE {alike} AND NOT ({same})");
        if self
            .connection
            .prepare_cached(&sql)
            .map_err(sqlite_failure)?
            .exists(params_from_iter(was))
            .map_err(sqlite_failure)?
        {
            return Err(TargetFailure::refused(format!(
                "rows of {}.{} refer to a changed row with a different spelling: whether the foreign key {} matches them \
                 depends on the collation",
                name.0, name.1, key.name
            )));
        }
        Ok(())
    }
}

/// Refuses a change of rows with generated columns: the log lacks the change, and the server computes the values.
fn check_generated(
    name: &QualifiedName,
    table: &CatalogueTable,
    key: &ForeignKey,
) -> Result<(), TargetFailure> {
    match table.columns.iter().find(|column| column.generated) {
        None => Ok(()),
        Some(column) => Err(TargetFailure::refused(format!(
            "the foreign key {} changes rows of {}.{}, and the server computes the values of the generated column {}",
            key.name, name.0, name.1, column.name
        ))),
    }
}

/// Returns the columns that a foreign key refers to.
fn referenced_columns(table: &CatalogueTable, key: &ForeignKey) -> Option<Vec<usize>> {
    match key.parent_columns.is_empty() {
        true => table.sqlite_key(),
        false => key.parent_columns.iter().map(|column| table.column(column)).collect(),
    }
}

/// Returns `column = ?number` for each column. Numbers start after `before`.
fn numbered(columns: &[String], before: usize, between: &str) -> String {
    let parts = columns
        .iter()
        .zip(before + 1..)
        .map(|(column, number)| format!("{} = ?{number}", quote_ansi_name(column)));
    parts.collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use replay::TargetFailure;
    use rusqlite::Connection;
    use rusqlite::types::Value;

    use super::ForeignKeyCascade;
    use crate::schema_draft::tests::statement;
    use crate::schema_editor::SchemaEditor;
    use crate::sqlite_remarks::SqliteRemarks;
    use crate::table_catalogue::{CREATE_CATALOGUE_TABLE, TableCatalogue};

    /// Deletes the row 1 of `d.t` after these statements, and the rows that refer to it. Returns the number of other
    /// rows.
    fn delete_first(definitions: &[&str], rows: &str) -> Result<i64, TargetFailure> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(CREATE_CATALOGUE_TABLE).unwrap();
        let (mut catalogue, mut remarks) = (TableCatalogue::default(), SqliteRemarks::default());
        let mut editor =
            SchemaEditor { connection: &connection, catalogue: &mut catalogue, remarks: &mut remarks };
        for sql in definitions {
            editor.execute(&statement(sql)).unwrap();
        }
        connection.execute_batch(rows).unwrap();
        let (name, table) = catalogue.find(&("d".to_owned(), "t".to_owned())).unwrap();
        let cascade = ForeignKeyCascade { connection: &connection, catalogue: &catalogue, depth: 0 };
        let mut old = vec![Value::Null; table.columns.len()];
        old[0] = Value::Integer(1);
        cascade.follow(name, table, &old, None)?;
        let count = "select count(*) from \"d.t\" where id > 1";
        Ok(connection.query_row(count, [], |row| row.get(0)).unwrap())
    }

    #[test]
    fn a_chain_of_rows_has_a_limit() {
        let table = "create table t (id int primary key, note text, parent int, \
                     foreign key (parent) references t (id) on delete cascade)";
        let chain = |count: u32| {
            format!(
                "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) \
                 insert into \"d.t\" select i, 'x', i - 1 from n"
            )
        };
        assert_eq!(delete_first(&[table], &chain(200)).unwrap(), 0);
        assert_eq!(
            delete_first(&[table], &chain(300)).unwrap_err().message,
            "more than 255 foreign key actions follow from each other; the last one changes d.t"
        );
    }

    /// The second table refers to another column than the primary key.
    #[test]
    fn rows_are_followed_by_each_referenced_column() {
        let definitions = [
            "create table t (id int primary key, code int, unique key (code))",
            "create table u (a int primary key, id int, code int, unique key (code), \
             foreign key (id) references t (id) on delete cascade)",
            "create table v (b int primary key, code int, foreign key (code) references u (code) on delete cascade)",
            "create table w (id int primary key)",
            "alter table w add foreign key (id) references v (b) on delete cascade",
        ];
        let rows = "insert into \"d.t\" values (1, 10), (2, 20); insert into \"d.u\" values (5, 1, 50), (6, 2, 60); \
                    insert into \"d.v\" values (7, 50), (8, 60); insert into \"d.w\" values (7), (8); \
                    create trigger w after delete on \"d.w\" begin delete from \"d.t\" where id = 2; end";
        // The trigger shows that the row of the last table was deleted.
        assert_eq!(delete_first(&definitions, rows).unwrap(), 0);
    }
}
