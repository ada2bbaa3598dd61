//! `bintide stream --to kafka://…` on a real broker: committed records equal those of a pipe, each change exactly
//! once and in order by key, whatever is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, wait_for_within};
use e2e::kafka::{
    PrimaryKeys, TopicRecord, compare, compare_with_pipe, compare_with_rows, java_partition, printed_records,
    read_matching_topics, read_topics, stream_to, unrouted,
};
use e2e::kafka_soak::{KafkaFault, KafkaSoak};
use e2e::metrics;
use e2e::program::bintide;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{
    KafkaBroker, KafkaTopics, Launch, PythonEnvironment, SeededRandom, TestServer, free_port, seed_from_env,
};

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
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.success(), "{}: {printed}", ran.status);
    Ok(printed)
}

/// Streams up to the end of the server's log, which fails. Returns the messages.
fn stream_refused(broker: &KafkaBroker, source: &TestServer, more: &[&str]) -> Result<String> {
    let from = from(source);
    let arguments = [&["--from", &from, "--stop-at-end"][..], more].concat();
    let ran = stream_to(broker, &arguments)?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(!ran.status.success(), "{printed}");
    Ok(printed)
}

fn follow(broker: &KafkaBroker, source: &TestServer) -> Result<ChildGuard> {
    ChildGuard::start(stream_to(broker, &["--from", &from(source)])?.stderr(Stdio::piped()))
}

/// Records, keys, tombstones, headers and partitions are those of Debezium, and a second run adds only new records.
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
    let expected = [["__debezium.newkey", "{\"id\":10}"], ["__debezium.oldkey", "{\"id\":1}"]];
    let count = |expected: &[&str; 2]| headers.iter().filter(|found| **found == expected).count();
    ensure!(headers.len() == 3 && expected.each_ref().map(count) == [2, 1], "{headers:?}");

    source.sql("insert into d.t (b) values ('later')")?;
    stream_all(&broker, &source, &[])?;
    let second = compare_with_pipe(&broker, &source, KEYS)?;
    ensure!(second == first + 3, "{first} records, then {second}");
    Ok(())
}

/// Topics are created with the chosen properties, except for that of the progress, or they must exist.
#[test]
fn topics_have_the_chosen_properties() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("insert into d.t (b) values ('one')")?;
    let config = ["--topic-config=retention.ms=86400000", "--topic-config=cleanup.policy=compact,delete"];
    stream_all(&broker, &source, &config)?;
    let topics = KafkaTopics::new(&broker)?;
    let check = |topic: &str, name: &str, expected: &str| {
        let found = topics.property(topic, name)?;
        ensure!(found.as_deref() == Some(expected), "{topic}: {name}={found:?}, expected {expected}");
        Ok(())
    };
    for topic in ["bintide.d.t", "bintide.transaction", "bintide"] {
        check(topic, "retention.ms", "86400000")?;
        check(topic, "cleanup.policy", "compact,delete")?;
    }
    check("bintide.bintide-progress", "cleanup.policy", "compact")?;

    let unknown = ["--name=unknown", "--topic-config=retention.mss=1"];
    let printed = stream_refused(&broker, &source, &unknown)?;
    ensure!(
        printed.contains("could not create the topic unknown") && printed.contains("retention.mss=1"),
        "{printed}"
    );

    source.sql("insert into d.no_key values (1)")?;
    let printed = stream_refused(&broker, &source, &["--require-topics"])?;
    ensure!(printed.contains("the topic bintide.d.no_key does not exist"), "{printed}");
    topics.create(&["bintide.d.no_key"], 1)?;
    stream_all(&broker, &source, &["--require-topics"])?;
    compare_with_pipe(&broker, &source, KEYS).map(drop)
}

