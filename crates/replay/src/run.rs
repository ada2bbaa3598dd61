//! Reads a source and applies its transactions.
//!
//! ```text
//! reader ─▶ transactions ─▶ group builder ─▶ commit groups ─▶ applier
//! ```
//!
//! Each stage is a thread, with bounded queues between them. A group grows while the applier is busy: one transaction
//! when it has caught up, thousands when it is behind.

mod applied_check;
mod claim_finder;
mod group_applier;
mod group_builder;
mod group_queue;
#[cfg(test)]
mod memory_target_tests;
mod plan;
mod read;
#[cfg(test)]
mod settle_tests;
mod workers;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use logs::ThreadPanic;
use sql::ReplicationFilter;

use crate::error::{ReplayError, TargetFailure};
use crate::lag::LagTracker;
use crate::order::CommitOrder;
use crate::progress::{AppliedState, ProgressLedger, ReplayProgress, StatementIntent};
use crate::report::{ReplayReport, ReplayStatus};
pub(crate) use crate::run::applied_check::AppliedCheck;
use crate::run::group_applier::{ApplyTotals, GroupApplier};
use crate::run::group_builder::{CommitGroup, GroupBuilder};
use crate::run::group_queue::{ApplierMessage, GroupQueue, QueueLimits};
pub use crate::run::plan::{DryRunTarget, Parallelism, ReplayPlan, RowChanges, plan};
use crate::run::read::{ReadProgress, ReadRules, TransactionBatch};
use crate::run::workers::GroupInput;
use crate::schedule::ParallelMode;
use crate::selection::{TransactionSelection, TransactionSelector};
use crate::source::TransactionSource;
use crate::target::{IntentOutcome, ReplayTarget};

/// Options of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Order in which transactions are committed, and how many as one.
    pub order: CommitOrder,
    /// Maximum number of transactions committed as one.
    pub group_max: usize,
    /// Approximate memory in bytes for transactions that are read and not applied.
    pub memory: usize,
    /// Sessions that apply transactions at the same time.
    pub workers: NonZeroUsize,
    /// Transactions that the sessions may apply at the same time.
    pub mode: ParallelMode,
    /// Transactions to apply.
    pub selection: TransactionSelection,
    /// Databases and tables to apply.
    pub filter: ReplicationFilter,
    /// Reaction to a target that lacks transactions from before the first log.
    pub gap: GapPolicy,
}

/// Reactions to a target that lacks transactions from before the first log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapPolicy {
    /// Apply nothing.
    #[default]
    Refuse,
    /// Apply the logs anyway.
    Allow,
}

