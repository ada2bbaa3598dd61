//! `bintide stream --to kafka://…` on a real broker: readers of committed records get what a pipe gets, each change
//! exactly once and in order by key, whatever is killed.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::{Running, wait_for_within};
use e2e::kafka::{
    PrimaryKeys, TopicRecord, compare_with_pipe, java_partition, read_matching_topics, read_topics, stream_to,
};
use e2e::kafka_soak::{KafkaFault, KafkaSoak};
use testkit::{KafkaBroker, Launch, SeededRandom, TestServer, seed_from_env};

/// Time limit of waits.
const TIMEOUT: Duration = Duration::from_secs(90);

const TABLES: &str = "create database d; use d;
    create table t (id int primary key auto_increment, b text);
    create table pair (a varchar(20), b int, c int, primary key (b, a)); create table no_key (a int);";

const KEYS: PrimaryKeys<'_> = &[("d.t", &["id"]), ("d.pair", &["b", "a"]), ("d.no_key", &[])];

fn source() -> Result<TestServer> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql(TABLES)?;
    Ok(server)
}

fn from(server: &TestServer) -> String {
    format!("mysql://root@127.0.0.1:{}/?timeout=8", server.port())
}

/// Streams up to the end of the server's log.
fn stream_all(broker: &KafkaBroker, source: &TestServer, more: &[&str]) -> Result<String> {
    let from = from(source);
    let arguments = [&["--from", &from, "--stop-at-end"][..], more].concat();
    let ran = stream_to(broker, &arguments)?.output()?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.success(), "{}: {said}", ran.status);
    Ok(said)
}

fn follow(broker: &KafkaBroker, source: &TestServer) -> Result<Running> {
    Running::start(stream_to(broker, &["--from", &from(source)])?.stderr(Stdio::piped()))
}

/// Records, keys, tombstones, headers and partitions are those of Debezium, and a second run adds only what is new.
#[test]
fn topics_have_the_records_of_a_pipe() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql(
        "use d; insert into t (b) values ('one'), ('two'), (null);
         begin; update t set b = 'changed' where id < 3; update t set id = 10 where id = 1; delete from t where id = 2; commit;
         insert into pair values ('ü', 1, 2), ('x', 1, 3); update pair set c = 4; delete from pair where a = 'x';
         insert into no_key values (1), (1); delete from no_key limit 1; alter table no_key add b int;",
    )?;
    stream_all(&broker, &source, &["--partitions", "3"])?;
    let first = compare_with_pipe(&broker, &source, KEYS)?;
    let records = read_topics(&broker)?;
    for record in &records {
        if let Some(key) = &record.key {
            ensure!(record.partition == java_partition(key.as_bytes(), 3), "{record:?}");
        }
    }
    let headers: Vec<&[String; 2]> = records.iter().flat_map(|record| &record.headers).collect();
    // The delete and its tombstone have the new key, and the insert has the old one.
    let wanted = [["__debezium.newkey", "{\"id\":10}"], ["__debezium.oldkey", "{\"id\":1}"]];
    let count = |wanted: &[&str; 2]| headers.iter().filter(|found| **found == wanted).count();
    ensure!(headers.len() == 3 && wanted.each_ref().map(count) == [2, 1], "{headers:?}");

    source.sql("insert into d.t (b) values ('later')")?;
    stream_all(&broker, &source, &[])?;
    let second = compare_with_pipe(&broker, &source, KEYS)?;
    ensure!(second == first + 3, "{first} records, then {second}");
    Ok(())
}

/// Bintide, the broker and the source are stopped, also while a transaction that is too large for one transaction of Kafka
/// is committed in parts.
#[test]
fn kills_lose_and_repeat_nothing() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let faults = [
        KafkaFault::Bintide,
        KafkaFault::Bintide,
        KafkaFault::Broker,
        KafkaFault::Bintide,
        KafkaFault::Source,
        KafkaFault::Interrupt,
        KafkaFault::Bintide,
    ];
    let records = KafkaSoak::new()?
        .run(&mut SeededRandom::new(seed), |count, _| faults.get(usize::try_from(count).ok()?).copied())?;
    ensure!(records > 60_000, "{records}");
    Ok(())
}

