//! Stops bintide, the broker and the source at random during a stream to Kafka. At the end, the committed records must
//! contain each change once, in order by key.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{KafkaBroker, Launch, SeededRandom, ServerClient, TestServer, wait_until_within};

use crate::kafka::{
    LastRows, PREFIX, PrimaryKeys, RecordComparison, is_of_stream, stream_to, take_printed_records,
    take_records, write_topics,
};

/// Maximum time between two faults.
const FAULT_INTERVAL_MAX: Duration = Duration::from_millis(3000);
/// Pause between two rounds of changes.
const ROUND_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for the last run.
const TIMEOUT: Duration = Duration::from_secs(300);

const TABLES: &str =
    "create database d; create table d.t (id int primary key auto_increment, n int, s varchar(400));
    create table d.large (id int primary key, n int);";

const KEYS: PrimaryKeys<'_> = &[("d.t", &["id"]), ("d.large", &["id"])];

/// A transaction of more records than one transaction of Kafka takes.
const LARGE: &str = "set session cte_max_recursion_depth = 1000000; delete from d.large;
    insert into d.large with recursive n (a) as (select 1 union all select a + 1 from n where a < 60000) select a, a from n;";

/// Fault that is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaFault {
    /// `kill -9` of bintide.
    Bintide,
    /// SIGINT to bintide, as Ctrl-C sends it.
    Interrupt,
    /// `kill -9` of the broker.
    Broker,
    /// `kill -9` of the broker, and then of bintide.
    BrokerAndBintide,
    /// The broker is shut down and started again.
    BrokerRestart,
    /// `kill -9` of the source.
    Source,
}

/// All kinds of faults; those of bintide several times, because they are fast.
pub const KAFKA_FAULTS: [KafkaFault; 9] = [
    KafkaFault::Bintide,
    KafkaFault::Bintide,
    KafkaFault::Bintide,
    KafkaFault::Bintide,
    KafkaFault::Interrupt,
    KafkaFault::Broker,
    KafkaFault::BrokerAndBintide,
    KafkaFault::BrokerRestart,
    KafkaFault::Source,
];

/// A source, a broker, and the stream between them.
pub struct KafkaSoak {
    source: TestServer,
    broker: KafkaBroker,
    directory: TempDir,
    begun: Instant,
    running: Option<Child>,
}

impl KafkaSoak {
    /// Starts the servers.
    ///
    /// # Errors
    /// Fails if a server does not start.
    pub fn new() -> Result<Self> {
        let options = ["--binlog-row-metadata=FULL", "--max-binlog-size=4M", "--sync-binlog=1"];
        let source = Launch::mysql().options(options).option("--innodb-flush-log-at-trx-commit=1").start()?;
        source.sql(TABLES)?;
        let (broker, directory) = (KafkaBroker::start(&[])?, TempDir::new()?);
        Ok(Self { source, broker, directory, begun: Instant::now(), running: None })
    }

    /// Injects the faults that `next_fault`, called with their number, returns, until it returns `None`; then streams
    /// the rest, and compares the topics with the log and with the tables. Returns the number of records.
    ///
    /// # Errors
    /// Fails if bintide ends without a fault, or if the topics differ from the records of a pipe, or from the tables.
    /// Then a directory that the error names has the messages of all runs, with the times of the faults, the records of
    /// all topics, and the files of the broker.
    pub fn run(
        mut self,
        random: &mut SeededRandom,
        next_fault: impl FnMut(u64, &mut SeededRandom) -> Option<KafkaFault>,
    ) -> Result<usize> {
        let result = self.stream_and_compare(random, next_fault);
        let Err(error) = result else { return result };
        Err(error.context(match self.keep() {
            Ok(kept) => format!("messages, topics and the files of the broker are in {}", kept.display()),
            Err(cause) => {
                format!("messages, topics and the files of the broker could not be kept: {cause:#}")
            }
        }))
    }

