//! `cargo xtask judge adoption`: `bintide stream adopt` after a real Debezium Server, which stopped or was killed. The topics
//! then have each change exactly once.
//!
//! Arguments: the number of rows of the transaction in which the connector stops, and a seed, which is not used.

use std::collections::BTreeMap;
use std::env;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::wait_for_within;
use e2e::kafka::{read_matching_topics, stream_to};
use e2e::program::bintide;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::{DebeziumServer, KafkaBroker, KafkaTopics, Launch, TestServer};

fn main() -> Result<()> {
    let rows = env::args().nth(1).context("the number of rows is missing")?;
    continue_after_a_transaction()?;
    continue_within_a_transaction(rows.parse()?)?;
    continue_after_a_kill(&OFFSET_TOPIC, "--gtid-mode=ON")?;
    continue_after_a_kill(&[], "--gtid-mode=OFF")?;
    println!(
        "bintide continued after Debezium Server, within a transaction of {rows} rows, and after kills of both: the topics have each change once"
    );
    Ok(())
}

/// Time limit of waits.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Topic prefix of the connector.
const PREFIX: &str = "shop";
/// Properties of a connector whose offsets are in a topic.
const OFFSET_TOPIC: [&str; 5] = [
    "debezium.source.offset.storage=org.apache.kafka.connect.storage.KafkaOffsetBackingStore",
    "debezium.source.offset.storage.topic=offsets",
    "debezium.source.offset.storage.partitions=1",
    "debezium.source.offset.storage.replication.factor=1",
    "debezium.source.provide.transaction.metadata=true",
];

/// A broker, a source, and a connector between them.
struct Stage {
    broker: KafkaBroker,
    source: TestServer,
    debezium: DebeziumServer,
}

impl Stage {
    /// Starts all three. `more` are properties of the connector, `option` is one of the source.
    fn new(more: &[&str], option: &str) -> Result<Self> {
        let source = Launch::mysql().option("--binlog-row-metadata=FULL").option(option).start()?;
        let broker = KafkaBroker::start(&[])?;
        source.sql(
            "create user debezium@'%' identified by 'debezium'; grant all on *.* to debezium@'%'; create database d;
             create table d.t (id int primary key auto_increment, a int); create table d.z (id int primary key auto_increment);
             create table d.u (id int primary key, a int)",
        )?;
        let topics = KafkaTopics::new(&broker)?;
        topics.create(&[PREFIX, "shop.d.t", "shop.d.z", "shop.transaction"], 1)?;
        topics.create(&["shop.d.u"], 3)?;
        let address = format!("debezium.source.bootstrap.servers={}", broker.address());
        let more = [&[&*address], more].concat();
        let mut debezium = DebeziumServer::new(PREFIX, &source, &broker, &more)?;
        debezium.start()?;
        let stage = Self { broker, source, debezium };
        wait_for_within(TIMEOUT, || {
            stage.source.sql("insert into d.z values ()")?;
            thread::sleep(Duration::from_secs(1));
            ensure!(!stage.topic("shop.d.z")?.is_empty(), "{}", stage.debezium.last_log_lines());
            Ok(())
        })?;
        Ok(stage)
    }

    fn topic(&self, name: &str) -> Result<Vec<Value>> {
        let records = read_matching_topics(&self.broker, |topic| topic == name)?;
        let values = records.iter().filter_map(|record| record.value.as_deref());
        values.map(|value| Ok(serde_json::from_str(value)?)).collect()
    }

    /// Waits until a topic has this number of records.
    fn wait_for_records(&self, topic: &str, expected: usize) -> Result<()> {
        wait_for_within(TIMEOUT, || {
            let found = KafkaTopics::new(&self.broker)?.end_offset(topic)?;
            ensure!(found >= expected as u64, "{found} records: {}", self.debezium.last_log_lines());
            Ok(())
        })
    }

    fn adopt(&self, offsets: &[&str]) -> Result<String> {
        let mut command = std::process::Command::new(bintide()?);
        command.env_clear().args(["stream", "adopt"]).args(offsets);
        command.args(["--to", &format!("kafka://{}/", self.broker.address())]);
        let ran = command.output()?;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        ensure!(ran.status.success(), "{}: {said}", ran.status);
        Ok(said)
    }

