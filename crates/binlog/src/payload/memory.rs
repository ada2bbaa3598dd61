//! Estimates of zstd's memory.

use super::ZstdLevel;

const MIB: u64 = 1 << 20;

/// Base-2 logarithms by level, from zstd's `clevels.h` for inputs of more than 256 KiB: window, chain, hash.
const POWERS: [[u32; 3]; 22] = [
    [19, 13, 14],
    [20, 15, 16],
    [21, 16, 17],
    [21, 18, 18],
    [21, 18, 19],
    [21, 18, 19],
    [21, 19, 20],
    [21, 19, 20],
    [22, 20, 21],
    [22, 21, 22],
    [22, 21, 22],
    [22, 22, 23],
    [22, 22, 22],
    [22, 22, 23],
    [22, 23, 23],
    [22, 22, 22],
    [23, 23, 22],
    [23, 23, 22],
    [23, 24, 22],
    [25, 25, 23],
    [26, 26, 24],
    [27, 27, 25],
];

/// First level at which zstd uses binary trees, with two entries per position.
const TREES_FROM: u8 = 13;

impl ZstdLevel {
    /// Returns the base-2 logarithm of zstd's window at this level for inputs of `size` bytes.
    pub fn window_log(self, size: u64) -> u32 {
        // Tables are no larger than the input requires.
        let input_log = size.max(1).checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros);
        self.powers()[0].min(input_log.max(10))
    }

    /// Returns the maximum memory of zstd in bytes at this level for inputs of `size` bytes.
    pub fn memory_for(self, size: u64) -> u64 {
        let [_, chain, hash] = self.powers();
        let window = self.window_log(size);
        let chain_max = window + u32::from(self.get() >= TREES_FROM);
        let tables = 4 * ((1 << chain.min(chain_max)) + (1 << hash.min(window + 1)));
        // Buffers for the current input and its compressed block.
        tables + (1 << window) + 2 * MIB
    }

    fn powers(self) -> [u32; 3] {
        POWERS[usize::from(self.get()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::MIB;
    use crate::{PayloadWriter, ZstdLevel};

    #[test]
    fn table_sizes_equal_zstds() {
        // Figures from zstd's documentation of the highest levels.
        for (level, input_log) in [(19, 80), (20, 160), (21, 320), (22, 640)] {
            let found = ZstdLevel::new(level).unwrap().memory_for(1 << 30) / MIB;
            assert!((input_log..=input_log * 5 / 4 + 8).contains(&found), "{level}: {found}");
        }
        assert_eq!(ZstdLevel::MAX.window_log(u64::MAX), 27);
    }

    #[test]
    fn zstd_memory_stays_below_the_estimate() {
        for size in [100, 20_000, 300 << 10, 1 << 20] {
            let payload: Vec<u8> =
                (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            for level in (1..=22).filter_map(ZstdLevel::new) {
                let mut writer = PayloadWriter::new(level).unwrap();
                writer.frame(&payload).unwrap();
                let (found, reckoned) = (writer.memory() as u64, level.memory_for(size));
                assert!(found <= reckoned, "{level:?} {size}: {found} {reckoned}");
            }
        }
    }
}
