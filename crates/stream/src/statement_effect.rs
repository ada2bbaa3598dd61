//! Classification of the statements in a log.

use std::borrow::Cow;

use binlog::events::{Query, StatusVar};
use binlog::{Collation, EventFormat, Flavour};
use sql::ddl::{DdlStatement, NewTable};
use sql::{
    ReplicationFilter, StatementKind, TableReference, classify_statement, executed_statement, first_word,
    is_row_statement, query_ddl, query_sql_mode, query_text,
};

use crate::change::DdlVerb;
use crate::ddl_schema::{DdlContext, DdlSchema, SchemaChanges};

/// Effect of a statement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementEffect {
    /// Defines a database or tables.
    Definition {
        /// Action of the statement.
        verb: DdlVerb,
        /// Names of the defined objects, at least one. A renamed table has its old name, or the new one if the filter excludes the
        /// old one.
        names: Vec<DefinedName>,
        /// True for `CREATE TABLE … SELECT`: it also adds rows, which the log does not contain.
        adds_rows: bool,
    },
    /// Changes rows, which the log does not contain.
    Rows,
    /// None of these, or excluded by the filter.
    Other,
}

/// Name of a database or table that a statement defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedName {
    /// Name of the database.
    pub database: String,
    /// Name of the table; `None` for a database.
    pub table: Option<String>,
}

impl StatementEffect {
    /// Classifies a statement; `Other` if the filter excludes it.
    pub fn of(query: &Query<'_>, flavour: Flavour, filter: &ReplicationFilter) -> Self {
        let query = &Query { sql: &executed_sql(query, flavour), ..*query };
        let default = query.database;
        let kind = classify_statement(query_text(query, flavour).as_bytes());
        if is_row_statement(query.sql) {
            return if filter.accepts_statement(&kind, default) { Self::Rows } else { Self::Other };
        }
        let Some((verb, statement)) = definition_of(query, flavour) else { return Self::Other };
        let names = match &kind {
            StatementKind::Database if filter.accepts_statement(&kind, default) => {
                vec![DefinedName { database: String::from_utf8_lossy(default).into_owned(), table: None }]
            }
            StatementKind::Tables(tables) if filter.accepts_database(default) => {
                selected_tables(&statement, tables, default, filter)
            }
            _ => Vec::new(),
        };
        let adds_rows = matches!(statement, DdlStatement::CreateTable { content: NewTable::Query, .. });
        if names.is_empty() { Self::Other } else { Self::Definition { verb, names, adds_rows } }
    }
}

/// Returns the tables of a definition that the filter selects: each dropped table, one of each pair of names of a renamed
/// table, and otherwise the first one.
fn selected_tables(
    statement: &DdlStatement,
    tables: &[TableReference],
    default: &[u8],
    filter: &ReplicationFilter,
) -> Vec<DefinedName> {
    let names_of_each = match statement {
        DdlStatement::DropTables(_) => 1,
        DdlStatement::RenameTables(_) => 2,
        _ => tables.len().max(1),
    };
    let is_selected = |named: &&TableReference| filter.accepts_tables([named.resolve(default)]);
    let defined = |named: &TableReference| {
        let (database, table) = named.resolve(default);
        let [database, table] = [database, table].map(|name| String::from_utf8_lossy(name).into_owned());
        DefinedName { database, table: Some(table) }
    };
    let first = |names: &[TableReference]| names.iter().find(is_selected).map(defined);
    tables.chunks(names_of_each).filter_map(first).collect()
}

/// Returns a DDL statement and its action. `None` for views, triggers and statements of other kinds.
fn definition_of(query: &Query<'_>, flavour: Flavour) -> Option<(DdlVerb, DdlStatement)> {
    let by_first_word = match first_word(query.sql).as_str() {
        "CREATE" => DdlVerb::Create,
        "ALTER" | "RENAME" => DdlVerb::Alter,
        "DROP" => DdlVerb::Drop,
        "TRUNCATE" => DdlVerb::Truncate,
        _ => return None,
    };
    let statement = query_ddl(query, flavour);
    let verb = match statement {
        DdlStatement::CreateIndex { .. } | DdlStatement::DropIndex { .. } => DdlVerb::Alter,
        // A temporary table is not the table of that name that consumers know.
        DdlStatement::CreateTemporaryTable
        | DdlStatement::DropTemporaryTables
        | DdlStatement::CreateSequence { .. }
        | DdlStatement::DropSequences(_)
        | DdlStatement::Other => return None,
        _ => by_first_word,
    };
    Some((verb, statement))
}

