//! Programs that read rewritten logs: `mysqlbinlog`, a source that serves them, a replica that receives or applies
//! them.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use binlog::ZstdLevel;
use e2e::command::CommandOutput;
use e2e::program::bintide;
use rewrite::{
    CompressSettings, CompressedPolicy, ContentCheck, FileJob, MinimumGain, OldFormatPolicy,
    OutputEncryption, ResourcePlan, RewriteAction, RewriteOutcome, RewriteTally, WriteMode, rewrite_file,
};
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer};

/// Sample scripts with transactions of many kinds.
const SCRIPTS: [&str; 6] = ["types", "json", "triggers", "savepoints", "foreign-keys", "partitions"];

fn run_scripts(server: &TestServer) -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    for script in SCRIPTS {
        let path = samples.join(script).with_extension("sql");
        let sql = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        server.sql(&sql)?;
        server.sql("flush binary logs")?;
    }
    Ok(())
}

fn compress(level: u8, keep: MinimumGain) -> Result<RewriteAction> {
    let level = ZstdLevel::new(level).context("not a compression level")?;
    Ok(RewriteAction::Compress(CompressSettings {
        level,
        minimum_gain: keep,
        compressed: CompressedPolicy::Pass,
        event_size_max: 1 << 30,
        old_format: OldFormatPolicy::Refuse,
    }))
}

fn rewrite_all(logs: &[PathBuf], action: RewriteAction, keyring: Option<&Path>) -> Result<RewriteTally> {
    let keyring = keyring.map(logs::read_keyring).transpose()?.map(Arc::new);
    let mut sum = RewriteTally::default();
    for log in logs {
        let before = fs::metadata(log)?.modified()?;
        let plan = ResourcePlan::new(
            action,
            NonZeroUsize::new(2).context("not a number of threads")?,
            300_000_000,
            u64::MAX,
        );
        let job = FileJob {
            source: log,
            target: log,
            action,
            plan,
            keyring: keyring.clone(),
            encryption: OutputEncryption::Preserve,
            check: ContentCheck::Compare,
            write_mode: WriteMode::Write,
            may_replace: &|_| true,
        };
        let file = rewrite_file(&job, &mut |_| ControlFlow::Continue(()))?;
        ensure!(
            fs::metadata(log)?.modified()? == before,
            "{} has a different modification time",
            log.display()
        );
        ensure!((file.outcome == RewriteOutcome::Written) == file.report.tally.is_changed());
        sum.add(&file.report.tally);
    }
    Ok(sum)
}

