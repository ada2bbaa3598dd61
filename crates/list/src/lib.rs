//! Lists of binary logs: events as the table of `SHOW BINLOG EVENTS` or as JSON with their rows, and transactions one
//! per line. A selection limits them by position, time, server, GTID, table and value.
//!
//! | task | item |
//! |---|---|
//! | write a list | [`list()`], [`ListSettings`] |
//! | choose the logs | [`ListSource`] |
//! | find all changes of one row, from its creation on | [`history`] |
//! | choose events and rows | [`EventRange`], [`EventSelection`], [`RowCondition`] |
#![forbid(unsafe_code)]

mod column_charset;
mod event_context;
mod event_range;
mod event_selection;
mod events_table;
mod expected_value;
pub mod history;
mod json;
mod list_error;
mod list_output;
mod list_settings;
mod list_source;
mod located_event;
mod log_walk;
mod row_condition;
mod transactions;

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;

use logs::ordered::PipelineLimits;

pub use self::event_range::EventRange;
pub use self::event_selection::{EventSelection, ServerIdFilter};
use self::events_table::EventsTable;
use self::json::JsonLines;
pub use self::list_error::ListError;
use self::list_output::ListOutput;
pub use self::list_settings::{ChecksumPolicy, ListDamagePolicy, ListFormat, ListSettings};
pub use self::list_source::ListSource;
use self::log_walk::ListWalk;
pub use self::row_condition::{ConditionError, RowCondition, RowConditions, RowTest};
use self::transactions::{SummaryBuilder, SummaryFormat, SummaryPieces};

/// Maximum size of events and output in transit between threads, in bytes.
const IN_FLIGHT_MAX: usize = 32 << 20;

/// Writes the list that `settings` describes. Returns warnings: the torn tails of logs that are in use.
///
/// A closed `out` ends the list without an error.
///
/// # Errors
///
/// Fails if a log cannot be read, is corrupt, or is torn although not in use, or if `out` cannot be written. The lines
/// before the error have been written.
pub fn list(settings: &ListSettings, out: &mut dyn Write) -> Result<Vec<logs::LogError>, ListError> {
    if put(out, settings.format.header_line())?.is_break() {
        return Ok(Vec::new());
    }
    match settings.format {
        ListFormat::Events => list_lines(settings, &EventsTable { select: &settings.selection }, out),
        ListFormat::Json => list_lines(settings, &JsonLines { select: &settings.selection }, out),
        ListFormat::Transactions => list_transactions(settings, SummaryFormat::Table, out),
        ListFormat::TransactionsJson => list_transactions(settings, SummaryFormat::Json, out),
    }
}

fn list_lines(
    settings: &ListSettings,
    output: &impl ListOutput<Part = Vec<u8>>,
    out: &mut dyn Write,
) -> Result<Vec<logs::LogError>, ListError> {
    let warnings =
        new_list_walk(settings).run(&settings.sources, output, |part| match settings.is_stopped() {
            true => Ok(ControlFlow::Break(())),
            false => put(out, &part),
        })?;
    finish(out)?;
    Ok(warnings)
}

fn list_transactions(
    settings: &ListSettings,
    shape: SummaryFormat,
    out: &mut dyn Write,
) -> Result<Vec<logs::LogError>, ListError> {
    let mut transactions = SummaryBuilder::new(&settings.selection, shape);
    let mut lines = Vec::new();
    let pieces = SummaryPieces { select: &settings.selection };
    let result = new_list_walk(settings).run(&settings.sources, &pieces, |part| {
        transactions.take(part, &mut lines);
        match settings.is_stopped() {
            true => Ok(ControlFlow::Break(())),
            false => put_and_clear(out, &mut lines),
        }
    });
    // Also after an error: the last transaction precedes it.
    transactions.finish(&mut lines);
    let _ = put_and_clear(out, &mut lines)?;
    finish(out)?;
    result
}

fn put_and_clear(out: &mut dyn Write, bytes: &mut Vec<u8>) -> Result<ControlFlow<()>, ListError> {
    let flow = put(out, bytes);
    bytes.clear();
    flow
}

fn new_list_walk(settings: &ListSettings) -> ListWalk {
    ListWalk {
        range: settings.range,
        bounds: PipelineLimits { workers: settings.jobs, bytes: IN_FLIGHT_MAX },
        checksums: settings.checksums,
        damage: settings.damage,
        keyring: settings.keyring.clone(),
        payload_size_large: settings.payload_size_large,
    }
}

fn put(out: &mut dyn Write, bytes: &[u8]) -> Result<ControlFlow<()>, ListError> {
    match out.write_all(bytes) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(cause) => Err(ListError::Write(cause)),
    }
}

fn finish(out: &mut dyn Write) -> Result<(), ListError> {
    match out.flush() {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => Err(ListError::Write(cause)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroUsize;
    use std::path::Path;

    use super::{ListFormat, ListSettings, ListSource, list};

    fn lines(sample: &str, form: ListFormat, jobs: usize, payload_size_large: usize) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
        let source = ListSource::Bytes(sample.to_owned(), fs::read(path).unwrap().into());
        let mut settings = ListSettings::new(form, vec![source]);
        settings.jobs = NonZeroUsize::new(jobs).unwrap();
        settings.payload_size_large = payload_size_large;
        let mut out = Vec::new();
        list(&settings, &mut out).unwrap();
        String::from_utf8_lossy(&out).lines().map(without_checksum).collect()
    }

    /// Removes the checksum of payload events: a payload that is not held in memory is printed before its checksum is
    /// read.
    fn without_checksum(line: &str) -> String {
        match line.split_once("\"checksum\":") {
            Some((before, after)) if line.contains("\"Transaction_payload\"") => {
                before.to_owned() + after.split_once(',').unwrap().1
            }
            _ => line.to_owned(),
        }
    }

    #[test]
    fn large_and_small_payloads_list_the_same() {
        for sample in ["types-compressed.binlog", "large.binlog", "xa-compressed.binlog"] {
            for form in
                [ListFormat::Events, ListFormat::Json, ListFormat::Transactions, ListFormat::TransactionsJson]
            {
                let in_memory = lines(sample, form, 1, usize::MAX);
                assert!(in_memory.len() > 2);
                assert_eq!(in_memory, lines(sample, form, 1, 0), "{sample} {form:?}");
                assert_eq!(in_memory, lines(sample, form, 3, 0), "{sample} {form:?}");
            }
        }
    }
}
