//! Definitions in the logs, executed in memory and without rows: the resulting tables, and definitions that a SQLite
//! target would refuse.

use std::path::Path;

use binlog::KeyPart;
use replay::{
    AppliedState, ForeignKeys, ReplayError, SourceStatement, StorageEngine, TableDefinitions, TargetFailure,
    TargetTableDefinition, TargetTableName, UniqueKey,
};
use rusqlite::Connection;

use crate::catalogue_table::{self, CatalogueTable, KeyColumn, QualifiedName};
use crate::file_reading::read_file;
use crate::schema_editor::SchemaEditor;
use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_remarks::SqliteRemarks;
use crate::sqlite_target::{check_ownership, read_progress_of};
use crate::table_catalogue::{CREATE_CATALOGUE_TABLE, TableCatalogue};

/// An in-memory database with the tables that definitions create.
#[derive(Debug)]
pub struct SchemaDraft {
    connection: Connection,
    catalogue: TableCatalogue,
    remarks: SqliteRemarks,
}

impl SchemaDraft {
    /// Creates a draft without tables.
    ///
    /// # Errors
    ///
    /// Fails if SQLite lacks memory.
    pub fn new() -> Result<Self, ReplayError> {
        Self::empty().map_err(|failure| failure.into_error("set up the draft of the definitions"))
    }

    fn empty() -> Result<Self, TargetFailure> {
        let connection = Connection::open_in_memory().map_err(sqlite_failure)?;
        connection.execute_batch(CREATE_CATALOGUE_TABLE).map_err(sqlite_failure)?;
        Ok(Self { connection, catalogue: TableCatalogue::default(), remarks: SqliteRemarks::default() })
    }

    /// Creates a draft with the tables of a SQLite database, and returns the transactions applied to it. Only reads the
    /// database. Both results are empty if there is no file.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be read, or holds tables of another application.
    pub fn read_file(path: &Path) -> Result<(Self, AppliedState), ReplayError> {
        let read = || -> Result<(Self, AppliedState), TargetFailure> {
            let mut draft = Self::empty()?;
            if !path.exists() {
                return Ok((draft, AppliedState::default()));
            }
            let (progress, tables) = read_file(path, &|file| {
                check_ownership(file)?;
                Ok((read_progress_of(file)?, TableCatalogue::load(file)?))
            })?;
            for (name, table) in tables.into_tables() {
                draft.editor().create_empty(name, table)?;
            }
            Ok((draft, AppliedState { progress, ..AppliedState::default() }))
        };
        read().map_err(|failure| failure.into_error("read the SQLite database"))
    }

    fn editor(&mut self) -> SchemaEditor<'_> {
        let Self { connection, catalogue, remarks } = self;
        SchemaEditor { connection, catalogue, remarks }
    }
}

impl TableDefinitions for SchemaDraft {
    fn define(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        self.editor().execute(statement)
    }

    fn definition(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let full_name = (text(database), text(table));
        let Some((_, table)) = self.catalogue.find(&full_name) else { return Ok(None) };
        let referring = self.catalogue.tables().flat_map(|(name, table)| {
            table.foreign_keys.iter().map(|key| (table_name(name), table_name(&key.parent)))
        });
        let relatives = ForeignKeys::of_all(&referring.collect::<Vec<_>>());
        let name = table_name(&full_name);
        let is_transactional = table.engine == catalogue_table::SourceEngine::Transactional;
        let unique = table.keys.iter().filter(|key| key.unique);
        Ok(Some(TargetTableDefinition {
            engine: if is_transactional { StorageEngine::InnoDb } else { StorageEngine::Other },
            primary_key: table.primary_key.as_ref().and_then(|parts| key_parts(table, parts)),
            unique_keys: unique
                .map(|key| key_parts(table, &key.parts).map_or(UniqueKey::Other, UniqueKey::Columns))
                .collect(),
            auto_increment: None,
            foreign_keys: relatives.get(&name).cloned().unwrap_or_default(),
            name,
        }))
    }
}

