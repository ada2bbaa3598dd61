//! `bintide stream --to kafka://…` with schemas, on a real broker and a real registry: other programs decode
//! the same records as those of a pipe.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, wait_for_within};
use e2e::kafka::{
    PrimaryKeys, TopicRecord, compare, printed_records, read_matching_topics, read_topics, stream_to,
    unrouted,
};
use e2e::metrics;
use e2e::registry::{DecodedRecord, read_decoded, without_resume};
use serde_json::{Value, json};
use testkit::{KafkaBroker, Launch, RegistryServer, TestPackage, TestServer, free_port};

/// Time limit of waits.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Tables with all common types, their limits, NULL, and changes of each kind.
const ROWS: &str = r"
    create database d; use d;
    create table common (id int primary key, ti tinyint, tu tinyint unsigned, su smallint unsigned, mu mediumint unsigned,
        iu int unsigned not null default 7, bi bigint, bu bigint unsigned, f float, db double, de decimal(10,2) not null default 1.5,
        d65 decimal(65,30), b1 bit(1), b9 bit(9), y year, da date, t time(6), dt datetime, dt6 datetime(6),
        ts timestamp(3) null, c char(3), v varchar(20) default 'it''s', x text, bn binary(4), vb varbinary(9), bl blob,
        e enum('a','b,c') not null default 'a', s set('x','y'), j json, g geometry, p point);
    insert into common values (1, -128, 255, 65535, 16777215, 4294967295, -9223372036854775808, 18446744073709551615, 0.1,
        1e300, -1.25, 123456789012345678901234567890.5, 1, b'101010101', 2026, '1969-12-31', '-838:59:58.999999',
        '2026-11-29 10:20:30', '1000-01-01 00:00:00.000001', '2026-11-29 10:20:30.5', 'ü', 'a\0b', repeat('x', 5000),
        0x0102, 0xff00, repeat(0x80, 3000), 'b,c', 'x,y', json_object('k', json_array(1, 'ü')), st_geomfromtext('LINESTRING(0 0,1 2)'),
        st_geomfromtext('POINT(1.5 -2)'));
    insert into common (id) values (-2147483648);
    update common set v = null, f = null, ts = null where id = 1; delete from common where id < 0;
    create table `odd-name` (`1st` int primary key, `b c` varchar(5)); insert into `odd-name` values (1, 'x');
    create table pair (a varchar(20), b int, c int, primary key (b, a)); insert into pair values ('ü', 1, 2);
    update pair set b = 5; create table no_key (a int); insert into no_key values (1), (null);
    create table shard_1 (id int primary key, n int); create table shard_2 (id int primary key, n int);
    insert into shard_1 values (1, 1); insert into shard_2 values (1, 2); update shard_1 set n = 3; delete from shard_2;";

/// A topic for several tables.
const ROUTE: &str = r"--route=d\.shard_[0-9]+=d.shards";

const KEYS: PrimaryKeys<'_> = &[
    ("d.common", &["id"]),
    ("d.odd-name", &["1st"]),
    ("d.pair", &["b", "a"]),
    ("d.no_key", &[]),
    ("d.shard_1", &["id"]),
    ("d.shard_2", &["id"]),
    ("d.t", &["id"]),
    ("d.later", &["id"]),
];

/// A broker, a registry and a source.
struct Stage {
    broker: KafkaBroker,
    registry: RegistryServer,
    source: TestServer,
}

impl Stage {
    fn new() -> Result<Self> {
        let source = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
        Ok(Self { broker: KafkaBroker::start(&[])?, registry: RegistryServer::start()?, source })
    }

    fn arguments<'a>(&self, from: &'a str, url: &'a str, format: &'a str) -> [&'a str; 7] {
        [ROUTE, "--from", from, "--schema-registry", url, "--value-format", format]
    }

    /// Streams up to the end of the source's log. Returns the messages, and whether it succeeded.
    fn stream_all(&self, format: &str) -> Result<(bool, String)> {
        let (from, url) = (from(&self.source), self.registry.url());
        let arguments = [&self.arguments(&from, &url, format)[..], &["--stop-at-end"]].concat();
        let ran = stream_to(&self.broker, &arguments)?.output()?;
        Ok((ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned()))
    }

    fn stream_whole(&self, format: &str) -> Result<()> {
        let (succeeded, printed) = self.stream_all(format)?;
        ensure!(succeeded, "{printed}");
        Ok(())
    }

    fn decoded(&self) -> Result<Vec<DecodedRecord>> {
        read_decoded(&self.broker, &self.registry)
    }

    /// Returns the decoded records, as if no tables shared a topic.
    fn records(&self) -> Result<Vec<TopicRecord>> {
        unrouted(self.decoded()?.into_iter().map(|decoded| decoded.record).collect())
    }

    /// Compares the decoded topics with the records of a pipe.
    fn compare(&self) -> Result<usize> {
        compare(&without_resume(&printed_records(&self.source)?)?, &self.records()?, KEYS)
    }

    /// Returns the versions of a subject.
    fn versions(&self, subject: &str) -> Result<usize> {
        let versions = self.registry.request("GET", &format!("/subjects/{subject}/versions"), "")?;
        Ok(serde_json::from_str::<Vec<u32>>(&versions)?.len())
    }

    fn set_compatibility(&self, subject: &str, level: &str) -> Result<()> {
        let body = json!({ "compatibility": level }).to_string();
        self.registry.request("PUT", &format!("/config/{subject}"), &body).map(drop)
    }
}

