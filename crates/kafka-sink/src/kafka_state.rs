//! State of the connection, for metrics and checks of health.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of the connection, shared between threads.
#[derive(Clone, Debug, Default)]
pub struct SharedKafkaState(Arc<KafkaStateCells>);

/// State of the connection, and the figures that change with each record.
#[derive(Debug, Default)]
struct KafkaStateCells {
    state: Mutex<KafkaState>,
    waiting_records: AtomicU64,
    waiting_bytes: AtomicU64,
}

/// State of the connection.
#[derive(Debug, Default)]
struct KafkaState {
    figures: KafkaFigures,
    /// True while records wait for the brokers. Without records, lost connections do no harm: brokers close idle ones.
    is_waiting: bool,
    /// Last error of the connection, until a broker is connected again.
    lost: Option<String>,
    /// Requests that earlier clients have sent again.
    earlier_retries: u64,
}

/// State and counters of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaFigures {
    /// Committed transactions of Kafka.
    pub transactions: u64,
    /// Committed records, with tombstones and progress.
    pub records: u64,
    /// Bytes of keys and values in committed records.
    pub bytes: u64,
    /// Aborted transactions, whose records were sent again.
    pub aborts: u64,
    /// Records that were too large for their topics, and went to the topic for dead letters.
    pub dead_letters: u64,
    /// Uncommitted records.
    pub waiting_records: u64,
    /// Bytes of keys and values in uncommitted records.
    pub waiting_bytes: u64,
    /// Brokers; `None` before the first statistics of librdkafka.
    pub brokers: Option<BrokerFigures>,
    /// Last error of the connection, while records wait or no broker is connected.
    pub error: Option<String>,
    /// Figures of the schema registry; `None` without one.
    pub registry: Option<RegistryFigures>,
}

/// Figures of a schema registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryFigures {
    /// Schemas in use, including those that the registry already had.
    pub schemas: u64,
    /// Error of the last attempt, until one succeeds.
    pub error: Option<String>,
}

/// Figures of the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerFigures {
    /// Brokers with a connection.
    pub connected: u64,
    /// Brokers whose connection is lost. A broker that was not needed yet is neither.
    pub down: u64,
    /// Requests that were sent again.
    pub retries: u64,
}

impl SharedKafkaState {
    /// Returns the present figures.
    pub fn figures(&self) -> KafkaFigures {
        let state = self.lock();
        let mut figures = state.figures.clone();
        figures.waiting_records = self.0.waiting_records.load(Ordering::Relaxed);
        figures.waiting_bytes = self.0.waiting_bytes.load(Ordering::Relaxed);
        if figures.error.is_none() && figures.brokers.is_some_and(|brokers| brokers.connected == 0) {
            figures.error = Some(state.lost.clone().unwrap_or_else(|| "no broker is connected".to_owned()));
        }
        figures
    }

    /// Sets the number and size of the uncommitted records.
    pub(crate) fn set_waiting(&self, records: usize, bytes: usize) {
        self.0.waiting_records.store(records as u64, Ordering::Relaxed);
        self.0.waiting_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Sets the figures of the brokers, with the retries of the present client.
    pub(crate) fn set_brokers(&self, figures: BrokerFigures) {
        let mut state = self.lock();
        let retries = state.earlier_retries + figures.retries;
        state.figures.brokers = Some(BrokerFigures { retries, ..figures });
        if figures.connected > 0 {
            state.lost = None;
        }
    }

    /// Begins the figures of another client, which counts from 0 on.
    pub(crate) fn begin_client(&self) {
        let mut state = self.lock();
        state.earlier_retries = state.figures.brokers.map_or(0, |brokers| brokers.retries);
    }

    /// States that there is a schema registry.
    pub(crate) fn begin_registry(&self) {
        self.lock().figures.registry = Some(RegistryFigures::default());
    }

    /// Sets an error of the schema registry. Returns whether it is the first one.
    pub(crate) fn set_registry_error(&self, error: &str) -> bool {
        let mut state = self.lock();
        let registry = state.figures.registry.get_or_insert_default();
        registry.error.replace(error.to_owned()).is_none()
    }

    /// Counts a registered schema. Returns the error that is over.
    pub(crate) fn count_schema(&self) -> Option<String> {
        let mut state = self.lock();
        let registry = state.figures.registry.get_or_insert_default();
        registry.schemas += 1;
        registry.error.take()
    }

    pub(crate) fn count_dead_letters(&self, count: usize) {
        self.lock().figures.dead_letters += count as u64;
    }

    /// States that records, or a first answer, are awaited.
    pub(crate) fn begin_waiting(&self) {
        self.lock().is_waiting = true;
    }

    /// Sets an error of the connection. Returns whether records wait, and it is the first one.
    pub(crate) fn set_error(&self, error: &str) -> bool {
        let mut state = self.lock();
        state.lost = Some(error.to_owned());
        state.is_waiting && state.figures.error.replace(error.to_owned()).is_none()
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.lock().figures.error.clone()
    }

    pub(crate) fn count_abort(&self) {
        self.lock().figures.aborts += 1;
    }

    /// Ends waiting. Returns the error that is over.
    pub(crate) fn end_waiting(&self) -> Option<String> {
        let mut state = self.lock();
        state.is_waiting = false;
        state.figures.error.take()
    }

    pub(crate) fn count_commit(&self, records: usize, bytes: usize) {
        let figures = &mut self.lock().figures;
        figures.transactions += 1;
        figures.records += records as u64;
        figures.bytes += bytes as u64;
    }

    fn lock(&self) -> MutexGuard<'_, KafkaState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
