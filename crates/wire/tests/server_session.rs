//! A server after the login: commands of clients, and its responses as clients read them.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use proptest::prelude::*;
use wire::{
    AckRequest, BinlogDumpGtid, Capabilities, ClientCommand, ColumnDefinition, CommandResponse,
    DateTimeValue, DumpFlags, EofPacket, EventPacket, OkPacket, PIECE_SIZE_MAX, PacketCodec,
    PacketCompression, ParameterValue, PrepareReader, PreparedStatement, ResponseWriter, ResultPart,
    ResultReader, ResultValue, RowEncoding, SemiSync, SemiSyncAck, ServerError, ServerStatement,
    ServerStatus, SessionChange, StatementExecution, TimeValue, WireError, column_type,
};

const OLD: Capabilities = Capabilities(0);
const NEW: Capabilities = Capabilities(Capabilities::DEPRECATE_EOF.0 | Capabilities::SESSION_TRACK.0);
const ATTRIBUTES: Capabilities = Capabilities::QUERY_ATTRIBUTES;

fn check_command(bytes: &[u8], expected: ClientCommand<'_>) {
    assert_eq!(ClientCommand::decode(bytes).unwrap(), expected);
    let mut again = Vec::new();
    expected.encode(&mut again).unwrap();
    assert_eq!(again, bytes);
}

#[test]
fn commands_are_read_as_they_are_written() {
    check_command(b"\x02shop", ClientCommand::InitDatabase { database: b"shop" });
    check_command(b"\x09", ClientCommand::Statistics);
    check_command(b"\x0c\x07\0\0\0", ClientCommand::KillConnection { connection_id: 7 });
    let execute = b"\x17\x07\0\0\0\0\x01\0\0\0";
    check_command(execute, ClientCommand::ExecuteStatement { statement: 7, payload: execute });
    check_command(b"\x1a\x07\0\0\0", ClientCommand::ResetStatement { statement: 7 });
    check_command(b"\x1b\x01\0", ClientCommand::SetOption { option: 1 });
    check_command(b"\x1f", ClientCommand::ResetConnection);
    // COM_FIELD_LIST and COM_CHANGE_USER.
    check_command(b"\x04t\0", ClientCommand::Other { code: 4, rest: b"t\0" });
    check_command(b"\x11root\0", ClientCommand::Other { code: 0x11, rest: b"root\0" });
    for invalid in [&b"\x09x"[..], b"\x0c\x07", b"\x17\x07\0\0", b"\x1a", b"\x1b\x01", b"\x1f\0"] {
        assert!(ClientCommand::decode(invalid).is_err(), "{invalid:?}");
    }
}

