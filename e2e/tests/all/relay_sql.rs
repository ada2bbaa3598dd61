//! SQL of `bintide relay` in the mysql client, compared with the answers of the source.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::command::ChildGuard;
use e2e::large;
use e2e::metrics::get;
use e2e::program::bintide;
use e2e::relayed::{RelayProcess, ReplicaStartPoint, ask, follow, index_of, status, wait_for_equal};
use tempfile::TempDir;
use testkit::{Launch, PackageHome, ProcessMemory, TestPackage, TestServer, free_port, wait_until};

fn source(package: TestPackage) -> Result<TestServer> {
    let launch = Launch::of(package).options(["--server-id=1", "--gtid-mode=ON"]);
    launch.options(["--enforce-gtid-consistency=ON", "--log-bin=binlog"]).start()
}

/// Runs compressed and plain transactions, some larger than a chunk of the relay.
fn work(source: &TestServer) -> Result<()> {
    let long = "x".repeat(300_000);
    source.sql("create database d; create table d.t (id int primary key, a longblob)")?;
    source.sql(&format!("create procedure d.long_one() begin /* {long} */ end"))?;
    source.sql("flush binary logs")?;
    let rows: Vec<String> = (0..12).map(|id| format!("({id}, random_bytes(1000))")).collect();
    let many: Vec<String> = (20..40).map(|id| format!("({id}, repeat(random_bytes(1000), 50))")).collect();
    let random: Vec<String> = (50..60).map(|id| format!("({id}, concat({}''))", RANDOM.repeat(60))).collect();
    source.sql(&format!(
        "set binlog_transaction_compression = on; insert into d.t values {}; begin; insert into d.t values {}; \
         update d.t set a = 'b' where id < 5; commit; insert into d.t values {}; \
         set binlog_transaction_compression = off; insert into d.t values (70, 'p'), (71, repeat('p', 600000)); \
         create table d.u (id int primary key); set binlog_transaction_compression = on; delete from d.t where id = 70",
        rows.join(", "),
        many.join(", "),
        random.join(", "),
    ))?;
    Ok(())
}

/// Text that compression does not shrink.
const RANDOM: &str = "random_bytes(1000), ";

#[test]
fn events_are_shown_as_the_source_shows_them() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let relay = RelayProcess::of(&source, &["--form", "as-is"])?;
    let events = ask(source.port(), "SHOW BINLOG EVENTS IN 'binlog.000002'", &[])?;
    let payload = events.lines().find(|line| line.contains("Transaction_payload")).context("no payload")?;
    let at: u64 = payload.split('\t').nth(1).context("no Pos")?.parse()?;
    let mut statements: Vec<String> = [
        "SHOW BINLOG EVENTS",
        "SHOW BINLOG EVENTS IN 'binlog.000001'",
        "SHOW BINLOG EVENTS IN 'binlog.000002'",
        "SHOW BINLOG EVENTS IN 'binlog.000002' FROM 4 LIMIT 10",
        "SHOW BINLOG EVENTS LIMIT 0",
        "SHOW BINLOG EVENTS LIMIT 2, 0",
        "SHOW BINLOG EVENTS IN 'binlog.000002' FROM 0 LIMIT 2",
        "SHOW BINLOG EVENTS IN 'binlog.000002' LIMIT 2 OFFSET 3",
        "SHOW BINLOG EVENTS IN 'binlog.000009'",
        "SHOW BINLOG EVENTS IN 'binlog.000002' FROM 5",
        "SHOW BINLOG EVENTS IN 'binlog.000002' FROM 130 LIMIT 3",
        "SHOW BINLOG EVENTS IN 'binlog.000002' FROM 999999999",
        "SHOW BINLOG EVENTS IN binlog",
        "SHOW BINLOG EVENTS FROM 4 IN 'binlog.000002'",
    ]
    .map(str::to_owned)
    .into();
    for limit in ["", "LIMIT 1", "LIMIT 2", "LIMIT 4", "LIMIT 1, 3", "LIMIT 3, 30"] {
        statements.push(format!("SHOW BINLOG EVENTS IN 'binlog.000002' FROM {at} {limit}"));
        statements.push(format!("SHOW BINLOG EVENTS IN 'binlog.000002' {limit}"));
    }
    for statement in &statements {
        let (ours, expected) = (relay.ask(statement)?, ask(source.port(), statement, &[])?);
        for (ours, expected) in ours.lines().zip(expected.lines()) {
            ensure!(ours == expected, "{statement}\nours:   {ours:.300}\nserver: {expected:.300}");
        }
        let counts = (ours.lines().count(), expected.lines().count());
        ensure!(counts.0 == counts.1, "{statement}: ours has {} lines, the server's {}", counts.0, counts.1);
    }
    Ok(())
}

/// Events of a rendered form are shown at the positions of its clients.
#[test]
fn events_of_a_form_equal_those_that_its_clients_receive() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    for form in ["plain", "compressed"] {
        let relay = RelayProcess::of(&source, &["--form", form])?;
        let directory = TempDir::new()?;
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("receive").arg(directory.path()).arg("--stop-at-end");
        command.arg(format!("--from=mysql://root@127.0.0.1:{}/", relay.port));
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for log in ["binlog.000001", "binlog.000002"] {
            let ours = relay.ask(&format!("SHOW BINLOG EVENTS IN '{log}'"))?;
            let expected = listed(&directory.path().join(log))?;
            for (ours, expected) in ours.lines().zip(expected.lines()) {
                ensure!(ours == expected, "{form} {log}\nours:     {ours:.300}\nexpected: {expected:.300}");
            }
            ensure!(ours.lines().count() == expected.lines().count(), "{form} {log}: {ours:.3000}");
        }
    }
    Ok(())
}

