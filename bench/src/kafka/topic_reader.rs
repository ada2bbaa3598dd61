//! Reads the committed records of topics.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;
use testkit::{KafkaBroker, TestServer};

use super::paced_load::PacedLoad;

/// Time limit of requests, and of waits for records.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which waits are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time from the change of a row to the arrival of its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyPercentiles {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Runs a load, and measures the time from the change of each row to the arrival of its record in the topic.
pub(super) fn measure_latency(
    broker: &KafkaBroker,
    topic: &str,
    source: &TestServer,
    load: PacedLoad,
) -> Result<LatencyPercentiles> {
    let consumer = consumer(broker)?;
    let mut partitions = TopicPartitionList::new();
    let (_, end) = consumer.fetch_watermarks(topic, 0, TIMEOUT)?;
    partitions.add_partition_offset(topic, 0, Offset::Offset(end))?;
    consumer.assign(&partitions)?;
    wait_until_following(&consumer, source)?;
    let mut latencies = thread::scope(|scope| -> Result<Vec<f64>> {
        let running = scope.spawn(|| load.run(source));
        let read = read_latencies(&consumer, load.transactions());
        match running.join() {
            Ok(ran) => ran?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        read
    })?;
    latencies.sort_by(f64::total_cmp);
    let percentile = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    Ok(LatencyPercentiles { p50_ms: percentile(50), p99_ms: percentile(99) })
}

/// Changes rows until their records arrive within a second.
fn wait_until_following(consumer: &BaseConsumer, source: &TestServer) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        source.sql("insert into bench.l (at) values (unix_timestamp(sysdate(6)) * 1000000)")?;
        thread::sleep(Duration::from_secs(1));
        let mut newest = f64::MAX;
        while let Some(read) = consumer.poll(POLL_INTERVAL) {
            match read {
                Ok(record) => newest = latency_ms(record.payload())?,
                Err(KafkaError::PartitionEOF(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if newest < 2000.0 {
            return Ok(());
        }
    }
    anyhow::bail!("the records do not arrive")
}

fn read_latencies(consumer: &BaseConsumer, count: u64) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    while (latencies.len() as u64) < count {
        match consumer.poll(TIMEOUT) {
            None => anyhow::bail!("{} records of {count} have arrived", latencies.len()),
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(read) => latencies.push(latency_ms(read?.payload())?),
        }
    }
    Ok(latencies)
}

/// Returns the age of the row in a record, in milliseconds.
fn latency_ms(record: Option<&[u8]>) -> Result<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as f64;
    let record: Value = serde_json::from_slice(record.context("a tombstone")?)?;
    let at = record["after"]["at"].as_f64().context("a record without a time")?;
    ensure!(at > 0.0, "a record without a time");
    Ok((now - at) / 1000.0)
}

fn consumer(broker: &KafkaBroker) -> Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("group.id", "bench");
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    config.set("fetch.wait.max.ms", "5").set("enable.auto.commit", "false");
    Ok(config.create()?)
}
