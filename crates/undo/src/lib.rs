//! The inverse of row changes in binary logs, as row events.
//!
//! | change | inverse |
//! |---|---|
//! | insert | delete of the row |
//! | delete | insert of the row |
//! | update | update with the images swapped |
//! | update with changes of JSON documents | update with whole documents |
//!
//! The rows of an event are inverted in reverse order. Incomplete images are used if the other columns suffice;
//! otherwise they are refused with an [`InverseRefusal`].
//!
//! | to | use |
//! |---|---|
//! | invert the rows of an event | [`RowInverter`] |
//! | collect the inverse of chosen changes | [`InverseCollector`] |
//! | write the inverse as a binary log, or read its parts | [`InverseLog`] |
//! | find statements that have no inverse | [`UndoScope`] |
//!
//! Transactions, statements, events and rows of an inverse are in the opposite order. An inverse is stored in memory or
//! in an encrypted temporary file. This crate does no other I/O. It never guesses the value of a column that the log
//! omits.
#![forbid(unsafe_code)]

mod inverse_collector;
mod inverse_log;
mod inverse_refusal;
mod inverted_rows;
mod reverse_spool;
mod row_inverter;
mod undo_scope;

pub use crate::inverse_collector::{CollectError, InverseCollector, InverseCounts, RowChoice};
pub use crate::inverse_log::{
    ForeignKeyActions, InverseLog, InverseLogError, InverseLogIdentity, InversePart, InverseTransaction,
};
pub use crate::inverse_refusal::{InverseError, InverseRefusal};
pub use crate::inverted_rows::InvertedRows;
pub use crate::row_inverter::RowInverter;
pub use crate::undo_scope::{SelectedRows, UndoScope};
