//! MySQL and MariaDB as targets.
//!
//! Row changes go to MySQL as `BINLOG` statements: the server applies events of its own format itself, with exact
//! types. Where the server or the account does not allow that, they go as statements with parameters. Nothing is
//! written to the target's binary log if the account may set `sql_log_bin`.

mod as_sql;
mod binlog_text;
mod fingerprint;
mod fit;
mod heartbeat;
mod preflight;
mod session;
mod session_state;
mod sql;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use servers::quote::{put_table, unhex};
use servers::{Address, Connection, Facts, GTIDS_SINCE, GtidMode, Row, version_numbers};

use crate::definition::Definition;
use crate::error::{Error, Failure};
use crate::mysql::as_sql::CREATED;
use crate::mysql::fit::{Fit, TargetCollations};
use crate::mysql::heartbeat::{Heartbeat, lock};
use crate::mysql::preflight::is_before_8;
use crate::mysql::session::{MysqlSession, SessionParts, TableCreation};
use crate::mysql::sql::PROGRESS_TABLE;
use crate::progress::{Applied, Intent, Place, Progress};
use crate::target::{Session, Settled, Target};

pub use preflight::Look;

/// Time that the sessions of a stopped replay may take to end: the server first finishes what they were running.
const PATIENCE: Duration = Duration::from_secs(60);

/// A MySQL or MariaDB server that transactions are applied to. Holds a lock that keeps other replays away.
#[derive(Debug)]
pub struct MysqlTarget {
    address: Address,
    /// Declared before the connection that it uses, so that it is dropped first.
    _heartbeat: Heartbeat,
    control: Arc<Mutex<Connection>>,
    facts: Facts,
    sessions: AtomicU32,
    /// Connection ids of the sessions.
    connections: Mutex<Vec<u32>>,
    as_sql: Option<WhySql>,
    rights: Rights,
    /// True until the server refuses an addition to `gtid_purged`.
    may_purge: AtomicBool,
    /// Number of times that definitions may have changed.
    definitions: Arc<AtomicU64>,
    logging: Logging,
    collations: TargetCollations,
}

/// The form in which row changes are sent to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyAs {
    /// As events where the server and the account allow it, otherwise as statements.
    #[default]
    Auto,
    /// As their own events, in `BINLOG` statements.
    Binlog,
    /// As `INSERT`, `UPDATE` and `DELETE` statements with parameters.
    Sql,
}

/// The reason that row changes go as statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhySql {
    /// The caller asked for statements.
    Asked,
    /// The server is MariaDB.
    MariaDb,
    /// The account lacks the privilege to send events.
    Account,
}

/// Privileges of the account beyond those of ordinary accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    /// The account may set `sql_log_bin`.
    sql_log_bin: bool,
    /// The account may set `gtid_next`.
    gtid_next: bool,
}

/// Logging of applied transactions in the target's own binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logging {
    No,
    /// Under the source's GTIDs. The server records them in `gtid_executed`, so they also serve as progress.
    BySourceGtids,
}

/// Timeout for taking the lock: a server needs a moment to notice that a client is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Session settings. READ COMMITTED shows what other sessions commit.
const SESSION: &str = "SET @@session.autocommit = 1, @@session.wait_timeout = 31536000, \
    @@session.innodb_lock_wait_timeout = 5, @@session.net_read_timeout = 3600, @@session.net_write_timeout = 3600; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The first MySQL version with the state of its appliers in performance_schema.
const APPLIER_STATUS_SINCE: [u32; 3] = [5, 7, 2];

/// ER_SPECIFIC_ACCESS_DENIED_ERROR: the account lacks a privilege.
const ACCESS_DENIED: u16 = 1227;

impl MysqlTarget {
    /// Calls [`MysqlTarget::open_as`] with [`ApplyAs::Auto`].
    ///
    /// # Errors
    ///
    /// Same as [`MysqlTarget::open_as`].
    pub fn open(address: Address) -> Result<Self, Error> {
        Self::open_as(address, ApplyAs::Auto)
    }

