//! A store that is written, truncated anywhere, and continued.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logs::{
    AppendOutcome, LogEncryption, LogReader, LogStart, ReadOutcome, RetentionLimit, Store, StoreEnd,
    StoreWriter,
};
use tempfile::TempDir;

use crate::log_builder::{MAGIC, QUERY, ROTATE, event, format, log};

fn open(directory: &TempDir) -> StoreWriter {
    StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None }).unwrap()
}

/// Marks a directory as an existing store.
fn mark(directory: &TempDir) {
    fs::write(directory.path().join("bintide.lock"), b"").unwrap();
}

/// Appends events at the end of the store.
fn append(store: &mut StoreWriter, events: &[Vec<u8>]) {
    for event in events {
        let position = store.store_end().unwrap().next;
        assert_eq!(store.append(position, event).unwrap(), AppendOutcome::New);
    }
}

#[test]
fn written_logs_equal_the_servers() {
    let directory = TempDir::new().unwrap();
    let events = [format(0), event(QUERY, 0, b"one"), event(ROTATE, 0, b"12345678b.000002")];
    let mut store = open(&directory);
    assert_eq!(store.store_end(), None);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &events);
    store.begin_log("b.000002", 4).unwrap();
    append(&mut store, &events[..2]);
    store.sync().unwrap();
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("b.000001"), log(&events));
    assert_eq!(read("b.000002"), log(&events[..2]));
    assert_eq!(read("b.index"), b"./b.000001\n./b.000002\n");
    assert_eq!(Store::open(directory.path()).unwrap().logs().len(), 2);
    // Other users have no access. The umask may remove more permissions.
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o137, 0, "{entry:?}");
    }
}

/// Wherever the last log is truncated, the store continues after its last whole event.
#[test]
fn incomplete_events_at_the_end_are_cut_off() {
    let events = [format(0), event(QUERY, 0, b"one"), event(QUERY, 0, b"another")];
    let whole = log(&events);
    let ends = [4, 4 + events[0].len(), whole.len() - events[2].len(), whole.len()];
    // Each size needs many syncs, so test only sizes near the ends of events, and some between.
    let is_near = |size: &usize| size.is_multiple_of(32) || ends.iter().any(|end| end.abs_diff(*size) <= 1);
    for size in (0..=whole.len()).filter(is_near) {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("b.000001"), &whole[..size]).unwrap();
        fs::write(directory.path().join("b.index"), b"./b.000001\n./b.0000").unwrap();
        mark(&directory);
        let mut store = open(&directory);
        let end = ends.iter().rev().find(|end| **end <= size).copied().unwrap_or(4);
        let last = ends.iter().rev().find(|start| **start < end).copied().unwrap_or(4) as u64;
        let expected = StoreEnd { log: "b.000001", file: "b.000001", series: None, last, next: end as u64 };
        assert_eq!(store.store_end(), Some(expected), "{size}");
        assert_eq!(store.truncated_bytes(), size.saturating_sub(end) as u64);
        let done = ends.iter().position(|one| *one == end).unwrap();
        store.begin_log("b.000001", end as u64).unwrap();
        append(&mut store, &events[done..]);
        store.sync().unwrap();
        assert_eq!(fs::read(directory.path().join("b.000001")).unwrap(), whole, "{size}");
        assert_eq!(fs::read(directory.path().join("b.index")).unwrap(), b"./b.000001\n");
    }
}

/// After a failed write, the events after the last written one are missing, and the store continues there.
#[test]
fn stores_resume_after_a_failed_write() {
    let directory = TempDir::new().unwrap();
    let events = [format(0), event(QUERY, 0, b"one"), event(QUERY, 0, b"another")];
    let path = directory.path().join("b.000001");
    let mut store = open(&directory);
    assert_eq!((store.written_position(), store.reopen().unwrap()), (0, 0));
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &events[..1]);
    // The event is still in memory.
    assert_eq!((store.written_position(), store.store_end().unwrap().next), (4, 4 + events[0].len() as u64));
    append(&mut store, &events[1..]);
    store.sync().unwrap();
    let whole = log(&events);
    assert_eq!(store.written_position(), whole.len() as u64);
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(store.reopen().unwrap(), events[2].len() as u64);
    assert_eq!(store.store_end().unwrap().next, (whole.len() - events[2].len()) as u64);
    append(&mut store, &events[2..]);
    assert_eq!(store.reopen().unwrap(), 0);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

