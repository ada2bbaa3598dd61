//! Follows a running server's log and writes records until the first Ctrl-C, over lost connections.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use binlog::{DecodeError, EventFormat, EventType, MAGIC};
use logs::{LogEvent, is_file_name};
use receive::start_after;
use servers::{
    ConnectionError, GtidMode, LinkOptions, LiveSource, ServerAddress, ServerFacts, SqlConnection,
};
use sql::UnmatchedRules;
use sql::quote::quote_text;
use stream::{
    RecordSink, ResumePosition, ResumeToken, StreamError, StreamGtidState, StreamGtids, StreamInput,
    StreamSettings, Streamer,
};
use tracing::{info, warn};
use wire::{ReplicaEnd, ReplicaOptions, ReplicaStart, SemiSync, SourceEvent};

use crate::column_name_source::{ColumnNameSource, warn_of_names};
use crate::commands::stream::heartbeat_timer::HeartbeatTimer;
use crate::commands::stream::log_stream::{ProgressSaver, failed, finished, now_ns};
use crate::commands::stream::snapshot::incremental::IncrementalSnapshots;
use crate::commands::stream::stream_metrics::SharedStreamFigures;
use crate::commands::stream::{snapshot, stdout_reader};
use crate::commands::table_args::warn_unmatched;
use crate::exit::{CommandFailure, CommandResult, ErrorAdvice};
use crate::interrupt;
use crate::units::duration;

/// Minimum and maximum pause before another attempt to reach a lost source.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Interval at which blocking waits poll for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Advice if a run cannot be resumed.
const START_OVER_ADVICE: &str = "start over with another --progress or --out (Kafka: another --name)";

/// Advice if the source no longer has the position: another attempt is useless.
const LOGS_GONE_ADVICE: &str = "run SHOW BINARY LOGS on it to list its logs; if the logs were purged, start over with \
    another --progress or --out (Kafka: another --name), and with --snapshot for the rows that were changed in the \
    meantime";

/// Server and settings of a followed log.
pub(super) struct LiveStream {
    pub(super) address: ServerAddress,
    pub(super) settings: StreamSettings,
    pub(super) server_id: u32,
    pub(super) end: ReplicaEnd,
    /// Set if records are written to standard output.
    pub(super) is_piped: bool,
    /// Set if the present rows of all tables are written first.
    pub(super) snapshot: bool,
    /// Source of column names that the log does not have.
    pub(super) schema: ColumnNameSource,
    /// Rules of the filter that have matched nothing on any connection.
    pub(super) unmatched: UnmatchedRules,
    pub(super) figures: SharedStreamFigures,
    /// True from the loss of a connection to the next connection.
    pub(super) is_lost: bool,
    /// Heartbeats in Kafka, if they are chosen.
    pub(super) heartbeats: Option<HeartbeatTimer>,
    /// Snapshots on request, if there may be any.
    pub(super) incremental: Option<IncrementalSnapshots>,
}

/// Position to resume from, and the transactions whose records are already written.
#[derive(Clone, Debug, Default)]
pub(super) struct ResumePoint {
    pub(super) token: Option<ResumeToken>,
    pub(super) gtid_state: Option<StreamGtidState>,
}

/// Output of a run, and the point to resume from.
pub(super) struct ResumedOutput {
    pub(super) output: RecordSink,
    pub(super) resume: ResumePoint,
}

/// Reason for the end of a connection.
enum StreamDisconnect {
    /// The source is unreachable, possibly temporarily.
    Lost(ConnectionError),
    /// The source refuses to send its log from the requested start.
    Refused(ConnectionError),
    /// The run is to end.
    Cancelled,
    /// A permanent error.
    Failed(CommandFailure),
}

