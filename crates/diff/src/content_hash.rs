//! Hashes of contents.

use xxhash_rust::xxh3::xxh3_128;

/// Hash of a transaction's content, or of a part of the content: XXH3 of 128 bits.
///
/// Finds differences, but does not protect against contents constructed to have equal hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContentHash(u128);

impl ContentHash {
    /// Returns the hash of these bytes.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes))
    }

    /// Returns the hash for a digest computed in pieces.
    pub(crate) const fn of_digest(digest: u128) -> Self {
        Self(digest)
    }

    /// Returns the hash of a sequence that continues with `next`.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.0.to_le_bytes());
        both[16..].copy_from_slice(&next.0.to_le_bytes());
        Self::of(&both)
    }

    /// Returns the hash of a set without order, with one more element.
    #[inline]
    pub(crate) const fn with_element(self, element: Self) -> Self {
        Self(self.0.wrapping_add(element.0))
    }

    pub(crate) const fn halves(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

/// Bytes to hash: fields of variable size are preceded by their size.
#[derive(Debug, Default)]
pub(crate) struct HashedBytes {
    bytes: Vec<u8>,
}

impl HashedBytes {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn put_sized(&mut self, bytes: &[u8]) {
        self.put(&(bytes.len() as u64).to_le_bytes());
        self.put(bytes);
    }

    pub(crate) fn put_number(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    pub(crate) fn put_hash(&mut self, hash: ContentHash) {
        self.put(&hash.0.to_le_bytes());
    }

    /// Returns the last `count` bytes.
    pub(crate) fn last_mut(&mut self, count: usize) -> &mut [u8] {
        let start = self.bytes.len().saturating_sub(count);
        &mut self.bytes[start..]
    }

    #[inline]
    pub(crate) fn hash(&self) -> ContentHash {
        ContentHash::of(&self.bytes)
    }
}
