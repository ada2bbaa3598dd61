//! Point at which a server's tables and its log agree, held by a transaction.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use servers::{ConnectionError, GTIDS_SINCE, GtidMode, ServerFacts, SqlConnection};

use crate::column_name_source::cell_text;
use crate::exit::ErrorAdvice;
use crate::interrupt;

/// Position in the log: the transaction sees exactly the changes before it.
#[derive(Debug)]
pub(super) struct SnapshotPoint {
    pub(super) log: String,
    pub(super) position: u64,
    /// GTIDs of the transactions before the position, as the server writes them.
    pub(super) gtids: String,
    /// Time of the point on the server's clock, in seconds since 1970.
    pub(super) taken_s: u64,
    pub(super) held: SnapshotLock,
    pub(super) prepared: PreparedTransactions,
}

/// Lock that was needed for the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnapshotLock {
    /// No lock.
    Nothing,
    /// A read lock on all tables, for a moment.
    ReadLock,
}

/// Presence of prepared XA transactions. Their rows are in the log before the position, but not visible in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreparedTransactions {
    No,
    Yes,
    /// The account may not list them.
    Unknown,
}

/// Position of the log, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinlogStatus {
    pub(super) log: String,
    pub(super) position: u64,
    gtids: String,
}

/// Time limit for attempts without a lock; the second limit applies if the account may not lock.
const UNLOCKED_TIMEOUT: Duration = Duration::from_secs(1);
const UNLOCKED_ONLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum seconds that the lock blocks writers while it waits for long statements.
const LOCK_WAIT_S: u32 = 3;
/// Maximum number of attempts to lock, and the pause between them, in which writers are not blocked.
const LOCK_TRIES_MAX: u32 = 10;
const LOCK_BACKOFF: Duration = Duration::from_secs(2);

/// MySQL's error code for a missing privilege.
const ACCESS_DENIED: u16 = 1227;
pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
const SYNTAX_ERROR: u16 = 1064;

const RELOAD_ADVICE: ErrorAdvice =
    ErrorAdvice("grant the account RELOAD, so that the snapshot can lock the tables for a moment");

/// Session settings: texts in UTF-8, times in UTC, and no timeout while rows are sent.
pub(super) const SESSION_SQL: &str = "SET NAMES utf8mb4; SET SESSION time_zone = '+00:00', sql_mode = '',
    /*!50708 max_execution_time = 0, */ net_write_timeout = 31536000; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
const BEGIN_SQL: &str = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// Begins a transaction that sees the tables as of a position in the log.
pub(super) fn begin(
    connection: &mut SqlConnection,
    facts: &ServerFacts,
) -> Result<SnapshotPoint, anyhow::Error> {
    facts.require_version(GTIDS_SINCE).context("--snapshot")?;
    connection.run(SESSION_SQL)?;
    if facts.is_mariadb {
        return begin_mariadb(connection);
    }
    let has_gtids = facts.gtid_mode == GtidMode::On;
    if has_gtids && let Some(point) = begin_unlocked(connection, UNLOCKED_TIMEOUT)? {
        return Ok(point);
    }
    match lock(connection) {
        Err(error) if code(&error) == Some(ACCESS_DENIED) && has_gtids => {
            let point = begin_unlocked(connection, UNLOCKED_ONLY_TIMEOUT)?;
            point.ok_or_else(|| {
                anyhow!("the source commits continuously, and the account may not lock tables")
                    .context(RELOAD_ADVICE)
            })
        }
        result => result.and_then(|()| begin_locked(connection)),
    }
}

fn code(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<ConnectionError>().and_then(ConnectionError::code)
}

