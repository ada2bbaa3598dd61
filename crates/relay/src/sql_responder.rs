//! Answers to the SQL statements that replicas, connectors and people send to a source.
//!
//! ```text
//! statement ─▶ STATEMENT_PATTERNS: pattern, right ─▶ answer from RelayFacts
//!                                                   └─▶ SELECT of tables: SelectText ─▶ QueryEngine ─▶ rows
//! ```

mod assignment;
mod binlog_events;
mod date_function;
mod date_time;
mod definitions;
mod fact_table;
mod number_function;
mod purge;
mod query_engine;
mod refusals;
mod replica;
mod replication_table;
mod scalar;
mod select_text;
mod show;
mod source_change;
mod sql_function;
mod system_variable;
mod text_function;
mod truncate;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use sql::lexer::{SqlLexer, SqlTokenKind};
use sql::{SqlWord, SqlWords};
use wire::ServerError;

pub use self::binlog_events::BinlogEvents;
use self::definitions::asks_for_definitions;
use self::fact_table::{FACT_TABLES, FactTable, find_database};
use self::query_engine::{EngineTable, QueryEngine};
use self::refusals::{
    empty_query, kill_denied, no_such_thread, privilege_required, statement_too_large, syntax_error,
    table_denied, unknown_database, unsupported,
};
use self::scalar::{function_context, take_scalar};
use self::select_text::{SelectText, offset};
use self::system_variable::VariableContext;
use crate::relay_account::AccountRight;
use crate::relay_facts::RelayFacts;
use crate::sql_answer::{SqlAnswer, SqlColumn, SqlRows, SqlSession, SqlValue, WarningLevel};

/// SQL interface of a relay: answers statements from [`RelayFacts`].
pub struct SqlResponder {
    relay: Arc<dyn RelayFacts>,
    engine: QueryEngine,
}

/// A statement, and the words after its pattern.
struct SqlStatement<'a> {
    relay: &'a dyn RelayFacts,
    engine: &'a QueryEngine,
    sql: &'a str,
    sql_mode: u64,
    /// Words that are not parsed yet.
    words: SqlWords,
    /// Optional words of the pattern that are in the statement, in capitals.
    options: Vec<String>,
}

/// Pattern of statements, and their answer.
struct StatementPattern {
    /// Keywords. `A|B` is one of both, and `[A|B]` one of both or none.
    words: &'static str,
    /// Right that the statement needs.
    right: AccountRight,
    answer: StatementAnswerer,
}

