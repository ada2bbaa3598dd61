//! Reasons why row changes have no inverse.

use binlog::{DecodeError, Table};

/// Reason why the rows of an event were not inverted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InverseError {
    /// The event is corrupt, or its table is unknown.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The log lacks values that the inverse needs.
    #[error("{table}: {refusal}")]
    Refused {
        /// Database and table.
        table: String,
        /// Reason.
        refusal: InverseRefusal,
    },
}

/// Reason why the log is insufficient for the inverse of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InverseRefusal {
    /// A delete whose image lacks columns.
    #[error(
        "the log lacks values of the deleted rows ({columns}): the server had binlog_row_image=MINIMAL or NOBLOB"
    )]
    DeletedValues {
        /// Missing columns.
        columns: String,
    },
    /// An update whose before image lacks changed columns.
    #[error(
        "the log lacks the values before the update ({columns}): the server had binlog_row_image=MINIMAL or NOBLOB"
    )]
    ValuesBefore {
        /// Missing columns.
        columns: String,
    },
    /// An insert whose image lacks columns and possibly a part of the primary key.
    #[error(
        "the inserted rows cannot be identified: the log lacks columns ({columns}), and without binlog_row_metadata=FULL \
         it does not show which columns are the primary key"
    )]
    InsertedKey {
        /// Missing columns.
        columns: String,
    },
    /// Extra fields of an event whose inverse is unknown.
    #[error("its row events have extra fields of an unknown type")]
    ExtraFields,
    /// A document that is too large for its column.
    #[error("column {column} has a document that does not fit its type")]
    DocumentSize {
        /// The column.
        column: String,
    },
}

/// Returns the names of columns for messages; `@1`, `@2`… if the log has no names.
pub(crate) fn column_names(table: &Table, columns: impl Iterator<Item = usize>) -> String {
    columns.map(|index| column_name(table, index)).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a column for messages.
pub(crate) fn column_name(table: &Table, index: usize) -> String {
    match table.columns.get(index).and_then(|column| column.name.as_deref()) {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => format!("@{}", index + 1),
    }
}

/// Returns the error for a table.
pub(crate) fn refused(table: &Table, refusal: InverseRefusal) -> InverseError {
    let [database, name] = [&table.database, &table.name].map(|name| String::from_utf8_lossy(name));
    InverseError::Refused { table: format!("{database}.{name}"), refusal }
}
