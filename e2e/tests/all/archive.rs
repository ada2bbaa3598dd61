//! `bintide archive` on a real S3 server, on an emulator of Azure Blob Storage, and in directories: each log is restored byte for
//! byte, whatever interrupts an upload, and damage is found.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use binlog::gtid::GtidSet;
use binlog::{EventChecksum, EventType, MAGIC, NextPosition, RawEvent, move_event};
use e2e::bounded;
use e2e::command::CommandOutput;
use e2e::program::bintide;
use logs::DirectoryLock;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{AzureServer, ObjectServer, SeededRandom, workspace_root};

/// Archive under test.
struct Archive {
    location: String,
    variables: Vec<(&'static str, String)>,
}

impl Archive {
    /// Returns the archive in a directory of the test.
    fn below(directory: &Path) -> Self {
        Self { location: directory.join("archive").display().to_string(), variables: Vec::new() }
    }

    fn on(server: &ObjectServer, prefix: &str) -> Self {
        Self { location: server.url(prefix), variables: server.variables() }
    }

    fn on_azure(server: &AzureServer, prefix: &str) -> Self {
        Self { location: server.url(prefix), variables: server.variables() }
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(bintide()?);
        command.env_clear().envs(self.variables.clone()).arg("archive").args(arguments);
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> Result<CommandOutput> {
        Ok(self.command(arguments)?.output()?.into())
    }

    /// Archives logs, and requires success.
    fn add(&self, logs: &[PathBuf], more: &[&str]) -> Result<CommandOutput> {
        let mut command = self.command(&["--to", &self.location])?;
        let ran = CommandOutput::from(command.args(logs).args(more).output()?);
        ensure!(ran.code == Some(0), "{} {}", ran.stdout, ran.stderr);
        Ok(ran)
    }

    fn names(&self) -> Result<Vec<String>> {
        let ran = self.run(&["ls", &self.location, "--json"])?;
        if ran.code == Some(2) && ran.stderr.contains("is not an archive") {
            return Ok(Vec::new());
        }
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout)?;
        let logs = document["logs"].as_array().context("no list of logs")?;
        Ok(logs.iter().filter_map(|log| log["log"].as_str().map(str::to_owned)).collect())
    }
}

/// Returns copies of all samples in one directory, each with its own name.
fn all_samples() -> Result<(TempDir, BTreeMap<String, PathBuf>)> {
    let directory = tempfile::tempdir()?;
    let mut logs = BTreeMap::new();
    let mut directories = vec![workspace_root().join("samples")];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let bytes = fs::read(&path)?;
            if bytes.starts_with(b"\xfebin") || bytes.starts_with(b"\xfdbin") {
                let name = path.strip_prefix(workspace_root().join("samples"))?.display().to_string();
                let name = name.replace('/', "-");
                let copy = directory.path().join(&name);
                fs::copy(&path, &copy)?;
                logs.insert(name, copy);
            }
        }
    }
    ensure!(logs.len() > 80, "{} samples", logs.len());
    Ok((directory, logs))
}

/// Returns a large log whose rows cannot be compressed, so that its upload has several parts.
fn large_log(directory: &Path) -> Result<PathBuf> {
    let mut log = fs::read(workspace_root().join("samples/types.binlog"))?;
    let mut random = SeededRandom::new(7);
    // Bytes after the last event are archived unchanged.
    log.extend((0..40_000_000).map(|_| random.next_u64() as u8));
    let path = directory.join("large.000001");
    fs::write(&path, log)?;
    Ok(path)
}

fn restore_equals(archive: &Archive, logs: &BTreeMap<String, PathBuf>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("restored");
    let ran = archive.run(&["restore", &archive.location, "--to", &to.display().to_string()])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    for (name, log) in logs {
        ensure!(fs::read(log)? == fs::read(to.join(name))?, "{name}");
    }
    ensure!(fs::read_dir(&to)?.count() == logs.len());
    Ok(())
}