#[test]
fn attributes_of_queries_are_skipped() {
    let check = |bytes: &[u8], expected: &str| {
        let found = match ClientCommand::decode_with(bytes, ATTRIBUTES) {
            Ok(ClientCommand::Query { sql }) => String::from_utf8_lossy(sql).into_owned(),
            Ok(command) => panic!("{command:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    };
    check(b"\x03\0\x01select 1", "select 1");
    check(b"\x03\x01\x01\0\x01\xfe\0\x02id\x03abcselect 1", "select 1");
    // Two attributes, the second one NULL.
    check(b"\x03\x02\x01\x02\x01\x08\x80\x01a\x06\0\x01b\x01\0\0\0\0\0\0\0select 1", "select 1");
    check(b"\x03", "command: byte 1: expected 1 more bytes, found 0");
    check(b"\x03\0\x02select 1", "command: byte 2: number of attribute sets is 2, expected 1");
    check(b"\x03\x01\x01\0\0select 1", "command: byte 4: flag of the types is 0, expected 1");
    check(b"\x03\xfd\0\0\x01\x01", "command: byte 1: number of parameters is 65536, expected at most 65535");
}

#[test]
fn gtid_sets_have_or_lack_tags() {
    let check = |gtids: &[u8], expected: &str| {
        let flags = DumpFlags::NON_BLOCK;
        let dump = BinlogDumpGtid { flags, server_id: 2, file: b"", position: 4, gtids };
        let mut out = Vec::new();
        ClientCommand::BinlogDumpGtid(dump).encode(&mut out).unwrap();
        let ClientCommand::BinlogDumpGtid(dump) = ClientCommand::decode(&out).unwrap() else {
            panic!("{out:?}")
        };
        let found = dump.gtid_set().map_or_else(|error| error.to_string(), |set| set.to_string());
        assert_eq!(found, expected);
    };
    let interval = b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0";
    let plain = [&b"\x01\0\0\0\0\0\0\0"[..], &[0xab; 16], interval].concat();
    check(&plain, "abababab-abab-abab-abab-abababababab:1-5");
    let tagged = [&b"\x01\x01\0\0\0\0\0\x01"[..], &[0xab; 16], b"\x06tag", interval].concat();
    check(&tagged, "abababab-abab-abab-abab-abababababab:tag:1-5");
    check(&[0; 8], "");
    check(&plain[..40], "GTID set of COM_BINLOG_DUMP_GTID: byte 40: expected 8 more bytes, found 0");
    check(b"", "GTID set of COM_BINLOG_DUMP_GTID: byte 0: expected 8 more bytes, found 0");
    let torn = b"\x1e\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0gtids";
    let error = ClientCommand::decode(torn).unwrap_err();
    assert_eq!(error.to_string(), "command: byte 19: size of the set of GTIDs is 9, expected at most 5");
}

#[test]
fn values_sent_ahead_have_a_limit() {
    let error = statement(1).append(1, b"abc", 5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Incorrect arguments to mysqld_stmt_send_long_data (error 1210, SQL state HY000)"
    );
    let mut statement = statement(1);
    statement.append(0, b"abc", 5).unwrap();
    assert_eq!(
        statement.append(0, b"def", 5).unwrap_err().to_string(),
        "Parameter of prepared statement which is set through mysql_send_long_data() is longer than \
         'max_allowed_packet' bytes (error 1105, SQL state HY000)"
    );
}

#[test]
fn dates_have_a_known_size() {
    let check = |column_type: u8, size: u8, expected: &str| {
        let payload = [EXECUTE, &[0, 1, column_type, 0, size], &[0; 20]].concat();
        assert_eq!(execution(&mut statement(1), &payload, OLD), expected);
    };
    check(
        column_type::DATETIME,
        5,
        "COM_STMT_EXECUTE: byte 14: size of a date or time is 5, expected 0, 4, 7 or 11",
    );
    check(
        column_type::TIME,
        9,
        "COM_STMT_EXECUTE: byte 14: size of a date or time is 9, expected 0, 8 or 12",
    );
}

fn execution(statement: &mut ServerStatement, payload: &[u8], capabilities: Capabilities) -> String {
    match statement.decode_execution(payload, capabilities) {
        Ok(execution) => format!("{:?}", execution.parameters),
        Err(error) => error.to_string(),
    }
}

fn statement(parameters: u16) -> ServerStatement {
    ServerStatement::new(&PreparedStatement { statement: 1, parameters, ..PreparedStatement::default() })
}

/// COM_STMT_EXECUTE before its parameters.
const EXECUTE: &[u8] = b"\x17\x01\0\0\0\0\x01\0\0\0";

#[test]
fn parameters_of_all_types() {
    let check = |types: &[u8], values: &[u8], expected: &str| {
        let count = types.len() / 2;
        let nulls = vec![0; count.div_ceil(8)];
        let payload = [EXECUTE, &nulls, &[1], types, values].concat();
        let found = execution(&mut statement(count as u16), &payload, OLD);
        assert_eq!(found, expected);
        for size in 0..payload.len() {
            assert!(statement(count as u16).decode_execution(&payload[..size], OLD).is_err());
        }
    };
    // An example in the MySQL source documentation.
    check(b"\x0f\0", b"\x03foo", "[Bytes([102, 111, 111])]");
    check(
        b"\x01\0\x01\x80\x02\0\x02\x80",
        b"\xff\xff\xfe\xff\xfe\xff",
        "[Int(-1), UInt(255), Int(-2), UInt(65534)]",
    );
    check(b"\x03\0\x09\x80", b"\xfd\xff\xff\xff\xfd\xff\xff\xff", "[Int(-3), UInt(4294967293)]");
    check(b"\x08\0\x08\x80", &[0xff; 16], "[Int(-1), UInt(18446744073709551615)]");
    check(b"\x04\0\x05\0", b"\0\0\x80\x3f\0\0\0\0\0\0\0\x40", "[Float(1.0), Double(2.0)]");
    check(b"\x06\0\xf4\0", b"\x01", "[Null, Int(1)]");
    check(b"\xfc\0\0\0\xf6\0", b"\x01a\x011\x00", "[Bytes([97]), Bytes([49]), Bytes([])]");
    let date = DateTimeValue { year: 2026, month: 11, day: 23, ..DateTimeValue::default() };
    let time = DateTimeValue { hour: 14, minute: 9, second: 18, ..date };
    let exact = DateTimeValue { microsecond: 1, ..time };
    check(
        b"\x0a\0\x0c\0\x07\0\x0c\0",
        b"\x04\xea\x07\x0b\x17\x07\xea\x07\x0b\x17\x0e\x09\x12\x0b\xea\x07\x0b\x17\x0e\x09\x12\x01\0\0\0\0",
        &format!("{:?}", [date, time, exact, DateTimeValue::default()].map(ParameterValue::DateTime)),
    );
    assert_eq!(exact.to_string(), "2026-11-23 14:09:18.000001");
    let span = TimeValue { is_negative: true, days: 1, hours: 2, minutes: 3, seconds: 4, microseconds: 0 };
    check(
        b"\x0b\0\x0b\0\x0b\0",
        b"\x08\x01\x01\0\0\0\x02\x03\x04\0\x0c\x01\x01\0\0\0\x02\x03\x04\x05\0\0\0",
        &format!(
            "{:?}",
            [span, TimeValue::default(), TimeValue { microseconds: 5, ..span }].map(ParameterValue::Time)
        ),
    );
    let payload = [EXECUTE, b"\0\x01\x0e\0a"].concat();
    let unknown = "COM_STMT_EXECUTE: byte 14: type of a parameter is 14, expected a type of MySQL's columns";
    assert_eq!(execution(&mut statement(1), &payload, OLD), unknown);
}

#[test]
fn parameter_types_are_kept_between_executions() {
    let mut statement = statement(2);
    let again = [EXECUTE, b"\x02\0\x07"].concat();
    let unknown = "COM_STMT_EXECUTE: byte 11: flag of the types is 0, expected 1";
    assert_eq!(execution(&mut statement, &again, OLD), unknown);
    let first = [EXECUTE, b"\x02\x01\x01\0\xfe\0\x05"].concat();
    assert_eq!(execution(&mut statement, &first, OLD), "[Int(5), Null]");
    assert_eq!(execution(&mut statement, &again, OLD), "[Int(7), Null]");
    let mut none = ServerStatement::new(&PreparedStatement::default());
    assert_eq!(execution(&mut none, EXECUTE, OLD), "[]");
}

#[test]
fn attributes_follow_the_parameters() {
    let flagged = |flags: u8, rest: &[u8]| [b"\x17\x01\0\0\0", &[flags][..], b"\x01\0\0\0", rest].concat();
    let check = |parameters: u16, payload: &[u8], expected: &str| {
        assert_eq!(execution(&mut statement(parameters), payload, ATTRIBUTES), expected);
    };
    check(1, &flagged(8, b"\x01\0\x01\x01\0\0\x05"), "[Int(5)]");
    check(1, &flagged(8, b"\x02\0\x01\x01\0\0\xfe\0\x02id\x05\x01x"), "[Int(5)]");
    check(0, &flagged(8, b"\x01\0\x01\xfe\0\x02id\x01x"), "[]");
    check(0, &flagged(0, b""), "[]");
    check(0, &flagged(8, b"\0"), "[]");
    let fewer = "COM_STMT_EXECUTE: byte 11: number of parameters is 1, expected 2";
    check(2, &flagged(8, b"\x01\0\x01\x01\0\0\x05"), fewer);
}

#[test]
fn long_data_is_inserted() {
    let mut statement = statement(2);
    statement.append(1, b"ab", 4).unwrap();
    statement.append(1, b"cd", 4).unwrap();
    assert_eq!(statement.append(1, b"e", 4).unwrap_err().code, 1105);
    assert_eq!(statement.append(2, b"", 4).unwrap_err().code, 1210);
    let payload = [EXECUTE, b"\0\x01\x01\0\xfc\0\x05"].concat();
    assert_eq!(execution(&mut statement, &payload, OLD), "[Int(5), Bytes([97, 98, 99, 100])]");
    statement.reset();
    let payload = [EXECUTE, b"\0\0\x05\x01x"].concat();
    assert_eq!(execution(&mut statement, &payload, OLD), "[Int(5), Bytes([120])]");
    statement.append(0, b"abcd", 4).unwrap();
}

/// Passes the server's output to the client.
fn pass(server: &mut PacketCodec, client: &mut PacketCodec) {
    client.receive(server.output());
    let size = server.output().len();
    server.mark_sent(size);
}

fn codecs(compression: Option<PacketCompression>) -> (PacketCodec, PacketCodec) {
    let (mut server, mut client) = (PacketCodec::new(64 << 20), PacketCodec::new(64 << 20));
    if let Some(compression) = compression {
        server.start_compression(compression);
        client.start_compression(compression);
    }
    (server, client)
}

#[test]
fn short_responses() {
    let check = |capabilities, respond: &dyn Fn(&mut ResponseWriter<'_>), expected: &[u8]| {
        let mut packets = PacketCodec::new(0);
        respond(&mut ResponseWriter::new(&mut packets, capabilities));
        assert_eq!(packets.output(), expected);
    };
    let ok = OkPacket { status: ServerStatus::AUTOCOMMIT, ..OkPacket::default() };
    check(OLD, &|response| response.ok(&ok), b"\x07\0\0\0\0\0\0\x02\0\0\0");
    check(
        OLD,
        &|response| response.error(&ServerError::unknown_command()),
        b"\x18\0\0\0\xff\x17\x04#08S01Unknown command",
    );
    check(OLD, &|response| response.eof(EofPacket::default()), b"\x05\0\0\0\xfe\0\0\0\0");
    check(NEW, &|response| response.end_of_log(), b"\x07\0\0\0\xfe\0\0\0\0\0\0");
    check(OLD, &|response| response.statistics(b"Uptime: 5"), b"\x09\0\0\0Uptime: 5");
    let event = EventPacket { acknowledge: AckRequest::Requested, event: b"event" };
    check(OLD, &|response| response.event(&event, SemiSync::Off), b"\x06\0\0\0\0event");
    check(OLD, &|response| response.event(&event, SemiSync::On), b"\x08\0\0\0\0\xef\x01event");
}

#[test]
fn session_changes_are_reported() {
    let changes = [
        SessionChange::Variable { name: b"autocommit", value: b"OFF" },
        SessionChange::Database(b"test"),
        SessionChange::State,
        SessionChange::Gtids(b"a:1"),
    ];
    let state = SessionChange::encode_all(&changes);
    // The first three are examples in the MySQL source documentation.
    assert_eq!(state, b"\0\x0f\x0aautocommit\x03OFF\x01\x05\x04test\x02\x02\x011\x03\x05\0\x03a:1");
    let (mut server, mut client) = codecs(None);
    let status = ServerStatus(ServerStatus::AUTOCOMMIT.0 | ServerStatus::SESSION_STATE_CHANGED.0);
    let ok = OkPacket { status, session_state: &state, ..OkPacket::default() };
    ResponseWriter::new(&mut server, NEW).ok(&ok);
    pass(&mut server, &mut client);
    let payload = client.next().unwrap().unwrap();
    assert_eq!(CommandResponse::decode(payload, NEW).unwrap(), CommandResponse::Ok(ok));
}

#[test]
fn statements_are_prepared() {
    let columns = [ColumnDefinition::text(b"a"), ColumnDefinition::integer(b"b")];
    for capabilities in [OLD, NEW] {
        for (parameters, columns) in
            [(0, &columns[..0]), (2, &columns[..]), (1, &columns[..0]), (0, &columns[..1])]
        {
            let (mut server, mut client) = codecs(None);
            let prepared = ResponseWriter::new(&mut server, capabilities).prepared(7, parameters, columns);
            pass(&mut server, &mut client);
            let mut reader = PrepareReader::new(capabilities);
            let mut found = None;
            while let Some(payload) = client.next().unwrap() {
                assert_eq!(found, None);
                found = reader.read(payload).unwrap();
            }
            assert_eq!(found, Some(prepared));
            assert_eq!((prepared.parameters, usize::from(prepared.columns)), (parameters, columns.len()));
        }
    }
}

const NOW: DateTimeValue =
    DateTimeValue { year: 2026, month: 11, day: 23, hour: 14, minute: 9, second: 18, microsecond: 0 };

#[test]
fn rows_are_text() {
    for capabilities in [OLD, NEW] {
        let (mut server, mut client) = codecs(None);
        let columns = ["a", "b", "c", "d", "e", "f"].map(|name| ColumnDefinition::text(name.as_bytes()));
        let mut response = ResponseWriter::new(&mut server, capabilities);
        let mut rows = response.rows(&columns, RowEncoding::Text);
        rows.values(&[
            ResultValue::Null,
            ResultValue::Int(-1),
            ResultValue::UInt(u64::MAX),
            ResultValue::Double(1.5),
            ResultValue::DateTime(NOW),
            ResultValue::Bytes(b"x"),
        ]);
        rows.end(ServerStatus::AUTOCOMMIT);
        pass(&mut server, &mut client);
        let (mut reader, mut found) = (ResultReader::new(capabilities), Vec::new());
        while let Some(payload) = client.next().unwrap() {
            if let ResultPart::Row(row) = reader.read(payload).unwrap() {
                found =
                    row.map(|value| value.map(|text| String::from_utf8_lossy(text).into_owned())).collect();
            }
        }
        let text =
            ["-1", "18446744073709551615", "1.5", "2026-11-23 14:09:18", "x"].map(|one| Some(one.to_owned()));
        assert!(reader.is_done() && found[0].is_none() && found[1..] == text, "{found:?}");
    }
}

#[test]
fn rows_are_binary() {
    let check = |column_type: u8, value: ResultValue<'_>, expected: &[u8]| {
        let (mut server, mut client) = codecs(None);
        let column = ColumnDefinition { column_type, ..ColumnDefinition::text(b"a") };
        let mut response = ResponseWriter::new(&mut server, NEW);
        let mut rows = response.rows(&[column], RowEncoding::Binary);
        rows.values(&[value]);
        rows.end(ServerStatus::AUTOCOMMIT);
        pass(&mut server, &mut client);
        (0..2).for_each(|_| drop(client.next().unwrap().unwrap().to_vec()));
        assert_eq!(client.next().unwrap().unwrap(), [b"\0", expected].concat());
    };
    // An example in the MySQL source documentation.
    check(column_type::VAR_STRING, ResultValue::Bytes(b"foobar"), b"\0\x06foobar");
    check(column_type::LONGLONG, ResultValue::Null, b"\x04");
    check(column_type::TINY, ResultValue::Int(-1), b"\0\xff");
    check(column_type::SHORT, ResultValue::UInt(0xffff), b"\0\xff\xff");
    check(column_type::LONG, ResultValue::Int(1), b"\0\x01\0\0\0");
    check(column_type::LONGLONG, ResultValue::UInt(u64::MAX), b"\0\xff\xff\xff\xff\xff\xff\xff\xff");
    check(column_type::LONGLONG, ResultValue::Int(i64::MIN), b"\0\0\0\0\0\0\0\0\x80");
    check(column_type::FLOAT, ResultValue::Double(1.0), b"\0\0\0\x80\x3f");
    check(column_type::DOUBLE, ResultValue::Int(2), b"\0\0\0\0\0\0\0\0\x40");
    check(column_type::DATETIME, ResultValue::DateTime(NOW), b"\0\x0b\xea\x07\x0b\x17\x0e\x09\x12\0\0\0\0");
    check(column_type::VAR_STRING, ResultValue::Int(10), b"\0\x0210");
}

#[test]
fn an_error_ends_the_rows() {
    let (mut server, mut client) = codecs(None);
    let columns = [ColumnDefinition::text(b"a")];
    ResponseWriter::new(&mut server, NEW).rows(&columns, RowEncoding::Text).fail(&ServerError::new(
        1317,
        "70100",
        "Query execution was interrupted",
    ));
    pass(&mut server, &mut client);
    let mut reader = ResultReader::new(NEW);
    let mut last = Ok(());
    while let Some(payload) = client.next().unwrap() {
        last = reader.read(payload).map(drop);
    }
    assert!(matches!(last, Err(WireError::Refused(error)) if error.code == 1317));
}

/// Events of all sizes, with every compression. The sequence numbers continue.
#[test]
fn events_of_any_size() {
    let sizes = [0, 100, PIECE_SIZE_MAX - 3, PIECE_SIZE_MAX - 2, PIECE_SIZE_MAX - 1, PIECE_SIZE_MAX, 5];
    for compression in
        [None, Some(PacketCompression::Zlib { level: 1 }), Some(PacketCompression::Zstd { level: 1 })]
    {
        for semi_sync in [SemiSync::Off, SemiSync::On] {
            let (mut server, mut client) = codecs(compression);
            for size in sizes {
                let event = vec![b'e'; size];
                let packet = EventPacket { acknowledge: AckRequest::No, event: &event };
                ResponseWriter::new(&mut server, NEW).event(&packet, semi_sync);
                pass(&mut server, &mut client);
                let payload = client.next().unwrap().unwrap();
                assert!(EventPacket::decode(payload, semi_sync).unwrap() == packet, "{size}");
            }
        }
    }
}

/// Acknowledgements have the number 0. The source's numbers restart only at an event that requests one, as observed
/// on MySQL 9.7.4 and MariaDB 10.11.
#[test]
fn acknowledgements_arrive_between_events() {
    let zstd = Some(PacketCompression::Zstd { level: 3 });
    for (compression, expected) in [(None, [0, 1, 2, 1, 2, 3, 1]), (zstd, [0, 1, 2, 0, 1, 2, 0])] {
        let (mut server, mut client) = codecs(compression);
        server.ignore_sequence();
        client.ignore_sequence();
        let (none, one) = (AckRequest::No, AckRequest::Requested);
        let mut numbers = Vec::new();
        for (position, acknowledge) in [none, none, one, none, none, one, none].into_iter().enumerate() {
            let packet = EventPacket { acknowledge, event: b"event" };
            ResponseWriter::new(&mut server, NEW).event(&packet, SemiSync::On);
            numbers.push(server.output()[3]);
            pass(&mut server, &mut client);
            let payload = client.next().unwrap().unwrap();
            assert_eq!(EventPacket::decode(payload, SemiSync::On).unwrap(), packet);
            if acknowledge == AckRequest::Requested {
                client.begin_command();
                let mut ack = Vec::new();
                SemiSyncAck { position: position as u64, file: b"binlog.000001" }.encode(&mut ack);
                client.send(&ack);
                pass(&mut client, &mut server);
                let payload = server.next().unwrap().unwrap();
                assert_eq!(SemiSyncAck::decode(payload).unwrap().position, position as u64);
            }
        }
        assert_eq!(numbers, expected);
    }
}

proptest! {
    /// The server decodes what the client encodes.
    #[test]
    fn executions_arrive(values in prop::collection::vec(any::<Option<i64>>(), 0..20), text in any::<Vec<u8>>()) {
        let mut parameters: Vec<ParameterValue<'_>> =
            values.iter().map(|value| value.map_or(ParameterValue::Null, ParameterValue::Int)).collect();
        parameters.push(ParameterValue::Bytes(&text));
        let mut statement = statement(parameters.len() as u16);
        let expected = StatementExecution { statement: 1, parameters };
        let mut payload = Vec::new();
        expected.encode(&mut payload);
        prop_assert_eq!(statement.decode_execution(&payload, OLD).unwrap(), expected);
    }

    /// Any bytes are a command or an error.
    #[test]
    fn any_bytes(bytes in any::<Vec<u8>>(), count in 0u16..40) {
        for capabilities in [OLD, ATTRIBUTES] {
            let _ = ClientCommand::decode_with(&bytes, capabilities);
            let payload = [EXECUTE, &bytes].concat();
            let mut statement = statement(count);
            let _ = statement.append(1, &bytes, 100);
            let _ = statement.decode_execution(&payload, capabilities);
        }
    }
}
