//! Lists the transactions of consecutive logs, and prints the set of their GTIDs.
//!
//! ```text
//! cargo run --example follow_gtids samples/gtids/binlog.00*
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::{env, fs};

use bintide_binlog::gtid::GtidSet;
use bintide_binlog::{Framer, FramerOutput, MAGIC, TransactionId, TransactionOutline, TransactionTracker};

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args_os().skip(1).collect::<Vec<_>>(), &mut stdout().lock())
}

pub(crate) fn run(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    // One tracker for all logs: in relay logs, a transaction can continue in the next log.
    let mut tracker = TransactionTracker::new();
    let mut executed = GtidSet::new();
    for path in arguments {
        let log = fs::read(path)?;
        follow(&log, &mut tracker, |outline| {
            if let TransactionId::Gtid(gtid) = outline.id {
                executed.add(gtid);
            }
            let TransactionOutline { position, size, kind, id, .. } = outline;
            writeln!(out, "{position:>10}  {size:>8} bytes  {kind:?}  {id}")
        })?;
    }
    if let Some(open) = tracker.open() {
        writeln!(out, "{} has no end; expected {}", open.id, tracker.expected())?;
    }
    writeln!(out, "{executed}")?;
    Ok(())
}

fn follow(
    log: &[u8],
    tracker: &mut TransactionTracker,
    mut see: impl FnMut(&TransactionOutline) -> std::io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
    let mut framer = Framer::new();
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let position = (log.len() - rest.len()) as u64;
        let format = framer.format().ok_or("the first event must be a format description")?;
        // A fault tells what was found and expected, and what must be skipped to continue. This example stops there.
        let tracked = tracker.track(position, &raw, format)?;
        if let Some(outline) = &tracked.ended {
            see(outline)?;
        }
        rest = &rest[raw.bytes().len()..];
    }
    Ok(())
}
