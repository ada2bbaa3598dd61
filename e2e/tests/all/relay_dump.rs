//! Dumps of a server's own logs by the server and by the relay: the same events, and the same errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use binlog::gtid::GtidSet;
use e2e::relayed::{RelayProcess, relay_address};
use relay::{
    AheadPolicy, AnnotationPolicy, DumpEndPolicy, DumpError, DumpMode, DumpOptions, DumpRequest, DumpStep,
    DumpStream, FormSource, FormSourceOptions, GtidHoles, GtidsAhead, HeartbeatVersion, LogForm,
    MariadbRequest, MariadbState, RelayStore, RunPolicy, ServedChecksum, SourceGtids, StateReader,
    find_start,
};
use servers::{LinkOptions, ServerAddress, ServerLink, SqlConnection};
use testkit::{Launch, TestPackage, TestServer, wait_until};
use wire::{BinlogDump, BinlogDumpGtid, ClientCommand, DumpFlags, EofPacket, ErrPacket};

/// Result of a dump: the events, and the final error.
#[derive(Debug, Default, PartialEq, Eq)]
struct DumpResult {
    events: Vec<Vec<u8>>,
    /// Error number and message, without the positions that a server appends.
    error: Option<(u16, String)>,
}

fn without_positions(code: u16, message: &str) -> (u16, String) {
    (code, message.split("; the first event").next().unwrap_or_default().to_owned())
}

fn link(server: &TestServer) -> Result<ServerLink> {
    let address = ServerAddress {
        user: "root".to_owned(),
        socket: Some(server.socket().to_path_buf()),
        ..relay_address(server.port())
    };
    Ok(ServerLink::open(&address, &LinkOptions::default())?)
}

fn from_server(server: &TestServer, command: &ClientCommand<'_>) -> Result<DumpResult> {
    from_server_after(server, &[], command)
}

/// Runs these statements, then sends a command.
fn from_server_after(
    server: &TestServer,
    statements: &[String],
    command: &ClientCommand<'_>,
) -> Result<DumpResult> {
    let mut link = link(server)?;
    for statement in statements {
        link.query(statement)?;
    }
    read_dump(link, command)
}

/// Sends a command, and reads the dump to its end.
fn read_dump(mut link: ServerLink, command: &ClientCommand<'_>) -> Result<DumpResult> {
    link.query("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")?;
    let capabilities = link.session().capabilities;
    link.send(command)?;
    let mut result = DumpResult::default();
    loop {
        let packet = link.next()?;
        match packet.first() {
            Some(0) => result.events.push(packet[1..].to_vec()),
            Some(0xff) => {
                let error = ErrPacket::decode(packet)?.to_error();
                result.error = Some(without_positions(error.code, &error.message));
                return Ok(result);
            }
            _ => {
                EofPacket::decode(packet, capabilities)?;
                return Ok(result);
            }
        }
    }
}

fn from_relay(source: &Arc<FormSource>, request: &DumpRequest, gtids: SourceGtids<'_>) -> DumpResult {
    let is_mariadb = matches!(request.mode, DumpMode::MariadbGtids(_));
    let has_v2 = !is_mariadb && request.flags.contains(DumpFlags::HEARTBEAT_V2);
    let options = DumpOptions {
        server_id: 1,
        checksum: ServedChecksum::Crc32,
        heartbeat_period: None,
        heartbeat_version: if has_v2 { HeartbeatVersion::V2 } else { HeartbeatVersion::V1 },
        end: DumpEndPolicy::Eof,
        annotations: match request.flags.contains(DumpFlags::SEND_ANNOTATE_ROWS) {
            false if is_mariadb => AnnotationPolicy::Omit,
            _ => AnnotationPolicy::Send,
        },
        statement_end_for: None,
        event_size_max: 1 << 30,
        runs: RunPolicy::Single,
    };
    let now = Instant::now();
    let mut result = DumpResult::default();
    let mut pieces = Vec::new();
    let mut run = || {
        let start = find_start(source, request, options.checksum, gtids, AheadPolicy::Refuse)?;
        let mut stream = DumpStream::new(Arc::clone(source), &start, request.mode.clone(), options, now);
        while stream.next(now, &mut pieces)? == DumpStep::More {}
        Ok(())
    };
    let ended: Result<(), relay::DumpError> = run();
    result.events = pieces.iter().map(|piece| piece.bytes.as_slice().to_vec()).collect();
    result.error = ended.err().map(|error| {
        let error = error.to_server_error();
        without_positions(error.code, &error.message)
    });
    result
}

