//! Prints binary logs as mysqlbinlog does, damaged logs too: its options, and its text byte for byte.
//!
//! The options of `bintide dump` that mysqlbinlog does not have are parsed here too, so that both sets are one command
//! line.
//!
//! This crate opens no connection and writes no list: its caller passes in the code for both. It never changes a log.
#![forbid(unsafe_code)]

mod block_reader;
mod charset_text;
mod color_writer;
mod common_settings;
mod decode;
mod delimiter;
mod dump;
mod dump_diagnostics;
mod dump_dialect;
mod dump_inputs;
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
pub mod lists;
mod load_files;
mod local_time;
mod loose_table;
pub mod mysqlbinlog;
mod options;
mod parsed_options;
mod pipeline;
mod printed_session;
mod quote;
mod read_error;
pub mod remote;
mod remote_settings;
mod result_file;
mod rewrite;
pub mod rows_text;
mod store_listing;
pub mod table_metadata;
mod text_batch;
mod text_memo;
mod unwritable_value;
mod value_text;
pub mod visible_writer;
