//! Replays that are interrupted and followed, and their metrics.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, Result, ensure};
use binlog::TransactionAssembler;
use e2e::command::{CommandOutput, address, begin, replay};
use e2e::metrics::{ExpositionFormat, check_format, number, scraped};
use e2e::replays::{ends_equal, target};
use logs::{LogReader, ReadOutcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use servers::{ServerAddress, SqlConnection};
use testkit::{CutMode, Launch, Proxy, TestServer, wait_until};

/// Starts a source with a table, and this number of transactions in a second log.
fn source_of(transactions: u32) -> Result<TestServer> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    source.sql("create database d; create table d.t (id int primary key, n int); flush binary logs")?;
    let inserts: String = (1..=transactions).map(|id| format!("insert into d.t values ({id}, 0);")).collect();
    source.sql(&inserts)?;
    source.sql("create table d.u (id int)")?;
    Ok(source)
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
}

fn ended(child: Child) -> Result<CommandOutput> {
    Ok(child.wait_with_output()?.into())
}

/// Locks a row of the target in another session, without a commit: an insert of the same row waits.
fn lock_row(target: &TestServer, id: u32) -> Result<SqlConnection> {
    let mut connection = SqlConnection::open(&ServerAddress::parse(&address("root", target))?)?;
    connection.run(&format!("begin; insert into d.t values ({id}, -1)"))?;
    Ok(connection)
}

fn rows(target: &TestServer) -> Result<String> {
    Ok(target.sql("select count(*) from d.t")?.trim().to_owned())
}

fn waits(target: &TestServer) -> Result<bool> {
    Ok(target.sql("select count(*) from performance_schema.data_lock_waits")?.trim() != "0")
}

/// Ends the sessions that still wait: a server does not notice during a wait that its client is gone.
fn end_waits(target: &TestServer) -> Result<()> {
    let waiting = target.sql(
        "select distinct processlist_id from performance_schema.data_lock_waits \
         join performance_schema.threads on thread_id = requesting_thread_id",
    )?;
    for id in waiting.lines() {
        target.sql(&format!("kill {id}"))?;
    }
    wait_until("the end of all waits", || Ok(!waits(target)?))
}

#[test]
fn the_first_sigint_ends_a_replay_in_order_and_the_second_at_once() -> Result<()> {
    let source = source_of(50)?;
    let logs: Vec<PathBuf> = source.binlogs()?;
    let target = target("--skip-log-bin")?;
    ensure!(replay(&logs[..1], &target, &[])?.code == Some(0));
    let mut holder = lock_row(&target, 30)?;
    for workers in ["1", "4"] {
        // The first: commits in progress finish, and waiting transactions are rolled back.
        let strict = ["--commit-order", "strict", "--workers", workers, "--quiet"];
        let child = begin(&logs, &target, &strict)?;
        wait_until("a session that waits", || Ok(rows(&target)? == "29" && waits(&target)?))?;
        signal(&child, Signal::SIGINT)?;
        let ran = ended(child)?;
        ensure!(ran.code == Some(130) && rows(&target)? == "29", "{workers}: {ran:?}");
        let applied =
            if workers == "1" { "29 transactions applied in 29 commits" } else { "0 transactions applied" };
        ensure!(ran.stdout.contains(applied) && ran.stdout.contains("interrupted; "), "{workers}: {ran:?}");
        ensure!(ran.stderr.is_empty(), "{ran:?}");
        // The second: the replay ends at once, without a report.
        let mut child = begin(&logs, &target, &strict)?;
        wait_until("a session that waits", || waits(&target))?;
        wait_until("the end", || {
            signal(&child, Signal::SIGINT)?;
            Ok(child.try_wait()?.is_some())
        })?;
        let ran = ended(child)?;
        ensure!(ran.code == Some(130) && ran.stdout.is_empty(), "{workers}: {ran:?}");
        end_waits(&target)?;
    }
    holder.run("rollback")?;
    let ran = replay(&logs, &target, &["--json"])?;
    let json: String = ran.stdout.split_whitespace().collect();
    ensure!(ran.code == Some(0) && json.contains("\"transactions\":22,"), "{ran:?}");
    ensure!(json.contains("\"interrupted\":false") && json.contains("\"skipped\":31"), "{ran:?}");
    ends_equal(&source, &target)
}

/// Checks whether the target has the rows of the source.
fn has_caught_up(source: &TestServer, target: &TestServer) -> Result<bool> {
    let count = "select concat(count(*), ' ', coalesce(sum(n), 0)) from d.t";
    let there = target.sql("select count(*) from information_schema.tables where table_name = 't'")?;
    Ok(there.trim() == "1" && target.sql(count)? == source.sql(count)?)
}