const KEY_ID: &str = "MySQLReplicationKey_5ea5ca5e-0001-4000-8000-000000000001_3";

/// Writes a keyring file with one key into the directory, and returns its path.
fn keyring(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("keyring");
    let data = "0123456789abcdef".repeat(4);
    let element =
        format!(r#"{{"user":"","data_id":"{KEY_ID}","data_type":"AES","data":"{data}","extension":[]}}"#);
    fs::write(&path, format!(r#"{{"version":"1.0","elements":[{element}]}}"#)).unwrap();
    path
}

fn open_encrypted(directory: &TempDir) -> StoreWriter {
    StoreWriter::open(directory.path(), LogEncryption::Encrypted { keyring: keyring(directory) }).unwrap()
}

/// Returns the decrypted content of an encrypted log.
fn decrypted(directory: &TempDir, name: &str) -> Vec<u8> {
    let keys = logs::read_keyring(keyring(directory)).unwrap();
    let mut reader = LogReader::open(directory.path().join(name)).unwrap().with_keyring(Arc::new(keys));
    let mut bytes = MAGIC.to_vec();
    while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
        bytes.extend_from_slice(event.raw.bytes());
    }
    assert!(reader.is_encrypted());
    bytes
}

/// An encrypted log also continues after its last whole event, with its own password. Its header does not count.
#[test]
fn incomplete_events_at_the_end_of_encrypted_logs_are_cut_off() {
    let events = [format(0), event(QUERY, 0, b"one"), event(QUERY, 0, &[b'x'; 1000])];
    let made = TempDir::new().unwrap();
    let mut store = open_encrypted(&made);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &events);
    let last = store.store_end().unwrap().last;
    assert_eq!(store.append(last, &events[2]).unwrap(), AppendOutcome::Repeated);
    assert!(
        store
            .append(last, &events[1])
            .unwrap_err()
            .to_string()
            .contains("has a different event at this position")
    );
    store.sync().unwrap();
    let whole = fs::read(made.path().join("b.000001")).unwrap();
    assert_eq!(whole.len(), 512 + log(&events).len());
    assert!(!whole.windows(3).any(|part| part == b"one" || part == b"xxx"), "the log is not encrypted");
    assert_eq!(decrypted(&made, "b.000001"), log(&events));
    let ends: Vec<usize> = (0..=3).map(|count| 512 + log(&events[..count]).len()).collect();
    let is_near = |size: &usize| {
        [&ends[..], &[0, 4, 512]].concat().iter().any(|end| end.abs_diff(*size) <= 1)
            || size.is_multiple_of(128)
    };
    for size in (0..=whole.len()).filter(is_near) {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("b.000001"), &whole[..size]).unwrap();
        fs::write(directory.path().join("b.index"), b"./b.000001\n").unwrap();
        mark(&directory);
        let mut store = open_encrypted(&directory);
        let done = ends.iter().rposition(|end| *end <= size).unwrap_or(0);
        let next = (ends[done] - 512) as u64;
        assert_eq!(store.store_end().unwrap().next, next, "{size}");
        assert_eq!(store.truncated_bytes(), size.saturating_sub(ends[done]) as u64, "{size}");
        append(&mut store, &events[done..]);
        store.sync().unwrap();
        assert_eq!(decrypted(&directory, "b.000001"), log(&events), "{size}");
        let is_old = size >= ends[0];
        assert_eq!(fs::read(directory.path().join("b.000001")).unwrap() == whole, is_old, "{size}");
    }
}

