//! Goes over a source and applies it.
//!
//! ```text
//! reader ─▶ transactions ─▶ former ─▶ commit groups ─▶ applier
//! ```
//!
//! Each is a thread; what is between them is bounded. A group grows as long as the applier is busy: one transaction
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

/// How a replay is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In what order transactions are committed, and how many as one.
    pub order: CommitOrder,
    /// Transactions that are committed as one, at most.
    pub group_max: usize,
    /// Bytes of memory to take for transactions that are read and not applied, about.
    pub memory: usize,
    /// Sessions that apply transactions at once, when each is committed by itself.
    pub workers: NonZeroUsize,
    /// Which transactions they may apply at once.
    pub mode: Mode,
    /// Which transactions are meant.
    pub selection: Selection,
    /// Which databases and tables are meant.
    pub filter: Filter,
    /// What if the target lacks transactions from before the first log?
    pub gap: Gap,
}

/// What happens when the target lacks transactions from before the first log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Nothing is applied.
    #[default]
    Refuse,
    /// The logs are applied all the same.
    Allow,
}

/// Whoever watches a replay.
pub trait Observer {
    /// So far it is by now. Told often, also while nothing is committed: what it gives says whether to go on.
    fn at(&mut self, status: &Status<'_>) -> ControlFlow<()>;
}

/// Applies all transactions of a source that the target does not have. Logs that are still being written are followed
/// until the selection says where to stop, or the observer wants no more.
///
/// # Errors
///
/// When a log cannot be read, or a transaction cannot be applied. What was applied by then is saved on the target, and
/// the same call goes on from there; so it does when the observer wanted no more.
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
        // The channel's end moves there, so that the former hears of the end.
        scope.spawn(move || {
            let sieve = Sieve { selector, skip, filter: &options.filter, gap: options.gap };
            let read = ThreadPanic::catch("reads the logs", || read::read(source, sieve, &to_former, flow));
            if let Err(panic) = read {
                // If the former has ended, another thread has failed first.
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
        // Whoever still waits for us waits in vain.
        drop(groups);
        flow.stop();
        watcher.finish(result)
    })
}

/// Transactions that are ready and not applied, at most, where each is committed by itself.
const READY_MAX: usize = 1024;

/// Groups grow while nobody is free to apply them: of those, one is ready for whoever is free next.
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

/// How long to wait for more before looking at what is done, and whether more is wanted.
const PAUSE: Duration = Duration::from_millis(20);

/// Counts what is done, and sees to it that the target's own account follows.
struct Watcher<'w> {
    target: &'w dyn Target,
    flow: &'w Flow,
    observer: &'w mut dyn Observer,
    report: Report,
    lags: Lags,
    /// What is saved with the last group, in commit order, that is done, and its number.
    last: Option<(u64, Progress)>,
    /// The number of the last group in source order that is done.
    latest: Option<u64>,
    workers: u64,
    busy: u64,
    group_transactions: u64,
    checkpoint_due: u64,
}

/// After so many transactions, the target's own account follows.
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

    /// This one was committed at that time, microseconds since 1970.
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

    /// Shows how far it is. An error says that nobody wants more.
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

    /// What is saved by now, when commits come in any order.
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

/// Microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Settles what was announced and not reported done: what has been applied then.
fn settled(target: &dyn Target, applied: &Applied) -> Result<Progress, Error> {
    let mut progress = applied.progress.clone();
    let Some(intent) = &applied.intent else { return Ok(progress) };
    let gtid = intent.unit.parse::<binlog::gtid::Gtid>().ok();
    if gtid.is_some_and(|gtid| applied.executed.contains(gtid) || progress.gtids.contains(gtid)) {
        return Ok(progress);
    }
    match target.settle(intent).map_err(|failure| failure.at("settle what was announced"))? {
        Settled::NotDone => {}
        Settled::Done => {
            match gtid {
                Some(gtid) => drop(progress.gtids.add(gtid)),
                None => progress.beyond.extend(Intent::place(intent)),
            }
            let progress = Ledger::new(progress).save();
            target.save(&progress).map_err(|failure| failure.at("save that what was announced is done"))?;
            return Ok(progress);
        }
        Settled::Unknown(reason) => {
            return Err(Error::Refused(format!(
                "nobody can tell whether {} was run before the last replay stopped: {reason}",
                intent.unit
            )));
        }
    }
    Ok(progress)
}

/// Lets the target take over what is committed.
fn checkpoint(target: &dyn Target, progress: &Progress) -> Result<Applied, Error> {
    target.checkpoint(progress).map_err(|failure: Failure| failure.at("save a checkpoint"))
}
