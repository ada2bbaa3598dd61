//! The server whose log is read, and the GTIDs received from it. After a failover they determine where to resume.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use binlog::events::MariadbGtid;
use binlog::gtid::{Gtid, GtidSet};
use binlog::{DecodeError, Event as Body};

/// Server whose log is read, and the GTIDs received from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGtidState {
    /// `server_uuid`; for MariaDB, which has none, `server_id`.
    pub server: String,
    /// Received transactions, and all that the server had before them; `None` if unknown.
    pub gtids: Option<StreamGtids>,
}

/// Received GTIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamGtids {
    /// GTID set of MySQL.
    Set(GtidSet),
    /// Last GTID of each domain of MariaDB.
    LastByDomain(BTreeMap<u32, MariadbGtid>),
}

impl StreamGtidState {
    /// Creates the state for a server from which nothing was received.
    pub const fn new(server: String) -> Self {
        Self { server, gtids: None }
    }

    /// Adds the GTIDs of all logs before this one, which the head of a log lists.
    ///
    /// # Errors
    ///
    /// Fails if the GTID set cannot be decoded.
    pub fn add_log_head(&mut self, head: &Body<'_>) -> Result<(), DecodeError> {
        match (head, &mut self.gtids) {
            (Body::PreviousGtids(previous), gtids) => {
                let set = GtidSet::decode(previous.set)?;
                match gtids {
                    Some(StreamGtids::Set(gtids)) => gtids.add_all(&set),
                    gtids => *gtids = Some(StreamGtids::Set(set)),
                }
            }
            (Body::MariadbGtidList(list), gtids @ None) => {
                // The newest GTID of each domain comes last.
                let last = list.iter().map(|gtid| (gtid.domain_id, gtid));
                *gtids = Some(StreamGtids::LastByDomain(last.collect()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Drops the domains of MariaDB that the head of a log does not list. The log must follow a log of the same server that
    /// was received up to its end: otherwise, the head lists an older state.
    pub fn drop_deleted_domains(&mut self, head: &Body<'_>) {
        if let (Body::MariadbGtidList(list), Some(StreamGtids::LastByDomain(last))) = (head, &mut self.gtids)
        {
            let listed: BTreeSet<u32> = list.iter().map(|gtid| gtid.domain_id).collect();
            last.retain(|domain, _| listed.contains(domain));
        }
    }

    /// Adds a received transaction by its GTID as text. After a transaction without a GTID, the state is unknown until
    /// the next log head that lists GTIDs.
    pub fn add(&mut self, gtid: Option<&str>) {
        let is_added = match (&mut self.gtids, gtid) {
            (Some(StreamGtids::Set(set)), Some(gtid)) => {
                gtid.parse::<Gtid>().map(|gtid| set.add(gtid)).is_ok()
            }
            (Some(StreamGtids::LastByDomain(last)), Some(gtid)) => {
                gtid.parse::<MariadbGtid>().map(|gtid| last.insert(gtid.domain_id, gtid)).is_ok()
            }
            (_, None) | (None, _) => false,
        };
        if !is_added {
            self.gtids = None;
        }
    }

    /// Parses the format that `Display` writes; `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (server, rest) = text.strip_prefix("server ")?.split_once('\n')?;
        let gtids = match rest.strip_suffix('\n').and_then(|line| line.strip_prefix("gtids ")) {
            Some(text) => Some(StreamGtids::parse(text)?),
            None => None,
        };
        Some(Self { server: server.to_owned(), gtids })
    }
}

impl StreamGtids {
    /// Returns whether there are no GTIDs. Transactions without GTIDs may have been received even so.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Set(set) => set.is_empty(),
            Self::LastByDomain(last) => last.is_empty(),
        }
    }

    /// Returns whether a transaction was received, by its GTID as text. Of MariaDB's, only the last one of each domain is
    /// known: all others of its domain count as received if their sequence number is not larger.
    pub fn contains(&self, gtid: &str) -> bool {
        match self {
            Self::Set(set) => gtid.parse::<Gtid>().is_ok_and(|gtid| set.contains(gtid)),
            Self::LastByDomain(last) => gtid.parse::<MariadbGtid>().is_ok_and(|gtid| {
                let last = last.get(&gtid.domain_id);
                last.is_some_and(|last| gtid.sequence_number <= last.sequence_number)
            }),
        }
    }

    /// Returns whether received GTIDs may be those of a server that has the state `found` at the same position. The server
    /// does not list domains that it has deleted.
    pub fn matches(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::LastByDomain(last), Self::LastByDomain(found)) => {
                found.iter().all(|(domain, gtid)| last.get(domain) == Some(gtid))
            }
            _ => self == found,
        }
    }

    /// Parses GTIDs; `None` if malformed. The empty text is an empty set of MySQL.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.contains(':') {
            return text.parse().ok().map(Self::Set);
        }
        let last: Option<Vec<MariadbGtid>> = text.split(',').map(|gtid| gtid.parse().ok()).collect();
        Some(Self::LastByDomain(last?.into_iter().map(|gtid| (gtid.domain_id, gtid)).collect()))
    }
}

/// Writes a line `server`, and a line `gtids` if they are known.
impl fmt::Display for StreamGtidState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "server {}", self.server)?;
        match &self.gtids {
            Some(gtids) => writeln!(out, "gtids {gtids}"),
            None => Ok(()),
        }
    }
}

