//! Parser of statements that define tables and databases.
//!
//! A part that the parser does not understand is no error: the result has an explicit `Unknown` or `Other` with the
//! first words of the part, and the caller decides.

mod altered_column;
mod ddl_column;
mod table_change;
mod table_definition;

pub use crate::ddl::altered_column::AlteredColumn;
pub use crate::ddl::ddl_column::{ColumnKey, ColumnTypeDefinition, DdlColumn, DefaultClause, TypeArgument};
pub use crate::ddl::table_change::{ColumnPosition, ExistenceCheck, TableChange, VersioningChange};
pub use crate::ddl::table_definition::{
    ForeignKeyAction, ForeignKeyDefinition, KeyDefinition, KeyKind, KeyPartDefinition, TableDefinition,
    TableElement, TableOptions,
};

use crate::ddl::table_change::parse_changes;
use crate::ddl::table_definition::{parse_key_parts, parse_options};
use crate::quote::{quote_name, quote_table};
use crate::sql_words::SqlWords;

/// Name of a table, as given in a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedTable {
    /// Database, if the statement names it.
    pub database: Option<String>,
    /// Table, unquoted.
    pub table: String,
}

impl NamedTable {
    /// Returns database and table, for a statement with this default database.
    pub fn resolve(&self, default: &str) -> [String; 2] {
        [self.database.as_deref().unwrap_or(default).to_owned(), self.table.clone()]
    }

    /// Returns the name as SQL: in backquotes, with its database if given.
    pub fn quoted(&self) -> String {
        match &self.database {
            Some(database) => quote_table(database, &self.table),
            None => quote_name(&self.table),
        }
    }

    fn take(words: &mut SqlWords) -> Option<Self> {
        let (database, table) = words.take_table()?;
        Some(Self { database, table })
    }

    /// Takes names separated by commas.
    fn take_list(words: &mut SqlWords) -> Option<Vec<Self>> {
        let mut names = vec![Self::take(words)?];
        while words.take_sign(",") {
            names.push(Self::take(words)?);
        }
        Some(names)
    }
}

/// A statement that defines tables or databases.
#[derive(Clone, Debug, PartialEq)]
pub enum DdlStatement {
    /// CREATE DATABASE.
    CreateDatabase {
        /// Name of the database.
        name: String,
        /// Treatment of a database that already exists.
        exists: ExistingTablePolicy,
        /// Default character set, if given, in lower case.
        charset: Option<String>,
    },
    /// ALTER DATABASE.
    AlterDatabase {
        /// Name of the database; `None` for the default database.
        name: Option<String>,
        /// New default character set, if given, in lower case.
        charset: Option<String>,
    },
    /// DROP DATABASE.
    DropDatabase(String),
    /// CREATE TABLE.
    CreateTable {
        /// Name of the table.
        name: NamedTable,
        /// Treatment of a table that already exists.
        exists: ExistingTablePolicy,
        /// Columns of the new table.
        content: NewTable,
    },
    /// CREATE SEQUENCE of MariaDB: a table with the columns [`SEQUENCE_COLUMNS`].
    CreateSequence {
        /// Name of the sequence.
        name: NamedTable,
        /// Treatment of a table that already exists.
        exists: ExistingTablePolicy,
        /// Definition of the table.
        definition: Box<TableDefinition>,
    },
    /// DROP SEQUENCE of MariaDB.
    DropSequences(Vec<NamedTable>),
    /// CREATE TEMPORARY TABLE.
    CreateTemporaryTable,
    /// DROP TABLE.
    DropTables(Vec<NamedTable>),
    /// DROP TEMPORARY TABLE.
    DropTemporaryTables,
    /// ALTER TABLE.
    AlterTable {
        /// Name of the table.
        name: NamedTable,
        /// Changes of the table, in order.
        changes: Vec<TableChange>,
    },
    /// RENAME TABLE.
    RenameTables(Vec<TableRename>),
    /// TRUNCATE.
    Truncate(NamedTable),
    /// CREATE INDEX.
    CreateIndex {
        /// Table of the index.
        table: NamedTable,
        /// The index.
        key: KeyDefinition,
    },
    /// DROP INDEX.
    DropIndex {
        /// Table of the index.
        table: NamedTable,
        /// Name of the index.
        name: String,
    },
    /// A statement that defines no table or database.
    Other,
    /// A statement on tables or databases that cannot be parsed.
    Unknown,
}

