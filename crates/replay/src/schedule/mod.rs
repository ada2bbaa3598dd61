//! The schedule: decides which commit groups may run at the same time.
//!
//! Transactions arrive in source order as [`TransactionFootprint`]s. A [`ClaimBuilder`] turns each into a
//! [`ScheduleClaim`], as its [`ParallelMode`] requires. The claims of a commit group are joined. The [`Schedule`] takes
//! claims and decides which groups may start.
//!
//! | mode | waits for |
//! |---|---|
//! | none | all earlier transactions |
//! | logical clock | all up to the transaction that the source's clock names; a group's first: all before it |
//! | database | changes of one of the same databases |
//! | writeset | changes of one of the same rows |
//! | writeset session | as writeset, and transactions of the same session |
//!
//! A logical clock names the last transaction that must be committed first, and thereby all earlier ones. Of several
//! joined transactions, one mostly depends on a neighbour, so the group waits for all earlier groups. In the other
//! modes, commit groups run in parallel.
//!
//! This module does no I/O, reads no clock and starts no thread: tests can call it in any order.

mod clock_reader;
mod dependency_chain;
mod identity_hasher;
#[cfg(test)]
mod property;
mod schedule_claim;
#[cfg(test)]
mod scripts;
mod wait_rule;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::BuildHasherDefault;
use std::ops::Range;

use hashbrown::HashMap;

pub use self::clock_reader::ClockError;
pub use self::dependency_chain::DependencyChain;
use self::identity_hasher::IdentityHasher;
pub use self::schedule_claim::{
    CLAIM_KEYS_MAX, ChangedDatabases, ChangedKeys, ClaimBuilder, Exclusivity, KeySet, ParallelMode,
    ScheduleClaim, TransactionFootprint,
};
use self::wait_rule::WaitRule;

/// Decides which groups may start. Groups are numbered 0, 1, 2… in the order in which they are offered.
///
/// ```
/// use replay::schedule::{ClaimBuilder, ChangedDatabases, TransactionFootprint, ParallelMode, Schedule};
///
/// let mut claims = ClaimBuilder::new(ParallelMode::Database);
/// let mut schedule = Schedule::new(4);
/// for (number, name) in ["a", "b", "a"].into_iter().enumerate() {
///     let databases = ChangedDatabases::Known(vec![name.as_bytes().into()]);
///     let claim = claims.claim(number as u64, &TransactionFootprint { databases, ..TransactionFootprint::default() })?;
///     schedule.offer(claim);
/// }
/// assert_eq!((schedule.start(), schedule.start(), schedule.start()), (Some(0), Some(1), None));
/// schedule.mark_committed(0);
/// assert_eq!(schedule.start(), Some(2));
/// # Ok::<(), replay::schedule::ClockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    workers: usize,
    /// The first uncommitted group, and all groups after it.
    items: VecDeque<ScheduleItem>,
    /// Number of the first item.
    first: u64,
    /// All later groups wait for all groups with lower numbers than this.
    floor: u64,
    /// Number of groups that have started and not committed.
    running: usize,
    /// Groups that may start, the lowest number first.
    ready: BinaryHeap<Reverse<u64>>,
    /// Groups that wait for all groups below a number, as (that number, own number).
    waiting: BinaryHeap<Reverse<(u64, u64)>>,
    holders: HashMap<u64, KeyHolder, BuildHasherDefault<IdentityHasher>>,
    keys: usize,
}

#[derive(Clone, Debug)]
struct ScheduleItem {
    phase: ItemPhase,
    /// Numbers of the group's transactions.
    units: Range<u64>,
    /// Number of dependencies that are not committed.
    blockers: u32,
    /// Groups that wait for this group.
    dependents: Vec<u64>,
    keys: KeySet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemPhase {
    Waiting,
    Started,
    Committed,
}

/// Groups that have a key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHolder {
    /// The last group that has the key exclusively.
    exclusive: Option<u64>,
    /// The last group that has shared the key since then.
    shared: Option<u64>,
}

impl Schedule {
    /// Maximum number of groups offered and not committed. Bounds memory.
    pub const ITEMS_MAX: usize = 1 << 16;

    /// Maximum number of the keys of these groups, without the last group. Bounds memory.
    pub const KEYS_MAX: usize = 1 << 20;

    /// Creates a schedule that runs this number of groups at a time, including those that wait to commit.
    ///
    /// # Panics
    ///
    /// If `workers` is 0.
    pub fn new(workers: usize) -> Self {
        assert!(workers > 0, "ours: a schedule has workers");
        Self {
            workers,
            items: VecDeque::new(),
            first: 0,
            floor: 0,
            running: 0,
            ready: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            holders: HashMap::default(),
            keys: 0,
        }
    }

