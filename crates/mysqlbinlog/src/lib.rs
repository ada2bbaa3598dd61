//! Prints binary logs as mysqlbinlog does, damaged logs too: its options, and its text byte for byte.
//!
//! | task | item |
//! |---|---|
//! | run a command line | [`run_here`], [`run`], [`run_with`] |
//! | read logs from servers | [`remote`] |
//! | write lists in place of the text | [`list_provider`] |
//! | recognize characters that hide text on a terminal | [`is_control_or_bidi`] |
//!
//! The options of `bintide dump` that mysqlbinlog does not have are parsed here too, so that both sets are one command
//! line.
//!
//! This crate opens no connection and writes no list: its caller passes in the code for both. It never changes a log.
#![forbid(unsafe_code)]

mod block_reader;
mod charset_text;
mod color_writer;
mod command_line;
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
mod hexdump;
mod input_log_file;
mod json_text;
mod list_options;
pub mod list_provider;
mod load_files;
mod local_time;
mod loose_table;
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
mod rows_text;
mod store_listing;
mod table_metadata;
mod text_batch;
mod text_memo;
mod unwritable_value;
mod value_text;
mod visible_writer;

pub use crate::command_line::{
    ArgumentForm, OptionPreset, OptionSummary, StandardStreams, option_summaries, presettable_options, run,
    run_here, run_with,
};
pub use crate::dump_dialect::DumpDialect;
pub use crate::local_time::local_zone;
pub use crate::visible_writer::is_control_or_bidi;
