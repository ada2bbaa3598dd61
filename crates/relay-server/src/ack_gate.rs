//! Semi-synchronous replication to replicas of the relay: waits for their acknowledgements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use logs::lock;
use relay::SemiSyncSettings;

use crate::relay_server::RelayNotice;

/// Gate between the relay's own sync to disk and its acknowledgement to the source. Opens when enough replicas have
/// acknowledged, or after a timeout.
///
/// As on a server, replication is asynchronous after a timeout: the gate stays open until enough replicas have caught
/// up.
pub struct AckGate {
    /// Number of replicas, and maximum duration of a wait. SQL can change both.
    settings: Mutex<SemiSyncSettings>,
    notices: Arc<dyn Fn(RelayNotice) + Send + Sync>,
    state: Mutex<AckState>,
    changed: Condvar,
    /// Action that makes the stored logs visible to clients; set when the relay starts to serve.
    publish: OnceLock<Box<dyn Fn() + Send + Sync>>,
    timeouts: AtomicU64,
}

/// State of an [`AckGate`].
#[derive(Debug, Default)]
struct AckState {
    /// Number of syncs so far.
    synced: u64,
    /// Last sync that each replica has acknowledged, by connection id.
    acknowledged: BTreeMap<u32, u64>,
    /// True after a timeout, until enough replicas have caught up.
    is_asynchronous: bool,
}

/// Result of [`AckGate::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// Acknowledge the transactions to the source.
    Acknowledge,
    /// The caller has cancelled the wait.
    Cancelled,
}

/// Interval at which a wait polls for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl AckGate {
    /// Creates a gate that waits for this number of replicas, at most for `timeout`.
    pub fn new(replicas: usize, timeout: Duration, notices: Arc<dyn Fn(RelayNotice) + Send + Sync>) -> Self {
        Self {
            settings: Mutex::new(SemiSyncSettings { replicas, timeout }),
            notices,
            state: Mutex::default(),
            changed: Condvar::new(),
            publish: OnceLock::new(),
            timeouts: AtomicU64::new(0),
        }
    }

    /// Returns the number of replicas and the maximum time of a wait.
    pub(crate) fn settings(&self) -> SemiSyncSettings {
        *lock(&self.settings)
    }

    /// Changes the settings, also for a running wait.
    pub(crate) fn set_settings(&self, settings: SemiSyncSettings) {
        let state = lock(&self.state);
        *lock(&self.settings) = settings;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until enough replicas have acknowledged all transactions that are on disk now. Calls `is_cancelled` several
    /// times a second, without a lock.
    pub fn wait(&self, mut is_cancelled: impl FnMut() -> bool) -> AckOutcome {
        let (sync, began) = (self.begin_sync(), Instant::now());
        loop {
            let mut state = lock(&self.state);
            // SQL may have changed the settings during the wait.
            let SemiSyncSettings { replicas, timeout } = self.settings();
            let acknowledged = state.count(sync);
            if state.is_asynchronous || acknowledged >= replicas {
                return AckOutcome::Acknowledge;
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                state.is_asynchronous = true;
                drop(state);
                self.timeouts.fetch_add(1, Ordering::Relaxed);
                (self.notices)(RelayNotice::AckTimeout { replicas, acknowledged, timeout });
                return AckOutcome::Acknowledge;
            }
            // The next turn checks everything again.
            drop(self.changed.wait_timeout(state, left.min(POLL_INTERVAL)));
            if is_cancelled() {
                return AckOutcome::Cancelled;
            }
        }
    }

    /// Counts a sync, and makes its events visible to clients. Returns its number.
    fn begin_sync(&self) -> u64 {
        let mut state = lock(&self.state);
        // Publish under the lock: a client that sees the new number of syncs must also see their events.
        if let Some(publish) = self.publish.get() {
            publish();
        }
        state.synced += 1;
        state.synced
    }

    /// Returns the number of waits that have timed out.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::Relaxed)
    }

    /// Returns true after a timeout, until enough replicas have caught up.
    pub fn is_asynchronous(&self) -> bool {
        lock(&self.state).is_asynchronous
    }

    /// Returns the number of replicas that have acknowledged all transactions on disk.
    pub fn caught_up_replicas(&self) -> usize {
        let state = lock(&self.state);
        state.count(state.synced)
    }

    /// Sets the action that makes the stored logs visible to clients.
    pub(crate) fn set_publish(&self, publish: impl Fn() + Send + Sync + 'static) {
        // A gate belongs to one relay, so a second call has no effect.
        let _ = self.publish.set(Box::new(publish));
    }

    /// Returns the number of syncs so far.
    pub(crate) fn synced(&self) -> u64 {
        lock(&self.state).synced
    }

    /// Records that a replica has acknowledged all transactions up to a sync.
    pub(crate) fn acknowledge(&self, connection_id: u32, sync: u64) {
        let mut state = lock(&self.state);
        // Read under the lock, as in all methods: another thread may change the settings.
        let replicas = self.settings().replicas;
        state.acknowledged.insert(connection_id, sync);
        let has_resumed = state.is_asynchronous && state.count(state.synced) >= replicas;
        state.is_asynchronous &= !has_resumed;
        drop(state);
        self.changed.notify_all();
        if has_resumed {
            (self.notices)(RelayNotice::AcksResumed { replicas });
        }
    }

    /// Forgets a replica that has disconnected, or whose dump another dump has replaced.
    pub(crate) fn forget(&self, connection_id: u32) {
        lock(&self.state).acknowledged.remove(&connection_id);
    }
}

