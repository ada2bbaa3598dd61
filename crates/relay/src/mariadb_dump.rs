//! Dump by MariaDB GTIDs: skips transactions that the replica has, and stops at the requested end.

use std::sync::Arc;

use binlog::events::MariadbGtid;

use crate::dump_error::DumpError;
use crate::form_source::FormSource;
use crate::mariadb_position::{MariadbPosition, MariadbState};

/// Request of a MariaDB replica by GTID, from variables of its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MariadbRequest {
    /// Position of the replica: `@slave_connect_state`.
    pub position: MariadbPosition,
    /// Position to stop at: `@slave_until_gtid`; `None` to continue without end.
    pub until: Option<MariadbPosition>,
    /// Handling of a position between two transactions: `@slave_gtid_strict_mode`.
    pub holes: GtidHoles,
    /// Handling of a position after the end of the logs: `@slave_gtid_ignore_duplicates`.
    pub ahead: GtidsAhead,
}

/// Handling of a position that is missing between two transactions of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GtidHoles {
    /// The replica starts after the missing position.
    #[default]
    Allowed,
    /// The dump fails.
    Refused,
}

/// Handling of a position after the end of the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GtidsAhead {
    /// The dump fails.
    #[default]
    Refused,
    /// The replica waits until the logs reach the position.
    Allowed,
}

/// Flag of a Gtid_list event: the requested end is reached.
const UNTIL_REACHED: u32 = 1 << 28;

/// State of a dump by MariaDB GTIDs.
#[derive(Clone, Debug)]
pub struct MariadbProgress {
    /// Position of the replica, in domains with transactions that are still skipped.
    remaining: MariadbPosition,
    /// Domains of `remaining` without a transaction in the logs so far. The first transaction shows whether the
    /// position exists.
    empty_domains: Vec<u32>,
    /// Domains in which the end is not reached yet; `None` to continue without end.
    until: Option<MariadbPosition>,
    holes: GtidHoles,
    /// GTIDs in artificial Gtid_list events.
    seen: MariadbState,
    /// True if an artificial Gtid_list event is due at the end of the transaction.
    is_list_due: bool,
    /// True if the dump ends after the present transaction.
    is_last: bool,
}

/// Decision about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupDecision {
    Send,
    Skip,
}

impl MariadbProgress {
    /// Checks the position against the transactions in the logs, and finds the log to start at.
    pub(crate) fn start(
        source: &FormSource,
        names: &[Arc<str>],
        request: &MariadbRequest,
        stored: &MariadbState,
    ) -> Result<(Arc<str>, Self), DumpError> {
        let mut progress = Self {
            remaining: request.position.clone(),
            empty_domains: Vec::new(),
            until: request.until.clone(),
            holes: request.holes,
            seen: MariadbState::default(),
            is_list_due: false,
            is_last: false,
        };
        for gtid in request.position.iter() {
            progress.check_position(gtid, request.ahead, stored)?;
        }
        for name in names.iter().rev() {
            let Some(head) = source.store().head(name).map_err(DumpError::start)? else { continue };
            match &head.gtid_list {
                // A log without transactions may get its list later. Servers before 10.0 write no list.
                None if !head.is_final => {}
                None => return Ok((Arc::clone(name), progress)),
                Some(list) if request.position.is_in_or_after(list) => {
                    progress.pass(list);
                    return Ok((Arc::clone(name), progress));
                }
                Some(_) => {}
            }
        }
        Err(DumpError::mariadb_purged())
    }

    fn check_position(
        &mut self,
        gtid: MariadbGtid,
        ahead: GtidsAhead,
        stored: &MariadbState,
    ) -> Result<(), DumpError> {
        if stored.has_reached(gtid) {
            return Ok(());
        }
        let Some(last) = stored.last(gtid.domain_id) else {
            self.empty_domains.push(gtid.domain_id);
            return Ok(());
        };
        if ahead == GtidsAhead::Allowed && last.sequence_number < gtid.sequence_number {
            return Ok(());
        }
        let Some(until) = &mut self.until else {
            return Err(DumpError::mariadb_unknown(gtid, last));
        };
        match until.find(gtid.domain_id) {
            Some(end) if !stored.has_reached(end) => Err(DumpError::mariadb_unknown(gtid, last)),
            // The requested end is before the start.
            _ => {
                until.remove(gtid.domain_id);
                Ok(())
            }
        }
    }

