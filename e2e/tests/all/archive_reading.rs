//! Commands read only the segments of an archive that they need. The others are missing here, so that reading one of
//! them would be an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::archived::reading_commands;
use e2e::command::{CommandOutput, address, replay};
use e2e::program::bintide;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Launch, ObjectServer, workspace_root};

/// Archive of the six logs of a sample. The first one has the statements, the last one an INSERT.
struct SparseArchive {
    directory: TempDir,
    logs: Vec<PathBuf>,
}

impl SparseArchive {
    /// Creates the archive, and removes all segments but those of the logs of these numbers.
    fn create(kept: &[usize]) -> Result<Self> {
        let samples = workspace_root().join("samples/rotation");
        let logs = (1..=6).map(|number| samples.join(format!("binlog.00000{number}"))).collect();
        let archive = Self { directory: TempDir::new()?, logs };
        let mut command = Command::new(bintide()?);
        let command = command.env_clear().args(["archive", "--to", &archive.location()]).args(&archive.logs);
        let ran = CommandOutput::from(command.output()?);
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let is_kept =
            |name: &str| kept.iter().any(|number| name.starts_with(&format!("binlog.00000{number}.")));
        for segment in fs::read_dir(archive.directory.path().join("segments"))? {
            let segment = segment?;
            if !is_kept(&segment.file_name().to_string_lossy()) {
                fs::remove_file(segment.path())?;
            }
        }
        Ok(archive)
    }

    fn location(&self) -> String {
        self.directory.path().display().to_string()
    }

    /// Returns the GTIDs in the log of this number.
    fn gtids(&self, number: usize) -> Result<String> {
        let manifest = self.directory.path().join(format!("manifests/binlog.00000{number}.json"));
        let manifest: Value = serde_json::from_slice(&fs::read(manifest)?)?;
        Ok(manifest["gtids"].as_str().context("no GTIDs")?.replace('\n', ""))
    }

    /// Runs a command on the archive.
    fn run(&self, arguments: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        Ok(command.env_clear().args(arguments).arg(self.location()).output()?.into())
    }

    /// Checks that a command prints the same for the archive as for the logs.
    fn check_same(&self, arguments: &[&str]) -> Result<()> {
        let found = self.run(arguments)?;
        let mut command = Command::new(bintide()?);
        let expected = CommandOutput::from(command.env_clear().args(arguments).args(&self.logs).output()?);
        ensure!(
            found.code == Some(0) && found.stdout == expected.stdout,
            "{arguments:?}: {found:?} {expected:?}"
        );
        Ok(())
    }

    fn check_missing(&self, arguments: &[&str]) -> Result<()> {
        let ran = self.run(arguments)?;
        ensure!(ran.code != Some(0) && ran.stderr.contains("no segment"), "{arguments:?}: {ran:?}");
        Ok(())
    }
}

#[test]
fn lists_and_histories_read_only_needed_segments() -> Result<()> {
    let archive = SparseArchive::create(&[1, 6])?;
    let last = archive.gtids(6)?;
    let include = format!("--include-gtids={last}");
    for format in ["--transactions", "--json", "--events"] {
        archive.check_same(&["dump", format, &include])?;
    }
    let others = (2..=5).map(|number| archive.gtids(number)).collect::<Result<Vec<_>>>()?;
    let others: Vec<_> = others.into_iter().filter(|gtids| !gtids.is_empty()).collect();
    let exclude = format!("--exclude-gtids={}", others.join(","));
    archive.check_same(&["dump", "--transactions", &exclude])?;
    archive.check_same(&["dump", "--transactions", "--start-datetime=2100-01-01 00:00:00"])?;
    archive.check_same(&["history", "--table=rotation.other", "--where=@1=1"])?;
    // Statements may change any table.
    archive.check_missing(&["history", "--table=rotation.t", "--where=@1=4"])?;
    archive.check_missing(&["dump", "--json", &exclude])?;
    archive.check_missing(&["dump", &include])?;
    // The CREATE TABLE of the first log is harmless if tables are chosen.
    check_undo(&archive)?;
    SparseArchive::create(&[1, 2, 3, 4, 5, 6])?.check_same(&["dump", "-vv", &include])
}

/// Checks that `undo` does not read segments that do not change its tables, or that are before its start.
fn check_undo(archive: &SparseArchive) -> Result<()> {
    let inverse = archive.directory.path().join("inverse.binlog").display().to_string();
    let undo = |arguments: &[&str]| {
        let ran = archive.run(&[&["undo", "-r", &inverse], arguments].concat());
        let _ = fs::remove_file(&inverse);
        ran
    };
    for (arguments, expected) in [
        (&["--table=rotation.other"][..], "nothing to undo"),
        (&["--table=rotation.other", "--start-position=binlog.000001:4"], "nothing to undo"),
        (&["--table=rotation.t", "--start-position=binlog.000006:4"], "deletes 1 row"),
        (&["--table=rotation.t"], "no segment"),
    ] {
        let ran = undo(arguments)?;
        ensure!(ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
    }
    Ok(())
}

/// Commands that read logs read them from an S3 server. The others refuse archives, and name the remedy.
#[test]
fn commands_read_an_archive_on_a_server() -> Result<()> {
    let server = ObjectServer::start()?;
    let location = server.url("read");
    let log = workspace_root().join("samples/types.binlog");
    let run = |arguments: &[&str], input: &Path| -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        command.env_clear().envs(server.variables()).args(arguments);
        Ok(command.arg(input).output()?.into())
    };
    let added = run(&["archive", "--to", &location], &log)?;
    ensure!(added.code == Some(0), "{}", added.stderr);
    let archived = PathBuf::from(format!("{location}/types.binlog"));
    let directory = TempDir::new()?;
    let changes = directory.path().join("changes").display().to_string();
    let text = |ran: &CommandOutput, input: &Path| ran.stdout.replace(&input.display().to_string(), "LOG");
    for arguments in reading_commands(&changes).into_iter().chain([vec!["advise", "--json", "--levels=1"]]) {
        let (found, expected) = (run(&arguments, &archived)?, run(&arguments, &log)?);
        ensure!(found.code == expected.code, "{arguments:?}: {found:?} {expected:?}");
        let is_measured = arguments[0] == "advise";
        let is_same = text(&found, &archived) == text(&expected, &log);
        ensure!(is_measured || is_same, "{arguments:?}: {found:?} {expected:?}");
    }
    let archived_log = archived.to_str().context("the path is not UTF-8")?;
    let ran = run(&["diff", "--order", archived_log], &log)?;
    ensure!(ran.code == Some(0), "{ran:?}");
    check_credential_process(&server, directory.path(), &location)?;
    let target = Launch::mysql().start()?;
    let ran = run(&["replay", "--to", &address("root", &target)], Path::new(&location))?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    for arguments in [&["compress", "--output=new"][..], &["decompress", "--output=new"], &["relay"]] {
        let ran = run(arguments, if arguments[0] == "relay" { Path::new(&location) } else { &archived })?;
        ensure!(ran.code == Some(2) && ran.stderr.contains("archive restore"), "{arguments:?}: {ran:?}");
    }
    Ok(())
}

