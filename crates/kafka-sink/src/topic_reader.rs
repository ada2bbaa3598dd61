//! Reading of a topic from its start to its present end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::kafka_connection::{ConnectionConfig, fetch_metadata};

/// Maximum time without a record.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the timeout is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the partitions of a topic.
pub(crate) fn partitions_of(connection: &ConnectionConfig, topic: &str) -> Result<Vec<i32>, KafkaError> {
    let metadata = fetch_metadata(&connection.consumer()?, Some(topic), READ_TIMEOUT)?;
    let partitions: Vec<i32> = metadata
        .topics()
        .iter()
        .flat_map(|topic| topic.partitions())
        .map(|partition| partition.id())
        .collect();
    match partitions.is_empty() {
        true => Err(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition)),
        false => Ok(partitions),
    }
}

/// Reads all committed records of these partitions of a topic, from their start to their present end.
pub(crate) fn read_topic(
    connection: &ConnectionConfig,
    topic: &str,
    numbers: &[i32],
    mut take: impl FnMut(&BorrowedMessage<'_>),
) -> Result<(), KafkaError> {
    let mut connection = connection.clone();
    let config = &mut connection.client;
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    config.set("enable.auto.commit", "false").set("group.id", topic).set("auto.offset.reset", "earliest");
    let consumer = connection.consumer()?;
    let mut partitions = TopicPartitionList::new();
    for number in numbers {
        partitions.add_partition_offset(topic, *number, Offset::Beginning)?;
    }
    // While others write, the end of a partition is reported several times.
    let (mut ended, mut arrived) = (BTreeSet::new(), Instant::now());
    consumer.assign(&partitions)?;
    while ended.len() < partitions.count() {
        match consumer.poll(POLL_INTERVAL) {
            Some(Ok(record)) => {
                take(&record);
                arrived = Instant::now();
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            // librdkafka retries.
            Some(Err(error)) if arrived.elapsed() > READ_TIMEOUT => return Err(error),
            None if arrived.elapsed() > READ_TIMEOUT => return Err(KafkaError::NoMessageReceived),
            Some(Err(_)) | None => {}
        }
    }
    Ok(())
}

/// Returns key and value of a record.
pub(crate) fn parts<'r>(record: &'r BorrowedMessage<'_>) -> (Option<&'r [u8]>, Option<&'r [u8]>) {
    (record.key(), record.payload())
}
