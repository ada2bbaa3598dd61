//! Reads a source and applies its transactions.
//!
//! ```text
//! reader ─▶ transactions ─▶ group builder ─▶ commit groups ─▶ applier
//! ```
//!
//! Each stage is a thread, with bounded queues between the stages. A group grows while the applier is busy: it has one
//! transaction if the applier has caught up, and thousands if it lags behind.

mod apply_worker;
mod claim_finder;
mod dry_run_target;
mod group_applier;
mod group_builder;
mod group_queue;
#[cfg(test)]
mod memory_target_tests;
mod replay_monitor;
mod replay_plan;
#[cfg(test)]
mod settle_tests;
mod transaction_batch;
mod transaction_reader;
mod undecided_transactions;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;

use logs::{ThreadPanic, now_us};

use crate::applied_check::AppliedCheck;
use crate::commit_order::CommitOrder;
use crate::lost_temporary_tables::LostTemporaryTables;
use crate::replay_error::ReplayError;
use crate::replay_options::ReplayOptions;
use crate::replay_progress::{AppliedState, ProgressLedger, ReplayProgress, StatementIntent};
use crate::replay_report::ReplayReport;
use crate::replay_target::{IntentOutcome, ReplayTarget};
use crate::run::apply_worker::GroupInput;
pub use crate::run::dry_run_target::{DraftRole, DryRunTarget};
use crate::run::group_applier::GroupApplier;
use crate::run::group_builder::GroupBuilder;
use crate::run::group_queue::{ApplierMessage, GroupQueue, QueueLimits};
pub use crate::run::replay_monitor::ReplayObserver;
use crate::run::replay_monitor::{POLL_INTERVAL, ReplayMonitor, checkpoint};
pub use crate::run::replay_plan::{Parallelism, ReplayPlan, RowChanges, plan};
use crate::run::transaction_batch::TransactionBatch;
use crate::run::transaction_reader::ReadRules;
use crate::schedule::ParallelMode;
use crate::transaction_selection::TransactionSelector;
use crate::transaction_source::TransactionSource;

/// Applies all transactions of a source that the target does not have. Follows logs that are still being written, until
/// the selection's stop or until the observer breaks.
///
/// # Errors
///
/// Fails if a log cannot be read, or a transaction cannot be applied. The progress so far is saved on the target, and
/// the same call continues from there, also after the observer breaks.
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
    source.leave_out_logs(&options.selection, &applied)?;
    let skip = AppliedCheck::new(applied, source.log_names());
    let selector = TransactionSelector::new(&options.selection, source.log_names())?;
    let in_one = options.workers.get() == 1 && options.order != CommitOrder::Any;
    let mode = if in_one { ParallelMode::None } else { options.mode };
    let builder = GroupBuilder::new(target, options, mode, ledger);
    let (queue, groups) = GroupQueue::new(limits(options));
    let queue = &queue;
    let (to_builder, from_reader) = transaction_reader::channel();
    thread::scope(|scope| {
        // Move the sender into this thread, so that the channel closes for the group builder when the thread ends.
        scope.spawn(move || {
            let rules = ReadRules {
                selector,
                skip,
                filter: &options.filter,
                unmatched: options.filter.unmatched_rules(),
                gap: options.gap,
                lost_tables: LostTemporaryTables::default(),
            };
            let read = ThreadPanic::catch("reads the logs", || {
                transaction_reader::read(source, rules, &to_builder, queue)
            });
            if let Err(panic) = read {
                // If the group builder has ended, another thread failed first.
                let _ = to_builder
                    .send(TransactionBatch { failure: Some(panic.into()), ..TransactionBatch::default() });
            }
        });
        scope.spawn(|| group_queue::build_groups(builder, from_reader, queue));
        let workers = if in_one { 1 } else { options.workers.get() as u64 };
        let mut watcher = ReplayMonitor::new(target, queue, observer, workers, base.clone());
        let result = ThreadPanic::catch_in("applies transactions", || match in_one {
            true => apply_in_one_session(target, &groups, queue, &mut watcher),
            false => {
                apply_worker::run(target, options, &base, GroupInput { groups: &groups, queue }, &mut watcher)
            }
        });
        // Unblock threads that still wait for the applier.
        drop(groups);
        queue.stop();
        watcher.finish(result)
    })
}

/// Maximum number of transactions that are ready and not applied, if each is committed by itself.
const READY_MAX: usize = 1024;

/// Groups grow while all workers are busy. One group is then kept ready for the next free worker. The limits leave room
/// for memory that the allocator keeps after large groups.
fn limits(options: &ReplayOptions) -> QueueLimits {
    let (workers, bytes) = (options.workers.get(), options.memory / 5);
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
            ApplierMessage::Groups(groups) => {
                for group in groups {
                    queue.mark_started();
                    watcher.busy = 1;
                    applier.apply(&group, &mut || watcher.report_status())?;
                    watcher.busy = 0;
                    queue.mark_applied(&group);
                    watcher.add_applied(&group, now_us(), applier.tally)?;
                    watcher.report_status()?;
                }
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

/// Finds out whether an announced statement was run, and returns the resulting progress.
fn settle_intent(target: &dyn ReplayTarget, applied: &AppliedState) -> Result<ReplayProgress, ReplayError> {
    let mut progress = applied.progress.clone();
    let Some(intent) = &applied.intent else { return Ok(progress) };
    let gtid = intent.transaction.parse::<binlog::gtid::Gtid>().ok();
    if gtid.is_some_and(|gtid| applied.executed.contains(gtid) || progress.gtids.contains(gtid)) {
        return Ok(progress);
    }
    match target
        .settle(intent)
        .map_err(|failure| failure.into_error("find out whether the interrupted statement was run"))?
    {
        IntentOutcome::NotDone => {}
        IntentOutcome::Done => {
            match gtid {
                Some(gtid) => drop(progress.gtids.add(gtid)),
                None => progress.beyond.extend(StatementIntent::position(intent).map(Into::into)),
            }
            let progress = ProgressLedger::new(progress).next_progress();
            target
                .save(&progress)
                .map_err(|failure| failure.into_error("save that the interrupted statement was run"))?;
            return Ok(progress);
        }
        IntentOutcome::Unknown(reason) => {
            return Err(ReplayError::Refused(format!(
                "unknown whether {} was run before the last replay stopped: {reason}",
                intent.transaction
            )));
        }
    }
    Ok(progress)
}
