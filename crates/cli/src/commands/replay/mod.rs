//! `bintide replay`: applies logs to a server.

mod ahead;
mod board;
mod dry;
mod estimate;
mod filters;
mod how;
mod live;
mod meant;
mod outlook;
mod pace;
mod print;
mod ready;
mod status;
mod target;
mod verified;
mod watch;

use std::num::NonZeroUsize;

use binlog::PayloadError;
use clap::Args;
use replay::schedule::Mode;
use replay::{FailureKind, Gap, Log, Options, Source, WorkError};

use crate::args::Global;
use crate::commands::replay::ahead::Ahead;
use crate::commands::replay::board::Board;
use crate::commands::replay::dry::Dry;
use crate::commands::replay::filters::Filters;
use crate::commands::replay::how::How;
use crate::commands::replay::live::Live;
use crate::commands::replay::meant::Meant;
use crate::commands::replay::print::Done;
use crate::commands::replay::ready::Allow;
use crate::commands::replay::target::{Named, To};
use crate::commands::replay::verified::{Against, Verified, Verify};
use crate::commands::replay::watch::Watch;
use crate::exit::{Advice, Failure, Outcome};
use crate::inputs::{Inputs, MEMORY_ADVICE, Place, needs_memory};
use crate::interrupt;
use crate::metrics::Metrics;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Point-in-time recovery: apply all logs to a server restored from a backup:
      bintide replay binlog.0000* --to 'mysql://root@localhost/?socket=/run/mysqld/mysqld.sock'
  After an interruption, a crash or a lost connection, run the same command
  again: it resumes where it stopped, and applies nothing twice.
  Over TCP and TLS, with the password in a file:
      bintide replay /backup --to 'mysql://restore@db2:3306/?ssl-mode=REQUIRED' --password-file ~/.pw
  Up to a point in time, or up to just before a faulty transaction:
      bintide replay /backup --to TARGET --stop-datetime '2026-11-22 01:00:00'
      bintide replay /backup --to TARGET --stop-gtid 5ea5ca5e-0001-4000-8000-000000000001:4711
  Compare the target with the source afterwards:
      bintide replay /backup --to TARGET --verify mysql://root@db1/
  Show the amount of work and the estimated time, without changing anything:
      bintide replay /backup --to TARGET --dry-run
  Follow the logs in a server's own directory, or a replica's relay logs:
      bintide replay --follow /var/lib/mysql/binlog.index --to TARGET
  Follow a running server:
      bintide replay --from mysql://repl@db1/ --relay /var/lib/bintide/db1 --to TARGET
  To a server whose data does not fit in its memory:
      bintide replay /backup --to TARGET --warm
  To a SQLite database, without a server:
      bintide replay binlog.0000* --to sqlite:copy.db
  Only one database, under another name (CREATE DATABASE is not rewritten: create
  shop_old on the target first):
      bintide replay /backup --to TARGET --rewrite-db 'shop->shop_old' --do-db shop_old
  One commit for each transaction, as on the source:
      bintide replay --commit-order strict binlog.000012 --to mysql://root@db2/

The target stores the replay position in its table bintide.progress, in the same
transaction as the changes: --status shows it, --forget drops it. replay does not
write to the target's binary log, unless you give --log. Make sure that nobody
else changes the target during a replay.";

/// Arguments of `bintide replay`.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    meant: Meant,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    allow: Allow,
    #[command(flatten)]
    dry: Dry,
    #[command(flatten)]
    live: Live,
    #[command(flatten)]
    verify: Verify,
    #[command(flatten)]
    metrics: Metrics,
    /// Follow a directory of logs until Ctrl-C: a server's binary logs or its relay logs.
    #[arg(long, conflicts_with_all = ["dry_run", "status", "forget"])]
    follow: bool,
    /// Read the pages that the next transactions need into the target's memory ahead of them, as bintide warm does
    /// for a replica; stops by itself if it gains nothing. For a server whose data does not fit in its memory.
    #[arg(long, conflicts_with_all = ["dry_run", "status", "forget"])]
    warm: bool,
    /// Show the target's replay position, and do nothing else.
    #[arg(long, conflicts_with_all = ["forget", "logs"])]
    status: bool,
    /// Drop the target's replay position, the table bintide.progress, and do nothing else. Servers only.
    #[arg(long, conflicts_with = "logs")]
    forget: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Makes the LOG arguments optional where nothing is applied.
pub(crate) fn without_logs(command: clap::Command) -> clap::Command {
    let relax =
        |logs: clap::Arg| logs.required(false).required_unless_present_any(["status", "forget", "from"]);
    command.mut_subcommands(|command| match command.get_name() {
        "replay" => command.mut_arg("logs", relax),
        _ => command,
    })
}

pub(crate) fn run(command: &mut Replay, global: &Global) -> Outcome {
    command.metrics.check()?;
    command.how.temporary.limit();
    if command.follow || command.live.is_wanted() {
        interrupt::runs_until_stopped();
    }
    if command.live.is_wanted() {
        return live::run(command, global);
    }
    match (command.status, command.forget) {
        (true, _) => match command.to.named(global)? {
            Named::Mysql(address, _) => status::status(&address, command.json),
            Named::Sqlite(path) => status::status_of_file(&path, command.json),
        },
        (_, true) => status::forget(command.to.named(global)?.server("--forget")?),
        _ => apply(command, global),
    }
}

