//! Peers that misbehave: they send nothing, send slowly, never stop, or send control characters.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::bounded::{LimitedRun, run, run_interrupted};
use e2e::fake::{ClientRequest, FakeServer, Reply, end_payload, event_payload};
use e2e::program::bintide;
use tempfile::TempDir;

const RUN_TIMEOUT: Duration = Duration::from_secs(30);
const VERSION: &str = "9.7.4";

fn command(directory: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .env("TMPDIR", directory)
        .env("HOME", directory)
        .current_dir(directory)
        .args(arguments);
    Ok(command)
}

fn bintide_in(directory: &Path, arguments: &[&str]) -> Result<LimitedRun> {
    run(&mut command(directory, arguments)?, RUN_TIMEOUT)
}

/// Answers a replica's queries as a MySQL source does.
fn as_source(sql: &str) -> Reply {
    match sql {
        "SELECT UNIX_TIMESTAMP()" => Reply::value("1700000000"),
        "SELECT @@GLOBAL.SERVER_ID" => Reply::value("1"),
        "SELECT @source_binlog_checksum" => Reply::value("CRC32"),
        "SELECT @@GLOBAL.GTID_MODE" => Reply::value("OFF"),
        "SELECT @@GLOBAL.SERVER_UUID" => Reply::value("5ea5ca5e-0001-4000-8000-000000000001"),
        _ => Reply::Ok,
    }
}

/// Returns the arguments of each command that follows a source, or writes to a target, at this address.
fn commands(address: &str) -> [Vec<&str>; 5] {
    [
        vec!["receive", "store", "--from", address, "--stop-at-end"],
        vec!["stream", "--from", address, "--format", "maxwell", "--stop-at-end"],
        vec!["advise", "--from", address, "--levels", "1"],
        vec!["replay", "--from", address, "--relay", "relay", "--to", "sqlite:copy.db"],
        vec!["replay", "--status", "--to", address],
    ]
}

/// An empty packet must not make a client panic.
#[test]
fn empty_packets_are_errors() -> Result<()> {
    let server = FakeServer::start(VERSION, |_| Reply::Packets(vec![Vec::new()]))?;
    for arguments in commands(&server.address()) {
        let directory = TempDir::new()?;
        let bounded = bintide_in(directory.path(), &arguments)?;
        bounded.check_ended(&[1, 2])?;
        let printed = &bounded.ran.stderr;
        ensure!(printed.lines().count() == 1 && printed.starts_with("bintide: "), "{arguments:?}: {printed}");
    }
    Ok(())
}

/// SIGINT ends a command that waits for a server which sends nothing, or a byte at intervals.
#[test]
fn sigint_ends_commands_at_silent_servers() -> Result<()> {
    let replies: [fn() -> Reply; 2] =
        [|| Reply::Silence, || Reply::Trickle(vec![1; 1 << 10], Duration::from_millis(50))];
    for reply in replies {
        let server = FakeServer::start(VERSION, move |_| reply())?;
        for arguments in commands(&server.address()) {
            let (directory, began) = (TempDir::new()?, Instant::now());
            let mut command = command(directory.path(), &arguments)?;
            let bounded = run_interrupted(&mut command, Duration::from_millis(500), RUN_TIMEOUT)?;
            bounded.check_ended(&[130])?;
            ensure!(began.elapsed() < Duration::from_secs(4), "{arguments:?}: {:?}", began.elapsed());
        }
    }
    Ok(())
}

/// Endless result sets are refused: at 16 MiB, or at 1 GiB for queries with large results.
#[test]
fn endless_result_sets_are_refused() -> Result<()> {
    let server = FakeServer::start(VERSION, |_| {
        let mut number = 0;
        Reply::Stream(Box::new(move || {
            number += 1;
            Some(match number {
                1 => vec![1],
                2 => column(),
                3 => end_payload(),
                _ => [vec![0xfd, 0, 0, 1], vec![b'1'; 1 << 16]].concat(),
            })
        }))
    })?;
    for arguments in commands(&server.address()) {
        let directory = TempDir::new()?;
        let bounded = bintide_in(directory.path(), &arguments)?;
        bounded.check_ended(&[1, 2])?;
        let printed = &bounded.ran.stderr;
        ensure!(printed.contains("MiB"), "{arguments:?}: {printed}");
        ensure!(bounded.peak_kib < 1_200 << 10, "{arguments:?}: {} KiB", bounded.peak_kib);
    }
    Ok(())
}

/// Returns the definition of a text column.
fn column() -> Vec<u8> {
    let mut payload = vec![3];
    payload.extend(b"def\0\0\0\x01v\x01v\x0c\xff\0\0\0\x01\0\xfd\0\0\0\0\0");
    payload
}

/// A packet takes little more memory than its size, and only as its bytes arrive.
#[test]
fn huge_packets_take_little_more_memory_than_their_size() -> Result<()> {
    const SIZE: usize = 200 << 20;
    let server = FakeServer::start(VERSION, |asked| match asked {
        ClientRequest::Query(sql) => as_source(sql),
        ClientRequest::Dump => Reply::Packets(vec![event_payload(vec![b'x'; SIZE]), end_payload()]),
        ClientRequest::Other(_) => Reply::Ok,
    })?;
    let directory = TempDir::new()?;
    let from = server.address();
    let arguments = ["receive", "store", "--from", &from, "--stop-at-end", "--start-log", "binlog.000001"];
    let mut command = command(directory.path(), &arguments)?;
    let bounded = run_interrupted(&mut command, Duration::from_secs(15), RUN_TIMEOUT)?;
    bounded.check_ended(&[1, 2, 130])?;
    let expected = (SIZE >> 10) as u64..(SIZE >> 10) as u64 * 9 / 8 + (64 << 10);
    ensure!(expected.contains(&bounded.peak_kib), "{} KiB, not in {expected:?}", bounded.peak_kib);
    Ok(())
}

/// Text from a server may go to a terminal.
#[test]
fn control_characters_from_servers_are_escaped() -> Result<()> {
    let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}31m\u{202e}txt";
    let server = FakeServer::start(VERSION, move |_| Reply::Refused(1105, hostile.into()))?;
    for arguments in commands(&server.address()) {
        let directory = TempDir::new()?;
        let bounded = bintide_in(directory.path(), &arguments)?;
        bounded.check_ended(&[1, 2])?;
        let printed = &bounded.ran.stderr;
        ensure!(
            printed.contains(r"\u{1b}[2J") && printed.contains(r"\u{202e}txt"),
            "{arguments:?}: {printed:?}"
        );
        ensure!(!printed.contains('\u{202e}') && printed.lines().count() == 1, "{arguments:?}: {printed:?}");
    }
    Ok(())
}
