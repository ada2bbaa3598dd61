//! MySQL's client/server protocol for replication and SQL clients: bytes in, bytes out.
//!
//! The caller owns the socket: it passes in received bytes and sends the output. Nothing in this crate blocks. Each
//! packet can be decoded and encoded, so that clients and servers share the same code.
//!
//! | part | content |
//! |---|---|
//! | [`PacketCodec`] | packets from and to the bytes of one connection: numbering, joining, compression |
//! | [`ClientHandshake`] | client side of the handshake: capabilities, TLS, authentication |
//! | [`ServerHandshake`] | server side of the handshake |
//! | [`StoredPassword`], [`PasswordDigest`], [`PasswordKey`] | passwords on the server side |
//! | [`ServerGreeting`], [`SslRequest`], [`LoginRequest`], [`AuthSwitchRequest`], [`AuthMoreData`] | handshake packets |
//! | [`ClientCommand`] | commands of a client: queries, prepared statements, log dumps |
//! | [`ReplicaConversation`] | a replica's queries before the log, and the packets of the log |
//! | [`EventPacket`], [`SemiSyncAck`] | events, and acknowledgements in semi-synchronous replication |
//! | [`StreamReader`] | positions of events in the source's files; artificial events |
//! | [`Capabilities`] | capability flags of both sides |
//! | [`OkPacket`], [`ErrPacket`], [`EofPacket`] | generic responses |
//! | [`ResponseWriter`] | responses of a server |
//! | [`PartedPacket`] | a packet too large for memory |
//! | [`ResultReader`], [`ResultWriter`] | result sets: columns, rows, end |
//! | [`PrepareReader`], [`StatementExecution`] | prepared statements: response to preparing one, running it with values |
//! | [`ServerStatement`] | prepared statements on the server side |
//! | [`column_type`] | type codes of columns |
//!
//! All sizes are in bytes. Errors reported by a server are a [`ServerError`]; all other errors describe invalid bytes
//! and their offset.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and spawns no thread. It never allocates by a size
//! that the other side claims, and never panics on any input.
#![forbid(unsafe_code)]

mod capability;
mod client_command;
pub mod column_type;
mod compressed_frames;
mod date_time;
mod error;
mod event_packet;
mod generic_packets;
mod handshake;
mod packet_codec;
mod prepared_statement;
mod receive_buffer;
mod replica_conversation;
mod response_writer;
mod result_set;
mod result_value;
mod session_change;
mod statement_execution;
mod stream_reader;

pub use crate::capability::Capabilities;
pub use crate::client_command::{BinlogDump, BinlogDumpGtid, ClientCommand, DumpFlags, RegisterReplica};
pub use crate::compressed_frames::PacketCompression;
pub use crate::date_time::{DateTimeValue, TimeValue};
pub use crate::error::{PasswordUse, ServerError, WireError};
pub use crate::event_packet::{AckRequest, EventPacket, SemiSync, SemiSyncAck};
pub use crate::generic_packets::{CommandResponse, EofPacket, ErrPacket, OkPacket, ServerStatus};
pub use crate::handshake::{
    AuthMoreData, AuthSwitchRequest, AuthenticatedLogin, CleartextPolicy, ClientHandshake, ClientOptions,
    ClientSession, ConnectionAttributes, HandshakeOptions, HandshakeStep, LoginDetails, LoginRefusal,
    LoginRequest, PasswordDigest, PasswordKey, PasswordPlugin, ServerGreeting, ServerHandshake,
    ServerKeySource, ServerSession, ServerStep, SslRequest, StoredPassword, TlsMode, Transport,
};
pub use crate::packet_codec::{PACKET_LIMIT_MIN, PIECE_SIZE_MAX, PacketCodec, PartedPacket};
pub use crate::prepared_statement::{PrepareReader, PreparedStatement};
pub use crate::replica_conversation::{
    ReplicaConversation, ReplicaEnd, ReplicaOptions, ReplicaStart, ReplicaStep, SourceFacts,
};
pub use crate::response_writer::ResponseWriter;
pub use crate::result_set::{
    ColumnDefinition, PausedResult, ResultPart, ResultReader, ResultWriter, TextRow,
};
pub use crate::result_value::{ResultValue, RowEncoding};
pub use crate::session_change::SessionChange;
pub use crate::statement_execution::{ParameterValue, ServerStatement, StatementExecution};
pub use crate::stream_reader::{FormatOrigin, PositionGaps, SourceEvent, StreamReader};
