//! Directories with unusual contents: an index of files elsewhere, a server's own logs, named pipes and symbolic
//! links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, CommandOutput};
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{Launch, TestServer, wait_until};

const TABLE: &str = "create database d; create table d.t (a int primary key auto_increment, b longtext)";

fn receive(server: &TestServer, directory: &Path) -> Result<Command> {
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("receive").arg(directory).args(["--from", &from, "-q", "--stop-at-end"]);
    Ok(command)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// Returns the files of a directory.
fn files(directory: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let entries = fs::read_dir(directory)?.map(|entry| {
        let path = entry?.path();
        Ok((path.clone(), fs::read(path)?))
    });
    entries.collect()
}

/// Starts a server with its logs in a separate directory: its index has absolute paths.
fn server_with_logs_in(directory: &Path) -> Result<TestServer> {
    let server = Launch::mysql().option(format!("--log-bin={}/binlog", directory.display())).start()?;
    server.sql(TABLE)?;
    server
        .sql("insert into d.t (b) values ('one'); flush binary logs; insert into d.t (b) values ('two')")?;
    Ok(server)
}

/// Copies a directory's files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (path, bytes) in files(from)? {
        fs::write(to.join(path.file_name().context("a file without a name")?), bytes)?;
    }
    Ok(())
}

#[test]
fn receive_writes_only_to_its_own_logs() -> Result<()> {
    let parent = TempDir::new()?;
    let live = parent.path().join("live");
    fs::create_dir(&live)?;
    let server = server_with_logs_in(&live)?;
    let before = files(&live)?;
    let refused = |directory: &Path, expected: &str| -> Result<()> {
        let ran = CommandOutput::from(receive(&server, directory)?.output()?);
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{expected}: {ran:?}");
        ensure!(files(&live)? == before, "{expected}: the server's logs were changed");
        Ok(())
    };
    // The directory of the server's logs, also when it is marked as a store.
    refused(&live, "which bintide receive did not write")?;
    fs::write(live.join("bintide.lock"), "")?;
    let ran = CommandOutput::from(receive(&server, &live)?.output()?);
    fs::remove_file(live.join("bintide.lock"))?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("line 1 is \"/"), "{ran:?}");
    // A copy of the directory, whose index still names the server's own files.
    let directory = parent.path().join("copy");
    copy(&live, &directory)?;
    refused(&directory, "which bintide receive did not write")?;
    fs::write(directory.join("bintide.lock"), "")?;
    refused(&directory, "line 1 is \"/")?;
    let up = fs::read_to_string(directory.join("binlog.index"))?
        .replace(text(parent.path())?, "..")
        .replacen("../live/", "./", 1);
    fs::write(directory.join("binlog.index"), &up)?;
    refused(&directory, "line 2 is \"../live/binlog.000002\"")?;
    // A store whose last log is a hard link to the server's file.
    let store = parent.path().join("store");
    let ran = CommandOutput::from(receive(&server, &store)?.output()?);
    ensure!(ran.code == Some(0), "{ran:?}");
    fs::remove_file(store.join("binlog.000002"))?;
    fs::hard_link(live.join("binlog.000002"), store.join("binlog.000002"))?;
    refused(
        &store,
        "has binlog.000002 open for writing; give a directory that only bintide receive writes to",
    )?;
    Ok(())
}

fn run(arguments: &[&str]) -> Result<CommandOutput> {
    Ok(Command::new(bintide()?).env_clear().args(arguments).output()?.into())
}

/// Commands that read logs, with the arguments after the logs.
const READERS: [&[&str]; 8] = [
    &["verify"],
    &["stats"],
    &["dump"],
    &["replay", "--dry-run", "--offline", "--to", "mysql://root@localhost/"],
    &["stream", "--format", "maxwell"],
    &["advise", "--all"],
    &["compress", "--dry-run"],
    &["decompress", "--dry-run"],
];

/// The original log is valid and its copy is damaged: commands read the copy, and report that the index names
/// another file.
#[test]
fn copied_logs_are_read_instead_of_the_originals() -> Result<()> {
    let parent = TempDir::new()?;
    let live = parent.path().join("live");
    fs::create_dir(&live)?;
    let mut server = server_with_logs_in(&live)?;
    server.stop()?;
    let directory = parent.path().join("copy");
    copy(&live, &directory)?;
    let mut damaged = fs::read(directory.join("binlog.000001"))?;
    let at = damaged.len() - 40;
    damaged[at..].fill(0xff);
    fs::write(directory.join("binlog.000001"), &damaged)?;
    for words in READERS {
        for given in [text(&directory)?, text(&directory.join("binlog.index"))?] {
            let of_copy = run(&[words, &[given]].concat())?;
            let of_log = run(&[words, &[text(&directory.join("binlog.000001"))?]].concat())?;
            ensure!(
                of_copy.code == of_log.code,
                "{words:?}: {of_copy:?}, and the damaged log alone {of_log:?}"
            );
            ensure!(words[0] == "decompress" || of_copy.code != Some(0), "{words:?}: {of_copy:?}");
            let remark = format!("binlog.index: line 1 names {}/binlog.000001; ", live.display());
            ensure!(of_copy.stderr.contains(&remark), "{words:?}: {of_copy:?}");
        }
    }
    // The directory of the originals, and an index without logs beside it.
    let index = parent.path().join("index");
    fs::create_dir(&index)?;
    fs::copy(live.join("binlog.index"), index.join("binlog.index"))?;
    for given in [text(&live)?, text(&index.join("binlog.index"))?] {
        let ran = run(&["verify", given])?;
        ensure!(ran.code == Some(0) && ran.stderr.is_empty(), "{ran:?}");
    }
    let ran = run(&["verify", text(&index)?])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("give the index itself"), "{ran:?}");
    Ok(())
}

