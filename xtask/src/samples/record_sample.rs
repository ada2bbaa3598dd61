//! Records one sample.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use testkit::{Launch, ServerFlavour, TestServer};

use crate::samples::rows::TableRowCounts;
use crate::samples::sample_script::{SampleKind, SampleRecipe, SampleScript};

/// UUIDs of the servers, always the same, so that a new recording differs little from the last.
const UUID_SOURCE: &str = "5ea5ca5e-0001-4000-8000-000000000001";
const UUID_REPLICA: &str = "5ea5ca5e-0002-4000-8000-000000000002";

/// Runs the script on a new server as the recipe describes, and copies the resulting logs to the samples' directory.
/// Returns the server's row counts, if the sample is its only log.
pub(crate) fn record_sample(
    script: &SampleScript,
    recipe: &SampleRecipe,
    directory: &Path,
) -> Result<TableRowCounts> {
    let target = directory.join(&recipe.name);
    if let SampleKind::Log(flavour) = recipe.kind {
        let mut server = launch_source(recipe, flavour).start()?;
        run_script(script, &server, directory)?;
        let counts =
            if recipe.kind.is_one_log() { count_server_rows(&server)? } else { TableRowCounts::new() };
        server.stop()?;
        copy_one(&server, &target)?;
        return Ok(counts);
    }
    record_other_kind(script, recipe, directory, &target)?;
    Ok(TableRowCounts::new())
}

/// Runs the script on a new server as the recipe describes, and returns its row counts.
pub(crate) fn count_sample_rows(
    script: &SampleScript,
    recipe: &SampleRecipe,
    directory: &Path,
) -> Result<TableRowCounts> {
    let server = launch_source(recipe, ServerFlavour::Mysql).start()?;
    run_script(script, &server, directory)?;
    count_server_rows(&server)
}

/// Counts the rows of every table, except those of the server's own databases.
fn count_server_rows(server: &TestServer) -> Result<TableRowCounts> {
    let tables = server.sql(
        "select concat('select ', quote(concat(table_schema, '.', table_name)), ', count(*) from `',
            replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`')
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema') order by 1",
    )?;
    let mut counts = TableRowCounts::new();
    for query in tables.lines() {
        let answer = server.sql(query)?;
        let (table, count) = answer.trim_end().rsplit_once('\t').context("a table and a number")?;
        counts.insert(table.to_owned(), count.parse()?);
    }
    Ok(counts)
}

fn record_other_kind(
    script: &SampleScript,
    recipe: &SampleRecipe,
    directory: &Path,
    target: &Path,
) -> Result<()> {
    match recipe.kind {
        SampleKind::Log(_) => Ok(()),
        SampleKind::Directory(flavour) => {
            let mut server = launch_source(recipe, flavour).start()?;
            run_script(script, &server, directory)?;
            server.stop()?;
            copy_all(&server, "binlog.index", target)
        }
        SampleKind::Killed => record_killed(script, recipe, directory, target),
        SampleKind::Torn => {
            record_killed(script, recipe, directory, target)?;
            let bytes = fs::read(target)?;
            Ok(fs::write(target, &bytes[..bytes.len() - 7])?)
        }
        SampleKind::Relay => record_relay(script, recipe, directory, target),
        SampleKind::Encrypted => {
            let mut server = launch_source(recipe, ServerFlavour::Mysql).keyring().start()?;
            run_script(script, &server, directory)?;
            server.stop()?;
            copy_all(&server, "binlog.index", target)?;
            fs::copy(server.datadir().join("keyring"), target.join("keyring"))?;
            Ok(())
        }
    }
}

fn launch_source(recipe: &SampleRecipe, flavour: ServerFlavour) -> Launch {
    Launch::new(flavour).uuid(UUID_SOURCE).options(recipe.options.iter().cloned())
}

fn record_killed(
    script: &SampleScript,
    recipe: &SampleRecipe,
    directory: &Path,
    target: &Path,
) -> Result<()> {
    let mut server = launch_source(recipe, ServerFlavour::Mysql).start()?;
    run_script(script, &server, directory)?;
    server.kill()?;
    copy_one(&server, target)
}

fn record_relay(script: &SampleScript, recipe: &SampleRecipe, directory: &Path, target: &Path) -> Result<()> {
    let source = launch_source(recipe, ServerFlavour::Mysql).start()?;
    let options = ["--server-id=2", "--relay-log=relay", "--relay-log-purge=OFF", "--skip-replica-start"];
    let mut replica = Launch::mysql().uuid(UUID_REPLICA).options(options).start()?;
    run_script(script, &source, directory)?;
    let executed = source.sql("select replace(@@global.gtid_executed, '\\n', '')")?;
    let (port, executed) = (source.port(), executed.trim());
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {port}, source_user = 'root',
           source_auto_position = 1;
         start replica;
         select wait_for_executed_gtid_set('{executed}', 60);
         flush relay logs;
         stop replica;"
    ))?;
    let missing = replica.sql(&format!("select gtid_subtract('{executed}', @@global.gtid_executed)"))?;
    ensure!(missing.trim().is_empty(), "the replica did not apply {missing}");
    replica.stop()?;
    copy_all(&replica, "relay.index", target)
}

/// Runs the script in the samples' directory, which has its data files. Checks the number of failing statements.
fn run_script(script: &SampleScript, server: &TestServer, directory: &Path) -> Result<()> {
    for (text, failing) in script.sessions() {
        let output = run_client(server, directory, text)?;
        let messages = String::from_utf8_lossy(&output.stderr);
        let failed = messages.lines().filter(|line| line.starts_with("ERROR")).count();
        ensure!(failed == failing, "{failed} statements failed; expected {failing}:\n{messages}");
    }
    Ok(())
}

fn run_client(server: &TestServer, directory: &Path, text: &str) -> Result<Output> {
    let mut command = server.client().command()?;
    command.args(["--batch", "--force", "--binary-mode", "--local-infile=1"]).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("could not run the client")?;
    let mut stdin = child.stdin.take().context("the client has no standard input")?;
    thread::scope(|scope| {
        // A write error means that the client has ended; its output shows the reason.
        scope.spawn(move || stdin.write_all(text.as_bytes()));
        Ok(child.wait_with_output()?)
    })
}

fn copy_one(server: &TestServer, target: &Path) -> Result<()> {
    let logs = server.binlogs()?;
    ensure!(logs.len() == 1, "the server wrote {} logs; expected one", logs.len());
    fs::copy(&logs[0], target)?;
    Ok(())
}

fn copy_all(server: &TestServer, index: &str, target: &Path) -> Result<()> {
    if target.exists() {
        fs::remove_dir_all(target)?;
    }
    fs::create_dir_all(target)?;
    let mut files: Vec<PathBuf> = server.indexed_logs(index)?;
    files.push(server.datadir().join(index));
    for file in files {
        let name = file.file_name().context("a log without a name")?;
        fs::copy(&file, target.join(name)).with_context(|| format!("could not copy {}", file.display()))?;
    }
    Ok(())
}
