//! Failover to a replica: the store continues with the new source, contains each transaction once, and readers of
//! the store continue.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use binlog::gtid::{Gtid, GtidSet};
use e2e::as_sql::are_equal;
use e2e::command::wait_for;
use e2e::program::bintide;
use e2e::replays::{checksum, target};
use logs::{LogReader, ReadOutcome, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{CutMode, Launch, Proxy, SeededRandom, TestServer, seed_from_env};

const TABLES: &str = "create database d; create table d.t (id int primary key auto_increment, n int);
    create table d.u (id int primary key auto_increment, n int, b longtext)";
const WORK: &str = "insert into d.t (n) values (1), (0); update d.t set n = n + 1;
    begin; delete from d.t where id % 5 = 3; insert into d.u (n) select n from d.t; commit;";

fn start(command: &mut Command) -> Result<Child> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start bintide")
}

fn receive(ports: &[u16], store: &Path) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("receive").arg(store);
    for port in ports {
        command.args(["--from", &format!("mysql://root@127.0.0.1:{port}/?timeout=8")]);
    }
    start(&mut command)
}

fn follow(store: &Path, target: &TestServer) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let to = format!("mysql://root@localhost/?socket={}", target.socket().display());
    start(command.env_clear().args(["replay", "-q", "--follow"]).arg(store).args(["--to", &to]))
}

fn executed(server: &TestServer) -> Result<GtidSet> {
    let text = server.sql("select @@global.gtid_executed")?.replace("\\n", "");
    text.trim().parse().map_err(|_| anyhow!("{text}"))
}

/// Returns the GTIDs in the store's logs, in order.
fn stored(directory: &Path) -> Result<Vec<Gtid>> {
    let mut found = Vec::new();
    for log in Store::open(directory)?.logs() {
        let mut reader = LogReader::open(log)?;
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? {
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                found.extend(event.raw.decode(chunk.format())?.gtid());
            }
        }
    }
    Ok(found)
}

/// Checks that the store contains each of the server's transactions once and no others, and that its logs are
/// valid.
fn is_whole(directory: &Path, server: &TestServer) -> Result<()> {
    let found = stored(directory)?;
    let set: GtidSet = found.iter().copied().collect();
    let expected = executed(server)?;
    let (lacking, more) = (expected.difference(&set), set.difference(&expected));
    ensure!(lacking.is_empty() && more.is_empty(), "lacks {lacking}, has also {more}");
    let different: HashSet<Gtid> = found.iter().copied().collect();
    ensure!(different.len() == found.len(), "{} occur twice", found.len() - different.len());
    Ok(())
}

fn verify(directory: &Path) -> Result<()> {
    let ran = Command::new(bintide()?).env_clear().arg("verify").arg(directory).output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    Ok(())
}

/// Checks that a stream of the store has each transaction once, in the store's order.
fn stream(directory: &Path) -> Result<()> {
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .args(["stream", "-q", "--format", "debezium", "--columns", "numbered"])
        .arg(directory);
    let ran = command.output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut found = Vec::new();
    for line in ran.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let record: serde_json::Value = serde_json::from_slice(line)?;
        let end = if record["status"] == "END" { &record["id"] } else { &serde_json::Value::Null };
        let definition = if record["ddl"].is_string() { &record["source"]["gtid"] } else { end };
        found.extend(definition.as_str().map(str::to_owned));
    }
    let expected: Vec<String> = stored(directory)?.iter().map(ToString::to_string).collect();
    ensure!(found == expected, "{} transactions are streamed, and {} stored", found.len(), expected.len());
    Ok(())
}

fn end_by_interrupt(child: Child) -> Result<String> {
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let ran = child.wait_with_output()?;
    let printed = [ran.stderr, ran.stdout].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    ensure!(ran.status.code() == Some(130), "{:?} {printed}", ran.status);
    Ok(printed)
}

fn launch(server_id: u32) -> Launch {
    Launch::mysql().options([format!("--server-id={server_id}"), "--max-binlog-size=64K".to_owned()])
}

