//! A connection for searches: runs one short statement at a time, and blocks no other session.

use std::sync::Arc;
use std::time::Duration;

use binlog::Flavour;
use servers::{ConnectionError, ServerAddress, SqlConnection};

use crate::statement_session::RESET_SESSION;
use crate::warm_shared::{SearchJob, SearchQuery, WarmShared};

/// Pause before another attempt to connect.
const RETRY_BACKOFF: Duration = Duration::from_millis(500);
/// Backoff after an error that is not transient, such as a refused login: a server blocks accounts and hosts with many
/// failed logins.
const LOGIN_BACKOFF: Duration = Duration::from_secs(30);

/// Errors for dropped objects: unknown database (1049), column (1054), table (1146) or index (1176).
const MISSING_OBJECT_ERRORS: [u16; 4] = [1049, 1054, 1146, 1176];

/// Errors for exceeding the statement's time limit: MySQL's (3024) and MariaDB's (1969).
const TIMEOUT_ERRORS: [u16; 2] = [3024, 1969];

/// Statements that set up a session. The session changes nothing, locks nothing, and reads no older row versions. It
/// waits at most a second for a metadata lock, and at most a second for a search ([`MYSQL_SETUP`] and
/// [`MARIADB_SETUP`]).
const SESSION_SETUP: &str = "SET NAMES utf8mb4; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ ONLY; \
    SET @@session.autocommit = 1, @@session.time_zone = '+00:00', @@session.sql_mode = '', \
    @@session.lock_wait_timeout = 1, @@session.innodb_lock_wait_timeout = 1";
/// Time limit and optimizer switch for MySQL. Servers before 5.7.8 have no time limit.
const MYSQL_SETUP: &str = "SET /*!50708 @@session.max_execution_time = 1000, */ \
    @@session.optimizer_switch = 'use_index_extensions=on'";
/// Time limit and optimizer switch for MariaDB.
const MARIADB_SETUP: &str =
    "SET @@session.max_statement_time = 1, @@session.optimizer_switch = 'extended_keys=on'";

/// Runs queued searches until the end.
pub(crate) fn run_worker(shared: &WarmShared, number: usize, address: &ServerAddress, flavour: Flavour) {
    let mut connection = None;
    while let Some(job) = shared.next_job(number) {
        let open = match connection.take() {
            Some(open) => open,
            None => match open(shared, address, flavour) {
                Some(open) => open,
                None => return,
            },
        };
        connection = run_job(shared, open, &job);
    }
    if let Some(WorkerConnection { connection, .. }) = connection {
        shared.remove_connection(connection.id());
    }
}

/// A connection, and its session state.
struct WorkerConnection {
    connection: SqlConnection,
    /// SQL that set the session state for a statement's search; `None` for the initial state.
    session: Option<Arc<str>>,
}

/// Connects, and retries while the server is unavailable; `None` at the end.
fn open(shared: &WarmShared, address: &ServerAddress, flavour: Flavour) -> Option<WorkerConnection> {
    loop {
        if shared.is_over() {
            return None;
        }
        match open_search_connection(address, flavour) {
            Ok(connection) => {
                shared.add_connection(connection.id());
                return Some(WorkerConnection { connection, session: None });
            }
            Err(error) => {
                let backoff = if error.is_transient() { RETRY_BACKOFF } else { LOGIN_BACKOFF };
                if let ConnectionError::Refused { .. } = error {
                    count_refusal(shared, &error);
                }
                shared.sleep(backoff);
            }
        }
    }
}

/// Opens a read-only connection that waits at most a second for a metadata lock.
pub(crate) fn read_only(address: &ServerAddress) -> Result<SqlConnection, ConnectionError> {
    let mut connection = SqlConnection::open(address)?;
    connection.run(SESSION_SETUP)?;
    Ok(connection)
}

fn open_search_connection(
    address: &ServerAddress,
    flavour: Flavour,
) -> Result<SqlConnection, ConnectionError> {
    let mut connection = read_only(address)?;
    connection.run(match flavour {
        Flavour::MariaDb => MARIADB_SETUP,
        Flavour::MySql => MYSQL_SETUP,
    })?;
    Ok(connection)
}

/// Runs a search. Returns the connection unless it is lost.
fn run_job(shared: &WarmShared, mut open: WorkerConnection, job: &SearchJob) -> Option<WorkerConnection> {
    if let SearchQuery::Statement(text) = &job.search
        && shared.is_slow(&text.tables)
    {
        shared.skip_slow();
        return Some(open);
    }
    match open.run(&job.search) {
        Ok(()) => shared.count(|counts| counts.executed += 1),
        Err(error @ ConnectionError::Refused { .. }) => {
            let code = error.code().unwrap_or_default();
            match &job.search {
                SearchQuery::Batch(_) if MISSING_OBJECT_ERRORS.contains(&code) => {
                    shared.invalidate_definitions()
                }
                // A statement may depend on definitions ahead of the applier, so ignore a missing object.
                SearchQuery::Statement(text) if TIMEOUT_ERRORS.contains(&code) => {
                    shared.mark_slow(&text.tables)
                }
                _ => {}
            }
            count_refusal(shared, &error);
        }
        Err(ConnectionError::Cancelled) => {
            shared.remove_connection(open.connection.id());
            return None;
        }
        Err(_) => {
            shared.count(|counts| counts.errors += 1);
            shared.remove_connection(open.connection.id());
            return None;
        }
    }
    Some(open)
}

impl WorkerConnection {
    fn run(&mut self, search: &SearchQuery) -> Result<(), ConnectionError> {
        let session = match search {
            SearchQuery::Batch(_) => None,
            SearchQuery::Statement(text) => Some(&text.session),
        };
        if self.session.as_ref() != session {
            // If this fails part-way, the session state is unknown, and the next search must set it again.
            self.session = Some("".into());
            self.connection.run(session.map_or(RESET_SESSION, |session| session))?;
            self.session = session.cloned();
        }
        match search {
            SearchQuery::Batch(batch) => self.connection.run(&batch.sql()),
            SearchQuery::Statement(text) => self.connection.run_bytes(&text.sql),
        }
    }
}

fn count_refusal(shared: &WarmShared, error: &ConnectionError) {
    let code = error.code().unwrap_or_default();
    shared.count(|counts| {
        counts.errors += 1;
        counts.refusals.entry(code).or_insert_with(|| (0, error.to_string())).0 += 1;
    });
}