fn end_by_interrupt(child: Child) -> Result<CommandOutput> {
    signal(&child, Signal::SIGINT)?;
    let ran = ended(child)?;
    ensure!(ran.code == Some(130) && ran.stdout.contains("interrupted"), "{ran:?}");
    Ok(ran)
}

#[test]
fn logs_are_followed_through_rotations_and_purges() -> Result<()> {
    let mut source = source_of(20)?;
    let target = target("--skip-log-bin")?;
    let index = [source.datadir().join("binlog.index")];
    let child = begin(&index, &target, &["--follow", "--quiet"])?;
    for step in 0..8 {
        let id = 100 + step * 10;
        source.sql(&format!(
            "insert into d.t values ({id}, {step}), ({id} + 1, 0); update d.t set n = n + 1; delete from d.t where id = {step} + 1"
        ))?;
        match step {
            2 | 5 => drop(source.sql("flush binary logs")?),
            3 => wait_until("the written transactions", || has_caught_up(&source, &target))?,
            // The replay has read these logs and does not need them any more.
            4 => drop(source.sql("purge binary logs to 'binlog.000003'")?),
            6 => {
                source.kill()?;
                source.start_again(&[])?;
            }
            _ => {}
        }
    }
    wait_until("the end", || has_caught_up(&source, &target))?;
    let ran = end_by_interrupt(child)?;
    ensure!(ran.stderr.is_empty(), "{ran:?}");
    ends_equal(&source, &target)?;
    // A log that is purged before it is applied is reported as a gap.
    source.sql("insert into d.t values (1000, 0); flush binary logs; insert into d.t values (1001, 0)")?;
    let last = source.binlogs()?.last().and_then(|log| Some(log.file_name()?.to_string_lossy().into_owned()));
    source.sql(&format!("purge binary logs to '{}'", last.unwrap_or_default()))?;
    let ran = replay(&index, &target, &["--follow"])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("gap: the target lacks "), "{ran:?}");
    Ok(())
}

#[test]
fn incomplete_transactions_are_waited_for() -> Result<()> {
    let source = source_of(5)?;
    let target = target("--skip-log-bin")?;
    let directory = tempfile::tempdir()?;
    let index = [directory.path().join("binlog.index")];
    let logs = source.binlogs()?;
    fs::copy(&logs[0], directory.path().join("binlog.000001"))?;
    // Cut within the last transaction, then within one of its events.
    let whole = fs::read(&logs[1])?;
    let (torn, rest) = whole.split_at(whole.len() - 150);
    fs::write(directory.path().join("binlog.000002"), torn)?;
    fs::write(&index[0], "./binlog.000001\n./binlog.000002\n")?;
    let child = begin(&index, &target, &["--follow"])?;
    wait_until("the whole transactions", || {
        Ok(target.sql("show tables from d").is_ok_and(|_| true)
            && rows(&target).is_ok_and(|rows| rows == "5"))
    })?;
    let mut file = OpenOptions::new().append(true).open(directory.path().join("binlog.000002"))?;
    for piece in rest.chunks(7) {
        file.write_all(piece)?;
    }
    wait_until("the last transaction", || Ok(target.sql("show tables from d")?.contains('u')))?;
    end_by_interrupt(child)?;
    ends_equal(&source, &target)
}

#[test]
fn relay_logs_are_followed() -> Result<()> {
    let source = source_of(20)?;
    let replica =
        Launch::mysql().options(["--server-id=3", "--relay-log=relay", "--skip-replica-start"]).start()?;
    replica.set_source(&source)?;
    replica.sql("start replica io_thread")?;
    let index = [replica.datadir().join("relay.index")];
    let target = target("--skip-log-bin")?;
    let child = begin(&index, &target, &["--follow"])?;
    for step in 0..6 {
        source.sql(&format!("insert into d.t values (100 + {step}, 1); update d.t set n = n + {step}"))?;
        match step {
            1 => drop(replica.sql("flush relay logs")?),
            2 => drop(source.sql("flush binary logs")?),
            4 => drop(replica.sql("stop replica io_thread; start replica io_thread")?),
            _ => {}
        }
    }
    wait_until("the end", || has_caught_up(&source, &target))?;
    end_by_interrupt(child)?;
    ends_equal(&source, &target)
}

