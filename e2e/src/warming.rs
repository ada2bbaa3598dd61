//! Replicas that lag, and `bintide warm` beside them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::{Launch, TestServer, wait_until};

use crate::json_schema::check_document;
use crate::metrics::{number, scraped};
use crate::program::bintide;

/// Options of a replica whose applier does not start by itself, and whose buffer pool is empty at the start.
pub const REPLICA: [&str; 7] = [
    "--server-id=2",
    "--relay-log=relay",
    "--skip-replica-start",
    "--skip-log-bin",
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-buffer-pool-dump-at-shutdown=OFF",
    "--innodb-change-buffering=none",
];

/// A running `bintide warm`.
#[derive(Debug)]
pub struct Warming {
    /// The process; `None` after it has ended.
    child: Option<Child>,
    address: String,
    stderr: BufReader<ChildStderr>,
}

/// Starts a source and a replica, and waits until the replica has applied `sql`.
///
/// # Errors
///
/// Fails if a server does not start, or the source refuses a statement.
pub fn pair(source: &Launch, replica: &Launch, sql: &str) -> Result<(TestServer, TestServer)> {
    let source = source.start()?;
    source.sql(sql)?;
    let replica = replica.clone().options(REPLICA).start()?;
    replica.replicate_from(&source)?;
    replica.wait_until_applied(&source)?;
    Ok((source, replica))
}

/// Runs SQL on the source while the replica receives it but does not apply it. Stops the replica, and returns its
/// data directory.
///
/// # Errors
///
/// Fails if a server refuses a statement.
pub fn leave_behind(source: &TestServer, replica: &mut TestServer, sql: &str) -> Result<PathBuf> {
    replica.sql("stop replica sql_thread")?;
    source.sql(sql)?;
    wait_until_received(source, replica)?;
    replica.sql("stop replica")?;
    replica.stop()?;
    Ok(replica.datadir())
}

/// Waits until the replica has received all transactions of the source, in any of its channels.
///
/// # Errors
///
/// Fails if the replica has not received them after the timeout.
pub fn wait_until_received(source: &TestServer, replica: &TestServer) -> Result<()> {
    let all = source.sql("select @@gtid_executed")?;
    let received = format!(
        "select max(gtid_subset('{}', concat(received_transaction_set, ',', @@global.gtid_executed)))
         from performance_schema.replication_connection_status",
        all.trim().replace('\n', "")
    );
    wait_until("the transactions of the source", || Ok(replica.sql(&received)?.trim() == "1"))
}

/// Starts a replica on a copy of this data directory, with an empty buffer pool.
///
/// # Errors
///
/// Fails if the replica does not start.
pub fn cold(data: &Path, more: &[&str]) -> Result<TestServer> {
    cold_as(&Launch::mysql(), data, more)
}

/// Starts such a replica with these launch options.
///
/// # Errors
///
/// Fails if the replica does not start.
pub fn cold_as(launch: &Launch, data: &Path, more: &[&str]) -> Result<TestServer> {
    launch.clone().options(REPLICA).options(more.iter().copied()).data(data).start()
}

/// Returns the number of an index's pages in memory; the index is named as in `d.t.PRIMARY`.
///
/// # Errors
///
/// Fails if the query fails.
pub fn pages_cached(server: &TestServer, index: &str) -> Result<u64> {
    let pages = server.sql(&format!(
        "select ifnull(sum(c.n_cached_pages), 0) from information_schema.innodb_cached_indexes c
         join information_schema.innodb_indexes i using (index_id)
         join information_schema.innodb_tables t using (table_id)
         where concat(replace(t.name, '/', '.'), '.', i.name) = '{index}'"
    ))?;
    Ok(pages.trim().parse()?)
}

/// Returns the number of pages that the replica's applier has read from disk since its start.
///
/// # Errors
///
/// Fails if the query fails.
pub fn pages_by_applier(replica: &TestServer) -> Result<u64> {
    let pages = replica.sql(
        "select ifnull(sum(w.count_star), 0) from performance_schema.threads t
         join performance_schema.events_waits_summary_by_thread_by_event_name w using (thread_id)
         where w.event_name = 'wait/io/file/innodb/innodb_data_file'
           and t.name in ('thread/sql/replica_sql', 'thread/sql/replica_worker')",
    )?;
    Ok(pages.trim().parse()?)
}