    /// Returns whether another group may be offered. If not, wait for a commit.
    pub fn has_room(&self) -> bool {
        self.items.len() < Self::ITEMS_MAX && self.keys < Self::KEYS_MAX
    }

    /// Returns the number of groups offered and not committed.
    pub fn open_count(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of groups started and not committed.
    pub fn running_count(&self) -> usize {
        self.running
    }

    /// Takes the next group and returns its number.
    ///
    /// # Panics
    ///
    /// If [`Schedule::has_room`] is false, or the claim's transactions do not follow the earlier ones.
    pub fn offer(&mut self, claim: ScheduleClaim) -> u64 {
        assert!(self.has_room(), "ours: callers check has_room first");
        let ScheduleClaim { units, wait, keys } = claim;
        let last_end = self.items.back().map_or(0, |item| item.units.end);
        assert!(last_end <= units.start, "ours: work is offered in order");
        assert!(units.start < units.end, "ours: a group has a transaction");
        let number = self.end();
        let below = match wait {
            WaitRule::ForAll => number,
            WaitRule::Below(below) => self.first_from(below),
        };
        let mut below = below.max(self.floor);
        if wait == WaitRule::ForAll {
            self.floor = number + 1;
        }
        let mut blockers = 0;
        for &key in &keys.exclusive {
            let holder = self.holders.entry(key).or_default();
            // Groups that share a key are not tracked individually.
            below = below.max(holder.shared.take().map_or(0, |last| last + 1));
            let before = holder.exclusive.replace(number);
            blockers += wait_for(&mut self.items, self.first, before, number);
        }
        for &key in &keys.shared {
            let holder = self.holders.entry(key).or_default();
            if holder.exclusive != Some(number) {
                holder.shared = Some(number);
                blockers += wait_for(&mut self.items, self.first, holder.exclusive, number);
            }
        }
        if below > self.first {
            self.waiting.push(Reverse((below, number)));
            blockers += 1;
        }
        if blockers == 0 {
            self.ready.push(Reverse(number));
        }
        self.keys += keys.len();
        self.items.push_back(ScheduleItem {
            phase: ItemPhase::Waiting,
            units,
            blockers,
            dependents: Vec::new(),
            keys,
        });
        number
    }

    /// Returns the number of the next group.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Returns the number of the first group that has no transaction below `unit`.
    fn first_from(&self, unit: u64) -> u64 {
        self.first + self.items.partition_point(|item| item.units.start < unit) as u64
    }

    /// Starts the group with the lowest number that may start, if a worker is free.
    ///
    /// The first uncommitted group has therefore always started, so a group that waits to commit waits for a group that
    /// can commit. A group that is rolled back and retried counts as started.
    pub fn start(&mut self) -> Option<u64> {
        if !self.can_start() {
            return None;
        }
        let Reverse(number) = self.ready.pop()?;
        let item = self.item(number);
        assert_eq!(item.phase, ItemPhase::Waiting, "ours: a group starts once");
        assert_eq!(item.blockers, 0, "ours: a group that starts waits for no other");
        item.phase = ItemPhase::Started;
        self.running += 1;
        assert!(self.running <= self.workers, "ours: a group starts only if a worker is free");
        Some(number)
    }

    /// Returns whether [`Schedule::start`] would return a group.
    pub fn can_start(&self) -> bool {
        self.running < self.workers && !self.ready.is_empty()
    }

    /// Records that a group is committed.
    ///
    /// # Panics
    ///
    /// If the group has not started, or is already committed.
    pub fn mark_committed(&mut self, number: u64) {
        let item = self.item(number);
        assert_eq!(item.phase, ItemPhase::Started, "ours: a group that commits has started");
        item.phase = ItemPhase::Committed;
        let dependents = std::mem::take(&mut item.dependents);
        assert!(self.running > 0, "ours: started groups are counted");
        self.running -= 1;
        for dependent in dependents {
            self.release(dependent);
        }
        self.advance();
    }

    /// Removes committed groups from the front.
    fn advance(&mut self) {
        while self.items.front().is_some_and(|item| item.phase == ItemPhase::Committed) {
            let Some(item) = self.items.pop_front() else { break };
            assert_eq!(item.blockers, 0, "ours: a committed group waits for nothing");
            assert!(self.keys >= item.keys.len(), "ours: the keys of each group are counted");
            self.keys -= item.keys.len();
            for key in item.keys.exclusive.iter().chain(&item.keys.shared) {
                self.forget_key(*key, self.first);
            }
            self.first += 1;
        }
        while let Some(&Reverse((below, number))) = self.waiting.peek()
            && below <= self.first
        {
            self.waiting.pop();
            self.release(number);
        }
    }

    /// Removes a key, unless a group after `number` has it. Group `number` was just removed.
    fn forget_key(&mut self, key: u64, number: u64) {
        if let Some(holder) = self.holders.get(&key)
            && holder.exclusive.is_none_or(|last| last <= number)
            && holder.shared.is_none_or(|last| last <= number)
        {
            self.holders.remove(&key);
        }
    }

    fn release(&mut self, number: u64) {
        let item = self.item(number);
        assert!(item.blockers > 0, "ours: each dependency is released once");
        assert_eq!(item.phase, ItemPhase::Waiting, "ours: only a waiting group has dependencies");
        item.blockers -= 1;
        if item.blockers == 0 {
            self.ready.push(Reverse(number));
        }
    }

    fn item(&mut self, number: u64) -> &mut ScheduleItem {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let item = index.and_then(|index| self.items.get_mut(index));
        item.expect("ours: callers use only numbers of uncommitted groups")
    }
}

/// Makes `number` wait for `holder`, unless `holder` is committed or equals `number`. Returns the number of added
/// dependencies.
fn wait_for(items: &mut VecDeque<ScheduleItem>, first: u64, holder: Option<u64>, number: u64) -> u32 {
    let Some(index) = holder.and_then(|holder| holder.checked_sub(first)) else { return 0 };
    // The holder is `number`, which is not in `items` yet.
    let Some(item) = items.get_mut(index as usize) else { return 0 };
    if item.phase == ItemPhase::Committed || item.dependents.last() == Some(&number) {
        return 0;
    }
    assert!(item.dependents.last().is_none_or(|last| *last < number), "ours: work is offered in order");
    item.dependents.push(number);
    1
}

#[cfg(test)]
mod tests {
    use super::{
        CLAIM_KEYS_MAX, ChangedKeys, ClaimBuilder, KeySet, ParallelMode, Schedule, TransactionFootprint,
    };

