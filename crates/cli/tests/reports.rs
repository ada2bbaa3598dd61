//! Output and exit codes of stats and verify for the samples.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `bintide` in the directory of the samples.
fn bintide(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(args).env_clear().env("TZ", "UTC").stdin(Stdio::null());
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    command.output().expect("could not run bintide")
}

fn check(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = bintide(args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{args:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr, "{args:?}");
    assert_eq!(output.status.code(), Some(code), "{args:?}");
}

fn printed(args: &[&str]) -> String {
    let output = bintide(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    String::from_utf8(output.stdout).expect("not UTF-8")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&bintide(args).stdout).expect("not JSON")
}

#[test]
fn rows_are_counted_by_kind_and_table() {
    let lines = "6 INSERT rotation.t\n5 DELETE rotation.t\n5 UPDATE rotation.t\n";
    check(&["stats", "--rows", "rotation"], 0, lines, "");
}

#[test]
fn missing_logs_of_a_directory_are_faults() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/rotation");
    for name in ["binlog.000001", "binlog.000006"] {
        std::fs::copy(samples.join(name), directory.path().join(name)).expect("could not copy the file");
    }
    let path = directory.path().to_str().expect("a path that is not UTF-8");
    let [first, last] = [1, 6].map(|number| format!("{path}/binlog.{number:06}"));
    let verified = |args: &[&str], code: i32, expected: &str| {
        let output = bintide(&[&["verify"], args].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(code) && text.contains(expected), "{args:?}: {text}");
    };
    let missing = "rotation: binlog.000002 to binlog.000005 are missing between this log and binlog.000006";
    verified(&[path], 1, missing);
    std::fs::write(directory.path().join("binlog.index"), "./binlog.000001\n./binlog.000006\n")
        .expect("could not write the index");
    verified(&[path], 1, missing);
    verified(&[&format!("{path}/binlog.index")], 1, missing);
    verified(&[&first, &last], 0, "binlog.000002 to binlog.000005 are not given");
    let reversed = "this log comes after binlog.000006, a later one: give the logs in order";
    verified(&[&last, &first], 1, reversed);
    std::fs::write(directory.path().join("binlog.index"), "./binlog.000006\n./binlog.000001\n")
        .expect("could not write the index");
    verified(&[path], 1, reversed);
}

#[test]
fn stats_warns_of_torn_logs() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let log = std::fs::read(samples.join("triggers.binlog")).expect("could not read the sample");
    let cut = directory.path().join("cut.binlog");
    std::fs::write(&cut, &log[..4200]).expect("could not write the log");
    let cut = cut.to_str().expect("a path that is not UTF-8");
    for args in [&["stats", "--rows", cut][..], &["stats", "--json", cut]] {
        let output = bintide(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("cut.binlog is torn at 41"), "{text}");
        assert!(text.contains(" bytes of an incomplete event are not counted"), "{text}");
    }
}

/// A server may write to its newest log while the log is read.
#[test]
fn undo_and_dry_runs_end_before_the_torn_event_of_a_log_in_use() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let log = std::fs::read(samples.join("torn.binlog")).expect("could not read the sample");
    let path =
        |name: &str| directory.path().join(name).to_str().expect("a path that is not UTF-8").to_owned();
    let (torn, between, undone) = (path("torn.binlog"), path("between.binlog"), path("undo.binlog"));
    std::fs::write(&torn, &log).expect("could not write the log");
    std::fs::write(&between, &log[..1102]).expect("could not write the log");
    let gtid = "5ea5ca5e-0001-4000-8000-000000000001:3";
    let missing = "5ea5ca5e-0001-4000-8000-000000000001:4";
    let within = "ends within the transaction that starts at 844";
    let cases = [
        (&["undo", "--gtid", gtid, "-r", &undone, &torn][..], 0, "is torn at 1102"),
        (&["undo", "--gtid", gtid, "-r", &undone, &between], 0, within),
        (&["undo", "--gtid", missing, "-r", &undone, &torn], 1, "the logs do not contain these transactions"),
        (&["compress", "-n", &torn], 0, "is torn at 1102"),
        (&["decompress", "-n", &torn], 0, "is torn at 1102"),
        (&["compress", "-o", &path("new"), &torn], 1, "is torn at 1102"),
    ];
    for (args, code, message) in cases {
        let output = bintide(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(message), "{args:?}: {text}");
        let _ = std::fs::remove_file(&undone);
    }
}

