//! Settings of warming.

use std::path::PathBuf;

use servers::ServerAddress;
use sql::ReplicationFilter;

use crate::external_applier::AppliedLogs;

/// Settings for a replica.
#[derive(Clone, Debug)]
pub struct WarmSettings {
    /// Address and account for the searches.
    pub address: ServerAddress,
    /// Address and account for the status queries.
    pub admin: ServerAddress,
    /// Channel to warm; all channels if `None`.
    pub channel: Option<String>,
    /// Directory or index of the relay logs, if the location differs from the replica's report.
    pub relay_logs: Option<PathBuf>,
    /// Keyring file of encrypted logs.
    pub keyring: Option<PathBuf>,
    /// Number of connections that search.
    pub threads: SearchConnections,
    /// Distance to the applier.
    pub pace: WarmPace,
    /// Treatment of a server that is no replica.
    pub non_replica: NonReplicaPolicy,
}

/// Settings for an applier outside of the server.
#[derive(Clone, Debug)]
pub struct ExternalApplierSettings {
    /// Server that the logs are applied to.
    pub address: ServerAddress,
    /// Logs that are applied.
    pub logs: AppliedLogs,
    /// Filter and database rewrites of the applier.
    pub filter: ReplicationFilter,
    /// Keyring file of encrypted logs.
    pub keyring: Option<PathBuf>,
    /// Number of connections that search.
    pub threads: SearchConnections,
    /// Number of sessions that apply.
    pub sessions: u64,
}

/// Number of connections that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchConnections {
    /// Usual number.
    pub usual: usize,
    /// Maximum number. Used when reads are slow, because each connection waits for one page at a time.
    pub max: usize,
}

impl SearchConnections {
    /// Numbers for control by measurements.
    pub const MEASURED: Self = Self { usual: 10, max: 32 };

    /// Returns a fixed number.
    pub const fn fixed(count: usize) -> Self {
        Self { usual: count, max: count }
    }
}

/// Policy for the distance to the applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmPace {
    /// Controlled by measurements.
    Measured,
    /// Fixed limits, as in Replication Booster.
    Fixed(FixedPace),
}

/// Fixed limits, as in Replication Booster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPace {
    /// Number of events right before the applier that are skipped, because the applier would be faster.
    pub offset_events: u64,
    /// Maximum lead, in seconds of the source's timestamps.
    pub seconds_prefetch: u32,
    /// Pause at the maximum lead, in milliseconds.
    pub millis_sleep: u64,
}

/// Treatment of a server that is no replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonReplicaPolicy {
    /// Return an error.
    Refuse,
    /// Search for all changes in the logs: the server has no applier.
    Allow,
}
