//! Counters of a relay.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use relay::{FormFacts, LogForm, RenderCost, StageTiming};

/// Counters of a relay since its start.
#[derive(Debug, Default)]
pub struct RelayCounters {
    /// Successful logins.
    pub logins: AtomicU64,
    /// Failed logins.
    pub failed_logins: AtomicU64,
    /// Successful logins without TLS.
    pub unencrypted_logins: AtomicU64,
    /// TLS handshakes that failed.
    pub tls_failures: AtomicU64,
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

/// Counters of one form since the start.
#[derive(Debug, Default)]
pub(crate) struct FormCounters {
    /// Bytes of events sent.
    pub(crate) sent_bytes: AtomicU64,
    /// Transactions sent.
    pub(crate) sent_transactions: AtomicU64,
    /// Bytes by which the sent payloads are smaller than their transactions.
    pub(crate) saved_bytes: AtomicU64,
    /// Time spent on sending each buffer to clients, since the last reset.
    pub(crate) sending: Mutex<StageTiming>,
}

impl FormCounters {
    /// Returns the present sums.
    pub(crate) fn facts(&self, form: LogForm, cost: RenderCost) -> FormFacts {
        let [bytes_sent, transactions_sent, bytes_saved] =
            [&self.sent_bytes, &self.sent_transactions, &self.saved_bytes]
                .map(|counter| counter.load(Ordering::Relaxed));
        FormFacts { form, bytes_sent, transactions_sent, bytes_saved, cost }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
