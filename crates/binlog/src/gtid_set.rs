//! Sets of global transaction identifiers.
//!
//! A set has a sorted list of intervals for each source and tag. Operations on two sets walk both lists once: sets of
//! a million intervals take milliseconds.

mod encoding;
mod text;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use self::encoding::GtidSetFormat;
pub use self::text::{GtidSetComment, GtidSetServerText, GtidTextError};
use crate::gtid::{Gno, Gtid, Tsid};

/// Set of GTIDs, of any number of transactions and sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidSet {
    /// Intervals by source and tag. No list is empty.
    lists: BTreeMap<Tsid, Vec<GtidInterval>>,
}

/// Range of consecutive transaction numbers, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtidInterval {
    start: u64,
    /// First number after the interval: at most 2^63 - 1.
    end: u64,
}

impl GtidInterval {
    /// Returns the interval from `first` to `last`, both included; `None` if `last` is less than `first`.
    pub const fn new(first: Gno, last: Gno) -> Option<Self> {
        match first.get() <= last.get() {
            true => Some(Self { start: first.get(), end: last.get() + 1 }),
            false => None,
        }
    }

    /// Returns the first number.
    pub const fn first(self) -> u64 {
        self.start
    }

    /// Returns the last number.
    pub const fn last(self) -> u64 {
        self.end - 1
    }

    /// Returns how many transaction numbers the interval holds.
    pub const fn count(self) -> u64 {
        self.end - self.start
    }
}

impl From<Gno> for GtidInterval {
    fn from(gno: Gno) -> Self {
        Self { start: gno.get(), end: gno.get() + 1 }
    }
}

