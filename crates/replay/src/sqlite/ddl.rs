//! Parser of definitions in the log, as far as tables depend on them.

mod table_body;
mod table_change;

use sql::SqlWords;

pub(super) use self::table_body::TableBody;
use self::table_body::{parse_body, parse_key_parts};
use self::table_change::parse_changes;
pub(super) use self::table_change::{ColumnPosition, TableChange, default_of};
use crate::apply_plan::SourceStatement;
use crate::sqlite::catalogue_table::KeyColumn;
use crate::sqlite::statement_words::statement_words;

/// Names of a table's database and of the table.
pub(super) type QualifiedName = (String, String);

/// A statement that defines something.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DdlStatement {
    CreateTable {
        name: QualifiedName,
        exists: ExistingTablePolicy,
        body: TableBody,
    },
    CreateLike {
        name: QualifiedName,
        exists: ExistingTablePolicy,
        model: QualifiedName,
    },
    DropTables(Vec<QualifiedName>),
    AlterTable {
        name: QualifiedName,
        changes: Vec<TableChange>,
    },
    RenameTables(Vec<(QualifiedName, QualifiedName)>),
    Truncate(QualifiedName),
    CreateIndex {
        table: QualifiedName,
        name: String,
        unique: bool,
        parts: Option<Vec<KeyColumn>>,
    },
    DropIndex {
        table: QualifiedName,
        name: String,
    },
    DropDatabase(String),
    /// `SAVEPOINT`, `ROLLBACK TO` and `RELEASE SAVEPOINT` in SQLite's syntax, and the savepoint's name.
    Savepoint(&'static str, String),
    /// A statement that affects no rows or tables: its kind, for counting.
    PassedOver(String),
    /// A statement without any effect here.
    Nothing,
    /// A statement that changes rows which the log does not contain: its kind.
    Rows(String),
    /// A statement that cannot be parsed: its first words.
    Unknown(String),
}

/// Treatment of a table that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingTablePolicy {
    Keep,
    Replace,
    Refuse,
}

/// Verbs of statements whose row changes only a server can repeat.
const ROW_VERBS: [&str; 9] =
    ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "IMPORT", "HANDLER"];

/// Verbs of statements that change neither tables nor rows.
const IGNORED_VERBS: [&str; 17] = [
    "GRANT",
    "REVOKE",
    "SET",
    "FLUSH",
    "ANALYZE",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "INSTALL",
    "UNINSTALL",
    "DO",
    "USE",
    "LOCK",
    "UNLOCK",
    "RESET",
    "PURGE",
    "CLONE",
];

/// Objects after CREATE, ALTER and DROP that hold no rows.
const IGNORED_OBJECTS: [&str; 14] = [
    "VIEW",
    "TRIGGER",
    "PROCEDURE",
    "FUNCTION",
    "EVENT",
    "USER",
    "ROLE",
    "SERVER",
    "TABLESPACE",
    "LOGFILE",
    "UNDO",
    "SPATIAL",
    "RESOURCE",
    "INSTANCE",
];

impl DdlStatement {
    /// Parses a statement.
    pub(super) fn parse(statement: &SourceStatement) -> Self {
        let Some(mut words) = statement_words(statement) else {
            let head: String = String::from_utf8_lossy(&statement.sql).chars().take(40).collect();
            return Self::Unknown(head);
        };
        let whole = words.clone();
        let database = String::from_utf8_lossy(&statement.database).into_owned();
        let read = read(&mut words, &NameResolver { database });
        read.unwrap_or_else(|| Self::Unknown(whole.keywords_ahead(3)))
    }
}

/// Adds the default database to unqualified names.
pub(super) struct NameResolver {
    database: String,
}

impl NameResolver {
    fn table(&self, words: &mut SqlWords) -> Option<QualifiedName> {
        let (database, table) = words.take_table()?;
        Some((database.unwrap_or_else(|| self.database.clone()), table))
    }