/// Writes the records of a server's logs, and follows new events.
pub(super) fn follow(live: &mut LiveStream, resumed: ResumedOutput) -> CommandResult {
    let ResumedOutput { mut output, mut resume } = resumed;
    let (mut pause, mut is_begun) = (BACKOFF_MIN, false);
    let cancel =
        if live.is_piped { stdout_reader::cancel_when_gone()? } else { interrupt::cancel_on_interrupt() };
    let is_resumed = resume.token.is_some();
    if live.snapshot && !is_resumed {
        match snapshot::take(&live.address, &live.settings, &mut output, &mut live.schema) {
            Ok(Some(taken)) => (resume, is_begun) = (taken, true),
            Ok(None) => return finished(Ok(()), output),
            Err(failure) => return finished(Err(failure), output),
        }
    }
    loop {
        let before = resume.token.clone();
        let options = LinkOptions { cancel: cancel.clone(), ..LinkOptions::default() };
        let ended = connection(live, &resume, &options, &mut output, &mut is_begun);
        live.figures.set_disconnected(match &ended {
            Err(StreamDisconnect::Lost(error)) => Some(error.to_string()),
            _ => None,
        });
        if let Some(token) = output.token() {
            resume = ResumePoint { token: Some(token.clone()), gtid_state: output.gtid_state().cloned() };
        }
        pause = if before == resume.token { (pause * 2).min(BACKOFF_MAX) } else { BACKOFF_MIN };
        match ended {
            Err(StreamDisconnect::Lost(error)) if is_begun => {
                live.is_lost = true;
                if !is_over(live) {
                    warn!("{error}; retrying in {}", duration(pause));
                }
                if let Err(error) = output.rewind() {
                    return finished(Err(failed(error.into())), output);
                }
                sleep_unless_over(live, pause);
            }
            Err(StreamDisconnect::Lost(error)) => {
                return finished(Err(CommandFailure::NotStarted(error.into())), output);
            }
            Err(StreamDisconnect::Failed(CommandFailure::Failed(error))) if !is_begun => {
                return finished(Err(CommandFailure::NotStarted(error)), output);
            }
            Err(StreamDisconnect::Failed(failure)) => return finished(Err(failure), output),
            Err(StreamDisconnect::Refused(_)) => unreachable!("ours: a connection explains a refusal"),
            Err(StreamDisconnect::Cancelled) => return finished(Ok(()), output),
            Ok(()) => {
                // A snapshot has already warned. Otherwise, rules may have matched in an earlier run, or may match
                // later.
                if !live.snapshot && !is_resumed && !is_over(live) {
                    warn_unmatched(&std::mem::take(&mut live.unmatched).into_rules(), "the logs");
                }
                return finished(Ok(()), output);
            }
        }
        if is_over(live) {
            return finished(Ok(()), output);
        }
    }
}

