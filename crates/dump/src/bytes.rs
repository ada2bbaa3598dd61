//! Buffers: of events, which threads share, and of text. Both are used again: memory that is mapped already, and
//! often in a cache.

use std::mem::take;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::log_file::LogFile;

/// The bytes of some events.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    /// A log that has them too, and where.
    origin: Option<(Arc<LogFile>, u64)>,
    /// Where the memory goes when nobody needs it any more.
    home: Option<Arc<Spare>>,
}

impl Bytes {
    /// Bytes from nowhere in particular.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, origin: None, home: None }
    }

    /// In memory that goes back to `home`.
    pub(crate) fn at_home(bytes: Vec<u8>, home: &Arc<Spare>) -> Self {
        Self { bytes, origin: None, home: Some(Arc::clone(home)) }
    }

    /// The same, of bytes that a log has.
    pub(crate) fn of_log(mut self, file: &Arc<LogFile>, offset: u64) -> Self {
        self.origin = Some((Arc::clone(file), offset));
        self
    }

    /// A log that has them, and where.
    pub(crate) fn origin(&self) -> Option<&(Arc<LogFile>, u64)> {
        self.origin.as_ref()
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.put_back(take(&mut self.bytes));
        }
    }
}

/// Buffers that nobody needs, to be filled again.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// More are not kept.
    const COUNT_MAX: usize = 64;

    /// Larger ones are not kept, in bytes.
    const SIZE_MAX: usize = 1 << 20;

    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut buffer = self.take_used();
        buffer.clear();
        buffer
    }

    /// So many bytes, of any value.
    pub(crate) fn take_filled(&self, size: usize) -> Vec<u8> {
        let mut buffer = self.take_used();
        buffer.resize(size, 0);
        buffer
    }

    /// Keeps a buffer, unless it has become large.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > Self::SIZE_MAX {
            return;
        }
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < Self::COUNT_MAX {
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

    use super::{Bytes, Spare};

    #[test]
    fn memory_goes_home() {
        let spare = Arc::new(Spare::default());
        let first = Arc::new(Bytes::at_home(b"some bytes".to_vec(), &spare));
        let second = Arc::clone(&first);
        drop(first);
        assert_eq!(&second[..4], b"some");
        assert_eq!(spare.take().capacity(), 0);
        drop(second);
        assert_eq!(spare.take_filled(4), b"some");
        spare.put_back(vec![0; Spare::SIZE_MAX + 1]);
        assert_eq!(spare.take_filled(3), [0; 3]);
    }
}
