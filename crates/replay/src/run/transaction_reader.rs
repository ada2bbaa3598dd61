//! Reads transactions ahead, in order, each with its apply plan.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use binlog::PayloadOpener;
use sql::{ReplicationFilter, UnmatchedRules};

use crate::applied_check::{AppliedCheck, ReplayDecision};
use crate::apply_plan::ApplyPlan;
use crate::lost_temporary_tables::LostTemporaryTables;
use crate::replay_error::ReplayError;
use crate::replay_options::GapPolicy;
use crate::run::group_queue::GroupQueue;
use crate::run::transaction_batch::{ReadProgress, TransactionBatch};
use crate::source_transaction::TransactionHead;
use crate::transaction_filter::TransactionFilter;
use crate::transaction_selection::{LateTransactions, TransactionSelector};
use crate::transaction_source::{LeftOutLogs, SizedTransaction, TransactionSource};

/// Maximum batches between reader and group builder. Bounds memory, with the size of a batch.
const BATCHES_MAX: usize = 4;
/// Approximate bytes of transactions in a batch; a larger transaction is a batch by itself.
const BATCH_SIZE: usize = 1 << 20;

pub(super) fn channel() -> (SyncSender<TransactionBatch>, Receiver<TransactionBatch>) {
    sync_channel(BATCHES_MAX)
}

/// Maximum wait for followed logs to grow. Bounds the time until the reader notices a stop.
const WAIT_TIMEOUT: Duration = Duration::from_millis(50);

/// Reads the source to its end, or until the receiver is gone.
pub(super) fn read(
    source: &mut TransactionSource,
    mut rules: ReadRules<'_>,
    out: &SyncSender<TransactionBatch>,
    queue: &GroupQueue,
) {
    let (mut opener, mut was_last) = (source.opener(), false);
    loop {
        let mut batch = TransactionBatch::default();
        let result = fill_batch(source, &mut rules, &mut opener, &mut batch, REPORT_BYTES);
        batch.so_far.bytes_read = source.bytes_read();
        if let Ok(SourceState::End | SourceState::AfterStop(_)) = result {
            batch.so_far.unmatched = std::mem::take(&mut rules.unmatched).into_rules();
        }
        batch.is_last = matches!(result, Ok(SourceState::Later));
        let (is_last, more) = (batch.is_last, result.as_ref().map_or(SourceState::End, |more| *more));
        batch.failure = result.err();
        let is_news = !is_last || !was_last || !batch.units.is_empty() || batch.so_far.skipped > 0;
        was_last = is_last;
        if is_news && out.send(batch).is_err() {
            return;
        }
        match more {
            SourceState::More => {}
            SourceState::Later if queue.is_stopped() => return,
            SourceState::Later => source.wait_for_growth(WAIT_TIMEOUT),
            SourceState::End => return,
            SourceState::AfterStop(limit) => return count_late(source, limit, out),
        }
    }
}

/// Bytes between two progress reports while transactions are skipped, and after the stop.
const REPORT_BYTES: u64 = 64 << 20;

