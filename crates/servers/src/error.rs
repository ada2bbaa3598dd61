//! What can go wrong between us and a server.

/// What can go wrong between us and a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refuses a statement.
    #[error("{message} (error {code})")]
    Refused {
        /// MySQL's error number.
        code: u16,
        /// What the server said.
        message: String,
    },
    /// The connection is gone, or could not be made: nobody knows whether the last statement was run.
    #[error("no connection to the server{}: {reason}", place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default())]
    Lost {
        /// Its host and port, or its socket, where that is known.
        place: Option<String>,
        /// What happened.
        reason: String,
    },
    /// The server sends nothing for longer than was agreed on.
    #[error("the server has sent nothing for {seconds} seconds: the connection is given up")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// Somebody has called it off.
    #[error("called off")]
    Cancelled,
    /// Server and client do not understand each other.
    #[error(transparent)]
    Protocol(wire::WireError),
    /// The server needs the password itself, and the connection is not encrypted.
    #[error(
        "{plugin} sends the account's password itself, as the server does not remember it, and the connection is not \
         encrypted: require TLS, if the server has it, by --ssl-mode=REQUIRED (?tls=required in the server's address); without, have the \
         server send the key that encrypts the password by --get-server-public-key, or name that key by \
         --server-public-key-path FILE"
    )]
    PasswordInTheOpen {
        /// The name of the authentication plugin.
        plugin: &'static str,
    },
    /// The key that the password is to be encrypted by is of no use.
    #[error("could not use the public key in {path}: {reason}")]
    PublicKey {
        /// Its file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The account's password is to be proved in a way that is not known here.
    #[error(
        "the server wants the account's password proved by {plugin}, which is not known here: it has no such account (then \
         it names any way), or one that is to be changed to caching_sha2_password"
    )]
    Plugin {
        /// The name of the way.
        plugin: String,
    },
    /// Certificates are to be verified, and no authority is trusted.
    #[error(
        "a CA certificate is required if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: name the authority that signed the \
         server's certificate"
    )]
    NoAuthority,
    /// Revocation lists are given, and no certificate is to be verified.
    #[error(
        "ssl-crl and ssl-crlpath have an effect only if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: set it, and ssl-ca"
    )]
    IdleRevocations,
    /// TLS is required, and the server does not offer it.
    #[error(
        "TLS: the server does not offer TLS, and ssl-mode is {mode}: its TLS is off, or a man in the middle has removed the \
         offer"
    )]
    TlsNotOffered {
        /// The name of the mode.
        mode: &'static str,
    },
    /// The server accepts encrypted connections only.
    #[error(
        "TLS: the server accepts encrypted connections only: set --ssl-mode to REQUIRED or more (?tls=required in the \
         server's address)"
    )]
    TlsNeeded,
    /// A certificate, or what it is to be checked with, is of no use.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server's answer is not what the question allows.
    #[error("the server's answer to {question} is {found}, and not {wanted}")]
    Answer {
        /// What was asked.
        question: &'static str,
        /// What came.
        found: String,
        /// What should have come.
        wanted: &'static str,
    },
    /// The server asks for a file of this machine that no statement is to load.
    #[error("the server asks for the file {name:?} of this machine, and is given none")]
    FileRequest {
        /// The file's name.
        name: String,
    },
}

impl Error {
    /// The server's error number, if the server refused.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// There is no connection, for this reason.
    pub fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { place: None, reason: reason.into() }
    }

    /// With the place of the server that there is no connection to.
    pub(crate) fn at(self, server: &str) -> Self {
        match self {
            Self::Lost { place: None, reason } => Self::Lost { place: Some(server.to_owned()), reason },
            error => error,
        }
    }
}

impl From<wire::WireError> for Error {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Refused(error) => Self::Refused { code: error.code, message: error.message },
            wire::WireError::UnknownPlugin { name } => Self::Plugin { plugin: name },
            wire::WireError::NeedsTls { plugin } => Self::PasswordInTheOpen { plugin },
            error => Self::Protocol(error),
        }
    }
}
