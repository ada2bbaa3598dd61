//! Streaming of whole logs.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::events::TransactionPayload;
use binlog::{Event as Body, EventFormat, EventType, NextPosition, PayloadOpener, RawEvent};
use logs::{EndOfLog, EventChunk, LargePayload, LogPiece, LogReader, ReadOutcome};

use crate::ddl_schema::DdlSchema;
use crate::error::StreamError;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::statement_effect;
use crate::streamer::{StreamEvent, Streamer};

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

/// Streams the changes of one log, from the reader's position on. Returns how the log ends, or `None` if a callback
/// ended the run.
///
/// # Errors
///
/// If the log cannot be read, is corrupt, or contains changes that cannot be streamed, or if a callback fails.
pub fn stream_log(
    reader: &mut LogReader,
    name: &mut String,
    streamer: &mut Streamer,
    output: &mut RecordSink,
    watch: &mut StreamHooks<'_>,
) -> Result<Option<EndOfLog>, StreamError> {
    let mut opener = PayloadOpener::new();
    let mut next_name = None;
    loop {
        let ended = match reader.next_piece(CHUNK_SIZE, LARGE_PAYLOAD_SIZE)? {
            ReadOutcome::End(end) => return Ok(Some(end)),
            ReadOutcome::Some(LogPiece::Chunk(chunk)) => {
                take_chunk(&chunk, (name, &mut next_name), streamer, output, watch)?
            }
            ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                let end = payload.end();
                let token = take_large_payload(payload, name, streamer, output, (&mut opener, watch.now_ns))?;
                (watch.on_boundary)(TransactionBoundary { token: &token, end, output })?
            }
        };
        if ended.is_break() {
            return Ok(None);
        }
    }
}

/// Applies the DDL statements of a log, from the reader's position up to `until`, or to the log's end.
///
/// # Errors
///
/// If the log cannot be read.
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

fn take_chunk(
    chunk: &EventChunk,
    (name, next_name): (&mut String, &mut Option<String>),
    streamer: &mut Streamer,
    output: &mut RecordSink,
    watch: &mut StreamHooks<'_>,
) -> Result<ControlFlow<()>, StreamError> {
    let now_ns = (watch.now_ns)();
    for event in chunk.iter() {
        match event.raw.event_type() {
            // Concatenated logs: the rotate event at the end of each names the next.
            EventType::FormatDescription => *name = next_name.take().unwrap_or_else(|| name.clone()),
            EventType::Rotate => {
                if let Ok(Body::Rotate(rotate)) = event.raw.decode(chunk.format()) {
                    *next_name = Some(String::from_utf8_lossy(rotate.file).into_owned());
                }
            }
            _ => {}
        }
        let at =
            StreamEvent { log: name, offset: event.offset, raw: event.raw, format: chunk.format(), now_ns };
        verify(&at)?;
        if let Some(token) = streamer.take(&at, output)?
            && (watch.on_boundary)(TransactionBoundary { token: &token, end: event.end(), output })?
                .is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn verify(event: &StreamEvent<'_>) -> Result<(), StreamError> {
    event.raw.verify().map_err(|error| corrupt(event.log, event.offset, &error))
}

fn corrupt(log: &str, offset: u64, reason: &dyn std::fmt::Display) -> StreamError {
    StreamError::Corrupt { log: log.to_owned(), offset, reason: reason.to_string() }
}

/// Streams a transaction whose payload is too large for memory.
fn take_large_payload(
    payload: LargePayload<'_>,
    name: &str,
    streamer: &mut Streamer,
    output: &mut RecordSink,
    (opener, now_ns): (&mut PayloadOpener, &dyn Fn() -> u64),
) -> Result<ResumeToken, StreamError> {
    let (offset, end, format) = (payload.offset(), payload.end(), Arc::clone(payload.format()));
    // The grammar tracker gets an event with an empty payload instead.
    let stand_in = empty_payload_event(&payload, &format).map_err(|reason| corrupt(name, offset, &reason))?;
    let raw = RawEvent::new(&stand_in, format.checksum.for_events())
        .map_err(|error| corrupt(name, offset, &error))?;
    let event = StreamEvent { log: name, offset, raw, format: &format, now_ns: now_ns() };
    let large = streamer.begin_payload(&event, end, payload.fields().uncompressed_size)?;
    let inner_format = format.inside_payload();
    let (mut events, mut bytes) = (payload.open(opener)?, Vec::new());
    while events.next_chunk(CHUNK_SIZE, &mut bytes)? > 0 {
        let mut rest = bytes.as_slice();
        while let Some((raw, behind)) = RawEvent::split_first(rest, binlog::EventChecksum::Absent) {
            let inner = StreamEvent { raw, format: &inner_format, ..event };
            streamer.take_inside(&inner, &large, output)?;
            rest = behind;
        }
        bytes.clear();
    }
    events.finish()?.checksum.map_err(|error| corrupt(name, offset, &error))?;
    streamer.end_payload(&event, &large, output)
}

/// Returns a payload event with the same header and an empty payload.
pub(crate) fn empty_payload_event(
    payload: &LargePayload<'_>,
    format: &EventFormat,
) -> Result<Vec<u8>, String> {
    let (mut fields, mut bytes) = (Vec::new(), Vec::new());
    let nothing = Body::TransactionPayload(TransactionPayload::zstd(0, &[], &mut fields));
    let written = nothing.write(payload.header().origin(), NextPosition::Fixed(0), format, &mut bytes);
    written.map_err(|error| error.to_string())?;
    Ok(bytes)
}