/// Observer of a replay.
pub trait ReplayObserver {
    /// Receives the current state; called often, also while nothing is committed. The result says whether to continue.
    fn on_status(&mut self, status: &ReplayStatus<'_>) -> ControlFlow<()>;
}

/// Applies all transactions of a source that the target does not have. Follows logs that are still being written, until
/// the selection's stop or until the observer breaks.
///
/// # Errors
///
/// If a log cannot be read, or a transaction cannot be applied. Everything applied so far is saved on the target, and
/// the same call continues from there. That holds after a break by the observer, too.
pub fn replay(
    source: &mut TransactionSource,
    target: &dyn ReplayTarget,
    options: &ReplayOptions,
    observer: &mut dyn ReplayObserver,
) -> Result<ReplayReport, ReplayError> {
    let applied = target.applied().map_err(|failure| failure.into_error("read the progress"))?;
    let progress = settle_intent(target, &applied)?;
    let applied = AppliedState { progress: progress.clone(), ..applied };
    let executed = checkpoint(target, &progress)?;
    let base = progress.clone();
    let mut ledger = ProgressLedger::new(progress);
    ledger.remove_executed(&executed.executed);
    if options.selection.can_skip_applied_logs() {
        source.skip_applied_logs(&applied)?;
    }
    let skip = AppliedCheck::new(applied, source.log_names());
    let selector = TransactionSelector::new(&options.selection, source.log_names())?;
    let in_one = options.workers.get() == 1 && options.order != CommitOrder::Any;
    let mode = if in_one { ParallelMode::None } else { options.mode };
    let builder = GroupBuilder::new(target, options, mode, ledger);
    let (queue, groups) = GroupQueue::new(limits(options));
    let queue = &queue;
    let (to_builder, from_reader) = read::channel();
    thread::scope(|scope| {
        // Moves the sender into this thread, so that the group builder sees the end of the channel.
        scope.spawn(move || {
            let rules = ReadRules {
                selector,
                skip,
                filter: &options.filter,
                unmatched: options.filter.unmatched_rules(),
                gap: options.gap,
            };
            let read = ThreadPanic::catch("reads the logs", || read::read(source, rules, &to_builder, queue));
            if let Err(panic) = read {
                // If the group builder has ended, another thread failed first.
                let _ = to_builder
                    .send(TransactionBatch { failure: Some(panic.into()), ..TransactionBatch::default() });
            }
        });
        scope.spawn(|| group_queue::build_groups(builder, from_reader, queue));
        let workers = if in_one { 1 } else { options.workers.get() as u64 };
        let mut watcher = ReplayMonitor::new(target, queue, observer, workers);
        let result = ThreadPanic::catch_in("applies transactions", || match in_one {
            true => apply_in_one_session(target, &groups, queue, &mut watcher),
            false => {
                workers::run(target, options, &base, GroupInput { groups: &groups, queue }, &mut watcher)
            }
        });
        // Unblocks threads that still wait for the applier.
        drop(groups);
        queue.stop();
        watcher.finish(result)
    })
}

/// Maximum number of transactions that are ready and not applied, if each is committed by itself.
const READY_MAX: usize = 1024;

/// Groups grow while all workers are busy: then one is kept ready for the next free worker.
fn limits(options: &ReplayOptions) -> QueueLimits {
    let (workers, bytes) = (options.workers.get(), options.memory / 4);
    match options.order {
        CommitOrder::Grouped => QueueLimits { open: workers + 1, waiting: 1, bytes },
        CommitOrder::Strict | CommitOrder::Any => QueueLimits { open: READY_MAX, waiting: READY_MAX, bytes },
    }
}

fn apply_in_one_session(
    target: &dyn ReplayTarget,
    groups: &Receiver<ApplierMessage>,
    queue: &GroupQueue,
    watcher: &mut ReplayMonitor<'_>,
) -> Result<(), ReplayError> {
    let mut applier = GroupApplier::new(target)?;
    loop {
        let message = match groups.recv_timeout(POLL_INTERVAL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                watcher.report_status()?;
                continue;
            }
        };
        match message {
            ApplierMessage::Group(group) => {
                queue.mark_started();
                watcher.busy = 1;
                applier.apply(&group, &mut || watcher.report_status())?;
                watcher.busy = 0;
                queue.mark_applied(&group);
                watcher.add_applied(&group, now_us(), applier.tally)?;
            }
            ApplierMessage::Read(so_far) => watcher.add_read(so_far),
            ApplierMessage::Over { undecided } => {
                watcher.set_undecided(undecided);
                return Ok(());
            }
            ApplierMessage::Failed(error) => return Err(error),
        }
        watcher.report_status()?;
    }
}

/// Interval at which the applier reports its state and asks whether to continue.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Counts results, and keeps the target's own record up to date.
struct ReplayMonitor<'w> {
    target: &'w dyn ReplayTarget,
    queue: &'w GroupQueue,
    observer: &'w mut dyn ReplayObserver,
    report: ReplayReport,
    lags: LagTracker,
    /// Number of the last completed group in commit order, and the progress saved with it.
    last: Option<(u64, ReplayProgress)>,
    /// Number of the last completed group in source order.
    latest: Option<u64>,
    workers: u64,
    busy: u64,
    group_transactions: u64,
    checkpoint_due: u64,
}

/// Transactions between two checkpoints of the target's own record.
const CHECKPOINT_TRANSACTIONS: u64 = 100_000;

