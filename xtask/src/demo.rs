//! The main jobs on the sample logs, one after the other: what a newcomer sees first.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{checks, workspace};

/// One command of the demo.
struct Step {
    /// What it shows, in a line.
    shows: &'static str,
    arguments: &'static [&'static str],
    /// Lines of its output that are shown; the rest is counted.
    lines: usize,
    /// The exit code that it ends with.
    code: i32,
}

const STEPS: [Step; 6] = [
    Step {
        shows: "What is in a log: transactions, rows and bytes by table and kind of change",
        arguments: &["stats", "samples/triggers.binlog"],
        lines: 60,
        code: 0,
    },
    Step {
        shows: "The text of mysqlbinlog, byte for byte, from inside compressed transactions too",
        arguments: &["dump", "-vv", "--base64-output=decode-rows", "samples/types-compressed.binlog"],
        lines: 40,
        code: 0,
    },
    Step {
        shows: "A line a transaction",
        arguments: &["dump", "--transactions", "samples/gtids/binlog.000001"],
        lines: 20,
        code: 0,
    },
    Step {
        shows: "A line of JSON an event",
        arguments: &["dump", "--json", "samples/json-partial.binlog"],
        lines: 8,
        code: 0,
    },
    Step {
        shows: "A verdict on six files in a row: checksums, grammar, positions, GTIDs, rows",
        arguments: &[
            "verify",
            "samples/rotation/binlog.000001",
            "samples/rotation/binlog.000002",
            "samples/rotation/binlog.000003",
            "samples/rotation/binlog.000004",
            "samples/rotation/binlog.000005",
            "samples/rotation/binlog.000006",
        ],
        lines: 30,
        code: 0,
    },
    Step {
        shows: "And on one that was cut in the middle of an event",
        arguments: &["verify", "samples/torn.binlog"],
        lines: 30,
        code: 1,
    },
];

/// Builds the command and shows what it does.
pub(crate) fn demo() -> Result<()> {
    eprintln!("building bintide");
    checks::cargo(&["build", "--quiet", "--release", "--package", "bintide"])?;
    for step in &STEPS {
        show(step).with_context(|| format!("could not show bintide {}", step.arguments.join(" ")))?;
    }
    Ok(())
}

fn show(step: &Step) -> Result<()> {
    println!("\n# {}\n$ bintide {}\n", step.shows, step.arguments.join(" "));
    let program = testkit::target_dir().join("release/bintide");
    let mut command = Command::new(program);
    command.args(step.arguments).current_dir(workspace::root()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().context("the command has no output")?;
    let mut more = 0;
    for (number, line) in BufReader::new(output).split(b'\n').enumerate() {
        let line = line?;
        if number < step.lines {
            println!("{}", String::from_utf8_lossy(&line));
        } else {
            more += 1;
        }
    }
    if more > 0 {
        println!("… and {more} lines more");
    }
    let status = child.wait()?;
    ensure!(status.code() == Some(step.code), "it ended with {status}, {} was wanted", step.code);
    Ok(())
}
