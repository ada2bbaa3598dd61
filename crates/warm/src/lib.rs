//! Prefetch of the pages that a replica's applier will need.
//!
//! ```text
//! relay logs ─▶ row changes ─▶ Plan: touches ─▶ Window ─▶ Batch ─▶ workers ─▶ pages in the buffer pool
//!     ▲                            ▲
//!     └─ Lead ◀─ applier's position └─ Definition
//! ```
//!
//! | to | use |
//! |---|---|
//! | warm a replica | [`warm()`] |
//! | warm a server for an applier that is no replica | [`warm_for`] |
//! | derive the searches for a row change | [`Plan`], from a table's [`Definition`] |
//! | derive the rows that a statement reads | [`extent`] |
//! | batch searches and drop repeated ones | [`Batcher`], [`Window`] |
//! | track how far the searches are ahead of the applier | [`Lead`] |
//! | decide how far ahead they should be | [`Controller`] |
//!
//! This crate never changes anything on a server, locks a row, or keeps a transaction open. A search is part of one
//! short statement that returns a few numbers.
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
