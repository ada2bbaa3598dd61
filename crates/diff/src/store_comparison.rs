//! Compares the indexes of two stores.

use binlog::TransactionId;

use crate::content_scanner::EventLocation;
use crate::sequence_alignment::{align, out_of_order};
use crate::store_diff::{
    LogPosition, OneSidedTransactions, OrderDifferences, OrderExample, OrderedTransaction, StoreDiff,
    StoreSummary,
};
use crate::store_reader::DiffStore;
use crate::transaction_index::{GtidOrigin, IndexEntry, TransactionIndex};
use crate::transaction_ranges::TransactionRanges;

/// Compares the indexes of two stores.
#[derive(Debug)]
pub(crate) struct StoreComparison<'c> {
    stores: [&'c DiffStore; 2],
    indexes: [TransactionIndex; 2],
    /// Indexes of the transactions that are in both stores, in the order of A.
    pairs: Vec<[u32; 2]>,
    /// Pairs with different content.
    different: Vec<[u32; 2]>,
    /// Transactions that are in one store only.
    one_sided: [Vec<u32>; 2],
    /// Number of repeated transactions in each store.
    repeated: [u64; 2],
    /// Transactions of one store that the other store need not contain.
    purged: [Vec<u32>; 2],
}

/// Transaction with different content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DifferentPair {
    pub(crate) id: TransactionId,
    pub(crate) locations: [EventLocation; 2],
}

