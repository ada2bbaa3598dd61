//! Creates every kind of fault in a sample, and expects exactly this fault at its position.

mod edit;
mod fields;
mod payloads;
mod tails;

use std::ops::ControlFlow;
use std::path::Path;

use binlog::EventType;
use inspect::verify::{FaultKind, LogOrder, VerifyInput, VerifyReport, VerifyVerdict, verify};
use logs::LogReader;
use tempfile::TempDir;

use edit::{Log, sample};

/// Verifies files in order.
fn verdicts(paths: &[&Path]) -> VerifyReport {
    verdicts_in_order(paths, LogOrder::Unknown)
}

fn verdicts_in_order(paths: &[&Path], order: LogOrder) -> VerifyReport {
    let inputs = paths.iter().map(|path| VerifyInput {
        name: path.display().to_string(),
        reader: LogReader::open(path),
        order,
    });
    verify(inputs.collect::<Vec<_>>(), &mut |_| ControlFlow::Continue(())).expect("verification failed")
}

/// Verifies one log with a typical name. Returns offset, kind and text of its faults.
fn faults(bytes: &[u8]) -> Vec<(u64, FaultKind, String)> {
    let directory = TempDir::new().expect("could not create a directory");
    let path = directory.path().join("binlog.000001");
    std::fs::write(&path, bytes).expect("could not write or copy the file");
    let verdicts = verdicts(&[&path]);
    assert_eq!(verdicts.verdict() == VerifyVerdict::Sound, verdicts.faults.is_empty());
    verdicts.faults.into_iter().map(|fault| (fault.offset, fault.kind, fault.detail)).collect()
}

/// Expects exactly one fault.
fn check(log: &Log, index: usize, kind: FaultKind, detail: &str) {
    check_bytes(&log.bytes(), log.offset(index), kind, detail);
}

fn check_bytes(bytes: &[u8], offset: u64, kind: FaultKind, detail: &str) {
    assert_eq!(faults(bytes), [(offset, kind, detail.to_owned())]);
}

#[test]
fn samples_have_no_faults() {
    let (mut logs, mut directories) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(sample("")).expect("could not read the samples") {
        let path = entry.expect("could not read the sample").path();
        match path.extension() {
            Some(extension) if extension == "binlog" => logs.push(path),
            _ if path.is_dir() && !path.join("keyring").exists() => directories.push(path),
            _ => {}
        }
    }
    assert!(logs.len() > 20 && directories.len() > 5);
    for log in &logs {
        assert_eq!(verdicts(&[log]).faults, [], "{}", log.display());
    }
    for directory in directories {
        let store = logs::Store::open(&directory).expect("could not open the logs");
        let paths: Vec<&Path> = store.logs().iter().map(AsRef::as_ref).collect();
        assert_eq!(verdicts(&paths).faults, [], "{}", directory.display());
    }
}

/// As mysqlbinlog: "Could not read entry at offset …".
#[test]
fn a_second_log_in_a_file_is_a_fault() {
    let (one, other) = (Log::of_sample("types.binlog").bytes(), Log::of_sample("json.binlog").bytes());
    let detail = "a second log starts here, and is not verified: servers and mysqlbinlog read the file only up to \
                  here. Split the file at this position";
    check_bytes(&[&one[..], &other].concat(), one.len() as u64, FaultKind::Framing, detail);
}

#[test]
fn edited_logs_with_recomputed_checksums_have_no_faults() {
    let mut log = Log::of_sample("types.binlog");
    log.settle();
    let gtid = log.find(EventType::Gtid, 0);
    log.settle_size(gtid, log.find(EventType::Gtid, 1) - 1);
    assert_eq!(faults(&log.bytes()), []);
}

#[test]
fn a_wrong_magic_is_a_start_fault() {
    let mut bytes = Log::of_sample("types.binlog").bytes();
    bytes[0] = 0;
    check_bytes(&bytes, 0, FaultKind::Start, "the file starts with 00 62 69 6e, expected fe 62 69 6e");
}

