//! MySQL as a target.
//!
//! Row changes go there as `BINLOG` statements: the server applies the events of its own format itself, every type
//! exactly. Nothing is written to its binary log.

mod binlog_text;
mod fingerprint;
mod session;
mod sql;
mod table;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use binlog::gtid::GtidSet;
use servers::{Address, Connection, Facts, GtidMode, Row};

use crate::definition::Definition;
use crate::error::{Error, Failure};
use crate::mysql::session::MysqlSession;
use crate::mysql::sql::{PROGRESS_TABLE, unhex};
use crate::progress::{Applied, Intent, Place, Progress};
use crate::target::{Session, Settled, Target};

/// How long the sessions of a replay that was stopped may take to go away, in seconds: the server first ends what
/// they were running.
const PATIENCE_S: u32 = 60;

/// A MySQL server to apply transactions to, and the lock that keeps other replays away from it.
#[derive(Debug)]
pub struct MysqlTarget {
    address: Address,
    control: Mutex<Connection>,
    facts: Facts,
    sessions: AtomicU32,
    logging: Logging,
}

/// Is what is applied written to the target's own binary log?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logging {
    No,
    /// Under the source's GTIDs, which are progress enough: the server keeps account of them.
    BySourceGtids,
}

/// How long to wait for the lock, in seconds: a server takes a moment to see that a client is gone.
const LOCK_PATIENCE_S: u32 = 5;

/// How a session is set up: it writes to no binary log and sees what others commit.
const SESSION: &str = "SET @@session.sql_log_bin = 0, @@session.autocommit = 1, \
    @@session.transaction_isolation = 'READ-COMMITTED', @@session.wait_timeout = 31536000, \
    @@session.innodb_lock_wait_timeout = 5, @@session.net_read_timeout = 3600, @@session.net_write_timeout = 3600";

impl MysqlTarget {
    /// Connects, waits for the sessions of an earlier replay to go away, takes the lock, and makes the progress table
    /// where there is none.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, another replay uses it, or it lacks what a replay needs.
    pub fn open(address: Address) -> Result<Self, Error> {
        let mut control = Connection::open(&address).map_err(|error| Failure::from(error).at("connect"))?;
        let facts =
            Facts::of(&mut control).map_err(|error| Failure::from(error).at("ask what the server is"))?;
        if facts.is_mariadb {
            return Err(Error::Refused(
                "the target is a MariaDB, which cannot take MySQL's row events".into(),
            ));
        }
        if facts.super_read_only {
            return Err(Error::Refused(
                "the target is super_read_only: SET GLOBAL super_read_only = 0".into(),
            ));
        }
        if is_replicating(&mut control, &facts)
            .map_err(|error| Failure::from(error).at("ask for replication"))?
        {
            return Err(Error::Refused(
                "the target applies changes of a source of its own: STOP REPLICA SQL_THREAD first".into(),
            ));
        }
        let (control, sessions, logging) = (Mutex::new(control), AtomicU32::new(0), Logging::No);
        let target = Self { address, control, facts, sessions, logging };
        target.prepare().map_err(|failure| failure.at("prepare the target"))?;
        Ok(target)
    }

    /// Has what is applied written to the target's binary log, each transaction under its GTID of the source. Commits
    /// must come in the source's order, each transaction by itself.
    ///
    /// # Errors
    ///
    /// When the target has no binary log, or no GTIDs.
    pub fn logging(mut self) -> Result<Self, Error> {
        if !self.facts.log_bin || !self.keeps_gtids() {
            return Err(Error::Refused(
                "what is applied cannot be logged under the source's GTIDs: the target needs log_bin and \
                 gtid_mode=ON"
                    .into(),
            ));
        }
        self.logging = Logging::BySourceGtids;
        Ok(self)
    }

    /// What the server is.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    fn prepare(&self) -> Result<(), Failure> {
        let mut control = self.control()?;
        control.run(SESSION)?;
        lock(&mut control, "bintide.replay", LOCK_PATIENCE_S)?;
        for statement in sql::PREPARE {
            control.run(statement)?;
        }
        // What the sessions of an earlier replay left under way must be over before its progress is read.
        let earlier = control.value(&format!("SELECT sessions FROM {PROGRESS_TABLE} WHERE stream = 1"))?;
        for number in 0..earlier.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0) {
            let name = session_lock(number);
            lock(&mut control, &name, PATIENCE_S)?;
            control.run(&format!("DO RELEASE_LOCK('{name}')"))?;
        }
        control.run(&format!("UPDATE {PROGRESS_TABLE} SET sessions = 0 WHERE stream = 1"))?;
        let united = saved(&mut control)?.progress;
        control.run(&sql::unite(&united))?;
        Ok(())
    }

    fn control(&self) -> Result<MutexGuard<'_, Connection>, Failure> {
        self.control.lock().map_err(|_| Failure::refused("the control session is lost"))
    }

    /// Does the target keep an account of GTIDs that we may add to?
    fn keeps_gtids(&self) -> bool {
        !self.facts.is_mariadb && self.facts.gtid_mode == GtidMode::On
    }
}

