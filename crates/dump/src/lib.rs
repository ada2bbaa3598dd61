//! Binary logs as text: mysqlbinlog's output byte for byte, and JSON.
//!
//! This crate never talks to a server, and never changes a log.
#![forbid(unsafe_code)]

pub mod base64;
pub mod hexdump;
mod json_text;
pub mod list;
pub mod numbers;
mod quote;
pub mod rows_text;
pub mod table_metadata;
mod value_text;
