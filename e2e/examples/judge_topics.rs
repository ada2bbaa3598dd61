//! `cargo xtask judge topics`: the topics of Debezium Server and of `bintide stream`, from one source. Keys, headers,
//! tombstones and partitions are the same, and so are the values, but for known differences.
//!
//! Arguments: two numbers, which are not used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::command::wait_for_within;
use e2e::kafka::{TopicRecord, read_matching_topics, stream_to};
use serde_json::Value;
use testkit::{DebeziumServer, KafkaBroker, KafkaTopics, Launch, TestServer};

/// Time limit of waits.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Topic prefix of both.
const PREFIX: &str = "shop";
/// Table whose records show that Debezium has begun, and that it is at the end.
const MARKERS: &str = "shop.markers.m";
/// Properties of Debezium Server besides those of all tests.
const DEBEZIUM_PROPERTIES: [&str; 3] = [
    "debezium.source.provide.transaction.metadata=true",
    "debezium.source.message.key.columns=judged.chosen:b,c",
    "debezium.format.header.schemas.enable=false",
];

/// Keys of all kinds, changes of keys, deletes, tables without keys, and names that Kafka does not allow.
const CHANGES: &str = "create database judged; use judged; set names utf8mb4;
    create table t (id int primary key, b varchar(10)); create table without_key (a int);
    begin; insert into t values (1, 'a'), (2, 'b'), (3, 'c'); update t set id = 4 where id = 2; insert into without_key values (1), (1);
    update without_key set a = 2 limit 1; delete from t where id = 1; commit;
    insert into t values (1, 'again'); update t set b = 'changed'; delete from t where id > 2; delete from without_key;
    create table pair (a varchar(20), b int, c int, primary key (b, a)); insert into pair values ('ü\"\\\\', 1, 2), ('x', 1, 3);
    update pair set c = 4; update pair set a = 'y' where a = 'x'; delete from pair where a = 'y';
    create table chosen (a int primary key, b int, c varchar(5)); insert into chosen values (1, 2, 'x'), (2, null, null);
    update chosen set a = 3 where a = 1; update chosen set b = 7 where a = 3; delete from chosen;
    create table moment (a datetime(3) primary key, n int); insert into moment values ('2026-11-29 10:20:30.5', 1);
    create table stamp (a timestamp primary key, n int); insert into stamp values ('2026-11-29 10:20:30', 1); delete from stamp;
    create table number (a decimal(10, 3) primary key, n int); insert into number values (-1.5, 1); delete from number;
    create table choice (a enum ('z', 'y'), b set ('p', 'q'), c bit(10), d year, primary key (a, b, c, d));
    insert into choice values ('y', 'p,q', b'101', 2026); delete from choice;
    create table bytes (a varbinary(9) primary key, b binary(4)); insert into bytes values (x'ff0027', 'ab'); delete from bytes;
    create table large_key (a bigint unsigned primary key); insert into large_key values (7); delete from large_key;
    create table `odd-näme $` (`1st key` int primary key, `b c` varchar(5)); insert into `odd-näme $` values (1, 'x');
    update `odd-näme $` set `1st key` = 2; delete from `odd-näme $`;
    alter table t add c int default 5; insert into t (id, b) values (9, 'later'); create index i on t (b); truncate table pair;
    create table `unique` (a int not null, b int, unique key (a)); insert into `unique` values (1, 2); delete from `unique`;
    create database other; create table other.t (id int primary key); insert into other.t values (1);
    begin; insert into other.t values (2); insert into t (id) values (10); delete from other.t where id = 1; commit;
    drop table bytes; drop database other";

fn main() -> Result<()> {
    let source = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    source.sql(
        "create user debezium@'%' identified by 'debezium'; grant all on *.* to debezium@'%'; create database markers;
         create table markers.m (id int primary key auto_increment)",
    )?;
    // Debezium Server leaves the creation of topics to the broker.
    let [theirs, ours] = [(); 2].map(|()| KafkaBroker::start(&["auto.create.topics.enable=true"]));
    let (theirs, ours) = (theirs?, ours?);
    let compared = run_debezium(&source, &theirs)?;
    run_bintide(&source, &ours)?;
    let [theirs, ours] = [&theirs, &ours].map(|broker| read_sequences(broker, &compared));
    let count = compare(&theirs?, &ours?)?;
    println!("topics: {count} records have the same keys, headers, partitions and values");
    Ok(())
}

/// Runs Debezium Server while the tables change. Returns the numbers of the transactions to compare.
fn run_debezium(source: &TestServer, broker: &KafkaBroker) -> Result<Range<u64>> {
    let mut debezium = DebeziumServer::new(PREFIX, source, broker, &DEBEZIUM_PROPERTIES)?;
    debezium.start()?;
    wait_for_within(TIMEOUT, || {
        source.sql("insert into markers.m values ()")?;
        thread::sleep(Duration::from_secs(1));
        ensure!(marker_count(broker)? > 0, "{}", debezium.last_log_lines());
        Ok(())
    })?;
    let first = transaction_count(source)? + 1;
    source.sql(CHANGES)?;
    let end = transaction_count(source)? + 1;
    source.sql("insert into markers.m values (1000000)")?;
    wait_for_within(TIMEOUT, || {
        let records = read_matching_topics(broker, |topic| topic == MARKERS)?;
        let is_last = |record: &TopicRecord| record.key.as_deref() == Some("{\"id\":1000000}");
        ensure!(records.iter().any(is_last), "no end: {}", debezium.last_log_lines());
        Ok(())
    })?;
    debezium.stop()?;
    Ok(first..end)
}

