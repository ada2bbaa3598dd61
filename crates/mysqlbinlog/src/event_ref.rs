//! The bytes of one event, shared between threads.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::event_buffer::EventBuffer;

/// The bytes of one event: a range of a shared buffer.
#[derive(Clone, Debug)]
pub(crate) struct EventRef {
    buffer: Arc<EventBuffer>,
    range: Range<usize>,
}

impl EventRef {
    /// References a range of a buffer.
    ///
    /// # Panics
    ///
    /// If the range does not lie within the buffer.
    pub(crate) fn new(buffer: Arc<EventBuffer>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buffer.len());
        Self { buffer, range }
    }

    /// References all of a buffer.
    pub(crate) fn whole(buffer: Arc<EventBuffer>) -> Self {
        let range = 0..buffer.len();
        Self { buffer, range }
    }

    /// Returns the buffer and the range in it.
    pub(crate) fn parts(&self) -> (&Arc<EventBuffer>, &Range<usize>) {
        (&self.buffer, &self.range)
    }
}

impl Deref for EventRef {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}