/// An existing log keeps its encryption, independently of new logs. A log that cannot be decrypted is not
/// truncated.
#[test]
fn encrypted_logs_continue_with_their_key_only() {
    let directory = TempDir::new().unwrap();
    let events = [format(0), event(QUERY, 0, b"one")];
    let path = directory.path().join("b.000001");
    let mut store = open_encrypted(&directory);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &events[..1]);
    store.sync().unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let refused = |keyring: Option<PathBuf>, expected: &str| {
        let error =
            StoreWriter::open(directory.path(), LogEncryption::Plain { keyring }).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read(&path).unwrap(), whole);
    };
    refused(None, "b.000001 is encrypted with the key MySQLReplicationKey_");
    let other = directory.path().join("other");
    let text = fs::read_to_string(keyring(&directory)).unwrap();
    fs::write(&other, text.replace("0123", "0124")).unwrap();
    refused(Some(other.clone()), "the keyring has a different key with this name");
    fs::write(&other, text.replace("_3", "_4")).unwrap();
    refused(Some(other.clone()), &format!("the key {KEY_ID} is not in the keyring, which has"));
    fs::write(&other, r#"{"version":"1.0","elements":[]}"#).unwrap();
    let error = StoreWriter::open(directory.path(), LogEncryption::Encrypted { keyring: other }).unwrap_err();
    assert!(error.to_string().ends_with("add one named MySQLReplicationKey_UUID_1, of 32 bytes"), "{error}");
    // The events after a damaged header cannot be read.
    fs::write(&path, [&whole[..5], &[9], &whole[6..]].concat()).unwrap();
    let error =
        StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: Some(keyring(&directory)) });
    assert!(error.unwrap_err().to_string().contains("b.000001 at 0: "));
    fs::write(&path, &whole).unwrap();
    let plain = LogEncryption::Plain { keyring: Some(keyring(&directory)) };
    let mut store = StoreWriter::open(directory.path(), plain).unwrap();
    append(&mut store, &events[1..]);
    store.begin_log("b.000002", 4).unwrap();
    append(&mut store, &events);
    store.sync().unwrap();
    drop(store);
    assert_eq!(decrypted(&directory, "b.000001"), log(&events));
    assert_eq!(fs::read(directory.path().join("b.000002")).unwrap(), log(&events));
    let mut store = open_encrypted(&directory);
    append(&mut store, &events[1..]);
    store.begin_log("b.000003", 4).unwrap();
    append(&mut store, &events);
    store.sync().unwrap();
    assert!(fs::read(directory.path().join("b.000002")).unwrap().starts_with(MAGIC));
    assert_eq!(decrypted(&directory, "b.000003"), log(&events));
}

/// Logs of another server keep their names, with the series inserted. They are last, regardless of their numbers.
#[test]
fn logs_of_another_server_form_a_separate_series() {
    const UUID: &str = "5ea5ca5e-0001-4000-8000-000000000002";
    let directory = TempDir::new().unwrap();
    let events = [format(0), event(QUERY, 0, b"one")];
    let mut store = open(&directory);
    store.begin_log("b.000007", 4).unwrap();
    append(&mut store, &events);
    for (name, new_uuid, start) in [
        ("b.000007", None, LogStart::Continued),
        ("c.000002", Some(UUID), LogStart::Begun),
        ("c.000002", None, LogStart::Continued),
        ("c.000003", None, LogStart::Begun),
        ("b.000007", Some(UUID), LogStart::Begun),
    ] {
        assert_eq!(store.begin_or_continue_log(name, new_uuid).unwrap(), start, "{name}");
        store.append_next(&events[0]).unwrap();
    }
    for name in ["b.000006", "c.000008"] {
        assert!(store.begin_or_continue_log(name, None).is_err(), "{name}");
    }
    for uuid in ["no UUID", "------------------------------------", "5ea5ca5e-0001-4000-8000-00000000000\n"] {
        assert!(store.begin_or_continue_log("b.000008", Some(uuid)).is_err(), "{uuid}");
    }
    store.sync().unwrap();
    drop(store);
    let names = [
        "b.000007".to_owned(),
        format!("c.2.{UUID}.000002"),
        format!("c.2.{UUID}.000003"),
        format!("b.3.{UUID}.000007"),
    ];
    let index: String = names.iter().map(|name| format!("./{name}\n")).collect();
    assert_eq!(fs::read_to_string(directory.path().join("b.index")).unwrap(), index);
    let mut store = open(&directory);
    let end = store.store_end().unwrap();
    assert_eq!((end.log, end.series.unwrap().number, end.series.unwrap().uuid), ("b.000007", 3, UUID));
    // After a purge of the oldest logs, the successor of a purged log is still known.
    let size = fs::metadata(directory.path().join(&names[3])).unwrap().len();
    assert_eq!(store.purge(RetentionLimit::Size(2 * size), SystemTime::now(), |_| None).unwrap(), 2);
    drop(store);
    let left = Store::open(directory.path()).unwrap();
    assert!(
        left.log_after(&directory.path().join(&names[0])).unwrap_err().to_string().contains("were purged")
    );
    let next = left.log_after(&directory.path().join(&names[1])).unwrap().unwrap();
    assert!(next.ends_with(&names[2]));
    // A log outside the index is removed only if an interrupted purge has listed it. Other files belong to other
    // programs.
    let others = [&names[0], "notes.20261122"];
    for name in others {
        fs::write(directory.path().join(name), b"left").unwrap();
    }
    drop(open(&directory));
    assert!(others.iter().all(|name| directory.path().join(name).exists()));
    // If the purge was interrupted before the index was written, the list names logs that remain.
    let list = format!("{}\n{}\n../b.index\n", names[0], names[2]);
    fs::write(directory.path().join("bintide.purged"), list).unwrap();
    drop(open(&directory));
    assert_eq!(others.map(|name| directory.path().join(name).exists()), [false, true]);
    assert!(directory.path().join(&names[2]).exists() && directory.path().join("b.index").exists());
    assert!(!directory.path().join("bintide.purged").exists());
}

