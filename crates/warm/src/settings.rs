//! Settings of warming.

use std::path::PathBuf;

use filter::Filter;
use servers::Address;

use crate::applier::AppliedLogs;

/// Settings for a replica.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and account for the searches.
    pub address: Address,
    /// Address and account for the status queries.
    pub admin: Address,
    /// Channel to warm; all channels if `None`.
    pub channel: Option<String>,
    /// Directory or index of the relay logs, if not the one that the replica reports.
    pub relay_logs: Option<PathBuf>,
    /// Keyring file of encrypted logs.
    pub keyring: Option<PathBuf>,
    /// Number of connections that search.
    pub threads: Threads,
    /// Distance to the applier.
    pub pace: Pace,
    /// Treatment of a server that is no replica.
    pub stranger: Stranger,
}

/// Settings for an applier outside of the server.
#[derive(Clone, Debug)]
pub struct SettingsFor {
    /// Server that the logs are applied to.
    pub address: Address,
    /// Logs that are applied.
    pub logs: AppliedLogs,
    /// Filter and database rewrites of the applier.
    pub filter: Filter,
    /// Keyring file of encrypted logs.
    pub keyring: Option<PathBuf>,
    /// Number of connections that search.
    pub threads: Threads,
    /// Number of sessions that apply.
    pub sessions: u64,
}

/// Number of connections that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Usual number.
    pub usual: usize,
    /// Maximum number, used when reads are slow: each connection waits for one page at a time.
    pub max: usize,
}

impl Threads {
    /// Numbers for control by measurements.
    pub const MEASURED: Self = Self { usual: 10, max: 32 };

    /// Returns a fixed number.
    pub const fn fixed(count: usize) -> Self {
        Self { usual: count, max: count }
    }
}

/// Policy for the distance to the applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Controlled by measurements.
    Measured,
    /// Fixed limits, as in Replication Booster.
    Fixed(Fixed),
}

/// Fixed limits, as in Replication Booster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Number of events right before the applier that are skipped, because the applier would be faster.
    pub offset_events: u64,
    /// Maximum lead, in seconds of the source's timestamps.
    pub seconds_prefetch: u32,
    /// Pause at the maximum lead, in milliseconds.
    pub millis_sleep: u64,
}

/// Treatment of a server that is no replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Return an error.
    Refuse,
    /// Search for all changes in the logs: there is no applier to stay ahead of.
    Allow,
}
