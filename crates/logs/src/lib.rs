//! Reads and writes stored binary logs, and processes them in parallel.
//!
//! | task | item |
//! |---|---|
//! | read one log, event by event or in chunks for other threads | [`LogReader`] |
//! | walk over a log event by event, including the events in payloads of any size | [`LogWalk`] |
//! | walk in parallel: read pieces, find their context, walk over their events | [`PieceReader`], [`ContextTracker`], [`EventWalk`] |
//! | find the logs of a directory or an index | [`Store`] |
//! | read logs of archives by their paths | [`ArchivedLogs`] |
//! | follow a store that is being written to | [`StoreFollower`]; with the caller's own reader, [`StoreCursor`] |
//! | write a source's logs, byte for byte | [`StoreWriter`]; to check the directory first, [`StoreDirectory`] |
//! | create and lock files and directories that no other user can redirect | [`private_options`], [`make_directories`], [`DirectoryLock`], [`FileLock`] |
//! | find another process that has a log open for writing | [`find_writer`]; in a directory, [`find_running_server`] |
//! | check a file name from a server, an index or a log | [`is_file_name`] |
//! | find out when and by whom a change was made | [`ChangeOrigin`] |
//! | follow transactions and tables, for row changes | [`ChangeWalk`] |
//! | select transactions by GTID | [`GtidSelection`] |
//! | list the transactions of a log | [`LogContents`] |
//! | split a log into whole transactions | [`TransactionCutter`] |
//! | map positions of a rewritten log to the original log | [`RewritePositions`]; the files with them: [`positions_path`], [`numbered_path`] |
//! | keep the table maps of a statement that is split into pieces | [`StatementTableMaps`] |
//! | read an encrypted log | [`read_keyring`], [`LogReader::with_keyring`] |
//! | write an encrypted log | [`LogEncryption::Encrypted`]; with the caller's own writer, [`new_encrypted_header`] |
//! | read in order, work in parallel, deliver in order, bounded in bytes | [`ordered::run_ordered`] |
//! | store bytes temporarily, encrypted on disk | [`EncryptedSpool`] |
//! | end waits for pipes and standard input when a program is to stop | [`set_stop_check`] |
//! | convert a thread's panic into an error | [`ThreadPanic`] |
//! | lock a value that a panic cannot leave inconsistent | [`lock`](lock()) |
//! | get the present time | [`now_us`], [`now_s`] |
//!
//! A transaction payload too large for memory is read in pieces: [`LargePayload`].
//!
//! Logs are read into memory that grows only as bytes arrive. A file that is truncated while it is read causes an
//! error, never a crash. Positions have 64 bits and are counted, because positions in event headers wrap at 4 GiB.
//!
//! This crate never connects to a server, and never waits for a log to grow: it reports that no more events are
//! available, and the caller decides. It decodes only events that delimit logs and transactions.
#![forbid(unsafe_code)]

mod archived_logs;
mod change_origin;
mod change_walk;
mod chunk_context;
mod created_paths;
mod encrypted_spool;
mod error;
mod event_chunk;
mod event_walk;
mod file_identity;
mod file_name;
mod found_logs;
mod gtid_selection;
mod keyring;
mod large_payload;
mod log_contents;
mod log_file_writer;
mod log_input;
mod log_reader;
mod log_series;
mod log_syncer;
mod log_walk;
mod log_writers;
mod mutex_lock;
mod newest_received_logs;
pub mod ordered;
mod own_files;
mod piece_reader;
mod regular_file;
mod rewrite_positions;
mod server_identity;
mod statement_table_maps;
mod store;
mod store_directory;
mod store_follower;
mod store_watch;
mod store_writer;
mod temporary_space;
mod thread_panic;
mod transaction_cutter;
mod unix_time;
mod waiting_reader;

pub use crate::archived_logs::{
    ArchivedContents, ArchivedLogs, add_archive_keyring, archived_contents, find_archived_logs,
    forget_archives, open_archived_log, set_archived_logs,
};
pub use crate::change_origin::ChangeOrigin;
pub use crate::change_walk::{ChangePlace, ChangeWalk, WalkedTable};
pub use crate::chunk_context::{ChunkContext, ContextError, ContextTracker, ends_statement, transaction_at};
pub use crate::encrypted_spool::EncryptedSpool;
pub use crate::error::{LogError, NoLogsReason, is_disk_full};
pub use crate::event_chunk::{EventChunk, LogEvent};
pub use crate::event_walk::{
    EventWalk, InnerPosition, PayloadEndStep, PayloadFailure, WalkEvent, WalkSource, WalkStep, WalkSteps,
};
pub use crate::file_identity::FileIdentity;
pub use crate::file_name::{base_name, is_file_name, split_log_number};
pub use crate::found_logs::FoundLogs;
pub use crate::gtid_selection::GtidSelection;
pub use crate::keyring::read_keyring;
pub use crate::large_payload::{LargePayload, LargePayloadEvents, LargePayloadHead, PayloadEnd};
pub use crate::log_contents::{LogContents, decode_previous_gtids};
pub use crate::log_file_writer::new_encrypted_header;
pub use crate::log_reader::{EndOfLog, LogKind, LogPiece, LogReader, RawPiece, ReadOutcome, TornEvent};
pub use crate::log_series::{LogSeries, is_later_in_store, is_later_log, log_order};
pub use crate::log_walk::LogWalk;
pub use crate::log_writers::{
    RunningServer, WriterPresence, find_running_server, find_server_file, find_writer,
};
pub use crate::mutex_lock::lock;
pub use crate::newest_received_logs::NewestReceivedLogs;
pub use crate::own_files::{
    DirectoryLock, FileAccess, FileLock, link_target, make_directories, parent_of, private_options,
    replace_file, sync_parent,
};
pub use crate::piece_reader::{PayloadPart, PieceReader, PieceSizes, WalkPiece, inner_events};
pub use crate::regular_file::{open_regular, starts_as_log};
pub use crate::rewrite_positions::{
    PositionPair, RewritePositions, RewrittenSizes, numbered_path, positions_path,
};
pub use crate::server_identity::ServerIdentity;
pub use crate::statement_table_maps::StatementTableMaps;
pub use crate::store::{IgnoredIndexPath, Store};
pub use crate::store_directory::{IDENTITY_FILE_NAME, StoreDirectory, is_received_store};
pub use crate::store_follower::{LogEndAction, StoreCursor, StoreFollower};
pub use crate::store_watch::StoreWatch;
pub use crate::store_writer::{
    AppendOutcome, LogEncryption, LogStart, RetentionLimit, StoreEnd, StoreWriter,
};
pub use crate::temporary_space::limit_temporary_files;
pub use crate::thread_panic::{ThreadPanic, panic_message};
pub use crate::transaction_cutter::{
    CutError, LogSegment, SegmentContent, TakeSegment, TransactionCutter, WholeTransaction,
    read_events_within,
};
pub use crate::unix_time::{now_s, now_us};
pub use crate::waiting_reader::{is_wait_stopped, set_stop_check};
