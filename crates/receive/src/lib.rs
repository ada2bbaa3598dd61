//! Receives a server's logs as they are written, byte for byte, into a directory with an index.
//!
//! ```text
//! LiveSource ─▶ unchanged, or FailoverMerge ─▶ StoreWriter ─▶ logs, index ─▶ LogCompressor
//!      └─ SourceRotation: next source, and delay;  SourceCandidate: can this server continue the directory?
//! ```
//!
//! | task | item |
//! |---|---|
//! | receive logs until the end or without end, from one of several sources | [`LogReceiver`] |
//! | receive notices of lost connections and full disks, and progress | implement [`ReceiveReporter`] |
//! | read the statistics of a run from any thread | [`SharedReceiveStats`] |
//! | pause a run, purge or protect its logs, change their compression | [`ReceiveControl`] |
//! | request the transactions that are not in a set of GTIDs | [`start_after`] |
//!
//! Whatever stops a run, the same call resumes after the last whole event on disk. A run ends when the token of its
//! `LinkOptions` is cancelled.
//!
//! This crate never changes an event of the store's first source, never stores a transaction twice, never counts or
//! acknowledges an event before it is on disk, and never deletes the log that is being written. It never prints, never
//! reads arguments and never handles signals.
#![forbid(unsafe_code)]
#![expect(clippy::result_large_err, reason = "an error ends a connection or the run: its size costs nothing")]

mod compression_queue;
mod compression_statistics;
mod connection;
mod disconnect;
mod disk_space;
mod error;
mod failover_merge;
mod identity;
mod log_compressor;
mod monitor;
mod pending_acks;
mod pending_events;
mod receive_control;
mod receive_stats;
mod received_gtids;
mod receiver;
mod reporter;
mod source_candidate;
mod source_errors;
mod source_rotation;
mod source_status;
mod start_point;
mod unchanged_logs;

pub use crate::compression_statistics::CompressionStatistics;
pub use crate::error::{ReceiveError, ReceiveFailure, ResumeObstacle};
pub use crate::monitor::SharedReceiveStats;
pub use crate::receive_control::{ControlError, ReceiveControl};
pub use crate::receive_stats::ReceiveStats;
pub use crate::received_gtids::ReceivedGtids;
pub use crate::receiver::{AckCondition, DiskFullPolicy, LogReceiver, ReceiveOptions, SourceFailurePolicy};
pub use crate::reporter::{ReceiveNotice, ReceiveReporter};
pub use crate::source_candidate::SourceRejection;
pub use crate::source_errors::SourceLogs;
pub use crate::source_status::{ConnectionTrouble, SourceStatus};
pub use crate::start_point::{GtidState, StartPoint, start_after};