/// Counts transactions after the stop that are not applied.
fn count_late(source: &mut TransactionSource, limit: u64, out: &SyncSender<TransactionBatch>) {
    let mut reported = source.bytes_read();
    let mut may_continue = |bytes_read| {
        if bytes_read < reported + REPORT_BYTES {
            return ControlFlow::Continue(());
        }
        reported = bytes_read;
        let so_far = ReadProgress { bytes_read, ..ReadProgress::default() };
        match out.send(TransactionBatch { so_far, ..TransactionBatch::default() }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let late = LateTransactions::count(source, limit, &mut may_continue);
    let so_far =
        ReadProgress { bytes_read: source.bytes_read(), late: Some(late), ..ReadProgress::default() };
    // If the receiver is gone, another thread failed first.
    let _ = out.send(TransactionBatch { so_far, ..TransactionBatch::default() });
}

/// Rules that decide which transactions are applied.
pub(super) struct ReadRules<'s> {
    pub(super) selector: TransactionSelector,
    pub(super) skip: AppliedCheck,
    pub(super) filter: &'s ReplicationFilter,
    /// Rules of the filter that have matched nothing. Empty after a transaction that the target has: the reader does
    /// not look up the transaction's names, and these names may match rules.
    pub(super) unmatched: UnmatchedRules,
    pub(super) gap: GapPolicy,
    pub(super) lost_tables: LostTemporaryTables,
}

impl ReadRules<'_> {
    /// Counts transactions of archived logs that were not read.
    fn note_left_out(&mut self, left_out: LeftOutLogs, so_far: &mut ReadProgress) {
        if left_out == LeftOutLogs::default() {
            return;
        }
        self.skip.note_left_out(&left_out.gtids);
        so_far.skipped += left_out.transactions;
        // The names in these logs are unknown, and may match rules.
        self.unmatched = UnmatchedRules::default();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceState {
    More,
    /// No transaction yet: the logs are still being written.
    Later,
    End,
    /// No further selected transaction: the stop, at this time in microseconds since 1970, was reached.
    AfterStop(u64),
}

/// Fills a batch. Ends it early if a skipped transaction brings the bytes read to `skipped_max`.
pub(super) fn fill_batch(
    source: &mut TransactionSource,
    rules: &mut ReadRules<'_>,
    opener: &mut PayloadOpener,
    batch: &mut TransactionBatch,
    skipped_max: u64,
) -> Result<SourceState, ReplayError> {
    let mut size = 0;
    let end = source.bytes_read().saturating_add(skipped_max);
    while size < BATCH_SIZE {
        let found = source.next_found()?;
        rules.note_left_out(source.take_left_out(), &mut batch.so_far);
        let Some(found) = found else {
            if source.is_followed() {
                return Ok(SourceState::Later);
            }
            rules.selector.finish()?;
            rules.skip.check_end()?;
            return Ok(SourceState::End);
        };
        let head = found.head();
        if rules.gap == GapPolicy::Refuse {
            rules.skip.check_gap(&head, source.previous())?;
        }
        match rules.skip.decide(&head, &mut rules.selector)? {
            ReplayDecision::Apply => {}
            decision @ (ReplayDecision::AlreadyApplied | ReplayDecision::NotSelected) => {
                if decision == ReplayDecision::AlreadyApplied {
                    rules.unmatched = UnmatchedRules::default();
                    if let SizedTransaction::Held(transaction) = &found {
                        rules.lost_tables.skip(transaction);
                    }
                }
                batch.so_far.skipped += 1;
                if source.bytes_read() >= end {
                    return Ok(SourceState::More);
                }
                continue;
            }
            ReplayDecision::Stop => {
                rules.selector.finish()?;
                batch.so_far.first_after_stop = Some(head);
                return Ok(rules.selector.stop_time().map_or(SourceState::End, SourceState::AfterStop));
            }
        }
        let filter = TransactionFilter(rules.filter);
        let plan = found.plan(opener, source.held_max());
        if let (Ok(plan), false) = (&plan, rules.unmatched.is_empty()) {
            filter.note_names(plan, &mut rules.unmatched);
        }
        let plan = plan.and_then(|plan| filter.apply(plan));
        let plan = plan.map_err(|error| ReplayError::Plan { transaction: head.to_string(), error })?;
        if let Some(reason) = rules.lost_tables.reason_against(&plan) {
            return Err(ReplayError::Refused(format!("{head} cannot be applied: {reason}")));
        }
        size += plan.size() + size_of::<(TransactionHead, ApplyPlan)>();
        if !plan.is_in_memory() {
            // The temporary file takes disk space. End the batch, because only the number of batches is bounded.
            size = BATCH_SIZE;
        }
        batch.units.push((head, plan));
    }
    assert!(!batch.units.is_empty(), "ours: a full batch has transactions");
    Ok(SourceState::More)
}
