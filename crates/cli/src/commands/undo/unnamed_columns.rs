//! Reasons why the columns of a table have no names.

use anyhow::anyhow;
use replay::TransactionHead;
use servers::ConnectionError;

use crate::exit::ErrorAdvice;

/// Reason why the columns of a table have no names.
pub(super) enum UnnamedColumns {
    /// The log has none, and no server is given.
    Log,
    /// The server does not have the table of this name, or its columns differ.
    Server(String),
    /// The server cannot be queried.
    Query(ConnectionError),
}

impl UnnamedColumns {
    pub(super) fn into_error(self, head: &TransactionHead) -> anyhow::Error {
        match self {
            Self::Log => {
                anyhow!("{head}: the log has no column names (binlog_row_metadata=MINIMAL)").context(ErrorAdvice(
                    "use the column's number in --where: @N=VALUE; with --to, the names are read from the server",
                ))
            }
            Self::Server(table) => anyhow!(
                "{head}: the log has no column names (binlog_row_metadata=MINIMAL), and the server of --to has no \
                 table {table} with the columns of the log"
            )
            .context(ErrorAdvice("use the column's number in --where: @N=VALUE")),
            Self::Query(error) => anyhow::Error::new(error)
                .context("could not read the definition of a table from the server of --to"),
        }
    }
}
