//! Compares the predictions of `bintide advise` from plain logs with the results of real servers on the same
//! transactions.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;

use super::table::{self, difference, megabytes};
use super::workload_runs::{self, BinlogSettings, StageTime, WorkloadRun};
use super::{cases, chart, doc_page};
use crate::workloads::{self, LogCompression, Workload};

/// Largest relative error of predicted sizes and times.
const SIZE_OFF_MAX: f64 = 0.02;
const TIME_OFF_MAX: f64 = 0.25;

/// Levels to predict, and number of runs.
#[derive(Args)]
pub(crate) struct PredictionBenchOptions {
    /// Compression levels
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 6, 9, 12, 19])]
    levels: Vec<u32>,
    /// Number of runs of the workloads at each level, including saved runs. The shortest time counts, because other
    /// load on the machine only adds to the server's times
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Discard saved runs, and run the workloads again
    #[arg(long)]
    fresh: bool,
}

/// Part of the output of `bintide advise --json`.
#[derive(Deserialize)]
struct PrintedAdvice {
    totals: PrintedTotals,
    levels: Vec<PrintedLevel>,
}

#[derive(Deserialize)]
struct PrintedTotals {
    bytes_plain: PrintedEstimate,
}

#[derive(Deserialize)]
struct PrintedEstimate {
    value: u64,
}

#[derive(Deserialize)]
struct PrintedLevel {
    level: u32,
    bytes: PrintedEstimate,
    compress_s_per_gb: f64,
    decompress_s_per_gb: f64,
}

/// Results of one workload at one level.
struct PredictionLine {
    workload: Workload,
    level: u32,
    bytes: [u64; 2],
    compressing: PredictedSeconds,
    decompressing: PredictedSeconds,
}

/// Predicted time, and shortest and longest time of the server's runs.
struct PredictedSeconds {
    predicted: f64,
    least: f64,
    most: f64,
}

/// Predicts, runs, and compares.
pub(crate) fn measure_prediction(options: &PredictionBenchOptions) -> Result<()> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    if options.fresh {
        workload_runs::remove_saved_runs()?;
    }
    let mut runs = Vec::new();
    for &level in &options.levels {
        runs.push((level, workload_runs::load_or_run(BinlogSettings::at(level), options.runs)?));
    }
    let mut lines = Vec::new();
    for (index, workload) in Workload::ALL.into_iter().enumerate() {
        let advice = run_advise(workload, &options.levels)?;
        for (level, runs) in &runs {
            let runs: Vec<WorkloadRun> = runs.iter().map(|workloads| workloads[index]).collect();
            lines.push(line(workload, *level, &advice, &runs)?);
        }
    }
    doc_page::COMPRESSION.write("prediction", &(table_of(&lines) + &doc_page::conditions()?))?;
    doc_page::COMPRESSION.draw("prediction", &drawing(&options.levels, &lines)?)?;
    let missed: Vec<String> = lines.iter().flat_map(missed_goals).collect();
    ensure!(missed.is_empty(), "predictions beyond the limits: {}", missed.join("; "));
    Ok(())
}

