//! `bintide diff` on logs of real servers: a replica's logs equal those of its source, and each difference is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::CommandOutput;
use e2e::program::bintide;
use e2e::relayed::index_of;
use e2e::replays::script;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

/// Scripts of samples that replicate. Each session of a script is a connection of its own.
const SCRIPTS: [&str; 10] = [
    "charsets",
    "ddl",
    "foreign-keys",
    "json",
    "mixed-engines",
    "partitions",
    "savepoints",
    "triggers",
    "types",
    "xa",
];

#[test]
fn replicas_equal_their_source() -> Result<()> {
    let options: [[&[&str]; 2]; 3] = [
        [&["--binlog-transaction-compression=ON", "--max-binlog-size=16384"], &["--binlog-checksum=NONE"]],
        [
            &["--binlog-row-value-options=PARTIAL_JSON", "--binlog-row-metadata=FULL"],
            &["--binlog-row-value-options=PARTIAL_JSON", "--binlog-row-event-max-size=256"],
        ],
        [&["--binlog-format=MIXED"], &["--binlog-format=MIXED", "--binlog-transaction-compression=ON"]],
    ];
    for options in options {
        let [source, replica] = pair(options)?;
        for script in SCRIPTS {
            run_script(&source, script)?;
        }
        catch_up(&source, &replica)?;
        let (report, ran) = diff(&index_of(&source)?, &index_of(&replica)?, &[])?;
        ensure!(ran.code == Some(0), "{options:?}: {report:#} {}", ran.stderr);
        ensure!(report["in_both"].as_u64() > Some(200) && report["other_order"]["count"] == 0, "{report:#}");
    }
    Ok(())
}

#[test]
fn mariadb_replicas_equal_their_source() -> Result<()> {
    let launch = |id: u8, option: &str| {
        let options = ["--binlog-format=ROW", "--log-slave-updates=ON", "--gtid-strict-mode=OFF", option];
        Launch::mariadb().options(options).option(format!("--server-id={id}")).start()
    };
    let (source, replica) =
        (launch(1, "--log-bin-compress=ON")?, launch(2, "--binlog-annotate-row-events=OFF")?);
    replica.sql(&format!(
        "change master to master_host = '127.0.0.1', master_port = {}, master_user = 'root',
            master_use_gtid = slave_pos; start slave",
        source.port()
    ))?;
    run_script(&source, "mariadb")?;
    let reached = source.sql("select @@gtid_binlog_pos")?;
    let waited = replica.sql(&format!("select master_gtid_wait('{}', 60)", reached.trim()))?;
    ensure!(waited.trim() == "0", "{waited}");
    let (report, ran) = diff(&index_of(&source)?, &index_of(&replica)?, &[])?;
    ensure!(ran.code == Some(0), "{report:#} {}", ran.stderr);
    ensure!(report["in_both"].as_u64() > Some(20), "{report:#}");
    Ok(())
}

#[test]
fn compressed_and_encrypted_copies_are_equal() -> Result<()> {
    let mut source = Launch::mysql().keyring().option("--binlog-encryption=ON").start()?;
    run_script(&source, "types")?;
    source.sql("flush binary logs; create table types.more (id int)")?;
    let keyring = source.datadir().join("keyring").display().to_string();
    let logs = source.binlogs()?;
    source.stop()?;
    let directory = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .args(["decompress", "--keyring", &keyring, "--output"])
        .arg(directory.path())
        .args(&logs);
    let ran: CommandOutput = command.output()?.into();
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    let compressed = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .args(["compress", "--keyring", &keyring, "--output"])
        .arg(compressed.path())
        .args(&logs);
    let ran: CommandOutput = command.output()?.into();
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    for copy in [directory.path(), compressed.path()] {
        let (report, ran) = diff(&index_of(&source)?, copy, &["--order", "--keyring", &keyring])?;
        ensure!(ran.code == Some(0) && report["verdict"] == "equal", "{report:#} {}", ran.stderr);
        ensure!(report["a"]["transactions"] == report["in_both"], "{report:#}");
    }
    let (_, ran) = diff(&index_of(&source)?, directory.path(), &[])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("--keyring"), "{ran:?}");
    Ok(())
}

