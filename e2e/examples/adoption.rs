//! `cargo xtask judge adoption`: `bintide stream adopt` after a real Debezium Server. The topics then have each change,
//! and exactly once if the connector's offset contains it.
//!
//! Arguments: the number of rows of the transaction in which the connector stops, and a seed, which is not used.

use std::collections::BTreeMap;
use std::env;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::wait_for_within;
use e2e::kafka::{read_matching_topics, stream_to};
use e2e::program::bintide;
use serde_json::Value;
use testkit::{DebeziumServer, KafkaBroker, KafkaTopics, Launch, TestServer};

fn main() -> Result<()> {
    let rows = env::args().nth(1).context("the number of rows is missing")?;
    continue_after_a_transaction()?;
    continue_within_a_transaction(rows.parse()?)?;
    println!(
        "bintide continued after Debezium Server, and within a transaction of {rows} rows: no change is missing, and none before the offset is repeated"
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
    /// Starts all three. `more` are properties of the connector.
    fn new(more: &[&str]) -> Result<Self> {
        let (broker, source) =
            (KafkaBroker::start(&[])?, Launch::mysql().option("--binlog-row-metadata=FULL").start()?);
        source.sql(
            "create user debezium@'%' identified by 'debezium'; grant all on *.* to debezium@'%'; create database d;
             create table d.t (id int primary key auto_increment, a int); create table d.z (id int primary key auto_increment)",
        )?;
        KafkaTopics::new(&broker)?.create(&[PREFIX, "shop.d.t", "shop.d.z", "shop.transaction"], 1)?;
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

    /// Waits until the topic of the table has this number of changes.
    fn wait_for_changes(&self, expected: usize) -> Result<()> {
        wait_for_within(TIMEOUT, || {
            let found = KafkaTopics::new(&self.broker)?.end_offset("shop.d.t")?;
            ensure!(found >= expected as u64, "{found} changes: {}", self.debezium.last_log_lines());
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

    /// Streams up to the end of the source's log.
    fn stream(&self) -> Result<()> {
        let from = format!("mysql://root@127.0.0.1:{}/", self.source.port());
        let ran = stream_to(&self.broker, &["--name", PREFIX, "--from", &from, "--stop-at-end"])?.output()?;
        ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }

    /// Returns the number of changes of the present transaction that the connector's offset contains.
    fn saved_order(&self) -> Result<i64> {
        let offsets = read_matching_topics(&self.broker, |topic| topic == "offsets")?;
        let offset = offsets.last().and_then(|record| record.value.as_deref()).context("no offset")?;
        let offset: Value = serde_json::from_str(offset)?;
        offset["transaction_data_collection_order_d.t"].as_i64().context("the offset has no order")
    }

    /// Checks that each row was inserted once, and updated once if its number is at most `updated`; but updates of the
    /// rows in `repeated` must occur twice. Rows of a transaction have consecutive numbers.
    fn check_changes(&self, rows: i64, updated: i64, repeated: Range<i64>) -> Result<()> {
        let mut changes: BTreeMap<(i64, String), u64> = BTreeMap::new();
        let mut orders: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for record in self.topic("shop.d.t")? {
            let id = record["after"]["id"].as_i64().context("no row")?;
            let count = changes.entry((id, record["op"].to_string())).or_default();
            *count += 1;
            if *count == 1
                && let Some(order) = record["transaction"]["total_order"].as_i64()
            {
                orders.entry(record["transaction"]["id"].to_string()).or_default().push(order);
            }
        }
        let expected_count =
            |id: i64, operation: &str| if operation == "\"u\"" && repeated.contains(&id) { 2 } else { 1 };
        let wrong = changes.iter().find(|((id, operation), count)| **count != expected_count(*id, operation));
        ensure!(wrong.is_none(), "{wrong:?}; expected to be repeated: {repeated:?}");
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
    let mut stage = Stage::new(&[])?;
    stage.source.sql(
        "insert into d.t (a) values (1), (2), (3); begin; insert into d.t (a) values (4); update d.t set a = a + 1; commit",
    )?;
    stage.wait_for_changes(8)?;
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
    stage.check_changes(6, 4, 0..0)?;
    stage.source.sql("insert into d.t (a) values (7)")?;
    stage.stream()?;
    stage.check_changes(7, 4, 0..0)?;
    // A second adoption would write changes again.
    let refused = stage.adopt(&["--debezium-offsets", &file]);
    let refused = refused.err().context("adopted again")?.to_string();
    ensure!(refused.contains("the stream shop has progress already"), "{refused}");
    Ok(())
}

/// The offsets are in a topic, and the connector stops within a transaction of many rows.
fn continue_within_a_transaction(rows: usize) -> Result<()> {
    let mut stage = Stage::new(&OFFSET_TOPIC)?;
    stage.source.sql(&format!(
        "set cte_max_recursion_depth = 1000000; insert into d.t (a) with recursive n (i) as (select 1 union all select i + 1 from n
         where i < {rows}) select i from n; update d.t set a = a + 1"
    ))?;
    stage.wait_for_changes(rows + 1000)?;
    stage.debezium.stop()?;
    let written = KafkaTopics::new(&stage.broker)?.end_offset("shop.d.t")?;
    ensure!(
        written < 2 * rows as u64,
        "the connector wrote all changes before its end: the test needs more rows"
    );
    let saved = stage.saved_order()?;
    stage.adopt(&["--debezium-offset-topic", "offsets"])?;
    stage.stream()?;
    // The connector stopped within a batch: its offset does not contain its last changes, which it would repeat, too.
    let (rows, written) = (i64::try_from(rows)?, i64::try_from(written)?);
    stage.check_changes(rows, rows, saved + 1..written - rows + 1)?;
    println!("offset after {saved} updates; the connector had written {}", written - rows);
    Ok(())
}