/// Tables whose topics are the same for Kafka need a route.
#[test]
fn colliding_topics_are_named() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("create database d_a; create table d_a.b (a int); create table d.a_b (a int)")?;
    source.sql("insert into d_a.b values (1); insert into d.a_b values (2)")?;
    let printed = stream_refused(&broker, &source, &[])?;
    for expected in ["could not create the topic bintide.d.a_b", "from the topic bintide.d_a.b", "--route"] {
        ensure!(printed.contains(expected), "{expected}: {printed}");
    }
    stream_all(&broker, &source, &[r"--route=d\.a_b=other"]).map(drop)
}

/// Tables that match a route share a topic, also in a later run. Their keys distinguish them, and keep the order of
/// each row.
#[test]
fn routed_tables_share_a_topic() -> Result<()> {
    const ROUTED: PrimaryKeys<'_> =
        &[("d.t", &["id"]), ("d.order_1", &["id"]), ("d.order_2", &["id"]), ("d.log_1", &[])];
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql(
        "use d; create table order_1 (id int primary key, n int); create table order_2 (id int primary key, n int);
         create table log_1 (a int); insert into order_1 values (1, 1), (2, 2); insert into order_2 values (1, 3), (2, 4);
         begin; update order_1 set n = 5; update order_2 set n = 6; update order_1 set id = 7 where id = 1; commit;
         delete from order_2 where id = 1; insert into t (b) values ('one'); insert into log_1 values (1)",
    )?;
    let routes = [r"--route=d\.(order|log)_[0-9]+=d.$1s", "--route=d.order_1=other", "--partitions=3"];
    stream_all(&broker, &source, &routes)?;
    source.sql("use d; insert into order_2 values (1, 8); update order_1 set n = 9; delete from order_1 where id = 7")?;
    stream_all(&broker, &source, &routes)?;
    let records = read_topics(&broker)?;
    let topics: BTreeSet<&str> = records.iter().map(|record| record.topic.as_str()).collect();
    let expected = ["bintide", "bintide.d.logs", "bintide.d.orders", "bintide.d.t", "bintide.transaction"];
    ensure!(topics == expected.into(), "{topics:?}");
    // Debezium writes the headers before its router changes the keys.
    let header = [["__debezium.newkey".to_owned(), "{\"id\":7}".to_owned()]];
    let deleted = "{\"id\":1,\"__dbz__physicalTableIdentifier\":\"bintide.d.order_1\"}";
    let deleted = records.iter().filter(|record| record.key.as_deref() == Some(deleted));
    ensure!(deleted.filter(|record| record.headers == header).count() == 2, "{records:?}");
    let misplaced = records.iter().find(|record| {
        record.key.as_ref().is_some_and(|key| record.partition != java_partition(key.as_bytes(), 3))
    });
    ensure!(misplaced.is_none(), "{misplaced:?}");
    compare(&printed_records(&source)?, &unrouted(records)?, ROUTED)?;

    let printed = stream_refused(&broker, &source, &["--name=other", "--route=d.order_.=d.t"])?;
    ensure!(printed.contains("d.t have the same topic other.d.t"), "{printed}");
    Ok(())
}

/// Program of the recipe for PostgreSQL, with SQLite in its place.
fn reader_program(broker: &KafkaBroker, database: &Path) -> Result<String> {
    let page = testkit::workspace_root().join("docs/recipes/kafka-readers.md");
    let page = fs::read_to_string(page)?;
    let program =
        page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).context("no program")?;
    let connect = format!("sqlite3.connect({:?})", database.display().to_string());
    // The broker detects a killed reader only after this time.
    let program = program.replace("\"group.id\"", "\"session.timeout.ms\": 6000, \"group.id\"");
    let program = program.replace("psycopg.connect(\"dbname=shop\")", &connect).replace("psycopg", "sqlite3");
    Ok(program.replace("%s", "?").replace("b1:9092", &broker.address()))
}

