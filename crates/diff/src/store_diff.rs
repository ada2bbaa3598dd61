//! Result of a comparison.

use binlog::TransactionId;
use binlog::events::RowsKind;
use binlog::gtid::GtidSet;

use crate::transaction_ranges::TransactionRanges;

/// Differences between the transactions of two stores. Arrays have the value for store A, then for store B.
#[derive(Clone, Debug, Default)]
pub struct StoreDiff {
    /// The stores.
    pub stores: [StoreSummary; 2],
    /// Number of transactions in both stores, with equal or different content.
    pub common: u64,
    /// Transactions in one store only, and missing in the other.
    pub missing: [OneSidedTransactions; 2],
    /// Transactions of one store from before the first log of the other store.
    pub purged: [TransactionRanges; 2],
    /// Transactions with equal identifiers and different content.
    pub content: ContentDifferences,
    /// Transactions whose order differs.
    pub order: OrderDifferences,
    /// GTIDs of the selection that neither store has.
    pub absent: GtidSet,
}

/// Summary of a store's read part.
#[derive(Clone, Debug, Default)]
pub struct StoreSummary {
    /// Name of the store, as given by the user.
    pub name: String,
    /// Number of logs.
    pub logs: u64,
    /// Number of whole transactions.
    pub transactions: u64,
    /// Number of repeated transactions with the same GTID. Only the first one is compared.
    pub repeated: u64,
    /// Number of transactions without an end, which are not compared.
    pub incomplete: u64,
    /// Remarks about ends of logs.
    pub remarks: Vec<String>,
}

/// Transactions that are in one store only.
#[derive(Clone, Debug, Default)]
pub struct OneSidedTransactions {
    /// The transactions.
    pub transactions: TransactionRanges,
    /// Number of these transactions before the first common one. The other server may have got them with a copy of the
    /// data, which its logs do not show.
    pub before_first_common: u64,
    /// Number of these transactions after the last common one. The other store may get them later.
    pub after_last_common: u64,
    /// Position of the first of these transactions.
    pub first: Option<LogPosition>,
}

/// Transactions with equal identifiers and different content.
#[derive(Clone, Debug, Default)]
pub struct ContentDifferences {
    /// Number of all such transactions.
    pub count: u64,
    /// The first such transactions.
    pub listed: Vec<DifferentTransaction>,
}

/// Position in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Path of the log.
    pub log: String,
    /// Start of the transaction, in bytes from the start of the log.
    pub position: u64,
}

impl LogPosition {
    /// Returns the file name of the log.
    pub fn log_name(&self) -> &str {
        self.log.rsplit('/').next().unwrap_or(&self.log)
    }
}

/// Transaction whose content differs.
#[derive(Clone, Debug)]
pub struct DifferentTransaction {
    /// The identifier in both stores. Transactions without GTIDs are paired by their place between equal ones.
    pub id: TransactionId,
    /// Positions of the transaction in both stores.
    pub positions: [LogPosition; 2],
    /// Tables that the transaction changes in either store, up to a limit.
    pub tables: Vec<String>,
    /// The first difference; `None` if it is too far from the start of the transaction.
    pub first: Option<FirstDifference>,
}

/// First difference of two transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// Number of the statement, from 1.
    pub statement: u64,
    /// Property that differs.
    pub kind: DifferenceKind,
    /// Part of each transaction at the difference; `None` if the transaction has already ended.
    pub parts: [Option<PartSummary>; 2],
}

/// Property that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// One transaction has more statements or tables.
    End,
    /// Kind of statement, or its table.
    Statement,
    /// Form of updates of JSON documents: the changes, or whole documents.
    JsonForm,
    /// Types of a table's columns.
    ColumnTypes,
    /// Columns in the images of the rows.
    Columns,
    /// Number of rows.
    RowCount,
    /// Values of rows.
    RowValues,
    /// Text of a statement, or its default database.
    Text,
    /// File of LOAD DATA.
    File,
    /// Variables of a statement.
    Variables,
    /// End of the transaction: commit or rollback.
    Outcome,
    /// Another property.
    Other,
}

impl DifferenceKind {
    /// Returns the property's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Statement => "statement",
            Self::JsonForm => "json_form",
            Self::ColumnTypes => "column_types",
            Self::Columns => "columns",
            Self::RowCount => "row_count",
            Self::RowValues => "row_values",
            Self::Text => "text",
            Self::File => "file",
            Self::Variables => "variables",
            Self::Outcome => "outcome",
            Self::Other => "other",
        }
    }
}

/// Summary of a part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSummary {
    /// Row changes of one table by one statement.
    Rows {
        /// Kind of the changes.
        kind: RowsKind,
        /// Database and table.
        table: String,
        /// Number of rows.
        rows: u64,
    },
    /// Statement as SQL text.
    Statement {
        /// Default database.
        database: String,
        /// The text, or its start.
        sql: String,
    },
    /// Anything else, such as `COMMIT`.
    Other(String),
}

/// Transactions whose order differs.
#[derive(Clone, Debug, Default)]
pub struct OrderDifferences {
    /// Minimum number of transactions that must move for the orders to be equal.
    pub moved: u64,
    /// The first example.
    pub example: Option<OrderExample>,
}

/// Two transactions in different order: `earlier` is before `later` in store A, and after it in store B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderExample {
    /// First transaction in store A.
    pub earlier: OrderedTransaction,
    /// Second transaction in store A.
    pub later: OrderedTransaction,
}

/// Transaction and its positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedTransaction {
    /// The identifier.
    pub id: TransactionId,
    /// Positions of the transaction in both stores.
    pub positions: [LogPosition; 2],
}

/// Meaning of a different order of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPolicy {
    /// Report the order, but do not count it as a difference of the stores.
    Report,
    /// Count the order as a difference.
    Require,
}

impl StoreDiff {
    /// Returns whether the stores have equal transactions, as far as they can be compared.
    pub fn is_equal(&self, order: OrderPolicy) -> bool {
        let has_order = match order {
            OrderPolicy::Report => true,
            OrderPolicy::Require => self.order.moved == 0,
        };
        let is_complete = self.missing.iter().all(|missing| missing.transactions.is_empty());
        has_order && is_complete && self.content.count == 0
    }
}
