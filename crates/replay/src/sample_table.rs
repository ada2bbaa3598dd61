//! Sample tables and rows for tests.

use std::sync::Arc;

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{Flavour, KeyPart, RowDecoder, Table};

use crate::target_table_definition::{StorageEngine, TargetTableDefinition, TargetTableName, UniqueKey};

/// A table of a few columns.
#[derive(Clone, Debug)]
pub(crate) struct SampleTable {
    name: &'static str,
    table_id: u64,
    types: Vec<u8>,
    metadata: Vec<u8>,
    optional: Vec<u8>,
    all: Vec<u8>,
}

/// A value as stored in an image, including its size; `None` for NULL.
pub(crate) type StoredValue = Option<Vec<u8>>;

impl SampleTable {
    /// Columns as words: `int`, `bigint`, `double`, `varchar:COLLATION`, `char:COLLATION`, `json`, `decimal`.
    pub(crate) fn new(columns: &str) -> Self {
        let (mut types, mut metadata, mut collations) = (Vec::new(), Vec::new(), Vec::new());
        for word in columns.split_whitespace() {
            let (name, collation) = word.split_once(':').unwrap_or((word, ""));
            let (code, more): (u8, &[u8]) = match name {
                "int" => (3, &[]),
                "bigint" => (8, &[]),
                "double" => (5, &[8]),
                "decimal" => (246, &[4, 2]),
                "varchar" => (15, &[80, 0]),
                "char" => (254, &[254, 80]),
                "json" => (245, &[4]),
                other => panic!("{other} is no column"),
            };
            types.push(code);
            metadata.extend_from_slice(more);
            if !collation.is_empty() {
                let collation: u16 = collation.parse().unwrap();
                collations.push(0xfc);
                collations.extend_from_slice(&collation.to_le_bytes());
            }
        }
        let mut optional = vec![3, collations.len() as u8];
        optional.append(&mut collations);
        let all = vec![0xff; types.len().div_ceil(8)];
        Self { name: "t", table_id: 7, types, metadata, optional, all }
    }

    /// Returns another table with the same columns.
    pub(crate) fn named(&self, name: &'static str, table_id: u64) -> Self {
        Self { name, table_id, ..self.clone() }
    }

    pub(crate) fn map(&self) -> TableMap<'_> {
        TableMap {
            table_id: self.table_id,
            flags: 1,
            database: b"d",
            table: self.name.as_bytes(),
            column_types: &self.types,
            metadata: &self.metadata,
            nullable: &self.all,
            optional: &self.optional,
            flavour: Flavour::MySql,
        }
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::new(Table::new(&self.map()).unwrap())
    }

    /// Returns an event with all columns in every image.
    pub(crate) fn rows<'a>(&'a self, kind: RowsKind, rows: &'a [u8]) -> Rows<'a> {
        let all = ColumnSet { bits: &self.all };
        Rows {
            kind,
            table_id: self.table_id,
            flags: RowsFlags::STATEMENT_END,
            extra: Some(&[]),
            column_count: self.types.len() as u64,
            columns: all,
            columns_after: kind.has_after().then_some(all),
            rows,
        }
    }

    pub(crate) fn decoder(&self, rows: &Rows<'_>) -> RowDecoder {
        RowDecoder::new(self.table(), rows).unwrap()
    }
}

/// Returns an image with all columns.
pub(crate) fn image(values: &[StoredValue]) -> Vec<u8> {
    let mut bytes = vec![0; values.len().div_ceil(8)];
    for (index, value) in values.iter().enumerate() {
        match value {
            Some(value) => bytes.extend_from_slice(value),
            None => bytes[index / 8] |= 1 << (index % 8),
        }
    }
    bytes
}

/// Returns an INT as stored.
pub(crate) fn int(value: i32) -> StoredValue {
    Some(value.to_le_bytes().to_vec())
}

/// Returns a CHAR or VARCHAR as stored.
pub(crate) fn text(value: &str) -> StoredValue {
    let mut bytes = vec![value.len() as u8];
    bytes.extend_from_slice(value.as_bytes());
    Some(bytes)
}

/// Returns an InnoDB table. `keys` are the primary key, then other unique keys, separated by `;`. A key is a list of
/// columns or `column(prefix)`. An empty primary key means none; `?` is a key of expressions.
pub(crate) fn definition(keys: &str) -> TargetTableDefinition {
    let part = |word: &str| match word.trim_end_matches(')').split_once('(') {
        Some((column, prefix)) => {
            KeyPart { column: column.parse().unwrap(), prefix: prefix.parse().unwrap() }
        }
        None => KeyPart { column: word.parse().unwrap(), prefix: 0 },
    };
    let parts = |words: &str| words.split_whitespace().map(part).collect::<Vec<_>>();
    let mut keys = keys.split(';');
    let primary_key = keys.next().map(parts).filter(|parts| !parts.is_empty());
    let unique_keys = keys.map(|key| match key.trim() {
        "?" => UniqueKey::Other,
        words => UniqueKey::Columns(parts(words)),
    });
    TargetTableDefinition {
        name: TargetTableName { database: b"d".as_slice().into(), table: b"t".as_slice().into() },
        engine: StorageEngine::InnoDb,
        primary_key,
        unique_keys: unique_keys.collect(),
        ..TargetTableDefinition::default()
    }
}
