//! Archived logs that a source leaves out.

use binlog::gtid::GtidSet;
use logs::ArchivedContents;
use sql::TableSelection;

use crate::replay_log::ReplayLog;
use crate::transaction_source::archived_log_rule::{ArchivedLogRule, LogListPosition};
use crate::transaction_source::log_queue::LogQueue;

/// Transactions of archived logs that were not read, because the replay applies none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOutLogs {
    /// GTIDs of the transactions.
    pub(crate) gtids: GtidSet,
    /// Number of transactions.
    pub(crate) transactions: u64,
    /// Bytes of the logs.
    pub(crate) bytes: u64,
}

/// Rule that leaves out archived logs, and the logs that it has left out.
#[derive(Debug, Default)]
pub(super) struct LogOmissions {
    rule: ArchivedLogRule,
    total: LeftOutLogs,
    /// The part of `total` that [`LogOmissions::take_unreported`] has not returned yet.
    unreported: LeftOutLogs,
    /// Number of logs.
    count: usize,
}

impl LeftOutLogs {
    fn add(&mut self, contents: &ArchivedContents) {
        if let Some(gtids) = &contents.gtids {
            self.gtids.add_all(gtids);
        }
        self.transactions += contents.transactions;
        self.bytes += contents.size;
    }
}

impl LogOmissions {
    pub(super) fn set_rule(&mut self, rule: ArchivedLogRule) {
        self.rule = rule;
    }

    /// From now on, leaves out logs that change none of these tables.
    pub(super) fn set_tables(&mut self, tables: TableSelection) {
        self.rule.set_tables(tables);
    }

    /// From now on, leaves out logs without a transaction from before this time, in microseconds since 1970.
    pub(super) fn set_late_limit(&mut self, limit_us: u64) {
        self.rule.set_late_limit(limit_us);
    }

    /// Returns all logs that were left out.
    pub(super) const fn total(&self) -> &LeftOutLogs {
        &self.total
    }

    /// Returns the logs that were left out since the last call.
    pub(super) fn take_unreported(&mut self) -> LeftOutLogs {
        std::mem::take(&mut self.unreported)
    }

    /// Returns whether the next log of the queue need not be read, and counts it if so.
    pub(super) fn leaves_out(&mut self, log: &ReplayLog, queue: &LogQueue) -> bool {
        assert!(self.count <= queue.taken(), "ours: a log is taken from the queue before it is left out");
        let is_leading = queue.taken() == self.count;
        let position = LogListPosition { number: queue.taken(), names: queue.names(), is_leading };
        let Some(contents) = self.rule.unneeded(log, position) else { return false };
        self.total.add(&contents);
        self.unreported.add(&contents);
        self.count += 1;
        true
    }
}