fn from(server: &TestServer) -> String {
    format!("mysql://root@127.0.0.1:{}/?timeout=8", server.port())
}

/// A change of a definition registers another version. One that is not compatible ends the stream, and a later run
/// continues with it if the registry accepts it.
#[test]
fn avro_records_are_those_of_a_pipe() -> Result<()> {
    let stage = Stage::new()?;
    stage.source.sql(ROWS.replace("`1st`", "f1").replace("`b c`", "bc").as_str())?;
    stage.source.sql("create table d.t (id int primary key); insert into d.t values (1)")?;
    stage.stream_whole("avro").context("the first run")?;
    let keys = [&KEYS[..1], &[("d.odd-name", &["f1"][..])], &KEYS[2..]].concat();
    let compare_all =
        || compare(&without_resume(&printed_records(&stage.source)?)?, &stage.records()?, &keys);
    compare_all().context("after the first run")?;
    let shared = stage.decoded()?.iter().filter(|decoded| decoded.record.topic == "bintide.d.shards").count();
    ensure!(shared == 5 && stage.versions("bintide.d.shards-value")? == 1, "{shared}");
    let subject = "bintide.d.t-value";
    ensure!(stage.versions(subject)? == 1, "{}", stage.versions(subject)?);

    stage.set_compatibility(subject, "BACKWARD")?;
    stage.source.sql(
        "alter table d.t add a int, add b int not null default 5, add c varchar(5) not null default 'x';
         insert into d.t values (2, null, 6, 'y')",
    )?;
    stage.stream_whole("avro").context("the second run")?;
    compare_all().context("after the second run")?;
    ensure!(stage.versions(subject)? == 2, "{}", stage.versions(subject)?);

    stage.source.sql("alter table d.t add n int not null; insert into d.t values (3, 1, 2, 'z', 4)")?;
    let (succeeded, printed) = stage.stream_all("avro")?;
    for expected in [subject, "Incompatible", "PUT /config/bintide.d.t-value", "start the stream again"] {
        ensure!(!succeeded && printed.contains(expected), "{expected}: {printed}");
    }
    stage.set_compatibility(subject, "NONE")?;
    stage.stream_whole("avro").context("the fourth run")?;
    compare_all().context("after the fourth run")?;
    ensure!(stage.versions(subject)? == 3, "{}", stage.versions(subject)?);
    Ok(())
}

/// Every key and value matches its schema.
#[test]
fn json_schemas_describe_the_records() -> Result<()> {
    let stage = Stage::new()?;
    stage.source.sql(ROWS)?;
    stage.stream_whole("json-schema")?;
    let decoded = stage.decoded()?;
    let mut checked = 0;
    for DecodedRecord { record, schemas } in &decoded {
        for (part, schema) in [&record.key, &record.value].into_iter().zip(schemas) {
            let Some(part) = part else { continue };
            ensure!(schema.is_object(), "without a schema: {record:?}");
            let value: Value = serde_json::from_str(part)?;
            let faults: Vec<String> = jsonschema::validator_for(schema)?
                .iter_errors(&value)
                .map(|fault| fault.to_string())
                .collect();
            ensure!(faults.is_empty(), "{faults:?}: {part}");
            checked += 1;
        }
    }
    ensure!(checked > 40, "{checked}");
    // The records themselves are those of a pipe.
    let records: Vec<TopicRecord> = decoded.into_iter().map(|decoded| decoded.record).collect();
    compare(&printed_records(&stage.source)?, &unrouted(records)?, KEYS).map(drop)
}

/// With JSON and its schema in each record, no registry is needed.
#[test]
fn records_contain_their_schemas() -> Result<()> {
    let source = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    source.sql(ROWS)?;
    let broker = KafkaBroker::start(&[])?;
    let (from, format) = (from(&source), "json-with-schema");
    let arguments = ["--from", &from, "--stop-at-end", "--value-format", format, "--key-format", "json"];
    let ran = stream_to(&broker, &arguments)?.output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut records = read_topics(&broker)?;
    for record in &mut records {
        let Some(value) = &record.value else { continue };
        let parts: Value = serde_json::from_str(value)?;
        ensure!(parts["schema"]["type"] == "struct", "{value}");
        record.value = Some(parts["payload"].to_string());
    }
    compare(&printed_records(&source)?, &records, KEYS).map(drop)
}

