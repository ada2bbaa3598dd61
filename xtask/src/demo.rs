//! The main jobs on the sample logs, one after the other: what a newcomer sees first.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{checks, workspace};

/// One command of the demo.
struct Step {
    /// What it shows, in a line.
    shows: &'static str,
    arguments: &'static [&'static str],
    /// Lines of its output before those that are shown.
    skipped: usize,
    /// Lines of its output that are shown; the rest is counted.
    lines: usize,
    /// The exit code that it ends with.
    code: i32,
}

/// Where the demo puts the damaged copy of a sample, and where in it the damage is.
const DAMAGED: &str = "target/demo/damaged.binlog";
const DAMAGED_AT: usize = 5000;

const STEPS: [Step; 6] = [
    Step {
        shows: "What is in a log: transactions, rows and bytes by table and kind of change",
        arguments: &["stats", "samples/triggers.binlog"],
        skipped: 0,
        lines: 34,
        code: 0,
    },
    Step {
        shows: "The text of mysqlbinlog, byte for byte, from inside compressed transactions too",
        arguments: &[
            "dump",
            "-vv",
            "--base64-output=decode-rows",
            "--skip-gtids",
            "samples/triggers-compressed.binlog",
        ],
        skipped: 94,
        lines: 40,
        code: 0,
    },
    Step {
        shows: "A line a transaction",
        arguments: &["dump", "--transactions", "samples/gtids/binlog.000001"],
        skipped: 0,
        lines: 20,
        code: 0,
    },
    Step {
        shows: "A line of JSON an event",
        arguments: &["dump", "--json", "samples/json-partial.binlog"],
        skipped: 14,
        lines: 5,
        code: 0,
    },
    Step {
        shows: "A verdict on a server's logs, one after the other: checksums, grammar, positions, GTIDs, rows",
        arguments: &["verify", "samples/rotation"],
        skipped: 0,
        lines: 30,
        code: 0,
    },
    Step {
        shows: "And on one in which a bit has fallen over",
        arguments: &["verify", DAMAGED],
        skipped: 0,
        lines: 30,
        code: 1,
    },
];

/// Builds the command and shows what it does.
pub(crate) fn demo() -> Result<()> {
    eprintln!("building bintide");
    checks::cargo(&["build", "--quiet", "--release", "--package", "bintide"])?;
    damage().context("could not damage a copy of a sample")?;
    for step in &STEPS {
        show(step).with_context(|| format!("could not show bintide {}", step.arguments.join(" ")))?;
    }
    Ok(())
}

/// A copy of a sample with one bit changed.
fn damage() -> Result<()> {
    let root = workspace::root();
    let mut bytes = fs::read(root.join("samples/triggers.binlog"))?;
    *bytes.get_mut(DAMAGED_AT).context("the sample is too short")? ^= 1;
    let path = root.join(DAMAGED);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(fs::write(path, bytes)?)
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
        match number.checked_sub(step.skipped) {
            Some(shown) if shown < step.lines => println!("{}", String::from_utf8_lossy(&line)),
            _ => more += 1,
        }
    }
    if more > 0 {
        println!("… {more} lines more, before and after");
    }
    let status = child.wait()?;
    ensure!(status.code() == Some(step.code), "it ended with {status}, {} was wanted", step.code);
    Ok(())
}