impl<'c> StoreComparison<'c> {
    pub(crate) fn new(stores: [&'c DiffStore; 2], mut indexes: [TransactionIndex; 2]) -> Self {
        unify_sources(&mut indexes);
        let mut comparison = Self {
            stores,
            indexes,
            pairs: Vec::new(),
            different: Vec::new(),
            one_sided: Default::default(),
            repeated: [0, 0],
            purged: Default::default(),
        };
        comparison.join_named();
        comparison.join_nameless();
        comparison.pairs.sort_unstable();
        comparison.different.sort_unstable();
        comparison
    }

    /// Returns the transactions with different content, in the order of A.
    pub(crate) fn different(&self) -> impl ExactSizeIterator<Item = DifferentPair> {
        self.different.iter().map(|pair| {
            let [a, b] = self.entries(*pair);
            DifferentPair { id: self.indexes[0].id(a), locations: [a.location(), b.location()] }
        })
    }

    /// Returns all differences except in contents.
    pub(crate) fn diff(&self) -> StoreDiff {
        let purged = [0, 1].map(|side| {
            let mut ranges = TransactionRanges::default();
            self.purged[side].iter().for_each(|index| ranges.add(self.id(side, *index)));
            ranges
        });
        StoreDiff {
            stores: [0, 1].map(|side| self.summary(side)),
            common: self.pairs.len() as u64,
            missing: [0, 1].map(|side| self.missing(side)),
            purged,
            content: Default::default(),
            order: self.order(),
            absent: Default::default(),
        }
    }

    fn summary(&self, side: usize) -> StoreSummary {
        let (store, index) = (self.stores[side], &self.indexes[side]);
        StoreSummary {
            name: store.name.clone(),
            logs: store.logs.len() as u64,
            transactions: index.entries.len() as u64,
            repeated: self.repeated[side],
            incomplete: index.incomplete,
            remarks: index.remarks.clone(),
        }
    }

    fn missing(&self, side: usize) -> OneSidedTransactions {
        let common = || self.pairs.iter().map(|pair| pair[side]);
        let (first_common, last_common) = (common().min(), common().max());
        let mut missing = OneSidedTransactions::default();
        for index in &self.one_sided[side] {
            missing.transactions.add(self.id(side, *index));
            missing.before_first_common += u64::from(first_common.is_some_and(|first| *index < first));
            missing.after_last_common += u64::from(last_common.is_some_and(|last| *index > last));
        }
        let first = self.one_sided[side].iter().min();
        let first = first.and_then(|index| self.indexes[side].entries.get(*index as usize));
        missing.first = first.map(|entry| self.position(side, entry.location()));
        missing
    }

    /// Joins the transactions with GTIDs. A repeated transaction counts once.
    fn join_named(&mut self) {
        let [a, b] = [0, 1].map(|side| self.sorted(side));
        let key = |side: usize, index: u32| self.indexes[side].entries.get(index as usize).map(entry_key);
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        let mut joined = JoinedIndexes::default();
        while let Some(next) = [a.peek().map(|index| key(0, **index)), b.peek().map(|index| key(1, **index))]
            .into_iter()
            .flatten()
            .min()
        {
            let mut take = |side: usize| {
                let rest = if side == 0 { &mut a } else { &mut b };
                let first = rest.next_if(|index| key(side, **index) == next).copied();
                while rest.next_if(|index| key(side, **index) == next).is_some() {
                    joined.repeated[side] += 1;
                }
                first
            };
            match (take(0), take(1)) {
                (Some(a), Some(b)) => joined.pairs.push([a, b]),
                (Some(a), None) => joined.one_sided[0].push(a),
                (None, Some(b)) => joined.one_sided[1].push(b),
                (None, None) => unreachable!("ours: one store has the next key"),
            }
        }
        self.repeated = joined.repeated;
        for pair in joined.pairs {
            let [a, b] = self.entries(pair);
            if a.hash != b.hash {
                self.different.push(pair);
            }
            self.pairs.push(pair);
        }
        for (side, found) in joined.one_sided.into_iter().enumerate() {
            let purged = &self.indexes[1 - side].purged;
            let (before, missing) =
                found.into_iter().partition(|index| purged.contains(self.id(side, *index)));
            (self.purged[side], self.one_sided[side]) = (before, missing);
        }
    }

    /// Returns the transactions with GTIDs, ordered by identifier, then by position.
    fn sorted(&self, side: usize) -> Vec<u32> {
        let index = &self.indexes[side];
        let is_named = |(_, entry): &(usize, &IndexEntry)| index.source(entry) != GtidOrigin::Nameless;
        let named = index.entries.iter().enumerate().filter(is_named);
        let mut sorted: Vec<u32> = named.map(|(number, _)| number as u32).collect();
        sorted.sort_by_key(|number| index.entries.get(*number as usize).map(entry_key));
        sorted
    }

    /// Joins the transactions without GTIDs, by content and order.
    fn join_nameless(&mut self) {
        let [a, b] = [0, 1].map(|side| self.nameless(side));
        let hashes = |side: usize, list: &[u32]| -> Vec<[u64; 2]> {
            list.iter()
                .filter_map(|index| Some(self.indexes[side].entries.get(*index as usize)?.hash))
                .collect()
        };
        let aligned = align(&hashes(0, &a), &hashes(1, &b));
        let (mut from, mut is_first) = ([0, 0], !aligned.is_empty());
        let ends = [a.len() as u32, b.len() as u32];
        for to in aligned.into_iter().chain([ends]) {
            let gap_a = a.get(from[0] as usize..to[0] as usize).unwrap_or_default();
            let gap_b = b.get(from[1] as usize..to[1] as usize).unwrap_or_default();
            if std::mem::take(&mut is_first) && (gap_a.is_empty() || gap_b.is_empty()) {
                // The other store may have purged the transactions before the first equal transaction.
                self.purged[0].extend(gap_a);
                self.purged[1].extend(gap_b);
            } else {
                self.join_gap(gap_a, gap_b);
            }
            if let (Some(a), Some(b)) = (a.get(to[0] as usize), b.get(to[1] as usize))
                && to != ends
            {
                self.pairs.push([*a, *b]);
            }
            from = to.map(|index| index + 1);
        }
    }

    /// Joins different transactions without GTIDs between two equal transactions.
    fn join_gap(&mut self, a: &[u32], b: &[u32]) {
        let pairs = a.iter().zip(b).map(|(a, b)| [*a, *b]);
        self.different.extend(pairs.clone());
        self.pairs.extend(pairs);
        self.one_sided[0].extend(a.iter().skip(b.len()));
        self.one_sided[1].extend(b.iter().skip(a.len()));
    }

    fn nameless(&self, side: usize) -> Vec<u32> {
        let index = &self.indexes[side];
        let all = index.entries.iter().enumerate();
        let nameless = all.filter(|(_, entry)| index.source(entry) == GtidOrigin::Nameless);
        nameless.map(|(number, _)| number as u32).collect()
    }

    /// Compares the order of the common transactions, by domain.
    fn order(&self) -> OrderDifferences {
        let domain = |pair: &[u32; 2]| {
            let [a, _] = self.entries(*pair);
            self.indexes[0].source(a).domain()
        };
        let mut pairs = self.pairs.clone();
        pairs.sort_by_key(domain);
        let mut order = OrderDifferences::default();
        for in_domain in pairs.chunk_by(|one, other| domain(one) == domain(other)) {
            order.moved += out_of_order(&in_domain.iter().map(|[_, b]| *b).collect::<Vec<_>>());
            let mut both = in_domain.windows(2).filter_map(|both| <[_; 2]>::try_from(both).ok());
            if order.example.is_none()
                && let Some([earlier, later]) = both.find(|[[_, earlier], [_, later]]| earlier > later)
            {
                let (earlier, later) = (self.ordered(earlier), self.ordered(later));
                order.example = Some(OrderExample { earlier, later });
            }
        }
        order
    }

    fn ordered(&self, pair: [u32; 2]) -> OrderedTransaction {
        let [a, b] = self.entries(pair);
        let positions = [self.position(0, a.location()), self.position(1, b.location())];
        OrderedTransaction { id: self.indexes[0].id(a), positions }
    }

    /// Returns a position with the name of its log.
    pub(crate) fn position(&self, side: usize, location: EventLocation) -> LogPosition {
        let log = self.stores[side].logs.get(location.log as usize);
        let log = log.map(|log| log.display().to_string()).unwrap_or_default();
        LogPosition { log, position: location.offset }
    }

    fn id(&self, side: usize, index: u32) -> TransactionId {
        let index_of_side = &self.indexes[side];
        let entry = index_of_side.entries.get(index as usize);
        entry.map_or(TransactionId::Unsaid, |entry| index_of_side.id(entry))
    }

    fn entries(&self, pair: [u32; 2]) -> [&IndexEntry; 2] {
        [0, 1].map(|side| &self.indexes[side].entries[pair[side] as usize])
    }
}

/// Transactions of both stores, joined by their identifiers.
#[derive(Default)]
struct JoinedIndexes {
    pairs: Vec<[u32; 2]>,
    one_sided: [Vec<u32>; 2],
    repeated: [u64; 2],
}

const fn entry_key(entry: &IndexEntry) -> (u32, u64) {
    (entry.source, entry.number)
}

/// Gives each origin the same index in both stores, in the order of the origins.
fn unify_sources(indexes: &mut [TransactionIndex; 2]) {
    let mut all: Vec<GtidOrigin> = indexes.iter().flat_map(|index| &index.sources).copied().collect();
    all.sort_unstable();
    all.dedup();
    for index in indexes {
        let unified = |source: &GtidOrigin| all.binary_search(source).unwrap_or_default() as u32;
        let map: Vec<u32> = index.sources.iter().map(unified).collect();
        for entry in &mut index.entries {
            entry.source = map.get(entry.source as usize).copied().unwrap_or_default();
        }
        index.sources.clone_from(&all);
    }
}
