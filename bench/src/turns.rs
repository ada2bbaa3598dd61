//! Runs of contenders in turns, so that a change of the machine's load affects all of them.

use anyhow::Result;

/// Runs of one contender.
pub(super) struct ContenderRuns<C, R> {
    pub(super) contender: C,
    pub(super) runs: Vec<R>,
}

/// Runs contenders in turns, each `count` times. `alternatives` are lists of contenders: all of a list run once, and
/// only the one with the lowest `cost` runs again.
pub(super) fn run_in_turns<C: Copy, R>(
    alternatives: impl IntoIterator<Item = Vec<C>>,
    count: usize,
    cost: fn(&R) -> f64,
    mut run: impl FnMut(C) -> Result<R>,
) -> Result<Vec<ContenderRuns<C, R>>> {
    let mut results = Vec::new();
    for contenders in alternatives {
        let mut best: Option<ContenderRuns<C, R>> = None;
        for contender in contenders {
            let found = run(contender)?;
            if best.as_ref().is_none_or(|best| cost(&found) < cost(&best.runs[0])) {
                best = Some(ContenderRuns { contender, runs: vec![found] });
            }
        }
        results.extend(best);
    }
    for _ in 1..count {
        for standing in &mut results {
            standing.runs.push(run(standing.contender)?);
        }
    }
    Ok(results)
}

/// Returns the run with the median cost: of an even number of runs, the costlier of the middle ones.
///
/// # Panics
///
/// If there is no run.
pub(super) fn median_run<R: Clone>(runs: &[R], cost: impl Fn(&R) -> f64) -> R {
    let mut sorted: Vec<&R> = runs.iter().collect();
    sorted.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    sorted[sorted.len() / 2].clone()
}

#[cfg(test)]
mod tests {
    use super::{median_run, run_in_turns};

    #[test]
    fn the_median_is_the_middle_run() {
        assert_eq!(median_run(&[3.0, 1.0, 2.0], |run| *run), 2.0);
        assert_eq!(median_run(&[1.0, 2.0], |run| *run), 2.0);
        assert_eq!(median_run(&[5.0], |run| *run), 5.0);
    }

    #[test]
    fn the_best_alternative_runs_again() {
        let mut order = Vec::new();
        let alternatives = [vec![("a", 2.0)], vec![("b", 3.0), ("c", 1.0), ("d", 2.0)]];
        let results = run_in_turns(
            alternatives,
            2,
            |seconds| *seconds,
            |(name, seconds)| {
                order.push(name);
                Ok(seconds)
            },
        );
        let names: Vec<&str> = results.unwrap().iter().map(|standing| standing.contender.0).collect();
        assert_eq!((names, order), (vec!["a", "c"], vec!["a", "b", "c", "d", "a", "c"]));
    }
}