/// The bytes after the last whole transaction remain until the same events are written again, and are cut off when
/// another log starts.
#[test]
fn stores_resume_after_the_last_whole_transaction() {
    let directory = TempDir::new().unwrap();
    let whole = [format(0), event(QUERY, 0, &query(b"create table t (a int)"))];
    let open_one = event(QUERY, 0, &query(b"BEGIN"));
    let mut store = open(&directory);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &whole);
    append(&mut store, std::slice::from_ref(&open_one));
    let contents = store.rewind().unwrap();
    assert_eq!(contents.whole_end, log(&whole).len() as u64);
    assert!(contents.gtids.is_empty());
    let read = || fs::read(directory.path().join("b.000001")).unwrap();
    assert_eq!(read().len(), log(&whole).len() + open_one.len());
    append(&mut store, std::slice::from_ref(&open_one));
    store.rewind().unwrap();
    store.begin_log("b.000002", 4).unwrap();
    assert_eq!(read(), log(&whole));
}

/// A last log with only a format description does not list the transactions before it: it is removed, unless it is the
/// only log.
#[test]
fn last_logs_without_a_head_are_removed() {
    const UUID: &str = "5ea5ca5e-0001-4000-8000-000000000002";
    let events = [format(0), event(QUERY, 0, b"one")];
    for size in 0..events.len() {
        let directory = TempDir::new().unwrap();
        let mut store = open(&directory);
        assert!(store.has_head().unwrap());
        store.begin_log("b.000007", 4).unwrap();
        append(&mut store, &events[..size]);
        assert!(!store.has_head().unwrap());
        store.remove_headless_log().unwrap();
        assert_eq!(store.store_end().unwrap().log, "b.000007");
        append(&mut store, &events[size..]);
        store.begin_or_continue_log("b.000002", Some(UUID)).unwrap();
        append(&mut store, &events[..size]);
        store.sync().unwrap();
        drop(store);
        let mut store = open(&directory);
        store.remove_headless_log().unwrap();
        let next = log(&events).len() as u64;
        let last = next - events[1].len() as u64;
        assert_eq!(
            store.store_end(),
            Some(StoreEnd { log: "b.000007", file: "b.000007", series: None, last, next })
        );
        assert_eq!(fs::read_to_string(directory.path().join("b.index")).unwrap(), "./b.000007\n");
        assert!(!directory.path().join(format!("b.2.{UUID}.000002")).exists());
        assert_eq!(store.begin_or_continue_log("b.000002", Some(UUID)).unwrap(), LogStart::Begun);
    }
}

/// Returns the body of a Query event with this statement.
fn query(sql: &[u8]) -> Vec<u8> {
    // Thread, time, size of the database's name, error, size of the status variables; the name's end.
    [&[0; 8][..], &[0], &[0; 2], &[0; 2], &[0], sql].concat()
}

