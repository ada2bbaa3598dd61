//! Reads chunks of tables in a separate thread, so that the stream does not wait for queries.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use binlog::gtid::GtidSet;
use servers::{
    CancelToken, ConnectionError, GtidMode, IS_ROW_TABLE, ServerAddress, ServerFacts, SqlConnection,
};
use sql::quote;
use stream::{
    ChunkBounds, KeyLiterals, ResumePosition, SnapshotQuery, SnapshotQueryKind, TableChunk, TableSchema,
};
use tracing::warn;

use crate::column_name_source::{cell_text, facts};
use crate::commands::stream::live;
use crate::commands::stream::snapshot::snapshot_point::{
    LOCK_WAIT_TIMEOUT, PreparedTransactions, SESSION_SQL, query_prepared, query_status,
};
use crate::commands::stream::snapshot::{DENIED_CODES, whole_row_sql};

/// Longest wait for transactions that the stream has read, and that the server is still committing.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks for these transactions.
const VISIBLE_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum size of a chunk's values in bytes. Further rows belong to the next chunk.
const CHUNK_SIZE_MAX: usize = 4 << 20;

/// MySQL's error codes for tables and columns that do not exist any more, and for a table that was altered.
const REDEFINED_CODES: [u16; 3] = [1054, 1146, 1412];
/// Reader of chunks, in a separate thread.
pub(super) struct ChunkReader {
    tasks: Sender<ReaderTask>,
    answers: Receiver<ReaderAnswer>,
    /// Readable once there is an answer.
    wake: PipeReader,
    cancel: CancelToken,
}

/// Query for the thread.
pub(super) struct ReaderTask {
    pub(super) query: SnapshotQuery,
    /// Name of the server whose log the stream reads.
    pub(super) server: String,
    /// Transactions that the stream has read; `None` if they are not known.
    pub(super) seen: Option<GtidSet>,
}

/// Answer to a query.
pub(super) struct ReaderAnswer {
    pub(super) number: u64,
    pub(super) result: ReaderResult,
}

/// Result of a query.
pub(super) enum ReaderResult {
    /// Definition of the table, and its largest key.
    Definition(Box<TableSchema>, Option<KeyLiterals>),
    /// Rows.
    Rows(TableChunk),
    /// The table was altered or dropped meanwhile.
    Redefined,
    /// The table cannot be read, for this reason.
    Refused(String),
    /// The query is to be tried again later, for this reason.
    Delayed(String),
}

impl ChunkReader {
    /// Starts the thread, which connects at the first query.
    pub(super) fn start(address: &ServerAddress) -> std::io::Result<Self> {
        let cancel = CancelToken::default();
        let (task_sender, tasks) = channel();
        let (answers, answer_receiver) = channel();
        let (wake, waker) = std::io::pipe()?;
        let address = ServerAddress { cancel: cancel.clone(), ..address.clone() };
        let work = ReaderThread { address, tasks, answers, waker, connection: None, has_warned: false };
        thread::Builder::new().name("snapshot".to_owned()).spawn(move || work.run())?;
        Ok(Self { tasks: task_sender, answers: answer_receiver, wake, cancel })
    }

    /// Sends a query to the thread.
    pub(super) fn send(&self, task: ReaderTask) {
        // The thread ends only after this sender.
        let _ = self.tasks.send(task);
    }

    /// Returns the next answer, if there is one.
    pub(super) fn take_answer(&mut self) -> Option<ReaderAnswer> {
        let answer = self.answers.try_recv().ok()?;
        // One byte for each answer.
        let _ = self.wake.read(&mut [0]);
        Some(answer)
    }