    /// Returns a run that streams up to the end of the source's log.
    fn command(&self) -> Result<std::process::Command> {
        let from = format!("mysql://root@127.0.0.1:{}/", self.source.port());
        stream_to(&self.broker, &["--name", PREFIX, "--from", &from, "--stop-at-end"])
    }

    fn stream(&self) -> Result<()> {
        let ran = self.command()?.output()?;
        ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }

    /// Checks that each row was inserted once, and updated once if its number is at most `updated`. Rows of a transaction
    /// have consecutive numbers.
    fn check_changes(&self, rows: i64, updated: i64) -> Result<()> {
        let mut changes: BTreeMap<(i64, String), u64> = BTreeMap::new();
        let mut orders: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for record in self.topic("shop.d.t")? {
            let id = record["after"]["id"].as_i64().context("no row")?;
            *changes.entry((id, record["op"].to_string())).or_default() += 1;
            if let Some(order) = record["transaction"]["total_order"].as_i64() {
                orders.entry(record["transaction"]["id"].to_string()).or_default().push(order);
            }
        }
        let wrong = changes.iter().find(|(_, count)| **count != 1);
        ensure!(wrong.is_none(), "{wrong:?}");
        let expected = usize::try_from(rows + updated)?;
        ensure!(changes.len() == expected, "{} changes, expected {expected}", changes.len());
        for (transaction, mut orders) in orders {
            orders.sort_unstable();
            let is_whole = orders.iter().zip(1..).all(|(order, expected)| *order == expected);
            ensure!(is_whole, "{transaction}: {orders:?}");
        }
        Ok(())
    }
}

/// After the last change, the offset of a connector is within its transaction.
fn continue_after_a_transaction() -> Result<()> {
    let mut stage = Stage::new(&[], "--gtid-mode=ON")?;
    stage.source.sql(
        "insert into d.t (a) values (1), (2), (3); begin; insert into d.t (a) values (4); update d.t set a = a + 1; commit",
    )?;
    stage.wait_for_records("shop.d.t", 8)?;
    stage.debezium.stop()?;
    stage.source.sql("insert into d.t (a) values (5), (6)")?;
    let offsets = stage.debezium.offsets();
    let file = offsets.to_str().context("the name is not UTF-8")?.to_owned();
    let said = stage.adopt(&["--debezium-offsets", &file])?;
    ensure!(
        said.contains("the stream shop continues where the connector") && said.contains("GTIDs"),
        "{said}"
    );
    stage.stream()?;
    stage.check_changes(6, 4)?;
    stage.source.sql("insert into d.t (a) values (7)")?;
    stage.stream()?;
    stage.check_changes(7, 4)?;
    // A second adoption would write changes again.
    let refused = stage.adopt(&["--debezium-offsets", &file]);
    let refused = refused.err().context("adopted again")?.to_string();
    ensure!(refused.contains("the stream shop has progress already"), "{refused}");
    Ok(())
}

/// The offsets are in a topic, and the connector stops within a transaction of many rows.
fn continue_within_a_transaction(rows: usize) -> Result<()> {
    let mut stage = Stage::new(&OFFSET_TOPIC, "--gtid-mode=ON")?;
    stage.source.sql(&format!(
        "set cte_max_recursion_depth = 1000000; insert into d.t (a) with recursive n (i) as (select 1 union all select i + 1 from n
         where i < {rows}) select i from n; update d.t set a = a + 1"
    ))?;
    stage.wait_for_records("shop.d.t", rows + 1000)?;
    stage.debezium.stop()?;
    let written = KafkaTopics::new(&stage.broker)?.end_offset("shop.d.t")?;
    ensure!(
        written < 2 * rows as u64,
        "the connector wrote all changes before its end: the test needs more rows"
    );
    stage.adopt(&["--debezium-offset-topic", "offsets"])?;
    stage.stream()?;
    let rows = i64::try_from(rows)?;
    stage.check_changes(rows, rows)
}

