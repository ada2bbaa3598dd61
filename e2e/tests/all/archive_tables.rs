//! `bintide archive --change-tables`: the tables in the archive are those of `bintide export`, and other programs read
//! them there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command::{CommandOutput, address};
use e2e::program::bintide;
use e2e::readers::read_back;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, ObjectServer, workspace_root};

/// Runs bintide with these variables.
fn run(variables: &[(&'static str, String)], arguments: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(bintide()?);
    Ok(command.env_clear().envs(variables.iter().cloned()).args(arguments).output()?.into())
}

fn run_well(variables: &[(&'static str, String)], arguments: &[&str]) -> Result<CommandOutput> {
    let ran = run(variables, arguments)?;
    ensure!(ran.code == Some(0), "{arguments:?}: {}", ran.stderr);
    Ok(ran)
}

fn samples(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| workspace_root().join("samples").join(name).display().to_string()).collect()
}

/// Returns the Parquet files of a directory, by their names below it.
fn parquet_files(directory: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut files, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "parquet") {
                files.insert(path.strip_prefix(directory)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// Logs with tables of all types, special names, and definitions that change.
const LOGS: [&str; 4] = ["types.binlog", "charsets.binlog", "ddl.binlog", "json.binlog"];

#[test]
fn tables_are_those_of_export() -> Result<()> {
    let directory = TempDir::new()?;
    let archive = directory.path().join("archive").display().to_string();
    let changes = directory.path().join("changes").display().to_string();
    let logs = samples(&LOGS);
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    // Two runs, so that the second one finds the definitions of the first one.
    for part in [&logs[..2], &logs[2..]] {
        let arguments =
            [&["archive", "--change-tables", "--skip-statements", "--to", &archive], part].concat();
        let ran = run_well(&[], &arguments)?;
        ensure!(ran.stderr.contains("; change tables of "), "{}", ran.stderr);
    }
    let export = ["export", "--columns=numbered", "--skip-statements", "--to", &changes];
    run_well(&[], &[&export[..], &logs].concat())?;
    let (found, expected) =
        (parquet_files(&directory.path().join("archive/tables"))?, parquet_files(Path::new(&changes))?);
    ensure!(found.len() > 10 && found == expected, "{:?}; expected {:?}", found.keys(), expected.keys());
    let pattern = format!("{archive}/tables/database=*/table=*/**/*.parquet");
    let sql = format!("select count(*) from read_parquet('{pattern}', union_by_name = true)");
    let (read, exported) = (read_back("query.py", &[sql])?, export_rows(&logs)?);
    ensure!(read.trim() == exported.to_string(), "{read}: expected {exported}");
    let document: Value =
        serde_json::from_str(&run_well(&[], &["archive", "ls", &archive, "--json"])?.stdout)?;
    let logs = document["logs"].as_array().context("no list of logs")?;
    let names = logs.iter().flat_map(|log| log["change_tables"]["files"].as_array().into_iter().flatten());
    ensure!(names.count() == found.len(), "{document}");
    ensure!(run_well(&[], &["archive", "ls", &archive])?.stdout.contains(" of change tables"));
    run_well(&[], &["archive", "verify", &archive])?;
    run_well(&[], &["archive", "prune", &archive, "--keep", "1k"])?;
    // The newest log is kept.
    let left = parquet_files(&directory.path().join("archive/tables"))?;
    let newest = left.keys().all(|name| found.contains_key(name)) && left.len() < found.len() / 2;
    ensure!(newest, "{:?}", left.keys());
    Ok(())
}

fn export_rows(logs: &[&str]) -> Result<u64> {
    let directory = TempDir::new()?;
    let to = directory.path().display().to_string();
    let export = ["export", "--columns=numbered", "--skip-statements", "--json", "--to", &to];
    let document: Value = serde_json::from_str(&run_well(&[], &[&export[..], logs].concat())?.stdout)?;
    document["row_changes"].as_u64().context("no number of row changes")
}

#[test]
fn readers_read_tables_on_an_object_store() -> Result<()> {
    let server = ObjectServer::start()?;
    let (variables, location) = (server.variables(), server.url("tables"));
    let logs = samples(&["types.binlog"]);
    let arguments = ["archive", "--change-tables", "--to", &location, &logs[0]];
    run_well(&variables, &arguments)?;
    let value = |expected: &str| {
        variables
            .iter()
            .find(|(name, _)| *name == expected)
            .map(|(_, value)| value.clone())
            .context("no value")
    };
    let prefix = format!("{}/tables/tables", ObjectServer::BUCKET);
    let login = [value("AWS_ENDPOINT_URL")?, value("AWS_ACCESS_KEY_ID")?, value("AWS_SECRET_ACCESS_KEY")?];
    let read = read_back("s3.py", &[&login[..], &[prefix]].concat())?;
    let expected = export_rows(&[&logs[0]])?;
    ensure!(read.trim() == expected.to_string(), "{read}: expected {expected}");
    check_export(&server, &login)?;
    damage_is_found(&server, &location)
}

/// Checks an export to the server: the files are those of an export to a directory, also after a second run.
fn check_export(server: &ObjectServer, login: &[String; 3]) -> Result<()> {
    let (variables, location) = (server.variables(), server.url("exported"));
    let logs = samples(&["types.binlog", "json.binlog"]);
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    let directory = TempDir::new()?;
    let local = directory.path().display().to_string();
    let to = |to, more: &[&'static str]| {
        let export: [&str; 5] = ["export", "--columns=numbered", "--json", "--to", to];
        run(&variables, &[&export[..], more, &logs].concat())
    };
    let expected = to(&local, &[])?;
    let prefix = format!("{}/exported", ObjectServer::BUCKET);
    for _ in 0..2 {
        let found = to(&location, &[])?;
        ensure!(found.code == Some(0) && found.stdout == expected.stdout, "{found:?} {expected:?}");
        let read = read_back("s3.py", &[&login[..], std::slice::from_ref(&prefix)].concat())?;
        let document: Value = serde_json::from_str(&found.stdout)?;
        ensure!(read.trim().parse().ok() == document["row_changes"].as_u64(), "{read}: {document}");
    }
    for name in parquet_files(directory.path())?.keys() {
        ensure!(
            server.read(&format!("exported/{}", name.display())).is_ok(),
            "{} is missing",
            name.display()
        );
    }
    let refused = to(&location, &["--table=types.integers"])?;
    ensure!(
        refused.code == Some(2) && refused.stderr.contains("selection would replace its files"),
        "{refused:?}"
    );
    Ok(())
}

/// Checks that `verify` finds a changed, a truncated and a missing table.
fn damage_is_found(server: &ObjectServer, location: &str) -> Result<()> {
    let variables = server.variables();
    let document: Value =
        serde_json::from_str(&run_well(&variables, &["archive", "ls", location, "--json"])?.stdout)?;
    let name = document["logs"][0]["change_tables"]["files"][0]["name"].as_str().context("no table")?;
    let object = format!("tables/{name}");
    let table = server.read(&object)?;
    let mut changed = table.clone();
    changed[table.len() / 2] ^= 1;
    for (bytes, expected) in [(&changed[..], "have the SHA-256 in"), (&table[1..], "have the size in")] {
        server.write(&object, bytes)?;
        let ran = run(&variables, &["archive", "verify", location])?;
        ensure!(
            ran.code == Some(1) && ran.stdout.contains(expected),
            "{expected}: {} {}",
            ran.stdout,
            ran.stderr
        );
    }
    Ok(())
}

/// Tables that are requested later are added, and a lost table is written again. The segment is kept.
#[test]
fn missing_tables_are_written_beside_the_segment() -> Result<()> {
    let directory = TempDir::new()?;
    let archive = directory.path().join("archive");
    let location = archive.display().to_string();
    let log = &samples(&["types.binlog"])[0];
    let segments = || -> Result<Vec<PathBuf>> {
        fs::read_dir(archive.join("segments"))?.map(|entry| Ok(entry?.path())).collect()
    };
    run_well(&[], &["archive", "--to", &location, log])?;
    let segment = segments()?;
    let add = ["archive", "--change-tables", "--to", &location, log];
    let ran = run_well(&[], &add)?;
    ensure!(!ran.stderr.contains("written again"), "{}", ran.stderr);
    let tables = parquet_files(&archive.join("tables"))?;
    let (lost, _) = tables.first_key_value().context("no tables")?;
    fs::remove_file(archive.join("tables").join(lost))?;
    ensure!(run(&[], &["archive", "verify", &location])?.code == Some(1));
    let ran = run_well(&[], &add)?;
    ensure!(ran.stderr.contains("it was written again"), "{}", ran.stderr);
    ensure!(parquet_files(&archive.join("tables"))? == tables, "other tables were written");
    ensure!(segments()? == segment, "the segment was written again");
    run_well(&[], &["archive", "verify", &location])?;
    Ok(())
}

/// The log of a server with default settings has no column names and no texts of ENUM. They come from the server.
#[test]
fn tables_have_the_column_names_of_a_server() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(
        "create database d; create table d.orders (id int primary key, status enum('new', 'paid'));
        insert into d.orders values (1, 'new'), (2, 'paid'), (3, 'paid'); flush binary logs",
    )?;
    let log = server.binlogs()?[0].display().to_string();
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let schema = address("root", &server);
    let add = ["archive", "--change-tables", "--no-defaults", "--schema"];
    let (archive, absent) = (path("archive"), path("absent"));
    run_well(&[], &[&add[..], &[&schema, "--to", &archive, &log]].concat())?;
    let pattern = format!("{archive}/tables/database=d/table=orders/**/*.parquet");
    let sql = format!("select sum(after.id) from read_parquet('{pattern}') where after.status = 'paid'");
    let read = read_back("query.py", &[sql])?;
    ensure!(read.trim() == "5", "{read}");
    let from = ["--from", schema.as_str(), "--no-defaults", "--stop-at-end", "--change-tables"];
    let (received, kept) = (path("received"), path("kept"));
    run_well(&[], &[&["receive", &received, "--archive", &kept][..], &from].concat())?;
    let tables = |archive: &str| parquet_files(&Path::new(archive).join("tables/database=d"));
    ensure!(tables(&kept)? == tables(&archive)?, "receive --archive has written other tables");
    // Nothing is written in part while the server does not answer.
    let ran = run(&[], &[&add[..], &["mysql://root@127.0.0.1:1/", "--to", &absent, &log]].concat())?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("--schema"), "{ran:?}");
    ensure!(!Path::new(&absent).join("tables").exists());
    let ran = run(&[], &["archive", "--schema", &schema, "--to", &absent, &log])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("--change-tables"), "{ran:?}");
    Ok(())
}

#[test]
fn logs_without_known_rows_are_archived_without_tables() -> Result<()> {
    let directory = TempDir::new()?;
    let archive = directory.path().join("archive").display().to_string();
    let logs = samples(&["statements.binlog", "torn.binlog"]);
    let ran = run_well(&[], &["archive", "--change-tables", "--to", &archive, &logs[0], &logs[1]])?;
    ensure!(ran.stderr.matches("has no change tables in the archive: ").count() == 2, "{}", ran.stderr);
    ensure!(!directory.path().join("archive/tables/database=d").exists());
    run_well(&[], &["archive", "verify", &archive])?;
    let document: Value =
        serde_json::from_str(&run_well(&[], &["archive", "ls", &archive, "--json"])?.stdout)?;
    ensure!(document["logs"][1]["change_tables"]["missing"].is_string(), "{document}");
    // The same reason changes nothing; without the reason, the tables are written.
    let again = run_well(&[], &["archive", "--change-tables", "--to", &archive, &logs[0]])?;
    ensure!(!again.stderr.contains("has no change tables"), "{}", again.stderr);
    let add = ["archive", "--change-tables", "--skip-statements", "--to", &archive, &logs[0]];
    run_well(&[], &add)?;
    let listed = run_well(&[], &["archive", "ls", &archive, "--json"])?.stdout;
    let document: Value = serde_json::from_str(&listed)?;
    let missing = &document["logs"][0]["change_tables"]["missing"];
    ensure!(missing.is_null(), "{document}");
    Ok(())
}

/// Two processes add columns of the same tables at the same time: the names of one log, and numbers for the other log,
/// which lacks names. Neither list may lose the columns of the other process.
#[test]
fn writers_at_the_same_time_keep_all_columns() -> Result<()> {
    const ROUNDS: usize = 6;
    let directory = TempDir::new()?;
    let server = ObjectServer::start()?;
    let logs = samples(&["charsets.binlog", "charsets-full-metadata.binlog"]);
    let one_by_one = directory.path().join("expected").display().to_string();
    for log in &logs {
        run_well(&[], &["archive", "--change-tables", "--to", &one_by_one, log])?;
    }
    let expected = column_lines(Path::new(&one_by_one))?;
    ensure!(
        expected.values().all(|lines| lines.iter().any(|line| line.starts_with("%401\t"))),
        "{expected:?}"
    );
    for round in 0..ROUNDS {
        let path = directory.path().join(format!("round-{round}"));
        archive_at_once(&[], &path.display().to_string(), &logs)?;
        ensure!(column_lines(&path)? == expected, "{:?}", column_lines(&path)?);
        let url = server.url(&format!("round-{round}"));
        archive_at_once(&server.variables(), &url, &logs)?;
        for (name, lines) in &expected {
            // One process has created the list, and the other one its second revision.
            let list = server
                .read(&format!("round-{round}/tables/_bintide/database={name}@2"))
                .context("no revision")?;
            ensure!(sorted_lines(&String::from_utf8(list)?) == *lines, "{name}");
        }
    }
    Ok(())
}

fn archive_at_once(variables: &[(&'static str, String)], location: &str, logs: &[String]) -> Result<()> {
    let start = |log: &String| -> Result<_> {
        let mut command = Command::new(bintide()?);
        command.env_clear().envs(variables.iter().cloned());
        command.args(["archive", "--change-tables", "--to", location, log]);
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    };
    let children = logs.iter().map(start).collect::<Result<Vec<_>>>()?;
    for child in children {
        let ran = CommandOutput::from(child.wait_with_output()?);
        ensure!(ran.code == Some(0), "{}", ran.stderr);
    }
    Ok(())
}

/// Returns the lines of the newest list of columns of each table, sorted.
fn column_lines(archive: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut newest: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
    for database in fs::read_dir(archive.join("tables/_bintide"))? {
        for list in fs::read_dir(database?.path())? {
            let path = list?.path();
            let name = path.display().to_string();
            let name = name.rsplit_once("/database=").context("no database")?.1;
            let (name, revision) = match name.rsplit_once('@') {
                Some((name, revision)) => (name, revision.parse()?),
                None => (name, 1),
            };
            let lines = sorted_lines(&fs::read_to_string(&path)?);
            let known = newest.entry(name.to_owned()).or_default();
            if known.0 < revision {
                *known = (revision, lines);
            }
        }
    }
    Ok(newest.into_iter().map(|(name, (_, lines))| (name, lines)).collect())
}

fn sorted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
