//! Report of the verification.

use serde::Serialize;

use super::fault::{LogFault, LogRemark};

/// Report of the verification.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Each log, in the order read.
    pub logs: Vec<LogVerdict>,
    /// Faults, by log and position. At most a thousand per log are listed; [`LogVerdict::faults`] counts all.
    pub faults: Vec<LogFault>,
    /// Observations that are not faults.
    pub remarks: Vec<LogRemark>,
    /// Logs that could not be read, or not completely.
    pub unreadable: Vec<UnreadableLog>,
}

/// One log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogVerdict {
    /// The name as given by the user.
    pub name: String,
    /// Bytes checked.
    pub bytes: u64,
    /// Number of events, without those inside payloads.
    pub events: u64,
    /// Number of whole transactions that start in it.
    pub transactions: u64,
    /// Number of its faults.
    pub faults: u64,
}

/// A log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableLog {
    /// The name as given by the user.
    pub name: String,
    /// The error.
    pub cause: String,
}

/// Verdict on all logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyVerdict {
    /// No faults.
    Sound,
    /// There are faults.
    Faulty,
    /// A log could not be read. There may also be faults.
    Unreadable,
}

impl VerifyReport {
    /// Returns the verdict on all logs.
    pub fn verdict(&self) -> VerifyVerdict {
        match self {
            _ if !self.unreadable.is_empty() => VerifyVerdict::Unreadable,
            _ if self.logs.iter().any(|log| log.faults > 0) => VerifyVerdict::Faulty,
            _ => VerifyVerdict::Sound,
        }
    }
}

impl UnreadableLog {
    pub(crate) fn new(name: &str, error: &logs::LogError) -> Self {
        Self { name: name.to_owned(), cause: error.to_string() }
    }
}