fn sleep_unless_over(live: &LiveStream, pause: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < pause && !is_over(live) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether the run must end: after Ctrl-C, or when the reader has closed the pipe.
fn is_over(live: &LiveStream) -> bool {
    interrupt::is_stop_requested() || live.is_piped && stdout_reader::is_gone()
}

/// Runs one connection until it ends. Sets `is_begun` when the server sends its log. If the server no longer has the log
/// at which the run resumes, connects again and resumes by GTIDs.
fn connection(
    live: &mut LiveStream,
    resume: &ResumePoint,
    options: &LinkOptions,
    output: &mut RecordSink,
    is_begun: &mut bool,
) -> Result<(), StreamDisconnect> {
    let SourceStart { server, start, by_gtids } = start(live, resume)?;
    output.follow(&server, resume.gtid_state.clone());
    if let Some(snapshots) = &mut live.incremental {
        snapshots.begin_connection(&server);
    }
    let mut ended = read_from(live, start, options, output, is_begun);
    if let (Err(StreamDisconnect::Refused(error)), Some(start)) = (&ended, by_gtids) {
        if let Some(token) = &resume.token {
            warn!("the source cannot resume at {token}: {error}; resuming after the saved GTIDs instead");
        }
        ended = read_from(live, start, options, output, is_begun);
    }
    match ended {
        Err(StreamDisconnect::Refused(error)) => Err(explain_error(error, resume)),
        ended => ended,
    }
}

/// Requests the log from a start, and reads it until the connection ends.
fn read_from(
    live: &mut LiveStream,
    start: ReplicaStart,
    options: &LinkOptions,
    output: &mut RecordSink,
    is_begun: &mut bool,
) -> Result<(), StreamDisconnect> {
    let opened = LiveSource::open(&live.address, options, replica_options(live, start));
    let mut source = opened.map_err(refusal_at_start)?;
    *is_begun = true;
    live.figures.set_connected();
    if std::mem::take(&mut live.is_lost) {
        info!("connected to the server at {}", live.address.endpoint());
    }
    // A new streamer drops the rest of an interrupted transaction.
    let mut streamer =
        live.schema.clone().attach_to(Streamer::new(live.settings.clone()).skipping(output.skip()));
    let ended = process_events(live, &mut source, &mut streamer, output);
    live.unmatched.retain_unmatched(streamer.unmatched_rules());
    if let Some(definitions) = streamer.definitions() {
        live.schema = ColumnNameSource::Log(definitions.clone());
    }
    ended
}

fn process_events(
    live: &mut LiveStream,
    source: &mut LiveSource,
    streamer: &mut Streamer,
    output: &mut RecordSink,
) -> Result<(), StreamDisconnect> {
    let (mut log, mut format) = (String::new(), None::<Arc<EventFormat>>);
    let mut saver = ProgressSaver::new(live.figures.clone());
    loop {
        write_due_heartbeat(live, output)?;
        if save_while_idle(live, source, streamer, output)?.is_break() {
            return Ok(());
        }
        let arrival = match source.next() {
            Ok(Some(next)) => next.arrival,
            Ok(None) if live.end == ReplicaEnd::LastEvent => return Ok(()),
            Ok(None) => {
                return Err(StreamDisconnect::Lost(ConnectionError::Lost {
                    endpoint: Some(live.address.endpoint()),
                    reason: "the server ended the stream, probably because it shuts down".to_owned(),
                }));
            }
            Err(ConnectionError::Cancelled) => return Ok(()),
            Err(error) if log.is_empty() => return Err(refusal_at_start(error)),
            Err(error) => return Err(error.into()),
        };
        let taken = match arrival {
            SourceEvent::File { file, position } => {
                let is_rotation = !log.is_empty() && streamer.open_transaction().is_none();
                log = log_name(file)?;
                if is_rotation {
                    output.mark_log_start(ResumePosition { log: log.clone(), position });
                }
                continue;
            }
            SourceEvent::Format { .. } => {
                format = source.reader().format().cloned().map(Arc::new);
                continue;
            }
            SourceEvent::Heartbeat { .. } | SourceEvent::Artificial(_) => continue,
            SourceEvent::Event { event, position } => {
                live.figures.set_event(event.header().timestamp);
                let format = format.as_ref().ok_or_else(|| {
                    StreamDisconnect::Failed(
                        anyhow!("the source sent an event before the first format description").into(),
                    )
                })?;
                process_event(streamer, output, &log, LogEvent { offset: position, raw: event }, format)?
            }
        };
        let Some(token) = taken else { continue };
        if saver.save_when_due(output, token).map_err(failed)?.is_break() {
            return Ok(());
        }
        advance_snapshots(live, source, streamer, output)?;
    }
}

/// Returns the name of a log, which is saved with the progress, one line per value.
fn log_name(file: &[u8]) -> Result<String, StreamDisconnect> {
    let log = String::from_utf8_lossy(file).into_owned();
    if is_file_name(file) && !log.contains(char::is_control) {
        return Ok(log);
    }
    let why = anyhow!("the source sent a log name that is not a file name: {log:?}");
    Err(StreamDisconnect::Failed(why.into()))
}

/// Advances the incremental snapshots, if there are any.
fn advance_snapshots(
    live: &mut LiveStream,
    source: &LiveSource,
    streamer: &mut Streamer,
    output: &mut RecordSink,
) -> Result<(), StreamDisconnect> {
    let Some(snapshots) = &mut live.incremental else { return Ok(()) };
    let (log, position) = (source.reader().file(), source.reader().position());
    let reached = ResumePosition { log: String::from_utf8_lossy(log).into_owned(), position };
    let advanced = snapshots.advance(streamer, output, &reached);
    advanced.map_err(|error| StreamDisconnect::Failed(failed(error)))
}

/// Writes a heartbeat if it is due.
fn write_due_heartbeat(live: &mut LiveStream, output: &mut RecordSink) -> Result<(), StreamDisconnect> {
    if !live.heartbeats.as_mut().is_some_and(|timer| timer.take_due(Instant::now())) {
        return Ok(());
    }
    let result = output.beat(&live.settings.name, now_ns());
    result.map_err(|error| StreamDisconnect::Failed(failed(error.into())))
}

/// Saves progress and advances snapshots while no event arrives. Returns `Break` after Ctrl-C.
fn save_while_idle(
    live: &mut LiveStream,
    source: &mut LiveSource,
    streamer: &mut Streamer,
    output: &mut RecordSink,
) -> Result<ControlFlow<()>, StreamDisconnect> {
    while !source.has_more()? {
        live.figures.set_caught_up(source.is_caught_up());
        advance_snapshots(live, source, streamer, output)?;
        let failed = |error: io::Error| StreamDisconnect::Failed(failed(error.into()));
        output.save().map_err(failed)?;
        output.poll().map_err(failed)?;
        // Wait only briefly: the reader may take records; brokers, heartbeats and snapshots may be due. Answers of the
        // snapshots' reader wait for the end of a transaction.
        let is_between = streamer.open_transaction().is_none() && output.is_between_transactions();
        let snapshots = live.incremental.as_ref().filter(|_| is_between);
        let waited = match snapshots.and_then(IncrementalSnapshots::wake) {
            Some(wake) => source.wait_briefly_or(wake),
            None => source.wait_briefly(),
        };
        match waited {
            Err(ConnectionError::Cancelled) => return Ok(ControlFlow::Break(())),
            is_readable => drop(is_readable?),
        }
        write_due_heartbeat(live, output)?;
    }
    Ok(ControlFlow::Continue(()))
}

fn process_event(
    streamer: &mut Streamer,
    output: &mut RecordSink,
    log: &str,
    event: LogEvent<'_>,
    format: &EventFormat,
) -> Result<Option<ResumeToken>, StreamDisconnect> {
    if matches!(event.raw.event_type(), EventType::PreviousGtids | EventType::MariadbGtidList) {
        let added = event.raw.decode(format).and_then(|head| output.begin_log(&head));
        added.map_err(|error| StreamDisconnect::Failed(failed(corrupt(log, event.offset, &error))))?;
    }
    let taken = streamer.take(event, format, StreamInput { log, now_ns: now_ns() }, output);
    warn_of_names(streamer);
    taken.map_err(|error| match error {
        // The server of the catalogue may be unreachable temporarily. Other errors of the catalogue are permanent.
        StreamError::Catalogue { ref cause, .. } => match cause.downcast_ref::<ConnectionError>() {
            Some(cause) if cause.is_transient() || matches!(cause, ConnectionError::Cancelled) => {
                StreamDisconnect::Lost(ConnectionError::lost(error.to_string()))
            }
            _ => StreamDisconnect::Failed(CommandFailure::NotStarted(error.into())),
        },
        error => StreamDisconnect::Failed(failed(error)),
    })
}

fn corrupt(log: &str, offset: u64, error: &DecodeError) -> StreamError {
    StreamError::Corrupt { log: log.to_owned(), offset, reason: error.to_string() }
}

/// Start of a connection.
struct SourceStart {
    /// Identity of the server.
    server: String,
    start: ReplicaStart,
    /// Start if the server no longer has the log of the position.
    by_gtids: Option<ReplicaStart>,
}

/// Returns the start in the server's log: the position where the last run ended. If that position is in another server's
/// log, returns the first transaction not yet written.
fn start(live: &LiveStream, resume: &ResumePoint) -> Result<SourceStart, StreamDisconnect> {
    let mut connection = SqlConnection::open(&live.address)?;
    let facts = ServerFacts::query(&mut connection)?;
    let server = server(&mut connection, &facts)?;
    let mut by_gtids = None;
    let start = match (&resume.token, &resume.gtid_state) {
        (None, _) => Ok(ReplicaStart::Position { file: Vec::new(), position: MAGIC.len() as u64 }),
        (Some(_), Some(gtid_state)) if gtid_state.server != server => {
            start_after_gtids(gtid_state, &facts, &server)
        }
        (Some(token), gtid_state) => {
            let found = gtids_at(&mut connection, token, gtid_state.as_ref())?;
            by_gtids = gtid_state.as_ref().and_then(|state| start_after_gtids(state, &facts, &server).ok());
            check_not_reset(gtid_state.as_ref(), &facts)
                .and_then(|()| check_same_log(token, gtid_state.as_ref(), found.as_deref()))
                .map(|()| start_at(token))
        }
    };
    let start = start.map_err(|error| StreamDisconnect::Failed(CommandFailure::NotStarted(error)))?;
    Ok(SourceStart { server, start, by_gtids })
}

/// Returns a server's name in the saved progress.
pub(super) fn server(connection: &mut SqlConnection, facts: &ServerFacts) -> Result<String, ConnectionError> {
    match facts.is_mariadb {
        true => Ok(connection.value("SELECT @@server_id")?.unwrap_or_default()),
        false => Ok(facts.uuid.clone()),
    }
}

/// Checks that the server still has the written transactions. After a reset, a log of the same name has other
/// transactions.
fn check_not_reset(gtid_state: Option<&StreamGtidState>, facts: &ServerFacts) -> Result<(), anyhow::Error> {
    let Some(StreamGtidState { gtids: Some(StreamGtids::Set(set)), .. }) = gtid_state else { return Ok(()) };
    let missing = set.difference(&facts.gtid_executed);
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the source no longer has the transactions {missing}, whose records were written: its logs were reset"
    );
    Err(anyhow!(message).context(ErrorAdvice(START_OVER_ADVICE)))
}

