//! Compares the records of `bintide stream` with those of Debezium and Maxwell. The tool and bintide read the same
//! server's log, and their records are compared field by field. Then these tools and others read a relay of compressed
//! logs. Last, topics of bintide are compared with those of a Debezium Server, and bintide continues where one stopped.

mod compare;
mod debezium;
mod maxwell;
mod through_relay;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::Value;
use testkit::{TestServer, target_dir, wait_until};

use testkit::workspace_root;

use crate::checks::{TESTED_FEATURES, run_example};

/// Value of the last row, which no other record has.
const LAST_VALUE: &str = "424242";

/// Rows of the transaction in which Debezium Server stops: writing them takes longer than its stop.
const ADOPTED_ROWS: u64 = 200_000;

/// Parts of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgePart {
    /// Compare with Debezium
    Debezium,
    /// Compare with Maxwell
    Maxwell,
    /// Run Debezium, Maxwell, canal and python-mysql-replication on a relay
    Relay,
    /// Compare topics with those of a Debezium Server: fetches 781 MB
    Topics,
    /// Continue where a Debezium Server stopped: fetches 781 MB
    Adoption,
}

/// Runs one part, or all of them.
pub(crate) fn run_judges(only: Option<JudgePart>) -> Result<()> {
    testkit::run_cargo(&["build", "--quiet", "--package", "bintide", "--features", TESTED_FEATURES])?;
    let directory = target_dir().join("judge");
    for part in JudgePart::value_variants() {
        if only.is_some_and(|only| only != *part) {
            continue;
        }
        match part {
            JudgePart::Debezium => debezium::judge(&make_directory(&directory.join("debezium"))?)?,
            JudgePart::Maxwell => maxwell::judge(&make_directory(&directory.join("maxwell"))?)?,
            JudgePart::Relay => through_relay::judge(&directory)?,
            JudgePart::Topics => run_example("judge_topics", [0, 0])?,
            JudgePart::Adoption => run_example("adoption", [ADOPTED_ROWS, 0])?,
        }
    }
    Ok(())
}

fn make_directory(directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    Ok(directory.to_owned())
}

/// Fetches the dependencies of `bench/NAME/pom.xml` with Maven into the target directory, and compiles the Java
/// program.
fn fetch_jars(directory: &Path, name: &str, sources: &[&str]) -> Result<()> {
    let bench = workspace_root().join("bench").join(name);
    let jars = directory.join("jars");
    if !jars.exists() {
        // The directory is renamed once it is complete.
        let fetched = directory.join("jars.new");
        let arguments = [
            "-q",
            "-B",
            "dependency:copy-dependencies",
            &format!("-DoutputDirectory={}", fetched.display()),
            "-f",
        ];
        run(Command::new("mvn").args(arguments).arg(bench.join("pom.xml")))?;
        fs::rename(fetched, jars)?;
    }
    let sources = sources.iter().map(|source| bench.join(source));
    run(Command::new("javac").arg("-cp").arg(class_path(directory)).arg("-d").arg(directory).args(sources))
}

fn class_path(directory: &Path) -> String {
    format!("{}:{}/jars/*", directory.display(), directory.display())
}

fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("could not run {command:?}: install Java 17 and Maven"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Java process, which is killed on drop.
struct JavaProcess(Child);

impl Drop for JavaProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the log of a tool contains this text.
fn wait_for(log: &Path, text: &str) -> Result<()> {
    wait_until("the start of the tool", || Ok(fs::read_to_string(log)?.contains(text)))
        .with_context(|| format!("see {}", log.display()))?;
    // The tool logs the text before it reads.
    thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Waits until the records include the last row.
fn wait_for_end(engine: &mut JavaProcess, records: &Path, log: &Path) -> Result<()> {
    wait_until("the record of the last row", || {
        ensure!(engine.0.try_wait()?.is_none(), "the tool has ended");
        Ok(fs::read_to_string(records)?.contains(LAST_VALUE))
    })
    .with_context(|| format!("see {}", log.display()))
}

/// Returns the scripts of two samples, without the parts that stop the tools: spatial references and vectors in
/// definitions, and SETs whose every bit is set.
fn sample_scripts() -> Result<[String; 2]> {
    let samples = workspace_root().join("samples");
    let mut types = fs::read_to_string(samples.join("types.sql"))?;
    for (from, to) in [
        (", (5, 5, 7, 255, 511, 18446744073709551615, 1, 2, 3);", ";"),
        ("p POINT SRID 0", "p POINT"),
        ("world POINT NOT NULL SRID 4326, SPATIAL INDEX (world)", "world POINT"),
    ] {
        ensure!(types.contains(from), "types.sql does not contain {from:?}");
        types = types.replace(from, to);
    }
    let start = types.find("CREATE TABLE vectors").context("types.sql has vectors")?;
    let end = types.find("-- No key, one column").context("types.sql continues after its vectors")?;
    types.replace_range(start..end, "");
    Ok([types, fs::read_to_string(samples.join("json.sql"))?])
}

/// Returns bintide's records of the same log.
fn bintide_records(server: &TestServer, arguments: &[&str]) -> Result<Vec<Value>> {
    let index = server.datadir().join("binlog.index");
    let output = Command::new(bintide_program()).arg("stream").args(arguments).arg(index).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parse_lines(&String::from_utf8(output.stdout)?)
}

fn bintide_program() -> PathBuf {
    env::var_os("BINTIDE_BIN").map_or_else(|| target_dir().join("debug/bintide"), PathBuf::from)
}

fn parse_lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