/// Default values of bytes, which `information_schema` shows as hexadecimal digits, or without what follows a zero byte.
const DEFAULTS: &str = r"create database d; use d;
    create table bytes (id int primary key, plain varbinary(5) default 'xyz', padded binary(5) default 'xyz',
        quoted varbinary(9) default 'a''b\c', digits varbinary(9) default '0x41', hex varbinary(9) default 0x4142,
        zero varbinary(5) default 'a\0b', blank varbinary(5) default '', zeros binary(3) default '', wide varbinary(9) default 'ü',
        high varbinary(5) default 0x00ff, cut varbinary(5) default 0xff00ff, none binary(2), text varchar(9) default 'a''b\c');
    insert into bytes (id) values (1)";

/// Each default value in a schema is the value that a row gets.
#[test]
fn default_values_of_bytes_are_those_of_rows() -> Result<()> {
    let broker = KafkaBroker::start(&[])?;
    let packages =
        [TestPackage::Mysql, TestPackage::Mysql5_7, TestPackage::MariaDb, TestPackage::MariaDb11_8];
    for package in packages {
        let source = Launch::of(package).option("--binlog-format=ROW").start()?;
        source.sql(DEFAULTS)?;
        for (names, extra) in
            [("server", &[][..]), ("ddl", &["--schema", "ddl"]), ("snapshot", &["--snapshot"])]
        {
            let (name, from) = (format!("{package:?}-{names}"), from(&source));
            let arguments =
                ["--name", &name, "--from", &from, "--stop-at-end", "--value-format", "json-with-schema"];
            let ran = stream_to(&broker, &[&arguments, extra].concat())?.output()?;
            ensure!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
            let topic = format!("{name}.d.bytes");
            let records = read_matching_topics(&broker, |found| found == topic)?;
            let value = records.iter().find_map(|record| record.value.as_deref()).context("no record")?;
            let defaults = defaults_of(&serde_json::from_str(value)?).with_context(|| name.clone())?;
            // Bytes that are not UTF-8 have no default value in the schema.
            let expected = "blank,digits,hex,padded,plain,quoted,text,wide,zero,zeros";
            ensure!(defaults.join(",") == expected, "{name}: {defaults:?}");
        }
    }
    Ok(())
}

/// Returns the names of the columns with a default value, in order. Compares each default value with the row's value.
fn defaults_of(record: &Value) -> Result<Vec<String>> {
    let fields = record["schema"]["fields"].as_array().context("no fields")?;
    let after = fields.iter().find(|field| field["field"] == "after").context("no field `after`")?;
    let mut names = Vec::new();
    for column in after["fields"].as_array().context("no columns")? {
        let name = column["field"].as_str().unwrap_or_default();
        if let Some(default) = column.get("default") {
            let found = &record["payload"]["after"][name];
            ensure!(found == default, "{name}: {found} in the row, {default} in the schema");
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// While the registry is down, the stream waits, and then ends. The next run loses and repeats nothing.
#[test]
fn a_registry_outage_loses_nothing() -> Result<()> {
    let (mut stage, port) = (Stage::new()?, free_port()?);
    stage
        .source
        .sql("create database d; create table d.t (id int primary key); insert into d.t values (1)")?;
    let (from, url, site) =
        (from(&stage.source), stage.registry.url(), format!("--metrics=127.0.0.1:{port}"));
    let follow = |stage: &Stage| {
        let arguments = [&stage.arguments(&from, &url, "avro")[..], &[site.as_str()]].concat();
        ChildGuard::start(stream_to(&stage.broker, &arguments)?.stderr(Stdio::piped()))
    };
    let becomes = |texts: &[&str]| metrics::wait_until_reported(port, texts, TIMEOUT);
    let outage = ["503", "the schema registry does not answer: ", "bintide_stream_registry_working 0"];
    let mut first = follow(&stage)?;
    wait_for_within(TIMEOUT, || stage.compare().map(drop))?;
    becomes(&["200 OK", "bintide_stream_registry_working 1"])?;
    // Schemas that are registered already need no registry.
    stage.registry.kill()?;
    stage.source.sql("insert into d.t values (2); create table d.later (id int primary key); insert into d.later values (1)")?;
    becomes(&outage)?;
    stage.registry.start_again()?;
    wait_for_within(TIMEOUT, || stage.compare().map(drop)).context("after the registry came back")?;
    becomes(&["200 OK", "bintide_stream_registry_working 1"])?;

    stage.registry.kill()?;
    stage.source.sql("alter table d.later add b int; insert into d.later values (2, 3)")?;
    wait_for_within(TIMEOUT, || first.try_wait()?.map(drop).context("the stream continues"))?;
    let ran = first.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(
        !ran.status.success() && printed.contains(&format!("the schema registry {url}/ is not available")),
        "{printed}"
    );
    stage.registry.start_again()?;
    stage.stream_whole("avro")?;
    stage.compare().context("after the next run").map(drop)
}
