//! Errors of connections.

use binlog::DecodeError;

/// Error of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side refuses.
    #[error(transparent)]
    Refused(#[from] ServerError),
    /// A packet is invalid.
    #[error("{packet}: {error}")]
    Packet {
        /// Name of the packet.
        packet: &'static str,
        /// Error in the packet's payload.
        error: DecodeError,
    },
    /// The packet is not allowed at this point.
    #[error("a packet that starts with {} came where {wanted} was wanted", first_byte(*.found))]
    Unexpected {
        /// First byte of the packet; `None` if it is empty.
        found: Option<u8>,
        /// Description of the packets allowed.
        wanted: &'static str,
    },
    /// The packet's sequence number is not the next one.
    #[error(
        "packet number {found} came where number {wanted} was due: bytes are lost, or these are no packets"
    )]
    Sequence {
        /// Number found.
        found: u8,
        /// Number expected.
        wanted: u8,
    },
    /// A packet, all its pieces joined, exceeds the limit.
    #[error(
        "a packet of at least {found} bytes came, and at most {limit} are taken: raise the limit of packets"
    )]
    TooLarge {
        /// Total size of the pieces so far.
        found: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// A compressed packet cannot be decompressed, or not to its stated size.
    #[error("a compressed packet of {size} bytes cannot be opened: {reason}")]
    Compressed {
        /// Compressed size in bytes.
        size: usize,
        /// Reason.
        reason: &'static str,
    },
    /// The server is older than MySQL 4.1, or lacks the same capabilities.
    #[error("the server ({version}) lacks what every server since MySQL 5.5 can do in a handshake")]
    TooOld {
        /// Version of the server.
        version: String,
    },
    /// TLS is required, but the server does not offer it.
    #[error("the server does not offer TLS, or a man in the middle has removed its offer")]
    NoTls,
    /// Server and client have no compression in common.
    #[error(
        "the server compresses in none of the ways that were asked for: see its protocol_compression_algorithms"
    )]
    NoCompression,
    /// The account's authentication plugin is not supported.
    #[error(
        "the account's password is proved by {name}, which is not known here: \
         caching_sha2_password, sha256_password, mysql_native_password, mysql_clear_password and MariaDB's ed25519 are"
    )]
    UnknownPlugin {
        /// Name of the plugin.
        name: String,
    },
    /// The server wants the password itself over an insecure connection.
    #[error("{plugin} sends the password itself: use TLS, or name or ask for the server's public key")]
    NeedsTls {
        /// Name of the plugin.
        plugin: &'static str,
    },
    /// The server wants the password as clear text, which is not allowed.
    #[error("the server wants the password as clear text: that needs TLS, and has to be allowed")]
    Cleartext,
    /// A text exceeds the maximum size of its field.
    #[error("{field} is of {found} bytes, and there is room for {max}")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Size of the text in bytes.
        found: usize,
        /// Maximum size in bytes.
        max: usize,
    },
    /// A source's answer is invalid.
    #[error("the source's {question} is {found}, and not {wanted}")]
    Answer {
        /// Name of the variable.
        question: &'static str,
        /// Answer of the source.
        found: String,
        /// Description of the valid answers.
        wanted: &'static str,
    },
    /// Source and replica have the same identifier.
    #[error("the source's {what} is {value}, which is this replica's: give this one another")]
    Same {
        /// Name of the variable.
        what: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// The server does not support this kind of start.
    #[error("the source is a {flavour}: its log starts at a file and position, or behind {wanted}")]
    Start {
        /// Server family.
        flavour: &'static str,
        /// Alternative supported by the server.
        wanted: &'static str,
    },
    /// An event is invalid.
    #[error("{file}, position {position}: {error}")]
    Event {
        /// File of the source.
        file: String,
        /// Position of the event in the file.
        position: u64,
        /// Error in the event.
        error: DecodeError,
    },
    /// Events are missing or repeated.
    #[error(
        "{file}, position {position}: the event says that it ends at {found}, and it would at {wanted}: \
             the source has left something out"
    )]
    Gap {
        /// File of the source.
        file: String,
        /// End position of the previous event.
        position: u64,
        /// End position of the event if nothing is missing.
        wanted: u64,
        /// End position stated by the event.
        found: u64,
    },
    /// A heartbeat is not at the current position.
    #[error(
        "a heartbeat from {file}, position {position}, came at {wanted_file}, position {wanted_position}: \
             the source has left something out, or its log is another one"
    )]
    Heartbeat {
        /// File named by the heartbeat.
        file: String,
        /// Position named by the heartbeat.
        position: u64,
        /// Current file.
        wanted_file: String,
        /// Current position.
        wanted_position: u64,
    },
    /// The server's public key cannot be used.
    #[error("the password cannot be encrypted by the server's public key: {reason}")]
    ServerKey {
        /// Reason.
        reason: String,
    },
}

/// Error reported by a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (error {code}, SQL state {state})")]
pub struct ServerError {
    /// MySQL error number.
    pub code: u16,
    /// SQL state, five letters or digits; `HY000` if the server sends none.
    pub state: String,
    /// Message of the server.
    pub message: String,
}

impl WireError {
    /// Returns the server's error number, if a server refused.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(error) => Some(error.code),
            _ => None,
        }
    }

    /// Returns a function that adds the name of the packet to a decoding error.
    pub(crate) fn packet(packet: &'static str) -> impl Fn(DecodeError) -> Self {
        move |error| Self::Packet { packet, error }
    }

    /// Creates the error for a packet that is not allowed at this point.
    pub(crate) fn unexpected(payload: &[u8], wanted: &'static str) -> Self {
        Self::Unexpected { found: payload.first().copied(), wanted }
    }
}

fn first_byte(found: Option<u8>) -> String {
    found.map_or_else(|| "nothing".to_owned(), |byte| format!("0x{byte:02x}"))
}
