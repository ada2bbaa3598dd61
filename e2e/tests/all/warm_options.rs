//! Options of `bintide warm`: channels, maximum lead, logs, and accounts.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::replays::ends_equal;
use e2e::warming::{
    REPLICA, Warming, cold, command, has_no_errors, leave_behind, pages_cached, pair, wait_until_received,
};
use serde_json::Value;
use testkit::{Launch, TestServer, wait_until};

/// Options that make every search run, even if the pages are in memory.
const ALL: [&str; 2] = ["--offset-events=0", "--seconds-prefetch=86400"];

/// Returns statements that create a database of this name with two tables of a hundred rows each.
fn tables(database: &str) -> String {
    let rows = "with recursive n as (select 1 i union all select i + 1 from n where i < 100)";
    format!(
        "create database {database}; use {database};
         create table t (id int primary key, n int not null); create table u like t;
         insert into t {rows} select i, i from n; insert into u {rows} select i, i from n;"
    )
}

/// Makes the replica follow this source in a separate channel, with this filter.
fn follow(replica: &TestServer, source: &TestServer, channel: &str, filter: &str) -> Result<()> {
    let port = source.port();
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {port}, source_user = 'root',
           source_auto_position = 1, get_source_public_key = 1 for channel '{channel}';
         change replication filter {filter} for channel '{channel}';
         start replica for channel '{channel}'"
    ))?;
    replica.wait_until_applied(source)
}

/// Returns the number of searches in this table that the server has run.
fn searches(server: &TestServer, table: &str) -> Result<u64> {
    let searches = server.sql(&format!(
        "select ifnull(sum(count_star), 0) from performance_schema.events_statements_summary_by_digest
         where digest_text like 'SELECT ? FROM {table} FORCE%'"
    ))?;
    Ok(searches.trim().parse()?)
}

/// Returns the names of the channels in the report.
fn channels(report: &Value) -> Vec<&str> {
    report["channels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|channel| channel["name"].as_str())
        .collect()
}

/// Each channel has its own relay logs and filters.
#[test]
fn all_channels_are_warmed_or_one() -> Result<()> {
    let (east, west) = (Launch::mysql().start()?, Launch::mysql().start()?);
    east.sql(&tables("e"))?;
    west.sql(&tables("w"))?;
    let replica = Launch::mysql().options(REPLICA).start()?;
    replica.sql("create database x")?;
    follow(&replica, &west, "West-2", "replicate_ignore_db = (none)")?;
    follow(&replica, &east, "east", "replicate_rewrite_db = ((e, x)), replicate_ignore_table = (x.u)")?;
    replica.sql("stop replica sql_thread")?;
    east.sql("update e.t set n = n + 1; update e.u set n = n + 1")?;
    west.sql("update w.t set n = n + 1; update w.u set n = n + 1")?;
    wait_until_received(&east, &replica)?;
    wait_until_received(&west, &replica)?;
    let warming = Warming::begin(&replica, "root", &[&ALL[..], &["--channel", "East"]].concat())?;
    warming.wait_for(100)?;
    let report = warming.end()?;
    ensure!(channels(&report) == ["east"] && report["rows"] == 100, "{report}");
    ensure!(
        has_no_errors(&report) && report["filtered"] == 1 && report["rows_not_searched"] == 0,
        "{report}"
    );
    let of = |table: &str| searches(&replica, table);
    let (in_x, in_w) = (of("`x` . `t`")?, of("`w` . `t`")?);
    ensure!(in_x > 0 && in_w == 0, "{in_x} searches in one channel's table, {in_w} in the other's");
    let warming = Warming::begin(&replica, "root", &ALL)?;
    warming.wait_for(300)?;
    let (in_t, in_u) = (of("`w` . `t`")?, of("`w` . `u`")?);
    ensure!(
        in_t > 0 && in_u > 0 && of("`x` . `u`")? == 0,
        "{in_t} and {in_u} searches in the other channel's"
    );
    replica.sql("start replica sql_thread")?;
    replica.wait_until_applied(&east)?;
    replica.wait_until_applied(&west)?;
    let report = warming.end()?;
    ensure!(channels(&report) == ["east", "west-2"] && has_no_errors(&report), "{report}");
    let ran = command(&replica, "root")?.args(["--channel", "north"]).output()?;
    let printed = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.code() == Some(2) && printed.contains("no channel north: its channels are east, west-2"),
        "{printed}"
    );
    Ok(())
}

/// Rows changed in each second.
const EACH: u64 = 20;

/// Returns updates of rows in ten seconds of the source's time.
fn ten_seconds() -> String {
    let second = |second: u64| {
        let rows = second * EACH + 1..=(second + 1) * EACH;
        let updates: String = rows.map(|id| format!("update d.t set n = n + 1 where id = {id};")).collect();
        format!("set timestamp = {};{updates}", 1_700_000_000 + second)
    };
    (0..10).map(second).collect()
}

const TABLE: &str = "create database d; create table d.none (id int primary key); create table d.t (id int primary key, n int not null);
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 200) select i, i from n;
    create user warm@'%' identified by ''; grant select on d.* to warm@'%';
    create user asks@'%' identified by 'secret'; grant replication client on *.* to asks@'%';";