#[test]
fn wrong_event_sizes_are_framing_faults() {
    let mut log = Log::of_sample("types.binlog");
    let xid = log.find(EventType::Xid, 0);
    log.events[xid][9..13].fill(0);
    let detail = "byte 9: event size is 0, expected 19 bytes or more; skipped 31 bytes, resumed at ";
    check(&log, xid, FaultKind::Framing, &format!("{detail}{}", log.offset(xid + 1)));
}

#[test]
fn changed_bytes_are_checksum_faults() {
    let mut log = Log::of_sample("types.binlog");
    let rows = log.find(EventType::UpdateRows, 1);
    *log.events[rows].last_mut().expect("no byte") ^= 0xff;
    let found = faults(&log.bytes());
    assert_eq!((found.len(), found[0].0, found[0].1), (1, log.offset(rows), FaultKind::Checksum));
    assert!(found[0].2.starts_with("found 0x") && found[0].2.contains(", expected 0x"), "{}", found[0].2);
}

#[test]
fn wrong_format_descriptions_are_faults() {
    let mut log = Log::of_sample("types.binlog");
    log.body(0, |body| body[2 + 50 + 4 + 1 + 1] = 14);
    log.settle();
    check(&log, 0, FaultKind::Format, "the fixed part of Query events has 14 bytes, expected one of [13]");
    let mut log = Log::of_sample("types.binlog");
    log.body(0, |body| body[2 + 5] = b'\t');
    log.settle();
    let detail = r#"the server's version is "9.7.4\t2", expected one like 8.0.43"#;
    check(&log, 0, FaultKind::Format, detail);
    // The version of Debian's MariaDB, and one that fills the whole field.
    for version in
        ["9.7.4-MariaDB-0+deb13u1 from Debian-log", "9.7.4-2 of a packager who has more to say than fits in"]
    {
        let mut log = Log::of_sample("types.binlog");
        let text: Vec<u8> = version.bytes().chain([0; 50]).take(50).collect();
        log.body(0, |body| body[2..52].copy_from_slice(&text));
        log.settle();
        let found = faults(&log.bytes());
        assert!(found.iter().all(|(_, kind, _)| *kind != FaultKind::Format), "{version}: {found:?}");
    }
}

#[test]
fn wrong_fields_are_event_faults() {
    let mut log = Log::of_sample("types.binlog");
    let query = log.find(EventType::Query, 3);
    log.body(query, |body| body[8] = 255);
    log.settle();
    let found = faults(&log.bytes());
    assert_eq!((found.len(), found[0].0, found[0].1), (1, log.offset(query), FaultKind::Event), "{found:?}");
    assert!(found[0].2.starts_with("Query: byte "), "{}", found[0].2);
}

#[test]
fn wrong_orders_of_events_are_grammar_faults() {
    let mut log = Log::of_sample("types.binlog");
    let xid = log.find(EventType::Xid, 1);
    log.events.remove(xid);
    log.settle();
    let detail = "found a GTID, expected a statement or a commit: the transaction before it is incomplete";
    check(&log, xid, FaultKind::Grammar, detail);
}

#[test]
fn closed_logs_with_an_open_transaction() {
    let mut log = Log::of_sample("types.binlog");
    let xid = (0..).map(|nth| log.find(EventType::Xid, nth)).take(18).last().expect("no Xid event");
    let gtid =
        (0..xid).rev().find(|index| log.events[*index][4] == EventType::Gtid.code()).expect("no GTID event");
    let stop = log.find(EventType::Stop, 0);
    log.events.drain(xid..stop);
    log.settle();
    let detail = "the log is closed, but the transaction has no commit";
    check(&log, gtid, FaultKind::Grammar, detail);
}

#[test]
fn wrong_positions_are_faults() {
    let mut log = Log::of_sample("types.binlog");
    let xid = log.find(EventType::Xid, 2);
    let expected = log.offset(xid + 1);
    log.events[xid][13..17].copy_from_slice(&7_u32.to_le_bytes());
    log.settle_checksums();
    check(&log, xid, FaultKind::Position, &format!("end_log_pos is 7, expected {expected}"));
}

