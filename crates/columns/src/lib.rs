//! Row changes of binary logs as Arrow record batches, and as Parquet files.
//!
//! | to | use |
//! |---|---|
//! | find out the Arrow schema of a table's changes | [`ChangeSchema`] |
//! | turn row changes of one table into record batches | [`ChangeBatchBuilder`] |
//! | turn the events of logs into record batches | [`ChangeDecoder`] |
//! | decode one log | [`decode_log()`]; event by event: [`LogChanges`] |
//! | write the changes of logs as Parquet files | [`export_logs()`], [`ChangeExport`] |
//!
//! Each row of a batch is one row change. The structs `before` and `after` have the values. A value that its column's
//! Arrow type cannot hold, such as the date 0000-00-00, is null there, and its exact text is beside the struct.
//! Memory is bounded whatever the transaction's size.
//!
//! This crate never talks to a server, guesses a column's name, or skips a change silently.
#![forbid(unsafe_code)]

mod change_batch_builder;
mod change_decoder;
mod change_export;
mod change_schema;
mod column_encodings;
mod columns_error;
mod decimal_number;
mod export_run;
mod image_builder;
mod parquet_part;
mod table_choice;
mod table_directory;
mod value_builder;

pub use crate::change_batch_builder::{ChangeBatchBuilder, ChangeContext};
pub use crate::change_decoder::{BatchSink, ChangeBatch, ChangeDecoder, DecodeSettings, DecodeStep};
pub use crate::change_export::{
    ChangeExport, ExportCounts, ExportLimits, SELECTION_NAME, STATE_NAME, exported_column_lists,
    exported_files, exported_list_name, is_list_name,
};
pub use crate::change_schema::ChangeSchema;
pub use crate::columns_error::ColumnsError;
pub use crate::export_run::{ExportLog, LogChanges, LogProgress, decode_log, export_logs};
pub use crate::parquet_part::ParquetKey;
