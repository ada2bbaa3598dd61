//! Which server, and as whom: `mysql://user@host:port/?name=value`.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use wire::ServerKey;

use crate::defaults::Defaults;
use crate::error::Error;
use crate::link::Cancel;
use crate::tls_policy::{SslMode, TlsPolicy};

/// Which server, and as whom.
#[derive(Clone)]
pub struct Address {
    /// The account's name.
    pub user: String,
    /// Its password, if it is in the address or was found elsewhere. Never shown.
    pub password: Option<String>,
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
    /// How long the server may be silent, if it is not still at work, until it is given up.
    pub timeout: Duration,
    /// Ends the wait for a connection to be made.
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

/// Where a server listens unless it is told otherwise.
const PORT: u16 = 3306;

impl Address {
    /// How long a server may be silent unless it is told otherwise: longer than it takes to start one anew.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Reads an address.
    ///
    /// # Errors
    ///
    /// When the text is none, or holds an option that nobody knows.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        Self::parse_with(text, &Defaults::default())
    }

    /// Reads an address; what it does not say is as these have it. Then user and host need not be there.
    ///
    /// # Errors
    ///
    /// As [`Address::parse`].
    pub fn parse_with(text: &str, defaults: &Defaults) -> Result<Self, AddressError> {
        let rest = text.strip_prefix("mysql://").ok_or_else(|| fail("it does not start with mysql://"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !database.is_empty() {
            return Err(fail(format!("{database} names a database, and logs name their own")));
        }
        let (account, place) = match (authority.rsplit_once('@'), &defaults.user) {
            (Some((account, place)), _) => (Some(account), place),
            (None, Some(_)) => (None, authority),
            (None, None) => return Err(fail("it names no user")),
        };
        let (user, password) = match account.map(|account| account.split_once(':').ok_or(account)) {
            Some(Ok((user, password))) => (decode(user)?, Some(decode(password)?)),
            Some(Err(user)) => (decode(user)?, None),
            None => (defaults.user.clone().unwrap_or_default(), None),
        };
        let password = password.or_else(|| defaults.password.clone());
        let port = defaults.port.unwrap_or(PORT);
        let socket = defaults.socket.clone().filter(|_| place.is_empty());
        let is_placed = socket.is_some() || options.contains("socket=");
        let (host, port) = match (place.is_empty(), &defaults.host) {
            (true, Some(host)) => (host.clone(), port),
            (true, None) if is_placed => ("localhost".to_owned(), port),
            _ => host_and_port(place, port)?,
        };
        let tls = defaults.tls.clone();
        let public_key = defaults.public_key.clone();
        let mut address = Self {
            user,
            password,
            host,
            port,
            socket,
            tls,
            public_key,
            timeout: Self::TIMEOUT,
            cancel: Cancel::default(),
        };
        let mut said = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            address.set(option, &mut said)?;
        }
        match said {
            // The address counts for more than a file, but what it asks for itself it gets.
            Some(SslMode::Disabled) => address.tls.mode = SslMode::Disabled,
            Some(mode) => address.tls.require(mode),
            None => {}
        }
        Ok(address)
    }

    /// How long the server may be silent; `None` if it is on this machine, behind a socket, which is never silent.
    pub(crate) fn silence_max(&self) -> Option<Duration> {
        self.socket.is_none().then_some(self.timeout)
    }

    /// Can others read what goes over the connection, if the server does not offer TLS?
    fn is_open(&self) -> bool {
        self.socket.is_none() && self.tls.mode <= SslMode::Preferred
    }

    /// Where the key comes from that the password is encrypted by, read if it is in a file, and needed.
    pub(crate) fn server_key(&self) -> Result<ServerKey, Error> {
        match &self.public_key {
            PublicKey::OfServer => Ok(ServerKey::Ask),
            PublicKey::File(path) if self.is_open() => {
                let unusable = |reason: String| Error::PublicKey { path: path.display().to_string(), reason };
                let key = fs::read(path).map_err(|error| unusable(error.to_string()))?;
                let password = self.password.as_deref().unwrap_or_default();
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

    /// Takes one option. `said` is the strongest mode that those before asked for.
    fn set(&mut self, option: &str, said: &mut Option<SslMode>) -> Result<(), AddressError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decode(value)?;
        match (name, value.as_str()) {
            ("socket", _) => self.socket = Some(PathBuf::from(value)),
            ("tls", "off") => *said = (*said).max(Some(SslMode::Disabled)),
            ("tls", "required") => *said = (*said).max(Some(SslMode::Required)),
            ("tls-ca", _) => {
                self.tls.authorities = Some(PathBuf::from(value));
                *said = Some(SslMode::VerifyIdentity);
            }
            ("tls", _) => return Err(fail(format!("tls is {value}, and can be off or required"))),
            ("timeout", seconds) => match seconds.parse() {
                Ok(seconds) if seconds > 0 => self.timeout = Duration::from_secs(seconds),
                _ => return Err(fail(format!("timeout is {value}, and is a number of seconds"))),
            },
            _ => return Err(fail(format!("{name} is no option: socket, tls, tls-ca and timeout are"))),
        }
        Ok(())
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

fn host_and_port(place: &str, default: u16) -> Result<(String, u16), AddressError> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = match port {
        None => default,
        Some(port) => port.parse().map_err(|_| fail(format!("{port} is no port")))?,
    };
    match host.is_empty() {
        true => Err(fail("it names no host")),
        false => Ok((decode(host)?, port)),
    }
}

fn decode(text: &str) -> Result<String, AddressError> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| fail("a part of it is not UTF-8"))?.into_owned())
}

fn fail(reason: impl Into<String>) -> AddressError {
    AddressError { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::Address;
    use crate::defaults::Defaults;
    use crate::tls_policy::{SslMode, TlsPolicy};

    #[test]
    fn the_strongest_wish_for_encryption_holds() {
        let check = |options: &str, file: TlsPolicy, wanted: SslMode, authorities: Option<&str>| {
            let defaults = Defaults { tls: file, ..Defaults::default() };
            let address = Address::parse_with(&format!("mysql://r@h/?{options}"), &defaults).unwrap();
            let found = (address.tls.mode, address.tls.authorities);
            assert_eq!(found, (wanted, authorities.map(Into::into)), "{options}");
        };
        let none = TlsPolicy::default;
        let verify_ca = || TlsPolicy { mode: SslMode::VerifyCa, ..TlsPolicy::verify_identity("/ca") };
        check("", none(), SslMode::Preferred, None);
        check("tls=off", none(), SslMode::Disabled, None);
        check("tls=required", none(), SslMode::Required, None);
        for options in
            ["tls-ca=/own", "tls-ca=/own&tls=required", "tls=required&tls-ca=/own", "tls-ca=/own&tls=off"]
        {
            check(options, none(), SslMode::VerifyIdentity, Some("/own"));
        }
        check("", verify_ca(), SslMode::VerifyCa, Some("/ca"));
        check("tls=required", verify_ca(), SslMode::VerifyCa, Some("/ca"));
        check("tls-ca=/own", verify_ca(), SslMode::VerifyIdentity, Some("/own"));
        check("tls=off", verify_ca(), SslMode::Disabled, Some("/ca"));
    }

    #[test]
    fn addresses() {
        let check = |text: &str, shown: &str, password: Option<&str>| {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.password.as_deref()),
                (shown, password),
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
        check("mysql://localhost", "it names no user");
        check("mysql://root@:1", "it names no host");
        check("mysql://root@h:x", "x is no port");
        check("mysql://root@h/shop", "shop names a database");
        check("mysql://root@h/?compress=1", "compress is no option");
        check("mysql://root@h/?tls=maybe", "tls is maybe");
        check("mysql://root@h/?timeout=0", "timeout is 0");
        check("mysql://root@h/?timeout=1m", "timeout is 1m");
    }
}