impl<'w> ReplayMonitor<'w> {
    fn new(
        target: &'w dyn ReplayTarget,
        queue: &'w GroupQueue,
        observer: &'w mut dyn ReplayObserver,
        workers: u64,
    ) -> Self {
        Self {
            target,
            queue,
            observer,
            report: ReplayReport::default(),
            lags: LagTracker::new(),
            last: None,
            latest: None,
            workers,
            busy: 0,
            group_transactions: 0,
            checkpoint_due: CHECKPOINT_TRANSACTIONS,
        }
    }

    fn add_read(&mut self, so_far: ReadProgress) {
        self.report.skipped += so_far.skipped;
        self.report.bytes_read = so_far.bytes_read;
        self.report.late = so_far.late.or(self.report.late.take());
        self.report.unmatched.extend(so_far.unmatched);
    }

    /// Records that a group was committed at this time, in microseconds since 1970.
    fn add_applied(
        &mut self,
        group: &CommitGroup,
        at_us: u64,
        tally: ApplyTotals,
    ) -> Result<(), ReplayError> {
        self.lags.add(&group.committed_us, at_us);
        self.report.commit_lags = self.lags.all();
        self.report.transactions += group.transactions;
        self.report.groups += 1;
        let ApplyTotals { rows, retries, at_once } = tally;
        (self.report.rows, self.report.retries, self.report.at_once) = (rows, retries, at_once);
        if self.last.as_ref().is_none_or(|(number, _)| *number < group.head.number) {
            self.last = Some((group.head.number, group.progress.clone()));
        }
        if self.latest.is_none_or(|number| number < group.head.number) {
            self.latest = Some(group.head.number);
            self.report.committed_us = group.committed_us.last().copied();
            self.report.place = Some(group.end.end_place());
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
    fn report_status(&mut self) -> Result<(), ReplayError> {
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

    /// Takes note of the saved progress, where commits come in any order.
    fn set_saved(&mut self, progress: ReplayProgress) {
        self.last = Some((u64::MAX, progress));
    }

    fn set_undecided(&mut self, undecided: Vec<String>) {
        self.report.undecided = undecided;
    }

    fn checkpoint(&self) -> Result<AppliedState, ReplayError> {
        let none = ReplayProgress::default();
        checkpoint(self.target, self.last.as_ref().map_or(&none, |(_, progress)| progress))
    }

    fn finish(mut self, result: Result<(), ReplayError>) -> Result<ReplayReport, ReplayError> {
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

/// Returns the current time in microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Finds out whether an announced statement was run, and returns the progress that follows.
fn settle_intent(target: &dyn ReplayTarget, applied: &AppliedState) -> Result<ReplayProgress, ReplayError> {
    let mut progress = applied.progress.clone();
    let Some(intent) = &applied.intent else { return Ok(progress) };
    let gtid = intent.unit.parse::<binlog::gtid::Gtid>().ok();
    if gtid.is_some_and(|gtid| applied.executed.contains(gtid) || progress.gtids.contains(gtid)) {
        return Ok(progress);
    }
    match target
        .settle(intent)
        .map_err(|failure| failure.into_error("find out whether an announced statement was run"))?
    {
        IntentOutcome::NotDone => {}
        IntentOutcome::Done => {
            match gtid {
                Some(gtid) => drop(progress.gtids.add(gtid)),
                None => progress.beyond.extend(StatementIntent::place(intent)),
            }
            let progress = ProgressLedger::new(progress).next_progress();
            target
                .save(&progress)
                .map_err(|failure| failure.into_error("save that the announced statement was run"))?;
            return Ok(progress);
        }
        IntentOutcome::Unknown(reason) => {
            return Err(ReplayError::Refused(format!(
                "unknown whether {} was run before the last replay stopped: {reason}",
                intent.unit
            )));
        }
    }
    Ok(progress)
}

/// Lets the target update its own record of executed transactions.
fn checkpoint(target: &dyn ReplayTarget, progress: &ReplayProgress) -> Result<AppliedState, ReplayError> {
    target.checkpoint(progress).map_err(|failure: TargetFailure| failure.into_error("save a checkpoint"))
}
