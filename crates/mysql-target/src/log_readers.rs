//! Replicas and other programs that read the target's binary log, as far as the server shows them.

use servers::{ConnectionError, ResultRow, ServerFacts, SqlConnection, row_text};

/// First MySQL version with `SHOW REPLICAS`.
const SHOW_REPLICAS_SINCE: [u32; 3] = [8, 0, 22];

/// First MySQL version that counts statements by their kind.
const STATEMENT_COUNTS_SINCE: [u32; 3] = [5, 6, 3];

/// Columns of `SHOW PROCESSLIST`.
const HOST_COLUMN: usize = 2;
const COMMAND_COLUMN: usize = 4;

/// Connections that read a server's binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogReaders {
    /// Connected replicas and other readers: their hosts, or `server_id N`.
    connected: Vec<String>,
    /// True if a connection read the log since the server was started, and has ended.
    has_ended_reader: bool,
}

impl LogReaders {
    /// Queries a server. A query that the account may not make finds nothing.
    pub(crate) fn query(
        connection: &mut SqlConnection,
        facts: &ServerFacts,
    ) -> Result<Self, ConnectionError> {
        let processes = rows_if_allowed(connection, "SHOW PROCESSLIST")?;
        let reads = |row: &&ResultRow| row_text(row, COMMAND_COLUMN).starts_with("Binlog Dump");
        let mut connected: Vec<String> =
            processes.iter().filter(reads).map(|row| row_text(row, HOST_COLUMN)).collect();
        if connected.is_empty() {
            // Without the privilege PROCESS, the account sees only its own connections.
            let is_new = !facts.is_mariadb && !facts.is_older_than(SHOW_REPLICAS_SINCE);
            let question = if is_new { "SHOW REPLICAS" } else { "SHOW SLAVE HOSTS" };
            let replicas = rows_if_allowed(connection, question)?;
            connected.extend(replicas.iter().map(|row| format!("server_id {}", row_text(row, 0))));
        }
        let mut has_ended_reader = false;
        if facts.is_mariadb || !facts.is_older_than(STATEMENT_COUNTS_SINCE) {
            let counts = rows_if_allowed(
                connection,
                "SELECT SUM(count_star) FROM performance_schema.events_statements_summary_global_by_event_name \
                 WHERE event_name LIKE 'statement/com/Binlog Dump%'",
            )?;
            has_ended_reader = counts.first().is_some_and(|row| !matches!(&*row_text(row, 0), "" | "0"));
        }
        Ok(Self { connected, has_ended_reader })
    }

    /// Describes the readers; `None` if there are none.
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
}

/// Returns the rows of a query; none if the account lacks a privilege for it, or if the server lacks the table.
fn rows_if_allowed(
    connection: &mut SqlConnection,
    question: &str,
) -> Result<Vec<ResultRow>, ConnectionError> {
    match connection.rows(question) {
        Err(ConnectionError::Refused { .. }) => Ok(Vec::new()),
        answered => answered,
    }
}

#[cfg(test)]
mod tests {
    use super::LogReaders;

    #[test]
    fn readers_are_named() {
        let check = |connected: &[&str], has_ended_reader, wanted: Option<&str>| {
            let connected = connected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(LogReaders { connected, has_ended_reader }.describe().as_deref(), wanted);
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
