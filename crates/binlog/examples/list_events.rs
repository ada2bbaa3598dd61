//! Lists the events of a log, one per line.
//!
//! ```text
//! cargo run --example list_events samples/ddl.binlog
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::{env, fs};

use bintide_binlog::{Event, Framer, FramerOutput, MAGIC};

fn main() -> Result<(), Box<dyn Error>> {
    run(&env::args_os().skip(1).collect::<Vec<_>>(), &mut stdout().lock())
}

pub(crate) fn run(arguments: &[OsString], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [path] = arguments else { return Err("usage: list_events LOG".into()) };
    let log = fs::read(path)?;
    let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
    let mut framer = Framer::new();
    // The file is complete, so an incomplete event at its end is torn.
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        let position = log.len() - rest.len();
        raw.verify().map_err(|error| format!("the event at {position}: {error}"))?;
        let format = framer.format().ok_or("the first event must be a format description")?;
        let event = raw.decode(format).map_err(|error| format!("the event at {position}: {error}"))?;
        writeln!(out, "{position:>10}  {:<20} {}", raw.event_type().name(), describe(&event))?;
        rest = &rest[raw.bytes().len()..];
    }
    if !rest.is_empty() {
        writeln!(out, "{:>10}  {} bytes of a torn event", log.len() - rest.len(), rest.len())?;
    }
    Ok(())
}

fn describe(event: &Event<'_>) -> String {
    match event {
        Event::FormatDescription(format) => String::from_utf8_lossy(format.version()).into_owned(),
        // Statements can be in any character set, so they are bytes.
        Event::Query(query) => String::from_utf8_lossy(query.sql).into_owned(),
        Event::TableMap(map) => {
            let (database, table) =
                (String::from_utf8_lossy(map.database), String::from_utf8_lossy(map.table));
            format!("{database}.{table} is number {}", map.table_id)
        }
        Event::Rotate(rotate) => String::from_utf8_lossy(rotate.file).into_owned(),
        Event::Xid(xid) => xid.xid.to_string(),
        event => event.gtid().map(|gtid| gtid.to_string()).unwrap_or_default(),
    }
}
