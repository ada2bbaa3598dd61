//! Row changes of binary logs as JSON records, one a line, in the envelopes of Debezium and Maxwell.
//!
//! | to | use |
//! |---|---|
//! | turn events into records | [`Streamer`] |
//! | do that with whole logs | [`stream_log`] |
//! | have the rows that tables have already in front of it | [`Snapshot`] |
//! | gather records and write many at a time | [`Output`] |
//! | know tables by the definitions in the log | [`Definitions`] |
//! | go on where a run ended | [`Token`], [`Place`] |
//!
//! A record is written when its transaction's end is known where the envelope asks for that (Maxwell), and else at once:
//! memory stays bounded whatever a transaction's size.
//!
//! What this crate never does: talk to a server, read a clock, or pass over a change in silence.
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
