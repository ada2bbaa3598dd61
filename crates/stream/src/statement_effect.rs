//! Classification of the statements in a log.

use binlog::events::{Query, StatusVar};
use binlog::{Charset, Collation, EventFormat, Flavour};
use sql::ddl::DdlStatement;
use sql::{ReplicationFilter, SqlWords, StatementKind, classify_statement, first_word};

use crate::change::DdlVerb;
use crate::ddl_schema::{DdlContext, DdlSchema, SchemaChanges};

/// Effect of a statement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementEffect {
    /// Defines a database, or tables, of which `table` is the first.
    Definition {
        /// Action of the statement.
        verb: DdlVerb,
        /// Name of the database.
        database: String,
        /// Name of the first table.
        table: Option<String>,
    },
    /// Changes rows, which the log does not contain.
    Rows,
    /// None of these, or excluded by the filter.
    Other,
}

/// First words of statements that change rows.
const ROW_VERBS: [&str; 6] = ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL"];

impl StatementEffect {
    /// Classifies a statement; `Other` if the filter excludes it.
    pub fn of(query: &Query<'_>, flavour: Flavour, filter: &ReplicationFilter) -> Self {
        let default = query.database;
        let first = first_word(query.sql);
        let kind = classify_statement(query.sql);
        if !filter.accepts_statement(&kind, default) {
            return Self::Other;
        }
        if ROW_VERBS.contains(&first.as_str()) {
            return Self::Rows;
        }
        match (ddl_verb(&first, query, flavour), kind) {
            (Some(verb), StatementKind::Database) => Self::of_database(verb, query),
            (Some(verb), StatementKind::Tables(tables)) => match tables.first() {
                Some(named) => {
                    let (database, table) = named.resolve(default);
                    let [database, table] =
                        [database, table].map(|name| String::from_utf8_lossy(name).into_owned());
                    Self::Definition { verb, database, table: Some(table) }
                }
                None => Self::Other,
            },
            _ => Self::Other,
        }
    }

    fn of_database(verb: DdlVerb, query: &Query<'_>) -> Self {
        let database = String::from_utf8_lossy(query.database).into_owned();
        Self::Definition { verb, database, table: None }
    }
}

/// Returns the action of a DDL statement that starts with `first`. `None` for views, triggers and statements of other
/// kinds.
fn ddl_verb(first: &str, query: &Query<'_>, flavour: Flavour) -> Option<DdlVerb> {
    let by_first_word = match first {
        "CREATE" => DdlVerb::Create,
        "ALTER" | "RENAME" => DdlVerb::Alter,
        "DROP" => DdlVerb::Drop,
        "TRUNCATE" => DdlVerb::Truncate,
        _ => return None,
    };
    let words = SqlWords::parse(&statement_text(query, flavour), sql_mode_of(query));
    match words.map_or(DdlStatement::Unknown, |words| DdlStatement::parse(&words)) {
        DdlStatement::CreateIndex { .. } | DdlStatement::DropIndex { .. } => Some(DdlVerb::Alter),
        // A temporary table is not the table of that name that consumers know.
        DdlStatement::CreateTemporaryTable | DdlStatement::DropTemporaryTables | DdlStatement::Other => None,
        _ => Some(by_first_word),
    }
}

/// Returns the bits of `sql_mode` that the statement was run with.
fn sql_mode_of(query: &Query<'_>) -> u64 {
    let mode = query.status.iter().flatten().find_map(|var| match var {
        StatusVar::SqlMode(bits) => Some(bits),
        _ => None,
    });
    mode.unwrap_or(0)
}

/// Applies a DDL statement to the definitions; returns the changes.
pub(crate) fn apply_ddl(
    definitions: &mut DdlSchema,
    query: &Query<'_>,
    format: &EventFormat,
) -> SchemaChanges {
    if !["CREATE", "ALTER", "DROP", "RENAME"].contains(&first_word(query.sql).as_str()) {
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
    let sql_mode = sql_mode_of(query);
    let ambient = DdlContext { database: &database, sql_mode, charset, may_have_no_effect: may_be_idle };
    definitions.apply_statement(&statement_text(query, format.flavour), ambient)
}

/// Returns whether the server logs a DDL xid with statements that had an effect. MySQL does since 8.0, for InnoDB.
fn logs_ddl_xids(format: &EventFormat) -> bool {
    let digits = format.server_version.iter().take_while(|byte| byte.is_ascii_digit());
    let major = digits.fold(0_u32, |major, digit| major.saturating_mul(10) + u32::from(digit - b'0'));
    format.flavour == Flavour::MySql && major >= 8
}

/// Decodes the statement from its client's character set.
pub(crate) fn statement_text(query: &Query<'_>, flavour: Flavour) -> String {
    let client = query.status.iter().flatten().find_map(|var| match var {
        StatusVar::Charset { client, .. } => Collation::new(client, flavour),
        _ => None,
    });
    let charset = client.map_or(Charset::Utf8mb4, |collation| collation.charset());
    charset.decode_lossy(query.sql).into_owned()
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::{Query, StatusVars};
    use sql::{ReplicationFilter, first_word};

    use super::{StatementEffect, ddl_verb};
    use crate::change::DdlVerb;

    fn query(sql: &str) -> Query<'_> {
        let (status, database) = (StatusVars { bytes: &[] }, b"d");
        Query { thread_id: 1, exec_time: 0, error_code: 0, status, database, sql: sql.as_bytes() }
    }

    #[test]
    fn verbs() {
        let check = |sql: &str, expected: Option<DdlVerb>| {
            let query = query(sql);
            assert_eq!(ddl_verb(&first_word(query.sql), &query, Flavour::MySql), expected, "{sql}");
        };
        check("create table t (a int, index (a))", Some(DdlVerb::Create));
        check("create temporary table t (a int)", None);
        check("drop temporary table t", None);
        check("create unique index i on t (a)", Some(DdlVerb::Alter));
        check("drop index i on t", Some(DdlVerb::Alter));
        check("create database my_index", Some(DdlVerb::Create));
        check("drop table `view`", Some(DdlVerb::Drop));
        check("rename table a to b", Some(DdlVerb::Alter));
        check("-- it's\n# b\ntruncate t", Some(DdlVerb::Truncate));
        check("create or replace definer = u@h view t as select 1", None);
        check("alter user u account lock", None);
        let effect =
            StatementEffect::of(&query("# b\ndrop table t"), Flavour::MySql, &ReplicationFilter::default());
        let table = Some("t".to_owned());
        assert_eq!(
            effect,
            StatementEffect::Definition { verb: DdlVerb::Drop, database: "d".to_owned(), table }
        );
    }
}
