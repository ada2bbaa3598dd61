//! Estimated time of a replay, and its basis.

use std::time::Duration;

use replay::{ReplayOptions, ReplayPlan};

use crate::units;

/// Assumed costs in microseconds. The costs of rows and commits of a server are close to the measurements in
/// docs/measured/throughput.md: MySQL 9.7, on two cores shared with bintide, with one flush per commit. The other costs
/// are guesses.
#[derive(Clone, Copy, Debug)]
struct TimeCosts {
    row: f64,
    commit: f64,
    /// Transaction that runs alone: mostly DDL.
    alone: f64,
}

const MYSQL_COSTS: TimeCosts = TimeCosts { row: 15.0, commit: 600.0, alone: 20_000.0 };
const SQLITE_COSTS: TimeCosts = TimeCosts { row: 6.0, commit: 1_000.0, alone: 2_000.0 };

/// Estimated time of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeEstimate {
    /// Time to read the logs and group transactions: the time of the dry run.
    pub(super) reading: Duration,
    /// Time to apply transactions, in parallel with reading.
    pub(super) applying: Duration,
    costs: TimeCosts,
    rows: u64,
    commits: u64,
    alone: u64,
    /// Average number of busy workers.
    busy: f64,
}

/// Limits of the estimate.
pub(super) const ESTIMATE_LIMITS: &str =
    "The times of changes and commits are assumed for two cores; other machines and tables differ";

impl TimeEstimate {
    pub(super) fn new(
        plan: &ReplayPlan,
        options: &ReplayOptions,
        reading: Duration,
        is_sqlite: bool,
    ) -> Self {
        let costs = if is_sqlite { SQLITE_COSTS } else { MYSQL_COSTS };
        let work = plan.groups.unwrap_or(plan.units);
        let busy = work.average().clamp(1.0, options.workers.get() as f64);
        let rows = plan.tables.values().map(|changes| changes.after).sum();
        let (commits, alone) = (work.count.saturating_sub(plan.alone), plan.alone);
        // Commits run in order; workers share the work before them.
        let in_order = commits as f64 * costs.commit + alone as f64 * costs.alone;
        let micros = rows as f64 * costs.row / busy + in_order;
        let applying = Duration::from_micros(micros as u64);
        Self { reading, applying, costs, rows, commits, alone, busy }
    }

    pub(super) fn total(&self) -> Duration {
        self.reading.max(self.applying)
    }

    /// Returns the basis of the estimate: numbers and times.
    pub(super) fn figures(&self) -> [String; 4] {
        let TimeCosts { row, commit, alone } = self.costs;
        let cost = |micros: f64| units::duration(Duration::from_micros(micros as u64));
        let rows = units::count(self.rows);
        [
            format!("row changes: {rows} at {} each, shared by {:.1} workers", cost(row), self.busy),
            format!("commits: {} at {} each", units::count(self.commits), cost(commit)),
            format!("transactions that run alone: {} at {} each", units::count(self.alone), cost(alone)),
            format!("reading the logs: {}", units::duration(self.reading)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use replay::CommitOrder;
    use replay::schedule::ParallelMode;
    use replay::{GapPolicy, Parallelism, ReplayOptions, ReplayPlan, RowChanges, TransactionSelection};
    use sql::ReplicationFilter;

    use super::{MYSQL_COSTS, TimeEstimate};

    fn estimate(workers: usize, chain: u64, reading_s: u64) -> TimeEstimate {
        let mut plan = ReplayPlan::default();
        plan.alone = 2;
        plan.units = Parallelism { count: 102, chain };
        plan.tables.insert(Default::default(), RowChanges { before: 1_000_000, after: 100_000 });
        let options = ReplayOptions {
            order: CommitOrder::Strict,
            group_max: 1,
            memory: 1,
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            mode: ParallelMode::None,
            selection: TransactionSelection::default(),
            filter: ReplicationFilter::default(),
            gap: GapPolicy::Refuse,
        };
        TimeEstimate::new(&plan, &options, Duration::from_secs(reading_s), false)
    }

    #[test]
    fn workers_share_parallel_work() {
        let rows = 100_000.0 * MYSQL_COSTS.row;
        let check = |workers, chain, expected: f64| {
            let in_order = 100.0 * MYSQL_COSTS.commit + 2.0 * MYSQL_COSTS.alone;
            let expected = Duration::from_micros((expected + in_order) as u64);
            assert_eq!(estimate(workers, chain, 0).total(), expected);
        };
        check(4, 102, rows);
        check(4, 51, rows / 2.0);
        check(4, 2, rows / 4.0);
        assert_eq!(estimate(4, 2, 100).total(), Duration::from_secs(100));
        assert!(estimate(4, 51, 0).figures()[0].starts_with("row changes: 100,000 at "));
    }
}
