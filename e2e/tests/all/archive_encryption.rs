//! `bintide archive --encrypt`: logs are restored byte for byte, commands read the archive with its keyring, and the
//! archive shows nothing of the logs to others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;

use anyhow::{Context, Result, ensure};
use e2e::archived::reading_commands;
use e2e::command::{CommandOutput, address};
use e2e::program::bintide;
use e2e::readers::read_back;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, ObjectServer, workspace_root};

/// Encrypted archive, with the keyring file of its keys.
struct EncryptedArchive {
    directory: TempDir,
    location: String,
    variables: Vec<(&'static str, String)>,
}

impl EncryptedArchive {
    /// Prepares an archive in a directory, and a keyring with one key.
    fn in_directory() -> Result<Self> {
        let directory = TempDir::new()?;
        let location = directory.path().join("archive").display().to_string();
        let archive = Self { directory, location, variables: Vec::new() };
        archive.write_keyring("keyring", &[1])?;
        Ok(archive)
    }

    fn on(server: &ObjectServer, prefix: &str) -> Result<Self> {
        Ok(Self { location: server.url(prefix), variables: server.variables(), ..Self::in_directory()? })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Writes a keyring file with keys of these numbers. Keys of the same number are the same.
    fn write_keyring(&self, name: &str, numbers: &[u8]) -> Result<()> {
        let element = |number: &u8| {
            let key = format!("{number:02x}").repeat(32);
            format!(
                r#"{{"user":"","data_id":"MySQLReplicationKey_archive_{number}","data_type":"AES","data":"{key}","extension":[]}}"#
            )
        };
        let elements: Vec<String> = numbers.iter().map(element).collect();
        let text = format!(r#"{{"version":"1.0","elements":[{}]}}"#, elements.join(","));
        Ok(fs::write(self.directory.path().join(name), text)?)
    }

    /// Runs a command without a keyring.
    fn run(&self, arguments: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        Ok(command.env_clear().envs(self.variables.clone()).args(arguments).output()?.into())
    }

    /// Runs a command with the keyring.
    fn run_with_key(&self, arguments: &[&str]) -> Result<CommandOutput> {
        self.run(&[arguments, &["--keyring", &self.path("keyring")]].concat())
    }

    /// Runs a command with the keyring, and requires success.
    fn run_well(&self, arguments: &[&str]) -> Result<CommandOutput> {
        let ran = self.run_with_key(arguments)?;
        ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
        Ok(ran)
    }

    fn add(&self, logs: &[String], more: &[&str]) -> Result<CommandOutput> {
        let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
        self.run_well(&[&["archive", "--encrypt", "--to", &self.location][..], more, &logs].concat())
    }

    fn manifests(&self) -> Result<Vec<Value>> {
        let ran = self.run_well(&["archive", "ls", "--json", &self.location])?;
        let document: Value = serde_json::from_str(&ran.stdout)?;
        document["logs"].as_array().context("no list of logs").cloned()
    }

    /// Checks that all logs are restored byte for byte.
    fn check_restored(&self, logs: &[String]) -> Result<()> {
        let to = TempDir::new()?;
        let to_text = to.path().display().to_string();
        self.run_well(&["archive", "restore", &self.location, "--to", &to_text])?;
        for log in logs {
            let name = Path::new(log).file_name().context("a log without a name")?;
            ensure!(fs::read(log)? == fs::read(to.path().join(name))?, "{log} differs");
        }
        ensure!(fs::read_dir(to.path())?.count() == logs.len());
        Ok(())
    }

    /// Returns all files of an archive in a directory.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let (mut files, mut directories) = (Vec::new(), vec![PathBuf::from(&self.location)]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_dir() { directories.push(path) } else { files.push(path) }
            }
        }
        Ok(files)
    }
}

fn sample(name: &str) -> String {
    workspace_root().join("samples").join(name).display().to_string()
}

