//! State after all stored transactions, such as their GTIDs.

use std::sync::Arc;

use crate::error::RelayError;
use crate::form_chunk::FormChunk;
use crate::form_reader::{FormReader, ReaderStep};
use crate::form_source::FormSource;
use crate::relay_store::HeadEvents;

/// A state that each stored transaction changes. The first events of each log repeat it.
pub trait StoredState: Default {
    /// Returns the state before the transactions of a log.
    fn before_log(head: Option<&HeadEvents>) -> Self;

    /// Adds the transactions of a chunk from this slice on.
    fn add_chunk(&mut self, chunk: &FormChunk, first: usize);
}

/// State after all stored transactions, up to the present end of the store.
#[derive(Debug, Default)]
pub struct StateReader<S> {
    state: S,
    /// Reader, positioned after the last read event.
    reader: Option<FormReader>,
}

impl<S: StoredState> StateReader<S> {
    /// Reads to the end of the store. Returns the state there.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read. The next call then starts again at the newest log.
    pub fn read(&mut self, as_is: &Arc<FormSource>) -> Result<&S, RelayError> {
        if self.advance(as_is).is_err() {
            // The log of the last call may have been purged. The head of the newest log contains the same state.
            *self = Self::default();
            if let Err(error) = self.advance(as_is) {
                *self = Self::default();
                return Err(error);
            }
        }
        Ok(&self.state)
    }

    fn advance(&mut self, as_is: &Arc<FormSource>) -> Result<(), RelayError> {
        if self.reader.is_none() {
            let Some(newest) = as_is.store().log_names()?.pop() else { return Ok(()) };
            self.state = S::before_log(as_is.store().head(&newest)?.as_deref());
            self.reader = Some(FormReader::new(Arc::clone(as_is), newest));
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        loop {
            match reader.read_next()? {
                ReaderStep::Pending => return Ok(()),
                ReaderStep::NextLog(_) => {}
                ReaderStep::Events { chunk, first } => self.state.add_chunk(&chunk, first),
            }
        }
    }
}
