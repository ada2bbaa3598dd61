//! Stops bintide, both servers and the network at random while a target follows a source with `bintide replay --from`.
//! At the end, both servers must have the same rows.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{CutMode, Launch, Proxy, SeededRandom, ServerClient, TestServer, wait_until_within};

use crate::as_sql::are_equal;
use crate::program::bintide;
use crate::replays::{self, checksum};

/// Fault that is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interruption {
    /// `kill -9` of bintide.
    Bintide,
    /// SIGINT to bintide, as Ctrl-C sends it.
    Interrupt,
    /// `kill -9` of the source.
    Source,
    /// The source is shut down and started again.
    SourceRestart,
    /// `kill -9` of the target.
    Target,
    /// The target is shut down and started again.
    TargetRestart,
    /// Connections to the source are closed.
    SourceNetwork,
    /// Connections to the target are reset.
    TargetNetwork,
}

/// All kinds of faults; those of bintide and of the network several times, because they are fast.
const INTERRUPTIONS: [Interruption; 12] = [
    Interruption::Bintide,
    Interruption::Interrupt,
    Interruption::Source,
    Interruption::SourceRestart,
    Interruption::Target,
    Interruption::TargetRestart,
    Interruption::SourceNetwork,
    Interruption::TargetNetwork,
    Interruption::Bintide,
    Interruption::Bintide,
    Interruption::SourceNetwork,
    Interruption::TargetNetwork,
];

/// Result of a soak.
#[derive(Debug, Default)]
pub struct SoakSummary {
    /// Number of faults of each kind.
    pub interruptions: BTreeMap<Interruption, u64>,
    /// Rounds of changes on the source.
    pub rounds: u64,
    /// Number of starts of bintide.
    pub starts: u64,
}

/// A source, a target, and the proxies and the replay between them.
pub struct Soak {
    source: TestServer,
    target: TestServer,
    to_source: Proxy,
    to_target: Proxy,
    relay: TempDir,
    options: Vec<String>,
    following: Option<Child>,
    summary: SoakSummary,
}

/// Maximum time between two faults.
const INTERRUPTION_INTERVAL_MAX: Duration = Duration::from_millis(1500);
/// Time limit for the target to catch up.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Exit code of a replay that could not begin.
const EXIT_NOT_STARTED: i32 = 2;
/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const TABLES: &str = "create database d;
    create table d.t (id int primary key auto_increment, n int, s varchar(400));
    create table d.u like d.t; create table d.v (n int, key (n)); create table d.rounds (n int primary key)";

/// Returns the statements of a round: changes that give different rows if they are applied twice or skipped, in tables
/// of limited size.
fn round(number: u64) -> String {
    let (part, old) = (number % 7, number / 2);
    let mut script = format!(
        "insert into d.t (n, s) values ({number}, repeat('x', {part} * 50)), (0, null);
         update d.t set n = n + 1 where id % 7 = {part};
         begin; delete from d.t where id % 31 = {part}; insert into d.u (n) select n from d.t order by id desc limit 20;
         insert into d.v values ({part}), ({part}); commit;
         delete from d.v where n = {part} limit 1; delete from d.t where id < {number} - 500;
         delete from d.u where id < {number} * 20 - 5000;"
    );
    if part == 0 {
        script += &format!(
            "create table d.w{number} as select * from d.t; drop table if exists d.w{};
             xa start 'x{number}'; update d.u set n = n * 2 % 1000003 where id % 5 = 1; xa end 'x{number}';
             xa prepare 'x{number}'; xa commit 'x{number}'; delete from d.v where n = 3;",
            old / 7 * 7
        );
    }
    script + &format!("insert into d.rounds values ({number});")
}

/// Duration and seed of a soak, from the arguments of its program.
#[derive(Clone, Copy, Debug)]
pub struct SoakArguments {
    /// Duration of the source's load, in minutes.
    pub minutes: u64,
    /// Seed of the order and the pauses of the interruptions.
    pub seed: u64,
}

/// Interval between two progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

impl SoakArguments {
    /// Reads the arguments of this program.
    ///
    /// # Errors
    ///
    /// Fails if they are not two numbers, or SIGINT is ignored and its default effect cannot be restored.
    pub fn read() -> Result<Self> {
        restore_interrupts()?;
        let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
        let [minutes, seed] = numbers[..] else {
            anyhow::bail!("expected two numbers: the duration in minutes, and a seed")
        };
        println!("seed {seed}");
        Ok(Self { minutes, seed })
    }

