//! Applied transactions: as saved on the target, and as counted during a replay.

use std::collections::BTreeMap;

use binlog::gtid::{Gtid, GtidSet};

use crate::source_position::{SourcePosition, SourceRange};
use crate::source_transaction::TransactionHead;

/// Applied transactions. The target stores them in one row, written in the same transaction as the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Applied transactions with GTIDs. May omit GTIDs that the target itself counts as executed.
    pub gtids: GtidSet,
    /// All transactions without GTIDs up to this position are applied.
    pub position: Option<SourcePosition>,
    /// Starts of further applied transactions after that position, while an XA transaction is undecided.
    pub beyond: Vec<SourceRange>,
    /// Number of target transactions committed so far in the source's order. A transaction that commits while its
    /// predecessor does saves itself as the successor, so it cannot commit if its predecessor was lost. `None` if the target does not count
    /// commits, or commits come in any order.
    pub commits: Option<u64>,
}

impl ReplayProgress {
    /// Adds these GTIDs.
    pub fn add_gtids(&mut self, gtids: &[Gtid]) {
        for gtid in gtids {
            self.gtids.add(*gtid);
        }
    }
}

/// State of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedState {
    /// As recorded in the progress row.
    pub progress: ReplayProgress,
    /// Further GTIDs that the target counts as executed.
    pub executed: GtidSet,
    /// A statement that was announced, but not reported as done.
    pub intent: Option<StatementIntent>,
}

impl AppliedState {
    /// Returns all GTIDs that count as applied: those of the progress row, and those that the target executed.
    pub fn gtids(&self) -> GtidSet {
        self.executed.union(&self.progress.gtids)
    }
}

/// A statement that commits implicitly, announced before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementIntent {
    /// GTID of the statement's transaction, or its position in the log.
    pub transaction: String,
    /// Databases whose definitions the statement may change; empty for all.
    pub databases: Vec<Vec<u8>>,
    /// The target's fingerprint of the definitions before.
    pub before: String,
}

impl StatementIntent {
    /// Returns the identifier of a transaction in an intent.
    pub fn name(head: &TransactionHead) -> String {
        match head.gtid() {
            Some(gtid) => gtid.to_string(),
            None => head.origin.start_position().to_string(),
        }
    }

    /// Returns the position that identifies the transaction, if it has no GTID.
    pub fn position(&self) -> Option<SourcePosition> {
        let (log, position) = self.transaction.rsplit_once(':')?;
        Some(SourcePosition { log: log.to_owned(), position: position.parse().ok()? })
    }
}

/// Counts applied transactions during a replay, in commit order.
#[derive(Clone, Debug, Default)]
pub struct ProgressLedger {
    progress: ReplayProgress,
    /// Start positions of undecided XA transactions without GTIDs, by transaction number.
    held: BTreeMap<u64, SourcePosition>,
    last: Option<SourcePosition>,
}

impl ProgressLedger {
    /// Continues from saved progress.
    pub fn new(progress: ReplayProgress) -> Self {
        Self { last: progress.position.clone(), progress, held: BTreeMap::new() }
    }

    /// Returns the progress to save with the next target transaction. It covers all transactions counted so far.
    pub fn next_progress(&mut self) -> ReplayProgress {
        if let Some(commits) = &mut self.progress.commits {
            *commits += 1;
        }
        let oldest = self.held.values().next();
        assert!(
            oldest.is_none() || oldest == self.progress.position.as_ref(),
            "ours: an undecided XA transaction is not counted as applied"
        );
        self.progress.clone()
    }

    /// Records that this transaction is applied.
    pub fn mark_applied(&mut self, head: &TransactionHead) {
        match head.gtid() {
            Some(gtid) => {
                let is_new = self.progress.gtids.add(gtid);
                assert!(is_new, "ours: a transaction is applied once");
            }
            None => self.mark_anonymous_applied(head),
        }
    }

    fn mark_anonymous_applied(&mut self, head: &TransactionHead) {
        self.held.remove(&head.number);
        self.last = Some(head.origin.end_position());
        match self.held.values().next() {
            None => {
                self.progress.position.clone_from(&self.last);
                self.progress.beyond.clear();
            }
            Some(oldest) => {
                self.progress.position = Some(oldest.clone());
                self.add_beyond(head.origin.start_position());
            }
        }
    }

