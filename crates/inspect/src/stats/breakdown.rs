//! Counts by minute, hour, table, account or statement.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use jiff::tz::TimeZone;
use logs::ChangeOrigin;
use serde::Serialize;

use super::log_time::LogTime;
use super::tables::{RowChangeCounts, RowOperation, TableCounts};
use super::transaction_tally::TransactionTally;

/// Property by which changes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BreakdownKind {
    /// Minute of the commit.
    Minute,
    /// Hour of the commit.
    Hour,
    /// Changed table.
    Table,
    /// Account or, if the log does not have it, connection.
    Account,
    /// Statement without its literals.
    Statement,
}

/// Counts of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// Number of transactions; 0 in groups of statements.
    pub transactions: u64,
    /// Number of statements with a text in the log; only in groups of statements.
    pub statements: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Bytes before compression: of whole transactions or, if tables are selected or counted, of their table maps and
    /// row events; for statements, of their row events and texts.
    pub bytes: u64,
}

/// Counts by one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// The property.
    pub by: BreakdownKind,
    /// Groups: times in order, others with the most bytes first.
    pub groups: Vec<BreakdownGroup>,
    /// Sum of the groups that were not kept, because there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<GroupCounts>,
    /// Row changes without the text of their statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_text: Option<GroupCounts>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BreakdownGroup {
    /// Key of the group.
    #[serde(flatten)]
    pub key: GroupKey,
    /// Counts of the group.
    #[serde(flatten)]
    pub counts: GroupCounts,
}

/// Key of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum GroupKey {
    /// Start of a minute or an hour.
    Time {
        /// The start.
        start: LogTime,
    },
    /// Table.
    Table {
        /// `database.table`.
        table: String,
    },
    /// Account or connection.
    Writer(WriterKey),
    /// Statement without its literals.
    Statement {
        /// The statement.
        statement: Arc<str>,
    },
}

/// Account or connection that wrote a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct WriterKey {
    /// `user@host`; `None` if the log does not have it.
    pub account: Option<Arc<str>>,
    /// Connection, unless the account is known; `None` if the log has neither.
    pub connection: Option<u32>,
    /// Server on which the transaction originated.
    pub server_id: u32,
}

/// Maximum number of accounts and of statements that are kept. Bounds memory: a digest has up to a kilobyte.
const GROUPS_MAX: usize = 50_000;

/// Counts by the requested properties.
#[derive(Clone, Debug, Default)]
pub(crate) struct BreakdownTally {
    minutes: BTreeMap<u64, GroupCounts>,
    writers: GroupMap<WriterKey>,
    statements: GroupMap<Arc<str>>,
    without_text: GroupCounts,
    /// Number of transactions by the table's index.
    table_transactions: HashMap<usize, u64>,
}

/// Groups up to a maximum number, and the sum of all others.
#[derive(Clone, Debug)]
struct GroupMap<K> {
    groups: HashMap<K, GroupCounts>,
    others: GroupCounts,
}

impl<K> Default for GroupMap<K> {
    fn default() -> Self {
        Self { groups: HashMap::new(), others: GroupCounts::default() }
    }
}

impl BreakdownKind {
    /// Returns whether counting needs the origin of changes.
    pub(crate) const fn needs_origin(self) -> bool {
        matches!(self, Self::Account | Self::Statement)
    }
}

impl GroupCounts {
    /// Returns the number of changed rows.
    pub const fn rows(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }

    /// Adds the counts of another group.
    pub fn add(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.statements += other.statements;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.bytes += other.bytes;
    }

    fn add_rows(&mut self, change: RowOperation, amount: RowChangeCounts) {
        *match change {
            RowOperation::Insert => &mut self.inserted,
            RowOperation::Update => &mut self.updated,
            RowOperation::Delete => &mut self.deleted,
        } += amount.rows;
        self.bytes += amount.bytes;
    }
}

impl WriterKey {
    pub(crate) fn of(origin: &ChangeOrigin) -> Self {
        let connection = origin.connection.filter(|_| origin.account.is_none());
        Self { account: origin.account.clone(), connection, server_id: origin.server_id }
    }
}

impl<K: Eq + Hash + Ord + Clone> GroupMap<K> {
    fn add(&mut self, key: &K, counts: &GroupCounts) {
        if let Some(group) = self.groups.get_mut(key) {
            group.add(counts);
        } else if self.groups.len() < GROUPS_MAX {
            self.groups.insert(key.clone(), *counts);
        } else {
            self.others.add(counts);
        }
    }

    fn merge(&mut self, later: Self) {
        let mut groups: Vec<_> = later.groups.into_iter().collect();
        // The kept groups must not depend on the order in a hash map.
        groups.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        groups.iter().for_each(|(key, counts)| self.add(key, counts));
        self.others.add(&later.others);
    }

    fn others(&self) -> Option<GroupCounts> {
        (self.others != GroupCounts::default()).then_some(self.others)
    }

    /// Returns the groups, the largest first.
    fn sorted(&self) -> Vec<(&K, GroupCounts)> {
        let mut groups: Vec<_> = self.groups.iter().map(|(key, counts)| (key, *counts)).collect();
        groups.sort_by(|one, two| two.1.bytes.cmp(&one.1.bytes).then_with(|| one.0.cmp(two.0)));
        groups
    }
}

