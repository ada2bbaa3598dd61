//! Serves a directory of binary logs to replicas and other clients, each in a form that the client can read.
//!
//! ```text
//! RelayStore ─▶ FormRenderer: one log, from a position ─▶ FormChunk ─▶ FormSource: shared chunks, FormIndex
//!                                                                          └─▶ FormReader ─▶ DumpSession ─▶ DumpPiece
//! ```
//!
//! | task | item |
//! |---|---|
//! | choose the form for a client | [`FormChoice`], [`ClientAttributes`] |
//! | open the logs to serve | [`RelayStore`] |
//! | share one form of the logs among clients | [`FormSource`] |
//! | read a form from a log and position on | [`FormReader`] |
//! | translate positions between a log and its form | [`FormSource::rendered_position`], [`FormSource::stored_position`] |
//! | read and change the file of accounts; find the account of a login | [`AccountFile`], [`RelayAccounts`] |
//! | answer SQL | [`SqlResponder`], from [`RelayFacts`] |
//! | answer `COM_BINLOG_DUMP` and `COM_BINLOG_DUMP_GTID` | [`DumpStream`]; without a store, [`DumpSession`] |
//!
//! A form is a deterministic rendering of each log, with its own positions: the same bytes after each restart, on every
//! relay of the same source, and for a log that still grows. A client that uses file and position can therefore
//! reconnect to any of these relays. For compressed forms, the relays need the same version of the zstd library.
//!
//! - A form other than as-is has whole transactions only. As-is has whole events.
//! - The in-use flag of a format description is cleared in all forms, as a server does when it sends this event.
//! - MariaDB's compressed events stay unchanged in all forms.
//! - A log that cannot have compressed transactions is the same in all forms: logs of MariaDB, and logs of MySQL before
//!   8.0.20.
//!
//! This crate never changes, renames or removes a log. It never opens a socket, reads a clock or starts a thread; time
//! is a parameter. It never waits for a log to grow, or for a client. Memory is bounded: by the limit of the cache, a
//! few renderers per form, and one chunk per client. The only exception is a single event, which is read as a whole
//! before it is rendered or split. A transaction payload that is served unchanged is read in pieces.
#![forbid(unsafe_code)]

mod account_file;
mod chunk_cache;
mod dump_error;
mod dump_piece;
mod dump_progress;
mod dump_session;
mod dump_start;
mod dump_stream;
mod error;
mod event_listing;
mod form_chunk;
mod form_index;
mod form_reader;
mod form_renderer;
mod form_source;
mod host_pattern;
mod log_form;
mod mariadb_dump;
mod mariadb_position;
mod relay_account;
mod relay_facts;
mod relay_store;
mod render_buffer;
mod sent_transactions;
mod served_checksum;
mod served_compression;
mod sql_answer;
mod sql_responder;
mod state_reader;
mod statement_interrupt;
mod upstream_control;

pub use rewrite::StageTiming;

pub use crate::account_file::{AccountFile, AccountFileError};
pub use crate::dump_error::DumpError;
pub use crate::dump_piece::{DumpPiece, EventBytes, StoredBytes};
pub use crate::dump_progress::{ClientProgress, DumpProgress};
pub use crate::dump_session::{
    AnnotationPolicy, DumpEndPolicy, DumpOptions, DumpSession, DumpWait, HeartbeatVersion, RUN_EVENT_SIZE,
    RunPolicy,
};
pub use crate::dump_start::{
    AheadPolicy, DumpMode, DumpRequest, DumpStart, SourceGtids, can_find_start, find_start,
};
pub use crate::dump_stream::{DumpStep, DumpStream};
pub use crate::error::RelayError;
pub use crate::form_chunk::{CHUNK_SIZE_MAX, EventSlice, FormChunk, TransactionMark};
pub use crate::form_index::{FormIndex, FormPosition, INDEX_STRIDE};
pub use crate::form_reader::{FormReader, ReaderStep};
pub use crate::form_source::{
    FormRead, FormSource, FormSourceOptions, FormStart, FormTimings, IndexedSize, RenderCost,
};
pub use crate::host_pattern::{HostPattern, HostPatternError};
pub use crate::log_form::{ClientAttributes, FormChoice, FormTextError, LogForm};
pub use crate::mariadb_dump::{GtidHoles, GtidsAhead, MariadbProgress, MariadbRequest};
pub use crate::mariadb_position::{MariadbPosition, MariadbState, PositionTextError};
pub use crate::relay_account::{
    AccountMatch, AccountRight, AccountRole, RelayAccount, RelayAccounts, RoleNameError, TransportRequirement,
};
pub use crate::relay_facts::{
    ClientFacts, ClientLag, ClientTotals, CompressionCounters, CountedTransaction, FormFacts, LogSize,
    NewestLogEnd, RelayFacts, RelayedServer, SemiSyncSettings, ServedLog, StageTotals,
};
pub use crate::relay_store::{HeadEvents, RelayStore};
pub use crate::sent_transactions::{SentTransaction, SentTransactions};
pub use crate::served_checksum::ServedChecksum;
pub use crate::served_compression::ServedCompression;
pub use crate::sql_answer::{
    SqlAnswer, SqlColumn, SqlColumnKind, SqlRows, SqlSession, SqlValue, SqlWarning, WarningLevel,
};
pub use crate::sql_responder::{BinlogEvents, SqlResponder, sql_mode};
pub use crate::state_reader::{StateReader, StoredState};
pub use crate::statement_interrupt::StatementInterrupt;
pub use crate::upstream_control::{
    SourceChange, SourceOption, UpstreamControl, UpstreamError, UpstreamStatus, UpstreamTls, first_log_in_use,
};