/// Logs of servers, with and without compressed transactions, and a torn one.
fn logs() -> Vec<String> {
    let names =
        ["types.binlog", "json-partial-compressed.binlog", "large.binlog", "torn.binlog", "mariadb.binlog"];
    names.map(sample).to_vec()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn logs_are_restored_from_s3_and_from_a_directory() -> Result<()> {
    let server = ObjectServer::start()?;
    let (remote, local) = (EncryptedArchive::on(&server, "encrypted")?, EncryptedArchive::in_directory()?);
    for archive in [&remote, &local] {
        archive.add(&logs(), &[])?;
        ensure!(archive.manifests()?.len() == logs().len());
        let again: Value = serde_json::from_str(&archive.add(&logs(), &["--json"])?.stdout)?;
        ensure!(again["already_archived"] == logs().len(), "{again}");
        archive.run_well(&["archive", "verify", &archive.location])?;
        archive.check_restored(&logs())?;
        archive.run_well(&["archive", "prune", &archive.location, "--keep", "1k"])?;
        ensure!(archive.manifests()?.len() == 1);
    }
    for file in local.files()? {
        let bytes = fs::read(&file)?;
        for part in [&b"sha256"[..], b"BTSEGM", b"gtids"] {
            ensure!(!has(&bytes, part), "{} is readable", file.display());
        }
    }
    Ok(())
}

/// The keyring comes from the option, from a variable, or from the settings file.
#[test]
fn a_missing_or_wrong_key_is_named() -> Result<()> {
    let archive = EncryptedArchive::in_directory()?;
    archive.add(&[sample("gtids/binlog.000001")], &[])?;
    archive.write_keyring("other", &[2])?;
    let (location, other, to) = (archive.location.clone(), archive.path("other"), archive.path("restored"));
    for arguments in [
        &["archive", "ls", &location][..],
        &["archive", "verify", &location],
        &["archive", "restore", &location, "--to", &to],
        &["archive", "prune", &location, "--keep=1d"],
        &["stats", &location],
        &["dump", &location],
        &["dump", "--json", &location],
        &["history", "--table=d.t", "--where=a=1", &location],
    ] {
        let missing = archive.run(arguments)?;
        let expected =
            "manifests/binlog.000001.json: it is encrypted with the key MySQLReplicationKey_archive_1";
        ensure!(missing.code != Some(0) && missing.stderr.contains(expected), "{arguments:?}: {missing:?}");
        ensure!(missing.stderr.contains("--keyring"), "{missing:?}");
        let wrong = archive.run(&[arguments, &["--keyring", &other]].concat())?;
        let expected = "the key MySQLReplicationKey_archive_1 is not in the keyring";
        ensure!(wrong.code != Some(0) && wrong.stderr.contains(expected), "{arguments:?}: {wrong:?}");
    }
    let list = ["archive", "ls", &location];
    let mut command = Command::new(bintide()?);
    let ran = CommandOutput::from(
        command.env_clear().env("BINTIDE_KEYRING", archive.path("keyring")).args(list).output()?,
    );
    ensure!(ran.code == Some(0), "{ran:?}");
    let config = archive.path("bintide.toml");
    fs::write(&config, format!("keyring = \"{}\"\n", archive.path("keyring")))?;
    let ran = archive.run(&[&["--config", &config][..], &list].concat())?;
    ensure!(ran.code == Some(0) && ran.stdout.contains("encrypted"), "{ran:?}");
    Ok(())
}

#[test]
fn plain_logs_are_not_added_to_an_encrypted_archive() -> Result<()> {
    let archive = EncryptedArchive::in_directory()?;
    let plain = sample("gtids/binlog.000001");
    let to = ["archive", "--to", &archive.location];
    ensure!(archive.run(&[&to[..], &[plain.as_str()]].concat())?.code == Some(0));
    archive.add(&[sample("types.binlog")], &[])?;
    let large = sample("large.binlog");
    for ran in [
        archive.run(&[&to[..], &[large.as_str()]].concat())?,
        archive.run_with_key(&[&to[..], &[large.as_str()]].concat())?,
    ] {
        let expected = "is encrypted, and this log would be stored in plain; give --encrypt";
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{ran:?}");
    }
    let without = archive.run(&[&to[..], &["--encrypt", &plain]].concat())?;
    ensure!(without.code == Some(2) && without.stderr.contains("--encrypt needs --keyring"), "{without:?}");
    // The plain log remains readable, and a message reports that it is plain.
    let again = archive.add(slice::from_ref(&plain), &[])?;
    ensure!(again.stderr.contains("was archived without --encrypt"), "{again:?}");
    archive.run_well(&["archive", "verify", &archive.location])?;
    archive.check_restored(&[plain, sample("types.binlog")])?;
    let list = archive.run_well(&["archive", "ls", &archive.location])?.stdout;
    ensure!(list.contains("yes") && list.contains("no"), "{list}");
    Ok(())
}

#[test]
fn rotated_keys_read_older_logs() -> Result<()> {
    let archive = EncryptedArchive::in_directory()?;
    let logs: Vec<String> = (1..=2).map(|number| sample(&format!("rotation/binlog.00000{number}"))).collect();
    archive.add(&logs[..1], &[])?;
    archive.write_keyring("keyring", &[1, 2])?;
    archive.add(&logs[1..], &[])?;
    let keys: Vec<String> =
        archive.manifests()?.iter().map(|manifest| manifest["segment_key"].to_string()).collect();
    ensure!(keys == ["\"MySQLReplicationKey_archive_1\"", "\"MySQLReplicationKey_archive_2\""], "{keys:?}");
    archive.check_restored(&logs)?;
    archive.write_keyring("keyring", &[2])?;
    let ran = archive.run_with_key(&["archive", "verify", &archive.location])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("binlog.000001.json"), "{ran:?}");
    archive.run_well(&["archive", "verify", &archive.location, "binlog.000002"])?;
    Ok(())
}

