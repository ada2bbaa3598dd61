//! Sessions of clients of `bintide relay`: roles and limits of accounts, prepared statements, compressed connections,
//! and the end of the relay.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::command::wait_for_within;
use e2e::relayed::{
    RelayProcess, TABLE, add_account, index_of, relay_address, replica, replica_packets, source,
    wait_for_equal, work,
};
use servers::{
    ConnectionError, LinkOptions, PasswordSource, ServerAddress, ServerLink, SqlConnection, row_text,
};
use tempfile::TempDir;
use testkit::{Proxy, TestPackage, TestServer, wait_until};
use wire::{
    BinlogDump, ClientCommand, DumpFlags, EofPacket, ErrPacket, ParameterValue, PrepareReader, ServerError,
    StatementExecution,
};

/// Starts a relay of a source with compressed transactions in two logs.
fn relay(more: &[&str]) -> Result<(TestServer, RelayProcess)> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "on"))?;
    let relay = RelayProcess::start(&index_of(&source)?, more)?;
    Ok((source, relay))
}

/// Returns the address of an account without a password.
fn address(user: &str, port: u16) -> ServerAddress {
    ServerAddress { user: user.to_owned(), ..relay_address(port) }
}

fn log_in(user: &str, port: u16) -> Result<ServerLink, ConnectionError> {
    ServerLink::open(&address(user, port), &LinkOptions::default())
}

/// A monitoring account cannot read logs. It lists them without reading them.
#[test]
fn monitoring_accounts_list_logs_and_read_none() -> Result<()> {
    let directory = TempDir::new()?;
    let accounts = directory.path().join("accounts.toml");
    add_account(&accounts, "watch", &["--role=monitor"])?;
    add_account(&accounts, "watch_plain", &["--role=monitor", "--form=plain"])?;
    let (source, relay) = relay(&["--form=plain", "--accounts", &accounts.display().to_string()])?;
    let mut link = log_in("watch", relay.port)?;
    let dump = BinlogDump { position: 4, flags: DumpFlags::NON_BLOCK, server_id: 9, file: b"" };
    link.send(&ClientCommand::BinlogDump(dump))?;
    let error = ErrPacket::decode(link.next()?)?.to_error();
    ensure!(error.code == 1227 && error.message.contains("REPLICATION SLAVE"), "{error:?}");
    let sizes = |link: &mut ServerLink| -> Result<Vec<String>> {
        Ok(link.query("SHOW BINARY LOGS")?.iter().map(|row| row_text(row, 1)).collect())
    };
    let stored: Vec<String> = source
        .binlogs()?
        .iter()
        .map(|log| Ok(fs::metadata(log)?.len().to_string()))
        .collect::<Result<_>>()?;
    let listed = sizes(&mut link)?;
    ensure!(listed == stored && listed.len() == 2, "{listed:?}; the files have {stored:?}");
    let rendered = "SELECT COALESCE(SUM(rendered_bytes), 0) FROM bintide.forms";
    let rendered = row_text(link.query(rendered)?.first().context("no row")?, 0);
    ensure!(rendered == "0", "the relay read {rendered} bytes for a list of logs");
    let plain = sizes(&mut log_in("watch_plain", relay.port)?)?;
    ensure!(plain.len() == 2 && plain[0].parse::<u64>()? > stored[0].parse::<u64>()?, "{plain:?}");
    Ok(())
}