#[test]
fn tables_of_stats() {
    printed(&["stats", "--by", "table", "--top", "18446744073709551615", "rotation"]);
    let text = printed(&["stats", "rotation"]);
    let table = "\
Tables

 table        inserted   updated   deleted   row events     bytes     share
────────────────────────────────────────────────────────────────────────────
 rotation.t          6         5         5            8   16.0 kB   100.0 %
";
    assert!(text.contains(table), "{text}");
    let sizes = "\
 up to    transactions    share    bytes    share
──────────────────────────────────────────────────
 256 B               2   20.0 %    422 B    2.4 %
";
    assert!(text.contains(sizes), "{text}");
    assert!(text.contains(" GTIDs         5ea5ca5e-0001-4000-8000-000000000001:1-9:tagged:1\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "colours in a pipe");
    assert!(printed(&["stats", "--color", "always", "rotation"]).contains("\u{1b}[1mTables\u{1b}[0m"));
}

#[test]
fn stats_of_mariadb_show_the_last_gtid_of_each_domain() {
    let found = json(&["stats", "--json", "mariadb-gtids"]);
    let last = found["gtids"]["domains"].as_str().expect("no text");
    let domains: Vec<&str> = last.split(',').filter_map(|gtid| gtid.split('-').next()).collect();
    assert_eq!(domains, ["1", "2", "4294967295"], "{last}");
    assert_eq!((&found["gtids"]["set"], &found["gtids"]["anonymous"]), (&"".into(), &0.into()));
    let expected = format!("GTIDs         last of each domain: {last}\n");
    assert!(printed(&["stats", "mariadb-gtids"]).contains(&expected));
}

#[test]
fn stats_as_json_have_the_same_values() {
    let report = json(&["stats", "--json", "--top", "1", "rotation"]);
    assert_eq!(report["totals"]["transactions"], 10);
    assert_eq!(report["totals"]["insert"]["rows"], 6);
    assert_eq!(report["tables"][0]["table"], "t");
    assert_eq!(report["gtids"]["gaps"], "");
    assert_eq!(report["largest"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["compression"][0]["compression_type"], "NONE");
}

#[test]
fn the_page_has_no_external_parts() {
    let page = printed(&["stats", "--html", "-", "rotation", "types-compressed.binlog"]);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<svg"));
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn verdicts_and_exit_codes() {
    check(&["verify", "xa.binlog"], 0, "xa.binlog: sound: 16 transactions, 68 events, 5.9 kB\n", "");
    let missing = "the event at 1102 has 24 of 31 bytes; the transaction at 844 is incomplete";
    let torn = format!(
        "torn.binlog: its server still writes to it, or crashed: {missing}\n\
         torn.binlog: sound: 3 transactions, 15 events, 1.1 kB\n"
    );
    check(&["verify", "torn.binlog"], 0, &torn, "");
    check(&["verify", "--quiet", "torn.binlog"], 0, "", "");
    let start = "xa.sql at 0: start: the file starts with ";
    let output = bintide(&["verify", "xa.sql"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(start), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    let output = bintide(&["verify", "encrypted"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).starts_with("bintide: encrypted/binlog.000001 is encrypted")
    );
    assert!(!String::from_utf8_lossy(&output.stdout).contains("is encrypted"), "{output:?}");
    printed(&["verify", "encrypted", "--keyring", "encrypted/keyring"]);
    let absent = "bintide: could not open absent: No such file or directory (os error 2)\n";
    check(&["verify", "absent"], 2, "", absent);
}

#[test]
fn empty_and_duplicate_logs_are_reported() {
    let nothing = "bintide: /dev/null has no events; it is empty or torn at its start: omit it, or give the complete log\n";
    check(&["stats", "--rows", "/dev/null"], 1, "", nothing);
    let twice = "bintide: ./rotation/binlog.000006 is given more than once: it is read once\n";
    let output = bintide(&["stats", "--rows", "rotation", "./rotation/binlog.000006"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), twice);
    let line = "rotation/binlog.000006: sound: 2 transactions, 13 events, 915 B\n";
    let args = ["verify", "rotation/binlog.000006", "./rotation/binlog.000006"];
    check(&args, 0, line, twice);
    check(
        &["stats", "--rows", "--quiet", "xa.binlog", "xa.binlog"],
        0,
        &printed(&["stats", "--rows", "xa.binlog"]),
        "",
    );
    let line = "rotation/binlog.000005: sound: 1 transaction, 8 events, 8.2 kB\n";
    check(&["verify", "rotation/binlog.000005"], 0, line, "");
}

/// The reader of the report closes the pipe: the verdict and the copy are the same.
#[test]
fn a_closed_pipe_does_not_change_the_verdict() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let copy = directory.path().join("copy");
    let text = copy.to_str().expect("a path that is not UTF-8");
    let code = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().expect("could not create a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
        command.args(args).env_clear().stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
        command.status().expect("could not run bintide").code()
    };
    assert_eq!(code(&["verify", "xa.sql"]), Some(1));
    assert_eq!(code(&["verify", "xa.sql", "--json"]), Some(1));
    assert_eq!(code(&["diff", "gtids", "rotation"]), Some(1));
    assert_eq!(code(&["verify", "torn.binlog", "--repair-tail", text]), Some(0));
    assert!(copy.exists());
    assert_eq!(code(&["dump", "xa.binlog"]), Some(0));
}

#[test]
fn a_page_may_be_written_through_a_link() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let [link, target] = ["link", "page"].map(|name| directory.path().join(name));
    std::os::unix::fs::symlink(&target, &link).expect("could not create a link");
    let path = link.to_str().expect("a path that is not UTF-8");
    check(
        &["stats", "--html", path, "absent"],
        2,
        "",
        "bintide: could not open absent: No such file or directory (os error 2)\n",
    );
    assert!(link.is_symlink() && !target.exists());
    check(&["stats", "--html", path, "xa.binlog"], 0, "", "");
    assert!(link.is_symlink() && target.is_file());
}

#[test]
fn impossible_repairs_are_refused_first() {
    let pipe = "/dev/null is not a regular file: --repair-tail copies a log file";
    check(&["verify", "/dev/null", "--repair-tail", "copy"], 2, "", &format!("bintide: {pipe}\n"));
    let parent = "bintide: absent is not a directory: --repair-tail writes its copy there\n";
    check(&["verify", "xa.binlog", "--repair-tail", "absent/copy"], 2, "", parent);
}

#[test]
fn repairs_are_reported() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let copy = directory.path().join("copy");
    let copy = copy.to_str().expect("a path that is not UTF-8");
    let same = format!("xa.binlog needs no repair: {copy} is an identical copy of 5,911 bytes\n");
    let output = bintide(&["verify", "xa.binlog", "--repair-tail", copy]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), same);
    let other = directory.path().join("other");
    let other = other.to_str().expect("a path that is not UTF-8");
    let output = bintide(&["verify", "torn.binlog", "--repair-tail", other]);
    let expected = format!("wrote {other}: 844 bytes, 282 less than torn.binlog, without the in-use flag\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}

/// A fault in a whole transaction stays in the copy: the log is not said to need no repair.
#[test]
fn faults_of_repaired_copies_are_reported() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let (log, copy) = (directory.path().join("log"), directory.path().join("copy"));
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/types-no-checksum.binlog");
    let mut bytes = std::fs::read(sample).expect("no sample");
    // `end_log_pos` of the last Xid event (27 bytes), before the Stop event (19 bytes).
    let end_log_pos = bytes.len() - 19 - 27 + 13;
    bytes[end_log_pos] ^= 1;
    std::fs::write(&log, &bytes).expect("could not write the log");
    let (log, copy) = (log.to_str().expect("not UTF-8"), copy.to_str().expect("not UTF-8"));
    let output = bintide(&["verify", log, "--repair-tail", copy]);
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "bintide: {copy} still has 1 fault: --repair-tail removes only a torn or incomplete end. Restore the log \
         from another copy\nwrote {copy}: all 54,011 bytes of {log}, which has no torn or incomplete \
         end\n"
    );
    assert_eq!((errors.as_ref(), output.status.code()), (expected.as_str(), Some(1)));
    assert_eq!(std::fs::read(copy).expect("no copy"), bytes);
}

/// A file without any event is not a store without transactions.
#[test]
fn files_without_events_are_not_compared() {
    let directory = tempfile::tempdir().expect("could not create a directory");
    let log = directory.path().join("log");
    for (bytes, reason) in [(&b""[..], "is empty: omit it"), (b"\xfebin", "has no events")] {
        std::fs::write(&log, bytes).expect("could not write the log");
        let log = log.to_str().expect("not UTF-8");
        let output = bintide(&["diff", log, log]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && errors.contains(reason), "{output:?}");
    }
}

#[test]
fn verdicts_as_json() {
    let verdict = json(&["verify", "--json", "rotation", "xa.sql"]);
    assert_eq!(verdict["verdict"], "faulty");
    assert_eq!(verdict["logs"].as_array().map(Vec::len), Some(7));
    assert_eq!(verdict["faults"][0]["kind"], "start");
    assert_eq!(verdict["faults"][0]["offset"], 0);
}
