//! Output of the examples for the sample logs.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;

#[allow(dead_code)] // The example's `main` is unused; likewise below.
#[path = "../examples/change_server_id.rs"]
mod change_server_id;
#[allow(dead_code)]
#[path = "../examples/count_rows.rs"]
mod count_rows;
#[allow(dead_code)]
#[path = "../examples/follow_gtids.rs"]
mod follow_gtids;
#[allow(dead_code)]
#[path = "../examples/list_events.rs"]
mod list_events;
#[allow(dead_code)]
#[path = "../examples/open_payloads.rs"]
mod open_payloads;

type ExampleFn = fn(&[OsString], &mut dyn Write) -> Result<(), Box<dyn std::error::Error>>;

/// Returns the output of an example for sample logs.
fn output(run: ExampleFn, samples: &[&str]) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let paths: Vec<OsString> = samples.iter().map(|name| directory.join(name).into_os_string()).collect();
    let mut out = Vec::new();
    run(&paths, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn events_are_listed() {
    let text = output(list_events::run, &["xa.binlog"]);
    assert!(text.starts_with("         4  Format_desc          9.7"), "{text}");
    assert!(text.contains("XA START X'73696d706c65',X'',1\n"), "{text}");
    let text = output(list_events::run, &["torn.binlog"]);
    assert!(text.ends_with("bytes of a torn event\n"), "{text}");
}

#[test]
fn rows_are_counted_plain_and_compressed() {
    let text = output(count_rows::run, &["savepoints.binlog"]);
    assert_eq!(text, "      11  Write  saves.t\n       1  Write  saves.u\n       1  Update  saves.u\n");
    assert_eq!(output(count_rows::run, &["savepoints-compressed.binlog"]), text);
}

#[test]
fn gtids_are_tracked_from_log_to_log() {
    let text = output(follow_gtids::run, &["gtids/binlog.000001", "gtids/binlog.000002"]);
    assert!(text.contains("Committed  cccccccc-cccc-cccc-cccc-cccccccccccc:by_hand:77\n"), "{text}");
    let text = output(follow_gtids::run, &["torn.binlog"]);
    assert!(text.contains("has no end; expected a statement or a commit\n"), "{text}");
}

#[test]
fn payloads_are_decompressed() {
    let text = output(open_payloads::run, &["savepoints-compressed.binlog"]);
    assert!(text.contains("ZSTD compressed"), "{text}");
    assert!(text.contains("Write_rows"), "{text}");
}

#[test]
fn logs_are_written_repeatedly() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let sample = directory.join("ddl.binlog");
    let changed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changed.binlog");
    let again = Path::new(env!("CARGO_TARGET_TMPDIR")).join("again.binlog");
    let run = |from: &Path, server_id: &str, to: &Path| {
        change_server_id::run(&[from.into(), server_id.into(), to.into()], &mut Vec::new()).unwrap();
    };
    run(&sample, "4711", &changed);
    assert_ne!(fs::read(&changed).unwrap(), fs::read(&sample).unwrap());
    run(&changed, "1", &again);
    assert_eq!(fs::read(&again).unwrap(), fs::read(&sample).unwrap());
}
