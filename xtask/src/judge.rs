//! Debezium as the judge of `bintide stream`: both read one server's log, and what they say is compared field by field.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testkit::{Launch, Server, target_dir};

use crate::checks;
use crate::workspace::root;

/// What the last row holds, and no other record.
const LAST: &str = "424242";

/// Sorts of changes that the samples do not have.
const MORE: &str = "
    CREATE DATABASE judged; USE judged;
    CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(10)); CREATE TABLE without_key (a INT);
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO without_key VALUES (1);
    DELETE FROM t; COMMIT;
    SET SESSION binlog_transaction_compression = ON;
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET b = 'c'; DELETE FROM t WHERE id = 1; COMMIT;
    ALTER TABLE t ADD COLUMN more DECIMAL(10, 2) UNSIGNED NOT NULL DEFAULT 7.5;
    INSERT INTO t VALUES (9, 'z', 1.25);";

/// Runs both, compares, and says what differs.
pub(crate) fn judge() -> Result<()> {
    checks::cargo(&["build", "--quiet", "--package", "bintide"])?;
    let folder = target_dir().join("judge");
    fs::create_dir_all(&folder)?;
    fetch(&folder)?;
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql("CREATE USER judge@'%' IDENTIFIED BY 'judge'; GRANT ALL ON *.* TO judge@'%'")?;
    let theirs = debezium(&folder, &server)?;
    let ours = bintide(&server)?;
    compare(&theirs, &ours)
}

/// Has Maven fetch the engine into the target directory, and compiles what runs it.
fn fetch(folder: &Path) -> Result<()> {
    let sources = root().join("bench/debezium");
    let jars = folder.join("jars");
    if !jars.exists() {
        let arguments = [
            "-q",
            "-B",
            "dependency:copy-dependencies",
            &format!("-DoutputDirectory={}", jars.display()),
            "-f",
        ];
        run(Command::new("mvn").args(arguments).arg(sources.join("pom.xml")))?;
    }
    run(Command::new("javac")
        .arg("-cp")
        .arg(class_path(folder))
        .arg("-d")
        .arg(folder)
        .arg(sources.join("Judge.java")))
}

fn class_path(folder: &Path) -> String {
    format!("{}:{}/jars/*", folder.display(), folder.display())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not run {command:?}: is Java 17 with Maven there?"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Debezium's records of what the samples do.
fn debezium(folder: &Path, server: &Server) -> Result<Vec<Value>> {
    let (properties, records, log) = (folder.join("properties"), folder.join("records"), folder.join("log"));
    fs::write(&properties, settings(server.port()))?;
    let mut java = Command::new("java");
    java.arg("-cp").arg(class_path(folder)).arg("Judge").args([&properties, &records]).arg(LAST);
    java.stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    let mut engine = Engine(java.spawn().context("could not run java")?);
    wait_for(&log, "Connected to 127.0.0.1")?;
    for script in scripts()? {
        server.sql(&script)?;
    }
    server.sql(&format!("CREATE TABLE judged.last (a INT); INSERT INTO judged.last VALUES ({LAST})"))?;
    let status = engine.0.wait()?;
    ensure!(status.success(), "Debezium has not come to the end: see {}", log.display());
    let read = fs::read_to_string(&records)?;
    let all: Vec<Value> = read.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(read.contains(LAST), "Debezium stopped before the end: see {}", log.display());
    Ok(all
        .into_iter()
        .filter(|record| record["source"]["snapshot"].as_str().unwrap_or("false") == "false")
        .collect())
}

/// The engine, which must not outlive this.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(port: u16) -> String {
    let lines = [
        "name=judge",
        "connector.class=io.debezium.connector.mysql.MySqlConnector",
        "offset.storage=org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "schema.history.internal=io.debezium.relational.history.MemorySchemaHistory",
        "database.hostname=127.0.0.1",
        &format!("database.port={port}"),
        "database.user=judge",
        "database.password=judge",
        "database.server.id=9988",
        "topic.prefix=bintide",
        "snapshot.mode=no_data",
        "provide.transaction.metadata=true",
        "key.converter.schemas.enable=false",
        "value.converter.schemas.enable=false",
        "tombstones.on.delete=false",
    ];
    lines.join("\n")
}

