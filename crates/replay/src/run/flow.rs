//! What passes between who forms groups and who applies them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;
use logs::ThreadPanic;

use crate::error::Error;
use crate::run::form::{Former, Group};
use crate::run::read::{Batch, SoFar};
use crate::work::Shape;

/// What the applier is told.
pub(super) enum Message {
    /// Apply this.
    Group(Box<Group>),
    /// The source has been read so far.
    Read(SoFar),
    /// That is all.
    Over { undecided: Vec<String> },
    /// There is nothing behind what came, for this reason.
    Failed(Error),
}

/// How long the former waits for more before it looks whether the applier is free, when nothing comes.
const PAUSE: Duration = Duration::from_millis(2);

/// The way from who forms groups to who applies them.
pub(super) struct Flow {
    groups: SyncSender<Message>,
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

/// What may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Groups that are formed and not applied, at most.
    pub(super) open: usize,
    /// Those of them that nobody has begun to apply, at most.
    pub(super) waiting: usize,
    /// Bytes of all of them, at most; one may be larger by itself.
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Groups on their way.
    open: usize,
    /// Those of them that nobody has begun to apply.
    waiting: usize,
    /// Bytes of all of them.
    bytes: usize,
    is_stopped: bool,
    /// All that was read is on its way, and nothing more is there yet.
    is_resting: bool,
    /// What the target counts as executed by now, if that is news.
    executed: Option<GtidSet>,
}

/// Nobody applies anything any more.
struct Stopped;

impl Flow {
    /// So much may be formed and not applied.
    pub(super) fn new(limits: Limits) -> (Self, Receiver<Message>) {
        // Their number is bounded by what is open; other messages are small, and few.
        let (groups, receiver) = sync_channel(64);
        (Self { groups, limits, state: Mutex::default(), changed: Condvar::new() }, receiver)
    }

    /// A group is about to be applied.
    pub(super) fn started(&self) {
        self.state().waiting -= 1;
        self.changed.notify_all();
    }

    /// A group has been applied.
    pub(super) fn applied(&self, group: &Group) {
        let mut state = self.state();
        state.open -= 1;
        state.bytes -= group.size();
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing will be applied any more.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Will nothing be applied any more?
    pub(super) fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Is all applied that there is, for now?
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.is_resting && state.open == 0
    }

    /// The target counts these as executed: progress need not name them.
    pub(super) fn executed(&self, executed: GtidSet) {
        self.state().executed = Some(executed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Would another group be begun soon?
    fn has_room(&self) -> bool {
        let state = self.state();
        state.open < self.limits.open && state.waiting < self.limits.waiting
    }

    /// Waits until there is room for a group of so many bytes, and counts it.
    fn enter(&self, size: usize) -> Result<(), Stopped> {
        let Limits { open, waiting, bytes } = self.limits;
        let mut state = self.wait_while(|state| {
            state.open >= open || state.waiting >= waiting || state.open > 0 && state.bytes + size > bytes
        })?;
        state.open += 1;
        state.waiting += 1;
        state.bytes += size;
        Ok(())
    }

    fn wait_while(&self, holds: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Stopped> {
        let mut state = self.state();
        while holds(&state) && !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped { Err(Stopped) } else { Ok(state) }
    }

    fn send(&self, message: Message) -> Result<(), Stopped> {
        self.groups.send(message).map_err(|_| Stopped)
    }

    fn send_groups(&self, groups: &mut Vec<Group>) -> Result<(), Stopped> {
        for group in groups.drain(..) {
            // What a large one has in a file is to be gone before the next ones are read.
            let is_alone = matches!(group.work.shape, Shape::Alone { .. }) || !group.work.is_held();
            self.enter(group.size())?;
            self.send(Message::Group(Box::new(group)))?;
            if is_alone {
                // What is asked of tables from here on must see what it did.
                drop(self.wait_while(|state| state.open > 0)?);
            }
        }
        Ok(())
    }
}

/// Forms groups until there is nothing more, or nobody applies them.
pub(super) fn form(mut former: Former<'_>, batches: Receiver<Batch>, flow: &Flow) {
    let formed = ThreadPanic::catch("groups transactions", || run(&mut former, &batches, flow));
    let last = match formed.unwrap_or_else(|panic| Err(Some(panic.into()))) {
        Ok(()) => Message::Over { undecided: former.undecided() },
        Err(Some(error)) => Message::Failed(error),
        Err(None) => return,
    };
    // If nobody is there to hear it, somebody else has failed.
    let _ = flow.send(last);
}

fn run(former: &mut Former<'_>, batches: &Receiver<Batch>, flow: &Flow) -> Result<(), Option<Error>> {
    let (mut groups, mut is_last) = (Vec::new(), false);
    loop {
        flow.state().is_resting = is_last && !former.is_open();
        let next = match former.is_open() {
            true => batches.recv_timeout(PAUSE),
            false => batches.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let batch = match next {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => {
                if flow.has_room() {
                    former.close(&mut groups).map_err(Some)?;
                    flow.send_groups(&mut groups)?;
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        is_last = batch.is_last;
        flow.state().is_resting = false;
        for (head, work) in batch.units {
            former.take(head, work, &mut groups).map_err(Some)?;
            if former.is_open() && groups.is_empty() && flow.has_room() {
                former.close(&mut groups).map_err(Some)?;
            }
            if !groups.is_empty() {
                flow.send_groups(&mut groups)?;
            }
        }
        if let Some(executed) = flow.state().executed.take() {
            former.ledger.forget(&executed);
        }
        flow.send(Message::Read(batch.so_far))?;
        if let Some(error) = batch.failure {
            former.close(&mut groups).map_err(Some)?;
            flow.send_groups(&mut groups)?;
            return Err(Some(error));
        }
    }
    former.close(&mut groups).map_err(Some)?;
    Ok(flow.send_groups(&mut groups)?)
}

impl From<Stopped> for Option<Error> {
    fn from(_: Stopped) -> Self {
        None
    }
}