fn apply(command: &Replay, global: &Global) -> Outcome {
    let followed = command.follow.then(|| command.inputs.store()).transpose()?;
    let found = command.inputs.find(global)?;
    if followed.is_none() {
        found.check_indexes(global)?;
    }
    let named = command.to.named(global)?;
    if let (Some(store), false) = (&followed, command.filters.renames()) {
        live::refuse_own_directory(store, &named)?;
    }
    let logs: Vec<Log> = found.places.iter().map(log).collect();
    let source = |logs| Source::new(logs, found.keyring.clone(), command.how.held_max());
    let (selection, filter) = (command.meant.selection(), command.filters.filter()?);
    let gap = if command.allow.allow_gap { Gap::Allow } else { Gap::Refuse };
    if followed.is_none() {
        selection.find_in(&logs, found.keyring.as_ref()).map_err(|error| Failure::NotBegun(error.into()))?;
    }
    let mut options = command.how.options(selection, filter, gap)?;
    if let Named::Sqlite(_) = named {
        // Only one session can write to SQLite.
        options.workers = NonZeroUsize::MIN;
        options.mode = Mode::None;
    }
    if command.dry.dry_run {
        let read = (source(logs), found.bytes_total);
        let target = (named, command.how.log);
        return command.dry.run(target, read, options, &command.allow, command.json, global);
    }
    let server = command.verify.server(&command.to, &named, &logs, global)?;
    let against = server.map(|server| Against {
        server,
        target: named.clone(),
        source: source(logs.clone()),
        bytes_total: found.bytes_total,
    });
    let follow = |store| {
        let source = Source::follow(store, command.inputs.keyring(), command.how.held_max());
        source.map_err(|error| Failure::NotBegun(error.into()))
    };
    let to_look_at = match &followed {
        Some(store) => Some(follow(store.clone())?),
        None => ready::logs_to_look_at(&logs).map(source),
    };
    let ahead = || Ahead::new(&named, followed.as_ref(), &found.places, command, &options, global);
    let ahead = command.warm.then(ahead).transpose()?;
    let writer = ready::check(&named, to_look_at, &options, command.how.log, &command.allow, global)?;
    let board = Board::new(ahead.as_ref().map(Ahead::board));
    let shown = board.clone();
    let served = command.metrics.serve(global, move || shown.text())?;
    let mut target = target::open(named)?;
    target.set_source(writer)?;
    if command.how.log {
        target = target.logging()?;
    }
    let (mut source, bytes_total) = match followed {
        Some(store) => (follow(store)?, None),
        None => (source(logs), found.bytes_total),
    };
    let mut watch = Watch::new(global, bytes_total, board.clone());
    let (report, warmed) = ahead::run(ahead.as_ref(), &mut source, &target, &options, &mut watch);
    let elapsed = watch.elapsed();
    drop(watch);
    let report = report.map_err(advised)?;
    board.end(&report);
    drop(served);
    let done = Done { report, elapsed, remarks: target.remarks(), verified: None, warmed };
    conclude(done, against, &options, command.json, global)
}

fn log(place: &Place) -> Log {
    match place {
        Place::File(path) => Log::File(path.clone()),
        Place::Stdin => Log::Stdin,
    }
}

/// Compares the target with a server, if requested, and prints the result. It prints what was applied even if the
/// comparison fails.
fn conclude(
    mut done: Done,
    against: Option<Against>,
    options: &Options,
    json: bool,
    global: &Global,
) -> Outcome {
    let against = against.filter(|_| !done.report.is_interrupted);
    let compared = against.map(|against| Verified::of(against, options, &done.report, global)).transpose();
    let failure = match compared {
        Ok(verified) => {
            done.verified = verified;
            None
        }
        Err(failure) => Some(failure),
    };
    let outcome = print::print(&done, json, global)?;
    failure.map_or(Ok(outcome), Err)
}

fn advised(error: replay::Error) -> Failure {
    let advice = match &error {
        replay::Error::Gap { .. } => Some(Advice("give the logs that contain them, or --allow-gap")),
        replay::Error::Read(logs::Error::Purged { .. }) => {
            Some(Advice("give the purged logs from a copy first, or restore the target from a newer backup"))
        }
        replay::Error::Read(logs::Error::Payload { error: PayloadError { error, .. }, .. })
        | replay::Error::Work {
            error: WorkError::Payload(PayloadError { error, .. }) | WorkError::Decode(error),
            ..
        } if needs_memory(error) => Some(MEMORY_ADVICE),
        replay::Error::Corrupt { .. } => {
            Some(Advice("committed transactions stay; run bintide verify on the log for details"))
        }
        replay::Error::Read(_) | replay::Error::Cut { .. } => {
            Some(Advice("committed transactions stay; with complete logs, the same command resumes there"))
        }
        replay::Error::Work { error: WorkError::Spool(_), .. } => {
            Some(Advice("committed transactions stay; the same command resumes there"))
        }
        replay::Error::Work { .. } => Some(Advice(
            "committed transactions stay; the same command fails here again, unless you exclude the transaction \
             with --exclude-gtids in this and every later run",
        )),
        // The refusal is not the server's, so it does not go away by itself.
        replay::Error::Apply { failure, .. }
            if failure.kind == FailureKind::Refused && failure.code.is_none() =>
        {
            Some(Advice(
                "committed transactions stay; correct this, and the same command resumes there; or exclude the \
                 transaction with --exclude-gtids in this and every later run",
            ))
        }
        replay::Error::Apply { .. } | replay::Error::Target { .. } => {
            Some(Advice("committed transactions stay; the same command resumes there"))
        }
        _ => None,
    };
    let error = anyhow::Error::new(error);
    Failure::Failed(match advice {
        Some(advice) => error.context(advice),
        None => error,
    })
}