    /// Connects, waits until the sessions of an earlier replay have ended, takes the lock, and creates the progress
    /// table if it is missing.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, another replay uses it, or it lacks something that a replay needs.
    pub fn open_as(address: Address, apply_as: ApplyAs) -> Result<Self, Error> {
        let mut control = Connection::open(&address).map_err(|error| Failure::from(error).at("connect"))?;
        let facts =
            Facts::of(&mut control).map_err(|error| Failure::from(error).at("read the server's settings"))?;
        facts.require(GTIDS_SINCE).map_err(|error| Error::Refused(error.to_string()))?;
        if facts.super_read_only {
            return Err(Error::Refused(
                "the target is super_read_only. Run SET GLOBAL super_read_only = 0".into(),
            ));
        }
        if is_replicating(&mut control, &facts)
            .map_err(|error| Failure::from(error).at("read the replication state"))?
        {
            return Err(Error::Refused(
                "the target is a replica whose applier is running. Run STOP REPLICA SQL_THREAD first".into(),
            ));
        }
        let rights = Rights::of(&mut control, &facts)
            .map_err(|error| Failure::from(error).at("check the account's privileges"))?;
        let as_sql = why_sql(apply_as, &facts, &mut control)?;
        let collations = TargetCollations::ask(&mut control, &facts)
            .map_err(|error| Failure::from(error).at("read the server's collations"))?;
        // Statements under way, of this replay or an earlier one, are waited for and reported even after Ctrl-C.
        control.ignore_cancel();
        let control = Arc::new(Mutex::new(control));
        let target = Self {
            address,
            _heartbeat: Heartbeat::of(&control),
            control,
            facts,
            sessions: AtomicU32::new(0),
            connections: Mutex::default(),
            logging: Logging::No,
            collations,
            as_sql,
            rights,
            may_purge: AtomicBool::new(true),
            definitions: Arc::new(AtomicU64::new(1)),
        };
        target.prepare().map_err(|failure| failure.at("prepare the target"))?;
        Ok(target)
    }

    /// Logs applied transactions in the target's binary log, each under its source GTID. Commits must then come in the
    /// source's order, one transaction at a time.
    ///
    /// # Errors
    ///
    /// The target has no binary log or no GTIDs, or the account may not set `gtid_next` and `sql_log_bin`.
    pub fn logging(mut self) -> Result<Self, Error> {
        if !self.facts.log_bin || !self.has_gtids() {
            return Err(Error::Refused(
                "cannot log under the source's GTIDs: the target needs log_bin and gtid_mode=ON".into(),
            ));
        }
        if !self.rights.gtid_next || !self.rights.sql_log_bin {
            return Err(Error::Refused(
                "cannot log under the source's GTIDs: the account needs REPLICATION_APPLIER and \
                 SYSTEM_VARIABLES_ADMIN"
                    .into(),
            ));
        }
        self.logging = Logging::BySourceGtids;
        Ok(self)
    }

    /// Returns the reason that row changes go as statements; `None` if they go as events.
    pub const fn as_sql(&self) -> Option<WhySql> {
        self.as_sql
    }

