//! A MySQL or MariaDB server as a target.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use binlog::server_error::SPECIFIC_ACCESS_DENIED_ERROR;
use replay::{
    AppliedState, IntentOutcome, ReplayError, ReplayProgress, ReplayTarget, StatementIntent, TargetFailure,
    TargetSession, TargetTableDefinition,
};
use servers::{GTIDS_SINCE, GtidMode, ServerAddress, ServerFacts, SqlConnection};
use sql::quote::{parse_hex, put_table};

use crate::apply_as::{ApplyAs, SqlApplyReason};
use crate::context_adapter::{ContextAdapter, TargetCollations};
use crate::fingerprint;
use crate::lock_heartbeat::{LockHeartbeat, acquire_lock};
use crate::mysql_session::{MysqlSession, RowTransactionStart, SessionParts, TableCreation};
use crate::progress_rows::{parse_gtid_set, read_progress};
use crate::progress_sql::{self, PROGRESS_TABLE, SavedIntent};
use crate::row_statements::CREATED_PREFIX;
use crate::server_failure::{LOG_IN, server_failure};
use crate::table_definition;
use crate::target_logging::TargetLogging;
use crate::versions::{APPLIER_STATUS_SINCE, MYSQL_8};

/// Maximum wait for the sessions of a stopped replay to end: the server first completes their statements.
const SESSION_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// A MySQL or MariaDB server as the target of transactions. Holds a lock that excludes other replays.
#[derive(Debug)]
pub struct MysqlTarget {
    address: ServerAddress,
    /// Declared before the connection: the heartbeat uses the connection, and must be dropped first.
    _heartbeat: LockHeartbeat,
    control: Arc<Mutex<SqlConnection>>,
    facts: ServerFacts,
    session_count: AtomicU32,
    /// Connection ids of the sessions.
    connection_ids: Mutex<Vec<u32>>,
    sql_apply_reason: Option<SqlApplyReason>,
    privileges: SessionPrivileges,
    /// True until the server refuses an addition to `gtid_purged`.
    may_set_gtid_purged: AtomicBool,
    /// Number of possible changes of definitions.
    definition_version: Arc<AtomicU64>,
    logging: TargetLogging,
    collations: TargetCollations,
}

/// Special privileges of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SessionPrivileges {
    /// The account may set `sql_log_bin`.
    sql_log_bin: bool,
    /// The account may set `gtid_next`.
    gtid_next: bool,
}

/// Lock of the replay that uses the target.
const TARGET_LOCK: &str = "bintide.replay";
/// Timeout for taking the lock: a server needs a moment to notice that a client has disconnected.
const TARGET_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Session settings. READ COMMITTED shows changes that other sessions commit.
const SESSION_SETUP: &str = "SET @@session.autocommit = 1, @@session.wait_timeout = 31536000, \
    @@session.innodb_lock_wait_timeout = 5, @@session.net_read_timeout = 3600, @@session.net_write_timeout = 3600; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

impl MysqlTarget {
    /// Calls [`MysqlTarget::open_as`] with [`ApplyAs::Auto`].
    ///
    /// # Errors
    ///
    /// Fails if [`MysqlTarget::open_as`] fails.
    pub fn open(address: ServerAddress) -> Result<Self, ReplayError> {
        Self::open_as(address, ApplyAs::Auto)
    }

