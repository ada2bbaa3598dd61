//! Reading of the committed records of a topic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

use crate::kafka_connection::{ConnectionConfig, ReaderContext, fetch_metadata};

/// Maximum time without a record.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the timeout is checked.
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
        let metadata = fetch_metadata(&self.consumer, Some(topic), READ_TIMEOUT)?;
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
        let mut arrived = Instant::now();
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
                // librdkafka retries.
                Some(Err(error)) if arrived.elapsed() > READ_TIMEOUT => return Err(error),
                None if arrived.elapsed() > READ_TIMEOUT => return Err(KafkaError::NoMessageReceived),
                Some(Err(_)) | None => {}
            }
        }
        self.consumer.unassign()
    }
}

/// Returns key and value of a record.
pub(crate) fn parts<'r>(record: &'r BorrowedMessage<'_>) -> (Option<&'r [u8]>, Option<&'r [u8]>) {
    (record.key(), record.payload())
}