    fn stream_and_compare(
        &mut self,
        random: &mut SeededRandom,
        mut next_fault: impl FnMut(u64, &mut SeededRandom) -> Option<KafkaFault>,
    ) -> Result<usize> {
        let (is_over, client) = (AtomicBool::new(false), self.source.client().clone());
        thread::scope(|scope| {
            scope.spawn(|| write_load(&client, &is_over));
            let (mut count, mut result) = (0, self.follow());
            while result.is_ok()
                && let Some(fault) = next_fault(count, random)
            {
                thread::sleep(Duration::from_millis(
                    random.below(FAULT_INTERVAL_MAX.as_millis() as usize) as u64
                ));
                let event = format!("fault {count}: {fault:?}");
                result = self.note(&event).and_then(|()| self.inject(fault)).context(event);
                count += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            result
        })?;
        self.end_with(Signal::SIGKILL)?;
        self.stream_rest()?;
        self.compare()
    }

    /// Keeps what shows the cause of a difference. Returns the directory.
    fn keep(&mut self) -> Result<PathBuf> {
        self.directory.disable_cleanup(true);
        let directory = self.directory.path().to_owned();
        let written = write_topics(&self.broker, &directory.join("topics"));
        // The broker may be down, which is why the topics could not be read.
        self.broker.keep(&directory.join("broker"))?;
        written.map(|()| directory)
    }

    /// Compares the topics with the records of a pipe, and with the tables: a fault that pipe and topics share would be
    /// missed otherwise. Returns the number of records.
    fn compare(&self) -> Result<usize> {
        // Millions of values do not fit into memory.
        let mut comparison = RecordComparison::new(KEYS, |value| hash_of(&value));
        take_printed_records(&self.source, |line| comparison.add_printed(line))?;
        let mut tables = [("t", "'id', id, 'n', n, 's', s"), ("large", "'id', id, 'n', n")]
            .map(|(table, columns)| (format!("{PREFIX}.d.{table}"), table, columns, LastRows::default()));
        take_records(&self.broker, is_of_stream, |record| {
            comparison.add_found(&record)?;
            let table = tables.iter_mut().find(|(topic, ..)| *topic == record.topic);
            table.map_or(Ok(()), |(.., rows)| rows.add(&record))
        })?;
        let count = comparison.finish()?;
        for (topic, table, columns, last_rows) in &tables {
            let rows = self.source.sql(&format!("select json_object({columns}) from d.{table}"))?;
            last_rows.compare(topic, &rows, &["id"])?;
        }
        Ok(count)
    }

    fn from(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/?timeout=8", self.source.port())
    }

    fn follow(&mut self) -> Result<()> {
        let mut command = stream_to(&self.broker, &["--from", &self.from()])?;
        self.note("start")?;
        command.stdout(Stdio::null()).stderr(self.open_messages()?);
        self.running = Some(command.spawn().context("could not start bintide")?);
        Ok(())
    }

    /// Opens the file with the messages of all runs.
    fn open_messages(&self) -> Result<File> {
        Ok(File::options().create(true).append(true).open(self.messages_path())?)
    }

    fn messages_path(&self) -> PathBuf {
        self.directory.path().join("messages")
    }

    /// Adds a line with the present time to the messages.
    fn note(&self, event: &str) -> Result<()> {
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok(writeln!(self.open_messages()?, "# {seconds:.3} s: {event}")?)
    }

    fn inject(&mut self, fault: KafkaFault) -> Result<()> {
        match fault {
            KafkaFault::Bintide => self.end_with(Signal::SIGKILL)?,
            KafkaFault::Interrupt => self.end_with(Signal::SIGINT)?,
            KafkaFault::Broker => {
                self.broker.kill()?;
                self.broker.start_again()?;
            }
            KafkaFault::BrokerAndBintide => {
                self.broker.kill()?;
                self.end_with(Signal::SIGKILL)?;
                self.broker.start_again()?;
            }
            KafkaFault::BrokerRestart => {
                self.broker.stop()?;
                self.broker.start_again()?;
            }
            KafkaFault::Source => {
                self.source.kill()?;
                self.source.start_again(&[])?;
            }
        }
        let ended = self.running.as_mut().and_then(|running| running.try_wait().transpose()).transpose()?;
        match (ended, fault) {
            (None, _) if self.running.is_some() => Ok(()),
            (None, _) => self.follow(),
            // The fault came before the first connection: without a connection, bintide ends.
            (Some(status), _) if status.code() == Some(2) => self.follow(),
            (Some(status), _) => anyhow::bail!("bintide has ended ({status}): {}", self.messages()?),
        }
    }

    /// Sends a signal to bintide, and waits for its end.
    fn end_with(&mut self, signal: Signal) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let id = running.id();
        kill(Pid::from_raw(i32::try_from(id)?), signal)?;
        let waited = wait_until_within(TIMEOUT, &format!("the end of bintide after {signal}"), || {
            Ok(running.try_wait()?.is_some())
        });
        if let Err(error) = waited {
            self.note(&process_state(id))?;
            return Err(error);
        }
        self.running = None;
        let messages = self.messages()?;
        ensure!(!messages.contains("panicked"), "{messages}");
        Ok(())
    }

    fn messages(&self) -> Result<String> {
        Ok(fs::read_to_string(self.messages_path())?)
    }

    fn stream_rest(&self) -> Result<()> {
        self.note("last run")?;
        let mut command = stream_to(&self.broker, &["--from", &self.from(), "--stop-at-end"])?;
        let ran = crate::bounded::run(&mut command, TIMEOUT)?.ran;
        self.open_messages()?.write_all(ran.stderr.as_bytes())?;
        ensure!(ran.code == Some(0), "{:?}: {}", ran.code, ran.stderr);
        Ok(())
    }
}

impl Drop for KafkaSoak {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            // bintide may have ended.
            let _ = running.kill();
            let _ = running.wait();
        }
    }
}

fn hash_of(value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the signals of a process, and what each of its threads waits for.
fn process_state(id: u32) -> String {
    let directory = PathBuf::from(format!("/proc/{id}"));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
    let mut state = read(&directory.join("status"));
    for task in fs::read_dir(directory.join("task")).into_iter().flatten().flatten() {
        let [name, wait, call, signals] =
            ["comm", "wchan", "syscall", "status"].map(|name| read(&task.path().join(name)));
        let signals = signals.lines().filter(|line| line.starts_with("Sig")).collect::<Vec<_>>().join(" ");
        state += &format!("{}: {wait}, system call {}; {signals}\n", name.trim(), call.trim());
    }
    state
}

/// Changes the tables until `is_over` is set. Ignores errors, because the source may be down.
fn write_load(client: &ServerClient, is_over: &AtomicBool) {
    let begin = Instant::now();
    let mut large_transactions = 0;
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let part = number % 7;
        let _ = client.sql(&format!(
            "insert into d.t (n, s) values ({number}, repeat('x', {part} * 50)), (0, null);
             update d.t set n = n + 1 where id % 7 = {part} order by id desc limit 20;
             begin; delete from d.t where id % 31 = {part} limit 5; update d.t set id = -id where id = {number} + 3; commit;"
        ));
        // One large transaction at the start, then one per minute.
        if begin.elapsed() >= Duration::from_secs(60 * large_transactions) {
            large_transactions += 1;
            let _ = client.sql(LARGE);
        }
        number += 1;
        thread::sleep(ROUND_INTERVAL);
    }
}
