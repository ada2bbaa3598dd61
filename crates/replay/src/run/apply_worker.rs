//! Applies commit groups in several sessions at the same time, and commits them in order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use logs::{ThreadPanic, lock, now_us};

use crate::apply_plan::TransactionShape;
use crate::commit_gate::{CommitDecision, CommitGate, RetryDecision};
use crate::commit_order::CommitOrder;
use crate::replay_error::{ReplayError, TargetFailure, TargetFailureKind};
use crate::replay_options::ReplayOptions;
use crate::replay_progress::ReplayProgress;
use crate::replay_target::{CommitSignal, CommitSignalCause, ReplayTarget, TargetSession};
use crate::run::group_applier::{
    ApplyTotals, RowCounter, can_be_undone, commit_at_once, finish_group, give_group, name_failed_member,
};
use crate::run::group_builder::CommitGroup;
use crate::run::group_queue::{ApplierMessage, GroupQueue};
use crate::run::replay_monitor::{POLL_INTERVAL, ReplayMonitor};
use crate::schedule::Schedule;

/// Minimum time that an applied group waits to commit before it releases its locks for the first open group. Without
/// this, that group waits until the target's lock wait timeout, which is several seconds.
const COMMIT_WAIT_MIN: Duration = Duration::from_millis(100);
/// Minimum of the same wait, as a multiple of the time that the group took to apply. It limits the work that is lost if
/// the first open group waits for no lock.
const COMMIT_WAIT_FACTOR: u32 = 4;

/// State shared by the workers. With thousands of commits per second, each condition variable wakes only the threads
/// waiting for that condition.
///
/// A thread may lock the state while it has a session, but not the reverse, except for a session that is lent: its own
/// thread does not use it then.
struct WorkerShared<'f> {
    queue: &'f GroupQueue,
    order: CommitOrder,
    state: Mutex<WorkerState>,
    /// A group may be ready to start, or no more groups follow.
    group_offered: Condvar,
    workers: Vec<WorkerSeat>,
    /// A group was committed or has failed. Wakes the thread that offers groups.
    group_finished: Condvar,
}

/// The session of a worker, and the means to wake the worker.
struct WorkerSeat {
    session: Mutex<WorkerSession>,
    /// The gate has a decision for the worker's group.
    decision_made: Condvar,
    /// Wakes the worker while its session is lent. `None` if the target commits in one step only.
    signal: Option<Arc<dyn CommitSignal>>,
}

struct WorkerSession {
    session: Box<dyn TargetSession>,
    /// Result of the commit that another thread has sent.
    sent: Option<Result<(), TargetFailure>>,
}

/// A worker's wait for the gate's decision about its group.
struct DecisionWait {
    number: u64,
    /// Time from which the group releases its locks if the first open group may need them. `None` if it has no locks.
    release_at: Option<Instant>,
    /// The group, if the session is lent: the thread that lets the group commit also sends the commit. So the commit
    /// does not wait until this worker's thread runs.
    lent: Option<Arc<CommitGroup>>,
}

struct WorkerState {
    schedule: Schedule,
    gate: CommitGate,
    /// For each worker: its wait for a decision.
    awaited: Vec<Option<DecisionWait>>,
    /// Groups offered and not yet committed, by number.
    groups: HashMap<u64, Arc<CommitGroup>>,
    /// Number of workers that wait for a group to start.
    idle_workers: usize,
    /// The thread that offers groups waits for a commit.
    is_feeder_waiting: bool,
    /// A group for the first worker only: the group may need state of that session, such as temporary tables.
    for_first: Option<u64>,
    /// All groups have been offered.
    is_over: bool,
    /// Workers must neither start a group nor wait.
    is_stopped: bool,
    failure: Option<ReplayError>,
    /// Groups committed since the last report, with the time in microseconds since 1970.
    finished_groups: Vec<(Arc<CommitGroup>, u64)>,
    tally: ApplyTotals,
    /// All committed transactions, if commits come in any order.
    committed: Option<ReplayProgress>,
}

/// Condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitUntil {
    /// None: do not wait.
    Now,
    /// All groups are committed.
    Idle,
}

/// Groups to apply, and their queue.
#[derive(Clone, Copy)]
pub(super) struct GroupInput<'g> {
    pub(super) groups: &'g Receiver<ApplierMessage>,
    pub(super) queue: &'g GroupQueue,
}

