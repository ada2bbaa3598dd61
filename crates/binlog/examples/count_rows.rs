//! Counts the changed rows of each table, including those inside compressed transactions.
//!
//! ```text
//! cargo run --example count_rows samples/types-compressed.binlog
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::{env, fs};

use bintide_binlog::events::RowsKind;
use bintide_binlog::{
    DecodeError, Event, EventFormat, Framer, FramerOutput, MAGIC, PayloadOpener, RawEvent, TableRegistry,
};

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args_os().skip(1).collect::<Vec<_>>(), &mut stdout().lock())
}

/// Number of changed rows by table and kind of change.
type RowCounts = BTreeMap<(String, RowsKind), u64>;

pub(crate) fn run(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [path] = arguments else { return Err("usage: count_rows LOG".into()) };
    let log = fs::read(path)?;
    let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
    let (mut framer, mut opener) = (Framer::new(), PayloadOpener::new());
    let (mut tables, mut counts) = (TableRegistry::new(), RowCounts::new());
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let format = framer.format().ok_or("the first event must be a format description")?;
        if let Event::TransactionPayload(payload) = raw.decode(format)? {
            let mut inner = opener.open(&payload)?;
            while let Some(raw) = inner.next_event()? {
                count(&raw, format, &mut tables, &mut counts)?;
            }
        } else {
            count(&raw, format, &mut tables, &mut counts)?;
        }
        rest = &rest[raw.bytes().len()..];
    }
    for ((table, kind), rows) in &counts {
        writeln!(out, "{rows:>8}  {kind:?}  {table}")?;
    }
    Ok(())
}

fn count(
    raw: &RawEvent<'_>,
    format: &EventFormat,
    tables: &mut TableRegistry,
    counts: &mut RowCounts,
) -> Result<(), DecodeError> {
    let event = raw.decode(format)?;
    if let Event::TableMap(map) = &event {
        tables.register(map)?;
    }
    if let Some(rows) = event.rows() {
        let name = tables.table(rows.table_id).map(|table| {
            let (database, table) =
                (String::from_utf8_lossy(&table.database), String::from_utf8_lossy(&table.name));
            format!("{database}.{table}")
        });
        let key = (name.unwrap_or_default(), rows.kind);
        *counts.entry(key).or_default() += tables.decoder(rows)?.count(rows)?;
    }
    Ok(())
}
