//! Counts the results of a replay, and reports them.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::lag_tracker::LagTracker;
use crate::replay_error::{ReplayError, TargetFailure};
use crate::replay_progress::{AppliedState, ReplayProgress};
use crate::replay_report::{ReplayReport, ReplayStatus};
use crate::replay_target::ReplayTarget;
use crate::run::group_applier::ApplyTotals;
use crate::run::group_builder::CommitGroup;
use crate::run::group_queue::GroupQueue;
use crate::run::transaction_batch::ReadProgress;

/// Observer of a replay.
pub trait ReplayObserver {
    /// Receives the current state; called often, also while nothing is committed. The result says whether to continue.
    fn on_status(&mut self, status: &ReplayStatus<'_>) -> ControlFlow<()>;
}

/// Interval at which the applier reports its state and asks whether to continue.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Counts results, and keeps the target's own record up to date.
pub(super) struct ReplayMonitor<'w> {
    target: &'w dyn ReplayTarget,
    queue: &'w GroupQueue,
    observer: &'w mut dyn ReplayObserver,
    report: ReplayReport,
    lags: LagTracker,
    /// Progress of the target before this run.
    base: ReplayProgress,
    /// Number of the last completed group in commit order, and the progress saved with it.
    last: Option<(u64, ReplayProgress)>,
    /// Number of the last completed group in source order.
    latest: Option<u64>,
    workers: u64,
    pub(super) busy: u64,
    group_transactions: u64,
    checkpoint_due: u64,
}

/// Transactions between two checkpoints of the target's own record.
const CHECKPOINT_TRANSACTIONS: u64 = 100_000;

impl<'w> ReplayMonitor<'w> {
    pub(super) fn new(
        target: &'w dyn ReplayTarget,
        queue: &'w GroupQueue,
        observer: &'w mut dyn ReplayObserver,
        workers: u64,
        base: ReplayProgress,
    ) -> Self {
        Self {
            target,
            queue,
            observer,
            report: ReplayReport::default(),
            lags: LagTracker::new(),
            base,
            last: None,
            latest: None,
            workers,
            busy: 0,
            group_transactions: 0,
            checkpoint_due: CHECKPOINT_TRANSACTIONS,
        }
    }

    pub(super) fn add_read(&mut self, so_far: ReadProgress) {
        self.report.skipped += so_far.skipped;
        self.report.bytes_read = so_far.bytes_read;
        self.report.first_after_stop = so_far.first_after_stop.or(self.report.first_after_stop.take());
        self.report.late = so_far.late.or(self.report.late.take());
        self.report.unmatched.extend(so_far.unmatched);
    }

    /// Records that a group was committed at this time, in microseconds since 1970.
    pub(super) fn add_applied(
        &mut self,
        group: &CommitGroup,
        at_us: u64,
        tally: ApplyTotals,
    ) -> Result<(), ReplayError> {
        self.lags.add(&group.committed_us, at_us);
        self.report.commit_lags = self.lags.all();
        self.report.transactions += group.transactions;
        self.report.groups += 1;
        assert!(
            group.transactions >= group.committed_us.len() as u64,
            "ours: each commit time is of a transaction"
        );
        let ApplyTotals { rows, retries, at_once } = tally;
        let is_growing = rows >= self.report.rows && retries >= self.report.retries;
        assert!(is_growing, "ours: totals are of all groups so far");
        (self.report.rows, self.report.retries, self.report.at_once) = (rows, retries, at_once);
        if self.last.as_ref().is_none_or(|(number, _)| *number < group.head.number) {
            self.last = Some((group.head.number, group.progress.clone()));
        }
        if self.latest.is_none_or(|number| number < group.head.number) {
            self.latest = Some(group.head.number);
            self.report.last_applied = Some(group.last_head().clone());
            self.report.committed_us = group.committed_us.last().copied();
            self.report.position = Some(group.end.end_position());
            self.report.file_position = group.end.file_range.end;
            self.group_transactions = group.transactions;
        }
        if self.report.transactions >= self.checkpoint_due {
            self.checkpoint_due = self.report.transactions + CHECKPOINT_TRANSACTIONS;
            self.queue.set_executed(self.checkpoint()?.executed);
        }
        Ok(())
    }

    /// Reports the current state to the observer. Fails if the observer wants to stop.
    pub(super) fn report_status(&mut self) -> Result<(), ReplayError> {
        assert!(self.busy <= self.workers, "ours: each busy session is one of the workers");
        let is_caught_up = self.queue.is_idle();
        if is_caught_up {
            self.lags.mark_caught_up();
        }
        let status = ReplayStatus::new(&self.report, self.workers, self.busy, self.group_transactions);
        let mut status = status.with_lags(&self.lags);
        status.is_caught_up = is_caught_up;
        match self.observer.on_status(&status) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ReplayError::Interrupted),
        }
    }

    /// Records the saved progress, if commits come in any order.
    pub(super) fn set_saved(&mut self, progress: ReplayProgress) {
        self.last = Some((u64::MAX, progress));
    }

    pub(super) fn set_undecided(&mut self, undecided: Vec<String>) {
        self.report.undecided = undecided;
    }

    fn checkpoint(&self) -> Result<AppliedState, ReplayError> {
        checkpoint(self.target, self.last.as_ref().map_or(&self.base, |(_, progress)| progress))
    }

    pub(super) fn finish(mut self, result: Result<(), ReplayError>) -> Result<ReplayReport, ReplayError> {
        let end = self.checkpoint();
        match result {
            Err(ReplayError::Interrupted) => self.report.is_interrupted = true,
            result => result?,
        }
        let end = end?;
        self.report.applied = end.progress.gtids.union(&end.executed);
        self.report.lag = self.lags.following();
        Ok(self.report)
    }
}

/// Makes the target update its own record of executed transactions.
pub(super) fn checkpoint(
    target: &dyn ReplayTarget,
    progress: &ReplayProgress,
) -> Result<AppliedState, ReplayError> {
    target.checkpoint(progress).map_err(|failure: TargetFailure| failure.into_error("save a checkpoint"))
}