/// A listing of many events is not kept in memory, also if its client reads slowly.
#[test]
fn long_listings_take_little_memory() -> Result<()> {
    let directory = TempDir::new()?;
    let options =
        ["--binlog-row-event-max-size=256", "--binlog-transaction-compression=ON", "--log-bin=binlog"];
    large::record(&options, "binlog", directory.path())?;
    fs::rename(directory.path().join("binlog.binlog"), directory.path().join("binlog.000001"))?;
    let relay = RelayProcess::start(directory.path(), &["--form-cache=1M"])?;
    let id = relay.running.as_ref().context("it runs")?.id();
    let peak_kib = || anyhow::Ok(ProcessMemory::of(id)?.peak_kib);
    relay.ask("SHOW BINLOG EVENTS LIMIT 10")?;
    let before_kib = peak_kib()?;
    let mut client = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
    client.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--batch", "--quick"]);
    client.args(["-e", "SHOW BINLOG EVENTS"]).arg(format!("--port={}", relay.port)).stdout(Stdio::piped());
    let mut listing = client.spawn()?;
    thread::sleep(Duration::from_secs(1));
    let (mut lines, mut bytes) = (0, 0);
    for line in BufReader::new(listing.stdout.take().context("piped")?).split(b'\n') {
        (lines, bytes) = (lines + 1, bytes + line?.len() as u64 + 1);
    }
    let grown_kib = peak_kib()? - before_kib;
    ensure!(listing.wait()?.success() && lines > 50_000 && bytes > 4 << 20, "{lines} lines, {bytes} bytes");
    ensure!(grown_kib * 1024 < bytes / 2, "{lines} lines of {bytes} bytes took {grown_kib} KiB");
    Ok(())
}

/// Two relays of one source, of which one compresses closed logs: their plain forms have the same positions, their
/// stored forms have not.
#[test]
fn plain_positions_are_those_of_every_relay() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    source.sql("flush binary logs")?;
    let directories = [TempDir::new()?, TempDir::new()?];
    let relays = [
        receiving(&source, directories[0].path(), &["--form=plain"])?,
        receiving(&source, directories[1].path(), &["--form=plain", "--compress=19"])?,
    ];
    let stored =
        |relay: &RelayProcess| relay.ask("SELECT stored_size FROM bintide.logs WHERE name = 'binlog.000002'");
    let newest = ask(source.port(), "SHOW BINARY LOG STATUS", &[])?;
    for relay in &relays {
        wait_until("all logs", || Ok(relay.ask("SHOW BINARY LOG STATUS")? == newest))?;
    }
    wait_until("a compressed log", || Ok(stored(&relays[0])? != stored(&relays[1])?))?;
    for statement in ["SHOW BINARY LOGS", "SHOW BINLOG EVENTS IN 'binlog.000002'"] {
        let [first, second] = [relays[0].ask(statement)?, relays[1].ask(statement)?];
        ensure!(
            first == second && first.contains("binlog.000002"),
            "{statement}\n{first:.2000}\n{second:.2000}"
        );
    }
    Ok(())
}

/// As a server, the relay names a packet that is too large, and ends the connection.
/// Statements of many nested parts are refused, and the relay continues: they would exceed the stack of a client's thread.
#[test]
fn deeply_nested_statements_are_refused() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let relay = RelayProcess::of(&source, &[])?;
    let casts = format!("SELECT {}1{}", "CAST(".repeat(2000), " AS CHAR)".repeat(2000));
    let parentheses = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let mut tables = "WITH x0 AS (SELECT 1 a)".to_owned();
    for number in 1..1000 {
        tables.push_str(&format!(", x{number} AS (SELECT 1 a UNION SELECT * FROM x{})", number - 1));
    }
    for statement in [casts, parentheses, format!("{tables} SELECT * FROM x999")] {
        let answer = ask(relay.port, &statement, &[])?;
        ensure!(answer.contains("ERROR 1235"), "{answer}");
    }
    let nested = format!("SELECT {}1{} AS a", "CAST(".repeat(20), " AS CHAR)".repeat(20));
    ensure!(ask(relay.port, &nested, &[])?.ends_with("1\n"));
    Ok(())
}

#[test]
fn packets_have_a_limit() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let relay = RelayProcess::of(&source, &[])?;
    let limit: u64 =
        ask(relay.port, "SELECT @@max_allowed_packet", &["--skip-column-names"])?.trim().parse()?;
    source.sql(&format!("set global max_allowed_packet = {limit}"))?;
    for port in [relay.port, source.port()] {
        let mut client = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
        client.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--max-allowed-packet=1G"]);
        client.arg(format!("--port={port}")).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut asking = client.spawn()?;
        let statement = format!("SELECT '{}';", "x".repeat(usize::try_from(limit)?));
        asking.stdin.take().context("piped")?.write_all(statement.as_bytes())?;
        let printed = String::from_utf8_lossy(&asking.wait_with_output()?.stderr).into_owned();
        let expected = "ERROR 1153 (08S01) at line 1: Got a packet bigger than 'max_allowed_packet' bytes";
        ensure!(printed.trim() == expected, "{port}: {printed}");
    }
    ensure!(relay.ask("SELECT 1")? == "1\n1\n");
    Ok(())
}

