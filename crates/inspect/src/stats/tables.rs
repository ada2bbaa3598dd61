//! Rows, events and bytes by table and kind of change.

use std::collections::HashMap;

use binlog::events::RowsKind;
use serde::Serialize;
use sql::quote::put_doubled;

/// Kind of a row change. Partial updates count as updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowOperation {
    /// Rows were inserted.
    Insert,
    /// Rows were updated.
    Update,
    /// Rows were deleted.
    Delete,
}

impl RowOperation {
    /// All kinds, in the order of [`ChangeTotals`].
    pub const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// Returns the SQL keyword, in capitals.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl From<RowsKind> for RowOperation {
    fn from(kind: RowsKind) -> Self {
        match kind {
            RowsKind::Write => Self::Insert,
            RowsKind::Update | RowsKind::PartialUpdate => Self::Update,
            RowsKind::Delete => Self::Delete,
        }
    }
}

/// Counts of one kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowChangeCounts {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows events.
    pub events: u64,
    /// Bytes of these events before compression, with headers and checksums.
    pub bytes: u64,
}

/// Counts of all kinds of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangeTotals {
    /// Rows inserted.
    pub insert: RowChangeCounts,
    /// Rows updated.
    pub update: RowChangeCounts,
    /// Rows deleted.
    pub delete: RowChangeCounts,
}

/// Counts of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableAmounts {
    /// The database. Bytes that are not UTF-8 are replaced.
    pub database: String,
    /// The table. Bytes that are not UTF-8 are replaced.
    pub table: String,
    /// Row changes.
    #[serde(flatten)]
    pub changes: ChangeTotals,
    /// Table maps.
    pub maps: TableMapCounts,
}

/// Counts of table maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableMapCounts {
    /// Number of table maps.
    pub events: u64,
    /// Bytes of these events before compression, with headers and checksums.
    pub bytes: u64,
}

/// Counts of all tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableCounts {
    indexes: HashMap<TableKey, usize>,
    tables: Vec<CountedTable>,
}

/// Database and table.
type TableKey = (Box<[u8]>, Box<[u8]>);

#[derive(Clone, Debug)]
struct CountedTable {
    name: TableKey,
    changes: ChangeTotals,
    maps: TableMapCounts,
}

impl RowChangeCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

impl ChangeTotals {
    /// Returns the counts of one kind.
    pub const fn of(&self, change: RowOperation) -> &RowChangeCounts {
        match change {
            RowOperation::Insert => &self.insert,
            RowOperation::Update => &self.update,
            RowOperation::Delete => &self.delete,
        }
    }

    pub(crate) const fn of_mut(&mut self, change: RowOperation) -> &mut RowChangeCounts {
        match change {
            RowOperation::Insert => &mut self.insert,
            RowOperation::Update => &mut self.update,
            RowOperation::Delete => &mut self.delete,
        }
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> RowChangeCounts {
        let mut total = self.insert;
        total.add(self.update);
        total.add(self.delete);
        total
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for change in RowOperation::ALL {
            self.of_mut(change).add(*other.of(change));
        }
    }
}

impl TableAmounts {
    /// Returns the bytes of rows events and table maps.
    pub fn bytes(&self) -> u64 {
        self.changes.total().bytes + self.maps.bytes
    }
}

impl TableCounts {
    /// Returns the index of a table. Adds the table if it is new.
    pub(crate) fn table_index(&mut self, database: &[u8], table: &[u8]) -> usize {
        let name = (Box::from(database), Box::from(table));
        if let Some(index) = self.indexes.get(&name) {
            return *index;
        }
        let index = self.tables.len();
        self.indexes.insert(name.clone(), index);
        self.tables.push(CountedTable {
            name,
            changes: ChangeTotals::default(),
            maps: TableMapCounts::default(),
        });
        index
    }

    pub(crate) fn add_map(&mut self, index: usize, bytes: u64) {
        let maps = &mut self.tables[index].maps;
        maps.events += 1;
        maps.bytes += bytes;
    }

    pub(crate) fn add_rows(&mut self, index: usize, change: RowOperation, amount: RowChangeCounts) {
        self.tables[index].changes.of_mut(change).add(amount);
    }

    /// Returns `database.table`.
    pub(crate) fn name(&self, index: usize) -> String {
        let (database, table) = &self.tables[index].name;
        format!("{}.{}", String::from_utf8_lossy(database), String::from_utf8_lossy(table))
    }

    /// Adds the counts of another part. Returns the new indexes of that part's tables.
    pub(crate) fn merge(&mut self, other: Self) -> Vec<usize> {
        let merge_one = |counted: CountedTable| {
            let index = self.table_index(&counted.name.0, &counted.name.1);
            let mine = &mut self.tables[index];
            mine.changes.add(&counted.changes);
            mine.maps.events += counted.maps.events;
            mine.maps.bytes += counted.maps.bytes;
            index
        };
        other.tables.into_iter().map(merge_one).collect()
    }

    /// Returns the counts of all tables, the largest first.
    pub(crate) fn amounts(&self) -> Vec<TableAmounts> {
        self.indexed_amounts().into_iter().map(|(_, amounts)| amounts).collect()
    }

    /// Returns the counts of all tables with the index of each table, the largest first.
    pub(crate) fn indexed_amounts(&self) -> Vec<(usize, TableAmounts)> {
        let amounts = self.tables.iter().map(|counted| TableAmounts {
            database: String::from_utf8_lossy(&counted.name.0).into_owned(),
            table: String::from_utf8_lossy(&counted.name.1).into_owned(),
            changes: counted.changes,
            maps: counted.maps,
        });
        // A table has no bytes if the selection excludes all its changes.
        let mut amounts: Vec<_> = amounts.enumerate().filter(|(_, amounts)| amounts.bytes() > 0).collect();
        amounts.sort_by(|(_, one), (_, two)| {
            let names = || (&one.database, &one.table).cmp(&(&two.database, &two.table));
            two.bytes().cmp(&one.bytes()).then_with(names)
        });
        amounts
    }

    /// Returns the lines of the common one-liner: see [`StatsReport::rows_lines`](super::StatsReport::rows_lines).
    pub(crate) fn rows_lines(&self) -> Vec<u8> {
        let mut counts: Vec<(u64, Vec<u8>)> = Vec::new();
        for counted in &self.tables {
            for change in RowOperation::ALL {
                let rows = counted.changes.of(change).rows;
                if rows > 0 {
                    // Like mysqlbinlog's names, without the quotes around them.
                    let mut line = [change.verb().as_bytes(), b" "].concat();
                    put_doubled(&mut line, &counted.name.0, b'`');
                    line.push(b'.');
                    put_doubled(&mut line, &counted.name.1, b'`');
                    counts.push((rows, line));
                }
            }
        }
        counts.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
        let mut lines = Vec::new();
        for (rows, what) in counts {
            lines.extend_from_slice(rows.to_string().as_bytes());
            lines.push(b' ');
            lines.extend_from_slice(&what);
            lines.push(b'\n');
        }
        lines
    }
}
