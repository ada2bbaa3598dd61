//! How transactions are applied: in which order, and how many at once.

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

/// How transactions are applied.
#[derive(Args, Debug)]
pub(super) struct How {
    /// What the target shows: transactions in the source's order, several at once or each by itself; or in any order.
    /// [default: grouped; strict with --log]
    #[arg(long, value_enum)]
    commit_order: Option<Order>,
    /// Write what is applied to the target's own binary log, each transaction under its GTID of the source, so that
    /// replicas below the target have it too.
    #[arg(long)]
    pub(super) log: bool,
    /// Transactions that are committed as one, at most.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    group_max: usize,
    /// Sessions that apply transactions, or groups of them, at once [default: 2 with --commit-order grouped, else 8].
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,
    /// Which may be applied at once [default: writeset with --commit-order grouped, else logical-clock].
    #[arg(long, value_enum)]
    parallel: Option<Parallel>,
    /// Memory to take at most, about, as 300M or 2G; what is larger waits in a temporary file.
    #[arg(long, value_name = "SIZE", default_value = "300M", value_parser = size)]
    memory: u64,
    #[command(flatten)]
    pub(super) temporary: TemporaryFiles,
}

impl How {
    /// Bytes of one transaction that are held in memory.
    pub(super) fn held_max(&self) -> usize {
        (self.memory() / 64).max(64 << 10)
    }

    fn order(&self) -> Result<Order, Failure> {
        match self.commit_order {
            None if self.log => Ok(Order::Strict),
            None => Ok(Order::Grouped),
            Some(Order::Grouped) if self.log => Err(Failure::NotBegun(anyhow!(
                "--log with --commit-order grouped: a group is one transaction, and the log gives each of its \
                 transactions a GTID of its own; use strict"
            ))),
            Some(Order::Any) if self.log => Err(Failure::NotBegun(anyhow!(
                "--log with --commit-order any: replicas below would see states that the source never had; use strict"
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
                "--commit-order grouped with --parallel {}: of many transactions committed as one, one always waits \
                 for a neighbour, and each group for the one before; use writeset, database or none",
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

/// What the target shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Each transaction is committed by itself.
    Strict,
    /// Transactions in a row are committed as one: many when there are many to do.
    Grouped,
    /// Each transaction is committed by itself, as soon as it is done: readers see states that the source never had.
    Any,
}

impl Order {
    /// What may run beside what, if nobody says.
    const fn parallel(self) -> Parallel {
        match self {
            Self::Grouped => Parallel::Writeset,
            Self::Strict | Self::Any => Parallel::LogicalClock,
        }
    }

    /// How many sessions, if nobody says.
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

/// What may run beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Parallel {
    /// What the source says may run at once.
    LogicalClock,
    /// What changes different rows, found from their keys.
    Writeset,
    /// The same, but for what ran in one session of the source.
    WritesetSession,
    /// What changes different databases.
    Database,
    /// Nothing: one after the other.
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
