//! Disks that fail: for every command that writes, a call that changes a file fails once, or it and all later calls
//! fail, or the program crashes at it. The command must end with a message that names the file, and the same
//! command must resume without loss or duplicates once the disk works.
//!
//! A few calls of each command are tested. `BINTIDE_FAULTS=all` tests every call, `BINTIDE_FAULTS=20` twenty of
//! each kind.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use e2e::command::{ChildGuard, CommandOutput};
use e2e::program::bintide;
use e2e::received::write_keyring;
use logs::{LogReader, ReadOutcome, read_keyring};
use nix::errno::Errno;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;
use testkit::{DiskFault, FaultyDisk, Launch, SeededRandom, TestServer, seed_from_env, wait_until};

/// Function that creates a command for a directory.
type Start<'a> = &'a dyn Fn(&Path) -> Result<Command>;

/// A command and the check of its result.
struct Trial<'t> {
    name: &'t str,
    /// Prepares the directory.
    prepare: &'t dyn Fn(&Path) -> Result<()>,
    command: &'t dyn Fn(&Path) -> Result<Command>,
    /// Returns the outcome, which must be the same with and without faults, from the directory and the runs.
    outcome: &'t dyn Fn(&Path, &[CommandOutput]) -> Result<String>,
    is_file_named: IsFileNamed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsFileNamed {
    Yes,
    /// No, because the error messages are mysqlbinlog's.
    No,
}

/// Kinds of failure, at the call with a number.
const KINDS: [fn(usize) -> DiskFault; 4] = [
    |call| DiskFault::Once(call, Errno::ENOSPC),
    |call| DiskFault::Once(call, Errno::EIO),
    |call| DiskFault::From(call, Errno::EIO),
    DiskFault::Kill,
];

/// Number of calls that are tested for each kind.
const SAMPLES: usize = 3;

/// A run without failures, and its outcome.
struct CleanRun {
    ran: CommandOutput,
    outcome: String,
}

impl Trial<'_> {
    /// Runs the command with each failure, then again without it.
    fn run(&self) -> Result<()> {
        let parent = parent()?;
        let directory = parent.path().join("disk");
        let disk = FaultyDisk::new(&directory, &parent.path().join("calls"))?;
        self.fresh(&directory)?;
        let clean = self.once(&directory, &disk, DiskFault::None)?;
        let calls = disk.calls()?.len();
        ensure!(calls > 1, "{}: only {calls} calls: {clean:?}", self.name);
        let outcome =
            (self.outcome)(&directory, std::slice::from_ref(&clean)).context("without a failure")?;
        let clean = CleanRun { ran: clean, outcome };
        let mut wrong = Vec::new();
        for kind in KINDS {
            for call in sampled(calls)? {
                let fault = kind(call);
                if let Err(error) = self.fault(&directory, &disk, fault, &clean) {
                    let call = disk.calls()?.get(call - 1).cloned();
                    wrong.push(format!("{} {fault:?} of {calls}, {call:?}: {error:#}", self.name));
                }
            }
        }
        ensure!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    }

    fn fault(&self, directory: &Path, disk: &FaultyDisk, fault: DiskFault, clean: &CleanRun) -> Result<()> {
        let CleanRun { ran: clean, outcome: expected } = clean;
        self.fresh(directory)?;
        let first = self.once(directory, disk, fault)?;
        ensure!(!first.stderr.contains("panicked"), "the command panicked: {first:?}");
        match first.code {
            None => ensure!(matches!(fault, DiskFault::Kill(_)), "a signal ended the command: {first:?}"),
            Some(code) if code == clean.code.unwrap_or_default() => {}
            Some(1 | 2) => {
                let is_named = self.is_file_named == IsFileNamed::No
                    || first.stderr.contains(&directory.display().to_string());
                ensure!(is_named && !first.stderr.is_empty(), "the message names no file: {first:?}");
            }
            Some(_) => bail!("unexpected exit code: {first:?}"),
        }
        check_reported(disk, fault, &first, directory)?;
        let calls = fs::read(disk_log(directory))?;
        let again = self.once(directory, disk, DiskFault::None)?;
        fs::write(disk_log(directory), calls)?;
        ensure!(again.code == clean.code, "the command does not resume: {again:?}, after {first:?}");
        let runs = [first, again];
        let found = (self.outcome)(directory, &runs)?;
        ensure!(found == *expected, "the outcome is\n{found}\nand should be\n{expected}\nafter {runs:?}");
        Ok(())
    }

    fn fresh(&self, directory: &Path) -> Result<()> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir(directory)?;
        (self.prepare)(directory)
    }

    fn once(&self, directory: &Path, disk: &FaultyDisk, fault: DiskFault) -> Result<CommandOutput> {
        let mut command = (self.command)(directory)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ChildGuard::start(disk.attach(&mut command, fault)?)?;
        // A stream waits at its end for its reader.
        let mut stdout = child.stdout.take().context("standard output is not piped")?;
        let reader = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        wait_until(&format!("the end of {} with {fault:?}", self.name), || Ok(child.try_wait()?.is_some()))?;
        let stdout = reader.join().map_err(|_| anyhow!("the reader panicked"))??;
        Ok(CommandOutput { stdout, ..child.output()?.into() })
    }
}