/// Checks whether a relay log ends within a transaction.
fn ends_within(log: &Path) -> Result<bool> {
    let (mut reader, mut assembler) = (LogReader::open(log)?, None);
    while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? {
        let mut index = 0;
        while let Some(event) = chunk.get(index) {
            index += 1;
            let format = chunk.format();
            let assembler =
                assembler.get_or_insert_with(|| TransactionAssembler::new((**format).clone(), usize::MAX));
            // A transaction that continues from the previous log is not whole.
            let _ = assembler.push(event.offset, &event.raw, format);
        }
    }
    Ok(assembler.is_some_and(|assembler| assembler.open().is_some()))
}

/// Returns a replica's relay logs, in order.
fn relay_logs(replica: &TestServer) -> Result<Vec<PathBuf>> {
    let index = fs::read_to_string(replica.datadir().join("relay.index"))?;
    Ok(index.lines().map(|line| replica.datadir().join(line)).collect())
}

#[test]
fn transactions_received_in_parts_are_applied_once() -> Result<()> {
    for (gtid_mode, auto_position) in [("ON", 1), ("ON", 0), ("OFF", 0)] {
        let mode = format!("--gtid-mode={gtid_mode}");
        let source = Launch::mysql().options(["--server-id=1", &mode]).start()?;
        source.sql(
            "create database d; create table d.t (id int primary key, n int); insert into d.t values (0, 0)",
        )?;
        let proxy = Proxy::to(source.port())?;
        let replica = Launch::mysql()
            .options([
                "--server-id=3",
                "--relay-log=relay",
                "--skip-replica-start",
                "--max-relay-log-size=4096",
            ])
            .option(&mode)
            .start()?;
        let first =
            if auto_position == 1 { "" } else { "source_log_file = 'binlog.000001', source_log_pos = 4," };
        replica.sql(&format!(
            "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'root',
               {first} source_auto_position = {auto_position}, get_source_public_key = 1, source_connect_retry = 1;
             start replica io_thread",
            proxy.port()
        ))?;
        let target = Launch::mysql().options(["--server-id=2", "--skip-log-bin", &mode]).start()?;
        let child = begin(&[replica.datadir().join("relay.index")], &target, &["--follow"])?;
        wait_until("the small transactions", || has_caught_up(&source, &target))?;
        proxy.cut_after(300_000, CutMode::Close);
        source.sql(
            "set cte_max_recursion_depth = 50000; insert into d.t with recursive
               s as (select 1 as id union all select id + 1 from s where id < 50000) select id, 1 from s",
        )?;
        source.sql("update d.t set n = n + 1 where id < 9; create table d.u (id int)")?;
        wait_until("the cut", || Ok(proxy.is_cut()))?;
        proxy.mend();
        let waited = wait_until("the end", || {
            Ok(has_caught_up(&source, &target)? && target.sql("show tables from d")?.contains('u'))
        });
        if waited.is_err() {
            signal(&child, Signal::SIGINT)?;
            let logs = relay_logs(&replica)?;
            let split = logs.iter().map(|log| ends_within(log)).collect::<Result<Vec<_>>>()?;
            panic!(
                "{mode} {auto_position} {:?} {split:?} {}",
                ended(child)?,
                replica.sql("show replica status")?
            );
        }
        end_by_interrupt(child).with_context(|| format!("{mode} {auto_position}"))?;
        ends_equal(&source, &target)?;
        let logs = relay_logs(&replica)?;
        let split = logs.iter().map(|log| ends_within(log)).collect::<Result<Vec<_>>>()?;
        ensure!(
            split.contains(&true) && logs.len() > 2,
            "{mode} {auto_position}: no log ends within a transaction: {split:?}"
        );
        // The same from files and with a small memory limit; the transaction is recognised as applied.
        for (memory, expected) in [("4M", "\"skipped\": 0"), ("300M", "\"transactions\": 0")] {
            if memory == "4M" {
                target.sql("drop database d; drop database bintide; reset binary logs and gtids")?;
            }
            let ran = replay(&logs, &target, &["--memory", memory, "--json"])?;
            ensure!(ran.code == Some(0) && ran.stdout.contains(expected), "{mode} {auto_position}: {ran:?}");
            ends_equal(&source, &target)?;
        }
    }
    Ok(())
}