/// While the chosen tables are quiet, heartbeats follow each other, and the saved position moves on.
#[test]
fn heartbeats_are_written_while_chosen_tables_are_quiet() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("create database other; create table other.t (a int); create table d.chosen (a int primary key, b int)")?;
    let arguments =
        ["--from", &from(&source), "--do-db=d", "--heartbeat-interval=1", "--message-key-columns=d.chosen:b"];
    let running = Running::start(stream_to(&broker, &arguments)?.stderr(Stdio::piped()))?;
    source.sql("insert into d.chosen values (1, 7)")?;
    wait_for_within(TIMEOUT, || {
        let records = read_matching_topics(&broker, |topic| topic == "bintide.d.chosen")?;
        ensure!(records.len() == 1 && records[0].key.as_deref() == Some("{\"b\":7}"), "{records:?}");
        Ok(())
    })?;
    source.sql("insert into other.t values (1), (2)")?;
    let executed = source.sql("select @@gtid_executed")?;
    wait_for_within(TIMEOUT, || {
        let beats = read_matching_topics(&broker, |topic| topic == "__debezium-heartbeat.bintide")?;
        let is_beat = |beat: &TopicRecord| {
            beat.key.as_deref() == Some("{\"serverName\":\"bintide\"}")
                && beat.value.as_ref().is_some_and(|value| value.starts_with("{\"ts_ms\":"))
        };
        ensure!(beats.len() > 2 && beats.iter().all(is_beat), "{beats:?}");
        let saved = read_matching_topics(&broker, |topic| topic == "bintide.bintide-progress")?;
        let saved = saved.last().and_then(|last| last.value.clone()).context("no progress")?;
        ensure!(saved.contains(executed.trim()), "{saved} does not have {executed}");
        Ok(())
    })?;
    running.interrupt()?;
    let ended = running.output()?;
    ensure!(ended.status.code() == Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

/// A record that the brokers do not take ends the stream, and the error names it. A run with a larger limit writes it.
#[test]
fn large_records_are_named() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql(
        "alter table d.t modify b longtext; insert into d.t (b) values ('small'), (repeat('x', 1500000))",
    )?;
    let from = from(&source);
    let ran = stream_to(&broker, &["--from", &from, "--stop-at-end"])?.output()?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let gtid = source.sql("select @@gtid_executed")?;
    let gtid = gtid.trim().replace(":1-", ":");
    for wanted in ["bintide.d.t", "key {\"id\":2}", "1500", &*gtid, "--kafka message.max.bytes=BYTES"] {
        ensure!(!ran.status.success() && said.contains(wanted), "{wanted}: {said}");
    }
    let limit = ["--from", &from, "--stop-at-end", "--kafka", "message.max.bytes=3000000"];
    let ran = stream_to(&broker, &limit)?.output()?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    // The topic has its own limit.
    ensure!(!ran.status.success() && said.contains("max.message.bytes of the topic"), "{said}");
    Ok(())
}

/// A second run of the same name takes over, and the first one ends with an error.
#[test]
fn second_run_fences_off_the_first() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("insert into d.t (b) values ('one')")?;
    let mut first = follow(&broker, &source)?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    let second = follow(&broker, &source)?;
    // Each insert is a transaction that both of them write.
    wait_for_within(TIMEOUT, || {
        source.sql("insert into d.t (b) values ('more')")?;
        first.try_wait()?.map(drop).context("the first run goes on")
    })?;
    let ran = first.output()?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(
        !ran.status.success() && said.contains("another bintide with --name bintide"),
        "{}: {said}",
        ran.status
    );
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    second.interrupt()?;
    let ended = second.output()?;
    ensure!(ended.status.code() == Some(130), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    compare_with_pipe(&broker, &source, KEYS).context("after the end").map(drop)
}
