//! Position of one client in a form.

use std::sync::Arc;

use crate::error::RelayError;
use crate::form_chunk::FormChunk;
use crate::form_source::{FormRead, FormSource, FormStart};

/// Position of one client in a form. It has no buffers.
#[derive(Clone, Debug)]
pub struct FormReader {
    source: Arc<FormSource>,
    log: Arc<str>,
    position: u64,
    /// Stamp of the log, once a chunk was read.
    stamp: Option<u32>,
}

/// Result of [`FormReader::read_next`].
#[derive(Clone, Debug)]
pub enum ReaderStep {
    /// Events, from this slice of the chunk on.
    Events {
        /// Chunk with the events.
        chunk: Arc<FormChunk>,
        /// Index of the first slice to use.
        first: usize,
    },
    /// The log has ended; this is the next log.
    NextLog(Arc<str>),
    /// No more events are available yet.
    Pending,
}

impl FormReader {
    /// Starts at the first event of a log.
    pub const fn new(source: Arc<FormSource>, log: Arc<str>) -> Self {
        Self { source, log, position: FormStart::LOG_START.position, stamp: None }
    }

    /// Starts at an event that [`FormSource::locate`] found.
    pub const fn start_at(source: Arc<FormSource>, log: Arc<str>, start: FormStart) -> Self {
        Self { source, log, position: start.position, stamp: None }
    }

    /// Returns the name of the current log.
    pub const fn log(&self) -> &Arc<str> {
        &self.log
    }

    /// Returns the position of the next event in the log's form.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the source of the form.
    pub const fn source(&self) -> &Arc<FormSource> {
        &self.source
    }

    /// Returns the next events. Never waits for the store to grow.
    ///
    /// # Errors
    ///
    /// Fails as [`FormSource::read`] does.
    pub fn read_next(&mut self) -> Result<ReaderStep, RelayError> {
        let changed = || RelayError::Changed { name: self.log.to_string() };
        let read = self.source.read(&self.log, self.position).map_err(|error| match error {
            // The reader was at this position before, so the file was replaced or truncated.
            RelayError::PastEnd { .. } if self.stamp.is_some() => changed(),
            error => error,
        });
        match read? {
            FormRead::Chunk(chunk) => {
                if *self.stamp.get_or_insert(chunk.stamp()) != chunk.stamp() {
                    return Err(changed());
                }
                let first = chunk.slice_at(self.position).ok_or_else(changed)?;
                self.position = chunk.end();
                Ok(ReaderStep::Events { chunk, first })
            }
            FormRead::NextLog(next) => {
                *self = Self::new(Arc::clone(&self.source), Arc::clone(&next));
                Ok(ReaderStep::NextLog(next))
            }
            FormRead::Pending => Ok(ReaderStep::Pending),
        }
    }
}
