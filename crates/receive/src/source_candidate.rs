//! Check whether a server that replaces the source has the stored transactions.

use binlog::Flavour;
use binlog::gtid::GtidSet;
use servers::{ConnectionError, LinkOptions, ServerAddress, ServerLink};

use crate::disconnect::Disconnect;
use crate::error::ReceiveError;

/// Facts about a server that is to become the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceCandidate {
    pub(crate) uuid: String,
    gtid_mode: String,
    pub(crate) executed: GtidSet,
}

/// Reason why a server cannot continue after the stored transactions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceRejection {
    /// The server does not log GTIDs for all transactions.
    #[error(
        "the server {uuid} has gtid_mode={gtid_mode}: another server can continue only with gtid_mode=ON"
    )]
    GtidModeOff {
        /// UUID of the server.
        uuid: String,
        /// Value of its variable `gtid_mode`.
        gtid_mode: String,
    },
    /// The stored logs have no GTIDs. The server would send all of its logs, and so repeat the stored transactions.
    #[error("the server {uuid} cannot continue: another server needs GTIDs, but the stored logs have none")]
    NoStoredGtids {
        /// UUID of the server.
        uuid: String,
    },
    /// The server lacks stored transactions.
    #[error("the server {uuid} lacks transactions that the directory has: {lacking}")]
    LacksTransactions {
        /// UUID of the server.
        uuid: String,
        /// GTIDs of the missing transactions.
        lacking: GtidSet,
    },
}

const CANDIDATE_QUERY: &str = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed";

impl SourceCandidate {
    /// Queries a server.
    pub(crate) fn ask(address: &ServerAddress, options: &LinkOptions) -> Result<Self, Disconnect> {
        let mut link = ServerLink::open(address, options)?;
        if link.session().flavour == Flavour::MariaDb {
            return Err(Disconnect::Failed(ReceiveError::MariadbBesideOthers));
        }
        let row = link.query(CANDIDATE_QUERY)?.pop().unwrap_or_default();
        let mut values =
            row.into_iter().map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned());
        let mut next = || values.next().unwrap_or_default();
        let (uuid, gtid_mode, executed) = (next(), next(), next());
        let executed = executed.parse().map_err(|_| ConnectionError::UnexpectedAnswer {
            query: "gtid_executed",
            found: executed,
            expected: "a set of GTIDs",
        })?;
        Ok(Self { uuid, gtid_mode, executed })
    }

    /// Returns the reason why the server cannot continue after these transactions; `None` if the server can continue.
    pub(crate) fn rejection(&self, stored: &GtidSet) -> Option<SourceRejection> {
        let uuid = self.uuid.clone();
        if self.gtid_mode != "ON" {
            return Some(SourceRejection::GtidModeOff { uuid, gtid_mode: self.gtid_mode.clone() });
        }
        if stored.is_empty() {
            return Some(SourceRejection::NoStoredGtids { uuid });
        }
        let lacking = stored.difference(&self.executed);
        (!lacking.is_empty()).then_some(SourceRejection::LacksTransactions { uuid, lacking })
    }
}

#[cfg(test)]
mod tests {
    use super::{GtidSet, SourceCandidate};

    fn check_text(candidate: &SourceCandidate, stored: &GtidSet, expected: Option<&str>) {
        assert_eq!(candidate.rejection(stored).map(|reason| reason.to_string()).as_deref(), expected);
    }

    #[test]
    fn candidates_must_have_the_stored_transactions() {
        let set = |numbers: &str| format!("5ea5ca5e-0001-4000-8000-000000000001:{numbers}").parse().unwrap();
        let check = |mode: &str, expected: Option<&str>| {
            let candidate =
                SourceCandidate { uuid: "u".into(), gtid_mode: mode.into(), executed: set("1-7") };
            check_text(&candidate, &set("1-7"), expected);
        };
        check("ON", None);
        check(
            "OFF",
            Some("the server u has gtid_mode=OFF: another server can continue only with gtid_mode=ON"),
        );
        let candidate = SourceCandidate { uuid: "u".into(), gtid_mode: "ON".into(), executed: set("1-5") };
        let lacks = "the server u lacks transactions that the directory has: 5ea5ca5e-0001-4000-8000-000000000001:6-7";
        check_text(&candidate, &set("1-7"), Some(lacks));
        let none = "the server u cannot continue: another server needs GTIDs, but the stored logs have none";
        check_text(&candidate, &GtidSet::new(), Some(none));
    }
}
