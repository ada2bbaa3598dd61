//! What mysqlbinlog never gave: events as a table or as JSON, and transactions, a line each.

mod events_table;
mod info;
mod json;
mod range;
mod scene;
mod settings;
mod walk;

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;

use logs::ordered::Bounds;

use self::events_table::EventsTable;
use self::json::JsonLines;
pub use self::range::Range;
pub use self::settings::{Checksums, Damage, Form, ListSettings};
pub use self::walk::{ListError, Source};
use self::walk::{Output, Walk};

/// Events and what is made of them, in bytes, between the threads.
const MEMORY: usize = 32 << 20;

/// Writes what the settings ask for. Gives warnings: the torn tails of logs that are in use.
///
/// A reader of `out` that goes away ends it, and is no error.
///
/// # Errors
///
/// When a log cannot be read, is not as it must be or is torn though not in use, or when `out` cannot be written.
/// All that stands in front of the fault has been written by then.
pub fn list(settings: &ListSettings, out: &mut dyn Write) -> Result<Vec<logs::Error>, ListError> {
    match settings.form {
        Form::Events => {
            if put(out, events_table::HEAD)?.is_break() {
                return Ok(Vec::new());
            }
            list_lines(settings, &EventsTable, out)
        }
        Form::Json => list_lines(settings, &JsonLines, out),
    }
}

fn list_lines(
    settings: &ListSettings,
    output: &impl Output<Part = Vec<u8>>,
    out: &mut dyn Write,
) -> Result<Vec<logs::Error>, ListError> {
    let warnings = walk(settings).run(&settings.sources, output, |part| put(out, &part))?;
    finish(out)?;
    Ok(warnings)
}

fn walk(settings: &ListSettings) -> Walk {
    Walk {
        range: settings.range,
        bounds: Bounds { workers: settings.jobs, bytes: MEMORY },
        checksums: settings.checksums,
        damage: settings.damage,
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