type StatementAnswerer = fn(&mut SqlStatement<'_>, &mut SqlSession) -> Result<SqlAnswer, ServerError>;

use AccountRight::{AskServer, ChangeRelay, ShowLogs};

/// Patterns of statements. The first matching pattern is used.
const STATEMENT_PATTERNS: &[StatementPattern] = &[
    pattern("SELECT", AskServer, select),
    pattern("WITH", AskServer, select),
    pattern("SET", AskServer, assignment::set),
    pattern("SHOW BINARY LOG STATUS", ShowLogs, show::log_status),
    pattern("SHOW BINLOG|MASTER STATUS", ShowLogs, show::log_status),
    pattern("SHOW BINARY|MASTER LOGS", ShowLogs, show::binary_logs),
    pattern("SHOW BINLOG EVENTS", ShowLogs, binlog_events::binlog_events),
    pattern("SHOW REPLICA STATUS", ShowLogs, replica::replica_status),
    pattern("SHOW SLAVE STATUS", ShowLogs, replica::slave_status),
    pattern("SHOW ALL SLAVES|REPLICAS STATUS", ShowLogs, replica::all_status),
    pattern("SHOW REPLICAS", ShowLogs, show::replicas),
    pattern("SHOW SLAVE|REPLICA HOSTS", ShowLogs, show::slave_hosts),
    pattern("SHOW [FULL] PROCESSLIST", AskServer, show::processlist),
    pattern("SHOW [GLOBAL|SESSION|LOCAL] VARIABLES", AskServer, show::variables),
    pattern("SHOW [GLOBAL|SESSION|LOCAL] STATUS", AskServer, show::status),
    pattern("SHOW COUNT", AskServer, show::warning_count),
    pattern("SHOW [STORAGE] ENGINES", AskServer, show::engines),
    pattern("SHOW PLUGINS", AskServer, show::plugins),
    pattern("DO", AskServer, evaluate_only),
    pattern("SHOW ERRORS", AskServer, show::errors),
    pattern("SHOW WARNINGS", AskServer, show::warnings),
    pattern("SHOW DATABASES|SCHEMAS", AskServer, show::databases),
    pattern("SHOW [FULL] TABLES", AskServer, show::tables),
    pattern("SHOW GRANTS", AskServer, show::grants),
    pattern("SHOW CHARSET", AskServer, show::charsets),
    pattern("SHOW CHARACTER SET", AskServer, show::charsets),
    pattern("SHOW COLLATION", AskServer, show::collations),
    pattern("PURGE BINARY|MASTER LOGS", ChangeRelay, purge::purge),
    pattern("FLUSH [NO_WRITE_TO_BINLOG|LOCAL] BINARY LOGS", ChangeRelay, replica::flush_logs),
    pattern("FLUSH [NO_WRITE_TO_BINLOG|LOCAL] LOGS", ChangeRelay, replica::flush_logs),
    pattern("START REPLICA|SLAVE", ChangeRelay, replica::start),
    pattern("STOP REPLICA|SLAVE", ChangeRelay, replica::stop),
    pattern("CHANGE REPLICATION SOURCE TO", ChangeRelay, source_change::change_source),
    pattern("CHANGE MASTER TO", ChangeRelay, source_change::change_source),
    pattern("TRUNCATE [TABLE]", AskServer, truncate::truncate),
    pattern("USE", AskServer, use_database),
    pattern("KILL [CONNECTION|QUERY|HARD|SOFT]", AskServer, kill),
    pattern("BEGIN [WORK]", AskServer, begin),
    pattern("START TRANSACTION", AskServer, begin),
    pattern("COMMIT|ROLLBACK [WORK]", AskServer, end_transaction),
];

/// Patterns of statements that keep the warnings of the previous statement.
const KEEPING_WARNINGS: [&str; 4] = ["SELECT", "SHOW COUNT", "SHOW ERRORS", "SHOW WARNINGS"];

/// First words of statements that a server supports, but a relay does not.
const UNSUPPORTED_STATEMENTS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "BINLOG",
    "CALL",
    "CHANGE",
    "CHECK",
    "CHECKSUM",
    "CREATE",
    "DEALLOCATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "FLUSH",
    "GRANT",
    "HANDLER",
    "INSERT",
    "INSTALL",
    "LOAD",
    "LOCK",
    "OPTIMIZE",
    "PREPARE",
    "RELEASE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESET",
    "RESTART",
    "REVOKE",
    "SAVEPOINT",
    "SHUTDOWN",
    "START",
    "STOP",
    "TABLE",
    "UNINSTALL",
    "UNLOCK",
    "UPDATE",
    "VALUES",
    "XA",
];
/// First words of `SHOW` statements that a server supports, but a relay does not.
const UNSUPPORTED_SHOWS: &[&str] = &[
    "SHOW COLUMNS",
    "SHOW CREATE",
    "SHOW ENGINE",
    "SHOW EVENTS",
    "SHOW FIELDS",
    "SHOW FULL COLUMNS",
    "SHOW FULL FIELDS",
    "SHOW FUNCTION",
    "SHOW INDEX",
    "SHOW INDEXES",
    "SHOW KEYS",
    "SHOW OPEN",
    "SHOW PRIVILEGES",
    "SHOW PROCEDURE",
    "SHOW PROFILE",
    "SHOW PROFILES",
    "SHOW RELAYLOG",
    "SHOW TABLE",
    "SHOW TRIGGERS",
];

const fn pattern(words: &'static str, right: AccountRight, answer: StatementAnswerer) -> StatementPattern {
    StatementPattern { words, right, answer }
}

/// Returns success without rows.
fn done() -> SqlAnswer {
    SqlAnswer::Done(0)
}

impl SqlResponder {
    /// Maximum size of a statement in bytes: far more than any supported statement needs. The parsed words take many
    /// times this memory.
    const STATEMENT_SIZE_MAX: usize = 64 << 10;

    /// Maximum size of a command in bytes, `max_allowed_packet`: enough for the GTID set of a dump with 200,000 gaps.
    /// Each client can use this much memory.
    pub const PACKET_SIZE_MAX: usize = 4 << 20;