/// Returns the prediction of advise from the plain log.
fn run_advise(workload: Workload, levels: &[u32]) -> Result<PrintedAdvice> {
    let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
    let mut command = Command::new(cases::build_bintide()?);
    command.args(["advise", "--all", "--json", "--levels", &levels.join(",")]);
    let output = command.arg(workloads::workload_log(workload, LogCompression::Plain)?).output()?;
    ensure!(output.status.success(), "bintide failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("could not read what advise printed")
}

fn line(
    workload: Workload,
    level: u32,
    advice: &PrintedAdvice,
    runs: &[WorkloadRun],
) -> Result<PredictionLine> {
    let at_level =
        advice.levels.iter().find(|found| found.level == level).context("advise left out a level")?;
    let gigabytes = advice.totals.bytes_plain.value as f64 / 1e9;
    let seconds = |per_gigabyte: f64, stage: fn(&WorkloadRun) -> StageTime| PredictedSeconds {
        predicted: per_gigabyte * gigabytes,
        least: runs.iter().map(|run| stage(run).total).fold(f64::INFINITY, f64::min),
        most: runs.iter().map(|run| stage(run).total).fold(0.0, f64::max),
    };
    Ok(PredictionLine {
        workload,
        level,
        bytes: [at_level.bytes.value, runs.first().context("no run")?.bytes],
        compressing: seconds(at_level.compress_s_per_gb, |run| run.compressing),
        decompressing: seconds(at_level.decompress_s_per_gb, |run| run.decompressing),
    })
}

impl PredictionLine {
    fn size_off(&self) -> f64 {
        self.bytes[0] as f64 / self.bytes[1] as f64 - 1.0
    }
}

impl PredictedSeconds {
    fn off(&self) -> f64 {
        self.predicted / self.least - 1.0
    }

    fn cells(&self) -> [String; 3] {
        let actual = format!("{:.2} to {:.2}", self.least, self.most);
        if self.predicted == 0.0 {
            return ["not measured".to_owned(), actual, String::new()];
        }
        [format!("{:.2}", self.predicted), actual, format!("{:+.0}%", 100.0 * self.off())]
    }
}

fn missed_goals(line: &PredictionLine) -> Vec<String> {
    let (name, level) = (line.workload.name(), line.level);
    let off =
        [("size", line.size_off(), SIZE_OFF_MAX), ("time to compress", line.compressing.off(), TIME_OFF_MAX)];
    let missed = off.into_iter().filter(|(_, off, most)| off.abs() > *most);
    missed.map(|(what, off, _)| format!("{name} at level {level}: {what} by {}", difference(off))).collect()
}

fn table_of(lines: &[PredictionLine]) -> String {
    let heads = [
        "workload, level",
        "MB predicted",
        "actual",
        "off",
        "s to compress predicted",
        "actual",
        "off",
        "s to decompress predicted",
        "actual",
        "off",
    ];
    let rows = lines.iter().map(|line| {
        let sizes = [megabytes(line.bytes[0]), megabytes(line.bytes[1]), difference(line.size_off())];
        let name = format!("{} {}", line.workload.name(), line.level);
        [vec![name], sizes.to_vec(), line.compressing.cells().to_vec(), line.decompressing.cells().to_vec()]
            .concat()
    });
    table::markdown(&heads, rows)
}

fn drawing(levels: &[u32], lines: &[PredictionLine]) -> Result<String> {
    let names: Vec<String> = levels.iter().map(|level| format!("level {level}")).collect();
    let drawn = Workload::ALL.map(|workload| {
        let of_workload = || lines.iter().filter(move |line| line.workload == workload);
        let shares: Vec<f64> = of_workload().map(|line| 100.0 * (1.0 + line.compressing.off())).collect();
        chart::ChartLine { name: workload.name(), values: shares.clone(), marks: shares }
    });
    chart::line_chart("Time to compress, as predicted: % of what the server took", &names, &drawn)
}

#[cfg(test)]
mod tests {
    use super::{PredictedSeconds, PredictionLine, missed_goals};
    use crate::workloads::Workload;

    #[test]
    fn missed_goals_are_named() {
        let line = |predicted, server, seconds| PredictionLine {
            workload: Workload::Load,
            level: 3,
            bytes: [predicted, server],
            compressing: PredictedSeconds { predicted: seconds, least: 1.0, most: 2.0 },
            decompressing: PredictedSeconds { predicted: 9.0, least: 1.0, most: 1.0 },
        };
        assert_eq!(missed_goals(&line(1019, 1000, 1.24)), [""; 0]);
        assert_eq!(missed_goals(&line(1021, 1000, 1.0)), ["load at level 3: size by +2.10%"]);
        assert_eq!(missed_goals(&line(979, 1000, 0.5)).len(), 2);
    }
}
