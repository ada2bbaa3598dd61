//! Final row counts of the samples' sources, by table: `samples/rows.tsv`, a line for each table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Row counts by `database.table`.
pub(crate) type TableRowCounts = BTreeMap<String, u64>;

const COUNTS_FILE: &str = "rows.tsv";

/// Writes the row counts of a log's source.
pub(super) fn write_counts(log: &str, counts: &TableRowCounts, directory: &Path) -> Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut all = read_counts(directory)?;
    all.insert(log.to_owned(), counts.clone());
    let mut text = String::from("log\ttable\trows\n");
    for (log, counts) in &all {
        for (table, count) in counts {
            writeln!(text, "{log}\t{table}\t{count}")?;
        }
    }
    Ok(fs::write(directory.join(COUNTS_FILE), text)?)
}

/// Reads the row counts of all logs' sources.
pub(crate) fn read_counts(directory: &Path) -> Result<BTreeMap<String, TableRowCounts>> {
    let path = directory.join(COUNTS_FILE);
    let mut all: BTreeMap<String, TableRowCounts> = BTreeMap::new();
    if !path.exists() {
        return Ok(all);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    for line in text.lines().skip(1) {
        let mut words = line.split('\t');
        let (Some(log), Some(table), Some(count)) = (words.next(), words.next(), words.next()) else {
            anyhow::bail!("{} has an invalid line: {line}", path.display());
        };
        all.entry(log.to_owned()).or_default().insert(table.to_owned(), count.parse()?);
    }
    Ok(all)
}
