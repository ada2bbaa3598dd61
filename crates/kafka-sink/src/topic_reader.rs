//! Reading of the committed records of a topic.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

use crate::kafka_connection::{ConnectionConfig, ReaderContext, fetch_metadata, reason_of};

/// Maximum time without a record.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for all brokers to learn of a topic that has just been created.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which timeouts and Ctrl-C are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reader of topics.
pub(crate) struct TopicReader {
    consumer: BaseConsumer<ReaderContext>,
}

/// Range of the records of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionRange {
    pub(crate) partition: i32,
    /// Offset of the first record.
    pub(crate) start: i64,
    /// Offset after the last record.
    pub(crate) end: i64,
}

impl PartitionRange {
    /// Returns the range of all records of a partition.
    pub(crate) const fn whole(partition: i32) -> Self {
        Self { partition, start: 0, end: i64::MAX }
    }
}

impl TopicReader {
    /// Creates a reader of committed records.
    pub(crate) fn new(connection: &ConnectionConfig) -> Result<Self, KafkaError> {
        Self::with_isolation(connection, "read_committed")
    }

    /// Creates a reader of all records.
    pub(crate) fn of_uncommitted(connection: &ConnectionConfig) -> Result<Self, KafkaError> {
        Self::with_isolation(connection, "read_uncommitted")
    }

    fn with_isolation(connection: &ConnectionConfig, level: &str) -> Result<Self, KafkaError> {
        let mut connection = connection.clone();
        let config = &mut connection.client;
        config.set("isolation.level", level).set("enable.partition.eof", "true");
        config.set("enable.auto.commit", "false").set("group.id", "bintide");
        // Also counts for a range whose first records Kafka has deleted.
        config.set("auto.offset.reset", "earliest");
        Ok(Self { consumer: connection.consumer()? })
    }

    /// Returns the names of all topics.
    pub(crate) fn topics(&self) -> Result<Vec<String>, KafkaError> {
        let metadata = fetch_metadata(&self.consumer, None, READ_TIMEOUT)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Returns the partitions of a topic.
    pub(crate) fn partitions(&self, topic: &str) -> Result<Vec<i32>, KafkaError> {
        let begun = Instant::now();
        loop {
            let metadata = fetch_metadata(&self.consumer, Some(topic), READ_TIMEOUT)?;
            let found = metadata.topics().first();
            let partitions = found.map_or(&[][..], |topic| topic.partitions());
            if !partitions.is_empty() {
                return Ok(partitions.iter().map(|partition| partition.id()).collect());
            }
            let code = found.and_then(|topic| topic.error());
            let code = code.map_or(RDKafkaErrorCode::UnknownTopicOrPartition, RDKafkaErrorCode::from);
            if is_final(code, begun) || (self.consumer.context().is_stop_requested)() {
                return Err(KafkaError::MetadataFetch(code));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the range of the present records of a partition, for a reader of committed records up to the first open
    /// transaction.
    pub(crate) fn range(&self, topic: &str, partition: i32) -> Result<PartitionRange, KafkaError> {
        let (start, end) = self.consumer.fetch_watermarks(topic, partition, READ_TIMEOUT)?;
        Ok(PartitionRange { partition, start, end })
    }

    /// Reads the committed records of these ranges of a topic, up to the present end of each partition.
    pub(crate) fn read(
        &self,
        topic: &str,
        ranges: &[PartitionRange],
        mut take: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<(), KafkaError> {
        let mut partitions = TopicPartitionList::new();
        let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
        for range in ranges.iter().filter(|range| range.start < range.end) {
            let start = if range.start == 0 { Offset::Beginning } else { Offset::Offset(range.start) };
            partitions.add_partition_offset(topic, range.partition, start)?;
            ends.insert(range.partition, range.end);
        }
        // Without a check, librdkafka waits for a topic that does not exist.
        self.partitions(topic)?;
        let (mut arrived, mut last) = (Instant::now(), None);
        self.consumer.assign(&partitions)?;
        while !ends.is_empty() {
            match self.consumer.poll(POLL_INTERVAL) {
                Some(Ok(record)) => {
                    arrived = Instant::now();
                    let Some(end) = ends.get(&record.partition()).copied() else { continue };
                    if record.offset() < end {
                        take(&record);
                    }
                    if record.offset() + 1 >= end {
                        ends.remove(&record.partition());
                    }
                }
                // While others write, the end of a partition is reported several times.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ends.remove(&partition);
                }
                Some(Err(error)) => {
                    if error.rdkafka_error_code().is_some_and(|code| is_final(code, arrived)) {
                        return Err(error);
                    }
                    // librdkafka retries.
                    last = Some(error);
                }
                None => {}
            }
            if (self.consumer.context().is_stop_requested)() {
                return Err(last.unwrap_or(KafkaError::Canceled));
            }
            if arrived.elapsed() > READ_TIMEOUT {
                return Err(last.unwrap_or(KafkaError::NoMessageReceived));
            }
        }
        self.consumer.unassign()
    }
}

/// Returns whether the error of a reader that has waited since then will not end.
fn is_final(code: RDKafkaErrorCode, since: Instant) -> bool {
    match code {
        RDKafkaErrorCode::TopicAuthorizationFailed
        | RDKafkaErrorCode::GroupAuthorizationFailed
        | RDKafkaErrorCode::ClusterAuthorizationFailed => true,
        RDKafkaErrorCode::UnknownTopic
        | RDKafkaErrorCode::UnknownTopicOrPartition
        | RDKafkaErrorCode::UnknownPartition => since.elapsed() > UNKNOWN_TIMEOUT,
        _ => false,
    }
}

/// Returns the reason of an error of a reader, for people.
pub(crate) fn reader_reason(error: &KafkaError) -> String {
    match error {
        KafkaError::Canceled => "a stop was requested".to_owned(),
        KafkaError::NoMessageReceived => {
            format!("no record was received for {} s", READ_TIMEOUT.as_secs())
        }
        KafkaError::MessageConsumption(code) | KafkaError::MetadataFetch(code) => code.to_string(),
        error => reason_of(error),
    }
}

/// Returns key and value of a record.
pub(crate) fn parts<'r>(record: &'r BorrowedMessage<'_>) -> (Option<&'r [u8]>, Option<&'r [u8]>) {
    (record.key(), record.payload())
}
