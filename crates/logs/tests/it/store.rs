//! Directories of logs, and followers of a growing store.

use std::fs;
use std::path::{Path, PathBuf};

use logs::{Store, StoreFollower};
use tempfile::TempDir;

use crate::log_builder::{IN_USE, QUERY, RELAY_LOG, ROTATE, STOP, event, format, log};

struct StoreFixture(TempDir);

impl StoreFixture {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let directory = Self(TempDir::new().unwrap());
        files.iter().for_each(|(name, bytes)| directory.write(name, bytes));
        directory
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        let old = fs::read(&path).unwrap();
        fs::write(path, [&old[..], bytes].concat()).unwrap();
    }

    /// Returns the text without the directory's name, which differs in each run.
    fn short(&self, text: &str) -> String {
        let directory = self.0.path().to_str().unwrap();
        text.replace(&format!("{directory}/"), "")
    }

    fn list(&self, path: &str) -> String {
        match Store::open(self.0.path().join(path)) {
            Ok(store) => {
                let names = store.logs().iter().map(|path| self.short(path.to_str().unwrap()));
                names.collect::<Vec<String>>().join(" ")
            }
            Err(error) => self.short(&error.to_string()),
        }
    }
}

#[test]
fn directories_and_indexes() {
    let directory = StoreFixture::new(&[
        ("data/binlog.index", b"./binlog.000009\n./binlog.000010\n\n./binlog.1000000\n"),
        ("data/binlog.000009", b""),
        ("data/binlog.000010", b""),
        ("data/ibdata1", b""),
    ]);
    let listed = "data/binlog.000009 data/binlog.000010 data/binlog.1000000";
    assert_eq!(directory.list("data"), listed);
    assert_eq!(directory.list("data/binlog.index"), listed);
    let absolute = directory.0.path().join("data/binlog.000009");
    // A relay log's index: an existing path, a moved log beside the index, and a missing log.
    let lines = format!("{}\n/nowhere/binlog.000010\n/nowhere/at.000001\n", absolute.display());
    directory.write("data/relay-bin-east.index", lines.as_bytes());
    assert_eq!(
        directory.list("data/relay-bin-east.index"),
        "data/binlog.000009 data/binlog.000010 /nowhere/at.000001"
    );
    assert_eq!(
        directory.list("data"),
        "data has indexes: binlog.index, relay-bin-east.index; give one index file, or the log files of one name"
    );
}

#[test]
fn directories_without_an_index() {
    let names =
        ["d/b.1000000", "d/b.000002", "d/b.999999", "d/b.00003", "d/b.000004.gz", "d/.000005", "d/b.txt"];
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b""[..])).collect();
    let directory = StoreFixture::new(&files);
    assert_eq!(directory.list("d"), "d/b.000002 d/b.999999 d/b.1000000");
    directory.write("d/positions.b.000002", b"what a rewritten log has beside it");
    assert_eq!(directory.list("d"), "d/b.000002 d/b.999999 d/b.1000000");
    directory.write("d/c.000001", b"");
    assert_eq!(
        directory.list("d"),
        "d has logs of several names and no index: b, c; give one index file, or the log files of one name"
    );
}

#[test]
fn invalid_stores_are_refused() {
    let directory = StoreFixture::new(&[("empty/x", b""), ("empty.index", b"\n"), ("bad.index", b"a\0b\n")]);
    let message = "empty has no logs: it contains no index, and no file with a name such as binlog.000001. To read \
                   files with other names, give their names";
    assert_eq!(directory.list("empty"), message);
    assert_eq!(directory.list("empty.index"), "empty.index lists no logs");
    assert_eq!(
        directory.list("bad.index"),
        "bad.index is not an index of logs: one of its lines is not a valid path"
    );
    let message = "could not open none: No such file or directory (os error 2)";
    assert_eq!(directory.list("none"), message);
}

