//! Reads the committed records of a broker's topics.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::kafka_broker::KafkaBroker;

/// Time limit of requests, and of waits for records.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which waits are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time limit of the wait for the end of transactions. A killed producer leaves one open.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two checks for open transactions.
const TRANSACTION_INTERVAL: Duration = Duration::from_millis(10);

/// Topics of a broker, and a consumer of committed records.
pub struct KafkaTopics {
    config: ClientConfig,
    consumer: BaseConsumer,
    /// Consumer that also reads the records of open transactions.
    uncommitted_consumer: BaseConsumer,
}

impl KafkaTopics {
    /// Creates a reader.
    ///
    /// # Errors
    /// Fails if a consumer cannot be created.
    pub fn new(broker: &KafkaBroker) -> Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.address()).set("group.id", "test");
        config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        config.set("fetch.wait.max.ms", "5").set("enable.auto.commit", "false");
        let consumer = config.create()?;
        let uncommitted_consumer = config.clone().set("isolation.level", "read_uncommitted").create()?;
        Ok(Self { config, consumer, uncommitted_consumer })
    }

    /// Returns the names of all topics.
    ///
    /// # Errors
    /// Fails if the broker does not answer.
    pub fn names(&self) -> Result<Vec<String>> {
        let metadata = self.consumer.fetch_metadata(None, TIMEOUT)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Creates topics, with the default number of replicas.
    ///
    /// # Errors
    /// Fails if the broker does not create one of them.
    pub fn create(&self, names: &[impl AsRef<str>], partitions: i32) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let topic = |name| NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
        let topics: Vec<NewTopic<'_>> = names.iter().map(|name| topic(name.as_ref())).collect();
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
        for created in block_on(admin.create_topics(&topics, &options))? {
            created.map_err(|(topic, code)| anyhow!("could not create {topic}: {code}"))?;
        }
        Ok(())
    }

    /// Deletes topics.
    ///
    /// # Errors
    /// Fails if the broker does not delete one of them.
    pub fn delete(&self, names: &[&str]) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
        for deleted in block_on(admin.delete_topics(names, &options))? {
            deleted.map_err(|(topic, code)| anyhow!("could not delete {topic}: {code}"))?;
        }
        Ok(())
    }

    /// Returns a property of a topic; `None` if topics do not have it.
    ///
    /// # Errors
    /// Fails if the broker does not answer, or there is no such topic.
    pub fn property(&self, topic: &str, name: &str) -> Result<Option<String>> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
        let described = block_on(admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options))?;
        let described = described.into_iter().next().context("no answer")?;
        let described = described.map_err(|code| anyhow!("could not read {topic}: {code}"))?;
        Ok(described.get(name).and_then(|entry| entry.value.clone()))
    }

    /// Returns the sum of the ends of a topic's partitions: the number of its records, if no producer of it uses
    /// transactions.
    ///
    /// # Errors
    /// Fails if the broker does not answer.
    pub fn end_offset(&self, topic: &str) -> Result<u64> {
        let mut sum = 0;
        for partition in self.partitions(topic)? {
            let (_, end) = self.consumer.fetch_watermarks(topic, partition, TIMEOUT)?;
            sum += u64::try_from(end)?;
        }
        Ok(sum)
    }

    /// Reads all committed records of a topic, from the start of each partition to its present end.
    ///
    /// Brokers answer a commit before they write its markers into the partitions, and only then readers see its
    /// records. So this waits, for a short time, until no transaction is open.
    ///
    /// # Errors
    /// Fails if the topic cannot be read in time, or if `take` fails.
    pub fn read(&self, topic: &str, take: impl FnMut(&BorrowedMessage<'_>) -> Result<()>) -> Result<()> {
        let (partitions, begin) = (self.partitions(topic)?, Instant::now());
        while self.has_open_transaction(topic, &partitions)? && begin.elapsed() < TRANSACTION_TIMEOUT {
            sleep(TRANSACTION_INTERVAL);
        }
        self.read_partitions(topic, &partitions, take)
    }

    fn has_open_transaction(&self, topic: &str, partitions: &[i32]) -> Result<bool> {
        for partition in partitions {
            let end = |consumer: &BaseConsumer| consumer.fetch_watermarks(topic, *partition, TIMEOUT);
            // In this order, a record between the two requests counts as open, not as committed.
            if end(&self.consumer)?.1 < end(&self.uncommitted_consumer)?.1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read_partitions(
        &self,
        topic: &str,
        partitions: &[i32],
        mut take: impl FnMut(&BorrowedMessage<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut assigned = TopicPartitionList::new();
        for partition in partitions {
            assigned.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        self.consumer.assign(&assigned)?;
        // While others write, the end of a partition is reported several times.
        let (mut ended, mut arrived) = (BTreeSet::new(), Instant::now());
        while ended.len() < assigned.count() {
            match self.consumer.poll(POLL_INTERVAL) {
                None => ensure!(arrived.elapsed() < TIMEOUT, "{topic} cannot be read to its end"),
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(ended.insert(partition)),
                Some(record) => {
                    take(&record?)?;
                    arrived = Instant::now();
                }
            }
        }
        self.consumer.unassign()?;
        Ok(())
    }

    /// Counts the committed records of a topic.
    ///
    /// # Errors
    /// Fails if the topic cannot be read in time.
    pub fn count(&self, topic: &str) -> Result<u64> {
        self.count_partitions(topic, &self.partitions(topic)?)
    }

    /// Counts the committed records of a partition.
    ///
    /// # Errors
    /// Fails if the partition cannot be read in time.
    pub fn count_partition(&self, topic: &str, partition: i32) -> Result<u64> {
        self.count_partitions(topic, &[partition])
    }

    fn count_partitions(&self, topic: &str, partitions: &[i32]) -> Result<u64> {
        let mut count = 0;
        self.read_partitions(topic, partitions, |_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    fn partitions(&self, topic: &str) -> Result<Vec<i32>> {
        let metadata = self.consumer.fetch_metadata(Some(topic), TIMEOUT)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        Ok(partitions.map(|partition| partition.id()).collect())
    }
}
