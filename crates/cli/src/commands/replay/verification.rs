//! `--verify`: compares the target after a replay with another server.

use anyhow::anyhow;
use clap::Args;
use mysql_target::ServerReader;
use replay::compare::{self, ComparisonMethod, ComparisonReader, TablePair, TableVerdict, TargetComparison};
use replay::{ReplayLog, ReplayOptions, ReplayReport, TransactionSource};
use serde_json::{Value, json};
use servers::{ServerAddress, SqlConnection};
#[cfg(feature = "sqlite")]
use sqlite_target::SqliteReader;
use tracing::info;

use crate::commands::replay::target::{TargetAddress, TargetArgs};
use crate::connection_args::{ConnectionArgs, VerifyServer};
use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::progress::ByteProgress;
use crate::screen::visible;
use crate::units;

/// Options that name the server to compare with.
#[derive(Args, Debug)]
pub(super) struct VerifyTargetArgs {
    /// After the replay, compare the target's tables with those of this server, as mysql://USER@HOST:PORT/: all tables
    /// that the logs change or define. The connection options of this server have the prefix --verify-, such as
    /// --verify-ssl-ca. Without --verify-password, the target's password is used. Exit code 1: a table differs or is
    /// missing, or the comparison failed.
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["follow", "from", "dry_run", "status", "forget"])]
    verify: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs<VerifyServer>,
}

/// Result of a comparison.
pub(super) struct TargetVerification {
    server: String,
    method: ComparisonMethod,
    /// GTIDs that the server has executed and the logs do not contain.
    besides: String,
    tables: Vec<(TablePair, TableVerdict)>,
}

/// Inputs of a comparison.
pub(super) struct VerificationInputs {
    pub(super) server: ServerAddress,
    pub(super) target: TargetAddress,
    /// Logs, to be read a second time.
    pub(super) source: TransactionSource,
    pub(super) bytes_total: Option<u64>,
}

impl VerifyTargetArgs {
    /// Returns the server to compare with, if the option is given. Checks that it is reachable before any log is
    /// applied.
    pub(super) fn server(
        &self,
        to: &TargetArgs,
        target: &TargetAddress,
        logs: &[ReplayLog],
        global: &GlobalArgs,
    ) -> Result<Option<ServerAddress>, CommandFailure> {
        let Some(text) = &self.verify else { return Ok(None) };
        if logs.contains(&ReplayLog::Stdin) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "--verify reads the logs twice, but standard input can be read only once: give the logs as files"
            )));
        }
        let address = to.verify_server(text, &self.connection, target, global)?;
        SqlConnection::open(&address)
            .map_err(|error| CommandFailure::NotStarted(anyhow::Error::from(error).context("--verify")))?;
        Ok(Some(address))
    }
}

impl TargetVerification {
    /// Compares the servers table by table.
    pub(super) fn of(
        inputs: VerificationInputs,
        options: &ReplayOptions,
        report: &ReplayReport,
        global: &GlobalArgs,
    ) -> Result<Self, CommandFailure> {
        let failed = |error: replay::ReplayError| CommandFailure::Failed(error.into());
        let VerificationInputs { server, target, mut source, bytes_total } = inputs;
        let mut progress = ByteProgress::new(global, bytes_total);
        let (selection, filter) = (&options.selection, &options.filter);
        let found = compare::collect_tables(&mut source, selection, filter, &mut |bytes| {
            progress.update(bytes);
            interrupt::stop_flow()
        });
        drop(progress);
        let found = found.map_err(failed)?;
        let reader = ServerReader::open(&server).map_err(failed)?;
        let executed = reader.executed().clone();
        let mut comparison = TargetComparison::new(Box::new(reader), target_reader(&target)?);
        let pairs = comparison.tables(found, filter).map_err(failed)?;
        // The number of tables is known only at the end: the logs may drop some of them.
        info!("comparing the tables with {server}");
        let mut tables = Vec::new();
        for pair in pairs {
            let verdict = comparison.compare(&pair, &interrupt::stop_flow).map_err(failed)?;
            if verdict != TableVerdict::MissingOnBoth {
                tables.push((pair, verdict));
            }
        }
        let besides = executed.difference(&report.applied).to_string();
        Ok(Self { server: server.to_string(), method: comparison.method(), besides, tables })
    }

    /// Returns whether all tables are equal.
    pub(super) fn is_equal(&self) -> bool {
        self.tables.iter().all(|(_, verdict)| *verdict == TableVerdict::Equal)
    }

    /// Returns a line for each table, and a summary.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (pair, verdict) in &self.tables {
            let (word, why) = verdict_text(verdict);
            let name = match pair.source == pair.target {
                true => pair.source.to_string(),
                false => format!("{} as {}", pair.source, pair.target),
            };
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            text.push_str(&visible(&format!("{word:<8} {name}{why}")));
            text.push('\n');
        }
        let equal = self.tables.iter().filter(|(_, verdict)| *verdict == TableVerdict::Equal).count() as u64;
        text.push_str(&format!(
            "{} compared with {} by {}: {} equal\n",
            units::counted(self.tables.len() as u64, "table"),
            self.server,
            method_text(self.method),
            units::count(equal)
        ));
        text
    }

    /// Returns the reason why tables may differ, if there is one.
    pub(super) fn remark(&self) -> Option<String> {
        (!self.besides.is_empty()).then(|| {
            format!(
                "{} has executed transactions that these logs do not contain: {}; their changes show as \
                 differences",
                self.server, self.besides
            )
        })
    }

    pub(super) fn document(&self) -> Value {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(pair, verdict)| {
                let (word, why) = verdict_text(verdict);
                json!({
                    "server_table": pair.source.to_string(),
                    "target_table": pair.target.to_string(),
                    "verdict": word,
                    "found": why,
                })
            })
            .collect();
        json!({
            "server": self.server,
            "by": method_text(self.method),
            "is_equal": self.is_equal(),
            "executed_besides": self.besides,
            "tables": tables,
        })
    }
}

/// Connects to the target, to read its tables.
fn target_reader(target: &TargetAddress) -> Result<Box<dyn ComparisonReader>, CommandFailure> {
    let failed = |error: replay::ReplayError| CommandFailure::Failed(error.into());
    match target {
        TargetAddress::Mysql(address, _) => Ok(Box::new(ServerReader::open(address).map_err(failed)?)),
        #[cfg(feature = "sqlite")]
        TargetAddress::Sqlite(path) => Ok(Box::new(SqliteReader::open(path).map_err(failed)?)),
        #[cfg(not(feature = "sqlite"))]
        TargetAddress::Sqlite(_) => {
            Err(CommandFailure::NotStarted(anyhow!("this bintide was built without SQLite")))
        }
    }
}

const fn method_text(method: ComparisonMethod) -> &'static str {
    match method {
        ComparisonMethod::Checksum => "CHECKSUM TABLE",
        ComparisonMethod::Digest => "row digest",
    }
}

fn verdict_text(verdict: &TableVerdict) -> (&'static str, Option<&str>) {
    match verdict {
        TableVerdict::Equal => ("equal", None),
        TableVerdict::Differs(how) => ("differs", Some(how)),
        TableVerdict::MissingOnTarget => ("missing", Some("the target does not have it")),
        TableVerdict::MissingOnServer => ("missing", Some("the server does not have it")),
        TableVerdict::Failed(why) => ("failed", Some(why)),
        TableVerdict::MissingOnBoth => ("gone", None),
    }
}
