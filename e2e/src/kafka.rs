//! Compares the committed records of topics with the records that `bintide stream` prints.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::message::{Headers as _, Message as _};
use serde_json::Value;
use testkit::{KafkaBroker, KafkaTopics, PythonEnvironment, TestServer};

use crate::program::bintide;

/// Topic prefix of the streams.
pub const PREFIX: &str = "bintide";

/// A record of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRecord {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Key.
    pub key: Option<String>,
    /// Value; `None` for a tombstone.
    pub value: Option<String>,
    /// Names and values of the headers.
    pub headers: Vec<[String; 2]>,
}

/// Primary keys of the tables of a test: `("d.t", &["id"])`.
pub type PrimaryKeys<'k> = &'k [(&'k str, &'k [&'k str])];

/// Returns whether a topic is one of the stream's, except for the progress.
pub fn is_of_stream(topic: &str) -> bool {
    let is_ours = topic == PREFIX || topic.starts_with(&format!("{PREFIX}."));
    is_ours && !topic.ends_with(".bintide-progress")
}

/// Reads all committed records of the stream's topics, except for the progress.
///
/// # Errors
///
/// Fails if the topics cannot be read in time.
pub fn read_topics(broker: &KafkaBroker) -> Result<Vec<TopicRecord>> {
    read_matching_topics(broker, is_of_stream)
}

/// Reads all committed records of the topics whose names match.
///
/// # Errors
///
/// Fails if the topics cannot be read in time.
pub fn read_matching_topics(
    broker: &KafkaBroker,
    matches: impl Fn(&str) -> bool,
) -> Result<Vec<TopicRecord>> {
    let mut records = Vec::new();
    take_records(broker, matches, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// Reads all committed records of the topics whose names match, one after the other.
///
/// # Errors
///
/// Fails if the topics cannot be read in time, or if `take` fails.
pub fn take_records(
    broker: &KafkaBroker,
    matches: impl Fn(&str) -> bool,
    mut take: impl FnMut(TopicRecord) -> Result<()>,
) -> Result<()> {
    let topics = KafkaTopics::new(broker)?;
    for topic in topics.names()?.iter().filter(|topic| matches(topic)) {
        topics.read(topic, |record| {
            let headers = record.headers().map(|headers| {
                let headers = headers.iter();
                headers
                    .map(|header| [header.key.to_owned(), text(header.value.unwrap_or_default())])
                    .collect()
            });
            take(TopicRecord {
                topic: record.topic().to_owned(),
                partition: record.partition(),
                key: record.key().map(text),
                value: record.payload().map(text),
                headers: headers.unwrap_or_default(),
            })
        })?;
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes all committed records of all topics into a file, to look for the cause of a difference: place, time of the
/// producer, key and value, a line for each record.
///
/// # Errors
///
/// Fails if the topics cannot be read in time, or the file cannot be written.
pub fn write_topics(broker: &KafkaBroker, path: &Path) -> Result<()> {
    let topics = KafkaTopics::new(broker)?;
    let mut file = BufWriter::new(File::create(path)?);
    for topic in topics.names()? {
        topics.read(&topic, |record| {
            let (partition, offset) = (record.partition(), record.offset());
            let time = record.timestamp().to_millis().unwrap_or_default();
            let (key, value) = (record.key().map(text), record.payload().map(text));
            Ok(writeln!(file, "{topic} {partition} {offset} {time} {key:?} {value:?}")?)
        })?;
    }
    Ok(file.flush()?)
}

/// Returns records in the form without `--route`: each table in a topic of its own, without the field in its keys.
///
/// # Errors
///
/// Fails if a record without a key does not name its table.
pub fn unrouted(records: Vec<TopicRecord>) -> Result<Vec<TopicRecord>> {
    let unrouted = |mut record: TopicRecord| {
        match &record.key {
            Some(key) => {
                if let Some((start, topic)) = key.split_once(",\"__dbz__physicalTableIdentifier\":\"") {
                    record.topic = topic.strip_suffix("\"}").context("a malformed key")?.to_owned();
                    record.key = Some(format!("{start}}}"));
                }
            }
            None => {
                let value: Value = serde_json::from_str(record.value.as_deref().context("an empty record")?)?;
                let text = |name: &str| value["source"][name].as_str().context("no table");
                record.topic = format!("{PREFIX}.{}.{}", text("db")?, text("table")?);
            }
        }
        Ok(record)
    };
    records.into_iter().map(unrouted).collect()
}

/// Replaces the permissions of an account on a topic by these operations, such as `READ`.
///
/// # Errors
///
/// Fails if the broker does not change the permissions.
pub fn allow_only(broker: &KafkaBroker, topic: &str, user: &str, operations: &[&str]) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/allow.py");
    let mut command = Command::new(PythonEnvironment::KAFKA.python()?);
    command.arg(script).args([&broker.address(), topic, user]).args(operations).stdin(Stdio::null());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns a command that streams to a broker.
///
/// # Errors
///
/// Fails if bintide cannot be found.
pub fn stream_to(broker: &KafkaBroker, arguments: &[&str]) -> Result<Command> {
    stream_to_address(&broker.address(), arguments)
}

/// Returns a command that streams to brokers, whose addresses are HOST:PORT, with commas.
///
/// # Errors
///
/// Fails if bintide cannot be found.
pub fn stream_to_address(brokers: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["stream", "--format", "debezium"]).args(arguments);
    command.args(["--to", &format!("kafka://{brokers}/")]).stdin(Stdio::null());
    Ok(command)
}

/// Compares the topics with the records that `bintide stream` prints for the logs of a server.
///
/// # Errors
///
/// Fails if there is a difference, with the first one.
pub fn compare_with_pipe(broker: &KafkaBroker, source: &TestServer, keys: PrimaryKeys<'_>) -> Result<usize> {
    compare(&printed_records(source)?, &read_topics(broker)?, keys)
}

/// Returns the records that `bintide stream` prints for the logs of a server.
///
/// # Errors
///
/// Fails if bintide fails.
pub fn printed_records(source: &TestServer) -> Result<String> {
    let mut records = String::new();
    take_printed_records(source, |line| {
        records.push_str(line);
        records.push('\n');
        Ok(())
    })?;
    Ok(records)
}

/// Takes the records that `bintide stream` prints for the logs of a server, one after the other.
///
/// # Errors
///
/// Fails if bintide or `take` fails.
pub fn take_printed_records(source: &TestServer, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let index = source.datadir().join("binlog.index");
    let mut printing = Command::new(bintide()?);
    printing.env_clear().args(["stream", "--format", "debezium"]).arg(index).stdin(Stdio::null());
    let mut printing = printing.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = printing.stdout.take().context("no output")?;
    for line in BufReader::new(output).lines() {
        take(&line?)?;
    }
    let printed = printing.wait_with_output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Ok(())
}

/// Compares the records of a pipe with those of the topics: by topic and key, in order. Returns their number.
///
/// # Errors
///
/// Fails if there is a difference, with the first one.
pub fn compare(printed: &str, found: &[TopicRecord], keys: PrimaryKeys<'_>) -> Result<usize> {
    let mut comparison = RecordComparison::new(keys, |value| value);
    printed.lines().try_for_each(|line| comparison.add_printed(line))?;
    found.iter().try_for_each(|record| comparison.add_found(record))?;
    comparison.finish()
}

/// Comparison of the records of a pipe with those of topics. A `V` stands for the value of a record.
pub struct RecordComparison<'k, V> {
    keys: PrimaryKeys<'k>,
    value_form: fn(String) -> V,
    expected: BTreeMap<TopicKey, Vec<V>>,
    found: BTreeMap<TopicKey, Vec<V>>,
}

impl<'k, V: Ord + fmt::Debug> RecordComparison<'k, V> {
    /// Creates a comparison without records. `value_form` returns what stands for a value.
    pub fn new(keys: PrimaryKeys<'k>, value_form: fn(String) -> V) -> Self {
        Self { keys, value_form, expected: BTreeMap::new(), found: BTreeMap::new() }
    }

    /// Adds a record of the pipe.
    ///
    /// # Errors
    ///
    /// Fails if the record is malformed, or its table is unknown.
    pub fn add_printed(&mut self, line: &str) -> Result<()> {
        let mut record: Value = serde_json::from_str(line)?;
        let at = topic_key(&record, self.keys)?;
        let has_tombstone = record["op"] == "d" && at.key.is_some();
        remove_times(&mut record);
        let records = self.expected.entry(at).or_default();
        records.push((self.value_form)(record.to_string()));
        if has_tombstone {
            records.push((self.value_form)(TOMBSTONE.to_owned()));
        }
        Ok(())
    }

    /// Adds a record of a topic.
    ///
    /// # Errors
    ///
    /// Fails if the record is malformed.
    pub fn add_found(&mut self, record: &TopicRecord) -> Result<()> {
        let value = match &record.value {
            None => TOMBSTONE.to_owned(),
            Some(value) => {
                let mut value = serde_json::from_str(value).with_context(|| value.clone())?;
                remove_times(&mut value);
                value.to_string()
            }
        };
        let at = TopicKey { topic: record.topic.clone(), key: record.key.clone() };
        self.found.entry(at).or_default().push((self.value_form)(value));
        Ok(())
    }

    /// Compares the records: by topic and key, in order. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if there is a difference, with the first one.
    pub fn finish(mut self) -> Result<usize> {
        // Rows without a key are spread over the partitions.
        for records in [&mut self.expected, &mut self.found] {
            records.iter_mut().filter(|(at, _)| at.key.is_none()).for_each(|(_, values)| values.sort());
        }
        for (at, expected) in &self.expected {
            let found = self.found.get(at).map_or(&[][..], Vec::as_slice);
            if found != expected {
                let first = expected.iter().zip(found).position(|(expected, found)| expected != found);
                let first = first.unwrap_or(expected.len().min(found.len()));
                bail!(
                    "{at:?}: {} records, expected {}; number {first} is {:?}, expected {:?}",
                    found.len(),
                    expected.len(),
                    found.get(first),
                    expected.get(first)
                );
            }
        }
        if let Some(at) = self.found.keys().find(|at| !self.expected.contains_key(at)) {
            bail!("unexpected records: {at:?}");
        }
        Ok(self.found.values().map(Vec::len).sum())
    }
}

/// Returns the rows of a table by their key, as the last records of its topic have them.
///
/// # Errors
///
/// Fails if a record is malformed, or has no key.
pub fn last_rows(records: &[TopicRecord], topic: &str) -> Result<BTreeMap<String, Value>> {
    let mut rows = LastRows::default();
    records.iter().filter(|record| record.topic == topic).try_for_each(|record| rows.add(record))?;
    Ok(rows.0)
}

/// Rows of a table by their key, as the last records of its topic have them.
#[derive(Clone, Debug, Default)]
pub struct LastRows(BTreeMap<String, Value>);

impl LastRows {
    /// Adds the next record of the topic.
    ///
    /// # Errors
    ///
    /// Fails if the record is malformed, or has no key.
    pub fn add(&mut self, record: &TopicRecord) -> Result<()> {
        let key = record.key.clone().context("a record without a key")?;
        let value: Option<Value> = record.value.as_deref().map(serde_json::from_str).transpose()?;
        // A delete has a tombstone after it.
        match value.and_then(|value| value.get("after").cloned()).filter(|after| !after.is_null()) {
            Some(after) => drop(self.0.insert(key, after)),
            None => drop(self.0.remove(&key)),
        }
        Ok(())
    }

    /// Compares these rows with those of the table: one JSON object per line. `topic` is named in errors.
    ///
    /// # Errors
    ///
    /// Fails if there is a difference, with the first one.
    pub fn compare(&self, topic: &str, rows: &str, key: &[&str]) -> Result<()> {
        let mut expected = BTreeMap::new();
        for line in rows.lines().filter(|line| !line.is_empty()) {
            let row: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            expected.insert(key_text(&row, key), row);
        }
        for (key, row) in &expected {
            ensure!(self.0.get(key) == Some(row), "{topic} {key}: {:?}, expected {row}", self.0.get(key));
        }
        let unexpected = self.0.iter().find(|(key, _)| !expected.contains_key(*key));
        ensure!(unexpected.is_none(), "{topic}: unexpected {unexpected:?}");
        Ok(())
    }
}

/// Compares the last record of each key in a topic with the rows of its table, `rows`: one JSON object per line.
///
/// # Errors
///
/// Fails if there is a difference, with the first one.
pub fn compare_with_rows(records: &[TopicRecord], topic: &str, rows: &str, key: &[&str]) -> Result<()> {
    LastRows(last_rows(records, topic)?).compare(topic, rows, key)
}

/// Returns the key of a row, as the stream writes it.
pub fn key_text(row: &Value, key: &[&str]) -> String {
    let fields: Vec<String> = key.iter().map(|column| format!("\"{column}\":{}", row[*column])).collect();
    format!("{{{}}}", fields.join(","))
}

const TOMBSTONE: &str = "tombstone";

/// Topic and key of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TopicKey {
    topic: String,
    key: Option<String>,
}

/// Returns the topic and the key that a record must have.
fn topic_key(record: &Value, keys: PrimaryKeys<'_>) -> Result<TopicKey> {
    if record.get("status").is_some() {
        let key = Some(format!("{{\"id\":{}}}", record["id"]));
        return Ok(TopicKey { topic: format!("{PREFIX}.transaction"), key });
    }
    if record.get("ddl").is_some() {
        let key = Some(format!("{{\"databaseName\":{}}}", record["databaseName"]));
        return Ok(TopicKey { topic: PREFIX.to_owned(), key });
    }
    let [database, table] = ["db", "table"].map(|name| record["source"][name].as_str().unwrap_or_default());
    let name = format!("{database}.{table}");
    let columns = keys.iter().find(|(table, _)| *table == name).map(|(_, columns)| *columns);
    let columns = columns.with_context(|| format!("unexpected table {name}"))?;
    let row = if record["after"].is_null() { &record["before"] } else { &record["after"] };
    let key = (!columns.is_empty()).then(|| key_text(row, columns));
    Ok(TopicKey { topic: format!("{PREFIX}.{name}"), key })
}

/// Removes the times of writing, which differ between two runs.
fn remove_times(record: &mut Value) {
    if let Some(record) = record.as_object_mut() {
        ["ts_ms", "ts_us", "ts_ns"].into_iter().for_each(|name| drop(record.remove(name)));
    }
}

/// Returns the partition that Java's producers choose for a key.
pub fn java_partition(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// Returns the hash of Kafka's Java client (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(M);
        word = (word ^ word >> 24).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    (hash ^ hash >> 15).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// Values of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn hashes_are_those_of_java() {
        let check = |text: &str, expected: i32| assert_eq!(murmur2(text.as_bytes()), expected, "{text}");
        check("21", -973_932_308);
        check("foobar", -790_332_482);
        check("a-little-bit-long-string", -985_981_536);
        check("a-little-bit-longer-string", -1_486_304_829);
        check("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971);
        check("abc", 479_470_107);
    }
}