impl AckState {
    /// Returns the number of replicas that have acknowledged all transactions up to a sync.
    fn count(&self, sync: u64) -> usize {
        self.acknowledged.values().filter(|acknowledged| **acknowledged >= sync).count()
    }
}

impl std::fmt::Debug for AckGate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.state);
        out.debug_struct("AckGate")
            .field("settings", &self.settings())
            .field("state", &*state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use relay::SemiSyncSettings;

    use super::{AckGate, AckOutcome};
    use crate::relay_server::RelayNotice;

    fn gate(replicas: usize, timeout_ms: u64) -> (Arc<AckGate>, Arc<Mutex<Vec<RelayNotice>>>) {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&notices);
        let notices_of = Arc::new(move |notice| list.lock().unwrap().push(notice));
        (Arc::new(AckGate::new(replicas, Duration::from_millis(timeout_ms), notices_of)), notices)
    }

    #[test]
    fn enough_replicas_open_the_gate() {
        let (gate, notices) = gate(2, 60_000);
        let other = Arc::clone(&gate);
        let acknowledging = thread::spawn(move || {
            while other.synced() == 0 {
                thread::yield_now();
            }
            other.acknowledge(1, 1);
            other.acknowledge(1, 1);
            assert_eq!(other.caught_up_replicas(), 1);
            other.acknowledge(2, 1);
        });
        assert_eq!(gate.wait(|| false), AckOutcome::Acknowledge);
        acknowledging.join().unwrap();
        assert!(notices.lock().unwrap().is_empty());
    }

    #[test]
    fn after_a_timeout_commits_do_not_wait_until_the_replicas_catch_up() {
        let (gate, notices) = gate(1, 50);
        let began = Instant::now();
        assert_eq!(gate.wait(|| false), AckOutcome::Acknowledge);
        assert!(began.elapsed() >= Duration::from_millis(50));
        for _ in 0..100 {
            assert_eq!(gate.wait(|| false), AckOutcome::Acknowledge);
        }
        assert!(gate.is_asynchronous());
        assert_eq!(gate.timeouts(), 1);
        gate.acknowledge(7, 100);
        assert!(gate.is_asynchronous(), "the gate is synchronous although one sync is missing");
        gate.acknowledge(7, 101);
        assert!(!gate.is_asynchronous());
        assert_eq!(notices.lock().unwrap().len(), 2);
        gate.forget(7);
        assert_eq!(gate.caught_up_replicas(), 0);
    }

    #[test]
    fn changed_settings_apply_to_a_running_wait() {
        for changed in [(0, 60_000), (1, 0)] {
            let (gate, _) = gate(1, 60_000);
            let other = Arc::clone(&gate);
            let changing = thread::spawn(move || {
                while other.synced() == 0 {
                    thread::yield_now();
                }
                let (replicas, timeout) = (changed.0, Duration::from_millis(changed.1));
                other.set_settings(SemiSyncSettings { replicas, timeout });
            });
            let began = Instant::now();
            assert_eq!(gate.wait(|| false), AckOutcome::Acknowledge);
            assert!(began.elapsed() < Duration::from_secs(30), "{changed:?}");
            assert_eq!(gate.is_asynchronous(), changed == (1, 0));
            changing.join().unwrap();
        }
    }

    /// The check of the caller may read the state of the gate.
    #[test]
    fn waits_can_be_cancelled() {
        let (gate, _) = gate(1, 60_000);
        assert_eq!(gate.wait(|| gate.caught_up_replicas() == 0), AckOutcome::Cancelled);
    }
}
