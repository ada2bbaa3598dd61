//! What is to be done, and how.

use std::path::PathBuf;

use filter::Filter;
use servers::Address;

use crate::applier::AppliedLogs;

/// What is to be done, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The replica, as whoever searches.
    pub address: Address,
    /// The replica, as whoever asks how far it is.
    pub admin: Address,
    /// The one channel that is meant; all of them otherwise.
    pub channel: Option<String>,
    /// Where the relay logs are, or their index, if not where the replica says.
    pub relay_logs: Option<PathBuf>,
    /// The keyring file that encrypted logs are opened with.
    pub keyring: Option<PathBuf>,
    /// Connections that search.
    pub threads: Threads,
    /// How far ahead to stay.
    pub pace: Pace,
    /// What to do with a server that is no replica.
    pub stranger: Stranger,
}

/// What is to be done for somebody who applies logs to a server that is no replica, and how.
#[derive(Clone, Debug)]
pub struct SettingsFor {
    /// The server that they are applied to.
    pub address: Address,
    /// What is applied.
    pub logs: AppliedLogs,
    /// Which of it, and to which databases.
    pub filter: Filter,
    /// The keyring file that encrypted logs are opened with.
    pub keyring: Option<PathBuf>,
    /// Connections that search.
    pub threads: Threads,
    /// Sessions that apply.
    pub sessions: u64,
}

/// Connections that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// So many.
    pub usual: usize,
    /// Where reads take long, up to so many: each waits for one page at a time.
    pub max: usize,
}

impl Threads {
    /// As many as whoever measures finds of use.
    pub const MEASURED: Self = Self { usual: 10, max: 32 };

    /// So many, whatever is measured.
    pub const fn fixed(count: usize) -> Self {
        Self { usual: count, max: count }
    }
}

/// How far ahead of the applier to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As far as is useful by what is measured.
    Measured,
    /// As Replication Booster does it.
    Fixed(Fixed),
}

/// The rules of Replication Booster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Events in front of the applier that are passed over: it would be there first.
    pub offset_events: u64,
    /// Seconds of the source's time to be ahead, at most.
    pub seconds_prefetch: u32,
    /// Milliseconds to sleep then.
    pub millis_sleep: u64,
}

/// What to do with a server that is no replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Nothing.
    Refuse,
    /// Search all the same, for all that the logs have: there is no applier to stay ahead of.
    Allow,
}
