//! One source transaction, whole, and where it came from.

use std::fmt;
use std::sync::Arc;

use binlog::events::LogicalClock;
use binlog::gtid::Gtid;
use binlog::{Outline, Transaction, TransactionId};

use crate::progress::Place;

/// One source transaction, whole.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its number in source order: 0, 1, 2… over all logs of a replay.
    pub number: u64,
    /// Where it came from.
    pub origin: Origin,
    /// Its outline and events.
    pub transaction: Transaction,
}

/// A transaction without its events: what to know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As [`Unit::number`].
    pub number: u64,
    /// Where it came from.
    pub origin: Origin,
    /// Its identifier.
    pub id: TransactionId,
    /// What may run beside it, as the source has it.
    pub clock: Option<LogicalClock>,
    /// When it was committed on the server whose log this is: microseconds since 1970. From before MySQL 8.0.1, when
    /// it began, in whole seconds.
    pub committed_us: u64,
}

/// Where a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The log as it was given: a path, or `standard input`.
    pub log: Arc<str>,
    /// The name that the source's server has for it: the path's last part. For standard input, what tells a log from
    /// others: its server, its time, and its first transaction.
    pub log_name: Arc<str>,
    /// Which of the replay's logs it is: 0, 1, 2…
    pub log_number: usize,
    /// Where its first event starts, in bytes from the start of the log.
    pub start: u64,
    /// Where its last event ends.
    pub end: u64,
}

impl Origin {
    /// Where it starts, as progress has it.
    pub fn start_place(&self) -> Place {
        Place { log: self.log_name.to_string(), position: self.start }
    }

    /// Where it ends, as progress has it.
    pub fn end_place(&self) -> Place {
        Place { log: self.log_name.to_string(), position: self.end }
    }
}

impl Unit {
    /// The same without its events.
    pub fn head(&self) -> Head {
        Head::of(self.number, self.origin.clone(), self.transaction.outline())
    }
}

impl Head {
    /// Of a transaction whose outline this is.
    pub(crate) fn of(number: u64, origin: Origin, outline: &Outline) -> Self {
        let committed_us = committed_us(outline);
        Self { number, origin, id: outline.id, clock: outline.clock, committed_us }
    }

    /// Its GTID, if it has one of MySQL's.
    pub const fn gtid(&self) -> Option<Gtid> {
        match self.id {
            TransactionId::Gtid(gtid) => Some(gtid),
            _ => None,
        }
    }
}

/// As [`Head::committed_us`].
pub(crate) fn committed_us(outline: &Outline) -> u64 {
    let began_us = u64::from(outline.timestamp) * 1_000_000;
    outline.stamps.map_or(began_us, |stamps| stamps.immediate_commit_us)
}

/// What to call it in messages: its log, its place, its GTID.
impl fmt::Display for Head {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {} ({})", self.origin.log, self.origin.start, self.id)
    }
}
