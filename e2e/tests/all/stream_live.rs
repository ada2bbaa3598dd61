//! `bintide stream --from` through failures of servers and networks: no transaction is lost, and files have each
//! one once.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use e2e::command::{ChildGuard, wait_for};
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{CutMode, Launch, Proxy, SeededRandom, TestServer, seed_from_env};

const TABLE: &str = "create database d; create table d.t (a int primary key auto_increment, b text)";

fn stream(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["stream", "--format", "maxwell"]).args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn from(port: u16) -> String {
    format!("mysql://root@127.0.0.1:{port}/?timeout=8")
}

/// Returns the output of a run that ends by itself.
fn printed(arguments: &[&str]) -> Result<String> {
    let ran = stream(arguments)?.output()?;
    ensure!(ran.status.success(), "{arguments:?}: {}", output_text(&ran));
    Ok(String::from_utf8(ran.stdout)?)
}

fn output_text(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Returns the stream of the server's logs.
fn expected_stream(server: &TestServer) -> Result<String> {
    printed(&[&server.datadir().join("binlog.index").display().to_string()])
}

/// Ends a run with SIGINT, as Ctrl-C does; returns its messages.
fn interrupted(child: ChildGuard) -> Result<String> {
    child.interrupt()?;
    let ran = child.output()?;
    ensure!(ran.status.code() == Some(130), "{}: {}", ran.status, output_text(&ran));
    Ok(output_text(&ran))
}

/// Returns all records in a directory's files, finished or not.
fn records(directory: &Path) -> Result<String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.to_string_lossy().contains("changes."));
    paths.sort();
    paths.into_iter().map(|path| Ok(fs::read_to_string(path)?)).collect()
}

/// After every kind of network cut and a restart of the server, each transaction is in the files once.
#[test]
fn lost_connections_lose_and_repeat_nothing() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let mut random = SeededRandom::new(seed);
    let mut server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(TABLE)?;
    let insert = "insert into d.t (b) values (repeat('x', 9000)), ('two'), (repeat('z', 9000));";
    server.sql(&insert.repeat(40))?;
    let proxy = Proxy::to(server.port())?;
    let directory = TempDir::new()?;
    let out = directory.path().join("out").display().to_string();
    let cuts = [CutMode::Close, CutMode::Reset, CutMode::Close, CutMode::Reset];
    // The login takes some thousand bytes: the first connection must succeed.
    proxy.cut_after(30_000 + random.below(300_000) as u64, cuts[0]);
    let arguments = ["--from", &from(proxy.port()), "--out", &out, "--file-size", "100000"];
    let child = ChildGuard::start(stream(&arguments)?.stderr(Stdio::piped()))?;
    for next in cuts.iter().skip(1).map(Some).chain([None]) {
        wait_for(|| proxy.is_cut().then_some(()).context("the proxy has not cut the connection"))?;
        proxy.mend();
        if let Some(cut) = next {
            proxy.cut_after(2000 + random.below(400_000) as u64, *cut);
            server.sql(&insert.repeat(25))?;
        }
    }
    server.stop()?;
    server.start_again(&[])?;
    server.sql(insert)?;
    let expected = expected_stream(&server)?;
    wait_for(|| {
        let found = records(Path::new(&out))?;
        ensure!(found == expected, "{} bytes of {}", found.len(), expected.len());
        Ok(())
    })?;
    let second = stream(&arguments)?.output()?;
    ensure!(
        second.status.code() == Some(2) && output_text(&second).contains("in use by another process"),
        "{second:?}"
    );
    let output_text = interrupted(child)?;
    ensure!(output_text.matches("retrying in").count() >= 4, "{output_text}");
    let connected = format!("connected to the server at 127.0.0.1:{}\n", proxy.port());
    ensure!(output_text.matches(&connected).count() >= 4, "{output_text}");
    ensure!(records(Path::new(&out))? == expected);
    Ok(())
}

