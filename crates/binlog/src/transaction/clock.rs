//! Logical clocks in another file: each file counts its transactions from 1.

use crate::events::LogicalClock;

/// How far logical clocks move when transactions go from one file into another.
///
/// Within the new file everything waits for what it waited for before. What comes behind another file's transactions
/// waits for all of those: nothing says what it would do beside them, and a replica waits at the end of a file, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockShift(i64);

impl ClockShift {
    /// For transactions that keep their numbers.
    pub const NONE: Self = Self(0);

    /// For a file whose transactions come behind others, the last of which has this number in the new file.
    pub const fn behind(last: i64) -> Self {
        Self(last)
    }

    /// For transactions that begin a file of their own, the one in front of which has this number in the old file.
    pub const fn cut_at(last: i64) -> Self {
        Self(last.saturating_neg())
    }

    /// The clock in the new file. A clock that says nothing, with number 0, goes on saying nothing.
    #[must_use]
    pub fn apply(self, clock: LogicalClock) -> LogicalClock {
        let LogicalClock { last_committed, sequence_number } = clock;
        if sequence_number == 0 {
            return clock;
        }
        LogicalClock {
            // What committed in the file before does not count.
            last_committed: last_committed.saturating_add(self.0).max(0),
            sequence_number: sequence_number.saturating_add(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

    use super::ClockShift;
    use crate::events::LogicalClock;

    /// A file's clocks as servers write them: numbers count up from 1, and each waits for one in front.
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
        fn a_cut_file_keeps_its_order(file in file(), cut in 0..40_usize) {
            let (front, back) = file.split_at(cut.min(file.len()));
            let shift = ClockShift::cut_at(front.len() as i64);
            let moved: Vec<_> = back.iter().map(|clock| shift.apply(*clock)).collect();
            prop_assert!(is_whole(&moved));
            for (later, moved_later) in back.iter().zip(&moved) {
                for (earlier, moved_earlier) in back.iter().zip(&moved) {
                    prop_assert_eq!(waits(*later, *earlier), waits(*moved_later, *moved_earlier));
                }
            }
        }

        #[test]
        fn joined_files_keep_their_order_one_behind_the_other(front in file(), back in file()) {
            let shift = ClockShift::behind(front.len() as i64);
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
                moved.iter().map(|clock| ClockShift::cut_at(front.len() as i64).apply(*clock)).collect();
            prop_assert_eq!(again, back);
        }

        #[test]
        fn any_clock_can_be_moved(last in 0..i64::MAX, number in 0..i64::MAX, by in 0..i64::MAX) {
            for shift in [ClockShift::behind(by), ClockShift::cut_at(by)] {
                prop_assert!(shift.apply(clock(last, number)).last_committed >= 0);
                prop_assert_eq!(shift.apply(clock(last, 0)), clock(last, 0));
            }
        }
    }
}