/// Columns of a sequence of MariaDB, with their types: `{}` is the type of its values.
pub const SEQUENCE_COLUMNS: &str = "next_not_cached_value {} NOT NULL, minimum_value {} NOT NULL, \
    maximum_value {} NOT NULL, start_value {} NOT NULL, increment bigint(21) NOT NULL, \
    cache_size bigint(21) unsigned NOT NULL, cycle_option tinyint(1) unsigned NOT NULL, \
    cycle_count bigint(21) NOT NULL";

/// Treatment of a table or database that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingTablePolicy {
    /// `IF NOT EXISTS`
    Keep,
    /// `OR REPLACE`
    Replace,
    /// The statement fails.
    Refuse,
}

impl ExistingTablePolicy {
    /// Takes MariaDB's `OR REPLACE`, which follows `CREATE`.
    fn take_replace(words: &mut SqlWords) -> Self {
        match words.take("OR REPLACE") {
            true => Self::Replace,
            false => Self::Refuse,
        }
    }

    /// Takes `IF NOT EXISTS`, which follows the kind of object.
    fn take_keep(self, words: &mut SqlWords) -> Self {
        match words.take("IF NOT EXISTS") {
            true => Self::Keep,
            false => self,
        }
    }
}

/// Content of a new table.
#[derive(Clone, Debug, PartialEq)]
pub enum NewTable {
    /// Columns and keys.
    Defined(Box<TableDefinition>),
    /// The definition of another table.
    Like(NamedTable),
    /// Columns, and perhaps rows, of a query.
    Query,
    /// A definition that cannot be parsed.
    Unknown,
}

/// One pair of RENAME TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRename {
    /// Name before.
    pub old: NamedTable,
    /// Name after.
    pub new: NamedTable,
}

impl DdlStatement {
    /// Parses a statement.
    pub fn parse(words: &SqlWords) -> Self {
        let mut words = words.clone();
        let words = &mut words;
        words.skip_set_statement();
        let parsed = if words.take("CREATE") {
            parse_create(words)
        } else if words.take("ALTER") {
            parse_alter(words)
        } else if words.take("DROP") {
            parse_drop(words)
        } else if words.take_any(&["RENAME TABLE", "RENAME TABLES"]) {
            parse_renames(words)
        } else if words.take("TRUNCATE") {
            words.take("TABLE");
            NamedTable::take(words).map(Self::Truncate)
        } else {
            Some(Self::Other)
        };
        parsed.unwrap_or(Self::Unknown)
    }
}

fn parse_create(words: &mut SqlWords) -> Option<DdlStatement> {
    let replace = ExistingTablePolicy::take_replace(words);
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        let exists = replace.take_keep(words);
        let name = words.take_name()?;
        return Some(DdlStatement::CreateDatabase { name, exists, charset: parse_options(words).charset });
    }
    if words.take("TEMPORARY TABLE") {
        return Some(DdlStatement::CreateTemporaryTable);
    }
    if words.take("TABLE") {
        let exists = replace.take_keep(words);
        let name = NamedTable::take(words)?;
        let content = parse_new_table(words).unwrap_or(NewTable::Unknown);
        return Some(DdlStatement::CreateTable { name, exists, content });
    }
    if words.take("SEQUENCE") {
        let exists = replace.take_keep(words);
        let name = NamedTable::take(words)?;
        return parse_sequence(words).map(|definition| DdlStatement::CreateSequence {
            name,
            exists,
            definition,
        });
    }
    words.take_any(&["ONLINE", "OFFLINE"]);
    let kind = KeyKind::take(words);
    match words.take("INDEX") {
        true => parse_create_index(words, kind),
        false => Some(DdlStatement::Other),
    }
}

