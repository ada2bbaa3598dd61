//! Hostile clients and many clients of `bintide relay`: it must keep serving others, in little memory.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::wait_for_within;
use e2e::relayed::{RelayProcess, TABLE, relay_address, replica_packets, source, work};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use servers::{LinkOptions, ServerAddress, ServerLink, SslMode, TlsPolicy, row_text};
use testkit::{CutMode, ProcessMemory, Proxy, TestPackage, TestServer, wait_until};
use wire::{BinlogDump, ClientCommand, DumpFlags, ErrPacket};

/// Time without data after which a test abandons a damaged conversation.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(20);

/// Returns the memory of the program, in KiB.
fn memory(relay: &RelayProcess) -> Result<u64> {
    let id = relay.running.as_ref().context("the relay does not run")?.id();
    Ok(ProcessMemory::of(id)?.resident_kib)
}

fn relay() -> Result<(TestServer, RelayProcess)> {
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let relay = RelayProcess::of(&source, &[])?;
    Ok((source, relay))
}

fn link(relay: &RelayProcess) -> Result<ServerLink> {
    Ok(ServerLink::open(&relay_address(relay.port), &LinkOptions::default())?)
}

/// Checks that the relay serves other clients.
fn check_serves(relay: &RelayProcess) -> Result<()> {
    let mut link = link(relay)?;
    link.query("SELECT 1")?;
    Ok(())
}

/// Sends bytes after the greeting, and reads to the end, or until no data arrive for this time. Returns the
/// received bytes.
fn send(relay: &RelayProcess, bytes: &[u8], silence: Duration) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", relay.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut room = vec![0; 64 << 10];
    ensure!(stream.read(&mut room)? > 0, "no greeting");
    // The relay may have closed the connection.
    let _ = stream.write_all(bytes);
    stream.set_read_timeout(Some(silence))?;
    let mut received = Vec::new();
    while let Ok(count @ 1..) = stream.read(&mut room) {
        received.extend_from_slice(&room[..count]);
    }
    Ok(received)
}

#[test]
fn damaged_conversations_do_not_affect_other_clients() -> Result<()> {
    let (_source, relay) = relay()?;
    let packets = replica_packets(9)?;
    let whole = packets.concat();
    let answers = send(&relay, &whole, Duration::from_secs(3))?;
    ensure!(answers.len() > 2000, "the undamaged conversation failed: {answers:?}");
    let before = memory(&relay)?;
    for end in 0..whole.len() {
        send(&relay, &whole[..end], SILENCE_TIMEOUT)?;
    }
    let mut start = 0;
    for packet in &packets {
        let size = packet.len() as u32 - 4;
        for wrong in [0, 1, size.saturating_sub(1), size + 1, 0xffff, 0xff_ffff] {
            let mut damaged = whole.clone();
            damaged[start..start + 3].copy_from_slice(&wrong.to_le_bytes()[..3]);
            send(&relay, &damaged, SILENCE_TIMEOUT)?;
        }
        for at in start + 3..start + packet.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            send(&relay, &damaged, SILENCE_TIMEOUT)?;
        }
        start += packet.len();
    }
    check_serves(&relay)?;
    let after = memory(&relay)?;
    ensure!(after < before + (64 << 10), "{before} KiB before, {after} KiB after");
    Ok(())
}

/// Logs in with TLS, and reads the whole log. Returns the number of its packets.
fn read_log_over_tls(port: u16) -> Result<usize> {
    let tls = TlsPolicy::with_mode(SslMode::Required);
    let mut link = ServerLink::open(&ServerAddress { tls, ..relay_address(port) }, &LinkOptions::default())?;
    link.query("SET @source_binlog_checksum = 'CRC32'")?;
    let dump = BinlogDump { position: 4, flags: DumpFlags::NON_BLOCK, server_id: 9, file: b"binlog.000001" };
    link.send(&ClientCommand::BinlogDump(dump))?;
    let mut packets = 0;
    while link.next()?.first() == Some(&0) {
        packets += 1;
    }
    Ok(packets)
}

