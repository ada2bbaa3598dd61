//! Runs Debezium's embedded engine, and lists its known differences.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::{Launch, TestServer, workspace_root};

use super::compare::{KnownDifference, ReferenceTool, compare, same_float, text};
use super::{
    JavaProcess, LAST_VALUE, bintide_records, class_path, fetch_jars, parse_lines, sample_scripts, wait_for,
};

/// Kinds of changes that the samples do not have.
const MORE_CHANGES_SQL: &str = "
    CREATE DATABASE judged; USE judged;
    CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(10)); CREATE TABLE without_key (a INT);
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO without_key VALUES (1);
    DELETE FROM t; COMMIT;
    SET SESSION binlog_transaction_compression = ON;
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET b = 'c'; DELETE FROM t WHERE id = 1; COMMIT;
    CREATE TABLE kinds (a SERIAL, b INTEGER UNSIGNED, c NUMERIC(5), d DEC, e CHAR, f DOUBLE PRECISION, g REAL, j BIT,
        k BOOLEAN NOT NULL DEFAULT TRUE, l INT DEFAULT -1, m VARCHAR(9) COLLATE latin1_bin DEFAULT 'it''s',
        n TIMESTAMP DEFAULT CURRENT_TIMESTAMP, o TEXT, p BINARY, q INT1, r DECIMAL(4,1) UNSIGNED) CHARACTER SET latin2;
    ALTER TABLE kinds MODIFY l BIGINT FIRST, DROP q, RENAME COLUMN p TO pp, ALTER COLUMN k SET DEFAULT 0;
    CREATE TABLE recoded (a VARCHAR(9) CHARACTER SET latin1, b TEXT, c CHAR(3)) CHARACTER SET latin2;
    ALTER TABLE recoded DEFAULT CHARACTER SET koi8r; ALTER TABLE recoded CONVERT TO CHARACTER SET utf8mb4;
    ALTER TABLE recoded CONVERT TO CHARACTER SET binary; ALTER TABLE recoded ADD d VARCHAR(3);
    CREATE TABLE alike LIKE t; CREATE INDEX i ON t (b);
    ALTER TABLE t ADD COLUMN more DECIMAL(10, 2) UNSIGNED NOT NULL DEFAULT 7.5;
    INSERT INTO t VALUES (9, 'z', 1.25);";

/// Properties of Debezium that are not the default, and the options of bintide that equal them.
struct JudgedSettings {
    properties: &'static [&'static str],
    options: &'static [&'static str],
}

/// All forms of values that are not the default, then selections and masks of columns.
const MORE_SETTINGS: [JudgedSettings; 7] = [
    JudgedSettings {
        properties: &[
            "decimal.handling.mode=double",
            "bigint.unsigned.handling.mode=precise",
            "time.precision.mode=connect",
            "binary.handling.mode=base64",
        ],
        options: &[
            "--decimal-handling-mode=double",
            "--bigint-unsigned-handling-mode=precise",
            "--time-precision-mode=connect",
            "--binary-handling-mode=base64",
        ],
    },
    JudgedSettings {
        properties: &[
            "decimal.handling.mode=string",
            "time.precision.mode=isostring",
            "binary.handling.mode=hex",
        ],
        options: &[
            "--decimal-handling-mode=string",
            "--time-precision-mode=isostring",
            "--binary-handling-mode=hex",
        ],
    },
    JudgedSettings {
        properties: &["time.precision.mode=microseconds", "binary.handling.mode=base64-url-safe"],
        options: &["--time-precision-mode=microseconds", "--binary-handling-mode=base64-url-safe"],
    },
    JudgedSettings {
        properties: &["time.precision.mode=nanoseconds"],
        options: &["--time-precision-mode=nanoseconds"],
    },
    JudgedSettings {
        properties: &[
            "column.exclude.list=types\\\\.strings\\\\.(id|v1|vb2), TYPES.choices.s8,types.floats..*",
            "column.truncate.to.5.chars=types.(strings|blobs).(c20|b16|vb|lt|lb|mb),types.choices.(s9|eu),docs.changes..*",
            "column.mask.with.3.chars=types.blobs.(t|tt|b)",
            "column.mask.hash.v2.SHA-256.with.salt.salty=types.(strings|choices|blobs).(v255|v4|e|s|e1|mt|lt|el)",
        ],
        options: &[
            "--column-exclude-list=types\\.strings\\.(id|v1|vb2), TYPES.choices.s8,types.floats..*",
            "--column-truncate=5:types.(strings|blobs).(c20|b16|vb|lt|lb|mb),types.choices.(s9|eu),docs.changes..*",
            "--column-mask=3:types.blobs.(t|tt|b)",
            "--column-mask-hash=SHA-256:salty:types.(strings|choices|blobs).(v255|v4|e|s|e1|mt|lt|el)",
        ],
    },
    JudgedSettings {
        properties: &[
            "decimal.handling.mode=string",
            "time.precision.mode=isostring",
            "binary.handling.mode=hex",
            "column.truncate.to.4.chars=types.(decimals|temporals|strings|blobs|choices|bits|integers)..*",
        ],
        options: &[
            "--decimal-handling-mode=string",
            "--time-precision-mode=isostring",
            "--binary-handling-mode=hex",
            "--column-truncate=4:types.(decimals|temporals|strings|blobs|choices|bits|integers)..*",
        ],
    },
    JudgedSettings {
        properties: &[
            "column.include.list=types.(decimals|strings|choices).(id|d5|v4|e),judged..*",
            "column.mask.hash.v2.MD5.with.salt.s=types.strings.v4",
            "column.mask.hash.v2.SHA-512.with.salt.s=judged.t.b",
        ],
        options: &[
            "--column-include-list=types.(decimals|strings|choices).(id|d5|v4|e),judged..*",
            "--column-mask-hash=MD5:s:types.strings.v4",
            "--column-mask-hash=SHA-512:s:judged.t.b",
        ],
    },
];

