//! Prints binary logs as text: mysqlbinlog's output byte for byte, JSON, and tables.
//!
//! This crate opens no connection: its caller passes in the code that talks to servers. It never changes a log.
#![forbid(unsafe_code)]

pub mod base64;
mod batch;
mod bytes;
mod decode;
mod delimiter;
mod dump;
mod errno;
mod event_ref;
mod event_text;
mod frame;
mod gtid_text;
mod head_text;
pub mod hexdump;
mod json_text;
pub mod list;
mod load_files;
mod local_time;
mod log_file;
mod loose_table;
mod memo;
pub mod mysqlbinlog;
pub mod numbers;
mod options;
mod ours;
mod paint;
mod pipeline;
mod quote;
mod reader;
pub mod remote;
mod rewrite;
pub mod rows_text;
mod session;
mod settings;
mod spool;
mod stores;
pub mod table_metadata;
mod talk;
mod value_text;
pub mod visible;
