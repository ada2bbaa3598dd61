//! Notices of a sink, for the log of the program.

use std::fmt;
use std::sync::Arc;

/// Event of a running sink, for the log of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KafkaNotice {
    /// The connection to the brokers is lost, while records wait for them.
    ConnectionLost {
        /// Error of the connection.
        reason: String,
    },
    /// The sink replaces its producer, which is not usable any more.
    Reconnecting {
        /// Error of the producer.
        error: String,
    },
    /// The brokers have aborted a transaction. Its records are sent again.
    TransactionAborted {
        /// Error of the transaction.
        reason: String,
    },
    /// The brokers have lost the end of a transaction. It is aborted.
    TransactionLost {
        /// Topic of the progress.
        topic: String,
    },
    /// The brokers commit transactions again.
    CommitsResumed {
        /// Error that is over.
        error: String,
    },
    /// A record goes to the topic for dead letters.
    DeadLetter {
        /// Size of the record in bytes.
        size: usize,
        /// Topic for which the record is too large.
        topic: String,
        /// Key as text.
        key: String,
        /// GTID of its transaction.
        transaction: String,
        /// Topic for dead letters.
        letters: String,
    },
    /// The sink cannot check whether Kafka keeps the records of the topic of the progress.
    CompactionUnchecked {
        /// Name of the topic.
        topic: String,
    },
    /// The schema registry does not answer.
    RegistryAway {
        /// Error of the request.
        reason: String,
    },
    /// The schema registry answers again.
    RegistryResumed {
        /// Error that is over.
        error: String,
    },
    /// librdkafka has refused a record. For debugging.
    RecordRefused {
        /// Error.
        error: String,
    },
    /// The brokers have refused a batch as too large. For debugging.
    BatchSizeReduced {
        /// Maximum size of later batches in bytes.
        limit: usize,
    },
    /// Statistics of librdkafka are malformed. For debugging.
    StatisticsMalformed {
        /// Error.
        error: String,
    },
    /// Message or error of librdkafka. For debugging.
    ClientMessage {
        /// Text.
        message: String,
    },
}

/// Receiver of notices. Threads of librdkafka call it, too.
#[derive(Clone)]
pub struct KafkaNoticeReceiver(Arc<dyn Fn(KafkaNotice) + Send + Sync>);

impl KafkaNoticeReceiver {
    /// Creates a receiver from a callback.
    pub fn new(callback: impl Fn(KafkaNotice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn notify(&self, notice: KafkaNotice) {
        (self.0)(notice);
    }
}

impl fmt::Debug for KafkaNoticeReceiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KafkaNoticeReceiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
impl KafkaNoticeReceiver {
    /// Returns a receiver that discards all notices.
    pub(crate) fn of_test() -> Self {
        Self::new(|_| {})
    }
}
