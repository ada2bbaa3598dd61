//! MySQL and MariaDB binary logs: bytes in, meaning out, and back.
//!
//! Every event of MySQL 5.5 to 9.7 and of MariaDB: framed, decoded, encoded. Rows with every column type, JSON
//! documents and their partial updates, GTID sets, transactions, compressed and encrypted logs.
//!
//! This crate does no I/O, reads no clock and spawns no thread. It takes slices and returns views of them, so that it
//! works with files, sockets and test data.
//!
//! # Quick start
//!
//! ```no_run
//! use bintide_binlog::{Event, FramerOutput, Framer, MAGIC, TableRegistry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = std::fs::read("binlog.000001")?;
//! let mut rest = log.strip_prefix(&MAGIC).ok_or("not a binary log")?;
//! let (mut framer, mut tables) = (Framer::new(), TableRegistry::new());
//! while let FramerOutput::Event(raw) = framer.next(rest)? {
//!     raw.verify()?; // Checksum, if there is one.
//!     let format = framer.format().ok_or("the first event must be a format description")?;
//!     match raw.decode(format)? {
//!         Event::Query(query) => println!("{}", String::from_utf8_lossy(query.sql)),
//!         Event::TableMap(map) => drop(tables.register(&map)?),
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
//!     return Err("the log is torn: it ends within an event".into());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The `examples` directory has programs that list events, count rows, follow GTIDs, decompress transactions, and
//! rewrite a log.
//!
//! # From bytes to values
//!
//! | step | from | to |
//! |---|---|---|
//! | [`Framer`] | the bytes of a log, in pieces of any size | [`RawEvent`]: header, body, checksum |
//! | [`RawEvent::decode`] | one raw event and the log's [`EventFormat`] | [`Event`]: a view with named fields |
//! | [`PayloadOpener`] | a compressed transaction | the events inside, one at a time |
//! | [`gtid::GtidSet`] | text or bytes | a set of transactions, with set operations |
//! | `encryption` | an encrypted log and a keyring | the decrypted log |
//! | [`TableRegistry`] | table maps and rows events | [`RowDecoder`]: rows, fields, [`Value`]s |
//! | [`TransactionTracker`] | events in order | start and end of each transaction, and its [`TransactionOutline`] |
//! | [`TransactionAssembler`] | events in order | whole [`Transaction`]s |
//! | [`Event::encode`] | an event | its original body, byte for byte |
//! | [`Event::write`] | an event and its [`EventOrigin`] | the whole event: header, body, checksum |
//! | [`RawEvent::rewrite`] | a raw event | the event with another header or position |
//!
//! # Borrowing and owning
//!
//! Events are views of the bytes they were decoded from; nothing is copied. To keep an event, keep its bytes:
//! [`RawEvent::to_buf`] copies one event, and a [`Transaction`] owns all of its events. Decoding them again is cheap.
//!
//! # Features
//!
//! | feature | without it | on by default |
//! |---|---|---|
//! | `zstd` | compressed transactions cannot be read (MySQL) | yes |
//! | `zlib` | compressed events and columns cannot be read (MariaDB) | yes |
//! | `ciphers` | encrypted logs cannot be read | yes |
//! | `charsets` | text of nine East Asian character sets is not converted | yes |
//! | `serde` | no `Serialize` for events, outlines and values | no |
//!
//! When serialized, names and statements are strings if they are UTF-8. Otherwise they are `{"base64": "…"}`, like
//! all other bytes. GTIDs, GTID sets and XIDs have the server's text form, and the session variables of a query are
//! decoded.
//!
//! # Guarantees
//!
//! - Unknown events, flags, session variables and metadata fields are kept, not dropped. Readers may skip unknown
//!   events only if [`EventFlags::IGNORABLE`] is set.
//! - Errors have an offset, and the found and expected values.
//! - Rust 1.88 or later. A release that needs a later Rust increments the minor version.
//!
//! This crate never allocates by a size that a header claims, never skips unknown bytes silently, and never panics on
//! any input.
#![forbid(unsafe_code)]

mod base64;
mod charset;
mod collation;
mod column;
mod column_type;
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
pub mod server_error;
mod server_version;
pub mod sql_mode;
mod table;
mod table_registry;
mod temporal;
mod transaction;
mod value;
mod write;

pub use crate::base64::{BASE64_LINE_BYTES, put_base64, put_base64_lines};
pub use crate::charset::Charset;
pub use crate::collation::Collation;
pub use crate::column::{Column, GeometryType};
pub use crate::column_type::{ColumnType, ValueSize};
pub use crate::cursor::{Cursor, put_lenenc};
pub use crate::decimal::{Decimal, DigitGroup};
pub use crate::error::{DecodeError, DecodeReason, EncodeError};
pub use crate::event::{Event, EventType};
pub use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
pub use crate::framer::{EVENT_SIZE_MAX, Framer, FramerOutput, MAGIC, MAGIC_ENCRYPTED};
pub use crate::header::{EventFlags, EventHeader, EventOrigin, HEADER_SIZE};
pub use crate::json::{
    JsonChange, JsonChangeKind, JsonChanges, JsonContainer, JsonDocument, JsonHexDigits, JsonPathLeg,
    JsonQuotes, JsonValue, put_json_escaped, put_json_string,
};
#[cfg(feature = "zstd")]
pub use crate::payload::{CompressError, PayloadWriter, ZstdLevel};
pub use crate::payload::{
    InnerEvents, PayloadError, PayloadLimits, PayloadOpener, PayloadStream, PayloadSummary, SizeClaimPolicy,
    inner_size, put_inner,
};
pub use crate::raw::{CHECKSUM_SIZE, EventChecksum, RawEvent, RawEventBuf};
pub use crate::row::{FieldIter, ImageDecoder, RowChange, RowDecoder, RowField, RowImage, RowIter};
pub use crate::server_version::ServerVersion;
pub use crate::table::{KeyPart, Table, UnknownField};
pub use crate::table_registry::TableRegistry;
pub use crate::temporal::{Date, DateTime, Time, Timestamp};
pub use crate::transaction::{
    AssembleError, ClockShift, CompressionCheck, CompressionRefusal, EventPlace, EventRole, GrammarFault,
    GrammarLoss, GrammarStep, GtidMove, GtidRewriteError, TrackError, TrackFault, TrackedEvent, Transaction,
    TransactionAssembler, TransactionGrammar, TransactionId, TransactionKind, TransactionOutline,
    TransactionTracker, TransactionVerb, put_gtid_renumbered, put_gtid_resized,
};
pub use crate::value::{BitValue, BytesValue, CompressedValue, GeometryValue, TextValue, Value, VectorValue};
pub use crate::write::{NextPosition, move_event};
