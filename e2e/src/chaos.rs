//! Stops replays at random points and resumes them: at the end, the target has the same rows as the
//! source, and no change was applied twice.

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::{CutMode, Launch, Proxy, SeededRandom, TestServer};

use crate::as_sql::are_equal;
use crate::program::bintide;
use crate::replays::{self, checksum};

/// Fault that stops a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayFault {
    /// `kill -9` of bintide.
    BintideKill,
    /// `kill -9` of the target.
    TargetKill,
    /// The target is shut down and started again.
    TargetRestart,
    /// All connections are closed.
    ConnectionClose,
    /// All connections are reset.
    ConnectionReset,
}

impl ReplayFault {
    /// All kinds of faults.
    pub const ALL: [Self; 5] = [
        Self::BintideKill,
        Self::TargetKill,
        Self::TargetRestart,
        Self::ConnectionClose,
        Self::ConnectionReset,
    ];
}

/// Options of a replay and its target.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySetup {
    /// Option of the target for its binary log.
    pub log: &'static str,
    /// Options of `bintide replay`.
    pub options: &'static [&'static str],
}

/// All commit orders, with and without a binary log on the target, as events and as statements.
pub const REPLAY_SETUPS: [ReplaySetup; 7] = [
    ReplaySetup { log: "--skip-log-bin", options: &["--commit-order", "grouped", "--group-max", "7"] },
    ReplaySetup { log: "--log-bin=binlog", options: &["--commit-order", "grouped"] },
    ReplaySetup { log: "--skip-log-bin", options: &["--commit-order", "any"] },
    ReplaySetup { log: "--skip-log-bin", options: &["--commit-order", "strict"] },
    ReplaySetup { log: "--skip-log-bin", options: &["--commit-order", "strict", "--apply-as", "sql"] },
    ReplaySetup { log: "--log-bin=binlog", options: &["--commit-order", "grouped", "--apply-as", "sql"] },
    ReplaySetup { log: "--log-bin=binlog", options: &["--log"] },
];

/// Maximum number of faults for one target: a server that crashed many times starts slowly.
const FAULTS_MAX: usize = 12;

/// Starts a source with changes of many kinds. Some rows have no key, so that a change that is applied twice is
/// visible. With `CREATE TABLE … SELECT` repeatedly, if the server supports it.
///
/// # Errors
/// Fails if the server does not start, or refuses a statement.
pub fn source(launch: &Launch, size: usize) -> Result<TestServer> {
    let source = replays::source(launch, &[])?;
    source.sql(
        "create database d; create table d.t (id int primary key auto_increment, n int); create table d.v (n int)",
    )?;
    source.sql(&"insert into d.t (n) values (1), (2), (3); update d.t set n = n + 1;".repeat(12 * size))?;
    let changes = "insert into d.v values (1), (2); alter table d.v add index i (n);
                   delete from d.v limit 1; alter table d.v drop index i;
                   xa start 'x'; insert into d.v values (3); xa end 'x'; xa prepare 'x'; xa commit 'x';
                   create table d.u like d.t; insert into d.u select * from d.t; drop table d.u;";
    source.sql(&changes.repeat(size))?;
    source.sql(&"insert into d.v select n from d.t;".repeat(2 * size))?;
    source.sql("create table d.u as select * from d.t where id % 2; flush binary logs")?;
    Ok(source)
}

/// Repeated replays of one source with one set of options, to one target after the other.
pub struct Chaos<'s> {
    source: &'s TestServer,
    setup: ReplaySetup,
    /// Duration of a replay without faults.
    duration: Duration,
}

/// One target, and the proxy in front of it.
struct ProxiedTarget {
    server: TestServer,
    proxy: Proxy,
}

impl<'s> Chaos<'s> {
    /// Runs the first replay, without faults.
    ///
    /// # Errors
    /// Fails if the replay fails.
    pub fn new(source: &'s TestServer, setup: ReplaySetup) -> Result<Self> {
        bintide()?;
        let mut chaos = Self { source, setup, duration: Duration::ZERO };
        let (target, start_replay) = (chaos.target()?, Instant::now());
        let output = chaos.start_replay(&target)?.wait_with_output()?;
        chaos.duration = start_replay.elapsed();
        ensure!(output.status.success(), "{setup:?}: {}", String::from_utf8_lossy(&output.stderr));
        chaos.ends_equal(&target)?;
        Ok(chaos)
    }

