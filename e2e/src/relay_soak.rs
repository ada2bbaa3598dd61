//! Stops a source, relays, replicas of every form, and the networks between them at random. At the end, all replicas
//! must have the source's tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{
    CutMode, Proxy, SeededRandom, ServerClient, ServerFlavour, TestPackage, TestServer, wait_until,
};

use crate::relayed::{self, RelayProcess, ReplicaStartPoint, TABLE, error_of, wait_for_equal};

/// Interruption of one part of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelayInterruption {
    /// `kill -9` of the first relay.
    RelayKill,
    /// SIGTERM to the first relay.
    RelayStop,
    /// `kill -9` of the second relay, which reads from the first one.
    SecondRelayKill,
    /// `kill -9` of the source.
    SourceKill,
    /// Clean restart of the source.
    SourceRestart,
    /// `kill -9` of a MySQL replica.
    ReplicaKill,
    /// Clean restart of any replica.
    ReplicaRestart,
    /// The connections between the source and the first relay are closed.
    SourceNetwork,
    /// The connections between the first relay and its clients are reset.
    ClientNetwork,
}

/// Interruptions to draw from. Those that take little time are drawn more often.
const INTERRUPTIONS: [RelayInterruption; 12] = [
    RelayInterruption::RelayKill,
    RelayInterruption::RelayKill,
    RelayInterruption::RelayStop,
    RelayInterruption::SecondRelayKill,
    RelayInterruption::SourceKill,
    RelayInterruption::SourceRestart,
    RelayInterruption::ReplicaKill,
    RelayInterruption::ReplicaRestart,
    RelayInterruption::SourceNetwork,
    RelayInterruption::SourceNetwork,
    RelayInterruption::ClientNetwork,
    RelayInterruption::ClientNetwork,
];

/// Replica of the test: its package, its start point and the relay that it follows.
const REPLICAS: [(TestPackage, ReplicaStartPoint, RelayNumber); 4] = [
    (TestPackage::Mysql8_0_15, ReplicaStartPoint::Gtids, RelayNumber::First),
    (TestPackage::MariaDb, ReplicaStartPoint::FirstLog, RelayNumber::First),
    (TestPackage::Mysql8_0, ReplicaStartPoint::Gtids, RelayNumber::First),
    (TestPackage::Mysql, ReplicaStartPoint::Gtids, RelayNumber::Second),
];

/// Relay that a replica follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayNumber {
    /// Reads from the source, and serves each replica by its version: as-is or plain.
    First,
    /// Reads from the first relay, and compresses for all its clients.
    Second,
}

/// Result of a soak.
#[derive(Debug, Default)]
pub struct RelaySoakCounts {
    /// Number of interruptions of each kind.
    pub interruptions: BTreeMap<RelayInterruption, u64>,
    /// Number of scripts that the source ran.
    pub rounds: u64,
}

/// The chain: a source, two relays and their replicas.
pub struct RelaySoak {
    source: TestServer,
    to_source: Proxy,
    first: RelayProcess,
    to_first: Proxy,
    second: RelayProcess,
    replicas: Vec<TestServer>,
    counts: RelaySoakCounts,
    first_options: Vec<String>,
    second_options: Vec<String>,
    _directories: [TempDir; 2],
}

/// Longest pause between two interruptions.
const PAUSE_MAX: Duration = Duration::from_millis(2500);
/// Longest pause between two interruptions of a sequence.
const SHORT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Pause between two scripts of the source. It limits the size of the logs of an hour.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a failed script, and between two checks of a replica.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Maximum time for a replica to catch up at the end.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(300);

impl RelaySoak {
    /// Starts the servers and the relays.
    ///
    /// # Errors
    ///
    /// Fails if one of them does not start.
    pub fn new() -> Result<Self> {
        let options = ["--max-binlog-size=1M", "--sync-binlog=1"];
        let source = relayed::source_launch(TestPackage::Mysql8_0).options(options).start()?;
        source.sql(TABLE)?;
        source.sql("set names latin1; create table d.n (n int primary key, hits int not null default 0) engine=innodb")?;
        let to_source = Proxy::to(source.port())?;
        let directories = [TempDir::new()?, TempDir::new()?];
        let first_options = vec![format!("--from=mysql://root@127.0.0.1:{}/", to_source.port())];
        let first = start_relay(&directories[0], &first_options)?;
        let to_first = Proxy::to(first.port)?;
        let second_options = vec![
            format!("--from=mysql://repl@127.0.0.1:{}/", to_first.port()),
            "--form=compressed:3".to_owned(),
        ];
        let second = start_relay(&directories[1], &second_options)?;
        let mut soak = Self {
            source,
            to_source,
            first,
            to_first,
            second,
            replicas: Vec::new(),
            counts: RelaySoakCounts::default(),
            first_options,
            second_options,
            _directories: directories,
        };
        for (number, (package, start, relay)) in REPLICAS.iter().enumerate() {
            let replica = start_replica(*package, number + 2)?;
            let port = match relay {
                RelayNumber::First => soak.to_first.port(),
                RelayNumber::Second => soak.second.port,
            };
            relayed::follow(&replica, port, *start)?;
            soak.replicas.push(replica);
        }
        Ok(soak)
    }