/// Applies the groups in the sessions that the options ask for. `base` is the progress of the target.
///
/// # Errors
///
/// Fails if a group fails, with the first failure in commit order.
pub(super) fn run(
    target: &dyn ReplayTarget,
    options: &ReplayOptions,
    base: &ReplayProgress,
    input: GroupInput<'_>,
    watcher: &mut ReplayMonitor<'_>,
) -> Result<(), ReplayError> {
    let GroupInput { groups, queue } = input;
    let mut sessions = Vec::new();
    for number in 0..options.workers.get() {
        let mut session = target.session().map_err(|failure| failure.into_error("open a session"))?;
        if options.order == CommitOrder::Any && number > 0 {
            session
                .save_apart(number)
                .map_err(|failure| failure.into_error("save progress separately in each session"))?;
        }
        sessions.push(session);
    }
    let shared = WorkerShared::new(queue, options.order, sessions, base);
    let result = thread::scope(|scope| {
        for index in 0..shared.workers.len() {
            let shared = &shared;
            let counter = RowCounter::default();
            scope.spawn(move || {
                let worker = ApplyWorker { shared, counter, index };
                if let Err(panic) = ThreadPanic::catch("applies transactions", || worker.run()) {
                    shared.fail(panic.into());
                }
            });
        }
        let result =
            ThreadPanic::catch_in("hands transactions to workers", || feed(&shared, groups, watcher));
        let mut state = shared.state();
        state.is_over = true;
        // A worker may have stopped the replay.
        state.is_stopped |= result.is_err();
        drop(state);
        shared.wake_all();
        result
    });
    // Report groups whose commit was in progress when the last worker stopped.
    let rest = shared.report_done(watcher, WaitUntil::Now);
    result.and(rest)
}

fn feed(
    shared: &WorkerShared<'_>,
    groups: &Receiver<ApplierMessage>,
    watcher: &mut ReplayMonitor<'_>,
) -> Result<(), ReplayError> {
    let mut ended = None;
    while ended.is_none() {
        let message = match groups.recv_timeout(POLL_INTERVAL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                shared.report_done(watcher, WaitUntil::Now)?;
                watcher.report_status()?;
                continue;
            }
        };
        match message {
            ApplierMessage::Groups(groups) => {
                for group in groups {
                    shared.wait_for_room(watcher)?;
                    shared.offer(group);
                }
            }
            ApplierMessage::Read(so_far) => watcher.add_read(so_far),
            ApplierMessage::Over { undecided } => {
                watcher.set_undecided(undecided);
                ended = Some(Ok(()));
            }
            ApplierMessage::Failed(error) => ended = Some(Err(error)),
        }
        shared.report_done(watcher, WaitUntil::Now)?;
        watcher.report_status()?;
    }
    // Complete all offered groups before an error is reported.
    shared.report_done(watcher, WaitUntil::Idle)?;
    ended.unwrap_or(Ok(()))
}

impl<'f> WorkerShared<'f> {
    fn new(
        queue: &'f GroupQueue,
        order: CommitOrder,
        sessions: Vec<Box<dyn TargetSession>>,
        base: &ReplayProgress,
    ) -> Self {
        let state = WorkerState {
            schedule: Schedule::new(sessions.len()),
            gate: CommitGate::new(order),
            awaited: sessions.iter().map(|_| None).collect(),
            groups: HashMap::new(),
            idle_workers: 0,
            is_feeder_waiting: false,
            for_first: None,
            is_over: false,
            is_stopped: false,
            failure: None,
            finished_groups: Vec::new(),
            tally: ApplyTotals::default(),
            committed: (order == CommitOrder::Any).then(|| ReplayProgress { commits: None, ..base.clone() }),
        };
        let workers = sessions.into_iter().map(WorkerSeat::new).collect();
        let (group_offered, group_finished) = (Condvar::new(), Condvar::new());
        Self { queue, order, state: Mutex::new(state), group_offered, workers, group_finished }
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        lock(&self.state)
    }

    /// Stops all workers: they start no group, and wait for none.
    fn fail(&self, error: ReplayError) {
        let mut state = self.state();
        state.failure.get_or_insert(error);
        state.is_stopped = true;
        drop(state);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.group_offered.notify_all();
        self.workers.iter().for_each(WorkerSeat::wake);
        self.group_finished.notify_all();
    }

