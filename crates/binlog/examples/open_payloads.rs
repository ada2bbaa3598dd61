//! Lists the events of compressed transactions, and their sizes before and after compression.
//!
//! ```text
//! cargo run --example open_payloads samples/types-compressed.binlog
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::{env, fs};

use bintide_binlog::events::TransactionPayload;
use bintide_binlog::{Event, Framer, FramerOutput, MAGIC, PayloadOpener};

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args_os().skip(1).collect::<Vec<_>>(), &mut stdout().lock())
}

pub(crate) fn run(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [path] = arguments else { return Err("usage: open_payloads LOG".into()) };
    let log = fs::read(path)?;
    let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
    // One opener for all payloads, to reuse its buffers.
    let (mut framer, mut opener) = (Framer::new(), PayloadOpener::new());
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let format = framer.format().ok_or("the first event must be a format description")?;
        if let Event::TransactionPayload(payload) = raw.decode(format)? {
            writeln!(out, "at {}:", log.len() - rest.len())?;
            open(&payload, &mut opener, out)?;
        }
        rest = &rest[raw.bytes().len()..];
    }
    Ok(())
}

fn open(
    payload: &TransactionPayload<'_>,
    opener: &mut PayloadOpener,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let mut events = opener.open(payload)?;
    // Events are returned one at a time: even a payload of a gigabyte needs no more memory than its largest event.
    while let Some(raw) = events.next_event()? {
        writeln!(out, "  {:<20} {:>8} bytes", raw.event_type().name(), raw.bytes().len())?;
    }
    let (small, large) = (payload.payload.len(), events.summary().uncompressed_size);
    writeln!(out, "  {} compressed {large} bytes to {small}", payload.compression.name())?;
    Ok(())
}