    /// Connects, waits until the sessions of an earlier replay have ended, takes the lock, and creates the progress
    /// table if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, another replay uses the server, or the server lacks something that a
    /// replay needs.
    pub fn open_as(address: ServerAddress, apply_as: ApplyAs) -> Result<Self, ReplayError> {
        let mut control =
            SqlConnection::open(&address).map_err(|error| server_failure(error).into_error(LOG_IN))?;
        let facts = ServerFacts::query(&mut control)
            .map_err(|error| server_failure(error).into_error("read the server's settings"))?;
        facts.require_version(GTIDS_SINCE).map_err(|error| ReplayError::Refused(error.to_string()))?;
        if facts.super_read_only {
            return Err(ReplayError::Refused(
                "the target is super_read_only. Run SET GLOBAL super_read_only = 0".into(),
            ));
        }
        if is_replicating(&mut control, &facts)
            .map_err(|error| server_failure(error).into_error("read the replication state"))?
        {
            return Err(ReplayError::Refused(
                "the target is a replica whose applier is running. Run STOP REPLICA SQL_THREAD first".into(),
            ));
        }
        let privileges = SessionPrivileges::of(&mut control, &facts)
            .map_err(|error| server_failure(error).into_error("check the account's privileges"))?;
        let sql_apply_reason = find_sql_apply_reason(apply_as, &facts, &mut control)?;
        let collations = TargetCollations::ask(&mut control, &facts)
            .map_err(|error| server_failure(error).into_error("read the server's collations"))?;
        // Even after Ctrl-C, wait for and report statements in progress, of this replay or an earlier one.
        control.ignore_cancel();
        let control = Arc::new(Mutex::new(control));
        let heartbeat = LockHeartbeat::start(&control)
            .map_err(|error| ReplayError::Refused(format!("could not start a thread: {error}")))?;
        let target = Self {
            address,
            _heartbeat: heartbeat,
            control,
            facts,
            session_count: AtomicU32::new(0),
            connection_ids: Mutex::default(),
            logging: TargetLogging::Off,
            collations,
            sql_apply_reason,
            privileges,
            may_set_gtid_purged: AtomicBool::new(true),
            definition_version: Arc::new(AtomicU64::new(1)),
        };
        target.prepare().map_err(|failure| failure.into_error("prepare the target"))?;
        Ok(target)
    }

    /// Makes the target log applied transactions, each under its source GTID. Commits must then come in the source's
    /// order, one transaction at a time.
    ///
    /// # Errors
    ///
    /// Fails if the target has no binary log or no GTIDs, or the account may not set `gtid_next` and `sql_log_bin`.
    pub fn with_source_gtids(mut self) -> Result<Self, ReplayError> {
        if !self.facts.log_bin || !self.has_gtids() {
            return Err(ReplayError::Refused(
                "cannot log under the source's GTIDs: the target needs log_bin and gtid_mode=ON".into(),
            ));
        }
        if !self.privileges.gtid_next || !self.privileges.sql_log_bin {
            let needed = match self.facts.is_older_than(MYSQL_8) {
                true => "SUPER",
                false => "REPLICATION_APPLIER and SYSTEM_VARIABLES_ADMIN",
            };
            return Err(ReplayError::Refused(format!(
                "cannot log under the source's GTIDs: the account needs {needed}"
            )));
        }
        assert_eq!(
            self.session_count.load(Ordering::SeqCst),
            0,
            "ours: all sessions use the same kind of logging"
        );
        self.logging = TargetLogging::BySourceGtids;
        Ok(self)
    }

    /// Returns the reason why row changes are sent as statements; `None` if they are sent as events.
    pub const fn sql_apply_reason(&self) -> Option<SqlApplyReason> {
        self.sql_apply_reason
    }

