//! Goes over a source and applies it.

mod serial;
mod skip;

use binlog::PayloadOpener;

use crate::error::{Error, Failure};
use crate::progress::{Applied, Intent, Ledger};
use crate::report::Report;
use crate::run::serial::Serial;
use crate::run::skip::Skip;
use crate::source::Source;
use crate::target::{Settled, Target};
use crate::unit::Unit;
use crate::work::Work;

/// How a replay is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {}

/// Whoever watches a replay.
pub trait Observer {
    /// So many bytes of the logs have been gone over, and so many transactions applied. Asked for after each commit:
    /// what it gives says whether to go on.
    fn at(&mut self, bytes: u64, report: &Report) -> std::ops::ControlFlow<()>;
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
    _options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let applied = target.applied().map_err(|failure| failure.at("read the progress"))?;
    let mut run = Serial::new(target, ledger(target, &applied)?)?;
    let skip = Skip::new(applied, source.log_names());
    let mut opener = PayloadOpener::new();
    while let Some(unit) = source.next_unit()? {
        if skip.has(&unit)? {
            run.report.skipped += 1;
            continue;
        }
        let work = Work::of(&unit, &mut opener);
        let work = work.map_err(|error| Error::Work { unit: unit.to_string(), error })?;
        run.apply(unit, work)?;
        if observer.at(source.bytes_read(), &run.report).is_break() {
            run.finish()?;
            return Err(Error::Interrupted);
        }
    }
    run.finish()
}

/// Settles what was announced and not reported done, and counts on from what was applied.
fn ledger(target: &dyn Target, applied: &Applied) -> Result<Ledger, Error> {
    let mut progress = applied.progress.clone();
    if let Some(intent) = &applied.intent {
        settle(target, applied, intent, &mut progress)?;
    }
    let mut ledger = Ledger::new(progress);
    checkpoint(target, &mut ledger)?;
    Ok(ledger)
}

fn settle(
    target: &dyn Target,
    applied: &Applied,
    intent: &Intent,
    progress: &mut crate::progress::Progress,
) -> Result<(), Error> {
    let gtid = intent.unit.parse::<binlog::gtid::Gtid>().ok();
    if gtid.is_some_and(|gtid| applied.executed.contains(gtid) || progress.gtids.contains(gtid)) {
        return Ok(());
    }
    match target.settle(intent).map_err(|failure| failure.at("settle what was announced"))? {
        Settled::NotDone => Ok(()),
        Settled::Done => {
            match gtid {
                Some(gtid) => drop(progress.gtids.add(gtid)),
                None => progress.beyond.extend(intent.place()),
            }
            Ok(())
        }
        Settled::Unknown(reason) => Err(Error::Refused(format!(
            "nobody can tell whether {} was run before the last replay stopped: {reason}",
            intent.unit
        ))),
    }
}

/// Lets the target take over what is committed.
fn checkpoint(target: &dyn Target, ledger: &mut Ledger) -> Result<Applied, Error> {
    let applied = target.checkpoint(ledger.progress());
    let applied = applied.map_err(|failure: Failure| failure.at("save a checkpoint"))?;
    ledger.forget(&applied.executed);
    Ok(applied)
}

/// Why a transaction was not applied.
fn refused(unit: &Unit, failure: Failure) -> Error {
    Error::Apply { unit: unit.to_string(), failure }
}
