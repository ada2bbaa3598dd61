//! One address out of what several places say of a connection.

use std::path::{Path, PathBuf};

use wire::Cleartext;

use crate::address::{Address, PublicKey};
use crate::connection_options::{ConnectionOptions, PasswordOption, Protocol};
use crate::link::Cancel;
use crate::password::PasswordSource;
use crate::tls_request::{TlsRequest, strongest_policy};

/// The places that say how to connect, the strongest first. A stronger place overrides a weaker one, option by option; of
/// TLS, the strongest request holds.
#[derive(Clone, Debug, Default)]
pub struct OptionSources(Vec<(OptionOrigin, ConnectionOptions)>);

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionOrigin {
    /// A command line.
    CommandLine,
    /// The address of the server.
    Address,
    /// `BINTIDE_…` in the environment, or bintide's settings file.
    Settings,
    /// MySQL's option files.
    OptionFiles,
    /// MySQL's variables in the environment, and a command's own defaults.
    Fallback,
}

/// The address that was made out, and whether the user is to be asked for its password.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// The address.
    pub address: Address,
    /// Whether its password is to be asked for on the terminal.
    pub prompt: Prompt,
}

/// Whether the user is asked for a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// No.
    NotWanted,
    /// Yes.
    Wanted,
}

/// The options cannot be made an address of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolutionError(String);

/// The port of a server, unless it is given.
const PORT: u16 = 3306;
/// The host that stands for a socket, as in MySQL's programs.
const LOCALHOST: &str = "localhost";
/// Socket files of packaged servers. The first that exists is taken, unless a socket is given.
const SOCKETS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/tmp/mysql.sock",
    "/var/lib/mysql/mysql.sock",
];

/// Host, port and socket.
struct Place {
    host: String,
    port: u16,
    socket: Option<PathBuf>,
}

impl OptionSources {
    /// Adds a place that is weaker than those before.
    #[must_use]
    pub fn with(mut self, origin: OptionOrigin, options: ConnectionOptions) -> Self {
        self.0.push((origin, options));
        self
    }

    /// Does any place but the fallback name a server?
    pub fn names_server(&self) -> bool {
        self.0.iter().any(|(origin, options)| match origin {
            OptionOrigin::Fallback => false,
            OptionOrigin::OptionFiles => options.host.is_some() || options.socket.is_some(),
            _ => {
                options.host.is_some()
                    || options.socket.is_some()
                    || options.port.is_some()
                    || options.protocol.is_some()
            }
        })
    }

    /// Returns the user that places of these kinds name.
    pub fn user(&self, origins: &[OptionOrigin]) -> Option<&str> {
        let mut counted = self.0.iter().filter(|(origin, _)| origins.contains(origin));
        counted.find_map(|(_, options)| options.user.as_deref())
    }

    /// Makes out the address.
    ///
    /// # Errors
    ///
    /// When no user is named, or options contradict each other, or something that is asked for cannot be had.
    pub fn resolve(&self) -> Result<Resolution, ResolutionError> {
        let user = self.first(|options| options.user.clone());
        let user = user.ok_or_else(|| fail("no user is given: set --user, or write USER@ in the address"))?;
        let (password, prompt) = match self.first(|options| options.password.clone()) {
            None => (PasswordSource::None, Prompt::NotWanted),
            Some(PasswordOption::Source(source)) => (source, Prompt::NotWanted),
            Some(PasswordOption::Prompt) => (PasswordSource::None, Prompt::Wanted),
        };
        let Place { host, port, socket } = self.place()?;
        let requests: Vec<&TlsRequest> = self.0.iter().map(|(_, options)| &options.tls).collect();
        let tls = strongest_policy(&requests);
        tls.check().map_err(|error| fail(error.to_string()))?;
        let algorithms = self.first(|options| options.compression_algorithms.clone());
        let zstd_level = self.first(|options| options.zstd_level);
        let address = Address {
            user,
            password,
            host,
            port,
            socket,
            tls,
            public_key: self.public_key(),
            compressions: ConnectionOptions::compressions(algorithms.as_deref(), zstd_level),
            cleartext: self.first(|options| options.cleartext).unwrap_or(Cleartext::Refuse),
            timeout: self.first(|options| options.timeout).unwrap_or(Address::TIMEOUT),
            cancel: Cancel::default(),
        };
        Ok(Resolution { address, prompt })
    }

