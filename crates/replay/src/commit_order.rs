//! Order of commits.

/// Order in which transactions commit, and how many as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOrder {
    /// Each transaction by itself, in the source's order.
    Strict,
    /// Consecutive transactions as one, in the source's order.
    #[default]
    Grouped,
    /// In the order in which workers finish them.
    Any,
}
