//! Tables that undone transactions change, too, but that are not selected.

use std::collections::{BTreeMap, BTreeSet};

use binlog::{DecodeError, Event, EventFormat, RawEvent};
use sql::TableSelection;

/// Maximum number of tables that the warning names.
const NAMED_MAX: usize = 3;

/// Tables whose changes by undone transactions are not undone.
#[derive(Debug, Default)]
pub(super) struct OtherTables {
    /// Tables of the open statement that are not selected, by their ids.
    mapped: BTreeMap<u64, String>,
    /// Tables that the open transaction changes.
    changed: BTreeSet<String>,
    /// Tables that undone transactions change.
    of_undone: BTreeSet<String>,
}

impl OtherTables {
    /// Adds a table map or rows event.
    pub(super) fn add(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        selected: &TableSelection,
    ) -> Result<(), DecodeError> {
        let event = raw.decode(format)?;
        match &event {
            Event::TableMap(map) if !selected.selects(map.database, map.table) => {
                let [database, table] = [map.database, map.table].map(String::from_utf8_lossy);
                self.mapped.insert(map.table_id, format!("{database}.{table}"));
            }
            Event::TableMap(map) => {
                self.mapped.remove(&map.table_id);
            }
            event => {
                let table = event.rows().and_then(|rows| self.mapped.get(&rows.table_id));
                self.changed.extend(table.cloned());
            }
        }
        Ok(())
    }

    /// Ends a transaction, of which changes of selected tables are undone or not.
    pub(super) fn end_transaction(&mut self, is_undone: bool) {
        let changed = std::mem::take(&mut self.changed);
        if is_undone {
            self.of_undone.extend(changed);
        }
    }

    /// Returns the warning about the tables, if there are any.
    pub(super) fn warning(&self) -> Option<String> {
        let named: Vec<&str> = self.of_undone.iter().take(NAMED_MAX).map(String::as_str).collect();
        let rest = match self.of_undone.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            1 => " and 1 more table".to_owned(),
            rest => format!(" and {rest} more tables"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "the undone transactions also change rows of {}{rest}, which are not undone: to undo them, too, choose \
                 these tables with --table",
                named.join(", ")
            )
        })
    }
}
