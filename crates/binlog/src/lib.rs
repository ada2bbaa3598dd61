//! MySQL and MariaDB binary logs: bytes in, meaning out, and back.
//!
//! This crate never does I/O, never reads a clock, never spawns a thread. It takes slices and gives views of
//! them; whoever has a file, a socket or a test vector can call it.
//!
//! # From bytes to values
//!
//! | step | from | to |
//! |---|---|---|
//! | [`Framer`] | the bytes of a log, in pieces of any size | [`RawEvent`]: header, body, checksum |
//! | [`RawEvent::decode`] | one raw event and the log's [`Format`] | [`Event`]: a view with named fields |
//! | [`PayloadOpener`] | a compressed transaction | the events inside, one at a time |
//! | [`Tables`] | table maps and rows events | [`RowDecoder`]: rows, fields, [`Value`]s |
//! | [`Tracker`] | events in order | where transactions start and end, and an [`Outline`] of each |
//! | [`Assembler`] | events in order | each [`Transaction`] as a whole |
//! | [`Event::encode`] | an event | the body it came from, byte for byte |
//! | [`Event::write`] | an event and who made it | the whole event: header, body, checksum |
//! | [`RawEvent::rewrite`] | a raw event | the same in another place |
//!
//! What it never does: allocate by a size that a header claims, skip bytes that it does not understand without
//! saying so, or panic on any input.
#![forbid(unsafe_code)]

mod charset;
mod collation;
mod column;
mod cursor;
mod decimal;
#[cfg(feature = "ciphers")]
pub mod encryption;
mod error;
mod event;
pub mod events;
mod format;
mod framer;
pub mod gtid;
mod gtid_set;
mod header;
mod json;
mod mariadb;
mod payload;
mod raw;
mod row;
#[cfg(feature = "serde")]
mod serial;
mod table;
mod tables;
mod temporal;
mod transaction;
mod value;
mod write;

pub use crate::charset::Charset;
pub use crate::collation::Collation;
pub use crate::column::{Column, ColumnType, GeometryType};
pub use crate::cursor::Cursor;
pub use crate::decimal::Decimal;
pub use crate::error::{DecodeError, EncodeError, Reason};
pub use crate::event::{Event, EventType};
pub use crate::format::{ChecksumAlgorithm, Flavour, Format};
pub use crate::framer::{EVENT_SIZE_MAX, Framed, Framer, MAGIC, MAGIC_ENCRYPTED};
pub use crate::header::{Flags, HEADER_SIZE, Header, Origin};
pub use crate::json::{Json, JsonChange, JsonChangeKind, JsonChanges, JsonContainer, JsonQuotes, JsonValue};
#[cfg(feature = "zstd")]
pub use crate::payload::{CompressError, Level, PayloadWriter};
pub use crate::payload::{
    InnerEvents, PayloadError, PayloadLimits, PayloadOpener, PayloadStream, PayloadSummary, inner_size,
    put_inner,
};
pub use crate::raw::{CHECKSUM_SIZE, Checksum, RawEvent, RawEventBuf};
pub use crate::row::{Field, FieldIter, Image, ImageDecoder, Row, RowDecoder, RowIter};
pub use crate::table::{KeyPart, Table, UnknownField};
pub use crate::tables::Tables;
pub use crate::temporal::{Date, DateTime, Time, Timestamp};
pub use crate::transaction::{
    AssembleError, Assembler, Candidate, Fault, Grammar, Lost, Outline, Place, Refusal, ResizeError, Role,
    Step, TrackError, TrackFault, Tracked, Tracker, Transaction, TransactionId, TransactionKind, Verb,
    put_gtid_resized,
};
pub use crate::value::{Bit, Bytes, Compressed, Geometry, Text, Value, Vector};
pub use crate::write::{NextPosition, move_event};
