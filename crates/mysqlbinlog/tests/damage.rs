//! Samples cut at every few bytes and changed at many: the text never panics, and never omits an event without an error.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use binlog::{Framer, FramerOutput, MAGIC};
use mysqlbinlog::list_provider::NoLists;
use mysqlbinlog::remote::NoServerAccess;
use mysqlbinlog::{DumpDialect, StandardStreams, run};

fn sample(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)).unwrap()
}

/// Returns the start of each event, and the end of the last one.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let (mut framer, mut bounds) = (Framer::new(), vec![MAGIC.len()]);
    let mut position = MAGIC.len();
    while let Ok(FramerOutput::Event(raw)) = framer.next(&bytes[position..]) {
        position += raw.bytes().len();
        bounds.push(position);
    }
    bounds
}

/// Prints mysqlbinlog's text of a log on standard input. Returns its size and the exit code.
fn text(bytes: &[u8]) -> (usize, u8) {
    let args = ["dump", "-vv", "--jobs=1", "--local-load=/nowhere", "-"].map(OsString::from);
    let (mut output, mut error) = (Vec::new(), Vec::new());
    let mut input = bytes;
    let streams = StandardStreams {
        input: &mut input,
        output: &mut output,
        error: &mut error,
        servers: &mut NoServerAccess,
        lists: &mut NoLists,
    };
    let code = run(DumpDialect::Bintide, args, streams);
    assert!(code == 0 || !error.is_empty());
    (output.len(), code)
}

#[test]
fn text_of_damaged_logs_says_so() {
    for name in ["in-use.binlog", "xa-compressed.binlog", "savepoints.binlog"] {
        let bytes = sample(name);
        let bounds = bounds(&bytes);
        let mut size_before = 0;
        for end in (MAGIC.len()..bytes.len()).step_by(7) {
            let (size, code) = text(&bytes[..end]);
            // mysqlbinlog takes a rest shorter than a header for the end, and warns of a torn tail of a log in use.
            let found = end - bounds.iter().rfind(|bound| **bound <= end).unwrap();
            assert!(code != 0 || found < binlog::HEADER_SIZE || name == "in-use.binlog", "{name} {end}");
            assert!(size + 2000 > size_before, "{name} {end}");
            size_before = size_before.max(size);
        }
        for at in (MAGIC.len()..bytes.len()).step_by(11) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            text(&changed);
        }
    }
}