/// The program of the recipe keeps a copy of a table, also after a kill.
#[test]
fn the_reader_of_the_recipe_keeps_a_copy() -> Result<()> {
    let (broker, source, directory) = (KafkaBroker::start(&[])?, source()?, TempDir::new()?);
    let (database, file) = (directory.path().join("copy.db"), directory.path().join("reader.py"));
    let copy = rusqlite::Connection::open(&database)?;
    copy.execute_batch(
        "pragma journal_mode = wal; create table orders (id integer primary key, customer text, amount text)",
    )?;
    fs::write(&file, reader_program(&broker, &database)?)?;
    source.sql(
        "create database shop; create table shop.orders (id int primary key, customer varchar(100), amount decimal(10,2));
         insert into shop.orders values (1, 'Zoë', 10.5), (2, null, null), (3, 'gone', 0)",
    )?;
    let options = ["--name=shop", "--do-table=shop.orders", "--decimal-handling-mode=string", "--snapshot"];
    stream_all(&broker, &source, &options)?;
    let rows = || -> Result<String> {
        let mut query = copy
            .prepare("select id, ifnull(customer, 'NULL'), ifnull(amount, 'NULL') from orders order by id")?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok(format!(
                "{}\t{}\t{}",
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?
            ))
        };
        Ok(query.query_map([], row)?.collect::<Result<Vec<_>, _>>()?.join("\n"))
    };
    let check_copy = || -> Result<()> {
        let mut reader = Command::new(PythonEnvironment::KAFKA.python()?);
        let mut reader = ChildGuard::start(reader.arg(&file).stdin(Stdio::null()).stderr(Stdio::inherit()))?;
        let expected = source.sql("select * from shop.orders order by id")?;
        wait_for_within(TIMEOUT, || {
            let found = rows()?;
            ensure!(found == expected.trim(), "{found}, expected {expected}");
            Ok(())
        })?;
        reader.kill()?;
        reader.wait()?;
        Ok(())
    };
    check_copy()?;
    source.sql(
        "use shop; update orders set amount = amount + 1; delete from orders where id = 3; insert into orders values (4, 'new', 7);
         update orders set id = 5 where id = 1",
    )?;
    stream_all(&broker, &source, &options)?;
    check_copy()
}

/// Log files and archives are sources too, and each run continues after the last one.
#[test]
fn logs_and_archives_are_streamed_and_resumed() -> Result<()> {
    let (broker, source, directory) = (KafkaBroker::start(&[])?, source()?, TempDir::new()?);
    let index = source.datadir().join("binlog.index").display().to_string();
    let archive = directory.path().join("archive").display().to_string();
    let stream_logs = |location: &str| {
        let ran = stream_to(&broker, &[location])?.output()?;
        ensure!(ran.status.success(), "{location}: {}", String::from_utf8_lossy(&ran.stderr));
        compare_with_pipe(&broker, &source, KEYS).with_context(|| location.to_owned())
    };
    source.sql(
        "use d; insert into t (b) values ('one'); flush binary logs; insert into t (b) values ('two')",
    )?;
    let first = stream_logs(&index)?;
    // Within a log.
    source.sql("use d; update t set b = 'changed'; flush binary logs; delete from t limit 1")?;
    let second = stream_logs(&index)?;
    ensure!(second == first + 8, "{first} records, then {second}");
    source.sql("use d; insert into t (b) values ('three'); flush binary logs")?;
    let archived =
        Command::new(bintide()?).args(["archive", "--quiet", "--to", &archive, &index]).output()?;
    ensure!(archived.status.success(), "{}", String::from_utf8_lossy(&archived.stderr));
    let third = stream_logs(&archive)?;
    ensure!(third == second + 3, "{second} records, then {third}");
    Ok(())
}

