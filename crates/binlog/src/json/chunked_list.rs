//! A list that is fast to insert into at any index.

/// Maximum number of values in a run; a full run is split in two.
const CHUNK_SIZE_MAX: usize = 1024;

/// List of values, stored in runs of limited length. Inserting or removing a value moves only the following values of
/// its run.
#[derive(Clone, Debug)]
pub(super) struct ChunkedList<T> {
    /// Runs in order; none is empty.
    runs: Vec<Vec<T>>,
    count: usize,
}

impl<T> ChunkedList<T> {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().flatten()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let (run, within) = self.find(index);
        self.runs.get_mut(run)?.get_mut(within)
    }

    /// Inserts a value before `index`, or at the end.
    pub(super) fn insert(&mut self, index: usize, value: T) {
        let (mut run, mut within) = self.find(index);
        if run == self.runs.len() {
            // `index` is the end of the list: insert at the end of the last run, if there is one.
            run = run.saturating_sub(1);
            within = self.runs.last().map_or(0, Vec::len);
        }
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        if self.runs[run].len() == CHUNK_SIZE_MAX {
            let half = self.runs[run].split_off(CHUNK_SIZE_MAX / 2);
            self.runs.insert(run + 1, half);
            if within > CHUNK_SIZE_MAX / 2 {
                (run, within) = (run + 1, within - CHUNK_SIZE_MAX / 2);
            }
        }
        self.runs[run].insert(within, value);
        self.count += 1;
    }

    /// Removes the value at `index`, if there is one.
    pub(super) fn remove(&mut self, index: usize) {
        let (run, within) = self.find(index);
        if let Some(values) = self.runs.get_mut(run).filter(|values| within < values.len()) {
            values.remove(within);
            self.count -= 1;
            if values.is_empty() {
                self.runs.remove(run);
            }
        }
    }

    /// Searches a sorted list, like `slice::binary_search_by`.
    pub(super) fn search_by(&self, mut order: impl FnMut(&T) -> std::cmp::Ordering) -> Result<usize, usize> {
        let run = self.runs.partition_point(|run| run.last().is_some_and(|last| order(last).is_lt()));
        let before: usize = self.runs[..run].iter().map(Vec::len).sum();
        match self.runs.get(run).map_or(Err(0), |values| values.binary_search_by(order)) {
            Ok(within) => Ok(before + within),
            Err(within) => Err(before + within),
        }
    }

    /// Returns the run of the value at `index`, and the index within the run.
    fn find(&self, index: usize) -> (usize, usize) {
        let mut within = index;
        for (run, values) in self.runs.iter().enumerate() {
            match within.checked_sub(values.len()) {
                Some(less) => within = less,
                None => return (run, within),
            }
        }
        (self.runs.len(), within)
    }
}

impl<T> FromIterator<T> for ChunkedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let (mut runs, mut count): (Vec<Vec<T>>, usize) = (Vec::new(), 0);
        for value in values {
            match runs.last_mut().filter(|run| run.len() < CHUNK_SIZE_MAX) {
                Some(run) => run.push(value),
                None => runs.push(vec![value]),
            }
            count += 1;
        }
        Self { runs, count }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{CHUNK_SIZE_MAX, ChunkedList};

    proptest! {
        #[test]
        fn operations_equal_those_of_one_list(start in 0..3 * CHUNK_SIZE_MAX, steps in vec((any::<bool>(), any::<usize>()), 0..300)) {
            let mut model: Vec<usize> = (0..start).collect();
            let mut runs: ChunkedList<usize> = model.iter().copied().collect();
            for (is_insert, number) in steps {
                if is_insert || model.is_empty() {
                    let index = number % (model.len() + 1);
                    model.insert(index, number);
                    runs.insert(index, number);
                } else {
                    let index = number % model.len();
                    prop_assert_eq!(runs.get_mut(index).copied(), Some(model.remove(index)));
                    runs.remove(index);
                }
            }
            prop_assert!(runs.iter().eq(&model));
            prop_assert_eq!((runs.len(), runs.get_mut(model.len())), (model.len(), None));
            model.sort_unstable();
            model.dedup();
            let runs: ChunkedList<usize> = model.iter().copied().collect();
            for searched in 0..start + 2 {
                let found = runs.search_by(|value| value.cmp(&searched));
                prop_assert_eq!(found, model.binary_search(&searched));
            }
        }
    }

    /// Each value is inserted before all others. Moving all values each time would take hours.
    #[test]
    fn a_million_at_the_front() {
        let mut runs: ChunkedList<[u64; 8]> = ChunkedList::from_iter([]);
        (0..1_000_000).for_each(|number| runs.insert(0, [number; 8]));
        assert_eq!((runs.len(), runs.iter().next()), (1_000_000, Some(&[999_999; 8])));
    }
}