    /// Returns a function that prints progress once a minute, and returns false once the time is over. Its argument is
    /// the number of interruptions.
    pub fn more(self) -> impl FnMut(u64) -> bool {
        let (begin, mut shown) = (Instant::now(), Duration::ZERO);
        move |interruptions| {
            let elapsed = begin.elapsed();
            if elapsed >= shown + PROGRESS_INTERVAL {
                shown = elapsed;
                println!("{} minutes: {interruptions} interruptions", elapsed.as_secs() / 60);
            }
            elapsed < Duration::from_secs(self.minutes * 60)
        }
    }
}

/// Executes this program again with the default effect of SIGINT, if SIGINT is ignored. A job in the background of a
/// script ignores it, and so do the programs that it starts, until they handle signals: a SIGINT before has no effect.
fn restore_interrupts() -> Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let ignored =
        status.lines().find_map(|line| line.strip_prefix("SigIgn:")).context("no ignored signals")?;
    if u64::from_str_radix(ignored.trim(), 16)? >> (Signal::SIGINT as i32 - 1) & 1 == 0 {
        return Ok(());
    }
    let mut again = Command::new("env");
    again.arg("--default-signal=INT").arg(env::current_exe()?).args(env::args_os().skip(1));
    Err(again.exec()).context("could not run env --default-signal")
}

impl Soak {
    /// Starts the servers, with these options for `bintide replay`.
    ///
    /// # Errors
    /// Fails if a server does not start.
    pub fn new(options: &[&str]) -> Result<Self> {
        let source = Launch::mysql().option("--max-binlog-size=1M").start()?;
        let target = replays::target("--skip-log-bin")?;
        source.sql(TABLES)?;
        let (to_source, to_target) = (Proxy::to(source.port())?, Proxy::to(target.port())?);
        Ok(Self {
            source,
            target,
            to_source,
            to_target,
            relay: TempDir::new()?,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            following: None,
            summary: SoakSummary::default(),
        })
    }

    /// Injects faults at random moments while `more`, called with the number of faults, returns `true`; then waits
    /// until the target catches up, and compares.
    ///
    /// # Errors
    /// Fails if bintide ends without a fault, if the target does not catch up, or if it differs from the source at the
    /// end.
    pub fn run(
        mut self,
        random: &mut SeededRandom,
        mut more: impl FnMut(u64) -> bool,
    ) -> Result<SoakSummary> {
        self.follow()?;
        let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let client = self.source.client().clone();
        thread::scope(|scope| {
            scope.spawn(|| write_load(&client, &rounds, &is_over));
            let mut interrupted_count = 0;
            let mut result = Ok(());
            while result.is_ok() && more(interrupted_count) {
                thread::sleep(Duration::from_millis(
                    random.below(INTERRUPTION_INTERVAL_MAX.as_millis() as usize) as u64,
                ));
                let interruption = *random.pick(&INTERRUPTIONS);
                result = self
                    .interrupt_part(interruption)
                    .with_context(|| format!("interruption {interrupted_count}: {interruption:?}"));
                *self.summary.interruptions.entry(interruption).or_insert(0) += 1;
                interrupted_count += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            result
        })?;
        self.summary.rounds = rounds.into_inner();
        self.wait_until_caught_up()?;
        self.ends_on_interrupt()?;
        are_equal(&self.source, &self.target, checksum)?;
        Ok(std::mem::take(&mut self.summary))
    }

    /// Starts bintide. Its messages are written to a file, which error reports quote.
    fn follow(&mut self) -> Result<()> {
        let mut command = Command::new(bintide()?);
        let address = |proxy: &Proxy| format!("mysql://root@127.0.0.1:{}/", proxy.port());
        command.env_clear().args(["replay", "-q", "--from", &address(&self.to_source)]);
        command.args(["--to", &address(&self.to_target), "--relay"]).arg(self.relay.path().join("store"));
        command.args(&self.options).stdout(Stdio::null());
        command.stderr(File::create(self.relay.path().join("messages"))?);
        self.following = Some(command.spawn().context("could not start bintide")?);
        self.summary.starts += 1;
        Ok(())
    }

    fn child(&mut self) -> Result<&mut Child> {
        self.following.as_mut().context("bintide was not started")
    }

    fn interrupt_part(&mut self, interruption: Interruption) -> Result<()> {
        if self.child()?.try_wait()?.is_some_and(|status| status.code() == Some(EXIT_NOT_STARTED)) {
            self.follow()?;
        }
        match interruption {
            Interruption::Bintide => self.child()?.kill()?,
            Interruption::Interrupt => self.interrupt()?,
            Interruption::Source => self.source.kill()?,
            Interruption::SourceRestart => self.source.stop()?,
            Interruption::Target => self.target.kill()?,
            Interruption::TargetRestart => self.target.stop()?,
            Interruption::SourceNetwork => self.to_source.cut(CutMode::Close),
            Interruption::TargetNetwork => self.to_target.cut(CutMode::Reset),
        }
        match interruption {
            // The replay survives a restart of the source.
            Interruption::Source | Interruption::SourceRestart => self.source.start_again(&[])?,
            Interruption::SourceNetwork => self.to_source.mend(),
            // The replay ends when its target stops; here, as a supervisor would, the test starts it again.
            Interruption::Target | Interruption::TargetRestart => {
                self.ends_with(&[1, 2])?;
                self.target.start_again(&[])?;
            }
            Interruption::TargetNetwork => {
                self.ends_with(&[1, 2])?;
                self.to_target.mend();
            }
            Interruption::Interrupt => self.ends_with(&[130])?,
            Interruption::Bintide => drop(self.child()?.wait()?),
        }
        match self.child()?.try_wait()? {
            None => Ok(()),
            // The fault came before the first connection: without a connection, bintide ends.
            Some(status) if status.code() == Some(EXIT_NOT_STARTED) => self.follow(),
            Some(_)
                if matches!(
                    interruption,
                    Interruption::Source | Interruption::SourceRestart | Interruption::SourceNetwork
                ) =>
            {
                self.ended()
            }
            Some(_) => self.follow(),
        }
    }

    /// Waits until bintide ends; checks that the exit code is one of these and that it did not panic.
    fn ends_with(&mut self, codes: &[i32]) -> Result<()> {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child()?.try_wait()? {
                break status;
            }
            ensure!(begin.elapsed() < TIMEOUT, "bintide does not end");
            thread::sleep(POLL_INTERVAL);
        };
        let messages = self.messages()?;
        // A process that has just started has no handler for SIGINT yet.
        let is_too_early = status.signal() == Some(Signal::SIGINT as i32) && codes.contains(&130);
        let is_expected = is_too_early || status.code().is_some_and(|code| codes.contains(&code));
        ensure!(is_expected && !messages.contains("panicked"), "{status}: {messages}");
        Ok(())
    }

