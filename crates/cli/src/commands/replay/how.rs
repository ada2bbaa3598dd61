//! Options of how transactions are applied: their order and parallelism.

use std::num::NonZeroUsize;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use filter::Filter;
use replay::order::CommitOrder;
use replay::schedule::Mode;
use replay::{Gap, Options, Selection};

use crate::commands::rewrite::size;
use crate::exit::Failure;
use crate::temporary::TemporaryFiles;

/// Options of how transactions are applied.
#[derive(Args, Debug)]
pub(super) struct How {
    /// Order of commits on the target [default: grouped; strict with --log]
    #[arg(long, value_enum)]
    commit_order: Option<Order>,
    /// Write applied transactions to the target's own binary log, with the source's GTIDs, so that replicas of the
    /// target receive them.
    #[arg(long)]
    pub(super) log: bool,
    /// Maximum number of transactions in one commit.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    group_max: usize,
    /// Number of sessions that apply transactions or groups in parallel [default: 2 with --commit-order grouped,
    /// otherwise 8]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,
    /// Transactions that may be applied in parallel [default: writeset with --commit-order grouped, otherwise
    /// logical-clock]
    #[arg(long, value_enum)]
    parallel: Option<Parallel>,
    /// Approximate maximum memory, as 300M or 2G. Larger transactions wait in a temporary file.
    #[arg(long, value_name = "SIZE", default_value = "300M", value_parser = size)]
    memory: u64,
    #[command(flatten)]
    pub(super) temporary: TemporaryFiles,
}

impl How {
    /// Returns the maximum bytes of one transaction that are kept in memory.
    pub(super) fn held_max(&self) -> usize {
        (self.memory() / 64).max(64 << 10)
    }

    fn order(&self) -> Result<Order, Failure> {
        match self.commit_order {
            None if self.log => Ok(Order::Strict),
            None => Ok(Order::Grouped),
            Some(Order::Grouped) if self.log => Err(Failure::NotBegun(anyhow!(
                "--log with --commit-order grouped: a group is one transaction on the target, but each transaction \
                 needs its own GTID in the log; use --commit-order strict"
            ))),
            Some(Order::Any) if self.log => Err(Failure::NotBegun(anyhow!(
                "--log with --commit-order any: replicas of the target would see states that the source never had; \
                 use --commit-order strict"
            ))),
            Some(order) => Ok(order),
        }
    }

    fn memory(&self) -> usize {
        usize::try_from(self.memory).unwrap_or(usize::MAX)
    }

    pub(super) fn options(&self, selection: Selection, filter: Filter, gap: Gap) -> Result<Options, Failure> {
        let order = self.order()?;
        let parallel = self.parallel.unwrap_or(order.parallel());
        if order == Order::Grouped && matches!(parallel, Parallel::LogicalClock | Parallel::WritesetSession) {
            return Err(Failure::NotBegun(anyhow!(
                "--commit-order grouped with --parallel {}: each group would wait for the group before it; use \
                 --parallel writeset, database or none",
                parallel.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
            )));
        }
        let workers = self.workers.unwrap_or(order.workers());
        Ok(Options {
            order: order.into(),
            group_max: self.group_max.max(1),
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
enum Order {
    /// One commit for each transaction, in the source's order
    Strict,
    /// One commit for several consecutive transactions, in the source's order; larger groups if more transactions
    /// wait
    Grouped,
    /// One commit for each transaction as soon as it is applied, in any order: readers see states that the source
    /// never had
    Any,
}

impl Order {
    /// Returns the default of `--parallel`.
    const fn parallel(self) -> Parallel {
        match self {
            Self::Grouped => Parallel::Writeset,
            Self::Strict | Self::Any => Parallel::LogicalClock,
        }
    }

    /// Returns the default of `--workers`.
    const fn workers(self) -> NonZeroUsize {
        let count = match self {
            Self::Grouped => 2,
            Self::Strict | Self::Any => 8,
        };
        NonZeroUsize::new(count).expect("ours: not zero")
    }
}

impl From<Order> for CommitOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Strict => Self::Strict,
            Order::Grouped => Self::Grouped,
            Order::Any => Self::Any,
        }
    }
}

/// Value of `--parallel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Parallel {
    /// Transactions that the source's logical clock marks as independent
    LogicalClock,
    /// Transactions that change different rows, determined from their keys
    Writeset,
    /// As writeset, but not transactions of the same session of the source
    WritesetSession,
    /// Transactions that change different databases
    Database,
    /// No transactions: one after the other
    None,
}

impl From<Parallel> for Mode {
    fn from(parallel: Parallel) -> Self {
        match parallel {
            Parallel::LogicalClock => Self::LogicalClock,
            Parallel::Writeset => Self::Writeset,
            Parallel::WritesetSession => Self::WritesetSession,
            Parallel::Database => Self::Database,
            Parallel::None => Self::None,
        }
    }
}
