//! Row changes of binary logs as JSON records, one per line, in the envelopes of Debezium and Maxwell.
//!
//! | to | use |
//! |---|---|
//! | turn events into records | [`Streamer`] |
//! | stream whole logs | [`stream_log()`] |
//! | write the existing rows of tables before the changes | [`SnapshotWriter`] |
//! | write the rows of tables while the log is followed | [`IncrementalSnapshot`], [`ChunkWriter`] |
//! | buffer records and write many at a time | [`RecordSink`] |
//! | pass records with keys to a message broker | [`BrokerTarget`], [`BrokerSink`] |
//! | describe records by schemas | [`RecordSchemas`], [`ConnectSchema`] |
//! | learn table definitions from the DDL in the log | [`DdlSchema`] |
//! | resume where a run ended | [`ResumeToken`], [`ResumePosition`] |
//!
//! Debezium records are written at once. Maxwell records wait until the end of their transaction is known. Memory is
//! bounded whatever the transaction's size.
//!
//! This crate never talks to a server, reads a clock, or skips a change silently.
#![forbid(unsafe_code)]

mod broker_output;
mod broker_sink;
mod broker_target;
mod byte_output;
mod catalogue_names;
mod change;
mod chunk_writer;
mod column_catalogue;
mod column_default;
mod column_domain;
mod column_rules;
mod connect_schema;
mod ddl_schema;
mod debezium_schema;
mod debezium_writer;
mod directory_sink;
mod error;
mod geometry;
mod incremental_snapshot;
mod json_document;
mod json_writer;
mod key_watch;
mod maxwell_writer;
mod original_positions;
mod pipe_sink;
mod progress_file;
mod record_index;
mod record_sink;
mod record_table;
mod resume_token;
mod schema_files;
mod seek;
mod settings;
mod sink_progress;
mod snapshot_column;
mod snapshot_key;
mod snapshot_progress;
mod snapshot_writer;
mod statement_effect;
mod stream_gtid_state;
mod stream_log;
mod stream_table;
mod streamer;
mod table_plan;
mod table_snapshot;
mod transaction_buffer;
mod unscaled_decimal;
mod value;
mod value_mask;
mod value_modes;

pub use crate::broker_sink::{
    BrokerProgress, BrokerSink, CommitStart, CommittedPart, DefinitionsUpdate, KeyedRecord, KeyedRecordKind,
    OtherKey, TransactionSkip,
};
pub use crate::broker_target::BrokerTarget;
pub use crate::catalogue_names::CatalogueNames;
pub use crate::change::{DdlVerb, ResumePosition};
pub use crate::chunk_writer::{ChunkEnds, ChunkWriter};
pub use crate::column_catalogue::{
    CatalogueError, ColumnCatalogue, ColumnDdl, ColumnSchema, SchemaMismatch, SystemPeriod, TableSchema,
};
pub use crate::column_rules::{
    ColumnPatterns, ColumnRuleError, ColumnRules, ColumnSelection, MaskRule, MessageKeys,
};
pub use crate::connect_schema::{ConnectField, ConnectKind, ConnectParameter, ConnectSchema};
pub use crate::ddl_schema::DdlSchema;
pub use crate::debezium_schema::RecordSchemas;
pub use crate::directory_sink::DirectorySink;
pub use crate::error::StreamError;
pub use crate::incremental_snapshot::{
    ChunkStep, IncrementalSnapshot, SnapshotQuery, SnapshotQueryKind, TableChunk,
};
pub use crate::key_watch::{KeyWatch, WatchFault};
pub use crate::pipe_sink::PipeSink;
pub use crate::progress_file::{SavedProgress, lock_progress};
pub use crate::record_sink::RecordSink;
pub use crate::record_table::RecordTable;
pub use crate::resume_token::{ResumeToken, ResumeTokenError};
pub use crate::seek::seek;
pub use crate::settings::{Envelope, QueryText, SchemaPolicy, StatementPolicy, StreamSettings};
pub use crate::snapshot_key::{ChunkBounds, KeyLiterals};
pub use crate::snapshot_progress::{PendingTable, SnapshotProgress};
pub use crate::snapshot_writer::SnapshotWriter;
pub use crate::statement_effect::{DefinedName, StatementEffect};
pub use crate::stream_gtid_state::{StreamGtidState, StreamGtids};
pub use crate::stream_log::{
    StreamHooks, TransactionBoundary, apply_log_ddl, follow_log_names, new_stream_walk, stream_log,
};
pub use crate::stream_table::MissingNames;
pub use crate::streamer::{StreamInput, Streamer};
pub use crate::table_plan::UnnamedColumnPolicy;
pub use crate::value_modes::{BinaryMode, DecimalMode, TimeMode, UnsignedBigintMode, ValueModes};
