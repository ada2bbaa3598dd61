//! Applies the transactions of binary logs to a target: in commit order, exactly once, resumable.
//!
//! ```text
//! Source ─▶ Unit: one source transaction, whole ─▶ Work: what it asks of a target ─▶ Session ─▶ commit, with progress
//! ```
//!
//! | to | use |
//! |---|---|
//! | have the transactions of files, in order | [`Source`] |
//! | know what one asks of a target | [`Work`] |
//! | apply to another kind of target | implement [`Target`] and [`Session`] |
//! | make changes of one's own from row events | [`changes`] |
//! | apply to a MySQL or MariaDB server | [`MysqlTarget`] |
//! | apply to a SQLite database | `SqliteTarget` |
//! | do it all | [`replay`] |
//! | know beforehand what that will come to | [`plan`] |
//! | know afterwards whether a target has what a server has | [`compare`] |
//!
//! Progress is saved on the target, in the same transaction as the changes that it covers: whatever stops a replay,
//! the same command goes on where it stopped, and applies nothing twice. What cannot be saved so, statements that
//! commit by themselves, is announced there first: an [`Intent`].
//!
//! What this crate never does: change a log, write to its target's binary log unless asked to, apply a part of a
//! transaction, or pass over a transaction in silence.
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