/// The limits of Replication Booster, with different accounts for status queries and searches.
#[test]
fn given_limits_are_obeyed() -> Result<()> {
    let (source, replica) = pair(&Launch::mysql(), &Launch::mysql(), TABLE)?;
    replica.sql("stop replica sql_thread")?;
    source.sql(&ten_seconds())?;
    wait_until_received(&source, &replica)?;
    let admin = ["--admin_user=asks", "--admin_password=secret"];
    let begin = |pace: &[&str]| Warming::begin(&replica, "warm", &[pace, &admin].concat());
    // The applier would reach the first rows earlier.
    let warming = begin(&["-o", "30", "-s", "86400"])?;
    warming.wait_for(10 * EACH - 30)?;
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["rows"] == 10 * EACH - 30, "{report}");
    ensure!(report["controller"]["state"] == "fixed", "{report}");
    // Warming waits after the first change beyond the limit, and continues when the applier moves on.
    let warming = begin(&["-o", "0", "-s", "3", "-m", "3600000", "-t", "2"])?;
    warming.wait_for(4 * EACH)?;
    thread::sleep(Duration::from_millis(300));
    let rows = warming.figure("rows_total")?;
    ensure!(rows == 4 * EACH + 1, "{rows} rows are searched for");
    replica.sql("start replica sql_thread")?;
    replica.wait_until_applied(&source)?;
    ends_equal(&source, &replica)?;
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["controller"]["connections"] == 2, "{report}");
    Ok(())
}

/// Without an applier, all changes in the logs are searched for.
#[test]
fn given_logs_are_searched_on_any_server() -> Result<()> {
    let big = "create database d; create table d.t (id int primary key, n int not null, pad varchar(3000) not null);
        set cte_max_recursion_depth = 10000;
        insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 3000)
          select i, i, repeat('x', 3000) from n;";
    let (source, mut replica) = pair(&Launch::mysql(), &Launch::mysql(), big)?;
    source.sql("flush binary logs")?;
    let updates: String =
        (0..200).map(|number| format!("update d.t set n = 0 where id = {};", number * 14 + 1)).collect();
    let data = leave_behind(&source, &mut replica, &updates)?;
    let server = cold(&data, &[])?;
    server.sql("reset replica all")?;
    let log = source.binlogs()?.pop().context("the source has no logs")?;
    let log = log.file_name().context("a log without a name")?.to_string_lossy().into_owned();
    source.sql(&format!("flush binary logs; purge binary logs to '{log}'"))?;
    let directory = source.datadir();
    for (logs, why) in [
        (None, "is not a replica"),
        (Some(directory.as_path()), "--force"),
        (Some(Path::new("/nowhere")), "/nowhere"),
    ] {
        let mut command = command(&server, "root")?;
        if let Some(logs) = logs {
            command.arg("--relay-logs").arg(logs);
            command.args((why != "--force").then_some("--force"));
        }
        let ran = command.output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(2) && printed.contains(why), "{printed}");
    }
    let before = pages_cached(&server, "d.t.PRIMARY")?;
    let logs = directory.to_string_lossy();
    let warming = Warming::begin(&server, "root", &["--force", "--relay-logs", &logs])?;
    warming.wait_for(200)?;
    let after = pages_cached(&server, "d.t.PRIMARY")?;
    ensure!(before < 50 && after > before + 150, "{before} pages in memory before, {after} afterwards");
    // New events of these logs are followed too.
    source.sql("update d.t set n = 1 where id = 2999")?;
    wait_until("the search for the new change", || Ok(warming.figure("rows_total")? == 201))?;
    let report = warming.end()?;
    ensure!(has_no_errors(&report) && report["controller"]["state"] == "fixed", "{report}");
    Ok(())
}

/// The error names the problem and the remedy before anything starts.
#[test]
fn unusable_setups_are_refused_at_once() -> Result<()> {
    let accounts = "create user blind@'%'; grant replication client on *.* to blind@'%';";
    let (source, replica) = pair(&Launch::mysql(), &Launch::mysql(), &format!("{TABLE} {accounts}"))?;
    let log = replica.datadir().join("relay.000001");
    let binary_log = source.binlogs()?.pop().context("the source has no logs")?;
    let (log, binary_log) = (log.to_string_lossy(), binary_log.to_string_lossy());
    for (user, options, expected) in [
        ("asks", &["--password=x"][..], "(error 1045); give an account that may log in, with --user"),
        ("warm", &[], "(error 1227); grant the account REPLICATION CLIENT"),
        (
            "asks",
            &["--admin_user=asks", "--admin_password=secret"],
            "log in to the replica for searches: Access",
        ),
        (
            "root",
            &["--relay-logs", "/nowhere"],
            "run bintide on the replica's machine, or give their directory with",
        ),
        ("root", &["--relay-logs", &binary_log], "is a log: --relay-logs takes a directory"),
        ("root", &["--relay-logs", &log[..log.len() - 1]], "run bintide on the replica's machine"),
    ] {
        let ran = command(&replica, user)?.args(options).output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(2) && printed.contains(expected), "{expected}: {printed}");
    }
    // If an account lacks SELECT on a table, the server hides the table.
    replica.sql("stop replica sql_thread")?;
    source.sql("update d.t set n = n + 1")?;
    wait_until_received(&source, &replica)?;
    let warming = Warming::begin(&replica, "blind", &ALL)?;
    wait_until("the count of skipped rows", || Ok(warming.figure("rows_not_searched_total")? == 200))?;
    let report = warming.end()?;
    ensure!(report["rows"] == 200 && report["pages_read"]["applier"].is_null(), "{report}");
    Ok(())
}
