//! What can go wrong between us and a server.

use std::path::Path;

use crate::address::{Address, Tls};

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
    #[error("no connection to the server: {0}")]
    Lost(String),
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
}

/// The server takes encrypted connections only.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;

impl Error {
    /// Why a connection could not be opened, with what to do about it as far as it is about encryption.
    pub(crate) fn of_opening(error: mysql::Error, address: &Address) -> Self {
        if let mysql::Error::DriverError(mysql::DriverError::TlsNotSupported) = error {
            return Self::Tls("the server offers no encryption, and the address wants it: ?tls=off".into());
        }
        let is_of_tls = matches!(error, mysql::Error::TlsError(_));
        match (Self::from(error), &address.tls) {
            (Self::Refused { code: SECURE_TRANSPORT_REQUIRED, .. }, Tls::Off) => Self::Tls(
                "the server takes encrypted connections only: ?tls=required in its address, or ?tls-ca=FILE to verify \
                 its certificate too"
                    .into(),
            ),
            (Self::Lost(message), Tls::Verified(authorities)) => {
                match of_certificate(&message, address, authorities) {
                    Some(why) => Self::Tls(why),
                    None if is_of_tls => Self::Tls(format!("{}: {message}", authorities.display())),
                    None => Self::Lost(message),
                }
            }
            (error, _) => error,
        }
    }
}

impl Error {
    /// Why encryption could not be begun.
    pub(crate) fn of_tls(message: String, address: &Address) -> Self {
        let why = match &address.tls {
            Tls::Verified(authorities) => of_certificate(&message, address, authorities),
            Tls::Off | Tls::Required => None,
        };
        Self::Tls(why.unwrap_or(message))
    }
}

/// What is wrong with a certificate, if that is what the message is about.
fn of_certificate(message: &str, address: &Address, authorities: &Path) -> Option<String> {
    let (_, why) = message.split_once("invalid peer certificate: ")?;
    Some(of_certificate_text(why, address, authorities))
}

/// What is wrong with a certificate, in words for whoever has to mend it.
fn of_certificate_text(why: &str, address: &Address, authorities: &Path) -> String {
    let authorities = authorities.display();
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
            mysql::Error::DriverError(error) => Self::Lost(error.to_string()),
            mysql::Error::IoError(error) => Self::Lost(error.to_string()),
            mysql::Error::CodecError(error) => Self::Lost(error.to_string()),
            other => Self::Lost(other.to_string()),
        }
    }
}

impl From<wire::WireError> for Error {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Refused(error) => Self::Refused { code: error.code, message: error.message },
            error => Self::Protocol(error),
        }
    }
}