impl GtidSet {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self { lists: BTreeMap::new() }
    }

    /// Returns true if the set has no transactions.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the number of transactions. One source can have almost 2^63.
    pub fn count(&self) -> u128 {
        self.intervals().map(|(_, interval)| u128::from(interval.count())).sum()
    }

    /// Returns each source and tag with its intervals, in order. The intervals neither overlap nor touch.
    pub fn iter(&self) -> impl Iterator<Item = (Tsid, &[GtidInterval])> {
        self.lists.iter().map(|(tsid, list)| (*tsid, list.as_slice()))
    }

    /// Returns all intervals in order.
    pub fn intervals(&self) -> impl Iterator<Item = (Tsid, GtidInterval)> {
        self.lists.iter().flat_map(|(tsid, list)| list.iter().map(|interval| (*tsid, *interval)))
    }

    /// Returns all transactions in order, one by one. This can be a very long iteration.
    pub fn gtids(&self) -> impl Iterator<Item = Gtid> {
        self.intervals().flat_map(|(tsid, interval)| {
            (interval.start..interval.end).filter_map(move |gno| Some(Gtid { tsid, gno: Gno::new(gno)? }))
        })
    }

    /// Returns true if the set contains the transaction.
    pub fn contains(&self, gtid: Gtid) -> bool {
        self.lists.get(&gtid.tsid).is_some_and(|list| {
            let index = list.partition_point(|interval| interval.end <= gtid.gno.get());
            list.get(index).is_some_and(|interval| interval.start <= gtid.gno.get())
        })
    }

    /// Adds one transaction and returns true if it was new. This is fast at the end of a list; use
    /// [`GtidSet::extend`] to add many in the middle.
    pub fn add(&mut self, gtid: Gtid) -> bool {
        self.add_interval(gtid.tsid, gtid.gno.into())
    }

    /// Adds an interval and returns true if any of it was new.
    pub fn add_interval(&mut self, tsid: Tsid, interval: GtidInterval) -> bool {
        let list = self.lists.entry(tsid).or_default();
        // Intervals that overlap or touch the new one.
        let from = match list.last() {
            Some(last) if last.end < interval.start => list.len(),
            _ => list.partition_point(|other| other.end < interval.start),
        };
        let touching = list[from..].iter().take_while(|other| other.start <= interval.end).count();
        let Some([first, .., last] | [first @ last]) =
            list.get(from..from + touching).filter(|at| !at.is_empty())
        else {
            list.insert(from, interval);
            return true;
        };
        if first.start <= interval.start && interval.end <= first.end {
            return false;
        }
        let joined = GtidInterval { start: first.start.min(interval.start), end: last.end.max(interval.end) };
        list[from] = joined;
        list.drain(from + 1..from + touching);
        true
    }

    /// Adds all transactions of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (tsid, more) in &other.lists {
            match self.lists.entry(*tsid) {
                Entry::Vacant(entry) => {
                    entry.insert(more.clone());
                }
                Entry::Occupied(mut entry) => {
                    let list = entry.get_mut();
                    match (list.last(), more.as_slice()) {
                        (Some(last), [first, ..]) if last.end < first.start => list.extend_from_slice(more),
                        _ => *list = union(list, more),
                    }
                }
            }
        }
    }

    /// Removes all transactions of `other`.
    pub fn remove_all(&mut self, other: &Self) {
        for (tsid, less) in &other.lists {
            if let Entry::Occupied(mut entry) = self.lists.entry(*tsid) {
                let rest = difference(entry.get(), less);
                match rest.is_empty() {
                    true => drop(entry.remove()),
                    false => *entry.get_mut() = rest,
                }
            }
        }
    }

    /// Returns the transactions in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.add_all(other);
        set
    }

    /// Returns the transactions of this set that are not in `other`: the server's `GTID_SUBTRACT`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.map_lists(|tsid, list| match other.lists.get(tsid) {
            Some(less) => difference(list, less),
            None => list.to_vec(),
        })
    }

    /// Returns the transactions in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.map_lists(|tsid, list| match other.lists.get(tsid) {
            Some(both) => intersection(list, both),
            None => Vec::new(),
        })
    }

    /// Returns the missing numbers between the first and the last transaction of each source.
    #[must_use]
    pub fn gaps(&self) -> Self {
        self.map_lists(|_, list| {
            list.windows(2).map(|pair| GtidInterval { start: pair[0].end, end: pair[1].start }).collect()
        })
    }

    /// Returns true if `other` contains all of this set: the server's `GTID_SUBSET`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.lists.iter().all(|(tsid, list)| {
            other.lists.get(tsid).is_some_and(|within| {
                let mut index = 0;
                list.iter().all(|interval| {
                    index = seek(within, index, interval.start);
                    within.get(index).is_some_and(|at| at.start <= interval.start && interval.end <= at.end)
                })
            })
        })
    }

    /// Returns true if the sets have a transaction in common.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Creates a set from intervals in any order, which may overlap.
    fn from_lists(mut lists: BTreeMap<Tsid, Vec<GtidInterval>>) -> Self {
        lists.retain(|_, list| !list.is_empty());
        for list in lists.values_mut() {
            if !list.is_sorted_by(|one, next| one.end < next.start) {
                list.sort_unstable();
                *list = union(list, &[]);
            }
        }
        Self { lists }
    }

    fn map_lists(&self, map: impl Fn(&Tsid, &[GtidInterval]) -> Vec<GtidInterval>) -> Self {
        let lists = self.lists.iter().map(|(tsid, list)| (*tsid, map(tsid, list)));
        Self { lists: lists.filter(|(_, list)| !list.is_empty()).collect() }
    }
}

impl Extend<Gtid> for GtidSet {
    /// Adds many transactions at once, in any order.
    fn extend<I: IntoIterator<Item = Gtid>>(&mut self, gtids: I) {
        let mut lists: BTreeMap<Tsid, Vec<GtidInterval>> = BTreeMap::new();
        for gtid in gtids {
            let list = lists.entry(gtid.tsid).or_default();
            match list.last_mut() {
                Some(last) if last.end == gtid.gno.get() => last.end += 1,
                _ => list.push(gtid.gno.into()),
            }
        }
        self.add_all(&Self::from_lists(lists));
    }
}

