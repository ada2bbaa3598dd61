//! Rows, events and bytes by table and by what was done.

use std::collections::HashMap;

use binlog::events::RowsKind;
use serde::Serialize;

/// What was done to rows. Partial updates are updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Rows came.
    Insert,
    /// Rows changed.
    Update,
    /// Rows went.
    Delete,
}

impl Change {
    /// All of them, in the order of [`Changes`].
    pub const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// As SQL says it, in capitals.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl From<RowsKind> for Change {
    fn from(kind: RowsKind) -> Self {
        match kind {
            RowsKind::Write => Self::Insert,
            RowsKind::Update | RowsKind::PartialUpdate => Self::Update,
            RowsKind::Delete => Self::Delete,
        }
    }
}

/// One kind of change: how many rows, in how many events of how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Rows.
    pub rows: u64,
    /// Rows events.
    pub events: u64,
    /// Their bytes, headers and checksums included, before compression.
    pub bytes: u64,
}

/// All kinds of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Rows that came.
    pub insert: Amount,
    /// Rows that changed.
    pub update: Amount,
    /// Rows that went.
    pub delete: Amount,
}

/// One table's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableAmounts {
    /// The database. Bytes that are not UTF-8 are replaced.
    pub database: String,
    /// The table. Bytes that are not UTF-8 are replaced.
    pub table: String,
    /// What was done.
    #[serde(flatten)]
    pub changes: Changes,
    /// Table maps: how many, and their bytes.
    pub maps: Maps,
}

/// Events that say what a table looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Maps {
    /// How many.
    pub events: u64,
    /// Their bytes, headers and checksums included, before compression.
    pub bytes: u64,
}

/// Tables by name, as they are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    places: HashMap<Name, usize>,
    tables: Vec<Counted>,
}

/// Database and table.
type Name = (Box<[u8]>, Box<[u8]>);

#[derive(Clone, Debug)]
struct Counted {
    name: Name,
    changes: Changes,
    maps: Maps,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

impl Changes {
    /// One kind.
    pub const fn of(&self, change: Change) -> &Amount {
        match change {
            Change::Insert => &self.insert,
            Change::Update => &self.update,
            Change::Delete => &self.delete,
        }
    }

    pub(crate) const fn of_mut(&mut self, change: Change) -> &mut Amount {
        match change {
            Change::Insert => &mut self.insert,
            Change::Update => &mut self.update,
            Change::Delete => &mut self.delete,
        }
    }

    /// All kinds together.
    pub fn total(&self) -> Amount {
        let mut total = self.insert;
        total.add(self.update);
        total.add(self.delete);
        total
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for change in Change::ALL {
            self.of_mut(change).add(*other.of(change));
        }
    }
}

impl TableAmounts {
    /// Bytes of rows events and table maps.
    pub fn bytes(&self) -> u64 {
        self.changes.total().bytes + self.maps.bytes
    }
}

impl Tables {
    /// Where this table is counted.
    pub(crate) fn place(&mut self, database: &[u8], table: &[u8]) -> usize {
        let name = (Box::from(database), Box::from(table));
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        let place = self.tables.len();
        self.places.insert(name.clone(), place);
        self.tables.push(Counted { name, changes: Changes::default(), maps: Maps::default() });
        place
    }

    pub(crate) fn add_map(&mut self, place: usize, bytes: u64) {
        let maps = &mut self.tables[place].maps;
        maps.events += 1;
        maps.bytes += bytes;
    }

    pub(crate) fn add_rows(&mut self, place: usize, change: Change, amount: Amount) {
        self.tables[place].changes.of_mut(change).add(amount);
    }

    /// `database.table`.
    pub(crate) fn name(&self, place: usize) -> String {
        let (database, table) = &self.tables[place].name;
        format!("{}.{}", String::from_utf8_lossy(database), String::from_utf8_lossy(table))
    }

    /// Takes in what was counted elsewhere; gives the new place of each of its tables.
    pub(crate) fn merge(&mut self, other: Self) -> Vec<usize> {
        let merge_one = |counted: Counted| {
            let place = self.place(&counted.name.0, &counted.name.1);
            let mine = &mut self.tables[place];
            mine.changes.add(&counted.changes);
            mine.maps.events += counted.maps.events;
            mine.maps.bytes += counted.maps.bytes;
            place
        };
        other.tables.into_iter().map(merge_one).collect()
    }

    /// All of them, the largest first.
    pub(crate) fn amounts(&self) -> Vec<TableAmounts> {
        let amounts = self.tables.iter().map(|counted| TableAmounts {
            database: String::from_utf8_lossy(&counted.name.0).into_owned(),
            table: String::from_utf8_lossy(&counted.name.1).into_owned(),
            changes: counted.changes,
            maps: counted.maps,
        });
        let mut amounts: Vec<_> = amounts.collect();
        amounts.sort_by(|one, two| {
            let names = || (&one.database, &one.table).cmp(&(&two.database, &two.table));
            two.bytes().cmp(&one.bytes()).then_with(names)
        });
        amounts
    }

    /// The lines of the usual one-liner: see [`super::rows_lines`].
    pub(crate) fn rows_lines(&self) -> Vec<u8> {
        let mut counts: Vec<(u64, Vec<u8>)> = Vec::new();
        for counted in &self.tables {
            for change in Change::ALL {
                let rows = counted.changes.of(change).rows;
                if rows > 0 {
                    let name = [&escaped(&counted.name.0)[..], b".", &escaped(&counted.name.1)].concat();
                    counts.push((rows, [change.verb().as_bytes(), b" ", &name].concat()));
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

/// As mysqlbinlog writes a name: backticks doubled.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for byte in name {
        text.push(*byte);
        if *byte == b'`' {
            text.push(b'`');
        }
    }
    text
}
