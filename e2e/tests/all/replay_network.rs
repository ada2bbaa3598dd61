//! Network failures between bintide and its target: the same command resumes, and repeats nothing.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use e2e::as_sql::are_equal;
use e2e::chaos::source;
use e2e::program::bintide;
use e2e::replays::{checksum, target};
use testkit::{CutMode, Launch, Proxy, SeededRandom, TestServer, seed_from_env};

/// Options of a replay with one commit for each transaction, in order. The number of sessions decides after how many
/// bytes the changes begin.
const STRICT: &[&str] = &["--commit-order", "strict", "--workers", "8"];

/// Options of a replay in each commit order, and as SQL.
const REPLAY_MODES: [&[&str]; 4] = [
    &["--commit-order", "grouped", "--group-max", "7"],
    STRICT,
    &["--commit-order", "any"],
    &["--commit-order", "strict", "--apply-as", "sql"],
];

/// Number of cuts for each mode.
const CUTS: usize = 6;

fn replay(source: &TestServer, proxy: &Proxy, mode: &[&str]) -> Result<Output> {
    replay_for(source, proxy, mode, "")
}

/// Replays with these options in the target's address.
fn replay_for(source: &TestServer, proxy: &Proxy, mode: &[&str], options: &str) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?).args(mode).arg("--to");
    Ok(command.arg(format!("mysql://root@127.0.0.1:{}/{options}", proxy.port())).output()?)
}

#[test]
fn network_failures_lose_and_repeat_nothing() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let mut random = SeededRandom::new(first);
    let source = source(&Launch::mysql(), 10)?;
    for mode in REPLAY_MODES {
        let whole = target("--skip-log-bin")?;
        let proxy = Proxy::to(whole.port())?;
        let output = replay(&source, &proxy, mode)?;
        ensure!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes = usize::try_from(proxy.passed())?;
        let target = target("--skip-log-bin")?;
        let proxy = Proxy::to(target.port())?;
        for _ in 0..CUTS {
            let at = random.below(bytes * 2 / CUTS) as u64;
            proxy.cut_after(at, *random.pick(&[CutMode::Close, CutMode::Reset]));
            let output = replay(&source, &proxy, mode)?;
            let printed = String::from_utf8_lossy(&output.stderr);
            // A replay that ended before the cut was not affected.
            ensure!(output.status.success() != proxy.is_cut(), "{mode:?}, cut after {at}: {printed}");
            ensure!(
                output.status.success()
                    || printed.contains("the connection to the server at ") && printed.contains(" failed: "),
                "{mode:?}, cut after {at}: {printed}"
            );
            proxy.mend();
        }
        let output = replay(&source, &proxy, mode)?;
        ensure!(output.status.success(), "{mode:?}: {}", String::from_utf8_lossy(&output.stderr));
        are_equal(&source, &target, checksum).map_err(|error| error.context(format!("{mode:?}")))?;
    }
    Ok(())
}

#[test]
fn silent_networks_are_noticed_and_the_next_replay_takes_over() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let mut random = SeededRandom::new(first);
    let source = source(&Launch::mysql(), 10)?;
    let target = target("--skip-log-bin")?;
    let proxy = Proxy::to(target.port())?;
    // The network is silent from the first byte on, or from the middle of the changes on.
    for (silent_after, expected) in
        [(0, "the login took longer than"), (60_000 + random.below(20_000), "silent for")]
    {
        proxy.cut_after(silent_after as u64, CutMode::Silence);
        let output = replay_for(&source, &proxy, STRICT, "?timeout=3")?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && printed.contains(expected),
            "silent after {silent_after}: {printed}"
        );
        proxy.mend();
    }
    // The server still holds the locks of the lost connection.
    let output = replay(&source, &proxy, STRICT)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    are_equal(&source, &target, checksum)
}

#[test]
fn busy_servers_may_be_silent_for_longer() -> Result<()> {
    let source = e2e::replays::source(&Launch::mysql().option("--binlog-format=STATEMENT"), &[])?;
    source.sql(
        "create database d; create table d.t (n int); insert into d.t select sleep(7); flush binary logs",
    )?;
    let target = target("--skip-log-bin")?;
    let proxy = Proxy::to(target.port())?;
    let output = replay_for(&source, &proxy, STRICT, "?timeout=3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    are_equal(&source, &target, checksum)
}
