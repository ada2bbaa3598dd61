//! Version and settings of a server.

use binlog::ServerVersion;
use binlog::gtid::GtidSet;

use crate::error::ConnectionError;
use crate::sql_connection::SqlConnection;

/// Version and settings of a server.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// Version as reported by the server: `9.7.4`.
    pub version: String,
    /// True for MariaDB.
    pub is_mariadb: bool,
    /// `server_uuid`; empty for MariaDB and for MySQL 5.5.
    pub uuid: String,
    /// True if the server writes a binary log.
    pub log_bin: bool,
    /// Use of GTIDs.
    pub gtid_mode: GtidMode,
    /// `gtid_executed`; empty for servers without GTIDs.
    pub gtid_executed: GtidSet,
    /// `max_allowed_packet`: the largest statement in bytes.
    pub packet_max: usize,
    /// `super_read_only`: the server refuses all changes.
    pub super_read_only: bool,
}

/// Values of `gtid_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtidMode {
    /// No transaction has a GTID.
    Off,
    /// New transactions get no GTID; replicated ones may have a GTID.
    OffPermissive,
    /// New transactions get a GTID; replicated ones may lack one.
    OnPermissive,
    /// All transactions have a GTID.
    On,
}

/// First MySQL version with GTIDs and a `server_uuid`.
pub const GTIDS_SINCE: [u32; 3] = [5, 6, 5];
/// First MySQL version with `super_read_only`.
const SUPER_READ_ONLY_SINCE: [u32; 3] = [5, 7, 8];

impl ServerFacts {
    /// Queries a server.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses a query, or its answer is invalid.
    pub fn query(connection: &mut SqlConnection) -> Result<Self, ConnectionError> {
        let version = connection.value("SELECT @@version")?.unwrap_or_default();
        let is_mariadb = ServerVersion::parse(&version).is_mariadb();
        let packet_max = query_number(connection, "SELECT @@max_allowed_packet")?;
        connection.set_packet_max(packet_max);
        let log_bin = query_number(connection, "SELECT @@log_bin")? != 0;
        let mut facts = Self {
            version,
            is_mariadb,
            uuid: String::new(),
            log_bin,
            gtid_mode: GtidMode::Off,
            gtid_executed: GtidSet::new(),
            packet_max,
            super_read_only: false,
        };
        if !is_mariadb && !facts.is_older_than(GTIDS_SINCE) {
            facts.uuid = connection.value("SELECT @@server_uuid")?.unwrap_or_default();
            facts.gtid_mode = query_gtid_mode(connection)?;
            facts.gtid_executed = query_gtid_executed(connection)?;
        }
        if !is_mariadb && !facts.is_older_than(SUPER_READ_ONLY_SINCE) {
            facts.super_read_only = query_number(connection, "SELECT @@super_read_only")? != 0;
        }
        Ok(facts)
    }

    /// Returns the version, parsed.
    pub fn parsed_version(&self) -> ServerVersion {
        ServerVersion::parse(&self.version)
    }

    /// Returns whether this is a MySQL older than this version; false for MariaDB.
    pub fn is_older_than(&self, version: [u32; 3]) -> bool {
        self.parsed_version().is_mysql_before(version)
    }

    /// Checks that this is a MySQL of at least this version, or any MariaDB.
    ///
    /// # Errors
    ///
    /// Fails if the MySQL is older; the error has both versions.
    pub fn require_version(&self, [major, minor, patch]: [u32; 3]) -> Result<(), ConnectionError> {
        if self.is_older_than([major, minor, patch]) {
            return Err(ConnectionError::TooOld {
                found: self.version.clone(),
                expected: format!("{major}.{minor}.{patch}"),
            });
        }
        Ok(())
    }
}

/// Queries `gtid_executed`.
fn query_gtid_executed(connection: &mut SqlConnection) -> Result<GtidSet, ConnectionError> {
    let text = connection.value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
    text.parse().map_err(|_| ConnectionError::UnexpectedAnswer {
        query: "gtid_executed",
        found: text,
        expected: "a set of GTIDs",
    })
}

fn query_gtid_mode(connection: &mut SqlConnection) -> Result<GtidMode, ConnectionError> {
    let text = connection.value("SELECT @@GLOBAL.gtid_mode")?.unwrap_or_default();
    Ok(match text.as_str() {
        "OFF" => GtidMode::Off,
        "OFF_PERMISSIVE" => GtidMode::OffPermissive,
        "ON_PERMISSIVE" => GtidMode::OnPermissive,
        "ON" => GtidMode::On,
        _ => {
            return Err(ConnectionError::UnexpectedAnswer {
                query: "gtid_mode",
                found: text,
                expected: "one of its four modes",
            });
        }
    })
}

fn query_number(connection: &mut SqlConnection, query: &'static str) -> Result<usize, ConnectionError> {
    let text = connection.value(query)?.unwrap_or_default();
    text.parse().map_err(|_| ConnectionError::UnexpectedAnswer { query, found: text, expected: "a number" })
}
