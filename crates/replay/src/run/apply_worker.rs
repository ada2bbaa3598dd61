//! Applies commit groups in several sessions at the same time, and commits them in order.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use logs::ThreadPanic;

use crate::apply_plan::TransactionShape;
use crate::commit_gate::{CommitDecision, CommitGate, RetryDecision};
use crate::commit_order::CommitOrder;
use crate::replay_error::{ReplayError, TargetFailure};
use crate::replay_options::ReplayOptions;
use crate::replay_progress::ReplayProgress;
use crate::replay_target::{ReplayTarget, TargetSession};
use crate::run::group_applier::{ApplyTotals, RowCounter, apply_group, can_be_undone, name_failed_member};
use crate::run::group_builder::CommitGroup;
use crate::run::group_queue::{ApplierMessage, GroupQueue};
use crate::run::replay_monitor::{POLL_INTERVAL, ReplayMonitor, now_us};
use crate::schedule::Schedule;

/// State shared by the workers. With hundreds of commits per second, each condition variable wakes only the threads
/// waiting for that condition.
struct WorkerShared<'f> {
    queue: &'f GroupQueue,
    state: Mutex<WorkerState>,
    /// A group may be ready to start, or no more groups follow.
    offered: Condvar,
    /// For each worker: the gate has a decision for its group.
    turns: Vec<Condvar>,
    /// A group was committed or has failed. Wakes the thread that offers groups.
    done: Condvar,
}

struct WorkerState {
    schedule: Schedule,
    gate: CommitGate,
    /// For each worker: the number of the group for whose decision it waits.
    awaited: Vec<Option<u64>>,
    /// Groups offered and not yet committed, by number.
    groups: HashMap<u64, Arc<CommitGroup>>,
    /// A group for the first worker only: the group may need state of that session, such as temporary tables.
    for_first: Option<u64>,
    /// All groups have been offered.
    is_over: bool,
    /// Workers must neither start a group nor wait.
    is_stopped: bool,
    failure: Option<ReplayError>,
    /// Groups committed since the last report, with the time in microseconds since 1970.
    done: Vec<(Arc<CommitGroup>, u64)>,
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
/// The first failure in commit order.
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
    let state = WorkerState {
        schedule: Schedule::new(sessions.len()),
        gate: CommitGate::new(options.order),
        awaited: vec![None; sessions.len()],
        groups: HashMap::new(),
        for_first: None,
        is_over: false,
        is_stopped: false,
        failure: None,
        done: Vec::new(),
        tally: ApplyTotals::default(),
        committed: (options.order == CommitOrder::Any)
            .then(|| ReplayProgress { commits: None, ..base.clone() }),
    };
    let turns = sessions.iter().map(|_| Condvar::new()).collect();
    let (offered, done) = (Condvar::new(), Condvar::new());
    let shared = WorkerShared { queue, state: Mutex::new(state), offered, turns, done };
    let result = thread::scope(|scope| {
        for (number, session) in sessions.into_iter().enumerate() {
            let shared = &shared;
            let counter = RowCounter::default();
            scope.spawn(move || {
                let worker = ApplyWorker { shared, session, counter, index: number };
                if let Err(panic) = ThreadPanic::catch("applies transactions", || worker.run()) {
                    shared.fail(panic.into());
                }
            });
        }
        let result =
            ThreadPanic::catch_in("hands transactions to workers", || feed(&shared, groups, watcher));
        let mut state = shared.state();
        state.is_over = true;
        state.is_stopped = result.is_err();
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
            ApplierMessage::Group(group) => shared.offer(*group),
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

impl WorkerShared<'_> {
    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.offered.notify_all();
        self.turns.iter().for_each(Condvar::notify_all);
        self.done.notify_all();
    }

    /// Wakes the workers for whose groups the gate has a decision now.
    fn wake_turns(&self, state: &WorkerState) {
        for (number, bell) in state.awaited.iter().zip(&self.turns) {
            if number.is_some_and(|number| state.gate.peek(number) != CommitDecision::Wait) {
                bell.notify_one();
            }
        }
    }

    fn offer(&self, group: CommitGroup) {
        let mut state = self.state();
        while !state.schedule.has_room() && state.failure.is_none() {
            state = wait_on(&self.done, state);
        }
        if state.failure.is_none() {
            let number = state.schedule.offer(group.claim.clone());
            let before = state.groups.insert(number, Arc::new(group));
            assert!(before.is_none(), "ours: each group has a number of its own");
            let is_scheduled = state.groups.len() <= state.schedule.open_count();
            assert!(is_scheduled, "ours: the schedule knows each group that is not committed");
            drop(state);
            self.offered.notify_one();
        }
    }

    /// Returns the progress to save with a group. If commits come in any order, the progress includes all transactions
    /// known to be committed.
    fn progress(&self, group: &CommitGroup) -> ReplayProgress {
        match &self.state().committed {
            None => group.progress.clone(),
            Some(committed) => {
                let mut progress = committed.clone();
                progress.add_gtids(&group.gtids);
                progress
            }
        }
    }

    /// Reports finished groups to the monitor.
    fn report_done(&self, watcher: &mut ReplayMonitor<'_>, until: WaitUntil) -> Result<(), ReplayError> {
        loop {
            let mut state = self.state();
            let done = std::mem::take(&mut state.done);
            let (failure, is_idle) = (state.failure.take(), state.schedule.open_count() == 0);
            let tally = state.tally;
            watcher.busy = state.schedule.running_count() as u64;
            if let Some(committed) = &state.committed
                && !done.is_empty()
            {
                watcher.set_saved(committed.clone());
            }
            drop(state);
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
            let state = self.state();
            if state.done.is_empty() && state.failure.is_none() && state.schedule.open_count() > 0 {
                drop(self.done.wait_timeout(state, POLL_INTERVAL));
            }
        }
    }
}

fn wait_on<'s>(bell: &Condvar, state: MutexGuard<'s, WorkerState>) -> MutexGuard<'s, WorkerState> {
    bell.wait(state).unwrap_or_else(PoisonError::into_inner)
}

