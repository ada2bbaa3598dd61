//! Definition of a table on the target: the facts that decide which row changes may conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use binlog::KeyPart;
use sql::quote;

/// Name of a table on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetTableName {
    /// Name of the database.
    pub database: Box<[u8]>,
    /// Name of the table.
    pub table: Box<[u8]>,
}

impl fmt::Display for TargetTableName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = Vec::new();
        quote::put_table(&mut name, &self.database, &self.table);
        out.write_str(&String::from_utf8_lossy(&name))
    }
}

/// Definition of a table on the target. A target that does not know all fields gives no definition: each change then
/// counts as a change of the whole table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetTableDefinition {
    /// Name on the target. Different names in the log that mean one table on the target must be equal here.
    pub name: TargetTableName,
    /// Storage engine. Only InnoDB is transactional and finds rows by key.
    pub engine: StorageEngine,
    /// Primary key; `None` if the table has none.
    pub primary_key: Option<Vec<KeyPart>>,
    /// All other unique keys, including those with nullable columns.
    pub unique_keys: Vec<UniqueKey>,
    /// The AUTO_INCREMENT column.
    pub auto_increment: Option<usize>,
    /// Foreign keys from and to the table.
    pub foreign_keys: ForeignKeys,
}

/// Storage engine of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageEngine {
    /// InnoDB.
    InnoDb,
    /// Any other.
    #[default]
    Other,
}

/// A unique key that is not the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UniqueKey {
    /// Key of columns whose values the log has for each row.
    Columns(Vec<KeyPart>),
    /// Key of expressions, multi-valued or of virtual columns: the log does not have its values.
    Other,
}

/// Tables that foreign keys connect with a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeys {
    /// Tables that this table references.
    pub parents: Vec<TargetTableName>,
    /// Tables that reference it, directly or not. A change of this table's rows may change rows of these tables.
    pub descendants: Vec<TargetTableName>,
}

impl ForeignKeys {
    /// Returns the foreign keys of each table that has any. `foreign_keys` are all foreign keys of the target, as
    /// (referencing table, referenced table). A table that references itself is its own parent and descendant.
    pub fn of_all(foreign_keys: &[(TargetTableName, TargetTableName)]) -> BTreeMap<TargetTableName, Self> {
        let mut children: BTreeMap<&TargetTableName, Vec<&TargetTableName>> = BTreeMap::new();
        let mut all: BTreeMap<TargetTableName, Self> = BTreeMap::new();
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
        assert!(!all.values().any(Self::is_empty), "ours: only tables with foreign keys are listed");
        all
    }

    /// Returns whether the table has no foreign keys, and no foreign key references the table.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.descendants.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{ForeignKeys, TargetTableName};

    fn name(table: &str) -> TargetTableName {
        TargetTableName { database: b"d".as_slice().into(), table: table.as_bytes().into() }
    }

    /// `child>parent` for each foreign key.
    fn check(keys: &str, table: &str, parents: &str, descendants: &str) {
        let keys = keys.split_whitespace().map(|key| key.split_once('>').unwrap());
        let keys: Vec<_> = keys.map(|(child, parent)| (name(child), name(parent))).collect();
        let relatives = ForeignKeys::of_all(&keys).remove(&name(table)).unwrap_or_default();
        let text = |names: &[TargetTableName]| {
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
