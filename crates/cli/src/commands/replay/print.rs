//! What a replay came to.

use std::io::{self, Write as _};

use replay::Report;

use crate::args::Global;
use crate::exit::{Outcome, Verdict};

/// Prints the outcome, as text or as one document.
pub(super) fn print(report: &Report, remarks: &[String], json: bool, global: &Global) -> Outcome {
    let mut out = io::stdout().lock();
    if json {
        let document = serde_json::json!({
            "transactions": report.transactions,
            "skipped": report.skipped,
            "groups": report.groups,
            "retries": report.retries,
            "at_once": report.at_once,
            "undecided": report.undecided,
            "applied": report.applied.to_string(),
            "remarks": remarks,
        });
        serde_json::to_writer_pretty(&mut out, &document).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        writeln!(
            out,
            "{} transactions applied in {} commits, {} passed over",
            report.transactions, report.groups, report.skipped
        )?;
    }
    for xid in report.undecided.iter().filter(|_| !global.quiet) {
        eprintln!(
            "bintide: the XA transaction {xid} is prepared in the logs and not decided: it is not applied"
        );
    }
    for remark in remarks.iter().filter(|_| !global.quiet) {
        eprintln!("bintide: {remark}");
    }
    Ok(Verdict::Fine)
}
