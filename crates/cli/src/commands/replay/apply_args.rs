//! Options of applying transactions: order and parallelism.

use std::num::NonZeroUsize;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use mysql_target::TargetLogChoice;
use replay::CommitOrder;
use replay::schedule::ParallelMode;
use replay::{GapPolicy, ReplayOptions, TransactionSelection};
use sql::ReplicationFilter;

use crate::exit::CommandFailure;
use crate::temporary_files::TemporaryFiles;
use crate::value_parsers::{number_within, parse_at_least_one, parse_memory};

/// Maximum of `--workers`, as of a replica: each worker is a session on the target.
const WORKERS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("ours: the number is not zero");

/// Options of applying transactions: order and parallelism.
#[derive(Args, Debug)]
pub(super) struct ApplyArgs {
    /// Order of commits on the target [default: grouped; strict with --log]
    #[arg(long, value_enum, value_name = "ORDER")]
    commit_order: Option<OrderOption>,
    /// Write applied transactions to the target's own binary log, with the source's GTIDs, so that replicas of the
    /// target receive them.
    #[arg(long)]
    pub(super) log: bool,
    /// Do not write applied transactions to the target's binary log, even if replicas or other programs read it: they
    /// do not receive these changes.
    #[arg(long, conflicts_with = "log")]
    no_log: bool,
    /// Maximum number of transactions in one commit.
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = parse_at_least_one)]
    group_max: NonZeroUsize,
    /// Number of sessions that apply transactions or groups in parallel [default: 2 with --commit-order grouped,
    /// otherwise 16]
    #[arg(long, value_name = "COUNT", value_parser = number_within(NonZeroUsize::MIN..=WORKERS_MAX))]
    workers: Option<NonZeroUsize>,
    /// Transactions that may be applied in parallel. With --commit-order grouped: only writeset, database or none
    /// [default: writeset with --commit-order grouped, otherwise logical-clock]
    #[arg(long, value_enum, value_name = "MODE")]
    parallel: Option<ParallelOption>,
    /// Approximate maximum memory, such as 300M or 2G. Larger transactions wait in a temporary file.
    #[arg(long, value_name = "SIZE", default_value = "300M", value_parser = parse_memory)]
    memory: u64,
    #[command(flatten)]
    pub(super) temporary: TemporaryFiles,
}

impl ApplyArgs {
    /// Returns the maximum bytes of one transaction in memory.
    pub(super) fn held_max(&self) -> usize {
        (self.memory() / 64).max(64 << 10)
    }

    /// Returns the choice about the target's own binary log.
    pub(super) const fn log_choice(&self) -> TargetLogChoice {
        match (self.log, self.no_log) {
            (true, _) => TargetLogChoice::Write,
            (false, true) => TargetLogChoice::Omit,
            (false, false) => TargetLogChoice::Unset,
        }
    }

    fn order(&self) -> Result<OrderOption, CommandFailure> {
        match self.commit_order {
            None if self.log => Ok(OrderOption::Strict),
            None => Ok(OrderOption::Grouped),
            Some(OrderOption::Grouped) if self.log => Err(CommandFailure::NotStarted(anyhow!(
                "--log with --commit-order grouped: a group is one transaction on the target, but each transaction \
                 needs its own GTID in the log; use --commit-order strict"
            ))),
            Some(OrderOption::Any) if self.log => Err(CommandFailure::NotStarted(anyhow!(
                "--log with --commit-order any: replicas of the target would see states that the source never had; \
                 use --commit-order strict"
            ))),
            Some(order) => Ok(order),
        }
    }

    fn memory(&self) -> usize {
        usize::try_from(self.memory).unwrap_or(usize::MAX)
    }

    pub(super) fn options(
        &self,
        selection: TransactionSelection,
        filter: ReplicationFilter,
        gap: GapPolicy,
    ) -> Result<ReplayOptions, CommandFailure> {
        let order = self.order()?;
        let parallel = self.parallel.unwrap_or(order.parallel());
        if order == OrderOption::Grouped
            && matches!(parallel, ParallelOption::LogicalClock | ParallelOption::WritesetSession)
        {
            return Err(CommandFailure::NotStarted(anyhow!(
                "--commit-order grouped with --parallel {}: each group would wait for the group before it; use \
                 --parallel writeset, database or none",
                parallel.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
            )));
        }
        let workers = self.workers.unwrap_or(order.workers());
        Ok(ReplayOptions {
            order: order.into(),
            group_max: self.group_max.get(),
            memory: self.memory(),
            workers,
            mode: parallel.into(),
            selection,
            filter,
            gap,
        })
    }
}

/// Value of `--commit-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderOption {
    /// One commit for each transaction, in the source's order
    Strict,
    /// One commit for several consecutive transactions, in the source's order: the more transactions wait, the larger
    /// the group
    Grouped,
    /// One commit for each transaction as soon as it is applied, in any order: clients of the target can see states
    /// that the source never had
    Any,
}

impl OrderOption {
    /// Returns the default of `--parallel`.
    const fn parallel(self) -> ParallelOption {
        match self {
            Self::Grouped => ParallelOption::Writeset,
            Self::Strict | Self::Any => ParallelOption::LogicalClock,
        }
    }

    /// Returns the default of `--workers`.
    const fn workers(self) -> NonZeroUsize {
        let count = match self {
            Self::Grouped => 2,
            Self::Strict | Self::Any => 16,
        };
        NonZeroUsize::new(count).expect("ours: the number is not zero")
    }
}

impl From<OrderOption> for CommitOrder {
    fn from(order: OrderOption) -> Self {
        match order {
            OrderOption::Strict => Self::Strict,
            OrderOption::Grouped => Self::Grouped,
            OrderOption::Any => Self::Any,
        }
    }
}

/// Value of `--parallel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ParallelOption {
    /// Transactions that the source's logical clock marks as independent
    LogicalClock,
    /// Transactions that change different rows, determined from their keys
    Writeset,
    /// As writeset, but not transactions of the same session of the source
    WritesetSession,
    /// Transactions that change different databases
    Database,
    /// One transaction after the other
    None,
}

impl From<ParallelOption> for ParallelMode {
    fn from(parallel: ParallelOption) -> Self {
        match parallel {
            ParallelOption::LogicalClock => Self::LogicalClock,
            ParallelOption::Writeset => Self::Writeset,
            ParallelOption::WritesetSession => Self::WritesetSession,
            ParallelOption::Database => Self::Database,
            ParallelOption::None => Self::None,
        }
    }
}
