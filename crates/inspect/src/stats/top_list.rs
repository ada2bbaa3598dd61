//! List of the items with the largest keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event_address::EventAddress;

/// The `count_max` items with the largest keys; among equal keys, the earlier items.
#[derive(Clone, Debug)]
pub(crate) struct TopList<T> {
    count_max: usize,
    /// Heap with the smallest of the kept items on top.
    heap: BinaryHeap<TopEntry<T>>,
}

#[derive(Clone, Debug)]
struct TopEntry<T> {
    /// The key, then the position of the item.
    rank: (u64, Reverse<EventAddress>),
    item: T,
}

impl<T> TopList<T> {
    pub(crate) const fn new(count_max: usize) -> Self {
        Self { count_max, heap: BinaryHeap::new() }
    }

    /// Returns true if an item with this key would be kept.
    pub(crate) fn wants(&self, key: u64, address: EventAddress) -> bool {
        match self.heap.peek() {
            Some(least) if self.heap.len() >= self.count_max => (key, Reverse(address)) > least.rank,
            _ => self.count_max > 0,
        }
    }

    pub(crate) fn add(&mut self, key: u64, address: EventAddress, item: T) {
        if self.wants(key, address) {
            self.heap.push(TopEntry { rank: (key, Reverse(address)), item });
            if self.heap.len() > self.count_max {
                self.heap.pop();
            }
        }
    }

    /// Adds the items of another list, each converted by `adopt`.
    pub(crate) fn merge(&mut self, other: Self, adopt: impl Fn(T) -> T) {
        for entry in other.heap {
            let (key, Reverse(address)) = entry.rank;
            if self.wants(key, address) {
                self.add(key, address, adopt(entry.item));
            }
        }
    }

    /// Returns the items, the largest first.
    pub(crate) fn sorted(&self) -> Vec<&T> {
        let mut entries: Vec<_> = self.heap.iter().collect();
        entries.sort_by_key(|entry| Reverse(entry.rank));
        entries.into_iter().map(|entry| &entry.item).collect()
    }
}

impl<T> Ord for TopEntry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl<T> PartialOrd for TopEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for TopEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for TopEntry<T> {}

#[cfg(test)]
mod tests {
    use super::TopList;
    use crate::stats::event_address::EventAddress;

    fn check(count_max: usize, keys: &[u64], expected: &[(u64, u64)]) {
        let (mut whole, mut halves) =
            (TopList::new(count_max), [TopList::new(count_max), TopList::new(count_max)]);
        for (offset, &key) in (0..).zip(keys) {
            let address = EventAddress { log: 0, offset };
            whole.add(key, address, (key, offset));
            halves[(offset % 2) as usize].add(key, address, (key, offset));
        }
        let [mut merged, other] = halves;
        merged.merge(other, |item| item);
        for top in [whole, merged] {
            let found: Vec<(u64, u64)> = top.sorted().into_iter().copied().collect();
            assert_eq!(found, expected, "{keys:?}");
        }
    }

    #[test]
    fn the_largest_are_first_and_ties_keep_their_order() {
        check(0, &[1, 2], &[]);
        check(2, &[], &[]);
        check(2, &[5], &[(5, 0)]);
        check(2, &[1, 3, 2, 3, 3], &[(3, 1), (3, 3)]);
        check(3, &[9, 1, 8, 2, 7, 3], &[(9, 0), (8, 2), (7, 4)]);
    }
}
