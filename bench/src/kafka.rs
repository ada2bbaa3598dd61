//! `bintide stream --to kafka://…` beside Debezium Server: the same source and broker, changes that are in the log
//! already, and the latency of new ones.

mod paced_load;
mod partitions;
mod topic_reader;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{DebeziumServer, KafkaBroker, KafkaTopics, ProcessMemory, TestServer};

use self::paced_load::PacedLoad;
use self::topic_reader::{LatencyPercentiles, measure_latency};
use super::workload_runs::process_cpu_seconds;
use super::{doc_page, measure};
use crate::workloads;

/// Extent of the bench.
#[derive(Args)]
pub(crate) struct KafkaBenchOptions {
    /// Write fewer changes, for shorter times, and write no page
    #[arg(long)]
    quick: bool,
    /// Measure bintide with 1, 3 and 6 partitions on three brokers, instead of beside Debezium
    #[arg(long)]
    partitions: bool,
}

/// Changes that are in the log already.
#[derive(Clone, Copy)]
struct LoggedChanges {
    /// Transactions that insert one row.
    transactions: u64,
    /// Rows that one transaction updates.
    updated_rows: u64,
}

impl LoggedChanges {
    const FULL: Self = Self { transactions: 200_000, updated_rows: 2_700_000 };
    const QUICK: Self = Self { transactions: 20_000, updated_rows: 100_000 };

    /// Returns the number of records: a row, and the start and the end of each transaction.
    const fn records(self) -> [u64; 2] {
        [3 * self.transactions, self.updated_rows + 2]
    }
}

/// Topic prefix of Debezium's records.
const DEBEZIUM_NAME: &str = "debezium";
/// Topic prefix of bintide's records.
const BINTIDE_NAME: &str = "bintide";
/// Topics of each prefix, besides the one of definitions.
const TOPICS: [&str; 4] = ["transaction", "bench.t", "bench.z", "bench.l"];
/// Time limit of Debezium.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Interval at which Debezium's progress is read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Transactions a second while the latency is measured.
const LATENCY_RATE: u32 = 1000;

/// Goals.
const GOAL_RATIO: f64 = 20.0;
const GOAL_RATE: f64 = 150_000.0;
const GOAL_MB: f64 = 200.0;
const GOAL_P99_MS: f64 = 50.0;

/// Measurement of one kind of changes.
#[derive(Clone, Copy, Debug)]
struct StreamRun {
    records: u64,
    seconds: f64,
    cpu_seconds: f64,
    peak_bytes: u64,
}

impl StreamRun {
    fn rate(self) -> f64 {
        self.records as f64 / self.seconds.max(0.001)
    }

    fn records_per_cpu_second(self) -> f64 {
        self.records as f64 / self.cpu_seconds.max(0.01)
    }
}

/// Measurements of one program.
struct ProgramRuns {
    name: &'static str,
    /// Small transactions, and a large one.
    runs: [StreamRun; 2],
    latency: LatencyPercentiles,
}

/// The source, the broker and bintide.
struct KafkaStage {
    source: TestServer,
    broker: KafkaBroker,
    topics: KafkaTopics,
    bintide: PathBuf,
    changes: LoggedChanges,
}

pub(crate) fn measure_kafka(options: &KafkaBenchOptions) -> Result<()> {
    testkit::run_cargo(&["build", "--quiet", "--release", "--package", "bintide", "--features", "kafka"])?;
    let changes = if options.quick { LoggedChanges::QUICK } else { LoggedChanges::FULL };
    if options.partitions {
        return partitions::measure_partitions(changes, options);
    }
    let broker = KafkaBroker::start(&[])?;
    let stage = KafkaStage::start(broker, changes)?;
    [DEBEZIUM_NAME, BINTIDE_NAME].iter().try_for_each(|name| stage.create_topics(name, 1))?;
    let mut debezium = DebeziumServer::new(
        DEBEZIUM_NAME,
        &stage.source,
        &stage.broker,
        &["debezium.source.provide.transaction.metadata=true"],
    )?;
    stage.position_debezium(&mut debezium)?;
    stage.run_bintide(BINTIDE_NAME)?;
    let seconds = if options.quick { 10 } else { 60 };
    let mut measured: [Vec<StreamRun>; 2] = [Vec::new(), Vec::new()];
    let small = stage.changes.records()[0];
    stage.write_small()?;
    measured[0].push(stage.measure_debezium(&mut debezium, small)?);
    measured[1].push(stage.measure_bintide(BINTIDE_NAME, small)?);
    stage.write_large()?;
    let large = stage.changes.records()[1];
    measured[0].push(stage.measure_debezium(&mut debezium, large)?);
    measured[1].push(stage.measure_bintide(BINTIDE_NAME, large)?);
    let load = PacedLoad { rate: LATENCY_RATE, seconds };
    let latencies = [stage.debezium_latency(&mut debezium, load)?, stage.bintide_latency(load)?];
    let names = ["Debezium Server", "bintide"];
    let mut programs = Vec::new();
    for ((name, runs), latency) in names.into_iter().zip(measured).zip(latencies) {
        let runs = runs.try_into().ok().context("two runs")?;
        programs.push(ProgramRuns { name, runs, latency });
    }
    report(&programs, options)
}

