//! Server that answers queries for table definitions.

use std::sync::Mutex;

use relay::{SqlColumn, SqlColumnKind, SqlRows, SqlValue, StatementInterrupt};
use servers::{ConnectionError, ServerAddress, SqlConnection};
use wire::ServerError;

/// Maximum duration of a statement in milliseconds. Needed because clients wait for each other.
const STATEMENT_TIME_MAX_MS: u32 = 30_000;
/// Maximum time that a statement waits for a lock, in seconds.
const LOCK_TIME_MAX_S: u32 = 5;

/// Server that answers queries for table definitions, over one connection. The connection opens at the first query.
pub(crate) struct DefinitionSource {
    address: ServerAddress,
    connection: Mutex<Option<SqlConnection>>,
}

impl DefinitionSource {
    pub(crate) const fn new(address: ServerAddress) -> Self {
        Self { address, connection: Mutex::new(None) }
    }

    /// Runs a statement, and repeats it once if the connection is lost. All values are text. `interrupt` ends the wait for
    /// other statements.
    pub(crate) fn ask(&self, sql: &str, interrupt: &StatementInterrupt) -> Result<SqlRows, ServerError> {
        let mut connection = interrupt.wait_for(&self.connection)?;
        let had_connection = connection.is_some();
        match self.ask_once(sql, &mut connection) {
            Err(error) if !matches!(error, ConnectionError::Refused { .. }) => {
                *connection = None;
                let again = if had_connection { self.ask_once(sql, &mut connection) } else { Err(error) };
                again.map_err(server_error)
            }
            answer => answer.map_err(server_error),
        }
    }

    fn ask_once(
        &self,
        sql: &str,
        connection: &mut Option<SqlConnection>,
    ) -> Result<SqlRows, ConnectionError> {
        let connection = match connection {
            Some(open) => open,
            none => none.insert(self.connect()?),
        };
        let table = connection.result_table(sql)?;
        let column = |name| SqlColumn { name, kind: SqlColumnKind::Text };
        let value = |value: Option<Vec<u8>>| {
            value.map_or(SqlValue::Null, |bytes| String::from_utf8_lossy(&bytes).into_owned().into())
        };
        Ok(SqlRows {
            columns: table.names.into_iter().map(column).collect(),
            rows: table.rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect(),
        })
    }

    fn connect(&self) -> Result<SqlConnection, ConnectionError> {
        let mut connection = SqlConnection::open_for_single_statements(&self.address)?;
        connection.run("SET SESSION TRANSACTION READ ONLY")?;
        // The relay has parsed the statement with this mode.
        connection.run("SET SESSION sql_mode = ''")?;
        // MySQL since 5.7.8 has the first variable, MariaDB the second, which counts seconds.
        let seconds = STATEMENT_TIME_MAX_MS / 1000;
        for limit in [
            format!("max_execution_time = {STATEMENT_TIME_MAX_MS}"),
            format!("max_statement_time = {seconds}"),
            // SHOW CREATE TABLE waits for a lock of the table, and no other limit ends this wait.
            format!("lock_wait_timeout = {LOCK_TIME_MAX_S}"),
        ] {
            match connection.run(&format!("SET SESSION {limit}")) {
                Ok(()) | Err(ConnectionError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(connection)
    }
}

/// `ER_CONNECT_TO_FOREIGN_DATA_SOURCE`, unless the server itself refuses the statement.
fn server_error(error: ConnectionError) -> ServerError {
    match error {
        ConnectionError::Refused { code, message } => ServerError::new(code, "HY000", message),
        error => {
            let message = format!("Unable to connect to foreign data source: {error}");
            ServerError::new(1429, "HY000", message)
        }
    }
}
