//! Positions in a replica's relay logs, or in a store's logs.

use std::fmt;

use logs::{LogSeries, split_log_number};

/// A position in numbered logs. Positions are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayPosition {
    /// Number of the log.
    pub log: LogNumber,
    /// Offset in bytes from the log's start.
    pub offset: u64,
}

/// Number of a log among a replica's relay logs, or in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogNumber {
    /// Series of logs from one server, in a store with logs of several servers: 0 for the first; 2 and so on for later
    /// ones, whose names contain the number. Log numbers restart in each series.
    series: u32,
    /// Number at the end of the name.
    number: u64,
}

impl RelayPosition {
    /// Returns the position at this offset of the log of this name; `None` if the name has no number.
    pub fn of(name: &str, offset: u64) -> Option<Self> {
        LogNumber::of(name).map(|log| Self { log, offset })
    }
}

impl LogNumber {
    /// Parses a log's name: `relay.000042`, `binlog.2.5ea5ca5e-0001-4000-8000-000000000001.000007`.
    pub fn of(name: &str) -> Option<Self> {
        let (_, number) = split_log_number(name)?;
        Some(Self { series: LogSeries::of(name).map_or(0, |series| series.number), number })
    }

    /// Returns the number without the series.
    pub(crate) const fn number(self) -> u64 {
        self.number
    }

    /// Returns the next number in the same series.
    pub(crate) const fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl From<u64> for LogNumber {
    /// Creates the number of a log in the first series.
    fn from(number: u64) -> Self {
        Self { series: 0, number }
    }
}

impl fmt::Display for RelayPosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.log {
            LogNumber { series: 0, number } => write!(out, "{number:06}:{}", self.offset),
            LogNumber { series, number } => write!(out, "{series}.{number:06}:{}", self.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RelayPosition;

    #[test]
    fn logs_are_in_order_of_their_numbers() {
        let at = |name, offset| RelayPosition::of(name, offset).unwrap();
        assert!(at("relay.999999", 900) < at("relay.1000000", 4));
        assert!(at("a.b-relay-bin.000002", 4) < at("a.b-relay-bin.000002", 5));
        assert_eq!(RelayPosition::of("relay", 4), None);
        assert_eq!(RelayPosition::of("relay.index", 4), None);
    }

    #[test]
    fn logs_of_another_server_are_later() {
        let later = RelayPosition::of("binlog.2.5ea5ca5e-0001-4000-8000-000000000001.000007", 4).unwrap();
        let first = RelayPosition::of("binlog.000042", 900).unwrap();
        assert!(first < later && RelayPosition { log: first.log.next(), offset: 0 } < later);
        assert_ne!(Some(later), RelayPosition::of("binlog.000007", 4));
        assert_eq!((first.to_string(), later.to_string()), ("000042:900".into(), "2.000007:4".into()));
    }
}
