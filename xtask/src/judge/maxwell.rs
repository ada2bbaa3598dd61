//! Runs Maxwell, and lists its known differences.
//!
//! The last version in the registry is of 2019. It uses the old name of a statement, and cannot request the server's
//! password key. `bench/maxwell` adds both. The decoding of the log is unchanged.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;
use testkit::{Launch, TestServer};

use super::compare::{ReferenceTool, compare, same_float, text};
use super::{
    JavaProcess, LAST_VALUE, bintide_records, class_path, fetch_jars, parse_lines, sample_scripts, wait_for,
    wait_for_end,
};

/// Kinds of changes that the samples do not have. They are not compressed, because Maxwell silently ignores compressed
/// transactions.
const MORE_CHANGES_SQL: &str = "
    CREATE DATABASE judged; USE judged;
    CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(10)); CREATE TABLE without_key (a INT);
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO without_key VALUES (1);
    DELETE FROM t; COMMIT;
    BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET b = 'c'; DELETE FROM t WHERE id = 1; COMMIT;
    ALTER TABLE t ADD COLUMN more DECIMAL(10, 2) UNSIGNED NOT NULL DEFAULT 7.5;
    INSERT INTO t VALUES (9, 'z', 1.25);";

/// Runs Maxwell and bintide, compares the records, and prints the differences.
pub(super) fn judge(directory: &Path) -> Result<()> {
    fetch_jars(
        directory,
        "maxwell",
        &["Renamed.java", "AuthenticateCommand.java", "ScriptObjectMirror.java"],
    )?;
    let server = Launch::mysql().start()?;
    server.sql("CREATE USER judge@'%' IDENTIFIED BY ''; GRANT ALL ON *.* TO judge@'%'")?;
    let theirs = run_maxwell(directory, &server)?;
    let ours =
        bintide_records(&server, &["--format", "maxwell", "--schema", "ddl", "--ignore-db", "maxwell"])?;
    let first = describe_record(theirs.first().context("Maxwell has no records")?);
    let start = ours
        .iter()
        .position(|record| describe_record(record) == first)
        .context("bintide has no record like Maxwell's first")?;
    compare(&ReferenceTool { name: "Maxwell", known_difference, describe_record }, &theirs, &ours[start..])
}

/// Runs Maxwell and the samples, and returns Maxwell's records.
fn run_maxwell(directory: &Path, server: &TestServer) -> Result<Vec<Value>> {
    let (records, log) = (directory.join("records"), directory.join("log"));
    fs::write(&records, "")?;
    let mut java = Command::new("java");
    java.arg("-cp")
        .arg(class_path(directory))
        .arg("com.zendesk.maxwell.Maxwell")
        .args(arguments(server.port()));
    java.arg("--output_file").arg(&records).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    let mut engine = JavaProcess(java.spawn().context("could not run java")?);
    wait_for(&log, "Binlog connected")?;
    for script in scripts()? {
        server.sql(&script)?;
    }
    server
        .sql(&format!("CREATE TABLE judged.last (a INT); INSERT INTO judged.last VALUES ({LAST_VALUE})"))?;
    wait_for_end(&mut engine, &records, &log)?;
    parse_lines(&quote_long_numbers(&fs::read_to_string(&records)?))
}

/// Quotes numbers of hundreds of digits, which Maxwell writes for documents: the JSON parser would refuse them as out
/// of range.
fn quote_long_numbers(records: &str) -> String {
    /// Length of the longest number that is not quoted.
    const SIZE_MAX: usize = 100;
    let (mut text, mut number) = (String::with_capacity(records.len()), String::new());
    let (mut is_inside, mut is_escaped) = (false, false);
    for sign in records.chars() {
        if !is_inside && matches!(sign, '0'..='9' | '-' | '+' | '.' | 'e' | 'E') {
            number.push(sign);
            continue;
        }
        let quote = if number.len() > SIZE_MAX { "\"" } else { "" };
        text.extend([quote, &number, quote]);
        number.clear();
        is_inside ^= sign == '"' && !is_escaped;
        is_escaped = is_inside && sign == '\\' && !is_escaped;
        text.push(sign);
    }
    text
}

