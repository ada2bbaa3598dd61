//! What was measured, for people and for programs.

use anyhow::Result;
use serde::Serialize;

use super::measure::Measured;
use super::{Case, Goal};

/// What one contender needed for a case, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    contender: &'a str,
    bytes: u64,
    median: Measured,
    runs: &'a [Measured],
}

/// The runs of each contender of a case.
type Runs = Vec<Vec<Measured>>;

/// One case, as soon as it is measured.
pub(super) fn print_progress(case: &Case, runs: &Runs) {
    let times = runs.iter().map(|runs| format!("{:.3} s", median(runs).seconds)).collect::<Vec<_>>();
    eprintln!("{}: {}", case.name, times.join(", "));
}

/// A line of JSON for each contender of each case.
pub(super) fn print_json(results: &[(Case, Runs)]) -> Result<()> {
    for (case, runs) in results {
        for (contender, runs) in case.contenders.iter().zip(runs) {
            let (name, bytes, median) = (&case.name, case.bytes, median(runs));
            let line = Line { case: name, contender: contender.name, bytes, median, runs };
            println!("{}", serde_json::to_string(&line)?);
        }
    }
    Ok(())
}

/// A table in Markdown, a line for each contender of each case.
pub(super) fn print(results: &[(Case, Runs)]) -> Result<()> {
    println!("| case | contender | seconds | CPU s | MB/s in | peak MB | ours is | goal |");
    println!("|---|---|--:|--:|--:|--:|--:|---|");
    for (case, runs) in results {
        let ours = median(&runs[0]);
        for (index, (contender, runs)) in case.contenders.iter().zip(runs).enumerate() {
            let median = median(runs);
            let ratio = median.seconds / ours.seconds;
            let (ours_is, goal) = match (index, case.goal) {
                (0, Goal::Memory(most)) => {
                    (String::new(), met(median.peak_bytes < most, &format!("< {} MB", most / 1_000_000)))
                }
                (0, Goal::Faster(_)) => (String::new(), String::new()),
                (_, Goal::Memory(_)) => (format!("{ratio:.1}x faster"), String::new()),
                (_, Goal::Faster(goals)) => {
                    let goal = goals.get(index - 1).map(|goal| met(ratio >= *goal, &format!("{goal}x")));
                    (format!("{ratio:.1}x faster"), goal.unwrap_or_default())
                }
            };
            println!(
                "| {} | {} | {:.3} | {:.3} | {:.0} | {:.0} | {ours_is} | {goal} |",
                case.name,
                contender.name,
                median.seconds,
                median.cpu_seconds,
                case.bytes as f64 / median.seconds / 1e6,
                median.peak_bytes as f64 / 1e6,
            );
        }
    }
    Ok(())
}

fn met(reached: bool, goal: &str) -> String {
    if reached { format!("{goal}: met") } else { format!("{goal}: missed") }
}

/// The middle run by the clock, with the largest memory of all runs.
fn median(runs: &[Measured]) -> Measured {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let peak_bytes = runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0);
    Measured { peak_bytes, ..sorted[sorted.len() / 2] }
}
