//! `bintide replay --warm`: reads the target's pages into memory before the replay needs them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::command::{address, begin, replay};
use e2e::metrics::{number, scraped};
use e2e::replays::ends_equal;
use e2e::warming::{cold, has_no_errors, pages_cached, pair};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use servers::{ServerAddress, SqlConnection};
use testkit::{Launch, SeededRandom, TestServer, seed_from_env, wait_until};

/// Number of rows, a few to a page.
const ROWS: usize = 6000;

const TABLE: &str = "create database d; create table d.none (id int primary key);
    create table d.t (id int primary key, n int not null, pad varchar(3000) not null, key n (n));
    set cte_max_recursion_depth = 10000;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 6000)
      select i, i, repeat('x', 3000) from n;";

/// Starts a source; returns a data directory with all transactions up to its last log, which starts here.
fn source_and_data() -> Result<(TestServer, TestServer, PathBuf)> {
    let (source, mut copy) = pair(&Launch::mysql(), &Launch::mysql(), TABLE)?;
    copy.wait_until_applied(&source)?;
    copy.sql("stop replica; reset replica all")?;
    copy.stop()?;
    source.sql("flush binary logs")?;
    let data = copy.datadir();
    Ok((source, copy, data))
}

fn last_log(source: &TestServer) -> Result<PathBuf> {
    source.binlogs()?.pop().context("the source has no logs")
}

/// Returns the address of the metrics, and the rest of standard error, which must be read.
fn address_of_metrics(child: &mut Child) -> Result<(String, BufReader<ChildStderr>)> {
    let mut printed = BufReader::new(child.stderr.take().context("standard error is not piped")?);
    let mut line = String::new();
    while printed.read_line(&mut line)? > 0 {
        if let Some(address) = line.trim().strip_prefix("bintide: metrics are at http://") {
            return Ok((address.trim_end_matches("/metrics").to_owned(), printed));
        }
        line.clear();
    }
    bail!("no address of the metrics")
}

/// Checks the exit code; returns the report.
fn outcome(mut child: Child, code: i32) -> Result<Value> {
    let (mut out, mut printed) = (String::new(), String::new());
    child.stdout.take().context("standard output is not piped")?.read_to_string(&mut out)?;
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut printed)?;
    }
    let status = child.wait()?;
    ensure!(status.code() == Some(code), "{status:?}: {printed}");
    Ok(serde_json::from_str(&out)?)
}

#[test]
fn target_pages_are_in_memory_before_they_are_needed() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let (source, _copy, data) = source_and_data()?;
    let others: String = (0..400)
        .map(|_| format!("update d.t set n = n + 1 where id = {};", 2 + random.below(ROWS - 1)))
        .collect();
    source.sql(&format!("update d.t set n = 0 where id = 1; {others}"))?;
    let target = cold(&data, &[])?;
    let before = pages_cached(&target, "d.t.PRIMARY")?;
    ensure!(before < 50, "{before} pages are in memory at once");
    // The replay waits at its first row, which another session has locked.
    let mut holder = SqlConnection::open(&ServerAddress::parse(&address("root", &target))?)?;
    holder.run("begin; select n from d.t where id = 1 for update")?;
    let options = ["--warm", "--json", "--workers", "1", "--metrics", "127.0.0.1:0"];
    let mut child = begin(&[last_log(&source)?], &target, &options)?;
    let (metrics, _said) = address_of_metrics(&mut child)?;
    wait_until("the pages of the other rows", || Ok(pages_cached(&target, "d.t.PRIMARY")? > 250))?;
    // A search is counted after its batch, when its page is already in memory.
    wait_until("the searches in the metrics", || {
        Ok(number(&scraped(&metrics)?, "bintide_warm_searches_total")? > 250.0)
    })?;
    let sheet = scraped(&metrics)?;
    ensure!(number(&sheet, "bintide_replay_transactions_total")? == 0.0, "{sheet}");
    holder.run("rollback")?;
    let report = outcome(child, 0)?;
    let warm = &report["warm"];
    ensure!(has_no_errors(warm) && warm["rows"].as_u64() >= Some(390), "{report}");
    let ours = warm["pages_read"]["warm"]["pages"].as_u64();
    let applier = warm["pages_read"]["applier"]["pages"].as_u64();
    ensure!(ours > Some(200) && applier < ours, "{report}");
    ends_equal(&source, &target)
}

