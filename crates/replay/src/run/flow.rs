//! What passes between who forms groups and who applies them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use binlog::gtid::GtidSet;

use crate::error::Error;
use crate::run::form::{Former, Group};
use crate::run::read::Batch;
use crate::work::Shape;

/// What the applier is told.
pub(super) enum Message {
    /// Apply this.
    Group(Box<Group>),
    /// The source has been read so far, and so many more transactions were passed over.
    Read { skipped: u64, bytes_read: u64 },
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
    /// Groups that are formed and not applied, at most.
    open_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Groups on their way.
    open: usize,
    is_stopped: bool,
    /// What the target counts as executed by now, if that is news.
    executed: Option<GtidSet>,
}

/// Nobody applies anything any more.
struct Stopped;

impl Flow {
    /// So many groups may be formed and not applied.
    pub(super) fn new(open_max: usize) -> (Self, Receiver<Message>) {
        // Their number is bounded by what is open; other messages are small, and few.
        let (groups, receiver) = sync_channel(64);
        (Self { groups, open_max, state: Mutex::default(), changed: Condvar::new() }, receiver)
    }

    /// A group has been applied.
    pub(super) fn applied(&self) {
        self.state().open -= 1;
        self.changed.notify_all();
    }

    /// Nothing will be applied any more.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// The target counts these as executed: progress need not name them.
    pub(super) fn executed(&self, executed: GtidSet) {
        self.state().executed = Some(executed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        self.state().open < self.open_max
    }

    /// Waits until fewer groups than `count` are on their way.
    fn wait_below(&self, count: usize) -> Result<(), Stopped> {
        let mut state = self.state();
        while state.open >= count && !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped { Err(Stopped) } else { Ok(()) }
    }

    fn send(&self, message: Message) -> Result<(), Stopped> {
        self.groups.send(message).map_err(|_| Stopped)
    }

    fn send_groups(&self, groups: &mut Vec<Group>) -> Result<(), Stopped> {
        for group in groups.drain(..) {
            let is_alone = matches!(group.work.shape, Shape::Alone { .. });
            self.wait_below(self.open_max)?;
            self.state().open += 1;
            self.send(Message::Group(Box::new(group)))?;
            if is_alone {
                // What is asked of tables from here on must see what it did.
                self.wait_below(1)?;
            }
        }
        Ok(())
    }
}

/// Forms groups until there is nothing more, or nobody applies them.
pub(super) fn form(mut former: Former<'_>, batches: Receiver<Batch>, flow: &Flow) {
    let result = run(&mut former, &batches, flow);
    let last = match result {
        Ok(()) => Message::Over { undecided: former.undecided() },
        Err(Some(error)) => Message::Failed(error),
        Err(None) => return,
    };
    // If nobody is there to hear it, somebody else has failed.
    let _ = flow.send(last);
}

fn run(former: &mut Former<'_>, batches: &Receiver<Batch>, flow: &Flow) -> Result<(), Option<Error>> {
    let mut groups = Vec::new();
    loop {
        let batch = match batches.recv_timeout(PAUSE) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => {
                if former.is_open() && flow.has_room() {
                    former.close(&mut groups).map_err(Some)?;
                    flow.send_groups(&mut groups)?;
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
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
        flow.send(Message::Read { skipped: batch.skipped, bytes_read: batch.bytes_read })?;
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