/// Returns the parts of a key; `None` if a part is a column prefix, because the catalogue does not record the prefix's
/// size.
fn key_parts(table: &CatalogueTable, parts: &[KeyColumn]) -> Option<Vec<KeyPart>> {
    let part = |part: &KeyColumn| match part.is_prefix {
        true => None,
        false => Some(KeyPart { column: table.column(&part.column)?, prefix: 0 }),
    };
    let parts: Vec<KeyPart> = parts.iter().map(part).collect::<Option<_>>()?;
    (!parts.is_empty()).then_some(parts)
}

fn table_name(name: &QualifiedName) -> TargetTableName {
    TargetTableName { database: name.0.as_bytes().into(), table: name.1.as_bytes().into() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use replay::{SessionVariables, SourceStatement, StatementTime, TableDefinitions as _};

    use super::SchemaDraft;
    use crate::mysql_type::MysqlType;

    pub(crate) fn statement(sql: &str) -> SourceStatement {
        SourceStatement {
            sql: sql.as_bytes().to_vec(),
            database: b"d".to_vec(),
            default_database: Vec::new(),
            time: StatementTime::default(),
            thread_id: None,
            context: std::sync::Arc::default(),
            server_version: (9, 7, 4),
            variables: Vec::new(),
            load: None,
            error_code: 0,
        }
    }

    /// Checks columns, with the character sets of text, and keys of the table `d.t` after these statements.
    fn check(statements: &[&str], expected: &str) {
        let mut draft = SchemaDraft::new().unwrap();
        for sql in statements {
            draft.define(&statement(sql)).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
        }
        let (_, table) = draft.catalogue.find(&("d".to_owned(), "t".to_owned())).unwrap();
        let column = |column: &crate::catalogue_table::CatalogueColumn| match &column.kind {
            MysqlType::Text { charset } => {
                format!("{} {}", column.name, charset.as_deref().unwrap_or("?"))
            }
            MysqlType::Bytes { .. } => format!("{} bytes", column.name),
            _ => column.name.clone(),
        };
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let keys: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(format!("{}; {}", columns.join(", "), keys.join(" ")), expected, "{statements:?}");
    }

    /// Runs a SQLite query that returns one text.
    fn text(draft: &SchemaDraft, sql: &str) -> String {
        draft.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn primary_keys_of_new_columns_are_created() {
        let mut draft = SchemaDraft::new().unwrap();
        for sql in ["create table t (a int)", "alter table t add id int not null default 5 primary key"] {
            draft.define(&statement(sql)).unwrap();
        }
        let sql = text(&draft, "select sql from sqlite_master where name = 'd.t'");
        assert!(sql.contains("PRIMARY KEY (\"id\")"), "{sql}");
    }

    /// Without `explicit_defaults_for_timestamp`, the column is NOT NULL.
    #[test]
    fn timestamps_with_implicit_defaults_are_refused() {
        let check = |sql: &str, rows: &str, context: SessionVariables, is_done: bool| {
            let mut draft = SchemaDraft::new().unwrap();
            draft.define(&statement("create table t (a int)")).unwrap();
            draft.connection.execute_batch(rows).unwrap();
            let altered = draft.define(&SourceStatement { context: Arc::new(context), ..statement(sql) });
            assert_eq!(altered.is_ok(), is_done, "{sql} {rows} {altered:?}");
        };
        let (plain, row) = (SessionVariables::default(), "insert into \"d.t\" values (1)");
        let explicit = SessionVariables { explicit_timestamp: Some(1), ..plain.clone() };
        let off = SessionVariables { explicit_timestamp: Some(0), ..plain.clone() };
        for (context, is_done) in [(plain.clone(), false), (off, false), (explicit, true)] {
            check("alter table t add ts timestamp", row, context, is_done);
        }
        check("alter table t add ts timestamp", "", plain.clone(), true);
        check("alter table t add ts timestamp null", row, plain.clone(), true);
        check("alter table t add ts timestamp default current_timestamp", row, plain, true);
    }

    #[test]
    fn truncated_values_are_refused_without_a_strict_mode() {
        const STRICT_TRANS_TABLES: u64 = 1 << 21;
        let check = |change: &str, sql_mode, is_done: bool| {
            let mut draft = SchemaDraft::new().unwrap();
            draft
                .define(&statement("create table t (a varchar(9), b varbinary(9), c decimal(9,2), d text)"))
                .unwrap();
            draft
                .connection
                .execute_batch(&format!(
                    "insert into \"d.t\" values ('größe', x'0102', '-123.45', '{}')",
                    "ö".repeat(128)
                ))
                .unwrap();
            let context = SessionVariables { sql_mode: Some(sql_mode), ..SessionVariables::default() };
            let sql = format!("alter table t modify {change}");
            let altered = draft.define(&SourceStatement { context: Arc::new(context), ..statement(&sql) });
            assert_eq!(altered.is_ok(), is_done, "{sql} {sql_mode} {altered:?}");
        };
        for (fitting, too_short) in [
            ("a varchar(5)", "a varchar(4)"),
            ("a char(5)", "a char(4)"),
            ("b varbinary(2)", "b varbinary(1)"),
            ("c decimal(5,2)", "c decimal(4,2)"),
            ("c decimal(9,2)", "c decimal(9,2) unsigned"),
            ("d text", "d tinytext"),
        ] {
            check(fitting, 0, true);
            check(too_short, 0, false);
            check(too_short, STRICT_TRANS_TABLES, true);
        }
    }

    /// Checks the names of the foreign keys of `d.t` after these statements of a server of this version.
    fn check_foreign_keys(server_version: (u32, u32, u32), statements: &[&str], expected: &[&str]) {
        let mut draft = SchemaDraft::new().unwrap();
        for sql in statements {
            draft.define(&SourceStatement { server_version, ..statement(sql) }).unwrap();
        }
        let (_, table) = draft.catalogue.find(&("d".to_owned(), "t".to_owned())).unwrap();
        let names: Vec<&str> = table.foreign_keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, expected, "{statements:?}");
    }

    #[test]
    fn references_of_columns_are_foreign_keys_since_mysql_9() {
        let table =
            &["create table t (p int references q (i), constraint k foreign key (p) references r (i))"];
        check_foreign_keys((8, 4, 11), table, &["k"]);
        check_foreign_keys((9, 0, 0), table, &["t_ibfk_1", "k"]);
    }

    #[test]
    fn foreign_keys_get_the_names_that_servers_generate() {
        let check =
            |statements: &[&str], expected: &[&str]| check_foreign_keys((9, 7, 4), statements, expected);
        let table = "create table t (a int, b int, constraint k foreign key (a) references q (i), foreign key (b) \
                     references q (i))";
        check(&[table], &["k", "t_ibfk_1"]);
        let add = "alter table t add foreign key (a) references q (i), add foreign key (b) references q (i)";
        check(&[table, add], &["k", "t_ibfk_1", "t_ibfk_2", "t_ibfk_3"]);
        check(&[table, add, "alter table t drop foreign key t_ibfk_2"], &["k", "t_ibfk_1", "t_ibfk_3"]);
        let other = table.replace("table t", "table u");
        check(&[&other, "rename table u to t"], &["k", "t_ibfk_1"]);
        check(&[&other, "alter table u rename to t, drop foreign key k"], &["t_ibfk_1"]);
    }

    #[test]
    fn tables_are_rebuilt_beside_any_other_table() {
        let mut draft = SchemaDraft::new().unwrap();
        draft.define(&statement("create table bintide.rebuilt (a int)")).unwrap();
        draft.define(&statement("create table t (a int)")).unwrap();
        draft.connection.execute_batch("insert into \"d.t\" values (7)").unwrap();
        draft.define(&statement("alter table t modify a varchar(9)")).unwrap();
        assert_eq!(text(&draft, "select a from \"d.t\""), "7");
        assert_eq!(text(&draft, "select count(*) || '' from \"bintide.rebuilt\""), "0");
    }

    /// Forms that only the parser of streams knew.
    #[test]
    fn definitions_are_changed() {
        check(
            &[
                "create table t (a text, b int) collate latin1_bin",
                "alter online table if exists t add column if not exists (b int, c text, key k (c(3)))",
                "alter table t modify column if exists a text after c, drop column if exists q",
                "alter table t default char set 'koi8r', add e text, drop index if exists q",
            ],
            "b, c latin1, a latin1, e koi8r; k",
        );
        check(
            &["create table t (a text, b char(3) ascii)", "alter table t convert to char set koi8r"],
            "a koi8r, b koi8r; ",
        );
        check(
            &["create table t (a text, b int)", "alter table t convert to character set binary"],
            "a bytes, b; ",
        );
        check(&["create table t (a int)", "create unique index if not exists i on t (a)"], "a; i");
        check(&["-- it's\n# a\ncreate table u (a int)", "rename table if exists u nowait to t"], "a; ");
    }

    #[test]
    fn columns_exchange_their_names() {
        let mut draft = SchemaDraft::new().unwrap();
        draft.define(&statement("create table t (id int primary key, a int, b int, key k (a))")).unwrap();
        draft.connection.execute_batch("insert into \"d.t\" values (1, 10, 20)").unwrap();
        for (sql, row, index) in [
            ("alter table t rename column a to b, rename column b to a", "1 20 10", "\"b\""),
            ("alter table t change a b int, change b a int, add key l (b)", "1 10 20", "\"a\""),
            (
                "alter table t drop key k, add key k (b), add x int default 7 after a, change b a int, change a b int",
                "1 20 10",
                "\"b\"",
            ),
        ] {
            draft.define(&statement(sql)).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
            assert_eq!(text(&draft, "select id || ' ' || a || ' ' || b from \"d.t\""), row, "{sql}");
            let found = text(&draft, "select sql from sqlite_master where name = 'd.t.k'");
            assert!(found.contains(index), "{sql}: {found}");
        }
    }

    #[test]
    fn tables_like_others_have_indexes_of_their_own() {
        let mut draft = SchemaDraft::new().unwrap();
        let mut check = |sql: &str, expected: &[&str]| {
            draft.define(&statement(sql)).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
            let query =
                "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name";
            let mut found = draft.connection.prepare(query).unwrap();
            let found = found.query_map([], |row| row.get::<_, String>(0)).unwrap();
            assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), expected, "{sql}");
        };
        check("create table m (a int primary key, b int, unique key u (b))", &["d.m.u"]);
        check("create table t like m", &["d.m.u", "d.t.u"]);
        check("alter table t drop key u", &["d.m.u"]);
    }

    #[test]
    fn unknown_changes_are_refused() {
        let refused = |sql: &str, expected: &str| {
            let mut draft = SchemaDraft::new().unwrap();
            draft.define(&statement("create table t (a int)")).unwrap();
            let failure = draft.define(&statement(sql)).unwrap_err();
            assert!(format!("{failure:?}").contains(expected), "{sql}: {failure:?}");
        };
        refused("alter table t frobnicate", "cannot translate this statement for SQLite: ALTER TABLE T …");
        refused("alter table t add system versioning", "cannot translate this statement for SQLite");
        refused("alter table t add b unknowntype", "cannot translate this statement for SQLite");
        refused(
            "create table u (a unknowntype)",
            "cannot translate this statement for SQLite: CREATE TABLE U …",
        );
        refused("alter table t drop b", "ALTER TABLE d.t changes a column that does not exist");
        refused("create table u select 1", "the log contains CREATE TABLE … SELECT as a statement");
    }
}
