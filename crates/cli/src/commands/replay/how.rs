//! How transactions are applied: in which order, and how many at once.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use replay::order::CommitOrder;
use replay::schedule::Mode;
use replay::{Gap, Options, Selection};

/// How transactions are applied.
#[derive(Args, Debug)]
pub(super) struct How {
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
    pub(super) transaction_max: usize,
}

impl How {
    pub(super) fn options(&self, selection: Selection, gap: Gap) -> Options {
        let order = match self.commit_order {
            Order::Strict => CommitOrder::Strict,
            Order::Grouped => CommitOrder::Grouped,
        };
        let mode = match self.parallel {
            Parallel::LogicalClock => Mode::LogicalClock,
            Parallel::None => Mode::None,
        };
        Options { order, group_max: self.group_max.max(1), workers: self.workers, mode, selection, gap }
    }
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