/// Connections beyond the account's limit and wrong passwords are refused and counted. Only many wrong passwords are
/// delayed.
#[test]
fn refused_logins_are_counted() -> Result<()> {
    let directory = TempDir::new()?;
    let accounts = directory.path().join("accounts.toml");
    add_account(&accounts, "few", &["--connections=1"])?;
    let source = source(TestPackage::Mysql)?;
    let accounts = accounts.display().to_string();
    let (relay, http) = RelayProcess::with_metrics(&index_of(&source)?, &["--accounts", &accounts])?;
    let first = log_in("few", relay.port)?;
    let refused = log_in("few", relay.port).err().context("a second connection was admitted")?;
    ensure!(refused.code() == Some(1203), "{refused}");
    let wrong =
        ServerAddress { password: PasswordSource::Text("wrong".to_owned()), ..address("few", relay.port) };
    let mut began = Instant::now();
    for _ in 0..4 {
        began = Instant::now();
        let refused = ServerLink::open(&wrong, &LinkOptions::default()).err();
        let code = refused.as_ref().and_then(ConnectionError::code);
        ensure!(code == Some(1045), "{refused:?}");
    }
    let delay = began.elapsed();
    ensure!(delay >= Duration::from_millis(100), "the fourth refusal came after {delay:?}");
    let counted = [("failed_logins_total", 4.0), ("refused_connections_total", 1.0), ("logins_total", 1.0)];
    for (name, expected) in counted {
        let found = metric(http, name)?;
        ensure!(found == expected, "{name} is {found}, expected {expected}");
    }
    drop(first);
    wait_until("the end of the first connection", || Ok(log_in("few", relay.port).is_ok()))
}

/// Returns a metric of the relay without labels.
fn metric(http: u16, name: &str) -> Result<f64> {
    let answer = e2e::metrics::get(http, "/metrics")?;
    let start = format!("bintide_relay_{name} ");
    let value =
        answer.text()?.lines().find_map(|line| line.strip_prefix(&start)).context("no such metric")?;
    Ok(value.parse()?)
}

/// Prepares a statement. Returns its number.
fn prepare(link: &mut ServerLink, sql: &str) -> Result<u32> {
    let mut reader = PrepareReader::new(link.session().capabilities);
    link.send(&ClientCommand::Prepare { sql: sql.as_bytes() })?;
    loop {
        if let Some(prepared) = reader.read(link.next()?)? {
            return Ok(prepared.statement);
        }
    }
}

/// Runs a prepared statement. Returns the packets of its rows.
fn execute(
    link: &mut ServerLink,
    statement: u32,
    parameters: Vec<ParameterValue<'_>>,
) -> Result<Result<Vec<Vec<u8>>, ServerError>> {
    let capabilities = link.session().capabilities;
    let mut payload = Vec::new();
    StatementExecution { statement, parameters }.encode(&mut payload);
    link.send(&ClientCommand::ExecuteStatement { statement, payload: &payload })?;
    let first = link.next()?;
    if first.first() == Some(&0xff) {
        return Ok(Err(ErrPacket::decode(first)?.to_error()));
    }
    for _ in 0..first[0] {
        link.next()?;
    }
    let mut rows = Vec::new();
    loop {
        let packet = link.next()?;
        if EofPacket::is(packet, capabilities) {
            return Ok(Ok(rows));
        }
        rows.push(packet.to_vec());
    }
}

