//! Writes the inverse as an SQL script.

use std::env;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, anyhow};
use logs::EncryptedSpool;
use mysql_target::RowScript;
use undo::InversePart;

use super::{Inverse, WriteFailure, logged_actions};
use crate::interrupt;
use crate::units::counted;

/// Bytes of a script that are kept in memory; the rest is in an encrypted temporary file.
const SCRIPT_MEMORY: usize = 16 << 20;
/// Number of bytes of a script to copy at once.
const COPY_SIZE: usize = 1 << 20;

/// Source of the column definitions of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptColumns {
    /// The log, which does not mark generated columns.
    OfLog,
    /// The tables of a server.
    OfServer,
}

/// Writes the inverse as SQL, after the whole inverse is known: a client executes statements as it reads them, so it
/// would execute an incomplete script.
pub(super) fn write_checked(
    inverse: Inverse,
    script: RowScript,
    columns: ScriptColumns,
    out: &mut dyn Write,
) -> Result<(), WriteFailure> {
    let not_stored =
        |error: io::Error| failed(anyhow::Error::from(error).context("could not store the script"));
    let spool = EncryptedSpool::new_in(&env::temp_dir(), SCRIPT_MEMORY).map_err(not_stored)?;
    write(inverse, script, columns, &mut BufWriter::with_capacity(COPY_SIZE, SpoolWriter(&spool)))?;
    let (mut offset, mut part) = (0, vec![0; COPY_SIZE]);
    while offset < spool.size() && !interrupt::is_stop_requested() {
        let rest = usize::try_from(spool.size() - offset).unwrap_or(usize::MAX);
        part.truncate(rest);
        spool.read_exact_at(offset, &mut part).map_err(not_stored)?;
        out.write_all(&part)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// Appends to a spool.
struct SpoolWriter<'s>(&'s EncryptedSpool);

impl Write for SpoolWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the inverse as SQL, with one transaction for each undone one.
pub(super) fn write(
    mut inverse: Inverse,
    mut script: RowScript,
    columns: ScriptColumns,
    out: &mut dyn Write,
) -> Result<(), WriteFailure> {
    let count = counted(inverse.counts.transactions, "transaction");
    writeln!(
        out,
        "-- The inverse of {count}. A row that was changed later is not found, and stays as it is. Exception: if a\n\
         -- later change wrote the same values as an undone change, the script overwrites it. --to does not."
    )?;
    if columns == ScriptColumns::OfLog {
        writeln!(
            out,
            "-- The log shows neither generated columns nor triggers nor foreign keys. Remove generated columns from the\n\
             -- statements, drop triggers while the script runs, and check the foreign keys afterwards; or use --to."
        )?;
    }
    let (mut text, mut is_open) = (String::new(), false);
    while let Some(part) =
        inverse.log.next_part().context("could not read a temporary file").map_err(failed)?
    {
        if interrupt::is_stop_requested() {
            return Ok(());
        }
        match part {
            InversePart::Transaction(transaction) => {
                if std::mem::replace(&mut is_open, true) {
                    text.push_str("COMMIT;\n");
                }
                text.push_str(&format!("-- Undoes {}\nBEGIN;\n", transaction.name));
            }
            InversePart::Statement { maps: events, .. } | InversePart::Rows(events) => {
                let rows = Inverse::rows(&inverse.format, events);
                let begun = match logged_actions(&part) {
                    Some(actions) => script.begin_statement(actions, &rows),
                    None => Ok(()),
                };
                let appended = begun.and_then(|()| script.append(&rows, &mut text));
                appended.map_err(|failure| failed(anyhow!("{failure}")))?;
            }
        }
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    writeln!(out, "COMMIT;")?;
    out.flush()?;
    Ok(())
}

fn failed(error: anyhow::Error) -> WriteFailure {
    WriteFailure::Inverse(error)
}
