//! MySQL's client/server protocol, as replication and SQL clients speak it: bytes in, bytes out.
//!
//! Whoever has a socket hands in what came and sends what stands ready; nothing here waits for anything. Each packet
//! is read and written, so that a client and a server are made of the same parts.
//!
//! | part | what it is |
//! |---|---|
//! | [`Packets`] | packets cut out of the bytes of one connection, and put into them; numbered, joined, compressed |
//! | [`ClientHandshake`] | a client's way in: capabilities, TLS, the proof of a password |
//! | [`Greeting`], [`SslRequest`], [`LoginRequest`], [`AuthSwitchRequest`], [`AuthMoreData`] | its packets |
//! | [`Command`] | what a client asks for: queries, and logs |
//! | [`ReplicaConversation`] | what a replica asks before the log flows, and the packets of the log |
//! | [`EventPacket`], [`SemiSyncAck`] | events, and what is answered to them in semi-synchronous replication |
//! | [`StreamReader`] | which events stand in the source's files, and which are made up for the wire |
//! | [`Capabilities`] | what both sides can do |
//! | [`OkPacket`], [`ErrPacket`], [`EofPacket`] | the three answers |
//! | [`ResultReader`], [`ResultWriter`] | results of queries as text: columns, rows, end |
//! | [`PrepareReader`], [`Execution`] | prepared statements: the answer to preparing one, and running it with values |
//!
//! All sizes are in bytes. What a server refuses is a [`ServerError`]; every other error says what is wrong with the
//! bytes, and where.
//!
//! What this crate never does: I/O of any kind, read a clock, draw a random number, spawn a thread, allocate by a size
//! that a peer claims, or panic on any input.
#![forbid(unsafe_code)]

mod answer;
mod buffer;
mod capability;
mod command;
mod compress;
mod error;
mod event_packet;
mod handshake;
mod packets;
mod replica;
mod result_set;
mod statement;
mod stream;

pub use crate::answer::{Answer, EofPacket, ErrPacket, OkPacket, Status};
pub use crate::capability::Capabilities;
pub use crate::command::{BinlogDump, BinlogDumpGtid, Command, DumpFlags, RegisterReplica};
pub use crate::compress::Compression;
pub use crate::error::{ServerError, WireError};
pub use crate::event_packet::{Acknowledge, EventPacket, SemiSync, SemiSyncAck};
pub use crate::handshake::{
    AuthMoreData, AuthSwitchRequest, Cleartext, ClientHandshake, ClientOptions, Greeting, LoginRequest, Next,
    ServerKey, Session, SslRequest, TlsWish, Transport,
};
pub use crate::packets::{PACKET_LIMIT_MIN, PIECE_SIZE_MAX, Packets};
pub use crate::replica::{End, ReplicaConversation, ReplicaOptions, SourceFacts, Start, Step};
pub use crate::result_set::{ColumnDefinition, Part, ResultReader, ResultWriter, TextRow};
pub use crate::statement::{Execution, ParameterValue, PrepareReader, PreparedStatement};
pub use crate::stream::{Arrival, Gaps, Origin, StreamReader};
