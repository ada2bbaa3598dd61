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
    #[error("unexpected packet: expected {expected}, got {}", first_byte(*.found))]
    Unexpected {
        /// First byte of the packet; `None` if it is empty.
        found: Option<u8>,
        /// Description of the packets allowed.
        expected: &'static str,
    },
    /// The packet's sequence number is not the next one.
    #[error(
        "packet out of order: expected {expected}, got {found} (bytes were lost, or this is not MySQL's protocol)"
    )]
    Sequence {
        /// Number found.
        found: u8,
        /// Number expected.
        expected: u8,
    },
    /// A packet, all its pieces joined, exceeds the limit.
    #[error("packet of at least {found} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Total size of the pieces so far.
        found: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// A compressed packet cannot be decompressed, or its content does not have the stated size.
    #[error("cannot decompress a packet of {size} bytes: {reason}")]
    Compressed {
        /// Compressed size in bytes.
        size: usize,
        /// Reason.
        reason: &'static str,
    },
    /// The server is older than MySQL 4.1, or lacks the same capabilities.
    #[error(
        "server version {version} is not supported: it lacks capabilities that all servers since MySQL 5.5 have"
    )]
    TooOld {
        /// Version of the server.
        version: String,
    },
    /// TLS is required, but the server does not offer it.
    #[error("the server does not offer TLS, or a man in the middle has removed the offer")]
    NoTls,
    /// Server and client have no compression in common.
    #[error("no requested compression is enabled on the server: see its protocol_compression_algorithms")]
    NoCompression,
    /// The account's authentication plugin is not supported.
    #[error(
        "unsupported authentication plugin {name}: the account must use one of \
         caching_sha2_password, sha256_password, mysql_native_password, mysql_clear_password and MariaDB's ed25519"
    )]
    UnknownPlugin {
        /// Name of the plugin.
        name: String,
    },
    /// The server requests the password itself over an insecure connection.
    #[error("{plugin} needs the cleartext password: use TLS, or the server's public key")]
    NeedsTls {
        /// Name of the plugin.
        plugin: &'static str,
    },
    /// The server requests the password as cleartext, which is not allowed.
    #[error("the server requests the password as cleartext: use TLS, and allow cleartext passwords")]
    CleartextNotAllowed,
    /// The server requests the password as cleartext, which is allowed over TLS only.
    #[error("the server requests the password as cleartext, and the connection is not encrypted: use TLS")]
    CleartextWithoutTls,
    /// A text exceeds the maximum size of its field.
    #[error("{field} has {found} bytes, must have at most {max}")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Size of the text in bytes.
        found: usize,
        /// Maximum size in bytes.
        max: usize,
    },
    /// A source's answer is invalid.
    #[error("the source's {variable} is {found}, expected {expected}")]
    UnexpectedAnswer {
        /// Name of the variable.
        variable: &'static str,
        /// Answer of the source.
        found: String,
        /// Description of the valid answers.
        expected: &'static str,
    },
    /// Source and replica have the same identifier.
    #[error("source and replica have the same {what}, {value}: use another one for this replica")]
    DuplicateIdentity {
        /// Name of the variable.
        what: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// The server does not support this kind of start.
    #[error("unsupported start for a {flavour} source: use {expected}")]
    UnsupportedStart {
        /// Server family.
        flavour: &'static str,
        /// Alternative supported by the server.
        expected: &'static str,
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
        "{file}, position {position}: the event ends at {found}, expected {expected}: \
             events are missing or repeated"
    )]
    Gap {
        /// File of the source.
        file: String,
        /// End position of the previous event.
        position: u64,
        /// End position of the event if nothing is missing.
        expected: u64,
        /// End position stated by the event.
        found: u64,
    },
    /// A heartbeat is not at the current position.
    #[error(
        "a heartbeat names {file}, position {position}; expected {expected_file}, position {expected_position}: the source \
         has skipped events, or its log is a different one"
    )]
    Heartbeat {
        /// File named by the heartbeat.
        file: String,
        /// Position named by the heartbeat.
        position: u64,
        /// Current file.
        expected_file: String,
        /// Current position.
        expected_position: u64,
    },
    /// A server's private key cannot be used.
    #[error("cannot use the private key: {reason}")]
    PrivateKey {
        /// Reason.
        reason: String,
    },
    /// A text is not the hash of a password.
    #[error(
        "invalid password hash: expected '*' and 40 hexadecimal digits (mysql_native_password), or '$A$005$' and 63 \
         characters (caching_sha2_password); each may be a hexadecimal literal 0x…"
    )]
    PasswordHash,
    /// The server's public key cannot be used.
    #[error("cannot encrypt the password with the server's public key: {reason}")]
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

