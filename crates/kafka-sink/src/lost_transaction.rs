//! Aborts a transaction whose markers the brokers have lost.
//!
//! After a crash, the coordinator of a decided transaction writes its missing markers into the partitions. Kafka 4.3.1 skips
//! them if no broker leads the partitions at this moment, as on a single broker that starts again
//! (`TransactionMarkerChannelManager`: "Couldn't find leader endpoint for partitions"). Readers of committed records then wait
//! at the records of the transaction, and the next commit of the same producer commits them, too: together with the records
//! that the next run writes again. To prevent this, this module aborts them first.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::error::KafkaSinkError;
use crate::kafka_connection::ConnectionConfig;
use crate::kafka_context::KafkaContext;
use crate::kafka_notice::KafkaNotice;
use crate::progress_topic::PROGRESS_PARTITION;
use crate::topic_reader::{PartitionRange, TopicReader, reader_reason};

/// Time for the brokers to write the markers of a transaction that they are ending.
const MARKER_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which the markers are awaited.
const MARKER_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Key of the records that take part in the abort. Readers of committed records do not get them.
const ABORT_KEY: &[u8] = b"bintide";

/// Topics of a stream.
pub(crate) struct StreamTopics {
    /// Topic of the progress.
    pub(crate) progress: String,
    /// All topics with records of the stream, that of the progress included.
    pub(crate) all: Vec<String>,
}

/// Aborts a transaction without an end, if there is one. The producer must have ended all transactions of earlier runs.
pub(crate) fn abort_lost_transaction(
    producer: &BaseProducer<KafkaContext>,
    connection: &ConnectionConfig,
    topics: &StreamTopics,
) -> Result<(), KafkaSinkError> {
    if !topics.all.contains(&topics.progress) {
        return Ok(());
    }
    try_abort(producer, connection, topics).map_err(|error| KafkaSinkError::Other {
        what: "looking for a transaction whose end the brokers have lost",
        reason: reader_reason(&error),
    })
}

fn try_abort(
    producer: &BaseProducer<KafkaContext>,
    connection: &ConnectionConfig,
    topics: &StreamTopics,
) -> Result<(), KafkaError> {
    let ends = EndReaders {
        all: TopicReader::of_uncommitted(connection)?,
        committed: TopicReader::new(connection)?,
    };
    // A login by token goes on only within these requests.
    ends.all.partitions(&topics.progress)?;
    ends.committed.partitions(&topics.progress)?;
    // Each transaction of a stream has records in this partition, and no other producer writes to it.
    let begun = Instant::now();
    while ends.open_offset(&topics.progress, PROGRESS_PARTITION)?.is_some() {
        if begun.elapsed() < MARKER_TIMEOUT {
            thread::sleep(MARKER_INTERVAL);
            continue;
        }
        connection.notices.notify(KafkaNotice::TransactionLost { topic: topics.progress.clone() });
        return abort_open(producer, &ends, topics);
    }
    Ok(())
}

/// Readers of the ends of partitions.
struct EndReaders {
    all: TopicReader,
    committed: TopicReader,
}

impl EndReaders {
    /// Returns the offset of the first record of an open transaction in a partition.
    fn open_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, KafkaError> {
        // In this order, records between the two requests do not count as open.
        let end = self.all.range(topic, partition)?.end;
        let committed = self.committed.range(topic, partition)?.end;
        Ok(Some(committed).filter(|committed| *committed < end))
    }

    /// Returns the time of the last committed progress in milliseconds; 0 if there is none.
    fn last_commit_ms(&self, progress: &str) -> Result<i64, KafkaError> {
        let mut last = 0;
        self.committed.read(progress, &[PartitionRange::whole(PROGRESS_PARTITION)], |record| {
            last = record.timestamp().to_millis().unwrap_or(0);
        })?;
        Ok(last)
    }

    /// Returns whether a partition has an open transaction whose records were written after this time.
    fn is_open_after(&self, topic: &str, partition: i32, time_ms: i64) -> Result<bool, KafkaError> {
        let Some(start) = self.open_offset(topic, partition)? else { return Ok(false) };
        let mut is_later = false;
        self.all.read(topic, &[PartitionRange { partition, start, end: start + 1 }], |record| {
            is_later = record.timestamp().to_millis().is_none_or(|written| written > time_ms);
        })?;
        Ok(is_later)
    }
}

/// Writes a record to each partition with records of the lost transaction, and aborts: the marker ends all records of the
/// producer. Leaves out partitions whose open records are not later than the last committed progress: they are committed.
fn abort_open(
    producer: &BaseProducer<KafkaContext>,
    ends: &EndReaders,
    topics: &StreamTopics,
) -> Result<(), KafkaError> {
    let committed_ms = ends.last_commit_ms(&topics.progress)?;
    producer.begin_transaction()?;
    for topic in &topics.all {
        for partition in ends.all.partitions(topic)? {
            if ends.is_open_after(topic, partition, committed_ms)? {
                let record = BaseRecord::with_opaque_to(topic, 0).partition(partition);
                let record: BaseRecord<'_, [u8], [u8], usize> = record.key(ABORT_KEY).payload(b"");
                producer.send(record).map_err(|(error, _)| error)?;
            }
        }
    }
    // An abort discards records that are not sent yet.
    producer.flush(REQUEST_TIMEOUT)?;
    producer.abort_transaction(REQUEST_TIMEOUT)?;
    producer.context().take_failures();
    Ok(())
}
