//! Verifies logs: checksums, framing, grammar, positions, GTIDs, logical clocks, every row, every payload.

mod check;
mod fault;
mod fields;
mod findings;
mod format;
mod judge;
mod report;
mod rows;
mod tail;

use std::ops::ControlFlow;

use binlog::PayloadOpener;
use logs::ordered::{Bounds, Feed, ordered};
use logs::{End, LogKind, LogReader};

pub use fault::{Fault, FaultKind, Remark};
pub use report::{LogVerdict, Unreadable, Verdict, Verdicts};
pub use tail::{RepairError, Repaired, repair_tail};

use crate::error::Error;
use crate::walk::{Cut, OnDamage, Work, walk};
use findings::Findings;
use judge::Judge;

/// Maximum bytes of pieces that wait to be checked.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// Verifies logs, in the order given. Logs that follow each other by their names are also compared with each other.
/// `watch` is called with the bytes done so far; if it breaks, the run ends with [`Error::Stopped`].
///
/// # Errors
///
/// [`Error::Stopped`]. All faults of the logs are in the verdicts.
pub fn verify(
    readers: impl IntoIterator<Item = (String, Result<LogReader, logs::Error>), IntoIter: Send>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Verdicts, Error> {
    verify_cut(readers, Cut::USUAL, watch)
}

fn verify_cut(
    readers: impl IntoIterator<Item = (String, Result<LogReader, logs::Error>), IntoIter: Send>,
    cut: Cut,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Verdicts, Error> {
    let readers = readers.into_iter();
    let mut judge = Judge::default();
    let mut bytes_done = 0;
    ordered(
        Bounds::with_bytes(WAITING_SIZE_MAX),
        |feed: &Feed<'_, Step>| read(readers, cut, feed),
        || OnDamage::Resume.opener(),
        |opener, step, outlet| Ok(outlet.push(look(step, opener), FINDINGS_SIZE)?),
        |looked| {
            bytes_done += judge_one(&mut judge, looked);
            match watch(bytes_done) {
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                ControlFlow::Break(()) => Err(Error::Stopped),
            }
        },
    )?;
    Ok(judge.finish())
}

/// Approximate size of findings in bytes.
const FINDINGS_SIZE: usize = 64 << 10;

/// Work from the reading thread.
enum Step {
    Unreadable { name: String, error: logs::Error },
    Work(Work),
}

/// Result of a worker.
enum Looked {
    Unreadable { name: String, error: logs::Error },
    Begins { name: String },
    Piece { kind: LogKind, findings: Findings },
    Broken { offset: u64, error: logs::Error, resumed: Option<u64> },
    Ends { kind: LogKind, end: End, position: u64 },
}

fn read(
    readers: impl Iterator<Item = (String, Result<LogReader, logs::Error>)>,
    cut: Cut,
    feed: &Feed<'_, Step>,
) -> Result<(), Error> {
    let mut log = 0;
    for (name, reader) in readers {
        match reader {
            Ok(reader) => {
                log = walk(reader, log, cut, OnDamage::Resume, &mut |work, bytes| {
                    Ok(feed.push(Step::Work(work), bytes)?)
                })?;
            }
            Err(error) => feed.push(Step::Unreadable { name, error }, 0)?,
        }
    }
    Ok(())
}

fn look(step: Step, opener: &mut PayloadOpener) -> Looked {
    let work = match step {
        Step::Unreadable { name, error } => return Looked::Unreadable { name, error },
        Step::Work(work) => work,
    };
    match work {
        Work::Begins { name } => Looked::Begins { name: name.to_string() },
        Work::Chunk { origin, chunk, carry } => {
            Looked::Piece { kind: origin.kind, findings: check::chunk(&chunk, &carry, origin, opener) }
        }
        Work::Inside(inside) => Looked::Piece { kind: inside.origin.kind, findings: check::inside(&inside) },
        Work::PayloadEnds(ends) => {
            Looked::Piece { kind: ends.origin.kind, findings: check::payload_end(&ends) }
        }
        Work::Broken { offset, error, resumed } => Looked::Broken { offset, error, resumed },
        Work::Ends { origin, end, position } => Looked::Ends { kind: origin.kind, end, position },
    }
}

/// Judges one result. Returns the bytes of logs that it covers.
fn judge_one(judge: &mut Judge, looked: Looked) -> u64 {
    match looked {
        Looked::Unreadable { name, error } => judge.unreadable(&name, &error),
        Looked::Begins { name } => judge.begins(&name),
        Looked::Piece { kind, findings } => {
            let bytes = findings.bytes;
            judge.piece(kind, findings);
            return bytes;
        }
        Looked::Broken { offset, error, resumed } => judge.broken(offset, error, resumed),
        Looked::Ends { kind, end, position } => judge.ends(kind, end, position),
    }
    0
}
