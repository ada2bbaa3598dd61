//! The inverse of row changes in binary logs, as row events.
//!
//! | change | inverse |
//! |---|---|
//! | insert | delete of the row |
//! | delete | insert of the row |
//! | update | update with the images swapped |
//! | update with changes of JSON documents | update with whole documents |
//!
//! The rows of an event are inverted in reverse order. Images that lack columns are used if the others suffice, and
//! refused otherwise: [`InverseRefusal`].
//!
//! This crate does no I/O. It never guesses the value of a column that the log omits.
#![forbid(unsafe_code)]

mod inverse_refusal;
mod inverted_rows;
mod row_inverter;

pub use crate::inverse_refusal::{InverseError, InverseRefusal};
pub use crate::inverted_rows::InvertedRows;
pub use crate::row_inverter::RowInverter;