/// The network cuts encrypted connections at each byte of a conversation, counted in both directions.
#[test]
fn encrypted_conversations_are_cut_at_every_byte() -> Result<()> {
    /// Bytes by which the sizes of two TLS handshakes differ at most.
    const TLS_VARIANCE: u64 = 64;
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    let relay = RelayProcess::of(&source, &[])?;
    let proxy = Proxy::to(relay.port)?;
    ensure!(read_log_over_tls(proxy.port())? > 5, "the log has few events");
    let (whole, before) = (proxy.passed(), memory(&relay)?);
    ensure!((2000..20_000).contains(&whole), "the conversation has {whole} bytes");
    for end in 0..whole {
        proxy.cut_after(end, if end % 2 == 0 { CutMode::Close } else { CutMode::Reset });
        let read = read_log_over_tls(proxy.port());
        ensure!(
            read.is_err() || end + TLS_VARIANCE > whole,
            "the conversation was not cut after {end} bytes"
        );
        proxy.mend();
        if end % 500 == 0 {
            check_serves(&relay)?;
        }
    }
    let mut asking = link(&relay)?;
    wait_until("the end of the other connections", || Ok(asking.query("SHOW PROCESSLIST")?.len() == 1))?;
    let after = memory(&relay)?;
    println!("{before} KiB before, {after} KiB after {whole} cuts");
    ensure!(after < before + (64 << 10), "{before} KiB before, {after} KiB after");
    Ok(())
}

/// Statements that are larger than `max_allowed_packet`: of one packet, of two, and of four.
#[test]
fn statements_that_are_too_large_are_refused() -> Result<()> {
    let (_source, relay) = relay()?;
    for size in [(4 << 20) + 1, (16 << 20) + 1, 50 << 20] {
        let sql = format!("SELECT '{}'", "x".repeat(size));
        for tls in [SslMode::Disabled, SslMode::Required] {
            let address = ServerAddress { tls: TlsPolicy::with_mode(tls), ..relay_address(relay.port) };
            let mut link = ServerLink::open(&address, &LinkOptions::default())?;
            link.send(&ClientCommand::Query { sql: sql.as_bytes() })?;
            let error = ErrPacket::decode(link.next()?)?.to_error();
            ensure!(error.code == 1153, "{size} {tls:?}: {error:?}");
        }
    }
    check_serves(&relay)
}

#[test]
fn connections_without_a_login_do_not_block_others() -> Result<()> {
    const CONNECTIONS: u64 = 3000;
    raise_descriptor_limit(CONNECTIONS + 500)?;
    let (_source, relay) = relay()?;
    let before = memory(&relay)?;
    let mut held = Vec::new();
    for number in 0..CONNECTIONS {
        held.push(TcpStream::connect(("127.0.0.1", relay.port))?);
        if number % 500 == 0 {
            check_serves(&relay)?;
        }
    }
    check_serves(&relay)?;
    let after = memory(&relay)?;
    println!("{before} KiB alone, {after} KiB with {CONNECTIONS} connections without a login");
    ensure!(after < before + (64 << 10), "{before} KiB before, {after} KiB after");
    Ok(())
}

/// Writes more data to the source's log than the buffers between the relay and a client that does not read.
fn write_large_log(source: &TestServer) -> Result<()> {
    source.sql("create table d.big (id int primary key, s longtext)")?;
    for id in 0..8 {
        source.sql(&format!("insert into d.big values ({id}, repeat('{id}', 8000000))"))?;
    }
    Ok(())
}

/// Starts the dump of a replica that reads nothing.
fn silent_replica(relay: &RelayProcess, server_id: u32) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", relay.port))?;
    stream.write_all(&replica_packets(server_id)?.concat())?;
    Ok(stream)
}

/// Returns the connections that read a log: their ids and states.
fn dumps(link: &mut ServerLink) -> Result<Vec<(String, String)>> {
    let rows = link.query("SHOW PROCESSLIST")?;
    let dumps = rows.iter().filter(|row| row_text(row, 4).starts_with("Binlog Dump"));
    Ok(dumps.map(|row| (row_text(row, 0), row_text(row, 6))).collect())
}