/// Starts a source, and a replica that logs the same GTIDs itself.
fn pair(mysql: bool) -> Result<[TestServer; 2]> {
    let launch = |id: u8| {
        let options = ["--binlog-row-metadata=FULL".to_owned(), format!("--server-id={id}")];
        match mysql {
            true => Launch::mysql().options(options).start(),
            false => Launch::mariadb()
                .options(options)
                .options(["--binlog-format=ROW", "--log-slave-updates=ON", "--gtid-strict-mode=ON"])
                .start(),
        }
    };
    let (source, replica) = (launch(71)?, launch(72)?);
    match mysql {
        true => replica.replicate_from(&source)?,
        false => {
            replica.sql(&format!(
                "change master to master_host = '127.0.0.1', master_port = {}, master_user = 'root',
                   master_use_gtid = slave_pos; start slave",
                source.port()
            ))?;
        }
    }
    Ok([source, replica])
}

fn count(server: &TestServer, rows: usize) -> Result<()> {
    let found = server.sql("select count(*) from d.t")?;
    ensure!(found.trim() == rows.to_string(), "{found} rows, not {rows}");
    Ok(())
}

/// Returns the texts of the rows.
fn values(records: &str) -> Result<Vec<String>> {
    let value = |line: &str| -> Result<String> {
        let record: serde_json::Value = serde_json::from_str(line)?;
        Ok(record["data"]["b"].as_str().context("no row")?.to_owned())
    };
    records.lines().filter(|line| line.contains("\"data\":")).map(value).collect()
}

/// Another MariaDB with the same `server_id` has other transactions at the position where the stream would resume.
#[test]
fn streams_do_not_resume_in_the_log_of_another_mariadb() -> Result<()> {
    let source = Launch::mariadb().option("--server-id=1").option("--binlog-format=ROW").start()?;
    source.sql(TABLE)?;
    let directory = TempDir::new()?;
    let progress = directory.path().join("progress").display().to_string();
    let arguments = ["--from", &from(source.port()), "--progress", &progress, "--stop-at-end"];
    source.sql("insert into d.t (b) values ('one')")?;
    printed(&arguments)?;
    source.sql("insert into d.t (b) values ('two')")?;
    ensure!(values(&printed(&arguments)?)? == ["two"]);
    // The same statements with other rows and GTIDs, and one more transaction: their events have the same positions.
    source.sql("drop database d; reset master")?;
    source.sql(&format!("set gtid_seq_no = 100; {TABLE}"))?;
    for text in ["six", "ten", "new"] {
        source.sql(&format!("insert into d.t (b) values ('{text}')"))?;
    }
    let ran = stream(&arguments)?.output()?;
    let text = output_text(&ran);
    ensure!(ran.status.code() == Some(2) && text.contains("its logs were reset"), "{ran:?}");
    Ok(())
}

/// After a failover, a stream resumes at the promoted replica by GTIDs.
#[test]
fn streams_resume_by_gtids_after_a_failover() -> Result<()> {
    for mysql in [true, false] {
        let [mut source, replica] = pair(mysql)?;
        // Positions in the replica's log differ: it starts with more transactions.
        source.sql(TABLE)?;
        source.sql(
            "flush binary logs; insert into d.t (b) values ('one'); insert into d.t (b) values ('two')",
        )?;
        let directory = TempDir::new()?;
        let progress = directory.path().join("progress").display().to_string();
        let run = |port: u16| {
            printed(&["--from", &from(port), "--progress", &progress, "--do-table", "d.t", "--stop-at-end"])
        };
        ensure!(values(&run(source.port())?)? == ["one", "two"]);
        source.sql("insert into d.t (b) values ('three')")?;
        wait_for(|| count(&replica, 3))?;
        source.kill()?;
        replica.sql(if mysql { "stop replica" } else { "stop slave" })?;
        replica.sql("flush binary logs; insert into d.t (b) values ('four')")?;
        ensure!(values(&run(replica.port())?)? == ["three", "four"], "{mysql}");
        ensure!(run(replica.port())?.is_empty());
        replica.sql("insert into d.t (b) values ('five')")?;
        ensure!(values(&run(replica.port())?)? == ["five"]);
        if mysql {
            refused(&progress, &replica)?;
        }
    }
    Ok(())
}

