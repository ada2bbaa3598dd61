//! Transactions by size class.

use serde::Serialize;

/// Number of classes. Class 0 ends at 256 bytes, each next class at four times the previous limit. The last class has
/// no limit.
const CLASSES: usize = 13;

/// Number of transactions and bytes by size class.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeHistogram {
    classes: [SizeCounts; CLASSES],
}

#[derive(Clone, Copy, Debug, Default)]
struct SizeCounts {
    transactions: u64,
    bytes: u64,
}

/// The transactions of one size class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// The largest size in the class, in bytes before compression; `None` for the last class, which has no limit.
    pub bytes_max: Option<u64>,
    /// Number of transactions.
    pub transactions: u64,
    /// Bytes of the transactions before compression.
    pub bytes: u64,
}

impl SizeHistogram {
    pub(crate) fn add(&mut self, bytes: u64) {
        let class = size_class(bytes);
        self.classes[class].transactions += 1;
        self.classes[class].bytes += bytes;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.transactions += theirs.transactions;
            mine.bytes += theirs.bytes;
        }
    }

    /// Returns the classes from the first to the last class with transactions.
    pub(crate) fn classes(&self) -> Vec<SizeClass> {
        let some = |counts: &SizeCounts| counts.transactions > 0;
        let (Some(first), Some(last)) =
            (self.classes.iter().position(some), self.classes.iter().rposition(some))
        else {
            return Vec::new();
        };
        let class = |index: usize| SizeClass {
            bytes_max: class_bytes_max(index),
            transactions: self.classes[index].transactions,
            bytes: self.classes[index].bytes,
        };
        (first..=last).map(class).collect()
    }
}

/// Returns the class of a size.
pub fn size_class(bytes: u64) -> usize {
    (0..CLASSES - 1).find(|class| bytes <= bytes_max(*class)).unwrap_or(CLASSES - 1)
}

/// Returns the largest size in a class, or `None` for the last class.
pub fn class_bytes_max(class: usize) -> Option<u64> {
    (class + 1 < CLASSES).then(|| bytes_max(class))
}

const fn bytes_max(class: usize) -> u64 {
    256 << (2 * class)
}

#[cfg(test)]
mod tests {
    use super::SizeHistogram;

    fn check(sizes: &[u64], expected: &[(Option<u64>, u64)]) {
        let mut all = SizeHistogram::default();
        for size in sizes {
            let mut one = SizeHistogram::default();
            one.add(*size);
            all.merge(&one);
        }
        let found: Vec<_> = all.classes().iter().map(|class| (class.bytes_max, class.transactions)).collect();
        assert_eq!(found, expected);
        assert_eq!(all.classes().iter().map(|class| class.bytes).sum::<u64>(), sizes.iter().sum::<u64>());
    }

    #[test]
    fn classes_start_and_end_where_transactions_do() {
        check(&[], &[]);
        check(&[0, 256], &[(Some(256), 2)]);
        check(&[257, 16_385], &[(Some(1024), 1), (Some(4096), 0), (Some(16_384), 0), (Some(65_536), 1)]);
        check(&[1 << 30], &[(Some(1 << 30), 1)]);
        check(&[(1 << 30) + 1, 1 << 40], &[(None, 2)]);
    }
}