    /// Lets the workers continue for whose groups the gate has a decision now. If a group may commit and its session is
    /// lent, sends the commit.
    fn act_on_decisions(&self, mut state: MutexGuard<'_, WorkerState>) {
        let mut next = None;
        for (index, worker) in self.workers.iter().enumerate() {
            let Some(wait) = &state.awaited[index] else { continue };
            let number = wait.number;
            match state.gate.peek(number) {
                CommitDecision::Wait => {}
                CommitDecision::Commit if wait.lent.is_some() && next.is_none() => {
                    let decision = state.gate.decide(number);
                    assert_eq!(decision, CommitDecision::Commit, "ours: the gate decides as it announced");
                    let group = state.awaited[index].take().and_then(|wait| wait.lent);
                    next = group.map(|group| (worker, group));
                }
                _ => worker.wake(),
            }
        }
        let Some((worker, group)) = next else { return };
        // The worker takes its session back only with the lock of the state, or after this commit.
        let mut session = worker.session();
        drop(state);
        let sent = session.session.send_commit(&group.progress);
        let is_failed = sent.is_err();
        session.sent = Some(sent);
        drop(session);
        if is_failed {
            worker.wake();
        }
    }

    /// Waits until another group may be offered, or a group has failed. Reports during long waits.
    fn wait_for_room(&self, watcher: &mut ReplayMonitor<'_>) -> Result<(), ReplayError> {
        loop {
            let mut state = self.state();
            if state.schedule.has_room() || state.failure.is_some() {
                return Ok(());
            }
            state.is_feeder_waiting = true;
            let waited = self.group_finished.wait_timeout(state, POLL_INTERVAL);
            let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(state);
            if timeout.timed_out() {
                self.report_done(watcher, WaitUntil::Now)?;
                watcher.report_status()?;
            }
        }
    }

    /// Offers a group to the workers, unless a group has failed.
    fn offer(&self, group: CommitGroup) {
        let mut state = self.state();
        if state.failure.is_none() {
            let number = state.schedule.offer(group.claim.clone());
            let before = state.groups.insert(number, Arc::new(group));
            assert!(before.is_none(), "ours: each group has a number of its own");
            let is_scheduled = state.groups.len() <= state.schedule.open_count();
            assert!(is_scheduled, "ours: the schedule knows each group that is not committed");
            self.wake_idle_worker(&state);
        }
    }

    /// Wakes a worker if there is a group for it.
    fn wake_idle_worker(&self, state: &WorkerState) {
        if state.idle_workers > 0 && state.schedule.can_start() {
            self.group_offered.notify_one();
        }
    }

    /// Returns the progress to save with a group. If commits come in any order, the progress includes all transactions
    /// known to be committed.
    fn progress<'g>(&self, group: &'g CommitGroup) -> Cow<'g, ReplayProgress> {
        match &self.state().committed {
            None => Cow::Borrowed(&group.progress),
            Some(committed) => {
                let mut progress = committed.clone();
                progress.add_gtids(&group.gtids);
                Cow::Owned(progress)
            }
        }
    }

    /// Reports finished groups to the monitor.
    fn report_done(&self, watcher: &mut ReplayMonitor<'_>, until: WaitUntil) -> Result<(), ReplayError> {
        loop {
            let mut state = self.state();
            let done = std::mem::take(&mut state.finished_groups);
            let (failure, is_idle) = (state.failure.take(), state.schedule.open_count() == 0);
            let tally = state.tally;
            let must_release = state.release_locks(Instant::now());
            watcher.busy = state.schedule.running_count() as u64;
            if let Some(committed) = &state.committed
                && !done.is_empty()
            {
                watcher.set_saved(committed.clone());
            }
            if must_release {
                self.act_on_decisions(state);
            } else {
                drop(state);
            }
            for (group, at_us) in &done {
                watcher.add_applied(group, *at_us, tally)?;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if until == WaitUntil::Now || is_idle {
                return Ok(());
            }
            watcher.report_status()?;
            let mut state = self.state();
            if state.finished_groups.is_empty() && state.failure.is_none() && state.schedule.open_count() > 0
            {
                state.is_feeder_waiting = true;
                drop(self.group_finished.wait_timeout(state, POLL_INTERVAL));
            }
        }
    }
}