    fn first<T>(&self, field: impl Fn(&ConnectionOptions) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|(_, options)| field(options))
    }

    /// A file with the key is the surer way, wherever it is named.
    fn public_key(&self) -> PublicKey {
        match (self.first(|o| o.public_key_file.clone()), self.first(|o| o.asks_public_key)) {
            (Some(path), _) => PublicKey::File(path),
            (None, Some(true)) => PublicKey::OfServer,
            (None, _) => PublicKey::Unknown,
        }
    }

    /// As in MySQL's programs, `localhost` and no host at all stand for the socket. But a host in an address, and a port
    /// that is given outside of option files, stand for TCP: else a port would be ignored in silence.
    fn place(&self) -> Result<Place, ResolutionError> {
        let port = self.first(|options| options.port).unwrap_or(PORT);
        let tcp = |host: String| Ok(Place { host, port, socket: None });
        let socket = |path: PathBuf| Ok(Place { host: LOCALHOST.to_owned(), port, socket: Some(path) });
        let any_socket = || self.first(|options| options.socket.clone()).unwrap_or_else(usual_socket);
        let is_strong =
            |origin: OptionOrigin| !matches!(origin, OptionOrigin::OptionFiles | OptionOrigin::Fallback);
        let named_at =
            self.0.iter().position(|(_, options)| options.host.is_some() || options.socket.is_some());
        let port_at =
            self.0.iter().position(|(origin, options)| is_strong(*origin) && options.port.is_some());
        let named = named_at.and_then(|at| self.0.get(at));
        let origin = named.map(|(origin, _)| *origin);
        let host = named.and_then(|(_, options)| options.host.clone());
        match self.first(|options| options.protocol) {
            Some(Protocol::Tcp) => {
                let host = host.or_else(|| self.first(|options| options.host.clone()));
                return tcp(host.unwrap_or_else(|| LOCALHOST.to_owned()));
            }
            Some(Protocol::Socket) => {
                let is_remote = |host: &String| host != LOCALHOST && origin != Some(OptionOrigin::Fallback);
                return match host.filter(is_remote) {
                    Some(host) => {
                        Err(fail(format!("protocol SOCKET connects to this machine only, not to {host}")))
                    }
                    None => socket(any_socket()),
                };
            }
            None => {}
        }
        let named_socket = named.and_then(|(_, options)| options.socket.clone());
        match (host, named_socket) {
            (Some(host), None) if origin == Some(OptionOrigin::Address) => tcp(host),
            (Some(host), _) if origin != Some(OptionOrigin::Address) && host != LOCALHOST => tcp(host),
            (_, Some(path)) if port_at.is_none() || port_at >= named_at => socket(path),
            (host, _) if port_at.is_some() => tcp(host.unwrap_or_else(|| "127.0.0.1".to_owned())),
            _ => socket(any_socket()),
        }
    }
}

fn usual_socket() -> PathBuf {
    let found = SOCKETS.into_iter().find(|path| Path::new(path).exists());
    PathBuf::from(found.unwrap_or(SOCKETS[0]))
}

fn fail(reason: impl Into<String>) -> ResolutionError {
    ResolutionError(reason.into())
}

#[cfg(test)]
mod tests {
    use super::{OptionOrigin, OptionSources, Prompt};
    use crate::connection_options::ConnectionOptions;

