//! A dump and its position in a form.

use std::sync::Arc;
use std::time::Instant;

use crate::dump_error::DumpError;
use crate::dump_piece::DumpPiece;
use crate::dump_session::{DumpOptions, DumpSession, DumpWait};
use crate::dump_start::{DumpMode, DumpStart, find_event};
use crate::form_reader::{FormReader, ReaderStep};
use crate::form_source::{FormSource, FormStart};
use crate::sent_transactions::SentTransaction;

/// One dump to one client: a [`FormReader`] and a [`DumpSession`].
#[derive(Debug)]
pub struct DumpStream {
    reader: FormReader,
    session: DumpSession,
    start: StreamStart,
    options: DumpOptions,
}

/// Start of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamStart {
    /// The store does not have this position of the reader's log yet.
    Ahead(u64),
    /// The format description is next, followed by this event.
    At(FormStart),
    /// The reader's position.
    Reader,
}

/// Result of [`DumpStream::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpStep {
    /// More events may be available.
    More,
    /// All available events are sent. Call again when the store has grown, or at this time.
    Wait {
        /// Time of the next heartbeat; `None` without heartbeats.
        until: Option<Instant>,
    },
    /// The dump ends: send an EOF packet.
    End,
}

impl DumpStream {
    /// Creates the dump of a form from a start that [`find_start`](crate::find_start) found.
    pub fn new(
        source: Arc<FormSource>,
        start: &DumpStart,
        mode: DumpMode,
        options: DumpOptions,
        now: Instant,
    ) -> Self {
        let reader = FormReader::new(source, Arc::clone(&start.log));
        let session = DumpSession::new(start, mode, options, now);
        let start = match start.event {
            None => StreamStart::Ahead(start.position),
            Some(FormStart::LOG_START) => StreamStart::Reader,
            Some(event) => StreamStart::At(event),
        };
        Self { reader, session, start, options }
    }

    /// Returns the session, which has the progress of the dump.
    pub const fn session(&self) -> &DumpSession {
        &self.session
    }

    /// Returns the reader, positioned after the last event that the session has taken.
    pub const fn reader(&self) -> &FormReader {
        &self.reader
    }

    /// Returns and removes the transactions sent since the last call.
    pub fn take_sent(&mut self) -> Vec<SentTransaction> {
        self.session.take_sent()
    }

    /// Appends the next packets to `out`, of at most one chunk.
    ///
    /// # Errors
    ///
    /// Fails with error 1236 and the server's message. This error ends the dump.
    pub fn next(&mut self, now: Instant, out: &mut Vec<DumpPiece>) -> Result<DumpStep, DumpError> {
        if let StreamStart::Ahead(position) = self.start {
            let (source, log) = (self.reader.source(), self.reader.log());
            match find_event(source, log, position, self.options.checksum)? {
                Some(event) => self.start = StreamStart::At(event),
                None => return Ok(self.session.take_ahead(now, out).into()),
            }
        }
        let step = self.reader.read_next().map_err(|error| self.session.take_error(error, now, out))?;
        match step {
            ReaderStep::Events { chunk, first } => {
                match std::mem::replace(&mut self.start, StreamStart::Reader) {
                    // The dump starts later in the log: only the format description of its first chunk is sent.
                    StreamStart::At(start) => {
                        self.session.take_events(&chunk, first..first + 1, now, out)?;
                        let (source, log) = (Arc::clone(self.reader.source()), Arc::clone(chunk.log()));
                        self.reader = FormReader::start_at(source, log, start);
                    }
                    StreamStart::Reader | StreamStart::Ahead(_) => {
                        self.session.take_events(&chunk, first..chunk.slices().len(), now, out)?;
                    }
                }
                Ok(if self.session.is_finished() { DumpStep::End } else { DumpStep::More })
            }
            ReaderStep::NextLog(next) => {
                self.session.take_next_log(next, now, out);
                Ok(DumpStep::More)
            }
            ReaderStep::Pending => Ok(self.session.take_pending(now, out).into()),
        }
    }
}

impl From<DumpWait> for DumpStep {
    fn from(wait: DumpWait) -> Self {
        match wait {
            DumpWait::Wait { until } => Self::Wait { until },
            DumpWait::End => Self::End,
        }
    }
}
