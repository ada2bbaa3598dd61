//! Applies commit groups in several sessions at the same time, and commits them in order.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use logs::ThreadPanic;

use crate::error::{Error, Failure};
use crate::order::{CommitOrder, Gate, Turn, Verdict};
use crate::progress::Progress;
use crate::run::apply::{RowCounter, Tally, can_be_undone, name_failed_member, put};
use crate::run::flow::{Flow, Message};
use crate::run::form::Group;
use crate::run::{Options, PAUSE, Watcher, now_us};
use crate::schedule::Schedule;
use crate::target::{Session, Target};
use crate::work::Shape;

/// State shared by the workers. With hundreds of commits per second, each condition variable wakes only the threads
/// waiting for that condition.
struct Shop<'f> {
    flow: &'f Flow,
    state: Mutex<State>,
    /// A group may be ready to start, or nothing more follows.
    offered: Condvar,
    /// For each worker: its group has a turn.
    turns: Vec<Condvar>,
    /// A group is committed, or has failed. Wakes the thread that offers groups.
    done: Condvar,
}

struct State {
    schedule: Schedule,
    gate: Gate,
    /// For each worker: the number of the group whose turn it waits for.
    awaited: Vec<Option<u64>>,
    /// Groups offered and not committed, by number.
    groups: HashMap<u64, Arc<Group>>,
    /// A group for the first worker only: it may need state of that session, such as temporary tables.
    for_first: Option<u64>,
    /// All groups have been offered.
    is_over: bool,
    /// Nothing more may start or wait.
    is_stopped: bool,
    failure: Option<Error>,
    /// Groups committed since the last report, with the time in microseconds since 1970.
    done: Vec<(Arc<Group>, u64)>,
    tally: Tally,
    /// All committed transactions, if commits come in any order.
    committed: Option<Progress>,
}

/// Condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// None: do not wait.
    Now,
    /// All groups are committed.
    Idle,
}

/// Applies the groups in the sessions that the options ask for. `base` is the progress of the target.
///
/// # Errors
///
/// The first failure in commit order.
pub(super) fn run(
    target: &dyn Target,
    options: &Options,
    base: &Progress,
    groups: &Receiver<Message>,
    flow: &Flow,
    watcher: &mut Watcher<'_>,
) -> Result<(), Error> {
    let mut sessions = Vec::new();
    for number in 0..options.workers.get() {
        let mut session = target.session().map_err(|failure| failure.at("open a session"))?;
        if options.order == CommitOrder::Any && number > 0 {
            session
                .keep_apart(number)
                .map_err(|failure| failure.at("save progress separately in each session"))?;
        }
        sessions.push(session);
    }
    let state = State {
        schedule: Schedule::new(sessions.len()),
        gate: Gate::new(options.order),
        awaited: vec![None; sessions.len()],
        groups: HashMap::new(),
        for_first: None,
        is_over: false,
        is_stopped: false,
        failure: None,
        done: Vec::new(),
        tally: Tally::default(),
        committed: (options.order == CommitOrder::Any).then(|| Progress { commits: None, ..base.clone() }),
    };
    let turns = sessions.iter().map(|_| Condvar::new()).collect();
    let (offered, done) = (Condvar::new(), Condvar::new());
    let shop = Shop { flow, state: Mutex::new(state), offered, turns, done };
    let result = thread::scope(|scope| {
        for (number, session) in sessions.into_iter().enumerate() {
            let shop = &shop;
            let counter = RowCounter::default();
            scope.spawn(move || {
                let worker = Worker { shop, session, counter, index: number };
                if let Err(panic) = ThreadPanic::catch("applies transactions", || worker.run()) {
                    shop.fail(panic.into());
                }
            });
        }
        let result = ThreadPanic::catch_in("hands transactions to workers", || feed(&shop, groups, watcher));
        let mut state = shop.state();
        state.is_over = true;
        state.is_stopped = result.is_err();
        drop(state);
        shop.wake_all();
        result
    });
    // Reports groups that were being committed when the last worker was stopped.
    let rest = shop.take_done(watcher, Until::Now);
    result.and(rest)
}

