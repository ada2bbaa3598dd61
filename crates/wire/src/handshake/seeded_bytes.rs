//! Random bytes from a seed.

use rsa::rand_core::{CryptoRng, Error as RandError, RngCore, impls};
use sha2::{Digest as _, Sha256};

/// Generator of random bytes: SHA-256 of a secret seed and a counter. The crate draws no random numbers itself.
pub(super) struct SeededBytes {
    seed: [u8; 32],
    counter: u64,
}

impl SeededBytes {
    /// Creates a generator from a seed, which must be secret and used once.
    pub(super) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0 }
    }
}

impl RngCore for SeededBytes {
    fn next_u32(&mut self) -> u32 {
        impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for block in bytes.chunks_mut(32) {
            let hash = Sha256::new().chain_update(self.seed).chain_update(self.counter.to_le_bytes());
            block.copy_from_slice(&hash.finalize()[..block.len()]);
            self.counter += 1;
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandError> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for SeededBytes {}
