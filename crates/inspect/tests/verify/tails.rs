//! Ends of logs, and repaired copies.

use std::fs;
use std::path::Path;

use binlog::EventType;
use inspect::verify::{FaultKind, RepairError, TailRepair, repair_tail};
use logs::LogReader;
use tempfile::TempDir;

use crate::edit::{Log, sample};
use crate::{check_bytes, faults, verdicts};

/// Sets the in-use flag of the log.
fn in_use(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[4 + 17] |= 1;
    bytes
}

fn remarks(bytes: &[u8]) -> Vec<String> {
    let directory = TempDir::new().expect("could not create a directory");
    let path = directory.path().join("binlog.000001");
    fs::write(&path, bytes).expect("could not write or copy the file");
    verdicts(&[&path]).remarks.into_iter().map(|remark| remark.detail).collect()
}

#[test]
fn logs_in_use_are_no_fault() {
    let log = Log::of_sample("types.binlog");
    let rows = log.find(EventType::WriteRows, 3);
    let gtid =
        (0..rows).rev().find(|index| log.events[*index][4] == EventType::Gtid.code()).expect("no GTID event");
    let (torn, open) = (log.offset(rows), log.offset(gtid));
    let bytes = log.bytes();
    let expected = log.events[rows].len();

    let truncated = &bytes[..torn as usize + 20];
    let missing =
        format!("the event at {torn} has 20 of {expected} bytes; the transaction at {open} is incomplete");
    check_bytes(truncated, torn, FaultKind::Tail, &format!("the log is torn: {missing}"));
    let truncated = in_use(truncated.to_vec());
    assert_eq!(faults(&truncated), []);
    assert_eq!(remarks(&truncated), [format!("its server still writes to it, or crashed: {missing}")]);

    let truncated = &bytes[..torn as usize];
    check_bytes(truncated, open, FaultKind::Tail, "the log ends before the transaction's commit");
    let truncated = in_use(truncated.to_vec());
    assert_eq!(faults(&truncated), []);
    let detail = "its server still writes to it, or crashed: ends at ";
    assert_eq!(remarks(&truncated), [format!("{detail}{torn}; the transaction at {open} is incomplete")]);

    let truncated = &bytes[..open as usize];
    assert_eq!(faults(truncated), []);
    let detail = format!("ends at {open} without Rotate or Stop: its server still writes to it, or crashed");
    assert_eq!(remarks(truncated), [detail]);
}

#[test]
fn an_empty_file_is_torn() {
    let detail = "the file is empty";
    check_bytes(b"", 0, FaultKind::Tail, detail);
}

#[test]
fn a_torn_log_followed_by_another_is_a_fault_even_in_use() {
    let directory = TempDir::new().expect("could not create a directory");
    let paths = ["binlog.000001", "binlog.000002"].map(|name| directory.path().join(name));
    let bytes = in_use(Log::of_sample("gtids/binlog.000001").bytes());
    fs::write(&paths[0], &bytes[..bytes.len() - 60]).expect("could not write or copy the file");
    fs::copy(sample("gtids/binlog.000002"), &paths[1]).expect("could not write or copy the file");
    let kinds: Vec<FaultKind> =
        verdicts(&[&paths[0], &paths[1]]).faults.into_iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds.first(), Some(&FaultKind::Tail));
}

fn repair(bytes: &[u8]) -> (Result<TailRepair, RepairError>, Option<Vec<u8>>) {
    let directory = TempDir::new().expect("could not create a directory");
    let (log, copy) = (directory.path().join("binlog.000001"), directory.path().join("copy"));
    fs::write(&log, bytes).expect("could not write or copy the file");
    let repaired = repair_tail(&log, LogReader::open(&log).expect("could not open the log"), &copy);
    assert_eq!(fs::read(&log).expect("could not read the log"), bytes, "the log was changed");
    (repaired, fs::read(copy).ok())
}

