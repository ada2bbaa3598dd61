//! Another server in place of the source: checks whether it has the stored transactions.

use anyhow::anyhow;
use binlog::Flavour;
use binlog::gtid::GtidSet;
use servers::{ConnectionError, LinkOptions, ServerAddress, ServerLink};

use crate::commands::receive::disconnect::Disconnect;

/// Facts about a server that is to become the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceCandidate {
    pub(super) uuid: String,
    gtid_mode: String,
    pub(super) executed: GtidSet,
}

/// Error for several sources of which one is MariaDB.
pub(super) const MARIADB_IS_ONLY_SOURCE: &str = "a MariaDB server must be the only --from: its GTIDs name only the last \
    transaction of each domain, so nothing shows whether another server has all stored transactions; give no other \
    --from";

const CANDIDATE_QUERY: &str = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed";

impl SourceCandidate {
    /// Queries a server.
    pub(super) fn ask(address: &ServerAddress, options: &LinkOptions) -> Result<Self, Disconnect> {
        let mut link = ServerLink::open(address, options)?;
        if link.session().flavour == Flavour::MariaDb {
            return Err(Disconnect::Failed(anyhow!(MARIADB_IS_ONLY_SOURCE)));
        }
        let row = link.query(CANDIDATE_QUERY)?.pop().unwrap_or_default();
        let mut values =
            row.into_iter().map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned());
        let mut next = || values.next().unwrap_or_default();
        let (uuid, gtid_mode, executed) = (next(), next(), next());
        let executed = executed.parse().map_err(|_| ConnectionError::UnexpectedAnswer {
            question: "gtid_executed",
            found: executed,
            wanted: "a set of GTIDs",
        })?;
        Ok(Self { uuid, gtid_mode, executed })
    }

    /// Returns the reason why the server cannot continue after these transactions; `None` if it can.
    pub(super) fn rejection(&self, had: &GtidSet) -> Option<String> {
        let Self { uuid, gtid_mode, executed } = self;
        if gtid_mode != "ON" {
            return Some(format!(
                "the server {uuid} has gtid_mode={gtid_mode}: another server can continue only with gtid_mode=ON"
            ));
        }
        // Without GTIDs, the server would send its whole history, and duplicate the stored transactions.
        if had.is_empty() {
            return Some(format!(
                "the server {uuid} cannot continue: another server needs GTIDs, but the stored logs have none"
            ));
        }
        let lacking = had.difference(executed);
        (!lacking.is_empty()).then(|| {
            let lacking = lacking.to_string().replace('\n', "");
            format!("the server {uuid} lacks stored transactions: {lacking}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{GtidSet, SourceCandidate};

    #[test]
    fn a_candidate_must_have_the_stored_transactions() {
        let set = |numbers: &str| format!("5ea5ca5e-0001-4000-8000-000000000001:{numbers}").parse().unwrap();
        let check = |mode: &str, wanted: Option<&str>| {
            let candidate =
                SourceCandidate { uuid: "u".into(), gtid_mode: mode.into(), executed: set("1-7") };
            assert_eq!(candidate.rejection(&set("1-7")).as_deref(), wanted);
        };
        check("ON", None);
        check(
            "OFF",
            Some("the server u has gtid_mode=OFF: another server can continue only with gtid_mode=ON"),
        );
        let candidate = SourceCandidate { uuid: "u".into(), gtid_mode: "ON".into(), executed: set("1-5") };
        let lacks = "the server u lacks stored transactions: 5ea5ca5e-0001-4000-8000-000000000001:6-7";
        assert_eq!(candidate.rejection(&set("1-7")).as_deref(), Some(lacks));
        let none = "the server u cannot continue: another server needs GTIDs, but the stored logs have none";
        assert_eq!(candidate.rejection(&GtidSet::new()).as_deref(), Some(none));
    }
}