/// A named pipe in place of a log or an index would block; pipes named as arguments are read.
#[test]
fn named_pipes_in_directories_are_refused() -> Result<()> {
    let parent = TempDir::new()?;
    let directory = parent.path().join("directory");
    fs::create_dir(&directory)?;
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/gtids/binlog.000001");
    fs::copy(&sample, directory.join("binlog.000001"))?;
    let fifo = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU);
    fifo(&directory.join("binlog.000002"))?;
    fs::write(directory.join("binlog.index"), "./binlog.000001\n./binlog.000002\n")?;
    let refused = |given: &Path| -> Result<()> {
        for words in READERS {
            let mut child = ChildGuard::start(
                Command::new(bintide()?)
                    .env_clear()
                    .args(words)
                    .arg(given)
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped()),
            )?;
            wait_until(&format!("the end of {words:?}"), || Ok(child.try_wait()?.is_some()))?;
            let ran = CommandOutput::from(child.output()?);
            ensure!(ran.code != Some(0) && ran.stderr.contains("not a regular file"), "{words:?}: {ran:?}");
        }
        Ok(())
    };
    refused(&directory)?;
    fs::remove_file(directory.join("binlog.index"))?;
    fifo(&directory.join("binlog.index"))?;
    refused(&directory)?;
    refused(&directory.join("binlog.index"))?;
    // Pipes named as arguments.
    for line in [
        r#""$0" stats <(cat "$1")"#,
        r#""$0" verify /dev/stdin < "$1""#,
        r#"cat "$1" | "$0" dump -"#,
        r#""$0" dump <(cat "$1")"#,
    ] {
        let ran = CommandOutput::from(
            Command::new("bash").args(["-c", line]).arg(bintide()?).arg(&sample).output()?,
        );
        ensure!(ran.code == Some(0), "{line}: {ran:?}");
    }
    Ok(())
}

/// Two writers of one progress file would each skip the other's records.
#[test]
fn progress_files_have_one_writer() -> Result<()> {
    let server = Launch::mysql().start()?;
    let parent = TempDir::new()?;
    let progress = parent.path().join("progress");
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let words = ["stream", "--format", "maxwell", "--from", &from, "--progress", text(&progress)?];
    let mut command = Command::new(bintide()?);
    command.env_clear().args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut first = ChildGuard::start(&mut command)?;
    let lock = parent.path().join("progress.lock");
    wait_until("the first one's lock", || Ok(lock.exists()))?;
    let second = run(&words)?;
    ensure!(second.code == Some(2) && second.stderr.contains("in use by another process"), "{second:?}");
    first.interrupt()?;
    first.wait()?;
    ensure!(!lock.exists(), "the lock file remains");
    let third = run(&[&words[..], &["--stop-at-end"]].concat())?;
    ensure!(third.code == Some(0), "{third:?}");
    Ok(())
}

/// A link could point to any file that the user may write to.
#[test]
fn targets_of_symbolic_links_are_not_changed() -> Result<()> {
    let server = Launch::mysql().start()?;
    let parent = TempDir::new()?;
    let target = parent.path().join("target");
    fs::write(&target, "text")?;
    for name in ["bintide.lock", "replica.cnf.new", "binlog.000001", "binlog.index"] {
        let directory = parent.path().join(format!("store-{name}"));
        fs::create_dir(&directory)?;
        std::os::unix::fs::symlink(&target, directory.join(name))?;
        if name != "bintide.lock" {
            // Otherwise, the directory of an index is refused before its files are opened.
            fs::write(directory.join("bintide.lock"), "")?;
        }
        let ran = CommandOutput::from(receive(&server, &directory)?.output()?);
        ensure!(ran.code != Some(0) && ran.stderr.contains(name), "{name}: {ran:?}");
        let is_named = name != "binlog.000001" || ran.stderr.contains("it is a symbolic link");
        ensure!(is_named, "{name}: {ran:?}");
        ensure!(fs::read(&target)? == b"text", "{name}: the target of the link was changed");
    }
    Ok(())
}