    /// Returns notes about unexpected behaviour, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let why = match self.as_sql {
            Some(WhySql::MariaDb) => "rows were applied as SQL statements: the target is MariaDB",
            Some(WhySql::Account) => {
                "rows were applied as SQL statements: the account has neither REPLICATION_APPLIER nor BINLOG_ADMIN"
            }
            Some(WhySql::Asked) | None => "",
        };
        let is_logged = self.facts.log_bin && !self.rights.sql_log_bin;
        let logged = match is_logged {
            true => "the target wrote all changes to its own binary log: the account may not set sql_log_bin",
            false => "",
        };
        let is_added_to = self.logging == Logging::BySourceGtids || !self.has_gtids();
        let gtids = match is_before_8(&self.facts.version) && !is_added_to {
            true => {
                "gtid_executed was not changed: MySQL before 8.0 cannot add to gtid_purged. The applied GTIDs are in \
                     bintide.progress"
            }
            false => "",
        };
        let lines = [why, logged, gtids].into_iter().filter(|line| !line.is_empty());
        lines.map(str::to_owned).chain(self.collations.remarks()).collect()
    }

    /// Saves the `server_id` of the server whose logs the progress refers to from now on.
    ///
    /// # Errors
    ///
    /// The server refuses the statement.
    pub fn set_source(&self, writer: u32) -> Result<(), Error> {
        let statement = format!("UPDATE {PROGRESS_TABLE} SET source = {writer} WHERE stream = 1");
        let result = self.control().and_then(|mut control| Ok(control.run(&statement)?));
        result.map_err(|failure| failure.at("save the source's server_id"))
    }

    /// Discards the progress: drops the database of the progress table.
    ///
    /// # Errors
    ///
    /// The server refuses the statement.
    pub fn forget(self) -> Result<(), Error> {
        let result = self.control().and_then(|mut control| Ok(control.run("DROP DATABASE `bintide`")?));
        result.map_err(|failure| failure.at("drop the progress table"))
    }

    /// Returns the connection ids of the sessions that apply transactions.
    pub fn connections(&self) -> Vec<u32> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the server's facts.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    fn prepare(&self) -> Result<(), Failure> {
        let mut control = self.control()?;
        control.run(SESSION)?;
        self.leave_log(&mut control)?;
        lock(&mut control, "bintide.replay", LOCK_PATIENCE)?;
        for statement in sql::PREPARE {
            control.run(statement)?;
        }
        control.run(&sql::new_stream(1))?;
        // Statements of an earlier replay's sessions must have ended before its progress is read.
        let earlier = control.value(&format!("SELECT sessions FROM {PROGRESS_TABLE} WHERE stream = 1"))?;
        for number in 0..earlier.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0) {
            let name = session_lock(number);
            lock(&mut control, &name, PATIENCE)?;
            control.run(&format!("DO RELEASE_LOCK('{name}')"))?;
        }
        control.run(&format!("UPDATE {PROGRESS_TABLE} SET sessions = 0 WHERE stream = 1"))?;
        let united = read_progress(&mut control)?.unwrap_or_default().progress;
        control.run(&sql::unite(&united))?;
        Ok(())
    }

    fn control(&self) -> Result<MutexGuard<'_, Connection>, Failure> {
        self.control.lock().map_err(|_| Failure::refused("the control connection is lost"))
    }

    /// Keeps a session's changes out of the binary log, if the account may do that.
    fn leave_log(&self, connection: &mut Connection) -> Result<(), servers::Error> {
        match self.facts.log_bin && self.rights.sql_log_bin {
            true => connection.run("SET @@session.sql_log_bin = 0"),
            false => Ok(()),
        }
    }

    fn creations(&self) -> TableCreation {
        const ATOMIC_SINCE: [u32; 3] = [8, 0, 21];
        let is_old = version_numbers(&self.facts.version).is_some_and(|version| version < ATOMIC_SINCE);
        match self.facts.is_mariadb || is_old {
            true => TableCreation::InParts,
            false => TableCreation::Atomic,
        }
    }

    /// Returns true if the target has GTIDs.
    fn has_gtids(&self) -> bool {
        !self.facts.is_mariadb && self.facts.gtid_mode == GtidMode::On
    }

    /// Returns true if we may add to the target's `gtid_purged`. MySQL before 8.0 allows no addition. After a crash its
    /// `gtid_executed` may also lack what it ran, because its definitions are not atomic.
    fn keeps_gtids(&self) -> bool {
        self.has_gtids() && !is_before_8(&self.facts.version) && self.may_purge.load(Ordering::SeqCst)
    }
}

