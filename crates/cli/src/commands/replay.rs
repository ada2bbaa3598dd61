//! `bintide replay`: applies logs to a server.

use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use binlog::gtid::{GtidSet, GtidTextError};
use clap::{Args, ValueEnum};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use replay::order::CommitOrder;
use replay::schedule::Mode;
use replay::{Bound, Gap, Log, MysqlTarget, Observer, Options, Report, Selection, Source, Stop};
use servers::Address;

use crate::args::Global;
use crate::exit::{Advice, Failure, Outcome, Verdict};
use crate::inputs::{Inputs, Place};
use crate::interrupt;
use crate::progress::Progress;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Bring a server that was restored from a backup up to the last log:
      bintide replay binlog.0000* --to 'mysql://root@localhost/?socket=/run/mysqld/mysqld.sock'
  The same after an interruption, a crash or a lost connection: it goes on
  where it stopped, and applies nothing twice.
  Over TCP, with TLS, and the password from a file:
      bintide replay /backup --to 'mysql://restore@db2:3306/?tls=required' --password-file ~/.pw
  To a point in time, or just in front of a mistake:
      bintide replay /backup --to TARGET --stop-datetime '2026-11-22 01:00:00'
      bintide replay /backup --to TARGET --stop-gtid 5ea5ca5e-0001-4000-8000-000000000001:4711
  Each transaction by itself, as the source had it:
      bintide replay --commit-order strict binlog.000012 --to mysql://root@db2/

How far a target has come is kept on the target, in the table bintide.progress,
in the same transaction as the changes. Drop that table to forget it.
The target's binary log is not written to. Take care that nobody else changes
the target meanwhile.";

/// Arguments of `bintide replay`.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    #[command(flatten)]
    inputs: Inputs,
    /// The server to apply them to: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=PATH; with TLS,
    /// ?tls=required or ?tls-ca=FILE.
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Read the account's password from the first line of this file; otherwise it is MYSQL_PWD's.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// What the target shows: each transaction by itself, or several at once, in the source's order either way.
    #[arg(long, value_enum, default_value_t = Order::Grouped)]
    commit_order: Order,
    /// Transactions that are committed as one, at most.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    group_max: usize,
    /// Sessions that apply transactions at once, with --commit-order strict.
    #[arg(long, value_name = "COUNT", default_value = "8")]
    workers: NonZeroUsize,
    /// Which transactions are applied at once, with --commit-order strict.
    #[arg(long, value_enum, default_value_t = Parallel::LogicalClock)]
    parallel: Parallel,
    /// Bytes of one transaction that are held in memory, at most.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    transaction_max: usize,
    #[command(flatten)]
    meant: Meant,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Which transactions are meant.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which transactions")]
struct Meant {
    /// Start at the first transaction at this place or behind it.
    #[arg(long, value_name = "LOG:POSITION", conflicts_with = "start_datetime", value_parser = place)]
    start_position: Option<Bound>,
    /// Start at the first transaction that was committed after this: 2026-11-22 01:00:00, local time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    start_datetime: Option<Bound>,
    /// Stop in front of the first transaction at this place or behind it.
    #[arg(long, value_name = "LOG:POSITION", group = "stop", value_parser = place)]
    stop_position: Option<Bound>,
    /// Stop in front of the first transaction in the logs that was committed after this. Later ones may carry an
    /// earlier time.
    #[arg(long, value_name = "TIME", group = "stop", value_parser = time)]
    stop_datetime: Option<Bound>,
    /// Stop in front of the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_gtid: Option<GtidSet>,
    /// Stop behind the first transaction of these.
    #[arg(long, value_name = "GTIDS", group = "stop", value_parser = gtids)]
    stop_after_gtid: Option<GtidSet>,
    /// Leave out these.
    #[arg(long, value_name = "GTIDS", value_parser = gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Leave out so many transactions at the start of the logs; a compressed one counts as one.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip: u64,
    /// Apply the logs even if the target lacks transactions from before the first of them.
    #[arg(long)]
    allow_gap: bool,
}

impl Meant {
    fn selection(&self) -> Selection {
        let at = self.stop_position.clone().or_else(|| self.stop_datetime.clone()).map(Stop::At);
        let before = self.stop_gtid.clone().map(Stop::BeforeGtid);
        let behind = self.stop_after_gtid.clone().map(Stop::AfterGtid);
        Selection {
            skip: self.skip,
            exclude: self.exclude_gtids.clone().unwrap_or_default(),
            start: self.start_position.clone().or_else(|| self.start_datetime.clone()),
            stop: at.or(before).or(behind),
        }
    }
}

