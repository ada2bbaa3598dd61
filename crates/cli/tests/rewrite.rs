//! `bintide compress` and `decompress`, as a user meets them.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its files has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: a process that another test starts holds our open files until it runs its program, and a log
/// that is open elsewhere is left alone.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

/// A folder with copies of samples in it.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        fs::copy(sample(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn bintide(folder: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(args).env_clear().current_dir(folder.path()).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn in_place_and_back() {
    let _alone = alone();
    let folder = folder(&["types.binlog"]);
    let log = folder.path().join("types.binlog");
    let original = fs::read(&log).unwrap();
    let made = json(&bintide(&folder, &["compress", "--verify", "--json", "types.binlog"]));
    assert_eq!(made["logs"][0]["outcome"], "written");
    assert!(fs::metadata(&log).unwrap().len() < original.len() as u64);
    let positions = fs::read_to_string(folder.path().join("positions.types.binlog")).unwrap();
    assert_eq!(positions.lines().count() as u64, made["together"]["transactions"].as_u64().unwrap());
    let again = json(&bintide(&folder, &["compress", "--json", "types.binlog"]));
    assert_eq!(
        (&again["logs"][0]["outcome"], &again["together"]["compressed"]),
        (&"unchanged".into(), &0.into())
    );
    json(&bintide(&folder, &["decompress", "--json", "types.binlog"]));
    assert!(fs::read(&log).unwrap() == original);
}

#[test]
fn a_dry_run_writes_nothing() {
    let _alone = alone();
    let folder = folder(&["types.binlog"]);
    let tried = json(&bintide(&folder, &["compress", "--dry-run", "--json", "types.binlog"]));
    assert_eq!(tried["logs"][0]["outcome"], "not written");
    assert!(tried["together"]["bytes_after"].as_u64() < tried["together"]["bytes_before"].as_u64());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_log_in_use_is_left_alone_unless_told() {
    let _alone = alone();
    let folder = folder(&["in-use.binlog"]);
    let before = fs::read(folder.path().join("in-use.binlog")).unwrap();
    let left = json(&bintide(&folder, &["compress", "--like-server", "--json", "in-use.binlog"]));
    assert_eq!(left["logs"][0]["outcome"], "in use, left alone");
    assert!(fs::read(folder.path().join("in-use.binlog")).unwrap() == before);
    let beside =
        json(&bintide(&folder, &["compress", "--like-server", "--json", "--output", "o", "in-use.binlog"]));
    assert_eq!(beside["logs"][0]["outcome"], "written");
    let there = json(&bintide(&folder, &["compress", "--json", "--output", "o", "in-use.binlog"]));
    assert_eq!(there["logs"][0]["outcome"], "there already, left alone");
    let same = json(&bintide(&folder, &["compress", "--json", "--output", ".", "in-use.binlog"]));
    assert_eq!(same["logs"][0]["outcome"], "in use, left alone");
    let twice = bintide(&folder, &["compress", "--output", "p", "in-use.binlog", "o/in-use.binlog"]);
    assert_eq!(twice.status.code(), Some(2));
    let told = json(&bintide(&folder, &["compress", "--like-server", "--live", "--json", "in-use.binlog"]));
    assert_eq!(told["logs"][0]["outcome"], "written");
}

#[test]
fn what_cannot_be_is_said_and_the_log_stays() {
    let _alone = alone();
    let folder = folder(&["mariadb.binlog", "torn.binlog"]);
    for (log, wanted) in [("mariadb.binlog", "MariaDB"), ("torn.binlog", "torn")] {
        let before = fs::read(folder.path().join(log)).unwrap();
        let output = bintide(&folder, &["compress", "--live", log]);
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(wanted) && message.lines().count() == 1, "{message}");
        assert!(fs::read(folder.path().join(log)).unwrap() == before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
    let output = bintide(&folder, &["compress", "--level", "23", "torn.binlog"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn memory_is_said_before_it_is_taken() {
    let _alone = alone();
    let folder = folder(&["types.binlog"]);
    let tight = bintide(&folder, &["compress", "--dry-run", "--memory", "10M", "types.binlog"]);
    let message = String::from_utf8_lossy(&tight.stderr).into_owned();
    assert_eq!(tight.status.code(), Some(2), "{message}");
    assert!(message.contains("1 thread may take") && message.ends_with("or a lower --level\n"), "{message}");
    let fewer =
        bintide(&folder, &["compress", "--dry-run", "--jobs", "64", "--memory", "60M", "types.binlog"]);
    let message = String::from_utf8_lossy(&fewer.stderr).into_owned();
    assert_eq!(fewer.status.code(), Some(0), "{message}");
    assert!(message.contains("threads may take"), "{message}");
    for wrong in [["--memory", "much"], ["--jobs", "0"]] {
        let output = bintide(&folder, &["compress", wrong[0], wrong[1], "types.binlog"]);
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn standard_input_is_not_offered() {
    let _alone = alone();
    let folder = folder(&[]);
    for command in ["compress", "decompress"] {
        let help = bintide(&folder, &[command, "--help"]);
        assert!(!String::from_utf8_lossy(&help.stdout).contains("standard input"), "{command}");
        assert_eq!(bintide(&folder, &[command, "-"]).status.code(), Some(2));
    }
}
