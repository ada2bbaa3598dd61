//! Another server in the place of the source: can it go on with what is here?

use anyhow::anyhow;
use binlog::Flavour;
use binlog::gtid::GtidSet;
use servers::{Address, Error, Link, LinkOptions};

use crate::commands::receive::ended::Ended;

/// What is to be known of a server before it is a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) uuid: String,
    gtid_mode: String,
    pub(super) executed: GtidSet,
}

/// What a MariaDB cannot be.
pub(super) const ONE_MARIADB: &str = "a MariaDB can only be the one --from: its GTIDs name the last transaction of each \
    domain, and nothing tells whether another server has all that is here; give no other";

const QUESTION: &str = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed";

impl Candidate {
    /// Asks a server.
    pub(super) fn ask(address: &Address, options: &LinkOptions) -> Result<Self, Ended> {
        let mut link = Link::open(address, options)?;
        if link.session().flavour == Flavour::MariaDb {
            return Err(Ended::Failed(anyhow!(ONE_MARIADB)));
        }
        let row = link.query(QUESTION)?.pop().unwrap_or_default();
        let mut values =
            row.into_iter().map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned());
        let mut next = || values.next().unwrap_or_default();
        let (uuid, gtid_mode, executed) = (next(), next(), next());
        let executed = executed.parse().map_err(|_| Error::Answer {
            question: "gtid_executed",
            found: executed,
            wanted: "a set of GTIDs",
        })?;
        Ok(Self { uuid, gtid_mode, executed })
    }

    /// Why it cannot go on behind these transactions; none if it can.
    pub(super) fn why_not(&self, had: &GtidSet) -> Option<String> {
        let Self { uuid, gtid_mode, executed } = self;
        if gtid_mode != "ON" {
            return Some(format!(
                "the server {uuid} has gtid_mode={gtid_mode}: another server can go on only by GTIDs, with ON"
            ));
        }
        // Behind nothing, it would send its whole history: what is here without GTIDs a second time.
        if had.is_empty() {
            return Some(format!(
                "the server {uuid} cannot go on: another server can only by GTIDs, and the logs here have none"
            ));
        }
        let lacking = had.difference(executed);
        (!lacking.is_empty()).then(|| {
            let lacking = lacking.to_string().replace('\n', "");
            format!("the server {uuid} lacks transactions that are here: {lacking}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, GtidSet};

    #[test]
    fn it_must_have_what_is_here() {
        let set = |numbers: &str| format!("5ea5ca5e-0001-4000-8000-000000000001:{numbers}").parse().unwrap();
        let check = |mode: &str, wanted: Option<&str>| {
            let candidate = Candidate { uuid: "u".into(), gtid_mode: mode.into(), executed: set("1-7") };
            assert_eq!(candidate.why_not(&set("1-7")).as_deref(), wanted);
        };
        check("ON", None);
        check("OFF", Some("the server u has gtid_mode=OFF: another server can go on only by GTIDs, with ON"));
        let candidate = Candidate { uuid: "u".into(), gtid_mode: "ON".into(), executed: set("1-5") };
        let lacks = "the server u lacks transactions that are here: 5ea5ca5e-0001-4000-8000-000000000001:6-7";
        assert_eq!(candidate.why_not(&set("1-7")).as_deref(), Some(lacks));
        let none = "the server u cannot go on: another server can only by GTIDs, and the logs here have none";
        assert_eq!(candidate.why_not(&GtidSet::new()).as_deref(), Some(none));
    }
}