/// Reads all available events. Returns the log, type and offset of each.
fn follow(follower: &mut StoreFollower) -> Result<Vec<(String, u8, u64)>, String> {
    let mut events = Vec::new();
    while let Some(chunk) = follower.next_chunk(1 << 20).map_err(|error| error.to_string())? {
        let name = follower.log().file_name().unwrap().to_string_lossy().into_owned();
        events.extend(chunk.iter().map(|event| (name.clone(), event.raw.event_type().code(), event.offset)));
    }
    Ok(events)
}

fn at(name: &str, code: u8, offset: u64) -> (String, u8, u64) {
    (name.to_owned(), code, offset)
}

fn follower(directory: &StoreFixture) -> StoreFollower {
    let store = Store::open(directory.0.path().join("b.index")).unwrap();
    let first: PathBuf = store.logs()[0].clone();
    StoreFollower::new(store, first, None).unwrap()
}

#[test]
fn follows_from_log_to_log() {
    let directory = StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &log(&[format(IN_USE)]))]);
    let mut follower = follower(&directory);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", 15, 4)]));
    assert_eq!(follow(&mut follower), Ok(vec![]));
    directory.append("b.000001", &event(QUERY, 0, b"one"));
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", QUERY, 126)]));
    let rotate = event(ROTATE, 0, b"12345678b.000002");
    directory.append("b.000001", &rotate[..20]);
    assert_eq!(follow(&mut follower), Ok(vec![]));
    // The end of one log, all of the next, and the index can be written in any order.
    directory.append("b.000001", &rotate[20..]);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", ROTATE, 148)]));
    assert_eq!(follow(&mut follower), Ok(vec![]));
    directory.write("b.000002", &log(&[format(0), event(STOP, 0, b"")]));
    assert_eq!(follow(&mut follower), Ok(vec![]));
    directory.append("b.index", b"./b.000002\n");
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000002", 15, 4), at("b.000002", STOP, 126)]));
    // A server that crashed does not close its log.
    directory.write("b.000003", &log(&[format(IN_USE)]));
    directory.append("b.index", b"./b.000003\n");
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000003", 15, 4)]));
    directory.write("b.000004", &[]);
    directory.append("b.000003", &event(QUERY, 0, b"two"));
    directory.append("b.index", b"./b.000004\n");
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000003", QUERY, 126)]));
    directory.append("b.000004", &log(&[format(0)]));
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000004", 15, 4)]));
}

#[test]
fn incomplete_logs_with_a_successor() {
    let torn = [log(&[format(IN_USE)]), event(QUERY, 0, b"one")[..20].to_vec()].concat();
    let directory = StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &torn)]);
    let mut follower = follower(&directory);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", 15, 4)]));
    directory.write("b.000002", &log(&[format(0)]));
    directory.append("b.index", b"./b.000002\n");
    let message = follow(&mut follower).unwrap_err();
    assert!(
        message.contains("b.000001 is torn at 126: it has 20 bytes of an event of at least 22"),
        "{message}"
    );
}

#[test]
fn relay_logs_are_truncated_to_whole_events() {
    let directory =
        StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &log(&[format(RELAY_LOG)]))]);
    let mut follower = follower(&directory);
    let query = event(QUERY, 0, b"one");
    directory.append("b.000001", &query[..21]);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", 15, 4)]));
    directory.write("b.000001", &log(&[format(RELAY_LOG)]));
    assert_eq!(follow(&mut follower), Ok(vec![]));
    directory.append("b.000001", &query);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", QUERY, 126)]));
    // Truncated within events that were already returned: servers never do that.
    directory.write("b.000001", &log(&[format(RELAY_LOG)]));
    assert!(follow(&mut follower).unwrap_err().contains("was truncated while it was read"));
}

