//! A moment at which a server's tables and its log agree, held by a transaction.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use servers::{Connection, Error, Facts, GTIDS_SINCE, GtidMode};

use crate::commands::stream::catalogue::word;
use crate::exit::Advice;
use crate::interrupt;

/// A place in the log: what is in front of it is in the tables as the transaction sees them, and what is behind it is
/// not.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) log: String,
    pub(super) position: u64,
    /// The transactions in front of that, as the server writes them.
    pub(super) gtids: String,
    /// When that was, on the server's clock: in seconds since 1970.
    pub(super) taken_s: u64,
    pub(super) held: Held,
    pub(super) prepared: Prepared,
}

/// What was held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing.
    Nothing,
    /// All tables, against writers, for a moment.
    ReadLock,
}

/// Are there transactions that are prepared, and not committed (XA)? Their rows are in front of the place, and cannot
/// be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    No,
    Yes,
    /// The account may not ask.
    Unknown,
}

/// How the log stands, as the server says it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    log: String,
    position: u64,
    gtids: String,
}

/// How long it is tried without a lock, and how long if the account may not lock.
const UNLOCKED: Duration = Duration::from_secs(1);
const UNLOCKED_ONLY: Duration = Duration::from_secs(30);
/// Seconds that writers may have to wait for the lock's sake: it waits itself for statements that run long.
const LOCK_WAIT_S: u32 = 3;
/// How often the lock is tried, and how long writers are left alone in between.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_secs(2);

/// The account may not do that.
const ACCESS_DENIED: u16 = 1227;
pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
const SYNTAX_ERROR: u16 = 1064;

const RELOAD: Advice = Advice("grant the account RELOAD");

/// Texts are UTF-8 and times are UTC's, and however long rows are waited for, they are sent.
const SESSION: &str = "SET NAMES utf8mb4; SET SESSION time_zone = '+00:00', sql_mode = '',
    /*!50708 max_execution_time = 0, */ net_write_timeout = 31536000; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
const BEGIN: &str = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// Begins a transaction that sees the tables as they are at a place of the log.
pub(super) fn begin(connection: &mut Connection, facts: &Facts) -> Result<Point, anyhow::Error> {
    facts.require(GTIDS_SINCE).context("a snapshot")?;
    connection.run(SESSION)?;
    if facts.is_mariadb {
        return of_mariadb(connection);
    }
    let has_gtids = facts.gtid_mode == GtidMode::On;
    if has_gtids && let Some(point) = unlocked(connection, UNLOCKED)? {
        return Ok(point);
    }
    match lock(connection) {
        Err(error) if code(&error) == Some(ACCESS_DENIED) && has_gtids => {
            let point = unlocked(connection, UNLOCKED_ONLY)?;
            point.ok_or_else(|| {
                anyhow!(
                    "the source commits without a pause, and the account may not hold writers for a moment"
                )
                .context(RELOAD)
            })
        }
        result => result.and_then(|()| locked(connection)),
    }
}

fn code(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<Error>().and_then(Error::code)
}