/// Searches obey filters and use the target's names.
#[test]
fn searches_obey_filters_and_rewrites() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let (source, _copy, data) = source_and_data()?;
    let others: String = (0..300)
        .map(|_| format!("update d.t set n = n + 1 where id = {};", 2 + random.below(ROWS - 1)))
        .collect();
    let statements: String = (0..100)
        .map(|_| format!("update t set n = n + 1 where id = {};", 2 + random.below(ROWS - 1)))
        .collect();
    source.sql(&format!(
        "update d.t set n = 0 where id = 1; insert into d.none values (1), (2); {others}
         use d; create table e (id int primary key); insert into e values (1);
         set binlog_format = statement; insert into none select id + 10 from d.none; {statements}"
    ))?;
    let target = cold(&data, &[])?;
    target.sql("create database x; rename table d.t to x.t")?;
    let mut holder = SqlConnection::open(&ServerAddress::parse(&address("root", &target))?)?;
    holder.run("begin; select n from x.t where id = 1 for update")?;
    let options = ["--rewrite-db", "d->x", "--ignore-table", "x.none", "--wild-ignore-table", "x.e%"];
    let more = ["--warm", "--json", "--workers", "1"];
    let child = begin(&[last_log(&source)?], &target, &[&options[..], &more].concat())?;
    wait_until("the pages of the other rows", || Ok(pages_cached(&target, "x.t.PRIMARY")? > 250))?;
    holder.run("rollback")?;
    let report = outcome(child, 0)?;
    let warm = &report["warm"];
    ensure!(has_no_errors(warm) && warm["rows_not_searched"] == 0, "{report}");
    ensure!(warm["rows"].as_u64() >= Some(290) && warm["statements"].as_u64() >= Some(90), "{report}");
    // Rows of two tables, a definition of one table, and a statement.
    ensure!(warm["filtered"] == 4, "{report}");
    let rows = |table| format!("select count(*), sum(n) from {table}.t");
    ensure!(source.sql(&rows("d"))? == target.sql(&rows("x"))?, "the rows differ");
    Ok(())
}

/// All pages are in memory, and the logs are followed as they are written: warming reports this and stops, and the
/// replay continues.
#[test]
fn warming_stops_without_a_gain_while_the_replay_continues() -> Result<()> {
    let (source, _copy, data) = source_and_data()?;
    let target = cold(&data, &[])?;
    let directory = source.datadir();
    let mut child = begin(&[directory], &target, &["--follow", "--warm", "--json"])?;
    let mut stderr = BufReader::new(child.stderr.take().context("standard error is not piped")?);
    let printed = std::thread::spawn(move || {
        let mut line = String::new();
        while !line.contains("has stopped: no gain") {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                return Ok(None);
            }
        }
        Ok::<_, std::io::Error>(Some((line, stderr)))
    });
    let deadline = Instant::now() + Duration::from_secs(180);
    while !printed.is_finished() {
        ensure!(Instant::now() < deadline, "warming has not stopped in time");
        source.sql(&"update d.t set n = n + 1 where id <= 40;".repeat(100))?;
    }
    let found = printed.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    ensure!(found.is_some(), "the command ended without a message");
    wait_until("all transactions of the source", || {
        let rows = "select sum(n) from d.t";
        Ok(source.sql(rows)? == target.sql(rows)?)
    })?;
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let report = outcome(child, 130)?;
    ensure!(report["warm"]["stopped"] == "no gain", "{report}");
    ends_equal(&source, &target)
}

#[test]
fn standard_input_is_refused() -> Result<()> {
    let target = Launch::mysql().start()?;
    let ran = replay(&["-".into()], &target, &["--warm"])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("give the logs as files"), "{ran:?}");
    Ok(())
}
