//! Faults in bytes that decode without an error: values that mysqlbinlog refuses, or that no server writes.

use binlog::EventType;
use inspect::verify::FaultKind;

use crate::edit::Log;
use crate::{check, faults};

/// Changes the body of one event, and expects this fault.
fn wrong(sample: &str, event_type: EventType, nth: usize, change: impl FnOnce(&mut Vec<u8>), detail: &str) {
    let mut log = Log::of_sample(sample);
    let index = log.find(event_type, nth);
    log.body(index, change);
    log.settle();
    check(&log, index, FaultKind::Event, &format!("{}: {detail}", event_type.name()));
}

/// Does the same as [`wrong`] for a change of the event's size, which is a fault of its own.
fn resized(sample: &str, event_type: EventType, nth: usize, change: impl FnOnce(&mut Vec<u8>), detail: &str) {
    let mut log = Log::of_sample(sample);
    let index = log.find(event_type, nth);
    log.body(index, change);
    log.settle();
    let fault = (log.offset(index), FaultKind::Event, format!("{}: {detail}", event_type.name()));
    let found = faults(&log.bytes());
    assert!(found.contains(&fault), "{fault:?}: {found:?}");
}

#[test]
fn types_that_no_server_writes() {
    let fault = |code: u8, flags: u8| {
        let mut log = Log::of_sample("types-rows-query.binlog");
        let index = log.find(EventType::RowsQuery, 0);
        (log.events[index][4], log.events[index][17]) = (code, flags);
        log.settle();
        let offset = log.offset(index);
        let fault = |(at, kind, detail)| (at == offset && kind == FaultKind::Event).then_some(detail);
        faults(&log.bytes()).into_iter().find_map(fault)
    };
    let old = "Update_rows_event_old: byte 4: event type is 21, expected one that servers since MySQL 5.6 write to logs";
    assert_eq!(fault(21, 0).as_deref(), Some(old));
    let unknown = "event of type 125: byte 4: event type is 125, expected a known type, because the event is not flagged ignorable";
    assert_eq!(fault(125, 0).as_deref(), Some(unknown));
    assert_eq!(fault(125, 0x80), None);
}

#[test]
fn session_variables() {
    // After the fixed part of 13 bytes: 0 flags2, 1 sql_mode, 6 catalog, 4 charsets.
    let wrong = |at: usize, value: u8, detail: &str| {
        let change = |body: &mut Vec<u8>| body[at] = value;
        wrong("types.binlog", EventType::Query, 3, change, &format!("byte 32: {detail}"));
    };
    wrong(13, 99, "session variable is 99, expected a known one of this server's version");
    wrong(28, 2, "size of the catalog's name is 2, expected the name std");
    wrong(29, b'S', "size of the catalog's name is 3, expected the name std");
    wrong(34, 3, "collation is 1023, expected the number of a collation");
}

#[test]
fn session_variables_have_a_range() {
    let wrong = |variables: &[u8], detail: &str| {
        let change = |body: &mut Vec<u8>| {
            let size = usize::from(u16::from_le_bytes([body[11], body[12]]));
            body[11..13].copy_from_slice(&(variables.len() as u16).to_le_bytes());
            body.splice(13..13 + size, variables.iter().copied());
        };
        resized("types.binlog", EventType::Query, 3, change, &format!("byte 32: {detail}"));
    };
    wrong(&[13, 0x40, 0x42, 0x0f], "microseconds is 1000000, expected less than a million");
    wrong(&[16, 2], "boolean session variable is 2, expected 0 or 1");
    wrong(&[16, 1, 16, 1], "number of session variables of one kind is 2, expected 1");
}

#[test]
fn values_of_user_variables_have_a_size() {
    let wrong = |kind: u8, value: &[u8], detail: &str| {
        // A variable `v`: after its name and a zero, the kind, the collation, and the size of the value.
        let change = |body: &mut Vec<u8>| {
            *body = [b"\x01\0\0\0v\0".as_slice(), &[kind, 63, 0, 0, 0, value.len() as u8, 0, 0, 0], value]
                .concat();
        };
        resized("statements.binlog", EventType::UserVar, 0, change, &format!("byte 30: {detail}"));
    };
    wrong(2, b"abc", "size of the variable's value is 3, expected 8");
    wrong(4, b"a", "size of the variable's value is 1, expected 2 or more");
}

#[test]
fn user_variables() {
    let kind = "kind of the variable's value is 9, expected 0, 1, 2 or 4: string, real, integer or decimal";
    // The first variable that is not NULL. Its value follows the size of the name, the name, and a zero byte.
    let at = |body: &[u8]| 4 + body[0] as usize + 1;
    let mut log = Log::of_sample("statements.binlog");
    let body_of = |nth| log.raw(log.find(EventType::UserVar, nth)).body().to_vec();
    let nth =
        (0..).find(|nth| body_of(*nth).len() > at(&body_of(*nth))).expect("no variable that is not NULL");
    let index = log.find(EventType::UserVar, nth);
    let offset = 19 + at(log.raw(index).body());
    let change = |body: &mut Vec<u8>| body[offset - 19] = 9;
    wrong("statements.binlog", EventType::UserVar, nth, change, &format!("byte {offset}: {kind}"));
    log.body(index, |body| body.extend([0, 0, 0]));
    log.settle();
    assert!(faults(&log.bytes()).iter().any(|(_, kind, _)| *kind == FaultKind::Event));
}

#[test]
fn anonymous_transactions_have_no_gtid() {
    for at in [1, 16, 17, 24] {
        let mut log = Log::of_sample("anonymous.binlog");
        let index = log.find(EventType::AnonymousGtid, 1);
        log.body(index, |body| body[at] = 1);
        log.settle();
        let found = faults(&log.bytes());
        assert_eq!((found.len(), found[0].1), (1, FaultKind::Event), "{found:?}");
        assert!(found[0].2.contains("GTID of an anonymous transaction"), "{found:?}");
    }
}

#[test]
fn format_descriptions() {
    let wrong = |change: fn(&mut Log), expected: &str| {
        let mut log = Log::of_sample("types.binlog");
        change(&mut log);
        log.settle();
        let found = faults(&log.bytes());
        assert!(
            found
                .iter()
                .any(|(at, kind, detail)| (*at, *kind, detail.as_str()) == (4, FaultKind::Format, expected)),
            "{found:?}"
        );
    };
    wrong(
        |log| log.events[0][17] = 0x80,
        "byte 17: header flags is 128, expected flags of a format description",
    );
    wrong(
        |log| log.body(0, |body| body[3] = b'&'),
        r#"the server's version is "9&7.4-2", expected one like 8.0.43"#,
    );
    let xid = "the fixed part of Xid events has 2 bytes, expected one of [0]";
    wrong(|log| log.body(0, |body| body[57 + 15] = 2), xid);
    wrong(|log| log.body(0, |body| body[57 + 14] += 1), "its own fixed part has 100 bytes, expected 99");
}