fn listed(log: &Path) -> Result<String> {
    let output = Command::new(bintide()?).env_clear().args(["dump", "--events"]).arg(log).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

const STATS: &str = "performance_schema.binary_log_transaction_compression_stats";
const STAGES: &str = "performance_schema.events_stages_summary_global_by_event_name";

/// Reads all logs of a relay from this one on, once, with mysqlbinlog.
fn read_from(relay: &RelayProcess, log: &str) -> Result<()> {
    let directory = TempDir::new()?;
    let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysqlbinlog")?;
    command.args(["--no-defaults", "-R", "--raw", "--to-last-log", "--host=127.0.0.1", "--user=root"]);
    command.arg(format!("--port={}", relay.port)).arg(log).current_dir(directory.path());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The relay's statistics of transactions that it sent as-is equal the source's statistics of its log.
#[test]
fn sent_transactions_count_as_the_source_counts_them() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source
        .sql(&format!("flush binary logs; purge binary logs to 'binlog.000002'; truncate table {STATS}"))?;
    let first = source.binlogs()?.len();
    ensure!(first == 1, "{first} logs");
    work(&source)?;
    let relay = RelayProcess::of(&source, &["--form", "as-is"])?;
    let select = format!("SELECT * FROM {STATS}");
    ensure!(relay.ask(&select)?.is_empty(), "{}", relay.ask(&select)?);
    read_from(&relay, "binlog.000002")?;
    let expected = ask(source.port(), &format!("SET time_zone = '+00:00'; {select}"), &[])?;
    let found = relay.ask(&select)?;
    ensure!(found == expected, "\nours:\n{found}\nserver's:\n{expected}");
    // TRUNCATE in other letter cases and spellings.
    for truncate in [
        format!("TRUNCATE TABLE {STATS}"),
        format!("TRUNCATE {STATS}"),
        "USE performance_schema; TRUNCATE TABLE binary_log_transaction_compression_stats".to_owned(),
        "USE performance_schema; TRUNCATE binary_log_transaction_compression_stats".to_owned(),
    ] {
        ensure!(!relay.ask(&select)?.is_empty());
        ensure!(relay.ask(&truncate)?.is_empty(), "{truncate}: {}", relay.ask(&truncate)?);
        ensure!(relay.ask(&select)?.is_empty(), "{truncate}: {}", relay.ask(&select)?);
        read_from(&relay, "binlog.000002")?;
    }
    // The error messages equal the server's.
    for wrong in [
        "TRUNCATE TABLE performance_schema.global_variables",
        "TRUNCATE TABLE performance_schema.nothing",
        "TRUNCATE TABLE nothing",
        "TRUNCATE TABLE",
        "TRUNCATE TABLE nowhere.nothing",
    ] {
        let expected = ask(source.port(), wrong, &[])?;
        let ours = relay.ask(wrong)?;
        ensure!(ours == expected, "{wrong}\nours:   {ours}\nserver: {expected}");
    }
    Ok(())
}

/// Rendering is a stage: it counts each transaction that is decompressed.
#[test]
fn stages_count_decompressed_transactions() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let relay = RelayProcess::of(&source, &["--form", "plain"])?;
    let counts =
        format!("SELECT COUNT_STAR FROM {STAGES} WHERE EVENT_NAME LIKE '%ecompressing transaction%'");
    let count = |relay: &RelayProcess| -> Result<u64> {
        Ok(ask(relay.port, &counts, &["--skip-column-names"])?.trim().parse()?)
    };
    ensure!(count(&relay)? == 0);
    read_from(&relay, "binlog.000001")?;
    let times = format!(
        "SELECT * FROM {STAGES} WHERE SUM_TIMER_WAIT >= MAX_TIMER_WAIT AND MIN_TIMER_WAIT > 0 AND EVENT_NAME LIKE '%transaction changes.'"
    );
    ensure!(count(&relay)? == 4, "{}", relay.ask(&times)?);
    ensure!(relay.ask(&times)?.lines().count() == 2, "{}", relay.ask(&times)?);
    ensure!(relay.ask(&format!("TRUNCATE TABLE {STAGES}"))?.is_empty());
    ensure!(count(&relay)? == 0);
    Ok(())
}

/// The statements in the documentation run unchanged.
#[test]
fn documented_statements_run_unchanged() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let relay = RelayProcess::of(&source, &[])?;
    read_from(&relay, "binlog.000001")?;
    let variables = relay.ask("SHOW GLOBAL VARIABLES LIKE '%binlog%compression%'")?;
    ensure!(variables == ask(source.port(), "SHOW GLOBAL VARIABLES LIKE '%binlog%compression%'", &[])?);
    let stats = ask(relay.port, &format!("SELECT * FROM {STATS}"), &["--vertical"])?;
    ensure!(
        stats.contains("COMPRESSION_TYPE: ZSTD") && stats.contains("LAST_TRANSACTION_TIMESTAMP: 20"),
        "{stats}"
    );
    let select = format!(
        "SELECT EVENT_NAME, COUNT_STAR, FORMAT_PICO_TIME(SUM_TIMER_WAIT) AS total_latency, \
         FORMAT_PICO_TIME(AVG_TIMER_WAIT) AS avg_latency FROM {STAGES} WHERE EVENT_NAME LIKE 'stage/sql/%transaction%'"
    );
    let stages = relay.ask(&select)?;
    ensure!(
        stages.lines().count() == 3 && stages.contains("stage/sql/Compressing transaction changes."),
        "{stages}"
    );
    let events = relay.ask("SHOW BINLOG EVENTS IN 'binlog.000002' FROM 4 LIMIT 10")?;
    ensure!(events.lines().count() == 11 && events.contains("Previous_gtids"), "{events}");
    for table in [
        "performance_schema.session_connect_attrs",
        "performance_schema.log_status",
        "bintide.clients",
        "bintide.logs",
    ] {
        let rows = relay.ask(&format!("SELECT * FROM {table}"))?;
        ensure!(rows.lines().count() > 1 && !rows.contains("ERROR"), "{table}: {rows}");
    }
    ensure!(!relay.ask("SELECT * FROM bintide.forms")?.contains("ERROR"));
    Ok(())
}

