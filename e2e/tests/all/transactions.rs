//! Logs of random SQL: every event encodes to the original bytes, and every transaction has the start, the end and
//! the size that the grammar and the server define.

use std::fs;

use anyhow::{Context, Result, anyhow, ensure};
use binlog::{
    Event, EventFormat, EventRole, Framer, FramerOutput, MAGIC, NextPosition, PayloadOpener, RawEvent,
    TransactionGrammar, TransactionTracker,
};
use e2e::workload;
use tempfile::TempDir;

#[test]
fn transactions_of_random_sql() -> Result<()> {
    let directory = TempDir::new()?;
    let mut count = 0;
    for seed in 21..24 {
        let name = format!("random-{seed}");
        workload::record(seed, &name, directory.path())?;
        for entry in fs::read_dir(directory.path().join(&name))? {
            let path = entry?.path();
            let log = fs::read(&path)?;
            if log.starts_with(&MAGIC) {
                count += check(&log).with_context(|| format!("seed {seed}, {}", path.display()))?;
            }
        }
    }
    ensure!(count > 250, "only {count} transactions");
    Ok(())
}

/// Checks one log; returns the number of its transactions.
fn check(log: &[u8]) -> Result<u64> {
    let (mut framer, mut tracker, mut count) = (Framer::new(), TransactionTracker::new(), 0);
    let mut rest = &log[MAGIC.len()..];
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let position = (log.len() - rest.len()) as u64;
        let format = framer.format().context("no format description")?;
        check_event(&raw, format).with_context(|| format!("at {position}"))?;
        let tracked = tracker.track(position, &raw, format).with_context(|| format!("at {position}"))?;
        if let Some(outline) = tracked.ended {
            let stated_size = outline.stamps.and_then(|stamps| stamps.transaction_size);
            ensure!(stated_size == Some(outline.size), "{outline:?}");
            count += 1;
        }
        rest = &rest[raw.bytes().len()..];
    }
    ensure!(rest.is_empty() && tracker.open().is_none(), "{} bytes, {:?}", rest.len(), tracker.open());
    Ok(count)
}

fn check_event(raw: &RawEvent<'_>, format: &EventFormat) -> Result<()> {
    raw.verify()?;
    let (event, mut again) = (raw.decode(format)?, Vec::new());
    let next = NextPosition::Fixed(raw.header().next_position);
    // Events in a payload have no checksum.
    let inner = format.inside_payload();
    let format_written = if raw.checksum_stored().is_some() { format } else { &inner };
    event.write(raw.header().origin(), next, format_written, &mut again)?;
    ensure!(again == raw.bytes(), "{event:?}");
    if let Event::TransactionPayload(payload) = event {
        let (mut opener, mut grammar) = (PayloadOpener::new(), TransactionGrammar::inside_payload());
        let mut events = opener.open(&payload)?;
        while let Some(raw) = events.next_event()? {
            check_event(&raw, &inner)?;
            grammar.step(EventRole::of(&raw, &inner)?).map_err(|fault| anyhow!("inside: {fault}"))?;
        }
        ensure!(!grammar.is_open(), "the payload's transaction is not complete");
    }
    Ok(())
}
