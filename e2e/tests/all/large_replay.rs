//! Transactions larger than the memory limit of a replay.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::program::bintide;
use e2e::replays::{ends_equal, options, replay_to, source, target};
use replay::CommitOrder;
use testkit::{Launch, TestServer};

/// Rows of each large transaction, of 8000 bytes each: many times the memory limit.
const ROWS: usize = 7000;

/// Starts a source with two transactions of 56 MB each, one of them compressed.
fn large() -> Result<TestServer> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.s (n int)")?;
    let rows = format!(
        "with recursive n(n) as (select 1 union all select n + 1 from n where n < {ROWS})
         select repeat(random_bytes(1000), 8) from n"
    );
    for (table, compression) in [("plain", "OFF"), ("packed", "ON")] {
        source.sql(&format!(
            "set @@session.cte_max_recursion_depth = 10000;
             set @@session.binlog_transaction_compression = {compression};
             create table d.{table} (id int primary key auto_increment, v varbinary(8100));
             begin;
             insert into d.{table} (v) {rows};
             insert into d.s values (1);
             update d.{table} set v = 'short' where id % 10 = 0;
             savepoint one;
             insert into d.s values (2);
             rollback to one;
             delete from d.{table}, d.s using d.{table} join d.s where id % 7 = 0;
             commit"
        ))?;
    }
    source.sql("flush binary logs")?;
    Ok(source)
}

