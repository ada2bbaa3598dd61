//! `bintide advise` as a command.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its files has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
}

fn bintide(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bintide"))
        .args(args)
        .env_clear()
        .current_dir(samples())
        .output()
        .unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = bintide(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the bytes that `compress` writes, and the files' uncompressed sizes if they were compressed before.
fn compressed_size(log: &str, level: &str) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().to_str().unwrap();
    let args = [
        "compress",
        "--like-server",
        "--recompress",
        "--jobs",
        "1",
        "--level",
        level,
        "--output",
        target,
        log,
    ];
    let output = bintide(&args);
    assert_eq!(output.status.code(), Some(0), "{log}: {}", String::from_utf8_lossy(&output.stderr));
    fs::metadata(directory.path().join(Path::new(log).file_name().unwrap())).unwrap().len()
}

#[test]
fn full_measurements_equal_compress() {
    let logs = [
        "large.binlog",
        "types.binlog",
        "types-no-checksum.binlog",
        "types-compressed.binlog",
        "gtids/binlog.000001",
        "gtids-compressed/binlog.000001",
        "xa.binlog",
        "mixed-engines.binlog",
        "savepoints-compressed.binlog",
        "json-large.binlog",
        "anonymous-direct.binlog",
        "ddl.binlog",
    ];
    for log in logs {
        let report = json(&["advise", "--all", "--json", "--levels", "1,3,12", log]);
        assert_eq!(report["sample"]["is_complete"], true, "{log}");
        for level in report["levels"].as_array().unwrap() {
            let name = level["level"].to_string();
            let expected = compressed_size(log, &name);
            let bytes = &level["bytes"];
            let found = ["value", "low", "high"].map(|one| bytes[one].as_u64().unwrap());
            assert_eq!(found, [expected; 3], "{log} at level {name}");
        }
    }
}

#[test]
fn complete_samples_equal_full_measurements() {
    for log in ["types.binlog", "types-compressed.binlog", "relay", "gtids", "gtids-compressed"] {
        let sizes = |args: &[&str]| {
            let report = json(&[&["advise", "--json", "--levels", "1,3", log], args].concat());
            let levels = report["levels"].as_array().unwrap().clone();
            (levels.iter().map(|level| level["bytes"].clone()).collect::<Vec<_>>(), report)
        };
        let (all, whole) = sizes(&["--all"]);
        let (sampled, report) = sizes(&["--time", "600"]);
        assert_eq!(sampled, all, "{log}");
        for member in ["totals", "refused", "found"] {
            assert_eq!(report[member], whole[member], "{log}: {member}");
        }
    }
}

#[test]
fn compression_levels_are_recognised() {
    let report = json(&["advise", "--all", "--json", "--levels", "3", "types-compressed.binlog"]);
    let levels = report["found"]["levels"].as_array().unwrap();
    assert!(levels.contains(&3.into()), "{report:#}");
    assert_eq!(report["advice"]["verdict"], "keep");
}

#[test]
fn unsupported_logs_are_refused() {
    let output = bintide(&["advise", "mariadb.binlog"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("mariadb.binlog") && said.contains("MariaDB"), "{said}");
    let output = bintide(&["advise", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let output = bintide(&["advise", "--levels", "23", "types.binlog"]);
    assert_eq!(output.status.code(), Some(2));
    let output = bintide(&["advise", "nowhere.binlog"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn logs_of_statements_have_no_gain() {
    let output = bintide(&["advise", "statements.binlog"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("Nothing to gain") && text.contains("changes in statement format, or none"),
        "{text}"
    );
}

#[test]
fn the_same_seed_selects_the_same_sample() {
    let sizes = |seed: &str| {
        let args =
            ["advise", "--json", "--levels", "3", "--sample", "300000", "--seed", seed, "large.binlog"];
        let report = json(&args);
        (report["levels"][0]["bytes"].clone(), report["sample"]["bytes_measured"].clone())
    };
    assert_eq!(sizes("5"), sizes("5"));
}

#[test]
fn samples_have_units_and_are_not_empty() {
    let measured = |size: &str| {
        let report = json(&["advise", "--json", "--levels", "3", "--sample", size, "large.binlog"]);
        report["sample"]["bytes_measured"].clone()
    };
    assert_eq!(measured("300k"), measured("300000"));
    for size in ["0", "0M", "many"] {
        let output = bintide(&["advise", "--sample", size, "large.binlog"]);
        assert_eq!(output.status.code(), Some(2), "{size}");
    }
}

#[test]
fn encrypted_logs_need_a_key() {
    let output = bintide(&["advise", "encrypted/binlog.000001"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--keyring"));
    let keyring = fs::read_dir(samples().join("encrypted")).unwrap();
    let keyring = keyring
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("keyring")));
    let keyring = keyring.unwrap();
    let log = "encrypted/binlog.000001";
    let report =
        json(&["advise", "--all", "--json", "--levels", "3", "--keyring", keyring.to_str().unwrap(), log]);
    assert_eq!(report["logs"][0]["is_encrypted"], true);
    let size = fs::metadata(samples().join(log)).unwrap().len();
    assert_eq!(report["totals"]["bytes"], size);
    assert_eq!(report["totals"]["bytes_plain"]["value"], size);
}

/// Returns the words of a text, without numbers and units: each run measures other times.
fn words(text: &str) -> String {
    let bare =
        text.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
    let is_word = |word: &&str| {
        let is_number = word.contains(|letter: char| letter.is_ascii_digit());
        !word.is_empty() && !is_number && !["s", "ms", "µs", "ns"].contains(word)
    };
    bare.filter(is_word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_has_no_external_parts_and_shows_the_report() {
    let args = ["advise", "--all", "--levels", "1,3", "large.binlog", "types-compressed.binlog"];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("advice.html");
    // From one run, because another run measures other times.
    let report = json(&[&args[..], &["--json", "--html", path.to_str().unwrap()]].concat());
    let page = fs::read_to_string(&path).unwrap();
    let refused = bintide(&[&args[..], &["--json", "--html", "-"]].concat());
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let text = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let shown = words(&text.collect::<Vec<_>>().join(" "));
    for expected in ["headline", "reasons"].map(|name| &report["advice"][name]) {
        for sentence in expected.as_array().unwrap_or(&vec![expected.clone()]) {
            let said = words(sentence.as_str().unwrap());
            assert!(said.split(' ').count() > 3 && shown.contains(&said), "{said}");
        }
    }
    let tables = report["tables"].as_array().unwrap();
    for table in tables.iter().take(20) {
        let name = format!("{}.{}", table["database"].as_str().unwrap(), table["table"].as_str().unwrap());
        assert!(page.contains(&name), "{name}");
    }
    assert!(page.contains(">level 1</text>") && page.contains(">level 3</text>"));
    // Savings have no sign in tables and on the page, unless the size grows.
    let saved = report["levels"][0]["saved_share"].as_f64().unwrap();
    assert!(saved > 0.0 && page.contains(&format!("(saved {:.1} %)", saved * 100.0)));
}

#[test]
fn a_file_without_events_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty.binlog", &b""[..]), ("start.binlog", b"\xfebin\0")] {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let output = bintide(&["advise", path]);
        let expected = format!(
            "bintide: {path} has no events; it is empty or torn at its start: omit it, or give the complete log\n"
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
}
