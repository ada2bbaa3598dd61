//! `bintide compress` and `decompress` as commands.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its files has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Instant;

/// Runs one test at a time. A process that another test starts inherits our open files until exec, and logs that
/// are open in another process are skipped.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

/// Returns a directory with copies of samples.
fn directory(names: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        fs::copy(sample(name), directory.path().join(name)).unwrap();
    }
    directory
}

fn bintide(directory: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
    command.args(args).env_clear().current_dir(directory.path()).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn compressed_mariadb_events_stay_compressed_with_a_warning() {
    let _alone = alone();
    let directory = directory(&["mariadb-compressed.binlog", "types-compressed.binlog"]);
    let before = fs::read(directory.path().join("mariadb-compressed.binlog")).unwrap();
    let made = bintide(&directory, &["decompress", "mariadb-compressed.binlog", "types-compressed.binlog"]);
    let said = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(0), "{said}");
    let expected = "mariadb-compressed.binlog is a MariaDB log: its compressed events stay compressed";
    assert_eq!(said.matches("MariaDB").count(), 1, "{said}");
    assert!(said.contains(expected), "{said}");
    assert_eq!(fs::read(directory.path().join("mariadb-compressed.binlog")).unwrap(), before);
}

#[test]
fn no_log_is_replaced_if_one_cannot_be_read() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let encrypted = fs::read_dir(sample("encrypted")).unwrap().map(|entry| entry.unwrap().path());
    let encrypted = encrypted.filter(|path| path.to_str().unwrap().contains(".0")).min().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::rename(path("types.binlog"), path("binlog.000001")).unwrap();
    let before = fs::read(path("binlog.000001")).unwrap();
    fs::write(path("binlog.index"), "./binlog.000001\n./binlog.000002\n").unwrap();
    let check = |args: &[&str], expected: &str| {
        let output = bintide(&directory, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(fs::read(path("binlog.000001")).unwrap() == before, "{args:?}");
    };
    let missing = "binlog.000002 does not exist, but ./binlog.index names it";
    for args in [&["compress", "."][..], &["decompress", "."], &["advise", "."]] {
        check(args, missing);
    }
    fs::copy(encrypted, path("binlog.000002")).unwrap();
    check(&["compress", "."], "binlog.000002 is encrypted");
    check(&["compress", "--output", "new", "."], "binlog.000002 is encrypted");
    assert!(fs::read_dir(path("new")).unwrap().next().is_none());
}

#[test]
fn the_log_that_receive_continues_is_skipped() {
    let _alone = alone();
    let directory = directory(&["types.binlog", "json.binlog"]);
    for (from, to) in [("types.binlog", "binlog.000001"), ("json.binlog", "binlog.000002")] {
        fs::rename(directory.path().join(from), directory.path().join(to)).unwrap();
    }
    fs::write(directory.path().join("binlog.index"), "./binlog.000001\n./binlog.000002\n").unwrap();
    fs::write(directory.path().join("bintide.lock"), "").unwrap();
    let before = fs::read(directory.path().join("binlog.000002")).unwrap();
    for args in [&["compress", "--json", "."][..], &["compress", "--live", "--json", "binlog.000002"]] {
        let output = bintide(&directory, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("binlog.000002 is skipped: it is the newest log in its directory"), "{said}");
        let made = json(&output);
        let ends: Vec<&str> =
            made["logs"].as_array().unwrap().iter().map(|log| log["outcome"].as_str().unwrap()).collect();
        let left = "needed by bintide receive, skipped";
        assert!([&["written", left][..], &[left]].contains(&ends.as_slice()), "{ends:?}");
        assert!(fs::read(directory.path().join("binlog.000002")).unwrap() == before);
    }
    // A user or a backup has lost the mark and the index.
    fs::write(directory.path().join("replica.cnf"), "[replica]\n").unwrap();
    for lost in ["bintide.lock", "binlog.index"] {
        fs::remove_file(directory.path().join(lost)).unwrap();
        for args in [&["compress", "--json", "."][..], &["decompress", "--json", "binlog.000002"]] {
            let made = json(&bintide(&directory, args));
            let last = made["logs"].as_array().unwrap().last().unwrap();
            assert_eq!(last["outcome"], "needed by bintide receive, skipped", "{args:?} {lost}");
            assert!(fs::read(directory.path().join("binlog.000002")).unwrap() == before);
        }
    }
    // A directory that bintide receive does not write.
    fs::remove_file(directory.path().join("replica.cnf")).unwrap();
    let made = json(&bintide(&directory, &["compress", "--json", "binlog.000002"]));
    assert_eq!(made["logs"][0]["outcome"], "written");
}

