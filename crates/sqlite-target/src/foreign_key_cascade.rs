//! Foreign key actions, for logs of servers whose engine executes them without logging the changed rows.

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
}

impl ForeignKeyCascade<'_> {
    /// Executes the actions for a row that changed from `old` to `new`, or was deleted, recursively.
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
            let Some(places) = referenced_columns(table, key) else { continue };
            let values = |row: &[Value]| places.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
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

    /// Changes the rows that refer to `was` to refer to `becomes`, or deletes them.
    fn change(
        &self,
        referring: &ReferringTable<'_>,
        was: &[Value],
        becomes: Option<&[Value]>,
    ) -> Result<(), TargetFailure> {
        let ReferringTable { name, table, key } = *referring;
        let own = quote_ansi_name(&table.name);
        let condition = numbered(&key.columns, 0, " AND ");
        let places: Option<Vec<usize>> = key.columns.iter().map(|column| table.column(column)).collect();
        let Some(places) = places else { return Ok(()) };
        let all: Vec<String> = table.columns.iter().map(|column| quote_ansi_name(&column.name)).collect();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let mut find = self
            .connection
            .prepare_cached(&format!("SELECT {} FROM {own} WHERE {condition}", all.join(", ")))
            .map_err(sqlite_failure)?;
        let mut found = find.query(params_from_iter(was)).map_err(sqlite_failure)?;
        while let Some(row) = found.next().map_err(sqlite_failure)? {
            rows.push(
                (0..all.len()).map(|at| row.get(at)).collect::<Result<_, _>>().map_err(sqlite_failure)?,
            );
        }
        drop(found);
        drop(find);
        self.check_collation(name, table, key, was)?;
        if rows.is_empty() {
            return Ok(());
        }
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
                self.connection
                    .prepare_cached(&sql)
                    .map_err(sqlite_failure)?
                    .execute(params_from_iter(values))
                    .map_err(sqlite_failure)?;
            }
        }
        for old in rows {
            let new = becomes.map(|becomes| {
                let mut new = old.clone();
                for (at, value) in places.iter().zip(becomes) {
                    new[*at] = value.clone();
                }
                new
            });
            self.follow(name, table, &old, new.as_deref())?;
        }
        Ok(())
    }
}

impl ForeignKeyCascade<'_> {
    /// Refuses rows that only the source's collation would find: SQLite compares texts byte by byte here.
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
                "rows of {}.{} refer to a changed row with another spelling: whether the foreign key {} matches them \
                 depends on the collation",
                name.0, name.1, key.name
            )));
        }
        Ok(())
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
