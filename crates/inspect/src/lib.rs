//! Inspection of binary logs, without changing them.
//!
//! [`stats`] counts, and [`verify`](mod@verify) checks. Both return values, which the caller prints.
#![forbid(unsafe_code)]

mod error;
mod log_pieces;
pub mod stats;
pub mod verify;

pub use crate::error::InspectError;