    /// Creates the SQL interface of a relay.
    pub fn new(relay: Arc<dyn RelayFacts>) -> Self {
        let engine = QueryEngine::new(relay.clone());
        Self { relay, engine }
    }

    /// Checks the size of a statement, before it is executed or prepared.
    ///
    /// # Errors
    ///
    /// Fails if the statement has more than 64 KiB.
    pub fn check_size(sql: &str) -> Result<(), ServerError> {
        if sql.len() > Self::STATEMENT_SIZE_MAX { Err(statement_too_large()) } else { Ok(()) }
    }

    /// Executes a statement, in UTF-8. Stores its warnings and its changes of the relay in the session.
    pub fn execute(&self, sql: &str, session: &mut SqlSession) -> SqlAnswer {
        session.changes.clear();
        self.answer(sql, session).unwrap_or_else(|error| {
            session.warnings.clear();
            session.warn(WarningLevel::Error, error.code, error.message.clone());
            SqlAnswer::Refused(error)
        })
    }

    /// Selects the default database, as `COM_INIT_DB` and the login do.
    ///
    /// # Errors
    ///
    /// Fails if there is no such database.
    pub fn use_database(&self, name: &str, session: &mut SqlSession) -> Result<(), ServerError> {
        let database = find_database(name).ok_or_else(|| unknown_database(name))?;
        session.database = Some(database.to_owned());
        Ok(())
    }

    fn answer(&self, sql: &str, session: &mut SqlSession) -> Result<SqlAnswer, ServerError> {
        Self::check_size(sql)?;
        let sql_mode = sql_mode(session);
        check_end(sql, sql_mode)?;
        let words = SqlWords::parse(sql, sql_mode).ok_or_else(|| syntax_error(sql, 0))?;
        if words.is_at_end() {
            return Err(empty_query());
        }
        if let Some(rows) = self.ask_source(sql, session) {
            return rows.map(SqlAnswer::Rows);
        }
        for pattern in STATEMENT_PATTERNS {
            let mut rest = words.clone();
            let Some(options) = take_pattern(pattern.words, &mut rest) else { continue };
            if !session.role.may(pattern.right) {
                return Err(privilege_required(match pattern.right {
                    ChangeRelay => "SUPER",
                    _ => "SUPER, REPLICATION CLIENT",
                }));
            }
            if !KEEPING_WARNINGS.contains(&pattern.words) {
                session.warnings.clear();
            }
            let (relay, engine) = (self.relay.as_ref(), &self.engine);
            let mut statement = SqlStatement { relay, engine, sql, sql_mode, words: rest, options };
            return (pattern.answer)(&mut statement, session);
        }
        Err(refuse(sql, words))
    }

    /// Passes a statement about table definitions to the source. Returns `None` for other statements, and if the relay
    /// has no source to ask.
    fn ask_source(&self, sql: &str, session: &SqlSession) -> Option<Result<SqlRows, ServerError>> {
        let may_ask = session.role.may(AskServer) && asks_for_definitions(sql);
        may_ask.then(|| self.relay.ask_source(sql, &session.interrupt)).flatten()
    }
}

impl fmt::Debug for SqlResponder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SqlResponder").finish_non_exhaustive()
    }
}

/// Returns the modes of the session that change the meaning of a statement's text, as bits of `sql_mode`.
pub fn sql_mode(session: &SqlSession) -> u64 {
    let Some(SqlValue::Text(modes)) = session.system_variables.get("sql_mode") else { return 0 };
    let bits = modes.split(',').map(|mode| match mode.trim().to_ascii_uppercase().as_str() {
        "ANSI" | "ANSI_QUOTES" => ANSI_QUOTES,
        "NO_BACKSLASH_ESCAPES" => NO_BACKSLASH_ESCAPES,
        _ => 0,
    });
    bits.fold(0, |all, bit| all | bit)
}

/// Refuses a second statement. A server allows it only if the client has enabled multi-statements.
fn check_end(sql: &str, sql_mode: u64) -> Result<(), ServerError> {
    let mut has_ended = false;
    for token in SqlLexer::new(sql.as_bytes(), sql_mode).filter(|token| !token.is_blank()) {
        if has_ended {
            return Err(syntax_error(sql, token.at.start));
        }
        has_ended = token.kind == SqlTokenKind::Sign && &sql[token.at.clone()] == ";";
    }
    Ok(())
}

