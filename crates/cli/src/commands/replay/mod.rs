//! `bintide replay`: applies logs to a server.

mod apply_args;
mod checks;
mod dry_run;
mod dry_run_text;
mod filter_args;
mod option_checks;
mod progress_line;
mod replay_metrics;
mod replay_outcome;
mod replay_progress_monitor;
mod source_args;
mod status;
mod target;
mod time_estimate;
mod verification;
mod warming;

use std::num::NonZeroUsize;

use binlog::PayloadError;
use clap::Args;
use replay::schedule::ParallelMode;
use replay::{ApplyPlanError, GapPolicy, ReplayOptions, TargetFailureKind, TransactionSource};

use crate::commands::receive::ReceivingState;
use crate::commands::replay::apply_args::ApplyArgs;
use crate::commands::replay::checks::{AllowArgs, LogLifetime};
use crate::commands::replay::dry_run::{DryRunArgs, DryRunInputs};
use crate::commands::replay::filter_args::FilterArgs;
pub(crate) use crate::commands::replay::option_checks::check_options;
use crate::commands::replay::replay_metrics::SharedReplayFigures;
use crate::commands::replay::replay_outcome::ReplayOutcome;
use crate::commands::replay::replay_progress_monitor::ReplayProgressMonitor;
use crate::commands::replay::source_args::ReplaySourceArgs;
use crate::commands::replay::target::{TargetAddress, TargetArgs};
use crate::commands::replay::verification::{TargetVerification, VerificationInputs, VerifyTargetArgs};
use crate::commands::replay::warming::ReplayWarming;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{LogArgs, MEMORY_ADVICE, is_torn_after_format, needs_memory};
use crate::metrics::MetricsArgs;
use crate::output_format::OutputFormat;
use crate::selection_args::SelectionArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Point-in-time recovery: apply all logs to a server restored from a backup:
      bintide replay binlog.0000* \\
          --to 'mysql://root@localhost/?socket=/run/mysqld/mysqld.sock'
  After an interruption, a crash or a lost connection, run the same command
  again: it resumes where it stopped, and applies nothing twice.
  Over TCP and TLS, with the password in a file:
      bintide replay /backup --password-file ~/.pw \\
          --to 'mysql://restore@db2:3306/?ssl-mode=REQUIRED'
  Up to a point in time, or up to just before a faulty transaction:
      bintide replay /backup --to TARGET --stop-datetime '2026-11-22 01:00:00'
      bintide replay /backup --to TARGET \\
          --stop-gtid 5ea5ca5e-0001-4000-8000-000000000001:4711
  Compare the target with the source afterwards:
      bintide replay /backup --to TARGET --verify mysql://root@db1/
  Show the amount of work and the estimated time, without changing anything:
      bintide replay /backup --to TARGET --dry-run
  Follow the logs in a server's own directory, or a replica's relay logs:
      bintide replay --follow /var/lib/mysql/binlog.index --to TARGET
  Follow a running server:
      bintide replay --from mysql://repl@db1/ --relay /var/lib/bintide/db1 \\
          --to TARGET
  To a server whose data does not fit in its memory:
      bintide replay /backup --to TARGET --warm
  To a SQLite database, without a server:
      bintide replay binlog.0000* --to sqlite:copy.db
  Only one database, under another name (CREATE DATABASE is not rewritten:
  create shop_old on the target first):
      bintide replay /backup --to TARGET --rewrite-db 'shop->shop_old' \\
          --wild-do-table 'shop_old.%'
  One commit for each transaction, as on the source:
      bintide replay --commit-order strict binlog.000012 --to mysql://root@db2/

The target stores the progress in its table bintide.progress, in the same
transaction as the changes: --status shows the progress; --forget drops the
table (servers only). replay writes to the target's binary log only with --log,
or if the account lacks SESSION_VARIABLES_ADMIN. If replicas read that log,
replay asks for --log or --no-log. Other clients must not change the target
during a replay.";

/// Arguments of `bintide replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    inputs: LogArgs,
    #[command(flatten)]
    to: TargetArgs,
    #[command(flatten)]
    apply: ApplyArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    source: ReplaySourceArgs,
    #[command(flatten)]
    verify: VerifyTargetArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Follow a directory of logs until Ctrl-C: a server's binary logs or its relay logs.
    #[arg(long, conflicts_with_all = ["dry_run", "status", "forget"])]
    follow: bool,
    /// Read pages into the target's memory before transactions need them, as bintide warm does for a replica. Warming
    /// stops if it gains nothing. Useful if the target's data does not fit in its memory.
    #[arg(long, conflicts_with_all = ["dry_run", "status", "forget"])]
    warm: bool,
    /// Show which transactions the target has, and do nothing else.
    #[arg(long, conflicts_with_all = ["forget", "logs"])]
    status: bool,
    /// Drop the target's saved progress, the table bintide.progress, and do nothing else. Servers only.
    #[arg(long, conflicts_with = "logs")]
    forget: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    allow: AllowArgs,
}

