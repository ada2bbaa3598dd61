//! Applies the transactions of MySQL binary logs to another server, in commit order, exactly once.
#![forbid(unsafe_code)]

pub mod definition;
pub mod keys;
pub mod net;
#[cfg(test)]
mod sample;
pub mod schedule;
