//! MySQL and MariaDB servers as targets of a replay.
//!
//! | to | use |
//! |---|---|
//! | apply transactions to a server | [`MysqlTarget`] |
//! | find obstacles before a replay, and show its progress | [`TargetInspector`] |
//! | compare the tables of a server | [`ServerReader`] |
//! | change rows that still have the values in a log | [`CheckedTransaction`] |
//! | write row changes as an SQL script | [`RowScript`] |
//!
//! Row changes go to MySQL as `BINLOG` statements: the server applies events in its own format, with exact types. If
//! the server or the account does not allow this, row changes go as statements with parameters. Progress is saved in
//! the table `bintide.progress`, in the same transaction as the changes that it covers.
//!
//! This crate never decides which transactions are applied, or in which order. Unless requested, it never writes to the
//! target's binary log if the account may turn it off. The only global variable that it changes is `gtid_purged`.
#![forbid(unsafe_code)]

mod account_grants;
mod apply_as;
mod binlog_statement;
mod cascade_finder;
mod checked_transaction;
mod context_adapter;
mod fingerprint;
mod lock_heartbeat;
mod log_readers;
mod logged_actions;
mod mysql_session;
mod mysql_target;
mod progress_event;
mod progress_rows;
mod progress_sql;
mod row_script;
mod row_sql;
mod row_statements;
mod server_failure;
mod server_reader;
mod session_state;
mod single_statement;
mod table_definition;
mod target_inspector;
mod target_logging;
mod versions;

pub use crate::apply_as::{ApplyAs, SqlApplyReason};
pub use crate::checked_transaction::{CheckedTransaction, WrittenRows};
pub use crate::logged_actions::LoggedActions;
pub use crate::mysql_target::MysqlTarget;
pub use crate::row_script::RowScript;
pub use crate::row_sql::{AppliedChanges, ColumnDifference, ConflictReason, RowConflict};
pub use crate::server_reader::ServerReader;
pub use crate::target_inspector::TargetInspector;
pub use crate::target_logging::TargetLogChoice;
