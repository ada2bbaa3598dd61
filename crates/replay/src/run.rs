//! Goes over a source and applies it.
//!
//! ```text
//! reader ─▶ transactions ─▶ former ─▶ commit groups ─▶ applier
//! ```
//!
//! Each is a thread; what is between them is bounded. A group grows as long as the applier is busy: one transaction
//! when it has caught up, thousands when it is behind.

mod apply;
mod flow;
mod form;
mod read;
mod skip;

use std::ops::ControlFlow;
use std::thread;

use crate::error::{Error, Failure};
use crate::order::CommitOrder;
use crate::progress::{Applied, Intent, Ledger, Progress};
use crate::report::Report;
use crate::run::apply::Applier;
use crate::run::flow::{Flow, Message};
use crate::run::form::Former;
use crate::run::skip::Skip;
use crate::source::Source;
use crate::target::{Settled, Target};

/// How a replay is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In what order transactions are committed, and how many as one.
    pub order: CommitOrder,
    /// Transactions that are committed as one, at most.
    pub group_max: usize,
}

/// Whoever watches a replay.
pub trait Observer {
    /// So many bytes of the logs have been gone over, and so much has been done. Asked for after each commit: what it
    /// gives says whether to go on.
    fn at(&mut self, bytes: u64, report: &Report) -> ControlFlow<()>;
}

/// Applies all transactions of a source that the target does not have.
///
/// # Errors
///
/// When a log cannot be read, a transaction cannot be applied, or the observer wants no more. What was applied by
/// then is saved on the target, and the same call goes on from there.
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
    let mut ledger = Ledger::new(progress);
    ledger.forget(&executed.executed);
    let skip = Skip::new(applied, source.log_names());
    let former = Former::new(target, options, ledger);
    let applier = Applier::new(target)?;
    let (flow, groups) = Flow::new();
    let (to_former, from_reader) = read::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Moved here, so that the former hears of the end.
            let to_former = to_former;
            read::read(source, &skip, &to_former);
        });
        scope.spawn(|| flow::form(former, from_reader, &flow));
        let result = apply(target, applier, &groups, &flow, observer);
        // Whoever still waits for us waits in vain.
        drop(groups);
        flow.stop();
        result
    })
}

/// After so many transactions, the target's own account follows.
const CHECKPOINT_PERIOD: u64 = 100_000;

fn apply(
    target: &dyn Target,
    mut applier: Applier,
    groups: &std::sync::mpsc::Receiver<Message>,
    flow: &Flow,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let (mut report, mut progress) = (Report::default(), None);
    let mut bytes = 0;
    let mut checkpoint_due = CHECKPOINT_PERIOD;
    let mut failure = None;
    for message in groups {
        match message {
            Message::Group(group) => {
                let group = *group;
                applier.apply(&group)?;
                flow.applied();
                report.transactions += group.transactions;
                report.groups += 1;
                report.retries = applier.retries;
                progress = Some(group.progress);
            }
            Message::Read { skipped, bytes_read } => {
                report.skipped += skipped;
                bytes = bytes_read;
            }
            Message::Over { undecided } => {
                report.undecided = undecided;
                break;
            }
            Message::Failed(error) => {
                failure = Some(error);
                break;
            }
        }
        if report.transactions >= checkpoint_due
            && let Some(progress) = &progress
        {
            flow.executed(checkpoint(target, progress)?.executed);
            checkpoint_due = report.transactions + CHECKPOINT_PERIOD;
        }
        if observer.at(bytes, &report).is_break() {
            failure = Some(Error::Interrupted);
            break;
        }
    }
    let progress = progress.unwrap_or_default();
    let end = checkpoint(target, &progress)?;
    report.applied = progress.gtids.union(&end.executed);
    match failure {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
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
        Settled::Done => match gtid {
            Some(gtid) => drop(progress.gtids.add(gtid)),
            None => progress.beyond.extend(Intent::place(intent)),
        },
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
