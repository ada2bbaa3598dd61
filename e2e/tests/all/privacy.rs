//! Data of one user is not visible to other users of the machine: passwords, logs, copies of tables.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, CommandOutput};
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{Launch, UnresponsivePort, wait_until};

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// `ps` shows the arguments of all processes to all users.
#[test]
fn passwords_are_hidden_in_the_process_list() -> Result<()> {
    let unresponsive = UnresponsivePort::open()?;
    let directory = TempDir::new()?;
    let store = directory.path().join("store");
    let store = store.to_str().context("a path that is not UTF-8")?;
    let port = unresponsive.port().to_string();
    let address = format!("mysql://root:se%2Fcret@127.0.0.1:{port}/");
    let dump =
        ["dump", "--no-defaults", "-R", "-h127.0.0.1", "-uroot", "-P", &port, "-vpse/cret", "binlog.000001"];
    for arguments in [&dump[..], &["receive", store, "--from", &address]] {
        let child = ChildGuard::start(&mut command(arguments)?)?;
        let list = PathBuf::from(format!("/proc/{}/cmdline", child.id()));
        let shown = || -> Result<String> { Ok(fs::read_to_string(&list)?.replace('\0', " ")) };
        // During exec, the process has no arguments.
        wait_until("a line without a password", || {
            let shown = shown()?;
            Ok(shown.contains(arguments[0]) && shown.contains("127.0.0.1") && !shown.contains("cret"))
        })?;
        let name = fs::read_to_string(format!("/proc/{}/comm", child.id()))?;
        ensure!(name.trim_end() == "bintide", "the process name is {name}");
        wait_until("the end of the file with the password", || {
            let mut files = fs::read_dir(format!("/proc/{}/fd", child.id()))?.flatten();
            Ok(!files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.starts_with("/memfd:"))))
        })?;
    }
    Ok(())
}

/// A password that is hidden from the process list still works.
#[test]
fn passwords_on_the_command_line_log_in() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create user s@'%' identified by 's p''t\\nx'; grant replication slave on *.* to s@'%'")?;
    let port = server.port().to_string();
    let run = |password: &str| -> Result<CommandOutput> {
        let password = format!("-p{password}");
        let mut arguments = vec!["dump", "--no-defaults", "-R", "-h127.0.0.1", "-us", "-P", &port];
        arguments.extend(["--get-server-public-key", &password, "binlog.000001"]);
        Ok(command(&arguments)?.output()?.into())
    };
    let ran = run("s p't\nx")?;
    ensure!(ran.code == Some(0) && ran.stdout.contains("BINLOG"), "{ran:?}");
    let ran = run("wrong")?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("Access denied"), "{ran:?}");
    Ok(())
}

#[test]
fn copies_of_tables_and_logs_are_private() -> Result<()> {
    let directory = TempDir::new()?;
    let database = directory.path().join("copy.db");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/gtids/binlog.000001");
    let to = format!("sqlite:{}", database.display());
    let sample = sample.to_str().context("a path that is not UTF-8")?;
    let ran = CommandOutput::from(command(&["replay", sample, "--to", &to])?.output()?);
    ensure!(ran.code == Some(0), "{ran:?}");
    ensure!(mode(&database)? & 0o137 == 0, "{:o}", mode(&database)?);
    // The command waits for a connection; its directory already exists.
    let unresponsive = UnresponsivePort::open()?;
    let temporary = directory.path().join("temporary");
    fs::create_dir(&temporary)?;
    let from = format!("mysql://root@127.0.0.1:{}/", unresponsive.port());
    let _child = ChildGuard::start(command(&["advise", "--from", &from])?.env("TMPDIR", &temporary))?;
    let made =
        || -> Result<Vec<PathBuf>> { fs::read_dir(&temporary)?.map(|entry| Ok(entry?.path())).collect() };
    wait_until("a temporary directory", || Ok(!made()?.is_empty()))?;
    for path in made()? {
        ensure!(mode(&path)? == 0o700, "{} {:o}", path.display(), mode(&path)?);
    }
    Ok(())
}