fn wait_for(log: &Path, text: &str) -> Result<()> {
    let began = Instant::now();
    while !fs::read_to_string(log)?.contains(text) {
        ensure!(began.elapsed() < Duration::from_secs(120), "Debezium does not start: see {}", log.display());
        thread::sleep(Duration::from_millis(50));
    }
    // It says so before it reads.
    thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// The samples, without what Debezium stops at: spatial references and vectors in definitions, and SETs whose every
/// bit is set.
fn scripts() -> Result<Vec<String>> {
    let samples = root().join("samples");
    let mut types = fs::read_to_string(samples.join("types.sql"))?;
    for (from, to) in [
        (", (5, 5, 7, 255, 511, 18446744073709551615, 1, 2, 3);", ";"),
        ("p POINT SRID 0", "p POINT"),
        ("world POINT NOT NULL SRID 4326, SPATIAL INDEX (world)", "world POINT"),
    ] {
        ensure!(types.contains(from), "types.sql does not have {from:?} any more");
        types = types.replace(from, to);
    }
    let start = types.find("CREATE TABLE vectors").context("types.sql has vectors")?;
    let end = types.find("-- No key, one column").context("types.sql goes on behind them")?;
    types.replace_range(start..end, "");
    Ok(vec![types, fs::read_to_string(samples.join("json.sql"))?, MORE.to_owned()])
}

/// bintide's records of the same log.
fn bintide(server: &Server) -> Result<Vec<Value>> {
    let program =
        env::var_os("BINTIDE_BIN").map_or_else(|| target_dir().join("debug/bintide"), PathBuf::from);
    let index = server.datadir().join("binlog.index");
    let output = Command::new(program).args(["stream", "--format", "debezium"]).arg(index).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Compares record by record; what is known to differ is counted, and all else is an error.
fn compare(theirs: &[Value], ours: &[Value]) -> Result<()> {
    let first = transaction(theirs.first().context("Debezium has no records")?);
    let start =
        ours.iter().position(|record| transaction(record) == first).context("bintide has none of them")?;
    // What is behind the last row may not have come.
    let [theirs, ours] = [theirs, &ours[start..]].map(up_to_last);
    ensure!(theirs.len() == ours.len(), "Debezium has {} records, bintide {}", theirs.len(), ours.len());
    let (mut known, mut unknown) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (their, our) in theirs.iter().zip(ours) {
        let mut differences = Vec::new();
        differ(their, our, String::new(), &mut differences);
        for (path, theirs_is, ours_is) in differences {
            match excuse(&path, &theirs_is, &ours_is) {
                Some(reason) => *known.entry(reason).or_default() += 1,
                None => unknown
                    .push(format!("{path} in {}: Debezium {theirs_is}, bintide {ours_is}", transaction(our))),
            }
        }
    }
    println!("{} records are the same, but for:", theirs.len());
    for (reason, count) in known {
        println!("{count:6}  {reason}");
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => bail!("{} differences that nobody knew of:\n{}", unknown.len(), unknown.join("\n")),
    }
}

/// The records up to the last row.
fn up_to_last(records: &[Value]) -> &[Value] {
    let is_last = |record: &Value| record["after"].to_string().contains(LAST);
    records.iter().position(is_last).map_or(records, |last| &records[..=last])
}

/// Which transaction a record is of.
fn transaction(record: &Value) -> String {
    let id = record.get("id").unwrap_or(&record["source"]["gtid"]);
    id.as_str().unwrap_or_default().to_owned()
}

/// Where two values differ, by the names on the way there.
fn differ(theirs: &Value, ours: &Value, path: String, found: &mut Vec<(String, Value, Value)>) {
    match (theirs, ours) {
        (Value::Object(their), Value::Object(our)) => {
            let mut names: Vec<&String> = their.keys().chain(our.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let absent = Value::String("(absent)".to_owned());
                let [their, our] = [their, our].map(|object| object.get(name).unwrap_or(&absent));
                differ(their, our, format!("{path}.{name}"), found);
            }
        }
        _ if theirs == ours => {}
        _ => found.push((path, theirs.clone(), ours.clone())),
    }
}

/// Why two values may differ.
fn excuse(path: &str, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let column = path.rsplit('.').next().unwrap_or_default();
    let documents =
        || [theirs, ours].map(|text| serde_json::from_str::<Value>(text.as_str().unwrap_or("?")).ok());
    Some(match path {
        ".ts_ms" | ".ts_us" | ".ts_ns" => "when records were written",
        ".resume" => "resume, which is ours",
        ".source.version" => "the program's version",
        ".source.row" | ".tableChanges" | ".ddl" => {
            "definitions: tables as objects, rewritten statements, numbers of rows before"
        }
        _ if theirs.is_boolean() && column == "truth" => "BOOL, which the log does not tell from TINYINT",
        _ if same_float(theirs, ours) => "FLOAT: digits of the same number, or widened",
        _ if column == "y" && *theirs == 1900 && *ours == 0 => "YEAR 0000",
        _ if matches!(documents(), [Some(their), Some(our)] if their == our) => {
            "digits of numbers in documents"
        }
        _ if matches!([theirs, ours].map(|one| text(one).parse::<f64>()), [Ok(their), Ok(our)] if their == our) => {
            "digits of numbers in documents"
        }
        _ if text(theirs).contains(":0-") && text(ours).starts_with("\"-") => "negative times in documents",
        _ => return None,
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Are they the same FLOAT?
fn same_float(theirs: &Value, ours: &Value) -> bool {
    match (theirs.as_f64(), ours.as_f64()) {
        (Some(their), Some(our)) => (theirs.is_f64() || ours.is_f64()) && their as f32 == our as f32,
        _ => false,
    }
}
