//! Messages for damaged events, for values that do not fit their fields, and for transactions that are not whole.

#![allow(clippy::unwrap_used)]

use bintide_binlog::events::{
    ColumnSet, FormatDescription, GtidEvent, GtidLayout, Heartbeat, MariadbBinlogCheckpoint, Query, Rows,
    RowsFlags, RowsKind, StatusVars, TransactionContext, UserVar, UserVarValue, XaPrepare, XaXid, Xid,
};
use bintide_binlog::gtid::Uuid;
use bintide_binlog::{
    ChecksumAlgorithm, CompressionCheck, Event, EventChecksum, EventFormat, EventOrigin, Flavour,
    HEADER_SIZE, NextPosition, RawEvent, TransactionAssembler, TransactionOutline, TransactionTracker,
    put_gtid_resized,
};

fn format() -> EventFormat {
    EventFormat {
        server_version: b"9.7.4".to_vec(),
        post_header_sizes: vec![10; 42],
        checksum: ChecksumAlgorithm::Off,
        flavour: Flavour::MySql,
    }
}

fn written(event: &Event<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.write(EventOrigin::default(), NextPosition::Fixed(1000), &format(), &mut bytes).unwrap();
    bytes
}

fn query<'a>(database: &'a [u8], variables: &'a [u8], sql: &'a [u8]) -> Event<'a> {
    let status = StatusVars { bytes: variables };
    Event::Query(Query { thread_id: 1, exec_time: 0, error_code: 0, status, database, sql })
}

fn rows(extra: &[u8]) -> Rows<'_> {
    Rows {
        kind: RowsKind::Write,
        table_id: 7,
        flags: RowsFlags(1),
        extra: Some(extra),
        column_count: 2,
        columns: ColumnSet { bits: &[3] },
        columns_after: None,
        rows: &[0],
    }
}

fn prepare(gtrid: &[u8]) -> Event<'_> {
    Event::XaPrepare(XaPrepare { one_phase: 0, xid: XaXid { format_id: 1, gtrid, bqual: b"" }, rest: &[] })
}

#[test]
fn a_changed_byte_is_found_in_its_field() {
    let check = |event: &Event<'_>, at: usize, byte: u8, expected: &str| {
        let mut bytes = written(event);
        bytes[at] = byte;
        let raw = RawEvent::new(&bytes, EventChecksum::Absent).unwrap();
        assert_eq!(raw.decode(&format()).unwrap_err().to_string(), expected, "{event:?}");
    };
    let insert = query(b"d", b"", b"insert");
    check(&insert, HEADER_SIZE + 8, 2, "byte 34: end of the database's name is 105, expected 0");
    check(&insert, HEADER_SIZE + 8, 200, "byte 32: expected 200 more bytes, found 8");
    let rows = Event::WriteRows(rows(&[]));
    check(&rows, HEADER_SIZE + 8, 1, "byte 27: size of the extra fields is 1, expected 2 or more");
    let prepare = prepare(b"x");
    check(&prepare, HEADER_SIZE + 5, 65, "byte 24: size of an XID's part is 65, expected at most 64");
}

#[test]
fn values_must_fit_their_fields() {
    let check = |event: Event<'_>, expected: &str| {
        assert_eq!(event.encode(&format(), &mut Vec::new()).unwrap_err().to_string(), expected);
    };
    let long = vec![b'x'; 65_536];
    check(query(&long[..256], b"", b""), "size of the database's name is 256, expected at most 255");
    check(query(b"d", &long, b""), "size of the session variables is 65536, expected at most 65535");
    check(Event::WriteRows(rows(&long)), "size of the extra fields is 65538, expected at most 65535");
    let columns = ColumnSet { bits: &[3, 0] };
    check(Event::WriteRows(Rows { columns, ..rows(&[]) }), "columns has 2 bytes, expected 1");
    check(prepare(&long[..65]), "size of an XID's part is 65, expected at most 64");
    let context = context(&long[..256], b"");
    check(context, "size of the server's UUID is 256, expected at most 255");
    let mut server_version = [0; 50];
    server_version[..6].copy_from_slice(b"5.6.10");
    let description = FormatDescription {
        binlog_version: 4,
        server_version: &server_version,
        created: 0,
        header_size: 19,
        post_header_sizes: &[],
        checksum_algorithm: None,
    };
    check(
        Event::FormatDescription(description),
        "checksum_algorithm is missing, but required before the end of the event since server version 5.6.1",
    );
}

