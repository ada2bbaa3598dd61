//! Reads a source and applies its transactions.
//!
//! ```text
//! reader ─▶ transactions ─▶ group builder ─▶ commit groups ─▶ applier
//! ```
//!
//! Each stage is a thread, with bounded queues between them. A group grows while the applier is busy: one transaction
//! when it has caught up, thousands when it is behind.

mod apply;
mod claim;
mod flow;
mod form;
mod plan;
mod read;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod settling;
mod skip;
mod workers;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use filter::Filter;
use logs::ThreadPanic;

use crate::error::{Error, Failure};
use crate::lag::Lags;
use crate::order::CommitOrder;
use crate::progress::{Applied, Intent, Ledger, Progress};
use crate::report::{Report, Status};
use crate::run::apply::{Applier, Tally};
use crate::run::flow::{Flow, Limits, Message};
use crate::run::form::{Former, Group};
pub use crate::run::plan::{Ground, Plan, RowChanges, Width, plan};
use crate::run::read::{Batch, Sieve, SoFar};
pub(crate) use crate::run::skip::Skip;
use crate::schedule::Mode;
use crate::select::{Selection, Selector};
use crate::source::Source;
use crate::target::{Settled, Target};

/// Options of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Order in which transactions are committed, and how many as one.
    pub order: CommitOrder,
    /// Maximum number of transactions committed as one.
    pub group_max: usize,
    /// Approximate memory in bytes for transactions that are read and not applied.
    pub memory: usize,
    /// Sessions that apply transactions at the same time.
    pub workers: NonZeroUsize,
    /// Transactions that the sessions may apply at the same time.
    pub mode: Mode,
    /// Transactions to apply.
    pub selection: Selection,
    /// Databases and tables to apply.
    pub filter: Filter,
    /// Reaction to a target that lacks transactions from before the first log.
    pub gap: Gap,
}

/// Reactions to a target that lacks transactions from before the first log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Apply nothing.
    #[default]
    Refuse,
    /// Apply the logs anyway.
    Allow,
}

/// Observer of a replay.
pub trait Observer {
    /// Receives the current state; called often, also while nothing is committed. The result says whether to continue.
    fn at(&mut self, status: &Status<'_>) -> ControlFlow<()>;
}

/// Applies all transactions of a source that the target does not have. Follows logs that are still being written, until
/// the selection's stop or until the observer breaks.
///
/// # Errors
///
/// When a log cannot be read, or a transaction cannot be applied. Everything applied so far is saved on the target, and
/// the same call continues from there. That holds after a break by the observer, too.
pub fn replay(
    source: &mut Source,
    target: &dyn Target,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let applied = target.applied().map_err(|failure| failure.at("read the progress"))?;
    let progress = settled(target, &applied)?;
    let applied = Applied { progress: progress.clone(), ..applied };
    let executed = checkpoint(target, &progress)?;
    let base = progress.clone();
    let mut ledger = Ledger::new(progress);
    ledger.forget(&executed.executed);
    if options.selection.can_start_behind() {
        source.pass_over(&applied)?;
    }
    let skip = Skip::new(applied, source.log_names());
    let selector = Selector::new(&options.selection, source.log_names())?;
    let in_one = options.workers.get() == 1 && options.order != CommitOrder::Any;
    let mode = if in_one { Mode::None } else { options.mode };
    let former = Former::new(target, options, mode, ledger);
    let (flow, groups) = Flow::new(limits(options));
    let flow = &flow;
    let (to_former, from_reader) = read::channel();
    thread::scope(|scope| {
        // Moves the sender into this thread, so that the group builder sees the end of the channel.
        scope.spawn(move || {
            let sieve = Sieve { selector, skip, filter: &options.filter, gap: options.gap };
            let read = ThreadPanic::catch("reads the logs", || read::read(source, sieve, &to_former, flow));
            if let Err(panic) = read {
                // If the group builder has ended, another thread failed first.
                let _ = to_former.send(Batch { failure: Some(panic.into()), ..Batch::default() });
            }
        });
        scope.spawn(|| flow::form(former, from_reader, flow));
        let workers = if in_one { 1 } else { options.workers.get() as u64 };
        let mut watcher = Watcher::new(target, flow, observer, workers);
        let result = ThreadPanic::catch_in("applies transactions", || match in_one {
            true => in_one_session(target, &groups, flow, &mut watcher),
            false => workers::run(target, options, &base, &groups, flow, &mut watcher),
        });
        // Unblocks threads that still wait for the applier.
        drop(groups);
        flow.stop();
        watcher.finish(result)
    })
}

/// Maximum number of transactions that are ready and not applied, if each is committed by itself.
const READY_MAX: usize = 1024;

/// Groups grow while all workers are busy: then one is kept ready for the next free worker.
fn limits(options: &Options) -> Limits {
    let (workers, bytes) = (options.workers.get(), options.memory / 4);
    match options.order {
        CommitOrder::Grouped => Limits { open: workers + 1, waiting: 1, bytes },
        CommitOrder::Strict | CommitOrder::Any => Limits { open: READY_MAX, waiting: READY_MAX, bytes },
    }
}

fn in_one_session(
    target: &dyn Target,
    groups: &Receiver<Message>,
    flow: &Flow,
    watcher: &mut Watcher<'_>,
) -> Result<(), Error> {
    let mut applier = Applier::new(target)?;
    loop {
        let message = match groups.recv_timeout(PAUSE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                watcher.look()?;
                continue;
            }
        };
        match message {
            Message::Group(group) => {
                flow.started();
                watcher.busy = 1;
                applier.apply(&group, &mut || watcher.look())?;
                watcher.busy = 0;
                flow.applied(&group);
                watcher.done(&group, now_us(), applier.tally)?;
            }
            Message::Read(so_far) => watcher.read(so_far),
            Message::Over { undecided } => {
                watcher.over(undecided);
                return Ok(());
            }
            Message::Failed(error) => return Err(error),
        }
        watcher.look()?;
    }
}

