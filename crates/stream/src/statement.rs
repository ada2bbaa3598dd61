//! Classification of the statements in a log.

use binlog::events::{Query, StatusVar};
use binlog::{Charset, Collation, Flavour, Format};
use filter::{Filter, Kind, kind};

use crate::change::Verb;
use crate::defined::{Ambient, Changes, Definitions};

/// Effect of a statement in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// Defines a database, or tables, of which `table` is the first.
    Definition { verb: Verb, database: String, table: Option<String> },
    /// Changes rows, which the log does not contain.
    Rows,
    /// None of these, or excluded by the filter.
    Other,
}

/// First words of statements that change rows.
const ROW_VERBS: [&str; 6] = ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL"];

impl Statement {
    /// Classifies a statement; `Other` if the filter excludes it.
    pub(crate) fn of(query: &Query<'_>, filter: &Filter) -> Self {
        let default = query.database;
        let first = first_word(query.sql);
        let kind = kind(query.sql);
        if !filter.takes_statement(&kind, default) {
            return Self::Other;
        }
        if ROW_VERBS.contains(&first.as_str()) {
            return Self::Rows;
        }
        match (verb(&first, query.sql), kind) {
            (Some(verb), Kind::Database) => Self::of_database(verb, query),
            (Some(verb), Kind::Tables(tables)) => match tables.first() {
                Some(named) => {
                    let (database, table) = named.on(default);
                    let [database, table] =
                        [database, table].map(|name| String::from_utf8_lossy(name).into_owned());
                    Self::Definition { verb, database, table: Some(table) }
                }
                None => Self::Other,
            },
            _ => Self::Other,
        }
    }

    fn of_database(verb: Verb, query: &Query<'_>) -> Self {
        let database = String::from_utf8_lossy(query.database).into_owned();
        Self::Definition { verb, database, table: None }
    }
}

/// Returns the action of a DDL statement that starts with `first`. `None` for views, triggers and statements of other
/// kinds.
fn verb(first: &str, sql: &[u8]) -> Option<Verb> {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(200)]).to_ascii_uppercase();
    let is_other = ["TRIGGER", "VIEW"].iter().any(|thing| {
        let before = text.split('(').next().unwrap_or_default();
        before.split_whitespace().take(8).any(|word| word == *thing)
    });
    match first {
        "CREATE" | "ALTER" | "DROP" if is_other => None,
        "CREATE" if text.contains("INDEX") && !text.contains("TABLE") => Some(Verb::Alter),
        "DROP" if text.contains("INDEX") && !text.contains("TABLE") => Some(Verb::Alter),
        "CREATE" => Some(Verb::Create),
        "ALTER" | "RENAME" => Some(Verb::Alter),
        "DROP" => Some(Verb::Drop),
        "TRUNCATE" => Some(Verb::Truncate),
        _ => None,
    }
}

/// Returns the statement's first word after comments, in upper case.
fn first_word(sql: &[u8]) -> String {
    let mut rest = sql;
    loop {
        rest = rest.trim_ascii_start();
        match rest.strip_prefix(b"/*").filter(|behind| behind.first() != Some(&b'!')) {
            Some(comment) => {
                let end = comment.windows(2).position(|window| window == b"*/");
                rest = end.map_or(&[][..], |end| &comment[end + 2..]);
            }
            None => break,
        }
    }
    let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic());
    word.map(|byte| char::from(byte.to_ascii_uppercase())).collect()
}

/// Applies a DDL statement to the definitions; returns the changes.
pub(crate) fn define(definitions: &mut Definitions, query: &Query<'_>, format: &Format) -> Changes {
    if !["CREATE", "ALTER", "DROP", "RENAME"].contains(&first_word(query.sql).as_str()) {
        return Changes::default();
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
    let may_be_idle = !has_xid && numbers_definitions(format);
    let ambient = Ambient { database: &database, sql_mode, charset, may_be_idle };
    definitions.take(&text(query, format.flavour), ambient)
}

/// Returns whether the server logs a DDL xid with statements that had an effect. MySQL does since 8.0, for InnoDB.
fn numbers_definitions(format: &Format) -> bool {
    let digits = format.server_version.iter().take_while(|byte| byte.is_ascii_digit());
    let major = digits.fold(0_u32, |major, digit| major.saturating_mul(10) + u32::from(digit - b'0'));
    format.flavour == Flavour::MySql && major >= 8
}

/// Decodes the statement from its client's character set.
pub(crate) fn text(query: &Query<'_>, flavour: Flavour) -> String {
    let client = query.status.iter().flatten().find_map(|var| match var {
        StatusVar::Charset { client, .. } => Collation::new(client, flavour),
        _ => None,
    });
    let charset = client.map_or(Charset::Utf8mb4, |collation| collation.charset());
    charset.decode_lossy(query.sql).into_owned()
}