/// Returns the table of a sequence, whose name is taken.
fn parse_sequence(options: &mut SqlWords) -> Option<Box<TableDefinition>> {
    let value_type = match options.take("AS") {
        true => ColumnTypeDefinition::parse(options)?,
        false => ColumnTypeDefinition::parse(&mut SqlWords::parse("bigint(21)", 0)?)?,
    };
    let unsigned = if value_type.is_unsigned { " unsigned" } else { "" };
    let value_type = format!("{}{unsigned}", value_type.data_type());
    let columns = SqlWords::parse(&SEQUENCE_COLUMNS.replace("{}", &value_type), 0)?;
    Some(Box::new(TableDefinition::parse(columns, &mut SqlWords::parse("", 0)?)))
}

fn parse_new_table(words: &mut SqlWords) -> Option<NewTable> {
    let is_open = words.is_sign("(");
    let mut inner = words.clone();
    if is_open {
        // A parenthesis without its end cannot be parsed.
        inner = inner.take_group()?;
    }
    if inner.take("LIKE") {
        return NamedTable::take(&mut inner).map(NewTable::Like);
    }
    let columns = words.take_group();
    if columns.as_ref().is_some_and(starts_query) || has_query(words) {
        return Some(NewTable::Query);
    }
    // MariaDB's storage engines can find the columns of a table.
    Some(NewTable::Defined(Box::new(TableDefinition::parse(columns?, words))))
}

/// Words that start a query. No column has such a name without quotes.
const QUERY_WORDS: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];

/// Returns whether a query comes next, possibly after parentheses.
fn starts_query(words: &SqlWords) -> bool {
    let mut inner = words.clone();
    while let Some(group) = inner.take_group() {
        inner = group;
    }
    inner.is_any_next(&QUERY_WORDS)
}

/// Returns whether a query follows the options of a table.
fn has_query(options: &SqlWords) -> bool {
    let mut rest = options.clone();
    while !rest.is_at_end() {
        // An option of MariaDB's, and no common table expression.
        if rest.take("WITH SYSTEM VERSIONING") {
            continue;
        }
        if rest.is_next("AS") || starts_query(&rest) {
            return true;
        }
        rest.skip();
    }
    false
}

fn parse_create_index(words: &mut SqlWords, kind: KeyKind) -> Option<DdlStatement> {
    words.take("IF NOT EXISTS");
    let name = words.take_name()?;
    if words.take("USING") {
        words.skip();
    }
    words.take("ON").then_some(())?;
    let table = NamedTable::take(words)?;
    let parts = parse_key_parts(words.take_group()?);
    Some(DdlStatement::CreateIndex { table, key: KeyDefinition { kind, name: Some(name), parts } })
}

fn parse_alter(words: &mut SqlWords) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        let is_named = !words.is_any_next(&["CHARACTER", "CHAR", "CHARSET", "COLLATE", "DEFAULT"]);
        let name = if is_named { Some(words.take_name()?) } else { None };
        return Some(DdlStatement::AlterDatabase { name, charset: parse_options(words).charset });
    }
    let mut table = words.clone();
    while table.take_any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
    if !table.take("TABLE") {
        return Some(DdlStatement::Other);
    }
    table.take("IF EXISTS");
    let name = NamedTable::take(&mut table)?;
    skip_wait(&mut table);
    Some(DdlStatement::AlterTable { name, changes: parse_changes(&mut table) })
}

/// Skips MariaDB's limit of the wait for locks.
fn skip_wait(words: &mut SqlWords) {
    if words.take("WAIT") {
        words.skip();
    }
    words.take("NOWAIT");
}

