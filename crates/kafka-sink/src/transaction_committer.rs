//! Commits of Kafka's transactions, beside the work on the following records.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};

use crate::error::KafkaSinkError;
use crate::kafka_connection::{is_retriable, reason_of};
use crate::kafka_context::{KafkaContext, is_fenced};
use crate::kafka_state::SharedKafkaState;

/// Time that a run waits for the brokers after a stop was requested.
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
    /// It is not committed. The caller aborts it, and sends its records again.
    Abort(String),
    /// The producer is not usable any more. Perhaps the transaction is committed.
    Fatal(KafkaSinkError),
}

/// Thread that commits one transaction at a time.
#[derive(Debug)]
pub(crate) struct CommitThread {
    jobs: SyncSender<Arc<CommitJob>>,
}

/// Commit for the thread.
struct CommitJob {
    committer: TransactionCommitter,
    outcome: SyncSender<CommitOutcome>,
}

/// Commit that runs in the thread.
#[derive(Debug)]
pub(crate) struct RunningCommit {
    outcome: Receiver<CommitOutcome>,
    /// The thread drops the job at its end.
    job: Weak<CommitJob>,
}

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
                // Without failed records, the brokers may have committed it: the caller connects again, and finds out.
                KafkaError::Transaction(cause)
                    if cause.txn_requires_abort() && self.producer.context().has_failures() =>
                {
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

    /// Returns an error if a stop was requested and the brokers have not answered for a while.
    pub(crate) fn check_stop(&self, begun: Instant) -> Result<(), KafkaSinkError> {
        if (self.is_stop_requested)() && begun.elapsed() > STOP_TIMEOUT {
            let reason = self.state.error().unwrap_or_else(|| "they do not answer".to_owned());
            return Err(KafkaSinkError::Unconfirmed { reason });
        }
        Ok(())
    }

    /// Returns the error of the open transaction, if it has failed and must be aborted.
    pub(crate) fn transaction_error(&self) -> Option<RDKafkaErrorCode> {
        // While a transaction is open, librdkafka begins no other one. It returns the error of a transaction that has failed.
        match self.producer.begin_transaction() {
            Err(KafkaError::Transaction(cause)) if cause.txn_requires_abort() => Some(cause.code()),
            _ => None,
        }
    }

    /// Returns the error after which the producer is not usable any more.
    pub(crate) fn fatal_error(&self, what: &'static str, error: &KafkaError) -> KafkaSinkError {
        let code = match self.producer.client().fatal_error() {
            Some((code, _)) => Some(code),
            None => error.rdkafka_error_code(),
        };
        match code {
            Some(code) if is_fenced(code) => KafkaSinkError::Fenced { name: self.name.clone() },
            _ => KafkaSinkError::Other { what, reason: reason_of(error) },
        }
    }
}

impl CommitThread {
    /// Starts the thread. It ends when this value is dropped, after the commit that runs.
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, next) = sync_channel::<Arc<CommitJob>>(1);
        let run = move || next.iter().for_each(|job| job.run());
        thread::Builder::new().name("kafka-commits".to_owned()).spawn(run)?;
        Ok(Self { jobs })
    }

    /// Starts a commit, after the end of the one before. Until its end, the caller must give the producer no records.
    pub(crate) fn commit(&self, committer: &TransactionCommitter) -> RunningCommit {
        let (outcome, received) = sync_channel(1);
        let job = Arc::new(CommitJob { committer: committer.clone(), outcome });
        let running = RunningCommit { outcome: received, job: Arc::downgrade(&job) };
        // Fails only after a panic of the thread. `RunningCommit::wait` then panics, too.
        let _ = self.jobs.send(job);
        running
    }
}

impl CommitJob {
    fn run(&self) {
        let begun = Instant::now();
        let result = self.committer.commit();
        // Fails if the sink was dropped meanwhile.
        let _ = self.outcome.send(CommitOutcome { result, elapsed: begun.elapsed() });
    }
}

impl fmt::Debug for CommitJob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CommitJob").field("name", &self.committer.name).finish_non_exhaustive()
    }
}

impl RunningCommit {
    pub(crate) fn is_finished(&self) -> bool {
        self.job.strong_count() == 0
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
        self.outcome.recv().expect("ours: commits do not panic")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _};
    use rdkafka::producer::BaseProducer;

    use super::{CommitOutcome, CommitThread, TransactionCommitter, TransactionFailure};
    use crate::kafka_context::KafkaContext;
    use crate::kafka_notice::KafkaNoticeReceiver;
    use crate::kafka_state::SharedKafkaState;

    /// A committer whose producer has no broker, and has not begun a transaction.
    fn committer() -> TransactionCommitter {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1").set("transactional.id", "t");
        let state = SharedKafkaState::default();
        let context = KafkaContext::new(state.clone(), KafkaNoticeReceiver::of_test(), None);
        let producer = BaseProducer::from_config_and_context(&config, context).unwrap();
        TransactionCommitter {
            producer: Arc::new(producer),
            name: "p".to_owned(),
            state,
            is_stop_requested: || false,
        }
    }

    #[test]
    fn one_thread_runs_all_commits() {
        let (thread, committer) = (CommitThread::start().unwrap(), committer());
        for _ in 0..3 {
            let running = thread.commit(&committer);
            while !running.is_finished() {
                thread::yield_now();
            }
            let CommitOutcome { result, .. } = running.wait();
            assert!(matches!(result, Err(TransactionFailure::Fatal(_))), "{result:?}");
        }
    }
}
