//! Progress of incremental snapshots, saved with the position.

use std::fmt;

use serde_json::{Value, json};

/// Progress of incremental snapshots: the tables that are not read to their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// Tables to read. The first one is being read.
    pub tables: Vec<PendingTable>,
    /// Requests whose tables were added, but whose files may still exist.
    pub requests: Vec<String>,
}

/// Table that an incremental snapshot has not read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingTable {
    /// Names of its database and of the table.
    pub names: [String; 2],
    /// Columns of its primary key, in order; empty before the first chunk.
    pub key: Vec<String>,
    /// Last key that was read, as SQL literals; `None` before the first chunk.
    pub last: Option<Vec<String>>,
    /// Largest key at the start, as SQL literals. Rows after it are in the log.
    pub end: Option<Vec<String>>,
    /// Number of rows that were read.
    pub rows: u64,
}

impl SnapshotProgress {
    /// Progress without tables.
    pub(crate) const NONE: &'static Self = &Self { tables: Vec::new(), requests: Vec::new() };

    /// Returns whether there is nothing to save.
    pub const fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.requests.is_empty()
    }

    fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let tables = value.get("tables")?.as_array()?.iter().map(PendingTable::from_json);
        let requests = texts(value.get("requests")?)?;
        Some(Self { tables: tables.collect::<Option<_>>()?, requests })
    }
}

impl PendingTable {
    /// Creates a table of which nothing was read.
    pub fn new([database, table]: [&str; 2]) -> Self {
        Self { names: [database.to_owned(), table.to_owned()], ..Self::default() }
    }

    /// Forgets what was read: the table is read from its start.
    pub(crate) fn restart(&mut self) {
        (self.key, self.last, self.end, self.rows) = (Vec::new(), None, None, 0);
    }

    fn to_json(&self) -> Value {
        let Self { names, key, last, end, rows } = self;
        json!({"names": names, "key": key, "last": last, "end": end, "rows": rows})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let optional = |name: &str| match value.get(name)? {
            Value::Null => Some(None),
            list => texts(list).map(Some),
        };
        Some(Self {
            names: texts(value.get("names")?)?.try_into().ok()?,
            key: texts(value.get("key")?)?,
            last: optional("last")?,
            end: optional("end")?,
            rows: value.get("rows")?.as_u64()?,
        })
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| Some(text.as_str()?.to_owned())).collect()
}

/// Writes the line `snapshot {…}`; nothing if there is nothing to save.
impl fmt::Display for SnapshotProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let tables: Vec<Value> = self.tables.iter().map(PendingTable::to_json).collect();
        writeln!(out, "snapshot {}", json!({"requests": self.requests, "tables": tables}))
    }
}

/// Parses an optional line `snapshot {…}`; returns its contents and the rest of the text. `None` if the line is malformed.
pub(crate) fn split_snapshot_line(text: &str) -> Option<(SnapshotProgress, &str)> {
    let Some(rest) = text.strip_prefix("snapshot ") else {
        return Some((SnapshotProgress::default(), text));
    };
    let (line, rest) = rest.split_once('\n')?;
    Some((SnapshotProgress::from_json(line)?, rest))
}

#[cfg(test)]
mod tests {
    use super::{PendingTable, SnapshotProgress, split_snapshot_line};

    #[test]
    fn progress_round_trips_in_one_line() {
        let check = |progress: SnapshotProgress| {
            let text = format!("{progress}server a\n");
            assert_eq!(split_snapshot_line(&text), Some((progress, "server a\n")));
        };
        check(SnapshotProgress::default());
        check(SnapshotProgress { tables: Vec::new(), requests: vec!["1a".to_owned()] });
        let begun = PendingTable {
            key: vec!["a".to_owned(), "b\nc".to_owned()],
            last: Some(vec!["7".to_owned(), "X'00'".to_owned()]),
            end: Some(vec!["9".to_owned(), "X'FF'".to_owned()]),
            rows: 12,
            ..PendingTable::new(["d", "it's \"t\""])
        };
        let tables = vec![begun, PendingTable::new(["d", "u"])];
        check(SnapshotProgress { tables, requests: vec!["1a".to_owned(), "2b".to_owned()] });
        for malformed in ["snapshot {}\n", "snapshot {\"tables\":[]", "snapshot x\n"] {
            assert_eq!(split_snapshot_line(malformed), None, "{malformed}");
        }
    }
}
