//! Saved progress of a stream: the last committed records of its topic.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use stream::BrokerProgress;

use crate::error::KafkaSinkError;

/// Key of the progress.
pub(crate) const PROGRESS_KEY: &[u8] = b"progress";
/// Key of the table definitions.
pub(crate) const DEFINITIONS_KEY: &[u8] = b"definitions";
/// The partition with the progress.
pub(crate) const PROGRESS_PARTITION: i32 = 0;

/// Maximum time without a record while the progress is read.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the timeout is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Progress and table definitions that a stream has saved.
#[derive(Debug, Default)]
pub(crate) struct SavedRecords {
    pub(crate) progress: Option<BrokerProgress>,
    /// As CREATE TABLE statements.
    pub(crate) definitions: Option<String>,
}

/// Reads the saved progress. All earlier transactions of the stream must be over.
pub(crate) fn read_progress(config: &ClientConfig, topic: &str) -> Result<SavedRecords, KafkaSinkError> {
    let failed = |error: KafkaError| KafkaSinkError::Other {
        what: "reading the progress of the stream",
        reason: error.to_string(),
    };
    let mut config = config.clone();
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    config.set("enable.auto.commit", "false").set("group.id", topic).set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().map_err(failed)?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, PROGRESS_PARTITION, Offset::Beginning).map_err(failed)?;
    consumer.assign(&partitions).map_err(failed)?;
    let damaged = |reason: String| KafkaSinkError::Progress { topic: topic.to_owned(), reason };
    let (mut progress, mut definitions) = (None, None);
    let mut arrived = Instant::now();
    loop {
        match consumer.poll(POLL_INTERVAL) {
            Some(Ok(record)) => {
                let value = record.payload().map(|value| String::from_utf8(value.to_vec()));
                let value = value.transpose().map_err(|error| damaged(error.to_string()))?;
                match record.key() {
                    Some(PROGRESS_KEY) => progress = value,
                    Some(DEFINITIONS_KEY) => definitions = value,
                    _ => {}
                }
                arrived = Instant::now();
            }
            Some(Err(KafkaError::PartitionEOF(_))) => break,
            // librdkafka retries.
            Some(Err(error)) if arrived.elapsed() > READ_TIMEOUT => return Err(failed(error)),
            None if arrived.elapsed() > READ_TIMEOUT => {
                return Err(failed(KafkaError::NoMessageReceived));
            }
            Some(Err(_)) | None => {}
        }
    }
    let progress = progress.map(|text: String| BrokerProgress::parse(&text)).transpose();
    Ok(SavedRecords { progress: progress.map_err(|error| damaged(error.to_string()))?, definitions })
}
