//! Selection of the transactions and tables that are counted.

use binlog::TransactionId;
use logs::{ArchivedContents, ChangeOrigin, GtidSelection};
use sql::TableSelection;

/// Selection of the transactions and tables to count. The default selects all.
///
/// Whole transactions are selected, by GTID and commit time. In selected transactions, only row changes of selected
/// tables count. For a selected database, statements with this default database also count. A transaction without any
/// of these does not count.
#[derive(Clone, Debug, Default)]
pub struct StatsSelection {
    /// Only transactions committed at this time or later, in microseconds since 1970.
    pub start_us: Option<u64>,
    /// Only transactions committed before this time, in microseconds since 1970.
    pub stop_us: Option<u64>,
    /// Selected transactions.
    pub gtids: GtidSelection,
    /// Selected tables.
    pub tables: TableSelection,
}

impl StatsSelection {
    /// Returns whether the selection includes all transactions and tables.
    pub fn selects_all(&self) -> bool {
        self.start_us.is_none()
            && self.stop_us.is_none()
            && self.gtids == GtidSelection::default()
            && self.tables.selects_all()
    }

    /// Returns whether the selection includes a transaction. `origin` is the origin of its first event or of a later
    /// one.
    pub fn selects(&self, id: Option<TransactionId>, origin: &ChangeOrigin) -> bool {
        let time_us = origin.time_us();
        self.start_us.is_none_or(|start_us| time_us >= start_us)
            && self.stop_us.is_none_or(|stop_us| time_us < stop_us)
            && self.gtids.selects(id)
    }

    /// Returns whether an archived log may have selected transactions.
    pub fn may_select(&self, contents: &ArchivedContents) -> bool {
        contents.may_have_commits(self.start_us, self.stop_us)
            && contents.may_have_gtids(&self.gtids)
            && (self.tables.selects_all()
                || contents.may_change_table(|database, table| {
                    self.tables.selects(database.as_bytes(), table.as_bytes())
                }))
    }
}