/// `KILL` in the mysql client ends the connection of a replica, which then reconnects.
#[test]
fn kill_ends_the_dump_of_a_replica() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let relay = RelayProcess::of(&source, &[])?;
    let replica = Launch::mysql().options(["--server-id=2", "--skip-replica-start"]).start()?;
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'repl', \
         source_connect_retry = 1, source_log_file = 'binlog.000001', source_log_pos = 4; start replica io_thread",
        relay.port
    ))?;
    let dumps = "SELECT connection_id, last_commit IS NOT NULL FROM bintide.clients \
                 WHERE command LIKE 'Binlog Dump%' AND transactions_sent > 5";
    let dump = || ask(relay.port, dumps, &["--skip-column-names"]);
    wait_until("the dump", || Ok(dump()?.lines().count() == 1))?;
    let first = dump()?;
    let (id, has_commit) = first.trim().split_once('\t').context("expected two columns")?;
    ensure!(has_commit == "1", "{first}");
    ensure!(relay.ask(&format!("KILL {id}"))?.is_empty());
    wait_until("another connection", || {
        let clients = ask(relay.port, "SHOW PROCESSLIST", &["--skip-column-names"])?;
        let dumps: Vec<&str> = clients.lines().filter(|line| line.contains("Binlog Dump")).collect();
        Ok(dumps.len() == 1 && !dumps[0].starts_with(&format!("{id}\t")))
    })?;
    let gone = relay.ask(&format!("KILL {id}"))?;
    ensure!(
        gone.contains("ERROR 1094 (HY000)") && gone.contains(&format!("Unknown thread id: {id}")),
        "{gone}"
    );
    Ok(())
}

/// Starts a relay that receives from a source into a directory.
fn receiving(source: &TestServer, directory: &Path, more: &[&str]) -> Result<RelayProcess> {
    let from = format!("--from=mysql://root@127.0.0.1:{}/", source.port());
    RelayProcess::start(&directory.join("logs"), &[&[from.as_str()], more].concat())
}

/// Returns the columns of a statement's only row, with their names from the first line.
fn row_of(relay: &RelayProcess, statement: &str) -> Result<Vec<(String, String)>> {
    let shown = relay.ask(statement)?;
    let mut lines = shown.lines().map(|line| line.split('\t').map(str::to_owned));
    let (names, values) =
        (lines.next().context("no line with names")?, lines.next().context("no line with values")?);
    Ok(names.zip(values).collect())
}

fn value_of(row: &[(String, String)], name: &str) -> Result<String> {
    let (_, value) = row.iter().find(|(known, _)| known == name).with_context(|| name.to_owned())?;
    Ok(value.clone())
}

/// The columns equal those of the servers, new and old; SQL stops and starts receiving.
#[test]
fn receiving_is_shown_and_controlled_as_a_replica() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let directory = TempDir::new()?;
    let relay = receiving(&source, directory.path(), &[])?;
    for (package, statement, word) in [
        (TestPackage::Mysql, "SHOW REPLICA STATUS", "SOURCE"),
        (TestPackage::Mysql8_0, "SHOW SLAVE STATUS", "MASTER"),
    ] {
        let replica = Launch::of(package).options(["--server-id=2"]).start()?;
        let change = if word == "SOURCE" { "REPLICATION SOURCE" } else { word };
        replica.sql(&format!("change {change} to {word}_host = '127.0.0.1'"))?;
        let expected = ask(replica.port(), statement, &[])?;
        let ours = relay.ask(statement)?;
        ensure!(ours.lines().next() == expected.lines().next(), "\nours:   {ours}\nserver: {expected}");
    }
    let end = ask(source.port(), "SHOW BINARY LOG STATUS", &["--skip-column-names"])?;
    let end: Vec<&str> = end.trim().split('\t').collect();
    let status = |name: &str| value_of(&row_of(&relay, "SHOW REPLICA STATUS FOR CHANNEL ''")?, name);
    wait_until("all events", || Ok(status("Read_Source_Log_Pos")? == end[1]))?;
    ensure!(status("Source_Log_File")? == end[0] && status("Replica_IO_Running")? == "Yes");
    ensure!(status("Retrieved_Gtid_Set")? == end[4], "{}", status("Retrieved_Gtid_Set")?);
    ensure!(status("Source_Server_Id")? == "1");
    let uuid = source.sql("select @@server_uuid")?.trim().to_owned();
    ensure!(status("Source_UUID")? == uuid);
    let connection = row_of(&relay, "SELECT * FROM performance_schema.replication_connection_status")?;
    ensure!(value_of(&connection, "SERVICE_STATE")? == "ON" && value_of(&connection, "SOURCE_UUID")? == uuid);
    let last = value_of(&connection, "LAST_QUEUED_TRANSACTION")?;
    ensure!(last == format!("{uuid}:{}", end[4].rsplit('-').next().context("no last number")?), "{last}");
    // The statistics of received transactions equal those of the source's log, except for checksums.
    let received =
        format!("SELECT COMPRESSION_TYPE, TRANSACTION_COUNTER FROM {STATS} WHERE LOG_TYPE = 'RELAY'");
    let sent = format!("SELECT COMPRESSION_TYPE, TRANSACTION_COUNTER FROM {STATS} WHERE LOG_TYPE = 'BINARY'");
    ensure!(relay.ask(&received)? == ask(source.port(), &sent, &[])?, "{}", relay.ask(&received)?);
    ensure!(relay.ask("STOP REPLICA")?.is_empty());
    wait_until("the end of the connection", || Ok(status("Replica_IO_Running")? == "No"))?;
    source.sql("create table d.later (id int primary key)")?;
    let again = ask(relay.port, "STOP REPLICA", &["--show-warnings"])?;
    ensure!(again.contains("Note (Code 3084)"), "{again}");
    ensure!(status("Read_Source_Log_Pos")? == end[1]);
    ensure!(relay.ask("START REPLICA")?.is_empty());
    wait_until("the later transaction", || Ok(status("Read_Source_Log_Pos")? != end[1]))?;
    // SQL shows the error of a lost source.
    drop(source);
    wait_until("the error", || Ok(status("Last_IO_Errno")? != "0"))?;
    ensure!(status("Replica_IO_Running")? == "Connecting" && !status("Last_IO_Error")?.is_empty());
    Ok(())
}