impl Warming {
    /// Starts `bintide warm` beside this replica, with this account.
    ///
    /// # Errors
    ///
    /// Fails if it does not start.
    pub fn begin(replica: &TestServer, user: &str, more: &[&str]) -> Result<Self> {
        let mut command = command(replica, user)?;
        command.args(["--json", "--metrics", "127.0.0.1:0"]).args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stderr = BufReader::new(child.stderr.take().context("standard error is not piped")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        let address = line.trim().strip_prefix("bintide: metrics are at http://");
        let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.with_context(|| format!("no address of the metrics: {line}"))?.to_owned();
        Ok(Self { child: Some(child), address, stderr })
    }

    /// Returns a metric, by its name without `bintide_warm_`.
    ///
    /// # Errors
    ///
    /// Fails if the metric cannot be read.
    pub fn figure(&self, name: &str) -> Result<u64> {
        Ok(number(&scraped(&self.address)?, &format!("bintide_warm_{name}"))? as u64)
    }

    /// Returns the number of searches, including those skipped because they were made recently.
    ///
    /// # Errors
    ///
    /// Fails if a metric cannot be read.
    pub fn searches(&self) -> Result<u64> {
        Ok(self.figure("searches_total")? + self.figure("repeated_total")?)
    }

    /// Waits until `rows` row changes were found, and no search for them is pending.
    ///
    /// # Errors
    ///
    /// Fails if this does not happen before the timeout.
    pub fn wait_for(&self, rows: u64) -> Result<()> {
        wait_until("the last search", || {
            let sheet = scraped(&self.address)?;
            let figure = |name: &str| number(&sheet, &format!("bintide_warm_{name}"));
            let ended = figure("executed_total")? + figure("old_total")? + figure("errors_total")?;
            Ok(figure("rows_total")? >= rows as f64 && ended == figure("pushed_total")?)
        })
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("bintide warm has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
    }

    /// Sends SIGINT, as Ctrl-C does; returns the report.
    ///
    /// # Errors
    ///
    /// Fails if the exit code is not the one of SIGINT.
    pub fn end(self) -> Result<Value> {
        self.signal(Signal::SIGINT)?;
        self.report(130)
    }

    /// Waits until the process ends by itself; returns the report.
    ///
    /// # Errors
    ///
    /// Fails if the exit code is not 0.
    pub fn ended(self) -> Result<Value> {
        self.report(0)
    }

    /// Returns `true` while the process runs.
    ///
    /// # Errors
    ///
    /// Fails if the state of the process cannot be read.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.as_mut().context("bintide warm has ended")?.try_wait()?.is_none())
    }

    fn report(mut self, code: i32) -> Result<Value> {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said)?;
        let ended = self.child.take().context("bintide warm has ended")?.wait_with_output()?;
        ensure!(ended.status.code() == Some(code), "{:?}: {said}", ended.status);
        let document = serde_json::from_slice(&ended.stdout)?;
        check_document("warm", &document)?;
        Ok(document)
    }
}

impl Drop for Warming {
    /// Kills the process, so that a failed test leaves none behind.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Checks that no search failed, except those that timed out on a busy machine.
pub fn has_no_errors(report: &Value) -> bool {
    const TOO_LONG: [u64; 2] = [1969, 3024];
    let refusals: Vec<&Value> = report["refusals"].as_array().into_iter().flatten().collect();
    let times: u64 = refusals.iter().filter_map(|refusal| refusal["times"].as_u64()).sum();
    let mut codes = refusals.iter().map(|refusal| refusal["code"].as_u64().unwrap_or(0));
    codes.all(|code| TOO_LONG.contains(&code)) && report["errors"] == times
}

/// Returns the command `bintide warm` for this replica, not started.
///
/// # Errors
///
/// Fails if bintide cannot be built.
pub fn command(replica: &TestServer, user: &str) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["warm", "--user", user, "--socket"]).arg(replica.socket());
    Ok(command)
}