#[test]
fn wrong_transaction_sizes_are_faults() {
    let mut log = Log::of_sample("types.binlog");
    let (gtid, next) = (log.find(EventType::Gtid, 4), log.find(EventType::Gtid, 5));
    let expected = log.offset(next) - log.offset(gtid);
    log.gtid(gtid, |event| {
        let stamps = event.stamps.as_mut().expect("no stamps");
        stamps.transaction_size = Some(expected + 1);
    });
    log.settle();
    let detail = format!("the transaction has {expected} bytes, but its GTID event states {}", expected + 1);
    check(&log, gtid, FaultKind::Size, &detail);
}

#[test]
fn wrong_gtids_are_faults() {
    let mut log = Log::of_sample("types.binlog");
    let gtid = log.find(EventType::Gtid, 7);
    log.gtid(gtid, |event| event.gno = 3);
    log.settle();
    let detail = "5ea5ca5e-0001-4000-8000-000000000001:3 is a duplicate";
    check(&log, gtid, FaultKind::Gtid, detail);
    log.gtid(gtid, |event| event.gno = 0);
    log.settle();
    let detail = "the transaction number is not in the range 1 to 2^63 - 2";
    check(&log, gtid, FaultKind::Gtid, detail);
    let mut log = Log::of_sample("mariadb-checksum.binlog");
    let (first, second) = (log.find(EventType::MariadbGtid, 3), log.find(EventType::MariadbGtid, 4));
    let repeated: Vec<Vec<u8>> = log.events[first..second].to_vec();
    log.events.splice(second..second, repeated);
    log.settle();
    let found = faults(&log.bytes());
    assert!(
        matches!(found.as_slice(), [(offset, FaultKind::Gtid, detail)]
        if *offset == log.offset(second) && detail.ends_with(" is a duplicate")),
        "{found:?}"
    );
}

#[test]
fn faults_belong_to_one_of_several_logs_with_the_same_name() {
    let mut damaged = Log::of_sample("types.binlog");
    let gtid = damaged.find(EventType::Gtid, 7);
    damaged.gtid(gtid, |event| event.gno = 3);
    damaged.settle();
    let directory = TempDir::new().expect("could not create a directory");
    let [first, second] = ["a", "b"].map(|name| directory.path().join(name));
    std::fs::write(&first, damaged.bytes()).expect("could not write the file");
    std::fs::copy(sample("xa.binlog"), &second).expect("could not copy the file");
    let named = |path: &Path| VerifyInput {
        name: "standard input".to_owned(),
        reader: LogReader::open(path),
        order: LogOrder::Unknown,
    };
    let report = verify(vec![named(&first), named(&second)], &mut |_| ControlFlow::Continue(()))
        .expect("not verified");
    let faults: Vec<u64> = report.logs.iter().map(|log| log.faults).collect();
    assert_eq!((faults, report.faults.len()), (vec![1, 0], 1));
}

#[test]
fn wrong_logical_clocks_are_faults() {
    let mut log = Log::of_sample("types.binlog");
    let gtid = log.find(EventType::Gtid, 7);
    log.gtid(gtid, |event| event.clock.as_mut().expect("no clock").last_committed = 8);
    log.settle();
    check(&log, gtid, FaultKind::Clock, "last_committed is 8, expected less than 8");
    let mut log = Log::of_sample("types.binlog");
    let (gtid, next) = (log.find(EventType::Gtid, 7), log.find(EventType::Gtid, 8));
    log.events.drain(gtid..next);
    log.settle();
    check(&log, gtid, FaultKind::Clock, "sequence_number is 9, expected 8");
}

#[test]
fn rows_without_a_table_map() {
    let mut log = Log::of_sample("types.binlog");
    let map = log.find(EventType::TableMap, 0);
    let (gtid, commit) = (log.find(EventType::Gtid, 2), log.find(EventType::Xid, 0));
    log.events.remove(map);
    let gtid = (0..commit).rev().find(|index| *index <= gtid.max(map)).unwrap_or(gtid);
    let gtid = (0..=gtid)
        .rev()
        .find(|index| log.events[*index][4] == EventType::Gtid.code())
        .expect("no GTID event");
    log.settle_size(gtid, commit - 1);
    log.settle();
    let found = faults(&log.bytes());
    assert_eq!((found.len(), found[0].0, found[0].1), (1, log.offset(map), FaultKind::Row));
    assert!(found[0].2.ends_with("expected one from a table map of the statement"), "{}", found[0].2);
}