/// Checks that a server without the transactions is refused, and one whose logs were reset.
fn refused(progress: &str, replica: &TestServer) -> Result<()> {
    let check = |server: &TestServer, expected: &str| {
        let ran = stream(&["--from", &from(server.port()), "--progress", progress])?.output()?;
        match ran.status.code() == Some(2) && output_text(&ran).contains(expected) {
            true => Ok(()),
            false => bail!("{expected}: {ran:?}"),
        }
    };
    let unrelated = Launch::mysql().start()?;
    unrelated.sql("create database other")?;
    check(&unrelated, "it is not a replica of the other server, or lags behind")?;
    replica.sql("reset binary logs and gtids; create database other")?;
    check(replica, "its logs were reset")
}

/// Returns the name of a server's newest log.
fn newest_log(server: &TestServer) -> Result<String> {
    let path = server.binlogs()?.pop().context("no log")?;
    Ok(path.file_name().context("no name")?.to_string_lossy().into_owned())
}

/// Purges all logs but the newest one, as soon as no connection reads them any more.
fn purge_to_newest(server: &TestServer) -> Result<()> {
    wait_for(|| {
        server.sql(&format!("purge binary logs to '{}'", newest_log(server)?))?;
        ensure!(server.binlogs()?.len() == 1, "old logs are in use");
        Ok(())
    })
}

/// A source without changes starts new logs and purges the old ones: a stream that has read up to the newest log resumes
/// there, and one that has not resumes by GTIDs.
#[test]
fn purged_logs_without_changes_are_not_needed() -> Result<()> {
    let mysql = |mode: &str| {
        let consistency = format!("--enforce-gtid-consistency={mode}");
        Launch::mysql().options(["--binlog-row-metadata=FULL", &format!("--gtid-mode={mode}"), &consistency])
    };
    let mariadb = Launch::mariadb().options(["--binlog-row-metadata=FULL", "--binlog-format=ROW"]);
    for (launch, has_gtids) in [(mysql("OFF"), false), (mysql("ON"), true), (mariadb, true)] {
        let server = launch.start()?;
        server.sql(&format!("{TABLE}; insert into d.t (b) values ('one')"))?;
        let directory = TempDir::new()?;
        let progress = directory.path().join("progress").display().to_string();
        let run = || -> Result<Output> {
            let arguments = ["--from", &from(server.port()), "--progress", &progress, "--stop-at-end"];
            Ok(stream(&arguments)?.output()?)
        };
        let purge = || purge_to_newest(&server);
        let found = run()?;
        ensure!(values(&String::from_utf8(found.stdout)?)? == ["one"], "{has_gtids}");
        server.sql("flush binary logs; flush binary logs")?;
        let found = run()?;
        ensure!(found.status.success() && found.stdout.is_empty(), "{found:?}");
        let saved = fs::read_to_string(&progress)?;
        ensure!(saved.lines().next() == Some(&format!("{}:4", newest_log(&server)?)), "{saved}");
        purge()?;
        server.sql("insert into d.t (b) values ('two')")?;
        let found = run()?;
        ensure!(values(&String::from_utf8(found.stdout)?)? == ["two"], "{has_gtids}");
        server.sql("flush binary logs; flush binary logs")?;
        purge()?;
        server.sql("insert into d.t (b) values ('three')")?;
        let found = run()?;
        let text = output_text(&found);
        if has_gtids {
            ensure!(values(&String::from_utf8(found.stdout)?)? == ["three"], "{text}");
            ensure!(text.contains("resuming after the saved GTIDs instead"), "{text}");
            server.sql("insert into d.t (b) values ('lost'); flush binary logs; flush binary logs")?;
            purge()?;
        }
        let found = run()?;
        let text = output_text(&found);
        ensure!(found.status.code() == Some(2) && text.contains("the source cannot resume at"), "{text}");
    }
    Ok(())
}

