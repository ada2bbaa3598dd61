//! Errors of a source that cannot send the requested log.

use anyhow::anyhow;
use logs::StoreWriter;
use servers::{Error, Link, Row};

use crate::commands::receive::begin::Begin;
use crate::commands::receive::candidate::Candidate;
use crate::commands::receive::ended::{ANOTHER_DIRECTORY, Ended};
use crate::commands::receive::receiver::Receiver;
use crate::exit::Advice;

/// MySQL's error code for a source that cannot send the requested log.
pub(crate) const CANNOT_SEND: u16 = 1236;
/// Parts of its message, and their meaning.
const CANNOT_SEND_BECAUSE: [(&str, &str); 4] = [
    (NO_SUCH_LOG, "it no longer has this log: the log was purged, or its logs were reset"),
    ("position > file size", SHORTER),
    // MariaDB's text.
    ("impossible position", SHORTER),
    (
        "exceeded max_allowed_packet",
        "the event is larger than the source's max_allowed_packet, or no event starts at this position because its \
         logs were reset",
    ),
];
const NO_SUCH_LOG: &str = "Could not find first log";
const SHORTER: &str =
    "its log of this name is shorter: its logs were reset, or a crash lost events that it had sent";
/// Part of a source's message if a second replica has the same identity.
const SAME_REPLICA: &str = "with the same server_uuid/server_id";

const NEWER_BACKUP: Advice = Advice(
    "give the GTIDs of a backup that is not older than the source's logs, or omit the option to start at the oldest \
     log",
);

/// Logs that a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Offered {
    /// From `first` to `last`.
    Logs { first: String, last: String },
    /// The account may not list them.
    Unknown,
}

impl Offered {
    /// Returns the message for a log that the source does not have.
    fn instead_of(&self, log: &str) -> String {
        let advice = "omit --start-log to start at the oldest";
        match self {
            Self::Logs { first, last } if first == last => {
                format!("the source has no log {log}, only {last}: give --start-log {last}, or {advice}")
            }
            Self::Logs { first, last } => format!(
                "the source has no log {log}: its oldest is {first}, its newest {last}; give one of these logs to \
                 --start-log, or {advice}"
            ),
            Self::Unknown => format!(
                "the source has no log {log}: run SHOW BINARY LOGS on it (privilege REPLICATION CLIENT, on MariaDB \
                 BINLOG MONITOR) and give one of these logs to --start-log, or {advice}"
            ),
        }
    }
}

impl Receiver {
    /// Returns a message if the source lacks stored transactions; `None` also if it cannot be queried.
    fn lacks(&self, store: &StoreWriter) -> Option<String> {
        let executed = Candidate::ask(self.address(), &self.options).ok()?.executed;
        let lacking = store.contents().ok()?.gtids.difference(&executed);
        let lacking = (!lacking.is_empty()).then(|| lacking.to_string().replace('\n', ""))?;
        Some(format!(
            "it lacks stored transactions {lacking}: its logs were reset, or it was restored from a backup"
        ))
    }

    /// Adds the requested place to an error of the source that refuses it.
    pub(super) fn explained(&self, error: Error, store: &StoreWriter) -> Ended {
        let is_replaced = error.to_string().contains(SAME_REPLICA);
        match (error.code(), store.place()) {
            (Some(CANNOT_SEND), _) if is_replaced => {
                let advice = Advice(
                    "another process uses a copy of this directory's replica.cnf: give each \
                    directory its own",
                );
                Ended::Failed(anyhow::Error::from(error).context(advice))
            }
            (Some(CANNOT_SEND), Some(place)) => {
                let mut asked = format!("the source cannot resume after {} at {}", place.log, place.next);
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

    /// Adds a remedy to the error of a source that cannot name a log to start at.
    pub(super) fn cannot_begin(&self, error: Error) -> Ended {
        match (&self.wanted.begin, error.code()) {
            (Begin::After(_), Some(CANNOT_SEND)) => {
                let why = "the source cannot send the transactions after the GTIDs of --start-after-gtid";
                Ended::Wrong(anyhow::Error::from(error).context(why).context(NEWER_BACKUP))
            }
            _ => error.into(),
        }
    }

    /// Returns the logs that the source has.
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
            ": its oldest is b.000003, its newest b.000007; give one of these logs to --start-log, or omit \
             --start-log to start at the oldest",
        );
        check(
            &logs("b.000003"),
            ", only b.000003: give --start-log b.000003, or omit --start-log to start at the oldest",
        );
        check(
            &Offered::Unknown,
            ": run SHOW BINARY LOGS on it (privilege REPLICATION CLIENT, on MariaDB BINLOG MONITOR) and give one of \
             these logs to --start-log, or omit --start-log to start at the oldest",
        );
    }
}
