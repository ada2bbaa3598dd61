//! Prints binary logs as mysqlbinlog does: its options, and its output byte for byte. Damaged logs included.
//!
//! This crate opens no connection: its caller passes in the code that talks to servers. It never changes a log.
#![forbid(unsafe_code)]

mod block_reader;
mod color_writer;
mod decode;
mod delimiter;
mod dump;
mod dump_diagnostics;
mod dump_settings;
mod dump_spool;
mod errno;
mod event_buffer;
mod event_ref;
mod event_text;
mod frame;
mod gtid_text;
mod head_text;
pub mod hexdump;
mod input_log_file;
mod json_text;
mod list_options;
mod load_files;
mod local_time;
mod loose_table;
pub mod mysqlbinlog;
mod options;
mod pipeline;
mod printed_session;
mod quote;
pub mod remote;
mod rewrite;
pub mod rows_text;
mod store_listing;
pub mod table_metadata;
mod text_batch;
mod text_memo;
mod value_text;
pub mod visible_writer;
