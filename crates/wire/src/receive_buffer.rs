//! Growing buffer for received bytes.

/// Minimum room for one read.
const ROOM_SIZE: usize = 64 << 10;
/// Maximum size of a buffer that is kept when empty.
const KEPT_SIZE_MAX: usize = 4 << 20;

/// Maximum size of a buffer that doubles. Larger buffers grow less, so that one huge packet needs little more memory
/// than its own size.
const DOUBLED_SIZE_MAX: usize = 16 << 20;
/// Divisor of a larger buffer's size that gives its growth.
const GROWTH_DIVISOR: usize = 8;

/// Received bytes, followed by room for more. Grows with the received bytes, not with sizes in headers.
#[derive(Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    /// Number of received bytes; the room starts here.
    filled: usize,
}

impl ReceiveBuffer {
    /// Returns the received bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Returns the received bytes for in-place changes.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.filled]
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// Returns room for at least [`ROOM_SIZE`] more bytes.
    pub(crate) fn read_buffer(&mut self) -> &mut [u8] {
        if self.bytes.len() - self.filled < ROOM_SIZE {
            let more = match self.filled {
                small if small <= DOUBLED_SIZE_MAX => small,
                large => large / GROWTH_DIVISOR,
            };
            let size = self.filled + more.max(ROOM_SIZE);
            // Avoids the spare capacity of a vector's default growth.
            self.bytes.reserve_exact(size - self.bytes.len());
            self.bytes.resize(size, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Adds the first `count` bytes of the room to the received bytes.
    pub(crate) fn commit_read(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.filled, "ours: a read fits in the room");
        self.filled += count;
    }

    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.read_buffer();
            let (now, rest) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = rest;
        }
    }

    /// Removes the first `count` bytes.
    pub(crate) fn drop_front(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
        if self.filled == 0 && self.bytes.len() > KEPT_SIZE_MAX {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_SIZE_MAX, ROOM_SIZE, ReceiveBuffer};

    #[test]
    fn huge_packets_take_little_more_memory_than_their_size() {
        const SIZE: usize = 300 << 20;
        let mut buffer = ReceiveBuffer::default();
        while buffer.len() < SIZE {
            let room = buffer.read_buffer().len();
            assert!(room >= ROOM_SIZE);
            buffer.commit_read(room.min(1 << 20));
            assert!(buffer.bytes.capacity() <= (buffer.len() * 9 / 8).max(32 << 20) + (2 << 20));
        }
        buffer.drop_front(buffer.len());
        assert!(buffer.bytes.capacity() <= KEPT_SIZE_MAX);
    }
}