/// Checks that a run reports a failed fsync.
fn check_reported(disk: &FaultyDisk, fault: DiskFault, ran: &CommandOutput, directory: &Path) -> Result<()> {
    let DiskFault::Once(number, Errno::EIO) = fault else { return Ok(()) };
    let calls = disk.calls()?;
    // The number of calls depends on timing: a run with fewer calls than the first one has no fault.
    let Some(call) = calls.get(number - 1) else { return Ok(()) };
    let is_reported = ran.code != Some(0) || ran.stderr.contains(&directory.display().to_string());
    let is_sync = ["fsync", "fdatasync", "rename"].contains(&call.name.as_str());
    ensure!(!is_sync || is_reported, "a failed {} is not reported: {ran:?}", call.name);
    Ok(())
}

/// Returns a directory in memory, if available, which is faster than the machine's disk.
fn parent() -> Result<TempDir> {
    Ok(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?)
}

fn disk_log(directory: &Path) -> PathBuf {
    directory.with_file_name("calls")
}

/// Returns the numbers of the calls that are tested.
fn sampled(calls: usize) -> Result<Vec<usize>> {
    let samples = match env::var("BINTIDE_FAULTS") {
        Ok(all) if all == "all" => calls,
        Ok(number) => number.parse().context("BINTIDE_FAULTS must be a number or `all`")?,
        Err(_) => SAMPLES,
    };
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let samples = samples.min(calls);
    Ok((0..samples)
        .map(|part| {
            let (from, to) = (part * calls / samples, (part + 1) * calls / samples);
            from + random.below((to - from).max(1)) + 1
        })
        .collect())
}

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments);
    Ok(command)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name)
}

/// Returns the files of a directory, except those that differ in each run, and those that a crash leaves until the
/// next write.
fn files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_counted = !["bintide.lock", "replica.cnf", "replica.cnf.new"].contains(&name.as_str())
            && ![".bintide-new-", ".tmp"].iter().any(|prefix| name.starts_with(prefix));
        if is_counted && entry.file_type()?.is_file() {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// Describes names, sizes and contents in a short text.
fn content(files: &BTreeMap<String, Vec<u8>>) -> String {
    let line = |(name, bytes): (&String, &Vec<u8>)| {
        let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        format!("{name} {} {sum:x}\n", bytes.len())
    };
    files.iter().map(line).collect()
}

fn same_files(directory: &Path, _: &[CommandOutput]) -> Result<String> {
    Ok(content(&files(directory)?))
}

fn nothing(_: &Path) -> Result<()> {
    Ok(())
}

/// Starts a server with three small logs.
fn server() -> Result<TestServer> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int primary key auto_increment, b longtext)")?;
    for _ in 0..2 {
        server.sql("insert into d.t (b) values ('one'), (repeat('two', 1000)); flush binary logs")?;
    }
    server.sql("insert into d.t (b) values ('three')")?;
    Ok(server)
}

fn receive(server: &TestServer, directory: &Path, more: &[&str]) -> Result<Command> {
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let mut command =
        command(&["receive", text(&directory.join("store"))?, "--from", &from, "--stop-at-end"])?;
    command.args(more);
    Ok(command)
}