/// Connectors prepare statements: values of all kinds, pieces of long values, and errors.
#[test]
fn prepared_statements_are_answered() -> Result<()> {
    let (_source, relay) = relay(&[])?;
    let mut link = log_in("repl", relay.port)?;
    let statement = prepare(&mut link, "SELECT ?, ?, ?")?;
    let values = vec![ParameterValue::Int(-2), ParameterValue::Bytes(b"it's"), ParameterValue::Null];
    let number = (-2_i64).to_le_bytes();
    // The third column is NULL: its bit follows two reserved bits.
    let expected = [&[0, 1 << 4][..], &number, b"\x04it's"].concat();
    for _ in 0..2 {
        let rows = execute(&mut link, statement, values.clone())?;
        ensure!(rows == Ok(vec![expected.clone()]), "{rows:02x?}");
    }
    let named = prepare(
        &mut link,
        "SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = ?",
    )?;
    for piece in [&b"log_"[..], b"bin"] {
        link.send(&ClientCommand::SendLongData { statement: named, parameter: 0, data: piece })?;
    }
    let rows = execute(&mut link, named, vec![ParameterValue::SentAhead])?;
    ensure!(rows == Ok(vec![b"\0\0\x02ON".to_vec()]), "{rows:02x?}");
    let logs = prepare(&mut link, "SHOW BINARY LOGS")?;
    let rows = execute(&mut link, logs, Vec::new())?;
    let names = rows.iter().flatten().filter(|row| row[2..].starts_with(b"\x0dbinlog.00000"));
    ensure!(names.count() == 2, "{rows:02x?}");
    let unknown = prepare(&mut link, "SELECT missing FROM bintide.clients WHERE connection_id = ?")?;
    let error = execute(&mut link, unknown, vec![ParameterValue::Int(1)])?;
    ensure!(error.as_ref().is_err_and(|error| error.code == 1054), "{error:?}");
    link.send(&ClientCommand::CloseStatement { statement })?;
    let error = execute(&mut link, statement, values)?;
    ensure!(error.as_ref().is_err_and(|error| error.code == 1243), "{error:?}");
    Ok(())
}

/// A replica reads over a compressed connection, with and without TLS. The network carries less than the log.
#[test]
fn replicas_compress_their_connections() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    let relay = RelayProcess::of(&source, &[])?;
    let proxy = Proxy::to(relay.port)?;
    let replica = replica(TestPackage::Mysql)?;
    let connect = |algorithm: &str, ssl: u8| {
        replica.sql(&format!(
            "stop replica; change replication source to source_host = '127.0.0.1', source_port = {}, \
             source_user = 'repl', source_auto_position = 1, source_connect_retry = 1, source_ssl = {ssl}, \
             source_compression_algorithms = '{algorithm}'; start replica",
            proxy.port()
        ))
    };
    let size = || -> Result<u64> { Ok(fs::metadata(&source.binlogs()?[0])?.len()) };
    let mut id = 0;
    for (algorithm, is_compressed) in [("uncompressed", false), ("zlib", true), ("zstd", true)] {
        for ssl in [0, 1] {
            connect(algorithm, ssl)?;
            wait_for_equal(&source, &replica)?;
            let (passed, stored) = (proxy.passed(), size()?);
            for _ in 0..3 {
                source.sql(&work(id, "off"))?;
                id += 100;
            }
            wait_for_equal(&source, &replica)?;
            let (passed, stored) = (proxy.passed() - passed, size()? - stored);
            let is_smaller = passed < stored / 2;
            ensure!(
                is_smaller == is_compressed,
                "{algorithm}, TLS {ssl}: {passed} bytes for {stored} bytes of the log"
            );
        }
    }
    Ok(())
}