/// Use of a password by a client, which a refusal states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordUse {
    /// The client sent no password.
    No,
    /// The client sent a password.
    Yes,
}

/// Errors of a server, with the numbers and texts of MySQL (`share/messages_to_clients.txt`).
impl ServerError {
    /// Creates an error with number, SQL state and message.
    pub fn new(code: u16, state: &str, message: impl Into<String>) -> Self {
        Self { code, state: state.to_owned(), message: message.into() }
    }

    /// `ER_CON_COUNT_ERROR`: no more connections are possible.
    pub fn too_many_connections() -> Self {
        Self::new(1040, "08004", "Too many connections")
    }

    /// `ER_HANDSHAKE_ERROR`: a packet of the handshake is invalid.
    pub fn bad_handshake() -> Self {
        Self::new(1043, "08S01", "Bad handshake")
    }

    /// `ER_ACCESS_DENIED_ERROR`: the login failed. Servers cut the name after 48 characters, the host after 64.
    pub fn access_denied(user: &[u8], host: &str, password_use: PasswordUse) -> Self {
        let user: String = String::from_utf8_lossy(user).chars().take(48).collect();
        let host: String = host.chars().take(64).collect();
        let used = match password_use {
            PasswordUse::No => "NO",
            PasswordUse::Yes => "YES",
        };
        Self::new(1045, "28000", format!("Access denied for user '{user}'@'{host}' (using password: {used})"))
    }

    /// `ER_UNKNOWN_COM_ERROR`: the command is not supported.
    pub fn unknown_command() -> Self {
        Self::new(1047, "08S01", "Unknown command")
    }

    /// `ER_UNKNOWN_STMT_HANDLER`: there is no prepared statement with this number.
    pub fn unknown_statement(statement: u32, command: &str) -> Self {
        let message = format!("Unknown prepared statement handler ({statement}) given to {command}");
        Self::new(1243, "HY000", message)
    }

    /// `ER_NOT_SUPPORTED_AUTH_MODE`: the client does not know the account's plugin.
    pub fn unsupported_authentication() -> Self {
        let message = "Client does not support authentication protocol requested by server; \
                       consider upgrading MySQL client";
        Self::new(1251, "08004", message)
    }

    /// `ER_MALFORMED_PACKET`: the body of a command is invalid.
    pub fn malformed_packet() -> Self {
        Self::new(1835, "HY000", "Malformed communication packet.")
    }

    /// `ER_QUERY_INTERRUPTED`: `KILL` ended the statement.
    pub fn query_interrupted() -> Self {
        Self::new(1317, "70100", "Query execution was interrupted")
    }

    /// Returns the error that servers send for invalid bytes of a client.
    pub fn from_wire(error: &WireError) -> Self {
        match error {
            WireError::Refused(error) => error.clone(),
            WireError::TooLarge { .. } => {
                Self::new(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            }
            WireError::Sequence { .. } => Self::new(1156, "08S01", "Got packets out of order"),
            WireError::Compressed { .. } => {
                Self::new(1157, "08S01", "Couldn't uncompress communication packet")
            }
            _ => Self::malformed_packet(),
        }
    }
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
    pub(crate) fn unexpected(payload: &[u8], expected: &'static str) -> Self {
        Self::Unexpected { found: payload.first().copied(), expected }
    }
}

fn first_byte(found: Option<u8>) -> String {
    found.map_or_else(|| "an empty one".to_owned(), |byte| format!("one that starts with 0x{byte:02x}"))
}
