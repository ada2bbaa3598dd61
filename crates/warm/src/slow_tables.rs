//! Tables whose searches took too long. A search without a suitable index scans the whole table, and delays others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time for which a slow table is excluded from searches.
const SLOW_TABLE_BACKOFF: Duration = Duration::from_secs(60);
/// Recorded tables. Bounds memory.
const TABLES_MAX: usize = 4096;

/// Tables whose searches took too long, and the time of their exclusion.
#[derive(Debug, Default)]
pub(crate) struct SlowTables(HashMap<String, Instant>);

impl SlowTables {
    /// Adds tables of a search that took too long.
    pub(crate) fn add(&mut self, tables: &[String], now: Instant) {
        self.0.retain(|_, since| now.duration_since(*since) < SLOW_TABLE_BACKOFF);
        if self.0.len() < TABLES_MAX {
            self.0.extend(tables.iter().map(|table| (table.clone(), now)));
        }
    }

    /// Returns whether one of these tables is excluded.
    pub(crate) fn contains_any(&self, tables: &[String], now: Instant) -> bool {
        let is_slow =
            |table| self.0.get(table).is_some_and(|since| now.duration_since(*since) < SLOW_TABLE_BACKOFF);
        tables.iter().any(is_slow)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{SLOW_TABLE_BACKOFF, SlowTables};

    #[test]
    fn slow_tables_are_skipped_for_some_time() {
        let (one, other) = (["d.t".to_owned(), "d.u".to_owned()], ["d.v".to_owned()]);
        let now = Instant::now();
        let mut slow = SlowTables::default();
        slow.add(&one, now);
        assert!(slow.contains_any(&one[1..], now) && !slow.contains_any(&other, now));
        let later = now + SLOW_TABLE_BACKOFF;
        assert!(slow.contains_any(&one, later - Duration::from_millis(1)) && !slow.contains_any(&one, later));
        slow.add(&other, later);
        assert_eq!(slow.0.len(), 1);
    }
}
