//! What was judged, as it is shown.

use serde::Serialize;

use super::fault::{Fault, Remark};

/// What was judged.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Verdicts {
    /// Each log, in the order read.
    pub logs: Vec<LogVerdict>,
    /// What is wrong, by log and place. Of one log, a thousand at most; [`LogVerdict::faults`] counts all.
    pub faults: Vec<Fault>,
    /// What is worth knowing and not wrong.
    pub remarks: Vec<Remark>,
    /// Logs that could not be read, or not to their end.
    pub unreadable: Vec<Unreadable>,
}

/// One log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogVerdict {
    /// As it was given.
    pub name: String,
    /// Bytes looked at.
    pub bytes: u64,
    /// Events, those inside payloads not included.
    pub events: u64,
    /// Transactions that start in it.
    pub transactions: u64,
    /// How many things are wrong with it.
    pub faults: u64,
}

/// A log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// As it was given.
    pub name: String,
    /// Why.
    pub cause: String,
}

/// All in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong.
    Sound,
    /// Something is wrong.
    Faulty,
    /// Something could not be read, whatever else is wrong.
    Unreadable,
}

impl Verdicts {
    /// All in one word.
    pub fn verdict(&self) -> Verdict {
        match self {
            _ if !self.unreadable.is_empty() => Verdict::Unreadable,
            _ if self.logs.iter().any(|log| log.faults > 0) => Verdict::Faulty,
            _ => Verdict::Sound,
        }
    }
}

impl Unreadable {
    pub(crate) fn new(name: &str, error: &logs::Error) -> Self {
        Self { name: name.to_owned(), cause: error.to_string() }
    }
}
