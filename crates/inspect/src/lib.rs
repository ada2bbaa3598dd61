//! Inspection of binary logs, without changing them.
//!
//! [`stats`] counts, and [`verify`](mod@verify) checks. Both return values, which the caller prints.
//!
//! This crate never changes a log, never prints, and does not depend on a terminal.
#![forbid(unsafe_code)]

mod error;
mod log_pieces;
pub mod stats;
pub mod verify;

pub use crate::error::InspectError;