/// A relay whose source fails serves its logs, also after a restart. Receiving continues once the source is usable.
#[test]
fn stored_logs_are_served_while_the_source_fails() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source
        .sql("create user r identified by 'right'; grant replication slave on *.* to r; create database d")?;
    let directory = TempDir::new()?;
    let (logs, secret) = (directory.path().join("logs"), directory.path().join("password"));
    fs::write(&secret, "right\n")?;
    let secret = format!("--password-file={}", secret.display());
    let start = |port: u16| {
        let from = format!("--from=mysql://r@127.0.0.1:{port}/");
        RelayProcess::start(&logs, &[&from, &secret, "--get-server-public-key"])
    };
    let executed = "SELECT @@GLOBAL.gtid_executed";
    let stored = || ask(source.port(), executed, &[]);
    let show = |relay: &RelayProcess, name: &str| value_of(&row_of(relay, "SHOW REPLICA STATUS")?, name);
    let relay = start(source.port())?;
    wait_until("all transactions", || Ok(relay.ask(executed)? == stored()?))?;
    drop(relay);
    let relay = start(free_port()?)?;
    wait_until("the lost source", || Ok(show(&relay, "Last_IO_Errno")? == "2003"))?;
    ensure!(show(&relay, "Replica_IO_Running")? == "Connecting" && relay.ask(executed)? == stored()?);
    drop(relay);
    let before = stored()?;
    source.sql("set sql_log_bin = 0; alter user r identified by 'other'")?;
    let relay = start(source.port())?;
    wait_until("the refused login", || Ok(show(&relay, "Last_IO_Errno")? == "1045"))?;
    ensure!(show(&relay, "Replica_IO_Running")? == "Connecting" && relay.ask(executed)? == before);
    source.sql(
        "create table d.t (id int primary key); set sql_log_bin = 0; alter user r identified by 'right'",
    )?;
    relay.ask("STOP REPLICA; START REPLICA")?;
    wait_until("the later transaction", || Ok(relay.ask(executed)? == stored()?))?;
    let before = stored()?;
    source.sql("reset binary logs and gtids; create table d.u (id int primary key)")?;
    // The reset has no effect on the running connection.
    drop(relay);
    let relay = start(source.port())?;
    wait_until("the end of receiving", || Ok(show(&relay, "Replica_IO_Running")? == "No"))?;
    ensure!(!show(&relay, "Last_IO_Error")?.is_empty() && relay.ask(executed)? == before);
    Ok(())
}

/// A log whose file is missing has size 0, as on a server.
#[test]
fn a_missing_log_does_not_hide_the_others() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    source.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let relay = receiving(&source, directory.path(), &[])?;
    let executed = "SELECT @@GLOBAL.gtid_executed";
    wait_until("all transactions", || Ok(relay.ask(executed)? == ask(source.port(), executed, &[])?))?;
    let sizes = "SELECT name, form, size FROM bintide.log_sizes";
    // The mysql client receives the form plain.
    ensure!(relay.ask("SHOW BINARY LOGS")?.contains("binlog.000002"));
    fs::remove_file(directory.path().join("logs/binlog.000002"))?;
    let shown = relay.ask("SHOW BINARY LOGS")?;
    ensure!(shown.contains("binlog.000002\t0\tNo") && shown.contains("binlog.000003"), "{shown}");
    let shown = relay.ask("SELECT name, size FROM bintide.logs")?;
    ensure!(shown.contains("binlog.000002\t0\n") && shown.contains("binlog.000003"), "{shown}");
    let shown = relay.ask(sizes)?;
    ensure!(shown.contains("binlog.000002\tas-is\t0\n") && shown.contains("binlog.000003\tas-is"), "{shown}");
    Ok(())
}

/// bintide reads compressed transactions, so its copy of a relay's logs is identical.
#[test]
fn receive_copies_the_logs_of_a_relay_byte_for_byte() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    source.sql("flush binary logs")?;
    let relay = RelayProcess::of(&source, &[])?;
    let directory = TempDir::new()?;
    let from = format!("--from=mysql://root@127.0.0.1:{}/", relay.port);
    let mut command = Command::new(bintide()?);
    let output =
        command.env_clear().arg("receive").arg(directory.path()).args([&from, "--stop-at-end"]).output()?;
    ensure!(output.status.success(), "{output:?}");
    let stored = index_of(&source)?;
    let stored = stored.parent().context("no directory")?;
    for log in ["binlog.000001", "binlog.000002"] {
        ensure!(fs::read(directory.path().join(log))? == fs::read(stored.join(log))?, "{log} differs");
    }
    Ok(())
}

