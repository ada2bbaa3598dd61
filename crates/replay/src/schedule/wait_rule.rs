//! Rule for the order of groups.

/// Transactions to wait for, besides those with the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitRule {
    /// All earlier transactions. All later ones wait for this one.
    ForAll,
    /// All transactions with lower numbers than this.
    Below(u64),
}