/// Opening a named pipe without a writer would block.
#[test]
fn pipes_and_devices_are_refused_without_opening_them() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for command in ["compress", "decompress"] {
        for (given, options) in [("pipe", &[][..]), ("/dev/null", &[]), ("pipe", &["--dry-run"])] {
            let refused = bintide(&directory, &[&[command, "types.binlog", given], options].concat());
            let message = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(2), "{message}");
            assert!(message.contains(&format!("{given} is not a regular file")), "{message}");
            assert!(
                fs::read(directory.path().join("types.binlog")).unwrap()
                    == fs::read(sample("types.binlog")).unwrap()
            );
        }
    }
}

#[test]
fn logs_are_compressed_and_decompressed_in_place() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let log = directory.path().join("types.binlog");
    let original = fs::read(&log).unwrap();
    let made = json(&bintide(&directory, &["compress", "--verify", "--json", "types.binlog"]));
    assert_eq!(made["logs"][0]["outcome"], "written");
    assert!(fs::metadata(&log).unwrap().len() < original.len() as u64);
    let positions = fs::read_to_string(directory.path().join("positions.types.binlog")).unwrap();
    let moves = positions.lines().filter(|line| !line.starts_with('#')).count() as u64;
    assert_eq!(moves, made["together"]["transactions"].as_u64().unwrap());
    let after = fs::metadata(&log).unwrap().len();
    let sizes = format!("# {} bytes became {after}", original.len());
    assert_eq!(positions.lines().last(), Some(sizes.as_str()));
    assert_eq!(made["together"]["bytes_before"], original.len());
    let again = json(&bintide(&directory, &["compress", "--json", "types.binlog"]));
    assert_eq!(
        (&again["logs"][0]["outcome"], &again["together"]["compressed"]),
        (&"unchanged".into(), &0.into())
    );
    let back = json(&bintide(&directory, &["decompress", "--json", "types.binlog"]));
    assert!(fs::read(&log).unwrap() == original);
    // Both lists of positions exist.
    assert_eq!(back["logs"][0]["positions"], "positions.types.binlog.2");
    assert_eq!(fs::read_to_string(directory.path().join("positions.types.binlog")).unwrap(), positions);
}

/// Positions do not include the header of an encrypted file.
#[test]
fn positions_of_decrypted_logs_are_those_of_the_source() {
    let _alone = alone();
    let directory = directory(&[]);
    let (log, keyring) = (sample("encrypted/binlog.000001"), sample("encrypted/keyring"));
    let (log, keyring) = (log.to_str().unwrap(), keyring.to_str().unwrap());
    let written = bintide(&directory, &["compress", "--plain", "--keyring", keyring, "--output", ".", log]);
    assert!(written.status.success(), "{written:?}");
    let last_resume = |arguments: &[&str]| {
        let stream = ["stream", "--format", "debezium", "--columns", "numbered"];
        let output = bintide(&directory, &[&stream, arguments].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let record: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        record["resume"].as_str().unwrap().to_owned()
    };
    assert_eq!(last_resume(&["binlog.000001"]), last_resume(&["--keyring", keyring, log]));
}

/// The list of a copy begins with the positions of the source's log, not with those of its compressed form.
#[test]
fn copies_of_rewritten_logs_have_the_positions_of_the_source() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let run = |arguments: &[&str]| assert!(bintide(&directory, arguments).status.success(), "{arguments:?}");
    run(&["compress", "types.binlog"]);
    run(&["decompress", "--output", "plain", "types.binlog"]);
    run(&["compress", "--recompress", "--level", "9", "--output", "level9", "types.binlog"]);
    let list = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    let before = |list: &str| {
        let pairs = list.lines().filter_map(|line| line.split_once('\t'));
        pairs.map(|(before, _)| before.to_owned()).collect::<Vec<_>>()
    };
    let (first, plain) = (list("positions.types.binlog"), list("plain/positions.types.binlog"));
    assert!(
        fs::read(directory.path().join("plain/types.binlog")).unwrap()
            == fs::read(sample("types.binlog")).unwrap()
    );
    assert_eq!(before(&plain), before(&first));
    assert_eq!(before(&list("level9/positions.types.binlog")), before(&first));
    for line in plain.lines().filter(|line| !line.starts_with('#')) {
        assert_eq!(line.split_once('\t').map(|(before, after)| before == after), Some(true), "{line}");
    }
    let size = fs::metadata(sample("types.binlog")).unwrap().len();
    assert_eq!(plain.lines().last(), Some(format!("# {size} bytes became {size}").as_str()));
}