#[test]
fn changed_and_exchanged_objects_are_found() -> Result<()> {
    let archive = EncryptedArchive::in_directory()?;
    let logs: Vec<String> = (1..=2).map(|number| sample(&format!("rotation/binlog.00000{number}"))).collect();
    archive.add(&logs, &[])?;
    let segments: Vec<PathBuf> = archive
        .manifests()?
        .iter()
        .map(|manifest| Path::new(&archive.location).join(manifest["segment"].as_str().unwrap_or_default()))
        .collect();
    let [one, other] = segments.as_slice() else { anyhow::bail!("{segments:?}") };
    let stored = fs::read(one)?;
    let check = |bytes: &[u8], expected: &str| -> Result<()> {
        fs::write(one, bytes)?;
        let ran = archive.run_with_key(&["archive", "verify", &archive.location])?;
        fs::write(one, &stored)?;
        ensure!(ran.code == Some(1) && ran.stdout.contains(expected), "{expected}: {ran:?}");
        Ok(())
    };
    let mut changed = stored.clone();
    changed[600] ^= 1;
    check(&changed, &format!("{}: its chunk 0", one.display()))?;
    check(&stored[..stored.len() - 1], "truncated")?;
    let mut exchanged = fs::read(other)?;
    exchanged.resize(stored.len(), 0);
    check(
        &exchanged,
        &format!("{}: its head is damaged, or it was stored under another name", one.display()),
    )?;
    check(&vec![0; stored.len()], "it is not encrypted, and its manifest says that it is")?;
    let manifest = |number| Path::new(&archive.location).join(format!("manifests/binlog.00000{number}.json"));
    fs::copy(manifest(2), manifest(1))?;
    let ran = archive.run_with_key(&["archive", "verify", &archive.location])?;
    ensure!(ran.code == Some(1) && ran.stdout.contains("stored under another name"), "{ran:?}");
    Ok(())
}

/// Commands print the same for an encrypted archive as for its logs.
#[test]
fn commands_read_an_encrypted_archive() -> Result<()> {
    let server = ObjectServer::start()?;
    let archive = EncryptedArchive::on(&server, "read")?;
    let log = sample("types.binlog");
    archive.add(slice::from_ref(&log), &[])?;
    let archived = format!("{}/types.binlog", archive.location);
    let changes = archive.path("changes");
    for arguments in reading_commands(&changes) {
        let found = archive.run_with_key(&[&arguments[..], &[archived.as_str()]].concat())?;
        let expected = archive.run(&[&arguments[..], &[log.as_str()]].concat())?;
        let is_same = found.stdout.replace(&archived, "LOG") == expected.stdout.replace(&log, "LOG");
        ensure!(found.code == expected.code && is_same, "{arguments:?}: {found:?} {expected:?}");
    }
    archive.run_well(&["diff", "--order", &archived, &log])?;
    archive.run_well(&["advise", "--json", "--levels=1", &archived])?;
    for location in [&archived, &archive.location] {
        let ran = archive.run(&["stats", location])?;
        ensure!(
            ran.code == Some(2) && ran.stderr.contains("is encrypted with the key"),
            "{location}: {ran:?}"
        );
    }
    let target = Launch::mysql().start()?;
    archive.run_well(&["replay", "--to", &address("root", &target), &archive.location])?;
    Ok(())
}

