//! The client's side of the protocol with real servers: every authentication method, and dumps of logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use binlog::EventType;
use binlog::gtid::GtidSet;
use e2e::conversation;
use servers::{
    CancelToken, ConnectionError, LinkOptions, LiveSource, PasswordSource, PublicKeySource, ServerAddress,
    ServerLink, SslMode, TlsPolicy,
};
use testkit::{Launch, TestServer};
use wire::{
    AckRequest, BinlogDumpGtid, CleartextPolicy, ClientCommand, DumpFlags, FormatOrigin, PacketCompression,
    ReplicaEnd, ReplicaOptions, ReplicaStart, SemiSync, SourceEvent,
};

/// Returns the address of `user` on this server, by TCP.
fn address(server: &TestServer, user: &str, password: &str, mode: SslMode) -> ServerAddress {
    ServerAddress {
        user: user.to_owned(),
        password: PasswordSource::Text(password.to_owned()),
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        socket: None,
        tls: TlsPolicy::with_mode(mode),
        public_key: PublicKeySource::Unknown,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: ServerAddress::DEFAULT_TIMEOUT,
        cancel: CancelToken::default(),
    }
}

fn by_socket(server: &TestServer, user: &str, password: &str) -> ServerAddress {
    ServerAddress {
        socket: Some(server.socket().to_path_buf()),
        ..address(server, user, password, SslMode::Disabled)
    }
}

/// Logs in and runs a query; returns the name of the authentication plugin.
fn log_in(address: &ServerAddress, options: &LinkOptions) -> Result<&'static str> {
    let mut link = ServerLink::open(address, options)?;
    let rows = link.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1), NULL, REPEAT('x', 100000)")?;
    let expected = vec![Some(address.user.clone().into_bytes()), None, Some(vec![b'x'; 100_000])];
    ensure!(rows == [expected], "a different row");
    Ok(link.session().plugin)
}

/// Logs in with the right password, and checks that a wrong one is refused.
fn check(address: &ServerAddress, options: &LinkOptions, plugin: &str) -> Result<()> {
    let found = log_in(address, options).with_context(|| format!("{address} by {plugin}"))?;
    ensure!(found == plugin, "{address} used the plugin {found}, not {plugin}");
    let wrong = ServerAddress { password: PasswordSource::Text("wrong".to_owned()), ..address.clone() };
    match ServerLink::open(&wrong, options).map(drop) {
        Err(ConnectionError::Refused { code: 1045, .. }) => Ok(()),
        other => bail!("{address} did not get error 1045 for a wrong password: {other:?}"),
    }
}

fn with_key(address: &ServerAddress, public_key: PublicKeySource) -> ServerAddress {
    ServerAddress { public_key, ..address.clone() }
}

#[test]
fn logins_to_mysql() -> Result<()> {
    let server = Launch::mysql().option("--server-id=1").start()?;
    let key = server.datadir().join("public_key.pem");
    server.sql("create user c@'%' identified with caching_sha2_password by 'secret'")?;
    let caching = "caching_sha2_password";
    let forget = || server.sql("flush privileges").map(drop);

    let plain = address(&server, "c", "secret", SslMode::Disabled);
    let error = ServerLink::open(&plain, &LinkOptions::default()).map(drop);
    let Err(error @ ConnectionError::PlaintextPassword { .. }) = error else { bail!("{error:?}") };
    ensure!(error.to_string().contains("--ssl-mode=REQUIRED"), "{error}");
    check(&with_key(&plain, PublicKeySource::Server), &LinkOptions::default(), caching)?;
    // The server has cached the password, so no key is needed.
    ensure!(log_in(&plain, &LinkOptions::default())? == caching);
    forget()?;
    check(&with_key(&plain, PublicKeySource::File(key)), &LinkOptions::default(), caching)?;
    let no_key = with_key(&plain, PublicKeySource::File(server.datadir().join("ca.pem")));
    let error = ServerLink::open(&no_key, &LinkOptions::default()).map(drop);
    ensure!(matches!(error, Err(ConnectionError::PublicKey { .. })), "{error:?}");
    forget()?;
    check(&by_socket(&server, "c", "secret"), &LinkOptions::default(), caching)?;
    forget()?;
    check(&address(&server, "c", "secret", SslMode::Required), &LinkOptions::default(), caching)?;
    check(&address(&server, "c", "secret", SslMode::Required), &LinkOptions::default(), caching)?;
    // No password.
    let root = address(&server, "root", "", SslMode::Disabled);
    check(&with_key(&root, PublicKeySource::Server), &LinkOptions::default(), caching)?;
    // A plugin that differs from the server's default.
    let plugin = "sha256_password";
    server.sql("create user s@'%' identified with sha256_password by 'secret'")?;
    check(&address(&server, "s", "secret", SslMode::Required), &LinkOptions::default(), plugin)?;
    let open = address(&server, "s", "secret", SslMode::Disabled);
    check(&with_key(&open, PublicKeySource::Server), &LinkOptions::default(), plugin)?;
    Ok(())
}

