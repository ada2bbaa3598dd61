//! Merges the connection options of several sources into one address.

use std::path::{Path, PathBuf};

use wire::CleartextPolicy;

use crate::connection_options::{ConnectionOptions, ConnectionProtocol, PasswordOption};
use crate::password_source::PasswordSource;
use crate::server_address::{PublicKeySource, ServerAddress};
use crate::server_link::CancelToken;
use crate::tls_request::{TlsRequest, strongest_policy};

/// Sources of connection options, the strongest first. An option of a stronger source overrides the same option of a
/// weaker source. For TLS, the strictest request applies.
#[derive(Clone, Debug, Default)]
pub struct OptionSources(Vec<(OptionOrigin, ConnectionOptions)>);

/// Kind of an option source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionOrigin {
    /// Command line.
    CommandLine,
    /// Address of the server.
    Address,
    /// `BINTIDE_…` environment variables, or bintide's settings file.
    Settings,
    /// MySQL's option files.
    OptionFiles,
    /// MySQL's environment variables, and a command's own defaults.
    Fallback,
}

/// Merged address, with the need for a password prompt.
#[derive(Clone, Debug)]
pub struct ResolvedAddress {
    /// Merged address.
    pub address: ServerAddress,
    /// Need for a password prompt on the terminal.
    pub prompt: PasswordPrompt,
}

/// Need for a password prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordPrompt {
    /// No prompt is needed.
    NotNeeded,
    /// The user must be asked for the password.
    Needed,
}

/// Error: the options cannot be merged into an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressResolutionError(String);

/// Default port of a server.
pub const DEFAULT_PORT: u16 = 3306;
/// Host name that stands for the Unix socket, as in MySQL's programs.
const LOCALHOST: &str = "localhost";
/// Default socket files of packaged servers. The first existing one is used.
const SOCKET_PATHS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/tmp/mysql.sock",
    "/var/lib/mysql/mysql.sock",
];

/// Host and port, or socket.
struct SocketOrHost {
    host: String,
    port: u16,
    socket: Option<PathBuf>,
}

impl OptionSources {
    /// Adds a source that is weaker than the earlier ones.
    #[must_use]
    pub fn with(mut self, origin: OptionOrigin, options: ConnectionOptions) -> Self {
        self.0.push((origin, options));
        self
    }

    /// Adds several sources of one kind, the strongest first.
    #[must_use]
    pub fn with_all(self, origin: OptionOrigin, all: impl Iterator<Item = ConnectionOptions>) -> Self {
        all.fold(self, |sources, options| sources.with(origin, options))
    }

    /// Returns whether a source other than the fallback names a server.
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

    /// Returns the user from the sources of these kinds.
    pub fn user(&self, origins: &[OptionOrigin]) -> Option<&str> {
        let mut counted = self.0.iter().filter(|(origin, _)| origins.contains(origin));
        counted.find_map(|(_, options)| options.user.as_deref())
    }

    /// Merges the options into an address.
    ///
    /// # Errors
    ///
    /// Fails if there is no user, if options contradict each other, or if their combination is impossible.
    pub fn resolve(&self) -> Result<ResolvedAddress, AddressResolutionError> {
        let user = self.first(|options| options.user.clone());
        let user = user.ok_or_else(|| fail("no user: set --user, or write USER@ in the address"))?;
        let (password, prompt) = match self.first(|options| options.password.clone()) {
            None => (PasswordSource::None, PasswordPrompt::NotNeeded),
            Some(PasswordOption::Source(source)) => (source, PasswordPrompt::NotNeeded),
            Some(PasswordOption::Prompt) => (PasswordSource::None, PasswordPrompt::Needed),
        };
        let SocketOrHost { host, port, socket } = self.socket_or_host()?;
        let requests: Vec<&TlsRequest> = self.0.iter().map(|(_, options)| &options.tls).collect();
        let tls = strongest_policy(&requests);
        tls.check().map_err(|error| fail(error.to_string()))?;
        let algorithms = self.first(|options| options.compression_algorithms.clone());
        let zstd_level = self.first(|options| options.zstd_level);
        let address = ServerAddress {
            user,
            password,
            host,
            port,
            socket,
            tls,
            public_key: self.public_key(),
            compressions: ConnectionOptions::compressions(algorithms.as_deref(), zstd_level),
            cleartext: self.first(|options| options.cleartext).unwrap_or(CleartextPolicy::Refuse),
            timeout: self.first(|options| options.timeout).unwrap_or(ServerAddress::DEFAULT_TIMEOUT),
            cancel: CancelToken::default(),
        };
        Ok(ResolvedAddress { address, prompt })
    }