    /// Returns a descriptor that is readable once there is an answer.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for ChunkReader {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// State of the thread.
struct ReaderThread {
    address: ServerAddress,
    tasks: Receiver<ReaderTask>,
    answers: Sender<ReaderAnswer>,
    waker: PipeWriter,
    connection: Option<ReaderConnection>,
    has_warned: bool,
}

/// Connection of the thread.
struct ReaderConnection {
    sql: SqlConnection,
    facts: ServerFacts,
    server: String,
}

impl ReaderThread {
    fn run(mut self) {
        while let Ok(task) = self.tasks.recv() {
            let result = self.answer(&task).unwrap_or_else(|error| {
                self.connection = None;
                ReaderResult::Delayed(error.to_string())
            });
            let is_sent = self.answers.send(ReaderAnswer { number: task.query.number, result });
            if is_sent.is_err() || self.waker.write_all(&[0]).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, task: &ReaderTask) -> Result<ReaderResult, ConnectionError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(ReaderConnection::open(&self.address)?),
        };
        if connection.server != task.server {
            let reason = format!("the address now belongs to a different server, {}", connection.server);
            self.connection = None;
            return Ok(ReaderResult::Delayed(reason));
        }
        if let Some(reason) = unsupported(&connection.facts) {
            return Ok(ReaderResult::Refused(reason.to_owned()));
        }
        let Some(seen) = &task.seen else {
            let reason = "it is not known yet which GTIDs the stream has read: run FLUSH BINARY LOGS on the source, or wait for \
                          its next log";
            return Ok(ReaderResult::Delayed(reason.to_owned()));
        };
        let sql = &mut connection.sql;
        if !wait_until_visible(sql, seen)? {
            let reason = "the source has not yet committed transactions that are in its log";
            return Ok(ReaderResult::Delayed(reason.to_owned()));
        }
        match query_prepared(sql)? {
            PreparedTransactions::No => {}
            PreparedTransactions::Yes => {
                let reason = "the source has prepared XA transactions, whose rows are in its log but not in its tables \
                              yet: XA RECOVER lists them";
                return Ok(ReaderResult::Delayed(reason.to_owned()));
            }
            PreparedTransactions::Unknown if !self.has_warned => {
                self.has_warned = true;
                warn!(
                    "the account lacks XA_RECOVER_ADMIN, so prepared XA transactions are not visible, and a snapshot can \
                     contain old values of their rows: grant it"
                );
            }
            PreparedTransactions::Unknown => {}
        }
        let names = task.query.names.each_ref().map(String::as_str);
        let result = match &task.query.kind {
            SnapshotQueryKind::Describe => describe(sql, names),
            SnapshotQueryKind::Rows(definition, bounds) => read_rows(sql, names, definition, bounds),
        };
        result.or_else(explain)
    }
}

/// Returns the result of a query that the server refuses.
fn explain(error: ConnectionError) -> Result<ReaderResult, ConnectionError> {
    match error.code() {
        Some(code) if REDEFINED_CODES.contains(&code) => Ok(ReaderResult::Redefined),
        Some(code) if DENIED_CODES.contains(&code) => Ok(ReaderResult::Refused(error.to_string())),
        Some(LOCK_WAIT_TIMEOUT) => Ok(ReaderResult::Delayed("the table is locked".to_owned())),
        Some(_) => Ok(ReaderResult::Delayed(error.to_string())),
        None => Err(error),
    }
}

impl ReaderConnection {
    fn open(address: &ServerAddress) -> Result<Self, ConnectionError> {
        let mut sql = SqlConnection::open(address)?;
        let facts = ServerFacts::query(&mut sql)?;
        let server = live::server(&mut sql, &facts)?;
        sql.run(SESSION_SQL)?;
        // An ALTER TABLE must not wait for long behind this connection, nor this one behind it.
        sql.run("SET SESSION lock_wait_timeout = 1")?;
        Ok(Self { sql, facts, server })
    }
}

fn unsupported(facts: &ServerFacts) -> Option<&'static str> {
    if facts.is_mariadb {
        return Some(
            "the source is MariaDB, which does not report which transactions the rows contain: use --snapshot with a new \
             stream",
        );
    }
    (facts.gtid_mode != GtidMode::On).then_some(
        "without GTIDs, bintide cannot place the rows of the snapshot in the log: set gtid_mode=ON on the source, or use \
         --snapshot with a new stream",
    )
}