/// Archives the logs, twice, and restores them.
fn restores_all(archive: &Archive, logs: &BTreeMap<String, PathBuf>) -> Result<()> {
    let paths: Vec<PathBuf> = logs.values().cloned().collect();
    archive.add(&paths, &[])?;
    ensure!(archive.names()?.len() == logs.len());
    let again = archive.add(&paths, &["--json"])?;
    let document: Value = serde_json::from_str(&again.stdout)?;
    ensure!(document["already_archived"] == logs.len(), "{document}");
    let ran = archive.run(&["verify", &archive.location, "--json"])?;
    let document: Value = serde_json::from_str(&ran.stdout)?;
    ensure!(ran.code == Some(0) && document["byte_identical"] == logs.len(), "{document} {}", ran.stderr);
    restore_equals(archive, logs)
}

#[test]
fn every_sample_is_restored_from_s3_and_from_a_directory() -> Result<()> {
    let (directory, logs) = all_samples()?;
    let server = ObjectServer::start()?;
    let local =
        Archive { location: directory.path().join("archive").display().to_string(), variables: Vec::new() };
    restores_all(&Archive::on(&server, "samples"), &logs)?;
    restores_all(&local, &logs)
}

#[test]
fn every_sample_is_restored_from_azure() -> Result<()> {
    let (_directory, logs) = all_samples()?;
    let server = AzureServer::start()?;
    restores_all(&Archive::on_azure(&server, "samples"), &logs)
}

#[test]
fn a_killed_run_leaves_no_archived_log() -> Result<()> {
    let server = ObjectServer::start()?;
    let directory = tempfile::tempdir()?;
    let log = large_log(directory.path())?;
    let archive = Archive::on(&server, "killed");
    let mut was_killed = 0;
    for delay in (0..12).map(|step| Duration::from_millis(40 * step)) {
        let mut command = archive.command(&["--to", &archive.location])?;
        let mut child = command.arg(&log).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::sleep(delay);
        let is_running = child.try_wait()?.is_none();
        child.kill()?;
        child.wait()?;
        was_killed += u64::from(is_running);
        // Either the whole log is archived, or the archive has no log.
        if !archive.names()?.is_empty() {
            let ran = archive.run(&["verify", &archive.location])?;
            ensure!(ran.code == Some(0), "{}", ran.stderr);
            break;
        }
    }
    ensure!(was_killed > 0, "no run was killed in time");
    archive.add(std::slice::from_ref(&log), &[])?;
    restore_equals(&archive, &BTreeMap::from([("large.000001".to_owned(), log)]))
}

#[test]
fn two_writers_archive_a_log_once() -> Result<()> {
    let (s3, azure) = (ObjectServer::start()?, AzureServer::start()?);
    archives_once(&Archive::on(&s3, "shared"))?;
    archives_once(&Archive::on_azure(&azure, "shared"))
}

/// Archives a log whose upload has several parts with two processes at the same time.
fn archives_once(archive: &Archive) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let log = large_log(directory.path())?;
    let start = || -> Result<_> {
        let mut command = archive.command(&["--to", &archive.location, "--json"])?;
        Ok(command.arg(&log).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    };
    let mut archived = 0;
    for child in [start()?, start()?] {
        let ran = CommandOutput::from(child.wait_with_output()?);
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout)?;
        archived += document["archived"].as_array().map_or(0, Vec::len);
    }
    ensure!(archived == 1, "{archived} writers have archived the log");
    restore_equals(archive, &BTreeMap::from([("large.000001".to_owned(), log)]))
}

#[test]
fn another_log_of_the_same_name_is_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let archive = Archive::below(directory.path());
    let log = directory.path().join("binlog.000001");
    fs::copy(workspace_root().join("samples/types.binlog"), &log)?;
    archive.add(std::slice::from_ref(&log), &[])?;
    fs::copy(workspace_root().join("samples/ddl.binlog"), &log)?;
    let next = directory.path().join("binlog.000002");
    fs::copy(workspace_root().join("samples/json.binlog"), &next)?;
    let ran = archive.run(&["--to", &archive.location, &path_text(&log), &path_text(&next)])?;
    ensure!(
        ran.code == Some(1) && ran.stderr.contains("already archived with different content"),
        "{}",
        ran.stderr
    );
    // The other logs are archived.
    let listed = archive.run(&["ls", &archive.location])?;
    ensure!(listed.stdout.contains("binlog.000002"), "{}", listed.stdout);
    Ok(())
}

