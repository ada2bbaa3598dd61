//! Classification of the statements in a log.

use binlog::events::{Query, StatusVar};
use binlog::{Charset, Collation, EventFormat, Flavour};
use sql::{ReplicationFilter, StatementKind, classify_statement, first_word};

use crate::change::DdlVerb;
use crate::ddl_schema::{DdlContext, DdlSchema, SchemaChanges};

/// Effect of a statement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatementEffect {
    /// Defines a database, or tables, of which `table` is the first.
    Definition { verb: DdlVerb, database: String, table: Option<String> },
    /// Changes rows, which the log does not contain.
    Rows,
    /// None of these, or excluded by the filter.
    Other,
}

/// First words of statements that change rows.
const ROW_VERBS: [&str; 6] = ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL"];

impl StatementEffect {
    /// Classifies a statement; `Other` if the filter excludes it.
    pub(crate) fn of(query: &Query<'_>, filter: &ReplicationFilter) -> Self {
        let default = query.database;
        let first = first_word(query.sql);
        let kind = classify_statement(query.sql);
        if !filter.accepts_statement(&kind, default) {
            return Self::Other;
        }
        if ROW_VERBS.contains(&first.as_str()) {
            return Self::Rows;
        }
        match (ddl_verb(&first, query.sql), kind) {
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
fn ddl_verb(first: &str, sql: &[u8]) -> Option<DdlVerb> {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(200)]).to_ascii_uppercase();
    let is_other = ["TRIGGER", "VIEW"].iter().any(|thing| {
        let before = text.split('(').next().unwrap_or_default();
        before.split_whitespace().take(8).any(|word| word == *thing)
    });
    match first {
        "CREATE" | "ALTER" | "DROP" if is_other => None,
        "CREATE" if text.contains("INDEX") && !text.contains("TABLE") => Some(DdlVerb::Alter),
        "DROP" if text.contains("INDEX") && !text.contains("TABLE") => Some(DdlVerb::Alter),
        "CREATE" => Some(DdlVerb::Create),
        "ALTER" | "RENAME" => Some(DdlVerb::Alter),
        "DROP" => Some(DdlVerb::Drop),
        "TRUNCATE" => Some(DdlVerb::Truncate),
        _ => None,
    }
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
    let (mut sql_mode, mut server, mut has_xid) = (0, None, false);
    for var in query.status.iter().flatten() {
        match var {
            StatusVar::SqlMode(bits) => sql_mode = bits,
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
