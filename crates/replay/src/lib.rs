//! The engine of a replay: applies the transactions of binary logs to a target, in commit order and exactly once. A
//! replay can be resumed.
//!
//! ```text
//! source ─▶ whole transactions ─▶ apply plans: their steps ─▶ session ─▶ commit, with progress
//! ```
//!
//! | to | use |
//! |---|---|
//! | read the transactions of logs, in order | [`TransactionSource`] |
//! | turn a transaction into steps for a target | [`ApplyPlan`] |
//! | apply to another kind of target | implement [`ReplayTarget`] and [`TargetSession`] |
//! | decode row events into changes | [`row_reader`] |
//! | run a whole replay | [`replay`] |
//! | forecast a replay (dry run) | [`plan`] |
//! | compare a target with a server afterwards | [`compare`] |
//!
//! Progress is saved on the target, in the same transaction as the changes that it covers. Whatever stops a replay, the
//! same command continues where it stopped, and applies nothing twice. Statements that commit implicitly cannot share a
//! transaction with the progress. Replay first announces each such statement on the target, as a [`StatementIntent`].
//!
//! This crate uses no database client: targets are separate crates. It never changes a log, never applies part of a
//! transaction, and never skips a transaction silently.
#![forbid(unsafe_code)]

mod applied_check;
mod apply_plan;
pub mod commit_gate;
mod commit_order;
pub mod compare;
pub mod keys;
mod lag_tracker;
mod load_file_content;
mod log_survey;
mod lost_temporary_tables;
pub mod net_change;
mod preflight_finding;
mod replay_error;
mod replay_log;
mod replay_options;
mod replay_progress;
mod replay_report;
mod replay_target;
mod row_events;
pub mod row_reader;
mod run;
#[cfg(test)]
mod sample_table;
pub mod schedule;
mod selection_check;
mod session_variables;
mod source_outcome;
mod source_position;
mod source_transaction;
mod spooled_rows;
mod spooled_statements;
mod table_definitions;
mod table_pair;
mod target_table_definition;
mod transaction_filter;
mod transaction_selection;
mod transaction_source;

pub use crate::apply_plan::{
    ApplyPlan, ApplyPlanError, ApplyStep, LoadDataFile, SourceStatement, StatementInput, StatementTime,
    TransactionShape, UserVariableValue,
};
pub use crate::commit_order::CommitOrder;
pub use crate::lag_tracker::{CommitLag, CommitLagBuckets};
pub use crate::load_file_content::{LoadFileContent, LoadFileReader};
pub use crate::log_survey::{LogSurvey, LogTable};
pub use crate::preflight_finding::{PreflightCheck, PreflightFinding};
pub use crate::replay_error::{ReplayError, TargetFailure, TargetFailureKind};
pub use crate::replay_log::ReplayLog;
pub use crate::replay_options::{GapPolicy, ReplayOptions};
pub use crate::replay_progress::{AppliedState, ProgressLedger, ReplayProgress, StatementIntent};
pub use crate::replay_report::{ReplayReport, ReplayStatus};
pub use crate::replay_target::{
    CommitSignal, CommitSignalCause, IntentOutcome, ReplayTarget, RollbackTraces, TargetSession,
};
pub use crate::row_events::RowEvents;
pub use crate::run::{
    DraftRole, DryRunTarget, Parallelism, ReplayObserver, ReplayPlan, RowChanges, plan, replay,
};
pub use crate::session_variables::SessionVariables;
pub use crate::source_outcome::SourceOutcome;
pub use crate::source_position::{SourcePosition, SourceRange};
pub use crate::source_transaction::{SourceTransaction, TransactionHead, TransactionOrigin};
pub use crate::spooled_rows::SpooledRows;
pub use crate::spooled_statements::SpooledStatements;
pub use crate::table_definitions::TableDefinitions;
pub use crate::target_table_definition::{
    ForeignKeys, StorageEngine, TargetTableDefinition, TargetTableName, UniqueKey,
};
pub use crate::transaction_selection::{
    LateTransactions, SelectionBound, SelectionChoice, SelectionStart, SelectionStop, TransactionSelection,
    TransactionSelector,
};
pub use crate::transaction_source::{OversizedTransaction, SizedTransaction, TransactionSource};