    /// Interrupts at random moments while `more`, called with the number of interruptions, returns true. Then waits
    /// until all replicas have the source's tables.
    ///
    /// # Errors
    ///
    /// Fails if a replica stops with an error or does not catch up, or if a relay does not start again.
    pub fn run(
        self,
        random: &mut SeededRandom,
        mut more: impl FnMut(u64) -> bool,
    ) -> Result<RelaySoakCounts> {
        self.interrupt_while(PAUSE_MAX, random, |done, random| {
            more(done).then(|| *random.pick(&INTERRUPTIONS))
        })
    }

    /// Interrupts in this order, with short pauses. Then waits until all replicas have the source's tables.
    ///
    /// # Errors
    ///
    /// Fails if [`RelaySoak::run`] fails.
    pub fn run_sequence(
        self,
        interruptions: &[RelayInterruption],
        random: &mut SeededRandom,
    ) -> Result<RelaySoakCounts> {
        let mut interruptions = interruptions.iter().copied();
        self.interrupt_while(SHORT_PAUSE_MAX, random, |_, _| interruptions.next())
    }

    fn interrupt_while(
        mut self,
        pause_max: Duration,
        random: &mut SeededRandom,
        mut next: impl FnMut(u64, &mut SeededRandom) -> Option<RelayInterruption>,
    ) -> Result<RelaySoakCounts> {
        let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let client = self.source.client().clone();
        thread::scope(|scope| {
            scope.spawn(|| write_load(&client, &rounds, &is_over));
            let mut done = 0;
            let mut result = Ok(());
            while result.is_ok()
                && let Some(interruption) = next(done, random)
            {
                thread::sleep(Duration::from_millis(random.below(pause_max.as_millis() as usize) as u64));
                let context = format!("interruption {done}: {interruption:?}");
                result = self.interrupt(interruption, random).with_context(|| context);
                *self.counts.interruptions.entry(interruption).or_insert(0) += 1;
                done += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            result
        })?;
        self.counts.rounds = rounds.into_inner();
        self.catch_up()?;
        Ok(std::mem::take(&mut self.counts))
    }

    fn interrupt(&mut self, interruption: RelayInterruption, random: &mut SeededRandom) -> Result<()> {
        match interruption {
            RelayInterruption::RelayKill => {
                self.first.running = None;
                run_relay(&mut self.first, &self.first_options)?;
            }
            RelayInterruption::RelayStop => {
                terminate(&mut self.first)?;
                run_relay(&mut self.first, &self.first_options)?;
            }
            RelayInterruption::SecondRelayKill => {
                self.second.running = None;
                run_relay(&mut self.second, &self.second_options)?;
            }
            RelayInterruption::SourceKill => {
                self.source.kill()?;
                self.source.start_again(&[])?;
            }
            RelayInterruption::SourceRestart => {
                self.source.stop()?;
                self.source.start_again(&[])?;
            }
            RelayInterruption::ReplicaKill => {
                // MariaDB saves the position of a MySQL source in a file, after the commit: not safe in a crash.
                let numbers: Vec<usize> = (0..REPLICAS.len())
                    .filter(|&number| REPLICAS[number].0 != TestPackage::MariaDb)
                    .collect();
                self.restart_replica(*random.pick(&numbers), TestServer::kill)?;
            }
            RelayInterruption::ReplicaRestart => {
                self.restart_replica(random.below(REPLICAS.len()), TestServer::stop)?;
            }
            RelayInterruption::SourceNetwork => {
                self.to_source.cut(CutMode::Close);
                thread::sleep(Duration::from_millis(random.below(500) as u64));
                self.to_source.mend();
            }
            RelayInterruption::ClientNetwork => {
                self.to_first.cut(CutMode::Reset);
                thread::sleep(Duration::from_millis(random.below(500) as u64));
                self.to_first.mend();
            }
        }
        for (relay, name) in [(&mut self.first, "first"), (&mut self.second, "second")] {
            let running = relay.running.as_mut().context("the relay was started")?;
            ensure!(running.try_wait()?.is_none(), "the {name} relay has ended");
        }
        Ok(())
    }

    fn restart_replica(&mut self, number: usize, end: fn(&mut TestServer) -> Result<()>) -> Result<()> {
        let replica = &mut self.replicas[number];
        if let Some(error) = error_of(replica)? {
            anyhow::bail!("replica {number} has stopped: {error}");
        }
        end(replica)?;
        replica.start_again(&[])?;
        replica.sql(if replica.home().package() == TestPackage::Mysql {
            "START REPLICA"
        } else {
            "START SLAVE"
        })?;
        Ok(())
    }

    fn catch_up(&self) -> Result<()> {
        let last = "select count(*), max(n), sum(hits) from d.n";
        let expected = self.source.sql(last)?;
        for (number, replica) in self.replicas.iter().enumerate() {
            let begin = Instant::now();
            while replica.sql(last).ok().as_ref() != Some(&expected) {
                if let Some(error) = error_of(replica)? {
                    anyhow::bail!("replica {number} has stopped: {error}");
                }
                ensure!(begin.elapsed() < CATCH_UP_TIMEOUT, "replica {number} does not catch up");
                thread::sleep(RETRY_PAUSE);
            }
            wait_for_equal(&self.source, replica).with_context(|| format!("replica {number}"))?;
        }
        Ok(())
    }
}

fn start_relay(directory: &TempDir, options: &[String]) -> Result<RelayProcess> {
    RelayProcess::start(directory.path(), &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run_relay(relay: &mut RelayProcess, options: &[String]) -> Result<()> {
    relay.run(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Ends a relay as a service manager does.
fn terminate(relay: &mut RelayProcess) -> Result<()> {
    let mut running = relay.running.take().context("the relay was started")?;
    kill(Pid::from_raw(i32::try_from(running.id())?), Signal::SIGTERM)?;
    wait_until("the end of the relay", || Ok(running.try_wait()?.is_some()))
}

fn start_replica(package: TestPackage, server_id: usize) -> Result<TestServer> {
    let launch = relayed::replica_launch(package, server_id);
    match package.flavour() {
        Some(ServerFlavour::MariaDb) => launch.option("--sync-relay-log-info=1").start(),
        _ => launch.options(["--relay-log-recovery=ON", "--max-binlog-size=10M"]).start(),
    }
}

/// Runs scripts on the source until `is_over`. A script that fails while the source is down is not repeated: the
/// replicas are compared with the source only.
fn write_load(client: &ServerClient, rounds: &AtomicU64, is_over: &AtomicBool) {
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        match client.sql(&round_script(number)) {
            Ok(_) => _ = rounds.fetch_add(1, Ordering::Relaxed),
            Err(_) => thread::sleep(RETRY_PAUSE),
        }
        thread::sleep(ROUND_PAUSE);
    }
}

/// Statements of a round. A transaction that is applied twice or left out changes the sum of `d.n.hits`.
fn round_script(number: u64) -> String {
    let compression = if number.is_multiple_of(3) { "off" } else { "on" };
    let mut script = format!(
        "set names latin1; set session binlog_transaction_compression = {compression};
         insert into d.n (n) values ({number}); update d.n set hits = hits + 1 where n % 7 = {part};
         insert into d.t values ({number}, repeat('row {number} ', 300));
         begin; update d.t set s = concat(s, '!') where id % 5 = {part} and id > {number} - 300;
         update d.n set hits = hits + {part} where n > {number} - 20; commit;
         delete from d.t where id < {number} - 1000;",
        part = number % 5,
    );
    if number.is_multiple_of(20) {
        script += &format!(
            "create table d.t{number} (id int primary key, s longtext) engine=innodb;
             insert into d.t{number} values (1, repeat('large {number} ', 300000));
             drop table if exists d.t{};",
            number.saturating_sub(60)
        );
    }
    if number.is_multiple_of(50) {
        let global = if number.is_multiple_of(100) { "on" } else { "off" };
        script += &format!("set global binlog_transaction_compression = {global}; flush binary logs;");
    }
    script
}
