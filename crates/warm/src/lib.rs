//! Reads the pages that a replica's applier will need, ahead of it.
//!
//! ```text
//! relay logs ─▶ row changes ─▶ Plan: touches ─▶ Window ─▶ Batch ─▶ workers ─▶ pages in the buffer pool
//!                                  ▲                                            │
//!                             Definition                 Lead ◀─ applier's place ┘
//! ```
//!
//! | to | use |
//! |---|---|
//! | do it all | [`warm()`] |
//! | do it for another applier than a replica's | [`warm_for`] |
//! | know what a change touches | [`Plan`], from a table's [`Definition`] |
//! | know what a statement will read | [`extent`] |
//! | have searches made at once, and none twice | [`Batcher`], [`Window`] |
//! | know how far ahead they are | [`Lead`] |
//! | decide how far that should be | [`Controller`] |
//!
//! What this crate never does: change anything on a server, lock a row, or keep a transaction open. A search is part
//! of one short statement that answers with a few numbers.
#![forbid(unsafe_code)]

mod applier;
mod catalogue;
mod control;
mod definition;
mod error;
mod lead;
mod literal;
mod measure;
mod place;
mod reader;
mod replica;
mod report;
mod run;
#[cfg(test)]
mod sample;
mod session;
mod settings;
mod shared;
mod slow;
mod statement;
mod touch;
mod window;
mod worker;

pub use crate::applier::{AppliedLogs, Applier};
pub use crate::control::{Bounds, Busy, Controller, Reading, State};
pub use crate::definition::{Column, Definition, Index, IndexKind, Parent};
pub use crate::error::Error;
pub use crate::lead::{Lead, Mark};
pub use crate::place::{LogNumber, Place};
pub use crate::report::{ChannelStatus, Counts, Rate, Reads, Report, Status, Waits, Why};
pub use crate::run::{Observer, warm, warm_for};
pub use crate::settings::{Fixed, Pace, Settings, SettingsFor, Stranger, Threads};
pub use crate::statement::{Extent, Functions, Left, Named, Statement, TableName, columns_of_rows, extent};
pub use crate::touch::{Aim, Buffering, Plan, Touch};
pub use crate::window::{Batch, Batcher, Window};
