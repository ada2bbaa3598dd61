//! Reads logs and writes records, until the end or the first Ctrl-C.

use std::io::ErrorKind::BrokenPipe;
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use logs::{EndOfLog, LogReader, RewritePositions, base_name};
use stream::{
    DdlSchema, RecordSink, ResumeToken, StreamHooks, StreamSettings, Streamer, TransactionBoundary,
    apply_log_ddl, new_stream_walk, seek, stream_log,
};
use tracing::warn;

use crate::column_name_source::{ColumnNameSource, warn_of_names};
use crate::commands::stream::live::ResumedOutput;
use crate::commands::stream::stdout_reader;
use crate::commands::stream::stream_metrics::SharedStreamFigures;
use crate::commands::table_args::warn_unmatched;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{InputLocation, InputLogs, LogListing, add_advice};

/// Interval at which progress is saved. Limits the repeated records after a crash.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Logs whose records are written.
pub(super) struct LogStreamInputs<'f> {
    pub(super) found: &'f InputLogs,
    pub(super) settings: StreamSettings,
    pub(super) schema: ColumnNameSource,
    pub(super) figures: SharedStreamFigures,
}

/// Progress of a run, saved at intervals.
pub(super) struct ProgressSaver {
    saved: Instant,
    figures: SharedStreamFigures,
}

/// Writes the records of all remaining logs.
pub(super) fn write_records(
    inputs: LogStreamInputs<'_>,
    resumed: ResumedOutput,
    global: &GlobalArgs,
) -> CommandResult {
    let LogStreamInputs { found, settings, mut schema, figures } = inputs;
    let (mut output, resume) = (resumed.output, resumed.resume.token);
    let locations = remaining_logs(found, resume.as_ref())?;
    check_gaps(found, found.locations.len() - locations.len(), output.saves_progress())?;
    if let (ColumnNameSource::Log(definitions), Some(token), None) =
        (&mut schema, &resume, saved_definitions(&output)?)
    {
        let before = &found.locations[..found.locations.len() - locations.len()];
        defined(found, before, &locations[0], token, definitions)?;
    }
    let streamer = schema.attach_to(Streamer::new(settings).skipping(output.skip()));
    let mut run = LogStreamRun { found, streamer, saver: ProgressSaver::new(figures) };
    let outcome = run.stream_logs(locations, resume.as_ref(), &mut output);
    // Otherwise, rules may have matched in the part read by an earlier run, or may match later.
    if outcome.is_ok() && resume.is_none() && !interrupt::is_stop_requested() && !global.quiet {
        warn_unmatched(&run.streamer.unmatched_rules().clone().into_rules(), "the logs");
    }
    finished(outcome, output)
}

/// Returns the table definitions that were saved with the progress, if there are any.
pub(super) fn saved_definitions(output: &RecordSink) -> Result<Option<DdlSchema>, CommandFailure> {
    let read_schema =
        output.read_schema().context("could not read the table definitions saved with the progress");
    read_schema.map_err(CommandFailure::NotStarted)
}

/// Reads the table definitions before the position `token`: of the logs `before`, and of the start of `log`.
fn defined(
    found: &InputLogs,
    before: &[InputLocation],
    log: &InputLocation,
    token: &ResumeToken,
    definitions: &mut DdlSchema,
) -> Result<(), CommandFailure> {
    for location in before {
        let mut reader = found.open(location).map_err(|error| CommandFailure::Failed(add_advice(error)))?;
        apply_log_ddl(&mut reader, definitions, None).map_err(failed)?;
    }
    if let InputLocation::File(_) = log {
        let (mut reader, positions) = open(found, log)?;
        let until = match positions {
            Some(mut positions) => {
                positions.seek_original(token.at.position).map_err(|error| failed(error.into()))?;
                positions.to_rewritten(token.at.position)
            }
            None => token.at.position,
        };
        apply_log_ddl(&mut reader, definitions, Some(until)).map_err(failed)?;
    }
    Ok(())
}

/// Ends the output, and returns the result of the run. Saves written records even after a failure.
pub(super) fn finished(streamed: Result<(), CommandFailure>, mut output: RecordSink) -> CommandResult {
    let disk_remedy = if output.saves_progress() { FREE_DISK_SPACE_TO_RESUME } else { FREE_DISK_SPACE };
    if streamed.is_err() {
        // Unreachable brokers must not delay the error for long: after a stop request, the wait for them is limited.
        interrupt::request_stop();
    }
    let drained = stdout_reader::drain(&mut output);
    let finished = match streamed {
        Ok(()) => drained.and_then(|()| output.finish()),
        Err(_) => drained,
    };
    match (streamed, finished) {
        (Err(failure), _) => Err(with_disk_remedy(failure, disk_remedy)),
        (Ok(()), Err(error)) => Err(with_disk_remedy(failed(error.into()), disk_remedy)),
        (Ok(()), Ok(())) => Ok(CommandVerdict::Success),
    }
}

/// Returns the remaining logs.
fn remaining_logs<'f>(
    found: &'f InputLogs,
    resume: Option<&ResumeToken>,
) -> Result<&'f [InputLocation], CommandFailure> {
    let Some(token) = resume else { return Ok(&found.locations) };
    let first = found.locations.iter().position(|location| name(location) == token.at.log);
    match first {
        Some(first) => Ok(&found.locations[first..]),
        None => Err(CommandFailure::NotStarted(anyhow!(
            "cannot resume: the resume position is in {}, which is not among the logs: give this log, too",
            token.at.log
        ))),
    }
}

