//! Large transactions measured in one cell that overlap other cells.

use std::collections::BTreeMap;
use std::sync::Mutex;

use logs::lock;

use super::cell_grid::SampleCell;
use super::level_bench::LevelResult;
use super::record::{CellShare, NetworkTraffic, TransactionRecord};
use super::transaction_tables::QualifiedTable;

/// Measured large transactions, by log and start.
#[derive(Debug, Default)]
pub(crate) struct MeasuredTransactions(Mutex<BTreeMap<(usize, u64), MeasuredTransaction>>);

/// One measured transaction.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredTransaction {
    pub(crate) end: u64,
    pub(crate) record: TransactionRecord,
    pub(crate) made: Vec<LevelResult>,
    pub(crate) after: Vec<u64>,
    pub(crate) network: NetworkTraffic,
    pub(crate) tables: Vec<(QualifiedTable, u64)>,
}

/// Maximum number of transactions to remember.
const KNOWN_MAX: usize = 4096;

impl MeasuredTransactions {
    pub(crate) fn insert(&self, source: usize, start: u64, one: MeasuredTransaction) {
        let mut known = lock(&self.0);
        if known.len() < KNOWN_MAX {
            known.insert((source, start), one);
        }
    }

    /// Returns true if a transaction with this start is known.
    pub(crate) fn has(&self, source: usize, start: u64) -> bool {
        lock(&self.0).contains_key(&(source, start))
    }

    /// Returns the transaction that covers the whole cell, with its share in the cell.
    pub(crate) fn covering(&self, cell: SampleCell) -> Option<MeasuredTransaction> {
        let known = lock(&self.0);
        let (&(source, start), one) = known.range(..=(cell.source, cell.start)).next_back()?;
        if source != cell.source || one.end < cell.end {
            return None;
        }
        let share = CellShare { from: cell.start - start, to: cell.end - start, of: one.end - start };
        Some(MeasuredTransaction { record: TransactionRecord { share, ..one.record.clone() }, ..one.clone() })
    }
}
