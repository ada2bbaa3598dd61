//! Export of whole logs: one thread decodes, another one writes.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use logs::{EndOfLog, LogReader, LogWalk, ReadOutcome, ThreadPanic, WalkStep};
use stream::new_stream_walk;

use crate::change_decoder::{BatchSink, ChangeBatch, ChangeDecoder, DecodeStep};
use crate::change_export::{ChangeExport, ExportCounts};
use crate::columns_error::ColumnsError;

/// Batches between the threads. Bounds memory.
const BATCHES_MAX: usize = 2;

/// A log to export.
#[derive(Debug)]
pub struct ExportLog {
    /// Name of the log, for the columns and the names of the files.
    pub name: String,
    /// Reader at its start.
    pub reader: LogReader,
}

/// Task of the thread that writes.
enum WriteTask {
    BeginLog(String),
    Batch(ChangeBatch),
    EndLog,
}

/// Exports logs, in the order given. `watch` is called with the number of bytes that were read of all logs; if it
/// breaks, the export ends with [`ColumnsError::Stopped`]. Returns the numbers of what was written.
///
/// # Errors
///
/// Fails if a log cannot be read or decoded, ends within a transaction or an event, or if a file cannot be written. The
/// files of the logs before it are complete.
pub fn export_logs(
    logs: impl Iterator<Item = Result<ExportLog, logs::LogError>>,
    decoder: &mut ChangeDecoder,
    export: ChangeExport,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ExportCounts, ColumnsError> {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    thread::scope(|scope| {
        let write = move || write_tasks(export, &receiver);
        let writer = scope.spawn(|| ThreadPanic::catch_in("writes Parquet files", write));
        let decoded = decode_logs(logs, decoder, &sender, watch);
        drop(sender);
        let written = writer.join().unwrap_or(Err(ColumnsError::Stopped));
        match (decoded, written) {
            // The decoder stops because the writer has failed.
            (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
            (Ok(()), Ok(counts)) => Ok(counts),
        }
    })
}

fn write_tasks(mut export: ChangeExport, tasks: &Receiver<WriteTask>) -> Result<ExportCounts, ColumnsError> {
    for task in tasks {
        match task {
            WriteTask::BeginLog(name) => export.begin_log(&name),
            WriteTask::Batch(batch) => export.write(&batch)?,
            WriteTask::EndLog => export.end_log()?,
        }
    }
    Ok(export.counts())
}

fn decode_logs(
    logs: impl Iterator<Item = Result<ExportLog, logs::LogError>>,
    decoder: &mut ChangeDecoder,
    tasks: &SyncSender<WriteTask>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ColumnsError> {
    let send = |task| tasks.send(task).map_err(|_| ColumnsError::Stopped);
    let mut bytes_before = 0;
    for log in logs {
        let ExportLog { name, reader } = log?;
        send(WriteTask::BeginLog(name.clone()))?;
        decoder.begin_log(&name);
        let mut bytes = 0;
        let mut watch = |position| {
            bytes = position;
            watch(bytes_before + position)
        };
        decode_log(reader, decoder, &mut |batch| send(WriteTask::Batch(batch)), &mut watch)?;
        bytes_before += bytes;
        send(WriteTask::EndLog)?;
    }
    Ok(())
}

/// Decodes one log.
///
/// # Errors
///
/// Fails if the log cannot be read or decoded, or ends within a transaction or an event, if `sink` fails, or if `watch`
/// breaks.
pub fn decode_log(
    reader: LogReader,
    decoder: &mut ChangeDecoder,
    sink: &mut BatchSink<'_>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), ColumnsError> {
    let mut changes = LogChanges::new(reader);
    let mut read_to = 0;
    loop {
        let position = changes.position();
        if position != read_to {
            read_to = position;
            if watch(position).is_break() {
                return Err(ColumnsError::Stopped);
            }
        }
        if changes.advance(decoder, sink)? == LogProgress::Ended {
            return Ok(());
        }
    }
}

/// Changes of one log, decoded as far as the caller wants.
#[derive(Debug)]
pub struct LogChanges {
    walk: LogWalk,
}

/// Result of decoding a piece of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogProgress {
    /// The log goes on.
    Continues,
    /// The log has ended, and all of its batches are delivered.
    Ended,
}

impl LogChanges {
    /// Starts at the start of a log.
    pub fn new(reader: LogReader) -> Self {
        Self { walk: new_stream_walk(reader) }
    }

    /// Returns the number of bytes of the log that were read.
    pub fn position(&self) -> u64 {
        self.walk.reader().position()
    }

    /// Decodes the next event, and delivers the batches that are complete.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read or decoded, or ends within a transaction or an event, or if `sink` fails.
    pub fn advance(
        &mut self,
        decoder: &mut ChangeDecoder,
        sink: &mut BatchSink<'_>,
    ) -> Result<LogProgress, ColumnsError> {
        let outcome = match self.walk.next()? {
            ReadOutcome::Some(step) => {
                verify(&step, decoder)?;
                decoder.take_step(&step, sink)?
            }
            ReadOutcome::End(EndOfLog::Torn(torn)) => {
                return Err(self.walk.reader().torn_error(torn).into());
            }
            ReadOutcome::End(_) => {
                decoder.end_log(sink)?;
                return Ok(LogProgress::Ended);
            }
        };
        if outcome == DecodeStep::SkipPayload {
            self.walk.skip_payload();
        }
        Ok(LogProgress::Continues)
    }
}

/// Verifies the checksum of an event. Events inside payloads have none.
fn verify(step: &WalkStep<'_>, decoder: &ChangeDecoder) -> Result<(), ColumnsError> {
    match step {
        WalkStep::Event(event) if event.inner.is_none() => {
            event.raw.verify().map_err(|error| decoder.corrupt(event.offset, error.to_string()))
        }
        _ => Ok(()),
    }
}
