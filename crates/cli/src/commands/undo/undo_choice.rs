//! Choice of row changes by their tables and values.

use std::collections::BTreeSet;

use binlog::events::TableMap;
use binlog::{DecodeError, EventFormat, RowChange, Table};
use list::{RowConditions, RowTest};
use sql::TableSelection;
use undo::RowChoice;

use super::renumbered_tables::RenumberedTables;
use super::unnamed_columns::UnnamedColumns;
use crate::column_name_source::ServerDefinitions;

/// Choice of the row changes of a transaction.
pub(super) struct UndoChoice<'c> {
    pub(super) tables: &'c TableSelection,
    pub(super) unmatched: &'c mut BTreeSet<usize>,
    pub(super) conditions: &'c RowConditions,
    pub(super) definitions: Option<&'c mut ServerDefinitions>,
    pub(super) format: &'c EventFormat,
    /// Test of the open event's table.
    pub(super) test: Option<RowTest<'c>>,
    /// Reason why a condition that names a column cannot be tested.
    pub(super) unnamed: Option<UnnamedColumns>,
    pub(super) renumbered: &'c mut RenumberedTables,
    /// True if a row of the open event is chosen.
    pub(super) has_chosen: bool,
}

impl<'c> UndoChoice<'c> {
    /// Returns the test for the rows of a table, with the server's column names if the log has none.
    fn test_of(&mut self, table: &Table) -> Result<RowTest<'c>, UnnamedColumns> {
        if let Some(test) = self.conditions.test(table) {
            return Ok(test);
        }
        let Some(definitions) = &mut self.definitions else { return Err(UnnamedColumns::Log) };
        let completed = definitions.complete(table).map_err(UnnamedColumns::Query)?;
        let test = completed.and_then(|table| self.conditions.test(&table));
        test.ok_or_else(|| {
            let [database, table] = [&table.database, &table.name].map(|name| String::from_utf8_lossy(name));
            UnnamedColumns::Server(format!("{database}.{table}"))
        })
    }
}

impl RowChoice for UndoChoice<'_> {
    fn selects_table(&mut self, map: &TableMap<'_>) -> bool {
        let is_selected = self.tables.selects(map.database, map.table);
        if is_selected && !self.unmatched.is_empty() {
            for number in self.tables.matching_patterns(map.database, map.table) {
                self.unmatched.remove(&number);
            }
        }
        is_selected
    }

    fn begin_event(&mut self) {
        self.test = None;
        self.has_chosen = false;
    }

    fn selects_row(&mut self, row: &RowChange<'_, '_>) -> Result<bool, DecodeError> {
        if self.test.is_none()
            && self.unnamed.is_none()
            && let Some(image) = row.images().next()
        {
            match self.test_of(image.table()) {
                Ok(test) => self.test = Some(test),
                Err(unnamed) => self.unnamed = Some(unnamed),
            }
        }
        let is_chosen = self.test.as_ref().map_or(Ok(false), |test| test.passes(row, self.format))?;
        if is_chosen
            && !std::mem::replace(&mut self.has_chosen, true)
            && let Some(image) = row.images().next()
        {
            self.renumbered.add_undone(image.table());
        }
        Ok(is_chosen)
    }
}