#[test]
fn logins_to_mariadb() -> Result<()> {
    // MySQL creates its certificate at its first start.
    let mysql = Launch::mysql().start()?;
    let file = |option: &str, name: &str| format!("--{option}={}", mysql.datadir().join(name).display());
    let certificate = [file("ssl-cert", "server-cert.pem"), file("ssl-key", "server-key.pem")];
    let server = Launch::mariadb().options(certificate).start()?;
    server.sql("create user n@'%' identified by 'secret'; grant all on *.* to n@'%'")?;
    let native = "mysql_native_password";
    check(&address(&server, "n", "secret", SslMode::Disabled), &LinkOptions::default(), native)?;
    check(&address(&server, "n", "secret", SslMode::Required), &LinkOptions::default(), native)?;
    check(&by_socket(&server, "n", "secret"), &LinkOptions::default(), native)?;
    check(
        &address(&server, "n", "secret", SslMode::Disabled),
        &compressed(PacketCompression::Zlib { level: 6 }),
        native,
    )?;
    Ok(())
}

fn compressed(compression: PacketCompression) -> LinkOptions {
    LinkOptions { compressions: vec![Some(compression)], ..LinkOptions::default() }
}

/// Result of a dump: events by file and position, event types, and counts of other events.
#[derive(Default)]
struct ReceivedDump {
    files: BTreeMap<String, BTreeMap<u64, Vec<u8>>>,
    types: Vec<EventType>,
    repeated: usize,
    artificial: usize,
}