    /// Reads `name=value`, with blanks between.
    fn options(text: &str) -> ConnectionOptions {
        let mut options = ConnectionOptions::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            options.set(name, value).unwrap();
        }
        options
    }

    fn sources([command_line, address, option_files]: [&str; 3]) -> OptionSources {
        OptionSources::default()
            .with(OptionOrigin::CommandLine, options(command_line))
            .with(OptionOrigin::Address, ConnectionOptions::of_address(address).unwrap())
            .with(OptionOrigin::OptionFiles, options(option_files))
            .with(OptionOrigin::Fallback, options("user=login"))
    }

    #[test]
    fn places() {
        let check = |places: [&str; 3], wanted: &str| {
            let address = sources(places).resolve().unwrap().address;
            assert_eq!(address.to_string(), wanted, "{places:?}");
        };
        check(["", "mysql://u@h", ""], "mysql://u@h:3306/");
        check(["", "mysql://localhost:7", ""], "mysql://login@localhost:7/");
        check(["", "mysql://u@x/?socket=/s", ""], "mysql://u@localhost/?socket=/s");
        // An address names more than an option file.
        let file = "user=f host=h port=7";
        check(["", "mysql://", file], "mysql://f@h:7/");
        check(["", "mysql://other/", file], "mysql://f@other:7/");
        check(["", "mysql://u@other:8/", file], "mysql://u@other:8/");
        check(["", "mysql:///?socket=/s", file], "mysql://f@localhost/?socket=/s");
        check(["", "mysql://", "user=f socket=/s"], "mysql://f@localhost/?socket=/s");
        check(["", "mysql://other/", "user=f socket=/s"], "mysql://f@other:3306/");
        check(["", "mysql://", "host=h socket=/s"], "mysql://login@h:3306/");
        check(["", "mysql://", "host=localhost port=7 socket=/s"], "mysql://login@localhost/?socket=/s");
        // A command line names more than an address.
        check(["user=c", "mysql://u@h:7/", ""], "mysql://c@h:7/");
        check(["host=c", "mysql://u@h:7/", ""], "mysql://u@c:7/");
        check(["socket=/c", "mysql://u@h:7/", ""], "mysql://u@localhost/?socket=/c");
        check(["host=localhost socket=/c", "mysql://", ""], "mysql://login@localhost/?socket=/c");
        check(["host=localhost", "mysql://", "socket=/s"], "mysql://login@localhost/?socket=/s");
        check(["host=h socket=/c", "mysql://", ""], "mysql://login@h:3306/");
        // A port outside of option files is never ignored.
        check(["host=localhost port=7", "mysql://", "socket=/s"], "mysql://login@localhost:7/");
        check(["port=7", "mysql://", "socket=/s"], "mysql://login@127.0.0.1:7/");
        check(["port=7 socket=/c", "mysql://", ""], "mysql://login@localhost/?socket=/c");
        check(["port=7", "mysql://", ""], "mysql://login@127.0.0.1:7/");
        check(["protocol=tcp", "mysql://", "socket=/s"], "mysql://login@localhost:3306/");
        check(
            ["protocol=socket socket=/c", "mysql://", "host=localhost"],
            "mysql://login@localhost/?socket=/c",
        );
    }

    fn here() -> String {
        std::env::current_dir().unwrap().display().to_string()
    }

    #[test]
    fn passwords() {
        let check = |places: [&str; 3], wanted: &str, prompt: Prompt| {
            let found = sources(places).resolve().unwrap();
            let password = found.address.password.read(&found.address.cancel).unwrap();
            assert_eq!((password.as_str(), found.prompt), (wanted, prompt), "{places:?}");
        };
        check(["", "mysql://u@h", ""], "", Prompt::NotWanted);
        check(["", "mysql://u:a@h", "password=f"], "a", Prompt::NotWanted);
        check(["password=c", "mysql://u:a@h", "password=f"], "c", Prompt::NotWanted);
        check(["password", "mysql://u:a@h", "password=f"], "", Prompt::Wanted);
        check(["", "mysql://u@h", "password=f"], "f", Prompt::NotWanted);
        check(["password-command=pwd", "mysql://u:a@h/?password=b", ""], &here(), Prompt::NotWanted);
    }

    #[test]
    fn what_cannot_be_had() {
        let check = |places: [&str; 3], wanted: &str| {
            let error = sources(places).resolve().unwrap_err().to_string();
            assert!(error.contains(wanted), "{places:?}: {error}");
        };
        check(
            ["protocol=socket", "mysql://h", ""],
            "protocol SOCKET connects to this machine only, not to h",
        );
        check(["", "mysql://h/?ssl-mode=VERIFY_CA", ""], "CA certificate is required");
        check(["", "mysql://h", "ssl-mode=VERIFY_IDENTITY"], "CA certificate is required");
        check(["ssl-crl=/list", "mysql://h", ""], "CA certificate is required");
    }
}
