//! A table as the replica has it: what is touched for a change of its rows.

use servers::quote::put_name;

/// A table as the replica has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Database and table, quoted.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Its indexes, but for those that a search by values of columns cannot reach.
    pub indexes: Vec<Index>,
    /// What its foreign keys refer to.
    pub parents: Vec<Parent>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// As it is.
    pub name: String,
    /// As `information_schema` has it: `varchar`, `bigint`.
    pub data_type: String,
    /// Is it UNSIGNED?
    pub is_unsigned: bool,
    /// The character set of text.
    pub charset: Option<String>,
    /// Bytes that a value may have, of text and bytes.
    pub octets: usize,
    /// Is it computed whenever it is read? Then the log does not have it.
    pub is_virtual: bool,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// As it is.
    pub name: String,
    /// What it is.
    pub kind: IndexKind,
    /// Its columns, in its order.
    pub columns: Vec<usize>,
    /// Is it unique? One of columns that may be NULL is, too.
    pub is_unique: bool,
    /// Is a column in descending order?
    pub is_descending: bool,
}

/// What an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The one that holds the rows: the primary key, or what InnoDB takes for it.
    Clustered,
    /// Another one whose values, which are never NULL, find one row.
    Unique,
    /// Any other.
    Plain,
}

/// What a foreign key refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Database and table, quoted.
    pub table: String,
    /// The index there, as it is.
    pub index: String,
    /// The index's columns, as they are.
    pub names: Vec<String>,
    /// The table's own columns that refer to them.
    pub columns: Vec<usize>,
}

impl Definition {
    /// The index that holds the rows.
    pub fn clustered(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.kind == IndexKind::Clustered)
    }
}

/// A name in backquotes.
pub(crate) fn quoted(name: &str) -> String {
    let mut out = Vec::new();
    put_name(&mut out, name.as_bytes());
    String::from_utf8(out).expect("ours: a name with quotes around it is as good UTF-8 as the name")
}