/// Clients that request a large log and read nothing do not delay other clients, and take little memory.
#[test]
fn clients_that_read_nothing_do_not_delay_others() -> Result<()> {
    const SILENT: u32 = 20;
    let (source, relay) = relay()?;
    write_large_log(&source)?;
    let before = memory(&relay)?;
    // The relay would end the first of two dumps with one server_id.
    let silent = (0..SILENT).map(|number| silent_replica(&relay, 100 + number));
    let silent = silent.collect::<Result<Vec<_>>>()?;
    let mut asking = link(&relay)?;
    wait_until("the dumps", || Ok(dumps(&mut asking)?.len() == silent.len()))?;
    let mut link = link(&relay)?;
    link.query("SET @source_binlog_checksum = 'CRC32'")?;
    let dump = BinlogDump { position: 4, flags: DumpFlags::NON_BLOCK, server_id: 10, file: b"" };
    link.send(&ClientCommand::BinlogDump(dump))?;
    let mut bytes = 0;
    loop {
        let packet = link.next()?;
        if packet.first() != Some(&0) {
            break;
        }
        bytes += packet.len();
    }
    ensure!(bytes > 60_000_000, "{bytes} bytes");
    let blocked = dumps(&mut asking)?;
    ensure!(blocked.len() == silent.len(), "{blocked:?}");
    ensure!(blocked.iter().all(|(_, state)| state.starts_with("Sending")), "{blocked:?}");
    let after = memory(&relay)?;
    println!("{before} KiB before, {after} KiB with {SILENT} clients that read nothing");
    ensure!(after < before + (150 << 10), "{before} KiB before, {after} KiB after");
    Ok(())
}

/// `KILL`, or another connection of the same replica, ends a dump whose client reads nothing. Without both, the relay
/// waits for a minute.
#[test]
fn dumps_of_clients_that_do_not_read_are_ended() -> Result<()> {
    let (source, relay) = relay()?;
    write_large_log(&source)?;
    let mut asking = link(&relay)?;
    let mut silent = Vec::new();
    // One after the other, so that the first replica has the lower connection id.
    for server_id in [100, 101] {
        silent.push(silent_replica(&relay, server_id)?);
        wait_until("the dump", || Ok(dumps(&mut asking)?.len() == silent.len()))?;
    }
    // The dumps fill the buffers, which takes seconds on a loaded machine, and are then blocked for longer than the relay
    // waits.
    thread::sleep(Duration::from_secs(6));
    let all = dumps(&mut asking)?;
    ensure!(all.len() == 2, "{all:?}");
    asking.query(&format!("KILL {}", all[0].0))?;
    wait_for_within(Duration::from_secs(20), || {
        let rest = dumps(&mut asking)?;
        // Its state may have changed: on a loaded machine, the dump may not have been blocked yet.
        ensure!(rest.len() == 1 && rest[0].0 == all[1].0, "{rest:?}, expected {:?}", all[1]);
        Ok(())
    })?;
    let _again = silent_replica(&relay, 101)?;
    wait_for_within(Duration::from_secs(20), || {
        let rest = dumps(&mut asking)?;
        ensure!(rest.len() == 1 && rest[0].0 != all[1].0, "{rest:?}");
        Ok(())
    })
}

#[test]
fn com_change_user_is_refused() -> Result<()> {
    let (_source, relay) = relay()?;
    let mut link = link(&relay)?;
    link.send(&ClientCommand::Other { code: 17, rest: b"other\0\0\0" })?;
    let error = ErrPacket::decode(link.next()?)?.to_error();
    ensure!((error.code, error.message.as_str()) == (1047, "Unknown command"), "{error:?}");
    link.query("SELECT 1")?;
    Ok(())
}