    fn footprint(keys: std::ops::Range<u64>) -> TransactionFootprint {
        let (shared, exclusive) = (vec![u64::MAX], keys.collect());
        TransactionFootprint {
            keys: ChangedKeys::Known(KeySet { exclusive, shared }),
            ..TransactionFootprint::default()
        }
    }

    /// Offers groups with `keys` keys of their own until there is no room.
    fn fill(schedule: &mut Schedule, keys: u64) -> usize {
        let mut claims = ClaimBuilder::new(ParallelMode::Writeset);
        let mut number = 0;
        while schedule.has_room() {
            let claim = claims.claim(number, &footprint(number * keys..(number + 1) * keys)).unwrap();
            assert_eq!(schedule.offer(claim), number);
            number += 1;
        }
        assert!(schedule.keys <= Schedule::KEYS_MAX + CLAIM_KEYS_MAX);
        assert!(schedule.holders.len() <= schedule.keys);
        number as usize
    }

    fn drain(schedule: &mut Schedule) {
        while let Some(number) = schedule.start() {
            schedule.mark_committed(number);
        }
        assert_eq!(
            (schedule.open_count(), schedule.running_count(), schedule.keys, schedule.holders.len()),
            (0, 0, 0, 0)
        );
        assert!(schedule.ready.is_empty() && schedule.waiting.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let mut schedule = Schedule::new(4);
        assert_eq!(fill(&mut schedule, 0), Schedule::ITEMS_MAX);
        drain(&mut schedule);
        let mut schedule = Schedule::new(4);
        assert_eq!(fill(&mut schedule, 1 << 17), 8);
        drain(&mut schedule);
    }

    #[test]
    fn too_many_keys_run_alone() {
        let mut claims = ClaimBuilder::new(ParallelMode::Writeset);
        let half = CLAIM_KEYS_MAX as u64 / 2;
        let mut claim = claims.claim(0, &footprint(0..half)).unwrap();
        claim.join(claims.claim(1, &footprint(half..half + 10)).unwrap());
        assert!(!claim.is_alone());
        claim.join(claims.claim(2, &footprint(0..half)).unwrap());
        assert!(claim.is_alone());
        assert_eq!((claim.units(), claim.keys.len()), (0..3, 0));
        assert!(claims.claim(3, &footprint(0..CLAIM_KEYS_MAX as u64)).unwrap().is_alone());
        // Duplicates are removed.
        let mut claim = claims.claim(4, &footprint(0..1000)).unwrap();
        for number in 5..1000 {
            claim.join(claims.claim(number, &footprint(0..1000)).unwrap());
        }
        assert!(!claim.is_alone() && claim.keys.len() <= CLAIM_KEYS_MAX);
    }
}