impl KafkaStage {
    /// Starts the source, and prepares its tables. Topics are on the cluster of `broker`.
    fn start(broker: KafkaBroker, changes: LoggedChanges) -> Result<Self> {
        let stage = Self {
            source: workloads::launch_server().start()?,
            topics: KafkaTopics::new(&broker)?,
            broker,
            bintide: testkit::target_dir().join("release/bintide"),
            changes,
        };
        stage.prepare()?;
        Ok(stage)
    }

    fn prepare(&self) -> Result<()> {
        self.source.sql(
            "create user debezium@'%' identified by 'debezium'; grant all on *.* to debezium@'%'; create database bench;
             create table bench.t (id bigint primary key auto_increment, a int, v varchar(64), d decimal(10,2), ts datetime(3));
             create table bench.z (id int primary key auto_increment); create table bench.big like bench.t;",
        )?;
        self.source.sql(paced_load::DEFINITIONS)?;
        self.source.sql(
            "delimiter //
             create procedure bench.fill(n int) begin declare i int default 0;
               while i < n do insert into bench.t (a, v, d, ts) values (i, concat('some value number ', i), i / 100, now(3));
                 set i = i + 1; end while; end//",
        )?;
        Ok(())
    }

    /// Creates the topics of a stream.
    fn create_topics(&self, name: &str, partitions: i32) -> Result<()> {
        let mut topics = vec![name.to_owned()];
        topics.extend(TOPICS.iter().map(|topic| format!("{name}.{topic}")));
        self.topics.create(&topics, partitions)
    }

    /// Runs Debezium until it has stored a position in the log.
    fn position_debezium(&self, debezium: &mut DebeziumServer) -> Result<()> {
        debezium.start()?;
        let begun = Instant::now();
        let topic = format!("{DEBEZIUM_NAME}.bench.z");
        while self.topics.end_offset(&topic)? == 0 {
            ensure!(begun.elapsed() < TIMEOUT, "Debezium writes nothing: {}", debezium.last_log_lines());
            self.source.sql("insert into bench.z values ()")?;
            thread::sleep(Duration::from_secs(1));
        }
        debezium.stop()
    }

    fn write_small(&self) -> Result<()> {
        eprintln!("writing {} small transactions", self.changes.transactions);
        self.source.sql(&format!(
            "set global sync_binlog = 0; set global innodb_flush_log_at_trx_commit = 0;
             call bench.fill({})",
            self.changes.transactions
        ))?;
        Ok(())
    }

    /// Writes one transaction that updates many rows. The rows themselves are not logged.
    fn write_large(&self) -> Result<()> {
        let LoggedChanges { transactions, updated_rows } = self.changes;
        eprintln!("updating {updated_rows} rows in one transaction");
        self.source.sql(&format!(
            "set session sql_log_bin = 0, cte_max_recursion_depth = 100000000;
             insert into bench.t (id, a, v, d, ts)
               with recursive n (i) as (select {transactions} + 1 union all select i + 1 from n where i < {updated_rows})
               select i, i, concat('some value number ', i), i / 100, now(3) from n;
             set session sql_log_bin = 1;
             update bench.t set a = a + 1 where id <= {updated_rows};"
        ))?;
        Ok(())
    }

    /// Returns the number of records that Debezium has written.
    fn debezium_records(&self) -> Result<u64> {
        let topics = ["transaction", "bench.t"].map(|topic| format!("{DEBEZIUM_NAME}.{topic}"));
        Ok(self.topics.end_offset(&topics[0])? + self.topics.end_offset(&topics[1])?)
    }

    /// Measures Debezium from its first record to its last one, without its start.
    fn measure_debezium(&self, debezium: &mut DebeziumServer, records: u64) -> Result<StreamRun> {
        let before = self.debezium_records()?;
        debezium.start()?;
        let pid = debezium.pid().context("Debezium does not run")?;
        let begun = Instant::now();
        let wait_for = |count: u64| -> Result<()> {
            while self.debezium_records()? < count {
                ensure!(begun.elapsed() < TIMEOUT, "Debezium writes nothing: {}", debezium.last_log_lines());
                thread::sleep(POLL_INTERVAL);
            }
            Ok(())
        };
        wait_for(before + 1)?;
        let (first, cpu_before, started) =
            (self.debezium_records()?, process_cpu_seconds(pid)?, Instant::now());
        wait_for(before + records)?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu_seconds = process_cpu_seconds(pid)? - cpu_before;
        let peak_bytes = ProcessMemory::of(pid)?.peak_kib * 1024;
        debezium.stop()?;
        let run = StreamRun { records: before + records - first, seconds, cpu_seconds, peak_bytes };
        eprintln!("Debezium: {run:?}");
        Ok(run)
    }

