//! Reading logs from a server: the interface to the code that connects.

/// Access to servers, one connection at a time. Errors are texts of MySQL's client library.
pub trait ServerAccess {
    /// Connects, and closes the connection before.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or refuses the account.
    fn connect(&mut self, connection: &RemoteServerOptions) -> Result<(), String>;

    /// Runs a statement, and returns the first value of its first row; empty if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses the statement, or the connection is lost.
    fn query(&mut self, sql: &str) -> Result<Vec<u8>, String>;

    /// Requests a log.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    fn request_log(&mut self, log: &LogRequest<'_>) -> Result<(), String>;

    /// Returns whether the next event has arrived.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost.
    fn has_more(&mut self) -> Result<bool, String>;

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the server reports an error, or the connection is lost.
    fn next(&mut self) -> Result<Option<&[u8]>, String>;
}

/// No access: every connection fails.
pub struct NoServerAccess;

impl ServerAccess for NoServerAccess {
    fn connect(&mut self, _: &RemoteServerOptions) -> Result<(), String> {
        Err("this program has no access to servers".to_owned())
    }

    fn query(&mut self, _: &str) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    fn request_log(&mut self, _: &LogRequest<'_>) -> Result<(), String> {
        Ok(())
    }

    fn has_more(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        Ok(None)
    }
}

/// Request for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest<'a> {
    /// The log's name.
    pub name: &'a [u8],
    /// Start position in the log; 4 is its first event.
    pub position: u64,
    /// Server id to register with; 0 for none.
    pub server_id: u32,
    /// Action of the server at the end of its last log.
    pub at_end: RemoteEndAction,
    /// GTIDs to exclude, encoded as in a Previous_gtids event, if the log is requested by GTID set.
    pub gtids: Option<&'a [u8]>,
}

/// Action of the server at the end of its last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteEndAction {
    /// It ends the stream.
    Stop,
    /// It waits for more events.
    Wait,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteProtocol {
    /// TCP.
    Tcp,
    /// A socket file.
    Socket,
    /// Pipe or shared memory, which exist only on Windows.
    WindowsOnly,
}

/// Encryption and verification of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteSslMode {
    /// Not encrypted.
    Disabled,
    /// Encrypted if the server supports it.
    Preferred,
    /// Encrypted, without verification.
    Required,
    /// Encrypted; a trusted CA must have signed the server's certificate.
    VerifyCa,
    /// As `VerifyCa`; the certificate must also name the host.
    VerifyIdentity,
}

/// Options of a connection, as given.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteServerOptions {
    /// Host; `None` for this machine.
    pub host: Option<Vec<u8>>,
    /// TCP port; 0 for the default.
    pub port: u16,
    /// Path of the socket file.
    pub socket: Option<Vec<u8>>,
    /// Transport.
    pub protocol: Option<RemoteProtocol>,
    /// Account.
    pub user: Option<Vec<u8>>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// Encryption and verification.
    pub ssl_mode: Option<RemoteSslMode>,
    /// Other TLS options.
    pub tls: RemoteTlsOptions,
    /// Local address to connect from.
    pub bind_address: Option<Vec<u8>>,
    /// Permission to request the server's RSA key, which encrypts passwords without TLS.
    pub get_server_public_key: bool,
    /// Path of the server's RSA key.
    pub server_public_key_path: Option<Vec<u8>>,
    /// `--compress`: compress the connection if the server supports it.
    pub compress: bool,
    /// Allowed compression algorithms, separated by commas.
    pub compression_algorithms: Option<Vec<u8>>,
    /// Compression level of zstd.
    pub zstd_level: u32,
}

impl RemoteServerOptions {
    /// Returns whether a CA is given together with an explicit SSL mode that does not verify certificates.
    pub(crate) const fn has_unused_ca(&self) -> bool {
        matches!(
            self.ssl_mode,
            Some(RemoteSslMode::Disabled | RemoteSslMode::Preferred | RemoteSslMode::Required)
        ) && (self.tls.ca.is_some() || self.tls.capath.is_some())
    }
}

/// TLS options of a connection, as given, except the SSL mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteTlsOptions {
    /// File of trusted CA certificates.
    pub ca: Option<Vec<u8>>,
    /// Directory of trusted CA certificates.
    pub capath: Option<Vec<u8>>,
    /// File of the client certificate.
    pub cert: Option<Vec<u8>>,
    /// File of the client certificate's key.
    pub key: Option<Vec<u8>>,
    /// File of certificate revocation lists.
    pub crl: Option<Vec<u8>>,
    /// Directory of certificate revocation lists.
    pub crlpath: Option<Vec<u8>>,
    /// Ciphers before TLS 1.3, separated by colons.
    pub cipher: Option<Vec<u8>>,
    /// Ciphersuites of TLS 1.3, separated by colons.
    pub ciphersuites: Option<Vec<u8>>,
    /// Versions of TLS, separated by commas.
    pub version: Option<Vec<u8>>,
    /// Server name to request (SNI).
    pub server_name: Option<Vec<u8>>,
}