impl WorkerState {
    /// Returns whether no other group is being applied or committed.
    fn is_alone(&self, number: u64) -> bool {
        self.gate.first_uncommitted() == number && self.schedule.running_count() == 1
    }

    /// Makes groups that have waited long to commit yield to the first open group, which may be waiting for their locks.
    /// Returns whether there is such a group. All of them can be rolled back: other groups run alone.
    fn release_locks(&mut self, now: Instant) -> bool {
        if !self.gate.is_first_applying() {
            return false;
        }
        let (first, mut found) = (self.gate.first_uncommitted(), false);
        for wait in self.awaited.iter().flatten() {
            if wait.release_at.is_some_and(|at| at <= now) {
                assert!(wait.number > first, "ours: the first open group is being applied");
                self.gate.resolve_conflict(first, wait.number);
                found = true;
            }
        }
        found
    }
}

fn wait_on<'s>(condition: &Condvar, state: MutexGuard<'s, WorkerState>) -> MutexGuard<'s, WorkerState> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl WorkerSeat {
    fn new(session: Box<dyn TargetSession>) -> Self {
        let signal = session.commit_signal();
        Self {
            session: Mutex::new(WorkerSession { session, sent: None }),
            decision_made: Condvar::new(),
            signal,
        }
    }

    fn session(&self) -> MutexGuard<'_, WorkerSession> {
        lock(&self.session)
    }

    /// Wakes the worker if it waits for a decision.
    fn wake(&self) {
        self.decision_made.notify_one();
        if let Some(signal) = &self.signal {
            signal.wake();
        }
    }
}

/// Returns when a group releases its locks if it was begun at this time, and is applied now.
fn release_time(begun: Instant) -> Instant {
    let now = Instant::now();
    now + COMMIT_WAIT_MIN.max(now.duration_since(begun).saturating_mul(COMMIT_WAIT_FACTOR))
}

struct ApplyWorker<'s, 'f> {
    shared: &'s WorkerShared<'f>,
    counter: RowCounter,
    index: usize,
}

/// End of a worker's wait to commit.
enum CommitWaitEnd {
    /// The gate has decided.
    Decided(CommitDecision),
    /// Another thread has sent the commit.
    Sent(Result<(), TargetFailure>),
}

