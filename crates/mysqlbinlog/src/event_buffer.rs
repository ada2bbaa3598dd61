//! Buffers for events, which threads share, and for text. They are reused: their memory is mapped already and often
//! cached.

use std::mem::take;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::input_log_file::InputLogFile;

/// The bytes of some events.
#[derive(Debug, Default)]
pub(crate) struct EventBuffer {
    bytes: Vec<u8>,
    /// The log file that has the same bytes, and their offset in it.
    origin: Option<(Arc<InputLogFile>, u64)>,
    /// The pool that gets the memory back on drop.
    pool: Option<Arc<BufferReserve>>,
}

impl EventBuffer {
    /// Wraps bytes that belong to no pool.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, origin: None, pool: None }
    }

    /// Wraps bytes whose memory goes back to `pool`.
    pub(crate) fn pooled(bytes: Vec<u8>, pool: &Arc<BufferReserve>) -> Self {
        Self { bytes, origin: None, pool: Some(Arc::clone(pool)) }
    }

    /// Sets the log file that has the same bytes, and their offset in it.
    pub(crate) fn with_origin(mut self, file: &Arc<InputLogFile>, offset: u64) -> Self {
        self.origin = Some((Arc::clone(file), offset));
        self
    }

    /// Returns the log file that has the same bytes, and their offset in it.
    pub(crate) fn origin(&self) -> Option<&(Arc<InputLogFile>, u64)> {
        self.origin.as_ref()
    }
}

impl Deref for EventBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.put_back(take(&mut self.bytes));
        }
    }
}

/// Unused buffers, to be filled again.
#[derive(Debug, Default)]
pub(crate) struct BufferReserve {
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl BufferReserve {
    /// Maximum number of buffers kept.
    const BUFFERS_MAX: usize = 64;

    /// Maximum capacity of a buffer that is kept, in bytes.
    const BUFFER_SIZE_MAX: usize = 1 << 20;

    /// Returns an empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut buffer = self.take_used();
        buffer.clear();
        buffer
    }

    /// Returns a buffer of `size` bytes of any value.
    pub(crate) fn take_filled(&self, size: usize) -> Vec<u8> {
        let mut buffer = self.take_used();
        buffer.resize(size, 0);
        buffer
    }

    /// Keeps a buffer for reuse, unless it is too large or the pool is full.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > Self::BUFFER_SIZE_MAX {
            return;
        }
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < Self::BUFFERS_MAX {
            buffers.push(buffer);
        }
    }

    fn take_used(&self) -> Vec<u8> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{BufferReserve, EventBuffer};

    #[test]
    fn buffers_return_to_the_pool() {
        let spare = Arc::new(BufferReserve::default());
        let first = Arc::new(EventBuffer::pooled(b"some bytes".to_vec(), &spare));
        let second = Arc::clone(&first);
        drop(first);
        assert_eq!(&second[..4], b"some");
        assert_eq!(spare.take().capacity(), 0);
        drop(second);
        assert_eq!(spare.take_filled(4), b"some");
        spare.put_back(vec![0; BufferReserve::BUFFER_SIZE_MAX + 1]);
        assert_eq!(spare.take_filled(3), [0; 3]);
    }
}
