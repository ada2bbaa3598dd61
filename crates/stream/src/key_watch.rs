//! Keys of a table's rows that the log changes while a chunk of the table is read.

use std::collections::HashSet;

use binlog::events::{Query, Rows};
use binlog::{Flavour, RowDecoder, RowImage};
use sql::{StatementKind, classify_statement, query_text};

use crate::column_catalogue::TableSchema;
use crate::error::CorruptEvent;
use crate::json_writer::put_string;
use crate::table_plan::{ColumnPlan, TablePlan};
use crate::value::ValueBuffers;
use crate::value::debezium::put;

/// Watch on a table: the keys of the rows that the log changes, as they are written in records.
///
/// Keys are compared with those of a chunk of the table, which was read meanwhile: rows whose keys are equal are older than
/// the log.
#[derive(Debug)]
pub struct KeyWatch {
    names: [String; 2],
    /// Columns of the primary key as JSON: `"id":`. Empty while only the definition is watched.
    labels: Vec<Vec<u8>>,
    keys: HashSet<Box<[u8]>>,
    /// Size of the keys in bytes.
    size: usize,
    fault: Option<WatchFault>,
    buffers: ValueBuffers,
}

/// Reason for reading a chunk again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// A statement defines the table anew, or changes its rows without logging them.
    Redefined,
    /// More rows were changed than are kept.
    TooManyKeys,
    /// A changed row without the columns of the primary key.
    NoKey,
}

/// Maximum size of the keys, with the memory that each needs.
const KEYS_SIZE_MAX: usize = 16 << 20;
/// Memory for a key in addition to its bytes.
const KEY_OVERHEAD: usize = 48;

impl KeyWatch {
    /// Starts a watch on a table's definition.
    pub fn of_definition([database, table]: [&str; 2]) -> Self {
        Self {
            names: [database.to_owned(), table.to_owned()],
            labels: Vec::new(),
            keys: HashSet::new(),
            size: 0,
            fault: None,
            buffers: ValueBuffers::default(),
        }
    }

    /// Starts a watch on a table's rows.
    pub fn of_rows(names: [&str; 2], definition: &TableSchema) -> Self {
        let label = |name: &String| {
            let mut label = Vec::new();
            put_string(&mut label, name);
            label.push(b':');
            label
        };
        Self { labels: definition.primary_key.iter().map(label).collect(), ..Self::of_definition(names) }
    }

    /// Returns the reason for reading the chunk again, if there is one.
    pub const fn fault(&self) -> Option<WatchFault> {
        self.fault
    }

    /// Returns whether the log has changed the row with this key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// Returns whether the rows of this table are watched.
    pub(crate) fn watches(&self, plan: &TablePlan) -> bool {
        !self.labels.is_empty() && [&plan.database, &plan.table] == self.names.each_ref()
    }

    /// Adds the keys of changed rows.
    pub(crate) fn add_rows(
        &mut self,
        plan: &TablePlan,
        decoder: &RowDecoder,
        rows: &Rows<'_>,
    ) -> Result<(), CorruptEvent> {
        if self.fault.is_some() {
            return Ok(());
        }
        let index_of = |label: &Vec<u8>| plan.columns.iter().position(|column| *column.label == **label);
        let Some(indexes) = self.labels.iter().map(index_of).collect::<Option<Vec<usize>>>() else {
            self.set_fault(WatchFault::NoKey);
            return Ok(());
        };
        // The chunk has the keys without masks.
        let whole = |index: &usize| ColumnPlan { mask: None, ..plan.columns[*index].clone() };
        let columns: Vec<(usize, ColumnPlan)> = indexes.iter().map(|index| (*index, whole(index))).collect();
        for row in decoder.rows(rows) {
            let row = row?;
            let (before, after) = (row.before.as_ref(), row.after.as_ref());
            for images in [[before, after], [after, before]] {
                // The second image has the columns that the first one lacks.
                if images[0].is_some() {
                    self.add_image(&columns, images)?;
                }
            }
        }
        Ok(())
    }

    fn add_image(
        &mut self,
        columns: &[(usize, ColumnPlan)],
        images: [Option<&RowImage<'_, '_>>; 2],
    ) -> Result<(), CorruptEvent> {
        let mut key = Vec::new();
        for (index, column) in columns {
            let field = images.iter().flatten().find_map(|image| image.field(*index));
            let Some(field) = field else {
                self.set_fault(WatchFault::NoKey);
                return Ok(());
            };
            key.push(if key.is_empty() { b'{' } else { b',' });
            key.extend_from_slice(&column.label);
            put(&mut key, column, &field.value()?, &mut self.buffers)?;
        }
        key.push(b'}');
        self.add_key(&key);
        Ok(())
    }

    pub(crate) fn add_key(&mut self, key: &[u8]) {
        if self.fault.is_none() && self.keys.insert(key.into()) {
            self.size += key.len() + KEY_OVERHEAD;
            if self.size > KEYS_SIZE_MAX {
                self.set_fault(WatchFault::TooManyKeys);
            }
        }
    }

    /// Records a fault if a statement may change the table.
    pub(crate) fn add_statement(&mut self, query: &Query<'_>, flavour: Flavour) {
        let [database, table] = self.names.each_ref().map(|name| name.as_bytes());
        let is_affected = match classify_statement(query_text(query, flavour).as_bytes()) {
            StatementKind::Database => query.database == database,
            StatementKind::Tables(tables) => tables.iter().any(|named| {
                let (other_database, other) = named.resolve(query.database);
                // Whether case matters depends on the source.
                other_database.eq_ignore_ascii_case(database) && other.eq_ignore_ascii_case(table)
            }),
            StatementKind::DropTemporary | StatementKind::DropTrigger(_) => false,
        };
        if is_affected {
            self.set_fault(WatchFault::Redefined);
        }
    }

    /// Records the fault of a new definition.
    #[cfg(test)]
    pub(crate) fn redefine(&mut self) {
        self.set_fault(WatchFault::Redefined);
    }

    fn set_fault(&mut self, fault: WatchFault) {
        if self.fault != Some(WatchFault::Redefined) {
            self.fault = Some(fault);
        }
        (self.keys, self.size) = (HashSet::new(), 0);
    }
}
