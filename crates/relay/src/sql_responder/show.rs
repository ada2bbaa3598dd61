//! `SHOW` statements.

use binlog::{Charset, Collation, Flavour, ServerVersion};
use sql::SqlWord;
use wire::ServerError;

use super::SqlStatement;
use super::fact_table::{DATABASES, FACT_TABLES, FactTable, find_database, variable_rows, visible_clients};
use super::query_engine::{EngineTable, is_like};
use super::refusals::{no_database, unknown_database, unreadable};
use super::select_text::offset;
use super::system_variable::{RequestedScope, STATUS_VARIABLES, StatusVariable};
use crate::relay_account::AccountRole;
use crate::relay_facts::{ClientFacts, ServedLog};
use crate::sql_answer::{
    SqlAnswer, SqlColumn, SqlColumnKind, SqlColumnSpec, SqlRows, SqlSession, SqlValue, SqlWarning,
    WarningLevel, integer, split_account, text,
};

/// First version that encrypts logs.
const ENCRYPTION_SINCE: [u32; 3] = [8, 0, 14];
/// First version with GTIDs.
const GTIDS_SINCE: [u32; 3] = [5, 6, 0];
/// Characters of a statement that `SHOW PROCESSLIST` shows.
const INFO_MAX: usize = 100;

pub(super) fn binary_logs(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[text("Log_name"), integer("File_size"), text("Encrypted")];
    let count = if statement.version().is_mysql_since(ENCRYPTION_SINCE) { 3 } else { 2 };
    let logs = statement.relay.logs(session.form, &session.interrupt).map_err(|error| unreadable(&error))?;
    let row = |log: ServedLog| {
        // Clients always get unencrypted logs.
        let mut row = vec![log.name.into(), log.size.into(), "No".into()];
        row.truncate(count);
        row
    };
    statement.finish(SqlRows::new(&COLUMNS[..count], logs.into_iter().map(row).collect()))
}

pub(super) fn log_status(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("File"),
        integer("Position"),
        text("Binlog_Do_DB"),
        text("Binlog_Ignore_DB"),
        text("Executed_Gtid_Set"),
    ];
    let count = if statement.version().is_mysql_since(GTIDS_SINCE) { 5 } else { 4 };
    let end = statement.relay.end(session.form, &session.interrupt).map_err(|error| unreadable(&error))?;
    let mut row: Vec<SqlValue> = vec![
        end.log.as_str().into(),
        end.position.into(),
        "".into(),
        "".into(),
        end.gtids.to_server_text().to_string().into(),
    ];
    row.truncate(count);
    let rows = if end.log.is_empty() { Vec::new() } else { vec![row] };
    statement.finish(SqlRows::new(&COLUMNS[..count], rows))
}

pub(super) fn replicas(
    statement: &mut SqlStatement<'_>,
    _: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[integer("Server_Id"), text("Host"), integer("Port"), integer("Source_Id"), text("Replica_UUID")];
    replica_rows(statement, COLUMNS)
}

pub(super) fn slave_hosts(
    statement: &mut SqlStatement<'_>,
    _: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[integer("Server_id"), text("Host"), integer("Port"), integer("Master_id"), text("Slave_UUID")];
    replica_rows(statement, COLUMNS)
}

/// Returns the registered replicas.
fn replica_rows(
    statement: &mut SqlStatement<'_>,
    columns: &[SqlColumnSpec],
) -> Result<SqlAnswer, ServerError> {
    let source_id = statement.relay.server().server_id;
    let mut replicas: Vec<ClientFacts> = statement.relay.clients();
    replicas.retain(|client| client.report_port.is_some());
    replicas.sort_by_key(|client| client.server_id);
    let row = |client: &ClientFacts| {
        vec![
            client.server_id.into(),
            client.report_host.as_deref().unwrap_or_default().into(),
            SqlValue::UInt(client.report_port.unwrap_or_default().into()),
            source_id.into(),
            client.server_uuid.as_deref().unwrap_or_default().into(),
        ]
    };
    statement.finish(SqlRows::new(columns, replicas.iter().map(row).collect()))
}

pub(super) fn processlist(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        integer("Id"),
        text("User"),
        text("Host"),
        text("db"),
        text("Command"),
        integer("Time"),
        text("State"),
        text("Info"),
    ];
    let info_max = if statement.has_option("FULL") { usize::MAX } else { INFO_MAX };
    let info: String = statement.sql.chars().take(info_max).collect();
    let row = |client: &ClientFacts| {
        let is_own = client.connection_id == session.connection_id;
        let [database, info] =
            [session.database.clone(), Some(info.clone())].map(|own| own.filter(|_| is_own));
        vec![
            client.connection_id.into(),
            client.user.as_str().into(),
            client.host.as_str().into(),
            database.into(),
            (if is_own { "Query" } else { client.command }).into(),
            if is_own { SqlValue::UInt(0) } else { client.state_s.into() },
            (if is_own { "init" } else { client.state }).into(),
            info.into(),
        ]
    };
    let mut clients = visible_clients(&statement.context(session));
    clients.sort_by_key(|client| client.connection_id);
    statement.finish(SqlRows::new(COLUMNS, clients.iter().map(row).collect()))
}

