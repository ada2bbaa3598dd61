//! Positions in a log of the source.

use std::fmt;

/// A position in the source's original log, even if the file was rewritten since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// Name of the log on its own server.
    pub log: String,
    /// Bytes from the start of the log.
    pub position: u64,
}

/// Starts of consecutive transactions in a log of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// Name of the log on its own server.
    pub log: String,
    /// Start of the first transaction.
    pub first: u64,
    /// Start of the last transaction.
    pub last: u64,
}

impl SourceRange {
    /// Creates the range of a log from the text of [`SourceRange::starts`].
    pub fn parse(log: String, starts: &str) -> Option<Self> {
        let (first, last) = starts.split_once('-')?;
        Some(Self { log, first: first.parse().ok()?, last: last.parse().ok()? })
    }

    /// Returns the first and the last start, such as `4-99`, as targets store them.
    pub fn starts(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }

    /// Returns whether a transaction that starts at this position is one of these.
    pub fn contains(&self, start: &SourcePosition) -> bool {
        self.log == start.log && (self.first..=self.last).contains(&start.position)
    }
}

impl From<SourcePosition> for SourceRange {
    fn from(SourcePosition { log, position }: SourcePosition) -> Self {
        Self { log, first: position, last: position }
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.log, self.position)
    }
}