fn feed(shop: &Shop<'_>, groups: &Receiver<Message>, watcher: &mut Watcher<'_>) -> Result<(), Error> {
    let mut ended = None;
    while ended.is_none() {
        let message = match groups.recv_timeout(PAUSE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                shop.take_done(watcher, Until::Now)?;
                watcher.look()?;
                continue;
            }
        };
        match message {
            Message::Group(group) => shop.offer(*group),
            Message::Read(so_far) => watcher.read(so_far),
            Message::Over { undecided } => {
                watcher.over(undecided);
                ended = Some(Ok(()));
            }
            Message::Failed(error) => ended = Some(Err(error)),
        }
        shop.take_done(watcher, Until::Now)?;
        watcher.look()?;
    }
    // Groups that were offered are completed, whatever follows them.
    shop.take_done(watcher, Until::Idle)?;
    ended.unwrap_or(Ok(()))
}

impl Shop<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all workers: nothing more is started or waited for.
    fn fail(&self, error: Error) {
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

    /// Wakes the workers whose groups have a turn now.
    fn wake_turns(&self, state: &State) {
        for (number, bell) in state.awaited.iter().zip(&self.turns) {
            if number.is_some_and(|number| state.gate.outlook(number) != Turn::Wait) {
                bell.notify_one();
            }
        }
    }

    fn offer(&self, group: Group) {
        let mut state = self.state();
        while !state.schedule.has_room() && state.failure.is_none() {
            state = wait(&self.done, state);
        }
        if state.failure.is_none() {
            let number = state.schedule.offer(group.claim.clone());
            state.groups.insert(number, Arc::new(group));
            drop(state);
            self.offered.notify_one();
        }
    }

    /// Returns the progress to save with a group. If commits come in any order, it has everything known to be
    /// committed.
    fn progress(&self, group: &Group) -> Progress {
        match &self.state().committed {
            None => group.progress.clone(),
            Some(committed) => {
                let mut progress = committed.clone();
                progress.count(&group.gtids);
                progress
            }
        }
    }

    /// Reports finished groups to the monitor.
    fn take_done(&self, watcher: &mut Watcher<'_>, until: Until) -> Result<(), Error> {
        loop {
            let mut state = self.state();
            let done = std::mem::take(&mut state.done);
            let (failure, is_idle) = (state.failure.take(), state.schedule.open() == 0);
            let tally = state.tally;
            watcher.busy = state.schedule.running() as u64;
            if let Some(committed) = &state.committed
                && !done.is_empty()
            {
                watcher.saved(committed.clone());
            }
            drop(state);
            for (group, at_us) in &done {
                watcher.done(group, *at_us, tally)?;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if until == Until::Now || is_idle {
                return Ok(());
            }
            watcher.look()?;
            let state = self.state();
            if state.done.is_empty() && state.failure.is_none() && state.schedule.open() > 0 {
                drop(self.done.wait_timeout(state, PAUSE));
            }
        }
    }
}

fn wait<'s>(bell: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    bell.wait(state).unwrap_or_else(PoisonError::into_inner)
}

struct Worker<'s, 'f> {
    shop: &'s Shop<'f>,
    session: Box<dyn Session>,
    counter: RowCounter,
    index: usize,
}

impl Worker<'_, '_> {
    fn run(mut self) {
        while let Some((number, group)) = self.next() {
            if self.finish(number, &group).is_none() {
                return;
            }
        }
    }

    /// Returns the next group; `None` if no more follows.
    fn next(&self) -> Option<(u64, Arc<Group>)> {
        let mut state = self.shop.state();
        loop {
            if state.is_stopped
                || state.gate.failed().is_some()
                || state.is_over && state.schedule.open() == 0
            {
                return None;
            }
            let is_first = self.index == 0;
            let mine = if is_first { state.for_first.take() } else { None };
            if let Some(number) = mine.or_else(|| state.schedule.start()) {
                let group = Arc::clone(state.groups.get(&number)?);
                if is_first || group.work.shape == Shape::Rows {
                    state.gate.begin(number);
                    state.tally.at_once = state.tally.at_once.max(state.schedule.running() as u64);
                    if state.schedule.can_start() {
                        self.shop.offered.notify_one();
                    }
                    self.shop.flow.started();
                    return Some((number, group));
                }
                state.for_first = Some(number);
                // Wakes all, as the first worker may be any of those waiting.
                self.shop.offered.notify_all();
                continue;
            }
            state = wait(&self.shop.offered, state);
        }
    }

