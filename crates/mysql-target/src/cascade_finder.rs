//! Finds statements whose tables are connected by foreign keys with actions, such as `ON DELETE CASCADE`.

use std::collections::HashMap;

use binlog::Event;
use replay::{RowEvents, TargetFailure};
use servers::SqlConnection;
use sql::quote::quote_text;

use crate::logged_actions::LoggedActions;
use crate::row_sql::ForeignKeyChecks;
use crate::server_failure::server_failure;

/// Finds out for each set of tables whether a foreign key connects two of them by an action. Since MySQL 9.6, events
/// do not show this: all of them have the flag of logged actions.
#[derive(Debug, Default)]
pub(crate) struct CascadeFinder {
    known: HashMap<Vec<(String, String)>, bool>,
}

/// Maximum number of sets of tables that are kept; beyond it, they are forgotten. Bounds memory.
const SETS_MAX: usize = 4096;

impl CascadeFinder {
    /// Returns whether the server checks foreign keys in a statement with these table maps. It does not if the log
    /// contains the rows that foreign keys have changed: the server would change them again.
    pub(crate) fn checks(
        &mut self,
        connection: &mut SqlConnection,
        actions: LoggedActions,
        maps: &RowEvents,
    ) -> Result<ForeignKeyChecks, TargetFailure> {
        let tables = match actions {
            LoggedActions::Absent => return Ok(ForeignKeyChecks::On),
            LoggedActions::Present => table_names(maps)?,
        };
        let is_connected = match self.known.get(&tables) {
            Some(known) => *known,
            None => {
                let found = connection.value(&question(&tables)).map_err(server_failure)?;
                let found = found.is_some_and(|count| count != "0");
                if self.known.len() >= SETS_MAX {
                    self.known.clear();
                }
                let before = self.known.insert(tables, found);
                assert!(before.is_none(), "ours: the server is asked once for each set of tables");
                assert!(self.known.len() <= SETS_MAX, "ours: the number of known sets is bounded");
                found
            }
        };
        Ok(if is_connected { ForeignKeyChecks::ByFlags } else { ForeignKeyChecks::On })
    }
}

/// Returns database and name of each table, sorted.
fn table_names(maps: &RowEvents) -> Result<Vec<(String, String)>, TargetFailure> {
    let mut tables = Vec::new();
    for event in maps.events() {
        let decoded =
            event.decode(&maps.format).map_err(|error| TargetFailure::refused(error.to_string()))?;
        if let Event::TableMap(map) = decoded {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            tables.push((text(map.database), text(map.table)));
        }
    }
    tables.sort();
    tables.dedup();
    Ok(tables)
}

/// Returns the question for the number of foreign keys with actions between these tables.
fn question(tables: &[(String, String)]) -> String {
    assert!(!tables.is_empty(), "ours: a statement with cascades has tables");
    let names: Vec<String> = tables
        .iter()
        .map(|(database, table)| format!("({},{})", quote_text(database), quote_text(table)))
        .collect();
    let names = names.join(",");
    format!(
        "SELECT COUNT(*) FROM information_schema.referential_constraints
         WHERE (update_rule NOT IN ('NO ACTION', 'RESTRICT') OR delete_rule NOT IN ('NO ACTION', 'RESTRICT'))
           AND (constraint_schema, table_name) IN ({names})
           AND (unique_constraint_schema, referenced_table_name) IN ({names})"
    )
}
