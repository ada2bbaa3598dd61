//! Folders with surprises in them: an index that names files elsewhere, a server's own logs, pipes and symbolic links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::Ran;
use e2e::program::bintide;
use tempfile::TempDir;
use testkit::{Launch, Server};

const TABLE: &str = "create database d; create table d.t (a int primary key auto_increment, b longtext)";

fn receive(server: &Server, folder: &Path) -> Result<Command> {
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("receive").arg(folder).args(["--from", &from, "-q", "--stop-at-end"]);
    Ok(command)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path is text")
}

/// Each file of a folder.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let entries = fs::read_dir(folder)?.map(|entry| {
        let path = entry?.path();
        Ok((path.clone(), fs::read(path)?))
    });
    entries.collect()
}

/// A server that writes its logs to a folder of their own: its index has absolute paths.
fn server_with_logs_in(folder: &Path) -> Result<Server> {
    let server = Launch::mysql().option(format!("--log-bin={}/binlog", folder.display())).start()?;
    server.sql(TABLE)?;
    server
        .sql("insert into d.t (b) values ('one'); flush binary logs; insert into d.t (b) values ('two')")?;
    Ok(server)
}

/// Copies a folder's files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (path, bytes) in files(from)? {
        fs::write(to.join(path.file_name().context("a file has a name")?), bytes)?;
    }
    Ok(())
}

#[test]
fn receive_writes_to_no_logs_but_its_own() -> Result<()> {
    let place = TempDir::new()?;
    let live = place.path().join("live");
    fs::create_dir(&live)?;
    let server = server_with_logs_in(&live)?;
    let before = files(&live)?;
    let refused = |folder: &Path, wanted: &str| -> Result<()> {
        let ran = Ran::from(receive(&server, folder)?.output()?);
        ensure!(ran.code == Some(2) && ran.stderr.contains(wanted), "{wanted}: {ran:?}");
        ensure!(files(&live)? == before, "{wanted}: the server's logs were changed");
        Ok(())
    };
    // The folder of the server's logs; also where somebody marks it as a store.
    refused(&live, "which bintide receive did not write")?;
    fs::write(live.join("bintide.lock"), "")?;
    let ran = Ran::from(receive(&server, &live)?.output()?);
    fs::remove_file(live.join("bintide.lock"))?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("line 1 is \"/"), "{ran:?}");
    // A copy of it, whose index still names the server's own files.
    let folder = place.path().join("copy");
    copy(&live, &folder)?;
    refused(&folder, "which bintide receive did not write")?;
    fs::write(folder.join("bintide.lock"), "")?;
    refused(&folder, "line 1 is \"/")?;
    let up = fs::read_to_string(folder.join("binlog.index"))?
        .replace(text(place.path())?, "..")
        .replacen("../live/", "./", 1);
    fs::write(folder.join("binlog.index"), &up)?;
    refused(&folder, "line 2 is \"../live/binlog.000002\"")?;
    // A store of ours, whose last log is the server's file by another name.
    let store = place.path().join("store");
    let ran = Ran::from(receive(&server, &store)?.output()?);
    ensure!(ran.code == Some(0), "{ran:?}");
    fs::remove_file(store.join("binlog.000002"))?;
    fs::hard_link(live.join("binlog.000002"), store.join("binlog.000002"))?;
    refused(&store, "has binlog.000002 open to write; give a directory that only bintide receive writes to")?;
    Ok(())
}
