//! Bytes that come, and room for more.

/// Bytes that are read at once, at least.
const ROOM_SIZE: usize = 64 << 10;
/// A larger buffer is given back as soon as it is empty.
const KEPT_SIZE_MAX: usize = 4 << 20;

/// Bytes that came, in front of room for more. It grows by as much as has come already, whatever headers claim.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where room begins.
    filled: usize,
}

impl Buffer {
    /// What has come.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// The same, to be moved about.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.filled]
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// Room for at least [`ROOM_SIZE`] more.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() - self.filled < ROOM_SIZE {
            let size = (self.filled + ROOM_SIZE).max(self.filled * 2);
            self.bytes.resize(size, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// So many bytes of the room are filled.
    pub(crate) fn fill(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.filled, "ours: no more is read than there is room for");
        self.filled += count;
    }

    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let (now, rest) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = rest;
        }
    }

    /// Forgets so many bytes at the front.
    pub(crate) fn drop_front(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
        if self.filled == 0 && self.bytes.len() > KEPT_SIZE_MAX {
            self.bytes = Vec::new();
        }
    }
}
