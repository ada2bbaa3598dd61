//! Conversations of replicas as scripts; commands, byte for byte.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use std::time::Duration;

use binlog::events::{HeartbeatV2, Rotate, Xid};
use binlog::{
    ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition,
};
use wire::{
    AckRequest, BinlogDump, BinlogDumpGtid, Capabilities, ClientCommand, ClientSession, ColumnDefinition,
    DumpFlags, ErrPacket, EventPacket, OkPacket, PacketCodec, PositionGaps, RegisterReplica,
    ReplicaConversation, ReplicaEnd, ReplicaOptions, ReplicaStart, ReplicaStep, ResultWriter, SemiSync,
    SemiSyncAck, ServerStatus, SourceEvent, StreamReader,
};

const CAPABILITIES: Capabilities = Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0);
const UUID: &str = "0afe4a3e-5a5b-11ef-9f3a-000000000002";

fn session(flavour: Flavour) -> ClientSession {
    ClientSession {
        capabilities: CAPABILITIES,
        server_version: "9.7.4".into(),
        flavour,
        connection_id: 1,
        compression: None,
        plugin: "",
        is_encrypted: false,
    }
}

fn options(start: ReplicaStart) -> ReplicaOptions {
    ReplicaOptions {
        server_id: 2,
        uuid: UUID.into(),
        report_host: "here".into(),
        report_port: 3306,
        heartbeat: Duration::from_millis(1500),
        semi_sync: SemiSync::Off,
        start,
        end: ReplicaEnd::Never,
    }
}

fn start() -> ReplicaStart {
    ReplicaStart::Position { file: b"binlog.000001".to_vec(), position: 4 }
}