fn read_with_mysqlbinlog(server: &TestServer, logs: &[PathBuf]) -> Result<()> {
    for log in logs {
        let name = log.display().to_string();
        let output =
            server.home().mysqlbinlog(&["--no-defaults", "--verify-binlog-checksum", "-v", &name], b"")?;
        ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns the checksums of all tables, which replica and source must have in common.
fn checksums(server: &TestServer) -> Result<String> {
    let tables = server.sql(
        "select group_concat('`', table_schema, '`.`', table_name, '`' order by table_schema, table_name)
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema')",
    )?;
    ensure!(tables.contains('.'), "no tables: {tables}");
    server.sql(&format!("checksum table {}", tables.trim()))
}

fn replica() -> Result<TestServer> {
    Launch::mysql()
        .options(["--server-id=2", "--relay-log=relay", "--relay-log-purge=OFF", "--skip-replica-start"])
        .start()
}

fn ends_equal(source: &TestServer, replica: &TestServer) -> Result<()> {
    replica.wait_until_applied(source)?;
    ensure!(checksums(source)? == checksums(replica)?, "source and replica differ");
    Ok(())
}

/// Rewrites the logs of a source while it is down; then a new replica replicates from it.
fn served(launch: &Launch, action: RewriteAction, is_encrypted: bool) -> Result<RewriteTally> {
    let mut source = launch.clone().option("--server-id=1").start()?;
    run_scripts(&source)?;
    source.stop()?;
    serve_rewritten(source, action, is_encrypted)
}

fn serve_rewritten(
    mut source: TestServer,
    action: RewriteAction,
    is_encrypted: bool,
) -> Result<RewriteTally> {
    let keyring = is_encrypted.then(|| source.datadir().join("keyring"));
    let logs = source.binlogs()?;
    let tally = rewrite_all(&logs, action, keyring.as_deref())?;
    if !is_encrypted {
        read_with_mysqlbinlog(&source, &logs)?;
    }
    source.start_again(&[])?;
    let replica = replica()?;
    replica.set_source(&source)?;
    replica.sql("start replica")?;
    ends_equal(&source, &replica)?;
    Ok(tally)
}

#[test]
fn sources_serve_compressed_logs_to_replicas() -> Result<()> {
    let tally = served(&Launch::mysql(), compress(9, MinimumGain::Percent(0))?, false)?;
    ensure!(tally.compressed > 50 && tally.bytes_after < tally.bytes_before, "{tally:?}");
    Ok(())
}

#[test]
fn sources_serve_decompressed_logs_to_replicas() -> Result<()> {
    let launch = Launch::mysql().option("--binlog-transaction-compression=ON");
    let tally = served(&launch, RewriteAction::Decompress, false)?;
    ensure!(tally.opened > 50 && tally.bytes_after > tally.bytes_before, "{tally:?}");
    Ok(())
}

#[test]
fn sources_serve_compressed_encrypted_logs() -> Result<()> {
    let launch = Launch::mysql().keyring().option("--binlog-encryption=ON");
    let tally = served(&launch, compress(3, MinimumGain::None)?, true)?;
    ensure!(tally.compressed > 50, "{tally:?}");
    Ok(())
}

#[test]
fn replicas_apply_compressed_relay_logs() -> Result<()> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    let mut replica = replica()?;
    replica.set_source(&source)?;
    run_scripts(&source)?;
    replica.sql("start replica io_thread")?;
    let all = source.gtid_executed()?;
    let mut received = String::new();
    for _ in 0..600 {
        received = replica.sql(&format!(
            "select gtid_subset('{all}', received_transaction_set)
             from performance_schema.replication_connection_status"
        ))?;
        if received.trim() == "1" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    ensure!(received.trim() == "1", "the replica has not received all transactions");
    replica.stop()?;
    let logs = replica.indexed_logs("relay.index")?;
    let tally = rewrite_all(&logs, compress(3, MinimumGain::None)?, None)?;
    ensure!(tally.compressed > 50, "{tally:?}");
    read_with_mysqlbinlog(&replica, &logs)?;
    replica.start_again(&[])?;
    replica.sql("start replica sql_thread")?;
    ends_equal(&source, &replica)
}

fn run_bintide(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.args(arguments).env_clear().output().context("could not run bintide")
}

#[test]
fn logs_of_a_running_server_are_refused_without_an_option() -> Result<()> {
    let mut source = Launch::mysql().option("--server-id=1").start()?;
    run_scripts(&source)?;
    let datadir = source.datadir().display().to_string();
    let read = |source: &TestServer| -> Result<Vec<Vec<u8>>> {
        source.binlogs()?.iter().map(|log| Ok(fs::read(log)?)).collect()
    };
    let before = read(&source)?;
    let refused = run_bintide(&["compress", &datadir])?;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(2) && message.contains("a server is running in"), "{message}");
    ensure!(
        message.contains(&format!("process {}", source.pid().context("the relay does not run")?)),
        "{message}"
    );
    ensure!(read(&source)? == before, "a log was changed");
    // With the option, the closed logs are rewritten; the server keeps writing to the last log, and serves all of
    // them.
    let told = run_bintide(&["compress", "--live", "--verify", &datadir])?;
    let report = String::from_utf8_lossy(&told.stdout).into_owned();
    ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    ensure!(report.contains("in use, skipped"), "{report}");
    let after = read(&source)?;
    ensure!(after.last() == before.last() && after.first() != before.first(), "{report}");
    run_scripts_again(&source)?;
    let replica = replica()?;
    replica.set_source(&source)?;
    replica.sql("start replica")?;
    ends_equal(&source, &replica)?;
    source.stop()?;
    let stopped = run_bintide(&["compress", &datadir])?;
    ensure!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    Ok(())
}

fn run_scripts_again(server: &TestServer) -> Result<()> {
    server.sql(
        "create database again; create table again.t (id int primary key); insert into again.t values (1)",
    )?;
    Ok(())
}

#[test]
fn logs_of_5_5_and_5_6_have_nothing_to_compress() -> Result<()> {
    let gtids = ["--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates"];
    for (package, more) in
        [(TestPackage::Mysql5_5, &[][..]), (TestPackage::Mysql5_6, &[]), (TestPackage::Mysql5_6, &gtids)]
    {
        let server =
            Launch::of(package).options(["--binlog-format=ROW"]).options(more.iter().copied()).start()?;
        server.sql(
            "create database d; create table d.t (a text) engine = innodb; insert into d.t values ('x')",
        )?;
        server.sql("flush logs")?;
        let log = server.binlogs()?.first().context("no log")?.clone();
        let (directory, version) = (TempDir::new()?, server.sql("select @@version")?);
        for (option, code) in [(Some("--upgrade-format"), 0), (None, 1)] {
            let mut command = Command::new(bintide()?);
            command.env_clear().arg("compress").args(option).arg("--output").arg(directory.path()).arg(&log);
            let ran: CommandOutput = command.output()?.into();
            let expected = "MySQL before 5.7 does not mark transactions that have only row changes";
            ensure!(ran.code == Some(code) && ran.stderr.contains(expected), "{ran:?}");
            ensure!(ran.stderr.contains(&format!("MySQL {}", version.trim())), "{ran:?}");
            fs::remove_file(directory.path().join(log.file_name().context("no name")?))
                .or_else(|error| if option.is_none() { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}