pub(super) fn variables(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let scope = if statement.has_option("GLOBAL") { RequestedScope::Global } else { RequestedScope::Any };
    let rows = variable_rows(scope, &statement.context(session))?.rows;
    filtered(statement, session, SqlRows::new(SHOWN_VARIABLES, rows))
}

const SHOWN_VARIABLES: &[SqlColumnSpec] = &[text("Variable_name"), text("Value")];

pub(super) fn status(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let context = statement.context(session);
    let row =
        |variable: &StatusVariable| vec![variable.name.into(), (variable.value)(&context).to_text().into()];
    let rows = STATUS_VARIABLES.iter().map(row).collect();
    filtered(statement, session, SqlRows::new(SHOWN_VARIABLES, rows))
}

pub(super) fn warnings(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    warning_rows(statement, session.warnings.iter())
}

pub(super) fn errors(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let errors = session.warnings.iter().filter(|warning| warning.level == WarningLevel::Error);
    warning_rows(statement, errors)
}

fn warning_rows<'w>(
    statement: &mut SqlStatement<'_>,
    warnings: impl Iterator<Item = &'w SqlWarning>,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[text("Level"), integer("Code"), text("Message")];
    // A statement has few warnings, so the limit has no effect.
    if statement.words.take("LIMIT") {
        while matches!(statement.words.peek(), Some(SqlWord::Number(_))) || statement.words.is_sign(",") {
            statement.words.skip();
        }
    }
    let row = |warning: &SqlWarning| {
        vec![warning.level.name().into(), u32::from(warning.code).into(), warning.message.as_str().into()]
    };
    statement.finish(SqlRows::new(COLUMNS, warnings.map(row).collect()))
}

/// `SHOW COUNT(*) WARNINGS` and `SHOW COUNT(*) ERRORS`
pub(super) fn warning_count(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const ERRORS: &[SqlColumnSpec] = &[integer("@@session.error_count")];
    const WARNINGS: &[SqlColumnSpec] = &[integer("@@session.warning_count")];
    let is_star =
        statement.words.take_group().is_some_and(|mut group| group.take_sign("*") && group.is_at_end());
    if !is_star {
        return Err(statement.syntax_error());
    }
    let only_errors = statement.words.take("ERRORS");
    if !only_errors && !statement.words.take("WARNINGS") {
        return Err(statement.syntax_error());
    }
    let is_counted = |warning: &&SqlWarning| !only_errors || warning.level == WarningLevel::Error;
    let count = session.warnings.iter().filter(is_counted).count() as u64;
    let columns = if only_errors { ERRORS } else { WARNINGS };
    statement.finish(SqlRows::new(columns, vec![vec![count.into()]]))
}

/// `SHOW ENGINES`: a relay stores no tables.
pub(super) fn engines(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("Engine"),
        text("Support"),
        text("Comment"),
        text("Transactions"),
        text("XA"),
        text("Savepoints"),
    ];
    let no = || SqlValue::from("NO");
    let row =
        vec!["PERFORMANCE_SCHEMA".into(), "DEFAULT".into(), "Performance Schema".into(), no(), no(), no()];
    filtered(statement, session, SqlRows::new(COLUMNS, vec![row]))
}

/// `SHOW PLUGINS`: the parts of a relay that are plugins in a server.
pub(super) fn plugins(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[text("Name"), text("Status"), text("Type"), text("Library"), text("License")];
    const PLUGINS: [(&str, &str); 4] = [
        ("binlog", "STORAGE ENGINE"),
        ("mysql_native_password", "AUTHENTICATION"),
        ("caching_sha2_password", "AUTHENTICATION"),
        ("rpl_semi_sync_source", "REPLICATION"),
    ];
    let row = |(name, kind): (&str, &str)| {
        vec![name.into(), "ACTIVE".into(), kind.into(), SqlValue::Null, "MIT OR Apache-2.0".into()]
    };
    filtered(statement, session, SqlRows::new(COLUMNS, PLUGINS.into_iter().map(row).collect()))
}

pub(super) fn databases(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let rows = DATABASES.into_iter().map(|name| vec![name.into()]).collect();
    let column = shown_column("Database", statement);
    filtered(statement, session, SqlRows { columns: vec![column], rows })
}

