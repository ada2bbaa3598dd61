//! What a source cannot send, said with what was asked for.

use anyhow::anyhow;
use logs::StoreWriter;
use servers::{Error, Link, Row};

use crate::commands::receive::begin::Begin;
use crate::commands::receive::candidate::Candidate;
use crate::commands::receive::ended::{ANOTHER_DIRECTORY, Ended};
use crate::commands::receive::receiver::Receiver;
use crate::exit::Advice;

/// The source cannot send what is asked for.
pub(crate) const CANNOT_SEND: u16 = 1236;
/// What it says then, and what that means.
const CANNOT_SEND_BECAUSE: [(&str, &str); 4] = [
    (NO_SUCH_LOG, "it has no log of this name any more: it has purged it, or its logs were reset"),
    ("position > file size", SHORTER),
    // As a MariaDB says it.
    ("impossible position", SHORTER),
    (
        "exceeded max_allowed_packet",
        "an event is larger than the source's max_allowed_packet, or none starts there: its logs were reset",
    ),
];
const NO_SUCH_LOG: &str = "Could not find first log";
const SHORTER: &str =
    "its log of this name is shorter: its logs were reset, or it lost what it had sent in a crash";
/// What a source says to a replica of whom there is a second one.
const SAME_REPLICA: &str = "with the same server_uuid/server_id";

const NEWER_BACKUP: Advice = Advice(
    "give those of a backup of this source that is as new as its logs, or leave it out to begin with the oldest",
);

/// The logs that a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Offered {
    /// From this one to that one.
    Logs { first: String, last: String },
    /// It does not tell this account.
    Unknown,
}

impl Offered {
    /// For somebody who has asked for another one.
    fn instead_of(&self, log: &str) -> String {
        let advice = "leave --start-log out to begin with the oldest";
        match self {
            Self::Logs { first, last } if first == last => {
                format!("the source has no log {log}, only {last}: give that one to --start-log, or {advice}")
            }
            Self::Logs { first, last } => format!(
                "the source has no log {log}: the oldest that it has is {first}, the newest {last}; give one of those \
                 to --start-log, or {advice}"
            ),
            Self::Unknown => format!(
                "the source has no log {log}: SHOW BINARY LOGS says there which it has, to an account with \
                 REPLICATION CLIENT (of a MariaDB, BINLOG MONITOR); give one of those to --start-log, or {advice}"
            ),
        }
    }
}

impl Receiver {
    /// What the source lacks that is here, if it can be asked and does.
    fn lacks(&self, store: &StoreWriter) -> Option<String> {
        let executed = Candidate::ask(self.address(), &self.options).ok()?.executed;
        let lacking = store.contents().ok()?.gtids.difference(&executed);
        let lacking = (!lacking.is_empty()).then(|| lacking.to_string().replace('\n', ""))?;
        Some(format!(
            "it lacks transactions that are here, {lacking}: its logs were reset, or it was restored from a backup"
        ))
    }

    /// With what was asked for, where the source refuses that.
    pub(super) fn explained(&self, error: Error, store: &StoreWriter) -> Ended {
        let is_replaced = error.to_string().contains(SAME_REPLICA);
        match (error.code(), store.place()) {
            (Some(CANNOT_SEND), _) if is_replaced => {
                let advice = Advice("somebody else receives with a copy of this directory's replica.cnf");
                Ended::Failed(anyhow::Error::from(error).context(advice))
            }
            (Some(CANNOT_SEND), Some(place)) => {
                let mut asked = format!("the source cannot go on behind {} at {}", place.log, place.next);
                if let Some(why) = self.lacks(store).or_else(|| cannot_send_because(&error)) {
                    asked = format!("{asked}: {why}");
                }
                Ended::Failed(anyhow::Error::from(error).context(asked).context(ANOTHER_DIRECTORY))
            }
            (Some(CANNOT_SEND), None) if error.to_string().contains(NO_SUCH_LOG) => {
                match &self.wanted.begin {
                    Begin::Log(log) => Ended::Wrong(anyhow!(self.offered().instead_of(log))),
                    _ => error.into(),
                }
            }
            _ => error.into(),
        }
    }

    /// Asked for the log behind some transactions, the source does not name one.
    pub(super) fn cannot_begin(&self, error: Error) -> Ended {
        match (&self.wanted.begin, error.code()) {
            (Begin::After(_), Some(CANNOT_SEND)) => {
                let why = "the source cannot send what is behind the GTIDs of --start-after-gtid";
                Ended::Wrong(anyhow::Error::from(error).context(why).context(NEWER_BACKUP))
            }
            _ => error.into(),
        }
    }

    /// Which logs the source has.
    fn offered(&self) -> Offered {
        let listed = || {
            let rows = Link::open(self.address(), &self.options)?.query("SHOW BINARY LOGS")?;
            let name = |row: Option<&Row>| {
                let name = row.and_then(|row| row.first()).and_then(Option::as_deref).unwrap_or_default();
                String::from_utf8_lossy(name).into_owned()
            };
            Ok::<_, Error>(Offered::Logs { first: name(rows.first()), last: name(rows.last()) })
        };
        listed().unwrap_or(Offered::Unknown)
    }
}

fn cannot_send_because(error: &Error) -> Option<String> {
    let said = error.to_string();
    let (_, why) = CANNOT_SEND_BECAUSE.iter().find(|(part, _)| said.contains(part))?;
    Some((*why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::Offered;

    #[test]
    fn another_log_is_offered() {
        let check = |offered: &Offered, wanted: &str| {
            assert_eq!(offered.instead_of("b.000009"), format!("the source has no log b.000009{wanted}"));
        };
        let logs = |last: &str| Offered::Logs { first: "b.000003".to_owned(), last: last.to_owned() };
        check(
            &logs("b.000007"),
            ": the oldest that it has is b.000003, the newest b.000007; give one of those to --start-log, or leave \
             --start-log out to begin with the oldest",
        );
        check(
            &logs("b.000003"),
            ", only b.000003: give that one to --start-log, or leave --start-log out to begin with the oldest",
        );
        check(
            &Offered::Unknown,
            ": SHOW BINARY LOGS says there which it has, to an account with REPLICATION CLIENT (of a MariaDB, BINLOG \
             MONITOR); give one of those to --start-log, or leave --start-log out to begin with the oldest",
        );
    }
}