/// Begins a snapshot without a lock. Two equal readings of the log's position show that nothing was written between
/// them. The absence of owned GTIDs shows that no logged transaction was still invisible.
///
/// A transaction owns its GTID from before its write to the log until it is visible in the tables. If no GTID is owned
/// after the first reading, all transactions before that position are visible. If the position is the same after the
/// start of the snapshot, no later transaction is visible.
fn begin_unlocked(
    connection: &mut SqlConnection,
    timeout: Duration,
) -> Result<Option<SnapshotPoint>, anyhow::Error> {
    let began = Instant::now();
    while began.elapsed() < timeout && !interrupt::is_stop_requested() {
        let before = query_status(connection)?;
        let owned = connection.value("SELECT @@GLOBAL.gtid_owned")?.unwrap_or_default();
        if owned.is_empty() {
            connection.run(BEGIN_SQL)?;
            let prepared = query_prepared(connection)?;
            let point = point(connection, before.clone(), SnapshotLock::Nothing, prepared)?;
            if query_status(connection)? == before {
                return Ok(Some(point));
            }
            connection.run("ROLLBACK")?;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // After Ctrl-C, writers must not be locked either.
    if interrupt::is_stop_requested() { Err(ConnectionError::Cancelled.into()) } else { Ok(None) }
}

/// Blocks all commits.
fn lock(connection: &mut SqlConnection) -> Result<(), anyhow::Error> {
    connection.run(&format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}"))?;
    let mut tries = 1;
    while let Err(error) = connection.run("FLUSH TABLES WITH READ LOCK") {
        match error.code() {
            Some(LOCK_WAIT_TIMEOUT) => {}
            Some(ACCESS_DENIED) => return Err(anyhow::Error::from(error).context(RELOAD_ADVICE)),
            _ => return Err(error.into()),
        }
        if interrupt::is_stop_requested() {
            return Err(ConnectionError::Cancelled.into());
        }
        if tries == LOCK_TRIES_MAX {
            let waited = "could not lock the tables briefly: long-running statements use them";
            return Err(anyhow::Error::from(error).context(waited).context(ErrorAdvice(
                "run the command again when they have ended: SHOW PROCESSLIST lists them",
            )));
        }
        tries += 1;
        thread::sleep(LOCK_BACKOFF);
    }
    Ok(())
}

/// Begins the snapshot while commits are blocked, then releases the lock.
fn begin_locked(connection: &mut SqlConnection) -> Result<SnapshotPoint, anyhow::Error> {
    connection.run(BEGIN_SQL)?;
    let status = query_status(connection)?;
    let prepared = query_prepared(connection)?;
    let point = point(connection, status, SnapshotLock::ReadLock, prepared)?;
    connection.run("UNLOCK TABLES; SET SESSION lock_wait_timeout = DEFAULT")?;
    Ok(point)
}

/// Begins a snapshot on MariaDB, which reports the log position of a transaction's start.
fn begin_mariadb(connection: &mut SqlConnection) -> Result<SnapshotPoint, anyhow::Error> {
    connection.run("SET SESSION max_statement_time = 0")?;
    let began = Instant::now();
    while began.elapsed() < UNLOCKED_ONLY_TIMEOUT && !interrupt::is_stop_requested() {
        if let Some(point) = try_begin_mariadb(connection)? {
            return Ok(point);
        }
        connection.run("ROLLBACK")?;
    }
    if interrupt::is_stop_requested() {
        return Err(ConnectionError::Cancelled.into());
    }
    let message = "the source commits prepared XA transactions continuously; their rows may be in its log but not in \
        its tables yet";
    Err(anyhow!(message)
        .context(ErrorAdvice("run the command again when there are fewer: XA RECOVER lists them")))
}

/// Makes one attempt. Returns `None` if a transaction may have been prepared after the first XA RECOVER and committed
/// before the second. The log then has the transaction's rows, but the snapshot lacks them if the commit followed the
/// snapshot's start.
fn try_begin_mariadb(connection: &mut SqlConnection) -> Result<Option<SnapshotPoint>, anyhow::Error> {
    let committed = commits_of_prepared(connection)?;
    let before = query_prepared(connection)?;
    connection.run(BEGIN_SQL)?;
    let status = query_mariadb_status(connection)?;
    let after = query_prepared(connection)?;
    let prepared = if before == PreparedTransactions::No { after } else { before };
    if prepared == PreparedTransactions::No && commits_of_prepared(connection)? != committed {
        return Ok(None);
    }
    Ok(Some(point(connection, status, SnapshotLock::Nothing, prepared)?))
}

/// Returns the number of XA COMMIT statements since the server started.
fn commits_of_prepared(connection: &mut SqlConnection) -> Result<String, ConnectionError> {
    let rows = connection.rows("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")?;
    Ok(rows.first().map(|row| cell_text(row.get(1))).unwrap_or_default())
}

fn query_mariadb_status(connection: &mut SqlConnection) -> Result<BinlogStatus, anyhow::Error> {
    let rows = connection.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")?;
    let said = |name: &str| {
        let row = rows.iter().find(|row| cell_text(row.first()).eq_ignore_ascii_case(name));
        row.map(|row| cell_text(row.get(1))).unwrap_or_default()
    };
    let log = said("binlog_snapshot_file");
    let position = said("binlog_snapshot_position");
    let position = position.parse().ok().filter(|_| !log.is_empty());
    let position = position.with_context(|| format!("the source writes no binary log: {rows:?}"))?;
    let gtids = connection.value(&format!("SELECT BINLOG_GTID_POS('{log}', {position})"))?;
    Ok(BinlogStatus { log, position, gtids: gtids.unwrap_or_default() })
}

fn point(
    connection: &mut SqlConnection,
    status: BinlogStatus,
    held: SnapshotLock,
    prepared: PreparedTransactions,
) -> Result<SnapshotPoint, ConnectionError> {
    let BinlogStatus { log, position, gtids } = status;
    let taken = connection.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
    Ok(SnapshotPoint { log, position, gtids, taken_s: taken.parse().unwrap_or(0), held, prepared })
}

pub(super) fn query_status(connection: &mut SqlConnection) -> Result<BinlogStatus, anyhow::Error> {
    let rows = match connection.rows("SHOW BINARY LOG STATUS") {
        Err(error) if error.code() == Some(SYNTAX_ERROR) => connection.rows("SHOW MASTER STATUS"),
        rows => rows,
    };
    let rows = match rows {
        Err(error) if error.code() == Some(ACCESS_DENIED) => {
            return Err(
                anyhow::Error::from(error).context(ErrorAdvice("grant the account REPLICATION CLIENT"))
            );
        }
        rows => rows?,
    };
    let row = rows.first().context("the source writes no binary log")?;
    let position = cell_text(row.get(1));
    let position = position
        .parse()
        .with_context(|| format!("the source reported an invalid log position: {position:?}"))?;
    let gtids = cell_text(row.get(4)).replace(['\n', ' '], "");
    Ok(BinlogStatus { log: cell_text(row.first()), position, gtids })
}

/// Returns whether the server has prepared XA transactions.
pub(super) fn query_prepared(
    connection: &mut SqlConnection,
) -> Result<PreparedTransactions, ConnectionError> {
    match connection.rows("XA RECOVER") {
        Ok(rows) => Ok(if rows.is_empty() { PreparedTransactions::No } else { PreparedTransactions::Yes }),
        Err(error) if error.code().is_some() => Ok(PreparedTransactions::Unknown),
        Err(error) => Err(error),
    }
}