/// With logs of MariaDB, the columns are those of a MariaDB server.
#[test]
fn the_upstream_of_mariadb_is_shown() -> Result<()> {
    let source = Launch::mariadb().options(["--server-id=1", "--log-bin=binlog"]).start()?;
    source.sql("create database d; create table d.t (id int primary key); insert into d.t values (1)")?;
    let directory = TempDir::new()?;
    let relay = receiving(&source, directory.path(), &[])?;
    let replica = Launch::mariadb().options(["--server-id=2"]).start()?;
    replica.sql("change master to master_host = '127.0.0.1'")?;
    let names = |port: u16, statement: &str| -> Result<String> {
        let mut client = PackageHome::find(TestPackage::MariaDb)?.command("mariadb")?;
        client.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--batch", "-e", statement]);
        let output = client.arg(format!("--port={port}")).output()?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    for statement in ["SHOW SLAVE STATUS", "SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS"] {
        let (ours, expected) = (names(relay.port, statement)?, names(replica.port(), statement)?);
        ensure!(ours == expected && expected.contains("Using_Gtid"), "\nours:   {ours}\nserver: {expected}");
    }
    let position = source.sql("select @@gtid_binlog_pos")?.trim().to_owned();
    wait_until("all transactions", || {
        Ok(value_of(&row_of(&relay, "SHOW SLAVE STATUS")?, "Gtid_IO_Pos")? == position)
    })
}

/// Compares the errors of `CHANGE REPLICATION SOURCE TO` with those of a replica, while both run, and stopped.
fn compare_change_errors(relay: &RelayProcess, replica: &TestServer) -> Result<()> {
    for state in ["START", "STOP"] {
        for asked in [relay.port, replica.port()] {
            ask(asked, &format!("{state} REPLICA"), &[])?;
        }
        wait_until("the state", || {
            // The column Replica_IO_Running.
            let running = status(replica)?.split('\t').nth(10) != Some("No");
            Ok(running == (state == "START"))
        })?;
        let mut wrong =
            vec!["", "odd=1", "source_host=1", "source_host=x", "source_port='x'", "source_ssl=on"];
        wrong.extend(["source_host='a',", "source_ssl=1 source_host='x'", "source_port=-1"]);
        if state == "START" {
            wrong.push("source_user='x'");
        } else {
            wrong.extend(["source_host=''", "source_password='012345678901234567890123456789012'"]);
        }
        for options in wrong {
            let ours = relay.ask(&format!("CHANGE REPLICATION SOURCE TO {options}"))?;
            let expected = ask(replica.port(), &format!("CHANGE REPLICATION SOURCE TO {options}"), &[])?;
            ensure!(
                ours == expected && ours.contains("ERROR"),
                "{options}\nours:   {ours}\nserver: {expected}"
            );
        }
    }
    Ok(())
}

/// `CHANGE REPLICATION SOURCE TO` names another server, which must have all stored transactions. Its errors are a
/// server's.
#[test]
fn the_source_is_changed_by_sql() -> Result<()> {
    let [first, second, other] = [1, 2, 3].map(|id| {
        let launch =
            Launch::mysql().options([format!("--server-id={id}"), "--log-replica-updates=ON".to_owned()]);
        launch.start()
    });
    let (first, second, other) = (first?, second?, other?);
    first.sql(
        "create user repl; create user r identified by 'secret'; grant replication slave on *.* to repl, r; create database d",
    )?;
    first.sql("create table d.t (id int primary key); insert into d.t values (1)")?;
    follow(&second, first.port(), ReplicaStartPoint::Gtids)?;
    wait_for_equal(&first, &second)?;
    let directory = TempDir::new()?;
    let relay = receiving(&first, directory.path(), &[])?;
    let show = |name: &str| value_of(&row_of(&relay, "SHOW REPLICA STATUS")?, name);
    let change = |options: &str| relay.ask(&format!("CHANGE REPLICATION SOURCE TO {options}"));
    compare_change_errors(&relay, &second)?;
    // A wrong account ends the connection, not the relay. The password may be set right on the source.
    change("SOURCE_USER='r', SOURCE_PASSWORD='wrong'")?;
    relay.ask("START REPLICA")?;
    wait_until("the refused login", || Ok(show("Last_IO_Errno")? == "1045"))?;
    ensure!(show("Replica_IO_Running")? == "Connecting", "{}", show("Last_IO_Error")?);
    relay.ask("STOP REPLICA")?;
    // The first server does not pass on what the second one writes.
    second.sql("set global read_only = 0; insert into d.t values (2)")?;
    let port = second.port();
    let login = "SOURCE_USER='r', SOURCE_PASSWORD='secret', GET_SOURCE_PUBLIC_KEY=1";
    let changed = ask(
        relay.port,
        &format!("CHANGE REPLICATION SOURCE TO SOURCE_PORT={port}, {login}, SOURCE_AUTO_POSITION=1"),
        &["--show-warnings"],
    )?;
    ensure!(changed.contains("Note (Code 1105): The relay uses this source until it stops"), "{changed}");
    ensure!(show("Source_Port")? == port.to_string() && show("Replica_IO_Running")? == "No");
    relay.ask("START REPLICA")?;
    let executed = "SELECT @@GLOBAL.gtid_executed";
    let has_all = |server: &TestServer| Ok(relay.ask(executed)? == ask(server.port(), executed, &[])?);
    wait_until("the second server's transactions", || has_all(&second))?;
    ensure!(show("Source_Server_Id")? == "2" && show("Source_User")? == "r");
    // A server without the stored transactions is refused, until another one is named.
    relay.ask("STOP REPLICA")?;
    change(&format!("SOURCE_PORT={}, SOURCE_USER='root', SOURCE_PASSWORD=''", other.port()))?;
    relay.ask("START REPLICA")?;
    wait_until("the error", || Ok(show("Last_IO_Error")?.contains("lacks transactions that")))?;
    relay.ask("STOP REPLICA")?;
    change(&format!("SOURCE_PORT={port}, SOURCE_USER='r', SOURCE_PASSWORD='secret'"))?;
    relay.ask("START REPLICA")?;
    second.sql("insert into d.t values (3)")?;
    wait_until("the last transaction", || has_all(&second))?;
    // Replicas of the relay continue.
    follow(&other, relay.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&second, &other)
}

/// `SHOW REPLICA STATUS` shows a full disk, until it has space again. A maximum file size acts like a full disk.
#[test]
fn a_full_disk_is_an_error_of_the_receiver() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, a longblob)")?;
    let insert = "insert into d.t (a) values (repeat('x', 100000))";
    source.sql(&[insert; 20].join("; "))?;
    let (directory, port) = (TempDir::new()?, free_port()?);
    let mut limited = Command::new("/bin/sh");
    limited.env_clear().args(["-c", "ulimit -S -f 2000 && trap '' XFSZ && exec \"$0\" \"$@\""]);
    limited.arg(bintide()?).arg("relay").arg(directory.path().join("logs"));
    limited.arg(format!("--from=mysql://root@127.0.0.1:{}/", source.port()));
    limited.arg(format!("--listen=127.0.0.1:{port}")).stderr(Stdio::piped());
    let mut running = ChildGuard::start(&mut limited)?;
    let stderr = running.stderr.take().context("standard error is not piped")?;
    let lines = thread::spawn(move || {
        BufReader::new(stderr).lines().map_while(std::result::Result::ok).collect::<Vec<_>>()
    });
    let is_error = |number: &str| {
        let shown = ask(port, "SHOW REPLICA STATUS", &["--vertical"])?;
        Ok(shown.contains(&format!("Last_IO_Errno: {number}\n")))
    };
    wait_until("the error of the full disk", || is_error("1595"))?;
    let shown = ask(port, "SHOW REPLICA STATUS", &["--vertical"])?;
    ensure!(shown.contains("File too large") && shown.contains("Replica_IO_Running: Connecting"), "{shown}");
    let pid = running.id().to_string();
    let raised = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status()?;
    ensure!(raised.success(), "the limit was not raised");
    wait_until("the end of the error", || is_error("0"))?;
    ask(port, "STOP REPLICA", &[])?;
    running.interrupt()?;
    running.wait()?;
    let lines = lines.join().map_err(|_| anyhow!("the reader panicked"))?;
    let is_noted = lines.iter().any(|line| line.ends_with("root@localhost executed: STOP REPLICA"));
    ensure!(is_noted, "{lines:?}");
    Ok(())
}