/// Returns the scripts to run, without the parts that stop Maxwell: invisible columns, and documents with gaps after
/// removed parts.
fn scripts() -> Result<[String; 3]> {
    let [types, json] = sample_scripts()?;
    let (types, more) = (types.replace(" INVISIBLE", ""), MORE_CHANGES_SQL.to_owned());
    let gaps =
        json.find("UPDATE changes SET doc = JSON_REMOVE").context("json.sql removes parts of documents")?;
    Ok([types, json[..gaps].to_owned(), more])
}

fn arguments(port: u16) -> Vec<String> {
    let port = format!("--port={port}");
    let arguments = [
        "--host=127.0.0.1",
        &port,
        "--user=judge",
        "--jdbc_options=queryInterceptors=Renamed&allowPublicKeyRetrieval=true",
        "--replica_server_id=9988",
        "--gtid_mode=true",
        "--filter=exclude: maxwell.*",
        "--producer=file",
        "--output_binlog_position=true",
        "--output_gtid_position=true",
        "--output_commit_info=true",
        "--output_xoffset=true",
        "--output_server_id=true",
        "--output_thread_id=true",
        "--output_ddl=true",
    ];
    arguments.map(str::to_owned).to_vec()
}

/// Returns a description of the record.
fn describe_record(record: &Value) -> String {
    format!("{} {}", text(&record["type"]), text(&record["position"]))
}

/// Returns the reason for a known difference of two values.
fn known_difference(path: &str, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let column = path.rsplit('.').next().unwrap_or_default();
    let [their, our] = [theirs, ours].map(text);
    let number = |value: &Value| value.as_f64().or_else(|| text(value).parse().ok());
    Some(match path {
        ".resume" => "resume, which only bintide writes",
        ".def" | ".old" | ".charset" if *ours == "(absent)" => {
            "definitions: tables as objects, character sets of databases"
        }
        _ if same_float(theirs, ours) => "FLOAT: digits of the same number, or widened",
        _ if column == "doc" && number(theirs).is_some() && number(theirs) == number(ours) => {
            "numbers of hundreds of digits in documents"
        }
        _ if column == "doc" && their.contains(":0-") && our.starts_with('-') => {
            "negative times in documents"
        }
        _ if column == "y" && *theirs == 1900 && *ours == 0 => "YEAR 0000",
        _ if is_time(column) && !fits_a_day(our) => "times outside a day, which Maxwell does not support",
        _ if their.starts_with("0000-00-00") && has_zeros(our) => "invalid dates",
        _ if column.starts_with('b') && ours.as_u64() > Some(i32::MAX as u64) && theirs.is_i64() => {
            "BIT of more than 31 bits"
        }
        _ if our.ends_with(['A', '=']) && our.starts_with(their.trim_end_matches('=')) => {
            "BINARY: zeros at the end"
        }
        _ if column == "e" && (our.replace('\'', "\'\'") == their || our.is_empty() && theirs.is_null()) => {
            "ENUM: texts with quotes, or empty"
        }
        _ => return None,
    })
}

/// Returns whether the column has the type TIME.
fn is_time(column: &str) -> bool {
    column.strip_prefix('t').is_some_and(|digits| digits.is_empty() || digits.parse::<u8>().is_ok())
}

fn fits_a_day(time: &str) -> bool {
    time.split(':').next().and_then(|hours| hours.parse::<u8>().ok()).is_some_and(|hours| hours < 24)
}

/// Returns whether the year, the month or the day is 0.
fn has_zeros(date: &str) -> bool {
    let day = date.split(' ').next().unwrap_or_default();
    day.split('-').any(|part| part.parse() == Ok(0))
}