/// Returns the GTIDs of a MariaDB at a position; `None` if it does not have the position, or no GTIDs were written. Then the
/// dump reports an error.
fn gtids_at(
    connection: &mut SqlConnection,
    token: &ResumeToken,
    gtid_state: Option<&StreamGtidState>,
) -> Result<Option<String>, ConnectionError> {
    let Some(StreamGtidState { gtids: Some(StreamGtids::LastByDomain(_)), .. }) = gtid_state else {
        return Ok(None);
    };
    let ResumePosition { log, position } = &token.at;
    let sql = format!("SELECT BINLOG_GTID_POS({}, {position})", quote_text(log));
    Ok(connection.value(&sql)?.filter(|found| !found.is_empty()))
}

/// Checks that a MariaDB has the written GTIDs at the position. Its `server_id` does not identify its log: after a reset, or
/// on a replacement with the same `server_id`, a log of the same name has other transactions.
fn check_same_log(
    token: &ResumeToken,
    gtid_state: Option<&StreamGtidState>,
    found: Option<&str>,
) -> Result<(), anyhow::Error> {
    let written = gtid_state.and_then(|state| state.gtids.as_ref());
    let (Some(written), Some(found)) = (written, found) else { return Ok(()) };
    if StreamGtids::parse(found).is_none_or(|found| written.matches(&found)) {
        return Ok(());
    }
    let ResumePosition { log, position } = &token.at;
    let message = format!(
        "the source has the GTIDs {found} at {log}:{position}, but records were written up to {written}: its logs were \
         reset, or another server with the same server_id has replaced it"
    );
    Err(anyhow!(message).context(ErrorAdvice(START_OVER_ADVICE)))
}