    fn tables(&self, words: &mut SqlWords) -> Option<Vec<QualifiedName>> {
        let mut names = vec![self.table(words)?];
        while words.take_sign(",") {
            names.push(self.table(words)?);
        }
        Some(names)
    }
}

fn read(words: &mut SqlWords, naming: &NameResolver) -> Option<DdlStatement> {
    if ROW_VERBS.iter().any(|verb| words.is_next(verb)) {
        return Some(DdlStatement::Rows(words.keywords_ahead(1)));
    }
    let what = words.clone();
    if words.take("CREATE") {
        return parse_create(words, naming);
    }
    if words.take("ALTER") {
        return parse_alter(words, naming);
    }
    if words.take("DROP") {
        return parse_drop(words, naming);
    }
    if words.take_any(&["RENAME TABLE", "RENAME TABLES"]) {
        let mut pairs = Vec::new();
        loop {
            let old = naming.table(words)?;
            words.take("TO").then_some(())?;
            pairs.push((old, naming.table(words)?));
            if !words.take_sign(",") {
                return Some(DdlStatement::RenameTables(pairs));
            }
        }
    }
    if words.take("TRUNCATE") {
        words.take("TABLE");
        return naming.table(words).map(DdlStatement::Truncate);
    }
    if words.take("SAVEPOINT") {
        return Some(DdlStatement::Savepoint("SAVEPOINT", words.take_name()?));
    }
    if words.take("ROLLBACK") {
        words.take("WORK");
        words.take("TO").then_some(())?;
        words.take("SAVEPOINT");
        return Some(DdlStatement::Savepoint("ROLLBACK TO", words.take_name()?));
    }
    if words.take("RELEASE SAVEPOINT") {
        return Some(DdlStatement::Savepoint("RELEASE", words.take_name()?));
    }
    let is_other = IGNORED_VERBS.iter().any(|verb| what.is_next(verb));
    (is_other || what.is_next("RENAME"))
        .then(|| DdlStatement::PassedOver(what.keywords_ahead(if what.is_next("RENAME") { 2 } else { 1 })))
}

/// Finds an object without rows, after words like DEFINER.
fn ignored_object(verb: &str, words: &SqlWords) -> Option<DdlStatement> {
    let mut rest = words.clone();
    while !rest.is_at_end() {
        if let Some(thing) = IGNORED_OBJECTS.iter().find(|thing| rest.is_next(thing)) {
            return Some(DdlStatement::PassedOver(format!("{verb} {thing}")));
        }
        rest.skip();
    }
    None
}

fn parse_create(words: &mut SqlWords, naming: &NameResolver) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        return Some(DdlStatement::Nothing);
    }
    if words.take("TEMPORARY TABLE") {
        return Some(DdlStatement::PassedOver("CREATE TEMPORARY TABLE".to_owned()));
    }
    // MariaDB's syntax.
    let replaces = words.take("OR REPLACE");
    if words.take("TABLE") {
        let exists = match (words.take("IF NOT EXISTS"), replaces) {
            (true, _) => ExistingTablePolicy::Keep,
            (false, true) => ExistingTablePolicy::Replace,
            (false, false) => ExistingTablePolicy::Refuse,
        };
        let name = naming.table(words)?;
        let mut inner = words.clone().take_group().unwrap_or_else(|| words.clone());
        if inner.take("LIKE") {
            return Some(DdlStatement::CreateLike { name, exists, model: naming.table(&mut inner)? });
        }
        let Some(columns) = words.take_group() else {
            return Some(DdlStatement::Rows("CREATE TABLE … SELECT".to_owned()));
        };
        let is_from_query = words.has_ahead(&["SELECT", "AS", "WITH", "VALUES", "TABLE"]);
        if is_from_query {
            return Some(DdlStatement::Rows("CREATE TABLE … SELECT".to_owned()));
        }
        let body = parse_body(columns, words, &name)?;
        return Some(DdlStatement::CreateTable { name, exists, body });
    }
    let unique = words.take("UNIQUE");
    if unique || words.is_next("INDEX") {
        words.take("INDEX").then_some(())?;
        return parse_create_index(words, naming, unique);
    }
    let mut special = words.clone();
    if special.take_any(&["FULLTEXT INDEX", "SPATIAL INDEX"]) {
        let name = special.take_name()?;
        special.take("ON").then_some(())?;
        let table = naming.table(&mut special)?;
        return Some(DdlStatement::CreateIndex { table, name, unique: false, parts: None });
    }
    ignored_object("CREATE", words)
}

