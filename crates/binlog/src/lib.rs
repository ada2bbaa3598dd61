//! MySQL and MariaDB binary logs: bytes in, meaning out, and back.
//!
//! Every event of MySQL 5.6 to 9.7 and of MariaDB: framed, decoded, encoded. Rows with every column type, JSON
//! documents and their partial updates, GTID sets, transactions, compressed and encrypted logs.
//!
//! This crate never does I/O, never reads a clock, never spawns a thread. It takes slices and gives views of
//! them; whoever has a file, a socket or a test vector can call it.
//!
//! # Quick start
//!
//! ```no_run
//! use bintide_binlog::{Event, Framed, Framer, MAGIC, Tables};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = std::fs::read("binlog.000001")?;
//! let mut rest = log.strip_prefix(&MAGIC).ok_or("this is no binary log")?;
//! let (mut framer, mut tables) = (Framer::new(), Tables::new());
//! while let Framed::Event(raw) = framer.next(rest)? {
//!     raw.verify()?; // The checksum, if there is one.
//!     let format = framer.format().ok_or("the first event describes the format")?;
//!     match raw.decode(format)? {
//!         Event::Query(query) => println!("{}", String::from_utf8_lossy(query.sql)),
//!         Event::TableMap(map) => drop(tables.map(&map)?),
//!         Event::WriteRows(rows) => {
//!             for row in tables.decoder(&rows)?.rows(&rows) {
//!                 println!("{:?}", row?.after);
//!             }
//!         }
//!         event => println!("{}", event.event_type().name()),
//!     }
//!     rest = &rest[raw.bytes().len()..];
//! }
//! if !rest.is_empty() {
//!     return Err("the log stops within an event".into());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The crate's `examples` folder has programs that list events, count rows, follow GTIDs, open compressed
//! transactions, and write a log anew.
//!
//! # From bytes to values
//!
//! | step | from | to |
//! |---|---|---|
//! | [`Framer`] | the bytes of a log, in pieces of any size | [`RawEvent`]: header, body, checksum |
//! | [`RawEvent::decode`] | one raw event and the log's [`Format`] | [`Event`]: a view with named fields |
//! | [`PayloadOpener`] | a compressed transaction | the events inside, one at a time |
//! | [`gtid::GtidSet`] | text or bytes | which transactions, and their algebra |
//! | `encryption` | an encrypted log and a keyring | the log |
//! | [`Tables`] | table maps and rows events | [`RowDecoder`]: rows, fields, [`Value`]s |
//! | [`Tracker`] | events in order | where transactions start and end, and an [`Outline`] of each |
//! | [`Assembler`] | events in order | each [`Transaction`] as a whole |
//! | [`Event::encode`] | an event | the body it came from, byte for byte |
//! | [`Event::write`] | an event and who made it | the whole event: header, body, checksum |
//! | [`RawEvent::rewrite`] | a raw event | the same in another place |
//!
//! # Borrowing and owning
//!
//! Events are views of the bytes that they were decoded from: nothing is copied. To keep one, keep its bytes:
//! [`RawEvent::to_buf`] copies one event, a [`Transaction`] holds all of its own, and decoding them again is cheap.
//!
//! # Features
//!
//! | feature | without it | on by default |
//! |---|---|---|
//! | `zstd` | compressed transactions stay closed (MySQL) | yes |
//! | `zlib` | compressed events and columns stay closed (MariaDB) | yes |
//! | `ciphers` | encrypted logs stay closed | yes |
//! | `charsets` | texts of nine East Asian character sets stay bytes | yes |
//! | `serde` | no `Serialize` for events and outlines (row values have none) | no |
//!
//! Serialized, names and statements are strings where they are UTF-8, and `{"base64": "…"}` where they are not, as
//! all other bytes are; GTIDs, sets of them and XIDs look as the server shows them; the session variables of a
//! query are decoded.
//!
//! # What to expect
//!
//! - An unknown event, flag, session variable or metadata field is kept and shown, not dropped. Whether an unknown
//!   event may be passed over is for its [`Flags::IGNORABLE`] to say.
//! - An error says where, what was found, and what was wanted.
//! - Rust 1.88 or later. A later release may ask for a later Rust, and says so by its minor version.
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
pub mod sql_mode;
mod table;
mod tables;
mod temporal;
mod transaction;
mod value;
mod write;

pub use crate::charset::Charset;
pub use crate::collation::Collation;
pub use crate::column::{Column, ColumnType, GeometryType};
pub use crate::cursor::{Cursor, put_lenenc};
pub use crate::decimal::Decimal;
pub use crate::error::{DecodeError, EncodeError, Reason};
pub use crate::event::{Event, EventType};
pub use crate::format::{ChecksumAlgorithm, Flavour, Format};
pub use crate::framer::{EVENT_SIZE_MAX, Framed, Framer, MAGIC, MAGIC_ENCRYPTED};
pub use crate::header::{Flags, HEADER_SIZE, Header, Origin};
pub use crate::json::{
    Json, JsonChange, JsonChangeKind, JsonChanges, JsonContainer, JsonPathLeg, JsonQuotes, JsonValue,
};
#[cfg(feature = "zstd")]
pub use crate::payload::{CompressError, Level, PayloadWriter};
pub use crate::payload::{
    InnerEvents, PayloadError, PayloadLimits, PayloadOpener, PayloadStream, PayloadSummary, SizeClaim,
    inner_size, put_inner,
};
pub use crate::raw::{CHECKSUM_SIZE, Checksum, RawEvent, RawEventBuf};
pub use crate::row::{Field, FieldIter, Image, ImageDecoder, Row, RowDecoder, RowIter};
pub use crate::table::{KeyPart, Table, UnknownField};
pub use crate::tables::Tables;
pub use crate::temporal::{Date, DateTime, Time, Timestamp};
pub use crate::transaction::{
    AssembleError, Assembler, Candidate, ClockShift, Fault, Grammar, Lost, Outline, Place, Refusal,
    ResizeError, Role, Step, TrackError, TrackFault, Tracked, Tracker, Transaction, TransactionId,
    TransactionKind, Verb, put_gtid_renumbered, put_gtid_resized,
};
pub use crate::value::{Bit, Bytes, Compressed, Geometry, Text, Value, Vector};
pub use crate::write::{NextPosition, move_event};
