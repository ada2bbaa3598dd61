//! Collects GTIDs.

use binlog::gtid::{Gno, Gtid, GtidSet, Interval, Tsid};

/// Collects GTIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gtids {
    set: GtidSet,
    /// Latest GTIDs, not in the set yet. Usually the next GTID continues them.
    run: Option<Run>,
}

/// Consecutive transaction numbers of one source.
#[derive(Clone, Copy, Debug)]
struct Run {
    tsid: Tsid,
    first: Gno,
    last: Gno,
}

impl Gtids {
    pub(crate) fn add(&mut self, gtid: Gtid) {
        match &mut self.run {
            Some(run) if run.tsid == gtid.tsid && run.last.get() + 1 == gtid.gno.get() => run.last = gtid.gno,
            _ => {
                self.settle();
                self.run = Some(Run { tsid: gtid.tsid, first: gtid.gno, last: gtid.gno });
            }
        }
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        self.set.add_all(&other.set);
    }

    pub(crate) fn into_set(mut self) -> GtidSet {
        self.settle();
        self.set
    }

    fn settle(&mut self) {
        if let Some(Run { tsid, first, last }) = self.run.take()
            && let Some(interval) = Interval::new(first, last)
        {
            self.set.add_interval(tsid, interval);
        }
    }
}
