//! `bintide diff`: the differences between the transactions of two stores.

mod json;
mod text;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use binlog::gtid::GtidSet;
use clap::Args;
use diff::{DiffError, DiffSettings, DiffStore, OrderPolicy, StoreDiff, compare_stores};
use logs::GtidSelection;
use tracing::warn;

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, InputLogs, LogArgs, add_advice};
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::units::counted;
use crate::value_parsers::{parse_any_gtids, parse_gtids};

pub(crate) const EXAMPLES: &str = "\
Examples:
  A source and its replica with log_replica_updates, whose directory has two
  index files:
      bintide diff /mnt/source/mysql /mnt/replica/mysql/binlog.index
  A server and the copy of its logs by bintide receive:
      bintide diff /var/lib/mysql /backup/db1
  For a script, also require the same order of transactions (exit code 0: equal;
  1: different; 2: error):
      bintide diff --order --quiet /var/lib/mysql /backup/db1

Only the changes of transactions are compared. Server IDs, times, positions,
table numbers and compression may differ. Transactions that a server had purged
before its first log are not compared.";

/// Arguments of `bintide diff`.
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Store A: a directory with its logs, an index file, an archive, or one log.
    #[arg(value_name = "STORE-A")]
    store_a: PathBuf,
    /// Store B: a directory with its logs, an index file, an archive, or one log.
    #[arg(value_name = "STORE-B")]
    store_b: PathBuf,
    /// Compare only the transactions in GTIDS.
    #[arg(long, value_name = "GTIDS", value_parser = parse_gtids)]
    gtid: Option<GtidSet>,
    /// Exclude the transactions in GTIDS, such as @@gtid_purged of a replica that got its data from a backup.
    #[arg(long, value_name = "GTIDS", value_parser = parse_any_gtids)]
    exclude_gtids: Option<GtidSet>,
    /// Count a different order of transactions as a difference (exit code 1). Without this option, it is only reported.
    #[arg(long)]
    order: bool,
    /// Number of transactions with different content to list.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// Print the report as one JSON document.
    #[arg(long)]
    json: bool,
    /// Keyring file for encrypted logs and archives, of component_keyring_file or the older keyring_file plugin.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Keyring file of STORE-B [default: that of --keyring]
    #[arg(long, value_name = "FILE")]
    keyring_b: Option<PathBuf>,
}

/// Verdict on two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffVerdict {
    Equal,
    Different,
    /// No transaction is in both stores, and none is only in one.
    NotComparable,
}

impl DiffVerdict {
    fn of(diff: &StoreDiff, order: OrderPolicy, gtids: &GtidSelection) -> Self {
        // Two stores without any transaction are equal. A selection without transactions compares nothing.
        let is_empty = diff.stores.iter().all(|store| store.transactions == 0);
        let has_compared = diff.common > 0 || is_empty && *gtids == GtidSelection::default();
        match diff.is_equal(order) {
            true if !has_compared => Self::NotComparable,
            true => Self::Equal,
            false => Self::Different,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Different => "different",
            Self::NotComparable => "not_comparable",
        }
    }
}

/// Compares the stores, then prints the report.
pub(crate) fn run(command: &DiffArgs, global: &GlobalArgs) -> CommandResult {
    let (settings, bytes_total) = settings(command)?;
    let diff = compare(&settings, bytes_total, global)?;
    for store in &diff.stores {
        store.remarks.iter().for_each(|remark| warn!("{remark}"));
        if store.repeated > 0 {
            warn!(
                "{}: {} repeated: of several transactions with the same GTID, only the first is compared",
                store.name,
                counted(store.repeated, "transaction")
            );
        }
        if store.incomplete > 0 {
            warn!(
                "{}: {} not compared: incomplete at the end of a log",
                store.name,
                counted(store.incomplete, "transaction")
            );
        }
    }
    if !diff.absent.is_empty() {
        warn!("neither store has {}, which --gtid names", diff.absent);
    }
    let order = if command.order { OrderPolicy::Require } else { OrderPolicy::Report };
    let verdict = DiffVerdict::of(&diff, order, &settings.gtids);
    if verdict == DiffVerdict::NotComparable {
        warn!("no transaction is in both stores: nothing was compared");
    }
    let mut out = io::stdout().lock();
    screen::unless_closed(match (command.json, global.quiet) {
        (true, _) => write_document(&mut out, &json::document(&diff, verdict)),
        (false, true) => Ok(()),
        (false, false) => {
            let style = ReportStyle::new(global.color.on_stdout());
            screen::print(&text::render(&diff, verdict, style), &mut out)
        }
    })?;
    Ok(match verdict {
        DiffVerdict::Equal => CommandVerdict::Success,
        DiffVerdict::Different | DiffVerdict::NotComparable => CommandVerdict::FaultsFound,
    })
}

/// Finds the logs of both stores, and returns the sum of their sizes.
fn settings(command: &DiffArgs) -> Result<(DiffSettings, Option<u64>), CommandFailure> {
    let keyring_b = command.keyring_b.as_ref().or(command.keyring.as_ref());
    let (a, bytes_a) = store(&command.store_a, command.keyring.as_ref())?;
    let (b, bytes_b) = store(&command.store_b, keyring_b)?;
    let bytes_total = bytes_a.zip(bytes_b).map(|(a, b)| a + b);
    let gtids = GtidSelection { included: command.gtid.clone(), excluded: command.exclude_gtids.clone() };
    Ok((DiffSettings { stores: [a, b], gtids, listed_max: command.top }, bytes_total))
}

fn store(path: &Path, keyring: Option<&PathBuf>) -> Result<(DiffStore, Option<u64>), CommandFailure> {
    let found = LogArgs::of_one(path.to_owned(), keyring.cloned()).find_logs()?;
    found.check_indexes()?;
    let InputLogs { locations, bytes_total, keyring, .. } = found;
    let logs = locations.into_iter().map(|location| match location {
        InputLocation::File(path) => Ok(path),
        InputLocation::Stdin => Err(CommandFailure::NotStarted(anyhow!(
            "diff reads logs more than once, but standard input can be read only once: give a file"
        ))),
    });
    let logs = logs.collect::<Result<_, _>>()?;
    Ok((DiffStore { name: path.display().to_string(), logs, keyring }, bytes_total))
}

fn compare(
    settings: &DiffSettings,
    bytes_total: Option<u64>,
    global: &GlobalArgs,
) -> Result<StoreDiff, CommandFailure> {
    let mut progress = ByteProgress::new(global, bytes_total);
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        interrupt::stop_flow()
    };
    // Exit code 1 means different stores: an error has 2, also for a damaged log.
    compare_stores(settings, &mut watch).map_err(|error| {
        CommandFailure::NotStarted(match error {
            DiffError::Log(cause) => add_advice(cause),
            error => error.into(),
        })
    })
}