/// Makes the LOG arguments optional for invocations that apply nothing.
pub(crate) fn make_logs_optional(command: clap::Command) -> clap::Command {
    let relax =
        |logs: clap::Arg| logs.required(false).required_unless_present_any(["status", "forget", "from"]);
    command.mut_subcommands(|command| match command.get_name() {
        "replay" => command.mut_arg("logs", relax),
        _ => command,
    })
}

pub(crate) fn run(command: &mut ReplayArgs, global: &GlobalArgs) -> CommandResult {
    command.metrics.check()?;
    command.apply.temporary.limit();
    if command.follow || command.source.is_live() {
        interrupt::set_runs_until_stopped();
    }
    if command.source.is_live() {
        return source_args::run(command, global);
    }
    let format = OutputFormat::of(command.json);
    match (command.status, command.forget) {
        (true, _) => match command.to.named(global)? {
            TargetAddress::Mysql(address, _) => status::status(&address, format),
            TargetAddress::Sqlite(path) => status::status_of_file(&path, format),
        },
        (_, true) => status::forget(command.to.named(global)?.server("--forget")?),
        _ => apply(command, global, None),
    }
}

/// Limits the options to what the target supports.
fn fit_to_target(options: ReplayOptions, target: &TargetAddress) -> ReplayOptions {
    match target {
        TargetAddress::Mysql(..) => options,
        // Only one session can write to SQLite.
        TargetAddress::Sqlite(_) => {
            ReplayOptions { workers: NonZeroUsize::MIN, mode: ParallelMode::None, ..options }
        }
    }
}

/// Applies logs. `receiving` is the receiver that writes the logs, if this command runs one.
fn apply(command: &ReplayArgs, global: &GlobalArgs, receiving: Option<ReceivingState>) -> CommandResult {
    let followed = command.follow.then(|| command.inputs.store("--follow")).transpose()?;
    let found = command.inputs.find_logs()?;
    let lifetime = if command.follow { LogLifetime::Followed } else { LogLifetime::Fixed };
    checks::check_logs(&found, lifetime)?;
    let named = command.to.named(global)?;
    if let (Some(store), false) = (&followed, command.filters.renames()) {
        source_args::refuse_own_directory(store, &named)?;
    }
    let logs = found.replay_logs();
    let source = |logs| TransactionSource::new(logs, found.keyring.clone(), command.apply.held_max());
    let (selection, filter) = (command.selection.selection()?, command.filters.filter()?);
    let gap = if command.allow.allow_gap { GapPolicy::Allow } else { GapPolicy::Refuse };
    if followed.is_none() {
        checks::check_bounds(&selection, &logs, &found, global)?;
    }
    let options = fit_to_target(command.apply.options(selection, filter, gap)?, &named);
    if command.dry_run.dry_run {
        let inputs = DryRunInputs {
            target: named,
            log_choice: command.apply.log_choice(),
            source: source(logs),
            bytes_total: found.bytes_total,
            options,
        };
        return command.dry_run.run(inputs, &command.allow, OutputFormat::of(command.json), global);
    }
    let server = command.verify.server(&command.to, &named, &logs, global)?;
    let against = server.map(|server| VerificationInputs {
        server,
        target: named.clone(),
        source: source(logs.clone()),
        bytes_total: found.bytes_total,
    });
    let follow = |store| {
        let source = TransactionSource::follow(store, command.inputs.keyring(), command.apply.held_max());
        source.map_err(|error| CommandFailure::NotStarted(error.into()))
    };
    let to_look_at = match &followed {
        Some(store) => Some(follow(store.clone())?),
        None => checks::logs_to_survey(&logs).map(source),
    };
    let replay_warming =
        || ReplayWarming::new(&named, followed.as_ref(), &found.locations, command, &options);
    let replay_warming = command.warm.then(replay_warming).transpose()?;
    let writer = checks::check(&named, to_look_at, &options, command.apply.log_choice(), &command.allow)?;
    let stats = SharedReplayFigures::new(replay_warming.as_ref().map(ReplayWarming::stats), receiving);
    let served = command.metrics.serve(stats.site())?;
    let mut target = target::open(named)?;
    target.set_source(writer)?;
    if command.apply.log {
        target = target.enable_logging()?;
    }
    let (mut source, bytes_total) = match followed {
        Some(store) => (follow(store)?, None),
        None => (source(logs), found.bytes_total),
    };
    let mut watch = ReplayProgressMonitor::new(global, bytes_total, stats.clone());
    let (report, warmed) = warming::run(replay_warming.as_ref(), &mut source, &target, &options, &mut watch);
    let elapsed = watch.elapsed();
    drop(watch);
    let report = report.map_err(add_advice)?;
    stats.set_final(&report);
    drop(served);
    let done = ReplayOutcome { report, elapsed, remarks: target.remarks(), verified: None, warmed };
    finish(done, against, &options, OutputFormat::of(command.json), global)
}