/// A clean stop sends an error to clients that wait between two statements.
#[test]
fn idle_clients_receive_an_error_at_a_stop() -> Result<()> {
    let (_source, mut relay) = relay(&[])?;
    let mut stream = TcpStream::connect(("127.0.0.1", relay.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let [login, query] = [&replica_packets(9)?[0], &replica_packets(9)?[1]].map(Clone::clone);
    stream.write_all(&[login, query].concat())?;
    let mut asking = SqlConnection::open(&relay_address(relay.port))?;
    let idle = "SELECT COUNT(*) FROM bintide.clients WHERE user = 'repl' AND command = 'Sleep'";
    wait_until("the idle client", || Ok(asking.value(idle)?.as_deref() == Some("1")))?;
    drop(asking);
    relay.stop()?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    let expected = [&[0xff][..], &1053_u16.to_le_bytes(), b"#08S01Server shutdown in progress"].concat();
    ensure!(received.ends_with(&expected), "{}", String::from_utf8_lossy(&received));
    Ok(())
}

/// As on a server, `wait_timeout` limits the time between two statements.
#[test]
fn idle_clients_are_disconnected() -> Result<()> {
    let (_source, relay) = relay(&[])?;
    let (mut idle, mut other) = (log_in("idle", relay.port)?, log_in("other", relay.port)?);
    idle.query("SET SESSION wait_timeout = 1")?;
    other.query("SET SESSION wait_timeout = 100")?;
    let mut users = || -> Result<Vec<String>> {
        Ok(other.query("SHOW PROCESSLIST")?.iter().map(|row| row_text(row, 1)).collect())
    };
    wait_until("the end of the idle session", || Ok(users()? == ["other"]))?;
    ensure!(idle.query("SELECT 1").is_err());
    Ok(())
}

/// Starts a relay of many logs that take long to decompress: copies of one log.
fn relay_of_large_logs() -> Result<(TempDir, RelayProcess)> {
    const LOGS: u32 = 400;
    let source = source(TestPackage::Mysql8_0)?;
    source.sql("create database d; create table d.big (id int primary key, s longtext)")?;
    for id in 0..8 {
        source.sql(&format!(
            "set session binlog_transaction_compression = on; insert into d.big values ({id}, repeat('{id}', 8000000))"
        ))?;
    }
    source.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let log = |number: u32| directory.path().join(format!("binlog.{number:06}"));
    fs::copy(&source.binlogs()?[0], log(1))?;
    for number in 2..=LOGS {
        fs::hard_link(log(1), log(number))?;
    }
    let relay = RelayProcess::start(directory.path(), &["--form=plain"])?;
    Ok((directory, relay))
}

/// A list of logs that takes long ends at `KILL` and `KILL QUERY`, at the client's disconnect, and at a stop of the
/// relay.
#[test]
fn long_lists_of_logs_end_early() -> Result<()> {
    let (_logs, mut relay) = relay_of_large_logs()?;
    let mut asking = log_in("root", relay.port)?;
    let begin = |user: &str| -> Result<ServerLink> {
        let mut link = log_in(user, relay.port)?;
        link.send(&ClientCommand::Query { sql: b"SHOW BINARY LOGS" })?;
        Ok(link)
    };
    let count = |asking: &mut ServerLink, user: &str| -> Result<usize> {
        let rows = asking.query("SHOW PROCESSLIST")?;
        Ok(rows.iter().filter(|row| row_text(row, 1) == user && row_text(row, 4) == "Query").count())
    };
    let mut killed = begin("killed")?;
    let id = killed.session().connection_id;
    wait_until("the statement", || Ok(count(&mut asking, "killed")? == 1))?;
    asking.query(&format!("KILL {id}"))?;
    let error = ErrPacket::decode(killed.next()?)?.to_error();
    ensure!(error.code == 1317, "{error:?}");
    let mut interrupted = begin("interrupted")?;
    let id = interrupted.session().connection_id;
    wait_until("the statement", || Ok(count(&mut asking, "interrupted")? == 1))?;
    asking.query(&format!("KILL QUERY {id}"))?;
    let error = ErrPacket::decode(interrupted.next()?)?.to_error();
    ensure!(error.code == 1317, "{error:?}");
    ensure!(interrupted.query("SELECT 1")?.len() == 1, "KILL QUERY closed the connection");
    let gone = begin("gone")?;
    wait_until("the statement", || Ok(count(&mut asking, "gone")? == 1))?;
    drop(gone);
    wait_for_within(Duration::from_secs(2), || {
        ensure!(count(&mut asking, "gone")? == 0, "the statement of a lost connection goes on");
        Ok(())
    })?;
    let mut stopped = begin("stopped")?;
    wait_until("the statement", || Ok(count(&mut asking, "stopped")? == 1))?;
    let began = Instant::now();
    relay.stop()?;
    ensure!(began.elapsed() < Duration::from_secs(2), "the stop took {:?}", began.elapsed());
    let error = ErrPacket::decode(stopped.next()?)?.to_error();
    ensure!(error.code == 1317, "{error:?}");
    Ok(())
}
