//! Replicas and other programs that read the target's binary log, if the server shows them.

use servers::{ConnectionError, ResultRow, ServerFacts, SqlConnection, row_text};

use crate::account_grants::AccountGrants;

/// First MySQL version with `SHOW REPLICAS`.
const SHOW_REPLICAS_SINCE: [u32; 3] = [8, 0, 22];

/// First MySQL version that counts statements by kind.
const STATEMENT_COUNTS_SINCE: [u32; 3] = [5, 6, 3];

/// Columns of `SHOW PROCESSLIST`.
const HOST_COLUMN: usize = 2;
const COMMAND_COLUMN: usize = 4;

/// Connections that read a server's binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogReaders {
    /// Connected replicas and other readers: their hosts, or `server_id N`.
    connected: Vec<String>,
    /// True if a connection that has ended read the log since the server's start.
    has_ended_reader: bool,
    /// Reasons why there may be further readers.
    unknown: Vec<&'static str>,
}

impl LogReaders {
    /// Queries a server. Records which readers the account may not see.
    pub(crate) fn query(
        connection: &mut SqlConnection,
        facts: &ServerFacts,
    ) -> Result<Self, ConnectionError> {
        let mut unknown = Vec::new();
        let connected = connected_readers(connection, facts)?.unwrap_or_else(|| {
            unknown.push(
                "to find connected replicas, the account needs PROCESS, or REPLICATION SLAVE (MariaDB: \
                 REPLICATION MASTER ADMIN)",
            );
            Vec::new()
        });
        let mut has_ended_reader = false;
        if connected.is_empty() {
            match count_dumps(connection, facts)? {
                Ok(count) => has_ended_reader = count > 0,
                Err(reason) => unknown.push(reason),
            }
        }
        Ok(Self { connected, has_ended_reader, unknown })
    }

    /// Describes the readers; `None` if none were found.
    pub(crate) fn describe(&self) -> Option<String> {
        match self.connected.as_slice() {
            [] if self.has_ended_reader => {
                Some("the target's binary log has been read since the server was started".to_owned())
            }
            [] => None,
            [only] => Some(format!("the target's binary log is being read, by {only}")),
            [first, others @ ..] => {
                Some(format!("the target's binary log is being read, by {first} and {} more", others.len()))
            }
        }
    }

    /// Returns the reasons why there may be undetected readers; `None` if all queries were answered.
    pub(crate) fn unknown(&self) -> Option<String> {
        (!self.unknown.is_empty()).then(|| self.unknown.join("; "))
    }
}

/// Returns the hosts or numbers of connected readers; `None` if the account may not see them.
fn connected_readers(
    connection: &mut SqlConnection,
    facts: &ServerFacts,
) -> Result<Option<Vec<String>>, ConnectionError> {
    let processes = rows_if_allowed(connection, "SHOW PROCESSLIST")?.unwrap_or_default();
    let reads = |row: &&ResultRow| row_text(row, COMMAND_COLUMN).starts_with("Binlog Dump");
    let hosts: Vec<String> = processes.iter().filter(reads).map(|row| row_text(row, HOST_COLUMN)).collect();
    if !hosts.is_empty() {
        return Ok(Some(hosts));
    }
    // Without the privilege PROCESS, the account sees only its own connections.
    let is_new = !facts.is_mariadb && !facts.is_older_than(SHOW_REPLICAS_SINCE);
    let question = if is_new { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
    if let Some(replicas) = rows_if_allowed(connection, question)? {
        return Ok(Some(replicas.iter().map(|row| format!("server_id {}", row_text(row, 0))).collect()));
    }
    let grants = match AccountGrants::query(connection) {
        Err(ConnectionError::Refused { .. }) => AccountGrants::default(),
        grants => grants?,
    };
    Ok(grants.has_globally("PROCESS").then(Vec::new))
}

/// Returns the number of log dumps since the server's start, or the reason why it is unknown.
fn count_dumps(
    connection: &mut SqlConnection,
    facts: &ServerFacts,
) -> Result<Result<u64, &'static str>, ConnectionError> {
    if !facts.is_mariadb && facts.is_older_than(STATEMENT_COUNTS_SINCE) {
        return Ok(Err("MySQL before 5.6 does not count earlier readers of its binary log"));
    }
    let counts = rows_if_allowed(
        connection,
        "SELECT SUM(count_star) FROM performance_schema.events_statements_summary_global_by_event_name \
         WHERE event_name LIKE 'statement/com/Binlog Dump%'",
    )?;
    let Some(counts) = counts else {
        return Ok(Err(
            "to find earlier readers of the binary log, the account needs SELECT on performance_schema",
        ));
    };
    let count = counts.first().and_then(|row| row_text(row, 0).parse().ok());
    Ok(count.ok_or("earlier readers of the binary log are counted only with performance_schema = ON"))
}

/// Returns the rows of a query; `None` if the account lacks a privilege for it, or if the server lacks the table.
fn rows_if_allowed(
    connection: &mut SqlConnection,
    question: &str,
) -> Result<Option<Vec<ResultRow>>, ConnectionError> {
    match connection.rows(question) {
        Err(ConnectionError::Refused { .. }) => Ok(None),
        answered => answered.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::LogReaders;

    #[test]
    fn readers_are_named() {
        let check = |connected: &[&str], has_ended_reader, expected: Option<&str>| {
            let connected = connected.iter().map(|name| (*name).to_owned()).collect();
            let readers = LogReaders { connected, has_ended_reader, unknown: Vec::new() };
            assert_eq!(readers.describe().as_deref(), expected);
            assert_eq!(readers.unknown(), None);
        };
        check(&[], false, None);
        check(&[], true, Some("the target's binary log has been read since the server was started"));
        check(&["db3:4711"], true, Some("the target's binary log is being read, by db3:4711"));
        check(
            &["a:1", "b:2", "c:3"],
            false,
            Some("the target's binary log is being read, by a:1 and 2 more"),
        );
    }
}
