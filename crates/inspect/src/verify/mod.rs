//! Verifies logs: checksums, framing, grammar, positions, GTIDs, logical clocks, every row, every payload.

mod chunk_checker;
mod fault;
mod fields;
mod findings;
mod format;
mod log_judge;
mod missing_logs;
mod report;
mod rows;
mod tail_repair;

use std::ops::ControlFlow;

use logs::ordered::{ItemSender, PipelineLimits, run_ordered};
use logs::{EndOfLog, EventWalk, LogKind, LogReader, PieceSizes};

pub use fault::{FaultKind, LogFault, LogRemark};
pub use missing_logs::MissingLogs;
pub use report::{LogVerdict, UnreadableLog, VerifyReport, VerifyVerdict};
pub use tail_repair::{RepairError, TailRepair, repair_tail};

use crate::error::InspectError;
use crate::log_pieces::{OnDamage, PIECE_SIZES, PieceContent, read_pieces};
use findings::PieceFindings;
use log_judge::LogJudge;

/// Log to verify.
#[derive(Debug)]
pub struct VerifyInput {
    /// The name as given by the user.
    pub name: String,
    /// Reader of the log, or the reason why it cannot be opened.
    pub reader: Result<LogReader, logs::LogError>,
    /// Relation to the log before it.
    pub order: LogOrder,
}

/// Relation of a log to the log that is verified before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogOrder {
    /// The user gave the logs one by one: logs between them may exist.
    #[default]
    Unknown,
    /// A directory or an index lists the two logs directly after each other: logs between them are missing.
    Listed,
}

/// Maximum bytes of pieces that wait to be checked.
const WAITING_SIZE_MAX: usize = 16 << 20;

/// Verifies logs, in the order given. Logs that follow each other by their names are also compared with each other.
/// Logs that are missing in a directory or an index are faults, unless GTIDs show that they had no transactions. Calls
/// `on_progress` with the bytes checked so far. If `on_progress` breaks, returns [`InspectError::Stopped`].
///
/// # Errors
///
/// Fails if the caller stops the check ([`InspectError::Stopped`]). All faults of the logs are in the verdicts.
pub fn verify(
    inputs: impl IntoIterator<Item = VerifyInput, IntoIter: Send>,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<VerifyReport, InspectError> {
    verify_in_pieces(inputs, PIECE_SIZES, on_progress)
}

fn verify_in_pieces(
    inputs: impl IntoIterator<Item = VerifyInput, IntoIter: Send>,
    sizes: PieceSizes,
    on_progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<VerifyReport, InspectError> {
    let inputs = inputs.into_iter();
    let mut judge = LogJudge::default();
    let mut bytes_done = 0;
    run_ordered(
        PipelineLimits::with_bytes(WAITING_SIZE_MAX),
        |feed: &ItemSender<'_, VerifyTask>| read(inputs, sizes, feed),
        || EventWalk::new(OnDamage::Resume.opener()),
        |walk, step, sender| Ok(sender.push(check_task(step, walk), FINDINGS_COST)?),
        |checked| {
            bytes_done += judge_one(&mut judge, checked);
            match on_progress(bytes_done) {
                ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
                ControlFlow::Break(()) => Err(InspectError::Stopped),
            }
        },
    )?;
    Ok(judge.finish())
}

/// Approximate size of findings in bytes.
const FINDINGS_COST: usize = 64 << 10;

/// Work from the reading thread.
enum VerifyTask {
    /// Relation of the next log to the log before it.
    Order(LogOrder),
    Unreadable {
        name: String,
        error: logs::LogError,
    },
    Work(PieceContent),
}

/// Result of a worker.
enum CheckResult {
    Order(LogOrder),
    Unreadable { name: String, error: logs::LogError },
    Begins { name: String },
    Piece { kind: LogKind, findings: PieceFindings },
    Broken { offset: u64, error: logs::LogError, resumed: Option<u64> },
    Ends { kind: LogKind, end: EndOfLog, position: u64 },
}

fn read(
    inputs: impl Iterator<Item = VerifyInput>,
    sizes: PieceSizes,
    feed: &ItemSender<'_, VerifyTask>,
) -> Result<(), InspectError> {
    let mut log = 0;
    for VerifyInput { name, reader, order } in inputs {
        match reader {
            Ok(reader) => {
                feed.push(VerifyTask::Order(order), 0)?;
                log = read_pieces(reader, log, sizes, OnDamage::Resume, &mut |work, bytes| {
                    Ok(feed.push(VerifyTask::Work(work), bytes)?)
                })?;
            }
            Err(error) => feed.push(VerifyTask::Unreadable { name, error }, 0)?,
        }
    }
    Ok(())
}

fn check_task(step: VerifyTask, walk: &mut EventWalk) -> CheckResult {
    let work = match step {
        VerifyTask::Order(order) => return CheckResult::Order(order),
        VerifyTask::Unreadable { name, error } => return CheckResult::Unreadable { name, error },
        VerifyTask::Work(work) => work,
    };
    match work {
        PieceContent::LogStart { name } => CheckResult::Begins { name: name.to_string() },
        PieceContent::Events(events) => CheckResult::Piece {
            kind: events.origin.kind,
            findings: chunk_checker::check_events(&events, walk),
        },
        PieceContent::Unreadable { offset, error, resumed } => CheckResult::Broken { offset, error, resumed },
        PieceContent::LogEnd { origin, end, position } => {
            CheckResult::Ends { kind: origin.kind, end, position }
        }
    }
}

/// Judges one result. Returns the number of log bytes that the result covers.
fn judge_one(judge: &mut LogJudge, checked: CheckResult) -> u64 {
    match checked {
        CheckResult::Order(order) => judge.set_order(order),
        CheckResult::Unreadable { name, error } => judge.open_failed(&name, &error),
        CheckResult::Begins { name } => judge.start_log(&name),
        CheckResult::Piece { kind, findings } => {
            let bytes = findings.bytes;
            judge.judge_piece(kind, findings);
            return bytes;
        }
        CheckResult::Broken { offset, error, resumed } => judge.log_unreadable(offset, error, resumed),
        CheckResult::Ends { kind, end, position } => judge.end_log(kind, end, position),
    }
    0
}
