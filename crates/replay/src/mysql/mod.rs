//! MySQL and MariaDB as targets.
//!
//! Row changes go to MySQL as `BINLOG` statements: the server applies the events of its own format itself, every type
//! exactly. Where it does not take them, or does not from this account, they go as statements with parameters. Nothing
//! is written to its binary log, if the account may switch that off.

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

/// How long the sessions of a replay that was stopped may take to go away: the server first ends what they were
/// running.
const PATIENCE: Duration = Duration::from_secs(60);

/// A MySQL or MariaDB server to apply transactions to, and the lock that keeps other replays away from it.
#[derive(Debug)]
pub struct MysqlTarget {
    address: Address,
    /// In front of what it uses: it must end first.
    _heartbeat: Heartbeat,
    control: Arc<Mutex<Connection>>,
    facts: Facts,
    sessions: AtomicU32,
    /// The server's numbers for the sessions' connections.
    connections: Mutex<Vec<u32>>,
    as_sql: Option<WhySql>,
    rights: Rights,
    /// May the account add to what the target counts as executed? Unknown until it is tried.
    may_purge: AtomicBool,
    /// How often definitions may have changed.
    definitions: Arc<AtomicU64>,
    logging: Logging,
    collations: TargetCollations,
}

/// How row changes are made on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyAs {
    /// As events where the server and the account allow it, else as statements.
    #[default]
    Auto,
    /// As the events that they are, in `BINLOG` statements.
    Binlog,
    /// As `INSERT`, `UPDATE` and `DELETE` statements with parameters.
    Sql,
}

/// Why row changes go as statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhySql {
    /// That was asked for.
    Asked,
    /// The server is a MariaDB.
    MariaDb,
    /// The account may not send events.
    Account,
}

/// What the account may do that not every account may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    /// Say whether the session writes to the binary log.
    sql_log_bin: bool,
    /// Say under which GTID a transaction runs.
    gtid_next: bool,
}

/// Is what is applied written to the target's own binary log?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logging {
    No,
    /// Under the source's GTIDs, which are progress enough: the server keeps account of them.
    BySourceGtids,
}

/// How long to wait for the lock: a server takes a moment to see that a client is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How a session is set up: it sees what others commit.
const SESSION: &str = "SET @@session.autocommit = 1, @@session.wait_timeout = 31536000, \
    @@session.innodb_lock_wait_timeout = 5, @@session.net_read_timeout = 3600, @@session.net_write_timeout = 3600; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The first MySQL that tells its appliers in performance_schema.
const APPLIER_STATUS_SINCE: [u32; 3] = [5, 7, 2];

/// The account lacks a right.
const ACCESS_DENIED: u16 = 1227;

impl MysqlTarget {
    /// As [`MysqlTarget::open_as`], with [`ApplyAs::Auto`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn open(address: Address) -> Result<Self, Error> {
        Self::open_as(address, ApplyAs::Auto)
    }

    /// Connects, waits for the sessions of an earlier replay to go away, takes the lock, and makes the progress table
    /// where there is none.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, another replay uses it, or it lacks what a replay needs.
    pub fn open_as(address: Address, apply_as: ApplyAs) -> Result<Self, Error> {
        let mut control = Connection::open(&address).map_err(|error| Failure::from(error).at("connect"))?;
        let facts =
            Facts::of(&mut control).map_err(|error| Failure::from(error).at("ask what the server is"))?;
        facts.require(GTIDS_SINCE).map_err(|error| Error::Refused(error.to_string()))?;
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
        let rights =
            Rights::of(&mut control, &facts).map_err(|error| Failure::from(error).at("ask for rights"))?;
        let as_sql = why_sql(apply_as, &facts, &mut control)?;
        let collations = TargetCollations::ask(&mut control, &facts)
            .map_err(|error| Failure::from(error).at("ask which collations the server has"))?;
        // What an earlier replay or this one has under way is waited for and reported also after Ctrl-C.
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

    /// Has what is applied written to the target's binary log, each transaction under its GTID of the source. Commits
    /// must come in the source's order, each transaction by itself.
    ///
    /// # Errors
    ///
    /// When the target has no binary log, or no GTIDs, or when the account may not say under which GTID a
    /// transaction runs.
    pub fn logging(mut self) -> Result<Self, Error> {
        if !self.facts.log_bin || !self.has_gtids() {
            return Err(Error::Refused(
                "what is applied cannot be logged under the source's GTIDs: the target needs log_bin and \
                 gtid_mode=ON"
                    .into(),
            ));
        }
        if !self.rights.gtid_next || !self.rights.sql_log_bin {
            return Err(Error::Refused(
                "what is applied cannot be logged under the source's GTIDs: the account needs \
                 REPLICATION_APPLIER and SYSTEM_VARIABLES_ADMIN"
                    .into(),
            ));
        }
        self.logging = Logging::BySourceGtids;
        Ok(self)
    }

    /// Why row changes go as statements; `None` if they go as events.
    pub const fn as_sql(&self) -> Option<WhySql> {
        self.as_sql
    }

    /// What is done otherwise than one may expect: a line each.
    pub fn remarks(&self) -> Vec<String> {
        let why = match self.as_sql {
            Some(WhySql::MariaDb) => "rows were applied as SQL statements: the target is a MariaDB",
            Some(WhySql::Account) => {
                "rows were applied as SQL statements: the account has neither REPLICATION_APPLIER nor BINLOG_ADMIN"
            }
            Some(WhySql::Asked) | None => "",
        };
        let is_logged = self.facts.log_bin && !self.rights.sql_log_bin;
        let logged = match is_logged {
            true => "the target wrote it all to its own binary log: the account may not set sql_log_bin",
            false => "",
        };
        let is_added_to = self.logging == Logging::BySourceGtids || !self.has_gtids();
        let gtids = match is_before_8(&self.facts.version) && !is_added_to {
            true => {
                "gtid_executed was left as it is, because MySQL before 8.0 cannot add to gtid_purged: the applied \
                     GTIDs are in bintide.progress"
            }
            false => "",
        };
        let lines = [why, logged, gtids].into_iter().filter(|line| !line.is_empty());
        lines.map(str::to_owned).chain(self.collations.remarks()).collect()
    }

    /// From here on, progress is in the logs that the server with this `server_id` wrote.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn set_source(&self, writer: u32) -> Result<(), Error> {
        let statement = format!("UPDATE {PROGRESS_TABLE} SET source = {writer} WHERE stream = 1");
        let result = self.control().and_then(|mut control| Ok(control.run(&statement)?));
        result.map_err(|failure| failure.at("save whose logs they are"))
    }

    /// Forgets how far the target has come: drops the progress table.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn forget(self) -> Result<(), Error> {
        let result = self.control().and_then(|mut control| Ok(control.run("DROP DATABASE `bintide`")?));
        result.map_err(|failure| failure.at("drop the progress table"))
    }

    /// The sessions in which transactions are applied, by the server's numbers for their connections.
    pub fn connections(&self) -> Vec<u32> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the server is.
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
        // What the sessions of an earlier replay left under way must be over before its progress is read.
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
        self.control.lock().map_err(|_| Failure::refused("the control session is lost"))
    }

    /// Keeps a session's changes out of the binary log.
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

    /// Tells whether the target has GTIDs.
    fn has_gtids(&self) -> bool {
        !self.facts.is_mariadb && self.facts.gtid_mode == GtidMode::On
    }

    /// Tells whether the target keeps an account of GTIDs that we may add to. MySQL before 8.0 takes no addition to `gtid_purged`,
    /// and what it ran is not sure to be in `gtid_executed` after a crash, as its definitions are not atomic.
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
            // The server would have counted its GTID as executed, had it been run.
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
                // The progress table keeps them all, then.
                Err(error) if error.code() == Some(ACCESS_DENIED) => {
                    self.may_purge.store(false, Ordering::SeqCst);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Applied { progress: progress.clone(), executed: executed_now, intent: None })
    }
}

