//! Runs a `SELECT` on tables of relay, with SQLite in memory.

use std::sync::{Arc, Mutex};

use logs::lock;
use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, ErrorCode, Statement, params_from_iter};
use sql::WildcardPattern;
use wire::ServerError;

use super::fact_table::DATABASES;
use super::refusals::{
    internal, no_database, table_denied, unknown_database, unknown_function, unknown_table,
    wrong_argument_count,
};
use super::select_text::ENGINE_FUNCTIONS;
use super::sql_function::{FUNCTIONS, FunctionContext, SqlFunction, is_match};
use crate::relay_facts::RelayFacts;
use crate::sql_answer::{SqlColumn, SqlColumnKind, SqlRows, SqlValue};
use crate::statement_interrupt::StatementInterrupt;

/// Maximum duration of a query in microseconds.
const RUN_TIME_MAX_US: u64 = 1_000_000;
/// Maximum number of steps of SQLite's virtual machine in a query: limits the query even if the clock is set back.
const STEPS_MAX: u32 = 20_000_000;
/// Number of steps between two checks.
const STEPS_INTERVAL: u16 = 1000;
/// Maximum size of a value or a row in bytes: far more than any fact needs. The duration of a step depends on the size
/// of its values.
const VALUE_SIZE_MAX: i32 = 1 << 18;
/// Maximum product of the sizes of a text and its `LIKE` pattern, in bytes. Bounds the time of one comparison, which
/// cannot be interrupted.
const LIKE_STEPS_MAX: usize = 1 << 22;
/// Maximum size of a result in bytes.
const RESULT_SIZE_MAX: usize = 16 << 20;
/// Maximum memory of SQLite in the whole process, in bytes.
const MEMORY_MAX: usize = 64 << 20;

/// Runs one query at a time, which bounds memory for any number of clients.
pub(super) struct QueryEngine {
    relay: Arc<dyn RelayFacts>,
    running: Mutex<()>,
}

/// Table that a query may read.
pub(super) struct EngineTable {
    /// Database of the table; `main` if a query names none.
    pub(super) database: &'static str,
    pub(super) name: &'static str,
    pub(super) content: SqlRows,
}

/// Error of a function in the query. SQLite itself keeps only the text.
type FunctionFailure = Arc<Mutex<Option<ServerError>>>;

impl QueryEngine {
    /// Creates an engine. Takes the time from `relay`.
    pub(super) fn new(relay: Arc<dyn RelayFacts>) -> Self {
        Self { relay, running: Mutex::new(()) }
    }

    /// Runs a query in SQLite's SQL.
    ///
    /// # Errors
    ///
    /// Fails with the errors of SQLite, as errors of a server. Also fails if the query needs too much time
    /// or memory, or is interrupted.
    pub(super) fn run(
        &self,
        query: &str,
        tables: &[EngineTable],
        functions: &FunctionContext,
    ) -> Result<SqlRows, ServerError> {
        let _running = functions.interrupt.wait_for(&self.running)?;
        let failure = FunctionFailure::default();
        let result = open(tables, functions, &failure)
            .and_then(|connection| self.select(&connection, query, &functions.interrupt));
        let failed = lock(&failure).take();
        result.map_err(|error| failed.unwrap_or_else(|| explain(&error, functions)))
    }

    fn select(
        &self,
        connection: &Connection,
        query: &str,
        interrupt: &StatementInterrupt,
    ) -> Result<SqlRows, Error> {
        let (relay, interrupt) = (self.relay.clone(), interrupt.clone());
        let (start_us, mut steps) = (relay.now_us(), 0);
        let must_end = move || {
            steps += u32::from(STEPS_INTERVAL);
            steps > STEPS_MAX
                || relay.now_us().saturating_sub(start_us) > RUN_TIME_MAX_US
                || interrupt.is_requested()
        };
        connection.progress_handler(STEPS_INTERVAL.into(), Some(must_end))?;
        // The authorizer has refused all statements that change data.
        collect(&mut connection.prepare(query)?)
    }
}

/// Opens a database in memory, with the tables and bintide's functions.
fn open(
    tables: &[EngineTable],
    functions: &FunctionContext,
    failure: &FunctionFailure,
) -> Result<Connection, Error> {
    let connection = Connection::open_in_memory()?;
    // Do not take an unknown name in double quotes for a string.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_SIZE_MAX)?;
    connection.execute_batch(&format!("PRAGMA hard_heap_limit={MEMORY_MAX}; PRAGMA temp_store=MEMORY"))?;
    for database in DATABASES {
        connection.execute_batch(&format!("ATTACH ':memory:' AS {database}"))?;
    }
    for table in tables {
        fill(&connection, table)?;
    }
    add_functions(&connection, functions, failure)?;
    connection.authorizer(Some(authorize))?;
    Ok(connection)
}

