//! Window of recent searches, whose pages are still in memory, and batching of searches.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::search_plan::{PageSearch, SearchTarget};
use crate::warm_shared::StatementSearch;

/// Window of recent searches: at least the last `size`, at most twice as many.
#[derive(Debug)]
pub struct SearchWindow {
    size: usize,
    hasher: RandomState,
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl SearchWindow {
    /// Creates a window of at least `size` searches.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(1), hasher: RandomState::new(), newer: HashSet::new(), older: HashSet::new() }
    }

    /// Removes all searches.
    pub fn clear(&mut self) {
        self.newer.clear();
        self.older.clear();
    }

    /// Adds a search; returns whether it is new.
    pub fn is_new(&mut self, search: &PageSearch<'_>) -> bool {
        // After a hash collision, the applier merely reads the page itself.
        self.take(self.hasher.hash_one((identity(search.target), &search.key)))
    }

    /// Adds a search for a statement's rows; returns whether it is new.
    pub(crate) fn is_new_text(&mut self, search: &StatementSearch) -> bool {
        self.take(self.hasher.hash_one(search))
    }

    fn take(&mut self, hash: u64) -> bool {
        if self.newer.contains(&hash) || self.older.contains(&hash) {
            return false;
        }
        if self.newer.len() >= self.size {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(hash)
    }
}

fn identity(target: &Arc<SearchTarget>) -> (&str, &str) {
    (&target.table, &target.index)
}

/// Searches of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchBatch {
    /// Index to search in.
    pub aim: Arc<SearchTarget>,
    /// SQL condition of each search.
    pub keys: Vec<String>,
}

impl SearchBatch {
    /// Returns the SQL statement, which searches for each key, reads only the index, and returns a 1 for each key
    /// found.
    ///
    /// The statement does not use one search for all keys (`IN (…)`): a server whose statistics show a small table
    /// would scan the whole index.
    pub fn sql(&self) -> String {
        let SearchTarget { table, index, .. } = &*self.aim;
        let searches: Vec<String> = self
            .keys
            .iter()
            .map(|key| format!("SELECT 1 FROM {table} FORCE INDEX ({index}) WHERE {key}"))
            .collect();
        format!("/* bintide warm */ {}", searches.join(" UNION ALL "))
    }
}

/// Collector of searches into batches, one per index.
#[derive(Debug)]
pub struct SearchBatcher {
    size: usize,
    open: Vec<SearchBatch>,
}

impl SearchBatcher {
    /// Creates a batcher for batches of `size` searches.
    pub const fn new(size: usize) -> Self {
        Self { size, open: Vec::new() }
    }

    /// Adds a search; returns the batch that it fills.
    pub fn add(&mut self, search: PageSearch<'_>) -> Option<SearchBatch> {
        let found = self.open.iter().position(|batch| Arc::ptr_eq(&batch.aim, search.target));
        let at = found.unwrap_or_else(|| {
            self.open.push(SearchBatch { aim: Arc::clone(search.target), keys: Vec::new() });
            self.open.len() - 1
        });
        let batch = &mut self.open[at];
        batch.keys.push(search.key);
        (batch.keys.len() >= self.size).then(|| self.open.swap_remove(at))
    }

    /// Takes the batches that are not full.
    pub fn flush(&mut self) -> Vec<SearchBatch> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{SearchBatcher, SearchWindow};
    use crate::search_plan::{PageSearch, SearchTarget};

    fn aim(index: &str, columns: &[&str]) -> Arc<SearchTarget> {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Arc::new(SearchTarget { table: "`d`.`t`".to_owned(), index: index.to_owned(), columns })
    }

    fn value(aim: &Arc<SearchTarget>, value: u64) -> PageSearch<'_> {
        PageSearch { target: aim, key: format!("`a`={value}") }
    }

    #[test]
    fn repeated_searches_are_dropped() {
        let (primary, other) = (aim("`PRIMARY`", &["`a`"]), aim("`k`", &["`b`"]));
        let mut window = SearchWindow::new(3);
        let mut check = |search, expected| assert_eq!(window.is_new(&search), expected, "{search:?}");
        check(value(&primary, 1), true);
        check(value(&primary, 1), false);
        check(value(&other, 1), true);
        for number in 2..10 {
            check(value(&primary, number), true);
            check(value(&primary, number), false);
        }
        check(value(&primary, 7), false);
        check(value(&primary, 1), true);
    }

    #[test]
    fn batches_have_one_index() {
        let (primary, other) = (aim("`PRIMARY`", &["`a`"]), aim("`k`", &["`b`", "`a`"]));
        let mut batcher = SearchBatcher::new(2);
        assert_eq!(batcher.add(value(&primary, 1)), None);
        assert_eq!(batcher.add(PageSearch { target: &other, key: "`b`=5 AND `a`=1".to_owned() }), None);
        let full = batcher.add(value(&primary, 2)).unwrap().sql();
        let select = "SELECT 1 FROM `d`.`t` FORCE INDEX";
        let [one, two] = [1, 2].map(|key| format!("{select} (`PRIMARY`) WHERE `a`={key}"));
        assert_eq!(full, format!("/* bintide warm */ {one} UNION ALL {two}"));
        let rest: Vec<String> = batcher.flush().iter().map(super::SearchBatch::sql).collect();
        assert_eq!(rest, [format!("/* bintide warm */ {select} (`k`) WHERE `b`=5 AND `a`=1")]);
        assert!(batcher.flush().is_empty());
    }
}
