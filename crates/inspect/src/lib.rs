//! What is in binary logs, and are they sound? Readers that only report.
//!
//! [`stats`] counts, [`verify`](mod@verify) judges, [`advise`] measures what compressing would do. They give values:
//! printing them is someone else's work.
//!
//! What this crate never does: change a log, print, or look at a terminal.
#![forbid(unsafe_code)]

pub mod advise;
mod carry;
mod error;
pub mod stats;
pub mod verify;
mod walk;

pub use crate::error::Error;
