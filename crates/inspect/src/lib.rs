//! Inspects binary logs: readers that only report.
//!
//! [`stats`] counts, and [`verify`](mod@verify) checks. They return values; printing them is up to the caller.
//!
//! This crate never changes a log, never prints, and does not depend on a terminal.
#![forbid(unsafe_code)]

mod error;
mod log_pieces;
pub mod stats;
pub mod verify;

pub use crate::error::InspectError;