/// Names from a server are not trusted.
#[test]
fn wrong_names_and_positions_are_refused() {
    let directory = TempDir::new().unwrap();
    let mut store = open(&directory);
    let check = |store: &mut StoreWriter, name: &str, position: u64, expected: &str| {
        assert_eq!(store.begin_log(name, position).unwrap_err().to_string(), expected);
    };
    for name in [
        "../b.000001",
        "/b.000001",
        "",
        "..",
        "b.1",
        "b",
        "x/b.000001",
        ".000001",
        "a\nb.000001",
        "b\u{1b}.000001",
    ] {
        let expected = format!(
            "{name:?} is not the name of a binary log: expected a base name, a dot and at least six digits"
        );
        check(&mut store, name, 4, &expected);
    }
    check(&mut store, "b.000001", 5, "b.000001: an event starts at 5; expected 4");
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &[format(0)]);
    let end = store.store_end().unwrap().next;
    let expected = format!("b.000001: an event starts at 5; expected {end}");
    check(&mut store, "b.000001", 5, &expected);
    let reset = "the source's logs were reset, or it is a different server";
    check(&mut store, "b.000003", 4, &format!("b.000003 does not follow b.000001: {reset}"));
    check(&mut store, "c.000002", 4, &format!("c.000002 does not follow b.000001: {reset}"));
    let error =
        StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None }).unwrap_err().to_string();
    assert!(error.contains("is in use: another bintide process writes to it"), "{error}");
}

/// The source sends the last event again, which proves that it still has the same log.
#[test]
fn the_last_event_may_be_sent_again_if_it_is_equal() {
    let directory = TempDir::new().unwrap();
    let (one, other) = (event(QUERY, 0, b"one"), event(QUERY, 0, b"two"));
    let mut store = open(&directory);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &[format(0), one.clone()]);
    for _ in 0..2 {
        let last = store.store_end().unwrap().last;
        store.begin_log("b.000001", last).unwrap();
        assert_eq!(store.append(last, &one).unwrap(), AppendOutcome::Repeated);
        let expected = format!(
            "b.000001 at {last}: the source has a different event at this position: its logs were reset, or it is \
             a different server"
        );
        assert_eq!(store.append(last, &other).unwrap_err().to_string(), expected);
        append(&mut store, &[other.clone(), one.clone()]);
        store.sync().unwrap();
        drop(store);
        store = open(&directory);
    }
    let events = [format(0), one.clone(), other.clone(), one.clone(), other, one];
    assert_eq!(fs::read(directory.path().join("b.000001")).unwrap(), log(&events));
}

#[test]
fn purge_removes_old_logs_but_never_the_last() {
    let directory = TempDir::new().unwrap();
    let mut store = open(&directory);
    for name in ["b.000009", "b.000010", "b.000011"] {
        store.begin_log(name, 4).unwrap();
        append(&mut store, &[format(0)]);
    }
    store.sync().unwrap();
    let size = fs::metadata(directory.path().join("b.000009")).unwrap().len();
    let now = SystemTime::now();
    let mut check = |keep, now, expected: &[&str]| {
        store.purge(keep, now, |_| None).unwrap();
        let names: Vec<String> = expected.iter().map(|name| format!("./{name}\n")).collect();
        assert_eq!(fs::read_to_string(directory.path().join("b.index")).unwrap(), names.concat());
        let logs = fs::read_dir(directory.path()).unwrap();
        let count =
            logs.filter(|log| log.as_ref().unwrap().file_name().to_str().unwrap().contains(".0")).count();
        assert_eq!(count, expected.len());
    };
    check(RetentionLimit::Size(3 * size), now, &["b.000009", "b.000010", "b.000011"]);
    check(RetentionLimit::Size(3 * size - 1), now, &["b.000010", "b.000011"]);
    check(RetentionLimit::Age(Duration::from_secs(60)), now, &["b.000010", "b.000011"]);
    check(RetentionLimit::Age(Duration::from_secs(60)), now + Duration::from_secs(600), &["b.000011"]);
    check(RetentionLimit::Size(0), now, &["b.000011"]);
    drop(store);
    // The purge was interrupted after the index was written.
    fs::write(directory.path().join("b.000010"), b"left").unwrap();
    fs::write(directory.path().join("bintide.purged"), b"b.000010\n").unwrap();
    let store = open(&directory);
    assert_eq!(store.store_end().unwrap().log, "b.000011");
    assert!(!directory.path().join("b.000010").exists());
}