    /// Returns notes about unexpected behaviour, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let why = match self.sql_apply_reason {
            Some(SqlApplyReason::MariaDb) => {
                Some("rows were applied as SQL statements: the target is MariaDB")
            }
            Some(SqlApplyReason::MissingPrivilege) if self.facts.is_older_than(MYSQL_8) => {
                Some("rows were applied as SQL statements: the account does not have SUPER")
            }
            Some(SqlApplyReason::MissingPrivilege) => Some(
                "rows were applied as SQL statements: the account has neither REPLICATION_APPLIER nor BINLOG_ADMIN",
            ),
            Some(SqlApplyReason::Requested) | None => None,
        };
        let is_logged = self.facts.log_bin && !self.privileges.sql_log_bin;
        let logged = is_logged.then_some(
            "the target wrote all changes to its own binary log: the account may not set sql_log_bin",
        );
        let is_added_to = self.logging == TargetLogging::BySourceGtids || !self.has_gtids();
        let is_unchanged = self.facts.is_older_than(MYSQL_8) && !is_added_to;
        let gtids = is_unchanged.then_some(
            "gtid_executed was not changed: MySQL before 8.0 cannot add to gtid_purged. The applied GTIDs are in \
             bintide.progress",
        );
        let lines: [Option<&str>; 3] = [why, logged, gtids];
        lines.into_iter().flatten().map(str::to_owned).chain(self.collations.remarks()).collect()
    }

    /// Saves the `server_id` of the server that wrote the logs: from now on, the progress refers to these logs.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses the statement.
    pub fn set_source(&self, writer: u32) -> Result<(), ReplayError> {
        let statement = format!("UPDATE {PROGRESS_TABLE} SET source = {writer} WHERE stream = 1");
        let result = self.control().and_then(|mut control| control.run(&statement).map_err(server_failure));
        result.map_err(|failure| failure.into_error("save the source's server_id"))
    }

    /// Discards the progress: drops the database of the progress table.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses the statement.
    pub fn drop_progress(self) -> Result<(), ReplayError> {
        let result = self
            .control()
            .and_then(|mut control| control.run("DROP DATABASE `bintide`").map_err(server_failure));
        result.map_err(|failure| failure.into_error("drop the progress table"))
    }

    /// Returns the connection ids of the sessions that apply transactions.
    pub fn connection_ids(&self) -> Vec<u32> {
        self.connection_ids.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the server's facts.
    pub const fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    fn prepare(&self) -> Result<(), TargetFailure> {
        let mut control = self.control()?;
        control.run(SESSION_SETUP).map_err(server_failure)?;
        self.disable_binlog(&mut control).map_err(server_failure)?;
        acquire_lock(&mut control, TARGET_LOCK, TARGET_LOCK_TIMEOUT)?;
        for statement in progress_sql::CREATE_PROGRESS_TABLE {
            control.run(statement).map_err(server_failure)?;
        }
        control.run(&progress_sql::insert_stream_sql(1)).map_err(server_failure)?;
        // Wait until the statements of an earlier replay's sessions have ended, before its progress is read.
        let earlier = control
            .value(&format!("SELECT sessions FROM {PROGRESS_TABLE} WHERE stream = 1"))
            .map_err(server_failure)?;
        let earlier = earlier.map_or(Ok(0), |count| count.parse::<u32>());
        for number in 0..earlier.map_err(|_| unreadable_progress())? {
            let name = session_lock(number);
            acquire_lock(&mut control, &name, SESSION_LOCK_TIMEOUT)?;
            control.run(&format!("DO RELEASE_LOCK('{name}')")).map_err(server_failure)?;
            // Before MySQL 5.7.5, a session has only one lock: taking the next lock releases it.
            acquire_lock(&mut control, TARGET_LOCK, TARGET_LOCK_TIMEOUT)?;
        }
        control
            .run(&format!("UPDATE {PROGRESS_TABLE} SET sessions = 0 WHERE stream = 1"))
            .map_err(server_failure)?;
        let united = read_progress(&mut control)?.unwrap_or_default().progress;
        control.run(&progress_sql::unite_streams_sql(&united)).map_err(server_failure)?;
        Ok(())
    }

    fn control(&self) -> Result<MutexGuard<'_, SqlConnection>, TargetFailure> {
        self.control.lock().map_err(|_| {
            TargetFailure::refused("the connection that holds the lock and the progress is lost")
        })
    }

    /// Keeps a session's changes out of the binary log, if the account is allowed to.
    fn disable_binlog(&self, connection: &mut SqlConnection) -> Result<(), servers::ConnectionError> {
        match self.facts.log_bin && self.privileges.sql_log_bin {
            true => connection.run("SET @@session.sql_log_bin = 0"),
            false => Ok(()),
        }
    }

    fn table_creation(&self) -> TableCreation {
        const ATOMIC_SINCE: [u32; 3] = [8, 0, 21];
        match self.facts.is_mariadb || self.facts.is_older_than(ATOMIC_SINCE) {
            true => TableCreation::InParts,
            false => TableCreation::Atomic,
        }
    }

    /// Returns the way in which transactions of row events begin.
    fn row_transaction_start(&self) -> RowTransactionStart {
        match self.logging == TargetLogging::Off
            && !self.facts.is_mariadb
            && !self.facts.is_older_than(MYSQL_8)
        {
            true => RowTransactionStart::Implicit,
            false => RowTransactionStart::Begin,
        }
    }

    /// Returns true if the target has GTIDs.
    fn has_gtids(&self) -> bool {
        !self.facts.is_mariadb && self.facts.gtid_mode == GtidMode::On
    }

    /// Returns true if replay may add to the target's `gtid_purged`. MySQL before 8.0 allows no addition. Also, its DDL
    /// is not atomic, so after a crash its `gtid_executed` may lack executed statements.
    fn can_add_gtids(&self) -> bool {
        self.has_gtids()
            && !self.facts.is_older_than(MYSQL_8)
            && self.may_set_gtid_purged.load(Ordering::SeqCst)
    }
}