/// Checks for missing logs after the log with the number `first`. If progress is saved, their records could not be
/// written later, so logs of a directory or index must be complete.
fn check_gaps(found: &InputLogs, first: usize, saves_progress: bool) -> Result<(), CommandFailure> {
    for gap in found.gaps().iter().filter(|gap| gap.next > first) {
        if saves_progress && gap.listing == LogListing::Index {
            let error = anyhow!("{gap}: no later run could write the records of missing logs");
            return Err(CommandFailure::NotStarted(error.context(ErrorAdvice(
                "give the missing logs; to leave them out, give each log by its name",
            ))));
        }
        warn!("{gap}: their records are not written");
    }
    Ok(())
}

/// Returns the log's name on its server: the last part of its path.
fn name(location: &InputLocation) -> String {
    match location {
        InputLocation::File(path) => base_name(path),
        InputLocation::Stdin => "-".to_owned(),
    }
}

/// Inputs of a run over logs, and its progress.
struct LogStreamRun<'f> {
    found: &'f InputLogs,
    streamer: Streamer,
    saver: ProgressSaver,
}

impl LogStreamRun<'_> {
    fn stream_logs(
        &mut self,
        locations: &[InputLocation],
        resume: Option<&ResumeToken>,
        output: &mut RecordSink,
    ) -> Result<(), CommandFailure> {
        let Self { found, streamer, saver } = self;
        let mut boundary =
            |boundary: TransactionBoundary<'_>| saver.save_when_due(boundary.output, boundary.token.clone());
        for (index, location) in locations.iter().enumerate() {
            let (mut reader, mut positions) = open(found, location)?;
            if let Some(token) = resume.filter(|_| index == 0) {
                seek(&mut reader, token, positions.as_mut()).map_err(failed)?;
            }
            streamer.begin_log(positions);
            let mut watch = StreamHooks { now_ns: &now_ns, on_boundary: &mut boundary };
            let mut name = name(location);
            let mut walk = new_stream_walk(reader);
            let ended = stream_log(&mut walk, &mut name, streamer, output, &mut watch);
            warn_of_names(streamer);
            let ended = ended.map_err(failed)?;
            match ended {
                None => return Ok(()),
                Some(EndOfLog::Torn(torn)) => {
                    return Err(CommandFailure::Failed(add_advice(walk.reader().torn_error(torn))));
                }
                Some(_) => {}
            }
            if let Some(open) = streamer.open_transaction() {
                return Err(failed(stream::StreamError::TornTransaction { log: name, start: open.position }));
            }
        }
        Ok(())
    }
}

/// Opens a log. If the log was rewritten in place, also opens the lists of old positions.
fn open(
    found: &InputLogs,
    location: &InputLocation,
) -> Result<(LogReader, Option<RewritePositions>), CommandFailure> {
    let opened = || -> Result<_, logs::LogError> {
        let reader = found.open(location)?;
        // The list is written before its log, and contains the log's size.
        let positions = match (location, reader.size()?) {
            (InputLocation::File(path), Some(size)) => RewritePositions::open(path, size)?,
            _ => None,
        };
        Ok((reader, positions))
    };
    opened().map_err(|error| CommandFailure::Failed(add_advice(error)))
}

impl ProgressSaver {
    pub(super) fn new(figures: SharedStreamFigures) -> Self {
        Self { saved: Instant::now(), figures }
    }

    /// Marks the end of a transaction, and saves progress if it is due. `Break` after Ctrl-C.
    pub(super) fn save_when_due(
        &mut self,
        output: &mut RecordSink,
        token: ResumeToken,
    ) -> Result<ControlFlow<()>, stream::StreamError> {
        self.figures.count_transaction(&token.at);
        output.mark(token);
        let is_interrupted = interrupt::is_stop_requested();
        if is_interrupted || output.is_save_due() || self.saved.elapsed() >= SAVE_INTERVAL {
            output.save()?;
            self.saved = Instant::now();
        }
        Ok(if is_interrupted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Remedy for a full disk, without and with saved progress.
const FREE_DISK_SPACE: &str = "free disk space and run the command again";
const FREE_DISK_SPACE_TO_RESUME: &str =
    "free disk space and run the command again: it resumes where it stopped";

/// Adds the remedy to an error of a full disk.
fn with_disk_remedy(failure: CommandFailure, remedy: &'static str) -> CommandFailure {
    let with_remedy = |error: anyhow::Error| match error.downcast_ref() {
        Some(stream::StreamError::Write(cause)) if logs::is_disk_full(cause) => {
            error.context(ErrorAdvice(remedy))
        }
        _ => error,
    };
    match failure {
        CommandFailure::Failed(error) => CommandFailure::Failed(with_remedy(error)),
        CommandFailure::NotStarted(error) => CommandFailure::NotStarted(with_remedy(error)),
        other => other,
    }
}

pub(super) fn failed(error: stream::StreamError) -> CommandFailure {
    CommandFailure::Failed(match error {
        stream::StreamError::Log(error) => add_advice(error),
        stream::StreamError::Write(error) if error.kind() == BrokenPipe => error.into(),
        error => error.into(),
    })
}

#[cfg(all(test, feature = "archive"))]
mod tests {
    use std::io;

    use super::{FREE_DISK_SPACE, FREE_DISK_SPACE_TO_RESUME, failed, with_disk_remedy};
    use crate::exit::failure_message;

    #[test]
    fn a_full_disk_promises_to_resume_only_with_saved_progress() {
        let full = || failed(stream::StreamError::Write(io::Error::from_raw_os_error(28)));
        let check = |remedy, expected: &str| {
            let line = failure_message(&with_disk_remedy(full(), remedy));
            assert!(line.ends_with(expected), "{line}");
        };
        check(FREE_DISK_SPACE, "; free disk space and run the command again");
        check(FREE_DISK_SPACE_TO_RESUME, "run the command again: it resumes where it stopped");
    }
}