/// Fetches Debezium, and compiles the program that runs it.
pub(super) fn fetch(directory: &Path) -> Result<()> {
    fetch_jars(directory, "debezium", &["Judge.java", "Schemas.java"])
}

/// Runs both, compares the records, and prints the differences.
pub(super) fn judge(directory: &Path) -> Result<()> {
    fetch(directory)?;
    compare_schemas(directory)?;
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql("CREATE USER judge@'%' IDENTIFIED BY 'judge'; GRANT ALL ON *.* TO judge@'%'")?;
    let theirs = run_debezium(directory, &server)?;
    compare_with_bintide(&server, &theirs, &[], known_difference)?;
    for settings in &MORE_SETTINGS {
        println!("{}:", settings.properties.join(", "));
        let theirs = read_with_debezium(directory, &server, settings.properties)?;
        compare_with_bintide(&server, &theirs, settings.options, known_difference_without_snapshot)?;
    }
    Ok(())
}

/// Compares Debezium's schemas with those that the tests of `kafka-sink` compare with bintide's.
fn compare_schemas(directory: &Path) -> Result<()> {
    let (tests, written) =
        (workspace_root().join("crates/kafka-sink/tests/debezium"), directory.join("schemas.jsonl"));
    let mut java = Command::new("java");
    java.arg("-cp").arg(class_path(directory)).arg("Schemas").arg(tests.join("tables.sql")).arg(&written);
    let output = java.output().context("could not run java")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = tests.join("schemas.jsonl");
    ensure!(
        fs::read_to_string(&written)? == fs::read_to_string(&expected)?,
        "Debezium has other schemas: copy {} to {}, and run the tests of kafka-sink",
        written.display(),
        expected.display()
    );
    println!("Debezium's schemas are those of the tests");
    Ok(())
}

/// Compares Debezium's records with those that bintide writes from the same log.
fn compare_with_bintide(
    server: &TestServer,
    theirs: &[Value],
    options: &[&str],
    known_difference: KnownDifference,
) -> Result<()> {
    let ours = bintide_records(server, &[&["--format", "debezium", "--schema", "ddl"], options].concat())?;
    let first = transaction(theirs.first().context("Debezium has no records")?);
    let start = ours
        .iter()
        .position(|record| transaction(record) == first)
        .context("bintide has no record of Debezium's first transaction")?;
    // Records after the last row may be missing.
    let [theirs, ours] = [theirs, &ours[start..]].map(up_to_last);
    compare(&ReferenceTool { name: "Debezium", known_difference, describe_record: transaction }, theirs, ours)
}

/// Runs Debezium and the samples, and returns Debezium's records.
fn run_debezium(directory: &Path, server: &TestServer) -> Result<Vec<Value>> {
    let engine = start_debezium(directory, &settings(server.port(), "no_data"))?;
    wait_for(&directory.join("log"), "Connected to 127.0.0.1")?;
    for script in sample_scripts()?.iter().map(String::as_str).chain([MORE_CHANGES_SQL]) {
        server.sql(script)?;
    }
    server
        .sql(&format!("CREATE TABLE judged.last (a INT); INSERT INTO judged.last VALUES ({LAST_VALUE})"))?;
    debezium_records(directory, engine)
}

/// Returns Debezium's records of the server's log from its start. The log has all definitions, so no snapshot is
/// needed.
fn read_with_debezium(directory: &Path, server: &TestServer, properties: &[&str]) -> Result<Vec<Value>> {
    let settings = [&[&*settings(server.port(), "never")], properties].concat().join("\n");
    debezium_records(directory, start_debezium(directory, &settings)?)
}

