//! Row changes of binary logs as JSON records, one per line, in the envelopes of Debezium and Maxwell.
//!
//! | to | use |
//! |---|---|
//! | turn events into records | [`Streamer`] |
//! | stream whole logs | [`stream_log`] |
//! | write the existing rows of tables before the changes | [`Snapshot`] |
//! | buffer records and write many at a time | [`Output`] |
//! | learn table definitions from the DDL in the log | [`Definitions`] |
//! | resume where a run ended | [`Token`], [`Place`] |
//!
//! Debezium records are written at once. Maxwell records wait until the end of their transaction is known. Memory is
//! bounded whatever the transaction's size.
//!
//! This crate never talks to a server, reads a clock, or skips a change silently.
#![forbid(unsafe_code)]

mod catalogue;
mod cell;
mod change;
mod debezium;
mod defined;
mod document;
mod error;
mod files;
mod geometry;
mod had;
mod held;
mod kept;
mod maxwell;
mod moment;
mod origin;
mod output;
mod pipe;
mod plan;
mod read;
mod seek;
mod settings;
mod snapshot;
mod statement;
mod streamer;
mod text;
mod token;
mod unscaled;
mod value;

pub use crate::catalogue::{Catalogue, Changed, ColumnFacts, TableFacts};
pub use crate::change::Place;
pub use crate::defined::Definitions;
pub use crate::error::Error;
pub use crate::files::{Files, lock_progress};
pub use crate::had::{Had, HadGtids};
pub use crate::output::{Output, Saved, To, saved};
pub use crate::pipe::Pipe;
pub use crate::plan::Nameless;
pub use crate::read::{Boundary, Watch, define, stream_log};
pub use crate::seek::seek;
pub use crate::settings::{Envelope, Queries, Settings, Statements};
pub use crate::snapshot::Snapshot;
pub use crate::streamer::{Event, Large, Streamer};
pub use crate::token::{Token, TokenError};
