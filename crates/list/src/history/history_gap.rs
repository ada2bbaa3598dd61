//! Gaps of a history: reasons why it may lack changes of the row.

use std::fmt;
use std::sync::Arc;

use crate::row_condition::{RowCondition, untested_rows_text};

/// Reason why a history may lack changes of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryGap {
    /// Some row images do not contain the column of this condition.
    UntestedRows(RowCondition),
    /// The table does not have the column of this condition in all logs.
    MissingColumn {
        /// The condition.
        condition: RowCondition,
        /// Name of a log where the table lacks the column.
        log_name: Arc<str>,
        /// Start of a rows event where the table lacks the column.
        position: u64,
    },
    /// The log has no column names, and the columns of the table are not those of its completion.
    OtherColumns {
        /// Name of a log where the table has other columns.
        log_name: Arc<str>,
        /// Start of a rows event where the table has other columns.
        position: u64,
    },
    /// A statement changes rows without row events, or the table's name or columns.
    Statement {
        /// Name of the log that contains the statement.
        log_name: Arc<str>,
        /// Start of the statement's event; in a compressed transaction, start of the payload event.
        position: u64,
        /// Text of the statement, on one line and possibly truncated.
        text: String,
    },
    /// An XA transaction changed the row, but the logs neither commit it nor roll it back.
    UndecidedXa {
        /// XID of the transaction.
        xid: Arc<str>,
        /// Name of the log that contains the change.
        log_name: Arc<str>,
        /// Start of the change's event; in a compressed transaction, start of the payload event.
        position: u64,
    },
}

impl fmt::Display for HistoryGap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UntestedRows(condition) => out.write_str(&untested_rows_text(condition)),
            Self::MissingColumn { condition, log_name, position } => write!(
                out,
                "--where={condition} cannot be tested on some rows: {log_name} at {position}: the table does not have this \
                 column; for these rows, give the name or the number that the column has there"
            ),
            Self::OtherColumns { log_name, position } => write!(
                out,
                "{log_name} at {position}: the table has other columns here than on the server of --schema, and the \
                 history lacks its changes; for these logs, use the column's number: --where=@N=VALUE"
            ),
            Self::Statement { log_name, position, text } => write!(
                out,
                "{log_name} at {position}: the history does not contain what this statement changed, and may lack \
                 changes before or after it: {text}"
            ),
            Self::UndecidedXa { xid, log_name, position } => write!(
                out,
                "{log_name} at {position}: the history does not contain the changes of the XA transaction {xid}: the logs \
                 neither commit it nor roll it back; if a later log ends it, give that log, too"
            ),
        }
    }
}

/// Distinct gaps of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryGaps {
    /// The gaps.
    pub listed: Vec<HistoryGap>,
    /// Number of further statements, beyond the maximum of listed ones.
    pub more_statements: u64,
}

/// Number of statements that are listed.
const STATEMENTS_MAX: usize = 8;

impl HistoryGaps {
    /// Adds a gap, unless it is known.
    pub(super) fn add(&mut self, gap: HistoryGap) {
        let is_known = self.listed.iter().any(|known| match (known, &gap) {
            (
                HistoryGap::MissingColumn { condition: known, .. },
                HistoryGap::MissingColumn { condition, .. },
            ) => known == condition,
            (HistoryGap::OtherColumns { .. }, HistoryGap::OtherColumns { .. }) => true,
            (HistoryGap::UndecidedXa { xid: known, .. }, HistoryGap::UndecidedXa { xid, .. }) => known == xid,
            (known, gap) => known == gap,
        });
        if is_known {
            return;
        }
        let is_statement = |gap: &HistoryGap| matches!(gap, HistoryGap::Statement { .. });
        let statements = self.listed.iter().filter(|listed| is_statement(listed)).count();
        match is_statement(&gap) && statements == STATEMENTS_MAX {
            true => self.more_statements += 1,
            false => self.listed.push(gap),
        }
    }

    /// Adds other gaps.
    pub(super) fn join(&mut self, other: Self) {
        for gap in other.listed {
            self.add(gap);
        }
        self.more_statements += other.more_statements;
    }
}
