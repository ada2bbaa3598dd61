//! Streaming of whole logs.

use std::ops::ControlFlow;

use binlog::{Event as Body, EventType, PayloadOpener};
use logs::{
    EndOfLog, EventWalk, LogReader, LogWalk, PieceReader, PieceSizes, ReadOutcome, WalkEvent, WalkStep,
};

use crate::ddl_schema::DdlSchema;
use crate::error::StreamError;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::statement_effect;
use crate::streamer::{StreamInput, Streamer};

/// Bytes per read.
pub(crate) const CHUNK_SIZE: usize = 1 << 20;

/// Size in bytes above which a payload event is decompressed while it is read. Bounds memory.
pub(crate) const LARGE_PAYLOAD_SIZE: usize = 16 << 20;

/// Boundary after a transaction.
#[derive(Debug)]
pub struct TransactionBoundary<'b> {
    /// Position at which a run can resume.
    pub token: &'b ResumeToken,
    /// Offset of the boundary, in bytes from the log's start.
    pub end: u64,
    /// Output with the records so far.
    pub output: &'b mut RecordSink,
}

/// Callbacks of [`stream_log`].
pub struct StreamHooks<'w> {
    /// Returns the current time, in nanoseconds since 1970.
    pub now_ns: &'w dyn Fn() -> u64,
    /// Called after each transaction; `Break` ends the run there.
    pub on_boundary: &'w mut dyn FnMut(TransactionBoundary<'_>) -> Result<ControlFlow<()>, StreamError>,
}

/// Returns a walk over a log for [`stream_log`], from the reader's position on.
pub fn new_stream_walk(reader: LogReader) -> LogWalk {
    let sizes = PieceSizes { chunk_size: CHUNK_SIZE, large_size: LARGE_PAYLOAD_SIZE };
    LogWalk::new(PieceReader::new(reader, sizes, PayloadOpener::new()), EventWalk::default())
}

/// Streams the changes of one log. Returns how the log ends, or `None` if a callback ended the run.
///
/// # Errors
///
/// Fails if the log cannot be read, is corrupt, or contains changes that cannot be streamed, or if a callback fails.
pub fn stream_log(
    walk: &mut LogWalk,
    name: &mut String,
    streamer: &mut Streamer,
    output: &mut RecordSink,
    watch: &mut StreamHooks<'_>,
) -> Result<Option<EndOfLog>, StreamError> {
    let mut next_name = None;
    // The time is read once a chunk.
    let (mut now_ns, mut read_to) = (0, None);
    loop {
        let position = walk.reader().position();
        let step = match walk.next()? {
            ReadOutcome::End(end) => return Ok(Some(end)),
            ReadOutcome::Some(step) => step,
        };
        if read_to != Some(position) {
            (now_ns, read_to) = ((watch.now_ns)(), Some(position));
        }
        let end = match &step {
            WalkStep::Event(event) => {
                if event.inner.is_none() {
                    follow_log_names(event, name, &mut next_name);
                    event.raw.verify().map_err(|error| corrupt(name, event.offset, &error))?;
                }
                event.end
            }
            WalkStep::LargePayload(head) => head.end(),
            WalkStep::PayloadEnd(ended) => ended.end,
        };
        if let Some(token) = streamer.take_step(&step, StreamInput { log: name, now_ns }, output)?
            && (watch.on_boundary)(TransactionBoundary { token: &token, end, output })?.is_break()
        {
            return Ok(None);
        }
    }
}

/// Follows the names of concatenated logs: the rotate event at the end of each names the next.
pub fn follow_log_names(event: &WalkEvent<'_>, name: &mut String, next_name: &mut Option<String>) {
    match event.raw.event_type() {
        EventType::FormatDescription => *name = next_name.take().unwrap_or_else(|| name.clone()),
        EventType::Rotate => {
            if let Ok(Body::Rotate(rotate)) = event.raw.decode(event.format) {
                *next_name = Some(String::from_utf8_lossy(rotate.file).into_owned());
            }
        }
        _ => {}
    }
}

/// Applies the DDL statements of a log, from the reader's position up to `until`, or to the log's end.
///
/// # Errors
///
/// Fails if the log cannot be read.
pub fn apply_log_ddl(
    reader: &mut LogReader,
    definitions: &mut DdlSchema,
    until: Option<u64>,
) -> Result<(), StreamError> {
    while until.is_none_or(|until| reader.position() < until) {
        let raw = match reader.next_event()? {
            ReadOutcome::End(_) => break,
            ReadOutcome::Some(event) if event.raw.event_type() == EventType::Query => event.raw.to_buf(),
            ReadOutcome::Some(_) => continue,
        };
        let raw = raw.as_raw();
        if let Some(format) = reader.format()
            && let Ok(Body::Query(query)) = raw.decode(format)
        {
            statement_effect::apply_ddl(definitions, &query, format);
        }
    }
    Ok(())
}

fn corrupt(log: &str, offset: u64, reason: &dyn std::fmt::Display) -> StreamError {
    StreamError::Corrupt { log: log.to_owned(), offset, reason: reason.to_string() }
}