fn place(text: &str) -> Result<Bound, String> {
    let parts = text.rsplit_once(':').and_then(|(log, position)| Some((log, position.parse().ok()?)));
    let (log, position) =
        parts.ok_or_else(|| "a place is a log's name and a number: binlog.000012:4".to_owned())?;
    Ok(Bound::Position { log: log.to_owned(), position })
}

fn time(text: &str) -> Result<Bound, String> {
    let zoned = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::system()));
    let time = zoned.map_err(|error| format!("{error}; a time is 2026-11-22 01:00:00"))?;
    let micros = u64::try_from(time.timestamp().as_microsecond());
    micros.map(Bound::Time).map_err(|_| "logs are not that old".to_owned())
}

fn gtids(text: &str) -> Result<GtidSet, String> {
    text.parse().map_err(|error: GtidTextError| error.to_string())
}

/// What the target shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Each transaction is committed by itself.
    Strict,
    /// Transactions in a row are committed as one: many when there are many to do.
    Grouped,
}

/// What may run beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Parallel {
    /// What the source says may run at once.
    LogicalClock,
    /// One after the other.
    None,
}

pub(crate) fn run(command: &Replay, global: &Global) -> Outcome {
    let found = command.inputs.find()?;
    let address = address(command)?;
    let logs = found.places.iter().map(|place| match place {
        Place::File(path) => Log::File(path.clone()),
        Place::Stdin => Log::Stdin,
    });
    let mut source = Source::new(logs.collect(), found.keyring.clone(), command.transaction_max);
    let target = MysqlTarget::open(address).map_err(|error| Failure::NotBegun(error.into()))?;
    let order = match command.commit_order {
        Order::Strict => CommitOrder::Strict,
        Order::Grouped => CommitOrder::Grouped,
    };
    let workers = command.workers;
    let mode = match command.parallel {
        Parallel::LogicalClock => Mode::LogicalClock,
        Parallel::None => Mode::None,
    };
    let gap = if command.meant.allow_gap { Gap::Allow } else { Gap::Refuse };
    let options = Options {
        order,
        group_max: command.group_max.max(1),
        workers,
        mode,
        selection: command.meant.selection(),
        gap,
    };
    let mut watch = Watch(Progress::new(global, found.bytes_total));
    let report = replay::replay(&mut source, &target, &options, &mut watch);
    drop(watch);
    let report = report.map_err(advised)?;
    print(&report, command.json, global)
}

fn advised(error: replay::Error) -> Failure {
    let advice = match &error {
        replay::Error::Gap(_) => Some(Advice("give the logs that have them, or --allow-gap")),
        replay::Error::Corrupt { .. } => Some(Advice("bintide verify shows what is wrong with it")),
        replay::Error::Apply { .. } | replay::Error::Target { .. } => {
            Some(Advice("all in front of it is applied, and the same command goes on from there"))
        }
        _ => None,
    };
    let error = anyhow::Error::new(error);
    Failure::Failed(match advice {
        Some(advice) => error.context(advice),
        None => error,
    })
}

fn address(command: &Replay) -> Result<Address, Failure> {
    let mut address =
        Address::parse(&command.to).map_err(|error| Failure::NotBegun(anyhow!("--to: {error}")))?;
    if let Some(path) = &command.password_file {
        address.password = Some(first_line(path).map_err(Failure::NotBegun)?);
    } else if address.password.is_none() {
        address.password = std::env::var("MYSQL_PWD").ok();
    }
    Ok(address)
}

fn first_line(path: &Path) -> Result<String, anyhow::Error> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

struct Watch(Progress);

impl Observer for Watch {
    fn at(&mut self, bytes: u64, _: &Report) -> ControlFlow<()> {
        self.0.at(bytes);
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn print(report: &Report, json: bool, global: &Global) -> Outcome {
    let mut out = io::stdout().lock();
    if json {
        let document = serde_json::json!({
            "transactions": report.transactions,
            "skipped": report.skipped,
            "groups": report.groups,
            "retries": report.retries,
            "undecided": report.undecided,
            "applied": report.applied.to_string(),
        });
        serde_json::to_writer_pretty(&mut out, &document).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        writeln!(
            out,
            "{} transactions applied in {} commits, {} passed over",
            report.transactions, report.groups, report.skipped
        )?;
    }
    for xid in report.undecided.iter().filter(|_| !global.quiet) {
        eprintln!(
            "bintide: the XA transaction {xid} is prepared in the logs and not decided: it is not applied"
        );
    }
    Ok(Verdict::Fine)
}
