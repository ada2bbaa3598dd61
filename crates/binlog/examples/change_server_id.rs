//! Rewrites a log with another server ID. Each event is decoded and encoded, with a new header and checksum.
//!
//! ```text
//! cargo run --example change_server_id samples/ddl.binlog 4711 /tmp/changed.binlog
//! mysqlbinlog --verify-binlog-checksum /tmp/changed.binlog
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::{env, fs};

use bintide_binlog::{EventOrigin, Framer, FramerOutput, MAGIC, NextPosition};

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args_os().skip(1).collect::<Vec<_>>(), &mut stdout().lock())
}

pub(crate) fn run(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [source, server_id, target] = arguments else {
        return Err("usage: change_server_id LOG SERVER-ID NEW-LOG".into());
    };
    let server_id = server_id.to_str().ok_or("the server id is a number")?.parse()?;
    let log = fs::read(source)?;
    let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
    let mut framer = Framer::new();
    let mut changed = MAGIC.to_vec();
    let mut count = 0;
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let format = framer.format().ok_or("the first event must be a format description")?;
        let event = raw.decode(format)?;
        // `RawEvent::rewrite` would keep the body without decoding it.
        let origin = EventOrigin { server_id, ..raw.header().origin() };
        let next = NextPosition::FromStart(changed.len() as u64);
        event.write(origin, next, format, &mut changed)?;
        count += 1;
        rest = &rest[raw.bytes().len()..];
    }
    fs::write(target, &changed)?;
    writeln!(out, "{count} events, {} bytes", changed.len())?;
    Ok(())
}
