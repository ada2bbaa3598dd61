//! What is in binary logs, and are they sound? Readers that only report.
//!
//! [`stats`] counts. It gives values: printing them is someone else's work.
//!
//! What this crate never does: change a log, print, or look at a terminal.
#![forbid(unsafe_code)]

mod error;
pub mod stats;

pub use crate::error::Error;
