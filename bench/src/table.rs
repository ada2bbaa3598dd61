//! Prints measurements as Markdown tables and as JSON.

use anyhow::Result;
use serde::Serialize;

use super::measure::RunMeasurement;
use super::turns::median_run;
use super::{BenchCase, CaseGoal};

/// Measurements of one contender in a case, as JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    case: &'a str,
    contender: &'a str,
    bytes: u64,
    median: RunMeasurement,
    runs: &'a [RunMeasurement],
}

/// Runs of each contender of a case.
type CaseRuns = Vec<Vec<RunMeasurement>>;

/// Prints the times of one case, as soon as it is measured.
pub(super) fn print_progress(case: &BenchCase, runs: &CaseRuns) {
    let times = runs.iter().map(|runs| format!("{:.3} s", median(runs).seconds)).collect::<Vec<_>>();
    eprintln!("{}: {}", case.name, times.join(", "));
}

/// Prints a line of JSON for each contender of each case.
pub(super) fn print_json(results: &[(BenchCase, CaseRuns)]) -> Result<()> {
    for (case, runs) in results {
        for (contender, runs) in case.contenders.iter().zip(runs) {
            let (name, bytes, median) = (&case.name, case.bytes, median(runs));
            let line = JsonLine { case: name, contender: contender.name, bytes, median, runs };
            println!("{}", serde_json::to_string(&line)?);
        }
    }
    Ok(())
}

/// Prints a table in Markdown, with a row for each contender of each case.
pub(super) fn print(results: &[(BenchCase, CaseRuns)]) -> Result<()> {
    println!("| case | contender | seconds | CPU s | MB/s in | peak MB | ours is | goal |");
    println!("|---|---|--:|--:|--:|--:|--:|---|");
    for (case, runs) in results {
        let ours = median(&runs[0]);
        for (index, (contender, runs)) in case.contenders.iter().zip(runs).enumerate() {
            let median = median(runs);
            let ratio = median.seconds / ours.seconds;
            let (ours_is, goal) = match (index, case.goal) {
                (0, CaseGoal::Memory(most)) => {
                    (String::new(), met(median.peak_bytes < most, &format!("< {} MB", most / 1_000_000)))
                }
                (0, CaseGoal::Faster(_)) => (String::new(), String::new()),
                (_, CaseGoal::Memory(_)) => (format!("{ratio:.2} times as fast"), String::new()),
                (_, CaseGoal::Faster(goals)) => {
                    let goal = goals.get(index - 1).map(|goal| met(ratio >= *goal, &format!("{goal}x")));
                    (format!("{ratio:.2} times as fast"), goal.unwrap_or_default())
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

/// Formats a table in Markdown: the first column has names, the others numbers.
pub(super) fn markdown(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(heads) + "|---" + &"|--:".repeat(heads.len() - 1) + "|\n";
    for cells in rows {
        text += &line(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// Formats a size in millions of bytes.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

/// Formats a number with commas between thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a fraction as percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Formats a relative difference as percent, with its sign.
pub(super) fn difference(share: f64) -> String {
    format!("{:+.2}%", 100.0 * share)
}

fn met(reached: bool, goal: &str) -> String {
    if reached { format!("{goal}: met") } else { format!("{goal}: missed") }
}

/// Returns the run with the median time, with the largest peak memory of all runs.
pub(super) fn median(runs: &[RunMeasurement]) -> RunMeasurement {
    let peak_bytes = runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0);
    RunMeasurement { peak_bytes, ..median_run(runs, |run| run.seconds) }
}

#[cfg(test)]
mod tests {
    use super::{count, difference, markdown};

    #[test]
    fn numbers_have_separators_and_signs() {
        assert_eq!([0, 999, 1000, 7_500_000].map(count), ["0", "999", "1,000", "7,500,000"]);
        assert_eq!([0.0125, -0.1].map(difference), ["+1.25%", "-10.00%"]);
    }

    #[test]
    fn tables_are_formatted_as_markdown() {
        let rows = [vec!["x".to_owned(), "1".to_owned()]];
        assert_eq!(markdown(&["a", "b"], rows.into_iter()), "| a | b |\n|---|--:|\n| x | 1 |\n");
    }
}