    /// Applies and commits a group that has begun at the gate; `None` if the replay stops.
    fn finish(&mut self, number: u64, group: &Group) -> Option<()> {
        loop {
            let applied = put(&mut *self.session, group, &mut self.counter);
            if self.step(number, group, applied, |gate| gate.applied(number))? == Next::Again {
                continue;
            }
            match self.turn(number) {
                Turn::Commit => {}
                Turn::RollBack => {
                    let result = self.session.rollback();
                    if self.step(number, group, result, |gate| gate.rolled_back(number))? == Next::On {
                        self.begin_again(number)?;
                    }
                    continue;
                }
                _ => {
                    let _ = self.session.rollback();
                    return None;
                }
            }
            let shop = self.shop;
            let mut placed = || {
                let mut state = shop.state();
                state.gate.placed(number);
                shop.wake_turns(&state);
            };
            let committed = self.session.commit(&shop.progress(group), &mut placed);
            if self.step(number, group, committed, |gate| gate.committed(number))? == Next::On {
                break;
            }
        }
        let at_us = now_us();
        let mut state = self.shop.state();
        state.tally.rows += self.counter.rows;
        state.schedule.committed(number);
        if let Some(committed) = &mut state.committed {
            committed.count(&group.gtids);
        }
        let done = state.groups.remove(&number);
        state.done.extend(done.map(|group| (group, at_us)));
        drop(state);
        self.shop.flow.applied(group);
        self.shop.done.notify_one();
        Some(())
    }

    /// Reports the result of a step to the gate; `None` if the replay stops.
    fn step(
        &mut self,
        number: u64,
        group: &Group,
        result: Result<(), Failure>,
        tell: impl FnOnce(&mut Gate),
    ) -> Option<Next> {
        let failure = match result {
            Ok(()) => {
                let mut state = self.shop.state();
                tell(&mut state.gate);
                self.shop.wake_turns(&state);
                return Some(Next::On);
            }
            Err(failure) => failure,
        };
        // Only a group that can be rolled back can be retried.
        let code = failure.code.filter(|_| can_be_undone(group)).unwrap_or(0);
        let mut state = self.shop.state();
        let verdict = state.gate.fail(number, code);
        state.tally.retries += 1;
        drop(state);
        self.shop.wake_all();
        let is_lost = self.session.rollback().is_err();
        let after = match verdict {
            Verdict::Retry { after } if !is_lost => after,
            _ => {
                let error = name_failed_member(&mut *self.session, group, failure);
                self.shop.state().failure.get_or_insert(error);
                self.shop.wake_all();
                return None;
            }
        };
        thread::sleep(after);
        self.begin_again(number)?;
        Some(Next::Again)
    }

    /// Waits until the group may be applied again; `None` if the replay stops.
    fn begin_again(&self, number: u64) -> Option<()> {
        if self.shop.state().is_stopped {
            return None;
        }
        match self.turn(number) {
            Turn::Apply => {
                self.shop.state().gate.begin(number);
                Some(())
            }
            _ => None,
        }
    }

    /// Waits for the next turn of a group.
    fn turn(&self, number: u64) -> Turn {
        let mut state = self.shop.state();
        loop {
            let turn = match state.gate.turn(number) {
                Turn::Wait if !state.is_stopped => {
                    state.awaited[self.index] = Some(number);
                    state = wait(&self.shop.turns[self.index], state);
                    continue;
                }
                Turn::Wait => Turn::Abandon,
                turn => turn,
            };
            state.awaited[self.index] = None;
            return turn;
        }
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    On,
    /// It failed, was rolled back, and has begun again.
    Again,
}
