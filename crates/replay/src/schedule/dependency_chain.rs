//! Possible parallelism: the longest chain of groups that wait for each other.

use std::hash::BuildHasherDefault;

use hashbrown::HashMap;

use super::identity_hasher::IdentityHasher;
use super::schedule_claim::ScheduleClaim;
use super::wait_rule::WaitRule;

/// Finds the longest chain of groups that wait for each other, as if a schedule had room for all groups. The number of
/// groups divided by the chain's length is the average parallelism.
#[derive(Clone, Debug, Default)]
pub struct DependencyChain {
    /// Entries since the last group that ran alone, one for each group that made the longest chain longer: number of
    /// the group's first transaction, and length of the longest chain of all groups up to this group.
    works: Vec<(u64, u64)>,
    count: u64,
    longest: u64,
    /// Number of the first transaction of the last group.
    last_start: u64,
    /// Length of a chain that every later group follows.
    floor: u64,
    holders: HashMap<u64, ChainHolder, BuildHasherDefault<IdentityHasher>>,
}

/// Longest chains that end at a key.
#[derive(Clone, Copy, Debug, Default)]
struct ChainHolder {
    exclusive: u64,
    /// Longest chain of all groups up to the last group that shares the key: groups that share a key are not tracked
    /// individually.
    shared: u64,
}

/// Maximum number of tracked keys. Beyond it, all keys are forgotten, and later groups count as dependent on all
/// earlier ones. Bounds memory, and can only make chains longer.
const KEYS_MAX: usize = 1 << 22;

impl DependencyChain {
    /// Takes the next group. Claims come in the order of their transactions.
    pub fn add(&mut self, claim: &ScheduleClaim) {
        assert!(self.last_start <= claim.units.start, "ours: claims come in the order of their transactions");
        let longest = self.longest;
        if self.holders.len() > KEYS_MAX {
            self.holders.clear();
            self.floor = longest;
        }
        let waits_for = match claim.wait {
            WaitRule::ForAll => longest,
            WaitRule::Below(unit) => self.longest_before(unit),
        };
        let mut previous = waits_for.max(self.floor);
        for key in &claim.keys.exclusive {
            let holder = self.holders.get(key).copied().unwrap_or_default();
            previous = previous.max(holder.exclusive).max(holder.shared);
        }
        for key in &claim.keys.shared {
            previous = previous.max(self.holders.get(key).map_or(0, |holder| holder.exclusive));
        }
        let length = previous + 1;
        for key in &claim.keys.shared {
            let holder = self.holders.entry(*key).or_default();
            holder.shared = longest.max(length);
        }
        for key in &claim.keys.exclusive {
            self.holders.insert(*key, ChainHolder { exclusive: length, shared: 0 });
        }
        if claim.wait == WaitRule::ForAll {
            self.floor = length;
            self.works.clear();
        }
        if length > longest {
            self.longest = length;
            self.works.push((claim.units.start, length));
        }
        self.last_start = claim.units.start;
        self.count += 1;
        assert!(length <= self.count, "ours: no chain is longer than the number of groups");
    }

    /// Returns the number of groups.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the length of the longest chain.
    pub const fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the longest chain of the groups that start before a transaction; 0 if a group that ran alone follows it.
    fn longest_before(&self, unit: u64) -> u64 {
        let count = self.works.partition_point(|(start, _)| *start < unit);
        count.checked_sub(1).map_or(0, |last| self.works[last].1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::DependencyChain;
    use crate::schedule::wait_rule::WaitRule;
    use crate::schedule::{
        ChangedKeys, ClaimBuilder, Exclusivity, KeySet, ParallelMode, Schedule, ScheduleClaim,
        TransactionFootprint,
    };

    /// Returns the number of steps with unlimited workers; in each step all groups that can start run.
    fn steps(claims: Vec<ScheduleClaim>) -> u64 {
        let mut schedule = Schedule::new(usize::MAX);
        for claim in claims {
            schedule.offer(claim);
        }
        let mut steps = 0;
        while schedule.open_count() > 0 {
            let started: Vec<u64> = std::iter::from_fn(|| schedule.start()).collect();
            started.into_iter().for_each(|number| schedule.mark_committed(number));
            steps += 1;
        }
        steps
    }

    #[test]
    fn groups_that_no_later_group_depends_on_are_forgotten() {
        let mut chain = DependencyChain::default();
        let mut alone = ClaimBuilder::new(ParallelMode::None);
        let mut parallel = ClaimBuilder::new(ParallelMode::Writeset);
        let footprint = |number: u64| TransactionFootprint {
            keys: ChangedKeys::Known(KeySet { exclusive: vec![number], shared: Vec::new() }),
            ..TransactionFootprint::default()
        };
        for number in 0..1000 {
            let claims = if number % 2 == 0 { &mut alone } else { &mut parallel };
            chain.add(&claims.claim(number, &footprint(number)).unwrap());
        }
        assert_eq!((chain.count(), chain.longest()), (1000, 1000));
        assert!(chain.works.len() <= 2);
        let mut chain = DependencyChain::default();
        for number in 0..1000 {
            chain.add(&parallel.claim(1000 + number, &footprint(number)).unwrap());
        }
        assert_eq!((chain.count(), chain.longest(), chain.works.len()), (1000, 1, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_chain_is_as_long_as_a_schedule_takes(works in vec((vec(0..6_u64, 0..3), vec(0..6_u64, 0..2), 0..20_u8, any::<bool>(), 0..30_u64), 0..40)) {
            let mut claims = ClaimBuilder::new(ParallelMode::Writeset);
            let (mut chain, mut all) = (DependencyChain::default(), Vec::<ScheduleClaim>::new());
            for (number, (exclusive, shared, alone, joins, gap)) in (0..).zip(works) {
                let exclusivity = if alone == 0 { Exclusivity::Exclusive } else { Exclusivity::Shared };
                let keys = ChangedKeys::Known(KeySet { exclusive, shared });
                let mut claim = claims.claim(number, &TransactionFootprint { exclusivity, keys, ..TransactionFootprint::default() }).unwrap();
                if !claim.is_alone() {
                    // As by a logical clock.
                    claim.wait = WaitRule::Below(number.saturating_sub(gap));
                }
                match all.last_mut() {
                    Some(last) if joins => last.join(claim),
                    _ => all.push(claim),
                }
            }
            all.iter().for_each(|claim| chain.add(claim));
            prop_assert_eq!(chain.count(), all.len() as u64);
            prop_assert_eq!(chain.longest(), steps(all));
        }
    }
}
