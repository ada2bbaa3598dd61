//! Counters of a relay.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a relay since its start.
#[derive(Debug, Default)]
pub struct RelayCounters {
    /// Successful logins.
    pub logins: AtomicU64,
    /// Failed logins.
    pub failed_logins: AtomicU64,
    /// Connections that were refused because of a limit.
    pub refused_connections: AtomicU64,
    /// Dumps that were started.
    pub dumps: AtomicU64,
    /// Bytes of events that were sent.
    pub sent_bytes: AtomicU64,
    /// Transactions that were sent.
    pub sent_transactions: AtomicU64,
    /// Acknowledgements of replicas in semi-synchronous replication.
    pub acknowledgements: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
