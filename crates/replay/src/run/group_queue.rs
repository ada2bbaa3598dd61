//! The queue of commit groups between the group builder and the applier.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use logs::{ThreadPanic, lock};

use crate::apply_plan::TransactionShape;
use crate::replay_error::ReplayError;
use crate::run::group_builder::{CommitGroup, GroupBuilder};
use crate::run::transaction_batch::{ReadProgress, TransactionBatch};

/// Message to the applier.
pub(super) enum ApplierMessage {
    /// Apply these groups.
    Groups(Vec<CommitGroup>),
    /// The source has been read up to here.
    Read(ReadProgress),
    /// The source has ended.
    Over { undecided: Vec<String> },
    /// Nothing follows, for this reason.
    Failed(ReplayError),
}

/// Maximum number of groups in a message: the applier wakes once for all of them.
const MESSAGE_GROUPS_MAX: usize = 32;

/// Interval at which the group builder takes further transactions while no group is started.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The queue from the group builder to the applier.
pub(super) struct GroupQueue {
    groups: SyncSender<ApplierMessage>,
    limits: QueueLimits,
    state: Mutex<QueueState>,
    changed: Condvar,
}

/// Limits of groups that are formed and not applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// Maximum number of groups.
    pub(super) open: usize,
    /// Maximum number of groups whose application has not begun.
    pub(super) waiting: usize,
    /// Maximum bytes of all groups; a single group may be larger.
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Groups formed and not applied.
    open: usize,
    /// Groups whose application has not begun.
    waiting: usize,
    /// Bytes of all groups.
    bytes: usize,
    is_stopped: bool,
    /// A thread waits for a change of this state.
    has_waiter: bool,
    /// All transactions read are queued, and no more are available yet.
    is_resting: bool,
    /// New GTIDs that the target counts as executed.
    executed: Option<GtidSet>,
}

/// The applier has stopped.
struct StopSignal;

impl GroupQueue {
    /// Creates a queue with these limits.
    pub(super) fn new(limits: QueueLimits) -> (Self, Receiver<ApplierMessage>) {
        assert!(limits.open > 0 && limits.waiting > 0, "ours: a queue has room for a group");
        // `open` limits the groups; other messages are small and few.
        let (groups, receiver) = sync_channel(64);
        (Self { groups, limits, state: Mutex::default(), changed: Condvar::new() }, receiver)
    }

    /// Records that a group is about to be applied.
    pub(super) fn mark_started(&self) {
        let mut state = self.state();
        assert!((1..=state.open).contains(&state.waiting), "ours: a group that starts was waiting");
        state.waiting -= 1;
        self.wake_builder(state);
    }

    /// Records that a group was applied.
    pub(super) fn mark_applied(&self, group: &CommitGroup) {
        let mut state = self.state();
        assert!(state.open > state.waiting, "ours: a group that is applied was started");
        assert!(state.bytes >= group.size(), "ours: the bytes of each group are counted once");
        state.open -= 1;
        state.bytes -= group.size();
        self.wake_builder(state);
    }

    /// Wakes the group builder once there is room for a quarter of the groups: with one group for each transaction, it
    /// would otherwise run after each commit.
    fn wake_builder(&self, mut state: MutexGuard<'_, QueueState>) {
        let QueueLimits { open, waiting, .. } = self.limits;
        let has_room = state.open <= open - open / 4 && state.waiting <= waiting - waiting / 4;
        if has_room && std::mem::take(&mut state.has_waiter) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Records that the applier has stopped.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Returns whether the applier has stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Returns whether all available transactions are applied.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.is_resting && state.open == 0
    }

