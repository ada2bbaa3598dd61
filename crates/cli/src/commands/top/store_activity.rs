//! Activity of a store in a recent span of time. Pure: the time is a parameter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use binlog::TransactionId;
use serde::Serialize;

/// Maximum number of tables counted separately for each second. All others are counted together.
const TABLES_MAX: usize = 256;

/// Maximum number of tables that are named for a large transaction.
const NAMED_TABLES_MAX: usize = 8;

/// Maximum number of largest transactions.
const LARGEST_MAX: usize = 10;

/// Name for all other tables.
const OTHER_TABLES: &str = "(other tables)";

/// A transaction of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransactionActivity {
    pub(super) id: TransactionId,
    /// Time of the commit on its server, in microseconds since 1970.
    pub(super) commit_us: u64,
    /// Size in the log, in bytes.
    pub(super) bytes: u64,
    /// Row changes and their bytes, uncompressed, by table.
    pub(super) tables: BTreeMap<String, RowActivity>,
}

/// Row changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowActivity {
    pub(super) rows: u64,
    /// Size of the rows events in bytes.
    pub(super) bytes: u64,
}

impl RowActivity {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Activity of the last seconds.
#[derive(Clone, Debug)]
pub(super) struct StoreActivity {
    window_s: u64,
    /// The oldest first, at most one for each second of the window.
    seconds: VecDeque<ActivitySecond>,
    /// The newest commit.
    newest_us: u64,
}

/// Transactions committed in one second.
#[derive(Clone, Debug, Default)]
struct ActivitySecond {
    second: u64,
    transactions: u64,
    bytes: u64,
    tables: BTreeMap<String, RowActivity>,
    /// The largest first.
    largest: Vec<LargestTransaction>,
}

/// One of the largest transactions.
#[derive(Clone, Debug)]
struct LargestTransaction {
    id: TransactionId,
    commit_us: u64,
    bytes: u64,
    rows: u64,
    /// Some of the transaction's tables, with the most bytes first.
    tables: Vec<String>,
}

impl LargestTransaction {
    fn new(transaction: TransactionActivity) -> Self {
        let TransactionActivity { id, commit_us, bytes, tables } = transaction;
        let rows = tables.values().fold(0, |sum: u64, table| sum.saturating_add(table.rows));
        let mut tables: Vec<_> = tables.into_iter().collect();
        tables.sort_by_key(|(_, rows)| Reverse(rows.bytes));
        let tables = tables.into_iter().take(NAMED_TABLES_MAX).map(|(table, _)| table).collect();
        Self { id, commit_us, bytes, rows, tables }
    }
}

/// Rates and largest transactions in the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ActivitySummary {
    pub(super) window_seconds: u64,
    /// Age of the newest transaction; `None` before the first.
    pub(super) newest_age_seconds: Option<f64>,
    pub(super) transactions_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) tables: Vec<TableRates>,
    pub(super) largest: Vec<TopTransaction>,
}

/// Rates of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TableRates {
    pub(super) table: String,
    pub(super) rows_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// A large transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TopTransaction {
    pub(super) gtid: String,
    pub(super) age_seconds: f64,
    pub(super) bytes: u64,
    pub(super) rows: u64,
    /// Tables, with the most bytes first.
    pub(super) tables: Vec<String>,
}

impl StoreActivity {
    pub(super) const fn new(window_s: u64) -> Self {
        Self { window_s, seconds: VecDeque::new(), newest_us: 0 }
    }

    /// Returns whether a transaction with this commit time is too old to be counted.
    pub(super) const fn is_too_old(&self, commit_us: u64, now_us: u64) -> bool {
        commit_us / 1_000_000 + self.window_s < now_us / 1_000_000
    }

    /// Counts a transaction.
    pub(super) fn add(&mut self, mut transaction: TransactionActivity, now_us: u64) {
        // The clock of the source may be ahead.
        transaction.commit_us = transaction.commit_us.min(now_us);
        self.newest_us = self.newest_us.max(transaction.commit_us);
        self.expire(now_us);
        if self.is_too_old(transaction.commit_us, now_us) {
            return;
        }
        let second = transaction.commit_us / 1_000_000;
        let index = self.seconds.partition_point(|found| found.second < second);
        if self.seconds.get(index).is_none_or(|found| found.second != second) {
            self.seconds.insert(index, ActivitySecond { second, ..ActivitySecond::default() });
        }
        self.seconds[index].add(transaction);
    }

    fn expire(&mut self, now_us: u64) {
        let first = (now_us / 1_000_000).saturating_sub(self.window_s);
        while self.seconds.front().is_some_and(|found| found.second < first) {
            self.seconds.pop_front();
        }
    }

