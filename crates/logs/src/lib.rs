//! Reads and writes stored binary logs, and processes them in parallel.
//!
//! | task | item |
//! |---|---|
//! | read one log, event by event or in chunks for other threads | [`LogReader`] |
//! | find the logs of a directory or an index | [`Store`] |
//! | follow a store that is being written to | [`Follower`]; with the caller's own reader, [`Trail`] |
//! | write a source's logs, byte for byte | [`StoreWriter`]; to inspect the directory first, [`StoreFolder`] |
//! | create and lock files and directories that no other user can redirect | [`private_options`], [`make_folders`], [`FolderLock`], [`FileLock`] |
//! | check a file name from a server, an index or a log | [`is_file_name`] |
//! | list the transactions of a log | [`Contents`] |
//! | split a log into whole transactions | [`TransactionCutter`] |
//! | map positions of a rewritten log to the original log | [`Positions`] |
//! | keep the table maps of a statement that is split into pieces | [`StatementMaps`] |
//! | read an encrypted log | [`read_keyring`], [`LogReader::with_keyring`] |
//! | write an encrypted log | [`AtRest::Encrypted`]; with the caller's own writer, [`new_header`] |
//! | read in order, work in parallel, deliver in order, bounded in bytes | [`ordered`](ordered::ordered) |
//! | store bytes temporarily, encrypted on disk | [`Spool`] |
//! | convert a thread's panic into an error | [`ThreadPanic`] |
//!
//! A transaction payload too large for memory is read in pieces: [`LargePayload`].
//!
//! Logs are read with plain reads into memory that grows only as bytes arrive. A file that is truncated while it is
//! read is an error, never a crash. Positions are 64 bits wide and counted. They never come from an event's header,
//! where they wrap at 4 GiB.
//!
//! This crate never talks to a server and never waits for a log to grow: it reports that no more is available, and its
//! caller decides. It decodes only the events that delimit logs and transactions.
#![forbid(unsafe_code)]

mod chunk;
mod contents;
mod created_paths;
mod error;
mod file_name;
mod follow;
mod input;
mod keyring;
mod large;
mod log_file;
mod maps;
pub mod ordered;
mod own_files;
mod positions;
mod reader;
mod regular_file;
mod series;
mod spool;
mod store;
mod store_folder;
mod store_writer;
mod temporary;
mod thread_panic;
mod transactions;

pub use crate::chunk::{Chunk, LogEvent};
pub use crate::contents::Contents;
pub use crate::error::Error;
pub use crate::file_name::is_file_name;
pub use crate::follow::{After, Follower, Trail};
pub use crate::keyring::read_keyring;
pub use crate::large::{LargeEnd, LargeEvents, LargePayload};
pub use crate::log_file::new_header;
pub use crate::maps::StatementMaps;
pub use crate::own_files::{FileLock, FolderLock, make_folders, private_options, sync_parent};
pub use crate::positions::{Moved, Positions};
pub use crate::reader::{End, LogKind, LogReader, Next, Piece, Torn};
pub use crate::regular_file::open_regular;
pub use crate::series::Series;
pub use crate::spool::Spool;
pub use crate::store::{IgnoredIndexPath, Store};
pub use crate::store_folder::StoreFolder;
pub use crate::store_writer::{Appended, AtRest, Keep, StorePlace, StoreWriter};
pub use crate::temporary::limit_temporary_files;
pub use crate::thread_panic::{ThreadPanic, panic_message};
pub use crate::transactions::{Content, CutError, Segment, TransactionCutter, Whole, each_event_within};