/// Starts a server with several logs, with and without compressed transactions.
fn source() -> Result<TestServer> {
    let server = Launch::mysql()
        .option("--server-id=1")
        .option("--gtid-mode=ON")
        .option("--enforce-gtid-consistency=ON")
        .start()?;
    server.sql(
        "create database d; create table d.t (id int primary key auto_increment, s text);
         insert into d.t (s) values ('one'), (repeat('two', 100)); flush binary logs;
         set binlog_transaction_compression = on; insert into d.t (s) values (repeat('three', 1000));
         update d.t set s = 'all'; set binlog_transaction_compression = off; delete from d.t where id = 1;
         flush binary logs; insert into d.t (s) select s from d.t; begin; insert into d.t (s) values ('x');
         insert into d.t (s) values ('y'); commit; create table d.u (id int); drop table d.u;
         set gtid_next = 'automatic:tagged'; insert into d.t (s) values ('tagged'); insert into d.t (s) values ('two');
         set gtid_next = 'automatic'",
    )?;
    Ok(server)
}

fn relay_of(server: &TestServer, directory: &tempfile::TempDir) -> Result<Arc<FormSource>> {
    let logs = server.binlogs()?;
    let index = logs.first().context("the server has no logs")?.with_extension("index");
    let store = Arc::new(RelayStore::open(index, None)?);
    let thread_cpu_time = || Duration::ZERO;
    let options =
        FormSourceOptions { directory: directory.path().to_owned(), cache_bytes: 1 << 20, thread_cpu_time };
    Ok(Arc::new(FormSource::new(store, LogForm::AsIs, options)))
}

fn name_of(log: &std::path::Path) -> Vec<u8> {
    log.file_name().unwrap_or_default().as_encoded_bytes().to_vec()
}

/// Returns positions of a log's events, and some invalid ones.
fn positions(log: &std::path::Path) -> Result<Vec<u32>> {
    let bytes = std::fs::read(log)?;
    let (mut at, mut positions) = (4, vec![0, 3, bytes.len() as u32, bytes.len() as u32 + 1]);
    while let Some(size) = bytes.get(at + 9..at + 13) {
        positions.push(at as u32);
        at += u32::from_le_bytes(size.try_into()?) as usize;
    }
    Ok(positions)
}