#[test]
fn purged_and_removed_logs_are_errors() {
    let closed = log(&[format(0), event(STOP, 0, b"")]);
    let directory = StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &closed)]);
    let remove = |name: &str| fs::remove_file(directory.0.path().join(name)).unwrap();
    let mut first = follower(&directory);
    let mut second = follower(&directory);
    assert!(follow(&mut first).is_ok() && follow(&mut second).is_ok());
    // Purged after it was read.
    directory.write("b.000002", &closed);
    directory.write("b.index", b"./b.000002\n");
    remove("b.000001");
    assert_eq!(follow(&mut first), Ok(vec![at("b.000002", 15, 4), at("b.000002", STOP, 126)]));
    // Purged before it was read.
    directory.write("b.000003", &closed);
    directory.write("b.index", b"./b.000003\n");
    let message = directory.short(&follow(&mut second).unwrap_err());
    assert_eq!(
        message,
        "cannot continue: the logs between b.000001 and b.000003 were purged before they were read. Retain logs longer"
    );
    // No index for a moment, then another numbering.
    remove("b.index");
    assert_eq!(follow(&mut first), Ok(vec![]));
    directory.write("b.index", b"./b.000001\n");
    directory.write("b.000001", &closed);
    remove("b.000002");
    let message = directory.short(&follow(&mut first).unwrap_err());
    assert_eq!(
        message,
        "b.000002 was removed, or another log replaced it: restart to continue with the existing logs"
    );
}

/// A log that was removed with only its head, and received again under its name, does not count as read.
#[test]
fn logs_received_again_are_not_skipped() {
    let head = log(&[format(0)]);
    let whole = log(&[format(0), event(QUERY, 0, b"one"), event(STOP, 0, b"")]);
    let directory = StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &head)]);
    let mut follower = follower(&directory);
    assert_eq!(follow(&mut follower), Ok(vec![at("b.000001", 15, 4)]));
    fs::remove_file(directory.0.path().join("b.000001")).unwrap();
    directory.write("b.000001", &whole);
    directory.write("b.000002", &head);
    directory.write("b.index", b"./b.000001\n./b.000002\n");
    let message = directory.short(&follow(&mut follower).unwrap_err());
    assert!(message.starts_with("b.000001 was removed, or another log replaced it"), "{message}");
}

/// After RESET BINARY LOGS AND GTIDS, a server uses a name again: the new log of this name does not count as read.
/// A compressed log has another file, too, but the same first event.
#[test]
fn logs_of_a_reset_server_are_not_skipped() {
    let head = log(&[format(0)]);
    let mut reset = log(&[format(0), event(QUERY, 0, b"one"), event(STOP, 0, b"")]);
    let rewritten = reset.clone();
    reset[4..8].copy_from_slice(&9_u32.to_le_bytes());
    let events = [head.clone(), event(QUERY, 0, b"two")].concat();
    let expected = [at("b.000002", 15, 4)];
    for (replacement, expected) in [(rewritten, Some(expected)), (reset, None)] {
        let directory = StoreFixture::new(&[("b.index", b"./b.000001\n"), ("b.000001", &events)]);
        let mut follower = follower(&directory);
        assert!(follow(&mut follower).is_ok_and(|events| events.len() == 2));
        directory.write("new", &replacement);
        fs::rename(directory.0.path().join("new"), directory.0.path().join("b.000001")).unwrap();
        directory.write("b.000002", &head);
        directory.write("b.index", b"./b.000001\n./b.000002\n");
        let found = follow(&mut follower);
        match expected {
            Some(expected) => assert_eq!(found, Ok(expected.to_vec())),
            None => assert!(found.unwrap_err().contains("b.000001 was removed, or another log")),
        }
    }
}

/// The index names a log that does not exist.
#[test]
fn missing_logs_are_named() {
    let closed = log(&[format(0), event(STOP, 0, b"")]);
    let directory =
        StoreFixture::new(&[("b.index", b"./b.000001\n./b.000002\n./b.000003\n"), ("b.000001", &closed)]);
    directory.write("b.000003", &closed);
    let message = directory.short(&follow(&mut follower(&directory)).unwrap_err());
    assert!(message.starts_with("b.000002 does not exist, but b.index names it: restore"), "{message}");
}