impl ReplayTarget for MysqlTarget {
    fn applied(&self) -> Result<AppliedState, TargetFailure> {
        let mut control = self.control()?;
        let mut applied = read_progress(&mut control)?.unwrap_or_default();
        applied.executed = read_executed(&mut control, self.facts.is_mariadb)?;
        Ok(applied)
    }

    fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
        let mut connection = SqlConnection::open(&self.address).map_err(server_failure)?;
        connection.run(SESSION_SETUP).map_err(server_failure)?;
        self.disable_binlog(&mut connection).map_err(server_failure)?;
        disable_generated_keys(&mut connection).map_err(server_failure)?;
        let number = self.session_count.fetch_add(1, Ordering::SeqCst);
        acquire_lock(&mut connection, &session_lock(number), SESSION_LOCK_TIMEOUT)?;
        connection.ignore_cancel();
        connection.set_packet_max(self.facts.packet_max);
        self.connection_ids.lock().unwrap_or_else(PoisonError::into_inner).push(connection.id());
        connection
            .run(&format!(
                "UPDATE {PROGRESS_TABLE} SET sessions = GREATEST(sessions, {}) WHERE stream = 1",
                number + 1
            ))
            .map_err(server_failure)?;
        if self.logging == TargetLogging::BySourceGtids {
            connection.run("SET @@session.sql_log_bin = 1").map_err(server_failure)?;
        }
        let names_gtids = self.can_add_gtids() && !self.facts.log_bin && self.privileges.gtid_next;
        let adapter =
            ContextAdapter::new(&mut connection, &self.facts, &self.collations).map_err(server_failure)?;
        Ok(Box::new(MysqlSession::new(SessionParts {
            connection,
            packet_max: self.facts.packet_max,
            names_gtids,
            as_sql: self.sql_apply_reason.is_some(),
            table_creation: self.table_creation(),
            adapter,
            logging: self.logging,
            row_transaction_start: self.row_transaction_start(),
            definition_version: Arc::clone(&self.definition_version),
        })))
    }

    fn definition(
        &self,
        database: &[u8],
        name: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure> {
        table_definition::read_definition(&mut *self.control()?, database, name)
    }

    fn settle(&self, intent: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
        let mut control = self.control()?;
        let now = fingerprint::compute(&mut control, &intent.databases)?;
        if let Some(created) = intent.before.strip_prefix(CREATED_PREFIX) {
            return settle_created_table(&mut control, created, &now);
        }
        Ok(match intent.before.as_str() {
            // If the statement had run, `gtid_executed` would contain its GTID.
            fingerprint::BY_GTID => IntentOutcome::NotDone,
            before if before == now => IntentOutcome::NotDone,
            _ => IntentOutcome::Done,
        })
    }

    fn save(&self, progress: &ReplayProgress) -> Result<(), TargetFailure> {
        let mut text = String::new();
        progress_sql::put_progress(&mut text, progress, 1, SavedIntent::Possible);
        self.control()?.run(&text).map_err(server_failure)
    }

    fn checkpoint(&self, progress: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
        let mut control = self.control()?;
        let mut executed_now = read_executed(&mut control, self.facts.is_mariadb)?;
        let missing = progress.gtids.difference(&executed_now);
        if self.can_add_gtids() && !missing.is_empty() {
            match control.run(&format!("SET GLOBAL gtid_purged = '+{missing}'")) {
                Ok(()) => executed_now.add_all(&missing),
                // The progress table then keeps all GTIDs.
                Err(error) if error.code() == Some(SPECIFIC_ACCESS_DENIED_ERROR) => {
                    self.may_set_gtid_purged.store(false, Ordering::SeqCst);
                }
                Err(error) => return Err(server_failure(error)),
            }
        }
        Ok(AppliedState { progress: progress.clone(), executed: executed_now, intent: None })
    }
}

fn unreadable_progress() -> TargetFailure {
    TargetFailure::refused("bintide.progress contains an entry that cannot be read")
}