impl<'s> ApplyWorker<'s, '_> {
    fn run(mut self) {
        while let Some((number, group)) = self.next_group() {
            if self.commit_group(number, &group).is_none() {
                return;
            }
        }
    }

    /// Returns the next group; `None` if no more follows.
    fn next_group(&self) -> Option<(u64, Arc<CommitGroup>)> {
        let mut state = self.shared.state();
        loop {
            if state.is_stopped
                || state.gate.failed().is_some()
                || state.is_over && state.schedule.open_count() == 0
            {
                return None;
            }
            let is_first = self.index == 0;
            let mine = if is_first { state.for_first.take() } else { None };
            if let Some(number) = mine.or_else(|| state.schedule.start()) {
                let group = Arc::clone(state.groups.get(&number)?);
                if is_first || group.plan.shape == TransactionShape::Rows {
                    state.gate.begin(number);
                    assert!(state.awaited[self.index].is_none(), "ours: a worker has one group at a time");
                    state.tally.at_once = state.tally.at_once.max(state.schedule.running_count() as u64);
                    self.shared.wake_idle_worker(&state);
                    self.shared.queue.mark_started();
                    return Some((number, group));
                }
                assert!(state.for_first.is_none(), "ours: a group for the first worker runs alone");
                state.for_first = Some(number);
                // Wake all waiting workers: the first worker may be any of them.
                self.shared.group_offered.notify_all();
                continue;
            }
            state.idle_workers += 1;
            state = wait_on(&self.shared.group_offered, state);
            state.idle_workers -= 1;
        }
    }

    /// Applies and commits a group after [`CommitGate::begin`]; `None` if the replay stops.
    fn commit_group(&mut self, number: u64, group: &Arc<CommitGroup>) -> Option<()> {
        let shared = self.shared;
        let mut own = shared.workers[self.index].session();
        loop {
            let begun = Instant::now();
            let session = &mut *own.session;
            let given = give_group(session, group, &mut self.counter);
            if given.is_ok()
                && self.is_free(number)
                && let Some(committed) = commit_at_once(session, group, &shared.progress(group))
            {
                let committed =
                    committed.map(|()| |gate: &mut CommitGate| gate.mark_committed_at_once(number));
                match self.step(number, group, session, committed)? {
                    StepOutcome::Proceed => break,
                    StepOutcome::Again => continue,
                }
            }
            let applied = given.and_then(|()| finish_group(session, group, &mut self.counter));
            let applied = applied.map(|()| |gate: &mut CommitGate| gate.mark_applied(number));
            if self.step(number, group, session, applied)? == StepOutcome::Again {
                continue;
            }
            let wait_end;
            (own, wait_end) = self.wait_to_commit(number, group, own, release_time(begun));
            let session = &mut *own.session;
            let mut on_ordered = || {
                let mut state = shared.state();
                state.gate.mark_ordered(number);
                shared.act_on_decisions(state);
            };
            let committed = match wait_end {
                CommitWaitEnd::Decided(CommitDecision::Commit) => {
                    session.commit(&shared.progress(group), &mut on_ordered)
                }
                CommitWaitEnd::Sent(sent) => sent.and_then(|()| session.finish_commit(&mut on_ordered)),
                CommitWaitEnd::Decided(CommitDecision::RollBack) => {
                    let undone =
                        session.rollback().map(|()| |gate: &mut CommitGate| gate.mark_rolled_back(number));
                    if self.step(number, group, session, undone)? == StepOutcome::Proceed {
                        self.begin_again(number)?;
                    }
                    continue;
                }
                CommitWaitEnd::Decided(_) => {
                    let _ = session.rollback();
                    return None;
                }
            };
            let committed = committed.map(|()| |gate: &mut CommitGate| gate.mark_committed(number));
            if self.step(number, group, session, committed)? == StepOutcome::Proceed {
                break;
            }
        }
        drop(own);
        self.finish_group(number, group);
        Some(())
    }

    /// Returns whether a group may commit without a word from the gate: it has no order to keep.
    fn is_free(&self, number: u64) -> bool {
        self.shared.order == CommitOrder::Any || self.shared.state().is_alone(number)
    }

    /// Records a committed group.
    fn finish_group(&self, number: u64, group: &CommitGroup) {
        let at_us = now_us();
        let mut state = self.shared.state();
        state.tally.rows += self.counter.rows;
        state.schedule.mark_committed(number);
        if let Some(committed) = &mut state.committed {
            committed.add_gtids(&group.gtids);
        }
        let done = state.groups.remove(&number);
        assert!(done.is_some(), "ours: a group is committed once");
        assert!(state.gate.first_uncommitted() <= state.schedule.end(), "ours: only offered groups commit");
        state.finished_groups.extend(done.map(|group| (group, at_us)));
        let is_awaited = std::mem::take(&mut state.is_feeder_waiting);
        drop(state);
        self.shared.queue.mark_applied(group);
        if is_awaited {
            self.shared.group_finished.notify_one();
        }
    }

    /// Reports the result of a step to the gate, in success by the function in the result; `None` if the replay stops.
    fn step(
        &self,
        number: u64,
        group: &CommitGroup,
        session: &mut dyn TargetSession,
        result: Result<impl FnOnce(&mut CommitGate), TargetFailure>,
    ) -> Option<StepOutcome> {
        let failure = match result {
            Ok(tell) => {
                let mut state = self.shared.state();
                tell(&mut state.gate);
                self.shared.act_on_decisions(state);
                return Some(StepOutcome::Proceed);
            }
            Err(failure) => failure,
        };
        // Only a group that can be rolled back can be retried.
        let code = failure.code.filter(|_| can_be_undone(group)).unwrap_or(0);
        let mut state = self.shared.state();
        let verdict = match failure.kind {
            TargetFailureKind::Lost => state.gate.lose(number),
            _ => state.gate.fail(number, code),
        };
        drop(state);
        self.shared.wake_all();
        let is_lost = session.rollback().is_err();
        let after = match verdict {
            RetryDecision::Retry { after } if !is_lost => {
                self.shared.state().tally.retries += 1;
                after
            }
            _ => {
                let error = name_failed_member(session, group, failure);
                self.shared.state().failure.get_or_insert(error);
                self.shared.wake_all();
                return None;
            }
        };
        thread::sleep(after);
        self.begin_again(number)?;
        Some(StepOutcome::Again)
    }

    /// Waits until the group may be applied again; `None` if the replay stops.
    fn begin_again(&self, number: u64) -> Option<()> {
        if self.shared.state().is_stopped {
            return None;
        }
        match self.wait_for_decision(number, None) {
            CommitDecision::Apply => {
                self.shared.state().gate.begin(number);
                Some(())
            }
            _ => None,
        }
    }

    /// Waits until the gate decides whether an applied group commits. Lends the session meanwhile, if the session
    /// commits in two steps.
    fn wait_to_commit(
        &self,
        number: u64,
        group: &Arc<CommitGroup>,
        own: MutexGuard<'s, WorkerSession>,
        release_at: Instant,
    ) -> (MutexGuard<'s, WorkerSession>, CommitWaitEnd) {
        let seat = &self.shared.workers[self.index];
        let Some(signal) = seat.signal.as_deref().filter(|_| own.session.can_send_commit()) else {
            return (own, CommitWaitEnd::Decided(self.wait_for_decision(number, Some(release_at))));
        };
        let mut state = self.shared.state();
        let decision = state.gate.decide(number);
        if decision != CommitDecision::Wait || state.is_stopped {
            return (own, CommitWaitEnd::Decided(decision.or_abandon()));
        }
        state.awaited[self.index] =
            Some(DecisionWait { number, release_at: Some(release_at), lent: Some(Arc::clone(group)) });
        // With the lock of the state: no thread may wait for a lent session.
        drop(own);
        drop(state);
        let decision = loop {
            let cause = signal.wait();
            let mut state = self.shared.state();
            if state.awaited[self.index].is_none() {
                drop(state);
                let mut own = seat.session();
                let sent = own.sent.take().expect("ours: a lent session returns with a sent commit");
                return (own, CommitWaitEnd::Sent(sent));
            }
            let decision = state.gate.decide(number);
            let is_over = decision != CommitDecision::Wait || state.is_stopped;
            // Without a commit, the target has nothing to answer: the session is probably lost.
            if is_over || cause == CommitSignalCause::Answer {
                state.awaited[self.index] = None;
                break if is_over { Some(decision.or_abandon()) } else { None };
            }
        };
        let own = seat.session();
        let decision = decision.unwrap_or_else(|| self.wait_for_decision(number, Some(release_at)));
        (own, CommitWaitEnd::Decided(decision))
    }

    /// Waits for the gate's next decision about a group.
    fn wait_for_decision(&self, number: u64, release_at: Option<Instant>) -> CommitDecision {
        let mut state = self.shared.state();
        loop {
            let decision = match state.gate.decide(number) {
                CommitDecision::Wait if !state.is_stopped => {
                    state.awaited[self.index] = Some(DecisionWait { number, release_at, lent: None });
                    state = wait_on(&self.shared.workers[self.index].decision_made, state);
                    continue;
                }
                decision => decision.or_abandon(),
            };
            state.awaited[self.index] = None;
            return decision;
        }
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    Proceed,
    /// The group failed, was rolled back, and has begun again.
    Again,
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use binlog::EventFormat;

    use super::{DecisionWait, WorkerShared};
    use crate::apply_plan::SourceStatement;
    use crate::commit_gate::CommitDecision;
    use crate::commit_order::CommitOrder;
    use crate::replay_error::{ReplayError, TargetFailure};
    use crate::replay_progress::{AppliedState, ReplayProgress, StatementIntent};
    use crate::replay_report::ReplayStatus;
    use crate::replay_target::{IntentOutcome, ReplayTarget, TargetSession};
    use crate::row_events::RowEvents;
    use crate::run::group_queue::{GroupQueue, QueueLimits};
    use crate::run::replay_monitor::{ReplayMonitor, ReplayObserver};
    use crate::schedule::{ClaimBuilder, ParallelMode, TransactionFootprint};
    use crate::session_variables::SessionVariables;
    use crate::target_table_definition::TargetTableDefinition;

    /// A target that applies nothing.
    struct IdleTarget;

    impl TargetSession for IdleTarget {
        fn begin(&mut self) -> Result<(), TargetFailure> {
            refused()
        }

        fn announce(
            &mut self,
            _: StatementIntent,
            _: Option<&Arc<EventFormat>>,
        ) -> Result<(), TargetFailure> {
            refused()
        }

        fn apply_rows(&mut self, _: &SessionVariables, _: &RowEvents) -> Result<(), TargetFailure> {
            refused()
        }

        fn run_statement(&mut self, _: &SourceStatement) -> Result<(), TargetFailure> {
            refused()
        }

        fn flush(&mut self) -> Result<(), TargetFailure> {
            refused()
        }

        fn commit(&mut self, _: &ReplayProgress, _: &mut dyn FnMut()) -> Result<(), TargetFailure> {
            refused()
        }

        fn rollback(&mut self) -> Result<(), TargetFailure> {
            refused()
        }
    }

    fn refused() -> Result<(), TargetFailure> {
        Err(TargetFailure::refused("nothing is applied here"))
    }

    impl ReplayTarget for IdleTarget {
        fn applied(&self) -> Result<AppliedState, TargetFailure> {
            Ok(AppliedState::default())
        }

        fn session(&self) -> Result<Box<dyn TargetSession>, TargetFailure> {
            Ok(Box::new(Self))
        }

        fn definition(&self, _: &[u8], _: &[u8]) -> Result<Option<TargetTableDefinition>, TargetFailure> {
            Ok(None)
        }

        fn settle(&self, _: &StatementIntent) -> Result<IntentOutcome, TargetFailure> {
            Ok(IntentOutcome::NotDone)
        }

        fn save(&self, _: &ReplayProgress) -> Result<(), TargetFailure> {
            Ok(())
        }

        fn checkpoint(&self, _: &ReplayProgress) -> Result<AppliedState, TargetFailure> {
            Ok(AppliedState::default())
        }
    }

    /// Stops a replay at the third report.
    struct ThirdReport(u32);

    impl ReplayObserver for ThirdReport {
        fn on_status(&mut self, _: &ReplayStatus<'_>) -> ControlFlow<()> {
            self.0 += 1;
            if self.0 < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }

    #[test]
    fn a_group_that_waits_long_releases_its_locks_for_the_first_one() {
        let (queue, _groups) = GroupQueue::new(QueueLimits { open: 1, waiting: 1, bytes: 1 });
        let sessions: Vec<Box<dyn TargetSession>> = vec![Box::new(IdleTarget), Box::new(IdleTarget)];
        let shared = WorkerShared::new(&queue, CommitOrder::Strict, sessions, &ReplayProgress::default());
        let mut state = shared.state();
        state.gate.begin(0);
        state.gate.begin(1);
        state.gate.mark_applied(1);
        let now = Instant::now();
        state.awaited[1] = Some(DecisionWait { number: 1, release_at: Some(now), lent: None });
        assert!(!state.release_locks(now.checked_sub(Duration::from_millis(1)).unwrap()));
        assert_eq!(state.gate.peek(1), CommitDecision::Wait);
        assert!(state.release_locks(now));
        assert_eq!(state.gate.peek(1), CommitDecision::RollBack);
        state.gate.mark_rolled_back(1);
        state.gate.mark_applied(0);
        assert!(!state.release_locks(now), "the first group waits for no lock");
    }

    #[test]
    fn reports_continue_while_no_group_can_be_offered() {
        let (queue, _groups) = GroupQueue::new(QueueLimits { open: 1, waiting: 1, bytes: 1 });
        let shared = WorkerShared::new(
            &queue,
            CommitOrder::Strict,
            vec![Box::new(IdleTarget)],
            &ReplayProgress::default(),
        );
        let mut claims = ClaimBuilder::new(ParallelMode::LogicalClock);
        let mut number = 0;
        while shared.state().schedule.has_room() {
            let claim = claims.claim(number, &TransactionFootprint::default()).unwrap();
            shared.state().schedule.offer(claim);
            number += 1;
        }
        let mut observer = ThirdReport(0);
        let mut watcher =
            ReplayMonitor::new(&IdleTarget, &queue, &mut observer, 1, ReplayProgress::default());
        assert!(matches!(shared.wait_for_room(&mut watcher), Err(ReplayError::Interrupted)));
        assert_eq!(observer.0, 3);
    }
}