fn parse_create_index(words: &mut SqlWords, naming: &NameResolver, unique: bool) -> Option<DdlStatement> {
    let name = words.take_name()?;
    if words.take("USING") {
        words.skip();
    }
    words.take("ON").then_some(())?;
    let table = naming.table(words)?;
    Some(DdlStatement::CreateIndex { table, name, unique, parts: parse_key_parts(words.take_group()?) })
}

fn parse_alter(words: &mut SqlWords, naming: &NameResolver) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        return Some(DdlStatement::Nothing);
    }
    if words.take("TABLE") {
        let name = naming.table(words)?;
        let changes = parse_changes(words, &name, naming)?;
        return Some(DdlStatement::AlterTable { name, changes });
    }
    ignored_object("ALTER", words)
}

fn parse_drop(words: &mut SqlWords, naming: &NameResolver) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        words.take("IF EXISTS");
        return words.take_name().map(DdlStatement::DropDatabase);
    }
    if words.take_any(&["TEMPORARY TABLE", "TEMPORARY TABLES"]) {
        return Some(DdlStatement::PassedOver("DROP TEMPORARY TABLE".to_owned()));
    }
    if words.take_any(&["TABLE", "TABLES"]) {
        words.take("IF EXISTS");
        return naming.tables(words).map(DdlStatement::DropTables);
    }
    if words.take("INDEX") {
        let name = words.take_name()?;
        words.take("ON").then_some(())?;
        return Some(DdlStatement::DropIndex { table: naming.table(words)?, name });
    }
    ignored_object("DROP", words)
}

#[cfg(test)]
mod tests {
    use super::DdlStatement;
    use crate::apply_plan::SourceStatement;
    use crate::sqlite::catalogue_table::{CatalogueTable, SourceEngine};
    use crate::sqlite::schema_editor::create_sql;

    fn read(sql: &str) -> DdlStatement {
        let statement = SourceStatement {
            sql: sql.as_bytes().to_vec(),
            database: b"d".to_vec(),
            default_database: Vec::new(),
            timestamp: (0, None),
            thread_id: None,
            context: std::sync::Arc::default(),
            variables: Vec::new(),
            load: None,
            error_code: 0,
        };
        DdlStatement::parse(&statement)
    }

    /// Checks the SQLite columns of `CREATE TABLE d.t (…)`, its keys and its foreign keys.
    fn check_table(sql: &str, wanted: &str) {
        let DdlStatement::CreateTable { name, body, .. } = read(sql) else {
            panic!("{sql}: {:?}", read(sql))
        };
        assert_eq!((name.0.as_str(), name.1.as_str()), ("d", "t"), "{sql}");
        let table = CatalogueTable {
            name: String::new(),
            columns: body.columns,
            primary_key: body.primary_key,
            keys: body.keys,
            foreign_keys: body.foreign_keys,
            engine: SourceEngine::Transactional,
            charset: None,
        };
        let created = create_sql(&table, "t");
        let mut found = created.strip_prefix("CREATE TABLE \"t\" ").unwrap().to_owned();
        for key in &table.keys {
            let columns: Vec<_> = key.parts.iter().map(|part| part.column.as_str()).collect();
            let unique = if key.unique { "unique " } else { "" };
            found.push_str(&format!("; {unique}{} {}", key.name, columns.join(",")));
        }
        for key in &table.foreign_keys {
            let parent = format!("{}.{}({})", key.parent.0, key.parent.1, key.parent_columns.join(","));
            found.push_str(&format!("; {} -> {parent} {:?} {:?}", key.name, key.on_delete, key.on_update));
        }
        assert_eq!(found, wanted, "{sql}");
    }