#[test]
fn incomplete_rows() {
    let mut log = Log::of_sample("types.binlog");
    let rows = log.find(EventType::WriteRows, 0);
    let gtid =
        (0..rows).rev().find(|index| log.events[*index][4] == EventType::Gtid.code()).expect("no GTID event");
    log.body(rows, |body| body.truncate(body.len() - 1));
    log.settle_size(gtid, rows + 1);
    log.settle();
    let found = faults(&log.bytes());
    assert_eq!((found.len(), found[0].0, found[0].1), (1, log.offset(rows), FaultKind::Row), "{found:?}");
}

#[test]
fn gaps_between_logs_are_faults() {
    let directory = TempDir::new().expect("could not create a directory");
    let paths = ["binlog.000001", "binlog.000002"].map(|name| directory.path().join(name));
    let first = Log::of_sample("gtids/binlog.000001");
    first.write(&paths[0]);
    let mut second = Log::of_sample("gtids/binlog.000002");
    let previous = second.find(EventType::PreviousGtids, 0);
    // Changes the end of the first interval.
    let end = second.events[previous].len() - 4 - 8;
    second.events[previous][end] += 1;
    second.settle_checksums();
    second.write(&paths[1]);
    let verdicts = self::verdicts(&[&paths[0], &paths[1]]);
    let found: Vec<_> =
        verdicts.faults.iter().map(|fault| (fault.log.as_str(), fault.offset, fault.kind)).collect();
    let name = paths[1].display().to_string();
    assert_eq!(found, [(name.as_str(), second.offset(previous), FaultKind::Continuity)]);
    assert!(
        verdicts.faults[0].detail.starts_with("the previous GTIDs include "),
        "{}",
        verdicts.faults[0].detail
    );
    // Each log alone is valid.
    assert_eq!(self::verdicts(&[&paths[1]]).faults, []);
}

#[test]
fn missing_previous_gtids_are_a_fault() {
    let without = |name: &str| {
        let mut log = Log::of_sample(name);
        log.events.remove(log.find(EventType::PreviousGtids, 0));
        log.settle();
        log
    };
    let log = without("types.binlog");
    let gtid = log.find(EventType::Gtid, 0);
    check(&log, gtid, FaultKind::Continuity, "no Previous_gtids event precedes the first transaction");
    // MySQL 5.6 without GTIDs writes no Previous_gtids event.
    let mut log = without("anonymous.binlog");
    let gtid = log.find(EventType::AnonymousGtid, 0);
    check(&log, gtid, FaultKind::Continuity, "no Previous_gtids event precedes the first transaction");
    log.events[0][21..26].copy_from_slice(b"5.6.9");
    log.settle();
    assert_eq!(faults(&log.bytes()), []);
    let mut log = without("rotation/binlog.000006");
    log.events.truncate(log.find(EventType::Gtid, 0));
    let rotate = Log::of_sample("rotation/binlog.000001").events.pop().expect("no events");
    log.events.push(rotate);
    log.settle();
    let detail = "the log has no Previous_gtids event".to_owned();
    assert!(faults(&log.bytes()).contains(&(log.bytes().len() as u64, FaultKind::Continuity, detail)));
}

#[test]
fn wrong_rotations_are_faults() {
    let mut log = Log::of_sample("rotation/binlog.000001");
    let rotate = log.find(EventType::Rotate, 0);
    log.body(rotate, |body| *body.last_mut().expect("no digit") = b'7');
    log.settle();
    check(
        &log,
        rotate,
        FaultKind::Rotation,
        "the log names binlog.000007 as the next one, expected number 2",
    );
}