/// Waits until the transactions are visible in the tables. Servers add a GTID to `gtid_executed` after its transaction
/// has become visible, but send it to replicas before that.
fn wait_until_visible(sql: &mut SqlConnection, seen: &GtidSet) -> Result<bool, ConnectionError> {
    let begun = Instant::now();
    loop {
        let text = sql.value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
        let executed = text.replace(['\n', ' '], "").parse::<GtidSet>();
        let executed =
            executed.map_err(|error| ConnectionError::lost(format!("invalid gtid_executed: {error}")))?;
        if seen.is_subset(&executed) {
            return Ok(true);
        }
        if begun.elapsed() > VISIBLE_TIMEOUT {
            return Ok(false);
        }
        thread::sleep(VISIBLE_POLL_INTERVAL);
    }
}

fn describe(sql: &mut SqlConnection, names: [&str; 2]) -> Result<ReaderResult, ConnectionError> {
    let refused = |reason: &str| Ok(ReaderResult::Refused(reason.to_owned()));
    let [database, table] = names.map(str::as_bytes);
    let found = sql.rows(&format!(
        "SELECT table_schema, table_name, engine, {IS_ROW_TABLE} FROM information_schema.tables WHERE {}",
        quote::table_condition(database, table)
    ))?;
    let Some(row) = found.first() else {
        return refused("there is no such table, or the account lacks SELECT on it");
    };
    let found_names = [cell_text(row.first()), cell_text(row.get(1))];
    if found_names != names {
        return refused(&format!("the name of the table is {}", found_names.join(".")));
    }
    if cell_text(row.get(3)) != "1" || !cell_text(row.get(2)).eq_ignore_ascii_case("InnoDB") {
        return refused("it is not a table of InnoDB");
    }
    // The catalogue shows only the columns that the account may read.
    sql.run(&whole_row_sql(names))?;
    let Some(definition) = facts(sql, names)? else { return Ok(ReaderResult::Redefined) };
    let Some(last_key) = definition.last_key_sql(names) else {
        return refused("it has no primary key: use --snapshot with a new stream");
    };
    let rows = sql.rows(&last_key)?;
    let end = match rows.first().map(|row| definition.key_literals(row)) {
        Some(None) => return refused("its primary key has a value that bintide cannot compare"),
        end => end.flatten(),
    };
    Ok(ReaderResult::Definition(Box::new(definition), end))
}

fn read_rows(
    sql: &mut SqlConnection,
    names: [&str; 2],
    definition: &TableSchema,
    bounds: &ChunkBounds,
) -> Result<ReaderResult, ConnectionError> {
    let Some(query) = definition.chunk_sql(names, bounds) else { return Ok(ReaderResult::Redefined) };
    let (mut rows, mut size, mut is_cut) = (Vec::new(), 0, false);
    sql.each_row(&query, &mut |row| {
        size += row.iter().flatten().map(Vec::len).sum::<usize>();
        // A chunk has at least one row, whatever the size of the row.
        is_cut = size > CHUNK_SIZE_MAX && !rows.is_empty();
        if is_cut {
            return ControlFlow::Break(());
        }
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    // Only after the rows: the log then has all transactions that they contain.
    let status = match query_status(sql) {
        Ok(status) => status,
        Err(error) => return status_failure(error),
    };
    let end_of_log = ResumePosition { log: status.log, position: status.position };
    let is_last = !is_cut && rows.len() < bounds.rows_max;
    Ok(ReaderResult::Rows(TableChunk { rows, end_of_log, is_last }))
}

fn status_failure(error: anyhow::Error) -> Result<ReaderResult, ConnectionError> {
    match error.downcast::<ConnectionError>() {
        Ok(error) if error.code() == Some(1227) => Ok(ReaderResult::Refused(
            "the account may not query the end of the log: grant it REPLICATION CLIENT".to_owned(),
        )),
        Ok(error) => Err(error),
        Err(error) => Ok(ReaderResult::Refused(format!("{error:#}"))),
    }
}