/// Checks that keys, region and address of the server come from a profile, whose keys a command prints.
fn check_credential_process(server: &ObjectServer, directory: &Path, location: &str) -> Result<()> {
    let variables = server.variables();
    let value = |expected: &str| {
        variables.iter().find(|(name, _)| *name == expected).map(|(_, value)| value).context("no value")
    };
    let keys = json!({
        "Version": 1,
        "AccessKeyId": value("AWS_ACCESS_KEY_ID")?,
        "SecretAccessKey": value("AWS_SECRET_ACCESS_KEY")?,
        "Expiration": "2100-01-01T00:00:00Z",
    });
    let (file, config) = (directory.join("keys.json"), directory.join("config"));
    fs::write(&file, keys.to_string())?;
    let (region, endpoint) = (value("AWS_REGION")?, value("AWS_ENDPOINT_URL")?);
    let check = |process: &str, code: i32, expected: &str| -> Result<()> {
        let profile = format!(
            "[profile printed]\nregion = {region}\nendpoint_url = {endpoint}\ncredential_process = {process}\n"
        );
        fs::write(&config, profile)?;
        let mut command = Command::new(bintide()?);
        command.env_clear().env("AWS_PROFILE", "printed").env("AWS_CONFIG_FILE", &config);
        let ran = CommandOutput::from(command.args(["archive", "ls", location]).output()?);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        ensure!(ran.code == Some(code) && text.contains(expected), "{process}: {ran:?}");
        Ok(())
    };
    check(&format!("/bin/cat '{}'", file.display()), 0, "types.binlog")?;
    check("exit 3", 2, "the credential_process of the AWS profile failed: exit status: 3")
}

/// Credentials that bintide would not find are named, in place of a failed request.
#[test]
fn a_log_of_an_archive_is_read_once() -> Result<()> {
    let archive = SparseArchive::create(&[1, 2, 3, 4, 5, 6])?;
    let totals = |text: &str| -> Result<Value> { Ok(serde_json::from_str::<Value>(text)?["totals"].clone()) };
    let alone = archive.run(&["stats", "--json"])?;
    // The same log by another path, before the whole archive.
    let log = format!("{}/./binlog.000001", archive.location());
    let ran = archive.run(&["stats", "--json", &log])?;
    ensure!(ran.stderr.matches("is given more than once").count() == 1, "{}", ran.stderr);
    ensure!(totals(&ran.stdout)? == totals(&alone.stdout)?, "{}", ran.stdout);
    Ok(())
}

#[test]
fn unsupported_settings_of_a_profile_are_named() -> Result<()> {
    let directory = TempDir::new()?;
    let config = directory.path().join("config");
    fs::write(&config, "[profile backup]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/r\n")?;
    let mut command = Command::new(bintide()?);
    command.env_clear().env("AWS_PROFILE", "backup").env("AWS_CONFIG_FILE", &config);
    let ran = CommandOutput::from(command.args(["archive", "ls", "s3://backups/db1"]).output()?);
    ensure!(ran.code == Some(2) && ran.stderr.contains("by role_arn, which is not supported"), "{ran:?}");
    Ok(())
}

#[test]
fn a_replay_reads_only_segments_that_the_target_lacks() -> Result<()> {
    let archive = SparseArchive::create(&[6])?;
    let target = Launch::mysql().start()?;
    let ran = replay(&archive.logs[..5], &target, &[])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let location = [PathBuf::from(archive.location())];
    let last = archive.gtids(6)?;
    let (uuid, numbers) = last.rsplit_once(':').context("no GTID")?;
    let newest = numbers.rsplit('-').next().context("no GTID")?;
    let stop = format!("{uuid}:{newest}");
    let ran = replay(&location, &target, &["--json", "--stop-after-gtid", &stop])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout)?;
    ensure!(document["transactions"] == 2 && document["skipped"].as_u64() > Some(5), "{document}");
    let rows = target.sql("select a from rotation.t")?;
    ensure!(rows.contains("the last file"), "{rows}");
    let ran = replay(&location, &target, &["--json", "--exclude-gtids", &last])?;
    ensure!(ran.code == Some(0) && ran.stdout.contains("\"transactions\": 0"), "{ran:?}");
    Ok(())
}
