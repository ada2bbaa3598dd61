//! `bintide stream --to kafka://…` with several partitions on three brokers: the stream, and its readers, one for each
//! partition.

use std::fmt::Write as _;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testkit::{KafkaBroker, KafkaTopics};

use super::{KafkaBenchOptions, KafkaStage, LoggedChanges, StreamRun};
use crate::doc_page;

/// Numbers of partitions.
const PARTITIONS: [i32; 3] = [1, 3, 6];
/// Number of brokers.
const BROKERS: usize = 3;

/// Measurement with a number of partitions.
struct PartitionsRun {
    partitions: i32,
    /// Small transactions, and a large one.
    runs: [StreamRun; 2],
    /// Records a second that all readers of the table's topic read together.
    read_rate: f64,
}

/// Measures each number of partitions with another stream, which begins at the start of the log.
pub(super) fn measure_partitions(changes: LoggedChanges, options: &KafkaBenchOptions) -> Result<()> {
    let mut brokers = KafkaBroker::start_cluster(BROKERS, &[])?;
    let others = brokers.split_off(1);
    let broker = brokers.pop().context("no broker")?;
    let stage = KafkaStage::start(broker, changes)?;
    let [small, large] = changes.records();
    for partitions in PARTITIONS {
        stage.create_topics(&stream_name(partitions), partitions)?;
        // Only the records of the changes count.
        stage.run_bintide(&stream_name(partitions))?;
    }
    let mut measured = Vec::new();
    stage.write_small()?;
    for partitions in PARTITIONS {
        measured.push(stage.measure_bintide(&stream_name(partitions), small)?);
    }
    stage.write_large()?;
    let mut table = Vec::new();
    for (partitions, small_run) in PARTITIONS.into_iter().zip(measured) {
        let large_run = stage.measure_bintide(&stream_name(partitions), large)?;
        let read_rate = measure_readers(&stage.broker, partitions, changes)?;
        table.push(PartitionsRun { partitions, runs: [small_run, large_run], read_rate });
    }
    drop(others);
    report(&table, options)
}

fn stream_name(partitions: i32) -> String {
    format!("p{partitions}")
}

/// Reads the topic of the table with one reader for each partition. Returns their records a second.
fn measure_readers(broker: &KafkaBroker, partitions: i32, changes: LoggedChanges) -> Result<f64> {
    let topic = format!("{}.bench.t", stream_name(partitions));
    let begun = Instant::now();
    let counts = thread::scope(|scope| -> Result<u64> {
        let read = |partition: i32| KafkaTopics::new(broker)?.count_partition(&topic, partition);
        let readers: Vec<_> = (0..partitions).map(|partition| scope.spawn(move || read(partition))).collect();
        let mut sum = 0;
        for reader in readers {
            sum += match reader.join() {
                Ok(count) => count?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        Ok(sum)
    })?;
    let expected = changes.transactions + changes.updated_rows;
    ensure!(counts == expected, "the readers read {counts} records, expected {expected}");
    Ok(counts as f64 / begun.elapsed().as_secs_f64())
}

fn report(table: &[PartitionsRun], options: &KafkaBenchOptions) -> Result<()> {
    let mut text = String::from(
        "| partitions | small transactions: records per second | CPU time per million records | one large transaction: records \
         per second | CPU time per million records | readers, one for each partition: records per second |\n\
         |--:|--:|--:|--:|--:|--:|\n",
    );
    for PartitionsRun { partitions, runs, read_rate } in table {
        let [small, large] =
            runs.map(|run| format!("{:.0} | {:.1} s", run.rate(), 1e6 / run.records_per_cpu_second()));
        writeln!(text, "| {partitions} | {small} | {large} | {read_rate:.0} |")?;
    }
    text.push_str(&doc_page::conditions()?);
    match options.quick {
        true => println!("{text}"),
        false => doc_page::KAFKA.write("partitions", &text)?,
    }
    Ok(())
}
