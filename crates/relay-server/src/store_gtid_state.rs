//! GTIDs of all stored transactions.

use binlog::TransactionId;
use binlog::gtid::GtidSet;
use relay::{FormChunk, HeadEvents, StoredState};

/// GTIDs of all stored whole transactions.
#[derive(Debug, Default)]
pub(crate) struct StoreGtidState {
    gtids: GtidSet,
    /// Transaction whose last event is not read yet.
    open: Option<TransactionId>,
}

impl StoreGtidState {
    pub(crate) const fn gtids(&self) -> &GtidSet {
        &self.gtids
    }
}

impl StoredState for StoreGtidState {
    fn before_log(head: Option<&HeadEvents>) -> Self {
        let gtids = head.and_then(|head| head.previous_gtids.clone()).unwrap_or_default();
        Self { gtids, open: None }
    }

    fn add_chunk(&mut self, chunk: &FormChunk, first: usize) {
        for (index, slice) in chunk.slices().iter().enumerate().skip(first) {
            if slice.starts_transaction && slice.is_first() {
                self.open = chunk.transaction_at(index);
            }
            if slice.is_end_of_transaction()
                && let Some(TransactionId::Gtid(gtid)) = self.open.take()
            {
                self.gtids.add(gtid);
            }
        }
    }
}