/// Compares the target with a server, if requested, and prints the result. Prints the result of the replay even if the
/// comparison fails.
fn finish(
    mut done: ReplayOutcome,
    against: Option<VerificationInputs>,
    options: &ReplayOptions,
    format: OutputFormat,
    global: &GlobalArgs,
) -> CommandResult {
    if interrupt::has_part_failed() && done.report.transactions == 0 {
        // The failed part has reported its error, which an empty result would hide.
        return Ok(CommandVerdict::Success);
    }
    let against = against.filter(|_| !done.report.is_interrupted);
    let compared =
        against.map(|against| TargetVerification::of(against, options, &done.report, global)).transpose();
    let failure = match compared {
        Ok(verified) => {
            done.verified = verified;
            None
        }
        Err(failure) => Some(failure),
    };
    let outcome = replay_outcome::print(&done, format)?;
    failure.map_or(Ok(outcome), Err)
}

/// ER_PLUGIN_IS_NOT_LOADED: the target lacks the authentication plugin of an account.
const PLUGIN_NOT_LOADED: u16 = 1524;

const CORRUPT_ADVICE: ErrorAdvice =
    ErrorAdvice("committed transactions are kept; run bintide verify for details");

/// Advice for an error that names its cause.
const CAUSE_ADVICE: ErrorAdvice = ErrorAdvice(
    "committed transactions are kept; to resume, remove the cause and run the same command again",
);

/// Advice for a log that ends within an event or a transaction.
const TORN_ADVICE: ErrorAdvice = ErrorAdvice(
    "committed transactions are kept; to resume, give the complete log, or a copy of its whole transactions: bintide \
     verify LOG --repair-tail COPY",
);

/// Returns the advice for a log that cannot be read.
fn read_advice(cause: &logs::LogError) -> ErrorAdvice {
    match cause {
        logs::LogError::KeyringRequired { .. } => {
            ErrorAdvice("committed transactions are kept; to resume, give this file with --keyring")
        }
        logs::LogError::Purged { .. } => {
            ErrorAdvice("give the purged logs from a copy first, or restore the target from a newer backup")
        }
        logs::LogError::Payload { error: PayloadError { error, .. }, .. } if needs_memory(error) => {
            MEMORY_ADVICE
        }
        logs::LogError::Corrupt { .. } => CORRUPT_ADVICE,
        logs::LogError::SecondLog { .. } => ErrorAdvice(
            "committed transactions are kept; to resume, run the same command with the parts in order",
        ),
        // The file has no transactions.
        logs::LogError::NotALog { .. } => ErrorAdvice("give binary logs"),
        cause if is_torn_after_format(cause) => TORN_ADVICE,
        _ => CAUSE_ADVICE,
    }
}

fn add_advice(error: replay::ReplayError) -> CommandFailure {
    let advice = match &error {
        replay::ReplayError::Gap { .. } => Some(ErrorAdvice(
            "give the logs that contain them; if the target was restored from a backup, set its gtid_purged to the \
                 GTID set of the backup; to replay anyway, give --allow-gap",
        )),
        replay::ReplayError::Read(cause) => Some(read_advice(cause)),
        replay::ReplayError::TornTransaction { .. } => Some(TORN_ADVICE),
        replay::ReplayError::Plan {
            error: ApplyPlanError::Payload(PayloadError { error, .. }) | ApplyPlanError::Decode(error),
            ..
        } if needs_memory(error) => Some(MEMORY_ADVICE),
        replay::ReplayError::Corrupt { .. } => Some(CORRUPT_ADVICE),
        replay::ReplayError::Plan { error: ApplyPlanError::Spool(_), .. } => Some(CAUSE_ADVICE),
        replay::ReplayError::Plan { .. } => Some(ErrorAdvice(
            "committed transactions are kept; the same command fails again, unless you exclude this \
             transaction: give its GTID to --exclude-gtids in this and all later runs",
        )),
        replay::ReplayError::Apply { failure, .. } if failure.code == Some(PLUGIN_NOT_LOADED) => {
            Some(ErrorAdvice(
                "committed transactions are kept; create the account on the target with an authentication plugin that the \
                 target has (caching_sha2_password exists since MySQL 8.0), then exclude this transaction: \
                 give its GTID to --exclude-gtids in this and all later runs",
            ))
        }
        replay::ReplayError::Apply { failure, .. } | replay::ReplayError::Target { failure, .. }
            if failure.kind == TargetFailureKind::Environment =>
        {
            Some(ErrorAdvice(
                "committed transactions are kept; to resume, remove the cause on the target and run the same command again",
            ))
        }
        // A retry fails again, until the cause is removed.
        replay::ReplayError::Apply { failure, has_gtid, .. }
            if failure.kind == TargetFailureKind::Refused =>
        {
            Some(ErrorAdvice(match has_gtid {
                true => {
                    "committed transactions are kept; remove the cause, or exclude the transaction with --exclude-gtids \
                     GTID in this and all later runs, and run the command again"
                }
                false => {
                    "committed transactions are kept; remove the cause, or start after the transaction with \
                     --start-position, and run the command again"
                }
            }))
        }
        replay::ReplayError::Apply { .. } | replay::ReplayError::Target { .. } => {
            Some(ErrorAdvice("committed transactions are kept; to resume, run the same command again"))
        }
        _ => None,
    };
    let error = anyhow::Error::new(error);
    CommandFailure::Failed(match advice {
        Some(advice) => error.context(advice),
        None => error,
    })
}
