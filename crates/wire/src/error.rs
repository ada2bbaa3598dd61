//! What can go wrong between two ends of a connection.

use binlog::DecodeError;

/// What can go wrong between two ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side refuses.
    #[error(transparent)]
    Refused(#[from] ServerError),
    /// A packet is not what the protocol says it must be.
    #[error("{packet}: {error}")]
    Packet {
        /// Which packet.
        packet: &'static str,
        /// Where in its payload, what was found, and what was wanted.
        error: DecodeError,
    },
    /// A packet is none of those that may come now.
    #[error("a packet that starts with {} came where {wanted} was wanted", first_byte(*.found))]
    Unexpected {
        /// Its first byte; `None` when it is empty.
        found: Option<u8>,
        /// What was wanted.
        wanted: &'static str,
    },
    /// Packets are numbered, and this is not the next one.
    #[error(
        "packet number {found} came where number {wanted} was due: bytes are lost, or these are no packets"
    )]
    Sequence {
        /// The number it has.
        found: u8,
        /// The number it should have.
        wanted: u8,
    },
    /// A packet, all its pieces joined, is larger than this side takes.
    #[error(
        "a packet of at least {found} bytes came, and at most {limit} are taken: raise the limit of packets"
    )]
    TooLarge {
        /// The size of all pieces so far.
        found: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// A compressed packet does not open to what it says it holds.
    #[error("a compressed packet of {size} bytes cannot be opened: {reason}")]
    Compressed {
        /// Its size, compressed.
        size: usize,
        /// Why.
        reason: &'static str,
    },
    /// The server is older than MySQL 4.1, or behaves so.
    #[error("the server ({version}) lacks what every server since MySQL 5.5 can do in a handshake")]
    TooOld {
        /// What it says it is.
        version: String,
    },
    /// TLS is required.
    #[error("the server does not offer TLS, or a man in the middle has removed its offer")]
    NoTls,
    /// No way to compress is left.
    #[error(
        "the server compresses in none of the ways that were asked for: see its protocol_compression_algorithms"
    )]
    NoCompression,
    /// The account's password is proved in a way that is not known here.
    #[error(
        "the account's password is proved by {name}, which is not known here: \
         caching_sha2_password, sha256_password, mysql_native_password, mysql_clear_password and MariaDB's ed25519 are"
    )]
    UnknownPlugin {
        /// The name of that way.
        name: String,
    },
    /// The server wants the password itself, and others could read it.
    #[error("{plugin} sends the password itself: use TLS, or name or ask for the server's public key")]
    NeedsTls {
        /// The name of the way in which the password is proved.
        plugin: &'static str,
    },
    /// The server wants the password itself, and that is not allowed.
    #[error("the server wants the password as clear text: that needs TLS, and has to be allowed")]
    Cleartext,
    /// A text is longer than its field can say.
    #[error("{field} is of {found} bytes, and there is room for {max}")]
    TooLong {
        /// The field's name.
        field: &'static str,
        /// How long it is.
        found: usize,
        /// The most there is room for.
        max: usize,
    },
    /// A source's answer makes no sense.
    #[error("the source's {question} is {found}, and not {wanted}")]
    Answer {
        /// What was asked for.
        question: &'static str,
        /// What it said.
        found: String,
        /// What it could have said.
        wanted: &'static str,
    },
    /// Two servers cannot be told apart.
    #[error("the source's {what} is {value}, which is this replica's: give this one another")]
    Same {
        /// What they have in common.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// A start that this kind of server does not know.
    #[error("the source is a {flavour}: its log starts at a file and position, or behind {wanted}")]
    Start {
        /// Whose server it is.
        flavour: &'static str,
        /// How GTIDs are given to it.
        wanted: &'static str,
    },
    /// An event is not what the format says it must be.
    #[error("{file}, position {position}: {error}")]
    Event {
        /// The source's file.
        file: String,
        /// Where the event starts in it.
        position: u64,
        /// Where in the event, what was found, and what was wanted.
        error: DecodeError,
    },
    /// Events are missing, or come twice.
    #[error(
        "{file}, position {position}: the event says that it ends at {found}, and it would at {wanted}: \
             the source has left something out"
    )]
    Gap {
        /// The source's file.
        file: String,
        /// Where the event before it ended.
        position: u64,
        /// Where the event ends if nothing is missing.
        wanted: u64,
        /// Where it says it ends.
        found: u64,
    },
    /// A sign of life from another place than the one reached.
    #[error(
        "a heartbeat from {file}, position {position}, came at {wanted_file}, position {wanted_position}: \
             the source has left something out, or its log is another one"
    )]
    Heartbeat {
        /// The file it names.
        file: String,
        /// The position it names.
        position: u64,
        /// The file that was reached.
        wanted_file: String,
        /// The position that was reached.
        wanted_position: u64,
    },
    /// The server's public key is of no use.
    #[error("the password cannot be encrypted by the server's public key: {reason}")]
    ServerKey {
        /// Why.
        reason: String,
    },
}

/// What a server says when it refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (error {code}, SQL state {state})")]
pub struct ServerError {
    /// MySQL's error number.
    pub code: u16,
    /// The SQL state, five letters or digits; `HY000` when the server names none.
    pub state: String,
    /// What the server says, in its own words.
    pub message: String,
}

impl WireError {
    /// The server's error number, if the server refused.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(error) => Some(error.code),
            _ => None,
        }
    }

    /// What makes an error of a field into one of its packet.
    pub(crate) fn packet(packet: &'static str) -> impl Fn(DecodeError) -> Self {
        move |error| Self::Packet { packet, error }
    }

    /// `payload` is none of those that may come now.
    pub(crate) fn unexpected(payload: &[u8], wanted: &'static str) -> Self {
        Self::Unexpected { found: payload.first().copied(), wanted }
    }
}

fn first_byte(found: Option<u8>) -> String {
    found.map_or_else(|| "nothing".to_owned(), |byte| format!("0x{byte:02x}"))
}
