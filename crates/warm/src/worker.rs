//! A connection that searches: it runs one short statement at a time, and blocks no other session.

use std::sync::Arc;
use std::time::Duration;

use servers::{Address, Connection, Error};

use crate::session::PLAIN;
use crate::shared::{Job, Search, Shared};

/// Pause before a lost server is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Errors for dropped objects: unknown database (1049), column (1054), table (1146) or index (1176).
const GONE: [u16; 4] = [1049, 1054, 1146, 1176];

/// Errors for exceeding the statement's time limit: MySQL's (3024) and MariaDB's (1969).
const TOO_LONG: [u16; 2] = [3024, 1969];

/// Statements that set up a session. It changes nothing, locks nothing, and reads no older row versions. It waits at
/// most a second for a metadata lock, and at most a second for a search ([`MYSQL`] and [`MARIADB`]).
const SESSION: &str = "SET NAMES utf8mb4; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ ONLY; \
    SET @@session.autocommit = 1, @@session.time_zone = '+00:00', @@session.sql_mode = '', \
    @@session.lock_wait_timeout = 1, @@session.innodb_lock_wait_timeout = 1";
/// Time limit and optimizer switch for MySQL. Servers before 5.7.8 have no time limit.
const MYSQL: &str = "SET /*!50708 @@session.max_execution_time = 1000, */ \
    @@session.optimizer_switch = 'use_index_extensions=on'";
/// Time limit and optimizer switch for MariaDB.
const MARIADB: &str = "SET @@session.max_statement_time = 1, @@session.optimizer_switch = 'extended_keys=on'";

/// Runs queued searches until the end.
pub(crate) fn work(shared: &Shared, number: usize, address: &Address, is_mariadb: bool) {
    let mut connection = None;
    while let Some(job) = shared.next(number) {
        let open = match connection.take() {
            Some(open) => open,
            None => match open(shared, address, is_mariadb) {
                Some(open) => open,
                None => return,
            },
        };
        connection = search(shared, open, &job);
    }
    if let Some(Open { connection, .. }) = connection {
        shared.disconnected(connection.id());
    }
}

/// A connection, and its session state.
struct Open {
    connection: Connection,
    /// SQL that set the session state for a statement's search; `None` for the initial state.
    session: Option<Arc<str>>,
}

/// Connects, and retries while the server is unavailable; `None` at the end.
fn open(shared: &Shared, address: &Address, is_mariadb: bool) -> Option<Open> {
    loop {
        if shared.is_over() {
            return None;
        }
        match ready(address, is_mariadb) {
            Ok(connection) => {
                shared.connected(connection.id());
                return Some(Open { connection, session: None });
            }
            Err(error @ Error::Refused { .. }) => refused(shared, &error),
            Err(_) => {}
        }
        shared.rest(PAUSE);
    }
}

/// Opens a read-only connection that waits at most a second for a metadata lock.
pub(crate) fn read_only(address: &Address) -> Result<Connection, Error> {
    let mut connection = Connection::open(address)?;
    connection.run(SESSION)?;
    Ok(connection)
}

fn ready(address: &Address, is_mariadb: bool) -> Result<Connection, Error> {
    let mut connection = read_only(address)?;
    connection.run(if is_mariadb { MARIADB } else { MYSQL })?;
    Ok(connection)
}

/// Runs a search. Returns the connection unless it is lost.
fn search(shared: &Shared, mut open: Open, job: &Job) -> Option<Open> {
    if let Search::Text(text) = &job.search
        && shared.is_slow(&text.tables)
    {
        shared.leave_slow();
        return Some(open);
    }
    match open.run(&job.search) {
        Ok(()) => shared.count(|counts| counts.executed += 1),
        Err(error @ Error::Refused { .. }) => {
            let code = error.code().unwrap_or_default();
            match &job.search {
                Search::Batch(_) if GONE.contains(&code) => shared.forget_definitions(),
                // A statement may depend on definitions ahead of the applier, so a missing object means nothing for it.
                Search::Text(text) if TOO_LONG.contains(&code) => shared.was_slow(&text.tables),
                _ => {}
            }
            refused(shared, &error);
        }
        Err(Error::Cancelled) => {
            shared.disconnected(open.connection.id());
            return None;
        }
        Err(_) => {
            shared.count(|counts| counts.errors += 1);
            shared.disconnected(open.connection.id());
            return None;
        }
    }
    Some(open)
}

impl Open {
    fn run(&mut self, search: &Search) -> Result<(), Error> {
        let wanted = match search {
            Search::Batch(_) => None,
            Search::Text(text) => Some(&text.session),
        };
        if self.session.as_ref() != wanted {
            // If this fails part-way, the session state is unknown, and the next search must set it again.
            self.session = Some("".into());
            self.connection.run(wanted.map_or(PLAIN, |session| session))?;
            self.session = wanted.cloned();
        }
        match search {
            Search::Batch(batch) => self.connection.run(&batch.sql()),
            Search::Text(text) => self.connection.run_bytes(&text.sql),
        }
    }
}

fn refused(shared: &Shared, error: &Error) {
    let code = error.code().unwrap_or_default();
    shared.count(|counts| {
        counts.errors += 1;
        counts.refusals.entry(code).or_insert_with(|| (0, error.to_string())).0 += 1;
    });
}
