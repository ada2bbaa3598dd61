//! Definition of a table on the replica: the indexes that a change of its rows may touch.

/// A table on the replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaTable {
    /// Database and table, quoted.
    pub name: String,
    /// Columns, in order.
    pub columns: Vec<ReplicaColumn>,
    /// Indexes that can be searched by column values.
    pub indexes: Vec<ReplicaIndex>,
    /// Foreign keys of the table.
    pub foreign_keys: Vec<ReplicaForeignKey>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaColumn {
    /// Name, unquoted.
    pub name: String,
    /// `information_schema.columns.data_type`: `varchar`, `bigint`.
    pub data_type: String,
    /// True if UNSIGNED.
    pub is_unsigned: bool,
    /// Character set of a text column.
    pub charset: Option<String>,
    /// Maximum size of a value in bytes, for text and binary columns.
    pub octets: usize,
    /// True for a virtual generated column, which the log does not contain.
    pub is_virtual: bool,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaIndex {
    /// Name, unquoted.
    pub name: String,
    /// Kind of index.
    pub kind: IndexKind,
    /// Indexes of the key columns in the table, in key order.
    pub columns: Vec<usize>,
    /// True if unique, even if the columns are nullable.
    pub is_unique: bool,
    /// True if a column is in descending order.
    pub is_descending: bool,
}

/// Kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Clustered index, which contains the rows: the primary key, or the index that InnoDB uses instead.
    Clustered,
    /// Unique secondary index without nullable columns.
    Unique,
    /// Any other secondary index.
    Plain,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaForeignKey {
    /// Database and name of the parent table, quoted.
    pub table: String,
    /// Index of the parent table, unquoted.
    pub index: String,
    /// Columns of the parent table's index, unquoted.
    pub parent_columns: Vec<String>,
    /// Indexes of the columns in the child table.
    pub columns: Vec<usize>,
}

impl ReplicaTable {
    /// Returns the clustered index.
    pub fn clustered(&self) -> Option<&ReplicaIndex> {
        self.indexes.iter().find(|index| index.kind == IndexKind::Clustered)
    }
}
