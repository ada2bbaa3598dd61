//! The server to connect to, the account, and how.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use wire::{Cleartext, Compression, ServerKey};

use crate::connection_options::ConnectionOptions;
use crate::error::Error;
use crate::link::Cancel;
use crate::password::PasswordSource;
use crate::resolution::{OptionOrigin, OptionSources};
use crate::tls_policy::{SslMode, TlsPolicy};

/// The server to connect to, the account, and how.
#[derive(Clone)]
pub struct Address {
    /// The account's name.
    pub user: String,
    /// Its password, or where that comes from. Never shown.
    pub password: PasswordSource,
    /// The host's name or number.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The socket to use in place of host and port.
    pub socket: Option<PathBuf>,
    /// How the connection is encrypted.
    pub tls: TlsPolicy,
    /// What a password is encrypted by where the connection is not.
    pub public_key: PublicKey,
    /// How packets are to be compressed (`None`: not at all), the best first.
    pub compressions: Vec<Option<Compression>>,
    /// Whether the server may ask for the password itself, over TLS.
    pub cleartext: Cleartext,
    /// How long the server may be silent, if it is not still at work, until it is given up.
    pub timeout: Duration,
    /// Cancels the waits of connections: for a login at once, for the answer to a statement after a second.
    pub cancel: Cancel,
}

/// Where the key comes from that a password is encrypted by which the server wants to see itself, over TCP without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PublicKey {
    /// From nowhere: such a password is not sent.
    #[default]
    Unknown,
    /// From the server. Whoever sits in between can send another, and read the password.
    OfServer,
    /// From this file (PEM).
    File(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; an address is mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=PATH")]
pub struct AddressError {
    reason: String,
}

impl Address {
    /// How long a server may be silent unless it is told otherwise: longer than it takes to start one anew.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Reads an address; what it does not say is as MySQL's programs have it.
    ///
    /// # Errors
    ///
    /// When the text is none, or names no user, or no host or socket, or holds an option that is not known.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let address = ConnectionOptions::of_address(text)?;
        if address.host.is_none() && address.socket.is_none() {
            return Err(AddressError::new("it names no host"));
        }
        let sources = OptionSources::default().with(OptionOrigin::Address, address);
        sources.resolve().map(|found| found.address).map_err(|error| AddressError::new(error.to_string()))
    }

    /// How long the server may be silent; `None` if it is on this machine, behind a socket, which is never silent.
    pub(crate) fn silence_max(&self) -> Option<Duration> {
        self.socket.is_none().then_some(self.timeout)
    }

    /// Tells whether others can read what goes over the connection if the server does not offer TLS.
    fn is_open(&self) -> bool {
        self.socket.is_none() && self.tls.mode <= SslMode::Preferred
    }

    /// Where the key comes from that the password is encrypted by, read if it is in a file, and needed.
    pub(crate) fn server_key(&self, password: &str) -> Result<ServerKey, Error> {
        match &self.public_key {
            PublicKey::OfServer => Ok(ServerKey::Ask),
            PublicKey::File(path) if self.is_open() => {
                let unusable = |reason: String| Error::PublicKey { path: path.display().to_string(), reason };
                let key = fs::read(path).map_err(|error| unusable(error.to_string()))?;
                ServerKey::known(key, password.as_bytes()).map_err(|error| unusable(error.to_string()))
            }
            PublicKey::Unknown | PublicKey::File(_) => Ok(ServerKey::Refuse),
        }
    }

    /// How long a server that sends its log, and has nothing to send, may take to give a sign of life: some may be missed
    /// before it is taken for lost.
    pub fn heartbeat(&self) -> Duration {
        const MAX: Duration = Duration::from_secs(15);
        /// How many may be missed.
        const MISSED: u32 = 4;
        (self.timeout / MISSED).min(MAX)
    }

    /// Where it is: its host and port, or its socket.
    pub fn place(&self) -> String {
        match &self.socket {
            Some(socket) => socket.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Without its password.
impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(out, "mysql://{}@localhost/?socket={}", self.user, socket.display()),
            None => write!(out, "mysql://{}@{}:{}/", self.user, self.host, self.port),
        }
    }
}

/// As [`Display`](fmt::Display): a password is never shown.
impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl AddressError {
    /// An address cannot be used for this reason, which shows nothing of its user or password.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses() {
        let check = |text: &str, shown: &str, password: Option<&str>| {
            let address = Address::parse(text).unwrap();
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
    fn what_is_no_address() {
        let check = |text: &str, wanted: &str| {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        };
        check("root@localhost", "it does not start with mysql://");
        check("mysql://localhost", "no user is given");
        check("mysql://root@:1", "it names no host");
        check("mysql://root@h:x", "x is not a port number");
        check("mysql://root@h/shop", "shop names a database");
        check("mysql://root@h/?odd=1", "odd is not a connection option");
        check("mysql://root@h/?tls=maybe", "tls is maybe");
        check("mysql://root@h/?timeout=0", "timeout is 0");
        check("mysql://root@h/?timeout=1m", "timeout is 1m");
    }
}
