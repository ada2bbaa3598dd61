//! About how long a replay would take, and what that is based on.

use std::time::Duration;

use replay::{Options, Plan};

use crate::units;

/// What a replay is assumed to take, in microseconds. Rows and commits of a server are near what the table in
/// docs/replay.md comes to: MySQL 9.7 on two cores with bintide beside it, a flush a commit. The others are guesses.
#[derive(Clone, Copy, Debug)]
struct Costs {
    row: f64,
    commit: f64,
    /// A transaction that runs alone: mostly a definition.
    alone: f64,
}

const MYSQL: Costs = Costs { row: 15.0, commit: 600.0, alone: 20_000.0 };
const SQLITE: Costs = Costs { row: 6.0, commit: 1_000.0, alone: 2_000.0 };

/// About how long a replay would take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// To read the logs and to form what is applied: what the dry run took.
    pub(super) reading: Duration,
    /// To apply it. Both go on at once.
    pub(super) applying: Duration,
    costs: Costs,
    rows: u64,
    commits: u64,
    alone: u64,
    /// Workers that have something to do, on average.
    busy: f64,
}

impl Estimate {
    pub(super) fn new(plan: &Plan, options: &Options, reading: Duration, is_sqlite: bool) -> Self {
        let costs = if is_sqlite { SQLITE } else { MYSQL };
        let work = plan.groups.unwrap_or(plan.units);
        let busy = work.average().clamp(1.0, options.workers.get() as f64);
        let rows = plan.tables.values().map(|changes| changes.after).sum();
        let (commits, alone) = (work.count.saturating_sub(plan.alone), plan.alone);
        // Commits come in order: workers share what leads to them.
        let in_order = commits as f64 * costs.commit + alone as f64 * costs.alone;
        let micros = rows as f64 * costs.row / busy + in_order;
        let applying = Duration::from_micros(micros as u64);
        Self { reading, applying, costs, rows, commits, alone, busy }
    }

    pub(super) fn total(&self) -> Duration {
        self.reading.max(self.applying)
    }

    /// What it is based on.
    pub(super) fn basis(&self) -> String {
        let Costs { row, commit, alone } = self.costs;
        let cost = |micros: f64| units::duration(Duration::from_micros(micros as u64));
        format!(
            "{} at {} each, shared by {:.1} workers, {} at {}, and {} that run alone at {}, as assumed of two \
             cores; or {} if reading takes longer, as long as this took. Other machines and tables take another time",
            units::counted(self.rows, "row change"),
            cost(row),
            self.busy,
            units::counted(self.commits, "commit"),
            cost(commit),
            units::count(self.alone),
            cost(alone),
            units::duration(self.reading),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use filter::Filter;
    use replay::order::CommitOrder;
    use replay::schedule::Mode;
    use replay::{Gap, Options, Plan, RowChanges, Selection, Width};

    use super::{Estimate, MYSQL};

    fn estimate(workers: usize, chain: u64, reading_s: u64) -> Estimate {
        let mut plan = Plan::default();
        plan.alone = 2;
        plan.units = Width { count: 102, chain };
        plan.tables.insert(Default::default(), RowChanges { before: 1_000_000, after: 100_000 });
        let options = Options {
            order: CommitOrder::Strict,
            group_max: 1,
            memory: 1,
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            mode: Mode::None,
            selection: Selection::default(),
            filter: Filter::default(),
            gap: Gap::Refuse,
        };
        Estimate::new(&plan, &options, Duration::from_secs(reading_s), false)
    }

    #[test]
    fn workers_share_what_goes_on_at_once() {
        let rows = 100_000.0 * MYSQL.row;
        let check = |workers, chain, wanted: f64| {
            let in_order = 100.0 * MYSQL.commit + 2.0 * MYSQL.alone;
            let wanted = Duration::from_micros((wanted + in_order) as u64);
            assert_eq!(estimate(workers, chain, 0).total(), wanted);
        };
        check(4, 102, rows);
        check(4, 51, rows / 2.0);
        check(4, 2, rows / 4.0);
        assert_eq!(estimate(4, 2, 100).total(), Duration::from_secs(100));
        assert!(estimate(4, 51, 0).basis().starts_with("100,000 row changes at "));
    }
}