impl FromIterator<Gtid> for GtidSet {
    fn from_iter<I: IntoIterator<Item = Gtid>>(gtids: I) -> Self {
        let mut set = Self::new();
        set.extend(gtids);
        set
    }
}

/// Returns the index of the first interval, from `index` on, that ends after `start`. The search starts next to
/// `index` and doubles its steps.
fn seek(list: &[GtidInterval], index: usize, start: u64) -> usize {
    let mut step = 1;
    let mut low = index;
    while list.get(low + step - 1).is_some_and(|interval| interval.end <= start) {
        low += step;
        step *= 2;
    }
    let high = list.len().min(low + step);
    low + list[low..high].partition_point(|interval| interval.end <= start)
}

/// Appends an interval that does not start before the last one.
fn push_interval(list: &mut Vec<GtidInterval>, interval: GtidInterval) {
    match list.last_mut() {
        Some(last) if interval.start <= last.end => last.end = last.end.max(interval.end),
        _ => list.push(interval),
    }
}

fn union(one: &[GtidInterval], two: &[GtidInterval]) -> Vec<GtidInterval> {
    let mut list = Vec::with_capacity(one.len() + two.len());
    let (mut one, mut two) = (one.iter().copied().peekable(), two.iter().copied().peekable());
    while let (Some(first), Some(second)) = (one.peek(), two.peek()) {
        let from = if first.start <= second.start { &mut one } else { &mut two };
        from.next().into_iter().for_each(|interval| push_interval(&mut list, interval));
    }
    one.chain(two).for_each(|interval| push_interval(&mut list, interval));
    list
}

fn difference(list: &[GtidInterval], less: &[GtidInterval]) -> Vec<GtidInterval> {
    let mut rest = Vec::with_capacity(list.len());
    let mut index = 0;
    for interval in list {
        let mut start = interval.start;
        index = seek(less, index, start);
        for removed in less[index..].iter().take_while(|removed| removed.start < interval.end) {
            if start < removed.start {
                rest.push(GtidInterval { start, end: removed.start });
            }
            start = removed.end;
        }
        if start < interval.end {
            rest.push(GtidInterval { start, end: interval.end });
        }
    }
    rest
}

