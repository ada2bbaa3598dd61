//! Bench of `bintide stream` and a go-mysql program that writes the same JSON.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::measure::{RunMeasurement, run_measured};
use super::table::{markdown, median, megabytes};
use super::{RaceOptions, cases};
use crate::workloads::{LogCompression, Workload, workload_log};

/// Goals: minimum speed relative to the go-mysql program, and minimum rate of JSON in MB a second of one core.
const SPEEDUP_MIN: f64 = 5.0;
const RATE_MB_MIN: f64 = 1000.0;

/// Number of records of both programs that are compared.
const RECORDS_COMPARED: usize = 300_000;

/// Job of both programs.
struct StreamingCase {
    name: String,
    ours: Vec<String>,
    other: Vec<String>,
}

/// Measurements of a job.
struct StreamingResult {
    name: String,
    /// Size of the JSON in bytes.
    bytes: u64,
    ours: RunMeasurement,
    other: RunMeasurement,
}

/// Runs all jobs and prints their table.
pub(super) fn run(racing: &RaceOptions) -> Result<()> {
    ensure!(racing.runs > 0, "--runs must be at least 1");
    let mut done = Vec::new();
    for job in
        streaming_cases()?.into_iter().filter(|job| racing.only.iter().all(|text| job.name.contains(text)))
    {
        done.push(measure_case(job, racing.runs)?);
    }
    print!("{}", table(&done));
    Ok(())
}

fn streaming_cases() -> Result<Vec<StreamingCase>> {
    let bintide = cases::build_bintide()?;
    let go = cases::build_go_program("go-mysql", "./stream", "go-mysql-stream")?;
    let mut jobs = Vec::new();
    for form in LogCompression::ALL {
        for workload in Workload::ALL {
            let log = workload_log(workload, form)?.display().to_string();
            for envelope in ["debezium", "maxwell"] {
                let word = |text: &str| text.to_owned();
                let program = bintide.display().to_string();
                let options = ["stream", "--format", envelope, "--columns", "numbered"].map(word);
                let ours = [program].into_iter().chain(options).chain([log.clone()]).collect();
                let other = vec![go.display().to_string(), word(envelope), log.clone()];
                let name = format!("{} {} {envelope}", workload.name(), form.name());
                jobs.push(StreamingCase { name, ours, other });
            }
        }
    }
    Ok(jobs)
}

fn measure_case(job: StreamingCase, runs: usize) -> Result<StreamingResult> {
    let bytes = compare_records(&job).with_context(|| format!("in {}", job.name))?;
    let (mut ours, mut other) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        for (words, measured) in [(&job.ours, &mut ours), (&job.other, &mut other)] {
            let words: Vec<_> = words.iter().map(Into::into).collect();
            measured.push(run_measured(&words, None).with_context(|| format!("in {}", job.name))?);
        }
    }
    let done = StreamingResult { name: job.name, bytes, ours: median(&ours), other: median(&other) };
    eprintln!("{}: {:.2} s, {:.2} s", done.name, done.ours.seconds, done.other.seconds);
    Ok(done)
}

fn table(done: &[StreamingResult]) -> String {
    let heads = [
        "log, form",
        "JSON MB",
        "seconds",
        "MB/s a core",
        "peak MB",
        "go-mysql: seconds",
        "CPU s",
        "peak MB",
        "times as fast",
        "goals",
    ];
    let rows = done.iter().map(|done| {
        let rate = done.bytes as f64 / 1e6 / done.ours.cpu_seconds;
        let ratio = done.other.seconds / done.ours.seconds;
        let met = |reached| if reached { "met" } else { "missed" };
        vec![
            done.name.clone(),
            format!("{:.0}", done.bytes as f64 / 1e6),
            format!("{:.2}", done.ours.seconds),
            format!("{rate:.0}"),
            megabytes(done.ours.peak_bytes),
            format!("{:.2}", done.other.seconds),
            format!("{:.2}", done.other.cpu_seconds),
            megabytes(done.other.peak_bytes),
            format!("{ratio:.1}"),
            format!(
                "{SPEEDUP_MIN}x {}, {RATE_MB_MIN} MB/s {}",
                met(ratio >= SPEEDUP_MIN),
                met(rate >= RATE_MB_MIN)
            ),
        ]
    });
    markdown(&heads, rows)
}

/// Compares the first records of both programs. It ignores the time of writing, and definitions, which the go-mysql
/// program does not write. Returns the size of bintide's whole output.
fn compare_records(job: &StreamingCase) -> Result<u64> {
    let (mut ours, mut other) = (RecordLines::of(&job.ours)?, RecordLines::of(&job.other)?);
    for number in 0..RECORDS_COMPARED {
        let (left, right) = (ours.next()?, other.next()?);
        ensure!(left == right, "record {number} differs:\n{left:?}\n{right:?}");
        if left.is_none() {
            break;
        }
    }
    other.child.kill()?;
    other.child.wait()?;
    while ours.next()?.is_some() {}
    ensure!(ours.child.wait()?.success(), "bintide stream failed");
    Ok(ours.bytes)
}

/// Records that a program writes.
struct RecordLines {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    bytes: u64,
}

impl RecordLines {
    fn of(words: &[String]) -> Result<Self> {
        let (program, arguments) = words.split_first().context("no program")?;
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        let output =
            BufReader::with_capacity(1 << 20, child.stdout.take().context("standard output is not piped")?);
        Ok(Self { child, output, bytes: 0 })
    }

    fn next(&mut self) -> Result<Option<String>> {
        loop {
            let mut line = String::new();
            self.bytes += self.output.read_line(&mut line)? as u64;
            let is_definition = line.contains("\"tableChanges\":") || line.contains("\"sql\":");
            match line.is_empty() {
                true => return Ok(None),
                false if is_definition => {}
                false => return Ok(Some(without_clock(line))),
            }
        }
    }
}

/// Removes the time of writing, which ends Debezium's records of changes. The time in records of transactions is kept,
/// because it is that of the log.
fn without_clock(mut line: String) -> String {
    if let Some(at) = line.find("\",\"ts_ms\":").filter(|_| line.starts_with("{\"before\"")) {
        // The first time is the log's, in the source block.
        let after = line[at + 1..].rfind("\",\"ts_ms\":").map_or(at, |after| at + 1 + after);
        line.truncate(after);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::without_clock;

    #[test]
    fn only_the_clock_is_cut_off() {
        let check = |line: &str, expected: &str| assert_eq!(without_clock(line.to_owned()), expected);
        check(
            "{\"before\":null,\"source\":{\"name\":\"x\",\"ts_ms\":1},\"op\":\"c\",\"ts_ms\":2,\"ts_us\":3}\n",
            "{\"before\":null,\"source\":{\"name\":\"x\",\"ts_ms\":1},\"op\":\"c",
        );
        check("{\"status\":\"END\",\"ts_ms\":2}\n", "{\"status\":\"END\",\"ts_ms\":2}\n");
    }
}
