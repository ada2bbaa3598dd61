//! Prefetch of the pages that a replica's applier will need.
//!
//! ```text
//! relay logs ─▶ row changes ─▶ SearchPlan ─▶ SearchWindow ─▶ SearchBatch ─▶ workers ─▶ pages in the buffer pool
//!     ▲                            ▲
//!     └─ ApplierLead               └─ ReplicaTable: the table's definition
//! ```
//!
//! | to | use |
//! |---|---|
//! | warm a replica | [`warm()`] |
//! | warm a server for an applier that is no replica | [`warm_for`] |
//! | derive the searches for a row change | [`SearchPlan`], from a table's [`ReplicaTable`] |
//! | derive the rows that a statement reads | [`read_extent`] |
//! | batch searches and drop repeated ones | [`SearchBatcher`], [`SearchWindow`] |
//! | track the searches' lead over the applier | [`ApplierLead`] |
//! | decide how far ahead searches should be | [`DistanceController`] |
//!
//! This crate never changes a server, locks a row, or keeps a transaction open. A search is part of one short statement
//! that returns a few numbers.
#![forbid(unsafe_code)]

mod applier_lead;
mod distance_controller;
mod error;
mod external_applier;
mod information_schema;
mod literal;
mod read_counters;
mod relay_log_reader;
mod relay_position;
mod replica_monitor;
mod replica_table;
mod report;
mod search_plan;
mod search_window;
mod search_worker;
mod settings;
mod slow_tables;
mod statement;
mod statement_session;
#[cfg(test)]
mod test_tables;
mod warm_run;
mod warm_shared;

pub use crate::applier_lead::{ApplierLead, LeadMark};
pub use crate::distance_controller::{
    BusyResource, ControlLimits, ControlReading, DistanceController, WarmState,
};
pub use crate::error::WarmError;
pub use crate::external_applier::{AppliedLogs, ExternalApplier};
pub use crate::relay_position::{LogNumber, RelayPosition};
pub use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaForeignKey, ReplicaIndex, ReplicaTable};
pub use crate::report::{
    ChannelStatus, DiskReads, DiskWaits, WarmCounts, WarmEndReason, WarmRate, WarmReport, WarmStatus,
};
pub use crate::search_plan::{ChangeBuffering, PageSearch, SearchPlan, SearchTarget};
pub use crate::search_window::{SearchBatch, SearchBatcher, SearchWindow};
pub use crate::settings::{
    ExternalApplierSettings, FixedPace, NonReplicaPolicy, SearchConnections, WarmPace, WarmSettings,
};
pub use crate::statement::{
    FromTable, FunctionSet, LoggedStatement, ReadExtent, SkipReason, read_extent, row_only_columns,
};
pub use crate::warm_run::{WarmObserver, warm, warm_for};
