//! What `bintide stream` writes of the samples, where it goes on, and how it ends.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `bintide stream` among the samples.
fn bintide(args: &[&str]) -> Output {
    command(args).output().expect("run bintide")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.arg("stream").args(args).env_clear().stdin(Stdio::null());
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    command
}

fn refused(args: &[&str], code: i32, wanted: &str) {
    let output = bintide(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(wanted), "{args:?}: {stderr}");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
}

fn records(args: &[&str]) -> Vec<serde_json::Value> {
    let output = bintide(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn filters_are_on_rows_and_definitions() {
    let args = ["--format", "maxwell", "types-full-metadata.binlog", "--do-table", "types.no_key"];
    let kinds: Vec<String> = records(&args).iter().map(|record| record["type"].to_string()).collect();
    let wanted = ["database-create", "table-create", "insert", "insert", "insert", "delete", "delete"];
    assert_eq!(kinds, wanted.map(|kind| format!("{kind:?}")));
}

#[test]
fn stores_and_encrypted_logs() {
    let gtids = |store: &str, keyring: &[&str]| -> Vec<String> {
        let args = [&["--format", "debezium", "--columns", "numbered", store], keyring].concat();
        let records = records(&args);
        records
            .iter()
            .filter_map(|record| record["status"].as_str().zip(record["id"].as_str()))
            .map(|(status, id)| format!("{status} {id}"))
            .collect()
    };
    assert!(gtids("gtids", &[]).len() > 10);
    assert_eq!(gtids("gtids", &[]), gtids("gtids-compressed", &[]));
    let keyring = ["--keyring", "encrypted/keyring"];
    assert!(!gtids("encrypted", &keyring).is_empty());
    refused(&["--format", "debezium", "encrypted"], 2, "give it with --keyring");
}

#[test]
fn what_cannot_be_told_is_said() {
    refused(
        &["--format", "maxwell", "types.binlog"],
        1,
        "types.integers are called: set binlog_row_metadata=FULL",
    );
    refused(&["--format", "maxwell", "statements.binlog"], 1, "set binlog_format=ROW on the source");
    assert!(
        !records(&["--format", "maxwell", "--skip-statements", "--columns=numbered", "statements.binlog"])
            .is_empty()
    );
    refused(&["--format", "maxwell", "torn.binlog", "--columns=numbered"], 1, "is torn at");
    refused(&["--format", "maxwell", "incident", "--columns=numbered"], 1, "read its tables anew");
    let resume = ["--format", "maxwell", "rotation", "--resume", "binlog.999999:4"];
    refused(&resume, 2, "binlog.999999, which is not among the logs given");
    refused(&["--format", "maxwell", "rotation", "--resume", "here"], 2, "is no place to resume at");
}

#[test]
fn a_run_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("progress").display().to_string();
    let args = ["--format", "debezium", "--columns", "numbered", "rotation", "--progress", &progress];
    let all = records(&args);
    let last = all.last().expect("a record")["resume"].as_str().expect("a place").to_owned();
    assert_eq!(fs::read_to_string(&progress).unwrap(), format!("{last}\n"));
    assert_eq!(records(&args), Vec::<serde_json::Value>::new());
    // By hand, behind the third transaction.
    let ends: Vec<&serde_json::Value> = all.iter().filter(|record| record.get("resume").is_some()).collect();
    let third = ends[2]["resume"].as_str().expect("a place");
    let rest = records(&["--format", "debezium", "--columns", "numbered", "rotation", "--resume", third]);
    let again = rest.iter().filter_map(|record| record.get("resume")).count();
    assert_eq!(again, ends.len() - 3);
}

#[test]
fn files_end_between_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let args =
        ["--format", "maxwell", "--columns", "numbered", "types.binlog", "--out", out.to_str().unwrap()];
    let all = bintide(&args[..5]).stdout;
    let sized = [&args[..], &["--file-size", "20000"]].concat();
    assert_eq!(records(&sized), Vec::<serde_json::Value>::new());
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let (files, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(others, [out.join("bintide.lock"), out.join("progress")]);
    assert!(files.len() > 2);
    let joined: Vec<u8> = files.iter().flat_map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(joined, all);
    assert_eq!(records(&sized), Vec::<serde_json::Value>::new());
}

#[test]
fn a_reader_that_had_enough_is_no_failure() {
    let mut child =
        command(&["--format", "debezium", "--columns", "numbered", "types.binlog", "json.binlog"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
