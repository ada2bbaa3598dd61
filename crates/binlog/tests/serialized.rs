//! Events as JSON, by `serde`.

#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used)]

mod common;

use bintide_binlog::events::{Query, Rotate, StatusVars};
use bintide_binlog::{Event, EventType, TrackError, TrackedEvent, TransactionTracker};
use serde_json::{Value, json, to_value};

use common::{for_each_event_deep, samples};

/// Returns the first event of a type in a sample, as JSON.
fn first(name: &str, event_type: EventType) -> Value {
    let sample = samples().into_iter().find(|sample| sample.name == name).unwrap();
    let mut first = None;
    for_each_event_deep(&sample.bytes, |_, raw, format| {
        if raw.event_type() == event_type && first.is_none() {
            first = Some(to_value(raw.decode(format).unwrap()).unwrap());
        }
    });
    first.unwrap()
}

#[test]
fn every_event_names_its_type() {
    for sample in samples() {
        for_each_event_deep(&sample.bytes, |_, raw, format| {
            let event = raw.decode(format).unwrap();
            assert_eq!(to_value(&event).unwrap()["type"], to_value(event.event_type()).unwrap());
        });
    }
}

#[test]
fn text_is_a_string_and_other_bytes_are_base64() {
    let map = first("xa.binlog", EventType::TableMap);
    assert_eq!(
        map,
        json!({
            "type": "table_map", "table_id": map["table_id"], "flags": 1, "database": "xa", "table": "t",
            "column_types": [3, 15], "metadata": {"base64": "yAA="}, "nullable": {"base64": "Ag=="},
            "optional": {"base64": "AQEAAgP8/wA="},
        })
    );
    let rows = first("xa.binlog", EventType::WriteRows);
    assert_eq!(rows["kind"], "write");
    assert_eq!((&rows["columns"], &rows["columns_after"]), (&json!({"base64": "/w=="}), &Value::Null));
    let annotate = first("mariadb-annotate.binlog", EventType::MariadbAnnotateRows);
    assert!(annotate["sql"].as_str().unwrap().starts_with("INSERT INTO t VALUES (1, 'first'"));
    let format = first("mariadb-annotate.binlog", EventType::FormatDescription);
    assert!(format["server_version"].as_str().unwrap().ends_with("-log"), "{format}");
}

#[test]
fn text_that_is_not_utf8_is_base64_too() {
    let rotate = Event::Rotate(Rotate { position: 4, file: b"caf\xe9" });
    assert_eq!(
        to_value(rotate).unwrap(),
        json!({"type": "rotate", "position": 4, "file": {"base64": "Y2Fm6Q=="}})
    );
}

#[test]
fn identifiers_are_shown_as_mysql_shows_them() {
    let prepare = first("xa.binlog", EventType::XaPrepare);
    let expected =
        json!({"type": "xa_prepare", "one_phase": 0, "xid": "X'73696d706c65',X'',1", "rest": {"base64": ""}});
    assert_eq!(prepare, expected);
    let set = first("gtids/binlog.000002", EventType::PreviousGtids);
    assert!(set["set"].as_str().unwrap().contains(":by_hand:77"), "{set}");
    let list = first("mariadb-gtids/binlog.000002", EventType::MariadbGtidList);
    assert_eq!(list["gtids"][0], "1-1-3");
    let tagged = first("gtids/binlog.000001", EventType::GtidTagged);
    assert_eq!((&tagged["tag"], &tagged["gno"]), (&json!("tag"), &json!(1)));
}

#[test]
fn session_variables_are_named() {
    let check = |bytes: &[u8], expected: Value| {
        let status = StatusVars { bytes };
        let query =
            Query { thread_id: 1, exec_time: 0, error_code: 0, status, database: b"d", sql: b"BEGIN" };
        assert_eq!(to_value(Event::Query(query)).unwrap()["status"], expected);
    };
    check(&[0, 1, 0, 0, 0, 6, 3, b's', b't', b'd'], json!([{"flags2": 1}, {"catalog_nz": "std"}]));
    check(&[12, 2, b'a', 0, b'b', 0], json!([{"updated_databases": ["a", "b"]}]));
    check(&[12, 254], json!([{"updated_databases": null}]));
    check(&[99, 7], json!([{"unknown": {"code": 99, "rest": {"base64": "Bw=="}}}]));
    check(&[1, 7], json!({"base64": "AQc="}));
}

#[test]
fn outlines_of_transactions() {
    let sample = samples().into_iter().find(|sample| sample.name == "gtids/binlog.000001").unwrap();
    let (mut tracker, mut outlines) = (TransactionTracker::new(), Vec::new());
    common::for_each_event(&sample.bytes, |position, raw, format| {
        let tracked: Result<TrackedEvent, TrackError> = tracker.track(position as u64, raw, format);
        outlines.extend(tracked.unwrap().ended.map(|outline| to_value(outline).unwrap()));
    });
    assert_eq!(outlines[0]["kind"], "statement");
    assert_eq!(outlines[0]["id"], json!({"gtid": "5ea5ca5e-0001-4000-8000-000000000001:1"}));
    assert_eq!(outlines[0]["clock"], json!({"last_committed": 0, "sequence_number": 1}));
    assert_eq!(outlines[2]["kind"], "committed");
}