/// A copy of the log that a server is writing is archived, and later the whole log.
#[test]
fn a_log_that_has_grown_replaces_its_beginning() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let archive = Archive::below(directory.path());
    let log = directory.path().join("binlog.000001");
    let bytes = fs::read(workspace_root().join("samples/types.binlog"))?;
    let mut beginning = bytes[..bytes.len() / 2].to_vec();
    // The first event has the flag of a log in use until the server closes the log.
    beginning[4 + 17] |= 1;
    fs::write(&log, &beginning)?;
    archive.add(std::slice::from_ref(&log), &["--change-tables"])?;
    fs::write(&log, &bytes)?;
    let ran = archive.add(std::slice::from_ref(&log), &["--change-tables"])?;
    ensure!(ran.stderr.contains("; change tables of "), "{}", ran.stderr);
    ensure!(fs::read_dir(directory.path().join("archive/segments"))?.count() == 1);
    restore_equals(&archive, &BTreeMap::from([("binlog.000001".to_owned(), log)]))?;
    ensure!(archive.run(&["verify", &archive.location])?.code == Some(0));
    Ok(())
}

#[test]
fn damage_in_the_archive_is_found() -> Result<()> {
    let server = ObjectServer::start()?;
    let archive = Archive::on(&server, "damaged");
    let log = workspace_root().join("samples/types.binlog");
    archive.add(&[log], &[])?;
    let ran = archive.run(&["ls", &archive.location, "--json"])?;
    let document: Value = serde_json::from_str(&ran.stdout)?;
    let name = format!("damaged/{}", document["logs"][0]["segment"].as_str().context("no segment")?);
    let segment = server.read(&name)?;
    let mut changed = segment.clone();
    changed[segment.len() / 2] ^= 1;
    let cases: [(&[u8], &str); 3] = [
        (&changed, "damaged in the block"),
        (&segment[..segment.len() - 10], "truncated"),
        (&[&segment[..], b"x"].concat(), "bytes follow its end"),
    ];
    for (bytes, expected) in cases {
        server.write(&name, bytes)?;
        let ran = archive.run(&["verify", &archive.location])?;
        ensure!(
            ran.code == Some(1) && ran.stdout.contains(expected),
            "{expected}: {} {}",
            ran.stdout,
            ran.stderr
        );
        let directory = tempfile::tempdir()?;
        let to = directory.path().join("restored");
        let ran = archive.run(&["restore", &archive.location, "--to", &to.display().to_string()])?;
        ensure!(ran.code == Some(1) && ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
        ensure!(fs::read_dir(&to)?.count() == 0, "a part of a log was left");
    }
    server.write(&name, &segment)?;
    ensure!(archive.run(&["verify", &archive.location])?.code == Some(0));
    Ok(())
}

/// A segment that disappears or is cut is written again by the next run, with a new manifest.
#[test]
fn a_lost_segment_is_written_again() -> Result<()> {
    let server = ObjectServer::start()?;
    let archive = Archive::on(&server, "lost");
    let log = workspace_root().join("samples/types.binlog");
    archive.add(std::slice::from_ref(&log), &[])?;
    for cut in [false, true] {
        let name = format!("lost/{}", segment_of(&archive)?);
        match cut {
            true => server.write(&name, &server.read(&name)?[..100])?,
            false => server.remove(&name)?,
        }
        ensure!(archive.run(&["verify", &archive.location])?.code == Some(1));
        let ran = archive.add(std::slice::from_ref(&log), &[])?;
        ensure!(ran.stderr.contains("it was written again"), "{}", ran.stderr);
        ensure!(format!("lost/{}", segment_of(&archive)?) != name, "the manifest names the lost segment");
        restore_equals(&archive, &BTreeMap::from([("types.binlog".to_owned(), log.clone())]))?;
        let again = archive.add(std::slice::from_ref(&log), &[])?;
        ensure!(!again.stderr.contains("written again"), "{}", again.stderr);
    }
    Ok(())
}

/// Another log of the same name, size and first bytes must not replace the lost segment of a log.
#[test]
fn a_lost_segment_is_not_replaced_by_another_log() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let archive = Archive::below(directory.path());
    let log = directory.path().join("binlog.000001");
    fs::copy(workspace_root().join("samples/types.binlog"), &log)?;
    archive.add(std::slice::from_ref(&log), &[])?;
    fs::remove_file(directory.path().join("archive").join(segment_of(&archive)?))?;
    let mut bytes = fs::read(&log)?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&log, bytes)?;
    let ran = archive.run(&["--to", &archive.location, &log.display().to_string()])?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("with different content"), "{}", ran.stderr);
    Ok(())
}