fn context<'a>(server_uuid: &'a [u8], snapshot_version: &'a [u8]) -> Event<'a> {
    Event::TransactionContext(TransactionContext {
        server_uuid,
        thread_id: 1,
        gtid_specified: 0,
        snapshot_version,
        write_set_count: 0,
        read_set_count: 0,
        items: &[],
    })
}

/// The system provides these zeros only when they are read, and they are not.
#[cfg(target_pointer_width = "64")]
#[test]
fn values_of_four_gigabytes_do_not_fit() {
    let check = |event: Event<'_>, expected: &str| {
        assert_eq!(event.encode(&format(), &mut Vec::new()).unwrap_err().to_string(), expected);
    };
    let huge = vec![0; 1 << 32];
    let checkpoint = MariadbBinlogCheckpoint { file: &huge, rest: &[] };
    check(
        Event::MariadbBinlogCheckpoint(checkpoint),
        "size of the file's name is 4294967296, expected at most 4294967295",
    );
    check(context(b"", &huge), "size of the snapshot version is 4294967296, expected at most 4294967295");
    check(
        Event::UserVar(UserVar { name: &huge, value: None }),
        "size of a variable's name is 4294967296, expected at most 4294967295",
    );
    let value = UserVarValue { kind: 0, collation: 63, bytes: &huge, flags: &[] };
    check(
        Event::UserVar(UserVar { name: b"v", value: Some(value) }),
        "size of a variable's value is 4294967296, expected at most 4294967295",
    );
}

fn gtid() -> Event<'static> {
    Event::Gtid(GtidEvent {
        flags: 0,
        uuid: Uuid::from_u128(7),
        gno: 1,
        clock: None,
        stamps: None,
        layout: GtidLayout { original_commit_written: false, original_version_written: false },
        rest: &[],
    })
}

#[test]
fn transactions_are_assembled_up_to_a_limit_and_with_one_checksum() {
    let begin = written(&query(b"", b"", b"BEGIN"));
    let raw = RawEvent::new(&begin, EventChecksum::Absent).unwrap();
    let error = TransactionAssembler::new(format(), 30).push(4, &raw, &format()).unwrap_err();
    assert_eq!(error.to_string(), "the transaction at 4 is larger than 30 bytes");
    let mut assembler = TransactionAssembler::new(format(), 1000);
    assembler.push(4, &raw, &format()).unwrap();
    let mut commit = Vec::new();
    let xid = Event::Xid(Xid { xid: 1 });
    let format_crc32 = EventFormat { checksum: ChecksumAlgorithm::Crc32, ..format() };
    xid.write(EventOrigin::default(), NextPosition::Fixed(1000), &format_crc32, &mut commit).unwrap();
    let raw = RawEvent::new(&commit, EventChecksum::Crc32).unwrap();
    let error = assembler.push(42, &raw, &format_crc32).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 31: size of the checksum is 4, expected the size in the transaction's first event"
    );
}

#[test]
fn transactions_that_a_server_does_not_compress_have_a_reason() {
    let heartbeat = Event::Heartbeat(Heartbeat { file: b"binlog.000001" });
    let (begin, commit) = (query(b"", b"", b"BEGIN"), Event::Xid(Xid { xid: 1 }));
    let rows = || Event::WriteRows(rows(&[]));
    let check = |events: &[Event<'_>], expected: &str| {
        let (mut tracker, mut compression) = (TransactionTracker::new(), CompressionCheck::default());
        let (mut position, mut ended): (u64, Option<TransactionOutline>) = (4, None);
        for event in events {
            let bytes = written(event);
            let raw = RawEvent::new(&bytes, EventChecksum::Absent).unwrap();
            let tracked = tracker.track(position, &raw, &format()).unwrap();
            compression.take(tracked.role, &raw, &format()).unwrap();
            ended = tracked.ended;
            position += bytes.len() as u64;
        }
        let refusal = compression.refusal(&ended.unwrap()).unwrap();
        assert_eq!(refusal.to_string(), expected, "{events:?}");
    };
    check(&[gtid(), begin.clone(), rows(), query(b"", b"", b"ROLLBACK")], "rolled back");
    check(&[gtid(), begin.clone(), heartbeat, rows(), commit.clone()], "interrupted by other events");
    check(&[begin, rows(), commit], "no GTID event");
}

#[test]
fn only_gtid_events_have_the_size_of_their_transaction() {
    let bytes = written(&Event::Xid(Xid { xid: 1 }));
    let raw = RawEvent::new(&bytes, EventChecksum::Absent).unwrap();
    let error = put_gtid_resized(&raw, 100, NextPosition::Fixed(0), &format(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "byte 4: event type is 16, expected 33, 34 or 42 (a GTID event)");
}