/// The rows of a snapshot are reads, each once, and the changes after it follow. A later run does not read them again.
#[test]
fn snapshots_come_before_the_changes() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql(
        "use d; insert into t (b) values ('one'), ('two'), (null); insert into pair values ('ü', 1, 2), ('x', 1, 3);
         insert into no_key values (1), (1)",
    )?;
    stream_all(&broker, &source, &["--snapshot", "--partitions=3"])?;
    source.sql(
        "use d; update t set b = 'changed' where id = 2; delete from t where id = 3; insert into t (b) values ('later');
         update pair set b = 5 where a = 'x'; insert into no_key values (2)",
    )?;
    stream_all(&broker, &source, &["--snapshot"])?;
    let records = read_topics(&broker)?;
    let (mut reads, mut marks): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
    for record in &records {
        let Some(value) = &record.value else { continue };
        let value: Value = serde_json::from_str(value)?;
        if value["op"] == "r" {
            ensure!(value["before"].is_null() && value["transaction"].is_null(), "{record:?}");
            *reads.entry(record.topic.clone()).or_default() += 1;
            *marks.entry(value["source"]["snapshot"].to_string()).or_default() += 1;
        }
    }
    let expected = [("bintide.d.no_key", 2), ("bintide.d.pair", 2), ("bintide.d.t", 3)];
    ensure!(reads.iter().map(|(topic, count)| (&**topic, *count)).eq(expected), "{reads:?}");
    ensure!(["\"first\"", "\"last\""].iter().all(|mark| marks.get(*mark) == Some(&1)), "{marks:?}");
    for (table, columns, key) in
        [("t", "'id', id, 'b', b", &["id"][..]), ("pair", "'a', a, 'b', b, 'c', c", &["b", "a"][..])]
    {
        let rows = source.sql(&format!("select json_object({columns}) from d.{table}"))?;
        compare_with_rows(&records, &format!("bintide.d.{table}"), &rows, key)?;
    }
    let keyless = records.iter().filter(|record| record.topic == "bintide.d.no_key").count();
    ensure!(keyless == 3, "{keyless}");
    Ok(())
}

/// bintide, the broker and the source are stopped, also while a transaction that is too large for one transaction of
/// Kafka is committed in parts.
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

/// A broker that has crashed within a commit can lose the markers of the transaction. The next run finds that, and readers get
/// each record once.
#[test]
fn transactions_without_an_end_are_written_again() -> Result<()> {
    let (mut broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("insert into d.t (b) values ('a'), ('b'), ('c'); insert into d.no_key values (1), (2)")?;
    stream_all(&broker, &source, &[])?;
    // Markers are written after the brokers have confirmed a commit.
    thread::sleep(Duration::from_secs(1));
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    source.sql("update d.t set b = concat(b, 'x'); delete from d.no_key limit 1")?;
    stream_all(&broker, &source, &[])?;
    let lost = broker.lose_markers("bintide", i64::try_from(since)?)?;
    ensure!(lost >= 3, "{lost} markers");
    broker.start_again()?;
    source.sql("update d.t set b = concat(b, 'y') limit 1")?;
    let said = stream_all(&broker, &source, &[])?;
    ensure!(said.contains("lacks the end of this stream's last transaction"), "{said}");
    compare(&printed_records(&source)?, &read_topics(&broker)?, KEYS)?;
    let said = stream_all(&broker, &source, &[])?;
    ensure!(!said.contains("have lost"), "{said}");
    Ok(())
}

/// While the chosen tables are quiet, heartbeats follow each other, and the saved position moves on.
#[test]
fn heartbeats_are_written_while_chosen_tables_are_quiet() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    source.sql("create database other; create table other.t (a int); create table d.chosen (a int primary key, b int)")?;
    let arguments =
        ["--from", &from(&source), "--do-db=d", "--heartbeat-interval=1", "--message-key-columns=d.chosen:b"];
    let running = ChildGuard::start(stream_to(&broker, &arguments)?.stderr(Stdio::piped()))?;
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
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    let gtid = source.sql("select @@gtid_executed")?;
    let gtid = gtid.trim().replace(":1-", ":");
    let limit = "larger than the limit message.max.bytes=1000000 (";
    for expected in
        ["bintide.d.t", "key {\"id\":2}", "1500", limit, &*gtid, "--kafka message.max.bytes=BYTES"]
    {
        ensure!(!ran.status.success() && printed.contains(expected), "{expected}: {printed}");
    }
    let limit = ["--from", &from, "--stop-at-end", "--kafka", "message.max.bytes=3000000"];
    let ran = stream_to(&broker, &limit)?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    // The topic has its own limit.
    let limit = "larger than the limit max.message.bytes=1048588 of the topic";
    ensure!(!ran.status.success() && printed.contains(limit), "{printed}");
    // Key and headers count, too.
    let tiny = ["--from", &from, "--stop-at-end", "--name=tiny", "--kafka=message.max.bytes=1000"];
    let ran = stream_to(&broker, &tiny)?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    let size = printed.split("a record of ").nth(1).and_then(|rest| rest.split(' ').next());
    let size: usize = size.context("no size")?.parse()?;
    ensure!(
        !ran.status.success() && size > 1000 && printed.contains("message.max.bytes=1000 ("),
        "{printed}"
    );
    Ok(())
}