/// A row that was changed on the replica alone is in the before image of the source's next change.
#[test]
fn a_drifted_row_is_found_with_its_position() -> Result<()> {
    let [source, replica] = pair([&[], &[]])?;
    source.sql(
        "create database d; create table d.t (id int primary key, a int, b int); \
         insert into d.t values (1, 1, 1), (2, 2, 2), (3, 3, 3); flush binary logs",
    )?;
    catch_up(&source, &replica)?;
    replica.sql("set sql_log_bin = 0; update d.t set b = 77 where id = 2")?;
    source.sql(
        "create table d.other (id int primary key); begin; insert into d.other values (1); \
         update d.t set a = a + 1; commit; insert into d.other values (2)",
    )?;
    catch_up(&source, &replica)?;
    let (report, ran) = diff(&index_of(&source)?, &index_of(&replica)?, &[])?;
    ensure!(ran.code == Some(1) && report["verdict"] == "different", "{report:#}");
    let found = &report["other_content"];
    ensure!(found["count"] == 1, "{report:#}");
    let transaction = &found["transactions"][0];
    ensure!(transaction["tables"] == serde_json::json!(["d.other", "d.t"]), "{transaction:#}");
    let first = &transaction["first_difference"];
    ensure!(first["statement"] == 2 && first["property"] == "row_values", "{transaction:#}");
    let part = serde_json::json!({"change": "UPDATE", "table": "d.t", "rows": 3});
    ensure!(first["a"] == part && first["b"] == part, "{transaction:#}");
    for (server, side) in [(&source, "a"), (&replica, "b")] {
        let found = &transaction[side];
        let log = Path::new(found["log_name"].as_str().context("no log")?);
        let log = log.file_name().context("no name")?.to_string_lossy();
        let event = server.sql(&format!("show binlog events in '{log}' from {} limit 1", found["pos"]))?;
        let gtid = transaction["gtid"].as_str().context("no GTID")?;
        ensure!(event.contains("Gtid") && event.contains(gtid), "{event} {transaction:#}");
    }
    let text = run(&index_of(&source)?, &index_of(&replica)?, &[])?;
    ensure!(text.stdout.contains("statement 2: different values: UPDATE d.t, 3 rows"), "{}", text.stdout);
    Ok(())
}

#[test]
fn missing_and_purged_transactions() -> Result<()> {
    let [source, replica] = pair([&[], &[]])?;
    source.sql("create database d; create table d.t (id int primary key); insert into d.t values (1)")?;
    let uuid = source.sql("select @@server_uuid")?;
    let gtids = |numbers: &str| Value::from(format!("{}:{numbers}", uuid.trim()));
    source.sql(
        "flush binary logs; insert into d.t values (2); flush binary logs; insert into d.t values (3)",
    )?;
    catch_up(&source, &replica)?;
    // A store that lacks a log in the middle.
    let logs = source.binlogs()?;
    let (copies, directory) = (logs.len(), TempDir::new()?);
    for (number, log) in logs.iter().enumerate().filter(|(number, _)| *number != copies - 2) {
        let name = log.file_name().with_context(|| format!("log {number} has no name"))?;
        fs::copy(log, directory.path().join(name))?;
    }
    let (report, ran) = diff(&index_of(&source)?, directory.path(), &[])?;
    ensure!(ran.code == Some(1) && report["only_in_a"]["gtids"] == gtids("4"), "{report:#}");
    ensure!(
        report["only_in_a"]["after_last_in_both"] == 0 && report["only_in_b"]["count"] == 0,
        "{report:#}"
    );
    // The source purges: nothing is missing.
    source.sql(&format!("purge binary logs to '{}'", name_of(&logs, copies - 1)?))?;
    let (report, ran) = diff(&index_of(&source)?, &index_of(&replica)?, &[])?;
    ensure!(ran.code == Some(0) && report["purged_in_a"]["gtids"] == gtids("1-4"), "{report:#}");
    ensure!(report["in_both"] == 1, "{report:#}");
    // The replica stops: it is behind.
    replica.sql("stop replica")?;
    source.sql("insert into d.t values (4), (5); insert into d.t values (6)")?;
    let (report, ran) = diff(&index_of(&source)?, &index_of(&replica)?, &[])?;
    ensure!(ran.code == Some(1) && report["only_in_a"]["gtids"] == gtids("6-7"), "{report:#}");
    ensure!(report["only_in_a"]["after_last_in_both"] == 2, "{report:#}");
    // This replica was created from a dump, so its logs lack the first transactions.
    let restored = Launch::mysql().option("--server-id=3").start()?;
    restored.sql(&format!("set global gtid_purged = '{}:1-6'", uuid.trim()))?;
    restored.sql(&format!("set gtid_next = '{}:7'; create database other", uuid.trim()))?;
    let (report, _) = diff(&index_of(&source)?, &index_of(&restored)?, &[])?;
    ensure!(report["only_in_a"]["before_first_in_both"] == 2, "{report:#}");
    let purged = restored.sql("select @@gtid_purged")?;
    let (report, _) = diff(&index_of(&source)?, &index_of(&restored)?, &["--exclude-gtids", purged.trim()])?;
    ensure!(report["only_in_a"]["count"] == 0 && report["in_both"] == 1, "{report:#}");
    ensure!(report["other_content"]["transactions"][0]["gtid"] == gtids("7"), "{report:#}");
    Ok(())
}

