//! Address of a server: host or socket, account, and connection settings.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use wire::{CleartextPolicy, PacketCompression, ServerKeySource, WireError};

use crate::connection_options::ConnectionOptions;
use crate::error::ConnectionError;
use crate::option_sources::{OptionOrigin, OptionSources};
use crate::password_source::PasswordSource;
use crate::server_link::CancelToken;
use crate::tls_policy::{SslMode, TlsPolicy};

/// Address of a server: host or socket, account, and connection settings.
#[derive(Clone)]
pub struct ServerAddress {
    /// Name of the account.
    pub user: String,
    /// Source of the account's password. Never shown.
    pub password: PasswordSource,
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Unix socket file, used instead of host and port.
    pub socket: Option<PathBuf>,
    /// Encryption of the connection.
    pub tls: TlsPolicy,
    /// Public key that encrypts the password if the connection is not encrypted.
    pub public_key: PublicKeySource,
    /// Accepted compressions of packets (`None`: not compressed), the best first.
    pub compressions: Vec<Option<PacketCompression>>,
    /// Permission for the server to request the cleartext password over TLS.
    pub cleartext: CleartextPolicy,
    /// Maximum silence of a server that is not running a statement. After a longer silence, the connection is closed.
    pub timeout: Duration,
    /// Cancels the waits of connections: for a login immediately, for the answer to a statement after a second.
    pub cancel: CancelToken,
}

/// Source of the RSA public key that encrypts a password sent over TCP without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PublicKeySource {
    /// No key: the password is not sent.
    #[default]
    Unknown,
    /// The server sends the key. A man in the middle can send another key, and read the password.
    Server,
    /// The key is in this file (PEM).
    File(PathBuf),
}

/// Error: a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct AddressError {
    reason: String,
}

impl ServerAddress {
    /// Default of [`ServerAddress::timeout`]: longer than a server takes to restart.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

    /// Parses an address, with the defaults of MySQL's programs.
    ///
    /// # Errors
    ///
    /// Fails if the text is not an address, lacks a user, lacks both host and socket, or has an unknown option.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let address = ConnectionOptions::of_address(text)?;
        if address.host.is_none() && address.socket.is_none() {
            return Err(AddressError::new("the address has no host"));
        }
        let sources = OptionSources::default().with(OptionOrigin::Address, address);
        sources.resolve().map(|found| found.address).map_err(|error| AddressError::new(error.to_string()))
    }

    /// Returns the maximum silence of the server; `None` for a Unix socket, which has no limit.
    pub(crate) fn silence_max(&self) -> Option<Duration> {
        self.socket.is_none().then_some(self.timeout)
    }

    /// Returns whether the connection is plaintext TCP if the server does not offer TLS.
    fn may_be_plaintext(&self) -> bool {
        self.socket.is_none() && self.tls.mode <= SslMode::Preferred
    }

    /// Returns the key that encrypts the password. Reads the key's file only if the password may need it.
    pub(crate) fn server_key(&self, password: &str) -> Result<ServerKeySource, ConnectionError> {
        match &self.public_key {
            PublicKeySource::Server => Ok(ServerKeySource::Ask),
            PublicKeySource::File(path) if self.may_be_plaintext() => {
                let unusable =
                    |reason: String| ConnectionError::PublicKey { path: path.display().to_string(), reason };
                let key = fs::read(path).map_err(|error| unusable(error.to_string()))?;
                ServerKeySource::known(key, password.as_bytes()).map_err(|error| match error {
                    WireError::ServerKey { reason } => unusable(reason),
                    error => unusable(error.to_string()),
                })
            }
            PublicKeySource::Unknown | PublicKeySource::File(_) => Ok(ServerKeySource::Refuse),
        }
    }

    /// Returns the heartbeat interval for a server that sends its log: a fraction of the timeout, so that some
    /// heartbeats may be missed. Short, because the first heartbeat shows that the source has sent everything.
    pub fn heartbeat_interval(&self) -> Duration {
        const MAX: Duration = Duration::from_secs(5);
        /// Number of heartbeats within the timeout.
        const MISSED: u32 = 4;
        (self.timeout / MISSED).min(MAX)
    }

    /// Returns the host and port, or the socket.
    pub fn endpoint(&self) -> String {
        match &self.socket {
            Some(socket) => socket.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Omits the password.
impl fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(out, "mysql://{}@localhost/?socket={}", self.user, socket.display()),
            None => write!(out, "mysql://{}@{}:{}/", self.user, self.host, self.port),
        }
    }
}

/// Same text as [`Display`](fmt::Display), which never shows a password.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl AddressError {
    /// Creates an error with this reason, which must not contain the user or password.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;

    #[test]
    fn addresses() {
        let check = |text: &str, shown: &str, password: Option<&str>| {
            let address = ServerAddress::parse(text).unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.password.read(&address.cancel).unwrap().as_str()),
                (shown, password.unwrap_or_default()),
                "{text}"
            );
            assert_eq!(format!("{address:?}"), shown);
        };
        check("mysql://root@localhost", "mysql://root@localhost:3306/", None);
        check("mysql://root@localhost:3307/", "mysql://root@localhost:3307/", None);
        check("mysql://r%40t:s%3a@[::1]:1", "mysql://r@t@::1:1/", Some("s:"));
        check("mysql://r@x/?socket=/run/my.sock", "mysql://r@localhost/?socket=/run/my.sock", None);
        check("mysql://r@x?tls=required&tls-ca=ca.pem", "mysql://r@x:3306/", None);
    }

    #[test]
    fn invalid_addresses() {
        let check = |text: &str, expected: &str| {
            let error = ServerAddress::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        };
        check("root@localhost", "the address does not start with mysql://");
        check("mysql://localhost", "no user: set --user");
        check("mysql://root@:1", "the address has no host");
        check("mysql://root@h:x", "x is not a port number");
        check("mysql://root@h/shop", "shop names a database");
        check("mysql://root@h/?odd=1", "odd is not a connection option");
        check(
            "mysql://root@h/?sslmode=REQUIRED",
            "sslmode is not a connection option (did you mean ssl-mode?)",
        );
        check("mysql://root@h/?tls=maybe", "tls is maybe");
        check("mysql://root@h/?timeout=0", "timeout is 0");
        check("mysql://root@h/?timeout=1m", "timeout is 1m");
    }
}