/// After MariaDB has deleted a GTID domain, a stream that has received transactions of the domain resumes.
#[test]
fn streams_resume_after_a_domain_was_deleted() -> Result<()> {
    let server = Launch::mariadb().options(["--binlog-row-metadata=FULL", "--binlog-format=ROW"]).start()?;
    server.sql(&format!("{TABLE}; set gtid_domain_id = 5; insert into d.t (b) values ('one')"))?;
    let directory = TempDir::new()?;
    let progress = directory.path().join("progress").display().to_string();
    let run = || printed(&["--from", &from(server.port()), "--progress", &progress, "--stop-at-end"]);
    ensure!(values(&run()?)? == ["one"]);
    ensure!(fs::read_to_string(&progress)?.contains(",5-"));
    // A domain can be deleted only if none of the logs has it.
    server.sql("flush binary logs")?;
    ensure!(run()?.is_empty());
    purge_to_newest(&server)?;
    server.sql("flush binary logs delete_domain_id = (5); insert into d.t (b) values ('two')")?;
    ensure!(values(&run()?)? == ["two"]);
    let saved = fs::read_to_string(&progress)?;
    ensure!(!saved.contains(",5-"), "{saved}");
    server.sql("insert into d.t (b) values ('three')")?;
    ensure!(values(&run()?)? == ["three"]);
    Ok(())
}