#[test]
fn another_order_is_a_difference_on_request() -> Result<()> {
    let server = |numbers: [u8; 3]| -> Result<TestServer> {
        let server = Launch::mysql().start()?;
        for number in numbers {
            let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
            server.sql(&format!("set gtid_next = '{uuid}:{number}'; create database d{number}"))?;
        }
        Ok(server)
    };
    let (one, other) = (server([1, 2, 3])?, server([1, 3, 2])?);
    for (args, code, verdict) in [(&[][..], 0, "equal"), (&["--order"], 1, "different")] {
        let (report, ran) = diff(&index_of(&one)?, &index_of(&other)?, args)?;
        ensure!(ran.code == Some(code) && report["verdict"] == verdict, "{report:#}");
        let order = &report["other_order"];
        ensure!(order["count"] == 1, "{report:#}");
        let example = &order["example"];
        let ends_with = |side: &str, number: &str| {
            example[side]["gtid"].as_str().is_some_and(|gtid| gtid.ends_with(number))
        };
        ensure!(ends_with("earlier_in_a", ":2") && ends_with("later_in_a", ":3"), "{report:#}");
    }
    Ok(())
}

/// Starts a source, and a replica that logs the same transactions itself, each with its options.
fn pair(options: [&[&str]; 2]) -> Result<[TestServer; 2]> {
    let launch = |id: u8, options: &[&str]| {
        Launch::mysql()
            // Workers in parallel commit some statements, such as ANALYZE TABLE, in another order.
            .options(["--log-replica-updates=ON", "--replica-parallel-workers=1"])
            .option(format!("--server-id={id}"))
            .options(options.to_vec())
            .start()
    };
    let (source, replica) = (launch(1, options[0])?, launch(2, options[1])?);
    replica.replicate_from(&source)?;
    Ok([source, replica])
}

/// Waits until the replica has the source's transactions.
fn catch_up(source: &TestServer, replica: &TestServer) -> Result<()> {
    let executed = source.sql("select replace(@@gtid_executed, '\\n', '')")?;
    let waited = replica.sql(&format!("select wait_for_executed_gtid_set('{}', 60)", executed.trim()))?;
    ensure!(waited.trim() == "0", "{}", replica.sql("show replica status")?);
    Ok(())
}

fn run_script(server: &TestServer, name: &str) -> Result<()> {
    for session in script(name)?.split("-- new session") {
        // The files of LOAD DATA are not in the server's directories.
        let lines: Vec<&str> = session.lines().filter(|line| !line.starts_with("LOAD DATA")).collect();
        server.sql(&lines.join("\n")).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn name_of(logs: &[PathBuf], number: usize) -> Result<String> {
    let log = logs.get(number).and_then(|log| log.file_name()).context("no such log")?;
    Ok(log.to_string_lossy().into_owned())
}

/// Compares two stores. Returns the report as JSON, and the run.
fn diff(a: &Path, b: &Path, args: &[&str]) -> Result<(Value, CommandOutput)> {
    let ran = run(a, b, &[&["--json"], args].concat())?;
    Ok((serde_json::from_str(&ran.stdout).unwrap_or_default(), ran))
}

fn run(a: &Path, b: &Path, args: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(bintide()?);
    Ok(command.env_clear().arg("diff").args(args).args([a, b]).output()?.into())
}
