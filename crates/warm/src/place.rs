//! Places in a replica's relay logs.

use std::fmt;

/// A place in a replica's relay logs: they are numbered, and places in them are in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number at the end of the log's name.
    pub log: u64,
    /// In bytes from the log's start.
    pub offset: u64,
}

impl Place {
    /// The place at this offset of the log of this name; `None` if the name has no number.
    pub fn of(name: &str, offset: u64) -> Option<Self> {
        log_number(name).map(|log| Self { log, offset })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:06}:{}", self.log, self.offset)
    }
}

/// The number at the end of a log's name: `relay.000042`.
pub(crate) fn log_number(name: &str) -> Option<u64> {
    name.rsplit_once('.').and_then(|(_, number)| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn logs_are_in_order_of_their_numbers() {
        let at = |name, offset| Place::of(name, offset).unwrap();
        assert!(at("relay.999999", 900) < at("relay.1000000", 4));
        assert!(at("a.b-relay-bin.000002", 4) < at("a.b-relay-bin.000002", 5));
        assert_eq!(Place::of("relay", 4), None);
        assert_eq!(Place::of("relay.index", 4), None);
    }
}