#[test]
fn missing_logs_are_faults_unless_they_had_no_transactions() {
    let directory = TempDir::new().expect("could not create a directory");
    let check = |logs: [&str; 2], order: LogOrder, faults: &[&str], remarks: &[&str]| {
        let paths = logs.map(|log| match log.rsplit_once(" as ") {
            Some((log, name)) => {
                let path = directory.path().join(name);
                std::fs::copy(sample(log), &path).expect("could not copy the file");
                path
            }
            None => sample(log),
        });
        let found = verdicts_in_order(&[&paths[0], &paths[1]], order);
        let text: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        let is_expected = |(text, expected): (&String, &&str)| text.ends_with(expected);
        assert!(text.len() == faults.len() && text.iter().zip(faults).all(is_expected), "{text:?}");
        let details: Vec<&str> = found.remarks.iter().map(|remark| remark.detail.as_str()).collect();
        assert_eq!(details, remarks, "{logs:?}");
    };
    let [first, fourth, sixth] =
        ["rotation/binlog.000001", "rotation/binlog.000004", "rotation/binlog.000006"];
    let lost = "binlog.000001 at 4950: rotation: binlog.000002 to binlog.000005 are missing between this log and \
        binlog.000006, with the transactions 5ea5ca5e-0001-4000-8000-000000000001:6-7:tagged:1";
    check([first, sixth], LogOrder::Listed, &[lost], &[]);
    let apart = "not compared with binlog.000001, because binlog.000002 to binlog.000005 are not given";
    check([first, sixth], LogOrder::Unknown, &[], &[apart]);
    let empty = "binlog.000002 and binlog.000003 are missing, but had no transactions: the GTIDs continue";
    check([first, fourth], LogOrder::Listed, &[], &[empty]);
    let reversed = "binlog.000001 at 0: rotation: this log comes after binlog.000004, a later one: give the logs in order";
    check([fourth, first], LogOrder::Listed, &[reversed], &[]);
    check([fourth, first], LogOrder::Unknown, &[reversed], &[]);
    // Without GTIDs, nothing shows that no transaction is missing.
    let anonymous = ["anonymous.binlog as b.000001", "anonymous.binlog as b.000003"];
    check(anonymous, LogOrder::Listed, &["rotation: b.000002 is missing between this log and b.000003"], &[]);
}

#[test]
fn unreadable_logs_are_reported() {
    let absent = Path::new("/nonexistent/binlog.000001");
    let found = verdicts(&[absent, &sample("types.binlog")]);
    assert_eq!(found.verdict(), VerifyVerdict::Unreadable);
    assert_eq!((found.unreadable.len(), found.logs.len(), found.faults.len()), (1, 1, 0));
    let encrypted = verdicts(&[&sample("encrypted/binlog.000001")]);
    assert_eq!(encrypted.verdict(), VerifyVerdict::Unreadable);
}

#[test]
fn flipped_bits_are_found() {
    for name in ["types.binlog", "types-compressed.binlog", "xa.binlog"] {
        let bytes = Log::of_sample(name).bytes();
        for offset in (0..bytes.len()).step_by(211).filter(|offset| *offset != 4 + 17) {
            let mut bytes = bytes.clone();
            bytes[offset] ^= 0x10;
            assert_ne!(faults(&bytes), [], "{name}: byte {offset}");
        }
    }
}

/// A statement with more table maps than verification keeps for the next chunk.
#[test]
fn statements_with_too_many_table_maps() {
    let mut log = Log::of_sample("types.binlog");
    let map = log.find(EventType::TableMap, 0);
    // Enough to exceed the chunk.
    let copies = vec![log.events[map].clone(); 40_000];
    log.events.splice(map..map, copies);
    log.settle();
    let found = faults(&log.bytes());
    let expected = "number of table maps of one statement is 4097";
    assert!(
        found.iter().any(|(_, kind, detail)| *kind == FaultKind::Framing && detail.contains(expected)),
        "{found:?}"
    );
    let directory = TempDir::new().expect("could not create a directory");
    let path = directory.path().join("binlog.000001");
    log.write(&path);
    let settings = inspect::stats::StatsSettings::new(1);
    let counted =
        inspect::stats::collect([LogReader::open(&path)], &settings, &mut |_| ControlFlow::Continue(()));
    let error = counted.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(expected), "{error}");
}