    fn bintide_arguments(&self, name: &str) -> Vec<String> {
        vec![
            "stream".to_owned(),
            "--format=debezium".to_owned(),
            format!("--from=mysql://root@127.0.0.1:{}/", self.source.port()),
            format!("--to=kafka://{}/", self.broker.address()),
            format!("--name={name}"),
        ]
    }

    /// Runs bintide to the end of the log.
    fn run_bintide(&self, name: &str) -> Result<measure::RunMeasurement> {
        let mut command = vec![self.bintide.clone().into_os_string()];
        command.extend(self.bintide_arguments(name).into_iter().map(Into::into));
        command.push("--stop-at-end".into());
        measure::run_measured(&command, None)
    }

    /// Measures bintide with its start and its end.
    fn measure_bintide(&self, name: &str, records: u64) -> Result<StreamRun> {
        let topics = ["transaction", "bench.t"].map(|topic| format!("{name}.{topic}"));
        let count =
            || Ok::<u64, anyhow::Error>(self.topics.count(&topics[0])? + self.topics.count(&topics[1])?);
        let before = count()?;
        let measured = self.run_bintide(name)?;
        let found = count()? - before;
        ensure!(found == records, "bintide has written {found} records, expected {records}");
        let measure::RunMeasurement { seconds, cpu_seconds, peak_bytes } = measured;
        let run = StreamRun { records, seconds, cpu_seconds, peak_bytes };
        eprintln!("bintide: {run:?}");
        Ok(run)
    }

    fn debezium_latency(&self, debezium: &mut DebeziumServer, load: PacedLoad) -> Result<LatencyPercentiles> {
        debezium.start()?;
        let measured = measure_latency(&self.broker, &format!("{DEBEZIUM_NAME}.bench.l"), &self.source, load);
        debezium.stop()?;
        measured
    }

    fn bintide_latency(&self, load: PacedLoad) -> Result<LatencyPercentiles> {
        let mut command = Command::new(&self.bintide);
        command
            .env_clear()
            .args(self.bintide_arguments(BINTIDE_NAME))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let _process = StreamProcess(command.spawn().context("could not start bintide stream")?);
        measure_latency(&self.broker, &format!("{BINTIDE_NAME}.bench.l"), &self.source, load)
    }
}

/// Running `bintide stream`, which is stopped on drop.
struct StreamProcess(Child);

impl Drop for StreamProcess {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let _ = self.0.wait();
    }
}

fn report(programs: &[ProgramRuns], options: &KafkaBenchOptions) -> Result<()> {
    let mut text = String::from(
        "| program | changes | records | records per second | CPU time per million records | memory |\n|---|---|--:|--:|--:|--:|\n",
    );
    for program in programs {
        for (changes, run) in ["small transactions", "one large transaction"].into_iter().zip(program.runs) {
            writeln!(
                text,
                "| {} | {changes} | {} | {:.0} | {:.1} s | {:.0} MB |",
                program.name,
                run.records,
                run.rate(),
                1e6 / run.records_per_cpu_second(),
                run.peak_bytes as f64 / 1e6
            )?;
        }
    }
    writeln!(text, "\n| program | latency p50 | latency p99 |\n|---|--:|--:|")?;
    for ProgramRuns { name, latency, .. } in programs {
        writeln!(text, "| {name} | {:.0} ms | {:.0} ms |", latency.p50_ms, latency.p99_ms)?;
    }
    text.push_str(&doc_page::conditions()?);
    let [debezium, bintide] = programs else { return Ok(()) };
    let ratio = bintide.runs[0].records_per_cpu_second() / debezium.runs[0].records_per_cpu_second();
    let memory = bintide.runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0) as f64 / 1e6;
    eprintln!(
        "goals: {GOAL_RATIO:.0} times; {GOAL_RATE:.0} records/s; below {GOAL_MB:.0} MB; p99 below {GOAL_P99_MS:.0} ms"
    );
    let last_line = format!(
        "kafka: {ratio:.1} times Debezium's records a CPU second, {:.0} records/s, {memory:.0} MB, p99 {:.0} ms",
        bintide.runs[0].rate(),
        bintide.latency.p99_ms
    );
    if options.quick {
        println!("{text}");
    } else {
        doc_page::KAFKA.write("kafka", &text)?;
        doc_page::KAFKA.write("lines", &format!("```text\n{last_line}\n```"))?;
    }
    println!("{last_line}");
    Ok(())
}