fn start_at(token: &ResumeToken) -> ReplicaStart {
    ReplicaStart::Position { file: token.at.log.clone().into_bytes(), position: token.at.position }
}

/// Returns the start after the transactions of another server.
fn start_after_gtids(
    gtid_state: &StreamGtidState,
    facts: &ServerFacts,
    server: &str,
) -> Result<ReplicaStart, anyhow::Error> {
    let other =
        format!("records were written from server {}, but this is server {server}", gtid_state.server);
    let start_over = ErrorAdvice(START_OVER_ADVICE);
    // Without GTIDs, the server would send all of its logs.
    match gtid_state.gtids.as_ref().filter(|gtids| !gtids.is_empty()) {
        Some(last @ StreamGtids::LastByDomain(_)) if facts.is_mariadb => {
            Ok(ReplicaStart::MariadbGtids { state: last.to_string() })
        }
        Some(StreamGtids::Set(set)) if facts.gtid_mode == GtidMode::On => {
            let missing = set.difference(&facts.gtid_executed);
            match missing.is_empty() {
                true => Ok(start_after(set)),
                false => Err(anyhow!(
                    "{other}, which lacks transactions whose records were written: {missing}; it is not a replica \
                     of the other server, or lags behind"
                )
                .context(ErrorAdvice(
                    "wait until it has them, or start over with another --progress or --out (Kafka: another --name)",
                ))),
            }
        }
        Some(_) => Err(anyhow!("{other}, which has no GTIDs to resume by").context(start_over)),
        None => Err(anyhow!("{other}; without GTIDs, it is not known which transactions were written")
            .context(start_over)),
    }
}

fn replica_options(live: &LiveStream, start: ReplicaStart) -> ReplicaOptions {
    ReplicaOptions {
        server_id: live.server_id,
        uuid: String::new(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: live.address.heartbeat_interval(),
        semi_sync: SemiSync::Off,
        start,
        end: live.end,
    }
}

/// Returns the reason for an error before the first event of a connection.
fn refusal_at_start(error: ConnectionError) -> StreamDisconnect {
    match error.code() {
        Some(SOURCE_FATAL_ERROR_READING_BINLOG) => StreamDisconnect::Refused(error),
        _ => error.into(),
    }
}

/// Adds the requested position to an error of the source that refuses it.
fn explain_error(error: ConnectionError, resume: &ResumePoint) -> StreamDisconnect {
    match (error.code(), &resume.token) {
        (Some(SOURCE_FATAL_ERROR_READING_BINLOG), Some(token)) => {
            let message = format!("the source cannot resume at {token}");
            let error = anyhow::Error::from(error).context(message).context(ErrorAdvice(LOGS_GONE_ADVICE));
            StreamDisconnect::Failed(CommandFailure::NotStarted(error))
        }
        _ => error.into(),
    }
}

impl From<ConnectionError> for StreamDisconnect {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Cancelled => Self::Cancelled,
            error if error.is_transient() => Self::Lost(error),
            error => Self::Failed(CommandFailure::Failed(error.into())),
        }
    }
}

impl From<CommandFailure> for StreamDisconnect {
    fn from(failure: CommandFailure) -> Self {
        Self::Failed(failure)
    }
}
