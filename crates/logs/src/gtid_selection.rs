//! Selection of transactions by GTID.

use binlog::TransactionId;
use binlog::gtid::GtidSet;

/// Selection of transactions by GTID. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSelection {
    /// Transactions to select; `None` for all.
    pub included: Option<GtidSet>,
    /// Transactions to exclude.
    pub excluded: Option<GtidSet>,
}

impl GtidSelection {
    /// Returns whether the transaction is selected. A transaction without a GTID of MySQL is in no set.
    pub fn selects(&self, id: Option<TransactionId>) -> bool {
        let gtid = match id {
            Some(TransactionId::Gtid(gtid)) => Some(gtid),
            _ => None,
        };
        let is_in = |set: &GtidSet| gtid.is_some_and(|gtid| set.contains(gtid));
        self.included.as_ref().is_none_or(is_in) && !self.excluded.as_ref().is_some_and(is_in)
    }
}