/// Without a lock: between two looks at the log nothing was written to it, and nothing that was in it at the first was
/// still on its way into the tables.
///
/// A transaction owns its GTID from before it is in the log until it can be seen in the tables. So if the log ends at
/// some place, and after that nobody owns a GTID, all that is in front of that place can be seen; and if the log still
/// ends there when the snapshot has been made, nothing that is behind it could be.
fn unlocked(connection: &mut Connection, patience: Duration) -> Result<Option<Point>, anyhow::Error> {
    let began = Instant::now();
    while began.elapsed() < patience && !interrupt::requested() {
        let before = status(connection)?;
        let owned = connection.value("SELECT @@GLOBAL.gtid_owned")?.unwrap_or_default();
        if owned.is_empty() {
            connection.run(BEGIN)?;
            let prepared = prepared(connection)?;
            let point = point(connection, before.clone(), (Held::Nothing, prepared))?;
            if status(connection)? == before {
                return Ok(Some(point));
            }
            connection.run("ROLLBACK")?;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // Whoever has had enough is not to hold writers, either.
    if interrupt::requested() { Err(Error::Cancelled.into()) } else { Ok(None) }
}

/// From here on nobody can commit.
fn lock(connection: &mut Connection) -> Result<(), anyhow::Error> {
    connection.run(&format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}"))?;
    let mut tries = 1;
    while let Err(error) = connection.run("FLUSH TABLES WITH READ LOCK") {
        match error.code() {
            Some(LOCK_WAIT_TIMEOUT) => {}
            Some(ACCESS_DENIED) => return Err(anyhow::Error::from(error).context(RELOAD)),
            _ => return Err(error.into()),
        }
        if interrupt::requested() {
            return Err(Error::Cancelled.into());
        }
        if tries == LOCK_TRIES {
            let waited = "statements that run for long do not let writers be held for a moment";
            return Err(anyhow::Error::from(error)
                .context(waited)
                .context(Advice("run again when they have ended: see SHOW PROCESSLIST")));
        }
        tries += 1;
        thread::sleep(LOCK_PAUSE);
    }
    Ok(())
}

/// While nobody can commit; from then on they can.
fn locked(connection: &mut Connection) -> Result<Point, anyhow::Error> {
    connection.run(BEGIN)?;
    let status = status(connection)?;
    let prepared = prepared(connection)?;
    let point = point(connection, status, (Held::ReadLock, prepared))?;
    connection.run("UNLOCK TABLES; SET SESSION lock_wait_timeout = DEFAULT")?;
    Ok(point)
}

/// A MariaDB says itself at which place of its log a transaction began.
fn of_mariadb(connection: &mut Connection) -> Result<Point, anyhow::Error> {
    connection.run("SET SESSION max_statement_time = 0")?;
    let began = Instant::now();
    while began.elapsed() < UNLOCKED_ONLY && !interrupt::requested() {
        if let Some(point) = begun_of_mariadb(connection)? {
            return Ok(point);
        }
        connection.run("ROLLBACK")?;
    }
    if interrupt::requested() {
        return Err(Error::Cancelled.into());
    }
    let what = "the source commits transactions that were prepared (XA) without a pause, and their rows may be in its \
        log and not in its tables yet";
    Err(anyhow!(what).context(Advice("run again when there are fewer: see XA RECOVER")))
}

/// None where a transaction may have been prepared behind the first look at those that are, and committed in front of
/// the second: the rows of one that neither has seen are in the log, and if it was committed behind the start of ours,
/// not in the tables that it sees.
fn begun_of_mariadb(connection: &mut Connection) -> Result<Option<Point>, anyhow::Error> {
    let committed = commits_of_prepared(connection)?;
    let before = prepared(connection)?;
    connection.run(BEGIN)?;
    let status = status_of_mariadb(connection)?;
    let after = prepared(connection)?;
    let prepared = if before == Prepared::No { after } else { before };
    if prepared == Prepared::No && commits_of_prepared(connection)? != committed {
        return Ok(None);
    }
    Ok(Some(point(connection, status, (Held::Nothing, prepared))?))
}

/// How often somebody has begun to commit a transaction that was prepared, since the server started.
fn commits_of_prepared(connection: &mut Connection) -> Result<String, Error> {
    let rows = connection.rows("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")?;
    Ok(rows.first().map(|row| word(row.get(1))).unwrap_or_default())
}

fn status_of_mariadb(connection: &mut Connection) -> Result<Status, anyhow::Error> {
    let rows = connection.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")?;
    let said = |name: &str| {
        let row = rows.iter().find(|row| word(row.first()).eq_ignore_ascii_case(name));
        row.map(|row| word(row.get(1))).unwrap_or_default()
    };
    let log = said("binlog_snapshot_file");
    let position = said("binlog_snapshot_position");
    let position = position.parse().ok().filter(|_| !log.is_empty());
    let position = position.with_context(|| format!("the source writes no log: it says {rows:?}"))?;
    let gtids = connection.value(&format!("SELECT BINLOG_GTID_POS('{log}', {position})"))?;
    Ok(Status { log, position, gtids: gtids.unwrap_or_default() })
}

fn point(
    connection: &mut Connection,
    status: Status,
    (held, prepared): (Held, Prepared),
) -> Result<Point, Error> {
    let Status { log, position, gtids } = status;
    let taken = connection.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
    Ok(Point { log, position, gtids, taken_s: taken.parse().unwrap_or(0), held, prepared })
}

fn status(connection: &mut Connection) -> Result<Status, anyhow::Error> {
    let rows = match connection.rows("SHOW BINARY LOG STATUS") {
        Err(error) if error.code() == Some(SYNTAX_ERROR) => connection.rows("SHOW MASTER STATUS"),
        rows => rows,
    };
    let rows = match rows {
        Err(error) if error.code() == Some(ACCESS_DENIED) => {
            return Err(anyhow::Error::from(error).context(Advice("grant the account REPLICATION CLIENT")));
        }
        rows => rows?,
    };
    let row = rows.first().context("the source writes no log")?;
    let position = word(row.get(1));
    let position =
        position.parse().with_context(|| format!("the source says that its log ends at {position:?}"))?;
    let gtids = word(row.get(4)).replace(['\n', ' '], "");
    Ok(Status { log: word(row.first()), position, gtids })
}

fn prepared(connection: &mut Connection) -> Result<Prepared, Error> {
    match connection.rows("XA RECOVER") {
        Ok(rows) => Ok(if rows.is_empty() { Prepared::No } else { Prepared::Yes }),
        Err(error) if error.code().is_some() => Ok(Prepared::Unknown),
        Err(error) => Err(error),
    }
}