/// Commands would read an archive in the directory of its logs in place of the logs. A pipe can be read only once.
#[test]
fn unsuitable_logs_and_locations_are_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let location = path_text(&directory.path().join("archive"));
    let archive = Archive { location: location.clone(), variables: Vec::new() };
    let log = directory.path().join("binlog.000001");
    fs::copy(workspace_root().join("samples/types.binlog"), &log)?;
    let own = path_text(directory.path());
    let ran = archive.run(&["--to", &own, &path_text(&log)])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("a directory of its own"), "{}", ran.stderr);
    let pipe = directory.path().join("pipe");
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success());
    for special in [pipe.as_path(), Path::new("/dev/null")] {
        let ran = archive.run(&["--to", &location, &path_text(special)])?;
        ensure!(ran.code == Some(2) && ran.stderr.contains("is not a regular file"), "{}", ran.stderr);
    }
    let empty = directory.path().join("binlog.000002");
    fs::write(&empty, "")?;
    let ran = archive.run(&["--to", &location, &path_text(&empty)])?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("binlog.000002 is empty"), "{}", ran.stderr);
    for (arguments, expected) in [
        (["", &path_text(&log)], "an empty text is not a directory or the URL of an object store"),
        ([&path_text(&log), &path_text(&log)], "it is a file; expected a directory"),
    ] {
        let ran = archive.run(&[&["--to"], arguments.as_slice()].concat())?;
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{}", ran.stderr);
    }
    archive.add(&[log], &[])?;
    let restored = path_text(&directory.path().join("restored"));
    fs::create_dir(&restored)?;
    let lock = DirectoryLock::take(Path::new(&restored))?.context("not locked")?;
    let ran = archive.run(&["restore", &location, "--to", &restored])?;
    let expected = "another process restores logs";
    ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{}", ran.stderr);
    drop(lock);
    ensure!(archive.run(&["restore", &location, "--to", &restored])?.code == Some(0));
    let manifest = fs::metadata(directory.path().join("archive/manifests/binlog.000001.json"))?;
    ensure!(manifest.permissions().mode() & 0o027 == 0, "other users can read the archive");
    Ok(())
}

/// Memory does not depend on the size of a transaction: this one is larger than the limit.
#[test]
fn large_transactions_need_little_memory() -> Result<()> {
    const PEAK_KIB_MAX: u64 = 300 << 10;
    let directory = tempfile::tempdir()?;
    let log = large_transaction(directory.path())?;
    ensure!(fs::metadata(&log)?.len() > PEAK_KIB_MAX << 10);
    let location = path_text(&directory.path().join("archive"));
    let restored = path_text(&directory.path().join("restored"));
    let log_text = path_text(&log);
    // Encryption adds chunks of 64 KiB.
    let keyring = path_text(&workspace_root().join("samples/encrypted/keyring"));
    let encrypt: &[&str] = &["--encrypt", "--keyring", &keyring];
    let add: &[&str] = &["archive", "--quiet", "--to", &location, &log_text];
    let restore: &[&str] =
        &["archive", "restore", "--quiet", &location, "--to", &restored, "--keyring", &keyring];
    for arguments in [&[add, encrypt].concat(), restore] {
        let run = bounded::run(Command::new(bintide()?).args(arguments), Duration::from_secs(240))?;
        ensure!(run.ran.code == Some(0), "{}", run.ran.stderr);
        ensure!(run.peak_kib < PEAK_KIB_MAX, "{arguments:?}: {} KiB", run.peak_kib);
    }
    let same = Command::new("cmp").arg(&log).arg(Path::new(&restored).join("large.000001")).status()?;
    ensure!(same.success(), "the restored log differs");
    Ok(())
}