/// Without GTIDs, another server's position is unknown: it is refused, not streamed from its start.
#[test]
fn other_servers_are_refused_without_gtids() -> Result<()> {
    let named = "--binlog-row-metadata=FULL";
    let source =
        Launch::mysql().options([named, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]).start()?;
    let other = Launch::mysql().option(named).start()?;
    for (server, text) in [(&source, "one"), (&other, "other")] {
        server.sql(&format!("{TABLE}; insert into d.t (b) values ('{text}')"))?;
    }
    for (more, rows) in [(&[][..], 1), (&["--snapshot"], 2)] {
        let directory = TempDir::new()?;
        let out = directory.path().join("out").display().to_string();
        let run = |server: &TestServer, more: &[&str]| -> Result<Output> {
            let from = from(server.port());
            Ok(stream(&[&["--from", &from, "--out", &out, "--stop-at-end"], more].concat())?.output()?)
        };
        let ran = run(&source, more)?;
        ensure!(ran.status.success(), "{}", output_text(&ran));
        let ran = run(&other, &[])?;
        ensure!(ran.status.code() == Some(2) && output_text(&ran).contains("without GTIDs"), "{ran:?}");
        source.sql("insert into d.t (b) values ('two')")?;
        let ran = run(&source, &[])?;
        ensure!(ran.status.success(), "{}", output_text(&ran));
        let found = records(Path::new(&out))?;
        ensure!(found.matches(r#""b":""#).count() == rows + 1 && !found.contains("other"), "{found}");
    }
    Ok(())
}

/// The server does not log column names, and the account has no privilege on any table: the names come from the
/// definitions in the log, which are saved for the next run.
#[test]
fn definitions_in_the_log_are_kept_for_the_next_run() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create user few; grant replication slave on *.* to few")?;
    let directory = TempDir::new()?;
    let out = directory.path().join("out").display().to_string();
    let from = format!("mysql://few@127.0.0.1:{}/?timeout=8", server.port());
    let run = || {
        printed(&["--from", &from, "--out", &out, "--schema", "ddl", "--do-table", "d.t", "--stop-at-end"])
    };
    server.sql(&format!("{TABLE}; insert into d.t (b) values ('one')"))?;
    run()?;
    server.sql(
        "insert into d.t (b) values ('two'); alter table d.t add column c int first, rename column a to k",
    )?;
    run()?;
    server.sql(
        "flush binary logs; insert into d.t (b) values ('three'); rename table d.t to d.x, d.x to d.t",
    )?;
    run()?;
    server.sql("alter table d.t change b b varchar(9) first, drop c; insert into d.t (b) values ('four')")?;
    run()?;
    let found = records(Path::new(&out))?;
    ensure!(values(&found)? == ["one", "two", "three", "four"], "{found}");
    let last = found.lines().last().context("no record")?;
    ensure!(last.contains(r#""data":{"b":"four","k":4}"#), "{last}");
    // A run without --schema skips a definition: column names from before the definition are not used after it.
    server.sql(
        "alter table d.t rename column k to b, rename column b to k; insert into d.t values ('five', 5)",
    )?;
    printed(&[
        "--from",
        &from,
        "--out",
        &out,
        "--columns",
        "numbered",
        "--do-table",
        "d.t",
        "--stop-at-end",
    ])?;
    server.sql("insert into d.t values ('six', 6)")?;
    let ran = stream(&["--from", &from, "--out", &out, "--schema", "ddl", "--stop-at-end"])?.output()?;
    ensure!(ran.status.code() == Some(1) && output_text(&ran).contains("--schema"), "{ran:?}");
    ensure!(!records(Path::new(&out))?.contains("six"));
    Ok(())
}

/// Errors that a retry cannot fix end the run.
#[test]
fn errors_that_a_retry_cannot_fix_end_the_run() -> Result<()> {
    let [server, schema] = [Launch::mysql().start()?, Launch::mysql().start()?];
    server.sql(TABLE)?;
    server.sql("insert into d.t (b) values ('one')")?;
    schema.sql("create user names@'%' identified by 'right'")?;
    schema.sql("create user locked@'%' identified by 'right' with max_connections_per_hour 1")?;
    let out = TempDir::new()?;
    let [from, out] = [from(server.port()), out.path().display().to_string()];
    let fails = |user: &str, address: &str, expected: &str| -> Result<()> {
        let schema = format!("mysql://{user}@{address}/?tls=required");
        let mut child = ChildGuard::start(
            stream(&["--from", &from, "--out", &out, "--schema", &schema])?
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        )?;
        wait_for(|| {
            ensure!(child.try_wait()?.is_some(), "the command does not end");
            Ok(())
        })?;
        let ran = child.output()?;
        ensure!(
            ran.status.code() == Some(2) && output_text(&ran).contains(expected),
            "{}",
            output_text(&ran)
        );
        Ok(())
    };
    let address = format!("127.0.0.1:{}", schema.port());
    fails("names:wrong", &address, "--schema: Access denied for user 'names'")?;
    fails("names:right", "127.0.0.1:1", "--schema: the connection to the server at 127.0.0.1:1 failed: ")?;
    fails(
        "names:right",
        "no.such.host.invalid",
        "--schema: the connection to the server at no.such.host.invalid:3306 failed: ",
    )?;
    // The login works at the start, but not for the later lookup of a table.
    fails("locked:right", &address, "could not query the columns of d.t on the server: User 'locked'")
}

/// The log contains CREATE TABLE IF NOT EXISTS even if the table existed, so its columns may be wrong.
#[test]
fn create_table_if_not_exists_without_effect_gives_no_columns() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(
        "create database d; create table d.before (a int, b int); flush binary logs;
         create table if not exists d.made (k int, l int); insert into d.made values (1, 2);
         create table if not exists d.before (x int, y int); insert into d.before values (3, 4)",
    )?;
    let log = server.binlogs()?.pop().context("no log")?.display().to_string();
    let told = printed(&["--schema", "ddl", "--do-table", "d.made", &log])?;
    ensure!(told.contains(r#""data":{"k":1,"l":2}"#), "{told}");
    let ran = stream(&["--schema", "ddl", &log])?.output()?;
    ensure!(ran.status.code() == Some(1) && output_text(&ran).contains("d.before"), "{ran:?}");
    ensure!(!String::from_utf8_lossy(&ran.stdout).contains(r#""x":3"#), "{ran:?}");
    Ok(())
}

/// Progress of read records is saved while no events arrive, and `… | head -1` ends.
#[test]
fn closed_pipes_are_noticed_without_new_events() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(&format!("{TABLE}; insert into d.t (b) values ('one')"))?;
    let directory = TempDir::new()?;
    let progress = directory.path().join("progress");
    let mut command =
        stream(&["--from", &from(server.port()), "--progress", &progress.display().to_string()])?;
    let mut child = ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().context("standard output is not piped")?);
    while !line.contains("\"one\"") {
        line.clear();
        ensure!(reader.read_line(&mut line)? > 0, "the command has ended");
    }
    let record: serde_json::Value = serde_json::from_str(&line)?;
    let token = record["resume"].as_str().context("no resume point")?;
    wait_for(|| {
        let kept = fs::read_to_string(&progress)?;
        ensure!(kept.lines().next() == Some(token), "{kept}, not {token}");
        Ok(())
    })?;
    drop(reader);
    wait_for(|| child.try_wait()?.map(drop).context("the command does not end"))?;
    let ran = child.output()?;
    ensure!(ran.status.success() && output_text(&ran).is_empty(), "{ran:?}");
    Ok(())
}
