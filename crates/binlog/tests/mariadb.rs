//! MariaDB's own events, in logs written by a MariaDB server.

#![cfg(feature = "zlib")]
#![allow(clippy::unwrap_used)]

mod common;

use bintide_binlog::events::{Query, Rows, RowsKind};
use bintide_binlog::{EVENT_SIZE_MAX, Event, EventFormat, RawEvent};

use common::{Sample, for_each_event, samples};

fn sample(name: &str) -> Sample {
    samples().into_iter().find(|sample| sample.name == name).unwrap()
}

/// Change made by an event, without fields that differ between recordings.
#[derive(Debug, PartialEq)]
enum PlainChange {
    Sql(Vec<u8>),
    Rows(RowsKind, Vec<u8>),
}

fn change(raw: &RawEvent<'_>, format: &EventFormat) -> Option<PlainChange> {
    match raw.decode(format).unwrap() {
        Event::Query(Query { sql, .. }) => Some(PlainChange::Sql(sql.to_vec())),
        Event::WriteRowsV1(rows) | Event::UpdateRowsV1(rows) | Event::DeleteRowsV1(rows) => {
            let Rows { kind, rows, .. } = rows;
            Some(PlainChange::Rows(kind, rows.to_vec()))
        }
        _ => None,
    }
}

/// Returns the decompressed changes of a log, and the number of compressed events.
fn changes(name: &str) -> (Vec<PlainChange>, u32) {
    let (mut changes, mut compressed, mut bytes) = (Vec::new(), 0, Vec::new());
    for_each_event(&sample(name).bytes, |position, raw, format| {
        bytes.clear();
        raw.decompress_mariadb(format, EVENT_SIZE_MAX, &mut bytes)
            .unwrap_or_else(|error| panic!("{name} {position}: {error}"));
        let plain = RawEvent::new(&bytes, raw.checksum()).unwrap();
        assert_eq!(plain.verify(), Ok(()));
        assert_eq!(plain.event_type(), raw.event_type().decompressed().unwrap_or(raw.event_type()));
        compressed += u32::from(raw.event_type().decompressed().is_some());
        changes.extend(change(&plain, format));
    });
    (changes, compressed)
}

#[test]
fn compressed_events_contain_the_same_changes_as_plain_ones() {
    let check = |plain: &str, compressed: &str| {
        let (plain, none) = changes(plain);
        let (changes, some) = changes(compressed);
        assert_eq!(changes, plain, "{compressed}");
        assert!(none == 0 && some > 15, "{compressed}: {some}");
    };
    check("mariadb.binlog", "mariadb-compressed.binlog");
    check("mariadb-statements.binlog", "mariadb-statements-compressed.binlog");
}

#[test]
fn limits_and_corruption_are_errors() {
    let sample = sample("mariadb-compressed.binlog");
    for_each_event(&sample.bytes, |position, raw, format| {
        if raw.event_type().decompressed().is_none() {
            return;
        }
        let mut out = b"before".to_vec();
        assert!(raw.decompress_mariadb(format, 30, &mut out).is_err(), "{position}");
        let mut damaged = raw.bytes().to_vec();
        let last = damaged.len() - raw.checksum().size() - 1;
        damaged[last] ^= 1; // Part of the stream's own checksum.
        let damaged = RawEvent::new(&damaged, raw.checksum()).unwrap();
        assert!(damaged.decompress_mariadb(format, EVENT_SIZE_MAX, &mut out).is_err(), "{position}");
        assert_eq!(out, b"before");
    });
}

#[test]
fn gtid_events_contain_xa_ids_and_commit_ids() {
    let (mut xids, mut commit_ids) = (Vec::new(), 0);
    for_each_event(&sample("mariadb.binlog").bytes, |_, raw, format| {
        if let Event::MariadbGtid(gtid) = raw.decode(format).unwrap() {
            let details = gtid.details().unwrap();
            xids.extend(details.xid.map(|xid| xid.to_string()));
            commit_ids += u32::from(details.commit_id.is_some());
            assert!(details.rest.iter().all(|byte| *byte == 0), "{details:?}");
        }
    });
    assert_eq!((xids, commit_ids), (vec!["X'78',X'',1".to_owned(); 2], 0));
}

#[test]
fn gtid_lists_and_checkpoints() {
    let (mut lists, mut files) = (Vec::new(), Vec::new());
    for_each_event(&sample("mariadb-gtids/binlog.000002").bytes, |_, raw, format| {
        match raw.decode(format).unwrap() {
            Event::MariadbGtidList(list) => lists.extend(list.iter()),
            Event::MariadbBinlogCheckpoint(checkpoint) => {
                files.push(String::from_utf8_lossy(checkpoint.file).into_owned())
            }
            _ => {}
        }
    });
    assert!(lists.len() > 1, "{lists:?}");
    assert_eq!(files, ["binlog.000001", "binlog.000002"]);
}