/// Interval at which the applier reports its state and asks whether to continue.
const PAUSE: Duration = Duration::from_millis(20);

/// Counts results, and keeps the target's own record up to date.
struct Watcher<'w> {
    target: &'w dyn Target,
    flow: &'w Flow,
    observer: &'w mut dyn Observer,
    report: Report,
    lags: Lags,
    /// Number of the last completed group in commit order, and the progress saved with it.
    last: Option<(u64, Progress)>,
    /// Number of the last completed group in source order.
    latest: Option<u64>,
    workers: u64,
    busy: u64,
    group_transactions: u64,
    checkpoint_due: u64,
}

/// Transactions between two checkpoints of the target's own record.
const CHECKPOINT_PERIOD: u64 = 100_000;

impl<'w> Watcher<'w> {
    fn new(target: &'w dyn Target, flow: &'w Flow, observer: &'w mut dyn Observer, workers: u64) -> Self {
        Self {
            target,
            flow,
            observer,
            report: Report::default(),
            lags: Lags::new(),
            last: None,
            latest: None,
            workers,
            busy: 0,
            group_transactions: 0,
            checkpoint_due: CHECKPOINT_PERIOD,
        }
    }

    fn read(&mut self, so_far: SoFar) {
        self.report.skipped += so_far.skipped;
        self.report.bytes_read = so_far.bytes_read;
        self.report.late = so_far.late.or(self.report.late.take());
    }

    /// Records that a group was committed at this time, in microseconds since 1970.
    fn done(&mut self, group: &Group, at_us: u64, tally: Tally) -> Result<(), Error> {
        self.lags.add(&group.committed_us, at_us);
        self.report.transactions += group.transactions;
        self.report.groups += 1;
        let Tally { rows, retries, at_once } = tally;
        (self.report.rows, self.report.retries, self.report.at_once) = (rows, retries, at_once);
        if self.last.as_ref().is_none_or(|(number, _)| *number < group.head.number) {
            self.last = Some((group.head.number, group.progress.clone()));
        }
        if self.latest.is_none_or(|number| number < group.head.number) {
            self.latest = Some(group.head.number);
            self.report.committed_us = group.committed_us.last().copied();
            self.report.place = Some(group.end.end_place());
            self.group_transactions = group.transactions;
        }
        if self.report.transactions >= self.checkpoint_due {
            self.checkpoint_due = self.report.transactions + CHECKPOINT_PERIOD;
            self.flow.executed(self.checkpoint()?.executed);
        }
        Ok(())
    }

    /// Reports the current state to the observer. Fails if the observer wants to stop.
    fn look(&mut self) -> Result<(), Error> {
        let is_caught_up = self.flow.is_idle();
        if is_caught_up {
            self.lags.caught_up();
        }
        let status = Status::new(&self.report, (self.workers, self.busy), self.group_transactions);
        let mut status = status.with_lags(&self.lags);
        status.is_caught_up = is_caught_up;
        match self.observer.at(&status) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    }

    /// Takes note of the saved progress, where commits come in any order.
    fn saved(&mut self, progress: Progress) {
        self.last = Some((u64::MAX, progress));
    }

    fn over(&mut self, undecided: Vec<String>) {
        self.report.undecided = undecided;
    }

    fn checkpoint(&self) -> Result<Applied, Error> {
        let none = Progress::default();
        checkpoint(self.target, self.last.as_ref().map_or(&none, |(_, progress)| progress))
    }

    fn finish(mut self, result: Result<(), Error>) -> Result<Report, Error> {
        let end = self.checkpoint();
        match result {
            Err(Error::Interrupted) => self.report.is_interrupted = true,
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
fn settled(target: &dyn Target, applied: &Applied) -> Result<Progress, Error> {
    let mut progress = applied.progress.clone();
    let Some(intent) = &applied.intent else { return Ok(progress) };
    let gtid = intent.unit.parse::<binlog::gtid::Gtid>().ok();
    if gtid.is_some_and(|gtid| applied.executed.contains(gtid) || progress.gtids.contains(gtid)) {
        return Ok(progress);
    }
    match target
        .settle(intent)
        .map_err(|failure| failure.at("find out whether an announced statement was run"))?
    {
        Settled::NotDone => {}
        Settled::Done => {
            match gtid {
                Some(gtid) => drop(progress.gtids.add(gtid)),
                None => progress.beyond.extend(Intent::place(intent)),
            }
            let progress = Ledger::new(progress).save();
            target
                .save(&progress)
                .map_err(|failure| failure.at("save that the announced statement was run"))?;
            return Ok(progress);
        }
        Settled::Unknown(reason) => {
            return Err(Error::Refused(format!(
                "unknown whether {} was run before the last replay stopped: {reason}",
                intent.unit
            )));
        }
    }
    Ok(progress)
}

/// Lets the target update its own record of executed transactions.
fn checkpoint(target: &dyn Target, progress: &Progress) -> Result<Applied, Error> {
    target.checkpoint(progress).map_err(|failure: Failure| failure.at("save a checkpoint"))
}
