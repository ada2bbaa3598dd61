//! Errors of connections to a server.

/// Error of a connection to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server refuses a statement.
    #[error("{message} (error {code})")]
    Refused {
        /// Error number of MySQL.
        code: u16,
        /// Error message of the server.
        message: String,
    },
    /// The connection is lost, or could not be opened. The server may have run the last statement.
    #[error("the connection to the server{} failed: {reason}", endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default())]
    Lost {
        /// Host and port or socket of the server, if known.
        endpoint: Option<String>,
        /// Cause.
        reason: String,
    },
    /// The server was silent for longer than its address allows.
    #[error("the server has sent nothing for {seconds} seconds; the connection is closed")]
    Silent {
        /// Duration of the silence.
        seconds: u64,
    },
    /// The user has cancelled the wait.
    #[error("cancelled")]
    Cancelled,
    /// A packet of the server violates the protocol.
    #[error(transparent)]
    Protocol(wire::WireError),
    /// The server needs the cleartext password, and the connection is not encrypted.
    #[error(
        "{plugin} needs the cleartext password, because the server has not cached it, and the connection is not encrypted: \
         set --ssl-mode=REQUIRED; if the server has no TLS, --get-server-public-key requests the RSA public key that \
         encrypts the password, and --server-public-key-path FILE names a copy of that key"
    )]
    PlaintextPassword {
        /// Name of the authentication plugin.
        plugin: &'static str,
    },
    /// The server requests the cleartext password, which the address does not allow.
    #[error(
        "the server requests the password as cleartext (mysql_clear_password, as for IAM and LDAP), which is not allowed: \
         set --enable-cleartext-plugin, and --ssl-mode=VERIFY_IDENTITY with --ssl-ca, so that only this server reads it"
    )]
    CleartextNotAllowed,
    /// The server requests the cleartext password, and the connection is not encrypted.
    #[error(
        "the server requests the password as cleartext (mysql_clear_password), and the connection is not encrypted: \
         everyone on the network could read the password, so it is not sent. Set --ssl-mode=REQUIRED; if the server has \
         no TLS, turn TLS on there, or use an account with another plugin, such as caching_sha2_password"
    )]
    CleartextWithoutTls,
    /// The password's file or command gives no password.
    #[error("{0}")]
    Password(String),
    /// The public key for encrypting the password cannot be used.
    #[error("could not use the public key in {path}: {reason}")]
    PublicKey {
        /// Path of the key's file.
        path: String,
        /// Cause.
        reason: String,
    },
    /// The account has an authentication plugin that bintide does not support.
    #[error(
        "the server requests the authentication plugin {plugin}, which bintide does not support: check the user name (for \
         an unknown user, a server may request any plugin), or change the account to caching_sha2_password"
    )]
    UnsupportedPlugin {
        /// Name of the plugin.
        plugin: String,
    },
    /// The policy verifies certificates, but trusts no authority.
    #[error(
        "a CA certificate is required if ssl-mode is VERIFY_CA or VERIFY_IDENTITY, or if ssl-crl or ssl-crlpath is set: \
         set --ssl-ca to the certificate of the authority that signed the server's certificate"
    )]
    CaRequired,
    /// Revocation lists are given, but the policy verifies no certificate.
    #[error(
        "ssl-crl and ssl-crlpath have an effect only if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: set --ssl-ca"
    )]
    UnusedRevocationLists,
    /// TLS is required, but the server does not offer it.
    #[error(
        "TLS: the server does not offer TLS, and ssl-mode is {mode}: TLS is off on the server (check its tls_version and \
         ssl_cert), or a man in the middle has removed the offer"
    )]
    TlsNotOffered {
        /// Name of the required mode.
        mode: &'static str,
    },
    /// The server accepts encrypted connections only.
    #[error(
        "TLS: the server accepts encrypted connections only (require_secure_transport): set --ssl-mode=REQUIRED"
    )]
    TlsRequiredByServer,
    /// TLS could not be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server's answer to a query is invalid.
    #[error("the server's answer to {query} is {found}; expected {expected}")]
    UnexpectedAnswer {
        /// Query, or the variable that it reads.
        query: &'static str,
        /// Answer.
        found: String,
        /// Description of a valid answer.
        expected: &'static str,
    },
    /// A prepared statement has another number of parameters than there are values, or a result set.
    #[error("the statement has {parameters} parameters and {columns} columns; expected {values} and 0")]
    StatementShape {
        /// Number of the statement's parameters.
        parameters: u16,
        /// Number of columns in the statement's result.
        columns: u16,
        /// Number of given values.
        values: usize,
    },
    /// The server is too old for the command.
    #[error("the server is MySQL {found}; expected MySQL {expected} or later")]
    TooOld {
        /// Version of the server.
        found: String,
        /// Oldest supported version.
        expected: String,
    },
    /// The server requests a local file that no statement loads.
    #[error(
        "the server requests the local file {name:?}, which no LOAD DATA of this run names; it is not sent"
    )]
    FileRequest {
        /// Name of the file.
        name: String,
    },
}

/// Transient errors of a server: too many connections (1040, 1203), shutdown (1053), interrupted connection (1158 to 1161),
/// killed connection (1317, 1927, 3169), server not ready yet or going offline (1077, 3032, 3100, 3168).
const TRANSIENT_CODES: [u16; 14] =
    [1040, 1053, 1077, 1158, 1159, 1160, 1161, 1203, 1317, 1927, 3032, 3100, 3168, 3169];

impl ConnectionError {
    /// Returns whether the error is transient: another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            // A password command may fail for a while.
            Self::Lost { .. } | Self::Silent { .. } | Self::Password(_) => true,
            Self::Refused { code, .. } => TRANSIENT_CODES.contains(code),
            _ => false,
        }
    }

    /// Returns the server's error number, if the server refused.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Creates the error of a connection that is lost for this reason.
    pub fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { endpoint: None, reason: reason.into() }
    }

    /// Adds the server's host and port or socket to an error of a lost connection.
    pub(crate) fn with_endpoint(self, server: &str) -> Self {
        match self {
            Self::Lost { endpoint: None, reason } => Self::Lost { endpoint: Some(server.to_owned()), reason },
            error => error,
        }
    }
}

impl From<wire::WireError> for ConnectionError {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Refused(error) => Self::Refused { code: error.code, message: error.message },
            wire::WireError::UnknownPlugin { name } => Self::UnsupportedPlugin { plugin: name },
            wire::WireError::CleartextNotAllowed => Self::CleartextNotAllowed,
            wire::WireError::CleartextWithoutTls => Self::CleartextWithoutTls,
            wire::WireError::NeedsTls { plugin } => Self::PlaintextPassword { plugin },
            error => Self::Protocol(error),
        }
    }
}