#[test]
fn applied_logs_are_not_read_again() -> Result<()> {
    for mode in ["--gtid-mode=ON", "--gtid-mode=OFF"] {
        let source = Launch::mysql().options(["--server-id=1", mode]).start()?;
        source.sql(
            "create database d; create table d.t (id int primary key, n int); create table d.u (id int)",
        )?;
        source.sql("flush binary logs; insert into d.t values (1, 0); flush binary logs; insert into d.t values (2, 0)")?;
        let target = Launch::mysql().options(["--server-id=2", "--skip-log-bin", mode]).start()?;
        let index = [source.datadir().join("binlog.index")];
        let garble =
            |log: &str| fs::write(source.datadir().join(log), b"\xfebin and nothing that can be read");
        let follow = || -> Result<()> {
            let child = begin(&index, &target, &["--follow"])?;
            wait_until("the end", || has_caught_up(&source, &target))?;
            end_by_interrupt(child)?;
            Ok(())
        };
        follow()?;
        source.sql("flush binary logs; insert into d.t values (3, 0)")?;
        garble("binlog.000001")?;
        garble("binlog.000002")?;
        follow()?;
        ends_equal(&source, &target)?;
        // A log that is needed is read.
        source.sql("flush binary logs; insert into d.t values (4, 0); flush binary logs; insert into d.t values (5, 0)")?;
        garble("binlog.000005")?;
        let ran = replay(&index, &target, &["--follow"])?;
        ensure!(ran.code == Some(1) && ran.stderr.contains("binlog.000005"), "{mode}: {ran:?}");
    }
    Ok(())
}

#[test]
fn metrics_show_the_progress_of_a_running_replay() -> Result<()> {
    let source = source_of(20)?;
    let target = target("--skip-log-bin")?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("bintide.prom");
    let index = [source.datadir().join("binlog.index")];
    let written = file.display().to_string();
    let options = ["--follow", "--metrics", "127.0.0.1:0", "--metrics-file", &written, "--workers", "3"];
    let mut child = begin(&index, &target, &options)?;
    let mut line_text = String::new();
    let mut stderr = BufReader::new(child.stderr.take().context("standard error is not piped")?);
    stderr.read_line(&mut line_text)?;
    let address = line_text
        .trim()
        .strip_prefix("bintide: metrics are at http://")
        .context("no address of the metrics")?;
    let address = address.strip_suffix("/metrics").context("no path /metrics")?;
    wait_until("the end", || {
        Ok(has_caught_up(&source, &target)? && number(&scraped(address)?, "bintide_replay_caught_up")? == 1.0)
    })?;
    let idle = scraped(address)?;
    for (name, expected) in [
        ("bintide_replay_transactions_total", 23.0),
        ("bintide_replay_rows_total", 20.0),
        ("bintide_replay_retries_total", 0.0),
        ("bintide_replay_workers", 3.0),
        ("bintide_replay_workers_busy", 0.0),
        ("bintide_replay_lag_seconds", 0.0),
        ("bintide_build_info", 1.0),
    ] {
        ensure!(number(&idle, name)? == expected, "{name} is not {expected}: {idle}");
    }
    // Two of the sessions wait for a lock; the metrics are still served.
    let mut holder = lock_row(&target, 1000)?;
    source.sql("insert into d.t values (1000, 0)")?;
    wait_until("a session that waits", || waits(&target))?;
    wait_until("the waiting transactions", || {
        let metrics = scraped(address)?;
        let busy = number(&metrics, "bintide_replay_workers_busy")?;
        Ok(busy >= 1.0 && number(&metrics, "bintide_replay_lag_seconds")? > 0.0)
    })?;
    holder.run("rollback")?;
    let commits = number(&idle, "bintide_replay_commits_total")?;
    wait_until("the end", || {
        let metrics = scraped(address)?;
        Ok(number(&metrics, "bintide_replay_caught_up")? == 1.0
            && number(&metrics, "bintide_replay_commits_total")? == commits + 1.0)
    })?;
    // Each transaction has a lag, including the one that waited for the lock.
    let last = scraped(address)?;
    ensure!(number(&last, "bintide_replay_commit_lag_seconds_count")? == 24.0, "{last}");
    ensure!(number(&last, "bintide_replay_commit_lag_seconds_sum")? > 0.0, "{last}");
    let status = source.sql("show binary log status")?;
    let status: Vec<&str> = status.split_whitespace().take(2).collect();
    let log_number: f64 = status[0].rsplit('.').next().context("no number")?.parse()?;
    ensure!(number(&last, "bintide_replay_log_number")? == log_number, "{last}");
    ensure!(number(&last, "bintide_replay_position_bytes")? == status[1].parse::<f64>()?, "{last}");
    end_by_interrupt(child)?;
    drop(stderr);
    // The file has the final values.
    let file = fs::read_to_string(&file)?;
    check_format(&file, ExpositionFormat::Classic)?;
    ensure!(number(&file, "bintide_replay_transactions_total")? == 24.0, "{file}");
    // An address in use is refused before anything is applied.
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let ran = replay(&index, &target, &["--metrics", &taken.local_addr()?.to_string()])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("could not serve metrics at 127.0.0.1:"), "{ran:?}");
    Ok(())
}
