//! Errors between a client and a server.

/// Errors between a client and a server.
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
    /// The connection is gone, or could not be made. Whether the last statement was run is unknown.
    #[error("no connection to the server{}: {reason}", place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default())]
    Lost {
        /// Its host and port, or its socket, where that is known.
        place: Option<String>,
        /// What happened.
        reason: String,
    },
    /// The server sends nothing for longer than its address allows.
    #[error("the server has sent nothing for {seconds} seconds; the connection is closed")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The user has cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// A packet of the server breaks the protocol.
    #[error(transparent)]
    Protocol(wire::WireError),
    /// The server needs the password itself, and the connection is not encrypted.
    #[error(
        "{plugin} sends the password itself, because the server has not cached it, and the connection is not encrypted: \
         set --ssl-mode=REQUIRED; if the server has no TLS, --get-server-public-key requests the RSA public key that \
         encrypts the password, and --server-public-key-path FILE names a copy of that key"
    )]
    PasswordInTheOpen {
        /// The name of the authentication plugin.
        plugin: &'static str,
    },
    /// The file or the command of the password gives none.
    #[error("{0}")]
    Password(String),
    /// The public key that is to encrypt the password cannot be used.
    #[error("could not use the public key in {path}: {reason}")]
    PublicKey {
        /// Its file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The account has an authentication plugin that bintide does not support.
    #[error(
        "the server requests the authentication plugin {plugin}, which bintide does not support: check the user name (for \
         an unknown user, a server may request any plugin), or change the account to caching_sha2_password"
    )]
    Plugin {
        /// The plugin's name.
        plugin: String,
    },
    /// Certificates are to be verified, and no authority is trusted.
    #[error(
        "a CA certificate is required if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: set --ssl-ca to the certificate of the \
         authority that signed the server's certificate"
    )]
    NoAuthority,
    /// Revocation lists are given, and no certificate is to be verified.
    #[error(
        "ssl-crl and ssl-crlpath have an effect only if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: set --ssl-ca"
    )]
    IdleRevocations,
    /// TLS is required, and the server does not offer it.
    #[error(
        "TLS: the server does not offer TLS, and ssl-mode is {mode}: TLS is off on the server (check its tls_version and \
         ssl_cert), or a man in the middle has removed the offer"
    )]
    TlsNotOffered {
        /// The name of the mode.
        mode: &'static str,
    },
    /// The server accepts encrypted connections only.
    #[error(
        "TLS: the server accepts encrypted connections only (require_secure_transport): set --ssl-mode=REQUIRED"
    )]
    TlsNeeded,
    /// TLS could not be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server's answer is none that the question allows.
    #[error("the server's answer to {question} is {found}, and not {wanted}")]
    Answer {
        /// What was asked.
        question: &'static str,
        /// What came.
        found: String,
        /// What should have come.
        wanted: &'static str,
    },
    /// A statement is prepared that has other parameters than there are values, or a result set.
    #[error("the statement has {parameters} parameters and {columns} columns; expected {values} and 0")]
    StatementShape {
        /// Its parameters.
        parameters: u16,
        /// The columns of its result.
        columns: u16,
        /// The values for its parameters.
        values: usize,
    },
    /// The server is too old for what is to be done with it.
    #[error("the server is MySQL {found}; this needs MySQL {wanted} or newer")]
    TooOld {
        /// The server's version.
        found: String,
        /// The oldest version that will do.
        wanted: String,
    },
    /// The server asks for a file of this machine that no statement is to load.
    #[error(
        "the server requests the local file {name:?}, which no LOAD DATA of this run names; it is not sent"
    )]
    FileRequest {
        /// The file's name.
        name: String,
    },
}

impl Error {
    /// Returns the server's error number, if the server refused.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Creates an error of a connection that is lost for this reason.
    pub fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { place: None, reason: reason.into() }
    }

    /// Adds the place of the server to an error of a lost connection.
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