/// A topic that is deleted while the stream runs ends it. The next run creates it, and continues.
#[test]
fn deleted_topics_are_named() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&[])?, source()?);
    let topics = KafkaTopics::new(&broker)?;
    let deleted =
        [("bintide.d.t", "the next run creates it"), ("bintide.bintide-progress", "starts as a new stream")];
    for (topic, consequence) in deleted {
        let mut running = follow(&broker, &source)?;
        source.sql(&format!("insert into d.t (b) values ('before {topic}')"))?;
        let written = |value: &str| {
            let records = read_matching_topics(&broker, |topic| topic == "bintide.d.t")?;
            let value = format!("{value} {topic}");
            let is_written =
                |record: &TopicRecord| record.value.as_ref().is_some_and(|found| found.contains(&value));
            ensure!(records.iter().any(is_written), "{value}: {records:?}");
            Ok(())
        };
        wait_for_within(TIMEOUT, || written("before"))?;
        topics.delete(&[topic])?;
        source.sql(&format!("insert into d.t (b) values ('after {topic}')"))?;
        wait_for_within(TIMEOUT, || running.try_wait()?.map(drop).context("the stream continues"))?;
        let ran = running.output()?;
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        for expected in
            [&format!("the topic {topic} "), "was deleted while the stream was running", consequence]
        {
            ensure!(!ran.status.success() && printed.contains(expected), "{expected}: {printed}");
        }
        ensure!(printed.lines().count() == 1, "{printed}");
        stream_all(&broker, &source, &[])?;
        written("after")?;
    }
    Ok(())
}

/// Returns the value of a header.
fn header<'r>(record: &'r TopicRecord, name: &str) -> Option<&'r str> {
    let header = record.headers.iter().find(|[found, _]| found == name);
    header.map(|[_, value]| value.as_str())
}

/// Joins the parts of dead letters, of which each has one or more.
fn original_records(letters: &[TopicRecord]) -> Result<Vec<TopicRecord>> {
    let mut records: Vec<TopicRecord> = Vec::new();
    for letter in letters {
        let part = header(letter, "__bintide.part").context("no part")?;
        let (number, _) = part.split_once('/').context("no number")?;
        if number == "1" {
            let topic = header(letter, "__connect.errors.topic").context("no topic")?.to_owned();
            records.push(TopicRecord { topic, ..letter.clone() });
        } else {
            let value = records.last_mut().and_then(|record| record.value.as_mut());
            value.context("no first part")?.push_str(letter.value.as_deref().unwrap_or_default());
        }
    }
    Ok(records)
}

