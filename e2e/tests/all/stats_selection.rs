//! Selections and breakdowns of `bintide stats` on logs of a real server: their sums equal those of the lists of
//! `bintide dump`, and the writers and statements are those that the server had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::address;
use e2e::program::bintide;
use serde_json::Value;
use testkit::{Launch, TestServer};

const SCRIPT: &str = "
    create database shop; create database other; use shop;
    create table orders (id int primary key, status varchar(20)); create table items (id int primary key, n int);
    insert into orders values (1, 'new'), (2, 'new'), (3, 'new');
    begin; update orders set status = 'paid' where id = 1; insert into items values (1, 10), (2, 20); commit;
    set binlog_transaction_compression = on;
    begin; update orders set status = 'sent' where id < 3; delete from items where id = 2; commit;
    set binlog_transaction_compression = off;
    insert into items values (5, 1); insert into items values (6, 2); INSERT  INTO items VALUES (7,3);
    create table other.t (a int); insert into other.t values (1);
    create definer = current_user view orders_paid as select * from orders";

#[test]
fn selections_equal_the_lists_of_dump() -> Result<()> {
    let server = Launch::mysql().options(["--binlog-row-metadata=FULL", "--server-id=7"]).start()?;
    server.sql(SCRIPT)?;
    let logs = server.binlogs()?;
    let uuid = server.sql("select @@server_uuid")?.trim().to_owned();
    let gtids = format!("{uuid}:6-8");
    for filter in [
        vec![],
        vec!["--table=shop.orders"],
        vec!["--table=*.items", "--table=t"],
        vec!["--database=shop"],
        vec!["--gtid", &gtids],
        vec!["--exclude-gtids", &gtids],
        vec!["--gtid", &gtids, "--table=orders"],
        vec!["--table=missing"],
    ] {
        let expected = rows_of_dump(&logs, &filter)?;
        let found = rows_of_stats(&logs, &filter)?;
        ensure!(found == expected, "{filter:?}: {found:?} instead of {expected:?}");
    }
    let all = rows_of_stats(&logs, &[])?;
    ensure!(all["shop.items"] == [5, 0, 1] && all["shop.orders"] == [3, 3, 0], "{all:?}");
    Ok(())
}

#[test]
fn wildcards_in_backticks_are_literal() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(
        "create database wc; create table wc.`a?c` (id int primary key); create table wc.abc (id int primary key);
        create table wc.`50%*` (id int primary key); create table wc.`50%x` (id int primary key);
        insert into wc.`a?c` values (1); insert into wc.abc values (1);
        insert into wc.`50%*` values (1); insert into wc.`50%x` values (1)",
    )?;
    let logs = server.binlogs()?;
    let check = |pattern: &str, expected: &[&str]| {
        let found = json(&logs, &["stats", "--json", "--table", pattern])?;
        let tables = found["tables"].as_array().context("no tables")?;
        let names: BTreeSet<&str> = tables.iter().filter_map(|table| table["table"].as_str()).collect();
        ensure!(names == expected.iter().copied().collect(), "{pattern}: {names:?}");
        Ok::<_, anyhow::Error>(())
    };
    check("wc.`a?c`", &["a?c"])?;
    check("wc.a?c", &["a?c", "abc"])?;
    check("wc.`50%*`", &["50%*"])?;
    check("`wc`.50%*", &["50%*", "50%x"])?;
    for (table, expected) in [("wc.`50%*`", Some(0)), ("wc.50%*", Some(2))] {
        let mut command = Command::new(bintide()?);
        let ran =
            command.env_clear().args(["history", "--where=id=1", "--table", table]).args(&logs).output()?;
        ensure!(ran.status.code() == expected, "{table}: {ran:?}");
    }
    Ok(())
}

#[test]
fn periods_select_by_commit() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
    let sleep = "select sleep(1.1)";
    server.sql(sleep)?;
    let start = now(&server)?;
    server.sql(sleep)?;
    // The statement's timestamp does not decide.
    server.sql("set timestamp = 1000000000; insert into d.t values (2), (3)")?;
    server.sql(sleep)?;
    let stop = now(&server)?;
    server.sql(sleep)?;
    server.sql("insert into d.t values (4), (5), (6)")?;
    let logs = server.binlogs()?;
    let inserted = |filter: &[&str]| -> Result<u64> { Ok(rows_of_stats(&logs, filter)?["d.t"][0]) };
    ensure!(inserted(&["--start-datetime", &start, "--stop-datetime", &stop])? == 2);
    ensure!(inserted(&["--start-datetime", &start])? == 5);
    ensure!(inserted(&["--stop-datetime", &start])? == 1);
    let from = ["--from", &address("root", &server)];
    let report = json(&[], &[&["stats", "--json", "--start-datetime", &stop], &from[..]].concat())?;
    ensure!(report["totals"]["insert"]["rows"] == 3, "{report}");
    ensure!(report["logs"][0]["name"] == "binlog.000001", "{report}");
    Ok(())
}