/// `PURGE` and `--keep` delete logs, except those that a client reads.
#[test]
fn logs_that_a_client_reads_are_not_deleted() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, a longblob)")?;
    // More data than the buffers between the relay and a client that does not read.
    let insert = "insert into d.t (a) values (repeat(random_bytes(1000), 2000))";
    source.sql(&[insert; 12].join("; "))?;
    let directory = TempDir::new()?;
    let relay = receiving(&source, directory.path(), &["--keep=1K"])?;
    let is_there = |log: &str| directory.path().join("logs").join(log).exists();
    let mut client = PackageHome::find(TestPackage::Mysql)?.command("mysqlbinlog")?;
    client.args(["--no-defaults", "-R", "--stop-never", "--host=127.0.0.1", "--user=repl", "binlog.000001"]);
    client.arg(format!("--port={}", relay.port)).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut reading = client.spawn()?;
    let reads = "SELECT log FROM bintide.clients WHERE command LIKE 'Binlog Dump%'";
    wait_until("the client", || {
        Ok(ask(relay.port, reads, &["--skip-column-names"])?.trim() == "binlog.000001")
    })?;
    // The relay forwards FLUSH BINARY LOGS to the source.
    for log in ["binlog.000002", "binlog.000003", "binlog.000004"] {
        let flushed = relay.ask("FLUSH BINARY LOGS")?;
        ensure!(flushed.is_empty(), "{flushed}");
        wait_until("the next log", || Ok(is_there(log)))?;
        source.sql("insert into d.t (a) values ('x')")?;
    }
    ensure!(
        is_there("binlog.000001") && is_there("binlog.000002"),
        "--keep deleted a log that a client reads"
    );
    let purged = ask(relay.port, "PURGE BINARY LOGS TO 'binlog.000003'", &["--show-warnings"])?;
    ensure!(purged.contains("Warning (Code 1867): file binlog.000001 was not purged"), "{purged}");
    ensure!(purged.contains("repl@127.0.0.1:") && is_there("binlog.000001"), "{purged}");
    let forced = "SET SESSION bintide_purge_force = ON; PURGE BINARY LOGS TO 'binlog.000002'";
    let forced = ask(relay.port, forced, &["--show-warnings"])?;
    ensure!(forced.contains(") reads binlog.000001") && !forced.contains("Warning"), "{forced}");
    ensure!(!is_there("binlog.000001") && is_there("binlog.000002"));
    reading.kill()?;
    reading.wait()?;
    wait_until("the client's end", || Ok(relay.ask(reads)?.is_empty()))?;
    let purged = ask(relay.port, "PURGE BINARY LOGS TO 'binlog.000003'", &["--show-warnings"])?;
    ensure!(purged.is_empty() && !is_there("binlog.000002") && is_there("binlog.000003"), "{purged}");
    for wrong in ["PURGE BINARY LOGS TO 'binlog.000009'", "PURGE BINARY LOGS TO binlog", "PURGE BINARY LOGS"]
    {
        let (ours, expected) = (relay.ask(wrong)?, ask(source.port(), wrong, &[])?);
        ensure!(ours == expected, "\nours:   {ours}\nserver: {expected}");
    }
    let active = ask(relay.port, "PURGE BINARY LOGS BEFORE '2100-01-01 00:00:00'", &["--show-warnings"])?;
    let expected =
        ask(source.port(), "PURGE BINARY LOGS BEFORE '2100-01-01 00:00:00'", &["--show-warnings"])?;
    ensure!(active == expected.replace("./", ""), "\nours:   {active}\nserver: {expected}");
    ensure!(!is_there("binlog.000003") && is_there("binlog.000004"));
    Ok(())
}