fn replica(start: ReplicaStart, end: ReplicaEnd) -> ReplicaOptions {
    ReplicaOptions {
        server_id: 77,
        uuid: "0afe4a3e-5a5b-11ef-9f3a-000000000077".to_owned(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: Duration::from_millis(200),
        semi_sync: SemiSync::Off,
        start,
        end,
    }
}

fn first_file() -> ReplicaStart {
    ReplicaStart::Position { file: b"binlog.000001".to_vec(), position: 4 }
}

/// Receives from a start point to the end.
fn receive(address: &ServerAddress, options: &LinkOptions, start: ReplicaStart) -> Result<ReceivedDump> {
    let mut source = LiveSource::open(address, options, replica(start, ReplicaEnd::LastEvent))?;
    let mut received = ReceivedDump::default();
    loop {
        let file = String::from_utf8_lossy(source.reader().file()).into_owned();
        let Some(live) = source.next()? else { return Ok(received) };
        let (position, event) = match live.arrival {
            SourceEvent::Format { event, origin: FormatOrigin::File } => (4, event),
            SourceEvent::Event { event, position } => (position, event),
            SourceEvent::Format { .. } => {
                received.repeated += 1;
                continue;
            }
            SourceEvent::Artificial(_) => {
                received.artificial += 1;
                continue;
            }
            SourceEvent::File { .. } | SourceEvent::Heartbeat { .. } => continue,
        };
        received.types.push(event.event_type());
        let events = received.files.entry(file).or_default();
        ensure!(events.insert(position, event.bytes().to_vec()).is_none(), "{position} was sent twice");
    }
}

/// Compares each event with the source's file at its position. Returns the number of received bytes of each file.
fn compare(server: &TestServer, received: &ReceivedDump) -> Result<Vec<usize>> {
    let mut sizes = Vec::new();
    for path in server.binlogs()? {
        let name = path.file_name().context("a log without a name")?.to_string_lossy().into_owned();
        let mut file = fs::read(&path)?;
        file[21] &= !1; // The source sends the format description of a closed file.
        let events = received.files.get(&name);
        for (position, event) in events.into_iter().flatten() {
            let start = usize::try_from(*position)?;
            ensure!(
                file.get(start..start + event.len()) == Some(event),
                "{name}, {position}: the bytes differ"
            );
        }
        sizes.push(events.into_iter().flatten().map(|(_, event)| event.len()).sum());
    }
    Ok(sizes)
}

/// Checks that all bytes were received.
fn compare_whole(server: &TestServer, received: &ReceivedDump) -> Result<()> {
    let sizes = compare(server, received)?;
    for (path, size) in server.binlogs()?.iter().zip(sizes) {
        let expected = fs::metadata(path)?.len() as usize - 4;
        ensure!(size == expected, "{}: {size} of {expected} bytes were received", path.display());
    }
    Ok(())
}

/// Runs transactions of all sizes, one larger than a packet's maximum size, in two files and the start of a third.
fn write(server: &TestServer) -> Result<()> {
    server.sql(
        "create database d; create table d.t (a int primary key auto_increment, b longtext);
         insert into d.t (b) values ('one'), (repeat('two', 1000));
         insert into d.t (b) values (repeat('x', 17 << 20));
         flush binary logs; insert into d.t (b) values ('three'); update d.t set b = 'four' where a = 1;
         flush binary logs; insert into d.t (b) values ('five')",
    )?;
    Ok(())
}

#[test]
fn dumps_of_mysql() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("set session binlog_transaction_compression = on; create database e; drop database e")?;
    write(&server)?;
    let plain = address(&server, "root", "", SslMode::Disabled);
    for (mode, options) in [
        (SslMode::Disabled, LinkOptions::default()),
        (SslMode::Required, LinkOptions::default()),
        (SslMode::Disabled, compressed(PacketCompression::Zlib { level: 6 })),
        (SslMode::Required, compressed(PacketCompression::Zstd { level: 3 })),
    ] {
        let address = ServerAddress { tls: TlsPolicy::with_mode(mode), ..plain.clone() };
        compare_whole(&server, &receive(&address, &options, first_file())?)?;
    }

    // From the middle of a file.
    let status = server.sql("show binary log status")?;
    let position: u64 = status.split_whitespace().nth(1).context("no position")?.parse()?;
    server.sql("insert into d.t (b) values ('six')")?;
    let start = ReplicaStart::Position { file: b"binlog.000003".to_vec(), position };
    let received = receive(&plain, &LinkOptions::default(), start)?;
    let size = fs::metadata(&server.binlogs()?[2])?.len() as usize - position as usize;
    ensure!(compare(&server, &received)? == [0, 0, size] && received.repeated == 1);

    by_the_other_command(&plain, &fs::read(&server.binlogs()?[2])?[position as usize..], position)?;

    // From GTID sets, with and without tags.
    let executed = || server.sql("select @@global.gtid_executed");
    let mut executed_sets: Vec<String> = vec![executed()?];
    server.sql("set gtid_next = 'automatic:tag'; insert into d.t (b) values ('seven')")?;
    executed_sets.push(executed()?);
    server.sql("insert into d.t (b) values ('eight')")?;
    for (text, transactions) in executed_sets.iter().zip([2, 1]) {
        let gtids: GtidSet = text.trim().replace("\\n", "").parse()?;
        let mut set = Vec::new();
        gtids.encode(gtids.format(), &mut set);
        let received = receive(&plain, &LinkOptions::default(), ReplicaStart::Gtids { set })?;
        compare(&server, &received)?;
        let found = received.types.iter().filter(|one| **one == EventType::Xid).count();
        ensure!(found == transactions, "{found} transactions were received, not {transactions}");
    }
    refusals(&server, &plain)
}

