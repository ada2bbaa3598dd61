//! What a SQLite target did otherwise than a server would have: counted, by name.

use std::collections::BTreeMap;

/// What was not carried out, and what tables were made without a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Statements that mean nothing to SQLite, by their kind: users, routines, triggers, views.
    pub passed_over: BTreeMap<String, u64>,
    /// Tables whose rows are in the logs and whose definition is not: made from the table map.
    pub from_maps: Vec<String>,
}

impl Remarks {
    /// A line each.
    pub fn lines(&self) -> Vec<String> {
        let times = |count: &u64| if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let passed_over = self.passed_over.iter().map(|(what, count)| {
            format!("passed over, for it means nothing to SQLite, {}: {what}", times(count))
        });
        let from_maps = self.from_maps.iter().map(|table| {
            format!(
                "made from what the log says of its rows, for the logs do not create it: the table {table}"
            )
        });
        passed_over.chain(from_maps).collect()
    }

    pub(super) fn passed_over(&mut self, what: &str) {
        *self.passed_over.entry(what.to_owned()).or_default() += 1;
    }

    /// Adds what another has.
    pub(super) fn take(&mut self, other: &mut Self) {
        for (what, count) in std::mem::take(&mut other.passed_over) {
            *self.passed_over.entry(what).or_default() += count;
        }
        self.from_maps.append(&mut other.from_maps);
    }
}
