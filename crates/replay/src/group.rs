//! Which transactions in a row are committed as one, and how many of them.
//!
//! Only transactions that do nothing but change rows of tables with transactions join others. What commits by itself
//! (definitions), statements, the phases of XA transactions, what changes tables without transactions, and what is
//! too large to be held are groups of their own: the schedule's [`Company::Alone`], or [`Placement::Alone`] here.
//!
//! How many: one at a time when nothing else is waiting, so that each is seen as soon as it can be; when behind, as
//! many as can be done in a given time, found by doubling and halving. Merging and sharing a flush gain the more the
//! larger a group is; what a crash repeats, and how long its locks are held, grows, too.
//!
//! Nothing here does I/O, reads a clock or starts a thread.

use std::time::Duration;

use crate::schedule::Company;

/// How much a commit group may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Transactions, at least 1.
    pub transactions: usize,
    /// Bytes of their events.
    pub bytes: u64,
}

/// Where a transaction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into the open group.
    Join,
    /// The open group, if there is one, is whole; this transaction opens another.
    Start,
    /// The open group, if there is one, is whole; and so is this transaction, as a group by itself.
    Alone,
}

/// Puts transactions into groups, in source order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouping {
    /// What the open group holds.
    open: Option<Bounds>,
}

impl Grouping {
    /// Where the next transaction belongs: may it be with others, how many bytes are its events, and how much may a
    /// group be now?
    pub fn place(&mut self, company: Company, bytes: u64, bounds: Bounds) -> Placement {
        if company == Company::Alone || bytes > bounds.bytes {
            self.open = None;
            return Placement::Alone;
        }
        if let Some(open) = &mut self.open
            && open.transactions < bounds.transactions
            && open.bytes + bytes <= bounds.bytes
        {
            open.transactions += 1;
            open.bytes += bytes;
            return Placement::Join;
        }
        self.open = Some(Bounds { transactions: 1, bytes });
        Placement::Start
    }

    /// Would another transaction start a group at these bounds, whatever it is? Then the open one need not wait for
    /// it. True without an open group.
    pub fn is_full(&self, bounds: Bounds) -> bool {
        self.open.is_none_or(|open| open.transactions >= bounds.transactions || open.bytes >= bounds.bytes)
    }

    /// The open group is whole: nothing is waiting that could join it.
    pub fn close(&mut self) {
        self.open = None;
    }
}

/// What no group exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transactions and bytes: bytes are for whoever bounds memory to say.
    pub most: Bounds,
    /// How long one may take to be applied and committed, about.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let most = Bounds { transactions: 10_000, bytes: 16 << 20 };
        Self { most, time: Duration::from_millis(500) }
    }
}

/// How far behind the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// So many transactions are read and wait; the source has no more for now.
    Waiting(usize),
    /// More than are read.
    More,
}

/// Finds out how large groups are best.
///
/// ```
/// use std::time::Duration;
///
/// use replay::group::{Backlog, GroupSize, Limits};
///
/// let mut size = GroupSize::new(Limits::default());
/// assert_eq!(size.bounds(Backlog::More, 1).transactions, 1);
/// for _ in 0..20 {
///     let group = size.bounds(Backlog::More, 1);
///     size.took(group.transactions, Duration::from_micros(100 * group.transactions as u64));
/// }
/// assert_eq!(size.bounds(Backlog::More, 1).transactions, 4096);
/// assert_eq!(size.bounds(Backlog::Waiting(3), 1).transactions, 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupSize {
    limits: Limits,
    /// Transactions that a group may be when there are enough.
    transactions: usize,
}

impl GroupSize {
    /// Starts with one transaction at a time.
    pub fn new(limits: Limits) -> Self {
        Self { limits, transactions: 1 }
    }

    /// How much the next group may be, while so many workers share what waits.
    pub fn bounds(&self, backlog: Backlog, workers: usize) -> Bounds {
        let share = match backlog {
            Backlog::More => usize::MAX,
            Backlog::Waiting(waiting) => waiting.div_ceil(workers.max(1)),
        };
        let transactions = self.transactions.min(share).max(1);
        Bounds { transactions, bytes: self.limits.most.bytes }
    }

