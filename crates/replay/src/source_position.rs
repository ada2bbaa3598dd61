//! A position in a log of the source.

use std::fmt;

/// A position in the source's original log, even if the file was rewritten since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// Name of the log on its own server.
    pub log: String,
    /// Bytes from the start of the log.
    pub position: u64,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.log, self.position)
    }
}