    /// Adds a transaction after the oldest undecided one. Unites it with the last ranges, if no undecided transaction
    /// lies between.
    fn add_beyond(&mut self, start: SourcePosition) {
        let Self { progress, held, .. } = self;
        let mut added = SourceRange::from(start);
        while let Some(range) = progress.beyond.last().filter(|range| range.log == added.log) {
            let (first, last) = (range.first.min(added.first), range.last.max(added.last));
            let is_between = |held: &SourcePosition| (first..=last).contains(&held.position);
            if held.values().any(|held| held.log == added.log && is_between(held)) {
                break;
            }
            (added.first, added.last) = (first, last);
            progress.beyond.pop();
        }
        progress.beyond.push(added);
    }

    /// Records that this XA transaction is prepared. It counts as not applied until it is committed or rolled back.
    pub fn mark_prepared(&mut self, head: &TransactionHead) {
        if head.gtid().is_none() {
            let is_last = self.held.last_key_value().is_none_or(|(last, _)| *last <= head.number);
            assert!(is_last, "ours: transactions come in the order of their numbers");
            let before = self.held.insert(head.number, head.origin.start_position());
            assert!(before.is_none(), "ours: a transaction is prepared once");
            if self.held.len() == 1 {
                self.progress.position = Some(head.origin.start_position());
            }
        }
    }

    /// Removes GTIDs that the target itself counts as executed: progress need no longer save them.
    pub fn remove_executed(&mut self, executed: &GtidSet) {
        self.progress.gtids.remove_all(executed);
    }
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;

    use super::{ProgressLedger, ReplayProgress};
    use crate::source_position::SourcePosition;
    use crate::source_transaction::{TransactionHead, TransactionOrigin};

    /// Returns a transaction without GTID, of 100 bytes.
    fn head(log: &str, number: u64) -> TransactionHead {
        let (start, end) = (number * 100, number * 100 + 100);
        let (log, log_name) = (log.into(), log.into());
        let origin = TransactionOrigin { log, log_name, log_number: 0, start, end, file_range: start..end };
        TransactionHead { number, origin, id: TransactionId::Anonymous, clock: None, committed_us: 0 }
    }

    #[test]
    fn applied_transactions_after_undecided_ones_are_ranges() {
        let mut ledger = ProgressLedger::new(ReplayProgress::default());
        ledger.mark_applied(&head("b.1", 1));
        ledger.mark_prepared(&head("b.1", 2));
        (3..1000).for_each(|number| ledger.mark_applied(&head("b.1", number)));
        ledger.mark_prepared(&head("b.1", 1000));
        (1001..1003).for_each(|number| ledger.mark_applied(&head("b.1", number)));
        ledger.mark_applied(&head("b.2", 2000));
        let progress = ledger.next_progress();
        assert_eq!(progress.position, Some(head("b.1", 2).origin.start_position()));
        let found: Vec<String> =
            progress.beyond.iter().map(|r| format!("{} {}-{}", r.log, r.first, r.last)).collect();
        assert_eq!(found, ["b.1 300-99900", "b.1 100100-100200", "b.2 200000-200000"]);
        let is_in = |position| {
            let start = SourcePosition { log: "b.1".to_owned(), position };
            progress.beyond.iter().any(|range| range.contains(&start))
        };
        assert!(is_in(300) && is_in(50_000) && is_in(100_200) && !is_in(200) && !is_in(100_000));
        ledger.mark_applied(&head("b.1", 2));
        ledger.mark_applied(&head("b.1", 1000));
        assert!(ledger.next_progress().beyond.is_empty());
    }

    #[test]
    fn transactions_that_are_decided_late_do_not_add_ranges() {
        let mut ledger = ProgressLedger::new(ReplayProgress::default());
        ledger.mark_prepared(&head("b.1", 1));
        for number in (2..1000).step_by(2) {
            ledger.mark_prepared(&head("b.1", number));
            ledger.mark_prepared(&head("b.1", number + 1));
            ledger.mark_applied(&head("b.1", number));
            ledger.mark_applied(&head("b.1", number + 1));
        }
        let ranges = ledger.next_progress().beyond;
        assert!(ranges.len() == 1, "{ranges:?}");
    }
}