/// Functions that operators call.
const OPERATOR_FUNCTIONS: [&str; 4] = ["like", "regexp", "->", "->>"];

/// Allows only reading of the tables, and only functions that return the same as in MySQL.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } => match is_allowed(function_name) {
            true => Authorization::Allow,
            false => Authorization::Deny,
        },
        AuthAction::Read { table_name, .. } if !table_name.starts_with("sqlite_") => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn is_allowed(function: &str) -> bool {
    let engine = ENGINE_FUNCTIONS.iter().chain(&OPERATOR_FUNCTIONS);
    engine.copied().any(|known| known.eq_ignore_ascii_case(function)) || SqlFunction::find(function).is_some()
}

fn fill(connection: &Connection, table: &EngineTable) -> Result<(), Error> {
    let EngineTable { database, name, content } = table;
    let columns: Vec<String> = content.columns.iter().map(declare).collect();
    connection.execute_batch(&format!("CREATE TABLE {database}.\"{name}\" ({})", columns.join(", ")))?;
    let marks = vec!["?"; columns.len()].join(", ");
    let transaction = connection.unchecked_transaction()?;
    let mut insert = connection.prepare(&format!("INSERT INTO {database}.\"{name}\" VALUES ({marks})"))?;
    for row in &content.rows {
        insert.execute(params_from_iter(row.iter().map(to_sqlite)))?;
    }
    drop(insert);
    transaction.commit()
}

fn declare(column: &SqlColumn) -> String {
    let kind = match column.kind {
        SqlColumnKind::Integer => "INTEGER",
        SqlColumnKind::Double => "REAL",
        SqlColumnKind::Text => "TEXT COLLATE NOCASE",
    };
    format!("\"{}\" {kind}", column.name.replace('"', "\"\""))
}

fn to_sqlite(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Int(number) => Value::Integer(*number),
        // In practice, all numbers are below 2^63: bytes, rows and picoseconds.
        SqlValue::UInt(number) => Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX)),
        SqlValue::Double(number) => Value::Real(*number),
        SqlValue::Text(text) => Value::Text(text.clone()),
    }
}

fn from_sqlite(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Real(number) => SqlValue::Double(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            SqlValue::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

fn add_functions(
    connection: &Connection,
    context: &FunctionContext,
    failure: &FunctionFailure,
) -> Result<(), Error> {
    for function in FUNCTIONS {
        let (context, failure) = (context.clone(), failure.clone());
        let call = move |arguments: &Context<'_>| {
            let values: Vec<SqlValue> =
                (0..arguments.len()).map(|at| from_sqlite(arguments.get_raw(at))).collect();
            match function.call(&context, &values) {
                Ok(value) => Ok(ToSqlOutput::Owned(to_sqlite(&value))),
                Err(error) => {
                    let text = error.to_string();
                    *lock(&failure) = Some(error);
                    Err(Error::UserFunctionError(text.into()))
                }
            }
        };
        connection.create_scalar_function(function.name, -1, FunctionFlags::SQLITE_UTF8, call)?;
    }
    let regexp_failure = failure.clone();
    let regexp = move |arguments: &Context<'_>| {
        let [pattern, text] = [0, 1].map(|at| from_sqlite(arguments.get_raw(at)).to_text());
        let Some((pattern, text)) = pattern.zip(text) else { return Ok(None) };
        is_match(&text, &pattern).map(Some).map_err(|error| {
            let text = error.to_string();
            *lock(&regexp_failure) = Some(error);
            Error::UserFunctionError(text.into())
        })
    };
    // SQLite calls this function for REGEXP, with the pattern first.
    connection.create_scalar_function("regexp", 2, FunctionFlags::SQLITE_UTF8, regexp)?;
    // SQLite calls this function for LIKE. As in MySQL, a backslash escapes a wildcard, and case does not matter.
    connection.create_scalar_function("like", 2, FunctionFlags::SQLITE_UTF8, |arguments: &Context<'_>| {
        let [pattern, text] = [0, 1].map(|at| from_sqlite(arguments.get_raw(at)).to_text());
        let Some((pattern, text)) = pattern.zip(text) else { return Ok(None) };
        if pattern.len().saturating_mul(text.len()) > LIKE_STEPS_MAX {
            return Err(Error::UserFunctionError(
                "LIKE compares too much text: the sizes of text and pattern multiply to more than 4 MiB"
                    .into(),
            ));
        }
        Ok(Some(is_like(&text, &pattern)))
    })
}

/// Returns whether a text matches a `LIKE` pattern, ignoring case.
pub(super) fn is_like(text: &str, pattern: &str) -> bool {
    WildcardPattern::new(pattern.to_lowercase().into()).matches(text.to_lowercase().as_bytes())
}

