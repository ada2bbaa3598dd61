//! Sets of transactions of MySQL and MariaDB.

use std::collections::BTreeMap;
use std::fmt;

use binlog::TransactionId;
use binlog::events::MariadbGtid;
use binlog::gtid::GtidSet;

/// Transactions of MySQL, of MariaDB and without GTIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionRanges {
    /// Transactions with GTIDs of MySQL.
    pub gtids: GtidSet,
    /// Transactions with GTIDs of MariaDB.
    pub mariadb: Vec<MariadbGtidRange>,
    /// Number of transactions without GTIDs.
    pub anonymous: u64,
    /// Number of all transactions.
    pub count: u64,
}

/// Consecutive GTIDs of MariaDB, of one domain and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtidRange {
    /// First GTID.
    pub first: MariadbGtid,
    /// Sequence number of the last GTID.
    pub last: u64,
}

impl fmt::Display for MariadbGtidRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        match first.sequence_number == *last {
            true => write!(out, "{first}"),
            false => write!(out, "{first} to {}", MariadbGtid { sequence_number: *last, ..*first }),
        }
    }
}

impl TransactionRanges {
    /// Returns true if there are no transactions.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a transaction. Transactions of one server must come in the order of their numbers.
    pub(crate) fn add(&mut self, id: TransactionId) {
        self.count += 1;
        match id {
            TransactionId::Gtid(gtid) => drop(self.gtids.add(gtid)),
            TransactionId::Mariadb(gtid) => match self.mariadb.last_mut() {
                Some(range) if range.is_followed_by(gtid) => range.last = gtid.sequence_number,
                _ => self.mariadb.push(MariadbGtidRange { first: gtid, last: gtid.sequence_number }),
            },
            _ => self.anonymous += 1,
        }
    }
}

impl MariadbGtidRange {
    fn is_followed_by(&self, gtid: MariadbGtid) -> bool {
        let next = self.last.checked_add(1);
        next.is_some_and(|next| MariadbGtid { sequence_number: next, ..self.first } == gtid)
    }
}

impl fmt::Display for TransactionRanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if !self.gtids.is_empty() {
            write!(out, "{}", self.gtids)?;
            separator = ", ";
        }
        for range in &self.mariadb {
            write!(out, "{separator}{range}")?;
            separator = ", ";
        }
        match self.anonymous {
            0 => Ok(()),
            1 => write!(out, "{separator}1 without a GTID"),
            count => write!(out, "{separator}{count} without GTIDs"),
        }
    }
}

/// Transactions of a server from before its first log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgedTransactions {
    pub(crate) gtids: GtidSet,
    /// Last sequence number by domain and server.
    pub(crate) mariadb: BTreeMap<(u32, u32), u64>,
}

impl PurgedTransactions {
    /// Returns whether a transaction is in the set.
    pub(crate) fn contains(&self, id: TransactionId) -> bool {
        match id {
            TransactionId::Gtid(gtid) => self.gtids.contains(gtid),
            TransactionId::Mariadb(MariadbGtid { domain_id, server_id, sequence_number }) => {
                let last = self.mariadb.get(&(domain_id, server_id));
                last.is_some_and(|last| sequence_number <= *last)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::TransactionId;
    use binlog::events::MariadbGtid;

    use super::TransactionRanges;

    fn check(ids: &str, expected: &str) {
        let mut ranges = TransactionRanges::default();
        for id in ids.split_whitespace() {
            let numbers: Vec<u32> = id.split('-').map(|number| number.parse().unwrap_or(0)).collect();
            ranges.add(match numbers[..] {
                [domain_id, server_id, number] => TransactionId::Mariadb(MariadbGtid {
                    domain_id,
                    server_id,
                    sequence_number: number.into(),
                }),
                _ if id.contains(':') => TransactionId::Gtid(id.parse().unwrap()),
                _ => TransactionId::Anonymous,
            });
        }
        assert_eq!(ranges.to_string(), expected, "{ids}");
        assert_eq!(ranges.count as usize, ids.split_whitespace().count());
    }

    #[test]
    fn ranges_are_shown_as_their_servers_show_them() {
        check("", "");
        check("0-1-5", "0-1-5");
        check("0-1-5 0-1-6 0-1-7 0-1-9 0-2-10 1-2-11", "0-1-5 to 0-1-7, 0-1-9, 0-2-10, 1-2-11");
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        check(&format!("{uuid}:1 {uuid}:2 {uuid}:4 0-1-1"), &format!("{uuid}:1-2:4, 0-1-1"));
        check("?", "1 without a GTID");
        check("0-1-1 ? ?", "0-1-1, 2 without GTIDs");
    }
}
