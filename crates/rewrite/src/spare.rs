//! Buffers that are used again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::work::PART_SIZE;

/// Buffers of what was handed on and written: fresh memory costs more than filling it.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Vec<u8>>>);

/// How many wait to be used again, at most.
const SPARE_MAX: usize = 8;

/// A buffer that one huge event has made larger than this is not kept, in bytes.
const SIZE_MAX: usize = 4 * PART_SIZE;

impl Spare {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Keeps a buffer that nobody needs.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX && buffer.capacity() <= SIZE_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// A thread that panicked meanwhile has not harmed it.
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