/// Writes a log whose only transaction has the rows of a sample's transaction many times.
fn large_transaction(directory: &Path) -> Result<PathBuf> {
    const REPEATS: usize = 90;
    let plain = directory.join("plain");
    let sample = path_text(&workspace_root().join("samples/large.binlog"));
    run(&["decompress", "--quiet", "--output", &path_text(&plain), &sample])?;
    let bytes = fs::read(plain.join("large.binlog"))?;
    let mut rest = bytes.strip_prefix(&MAGIC).context("no magic number")?;
    let mut events = Vec::new();
    while let Some((event, after)) = RawEvent::split_first(rest, EventChecksum::Crc32) {
        events.push(event);
        rest = after;
    }
    let index_of = |event_type| events.iter().position(|event| event.event_type() == event_type);
    let first = index_of(EventType::TableMap).context("no table map")?;
    let end = index_of(EventType::Xid).context("no end of a transaction")?;
    let path = directory.join("large.000001");
    let mut file = BufWriter::new(fs::File::create(&path)?);
    file.write_all(&MAGIC)?;
    let mut position = MAGIC.len() as u64;
    let rows = (0..REPEATS).flat_map(|_| &events[first..end]);
    for event in events[..first].iter().chain(rows).chain([&events[end]]) {
        let mut bytes = event.bytes().to_vec();
        move_event(&mut bytes, EventChecksum::Crc32, NextPosition::FromStart(position));
        file.write_all(&bytes)?;
        position += bytes.len() as u64;
    }
    file.flush()?;
    Ok(path)
}

fn segment_of(archive: &Archive) -> Result<String> {
    let ran = archive.run(&["ls", &archive.location, "--json"])?;
    let document: Value = serde_json::from_str(&ran.stdout)?;
    Ok(document["logs"][0]["segment"].as_str().context("no segment")?.to_owned())
}

/// The log of a damaged manifest is named, and all other logs are listed, verified, restored and pruned.
#[test]
fn a_damaged_manifest_hides_no_other_log() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let location = directory.path().join("archive").display().to_string();
    let archive = Archive { location: location.clone(), variables: Vec::new() };
    let mut logs = Vec::new();
    for number in 1..=4 {
        logs.push(directory.path().join(format!("binlog.00000{number}")));
        fs::copy(workspace_root().join("samples/types.binlog"), &logs[number - 1])?;
    }
    archive.add(&logs, &[])?;
    fs::write(directory.path().join("archive/manifests/binlog.000002.json"), "{}")?;
    let segments =
        || -> Result<usize> { Ok(fs::read_dir(directory.path().join("archive/segments"))?.count()) };
    let check = |arguments: &[&str]| -> Result<CommandOutput> {
        let ran = archive.run(arguments)?;
        let text = format!("{}{}", ran.stdout, ran.stderr);
        let is_named = text.contains("manifests/binlog.000002.json is invalid");
        ensure!(ran.code == Some(1) && is_named, "{arguments:?}: {:?} {text}", ran.code);
        Ok(ran)
    };
    let listed = check(&["ls", &location])?.stdout;
    ensure!(["000001", "000003", "000004"].iter().all(|log| listed.contains(log)), "{listed}");
    let document: Value = serde_json::from_str(&check(&["ls", &location, "--json"])?.stdout)?;
    ensure!(document["damaged_manifests"][0]["log"] == "binlog.000002", "{document}");
    ensure!(check(&["verify", &location])?.stdout.contains("3 of 4 logs"));
    let to = directory.path().join("restored");
    check(&["restore", &location, "--to", &path_text(&to)])?;
    ensure!(fs::read_dir(&to)?.count() == 3);
    check(&["prune", &location, "--keep", "1k", "--json"])?;
    // The newest log, and that of the damaged manifest.
    ensure!(segments()? == 2, "{} segments", segments()?);
    let fifth = directory.path().join("binlog.000005");
    fs::copy(&logs[0], &fifth)?;
    check(&[&path_text(&logs[1]), &path_text(&fifth), "--to", &location])?;
    ensure!(directory.path().join("archive/manifests/binlog.000005.json").exists(), "log 5 is not archived");
    // A named log does not depend on the manifest of another one. All logs would have a gap.
    run(&["stats", &format!("{location}/binlog.000004")])?;
    let all = Command::new(bintide()?).args(["stats", &location]).output()?;
    let error = String::from_utf8_lossy(&all.stderr);
    ensure!(!all.status.success() && error.contains("manifests/binlog.000002.json"), "{error}");
    Ok(())
}