impl Target for MysqlTarget {
    fn applied(&self) -> Result<Applied, Failure> {
        let mut control = self.control()?;
        let mut applied = saved(&mut control)?;
        applied.executed = executed(&mut control, self.facts.is_mariadb)?;
        Ok(applied)
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        let mut connection = Connection::open(&self.address)?;
        connection.run(SESSION)?;
        if !self.facts.is_mariadb {
            // The source has named such columns in what it logged, where it made them.
            connection.run("SET @@session.sql_generate_invisible_primary_key = 0")?;
        }
        let number = self.sessions.fetch_add(1, Ordering::SeqCst);
        lock(&mut connection, &session_lock(number), PATIENCE_S)?;
        connection.run(&format!(
            "UPDATE {PROGRESS_TABLE} SET sessions = GREATEST(sessions, {}) WHERE stream = 1",
            number + 1
        ))?;
        if self.logging == Logging::BySourceGtids {
            connection.run("SET @@session.sql_log_bin = 1")?;
        }
        let names_gtids = self.keeps_gtids() && !self.facts.log_bin;
        Ok(Box::new(MysqlSession::new(connection, self.facts.packet_max, names_gtids, self.logging)))
    }

    fn definition(&self, database: &[u8], name: &[u8]) -> Result<Option<Definition>, Failure> {
        table::definition(&mut *self.control()?, database, name)
    }

    fn settle(&self, intent: &Intent) -> Result<Settled, Failure> {
        let now = fingerprint::take(&mut *self.control()?, &intent.databases)?;
        Ok(match intent.before.as_str() {
            // The server would have counted its GTID as executed, had it been run.
            fingerprint::BY_GTID => Settled::NotDone,
            before if before == now => Settled::NotDone,
            _ => Settled::Done,
        })
    }

    fn checkpoint(&self, progress: &Progress) -> Result<Applied, Failure> {
        let mut control = self.control()?;
        let mut executed_now = executed(&mut control, self.facts.is_mariadb)?;
        let missing = progress.gtids.difference(&executed_now);
        if self.keeps_gtids() && !missing.is_empty() {
            control.run(&format!("SET GLOBAL gtid_purged = '+{missing}'"))?;
            executed_now.add_all(&missing);
        }
        Ok(Applied { progress: progress.clone(), executed: executed_now, intent: None })
    }
}

/// Does the server's own applier run?
fn is_replicating(control: &mut Connection, facts: &Facts) -> Result<bool, servers::Error> {
    if facts.is_mariadb {
        return Ok(false);
    }
    let question =
        "SELECT COUNT(*) FROM performance_schema.replication_applier_status WHERE service_state = 'ON'";
    Ok(control.value(question)?.is_some_and(|count| count != "0"))
}

/// The name of the lock that a session holds as long as the server knows it.
fn session_lock(number: u32) -> String {
    format!("bintide.replay.{number}")
}

fn lock(connection: &mut Connection, name: &str, patience_s: u32) -> Result<(), Failure> {
    let got = connection.value(&format!("SELECT GET_LOCK('{name}', {patience_s})"))?;
    if got.as_deref() == Some("1") {
        return Ok(());
    }
    let owner = connection.value(&format!("SELECT IS_USED_LOCK('{name}')"))?.unwrap_or_default();
    Err(Failure::refused(format!(
        "another replay uses this target: the server's connection {owner} holds the lock {name}"
    )))
}

fn executed(connection: &mut Connection, is_mariadb: bool) -> Result<GtidSet, Failure> {
    if is_mariadb {
        return Ok(GtidSet::new());
    }
    let text = connection.value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
    set(&text)
}

/// What all rows of the progress table say together: only GTIDs are in others than the first.
fn saved(connection: &mut Connection) -> Result<Applied, Failure> {
    let question =
        format!("SELECT gtids, HEX(log), position, beyond, intent FROM {PROGRESS_TABLE} ORDER BY stream");
    let mut rows = connection.rows(&question)?.into_iter().map(applied);
    let mut all = rows.next().transpose()?.unwrap_or_default();
    for row in rows {
        all.progress.gtids.add_all(&row?.progress.gtids);
    }
    Ok(all)
}

/// The columns of the progress table.
fn applied(row: Row) -> Result<Applied, Failure> {
    let mut columns =
        row.into_iter().map(|value| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    let mut next = || columns.next().flatten();
    let gtids = set(&next().unwrap_or_default())?;
    let reached = match (next(), next()) {
        (Some(log), Some(position)) => Some(place(&log, &position)?),
        _ => None,
    };
    let beyond = next().unwrap_or_default();
    let beyond = beyond.lines().filter_map(|line| line.split_once(' ')).map(|(log, at)| place(log, at));
    let progress = Progress { gtids, place: reached, beyond: beyond.collect::<Result<_, _>>()? };
    let intent = next().as_deref().and_then(sql::read_intent);
    Ok(Applied { progress, executed: GtidSet::new(), intent })
}

fn place(log: &str, position: &str) -> Result<Place, Failure> {
    let odd = || Failure::refused(format!("the progress table holds {log} {position}, which is no place"));
    let log = unhex(log).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(odd)?;
    Ok(Place { log, position: position.parse().map_err(|_| odd())? })
}

fn set(text: &str) -> Result<GtidSet, Failure> {
    text.parse().map_err(|_| Failure::refused(format!("{text} is no set of GTIDs")))
}