/// The source is lost within a transaction and its replica takes over; later, another replica does.
#[test]
fn receiving_continues_from_a_promoted_replica() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let (mut first, second, third) = (launch(1).start()?, launch(2).start()?, launch(3).start()?);
    let (target, directory) = (target("--skip-log-bin")?, TempDir::new()?);
    first.sql(TABLES)?;
    second.replicate_from(&first)?;
    third.replicate_from(&second)?;
    let proxy = Proxy::to(first.port())?;
    let ports = [proxy.port(), second.port(), third.port()];
    let mut receiving = receive(&ports, directory.path())?;
    wait_for(|| is_whole(directory.path(), &first))?;
    let replaying = follow(directory.path(), &target)?;
    // Log boundaries differ between the servers.
    for round in 0..12 {
        first.sql(WORK)?;
        let flushed = [&first, &second, &third][random.below(3)];
        flushed.sql("flush binary logs")?;
        if round == 6 {
            receiving.kill()?;
            receiving.wait()?;
            receiving = receive(&ports, directory.path())?;
        }
    }
    wait_for(|| is_whole(directory.path(), &first))?;
    // The store has a part of this transaction, and receives it again from the other server.
    proxy.cut_after(300_000 + random.below(300_000) as u64, CutMode::Close);
    first.sql("insert into d.u (b) values (repeat('x', 1000000))")?;
    wait_for(|| proxy.is_cut().then_some(()).context("nothing was sent"))?;
    wait_for(|| ensure_same(&executed(&first)?, &executed(&second)?))?;
    first.kill()?;
    second.sql("stop replica; reset replica all")?;
    second.sql(&WORK.repeat(3))?;
    wait_for(|| is_whole(directory.path(), &second))?;
    // After a restart, it continues with the new source, which skips a log without transactions; the started copy
    // of a log does not count.
    receiving.kill()?;
    receiving.wait()?;
    end_by_interrupt(replaying)?;
    only_begun(directory.path())?;
    second.sql(&format!("flush binary logs; flush binary logs; {WORK} flush binary logs; {WORK}"))?;
    receiving = receive(&ports, directory.path())?;
    wait_for(|| is_whole(directory.path(), &second))?;
    let replaying = follow(directory.path(), &target)?;
    wait_for(|| ensure_same(&executed(&second)?, &executed(&third)?))?;
    third.sql("stop replica; reset replica all")?;
    drop(second);
    third.sql(&WORK.repeat(3))?;
    wait_for(|| is_whole(directory.path(), &third))?;
    wait_for(|| are_equal(&third, &target, checksum))?;
    let printed = end_by_interrupt(receiving)?;
    ensure!(printed.contains("resuming from the server"), "{printed}");
    // The name and the position are those of the directory's log: the last server's differ.
    let last = Store::open(directory.path())?.logs().last().context("no logs")?.clone();
    let name = last.file_name().context("a log without a name")?.to_string_lossy();
    let end = format!("ends at {name}:{}\n", std::fs::metadata(&last)?.len());
    ensure!(printed.contains(&end), "{end}: {printed}");
    end_by_interrupt(replaying)?;
    verify(directory.path())?;
    stream(directory.path())
}

/// A replica that has not applied all transactions of the store is not used as the source until it has.
#[test]
fn lagging_replicas_are_waited_for() -> Result<()> {
    let (mut first, second) = (launch(1).start()?, launch(2).start()?);
    let directory = TempDir::new()?;
    first.sql(TABLES)?;
    second.replicate_from(&first)?;
    wait_for(|| ensure_same(&executed(&first)?, &executed(&second)?))?;
    second.sql("stop replica sql_thread")?;
    let mut receiving = receive(&[first.port(), second.port()], directory.path())?;
    first.sql(WORK)?;
    wait_for(|| is_whole(directory.path(), &first))?;
    // The replica has received the transactions.
    let expected = executed(&first)?.to_string();
    wait_for(|| {
        let sql = "select received_transaction_set from performance_schema.replication_connection_status";
        let received: GtidSet = second.sql(sql)?.trim().parse().map_err(|_| anyhow!("not a GTID set"))?;
        let expected: GtidSet = expected.parse().map_err(|_| anyhow!("not a GTID set"))?;
        ensure!(expected.difference(&received).difference(&executed(&second)?).is_empty(), "{received}");
        Ok(())
    })?;
    first.kill()?;
    let mut lines = BufReader::new(receiving.stderr.take().context("standard error is not piped")?).lines();
    let lacks = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("lacks transactions that")));
    lacks.context("the lagging replica was used")??;
    ensure!(Store::open(directory.path())?.logs().len() == 1, "a new log was started");
    second.sql("start replica sql_thread")?;
    wait_for(|| ensure_same(&executed(&second)?, &stored(directory.path())?.into_iter().collect()))?;
    second.sql("stop replica; reset replica all")?;
    second.sql(WORK)?;
    wait_for(|| is_whole(directory.path(), &second))?;
    receiving.kill()?;
    receiving.wait()?;
    verify(directory.path())
}

/// Truncates the last log as a kill after its first bytes would, before its Previous_gtids event.
fn only_begun(store: &Path) -> Result<()> {
    let index = store.join("binlog.index");
    let text = fs::read_to_string(&index)?;
    let last = text.lines().next_back().context("an empty index")?;
    let (base, number) = last.rsplit_once('.').context("no log")?;
    let next = format!("{base}.{:06}", number.parse::<u32>()? + 1);
    fs::write(store.join(&next), b"\xfebin")?;
    Ok(fs::write(&index, format!("{text}{next}\n"))?)
}

fn ensure_same(one: &GtidSet, other: &GtidSet) -> Result<()> {
    ensure!(one == other, "{one} is not {other}");
    Ok(())
}
