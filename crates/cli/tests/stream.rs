//! Records of `bintide stream` for the samples, resuming, and errors.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Runs `bintide stream` in the directory of the samples.
fn bintide(args: &[&str]) -> Output {
    command(args).output().expect("could not run bintide")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.arg("stream").args(args).env_clear().stdin(Stdio::null());
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    command
}

fn refused(args: &[&str], code: i32, expected: &str) {
    let output = bintide(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
}

fn records(args: &[&str]) -> Vec<serde_json::Value> {
    let output = bintide(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("not UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("not JSON")).collect()
}

#[test]
fn filters_apply_to_rows_and_definitions() {
    let args = ["--format", "maxwell", "types-full-metadata.binlog", "--do-table", "types.no_key"];
    let kinds: Vec<String> = records(&args).iter().map(|record| record["type"].to_string()).collect();
    let expected = ["database-create", "table-create", "insert", "insert", "insert", "delete", "delete"];
    assert_eq!(kinds, expected.map(|kind| format!("{kind:?}")));
}

/// MySQL 8.0.15 lists the hidden columns of functional indexes in table maps, but rows do not have them.
#[test]
fn hidden_columns_of_functional_indexes_are_left_out() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/functional-index-8.0.15.binlog");
    let log = log.to_str().unwrap();
    let rows = |format, key| {
        let told = records(&["--format", format, "--schema", "ddl", log]);
        let mut rows = told.into_iter().filter(|record| record[key].is_object());
        let row = rows.next().unwrap()[key].clone();
        assert!(rows.next().is_none());
        row
    };
    for (format, key) in [("maxwell", "data"), ("debezium", "after")] {
        assert_eq!(rows(format, key), serde_json::json!({"id": 1, "a": 2}), "{format}");
    }
    refused(&["--format", "maxwell", log], 1, "no column names for f.f");
}

#[test]
fn a_run_resumes_after_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let told = ["--format", "maxwell", "types-full-metadata.binlog"];
    let args = [&told[..], &["--out", out.to_str().unwrap()]].concat();
    let mut limited = Command::new("/bin/sh");
    limited.env_clear().current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    limited.args(["-c", "ulimit -f 8 && trap '' XFSZ && exec \"$0\" stream \"$@\""]);
    let output =
        limited.arg(env!("CARGO_BIN_EXE_bintide")).args(&args).output().expect("could not run bintide");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let expected = [
        "could not write records: ",
        "out/changes.000001.json.part: File too large (os error 27); free disk space and run the command again",
    ];
    assert!(expected.iter().all(|expected| stderr.contains(expected)), "{stderr}");

    assert_eq!(bintide(&args).status.code(), Some(0));
    let whole = bintide(&told);
    assert!(fs::read(out.join("changes.000001.json")).unwrap() == whole.stdout);
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
    refused(&["--format", "debezium", "encrypted"], 2, "give this file with --keyring");
}

#[test]
fn unsupported_input_is_refused() {
    refused(&["--format", "maxwell", "types.binlog"], 1, "no column names for types.integers");
    refused(&["--format", "maxwell", "statements.binlog"], 1, "set binlog_format=ROW on the source");
    for of_servers in ["--snapshot", "--stop-at-end", "--server-id=5"] {
        refused(&["--format", "maxwell", "types.binlog", of_servers], 2, "cannot be used with");
    }
    refused(&["--format", "maxwell", "types.binlog"], 1, "--schema=ddl");
    assert!(
        !records(&["--format", "maxwell", "--skip-statements", "--columns=numbered", "statements.binlog"])
            .is_empty()
    );
    refused(&["--format", "maxwell", "torn.binlog", "--columns=numbered"], 1, "is torn at");
    refused(&["--format", "maxwell", "incident", "--columns=numbered"], 1, "read its tables again");
    let resume = ["--format", "maxwell", "rotation", "--resume", "binlog.999999:4"];
    refused(&resume, 2, "the resume position is in binlog.999999");
    refused(&["--format", "maxwell", "rotation", "--resume", "here"], 2, "is not a resume position");
    let empty = ["--format", "maxwell", "rotation", "--out", "nowhere", "--file-size", "0"];
    refused(&empty, 2, "expected a size of at least one byte");
}

#[test]
fn a_run_resumes_where_the_last_one_ended() {
    let directory = tempfile::tempdir().unwrap();
    let progress = directory.path().join("progress").display().to_string();
    let args = ["--format", "debezium", "--columns", "numbered", "rotation", "--progress", &progress];
    let all = records(&args);
    let last = all.last().expect("no record")["resume"].as_str().expect("no resume point").to_owned();
    assert_eq!(fs::read_to_string(&progress).unwrap(), format!("{last}\n"));
    assert_eq!(records(&args), Vec::<serde_json::Value>::new());
    // Resume by hand after the third transaction.
    let ends: Vec<&serde_json::Value> = all.iter().filter(|record| record.get("resume").is_some()).collect();
    let third = ends[2]["resume"].as_str().expect("no resume point");
    let rest = records(&["--format", "debezium", "--columns", "numbered", "rotation", "--resume", third]);
    let again = rest.iter().filter_map(|record| record.get("resume")).count();
    assert_eq!(again, ends.len() - 3);
}

/// Returns records without their time of writing.
fn timeless(text: &[u8]) -> Vec<serde_json::Value> {
    let mut records: Vec<serde_json::Value> =
        String::from_utf8_lossy(text).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in records.iter_mut().filter(|record| record.get("source").is_some()) {
        for name in ["ts_ms", "ts_us", "ts_ns"] {
            record.as_object_mut().unwrap().remove(name);
        }
    }
    records
}

/// Positions are those of the source, and runs resume there.
#[test]
fn a_run_resumes_in_a_log_compressed_in_place() {
    let samples =
        ["types-full-metadata", "types-no-checksum", "mixed-engines", "triggers", "json-partial-compressed"];
    for (sample, form) in samples.into_iter().flat_map(|sample| [(sample, "debezium"), (sample, "maxwell")]) {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("binlog.000001");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../samples/{sample}.binlog")), &log)
            .unwrap();
        let args = ["--format", form, "--columns=numbered", log.to_str().unwrap()];
        let run = |more: &[&str]| {
            let output = bintide(&[&args[..], more].concat());
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            timeless(&output.stdout)
        };
        let (all, size) = (run(&[]), fs::metadata(&log).unwrap().len());
        let mut compress = Command::new(env!("CARGO_BIN_EXE_bintide"));
        let compress = compress.args(["compress", "-q"]).arg(&log).env_clear().output().unwrap();
        assert!(compress.status.success(), "{}", String::from_utf8_lossy(&compress.stderr));
        let is_plain = !sample.contains("compressed");
        assert_eq!(fs::metadata(&log).unwrap().len() < size, is_plain, "{sample}");
        assert_eq!(run(&[]), all, "{sample} {form}");
        let tokens: Vec<&str> = all.iter().filter_map(|record| record["resume"].as_str()).collect();
        assert!(tokens.len() > 5);
        for token in tokens.iter().step_by(7).chain(tokens.last()) {
            let rest = run(&["--resume", token]);
            assert_eq!(rest, all[all.len() - rest.len()..], "{sample} {form} {token}");
            let before = all.len().checked_sub(rest.len() + 1).map(|last| &all[last]["resume"]);
            assert_eq!(before.and_then(|resume| resume.as_str()), Some(*token));
        }
        let (coordinates, _) = tokens[3].split_once(',').unwrap_or((tokens[3], ""));
        let (name, position) = coordinates.rsplit_once(':').unwrap();
        let within = format!("{name}:{}", position.parse::<u64>().unwrap() + 30);
        refused(&[&args[..], &["--resume", &within]].concat(), 1, "no transaction ends there");
    }
}

/// A run does not read events again that are far before the position where it resumes.
#[test]
fn a_run_resumes_without_reading_earlier_events() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("large.binlog");
    let mut bytes =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/large.binlog")).unwrap();
    fs::write(&log, &bytes).unwrap();
    let args = ["--format", "maxwell", "--columns=numbered", log.to_str().unwrap()];
    let all = records(&args);
    let last = all.iter().filter_map(|record| record["resume"].as_str()).nth_back(1).unwrap();
    let rest = records(&[&args[..], &["--resume", last]].concat());
    assert!(!rest.is_empty() && all.ends_with(&rest));
    // Damages an event near the start.
    let format = u32::from_le_bytes(bytes[13..17].try_into().unwrap()) as usize;
    bytes[format + 9..format + 13].fill(0);
    fs::write(&log, &bytes).unwrap();
    refused(&args, 1, "large.binlog at 127: byte 27: checksum is");
    assert_eq!(records(&[&args[..], &["--resume", last]].concat()), rest);
}

