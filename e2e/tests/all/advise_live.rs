//! `bintide advise --from`: reads a running server, and changes nothing on it.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use e2e::program::bintide;
use serde_json::Value;
use testkit::{Launch, TestServer};

const WORK: &str = "create database d; create table d.t (id int primary key auto_increment, s varchar(400));
    set binlog_transaction_compression = on;
    insert into d.t (s) values (repeat('a', 400)), (repeat('b', 400)), (repeat('c', 400));
    insert into d.t (s) select s from d.t; insert into d.t (s) select s from d.t;
    set binlog_transaction_compression = off; insert into d.t (s) select s from d.t; flush binary logs;
    insert into d.t (s) select s from d.t;";

fn advise(server: &TestServer, user: &str, more: &[&str]) -> Result<Output> {
    let from = format!("mysql://{user}@127.0.0.1:{}/", server.port());
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["advise", "--from", &from, "--levels", "3", "--time", "1"]).args(more);
    Ok(command.output()?)
}

fn document(output: &Output) -> Result<Value> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn settings(server: &TestServer) -> Result<String> {
    server.sql(
        "show global variables where variable_name not like '%gtid%' and variable_name not like '%buffer%';
         select name, enabled, timed from performance_schema.setup_instruments order by name",
    )
}

#[test]
fn live_server_facts_are_reported() -> Result<()> {
    let source = Launch::mysql().start()?;
    let replica = Launch::mysql().options(["--server-id=2", "--skip-log-bin"]).start()?;
    source.sql(WORK)?;
    replica.replicate_from(&source)?;
    replica.wait_until_applied(&source)?;
    let before = settings(&source)?;
    let report = document(&advise(&source, "root", &["--json"])?)?;
    ensure!(settings(&source)? == before, "a setting was changed");
    let server = report.get("server").context("the report has no server")?;
    let version = source.sql("select @@version")?;
    ensure!(server["version"] == version.trim(), "{server}");
    // What the logs and the server say is in one object.
    ensure!(server["can_compress"] == true && server["level_setting"] == "honoured", "{server}");
    let text = String::from_utf8(advise(&source, "root", &["--json"])?.stdout)?;
    ensure!(text.matches("\n  \"server\":").count() == 1, "{text}");
    let setting = |name: &str| {
        let settings = server["settings"].as_array().into_iter().flatten();
        settings.filter(|pair| pair[0] == name).map(|pair| pair[1].to_string()).collect::<String>()
    };
    ensure!(setting("binlog_transaction_compression") == "\"OFF\"", "{server}");
    ensure!(setting("binlog_transaction_compression_level_zstd") == "\"3\"", "{server}");
    let statistics = server["statistics"].as_array().context("not a list")?;
    let found: Vec<String> = statistics
        .iter()
        .map(|row| {
            let numbers = [&row["transactions"], &row["compressed_bytes"], &row["uncompressed_bytes"]];
            let text = [&row["log"], &row["compression"]].map(|text| text.as_str().unwrap_or_default());
            [text.map(str::to_owned).to_vec(), numbers.map(Value::to_string).to_vec()].concat().join("\t")
        })
        .collect();
    let expected = source.sql(
        "select log_type, compression_type, transaction_counter, compressed_bytes_counter, uncompressed_bytes_counter
         from performance_schema.binary_log_transaction_compression_stats",
    )?;
    ensure!(
        found == expected.lines().collect::<Vec<_>>() && !found.is_empty(),
        "{found:?} is not {expected}"
    );
    ensure!(server["log_io"]["writes"].as_u64() > Some(0), "{server}");
    let readers = server["readers"].as_array().context("not a list")?;
    ensure!(readers.len() == 1 && readers[0]["program"] == "mysqld", "{readers:?}");
    ensure!(
        readers[0]["reads_compressed"] == "yes" && server["unknown"] == Value::Array(Vec::new()),
        "{server}"
    );
    // The report covers the server's logs: all of them, or the newest.
    let logs = |report: &Value| report["logs"].as_array().map_or(0, Vec::len);
    ensure!(logs(&report) == 2, "{}", report["logs"]);
    // Logs have their names on the server, not those of the temporary copies.
    ensure!(report["logs"][0]["name"] == "binlog.000001", "{}", report["logs"]);
    ensure!(logs(&document(&advise(&source, "root", &["--json", "--fetch", "1"])?)?) == 1, "not the newest");
    let text = advise(&source, "root", &[])?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    ensure!(text.contains("Server") && text.contains("reads compressed transactions"), "{text}");
    Ok(())
}

#[test]
fn facts_hidden_by_missing_privileges_are_named() -> Result<()> {
    let source = Launch::mysql().start()?;
    source.sql(WORK)?;
    source.sql("create user r; grant replication slave, replication client on *.* to r")?;
    let report = document(&advise(&source, "r", &["--json"])?)?;
    let unknown = report["server"]["unknown"].as_array().context("not a list")?;
    ensure!(
        unknown.iter().any(|line| line.as_str().is_some_and(|line| line.starts_with("replicas: "))),
        "{unknown:?}"
    );
    ensure!(report["logs"].as_array().is_some_and(|logs| !logs.is_empty()), "{report}");
    let mute = Launch::mysql().option("--skip-log-bin").start()?;
    let refused = advise(&mute, "root", &[])?;
    let printed = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        refused.status.code() == Some(2) && printed.contains("could not list the server's binary logs"),
        "{printed}"
    );
    Ok(())
}

#[test]
fn mariadb_is_refused_before_logs_are_fetched() -> Result<()> {
    let refused = advise(&Launch::mariadb().start()?, "root", &["--json"])?;
    let printed = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        refused.status.code() == Some(2) && printed.contains("is a MariaDB server, which has no"),
        "{printed}"
    );
    Ok(())
}
