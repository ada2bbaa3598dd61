//! Applies the transactions of binary logs to a target: in commit order, exactly once, resumable.
//!
//! ```text
//! source ─▶ whole transactions ─▶ apply plans: their steps ─▶ session ─▶ commit, with progress
//! ```
//!
//! | to | use |
//! |---|---|
//! | read the transactions of logs, in order | [`Source`] |
//! | turn a transaction into the steps that apply it | [`Work`] |
//! | apply to another kind of target | implement [`Target`] and [`Session`] |
//! | decode row events into changes | [`changes`] |
//! | apply to a MySQL or MariaDB server | [`MysqlTarget`] |
//! | apply to a SQLite database | `SqliteTarget` |
//! | run a whole replay | [`replay`] |
//! | forecast a replay (dry run) | [`plan`] |
//! | compare a target with a server afterwards | [`compare`] |
//!
//! Progress is saved on the target, in the same transaction as the changes that it covers. Whatever stops a replay,
//! the same command continues where it stopped, and applies nothing twice. Statements that commit implicitly cannot
//! be covered that way: they are announced on the target first, as an [`Intent`].
//!
//! This crate never changes a log, writes to its target's binary log unless asked to, applies part of a transaction,
//! or skips a transaction silently.
#![forbid(unsafe_code)]

pub mod changes;
pub mod compare;
mod context;
pub mod definition;
mod ends;
mod error;
mod filter;
mod grants;
pub mod keys;
mod lag;
mod mysql;
pub mod net;
pub mod order;
mod preflight;
mod progress;
mod report;
mod run;
#[cfg(test)]
mod sample;
pub mod schedule;
mod select;
mod source;
mod spooled;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod survey;
mod target;
mod unit;
mod work;

pub use crate::context::Context;
pub use crate::error::{Error, Failure, FailureKind};
pub use crate::lag::Lag;
pub use crate::mysql::{ApplyAs, Look, MysqlTarget, WhySql};
pub use crate::preflight::{Check, Finding};
pub use crate::progress::{Applied, Intent, Ledger, Place, Progress};
pub use crate::report::{Report, Status};
pub use crate::run::{Gap, Ground, Observer, Options, Plan, RowChanges, Width, plan, replay};
pub use crate::select::{Bound, Late, Selection, Start, Stop};
pub use crate::source::{Found, LargeUnit, Log, Source};
pub use crate::spooled::SpooledRows;
#[cfg(feature = "sqlite")]
pub use crate::sqlite::{Remarks, SqliteTarget};
pub use crate::survey::{Shown, Survey};
pub use crate::target::{Session, Settled, Target};
pub use crate::unit::{Head, Origin, Unit};
pub use crate::work::{Load, RowEvents, Shape, Statement, Step, UserValue, Variable, Work, WorkError};