#[test]
fn files_end_between_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let args =
        ["--format", "maxwell", "--columns", "numbered", "types.binlog", "--out", out.to_str().unwrap()];
    let all = bintide(&args[..5]).stdout;
    let sized = [&args[..], &["--file-size", "20000"]].concat();
    assert_eq!(records(&sized), Vec::<serde_json::Value>::new());
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let (files, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(others, [out.join("bintide-stream.lock"), out.join("progress")]);
    assert!(files.len() > 2);
    let joined: Vec<u8> = files.iter().flat_map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(joined, all);
    assert_eq!(records(&sized), Vec::<serde_json::Value>::new());
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child =
        command(&["--format", "debezium", "--columns", "numbered", "types.binlog", "json.binlog"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

/// Runs until the reader has taken this number of bytes and closed the pipe. Returns these bytes.
fn taken(args: &[&str], bytes: u64) -> Vec<u8> {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut taken = Vec::new();
    child.stdout.take().expect("no pipe").take(bytes).read_to_end(&mut taken).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    taken
}

/// Records still in the pipe when the reader closes it count as not taken.
#[test]
fn records_not_taken_are_repeated() {
    let few = &["rotation"][..];
    let many = &["types.binlog", "types-no-checksum.binlog", "types-small-events.binlog"];
    for (logs, bytes) in [(few, 1), (few, 9_000), (many, 1), (many, 9_000), (many, 70_000), (many, 300_000)] {
        let directory = tempfile::tempdir().unwrap();
        let progress = directory.path().join("progress").display().to_string();
        let args = [&["--format", "debezium", "--columns=numbered"], logs].concat();
        let all = timeless(&bintide(&args).stdout);
        let args = [&args[..], &["--progress", &progress]].concat();
        let first = taken(&args, bytes);
        let whole = first.iter().filter(|byte| **byte == b'\n').count();
        let rest = timeless(&bintide(&args).stdout);
        let passed = all.len() - rest.len();
        assert_eq!(rest, all[passed..], "{logs:?} {bytes}");
        assert!(passed <= whole, "{passed} of {whole} taken records, {logs:?} {bytes}");
        assert!(passed > 0 || bytes < 100_000, "no progress was saved, {logs:?} {bytes}");
        assert_eq!(records(&args), Vec::<serde_json::Value>::new());
    }
}

/// Non-blocking pipes, as some programs give their children.
#[test]
fn a_non_blocking_pipe_is_waited_for() {
    let args = ["--format", "debezium", "--columns", "numbered", "types.binlog"];
    let expected = bintide(&args).stdout;
    assert!(expected.len() > 1 << 17, "the output fits into a pipe");
    let (mut reader, writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut child = command(&args).stdout(writer).spawn().unwrap();
    while child.try_wait().unwrap().is_none() && rustix::io::ioctl_fionread(&reader).unwrap() < 1 << 16 {
        thread::sleep(Duration::from_millis(5));
    }
    // Enough time for another attempt.
    thread::sleep(Duration::from_millis(100));
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    assert!(child.wait().unwrap().success() && timeless(&told) == timeless(&expected));
}

/// Definitions give the same names as the metadata of the same log.
#[test]
fn definitions_in_the_log_name_its_columns() {
    let rows = |args: &[&str]| -> Vec<serde_json::Value> {
        let told = |record: serde_json::Value| {
            let parts = ["table", "type", "op", "data", "old", "before", "after"];
            let told: serde_json::Map<_, _> = parts
                .iter()
                .filter_map(|part| Some(((*part).to_owned(), record.get(*part)?.clone())))
                .collect();
            (record.get("data").is_some() || record.get("op").is_some()).then_some(told.into())
        };
        records(args).into_iter().filter_map(told).collect()
    };
    for name in ["types", "charsets", "invisible-keys"] {
        for form in ["debezium", "maxwell"] {
            let (plain, full) = (format!("{name}.binlog"), format!("{name}-full-metadata.binlog"));
            let told = rows(&["--format", form, "--schema", "ddl", &plain]);
            assert!(told.len() > 4);
            for (told, expected) in told.iter().zip(rows(&["--format", form, &full])) {
                assert_eq!(*told, expected, "{name} {form}");
            }
        }
    }
    refused(
        &["--format", "maxwell", "--schema", "ddl", "mariadb-compressed.binlog", "--resume", "x.000001:4"],
        2,
        "which is not among the logs",
    );
}

/// Definitions before a position are known after it: from saved definitions, or from the logs. Records equal those
/// of Debezium (`cargo xtask judge`).
#[test]
fn definitions_list_table_columns() {
    let args = ["--format", "debezium", "--schema", "ddl", "--do-table=types.no_key", "types.binlog"];
    let column = serde_json::json!({
        "name": "a", "jdbcType": 4, "nativeType": null, "typeName": "INT", "typeExpression": "INT",
        "charsetName": null, "length": null, "scale": null, "position": 1, "optional": true,
        "autoIncremented": false, "generated": false, "comment": null, "defaultValueExpression": null,
        "enumValues": null,
    });
    let expected = serde_json::json!([{"type": "CREATE", "id": "\"types\".\"no_key\"", "table": {
        "defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": [], "columns": [column], "comment": null,
    }}]);
    let told = records(&args);
    let changes: Vec<_> = told.iter().filter_map(|record| record.get("tableChanges")).collect();
    assert_eq!(changes, [&serde_json::json!([]), &expected]);
}

#[test]
fn definitions_are_known_after_resuming() {
    let directory = tempfile::tempdir().unwrap();
    let progress = directory.path().join("progress");
    let whole = records(&["--format", "maxwell", "--schema", "ddl", "types.binlog"]);
    let ends: Vec<&str> = whole.iter().filter_map(|record| record["resume"].as_str()).collect();
    let token = ends[ends.len() / 2];
    let record_count = |args: &[&str]| {
        let told = records(&[&["--format", "maxwell", "--schema", "ddl", "types.binlog"], args].concat());
        assert_eq!(told, whole[whole.len() - told.len()..], "{args:?}");
        told.len()
    };
    let count = record_count(&["--resume", token]);
    assert!(count > 10 && count < whole.len() - 10);
    let path = progress.to_str().unwrap();
    assert_eq!(record_count(&["--progress", path]), whole.len());
    let saved = fs::read_to_string(&progress).unwrap();
    let number = saved.lines().find_map(|line| line.strip_prefix("schema ")).expect("no file of definitions");
    let definitions = directory.path().join(format!("progress.schema.{number}"));
    assert!(
        fs::read_to_string(&definitions)
            .unwrap()
            .contains("CREATE TABLE `types`.`integers` (`id` int NOT NULL")
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    // State after a run that was interrupted at this point.
    fs::write(&progress, format!("{token}\nschema {number}\n")).unwrap();
    assert_eq!(record_count(&["--progress", path]), count);
    fs::remove_file(definitions).unwrap();
    fs::write(&progress, format!("{token}\nschema {number}\n")).unwrap();
    refused(
        &["--format", "maxwell", "--schema", "ddl", "types.binlog", "--progress", path],
        2,
        "could not read the table definitions saved with the progress",
    );
}

/// A run that cannot resume fails before it writes anything, and created files are private.
#[test]
fn unwritable_and_mismatched_outputs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let args = ["--format", "maxwell", "--columns", "numbered", "types.binlog"];
    let nowhere = path("nowhere/progress");
    let to_nowhere = [&args[..], &["--progress", &nowhere]].concat();
    refused(&to_nowhere, 2, "could not lock the progress file");
    refused(&to_nowhere, 2, "nowhere/progress: No such file");
    assert_eq!(String::from_utf8_lossy(&bintide(&to_nowhere).stdout), "");
    let out = path("out");
    assert!(records(&[&args[..], &["--out", &out, "--file-size", "20000"]].concat()).is_empty());
    for entry in fs::read_dir(&out).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        // The umask may remove further permissions.
        assert_eq!(mode & 0o137, 0, "{entry:?} {mode:o}");
    }
    refused(
        &["--format", "debezium", "--columns", "numbered", "types.binlog", "--out", &out],
        2,
        "have the format maxwell, not debezium: give --format=maxwell, or an empty directory",
    );
}

/// Returns a log with one transaction of 17 MB: more than is buffered in memory.
fn large_transaction() -> Vec<u8> {
    let event = |event_type: u8, body: &[u8]| {
        let size = (19 + body.len()) as u32;
        [&[0; 4][..], &[event_type, 1, 0, 0, 0], &size.to_le_bytes(), &[0; 6], body].concat()
    };
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types-no-checksum.binlog");
    let types = fs::read(sample).unwrap();
    let format_size = u32::from_le_bytes(*types[13..].first_chunk().unwrap()) as usize;
    let mut log = types[..4 + format_size].to_vec();
    log.extend(event(2, &[&[0; 14][..], b"BEGIN"].concat()));
    log.extend(event(19, &[71, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 1, 1, 0, 1]));
    let rows = [&[71, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1][..], &[0; 1 << 20]].concat();
    (0..17).for_each(|_| log.extend(event(30, &rows)));
    log
}

#[test]
fn an_unusable_directory_of_temporary_files_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.binlog");
    fs::write(&path, large_transaction()).unwrap();
    let args = ["--format", "maxwell", "--columns", "numbered", path.to_str().unwrap()];
    let output = command(&args).env("TMPDIR", "/nonexistent").output().unwrap();
    let expected = "bintide: could not write records: temporary file in /nonexistent: No such file or directory \
                    (os error 2); set TMPDIR to a directory that exists and can be written\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}
