//! Reproducible random numbers.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// A pseudo-random sequence that is the same for the same seed: SplitMix64, by Guy Steele, Doug Lea and Christine
/// Flood.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// Creates the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => (self.next_u64() % end as u64) as usize,
        }
    }

    /// Returns true once in `times` calls, on average.
    pub const fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one element of `several`.
    ///
    /// # Panics
    /// Panics if `several` is empty.
    pub fn pick<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        assert!(!several.is_empty(), "nothing to pick from");
        &several[self.below(several.len())]
    }
}

/// Returns the seed of this run: the environment variable's value, so that a run can be repeated, else the time.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn seed_from_env(variable: &str) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text}: expected a number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    }
}
