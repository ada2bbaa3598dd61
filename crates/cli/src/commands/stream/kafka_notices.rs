//! Messages about a connection to Kafka.

use kafka_sink::KafkaNotice;
use tracing::{debug, info, warn};

pub(super) fn show_notice(notice: KafkaNotice) {
    match notice {
        KafkaNotice::ConnectionLost { reason } => {
            warn!("the connection to Kafka is lost: {reason}; retrying");
        }
        KafkaNotice::Reconnecting { error } => warn!("{error}; connecting to Kafka again"),
        KafkaNotice::TransactionLost { topic } => warn!(
            "the topic {topic} lacks the end of this stream's last transaction, which the brokers have lost: the transaction \
             is aborted, and its records are sent again"
        ),
        KafkaNotice::TransactionAborted { reason } => {
            warn!("the brokers have aborted a transaction: {reason}; its records are sent again");
        }
        KafkaNotice::CommitsResumed { error } => {
            info!("the brokers commit transactions again; the last error was: {error}");
        }
        KafkaNotice::DeadLetter { size, topic, key, transaction, letters } => warn!(
            "a record of {size} bytes is too large for the topic {topic} (key {key}, transaction {transaction}); it goes to \
             the topic {letters}"
        ),
        KafkaNotice::CompactionUnchecked { topic } => warn!(
            "cannot read the configuration of the topic {topic}, which is not possible with a login by token or without the \
             permission DESCRIBE_CONFIGS: its cleanup.policy must be compact, or the progress of the stream is lost"
        ),
        KafkaNotice::RegistryAway { reason } => {
            warn!("the schema registry does not answer: {reason}; retrying");
        }
        KafkaNotice::RegistryResumed { error } => {
            info!("the schema registry answers again; the last error was: {error}");
        }
        KafkaNotice::RecordRefused { error } => debug!("librdkafka refuses a record: {error}"),
        KafkaNotice::BatchSizeReduced { limit } => {
            debug!("the brokers refuse a batch; batches have at most {limit} bytes from now on");
        }
        KafkaNotice::StatisticsMalformed { error } => debug!("malformed statistics of librdkafka: {error}"),
        KafkaNotice::ClientMessage { message } => debug!("librdkafka: {message}"),
        other => warn!("{other:?}"),
    }
}