    /// Records GTIDs that the target counts as executed: progress need not list them.
    pub(super) fn set_executed(&self, executed: GtidSet) {
        self.state().executed = Some(executed);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Returns whether another group would be started soon.
    fn has_room(&self) -> bool {
        let state = self.state();
        state.open < self.limits.open && state.waiting < self.limits.waiting
    }

    /// Waits until another group would be started soon, at most for this time. Returns `false` on a timeout.
    fn wait_for_room(&self, longest: Duration) -> bool {
        let QueueLimits { open, waiting, .. } = self.limits;
        let is_full = |state: &mut QueueState| {
            state.has_waiter = state.open >= open || state.waiting >= waiting;
            state.has_waiter
        };
        let waited = self.changed.wait_timeout_while(self.state(), longest, is_full);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        !timeout.timed_out()
    }

    /// Waits until there is room for a group of `size` bytes, and counts it. Sends the groups counted before first, if
    /// it must wait: they have taken the room.
    fn reserve(&self, size: usize, counted: &mut Vec<CommitGroup>) -> Result<(), StopSignal> {
        let QueueLimits { open, waiting, bytes } = self.limits;
        let is_full = |state: &QueueState| {
            state.open >= open || state.waiting >= waiting || state.open > 0 && state.bytes + size > bytes
        };
        let mut state = self.state();
        if is_full(&state) {
            drop(state);
            self.send_counted(counted)?;
            state = self.wait_while(is_full)?;
        }
        state.open += 1;
        state.waiting += 1;
        state.bytes += size;
        assert!(
            state.waiting <= state.open && state.open <= open,
            "ours: a group is counted when there is room"
        );
        Ok(())
    }

    /// Sends groups for which there is room.
    fn send_counted(&self, counted: &mut Vec<CommitGroup>) -> Result<(), StopSignal> {
        match counted.is_empty() {
            true => Ok(()),
            false => self.send(ApplierMessage::Groups(std::mem::take(counted))),
        }
    }

    /// Returns the number of groups to send together.
    fn message_groups(&self) -> usize {
        self.limits.waiting.min(MESSAGE_GROUPS_MAX)
    }

    fn wait_while(
        &self,
        holds: impl Fn(&QueueState) -> bool,
    ) -> Result<MutexGuard<'_, QueueState>, StopSignal> {
        let mut state = self.state();
        while holds(&state) && !state.is_stopped {
            state.has_waiter = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped { Err(StopSignal) } else { Ok(state) }
    }

    fn send(&self, message: ApplierMessage) -> Result<(), StopSignal> {
        self.groups.send(message).map_err(|_| StopSignal)
    }

    fn send_groups(&self, groups: &mut Vec<CommitGroup>) -> Result<(), StopSignal> {
        let mut counted = Vec::new();
        for group in groups.drain(..) {
            let must_end = must_end_first(&group);
            self.reserve(group.size(), &mut counted)?;
            counted.push(group);
            if must_end {
                self.send_counted(&mut counted)?;
                drop(self.wait_while(|state| state.open > 0)?);
            }
        }
        self.send_counted(&mut counted)
    }
}

/// Returns whether a group must be applied before the next transaction is taken: definitions that are read from then on
/// must include its changes, and the temporary file of a large transaction must be gone.
fn must_end_first(group: &CommitGroup) -> bool {
    matches!(group.plan.shape, TransactionShape::ImplicitCommit { .. }) || !group.plan.is_in_memory()
}

/// Forms groups until the source ends or the applier stops.
pub(super) fn build_groups(
    mut builder: GroupBuilder<'_>,
    batches: Receiver<TransactionBatch>,
    queue: &GroupQueue,
) {
    let formed = ThreadPanic::catch("groups transactions", || run_builder(&mut builder, &batches, queue));
    let last = match formed.unwrap_or_else(|panic| Err(Some(panic.into()))) {
        Ok(()) => ApplierMessage::Over { undecided: builder.undecided() },
        Err(Some(error)) => ApplierMessage::Failed(error),
        Err(None) => return,
    };
    // If the receiver is gone, another thread failed first.
    let _ = queue.send(last);
}

fn run_builder(
    builder: &mut GroupBuilder<'_>,
    batches: &Receiver<TransactionBatch>,
    queue: &GroupQueue,
) -> Result<(), Option<ReplayError>> {
    let (mut groups, mut is_last) = (Vec::new(), false);
    loop {
        queue.state().is_resting = is_last && !builder.is_open();
        let next = match builder.is_open() {
            true => batches.try_recv(),
            false => batches.recv().map_err(|_| TryRecvError::Disconnected),
        };
        let batch = match next {
            Ok(batch) => batch,
            Err(TryRecvError::Empty) => {
                if queue.wait_for_room(POLL_INTERVAL) {
                    builder.close(&mut groups).map_err(Some)?;
                    queue.send_groups(&mut groups)?;
                }
                continue;
            }
            Err(TryRecvError::Disconnected) => break,
        };
        is_last = batch.is_last;
        queue.state().is_resting = false;
        for (head, plan) in batch.units {
            let taken = builder.take(head, plan, &mut groups);
            if taken.is_err() {
                // The applier still applies all transactions before this one.
                queue.send_groups(&mut groups)?;
            }
            taken.map_err(Some)?;
            if builder.is_open() && groups.is_empty() && queue.has_room() {
                builder.close(&mut groups).map_err(Some)?;
            }
            if groups.len() >= queue.message_groups() || groups.last().is_some_and(must_end_first) {
                queue.send_groups(&mut groups)?;
            }
        }
        queue.send_groups(&mut groups)?;
        if let Some(executed) = queue.state().executed.take() {
            builder.ledger.remove_executed(&executed);
        }
        queue.send(ApplierMessage::Read(batch.so_far))?;
        if let Some(error) = batch.failure {
            builder.close(&mut groups).map_err(Some)?;
            queue.send_groups(&mut groups)?;
            return Err(Some(error));
        }
    }
    builder.close(&mut groups).map_err(Some)?;
    Ok(queue.send_groups(&mut groups)?)
}

impl From<StopSignal> for Option<ReplayError> {
    fn from(_: StopSignal) -> Self {
        None
    }
}