    /// Returns the activity at this time.
    pub(super) fn summary(&self, now_us: u64) -> ActivitySummary {
        let first = (now_us / 1_000_000).saturating_sub(self.window_s);
        let mut sum = ActivitySecond::default();
        for second in self.seconds.iter().filter(|found| found.second >= first) {
            sum.join(second);
        }
        let a_second = |amount: u64| amount as f64 / self.window_s as f64;
        let age = |commit_us: u64| now_us.saturating_sub(commit_us) as f64 / 1e6;
        let mut tables: Vec<TableRates> = sum
            .tables
            .iter()
            .map(|(table, rows)| TableRates {
                table: table.clone(),
                rows_per_second: a_second(rows.rows),
                bytes_per_second: a_second(rows.bytes),
            })
            .collect();
        tables.sort_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
        let large = |transaction: &LargestTransaction| TopTransaction {
            gtid: transaction.id.to_string(),
            age_seconds: age(transaction.commit_us),
            bytes: transaction.bytes,
            rows: transaction.rows,
            tables: transaction.tables.clone(),
        };
        ActivitySummary {
            window_seconds: self.window_s,
            newest_age_seconds: (self.newest_us > 0).then(|| age(self.newest_us)),
            transactions_per_second: a_second(sum.transactions),
            bytes_per_second: a_second(sum.bytes),
            tables,
            largest: sum.largest.iter().map(large).collect(),
        }
    }
}

/// Adds the row changes of a table; beyond the limit, adds them to the other tables.
pub(super) fn add_rows(tables: &mut BTreeMap<String, RowActivity>, table: &str, rows: RowActivity) {
    let named = tables.len() - usize::from(tables.contains_key(OTHER_TABLES));
    let name = match tables.contains_key(table) || named < TABLES_MAX {
        true => table,
        false => OTHER_TABLES,
    };
    match tables.get_mut(name) {
        Some(found) => found.add(rows),
        None => drop(tables.insert(name.to_owned(), rows)),
    }
}

impl ActivitySecond {
    fn add(&mut self, transaction: TransactionActivity) {
        self.transactions += 1;
        self.bytes += transaction.bytes;
        for (table, rows) in &transaction.tables {
            add_rows(&mut self.tables, table, *rows);
        }
        self.keep_largest(LargestTransaction::new(transaction));
    }

    fn join(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.bytes += other.bytes;
        for (table, rows) in &other.tables {
            add_rows(&mut self.tables, table, *rows);
        }
        for transaction in &other.largest {
            self.keep_largest(transaction.clone());
        }
    }

    fn keep_largest(&mut self, transaction: LargestTransaction) {
        let index = self.largest.partition_point(|found| found.bytes >= transaction.bytes);
        if index < LARGEST_MAX {
            self.largest.insert(index, transaction);
            self.largest.truncate(LARGEST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use binlog::TransactionId;

    use super::{RowActivity, StoreActivity, TABLES_MAX, TransactionActivity};

    fn transaction(second: u64, table: &str, bytes: u64) -> TransactionActivity {
        let tables = BTreeMap::from([(table.to_owned(), RowActivity { rows: 1, bytes })]);
        TransactionActivity { id: TransactionId::Anonymous, commit_us: second * 1_000_000, bytes, tables }
    }

    #[test]
    fn rates_are_those_of_the_window() {
        let mut activity = StoreActivity::new(10);
        for second in 100..200 {
            activity.add(transaction(second, "d.a", 50), 150_000_000);
        }
        activity.add(transaction(150, "d.b", 500), 150_000_000);
        let found = activity.summary(150_000_000);
        // Commit times ahead of the clock count as now.
        assert_eq!(activity.seconds.len(), 11);
        assert_eq!(found.newest_age_seconds, Some(0.0));
        let later = activity.summary(1_000_000_000);
        assert_eq!((later.transactions_per_second, later.tables.len()), (0.0, 0));
        assert_eq!(later.newest_age_seconds, Some(850.0));
    }

    #[test]
    fn tables_and_transactions_are_sorted_by_size() {
        let mut activity = StoreActivity::new(10);
        for (table, bytes) in [("d.a", 100), ("d.b", 300), ("d.a", 100)] {
            activity.add(transaction(100, table, bytes), 105_000_000);
        }
        let found = activity.summary(105_000_000);
        let tables: Vec<_> =
            found.tables.iter().map(|found| (&*found.table, found.bytes_per_second)).collect();
        assert_eq!(tables, [("d.b", 30.0), ("d.a", 20.0)]);
        let largest: Vec<u64> = found.largest.iter().map(|found| found.bytes).collect();
        assert_eq!(largest, [300, 100, 100]);
        assert_eq!(found.transactions_per_second, 0.3);
    }

    #[test]
    fn numbers_of_tables_and_transactions_are_limited() {
        let mut activity = StoreActivity::new(10);
        for number in 0..1000 {
            activity.add(transaction(100, &format!("d.t{number}"), number), 100_000_000);
        }
        let found = activity.summary(100_000_000);
        assert_eq!(found.tables.len(), TABLES_MAX + 1);
        assert_eq!(found.largest.len(), super::LARGEST_MAX);
        assert_eq!(found.largest[0].bytes, 999);
        let rows: f64 = found.tables.iter().map(|table| table.rows_per_second).sum();
        assert!((rows - 100.0).abs() < 1e-6, "{rows}");
    }
}
