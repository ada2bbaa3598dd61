//! Compares two stores of binary logs: whether they have the same transactions, with the same content.
//!
//! The content of a transaction is the changes that it makes. Properties that may differ between servers with the same
//! data are not part of the content:
//!
//! | content | no content |
//! |---|---|
//! | database, table and column types of changed rows; their images | numbers of tables, optional metadata of tables |
//! | number of rows of a statement, in any order | distribution of rows over events |
//! | text and default database of a statement; its variables | time, duration, connection and other session variables |
//! | file of LOAD DATA | name of this file |
//! | order of statements | positions, checksums, server IDs, logical clocks |
//! | commit or rollback | transaction number of the engine; compression of payloads and events |
//!
//! | to | use |
//! |---|---|
//! | compare two stores | [`compare_stores`] |
//! | read the result | [`StoreDiff`] |
//!
//! For each transaction, memory holds 40 bytes per store, and at most 28 bytes while the stores are compared.
#![forbid(unsafe_code)]

mod compare_stores;
mod content_hash;
mod content_part;
mod content_scanner;
mod difference_finder;
mod error;
mod sequence_alignment;
mod statement_rows;
mod store_comparison;
mod store_diff;
mod store_reader;
mod transaction_index;
mod transaction_ranges;

pub use crate::compare_stores::{DiffSettings, compare_stores};
pub use crate::content_part::TransactionOutcome;
pub use crate::error::DiffError;
pub use crate::store_diff::{
    ContentDifferences, DifferenceKind, DifferentTransaction, FirstDifference, LogPosition,
    OneSidedTransactions, OrderDifferences, OrderExample, OrderPolicy, OrderedTransaction, PartSummary,
    StoreDiff, StoreSummary,
};
pub use crate::store_reader::DiffStore;
pub use crate::transaction_ranges::{MariadbGtidRange, TransactionRanges};
