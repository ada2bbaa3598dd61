//! Table definitions in the catalogue: columns and keys.

use serde::{Deserialize, Serialize};

use crate::default_value::DefaultValue;
use crate::mysql_type::MysqlType;

/// Names of a table's database and of the table.
pub(crate) type QualifiedName = (String, String);

/// A table of the source and its SQLite table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CatalogueTable {
    /// Name in SQLite.
    pub(crate) name: String,
    pub(crate) columns: Vec<CatalogueColumn>,
    pub(crate) primary_key: Option<Vec<KeyColumn>>,
    pub(crate) keys: Vec<SecondaryKey>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) engine: SourceEngine,
    /// Default character set, if given.
    pub(crate) charset: Option<String>,
}

/// The kind of storage engine on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SourceEngine {
    /// Transactional: InnoDB, NDB.
    Transactional,
    /// Not transactional: MyISAM, for example.
    Other,
    /// BLACKHOLE: rows are only in the log.
    Blackhole,
}

impl SourceEngine {
    /// Returns the kind of the engine with this name; the kind of InnoDB without a name.
    pub(crate) fn of(name: Option<&str>) -> Self {
        let Some(name) = name else { return Self::Transactional };
        match name.to_ascii_uppercase().as_str() {
            "INNODB" | "NDB" | "NDBCLUSTER" => Self::Transactional,
            "BLACKHOLE" => Self::Blackhole,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CatalogueColumn {
    pub(crate) name: String,
    pub(crate) kind: MysqlType,
    pub(crate) nullable: bool,
    pub(crate) default: DefaultValue,
    /// True for a generated column. The log has values for generated columns, too, except in updates of MariaDB.
    pub(crate) generated: bool,
}

impl CatalogueColumn {
    /// Sets the table's character set for a text column without a character set.
    pub(crate) fn inherit_charset(&mut self, table: Option<&str>) {
        if let MysqlType::Text { charset: charset @ None } = &mut self.kind {
            *charset = table.map(str::to_owned);
        }
    }
}

/// A key other than the primary key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondaryKey {
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) parts: Vec<KeyColumn>,
    /// Name of the index in SQLite; empty if there is none.
    pub(crate) index: String,
}

/// A column, or a prefix of a column, in a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyColumn {
    pub(crate) column: String,
    /// True if only a prefix of the column is in the key.
    pub(crate) is_prefix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    /// Database and table of the parent.
    pub(crate) parent: (String, String),
    /// Empty for the parent's primary key.
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_delete: ReferentialAction,
    pub(crate) on_update: ReferentialAction,
}

/// Action of a foreign key on rows that refer to a changed row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReferentialAction {
    /// Refuse the change while such rows exist.
    #[default]
    Restrict,
    Cascade,
    SetNull,
}

impl CatalogueTable {
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns the columns of SQLite's primary key; `None` if there is none, or the source's key has a column prefix.
    pub(crate) fn sqlite_key(&self) -> Option<Vec<usize>> {
        let parts = self.primary_key.as_ref()?;
        parts.iter().map(|part| if part.is_prefix { None } else { self.column(&part.column) }).collect()
    }

    /// Returns the keys that can find a row, best first: unique, and never NULL.
    pub(crate) fn lookup_keys(&self) -> Vec<Vec<usize>> {
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

    /// Returns true if the table is WITHOUT ROWID: SQLite stores it in the order of its key.
    pub(crate) fn is_without_rowid(&self) -> bool {
        self.sqlite_key().is_some() && !self.has_rowid_key()
    }

    /// Returns true if the primary key is a single integer, and so an alias of the rowid.
    pub(crate) fn has_rowid_key(&self) -> bool {
        use crate::mysql_type::StrictType;
        matches!(self.sqlite_key().as_deref(), Some([one]) if self.columns[*one].kind.strict_type() == StrictType::Integer)
    }

    /// Renames columns in all keys and foreign keys, and removes dropped columns from keys. `new_name` returns the new
    /// name of a column; `None` if it is dropped.
    pub(crate) fn alter_keys<'n>(&mut self, new_name: impl Fn(&str) -> Option<&'n str>) {
        let alter = |parts: &mut Vec<KeyColumn>| {
            parts.retain_mut(|part| match new_name(&part.column) {
                Some(name) => {
                    name.clone_into(&mut part.column);
                    true
                }
                None => false,
            });
        };
        self.keys.iter_mut().for_each(|key| alter(&mut key.parts));
        // Keep keys of expressions, which have no parts and no index here.
        self.keys.retain(|key| !key.parts.is_empty() || key.index.is_empty());
        self.primary_key.iter_mut().for_each(alter);
        self.primary_key.take_if(|parts| parts.is_empty());
        for column in self.foreign_keys.iter_mut().flat_map(|key| &mut key.columns) {
            if let Some(name) = new_name(column) {
                name.clone_into(column);
            }
        }
    }
}
