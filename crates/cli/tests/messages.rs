//! Formats and levels of messages on standard error.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};

use serde_json::Value;

/// A run of `stats` on a log that is given twice, and on an index that does not exist: a warning, then an error.
const WARNING: &str = "is given more than once: it is read once";
const ERROR: &str = "could not open /none/binlog.index";

fn command(options: &[&str], inputs: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.env_clear().arg("stats").args(options).args(inputs);
    command
}

fn sample() -> String {
    format!("{}/../../samples/gtids/binlog.000001", env!("CARGO_MANIFEST_DIR"))
}

/// Standard error of a run with a warning, and of one with an error.
fn messages(options: &[&str]) -> [String; 2] {
    let log = sample();
    let text = |ran: Output| {
        String::from_utf8(ran.stderr).expect("standard error is not UTF-8, or the program does not start")
    };
    let warned = command(options, &[&log, &log])
        .output()
        .expect("standard error is not UTF-8, or the program does not start");
    assert_eq!(warned.status.code(), Some(0));
    let failed = command(options, &["/none/binlog.index"])
        .output()
        .expect("standard error is not UTF-8, or the program does not start");
    assert_eq!(failed.status.code(), Some(2));
    [text(warned), text(failed)]
}

#[test]
fn messages_without_a_format_start_with_the_programs_name() {
    let [warned, failed] = messages(&[]);
    assert!(warned.starts_with("bintide: /") && warned.ends_with(&format!("{WARNING}\n")), "{warned}");
    assert!(failed.starts_with(&format!("bintide: {ERROR}: ")), "{failed}");
}

#[test]
fn text_has_time_and_level() {
    let [warned, failed] = messages(&["--log-format", "text"]);
    for (message, expected) in [(&warned, "warn bintide: /"), (&failed, "error bintide: could not open")] {
        let (time, rest) = message.split_once(' ').unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && rest.starts_with(expected), "{message}");
    }
}

#[test]
fn json_has_an_object_per_line() {
    let [warned, failed] = messages(&["--log-format", "json"]);
    for (message, level, expected) in [(&warned, "warn", WARNING), (&failed, "error", ERROR)] {
        let found: Value = serde_json::from_str(message).unwrap();
        let texts = ["timestamp", "level", "message"].map(|key| found[key].as_str().unwrap());
        assert!(texts[0].parse::<jiff::Timestamp>().is_ok(), "{message}");
        assert!(texts[1] == level && texts[2].contains(expected), "{message}");
        assert_eq!(message.matches('\n').count(), 1, "{message}");
    }
}

#[test]
fn journald_has_priorities() {
    let [warned, failed] = messages(&["--log-format", "journald"]);
    assert!(warned.starts_with("<4>/") && failed.starts_with(&format!("<3>{ERROR}")), "{warned}{failed}");
}

#[test]
fn levels_leave_out_less_important_messages() {
    for options in [&["--log-level", "error"][..], &["--quiet"], &["--quiet", "--log-level", "debug"]] {
        let [warned, failed] = messages(options);
        assert!(warned.is_empty() && failed.contains(ERROR), "{options:?}: {warned}{failed}");
    }
    let [warned, _] = messages(&["--log-level", "warn"]);
    assert!(warned.contains(WARNING), "{warned}");
}

/// systemd connects standard error of a service to a socket, and names this socket in a variable.
#[test]
fn services_write_for_journald() {
    let run = |options: &[&str], is_named: bool| {
        let (mut read, write) = UnixStream::pair().unwrap();
        let write = File::from(OwnedFd::from(write));
        let socket = write.metadata().unwrap();
        let inode = if is_named { socket.ino() } else { socket.ino() + 1 };
        let mut command = command(options, &["/none/binlog.index"]);
        command.env("JOURNAL_STREAM", format!("{}:{inode}", socket.dev())).stderr(write);
        assert_eq!(command.status().unwrap().code(), Some(2));
        drop(command);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        text
    };
    let check = |text: String, start: &str| assert!(text.starts_with(start), "{start}: {text}");
    check(run(&[], true), "<3>could not open");
    // A shell script of a service may redirect standard error.
    check(run(&[], false), "bintide: could not open");
    check(run(&["--log-format", "json"], true), "{\"timestamp\":");
}