/// Number of transactions of each kind before a kill.
const TRANSACTIONS: usize = 4000;

/// The connector is killed while it writes, so that its offset is far behind. Then bintide is killed, too.
fn continue_after_a_kill(more: &[&str], gtid_mode: &str) -> Result<()> {
    let mut stage = Stage::new(more, gtid_mode)?;
    let mut work = String::new();
    for i in 0..TRANSACTIONS {
        let (moved, id) = (i + 1_000_000, i * 2);
        work.push_str(&format!(
            "insert into d.u values ({id}, {i}), ({id} + 1, 0); update d.u set a = a + 1 where id = {id};
             update d.u set id = {moved} where id = {id}; begin; delete from d.u where id = {id} + 1;
             insert into d.u values ({id} + 1, 9); commit;"
        ));
    }
    stage.source.sql(&work)?;
    stage.wait_for_records("shop.d.u", TRANSACTIONS)?;
    let pid = stage.debezium.pid().context("Debezium has stopped")?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
    stage.debezium.stop()?;
    let written = KafkaTopics::new(&stage.broker)?.end_offset("shop.d.u")?;
    let file = stage.debezium.offsets();
    let file = file.to_str().context("the name is not UTF-8")?.to_owned();
    let offsets = match more.is_empty() {
        true => ["--debezium-offsets", &file],
        false => ["--debezium-offset-topic", "offsets"],
    };
    let said = stage.adopt(&offsets)?;
    let mut run = stage.command()?.spawn()?;
    thread::sleep(Duration::from_millis(400));
    run.kill()?;
    run.wait()?;
    stage.stream()?;
    println!("Debezium had written {written} records to shop.d.u; {said}");
    check_table(&stage)?;
    check_boundaries(&stage)
}

/// Checks that the topic of the table `d.u` has each change once, those of a key in order, and leads to the rows of the table.
fn check_table(stage: &Stage) -> Result<()> {
    let (mut changes, mut rows, mut deletes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for record in read_matching_topics(&stage.broker, |topic| topic == "shop.d.u")? {
        let key = record.key.context("no key")?;
        let Some(value) = record.value else {
            *deletes.entry(key).or_insert(0) -= 1;
            continue;
        };
        let value: Value = serde_json::from_str(&value)?;
        let (source, op) = (&value["source"], value["op"].to_string());
        let change = format!("{key} {} {} {} {op}", source["file"], source["pos"], source["row"]);
        *changes.entry(change).or_insert(0) += 1;
        match op.as_str() {
            "\"d\"" => {
                *deletes.entry(key.clone()).or_insert(0) += 1;
                rows.remove(&key);
            }
            _ => drop(rows.insert(key, format!("{}\t{}", value["after"]["id"], value["after"]["a"]))),
        }
    }
    let repeated = changes.iter().find(|(_, count)| **count != 1);
    ensure!(repeated.is_none(), "{repeated:?}");
    let expected = TRANSACTIONS * 7;
    ensure!(changes.len() == expected, "{} changes, expected {expected}", changes.len());
    let wrong = deletes.iter().find(|(_, count)| **count != 0);
    ensure!(wrong.is_none(), "deletes and tombstones differ in number: {wrong:?}");
    let mut rows: Vec<String> = rows.into_values().collect();
    rows.sort_unstable();
    let table = stage.source.sql("select id, a from d.u")?;
    let mut table: Vec<String> = table.lines().map(str::to_owned).collect();
    table.sort_unstable();
    ensure!(rows == table, "the records lead to {} rows, the table has {}", rows.len(), table.len());
    Ok(())
}

/// Checks that the topic of transactions has each start and end once.
fn check_boundaries(stage: &Stage) -> Result<()> {
    let mut boundaries: BTreeMap<String, u64> = BTreeMap::new();
    for record in stage.topic("shop.transaction")? {
        *boundaries.entry(format!("{} {}", record["status"], record["id"])).or_default() += 1;
    }
    let repeated = boundaries.iter().find(|(_, count)| **count != 1);
    ensure!(repeated.is_none(), "{repeated:?}");
    Ok(())
}
