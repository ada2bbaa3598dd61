//! What a server is, and how it is set.

use binlog::gtid::GtidSet;

use crate::connection::Connection;
use crate::error::Error;

/// What a server is, and how it is set.
#[derive(Clone, Debug)]
pub struct Facts {
    /// As it says it: `9.7.4`.
    pub version: String,
    /// Is it a MariaDB?
    pub is_mariadb: bool,
    /// Its UUID; empty for a MariaDB and for MySQL 5.5.
    pub uuid: String,
    /// Does it write a binary log?
    pub log_bin: bool,
    /// Does it identify transactions?
    pub gtid_mode: GtidMode,
    /// The transactions it has; empty where there are no GTIDs.
    pub gtid_executed: GtidSet,
    /// The largest statement it takes, in bytes.
    pub packet_max: usize,
    /// Does it refuse all changes?
    pub super_read_only: bool,
}

/// `gtid_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtidMode {
    /// Transactions have no GTIDs; new ones get none.
    Off,
    /// New transactions get none, others may have one.
    OffPermissive,
    /// New transactions get one, others need not have one.
    OnPermissive,
    /// All have one.
    On,
}

/// The first MySQL with GTIDs and a `server_uuid`.
pub const GTIDS_SINCE: [u32; 3] = [5, 6, 5];
/// The first MySQL with `super_read_only`.
const SUPER_READ_ONLY_SINCE: [u32; 3] = [5, 7, 8];

impl Facts {
    /// Asks a server.
    ///
    /// # Errors
    ///
    /// When it refuses, or answers what nobody understands.
    pub fn of(connection: &mut Connection) -> Result<Self, Error> {
        let version = connection.value("SELECT @@version")?.unwrap_or_default();
        let is_mariadb = version.contains("MariaDB");
        let packet_max = number(connection, "SELECT @@max_allowed_packet")?;
        connection.set_packet_max(packet_max);
        let log_bin = number(connection, "SELECT @@log_bin")? != 0;
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
            facts.gtid_mode = gtid_mode(connection)?;
            facts.gtid_executed = gtid_executed(connection)?;
        }
        if !is_mariadb && !facts.is_older_than(SUPER_READ_ONLY_SINCE) {
            facts.super_read_only = number(connection, "SELECT @@super_read_only")? != 0;
        }
        Ok(facts)
    }

    /// Tells whether this is a MySQL from before this version; never of a MariaDB.
    pub fn is_older_than(&self, version: [u32; 3]) -> bool {
        !self.is_mariadb && version_numbers(&self.version).is_some_and(|own| own < version)
    }

    /// Passes a MySQL of this version or a newer one, and any MariaDB.
    ///
    /// # Errors
    ///
    /// Of an older MySQL; the error names both versions.
    pub fn require(&self, [major, minor, patch]: [u32; 3]) -> Result<(), Error> {
        if self.is_older_than([major, minor, patch]) {
            return Err(Error::TooOld {
                found: self.version.clone(),
                wanted: format!("{major}.{minor}.{patch}"),
            });
        }
        Ok(())
    }
}

/// The three numbers of a version, as in `8.0.20-debug`; `None` if it does not begin with three.
pub fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let digits = |text: &str| text.split(|one: char| !one.is_ascii_digit()).next()?.parse().ok();
    let numbers: Vec<u32> = version.split('.').map_while(digits).take(3).collect();
    numbers.try_into().ok()
}

/// The transactions that a server has.
fn gtid_executed(connection: &mut Connection) -> Result<GtidSet, Error> {
    let text = connection.value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
    text.parse().map_err(|_| Error::Answer {
        question: "gtid_executed",
        found: text,
        wanted: "a set of GTIDs",
    })
}

fn gtid_mode(connection: &mut Connection) -> Result<GtidMode, Error> {
    let text = connection.value("SELECT @@GLOBAL.gtid_mode")?.unwrap_or_default();
    Ok(match text.as_str() {
        "OFF" => GtidMode::Off,
        "OFF_PERMISSIVE" => GtidMode::OffPermissive,
        "ON_PERMISSIVE" => GtidMode::OnPermissive,
        "ON" => GtidMode::On,
        _ => {
            return Err(Error::Answer {
                question: "gtid_mode",
                found: text,
                wanted: "one of its four modes",
            });
        }
    })
}

fn number(connection: &mut Connection, question: &'static str) -> Result<usize, Error> {
    let text = connection.value(question)?.unwrap_or_default();
    text.parse().map_err(|_| Error::Answer { question, found: text, wanted: "a number" })
}