#[test]
fn an_existing_file_is_not_replaced_by_the_list() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let other = directory.path().join("positions.types.binlog");
    fs::copy(sample("ddl.binlog"), &other).unwrap();
    let made = json(&bintide(&directory, &["compress", "--json", "types.binlog"]));
    assert_eq!(made["logs"][0]["positions"], "positions.types.binlog.2");
    assert!(fs::read(&other).unwrap() == fs::read(sample("ddl.binlog")).unwrap());
}

#[test]
fn logs_beside_an_open_log_are_skipped() {
    let _alone = alone();
    let directory = directory(&["types.binlog", "ddl.binlog"]);
    // Like a server whose index is elsewhere, or a program that copies logs.
    let held = fs::OpenOptions::new().append(true).open(directory.path().join("ddl.binlog")).unwrap();
    let refused = bintide(&directory, &["compress", "types.binlog"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("a server is running in") && message.contains("ddl.binlog open for writing"),
        "{message}"
    );
    // The log is recognised under any of its names.
    fs::hard_link(directory.path().join("ddl.binlog"), directory.path().join("other.binlog")).unwrap();
    let live = json(&bintide(&directory, &["compress", "--live", "--json", "types.binlog", "other.binlog"]));
    assert_eq!(live["logs"][0]["outcome"], "written");
    assert_eq!(live["logs"][1]["outcome"], "in use, skipped");
    drop(held);
}

/// Returns all files of a directory.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_run_after_a_kill_gives_the_same_logs() {
    const KILLS: u32 = 24;
    let _alone = alone();
    let names = ["large.binlog", "types.binlog", "json.binlog", "triggers.binlog", "charsets.binlog"];
    let arguments: Vec<&str> =
        ["compress", "--like-server", "--level", "12", "--json"].into_iter().chain(names).collect();
    let before = contents(directory(&names).path());
    let undisturbed = || {
        let directory = directory(&names);
        let started = Instant::now();
        json(&bintide(&directory, &arguments));
        (started.elapsed(), contents(directory.path()))
    };
    // The fastest of several runs: the first one may be slow on a busy machine.
    let (mut took, after) = undisturbed();
    for _ in 0..4 {
        let again = undisturbed();
        assert!(again.1 == after, "two runs differ");
        took = took.min(again.0);
    }
    let (mut killed, mut left) = (0, 0);
    for number in 0..KILLS {
        let directory = directory(&names);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bintide"));
        command.args(&arguments).env_clear().current_dir(directory.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(took * number / KILLS);
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        let now = contents(directory.path());
        left += now.keys().filter(|name| name.starts_with(".bintide-")).count();
        for name in names {
            let (old, new) = (&before[name], &after[name]);
            assert!(now[name] == *old || now[name] == *new, "{name} is incomplete");
            let list = format!("positions.{name}");
            assert!(now[name] == *old || now.get(&list) == after.get(&list), "{list} is missing");
        }
        json(&bintide(&directory, &arguments));
        let now = contents(directory.path());
        assert_eq!(now.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        assert!(now == after, "the files differ after a kill and another run");
    }
    assert!(killed > 0 && left > 0, "{killed} runs were killed, {left} files were left over");
}

#[test]
fn a_dry_run_writes_nothing() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let tried = json(&bintide(&directory, &["compress", "--dry-run", "--json", "types.binlog"]));
    assert_eq!(tried["logs"][0]["outcome"], "not written");
    assert!(tried["together"]["bytes_after"].as_u64() < tried["together"]["bytes_before"].as_u64());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    json(&bintide(&directory, &["compress", "--dry-run", "--output", "o", "--json", "types.binlog"]));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn skipped_logs_and_hard_links_are_reported() {
    let _alone = alone();
    let directory = directory(&["in-use.binlog", "types.binlog"]);
    fs::create_dir(directory.path().join("o")).unwrap();
    fs::write(directory.path().join("o/types.binlog"), "").unwrap();
    for (arguments, expected) in [
        (
            &["--dry-run", "in-use.binlog"][..],
            "in-use.binlog would be skipped without --dry-run: it is in use",
        ),
        (&["--dry-run", "--output", "o", "types.binlog"], "types.binlog exists"),
        (&["types.binlog"], ""),
        (&["--recompress", "--level", "9", "types.binlog"], "types.binlog has other names (hard links)"),
    ] {
        let output = bintide(&directory, &[&["compress"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert!(
            message.contains(expected) && message.lines().count() == usize::from(!expected.is_empty()),
            "{message}"
        );
        if expected.is_empty() {
            fs::hard_link(directory.path().join("types.binlog"), directory.path().join("twice")).unwrap();
        }
    }
    let one = json(&bintide(&directory, &["compress", "--json", "types.binlog", "./types.binlog"]));
    assert_eq!(one["logs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn logs_after_a_failed_one_are_counted() {
    let _alone = alone();
    let directory = directory(&["types.binlog", "mariadb.binlog", "ddl.binlog", "json.binlog"]);
    let output =
        bintide(&directory, &["compress", "types.binlog", "mariadb.binlog", "ddl.binlog", "json.binlog"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("2 further logs not processed, because of the following error"), "{message}");
}

#[test]
fn a_log_in_use_is_skipped_without_live() {
    let _alone = alone();
    let directory = directory(&["in-use.binlog"]);
    let before = fs::read(directory.path().join("in-use.binlog")).unwrap();
    let left = json(&bintide(&directory, &["compress", "--like-server", "--json", "in-use.binlog"]));
    assert_eq!(left["logs"][0]["outcome"], "in use, skipped");
    assert!(fs::read(directory.path().join("in-use.binlog")).unwrap() == before);
    let beside = json(&bintide(
        &directory,
        &["compress", "--like-server", "--json", "--output", "o", "in-use.binlog"],
    ));
    assert_eq!(beside["logs"][0]["outcome"], "written");
    let there = json(&bintide(&directory, &["compress", "--json", "--output", "o", "in-use.binlog"]));
    assert_eq!(there["logs"][0]["outcome"], "exists already, skipped");
    let same = bintide(&directory, &["compress", "--output", ".", "in-use.binlog"]);
    assert_eq!(same.status.code(), Some(2));
    let twice = bintide(&directory, &["compress", "--output", "p", "in-use.binlog", "o/in-use.binlog"]);
    assert_eq!(twice.status.code(), Some(2));
    let told =
        json(&bintide(&directory, &["compress", "--like-server", "--live", "--json", "in-use.binlog"]));
    assert_eq!(told["logs"][0]["outcome"], "written");
}

#[test]
fn incompressible_logs_are_not_changed() {
    let _alone = alone();
    let directory = directory(&["mariadb.binlog", "torn.binlog"]);
    for (log, expected) in [("mariadb.binlog", "MariaDB"), ("torn.binlog", "torn")] {
        let before = fs::read(directory.path().join(log)).unwrap();
        let output = bintide(&directory, &["compress", "--live", log]);
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        assert!(fs::read(directory.path().join(log)).unwrap() == before);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
    let output = bintide(&directory, &["compress", "--level", "23", "torn.binlog"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn memory_needs_are_reported_first() {
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let tight = bintide(&directory, &["compress", "--dry-run", "--memory", "10M", "types.binlog"]);
    let message = String::from_utf8_lossy(&tight.stderr).into_owned();
    assert_eq!(tight.status.code(), Some(2), "{message}");
    assert!(message.contains("1 thread can need") && message.ends_with("or lower --level\n"), "{message}");
    let fewer =
        bintide(&directory, &["compress", "--dry-run", "--jobs", "64", "--memory", "60M", "types.binlog"]);
    let message = String::from_utf8_lossy(&fewer.stderr).into_owned();
    assert_eq!(fewer.status.code(), Some(0), "{message}");
    assert!(message.contains("64 threads, which can need"), "{message}");
    for wrong in [["--memory", "much"], ["--jobs", "0"]] {
        let output = bintide(&directory, &["compress", wrong[0], wrong[1], "types.binlog"]);
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn standard_input_is_not_offered() {
    let _alone = alone();
    let directory = directory(&[]);
    for command in ["compress", "decompress"] {
        let help = bintide(&directory, &[command, "--help"]);
        assert!(!String::from_utf8_lossy(&help.stdout).contains("standard input"), "{command}");
        assert_eq!(bintide(&directory, &[command, "-"]).status.code(), Some(2));
    }
}

/// A user who may read a log but not own it can write a new one elsewhere, and learns why the log is not replaced.
#[test]
#[cfg(unix)]
fn another_user_can_only_write_elsewhere() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let _alone = alone();
    let directory = directory(&["types.binlog"]);
    let (log, path) = (directory.path().join("types.binlog"), directory.path());
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
    if chown(path, Some(NOBODY), Some(NOBODY)).is_err() {
        // Only root can run a program as another user.
        return;
    }
    // The other user may not be able to reach the program where it was built.
    let program = path.join("bintide");
    fs::copy(env!("CARGO_BIN_EXE_bintide"), &program).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).env_clear().current_dir(path).uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    let refused = run(&["compress", "types.binlog"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("owner") && message.contains("--output"), "{message}");
    let written = run(&["compress", "types.binlog", "--output", "elsewhere"]);
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    let copy = fs::metadata(path.join("elsewhere/types.binlog")).unwrap();
    assert_eq!((copy.uid(), copy.mode() & 0o777), (NOBODY, 0o604));
}