#[test]
fn purge_keeps_logs_that_are_needed() {
    let directory = TempDir::new().unwrap();
    let mut store = open(&directory);
    for name in ["b.000009", "b.000010", "b.000011", "b.000012"] {
        store.begin_log(name, 4).unwrap();
        append(&mut store, &[format(0)]);
    }
    store.sync().unwrap();
    let (all, now) = (RetentionLimit::Size(0), SystemTime::now());
    assert_eq!(store.purge(all, now, |names| names.iter().position(|name| *name == "b.000009")).unwrap(), 0);
    assert_eq!(store.purge(all, now, |names| names.iter().position(|name| *name == "b.000010")).unwrap(), 1);
    assert_eq!(store.purge_before("b.000009", 1).unwrap(), 0);
    assert_eq!(store.purge_before("b.000011", 1).unwrap(), 1);
    assert!(!directory.path().join("b.000010").exists() && directory.path().join("b.000011").exists());
    assert_eq!(store.purge_before("b.000012", 2).unwrap(), 0);
    // A log that the store does not have protects nothing.
    assert_eq!(store.purge(all, now, |names| names.iter().position(|name| *name == "b.000001")).unwrap(), 1);
    assert_eq!(store.purge_before("b.000012", 1).unwrap(), 0);
}

#[test]
fn logs_outside_the_index_are_not_overwritten() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("b.000001");
    fs::write(&path, b"the only copy").unwrap();
    let error = open(&directory).begin_log("b.000001", 4).unwrap_err().to_string();
    assert!(error.contains("b.000001") && error.contains("the index does not name it"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"the only copy");
    // A crash can leave a log with only the magic number.
    fs::write(&path, binlog::MAGIC).unwrap();
    open(&directory).begin_log("b.000001", 4).unwrap();
    fs::remove_file(directory.path().join("b.index")).unwrap();
    fs::remove_file(&path).unwrap();
    open_encrypted(&directory).begin_log("b.000001", 4).unwrap();
    fs::remove_file(directory.path().join("b.index")).unwrap();
    let mut store = open(&directory);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &[format(0)]);
    store.sync().unwrap();
    assert_eq!(fs::read(&path).unwrap(), log(&[format(0)]));
}

#[test]
fn files_removed_during_a_run_are_noticed() {
    let directory = TempDir::new().unwrap();
    let mut store = open(&directory);
    store.begin_log("b.000001", 4).unwrap();
    append(&mut store, &[format(0)]);
    store.sync().unwrap();
    let index = directory.path().join("b.index");
    let names = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    let error = store.begin_log("b.000002", 4).unwrap_err().to_string();
    assert!(error.ends_with("was removed while bintide wrote logs there: restore the index"), "{error}");

    fs::write(&index, names).unwrap();
    store.begin_log("b.000002", 4).unwrap();
    append(&mut store, &[format(0)]);
    let (log, copy) = (directory.path().join("b.000002"), directory.path().join("copy"));
    fs::copy(&log, &copy).unwrap();
    fs::remove_file(&log).unwrap();
    assert_log_is_missed(&mut store);
    fs::rename(&copy, &log).unwrap();
    assert_log_is_missed(&mut store);
}

fn assert_log_is_missed(store: &mut StoreWriter) {
    for error in [store.sync().unwrap_err(), store.start_sync().map(drop).unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("b.000002 was removed or replaced while bintide wrote to it"), "{error}");
    }
}

/// An index can name any file of the machine; the writer changes only files in the index's directory.
#[test]
fn index_lines_with_paths_are_refused() {
    let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let live = other.path().join("b.000002");
    let torn = [log(&[format(0)]), b"the beginning of an event".to_vec()].concat();
    let absolute = live.display().to_string();
    for line in [absolute.as_str(), "../live/b.000002", "./../b.000002", "..", "", "./notes"] {
        fs::write(&live, &torn).unwrap();
        fs::write(directory.path().join("b.000001"), log(&[format(0)])).unwrap();
        let index = format!("./b.000001\n{line}\n");
        fs::write(directory.path().join("b.index"), &index).unwrap();
        mark(&directory);
        let error = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None })
            .unwrap_err()
            .to_string();
        let expected =
            format!("b.index: line 2 is {line:?}, which is not the name of a log beside the index");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(fs::read(&live).unwrap(), torn);
        assert_eq!(fs::read_to_string(directory.path().join("b.index")).unwrap(), index);
    }
}