/// Change tables are encrypted as Parquet defines it, so that other programs read them with a key of their own.
#[test]
fn readers_read_encrypted_change_tables() -> Result<()> {
    let archive = EncryptedArchive::in_directory()?;
    let log = sample("types.binlog");
    archive.add(slice::from_ref(&log), &["--change-tables", "--skip-statements"])?;
    archive.run_well(&["archive", "verify", &archive.location])?;
    let export = archive.path("export");
    let document =
        archive.run(&["export", "--columns=numbered", "--skip-statements", "--to", &export, &log])?;
    ensure!(document.code == Some(0), "{document:?}");
    let key = archive.run_well(&["archive", "table-key"])?.stdout.trim().to_owned();
    let table = |root: &str| format!("{root}/database=types/table=integers");
    let plain =
        format!("select count(*), sum(after.\"@1\") from read_parquet('{}/**/*.parquet')", table(&export));
    let expected = read_back("query.py", &[plain])?;
    let directory = table(&format!("{}/tables", archive.location));
    let read = |key: &str| {
        let statement = "select count(*), sum(after.\"@1\") from changes";
        read_back("encrypted.py", &[key, &directory, statement])
    };
    let found = read(&key)?;
    let [rows, alone] = found.lines().collect::<Vec<_>>()[..] else { anyhow::bail!("{found}") };
    ensure!(rows == expected.trim() && rows.starts_with(alone), "{found}: expected {expected}");
    ensure!(read("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").is_err(), "another key reads the tables");
    // Names of columns are not readable either.
    let named = archive.run_well(&["archive", "table-key", "--key", "MySQLReplicationKey_archive_1"])?;
    ensure!(named.stdout.trim() == key, "{named:?}");
    for file in archive.files()? {
        let bytes = fs::read(&file)?;
        let is_table = file.extension().is_some_and(|end| end == "parquet");
        ensure!(!is_table || bytes.starts_with(b"PARE"), "{} is plain", file.display());
        ensure!(!has(&bytes, b"operation"), "{} is readable", file.display());
    }
    Ok(())
}

/// `receive` and `relay` encrypt archived logs, also those that are encrypted on disk.
#[test]
fn received_logs_are_archived_encrypted() -> Result<()> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    server.sql("create database d; create table d.t (a int primary key, b longtext)")?;
    server.sql("insert into d.t values (1, repeat('one', 10000)); flush binary logs")?;
    let archive = EncryptedArchive::in_directory()?;
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let receive = |store: &str, more: &[&str]| {
        let store = archive.path(store);
        let arguments = ["receive", &store, "--from", &from, "--no-defaults", "--stop-at-end"];
        archive.run_with_key(&[&arguments[..], more].concat())
    };
    let options = ["--encrypt", "--archive", &archive.location, "--encrypt-archive", "--change-tables"];
    let ran = receive("encrypted", &options)?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let manifests = archive.manifests()?;
    ensure!(manifests.len() == 1 && manifests[0]["statistics"]["rows"] == 1, "{manifests:?}");
    ensure!(manifests[0]["change_tables"]["files"][0]["key"].is_string(), "{manifests:?}");
    let to = archive.path("restored");
    archive.run_well(&["archive", "restore", &archive.location, "--to", &to])?;
    let [stored, restored] = ["encrypted", "restored"]
        .map(|name| fs::read(archive.directory.path().join(name).join("binlog.000001")));
    ensure!(stored? == restored?, "the log differs");
    // Another run without encryption archives nothing, and prints the reason.
    server.sql("insert into d.t values (2, 'two'); flush binary logs")?;
    let ran = receive("encrypted", &["--encrypt", "--archive", &archive.location])?;
    ensure!(ran.code != Some(0) && ran.stderr.contains("would be stored in plain"), "{ran:?}");
    ensure!(archive.manifests()?.len() == 1);
    let ran = archive.run(&[
        "receive",
        &to,
        "--from",
        &from,
        "--archive",
        &archive.location,
        "--encrypt-archive",
    ])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("--encrypt-archive needs --keyring"), "{ran:?}");
    let ran = receive("other", &["--encrypt-archive"])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("--encrypt-archive needs --archive"), "{ran:?}");
    Ok(())
}