struct ApplyWorker<'s, 'f> {
    shared: &'s WorkerShared<'f>,
    session: Box<dyn TargetSession>,
    counter: RowCounter,
    index: usize,
}

impl ApplyWorker<'_, '_> {
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
                    if state.schedule.can_start() {
                        self.shared.offered.notify_one();
                    }
                    self.shared.queue.mark_started();
                    return Some((number, group));
                }
                assert!(state.for_first.is_none(), "ours: a group for the first worker runs alone");
                state.for_first = Some(number);
                // Wake all waiting workers: the first worker may be any of them.
                self.shared.offered.notify_all();
                continue;
            }
            state = wait_on(&self.shared.offered, state);
        }
    }

    /// Applies and commits a group after [`CommitGate::begin`]; `None` if the replay stops.
    fn commit_group(&mut self, number: u64, group: &CommitGroup) -> Option<()> {
        loop {
            let applied = apply_group(&mut *self.session, group, &mut self.counter);
            if self.step(number, group, applied, |gate| gate.mark_applied(number))? == StepOutcome::Again {
                continue;
            }
            match self.wait_for_decision(number) {
                CommitDecision::Commit => {}
                CommitDecision::RollBack => {
                    let result = self.session.rollback();
                    if self.step(number, group, result, |gate| gate.mark_rolled_back(number))?
                        == StepOutcome::On
                    {
                        self.begin_again(number)?;
                    }
                    continue;
                }
                _ => {
                    let _ = self.session.rollback();
                    return None;
                }
            }
            let shared = self.shared;
            let mut placed = || {
                let mut state = shared.state();
                state.gate.mark_placed(number);
                shared.wake_turns(&state);
            };
            let committed = self.session.commit(&shared.progress(group), &mut placed);
            if self.step(number, group, committed, |gate| gate.mark_committed(number))? == StepOutcome::On {
                break;
            }
        }
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
        state.done.extend(done.map(|group| (group, at_us)));
        drop(state);
        self.shared.queue.mark_applied(group);
        self.shared.done.notify_one();
        Some(())
    }

    /// Reports the result of a step to the gate; `None` if the replay stops.
    fn step(
        &mut self,
        number: u64,
        group: &CommitGroup,
        result: Result<(), TargetFailure>,
        tell: impl FnOnce(&mut CommitGate),
    ) -> Option<StepOutcome> {
        let failure = match result {
            Ok(()) => {
                let mut state = self.shared.state();
                tell(&mut state.gate);
                self.shared.wake_turns(&state);
                return Some(StepOutcome::On);
            }
            Err(failure) => failure,
        };
        // Only a group that can be rolled back can be retried.
        let code = failure.code.filter(|_| can_be_undone(group)).unwrap_or(0);
        let mut state = self.shared.state();
        let verdict = state.gate.fail(number, code);
        drop(state);
        self.shared.wake_all();
        let is_lost = self.session.rollback().is_err();
        let after = match verdict {
            RetryDecision::Retry { after } if !is_lost => {
                self.shared.state().tally.retries += 1;
                after
            }
            _ => {
                let error = name_failed_member(&mut *self.session, group, failure);
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
        match self.wait_for_decision(number) {
            CommitDecision::Apply => {
                self.shared.state().gate.begin(number);
                Some(())
            }
            _ => None,
        }
    }

    /// Waits for the gate's next decision about a group.
    fn wait_for_decision(&self, number: u64) -> CommitDecision {
        let mut state = self.shared.state();
        loop {
            let turn = match state.gate.decide(number) {
                CommitDecision::Wait if !state.is_stopped => {
                    state.awaited[self.index] = Some(number);
                    state = wait_on(&self.shared.turns[self.index], state);
                    continue;
                }
                CommitDecision::Wait => CommitDecision::Abandon,
                turn => turn,
            };
            state.awaited[self.index] = None;
            return turn;
        }
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    On,
    /// The group failed, was rolled back, and has begun again.
    Again,
}
