//! Errors that end a comparison.

/// Error that ends a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::LogError),
    /// A store has too many transactions.
    #[error("{name} has more than {max} transactions: compare it in parts, with --gtid")]
    TooMany {
        /// The store.
        name: String,
        /// Maximum number of transactions.
        max: u64,
    },
    /// The caller stopped the comparison.
    #[error("stopped")]
    Stopped,
}