#[test]
fn encrypted_logs_are_restored_with_their_key() -> Result<()> {
    let samples = workspace_root().join("samples/encrypted");
    let keyring = samples.join("keyring").display().to_string();
    let logs: Vec<PathBuf> = (1..=3).map(|number| samples.join(format!("binlog.00000{number}"))).collect();
    let directory = tempfile::tempdir()?;
    let archive = Archive::below(directory.path());
    archive.add(&logs, &["--keyring", &keyring])?;
    ensure!(archive.run(&["verify", &archive.location])?.code == Some(0));
    let to = directory.path().join("restored").display().to_string();
    let without = archive.run(&["restore", &archive.location, "--to", &to])?;
    ensure!(without.code == Some(2) && without.stderr.contains("--keyring"), "{}", without.stderr);
    let other = workspace_root().join("samples/encrypted-compressed/keyring").display().to_string();
    let wrong = archive.run(&["restore", &archive.location, "--to", &to, "--keyring", &other])?;
    let expected = "the keyring has a different key with this name; give the keyring file of the server";
    ensure!(wrong.code == Some(2) && wrong.stderr.contains(expected), "{}", wrong.stderr);
    let with = archive.run(&["restore", &archive.location, "--to", &to, "--keyring", &keyring])?;
    ensure!(with.code == Some(0), "{}", with.stderr);
    for log in logs {
        let name = log.file_name().context("no name")?;
        ensure!(fs::read(&log)? == fs::read(Path::new(&to).join(name))?, "{}", log.display());
    }
    Ok(())
}

/// Removes the segments of logs without the selected transaction, so that reading one of them would be an error.
#[test]
fn commands_read_only_segments_with_selected_transactions() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let location = directory.path().join("archive").display().to_string();
    let archive = Archive { location: location.clone(), variables: Vec::new() };
    let samples = workspace_root().join("samples/rotation");
    let logs: Vec<PathBuf> = (1..=6).map(|number| samples.join(format!("binlog.00000{number}"))).collect();
    archive.add(&logs, &[])?;
    let document: Value = serde_json::from_str(&run(&["stats", "--json", &location])?)?;
    let gtids = document["gtids"]["set"].as_str().context("no GTIDs")?.to_owned();
    let of_last: Value = serde_json::from_str(&run(&["stats", "--json", &path_text(&logs[5])])?)?;
    let expected = of_last["gtids"]["set"].as_str().context("no GTIDs")?;
    for segment in fs::read_dir(directory.path().join("archive/segments"))? {
        let segment = segment?.path();
        if !path_text(&segment).contains("binlog.000006.") {
            fs::remove_file(segment)?;
        }
    }
    let [to, to_others, to_all] =
        ["changes", "others", "all"].map(|name| path_text(&directory.path().join(name)));
    let inverse = path_text(&directory.path().join("inverse.binlog"));
    run(&["stats", "--gtid", expected, &location])?;
    run(&["export", "--columns=numbered", "--gtid", expected, "--to", &to, &location])?;
    run(&["undo", "--gtid", expected, "-r", &inverse, &location])?;
    let others = gtid_difference(&gtids, expected)?;
    run(&["export", "--columns=numbered", "--exclude-gtids", &others, "--to", &to_others, &location])?;
    let all = Command::new(bintide()?)
        .args(["export", "--columns=numbered", "--to", &to_all, &location])
        .output()?;
    ensure!(!all.status.success() && String::from_utf8_lossy(&all.stderr).contains("no segment"));
    Ok(())
}

fn gtid_difference(all: &str, without: &str) -> Result<String> {
    let [all, without] = [all, without].map(str::parse::<GtidSet>);
    Ok(all?.difference(&without?).to_string())
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs bintide, and requires success.
fn run(arguments: &[&str]) -> Result<String> {
    let output = Command::new(bintide()?).args(arguments).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