pub(super) fn tables(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let named = match statement.words.take_any(&["FROM", "IN"]) {
        true => Some(statement.words.take_name().ok_or_else(|| statement.syntax_error())?),
        false => session.database.clone(),
    };
    let named = named.ok_or_else(no_database)?;
    let database = find_database(&named).ok_or_else(|| unknown_database(&named))?;
    let is_full = statement.has_option("FULL");
    let mut columns = vec![shown_column(&format!("Tables_in_{database}"), statement)];
    if is_full {
        columns.push(SqlColumn { name: "Table_type".to_owned(), kind: SqlColumnKind::Text });
    }
    let row = |table: &FactTable| {
        let mut row: Vec<SqlValue> = vec![table.name.into()];
        row.extend(is_full.then(|| table.kind().into()));
        row
    };
    let rows = FACT_TABLES.iter().filter(|table| table.database == database).map(row).collect();
    filtered(statement, session, SqlRows { columns, rows })
}

/// Returns the column of `SHOW DATABASES` or `SHOW TABLES`. Its name contains the `LIKE` pattern.
fn shown_column(name: &str, statement: &SqlStatement<'_>) -> SqlColumn {
    let mut words = statement.words.clone();
    let name = match (words.take("LIKE"), words.take_next()) {
        (true, Some(SqlWord::Text(pattern))) => format!("{name} ({pattern})"),
        _ => name.to_owned(),
    };
    SqlColumn { name, kind: SqlColumnKind::Text }
}

pub(super) fn grants(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    if statement.words.take("FOR CURRENT_USER") {
        let _ = statement.words.take_group();
    }
    let grants = match session.role {
        AccountRole::Replica => "REPLICATION SLAVE, REPLICATION CLIENT",
        AccountRole::Monitor => "SELECT, PROCESS, REPLICATION CLIENT",
        AccountRole::Admin => "ALL PRIVILEGES",
    };
    let quoted = split_account(&session.account).map(|name| name.replace('`', "``"));
    let grant = format!("GRANT {grants} ON *.* TO `{}`@`{}`", quoted[0], quoted[1]);
    let column = SqlColumn { name: format!("Grants for {}", session.account), kind: SqlColumnKind::Text };
    statement.finish(SqlRows { columns: vec![column], rows: vec![vec![grant.into()]] })
}

pub(super) fn charsets(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[text("Charset"), text("Description"), text("Default collation"), integer("Maxlen")];
    let row = |charset: Charset| {
        let collation = Collation::new(charset.default_collation(), Flavour::MySql);
        vec![
            charset.name().into(),
            charset.name().into(),
            collation.map(|collation| collation.name().into_owned()).into(),
            u32::from(charset.character_size_max()).into(),
        ]
    };
    filtered(statement, session, SqlRows::new(COLUMNS, Charset::all().map(row).collect()))
}

pub(super) fn collations(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("Collation"),
        text("Charset"),
        integer("Id"),
        text("Default"),
        text("Compiled"),
        integer("Sortlen"),
        text("Pad_attribute"),
    ];
    let row = |collation: Collation| {
        let is_default = collation.charset().default_collation() == collation.id();
        vec![
            collation.name().into_owned().into(),
            collation.charset().name().into(),
            u32::from(collation.id()).into(),
            (if is_default { "Yes" } else { "" }).into(),
            "Yes".into(),
            SqlValue::UInt(u64::from(collation.pads())),
            (if collation.pads() { "PAD SPACE" } else { "NO PAD" }).into(),
        ]
    };
    filtered(statement, session, SqlRows::new(COLUMNS, Collation::all().map(row).collect()))
}

/// Applies the `LIKE` or `WHERE` at the end of the statement.
fn filtered(
    statement: &mut SqlStatement<'_>,
    session: &SqlSession,
    mut shown: SqlRows,
) -> Result<SqlAnswer, ServerError> {
    if statement.words.take("LIKE") {
        let Some(SqlWord::Text(pattern)) = statement.words.take_next() else {
            return Err(statement.syntax_error());
        };
        let text = |row: &Vec<SqlValue>| row.first().and_then(SqlValue::to_text).unwrap_or_default();
        shown.rows.retain(|row| is_like(&text(row), &pattern));
    } else if statement.words.take("WHERE") {
        let condition = statement.words.rest_range();
        if condition.is_empty() {
            return Err(statement.error_at(offset(&statement.words)));
        }
        let table = EngineTable { database: "main", name: "shown", content: shown };
        let rows = statement.filter(condition, table, &statement.context(session))?;
        return Ok(SqlAnswer::Rows(rows));
    }
    statement.finish(shown)
}

impl SqlStatement<'_> {
    pub(super) fn version(&self) -> ServerVersion {
        ServerVersion::parse(&self.relay.server().version)
    }
}