/// Tests COM_BINLOG_DUMP_GTID without GTIDs: it also takes a file, and a position of 64 bits.
fn by_the_other_command(plain: &ServerAddress, expected: &[u8], position: u64) -> Result<()> {
    let mut link = ServerLink::open(plain, &LinkOptions::default())?;
    link.query("set @source_binlog_checksum = 'CRC32'")?;
    link.send(&ClientCommand::BinlogDumpGtid(BinlogDumpGtid {
        flags: DumpFlags::NON_BLOCK,
        server_id: 4712,
        file: b"binlog.000003",
        position,
        gtids: &[0; 8],
    }))?;
    let mut found = Vec::new();
    loop {
        let payload = link.next()?;
        if payload.first() != Some(&0) {
            break; // The end.
        }
        // The Rotate event and the format description before it are artificial.
        if !matches!(payload[5], 4 | 15) {
            found.extend_from_slice(&payload[1..]);
        }
    }
    ensure!(found == expected, "{} bytes were received, not {}", found.len(), expected.len());
    Ok(())
}

/// Tests requests that a source refuses.
fn refusals(server: &TestServer, plain: &ServerAddress) -> Result<()> {
    server.sql("purge binary logs to 'binlog.000003'")?;
    for start in [
        ReplicaStart::Position { file: b"nothing.000001".to_vec(), position: 4 },
        ReplicaStart::Position { file: b"binlog.000003".to_vec(), position: 100_000_000 },
        ReplicaStart::Position { file: b"binlog.000003".to_vec(), position: 3 },
        ReplicaStart::Gtids { set: vec![0; 8] },
    ] {
        match receive(plain, &LinkOptions::default(), start.clone()).map(drop) {
            Err(error)
                if error.downcast_ref::<ConnectionError>().and_then(ConnectionError::code) == Some(1236) => {}
            other => bail!("{start:?}: {other:?}"),
        }
    }
    let own = ReplicaOptions { server_id: 1, ..replica(first_file(), ReplicaEnd::Never) };
    match LiveSource::open(plain, &LinkOptions::default(), own).map(drop) {
        Err(ConnectionError::Protocol(wire::WireError::DuplicateIdentity { what: "server_id", .. })) => {
            Ok(())
        }
        other => bail!("{other:?}"),
    }
}

#[test]
fn dumps_of_mariadb() -> Result<()> {
    let server = Launch::mariadb().start()?;
    write(&server)?;
    let plain = address(&server, "root", "", SslMode::Disabled);
    for options in [LinkOptions::default(), compressed(PacketCompression::Zlib { level: 6 })] {
        compare_whole(&server, &receive(&plain, &options, first_file())?)?;
    }
    let state = server.sql("select @@global.gtid_binlog_pos")?.trim().to_owned();
    server.sql("insert into d.t (b) values ('six'); insert into d.t (b) values ('seven')")?;
    let received = receive(&plain, &LinkOptions::default(), ReplicaStart::MariadbGtids { state })?;
    compare(&server, &received)?;
    let found = received.types.iter().filter(|one| **one == EventType::Xid).count();
    ensure!(found == 2, "{found} transactions were received, not 2");
    Ok(())
}

/// An idle source sends heartbeats, and a wait can be cancelled.
#[test]
fn heartbeats_and_cancellation() -> Result<()> {
    for launch in [Launch::mysql(), Launch::mariadb()] {
        let server = launch.start()?;
        let cancel = CancelToken::default();
        let options = LinkOptions { cancel: cancel.clone(), ..LinkOptions::default() };
        let plain = address(&server, "root", "", SslMode::Disabled);
        let mut source = LiveSource::open(&plain, &options, replica(first_file(), ReplicaEnd::Never))?;
        let mut count = 0;
        while count < 3 {
            let live = source.next()?.context("the dump has ended")?;
            count += u32::from(matches!(live.arrival, SourceEvent::Heartbeat { .. }));
        }
        cancel.cancel();
        loop {
            match source.next().map(drop) {
                Ok(()) => {}
                Err(ConnectionError::Cancelled) => break,
                Err(error) => bail!("{error}"),
            }
        }
    }
    Ok(())
}