    /// Injects `count` faults, drawn from these, at random moments, and lets replays finish in between. Returns the
    /// number of faults of each kind.
    ///
    /// # Errors
    /// Fails if a target differs from the source at the end, or a replay cannot resume.
    pub fn inject_faults(
        &self,
        faults: &[ReplayFault],
        count: usize,
        random: &mut SeededRandom,
    ) -> Result<BTreeMap<ReplayFault, usize>> {
        let (mut injected, mut total) = (BTreeMap::new(), 0);
        while total < count {
            let mut target = self.target()?;
            for _ in 0..FAULTS_MAX.min(count - total) {
                let fault = *random.pick(faults);
                let moment = random.below(usize::try_from(self.duration.as_micros())?);
                let mut child = self.start_replay(&target)?;
                thread::sleep(Duration::from_micros(moment as u64));
                let is_over = child.try_wait()?.is_some();
                let output = if is_over { child.wait_with_output()? } else { target.inject(fault, child)? };
                self.check(&output).with_context(|| format!("{fault:?} after {moment} µs"))?;
                if output.status.success() {
                    break;
                }
                *injected.entry(fault).or_insert(0) += 1;
                total += 1;
            }
            self.ends_equal(&target)?;
        }
        Ok(injected)
    }

    fn target(&self) -> Result<ProxiedTarget> {
        let server = replays::target(self.setup.log)?;
        let proxy = Proxy::to(server.port())?;
        Ok(ProxiedTarget { server, proxy })
    }

    fn start_replay(&self, target: &ProxiedTarget) -> Result<Child> {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("replay").args(self.source.binlogs()?).args(self.setup.options).arg("--to");
        command.arg(format!("mysql://root@127.0.0.1:{}/", target.proxy.port()));
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    /// Checks that the replay did not panic, and printed the reason if it failed.
    fn check(&self, output: &Output) -> Result<()> {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_told = output.status.success() || output.status.code().is_none() || !stderr.is_empty();
        ensure!(is_told && !stderr.contains("panicked"), "{:?}: {}: {stderr}", self.setup, output.status);
        Ok(())
    }

    /// Replays to the end, then once more: the second replay must find nothing to apply.
    fn ends_equal(&self, target: &ProxiedTarget) -> Result<()> {
        for expected in ["", "0 transactions applied"] {
            let output = self.start_replay(target)?.wait_with_output()?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{:?}: {stderr}", self.setup);
            let outcome = String::from_utf8_lossy(&output.stdout);
            ensure!(outcome.starts_with(expected), "{:?}: {outcome}", self.setup);
            are_equal(self.source, &target.server, checksum).with_context(|| format!("{:?}", self.setup))?;
        }
        let all = self.source.gtid_executed()?;
        let lacks = target.server.sql(&format!("select gtid_subtract('{all}', @@global.gtid_executed)"))?;
        ensure!(lacks.trim().is_empty(), "{:?}: the target's gtid_executed lacks {lacks}", self.setup);
        Ok(())
    }
}

impl ProxiedTarget {
    /// Injects a fault while a replay runs; returns the output of the replay.
    fn inject(&mut self, fault: ReplayFault, mut child: Child) -> Result<Output> {
        match fault {
            ReplayFault::BintideKill => child.kill()?,
            ReplayFault::TargetKill => self.server.kill()?,
            ReplayFault::TargetRestart => self.server.stop()?,
            ReplayFault::ConnectionClose => self.proxy.cut(CutMode::Close),
            ReplayFault::ConnectionReset => self.proxy.cut(CutMode::Reset),
        }
        let output = child.wait_with_output()?;
        if matches!(fault, ReplayFault::TargetKill | ReplayFault::TargetRestart) {
            self.server.start_again(&[])?;
        }
        self.proxy.mend();
        Ok(output)
    }
}
