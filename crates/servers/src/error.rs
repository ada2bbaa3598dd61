//! What can go wrong between us and a server.

use std::io::ErrorKind;

use crate::address::Address;
use crate::tls_policy::{SslMode, TlsPolicy};

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
    /// The password would have to be sent so that others could read it.
    #[error(
        "{plugin} proves the account's password by sending it, as the server does not remember having let it in (a wrong \
         one it never does), and others could read it: ?tls=required in the server's address encrypts the connection, and \
         ?tls-ca=FILE verifies its certificate too; without TLS, --get-server-public-key has the server send the key that \
         the password is encrypted by, and --server-public-key-path FILE has that key"
    )]
    PasswordInTheOpen {
        /// The name of the way in which it is proved.
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
    /// The statement holds bytes that this connection cannot carry.
    #[error("the statement is not UTF-8 and cannot be prepared: {0}")]
    NotText(String),
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

/// The one way of proving a password for which the SQL client needs a key.
const CACHING_SHA2: &str = "caching_sha2_password";

/// A file that it needs is not there.
fn is_not_found(error: &mysql::Error) -> bool {
    matches!(error, mysql::Error::IoError(error) if error.kind() == ErrorKind::NotFound)
}

/// The server takes encrypted connections only.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;

impl Error {
    /// Why a connection could not be opened, with what to do about it as far as it is about encryption.
    pub(crate) fn of_opening(error: mysql::Error, address: &Address) -> Self {
        if let mysql::Error::DriverError(mysql::DriverError::TlsNotSupported) = error {
            return Self::Tls("the server offers no encryption, and the address wants it: ?tls=off".into());
        }
        if address.keeps_password_back() && is_not_found(&error) {
            return Self::PasswordInTheOpen { plugin: CACHING_SHA2 };
        }
        let is_of_tls = matches!(error, mysql::Error::TlsError(_));
        match (Self::from(error).at(&address.place()), address.tls.mode) {
            (Self::Refused { code: SECURE_TRANSPORT_REQUIRED, .. }, SslMode::Disabled | SslMode::Preferred) => Self::Tls(
                "the server takes encrypted connections only: ?tls=required in its address, or ?tls-ca=FILE to verify \
                 its certificate too"
                    .into(),
            ),
            (Self::Lost { place, reason }, mode) if mode.verifies() => {
                match of_certificate(&reason, address) {
                    Some(why) => Self::Tls(why),
                    None if is_of_tls => Self::Tls(format!("{}: {reason}", authorities(&address.tls))),
                    None => Self::Lost { place, reason },
                }
            }
            (error, _) => error,
        }
    }
}

impl Error {
    /// Why encryption could not be begun.
    pub(crate) fn of_tls(message: String, address: &Address) -> Self {
        Self::Tls(of_certificate(&message, address).unwrap_or(message))
    }
}

/// What is wrong with a certificate, if that is what the message is about.
fn of_certificate(message: &str, address: &Address) -> Option<String> {
    let (_, why) = message.split_once("invalid peer certificate: ")?;
    Some(of_certificate_text(why, address))
}

/// Returns the names of the file and the folder of trusted authorities.
fn authorities(policy: &TlsPolicy) -> String {
    let paths: Vec<String> = policy.authority_paths().map(|path| path.display().to_string()).collect();
    paths.join(" and ")
}

/// What is wrong with a certificate, in words for whoever has to mend it.
fn of_certificate_text(why: &str, address: &Address) -> String {
    let authorities = authorities(&address.tls);
    if why.contains("UnknownIssuer") || why.contains("BadSignature") {
        return format!("the server's certificate is signed, but not by an authority of {authorities}");
    }
    if why.contains("expired") {
        return format!("the server's certificate has expired: {why}");
    }
    if why.contains("not valid for name") {
        let host = &address.host;
        return format!("the server's certificate is not for {host}, the host of its address: {why}");
    }
    format!("the server's certificate is refused, with the authorities of {authorities}: {why}")
}

impl From<mysql::Error> for Error {
    fn from(error: mysql::Error) -> Self {
        match error {
            mysql::Error::MySqlError(error) => Self::Refused { code: error.code, message: error.message },
            // Where to is said besides.
            mysql::Error::DriverError(mysql::DriverError::CouldNotConnect(Some((_, reason, _)))) => {
                Self::lost(reason)
            }
            mysql::Error::DriverError(mysql::DriverError::UnknownAuthPlugin(plugin)) => {
                Self::Plugin { plugin }
            }
            mysql::Error::DriverError(error) => Self::lost(error.to_string()),
            mysql::Error::IoError(error) => Self::lost(error.to_string()),
            mysql::Error::CodecError(error) => Self::lost(error.to_string()),
            other => Self::lost(other.to_string()),
        }
    }
}

impl From<wire::WireError> for Error {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Refused(error) => Self::Refused { code: error.code, message: error.message },
            wire::WireError::NeedsTls { plugin } => Self::PasswordInTheOpen { plugin },
            error => Self::Protocol(error),
        }
    }
}