#[test]
fn receive_resumes_after_disk_failures() -> Result<()> {
    let server = server()?;
    let keys = TempDir::new()?;
    let keyring = keys.path().join("keyring");
    write_keyring(&keyring)?;
    let encrypt = ["--encrypt", "--keyring", text(&keyring)?];
    let opened = |directory: &Path, _: &[CommandOutput]| -> Result<String> {
        let keys = Arc::new(read_keyring(&keyring)?);
        let mut files = files(&directory.join("store"))?;
        for (name, bytes) in files.iter_mut().filter(|(name, _)| name.contains(".0")) {
            let mut reader =
                LogReader::open(directory.join("store").join(name))?.with_keyring(Arc::clone(&keys));
            bytes.clear();
            while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? {
                bytes.extend_from_slice(chunk.bytes());
            }
            ensure!(reader.is_encrypted(), "{name} is not encrypted");
        }
        Ok(content(&files))
    };
    let plain = |directory: &Path, runs: &[CommandOutput]| same_files(&directory.join("store"), runs);
    type Outcome<'o> = &'o dyn Fn(&Path, &[CommandOutput]) -> Result<String>;
    let trials: [(&str, &[&str], Outcome<'_>); 4] = [
        ("receive", &[], &plain),
        ("receive --compress", &["--compress", "3"], &plain),
        ("receive --encrypt", &encrypt, &opened),
        ("receive --keep", &["--keep", "1k"], &plain),
    ];
    for (name, more, outcome) in trials {
        let command = |directory: &Path| receive(&server, directory, more);
        Trial { name, prepare: &nothing, command: &command, outcome, is_file_named: IsFileNamed::Yes }
            .run()?;
    }
    Ok(())
}

#[test]
fn dump_writes_whole_files_after_disk_failures() -> Result<()> {
    let server = server()?;
    let port = server.port().to_string();
    let raw = |directory: &Path| {
        let to = format!("--result-file={}/", directory.display());
        command(&[
            "dump",
            "--no-defaults",
            "-R",
            "-uroot",
            "-h127.0.0.1",
            "-P",
            &port,
            "--raw",
            "-t",
            &to,
            "binlog.000001",
        ])
    };
    let log = sample("gtids/binlog.000001");
    let result = |directory: &Path| {
        let to = format!("--result-file={}/out.sql", directory.display());
        command(&["dump", "--no-defaults", &to, text(&log)?])
    };
    let is_file_named = IsFileNamed::No;
    Trial { name: "dump --raw", prepare: &nothing, command: &raw, outcome: &same_files, is_file_named }
        .run()?;
    Trial {
        name: "dump --result-file",
        prepare: &nothing,
        command: &result,
        outcome: &same_files,
        is_file_named,
    }
    .run()
}

/// Returns the records of all files.
fn records(directory: &Path, _: &[CommandOutput]) -> Result<String> {
    let files = files(&directory.join("out"))?;
    let records = files.iter().filter(|(name, _)| name.starts_with("changes."));
    records.map(|(_, bytes)| Ok(String::from_utf8(bytes.clone())?)).collect()
}

/// Returns the records that all runs wrote, without duplicates: a run after an interrupted one may repeat some.
fn lines(_: &Path, runs: &[CommandOutput]) -> Result<String> {
    let mut lines: Vec<&str> = Vec::new();
    for line in runs.iter().flat_map(|run| run.stdout.lines()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    Ok(lines.join("\n"))
}

#[test]
fn stream_resumes_after_disk_failures() -> Result<()> {
    let logs = [sample("gtids/binlog.000001"), sample("gtids/binlog.000002")];
    let logs = [text(&logs[0])?, text(&logs[1])?];
    let stream = ["stream", "--format", "maxwell", "--schema", "ddl", logs[0], logs[1]];
    let out = |directory: &Path| {
        let mut command = command(&stream)?;
        command.arg("--file-size").arg("1k").arg("--out").arg(directory.join("out"));
        Ok(command)
    };
    let progress = |directory: &Path| {
        let mut command = command(&stream)?;
        command.arg("--progress").arg(directory.join("progress"));
        Ok(command)
    };
    let is_file_named = IsFileNamed::Yes;
    Trial { name: "stream --out", prepare: &nothing, command: &out, outcome: &records, is_file_named }
        .run()?;
    Trial { name: "stream --progress", prepare: &nothing, command: &progress, outcome: &lines, is_file_named }
        .run()
}

fn copied(directory: &Path, samples: &[&str]) -> Result<()> {
    for name in samples {
        let from = sample(name);
        fs::copy(&from, directory.join(from.file_name().context("a sample without a name")?))?;
    }
    Ok(())
}

#[test]
fn rewrites_are_complete_or_change_nothing() -> Result<()> {
    let plain = |directory: &Path| copied(directory, &["gtids/binlog.000001", "gtids/binlog.000002"]);
    let compressed = |directory: &Path| {
        copied(directory, &["gtids-compressed/binlog.000001", "gtids-compressed/binlog.000002"])
    };
    let in_place = |verb: &'static str| move |directory: &Path| command(&[verb, text(directory)?]);
    let torn = |directory: &Path| copied(directory, &["torn.binlog"]);
    let repair = |directory: &Path| {
        let [log, copy] = [directory.join("torn.binlog"), directory.join("whole.binlog")];
        command(&["verify", text(&log)?, "--repair-tail", text(&copy)?])
    };
    let (compress, decompress) = (in_place("compress"), in_place("decompress"));
    let is_file_named = IsFileNamed::Yes;
    let outcome = &same_files;
    Trial { name: "compress", prepare: &plain, command: &compress, outcome, is_file_named }.run()?;
    Trial { name: "decompress", prepare: &compressed, command: &decompress, outcome, is_file_named }.run()?;
    Trial { name: "verify --repair-tail", prepare: &torn, command: &repair, outcome, is_file_named }.run()
}

/// Returns the rows of all tables except bintide's own.
fn rows(directory: &Path, _: &[CommandOutput]) -> Result<String> {
    let database = Connection::open(directory.join("copy.db"))?;
    let sql = "select name from sqlite_master where type = 'table' and name not like 'bintide.%' \
               and name not like 'sqlite_%' order by name";
    let mut statement = database.prepare(sql)?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut text = String::new();
    for name in names {
        let mut statement = database.prepare(&format!("select * from \"{name}\""))?;
        let columns = statement.column_count();
        let rows = statement
            .query_map([], |row| (0..columns).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>())?;
        let mut rows: Vec<String> = rows.map(|row| Ok(format!("{:?}", row?))).collect::<Result<_>>()?;
        rows.sort();
        text += &format!("{name}: {}\n", rows.join("; "));
    }
    Ok(text)
}

#[test]
fn sqlite_files_have_each_transaction_once() -> Result<()> {
    let logs = [sample("gtids/binlog.000001"), sample("gtids/binlog.000002")];
    let replay = |directory: &Path| {
        let to = format!("sqlite:{}/copy.db", directory.display());
        command(&["replay", text(&logs[0])?, text(&logs[1])?, "--to", &to])
    };
    let is_file_named = IsFileNamed::Yes;
    Trial { name: "replay --to sqlite", prepare: &nothing, command: &replay, outcome: &rows, is_file_named }
        .run()
}

/// After a power failure, acknowledged data can be found only if its directories can be found.
#[test]
fn new_directories_are_synced_before_their_files() -> Result<()> {
    let server = server()?;
    let log = sample("gtids/binlog.000001");
    let store = |directory: &Path| receive(&server, &directory.join("a/b"), &[]);
    let out = |directory: &Path| {
        let out = directory.join("a/b/store");
        command(&[
            "stream",
            "--format",
            "maxwell",
            "--columns",
            "numbered",
            "--out",
            text(&out)?,
            text(&log)?,
        ])
    };
    let commands: [Start<'_>; 2] = [&store, &out];
    for command in commands {
        let parent = parent()?;
        let directory = parent.path().join("disk");
        fs::create_dir(&directory)?;
        let disk = FaultyDisk::new(&directory, &parent.path().join("calls"))?;
        let ran = CommandOutput::from(disk.attach(&mut command(&directory)?, DiskFault::None)?.output()?);
        ensure!(ran.code == Some(0), "{ran:?}");
        let calls = disk.calls()?;
        let first = calls
            .iter()
            .position(|call| call.path.starts_with(directory.join("a/b/store/")) && call.name == "write");
        let before = &calls[..first.context("nothing was written")?];
        for parent in [&directory, &directory.join("a"), &directory.join("a/b")] {
            let is_synced = before.iter().any(|call| call.name == "fsync" && call.path == *parent);
            ensure!(is_synced, "{} is not synced before: {before:?}", parent.display());
        }
    }
    Ok(())
}