/// `SET GLOBAL` sets the form of clients that connect later.
#[test]
fn compression_is_set_by_sql() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    work(&source)?;
    let relay = RelayProcess::of(&source, &[])?;
    let on = "SET GLOBAL binlog_transaction_compression = ON, GLOBAL binlog_transaction_compression_level_zstd = 9";
    ensure!(relay.ask(on)?.is_empty(), "{}", relay.ask(on)?);
    read_from(&relay, "binlog.000001")?;
    let counts =
        format!("SELECT COMPRESSION_TYPE, TRANSACTION_COUNTER FROM {STATS} WHERE LOG_TYPE = 'BINARY'");
    let compressed = relay.ask(&counts)?;
    ensure!(
        relay
            .ask(&format!("SET GLOBAL binlog_transaction_compression = OFF; TRUNCATE TABLE {STATS}"))?
            .is_empty()
    );
    read_from(&relay, "binlog.000001")?;
    let as_is = relay.ask(&counts)?;
    ensure!(as_is == ask(source.port(), &counts, &[])? && as_is != compressed, "{compressed}{as_is}");
    for statement in [
        "SET GLOBAL binlog_transaction_compression_level_zstd = 30",
        "SET GLOBAL binlog_transaction_compression = 5",
        "BEGIN; SET SESSION binlog_transaction_compression = ON",
        "BEGIN; SET SESSION binlog_transaction_compression_level_zstd = 5",
    ] {
        let (ours, expected) = (
            ask(relay.port, statement, &["--show-warnings"])?,
            ask(source.port(), statement, &["--show-warnings"])?,
        );
        ensure!(ours == expected, "{statement}\nours:   {ours}\nserver: {expected}");
    }
    Ok(())
}

/// `SET GLOBAL` also sets the compression of logs that a receiving relay closes later. Other logs stay as they are.
#[test]
fn compression_of_stored_logs_is_set_by_sql() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, a text)")?;
    let directory = TempDir::new()?;
    let from = format!("--from=mysql://root@127.0.0.1:{}/", source.port());
    let (relay, http) = RelayProcess::with_metrics(&directory.path().join("logs"), &[&from])?;
    let stored = |number: u32| directory.path().join("logs").join(format!("binlog.{number:06}"));
    let next_log = |number: u32| -> Result<()> {
        source.sql("insert into d.t (a) values (repeat('compressible ', 4000)); flush binary logs")?;
        let next = stored(number + 1);
        wait_until("the next log", || Ok(fs::metadata(&next).is_ok_and(|log| log.len() > 150)))
    };
    let is_equal = |number: u32| -> Result<bool> {
        Ok(fs::read(stored(number))? == fs::read(&source.binlogs()?[number as usize - 1])?)
    };
    next_log(1)?;
    let on = "SET GLOBAL binlog_transaction_compression = ON, GLOBAL binlog_transaction_compression_level_zstd = 9";
    let noted = ask(relay.port, on, &["--show-warnings"])?;
    ensure!(noted.contains("Note (Code 1105): The relay also compresses logs"), "{noted}");
    next_log(2)?;
    wait_until("the compressed log", || {
        Ok(fs::metadata(stored(2))?.len() * 5 < fs::metadata(&source.binlogs()?[1])?.len())
    })?;
    ensure!(relay.ask("SET GLOBAL binlog_transaction_compression = OFF")?.is_empty());
    next_log(3)?;
    next_log(4)?;
    thread::sleep(Duration::from_secs(1));
    ensure!(is_equal(1)? && !is_equal(2)? && is_equal(3)? && is_equal(4)?, "another log was compressed");
    let counted = |log_type: &str| -> Result<Vec<u64>> {
        let (answer, label) = (get(http, "/metrics")?, format!("log_type=\"{log_type}\""));
        let name = "bintide_receive_compression_transactions_total{";
        let lines = answer.text()?.lines().filter(|line| line.starts_with(name) && line.contains(&label));
        let number = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse().ok());
        Ok(lines.filter_map(number).collect())
    };
    let (received, kept) = (counted("RELAY")?, counted("BINARY")?);
    ensure!(
        !received.is_empty() && received.iter().sum::<u64>() == kept.iter().sum::<u64>(),
        "{received:?} {kept:?}"
    );
    // The source's transactions are complete in both forms.
    for form in ["as-is", "plain"] {
        let other = RelayProcess::start(&directory.path().join("logs"), &["--form", form])?;
        let executed = "SELECT @@GLOBAL.gtid_executed";
        ensure!(other.ask(executed)? == ask(source.port(), executed, &[])?, "{form}");
    }
    Ok(())
}
