//! The inverse as an SQL script.

use std::io::Write;

use anyhow::{Context, anyhow};
use mysql_target::RowScript;
use undo::InversePart;

use super::{Inverse, WriteFailure, logged_actions};
use crate::interrupt;
use crate::units::counted;

/// Writes the inverse as SQL, a transaction for each undone one.
pub(super) fn write(
    mut inverse: Inverse,
    mut script: RowScript,
    out: &mut dyn Write,
) -> Result<(), WriteFailure> {
    let count = counted(inverse.counts.transactions, "transaction");
    writeln!(
        out,
        "-- The inverse of {count}. Rows that were changed since are not found and stay as they are."
    )?;
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
                if let Some(actions) = logged_actions(&part) {
                    script.begin_statement(actions);
                }
                let rows = Inverse::rows(&inverse.format, events);
                script.append(&rows, &mut text).map_err(|failure| failed(anyhow!("{failure}")))?;
            }
        }
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    writeln!(out, "COMMIT;")?;
    Ok(())
}

fn failed(error: anyhow::Error) -> WriteFailure {
    WriteFailure::Inverse(error)
}
