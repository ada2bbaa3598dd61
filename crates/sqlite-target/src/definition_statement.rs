//! Executes statements that define tables.

use replay::{SourceStatement, TargetFailure};
use sql::SqlWords;
use sql::ddl::{
    DdlStatement, ExistingTablePolicy, KeyDefinition, KeyKind, NamedTable, NewTable, TableRename,
};
use sql::quote::quote_ansi_name;

use crate::catalogue_table::{QualifiedName, SecondaryKey};
use crate::other_statement::OtherStatement;
use crate::schema_editor::{SchemaEditor, drop_key, qualified, unknown, untranslatable};
use crate::sqlite_failure::sqlite_failure;
use crate::statement_words::statement_words;
use crate::table_alteration::{AlterationSource, alter};
use crate::table_elements::{ForeignKeyRules, TableElements, key_columns};

impl SchemaEditor<'_> {
    /// Executes the definition in a statement.
    pub(crate) fn execute(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let Some(words) = statement_words(statement) else {
            let head: String = String::from_utf8_lossy(&statement.sql).chars().take(40).collect();
            return Err(untranslatable(&head));
        };
        let default = String::from_utf8_lossy(&statement.database).into_owned();
        let qualified = |name: &NamedTable| qualified(name, &default);
        match DdlStatement::parse(&words) {
            DdlStatement::CreateDatabase { .. } | DdlStatement::AlterDatabase { .. } => Ok(()),
            DdlStatement::CreateTable { name, exists, content } => {
                let name = qualified(&name);
                match content {
                    NewTable::Defined(definition) => {
                        let body =
                            TableElements::of(&definition, name.clone(), ForeignKeyRules::of(statement));
                        self.create_table(name, body.ok_or_else(|| unknown(&words))?, exists)
                    }
                    NewTable::Like(model) => self.create_like(name, &qualified(&model), exists),
                    NewTable::Query => Err(needs_rows("CREATE TABLE … SELECT")),
                    NewTable::Unknown => Err(unknown(&words)),
                }
            }
            DdlStatement::CreateTemporaryTable => self.pass_over("CREATE TEMPORARY TABLE"),
            DdlStatement::DropTemporaryTables => self.pass_over("DROP TEMPORARY TABLE"),
            DdlStatement::DropTables(names) => names.iter().try_for_each(|name| self.drop(&qualified(name))),
            DdlStatement::AlterTable { name, changes } => {
                let source = AlterationSource { statement, words: &words, default_database: &default };
                alter(self, &qualified(&name), &changes, source)
            }
            DdlStatement::RenameTables(renames) => renames
                .iter()
                .try_for_each(|TableRename { old, new }| self.rename(&qualified(old), qualified(new))),
            DdlStatement::Truncate(name) => self.truncate(&qualified(&name)),
            DdlStatement::CreateIndex { table, key } => self.create_index(&qualified(&table), &key),
            DdlStatement::DropIndex { table, name } => {
                self.change_keys(&qualified(&table), |table| drop_key(table, &name))
            }
            DdlStatement::DropDatabase(database) => {
                let names = self.catalogue.of_database(&database);
                names.iter().try_for_each(|name| self.drop(name))
            }
            DdlStatement::CreateSequence { .. } | DdlStatement::DropSequences(_) | DdlStatement::Other => {
                self.execute_other(&words)
            }
            DdlStatement::Unknown => Err(unknown(&words)),
        }
    }

    fn execute_other(&mut self, words: &SqlWords) -> Result<(), TargetFailure> {
        match OtherStatement::parse(words) {
            Some(OtherStatement::Savepoint(verb, name)) => Ok(self
                .connection
                .execute_batch(&format!("{verb} {}", quote_ansi_name(&name)))
                .map_err(sqlite_failure)?),
            Some(OtherStatement::PassedOver(what)) => self.pass_over(&what),
            Some(OtherStatement::Rows(what)) => Err(needs_rows(&what)),
            None => Err(unknown(words)),
        }
    }

    fn pass_over(&mut self, what: &str) -> Result<(), TargetFailure> {
        self.remarks.count_passed_over(what);
        Ok(())
    }

    fn create_index(&mut self, table: &QualifiedName, key: &KeyDefinition) -> Result<(), TargetFailure> {
        let parts = if key.kind == KeyKind::Special { None } else { key_columns(&key.parts) };
        let key = SecondaryKey {
            name: key.name.clone().unwrap_or_default(),
            unique: key.kind == KeyKind::Unique,
            parts: parts.unwrap_or_default(),
            index: String::new(),
        };
        self.change_keys(table, |table| table.keys.push(key))
    }

    fn create_table(
        &mut self,
        name: QualifiedName,
        body: TableElements,
        exists: ExistingTablePolicy,
    ) -> Result<(), TargetFailure> {
        match self.resolve_existing(&name, exists)? {
            true => Ok(()),
            false => self.create_empty(name, body.into_table()),
        }
    }
}

/// Returns the failure for a statement whose row changes the log does not contain.
fn needs_rows(what: &str) -> TargetFailure {
    TargetFailure::refused(format!(
        "the log contains {what} as a statement (binlog_format = STATEMENT or MIXED), but a SQLite target needs \
         row events"
    ))
}
