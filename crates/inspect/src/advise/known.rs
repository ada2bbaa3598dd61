//! Large transactions that one cell has measured and that overlap others.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::cells::Cell;
use super::measure::Made;
use super::record::{Network, Record, Share};
use super::tables::Name;

/// Measured large transactions, by log and start.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<BTreeMap<(usize, u64), KnownOne>>);

/// One measured transaction.
#[derive(Clone, Debug)]
pub(crate) struct KnownOne {
    pub(crate) end: u64,
    pub(crate) record: Record,
    pub(crate) made: Vec<Made>,
    pub(crate) after: Vec<u64>,
    pub(crate) network: Network,
    pub(crate) tables: Vec<(Name, u64)>,
}

/// Maximum number of transactions to remember.
const KNOWN_MAX: usize = 4096;

impl Known {
    pub(crate) fn insert(&self, source: usize, start: u64, one: KnownOne) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < KNOWN_MAX {
            known.insert((source, start), one);
        }
    }

    /// Returns true if a transaction with this start is known.
    pub(crate) fn has(&self, source: usize, start: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(source, start))
    }

    /// Returns the transaction that covers the whole cell, with its share in the cell.
    pub(crate) fn covering(&self, cell: Cell) -> Option<KnownOne> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (&(source, start), one) = known.range(..=(cell.source, cell.start)).next_back()?;
        if source != cell.source || one.end < cell.end {
            return None;
        }
        let share = Share { from: cell.start - start, to: cell.end - start, of: one.end - start };
        Some(KnownOne { record: Record { share, ..one.record.clone() }, ..one.clone() })
    }
}
