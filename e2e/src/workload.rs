//! Random SQL, run on a real server: tables of all types, changes, transactions with savepoints, XA,
//! definitions, triggers, temporary tables, loads, tagged GTIDs, session settings, character sets, time zones.
//!
//! A statement may fail (a table is missing, a value does not fit); the server's log of it is part of the test.

mod literal;
mod statement;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result, ensure};
use testkit::{Launch, SeededRandom, TestServer};

use crate::workload::statement::Session;

/// Number of sessions of one workload, one after the other.
const SESSIONS: usize = 4;
/// Steps of one session; a step is a statement or a transaction.
const STEPS: usize = 120;
/// Maximum share of statements that may fail, in percent; more indicates an error in the generator.
const FAILURES_MAX: usize = 20;

/// Fixed server UUID, so that arguments drawn for the samples fit these logs too.
const UUID: &str = "5ea5ca5e-0001-4000-8000-000000000001";

/// Server options, one drawn from each line.
const OPTIONS: [&[&str]; 9] = [
    &["--binlog-format=ROW", "--binlog-format=ROW", "--binlog-format=MIXED", "--binlog-format=STATEMENT"],
    &["--binlog-transaction-compression=OFF", "--binlog-transaction-compression=ON"],
    &["--binlog-row-metadata=MINIMAL", "--binlog-row-metadata=FULL"],
    &[
        "--binlog-row-image=FULL",
        "--binlog-row-image=FULL",
        "--binlog-row-image=MINIMAL",
        "--binlog-row-image=NOBLOB",
    ],
    &["--binlog-row-value-options=", "--binlog-row-value-options=PARTIAL_JSON"],
    &["--binlog-rows-query-log-events=OFF", "--binlog-rows-query-log-events=ON"],
    &["--binlog-checksum=CRC32", "--binlog-checksum=CRC32", "--binlog-checksum=NONE"],
    &["--gtid-mode=ON", "--gtid-mode=ON", "--gtid-mode=ON", "--gtid-mode=OFF"],
    &["--binlog-row-event-max-size=8192", "--binlog-row-event-max-size=256"],
];

/// Runs a workload on a new server and writes its logs, and the SQL, to `directory/NAME`.
///
/// # Errors
/// Fails if the server does not start, or too many statements fail.
pub fn record(seed: u64, name: &str, directory: &Path) -> Result<()> {
    let mut server = record_on(seed, name, directory)?;
    let target = directory.join(name);
    server.stop()?;
    let mut files = server.binlogs()?;
    files.push(server.datadir().join("binlog.index"));
    for file in files {
        fs::copy(&file, target.join(file.file_name().context("a log without a name")?))?;
    }
    Ok(())
}

/// Runs a workload on a new server, writes the SQL to `directory/NAME`, and returns the server.
///
/// # Errors
/// Fails if [`record`] fails.
pub fn record_on(seed: u64, name: &str, directory: &Path) -> Result<TestServer> {
    record_some_on(seed, name, directory, &[], |line| Some(line.to_owned()))
}

/// Records like [`record_on`], with more server options, which take precedence, and with a function that may replace
/// each statement.
///
/// # Errors
/// Fails if [`record`] fails.
pub fn record_some_on(
    seed: u64,
    name: &str,
    directory: &Path,
    more: &[&str],
    said: fn(&str) -> Option<String>,
) -> Result<TestServer> {
    let mut random = SeededRandom::new(seed);
    let options: Vec<&str> = OPTIONS.iter().map(|several| *random.pick(several)).collect();
    let options: Vec<&str> = options.into_iter().chain(more.iter().copied()).collect();
    let changed = |sql: String| sql.lines().filter_map(said).map(|line| line + "\n").collect();
    run_on(&mut random, &options, name, directory, &changed)
}

/// Records like [`record_on`], with `binlog_format=ROW` throughout, and with definitions in UTF-8: the client
/// sends UTF-8 regardless of SET NAMES, and a column's character set may lack a character.
///
/// # Errors
/// Fails if [`record`] fails.
pub fn record_rows_on(seed: u64, name: &str, directory: &Path) -> Result<TestServer> {
    let mut random = SeededRandom::new(seed);
    let mut options: Vec<&str> = OPTIONS.iter().map(|several| *random.pick(several)).collect();
    options[0] = "--binlog-format=ROW";
    let without_formats = |sql: String| {
        const LEFT_OUT: [&str; 3] = ["SET binlog_format", "SET NAMES binary", "SET NAMES gbk"];
        let is_kept = |line: &&str| !LEFT_OUT.iter().any(|start| line.starts_with(start));
        let sql = sql.replace("CHARACTER SET koi8r", "CHARACTER SET utf8mb4");
        sql.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect()
    };
    run_on(&mut random, &options, name, directory, &without_formats)
}

fn run_on(
    random: &mut SeededRandom,
    options: &[&str],
    name: &str,
    directory: &Path,
    changed: &dyn Fn(String) -> String,
) -> Result<TestServer> {
    let server = Launch::mysql().uuid(UUID).options(options.iter().copied()).start()?;
    let target = directory.join(name);
    fs::create_dir_all(&target)?;
    fs::write(target.join("load.tsv"), "1\tone\tx\n2\ttwo\ty\n\\N\t\\N\tit's \"quoted\"\n")?;
    let (mut statements, mut failures) = (0, 0);
    for number in 0..SESSIONS {
        let sql = changed(Session::new(number).script(random, STEPS));
        fs::write(target.join(format!("session-{number}.sql")), &sql)?;
        statements += sql.lines().count();
        failures += run(&server, &target, &sql)?;
    }
    println!("workload {name}: {}: {statements} statements, {failures} failed", options.join(" "));
    ensure!(failures * 100 < statements * FAILURES_MAX, "too many statements fail");
    Ok(server)
}

/// Runs the script to its end even if statements fail, and counts the failures; the messages are in `directory`.
///
/// # Errors
///
/// Fails if the client cannot be run, or the server crashes.
pub fn run(server: &TestServer, directory: &Path, sql: &str) -> Result<usize> {
    let mut command = server.client().command()?;
    command.args(["--batch", "--force", "--binary-mode", "--local-infile=1"]).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("could not run the client")?;
    let mut stdin = child.stdin.take().context("the client has no standard input")?;
    let output = thread::scope(|scope| {
        // If the client ends early, its messages show the reason.
        scope.spawn(move || stdin.write_all(sql.as_bytes()));
        child.wait_with_output()
    })?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    fs::write(directory.join("errors.txt"), &messages)?;
    ensure!(!messages.contains("ERROR 2013"), "the server crashed: {messages}");
    Ok(messages.lines().filter(|line| line.starts_with("ERROR")).count())
}