/// Returns the statement as the server has executed it.
pub(crate) fn executed_sql<'q>(query: &Query<'q>, flavour: Flavour) -> Cow<'q, [u8]> {
    executed_statement(query.sql, query_sql_mode(query, flavour), flavour)
}

/// Applies a DDL statement to the definitions; returns the changes.
pub(crate) fn apply_ddl(
    definitions: &mut DdlSchema,
    query: &Query<'_>,
    format: &EventFormat,
) -> SchemaChanges {
    let query = &Query { sql: &executed_sql(query, format.flavour), ..*query };
    let is_definition = ["CREATE", "ALTER", "DROP", "RENAME"].contains(&first_word(query.sql).as_str());
    if !is_definition || query.is_unexecuted_alter() {
        return SchemaChanges::default();
    }
    let (mut server, mut has_xid) = (None, false);
    for var in query.status.iter().flatten() {
        match var {
            StatusVar::DdlXid(_) => has_xid = true,
            StatusVar::Charset { server: collation, .. } => {
                server = Collation::new(collation, format.flavour);
            }
            _ => {}
        }
    }
    let database = String::from_utf8_lossy(query.database);
    let charset = server.map(|collation| collation.charset().name());
    let may_be_idle = !has_xid && logs_ddl_xids(format);
    let sql_mode = query_sql_mode(query, format.flavour);
    let ambient = DdlContext { database: &database, sql_mode, charset, may_have_no_effect: may_be_idle };
    definitions.apply_statement(&query_text(query, format.flavour), ambient)
}