/// Replays, and returns the peak in KiB of the memory that it allocates. The pages of the program itself do not count,
/// because their number in memory depends on the machine.
fn replayed(source: &TestServer, target: &TestServer, options: &[&str]) -> Result<u64> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?).args(["--memory", "8M"]).args(options);
    command.arg("--to").arg(format!("mysql://root@localhost/?socket={}", target.socket().display()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(size.unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(peak)
}

/// A statement whose rows exceed the target's max_allowed_packet is split between rows, for every kind of row
/// change. If a single row exceeds it, the error names the setting to change.
#[test]
fn row_events_are_split_to_fit_max_allowed_packet() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-row-event-max-size=4194304"), &[])?;
    source.sql(
        "create database d; create table d.s (n int);
         create table d.t (id int primary key, v longblob); create table d.k (v longblob, id int);
         insert into d.t with recursive n(n) as (select 1 union all select n + 1 from n where n < 20)
           select n, repeat(char(64 + n), 300000) from n;
         insert into d.k select v, id from d.t;
         update d.t set v = concat('x', v);
         delete d.t, d.k from d.t join d.k on d.t.id = d.k.id where d.t.id % 3 = 0;
         flush binary logs",
    )?;
    source.sql("insert into d.t values (100, repeat('y', 2000000)); flush binary logs")?;
    source.sql("insert into d.s values (1); flush binary logs")?;
    for order in [CommitOrder::Grouped, CommitOrder::Strict] {
        let target = Launch::mysql()
            .options(["--server-id=2", "--skip-log-bin", "--max-allowed-packet=1M"])
            .start()?;
        let refused = replay_to(&source.binlogs()?, target.socket(), &options(order));
        let error = refused.err().context("not refused")?.to_string();
        let (_, setting) = error.split_once(". Run SET GLOBAL ").with_context(|| error.clone())?;
        let rows = target.sql("select count(*) from d.t where id = 100")?;
        ensure!(rows.trim() == "0", "a part of the transaction was applied: {rows}");
        target.sql(&format!("set global {setting}"))?;
        replay_to(&source.binlogs()?, target.socket(), &options(order))?;
        ends_equal(&source, &target)?;
    }
    Ok(())
}

/// A row that is too large for a BINLOG statement is sent as a prepared statement with parameters: in one packet or,
/// if it is larger than max_allowed_packet, in pieces. This holds for every kind of row change, also beside other
/// rows.
#[test]
fn rows_larger_than_a_statement_are_sent_as_parameters() -> Result<()> {
    const MIB: usize = 1 << 20;
    let (one, pieces) = ((4 * MIB, 3 * MIB + MIB / 4), (20 * MIB, 12 * MIB));
    for ((packet, value), order) in [(one, CommitOrder::Grouped), (pieces, CommitOrder::Strict)] {
        let source = source(&Launch::mysql().option("--max-allowed-packet=64M"), &[])?;
        source.sql(&format!(
            "set @v = repeat(random_bytes(1024), {value} div 1024), @w = repeat('w', {value});
             create database d;
             create table d.t (id int primary key, a longblob, n int, b longtext);
             create table d.k (n int, a longblob);
             insert into d.t values (1, 'small', 1, null), (2, @v, 2, if({packet} > 16777216, @w, null)), (3, '', 3, null);
             insert into d.k values (1, left(@v, {value} div 20 * 11)), (2, 'small');
             begin;
             insert into d.t values (4, 'beside', 4, null);
             update d.t set n = n + 10;
             update d.t set a = @w, n = n + 1 where id = 2;
             update d.k set n = n + 10;
             commit;
             insert into d.t values (5, @v, 5, 'gone'), (6, 'stays', 6, 'here');
             delete from d.t where id in (3, 5);
             flush binary logs"
        ))?;
        let packet = format!("--max-allowed-packet={packet}");
        let target = Launch::mysql().options(["--server-id=2", "--skip-log-bin", &packet]).start()?;
        replay_to(&source.binlogs()?, target.socket(), &options(order)).context(packet)?;
        ends_equal(&source, &target)?;
    }
    Ok(())
}

#[test]
fn transactions_larger_than_memory_are_applied() -> Result<()> {
    let source = large().context("could not create the transactions")?;
    // Strict commits are tested with large statements.
    for order in ["grouped", "any"] {
        let target = target("--skip-log-bin")?;
        let peak = replayed(&source, &target, &["--commit-order", order])?;
        ensure!((1..48 << 10).contains(&peak), "{order}: {peak} KiB");
        ends_equal(&source, &target).context(order)?;
    }
    Ok(())
}

/// Starts a source whose log has statements: a transaction with 16 MB of them, and one that loads a file of 48 MB.
fn large_statements() -> Result<TestServer> {
    let options = ["--binlog-format=STATEMENT", "--local-infile=1"];
    let source = source(&Launch::mysql().options(options), &[])?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("rows.txt");
    let rows: String = (0..ROWS).map(|id| format!("{id}\t{}\n", "x".repeat(7000))).collect();
    fs::write(&file, rows)?;
    let mut sql = "create database d; create database e; use d; create table d.f (id int primary key, v varchar(8000));
        create table d.t (id int primary key auto_increment, n int, v varchar(8000)); use e;
        create table e.t like d.t; set insert_id = 7; set @@session.binlog_transaction_compression = ON; begin;"
        .to_owned();
    for number in 0..4000 {
        let (database, text) = (if number % 2 == 0 { "d" } else { "e" }, "y".repeat(4000));
        sql.push_str(&format!(
            "set @n = {number}; use {database}; insert into t (n, v) values (@n, '{text}');
             use d; insert into d.t (n) values (last_insert_id());"
        ));
        if number == 2000 {
            sql.push_str("savepoint one; insert into d.t (n) values (-1); rollback to one;");
        }
    }
    sql.push_str(&format!(
        "commit; begin; insert into d.t (n) values (-2); load data local infile '{}' into table d.f; \
         insert into d.t (n) select max(id) from d.f; commit; flush binary logs",
        file.display()
    ));
    source.sql(&sql)?;
    Ok(source)
}

#[test]
fn statements_and_loaded_files_larger_than_memory_are_applied() -> Result<()> {
    let source = large_statements()?;
    let whole = target("--skip-log-bin")?;
    let peak = replayed(&source, &whole, &[])?;
    ensure!((1..48 << 10).contains(&peak), "{peak} KiB");
    ends_equal(&source, &whole)?;
    // Filters also apply to statements in temporary files.
    let part = target("--skip-log-bin")?;
    let options = ["--do-db", "d", "--commit-order", "strict"];
    replayed(&source, &part, &options)?;
    let sums = |server: &TestServer| server.sql("checksum table d.f");
    ensure!(sums(&source)? == sums(&part)?);
    ensure!(part.sql("show databases like 'e'")?.is_empty());
    ensure!(
        part.sql("select count(*) from d.t")?.trim() == "6002",
        "{}",
        part.sql("select count(*) from d.t")?
    );
    let found =
        replayed(&source, &target("--skip-log-bin")?, &["--verify", &e2e::command::address("root", &source)]);
    ensure!((1..48 << 10).contains(&found?));
    let dry = e2e::command::replay(&source.binlogs()?, &part, &["--memory", "8M", "--dry-run", "--offline"])?;
    ensure!(dry.code == Some(0), "{dry:?}");
    Ok(())
}