/// Takes the words of a pattern. Returns the optional words that are present, or `None` if the pattern does not match.
fn take_pattern(pattern: &str, words: &mut SqlWords) -> Option<Vec<String>> {
    let mut options = Vec::new();
    for part in pattern.split(' ') {
        match part.strip_prefix('[').and_then(|part| part.strip_suffix(']')) {
            Some(optional) => {
                let taken = optional.split('|').find(|word| words.take(word));
                options.extend(taken.map(str::to_owned));
            }
            None => {
                part.split('|').find(|word| words.take(word))?;
            }
        }
    }
    Some(options)
}

/// Returns the error for a statement that matches no pattern.
fn refuse(sql: &str, mut words: SqlWords) -> ServerError {
    if let Some(known) = UNSUPPORTED_STATEMENTS.iter().find(|word| words.is_next(word)) {
        return unsupported(known);
    }
    if let Some(known) = UNSUPPORTED_SHOWS.iter().find(|start| words.is_next(start)) {
        return unsupported(known);
    }
    words.take("SHOW");
    syntax_error(sql, offset(&words))
}

impl<'a> SqlStatement<'a> {
    fn context<'c>(&'c self, session: &'c SqlSession) -> VariableContext<'c> {
        VariableContext { relay: self.relay, session }
    }

    fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|found| found == option)
    }

    /// Returns the error for the next word.
    fn syntax_error(&self) -> ServerError {
        self.error_at(offset(&self.words))
    }

    /// Returns the error for the word at a byte offset.
    fn error_at(&self, offset: usize) -> ServerError {
        syntax_error(self.sql, offset)
    }

    /// Returns the rows, if the statement ends here.
    fn finish(&self, rows: SqlRows) -> Result<SqlAnswer, ServerError> {
        self.expect_end()?;
        Ok(SqlAnswer::Rows(rows))
    }

    fn expect_end(&self) -> Result<(), ServerError> {
        if self.words.is_at_end() { Ok(()) } else { Err(self.syntax_error()) }
    }

    /// Evaluates an expression of the statement.
    fn evaluate(
        &self,
        expression: Range<usize>,
        context: &VariableContext<'_>,
    ) -> Result<SqlValue, ServerError> {
        let text = SelectText::parse(self.sql, expression.clone(), self.sql_mode)?;
        let query = format!("SELECT ({})", text.expression(context)?);
        let rows = self.engine.run(&query, &[], &function_context(context))?;
        rows.rows.into_iter().flatten().next().ok_or_else(|| self.error_at(expression.start))
    }

    /// Returns the rows of a table for which a condition of the statement is true.
    fn filter(
        &self,
        condition: Range<usize>,
        table: EngineTable,
        context: &VariableContext<'_>,
    ) -> Result<SqlRows, ServerError> {
        let text = SelectText::parse(self.sql, condition, self.sql_mode)?;
        let query = format!("SELECT * FROM main.{} WHERE ({})", table.name, text.expression(context)?);
        self.engine.run(&query, &[table], &function_context(context))
    }
}

fn select(statement: &mut SqlStatement<'_>, session: &mut SqlSession) -> Result<SqlAnswer, ServerError> {
    let context = statement.context(session);
    if let Some(rows) = select_scalars(statement, &context)? {
        return Ok(SqlAnswer::Rows(rows));
    }
    let text = SelectText::parse(statement.sql, 0..statement.words.rest_range().end, statement.sql_mode)?;
    let mut tables = Vec::new();
    for table in FACT_TABLES {
        if !text.names().any(|name| name.eq_ignore_ascii_case(table.name)) {
            continue;
        }
        check_right(table, session)?;
        tables.push(EngineTable {
            database: table.database,
            name: table.name,
            content: (table.read)(&context)?,
        });
    }
    let query = text.select(&context)?;
    let rows = statement.engine.run(&query, &tables, &function_context(&context))?;
    Ok(SqlAnswer::Rows(rows))
}

fn check_right(table: &FactTable, session: &SqlSession) -> Result<(), ServerError> {
    match session.role.may(AccountRight::ReadTables) {
        true => Ok(()),
        false => Err(table_denied(&session.account, table.name)),
    }
}