fn intersection(one: &[GtidInterval], two: &[GtidInterval]) -> Vec<GtidInterval> {
    let mut both = Vec::new();
    let mut index = 0;
    for interval in one {
        index = seek(two, index, interval.start);
        let overlapping = two[index..].iter().take_while(|other| other.start < interval.end);
        both.extend(overlapping.map(|other| GtidInterval {
            start: interval.start.max(other.start),
            end: interval.end.min(other.end),
        }));
    }
    both
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{GtidInterval, GtidSet};
    use crate::gtid::{Gno, Gtid, GtidTag, Tsid, Uuid};

    fn tsid(source: u8) -> Tsid {
        let tag = if source.is_multiple_of(2) { GtidTag::NONE } else { GtidTag::new(b"tag").unwrap() };
        Tsid { uuid: Uuid::from_bytes([source / 2; 16]), tag }
    }

    fn interval(first: u64, last: u64) -> GtidInterval {
        GtidInterval::new(Gno::new(first).unwrap(), Gno::new(last).unwrap()).unwrap()
    }

    /// Returns a set, and the same transactions as a plain set.
    fn both(parts: &[(u8, u64, u64)]) -> (GtidSet, BTreeSet<Gtid>) {
        let (mut set, mut model) = (GtidSet::new(), BTreeSet::new());
        for (source, first, size) in parts {
            let new: Vec<Gtid> = (*first..=first + size)
                .map(|gno| Gtid { tsid: tsid(*source), gno: Gno::new(gno).unwrap() })
                .collect();
            let count = model.len();
            model.extend(new);
            assert_eq!(set.add_interval(tsid(*source), interval(*first, first + size)), model.len() > count);
        }
        (set, model)
    }

    fn check(set: &GtidSet, model: &BTreeSet<Gtid>) {
        assert!(set.gtids().eq(model.iter().copied()), "{set} is not {model:?}");
        assert_eq!((set.count(), set.is_empty()), (model.len() as u128, model.is_empty()));
        for (_, list) in set.iter() {
            assert!(!list.is_empty() && list.windows(2).all(|pair| pair[0].end < pair[1].start), "{set}");
        }
    }

    fn parts() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
        let size = prop_oneof![Just(0), 0_u64..5];
        vec((0_u8..4, 1_u64..40, size), 0..20)
    }

    proptest! {
        #[test]
        fn set_operations_equal_the_model(one in parts(), two in parts()) {
            let ((one, one_model), (two, two_model)) = (both(&one), both(&two));
            check(&one, &one_model);
            check(&one.union(&two), &(&one_model | &two_model));
            check(&one.difference(&two), &(&one_model - &two_model));
            check(&one.intersection(&two), &(&one_model & &two_model));
            let mut rest = one.clone();
            rest.remove_all(&two);
            prop_assert_eq!(rest, one.difference(&two));
            prop_assert_eq!(one.is_subset(&two), one_model.is_subset(&two_model));
            prop_assert_eq!(one.intersects(&two), !one_model.is_disjoint(&two_model));
            prop_assert!(one.intersection(&two).is_subset(&one) && one.is_subset(&one.union(&two)));
            for gtid in &two_model {
                prop_assert_eq!(one.contains(*gtid), one_model.contains(gtid));
            }
            prop_assert_eq!(one_model.iter().copied().collect::<GtidSet>(), one.clone());
            prop_assert_eq!(one_model.iter().rev().chain(&two_model).copied().collect::<GtidSet>(), one.union(&two));
            let gaps = one.gaps();
            prop_assert!(!gaps.intersects(&one));
            prop_assert!(one.union(&gaps).iter().all(|(_, list)| list.len() == 1));
            prop_assert_eq!(one.to_string().parse::<GtidSet>(), Ok(one));
        }

        #[test]
        fn gtids_are_added_one_at_a_time(numbers in vec((0_u8..4, 1_u64..30), 0..60)) {
            let (mut set, mut model) = (GtidSet::new(), BTreeSet::new());
            for (source, gno) in numbers {
                let gtid = Gtid { tsid: tsid(source), gno: Gno::new(gno).unwrap() };
                prop_assert_eq!(set.add(gtid), model.insert(gtid));
            }
            check(&set, &model);
        }
    }

    #[test]
    fn largest_numbers() {
        let mut set = GtidSet::new();
        assert!(set.add_interval(tsid(0), interval(1, Gno::MAX)));
        assert!(!set.add_interval(tsid(0), interval(Gno::MAX, Gno::MAX)));
        assert!(set.add_interval(tsid(1), interval(Gno::MAX, Gno::MAX)));
        assert_eq!(set.count(), (1 << 63) - 1);
        assert_eq!(set.difference(&set), GtidSet::new());
    }

    /// Tests lists full of gaps: each operation must walk the lists once, not once per interval.
    #[test]
    fn million_intervals() {
        let set = |from: u64| {
            let list =
                (0..1_000_000).map(|number| interval(from + 4 * number, from + 4 * number + 1)).collect();
            GtidSet { lists: [(tsid(0), list)].into() }
        };
        let (one, two) = (set(1), set(4));
        let begin = std::time::Instant::now();
        let union = one.union(&two);
        assert_eq!((union.count(), union.iter().map(|(_, list)| list.len()).sum()), (3_000_001, 1_000_001));
        assert_eq!(one.difference(&two).count(), 1_000_001);
        assert_eq!(one.intersection(&two).count(), 999_999);
        assert!(!one.is_subset(&two) && one.is_subset(&union));
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
    }
}
