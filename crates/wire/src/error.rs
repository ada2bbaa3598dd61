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