    /// Learns from a group of so many transactions: the time from the start of its work to the end of its commit,
    /// without what it waited for its turn.
    pub fn took(&mut self, transactions: usize, time: Duration) {
        if time > self.limits.time {
            // A short group that took long, large transactions perhaps, says that a longer one would take longer.
            self.transactions = (self.transactions.min(transactions) / 2).max(1);
        } else if time <= self.limits.time / 2 && transactions >= self.transactions {
            self.transactions = (self.transactions * 2).min(self.limits.most.transactions).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};
    use proptest::prop_assert;

    use super::{Backlog, Bounds, GroupSize, Grouping, Limits, Placement};
    use crate::schedule::Company;

    /// Transactions as their bytes, `!` in front of those that must be alone; groups of three of them or 100 bytes.
    fn check(transactions: &str, wanted: &str) {
        let mut grouping = Grouping::default();
        let bounds = Bounds { transactions: 3, bytes: 100 };
        let mut groups = String::new();
        for word in transactions.split_whitespace() {
            let (company, bytes) = match word.strip_prefix('!') {
                Some(bytes) => (Company::Alone, bytes),
                None => (Company::Allowed, word),
            };
            match grouping.place(company, bytes.parse().unwrap(), bounds) {
                Placement::Join => groups.push('+'),
                Placement::Start | Placement::Alone if groups.is_empty() => {}
                Placement::Start | Placement::Alone => groups.push(' '),
            }
            groups.push_str(bytes);
        }
        assert_eq!(groups, wanted);
    }

    #[test]
    fn groups_end_where_they_must() {
        check("1 2 3 4 5", "1+2+3 4+5");
        check("60 40 1", "60+40 1");
        check("60 41 1", "60 41+1");
        check("1 101 2 3", "1 101 2+3");
        check("1 !2 3 4 !5 !6 7", "1 2 3+4 5 6 7");
        check("100 0", "100+0");
    }

    #[test]
    fn a_group_may_be_closed_early() {
        let (mut grouping, bounds) = (Grouping::default(), Bounds { transactions: 2, bytes: 10 });
        assert!(grouping.is_full(bounds));
        assert_eq!(grouping.place(Company::Allowed, 1, bounds), Placement::Start);
        assert!(!grouping.is_full(bounds));
        assert!(grouping.is_full(Bounds { transactions: 1, ..bounds }));
        grouping.close();
        assert_eq!(grouping.place(Company::Allowed, 1, bounds), Placement::Start);
        assert_eq!(grouping.place(Company::Allowed, 1, bounds), Placement::Join);
        assert!(grouping.is_full(bounds));
    }

    /// What a group takes on a target: so many microseconds each time, and for each transaction.
    fn settled(each_time: u64, transaction: u64) -> usize {
        let mut size = GroupSize::new(Limits::default());
        let mut last = 0;
        for _ in 0..40 {
            last = size.bounds(Backlog::More, 4).transactions;
            size.took(last, Duration::from_micros(each_time + transaction * last as u64));
        }
        last
    }

    #[test]
    fn groups_grow_until_they_take_long_enough() {
        assert_eq!(settled(1_000, 10), 10_000);
        assert_eq!(settled(1_000, 100), 4096);
        assert_eq!(settled(10_000, 10_000), 32);
        assert_eq!(settled(0, 700_000), 1);
    }

    #[test]
    fn few_that_wait_are_shared() {
        let mut size = GroupSize::new(Limits::default());
        for _ in 0..6 {
            let group = size.bounds(Backlog::More, 1).transactions;
            size.took(group, Duration::from_millis(1));
        }
        let share = |waiting, workers| size.bounds(Backlog::Waiting(waiting), workers).transactions;
        assert_eq!([share(0, 4), share(1, 4), share(10, 4), share(1000, 4), share(10, 0)], [1, 1, 3, 64, 10]);
        // Groups that were no larger than what waited teach nothing of larger ones.
        let before = size.transactions;
        size.took(1, Duration::from_millis(1));
        assert_eq!(size.transactions, before);
        size.took(1, Duration::from_secs(1));
        assert_eq!(size.transactions, 1);
    }

    proptest! {
        #[test]
        fn bounds_keep_to_the_limits(
            times in vec((0..20_000_usize, 0..2000_u64), 0..50),
            waiting: Option<usize>,
            workers in 0..9_usize,
            most in 1..100_usize,
            in_time: bool,
        ) {
            let time = Duration::from_millis(if in_time { 5000 } else { 50 });
            let limits = Limits { most: Bounds { transactions: most, bytes: 7 }, time };
            let mut size = GroupSize::new(limits);
            for (transactions, millis) in times {
                size.took(transactions, Duration::from_millis(millis));
                let bounds = size.bounds(waiting.map_or(Backlog::More, Backlog::Waiting), workers);
                prop_assert!((1..=most).contains(&bounds.transactions) && bounds.bytes == 7);
            }
        }

        #[test]
        fn all_are_placed_within_the_bounds(
            transactions in vec((any::<bool>(), 0..50_u64), 0..100),
            bounds in (1..10_usize, 0..100_u64),
        ) {
            let bounds = Bounds { transactions: bounds.0, bytes: bounds.1 };
            let mut grouping = Grouping::default();
            let mut open = Bounds { transactions: 0, bytes: 0 };
            for (alone, bytes) in transactions {
                let company = if alone { Company::Alone } else { Company::Allowed };
                match grouping.place(company, bytes, bounds) {
                    Placement::Alone => {
                        prop_assert!(alone || bytes > bounds.bytes);
                        open = Bounds { transactions: 0, bytes: 0 };
                    }
                    placement => {
                        if placement == Placement::Start {
                            open = Bounds { transactions: 0, bytes: 0 };
                        }
                        open = Bounds { transactions: open.transactions + 1, bytes: open.bytes + bytes };
                        prop_assert!(open.transactions <= bounds.transactions && open.bytes <= bounds.bytes);
                        prop_assert!(placement == Placement::Start || open.transactions > 1);
                    }
                }
            }
        }
    }
}