/// Commits wait for acknowledgements, and all of them are acknowledged.
#[test]
fn commits_wait_for_acknowledgements() -> Result<()> {
    let mysql = Launch::mysql().start()?;
    mysql.sql("install plugin rpl_semi_sync_source soname 'semisync_source.so'")?;
    let mariadb = Launch::mariadb().start()?;
    for server in [&mysql, &mariadb] {
        server.sql("create database d; create table d.s (a int)")?;
    }
    let mysql_on =
        "set global rpl_semi_sync_source_timeout = 100000; set global rpl_semi_sync_source_enabled = on";
    let plain = LinkOptions::default();
    semi_sync(&mysql, &plain, mysql_on, "Rpl_semi_sync_source")?;
    semi_sync(
        &mysql,
        &compressed(PacketCompression::Zstd { level: 3 }),
        "set @x = 1",
        "Rpl_semi_sync_source",
    )?;
    let mariadb_on =
        "set global rpl_semi_sync_master_timeout = 100000; set global rpl_semi_sync_master_enabled = on";
    semi_sync(&mariadb, &plain, mariadb_on, "Rpl_semi_sync_master")
}

fn semi_sync(server: &TestServer, options: &LinkOptions, on: &str, status: &str) -> Result<()> {
    const COMMITS: usize = 5;
    server.sql(on)?;
    let wishes = ReplicaOptions { semi_sync: SemiSync::On, ..replica(first_file(), ReplicaEnd::Never) };
    let mut source = LiveSource::open(&address(server, "root", "", SslMode::Disabled), options, wishes)?;
    ensure!(source.facts().semi_sync == SemiSync::On);
    let before = acknowledged(server, status)?;
    let inserts = "insert into d.s values (1);".repeat(COMMITS);
    let mut acknowledgements = 0;
    thread::scope(|scope| -> Result<()> {
        let client = scope.spawn(|| server.sql(&inserts));
        while !client.is_finished() {
            let live = source.next()?.context("the dump has ended")?;
            if live.acknowledge == AckRequest::Requested {
                let position = source.position();
                source.acknowledge(&position)?;
                acknowledgements += 1;
            }
        }
        client.join().map_err(|_| anyhow::anyhow!("the client panicked"))?.map(drop)
    })?;
    let found = acknowledged(server, status)? - before;
    ensure!(
        acknowledgements >= COMMITS && found == COMMITS,
        "{found} of {COMMITS} commits were acknowledged"
    );
    Ok(())
}

/// Returns the number of commits that were acknowledged in time.
fn acknowledged(server: &TestServer, status: &str) -> Result<usize> {
    let shown = server.sql(&format!("show global status like '{status}_yes_tx'"))?;
    Ok(shown.split_whitespace().nth(1).context("no value")?.parse()?)
}

/// Recorded conversations still match real servers: in a new conversation, the replica sends the same bytes.
#[test]
fn recorded_conversations_match_real_servers() -> Result<()> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/tests/conversations");
    for (name, launch) in conversation::CONVERSATIONS {
        let before = questions(&fs::read_to_string(kept.join(name))?);
        let now = questions(&conversation::record(&launch())?);
        ensure!(before.len() > 5 && now == before, "{name}: record it again, and review the changes");
    }
    Ok(())
}

/// Returns the replica's packets from its first query on.
fn questions(text: &str) -> Vec<String> {
    let first = "SELECT UNIX_TIMESTAMP".bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let client_lines = text.lines().filter(|line| line.starts_with("client"));
    client_lines.skip_while(|line| !line.contains(&first)).map(str::to_owned).collect()
}