#[test]
fn follows_samples_to_their_end() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    for name in ["rotation", "relay", "relay-compressed", "gtids"] {
        let store = Store::open(samples.join(name)).unwrap();
        let logs = store.logs().to_owned();
        let mut follower = StoreFollower::new(store, logs[0].clone(), None).unwrap();
        let mut bytes = 0;
        while let Some(chunk) = follower.next_chunk(1000).unwrap() {
            bytes += chunk.bytes().len() as u64;
        }
        let sizes = logs.iter().map(|log| fs::metadata(log).unwrap().len() - 4);
        assert_eq!(bytes, sizes.sum::<u64>(), "{name}");
    }
}

/// The index of a copied directory still names the original files: the copies are read, and a remark is shown if both
/// exist.
#[test]
fn logs_beside_the_index_take_precedence_over_its_paths() {
    let directory = StoreFixture::new(&[
        ("live/b.000001", b"original"),
        ("live/b.000002", b"original"),
        ("copy/b.000001", b"copy"),
        ("copy/b.000002", b"copy"),
    ]);
    let root = directory.0.path().display().to_string();
    let remark = |path: &str| {
        let store = Store::open(directory.0.path().join(path)).unwrap();
        store.ignored_path().map(|line| directory.short(&line.to_string()))
    };
    let expected = "copy/b.index: line 2 names live/b.000002; copy/b.000002 in the directory of the index is read \
                  instead";
    for line in [format!("{root}/live/b.000002"), "../live/b.000002".to_owned()] {
        directory.write("copy/b.index", format!("./b.000001\n{line}\n").as_bytes());
        for path in ["copy", "copy/b.index"] {
            assert_eq!(directory.list(path), "copy/b.000001 copy/b.000002", "{line}");
            assert_eq!(remark(path).unwrap().replace("copy/../live", "live"), expected, "{line}");
        }
    }
    // No remark: an absolute path to the same directory, and a missing original.
    for line in [format!("{root}/copy/b.000002"), "/nowhere/b.000002".to_owned()] {
        directory.write("copy/b.index", format!("{root}/copy/b.000001\n{line}\n").as_bytes());
        assert_eq!(
            (directory.list("copy"), remark("copy")),
            ("copy/b.000001 copy/b.000002".to_owned(), None)
        );
    }
    // Logs that are only in another directory, as with --log-bin-index.
    directory.write("index/b.index", format!("{root}/live/b.000001\n{root}/live/b.000002\n").as_bytes());
    assert_eq!(directory.list("index/b.index"), "live/b.000001 live/b.000002");
    let expected = "index/b.index: line 1 names live/b.000001, but the index's directory has no such log: give \
                  the index itself to read logs in other directories";
    assert_eq!(directory.list("index"), expected);
}

/// Opening a named pipe would block.
#[test]
fn pipes_are_refused_without_waiting() {
    let directory = StoreFixture::new(&[("d/b.index", b"./b.000001\n./b.000002\n"), ("d/b.000001", b"")]);
    let pipe = |name: &str| {
        let path = directory.0.path().join(name);
        let _ = fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    pipe("d/b.000002");
    let expected =
        "d/b.000002 is not a regular file: the logs of a directory or an index must be regular files";
    assert_eq!(
        (directory.list("d"), directory.list("d/b.index")),
        (expected.to_owned(), expected.to_owned())
    );
    fs::remove_file(directory.0.path().join("d/b.index")).unwrap();
    assert_eq!(directory.list("d"), expected);
    pipe("d/b.index");
    let expected = "could not read the index d/b.index: it is not a regular file";
    assert_eq!(
        (directory.list("d"), directory.list("d/b.index")),
        (expected.to_owned(), expected.to_owned())
    );
    let error = logs::LogReader::open_stored(directory.0.path().join("d/b.000002")).unwrap_err().to_string();
    assert!(error.ends_with("it is not a regular file"), "{error}");
}
