//! Start point of an empty store: always the beginning of a log.

use std::str::FromStr;

use binlog::gtid::GtidSet;
use wire::{Start, WireError};

use crate::commands::receive::refused::CANNOT_SEND;

/// Start point of an empty store: always the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Oldest log of the source.
    Oldest,
    /// Log of this name.
    Log(String),
    /// First log that contains a transaction not in this state.
    After(Had),
    /// First transaction that a target of `replay` lacks.
    For {
        /// Transactions that the target has.
        gtids: GtidSet,
        /// Log of the target's progress without GTIDs.
        log: Option<String>,
    },
}

/// Transactions that exist already, as GTIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Had {
    /// GTID set of MySQL.
    Set(GtidSet),
    /// GTID position of MariaDB: the last transaction of each domain.
    Mariadb(String),
}

impl FromStr for Had {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(set) = text.parse::<GtidSet>()
            && !text.trim().is_empty()
        {
            return Ok(Self::Set(set));
        }
        let is_mariadb = |gtid: &str| {
            let parts: Vec<&str> = gtid.trim().split('-').collect();
            parts.len() == 3 && parts.iter().all(|part| part.parse::<u64>().is_ok())
        };
        match text.split(',').all(is_mariadb) {
            true => Ok(Self::Mariadb(text.to_owned())),
            false => {
                Err("expected GTIDs as 5ea5ca5e-0001-4000-8000-000000000001:1-4711, or 0-1-270 for MariaDB"
                    .to_owned())
            }
        }
    }
}

impl Begin {
    /// Returns the request to which the source responds with the log to start at; `None` if that is known.
    pub(super) fn question(&self) -> Option<Start> {
        match self {
            Self::Oldest | Self::Log(_) => None,
            Self::After(Had::Set(set)) => Some(behind(set)),
            Self::After(Had::Mariadb(state)) => Some(Start::MariadbGtids { state: state.clone() }),
            // An empty target needs all logs.
            Self::For { gtids, .. } if gtids.is_empty() => None,
            Self::For { gtids, .. } => Some(behind(gtids)),
        }
    }

    /// Returns the log to start at if the source did not name one; empty for the oldest.
    pub(super) fn log(&self) -> &str {
        match self {
            Self::Oldest | Self::After(_) => "",
            Self::Log(log) => log,
            Self::For { log, .. } => log.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the option that sets this start point, with its value, if the user gave one.
    pub(super) fn option(&self) -> Option<String> {
        match self {
            Self::Log(log) => Some(format!("--start-log {log}")),
            Self::After(_) => Some("--start-after-gtid".to_owned()),
            Self::Oldest | Self::For { .. } => None,
        }
    }

    /// Tells whether the run can start without GTIDs after this error: the source has no GTIDs, or purged the
    /// transactions. If the target then lacks transactions, the replay reports it.
    pub(super) fn passes(&self, error: &servers::Error) -> bool {
        let is_no_answer = matches!(error, servers::Error::Protocol(WireError::Start { .. }))
            || error.code() == Some(CANNOT_SEND);
        matches!(self, Self::For { .. }) && is_no_answer
    }
}

/// Returns the start after these transactions.
pub(super) fn behind(gtids: &GtidSet) -> Start {
    let mut set = Vec::new();
    gtids.encode(gtids.format(), &mut set);
    Start::Gtids { set }
}

#[cfg(test)]
mod tests {
    use servers::Error;
    use wire::Start;

    use super::{Begin, Had};

    const SET: &str = "5ea5ca5e-0001-4000-8000-000000000001:1-7";

    #[test]
    fn gtids_of_both_servers_are_understood() {
        assert_eq!(SET.parse(), Ok(Had::Set(SET.parse().unwrap())));
        for text in ["0-1-270", "0-1-270,1-2-9"] {
            assert_eq!(text.parse(), Ok(Had::Mariadb(text.to_owned())));
        }
        for text in ["", "0-1", "0-1-x", "binlog.000003", "5ea5ca5e:1"] {
            assert!(text.parse::<Had>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_says_where_to_begin() {
        let begin = |gtids: &str, log: Option<&str>| Begin::For {
            gtids: gtids.parse().unwrap(),
            log: log.map(str::to_owned),
        };
        assert!(matches!(begin(SET, None).question(), Some(Start::Gtids { .. })));
        let cases = [(begin("", None), ""), (begin("", Some("b.000004")), "b.000004")];
        for (begin, log) in cases {
            assert_eq!((begin.question(), begin.log()), (None, log));
        }
        // If the source has no GTIDs or has purged the transactions: the log of the progress without GTIDs, or the
        // oldest log.
        let purged = Error::Refused { code: 1236, message: "purged".to_owned() };
        assert!(begin(SET, None).passes(&purged));
        assert!(!Begin::After(SET.parse().unwrap()).passes(&purged));
        assert!(!begin(SET, None).passes(&Error::lost("gone")));
    }
}