    fn messages(&self) -> Result<String> {
        Ok(fs::read_to_string(self.relay.path().join("messages"))?)
    }

    /// Returns an error if bintide has ended by itself.
    fn ended<T>(&self) -> Result<T> {
        anyhow::bail!("bintide has ended: {}", self.messages()?)
    }

    fn interrupt(&mut self) -> Result<()> {
        let pid = i32::try_from(self.child()?.id())?;
        Ok(kill(Pid::from_raw(pid), Signal::SIGINT)?)
    }

    fn wait_until_caught_up(&mut self) -> Result<()> {
        let last = "select count(*), max(n) from d.rounds";
        let expected = self.source.sql(last)?;
        wait_until_within(TIMEOUT, "the last rows on the target", || {
            if self.child()?.try_wait()?.is_some() {
                return self.ended();
            }
            Ok(self.target.sql(last).ok().as_ref() == Some(&expected))
        })
    }

    fn ends_on_interrupt(&mut self) -> Result<()> {
        self.interrupt()?;
        self.ends_with(&[130])?;
        let messages = self.messages()?;
        ensure!(messages.is_empty(), "{messages}");
        Ok(())
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if let Some(mut child) = self.following.take() {
            // bintide may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs rounds of changes on the source until `is_over` is set. Statements that fail during a restart are skipped: the
/// target is compared with the source only. XA transactions that a crash leaves prepared are ended later, because they
/// hold locks.
fn write_load(client: &ServerClient, rounds: &AtomicU64, is_over: &AtomicBool) {
    let mut open = None;
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let script = match open {
            Some(open) => end_prepared(open),
            None => round(number),
        };
        match client.sql(&script) {
            Ok(_) => {
                rounds.fetch_add(1, Ordering::Relaxed);
                open = None;
            }
            Err(error) => {
                open = open.or(Some(number)).filter(|_| !error.to_string().contains(NO_SUCH_XID));
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// Server's error for an XA transaction that is not prepared.
const NO_SUCH_XID: &str = "ERROR 1397";

/// Returns statements that end the XA transactions that a round may have left prepared.
fn end_prepared(number: u64) -> String {
    let verb = if number.is_multiple_of(2) { "commit" } else { "rollback" };
    format!("xa {verb} 'x{number}'")
}