/// Response of a source.
#[derive(Clone, Copy)]
enum SourceReply<'a> {
    Ok,
    Value(&'a str),
    Null,
    Refuses(u16),
    Sends(&'a [u8]),
}

use SourceReply::{Null, Ok as Fine, Refuses, Sends, Value};

/// Returns the payloads of a response.
fn payloads(source: SourceReply<'_>) -> Vec<Vec<u8>> {
    let (mut packets, mut out) = (PacketCodec::new(0), Vec::new());
    let value = match source {
        Fine => {
            OkPacket::default().encode(CAPABILITIES, &mut out);
            return vec![out];
        }
        Refuses(code) => {
            ErrPacket { code, state: Some(b"HY000"), message: b"no" }.encode(&mut out);
            return vec![out];
        }
        Sends(payload) => return vec![payload.to_vec()],
        Value(value) => Some(value.as_bytes()),
        Null => None,
    };
    let mut writer = ResultWriter::begin(&mut packets, CAPABILITIES, &[ColumnDefinition::default()]);
    writer.row(&[value]);
    writer.end(ServerStatus::AUTOCOMMIT);
    let (bytes, mut taken) = (packets.output().to_vec(), Vec::new());
    let mut packets = PacketCodec::new(0);
    packets.receive(&bytes);
    while let Some(payload) = packets.next().unwrap() {
        taken.push(payload.to_vec());
    }
    taken
}

fn show_command(payload: &[u8]) -> String {
    let command = ClientCommand::decode(payload).unwrap();
    let mut again = Vec::new();
    command.encode(&mut again).unwrap();
    assert_eq!(again, payload);
    match command {
        ClientCommand::Query { sql } => String::from_utf8_lossy(sql).into_owned(),
        ClientCommand::RegisterReplica(register) => format!("register {}", register.server_id),
        ClientCommand::BinlogDump(dump) => {
            format!("dump {:?} {} {:?}", String::from_utf8_lossy(dump.file), dump.position, dump.flags)
        }
        ClientCommand::BinlogDumpGtid(dump) if !dump.file.is_empty() => {
            let file = String::from_utf8_lossy(dump.file);
            format!("dump {file:?} {} behind {:?}", dump.position, dump.gtids)
        }
        ClientCommand::BinlogDumpGtid(dump) => format!("dump behind {:?} {:?}", dump.gtids, dump.flags),
        other => format!("{other:?}"),
    }
}

fn show(step: &ReplicaStep<'_>) -> Option<String> {
    match step {
        ReplicaStep::Send(command) => Some(show_command(command)),
        ReplicaStep::Wait => None,
        ReplicaStep::Event(packet) => Some(format!("event {:?} {:?}", packet.event, packet.acknowledge)),
        ReplicaStep::End => Some("end".into()),
    }
}

/// Runs the script; the replica's first action comes before it.
fn check(options: ReplicaOptions, flavour: Flavour, script: &[(SourceReply<'_>, &str)]) {
    let (mut conversation, first) = ReplicaConversation::begin(options, session(flavour)).unwrap();
    assert_eq!(show_command(&first), "SELECT UNIX_TIMESTAMP()");
    for (source, expected) in script {
        let mut done = Vec::new();
        for payload in payloads(*source) {
            match conversation.read(&payload) {
                Ok(step) => done.extend(show(&step)),
                Err(error) => done.push(format!("error: {error}")),
            }
        }
        assert_eq!(done, [*expected]);
    }
}

const HEARTBEAT: &str = "SET @master_heartbeat_period = 1500000000, @source_heartbeat_period = 1500000000";
const CHECKSUM: &str = "SET @master_binlog_checksum = @@global.binlog_checksum, \
    @source_binlog_checksum = @@global.binlog_checksum";
const OWN_UUID: &str = "SET @slave_uuid = '0afe4a3e-5a5b-11ef-9f3a-000000000002', \
    @replica_uuid = '0afe4a3e-5a5b-11ef-9f3a-000000000002'";
const OTHER_UUID: &str = "0afe4a3e-5a5b-11ef-9f3a-000000000001";

#[test]
fn mysql_sources() {
    check(
        options(start()),
        Flavour::MySql,
        &[
            (Value("1790000000"), "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), HEARTBEAT),
            (Fine, CHECKSUM),
            (Fine, "SELECT @source_binlog_checksum"),
            (Value("CRC32"), "SELECT @@GLOBAL.GTID_MODE"),
            (Value("ON"), "SELECT @@GLOBAL.SERVER_UUID"),
            (Value(OTHER_UUID), OWN_UUID),
            (Fine, "register 2"),
            (Fine, "dump \"binlog.000001\" 4 DumpFlags(2)"),
            (Sends(b"\0abc"), "event [97, 98, 99] No"),
            (Sends(b"\xfe\0\0\x02\0"), "end"),
        ],
    );
}

#[test]
fn sources_send_events_until_the_end() {
    let options = ReplicaOptions { heartbeat: Duration::ZERO, uuid: String::new(), ..options(start()) };
    let script = |packet: &'static [u8], expected: &'static str| {
        [
            (Null, "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), CHECKSUM),
            (Fine, "SELECT @source_binlog_checksum"),
            (Value("NONE"), "SELECT @@GLOBAL.GTID_MODE"),
            (Value("OFF"), "SELECT @@GLOBAL.SERVER_UUID"),
            (Value(OTHER_UUID), "register 2"),
            (Fine, "dump \"binlog.000001\" 4 DumpFlags(2)"),
            (Sends(packet), expected),
        ]
    };
    check(
        options.clone(),
        Flavour::MySql,
        &script(
            b"\x05",
            "error: unexpected packet: expected an event or the end of the log, got one that starts with 0x05",
        ),
    );
    check(
        options,
        Flavour::MySql,
        &script(b"\xff\xd4\x04#HY000no log", "error: no log (error 1236, SQL state HY000)"),
    );
}

/// Beyond 4 GiB, only the GTID command has room for the position, and positions in headers have wrapped around.
#[test]
fn logs_beyond_4_gib() {
    let position = (4 << 30) + 1000;
    let options = ReplicaOptions {
        heartbeat: Duration::ZERO,
        uuid: String::new(),
        ..options(ReplicaStart::Position { file: b"binlog.000001".to_vec(), position })
    };
    check(
        options.clone(),
        Flavour::MySql,
        &[
            (Null, "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), CHECKSUM),
            (Fine, "SELECT @source_binlog_checksum"),
            (Value("CRC32"), "SELECT @@GLOBAL.GTID_MODE"),
            (Value("ON"), "SELECT @@GLOBAL.SERVER_UUID"),
            (Value(OTHER_UUID), "register 2"),
            (Fine, "dump \"binlog.000001\" 4294968296 behind [0, 0, 0, 0, 0, 0, 0, 0]"),
        ],
    );
    let refused = ReplicaConversation::begin(options, session(Flavour::MariaDb)).map(drop);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "unsupported start for a MariaDB source: use a position below 4 GiB, or a GTID position"
    );
    arrive(
        PositionGaps::None,
        &[
            (fake_rotate(b"b.000001", position), "b.000001 4294968296"),
            (xid(1031), "Xid at 4294968296"),
            (xid(1062), "Xid at 4294968327"),
            (heartbeat(b"b.000001", position + 62), "heartbeat 4294968358"),
            (
                xid(1100),
                "error: b.000001, position 4294968358: the event ends at 4294968396, expected \
                 4294968389: events are missing or repeated",
            ),
        ],
    );
}

/// Sources before version 5.6 have neither checksums nor GTIDs.
#[test]
fn old_sources() {
    let start = ReplicaStart::Gtids { set: vec![0; 8] };
    let options = ReplicaOptions {
        heartbeat: Duration::ZERO,
        uuid: String::new(),
        end: ReplicaEnd::LastEvent,
        ..options(start)
    };
    check(
        options,
        Flavour::MySql,
        &[
            (Refuses(1064), "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), CHECKSUM),
            (Refuses(1193), "SELECT @source_binlog_checksum"),
            (Null, "SELECT @@GLOBAL.GTID_MODE"),
            (Refuses(1193), "SELECT @@GLOBAL.SERVER_UUID"),
            (Refuses(1193), "register 2"),
            (Fine, "dump behind [0, 0, 0, 0, 0, 0, 0, 0] DumpFlags(3)"),
            (Refuses(1236), "error: no (error 1236, SQL state HY000)"),
        ],
    );
}

#[test]
fn semi_synchronous_sources() {
    let options = ReplicaOptions {
        semi_sync: SemiSync::On,
        heartbeat: Duration::ZERO,
        uuid: String::new(),
        ..options(start())
    };
    check(
        options.clone(),
        Flavour::MySql,
        &[
            (Null, "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), CHECKSUM),
            (Fine, "SELECT @source_binlog_checksum"),
            (Value("NONE"), "SELECT @@GLOBAL.GTID_MODE"),
            (Value("OFF"), "SELECT @@GLOBAL.SERVER_UUID"),
            (Value(OTHER_UUID), "SELECT @@global.rpl_semi_sync_source_enabled"),
            (Refuses(1193), "SELECT @@global.rpl_semi_sync_master_enabled"),
            (Value("1"), "SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1"),
            (Fine, "register 2"),
            (Fine, "dump \"binlog.000001\" 4 DumpFlags(2)"),
            (Sends(b"\0\xef\x01abc"), "event [97, 98, 99] Requested"),
            (Sends(b"\0\xef\0a"), "event [97] No"),
            (
                Sends(b"\0abc"),
                "error: event packet: byte 1: mark of semi-synchronous replication is 97, expected 239",
            ),
        ],
    );
    let query = "SELECT @@global.rpl_semi_sync_source_enabled";
    check(
        options,
        Flavour::MySql,
        &[
            (Null, "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), CHECKSUM),
            (Fine, "SELECT @source_binlog_checksum"),
            (Value("NONE"), "SELECT @@GLOBAL.GTID_MODE"),
            (Value("OFF"), "SELECT @@GLOBAL.SERVER_UUID"),
            (Value(OTHER_UUID), query),
            (Value("0"), "SELECT @@global.rpl_semi_sync_master_enabled"),
            (Refuses(1193), "register 2"),
        ],
    );
}

#[test]
fn mariadb_sources() {
    check(
        options(ReplicaStart::MariadbGtids { state: "0-1-7,1-2-3".into() }),
        Flavour::MariaDb,
        &[
            (Value("1790000000"), "SELECT @@GLOBAL.SERVER_ID"),
            (Value("1"), "SET @master_heartbeat_period = 1500000000"),
            (Fine, "SET @master_binlog_checksum = @@global.binlog_checksum"),
            (Fine, "SELECT @master_binlog_checksum"),
            (Value("CRC32"), "SET @mariadb_slave_capability = 4"),
            (Fine, "SET @slave_connect_state = '0-1-7,1-2-3'"),
            (Fine, "SET @slave_gtid_strict_mode = 1"),
            (Fine, "SET @slave_gtid_ignore_duplicates = 0"),
            (Fine, "register 2"),
            (Fine, "dump \"\" 4 DumpFlags(2)"),
            (Sends(b"\0a"), "event [97] No"),
        ],
    );
}

#[test]
fn unusable_sources_are_refused() {
    let asks = "SELECT @@GLOBAL.SERVER_ID";
    let same = "error: source and replica have the same server_id, 2: use another one for this replica";
    check(options(start()), Flavour::MySql, &[(Null, asks), (Value("2"), same)]);
    let no_number = "error: the source's SERVER_ID is NULL, expected a number";
    check(options(start()), Flavour::MySql, &[(Null, asks), (Null, no_number)]);
    let start = ReplicaStart::Gtids { set: Vec::new() };
    let error = ReplicaConversation::begin(options(start), session(Flavour::MariaDb)).map(drop).unwrap_err();
    let expected = "unsupported start for a MariaDB source: use a GTID position such as 0-1-270";
    assert_eq!(error.to_string(), expected);
    let start = ReplicaStart::MariadbGtids { state: String::new() };
    let error = ReplicaConversation::begin(options(start), session(Flavour::MySql)).map(drop).unwrap_err();
    let expected = "unsupported start for a MySQL source: use a GTID set such as \
        5ea5ca5e-0001-4000-8000-000000000001:1-4711";
    assert_eq!(error.to_string(), expected);
}

fn check_command(bytes: &[u8], expected: ClientCommand<'_>) {
    assert_eq!(ClientCommand::decode(bytes).unwrap(), expected);
    let mut out = Vec::new();
    expected.encode(&mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn commands() {
    check_command(b"\x01", ClientCommand::Quit);
    check_command(b"\x0e", ClientCommand::Ping);
    check_command(b"\x03select 1", ClientCommand::Query { sql: b"select 1" });
    check_command(b"\x11abc", ClientCommand::Other { code: 0x11, rest: b"abc" });
    check_command(
        b"\x15\x02\0\0\0\x04here\x01u\0\xea\x0c\0\0\0\0\0\0\0\0",
        ClientCommand::RegisterReplica(RegisterReplica {
            server_id: 2,
            host: b"here",
            user: b"u",
            password: b"",
            port: 3306,
        }),
    );
    check_command(
        b"\x12\x04\0\0\0\x02\0\x07\0\0\0binlog.000001",
        ClientCommand::BinlogDump(BinlogDump {
            position: 4,
            flags: DumpFlags::HEARTBEAT_V2,
            server_id: 7,
            file: b"binlog.000001",
        }),
    );
    check_command(
        b"\x1e\x03\0\x07\0\0\0\x01\0\0\0f\x04\0\0\0\0\0\0\0\x02\0\0\0gg",
        ClientCommand::BinlogDumpGtid(BinlogDumpGtid {
            flags: DumpFlags(3),
            server_id: 7,
            file: b"f",
            position: 4,
            gtids: b"gg",
        }),
    );
    for bytes in [&b""[..], b"\x15\x02", b"\x12\x04\0", b"\x1e\0\0\0\0\0\0\xff\xff\xff\xff", b"\x0e\0"] {
        assert!(ClientCommand::decode(bytes).is_err(), "{bytes:?}");
    }
    let host = [b'x'; 256];
    let long = ClientCommand::RegisterReplica(RegisterReplica { host: &host, ..RegisterReplica::default() });
    let error = long.encode(&mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "host has 256 bytes, must have at most 255");
}

#[test]
fn acknowledgements() {
    let ack = SemiSyncAck { position: 0x1_0000_0007, file: b"binlog.000001" };
    let mut out = Vec::new();
    ack.encode(&mut out);
    assert_eq!(out, b"\xef\x07\0\0\0\x01\0\0\0binlog.000001");
    assert_eq!(SemiSyncAck::decode(&out).unwrap(), ack);
    let packet = EventPacket { acknowledge: AckRequest::Requested, event: b"e" };
    for semi_sync in [SemiSync::On, SemiSync::Off] {
        let mut out = Vec::new();
        packet.encode(semi_sync, &mut out);
        let again = EventPacket::decode(&out, semi_sync).unwrap();
        assert_eq!(again.event, b"e");
        assert_eq!(again.acknowledge == AckRequest::Requested, semi_sync == SemiSync::On);
    }
    let error = EventPacket::decode(b"\x01", SemiSync::Off).unwrap_err();
    assert_eq!(error.to_string(), "event packet: byte 0: first byte is 1, expected 0");
    let long = [&b"\xef\0\0\0\0\0\0\0\0"[..], &[b'x'; 512]].concat();
    let error = SemiSyncAck::decode(&long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "acknowledgement: byte 9: size of the file's name is 512, expected at most 511"
    );
}

/// Returns an event that ends at `next`, for a file without a format description.
fn event(event: &Event<'_>, flags: EventFlags, next: u32, checksum: ChecksumAlgorithm) -> Vec<u8> {
    let format = EventFormat {
        server_version: b"9.7.4".to_vec(),
        post_header_sizes: vec![0; 42],
        checksum,
        flavour: Flavour::MySql,
    };
    let mut out = Vec::new();
    let origin = EventOrigin { flags, ..EventOrigin::default() };
    event.write(origin, NextPosition::Fixed(next), &format, &mut out).unwrap();
    out
}

fn crc(this: &Event<'_>, flags: EventFlags, next: u32) -> Vec<u8> {
    event(this, flags, next, ChecksumAlgorithm::Crc32)
}

fn fake_rotate(file: &[u8], position: u64) -> Vec<u8> {
    crc(&Event::Rotate(Rotate { position, file }), EventFlags::ARTIFICIAL, 0)
}

fn xid(next: u32) -> Vec<u8> {
    crc(&Event::Xid(Xid { xid: 7 }), EventFlags::default(), next)
}

fn heartbeat(file: &[u8], position: u64) -> Vec<u8> {
    let fields = HeartbeatV2::encode_fields(file, position);
    crc(&Event::HeartbeatV2(HeartbeatV2 { fields: &fields, file, position }), EventFlags::default(), 0)
}

fn arrive(gaps: PositionGaps, script: &[(Vec<u8>, &str)]) {
    let mut reader = StreamReader::new(ChecksumAlgorithm::Crc32, gaps);
    for (bytes, expected) in script {
        let found = match reader.read(bytes) {
            Ok(SourceEvent::File { file, position }) => {
                format!("{} {position}", String::from_utf8_lossy(file))
            }
            Ok(SourceEvent::Format { origin, .. }) => format!("format {origin:?}"),
            Ok(SourceEvent::Heartbeat { position }) => format!("heartbeat {position}"),
            Ok(SourceEvent::Artificial(event)) => format!("artificial {:?}", event.event_type()),
            Ok(SourceEvent::Event { event, position }) => {
                assert_eq!(event.checksum(), EventChecksum::Crc32);
                format!("{:?} at {position}", event.event_type())
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(found, *expected);
    }
}

/// An Xid event with its checksum has 31 bytes.
#[test]
fn events_of_files_and_others() {
    arrive(
        PositionGaps::None,
        &[
            (fake_rotate(b"b.1", 100), "b.1 100"),
            (xid(131), "Xid at 100"),
            (heartbeat(b"b.1", 131), "heartbeat 131"),
            (
                crc(&Event::Rotate(Rotate { position: 4, file: b"b.2" }), EventFlags::default(), 165),
                "Rotate at 131",
            ),
            (fake_rotate(b"b.2", 4), "b.2 4"),
            (xid(35), "Xid at 4"),
            (
                xid(97),
                "error: b.2, position 35: the event ends at 97, expected 66: \
                 events are missing or repeated",
            ),
            (
                heartbeat(b"b.3", 35),
                "error: a heartbeat names b.3, position 35; expected b.2, position 35: \
                 the source has skipped events, or its log is a different one",
            ),
        ],
    );
    let mut damaged = xid(131);
    damaged[20] ^= 1;
    let mut reader = StreamReader::new(ChecksumAlgorithm::Crc32, PositionGaps::None);
    reader.read(&fake_rotate(b"b.1", 100)).unwrap();
    let found = reader.read(&damaged).unwrap_err().to_string();
    let expected = "b.1, position 100: byte 27: checksum is 0x3603efaf, expected 0x9074e41b";
    assert_eq!(found, expected);
}

#[test]
fn transactions_that_the_replica_has_are_skipped() {
    arrive(
        PositionGaps::Skipped,
        &[
            (fake_rotate(b"b.1", 4), "b.1 4"),
            (xid(135), "Xid at 104"),
            (heartbeat(b"b.1", 1000), "heartbeat 1000"),
            (xid(1031), "Xid at 1000"),
            (
                xid(131),
                "error: b.1, position 1031: the event ends at 131, expected 1062: \
                 events are missing or repeated",
            ),
        ],
    );
}

#[test]
fn heartbeats_with_other_positions() {
    for (file, position) in [(b"b.2", 100), (b"b.1", 99)] {
        let expected = format!(
            "error: a heartbeat names {}, position {position}; expected b.1, position 100: \
             the source has skipped events, or its log is a different one",
            String::from_utf8_lossy(file)
        );
        arrive(
            PositionGaps::None,
            &[(fake_rotate(b"b.1", 100), "b.1 100"), (heartbeat(file, position), &expected)],
        );
    }
}

/// Headers count positions modulo 2^32.
#[test]
fn files_beyond_four_gibibytes() {
    let position = 0xffff_fff0;
    let next = (position as u32).wrapping_add(31);
    for gaps in [PositionGaps::None, PositionGaps::Skipped] {
        arrive(
            gaps,
            &[
                (fake_rotate(b"b.1", position), "b.1 4294967280"),
                (xid(next), "Xid at 4294967280"),
                (heartbeat(b"b.1", position + 31), "heartbeat 4294967311"),
                (xid(next + 31), "Xid at 4294967311"),
            ],
        );
    }
}
