//! Logical clocks of transactions that move to another file. Each file numbers its transactions from 1.

use crate::events::LogicalClock;

/// Shift of logical clocks when transactions move from one file to another.
///
/// Within the new file, transactions keep their dependencies. Transactions placed after transactions of another file
/// wait for all of these: the log does not show which transactions are independent, and replicas also wait at the end
/// of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockShift {
    by: i64,
    /// Lower limit of `last_committed`.
    last_committed_min: i64,
}

impl ClockShift {
    /// No shift: transactions keep their numbers.
    pub const NONE: Self = Self::by(0);

    /// Creates the shift for transactions appended to a file whose last transaction has the number `last`.
    pub const fn after(last: i64) -> Self {
        Self::by(last)
    }

    /// Creates the shift for transactions that start a new file; `last` is the number of the previous transaction in
    /// the old file.
    pub const fn truncated_at(last: i64) -> Self {
        Self::by(last.saturating_neg())
    }

    /// Creates the shift for transactions after a gap. `skipped` is the old number of the last omitted transaction,
    /// and `last` the number of transactions before the gap in the new file. Transactions after the gap wait for all
    /// of these, since their dependencies are unknown.
    pub const fn after_gap(skipped: i64, last: i64) -> Self {
        Self { by: last.saturating_sub(skipped), last_committed_min: last }
    }

    const fn by(by: i64) -> Self {
        Self { by, last_committed_min: 0 }
    }

    /// Returns the clock in the new file. A clock without a number (0) stays unchanged.
    #[must_use]
    pub fn apply(self, clock: LogicalClock) -> LogicalClock {
        let LogicalClock { last_committed, sequence_number } = clock;
        if sequence_number == 0 {
            return clock;
        }
        LogicalClock {
            // Transactions of the previous file do not count.
            last_committed: last_committed.saturating_add(self.by).max(self.last_committed_min),
            sequence_number: sequence_number.saturating_add(self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

    use super::ClockShift;
    use crate::events::LogicalClock;

    /// Generates the clocks of a file as servers write them: numbers count up from 1, and each depends on an earlier
    /// one.
    fn file() -> impl Strategy<Value = Vec<LogicalClock>> {
        vec(0..1000_i64, 1..40)
            .prop_map(|draws| (1..).zip(draws).map(|(number, draw)| clock(draw % number, number)).collect())
    }

    const fn clock(last_committed: i64, sequence_number: i64) -> LogicalClock {
        LogicalClock { last_committed, sequence_number }
    }

    fn waits(later: LogicalClock, earlier: LogicalClock) -> bool {
        earlier.sequence_number <= later.last_committed
    }

    fn is_whole(file: &[LogicalClock]) -> bool {
        (1..).zip(file).all(|(number, clock)| {
            clock.sequence_number == number && (0..number).contains(&clock.last_committed)
        })
    }

    proptest! {
        #[test]
        fn truncated_files_keep_their_order(file in file(), split_at in 0..40_usize) {
            let (front, back) = file.split_at(split_at.min(file.len()));
            let shift = ClockShift::truncated_at(front.len() as i64);
            let moved: Vec<_> = back.iter().map(|clock| shift.apply(*clock)).collect();
            prop_assert!(is_whole(&moved));
            for (later, moved_later) in back.iter().zip(&moved) {
                for (earlier, moved_earlier) in back.iter().zip(&moved) {
                    prop_assert_eq!(waits(*later, *earlier), waits(*moved_later, *moved_earlier));
                }
            }
        }

        #[test]
        fn concatenated_files_keep_their_order(front in file(), back in file()) {
            let shift = ClockShift::after(front.len() as i64);
            let moved: Vec<_> = back.iter().map(|clock| shift.apply(*clock)).collect();
            let joined: Vec<_> = front.iter().chain(&moved).copied().collect();
            prop_assert!(is_whole(&joined));
            prop_assert!(moved.iter().all(|later| front.iter().all(|earlier| waits(*later, *earlier))));
            for (later, moved_later) in back.iter().zip(&moved) {
                for (earlier, moved_earlier) in back.iter().zip(&moved) {
                    prop_assert_eq!(waits(*later, *earlier), waits(*moved_later, *moved_earlier));
                }
            }
            let again: Vec<_> =
                moved.iter().map(|clock| ClockShift::truncated_at(front.len() as i64).apply(*clock)).collect();
            prop_assert_eq!(again, back);
        }

        #[test]
        fn transactions_after_a_gap_wait_for_all_before_it(file in file(), from in 0..40_usize, size in 0..40_usize) {
            let (front, rest) = file.split_at(from.min(file.len()));
            let back = &rest[size.min(rest.len())..];
            let shift = ClockShift::after_gap((file.len() - back.len()) as i64, front.len() as i64);
            let moved: Vec<_> = back.iter().map(|clock| shift.apply(*clock)).collect();
            prop_assert!(is_whole(&front.iter().chain(&moved).copied().collect::<Vec<_>>()));
            prop_assert!(moved.iter().all(|later| front.iter().all(|earlier| waits(*later, *earlier))));
            for (later, moved_later) in back.iter().zip(&moved) {
                for (earlier, moved_earlier) in back.iter().zip(&moved) {
                    prop_assert_eq!(waits(*later, *earlier), waits(*moved_later, *moved_earlier));
                }
            }
        }

        #[test]
        fn any_clock_can_be_moved(last in 0..i64::MAX, number in 0..i64::MAX, by in 0..i64::MAX) {
            for shift in [ClockShift::after(by), ClockShift::truncated_at(by), ClockShift::after_gap(by, last)] {
                prop_assert!(shift.apply(clock(last, number)).last_committed >= 0);
                prop_assert_eq!(shift.apply(clock(last, 0)), clock(last, 0));
            }
        }
    }
}
