//! Start point of an empty store: always the beginning of a log.

use std::str::FromStr;

use binlog::events::MariadbGtid;
use binlog::gtid::GtidSet;
use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use wire::{ReplicaStart, WireError};

/// Start point of an empty store: always the beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPoint {
    /// Oldest log of the source.
    Oldest,
    /// Log of this name.
    Log(String),
    /// First log that contains a transaction not in this state.
    After(GtidState),
    /// Log of the first transaction that a target of `replay` lacks.
    ForTarget {
        /// Transactions that the target has.
        gtids: GtidSet,
        /// Log of the target's progress without GTIDs.
        log: Option<String>,
    },
}

/// Already existing transactions, as GTIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GtidState {
    /// GTID set of MySQL.
    Set(GtidSet),
    /// GTID position of MariaDB: the last transaction of each domain.
    Mariadb(String),
}

impl FromStr for GtidState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(set) = text.parse::<GtidSet>()
            && !text.trim().is_empty()
        {
            return Ok(Self::Set(set));
        }
        let is_mariadb = |gtid: &str| gtid.trim().parse::<MariadbGtid>().is_ok();
        match text.split(',').all(is_mariadb) {
            true => Ok(Self::Mariadb(text.to_owned())),
            false => Err(
                "expected GTIDs such as 5ea5ca5e-0001-4000-8000-000000000001:1-4711, or 0-1-270 for MariaDB"
                    .to_owned(),
            ),
        }
    }
}

impl StartPoint {
    /// Returns the request to which the source responds with the start log; `None` if this log is already known.
    pub(crate) fn probe_request(&self) -> Option<ReplicaStart> {
        match self {
            Self::Oldest | Self::Log(_) => None,
            Self::After(GtidState::Set(set)) => Some(start_after(set)),
            Self::After(GtidState::Mariadb(state)) => {
                Some(ReplicaStart::MariadbGtids { state: state.clone() })
            }
            // An empty target needs all logs.
            Self::ForTarget { gtids, .. } if gtids.is_empty() => None,
            Self::ForTarget { gtids, .. } => Some(start_after(gtids)),
        }
    }

    /// Returns the start log if the source did not name a log; empty for the oldest log.
    pub(crate) fn log(&self) -> &str {
        match self {
            Self::Oldest | Self::After(_) => "",
            Self::Log(log) => log,
            Self::ForTarget { log, .. } => log.as_deref().unwrap_or_default(),
        }
    }

    /// Returns whether an option set this start point.
    pub(crate) const fn is_requested(&self) -> bool {
        match self {
            Self::Log(_) | Self::After(_) => true,
            Self::Oldest | Self::ForTarget { .. } => false,
        }
    }

    /// Returns whether the run can start without GTIDs after this error: the source has no GTIDs, or has purged the
    /// transactions. If the target then lacks transactions, the replay reports the gap.
    pub(crate) fn allows_fallback(&self, error: &servers::ConnectionError) -> bool {
        let is_no_answer =
            matches!(error, servers::ConnectionError::Protocol(WireError::UnsupportedStart { .. }))
                || error.code() == Some(SOURCE_FATAL_ERROR_READING_BINLOG);
        matches!(self, Self::ForTarget { .. }) && is_no_answer
    }
}

/// Returns the start after these transactions.
pub fn start_after(gtids: &GtidSet) -> ReplicaStart {
    let mut set = Vec::new();
    gtids.encode(gtids.format(), &mut set);
    ReplicaStart::Gtids { set }
}

#[cfg(test)]
mod tests {
    use servers::ConnectionError;
    use wire::ReplicaStart;

    use super::{GtidState, StartPoint};

    const SET: &str = "5ea5ca5e-0001-4000-8000-000000000001:1-7";

    #[test]
    fn gtids_of_mysql_and_mariadb_are_parsed() {
        assert_eq!(SET.parse(), Ok(GtidState::Set(SET.parse().unwrap())));
        for text in ["0-1-270", "0-1-270,1-2-9"] {
            assert_eq!(text.parse(), Ok(GtidState::Mariadb(text.to_owned())));
        }
        for text in ["", "0-1", "0-1-x", "binlog.000003", "5ea5ca5e:1"] {
            assert!(text.parse::<GtidState>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_target_determines_the_start_point() {
        let begin = |gtids: &str, log: Option<&str>| StartPoint::ForTarget {
            gtids: gtids.parse().unwrap(),
            log: log.map(str::to_owned),
        };
        assert!(matches!(begin(SET, None).probe_request(), Some(ReplicaStart::Gtids { .. })));
        let cases = [(begin("", None), ""), (begin("", Some("b.000004")), "b.000004")];
        for (begin, log) in cases {
            assert_eq!((begin.probe_request(), begin.log()), (None, log));
        }
        // If the source has no GTIDs or has purged the transactions: the log of the progress without GTIDs, or the
        // oldest log.
        let purged = ConnectionError::Refused { code: 1236, message: "purged".to_owned() };
        assert!(begin(SET, None).allows_fallback(&purged));
        assert!(!StartPoint::After(SET.parse().unwrap()).allows_fallback(&purged));
        assert!(!begin(SET, None).allows_fallback(&ConnectionError::lost("gone")));
    }
}