impl Target for MysqlTarget {
    fn applied(&self) -> Result<Applied, Failure> {
        let mut control = self.control()?;
        let mut applied = read_progress(&mut control)?.unwrap_or_default();
        applied.executed = executed(&mut control, self.facts.is_mariadb)?;
        Ok(applied)
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        let mut connection = Connection::open(&self.address)?;
        connection.run(SESSION)?;
        self.leave_log(&mut connection)?;
        no_generated_keys(&mut connection)?;
        let number = self.sessions.fetch_add(1, Ordering::SeqCst);
        lock(&mut connection, &session_lock(number), PATIENCE)?;
        connection.ignore_cancel();
        connection.set_packet_max(self.facts.packet_max);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection.id());
        connection.run(&format!(
            "UPDATE {PROGRESS_TABLE} SET sessions = GREATEST(sessions, {}) WHERE stream = 1",
            number + 1
        ))?;
        if self.logging == Logging::BySourceGtids {
            connection.run("SET @@session.sql_log_bin = 1")?;
        }
        let names_gtids = self.keeps_gtids() && !self.facts.log_bin && self.rights.gtid_next;
        let fit = Fit::new(&mut connection, &self.facts, &self.collations)?;
        Ok(Box::new(MysqlSession::new(SessionParts {
            connection,
            packet_max: self.facts.packet_max,
            names_gtids,
            as_sql: self.as_sql.is_some(),
            creations: self.creations(),
            fit,
            logging: self.logging,
            definitions: Arc::clone(&self.definitions),
        })))
    }

    fn definition(&self, database: &[u8], name: &[u8]) -> Result<Option<Definition>, Failure> {
        table::definition(&mut *self.control()?, database, name)
    }

    fn settle(&self, intent: &Intent) -> Result<Settled, Failure> {
        let mut control = self.control()?;
        let now = fingerprint::take(&mut control, &intent.databases)?;
        if let Some(created) = intent.before.strip_prefix(CREATED) {
            return settle_created(&mut control, created, &now);
        }
        Ok(match intent.before.as_str() {
            // A statement that ran would have put its GTID into `gtid_executed`.
            fingerprint::BY_GTID => Settled::NotDone,
            before if before == now => Settled::NotDone,
            _ => Settled::Done,
        })
    }

    fn save(&self, progress: &Progress) -> Result<(), Failure> {
        let mut text = String::new();
        sql::put_progress(&mut text, progress, 1);
        Ok(self.control()?.run(&text)?)
    }

    fn checkpoint(&self, progress: &Progress) -> Result<Applied, Failure> {
        let mut control = self.control()?;
        let mut executed_now = executed(&mut control, self.facts.is_mariadb)?;
        let missing = progress.gtids.difference(&executed_now);
        if self.keeps_gtids() && !missing.is_empty() {
            match control.run(&format!("SET GLOBAL gtid_purged = '+{missing}'")) {
                Ok(()) => executed_now.add_all(&missing),
                // The progress table then keeps all GTIDs.
                Err(error) if error.code() == Some(ACCESS_DENIED) => {
                    self.may_purge.store(false, Ordering::SeqCst);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Applied { progress: progress.clone(), executed: executed_now, intent: None })
    }
}

/// Settles a table that was created for rows which were not committed with it: drops it if it exists.
fn settle_created(control: &mut Connection, created: &str, now: &str) -> Result<Settled, Failure> {
    let odd = || Failure::refused("bintide.progress holds an intent that cannot be read");
    let mut words = created.split(' ');
    let mut name = || words.next().and_then(unhex).ok_or_else(odd);
    let (database, table) = (name()?, name()?);
    if words.next() != Some(now) {
        let mut sql = b"DROP TABLE IF EXISTS ".to_vec();
        put_table(&mut sql, &database, &table);
        control.run_bytes(&sql)?;
    }
    Ok(Settled::NotDone)
}

/// Returns the reason that row changes must go as statements, if they must.
fn why_sql(apply_as: ApplyAs, facts: &Facts, control: &mut Connection) -> Result<Option<WhySql>, Error> {
    match apply_as {
        ApplyAs::Sql => return Ok(Some(WhySql::Asked)),
        ApplyAs::Auto if facts.is_mariadb => return Ok(Some(WhySql::MariaDb)),
        ApplyAs::Binlog if facts.is_mariadb => {
            return Err(Error::Refused(
                "the target is MariaDB, which does not accept MySQL's row events. Use --apply-as sql".into(),
            ));
        }
        ApplyAs::Auto | ApplyAs::Binlog => {}
    }
    // An empty event applies nothing. The server answers with an error in any case; only its code matters.
    let may = is_allowed(control, "BINLOG ''")
        .map_err(|error| Failure::from(error).at("check the account's privileges"))?;
    match (may, apply_as) {
        (true, _) => Ok(None),
        (false, ApplyAs::Auto) => Ok(Some(WhySql::Account)),
        (false, _) => Err(Error::Refused(
            "the account may not send row events. GRANT it REPLICATION_APPLIER (or BINLOG_ADMIN), or use --apply-as sql"
                .into(),
        )),
    }
}

impl Rights {
    fn of(control: &mut Connection, facts: &Facts) -> Result<Self, servers::Error> {
        let sql_log_bin = is_allowed(control, "SET @@session.sql_log_bin = 1")?;
        let gtid_next = !facts.is_mariadb && is_allowed(control, "SET @@session.gtid_next = 'AUTOMATIC'")?;
        Ok(Self { sql_log_bin, gtid_next })
    }
}

/// Returns true unless the server denies the statement for lack of a privilege. Other errors count as allowed.
fn is_allowed(control: &mut Connection, sql: &str) -> Result<bool, servers::Error> {
    match control.run(sql) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(ACCESS_DENIED) => Ok(false),
        Err(servers::Error::Refused { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Stops the session from generating invisible primary keys: where the source generated them, its log names them. Only
/// servers since 8.0.30 have the variable, and not every account may set it.
fn no_generated_keys(connection: &mut Connection) -> Result<(), servers::Error> {
    match connection.value("SELECT @@session.sql_generate_invisible_primary_key") {
        Ok(Some(on)) if on != "0" => connection.run("SET @@session.sql_generate_invisible_primary_key = 0"),
        Ok(_) | Err(servers::Error::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if the server's own replication applier is running.
fn is_replicating(control: &mut Connection, facts: &Facts) -> Result<bool, servers::Error> {
    let question = match facts.is_mariadb {
        true => {
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Slaves_running'"
        }
        false if facts.is_older_than(APPLIER_STATUS_SINCE) => {
            "SELECT COUNT(*) FROM information_schema.global_status
             WHERE variable_name = 'Slave_running' AND variable_value = 'ON'"
        }
        false => {
            "SELECT COUNT(*) FROM performance_schema.replication_applier_status WHERE service_state = 'ON'"
        }
    };
    match control.value(question) {
        Ok(count) => Ok(count.is_some_and(|count| count != "0")),
        // The account may not read the state.
        Err(servers::Error::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the name of the lock that a session holds as long as the server knows the session.
fn session_lock(number: u32) -> String {
    format!("bintide.replay.{number}")
}

fn executed(connection: &mut Connection, is_mariadb: bool) -> Result<GtidSet, Failure> {
    if is_mariadb {
        return Ok(GtidSet::new());
    }
    let text = connection.value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
    set(&text)
}

/// Reads the progress table; `None` if there is none.
fn read_progress(connection: &mut Connection) -> Result<Option<Applied>, Failure> {
    const NO_SUCH_TABLE: u16 = 1146;
    const UNKNOWN_DATABASE: u16 = 1049;
    const TABLE_DENIED: u16 = 1142;
    const DATABASE_DENIED: u16 = 1044;
    let question = format!(
        "SELECT gtids, HEX(log), position, beyond, intent, commits FROM {PROGRESS_TABLE} ORDER BY stream"
    );
    match connection.rows(&question) {
        Ok(rows) => saved(rows).map(Some),
        Err(error) if matches!(error.code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE)) => Ok(None),
        // The account may not see the table, so it may not exist.
        Err(error) if matches!(error.code(), Some(TABLE_DENIED | DATABASE_DENIED)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Unites all rows of the progress table. Rows after the first hold GTIDs only.
fn saved(rows: Vec<Row>) -> Result<Applied, Failure> {
    let mut rows = rows.into_iter().map(applied);
    let mut all = rows.next().transpose()?.unwrap_or_default();
    for row in rows {
        all.progress.gtids.add_all(&row?.progress.gtids);
    }
    Ok(all)
}

/// Reads the `server_id` of the server whose logs the progress refers to.
fn read_source(connection: &mut Connection) -> Result<Option<u32>, Failure> {
    let source = connection.value(&format!("SELECT source FROM {PROGRESS_TABLE} WHERE stream = 1"))?;
    Ok(source.and_then(|number| number.parse().ok()))
}

/// Decodes one row of the progress table.
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
    let intent = next().as_deref().and_then(sql::read_intent);
    let commits = next().and_then(|count| count.parse().ok());
    let beyond = beyond.collect::<Result<_, _>>()?;
    let progress = Progress { gtids, place: reached, beyond, commits };
    Ok(Applied { progress, executed: GtidSet::new(), intent })
}

fn place(log: &str, position: &str) -> Result<Place, Failure> {
    let odd = || Failure::refused(format!("bintide.progress holds an invalid position: {log} {position}"));
    let log = unhex(log).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(odd)?;
    Ok(Place { log, position: position.parse().map_err(|_| odd())? })
}

fn set(text: &str) -> Result<GtidSet, Failure> {
    text.parse().map_err(|_| Failure::refused(format!("invalid GTID set: {text}")))
}