#[test]
fn every_cut_is_repaired_to_the_last_whole_transaction() {
    let log = Log::of_sample("in-use.binlog");
    let bytes = log.bytes();
    let mut ends: Vec<u64> = (0..log.events.len())
        .filter(|index| {
            let next = log.events.get(index + 1).map(|event| event[4]);
            next.is_none_or(|next| next == EventType::Gtid.code() || next == EventType::PreviousGtids.code())
        })
        .map(|index| log.offset(index + 1))
        .collect();
    ends.reverse();
    let first = *ends.last().expect("no format description");
    let offsets = (1..=log.events.len()).map(|index| log.offset(index));
    let sizes =
        offsets.flat_map(|offset| [offset - 1, offset, offset + 1, offset + 18, offset + 19, offset + 23]);
    for size in sizes.filter(|size| (first..=bytes.len() as u64).contains(size)) {
        let size = size as usize;
        let expected = *ends.iter().find(|end| **end <= size as u64).expect("no end");
        let (repaired, copy) = repair(&bytes[..size]);
        let bytes_cut = size as u64 - expected;
        assert_eq!(
            repaired.expect("no repaired copy"),
            TailRepair { bytes_kept: expected, bytes_cut, whole_end: expected, was_in_use: true }
        );
        let copy = copy.expect("no repaired copy");
        assert_eq!(copy[4 + 17] & 1, 0, "the copy is flagged as in use");
        assert_eq!(in_use(copy.clone()), bytes[..expected as usize]);
        assert_eq!(faults(&copy), []);
    }
}

#[test]
fn zeros_after_the_last_transaction_are_cut() {
    let bytes = Log::of_sample("types.binlog").bytes();
    let (repaired, copy) = repair(&[bytes.clone(), vec![0; 4096]].concat());
    let size = bytes.len() as u64;
    assert_eq!(
        repaired.expect("no repaired copy"),
        TailRepair { bytes_kept: size, bytes_cut: 4096, whole_end: size, was_in_use: false }
    );
    assert_eq!(copy, Some(bytes));
}

#[test]
fn faults_before_whole_transactions_are_not_cut() {
    let mut log = Log::of_sample("types.binlog");
    let (xid, next) = (log.find(EventType::Xid, 4), log.find(EventType::Xid, 4) + 1);
    log.events[xid][20] ^= 1;
    let (repaired, copy) = repair(&log.bytes());
    match repaired {
        Err(RepairError::NotAtTail { offset, whole, .. }) => {
            assert_eq!((offset, whole), (log.offset(xid), log.offset(next)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(copy, None);
    assert!(matches!(repair(b"").0, Err(RepairError::NothingWhole { .. })));
}

#[test]
fn an_existing_copy_is_not_overwritten() {
    let directory = TempDir::new().expect("could not create a directory");
    let copy = directory.path().join("copy");
    fs::write(&copy, "precious").expect("could not write or copy the file");
    let log = sample("torn.binlog");
    let repaired = repair_tail(&log, LogReader::open(&log).expect("could not open the log"), &copy);
    assert!(matches!(repaired, Err(RepairError::Io { verb: "create", .. })), "{repaired:?}");
    assert_eq!(fs::read(&copy).expect("could not read the file"), b"precious");
    assert_eq!(names(directory.path()), ["copy"]);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("could not read the directory");
    entries
        .map(|entry| {
            entry
                .expect("could not read the directory")
                .file_name()
                .into_string()
                .expect("a name that is not UTF-8")
        })
        .collect()
}

#[test]
fn repaired_encrypted_logs_stay_encrypted() {
    let directory = TempDir::new().expect("could not create a directory");
    let (log, copy) = (directory.path().join("binlog.000001"), directory.path().join("copy"));
    let mut bytes = fs::read(sample("encrypted/binlog.000002")).expect("could not read the sample");
    // In this cipher, a flipped bit flips the same bit of the plain text: this sets the in-use flag.
    bytes[512 + 4 + 17] ^= 1;
    fs::write(&log, &bytes[..bytes.len() - 20]).expect("could not write or copy the file");
    let keyring = std::sync::Arc::new(
        logs::read_keyring(sample("encrypted/keyring")).expect("could not read the keyring"),
    );
    let reader = LogReader::open(&log).expect("could not open the log").with_keyring(keyring.clone());
    let repaired = repair_tail(&log, reader, &copy).expect("no repaired copy");
    assert_eq!((repaired.was_in_use, repaired.bytes_cut), (true, 24));
    let kept = bytes.len() - 44;
    bytes[512 + 4 + 17] ^= 1;
    assert_eq!(fs::read(&copy).expect("could not read the copy"), bytes[..kept]);
}
