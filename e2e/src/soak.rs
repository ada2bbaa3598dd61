//! A target that follows a source at work, by `bintide replay --from`, while all that is between them, and they
//! themselves, are stopped at random: in the end both have the same tables.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{CutMode, Launch, Proxy, SeededRandom, ServerClient, TestServer};

use crate::as_sql::are_equal;
use crate::program::bintide;
use crate::replays::{self, checksum};

/// What is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// `kill -9` of bintide.
    Bintide,
    /// Bintide is told to end, as by Ctrl-C.
    Interrupt,
    /// `kill -9` of the source.
    Source,
    /// The source is stopped, as an operator would, and started again.
    SourceRestart,
    /// `kill -9` of the target.
    Target,
    /// The target is stopped and started again.
    TargetRestart,
    /// The network to the source is closed.
    SourceNetwork,
    /// The network to the target is reset.
    TargetNetwork,
}

/// All of them; those of bintide and of the network more often, as they take less time.
const BLOWS: [Blow; 12] = [
    Blow::Bintide,
    Blow::Interrupt,
    Blow::Source,
    Blow::SourceRestart,
    Blow::Target,
    Blow::TargetRestart,
    Blow::SourceNetwork,
    Blow::TargetNetwork,
    Blow::Bintide,
    Blow::Bintide,
    Blow::SourceNetwork,
    Blow::TargetNetwork,
];

/// What a soak came to.
#[derive(Debug, Default)]
pub struct Soaked {
    /// How many blows of each kind there were.
    pub blows: BTreeMap<Blow, u64>,
    /// Rounds of work that the source did.
    pub rounds: u64,
    /// How often bintide was started.
    pub starts: u64,
}

/// A source, a target, and what is between them.
pub struct Soak {
    source: TestServer,
    target: TestServer,
    to_source: Proxy,
    to_target: Proxy,
    relay: TempDir,
    options: Vec<String>,
    following: Option<Child>,
    soaked: Soaked,
}

/// Between two blows, at most.
const CALM_MAX: Duration = Duration::from_millis(1500);
/// How long the target may take for the rest.
const PATIENCE: Duration = Duration::from_secs(120);
/// The exit code of what could not be begun.
const NOT_BEGUN: i32 = 2;
/// Between two looks.
const GLANCE: Duration = Duration::from_millis(50);

const TABLES: &str = "create database d;
    create table d.t (id int primary key auto_increment, n int, s varchar(400));
    create table d.u like d.t; create table d.v (n int, key (n)); create table d.rounds (n int primary key)";

/// A round of work: changes that are not the same when they are made twice or left out, and tables that do not grow
/// for ever.
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

