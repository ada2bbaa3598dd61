//! `--verify`: compares the target after a replay with another server.

use std::ops::ControlFlow;

use anyhow::anyhow;
use clap::Args;
use replay::compare::{self, Comparison, Means, Pair, Verdict};
use replay::{Log, Options, Report, Source};
use serde_json::{Value, json};
use servers::{Address, Connection};

use crate::args::Global;
use crate::commands::replay::target::{Named, To};
use crate::connection_args::{ConnectionArgs, VerifyServer};
use crate::exit::Failure;
use crate::interrupt;
use crate::progress::Progress;
use crate::screen::{self, visible};
use crate::units;

/// Options that name the server to compare with.
#[derive(Args, Debug)]
pub(super) struct Verify {
    /// After the replay, compare the target's tables with those of this server, as mysql://USER@HOST:PORT/: all
    /// tables that the logs change or define. The connection options of this server have the prefix --verify-, as
    /// --verify-ssl-ca. Without --verify-password, the target's password is used. Exit code 1 means that a table
    /// differs or is missing.
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["follow", "from", "dry_run", "status", "forget"])]
    verify: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs<VerifyServer>,
}

/// Result of a comparison.
pub(super) struct Verified {
    server: String,
    means: Means,
    /// GTIDs that the server has executed and the logs do not contain.
    besides: String,
    tables: Vec<(Pair, Verdict)>,
}

/// Inputs of a comparison.
pub(super) struct Against {
    pub(super) server: Address,
    pub(super) target: Named,
    /// Logs, to be read a second time.
    pub(super) source: Source,
    pub(super) bytes_total: Option<u64>,
}

impl Verify {
    /// Returns the server to compare with, if the option is given. It must be reachable before anything is applied.
    pub(super) fn server(
        &self,
        to: &To,
        target: &Named,
        logs: &[Log],
        global: &Global,
    ) -> Result<Option<Address>, Failure> {
        let Some(text) = &self.verify else { return Ok(None) };
        if logs.contains(&Log::Stdin) {
            return Err(Failure::NotBegun(anyhow!(
                "--verify reads the logs twice, but standard input can be read only once: give the logs as files"
            )));
        }
        let address = to.verify_server(text, &self.connection, target, global)?;
        Connection::open(&address).map_err(|error| {
            Failure::NotBegun(anyhow::Error::from(error).context("--verify: could not connect"))
        })?;
        Ok(Some(address))
    }
}

impl Verified {
    /// Compares the servers table by table.
    pub(super) fn of(
        against: Against,
        options: &Options,
        report: &Report,
        global: &Global,
    ) -> Result<Self, Failure> {
        let failed = |error: replay::Error| Failure::Failed(error.into());
        let Against { server, target, mut source, bytes_total } = against;
        let mut progress = Progress::new(global, bytes_total);
        let (selection, filter) = (&options.selection, &options.filter);
        let pairs = compare::tables(&mut source, selection, filter, &mut |bytes| {
            progress.at(bytes);
            go_on()
        });
        drop(progress);
        let pairs = pairs.map_err(failed)?;
        if !global.quiet {
            let tables = units::counted(pairs.len() as u64, "table");
            screen::remark(format_args!("comparing {tables} with {server}"));
        }
        let mut comparison = Comparison::open(&server, compared(&target)?).map_err(failed)?;
        let mut tables = Vec::new();
        for pair in pairs {
            let verdict = comparison.compare(&pair, &go_on).map_err(failed)?;
            if verdict != Verdict::Gone {
                tables.push((pair, verdict));
            }
        }
        let besides = comparison.executed_besides(&report.applied).to_string();
        Ok(Self { server: server.to_string(), means: comparison.means(), besides, tables })
    }

    /// Tells whether all tables are equal.
    pub(super) fn is_equal(&self) -> bool {
        self.tables.iter().all(|(_, verdict)| *verdict == Verdict::Equal)
    }

    /// Returns a line for each table, and a summary.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (pair, verdict) in &self.tables {
            let (word, why) = worded(verdict);
            let name = match pair.source == pair.target {
                true => pair.source.to_string(),
                false => format!("{} as {}", pair.source, pair.target),
            };
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            text.push_str(&visible(&format!("{word:<8} {name}{why}")));
            text.push('\n');
        }
        let equal = self.tables.iter().filter(|(_, verdict)| *verdict == Verdict::Equal).count() as u64;
        text.push_str(&format!(
            "{} compared with {} by {}: {} equal\n",
            units::counted(self.tables.len() as u64, "table"),
            self.server,
            means(self.means),
            units::count(equal)
        ));
        text
    }

    /// Returns the reason why tables may differ, if there is one.
    pub(super) fn remark(&self) -> Option<String> {
        (!self.besides.is_empty()).then(|| {
            format!(
                "{} has executed transactions that these logs did not bring to the target: {}; their changes show \
                 as differences",
                self.server, self.besides
            )
        })
    }

    pub(super) fn document(&self) -> Value {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(pair, verdict)| {
                let (word, why) = worded(verdict);
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
            "by": means(self.means),
            "is_equal": self.is_equal(),
            "executed_besides": self.besides,
            "tables": tables,
        })
    }
}

fn go_on() -> ControlFlow<()> {
    if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn compared(target: &Named) -> Result<compare::Target<'_>, Failure> {
    match target {
        Named::Mysql(address, _) => Ok(compare::Target::Server(address)),
        #[cfg(feature = "sqlite")]
        Named::Sqlite(path) => Ok(compare::Target::Sqlite(path)),
        #[cfg(not(feature = "sqlite"))]
        Named::Sqlite(_) => Err(Failure::NotBegun(anyhow!("this bintide was built without SQLite"))),
    }
}

const fn means(means: Means) -> &'static str {
    match means {
        Means::Checksum => "CHECKSUM TABLE",
        Means::Digest => "row digest",
    }
}

fn worded(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Equal => ("equal", None),
        Verdict::Differs(how) => ("differs", Some(how)),
        Verdict::MissingOnTarget => ("missing", Some("the target does not have it")),
        Verdict::MissingOnServer => ("missing", Some("the server does not have it")),
        Verdict::Gone => ("gone", None),
    }
}
