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
    /// Number of transactions that are in both stores, with equal or with other content.
    pub common: u64,
    /// Transactions that are in one store only, and missing in the other.
    pub missing: [OneSidedTransactions; 2],
    /// Transactions of one store that are from before the first log of the other store.
    pub purged: [TransactionRanges; 2],
    /// Transactions with equal identifiers and other content.
    pub content: ContentDifferences,
    /// Transactions whose order differs.
    pub order: OrderDifferences,
    /// GTIDs of the selection that neither store has.
    pub absent: GtidSet,
}

/// A store, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct StoreSummary {
    /// Name of the store, as given by the user.
    pub name: String,
    /// Number of logs.
    pub logs: u64,
    /// Number of whole transactions.
    pub transactions: u64,
    /// Number of transactions that come again with the same GTID. Only the first of each is compared.
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
    /// Number of them before the first transaction that is in both stores: the other server may have got them with
    /// a copy of the data, which its logs do not show.
    pub before_first_common: u64,
    /// Number of them after the last transaction that is in both stores: the other store may get them later.
    pub after_last_common: u64,
    /// Place of the first of them.
    pub first: Option<LogPosition>,
}

/// Transactions with equal identifiers and other content.
#[derive(Clone, Debug, Default)]
pub struct ContentDifferences {
    /// Number of all of them.
    pub count: u64,
    /// The first of them.
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
    /// The identifier in both stores. Transactions without GTIDs are at the same place between equal ones.
    pub id: TransactionId,
    /// Its positions.
    pub positions: [LogPosition; 2],
    /// Tables that it changes in either store, without those beyond a limit.
    pub tables: Vec<String>,
    /// The first difference; `None` if it is too far behind the start of the transaction to be looked for.
    pub first: Option<FirstDifference>,
}

/// First difference of two transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// Number of the statement, from 1.
    pub statement: u64,
    /// Property that differs.
    pub kind: DifferenceKind,
    /// What each transaction has there; `None` if it has ended before.
    pub parts: [Option<PartSummary>; 2],
}

/// Property that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// One transaction has more statements or tables.
    End,
    /// Statements of another kind, or on another table.
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
    /// Smallest number of transactions that must move for the orders to be equal.
    pub moved: u64,
    /// The first example.
    pub example: Option<OrderExample>,
}

/// Two transactions in another order: `earlier` comes before `later` in store A, and after it in store B.
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
    /// Its positions.
    pub positions: [LogPosition; 2],
}

/// Meaning of another order of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPolicy {
    /// It is no difference of the stores.
    Report,
    /// It is a difference.
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
