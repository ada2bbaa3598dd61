//! Collects GTIDs.

use binlog::gtid::{Gno, Gtid, GtidInterval, GtidSet, Tsid};

/// Collects GTIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct GtidCollector {
    set: GtidSet,
    /// Latest GTIDs, not in the set yet. Usually the next GTID continues them.
    run: Option<GtidRun>,
}

/// Consecutive transaction numbers of one source.
#[derive(Clone, Copy, Debug)]
struct GtidRun {
    tsid: Tsid,
    first: Gno,
    last: Gno,
}

impl GtidCollector {
    pub(crate) fn add(&mut self, gtid: Gtid) {
        match &mut self.run {
            Some(run) if run.tsid == gtid.tsid && run.last.get() + 1 == gtid.gno.get() => run.last = gtid.gno,
            _ => {
                self.flush_run();
                self.run = Some(GtidRun { tsid: gtid.tsid, first: gtid.gno, last: gtid.gno });
            }
        }
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.flush_run();
        other.flush_run();
        self.set.add_all(&other.set);
    }

    pub(crate) fn into_set(mut self) -> GtidSet {
        self.flush_run();
        self.set
    }

    fn flush_run(&mut self) {
        if let Some(GtidRun { tsid, first, last }) = self.run.take()
            && let Some(interval) = GtidInterval::new(first, last)
        {
            self.set.add_interval(tsid, interval);
        }
    }
}