fn start_debezium(directory: &Path, settings: &str) -> Result<JavaProcess> {
    let [properties, records, log] = ["properties", "records", "log"].map(|name| directory.join(name));
    fs::write(&properties, settings)?;
    let mut java = Command::new("java");
    java.arg("-cp").arg(class_path(directory)).arg("Judge").args([&properties, &records]).arg(LAST_VALUE);
    java.stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    Ok(JavaProcess(java.spawn().context("could not run java")?))
}

/// Returns Debezium's records, once it has ended. Those of a snapshot are left out.
fn debezium_records(directory: &Path, mut engine: JavaProcess) -> Result<Vec<Value>> {
    let [records, log] = ["records", "log"].map(|name| directory.join(name));
    let status = engine.0.wait()?;
    ensure!(status.success(), "Debezium failed: see {}", log.display());
    let read = fs::read_to_string(&records)?;
    ensure!(read.contains(LAST_VALUE), "Debezium stopped before the end: see {}", log.display());
    Ok(parse_lines(&read)?
        .into_iter()
        .filter(|record| record["source"]["snapshot"].as_str().unwrap_or("false") == "false")
        .collect())
}

/// Returns the properties of Debezium on a server of this machine. `snapshot_mode` is its property of this name.
pub(super) fn settings(port: u16, snapshot_mode: &str) -> String {
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
        &format!("snapshot.mode={snapshot_mode}"),
        "provide.transaction.metadata=true",
        "key.converter.schemas.enable=false",
        "value.converter.schemas.enable=false",
        "tombstones.on.delete=false",
    ];
    lines.join("\n")
}

/// Returns the records up to the last row.
fn up_to_last(records: &[Value]) -> &[Value] {
    let is_last = |record: &Value| record["after"].to_string().contains(LAST_VALUE);
    records.iter().position(is_last).map_or(records, |last| &records[..=last])
}

/// Returns the transaction of a record.
fn transaction(record: &Value) -> String {
    let id = record.get("id").unwrap_or(&record["source"]["gtid"]);
    id.as_str().unwrap_or_default().to_owned()
}

/// Returns the reason for a known difference, if Debezium has read the log from its start.
fn known_difference_without_snapshot(path: &str, theirs: &Value, ours: &Value) -> Option<&'static str> {
    match path.rsplit('.').next() {
        Some("charsetName" | "defaultCharsetName")
            if path.starts_with(".tableChanges") && theirs.is_null() && ours == "utf8mb4" =>
        {
            Some("the server's character set, which Debezium reads only in a snapshot")
        }
        _ => known_difference(path, theirs, ours),
    }
}

/// Returns the reason for a known difference of two values.
fn known_difference(path: &str, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let column = path.rsplit('.').next().unwrap_or_default();
    let documents =
        || [theirs, ours].map(|text| serde_json::from_str::<Value>(text.as_str().unwrap_or("?")).ok());
    Some(match path {
        ".ts_ms" | ".ts_us" | ".ts_ns" => "times of writing",
        ".resume" => "resume, which only bintide writes",
        ".source.version" => "the program's version",
        ".source.row" | ".ddl" => "definitions: rewritten statements, numbers of rows before",
        ".source.table" if *theirs == "" => "definitions of indexes: their table",
        _ if column == "primaryKeyColumnNames" && *ours == Value::Array(Vec::new()) => {
            "tables without a primary key: another one in its place"
        }
        _ if column == "defaultValueExpression" && text(theirs) == text(ours).replace('\'', "\'\'") => {
            "default values: doubled quotes"
        }
        _ if column == "defaultCharsetName" && *theirs == "latin2" && *ours == "koi8r" => {
            "ALTER TABLE … DEFAULT CHARACTER SET, which Debezium ignores"
        }
        _ if path.starts_with(".tableChanges") && is_conversion_to_binary(theirs, ours) => {
            "texts that were converted to binary: the server's types of them"
        }
        _ if theirs.is_boolean() && column == "truth" => "BOOL, which is TINYINT in the log",
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

/// Returns whether the values differ as after CONVERT TO CHARACTER SET binary: names of types, their numbers, and the
/// character set.
fn is_conversion_to_binary(theirs: &Value, ours: &Value) -> bool {
    let pairs = [
        (json!("VARCHAR"), json!("VARBINARY")),
        (json!("TEXT"), json!("BLOB")),
        (json!("CHAR"), json!("BINARY")),
        (json!(12), json!(-3)),
        (json!(12), json!(2004)),
        (json!(1), json!(-2)),
        (json!("binary"), Value::Null),
    ];
    pairs.iter().any(|(text, bytes)| (text, bytes) == (theirs, ours))
}