#[test]
fn dumps_by_position_equal_the_servers() -> Result<()> {
    let (server, directory) = (source()?, tempfile::tempdir()?);
    let relay = relay_of(&server, &directory)?;
    let mut requests = vec![(Vec::new(), 4), (b"nowhere.000001".to_vec(), 4)];
    for log in server.binlogs()? {
        requests.extend(positions(&log)?.into_iter().map(|position| (name_of(&log), position)));
    }
    ensure!(requests.len() > 30, "{} requests", requests.len());
    for (file, position) in requests {
        for flags in [DumpFlags::NON_BLOCK, DumpFlags(0x03)] {
            let dump = BinlogDump { position, flags, server_id: 9, file: &file };
            let expected = from_server(&server, &ClientCommand::BinlogDump(dump))?;
            let found = from_relay(&relay, &DumpRequest::from_position(&dump), SourceGtids::default());
            compare(&found, &expected).with_context(|| format!("{dump:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn dumps_by_gtid_equal_the_servers() -> Result<()> {
    let (server, directory) = (source()?, tempfile::tempdir()?);
    let relay = relay_of(&server, &directory)?;
    let uuid = server.sql("select @@server_uuid")?.trim().to_owned();
    let executed = server.sql("select @@gtid_executed")?.replace('\n', "");
    let executed: GtidSet = executed.trim().parse()?;
    let gtids = SourceGtids { server_uuid: uuid.parse().ok(), executed: Some(&executed), mariadb: None };
    let ranges = ["1", "1-2", "1-3", "1-4", "1-5", "1:3:5", "2-3", "3-6", "1-7:9", "2:4:6:8", "1-9", "1-100"];
    let mut sets: Vec<String> = ranges.iter().map(|range| format!("{uuid}:{range}")).collect();
    sets.extend(["tagged:1", "1-100:tagged:1", "1-3:tagged:2"].map(|tags| format!("{uuid}:{tags}")));
    sets.extend([String::new(), executed.to_string(), "5ea5ca5e-0001-4000-8000-000000000009:1-5".to_owned()]);
    let compare_all = || {
        for text in &sets {
            let set: GtidSet = text.parse()?;
            let mut encoded = Vec::new();
            set.encode(set.format(), &mut encoded);
            for flags in [DumpFlags::NON_BLOCK, DumpFlags(0x03)] {
                let (file, position, gtids_sent) = (&[][..], 4, encoded.as_slice());
                let dump = BinlogDumpGtid { flags, server_id: 9, file, position, gtids: gtids_sent };
                let expected = from_server(&server, &ClientCommand::BinlogDumpGtid(dump))?;
                let found = from_relay(&relay, &DumpRequest::from_gtids(&dump)?, gtids);
                compare(&found, &expected).with_context(|| format!("{text:?} {flags:?}"))?;
            }
        }
        Ok(())
    };
    compare_all()?;
    let second = server.binlogs()?.get(1).map(|log| name_of(log)).context("the server has no logs")?;
    server.sql(&format!("purge binary logs to '{}'", String::from_utf8(second)?))?;
    compare_all()
}

/// A client by GTID has more transactions of the source than the relay: as on a server, an error. A relay that receives
/// waits for them, except with clients that read only to the end.
#[test]
fn clients_with_more_gtids_than_the_source_are_refused() -> Result<()> {
    let server = source()?;
    let uuid = server.sql("select @@server_uuid")?.trim().to_owned();
    let directory = tempfile::tempdir()?;
    let from = format!("--from=mysql://root@127.0.0.1:{}/", server.port());
    let serving = RelayProcess::of(&server, &[])?;
    let receiving = RelayProcess::start(directory.path(), &[&from])?;
    let executed = "SELECT @@GLOBAL.gtid_executed";
    let all = server.sql(executed)?.replace(['\n', ' '], "");
    wait_until("all transactions", || {
        let mut connection = SqlConnection::open(&relay_address(receiving.port))?;
        Ok(connection.value(executed)?.map(|gtids| gtids.replace(['\n', ' '], "")) == Some(all.clone()))
    })?;
    let other = "5ea5ca5e-0001-4000-8000-000000000009:1-5";
    for (set, is_more) in [(format!("{uuid}:1-100"), true), (format!("{all},{other}"), false)] {
        let gtids: GtidSet = set.parse()?;
        let mut encoded = Vec::new();
        gtids.encode(gtids.format(), &mut encoded);
        let dump = |flags| {
            let (file, position, gtids) = (&[][..], 4, encoded.as_slice());
            ClientCommand::BinlogDumpGtid(BinlogDumpGtid { flags, server_id: 9, file, position, gtids })
        };
        let expected = from_server(&server, &dump(DumpFlags::NON_BLOCK))?.error;
        ensure!(expected.is_some() == is_more, "{set}: {expected:?}");
        for relay in [&serving, &receiving] {
            let link = ServerLink::open(&relay_address(relay.port), &LinkOptions::default())?;
            let found = read_dump(link, &dump(DumpFlags::NON_BLOCK))?.error;
            ensure!(found == expected, "{set}: {found:?}; the server's {expected:?}");
        }
        if is_more {
            let link = ServerLink::open(&relay_address(serving.port), &LinkOptions::default())?;
            let found = read_dump(link, &dump(DumpFlags::default()))?.error;
            ensure!(found == expected, "{set}: {found:?}; the server's {expected:?}");
        }
        let mut waiting = ServerLink::open(&relay_address(receiving.port), &LinkOptions::default())?;
        waiting.query("SET @source_binlog_checksum = 'CRC32'")?;
        waiting.send(&dump(DumpFlags::default()))?;
        ensure!(waiting.next()?.first() == Some(&0), "{set}: the relay that receives does not wait");
    }
    Ok(())
}

fn compare(found: &DumpResult, expected: &DumpResult) -> Result<()> {
    for (index, (found, expected)) in found.events.iter().zip(&expected.events).enumerate() {
        ensure!(found == expected, "event {index} is {found:02x?}; the server's is {expected:02x?}");
    }
    ensure!(
        found.events.len() == expected.events.len() && found.error == expected.error,
        "{} events and {:?}; the server sends {} and {:?}",
        found.events.len(),
        found.error,
        expected.events.len(),
        expected.error
    );
    Ok(())
}

/// The relay refuses damaged logs with a successor as the server does.
#[test]
fn dumps_of_damaged_logs_equal_the_servers() -> Result<()> {
    let (server, directory) = (source()?, tempfile::tempdir()?);
    let logs = server.binlogs()?;
    let (second, third) = (logs.get(1).context("no second log")?, logs.get(2).context("no third log")?);
    let (whole, next) = (std::fs::read(second)?, std::fs::read(third)?);
    let mut damaged: Vec<Vec<u8>> = [0, 2, 4, 10, 60, 120].map(|size| whole[..size].to_vec()).into();
    damaged.push([whole.as_slice(), &next].concat());
    let mut differences = Vec::new();
    for bytes in damaged {
        std::fs::write(second, &bytes)?;
        for log in &logs[..2] {
            let (relay, file) = (relay_of(&server, &directory)?, name_of(log));
            let dump = BinlogDump { position: 4, flags: DumpFlags::NON_BLOCK, server_id: 9, file: &file };
            let expected = from_server(&server, &ClientCommand::BinlogDump(dump))?;
            let found = from_relay(&relay, &DumpRequest::from_position(&dump), SourceGtids::default());
            let compared = compare(&found, &expected);
            differences
                .extend(compared.err().map(|error| format!("{} bytes of {dump:?}: {error}", bytes.len())));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// Starts a MariaDB with transactions of several domains and servers, and with a gap.
fn mariadb_source(package: TestPackage) -> Result<TestServer> {
    let server = Launch::of(package).options(["--server-id=1", "--log-bin=binlog"]).start()?;
    server.sql(
        "create database d; create table d.t (id int primary key) engine=innodb; insert into d.t values (1);
         flush binary logs; set gtid_domain_id = 3; insert into d.t values (2), (3); insert into d.t values (4);
         set gtid_domain_id = 0; set server_id = 2; insert into d.t values (5); set server_id = 1;
         insert into d.t values (6); flush binary logs; set gtid_seq_no = 20; insert into d.t values (7);
         set server_id = 2; begin; insert into d.t values (8); insert into d.t values (9); commit;
         set server_id = 1; flush binary logs; set gtid_domain_id = 3; insert into d.t values (10);
         set gtid_domain_id = 0; create table d.u (id int); insert into d.t values (11)",
    )?;
    Ok(server)
}

/// Returns requests of MariaDB replicas: positions, with and without an end, strict and not strict.
fn mariadb_requests() -> Vec<[&'static str; 4]> {
    let positions = [
        "",
        "0-1-1",
        "0-1-2",
        "0-1-3",
        "0-1-3,3-1-1",
        "0-1-3,3-1-2",
        "0-2-4,3-1-2",
        "0-1-5,3-1-1",
        "0-1-5,3-1-2",
        "0-1-7,3-1-2",
        "0-1-20,3-1-2",
        "0-2-21,3-1-3",
        "0-1-23,3-1-3",
        "0-1-99",
        "0-2-5",
        "0-9-1",
        "0-9-99",
        "7-1-5",
        "0-1-5,3-1-2,7-1-5",
        "0-1-5,3-1-9",
        "0-1",
        "x",
    ];
    let mut requests = Vec::new();
    for position in positions {
        for (strict, duplicates) in [("0", "0"), ("1", "0"), ("0", "1")] {
            requests.push([position, strict, duplicates, "-"]);
        }
        for until in ["", "0-1-3", "0-1-20", "0-1-10", "0-1-3,3-1-2", "0-1-22,3-1-3", "0-1-99", "0-"] {
            requests.push([position, "0", "0", until]);
        }
    }
    requests
}

/// Part of the dumps that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedEvents {
    All,
    /// GTID events only: since 11.4, a server has GTID indexes, and skips more events before the start.
    Gtids,
}

impl ComparedEvents {
    fn reduce(self, dump: &mut DumpResult) {
        match self {
            Self::All => sort_lists(dump),
            Self::Gtids => dump.events.retain(|event| event[4] == 162),
        }
    }
}

fn mariadb_dumps_are_those_of_the_server(package: TestPackage, compared: ComparedEvents) -> Result<()> {
    let (server, directory) = (mariadb_source(package)?, tempfile::tempdir()?);
    let compare_all = || {
        let relay = relay_of(&server, &directory)?;
        let mut stored = StateReader::<MariadbState>::default();
        let state = stored.read(&relay)?.clone();
        let mut differences = Vec::new();
        for [position, strict, duplicates, until] in mariadb_requests() {
            let mut statements = vec![
                "SET @mariadb_slave_capability = 4".to_owned(),
                format!("SET @slave_connect_state = '{position}'"),
                format!(
                    "SET @slave_gtid_strict_mode = {strict}, @slave_gtid_ignore_duplicates = {duplicates}"
                ),
            ];
            if until != "-" {
                statements.push(format!("SET @slave_until_gtid = '{until}'"));
            }
            for flags in [DumpFlags::NON_BLOCK, DumpFlags(0x03)] {
                let dump = BinlogDump { position: 4, flags, server_id: 9, file: b"" };
                let mut expected = from_server_after(&server, &statements, &ClientCommand::BinlogDump(dump))?;
                let mut found = mariadb_dump(&relay, &dump, [position, strict, duplicates, until], &state);
                [&mut expected, &mut found].into_iter().for_each(|dump| compared.reduce(dump));
                let compared = compare(&found, &expected);
                differences.extend(compared.err().map(|error| format!("{statements:?} {flags:?}: {error}")));
            }
        }
        ensure!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
        Ok(())
    };
    compare_all()?;
    let third = server.binlogs()?.get(2).map(|log| name_of(log)).context("the server has no logs")?;
    server.sql(&format!("purge binary logs to '{}'", String::from_utf8(third)?))?;
    compare_all()
}

/// Sorts the entries of artificial Gtid_list events: the server sends them in the order of a hash table.
fn sort_lists(dump: &mut DumpResult) {
    for event in dump.events.iter_mut().filter(|event| event[4] == 163 && event[17] == 0x20) {
        event.truncate(event.len() - 4);
        let mut entries: Vec<Vec<u8>> = event[23..].chunks(16).map(<[u8]>::to_vec).collect();
        entries.sort();
        event.truncate(23);
        event.extend(entries.concat());
    }
}

fn mariadb_dump(
    relay: &Arc<FormSource>,
    dump: &BinlogDump<'_>,
    request: [&str; 4],
    state: &MariadbState,
) -> DumpResult {
    let [position, strict, duplicates, until] = request;
    let until = if until == "-" { Ok(None) } else { until.parse().map(Some) };
    let (Ok(position), Ok(until)) = (position.parse(), until) else {
        let error = DumpError::mariadb_position().to_server_error();
        return DumpResult { events: Vec::new(), error: Some((error.code, error.message)) };
    };
    let mode = DumpMode::MariadbGtids(MariadbRequest {
        position,
        until,
        holes: if strict == "1" { GtidHoles::Refused } else { GtidHoles::Allowed },
        ahead: if duplicates == "1" { GtidsAhead::Allowed } else { GtidsAhead::Refused },
    });
    let request = DumpRequest { mode, ..DumpRequest::from_position(dump) };
    let gtids = SourceGtids { mariadb: Some(state), ..SourceGtids::default() };
    from_relay(relay, &request, gtids)
}

#[test]
fn dumps_by_mariadb_gtid_equal_mariadb_10_11() -> Result<()> {
    mariadb_dumps_are_those_of_the_server(TestPackage::MariaDb, ComparedEvents::All)
}

#[test]
fn dumps_by_mariadb_gtid_equal_mariadb_11_8() -> Result<()> {
    mariadb_dumps_are_those_of_the_server(TestPackage::MariaDb11_8, ComparedEvents::Gtids)
}
