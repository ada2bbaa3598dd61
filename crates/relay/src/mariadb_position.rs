//! GTID positions of MariaDB: of a replica, and of the logs.

use std::fmt;

use binlog::events::MariadbGtid;
use binlog::{Event, TransactionId};

use crate::form_chunk::FormChunk;
use crate::relay_store::HeadEvents;
use crate::state_reader::StoredState;

/// Position of a MariaDB replica: the last GTID of each replication domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MariadbPosition(Vec<MariadbGtid>);

/// Error: the text is not a GTID position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the last GTID of each domain, such as 0-1-270,1-2-9")]
pub struct PositionTextError;

/// GTIDs in the logs up to a position: the last GTID of each server in each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MariadbState {
    /// For each domain, the last GTID of each server. The last GTID of the domain is at the end.
    domains: Vec<Vec<MariadbGtid>>,
}

impl std::str::FromStr for MariadbPosition {
    type Err = PositionTextError;

    fn from_str(text: &str) -> Result<Self, PositionTextError> {
        let mut position = Self::default();
        if text.trim().is_empty() {
            return Ok(position);
        }
        for gtid in text.split(',') {
            let gtid: MariadbGtid = gtid.trim().parse().map_err(|_| PositionTextError)?;
            if position.find(gtid.domain_id).is_some() {
                return Err(PositionTextError);
            }
            position.0.push(gtid);
        }
        Ok(position)
    }
}

impl MariadbPosition {
    /// Returns the last GTID of a domain.
    pub fn find(&self, domain_id: u32) -> Option<MariadbGtid> {
        self.0.iter().find(|gtid| gtid.domain_id == domain_id).copied()
    }

    /// Returns the last GTIDs of all domains.
    pub fn iter(&self) -> impl Iterator<Item = MariadbGtid> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if there are no GTIDs.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a domain.
    pub(crate) fn remove(&mut self, domain_id: u32) {
        self.0.retain(|gtid| gtid.domain_id != domain_id);
    }

    /// Returns whether all events after the position are in a log with this Gtid_list, or in later logs.
    ///
    /// A position that is the last GTID of its domain in the list is reached at the log's start.
    pub(crate) fn is_in_or_after(&self, list: &[MariadbGtid]) -> bool {
        list.iter().enumerate().all(|(index, listed)| {
            let Some(gtid) = self.find(listed.domain_id) else { return false };
            let is_last = list.get(index + 1).is_none_or(|next| next.domain_id != listed.domain_id);
            gtid.server_id != listed.server_id
                || gtid.sequence_number > listed.sequence_number
                || gtid.sequence_number == listed.sequence_number && is_last
        })
    }
}

/// Shows the last GTID of each domain, as `gtid_binlog_pos` does.
impl fmt::Display for MariadbState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.domains.iter().filter_map(|domain| domain.last());
        let text =
            |gtid: &MariadbGtid| format!("{}-{}-{}", gtid.domain_id, gtid.server_id, gtid.sequence_number);
        out.write_str(&last.map(text).collect::<Vec<_>>().join(","))
    }
}

impl MariadbState {
    /// Returns the state before a log with this Gtid_list.
    pub(crate) fn from_list(list: &[MariadbGtid]) -> Self {
        let mut state = Self::default();
        list.iter().for_each(|gtid| state.add(*gtid));
        state
    }

    /// Adds the GTID of the next transaction.
    pub(crate) fn add(&mut self, gtid: MariadbGtid) {
        let known = self.domains.iter_mut().find(|domain| domain[0].domain_id == gtid.domain_id);
        match known {
            Some(domain) => {
                domain.retain(|known| known.server_id != gtid.server_id);
                domain.push(gtid);
            }
            None => self.domains.push(vec![gtid]),
        }
    }

    /// Returns the last GTID of a server in a domain.
    pub(crate) fn find(&self, domain_id: u32, server_id: u32) -> Option<MariadbGtid> {
        let mut all = self.domains.iter().flatten();
        all.find(|gtid| gtid.domain_id == domain_id && gtid.server_id == server_id).copied()
    }

