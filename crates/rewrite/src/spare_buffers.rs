//! Pool of buffers for reuse.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::rewrite_worker::PART_SIZE;

/// Pool of buffers whose bytes are written: allocating a new buffer costs more than filling it.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<Vec<u8>>>);

/// Maximum number of buffers in the pool.
const BUFFERS_MAX: usize = 8;

/// Maximum capacity of a pooled buffer, in bytes. A buffer that a huge event enlarged is dropped.
const BUFFER_SIZE_MAX: usize = 4 * PART_SIZE;

impl SpareBuffers {
    /// Takes an empty buffer from the pool, or a new one.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Puts a buffer back into the pool.
    pub(crate) fn put_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.lock();
        if spare.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_SIZE_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// Locks the pool. A thread that panicked while it held the lock did not leave it inconsistent.
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
