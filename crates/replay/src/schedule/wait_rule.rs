//! Rule for the order of groups.

/// Transactions to wait for, besides those with the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitRule {
    /// All before it; and all after it wait for it.
    ForAll,
    /// All with lower numbers than this.
    Below(u64),
}