impl BreakdownTally {
    /// Counts a transaction by all requested properties except statements.
    pub(crate) fn add_transaction(&mut self, kinds: &[BreakdownKind], open: &TransactionTally) {
        if kinds.is_empty() {
            return;
        }
        let mut counts =
            GroupCounts { transactions: 1, bytes: open.bytes_selected(), ..GroupCounts::default() };
        for (_, [inserted, updated, deleted]) in open.tables.iter() {
            counts.inserted += inserted;
            counts.updated += updated;
            counts.deleted += deleted;
        }
        for kind in kinds {
            match kind {
                BreakdownKind::Minute | BreakdownKind::Hour => {}
                BreakdownKind::Account => self.writers.add(&open.writer, &counts),
                BreakdownKind::Table => {
                    for (table, _) in open.tables.iter() {
                        *self.table_transactions.entry(*table).or_default() += 1;
                    }
                }
                BreakdownKind::Statement => {}
            }
        }
        if kinds.iter().any(|kind| matches!(kind, BreakdownKind::Minute | BreakdownKind::Hour)) {
            self.minutes.entry(open.commit_us() / MINUTE_US).or_default().add(&counts);
        }
    }

    /// Counts a statement that has a text in the log; `bytes` is the size of the text.
    pub(crate) fn add_statement(&mut self, digest: &Arc<str>, bytes: u64) {
        self.statements.add(digest, &GroupCounts { statements: 1, bytes, ..GroupCounts::default() });
    }

    /// Counts row changes of a statement, if the log has its text.
    pub(crate) fn add_rows(
        &mut self,
        digest: Option<&Arc<str>>,
        change: RowOperation,
        amount: RowChangeCounts,
    ) {
        let mut counts = GroupCounts::default();
        counts.add_rows(change, amount);
        match digest {
            Some(digest) => self.statements.add(digest, &counts),
            None => self.without_text.add(&counts),
        }
    }

    /// Adds the counts of the following chunk. `indexes` has the new indexes of that chunk's tables.
    pub(crate) fn merge(&mut self, later: Self, indexes: &[usize]) {
        for (minute, counts) in &later.minutes {
            self.minutes.entry(*minute).or_default().add(counts);
        }
        self.writers.merge(later.writers);
        self.statements.merge(later.statements);
        self.without_text.add(&later.without_text);
        for (table, transactions) in later.table_transactions {
            *self.table_transactions.entry(indexes[table]).or_default() += transactions;
        }
    }

    /// Returns the counts by one property. Hours are those of the time zone.
    pub(crate) fn breakdown(&self, by: BreakdownKind, tables: &TableCounts, zone: &TimeZone) -> Breakdown {
        let (groups, others, without_text) = match by {
            BreakdownKind::Minute => (self.times(|minute| minute), None, None),
            BreakdownKind::Hour => (self.times(|minute| hour_of(minute, zone)), None, None),
            BreakdownKind::Table => (self.tables(tables), None, None),
            BreakdownKind::Account => {
                let group = |(key, counts): (&WriterKey, GroupCounts)| BreakdownGroup {
                    key: GroupKey::Writer(key.clone()),
                    counts,
                };
                (self.writers.sorted().into_iter().map(group).collect(), self.writers.others(), None)
            }
            BreakdownKind::Statement => {
                let group = |(key, counts): (&Arc<str>, GroupCounts)| BreakdownGroup {
                    key: GroupKey::Statement { statement: Arc::clone(key) },
                    counts,
                };
                let without_text = (self.without_text.rows() > 0).then_some(self.without_text);
                let groups = self.statements.sorted().into_iter().map(group).collect();
                (groups, self.statements.others(), without_text)
            }
        };
        Breakdown { by, groups, others, without_text }
    }

    /// Returns the groups of times; `start_of` returns the first minute of a minute's group.
    fn times(&self, start_of: impl Fn(u64) -> u64) -> Vec<BreakdownGroup> {
        let mut groups: BTreeMap<u64, GroupCounts> = BTreeMap::new();
        for (minute, counts) in &self.minutes {
            groups.entry(start_of(*minute)).or_default().add(counts);
        }
        let group = |(minute, counts): (u64, GroupCounts)| BreakdownGroup {
            key: GroupKey::Time { start: LogTime(minute.saturating_mul(MINUTE_US)) },
            counts,
        };
        groups.into_iter().map(group).collect()
    }

    fn tables(&self, tables: &TableCounts) -> Vec<BreakdownGroup> {
        let group = |(index, amounts): (usize, super::tables::TableAmounts)| BreakdownGroup {
            key: GroupKey::Table { table: format!("{}.{}", amounts.database, amounts.table) },
            counts: GroupCounts {
                transactions: self.table_transactions.get(&index).copied().unwrap_or_default(),
                statements: 0,
                inserted: amounts.changes.insert.rows,
                updated: amounts.changes.update.rows,
                deleted: amounts.changes.delete.rows,
                bytes: amounts.bytes(),
            },
        };
        tables.indexed_amounts().into_iter().map(group).collect()
    }
}

const MINUTE_US: u64 = 60_000_000;

/// Returns the minute with which the hour of a time zone begins.
fn hour_of(minute: u64, zone: &TimeZone) -> u64 {
    let seconds = i64::try_from(minute.saturating_mul(60)).unwrap_or(i64::MAX);
    let timestamp = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let local_s = i64::from(zone.to_offset(timestamp).seconds()) + seconds % 86_400;
    let past = local_s.rem_euclid(3600) / 60;
    minute.saturating_sub(u64::try_from(past).unwrap_or_default())
}
