//! Responses and result sets, encoded and decoded byte for byte.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use wire::{
    Capabilities, ColumnDefinition, CommandResponse, EofPacket, ErrPacket, OkPacket, PacketCodec, ResultPart,
    ResultReader, ResultWriter, ServerError, ServerStatus, WireError,
};

const OLD: Capabilities = Capabilities::PROTOCOL_41;
const NEW: Capabilities = Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0);
const TRACKED: Capabilities = Capabilities(NEW.0 | Capabilities::SESSION_TRACK.0);

fn check_ok(bytes: &[u8], capabilities: Capabilities, expected: OkPacket<'_>) {
    assert_eq!(OkPacket::decode(bytes, capabilities).unwrap(), expected);
    let mut out = Vec::new();
    expected.encode(capabilities, &mut out);
    assert_eq!(out, bytes);
}

#[test]
fn ok_packets() {
    let autocommit = OkPacket { status: ServerStatus::AUTOCOMMIT, ..OkPacket::default() };
    check_ok(b"\0\0\0\x02\0\0\0", OLD, autocommit);
    check_ok(b"\0\0\0\x02\0\0\0", TRACKED, autocommit);
    let changed = OkPacket { affected_rows: 251, last_insert_id: 3, warnings: 1, info: b"hi", ..autocommit };
    check_ok(b"\0\xfc\xfb\0\x03\x02\0\x01\0hi", OLD, changed);
    check_ok(b"\0\xfc\xfb\0\x03\x02\0\x01\0\x02hi", TRACKED, changed);
    let tracked = OkPacket {
        status: ServerStatus(ServerStatus::AUTOCOMMIT.0 | ServerStatus::SESSION_STATE_CHANGED.0),
        session_state: b"\x01\x03\x02db",
        ..OkPacket::default()
    };
    check_ok(b"\0\0\0\x02\x40\0\0\0\x05\x01\x03\x02db", TRACKED, tracked);
}

fn check_err(bytes: &[u8], expected: ErrPacket<'_>, shown: &str) {
    let err = ErrPacket::decode(bytes).unwrap();
    assert_eq!(err, expected);
    assert_eq!(err.to_error().to_string(), shown);
    let mut out = Vec::new();
    err.encode(&mut out);
    assert_eq!(out, bytes);
}

#[test]
fn err_packets() {
    check_err(
        b"\xff\xd4\x04#HY000Could not find first log file name in binary log index file",
        ErrPacket {
            code: 1236,
            state: Some(b"HY000"),
            message: b"Could not find first log file name in binary log index file",
        },
        "Could not find first log file name in binary log index file (error 1236, SQL state HY000)",
    );
    check_err(
        b"\xff\x10\x04Too many connections",
        ErrPacket { code: 1040, state: None, message: b"Too many connections" },
        "Too many connections (error 1040, SQL state HY000)",
    );
}

fn check_eof(bytes: &[u8], capabilities: Capabilities, expected: EofPacket) {
    assert!(EofPacket::is(bytes, capabilities));
    assert_eq!(EofPacket::decode(bytes, capabilities).unwrap(), expected);
    let mut out = Vec::new();
    expected.encode(capabilities, &mut out);
    assert_eq!(out, bytes);
}

#[test]
fn eof_packets() {
    let eof = EofPacket { warnings: 1, status: ServerStatus::AUTOCOMMIT };
    check_eof(b"\xfe\x01\0\x02\0", OLD, eof);
    check_eof(b"\xfe\0\0\x02\0\x01\0", NEW, eof);
    // Servers that end result sets with OK packets still end a log with an EOF packet.
    assert_eq!(EofPacket::decode(b"\xfe\x01\0\x02\0", NEW).unwrap(), eof);
    // A row whose first value has an eight-byte length.
    assert!(!EofPacket::is(b"\xfe\0\0\0\x01\0\0\0\0", OLD));
}

fn refused(bytes: &[u8], expected: &str) {
    assert_eq!(CommandResponse::decode(bytes, OLD).unwrap_err().to_string(), expected);
}

#[test]
fn invalid_answers_are_refused() {
    refused(b"", "unexpected packet: expected an OK, EOF or ERR packet, got an empty one");
    refused(b"\x01", "unexpected packet: expected an OK, EOF or ERR packet, got one that starts with 0x01");
    refused(b"\0\0", "OK packet: byte 2: expected 1 more bytes, found 0");
    refused(b"\xfe\0\0\0\0\0", "EOF packet: byte 5: expected the end, found 1 extra bytes");
    refused(b"\xff\x01", "ERR packet: byte 1: expected 2 more bytes, found 1");
    refused(b"\xff\x01\x04#HY", "ERR packet: byte 4: expected 5 more bytes, found 2");
    refused(b"\xff\x15\x04#28000no", "no (error 1045, SQL state 28000)");
    let error = OkPacket::decode(b"\x01", OLD).unwrap_err();
    assert_eq!(error.to_string(), "OK packet: byte 0: the first byte is 1, expected 0x00 or 0xfe");
}