/// Records that are too large for a topic go to the topic of --dead-letter, whole, and in the same transactions as the
/// others. A batch that is too large, with records that are not, is written in smaller ones.
#[test]
fn records_that_are_too_large_become_dead_letters() -> Result<()> {
    let (broker, source) = (KafkaBroker::start(&["message.max.bytes=100000"])?, source()?);
    source.sql(
        "use d; alter table t modify b longtext; set cte_max_recursion_depth = 5000;
         insert into t (b) with recursive n as (select 1 i union all select i + 1 from n where i < 3000)
             select repeat('s', 100) from n;
         begin; insert into t (b) values ('before'), (repeat('x', 250000)), ('after'); update t set b = 'u' where id = 1;
         insert into t (id, b) values (9000, repeat('y', 1500000)); commit; insert into t (b) values ('last')",
    )?;
    let from = from(&source);
    let ran = stream_to(&broker, &["--from", &from, "--stop-at-end", "--name", "strict"])?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    for expected in ["strict.d.t", "a record of 1500", "key {\"id\":9000}", "--dead-letter TOPIC"] {
        ensure!(!ran.status.success() && printed.contains(expected), "{expected}: {printed}");
    }
    let lenient = ["--from", &from, "--stop-at-end", "--dead-letter", "too-large", "--partitions", "1"];
    let ran = stream_to(&broker, &lenient)?.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(
        ran.status.success() && printed.matches("it goes to the topic too-large").count() == 2,
        "{printed}"
    );
    let letters = read_matching_topics(&broker, |topic| topic == "too-large")?;
    let parts: Vec<&str> = letters.iter().filter_map(|letter| header(letter, "__bintide.part")).collect();
    ensure!(
        parts[..4] == ["1/16", "2/16", "3/16", "4/16"] || parts[..3] == ["1/3", "2/3", "3/3"],
        "{parts:?}"
    );
    let gtid = source.sql("select @@gtid_executed")?;
    let uuid = gtid.split(':').next().unwrap_or_default().trim();
    for letter in &letters {
        let error = header(letter, "__connect.errors.exception.message").unwrap_or_default();
        ensure!(error.contains("is larger than the limit of the producer or of its topic"), "{letter:?}");
        ensure!(header(letter, "__bintide.gtid").is_some_and(|gtid| gtid.starts_with(uuid)), "{letter:?}");
    }
    let records = [read_topics(&broker)?, original_records(&letters)?].concat();
    let first = compare(&printed_records(&source)?, &records, KEYS)?;
    source.sql("insert into d.t (b) values ('later')")?;
    let ran = stream_to(&broker, &lenient)?.output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let records = [read_topics(&broker)?, original_records(&letters)?].concat();
    let second = compare(&printed_records(&source)?, &records, KEYS)?;
    ensure!(second == first + 3, "{first} records, then {second}");
    Ok(())
}

/// `/readyz` reports whether brokers accept records, even if there are none to write.
#[test]
fn lost_brokers_are_not_ready() -> Result<()> {
    let (mut broker, source, port) = (KafkaBroker::start(&[])?, source()?, free_port()?);
    let address = format!("--metrics=127.0.0.1:{port}");
    let arguments = ["--from", &from(&source), &address];
    let _running = ChildGuard::start(stream_to(&broker, &arguments)?.stderr(Stdio::null()))?;
    source.sql("insert into d.t (b) values ('one')")?;
    let becomes = |texts: &[&str]| metrics::wait_until_reported(port, texts, TIMEOUT);
    let ready = [
        "200 OK",
        "ready",
        "bintide_stream_kafka_working 1",
        "bintide_stream_kafka_brokers_connected 1",
        "bintide_stream_kafka_brokers_down 0",
        "bintide_stream_kafka_waiting_records 0",
        "bintide_stream_kafka_waiting_bytes 0",
        "bintide_stream_kafka_dead_letters_total 0",
    ];
    becomes(&ready)?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    // Nothing is to be written.
    broker.stop()?;
    becomes(&[
        "503 Service Unavailable",
        "not ready: Kafka accepts no records: ",
        "bintide_stream_kafka_working 0",
        "bintide_stream_kafka_brokers_connected 0",
        "bintide_stream_kafka_brokers_down 1",
    ])?;
    source.sql("insert into d.t (b) values ('waiting')")?;
    // The row, and the start and the end of its transaction.
    becomes(&["503 Service Unavailable", "bintide_stream_kafka_waiting_records 3"])?;
    // The topic of this table does not exist yet.
    source.sql("insert into d.no_key values (7)")?;
    broker.start_again()?;
    becomes(&ready)?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))
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
        first.try_wait()?.map(drop).context("the first run continues")
    })?;
    let ran = first.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(
        !ran.status.success() && printed.contains("another bintide with --name bintide"),
        "{}: {printed}",
        ran.status
    );
    ensure!(!printed.contains("the connection to Kafka is lost"), "{printed}");
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    second.interrupt()?;
    let ended = second.output()?;
    ensure!(ended.status.code() == Some(130), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    compare_with_pipe(&broker, &source, KEYS).context("after the end").map(drop)
}

