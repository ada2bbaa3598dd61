//! Commits of Kafka's transactions, beside the work on the following records.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};

use crate::error::KafkaSinkError;
use crate::kafka_connection::{is_retriable, reason_of};
use crate::kafka_context::KafkaContext;
use crate::kafka_state::SharedKafkaState;

/// Time after which a run that is to end stops waiting for the brokers.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a commit polls for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which delivery is checked.
const DELIVERY_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Committer of the transactions of a producer.
#[derive(Clone)]
pub(crate) struct TransactionCommitter {
    pub(crate) producer: Arc<BaseProducer<KafkaContext>>,
    /// Name of the stream.
    pub(crate) name: String,
    pub(crate) state: SharedKafkaState,
    pub(crate) is_stop_requested: fn() -> bool,
}

/// Failure of a transaction of Kafka.
#[derive(Debug)]
pub(crate) enum TransactionFailure {
    /// It is to be aborted, and sent again.
    Abort(String),
    /// The sink is not usable any more.
    Fatal(KafkaSinkError),
}

/// Commit that runs in a separate thread.
#[derive(Debug)]
pub(crate) struct RunningCommit(JoinHandle<CommitOutcome>);

/// Result of a commit, and the time that it took.
#[derive(Debug)]
pub(crate) struct CommitOutcome {
    pub(crate) result: Result<(), TransactionFailure>,
    pub(crate) elapsed: Duration,
}

impl TransactionCommitter {
    /// Waits until all records are delivered, and commits the transaction.
    pub(crate) fn commit(&self) -> Result<(), TransactionFailure> {
        let begun = Instant::now();
        while self.producer.in_flight_count() > 0 {
            self.wait_for_delivery();
            self.check_stop(begun).map_err(TransactionFailure::Fatal)?;
        }
        loop {
            // Only a poll fetches the next token of a login that has expired.
            self.producer.poll(Duration::ZERO);
            let error = match self.producer.commit_transaction(POLL_INTERVAL) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match &error {
                KafkaError::Transaction(cause) if cause.txn_requires_abort() => {
                    return Err(TransactionFailure::Abort(cause.to_string()));
                }
                error if is_retriable(error) => {
                    self.check_stop(begun).map_err(TransactionFailure::Fatal)?;
                }
                _ => {
                    let error = self.fatal_error("committing a transaction", &error);
                    return Err(TransactionFailure::Fatal(error));
                }
            }
        }
    }

    /// Waits briefly for the delivery of records.
    pub(crate) fn wait_for_delivery(&self) {
        self.producer.poll(Duration::ZERO);
        // Polling with a timeout of a millisecond does not wait: it is rounded down to zero.
        thread::sleep(DELIVERY_POLL_INTERVAL);
    }

    /// Starts a commit in a separate thread. Until its end, the caller must give the producer no records.
    pub(crate) fn start(&self) -> RunningCommit {
        let committer = self.clone();
        RunningCommit(thread::spawn(move || {
            let begun = Instant::now();
            let result = committer.commit();
            CommitOutcome { result, elapsed: begun.elapsed() }
        }))
    }

    /// Gives an error if the run is to end, and the brokers have not answered for a while.
    pub(crate) fn check_stop(&self, begun: Instant) -> Result<(), KafkaSinkError> {
        if (self.is_stop_requested)() && begun.elapsed() > STOP_TIMEOUT {
            let reason = self.state.error().unwrap_or_else(|| "they do not answer".to_owned());
            return Err(KafkaSinkError::Unconfirmed { reason });
        }
        Ok(())
    }

    /// Returns the error after which the producer is not usable any more.
    pub(crate) fn fatal_error(&self, what: &'static str, error: &KafkaError) -> KafkaSinkError {
        let code = match self.producer.client().fatal_error() {
            Some((code, _)) => Some(code),
            None => error.rdkafka_error_code(),
        };
        match code {
            Some(
                RDKafkaErrorCode::Fenced
                | RDKafkaErrorCode::ProducerFenced
                | RDKafkaErrorCode::InvalidProducerEpoch,
            ) => KafkaSinkError::Fenced { name: self.name.clone() },
            _ => KafkaSinkError::Other { what, reason: reason_of(error) },
        }
    }
}

impl RunningCommit {
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the end, at most for this time.
    pub(crate) fn wait_within(self, timeout: Duration) {
        let begun = Instant::now();
        while !self.is_finished() && begun.elapsed() < timeout {
            thread::sleep(DELIVERY_POLL_INTERVAL);
        }
    }

    /// Waits for the end.
    pub(crate) fn wait(self) -> CommitOutcome {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