/// Reads a result that the other side wrote.
fn read(packets: &mut PacketCodec, capabilities: Capabilities) -> Result<Vec<String>, WireError> {
    let mut reader = ResultReader::new(capabilities);
    let mut parts = Vec::new();
    while !reader.is_done() {
        let payload = packets.next()?.expect("the result is incomplete");
        parts.push(match reader.read(payload)? {
            ResultPart::Row(row) => {
                let text = |value: Option<&[u8]>| {
                    value.map_or("NULL".into(), |value| String::from_utf8_lossy(value).into_owned())
                };
                row.map(text).collect::<Vec<_>>().join(",")
            }
            ResultPart::Column(column) => String::from_utf8_lossy(column.name).into_owned(),
            ResultPart::Ok(_) => "ok".into(),
            ResultPart::FileRequest(name) => format!("file {}", String::from_utf8_lossy(name)),
            ResultPart::Columns(count) => format!("{count} columns"),
            ResultPart::ColumnsEnd => "columns end".into(),
            ResultPart::End(_) => "end".into(),
        });
    }
    Ok(parts)
}

#[test]
fn results_are_written_and_read() {
    for (capabilities, between) in [(OLD, vec!["columns end".to_owned()]), (NEW, vec![])] {
        let (mut server, mut client) = (PacketCodec::new(1 << 26), PacketCodec::new(1 << 26));
        let columns = ["a", "b"].map(|name| ColumnDefinition {
            name: name.as_bytes(),
            collation: 255,
            size: 80,
            column_type: 0xfd,
            ..ColumnDefinition::default()
        });
        let huge = vec![b'x'; 0x100_0000];
        let mut writer = ResultWriter::begin(&mut server, capabilities, &columns);
        writer.row(&[Some(b"1"), None]);
        writer.row(&[Some(&huge), Some(b"")]);
        writer.end(ServerStatus(ServerStatus::MORE_RESULTS.0));
        let mut ok = Vec::new();
        OkPacket::default().encode(capabilities, &mut ok);
        server.send(&ok);
        client.receive(server.output());
        let mut expected = vec!["2 columns".to_owned(), "a".into(), "b".into()];
        expected.extend(between);
        expected.extend(["1,NULL".into(), format!("{},", "x".repeat(0x100_0000)), "end".into(), "ok".into()]);
        assert!(read(&mut client, capabilities).unwrap() == expected);
    }
}

#[test]
fn errors_between_rows_end_the_result() {
    let (mut server, mut client) = (PacketCodec::new(0), PacketCodec::new(0));
    let mut writer = ResultWriter::begin(&mut server, NEW, &[ColumnDefinition::default()]);
    writer.row(&[None]);
    server.send(b"\xff\x25\x05#70100Query execution was interrupted");
    client.receive(server.output());
    let error = read(&mut client, NEW).unwrap_err();
    let expected =
        ServerError { code: 1317, state: "70100".into(), message: "Query execution was interrupted".into() };
    assert_eq!(error, WireError::Refused(expected));
    assert_eq!(error.code(), Some(1317));
}

#[test]
fn rows_after_a_pause_belong_to_the_same_result() {
    for capabilities in [OLD, NEW] {
        let sent = |pauses: bool| {
            let mut server = PacketCodec::new(0);
            let mut writer = ResultWriter::begin(&mut server, capabilities, &[ColumnDefinition::default()]);
            writer.row(&[None]);
            if pauses {
                let paused = writer.pause();
                writer = paused.resume(&mut server);
            }
            writer.row(&[Some(b"1")]);
            writer.end(ServerStatus::AUTOCOMMIT);
            server.output().to_vec()
        };
        assert_eq!(sent(true), sent(false));
    }
}

#[test]
fn requests_for_a_file() {
    let capabilities = Capabilities(NEW.0 | Capabilities::LOCAL_FILES.0);
    let mut reader = ResultReader::new(capabilities);
    assert!(matches!(reader.read(b"\xfb/tmp/rows").unwrap(), ResultPart::FileRequest(b"/tmp/rows")));
    assert!(!reader.is_done());
    assert!(
        matches!(reader.read(b"\0\x02\0\x02\0\0\0").unwrap(), ResultPart::Ok(ok) if ok.affected_rows == 2)
    );
    assert!(reader.is_done());
}

fn no_result(payloads: &[&[u8]], expected: &str) {
    let mut reader = ResultReader::new(NEW);
    let (last, before) = payloads.split_last().unwrap();
    for payload in before {
        reader.read(payload).unwrap();
    }
    assert_eq!(reader.read(last).unwrap_err().to_string(), expected);
}

#[test]
fn invalid_results_are_refused() {
    let mut column = Vec::new();
    ColumnDefinition::default().encode(&mut column);
    no_result(
        &[b"\xfb/etc/passwd"],
        "unexpected packet: expected a result set, not a request for a file, got one that starts with 0xfb",
    );
    no_result(&[b""], "number of columns: byte 0: expected 1 more bytes, found 0");
    no_result(
        &[b"\xfd\0\0\x01"],
        "number of columns: byte 0: number of columns is 65536, expected at most 4096",
    );
    let last = column.len() - 13;
    let mut longer = column.clone();
    longer[last] = 13;
    no_result(&[b"\x01", &longer], "column definition: byte 9: size of the fixed fields is 13, expected 12");
    no_result(&[b"\x01", b"\x03def"], "column definition: byte 4: expected 1 more bytes, found 0");
    no_result(&[b"\x01", &column, b"\x05a"], "row: byte 1: expected 5 more bytes, found 1");
    no_result(&[b"\x01", &column, b"\xfb\xfb"], "row: byte 1: expected the end, found 1 extra bytes");
}