    /// Returns the last GTID of a domain.
    pub(crate) fn last(&self, domain_id: u32) -> Option<MariadbGtid> {
        let mut last = self.domains.iter().filter_map(|domain| domain.last());
        last.find(|gtid| gtid.domain_id == domain_id).copied()
    }

    /// Returns whether the logs contain the GTID, or a later GTID of the same server and domain.
    pub(crate) fn has_reached(&self, gtid: MariadbGtid) -> bool {
        self.find(gtid.domain_id, gtid.server_id)
            .is_some_and(|last| last.sequence_number >= gtid.sequence_number)
    }

    /// Returns the entries of a Gtid_list event.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let encoded = |gtid: &MariadbGtid| {
            let mut entry = [gtid.domain_id.to_le_bytes(), gtid.server_id.to_le_bytes()].concat();
            entry.extend_from_slice(&gtid.sequence_number.to_le_bytes());
            entry
        };
        self.domains.iter().flatten().flat_map(encoded).collect()
    }
}

/// Returns the entries of a Gtid_list event.
pub(crate) fn gtid_list(event: &Event<'_>) -> Vec<MariadbGtid> {
    let Event::MariadbGtidList(list) = event else { return Vec::new() };
    list.iter().collect()
}

impl StoredState for MariadbState {
    fn before_log(head: Option<&HeadEvents>) -> Self {
        Self::from_list(head.and_then(|head| head.gtid_list.as_deref()).unwrap_or_default())
    }

    fn add_chunk(&mut self, chunk: &FormChunk, first: usize) {
        for mark in chunk.transactions().iter().filter(|mark| mark.slice >= first) {
            if let TransactionId::Mariadb(gtid) = mark.id {
                self.add(gtid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::MariadbGtid;

    use super::{MariadbPosition, MariadbState, PositionTextError};

    fn list(text: &str) -> Vec<MariadbGtid> {
        let gtids = text.split(',').filter(|gtid| !gtid.is_empty());
        gtids.map(|gtid| gtid.parse().unwrap()).collect()
    }

    #[test]
    fn positions_are_parsed() {
        let check = |text: &str, expected: Option<&str>| {
            let found = text.parse::<MariadbPosition>();
            assert_eq!(
                found,
                expected.map(|expected| MariadbPosition(list(expected))).ok_or(PositionTextError)
            );
        };
        check("", Some(""));
        check("0-1-270", Some("0-1-270"));
        check("0-1-270, 7-2-18446744073709551615", Some("0-1-270,7-2-18446744073709551615"));
        for wrong in ["0", "0-1", "0-1-", "0-1-2-3", "-1-2", "0-1-2,", "0-1-2,0-2-3", "4294967296-1-1", "x"] {
            check(wrong, None);
        }
    }

    #[test]
    fn logs_are_found_by_their_list() {
        let check = |position: &str, listed: &str, expected: bool| {
            let position: MariadbPosition = position.parse().unwrap();
            assert_eq!(position.is_in_or_after(&list(listed)), expected, "{position:?} {listed}");
        };
        check("0-1-5", "", true);
        check("0-1-5", "0-1-4", true);
        check("0-1-5", "0-1-5", true);
        check("0-1-5", "0-1-6", false);
        check("0-1-5", "0-1-5,0-2-6", false);
        check("0-2-6", "0-1-5,0-2-6", true);
        check("0-1-5", "0-1-4,1-1-1", false);
        check("0-1-5,1-1-1", "0-1-4,1-1-1", true);
        check("", "0-1-4", false);
    }

    #[test]
    fn states_have_the_last_gtid_of_each_server() {
        let mut state = MariadbState::from_list(&list("0-1-5,0-2-6,3-1-1"));
        state.add(list("0-1-7")[0]);
        assert_eq!(state, MariadbState::from_list(&list("0-2-6,0-1-7,3-1-1")));
        assert_eq!(state.last(0), Some(list("0-1-7")[0]));
        assert_eq!(state.find(0, 2), Some(list("0-2-6")[0]));
        assert_eq!((state.last(9), state.find(0, 9)), (None, None));
        assert!(state.has_reached(list("0-2-6")[0]) && !state.has_reached(list("0-2-7")[0]));
        assert_eq!(state.encode().len(), 48);
    }
}
