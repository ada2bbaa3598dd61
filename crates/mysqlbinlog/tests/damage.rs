//! Samples cut at every few bytes and changed at many: the text never panics, and never omits an event without an error.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use binlog::events::{TransactionPayload, Unknown};
use binlog::{
    Event, EventOrigin, Framer, FramerOutput, HEADER_SIZE, MAGIC, NextPosition, PayloadWriter, ZstdLevel,
};
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
    let (size, error, code) = text_and_error(bytes);
    assert!(code == 0 || !error.is_empty());
    (size, code)
}

/// Does the same as [`text`], and also returns what was written to standard error.
fn text_and_error(bytes: &[u8]) -> (usize, String, u8) {
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
    (output.len(), String::from_utf8_lossy(&error).into_owned(), code)
}

/// Returns the error for a log with the format description of a sample, and then this event.
fn error_of(event_type: u8, body: &[u8]) -> String {
    let sample = sample("xa-compressed.binlog");
    let mut log = sample[..bounds(&sample)[1]].to_vec();
    let mut framer = Framer::new();
    framer.next(&log[MAGIC.len()..]).unwrap();
    let event = Event::Unknown(Unknown { code: event_type, body });
    let next = NextPosition::FromStart(log.len() as u64);
    event.write(EventOrigin::default(), next, framer.format().unwrap(), &mut log).unwrap();
    let (_, error, code) = text_and_error(&log);
    assert_ne!(code, 0, "{error}");
    error
}

/// Returns the header of an event without a body, of this type and stated size.
fn inner_header(event_type: u8, size: u32) -> Vec<u8> {
    let mut header = vec![0; HEADER_SIZE];
    header[4] = event_type;
    header[9..13].copy_from_slice(&size.to_le_bytes());
    header
}

#[test]
fn payloads_contain_whole_events() {
    let check = |inner: &[u8], cut: usize, expected: &str| {
        let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT).unwrap();
        let frame = writer.frame(inner).unwrap();
        let frame = &frame[..frame.len() - cut];
        let mut body = Vec::new();
        TransactionPayload::put_zstd_fields(inner.len() as u64, frame.len() as u64, &mut body);
        body.extend_from_slice(frame);
        assert_eq!(error_of(40, &body), expected);
    };
    let xid = inner_header(16, 19);
    check(&xid, 2, "ERROR: Payload_log_event corrupted: the compressed payload has been truncated.\n");
    check(
        &inner_header(16, 5),
        0,
        "ERROR: Length field of embedded event in Payload_log_event is only 5 bytes, but 19 are required.\n",
    );
    check(
        &inner_header(16, u32::MAX),
        0,
        "ERROR: Length field of embedded event in Payload_log_event is 4294967295 bytes, exceeding the maximum of \
         1073741824 bytes.\n",
    );
    check(
        &inner_header(40, 19),
        0,
        "ERROR: Payload_log_event corrupted: contains an embedded Payload_log_event\n",
    );
}

#[test]
fn events_have_a_known_type_and_size() {
    let sample = sample("xa.binlog");
    let bounds = bounds(&sample);
    let changed = |at: usize, bytes: &[u8]| {
        let mut log = sample.clone();
        log[at..at + bytes.len()].copy_from_slice(bytes);
        text_and_error(&log).1
    };
    assert_eq!(
        [
            changed(bounds[1] + 9, &[5, 0, 0, 0]),
            changed(bounds[0] + HEADER_SIZE + 56, &[120]),
            error_of(99, b"?")
        ],
        [
            "ERROR: Could not read entry at offset 127: Error in log format or read error 1.\n\
             ERROR: corrupted data in log event\n",
            "ERROR: Could not read entry at offset 4: Error in log format or read error 1.\n\
             ERROR: Found invalid Format description event in binary log\n",
            "ERROR: Could not read entry at offset 127: Error in log format or read error 1.\n\
             ERROR: Found invalid event in binary log\n",
        ]
    );
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