/// Settles the announcement of a table whose rows were not committed with the table: drops the table if it exists.
fn settle_created_table(
    control: &mut SqlConnection,
    created: &str,
    now: &str,
) -> Result<IntentOutcome, TargetFailure> {
    let malformed = unreadable_progress;
    let mut words = created.split(' ');
    let mut name = || words.next().and_then(parse_hex).ok_or_else(malformed);
    let (database, table) = (name()?, name()?);
    if words.next() != Some(now) {
        let mut sql = b"DROP TABLE IF EXISTS ".to_vec();
        put_table(&mut sql, &database, &table);
        control.run_bytes(&sql).map_err(server_failure)?;
    }
    Ok(IntentOutcome::NotDone)
}

/// Returns the reason why row changes must be sent as statements, if there is one.
fn find_sql_apply_reason(
    apply_as: ApplyAs,
    facts: &ServerFacts,
    control: &mut SqlConnection,
) -> Result<Option<SqlApplyReason>, ReplayError> {
    match apply_as {
        ApplyAs::Sql => return Ok(Some(SqlApplyReason::Requested)),
        ApplyAs::Auto if facts.is_mariadb => return Ok(Some(SqlApplyReason::MariaDb)),
        ApplyAs::Binlog if facts.is_mariadb => {
            return Err(ReplayError::Refused(
                "the target is MariaDB, which does not accept MySQL's row events. Use --apply-as sql".into(),
            ));
        }
        ApplyAs::Auto | ApplyAs::Binlog => {}
    }
    // An empty event changes nothing. The server always answers with an error; only the error's code matters.
    let may = is_allowed(control, "BINLOG ''")
        .map_err(|error| server_failure(error).into_error("check the account's privileges"))?;
    match (may, apply_as) {
        (true, _) => Ok(None),
        (false, ApplyAs::Auto) => Ok(Some(SqlApplyReason::MissingPrivilege)),
        (false, _) => {
            let needed = match facts.is_older_than(MYSQL_8) {
                true => "SUPER",
                false => "REPLICATION_APPLIER (or BINLOG_ADMIN)",
            };
            Err(ReplayError::Refused(format!(
                "the account may not send row events. GRANT it {needed}, or use --apply-as sql"
            )))
        }
    }
}

impl SessionPrivileges {
    fn of(control: &mut SqlConnection, facts: &ServerFacts) -> Result<Self, servers::ConnectionError> {
        let sql_log_bin = is_allowed(control, "SET @@session.sql_log_bin = 1")?;
        let gtid_next = !facts.is_mariadb && is_allowed(control, "SET @@session.gtid_next = 'AUTOMATIC'")?;
        Ok(Self { sql_log_bin, gtid_next })
    }
}

/// Returns true unless the server denies the statement for lack of a privilege. Other errors count as allowed.
fn is_allowed(control: &mut SqlConnection, sql: &str) -> Result<bool, servers::ConnectionError> {
    match control.run(sql) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(SPECIFIC_ACCESS_DENIED_ERROR) => Ok(false),
        Err(servers::ConnectionError::Refused { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Stops the session from generating invisible primary keys: the log already contains the keys of the source. Only
/// servers since 8.0.30 have the variable, and some accounts may not set it.
fn disable_generated_keys(connection: &mut SqlConnection) -> Result<(), servers::ConnectionError> {
    match connection.value("SELECT @@session.sql_generate_invisible_primary_key") {
        Ok(Some(on)) if on != "0" => connection.run("SET @@session.sql_generate_invisible_primary_key = 0"),
        Ok(_) | Err(servers::ConnectionError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if the server's own replication applier is running.
fn is_replicating(
    control: &mut SqlConnection,
    facts: &ServerFacts,
) -> Result<bool, servers::ConnectionError> {
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
        Err(servers::ConnectionError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the name of a session's lock, held until the server ends the session.
fn session_lock(number: u32) -> String {
    format!("{TARGET_LOCK}.{number}")
}

fn read_executed(connection: &mut SqlConnection, is_mariadb: bool) -> Result<GtidSet, TargetFailure> {
    if is_mariadb {
        return Ok(GtidSet::new());
    }
    let text = connection.value("SELECT @@GLOBAL.gtid_executed").map_err(server_failure)?.unwrap_or_default();
    parse_gtid_set(&text)
}