impl Soak {
    /// With these options for `bintide replay`.
    ///
    /// # Errors
    /// When a server does not start.
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
            soaked: Soaked::default(),
        })
    }

    /// Deals blows at random moments as long as `more` wants, which is told how many there were; then lets the target
    /// catch up, and compares.
    ///
    /// # Errors
    /// When bintide ends for another reason than a blow, when the target does not catch up, or when it ends with
    /// something else than the source.
    pub fn run(mut self, random: &mut SeededRandom, mut more: impl FnMut(u64) -> bool) -> Result<Soaked> {
        self.follow()?;
        let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let client = self.source.client().clone();
        thread::scope(|scope| {
            scope.spawn(|| work(&client, &rounds, &is_over));
            let mut dealt = 0;
            let mut result = Ok(());
            while result.is_ok() && more(dealt) {
                thread::sleep(Duration::from_millis(random.below(CALM_MAX.as_millis() as usize) as u64));
                let blow = *random.pick(&BLOWS);
                result = self.strike(blow).with_context(|| format!("blow {dealt}: {blow:?}"));
                *self.soaked.blows.entry(blow).or_insert(0) += 1;
                dealt += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            result
        })?;
        self.soaked.rounds = rounds.into_inner();
        self.catches_up()?;
        self.ends_when_told()?;
        are_equal(&self.source, &self.target, checksum)?;
        Ok(std::mem::take(&mut self.soaked))
    }

    /// Starts bintide. What it says goes into a file, for who wants to know why it ended.
    fn follow(&mut self) -> Result<()> {
        let mut command = Command::new(bintide()?);
        let address = |proxy: &Proxy| format!("mysql://root@127.0.0.1:{}/", proxy.port());
        command.env_clear().args(["replay", "-q", "--from", &address(&self.to_source)]);
        command.args(["--to", &address(&self.to_target), "--relay"]).arg(self.relay.path().join("store"));
        command.args(&self.options).stdout(Stdio::null());
        command.stderr(File::create(self.relay.path().join("said"))?);
        self.following = Some(command.spawn().context("could not start bintide")?);
        self.soaked.starts += 1;
        Ok(())
    }

    fn child(&mut self) -> Result<&mut Child> {
        self.following.as_mut().context("bintide was not started")
    }

    fn strike(&mut self, blow: Blow) -> Result<()> {
        if self.child()?.try_wait()?.is_some_and(|status| status.code() == Some(NOT_BEGUN)) {
            self.follow()?;
        }
        match blow {
            Blow::Bintide => self.child()?.kill()?,
            Blow::Interrupt => self.interrupt()?,
            Blow::Source => self.source.kill()?,
            Blow::SourceRestart => self.source.stop()?,
            Blow::Target => self.target.kill()?,
            Blow::TargetRestart => self.target.stop()?,
            Blow::SourceNetwork => self.to_source.cut(CutMode::Close),
            Blow::TargetNetwork => self.to_target.cut(CutMode::Reset),
        }
        match blow {
            // The source may go and come back: that is gone through.
            Blow::Source | Blow::SourceRestart => self.source.start_again(&[])?,
            Blow::SourceNetwork => self.to_source.mend(),
            // Without its target it ends, and whoever watches it starts it again.
            Blow::Target | Blow::TargetRestart => {
                self.ends_with(&[1, 2])?;
                self.target.start_again(&[])?;
            }
            Blow::TargetNetwork => {
                self.ends_with(&[1, 2])?;
                self.to_target.mend();
            }
            Blow::Interrupt => self.ends_with(&[130])?,
            Blow::Bintide => drop(self.child()?.wait()?),
        }
        match self.child()?.try_wait()? {
            None => Ok(()),
            // The blow came before it was connected, and what cannot be begun ends.
            Some(status) if status.code() == Some(NOT_BEGUN) => self.follow(),
            Some(_) if matches!(blow, Blow::Source | Blow::SourceRestart | Blow::SourceNetwork) => {
                self.ended()
            }
            Some(_) => self.follow(),
        }
    }

    /// Waits for its end: with one of these codes, and with nothing said of a panic.
    fn ends_with(&mut self, codes: &[i32]) -> Result<()> {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child()?.try_wait()? {
                break status;
            }
            ensure!(begin.elapsed() < PATIENCE, "it does not end");
            thread::sleep(GLANCE);
        };
        let said = self.said()?;
        // A process that has just started has no handler of SIGINT yet, and nothing to end in order.
        let is_too_early = status.signal() == Some(Signal::SIGINT as i32) && codes.contains(&130);
        let is_meant = is_too_early || status.code().is_some_and(|code| codes.contains(&code));
        ensure!(is_meant && !said.contains("panicked"), "{status}: {said}");
        Ok(())
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.relay.path().join("said"))?)
    }

    /// It ended by itself.
    fn ended<T>(&self) -> Result<T> {
        anyhow::bail!("bintide has ended: {}", self.said()?)
    }

    fn interrupt(&mut self) -> Result<()> {
        let pid = i32::try_from(self.child()?.id())?;
        Ok(kill(Pid::from_raw(pid), Signal::SIGINT)?)
    }

    fn catches_up(&mut self) -> Result<()> {
        let last = "select count(*), max(n) from d.rounds";
        let (wanted, begin) = (self.source.sql(last)?, Instant::now());
        while self.target.sql(last).ok().as_ref() != Some(&wanted) {
            if self.child()?.try_wait()?.is_some() {
                return self.ended();
            }
            ensure!(begin.elapsed() < PATIENCE, "the target is behind");
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    fn ends_when_told(&mut self) -> Result<()> {
        self.interrupt()?;
        self.ends_with(&[130])?;
        let said = self.said()?;
        ensure!(said.is_empty(), "{said}");
        Ok(())
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if let Some(mut child) = self.following.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Has the source work until that is over. What is refused while it is away is left out: the source is right, whatever
/// it has. What it has prepared by then is ended later: nobody else would, and it holds its locks.
fn work(client: &ServerClient, rounds: &AtomicU64, is_over: &AtomicBool) {
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
                thread::sleep(GLANCE);
            }
        }
    }
}

/// What the server says of what was not prepared.
const NO_SUCH_XID: &str = "ERROR 1397";

/// Ends what a round may have prepared, one way or the other.
fn end_prepared(number: u64) -> String {
    let way = if number.is_multiple_of(2) { "commit" } else { "rollback" };
    format!("xa {way} 'x{number}'")
}