/// Writes the GTIDs in one line, in the server's format.
impl fmt::Display for StreamGtids {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) => out.write_str(&set.to_string().replace(['\n', ' '], "")),
            Self::LastByDomain(last) => {
                for (index, gtid) in last.values().enumerate() {
                    write!(out, "{}{gtid}", if index > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::Event as Body;
    use binlog::events::{MariadbGtidList, PreviousGtids};
    use binlog::gtid::GtidSet;

    use super::{StreamGtidState, StreamGtids};

    const A: &str = "5ea5ca5e-0001-4000-8000-000000000001";

    #[test]
    fn received_transactions_are_found() {
        let check = |received: &str, gtid: &str, expected: bool| {
            let [received, gtid] = [received, gtid].map(|text| text.replace('A', A));
            assert_eq!(StreamGtids::parse(&received).unwrap().contains(&gtid), expected, "{received} {gtid}");
        };
        check("A:1-5", "A:5", true);
        check("A:1-5", "A:6", false);
        check("A:1-5", "A:x:5", false);
        check("A:1-5:x:5", "A:x:5", true);
        check("A:1-5", "0-1-5", false);
        check("0-1-270,1-1-3", "0-2-270", true);
        check("0-1-270,1-1-3", "0-1-271", false);
        check("0-1-270,1-1-3", "2-1-1", false);
    }

    fn check(gtid_state: &StreamGtidState, expected: &str) {
        assert_eq!(gtid_state.to_string(), expected);
        assert_eq!(StreamGtidState::parse(expected).as_ref(), Some(gtid_state));
    }

    #[test]
    fn gtid_sets_grow_from_the_head_of_a_log() {
        let mut gtid_state = StreamGtidState::new(A.to_owned());
        gtid_state.add(Some(&format!("{A}:7")));
        check(&gtid_state, &format!("server {A}\n"));
        let begin = |gtid_state: &mut StreamGtidState, set: &str| {
            let (set, mut bytes) = (set.parse::<GtidSet>().unwrap(), Vec::new());
            set.encode(set.format(), &mut bytes);
            gtid_state.add_log_head(&Body::PreviousGtids(PreviousGtids { set: &bytes })).unwrap();
        };
        begin(&mut gtid_state, "");
        check(&gtid_state, &format!("server {A}\ngtids \n"));
        gtid_state.add(Some(&format!("{A}:7")));
        gtid_state.add(Some(&format!("{A}:tag:1")));
        begin(&mut gtid_state, &format!("{A}:1-6,5ea5ca5e-0001-4000-8000-000000000002:3"));
        check(
            &gtid_state,
            &format!("server {A}\ngtids {A}:1-7:tag:1,5ea5ca5e-0001-4000-8000-000000000002:3\n"),
        );
        // A transaction without a GTID: the state is known again after the next log head.
        gtid_state.add(None);
        gtid_state.add(Some(&format!("{A}:8")));
        check(&gtid_state, &format!("server {A}\n"));
        begin(&mut gtid_state, &format!("{A}:1-8"));
        check(&gtid_state, &format!("server {A}\ngtids {A}:1-8\n"));
        let damaged = Body::PreviousGtids(PreviousGtids { set: &[1, 2, 3] });
        gtid_state.add_log_head(&damaged).unwrap_err();
        check(&gtid_state, &format!("server {A}\ngtids {A}:1-8\n"));
    }

    fn list_entry(domain: u32, server: u32, number: u64) -> Vec<u8> {
        [&domain.to_le_bytes()[..], &server.to_le_bytes(), &number.to_le_bytes()].concat()
    }

    #[test]
    fn deleted_domains_are_dropped() {
        let mut gtid_state = StreamGtidState::parse("server 1\ngtids 0-1-9,3-2-4\n").unwrap();
        let entries = list_entry(0, 1, 9);
        let list = MariadbGtidList { count_and_flags: 1, entries: &entries };
        gtid_state.drop_deleted_domains(&Body::MariadbGtidList(list));
        check(&gtid_state, "server 1\ngtids 0-1-9\n");
        let check_match = |written: &str, found: &str, expected: bool| {
            let [written, found] = [written, found].map(|text| StreamGtids::parse(text).unwrap());
            assert_eq!(written.matches(&found), expected, "{written} {found}");
        };
        check_match("0-1-7,5-1-2", "0-1-7,5-1-2", true);
        check_match("0-1-7,5-1-2", "0-1-7", true);
        check_match("0-1-7", "0-1-7,5-1-2", false);
        check_match("0-1-7,5-1-2", "0-1-6", false);
        check_match("0-1-7", "", false);
    }

    #[test]
    fn mariadb_gtids_are_kept_per_domain() {
        let mut gtid_state = StreamGtidState::new("1".to_owned());
        let entries = [list_entry(0, 2, 5), list_entry(0, 1, 9), list_entry(3, 1, 2)].concat();
        gtid_state
            .add_log_head(&Body::MariadbGtidList(MariadbGtidList { count_and_flags: 3, entries: &entries }))
            .unwrap();
        gtid_state.add(Some("3-2-4"));
        check(&gtid_state, "server 1\ngtids 0-1-9,3-2-4\n");
        assert_eq!(StreamGtidState::parse("server 1\ngtids x\n"), None);
        assert_eq!(StreamGtidState::parse(""), None);
    }
}