    /// Counts the transactions before a log with this Gtid_list as passed.
    fn pass(&mut self, list: &[MariadbGtid]) {
        for listed in list {
            if self.remaining.find(listed.domain_id) == Some(*listed) {
                self.remaining.remove(listed.domain_id);
            }
            if let Some(until) = &mut self.until
                && until.find(listed.domain_id).is_some_and(|end| {
                    end.server_id == listed.server_id && end.sequence_number <= listed.sequence_number
                })
            {
                until.remove(listed.domain_id);
            }
        }
    }

    /// Returns whether all transactions that the replica has are passed. The replica then drops its temporary tables at
    /// a new log.
    pub(crate) fn is_reached(&self) -> bool {
        self.remaining.iter().all(|gtid| self.empty_domains.contains(&gtid.domain_id))
    }

    /// Takes the format description of a log.
    pub(crate) fn begin_log(&mut self) {
        self.is_last |= self.until.as_ref().is_some_and(MariadbPosition::is_empty);
    }

    /// Takes the Gtid_list event of a log.
    pub(crate) fn merge_list(&mut self, list: &[MariadbGtid]) {
        if self.until.is_some() {
            self.seen = MariadbState::from_list(list);
        }
    }

    /// Takes the GTID of the next transaction.
    pub(crate) fn begin_group(&mut self, gtid: MariadbGtid) -> Result<GroupDecision, DumpError> {
        if self.remaining.is_empty() && self.until.is_none() {
            return Ok(GroupDecision::Send);
        }
        self.seen.add(gtid);
        let mut decision = GroupDecision::Send;
        if let Some(start) = self.remaining.find(gtid.domain_id) {
            decision = self.compare_start(gtid, start)?;
        }
        if let Some(until) = &mut self.until {
            match until.find(gtid.domain_id) {
                // The requested end of this domain is reached.
                None => decision = GroupDecision::Skip,
                Some(end)
                    if end.server_id == gtid.server_id && gtid.sequence_number >= end.sequence_number =>
                {
                    until.remove(gtid.domain_id);
                    self.is_last = until.is_empty();
                    if gtid.sequence_number > end.sequence_number {
                        decision = GroupDecision::Skip;
                    }
                }
                Some(_) => {}
            }
        }
        Ok(decision)
    }

    fn compare_start(&mut self, gtid: MariadbGtid, start: MariadbGtid) -> Result<GroupDecision, DumpError> {
        let is_same_server = gtid.server_id == start.server_id;
        let is_beyond = is_same_server && gtid.sequence_number > start.sequence_number;
        if self.empty_domains.contains(&gtid.domain_id) {
            // A server searches its whole log; the relay checks only this transaction.
            if is_beyond || !is_same_server && gtid.sequence_number >= start.sequence_number {
                return Err(DumpError::mariadb_unknown(start, gtid));
            }
            self.empty_domains.retain(|domain| *domain != gtid.domain_id);
        }
        if is_beyond && self.holes == GtidHoles::Refused {
            return Err(DumpError::mariadb_hole(start));
        }
        if is_same_server && gtid.sequence_number >= start.sequence_number {
            self.is_list_due = true;
            self.remaining.remove(gtid.domain_id);
        }
        Ok(if is_beyond { GroupDecision::Send } else { GroupDecision::Skip })
    }

    /// Records the end of a sent event, or of a skipped transaction. Returns the flags of the artificial Gtid_list
    /// events that must follow.
    pub(crate) fn end_event(&mut self, is_in_transaction: bool) -> impl Iterator<Item = u32> + use<> {
        let due = std::mem::take(&mut self.is_list_due).then_some(0);
        due.into_iter().chain((self.is_last && !is_in_transaction).then_some(UNTIL_REACHED))
    }

    /// Returns whether the end of the present transaction is the requested end.
    pub(crate) const fn is_last(&self) -> bool {
        self.is_last
    }

    /// Returns the entries of artificial Gtid_list events.
    pub(crate) fn list_entries(&self) -> Vec<u8> {
        self.seen.encode()
    }
}