#[test]
fn breakdowns_name_connections_and_statements() -> Result<()> {
    let server = Launch::mysql().options(["--binlog-rows-query-log-events=ON", "--server-id=7"]).start()?;
    let connection: u64 = {
        let printed = server.sql(&format!("select connection_id(); {SCRIPT}"))?;
        printed.lines().next().context("no connection id")?.trim().parse()?
    };
    let logs = server.binlogs()?;
    let report = json(&logs, &["stats", "--json", "--by=account,statement,table,minute,hour"])?;
    let by = |kind: &str| -> Result<Vec<Value>> {
        let all = report["by"].as_array().context("no breakdowns")?;
        let breakdown = all.iter().find(|breakdown| breakdown["by"] == kind).context("no breakdown")?;
        Ok(breakdown["groups"].as_array().context("no groups")?.clone())
    };
    let writers = by("account")?;
    let of_connection =
        writers.iter().find(|group| group["connection"] == connection).context("no connection")?;
    ensure!(of_connection["server_id"] == 7 && of_connection["deleted"] == 1, "{of_connection}");
    // Only the statement with an invoker has an account.
    let accounts: Vec<_> = writers.iter().filter(|group| group["account"].is_string()).collect();
    ensure!(accounts.len() == 1 && accounts[0]["account"] == "root@localhost", "{accounts:?}");
    ensure!(accounts[0]["transactions"] == 1, "{accounts:?}");
    let statements = by("statement")?;
    let of = |digest: &str| {
        let found = statements.iter().find(|group| group["statement"] == digest);
        found.map(|group| {
            (group["statements"].as_u64(), group["inserted"].as_u64(), group["updated"].as_u64())
        })
    };
    let expected = Some((Some(3), Some(4), Some(0)));
    ensure!(of("insert into items values (...)") == expected, "{statements:?}");
    ensure!(of("update orders set status = ? where id < ?") == Some((Some(1), Some(0), Some(2))));
    // With tables selected, statements that change only other tables do not count.
    let report = json(&logs, &["stats", "--json", "--by=statement", "--table=shop.orders"])?;
    let groups = report["by"][0]["groups"].as_array().context("no groups")?;
    let is_of_orders = |group: &Value| {
        group["statement"].as_str().is_some_and(|text| text.contains("orders")) && group["statements"] == 1
    };
    ensure!(groups.len() == 3 && groups.iter().all(is_of_orders), "{groups:?}");
    for kind in ["table", "minute", "hour"] {
        let rows: u64 = by(kind)?
            .iter()
            .flat_map(|group| ["inserted", "updated", "deleted"].map(|change| group[change].as_u64()))
            .flatten()
            .sum();
        ensure!(rows == 13, "{rows} rows by {kind}");
    }
    Ok(())
}

/// Returns the server's local time, as options take it.
fn now(server: &TestServer) -> Result<String> {
    Ok(server.sql("select utc_timestamp()")?.trim().to_owned())
}

/// Rows inserted, updated and deleted, by table.
type RowsByTable = BTreeMap<String, [u64; 3]>;

fn rows_of_stats(logs: &[PathBuf], filter: &[&str]) -> Result<RowsByTable> {
    let report = json(logs, &[&["stats", "--json"], filter].concat())?;
    let mut rows = RowsByTable::new();
    for table in report["tables"].as_array().context("no tables")? {
        let name = format!("{}.{}", text(&table["database"])?, text(&table["table"])?);
        let counts = ["insert", "update", "delete"].map(|kind| table[kind]["rows"].as_u64().unwrap_or(0));
        rows.insert(name, counts);
    }
    Ok(rows)
}

fn rows_of_dump(logs: &[PathBuf], filter: &[&str]) -> Result<RowsByTable> {
    let mut rows = RowsByTable::new();
    for line in run(logs, &[&["dump", "--json"], filter].concat())?.lines() {
        let event: Value = serde_json::from_str(line)?;
        let kind = match text(&event["event_type"])? {
            "Write_rows" => 0,
            "Update_rows" => 1,
            "Delete_rows" => 2,
            _ => continue,
        };
        let name = format!("{}.{}", text(&event["database"])?, text(&event["table"])?);
        let count = event["rows"].as_array().map_or(0, Vec::len);
        rows.entry(name).or_default()[kind] += u64::try_from(count)?;
    }
    Ok(rows)
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is no text"))
}

fn json(logs: &[PathBuf], args: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&run(logs, args)?)?)
}

fn run(logs: &[PathBuf], args: &[&str]) -> Result<String> {
    let output = Command::new(bintide()?).env_clear().env("TZ", "UTC").args(args).args(logs).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{args:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