    #[test]
    fn tables_are_understood() {
        check_table(
            "create table t (id int primary key)",
            r#"("id" INTEGER NOT NULL DEFAULT 0, PRIMARY KEY ("id")) STRICT"#,
        );
        check_table(
            "CREATE TABLE IF NOT EXISTS `d`.`t` (a BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'it''s, (x)', \
             b VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT _latin1'q' /* , */, PRIMARY KEY (a, b), \
             UNIQUE KEY (b), KEY k (b(3) DESC, a) USING BTREE) ENGINE=InnoDB PARTITION BY HASH(a) PARTITIONS 3",
            r#"("a" ANY NOT NULL, "b" TEXT NOT NULL DEFAULT 'q', PRIMARY KEY ("a", "b")) STRICT, WITHOUT ROWID; unique b b; k b,a"#,
        );
        check_table(
            "create table t (x decimal(5,2) unsigned zerofill default -1, y bit(9) default b'11', z datetime(3) default \
             '2026-01-02', w enum('a','b') not null, v int generated always as (x + (1)) stored, u serial)",
            r#"("x" TEXT DEFAULT '-1.00', "y" INTEGER DEFAULT 3, "z" TEXT DEFAULT '2026-01-02 00:00:00.000', "w" TEXT NOT NULL DEFAULT 'a', "v" INTEGER, "u" ANY NOT NULL DEFAULT 0) STRICT; unique u u"#,
        );
        check_table(
            "create table t (p int references q (i) on delete cascade, constraint f foreign key (p) references \
             e.r (j, k) on update set null, check (p > 0), fulltext key g (p))",
            r#"("p" INTEGER) STRICT; g ; t_ibfk_1 -> d.q(i) Cascade Restrict; f -> e.r(j,k) Restrict SetNull"#,
        );
    }

    #[test]
    fn statements_are_told_apart() {
        let check = |sql: &str, wanted: &str| {
            let found = format!("{:?}", read(sql));
            assert!(found.starts_with(wanted), "{sql}: {found}, not {wanted}");
        };
        check(
            "CREATE DEFINER=`root`@`localhost` TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN END",
            "PassedOver(\"CREATE TRIGGER\")",
        );
        check("create or replace algorithm = merge view v as select 1", "PassedOver(\"CREATE VIEW\")");
        check("grant select on *.* to u", "PassedOver(\"GRANT\")");
        check("create table t select 1", "Rows(\"CREATE TABLE");
        check("create table t (x int) as select 1 x", "Rows(\"CREATE TABLE");
        check("create table t (x int) start transaction", "CreateTable");
        check("replace into t values (1)", "Rows(\"REPLACE\")");
        check(
            "drop table if exists `a``b`, e.c /* generated by server */",
            "DropTables([(\"d\", \"a`b\"), (\"e\", \"c\")])",
        );
        check(
            "rename table a to b, b to e.c",
            "RenameTables([((\"d\", \"a\"), (\"d\", \"b\")), ((\"d\", \"b\"), (\"e\", \"c\"))])",
        );
        check("alter table t order by a, b", "AlterTable { name: (\"d\", \"t\"), changes: [] }");
        check(
            "alter table t exchange partition p with table u",
            "AlterTable { name: (\"d\", \"t\"), changes: [Rows(",
        );
        check("alter table t frobnicate", "Unknown(");
        check("rollback to `s 1`", "Savepoint(\"ROLLBACK TO\", \"s 1\")");
        check("create table t (x unknowntype)", "Unknown(");
    }
}