fn collect(statement: &mut Statement<'_>) -> Result<SqlRows, Error> {
    let declared: Vec<Option<SqlColumnKind>> =
        statement.columns().iter().map(|column| column.decl_type().map(kind_of)).collect();
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    let mut size = 0;
    let mut results = statement.query([])?;
    while let Some(row) = results.next()? {
        let values: Result<Vec<SqlValue>, Error> =
            (0..names.len()).map(|at| row.get_ref(at).map(from_sqlite)).collect();
        let values = values?;
        size += values.iter().map(value_size).sum::<usize>();
        if size > RESULT_SIZE_MAX {
            return Err(Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG), None));
        }
        rows.push(values);
    }
    let column = |at: usize| SqlColumn {
        name: names[at].clone(),
        kind: common_kind(declared[at], rows.iter().map(|row: &Vec<SqlValue>| &row[at])),
    };
    let columns = (0..names.len()).map(column).collect();
    Ok(SqlRows { columns, rows })
}

fn kind_of(declared: &str) -> SqlColumnKind {
    match declared {
        "INTEGER" => SqlColumnKind::Integer,
        "REAL" => SqlColumnKind::Double,
        _ => SqlColumnKind::Text,
    }
}

/// Returns the type of a column with these values. The declared type is that of the first SELECT: in a UNION, later ones
/// can have values of another type.
fn common_kind<'v>(
    declared: Option<SqlColumnKind>,
    values: impl Iterator<Item = &'v SqlValue>,
) -> SqlColumnKind {
    let kinds = values.filter(|value| **value != SqlValue::Null).map(SqlValue::kind);
    let common = declared.into_iter().chain(kinds).reduce(|before, kind| match (before, kind) {
        (before, kind) if before == kind => kind,
        (SqlColumnKind::Text, _) | (_, SqlColumnKind::Text) => SqlColumnKind::Text,
        _ => SqlColumnKind::Double,
    });
    common.unwrap_or(SqlColumnKind::Text)
}

fn value_size(value: &SqlValue) -> usize {
    let text = match value {
        SqlValue::Text(text) => text.len(),
        _ => 0,
    };
    size_of::<SqlValue>() + text
}

/// Returns SQLite's error as an error of a server.
fn explain(error: &Error, functions: &FunctionContext) -> ServerError {
    let (code, message) = match error {
        Error::SqlInputError { error, msg, .. } => (Some(error.code), msg.clone()),
        Error::SqliteFailure(error, message) => (Some(error.code), message.clone().unwrap_or_default()),
        other => (None, other.to_string()),
    };
    let after = |start: &str| message.strip_prefix(start).map(str::to_owned);
    match code {
        Some(ErrorCode::OperationInterrupted) if functions.interrupt.is_requested() => {
            return ServerError::query_interrupted();
        }
        Some(ErrorCode::OperationInterrupted) => {
            let text = "Query execution was interrupted, maximum statement execution time exceeded";
            return ServerError::new(3024, "HY000", text);
        }
        Some(ErrorCode::OutOfMemory | ErrorCode::TooBig) => {
            let text = "the query needs too much memory: select fewer rows or columns";
            return ServerError::new(1104, "42000", text);
        }
        _ => {}
    }
    if let Some(table) = after("no such table: ") {
        return missing_table(&table, functions.database.as_deref());
    }
    if let Some(column) = after("no such column: ") {
        return ServerError::new(1054, "42S22", format!("Unknown column '{column}' in 'field list'"));
    }
    if let Some(column) = after("ambiguous column name: ") {
        return ServerError::new(1052, "23000", format!("Column '{column}' in field list is ambiguous"));
    }
    if let Some(function) = after("no such function: ") {
        return unknown_function(&function);
    }
    if let Some(function) = after("wrong number of arguments to function ") {
        return wrong_argument_count(function.trim_end_matches("()"));
    }
    if let Some(function) = after("not authorized to use function: ") {
        return unknown_function(&function);
    }
    if message.contains("not authorized") || message.contains("prohibited") {
        return table_denied(&functions.account, "sqlite");
    }
    if message.contains("syntax error")
        || message.contains("unrecognized token")
        || message.contains("incomplete")
    {
        let text = format!("You have an error in your SQL syntax: {message}");
        return ServerError::new(1064, "42000", text);
    }
    internal(&message)
}

fn missing_table(table: &str, database: Option<&str>) -> ServerError {
    match (table.split_once('.'), database) {
        (Some((database, _)), _) if !DATABASES.iter().any(|known| known.eq_ignore_ascii_case(database)) => {
            unknown_database(database)
        }
        (Some((database, table)), _) => unknown_table(database, table),
        (None, Some(database)) => unknown_table(database, table),
        (None, None) => no_database(),
    }
}