/// A table was made for rows behind it, and they were not committed with it: it goes, if it is there.
fn settle_created(control: &mut Connection, created: &str, now: &str) -> Result<Settled, Failure> {
    let odd = || Failure::refused("the progress table holds an intent that nobody understands");
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

/// Are row changes to be made by statements, and why?
fn why_sql(apply_as: ApplyAs, facts: &Facts, control: &mut Connection) -> Result<Option<WhySql>, Error> {
    match apply_as {
        ApplyAs::Sql => return Ok(Some(WhySql::Asked)),
        ApplyAs::Auto if facts.is_mariadb => return Ok(Some(WhySql::MariaDb)),
        ApplyAs::Binlog if facts.is_mariadb => {
            return Err(Error::Refused(
                "the target is a MariaDB, which does not take MySQL's row events: apply as sql".into(),
            ));
        }
        ApplyAs::Auto | ApplyAs::Binlog => {}
    }
    // Nothing to apply, and an error either way.
    let may = is_allowed(control, "BINLOG ''").map_err(|error| Failure::from(error).at("ask for rights"))?;
    match (may, apply_as) {
        (true, _) => Ok(None),
        (false, ApplyAs::Auto) => Ok(Some(WhySql::Account)),
        (false, _) => Err(Error::Refused(
            "the account may not send row events: GRANT REPLICATION_APPLIER (or BINLOG_ADMIN) to it, or apply as sql"
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

/// May the account do this? Whatever else is wrong with it.
fn is_allowed(control: &mut Connection, sql: &str) -> Result<bool, servers::Error> {
    match control.run(sql) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(ACCESS_DENIED) => Ok(false),
        Err(servers::Error::Refused { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Keeps the session from making up primary keys: the source has named such columns in what it logged, where it made
/// them. Not every account may say so, and only servers since 8.0.30 do it.
fn no_generated_keys(connection: &mut Connection) -> Result<(), servers::Error> {
    match connection.value("SELECT @@session.sql_generate_invisible_primary_key") {
        Ok(Some(on)) if on != "0" => connection.run("SET @@session.sql_generate_invisible_primary_key = 0"),
        Ok(_) | Err(servers::Error::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Does the server's own applier run?
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
        // The account may not know.
        Err(servers::Error::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The name of the lock that a session holds as long as the server knows it.
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

/// What the progress table says; `None` where there is none.
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
        // Whoever may not know whether it is there.
        Err(error) if matches!(error.code(), Some(TABLE_DENIED | DATABASE_DENIED)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What all rows of the progress table say together: only GTIDs are in others than the first.
fn saved(rows: Vec<Row>) -> Result<Applied, Failure> {
    let mut rows = rows.into_iter().map(applied);
    let mut all = rows.next().transpose()?.unwrap_or_default();
    for row in rows {
        all.progress.gtids.add_all(&row?.progress.gtids);
    }
    Ok(all)
}

/// Whose logs the progress table is about.
fn read_source(connection: &mut Connection) -> Result<Option<u32>, Failure> {
    let source = connection.value(&format!("SELECT source FROM {PROGRESS_TABLE} WHERE stream = 1"))?;
    Ok(source.and_then(|number| number.parse().ok()))
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
    let intent = next().as_deref().and_then(sql::read_intent);
    let commits = next().and_then(|count| count.parse().ok());
    let beyond = beyond.collect::<Result<_, _>>()?;
    let progress = Progress { gtids, place: reached, beyond, commits };
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