/// Returns whether the server logs a DDL xid with statements that had an effect. MySQL does since 8.0, for InnoDB.
fn logs_ddl_xids(format: &EventFormat) -> bool {
    let digits = format.server_version.iter().take_while(|byte| byte.is_ascii_digit());
    let major = digits.fold(0_u32, |major, digit| major.saturating_mul(10) + u32::from(digit - b'0'));
    format.flavour == Flavour::MySql && major >= 8
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::{Query, StatusVars};
    use sql::{FilterRule, ReplicationFilter};

    use super::{DefinedName, StatementEffect};

    /// Checks the action of a definition with its databases and tables, `rows`, or an empty text.
    #[track_caller]
    fn check_on(flavour: Flavour, sql: &str, expected: &str) {
        check_filtered(flavour, &ReplicationFilter::default(), sql, expected);
    }

    #[track_caller]
    fn check_filtered(flavour: Flavour, filter: &ReplicationFilter, sql: &str, expected: &str) {
        let (status, database) = (StatusVars { bytes: &[] }, b"d");
        let query =
            Query { thread_id: 1, exec_time: 0, error_code: 0, status, database, sql: sql.as_bytes() };
        let found = match StatementEffect::of(&query, flavour, filter) {
            StatementEffect::Definition { verb, names, adds_rows } => {
                let name = |DefinedName { database, table }: DefinedName| match table {
                    Some(table) => format!("{database}.{table}"),
                    None => database,
                };
                let names: Vec<String> = names.into_iter().map(name).collect();
                format!("{verb:?} {}{}", names.join(" "), if adds_rows { " with rows" } else { "" })
            }
            StatementEffect::Rows => "rows".to_owned(),
            StatementEffect::Other => String::new(),
        };
        assert_eq!(found, expected, "{sql}");
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        check_on(Flavour::MySql, sql, expected);
        check_on(Flavour::MariaDb, sql, expected);
    }

    #[test]
    fn definitions() {
        check("create table t (a int, index (a))", "Create d.t");
        check("create temporary table t (a int)", "");
        check("drop temporary table t", "");
        check("create unique index i on t (a)", "Alter d.t");
        check("drop index i on t", "Alter d.t");
        check("create database my_index", "Create d");
        check("drop table `view`", "Drop d.view");
        check("rename table a to b", "Alter d.a");
        check("rename table a to b, e.c to f", "Alter d.a e.c");
        check("drop table a, e.b", "Drop d.a e.b");
        check("# b\ndrop table t", "Drop d.t");
        check("-- it's\n# b\ntruncate t", "Truncate d.t");
        check("create or replace definer = u@h view t as select 1", "");
        check("alter user u account lock", "");
        check("/*!40000 DROP DATABASE IF EXISTS x*/", "Drop d");
        check("/*!80000 truncate table e.t */", "Truncate e.t");
        check("/*!40000 ALTER TABLE `t` DISABLE KEYS */", "Alter d.t");
        check(
            "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1 */",
            "",
        );
        check("/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50001 VIEW v AS SELECT 1 */", "");
        check("create temporary table t select 1", "");
    }

    #[test]
    fn tables_that_the_filter_excludes_are_not_named() {
        let names = |names: [&str; 2]| names.map(str::to_owned);
        let check = |rules: [FilterRule; 2], sql: &str, expected: &str| {
            check_filtered(Flavour::MySql, &ReplicationFilter::new(rules).unwrap(), sql, expected);
        };
        let selected = |sql: &str, expected: &str| {
            check(names(["d.t", "d.u"]).map(FilterRule::DoTable), sql, expected);
        };
        selected("drop table x, t, y, u", "Drop d.t d.u");
        selected("drop table x, y", "");
        selected("rename table x to y, x to t, u to z, t to u", "Alter d.t d.u d.t");
        selected("alter table x exchange partition p with table t", "Alter d.t");
        let remaining = |sql: &str, expected: &str| {
            check(names(["d.x", "e.x"]).map(FilterRule::IgnoreTable), sql, expected);
        };
        remaining("drop table x, t", "Drop d.t");
        remaining("drop table t, e.x, e.y", "Drop d.t e.y");
        remaining("rename table x to t", "Alter d.t");
        remaining("insert into x values (1)", "");
    }

    #[test]
    fn queries_of_new_tables_add_rows() {
        check("create table t select * from u", "Create d.t with rows");
        check("create table if not exists t (a int) engine=innodb as select 1 a", "Create d.t with rows");
        check("create table t (a int) (select 1 a)", "Create d.t with rows");
        check("create table t ((select 1 a))", "Create d.t with rows");
        check("/*!80000 create table t as table u */", "Create d.t with rows");
        // As logged with the rows as events.
        check("CREATE TABLE `t` (\n  `a` int NOT NULL\n) START TRANSACTION", "Create d.t");
        check(
            "CREATE TABLE `t` (`a` int) START TRANSACTION\n/*!50100 PARTITION BY LIST (`a`) (PARTITION p VALUES IN (1)) */",
            "Create d.t",
        );
        check("create table t like u", "Create d.t");
        // MariaDB finds the columns.
        check("create table t engine=connect table_type=mysql", "Create d.t");
    }

    #[test]
    fn row_changes() {
        check("insert into t values (1)", "rows");
        check("with c as (select 1 x) update t join c on c.x=t.id set t.v=77", "rows");
        check("/*!80000 insert into t values (2,2) */", "rows");
        check("SELECT `d`.`f`()", "rows");
        check("set @a = 1", "");
        check("SAVEPOINT s", "");
        check("analyze table t", "");
        check("DO RELEASE_LOCK('x')", "");
        check_on(Flavour::MariaDb, "/*M! insert into t values (2,2) */", "rows");
        check_on(Flavour::MySql, "/*M! insert into t values (2,2) */", "");
        check_on(Flavour::MariaDb, "/*M!100100 alter table t add z int */", "Alter d.t");
        check_on(Flavour::MariaDb, "analyze format=json update t set v=9", "rows");
    }
}