/// Brokers of a cluster are killed one after the other while the stream writes: the stream continues with the others.
#[test]
fn killed_brokers_of_a_cluster_lose_nothing() -> Result<()> {
    let (mut brokers, source) = (KafkaBroker::start_cluster(3, &[])?, source()?);
    let arguments = ["--from", &from(&source), "--partitions", "3", "--replication", "3"];
    let mut running = ChildGuard::start(stream_to(&brokers[0], &arguments)?.stderr(Stdio::piped()))?;
    source.sql("insert into d.t (b) values ('one')")?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&brokers[0], &source, KEYS).map(drop))?;
    for number in [1, 0, 2] {
        brokers[number].kill()?;
        for round in 0..20 {
            source.sql(&format!(
                "insert into d.t (b) values ('{number}, {round}'), (null); update d.t set b = 'changed' where id % 7 = {round};
                 insert into d.pair values ('x', {number} * 100 + {round}, 1);"
            ))?;
        }
        // Two of three brokers are enough.
        wait_for_within(TIMEOUT, || compare_with_pipe(&brokers[0], &source, KEYS).map(drop))
            .with_context(|| format!("without broker {number}"))?;
        ensure!(running.try_wait()?.is_none(), "the stream has ended");
        brokers[number].start_again()?;
    }
    running.interrupt()?;
    let ran = running.output()?;
    ensure!(ran.status.code() == Some(130), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    compare_with_pipe(&brokers[0], &source, KEYS).context("after the end").map(drop)
}

/// A broker that does not answer for longer than the timeout of transactions: commits fail after later records were
/// written, and the topics have each record once.
#[test]
fn commits_that_fail_late_are_repeated() -> Result<()> {
    let properties = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=500"];
    let (broker, source, port) = (KafkaBroker::start(&properties)?, source()?, free_port()?);
    let address = format!("--metrics=127.0.0.1:{port}");
    let arguments = ["--from", &from(&source), &address, "--kafka", "transaction.timeout.ms=2000"];
    let running = ChildGuard::start(stream_to(&broker, &arguments)?.stderr(Stdio::piped()))?;
    source.sql("insert into d.t (b) values ('one')")?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    let broker_process = Pid::from_raw(i32::try_from(broker.pid().context("no broker")?)?);
    kill(broker_process, Signal::SIGSTOP)?;
    for round in 0..20 {
        source.sql(&format!(
            "insert into d.t (b) values ('{round}'); update d.t set b = 'changed' where id = {round}"
        ))?;
        thread::sleep(Duration::from_millis(250));
    }
    kill(broker_process, Signal::SIGCONT)?;
    source.sql("delete from d.t where id < 5")?;
    wait_for_within(TIMEOUT, || compare_with_pipe(&broker, &source, KEYS).map(drop))?;
    running.interrupt()?;
    let printed = String::from_utf8_lossy(&running.output()?.stderr).into_owned();
    let is_recovered =
        printed.contains("connecting to Kafka again") || printed.contains("have aborted a transaction");
    ensure!(is_recovered, "no commit has failed: {printed}");
    compare_with_pipe(&broker, &source, KEYS).context("after the end").map(drop)
}