    fn first<T>(&self, field: impl Fn(&ConnectionOptions) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|(_, options)| field(options))
    }

    /// Returns the public key's source. A key file takes precedence, whichever source names it, because it is safer.
    fn public_key(&self) -> PublicKeySource {
        match (self.first(|o| o.public_key_file.clone()), self.first(|o| o.asks_public_key)) {
            (Some(path), _) => PublicKeySource::File(path),
            (None, Some(true)) => PublicKeySource::Server,
            (None, _) => PublicKeySource::Unknown,
        }
    }

    /// Returns host and port, or the socket. As in MySQL's programs, `localhost` and an absent host mean the socket.
    /// But a host in an address, or a port outside option files, means TCP: otherwise the port would be silently
    /// ignored.
    fn socket_or_host(&self) -> Result<SocketOrHost, AddressResolutionError> {
        let port = self.first(|options| options.port).unwrap_or(DEFAULT_PORT);
        let tcp = |host: String| Ok(SocketOrHost { host, port, socket: None });
        let socket =
            |path: PathBuf| Ok(SocketOrHost { host: LOCALHOST.to_owned(), port, socket: Some(path) });
        let any_socket = || self.first(|options| options.socket.clone()).unwrap_or_else(default_socket);
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
            Some(ConnectionProtocol::Tcp) => {
                let host = host.or_else(|| self.first(|options| options.host.clone()));
                return tcp(host.unwrap_or_else(|| LOCALHOST.to_owned()));
            }
            Some(ConnectionProtocol::Socket) => {
                let is_remote = |host: &String| host != LOCALHOST && origin != Some(OptionOrigin::Fallback);
                return match host.filter(is_remote) {
                    Some(host) => Err(fail(format!(
                        "protocol SOCKET cannot be used with the host {host}: omit the host, or use protocol TCP"
                    ))),
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

/// Returns the socket file of a server on this machine if none is named.
pub fn default_socket() -> PathBuf {
    let found = SOCKET_PATHS.into_iter().find(|path| Path::new(path).exists());
    PathBuf::from(found.unwrap_or(SOCKET_PATHS[0]))
}

fn fail(reason: impl Into<String>) -> AddressResolutionError {
    AddressResolutionError(reason.into())
}

#[cfg(test)]
mod tests {
    use super::{OptionOrigin, OptionSources, PasswordPrompt};
    use crate::connection_options::ConnectionOptions;

    /// Parses `name=value` words, separated by blanks.
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
    fn addresses_are_combined_by_precedence() {
        let check = |texts: [&str; 3], expected: &str| {
            let address = sources(texts).resolve().unwrap().address;
            assert_eq!(address.to_string(), expected, "{texts:?}");
        };
        check(["", "mysql://u@h", ""], "mysql://u@h:3306/");
        check(["", "mysql://localhost:7", ""], "mysql://login@localhost:7/");
        check(["", "mysql://u@x/?socket=/s", ""], "mysql://u@localhost/?socket=/s");
        // An address overrides option files.
        let file = "user=f host=h port=7";
        check(["", "mysql://", file], "mysql://f@h:7/");
        check(["", "mysql://other/", file], "mysql://f@other:7/");
        check(["", "mysql://u@other:8/", file], "mysql://u@other:8/");
        check(["", "mysql:///?socket=/s", file], "mysql://f@localhost/?socket=/s");
        check(["", "mysql://", "user=f socket=/s"], "mysql://f@localhost/?socket=/s");
        check(["", "mysql://other/", "user=f socket=/s"], "mysql://f@other:3306/");
        check(["", "mysql://", "host=h socket=/s"], "mysql://login@h:3306/");
        check(["", "mysql://", "host=localhost port=7 socket=/s"], "mysql://login@localhost/?socket=/s");
        // A command line overrides an address.
        check(["user=c", "mysql://u@h:7/", ""], "mysql://c@h:7/");
        check(["host=c", "mysql://u@h:7/", ""], "mysql://u@c:7/");
        check(["socket=/c", "mysql://u@h:7/", ""], "mysql://u@localhost/?socket=/c");
        check(["host=localhost socket=/c", "mysql://", ""], "mysql://login@localhost/?socket=/c");
        check(["host=localhost", "mysql://", "socket=/s"], "mysql://login@localhost/?socket=/s");
        check(["host=h socket=/c", "mysql://", ""], "mysql://login@h:3306/");
        // A port outside option files is never ignored.
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
    fn passwords_are_combined_by_precedence() {
        let check = |texts: [&str; 3], expected: &str, prompt: PasswordPrompt| {
            let found = sources(texts).resolve().unwrap();
            let password = found.address.password.read(&found.address.cancel).unwrap();
            assert_eq!((password.as_str(), found.prompt), (expected, prompt), "{texts:?}");
        };
        check(["", "mysql://u@h", ""], "", PasswordPrompt::NotNeeded);
        check(["", "mysql://u:a@h", "password=f"], "a", PasswordPrompt::NotNeeded);
        check(["password=c", "mysql://u:a@h", "password=f"], "c", PasswordPrompt::NotNeeded);
        check(["password", "mysql://u:a@h", "password=f"], "", PasswordPrompt::Needed);
        check(["", "mysql://u@h", "password=f"], "f", PasswordPrompt::NotNeeded);
        check(["password-command=pwd", "mysql://u:a@h/?password=b", ""], &here(), PasswordPrompt::NotNeeded);
    }

    #[test]
    fn conflicting_options_are_errors() {
        let check = |texts: [&str; 3], expected: &str| {
            let error = sources(texts).resolve().unwrap_err().to_string();
            assert!(error.contains(expected), "{texts:?}: {error}");
        };
        check(
            ["protocol=socket", "mysql://h", ""],
            "protocol SOCKET cannot be used with the host h: omit the host",
        );
        check(["", "mysql://h/?ssl-mode=VERIFY_CA", ""], "CA certificate is required");
        check(["", "mysql://h", "ssl-mode=VERIFY_IDENTITY"], "CA certificate is required");
        check(["ssl-crl=/list", "mysql://h", ""], "CA certificate is required");
    }
}
