//! What was touched lately: a page that was is in memory still.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::shared::TextSearch;
use crate::touch::{Aim, Touch};

/// What was touched lately: at least the last so many, and at most twice as many.
#[derive(Debug)]
pub struct Window {
    size: usize,
    hasher: RandomState,
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl Window {
    /// Of so many touches.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(1), hasher: RandomState::new(), newer: HashSet::new(), older: HashSet::new() }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.newer.clear();
        self.older.clear();
    }

    /// Is this one new? From now on, it is not.
    pub fn is_new(&mut self, touch: &Touch<'_>) -> bool {
        // Two that look the same by chance leave a page to the applier, no more.
        self.take(self.hasher.hash_one((identity(touch.aim), &touch.key)))
    }

    /// The same of what a statement reads.
    pub(crate) fn is_new_text(&mut self, search: &TextSearch) -> bool {
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

fn identity(aim: &Arc<Aim>) -> (&str, &str) {
    (&aim.table, &aim.index)
}

/// Searches that go together in one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Where.
    pub aim: Arc<Aim>,
    /// What for.
    pub keys: Vec<String>,
}

impl Batch {
    /// The statement: a search for each key, which reads nothing but the index, and answers with a 1 if it finds it.
    ///
    /// Not one search for all of them (`IN (…)`): a server whose statistics take the table for a small one would go over
    /// the whole index.
    pub fn sql(&self) -> String {
        let Aim { table, index, .. } = &*self.aim;
        let searches: Vec<String> = self
            .keys
            .iter()
            .map(|key| format!("SELECT 1 FROM {table} FORCE INDEX ({index}) WHERE {key}"))
            .collect();
        format!("/* bintide warm */ {}", searches.join(" UNION ALL "))
    }
}

/// Gathers touches into batches, an index at a time.
#[derive(Debug)]
pub struct Batcher {
    size: usize,
    open: Vec<Batch>,
}

impl Batcher {
    /// Into batches of so many.
    pub const fn new(size: usize) -> Self {
        Self { size, open: Vec::new() }
    }

    /// Adds one; gives the batch that it fills.
    pub fn add(&mut self, touch: Touch<'_>) -> Option<Batch> {
        let found = self.open.iter().position(|batch| Arc::ptr_eq(&batch.aim, touch.aim));
        let at = found.unwrap_or_else(|| {
            self.open.push(Batch { aim: Arc::clone(touch.aim), keys: Vec::new() });
            self.open.len() - 1
        });
        let batch = &mut self.open[at];
        batch.keys.push(touch.key);
        (batch.keys.len() >= self.size).then(|| self.open.swap_remove(at))
    }

    /// Those that are not full: what comes next is not known yet.
    pub fn flush(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Batcher, Window};
    use crate::touch::{Aim, Touch};

    fn aim(index: &str, columns: &[&str]) -> Arc<Aim> {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Arc::new(Aim { table: "`d`.`t`".to_owned(), index: index.to_owned(), columns })
    }

    fn value(aim: &Arc<Aim>, value: u64) -> Touch<'_> {
        Touch { aim, key: format!("`a`={value}") }
    }

    #[test]
    fn a_hot_row_is_touched_once() {
        let (primary, other) = (aim("`PRIMARY`", &["`a`"]), aim("`k`", &["`b`"]));
        let mut window = Window::new(3);
        let mut check = |touch, wanted| assert_eq!(window.is_new(&touch), wanted, "{touch:?}");
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
    fn batches_are_of_one_index() {
        let (primary, other) = (aim("`PRIMARY`", &["`a`"]), aim("`k`", &["`b`", "`a`"]));
        let mut batcher = Batcher::new(2);
        assert_eq!(batcher.add(value(&primary, 1)), None);
        assert_eq!(batcher.add(Touch { aim: &other, key: "`b`=5 AND `a`=1".to_owned() }), None);
        let full = batcher.add(value(&primary, 2)).unwrap().sql();
        let select = "SELECT 1 FROM `d`.`t` FORCE INDEX";
        let [one, two] = [1, 2].map(|key| format!("{select} (`PRIMARY`) WHERE `a`={key}"));
        assert_eq!(full, format!("/* bintide warm */ {one} UNION ALL {two}"));
        let rest: Vec<String> = batcher.flush().iter().map(super::Batch::sql).collect();
        assert_eq!(rest, [format!("/* bintide warm */ {select} (`k`) WHERE `b`=5 AND `a`=1")]);
        assert!(batcher.flush().is_empty());
    }
}