fn parse_drop(words: &mut SqlWords) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        words.take("IF EXISTS");
        return words.take_name().map(DdlStatement::DropDatabase);
    }
    if words.take_any(&["TEMPORARY TABLE", "TEMPORARY TABLES"]) {
        return Some(DdlStatement::DropTemporaryTables);
    }
    if words.take_any(&["TABLE", "TABLES"]) {
        words.take("IF EXISTS");
        return NamedTable::take_list(words).map(DdlStatement::DropTables);
    }
    if words.take("SEQUENCE") {
        words.take("IF EXISTS");
        return NamedTable::take_list(words).map(DdlStatement::DropSequences);
    }
    words.take_any(&["ONLINE", "OFFLINE"]);
    if !words.take("INDEX") {
        return Some(DdlStatement::Other);
    }
    words.take("IF EXISTS");
    let name = words.take_name()?;
    words.take("ON").then_some(())?;
    Some(DdlStatement::DropIndex { table: NamedTable::take(words)?, name })
}

fn parse_renames(words: &mut SqlWords) -> Option<DdlStatement> {
    words.take("IF EXISTS");
    let mut renames = Vec::new();
    loop {
        let old = NamedTable::take(words)?;
        skip_wait(words);
        words.take("TO").then_some(())?;
        renames.push(TableRename { old, new: NamedTable::take(words)? });
        if !words.take_sign(",") {
            return Some(DdlStatement::RenameTables(renames));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        ColumnKey, DdlStatement, DefaultClause, ExistenceCheck, ExistingTablePolicy, ForeignKeyAction,
        KeyKind, NamedTable, NewTable, TableChange, TableDefinition, TableElement,
    };
    use crate::sql_words::SqlWords;

    fn parse(sql: &str) -> DdlStatement {
        DdlStatement::parse(&SqlWords::parse(sql, 0).unwrap())
    }

    fn shown(table: &NamedTable) -> String {
        table.resolve("d").join(".")
    }

    fn all_shown<'t>(tables: impl IntoIterator<Item = &'t NamedTable>) -> String {
        tables.into_iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// Checks the kind of a statement, and the tables that it defines.
    fn check(sql: &str, expected: &str) {
        let found = match parse(sql) {
            DdlStatement::CreateDatabase { name, exists, charset } => {
                format!("database {name} {exists:?} {}", charset.unwrap_or_default())
            }
            DdlStatement::AlterDatabase { name, charset } => {
                format!("alter database {} {}", name.unwrap_or_default(), charset.unwrap_or_default())
            }
            DdlStatement::DropDatabase(name) => format!("drop database {name}"),
            DdlStatement::CreateTable { name, exists, content } => {
                let content = match content {
                    NewTable::Defined(_) => "defined".to_owned(),
                    NewTable::Like(model) => format!("like {}", shown(&model)),
                    NewTable::Query => "query".to_owned(),
                    NewTable::Unknown => "unknown".to_owned(),
                };
                format!("table {} {exists:?} {content}", shown(&name))
            }
            DdlStatement::DropTables(names) => format!("drop {}", all_shown(&names)),
            DdlStatement::AlterTable { name, changes } => format!("alter {} {}", shown(&name), changes.len()),
            DdlStatement::RenameTables(renames) => {
                format!("rename {}", all_shown(renames.iter().flat_map(|rename| [&rename.old, &rename.new])))
            }
            DdlStatement::Truncate(name) => format!("truncate {}", shown(&name)),
            DdlStatement::CreateIndex { table, key } => {
                format!("index {:?} {} on {}", key.kind, key.name.unwrap_or_default(), shown(&table))
            }
            DdlStatement::DropIndex { table, name } => format!("drop index {name} on {}", shown(&table)),
            other => format!("{other:?}"),
        };
        assert_eq!(found.trim_end(), expected, "{sql}");
    }

    #[test]
    fn statements() {
        check("create schema if not exists `e` default char set = 'KOI8R'", "database e Keep koi8r");
        check("create or replace database e collate latin1_bin", "database e Replace latin1");
        check("alter database character set utf8mb4", "alter database  utf8mb4");
        check("alter schema e read only = 1", "alter database e");
        check("drop database if exists e", "drop database e");
        check("create table t (a int) engine=innodb start transaction", "table d.t Refuse defined");
        check("create or replace table e.t like t", "table e.t Replace like d.t");
        check("create table if not exists t (like e.u)", "table d.t Keep like e.u");
        check("create table t select 1", "table d.t Refuse query");
        check("create table t (x int) as select 1 x", "table d.t Refuse query");
        check("create table t (x int) with c as (select 1) select 1 x from c", "table d.t Refuse query");
        check("create table t (select 1 x)", "table d.t Refuse query");
        check("create table t ((select 1 x))", "table d.t Refuse query");
        check("create table t (x int) engine=innodb (select 1 x)", "table d.t Refuse query");
        check("create table t (x int) partition by hash (x)", "table d.t Refuse defined");
        check("create table t engine=innodb select 1", "table d.t Refuse query");
        check("create table t engine=connect table_type=mysql", "table d.t Refuse unknown");
        check("create table t (x int) with system versioning", "table d.t Refuse defined");
        check(
            "create table t (x int) engine=innodb with system versioning select 1",
            "table d.t Refuse query",
        );
        check("create table t (x int", "table d.t Refuse unknown");
        check("create table t (like u", "table d.t Refuse unknown");
        check("create or replace temporary table t (a int)", "CreateTemporaryTable");
        check("drop temporary table if exists t", "DropTemporaryTables");
        check("drop table if exists `a``b`, e.c restrict /* generated by server */", "drop d.a`b e.c");
        check("rename table a to b, b to e.c", "rename d.a d.b d.b e.c");
        check("rename tables if exists a wait 3 to b", "rename d.a d.b");
        check("alter online ignore table if exists e.t add a int, drop b", "alter e.t 2");
        check("alter table t order by a, b", "alter d.t 1");
        check("alter table t wait 5 add a int", "alter d.t 1");
        check("alter table if exists t nowait drop b, drop c", "alter d.t 2");
        check("truncate table t", "truncate d.t");
        check("create unique index if not exists i using btree on t (a)", "index Unique i on d.t");
        check("create fulltext index i on e.t (a)", "index Special i on e.t");
        check("create vector index i on t (a)", "index Special i on d.t");
        check("drop index if exists `PRIMARY` on t", "drop index PRIMARY on d.t");
        check("create definer=`root`@`%` trigger g before insert on t for each row set @a = 1", "Other");
        check("drop view v", "Other");
        check("insert into t values (1)", "Other");
        check("create table", "Unknown");
        check("rename table a", "Unknown");
        check("drop index i", "Unknown");
    }

    fn definition(elements: &str) -> TableDefinition {
        match parse(&format!("create table t ({elements})")) {
            DdlStatement::CreateTable { content: NewTable::Defined(definition), .. } => *definition,
            other => panic!("{elements}: {other:?}"),
        }
    }

    #[test]
    fn versioned_tables() {
        let check = |sql: &str, expected: bool, is_hidden: bool| match parse(sql) {
            DdlStatement::CreateTable { content: NewTable::Defined(definition), .. } => {
                assert_eq!(
                    (definition.is_versioned, definition.has_hidden_period()),
                    (expected, is_hidden),
                    "{sql}"
                );
            }
            other => panic!("{sql}: {other:?}"),
        };
        check("create table t (a int) engine=innodb with system versioning", true, true);
        check("create table t (a int with system versioning, b int)", true, true);
        check("create table t (a int without system versioning) with system versioning", true, true);
        check(
            "create table t (a int, s timestamp(6) generated always as row start, e timestamp(6) generated always as \
             row end, period for system_time (s, e)) with system versioning",
            true,
            false,
        );
        check("create table t (a date, b date, period for p (a, b)) with system versioning", true, true);
        check("create table t (a int comment 'with system versioning')", false, false);
    }

    #[test]
    fn elements() {
        let check = |elements: &str, expected: &str| {
            let shown = |element: TableElement| match element {
                TableElement::Column(column) => format!("{} {}", column.name, column.column_type.data_type()),
                TableElement::PrimaryKey(parts) => format!("primary {}", parts.len()),
                TableElement::Key(key) => {
                    let columns = key.parts.iter().map(|part| part.column.as_deref().unwrap_or("?"));
                    let columns = columns.collect::<Vec<_>>().join(",");
                    format!("{:?} {} {columns}", key.kind, key.name.unwrap_or_default())
                }
                TableElement::ForeignKey(key) => {
                    let name = key.name.unwrap_or_default();
                    format!(
                        "foreign {name} {} {:?} {:?}",
                        all_shown([&key.parent]),
                        key.on_delete,
                        key.on_update
                    )
                }
                TableElement::Unknown(words) => format!("unknown {words}"),
                other => format!("{other:?}"),
            };
            let found: Vec<String> = definition(elements).elements.into_iter().map(shown).collect();
            assert_eq!(found.join("; "), expected, "{elements}");
        };
        check("a int, primary key using btree (a, b(3))", "a int; primary 2");
        check("key (a), unique key u (a, b desc), index i ((a + 1))", "Plain  a; Unique u a,b; Plain i ?");
        check(
            "fulltext key f (a), spatial index (g), vector key (v), vector vector(3)",
            "Special f a; Special  g; Special  v; vector vector",
        );
        check(
            "constraint f foreign key i (a) references e.p (q) match full on update no action on delete cascade",
            "foreign f e.p Cascade Restrict",
        );
        check(
            "constraint foreign key (a) references p (q) on delete set null",
            "foreign  d.p SetNull Restrict",
        );
        check("constraint u unique (a), constraint check (a > 0), check (b)", "Unique u a; Check; Check");
        check("period date, period for p (a, b), `primary` int", "period date; Period; primary int");
        check("a, b ()", "unknown A; unknown B");
        check("foreign key (a) references", "unknown FOREIGN KEY");
    }

    #[test]
    fn columns() {
        let column = |text: &str| match definition(text).elements.as_slice() {
            [TableElement::Column(column)] => *column.clone(),
            other => panic!("{text}: {other:?}"),
        };
        let check = |text: &str, expected: Option<DefaultClause>| {
            assert_eq!(column(text).default, expected, "{text}");
        };
        check("a int default null", Some(DefaultClause::Null));
        check("a int default -1.50", Some(DefaultClause::Number("-1.50".to_owned())));
        check("a text default _latin1'x' 'y' comment 'z'", Some(DefaultClause::Text("xy".to_owned())));
        check("a bit default 0b101 comment 'default'", Some(DefaultClause::Bits("101".to_owned())));
        check("a bool default true", Some(DefaultClause::Boolean(true)));
        check(
            "a datetime default current_timestamp(3) on update now()",
            Some(DefaultClause::CurrentTimestamp),
        );
        check("a int default (1 + 2)", Some(DefaultClause::Expression));
        // The word DEFAULT in other clauses.
        check("a int column_format default storage default", None);
        check("a int references p (q) on delete set default", None);
        let serial = column("a serial");
        assert_eq!((serial.nullable, serial.keys.as_slice()), (false, &[ColumnKey::Unique][..]));
        let key = column("a int not secondary references p on update cascade primary key");
        assert_eq!((key.nullable, key.keys.as_slice()), (false, &[ColumnKey::Primary][..]));
        assert_eq!(key.references.unwrap().on_update, ForeignKeyAction::Cascade);
        assert!(column("a int not secondary").nullable);
        assert!(column("a int generated always as (b + 1) stored").is_generated);
        assert_eq!(
            column("a char(3) charset 'LATIN1' collate latin1_bin").charset.as_deref(),
            Some("latin1")
        );
        assert_eq!(column("a float(53)").column_type.data_type(), "double");
        assert_eq!(column("a national char varying(3) byte").column_type.data_type(), "varbinary");
    }

    #[test]
    fn changes() {
        let check = |clauses: &str, expected: &str| {
            let DdlStatement::AlterTable { changes, .. } = parse(&format!("alter table t {clauses}")) else {
                panic!("{clauses}")
            };
            let name = |text: &TableChange| {
                let text = format!("{text:?}");
                text.split([' ', '(']).next().unwrap_or_default().to_owned()
            };
            let found: Vec<String> = changes.iter().map(name).collect();
            assert_eq!(found.join(" "), expected, "{clauses}: {changes:?}");
        };
        check(
            "add column if not exists a int first, add (b int, key (b)), add constraint check (c)",
            "Add Add Add Add",
        );
        check("modify column if exists a int after b, change a b int", "ReplaceColumn ReplaceColumn");
        check(
            "drop column if exists a, drop key `primary`, drop index if exists i",
            "DropColumn DropPrimaryKey DropKey",
        );
        check(
            "drop foreign key f, drop constraint c, drop primary key",
            "DropForeignKey DropConstraint DropPrimaryKey",
        );
        check(
            "alter column a set default 7, alter a drop default, alter index i invisible",
            "SetDefault SetDefault Other",
        );
        check("rename column a to b, rename key i to j, rename as e.u", "RenameColumn RenameKey RenameTable");
        check(
            "convert to char set latin1, engine=innodb default charset=latin1, page_foo=1",
            "ConvertCharset Options Options",
        );
        check("exchange partition p with table u", "Rows");
        check("algorithm=inplace, drop partition p, q", "Other Rows");
        check("reorganize partition p, q into (partition r values less than (9))", "Other");
        check("add partition (partition p values less than (3)), algorithm=inplace", "Other Other");
        check("add system versioning, drop period for p", "Versioning Versioning");
        check("order by a, b", "Other");
        check("frobnicate, rename column a", "Unknown Unknown");
    }

    #[test]
    fn checks_of_existence() {
        let change = |sql: &str| match parse(sql) {
            DdlStatement::AlterTable { mut changes, .. } => changes.remove(0),
            other => panic!("{other:?}"),
        };
        let check = ExistenceCheck::Skip;
        assert_eq!(
            change("alter table t drop if exists a"),
            TableChange::DropColumn { name: "a".to_owned(), check }
        );
        assert_eq!(
            change("alter table t add unique if not exists u (a)"),
            change("alter table t add unique key u (a)")
        );
        let DdlStatement::CreateIndex { key, .. } = parse("create index i on t (a(3), (b))") else {
            panic!()
        };
        assert_eq!((key.kind, key.parts[0].is_prefix, &key.parts[1].column), (KeyKind::Plain, true, &None));
        assert_eq!(
            parse("create table if not exists t like u"),
            parse("create table if not exists t (like u)")
        );
        let DdlStatement::CreateTable { exists, .. } = parse("create table t (a int)") else { panic!() };
        assert_eq!(exists, ExistingTablePolicy::Refuse);
    }

    proptest! {
        /// Words of definitions in any order never break the parser.
        #[test]
        fn any_words_are_parsed(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40)) {
            for start in ["", "create table t (", "alter table t ", "create table t (a "] {
                let text = format!("{start}{}", words.join(" "));
                let words = SqlWords::parse(&text, 0).unwrap();
                let _ = DdlStatement::parse(&words);
            }
        }
    }

    const WORDS: [&str; 60] = [
        "create",
        "alter",
        "drop",
        "rename",
        "table",
        "database",
        "index",
        "if",
        "not",
        "exists",
        "or",
        "replace",
        "t",
        "`a`",
        "(",
        ")",
        ",",
        ".",
        "=",
        "add",
        "column",
        "modify",
        "change",
        "key",
        "primary",
        "unique",
        "foreign",
        "references",
        "constraint",
        "check",
        "on",
        "delete",
        "update",
        "set",
        "null",
        "default",
        "int",
        "enum",
        "'x'",
        "5",
        "-",
        "0x1f",
        "charset",
        "character",
        "collate",
        "latin1",
        "first",
        "after",
        "to",
        "like",
        "select",
        "partition",
        "serial",
        "varchar",
        "byte",
        "as",
        "period",
        "for",
        "engine",
        "with",
    ];
}
