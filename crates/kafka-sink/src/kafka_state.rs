//! State of the connection, for metrics and checks of health.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of the connection, shared between threads.
#[derive(Clone, Debug, Default)]
pub struct SharedKafkaState(Arc<Mutex<KafkaState>>);

/// State of the connection.
#[derive(Debug, Default)]
struct KafkaState {
    figures: KafkaFigures,
    /// True while records wait for the brokers. Without records, lost connections do no harm: brokers close idle ones.
    is_waiting: bool,
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
    /// Last error of the connection, while records wait.
    pub error: Option<String>,
}

impl SharedKafkaState {
    /// Returns the present figures.
    pub fn figures(&self) -> KafkaFigures {
        self.lock().figures.clone()
    }

    /// States that records, or a first answer, are awaited.
    pub(crate) fn begin_waiting(&self) {
        self.lock().is_waiting = true;
    }

    /// Sets an error of the connection. Returns whether records wait, and it is the first one.
    pub(crate) fn set_error(&self, error: &str) -> bool {
        let mut state = self.lock();
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
