//! What a table is: its columns and keys, as the catalogue keeps them.

use serde::{Deserialize, Serialize};

use crate::sqlite::literal::Default;
use crate::sqlite::types::Type;

/// A table of the source, and where its rows are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Table {
    /// Its name in SQLite.
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) primary_key: Option<Vec<Part>>,
    pub(super) keys: Vec<Key>,
    pub(super) foreign_keys: Vec<ForeignKey>,
    pub(super) engine: Engine,
    /// The character set of its texts, where it is given.
    pub(super) charset: Option<String>,
}

/// What holds a table's rows on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Engine {
    /// It takes part in transactions: InnoDB.
    Transactional,
    /// It does not: MyISAM.
    Other,
    /// Nothing: what is put into BLACKHOLE tables is in the log only.
    Blackhole,
}

impl Engine {
    /// The engine of this name; InnoDB if there is none.
    pub(super) fn of(name: Option<&str>) -> Self {
        let Some(name) = name else { return Self::Transactional };
        match name.to_ascii_uppercase().as_str() {
            "INNODB" | "NDB" | "NDBCLUSTER" => Self::Transactional,
            "BLACKHOLE" => Self::Blackhole,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) nullable: bool,
    pub(super) default: Default,
    /// Is its value computed from others? The log has it all the same.
    pub(super) generated: bool,
}

/// A key other than the primary key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) parts: Vec<Part>,
    /// Its index in SQLite; empty if there is none.
    pub(super) index: String,
}

/// A column in a key, or what begins it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) column: String,
    /// Is only its beginning in the key?
    pub(super) is_prefix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ForeignKey {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// Database and table.
    pub(super) parent: (String, String),
    /// Empty for its primary key.
    pub(super) parent_columns: Vec<String>,
    pub(super) on_delete: Action,
    pub(super) on_update: Action,
}

/// What a foreign key does to rows that refer to one that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    /// The change is refused while there are any.
    #[default]
    Restrict,
    Cascade,
    SetNull,
}

impl Table {
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The columns that SQLite's primary key is of. None where the source's has but the beginnings of columns.
    pub(super) fn sqlite_key(&self) -> Option<Vec<usize>> {
        let parts = self.primary_key.as_ref()?;
        parts.iter().map(|part| if part.is_prefix { None } else { self.column(&part.column) }).collect()
    }

    /// The unique keys that are never NULL, best first: what finds a row.
    pub(super) fn finding_keys(&self) -> Vec<Vec<usize>> {
        let unique = self.keys.iter().filter(|key| key.unique && !key.index.is_empty());
        let unique = unique.filter_map(|key| {
            let columns: Option<Vec<usize>> = key
                .parts
                .iter()
                .map(|part| {
                    let column = self.column(&part.column)?;
                    (!part.is_prefix && !self.columns[column].nullable).then_some(column)
                })
                .collect();
            columns.filter(|columns| !columns.is_empty())
        });
        self.sqlite_key().into_iter().chain(unique).collect()
    }

    /// Does SQLite keep it in the order of its key, without row numbers?
    pub(super) fn is_clustered(&self) -> bool {
        self.sqlite_key().is_some() && !self.is_numbered()
    }

    /// Is its primary key one integer, and so the row number?
    pub(super) fn is_numbered(&self) -> bool {
        use crate::sqlite::types::Storage;
        matches!(self.sqlite_key().as_deref(), Some([one]) if self.columns[*one].kind.storage() == Storage::Integer)
    }

    /// The columns' names in a key's parts are to change.
    pub(super) fn rename_column(&mut self, old: &str, new: &str) {
        let parts = self.keys.iter_mut().flat_map(|key| &mut key.parts);
        for part in parts.chain(self.primary_key.iter_mut().flatten()) {
            if part.column.eq_ignore_ascii_case(old) {
                new.clone_into(&mut part.column);
            }
        }
        for column in self.foreign_keys.iter_mut().flat_map(|key| &mut key.columns) {
            if column.eq_ignore_ascii_case(old) {
                new.clone_into(column);
            }
        }
    }
}
