//! Counts of differences between a SQLite target and a server.

use std::collections::BTreeMap;

/// Statements that were not executed, and tables that were created without a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqliteRemarks {
    /// Number of statements without effect in SQLite, by kind: users, routines, triggers, views.
    pub passed_over: BTreeMap<String, u64>,
    /// Tables that were created from a table map, because the logs have their rows but not their definition.
    pub from_maps: Vec<String>,
}

impl SqliteRemarks {
    /// Returns one line for each remark.
    pub fn lines(&self) -> Vec<String> {
        let times = |count: &u64| if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let passed_over = self.passed_over.iter().map(|(what, count)| {
            format!("skipped {}, because SQLite has no equivalent: {what}", times(count))
        });
        let from_maps = self.from_maps.iter().map(|table| {
            format!(
                "created the table {table} from row events, because the logs do not contain its definition"
            )
        });
        passed_over.chain(from_maps).collect()
    }

    pub(crate) fn count_passed_over(&mut self, what: &str) {
        *self.passed_over.entry(what.to_owned()).or_default() += 1;
    }

    /// Moves the remarks of another value into this value.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        for (what, count) in std::mem::take(&mut other.passed_over) {
            *self.passed_over.entry(what).or_default() += count;
        }
        self.from_maps.append(&mut other.from_maps);
    }
}
