//! Settings that apply to mysqlbinlog's text and to lists.

use std::num::NonZeroUsize;

use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use sql::TablePattern;

/// Settings that apply to mysqlbinlog's text and to lists.
#[derive(Clone, Debug)]
pub struct CommonSettings {
    /// Start position in the first log.
    pub start_position: u64,
    /// Stop position in the last log.
    pub stop_position: u64,
    /// Time of the first event, in seconds since 1970; 0 for none.
    pub start_time: i64,
    /// Time of the first event that is not printed, in seconds since 1970.
    pub stop_time: i64,
    /// Number of events to skip at the start.
    pub offset: u64,
    /// Server id of the events to print; 0 for all.
    pub server_id: u64,
    /// Mask of the bits compared with `server_id`.
    pub server_id_mask: u32,
    /// GTIDs of the transactions to print; `None` for all.
    pub include_gtids: Option<GtidSet>,
    /// GTIDs of transactions that are not printed.
    pub exclude_gtids: Option<GtidSet>,
    /// Database of the rows to print, and default database of the statements; `None` for all.
    pub database: Option<Vec<u8>>,
    /// Tables whose rows are printed; empty for all.
    pub tables: Vec<TablePattern>,
    /// Number of formatting threads; `None` for one per core.
    pub jobs: Option<NonZeroUsize>,
    /// `--force-read`: continue after events that cannot be decoded.
    pub force_read: bool,
    /// Keys of encrypted logs.
    pub keyring: Option<Keyring>,
}
