//! A table as the target has it: what decides which changes of its rows may meet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use binlog::KeyPart;
use servers::quote;

/// A table by its name, on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// The database.
    pub database: Box<[u8]>,
    /// The table.
    pub table: Box<[u8]>,
}

impl fmt::Display for TableName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = Vec::new();
        quote::put_table(&mut name, &self.database, &self.table);
        out.write_str(&String::from_utf8_lossy(&name))
    }
}

/// A table as the target has it. Whoever knows less gives no definition: then every change is to all of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Its name on the target: what differs in the log and is the same there must be the same here.
    pub name: TableName,
    /// Does its engine take part in transactions, and find rows by key? InnoDB.
    pub engine: Engine,
    /// Its primary key; `None` when it has none.
    pub primary_key: Option<Vec<KeyPart>>,
    /// All other unique keys, those of nullable columns, too.
    pub unique_keys: Vec<UniqueKey>,
    /// The column that counts by itself.
    pub auto_increment: Option<usize>,
    /// Its place among foreign keys.
    pub relatives: Relatives,
}

/// What holds a table's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// InnoDB.
    InnoDb,
    /// Any other.
    #[default]
    Other,
}

/// A unique key that is not the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UniqueKey {
    /// Of columns that every row in the log holds.
    Columns(Vec<KeyPart>),
    /// Of expressions, of several values a row, or of virtual columns: what the log does not hold.
    Other,
}

/// A table's place among foreign keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relatives {
    /// The tables that it refers to.
    pub parents: Vec<TableName>,
    /// The tables that refer to it, those that refer to them, and so on: what a change of its rows may change.
    pub descendants: Vec<TableName>,
}

impl Relatives {
    /// Those of each table that has any, from all foreign keys of the target: the table that refers, and the one
    /// that it refers to. A table that refers to itself is its own parent and descendant.
    pub fn of_all(foreign_keys: &[(TableName, TableName)]) -> BTreeMap<TableName, Self> {
        let mut children: BTreeMap<&TableName, Vec<&TableName>> = BTreeMap::new();
        let mut all: BTreeMap<TableName, Self> = BTreeMap::new();
        for (child, parent) in foreign_keys {
            children.entry(parent).or_default().push(child);
            let parents = &mut all.entry(child.clone()).or_default().parents;
            if !parents.contains(parent) {
                parents.push(parent.clone());
            }
        }
        for parent in children.keys() {
            let mut found = BTreeSet::new();
            let mut open = vec![*parent];
            while let Some(table) = open.pop() {
                for child in children.get(table).into_iter().flatten() {
                    if found.insert(*child) {
                        open.push(child);
                    }
                }
            }
            let descendants = found.into_iter().cloned().collect();
            all.entry((*parent).clone()).or_default().descendants = descendants;
        }
        all
    }

    /// Has the table none?
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.descendants.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Relatives, TableName};

    fn name(table: &str) -> TableName {
        TableName { database: b"d".as_slice().into(), table: table.as_bytes().into() }
    }

    /// `child>parent` for each foreign key.
    fn check(keys: &str, table: &str, parents: &str, descendants: &str) {
        let keys = keys.split_whitespace().map(|key| key.split_once('>').unwrap());
        let keys: Vec<_> = keys.map(|(child, parent)| (name(child), name(parent))).collect();
        let relatives = Relatives::of_all(&keys).remove(&name(table)).unwrap_or_default();
        let text = |names: &[TableName]| {
            let names = names.iter().map(|name| String::from_utf8_lossy(&name.table).into_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!((&*text(&relatives.parents), &*text(&relatives.descendants)), (parents, descendants));
    }

    #[test]
    fn descendants_are_followed() {
        let keys = "b>a c>b c>a d>c x>x";
        check(keys, "a", "", "b c d");
        check(keys, "b", "a", "c d");
        check(keys, "c", "b a", "d");
        check(keys, "d", "c", "");
        check(keys, "x", "x", "x");
        check(keys, "other", "", "");
        check("a>b b>a", "a", "b", "a b");
    }
}