/// A second dump of the same replica ends the first one; so does `KILL`.
#[test]
fn dumps_are_ended_by_the_same_replica_and_by_kill() -> Result<()> {
    let (_source, relay) = relay()?;
    let first = waiting_replica(&relay, "5ea5ca5e-0001-4000-8000-000000000001")?;
    let second = waiting_replica(&relay, "5ea5ca5e-0001-4000-8000-000000000001")?;
    let other = waiting_replica(&relay, "5ea5ca5e-0001-4000-8000-000000000002")?;
    let error = last_error(first)?;
    let expected =
        "A replica with the same server_uuid/server_id as this replica has connected to the source";
    ensure!(error == Some((1236, expected.to_owned())), "{error:?}");
    let id = other.session().connection_id;
    link(&relay)?.query(&format!("KILL {id}"))?;
    ensure!(last_error(other)?.is_none(), "KILL must not send error 1236, so that the replica reconnects");
    let id = second.session().connection_id;
    link(&relay)?.query(&format!("KILL {id}"))?;
    last_error(second)?;
    check_serves(&relay)
}

/// Opens a dump that has sent everything and waits.
fn waiting_replica(relay: &RelayProcess, uuid: &str) -> Result<ServerLink> {
    let mut link = link(relay)?;
    link.query("SET @source_binlog_checksum = 'CRC32', @source_heartbeat_period = 30000000000")?;
    link.query(&format!("SET @replica_uuid = '{uuid}'"))?;
    let dump = BinlogDump { position: 4, flags: DumpFlags::default(), server_id: 9, file: b"binlog.000001" };
    link.send(&ClientCommand::BinlogDump(dump))?;
    // The artificial Rotate event, and the format description.
    link.next()?;
    link.next()?;
    Ok(link)
}

/// Reads to the end of a dump. Returns its error; `None` if the connection is closed without one.
fn last_error(mut link: ServerLink) -> Result<Option<(u16, String)>> {
    loop {
        match link.next() {
            Ok(packet) if packet.first() == Some(&0xff) => {
                let error = ErrPacket::decode(packet)?.to_error();
                return Ok(Some((error.code, error.message)));
            }
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
}

/// 1,000 replicas that wait for events.
#[test]
fn a_thousand_idle_replicas_take_little_memory() -> Result<()> {
    const REPLICAS: u64 = 1000;
    const KIB_MAX: u64 = 150 << 10;
    raise_descriptor_limit(REPLICAS + 500)?;
    let (_source, relay) = relay()?;
    let before = memory(&relay)?;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        replicas.push(waiting_replica(&relay, &format!("5ea5ca5e-0001-4000-8000-{number:012}"))?);
    }
    let mut asking = link(&relay)?;
    wait_until("idle replicas", || {
        let rows = asking.query("SHOW PROCESSLIST")?;
        let states = rows.iter().filter_map(|row| row.get(6)?.as_deref());
        let waiting = states.filter(|state| state.ends_with(b"waiting for more updates"));
        Ok(waiting.count() as u64 == REPLICAS)
    })?;
    let after = memory(&relay)?;
    println!("{before} KiB alone, {after} KiB with {REPLICAS} idle replicas");
    ensure!(after < KIB_MAX, "{after} KiB with {REPLICAS} idle replicas");
    Ok(())
}

/// A relay that can open no more files reports it once, and serves clients again once it can.
#[test]
fn connections_that_cannot_be_accepted_are_reported() -> Result<()> {
    let (_source, relay) = relay()?;
    let pid = relay.running.as_ref().context("the relay does not run")?.id().to_string();
    let set_limit = |limit: &str| {
        let limited =
            Command::new("prlimit").args([&format!("--nofile={limit}:"), "--pid", &pid]).status()?;
        ensure!(limited.success(), "the limit was not set");
        Ok(())
    };
    let message = "could not accept a connection: Too many open files";
    // It listens before its start is complete.
    check_serves(&relay)?;
    set_limit("3")?;
    let waiting = TcpStream::connect(("127.0.0.1", relay.port))?;
    wait_until("the message", || Ok(relay.messages()?.contains(message)))?;
    thread::sleep(Duration::from_millis(500));
    set_limit("1024")?;
    check_serves(&relay)?;
    drop(waiting);
    let messages = relay.messages()?;
    ensure!(messages.matches(message).count() == 1, "{messages}");
    Ok(())
}

fn raise_descriptor_limit(expected: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < expected {
        setrlimit(Resource::RLIMIT_NOFILE, expected.min(hard), hard)?;
    }
    Ok(())
}