fn marker_count(broker: &KafkaBroker) -> Result<usize> {
    Ok(read_matching_topics(broker, |topic| topic == MARKERS)?.len())
}

/// Returns the number of the source's last transaction.
fn transaction_count(source: &TestServer) -> Result<u64> {
    let executed = source.sql("select @@gtid_executed")?;
    let last = executed.trim().rsplit(['-', ':']).next().context("no GTIDs")?;
    Ok(last.parse()?)
}

fn run_bintide(source: &TestServer, broker: &KafkaBroker) -> Result<()> {
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let keys = "--message-key-columns=judged.chosen:b,c";
    let arguments =
        ["--name", PREFIX, "--from", &from, "--schema=ddl", "--stop-at-end", keys, "--partitions=3"];
    let ran = stream_to(broker, &arguments)?.output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The broker creates a topic when a reader asks for it.
    KafkaTopics::new(broker)?.names().map(drop)
}

/// A record without its topic and partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ComparedRecord {
    key: Option<String>,
    headers: Vec<[String; 2]>,
    /// `None` for a tombstone.
    value: Option<String>,
}

/// Topic and partition. Rows without a key are in any partition.
type SequenceName = (String, Option<i32>);

/// Reads the records of all topics, of these transactions, by topic and partition.
fn read_sequences(
    broker: &KafkaBroker,
    compared: &Range<u64>,
) -> Result<BTreeMap<SequenceName, Vec<ComparedRecord>>> {
    let is_compared = |topic: &str| {
        let is_ours = topic == PREFIX || topic.starts_with(&format!("{PREFIX}."));
        is_ours && topic != MARKERS && !topic.ends_with(".bintide-progress")
    };
    let mut sequences: BTreeMap<SequenceName, Vec<ComparedRecord>> = BTreeMap::new();
    for record in read_matching_topics(broker, is_compared)? {
        let TopicRecord { topic, partition, key, value, mut headers } = record;
        let value: Option<Value> = value.as_deref().map(serde_json::from_str).transpose()?;
        if value.as_ref().is_some_and(|value| !is_within(value, compared)) {
            continue;
        }
        if value.as_ref().is_some_and(is_truncation) {
            // Debezium writes no record of it.
            continue;
        }
        if value.is_none() && key.is_none() {
            // Debezium's tombstone of a row without a key, which a compacted topic refuses.
            continue;
        }
        headers.retain(|[name, _]| !name.starts_with(CONTEXT_HEADERS));
        headers.sort();
        let name = (topic, key.is_some().then_some(partition));
        let value = value.map(compared_value);
        sequences.entry(name).or_default().push(ComparedRecord { key, headers, value });
    }
    for ((_, partition), records) in &mut sequences {
        if partition.is_none() {
            records.sort();
        }
    }
    Ok(sequences)
}

/// Start of the names of headers that identify the connector.
const CONTEXT_HEADERS: &str = "__debezium.context.";

/// Returns whether a record belongs to one of these transactions.
fn is_within(value: &Value, compared: &Range<u64>) -> bool {
    let gtid = value.get("id").unwrap_or(&value["source"]["gtid"]).as_str();
    let number = gtid.and_then(|gtid| gtid.rsplit(':').next()?.parse::<u64>().ok());
    number.is_some_and(|number| compared.contains(&number))
}

fn is_truncation(value: &Value) -> bool {
    value["ddl"].as_str().is_some_and(|definition| definition.starts_with("truncate"))
}

/// Returns what both must write. `cargo xtask judge debezium` compares definitions.
fn compared_value(mut value: Value) -> String {
    if let Some(definition) = value["ddl"].as_str() {
        let words: Vec<&str> = definition.split_whitespace().take(2).collect();
        return format!("definition in {}: {}", value["databaseName"], words.join(" ").to_uppercase());
    }
    if let Some(fields) = value.as_object_mut() {
        ["ts_ms", "ts_us", "ts_ns", "resume"].into_iter().for_each(|name| drop(fields.remove(name)));
    }
    if let Some(tables) = value["data_collections"].as_array_mut() {
        // Debezium has them in the order of their hashes.
        tables.sort_by_key(|table| table["data_collection"].to_string());
    }
    if let Some(source) = value["source"].as_object_mut() {
        source.remove("version");
    }
    value.to_string()
}

/// Compares all records. Returns their number.
fn compare(
    theirs: &BTreeMap<SequenceName, Vec<ComparedRecord>>,
    ours: &BTreeMap<SequenceName, Vec<ComparedRecord>>,
) -> Result<usize> {
    for (name, theirs) in theirs {
        let ours = ours.get(name).map_or(&[][..], Vec::as_slice);
        let first = theirs.iter().zip(ours).find(|(theirs, ours)| theirs != ours);
        if let Some((theirs, ours)) = first {
            bail!("{name:?}: Debezium has {theirs:#?}, bintide has {ours:#?}");
        }
        let [their_count, our_count] = [theirs.len(), ours.len()];
        ensure!(
            their_count == our_count,
            "{name:?}: Debezium has {their_count} records, bintide has {our_count}; {:#?}",
            theirs.get(our_count).or_else(|| ours.get(their_count))
        );
    }
    let unexpected = ours.keys().find(|name| !theirs.contains_key(*name));
    ensure!(unexpected.is_none(), "only bintide has {unexpected:?}");
    Ok(theirs.values().map(Vec::len).sum())
}