#[test]
fn symbolic_links_in_place_of_logs_and_indexes_are_not_followed() {
    let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let torn = [log(&[format(0)]), b"the beginning of an event".to_vec()].concat();
    for name in ["b.000001", "b.index", "bintide.lock"] {
        let _ = fs::remove_file(directory.path().join(name));
        fs::write(directory.path().join("b.000001"), &torn).unwrap();
        fs::write(directory.path().join("b.index"), b"./b.000001\n./b.0000").unwrap();
        mark(&directory);
        let target = other.path().join(name);
        fs::rename(directory.path().join(name), &target).unwrap();
        let text = fs::read(&target).unwrap();
        std::os::unix::fs::symlink(&target, directory.path().join(name)).unwrap();
        let error = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None })
            .unwrap_err()
            .to_string();
        assert!(error.contains(name) || error.contains("did not write"), "{error}");
        assert_eq!(fs::read(&target).unwrap(), text, "{name}");
        fs::remove_file(directory.path().join(name)).unwrap();
    }
}

/// A directory with a server's logs, or a copy of it, is not a store, regardless of its name.
#[test]
fn directories_with_other_logs_are_refused() {
    let torn = [log(&[format(0)]), b"the beginning of an event".to_vec()].concat();
    for index in [None, Some("./b.000001\n")] {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("b.000001"), &torn).unwrap();
        if let Some(index) = index {
            fs::write(directory.path().join("b.index"), index).unwrap();
        }
        let error = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None })
            .unwrap_err()
            .to_string();
        assert!(error.contains("which bintide receive did not write"), "{error}");
        assert_eq!(fs::read(directory.path().join("b.000001")).unwrap(), torn);
        assert!(!directory.path().join("bintide.lock").exists());
    }
    // A store whose first log could not be created leaves an index without lines.
    for text in ["", "./b.0000"] {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("b.000001"), binlog::MAGIC).unwrap();
        fs::write(directory.path().join("b.index"), text).unwrap();
        open(&directory).begin_log("b.000001", 4).unwrap();
    }
    // Files of other programs do not matter.
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("base.20260101"), b"a backup").unwrap();
    open(&directory).begin_log("b.000001", 4).unwrap();
}

/// The directory is locked, too, because the mark file can be removed.
#[test]
fn stores_stay_locked_when_their_mark_is_removed() {
    let directory = TempDir::new().unwrap();
    let mut store = open(&directory);
    store.begin_log("b.000001", 4).unwrap();
    fs::remove_file(directory.path().join("bintide.lock")).unwrap();
    let error =
        StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None }).unwrap_err().to_string();
    assert!(error.contains("is in use: another bintide process writes to it"), "{error}");
}

/// After a power failure, a file may have its size but only zeros. A file that is not larger than the start of a
/// log counts as
/// torn.
#[test]
fn zeros_count_as_the_incomplete_start_of_a_log() {
    for size in [0, 1, 4, 5, 100, 515, 516] {
        for index in ["", "./b.000001\n"] {
            for is_encrypted in [false, true] {
                let directory = TempDir::new().unwrap();
                fs::write(directory.path().join("b.000001"), vec![0; size]).unwrap();
                fs::write(directory.path().join("b.index"), index).unwrap();
                mark(&directory);
                let mut store = if is_encrypted { open_encrypted(&directory) } else { open(&directory) };
                store.begin_log("b.000001", 4).unwrap();
                append(&mut store, &[format(0)]);
                store.sync().unwrap();
                let found = if is_encrypted {
                    decrypted(&directory, "b.000001")
                } else {
                    fs::read(directory.path().join("b.000001")).unwrap()
                };
                assert_eq!(found, log(&[format(0)]), "{size} {index} {is_encrypted}");
            }
        }
    }
    // A larger file, or one with other bytes, can contain events.
    for (size, byte) in [(517, 0), (5, 1), (516, 1)] {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("b.000001"), vec![byte; size]).unwrap();
        fs::write(directory.path().join("b.index"), "").unwrap();
        mark(&directory);
        assert!(open(&directory).begin_log("b.000001", 4).is_err(), "{size} {byte}");
        assert_eq!(fs::read(directory.path().join("b.000001")).unwrap(), vec![byte; size]);
    }
}