/// Evaluates a `SELECT` of literals, variables and functions without the engine, so that replicas never wait for the
/// query of another client. Returns `None` for any other `SELECT`.
fn select_scalars(
    statement: &SqlStatement<'_>,
    context: &VariableContext<'_>,
) -> Result<Option<SqlRows>, ServerError> {
    let text = SelectText::parse(statement.sql, 0..statement.words.rest_range().end, statement.sql_mode)?;
    let mut words = statement.words.clone();
    if words.has_ahead(&["FROM", "WHERE", "UNION", "ORDER", "GROUP", "HAVING", "INTO"]) {
        return Ok(None);
    }
    let names = text.column_names();
    let mut rows = SqlRows { columns: Vec::new(), rows: vec![Vec::new()] };
    for (mut part, name) in words.split_at_commas().into_iter().zip(names) {
        let Some(value) = take_scalar(&mut part, context)? else { return Ok(None) };
        part.take("AS");
        let alias = match part.is_next("LIMIT") {
            true => None,
            false => match part.peek() {
                Some(SqlWord::Plain(alias) | SqlWord::Quoted(alias) | SqlWord::Text(alias)) => {
                    Some(alias.clone())
                }
                _ => None,
            },
        };
        if alias.is_some() {
            part.skip();
        }
        if part.take("LIMIT") && part.peek() == Some(&SqlWord::Number("1".to_owned())) {
            part.skip();
        }
        if !part.is_at_end() {
            return Ok(None);
        }
        let Some(name) = alias.or(name) else { return Ok(None) };
        rows.columns.push(SqlColumn { name, kind: value.kind() });
        rows.rows[0].push(value);
    }
    Ok(Some(rows))
}

/// Evaluates expressions and returns no rows.
fn evaluate_only(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let expressions = statement.words.rest_range();
    if statement.words.is_at_end() {
        return Err(statement.syntax_error());
    }
    let text = SelectText::parse(statement.sql, expressions, statement.sql_mode)?;
    let context = statement.context(session);
    let query = format!("SELECT {}", text.expression(&context)?);
    statement.engine.run(&query, &[], &function_context(&context))?;
    Ok(done())
}

fn use_database(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let name = statement.words.take_name().ok_or_else(|| statement.syntax_error())?;
    statement.expect_end()?;
    let database = find_database(&name).ok_or_else(|| unknown_database(&name))?;
    session.database = Some(database.to_owned());
    Ok(done())
}

fn begin(statement: &mut SqlStatement<'_>, session: &mut SqlSession) -> Result<SqlAnswer, ServerError> {
    while statement.words.take_any(&["WITH CONSISTENT SNAPSHOT", "READ ONLY", "READ WRITE"]) {
        statement.words.take_sign(",");
    }
    statement.expect_end()?;
    session.is_in_transaction = true;
    Ok(done())
}

fn end_transaction(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    statement.words.take_any(&["AND NO CHAIN", "AND CHAIN"]);
    statement.words.take_any(&["NO RELEASE", "RELEASE"]);
    statement.expect_end()?;
    session.is_in_transaction = false;
    Ok(done())
}

/// Ends a connection, or with `QUERY` its running statement. A connection that reads a log ends in both cases: its
/// statement is the dump.
fn kill(statement: &mut SqlStatement<'_>, session: &mut SqlSession) -> Result<SqlAnswer, ServerError> {
    let mut words = statement.words.clone();
    let number = match take_scalar(&mut words, &statement.context(session))? {
        Some(SqlValue::Int(number)) => u64::try_from(number).ok(),
        Some(SqlValue::UInt(number)) => Some(number),
        _ => None,
    };
    let number = number.filter(|_| words.is_at_end()).ok_or_else(|| statement.syntax_error())?;
    let clients = statement.relay.clients();
    let client = clients.iter().find(|client| u64::from(client.connection_id) == number);
    let client = client.ok_or_else(|| no_such_thread(number))?;
    if client.user != session.user() && !session.role.may(AccountRight::EndConnections) {
        return Err(kill_denied(number));
    }
    let (is_killed, noted) = match statement.has_option("QUERY") && !client.command.starts_with("Binlog Dump")
    {
        true => (statement.relay.kill_query(client.connection_id), format!("KILL QUERY {number}")),
        false => (statement.relay.kill(client.connection_id), format!("KILL {number}")),
    };
    if !is_killed {
        return Err(no_such_thread(number));
    }
    session.record_change(noted);
    Ok(done())
}
